/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Codec of the transport header. Decoding goes through a cursor that knows its end. What is
 * missing sets `bad`. So the code below reads like the format, and `bad` is checked once at
 * the end. Encoding knows before how long the header is, and checks that once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "rpcrdma/header.h"

struct cursor {
	const uint8_t *p, *end;
	bool bad;
};

/* The next n bytes; NULL: there are fewer. */
static inline const uint8_t *take(struct cursor *c, size_t n)
{
	const uint8_t *at = c->p;

	if ((size_t)(c->end - at) < n) {
		c->bad = true;
		return NULL;
	}
	c->p = at + n;
	return at;
}

/* Writes a word; returns what follows it. */
static inline uint8_t *put32(uint8_t *at, uint32_t v)
{
	v = htonl(v);
	memcpy(at, &v, 4);
	return at + 4;
}

static inline uint32_t at32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, 4);
	return ntohl(v);
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

static inline uint8_t *put_seg(uint8_t *at, const struct rr_seg *s)
{
	at = put32(at, s->handle);
	at = put32(at, s->length);
	at = put32(at, (uint32_t)(s->offset >> 32));
	return put32(at, (uint32_t)s->offset);
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

static inline uint8_t *put_chunk(uint8_t *at, const struct rr_chunk *ch)
{
	at = put32(at, ch->nseg);
	for (uint32_t i = 0; i < ch->nseg; i++)
		at = put_seg(at, &ch->seg[i]);
	return at;
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

static inline void put_lists(uint8_t *at, const struct rr_header *h)
{
	for (uint32_t i = 0; i < h->nreads; i++) {
		at = put32(at, 1);
		at = put32(at, h->reads[i].position);
		at = put_seg(at, &h->reads[i].seg);
	}
	at = put32(at, 0);
	for (uint32_t i = 0; i < h->nwrites; i++)
		at = put_chunk(put32(at, 1), &h->writes[i]);
	at = put32(at, 0);
	at = put32(at, h->has_reply);
	if (h->has_reply)
		put_chunk(at, &h->reply);
}

/* There is room for rr_header_size(). */
static inline void put(const struct rr_header *h, uint8_t *at)
{
	at = put32(at, h->xid);
	at = put32(at, h->vers);
	at = put32(at, h->credit);
	at = put32(at, h->proc);
	if (h->proc != RR_ERROR) {
		put_lists(at, h);
		return;
	}
	at = put32(at, h->err);
	if (h->err == RR_ERR_VERS)
		put32(put32(at, h->vers_low), h->vers_high);
}

/* rr_header_size(), if that is right and there is room. */
static int checked_size(const struct rr_header *h, size_t room)
{
	size_t n;

	if (!counts_ok(h))
		return -EINVAL;
	n = rr_header_size(h);
	return n > room ? -EMSGSIZE : (int)n;
}

int rr_header_encode(const struct rr_header *h, void *buf, size_t cap)
{
	int n = checked_size(h, cap);

	if (n > 0)
		put(h, buf);
	return n;
}

int rr_header_before(const struct rr_header *h, void *end, size_t room)
{
	int n = checked_size(h, room);

	if (n > 0)
		put(h, (uint8_t *)end - n);
	return n;
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

int rr_header_decode(struct rr_header *h, const void *buf, size_t len)
{
	struct cursor c = { .p = buf };
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
