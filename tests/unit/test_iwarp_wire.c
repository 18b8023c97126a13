/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iWARP: bytes of headers and MPA frames, rules of set-up, the table of STags. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/iwarp/ddp.h"
#include "fabric/iwarp/iwarp.h"
#include "fabric/iwarp/mpa.h"
#include "fabric/iwarp/stag.h"

TestSuite(iwarp_wire, .timeout = 300);

/* ---- DDP and RDMAP ---- */

Test(iwarp_wire, control_bytes)
{
	static const struct {
		enum rdmap_op op;
		bool tagged;
		uint8_t last[2];
	} cases[] = {
		{ RDMAP_WRITE, true, { 0xc1, 0x40 } },
		{ RDMAP_READ_REQ, false, { 0x41, 0x41 } },
		{ RDMAP_READ_RESP, true, { 0xc1, 0x42 } },
		{ RDMAP_SEND, false, { 0x41, 0x43 } },
		{ RDMAP_SEND_INV, false, { 0x41, 0x44 } },
		{ RDMAP_SEND_SE, false, { 0x41, 0x45 } },
		{ RDMAP_SEND_SE_INV, false, { 0x41, 0x46 } },
		{ RDMAP_TERMINATE, false, { 0x41, 0x47 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int last = 0; last < 2; last++) {
			struct ddp_hdr h = {
				.tagged = cases[i].tagged, .last = last, .op = cases[i].op,
				.payload = 100, .stag = 0x01020304,
			}, back;
			uint8_t buf[DDP_UNTAGGED_HDR];
			unsigned size;
			enum iw_error e;

			if (h.tagged)
				h.to = 0x1112131415161718;
			else
				h.qn = 0x21222324, h.msn = 0x31323334, h.mo = 0x41424344;
			size = ddp_encode(&h, buf);
			cr_expect_eq(size, h.tagged ? 16 : 20);
			cr_expect_eq(buf[2], cases[i].last[0] & (last ? 0xff : 0xbf));
			cr_expect_eq(buf[3], cases[i].last[1]);
			cr_expect_eq(get16(buf), size - 2 + 100);
			for (unsigned n = 0; n < size; n++)
				cr_expect_eq(ddp_decode(&back, buf, n, &e) + e, 0);
			cr_expect_eq(ddp_decode(&back, buf, size, &e), size);
			cr_expect_eq(back.op, h.op);
			cr_expect_eq(back.last, h.last);
			cr_expect_eq(back.payload, h.payload);
			cr_expect_eq(back.stag, h.stag);
			cr_expect_eq(back.to, h.to);
			cr_expect_eq(back.qn, h.qn);
			cr_expect_eq(back.msn, h.msn);
			cr_expect_eq(back.mo, h.mo);
		}
	}
}

Test(iwarp_wire, headers_byte_by_byte)
{
	static const uint8_t tagged[] = {
		0x00, 0x12, 0xc1, 0x40, 0x00, 0x00, 0x01, 0x02,
		0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x10, 0x00,
	};
	static const uint8_t untagged[] = {
		0x00, 0x16, 0x41, 0x44, 0x00, 0x00, 0x01, 0x02,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00,
	};
	static const uint8_t request[] = {
		0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x30,
		0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x03, 0x04,
		0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00,
	};
	uint8_t buf[DDP_READ_REQ];

	ddp_encode(&(struct ddp_hdr){
		.tagged = true, .last = true, .op = RDMAP_WRITE, .payload = 4, .stag = 0x102,
		.to = 0x100001000 }, buf);
	cr_expect_arr_eq(buf, tagged, sizeof(tagged));
	ddp_encode(&(struct ddp_hdr){
		.last = true, .op = RDMAP_SEND_INV, .payload = 4, .stag = 0x102, .msn = 1 }, buf);
	cr_expect_arr_eq(buf, untagged, sizeof(untagged));
	ddp_read_encode(&(struct ddp_read_req){
		.sink_stag = 0x102, .sink_to = 0x30, .len = 0x100000, .src_stag = 0x304,
		.src_to = 0x100000000 }, buf);
	cr_expect_arr_eq(buf, request, sizeof(request));
}

static enum iw_error decode(const uint8_t *buf)
{
	struct ddp_hdr h;
	enum iw_error e;

	ddp_decode(&h, buf, 4, &e);
	return e;
}

Test(iwarp_wire, impossible_headers)
{
	cr_expect_eq(decode((uint8_t[]){ 0, 13, 0xc1, 0x40 }), IW_E_LENGTH);
	cr_expect_eq(decode((uint8_t[]){ 0, 14, 0xc1, 0x40 }), IW_OK);
	cr_expect_eq(decode((uint8_t[]){ 0, 17, 0x41, 0x43 }), IW_E_LENGTH);
	cr_expect_eq(decode((uint8_t[]){ 0, 18, 0x41, 0x43 }), IW_OK);
	cr_expect_eq(decode((uint8_t[]){ 0, 20, 0xc0, 0x40 }), IW_E_TAGGED_VERSION);
	cr_expect_eq(decode((uint8_t[]){ 0, 20, 0x42, 0x43 }), IW_E_UNTAGGED_VERSION);
	cr_expect_eq(decode((uint8_t[]){ 0, 20, 0x41, 0x03 }), IW_E_RDMAP_VERSION);
	cr_expect_eq(decode((uint8_t[]){ 0, 20, 0x41, 0x83 }), IW_E_RDMAP_VERSION);
	cr_expect_eq(decode((uint8_t[]){ 0, 20, 0x41, 0x48 }), IW_E_OPCODE);
	cr_expect_eq(decode((uint8_t[]){ 0, 20, 0x41, 0x40 }), IW_E_OPCODE, "untagged Write");
	cr_expect_eq(decode((uint8_t[]){ 0, 20, 0xc1, 0x43 }), IW_E_OPCODE, "tagged Send");
	/* Reserved bits are not looked at. */
	cr_expect_eq(decode((uint8_t[]){ 0, 20, 0x7d, 0x73 }), IW_OK);
}

Test(iwarp_wire, every_error_has_words)
{
	for (int e = 1; e < IW_ERRORS; e++) {
		cr_expect_not_null(iw_errors[e].why, "%d", e);
		cr_expect_lt(iw_errors[e].err, 0, "%d", e);
		cr_expect_leq(iw_errors[e].where >> 4, 2, "%d", e);
	}
}

Test(iwarp_wire, padding)
{
	for (uint32_t n = 14; n < 60; n++) {
		cr_expect_eq((2 + n + ddp_pad(n)) % 4, 0);
		cr_expect_lt(ddp_pad(n), 4);
	}
}

Test(iwarp_wire, crc32c)
{
	static const uint8_t check[] = { 0x83, 0x92, 0x06, 0xe3 };     /* e3069283, swapped */
	/* RFC 3720 B.4: 32 bytes of zero, and of ones. */
	static const uint8_t zeros[] = { 0xaa, 0x36, 0x91, 0x8a };
	static const uint8_t ones[] = { 0x43, 0xab, 0xa8, 0x62 };
	uint8_t mem[32], out[4];

	ddp_crc_put(out, ddp_crc(ddp_crc(DDP_CRC_INIT, "12345", 5), "6789", 4));
	cr_expect_arr_eq(out, check, 4);
	memset(mem, 0, sizeof(mem));
	ddp_crc_put(out, ddp_crc(DDP_CRC_INIT, mem, sizeof(mem)));
	cr_expect_arr_eq(out, zeros, 4);
	memset(mem, 0xff, sizeof(mem));
	ddp_crc_put(out, ddp_crc(DDP_CRC_INIT, mem, sizeof(mem)));
	cr_expect_arr_eq(out, ones, 4);
}

/* ---- MPA ---- */

/* What knfsd over siw was seen to accept, and its answer. */
static const uint8_t nfs_request[32] =
	"MPA ID Req Frame\x10\x02\x00\x0c\x00\x10\x00\x00\xf6\xab\x0e\x18\x01\x00\x03\x03";
static const uint8_t nfs_reply[32] =
	"MPA ID Rep Frame\x10\x02\x00\x0c\x00\x00\x00\x10\xf6\xab\x0e\x18\x01\x00\x03\x03";

Test(iwarp_wire, mpa_request_golden)
{
	uint8_t buf[MPA_FRAME_MAX];
	struct mpa_frame f = {
		.rev = 2, .enhanced = true, .ird = 16,
		.priv = nfs_request + 24, .privlen = 8,
	};

	cr_assert_eq(mpa_encode(&f, buf), sizeof(nfs_request));
	cr_expect_arr_eq(buf, nfs_request, sizeof(nfs_request));
}

Test(iwarp_wire, mpa_reply_golden)
{
	const struct mpa_terms own = { .ird = 16 };
	struct mpa_terms t;
	struct mpa_frame f;
	const char *why = "";

	for (size_t n = 0; n < sizeof(nfs_reply); n++) {
		cr_expect_eq(mpa_size(nfs_reply, n, true, &why), n < 20 ? 20 : 32);
		cr_expect_eq(mpa_decode(&f, nfs_reply, n, true, &why), -EPROTO);
	}
	cr_assert_eq(mpa_decode(&f, nfs_reply, sizeof(nfs_reply), true, &why), 0, "%s", why);
	cr_expect(f.enhanced && !f.crc && !f.markers && !f.reject);
	cr_expect_eq(f.rev, 2);
	cr_expect_eq(f.ird, 0);
	cr_expect_eq(f.ord, 16);
	cr_expect_eq(f.privlen, 8);
	cr_expect_arr_eq(f.priv, nfs_request + 24, 8);
	cr_assert_eq(mpa_judge_reply(&f, &own, &t, &why), 0, "%s", why);
	cr_expect_eq(t.ird, 16);
	cr_expect_eq(t.ord, 0);
	cr_expect_not(t.crc);
}

Test(iwarp_wire, mpa_garbage_is_told_early)
{
	const char *why = NULL;

	cr_expect_eq(mpa_size((const uint8_t *)"MPA ID Req", 10, true, &why), -EPROTO);
	cr_expect_not_null(why);
	cr_expect_eq(mpa_size((const uint8_t *)"G", 1, false, &why), -EPROTO);
	cr_expect_eq(mpa_size((const uint8_t *)"M", 1, false, &why), 20);
}

Test(iwarp_wire, mpa_private_data_limit)
{
	uint8_t buf[MPA_FRAME_MAX];
	const char *why = NULL;

	memcpy(buf, nfs_reply, 20);
	put16(buf + 18, 256);
	cr_expect_eq(mpa_size(buf, 20, true, &why), 276);
	put16(buf + 18, 257);
	cr_expect_eq(mpa_size(buf, 20, true, &why), -EPROTO);
}

static int judge_request(uint8_t flags, uint8_t rev, unsigned pd, struct mpa_terms *t, bool crc)
{
	const struct mpa_terms own = { .ird = 16, .ord = 16, .crc = crc };
	uint8_t buf[MPA_FRAME_MAX];
	struct mpa_frame f;
	const char *why = NULL;
	int rc;

	memcpy(buf, nfs_request, sizeof(nfs_request));
	buf[16] = flags;
	buf[17] = rev;
	put16(buf + 18, pd);
	rc = mpa_decode(&f, buf, 20 + pd, false, &why);
	if (!rc)
		rc = mpa_judge_request(&f, &own, t, &why);
	cr_expect_eq(!rc, !why, "every refusal has its reason");
	return rc;
}

Test(iwarp_wire, mpa_request_rules)
{
	struct mpa_terms t;

	cr_expect_eq(judge_request(0x10, 2, 12, &t, false), 0);
	cr_expect_eq(t.ird, 0, "the client will not read");
	cr_expect_eq(t.ord, 16);
	cr_expect_not(t.crc);
	cr_expect_eq(judge_request(0x50, 2, 12, &t, false), 0);
	cr_expect(t.crc, "the peer asks");
	cr_expect_eq(judge_request(0x10, 2, 12, &t, true), 0);
	cr_expect(t.crc, "we ask");
	cr_expect_eq(judge_request(0x18, 2, 12, &t, false), 0, "siw's private bit");
	cr_expect_eq(judge_request(0x90, 2, 12, &t, false), -EOPNOTSUPP, "markers");
	cr_expect_eq(judge_request(0x00, 1, 8, &t, false), -EPROTONOSUPPORT, "revision 1");
	cr_expect_eq(judge_request(0x00, 2, 8, &t, false), -EPROTONOSUPPORT, "no depths");
	cr_expect_eq(judge_request(0x10, 0, 12, &t, false), -EPROTONOSUPPORT);
	cr_expect_eq(judge_request(0x10, 3, 12, &t, false), -EPROTONOSUPPORT);
	cr_expect_eq(judge_request(0x10, 2, 3, &t, false), -EPROTO, "no room for depths");
}

/* Peer-to-peer mode: of what is offered, one that we take, and A with it. */
Test(iwarp_wire, mpa_peer_to_peer)
{
	static const struct {
		uint16_t ird, ord, reply_ird, reply_ord;
	} cases[] = {
		{ 0x8010, 0x8000, 0x8000, 0x8010 },     /* Write */
		{ 0x8010, 0xc000, 0x8000, 0x8010 },     /* Write or Read: as irdma asks */
		{ 0xc010, 0xc008, 0x8008, 0x8010 },     /* any */
		{ 0x8010, 0x4008, 0x8008, 0x4010 },     /* Read */
		{ 0x8010, 0x4000, 0x8001, 0x4010 },     /* Read, and no other ever */
		{ 0xc010, 0x0000, 0x0000, 0x0010 },     /* a Send: not ours */
		{ 0x8010, 0x0000, 0x0000, 0x0010 },     /* nothing */
		{ 0x0010, 0xc000, 0x0000, 0x0010 },     /* A is clear */
		{ 0xbfff, 0xbfff, 0x8010, 0x8010 },     /* unspecified depths */
	};
	const struct mpa_terms own = { .ird = 16, .ord = 16 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mpa_frame f, rep = { .reply = true, .rev = 2, .enhanced = true };
		uint8_t buf[MPA_FRAME_MAX];
		const char *why = "";
		struct mpa_terms t;

		memcpy(buf, nfs_request, sizeof(nfs_request));
		put16(buf + 20, cases[i].ird);
		put16(buf + 22, cases[i].ord);
		cr_assert_eq(mpa_decode(&f, buf, sizeof(nfs_request), false, &why), 0, "%s", why);
		cr_expect_eq(f.ird, cases[i].ird & 0x3fff);
		cr_expect_eq(f.ord, cases[i].ord & 0x3fff);
		cr_assert_eq(mpa_judge_request(&f, &own, &t, &why), 0, "%s", why);
		rep.ird = (uint16_t)t.ird;
		rep.ord = (uint16_t)t.ord;
		rep.p2p = t.rtr;
		rep.rtr = t.rtr;
		cr_assert_eq(mpa_encode(&rep, buf), MPA_HDR + MPA_DEPTHS);
		cr_expect_eq(get16(buf + 20), cases[i].reply_ird, "%zu: %04x", i, get16(buf + 20));
		cr_expect_eq(get16(buf + 22), cases[i].reply_ord, "%zu: %04x", i, get16(buf + 22));
	}
}

static int judge_reply(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, unsigned own_ord,
		       struct mpa_terms *t)
{
	const struct mpa_terms own = { .ird = 16, .ord = own_ord };
	uint8_t buf[MPA_FRAME_MAX];
	struct mpa_frame f;
	const char *why = NULL;
	int rc;

	memcpy(buf, nfs_reply, sizeof(nfs_reply));
	buf[16] = flags;
	buf[17] = rev;
	put16(buf + 20, ird);
	put16(buf + 22, ord);
	rc = mpa_decode(&f, buf, 32, true, &why);
	if (!rc)
		rc = mpa_judge_reply(&f, &own, t, &why);
	cr_expect_eq(!rc, !why);
	return rc;
}

Test(iwarp_wire, mpa_reply_rules)
{
	struct mpa_terms t;

	cr_expect_eq(judge_reply(0x10, 2, 0, 16, 0, &t), 0);
	cr_expect_eq(judge_reply(0x50, 2, 0, 16, 0, &t), 0);
	cr_expect(t.crc);
	cr_expect_eq(judge_reply(0x30, 2, 0, 16, 0, &t), -ECONNREFUSED);
	cr_expect_eq(judge_reply(0x20, 1, 0, 16, 0, &t), -ECONNREFUSED);
	cr_expect_eq(judge_reply(0x00, 1, 0, 16, 0, &t), -EPROTONOSUPPORT);
	cr_expect_eq(judge_reply(0x00, 2, 0, 16, 0, &t), -EPROTONOSUPPORT);
	cr_expect_eq(judge_reply(0x90, 2, 0, 16, 0, &t), -EOPNOTSUPP);
	cr_expect_eq(judge_reply(0x10, 2, 0, 17, 0, &t), -EPROTO, "reads more than offered");
	cr_expect_eq(judge_reply(0x10, 2, 0, 0x3fff, 0, &t), 0, "unspecified");
	cr_expect_eq(judge_reply(0x10, 2, 4, 16, 8, &t), 0);
	cr_expect_eq(t.ord, 4, "no more reads than the peer takes");
	cr_expect_eq(judge_reply(0x10, 2, 0x3fff, 16, 8, &t), 0);
	cr_expect_eq(t.ord, 8);
	/* The bits for peer-to-peer mode are no part of the depth. */
	cr_expect_eq(judge_reply(0x10, 2, 0xc004, 0xc010, 8, &t), 0);
	cr_expect_eq(t.ord, 4);
}

/* siw's rejection of revision 1 has no private data. */
Test(iwarp_wire, mpa_short_reject)
{
	const struct mpa_terms own = { .ird = 16 };
	const uint8_t *frame = (const uint8_t *)"MPA ID Rep Frame\x20\x01\x00\x00";
	struct mpa_terms t;
	struct mpa_frame f;
	const char *why;

	cr_assert_eq(mpa_decode(&f, frame, 20, true, &why), 0);
	cr_expect_eq(mpa_judge_reply(&f, &own, &t, &why), -ECONNREFUSED);
	frame = (const uint8_t *)"MPA ID Rep Frame\x30\x02\x00\x00";
	cr_assert_eq(mpa_decode(&f, frame, 20, true, &why), 0);
	cr_expect_eq(mpa_judge_reply(&f, &own, &t, &why), -ECONNREFUSED);
}

/* ---- STags ---- */

static struct stag_table table;
static uint8_t mem[256];

static void table_setup(void)
{
	cr_assert_eq(stag_init(&table, 4), 0);
}

static void table_teardown(void)
{
	stag_fini(&table);
}

TestSuite(iwarp_stag, .init = table_setup, .fini = table_teardown, .timeout = 300);

static enum stag_result check(uint32_t stag, uint64_t to, uint64_t len, unsigned rights)
{
	uint8_t *at = NULL;
	enum stag_result r = stag_check(&table, stag, to, len, rights, &at);

	if (!r)
		cr_expect_eq(at, mem + to);
	return r;
}

Test(iwarp_stag, bounds)
{
	uint32_t s;

	cr_assert_eq(stag_add(&table, mem, 100, FAB_REMOTE_WRITE, &s), 0);
	cr_expect_neq(s, 0);
	cr_expect_eq(check(s, 0, 100, FAB_REMOTE_WRITE), STAG_OK);
	cr_expect_eq(check(s, 99, 1, FAB_REMOTE_WRITE), STAG_OK);
	cr_expect_eq(check(s, 100, 0, FAB_REMOTE_WRITE), STAG_OK);
	cr_expect_eq(check(s, 0, 101, FAB_REMOTE_WRITE), STAG_BOUNDS);
	cr_expect_eq(check(s, 100, 1, FAB_REMOTE_WRITE), STAG_BOUNDS);
	cr_expect_eq(check(s, 101, 0, FAB_REMOTE_WRITE), STAG_BOUNDS);
	cr_expect_eq(check(s, UINT64_MAX, 1, FAB_REMOTE_WRITE), STAG_BOUNDS);
	cr_expect_eq(check(s, UINT64_MAX, 2, FAB_REMOTE_WRITE), STAG_WRAP);
	cr_expect_eq(check(s, 50, UINT64_MAX, FAB_REMOTE_WRITE), STAG_WRAP);
	cr_expect_eq(check(s, UINT64_MAX - 10, 20, FAB_REMOTE_WRITE), STAG_WRAP);
}

Test(iwarp_stag, rights)
{
	uint32_t r, w, none;

	cr_assert_eq(stag_add(&table, mem, 100, FAB_REMOTE_READ, &r), 0);
	cr_assert_eq(stag_add(&table, mem, 100, FAB_REMOTE_WRITE, &w), 0);
	cr_assert_eq(stag_add(&table, mem, 100, 0, &none), 0);
	cr_expect_eq(check(r, 0, 1, FAB_REMOTE_READ), STAG_OK);
	cr_expect_eq(check(r, 0, 1, FAB_REMOTE_WRITE), STAG_DENIED);
	cr_expect_eq(check(w, 0, 1, FAB_REMOTE_READ), STAG_DENIED);
	cr_expect_eq(check(none, 0, 1, FAB_REMOTE_READ), STAG_DENIED);
	cr_expect_eq(check(none, 0, 1, 0), STAG_OK);
}

Test(iwarp_stag, unknown)
{
	uint32_t s;

	cr_expect_eq(check(0, 0, 1, 0), STAG_INVALID);
	cr_expect_eq(check(0xffffffff, 0, 1, 0), STAG_INVALID);
	cr_expect_eq(check(1 << 18, 0, 1, 0), STAG_INVALID);
	cr_assert_eq(stag_add(&table, mem, 100, 0, &s), 0);
	cr_expect_eq(check(s ^ 1, 0, 1, 0), STAG_INVALID, "another key");
	cr_expect_eq(check(s ^ 1 << 18, 0, 1, 0), STAG_INVALID, "another index");
	cr_expect(stag_del(&table, s));
	cr_expect_not(stag_del(&table, s));
	cr_expect_eq(check(s, 0, 1, 0), STAG_INVALID);
}

/* The tag that an index has had is not the next one that it gets. */
Test(iwarp_stag, reuse)
{
	uint32_t last[4] = { 0 }, s;

	for (int i = 1; i < 3 * 256; i++) {
		cr_assert_eq(stag_add(&table, mem, 1, 0, &s), 0);
		cr_assert_neq(s, last[s >> 18], "after %d", i);
		last[s >> 18] = s;
		stag_del(&table, s);
		cr_expect_eq(check(s, 0, 1, 0), STAG_INVALID);
	}
	cr_expect_eq(table.size, 4, "no growth");
}

/* One chance in 2^18: read-only memory gets an STag that had been writable memory's. What
 * comes next is not put there before its header is known (placement_guess.c). */
Test(iwarp_stag, no_guess_for_what_is_not_writable)
{
	struct fab_conn *c = calloc(1, sizeof(*c));
	uint32_t w, s;

	c->rx.state = IW_RX_HEADER;
	cr_assert_eq(stag_init(&c->stags, 2), 0);       /* one index */
	cr_assert_eq(stag_add(&c->stags, mem, 100, FAB_REMOTE_WRITE, &w), 0);
	cr_assert_eq(iw_placement_guess(c)->base, mem);
	stag_del(&c->stags, w);
	cr_assert_null(iw_placement_guess(c));
	cr_assert_eq(stag_add(&c->stags, mem, 100, FAB_REMOTE_READ, &s), 0);
	stag_del(&c->stags, s);
	c->stags.random[c->stags.nrandom - 1] = w & ((1u << STAG_KEY_BITS) - 1);
	cr_assert_eq(stag_add(&c->stags, mem, 100, FAB_REMOTE_READ, &s), 0);
	cr_assert_eq(s, w);
	cr_expect_null(iw_placement_guess(c));
	stag_fini(&c->stags);
	free(c);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Who has seen some tags knows nothing of the next ones, nor of another table's. Of
 * 1,000 keys of 18 bits about two are alike, and 4 steps or so. */
Test(iwarp_stag, not_to_be_guessed)
{
	uint32_t key[1000], s, other;
	struct stag_table second;
	unsigned alike = 0, steps = 0;

	cr_assert_eq(stag_init(&second, 4), 0);
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(stag_add(&table, mem, 1, 0, &s), 0);
		cr_assert_eq(stag_add(&second, mem, 1, 0, &other), 0);
		key[i] = s & 0x3ffff;
		alike += s == other;
		steps += i && key[i] - key[i - 1] + 64 <= 128;
		if (i % 2) {
			stag_del(&table, s);
			stag_del(&second, other);
		}
	}
	stag_fini(&second);
	cr_expect_leq(alike, 5u, "%u of two tables", alike);
	cr_expect_leq(steps, 20u, "%u are near to the one before", steps);
	alike = 0;
	qsort(key, 1000, sizeof(key[0]), by_value);
	for (int i = 1; i < 1000; i++)
		alike += key[i] == key[i - 1];
	cr_expect_leq(alike, 20u, "%u of one table", alike);
}

Test(iwarp_stag, growth)
{
	uint32_t s[1000];

	for (int i = 0; i < 1000; i++)
		cr_assert_eq(stag_add(&table, mem, (size_t)i, 0, &s[i]), 0);
	for (int i = 0; i < 1000; i++) {
		cr_assert_not_null(stag_find(&table, s[i]));
		cr_assert_eq(stag_find(&table, s[i])->len, (size_t)i);
		for (int j = 0; j < i; j++)
			cr_assert_neq(s[i], s[j]);
	}
	for (int i = 0; i < 1000; i++)
		cr_assert(stag_del(&table, s[i]));
}
