/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Extended attributes: user.* are the server's (nfs/nfs4/nfs4_xattr.c), and some of system.* its access
 * control lists (nfs/acl.h). No other name is asked for. Lists are not listed: programs that look for
 * one ask for it, and those that copy what is listed would copy it twice.
 *
 * The kernel asks by itself, before it writes through its pages, whether the file has
 * security.capability. If this answers ENOSYS it never asks again, for any attribute: so it does
 * where the server has none. Where the server has some, this answers at once, without a call, and
 * FUSE_HANDLE_KILLPRIV_V2 (Linux 5.11) makes the kernel keep that answer until it is told the file's
 * attributes again. Without that flag each write() would be two requests, so then there are no
 * extended attributes.
 *
 * Nothing is kept here, so others' changes are seen at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include "fuse/fs_impl.h"

static const char user[] = "user.";

static const struct acl_name {
	const char *name;
	enum nfs_acl_kind kind;
	unsigned has;
} acl_names[] = {
	{ "system.nfs4_acl", NFS_ACL_V4, NFS_HAS_V4_ACL },
	{ "system.posix_acl_access", NFS_ACL_ACCESS, NFS_HAS_POSIX_ACL },
	{ "system.posix_acl_default", NFS_ACL_DEFAULT, NFS_HAS_POSIX_ACL },
};

static const struct acl_name *xattr_acl_named(const char *name)
{
	for (unsigned i = 0; i < sizeof(acl_names) / sizeof(acl_names[0]); i++)
		if (strcmp(name, acl_names[i].name) == 0)
			return &acl_names[i];
	return NULL;
}

/* Why the kernel gets no attribute of that name; 0: it is the server's. */
static int xattr_refused(const struct fs *fs, const char *name, const struct acl_name *acl)
{
	unsigned has = fs->xattrs ? atomic_load(&fs->vfs.cl->has) : 0;

	if (!(has & NFS_HAS_ATTRIBUTES))
		return ENOSYS;
	if (acl)
		return has & acl->has ? 0 : EOPNOTSUPP;
	if (strncmp(name, user, sizeof(user) - 1) != 0 || !(has & NFS_HAS_XATTRS))
		return EOPNOTSUPP;
	if (strlen(name) > XATTR_NAME_MAX)
		return ERANGE;
	return name[sizeof(user) - 1] ? 0 : EINVAL;
}

/* A request for that attribute; *acl: which list it is, or NULL. NULL: the request has been answered. */
static struct fs_req *xattr_req(fuse_req_t req, fuse_ino_t node, const char *name,
				const struct acl_name **acl)
{
	struct fs_req *r;
	int err;

	*acl = xattr_acl_named(name);
	err = xattr_refused(fs_of(req), name, *acl);
	if (err) {
		fuse_reply_err(req, err);
		return NULL;
	}
	r = fs_req_new(req, node);
	if (!r)
		return NULL;
	if (*acl && (*acl)->kind != NFS_ACL_V4 && !vfs_acl_begins(&r->op)) {
		fs_end_err(r, ENOMEM);
		return NULL;
	}
	if (!*acl) {
		strcpy(r->op.name, name + sizeof(user) - 1);
		r->op.call.args.name = r->op.name;
	}
	return r;
}

/* ---- reading ---- */

/* Ends r with that answer, or with its length if the kernel has asked for that. */
static void xattr_answer(struct fs_req *r, const void *data, size_t len)
{
	if (r->room && len > r->room) {
		fs_end_err(r, ERANGE);
		return;
	}
	if (r->req && r->room)
		fuse_reply_buf(r->req, data, len);
	else if (r->req)
		fuse_reply_xattr(r->req, len);
	fs_replied(r);
	fs_req_free(r);
}

static void xattr_got(struct vfs_op *op)
{
	if (op->call.res.status)
		fs_end_status(op);
	else
		xattr_answer(fs_req_of(op), op->call.res.xattr.value, op->call.res.xattr.len);
}

/* What the mode says is no list. */
static void xattr_got_posix(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	const struct nfs_acl *acl = &op->acl.lists[r->acl];
	char value[NFS_ACL_XATTR(NFS_ACL_ENTRIES)];

	if (op->call.res.status)
		fs_end_status(op);
	else if (!acl->n || (r->acl == NFS_ACL_ACCESS && nfs_acl_is_mode(acl)))
		fs_end_err(r, ENODATA);
	else
		xattr_answer(r, value, nfs_acl_to_xattr(acl, value));
}

