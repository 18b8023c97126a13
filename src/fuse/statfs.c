/* SPDX-License-Identifier: GPL-2.0-or-later */
/* statfs. Each lane keeps the last answer for silent.c. */
#include "fuse/fs_impl.h"

static bool statfs_reply(struct fs_req *r)
{
	const struct statvfs *last = &fs_lane_of(r->op.vl)->statfs;

	if (!last->f_bsize)
		return false;
	fuse_reply_statfs(r->req, last);
	fs_replied(r);
	return true;
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

static void statfs_done(struct vfs_op *op)
{
	if (op->call.res.status == 0) {
		fs_statfs_keep(fs_lane_of(op->vl), &op->call.res.statfs);
		if (op->waited)
			statfs_reply(fs_req_of(op));
	}
	fs_end_status(op);
}

void fs_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct fs_req *r = fs_req_new(req, ino ? ino : FUSE_ROOT_ID);

	if (!r)
		return;
	silent_begins(r, statfs_reply);
	vfs_start(&r->op, NFS_OP_STATFS, statfs_done);
}
