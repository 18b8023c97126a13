/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From a client's message to a record for the server. The record is built in place, in one
 * pass over the message:
 *
 *     inline    | xid ... WRITE args | rest |         Read list: pos, segments
 *     record    | xid ... WRITE args | DATA DATA DATA | pad | rest |
 *                                    ^ pos: RDMA Read straight into here
 *
 * In a Long Call (RDMA_NOMSG) the message itself is in the client's memory: the segments at
 * position zero.
 */
#include <errno.h>
#include <string.h>
#include "gateway/gateway.h"

enum { CALL = 0 };
/* xid, direction, rpcvers, prog, vers, proc */
#define CALL_WORDS 6u

/* The message without the parts in chunks: inline bytes, or remote segments. */
struct source {
	const char *inl;
	uint32_t left;          /* bytes, either way */
	uint32_t seg, off;      /* remote: where in the Read list we are */
};

static int read_into(struct gw_call *k, uint32_t at, uint32_t len, uint32_t handle, uint64_t from)
{
	struct gw_pair *p = k->pair;
	struct fab_sge sge = { k->call->mem + GW_MARK + at, len, k->call->mr.lkey };
	int rc;

	if (!len)
		return 0;
	rc = p->fab->post_read(p->conn, &sge, handle, from, k);
	if (!rc) {
		k->reads_left++;
		pair_posted(p);
	}
	return rc;
}

/* Bytes that the record's buffer still has. */
static size_t room(const struct gw_call *k)
{
	return k->call->size - GW_MARK - k->call_len;
}

/* Moves the next n bytes of the source to the record. */
static int take(struct gw_call *k, struct source *s, uint32_t n)
{
	int rc = 0;

	if (n > s->left || n > room(k))
		return -EBADMSG;
	s->left -= n;
	if (s->inl) {
		memcpy(k->call->mem + GW_MARK + k->call_len, s->inl, n);
		s->inl += n;
		k->call_len += n;
		return 0;
	}
	while (n && !rc) {
		const struct rr_seg *seg = &k->h.reads[s->seg].seg;
		uint32_t part = seg->length - s->off < n ? seg->length - s->off : n;

		rc = read_into(k, k->call_len, part, seg->handle, seg->offset + s->off);
		k->call_len += part;
		s->off += part;
		n -= part;
		if (s->off == seg->length) {
			s->seg++;
			s->off = 0;
		}
	}
	return rc;
}

/* Reads all segments with the position of the i-th; moves i behind them. */
static int take_chunk(struct gw_call *k, uint32_t *i)
{
	uint32_t position = k->h.reads[*i].position, start = k->call_len;
	int rc = 0;

	for (; *i < k->h.nreads && k->h.reads[*i].position == position && !rc; (*i)++) {
		const struct rr_seg *seg = &k->h.reads[*i].seg;

		if (seg->length > room(k))
			return -EMSGSIZE;
		rc = read_into(k, k->call_len, seg->length, seg->handle, seg->offset);
		k->call_len += seg->length;
	}
	/* The chunk may or may not have the item's pad. */
	while ((k->call_len - start) % 4 && !rc) {
		if (!room(k))
			return -EMSGSIZE;
		k->call->mem[GW_MARK + k->call_len++] = 0;
	}
	return rc;
}

static int build(struct gw_call *k, const char *msg, uint32_t len)
{
	struct source s = { .inl = msg, .left = len };
	uint32_t i = 0;
	int rc = 0;

	if (k->h.proc == RR_NOMSG) {
		uint64_t total = 0;

		for (; i < k->h.nreads && k->h.reads[i].position == 0; i++)
			total += k->h.reads[i].seg.length;
		if (!i || total > GW_MSG_MAX)
			return -EBADMSG;
		s = (struct source){ .left = (uint32_t)total };
	}
	while (i < k->h.nreads && !rc) {
		uint32_t at = k->h.reads[i].position;

		if (at < k->call_len || at % 4)
			return -EBADMSG;
		rc = take(k, &s, at - k->call_len);
		if (!rc)
			rc = take_chunk(k, &i);
	}
	return rc ? rc : take(k, &s, s.left);
}

/* Passes the call to the server, unless the cache knows it. */
static void pass(struct gw_call *k)
{
	k->held = false;
	if (!drc_take(k))
		tcp_send(k);
}

static void on_late(struct loop_timer *t)
{
	pass(container_of(t, struct gw_call, delay));
}

/* A fault: an earlier call with this XID that was held back goes first. */
static void pass_late(struct gateway *gw, uint32_t xid)
{
	list_for_each(n, &gw->pairs) {
		list_for_each(m, &container_of(n, struct gw_pair, node)->calls) {
			struct gw_call *k = container_of(m, struct gw_call, node);

			if (!k->held || k->xid != xid)
				continue;
			loop_timer_clear(&k->delay);
			pass(k);
			return;
		}
	}
}

/* A fault: the server gets the call some time later, even if its client is gone by then. */
static bool hold(struct gw_call *k)
{
	struct gateway *gw = k->pair->gw;
	unsigned long ms;

	if (!gw_fault_wanted(&gw->faults, FAULT_LATE))
		return false;
	pass_late(gw, k->xid);
	if (!gw_fault(&gw->faults, FAULT_LATE, k->number, &ms))
		return false;
	k->late = k->held = true;
	loop_timer_init(&k->delay, on_late);
	loop_timer_set(gw->loop, &k->delay, (unsigned)ms);
	return true;
}

