/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The requester's side of a connection: queue, credits, matching of replies,
 * and what becomes of calls when the link goes.
 *
 * Credits (RFC 8166 section 3.3): one call until the first reply, from then on
 * what the newest reply grants, at most what we asked for. A grant of 0 is
 * illegal and taken as 1; a grant that falls below what is in flight only
 * stops new calls. RECV buffers number more than the credits, so each reply
 * finds one; a reply's buffer goes back before its credit is used again.
 *
 * A call is complete when its reply is here *and* its Send has completed:
 * only then is the message buffer free of the device. Either may come first.
 *
 * The link dies right here: the fabric connection is closed at once, after
 * which no buffer can be reached. Calls whose reply had come are completed;
 * the rest go back to the head of the queue in the order of their sending and
 * are sent again, with the same XID, when the owner brings a new link
 * (rr_up). A call is never sent twice on one link.
 *
 * A malformed reply does not tell whether the peer is done with the call's
 * buffers, nor what became of the call. So the link is given up, and the call
 * is sent again like the others: the server's reply cache, or the slot, makes
 * that the same call to it. Only when RR_BAD_MAX sendings were answered so does
 * it fail, and no sooner than its link is closed. A Send that invalidates something
 * else than an STag of the call that it answers is no better: it may have taken
 * away what another call waits for.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "rpcrdma/impl.h"

/* Sends in flight: one for each call. */
#define SEND_SLACK 8u

static void pump(struct rr_conn *c);

/* ---- table of calls in flight ---- */

static struct rr_call **hash_slot(struct rr_conn *c, uint32_t xid)
{
	return &c->hash[xid & (RR_HASH - 1)];
}

static struct rr_call *find(struct rr_conn *c, uint32_t xid)
{
	struct rr_call *call = *hash_slot(c, xid);

	while (call && call->xid != xid)
		call = call->hash_next;
	return call;
}

static void track(struct rr_conn *c, struct rr_call *call)
{
	struct rr_call **slot = hash_slot(c, call->xid);

	call->hash_next = *slot;
	*slot = call;
	list_add_tail(&c->inflight, &call->node);
	c->ninflight++;
	call->state = RR_CALL_INFLIGHT;
}

static void untrack(struct rr_conn *c, struct rr_call *call)
{
	struct rr_call **p = hash_slot(c, call->xid);

	while (*p != call)
		p = &(*p)->hash_next;
	*p = call->hash_next;
	list_del(&call->node);
	c->ninflight--;
	call->state = RR_CALL_IDLE;
}

/* The reply is here, or nobody can bring it any more. The buffers that are free
 * now are free when the owner hears of it: he may have been waiting for one. */
static void end_call(struct rr_conn *c, struct rr_call *call)
{
	if (!call->status && call->chunk && call->reply == call->chunk->mem) {
		memcpy(c->copy, call->reply, call->reply_len);
		call->reply = c->copy;
	}
	rr_put_chunk(c, call);
	call->done(call, call->status);
}

/* ---- giving the link up ---- */

static void lose_link(struct rr_conn *c, int err, const char *why)
{
	struct rr_link *link = c->link;
	struct list finished;

	if (!link)
		return;
	c->link = NULL;
	c->reset_err = 0;
	loop_timer_clear(&c->reset_timer);
	rr_link_close(link);
	stat_add(c->st, STAT_CONN_DOWNS, 1);

	list_init(&finished);
	while (!list_empty(&c->inflight)) {
		struct rr_call *call = container_of(c->inflight.prev, struct rr_call, node);

		untrack(c, call);
		call->nmrs = 0;         /* went with the link */
		if (!call->replied)
			rr_put_chunk(c, call);
		if (!call->replied && call->bad >= RR_BAD_MAX) {
			call->status = -EBADMSG;
			call->replied = true;
		}
		if (call->replied) {
			list_add_head(&finished, &call->node);
		} else {
			call->state = RR_CALL_WAITING;
			list_add_head(&c->waiting, &call->node);
			c->nwaiting++;
		}
	}
	for (struct list *n; (n = list_pop(&finished)); ) {
		end_call(c, container_of(n, struct rr_call, node));
	}
	c->ev->down(c->ctx, err, why);
}

static void on_reset(struct loop_timer *t)
{
	struct rr_conn *c = container_of(t, struct rr_conn, reset_timer);

	lose_link(c, c->reset_err, c->reset_why);
}

