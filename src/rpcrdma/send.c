/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marshalling: turns a call into one Send, by the link's thresholds.
 *
 *     msg buffer   |<------- RR_HDR_ROOM ------->|<---- msg_len ---->|
 *                  |        ...  transport header | RPC message       |
 *                                ^-- the Send starts here
 *
 * The header is written so that it ends where the message begins. It is made anew for each
 * sending, because rkeys and thresholds belong to the connection. The RPC message is the call's
 * own affair (renew()); with the same XID the server sees a replay as the same call. The way of a
 * call's data may change: data that was put into the message is taken out again before the next
 * sending is planned.
 *
 *     chunk buffer |<-------- chunk_room -------->|<-------- copy -------->|
 *                   Reply chunk, or Write chunk    Long Call, or Read chunk
 *                   for the text of a link         with the target of a link
 *
 * The peer reads a copy, because no peer reaches the message buffers, nor what else is plain
 * memory. (Messages that flavors wrap may be too long for those buffers. They are built in a
 * data buffer.) The buffer is the sending's own: when a link is lost, it is given back after
 * the link is closed, and the next sending takes another one, or needs none.
 */
#include <errno.h>
#include <string.h>
#include "rpcrdma/impl.h"
#include "rpcrdma/plan.h"

static uint8_t *msg_at(const struct rr_call *call)
{
	return (uint8_t *)call->msg->mem + RR_HDR_ROOM;
}

/* Writes the data with its XDR pad. */
static void put_data(const struct rr_iov *data, uint32_t n, uint8_t *at)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < n; i++) {
		memcpy(at + done, data[i].mem, data[i].len);
		done += data[i].len;
	}
	memset(at + done, 0, -done & 3u);
}

uint32_t rr_insert(struct arena_buf *msg, uint32_t len, uint32_t pos, const struct rr_iov *data,
		   uint32_t n)
{
	uint8_t *at = (uint8_t *)msg->mem + RR_HDR_ROOM + pos;
	uint32_t padded = 0;

	for (uint32_t i = 0; i < n; i++)
		padded += data[i].len;
	padded = (padded + 3) & ~3u;
	if (pos > len || RR_HDR_ROOM + len + (size_t)padded > msg->size)
		return 0;
	memmove(at + padded, at, len - pos);
	put_data(data, n, at);
	return len + padded;
}

/* Puts short data into the message. */
static int insert_data(struct rr_call *call)
{
	uint32_t len = rr_insert(call->msg, call->msg_len, call->data_pos, call->send, call->nsend);

	if (!len)
		return -EMSGSIZE;
	call->msg_len = len;
	call->data_inline = true;
	return 0;
}

void rr_withdraw_data(struct rr_call *call)
{
	uint32_t padded;
	uint8_t *at;

	if (!call->data_inline)
		return;
	at = msg_at(call) + call->data_pos;
	padded = (call->data_len + 3) & ~3u;
	call->msg_len -= padded;
	memmove(at, at + padded, call->msg_len - call->data_pos);
	call->data_inline = false;
}

/* ---- the chunk's buffer ---- */

static bool copies_call(const struct rr_call *call, const struct rr_plan *plan)
{
	return plan->call == RR_CALL_LONG && (call->msg->cls == ARENA_MSG || call->nsend);
}

/* Bytes that the peer reads from a copy. */
static uint64_t copy_len(const struct rr_call *call, const struct rr_plan *plan)
{
	uint64_t data = ((uint64_t)call->data_len + 3) & ~(uint64_t)3;

	if (copies_call(call, plan))
		return call->msg_len + data;
	return plan->call == RR_CALL_READ_CHUNK && call->send_copied ? data : 0;
}

