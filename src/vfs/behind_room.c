/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Write-behind: room in memory, and who waits for it. See behind.h. Room is counted by atomics, and
 * who finds some takes no lock. The pool's lock is for those who wait.
 */
#include <errno.h>
#include "vfs/behind_impl.h"

/* A file may have that many times what is free then. So a file that is alone gets 7/8 of the room,
 * two get 7/15 each, and there is always something left for one that comes. */
#define FREE_TIMES 7u
#define QUICK_COMMIT_NS 3000000u

/* ---- life ---- */

static void room_on_changed(void *ctx);

void behind_pool_init(struct behind_pool *p, struct arena *a, unsigned share)
{
	pthread_mutex_init(&p->mu, NULL);
	list_init(&p->waiting);
	p->arena = a;
	p->always[ARENA_MID] = a->counts.n[ARENA_MID] * share / 100;
	p->always[ARENA_BIG] = a->counts.n[ARENA_BIG] * share / 100;
	if (!share)
		return;
	room_on_changed(p);
	arena_tell(a, room_on_changed, p);
}

void behind_pool_stop(struct behind_pool *p)
{
	if (p->arena)
		arena_tell(p->arena, NULL, NULL);
}

void behind_pool_fini(struct behind_pool *p)
{
	pthread_mutex_destroy(&p->mu);
}

/* ---- room ---- */

/* New memory has to be cleared, and 16 MiB take longer than a COMMIT to a server that has nothing
 * to flush. Where it has, a COMMIT costs more the more often it comes. */
bool behind_rather_commits(const struct behind_pool *p)
{
	return !p->arena->more.n || atomic_load(&p->arena->more.full) ||
	       atomic_load_explicit(&p->commit_ns, memory_order_relaxed) < QUICK_COMMIT_NS;
}

/* With so many buffers taken by all files. */
static bool room_fits(struct behind_pool *p, const struct extents *x, enum arena_class cls,
		      unsigned taken)
{
	unsigned most = p->most[cls], mine = atomic_load(&x->taken[cls]);
	bool fits = taken < most && (mine == 0 || mine < FREE_TIMES * (most - taken));

	/* In time, so that nobody has to wait for it. */
	if (!fits || (taken >= most / 2 && !behind_rather_commits(p)))
		behind_room_wanted(p, cls);
	return fits;
}

static bool room_take_one(struct behind_pool *p, struct extents *x, enum arena_class cls)
{
	unsigned taken = atomic_load(&p->taken[cls]);

	do {
		if (!room_fits(p, x, cls, taken))
			return false;
	} while (!atomic_compare_exchange_weak(&p->taken[cls], &taken, taken + 1));
	atomic_fetch_add(&x->taken[cls], 1);
	return true;
}

static void room_give_one(struct behind_pool *p, struct extents *x, enum arena_class cls)
{
	atomic_fetch_sub(&x->taken[cls], 1);
	atomic_fetch_sub(&p->taken[cls], 1);
}

void behind_room_wanted(struct behind_pool *p, enum arena_class cls)
{
	arena_want(p->arena, cls);
}

/* Takes room for op's buffers. */
static bool room_take(struct behind_pool *p, struct vfs_op *op)
{
	struct extents *x = extents_of(op->ino);

	if (!room_take_one(p, x, op->data.buf[0]->cls))
		return false;
	if (!op->data.buf[1] || room_take_one(p, x, op->data.buf[1]->cls))
		return true;
	room_give_one(p, x, op->data.buf[0]->cls);
	return false;
}

bool behind_take_more(struct behind_pool *p, struct extents *x, enum arena_class cls)
{
	return !atomic_load(&p->nwaiting) && room_take_one(p, x, cls);
}

/* Of those that wait and would fit, the first one whose file has least: a program that writes much
 * does not keep another one from writing a little. */
static struct vfs_op *room_next_waiting_locked(struct behind_pool *p)
{
	struct vfs_op *best = NULL;

	list_for_each(n, &p->waiting) {
		struct vfs_op *op = held_of(n);
		const struct extents *x = extents_of(op->ino);

		if ((!best || x->taken[ARENA_MID] < extents_of(best->ino)->taken[ARENA_MID]) &&
		    room_fits(p, x, op->data.buf[0]->cls, p->taken[op->data.buf[0]->cls]) &&
		    (!op->data.buf[1] ||
		     room_fits(p, x, op->data.buf[1]->cls, p->taken[op->data.buf[1]->cls])))
			best = op;
	}
	return best;
}

