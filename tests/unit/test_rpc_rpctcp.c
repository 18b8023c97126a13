/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RPC over TCP against a server that follows a script: a thread that accepts
 * one connection on 127.0.0.1, reads one call, and then sends what the test
 * says, in the pieces that the test says.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/loop.h"
#include "rpc/rpctcp.h"
#include "rpcb.h"

#define LAST 0x80000000u
#define XID  0xfffffffeu                /* in a script: the call's own */
#define TIMEO_MS   400u         /* where it has to pass */
#define PATIENT_MS 20000u       /* where it must not, on a busy machine */

/* One piece: a pause, then so many words of `w`, or `flood` until nobody listens. */
struct piece {
	unsigned pause_ms, n;
	uint32_t w[10];
	unsigned bytes;                 /* 0: all of the words */
	bool flood;
};

#define COUNT(...) (sizeof((uint32_t[]){ __VA_ARGS__ }) / 4)
#define P(...)         { .n = COUNT(__VA_ARGS__), .w = { __VA_ARGS__ } }
#define AFTER(ms, ...) { .pause_ms = ms, .n = COUNT(__VA_ARGS__), .w = { __VA_ARGS__ } }
#define CUT(len, ...)  { .bytes = len, .n = COUNT(__VA_ARGS__), .w = { __VA_ARGS__ } }
#define END            { .n = 0 }

