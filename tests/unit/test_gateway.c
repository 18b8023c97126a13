/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The gateway's own objects between a client that uses the provider directly and an NFS
 * server of a few lines on TCP: headers and chunks, right and wrong. Everything runs on one
 * loop except connect, which blocks. After a wrong message the server has seen nothing, and
 * the connection still works.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fabric/iwarp/iwarp.h"
#include "gateway/gateway.h"

TestSuite(gateway, .timeout = 300);

#define FAB  (&fabric_iwarp)
#define XID  0x1234u
#define RECVS 8u
/* As much as goes with one call, and more than the sockets between take at once. */
#define MEM  ((4u << 20) + 8192u)
#define CONNS 8u

static struct gateway gw;
static struct loop *loop;

/* ---- The server: keeps the newest record, answers with what the test has set ---- */

static struct {
	struct loop_watch listening, conns[CONNS];
	unsigned nconns;
	uint8_t in[MEM], rec[MEM];
	uint32_t have, len;             /* have: of `in`; len: of the newest whole record */
	unsigned records;
	uint8_t reply[MEM];
	uint32_t reply_len;
	bool mute;                      /* hears and does not answer */
	uint32_t fragment;              /* the reply comes in pieces of so many bytes; 0: in one */
	pthread_t sender;               /* sends a long reply */
	bool sending;                   /* it was started, and not joined yet */
} srv;

static uint32_t word_at(const uint8_t *p, unsigned i)
{
	return gw_word((const char *)p + 4 * i);
}

static void *send_reply(void *arg)
{
	const struct loop_watch *conn = arg;
	uint32_t at = 0, n = srv.reply_len, be;

	do {
		if (srv.fragment && n > srv.fragment)
			n = srv.fragment;
		be = htonl((at + n == srv.reply_len ? 0x80000000u : 0) | n);
		if (send(conn->fd, &be, 4, MSG_NOSIGNAL | MSG_MORE) != 4 ||
		    send(conn->fd, srv.reply + at, n, MSG_NOSIGNAL) != (ssize_t)n)
			break;          /* the gateway has closed it; the test looks at what came */
		at += n;
		n = srv.reply_len - at;
	} while (n);
	return NULL;
}

/* Before the reply is changed. The gateway has read all of it, or closed the connection. */
static void srv_sent(void)
{
	if (srv.sending)
		pthread_join(srv.sender, NULL);
	srv.sending = false;
}

/* To the newest record. A long reply does not fit into the sockets before the gateway reads. */
static void srv_answer(struct loop_watch *conn)
{
	srv_sent();
	memcpy(srv.reply, srv.rec, 4);
	if (srv.reply_len <= 65536) {
		send_reply(conn);
		return;
	}
	cr_assert_eq(pthread_create(&srv.sender, NULL, send_reply, conn), 0);
	srv.sending = true;
}

static void on_call(struct loop_watch *w, uint32_t revents)
{
	ssize_t n = recv(w->fd, srv.in + srv.have, sizeof(srv.in) - srv.have, MSG_DONTWAIT);

	(void)revents;
	if (n <= 0) {
		if (n == 0)
			loop_rewatch(loop, w, 0);
		return;
	}
	srv.have += (uint32_t)n;
	while (srv.have >= 4 && srv.have - 4 >= (word_at(srv.in, 0) & 0x7fffffffu)) {
		srv.len = word_at(srv.in, 0) & 0x7fffffffu;
		srv.records++;
		memcpy(srv.rec, srv.in + 4, srv.len);
		srv.have -= 4 + srv.len;
		memmove(srv.in, srv.in + 4 + srv.len, srv.have);
		/* What is no call is the client's answer. */
		if (!srv.mute && (srv.len < 8 || !word_at(srv.rec, 1)))
			srv_answer(w);
	}
}

static void on_accept(struct loop_watch *w, uint32_t revents)
{
	(void)revents;
	struct loop_watch *c = &srv.conns[srv.nconns++];

	(void)revents;
	cr_assert_leq(srv.nconns, CONNS);
	*c = (struct loop_watch){ .fd = accept(w->fd, NULL, NULL), .events = EPOLLIN, .fn = on_call };
	cr_assert_geq(c->fd, 0);
	cr_assert_eq(loop_watch(loop, c), 0);
}

static void server_start(struct sockaddr_storage *at)
{
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)at;
	socklen_t len = sizeof(*in);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cr_assert_eq(bind(fd, (struct sockaddr *)in, sizeof(*in)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)in, &len), 0);
	srv.listening = (struct loop_watch){ .fd = fd, .events = EPOLLIN, .fn = on_accept };
	cr_assert_eq(loop_watch(loop, &srv.listening), 0);
}

/* ---- The client ---- */

static struct {
	struct fab_conn *c;
	struct fab_params params;
	uint8_t recvs[RECVS][GW_INLINE], out[GW_INLINE], mem[MEM];
	struct fab_mr mr, mr_out;
	uint8_t got[GW_INLINE];         /* the newest message */
	uint32_t len, rkey;
	bool invalidated;
	unsigned messages, downs;
	_Atomic bool connected;
	int rc;
	bool r;                         /* says that it can be invalidated */
} cl;

static void cl_recv(void *ctx, void *cookie, uint32_t len, bool invalidated, uint32_t rkey)
{
	struct fab_sge sge = { cookie, GW_INLINE, 0 };

	(void)ctx;
	memcpy(cl.got, cookie, len);
	cl.len = len;
	cl.invalidated = invalidated;
	cl.rkey = rkey;
	cl.messages++;
	cr_assert_eq(FAB->post_recv(cl.c, &sge, cookie), 0);
}

static void cl_sent(void *ctx, void *cookie)
{
	(void)ctx;
	(void)cookie;
}

static void cl_down(void *ctx, int err, const char *why)
{
	(void)ctx;
	(void)err;
	(void)why;
	cl.downs++;
}

static const struct fab_events cl_events = { .recv = cl_recv, .sent = cl_sent, .down = cl_down };

static void *cl_connect(void *arg)
{
	uint8_t priv[8] = { 0xf6, 0xab, 0x0e, 0x18, 1, cl.r, 3, 3 }, peer[FAB_PRIV_RECV_MAX];
	struct errbuf eb = { "" };
	size_t len;

	(void)arg;
	cl.rc = FAB->connect(cl.c, priv, sizeof(priv), peer, &len, &eb);
	cl.connected = true;
	return NULL;
}

static void tick(struct loop_timer *t)
{
	loop_timer_set(loop, t, 2);
	loop_stop(loop);
}

#define RUN_UNTIL(cond) \
	do { \
		struct loop_timer tick_; \
		uint64_t limit_ = mono_ns() + 20000000000u; \
		loop_timer_init(&tick_, tick); \
		loop_timer_set(loop, &tick_, 2); \
		while (!(cond) && mono_ns() < limit_) \
			loop_run(loop); \
		loop_timer_clear(&tick_); \
		cr_assert(cond, "never: " #cond); \
	} while (0)

/* Where clients are; 0: where the system says. */
static in_addr_t dial_from;

/* A client that knows where the gateway is: what connect says. */
static int cl_dial(bool r)
{
	struct errbuf eb = { "" };
	pthread_t thread;

	memset(&cl, 0, sizeof(cl));
	cl.params = (struct fab_params){ .max_send = 8, .max_recv = RECVS, .timeout_ms = 10000 };
	FAB->listen_addr(gw.listener, &cl.params.server);
	if (dial_from) {
		((struct sockaddr_in *)(void *)&cl.params.local)->sin_family = AF_INET;
		((struct sockaddr_in *)(void *)&cl.params.local)->sin_addr.s_addr = dial_from;
	}
	cl.r = r;
	cr_assert_eq(FAB->open(&cl.params, &cl.c, &eb), 0, "%s", eb.text);
	cr_assert_eq(FAB->reg(cl.c, cl.mem, MEM, FAB_REMOTE_READ | FAB_REMOTE_WRITE, &cl.mr, &eb), 0);
	cr_assert_eq(FAB->reg(cl.c, cl.out, GW_INLINE, 0, &cl.mr_out, &eb), 0);
	for (unsigned i = 0; i < RECVS; i++)
		cr_assert_eq(FAB->post_recv(cl.c, &(struct fab_sge){ cl.recvs[i], GW_INLINE, 0 },
					    cl.recvs[i]), 0);
	cr_assert_eq(pthread_create(&thread, NULL, cl_connect, NULL), 0);
	RUN_UNTIL(cl.connected);
	pthread_join(thread, NULL);
	return cl.rc;
}

static void open_all(bool r)
{
	static const struct fab_listen_events events = { .request = pair_request };
	struct fab_params lp = { .timeout_ms = 10000 };
	struct errbuf eb = { "" };

	memset(&srv, 0, sizeof(srv));
	log_set_level(LOG_LVL_ERR);
	loop = loop_new(NULL);
	gw = (struct gateway){ .loop = loop, .fab = FAB, .credits = 4 };
	list_init(&gw.pairs);
	list_init(&gw.peers);
	drc_init(&gw.drc);
	memory_init(&gw.memory, 64u << 20);
	server_start(&gw.server);
	((struct sockaddr_in *)(void *)&lp.local)->sin_family = AF_INET;
	((struct sockaddr_in *)(void *)&lp.local)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	lp.max_send = pair_max_send(&gw);
	lp.max_recv = pair_max_recv(&gw);
	cr_assert_eq(FAB->listen(&lp, loop, &events, &gw, &gw.listener, &eb), 0, "%s", eb.text);
	cr_assert_eq(cl_dial(r), 0);
	cr_assert_eq(FAB->attach(cl.c, loop, &cl_events, NULL), 0);
}

static void setup(void)
{
	open_all(false);
}

static void unwatch_close(struct loop_watch *w)
{
	int fd = w->fd;

	loop_unwatch(loop, w);
	close(fd);
}

static void teardown(void)
{
	FAB->close(cl.c);
	FAB->unlisten(gw.listener);
	while (!list_empty(&gw.pairs))
		pair_free(container_of(gw.pairs.next, struct gw_pair, node));
	srv_sent();
	for (unsigned i = 0; i < srv.nconns; i++)
		unwatch_close(&srv.conns[i]);
	unwatch_close(&srv.listening);
	loop_free(loop);
}

static void cl_send(const uint32_t *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t be = htonl(w[i]);

		memcpy(cl.out + 4 * i, &be, 4);
	}
	cr_assert_eq(FAB->post_send(cl.c, &(struct fab_sge){ cl.out, 4 * n, cl.mr_out.lkey }, 1, NULL), 0);
}

