/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For the tests of fabric/iwarp: two ends of one connection over 127.0.0.1, both
 * on one loop (only connect, which blocks, has a thread of its own), with a
 * proxy between them if wanted, that cuts the stream into pieces or damages it.
 */
#pragma once

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/iwarp/iwarp.h"

#define EV_MAX 4096
#define FAB (&fabric_iwarp)

enum ev_kind { EV_RECV, EV_SENT, EV_WRITTEN, EV_READ, EV_DOWN };

struct event {
	enum ev_kind kind;
	void *cookie;
	uint32_t len;
	bool inval;
	uint32_t rkey;
	int err;
};

/* What one side has seen. */
struct end {
	struct fab_conn *c;
	struct event ev[EV_MAX];
	unsigned n, of[EV_DOWN + 1];
	char why[256];
	void (*hook)(struct end *e, struct event *ev);  /* called from inside the event */
	void *hook_arg;
	struct loop *loop;
};

__attribute__((unused))
static struct event *note(struct end *e, enum ev_kind kind, void *cookie)
{
	struct event *ev = &e->ev[e->n++ % EV_MAX];

	*ev = (struct event){ .kind = kind, .cookie = cookie };
	e->of[kind]++;
	return ev;
}

static void called(struct end *e, struct event *ev)
{
	if (e->hook)
		e->hook(e, ev);
	loop_stop(e->loop);
}

static void on_recv(void *ctx, void *cookie, uint32_t len, bool inval, uint32_t rkey)
{
	struct event *ev = note(ctx, EV_RECV, cookie);

	ev->len = len;
	ev->inval = inval;
	ev->rkey = rkey;
	called(ctx, ev);
}

static void on_sent(void *ctx, void *cookie)
{
	called(ctx, note(ctx, EV_SENT, cookie));
}

static void on_written(void *ctx, void *cookie)
{
	called(ctx, note(ctx, EV_WRITTEN, cookie));
}

static void on_read(void *ctx, void *cookie)
{
	called(ctx, note(ctx, EV_READ, cookie));
}

static void on_down(void *ctx, int err, const char *why)
{
	struct end *e = ctx;
	struct event *ev = note(e, EV_DOWN, NULL);

	ev->err = err;
	snprintf(e->why, sizeof(e->why), "%s", why);
	called(e, ev);
}

static const struct fab_events events = {
	.recv = on_recv, .sent = on_sent, .written = on_written, .read = on_read, .down = on_down,
};

/* ---- The loop, run until something is so ---- */

static bool timed_out;

static void time_fn(struct loop_timer *t)
{
	(void)t;
	timed_out = true;
}

static void tick_fn(struct loop_timer *t);
static struct loop *tick_loop;

static void tick_fn(struct loop_timer *t)
{
	loop_timer_set(tick_loop, t, 5);
	loop_stop(tick_loop);
}

/* Callbacks stop the loop, so that the condition is looked at after each; a
 * tick does for those that other threads make true. */
#define RUN_UNTIL(l, cond) \
	do { \
		struct loop_timer limit_, tick_; \
		timed_out = false; \
		tick_loop = (l); \
		loop_timer_init(&limit_, time_fn); \
		loop_timer_init(&tick_, tick_fn); \
		loop_timer_set(l, &limit_, 20000); \
		loop_timer_set(l, &tick_, 5); \
		while (!(cond) && !timed_out) \
			loop_run(l); \
		loop_timer_clear(&limit_); \
		loop_timer_clear(&tick_); \
		cr_assert(!timed_out, "never: " #cond); \
	} while (0)

__attribute__((unused))
static void run_ms(struct loop *l, unsigned ms)
{
	uint64_t until = mono_ns() + ms * 1000000ull;

	RUN_UNTIL(l, mono_ns() >= until);
}

static struct sockaddr_storage loopback(unsigned port)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&ss;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in->sin_port = htons((uint16_t)port);
	return ss;
}

static unsigned port_of(int fd)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);

	cr_assert_eq(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	return ntohs(in.sin_port);
}

/* ---- Proxy: one connection, both ways ---- */

struct way {
	struct loop_watch watch;
	int to;
	uint64_t passed;
	struct proxy *proxy;
};

