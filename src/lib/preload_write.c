/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes of a lane: one call's pieces, several under way at a time, none when it returns. The bytes before
 * the first one that has failed count; later ones may be in the file as well, as
 * with any large write that fails.
 */
#undef _FILE_OFFSET_BITS
#include "lib/preload.h"

#include <errno.h>

struct writing {
	struct preload_lane *lane;
	const struct preload_range *range;
	struct preload_cursor *from;
	size_t asked, done;
	unsigned first, count;          /* of the lane's pieces behind those of reads */
	bool stopped;                   /* one has not written all: what comes behind it does not count */
	int error;
};

static void ask(struct writing *w)
{
	unsigned i = PRELOAD_PIECES + (w->first + w->count) % PRELOAD_PIECES;
	size_t left = w->range->len - w->asked;
	uint32_t len = left < PRELOAD_PIECE ? (uint32_t)left : PRELOAD_PIECE;
	uint64_t at = (uint64_t)i * PRELOAD_PIECE;

	preload_copy(w->from, w->lane->at + at, len, true);
	w->error = nfsrdma_write(w->lane->queue, w->range->file, w->lane->memory, at, len,
				 w->range->offset + w->asked, i);
	if (!w->error && (w->error = nfsrdma_submit(w->lane->queue)))
		atomic_store(&w->lane->mount->dead, true); /* the daemon may find it later, when other bytes lie there */
	if (w->error) {
		w->stopped = true;
		return;
	}
	w->lane->piece[i] = (struct preload_piece){ .len = len, .under_way = true };
	w->asked += len;
	w->count++;
}

/* The oldest. False: nothing is completed any more. */
static bool collect(struct writing *w)
{
	struct preload_piece *p = &w->lane->piece[PRELOAD_PIECES + w->first];
	int rc = 0;

	while (!rc && p->under_way)
		rc = preload_reap(w->lane);
	if (rc) {
		w->error = rc;
		return false;
	}
	w->first = (w->first + 1) % PRELOAD_PIECES;
	w->count--;
	if (w->stopped)
		return true;
	if (p->result >= 0)
		w->done += (size_t)p->result;
	if (p->result < 0)
		w->error = (int)p->result;
	w->stopped = p->result < p->len;
	return true;
}

size_t preload_write(struct preload_lane *lane, const struct preload_range *r, struct preload_cursor *from,
		     int *error)
{
	struct writing w = { .lane = lane, .range = r, .from = from };

	while (w.count || (!w.stopped && w.asked < r->len)) {
		if (!w.stopped && w.asked < r->len && w.count < PRELOAD_PIECES)
			ask(&w);
		else if (!collect(&w))
			break;
	}
	*error = w.error;
	return w.done;
}