#define WORDS(...) (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4
/* Sends it and waits for what comes back. */
#define ASK(...) \
	do { \
		unsigned before_ = cl.messages; \
		cl_send(WORDS(__VA_ARGS__)); \
		RUN_UNTIL(cl.messages > before_ || cl.downs); \
		cr_assert_eq(cl.downs, 0); \
	} while (0)
#define ANSWER(...) answer_with(WORDS(__VA_ARGS__))

static void answer_with(const uint32_t *w, unsigned n)
{
	srv_sent();
	for (unsigned i = 0; i < n; i++) {
		uint32_t be = htonl(w[i]);

		memcpy(srv.reply + 4 * i, &be, 4);
	}
	srv.reply_len = 4 * n;
}

static uint32_t got(unsigned i)
{
	cr_assert_lt(4 * i, cl.len);
	return word_at(cl.got, i);
}

/* xid (set by the header), CALL, RPC 2, NFS, version, procedure, AUTH_NONE twice */
#define HEAD(proc)       XID, 1, 4, proc
#define NFS_CALL(v, p)   XID, 0, 2, 100003, v, p, 0, 0, 0, 0
#define SEG(len, off)    cl.mr.rkey, len, 0, off
#define REPLY_OK         0, 1, 0, 0, 0, 0

static void still_serves(void)
{
	unsigned before = srv.records;

	ANSWER(REPLY_OK);
	ASK(HEAD(0), 0, 0, 0, NFS_CALL(3, 0));
	cr_assert_eq(srv.records, before + 1);
	cr_assert(got(3) == RR_MSG && got(7) == XID && got(8) == 1);
}

static void refused(uint32_t err)
{
	cr_assert_eq(got(0), XID);
	cr_assert_eq(got(3), RR_ERROR);
	cr_assert_eq(got(4), err);
	still_serves();
}

/* Also checks that the server has got nothing. */
#define REFUSED(...) \
	do { \
		unsigned heard_ = srv.records; \
		ASK(__VA_ARGS__); \
		cr_assert_eq(srv.records, heard_); \
		refused(RR_ERR_CHUNK); \
		cr_assert_eq(srv.records, heard_ + 1, "only what came after it"); \
	} while (0)

/* ---- Addresses ---- */

static void address(const char *text, const char *any, const char *want)
{
	struct sockaddr_storage ss;
	struct errbuf eb = { "" };
	char got[512];

	if (gw_address(text, "2049", any, &ss, &eb))
		snprintf(got, sizeof(got), "%s", eb.text);
	else
		fab_addr_text(&ss, got, sizeof(got));
	cr_expect_eq(strncmp(got, want, strlen(want)), 0, "'%s': %s", text, got);
}

Test(gateway, addresses)
{
	address("10.1.2.3", NULL, "10.1.2.3 port 2049");
	address("10.1.2.3:7", NULL, "10.1.2.3 port 7");
	address("[::1]", NULL, "[::1] port 2049");
	address("[::1]:65535", NULL, "[::1] port 65535");
	address("[10.1.2.3]:7", NULL, "10.1.2.3 port 7");
	address("10.1.2.3", "0.0.0.0", "10.1.2.3 port 2049");
	address(":7", "0.0.0.0", "0.0.0.0 port 7");
	address(":0", "0.0.0.0", "0.0.0.0");
	address("99999", "0.0.0.0", "'99999' is not [ADDRESS]:PORT; write :PORT");
	address("20049", NULL, "'20049' is not SERVER[:PORT]");
	address(":7", NULL, "':7' is not SERVER[:PORT]");
	address("", NULL, "'' is not SERVER[:PORT]");
	address("", "0.0.0.0", "'' is not [ADDRESS]:PORT");
	address("[]:7", "0.0.0.0", "'[]:7' is not [ADDRESS]:PORT");
	address("[::1", "0.0.0.0", "'[::1' is not [ADDRESS]:PORT");
	address("[::1]7", "0.0.0.0", "'[::1]7' is not [ADDRESS]:PORT");
	address(":99999", "0.0.0.0", "there is no port '99999'");
	address(":", "0.0.0.0", "there is no port ''");
	address("10.1.2.3:-1", "0.0.0.0", "there is no port '-1'");
	address("::1", "0.0.0.0", "there is no port ':1' ('::1' is not [ADDRESS]:PORT; an IPv6");
	address("2001:db8::1", NULL, "there is no port 'db8::1'");
	address("fe80::1", NULL, "there is no port ':1' ('fe80::1' is not SERVER[:PORT]; an IPv6");
}

/* ---- Headers ---- */

Test(gateway, serves, .init = setup, .fini = teardown)
{
	still_serves();
	cr_assert_eq(srv.len, 40);
}

Test(gateway, too_short_is_dropped, .init = setup, .fini = teardown)
{
	cl_send(WORDS(XID));
	cl_send(WORDS(HEAD(0)));
	cl_send(WORDS(HEAD(0), 0, 0));
	still_serves();
	cr_assert(cl.messages == 1 && srv.records == 1);
}

Test(gateway, another_version, .init = setup, .fini = teardown)
{
	ASK(XID, 2, 4, 0, 0, 0, 0, NFS_CALL(3, 0));
	cr_assert(got(5) == 1 && got(6) == 1, "version 1 to 1");
	refused(RR_ERR_VERS);
}

Test(gateway, bad_headers, .init = setup, .fini = teardown)
{
	REFUSED(HEAD(2), 0, 0, 0, NFS_CALL(3, 0));              /* RDMA_MSGP */
	REFUSED(HEAD(0), 2, 0, 0, 0, 0, 0);                     /* not a boolean */
	REFUSED(HEAD(0), 0, 1, 0xffffffff, 0, 0, 0);            /* segments of a chunk */
	REFUSED(HEAD(0), 0, 1, 17, 0, 0, 0);
	REFUSED(HEAD(0), 0, 0, 1, 0x10000000, 0, 0);
	REFUSED(HEAD(0), 1, 40, 1, 2, 3, 4);                    /* the list has no end */
	REFUSED(HEAD(0), 0, 0, 0, XID, 0, 2);                   /* no RPC header */
	REFUSED(HEAD(0), 0, 0, 0, XID + 1, 0, 2, 100003, 3, 0, 0, 0, 0, 0);
}

/* ---- Read chunks ---- */

Test(gateway, bad_read_chunks, .init = setup, .fini = teardown)
{
	/* No chunk at position zero of a Long Call; one that is not at zero. */
	REFUSED(HEAD(1), 0, 0, 0);
	REFUSED(HEAD(1), 1, 4, SEG(40, 0), 0, 0, 0);
	/* Lengths beyond all reason, alone and in sum. */
	REFUSED(HEAD(0), 1, 40, SEG(0xffffffff, 0), 0, 0, 0, NFS_CALL(3, 7));
	REFUSED(HEAD(1), 1, 0, SEG(0xffffffff, 0), 1, 0, SEG(0xffffffff, 0), 0, 0, 0);
	REFUSED(HEAD(1), 1, 0, SEG(0x80000000, 0), 1, 0, SEG(0x80000028, 0), 0, 0, 0);
	/* Behind the end of the message; not at a word; over each other. */
	REFUSED(HEAD(0), 1, 44, SEG(8, 0), 0, 0, 0, NFS_CALL(3, 7));
	REFUSED(HEAD(0), 1, 0xfffffffc, SEG(8, 0), 0, 0, 0, NFS_CALL(3, 7));
	REFUSED(HEAD(0), 1, 38, SEG(8, 0), 0, 0, 0, NFS_CALL(3, 7));
	REFUSED(HEAD(0), 1, 36, SEG(8, 0), 1, 40, SEG(8, 0), 0, 0, 0, NFS_CALL(3, 7));
	REFUSED(HEAD(0), 1, 36, SEG(8, 0), 1, 20, SEG(8, 0), 0, 0, 0, NFS_CALL(3, 7));
}

Test(gateway, refused_while_its_reads_are_under_way, .init = setup, .fini = teardown)
{
	/* The first chunk is right and is read; the record must go nowhere. */
	for (unsigned i = 0; i < 50; i++) {
		ASK(HEAD(0), 1, 40, SEG(60000, 0), 1, 41, SEG(8, 0), 0, 0, 0, NFS_CALL(4, 1));
		cr_assert(got(3) == RR_ERROR && got(4) == RR_ERR_CHUNK);
	}
	still_serves();
	cr_assert_eq(srv.records, 1);
}

Test(gateway, long_call, .init = setup, .fini = teardown)
{
	const uint32_t w[] = { NFS_CALL(3, 1), 1, 2, 3, 4, 5, 6 };

	for (unsigned i = 0; i < sizeof(w) / 4; i++) {
		uint32_t be = htonl(w[i]);

		memcpy(cl.mem + (i < 5 ? 0 : 1000) + 4 * i, &be, 4);
	}
	ANSWER(REPLY_OK);
	ASK(HEAD(1), 1, 0, SEG(20, 0), 1, 0, SEG(44, 1020), 0, 0, 0);
	cr_assert_eq(srv.len, sizeof(w));
	for (unsigned i = 0; i < sizeof(w) / 4; i++)
		cr_assert_eq(word_at(srv.rec, i), w[i]);
}

Test(gateway, reply_to_xid_zero, .init = setup, .fini = teardown)
{
	struct errbuf eb;

	/* A call whose data is still on its way has none yet, and not that one. */
	cr_assert_eq(gw_faults_parse(&gw.faults, "stall-read@1=100", &eb), 0);
	ANSWER(REPLY_OK);
	cl_send(WORDS(HEAD(0), 1, 40, SEG(4, 0), 0, 0, 0, NFS_CALL(4, 1)));
	RUN_UNTIL(gw.ncalls == 1);
	ASK(0, 1, 4, 0, 0, 0, 0, 0, 0, 2, 100003, 3, 0, 0, 0, 0, 0);
	cr_assert(got(0) == 0 && got(7) == 0);
	RUN_UNTIL(cl.messages == 2);
	cr_assert(got(0) == XID && got(7) == XID && srv.records == 2);
}

/* ---- No server ---- */

/* The log's lines from now on, in a pipe in place of standard error. */
static int log_in, log_real;

static void capture(void)
{
	int fd[2];

	cr_assert_eq(pipe2(fd, O_NONBLOCK), 0);
	log_in = fd[0];
	log_real = dup(STDERR_FILENO);
	dup2(fd[1], STDERR_FILENO);
	close(fd[1]);
}

static void captured(char *buf, size_t cap)
{
	ssize_t n = read(log_in, buf, cap - 1);

	buf[n > 0 ? n : 0] = '\0';
	dup2(log_real, STDERR_FILENO);
	close(log_real);
	close(log_in);
}

