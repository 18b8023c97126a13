/* SPDX-License-Identifier: GPL-2.0-or-later */
/* getattr, setattr, access. */
#include <errno.h>
#include <math.h>
#include <unistd.h>
#include "fuse/fs_impl.h"

/* Answers with r->call.res.attr. The kernel may believe them for `known` seconds at most. */
static void reply_attr(struct fs_req *r, double known)
{
	struct fs *fs = r->fl->fs;
	double timeo;
	struct stat st;

	if (r->call.op == NFS_OP_GETATTR)
		behind_size(r->ino, &r->call.res.attr, r->asked_ns);
	if (r->call.op == NFS_OP_SETATTR)
		timeo = inode_set(&fs->inodes, r->ino, &r->call.res.attr, r->start_ns, r->asked_ns);
	else
		timeo = inode_answer(&fs->inodes, r->ino, &r->call.res.attr, r->start_ns, r->asked_ns,
				     known);
	young_asked(r->ino, fuse_req_ctx(r->req)->pid);
	fs_stat_of(fs, r->ino, &st, &r->call.res.attr);
	if (r->ino == fs->root)
		r->fl->root = st;
	fuse_reply_attr(r->req, &st, timeo);
	r->req = NULL;
}

static void attr_done(struct fs_req *r)
{
	if (r->named && fs_moved(r, attr_done))
		return;
	if (r->call.op == NFS_OP_SETATTR && (r->call.args.sattr.valid & NFS_SET_SIZE) &&
	    (!r->call.res.status || fs_maybe_done(r->call.res.status))) {
		behind_cut(r->ino, r->call.args.sattr.size);
		if (r->ino->solo)
			solo_cut(r->ino, r->call.args.sattr.size);
	}
	if (r->call.res.status == 0 && r->req) {
		if (r->call.args.sattr.valid & NFS_SET_MTIME)
			inode_mtime_set(r->ino);
		reply_attr(r, HUGE_VAL);
	} else if (r->call.op == NFS_OP_SETATTR) {
		young_spoil(r->ino);    /* the kernel does not hear of it */
	}
	fs_done_status(r);
}

/* For so many seconds the kernel believes an answer that was given without the server. */
#define LATE_ATTR_S 1.0

static bool late_root(struct fs_req *r)
{
	if (r->ino != r->fl->fs->root)
		return false;
	fuse_reply_attr(r->req, &r->fl->root, LATE_ATTR_S);
	r->req = NULL;
	return true;
}

/* What was written is on the server. */
static void ask(struct fs_req *r)
{
	double timeo;

	if (!r->req) {                  /* given up meanwhile */
		fs_req_free(r);
		return;
	}
	r->call.op = NFS_OP_GETATTR;
	r->asked_ns = mono_ns();
	if (known_attr(&r->fl->fs->inodes, r->ino, &r->call.res.attr, &timeo)) {
		reply_attr(r, timeo);
		fs_req_free(r);
		return;
	}
	fs_start_patiently(r, NFS_OP_GETATTR, attr_done, late_root);
}

/* true: r is answered, see young.h. */
static bool is_young(struct fs_req *r, bool stat)
{
	struct nfs_attr attr;
	struct stat st;
	double timeo;

	if (!young_attr(&r->fl->fs->inodes, r->ino, &attr, &timeo, r->start_ns, stat))
		return false;
	fs_stat_of(r->fl->fs, r->ino, &st, &attr);
	fuse_reply_attr(r->req, &st, timeo);
	r->req = NULL;
	stat_add(&r->fl->lane->stats, STAT_YOUNG_ATTRS, 1);
	return true;
}

/* fi: the kernel has sent an open file, because of a read() or an lseek(). */
void fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r)
		return;
	if (is_young(r, !fi))
		fs_req_free(r);
	else
		fs_settle(r, r->ino, false, ask);
}

void fs_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r)
		return;
	fs_sattr(&r->call.args.sattr, st, to_set);
	/* The kernel sends this when it leaves clearing set-id bits to the server. GETATTR is
	 * enough, and a server may refuse even a SETATTR that changes nothing. */
	if (!r->call.args.sattr.valid) {
		r->asked_ns = mono_ns();
		fs_req_start(r, NFS_OP_GETATTR, attr_done);
		return;
	}
	if (fs_solo_setattr(r, st, to_set, fi)) {
		fs_req_free(r);
		return;
	}
	/* ftruncate() was allowed when the file was opened, like write(). */
	if (fi && (r->call.args.sattr.valid & NFS_SET_SIZE)) {
		r->file = fs_file_get(r->fl->fs, fi);
		if (!r->file) {
			fs_reply_err(r, EBADF);
			fs_req_free(r);
			return;
		}
		if (fs_is_roll_back(r->file, r->call.args.sattr.size)) {
			fs_reply_err(r, ESTALE);
			fs_req_free(r);
			return;
		}
		r->call.open = r->file->open;
		r->cred = r->file->cred;
	}
	if (!fi && (r->call.args.sattr.valid & NFS_SET_SIZE))
		fs_start_named(r, NFS_OP_SETATTR, attr_done);
	else
		fs_req_start(r, NFS_OP_SETATTR, attr_done);
}

/* ---- access ---- */

static void access_done(struct fs_req *r)
{
	if (r->call.res.status == 0 && (r->call.res.access.mask & r->saved) != r->saved)
		r->call.res.status = -EACCES;
	fs_done_status(r);
}

void fs_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r)
		return;
	r->saved = mask & (R_OK | W_OK | X_OK);
	r->call.args.access.mask = r->saved;
	fs_req_start(r, NFS_OP_ACCESS, access_done);
}
