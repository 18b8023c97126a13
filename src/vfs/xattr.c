/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The names of a file's extended attributes, as listxattr(2) returns them: several calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vfs/vfs_impl.h"

/* A reply fits a buffer of 64 KiB with this. */
#define LIST_COUNT 32768u

static const char user[] = "user.";
/* More names than that do not fit, and each reply brings one at least, if only one that is left out. */
#define LIST_REPLIES (NFS_XATTR_MAX / sizeof(user))

static void xattr_entry(struct nfs_call *c, const char *name, uint32_t len)
{
	struct op_xattrs *l = &container_of(c, struct vfs_op, call)->xattrs;
	const size_t prefix = sizeof(user) - 1;

	if (l->len + prefix + len + 1 > NFS_XATTR_MAX) {
		l->full = true;
		return;
	}
	memcpy(l->names + l->len, user, prefix);
	memcpy(l->names + l->len + prefix, name, len);
	l->names[l->len + prefix + len] = '\0';
	l->len += prefix + len + 1;
}

static void xattr_listed(struct vfs_op *op)
{
	const struct nfs_xattr_results *res = &op->call.res.xattr;

	if (op->call.res.status) {
		vfs_end(op);
	} else if (op->xattrs.full || (!res->eof && ++op->xattrs.replies == LIST_REPLIES)) {
		vfs_end_with(op, -E2BIG);
	} else if (res->eof) {
		vfs_end(op);
	} else {
		op->call.args.xattr.cookie = res->cookie;
		vfs_start(op, NFS_OP_LISTXATTRS, xattr_listed);
	}
}

void vfs_listxattr(struct vfs_op *op)
{
	op->memory = malloc(NFS_XATTR_MAX);
	op->xattrs = (struct op_xattrs){ .names = op->memory };
	if (!op->memory) {
		vfs_end_with(op, -ENOMEM);
		return;
	}
	op->call.args.xattr = (struct nfs_xattr_args){ .len = LIST_COUNT, .entry = xattr_entry };
	vfs_start(op, NFS_OP_LISTXATTRS, xattr_listed);
}
