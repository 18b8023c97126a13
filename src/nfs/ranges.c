/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See ranges.h. */
#include <stdlib.h>
#include <string.h>
#include "nfs/ranges.h"

/* A range that is set splits one, and is one itself. */
#define RANGES_MORE 2u

static bool ranges_grow(struct nfs_ranges *s)
{
	unsigned room = s->room ? 2 * s->room : 4;
	struct nfs_range *r;

	if (s->n + RANGES_MORE <= s->room)
		return true;
	r = realloc(s->r, room * sizeof(*r));
	if (!r)
		return false;
	s->r = r;
	s->room = room;
	return true;
}

/* Appends it, or makes the last one longer. */
static void ranges_append(struct nfs_range *out, unsigned *n, struct nfs_range r)
{
	struct nfs_range *end = *n ? &out[*n - 1] : NULL;

	if (end && end->write == r.write && end->last + 1 == r.start)
		end->last = r.last;
	else
		out[(*n)++] = r;
}

/* What is left of `old` before start, and behind last. */
static void ranges_keep(struct nfs_range *out, unsigned *n, struct nfs_range old, uint64_t start,
			uint64_t last, bool before)
{
	if (before && old.start < start) {
		if (old.last >= start)
			old.last = start - 1;
		ranges_append(out, n, old);
	} else if (!before && old.last > last) {
		if (old.start <= last)
			old.start = last + 1;
		ranges_append(out, n, old);
	}
}

bool nfs_ranges_set(struct nfs_ranges *s, uint64_t start, uint64_t last, enum nfs_range_set type)
{
	struct nfs_range *old;
	unsigned n = 0;

	if (!ranges_grow(s))
		return false;
	old = malloc((s->n + 1) * sizeof(*old));
	if (!old)
		return false;
	if (s->n)
		memcpy(old, s->r, s->n * sizeof(*old));
	for (unsigned i = 0; i < s->n; i++)
		ranges_keep(s->r, &n, old[i], start, last, true);
	if (type != NFS_RANGE_NONE)
		ranges_append(s->r, &n, (struct nfs_range){ start, last, type == NFS_RANGE_WRITE });
	for (unsigned i = 0; i < s->n; i++)
		ranges_keep(s->r, &n, old[i], start, last, false);
	free(old);
	s->n = n;
	return true;
}

bool nfs_ranges_next(const struct nfs_ranges *s, uint64_t from, struct nfs_range *out)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (s->r[i].last < from)
			continue;
		*out = s->r[i];
		return true;
	}
	return false;
}

bool nfs_ranges_any(const struct nfs_ranges *s, uint64_t start, uint64_t last)
{
	struct nfs_range r;

	return nfs_ranges_next(s, start, &r) && r.start <= last;
}

void nfs_ranges_free(struct nfs_ranges *s)
{
	free(s->r);
	*s = (struct nfs_ranges){ 0 };
}
