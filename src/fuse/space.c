/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lseek with SEEK_DATA and SEEK_HOLE (the kernel does all other seeking by itself), and fallocate.
 *
 * For fallocate the kernel locks the file, writes what mappings have dirtied in the range, and drops
 * its pages there when it hears that all went well. Then it knows the size, and forgets the other
 * attributes, as after a write().
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>
#include "fuse/fs_impl.h"

/* Does the version have it? If not, the answer ENOSYS holds for the whole mount, which has one server
 * and one version: the kernel does not ask again. */
static bool space_known(const struct fs_req *r, enum nfs_op number)
{
	return fs_of_req(r)->vfs.cl->server.version->ops[number];
}

/* ---- holes ---- */

static void space_sought(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);

	if (!op->call.res.status && r->req) {
		fuse_reply_lseek(r->req, (off_t)op->call.res.seek.offset);
		fs_replied(r);
	}
	fs_end_status(op);
}

/* The kernel does not write dirty pages before it asks, and the server would say that there is a hole. With the
 * write-back cache any page may be dirty, so the kernel is left to say that all is data. */
void fs_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_file(req, fi);

	if (!r)
		return;
	if (fs_of_req(r)->cfg.vfs.solo || !space_known(r, NFS_OP_SEEK)) {
		fs_end_err(r, ENOSYS);
		return;
	}
	if (off < 0 || (whence != SEEK_DATA && whence != SEEK_HOLE)) {
		fs_end_err(r, off < 0 ? ENXIO : EINVAL);
		return;
	}
	r->op.end = space_sought;
	r->op.call.args.seek.offset = (uint64_t)off;
	r->op.call.args.seek.hole = whence == SEEK_HOLE;
	vfs_seek(&r->op, believed_may_be_dirty(r->op.ino));
}

/* ---- changes of a range ---- */

void fs_range_begins(struct fs_req *r)
{
	atomic_fetch_add(&believed_of(r->op.ino)->writing, 1);
}

void fs_range_ends(struct fs_req *r, uint64_t end, bool done, bool unsaid)
{
	struct inode *ino = r->op.ino;

	if (done)
		believed_reaches(ino, end);
	if (done && r->req) {
		believed_wrote(ino, end);
		believed_forgets(ino);
	}
	unsaid |= done && !r->req;
	if (unsaid) {
		believed_unheard(ino);
		believed_written_past(ino);
	}
	atomic_fetch_sub(&believed_of(ino)->writing, 1);
	if (unsaid && r->req)
		fs_forget_attr(r);
}

/* ---- fallocate ---- */

/* As the kernel's own client: FALLOC_FL_ZERO_RANGE makes a hole, and fills it. false: the protocol
 * has nothing for that mode. */
static bool space_mode(struct fs_req *r, int mode, enum nfs_op *number)
{
	switch (mode) {
	case 0:
		*number = NFS_OP_ALLOCATE;
		return true;
	case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
	case FALLOC_FL_ZERO_RANGE:
		*number = NFS_OP_DEALLOCATE;
		r->op.call.args.space.refill = mode == FALLOC_FL_ZERO_RANGE;
		return true;
	default:
		return false;
	}
}

/* The server has lacked it before, or does so now. */
static bool space_lacks(const struct fs_req *r, enum nfs_op number)
{
	const struct nfs_server *s = &fs_of_req(r)->vfs.cl->server;

	return nfs_lacks(s, number) || (r->op.call.args.space.refill && nfs_lacks(s, NFS_OP_ALLOCATE));
}

static void space_ended(struct vfs_op *op)
{
	const struct nfs_space_args *a = &op->call.args.space;
	bool longer = op->call.op == NFS_OP_ALLOCATE || a->refill;
	int status = op->call.res.status;

	fs_range_ends(fs_req_of(op), longer ? a->offset + a->length : 0, !status,
		      status && status != -EINTR && (status != -EOPNOTSUPP || a->refill));
	fs_end_status(op);
}

void fs_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
		  struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_file(req, fi);
	enum nfs_op number;

	if (!r)
		return;
	r->op.call.args.space = (struct nfs_space_args){ (uint64_t)off, (uint64_t)len, false };
	if (!space_known(r, NFS_OP_ALLOCATE)) {
		fs_end_err(r, ENOSYS);
	} else if (off < 0 || len <= 0 || off > INT64_MAX - len) {
		fs_end_err(r, EINVAL);
	} else if (!space_mode(r, mode, &number) || space_lacks(r, number)) {
		fs_end_err(r, EOPNOTSUPP);
	} else {
		r->op.end = space_ended;
		fs_range_begins(r);
		vfs_space(&r->op, number);
	}
}