/* Refuses a call that was not passed on, so it was not executed. */
static void refuse(struct gw_call *k)
{
	k->answered = true;
	reply_error(k->pair, k, k->h.xid, RR_ERR_CHUNK);
	pair_call_done(k);
}

/* The record is complete. */
static void pass_on(struct gw_call *k)
{
	const char *m = k->call->mem + GW_MARK;
	struct gw_pair *p = k->pair;

	if (k->call_len < CALL_WORDS * 4 || gw_word(m) != k->h.xid) {
		refuse(k);
		return;
	}
	k->xid = k->h.xid;
	k->prog = gw_word(m + 12);
	k->vers = gw_word(m + 16);
	k->proc = gw_word(m + 20);
	if (gw_word(m + 4) != CALL || !args_reads_ok(k)) {
		refuse(k);
		return;
	}
	log_debug("connection %u: call %lu, XID %08x, program %u version %u procedure %u, %u bytes",
		  p->id, k->number, k->xid, k->prog, k->vers, k->proc, k->call_len);
	if (!hold(k))
		pass(k);
}

void call_read_done(struct gw_call *k)
{
	if (--k->reads_left || k->pair->ended)
		return;
	if (k->answered)        /* refused after some reads had been posted */
		pair_call_done(k);
	else
		pass_on(k);
}

/* ---- arrival ---- */

static void start(struct gw_call *k, const char *msg, uint32_t len)
{
	struct gw_pair *p = k->pair;
	int rc;

	k->call = pair_buf(p, k->call_size);
	if (!k->call) {
		pair_end(p, "no buffer: the client has more calls open than it was granted");
		return;
	}
	/* One more than are posted, so that no completion passes the call on before all
	 * are posted. */
	k->reads_left = 1;
	rc = build(k, msg, len);
	if (rc == -EBADMSG || rc == -EMSGSIZE) {
		/* Reads that were posted still complete, so the call stays until then. */
		k->answered = true;
		k->reads_left--;
		reply_error(p, k, k->h.xid, RR_ERR_CHUNK);
		pair_call_done(k);
	} else if (rc) {
		pair_end(p, strerror(-rc));
	} else {
		call_read_done(k);
	}
}

/* A fault: the message waits in the call's buffer until its time. */
struct stalled {
	uint32_t len;
	char msg[GW_INLINE];
};

static void on_stalled(struct loop_timer *t)
{
	struct gw_call *k = container_of(t, struct gw_call, delay);
	struct stalled s;

	memcpy(&s, k->call->mem, sizeof(s));
	pair_buf_put(k->pair, k->call);
	k->call = NULL;
	start(k, s.msg, s.len);
}

static bool stall(struct gw_call *k, const char *msg, uint32_t len)
{
	struct stalled s = { .len = len };
	unsigned long ms;

	if (!k->h.nreads || !gw_fault(&k->pair->gw->faults, FAULT_STALL_READ, k->number, &ms))
		return false;
	k->call = pair_buf(k->pair, k->call_size);
	if (!k->call)
		return false;
	memcpy(s.msg, msg, len);
	memcpy(k->call->mem, &s, sizeof(s));
	loop_timer_init(&k->delay, on_stalled);
	loop_timer_set(k->pair->gw->loop, &k->delay, (unsigned)ms);
	return true;
}

/* The call has its memory. */
static void begin(struct gw_call *k, const char *msg, uint32_t len)
{
	struct gw_pair *p = k->pair;

	scribble_call(k);
	if (p->ended)
		return;
	if (!stall(k, msg, len))
		start(k, msg, len);
}

void call_resume(struct gw_call *k)
{
	struct gw_pair *p = k->pair;
	struct gw_slot *slot = k->slot;

	k->slot = NULL;
	begin(k, slot->mem + k->msg_at, k->msg_len);
	pair_recv_again(p, slot);
}

/* true: the message must stay where it is. */
static bool received(struct gw_pair *p, struct gw_slot *slot, uint32_t len)
{
	const char *msg = slot->mem;
	struct gw_call *k;
	int hdr;

	if (back_answered(p, msg, len))
		return false;
	k = pair_call(p);
	if (!k)
		return false;
	hdr = rr_header_decode(&k->h, msg, len);
	if (hdr < 0 || (k->h.proc != RR_MSG && k->h.proc != RR_NOMSG)) {
		k->answered = true;
		/* A peer that sends errors, or not even an XID, gets no answer. */
		if (hdr > 0 && k->h.proc == RR_ERROR)
			back_refused(p, k->h.xid, k->h.credit);
		else if (hdr == -EPROTONOSUPPORT)
			reply_error(p, k, k->h.xid, RR_ERR_VERS);
		else if (len >= RR_HDR_MIN)
			reply_error(p, k, gw_word(msg), RR_ERR_CHUNK);
		pair_call_done(k);
		return false;
	}
	if (gw_fault(&p->gw->faults, FAULT_DROP_BEFORE, k->number, NULL)) {
		pair_end(p, "fault drop-before");
		return false;
	}
	if (!memory_size_call(k, len - (uint32_t)hdr)) {
		refuse(k);
		return false;
	}
	/* Calls that wait already go first. */
	if (list_empty(&p->gw->memory.waiting) && memory_take_call(k)) {
		begin(k, msg + hdr, len - (uint32_t)hdr);
		return false;
	}
	k->slot = slot;
	k->msg_at = (uint32_t)hdr;
	k->msg_len = len - (uint32_t)hdr;
	memory_wait(k);
	return true;
}

void call_received(struct gw_pair *p, struct gw_slot *slot, uint32_t len)
{
	if (!received(p, slot, len))
		pair_recv_again(p, slot);
}