Test(gateway, server_that_cannot_be_reached, .init = setup, .fini = teardown)
{
	struct sockaddr_in dead = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage live = gw.server;
	socklen_t len = sizeof(dead);
	char buf[4096], want[256], *rest;
	/* Bound and not listening: nobody else gets the port meanwhile. */
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&dead, sizeof(dead)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&dead, &len), 0);
	log_set_level(LOG_LVL_WARN);
	capture();
	for (unsigned i = 0; i < 8; i++) {
		FAB->close(cl.c);
		RUN_UNTIL(list_empty(&gw.pairs));
		/* Twice nobody, once no way to it; well again; and so on. */
		memcpy(&gw.server, &dead, sizeof(dead));
		if (i % 4 == 2)
			((struct sockaddr_in *)(void *)&gw.server)->sin_addr.s_addr = INADDR_BROADCAST;
		if (i % 4 == 3) {
			unwatch_close(&srv.conns[--srv.nconns]);
			gw.server = live;
		}
		cr_assert_eq(cl_dial(false), i % 4 == 3 ? 0 : -ECONNREFUSED, "%u: %d", i, cl.rc);
	}
	captured(buf, sizeof(buf));
	snprintf(want, sizeof(want), "nfsrdma-fuse: warning: cannot connect to the NFS server "
		 "127.0.0.1 port %u: Connection refused; clients are refused until it can be reached\n",
		 ntohs(dead.sin_port));
	cr_assert_eq(strncmp(buf, want, strlen(want)), 0, "%s", buf);
	rest = buf + strlen(want);
	cr_assert_str_eq(rest, want);
	close(fd);
}

/* ---- Credits ---- */

static struct gw_pair *the_pair(void)
{
	return container_of(gw.pairs.next, struct gw_pair, node);
}

/* All that it may have open is served; who goes on has to go. */
Test(gateway, more_calls_than_credits, .init = setup, .fini = teardown)
{
	const unsigned max = 2 * gw.credits + 8;

	srv.mute = true;
	for (unsigned i = 1; i <= max; i++) {
		cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(3, 0)));
		RUN_UNTIL(srv.records == i || cl.downs);
		cr_assert_eq(cl.downs, 0, "at call %u", i);
	}
	cr_expect_eq(the_pair()->ncalls, max);
	cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(3, 0)));
	RUN_UNTIL(cl.downs || srv.records > max);
	cr_expect(cl.downs == 1 && srv.records == max && gw.ncalls == max);
	RUN_UNTIL(list_empty(&gw.pairs));
}

Test(gateway, calls_are_counted_back, .init = setup, .fini = teardown)
{
	for (unsigned i = 0; i < 5 * gw.credits; i++)
		still_serves();
	REFUSED(HEAD(2), 0, 0, 0, NFS_CALL(3, 0));
	RUN_UNTIL(the_pair()->ncalls == 0);
}

/* ---- Calls that come again, on the next connection ---- */

#define MKDIR9 HEAD(0), 0, 0, 0, NFS_CALL(3, 9), 4, 0x61626364

static void cl_redial(void)
{
	FAB->close(cl.c);
	cr_assert_eq(cl_dial(false), 0);
	cr_assert_eq(FAB->attach(cl.c, loop, &cl_events, NULL), 0);
}

static void faults(const char *spec)
{
	struct errbuf eb = { "" };

	cr_assert_eq(gw_faults_parse(&gw.faults, spec, &eb), 0, "%s", eb.text);
}

static void drc_teardown(void)
{
	teardown();
	drc_clear(&gw.drc);
}

/* The server hears of it once, and both tries have the one answer. */
Test(gateway, v3_call_that_has_been_answered, .init = setup, .fini = drc_teardown)
{
	ANSWER(REPLY_OK, 17);
	ASK(MKDIR9);
	cl_redial();
	ANSWER(REPLY_OK, 99);
	ASK(MKDIR9);
	cr_assert_eq(srv.records, 1);
	cr_assert(got(0) == XID && got(3) == RR_MSG && got(13) == 17);
	/* Another call with that XID is another call, and so is what is idempotent. */
	ASK(HEAD(0), 0, 0, 0, NFS_CALL(3, 9), 4, 0x61626365);
	cr_assert(srv.records == 2 && got(13) == 99);
	ASK(HEAD(0), 0, 0, 0, NFS_CALL(3, 1));
	ASK(HEAD(0), 0, 0, 0, NFS_CALL(3, 1));
	cr_assert_eq(srv.records, 4);
}

Test(gateway, v3_call_that_still_runs, .init = setup, .fini = drc_teardown)
{
	srv.mute = true;
	ANSWER(REPLY_OK, 17);
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(srv.records == 1);
	cl_redial();
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(gw.ncalls == 2);
	cr_assert_eq(srv.nconns, 2, "the first one lingers");
	srv_answer(&srv.conns[0]);
	RUN_UNTIL(cl.messages == 1);
	cr_assert(got(0) == XID && got(13) == 17);
	cr_assert_eq(srv.records, 1);
	RUN_UNTIL(gw.pairs.next->next == &gw.pairs);
	/* It was the only one: the pair ends with its client from now on. */
	FAB->close(cl.c);
	RUN_UNTIL(list_empty(&gw.pairs));
	cr_assert_eq(cl_dial(false), 0);
}

/* Of those that come again on one connection too, only the newest waits. The others give their memory
 * back at once. */
Test(gateway, v3_calls_that_wait_no_longer_end, .init = setup, .fini = drc_teardown)
{
	size_t before = gw.memory.taken, one;

	srv.mute = true;
	ANSWER(REPLY_OK, 17);
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(srv.records == 1);
	one = gw.memory.taken - before;
	for (unsigned i = 0; i < 3; i++)
		cl_send(WORDS(MKDIR9));
	RUN_UNTIL(gw.ncalls == 4);
	cr_expect_eq(the_pair()->ncalls, 2);
	cr_expect_eq(gw.memory.taken, before + 2 * one);
	srv_answer(&srv.conns[0]);
	RUN_UNTIL(cl.messages == 2 && the_pair()->ncalls == 0);
	cr_expect_eq(gw.memory.taken, before);
	cr_expect_eq(srv.records, 1);
}

/* Its client has given that connection up, and the gateway kept it for this call only. */
Test(gateway, v3_call_that_waits_no_longer_ends_its_pair, .init = setup, .fini = drc_teardown)
{
	faults("late@2=600000");
	srv.mute = true;
	ANSWER(REPLY_OK, 17);
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(srv.records == 1);
	cl_redial();
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(gw.ncalls == 2);
	cl_redial();
	RUN_UNTIL(srv.nconns == 3);
	cr_assert(the_pair()->lingers && container_of(the_pair()->node.next, struct gw_pair, node)->lingers);
	/* This passes the second one on first: both wait for the first one. */
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(gw.pairs.next->next->next == &gw.pairs);
	srv_answer(&srv.conns[0]);
	RUN_UNTIL(cl.messages == 1);
	cr_assert(got(0) == XID && got(13) == 17 && srv.records == 1);
}

#define MKDIR_OF(n) HEAD(0), 0, 0, 0, NFS_CALL(3, 9), 4, n

/* More calls than the cache keeps for those who have their replies. */
static void many_others(void)
{
	for (unsigned i = 0; i < 1100; i++)
		ASK(MKDIR_OF(0x1000 + i));
}

/* However many calls go by, a reply that has not been sent is there when its call comes
 * again. */
Test(gateway, v3_reply_that_is_not_sent_yet, .init = setup, .fini = drc_teardown)
{
	faults("delay@1=600000");
	ANSWER(REPLY_OK, 17);
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(srv.records == 1);
	many_others();
	cl_redial();
	ANSWER(REPLY_OK, 99);
	ASK(MKDIR9);
	cr_assert(srv.records == 1101 && got(13) == 17);
}

/* A client may have lost its newest replies. What others do meanwhile does not evict them,
 * neither while it is connected nor afterwards. */
static void others_call(bool connected)
{
	struct fab_conn *first = cl.c;

	ANSWER(REPLY_OK, 17);
	ASK(MKDIR9);
	if (!connected) {
		FAB->close(cl.c);
		RUN_UNTIL(list_empty(&gw.pairs));
	}
	cl.c = NULL;
	cr_assert_eq(cl_dial(false), 0);
	cr_assert_eq(FAB->attach(cl.c, loop, &cl_events, NULL), 0);
	many_others();
	if (connected)
		FAB->close(first);
	cl_redial();
	ANSWER(REPLY_OK, 99);
	ASK(MKDIR9);
	cr_assert(srv.records == 1101 && got(13) == 17);
}

Test(gateway, v3_reply_of_a_connected_client, .init = setup, .fini = drc_teardown)
{
	others_call(true);
}

Test(gateway, v3_reply_of_a_client_that_is_gone, .init = setup, .fini = drc_teardown)
{
	others_call(false);
}

enum { MANY_CALLS = 1 << 27 };

/* By then a client may have come round to that XID. A repetition makes a reply young again. */
Test(gateway, v3_reply_that_is_old, .init = setup, .fini = drc_teardown)
{
	ANSWER(REPLY_OK, 17);
	ASK(MKDIR9);
	ANSWER(REPLY_OK, 99);
	for (unsigned i = 0; i < 2; i++) {
		gw.drc.calls += MANY_CALLS - 10;
		cl_redial();
		ASK(MKDIR9);
		cr_assert(srv.records == 1 && got(13) == 17);
	}
	gw.drc.calls += MANY_CALLS;
	cl_redial();
	ASK(MKDIR9);
	cr_assert(srv.records == 2 && got(13) == 99);
	gw.drc.calls += MANY_CALLS;     /* of one who is connected, as well */
	ASK(MKDIR9);
	cr_assert_eq(srv.records, 3);
}

/* The server may take as long as it likes. */
Test(gateway, v3_call_that_runs_for_long, .init = setup, .fini = drc_teardown)
{
	srv.mute = true;
	ANSWER(REPLY_OK, 17);
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(srv.records == 1);
	gw.drc.calls += MANY_CALLS;
	cl_redial();
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(gw.ncalls == 2);
	srv_answer(&srv.conns[0]);
	RUN_UNTIL(cl.messages == 1);
	cr_assert(got(13) == 17 && srv.records == 1);
}

/* What has arrived makes room: it is older than as many replies as the client has credits. */
Test(gateway, v3_replies_that_have_arrived_are_bounded, .init = setup, .fini = drc_teardown)
{
	ANSWER(REPLY_OK, 17);
	ASK(MKDIR9);
	many_others();
	cr_assert(gw.drc.old.n == 1024 && the_pair()->recent.n <= gw.credits);
	cl_redial();
	RUN_UNTIL(gw.pairs.next->next == &gw.pairs);
	cr_assert_eq(gw.drc.lost.n, gw.credits);
	ASK(MKDIR9);
	cr_assert_eq(srv.records, 1102);
}

