/* SPDX-License-Identifier: GPL-2.0-or-later */
/* lookup, forget, readlink. */
#include <errno.h>
#include <string.h>
#include "fs/fs_impl.h"

/* ---- lookup, forget ---- */

/* Answers that the name does not exist, to be believed for timeo seconds. Does nothing if
 * timeo is 0. */
static void reply_not_there(struct fs_req *r, double timeo)
{
	struct fuse_entry_param e;

	if (timeo <= 0 || !r->req)
		return;
	e = (struct fuse_entry_param){ .entry_timeout = timeo };
	inode_looked_up(&r->fl->fs->inodes, NULL, fuse_req_ctx(r->req)->pid);
	fuse_reply_entry(r->req, &e);
	r->req = NULL;
}

static void lookup_done(struct fs_req *r)
{
	struct fs *fs = r->fl->fs;
	struct fuse_entry_param e;
	struct inode *ino;

	if (r->call.res.status == -ENOENT) {
		if (r->call.op == NFS_OP_LOOKUP)
			fs_name_gone(r, r->ino, r->quiet, r->name);
		reply_not_there(r, fs_negative_timeo(fs));
	}
	if (r->call.res.status || !r->req) {
		fs_done_status(r);
		return;
	}
	ino = fs_entry(r, r->name, &e);
	inode_looked_up(&fs->inodes, ino, fuse_req_ctx(r->req)->pid);
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
	r->call.args.name = r->name;
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
		log_warn("FUSE forgets node %llx, which it was not given: the server may have "
			 "written to memory that is not its own. Further cases are not reported",
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

/* ---- readlink ---- */

static void readlink_done(struct fs_req *r)
{
	char target[NFS_PATH_MAX + 1];

	if (r->call.res.status == 0)
		link_keep(&r->fl->fs->inodes, r->ino, &r->link_ask, r->call.res.link.target,
			  r->call.res.link.len);
	if (r->call.res.status == 0 && r->req) {
		/* The kernel takes a page, less a NUL. */
		if (r->call.res.link.len >= NFS_PATH_MAX) {
			fs_reply_err(r, ENAMETOOLONG);
		} else {
			memcpy(target, r->call.res.link.target, r->call.res.link.len);
			target[r->call.res.link.len] = '\0';
			fuse_reply_readlink(r->req, target);
			r->req = NULL;
		}
	}
	fs_done_status(r);
}

void fs_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct fs_req *r = fs_req_new(req, ino);
	char target[NFS_PATH_MAX];

	if (!r)
		return;
	if (link_get(&r->fl->fs->inodes, r->ino, target)) {
		fuse_reply_readlink(req, target);
		r->req = NULL;
		fs_req_free(r);
		return;
	}
	r->link_ask = link_ask(r->ino);
	fs_req_start(r, NFS_OP_READLINK, readlink_done);
}
