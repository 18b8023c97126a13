/* SPDX-License-Identifier: GPL-2.0-or-later */
/* GETATTR. Attributes that a change of this mount's own has brought answer it once (ownchange.h). */
#include <errno.h>
#include <math.h>
#include "vfs/vfs_impl.h"

static void ask_ends(struct vfs_op *op)
{
	if (!op->call.res.status)
		behind_size(op->ino, &op->call.res.attr, op->asked_ns);
	vfs_end(op);
}

/* What was written is on the server. */
static void ask_now(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;

	op->asked_ns = mono_ns();
	op->call.op = NFS_OP_GETATTR;
	op->call.res.status = op->given_up ? -EINTR : 0;
	if (op->given_up || ownchange_attr(t, op->ino, &op->call.res.attr, &op->attr.known)) {
		ask_ends(op);
		return;
	}
	op->attr.known = HUGE_VAL;
	vfs_start(op, NFS_OP_GETATTR, ask_ends);
}

void vfs_getattr(struct vfs_op *op)
{
	behind_settle(op, op->ino, false, ask_now);
}