static struct {
	int listener;
	struct sockaddr_storage addr;
	const struct piece *script;
	unsigned calls;                 /* how many to read and answer alike */
	bool hang;                      /* keep the connection open at the end */
	pthread_t thread;
	pthread_mutex_t mu;
	pthread_cond_t cond;
	bool over;
	uint32_t call[20000];           /* the last one, with its record mark */
	uint32_t call_len;
} srv = { .mu = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static bool read_all(int fd, void *buf, size_t len)
{
	for (char *p = buf; len; ) {
		ssize_t n = recv(fd, p, len, 0);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static bool read_call(int fd)
{
	if (!read_all(fd, srv.call, 4))
		return false;
	srv.call_len = ntohl(srv.call[0]) & ~LAST;
	return srv.call_len < sizeof(srv.call) - 4 && read_all(fd, srv.call + 1, srv.call_len);
}

static void flood(int fd)
{
	static const char zeros[65536];
	uint64_t end = mono_ns() + 3000000000ull;

	while (mono_ns() < end && send(fd, zeros, sizeof(zeros), MSG_NOSIGNAL) > 0)
		;
}

static void play(int fd)
{
	for (const struct piece *p = srv.script; p && (p->n || p->flood); p++) {
		uint32_t wire[10];

		usleep(p->pause_ms * 1000);
		for (unsigned i = 0; i < p->n; i++)
			wire[i] = p->w[i] == XID ? srv.call[1] : htonl(p->w[i]);
		if (p->flood)
			flood(fd);
		else if (send(fd, wire, p->bytes ? p->bytes : p->n * 4, MSG_NOSIGNAL) < 0)
			return;
	}
}

static void *server(void *arg)
{
	int one = 1, fd = accept(srv.listener, NULL, NULL);

	(void)arg;
	if (fd < 0)
		return NULL;
	/* A piece is a segment of its own. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (unsigned i = 0; i < srv.calls && read_call(fd); i++)
		play(fd);
	pthread_mutex_lock(&srv.mu);
	while (srv.hang && !srv.over)
		pthread_cond_wait(&srv.cond, &srv.mu);
	pthread_mutex_unlock(&srv.mu);
	close(fd);
	return NULL;
}

/* Listens; false if that port is not available. */
static bool listen_on(uint32_t ip, uint16_t port)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip),
	};
	socklen_t len = sizeof(in);
	int one = 1;

	srv.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(srv.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(srv.listener, (struct sockaddr *)&in, len) || listen(srv.listener, 5)) {
		close(srv.listener);
		return false;
	}
	cr_assert_eq(getsockname(srv.listener, (struct sockaddr *)&in, &len), 0);
	memset(&srv.addr, 0, sizeof(srv.addr));
	memcpy(&srv.addr, &in, sizeof(in));
	return true;
}

static void start(const struct piece *script, unsigned calls, bool hang)
{
	srv.script = script;
	srv.calls = calls;
	srv.hang = hang;
	srv.over = false;
	cr_assert_eq(pthread_create(&srv.thread, NULL, server, NULL), 0);
}

static void stop(void)
{
	pthread_mutex_lock(&srv.mu);
	srv.over = true;
	pthread_cond_signal(&srv.cond);
	pthread_mutex_unlock(&srv.mu);
	shutdown(srv.listener, SHUT_RDWR);      /* ends an accept() that waits */
	pthread_join(srv.thread, NULL);
	close(srv.listener);
}

static bool_t no_args(XDR *x, void *arg)
{
	(void)x;
	(void)arg;
	return TRUE;
}

static bool_t two_words(XDR *x, uint32_t *w)
{
	return xdr_uint32_t(x, &w[0]) && xdr_uint32_t(x, &w[1]);
}

struct outcome {
	int rc;
	uint32_t w[2];
	unsigned ms;
	struct errbuf eb;
};

/* One call against the script. */
static struct outcome run_for(unsigned ms, const struct piece *script, bool hang)
{
	struct outcome o = { .rc = 0 };
	struct rpctcp *t;
	uint64_t from;

	cr_assert(listen_on(INADDR_LOOPBACK, 0));
	start(script, 1, hang);
	cr_assert_eq(rpctcp_open(&t, &srv.addr, NULL, "testd", ms, &o.eb), 0, "%s", o.eb.text);
	from = mono_ns();
	o.rc = rpctcp_call(t, 1, 2, 3, NULL, (xdrproc_t)no_args, NULL, (xdrproc_t)two_words, o.w,
			   &o.eb);
	o.ms = (unsigned)((mono_ns() - from) / 1000000);
	rpctcp_close(t);
	stop();
	return o;
}

static struct outcome run(const struct piece *script, bool hang)
{
	return run_for(PATIENT_MS, script, hang);
}

#define OK_WORDS XID, 1, 0, 0, 0, 0, 11, 22

Test(rpctcp, one_fragment)
{
	struct outcome o = run((struct piece[]){ P(LAST | 32, OK_WORDS), END }, true);

	cr_assert_eq(o.rc, 0, "%s", o.eb.text);
	cr_assert(o.w[0] == 11 && o.w[1] == 22);
	/* What went out: one record of an AUTH_NONE header. */
	cr_assert_eq(ntohl(srv.call[0]), LAST | 40);
	cr_assert(ntohl(srv.call[3]) == 2 && ntohl(srv.call[4]) == 1 && ntohl(srv.call[5]) == 2 &&
		  ntohl(srv.call[6]) == 3);
}

Test(rpctcp, fragments_and_pieces)
{
	/* Fragments end where they like, also in the middle of a word, also empty. */
	static const struct piece words[] = {
		P(8, XID, 1), AFTER(20, 8, 0, 0), P(0),
		AFTER(20, LAST | 16, 0, 0, 11, 22), END,
	};
	static const struct piece halves[] = {
		CUT(6, LAST | 32, XID), AFTER(20, 0), END,
	};
	static const struct piece odd[] = {
		P(30, XID, 1, 0, 0, 0, 0), CUT(6, 11, 22),
		AFTER(30, LAST | 2), CUT(2, 22u << 16), END,
	};
	struct outcome o = run(words, true);

	cr_assert(o.rc == 0 && o.w[0] == 11 && o.w[1] == 22, "%s", o.eb.text);
	o = run(odd, true);
	cr_assert(o.rc == 0 && o.w[0] == 11 && o.w[1] == 22, "%s", o.eb.text);
	o = run(halves, false);
	cr_assert_eq(o.rc, -ECONNRESET);
}

Test(rpctcp, refused_replies)
{
	static const struct { struct piece p[3]; int rc; } t[] = {
		{ { P(LAST | 32, 5, 1, 0, 0, 0, 0, 11, 22) }, -EBADMSG },    /* XID */
		{ { P(LAST | 28, XID, 1, 0, 0, 0, 0, 11) }, -EBADMSG },      /* short */
		{ { P(LAST | 0) }, -EBADMSG },                               /* empty */
		{ { P(LAST | 24, XID, 1, 0, 0, 0, 2) }, -EPROTONOSUPPORT },
		{ { P(LAST | 20, XID, 1, 1, 1, 5) }, -EACCES },
		/* Larger than anything that rpcbind or mountd say. */
		{ { P(LAST | 65537) }, -EMSGSIZE },
		{ { P(0x7fffffff) }, -EMSGSIZE },
		{ { P(0xffffffff) }, -EMSGSIZE },
		/* Fragments are added up, and the sum must not wrap. */
		{ { P(4, XID), P(LAST | 65533) }, -EMSGSIZE },
		{ { P(4, XID), P(0xfffffffc) }, -EMSGSIZE },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct outcome o = run(t[i].p, true);

		cr_assert_eq(o.rc, t[i].rc, "row %u: %d", i, o.rc);
		cr_assert(strstr(o.eb.text, "testd at 127.0.0.1"), "%s", o.eb.text);
		cr_assert_lt(o.ms, PATIENT_MS, "row %u is known at once", i);
	}
}

/* The largest record that is taken. */
Test(rpctcp, largest_record, .timeout = 300)
{
	static struct piece p[65536 / 40 + 3] = { P(LAST | 65536, OK_WORDS) };
	unsigned left = 65536 - 32, i = 1;
	struct outcome o;

	for (; left; i++) {
		p[i].n = 10;
		p[i].bytes = left < 40 ? left : 40;
		left -= p[i].bytes;
	}
	o = run(p, true);
	cr_assert(o.rc == 0 && o.w[1] == 22, "%s", o.eb.text);
}

Test(rpctcp, connection_ends_early)
{
	static const struct piece full[] = { P(LAST | 32, OK_WORDS), END };

	/* After every number of bytes, and after none. */
	for (unsigned bytes = 1; bytes < 36; bytes++) {
		struct piece p[2] = { full[0] };
		struct outcome o;

		p[0].bytes = bytes;
		o = run(p, false);
		cr_assert_eq(o.rc, -ECONNRESET, "%u bytes: %d", bytes, o.rc);
	}
	cr_assert_eq(run(NULL, false).rc, -ECONNRESET);
}

Test(rpctcp, time_limits)
{
	static const struct piece late[] = { AFTER(2 * TIMEO_MS, LAST | 32, OK_WORDS), END };
	static const struct piece half[] = { P(LAST | 32, XID, 1, 0), END };
	static const struct piece mark[] = { CUT(2, LAST | 32), END };
	/* Each piece is in time; the whole is not. */
	static const struct piece drip[] = {
		AFTER(150, LAST | 32), AFTER(150, XID), AFTER(150, 1), AFTER(150, 0),
		AFTER(150, 0), AFTER(150, 0), AFTER(150, 0), AFTER(150, 11),
		AFTER(150, 22), END,
	};
	/* Empty fragments without end: data keeps coming, and is no answer. */
	static const struct piece endless[] = { { .flood = true }, END };
	static const struct { const struct piece *p; } t[] = {
		{ NULL }, { late }, { half }, { mark }, { drip }, { endless },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct outcome o = run_for(TIMEO_MS, t[i].p, true);

		cr_assert_eq(o.rc, -ETIMEDOUT, "row %u: %d", i, o.rc);
		cr_assert(o.ms >= TIMEO_MS - 1 && o.ms < PATIENT_MS, "row %u: %u ms", i, o.ms);
		cr_assert(strstr(o.eb.text, "no reply in time"), "%s", o.eb.text);
	}
}

Test(rpctcp, several_calls)
{
	static const struct piece p[] = { P(LAST | 32, OK_WORDS), END };
	uint32_t w[2], xid = 0;
	struct errbuf eb;
	struct rpctcp *t;

	cr_assert(listen_on(INADDR_LOOPBACK, 0));
	start(p, 3, true);
	cr_assert_eq(rpctcp_open(&t, &srv.addr, NULL, "testd", 5000, &eb), 0);
	for (unsigned i = 0; i < 3; i++) {
		w[0] = w[1] = 0;
		cr_assert_eq(rpctcp_call(t, 1, 2, 3, NULL, (xdrproc_t)no_args, NULL,
					 (xdrproc_t)two_words, w, &eb), 0, "%s", eb.text);
		cr_assert(w[0] == 11 && w[1] == 22);
		cr_assert_neq(srv.call[1], xid, "each has its own XID");
		xid = srv.call[1];
	}
	rpctcp_close(t);
	stop();
}

static bool_t many_bytes(XDR *x, const uint32_t *n)
{
	static char zeros[70000];

	return xdr_opaque(x, zeros, *n);
}

/* Arguments up to what the buffer takes go out whole; beyond it nothing is sent. */
Test(rpctcp, long_arguments)
{
	static const struct piece p[] = { P(LAST | 32, OK_WORDS), END };
	uint32_t w[2], most = 65536 - 40, more = most + 4;
	struct errbuf eb = { "" };
	struct rpctcp *t;

	cr_assert(listen_on(INADDR_LOOPBACK, 0));
	start(p, 1, true);
	cr_assert_eq(rpctcp_open(&t, &srv.addr, NULL, "testd", 5000, &eb), 0);
	cr_assert_eq(rpctcp_call(t, 1, 2, 3, NULL, (xdrproc_t)many_bytes, &more,
				 (xdrproc_t)two_words, w, &eb), -EMSGSIZE);
	cr_assert(strstr(eb.text, "too long"), "%s", eb.text);
	cr_assert_eq(rpctcp_call(t, 1, 2, 3, NULL, (xdrproc_t)many_bytes, &most,
				 (xdrproc_t)two_words, w, &eb), 0, "%s", eb.text);
	cr_assert_eq(srv.call_len, 65536);
	rpctcp_close(t);
	stop();
}

Test(rpctcp, nobody_listens)
{
	struct errbuf eb = { "" };
	struct rpctcp *t;

	cr_assert(listen_on(INADDR_LOOPBACK, 0));
	close(srv.listener);
	cr_assert_eq(rpctcp_open(&t, &srv.addr, NULL, "testd", TIMEO_MS, &eb), -ECONNREFUSED);
	cr_assert(strstr(eb.text, "cannot reach testd at 127.0.0.1"), "%s", eb.text);
	rpctcp_close(NULL);
}

Test(rpctcp, with_port)
{
	struct sockaddr_storage a = { .ss_family = AF_INET }, b;

	((struct sockaddr_in *)(void *)&a)->sin_addr.s_addr = htonl(0x7f000001);
	b = rpctcp_with_port(&a, 2049);
	cr_assert_eq(((struct sockaddr_in *)(void *)&b)->sin_port, htons(2049));
	cr_assert_eq(((struct sockaddr_in *)(void *)&b)->sin_addr.s_addr, htonl(0x7f000001));
	a = (struct sockaddr_storage){ .ss_family = AF_INET6 };
	b = rpctcp_with_port(&a, 65535);
	cr_assert_eq(((struct sockaddr_in6 *)(void *)&b)->sin6_port, 0xffff);
}

/* ---- rpcbind ---- */

/* Its port is fixed: a loopback address that nobody else uses, and root. */
#define RPCBIND_IP 0x7f2a0b01u

static int ask_rpcbind(const char *uaddr, struct errbuf *eb)
{
	uint32_t len = (uint32_t)strlen(uaddr), padded = (len + 3) & ~3u;
	struct piece p[16] = { P(LAST | (28 + padded), XID, 1, 0, 0, 0, 0, len) };
	int port;

	for (uint32_t i = 0; i < padded; i += 4) {
		p[1 + i / 4].n = 1;
		for (uint32_t b = i; b < i + 4 && b < len; b++)
			p[1 + i / 4].w[0] |= (uint32_t)uaddr[b] << (24 - 8 * (b - i));
	}
	if (!listen_on(RPCBIND_IP, RPCBIND_PORT))
		cr_skip_test("port 111 cannot be had");
	start(p, 1, true);
	port = rpcbind_tcp_port(&srv.addr, 100005, 3, "mountd", "mountport", 5000, eb);
	stop();
	return port;
}

Test(rpctcp, rpcbind_answers)
{
	static const struct { const char *uaddr; int rc; const char *text; } t[] = {
		{ "127.0.0.1.8.1", 2049, "" }, { "0.0.0.0.0.111", 111, "" },
		{ "10.0.0.1.255.255", 65535, "" }, { "::.78.80", 20048, "" },
		{ "fe80::1.0.1", 1, "" },
		{ "", -ENOENT, "mountd is not registered" },
		{ "1.2.3.4.0.0", -EBADMSG, "no usable address" },
		{ "1.2.3.4.256.1", -EBADMSG, "no usable address" },
		{ "1.2.3.4.1.256", -EBADMSG, "no usable address" },
		{ "1.2.3.4.-1.1", -EBADMSG, "no usable address" },
		{ "8.1", -EBADMSG, "no usable address" },
		{ "1", -EBADMSG, "" }, { "..", -EBADMSG, "" }, { ".", -EBADMSG, "" },
		{ "a.b.c.d.e.f", -EBADMSG, "" }, { "127.0.0.1.8.", -EBADMSG, "" },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct errbuf eb = { "" };
		int rc = ask_rpcbind(t[i].uaddr, &eb);

		cr_assert_eq(rc, t[i].rc, "'%s': %d", t[i].uaddr, rc);
		cr_assert(strstr(eb.text, t[i].text), "%s", eb.text);
	}
	/* What was asked: version 3, GETADDR, of mountd over tcp. */
	cr_assert(ntohl(srv.call[4]) == 100000 && ntohl(srv.call[5]) == 3 &&
		  ntohl(srv.call[6]) == 3 && ntohl(srv.call[11]) == 100005 &&
		  ntohl(srv.call[12]) == 3);
	cr_assert(ntohl(srv.call[13]) == 3 && !memcmp(&srv.call[14], "tcp", 3));
}

/* What the server has not read it does not get later: a call that had no answer may be made on
 * another connection meanwhile. */
Test(rpctcp, a_call_without_an_answer_is_not_left_in_the_socket)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage addr = { 0 };
	int fd, listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(in);
	struct errbuf eb = { "" };
	struct rpctcp *t;
	char buf[4096], none;
	ssize_t n;

	cr_assert_eq(bind(listener, (struct sockaddr *)&in, len), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&in, &len), 0);
	memcpy(&addr, &in, sizeof(in));
	cr_assert_eq(rpctcp_open(&t, &addr, NULL, "testd", TIMEO_MS, &eb), 0, "%s", eb.text);
	fd = accept(listener, NULL, NULL);
	cr_assert_eq(rpctcp_call(t, 1, 1, 0, NULL, (xdrproc_t)xdr_void, &none, (xdrproc_t)xdr_void, &none, &eb),
		     -ETIMEDOUT);
	rpctcp_close(t);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		;
	cr_assert(n < 0 && errno == ECONNRESET, "%zd %d", n, errno);
	close(fd);
	close(listener);
}
