/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who waits for a lock: see locks.h.
 *
 * LOCK is sent again, by a timer, with pauses that become longer. Meanwhile there is no call, so the
 * lane has its place for others. What is unlocked by this mount itself lets the first who waits for
 * some of it try at once, on whatever lane it is. So does CB_NOTIFY_LOCK, by which a server may say that
 * another client has unlocked it, and need not; it may even come before the answer that denies it.
 *
 *   lane 0: LOCKU has ended --woken, loop_post--> lane 1: locks_on_wake(): LOCK
 *
 * Those of one mount that wait for the same bytes stand in a queue:
 *
 *   its timer          if others that overlap sleep before it, it lets these try
 *   one was denied     the next one tries: what it wants may be free, or be shared with who has it.
 *                      (Without that the first one could wait for a lock of one behind it.)
 *   one was granted    to read: the next one tries. To write: not before that is unlocked
 *   one gives up       the next one tries
 *
 * An operation that is woken is taken out by its lane alone, from the message, the timer, or when it
 * is given up, whichever comes first; the message names the lane and not the operation. So nothing
 * points to an operation that has ended.
 */
#include <errno.h>
#include "vfs/vfs_impl.h"

#define POLL_MS        10u
#define POLL_SHIFT_MAX 7u               /* 1.28 s */

static void locks_pause_ends(struct vfs_op *op)
{
	op->pause_ends = NULL;
	loop_timer_clear(&op->call.eng.timer);
	locks_leave(op, false);
	vfs_end_with(op, -EINTR);
}

void locks_pause(struct vfs_op *op, unsigned ms, void (*again)(struct loop_timer *t))
{
	op->pause_ends = locks_pause_ends;
	loop_timer_init(&op->call.eng.timer, again);
	loop_timer_set(op->vl->lane->loop, &op->call.eng.timer, ms);
}

static bool locks_overlap(const struct op_lock *k, uint64_t start, uint64_t last)
{
	return k->start <= last && start <= k->last;
}

/* With mu: the first sleeper behind `at` that wants some of this. */
static void locks_wake_behind_locked(struct vfs_locks *l, struct list *at, uint64_t start, uint64_t last)
{
	for (struct list *n = at->next; n != &l->waiters; n = n->next) {
		struct vfs_op *op = container_of(n, struct vfs_op, lock.node);
		struct vfs_lane *vl = op->vl;

		if (!op->lock.asleep || !locks_overlap(&op->lock, start, last))
			continue;
		if (!op->lock.woken) {
			op->lock.woken = true;
			if (!atomic_exchange(&vl->locks_told, true))
				loop_post(vl->lane->loop, &vl->locks_msg);
		}
		return;
	}
}

void locks_wake_locked(struct vfs_locks *l, uint64_t start, uint64_t last)
{
	locks_wake_behind_locked(l, &l->waiters, start, last);
}

/* op, which sleeps, is awake. */
static void locks_get_up_locked(struct vfs_op *op)
{
	op->lock.asleep = op->lock.woken = false;
	op->pause_ends = NULL;
	loop_timer_clear(&op->call.eng.timer);
	list_del(&op->lock.lane_node);
}

/* Who is awake has tried already, and its answer may take as long as its lane has no connection. */
static bool locks_behind_others_locked(const struct vfs_locks *l, const struct vfs_op *op)
{
	for (const struct list *n = l->waiters.next; n != &op->lock.node; n = n->next) {
		const struct op_lock *k = &container_of(n, struct vfs_op, lock.node)->lock;

		if (k->asleep && locks_overlap(k, op->lock.start, op->lock.last))
			return true;
	}
	return false;
}

