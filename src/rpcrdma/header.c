/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Codec of the transport header. Encoding knows before how long the header is, and checks that
 * once. Decoding checks before each element that there are as many bytes as it takes, together
 * with the least that has to follow it: the discriminators of the lists that come then. So a
 * discriminator needs no check of its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "rpcrdma/header.h"

/* Three empty lists. */
#define LISTS_BYTES (RR_HDR_MIN - RR_HDR_FIXED)

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

static inline uint8_t *put_seg(uint8_t *at, const struct rr_seg *s)
{
	at = put32(at, s->handle);
	at = put32(at, s->length);
	at = put32(at, (uint32_t)(s->offset >> 32));
	return put32(at, (uint32_t)s->offset);
}

/* There are RR_SEG_BYTES. */
static inline void get_seg(const uint8_t *at, struct rr_seg *s)
{
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

/* A chunk of 4 bytes at least, and `after` bytes have to follow it. Returns what follows; NULL:
 * there is less, or there are too many segments. */
static const uint8_t *get_chunk(const uint8_t *at, const uint8_t *end, size_t after,
				struct rr_chunk *ch)
{
	uint32_t n = at32(at);

	at += 4;
	if (n > RR_SEGS_MAX || (size_t)(end - at) < n * RR_SEG_BYTES + after)
		return NULL;
	ch->nseg = n;
	for (uint32_t i = 0; i < n; i++, at += RR_SEG_BYTES)
		get_seg(at, &ch->seg[i]);
	return at;
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
	size_t n = RR_HDR_MIN + (size_t)RR_READ_SEG_BYTES * h->nreads;

	if (h->proc == RR_ERROR)
		return RR_HDR_FIXED + 4 + (h->err == RR_ERR_VERS ? 8 : 0);
	if (h->nreads > RR_READS_MAX || h->nwrites > RR_WRITES_MAX)
		return 0;
	for (uint32_t i = 0; i < h->nwrites; i++) {
		if (h->writes[i].nseg > RR_SEGS_MAX)
			return 0;
		n += 8 + (size_t)RR_SEG_BYTES * h->writes[i].nseg;
	}
	if (!h->has_reply)
		return n;
	return h->reply.nseg > RR_SEGS_MAX ? 0 : n + 4 + (size_t)RR_SEG_BYTES * h->reply.nseg;
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
static inline void header_put(const struct rr_header *h, uint8_t *at)
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
	size_t n = rr_header_size(h);

	if (!n)
		return -EINVAL;
	return n > room ? -EMSGSIZE : (int)n;
}

int rr_header_encode(const struct rr_header *h, void *buf, size_t cap)
{
	int n = checked_size(h, cap);

	if (n > 0)
		header_put(h, buf);
	return n;
}

int rr_header_before(const struct rr_header *h, void *end, size_t room)
{
	int n = checked_size(h, room);

	if (n > 0)
		header_put(h, (uint8_t *)end - n);
	return n;
}

/* Returns what follows the Read list; NULL: it is not right. Discriminators, here and below, are
 * XDR booleans, 0 or 1. */
static const uint8_t *get_reads(const uint8_t *at, const uint8_t *end, struct rr_header *h)
{
	uint32_t more;

	for (; (more = at32(at)) == 1; at += RR_READ_SEG_BYTES) {
		if (h->nreads == RR_READS_MAX || (size_t)(end - at) < RR_READ_SEG_BYTES + LISTS_BYTES)
			return NULL;
		h->reads[h->nreads].position = at32(at + 4);
		get_seg(at + 8, &h->reads[h->nreads++].seg);
	}
	return more ? NULL : at + 4;
}

static const uint8_t *get_writes(const uint8_t *at, const uint8_t *end, struct rr_header *h)
{
	uint32_t more;

	while ((more = at32(at)) == 1) {
		if (h->nwrites == RR_WRITES_MAX)
			return NULL;
		/* What had to follow the discriminator is the count, if not more. */
		at = get_chunk(at + 4, end, LISTS_BYTES - 4, &h->writes[h->nwrites]);
		if (!at)
			return NULL;
		h->nwrites++;
	}
	return more ? NULL : at + 4;
}

/* The three lists. `end - at` is at least LISTS_BYTES. */
static const uint8_t *get_lists(const uint8_t *at, const uint8_t *end, struct rr_header *h)
{
	uint32_t more;

	at = get_reads(at, end, h);
	if (at)
		at = get_writes(at, end, h);
	if (!at)
		return NULL;
	more = at32(at);
	at += 4;
	h->has_reply = more == 1;
	if (!more)
		return at;
	return more == 1 && end - at >= 4 ? get_chunk(at, end, 0, &h->reply) : NULL;
}

static const uint8_t *get_error(const uint8_t *at, const uint8_t *end, struct rr_header *h)
{
	if (end - at < 4)
		return NULL;
	h->err = at32(at);
	if (h->err == RR_ERR_CHUNK)
		return at + 4;
	if (h->err != RR_ERR_VERS || end - at < 12)
		return NULL;
	h->vers_low = at32(at + 4);
	h->vers_high = at32(at + 8);
	return at + 12;
}

int rr_header_decode(struct rr_header *h, const void *buf, size_t len)
{
	const uint8_t *at = buf, *end = at + len;

	rr_header_init(h, 0, 0);
	/* What there is of it may name the call. */
	h->xid = len >= 4 ? at32(at) : 0;
	if (len < RR_HDR_FIXED)
		return -EBADMSG;
	h->vers = at32(at + 4);
	h->credit = at32(at + 8);
	h->proc = at32(at + 12);
	at += RR_HDR_FIXED;
	/* The version defines what follows. Only ERR_VERS is the same in all versions,
	 * because a peer of another version uses it to say so. */
	if (h->vers != RR_VERSION && h->proc != RR_ERROR)
		return -EPROTONOSUPPORT;
	if (h->proc == RR_ERROR)
		at = get_error(at, end, h);
	else if ((h->proc == RR_MSG || h->proc == RR_NOMSG) && len >= RR_HDR_MIN)
		at = get_lists(at, end, h);
	else
		at = NULL;
	return at ? (int)(at - (const uint8_t *)buf) : -EBADMSG;
}

uint64_t rr_chunk_len(const struct rr_chunk *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->nseg; i++)
		n += c->seg[i].length;
	return n;
}