Test(gateway, v3_call_whose_server_is_gone, .init = setup, .fini = drc_teardown)
{
	srv.mute = true;
	ANSWER(REPLY_OK, 17);
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(srv.records == 1);
	cl_redial();
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(gw.ncalls == 2);
	srv.mute = false;
	shutdown(srv.conns[0].fd, SHUT_RDWR);
	RUN_UNTIL(cl.messages == 1);
	cr_assert(got(13) == 17 && srv.records == 2, "then it is a new call");
}

Test(gateway, late_call_goes_before_its_repetition, .init = setup, .fini = drc_teardown)
{
	faults("late@1=600000");
	ANSWER(REPLY_OK, 0);
	/* Not of version 3: the server sees both, the first one on its connection. */
	cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(4, 0)));
	RUN_UNTIL(gw.ncalls == 1);
	cl_redial();
	RUN_UNTIL(srv.nconns == 2);
	cr_assert_eq(srv.records, 0);
	ASK(HEAD(0), 0, 0, 0, NFS_CALL(4, 0));
	RUN_UNTIL(srv.records == 2);
	RUN_UNTIL(gw.pairs.next->next == &gw.pairs);
}

Test(gateway, late_call_outlives_its_connection, .init = setup, .fini = drc_teardown)
{
	faults("late@1=50-60");
	ANSWER(REPLY_OK, 17);
	cl_send(WORDS(MKDIR9));
	RUN_UNTIL(gw.ncalls == 1);
	FAB->close(cl.c);
	RUN_UNTIL(srv.records == 1);
	RUN_UNTIL(list_empty(&gw.pairs));
	cr_assert_eq(cl_dial(false), 0);
	cr_assert_eq(FAB->attach(cl.c, loop, &cl_events, NULL), 0);
	ASK(MKDIR9);
	cr_assert(srv.records == 1 && got(13) == 17);
}

Test(gateway, read_chunk_of_many_segments, .init = setup, .fini = teardown)
{
	static const char want[] = "abcdefgh";

	memcpy(cl.mem, "abc", 3);
	memcpy(cl.mem + 100, "defgh", 5);
	ANSWER(REPLY_OK);
	ASK(HEAD(0), 1, 40, SEG(3, 0), 1, 40, SEG(0, 0), 1, 40, SEG(5, 100), 0, 0, 0,
	    NFS_CALL(4, 1), 0x77);
	cr_assert_eq(srv.len, 40 + 8 + 4);
	cr_assert(!memcmp(srv.rec + 40, want, 8) && word_at(srv.rec, 12) == 0x77);
	/* Five bytes, and their pad made up. */
	ASK(HEAD(0), 1, 40, SEG(5, 100), 0, 0, 0, NFS_CALL(4, 1), 0x77);
	cr_assert(srv.len == 40 + 8 + 4 && !memcmp(srv.rec + 40, "defgh\0\0\0", 8));
	cr_assert_eq(word_at(srv.rec, 12), 0x77);
}

/* WRITE+WRITE and the like: one chunk for each, their positions counted as if all data were
 * in the message. */
Test(gateway, two_read_chunks_in_one_compound, .init = setup, .fini = teardown)
{
	memcpy(cl.mem, "abcde", 5);
	memcpy(cl.mem + 100, "fghijkl", 7);
	ANSWER(REPLY_OK);
	ASK(HEAD(0), 1, 44, SEG(5, 0), 1, 56, SEG(3, 100), 1, 56, SEG(4, 103), 0, 0, 0,
	    NFS_CALL(4, 1), 5, 7, 0x77);
	cr_assert_eq(srv.len, 44 + 8 + 4 + 8 + 4);
	cr_assert(word_at(srv.rec, 10) == 5 && !memcmp(srv.rec + 44, "abcde\0\0\0", 8));
	cr_assert(word_at(srv.rec, 13) == 7 && !memcmp(srv.rec + 56, "fghijkl\0", 8));
	cr_assert_eq(word_at(srv.rec, 16), 0x77);
	/* One behind the other, one of nothing, and with the pad in it. */
	ASK(HEAD(0), 1, 44, SEG(8, 0), 1, 52, SEG(0, 0), 1, 56, SEG(4, 100), 0, 0, 0,
	    NFS_CALL(4, 1), 5, 0, 0x77);
	cr_assert(srv.len == 44 + 8 + 4 + 4 + 4 && !memcmp(srv.rec + 56, "fghi", 4));
	cr_assert(word_at(srv.rec, 13) == 0 && word_at(srv.rec, 15) == 0x77);
	/* In another order, or where the first one's data is. */
	REFUSED(HEAD(0), 1, 56, SEG(7, 100), 1, 44, SEG(5, 0), 0, 0, 0, NFS_CALL(4, 1), 5, 7, 0x77);
	REFUSED(HEAD(0), 1, 44, SEG(5, 0), 1, 48, SEG(7, 100), 0, 0, 0, NFS_CALL(4, 1), 5, 7, 0x77);
}

/* A file handle of a word, then offset, count, stable, length: the data is at 68. */
#define WRITE3(len) NFS_CALL(3, 7), 4, 0x66, 0, 0, len, 2, len
/* A directory's handle, the name "ab", mode and mtime, length: the target at 96. */
#define SYMLINK3(len) NFS_CALL(3, 10), 4, 0x66, 2, 0x61620000, 1, 0777, 0, 0, 0, 0, 2, 1, 2, len

/* Version 3 has two items that may be in a Read chunk, and those are there. */
Test(gateway, v3_read_chunks, .init = setup, .fini = drc_teardown)
{
	memcpy(cl.mem, "abcdef", 6);
	ANSWER(REPLY_OK);
	ASK(HEAD(0), 1, 68, SEG(6, 0), 0, 0, 0, WRITE3(6));
	cr_assert(srv.len == 68 + 8 && !memcmp(srv.rec + 68, "abcdef\0\0", 8));
	ASK(HEAD(0), 1, 68, SEG(3, 0), 1, 68, SEG(5, 3), 0, 0, 0, WRITE3(7));
	cr_assert(srv.len == 68 + 8 && srv.records == 2, "with its pad");
	ASK(HEAD(0), 1, 96, SEG(5, 0), 0, 0, 0, SYMLINK3(5));
	cr_assert(srv.len == 96 + 8 && !memcmp(srv.rec + 96, "abcde\0\0\0", 8));
	/* Shorter or longer than it says; before, behind, or within; two of them. */
	REFUSED(HEAD(0), 1, 68, SEG(5, 0), 0, 0, 0, WRITE3(6));
	REFUSED(HEAD(0), 1, 68, SEG(9, 0), 0, 0, 0, WRITE3(6));
	REFUSED(HEAD(0), 1, 64, SEG(4, 0), 0, 0, 0, WRITE3(6));
	REFUSED(HEAD(0), 1, 64, SEG(6, 0), 0, 0, 0, WRITE3(6), 1, 2);
	REFUSED(HEAD(0), 1, 64, SEG(4, 0), 1, 68, SEG(6, 0), 0, 0, 0, WRITE3(6));
	/* Others have none: MKDIR, a call cut off, and MOUNT. */
	REFUSED(HEAD(0), 1, 48, SEG(4, 0), 0, 0, 0, NFS_CALL(3, 9), 4, 0x66, 4);
	REFUSED(HEAD(0), 1, 40, SEG(4, 0), 0, 0, 0, NFS_CALL(3, 7));
	REFUSED(HEAD(0), 1, 44, SEG(4, 0), 0, 0, 0, XID, 0, 2, 100005, 3, 1, 0, 0, 0, 0, 4);
}

/* 4 MiB of data. Only then a buffer is that large. */
#define LARGE (4u << 20)

/* ---- Calls of a client that is gone ---- */

/* The client sends them again by another way, which may lead past this gateway, and goes on. Then
 * they are older than what it has written since. */

static void go_away(struct loop_timer *t)
{
	(void)t;
	FAB->close(cl.c);
}

/* Sends the call and closes the connection, before the gateway has its next look at either. */
static void cl_send_and_go(const uint32_t *w, unsigned n)
{
	struct loop_timer goes;

	cl_send(w, n);
	loop_timer_init(&goes, go_away);
	loop_timer_set(loop, &goes, 0);         /* behind the timer that sends */
	RUN_UNTIL(list_empty(&gw.pairs));
}

static void cl_comes_again(void)
{
	cr_assert_eq(cl_dial(false), 0);
	cr_assert_eq(FAB->attach(cl.c, loop, &cl_events, NULL), 0);
}

Test(gateway, v3_call_of_a_client_that_is_gone, .init = setup, .fini = drc_teardown)
{
	ANSWER(REPLY_OK, 17);
	cl_send_and_go(WORDS(MKDIR9));
	cr_assert_eq(srv.records, 0);
	cl_comes_again();
	ASK(MKDIR9);
	cr_assert(srv.records == 1 && got(13) == 17);
	/* A session knows its calls again on any way. */
	cl_send_and_go(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(4, 1)));
	cr_assert_eq(srv.records, 2);
	cl_comes_again();
}

#define WRITE_ABCD HEAD(0), 0, 0, 0, WRITE3(4), 0x61626364

/* What has gone to the server in part goes there as a whole, and what waits behind it does not: it
 * has come again, and waits for the answer, or comes again later. */
