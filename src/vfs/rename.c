/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rename. The new name may belong to a file that is open here. That file gets a second name
 * first (silly.c), and loses the old one when it is replaced:
 *
 *   rename(b, a), a open:   LINK a as .nfs1; RENAME b -> a   ... close: REMOVE .nfs1
 *                           (RENAME fails: REMOVE .nfs1; a was there all the time)
 *
 * If the server has no hard links, or refuses this one:
 *
 *                           RENAME a -> .nfs1; RENAME b -> a
 *                           (the second one fails: put a back)
 *
 * The request has the .nfs name until its end, so a close in between removes nothing. What
 * becomes of the name is decided once, by the result of the RENAME. If that is not known
 * (EIO), a file that was linked keeps both names until its last close. Then whatever is
 * called a by that time is right.
 *
 * The kernel locks both directories meanwhile, so nobody on this machine sees a missing.
 * But a process that is killed does not wait. Then others' operations may come between our
 * calls.
 */
#include <errno.h>
#include "vfs/vfs_impl.h"

/* ---- the rename itself ---- */

enum { LINKED, MOVED };         /* op->rm.step: how the victim got its silly name */

static void rename_ends(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;

	if (op->call.res.status == 0) {
		if (op->rm.silly)
			silly_keep(op, true);
		/* If the moved file is open and loses its new name, it must be found by that
		 * name. */
		inode_renamed(t, op->ino->id, op->name, op->ino2->id, op->name2);
	}
	silly_unpin(op);
	vfs_end(op);
}

static void rename_start(struct vfs_op *op);

static void rename_done(struct vfs_op *op)
{
	if (silly_wait(op, rename_start))
		return;
	if (op->call.res.status && op->rm.silly) {
		if (op->rm.step == MOVED) {
			silly_put_back(op, rename_ends);
			return;
		}
		if (vfs_maybe_done(op->call.res.status))
			silly_keep(op, false);
		else
			silly_drop(op);
	}
	rename_ends(op);
}

static void rename_start(struct vfs_op *op)
{
	silly_note(op, op->rm.emptied);
	remove_start_rename(op, op->ino, op->name, op->ino2, op->name2, op->rm.moved, rename_done);
}

/* ---- the target gets out of the way ---- */

static void rename_target_moved(struct vfs_op *op)
{
	switch (op->call.res.status) {
	case 0:
		rename_start(op);
		return;
	case -ENOENT:           /* the new name was free already */
		silly_forget(op);
		rename_start(op);
		return;
	case -EIO:
	case -ETIMEDOUT:
	case -ESHUTDOWN:
		silly_put_back(op, rename_ends);
		return;
	default:
		vfs_end(op);
	}
}

static void rename_target_linked(struct vfs_op *op)
{
	switch (op->call.res.status) {
	case 0:
	case -EEXIST:           /* the name is ours alone: an earlier sending was executed */
		rename_start(op);
		return;
	case -ENOENT:
	case -ESTALE:           /* another client has removed the file already */
		silly_forget(op);
		rename_start(op);
		return;
	case -EIO:
	case -ETIMEDOUT:
	case -ESHUTDOWN:
		silly_drop(op);
		vfs_end(op);
		return;
	case -ENOSPC:
	case -EDQUOT:
	case -EROFS:
	case -EINTR:            /* given up before it was sent */
		vfs_end(op);
		return;
	default:
		op->rm.step = MOVED;
		remove_start_rename(op, op->ino2, op->name2, op->ino2, op->rm.silly->name, op->rm.victim,
				rename_target_moved);
	}
}

/* If the target is another file than the source, silly_pin() decides: if it is open it must
 * not simply lose its name, and if it is closed it must not be opened meanwhile. */
static void rename_look_at_target(struct vfs_op *op, struct inode *target)
{
	if (!target)
		return;
	if (S_ISDIR(target->type))
		op->rm.emptied = target;
	else if (target != op->rm.moved)
		silly_pin(op, target);
	else
		inode_put(&op->vl->vfs->inodes, target, 1);
}

/* target: a reference to what has the new name; or NULL. */
static void rename_onto(struct vfs_op *op, struct inode *target)
{
	rename_look_at_target(op, target);
	if (!op->rm.victim) {
		rename_start(op);
		return;
	}
	op->rm.silly = silly_new(op, op->ino2);
	if (!op->rm.silly) {
		vfs_end_with(op, -ENOMEM);
		return;
	}
	op->rm.step = LINKED;
	silly_link(op, rename_target_linked);
}

static void rename_target_looked(struct vfs_op *op)
{
	if (op->call.res.status == -ENOENT)
		rename_onto(op, NULL);
	else if (op->call.res.status)
		vfs_end(op);
	else
		rename_onto(op, remove_name_found(op, op->ino2, op->name2));
}

/* Would this take a silly name from its file, or put another file in its place? See silly.c.
 * If nobody knows whose name it is, it may be in use. */
static bool rename_takes_silly(struct vfs_op *op)
{
	struct vfs *vfs = op->vl->vfs;

	if (silly_is_ours(vfs, op->name2))
		return true;
	if (!silly_is_ours(vfs, op->name))
		return false;
	return op->rm.moved ? opencount_silly_is(&vfs->inodes, op->rm.moved, op->name) :
			  inode_names_missing(&vfs->inodes);
}

static void rename_find_target(struct vfs_op *op)
{
	struct inode *target;

	if (!remove_name_asked(op, op->ino2, op->name2, &target, rename_target_looked))
		rename_onto(op, target);
}

/* What was written to the file that is moved comes before that: a program that replaces a file
 * by a new one expects the new data under the name. */
static void rename_look_and_start(struct vfs_op *op)
{
	op->rm.moved = inode_find(&op->vl->vfs->inodes, op->ino->id, op->name);
	if (rename_takes_silly(op))
		vfs_end_with(op, -EBUSY);
	else
		behind_settle(op, op->rm.moved, true, rename_find_target);
}

void vfs_rename(struct vfs_op *op)
{
	op_remove_begins(op);
	op->rm.home = op->ino2;
	op->rm.home_name = op->name2;
	vfs_in_turn(op, rename_look_and_start);
}
