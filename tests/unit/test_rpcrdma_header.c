/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The transport header against words written out by hand from RFC 8166
 * section 4, and against everything that a peer could get wrong.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "rpcrdma/header.h"

static struct rr_header h;      /* large: not on the test's stack */

/* Words in host order -> wire; returns the length in bytes. */
static size_t wire(uint8_t *out, const uint32_t *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t v = htonl(w[i]);

		memcpy(out + 4 * i, &v, 4);
	}
	return 4 * n;
}
#define WIRE(out, ...) \
	wire(out, (const uint32_t[]){ __VA_ARGS__ }, \
	     sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4)

static void expect_wire(const uint8_t *want, size_t len)
{
	uint8_t got[1024];

	cr_assert_eq(rr_header_size(&h), len, "size %zu, not %zu", rr_header_size(&h), len);
	cr_assert_eq(rr_header_encode(&h, got, sizeof(got)), (int)len);
	cr_assert(memcmp(got, want, len) == 0);
	/* Any smaller buffer is refused, and not overrun. */
	for (size_t cap = 0; cap < len; cap++) {
		memset(got, 0xa5, sizeof(got));
		cr_assert_eq(rr_header_encode(&h, got, cap), -EMSGSIZE);
		cr_assert_eq(got[cap], 0xa5);
	}
}

Test(header, inline_call)
{
	uint8_t want[64];
	size_t n = WIRE(want, 0x12345678, 1, 64, 0, 0, 0, 0);

	rr_header_init(&h, 0x12345678, 64);
	expect_wire(want, n);
	cr_assert_eq(n, RR_HDR_MIN);
	cr_assert_eq(rr_header_decode(&h, want, n), (int)n);
	cr_assert(h.xid == 0x12345678 && h.credit == 64 && h.proc == RR_MSG);
	cr_assert(h.nreads == 0 && h.nwrites == 0 && !h.has_reply);
}

Test(header, read_with_write_chunk)
{
	uint8_t want[64];
	size_t n = WIRE(want, 7, 1, 64, 0, 0, 1, 1, 0xabcd, 65536, 0x7f00, 0x1000, 0, 0);

	rr_header_init(&h, 7, 64);
	h.nwrites = 1;
	h.writes[0].nseg = 1;
	h.writes[0].seg[0] = (struct rr_seg){ 0xabcd, 65536, 0x7f0000001000 };
	expect_wire(want, n);
	cr_assert_eq(rr_header_decode(&h, want, n), (int)n);
	cr_assert(h.nwrites == 1 && h.writes[0].nseg == 1);
	cr_assert(h.writes[0].seg[0].offset == 0x7f0000001000 && rr_chunk_len(&h.writes[0]) == 65536);
}

Test(header, write_with_read_chunk_of_two_segments)
{
	uint8_t want[128];
	size_t n = WIRE(want, 7, 1, 64, 0,
			1, 140, 0xab, 65456, 1, 2,
			1, 140, 0xac, 1000, 3, 4,
			0, 0, 0);

	rr_header_init(&h, 7, 64);
	h.nreads = 2;
	h.reads[0] = (struct rr_read_seg){ 140, { 0xab, 65456, 0x100000002 } };
	h.reads[1] = (struct rr_read_seg){ 140, { 0xac, 1000, 0x300000004 } };
	expect_wire(want, n);
	cr_assert_eq(rr_header_decode(&h, want, n), (int)n);
	cr_assert(h.nreads == 2 && h.reads[1].position == 140 && h.reads[1].seg.length == 1000);
}

Test(header, nomsg_with_reply_chunk)
{
	uint8_t want[64];
	size_t n = WIRE(want, 9, 1, 32, 1, 0, 0, 1, 1, 0xee, 4096, 0, 8);

	rr_header_init(&h, 9, 32);
	h.proc = RR_NOMSG;
	h.has_reply = true;
	h.reply.nseg = 1;
	h.reply.seg[0] = (struct rr_seg){ 0xee, 4096, 8 };
	expect_wire(want, n);
	cr_assert_eq(rr_header_decode(&h, want, n), (int)n);
	cr_assert(h.proc == RR_NOMSG && h.has_reply && h.reply.seg[0].length == 4096);
}

Test(header, errors)
{
	uint8_t buf[64];
	size_t n = WIRE(buf, 9, 1, 32, 4, 1, 1, 1);

	cr_assert_eq(rr_header_decode(&h, buf, n), 28);
	cr_assert(h.proc == RR_ERROR && h.err == RR_ERR_VERS && h.vers_high == 1);
	n = WIRE(buf, 9, 1, 32, 4, 2);
	cr_assert_eq(rr_header_decode(&h, buf, n), 20);
	cr_assert_eq(h.err, RR_ERR_CHUNK);
	n = WIRE(buf, 9, 1, 32, 4, 3);
	cr_assert_eq(rr_header_decode(&h, buf, n), -EBADMSG, "unknown error code");

	rr_header_init(&h, 9, 32);
	h.proc = RR_ERROR;
	h.err = RR_ERR_VERS;
	h.vers_low = h.vers_high = 1;
	n = WIRE(buf, 9, 1, 32, 4, 1, 1, 1);
	expect_wire(buf, n);
}

