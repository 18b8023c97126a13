/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RPC-over-RDMA version 1 transport header (RFC 8166, section 4), which precedes the
 * RPC message in every Send.
 *
 *     xid | vers | credit | proc | Read list | Write list | Reply chunk | message
 *
 * Decoding checks every count and length, against the bytes received and against the limits
 * below, before it stores anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RR_VERSION 1

enum rr_proc {
	RR_MSG = 0,     /* RDMA_MSG: an RPC message follows */
	RR_NOMSG = 1,   /* RDMA_NOMSG: it is in a chunk */
	RR_MSGP = 2,    /* obsolete */
	RR_DONE = 3,    /* obsolete */
	RR_ERROR = 4,   /* RDMA_ERROR */
};

enum rr_errcode { RR_ERR_VERS = 1, RR_ERR_CHUNK = 2 };

/*
 * Limits of what we accept and build. Our requester has a segment for each piece of a call's
 * data: up to RR_SEND_IOV in a Read chunk, and RR_SINK_IOV in a Write chunk (conn.h). The room
 * above that is for peers that split their chunks.
 */
#define RR_SEGS_MAX   16u       /* segments of one chunk */
#define RR_READS_MAX  32u       /* segments of a Read list */
#define RR_WRITES_MAX 16u       /* Write chunks of a Write list */

#define RR_HDR_FIXED  16u       /* xid, vers, credit, proc */
#define RR_HDR_MIN    28u       /* three empty lists */
#define RR_READ_SEG_BYTES   24u
#define RR_SEG_BYTES        16u

struct rr_seg {
	uint32_t handle;        /* rkey or STag */
	uint32_t length;
	uint64_t offset;
};

struct rr_read_seg {
	uint32_t position;
	struct rr_seg seg;
};

struct rr_chunk {
	uint32_t nseg;
	struct rr_seg seg[RR_SEGS_MAX];
};

struct rr_header {
	uint32_t xid, vers, credit;
	uint32_t proc;                  /* enum rr_proc */
	/* RR_MSG and RR_NOMSG */
	uint32_t nreads;
	struct rr_read_seg reads[RR_READS_MAX];
	uint32_t nwrites;
	struct rr_chunk writes[RR_WRITES_MAX];
	bool has_reply;
	struct rr_chunk reply;
	/* RR_ERROR */
	uint32_t err;                   /* enum rr_errcode */
	uint32_t vers_low, vers_high;   /* RR_ERR_VERS */
};

/* Empty lists, version 1, proc RR_MSG. Sets only the counts: the arrays are large, and
 * mean nothing beyond their counts. */
void rr_header_init(struct rr_header *h, uint32_t xid, uint32_t credit);

/* Bytes that rr_header_encode() will write; 0: a count exceeds its limit. */
size_t rr_header_size(const struct rr_header *h);

/* Returns the bytes written; -EMSGSIZE when cap is too small; -EINVAL when a count
 * exceeds its limit. */
int rr_header_encode(const struct rr_header *h, void *buf, size_t cap);
/* The same, so that the header ends at `end`; room is what there is before that. */
int rr_header_before(const struct rr_header *h, void *end, size_t room);

/*
 * Returns the length of the header in buf (the RPC message starts behind it), or
 *   -EBADMSG          truncated, a bad discriminator, or a count beyond its limit
 *   -EPROTONOSUPPORT  not version 1: xid, vers and credit are set
 */
int rr_header_decode(struct rr_header *h, const void *buf, size_t len);

/* Total of the lengths of a chunk's segments (cannot overflow 64 bits). */
uint64_t rr_chunk_len(const struct rr_chunk *c);
