/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of a connection, and the provider's table of operations.
 *
 * Ownership. Between post_recv and `recv`, post_send and `sent`, and so on, the connection
 * has the buffer. When the connection goes down these events end. Nothing touches a buffer
 * from then on, because the socket is no longer read or written. close() returns
 * everything.
 *
 * When events happen. Posts go on a ring. The `kick` timer, which is due at once, sends
 * them from the loop. So everything that one round of the loop posts leaves with one system
 * call. Socket events do the rest. No event is delivered inside a post, so an owner may
 * post while its own state is incomplete.
 *
 * When the connection breaks, iw_down() removes the watch and the timers, sets `down`, and
 * tells the owner, who may close at once. Each function that called the owner looks at
 * `down` before it goes on, and the outermost one frees the struct: iw_enter(), iw_leave().
 */
#include "fabric/iwarp/iwarp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/undumped.h"

/* The first size of the table. It grows when more STags are in use at once. */
#define STAGS 256u
/* RDMA Reads at once, unless params say otherwise: what Linux clients offer. */
#define DEPTH 16u
/* If a peer's host is gone, that is noticed after IDLE + INTVL * CNT = 30 s without
 * traffic, or after 30 s of unacknowledged data. */
#define KEEP_IDLE_S  10
#define KEEP_INTVL_S 5
#define KEEP_CNT     4
#define USER_TIMEOUT_MS 30000
/* No TCP segment is smaller than that. */
#define MSS_MIN 256

void iw_enter(struct fab_conn *c)
{
	c->depth++;
}

/* The functions still at work on c may look at these until now. */
static void free_conn(struct fab_conn *c)
{
	undumped_free(c->rx.stage, IW_STAGE);
	undumped_free(c->tx.steady, IW_STEADY);
	free(c);
}

bool iw_leave(struct fab_conn *c)
{
	if (--c->depth || !c->closed)
		return true;
	free_conn(c);
	return false;
}

/* ---- Set-up --------------------------------------------------------------- */

static void set_int(int fd, int level, int name, int value)
{
	/* No option is vital, and the socket pair of a test has none of them. */
	setsockopt(fd, level, name, &value, sizeof(value));
}

void iw_tune(int fd)
{
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
	set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTVL_S);
	set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_CNT);
	set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
}

unsigned iw_ird(const struct fab_params *p)
{
	unsigned want = p->ird ? p->ird : DEPTH, n = 1;

	/* siw's peers round the number of outstanding reads up to a power of two. */
	while (n < want && n < MPA_DEPTH_MAX / 2)
		n *= 2;
	return n;
}

static void iw_flush(struct loop_timer *t)
{
	struct fab_conn *c = container_of(t, struct fab_conn, kick);

	iw_enter(c);
	iw_tx_run(c);
	iw_leave(c);
}

struct fab_conn *iw_new(const struct fab_params *p, int fd, bool passive)
{
	struct fab_conn *c = calloc(1, sizeof(*c));

	if (!c) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	c->params = *p;
	c->fd = fd;
	c->passive = passive;
	strcpy(c->text, "iWARP over TCP");
	c->watch.fd = -1;
	loop_timer_init(&c->kick, iw_flush);
	loop_timer_init(&c->stall, iw_rx_stalled);
	iw_nudge_init(c);
	if (stag_init(&c->stags, STAGS) || iw_rx_init(c) || iw_tx_init(c)) {
		iw_close(c);
		return NULL;
	}
	return c;
}

/* The payload of a frame that fits a TCP segment. */
static uint32_t iw_fit(uint32_t mss, uint32_t hdr)
{
	uint32_t n = (mss & ~3u) - hdr - DDP_CRC_BYTES;

	return n < IW_PAYLOAD_MAX ? n : IW_PAYLOAD_MAX;
}

int iw_agreed(struct fab_conn *c, const struct mpa_terms *t)
{
	int mss = 0;
	socklen_t len = sizeof(mss);

	c->crc = t->crc;
	c->ird = t->ird;
	c->ord = t->ord;
	c->max_tagged = c->max_untagged = IW_PAYLOAD_MAX;
	if ((c->params.flags & FAB_MSS_FPDU) &&
	    !getsockopt(c->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len)) {
		if (mss < MSS_MIN)
			mss = MSS_MIN;
		c->max_tagged = iw_fit((uint32_t)mss, DDP_TAGGED_HDR);
		c->max_untagged = iw_fit((uint32_t)mss, DDP_UNTAGGED_HDR);
	}
	return iw_tx_agreed(c);
}

static int iw_open(const struct fab_params *p, struct fab_conn **out, struct errbuf *eb)
{
	*out = iw_new(p, -1, false);
	return *out ? 0 : err_set(eb, -ENOMEM, "no memory for a connection");
}

static void iw_caps(const struct fab_conn *c, struct fab_caps *out)
{
	*out = (struct fab_caps){
		.reg_per_call = true,
		.remote_inval = true,
	};
}

