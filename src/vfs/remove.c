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
#include "fuse/fs_impl.h"

void fs_start_rename(struct fs_req *r, struct inode *from, const char *name, struct inode *to,
		     const char *newname, const struct inode *moved,
		     void (*done)(struct fs_req *r))
{
	r->call.args.fh = &from->fh;
	r->call.args.fh2 = &to->fh;
	r->call.args.name = name;
	r->call.args.name2 = newname;
	r->call.args.ren.moved = moved ? &moved->fh : NULL;
	fs_req_start(r, NFS_OP_RENAME, done);
}

/* ---- a name that is not remembered ---- */

bool fs_name_asked(struct fs_req *r, struct inode *dir, const char *name, struct inode **ino,
		   void (*done)(struct fs_req *r))
{
	struct inode_table *t = &r->fl->fs->inodes;

	*ino = inode_find(t, dir->id, name);
	if (*ino || !inode_names_missing(t))
		return false;
	r->call.args.fh = &dir->fh;
	r->call.args.name = name;
	fs_req_start(r, NFS_OP_LOOKUP, done);
	return true;
}

/* A file that is not in the table is not open. */
struct inode *fs_name_found(struct fs_req *r, struct inode *dir, const char *name)
{
	struct inode_table *t = &r->fl->fs->inodes;
	struct inode *ino = inode_by_fh(t, &r->call.res.fh);

	if (ino)
		inode_named(t, ino, dir->id, name);
	return ino;
}

/* ---- unlink ---- */

static void unlink_silly_done(struct fs_req *r)
{
	fs_dir_changed(r->ino);
	if (r->call.res.status == 0)
		fs_silly_keep(r, true);
	else if (r->silly && fs_maybe_done(r->call.res.status)) {
		fs_put_back(r, fs_done_status);
		return;
	}
	fs_done_status(r);
}

static void unlink_done(struct fs_req *r)
{
	fs_dir_changed(r->ino);
	if (r->call.res.status == 0)
		inode_unnamed(&r->fl->fs->inodes, r->ino->id, r->name);
	fs_unpin(r);
	fs_done_status(r);
}

/* ino: a reference, or NULL. */
static void unlink_name_of(struct fs_req *r, struct inode *ino)
{
	r->call.args.name = r->name;
	fs_pin(r, ino);
	if (r->pinned && inode_silly_is(&r->fl->fs->inodes, r->pinned, r->name)) {
		fs_reply_err(r, EBUSY); /* the last close removes it */
		fs_req_free(r);
		return;
	}
	if (!r->victim) {
		fs_req_start(r, NFS_OP_REMOVE, unlink_done);
		return;
	}
	r->home = r->ino;
	r->home_name = r->name;
	r->silly = fs_silly_new(r, r->ino);
	if (!r->silly) {
		fs_reply_err(r, ENOMEM);
		fs_req_free(r);
		return;
	}
	fs_start_rename(r, r->ino, r->name, r->ino, r->silly->name, r->victim,
			unlink_silly_done);
}

static void unlink_looked(struct fs_req *r)
{
	if (r->call.res.status)
		fs_done_status(r);
	else
		unlink_name_of(r, fs_name_found(r, r->ino, r->name));
}

static void start_unlink(struct fs_req *r)
{
	struct inode *ino;

	if (!fs_name_asked(r, r->ino, r->name, &ino, unlink_looked))
		unlink_name_of(r, ino);
}

void fs_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs_req *r = fs_req_new(req, parent);

	if (r && fs_req_name(r, r->name, name))
		fs_in_turn(r, start_unlink);
}

/* ---- rmdir ---- */

static void rmdir_done(struct fs_req *r);

static void start_rmdir(struct fs_req *r)
{
	fs_silly_note(r, r->ino2);
	fs_req_start(r, NFS_OP_RMDIR, rmdir_done);
}

static void rmdir_done(struct fs_req *r)
{
	fs_dir_changed(r->ino);
	if (fs_silly_wait(r, start_rmdir))
		return;
	if (r->call.res.status == 0)
		inode_unnamed(&r->fl->fs->inodes, r->ino->id, r->name);
	fs_done_status(r);
}

static void find_and_rmdir(struct fs_req *r)
{
	r->ino2 = inode_find(&r->fl->fs->inodes, r->ino->id, r->name);
	start_rmdir(r);
}

void fs_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs_req *r = fs_req_new(req, parent);

	if (!r || !fs_req_name(r, r->name, name))
		return;
	r->call.args.name = r->name;
	fs_in_turn(r, find_and_rmdir);
}
