/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The passive side's set-up, all on one loop and without waiting:
 *
 *     client            connection manager          us
 *     REQ ------------>  CONNECT_REQUEST  ------>   listen_fn: connection made,
 *                                                   queues too; `request` event
 *                                                   (owner: reg, post_recv)
 *     <------------ REP  rdma_accept      <------   accept     } the owner's
 *     <------------ REJ  rdma_reject      <------   or reject  } choice
 *     RTU ------------>  ESTABLISHED      ------>   (verbs_cm_events)
 *
 * Ownership. The listener owns its channel and the identifier that it listens with. A
 * request's identifier arrives on that channel. It moves to a channel of the connection's
 * own before anybody hears of it. So from the `request` event on, nothing of the connection
 * belongs to the listener: its owner may take it to another thread's loop, and unlisten
 * does not touch it. The number of requests is not limited here: the connection manager
 * gives up requests that are not answered, and so does the client.
 *
 * If a connection breaks before accept, the connection manager tells nobody (it drops
 * events of an identifier that was not accepted): accept fails, or reject has no effect.
 * After accept the queue pair can send and receive. Whatever goes wrong then comes as an
 * event or a failed completion and ends in `down`: REJECTED, UNREACHABLE or CONNECT_ERROR
 * instead of ESTABLISHED, later DISCONNECTED or DEVICE_REMOVAL. Events wait in the channel
 * until attach. close rejects or disconnects as needed: destroying the identifier of an
 * unanswered request rejects it.
 *
 * When a device is removed, a listener on one of its addresses ends, and the log says so.
 * Its identifier is destroyed, because the removal waits for that. A listener on all
 * addresses stays, for the other devices. But librdmacm (44) keeps a device open until the
 * process ends, and for soft-RoCE the kernel waits for that, too.
 */
#include "fabric/verbs.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define BACKLOG 128
/* These fit into InfiniBand's REP and REJ; iWARP takes more. */
#define REPLY_PRIV_MAX  196u
#define REJECT_PRIV_MAX 148u

struct fab_listener {
	struct fab_params params;
	struct loop *loop;
	const struct fab_listen_events *ev;
	void *ctx;
	struct rdma_event_channel *chan;
	struct rdma_cm_id *id;          /* NULL: the device is gone */
	struct loop_watch watch;
	struct sockaddr_storage at;
	char text[96];                  /* `at` as text */
};

/* The contents of a CONNECT_REQUEST. The event itself is acknowledged at once. */
struct request {
	struct rdma_cm_id *id;
	unsigned ird, ord;              /* the most that the peer offers */
	uint8_t priv[FAB_PRIV_RECV_MAX];
	size_t privlen;
};

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* ---- A request ------------------------------------------------------------ */

static void read_request(struct request *rq, const struct rdma_cm_event *ev)
{
	const struct rdma_conn_param *p = &ev->param.conn;

	rq->id = ev->id;
	rq->ird = p->responder_resources;
	rq->ord = p->initiator_depth;
	rq->privlen = p->private_data ? p->private_data_len : 0;
	if (rq->privlen)
		memcpy(rq->priv, p->private_data, rq->privlen);
}

/* At most what the peer offers, what we want, and what the device can do. */
static void agree_reads(struct fab_conn *c, const struct request *rq)
{
	unsigned ird = c->params.ird ? c->params.ird : VERBS_READS;
	unsigned ord = c->params.ord ? c->params.ord : ird;

	c->ird = least(least(rq->ird, ird), c->max_ird);
	c->ord = least(least(rq->ord, ord), c->max_ord);
}

