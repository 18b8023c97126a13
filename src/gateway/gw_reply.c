/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From a server's record to a message for the client.
 *
 *     record    | xid ... READ result, length | DATA DATA | pad | rest |
 *     sent      | header, Write list | xid ... length | rest |
 *
 * Items for which the call has Write chunks are RDMA-Written there, the first item to the
 * first chunk and so on, and taken out of the message. A chunk of length zero leaves its
 * item where it is (RFC 8166, section 4.4.6.2). An item without bytes has its chunk, too. Chunks
 * that are left over, or behind an operation that has failed, come back with lengths of zero. The
 * rest goes inline, or into the Reply chunk if it is too long.
 */
#include <errno.h>
#include <string.h>
#include "gateway/gateway.h"

enum { CALL = 0, REPLY = 1 };

/* The record without the items, in pieces. */
struct reduced {
	struct { uint32_t at, len; } piece[GW_ITEMS_MAX + 1];
	unsigned n;
	uint32_t len;
};

/* Where in a chunk the next byte goes. */
struct chunk_pos {
	uint32_t seg, off;
};

uint32_t reply_granted(const struct gateway *gw)
{
	return gw->faults.granting ? gw->faults.grant : gw->credits;
}

void reply_error(struct gw_pair *p, struct gw_call *k, uint32_t xid, uint32_t err)
{
	struct rr_header h;
	char msg[64];
	int n;

	rr_header_init(&h, xid, reply_granted(p->gw));
	h.proc = RR_ERROR;
	h.err = err;
	h.vers_low = h.vers_high = RR_VERSION;
	n = rr_header_encode(&h, msg, sizeof(msg));
	log_info("connection %u: XID %08x answered with %s", p->id, xid,
		 err == RR_ERR_VERS ? "ERR_VERS" : "ERR_CHUNK");
	if (n > 0)
		pair_send(p, k, msg, (size_t)n, false, 0);
}

/* ---- writing ---- */

/* Writes len bytes of the record to the chunk, which has room for them. */
static int write_chunk(struct gw_call *k, const struct rr_chunk *to, struct chunk_pos *pos,
		       uint32_t at, uint32_t len)
{
	struct gw_pair *p = k->pair;

	while (len) {
		const struct rr_seg *seg = &to->seg[pos->seg];
		uint32_t room = seg->length - pos->off, part = room < len ? room : len;
		struct fab_sge sge = { k->reply->mem + GW_MARK + at, part, k->reply->mr.lkey };
		int rc = part ? p->fab->post_write(p->conn, &sge, 1, seg->handle,
						   seg->offset + pos->off, k) : 0;

		if (rc)
			return rc;
		if (part) {
			k->sends_left++;
			pair_posted(p);
		}
		at += part;
		len -= part;
		pos->off += part;
		if (pos->off == seg->length) {
			pos->seg++;
			pos->off = 0;
		}
	}
	return 0;
}

/* Sets the lengths of a returned chunk to what was written. */
static void set_written(struct rr_chunk *c, uint32_t len)
{
	for (uint32_t i = 0; i < c->nseg; i++) {
		if (c->seg[i].length > len)
			c->seg[i].length = len;
		len -= c->seg[i].length;
	}
}

/* Writes the items and fills `out`. 0 or -errno; -EMSGSIZE: a chunk is too small. */
static int place(struct gw_call *k, struct rr_header *h, struct reduced *out)
{
	struct gw_item items[GW_ITEMS_MAX];
	unsigned n = gw_items(k, k->reply->mem + GW_MARK, k->reply_len, items);
	uint32_t from = 0;
	int rc;

	h->nwrites = k->h.nwrites;
	memcpy(h->writes, k->h.writes, sizeof(h->writes[0]) * h->nwrites);
	for (unsigned i = 0; i < h->nwrites; i++) {
		struct chunk_pos pos = { 0, 0 };
		uint32_t len = i < n ? items[i].len : 0;

		/* A chunk of length zero means that its item is wanted inline. */
		if (!rr_chunk_len(&h->writes[i]))
			continue;
		if (len > rr_chunk_len(&h->writes[i]))
			return -EMSGSIZE;
		if (len) {
			rc = write_chunk(k, &h->writes[i], &pos, items[i].pos, len);
			if (rc)
				return rc;
			out->piece[out->n].at = from;
			out->piece[out->n++].len = items[i].pos - from;
			from = items[i].pos + len + (-len & 3u);
		}
		set_written(&h->writes[i], len);
	}
	if (from > k->reply_len)
		from = k->reply_len;    /* the record ends without the last pad */
	out->piece[out->n].at = from;
	out->piece[out->n++].len = k->reply_len - from;
	for (unsigned i = 0; i < out->n; i++)
		out->len += out->piece[i].len;
	return 0;
}

static int write_reply_chunk(struct gw_call *k, struct rr_header *h, const struct reduced *r)
{
	struct chunk_pos pos = { 0, 0 };
	uint32_t left = r->len;
	int rc = 0;

	if (!k->h.has_reply || left > rr_chunk_len(&k->h.reply))
		return -EMSGSIZE;
	if (gw_fault(&k->pair->gw->faults, FAULT_SHORT_REPLY, k->number, NULL))
		left = left / 2 & ~3u;
	h->proc = RR_NOMSG;
	h->has_reply = true;
	h->reply = k->h.reply;
	set_written(&h->reply, left);
	for (unsigned i = 0; i < r->n && !rc; i++) {
		uint32_t part = r->piece[i].len < left ? r->piece[i].len : left;

		rc = write_chunk(k, &k->h.reply, &pos, r->piece[i].at, part);
		left -= part;
	}
	return rc;
}

/* ---- sending ---- */

