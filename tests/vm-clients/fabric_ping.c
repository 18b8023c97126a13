/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tries the fabric layer alone against a real server: NULL calls of NFSv3,
 * built by hand, and every way a connection can end.
 *
 *     tests/vm/run -- .../fabric_ping [-f FABRIC] [-v] [CASE...]
 *
 * Without CASE: all that leave the guest as it was. `removal` deletes the RDMA
 * device, so name it alone. Prints one line per case; exit status 0 if all
 * are as expected.
 *
 * One call:
 *
 *     post_send(sbuf i) ---> server ---> recv(rbuf j): xid checked, j posted again
 *        \-> sent(i)                          slot free when both have come
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "fabric/fabric.h"

#define WINDOW    32u           /* calls in flight; knfsd grants 64 */
#define RECVS     (WINDOW + 8)
#define MSG_BYTES 68u           /* 28 of transport header, 40 of RPC */
#define BUF_BYTES 4096u         /* each slot has one, and each receive is one */
#define STUCK_MS  60000u

static const struct fabric *fabric;
static struct fab_params params;

struct slot {
	char *buf;
	uint32_t xid;
	bool sent, replied, busy;
};

struct client {
	struct loop *loop;
	struct fab_conn *conn;
	struct arena_range mem;
	struct fab_mr mr;
	struct slot slot[WINDOW];
	struct loop_timer stuck, next;
	uint32_t recv_len;              /* of the posted receives */
	uint32_t xid;
	unsigned window, to_send, sends, recvs, credits;
	unsigned downs, late;           /* late: callbacks after close */
	int down_err;
	char why[256];
	unsigned close_after;           /* close inside the n-th recv; 0: do not */
	bool close_in_down, closed;
	uint64_t down_at;
	uint8_t peer_priv[FAB_PRIV_RECV_MAX];
	size_t peer_len;
};

static const char *case_name;

