/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Taking names away: unlink, rmdir, rename; and silly rename.
 *
 * A server forgets a file with its last name, but here a file that is open must
 * live until the last close. So when a name goes that belongs to a file that is
 * open on this mount, the file is renamed to .nfsXXXX in its directory, and
 * that name is removed at the last close, as the kernel's NFS client does.
 *
 *   unlink(a), a open:      RENAME a -> .nfs1               ... close: REMOVE .nfs1
 *   rename(b, a), a open:   RENAME a -> .nfs1; RENAME b -> a
 *                           (fails: RENAME .nfs1 -> a)
 *
 *   rmdir(d), just after the last close of what was unlinked in d: close() does not
 *           wait for REMOVE .nfs1, so rmdir does, for a moment (its request has
 *           a timer; when the mount ends meanwhile it goes with the lane)
 *
 * The daemon dies before the close: the .nfs file stays, as it would with any
 * NFS client.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/fs_impl.h"

/* ---- silly names ---- */

static struct silly *silly_new(struct fs_req *r, struct inode *dir)
{
	struct fs *fs = r->fl->fs;
	struct silly *s = malloc(sizeof(*s));

	if (!s)
		return NULL;
	inode_ref(dir);
	s->dir = dir;
	atomic_fetch_add(&dir->nsilly, 1);
	s->cred = r->cred;
	snprintf(s->name, sizeof(s->name), ".nfs%016" PRIx64 "%08x", fs->silly_seed,
		 atomic_fetch_add(&fs->silly_count, 1));
	return s;
}

static void silly_removed(struct fs_req *r)
{
	if (r->call.status && r->call.status != -ENOENT)
		log_warn("'%s' stays on the server: it could not be removed after its file was "
			 "closed: %s", r->silly->name, strerror(-r->call.status));
	fs_dir_changed(r->silly->dir);
	fs_req_free(r);
}

void fs_remove_silly(struct fs_lane *fl, struct silly *s)
{
	struct fs_req *r = fs_req_new_quiet(fl, NULL, &s->cred);

	if (!r) {
		log_warn("'%s' stays on the server: out of memory", s->name);
		silly_free(&fl->fs->inodes, s);
		return;
	}
	r->silly = s;
	r->call.fh = &s->dir->fh;
	r->call.name = s->name;
	fs_req_start(r, NFS_OP_REMOVE, silly_removed);
}

/* ---- unlink ---- */

/* The victim's name is r->silly->name now. Closed meanwhile: nobody else is
 * going to remove that. */
static void name_is_silly(struct fs_req *r, const struct inode *dir, const char *name)
{
	if (!inode_set_silly(&r->fl->fs->inodes, r->victim, dir->id, name, r->silly))
		fs_remove_silly(r->fl, r->silly);
	r->silly = NULL;
}

static void unlink_silly_done(struct fs_req *r)
{
	fs_dir_changed(r->ino);
	if (r->call.status == 0)
		name_is_silly(r, r->ino, r->name);
	fs_done_status(r);
}

static void unlink_done(struct fs_req *r)
{
	fs_dir_changed(r->ino);
	if (r->call.status == 0)
		inode_unnamed(&r->fl->fs->inodes, r->ino->id, r->name);
	fs_done_status(r);
}

void fs_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = fs_of(req);
	struct fs_req *r = fs_req_new(req, fs_inode(fs, parent));

	if (!r || !fs_req_name(r, r->name, name))
		return;
	r->call.name = r->name;
	r->victim = inode_find_open(&fs->inodes, r->ino->id, r->name);
	if (r->victim && inode_silly_is(&fs->inodes, r->victim, r->name)) {
		fs_reply_err(r, EBUSY); /* it goes with the last close */
		fs_req_free(r);
		return;
	}
	/* With a .nfs name already, a hard link of its own may go. */
	if (!r->victim || inode_is_silly(&fs->inodes, r->victim)) {
		fs_req_start(r, NFS_OP_REMOVE, unlink_done);
		return;
	}
	r->silly = silly_new(r, r->ino);
	if (!r->silly) {
		fs_reply_err(r, ENOMEM);
		fs_req_free(r);
		return;
	}
	r->call.fh2 = &r->ino->fh;
	r->call.name2 = r->silly->name;
	fs_req_start(r, NFS_OP_RENAME, unlink_silly_done);
}

/* ---- rmdir ---- */

/* A .nfs file may be on its way out: 10 ms, doubling to 160, 310 in all. */
#define RMDIR_FIRST_MS 10u
#define RMDIR_TRIES    5u