/* Room has become free: as many of those that wait as fit get it. */
static void room_pass_on_locked(struct behind_pool *p)
{
	struct vfs_op *op;

	while ((op = room_next_waiting_locked(p)) && room_take(p, op)) {
		list_del(&op->data.held.node);
		atomic_fetch_sub(&p->nwaiting, 1);
		op->data.held.posted = true;
		loop_post(op->vl->lane->loop, &op->data.held.msg);
	}
}

/* The arena has grown, or given an extent back. On the keeper's thread. */
static void room_on_changed(void *ctx)
{
	struct behind_pool *p = ctx;
	bool less = false;
	size_t bytes;

	pthread_mutex_lock(&p->mu);
	for (int cls = ARENA_MID; cls <= ARENA_BIG; cls++)
		atomic_store(&p->most[cls],
			     p->always[cls] + arena_more(p->arena, (enum arena_class)cls));
	for (int cls = ARENA_MID; cls <= ARENA_BIG; cls++)
		less |= p->taken[cls] > p->most[cls];
	bytes = p->most[ARENA_MID] * ARENA_MID_SIZE + p->most[ARENA_BIG] * ARENA_BIG_SIZE;
	stat_set(&p->arena->more.stats, STAT_BEHIND_ROOM, bytes);
	room_pass_on_locked(p);
	pthread_mutex_unlock(&p->mu);
	/* The memory is wanted elsewhere. */
	if (less)
		behind_want_room(container_of(p, struct vfs, behind));
}

/* Room has become free. First that, then who waits; behind_has_room() does it the other way round.
 * So one of the two finds what the other has done. */
static void room_pass_on(struct behind_pool *p)
{
	if (!atomic_load(&p->nwaiting))
		return;
	pthread_mutex_lock(&p->mu);
	room_pass_on_locked(p);
	pthread_mutex_unlock(&p->mu);
}

void behind_give_one(struct behind_pool *p, struct extents *x, enum arena_class cls)
{
	room_give_one(p, x, cls);
	room_pass_on(p);
}

void behind_give_room(struct vfs_op *op)
{
	struct behind_pool *p = &op->vl->vfs->behind;
	struct extents *x = extents_of(op->ino);

	for (unsigned i = 0; i < RR_SEND_IOV && op->data.buf[i]; i++)
		room_give_one(p, x, op->data.buf[i]->cls);
	room_pass_on(p);
}

void behind_want_room(struct vfs *vfs)
{
	if (!atomic_load(&vfs->behind.bytes))
		return;
	for (unsigned i = 0; i < vfs->nlanes; i++)
		if (!atomic_exchange(&vfs->lanes[i]->room_wanted, true))
			loop_post(vfs->lanes[i]->lane->loop, &vfs->lanes[i]->room_msg);
}

bool behind_has_room(struct vfs_op *op, void (*on_room)(struct loop_msg *m))
{
	struct behind_pool *p = &op->vl->vfs->behind;

	if (!atomic_load(&p->nwaiting) && room_take(p, op))
		return true;
	pthread_mutex_lock(&p->mu);
	op->waits_room = true;
	op->data.held.msg.fn = on_room;
	list_add_tail(&p->waiting, &op->data.held.node);
	atomic_fetch_add(&p->nwaiting, 1);
	room_pass_on_locked(p);
	pthread_mutex_unlock(&p->mu);
	if (behind_rather_commits(p))
		behind_want_room(op->vl->vfs);
	return false;
}

bool behind_give_up(struct vfs_op *op)
{
	struct behind_pool *p = &op->vl->vfs->behind;
	bool mine = false;

	if (!op->waits_room)
		return false;
	pthread_mutex_lock(&p->mu);
	if (!op->data.held.posted) {
		list_del(&op->data.held.node);
		op->waits_room = false;
		atomic_fetch_sub(&p->nwaiting, 1);
		mine = true;
	}
	pthread_mutex_unlock(&p->mu);
	if (mine)
		vfs_end_with(op, -EINTR);
	return mine;
}
