/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ioctl: a program asks an open file for a token, by which it may use it in rings (ring/ring.h). All
 * others are not for this file system. */
#include <errno.h>
#include <fcntl.h>
#include "fuse/fs_impl.h"
#include "ring/rings.h"

/* An append has to know where the file ends, which rings do not. */
static int ioctl_token(struct fs_req *r, struct ring_token *out)
{
	struct fs *fs = fs_of_req(r);
	struct fs_file *f = fs_file_of(r->op.file);

	if (!fs->rings || f->appends || !S_ISREG(r->op.ino->type))
		return -EOPNOTSUPP;
	atomic_store(&f->ringed, true);
	return rings_token(fs->rings, r->op.vl, r->op.file, f->access, fuse_req_ctx(r->req)->uid, out);
}

void fs_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg, struct fuse_file_info *fi, unsigned flags,
	      const void *in, size_t in_size, size_t out_size)
{
	struct ring_token out;
	struct fs_req *r;
	int rc;

	if (cmd != RING_IOC_TOKEN || out_size < sizeof(out)) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	r = fs_req_file(req, fi);
	if (!r)
		return;
	rc = ioctl_token(r, &out);
	if (rc) {
		fs_end_err(r, rc);
		return;
	}
	fuse_reply_ioctl(req, 0, &out, sizeof(out));
	fs_replied(r);
	fs_req_free(r);
}