struct proxy {
	struct loop_watch accept_watch;
	struct loop *loop;
	struct sockaddr_storage server;
	struct way up, down;    /* from the client; from the server */
	unsigned max_piece;     /* bytes forwarded at once: 1 .. max_piece */
	struct way *flip_way;
	uint64_t flip_at;       /* this byte gets a bit flipped */
	unsigned seed;
};

static void way_fn(struct loop_watch *w, uint32_t revents)
{
	struct way *way = container_of(w, struct way, watch);
	struct proxy *p = way->proxy;
	uint8_t buf[65536];
	size_t want = 1 + (size_t)rand_r(&p->seed) % p->max_piece;
	ssize_t n = recv(w->fd, buf, want > sizeof(buf) ? sizeof(buf) : want, MSG_DONTWAIT);

	(void)revents;
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		shutdown(way->to, SHUT_WR);
		loop_rewatch(p->loop, w, 0);
		return;
	}
	if (p->flip_way == way && p->flip_at >= way->passed &&
	    p->flip_at < way->passed + (uint64_t)n)
		buf[p->flip_at - way->passed] ^= 0x10;
	way->passed += (uint64_t)n;
	for (ssize_t done = 0; done < n; ) {
		ssize_t k = send(way->to, buf + done, (size_t)(n - done), MSG_NOSIGNAL);

		if (k < 0)
			break;
		done += k;
	}
}

static void proxy_way(struct proxy *p, struct way *way, int from, int to)
{
	*way = (struct way){
		.watch = { .fd = from, .events = EPOLLIN, .fn = way_fn }, .to = to, .proxy = p,
	};
	cr_assert_eq(loop_watch(p->loop, &way->watch), 0);
}

static void proxy_fn(struct loop_watch *w, uint32_t revents)
{
	struct proxy *p = container_of(w, struct proxy, accept_watch);
	int a = accept(w->fd, NULL, NULL), b = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	(void)revents;
	cr_assert_geq(a, 0);
	cr_assert_eq(connect(b, (struct sockaddr *)&p->server, sizeof(struct sockaddr_in)), 0);
	setsockopt(a, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof(on));
	setsockopt(b, IPPROTO_TCP, 1, &on, sizeof(on));
	proxy_way(p, &p->up, a, b);
	proxy_way(p, &p->down, b, a);
}

static void proxy_start(struct proxy *p, struct loop *l, struct sockaddr_storage *server)
{
	struct sockaddr_storage ss = loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	p->loop = l;
	p->server = *server;
	cr_assert_eq(bind(fd, (struct sockaddr *)&ss, sizeof(struct sockaddr_in)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	p->accept_watch = (struct loop_watch){ .fd = fd, .events = EPOLLIN, .fn = proxy_fn };
	cr_assert_eq(loop_watch(l, &p->accept_watch), 0);
	*server = loopback(port_of(fd));
}

static void unwatch_close(struct loop *l, struct loop_watch *w)
{
	int fd = w->fd;

	loop_unwatch(l, w);
	if (fd >= 0)
		close(fd);
}

static void proxy_stop(struct proxy *p)
{
	unwatch_close(p->loop, &p->accept_watch);
	if (p->up.proxy) {
		unwatch_close(p->loop, &p->up.watch);
		unwatch_close(p->loop, &p->down.watch);
	}
}

/* ---- A pair ---- */

#define NRECV 8
#define RECV_SIZE 4096u

struct pair {
	struct loop *loop;
	struct fab_listener *li;
	struct end a, b;                        /* active, passive */
	uint8_t recv_a[NRECV][RECV_SIZE], recv_b[NRECV][RECV_SIZE];
	struct proxy proxy;
	bool use_proxy;
	int sockbuf;                            /* SO_SNDBUF; 0: default */

	/* For the connecting thread */
	struct fab_params pa, pb;
	int rc;
	struct errbuf eb;
	uint8_t peer_priv[FAB_PRIV_RECV_MAX], asked[FAB_PRIV_RECV_MAX];
	size_t peer_len, asked_len;
	bool reject;
	_Atomic bool connected;
};

static void small_buffers(struct pair *p, struct fab_conn *c)
{
	const int rcvbuf = 131072;

	if (!p->sockbuf)
		return;
	setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &p->sockbuf, sizeof(p->sockbuf));
	/* A window smaller than 127.0.0.1's segments is a test of TCP's timers. */
	setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof(rcvbuf));
}