#define CHECK(cond, ...) \
	do { \
		if (!(cond)) { \
			printf("FAIL %s: %s:%d: %s: ", case_name, __FILE__, __LINE__, #cond); \
			printf(__VA_ARGS__); \
			putchar('\n'); \
			return 1; \
		} \
	} while (0)

static void put32(void *at, uint32_t v)
{
	v = htonl(v);
	memcpy(at, &v, 4);
}

static uint32_t get32(const void *at)
{
	uint32_t v;

	memcpy(&v, at, 4);
	return ntohl(v);
}

/* ---- A client -------------------------------------------------------------- */

static void close_conn(struct client *c)
{
	fabric->close(c->conn);
	c->closed = true;
	loop_stop(c->loop);
}

static int post_slot(struct client *c, struct slot *s)
{
	struct fab_sge sge[2];
	char *m = s->buf;

	memset(m, 0, MSG_BYTES);
	s->xid = ++c->xid;
	put32(m, s->xid);
	put32(m + 4, 1);                /* version */
	put32(m + 8, WINDOW);           /* credits asked for */
	put32(m + 28, s->xid);
	put32(m + 36, 2);               /* RPC version */
	put32(m + 40, 100003);
	put32(m + 44, 3);
	/* In two pieces, to see that gathering works. */
	sge[0] = (struct fab_sge){ m, 28, c->mr.lkey };
	sge[1] = (struct fab_sge){ m + 28, MSG_BYTES - 28, c->mr.lkey };
	s->busy = true;
	s->sent = s->replied = false;
	return fabric->post_send(c->conn, sge, 2, s);
}

static void pump(struct client *c)
{
	for (unsigned i = 0; i < c->window && c->to_send; i++) {
		if (c->slot[i].busy)
			continue;
		c->to_send--;
		if (post_slot(c, &c->slot[i]))
			return;         /* down follows */
	}
}

static void slot_step(struct client *c, struct slot *s)
{
	if (!s->sent || !s->replied)
		return;
	s->busy = false;
	pump(c);
	for (unsigned i = 0; i < WINDOW; i++)
		if (c->slot[i].busy)
			return;
	loop_stop(c->loop);
}

static void on_sent(void *ctx, void *cookie)
{
	struct client *c = ctx;
	struct slot *s = cookie;

	c->late += c->closed;
	c->sends++;
	s->sent = true;
	slot_step(c, s);
}

static int post_recv(struct client *c, void *buf)
{
	struct fab_sge sge = { buf, c->recv_len, c->mr.lkey };

	return fabric->post_recv(c->conn, &sge, buf);
}

static void on_recv(void *ctx, void *cookie, uint32_t len, bool inv, uint32_t rkey)
{
	struct client *c = ctx;
	const char *m = cookie;
	struct slot *s = NULL;

	c->late += c->closed;
	c->recvs++;
	for (unsigned i = 0; i < WINDOW; i++)
		if (c->slot[i].busy && !c->slot[i].replied && c->slot[i].xid == get32(m))
			s = &c->slot[i];
	/* REPLY, MSG_ACCEPTED, SUCCESS */
	if (!s || len < 52 || inv || get32(m + 4) != 1 || get32(m + 12) != 0 ||
	    get32(m + 28) != get32(m) || get32(m + 32) != 1 || get32(m + 36) != 0 ||
	    get32(m + 48) != 0) {
		printf("FAIL %s: a malformed reply of %u bytes, xid %u\n", case_name, len, get32(m));
		exit(1);
	}
	c->credits = get32(m + 8);
	s->replied = true;
	if (c->close_after && c->recvs == c->close_after) {
		close_conn(c);
		return;
	}
	if (post_recv(c, cookie) == 0)
		slot_step(c, s);
}

static void on_down(void *ctx, int err, const char *why)
{
	struct client *c = ctx;

	c->late += c->closed;
	c->downs++;
	c->down_err = err;
	c->down_at = mono_ns();
	snprintf(c->why, sizeof(c->why), "%s", why);
	if (c->close_in_down)
		close_conn(c);
	else
		loop_stop(c->loop);
}

static const struct fab_events events = {
	.recv = on_recv, .sent = on_sent, .down = on_down,
};

static void on_stuck(struct loop_timer *t)
{
	struct client *c = container_of(t, struct client, stuck);

	printf("FAIL %s: stuck: %u to send, %u sent, %u received, %u downs\n", case_name,
	       c->to_send, c->sends, c->recvs, c->downs);
	exit(1);
}

static void on_next(struct loop_timer *t)
{
	loop_stop(container_of(t, struct client, next)->loop);
}

/* Runs until loop_stop, at most ms (0: until something stops it). */
static void run(struct client *c, unsigned ms)
{
	loop_timer_set(c->loop, &c->stuck, STUCK_MS);
	if (ms)
		loop_timer_set(c->loop, &c->next, ms);
	loop_run(c->loop);
	loop_timer_clear(&c->stuck);
	loop_timer_clear(&c->next);
}

static void client_fini(struct client *c)
{
	loop_free(c->loop);
	arena_unmap(&c->mem);
}

/* Opens, registers, posts, connects; not attached yet. 0 or -errno. */
static int client_connect(struct client *c, uint32_t recv_len, struct errbuf *eb)
{
	static const uint8_t priv[8] = { 0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3 };
	char *buf;
	int err;

	memset(c, 0, sizeof(*c));
	c->recv_len = recv_len;
	c->window = 1;                  /* until the first reply */
	c->loop = loop_new(NULL);
	loop_timer_init(&c->stuck, on_stuck);
	loop_timer_init(&c->next, on_next);
	c->mem.len = (size_t)(WINDOW + RECVS) * BUF_BYTES;
	err = arena_map(&c->mem);
	if (err) {
		err_set(eb, err, "buffers: %s", strerror(-err));
		goto fail;
	}
	err = fabric->open(&params, &c->conn, eb);
	if (err)
		goto fail;
	err = fabric->reg(c->conn, c->mem.base, c->mem.len,
			  FAB_REMOTE_READ | FAB_REMOTE_WRITE, &c->mr, eb);
	buf = c->mem.base;
	for (unsigned i = 0; i < WINDOW; i++, buf += BUF_BYTES)
		c->slot[i].buf = buf;
	for (unsigned i = 0; !err && i < RECVS; i++, buf += BUF_BYTES)
		err = post_recv(c, buf);
	if (!err)
		err = fabric->connect(c->conn, priv, sizeof(priv), c->peer_priv, &c->peer_len, eb);
	if (!err)
		return 0;
	fabric->close(c->conn);
fail:
	client_fini(c);
	return err;
}

static int client_up(struct client *c)
{
	struct errbuf eb = { "" };
	int err = client_connect(c, BUF_BYTES, &eb);

	if (!err)
		err = fabric->attach(c->conn, c->loop, &events, c);
	if (err)
		printf("FAIL %s: %s (%s)\n", case_name, eb.text, strerror(-err));
	return err;
}

/* Sends n calls and waits for all replies. */
static void calls(struct client *c, unsigned n)
{
	c->to_send = n;
	pump(c);
	run(c, 0);
}

static int up_with_window(struct client *c)
{
	if (client_up(c))
		return 1;
	calls(c, 1);
	c->window = WINDOW < c->credits ? WINDOW : c->credits;
	CHECK(c->recvs == 1 && !c->downs, "first call: %s", c->why);
	return 0;
}

static void client_down(struct client *c)
{
	if (!c->closed)
		fabric->close(c->conn);
	client_fini(c);
}

static unsigned open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* ---- Cases ------------------------------------------------------------------ */

static int t_probe(void)
{
	struct errbuf eb = { "" };
	int err = fabric->probe(&params, &eb);

	CHECK(err == 0, "%d %s", err, eb.text);
	CHECK(!eb.text[0], "%s", eb.text);
	return 0;
}

static int t_null(void)
{
	struct client c;

	if (up_with_window(&c))
		return 1;
	printf("     %s, %u credits, %zu bytes of private data:", fabric->describe(c.conn),
	       c.credits, c.peer_len);
	for (size_t i = 0; i < 8 && i < c.peer_len; i++)
		printf(" %02x", c.peer_priv[i]);
	putchar('\n');
	CHECK(c.peer_len >= 8 && get32(c.peer_priv) == 0xf6ab0e18, "private data");
	CHECK(c.sends == 1, "%u", c.sends);
	client_down(&c);
	return 0;
}

static int t_many(void)
{
	struct client c;
	uint64_t start;

	if (up_with_window(&c))
		return 1;
	/* One by one, with sleeps between: a lost event would show as stuck. */
	c.window = 1;
	start = mono_ns();
	calls(&c, 2000);
	CHECK(c.recvs == 2001, "%u %s", c.recvs, c.why);
	printf("     one at a time: %llu us each;", (mono_ns() - start) / 2000000ull);
	for (int i = 0; i < 20; i++) {
		run(&c, 5);
		calls(&c, 1);
	}
	c.window = WINDOW;
	start = mono_ns();
	calls(&c, 20000);
	CHECK(c.recvs == 22021 && c.sends == 22021, "%u %u %s", c.recvs, c.sends, c.why);
	printf(" %u at a time: %llu us each\n", WINDOW, (mono_ns() - start) / 20000000ull);
	CHECK(!c.downs, "%s", c.why);
	client_down(&c);
	return 0;
}

/* The connection is closed in the middle of a batch of completions. */
static int t_close_in_recv(void)
{
	for (unsigned i = 1; i <= 60; i++) {
		struct client c;

		if (up_with_window(&c))
			return 1;
		c.close_after = 1 + i;
		calls(&c, 200);
		CHECK(c.closed && !c.downs, "%s", c.why);
		run(&c, 5);
		CHECK(!c.late, "%u callbacks after close", c.late);
		client_fini(&c);
	}
	return 0;
}

/* The receives are too short for a reply: the device fails the connection. */
static int t_long_message(void)
{
	for (int i = 0; i < 2; i++) {
		struct errbuf eb = { "" };
		struct client c;
		int err;

		err = client_connect(&c, 16, &eb);
		CHECK(!err, "%s", eb.text);
		CHECK(!fabric->attach(c.conn, c.loop, &events, &c), "attach");
		c.close_in_down = i;
		calls(&c, 1);
		/* rxe calls it a "local QP operation error". */
		CHECK(c.downs == 1 && (c.down_err == -EMSGSIZE || c.down_err == -EIO), "%u downs, %d %s", c.downs,
		      c.down_err, c.why);
		if (!i) {
			struct fab_sge sge = { c.mem.base, 16, c.mr.lkey };

			CHECK(fabric->post_send(c.conn, &sge, 1, &c) == -ENOTCONN, "post after down");
		}
		run(&c, 20);
		CHECK(c.downs == 1 && !c.late, "%u downs, %u late", c.downs, c.late);
		client_down(&c);
	}
	return 0;
}

/* Never attached, or never connected: closing must do. */
static int t_close_early(void)
{
	struct errbuf eb = { "" };
	struct fab_conn *conn;
	struct fab_mr mr;
	static char page[8192] __attribute__((aligned(4096)));
	struct client c;

	CHECK(fabric->open(&params, &conn, &eb) == 0, "%s", eb.text);
	fabric->close(conn);
	CHECK(fabric->open(&params, &conn, &eb) == 0, "%s", eb.text);
	CHECK(fabric->reg(conn, page, sizeof(page), 0, &mr, &eb) == 0, "%s", eb.text);
	CHECK(mr.addr == (uintptr_t)page && mr.base == page && mr.len == sizeof(page), "mr");
	fabric->dereg(conn, &mr);
	fabric->dereg(conn, &mr);       /* does no harm */
	CHECK(fabric->reg(conn, page, sizeof(page), 0, &mr, &eb) == 0, "%s", eb.text);
	fabric->close(conn);            /* with memory registered */
	CHECK(client_connect(&c, BUF_BYTES, &eb) == 0, "%s", eb.text);
	client_down(&c);
	return 0;
}

static int t_again(void)
{
	unsigned before = 0;

	for (int i = 0; i < 100; i++) {
		struct client c;

		if (up_with_window(&c))
			return 1;
		calls(&c, 50);
		CHECK(c.recvs == 51, "%u %s", c.recvs, c.why);
		client_down(&c);
		if (!i)
			before = open_files();
	}
	CHECK(open_files() == before, "%u files open, %u before", open_files(), before);
	return 0;
}

/* Several lanes and two connections in one loop: what they share is the device. */
static void *lane(void *arg)
{
	for (int i = 0; i < 20; i++) {
		struct client c;

		if (up_with_window(&c))
			return (void *)1;
		calls(&c, 300);
		client_down(&c);
		if (c.downs || c.recvs != 301)
			return (void *)1;
	}
	return NULL;
}

static int t_lanes(void)
{
	struct errbuf eb = { "" };
	struct client a, two;
	pthread_t th[3];
	void *bad;

	for (int i = 0; i < 3; i++)
		pthread_create(&th[i], NULL, lane, NULL);
	if (up_with_window(&a))
		return 1;
	CHECK(client_connect(&two, BUF_BYTES, &eb) == 0, "%s", eb.text);
	CHECK(fabric->attach(two.conn, a.loop, &events, &two) == 0, "attach to a's loop");
	two.to_send = 1;
	pump(&two);
	run(&a, 300);
	CHECK(two.recvs == 1 && !two.downs, "%u %s", two.recvs, two.why);
	calls(&a, 100);
	CHECK(a.recvs == 101, "%u %s", a.recvs, a.why);
	fabric->close(two.conn);
	client_fini(&two);
	client_down(&a);
	for (int i = 0; i < 3; i++) {
		pthread_join(th[i], &bad);
		CHECK(!bad, "lane %d", i);
	}
	return 0;
}

static int expect_failure(int want, unsigned most_ms)
{
	struct errbuf eb = { "" };
	uint64_t start = mono_ns();
	struct client c;
	unsigned ms;
	int err;

	err = client_connect(&c, BUF_BYTES, &eb);
	ms = (unsigned)((mono_ns() - start) / 1000000);
	CHECK(err < 0 && eb.text[0], "%d '%s'", err, eb.text);
	printf("     after %u ms: %s\n", ms, eb.text);
	CHECK(!want || err == want, "%s, not %s", strerror(-err), strerror(-want));
	CHECK(ms <= most_ms, "%u ms", ms);
	return 0;
}

static void set_address(struct sockaddr_storage *ss, const char *host, const char *port)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
	struct addrinfo *ai;
	int err = getaddrinfo(host, port, &hints, &ai);

	if (err) {
		fprintf(stderr, "fabric_ping: %s: %s\n", host, gai_strerror(err));
		exit(2);
	}
	memset(ss, 0, sizeof(*ss));
	memcpy(ss, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
}

static int t_refused(void)
{
	struct fab_params saved = params;
	char host[64];
	int bad;

	getnameinfo((struct sockaddr *)&params.server, sizeof(params.server), host, sizeof(host),
		    NULL, 0, NI_NUMERICHOST);
	set_address(&params.server, host, "20050");
	bad = expect_failure(-ECONNREFUSED, 3000);
	params = saved;
	return bad;
}

static int t_unreachable(void)
{
	static const struct { const char *server, *local; int err; } tries[] = {
		{ "10.0.0.99", NULL, 0 },               /* nobody has that address */
		{ "10.9.9.9", NULL, 0 },                /* no route */
		{ "127.0.0.1", NULL, -ENODEV },         /* no device there */
		{ "2001:db8::1", NULL, 0 },
		{ "10.0.0.1", "10.9.9.9", 0 },
		{ "10.0.0.1", "::1", -EAFNOSUPPORT },
	};
	struct fab_params saved = params;
	int bad = 0;

	params.timeout_ms = 4000;
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		set_address(&params.server, tries[i].server, "20049");
		if (tries[i].local)
			set_address(&params.local, tries[i].local, "0");
		bad |= expect_failure(tries[i].err, 4500);
		params.local = saved.local;
	}
	params = saved;
	return bad;
}