/* May be called from inside a fabric callback, where closing is not allowed:
 * the link is closed from a timer, and nothing is sent until then. */
void rr_reset(struct rr_conn *c, int err, const char *why)
{
	if (!c->link || c->reset_err)
		return;
	c->reset_err = err;
	c->reset_why = why;
	loop_timer_set(c->loop, &c->reset_timer, 0);
}

static void on_down(void *ctx, int err, const char *why)
{
	lose_link(ctx, err, why);
}

/* ---- completion ---- */

static void repost(struct rr_conn *c, struct slab_buf *b)
{
	struct fab_sge sge;
	int rc;

	if (!c->link)
		return;         /* rr_link_open posts them all again */
	sge = (struct fab_sge){
		.mem = b->mem, .len = (uint32_t)b->size, .lkey = c->link->local.lkey,
	};
	rc = c->link->fabric->post_recv(c->link->fab, &sge, b);
	if (rc)
		rr_reset(c, rc, "a receive could not be posted");
}

static void finish(struct rr_conn *c, struct rr_call *call)
{
	struct slab_buf *recv = call->recv;

	untrack(c, call);
	call->recv = NULL;
	end_call(c, call);
	/* The reply was in there until now. */
	if (recv)
		repost(c, recv);
	pump(c);
}

static void on_sent(void *ctx, void *cookie)
{
	struct rr_call *call = cookie;

	call->sent = true;
	if (call->replied)
		finish(ctx, call);
}

/* ---- replies ---- */

/* RFC 8167: a Call of the server travels as RDMA_MSG without chunks, and its
 * second RPC word says CALL. Its XID means nothing on our side. */
static bool is_back_call(const struct rr_header *h, const uint8_t *msg, size_t len)
{
	uint32_t word[2];

	if (h->proc != RR_MSG || h->nreads || h->nwrites || h->has_reply || len < sizeof(word))
		return false;
	memcpy(word, msg, sizeof(word));
	return ntohl(word[0]) == h->xid && ntohl(word[1]) == 0;
}

/* The message must be the reply to the call that the header names. */
static bool answers(const struct rr_call *call)
{
	uint32_t xid;

	if (call->reply_len < sizeof(xid))
		return false;
	memcpy(&xid, call->reply, sizeof(xid));
	return ntohl(xid) == call->xid;
}

static void take_grant(struct rr_conn *c, uint32_t credit)
{
	c->grant = credit ? credit : 1;
	if (c->grant > c->cfg.credits)
		c->grant = c->cfg.credits;
}

/* Lengths of the chunks that come back, against what was offered. */
static int take_reply(struct rr_call *call, const struct rr_header *h,
		      const uint8_t *msg, size_t len)
{
	uint64_t n;

	if (h->nreads || h->nwrites > 1 || (h->nwrites && !call->placed) ||
	    (call->placed && !h->nwrites) || (h->has_reply && !call->chunk))
		return -EBADMSG;
	call->placed_len = 0;
	if (call->placed) {
		n = rr_chunk_len(&h->writes[0]);
		if (n > call->sink.len)
			return -EBADMSG;
		call->placed_len = (uint32_t)n;
	}
	if (h->proc == RR_MSG) {
		call->reply = msg;
		call->reply_len = (uint32_t)len;
		return answers(call) ? 0 : -EBADMSG;
	}
	n = h->has_reply ? rr_chunk_len(&h->reply) : 0;
	if (!n || n > call->reply_room)
		return -EBADMSG;
	call->reply = call->chunk->mem;
	call->reply_len = (uint32_t)n;
	return answers(call) ? 0 : -EBADMSG;
}

static int take_error(struct rr_conn *c, const struct rr_header *h)
{
	stat_add(c->st, STAT_RDMA_ERRORS, 1);
	if (h->err == RR_ERR_VERS) {
		log_err("the server speaks RPC-over-RDMA versions %u to %u, this client "
			"version %u only: call %08x failed", h->vers_low, h->vers_high,
			RR_VERSION, h->xid);
		return -EPROTONOSUPPORT;
	}
	log_warn("the server refused the chunks of call %08x (ERR_CHUNK)", h->xid);
	return -EREMOTEIO;
}

