/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marshalling: turns a call into one Send, by the link's thresholds.
 *
 *     msg buffer   |<------- RR_HDR_ROOM ------->|<---- msg_len ---->|
 *                  |        ...  transport header | RPC message       |
 *                                ^-- the Send starts here
 *
 * The header is written so that it ends where the message begins. It is made anew for each
 * sending, because rkeys and thresholds belong to the connection. The RPC message stays as
 * it is, so the server sees a replay as the same call. Only the way of a WRITE's data may
 * change: data that was put into the message is taken out again before the next sending is
 * planned.
 *
 *     chunk buffer |<---- Reply chunk ---->|<---- Long Call ---->|
 *
 * A Long Call is copied to where the peer can read it, because no peer reaches the message
 * buffers. (The few messages that are too long for those are built in a data buffer.)
 */
#include <errno.h>
#include <string.h>
#include "rpcrdma/impl.h"
#include "rpcrdma/plan.h"

static uint8_t *msg_at(const struct rr_call *call)
{
	return (uint8_t *)call->msg->mem + RR_HDR_ROOM;
}

static uint32_t data_len(const struct rr_call *call)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < call->nsend; i++)
		n += call->send[i].len;
	return n;
}

/* Puts the data of a small WRITE into the message, with its XDR pad. */
static int insert_data(struct rr_call *call, uint32_t len)
{
	uint8_t *msg = msg_at(call), *at = msg + call->data_pos;
	uint32_t padded = (len + 3) & ~3u, done = 0;

	if (call->data_pos > call->msg_len ||
	    RR_HDR_ROOM + call->msg_len + (size_t)padded > call->msg->size)
		return -EMSGSIZE;
	memmove(at + padded, at, call->msg_len - call->data_pos);
	for (uint32_t i = 0; i < call->nsend; i++) {
		memcpy(at + done, call->send[i].mem, call->send[i].len);
		done += call->send[i].len;
	}
	memset(at + len, 0, padded - len);
	call->msg_len += padded;
	call->data_inline = true;
	return 0;
}

/* Takes the data out of the message again. It is still where call->send says. */
static void withdraw_data(struct rr_call *call)
{
	uint8_t *at = msg_at(call) + call->data_pos;
	uint32_t padded = (data_len(call) + 3) & ~3u;

	if (!call->data_inline)
		return;
	call->msg_len -= padded;
	memmove(at, at + padded, call->msg_len - call->data_pos);
	call->data_inline = false;
}

/* ---- the chunk's buffer ---- */

static bool copies_call(const struct rr_call *call, const struct rr_plan *plan)
{
	return plan->call == RR_CALL_LONG && call->msg->cls == ARENA_MSG;
}

static int take_chunk(struct rr_conn *c, struct rr_call *call, const struct rr_plan *plan)
{
	uint32_t used = copies_call(call, plan) ? (call->msg_len + 7) & ~7u : 0;
	bool reply = plan->reply == RR_REPLY_CHUNK;

	call->reply_room = RR_REPLY_MAX - used;
	if (reply && call->reply_max > call->reply_room)
		return -EMSGSIZE;
	if (!reply && !used)
		return 0;
	call->chunk = magazine_get_data(c->mag, RR_REPLY_MAX);
	if (!call->chunk) {
		call->chunk = c->spare;
		c->spare = NULL;
	}
	return call->chunk ? 0 : RR_NO_BUFFER;
}

void rr_put_chunk(struct rr_conn *c, struct rr_call *call)
{
	if (call->chunk && !c->spare && call->chunk->cls == ARENA_MID)
		c->spare = call->chunk;
	else if (call->chunk)
		magazine_put(c->mag, call->chunk);
	call->chunk = NULL;
}

/* ---- the header ---- */

static int map_call(const struct rr_link *l, struct rr_call *call, const struct rr_plan *plan,
		    struct rr_header *h)
{
	uint8_t *msg = msg_at(call);
	int rc = 0;

	if (plan->call == RR_CALL_LONG) {
		if (copies_call(call, plan))
			msg = memcpy((uint8_t *)call->chunk->mem + call->reply_room, msg,
				     call->msg_len);
		h->proc = RR_NOMSG;
		h->nreads = 1;
		h->reads[0].position = 0;
		return l->memreg->map(l, call, msg, call->msg_len, FAB_REMOTE_READ,
				      &h->reads[0].seg);
	}
	if (plan->call != RR_CALL_READ_CHUNK)
		return 0;
	for (uint32_t i = 0; i < call->nsend && !rc; i++) {
		h->reads[i].position = call->data_pos;
		rc = l->memreg->map(l, call, call->send[i].mem, call->send[i].len,
				    FAB_REMOTE_READ, &h->reads[i].seg);
	}
	h->nreads = call->nsend;
	return rc;
}

