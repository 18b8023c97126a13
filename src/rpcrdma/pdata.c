/* SPDX-License-Identifier: GPL-2.0-or-later */
/* RFC 8797 private data; see pdata.h. */
#include <string.h>
#include "rpcrdma/pdata.h"

#define PDATA_VERSION 1u
#define PDATA_FLAG_R  0x01u

static const uint8_t pdata_magic[4] = { 0xf6, 0xab, 0x0e, 0x18 };

static uint8_t size_code(uint32_t size)
{
	if (size < RR_INLINE_DEFAULT)
		size = RR_INLINE_DEFAULT;
	if (size > RR_INLINE_MAX)
		size = RR_INLINE_MAX;
	return (uint8_t)(size / 1024 - 1);
}

void rr_pdata_encode(const struct rr_pdata *p, uint8_t out[static RR_PDATA_BYTES])
{
	memcpy(out, pdata_magic, sizeof(pdata_magic));
	out[4] = PDATA_VERSION;
	out[5] = p->remote_inval ? PDATA_FLAG_R : 0;
	out[6] = size_code(p->send_size);
	out[7] = size_code(p->recv_size);
}

void rr_pdata_decode(struct rr_pdata *p, const void *buf, size_t len)
{
	const uint8_t *b = buf;

	*p = (struct rr_pdata){
		.send_size = RR_INLINE_DEFAULT,
		.recv_size = RR_INLINE_DEFAULT,
	};
	for (size_t i = 0; i + RR_PDATA_BYTES <= len; i++) {
		if (memcmp(b + i, pdata_magic, sizeof(pdata_magic)))
			continue;
		/* The identifier may also occur by chance in another layer's data, so
		 * the search goes on after a wrong version. */
		if (b[i + 4] != PDATA_VERSION)
			continue;
		p->present = true;
		p->remote_inval = b[i + 5] & PDATA_FLAG_R;
		p->send_size = (b[i + 6] + 1u) * 1024u;
		p->recv_size = (b[i + 7] + 1u) * 1024u;
		return;
	}
}