/* As an ordinary user: root's memory is not limited. */
static int t_memlock(void)
{
	struct rlimit old, low = { 131072, 131072 };
	uid_t uid = geteuid();
	int bad;

	getrlimit(RLIMIT_MEMLOCK, &old);
	if (!uid && seteuid(65534))
		return 1;
	low.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &low);
	bad = expect_failure(-ENOMEM, 2000);
	setrlimit(RLIMIT_MEMLOCK, &old);
	if (!uid && seteuid(0))
		return 1;
	return bad;
}

static int shell(const char *command)
{
	int status = system(command);

	if (status)
		printf("FAIL %s: %s: status %d\n", case_name, command, status);
	return status;
}

/* Somebody stops the server: it disconnects. */
static int t_server_stops(void)
{
	for (int i = 0; i < 2; i++) {
		struct client c;
		uint64_t start;
		int bad;

		if (up_with_window(&c))
			return 1;
		c.close_in_down = i;
		if (shell("vm-root vm-nfsd-restart 1 >/dev/null"))
			return 1;
		run(&c, 10000);
		CHECK(c.downs == 1, "%u downs", c.downs);
		printf("     %s (%s)\n", c.why, strerror(-c.down_err));
		run(&c, 20);
		CHECK(c.downs == 1 && !c.late, "%u downs, %u late", c.downs, c.late);
		start = mono_ns();
		client_down(&c);
		CHECK(mono_ns() - start < 1000000000ull, "closing is slow");
		/* And it can be reached again. */
		for (bad = 1; bad && mono_ns() - start < 15000000000ull; ) {
			struct errbuf eb = { "" };

			bad = client_connect(&c, BUF_BYTES, &eb);
			if (bad)
				usleep(200000);
		}
		CHECK(!bad, "cannot connect after the restart");
		client_down(&c);
	}
	return 0;
}

