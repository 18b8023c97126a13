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

	if (r->call.op == NFS_OP_LOOKUP && !r->call.res.status)
		siblings_found(&fs->inodes, r->ino, &r->cred);
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
	if (!ino)
		fs_reply_err(r, ENOMEM);
	else if (fuse_reply_entry(r->req, &e))
		inode_forget(&fs->inodes, ino, 1);      /* the kernel did not get it */
	r->req = NULL;
	fs_req_free(r);
}

/* For how many seconds an entry that was asked for at `since` may be believed. */
static double entry_left(struct fs_req *r, uint64_t since)
{
	struct fs *fs = r->fl->fs;
	double timeo = fs_entry_timeo(fs, r->ino);

	if (fs->inodes.acregmin < timeo)
		timeo = fs->inodes.acregmin;
	if (fs->inodes.acdirmin < timeo)
		timeo = fs->inodes.acdirmin;
	return timeo - (double)(mono_ns() - since) / 1e9;
}

/* Answers with what a listing says of the name, if there is one (siblings.h). */
static void reply_listed(struct fs_req *r)
{
	struct inode_table *t = &r->fl->fs->inodes;
	struct fuse_entry_param e = { 0 };
	struct inode *ino;
	struct nfs_attr attr;
	struct nfs_fh fh;
	uint64_t since;

	if (!r->req || !siblings_here(t, r->ino, &r->cred, r->name, &fh, &attr, &since))
		return;
	e.attr_timeout = e.entry_timeout = entry_left(r, since);
	if (e.entry_timeout <= 0)
		return;
	ino = inode_get_sibling(t, &fh, &attr, r->ino->id, r->name, strlen(r->name), since);
	if (!ino)
		return;
	fs_entry_node(&e, ino);
	fs_stat_of(r->fl->fs, ino, &e.attr, &attr);
	if (fuse_reply_entry(r->req, &e))
		inode_forget(t, ino, 1);
	r->req = NULL;
}

/* Answers what is known without the server. true: that was all; r is freed. */
static bool is_known(struct fs_req *r)
{
	reply_not_there(r, known_is_gone(&r->fl->fs->inodes, r->ino->id, r->name));
	reply_listed(r);
	if (r->req)
		return false;
	fs_req_free(r);
	return true;
}

static void ask_name(struct fs_req *r)
{
	r->quiet = known_changes(&r->fl->fs->inodes, r->ino);
	r->call.args.name = r->name;
	fs_req_start(r, NFS_OP_LOOKUP, lookup_done);
}

static bool take_entry(struct nfs_call *c, const struct nfs_dirent *e)
{
	brood_add(container_of(c, struct fs_req, call)->brood, e);
	return true;
}

static void list_done(struct fs_req *r)
{
	struct inode_table *t = &r->fl->fs->inodes;
	struct brood *b = r->brood;

	r->brood = NULL;
	if (r->call.res.status)
		siblings_failed(t, r->ino, b);
	else
		siblings_take(t, r->ino, b);
	if (!is_known(r))
		ask_name(r);
}

/* Is this LOOKUP to make a listing? */
static bool lists(struct fs_req *r)
{
	struct fs *fs = r->fl->fs;

	if (!fs->cfg.rdirplus || atomic_load(&fs->cl->no_plus) || entry_left(r, mono_ns()) <= 0)
		return false;
	r->brood = siblings_wanted(&fs->inodes, r->ino, &r->cred);
	if (!r->brood)
		return false;
	r->call.args.dir.cookie = r->call.args.dir.verf = 0;
	r->call.args.dir.count = fs->cl->dtsize;
	r->call.args.dir.plus = true;
	r->call.args.dir.entry = take_entry;
	return true;
}

void fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs_req *r = fs_req_new(req, parent);

	if (!r || !fs_req_name(r, r->name, name))
		return;
	if (strcmp(name, "..") == 0) {
		fs_req_start(r, NFS_OP_LOOKUPP, lookup_done);
		return;
	}
	if (is_known(r))
		return;
	if (lists(r))
		fs_req_start(r, NFS_OP_READDIR, list_done);
	else
		ask_name(r);
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

	if (r)
		fs_req_start(r, NFS_OP_READLINK, readlink_done);
}
