/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel is told to forget the attributes of a file: it asks before it uses them again, and so sees
 * another mtime, and drops the file's pages. For a LOCK they are dropped before its answer (dropper.h).
 *
 * To be told makes it ignore what it has asked for before. OPEN and LOCK promise what a read() has to
 * see, and that read() must not lose its answer because another one opens or locks the file then
 * (believed.h):
 *
 *   OPEN, LOCK --believed_forget_begins()--> it has forgotten already: nothing
 *                  |     ^                   it may forget:            told, at once, or by dropper.h
 *             a read() may lose its answer: it looks each millisecond, for 100 at most
 *
 * The lane's thread, which blocks nowhere. A request that waits here has what it has asked for, and is
 * answered soon: so who gives it up ends the wait, and not the request. (While dropper.h has it, it is
 * answered, and goes on.) A write() that is refused waits here, too.
 */
#include "fuse/fs_impl.h"

static void forget_tell(struct fs_req *r)
{
	struct fs *fs = fs_of_req(r);

	/* Offset -1 invalidates only the attributes, and does not block, while the kernel waits for r. */
	if (r->req)
		fuse_lowlevel_notify_inval_inode(fs->se, fs_node(fs, r->op.ino), -1, 0);
	believed_forget_ends(r->op.ino);
}

void fs_forget_attr(struct fs_req *r)
{
	if (believed_forget_begins(&r->op.vl->vfs->inodes, r->op.ino, false) == FORGET_TELL)
		forget_tell(r);
}

static void forget_ends(struct fs_req *r)
{
	r->op.pause_ends = NULL;
	atomic_fetch_sub(&believed_of(r->op.ino)->differing, 1);
	r->forgotten(r);
}

static void forget_pause_ends(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);

	loop_timer_clear(&op->call.eng.timer);
	fs_forget_attr(r);
	forget_ends(r);
}

/* The kernel has been dropping pages for another LOCK for long. */
#define FORGET_PAUSE_MS 20u

static void forget_later(struct fs_req *r)
{
	bool soon = mono_ns() < r->forget_until_ns;

	r->op.pause_ends = forget_pause_ends;
	loop_timer_set(r->op.vl->lane->loop, &r->op.call.eng.timer, soon ? 1 : FORGET_PAUSE_MS);
}

static void forget_dropped(struct fs_req *r)
{
	if (r->drop.how == FORGET_LATER && r->req)
		forget_later(r);
	else
		forget_ends(r);
}

static void forget_drop(struct fs_req *r)
{
	r->op.pause_ends = NULL;
	r->drop.dropped = forget_dropped;
	if (dropper_drop(r))
		return;
	/* The next best: it drops them when it sees another mtime. */
	believed_written_past(r->op.ino);
	fs_forget_attr(r);
	forget_ends(r);
}

static void forget_try(struct fs_req *r)
{
	struct inode_table *t = &r->op.vl->vfs->inodes;
	bool waits = mono_ns() < r->forget_until_ns;
	enum believed_forget how = r->forgets_pages ? believed_lock_begins(t, r->op.ino, waits, false) :
				   believed_forget_begins(t, r->op.ino, waits);

	switch (how) {
	case FORGET_LATER:
		forget_later(r);
		return;
	case FORGET_DROP:
		forget_drop(r);
		return;
	case FORGET_TELL:
		forget_tell(r);
		break;
	case FORGET_DONE:
		break;
	}
	forget_ends(r);
}

static void on_forget(struct loop_timer *t)
{
	forget_try(fs_req_of(container_of(t, struct vfs_op, call.eng.timer)));
}

void fs_forget_then(struct fs_req *r, bool pages, void (*forgotten)(struct fs_req *r))
{
	r->forgotten = forgotten;
	r->forgets_pages = pages;
	r->forget_until_ns = mono_ns() + 2 * BELIEVED_TAKEN_NS;
	loop_timer_init(&r->op.call.eng.timer, on_forget);
	forget_try(r);
}