/* The link goes, and with it every answer. */
static int t_link(void)
{
	struct client c, d;
	uint64_t start;
	int bad;

	if (up_with_window(&c) || up_with_window(&d))
		return 1;
	if (shell("vm-root vm-link down"))
		return 1;
	start = mono_ns();
	/* d is closed while the link is down and nothing is in flight. */
	client_down(&d);
	printf("     closing an idle connection over a dead link: %llu ms\n",
	       (mono_ns() - start) / 1000000ull);
	bad = mono_ns() - start > 2000000000ull;
	start = mono_ns();
	c.to_send = 10;
	pump(&c);
	run(&c, 0);
	printf("     down after %llu ms: %s (%s)\n", (c.down_at - start) / 1000000ull, c.why,
	       strerror(-c.down_err));
	start = mono_ns();
	client_down(&c);
	printf("     closing a broken one: %llu ms\n", (mono_ns() - start) / 1000000ull);
	bad = bad || mono_ns() - start > 2000000000ull;
	start = mono_ns();
	bad = expect_failure(0, params.timeout_ms + 1000) || bad;
	if (shell("vm-root vm-link up"))
		return 1;
	CHECK(!bad, "closing is slow");
	CHECK(c.downs == 1 && !c.late, "%u downs, %u late", c.downs, c.late);
	if (up_with_window(&c))
		return 1;
	client_down(&c);
	return 0;
}

