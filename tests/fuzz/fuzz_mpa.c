/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MPA's set-up frames, of both sides, and the headers of DDP.
 *     input: 1 byte (bit 0: a reply), then the frame
 */
#include <string.h>
#include "fabric/iwarp/ddp.h"
#include "fabric/iwarp/mpa.h"
#include "fuzz.h"

static void header(const uint8_t *data, size_t len)
{
	enum iw_error e = IW_OK;
	struct ddp_hdr h, again;
	uint8_t buf[DDP_UNTAGGED_HDR];
	unsigned n = ddp_decode(&h, data, len, &e);

	if (!n)
		return;
	CHECK(n <= len && e == IW_OK && h.op < RDMAP_OPS && h.payload <= DDP_ULPDU_MAX);
	CHECK(ddp_encode(&h, buf) == n);
	CHECK(ddp_decode(&again, buf, n, &e) == n);
	CHECK(again.op == h.op && again.payload == h.payload && again.stag == h.stag &&
	      again.last == h.last && again.tagged == h.tagged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct mpa_terms own = { .crc = true, .ird = 16, .ord = 16 }, agreed;
	const char *why = NULL;
	struct mpa_frame f, g;
	uint8_t buf[MPA_FRAME_MAX];
	bool reply;
	size_t n;
	int size;

	if (!len)
		return 0;
	reply = data[0] & 1;
	data++;
	len--;
	header(data, len);
	size = mpa_size(data, len, reply, &why);
	if (size < 0) {
		CHECK(why);
		return 0;
	}
	CHECK((size_t)size <= MPA_FRAME_MAX);
	if ((size_t)size > len)
		return 0;
	if (mpa_decode(&f, data, (size_t)size, reply, &why)) {
		CHECK(why);
		return 0;
	}
	CHECK(f.privlen <= MPA_PD_MAX);
	touch(f.priv, f.privlen);
	if ((reply ? mpa_judge_reply : mpa_judge_request)(&f, &own, &agreed, &why) == 0)
		CHECK(agreed.ird <= MPA_DEPTH_MAX && agreed.ord <= own.ord);
	if (f.privlen > MPA_PRIV_MAX)
		return 0;
	n = mpa_encode(&f, buf);
	CHECK(mpa_size(buf, n, reply, &why) == (int)n);
	if (!mpa_decode(&g, buf, n, reply, &why))
		CHECK(g.privlen == f.privlen && !memcmp(g.priv, f.priv, g.privlen));
	return 0;
}
