/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CREATE, which opens what has the name if that exists, and with O_TRUNC truncates it. What is held of
 * a file (behind.h) has to be on the server before, or it would be written afterwards. But by a name that
 * is thought to be free nobody knows which file that is: another client may have given it to one that
 * is open here by another name. So CREATE with O_TRUNC makes a new file or none:
 *
 *      CREATE (GUARDED): a new file, the end
 *             EEXIST --> CREATE (UNCHECKED), which truncates nothing: opens inode 7, or makes it
 *                        what is held of 7 is on stable storage --> SETATTR of 7: size 0
 *
 * Who else can act in between:
 *
 *   others rename, remove or make the name    CREATE opens something in any case, and SETATTR is
 *        by its handle. A version 3 server without its reply cache says EEXIST for the file that an
 *        earlier sending has made: that one is opened and truncated as well.
 *   others write to the file, here or elsewhere    Before it is truncated, or after that. So does the
 *        kernel when it writes back what a mapping has changed: it stops that for a truncation of
 *        its own, but does not know of this one.
 *   nobody waits any more    Nothing is truncated; once SETATTR is sent, other changes of the file
 *        wait for it (start.c).
 */
#include <errno.h>
#include <fcntl.h>
#include "vfs/vfs_impl.h"

static void create_fails(struct vfs_op *op, struct inode *ino, int status)
{
	file_undo(op->vl, ino, op->call.open, &op->cred);
	op->call.open = NULL;
	vfs_end_with(op, status);
}

/* `cut` is the SETATTR of the size. */
static void create_was_cut(struct vfs_op *cut)
{
	struct vfs_op *op = cut->call.owner;

	if (cut->call.res.status) {
		create_fails(op, cut->ino, cut->call.res.status);
	} else {
		op->call.res.attr = cut->call.res.attr;
		op->start_ns = cut->call.eng.start_ns;
		vfs_end(op);
	}
	vfs_op_free(cut);
}

static void create_cuts(struct vfs_op *cut)
{
	const struct vfs_op *op = cut->call.owner;

	if (op->given_up) {
		vfs_end_with(cut, -EINTR);
		return;
	}
	vfs_hold(cut);
	vfs_setattr(cut, false);
}

static void create_cuts_in_turn(struct vfs_op *cut)
{
	vfs_in_turn(cut, create_cuts);
}

static void create_cut(struct vfs_op *op, struct inode *ino)
{
	struct vfs_op *cut = vfs_op_quiet(op->vl, ino, &op->cred);

	if (!cut) {
		create_fails(op, ino, -ENOMEM);
		return;
	}
	cut->call.owner = op;
	cut->end = create_was_cut;
	cut->call.args.sattr = (struct nfs_sattr){ .valid = NFS_SET_SIZE };
	/* If the file is new after all, its mode may forbid this, but the open allows it. */
	if ((op->call.args.file.flags & O_ACCMODE) != O_RDONLY)
		cut->call.open = op->call.open;
	behind_settle(cut, ino, true, create_cuts_in_turn);
}

/* What is no regular file the front end does not take. */
static void create_found(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	const struct nfs_results *res = &op->call.res;
	struct inode *ino;

	if (res->status || !S_ISREG(res->attr.mode)) {
		vfs_end(op);
		return;
	}
	ino = inode_get_untold(t, &res->fh, &res->attr);
	if (!ino) {
		vfs_end_with(op, -ENOMEM);
		return;
	}
	create_cut(op, ino);
	inode_put(t, ino, 1);
}

static void create_done(struct vfs_op *op)
{
	int *flags = &op->call.args.file.flags;

	if (op->call.res.status != -EEXIST || (*flags & (O_TRUNC | O_EXCL)) != O_TRUNC || op->given_up) {
		vfs_end(op);
		return;
	}
	*flags &= ~O_TRUNC;
	vfs_start(op, NFS_OP_CREATE, create_found);
}

void vfs_create(struct vfs_op *op)
{
	vfs_start(op, NFS_OP_CREATE, create_done);
}
