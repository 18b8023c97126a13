/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arena grows and is given back: see arena.h.
 *
 * The keeper sleeps while there are no extents and nobody wants one. While there are some, it
 * looks once a second. An extent that was free and not used for a few looks in a row leaves.
 *
 * Who else can act in between:
 *
 *   a lane takes a buffer of an extent that is about to leave    Both happen under the depot's
 *        lock. It is LEAVING then, and gives out none; or it has a buffer out, and waits for it.
 *   a connection is set up on a new device       ops->add() and remove() and the registrations of
 *        a new device exclude each other (fabric.h). An extent is LIVE after add() has returned,
 *        and remove() is called when no buffer is out. So whoever has a buffer finds it
 *        registered.
 *   a device does not end its registration       A window of a connection that is being buried
 *        may still refer to it. The extent stays LEAVING, and the next look tries again.
 *   the machine runs short of memory             One extent leaves with each look, the topmost
 *        first, also if it is in use: no further buffers are given out, and whoever follows
 *        arena_more() has less room.
 */
#include "base/arena_impl.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Looks in a row. */
#define IDLE_LOOKS 5u
/* After how many looks an extent that failed is tried again: memory, and what a device or a limit
 * refuses. */
#define SHORT_LOOKS 10u
#define LIMIT_LOOKS 60u
/* What was given back for others is not taken again for so many: a connection tries again within
 * twelve seconds (nfs/paths.c). */
#define OTHERS_LOOKS 20u
/* The least memory that is left to others when an extent is taken. */
#define SPARE_LEAST ((int64_t)(2 * ARENA_EXTENT))

/* What an extent is cut into. A WRITE of a MiB has its first 64 KiB in a MID buffer, and the rest
 * in a BIG one. */
static const struct arena_counts for_large = { .n = { [ARENA_MID] = 15, [ARENA_BIG] = 15 } };
static const struct arena_counts for_small = { .n = { [ARENA_MID] = 256 } };

_Static_assert(15 * (ARENA_MID_SIZE + ARENA_BIG_SIZE) <= ARENA_EXTENT, "for_large");
_Static_assert(256 * ARENA_MID_SIZE <= ARENA_EXTENT, "for_small");

static uint64_t looks_ns(const struct arena_growth *g, unsigned n)
{
	return (uint64_t)n * g->ops->look_ms * 1000000;
}

static struct arena_range range_of(const struct arena_growth *g, const struct arena_extent *e)
{
	return (struct arena_range){
		(char *)g->range.base + (size_t)(e - g->extents) * ARENA_EXTENT, ARENA_EXTENT,
	};
}

/* ---- the depot; its lock is held ---- */

struct arena_buf *arena_take_extra(struct arena *a, int cls)
{
	struct arena_growth *g = &a->more;
	struct arena_extent *e;

	if (!g->free[cls])
		return NULL;
	for (e = &g->extents[g->lowest[cls]]; ; e++)
		if (atomic_load(&e->state) == ARENA_LIVE && !list_empty(&e->free[cls]))
			break;
	g->lowest[cls] = (unsigned)(e - g->extents);
	g->free[cls]--;
	e->out++;
	e->used = true;
	return container_of(list_pop(&e->free[cls]), struct arena_buf, node);
}

void arena_put_extra(struct arena *a, struct arena_buf *b)
{
	struct arena_growth *g = &a->more;
	struct arena_extent *e = b->extent;
	unsigned i = (unsigned)(e - g->extents);

	list_add_head(&e->free[b->cls], &b->node);
	e->out--;
	if (atomic_load(&e->state) != ARENA_LIVE)
		return;
	g->free[b->cls]++;
	if (i < g->lowest[b->cls])
		g->lowest[b->cls] = i;
}

/* ---- growing ---- */

static void extents_tell(struct arena_growth *g)
{
	pthread_mutex_lock(&g->told_mu);
	if (g->changed)
		g->changed(g->changed_ctx);
	pthread_mutex_unlock(&g->told_mu);
}

static void extents_count(const struct arena *a, struct arena_growth *g)
{
	stat_set(&g->stats, STAT_ARENA_BYTES, arena_bytes(&a->counts) + g->there * ARENA_EXTENT);
	stat_set(&g->stats, STAT_ARENA_MOST, arena_bytes(&a->counts) + g->most * ARENA_EXTENT);
	atomic_store(&g->full, g->there >= g->most);
}

