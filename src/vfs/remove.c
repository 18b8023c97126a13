/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unlink and rmdir. If the file is open, unlink renames it instead (silly.c):
 *
 *   unlink(a), a open:      RENAME a -> .nfs1               ... close: REMOVE .nfs1
 *
 *   rmdir(d), just after the last close of a file that was unlinked in d: close() does not
 *           wait for REMOVE .nfs1, so rmdir does. Its request has a timer; if the mount
 *           ends meanwhile, the request is freed with the lane.
 */
#include <errno.h>
#include "vfs/vfs_impl.h"

void remove_start_rename(struct vfs_op *op, struct inode *from, const char *name, struct inode *to,
		     const char *newname, const struct inode *moved,
		     void (*done)(struct vfs_op *op))
{
	op->call.args.fh = &from->file.fh;
	op->call.args.fh2 = &to->file.fh;
	op->call.args.name = name;
	op->call.args.name2 = newname;
	op->call.args.ren.moved = moved ? &moved->file.fh : NULL;
	vfs_start(op, NFS_OP_RENAME, done);
}

/* ---- a name that is not remembered ---- */

bool remove_name_asked(struct vfs_op *op, struct inode *dir, const char *name, struct inode **ino,
		   void (*done)(struct vfs_op *op))
{
	struct inode_table *t = &op->vl->vfs->inodes;

	*ino = inode_find(t, dir->id, name);
	if (*ino || !inode_names_missing(t))
		return false;
	op->call.args.fh = &dir->file.fh;
	op->call.args.name = name;
	vfs_start(op, NFS_OP_LOOKUP, done);
	return true;
}

/* A file that is not in the table is not open. */
struct inode *remove_name_found(struct vfs_op *op, struct inode *dir, const char *name)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	struct inode *ino = inode_by_fh(t, &op->call.res.fh);

	if (ino)
		inode_named(t, ino, dir->id, name);
	return ino;
}

/* ---- unlink ---- */

static void remove_silly_done(struct vfs_op *op)
{
	if (op->call.res.status == 0)
		silly_keep(op, true);
	else if (op->rm.silly && vfs_maybe_done(op->call.res.status)) {
		silly_put_back(op, vfs_end);
		return;
	}
	vfs_end(op);
}

static void remove_unlinked(struct vfs_op *op)
{
	if (op->call.res.status == 0)
		inode_unnamed(&op->vl->vfs->inodes, op->ino->id, op->name);
	silly_unpin(op);
	vfs_end(op);
}

/* ino: a reference, or NULL. */
static void remove_name_of(struct vfs_op *op, struct inode *ino)
{
	op->call.args.name = op->name;
	silly_pin(op, ino);
	if (op->rm.pinned && opencount_silly_is(&op->vl->vfs->inodes, op->rm.pinned, op->name)) {
		vfs_end_with(op, -EBUSY);   /* the last close removes it */
		return;
	}
	if (!op->rm.victim) {
		vfs_start(op, NFS_OP_REMOVE, remove_unlinked);
		return;
	}
	op->rm.home = op->ino;
	op->rm.home_name = op->name;
	op->rm.silly = silly_new(op, op->ino);
	if (!op->rm.silly) {
		vfs_end_with(op, -ENOMEM);
		return;
	}
	remove_start_rename(op, op->ino, op->name, op->ino, op->rm.silly->name, op->rm.victim,
			remove_silly_done);
}

static void remove_looked(struct vfs_op *op)
{
	if (op->call.res.status)
		vfs_end(op);
	else
		remove_name_of(op, remove_name_found(op, op->ino, op->name));
}

static void remove_start_unlink(struct vfs_op *op)
{
	struct inode *ino;

	if (!remove_name_asked(op, op->ino, op->name, &ino, remove_looked))
		remove_name_of(op, ino);
}

void vfs_unlink(struct vfs_op *op)
{
	op_remove_begins(op);
	vfs_in_turn(op, remove_start_unlink);
}

/* ---- rmdir ---- */

static void remove_rmdir_done(struct vfs_op *op);

static void remove_start_rmdir(struct vfs_op *op)
{
	silly_note(op, op->ino2);
	vfs_start(op, NFS_OP_RMDIR, remove_rmdir_done);
}

static void remove_rmdir_done(struct vfs_op *op)
{
	if (silly_wait(op, remove_start_rmdir))
		return;
	if (op->call.res.status == 0)
		inode_unnamed(&op->vl->vfs->inodes, op->ino->id, op->name);
	vfs_end(op);
}

static void remove_find_and_rmdir(struct vfs_op *op)
{
	op->ino2 = inode_find(&op->vl->vfs->inodes, op->ino->id, op->name);
	remove_start_rmdir(op);
}

void vfs_rmdir(struct vfs_op *op)
{
	op_remove_begins(op);
	op->call.args.name = op->name;
	vfs_in_turn(op, remove_find_and_rmdir);
}