/* c takes the request's identifier in any case. 0 or -errno. */
static int take_over(struct fab_conn *c, const struct request *rq, struct errbuf *eb)
{
	int err;

	c->id = rq->id;
	c->id->context = c;
	snprintf(c->text, sizeof(c->text), "%s to %s", verbs_device_name(c->id), c->peer);
	err = verbs_cm_channel(&c->chan, eb);
	if (err)
		return err;
	if (rdma_migrate_id(c->id, c->chan) < 0)
		return err_set(eb, -errno, "cannot move the request to a channel of its own: %s",
			       strerror(errno));
	err = verbs_queues(c, eb);
	if (!err)
		agree_reads(c, rq);
	return err;
}

static void hand_out(struct fab_listener *li, const struct request *rq)
{
	struct fab_conn *c = verbs_new(&li->params);
	struct errbuf eb = { "no memory for a connection" };
	struct sockaddr_storage from;
	char peer[96];

	verbs_addr(&from, rdma_get_peer_addr(rq->id));
	fab_addr_text(&from, peer, sizeof(peer));
	if (!c) {
		log_warn("RDMA: turned away %s: %s", peer, eb.text);
		rdma_destroy_id(rq->id);
		return;
	}
	c->passive = true;
	memcpy(c->peer, peer, sizeof(c->peer));
	if (take_over(c, rq, &eb)) {
		log_warn("RDMA: turned away %s: %s", peer, eb.text);
		verbs_close(c);
		return;
	}
	li->ev->request(li->ctx, c, rq->priv, rq->privlen);
}

/* ---- The listener --------------------------------------------------------- */

static void listen_release(struct fab_listener *li)
{
	loop_unwatch(li->loop, &li->watch);
	if (li->id)
		rdma_destroy_id(li->id);
	if (li->chan)
		rdma_destroy_event_channel(li->chan);
	li->id = NULL;
	li->chan = NULL;
}

static void listen_gone(struct fab_listener *li, const char *why)
{
	log_err("RDMA: cannot accept more connections on %s: %s; existing connections stay while "
		"they can; restart to listen again", li->text, why);
	listen_release(li);
}

static void listen_fn(struct loop_watch *w, uint32_t revents)
{
	struct fab_listener *li = container_of(w, struct fab_listener, watch);
	enum rdma_cm_event_type type;
	struct rdma_cm_event *ev;
	struct request rq;
	int status;

	if (rdma_get_cm_event(li->chan, &ev) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			listen_gone(li, strerror(errno));
		return;
	}
	type = ev->event;
	status = ev->status;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		read_request(&rq, ev);
	/* Not later, because rdma_destroy_id() waits until all events are acknowledged. */
	rdma_ack_cm_event(ev);
	/* One event for each call: the loop calls again while there are more. The owner
	 * may unlisten inside `request`. */
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		hand_out(li, &rq);
	else if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		listen_gone(li, "the RDMA device was removed");
	else
		log_debug("%s: connection manager event %s, status %d", li->text,
			  rdma_event_str(type), status);
}

static bool is_any(const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
			&((const struct sockaddr_in6 *)(const void *)ss)->sin6_addr);
	return ((const struct sockaddr_in *)(const void *)ss)->sin_addr.s_addr == INADDR_ANY;
}

static bool any_device(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (list)
		ibv_free_device_list(list);
	return n > 0;
}

static int fail_listen(const struct fab_listener *li, int err, struct errbuf *eb)
{
	switch (-err) {
	case ENODEV:
		return err_set(eb, err, "cannot listen on %s: no RDMA device has that address; "
			       "check `rdma link` and `ip addr` (soft-RoCE: `rdma link add rxe0 "
			       "type rxe netdev INTERFACE`)", li->text);
	case EADDRNOTAVAIL:
		return err_set(eb, err, "cannot listen on %s: that is not an address of this "
			       "machine; check `ip addr`", li->text);
	case EADDRINUSE:
		return err_set(eb, err, "cannot listen on %s: something listens there for RDMA "
			       "already (knfsd: /proc/fs/nfsd/portlist); take another port",
			       li->text);
	default:
		return err_set(eb, err, "cannot listen on %s for RDMA: %s", li->text, strerror(-err));
	}
}