/* Memory, cut into buffers, and registered. 0, or -errno with eb set. */
static int extents_make(struct arena_growth *g, struct arena_extent *e, struct errbuf *eb)
{
	struct arena_range r = range_of(g, e);
	struct arena_buf *b = calloc(e->counts.n[ARENA_MID] + e->counts.n[ARENA_BIG], sizeof(*b));
	int rc = b ? arena_populate(&r) : -ENOMEM;

	if (rc)
		err_set(eb, rc, "no memory: %s", strerror(-rc));
	else
		rc = g->ops->add(g->ctx, (unsigned)(e - g->extents), &r, eb);
	if (rc) {
		arena_depopulate(&r);
		free(b);
		return rc;
	}
	e->bufs = b;
	return 0;
}

/* Its buffers are for everybody from now on. */
static void extents_publish(struct arena *a, struct arena_extent *e)
{
	struct arena_growth *g = &a->more;
	struct arena_buf *b = e->bufs;
	char *at = range_of(g, e).base;
	unsigned i = (unsigned)(e - g->extents);

	pthread_mutex_lock(&a->mu);
	e->out = e->idle = 0;
	e->used = true;
	for (int cls = ARENA_SMALL; cls < ARENA_CLASSES; cls++) {
		unsigned n = e->counts.n[cls];
		struct arena_buf *end = arena_cut(b, &e->free[cls], (enum arena_class)cls, at, n);

		for (; b < end; b++) {
			b->extent = e;
			at += b->size;
		}
		g->free[cls] += n;
		g->live.n[cls] += n;
		if (n && i < g->lowest[cls])
			g->lowest[cls] = i;
	}
	atomic_store(&e->state, ARENA_LIVE);
	g->there++;
	for (int cls = ARENA_SMALL; cls < ARENA_CLASSES; cls++)
		arena_call_waiting(a, cls);
	pthread_mutex_unlock(&a->mu);
}

/* The arena cannot grow for a while. */
static void extents_limit(struct arena *a, unsigned most, unsigned looks)
{
	struct arena_growth *g = &a->more;

	g->most = most;
	g->again_ns = mono_ns() + looks_ns(g, looks);
	extents_count(a, g);
}

static void extents_refused(struct arena *a, unsigned looks)
{
	extents_limit(a, a->more.there, looks);
	stat_add(&a->more.stats, STAT_ARENA_REFUSED, 1);
}

static void say_limit(struct arena_growth *g, const char *why)
{
	if (!g->told_limit)
		log_warn("write-behind has %zu MiB of additional buffers and cannot get more: %s",
			 g->there * ARENA_EXTENT >> 20, why);
	g->told_limit = true;
}

static void say_short(struct arena_growth *g)
{
	if (!g->told_short)
		log_info("this machine is short of memory: write-behind keeps only %zu MiB of additional "
			 "buffers for now", g->there * ARENA_EXTENT >> 20);
	g->told_short = true;
}

/* true: there is one more. */
static bool add_one(struct arena *a, unsigned wanted)
{
	struct arena_growth *g = &a->more;
	struct arena_extent *e = g->extents;
	struct errbuf eb;

	if (g->there >= g->most)
		return false;
	if (g->ops->spare(g->ctx) < SPARE_LEAST) {
		say_short(g);
		extents_refused(a, SHORT_LOOKS);
		return false;
	}
	while (atomic_load(&e->state) != ARENA_AWAY)
		e++;
	e->counts = wanted & 1u << ARENA_BIG ? for_large : for_small;
	if (extents_make(g, e, &eb)) {
		say_limit(g, eb.text);
		extents_refused(a, LIMIT_LOOKS);
		return false;
	}
	extents_publish(a, e);
	stat_add(&g->stats, STAT_ARENA_GROWN, 1);
	extents_count(a, g);
	return true;
}

static void extents_grow(struct arena *a, unsigned wanted)
{
	bool more = add_one(a, wanted);

	/* What was asked for meanwhile is answered with that. From now on it is for the next one. */
	atomic_store(&a->more.wanted, 0);
	if (more)
		extents_tell(&a->more);
}

