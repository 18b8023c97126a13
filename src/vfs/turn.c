/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Operations that are given up, because their process is killed, and whose turn it is meanwhile.
 *
 * While an operation changes an inode, the kernel holds that inode's lock. So the server
 * executes changes of one inode in the order in which programs made them. The answer to one
 * that is given up (EINTR) ends the lock. But its call may be at the
 * server, or wait for a new connection to be sent again. If it was executed late, old data
 * would replace newer data that fsync() has promised, and a new file would be removed by
 * somebody who meant the one before it.
 *
 *   nothing sent yet    the call is taken back, or never started: the server does not
 *                       hear of the change
 *   sent                the operation takes over the kernel's lock: it *holds* its inodes
 *                       until it is freed. Others that change one of them wait.
 *
 * Who waits, and for whom: an operation waits before the first call that changes something
 * (vfs_in_turn), and only for those that hold. One that holds has sent such a call,
 * so it never waits here. So there is no deadlock. What reads is never held up.
 *
 * Threads: `held` is counted before the answer leaves, and the kernel starts nothing
 * under that lock before it has the answer. So any lane that gets one sees the count.
 */
#include <errno.h>
#include "vfs/vfs_impl.h"

static bool turn_is_held(const struct vfs_op *op)
{
	return (op->ino && atomic_load(&op->ino->held)) || (op->ino2 && atomic_load(&op->ino2->held));
}

static void on_turn(struct loop_timer *t)
{
	struct vfs_op *op = container_of(t, struct vfs_op, call.eng.timer);

	vfs_in_turn(op, op->go);
}

void vfs_in_turn(struct vfs_op *op, void (*go)(struct vfs_op *op))
{
	if (op->given_up || op->changes || !turn_is_held(op)) {
		go(op);
		return;
	}
	op->go = go;
	loop_timer_init(&op->call.eng.timer, on_turn);
	vfs_wait_more(op);
}

/* Only the first call that changes something is taken back. A later one is part of a
 * change that has begun, or puts things in order. */
static bool turn_take_back(struct vfs_op *op)
{
	return op->calling && op->changes <= vfs_is_change(&op->call) && nfs_take_back(&op->call, -EINTR);
}

static void turn_count(struct vfs_op *op, int n)
{
	if (op->ino)
		atomic_fetch_add(&op->ino->held, (unsigned)n);
	if (op->ino2)
		atomic_fetch_add(&op->ino2->held, (unsigned)n);
}

void vfs_hold(struct vfs_op *op)
{
	op->holds = true;
	op->changes += !op->changes;
	turn_count(op, 1);
}

bool vfs_give_up(struct vfs_op *op)
{
	op->given_up = true;
	if (behind_give_up(op) || turn_take_back(op))
		return true;
	if (op->changes && !op->holds)
		vfs_hold(op);
	op->waited = false;
	return false;
}

void vfs_hold_ends(struct vfs_op *op)
{
	if (op->holds)
		turn_count(op, -1);
	op->holds = false;
}