static int listen_start(struct fab_listener *li, struct errbuf *eb)
{
	struct sockaddr *sa = (struct sockaddr *)&li->at;
	int err = verbs_cm_channel(&li->chan, eb);

	if (err)
		return err;
	if (rdma_create_id(li->chan, &li->id, li, RDMA_PS_TCP) < 0) {
		li->id = NULL;
		return fail_listen(li, -errno, eb);
	}
	if (rdma_bind_addr(li->id, sa) < 0)
		return fail_listen(li, -errno, eb);
	/* To listen on all addresses needs no device. But with none at all nobody could
	 * connect, so that is an error. */
	if (!li->id->verbs && !(is_any(&li->at) && any_device()))
		return fail_listen(li, -ENODEV, eb);
	if (rdma_listen(li->id, BACKLOG) < 0)
		return fail_listen(li, -errno, eb);
	verbs_addr(&li->at, rdma_get_local_addr(li->id));
	fab_addr_text(&li->at, li->text, sizeof(li->text));
	li->watch = (struct loop_watch){ .fd = li->chan->fd, .events = EPOLLIN, .fn = listen_fn };
	err = loop_watch(li->loop, &li->watch);
	if (err) {
		li->watch.fd = -1;
		return fail_listen(li, err, eb);
	}
	return 0;
}

int verbs_listen(const struct fab_params *p, struct loop *l, const struct fab_listen_events *ev,
		 void *ctx, struct fab_listener **out, struct errbuf *eb)
{
	struct fab_listener *li;
	int err;

	if (p->local.ss_family != AF_INET && p->local.ss_family != AF_INET6)
		return err_set(eb, -EAFNOSUPPORT, "cannot listen for RDMA: the address is neither IPv4 "
			       "nor IPv6");
	li = calloc(1, sizeof(*li));
	if (!li)
		return err_set(eb, -ENOMEM, "no memory for a listener");
	*li = (struct fab_listener){
		.params = *p, .loop = l, .ev = ev, .ctx = ctx, .watch.fd = -1, .at = p->local,
	};
	fab_addr_text(&li->at, li->text, sizeof(li->text));
	err = listen_start(li, eb);
	if (err) {
		verbs_unlisten(li);
		return err;
	}
	*out = li;
	return 0;
}

void verbs_listen_addr(const struct fab_listener *li, struct sockaddr_storage *out)
{
	*out = li->at;
}

void verbs_unlisten(struct fab_listener *li)
{
	listen_release(li);
	free(li);
}

/* ---- The answer ----------------------------------------------------------- */

/* rnr_retry_count: as in verbs_cm_connect(). */
int verbs_accept(struct fab_conn *c, const void *priv, size_t privlen, struct errbuf *eb)
{
	struct rdma_conn_param cp = {
		.private_data = priv,
		.private_data_len = (uint8_t)privlen,
		.responder_resources = (uint8_t)c->ird,
		.initiator_depth = (uint8_t)c->ord,
		.rnr_retry_count = 7,
	};

	if (!c->passive || c->answered)
		return err_set(eb, -EINVAL, "there is no request to accept");
	if (privlen > REPLY_PRIV_MAX)
		return err_set(eb, -EMSGSIZE, "%zu bytes of private data are too many for the answer "
			       "to a connection request", privlen);
	c->answered = true;
	if (rdma_accept(c->id, &cp) < 0)
		return err_set(eb, -errno, "%s: cannot accept the connection: %s; the client may "
			       "have given up", c->text, strerror(errno));
	c->connected = true;
	return 0;
}

void verbs_reject(struct fab_conn *c, const void *priv, size_t privlen)
{
	if (c->passive && !c->answered)
		rdma_reject(c->id, priv, (uint8_t)least((unsigned)privlen, REJECT_PRIV_MAX));
	c->answered = true;
	verbs_close(c);
}
