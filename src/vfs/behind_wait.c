/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: who waits for it, and the clock. See behind.h. */
#include "vfs/behind_impl.h"

/* A WRITE that is held is sent at this age, a LOOSE one is committed at that age: the kernel's
 * client leaves it that long as well. What the server loses until then is still here. */
#define SEND_NS   1000000000ull
#define COMMIT_NS 30000000000ull

/* ---- waiting ---- */

/* What does a wait for everything up to `upto` still wait for? */
static void look_locked(const struct behind *b, uint64_t upto, bool *unsent, bool *loose)
{
	*unsent = *loose = false;
	for (enum held_state s = HELD; s <= HELD_COMMITTING; s++) {
		const struct vfs_op *op = held_first(&b->in[s]);

		if (op && op->data.held.seq <= upto)
			*(held_unsent(op) ? unsent : loose) = true;
	}
}

bool behind_wake_locked(struct behind *b)
{
	bool commit = false;

	list_for_each_safe(n, tmp, &b->waits) {
		struct vfs_op *op = container_of(n, struct vfs_op, settle.node);
		bool unsent, loose;

		look_locked(b, op->settle.upto, &unsent, &loose);
		if (!unsent && !(loose && op->settle.stable)) {
			list_del(n);
			loop_post(op->vl->lane->loop, &op->settle.msg);
		}
		commit |= !unsent && loose && op->settle.stable;
	}
	return commit;
}

static void on_settled(struct loop_msg *m)
{
	struct vfs_op *op = container_of(m, struct vfs_op, settle.msg);

	op->settle.go(op);
}

/* Everything is to be sent. If it is a single WRITE, COMMIT can be saved. */
static void want_all_locked(struct behind *b)
{
	struct vfs_op *op;

	if (atomic_load(&b->count) == 1 && b->tree->data.held.state <= HELD_DUE)
		b->tree->data.held.stable = true;
	while ((op = held_first(&b->in[HELD])))
		behind_want_locked(b, op);
}

void behind_settle(struct vfs_op *op, struct inode *ino, bool stable, void (*go)(struct vfs_op *op))
{
	struct behind *b = ino ? behind_of(ino) : NULL;
	bool unsent, loose;

	if (!b || !atomic_load(&b->count)) {
		go(op);
		return;
	}
	pthread_mutex_lock(&b->mu);
	look_locked(b, b->seq, &unsent, &loose);
	if (!unsent && !(loose && stable)) {
		pthread_mutex_unlock(&b->mu);
		go(op);
		return;
	}
	op->settle = (struct settle){ .ino = ino, .upto = b->seq, .stable = stable, .go = go,
				     .msg.fn = on_settled };
	list_add_tail(&b->waits, &op->settle.node);
	want_all_locked(b);
	pthread_mutex_unlock(&b->mu);
	behind_progress(ino);
}

/* ---- time ---- */

/* Everything of that file that is as old is to be sent, or committed. true: nothing is held, and
 * the lane need not look at it any more. */
static bool want_old_locked(struct behind *b, uint64_t now, uint64_t send_ns, uint64_t commit_ns)
{
	struct vfs_op *op;

	while ((op = held_first(&b->in[HELD])) && now - op->data.held.since_ns >= send_ns)
		behind_want_locked(b, op);
	op = held_first(&b->in[HELD_LOOSE]);
	b->commit_wanted |= op && now - op->data.held.since_ns >= commit_ns;
	b->on_lane = atomic_load(&b->count) != 0;
	return !b->on_lane;
}

static void want_old(struct vfs_lane *vl, uint64_t now, uint64_t send_ns, uint64_t commit_ns)
{
	list_for_each_safe(n, tmp, &vl->held) {
		struct behind *b = container_of(n, struct behind, lane_node);
		struct inode *ino = b->ino;
		bool over;

		pthread_mutex_lock(&b->mu);
		over = want_old_locked(b, now, send_ns, commit_ns);
		if (over)
			list_del(&b->lane_node);
		pthread_mutex_unlock(&b->mu);
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