static void locks_on_poll(struct loop_timer *t)
{
	struct vfs_op *op = container_of(t, struct vfs_op, call.eng.timer);
	struct vfs_locks *l = locks_of(op->ino);
	bool stays;

	pthread_mutex_lock(&l->mu);
	stays = !op->lock.woken && locks_behind_others_locked(l, op);
	if (!stays)
		locks_get_up_locked(op);
	pthread_mutex_unlock(&l->mu);
	if (stays)
		locks_pause(op, POLL_MS << op->lock.shift, locks_on_poll);
	else
		locks_try(op);
}

void locks_sleep(struct vfs_op *op)
{
	struct vfs_locks *l = locks_of(op->ino);
	bool now;

	pthread_mutex_lock(&l->mu);
	if (!op->lock.queued)
		list_add_tail(&l->waiters, &op->lock.node);
	op->lock.queued = true;
	/* Something was unlocked since, and may have been it. */
	now = l->unlocks != op->lock.unlocks;
	if (!now) {
		op->lock.asleep = true;
		list_add_tail(&op->vl->lock_waits, &op->lock.lane_node);
		locks_pause(op, POLL_MS << op->lock.shift, locks_on_poll);
		op->lock.shift += op->lock.shift < POLL_SHIFT_MAX;
	}
	locks_wake_behind_locked(l, &op->lock.node, op->lock.start, op->lock.last);
	pthread_mutex_unlock(&l->mu);
	if (now)
		locks_try(op);
}

void locks_leave(struct vfs_op *op, bool granted)
{
	struct vfs_locks *l = locks_of(op->ino);

	if (!op->lock.queued)
		return;
	pthread_mutex_lock(&l->mu);
	if (op->lock.asleep)
		locks_get_up_locked(op);
	if (!granted || op->lock.type == NFS_RANGE_READ)
		locks_wake_behind_locked(l, &op->lock.node, op->lock.start, op->lock.last);
	list_del(&op->lock.node);
	op->lock.queued = false;
	pthread_mutex_unlock(&l->mu);
}

/* One that is woken, of this lane. */
static struct vfs_op *locks_woken(struct vfs_lane *vl)
{
	list_for_each_entry(struct vfs_op, op, &vl->lock_waits, lock.lane_node) {
		struct vfs_locks *l = locks_of(op->ino);
		bool woken;

		pthread_mutex_lock(&l->mu);
		woken = op->lock.woken;
		if (woken)
			locks_get_up_locked(op);
		pthread_mutex_unlock(&l->mu);
		if (woken)
			return op;
	}
	return NULL;
}

void locks_on_wake(struct loop_msg *m)
{
	struct vfs_lane *vl = container_of(m, struct vfs_lane, locks_msg);
	struct vfs_op *op;

	atomic_store(&vl->locks_told, false);
	while (vl->lane->front && (op = locks_woken(vl))) {
		op->lock.shift = 0;
		locks_try(op);
	}
}

/* The first who waits for some of what that owner was denied tries, or it itself when it is denied. */
static void locks_freed(struct vfs_locks *l, uint64_t number)
{
	pthread_mutex_lock(&l->mu);
	l->unlocks++;
	list_for_each_entry(struct vfs_op, op, &l->waiters, lock.node)
		if (op->lock.number == number) {
			locks_wake_locked(l, op->lock.start, op->lock.last);
			break;
		}
	pthread_mutex_unlock(&l->mu);
}

void locks_on_freed(struct vfs_lane *vl, const struct nfs_fh *fh, uint64_t number)
{
	struct inode_table *t = &vl->vfs->inodes;
	struct inode *ino = inode_by_fh(t, fh);

	if (!ino)
		return;
	stat_add(&vl->lane->stats, STAT_LOCKS_FREED, 1);
	if (locks_of(ino))
		locks_freed(locks_of(ino), number);
	inode_put(t, ino, 1);
}

void locks_lane_ends(struct vfs_lane *vl)
{
	list_for_each_entry_safe(struct vfs_op, op, tmp, &vl->lock_waits, lock.lane_node) {
		locks_leave(op, false);
		vfs_end_with(op, -ENOTCONN);
	}
}