/* ---- giving back ---- */

/* With the depot's lock: no buffer is given out any more. */
static void leave_locked(struct arena_growth *g, struct arena_extent *e)
{
	for (int cls = ARENA_SMALL; cls < ARENA_CLASSES; cls++) {
		list_for_each(n, &e->free[cls])
			g->free[cls]--;
		g->live.n[cls] -= e->counts.n[cls];
	}
	atomic_store(&e->state, ARENA_LEAVING);
}

/* It is LEAVING, and nobody has a buffer. */
static void give_back(struct arena *a, struct arena_extent *e)
{
	struct arena_growth *g = &a->more;
	struct arena_range r = range_of(g, e);

	if (!g->ops->remove(g->ctx, (unsigned)(e - g->extents)))
		return;
	arena_depopulate(&r);
	for (int cls = 0; cls < ARENA_CLASSES; cls++)
		list_init(&e->free[cls]);
	free(e->bufs);
	e->bufs = NULL;
	stat_add(&g->stats, STAT_ARENA_GIVEN_BACK, 1);
	pthread_mutex_lock(&a->mu);
	g->there--;
	atomic_store(&e->state, ARENA_AWAY);
	pthread_mutex_unlock(&a->mu);
}

static void give_back_all(struct arena *a)
{
	struct arena_growth *g = &a->more;

	for (struct arena_extent *e = g->extents + g->n; e-- > g->extents; ) {
		bool over;

		pthread_mutex_lock(&a->mu);
		over = atomic_load(&e->state) == ARENA_LEAVING && !e->out;
		pthread_mutex_unlock(&a->mu);
		if (over)
			give_back(a, e);
	}
	extents_count(a, g);
}

/* all: everything has to leave. some: what is free, and the topmost. Otherwise what has not been
 * used for some time. true: something does. */
static bool extents_pick(struct arena *a, bool all, bool some)
{
	struct arena_growth *g = &a->more;
	bool any = false;

	pthread_mutex_lock(&a->mu);
	for (struct arena_extent *e = g->extents + g->n; e-- > g->extents; ) {
		if (atomic_load(&e->state) != ARENA_LIVE)
			continue;
		e->idle = e->out || e->used ? 0 : e->idle + 1;
		e->used = false;
		if (all || e->idle >= IDLE_LOOKS || (some && (!any || !e->out))) {
			leave_locked(g, e);
			any = true;
		}
	}
	pthread_mutex_unlock(&a->mu);
	return any;
}

static void extents_look(struct arena *a, uint64_t now, bool all)
{
	struct arena_growth *g = &a->more;
	bool is_short = g->there && g->ops->spare(g->ctx) < 0;

	/* Whoever wants the memory tries again before it is taken again. */
	if (all)
		extents_limit(a, 0, OTHERS_LOOKS);
	if (now >= g->look_ns)
		g->look_ns = now + looks_ns(g, 1);
	if (g->again_ns && now >= g->again_ns) {
		g->again_ns = 0;
		g->most = g->n;
	}
	if (is_short)
		say_short(g);
	/* Whoever follows has less room before the memory goes. */
	if (extents_pick(a, all, is_short))
		extents_tell(g);
	give_back_all(a);
}

/* ---- the keeper ---- */

/* With the depot's lock. Until there is something to do. */
static void wait_locked(struct arena *a)
{
	struct arena_growth *g = &a->more;
	struct timespec t = {
		.tv_sec = (time_t)(g->look_ns / 1000000000),
		.tv_nsec = (long)(g->look_ns % 1000000000),
	};
	int rc = 0;

	while (!g->stop && !g->give_back && !atomic_load(&g->wanted) && rc != ETIMEDOUT) {
		if (g->there || g->again_ns)
			rc = pthread_cond_timedwait(&g->cond, &a->mu, &t);
		else
			pthread_cond_wait(&g->cond, &a->mu);
	}
}