static void rmdir_done(struct fs_req *r);

static void on_rmdir_again(struct loop_timer *t)
{
	fs_req_start(container_of(t, struct fs_req, call.timer), NFS_OP_RMDIR, rmdir_done);
}

static void rmdir_done(struct fs_req *r)
{
	int rc = r->call.status;

	fs_dir_changed(r->ino);
	if ((rc == -ENOTEMPTY || rc == -EEXIST) && r->ino2 && atomic_load(&r->ino2->nsilly) &&
	    r->step < RMDIR_TRIES && r->req) {
		loop_timer_init(&r->call.timer, on_rmdir_again);
		loop_timer_set(r->fl->lane->loop, &r->call.timer, RMDIR_FIRST_MS << r->step++);
		return;
	}
	if (rc == 0)
		inode_unnamed(&r->fl->fs->inodes, r->ino->id, r->name);
	fs_done_status(r);
}

void fs_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = fs_of(req);
	struct fs_req *r = fs_req_new(req, fs_inode(fs, parent));

	if (!r || !fs_req_name(r, r->name, name))
		return;
	r->call.name = r->name;
	r->ino2 = inode_find(&fs->inodes, r->ino->id, r->name);
	fs_req_start(r, NFS_OP_RMDIR, rmdir_done);
}

/* ---- rename ---- */

static void rename_back_done(struct fs_req *r)
{
	fs_dir_changed(r->ino2);
	r->call.status = r->saved;      /* why the rename itself failed */
	fs_done_status(r);
}

static void rename_done(struct fs_req *r)
{
	struct inode_table *t = &r->fl->fs->inodes;

	fs_dir_changed(r->ino);
	fs_dir_changed(r->ino2);
	if (r->call.status == 0) {
		/* It is to be found by the name that it has now, when it is open
		 * and that name goes. */
		inode_renamed(t, r->ino->id, r->name, r->ino2->id, r->name2);
	} else if (r->victim) {
		struct silly *s = inode_clear_silly(t, r->victim, r->ino2->id, r->name2);

		if (s) {
			r->silly = s;
			r->saved = r->call.status;
			r->call.fh = r->call.fh2 = &r->ino2->fh;
			r->call.name = s->name;
			r->call.name2 = r->name2;
			fs_req_start(r, NFS_OP_RENAME, rename_back_done);
			return;
		}
	}
	fs_done_status(r);
}

static void start_rename(struct fs_req *r)
{
	r->call.fh = &r->ino->fh;
	r->call.fh2 = &r->ino2->fh;
	r->call.name = r->name;
	r->call.name2 = r->name2;
	fs_req_start(r, NFS_OP_RENAME, rename_done);
}

/* The name to take is free now, or was so already. */
static void target_moved(struct fs_req *r)
{
	fs_dir_changed(r->ino2);
	if (r->call.status == 0) {
		name_is_silly(r, r->ino2, r->name2);
	} else if (r->call.status != -ENOENT) {
		fs_done_status(r);
		return;
	}
	start_rename(r);
}

/* Is the target another file than the source, and open? Then its name must
 * not simply be overwritten. */
static bool take_victim(struct fs *fs, struct fs_req *r)
{
	struct inode *source;

	r->victim = inode_find_open(&fs->inodes, r->ino2->id, r->name2);
	if (!r->victim)
		return false;
	source = inode_find_open(&fs->inodes, r->ino->id, r->name);
	if (source)
		inode_put(&fs->inodes, source, 1);
	if (source == r->victim || inode_is_silly(&fs->inodes, r->victim)) {
		inode_put(&fs->inodes, r->victim, 1);
		r->victim = NULL;
		return false;
	}
	return true;
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
	r = fs_req_new(req, fs_inode(fs, parent));
	if (!r || !fs_req_name(r, r->name, name) || !fs_req_name(r, r->name2, newname))
		return;
	r->ino2 = fs_inode(fs, newparent);
	inode_ref(r->ino2);
	if (!take_victim(fs, r)) {
		start_rename(r);
		return;
	}
	r->silly = silly_new(r, r->ino2);
	if (!r->silly) {
		fs_reply_err(r, ENOMEM);
		fs_req_free(r);
		return;
	}
	r->call.fh = r->call.fh2 = &r->ino2->fh;
	r->call.name = r->name2;
	r->call.name2 = r->silly->name;
	fs_req_start(r, NFS_OP_RENAME, target_moved);
}
