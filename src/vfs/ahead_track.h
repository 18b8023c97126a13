/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which reads follow a pattern, and how far ahead of them to read.
 *
 * A *run* is what was read of an open file without a gap. A few runs are remembered, so that
 * several readers of one open file do not disturb each other. Requests of one reader may come
 * to different lanes, and be seen in another order: a run may lack one request in its middle.
 *
 *   sequential   a run gets longer than its first request
 *   strided      two runs of the same length begin at the same distance from the runs before
 *                them. Backwards is a distance, too
 *
 * It is only a guess. If what was read ahead is not wanted, the next run has to be longer
 * before anything is read ahead (`need`).
 *
 * The window is how far ahead of the reader READs are sent. It is twice the product of the
 * rate at which the reader reads, and the least latency that a READ ahead has had lately; plus
 * a piece, because what is fetched is fetched by pieces. As long as the window limits the
 * rate, that doubles it each time. A queue that the window itself causes does not make it
 * grow, because the latency is the least one. A slow reader gets small pieces: what is
 * fetched should be wanted within a second, because it gets old.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AHEAD_RUNS 4u

struct ahead_run {
	uint64_t start, end;
	uint64_t used;                  /* when; 0: there is no run */
	uint64_t delta;                 /* start minus that of the run before; wraps */
	uint64_t before;                /* how long the run before was */
	bool strided;
};

/* Any lane; all zero at the beginning. A lane that finds it in use does without. */
struct ahead_track {
	atomic_bool busy;
	uint64_t clock;
	struct ahead_run run[AHEAD_RUNS];
	_Atomic uint64_t need;          /* how long a run has to be */
};

enum ahead_kind { AHEAD_NONE, AHEAD_SEQUENTIAL, AHEAD_STRIDED };

struct ahead_hint {
	enum ahead_kind kind;
	uint64_t start, end;            /* of the run */
	uint64_t delta, len;            /* AHEAD_STRIDED: from run to run; a run's length */
};

/* A read of `size` bytes at `at`. */
void ahead_track(struct ahead_track *t, uint64_t at, uint64_t size, struct ahead_hint *hint);
/* What was read ahead was wanted, or not. */
void ahead_was_right(struct ahead_track *t);
void ahead_was_wrong(struct ahead_track *t);

struct ahead_window {
	uint64_t size;                  /* bytes; 0: nothing was read ahead yet */
	uint64_t piece;                 /* the most bytes of a piece */
	uint64_t rate;                  /* bytes a second, or 0 */
	uint64_t since_ns, bytes;       /* what the reader has read since then */
	uint64_t least, least_before;   /* latency: in this period and in the one before; ns */
	uint64_t period_ns;             /* when this period began */
};

/* The reader has read so many bytes. most: the largest window; rsize: the largest piece. */
void ahead_window_read(struct ahead_window *w, uint64_t bytes, uint64_t most, uint64_t rsize,
		       uint64_t now);
/* A READ ahead has taken so long. */
void ahead_window_latency(struct ahead_window *w, uint64_t ns, uint64_t now);
