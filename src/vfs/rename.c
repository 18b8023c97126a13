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
#include "fuse/fs_impl.h"

/* ---- the rename itself ---- */

enum { LINKED, MOVED };         /* r->step: how the victim got its silly name */

static void rename_ends(struct fs_req *r)
{
	struct inode_table *t = &r->fl->fs->inodes;

	if (r->call.res.status == 0) {
		if (r->silly)
			fs_silly_keep(r, true);
		/* If the moved file is open and loses its new name, it must be found by that
		 * name. */
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
	case -ENOENT:           /* the new name was free already */
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
	case -EEXIST:           /* the name is ours alone: an earlier sending was executed */
		start_rename(r);
		return;
	case -ENOENT:
	case -ESTALE:           /* another client has removed the file already */
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
	case -EINTR:            /* given up before it was sent */
		fs_done_status(r);
		return;
	default:
		r->step = MOVED;
		fs_start_rename(r, r->ino2, r->name2, r->ino2, r->silly->name, r->victim,
				target_moved);
	}
}

/* If the target is another file than the source, fs_pin() decides: if it is open it must
 * not simply lose its name, and if it is closed it must not be opened meanwhile. */
static void look_at_target(struct fs_req *r, struct inode *target)
{
	if (!target)
		return;
	if (S_ISDIR(target->type))
		r->emptied = target;
	else if (target != r->moved)
		fs_pin(r, target);
	else
		inode_put(&r->fl->fs->inodes, target, 1);
}

/* target: a reference to what has the new name; or NULL. */
static void rename_onto(struct fs_req *r, struct inode *target)
{
	look_at_target(r, target);
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

static void target_looked(struct fs_req *r)
{
	if (r->call.res.status == -ENOENT)
		rename_onto(r, NULL);
	else if (r->call.res.status)
		fs_done_status(r);
	else
		rename_onto(r, fs_name_found(r, r->ino2, r->name2));
}

/* Would this take a silly name from its file, or put another file in its place? See silly.c.
 * If nobody knows whose name it is, it may be in use. */
static bool silly_in_use(struct fs_req *r)
{
	struct fs *fs = r->fl->fs;

	if (fs_silly_is_ours(fs, r->name2))
		return true;
	if (!fs_silly_is_ours(fs, r->name))
		return false;
	return r->moved ? inode_silly_is(&fs->inodes, r->moved, r->name) :
			  inode_names_missing(&fs->inodes);
}

static void find_target(struct fs_req *r)
{
	struct inode *target;

	if (!fs_name_asked(r, r->ino2, r->name2, &target, target_looked))
		rename_onto(r, target);
}

/* What was written to the file that is moved comes before that: a program that replaces a file
 * by a new one expects the new data under the name. */
static void look_and_start(struct fs_req *r)
{
	r->moved = inode_find(&r->fl->fs->inodes, r->ino->id, r->name);
	if (silly_in_use(r)) {
		fs_reply_err(r, EBUSY);
		fs_req_free(r);
	} else {
		fs_settle(r, r->moved, true, find_target);
	}
}

void fs_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
	       const char *newname, unsigned flags)
{
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
	fs_in_turn(r, look_and_start);
}