static void post_recvs(struct fab_conn *c, uint8_t mem[NRECV][RECV_SIZE])
{
	for (int i = 0; i < NRECV; i++) {
		struct fab_sge sge = { .mem = mem[i], .len = RECV_SIZE };

		cr_assert_eq(FAB->post_recv(c, &sge, mem[i]), 0);
	}
}

static void on_request(void *ctx, struct fab_conn *c, const void *priv, size_t len)
{
	struct pair *p = ctx;
	struct errbuf eb;

	memcpy(p->asked, priv, len);
	p->asked_len = len;
	if (p->reject) {
		FAB->reject(c, "no", 2);
		return;
	}
	p->b.c = c;
	small_buffers(p, c);
	post_recvs(c, p->recv_b);
	cr_assert_eq(FAB->accept(c, "welcome!", 8, &eb), 0, "%s", eb.text);
	cr_assert_eq(FAB->attach(c, p->loop, &events, &p->b), 0);
}

static const struct fab_listen_events listen_events = { .request = on_request };

static void *connect_thread(void *arg)
{
	struct pair *p = arg;

	p->peer_len = sizeof(p->peer_priv);
	p->rc = FAB->connect(p->a.c, "hello", 5, p->peer_priv, &p->peer_len, &p->eb);
	p->connected = true;
	return NULL;
}

__attribute__((unused))
static struct pair *pair_new(void)
{
	struct pair *p = calloc(1, sizeof(*p));

	cr_assert_not_null(p);
	p->loop = loop_new(NULL);
	p->a.loop = p->b.loop = p->loop;
	p->proxy.max_piece = 65536;
	p->proxy.seed = 1;
	p->pa = (struct fab_params){
		.max_send = 64, .max_recv = NRECV, .timeout_ms = 5000,
	};
	p->pb = p->pa;
	p->pb.local = loopback(0);
	return p;
}

__attribute__((unused))
static void pair_connect(struct pair *p)
{
	struct sockaddr_storage where;
	struct errbuf eb;
	pthread_t t;

	cr_assert_eq(FAB->listen(&p->pb, p->loop, &listen_events, p, &p->li, &eb), 0,
		     "%s", eb.text);
	FAB->listen_addr(p->li, &where);
	if (p->use_proxy)
		proxy_start(&p->proxy, p->loop, &where);
	p->pa.server = where;
	cr_assert_eq(FAB->open(&p->pa, &p->a.c, &eb), 0);
	post_recvs(p->a.c, p->recv_a);
	cr_assert_eq(pthread_create(&t, NULL, connect_thread, p), 0);
	RUN_UNTIL(p->loop, p->connected);
	pthread_join(t, NULL);
	if (p->rc)
		return;
	small_buffers(p, p->a.c);
	cr_assert_eq(FAB->attach(p->a.c, p->loop, &events, &p->a), 0);
	RUN_UNTIL(p->loop, p->b.c != NULL);
}

/* With the defaults, connected. */
__attribute__((unused))
static struct pair *pair_up(void)
{
	struct pair *p = pair_new();

	pair_connect(p);
	cr_assert_eq(p->rc, 0, "%s", p->eb.text);
	return p;
}

__attribute__((unused))
static void pair_free(struct pair *p)
{
	if (p->a.c)
		FAB->close(p->a.c);
	if (p->b.c)
		FAB->close(p->b.c);
	if (p->use_proxy)
		proxy_stop(&p->proxy);
	FAB->unlisten(p->li);
	loop_free(p->loop);
	free(p);
}

__attribute__((unused))
static void send_text(struct fab_conn *c, const char *text, void *cookie)
{
	struct fab_sge sge = { .mem = (void *)(uintptr_t)text, .len = (uint32_t)strlen(text) };

	cr_assert_eq(FAB->post_send(c, &sge, 1, cookie), 0);
}

/* The peer speaks first, as NFS clients do: the passive side may send then. */
__attribute__((unused))
static void say_hello(struct pair *p)
{
	send_text(p->a.c, "hello", NULL);
	RUN_UNTIL(p->loop, p->b.of[EV_RECV] == 1 && p->a.of[EV_SENT] == 1);
	memset(p->a.of, 0, sizeof(p->a.of));
	memset(p->b.of, 0, sizeof(p->b.of));
	p->a.n = p->b.n = 0;
}

__attribute__((unused))
static void fill(uint8_t *mem, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		mem[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + seed);
}
