/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * WRITEs that no write() has asked for (src/ring): the kernel does not know of them. Its pages and
 * attributes of the file are old then, and it drops them before the WRITE is done:
 *
 *   it has none           done at once: so it is for who only writes
 *   it has some           a thread of dropper.h tells it. Not the lane: the kernel may be dropping the
 *                         inode, and wait for a page that this very lane has to bring
 *
 * It writes pages that a mapping has dirtied when it drops them. So it drops those before the WRITE: the
 * other way round old bytes of the same page would replace what the WRITE has brought.
 *
 * A read() that waits for its answer is not to miss it (believed.h), so it may be some milliseconds
 * later. Nobody gives up a WRITE meanwhile that is executed; one that was not sent may end with EINTR.
 */
#include "fuse/fs_impl.h"

#define PAST_PAUSE_MS 1u

static void past_drop(struct fs_req *r);

static void past_ends(struct fs_req *r)
{
	r->past_then(&r->op);
}

static void on_past_again(struct loop_timer *t)
{
	past_drop(fs_req_of(container_of(t, struct vfs_op, call.eng.timer)));
}

static void past_dropped(struct fs_req *r)
{
	if (r->drop.how != FORGET_LATER) {
		past_ends(r);
		return;
	}
	loop_timer_init(&r->op.call.eng.timer, on_past_again);
	loop_timer_set(r->op.vl->lane->loop, &r->op.call.eng.timer, PAST_PAUSE_MS);
}

static void past_drop(struct fs_req *r)
{
	r->drop.dropped = past_dropped;
	/* The mount ends, or there is no thread: it drops them when it sees another mtime. */
	if (!dropper_drop(r))
		past_ends(r);
}

void fs_writes_past(struct vfs_op *op, void (*then)(struct vfs_op *op))
{
	struct fs_req *r = fs_req_of(op);

	r->past_then = then;
	r->forget_until_ns = mono_ns() + 2 * BELIEVED_TAKEN_NS;
	if (believed_may_be_dirty(op->ino))
		past_drop(r);
	else
		past_ends(r);
}

void fs_written_past(struct vfs_op *op, void (*then)(struct vfs_op *op))
{
	struct inode *ino = op->ino;
	struct fs_req *r = fs_req_of(op);

	if (op->call.res.status)
		readback_spoil(ino);    /* the server may have executed it */
	believed_reached_past(&op->vl->vfs->inodes, ino, op->data.start + op->data.filled);
	believed_written_past(ino);
	r->past_then = then;
	r->forget_until_ns = mono_ns() + 2 * BELIEVED_TAKEN_NS;
	if (believed_forgotten(&op->vl->vfs->inodes, ino))
		past_ends(r);
	else
		past_drop(r);
}