static int map_reply(const struct rr_link *l, struct rr_call *call, const struct rr_plan *plan,
		     struct rr_header *h)
{
	call->placed = plan->reply == RR_REPLY_WRITE_CHUNK;
	if (call->placed) {
		h->nwrites = 1;
		h->writes[0].nseg = 1;
		return l->memreg->map(l, call, call->sink.mem, call->sink.len, FAB_REMOTE_WRITE,
				      &h->writes[0].seg[0]);
	}
	if (plan->reply == RR_REPLY_CHUNK) {
		h->has_reply = true;
		h->reply.nseg = 1;
		return l->memreg->map(l, call, call->chunk->mem, call->reply_room, FAB_REMOTE_WRITE,
				      &h->reply.seg[0]);
	}
	return 0;
}

bool rr_unsendable(int rc)
{
	return rc == -EINVAL || rc == -EMSGSIZE || rc == -EFAULT;
}

/* Chunks are counted for each sending, a WRITE's bytes for the first. */
static void count(const struct rr_link *l, const struct rr_call *call, const struct rr_plan *plan)
{
	struct stats *st = l->conn->st;

	if (l->memreg->windows)
		stat_add(st, STAT_RDMA_BINDINGS, call->nmrs);
	stat_add(st, STAT_RDMA_LONG_CALLS, plan->call == RR_CALL_LONG);
	stat_add(st, STAT_RDMA_READ_CHUNKS, plan->call == RR_CALL_READ_CHUNK);
	stat_add(st, STAT_RDMA_WRITE_CHUNKS, plan->reply == RR_REPLY_WRITE_CHUNK);
	stat_add(st, STAT_RDMA_REPLY_CHUNKS, plan->reply == RR_REPLY_CHUNK);
	if (call->nsend && !call->sends)
		stat_add(st, call->data_inline ? STAT_WRITE_INLINE_BYTES : STAT_WRITE_CHUNK_BYTES,
			 data_len(call));
}

/* The Send is one piece, no longer than agreed. If the device refuses it, it would
 * refuse any other call's too; another connection may do better. */
static int of_the_connection(const struct rr_link *l, int rc)
{
	/* The send queue is full. Replies say that there is room again. If none is awaited,
	 * the peer has answered what it has not acknowledged: it takes nothing more. */
	if (rc == -EAGAIN)
		return l->ninflight ? RR_NO_BUFFER : -ENOBUFS;
	return rr_unsendable(rc) ? -EIO : rc;
}

static int try_send(struct rr_link *l, struct rr_call *call)
{
	struct rr_conn *c = l->conn;
	uint32_t dlen = data_len(call);
	struct rr_plan plan;
	struct rr_header h;
	struct fab_sge sge;
	size_t hlen;
	int rc;

	withdraw_data(call);
	rc = rr_plan(&plan, &(struct rr_plan_in){
		.send_limit = l->send_limit,
		.recv_limit = l->recv_limit,
		.msg_len = call->msg_len,
		.data_len = dlen,
		.nsend = call->nsend,
		.sink_len = call->sink.len,
		.reply_max = call->reply_max,
	});
	rr_header_init(&h, call->xid, c->cfg.credits);
	if (!rc)
		rc = take_chunk(c, call, &plan);
	if (!rc && plan.call == RR_CALL_INLINE && dlen)
		rc = insert_data(call, dlen);
	if (!rc)
		rc = map_call(l, call, &plan, &h);
	if (!rc)
		rc = map_reply(l, call, &plan, &h);
	if (rc)
		return rc;

	hlen = rr_header_size(&h);
	if (hlen > RR_HDR_ROOM)
		return -EMSGSIZE;
	rc = rr_header_encode(&h, msg_at(call) - hlen, hlen);
	if (rc < 0)
		return rc;
	sge = (struct fab_sge){
		.mem = msg_at(call) - hlen,
		.len = (uint32_t)hlen + (plan.call == RR_CALL_LONG ? 0 : call->msg_len),
		.lkey = call->msg->cls == ARENA_MSG ? l->local.lkey : l->data.lkey,
	};
	call->sent = l->silent;
	call->replied = false;
	rc = l->fabric->post_send(l->fab, &sge, 1, l->silent ? NULL : call);
	if (!rc)
		count(l, call, &plan);
	return of_the_connection(l, rc);
}

int rr_send(struct rr_link *link, struct rr_call *call)
{
	int rc = try_send(link, call);

	if (rc == RR_NO_BUFFER || rr_unsendable(rc)) {
		/* Nothing has been posted, so this ends at once. */
		link->memreg->unmap(link, call, NULL);
		rr_put_chunk(link->conn, call);
	}
	return rc;
}
