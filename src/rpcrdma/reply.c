/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replies: from a receive to the call that it answers. Everything in a message is checked
 * before it is used. Only the link that a call was sent on may take its reply. What is a call of
 * the server goes to back.c: the direction is looked at first, because XIDs of both may be equal.
 *
 * Credits (RFC 8166 section 3.3): one call until the first reply. From then on the newest
 * reply grants credits, and we use at most as many as we asked for. A grant of 0 is illegal
 * and taken as 1. A grant below the number of calls in flight only stops new calls. There
 * are more receives than credits, so each reply finds one, although done() may use a reply's
 * credit again before its buffer is posted again.
 *
 * A malformed reply does not tell whether the peer is done with the call's buffers, nor
 * what became of the call. So the link is given up, and the call is sent again with the
 * others. The server's reply cache or the slot makes it the same call to the server. A call
 * fails only after RR_BAD_MAX sendings were answered so, and only when its link is closed.
 * A Send that invalidates anything but an STag of the call that it answers is treated the
 * same way: it may have taken away what another call needs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "rpcrdma/impl.h"

int rr_post_recv(struct rr_link *link, void *mem)
{
	struct fab_sge sge = { .mem = mem, .len = RR_INLINE, .lkey = link->recv_mr.lkey };

	return link->fabric->post_recv(link->fab, &sge, mem);
}

void rr_repost(struct rr_link *link, void *mem)
{
	int rc = rr_post_recv(link, mem);

	if (rc)
		rr_link_reset(link, rc, "cannot post a receive");
}

/* RFC 8167: a call of the server travels as RDMA_MSG, and its second RPC word is CALL. Its XID is the
 * server's and means nothing here. What comes with a Position-Zero Read chunk is a call as well: a
 * reply never has a Read list. */
static bool is_back_call(const struct rr_header *h, const uint8_t *msg, size_t len)
{
	uint32_t word[2];

	if (h->proc != RR_MSG)
		return h->proc == RR_NOMSG && h->nreads && !h->reads[0].position;
	if (len < sizeof(word))
		return false;
	memcpy(word, msg, sizeof(word));
	return ntohl(word[0]) == h->xid && ntohl(word[1]) == 0;
}

/* The message must be the reply to the call that the transport header names. */
static bool reply_answers(const struct rr_call *call)
{
	uint32_t xid;

	if (call->reply_len < sizeof(xid))
		return false;
	memcpy(&xid, call->reply, sizeof(xid));
	return ntohl(xid) == call->xid;
}

static void take_grant(struct rr_link *link, uint32_t credit)
{
	unsigned most = link->conn->cfg.credits;

	credit = credit ? credit : 1;
	if (credit > most)
		credit = most;
	if (credit != link->grant)
		rr_set_grant(link, credit);
}

/* Bytes in a Reply chunk that came back. We offer one segment (send.c), and what is in it begins
 * at its start. More segments than that are as bad as too many bytes. */
static uint64_t reply_returned(const struct rr_chunk *chunk)
{
	return chunk->nseg > 1 ? UINT64_MAX : rr_chunk_len(chunk);
}

/* The same of the Write chunk. A segment has data only if the one before is full: otherwise the
 * bytes that count are not the first ones. */
static uint64_t placed_bytes(const struct rr_call *call, const struct rr_chunk *chunk)
{
	uint64_t n = 0;
	uint32_t i = 0;

	if (chunk->nseg > call->nsink)
		return UINT64_MAX;
	for (; i < chunk->nseg && chunk->seg[i].length == call->sink[i].len; i++)
		n += call->sink[i].len;
	if (i == chunk->nseg)
		return n;
	if (chunk->seg[i].length > call->sink[i].len)
		return UINT64_MAX;
	n += chunk->seg[i].length;
	while (++i < chunk->nseg)
		if (chunk->seg[i].length)
			return UINT64_MAX;
	return n;
}

/* The Write chunk as it was returned. If it is empty it was not used: then there is no data,
 * or the message has it. */
static bool take_placed(struct rr_call *call, const struct rr_header *h)
{
	uint64_t n = h->nwrites ? placed_bytes(call, &h->writes[0]) : 0;

	if (h->nwrites != call->write_chunk || n == UINT64_MAX)
		return false;
	call->placed = n != 0;
	call->placed_len = (uint32_t)n;
	call->data = call->sink[0].mem || !n ? call->sink[0].mem : call->chunk->mem;
	return true;
}

