/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See ahead_track.h. */
#include "vfs/ahead_track.h"

/* A run that was wrong so often has to be so long. */
#define NEED_MOST (64ull << 20)
#define NEED_LEAST (256ull << 10)

/* ---- runs ---- */

/* Does the read belong to the run? It may have overtaken the one before it. */
static bool ahead_track_extends(const struct ahead_run *run, uint64_t at, uint64_t size)
{
	if (!run->used)
		return false;
	if (at >= run->start)
		return at <= run->end || at - run->end <= size;
	/* The first two have changed places. */
	return at + size == run->start && run->end - run->start <= size;
}

static struct ahead_run *track_run(struct ahead_track *t, bool newest)
{
	struct ahead_run *best = &t->run[0];

	for (unsigned i = 1; i < AHEAD_RUNS; i++)
		if (newest ? t->run[i].used > best->used : t->run[i].used < best->used)
			best = &t->run[i];
	return best;
}

static void ahead_track_tell(const struct ahead_run *run, enum ahead_kind kind,
			     struct ahead_hint *hint)
{
	*hint = (struct ahead_hint){ kind, run->start, run->end, run->delta, run->before };
}

static void begin_run(struct ahead_track *t, uint64_t at, uint64_t size, struct ahead_hint *hint)
{
	const struct ahead_run last = *track_run(t, true);
	struct ahead_run *run = track_run(t, false);

	*run = (struct ahead_run){
		.start = at, .end = at + size, .used = ++t->clock, .delta = at - last.start,
		.before = last.end - last.start,
	};
	run->strided = last.used && run->delta == last.delta && run->before == last.before;
	if (run->strided)
		ahead_track_tell(run, AHEAD_STRIDED, hint);
}

static void extend_run(struct ahead_track *t, struct ahead_run *run, uint64_t at, uint64_t size,
		       struct ahead_hint *hint)
{
	uint64_t was = run->end - run->start, is;

	run->used = ++t->clock;
	if (at < run->start)
		run->start = at;
	if (at + size > run->end)
		run->end = at + size;
	is = run->end - run->start;
	if (is == was)
		return;
	/* The rest of a strided run. */
	if (run->strided && is <= run->before)
		ahead_track_tell(run, AHEAD_STRIDED, hint);
	else if (is >= atomic_load_explicit(&t->need, memory_order_relaxed))
		ahead_track_tell(run, AHEAD_SEQUENTIAL, hint);
}

void ahead_track(struct ahead_track *t, uint64_t at, uint64_t size, struct ahead_hint *hint)
{
	unsigned i = 0;

	*hint = (struct ahead_hint){ .kind = AHEAD_NONE };
	if (!size || at + size < at || atomic_exchange_explicit(&t->busy, true, memory_order_acquire))
		return;
	while (i < AHEAD_RUNS && !ahead_track_extends(&t->run[i], at, size))
		i++;
	if (i < AHEAD_RUNS)
		extend_run(t, &t->run[i], at, size, hint);
	else
		begin_run(t, at, size, hint);
	atomic_store_explicit(&t->busy, false, memory_order_release);
}

void ahead_was_right(struct ahead_track *t)
{
	atomic_store_explicit(&t->need, 0, memory_order_relaxed);
}

void ahead_was_wrong(struct ahead_track *t)
{
	uint64_t need = atomic_load_explicit(&t->need, memory_order_relaxed) * 2;

	if (need < NEED_LEAST)
		need = NEED_LEAST;
	if (need <= NEED_MOST)
		atomic_store_explicit(&t->need, need, memory_order_relaxed);
}

/* ---- the window ---- */

#define NS_PER_S 1000000000ull
/* The latency is the least one of the last one or two periods. */
#define PERIOD_NS (5 * NS_PER_S)
/* The first window, as a multiple of a request. */
#define FIRST 8u
#define PIECE_LEAST (128ull << 10)

static uint64_t ahead_track_latency(const struct ahead_window *w)
{
	if (!w->least || (w->least_before && w->least_before < w->least))
		return w->least_before;
	return w->least;
}

void ahead_window_latency(struct ahead_window *w, uint64_t ns, uint64_t now)
{
	if (now - w->period_ns > PERIOD_NS) {
		w->least_before = w->least;
		w->least = 0;
		w->period_ns = now;
	}
	if (!w->least || ns < w->least)
		w->least = ns;
}

static uint64_t at_most(uint64_t v, uint64_t most)
{
	return v < most ? v : most;
}

static void ahead_track_resize(struct ahead_window *w, uint64_t most, uint64_t rsize)
{
	uint64_t want, twice = w->size * 2;

	w->piece = at_most(rsize, w->rate < PIECE_LEAST ? PIECE_LEAST : w->rate & ~4095ull);
	want = w->piece +
	       (uint64_t)(2.0 * (double)w->rate * (double)ahead_track_latency(w) / NS_PER_S);
	if (!ahead_track_latency(w) || want > twice)
		want = twice;
	w->size = at_most(want, most);
}

/* One reading after an idle time, or on a busy machine, says little. So the rate falls
 * slowly. */
static void ahead_track_sample(struct ahead_window *w, uint64_t now)
{
	uint64_t ns = now - w->since_ns;
	uint64_t rate = ns ? (uint64_t)((double)w->bytes * NS_PER_S / (double)ns) : 0;
	uint64_t slower = w->rate - w->rate / 4;

	w->rate = rate > slower ? rate : slower;
	w->since_ns = now;
	w->bytes = 0;
}

void ahead_window_read(struct ahead_window *w, uint64_t bytes, uint64_t most, uint64_t rsize,
		       uint64_t now)
{
	if (!w->size) {
		w->size = at_most(at_most(bytes * FIRST, rsize), most);
		w->piece = rsize;
		w->since_ns = now;
		return;
	}
	w->bytes += bytes;
	if (w->bytes < w->size)
		return;
	ahead_track_sample(w, now);
	ahead_track_resize(w, most, rsize);
}
