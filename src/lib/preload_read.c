/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads of a lane: a window of pieces that lie in the file one behind the other.
 *
 *            taken      what the caller wants
 *              v        |<------------->|          ahead
 *     [#######...][..........][..........][..........][ under way ]
 *      first                                                      end
 *
 * The pieces of a call are copied as they come, in their order, while later ones are under way. A call
 * that does not go on where the window begins drops it; memory that is under way is waited for then.
 */
#undef _FILE_OFFSET_BITS
#include "lib/preload.h"

#include <errno.h>
#include <string.h>

void preload_copy(struct preload_cursor *c, char *at, size_t len, bool write)
{
	while (len) {
		size_t n = c->iov->iov_len - c->in;
		char *theirs = (char *)c->iov->iov_base + c->in;

		if (n > len)
			n = len;
		if (n)
			memcpy(write ? at : theirs, write ? theirs : at, n);
		at += n;
		len -= n;
		c->in += n;
		if (c->in == c->iov->iov_len) {
			c->iov++;
			c->n--;
			c->in = 0;
		}
	}
}

static struct preload_piece *window_first(struct preload_lane *lane)
{
	return &lane->piece[lane->first];
}

static void window_pop(struct preload_lane *lane)
{
	lane->first = (lane->first + 1) % PRELOAD_PIECES;
	lane->count--;
}

static int window_wait(struct preload_lane *lane)
{
	int rc = 0;

	while (!rc && window_first(lane)->under_way)
		rc = preload_reap(lane);
	return rc;
}

static int window_drop(struct preload_lane *lane)
{
	int rc = 0;

	while (lane->count && !rc) {
		rc = window_wait(lane);
		window_pop(lane);
	}
	lane->window_of = 0;
	return rc;
}

bool preload_read_has(const struct preload_lane *lane, const struct preload_file *f, uint64_t offset)
{
	const struct preload_piece *p = &lane->piece[lane->first];

	return lane->count && lane->window_of == f->id && p->offset + p->taken == offset;
}

/* What is asked for from now on is at least as new as `st`. */
static int window_at(struct preload_lane *lane, const struct preload_file *f, uint64_t offset,
		     const struct preload_stamp *st)
{
	int rc = 0;

	if (!preload_read_has(lane, f, offset) || !preload_same_stamp(&lane->stamp, st)) {
		rc = window_drop(lane);
		lane->window_of = f->id;
		lane->end = offset;
	}
	lane->stamp = *st;
	return rc;
}

static int ask(struct preload_lane *lane, uint32_t file, uint32_t len)
{
	unsigned i = (lane->first + lane->count) % PRELOAD_PIECES;
	struct preload_piece *p = &lane->piece[i];
	int rc = nfsrdma_read(lane->queue, file, lane->memory, (uint64_t)i * PRELOAD_PIECE, len, lane->end,
			      i);

	if (rc)
		return rc;
	*p = (struct preload_piece){ .offset = lane->end, .len = len, .under_way = true };
	lane->end += len;
	lane->count++;
	return 0;
}

/* Ahead go whole pieces, and the file's last one. */
static int window_fill(struct preload_lane *lane, const struct preload_range *r)
{
	uint64_t want = r->offset + r->len, limit = want;
	int rc = 0;

	if (r->ahead && lane->stamp.size > want)
		limit = lane->stamp.size - want < PRELOAD_AHEAD ? lane->stamp.size : want + PRELOAD_AHEAD;
	while (!rc && lane->count < PRELOAD_PIECES && lane->end < limit) {
		uint64_t left = limit - lane->end;
		uint32_t len = left < PRELOAD_PIECE ? (uint32_t)left : PRELOAD_PIECE;

		if (lane->end >= want && len < PRELOAD_PIECE && limit != lane->stamp.size)
			break;
		rc = ask(lane, r->file, len);
	}
	return rc;
}

/* Copies from the first piece. False: the file ends in it, or it has failed. */
static bool take(struct preload_lane *lane, struct preload_cursor *to, size_t len, size_t *done)
{
	struct preload_piece *p = window_first(lane);
	bool whole = p->result == p->len;
	size_t n;

	if (p->result < 0)
		return false;
	n = (size_t)p->result - p->taken;
	if (n > len - *done)
		n = len - *done;
	preload_copy(to, lane->at + (size_t)lane->first * PRELOAD_PIECE + p->taken, n, false);
	p->taken += (uint32_t)n;
	*done += n;
	if (p->taken < p->result)
		return true;
	if (whole)
		window_pop(lane);
	return whole;
}

size_t preload_read(struct preload_lane *lane, const struct preload_file *f, const struct preload_range *r,
		    const struct preload_stamp *st, struct preload_cursor *to, int *error)
{
	int rc = window_at(lane, f, r->offset, st);
	size_t done = 0;

	while (!rc && done < r->len) {
		rc = window_fill(lane, r);
		if (!rc)
			rc = window_wait(lane);
		if (rc || !take(lane, to, r->len, &done))
			break;
	}
	if (!rc && lane->count && window_first(lane)->result < 0 && !window_first(lane)->under_way &&
	    done < r->len)
		rc = (int)window_first(lane)->result;
	*error = rc;
	if (rc || done < r->len)
		window_drop(lane);
	else if (r->ahead && window_fill(lane, r) == 0)
		nfsrdma_submit(lane->queue);
	return done;
}
