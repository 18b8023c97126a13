/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of the server, on the connection that carries ours (RFC 8167).
 *
 *     server                        receive R of this link
 *       |  --- Send: call ------->  R  the call
 *       |                           |  rr_events.called(): the reply, on the stack; then it is
 *       |                           |  copied over the call
 *       |  <-- Send: reply -------  R  the reply: the device's until it has left
 *       |                           |
 *       |  --- the next message ->  R  posted again
 *
 * So a reply needs no memory of its own, and a server that does not take our replies keeps no more
 * than its share of receives: RR_BACK_MAX. One that makes more calls ignores the credits that it
 * was granted (RFC 8167, section 4.2), and loses the connection; else it would take the receives
 * that replies to our own calls need. The two directions share nothing else: credits, XIDs and the
 * order are each one's own. A grant to the server is in our replies only, and its own to us is in
 * its replies only.
 *
 * Everything runs on the lane's thread, and a call is answered before the next message is looked
 * at. If the Send does not fit into the queue now, the reply waits for one to leave.
 *
 * When the connection dies, whatever is here dies with it, replies included: the server asks
 * again on another one. So it may ask what we have done already (nfs4_back.c).
 *
 * Only inline messages: a call with chunks is answered by RDMA_ERROR.
 */
#include <errno.h>
#include <string.h>
#include "rpcrdma/impl.h"

/* ---- replies that leave ---- */

static int back_post(struct rr_link *link, const struct rr_back *b)
{
	struct fab_sge sge = { .mem = b->mem, .len = b->len, .lkey = link->recv_mr.lkey };

	return link->fabric->post_send(link->fab, &sge, 1, b->mem);
}

static void back_retry(struct rr_link *link)
{
	int rc = 0;

	while (link->nunsent && !(rc = back_post(link, &link->unsent[0])))
		memmove(link->unsent, link->unsent + 1, --link->nunsent * sizeof(link->unsent[0]));
	if (rc && rc != -EAGAIN)
		rr_link_reset(link, rc, "cannot answer a call of the server");
}

bool rr_back_sent(struct rr_link *link, void *cookie)
{
	bool ours = (uintptr_t)cookie - (uintptr_t)link->recvs.base < link->recvs.len;

	if (link->reset_err)
		return ours;
	if (ours) {
		link->nback--;
		rr_repost(link, cookie);
	}
	back_retry(link);
	return ours;
}

static void back_send(struct rr_link *link, void *recv, uint32_t len)
{
	link->unsent[link->nunsent++] = (struct rr_back){ recv, len };
	link->nback++;
	back_retry(link);
}

/* ---- calls that come ---- */

/* The bytes of a message that this link carries, behind the shortest header. */
static uint32_t back_room(const struct rr_link *link)
{
	return link->send_limit - RR_HDR_MIN;
}

void rr_back_call(struct rr_link *link, struct rr_header *h, void *recv, const uint8_t *msg,
		  uint32_t len)
{
	bool chunks = h->proc != RR_MSG || h->nreads || h->nwrites || h->has_reply;
	uint32_t reply[RR_INLINE / 4], n = 0;
	struct rr_conn *c = link->conn;
	int hlen;

	stat_add(c->st, STAT_RPC_BACK_CALLS, 1);
	if (!link->reset_err && link->nback == RR_BACK_MAX)
		rr_link_reset(link, -EPROTO, "the server makes more calls than it was granted");
	if (link->reset_err)
		return;
	if (!chunks && c->ev->called)
		n = c->ev->called(c->ctx, msg, len, reply, back_room(link));
	if (!chunks && !n) {
		rr_repost(link, recv);
		return;
	}
	rr_header_init(h, h->xid, RR_BACK_CREDITS);
	if (chunks) {
		h->proc = RR_ERROR;
		h->err = RR_ERR_CHUNK;
	}
	hlen = rr_header_encode(h, recv, RR_INLINE);
	memcpy((uint8_t *)recv + hlen, reply, n);
	back_send(link, recv, (uint32_t)hlen + n);
}