/* Checks the lengths of the returned chunks against what was offered. */
static int take_reply(struct rr_call *call, const struct rr_header *h,
		      const uint8_t *msg, size_t len)
{
	uint64_t n;

	if (h->nreads || !take_placed(call, h) || (h->has_reply && !call->reply_chunk))
		return -EBADMSG;
	if (h->proc == RR_MSG) {
		call->reply = msg;
		call->reply_len = (uint32_t)len;
		return reply_answers(call) ? 0 : -EBADMSG;
	}
	n = h->has_reply ? reply_returned(&h->reply) : 0;
	if (!n || n > call->chunk_room)
		return -EBADMSG;
	call->reply = call->chunk->mem;
	call->reply_len = (uint32_t)n;
	return reply_answers(call) ? 0 : -EBADMSG;
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

static void bad_reply(struct rr_link *link, struct rr_call *call, const char *what)
{
	/* More of them may come for this sending before the link is closed. */
	call->bad += call->bad_at != call->sends;
	call->bad_at = call->sends;
	stat_add(link->conn->st, STAT_RPC_BAD_REPLIES, 1);
	log_debug("%s: call %08x, sending %u that was answered so", what, call->xid, call->bad);
	rr_link_reset(link, -EBADMSG, what);
}

/* Send With Invalidate: the server may invalidate one of the segments that were offered
 * with the call, if we have said R (RFC 8797), and nothing else. */
static bool may_invalidate(const struct rr_call *call, uint32_t rkey)
{
	if (!call->link->remote_inval)
		return false;
	for (unsigned i = 0; i < call->nmrs; i++)
		if (call->mrs[i].rkey == rkey)
			return true;
	return false;
}

static const char not_its_stag[] =
	"a Send With Invalidate of an STag that was not offered with its call";

/* A reply that comes twice or too late belongs to no call. But a message without an XID
 * may be the reply to any call, and that call would wait until it times out: the link is
 * given up. */
static void reply_stray(struct rr_link *link, uint32_t len, uint32_t xid)
{
	stat_add(link->conn->st, STAT_RPC_BAD_REPLIES, 1);
	log_debug("dropped a message of %u bytes: no call %08x is in flight", len, xid);
	if (len < RR_HDR_FIXED)
		rr_link_reset(link, -EBADMSG, "a message without a header");
}

/* The call that the message answers. NULL: there is none, and the message has been dealt
 * with. */
static struct rr_call *call_of(struct rr_link *link, const struct rr_header *h, uint32_t len,
			       bool invalidated, uint32_t rkey)
{
	struct rr_call *call = rr_find(link, h->xid);

	if (!call || call->replied) {
		reply_stray(link, len, h->xid);
		if (invalidated)
			rr_link_reset(link, -EBADMSG, not_its_stag);
		return NULL;
	}
	if (invalidated && !may_invalidate(call, rkey)) {
		bad_reply(link, call, not_its_stag);
		return NULL;
	}
	return call;
}

/* When this is through, or rr_unmapped() later, nobody but us touches the call's buffers. */
static void reply_unmap(struct rr_link *link, struct rr_call *call, const uint32_t *by_peer)
{
	int rc;

	/* Closing the link ends everything. Until then it is not used: who knows what
	 * the peer has invalidated. */
	if (link->reset_err) {
		call->unmapping = true;
		return;
	}
	/* A window that was offered and not used says nothing. */
	if (link->memreg->windows && !link->windows_work && call->nmrs && !call->status &&
	    (by_peer || call->placed_len || call->nsend)) {
		link->windows_work = true;
		if (link->conn->cfg.windows)
			atomic_store(&link->conn->cfg.windows[link->path].work, true);
	}
	rc = link->memreg->unmap(link, call, by_peer);
	call->unmapping = rc != 0;
	if (rc < 0)
		rr_link_reset(link, rc, "cannot revoke the peer's access to memory");
}

void rr_unmapped(void *ctx, void *cookie)
{
	struct rr_call *call = cookie;

	call->unmapping = false;
	rr_progress(call);
}

/* Without much data, a call's time is the path's and the server's, and not that of the data. */
#define SHORT_BYTES 8192u
/* The moving average takes 1/8 of each new value. */
#define AVERAGE_SHIFT 3

static void reply_average(struct rr_link *link, uint64_t ns)
{
	uint64_t old = link->latency_ns;

	link->measured_ns = link->heard_ns;
	link->latency_ns = old ? old - (old >> AVERAGE_SHIFT) + (ns >> AVERAGE_SHIFT) : ns;
	atomic_store_explicit(&link->ps->latency_ns, link->latency_ns, memory_order_relaxed);
}

/* The call that the reply answers has taken so long, and so much came with it. */
static void reply_measure(struct rr_link *link, const struct rr_call *call)
{
	uint64_t now = loop_now(link->conn->loop), ns = now - call->posted_ns;
	struct rr_path_stats *ps = link->ps;

	link->heard_ns = now;
	if (call->posted_ns > link->answered_ns)
		link->answered_ns = call->posted_ns;
	if (call->sink_len <= SHORT_BYTES && call->data_len <= SHORT_BYTES)
		reply_average(link, ns);
	stat_add_to(&ps->rx_bytes, call->reply_len + call->placed_len);
	times_add(&ps->times, ns);
}

void rr_on_recv(void *ctx, void *cookie, uint32_t len, bool invalidated, uint32_t rkey)
{
	struct rr_link *link = ctx;
	struct stats *st = link->conn->st;
	struct rr_header h;
	struct rr_call *call;
	uint8_t *msg;
	int hlen;

	hlen = rr_header_decode(&h, cookie, len);
	msg = (uint8_t *)cookie + (hlen > 0 ? hlen : 0);
	if (hlen > 0 && is_back_call(&h, msg, len - (size_t)hlen)) {
		if (invalidated)
			rr_link_reset(link, -EBADMSG, not_its_stag);
		rr_back_call(link, &h, cookie, msg, len - (uint32_t)hlen);
		return;
	}
	call = call_of(link, &h, len, invalidated, rkey);
	if (!call) {
		rr_repost(link, cookie);
		return;
	}
	call->status = -EBADMSG;
	if (hlen > 0) {
		take_grant(link, h.credit);
		call->status = h.proc == RR_ERROR ? take_error(link->conn, &h) :
			take_reply(call, &h, msg, len - (size_t)hlen);
	}
	if (call->status == -EBADMSG) {
		bad_reply(link, call, "a malformed reply");
		rr_repost(link, cookie);
		return;
	}
	stat_add(st, STAT_RPC_REPLIES, 1);
	reply_measure(link, call);
	call->replied = true;
	call->recv = cookie;
	reply_unmap(link, call, invalidated ? &rkey : NULL);
	rr_progress(call);
}