/* Finds a handle of the call that the Send may invalidate. false: there is none. */
static bool to_invalidate(const struct gw_call *k, uint32_t *handle)
{
	if (!k->pair->remote_inval)
		return false;
	if (k->h.has_reply && k->h.reply.nseg)
		*handle = k->h.reply.seg[0].handle;
	else if (k->h.nwrites && k->h.writes[0].nseg)
		*handle = k->h.writes[0].seg[0].handle;
	else if (k->h.nreads)
		*handle = k->h.reads[0].seg.handle;
	else
		return false;
	return true;
}

static void send_message(struct gw_call *k, struct rr_header *h, const struct reduced *r)
{
	struct gw_faults *f = &k->pair->gw->faults;
	struct gw_pair *p = k->pair;
	char msg[GW_INLINE];
	int n = rr_header_encode(h, msg, sizeof(msg));
	uint32_t handle = 0;
	unsigned long cut;
	bool inval;
	size_t len;

	if (n < 0) {
		pair_end(p, "a reply's header does not fit");
		return;
	}
	len = (size_t)n;
	if (h->proc == RR_MSG)
		for (unsigned i = 0; i < r->n; i++) {
			memcpy(msg + len, k->reply->mem + GW_MARK + r->piece[i].at, r->piece[i].len);
			len += r->piece[i].len;
		}
	if (gw_fault(f, FAULT_TRUNCATE, k->number, &cut) && cut < len)
		len = cut;
	if (len >= RR_HDR_MIN && gw_fault(f, FAULT_WRONG_XID, k->number, NULL)) {
		msg[3] ^= 1;
		pair_send(p, k, msg, len, false, 0);
		msg[3] ^= 1;
	}
	inval = to_invalidate(k, &handle);
	if (gw_fault(f, FAULT_INVAL_WRONG, k->number, NULL)) {
		handle ^= 0xff00u;
		inval = true;
	}
	pair_send(p, k, msg, len, inval, handle);
	if (gw_fault(f, FAULT_DUP_REPLY, k->number, NULL))
		pair_send(p, k, msg, len, false, 0);
}

static void answer(struct gw_call *k)
{
	struct gw_faults *f = &k->pair->gw->faults;
	struct gw_pair *p = k->pair;
	struct reduced r = { .n = 0 };
	struct rr_header h;
	unsigned long v;
	uint32_t err = 0;
	int rc;

	if (gw_fault(f, FAULT_CREDITS, k->number, &v)) {
		f->granting = true;
		f->grant = (uint32_t)v;
	}
	k->answered = true;
	if (gw_fault(f, FAULT_ERR_CHUNK, k->number, NULL))
		err = RR_ERR_CHUNK;
	else if (gw_fault(f, FAULT_ERR_VERS, k->number, NULL))
		err = RR_ERR_VERS;
	if (err) {
		reply_error(p, k, k->xid, err);
		if (!p->ended)
			pair_call_done(k);
		return;
	}
	rr_header_init(&h, k->xid, reply_granted(p->gw));
	rc = place(k, &h, &r);
	if (!rc && rr_header_size(&h) + r.len > p->inline_max)
		rc = write_reply_chunk(k, &h, &r);
	if (!rc)
		send_message(k, &h, &r);
	else if (rc == -EMSGSIZE)
		reply_error(p, k, k->xid, RR_ERR_CHUNK);
	else
		pair_end(p, strerror(-rc));
	if (!p->ended)
		pair_call_done(k);
}

void reply_repeat(struct gw_call *k, const char *record, uint32_t len)
{
	struct gw_pair *p = k->pair;

	if (p->ended) {         /* it came after its repetition */
		k->answered = true;
		pair_call_done(k);
		pair_linger_check(p);
		return;
	}
	k->reply = pair_buf(p, gw_buf_size(len));
	if (!k->reply) {
		pair_end(p, "no buffer for a repeated reply");
		return;
	}
	memcpy(k->reply->mem + GW_MARK, record, len);
	k->reply_len = len;
	answer(k);
}

static void on_delayed(struct loop_timer *t)
{
	answer(container_of(t, struct gw_call, delay));
}

/* ---- arrival ---- */

static struct gw_call *call_of(struct gw_pair *p, uint32_t xid)
{
	list_for_each(n, &p->calls) {
		struct gw_call *k = container_of(n, struct gw_call, node);

		if (k->passed && k->xid == xid && !k->answered && !k->reply)
			return k;
	}
	return NULL;
}

void reply_received(struct gw_pair *p, struct gw_buf *b, uint32_t len)
{
	const char *m = b->mem + GW_MARK;
	struct gw_call *k;
	unsigned long ms;

	if (len < 8 || gw_word(m + 4) == CALL) {
		if (len >= 8 && !p->ended)
			back_called(p, m, len);
		pair_buf_put(p, b);
		return;
	}
	k = call_of(p, gw_word(m));
	if (!k) {
		log_warn("connection %u: dropped a reply that no call waits for, XID %08x", p->id, gw_word(m));
		pair_buf_put(p, b);
		return;
	}
	k->reply = b;
	k->reply_len = len;
	if (b->size > k->reply_size) {
		tcp_close(p);
		pair_end(p, "the NFS server's reply is longer than its call can take");
		return;
	}
	drc_answered(k);
	if (p->ended) {
		k->answered = true;
		pair_call_done(k);
		pair_linger_check(p);
	} else if (gw_fault(&p->gw->faults, FAULT_DROP_AFTER, k->number, NULL)) {
		pair_end(p, "fault drop-after");
	} else if (gw_fault(&p->gw->faults, FAULT_DELAY, k->number, &ms)) {
		loop_timer_init(&k->delay, on_delayed);
		loop_timer_set(p->gw->loop, &k->delay, (unsigned)ms);
	} else {
		answer(k);
	}
}
