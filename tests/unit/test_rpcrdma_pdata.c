/* SPDX-License-Identifier: GPL-2.0-or-later */
/* RFC 8797 private data. */
#include <criterion/criterion.h>
#include <string.h>
#include "rpcrdma/pdata.h"

/* What Linux 6.12 knfsd sends for 4096 both ways. */
static const uint8_t knfsd[8] = { 0xf6, 0xab, 0x0e, 0x18, 0x01, 0x00, 0x03, 0x03 };

Test(pdata, encode)
{
	struct rr_pdata p = { .send_size = 4096, .recv_size = 4096 };
	uint8_t out[RR_PDATA_BYTES];

	rr_pdata_encode(&p, out);
	cr_assert(memcmp(out, knfsd, 8) == 0);
	p.remote_inval = true;
	p.send_size = 262144;
	p.recv_size = 0;
	rr_pdata_encode(&p, out);
	cr_assert(out[5] == 1 && out[6] == 255 && out[7] == 0);
	p.send_size = 5000;             /* not a multiple: down */
	p.recv_size = UINT32_MAX;       /* too large: the largest */
	rr_pdata_encode(&p, out);
	cr_assert(out[6] == 3 && out[7] == 255);
}

static void expect_defaults(const struct rr_pdata *p)
{
	cr_assert(!p->present && !p->remote_inval);
	cr_assert(p->send_size == 1024 && p->recv_size == 1024);
}

Test(pdata, absent_is_default)
{
	static const uint8_t zero[256];
	struct rr_pdata p;

	rr_pdata_decode(&p, zero, sizeof(zero));
	expect_defaults(&p);
	rr_pdata_decode(&p, NULL, 0);
	expect_defaults(&p);
	for (size_t len = 0; len < 8; len++) {
		rr_pdata_decode(&p, knfsd, len);
		expect_defaults(&p);
	}
}

Test(pdata, found_at_any_offset)
{
	uint8_t buf[64];
	struct rr_pdata p;

	for (size_t at = 0; at + 8 <= sizeof(buf); at++) {
		memset(buf, 0xf6, sizeof(buf));         /* looks like a start everywhere */
		memcpy(buf + at, knfsd, 8);
		buf[at + 5] = 0xff;                     /* R, and bits that are not for us */
		buf[at + 6] = 0;
		buf[at + 7] = 255;
		rr_pdata_decode(&p, buf, sizeof(buf));
		cr_assert(p.present && p.remote_inval, "at %zu", at);
		cr_assert(p.send_size == 1024 && p.recv_size == 262144);
	}
}

Test(pdata, other_version_is_not_ours)
{
	uint8_t buf[16];
	struct rr_pdata p;

	memcpy(buf, knfsd, 8);
	buf[4] = 2;
	rr_pdata_decode(&p, buf, 8);
	expect_defaults(&p);
	/* The real one may come after bytes that only look like it. */
	memcpy(buf + 8, knfsd, 8);
	rr_pdata_decode(&p, buf, 16);
	cr_assert(p.present && p.send_size == 4096);
}