static void bad_reply(struct rr_conn *c, struct rr_call *call, const char *what)
{
	call->bad++;
	stat_add(c->st, STAT_RPC_BAD_REPLIES, 1);
	log_debug("%s: call %08x, number %u", what, call->xid, call->bad);
	rr_reset(c, -EBADMSG, what);
}

/* Send With Invalidate: the server takes one of the segments that were offered with
 * the call (RFC 8797), and nothing else. */
static bool may_invalidate(const struct rr_call *call, uint32_t rkey)
{
	for (unsigned i = 0; i < call->nmrs; i++)
		if (call->mrs[i].rkey == rkey)
			return true;
	return false;
}

static const char not_its_stag[] =
	"a Send With Invalidate of what was not offered with the call that it answers";

/* Nobody's: a reply that comes twice or too late. What has not even got an XID
 * may be anybody's, who would wait for it until his time is up. */
static void stray(struct rr_conn *c, uint32_t len, uint32_t xid)
{
	stat_add(c->st, STAT_RPC_BAD_REPLIES, 1);
	log_debug("dropped a message of %u bytes: no call %08x is in flight", len, xid);
	if (len < RR_HDR_FIXED)
		rr_reset(c, -EBADMSG, "a message without a header");
}

/* The call that the message is a reply to; NULL: none, and nothing more is to be done
 * about it. */
static struct rr_call *call_of(struct rr_conn *c, const struct rr_header *h, uint32_t len,
			       bool invalidated, uint32_t rkey)
{
	struct rr_call *call = find(c, h->xid);

	if (!call || call->replied) {
		stray(c, len, h->xid);
		if (invalidated)
			rr_reset(c, -EBADMSG, not_its_stag);
		return NULL;
	}
	if (invalidated && !may_invalidate(call, rkey)) {
		bad_reply(c, call, not_its_stag);
		return NULL;
	}
	return call;
}

static void on_recv(void *ctx, void *cookie, uint32_t len, bool invalidated, uint32_t rkey)
{
	struct rr_conn *c = ctx;
	struct slab_buf *b = cookie;
	struct rr_header h;
	struct rr_call *call;
	uint8_t *msg;
	int hlen;

	hlen = rr_header_decode(&h, b->mem, len);
	msg = (uint8_t *)b->mem + (hlen > 0 ? hlen : 0);
	if (!invalidated && hlen > 0 && is_back_call(&h, msg, len - (size_t)hlen)) {
		/* None is expected: no session of ours asks for a back channel. */
		stat_add(c->st, STAT_RPC_BACK_CALLS, 1);
		repost(c, b);
		return;
	}
	call = call_of(c, &h, len, invalidated, rkey);
	if (!call) {
		repost(c, b);
		return;
	}
	call->status = -EBADMSG;
	if (hlen > 0) {
		take_grant(c, h.credit);
		call->status = h.proc == RR_ERROR ? take_error(c, &h) :
			take_reply(call, &h, msg, len - (size_t)hlen);
	}
	if (call->status == -EBADMSG) {
		bad_reply(c, call, "a malformed reply");
		repost(c, b);
		return;
	}
	stat_add(c->st, STAT_RPC_REPLIES, 1);
	/* From here on nobody but us touches its buffers. */
	c->link->memreg->unmap(c->link, call);
	call->replied = true;
	call->recv = b;
	if (call->sent)
		finish(c, call);
}

static const struct fab_events fab_events = {
	.recv = on_recv,
	.sent = on_sent,
	.down = on_down,
};

/* ---- sending ---- */

static void unqueue(struct rr_conn *c, struct rr_call *call)
{
	list_del(&call->node);
	c->nwaiting--;
	call->state = RR_CALL_IDLE;
}

static void pump(struct rr_conn *c)
{
	struct list *n = c->waiting.next;

	while (c->link && !c->reset_err && n != &c->waiting && c->ninflight < c->grant) {
		struct rr_call *call = container_of(n, struct rr_call, node);
		int rc = rr_send(c, call);

		n = n->next;
		if (rc == RR_NO_BUFFER)
			continue;
		unqueue(c, call);
		if (rc == -EMSGSIZE || rc == -EFAULT || rc == -EINVAL) {
			call->done(call, -EMSGSIZE);
			n = c->waiting.next;    /* the list may be another one now */
			continue;
		}
		track(c, call);
		call->posted_ns = mono_ns();
		stat_add(c->st, call->sends++ ? STAT_RPC_REPLAYS : STAT_RPC_CALLS, 1);
		if (rc)
			rr_reset(c, rc, "a send could not be posted");
	}
}

