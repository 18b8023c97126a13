/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Codec of the transport header. Both directions go through a cursor that knows its end. What
 * is missing, or has no room, sets `bad`. So the code below reads like the format, and `bad`
 * is checked once at the end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "rpcrdma/header.h"

struct cursor {
	uint8_t *p, *end;
	bool bad;
};

/* The next n bytes; NULL: there are fewer. */
static inline uint8_t *take(struct cursor *c, size_t n)
{
	uint8_t *at = c->p;

	if ((size_t)(c->end - at) < n) {
		c->bad = true;
		return NULL;
	}
	c->p = at + n;
	return at;
}

static inline void set32(uint8_t *at, uint32_t v)
{
	v = htonl(v);
	memcpy(at, &v, 4);
}

static inline uint32_t at32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, 4);
	return ntohl(v);
}

static inline void put32(struct cursor *c, uint32_t v)
{
	uint8_t *at = take(c, 4);

	if (at)
		set32(at, v);
}

static inline uint32_t get32(struct cursor *c)
{
	const uint8_t *at = take(c, 4);

	return at ? at32(at) : 0;
}

/* The discriminator of optional data. Only 0 and 1 are XDR booleans. */
static bool get_bool(struct cursor *c)
{
	uint32_t v = get32(c);

	if (v > 1)
		c->bad = true;
	return v == 1 && !c->bad;
}

static inline void put_seg(struct cursor *c, const struct rr_seg *s)
{
	uint8_t *at = take(c, RR_SEG_BYTES);

	if (!at)
		return;
	set32(at, s->handle);
	set32(at + 4, s->length);
	set32(at + 8, (uint32_t)(s->offset >> 32));
	set32(at + 12, (uint32_t)s->offset);
}

static inline void get_seg(struct cursor *c, struct rr_seg *s)
{
	const uint8_t *at = take(c, RR_SEG_BYTES);

	if (!at)
		return;
	s->handle = at32(at);
	s->length = at32(at + 4);
	s->offset = (uint64_t)at32(at + 8) << 32 | at32(at + 12);
}

static void put_chunk(struct cursor *c, const struct rr_chunk *ch)
{
	put32(c, ch->nseg);
	for (uint32_t i = 0; i < ch->nseg; i++)
		put_seg(c, &ch->seg[i]);
}

static void get_chunk(struct cursor *c, struct rr_chunk *ch)
{
	uint32_t n = get32(c);

	ch->nseg = 0;
	if (n > RR_SEGS_MAX)
		c->bad = true;
	for (uint32_t i = 0; i < n && !c->bad; i++)
		get_seg(c, &ch->seg[ch->nseg++]);
}

void rr_header_init(struct rr_header *h, uint32_t xid, uint32_t credit)
{
	h->xid = xid;
	h->vers = RR_VERSION;
	h->credit = credit;
	h->proc = RR_MSG;
	h->nreads = 0;
	h->nwrites = 0;
	h->has_reply = false;
	h->reply.nseg = 0;
	h->err = 0;
	h->vers_low = h->vers_high = 0;
}

size_t rr_header_size(const struct rr_header *h)
{
	size_t n = 16;

	if (h->proc == RR_ERROR)
		return n + 4 + (h->err == RR_ERR_VERS ? 8 : 0);
	n += 4 + (size_t)RR_READ_SEG_BYTES * h->nreads;
	n += 4;
	for (uint32_t i = 0; i < h->nwrites; i++)
		n += 8 + (size_t)RR_SEG_BYTES * h->writes[i].nseg;
	n += 4;
	if (h->has_reply)
		n += 4 + (size_t)RR_SEG_BYTES * h->reply.nseg;
	return n;
}

static bool counts_ok(const struct rr_header *h)
{
	if (h->nreads > RR_READS_MAX || h->nwrites > RR_WRITES_MAX)
		return false;
	for (uint32_t i = 0; i < h->nwrites; i++)
		if (h->writes[i].nseg > RR_SEGS_MAX)
			return false;
	return !h->has_reply || h->reply.nseg <= RR_SEGS_MAX;
}

static void put_lists(struct cursor *c, const struct rr_header *h)
{
	for (uint32_t i = 0; i < h->nreads; i++) {
		put32(c, 1);
		put32(c, h->reads[i].position);
		put_seg(c, &h->reads[i].seg);
	}
	put32(c, 0);
	for (uint32_t i = 0; i < h->nwrites; i++) {
		put32(c, 1);
		put_chunk(c, &h->writes[i]);
	}
	put32(c, 0);
	put32(c, h->has_reply);
	if (h->has_reply)
		put_chunk(c, &h->reply);
}

static void get_lists(struct cursor *c, struct rr_header *h)
{
	while (get_bool(c)) {
		if (h->nreads == RR_READS_MAX) {
			c->bad = true;
			return;
		}
		h->reads[h->nreads].position = get32(c);
		get_seg(c, &h->reads[h->nreads].seg);
		h->nreads++;
	}
	while (get_bool(c)) {
		if (h->nwrites == RR_WRITES_MAX) {
			c->bad = true;
			return;
		}
		get_chunk(c, &h->writes[h->nwrites++]);
	}
	h->has_reply = get_bool(c);
	if (h->has_reply)
		get_chunk(c, &h->reply);
}

int rr_header_encode(const struct rr_header *h, void *buf, size_t cap)
{
	struct cursor c = { .p = buf, .end = (uint8_t *)buf + cap };
	uint8_t *at;

	if (!counts_ok(h))
		return -EINVAL;
	at = take(&c, RR_HDR_FIXED);
	if (!at)
		return -EMSGSIZE;
	set32(at, h->xid);
	set32(at + 4, h->vers);
	set32(at + 8, h->credit);
	set32(at + 12, h->proc);
	if (h->proc == RR_ERROR) {
		put32(&c, h->err);
		if (h->err == RR_ERR_VERS) {
			put32(&c, h->vers_low);
			put32(&c, h->vers_high);
		}
	} else {
		put_lists(&c, h);
	}
	return c.bad ? -EMSGSIZE : (int)(c.p - (uint8_t *)buf);
}

int rr_header_decode(struct rr_header *h, const void *buf, size_t len)
{
	/* The encoder uses the same cursor; a decoder writes nothing through it. */
	struct cursor c = { .p = (uint8_t *)(uintptr_t)buf };

	const uint8_t *at;

	c.end = c.p + len;
	rr_header_init(h, 0, 0);
	at = take(&c, RR_HDR_FIXED);
	/* What there is of it may name the call. */
	h->xid = len >= 4 ? at32(buf) : 0;
	if (!at)
		return -EBADMSG;
	h->vers = at32(at + 4);
	h->credit = at32(at + 8);
	h->proc = at32(at + 12);
	/* The version defines what follows. Only ERR_VERS is the same in all versions,
	 * because a peer of another version uses it to say so. */
	if (h->vers != RR_VERSION && h->proc != RR_ERROR)
		return -EPROTONOSUPPORT;
	switch (h->proc) {
	case RR_MSG:
	case RR_NOMSG:
		get_lists(&c, h);
		break;
	case RR_ERROR:
		h->err = get32(&c);
		if (h->err == RR_ERR_VERS) {
			h->vers_low = get32(&c);
			h->vers_high = get32(&c);
		} else if (h->err != RR_ERR_CHUNK) {
			c.bad = true;
		}
		break;
	default:
		return -EBADMSG;
	}
	return c.bad ? -EBADMSG : (int)(c.p - (const uint8_t *)buf);
}

uint64_t rr_chunk_len(const struct rr_chunk *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->nseg; i++)
		n += c->seg[i].length;
	return n;
}
