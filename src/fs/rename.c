/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rename. The name to take may be that of a file that is open here; it gets a second
 * one first (silly.c), and loses the first by being replaced:
 *
 *   rename(b, a), a open:   LINK a as .nfs1; RENAME b -> a   ... close: REMOVE .nfs1
 *                           (fails: REMOVE .nfs1, and a has never been away)
 *
 * A server that has no links, or does not want one more here:
 *
 *                           RENAME a -> .nfs1; RENAME b -> a
 *                           (fails: put back)
 *
 * The .nfs name is the request's until the end: a close in between removes nothing,
 * and what is to become of it is decided once, by what has become of the RENAME.
 * When nobody can know (EIO), a that was linked keeps both names until its last
 * close: then whatever is called a is what should be.
 *
 * The kernel holds both directories meanwhile, so nobody on this machine sees a
 * gone. But a process that is killed does not wait: what others do then happens
 * between our calls.
 */
#include <errno.h>
#include "fs/fs_impl.h"

/* ---- the rename itself ---- */

enum { LINKED, MOVED };         /* r->step: how the victim got its silly name */

static void rename_ends(struct fs_req *r)
{
	struct inode_table *t = &r->fl->fs->inodes;

	if (r->call.res.status == 0) {
		if (r->silly)
			fs_silly_keep(r, true);
		/* It is to be found by the name that it has now, when it is open
		 * and that name goes. */
		inode_renamed(t, r->ino->id, r->name, r->ino2->id, r->name2);
	}
	fs_unpin(r);
	fs_done_status(r);
}

static void start_rename(struct fs_req *r);

static void rename_done(struct fs_req *r)
{
	fs_dir_changed(r->ino);
	fs_dir_changed(r->ino2);
	if (fs_silly_wait(r, start_rename))
		return;
	if (r->call.res.status && r->silly) {
		if (r->step == MOVED) {
			fs_put_back(r, rename_ends);
			return;
		}
		if (fs_maybe_done(r->call.res.status))
			fs_silly_keep(r, false);
		else
			fs_silly_drop(r);
	}
	rename_ends(r);
}

static void start_rename(struct fs_req *r)
{
	fs_silly_note(r, r->emptied);
	fs_start_rename(r, r->ino, r->name, r->ino2, r->name2, r->moved, rename_done);
}

/* ---- the target gets out of the way ---- */

static void target_moved(struct fs_req *r)
{
	fs_dir_changed(r->ino2);
	switch (r->call.res.status) {
	case 0:
		start_rename(r);
		return;
	case -ENOENT:           /* the name to take is free, and was so already */
		fs_silly_forget(r);
		start_rename(r);
		return;
	case -EIO:
	case -ETIMEDOUT:
	case -ESHUTDOWN:
		fs_put_back(r, rename_ends);
		return;
	default:
		fs_done_status(r);
	}
}

static void target_linked(struct fs_req *r)
{
	fs_dir_changed(r->ino2);
	switch (r->call.res.status) {
	case 0:
	case -EEXIST:           /* of this name there is one only: sent again */
		start_rename(r);
		return;
	case -ENOENT:
	case -ESTALE:           /* the file is gone already, by another client's doing */
		fs_silly_forget(r);
		start_rename(r);
		return;
	case -EIO:
	case -ETIMEDOUT:
	case -ESHUTDOWN:
		fs_silly_drop(r);
		fs_done_status(r);
		return;
	case -ENOSPC:
	case -EDQUOT:
	case -EROFS:
		fs_done_status(r);
		return;
	default:
		r->step = MOVED;
		fs_start_rename(r, r->ino2, r->name2, r->ino2, r->silly->name, r->victim,
				target_moved);
	}
}

/* Is the target another file than the source, and open? Then its name must
 * not simply be overwritten; and if it is not, it must not be opened meanwhile. */
static void look_at_target(struct fs *fs, struct fs_req *r)
{
	struct inode *target = inode_find(&fs->inodes, r->ino2->id, r->name2);

	if (!target)
		return;
	if (S_ISDIR(target->type))
		r->emptied = target;
	else if (target != r->moved)
		fs_pin(r, target);
	else
		inode_put(&fs->inodes, target, 1);
}

void fs_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
	       const char *newname, unsigned flags)
{
	struct fs *fs = fs_of(req);
	struct fs_req *r;

	if (flags) {            /* RENAME_NOREPLACE, RENAME_EXCHANGE: NFS has neither */
		fuse_reply_err(req, EINVAL);
		return;
	}
	r = fs_req_new(req, parent);
	if (!r || !fs_req_name(r, r->name, name) || !fs_req_name(r, r->name2, newname))
		return;
	if (!fs_req_ino2(r, newparent))
		return;
	r->home = r->ino2;
	r->home_name = r->name2;
	r->moved = inode_find(&fs->inodes, r->ino->id, r->name);
	look_at_target(fs, r);
	if (!r->victim) {
		start_rename(r);
		return;
	}
	r->silly = fs_silly_new(r, r->ino2);
	if (!r->silly) {
		fs_reply_err(r, ENOMEM);
		fs_req_free(r);
		return;
	}
	r->step = LINKED;
	fs_silly_link(r, target_linked);
}