static void behind_a_full_connection(bool before_the_end)
{
	struct gw_pair *first = the_pair();
	struct fab_conn *conn = cl.c;
	int little = 65536;

	setsockopt(first->tcp.fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
	loop_rewatch(loop, &srv.conns[0], 0);
	cl_send(WORDS(HEAD(0), 1, 68, SEG(LARGE, 0), 0, 0, 0, WRITE3(LARGE)));
	RUN_UNTIL(!list_empty(&first->out));
	cl_send(WORDS(WRITE_ABCD));
	RUN_UNTIL(first->out.next->next != &first->out);
	ANSWER(REPLY_OK, 17);
	if (before_the_end) {
		cl_comes_again();
		cl_send(WORDS(WRITE_ABCD));
		RUN_UNTIL(gw.ncalls == 3);
	}
	FAB->close(conn);
	RUN_UNTIL(first->ended);
	if (!before_the_end) {
		cl_comes_again();
		cl_send(WORDS(WRITE_ABCD));
	}
	RUN_UNTIL(cl.messages == 1);
	cr_assert(srv.records == 1 && srv.len < 4096 && got(13) == 17);
	loop_rewatch(loop, &srv.conns[0], EPOLLIN);
	RUN_UNTIL(gw.pairs.next->next == &gw.pairs);
	cr_assert(srv.records == 2 && srv.len > LARGE);
}

Test(gateway, v3_call_behind_a_full_connection, .init = setup, .fini = drc_teardown)
{
	behind_a_full_connection(false);
}

Test(gateway, v3_call_that_waits_for_one_behind_a_full_connection, .init = setup,
     .fini = drc_teardown)
{
	behind_a_full_connection(true);
}

/* ---- Calls of the server ---- */

/* A call of n words behind the record's mark. */
static void srv_calls(uint32_t xid, unsigned n)
{
	uint32_t w[1100] = { htonl(0x80000000u | n * 4), htonl(xid), 0, htonl(2), htonl(0x40000000), htonl(1), htonl(1) };

	RUN_UNTIL(srv.nconns && srv.conns[srv.nconns - 1].fd > 0);
	cr_assert_eq(send(srv.conns[srv.nconns - 1].fd, w, (n + 1) * 4, MSG_NOSIGNAL), (ssize_t)(n + 1) * 4);
}

/* The client answers, and grants so many. */
static void cl_answers(uint32_t xid, uint32_t credit)
{
	cl_send(WORDS(xid, 1, credit, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 0x77));
}

/* The newest message is a call of the server. */
static bool got_call(uint32_t xid)
{
	return got(0) == xid && got(1) == 1 && got(3) == RR_MSG && got(7) == xid && !got(8) &&
	       got(10) == 0x40000000;
}

/* The client speaks first (RFC 5044, section 7.1). */
static void speak_first(void)
{
	still_serves();
	cl.messages = srv.records = gw.ncalls = 0;
}

static void run_a_while(void)
{
	uint64_t end = mono_ns() + 30000000u;

	RUN_UNTIL(mono_ns() > end);
}

Test(gateway, back_calls, .init = setup, .fini = teardown)
{
	speak_first();
	for (uint32_t i = 1; i <= 100; i++) {
		srv_calls(i, 10);
		RUN_UNTIL(cl.messages == i);
		cr_assert(got_call(i) && cl.len == RR_HDR_MIN + 40);
		cl_answers(i, 2);
		RUN_UNTIL(srv.records == i);
		cr_assert(srv.len == 28 && word_at(srv.rec, 0) == i && word_at(srv.rec, 6) == 0x77);
	}
	cr_assert_eq(the_pair()->back.n, 0);
	cr_assert_eq(gw.ncalls, 0, "they are no calls of the client");
	still_serves();
}

/* Each direction has its own. */
Test(gateway, back_calls_with_the_same_xid, .init = setup, .fini = teardown)
{
	srv.mute = true;
	cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(4, 0)));
	RUN_UNTIL(srv.records == 1);
	srv_calls(XID, 10);
	RUN_UNTIL(cl.messages == 1);
	cr_assert(got_call(XID));
	cl_answers(XID, 2);
	RUN_UNTIL(srv.records == 2);
	cr_assert(word_at(srv.rec, 0) == XID && word_at(srv.rec, 1) == 1);
	ANSWER(REPLY_OK, 17);
	srv_answer(&srv.conns[0]);
	RUN_UNTIL(cl.messages == 2);
	cr_assert(got(0) == XID && got(8) == 1 && got(13) == 17);
	srv.mute = false;
	still_serves();
}

/* One until the first answer, and then as many as it grants, in their order. */
Test(gateway, back_calls_wait_for_credits, .init = setup, .fini = teardown)
{
	static const struct { uint32_t grant, asked; } t[] = {
		{ 1, 2 }, { 3, 5 }, { 0, 5 }, { 1, 5 }, { 2, 7 }, { UINT32_MAX, 14 },
	};

	speak_first();
	for (uint32_t i = 1; i <= GW_BACK_MAX; i++)
		srv_calls(i, 10);
	RUN_UNTIL(the_pair()->back.n == GW_BACK_MAX && cl.messages == 1);
	run_a_while();
	cr_assert_eq(cl.messages, 1);
	for (uint32_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cl_answers(i + 1, t[i].grant);
		RUN_UNTIL(srv.records == i + 1 && cl.messages >= t[i].asked);
		run_a_while();
		cr_assert_eq(cl.messages, t[i].asked, "row %u: %u", i, cl.messages);
		cr_assert(got_call(t[i].asked));
	}
	cr_assert_eq(cl.downs, 0);
}

static unsigned told;

static void count_drops(enum log_level level, const char *text)
{
	told += level == LOG_LVL_WARN && strstr(text, "a call from the server");
}

/* It costs the others nothing, and no memory. */
Test(gateway, back_calls_that_are_never_answered, .init = setup, .fini = teardown)
{
	size_t taken;

	still_serves();
	taken = gw.memory.taken;
	log_to(count_drops);
	log_set_level(LOG_LVL_WARN);
	for (uint32_t i = 1; i <= 200; i++)
		srv_calls(i, i % 10 ? 100 : 1018);
	RUN_UNTIL(the_pair()->back.n == GW_BACK_MAX);
	run_a_while();
	log_to(NULL);
	log_set_level(LOG_LVL_ERR);
	cr_assert_eq(told, 8, "%u lines in the log", told);
	cr_assert_eq(cl.messages, 2);
	cr_assert_eq(the_pair()->back.n, GW_BACK_MAX);
	cr_assert_eq(gw.memory.taken, taken);
	for (unsigned i = 0; i < 20; i++)
		still_serves();
}

Test(gateway, back_calls_that_are_refused, .init = setup, .fini = teardown)
{
	speak_first();
	srv_calls(1, 10);
	srv_calls(2, 10);
	srv_calls(3, 1017);
	RUN_UNTIL(cl.messages == 1);
	cl_send(WORDS(1, 1, 1, RR_ERROR, RR_ERR_CHUNK));
	RUN_UNTIL(cl.messages == 2);
	cr_assert(got_call(2));
	/* Three is the longest one that fits, and the next one does not. */
	cl_answers(2, 1);
	RUN_UNTIL(cl.messages == 3);
	cr_assert(got_call(3) && cl.len == GW_INLINE);
	srv_calls(4, 1018);
	srv_calls(5, 10);
	cl_answers(3, 1);
	RUN_UNTIL(cl.messages == 4);
	cr_assert(got_call(5));
}

/* Answers to nothing, twice, and what is neither answer nor call. */
Test(gateway, answers_that_nobody_waits_for, .init = setup, .fini = teardown)
{
	cl_answers(9, 100);
	srv_calls(1, 10);
	RUN_UNTIL(cl.messages == 1);
	cl_answers(2, 100);
	run_a_while();
	cl_answers(1, 1);
	run_a_while();
	cl_answers(1, 100);
	run_a_while();
	cr_assert_eq(srv.records, 1);
	/* With a chunk; with another message inside. */
	cl_send(WORDS(XID, 1, 2, 0, 0, 0, 1, 1, SEG(4, 0), XID, 1, 0, 0, 0, 0));
	RUN_UNTIL(cl.messages == 2);
	refused(RR_ERR_CHUNK);
	cl_send(WORDS(XID, 1, 2, 0, 0, 0, 0, XID + 1, 1, 0, 0, 0, 0));
	RUN_UNTIL(cl.messages == 4);
	refused(RR_ERR_CHUNK);
	cr_assert_eq(the_pair()->back.grant, 1);
}

/* The client's calls have all the memory, and perhaps wait for this very answer. */
Test(gateway, answers_need_no_memory, .init = setup, .fini = drc_teardown)
{
	gw.memory.max = gw.memory.taken + 2 * GW_BUF_BYTES;
	srv.mute = true;
	for (unsigned i = 0; i < 3; i++) {
		cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(4, 0), i));
		RUN_UNTIL(gw.ncalls == i + 1);
	}
	RUN_UNTIL(srv.records == 1);
	srv_calls(5, 10);
	RUN_UNTIL(cl.messages == 1);
	cl_answers(5, 1);
	RUN_UNTIL(srv.records == 2);
	cr_assert(word_at(srv.rec, 0) == 5 && word_at(srv.rec, 1) == 1);
}

/* A record is not interrupted. */
Test(gateway, answers_behind_half_a_call, .init = setup, .fini = drc_teardown)
{
	int little = 65536;

	srv.mute = true;
	setsockopt(the_pair()->tcp.fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
	loop_rewatch(loop, &srv.conns[0], 0);
	cl_send(WORDS(HEAD(0), 1, 68, SEG(LARGE, 0), 0, 0, 0, WRITE3(LARGE)));
	RUN_UNTIL(!list_empty(&the_pair()->out));
	srv_calls(5, 10);
	RUN_UNTIL(cl.messages == 1);
	cl_answers(5, 1);
	RUN_UNTIL(!list_empty(&the_pair()->back.out));
	cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(4, 0), 4));
	RUN_UNTIL(the_pair()->out.next->next != &the_pair()->out);
	loop_rewatch(loop, &srv.conns[0], EPOLLIN);
	RUN_UNTIL(srv.records == 3);
	cr_assert(srv.len == 44 && word_at(srv.rec, 1) == 0, "the answer has gone before it");
	cr_assert_eq(the_pair()->back.n, 0);
}

/* The client has gone in between. */
Test(gateway, back_calls_of_a_client_that_is_gone, .init = setup, .fini = drc_teardown)
{
	speak_first();
	for (uint32_t i = 1; i <= 5; i++)
		srv_calls(i, 10);
	RUN_UNTIL(cl.messages == 1);
	cl_answers(1, 2);
	RUN_UNTIL(cl.messages == 3);
	FAB->close(cl.c);
	RUN_UNTIL(list_empty(&gw.pairs));
	cr_assert_eq(gw.memory.taken, 0);
	cl_comes_again();
	still_serves();
}

/* ---- Memory, idle connections, and whose they are ---- */

/* Room for one call: the others wait, and each is served when its turn comes. */
Test(gateway, calls_wait_for_memory, .init = setup, .fini = drc_teardown)
{
	const unsigned n = gw.credits;

	gw.memory.max = gw.memory.taken + 2 * GW_BUF_BYTES;
	srv.mute = true;
	ANSWER(REPLY_OK);
	for (unsigned i = 0; i < n; i++) {
		cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(3, 1), i));
		RUN_UNTIL(gw.ncalls == i + 1);
	}
	for (unsigned i = 0; i < n; i++) {
		RUN_UNTIL(srv.records == i + 1);
		cr_assert_eq(word_at(srv.rec, 10), i, "in their order");
		cr_assert(cl.messages == i && cl.downs == 0);
		cr_assert_leq(gw.memory.bufs, gw.memory.max);
		srv_answer(&srv.conns[0]);
		RUN_UNTIL(cl.messages == i + 1);
	}
	RUN_UNTIL(the_pair()->ncalls == 0);
	cr_assert_eq(gw.memory.max - gw.memory.taken, 2 * GW_BUF_BYTES);
	srv.mute = false;
	still_serves();
}

