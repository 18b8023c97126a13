/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Looking things up, and attributes. One operation of the client for each. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include "fs/fs_impl.h"

/* ---- lookup, forget ---- */

/* For so many seconds. */
static void reply_not_there(struct fs_req *r, double timeo)
{
	struct fuse_entry_param e = { .entry_timeout = timeo };

	if (timeo <= 0 || !r->req)
		return;
	fuse_reply_entry(r->req, &e);
	r->req = NULL;
}

static void lookup_done(struct fs_req *r)
{
	struct fs *fs = r->fl->fs;
	struct fuse_entry_param e;
	struct inode *ino;

	if (r->call.status == -ENOENT) {
		if (r->call.op == NFS_OP_LOOKUP)
			fs_name_gone(r, r->ino, r->quiet, r->name);
		reply_not_there(r, fs_negative_timeo(fs));
	}
	if (r->call.status || !r->req) {
		fs_done_status(r);
		return;
	}
	ino = fs_entry(r, r->name, &e);
	if (!ino)
		fs_reply_err(r, ENOMEM);
	else if (fuse_reply_entry(r->req, &e))
		inode_forget(&fs->inodes, ino, 1);      /* the kernel did not get it */
	r->req = NULL;
	fs_req_free(r);
}

void fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct inode_table *t = &fs_of(req)->inodes;
	struct fs_req *r = fs_req_new(req, parent);

	if (!r || !fs_req_name(r, r->name, name))
		return;
	if (strcmp(name, "..") == 0) {
		fs_req_start(r, NFS_OP_LOOKUPP, lookup_done);
		return;
	}
	reply_not_there(r, known_is_gone(t, r->ino->id, r->name));
	if (!r->req) {
		fs_req_free(r);
		return;
	}
	r->quiet = known_changes(t, r->ino);
	r->call.name = r->name;
	fs_req_start(r, NFS_OP_LOOKUP, lookup_done);
}

static void forget(struct fs *fs, fuse_ino_t ino, uint64_t n)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	struct inode *known;
	bool ok;

	stat_add(&fs_this_lane->lane->stats, STAT_FUSE_FORGETS, n);
	if (ino == FUSE_ROOT_ID)
		return;
	known = inode_by_id(&fs->inodes, ino);
	ok = known && inode_forget(&fs->inodes, known, n);
	if (known)
		inode_put(&fs->inodes, known, 1);
	if (!ok && !atomic_flag_test_and_set(&said))
		log_warn("FUSE forgets node %llx, which it does not know; more of that is not "
			 "reported: the server may have written to memory that is not its own",
			 (unsigned long long)ino);
}

void fs_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	forget(fs_of(req), ino, n);
	fuse_reply_none(req);
}

void fs_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *f)
{
	for (size_t i = 0; i < count; i++)
		forget(fs_of(req), f[i].ino, f[i].nlookup);
	fuse_reply_none(req);
}

/* ---- attributes ---- */

/* How long an answer of fs_late() is believed, in seconds. */
#define LATE_ATTR_S 1.0

/* fs_late() had to answer, and nothing has come from the server since. */
static bool server_is_silent(const struct fs *fs)
{
	uint64_t since = atomic_load_explicit(&fs->late_ns, memory_order_relaxed);

	for (unsigned i = 0; since && i < fs->nlanes; i++)
		if (atomic_load_explicit(&fs->cl->lanes[i].last_reply_ns, memory_order_relaxed) > since)
			return false;
	return since;
}

/* fs_req_start() for what fs_late() can answer: umount asks several such things
 * one after the other, and only the first of them has to wait. */
static void start_patiently(struct fs_req *r, enum nfs_op op, void (*done)(struct fs_req *r))
{
	r->done = done;
	r->call.op = op;
	if (server_is_silent(r->fl->fs))
		fs_late(r);
	fs_req_start(r, op, done);
}

/* r->call.attr is what the kernel is told; known: for so long, if it is less than that
 * may be believed from now on. */
static void reply_attr(struct fs_req *r, double known)
{
	struct fs *fs = r->fl->fs;
	double timeo = inode_update(&fs->inodes, r->ino, &r->call.attr);
	struct stat st;

	fs_stat_of(fs, r->ino, &st, &r->call.attr);
	if (r->ino == fs->root)
		r->fl->root = st;
	fuse_reply_attr(r->req, &st, known < timeo ? known : timeo);
	r->req = NULL;
}

