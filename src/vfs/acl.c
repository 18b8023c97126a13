/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Access control lists (nfs/acl.h). */
#include <errno.h>
#include <stdlib.h>
#include "vfs/vfs_impl.h"

bool vfs_acl_begins(struct vfs_op *op)
{
	op->acl.lists = op->memory = calloc(2, sizeof(*op->acl.lists));
	op->call.args.acl = (struct nfs_acl_args){ .lists = op->acl.lists };
	return op->acl.lists;
}

static void acl_start(struct vfs_op *op, enum nfs_op number, unsigned kinds, void (*done)(struct vfs_op *op))
{
	op->call.args.acl.kinds = kinds;
	vfs_start(op, number, done);
}

void vfs_getacl(struct vfs_op *op, enum nfs_acl_kind kind)
{
	acl_start(op, NFS_OP_GETACL, 1u << kind, vfs_end);
}

static void acl_other(struct vfs_op *op)
{
	if (op->call.res.status)
		vfs_end(op);
	else
		acl_start(op, NFS_OP_SETACL, 1u << NFS_ACL_ACCESS | 1u << NFS_ACL_DEFAULT, vfs_end);
}

/* NFSACL sets both of a directory's lists: so the other one is what it is now. */
void vfs_setacl(struct vfs_op *op, enum nfs_acl_kind kind)
{
	bool both = S_ISDIR(op->ino->type) && kind != NFS_ACL_V4 && (op->vl->vfs->cl->has & NFS_HAS_NFSACL);
	enum nfs_acl_kind other = kind == NFS_ACL_ACCESS ? NFS_ACL_DEFAULT : NFS_ACL_ACCESS;

	if (both)
		acl_start(op, NFS_OP_GETACL, 1u << other, acl_other);
	else
		acl_start(op, NFS_OP_SETACL, 1u << kind, vfs_end);
}
