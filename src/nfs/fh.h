/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file handle of any version. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NFS_FH_MAX 128u         /* NFS4_FHSIZE; v3's limit is 64 */

struct nfs_fh {
	uint32_t len;
	uint8_t data[NFS_FH_MAX];
};

static inline bool nfs_fh_same(const struct nfs_fh *a, const struct nfs_fh *b)
{
	return a->len == b->len && !memcmp(a->data, b->data, a->len);
}
