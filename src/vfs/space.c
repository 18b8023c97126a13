/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The space that a file's data takes: where it has holes (SEEK), and giving it more or less
 * (ALLOCATE, DEALLOCATE).
 *
 * What programs have written is on stable storage before. A server that restarts forgets the rest
 * until that is sent again (behind.h): SEEK would call it a hole, and cp(1) would leave it out. And
 * what is sent again after DEALLOCATE would fill the hole that somebody has made there.
 */
#include <errno.h>
#include "vfs/vfs_impl.h"

/* As of a file system that knows no holes: one behind the last byte. */
static void space_sized(struct vfs_op *op)
{
	struct nfs_call *c = &op->call;
	uint64_t offset = c->args.seek.offset;

	if (c->res.status) {
		vfs_end(op);
		return;
	}
	behind_size(op->ino, &c->res.attr, op->asked_ns);
	c->res.seek.offset = c->args.seek.hole ? c->res.attr.size : offset;
	vfs_end_with(op, offset < c->res.attr.size ? 0 : -ENXIO);
}

static void space_size(struct vfs_op *op)
{
	op->asked_ns = mono_ns();
	vfs_start(op, NFS_OP_GETATTR, space_sized);
}

static void space_sought(struct vfs_op *op)
{
	if (op->call.res.status == -EOPNOTSUPP && op->waited)
		space_size(op);
	else
		vfs_end(op);
}

void vfs_seek(struct vfs_op *op, bool whole)
{
	op->call.open = op->file->open;
	if (whole || nfs_lacks(&op->vl->vfs->cl->server, NFS_OP_SEEK))
		behind_settle(op, op->ino, false, space_size);
	else
		vfs_start(op, NFS_OP_SEEK, space_sought);
}

/* Whatever came of it: attributes from before may be wrong. */
static void space_changed(struct vfs_op *op)
{
	op->vl->vfs->front->attr_spoilt(op->ino);
	vfs_end(op);
}

void vfs_space(struct vfs_op *op, enum nfs_op number)
{
	op->call.open = op->file->open;
	vfs_start(op, number, space_changed);
}