static void *keeper_main(void *arg)
{
	struct arena *a = arg;
	struct arena_growth *g = &a->more;

	pthread_mutex_lock(&a->mu);
	for (wait_locked(a); !g->stop; wait_locked(a)) {
		bool all = g->give_back;
		unsigned wanted = atomic_load(&g->wanted);
		uint64_t now = mono_ns();

		g->give_back = false;
		pthread_mutex_unlock(&a->mu);
		if (all || now >= g->look_ns)
			extents_look(a, now, all);
		if (wanted)
			extents_grow(a, wanted);
		pthread_mutex_lock(&a->mu);
	}
	pthread_mutex_unlock(&a->mu);
	return NULL;
}

/* ---- for others ---- */

void arena_want(struct arena *a, enum arena_class cls)
{
	struct arena_growth *g = &a->more;

	if (atomic_load(&g->full) || atomic_load(&g->wanted) & 1u << cls)
		return;
	pthread_mutex_lock(&a->mu);
	atomic_fetch_or(&g->wanted, 1u << cls);
	pthread_cond_signal(&g->cond);
	pthread_mutex_unlock(&a->mu);
}

void arena_give_back(struct arena *a)
{
	struct arena_growth *g = &a->more;

	pthread_mutex_lock(&a->mu);
	g->give_back = g->there > 0;
	pthread_cond_signal(&g->cond);
	pthread_mutex_unlock(&a->mu);
}

unsigned arena_more(struct arena *a, enum arena_class cls)
{
	unsigned n;

	pthread_mutex_lock(&a->mu);
	n = a->more.live.n[cls];
	pthread_mutex_unlock(&a->mu);
	return n;
}

void arena_tell(struct arena *a, void (*changed)(void *ctx), void *ctx)
{
	struct arena_growth *g = &a->more;

	pthread_mutex_lock(&g->told_mu);
	g->changed = changed;
	g->changed_ctx = ctx;
	pthread_mutex_unlock(&g->told_mu);
}

int arena_extent_of(const struct arena *a, const void *mem, size_t len)
{
	const struct arena_growth *g = &a->more;
	size_t at = (uintptr_t)mem - (uintptr_t)g->range.base, i = at >> ARENA_EXTENT_BITS;

	if (at >= g->range.len || len > ARENA_EXTENT - at % ARENA_EXTENT ||
	    atomic_load_explicit(&g->extents[i].state, memory_order_acquire) == ARENA_AWAY)
		return -1;
	return (int)i;
}

/* ---- life ---- */

void arena_growth_init(struct arena *a)
{
	struct arena_growth *g = &a->more;
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->cond, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&g->told_mu, NULL);
	extents_count(a, g);
}

int arena_grows(struct arena *a, unsigned n, const struct arena_keeper_ops *ops, void *ctx)
{
	struct arena_growth *g = &a->more;
	int rc;

	if (!n)
		return 0;
	n = n < ARENA_EXTENTS_MAX ? n : ARENA_EXTENTS_MAX;
	g->extents = calloc(n, sizeof(*g->extents));
	if (!g->extents)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		for (int cls = 0; cls < ARENA_CLASSES; cls++)
			list_init(&g->extents[i].free[cls]);
	g->range.len = n * ARENA_EXTENT;
	g->range.base = arena_reserve(g->range.len);
	if (!g->range.base) {
		rc = -errno;
		g->range.len = 0;
		return rc;
	}
	g->ops = ops;
	g->ctx = ctx;
	g->n = g->most = n;
	rc = thread_start(&g->tid, keeper_main, a);
	g->started = rc == 0;
	if (!rc)
		extents_count(a, g);
	return rc;
}

void arena_stop_growing(struct arena *a)
{
	struct arena_growth *g = &a->more;

	if (!g->started)
		return;
	atomic_store(&g->full, true);
	pthread_mutex_lock(&a->mu);
	g->stop = true;
	pthread_cond_signal(&g->cond);
	pthread_mutex_unlock(&a->mu);
	pthread_join(g->tid, NULL);
	g->started = false;
}

void arena_growth_fini(struct arena *a)
{
	struct arena_growth *g = &a->more;

	arena_stop_growing(a);
	for (unsigned i = 0; i < g->n; i++)
		free(g->extents[i].bufs);
	free(g->extents);
	arena_unmap(&g->range);
	pthread_cond_destroy(&g->cond);
	pthread_mutex_destroy(&g->told_mu);
}
