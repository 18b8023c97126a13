/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * copy_file_range: cp(1) and others ask for it before they read and write (vfs/copy.c). (FICLONE, of
 * cp --reflink=always, does not reach a FUSE daemon: the kernel's module has no remap_file_range.)
 *
 * The kernel writes what mappings have dirtied in both ranges, and locks the destination. Afterwards it
 * drops the destination's pages, as far as the answer says that bytes were copied, and knows its size, as
 * after a write(). EOPNOTSUPP and EXDEV make it copy by itself, with reads and writes; ENOSYS does so for
 * the whole mount.
 */
#include <errno.h>
#include <string.h>
#include "fuse/fs_impl.h"

static void copy_ended(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	const struct op_copy *p = &op->copy;

	fs_range_ends(r, p->offset + p->done, p->done, p->touched);
	if (!op->call.res.status && r->req) {
		fuse_reply_write(r->req, p->done);
		fs_replied(r);
	}
	fs_end_status(op);
}

/* A call has the rights of one user only. */
static bool copy_is_of_one(const struct rpc_cred *a, const struct rpc_cred *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->ngids == b->ngids &&
	       !memcmp(a->gids, b->gids, a->ngids * sizeof(a->gids[0]));
}

static int copy_refused(const struct fs_req *r, const struct fs_file *from, off_t off_in, off_t off_out,
			size_t len, int flags)
{
	const struct nfs_server *s = &fs_of_req(r)->vfs.cl->server;

	if (!from)
		return EBADF;
	if (!s->version->ops[NFS_OP_COPY])
		return ENOSYS;
	if (flags || !len || off_in < 0 || off_out < 0 || len > INT64_MAX || (off_t)len > INT64_MAX - off_in ||
	    (off_t)len > INT64_MAX - off_out)
		return EINVAL;
	if (nfs_lacks(s, NFS_OP_COPY) && nfs_lacks(s, NFS_OP_CLONE))
		return EOPNOTSUPP;
	return copy_is_of_one(&from->f.cred, &r->op.cred) ? 0 : EXDEV;
}

void fs_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
			fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len,
			int flags)
{
	struct fs_req *r = fs_req_file(req, fi_out);
	struct fs_file *from;
	int err;

	if (!r)
		return;
	from = fs_file_get(fs_of_req(r), fi_in);
	err = copy_refused(r, from, off_in, off_out, len, flags);
	if (err) {
		if (from)
			file_put(r->op.vl, &from->f);
		fs_end_err(r, err);
		return;
	}
	inode_ref(from->f.ino);
	r->op.ino2 = from->f.ino;
	r->op.end = copy_ended;
	fs_range_begins(r);
	vfs_copy(&r->op, &from->f, (uint64_t)off_in, (uint64_t)off_out, len);
}