/* A call in flight, and the device is pulled. */
static int t_removal(void)
{
	struct client c, d;
	uint64_t start;

	if (up_with_window(&c) || up_with_window(&d))
		return 1;
	d.close_in_down = true;
	if (shell("vm-root sh -c 'rdma link delete rxe0 &'"))
		return 1;
	run(&c, 10000);
	run(&d, 10000);
	CHECK(c.downs == 1 && d.downs == 1 && d.closed, "%u and %u downs", c.downs, d.downs);
	printf("     %s; %s\n", c.why, d.why);
	start = mono_ns();
	client_down(&c);
	client_down(&d);
	CHECK(mono_ns() - start < 2000000000ull, "closing is slow");
	if (expect_failure(-ENODEV, 3000))
		return 1;
	/* The device must be gone: nothing of ours may hold it. */
	for (int i = 0; i < 50 && system("rdma link show rxe0/1 >/dev/null 2>&1") == 0; i++)
		usleep(100000);
	CHECK(system("rdma link show rxe0/1 >/dev/null 2>&1") != 0, "rxe0 is still there");
	return 0;
}

static const struct {
	const char *name;
	int (*fn)(void);
	bool only_by_name;
} cases[] = {
	{ "probe", t_probe, false },
	{ "null", t_null, false },
	{ "many", t_many, false },
	{ "close_in_recv", t_close_in_recv, false },
	{ "close_early", t_close_early, false },
	{ "long_message", t_long_message, false },
	{ "again", t_again, false },
	{ "lanes", t_lanes, false },
	{ "refused", t_refused, false },
	{ "unreachable", t_unreachable, false },
	{ "memlock", t_memlock, false },
	{ "server_stops", t_server_stops, false },
	{ "link", t_link, false },
	{ "removal", t_removal, true },
};

