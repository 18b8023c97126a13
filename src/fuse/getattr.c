/* SPDX-License-Identifier: GPL-2.0-or-later */
/* getattr, setattr, access. */
#include <errno.h>
#include <unistd.h>
#include "fuse/fs_impl.h"
#include "fuse/statx.h"

/* btime: NULL: nobody knows it. */
static void getattr_say(struct fs_req *r, const struct stat *st, double timeo, const struct timespec *btime)
{
	struct fs_statx_out out;

	if (!r->statx) {
		fuse_reply_attr(r->req, st, timeo);
	} else {
		fs_statx(&out, st, timeo, btime);
		fuse_reply_buf(r->req, (const char *)&out, sizeof(out));
	}
	fs_replied(r);
}

/* Answers with the call's attributes. */
static void reply_attr(struct fs_req *r)
{
	struct fs *fs = fs_of_req(r);
	struct vfs_op *op = &r->op;
	struct stat st;

	fs_tells(r, op->ino);
	fs_stat_of(fs, op->ino, &st, &op->call.res.attr);
	if (op->ino == fs->root)
		fs_lane_of(op->vl)->root = st;
	getattr_say(r, &st, r->timeo, r->statx && op->call.res.has_btime ? &op->call.res.btime : NULL);
}

/* r is about to be answered. */
static void getattr_read_ends(struct fs_req *r)
{
	if (r->reads)
		believed_read_ends(&r->op.vl->vfs->inodes, r->op.ino, r->req ? fuse_req_ctx(r->req)->pid : 0);
}

static void attr_done(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);

	if (r->named && fs_moved(r))
		return;
	if (op->call.op == NFS_OP_SETATTR && (op->call.args.sattr.valid & NFS_SET_SIZE) &&
	    (!op->call.res.status || vfs_maybe_done(op->call.res.status)) && believed_of(op->ino)->solo)
		solo_cut(op->ino, op->call.args.sattr.size);
	getattr_read_ends(r);
	if (op->call.res.status == 0 && r->req) {
		reply_attr(r);
	} else if (op->call.op == NFS_OP_SETATTR) {
		readback_spoil(op->ino);   /* the kernel does not hear of it */
	}
	fs_end_status(op);
}

/* For so many seconds the kernel believes an answer that was given without the server. */
#define LATE_ATTR_S 1.0

static bool late_root(struct fs_req *r)
{
	if (r->op.ino != fs_of_req(r)->root)
		return false;
	getattr_say(r, &fs_lane_of(r->op.vl)->root, LATE_ATTR_S, NULL);
	return true;
}

/* true: r is answered, see readback.h. */
static bool is_young(struct fs_req *r, bool stat)
{
	struct nfs_attr attr;
	struct stat st;
	double timeo;

	if (!readback_attr(&r->op.vl->vfs->inodes, r->op.ino, &attr, &timeo, r->op.start_ns, stat))
		return false;
	believed_tells(r->op.ino, fuse_req_ctx(r->req)->pid, r->op.start_ns, false);
	getattr_read_ends(r);
	fs_stat_of(fs_of_req(r), r->op.ino, &st, &attr);
	fuse_reply_attr(r->req, &st, timeo);
	fs_replied(r);
	stat_add(&r->op.vl->lane->stats, STAT_READBACK_ATTRS, 1);
	return true;
}

/* fi: the kernel has sent an open file, because of a read() or an lseek(). */
void fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r)
		return;
	believed_goes_on(r->op.ino, fuse_req_ctx(req)->pid);
	r->reads = fi;
	if (r->reads)
		believed_read_begins(r->op.ino);
	r->statx = fs_lane_of(r->op.vl)->statx;
	if (!r->statx && is_young(r, !fi)) {
		fs_req_free(r);
		return;
	}
	r->op.end = attr_done;
	silent_begins(r, late_root);
	if (r->statx)
		vfs_birth(&r->op);
	else
		vfs_getattr(&r->op);
}

/* ftruncate() was allowed when the file was opened, like write(). false: r has been answered. */
static bool set_by_file(struct fs_req *r, const struct fuse_file_info *fi)
{
	struct fs_file *f = fs_file_get(fs_of_req(r), fi);

	if (!f || fs_is_roll_back(f, fuse_req_ctx(r->req)->pid)) {
		if (f) {
			believed_unheard(r->op.ino);    /* the kernel believes what it did before the write */
			file_put(r->op.vl, &f->f);
		}
		fs_end_err(r, f ? ESTALE : EBADF);
		return false;
	}
	r->op.file = &f->f;
	r->op.call.open = f->f.open;
	r->op.cred = f->f.cred;
	return true;
}

/* The new owner and group become the server's. false: the server has no number for one of them. */
static bool is_known(const struct ugid *u, struct nfs_sattr *a)
{
	return !u || ((!(a->valid & NFS_SET_UID) || ugid_find_there(&u->user, a->uid, &a->uid)) &&
		      (!(a->valid & NFS_SET_GID) || ugid_find_there(&u->group, a->gid, &a->gid)));
}

void fs_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_new(req, ino);
	bool sets_size;

	if (!r)
		return;
	r->op.end = attr_done;
	fs_sattr(&r->op.call.args.sattr, st, to_set);
	if (!is_known(fs_of_req(r)->cfg.ugid, &r->op.call.args.sattr)) {
		fs_end_err(r, EINVAL);
		return;
	}
	/* The kernel sends this when it leaves clearing set-id bits to the server. GETATTR is
	 * enough, and a server may refuse even a SETATTR that changes nothing. */
	if (!r->op.call.args.sattr.valid) {
		vfs_getattr(&r->op);
		return;
	}
	if (fs_solo_setattr(r, st, to_set, fi)) {
		fs_req_free(r);
		return;
	}
	sets_size = r->op.call.args.sattr.valid & NFS_SET_SIZE;
	if (fi && sets_size && !set_by_file(r, fi))
		return;
	r->named = !fi && sets_size && fs_opens_named(fs_of_req(r));
	vfs_setattr(&r->op, r->named);
}

/* ---- access ---- */

static void access_done(struct vfs_op *op)
{
	uint32_t mask = fs_req_of(op)->mask;

	if (op->call.res.status == 0 && (op->call.res.access.mask & mask) != mask)
		op->call.res.status = -EACCES;
	fs_end_status(op);
}

void fs_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r)
		return;
	r->mask = (uint32_t)mask & (R_OK | W_OK | X_OK);
	r->op.call.args.access.mask = r->mask;
	vfs_start(&r->op, NFS_OP_ACCESS, access_done);
}
