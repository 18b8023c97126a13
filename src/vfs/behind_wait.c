/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: who waits for it, and the clock. See behind.h. */
#include "vfs/behind_impl.h"

/* A WRITE that is held is sent at this age, a LOOSE one is committed at that age: the kernel's
 * client leaves it that long as well. What the server loses until then is still here. */
#define SEND_NS   1000000000ull
#define COMMIT_NS 30000000000ull

/* ---- waiting ---- */

/* What does a wait for everything up to `upto` still wait for? */
static void look_locked(const struct extents *x, uint64_t upto, bool *unsent, bool *loose)
{
	*unsent = *loose = false;
	for (enum held_state s = HELD; s <= HELD_COMMITTING; s++) {
		const struct vfs_op *op = held_first(&x->in[s]);

		if (op && op->data.held.seq <= upto)
			*(held_unsent(op) ? unsent : loose) = true;
	}
}

bool behind_wake_locked(struct extents *x)
{
	bool commit = false;

	list_for_each_safe(n, tmp, &x->waits) {
		struct vfs_op *op = container_of(n, struct vfs_op, settle.node);
		bool unsent, loose;

		if (op->settle.piece)
			continue;
		look_locked(x, op->settle.upto, &unsent, &loose);
		if (!unsent && !(loose && op->settle.stable))
			extents_wake_locked(op);
		commit |= !unsent && loose && op->settle.stable;
	}
	return commit;
}

/* Everything is to be sent. If it is a single WRITE, COMMIT can be saved. */
static void want_all_locked(struct extents *x)
{
	struct vfs_op *op;

	if (atomic_load(&x->count) == 1 && x->tree->data.held.state <= HELD_DUE)
		x->tree->data.held.stable = true;
	while ((op = held_first(&x->in[HELD])))
		behind_set_locked(x, op, HELD_DUE);
}

void behind_settle_held(struct vfs_op *op, struct inode *ino, bool stable, void (*go)(struct vfs_op *op))
{
	struct extents *x = extents_of(ino);
	bool unsent, loose;

	pthread_mutex_lock(&x->mu);
	look_locked(x, x->seq, &unsent, &loose);
	if (!unsent && !(loose && stable)) {
		pthread_mutex_unlock(&x->mu);
		go(op);
		return;
	}
	op->settle = (struct settle){ .upto = x->seq, .stable = stable };
	extents_wait_locked(x, op, go);
	want_all_locked(x);
	pthread_mutex_unlock(&x->mu);
	behind_progress(ino);
}

/* ---- time ---- */

/* Everything of that file that is as old is to be sent, or committed. true: nothing is held, and
 * the lane need not look at it any more. */
static bool want_old_locked(struct extents *x, uint64_t now, uint64_t send_ns, uint64_t commit_ns)
{
	struct vfs_op *op;

	while ((op = held_first(&x->in[HELD])) && now - op->data.held.since_ns >= send_ns)
		behind_set_locked(x, op, HELD_DUE);
	op = held_first(&x->in[HELD_LOOSE]);
	x->commit_wanted |= op && now - op->data.held.since_ns >= commit_ns;
	x->on_lane = atomic_load(&x->count) != 0;
	return !x->on_lane;
}

static void want_old(struct vfs_lane *vl, uint64_t now, uint64_t send_ns, uint64_t commit_ns)
{
	list_for_each_safe(n, tmp, &vl->held) {
		struct extents *x = container_of(n, struct extents, lane_node);
		struct inode *ino = x->ino;
		bool over;

		pthread_mutex_lock(&x->mu);
		over = want_old_locked(x, now, send_ns, commit_ns);
		if (over)
			list_del(&x->lane_node);
		pthread_mutex_unlock(&x->mu);
		if (over)
			inode_put(&vl->vfs->inodes, ino, 1);
		else
			behind_progress(ino);
	}
}

void behind_tick(struct vfs_lane *vl, uint64_t now_ns)
{
	struct behind_pool *p = &vl->vfs->behind;
	/* The room was to grow, and does not. */
	bool now = atomic_load(&p->nwaiting) && behind_rather_commits(p);

	behind_move_all(vl, now_ns);
	want_old(vl, now_ns, now ? 0 : SEND_NS, now ? 0 : COMMIT_NS);
}

void behind_on_room(struct loop_msg *m)
{
	struct vfs_lane *vl = container_of(m, struct vfs_lane, room_msg);

	atomic_store(&vl->room_wanted, false);
	behind_want_everything(vl);
}

void behind_want_everything(struct vfs_lane *vl)
{
	want_old(vl, mono_ns(), 0, 0);
}
