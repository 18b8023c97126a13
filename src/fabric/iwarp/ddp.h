/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The wire formats of a frame, and nothing else: an MPA FPDU (RFC 5044) around one DDP
 * segment (RFC 5041) with RDMAP's control byte (RFC 5040).
 *
 *     0      2      4                          16 (tagged) / 20 (untagged)
 *     +------+------+--------------------------+---------+-----+-------+
 *     | ULPDU| ctrl | STag, TO                 | payload | pad | CRC32c|
 *     |length|      | inval. STag, QN, MSN, MO |         | 0-3 |   4   |
 *     +------+------+--------------------------+---------+-----+-------+
 *            |<------------- ULPDU length ------------->|
 *
 * The pad makes the frame a multiple of 4. The CRC field is always there; it is zero and
 * ignored unless both sides agreed on CRC. Header sizes in this file include the length
 * word.
 */
#pragma once

#include <endian.h>
#include <isa-l/crc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum rdmap_op {
	RDMAP_WRITE, RDMAP_READ_REQ, RDMAP_READ_RESP, RDMAP_SEND, RDMAP_SEND_INV,
	RDMAP_SEND_SE, RDMAP_SEND_SE_INV, RDMAP_TERMINATE, RDMAP_OPS
};

/* Queue numbers of untagged messages. */
enum { DDP_QN_SEND, DDP_QN_READ, DDP_QN_TERM, DDP_QNS };

#define DDP_LEN_BYTES    2u
#define DDP_TAGGED_HDR   16u
#define DDP_UNTAGGED_HDR 20u
#define DDP_READ_REQ     28u    /* payload of a Read Request */
#define DDP_PAD_MAX      3u
#define DDP_CRC_BYTES    4u
#define DDP_ULPDU_MAX    65535u

/* First control byte. */
#define DDP_T  0x80u
#define DDP_L  0x40u
#define DDP_VERSION_MASK 0x03u
#define DDP_VERSION      0x01u
/* Second control byte. */
#define RDMAP_VERSION_MASK 0xc0u
#define RDMAP_VERSION      0x40u
#define RDMAP_OP_MASK      0x0fu

struct ddp_hdr {
	bool tagged, last;
	enum rdmap_op op;
	uint32_t payload;       /* bytes in this segment */
	uint32_t stag;          /* tagged: the sink; Send with Invalidate: the STag */
	uint64_t to;            /* tagged */
	uint32_t qn, msn, mo;   /* untagged */
};

struct ddp_read_req {
	uint32_t sink_stag, len, src_stag;
	uint64_t sink_to, src_to;
};

/* What can be wrong with a frame, or with what it asks for. */
enum iw_error {
	IW_OK,
	IW_E_LENGTH, IW_E_CRC, IW_E_TAGGED_VERSION, IW_E_UNTAGGED_VERSION, IW_E_RDMAP_VERSION,
	IW_E_OPCODE, IW_E_QN, IW_E_NO_RECV, IW_E_MSN, IW_E_MO, IW_E_TOO_LONG,
	IW_E_STAG, IW_E_BOUNDS, IW_E_WRAP, IW_E_ACCESS,
	IW_E_READ_STAG, IW_E_READ_BOUNDS, IW_E_READ_WRAP, IW_E_READ_ACCESS,
	IW_E_READ_FORM, IW_E_IRD, IW_E_RESPONSE, IW_E_INTERSECT, IW_E_INVALIDATE,
	IW_ERRORS
};

/* Its name in a Terminate (RFC 5040 section 4.8), and its text for people. */
struct iw_error_info {
	uint8_t where;          /* layer << 4 | error type */
	uint8_t code;
	int err;
	const char *why;
};
extern const struct iw_error_info iw_errors[IW_ERRORS];

static inline void put16(uint8_t *p, uint32_t v)
{
	uint16_t w = htobe16((uint16_t)v);

	memcpy(p, &w, sizeof(w));
}

static inline void put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint32_t get16(const uint8_t *p)
{
	uint16_t w;

	memcpy(&w, p, sizeof(w));
	return be16toh(w);
}

static inline uint32_t get32(const uint8_t *p)
{
	uint32_t w;

	memcpy(&w, p, sizeof(w));
	return be32toh(w);
}

static inline uint64_t get64(const uint8_t *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return be64toh(w);
}

/* Bytes of padding behind a segment of that ULPDU length. */
static inline uint32_t ddp_pad(uint32_t ulpdu)
{
	return -(ulpdu + DDP_LEN_BYTES) & 3;
}

/*
 * CRC32c in pieces: start with DDP_CRC_INIT, and end with ddp_crc_put(), which stores it
 * like iSCSI, least significant byte first. ISA-L does not invert at the start or at the
 * end. (It changes nothing in buf, although const is missing.)
 */
#define DDP_CRC_INIT 0xffffffffu

static inline uint32_t ddp_crc(uint32_t crc, const void *mem, size_t len)
{
	return crc32_iscsi((unsigned char *)(uintptr_t)mem, (int)len, crc);
}

static inline void ddp_crc_put(uint8_t *p, uint32_t crc)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(~crc >> 8 * i);
}

/* Writes the header of h; returns its size. */
unsigned ddp_encode(const struct ddp_hdr *h, uint8_t *buf);
/* Decodes the header at buf into h and returns its size. 0 if `len` bytes are too few. 0
 * with *e set if it cannot be a header. */
unsigned ddp_decode(struct ddp_hdr *h, const uint8_t *buf, size_t len, enum iw_error *e);

void ddp_read_encode(const struct ddp_read_req *r, uint8_t *buf);
void ddp_read_decode(struct ddp_read_req *r, const uint8_t *buf);