void rr_submit(struct rr_conn *c, struct rr_call *call)
{
	call->state = RR_CALL_WAITING;
	call->sent = call->replied = call->data_inline = false;
	call->sends = call->bad = 0;
	call->placed = false;
	call->placed_len = 0;
	call->recv = call->chunk = NULL;
	call->nmrs = 0;
	call->status = 0;
	call->reply = NULL;
	call->reply_len = 0;
	list_add_tail(&c->waiting, &call->node);
	c->nwaiting++;
	if (c->link && c->ninflight >= c->grant)
		stat_add(c->st, STAT_RPC_CREDIT_WAITS, 1);
	/* May complete the call, if it can never be sent: not to be touched after. */
	pump(c);
}

int rr_cancel(struct rr_conn *c, struct rr_call *call, int status)
{
	if (call->state == RR_CALL_INFLIGHT)
		return -EBUSY;
	if (call->state == RR_CALL_WAITING) {
		unqueue(c, call);
		call->done(call, status);
	}
	return 0;
}

/* ---- life ---- */

int rr_up(struct rr_conn *c, struct rr_link *link)
{
	int rc = link->fabric->attach(link->fab, c->loop, &fab_events, c);

	if (rc) {
		rr_link_close(link);
		return rc;
	}
	c->link = link;
	c->grant = 1;
	stat_add(c->st, STAT_CONN_UPS, 1);
	pump(c);
	return 0;
}

struct rr_conn *rr_conn_new(const struct rr_config *cfg, struct loop *l, struct slab *s,
			    struct stats *st, const struct rr_events *ev, void *ctx)
{
	struct rr_conn *c = calloc(1, sizeof(*c));
	uint32_t seed = 0;

	if (!c)
		return NULL;
	c->cfg = *cfg;
	c->loop = l;
	c->slab = s;
	c->st = st;
	c->ev = ev;
	c->ctx = ctx;
	list_init(&c->waiting);
	list_init(&c->inflight);
	loop_timer_init(&c->reset_timer, on_reset);
	c->nrecvs = s->counts.n[SLAB_RECV];
	c->recvs = calloc(c->nrecvs, sizeof(struct slab_buf *));
	c->copy = malloc(RR_REPLY_MAX);
	if (!c->recvs || !c->copy) {
		free(c->recvs);
		free(c->copy);
		free(c);
		return NULL;
	}
	c->spare = slab_get(s, SLAB_MID);
	for (unsigned i = 0; i < c->nrecvs; i++)
		c->recvs[i] = slab_get(s, SLAB_RECV);
	c->cfg.params.max_recv = c->nrecvs;
	c->cfg.params.max_send = cfg->credits + SEND_SLACK;
	/* XIDs begin at random, so that a server's reply cache does not take
	 * them for those of an earlier mount; lanes step in stripes. */
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = (uint32_t)mono_ns();
	c->next_xid = seed - seed % (cfg->nlanes ? cfg->nlanes : 1) + cfg->lane;
	return c;
}

void rr_conn_free(struct rr_conn *c)
{
	if (!c)
		return;
	loop_timer_clear(&c->reset_timer);
	if (c->link)
		rr_link_close(c->link);
	for (unsigned i = 0; i < c->nrecvs; i++)
		slab_put(c->slab, c->recvs[i]);
	if (c->spare)
		slab_put(c->slab, c->spare);
	free(c->recvs);
	free(c->copy);
	free(c);
}

/* ---- queries ---- */

bool rr_is_up(const struct rr_conn *c)
{
	return c->link && !c->reset_err;
}

uint32_t rr_xid(struct rr_conn *c)
{
	uint32_t xid = c->next_xid;

	c->next_xid += c->cfg.nlanes ? c->cfg.nlanes : 1;
	return xid;
}

uint64_t rr_oldest(const struct rr_conn *c)
{
	if (list_empty(&c->inflight))
		return 0;
	return container_of(c->inflight.next, struct rr_call, node)->posted_ns;
}

unsigned rr_pending(const struct rr_conn *c)
{
	return c->nwaiting + c->ninflight;
}
