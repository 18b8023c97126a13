/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The passive side's set-up, all on one loop and without waiting:
 *
 *     listening socket --> pending[] --> request event --> accept / reject
 *                          Request       owner decides     Reply
 *                          in time
 *
 * A peer that connects is `pending` until its MPA Request is here. A peer that is silent,
 * or sends something else or more than the Request (RFC 5044 section 7.1.2: nothing may
 * follow before the Reply), is dropped with a line in the log. A peer that asks for what we
 * do not have is rejected by a Reply.
 *
 * From the request event on, the connection belongs to its owner, and the listener forgets
 * it. If the peer disappears before the answer, accept notices, or the first read of the
 * socket after attach.
 */
#include "fabric/iwarp/iwarp.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/sock.h"

#define BACKLOG 128
/* The most peers without a Request, so that silent ones cannot use up the process's
 * files. When one more comes, the oldest is dropped: a working peer sends its Request at
 * once, so silent peers keep nobody out. */
#define PENDING_MAX 64
/* How long the socket is ignored when there are no more files. */
#define RETRY_MS 100

struct pending {
	struct list node;
	struct fab_listener *li;
	struct loop_watch watch;
	struct loop_timer timer;
	char peer[96];
	size_t len;
	uint8_t buf[MPA_FRAME_MAX];
};

struct fab_listener {
	struct fab_params params;
	struct loop *loop;
	const struct fab_listen_events *ev;
	void *ctx;
	struct loop_watch watch;
	struct loop_timer retry;
	bool starved;           /* no files: the log says so already */
	struct list pendings;
	unsigned npending;
};

/* ---- One peer, until its Request is here ---------------------------------- */

/* Forgets the peer. Returns its socket, which stays open. */
static int pending_free(struct pending *p)
{
	int fd = p->watch.fd;

	loop_unwatch(p->li->loop, &p->watch);
	loop_timer_clear(&p->timer);
	list_del(&p->node);
	p->li->npending--;
	free(p);
	return fd;
}

static void turn_away(struct pending *p, const char *why)
{
	log_warn("iWARP: turned away %s: %s", p->peer, why);
	close(pending_free(p));
}