Test(header, other_versions)
{
	uint8_t buf[64];
	size_t n = WIRE(buf, 9, 2, 32, 0, 0, 0, 0);

	cr_assert_eq(rr_header_decode(&h, buf, n), -EPROTONOSUPPORT);
	cr_assert(h.xid == 9 && h.vers == 2 && h.credit == 32);
	/* A peer of version 2 that says so with ERR_VERS is understood. */
	n = WIRE(buf, 9, 2, 32, 4, 1, 2, 2);
	cr_assert_eq(rr_header_decode(&h, buf, n), 28);
	cr_assert(h.err == RR_ERR_VERS && h.vers_low == 2);
}

Test(header, unknown_procedures)
{
	uint8_t buf[64];

	for (uint32_t proc = 2; proc < 10; proc++) {
		size_t n = WIRE(buf, 9, 1, 32, proc, 0, 0, 0, 0, 0);

		if (proc != RR_ERROR)
			cr_assert_eq(rr_header_decode(&h, buf, n), -EBADMSG, "proc %u", proc);
	}
}

Test(header, bad_discriminators_and_counts)
{
	uint8_t buf[64];
	size_t n;

	n = WIRE(buf, 9, 1, 32, 0, 2, 0, 0);
	cr_assert_eq(rr_header_decode(&h, buf, n), -EBADMSG);
	n = WIRE(buf, 9, 1, 32, 0, 0, 0xffffffff, 0);
	cr_assert_eq(rr_header_decode(&h, buf, n), -EBADMSG);
	n = WIRE(buf, 9, 1, 32, 0, 0, 0, 3);
	cr_assert_eq(rr_header_decode(&h, buf, n), -EBADMSG);
	/* A segment count that only fits a much longer message, or none at all. */
	n = WIRE(buf, 9, 1, 32, 0, 0, 1, 0x10000000, 1, 2, 3, 4, 0, 0);
	cr_assert_eq(rr_header_decode(&h, buf, n), -EBADMSG);
	n = WIRE(buf, 9, 1, 32, 0, 0, 1, 0xffffffff, 1, 2, 3, 4, 0, 0);
	cr_assert_eq(rr_header_decode(&h, buf, n), -EBADMSG);
}

Test(header, more_than_the_limits)
{
	static uint8_t buf[8192];
	static uint32_t w[2048];
	size_t n = 0;

	/* One Read segment too many. */
	w[n++] = 9; w[n++] = 1; w[n++] = 1; w[n++] = 0;
	for (unsigned i = 0; i <= RR_READS_MAX; i++) {
		w[n++] = 1;
		n += 5;
	}
	n += 3;
	cr_assert_eq(rr_header_decode(&h, buf, wire(buf, w, n)), -EBADMSG);
	/* One Write chunk too many. */
	memset(w, 0, sizeof(w));
	n = 0;
	w[n++] = 9; w[n++] = 1; w[n++] = 1; w[n++] = 0; w[n++] = 0;
	for (unsigned i = 0; i <= RR_WRITES_MAX; i++) {
		w[n++] = 1;
		w[n++] = 0;
	}
	n += 2;
	cr_assert_eq(rr_header_decode(&h, buf, wire(buf, w, n)), -EBADMSG);
	/* And an encoder that is asked for them. */
	rr_header_init(&h, 1, 1);
	h.nreads = RR_READS_MAX + 1;
	cr_assert_eq(rr_header_encode(&h, buf, sizeof(buf)), -EINVAL);
	rr_header_init(&h, 1, 1);
	h.nwrites = 1;
	h.writes[0].nseg = RR_SEGS_MAX + 1;
	cr_assert_eq(rr_header_encode(&h, buf, sizeof(buf)), -EINVAL);
}

Test(header, cut_off_anywhere)
{
	uint8_t buf[256];
	size_t n = WIRE(buf, 7, 1, 64, 0,
			1, 140, 0xab, 65456, 1, 2, 0,
			1, 2, 0xab, 1, 0, 1, 0xab, 2, 0, 2, 0,
			1, 1, 0xee, 4096, 0, 8);

	cr_assert_eq(rr_header_decode(&h, buf, n), (int)n);
	for (size_t len = 0; len < n; len++) {
		/* A copy of just that size, so that a sanitizer sees any overrun. */
		uint8_t *cut = malloc(len ? len : 1);

		memcpy(cut, buf, len);
		cr_assert_eq(rr_header_decode(&h, cut, len), -EBADMSG, "at %zu", len);
		free(cut);
	}
}

Test(header, lengths_do_not_overflow)
{
	struct rr_chunk c = { .nseg = RR_SEGS_MAX };

	for (unsigned i = 0; i < RR_SEGS_MAX; i++)
		c.seg[i].length = UINT32_MAX;
	cr_assert_eq(rr_chunk_len(&c), (uint64_t)RR_SEGS_MAX * UINT32_MAX);
}
