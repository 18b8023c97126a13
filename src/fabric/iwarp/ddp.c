/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Encodes and decodes a frame's header; has the table of errors. */
#include "fabric/iwarp/ddp.h"

#include <errno.h>

/* Layers and error types of a Terminate (RFC 5040 section 4.8). */
#define RDMAP_PROTECTION 0x01
#define RDMAP_OPERATION  0x02
#define DDP_TAGGED_BUF   0x11
#define DDP_UNTAGGED_BUF 0x12
#define LLP_MPA          0x20

const struct iw_error_info iw_errors[IW_ERRORS] = {
	[IW_E_LENGTH] = { LLP_MPA, 3, -EPROTO,
		"the peer sent a frame that is shorter than its header" },
	[IW_E_CRC] = { LLP_MPA, 2, -EBADMSG,
		"the CRC32c of a frame is wrong: data was damaged on the way" },
	[IW_E_TAGGED_VERSION] = { DDP_TAGGED_BUF, 4, -EPROTO,
		"the peer sent a tagged frame of another DDP version than 1" },
	[IW_E_UNTAGGED_VERSION] = { DDP_UNTAGGED_BUF, 6, -EPROTO,
		"the peer sent an untagged frame of another DDP version than 1" },
	[IW_E_RDMAP_VERSION] = { RDMAP_OPERATION, 5, -EPROTO,
		"the peer sent a frame of another RDMAP version than 1" },
	[IW_E_OPCODE] = { RDMAP_OPERATION, 6, -EPROTO,
		"the peer sent a frame with an unexpected RDMAP opcode" },
	[IW_E_QN] = { DDP_UNTAGGED_BUF, 1, -EPROTO,
		"the peer sent a message to the wrong queue number" },
	[IW_E_NO_RECV] = { DDP_UNTAGGED_BUF, 2, -ENOBUFS,
		"the peer sent a message that no receive was posted for" },
	[IW_E_MSN] = { DDP_UNTAGGED_BUF, 3, -EPROTO,
		"the peer sent a message with a wrong sequence number (MSN)" },
	[IW_E_MO] = { DDP_UNTAGGED_BUF, 4, -EPROTO,
		"the peer sent a segment with a wrong message offset (MO)" },
	[IW_E_TOO_LONG] = { DDP_UNTAGGED_BUF, 5, -EMSGSIZE,
		"the peer sent a message longer than the receive (inline threshold)" },
	[IW_E_STAG] = { DDP_TAGGED_BUF, 0, -EFAULT,
		"the peer wrote to an STag that is not valid (any more)" },
	[IW_E_BOUNDS] = { DDP_TAGGED_BUF, 1, -EFAULT,
		"the peer wrote outside of the memory that an STag stands for" },
	[IW_E_WRAP] = { DDP_TAGGED_BUF, 3, -EFAULT,
		"the peer wrote past the end of the offset space" },
	[IW_E_ACCESS] = { RDMAP_PROTECTION, 2, -EACCES,
		"the peer wrote to an STag that does not allow it" },
	[IW_E_READ_STAG] = { RDMAP_PROTECTION, 0, -EFAULT,
		"the peer read from an STag that is not valid (any more)" },
	[IW_E_READ_BOUNDS] = { RDMAP_PROTECTION, 1, -EFAULT,
		"the peer read outside of the memory that an STag stands for" },
	[IW_E_READ_WRAP] = { RDMAP_PROTECTION, 4, -EFAULT,
		"the peer read past the end of the offset space" },
	[IW_E_READ_ACCESS] = { RDMAP_PROTECTION, 2, -EACCES,
		"the peer read from an STag that does not allow it" },
	[IW_E_READ_FORM] = { RDMAP_OPERATION, 7, -EPROTO,
		"the peer sent an RDMA Read Request of a wrong size" },
	[IW_E_IRD] = { DDP_UNTAGGED_BUF, 2, -ENOBUFS,
		"the peer sent more RDMA Read Requests at once than agreed (IRD)" },
	[IW_E_RESPONSE] = { DDP_TAGGED_BUF, 1, -EPROTO,
		"the peer sent an RDMA Read Response that does not fit the request" },
	[IW_E_INTERSECT] = { RDMAP_OPERATION, 6, -EPROTO,
		"the peer began a message in the middle of another one" },
	[IW_E_INVALIDATE] = { RDMAP_PROTECTION, 9, -EFAULT,
		"the peer invalidated an STag that is not valid" },
};

unsigned ddp_encode(const struct ddp_hdr *h, uint8_t *buf)
{
	unsigned size = h->tagged ? DDP_TAGGED_HDR : DDP_UNTAGGED_HDR;

	put16(buf, size - DDP_LEN_BYTES + h->payload);
	buf[2] = (uint8_t)((h->tagged ? DDP_T : 0) | (h->last ? DDP_L : 0) | DDP_VERSION);
	buf[3] = (uint8_t)(RDMAP_VERSION | h->op);
	put32(buf + 4, h->stag);
	if (h->tagged) {
		put64(buf + 8, h->to);
	} else {
		put32(buf + 8, h->qn);
		put32(buf + 12, h->msn);
		put32(buf + 16, h->mo);
	}
	return size;
}

unsigned ddp_decode(struct ddp_hdr *h, const uint8_t *buf, size_t len, enum iw_error *e)
{
	unsigned size, ulpdu, op;

	*e = IW_OK;
	if (len < 4)
		return 0;
	ulpdu = get16(buf);
	h->tagged = buf[2] & DDP_T;
	h->last = buf[2] & DDP_L;
	op = buf[3] & RDMAP_OP_MASK;
	size = h->tagged ? DDP_TAGGED_HDR : DDP_UNTAGGED_HDR;
	if (ulpdu < size - DDP_LEN_BYTES)
		*e = IW_E_LENGTH;
	else if ((buf[2] & DDP_VERSION_MASK) != DDP_VERSION)
		*e = h->tagged ? IW_E_TAGGED_VERSION : IW_E_UNTAGGED_VERSION;
	else if ((buf[3] & RDMAP_VERSION_MASK) != RDMAP_VERSION)
		*e = IW_E_RDMAP_VERSION;
	else if (op >= RDMAP_OPS || h->tagged != (op == RDMAP_WRITE || op == RDMAP_READ_RESP))
		*e = IW_E_OPCODE;
	if (*e || len < size)
		return 0;
	h->op = (enum rdmap_op)op;
	h->payload = ulpdu - (size - DDP_LEN_BYTES);
	h->stag = get32(buf + 4);
	h->to = 0;
	h->qn = h->msn = h->mo = 0;
	if (h->tagged) {
		h->to = get64(buf + 8);
	} else {
		h->qn = get32(buf + 8);
		h->msn = get32(buf + 12);
		h->mo = get32(buf + 16);
	}
	return size;
}

void ddp_read_encode(const struct ddp_read_req *r, uint8_t *buf)
{
	put32(buf, r->sink_stag);
	put64(buf + 4, r->sink_to);
	put32(buf + 12, r->len);
	put32(buf + 16, r->src_stag);
	put64(buf + 20, r->src_to);
}

void ddp_read_decode(struct ddp_read_req *r, const uint8_t *buf)
{
	r->sink_stag = get32(buf);
	r->sink_to = get64(buf + 4);
	r->len = get32(buf + 12);
	r->src_stag = get32(buf + 16);
	r->src_to = get64(buf + 20);
}