static int take_chunk(struct rr_conn *c, struct rr_call *call, const struct rr_plan *plan)
{
	uint64_t copy = (copy_len(call, plan) + 7) & ~(uint64_t)7;
	bool reply = plan->reply == RR_REPLY_CHUNK;
	bool sink = plan->reply == RR_REPLY_WRITE_CHUNK && !call->sink[0].mem;
	uint32_t least = reply ? call->reply_max : sink ? call->sink[0].len : 0;

	if (copy + least > RR_REPLY_MAX)
		return -EMSGSIZE;
	if (!copy && !reply && !sink)
		return 0;
	/* A server may want more than reply_max: a Reply chunk gets all there is. */
	call->chunk_room = (least + 7) & ~7u;
	if (reply && call->chunk_room + copy < RR_REPLY_ROOM)
		call->chunk_room = RR_REPLY_ROOM - (uint32_t)copy;
	call->chunk = magazine_get_data(c->mag, call->chunk_room + copy);
	if (!call->chunk && call->chunk_room + copy <= ARENA_MID_SIZE) {
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

static int map_read(const struct rr_link *l, struct rr_call *call, uint32_t position, void *mem,
		    uint32_t len, struct rr_header *h)
{
	struct rr_read_seg *r = &h->reads[h->nreads++];

	r->position = position;
	return l->memreg->map(l, call, mem, len, FAB_REMOTE_READ, &r->seg);
}

/* Copies the message, with the data in its place. Returns its length. */
static uint32_t copy_call(const struct rr_call *call, uint8_t *to)
{
	uint32_t head = call->nsend ? call->data_pos : call->msg_len;
	uint32_t data = (call->data_len + 3) & ~3u;

	memcpy(to, msg_at(call), head);
	put_data(call->send, call->nsend, to + head);
	memcpy(to + head + data, msg_at(call) + head, call->msg_len - head);
	return call->msg_len + data;
}

static int map_long(const struct rr_link *l, struct rr_call *call, const struct rr_plan *plan,
		    uint8_t *copy, struct rr_header *h)
{
	h->proc = RR_NOMSG;
	if (copies_call(call, plan))
		return map_read(l, call, 0, copy, copy_call(call, copy), h);
	return map_read(l, call, 0, msg_at(call), call->msg_len, h);
}

static int map_call(const struct rr_link *l, struct rr_call *call, const struct rr_plan *plan,
		    struct rr_header *h)
{
	uint8_t *copy = call->chunk ? (uint8_t *)call->chunk->mem + call->chunk_room : NULL;
	int rc = 0;

	if (call->nsend && call->data_pos > call->msg_len)
		return -EINVAL;
	if (plan->call == RR_CALL_LONG)
		return map_long(l, call, plan, copy, h);
	if (plan->call != RR_CALL_READ_CHUNK)
		return 0;
	if (call->send_copied) {
		put_data(call->send, call->nsend, copy);
		return map_read(l, call, call->data_pos, copy, call->data_len, h);
	}
	for (uint32_t i = 0; i < call->nsend && !rc; i++)
		rc = map_read(l, call, call->data_pos, call->send[i].mem, call->send[i].len, h);
	return rc;
}

static int map_sink(const struct rr_link *l, struct rr_call *call, struct rr_chunk *out)
{
	uint32_t i = 0;
	int rc;

	out->nseg = call->nsink;
	do {
		const struct rr_iov *s = &call->sink[i];

		rc = l->memreg->map(l, call, s->mem ? s->mem : call->chunk->mem, s->len,
				    FAB_REMOTE_WRITE, &out->seg[i]);
	} while (!rc && ++i < call->nsink);
	return rc;
}

static int map_reply(const struct rr_link *l, struct rr_call *call, const struct rr_plan *plan,
		     struct rr_header *h)
{
	call->write_chunk = plan->reply == RR_REPLY_WRITE_CHUNK;
	call->reply_chunk = plan->reply == RR_REPLY_CHUNK;
	if (call->write_chunk) {
		h->nwrites = 1;
		return map_sink(l, call, &h->writes[0]);
	}
	if (call->reply_chunk) {
		h->has_reply = true;
		h->reply.nseg = 1;
		return l->memreg->map(l, call, call->chunk->mem, call->chunk_room, FAB_REMOTE_WRITE,
				      &h->reply.seg[0]);
	}
	return 0;
}

bool rr_unsendable(int rc)
{
	return rc == -EINVAL || rc == -EMSGSIZE || rc == -EFAULT;
}

/* Chunks are counted for each sending, a WRITE's bytes for the first. (The target of a link
 * is no file data.) */
static void send_count(const struct rr_link *l, const struct rr_call *call,
		       const struct rr_plan *plan, uint32_t dlen)
{
	struct stats *st = l->conn->st;

	stat_add_to(&l->ps->tx_bytes, call->msg_len + (call->data_inline ? 0 : dlen));
	if (call->nmrs)
		stat_add_to(&l->ps->registrations, call->nmrs);
	if (l->memreg->windows)
		stat_add(st, STAT_RDMA_BINDINGS, call->nmrs);
	if (plan->call != RR_CALL_INLINE)
		stat_add(st, plan->call == RR_CALL_LONG ? STAT_RDMA_LONG_CALLS :
			 STAT_RDMA_READ_CHUNKS, 1);
	if (plan->reply != RR_REPLY_INLINE)
		stat_add(st, plan->reply == RR_REPLY_CHUNK ? STAT_RDMA_REPLY_CHUNKS :
			 STAT_RDMA_WRITE_CHUNKS, 1);
	if (call->nsend && !call->send_copied && !call->sends)
		stat_add(st, call->data_inline ? STAT_WRITE_INLINE_BYTES : STAT_WRITE_CHUNK_BYTES,
			 dlen);
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

/* A message that has file data inside lies in a data buffer. */
static uint32_t lkey_of(const struct rr_link *l, const struct arena_buf *msg)
{
	return msg->cls == ARENA_MSG ? l->local.lkey :
				       rr_data_mr(l, msg->mem, (uint32_t)msg->size)->lkey;
}

static int try_send(struct rr_link *l, struct rr_call *call)
{
	struct rr_conn *c = l->conn;
	uint32_t dlen = call->data_len;
	struct rr_plan plan;
	struct rr_header h;
	struct fab_sge sge;
	int hlen, rc;

	rr_withdraw_data(call);
	if (call->renew)
		call->renew(call);
	/* What is not sent after all has offered nothing. */
	call->write_chunk = call->reply_chunk = false;
	call->chunk_room = 0;
	rc = rr_plan(&plan, &(struct rr_plan_in){
		.send_limit = l->send_limit,
		.recv_limit = l->recv_limit,
		.msg_len = call->msg_len,
		.data_len = dlen,
		.nsend = call->send_copied ? 1 : call->nsend,
		.data_short = call->send_copied,
		.sink_len = call->sink_len,
		.nsink = call->nsink,
		.reply_max = call->reply_max,
	});
	rr_header_init(&h, call->xid, c->cfg.credits);
	if (!rc)
		rc = take_chunk(c, call, &plan);
	if (!rc && plan.call == RR_CALL_INLINE && dlen)
		rc = insert_data(call);
	if (!rc)
		rc = map_call(l, call, &plan, &h);
	if (!rc)
		rc = map_reply(l, call, &plan, &h);
	if (rc)
		return rc;
	l->mapped |= call->nmrs > 0;

	hlen = rr_header_before(&h, msg_at(call), RR_HDR_ROOM);
	if (hlen < 0)
		return hlen;
	sge = (struct fab_sge){
		.mem = msg_at(call) - hlen,
		.len = (uint32_t)hlen + (plan.call == RR_CALL_LONG ? 0 : call->msg_len),
		.lkey = lkey_of(l, call->msg),
	};
	call->sent = l->silent;
	call->replied = false;
	rc = l->fabric->post_send(l->fab, &sge, 1, l->silent ? NULL : call);
	if (!rc)
		send_count(l, call, &plan, dlen);
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