static void send_reply(int fd, const struct mpa_frame *rep)
{
	uint8_t buf[MPA_FRAME_MAX];

	/* The socket is new: either it takes this at once, or it is broken. */
	(void)!send(fd, buf, mpa_encode(rep, buf), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Are there bytes behind the Request? */
static bool more_came(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void hand_out(struct pending *p, const struct mpa_frame *req, const struct mpa_terms *t)
{
	struct fab_listener *li = p->li;
	uint8_t priv[FAB_PRIV_RECV_MAX];
	struct fab_conn *c;
	char peer[96];

	memcpy(priv, req->priv, req->privlen);
	memcpy(peer, p->peer, sizeof(peer));
	c = iw_new(&li->params, pending_free(p), true);
	if (!c) {
		log_warn("iWARP: turned away %s: no memory for a connection", peer);
		return;
	}
	c->terms = *t;
	snprintf(c->text, sizeof(c->text), "iWARP over TCP to %s%s", peer, t->crc ? ", CRC32c" : "");
	li->ev->request(li->ctx, c, priv, req->privlen);
}

static void pending_fn(struct loop_watch *w, uint32_t revents)
{
	struct pending *p = container_of(w, struct pending, watch);
	const struct fab_params *params = &p->li->params;
	struct mpa_terms agreed, own = {
		.crc = params->flags & FAB_CRC, .ird = iw_ird(params),
		.ord = params->ord ? params->ord : iw_ird(params),
	};
	struct mpa_frame req;
	const char *why;
	ssize_t n;
	int want;

	want = mpa_size(p->buf, p->len, false, &why);
	n = recv(w->fd, p->buf + p->len, (size_t)want - p->len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		turn_away(p, "it closed the connection before its MPA Request was complete");
		return;
	}
	p->len += (size_t)n;
	want = mpa_size(p->buf, p->len, false, &why);
	if (want > (int)p->len)
		return;
	if (want < 0 || mpa_decode(&req, p->buf, p->len, false, &why)) {
		turn_away(p, why);
	} else if (more_came(w->fd)) {
		turn_away(p, "it sent more than its MPA Request before the Reply");
	} else if (mpa_judge_request(&req, &own, &agreed, &why)) {
		struct mpa_frame rep = {
			.reply = true, .reject = true, .rev = req.rev < 2 ? req.rev : 2,
			.enhanced = req.enhanced, .crc = req.crc,
		};

		send_reply(w->fd, &rep);
		turn_away(p, why);
	} else {
		hand_out(p, &req, &agreed);
	}
}

static void late_fn(struct loop_timer *t)
{
	turn_away(container_of(t, struct pending, timer), "it did not send its MPA Request in time");
}

static void pending_new(struct fab_listener *li, int fd, const struct sockaddr_storage *from)
{
	struct pending *p = calloc(1, sizeof(*p));
	char peer[96];
	unsigned ms;

	if (!p) {
		log_warn("iWARP: turned away %s: no memory", fab_addr_text(from, peer, sizeof(peer)));
		close(fd);
		return;
	}
	if (li->npending == PENDING_MAX)
		turn_away(container_of(li->pendings.next, struct pending, node),
			  "it has not sent its MPA Request, and too many others have connected since");
	iw_tune(fd);
	p->li = li;
	fab_addr_text(from, p->peer, sizeof(p->peer));
	list_add_tail(&li->pendings, &p->node);
	li->npending++;
	loop_timer_init(&p->timer, late_fn);
	ms = li->params.timeout_ms;
	loop_timer_set(li->loop, &p->timer, ms && ms < MPA_TIMEOUT_MS ? ms : MPA_TIMEOUT_MS);
	p->watch = (struct loop_watch){ .fd = fd, .events = EPOLLIN, .fn = pending_fn };
	if (loop_watch(li->loop, &p->watch))
		turn_away(p, "its socket cannot be watched");
}

/* ---- The listening socket ------------------------------------------------- */

static void listen_fn(struct loop_watch *w, uint32_t revents)
{
	struct fab_listener *li = container_of(w, struct fab_listener, watch);
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	int fd = accept4(w->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	/* One connection for each call: the loop calls again while there are more. */
	if (fd >= 0) {
		li->starved = false;
		pending_new(li, fd, &from);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		if (!li->starved)
			log_warn("iWARP: new connections must wait: %s", strerror(errno));
		li->starved = true;
		loop_rewatch(li->loop, w, 0);
		loop_timer_set(li->loop, &li->retry, RETRY_MS);
	}
}

static void retry_fn(struct loop_timer *t)
{
	struct fab_listener *li = container_of(t, struct fab_listener, retry);

	loop_rewatch(li->loop, &li->watch, EPOLLIN);
}

int iw_listen(const struct fab_params *p, struct loop *l, const struct fab_listen_events *ev,
	      void *ctx, struct fab_listener **out, struct errbuf *eb)
{
	struct fab_listener *li = calloc(1, sizeof(*li));
	char text[96];
	int err, fd, on = 1;

	if (!li)
		return err_set(eb, -ENOMEM, "no memory for a listener");
	*li = (struct fab_listener){ .params = *p, .loop = l, .ev = ev, .ctx = ctx };
	list_init(&li->pendings);
	loop_timer_init(&li->retry, retry_fn);
	fd = socket(p->local.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	li->watch = (struct loop_watch){ .fd = fd, .events = EPOLLIN, .fn = listen_fn };
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&p->local, sock_addr_len(&p->local)) < 0 || listen(fd, BACKLOG) < 0)
		err = -errno;
	else
		err = loop_watch(l, &li->watch);
	if (err) {
		if (fd >= 0)
			close(fd);
		free(li);
		return err_set(eb, err, "cannot listen on %s: %s",
			       fab_addr_text(&p->local, text, sizeof(text)), strerror(-err));
	}
	*out = li;
	return 0;
}

void iw_listen_addr(const struct fab_listener *li, struct sockaddr_storage *out)
{
	socklen_t len = sizeof(*out);

	memset(out, 0, sizeof(*out));
	getsockname(li->watch.fd, (struct sockaddr *)out, &len);
}

void iw_addrs(const struct fab_conn *c, struct sockaddr_storage *local,
	      struct sockaddr_storage *peer)
{
	socklen_t local_len = sizeof(*local), peer_len = sizeof(*peer);

	memset(local, 0, sizeof(*local));
	memset(peer, 0, sizeof(*peer));
	getsockname(c->fd, (struct sockaddr *)local, &local_len);
	getpeername(c->fd, (struct sockaddr *)peer, &peer_len);
}

void iw_unlisten(struct fab_listener *li)
{
	int fd = li->watch.fd;

	while (!list_empty(&li->pendings))
		close(pending_free(container_of(li->pendings.next, struct pending, node)));
	loop_timer_clear(&li->retry);
	loop_unwatch(li->loop, &li->watch);
	close(fd);
	free(li);
}

/* ---- The answer ----------------------------------------------------------- */

static void iw_listen_answer(struct fab_conn *c, bool reject, const void *priv, size_t privlen)
{
	struct mpa_frame rep = {
		.reply = true, .reject = reject, .rev = 2, .enhanced = true, .crc = c->terms.crc,
		.ird = (uint16_t)c->terms.ird, .ord = (uint16_t)c->terms.ord,
		.p2p = c->terms.rtr, .rtr = c->terms.rtr,
		.priv = priv, .privlen = privlen < MPA_PRIV_MAX ? privlen : MPA_PRIV_MAX,
	};

	send_reply(c->fd, &rep);
	c->answered = true;
}

int iw_accept(struct fab_conn *c, const void *priv, size_t privlen, struct errbuf *eb)
{
	int err;

	if (!c->passive || c->answered || privlen > MPA_PRIV_MAX)
		return err_set(eb, -EINVAL, "nothing to accept");
	if (more_came(c->fd))
		return err_set(eb, -EPROTO, "%s: the peer sent more than its MPA Request before "
			       "the Reply", c->text);
	err = iw_agreed(c, &c->terms);
	if (err)
		return err_set(eb, err, "%s: no memory for a connection", c->text);
	iw_listen_answer(c, false, priv, privlen);
	return 0;
}

void iw_reject(struct fab_conn *c, const void *priv, size_t privlen)
{
	if (c->passive && !c->answered)
		iw_listen_answer(c, true, priv, privlen);
	iw_close(c);
}