static bool wanted(size_t i, int argc, char **argv)
{
	if (optind == argc)
		return !cases[i].only_by_name;
	for (int a = optind; a < argc; a++)
		if (!strcmp(argv[a], cases[i].name))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	const char *server = getenv("NFSRDMA_SERVER");
	const char *name = "verbs";
	int opt, failed = 0;

	while ((opt = getopt(argc, argv, "f:v")) != -1) {
		if (opt == 'f') {
			name = optarg;
		} else if (opt == 'v') {
			log_set_level(LOG_LVL_DEBUG);
		} else {
			fprintf(stderr, "usage: fabric_ping [-f FABRIC] [-v] [CASE...]\n");
			return 2;
		}
	}
	fabric = fabric_by_name(name);
	if (!fabric || !server) {
		fprintf(stderr, "fabric_ping: %s\n", fabric ? "NFSRDMA_SERVER is not set" :
			"no such fabric");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	set_address(&params.server, server, "20049");
	params.max_send = WINDOW;
	params.max_recv = RECVS;
	params.timeout_ms = 5000;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!wanted(i, argc, argv))
			continue;
		case_name = cases[i].name;
		printf("---- %s\n", case_name);
		if (cases[i].fn())
			failed++;
		else
			printf("ok   %s\n", case_name);
	}
	printf("%d failed\n", failed);
	return failed != 0;
}
