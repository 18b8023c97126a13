/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The byte ranges that one lock-owner holds of a file, as POSIX has them: each byte has one lock or
 * none, a new lock replaces what was there, and neighbours of the same type are one range. Sorted,
 * without overlaps.
 *
 *      held      rrrrrrrr....wwww
 *      set w         ------
 *                rrrrwwwwww..wwww
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct nfs_range {
	uint64_t start, last;           /* last: UINT64_MAX: to the end of the file, wherever that is */
	bool write;
};

struct nfs_ranges {
	struct nfs_range *r;
	unsigned n, room;
};

enum nfs_range_set { NFS_RANGE_NONE, NFS_RANGE_READ, NFS_RANGE_WRITE };

/* start..last gets that type. start is not more than last. false: no memory; nothing has changed. */
bool nfs_ranges_set(struct nfs_ranges *s, uint64_t start, uint64_t last, enum nfs_range_set type);
/* Is any byte of start..last held? */
bool nfs_ranges_any(const struct nfs_ranges *s, uint64_t start, uint64_t last);
/* The first range that ends at `from` or behind it. false: there is none. */
bool nfs_ranges_next(const struct nfs_ranges *s, uint64_t from, struct nfs_range *out);
void nfs_ranges_free(struct nfs_ranges *s);

/* The last byte of so many from offset on; a length of 0, or one that goes too far, counts as "to the
 * end". */
static inline uint64_t nfs_range_last(uint64_t offset, uint64_t length)
{
	return length && length - 1 <= UINT64_MAX - offset && length != UINT64_MAX ?
	       offset + length - 1 : UINT64_MAX;
}
static inline uint64_t nfs_range_length(uint64_t start, uint64_t last)
{
	return last == UINT64_MAX ? UINT64_MAX : last - start + 1;
}
