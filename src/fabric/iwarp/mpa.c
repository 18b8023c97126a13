/* SPDX-License-Identifier: GPL-2.0-or-later */
/* MPA frames, and the rules for them; see mpa.h. */
#include "fabric/iwarp/mpa.h"

#include <errno.h>
#include <string.h>
#include "fabric/iwarp/ddp.h"

#define KEY_BYTES 16

static const char keys[2][KEY_BYTES + 1] = { "MPA ID Req Frame", "MPA ID Rep Frame" };

/* Byte 16: RFC 5044 and, for S, RFC 6581. The other bits are reserved: sent as zero and
 * ignored (siw has a private one). */
#define MPA_M 0x80u
#define MPA_C 0x40u
#define MPA_R 0x20u
#define MPA_S 0x10u

static int mpa_wrong(const char **why, int err, const char *text)
{
	*why = text;
	return err;
}

size_t mpa_encode(const struct mpa_frame *f, uint8_t *buf)
{
	size_t depths = f->enhanced ? MPA_DEPTHS : 0;

	memcpy(buf, keys[f->reply], KEY_BYTES);
	buf[16] = (uint8_t)((f->markers ? MPA_M : 0) | (f->crc ? MPA_C : 0) |
			    (f->reject ? MPA_R : 0) | (f->enhanced ? MPA_S : 0));
	buf[17] = f->rev;
	put16(buf + 18, (uint32_t)(depths + f->privlen));
	if (f->enhanced) {
		put16(buf + MPA_HDR, (f->p2p ? MPA_P2P : 0) | (f->ird & MPA_DEPTH_MAX));
		put16(buf + MPA_HDR + 2, (f->p2p ? f->rtr : 0u) | (f->ord & MPA_DEPTH_MAX));
	}
	if (f->privlen)
		memcpy(buf + MPA_HDR + depths, f->priv, f->privlen);
	return MPA_HDR + depths + f->privlen;
}

int mpa_size(const uint8_t *buf, size_t len, bool reply, const char **why)
{
	/* Check as early as possible: a peer that speaks something else may never send a
	 * whole header. */
	if (memcmp(buf, keys[reply], len < KEY_BYTES ? len : KEY_BYTES))
		return mpa_wrong(why, -EPROTO, "the peer does not speak iWARP (no MPA frame)");
	if (len < MPA_HDR)
		return MPA_HDR;
	if (get16(buf + 18) > MPA_PD_MAX)
		return mpa_wrong(why, -EPROTO,
				 "the peer's MPA frame has more than 256 bytes of private data");
	return (int)(MPA_HDR + get16(buf + 18));
}

int mpa_decode(struct mpa_frame *f, const uint8_t *buf, size_t len, bool reply,
	       const char **why)
{
	int size = mpa_size(buf, len, reply, why);

	if (size < 0)
		return size;
	if ((size_t)size != len)
		return mpa_wrong(why, -EPROTO, "the peer's MPA frame is not complete");
	*f = (struct mpa_frame){
		.reply = reply,
		.markers = buf[16] & MPA_M, .crc = buf[16] & MPA_C,
		.reject = reply && (buf[16] & MPA_R),
		.rev = buf[17],
		.priv = buf + MPA_HDR, .privlen = len - MPA_HDR,
	};
	/* In revision 1 this bit is reserved. */
	f->enhanced = f->rev >= 2 && (buf[16] & MPA_S);
	if (!f->enhanced)
		return 0;
	if (f->privlen < MPA_DEPTHS) {
		/* siw rejects without any private data, but with S set. */
		if (f->reject)
			return 0;
		return mpa_wrong(why, -EPROTO, "the peer's enhanced MPA frame has no IRD and ORD");
	}
	f->ird = get16(f->priv) & MPA_DEPTH_MAX;
	f->ord = get16(f->priv + 2) & MPA_DEPTH_MAX;
	f->p2p = get16(f->priv) & MPA_P2P;
	f->rtr = f->p2p ? get16(f->priv + 2) & (MPA_RTR_WRITE | MPA_RTR_READ) : 0;
	f->priv += MPA_DEPTHS;
	f->privlen -= MPA_DEPTHS;
	return 0;
}

static unsigned min_depth(unsigned own, unsigned peers)
{
	return peers == MPA_DEPTH_MAX || own < peers ? own : peers;
}

static int mpa_judge(const struct mpa_frame *f, const char **why)
{
	if (f->rev != 2)
		return mpa_wrong(why, -EPROTONOSUPPORT, f->rev == 1 ?
				 "the peer speaks MPA revision 1, which has no RDMA Read depths; "
				 "revision 2 (RFC 6581) is needed" :
				 "the peer speaks an unknown revision of MPA");
	if (!f->enhanced)
		return mpa_wrong(why, -EPROTONOSUPPORT, "the peer's MPA frame has no RDMA Read depths "
				 "(RFC 6581's S bit is clear)");
	if (f->markers)
		return mpa_wrong(why, -EOPNOTSUPP,
				 "the peer wants MPA markers, which this side does not support");
	return 0;
}

int mpa_judge_request(const struct mpa_frame *req, const struct mpa_terms *own,
		      struct mpa_terms *agreed, const char **why)
{
	int err = mpa_judge(req, why);

	if (err)
		return err;
	/* RFC 5044 section 7.1: CRC is used if either side wants it. An initiator that
	 * gets less depth than it asked for must accept that or close (RFC 6581 section
	 * 9.1). */
	*agreed = (struct mpa_terms){
		.crc = req->crc || own->crc,
		.ird = min_depth(own->ird, req->ord),
		.ord = min_depth(own->ord, req->ird),
		.rtr = req->rtr & MPA_RTR_WRITE ? MPA_RTR_WRITE : req->rtr,
	};
	/* An RTR that is an RDMA Read counts as a read, even of no bytes, and even if
	 * the peer wants no others. */
	if (agreed->rtr == MPA_RTR_READ && !agreed->ird)
		agreed->ird = 1;
	return 0;
}

int mpa_judge_reply(const struct mpa_frame *rep, const struct mpa_terms *own,
		    struct mpa_terms *agreed, const char **why)
{
	int err;

	if (rep->reject)
		return mpa_wrong(why, -ECONNREFUSED, rep->rev == 2 ?
				 "the peer rejected the connection (MPA Reply)" :
				 "the peer rejected the connection: it does not speak MPA revision 2");
	err = mpa_judge(rep, why);
	if (err)
		return err;
	if (rep->ord != MPA_DEPTH_MAX && rep->ord > own->ird)
		return mpa_wrong(why, -EPROTO,
				 "the peer wants more RDMA Reads at once than were offered (IRD)");
	*agreed = (struct mpa_terms){
		.crc = rep->crc || own->crc,
		.ird = own->ird,
		.ord = min_depth(own->ord, rep->ird),
	};
	return 0;
}