/* A client that goes while its calls wait leaves nothing behind. */
Test(gateway, gone_while_calls_wait, .init = setup, .fini = drc_teardown)
{
	gw.memory.max = gw.memory.taken + 2 * GW_BUF_BYTES;
	srv.mute = true;
	for (unsigned i = 0; i < 3; i++) {
		cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(3, 1), i));
		RUN_UNTIL(gw.ncalls == i + 1);
	}
	FAB->close(cl.c);
	RUN_UNTIL(list_empty(&gw.pairs));
	cr_assert(gw.memory.taken == 0 && gw.memory.bufs == 0 && list_empty(&gw.memory.waiting));
	gw.memory.max += GW_LARGE_BYTES;
	srv.mute = false;
	cr_assert_eq(cl_dial(false), 0);
	cr_assert_eq(FAB->attach(cl.c, loop, &cl_events, NULL), 0);
	still_serves();
}

/* status, no attributes, count, eof, length; then data. */
#define READ3(len, ...) REPLY_OK, 0, 0, len, 1, len, ##__VA_ARGS__

#define FOUR_SEGS SEG(LARGE / 4, 0), SEG(LARGE / 4, LARGE / 4), SEG(LARGE / 4, LARGE / 2), \
	SEG(LARGE / 4, LARGE / 4 * 3)

/* The first n bytes of `mem` are a pattern. */
static bool is_pattern(const uint8_t *mem, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (mem[i] != (uint8_t)(i * 7 + i / 4096))
			return false;
	return true;
}

static void put_pattern(uint8_t *mem, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		mem[i] = (uint8_t)(i * 7 + i / 4096);
}

Test(gateway, large_write, .init = setup, .fini = drc_teardown)
{
	size_t taken = gw.memory.taken;

	put_pattern(cl.mem, LARGE);
	ANSWER(REPLY_OK);
	srv.mute = true;
	cl_send(WORDS(HEAD(0), 1, 68, SEG(LARGE / 2, 0), 1, 68, SEG(LARGE / 2, LARGE / 2), 0, 0, 0,
		      WRITE3(LARGE)));
	RUN_UNTIL(srv.records == 1);
	cr_assert(srv.len == 68 + LARGE && is_pattern(srv.rec + 68, LARGE));
	cr_assert_eq(gw.memory.taken - taken, GW_LARGE_BYTES + GW_BUF_BYTES);
	srv_answer(&srv.conns[0]);
	RUN_UNTIL(cl.messages == 1);
	cr_assert_eq(got(3), RR_MSG);
	RUN_UNTIL(gw.memory.taken == taken);
	srv.mute = false;
	still_serves();
	/* A byte more than any call may have. */
	REFUSED(HEAD(0), 1, 68, SEG(LARGE, 0), 1, 68, SEG(65536, 0), 0, 0, 0, WRITE3(LARGE + 65536));
}

/* The server sends it in one piece, or so that it outgrows a buffer of the usual size. */
Test(gateway, large_read, .init = setup, .fini = drc_teardown)
{
	size_t taken = gw.memory.taken;

	for (unsigned i = 0; i < 2; i++) {
		srv.fragment = i * (1u << 20);
		ANSWER(READ3(LARGE));
		put_pattern(srv.reply + srv.reply_len, LARGE);
		srv.reply_len += LARGE;
		memset(cl.mem, 0, LARGE);
		ASK(HEAD(0), 0, 1, 4, FOUR_SEGS, 0, 0, NFS_CALL(3, 6));
		cr_assert(got(3) == RR_MSG && got(6) == 4 && got(8) == LARGE / 4 && got(20) == LARGE / 4);
		cr_assert(is_pattern(cl.mem, LARGE));
		RUN_UNTIL(gw.memory.taken == taken);
		cr_assert_leq(gw.memory.bufs, 2 * (GW_LARGE_BYTES + GW_BUF_BYTES));
	}
	srv.fragment = 0;
	still_serves();
}

/* No operation wants that, and there might never be memory for it. */
Test(gateway, large_both_ways, .init = setup, .fini = drc_teardown)
{
	REFUSED(HEAD(0), 1, 68, SEG(LARGE / 2, 0), 0, 1, 4, FOUR_SEGS, 0, 0, WRITE3(LARGE / 2));
}

/* The memory for it was not dealt out. */
Test(gateway, large_reply_that_nobody_asked_for, .init = setup, .fini = drc_teardown)
{
	ANSWER(REPLY_OK);
	srv.reply_len = 2u << 20;
	cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(3, 1)));
	RUN_UNTIL(cl.downs == 1);
	RUN_UNTIL(list_empty(&gw.pairs));
	cr_assert(gw.memory.taken == 0 && gw.memory.bufs == 0);
}

/* A large call waits for as much as it needs, and is served in its turn. */
Test(gateway, large_calls_wait_for_memory, .init = setup, .fini = drc_teardown)
{
	gw.memory.max = gw.memory.taken + GW_LARGE_BYTES + GW_BUF_BYTES;
	srv.mute = true;
	ANSWER(REPLY_OK);
	for (unsigned i = 0; i < 3; i++) {
		if (i == 1)
			cl_send(WORDS(HEAD(0), 0, 1, 4, FOUR_SEGS, 0, 0, NFS_CALL(3, 6), i));
		else
			cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(3, 1), i));
		RUN_UNTIL(gw.ncalls == i + 1);
	}
	for (unsigned i = 0; i < 3; i++) {
		RUN_UNTIL(srv.records == i + 1);
		cr_assert_eq(word_at(srv.rec, 10), i, "in their order");
		cr_assert_leq(gw.memory.taken, gw.memory.max);
		srv_answer(&srv.conns[0]);
		RUN_UNTIL(cl.messages == i + 1);
	}
	srv.mute = false;
	still_serves();
}

/* Memory that one pair keeps and does not use goes to another pair that needs it. */
Test(gateway, memory_goes_round, .init = setup, .fini = drc_teardown)
{
	struct fab_conn *first = cl.c;

	still_serves();
	RUN_UNTIL(the_pair()->ncalls == 0);
	cr_assert_eq(gw.memory.bufs, GW_BUF_BYTES);
	cl.c = NULL;
	cr_assert_eq(cl_dial(false), 0);
	cr_assert_eq(FAB->attach(cl.c, loop, &cl_events, NULL), 0);
	/* As if there were four: beside the slots of two pairs a fifth does not fit. */
	gw.memory.max = 5 * GW_BUF_BYTES + gw.memory.slots / 2;
	gw.memory.bufs += 3 * GW_BUF_BYTES;
	still_serves();
	RUN_UNTIL(container_of(gw.pairs.prev, struct gw_pair, node)->ncalls == 0);
	cr_assert_eq(the_pair()->nbufs, 0);
	gw.memory.bufs -= 3 * GW_BUF_BYTES;
	FAB->close(first);
}

static void another_client(void)
{
	cl.c = NULL;
	cr_assert_eq(cl_dial(false), 0);
	cr_assert_eq(FAB->attach(cl.c, loop, &cl_events, NULL), 0);
}

static void call_often(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned long before = gw.ncalls;

		cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(3, 1), i));
		RUN_UNTIL(gw.ncalls == before + 1);
	}
}

/* A peer with more calls than memory does not keep others waiting, however many connections it
 * has; a part of the memory is never its. */
Test(gateway, no_peer_has_all_memory, .init = setup, .fini = drc_teardown)
{
	struct fab_conn *first = cl.c, *second;

	gw.memory.max = 40 * GW_BUF_BYTES;
	srv.mute = true;
	ANSWER(REPLY_OK);
	call_often(8);
	another_client();
	second = cl.c;
	call_often(8);
	RUN_UNTIL(srv.records == 13);
	cr_assert_leq(gw.memory.taken, gw.memory.max / 4 * 3);
	srv.mute = false;
	dial_from = htonl(0x7f000002);
	another_client();
	still_serves();
	cr_assert_eq(srv.records, 14);
	cr_assert_not(list_empty(&gw.memory.waiting));
	/* What the peer gives back is its own again. */
	srv.mute = true;
	FAB->close(first);
	RUN_UNTIL(list_empty(&gw.memory.waiting));
	FAB->close(second);
}

Test(gateway, no_room_for_a_connection, .init = setup, .fini = drc_teardown)
{
	FAB->close(cl.c);
	RUN_UNTIL(list_empty(&gw.pairs));
	gw.memory.max = GW_LARGE_BYTES + 3 * GW_BUF_BYTES;
	cr_assert_eq(cl_dial(false), 0);
	FAB->close(cl.c);
	RUN_UNTIL(list_empty(&gw.pairs));
	gw.memory.max = GW_LARGE_BYTES + 2 * GW_BUF_BYTES;
	cr_assert_eq(cl_dial(false), -ECONNREFUSED);
	RUN_UNTIL(list_empty(&gw.pairs));
	cr_assert(gw.memory.taken == 0 && gw.memory.slots == 0);
}

/* A connection without calls has a share of the memory, too. When others want it, the one that
 * has been idle for longest ends, and no other. */
Test(gateway, idle_connections_give_way, .init = setup, .fini = drc_teardown)
{
	struct fab_conn *first = cl.c, *second;
	struct gw_pair *oldest = the_pair(), *later;

	another_client();
	second = cl.c;
	later = container_of(gw.pairs.prev, struct gw_pair, node);
	gw.memory.max = gw.memory.taken + GW_LARGE_BYTES + 2 * GW_BUF_BYTES;
	/* All of them were busy a moment ago. */
	cr_assert_eq(cl_dial(false), -ECONNREFUSED);
	FAB->close(cl.c);
	cr_assert(!oldest->ended && !later->ended);
	oldest->busy_at -= 30000000000u;
	later->busy_at -= 20000000000u;
	another_client();
	RUN_UNTIL(cl.downs == 1);
	RUN_UNTIL(the_pair() == later);
	cr_assert_not(later->ended);
	cl.downs = 0;
	still_serves();
	/* A call that would have to wait for memory. */
	RUN_UNTIL(container_of(gw.pairs.prev, struct gw_pair, node)->ncalls == 0);
	gw.memory.max = gw.memory.taken + GW_BUF_BYTES;
	cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(3, 0)));
	RUN_UNTIL(cl.messages == 2);
	cr_assert_eq(srv.records, 2);
	RUN_UNTIL(cl.downs == 1);
	FAB->close(first);
	FAB->close(second);
}

