/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MPA start-up (RFC 5044 section 7, RFC 6581): one Request from the side that connected,
 * one Reply, and from then on frames. This file has only the bytes and the rules;
 * iw_connect.c and iw_listen.c read and write them.
 *
 *     0                                16      17    18        20
 *     +--------------------------------+-------+-----+---------+---------
 *     | "MPA ID Req Frame" / "... Rep" | M C R S| rev | PD len  | private data
 *     +--------------------------------+-------+-----+---------+---------
 *
 * Revision 2 with S set ("enhanced"): the private data begins with 16 bits of IRD and 16
 * bits of ORD. NFS servers need them: without, they learn no IRD, and a server that may not
 * RDMA-Read cannot serve NFS.
 *
 *     0 1 2             16 17 18             32
 *     +-+-+--------------+-+-+--------------+
 *     |A|B|     IRD      |C|D|     ORD      |
 *     +-+-+--------------+-+-+--------------+
 *
 * A asks for peer-to-peer mode, in which the side that connected begins with an empty frame
 * ("RTR"). It offers types for that frame, and the Reply chooses one: B (not even a DDP
 * header, which we do not take), C (RDMA Write) or D (RDMA Read). An NFS client speaks
 * first anyway, so our own Requests do not ask for this. But adapters (irdma, cxgb4) do,
 * and want to see A in the Reply.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPA_HDR         20u
#define MPA_DEPTHS      4u      /* IRD and ORD */
/* RFC 5044 allows 512; siw takes no more than 256, depths included. */
#define MPA_PD_MAX      256u
#define MPA_PRIV_MAX    (MPA_PD_MAX - MPA_DEPTHS)
#define MPA_FRAME_MAX   (MPA_HDR + MPA_PD_MAX)
#define MPA_DEPTH_MAX   0x3fffu /* 14 bits; all ones: unspecified */
#define MPA_TIMEOUT_MS  10000u  /* for the peer's frame */

/* Bits of peer-to-peer mode, which are not part of the depths. */
#define MPA_P2P         0x8000u /* of the IRD: A */
#define MPA_RTR_WRITE   0x8000u /* of the ORD: C */
#define MPA_RTR_READ    0x4000u /* of the ORD: D */

struct mpa_frame {
	bool reply;
	bool markers, crc, reject, enhanced;
	uint8_t rev;
	uint16_t ird, ord;      /* enhanced only; the depths */
	bool p2p;               /* enhanced only */
	uint16_t rtr;           /* with p2p: MPA_RTR_WRITE, MPA_RTR_READ */
	const uint8_t *priv;    /* decoded: points into the frame */
	size_t privlen;
};

/* What one side wants or allows, or what both have agreed on. */
struct mpa_terms {
	bool crc;
	unsigned ird;           /* RDMA Reads that the peer may have outstanding here */
	unsigned ord;           /* ... and we over there */
	uint16_t rtr;           /* agreed, at the passive side: MPA_RTR_WRITE,
				 * MPA_RTR_READ, or 0: no peer-to-peer mode */
};

/* Returns the size; buf has MPA_FRAME_MAX bytes, privlen is <= MPA_PRIV_MAX. */
size_t mpa_encode(const struct mpa_frame *f, uint8_t *buf);

/* The size of the frame that begins with these `len` bytes; more than len if it is not
 * complete. -EPROTO with a reason if it cannot be a frame. */
int mpa_size(const uint8_t *buf, size_t len, bool reply, const char **why);

/* Decodes a whole frame in buf. 0 or -EPROTO. */
int mpa_decode(struct mpa_frame *f, const uint8_t *buf, size_t len, bool reply,
	       const char **why);

/* The passive side: can this Request be served? 0 and *agreed, or -errno with the
 * reason: reject it. */
int mpa_judge_request(const struct mpa_frame *req, const struct mpa_terms *own,
		      struct mpa_terms *agreed, const char **why);
/* The active side: what this Reply to our Request means. */
int mpa_judge_reply(const struct mpa_frame *rep, const struct mpa_terms *own,
		    struct mpa_terms *agreed, const char **why);