void fs_getxattr(fuse_req_t req, fuse_ino_t node, const char *name, size_t size)
{
	const struct acl_name *acl;
	struct fs_req *r = xattr_req(req, node, name, &acl);

	if (!r)
		return;
	r->room = size;
	if (!acl) {
		vfs_start(&r->op, NFS_OP_GETXATTR, xattr_got);
		return;
	}
	r->acl = acl->kind;
	r->op.end = acl->kind == NFS_ACL_V4 ? xattr_got : xattr_got_posix;
	vfs_getacl(&r->op, acl->kind);
}

static void xattr_listed(struct vfs_op *op)
{
	if (op->call.res.status)
		fs_end_status(op);
	else
		xattr_answer(fs_req_of(op), op->xattrs.names, op->xattrs.len);
}

void fs_listxattr(fuse_req_t req, fuse_ino_t node, size_t size)
{
	const struct fs *fs = fs_of(req);
	struct fs_req *r;

	if (!fs->xattrs || !(atomic_load(&fs->vfs.cl->has) & NFS_HAS_XATTRS)) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	r = fs_req_new(req, node);
	if (!r)
		return;
	r->room = size;
	r->op.end = xattr_listed;
	vfs_listxattr(&r->op);
}

/* ---- changing ---- */

/* The kernel asks for the attributes next. */
static void xattr_changed(struct vfs_op *op)
{
	readback_spoil(op->ino);
	fs_end_status(op);
}

/* By a list the mode changes, which the kernel does not ask for. */
static void acl_changed(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);

	readback_spoil(op->ino);
	if (!op->call.res.status && r->req)
		fs_forget_attr(r);
	fs_end_status(op);
}

/* The request's memory is libfuse's. */
static bool xattr_copy(struct fs_req *r, const char *value, size_t size)
{
	r->text = malloc(size + 1);
	if (r->text)
		memcpy(r->text, value, size);
	return r->text;
}

static int xattr_take(struct fs_req *r, const char *value, size_t size, int flags)
{
	if (flags == (XATTR_CREATE | XATTR_REPLACE))
		return EINVAL;
	if (!xattr_copy(r, value, size))
		return ENOMEM;
	r->op.call.args.xattr = (struct nfs_xattr_args){
		.value = r->text, .len = (uint32_t)size, .flags = flags,
	};
	return 0;
}

static int xattr_take_acl(struct fs_req *r, const struct acl_name *acl, const char *value, size_t size)
{
	if (acl->kind == NFS_ACL_DEFAULT && !S_ISDIR(r->op.ino->type))
		return EACCES;
	if (acl->kind != NFS_ACL_V4)
		return -nfs_acl_from_xattr(&r->op.acl.lists[acl->kind], value, size);
	if (!nfs_acl_is_v4(value, size))
		return EINVAL;
	if (!xattr_copy(r, value, size))
		return ENOMEM;
	r->op.call.args.acl = (struct nfs_acl_args){ .value = r->text, .len = (uint32_t)size };
	return 0;
}

static void xattr_set(struct fs_req *r, const struct acl_name *acl, enum nfs_op op)
{
	if (!acl) {
		vfs_start(&r->op, op, xattr_changed);
		return;
	}
	r->op.end = acl_changed;
	vfs_setacl(&r->op, acl->kind);
}

void fs_setxattr(fuse_req_t req, fuse_ino_t node, const char *name, const char *value, size_t size,
		 int flags)
{
	const struct acl_name *acl;
	struct fs_req *r = xattr_req(req, node, name, &acl);
	int err;

	if (!r)
		return;
	err = size > NFS_XATTR_MAX ? E2BIG :
	      acl ? xattr_take_acl(r, acl, value, size) : xattr_take(r, value, size, flags);
	if (err)
		fs_end_err(r, err);
	else
		xattr_set(r, acl, NFS_OP_SETXATTR);
}

/* A file always has version 4's list. Of the others an empty one is set. */
void fs_removexattr(fuse_req_t req, fuse_ino_t node, const char *name)
{
	const struct acl_name *acl;
	struct fs_req *r = xattr_req(req, node, name, &acl);

	if (!r)
		return;
	if (acl && acl->kind == NFS_ACL_V4)
		fs_end_err(r, EINVAL);
	else if (acl && acl->kind == NFS_ACL_DEFAULT && !S_ISDIR(r->op.ino->type))
		fs_end_err(r, ENODATA);
	else
		xattr_set(r, acl, NFS_OP_REMOVEXATTR);
}