Test(gateway, idle_connections_end, .init = setup, .fini = drc_teardown)
{
	FAB->close(cl.c);
	RUN_UNTIL(list_empty(&gw.pairs));
	gw.idle_ms = 100;
	cr_assert_eq(cl_dial(false), 0);
	cr_assert_eq(FAB->attach(cl.c, loop, &cl_events, NULL), 0);
	/* A call that is under way holds it, however long it takes. */
	srv.mute = true;
	ANSWER(REPLY_OK);
	cl_send(WORDS(HEAD(0), 0, 0, 0, NFS_CALL(3, 1)));
	RUN_UNTIL(srv.records == 1);
	for (uint64_t until = mono_ns() + 500000000; mono_ns() < until;)
		RUN_UNTIL(true);
	cr_assert_eq(cl.downs, 0);
	srv_answer(&srv.conns[srv.nconns - 1]);
	RUN_UNTIL(cl.messages == 1);
	RUN_UNTIL(cl.downs == 1);
	RUN_UNTIL(list_empty(&gw.pairs));
}

/* As if so much time had passed, and the timer came. */
static void pass_for(struct gw_pair *p, unsigned seconds)
{
	p->moved_at -= seconds * 1000000000ull;
	p->stall.fn(&p->stall);
}

/* A client that names a Read chunk and then says nothing has the memory of its calls for a
 * minute, and not for ever. */
Test(gateway, client_that_does_not_answer_a_read, .init = setup, .fini = drc_teardown)
{
	struct gw_pair *p = the_pair();

	/* One that answers has nothing to fear. */
	ANSWER(REPLY_OK);
	ASK(HEAD(0), 1, 68, SEG(4096, 0), 0, 0, 0, WRITE3(4096));
	RUN_UNTIL(p->ncalls == 0);
	pass_for(p, 3600);
	still_serves();
	RUN_UNTIL(p->ncalls == 0);
	loop_rewatch(loop, &cl.c->watch, 0);
	cl_send(WORDS(HEAD(0), 1, 68, SEG(4096, 0), 0, 0, 0, WRITE3(4096)));
	RUN_UNTIL(p->ncalls == 1);
	cr_assert_eq(container_of(p->calls.next, struct gw_call, node)->reads_left, 1);
	pass_for(p, 30);
	cr_assert_not(p->ended);
	pass_for(p, 31);
	RUN_UNTIL(list_empty(&gw.pairs));
	cr_assert(gw.memory.taken == 0 && gw.memory.bufs == 0);
}

Test(gateway, one_user_only, .init = setup, .fini = drc_teardown)
{
	struct errbuf eb = { "" };

	cr_assert_eq(allow_open(&gw.allow, &eb), 0, "%s", eb.text);
	gw.allow.on = true;
	for (unsigned i = 0; i < 4; i++) {
		FAB->close(cl.c);
		RUN_UNTIL(list_empty(&gw.pairs));
		gw.allow.uid = i % 2 ? geteuid() : geteuid() + 1;
		cr_assert_eq(cl_dial(false), i % 2 ? 0 : -ECONNREFUSED, "%u", i);
	}
	allow_close(&gw.allow);
}

/* A list of two sockets, the second of them somebody else's. */
static void list_sockets(int fd, unsigned port)
{
	char text[300];
	int n = snprintf(text, sizeof(text),
			 "   0: %08X:%04X %08X:%04X 01 0:0 0:0 0 %5u 0 4711\n"
			 "   1: %08X:0001 %08X:0002 01 0:0 0:0 0 %5u 0 4712\n",
			 htonl(INADDR_LOOPBACK), port, htonl(INADDR_LOOPBACK), 20049, 1000,
			 htonl(INADDR_LOOPBACK), htonl(INADDR_LOOPBACK), 1001);

	cr_assert_eq(pwrite(fd, text, (size_t)n, 0), n);
}

/* The list is read from its beginning for each connection, even if only a part of it was read
 * for the connection before. */
Test(gateway, a_user_who_comes_again)
{
	struct gw_allow allow = { .on = true, .uid = 1000, .lists = { tmpfile(), NULL } };
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	struct sockaddr_in *to = (void *)&local, *from = (void *)&peer;

	cr_assert_not_null(allow.lists[0]);
	*to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(20049),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	*from = *to;
	for (unsigned port = 1000; port < 1004; port++) {
		list_sockets(fileno(allow.lists[0]), port);
		from->sin_port = htons((uint16_t)port);
		cr_assert(allow_peer(&allow, &local, &peer), "port %u", port);
		from->sin_port = htons(999);
		cr_assert(port % 2 || !allow_peer(&allow, &local, &peer), "port %u", port);
	}
	allow_close(&allow);
}

/* ---- Write and Reply chunks ---- */

Test(gateway, write_chunk_of_many_segments, .init = setup, .fini = teardown)
{
	ANSWER(READ3(10, 0x61626364, 0x65666768, 0x696a0000));
	ASK(HEAD(0), 0, 1, 4, SEG(3, 0), SEG(0, 50), SEG(5, 100), SEG(100, 200), 0, 0, NFS_CALL(3, 6));
	cr_assert(!memcmp(cl.mem, "abc\0", 4) && !memcmp(cl.mem + 100, "defgh\0", 6));
	cr_assert(!memcmp(cl.mem + 200, "ij\0", 3));
	cr_assert(got(3) == RR_MSG && got(5) == 1 && got(6) == 4);
	cr_assert(got(8) == 3 && got(12) == 0 && got(16) == 5 && got(20) == 2, "what was written");
	cr_assert(got(23) == 0 && got(24) == 0 && got(25) == XID);
	cr_assert_eq(cl.len, 4 * (25 + 11), "and no data in the message");
	still_serves();
}

Test(gateway, write_chunk_too_small, .init = setup, .fini = teardown)
{
	ANSWER(READ3(10, 0x61626364, 0x65666768, 0x696a0000));
	ASK(HEAD(0), 0, 1, 2, SEG(3, 0), SEG(6, 100), 0, 0, NFS_CALL(3, 6));
	cr_assert_eq(srv.records, 1);
	refused(RR_ERR_CHUNK);
	cr_assert(!memcmp(cl.mem, "\0\0\0", 3), "nothing was written");
}

Test(gateway, read_of_nothing, .init = setup, .fini = teardown)
{
	ANSWER(READ3(0));
	ASK(HEAD(0), 0, 1, 1, SEG(4096, 0), 0, 0, NFS_CALL(3, 6));
	cr_assert(got(5) == 1 && got(6) == 1 && got(8) == 0, "the chunk comes back, unused");
	cr_assert_eq(cl.len, 4 * (13 + 11));
	/* So it does with a READ that failed. */
	ANSWER(REPLY_OK, 70, 0);
	ASK(HEAD(0), 0, 1, 1, SEG(4096, 0), 0, 0, NFS_CALL(3, 6));
	cr_assert(got(5) == 1 && got(8) == 0 && cl.len == 4 * (13 + 8));
}

/* Of no segments, or of empty ones: the data is wanted inline. */
Test(gateway, write_chunk_of_no_size, .init = setup, .fini = teardown)
{
	ANSWER(READ3(8, 0x61626364, 0x65666768));
	ASK(HEAD(0), 0, 1, 0, 0, 0, NFS_CALL(3, 6));
	cr_assert(got(3) == RR_MSG && got(5) == 1 && got(6) == 0 && got(7) == 0 && got(8) == 0);
	cr_assert(cl.len == 4 * (9 + 11 + 2) && got(20) == 0x61626364 && got(21) == 0x65666768);
	ASK(HEAD(0), 0, 1, 2, SEG(0, 0), SEG(0, 8), 0, 0, NFS_CALL(3, 6));
	cr_assert(got(3) == RR_MSG && got(6) == 2 && got(8) == 0 && got(12) == 0);
	cr_assert(cl.len == 4 * (17 + 11 + 2) && got(28) == 0x61626364);
	cr_assert_eq(srv.records, 2);
	still_serves();
}

Test(gateway, three_reads_in_one_compound, .init = setup, .fini = teardown)
{
#define READ4(len, ...) 25, 0, 1, len, __VA_ARGS__
	ANSWER(REPLY_OK, 0, 0, 4, 22, 0, READ4(1, 0x41000000), READ4(6, 0x42424242, 0x42420000),
	       READ4(4, 0x43434343));
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 1, SEG(1000, 1000), 1, 1, SEG(1000, 2000), 0, 0,
	    NFS_CALL(4, 1));
	cr_assert(!memcmp(cl.mem, "A\0", 2));
	cr_assert(!memcmp(cl.mem + 1000, "BBBBBB\0", 7));
	cr_assert(!memcmp(cl.mem + 2000, "CCCC\0", 5));
	cr_assert(got(8) == 1 && got(14) == 6 && got(20) == 4);
	/* What is left has the three results, without their data. */
	cr_assert_eq(cl.len, 4 * (25 + 6 + 5 + 3 * 4));
	cr_assert(got(36) == 25 && got(39) == 1 && got(40) == 25 && got(43) == 6 && got(47) == 4);
}

/* A COMPOUND ends with the first operation that fails. The chunks behind it come back empty. */
Test(gateway, second_read_fails, .init = setup, .fini = teardown)
{
	ANSWER(REPLY_OK, 10026, 0, 3, 22, 0, READ4(6, 0x42424242, 0x42420000), 25, 10026);
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 2, SEG(600, 1000), SEG(400, 1600), 0, 0, NFS_CALL(4, 1));
	cr_assert(!memcmp(cl.mem, "BBBBBB\0", 7) && cl.mem[1000] == 0);
	cr_assert(got(5) == 1 && got(6) == 1 && got(8) == 6, "the first one");
	cr_assert(got(11) == 1 && got(12) == 2 && got(14) == 0 && got(18) == 0, "the second one");
	cr_assert(got(21) == 0 && got(22) == 0 && got(23) == XID);
	cr_assert_eq(cl.len, 4 * (23 + 6 + 5 + 4 + 2));
	cr_assert(got(37) == 6 && got(38) == 25 && got(39) == 10026, "nothing between the results");
	/* The first one fails. */
	ANSWER(REPLY_OK, 70, 0, 2, 22, 0, 25, 70);
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 1, SEG(1000, 1000), 0, 0, NFS_CALL(4, 1));
	cr_assert(got(8) == 0 && got(14) == 0 && cl.len == 4 * (19 + 6 + 5 + 2));
	still_serves();
}