static void attr_done(struct fs_req *r)
{
	if (r->call.status == 0 && r->req) {
		if (r->call.sattr.valid & NFS_SET_MTIME)
			inode_mtime_set(r->ino);
		reply_attr(r, HUGE_VAL);
	}
	fs_done_status(r);
}

void fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_new(req, ino);
	double timeo;

	(void)fi;
	if (!r)
		return;
	if (known_attr(&r->fl->fs->inodes, r->ino, &r->call.attr, &timeo)) {
		reply_attr(r, timeo);
		fs_req_free(r);
		return;
	}
	start_patiently(r, NFS_OP_GETATTR, attr_done);
}

void fs_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r)
		return;
	fs_sattr(&r->call.sattr, st, to_set);
	/* The kernel's part of clearing set-id bits that the server clears. A server
	 * may refuse even to change nothing. */
	if (!r->call.sattr.valid) {
		fs_req_start(r, NFS_OP_GETATTR, attr_done);
		return;
	}
	/* ftruncate() was allowed at open, as write() is. */
	if (fi && (r->call.sattr.valid & NFS_SET_SIZE)) {
		r->file = fs_file_get(r->fl->fs, fi);
		if (!r->file) {
			fs_reply_err(r, EBADF);
			fs_req_free(r);
			return;
		}
		r->call.open = r->file->open;
		r->cred = r->file->cred;
	}
	fs_req_start(r, NFS_OP_SETATTR, attr_done);
}

/* ---- the rest that changes nothing ---- */

static void readlink_done(struct fs_req *r)
{
	char target[NFS_PATH_MAX + 1];

	if (r->call.status == 0 && r->req) {
		if (r->call.link.len > NFS_PATH_MAX) {
			fs_reply_err(r, ENAMETOOLONG);
		} else {
			memcpy(target, r->call.link.target, r->call.link.len);
			target[r->call.link.len] = '\0';
			fuse_reply_readlink(r->req, target);
			r->req = NULL;
		}
	}
	fs_done_status(r);
}

void fs_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (r)
		fs_req_start(r, NFS_OP_READLINK, readlink_done);
}

static void access_done(struct fs_req *r)
{
	if (r->call.status == 0 && (r->call.access.mask & r->saved) != r->saved)
		r->call.status = -EACCES;
	fs_done_status(r);
}

void fs_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r)
		return;
	r->saved = mask & (R_OK | W_OK | X_OK);
	r->call.access.mask = r->saved;
	fs_req_start(r, NFS_OP_ACCESS, access_done);
}

static void statfs_reply(struct fs_req *r)
{
	if (r->req)
		fuse_reply_statfs(r->req, &r->fl->statfs);
	r->req = NULL;
}

void fs_statfs_keep(struct fs_lane *fl, const struct nfs_statfs *s)
{
	const unsigned block = 4096;

	fl->statfs = (struct statvfs){
		.f_bsize = block, .f_frsize = block,
		.f_blocks = s->tbytes / block, .f_bfree = s->fbytes / block,
		.f_bavail = s->abytes / block,
		.f_files = s->tfiles, .f_ffree = s->ffiles, .f_favail = s->afiles,
		.f_namemax = s->name_max,
	};
}

static void statfs_done(struct fs_req *r)
{
	if (r->call.status == 0) {
		fs_statfs_keep(r->fl, &r->call.statfs);
		statfs_reply(r);
	}
	fs_done_status(r);
}

/*
 * Before it does its work, umount looks at the mount point and asks for statfs;
 * so does df. A server that does not answer must not keep anybody from
 * unmounting: when its answer does not come soon, the last known one is given.
 */
void fs_late(struct fs_req *r)
{
	if (!r->req)
		return;
	if (r->done == statfs_done && r->fl->statfs.f_bsize) {
		statfs_reply(r);
	} else if (r->call.op == NFS_OP_GETATTR && r->done == attr_done &&
		   r->ino == r->fl->fs->root) {
		fuse_reply_attr(r->req, &r->fl->root, LATE_ATTR_S);
		r->req = NULL;
	} else {
		return;
	}
	atomic_store_explicit(&r->fl->fs->late_ns, mono_ns(), memory_order_relaxed);
}

void fs_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct fs_req *r = fs_req_new(req, ino ? ino : FUSE_ROOT_ID);

	if (r)
		start_patiently(r, NFS_OP_STATFS, statfs_done);
}