static const char *iw_describe(const struct fab_conn *c)
{
	return c->text;
}

/* ---- Memory --------------------------------------------------------------- */

static int iw_reg(struct fab_conn *c, void *mem, size_t len, unsigned access,
		  struct fab_mr *out, struct errbuf *eb)
{
	uint32_t stag;
	int err = stag_add(&c->stags, mem, len, access, &stag);

	if (err)
		return err_set(eb, err, "no STag for %zu bytes of memory: %s", len,
			       strerror(-err));
	*out = (struct fab_mr){
		.base = mem, .len = len, .addr = 0, .lkey = stag, .rkey = stag,
	};
	return 0;
}

/* Does nothing if the peer has invalidated the STag. */
static void iw_dereg(struct fab_conn *c, struct fab_mr *mr)
{
	stag_del(&c->stags, mr->rkey);
	mr->rkey = mr->lkey = 0;
}

/* ---- The end -------------------------------------------------------------- */

static void iw_detach(struct fab_conn *c)
{
	if (!c->loop)
		return;
	loop_unwatch(c->loop, &c->watch);
	loop_timer_clear(&c->kick);
	loop_timer_clear(&c->stall);
	loop_timer_clear(&c->nudge);
}

void iw_down(struct fab_conn *c, int err, const char *why)
{
	if (c->down)
		return;
	c->down = true;
	iw_detach(c);
	iw_enter(c);
	if (c->ev)
		c->ev->down(c->ctx, err, why);
	iw_leave(c);
}

void iw_fail(struct fab_conn *c, enum iw_error e)
{
	if (c->down)
		return;
	iw_tx_terminate(c, e);
	c->terminated = true;
	iw_down(c, iw_errors[e].err, iw_errors[e].why);
}

static void iw_look(struct fab_conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	if (!c->down && poll(&p, 1, 0) > 0)
		iw_down(c, -ECONNRESET, "the peer closed the connection");
}

/*
 * What TCP has not delivered yet goes with the connection. The owner sends its calls again on
 * another one, and the old ones must not come to the server after these, when the way is free
 * again. Only an answer, or the reason for the end, may still be under way.
 */
static void discard_unsent(const struct fab_conn *c)
{
	const struct linger now = { .l_onoff = 1 };
	int left = 0;

	if (c->passive || c->terminated || !c->used)
		return;
	/* A reset is for peers that would get something otherwise. */
	if (ioctl(c->fd, TIOCOUTQ, &left) < 0 || left > 0)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void iw_close(struct fab_conn *c)
{
	c->down = c->closed = true;
	iw_detach(c);
	if (c->fd >= 0) {
		discard_unsent(c);
		close(c->fd);
	}
	c->fd = -1;
	iw_rx_fini(c);
	iw_tx_fini(c);
	stag_fini(&c->stags);
	if (!c->depth)
		free_conn(c);
}

/* ---- On the loop ---------------------------------------------------------- */

static void socket_fn(struct loop_watch *w, uint32_t revents)
{
	struct fab_conn *c = container_of(w, struct fab_conn, watch);

	iw_enter(c);
	/* Read first: that handles what came before an error or a hang-up, and finds its
	 * reason. */
	if (revents & (EPOLLIN | EPOLLERR | EPOLLHUP))
		iw_rx_run(c);
	if (!c->down && (revents & EPOLLOUT)) {
		c->tx.blocked = false;
		loop_rewatch(c->loop, w, EPOLLIN);
	}
	/* Whatever the events have posted need not wait for the timer. */
	if (!c->down && iw_tx_wants(c))
		iw_tx_run(c);
	iw_leave(c);
}

static int iw_attach(struct fab_conn *c, struct loop *l, const struct fab_events *ev, void *ctx)
{
	int err;

	c->watch = (struct loop_watch){ .fd = c->fd, .events = EPOLLIN, .fn = socket_fn };
	err = loop_watch(l, &c->watch);
	if (err) {
		c->watch.fd = -1;
		return err;
	}
	c->used = true;
	c->loop = l;
	c->ev = ev;
	c->ctx = ctx;
	return 0;
}

const struct fabric fabric_iwarp = {
	.name = "iwarp",
	.probe = iw_probe,
	.open = iw_open,
	.connect = iw_connect,
	.caps = iw_caps,
	.describe = iw_describe,
	.reg = iw_reg,
	.reg_shared = iw_reg,
	.dereg = iw_dereg,
	.post_recv = iw_post_recv,
	.post_send = iw_post_send,
	.attach = iw_attach,
	.close = iw_close,
	.post_send_inv = iw_post_send_inv,
	.post_write = iw_post_write,
	.post_read = iw_post_read,
	.look = iw_look,
	.listen = iw_listen,
	.listen_addr = iw_listen_addr,
	.addrs = iw_addrs,
	.unlisten = iw_unlisten,
	.accept = iw_accept,
	.reject = iw_reject,
};