/* At the end of the file: the chunk of the READ that has found nothing is its own. */
Test(gateway, first_read_of_nothing, .init = setup, .fini = teardown)
{
	ANSWER(REPLY_OK, 0, 0, 3, 22, 0, 25, 0, 1, 0, READ4(4, 0x43434343));
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 1, SEG(1000, 1000), 0, 0, NFS_CALL(4, 1));
	cr_assert(got(8) == 0 && got(14) == 4);
	cr_assert(cl.mem[0] == 0 && !memcmp(cl.mem + 1000, "CCCC\0", 5));
	cr_assert_eq(cl.len, 4 * (19 + 6 + 5 + 2 * 4));
	/* Both. */
	ANSWER(REPLY_OK, 0, 0, 3, 22, 0, 25, 0, 1, 0, 25, 0, 1, 0);
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 1, SEG(1000, 1000), 0, 0, NFS_CALL(4, 1));
	cr_assert(got(8) == 0 && got(14) == 0 && cl.len == 4 * (19 + 6 + 5 + 2 * 4));
}

/* An empty chunk says that its own item is wanted inline, and not that there is none. */
Test(gateway, one_of_two_reads_inline, .init = setup, .fini = teardown)
{
	ANSWER(REPLY_OK, 0, 0, 3, 22, 0, READ4(5, 0x41414141, 0x41000000), READ4(4, 0x42424242));
	ASK(HEAD(0), 0, 1, 0, 1, 1, SEG(1000, 1000), 0, 0, NFS_CALL(4, 1));
	cr_assert(got(5) == 1 && got(6) == 0 && got(7) == 1 && got(8) == 1 && got(10) == 4);
	cr_assert(cl.mem[0] == 0 && !memcmp(cl.mem + 1000, "BBBB\0", 5));
	cr_assert_eq(cl.len, 4 * (15 + 6 + 5 + 6 + 4));
	cr_assert(got(29) == 5 && got(30) == 0x41414141 && got(31) == 0x41000000 && got(32) == 25);
	memset(cl.mem, 0, 2000);
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 1, SEG(0, 1000), 0, 0, NFS_CALL(4, 1));
	cr_assert(got(8) == 5 && got(14) == 0 && !memcmp(cl.mem, "AAAAA\0", 6) && cl.mem[1000] == 0);
	cr_assert_eq(cl.len, 4 * (19 + 6 + 5 + 4 + 5));
	cr_assert_eq(got(38), 0x42424242);
	/* Fewer chunks than READs: what has none is inline, too. */
	memset(cl.mem, 0, 2000);
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 0, 0, NFS_CALL(4, 1));
	cr_assert(got(8) == 5 && !memcmp(cl.mem, "AAAAA\0", 6));
	cr_assert(cl.len == 4 * (13 + 6 + 5 + 4 + 5) && got(32) == 0x42424242);
	/* More chunks than READs. */
	ANSWER(REPLY_OK, 0, 0, 2, 22, 0, READ4(4, 0x44444444));
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 1, SEG(1000, 1000), 1, 0, 0, 0, NFS_CALL(4, 1));
	cr_assert(got(8) == 4 && got(14) == 0 && got(17) == 1 && got(18) == 0 && got(19) == 0);
	cr_assert_eq(cl.len, 4 * (21 + 6 + 5 + 4));
}

/* What remains of the results when the data is gone is still too long to be sent inline. */
Test(gateway, two_reads_and_a_reply_chunk, .init = setup, .fini = teardown)
{
	ANSWER(REPLY_OK, 0, 0, 4, 22, 0, READ4(4, 0x41414141), READ4(2, 0x42420000), 9, 0, 0, 5000);
	for (unsigned at = srv.reply_len; at < srv.reply_len + 5000; at += 4)
		memcpy(srv.reply + at, "attr", 4);
	srv.reply_len += 5000;
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 1, SEG(1000, 1000), 0, 1, 1, SEG(10000, 2000), NFS_CALL(4, 1));
	cr_assert(got(3) == RR_NOMSG && got(8) == 4 && got(14) == 2);
	cr_assert(got(18) == 1 && got(19) == 1 && got(21) == 4 * (6 + 5 + 2 * 4 + 4) + 5000);
	cr_assert(cl.len == 4 * 24 && !memcmp(cl.mem, "AAAA\0", 5) && !memcmp(cl.mem + 1000, "BB\0", 3));
	cr_assert(word_at(cl.mem + 2000, 14) == 4 && word_at(cl.mem + 2000, 15) == 25);
	cr_assert(word_at(cl.mem + 2000, 18) == 2 && word_at(cl.mem + 2000, 19) == 9);
	cr_assert(!memcmp(cl.mem + 2000 + got(21) - 4, "attr\0", 5));
}

Test(gateway, more_write_chunks_than_four, .init = setup, .fini = teardown)
{
#define ONE4(c) READ4(4, c * 0x01010101u)
#define CHUNK(at) 1, 1, SEG(4, at)
	ANSWER(REPLY_OK, 0, 0, 7, 22, 0, ONE4('a'), ONE4('b'), ONE4('c'), ONE4('d'), ONE4('e'), ONE4('f'));
	ASK(HEAD(0), 0, CHUNK(0), CHUNK(4), CHUNK(8), CHUNK(12), CHUNK(16), CHUNK(20), 0, 0, NFS_CALL(4, 1));
	cr_assert(!memcmp(cl.mem, "aaaabbbbccccddddeeeeffff\0", 25));
	cr_assert_eq(cl.len, 4 * (7 + 6 * 6 + 6 + 5 + 6 * 4));
}

/* An item without bytes has a chunk as well. */
Test(gateway, empty_link_and_read, .init = setup, .fini = teardown)
{
	ANSWER(REPLY_OK, 0, 0, 3, 22, 0, 27, 0, 0, READ4(4, 0x43434343));
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 1, SEG(1000, 1000), 0, 0, NFS_CALL(4, 1));
	cr_assert(got(8) == 0 && got(14) == 4, "what was written");
	cr_assert(cl.mem[0] == 0 && !memcmp(cl.mem + 1000, "CCCC\0", 5));
	/* At the end of the record, too. */
	ANSWER(REPLY_OK, 0, 0, 3, 22, 0, READ4(4, 0x44444444), 27, 0, 0);
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 1, SEG(1000, 1000), 0, 0, NFS_CALL(4, 1));
	cr_assert(got(8) == 4 && got(14) == 0);
	cr_assert(!memcmp(cl.mem, "DDDD\0", 5));
	still_serves();
}

Test(gateway, second_write_chunk_too_small, .init = setup, .fini = teardown)
{
	ANSWER(REPLY_OK, 0, 0, 3, 22, 0, READ4(1, 0x41000000), READ4(6, 0x42424242, 0x42420000));
	ASK(HEAD(0), 0, 1, 1, SEG(1000, 0), 1, 1, SEG(5, 1000), 0, 0, NFS_CALL(4, 1));
	refused(RR_ERR_CHUNK);
	cr_assert_eq(cl.mem[1000], 0);
}

Test(gateway, reply_chunk, .init = setup, .fini = teardown)
{
	ANSWER(REPLY_OK, 7);
	for (srv.reply_len = 28; srv.reply_len < 6000; srv.reply_len += 4)
		memcpy(srv.reply + srv.reply_len, "data", 4);
	ASK(HEAD(0), 0, 0, 1, 2, SEG(4096, 0), SEG(10000, 20000), NFS_CALL(3, 16));
	cr_assert_eq(got(3), RR_NOMSG);
	cr_assert(got(4) == 0 && got(5) == 0 && got(6) == 1 && got(7) == 2);
	cr_assert(got(9) == 4096 && got(13) == 6000 - 4096 && cl.len == 64);
	cr_assert(!memcmp(cl.mem, srv.reply, 4096) && !memcmp(cl.mem + 20000, srv.reply + 4096, 1904));
	cr_assert_eq(cl.mem[20000 + 1904], 0);
	/* One that is too small, and none. */
	ASK(HEAD(0), 0, 0, 1, 2, SEG(4096, 0), SEG(1900, 20000), NFS_CALL(3, 16));
	cr_assert(got(3) == RR_ERROR && got(4) == RR_ERR_CHUNK);
	ASK(HEAD(0), 0, 0, 0, NFS_CALL(3, 16));
	refused(RR_ERR_CHUNK);
	/* One that is not needed. */
	ANSWER(REPLY_OK);
	ASK(HEAD(0), 0, 0, 1, 1, SEG(4096, 0), NFS_CALL(3, 0));
	cr_assert_eq(got(3), RR_MSG);
}

/* ---- Send With Invalidate ---- */

Test(gateway, invalidates_only_who_said_so, .init = setup, .fini = teardown)
{
	ANSWER(READ3(4, 0x61626364));
	ASK(HEAD(0), 0, 1, 1, SEG(4096, 0), 0, 0, NFS_CALL(3, 6));
	cr_assert(!cl.invalidated);
}

static void setup_r(void)
{
	open_all(true);
}

Test(gateway, invalidates_a_handle_of_the_call, .init = setup_r, .fini = teardown)
{
	uint32_t rkey = cl.mr.rkey;

	still_serves();
	cr_assert(!cl.invalidated, "a call without chunks");
	ANSWER(READ3(4, 0x61626364));
	ASK(HEAD(0), 0, 1, 1, SEG(4096, 0), 0, 0, NFS_CALL(3, 6));
	cr_assert(cl.invalidated && cl.rkey == rkey);
	cr_assert(!memcmp(cl.mem, "abcd", 4), "what was written before is there");
	still_serves();
}

/* ---- when faults happen ---- */

static unsigned long fault_calls(const char *spec, enum gw_fault kind, unsigned long step)
{
	struct gw_faults f = { .n = 0 };
	struct errbuf eb = { "" };
	unsigned long mask = 0;

	cr_assert_eq(gw_faults_parse(&f, spec, &eb), 0, "%s", eb.text);
	for (unsigned long call = 1; call < 60; call += step)
		if (gw_fault(&f, kind, call, NULL))
			mask |= 1ul << call;
	return mask;
}

/* Which numbers the calls have that can have a fault, on a busy machine nobody knows. */
Test(gateway, faults_that_few_calls_can_have_count_those)
{
	cr_assert_eq(fault_calls("short-reply@20", FAULT_SHORT_REPLY, 7), 1ul << 22);
	cr_assert_eq(fault_calls("short-reply@20/3", FAULT_SHORT_REPLY, 7), 1ul << 22 | 1ul << 43);
	cr_assert_eq(fault_calls("short-reply@20/3", FAULT_SHORT_REPLY, 5), 1ul << 21 | 1ul << 36 | 1ul << 51);
	cr_assert_eq(fault_calls("drop-before@20/3", FAULT_DROP_BEFORE, 7), 1ul << 29 | 1ul << 50);
	cr_assert_eq(fault_calls("drop-before@22", FAULT_DROP_BEFORE, 7), 1ul << 22);
}
