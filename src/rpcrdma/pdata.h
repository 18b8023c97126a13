/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Private data exchanged at connection set-up (RFC 8797): inline thresholds and support for
 * remote invalidation. Eight octets:
 *
 *     f6 ab 0e 18 | version 1 | flags (bit 0: R) | send size | receive size
 *
 * A size code n stands for (n + 1) * 1024 bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RR_PDATA_BYTES    8u
#define RR_INLINE_DEFAULT 1024u         /* RFC 8166: used without private data */
#define RR_INLINE_MAX     262144u

struct rr_pdata {
	bool present;           /* the peer sent none, and these are defaults */
	bool remote_inval;      /* R */
	uint32_t send_size;     /* largest message the sender of this data sends inline */
	uint32_t recv_size;     /* largest it receives inline */
};

/* Writes RR_PDATA_BYTES. Sizes are rounded down to a multiple of 1024 and
 * clamped to 1024..262144. */
void rr_pdata_encode(const struct rr_pdata *p, uint8_t out[static RR_PDATA_BYTES]);

/*
 * Looks for the format identifier at any offset, because lower layers may put their own
 * data first. If it is absent, truncated or of another version, *p gets the defaults (1024
 * both ways, no remote invalidation) and present = false.
 */
void rr_pdata_decode(struct rr_pdata *p, const void *buf, size_t len);
