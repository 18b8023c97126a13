/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replies: from a receive to the call that it answers. Nothing of a message is believed
 * before it has been checked, and a reply is taken only by the link that its call was
 * sent on.
 *
 * Credits (RFC 8166 section 3.3): one call until the first reply, from then on
 * what the newest reply grants, at most what we asked for. A grant of 0 is
 * illegal and taken as 1; a grant that falls below what is in flight only
 * stops new calls. RECV buffers number more than the credits, so each reply
 * finds one; a reply's buffer goes back before its credit is used again.
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
#include <string.h>
#include "rpcrdma/impl.h"

void rr_repost(struct rr_link *link, struct arena_buf *b)
{
	struct fab_sge sge;
	int rc;

	sge = (struct fab_sge){
		.mem = b->mem, .len = (uint32_t)b->size, .lkey = link->local.lkey,
	};
	rc = link->fabric->post_recv(link->fab, &sge, b);
	if (rc)
		rr_reset(link, rc, "a receive could not be posted");
}

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

static void take_grant(struct rr_link *link, uint32_t credit)
{
	unsigned most = link->conn->cfg.credits;

	link->grant = credit ? credit : 1;
	if (link->grant > most)
		link->grant = most;
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

static void bad_reply(struct rr_link *link, struct rr_call *call, const char *what)
{
	call->bad++;
	stat_add(link->conn->st, STAT_RPC_BAD_REPLIES, 1);
	log_debug("%s: call %08x, number %u", what, call->xid, call->bad);
	rr_reset(link, -EBADMSG, what);
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

/* A reply that comes twice, or too late, belongs to no call. A message without an XID may
 * be any call's reply, and that call would wait for it until its time is up. */
static void stray(struct rr_link *link, uint32_t len, uint32_t xid)
{
	stat_add(link->conn->st, STAT_RPC_BAD_REPLIES, 1);
	log_debug("dropped a message of %u bytes: no call %08x is in flight", len, xid);
	if (len < RR_HDR_FIXED)
		rr_reset(link, -EBADMSG, "a message without a header");
}

/* The call that the message is a reply to; NULL: none, and nothing more is to be done
 * about it. */
static struct rr_call *call_of(struct rr_link *link, const struct rr_header *h, uint32_t len,
			       bool invalidated, uint32_t rkey)
{
	struct rr_call *call = rr_find(link, h->xid);

	if (!call || call->replied) {
		stray(link, len, h->xid);
		if (invalidated)
			rr_reset(link, -EBADMSG, not_its_stag);
		return NULL;
	}
	if (invalidated && !may_invalidate(call, rkey)) {
		bad_reply(link, call, not_its_stag);
		return NULL;
	}
	return call;
}

void rr_on_recv(void *ctx, void *cookie, uint32_t len, bool invalidated, uint32_t rkey)
{
	struct rr_link *link = ctx;
	struct stats *st = link->conn->st;
	struct arena_buf *b = cookie;
	struct rr_header h;
	struct rr_call *call;
	uint8_t *msg;
	int hlen;

	hlen = rr_header_decode(&h, b->mem, len);
	msg = (uint8_t *)b->mem + (hlen > 0 ? hlen : 0);
	if (!invalidated && hlen > 0 && is_back_call(&h, msg, len - (size_t)hlen)) {
		/* None is expected: no session of ours asks for a back channel. */
		stat_add(st, STAT_RPC_BACK_CALLS, 1);
		rr_repost(link, b);
		return;
	}
	call = call_of(link, &h, len, invalidated, rkey);
	if (!call) {
		rr_repost(link, b);
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
		rr_repost(link, b);
		return;
	}
	stat_add(st, STAT_RPC_REPLIES, 1);
	/* From here on nobody but us touches its buffers. */
	link->memreg->unmap(link, call);
	call->replied = true;
	call->recv = b;
	if (call->sent)
		rr_finish(call);
}
