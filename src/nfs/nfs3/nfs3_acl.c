/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * POSIX access control lists by NFSACL (xdr/nfsacl3.x), a program of its own on the connection of
 * NFS. A server may lack it: the first call shows that (nfs/message.c).
 *
 * Solaris wants four entries at least, and so does everybody: a list of three, which says what the
 * mode does, gets a mask like its group's permissions, and loses it on the way back.
 *
 * SETACL sets both lists of a directory, whatever its mask says: knfsd removes the one that is not
 * there. vfs/acl.c brings both.
 */
#include <linux/posix_acl.h>
#include <sys/stat.h>
#include "nfs/acl.h"
#include "nfs/nfs3/nfs3_impl.h"
#include "nfsacl3.h"

_Static_assert(NFSACL_MAX_ENTRIES == NFS_ACL_ENTRIES, "lists have the protocol's bound");

#define LISTS_XDR(n) (2u * 8u + 12u * (n))

static bool has_kind(const struct nfs_call *c, enum nfs_acl_kind kind)
{
	return c->args.acl.kinds & 1u << kind;
}

/* ---- GETACL ---- */

static bool_t encode_getacl(struct nfs_call *c, XDR *x)
{
	GETACL3args a = {
		.fh = nfs3_fh(c->args.fh),
		.mask = (has_kind(c, NFS_ACL_ACCESS) ? NA_ACL | NA_ACLCNT : 0u) |
			(has_kind(c, NFS_ACL_DEFAULT) ? NA_DFACL | NA_DFACLCNT : 0u),
	};

	return xdr_GETACL3args(x, &a);
}

/* Solaris may set more bits than the three. */
static bool get_entry(XDR *x, struct nfs_ace *e)
{
	aclent a;

	if (!xdr_aclent(x, &a) || (a.type & ~(uint32_t)NA_DEFAULT) > UINT8_MAX)
		return false;
	*e = (struct nfs_ace){
		.tag = (uint16_t)(a.type & ~(uint32_t)NA_DEFAULT), .perm = a.perm & 7, .id = a.id,
	};
	return true;
}

static void drop_mask(struct nfs_acl *acl)
{
	const struct nfs_ace *e = acl->e;

	if (acl->n != 4 || e[1].tag != ACL_GROUP_OBJ || e[2].tag != ACL_MASK || e[1].perm != e[2].perm)
		return;
	acl->e[2] = acl->e[3];
	acl->n = 3;
}

static bool get_list(XDR *x, struct nfs_acl *acl)
{
	uint32_t aclcnt, count;

	/* They are the same, and nobody needs the first one. */
	if (!xdr_uint32_t(x, &aclcnt) || !xdr_uint32_t(x, &count) || count > NFSACL_MAX_ENTRIES)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!get_entry(x, &acl->e[i]))
			return false;
	acl->n = count;
	if (!nfs_acl_sort(acl))
		return false;
	drop_mask(acl);
	return true;
}

/* 0, or what decode() returns. */
static int get_status(struct nfs_call *c, XDR *x)
{
	nfsstat3 status;
	post_op_attr attr;

	if (!xdr_nfsstat3(x, &status) || !xdr_post_op_attr(x, &attr))
		return -EBADMSG;
	return status ? nfs3_error(status) : nfs3_take_attr(c, &attr);
}

/* Both come, whichever was asked for. */
static int decode_getacl(struct nfs_call *c, XDR *x)
{
	struct nfs_acl got;
	uint32_t mask;
	int rc = get_status(c, x);

	if (rc)
		return rc;
	if (!xdr_uint32_t(x, &mask))
		return -EBADMSG;
	for (enum nfs_acl_kind kind = NFS_ACL_ACCESS; kind <= NFS_ACL_DEFAULT; kind++) {
		if (!get_list(x, &got))
			return -EBADMSG;
		if (has_kind(c, kind))
			c->args.acl.lists[kind] = got;
	}
	return 0;
}

enum {
	GETACL_MAX = NFS3_STATUS_XDR + NFS3_ATTR_XDR + 4 + LISTS_XDR(2 * NFSACL_MAX_ENTRIES),
	SETACL_MAX = NFS3_STATUS_XDR + NFS3_ATTR_XDR,
};

const struct nfs_opdef nfs3_op_getacl = NFS_OPDEF("GETACL", encode_getacl, decode_getacl,
	.results_max = GETACL_MAX, .prog = NFSACL_PROGRAM, .counted = NFS3_COUNTED_GETACL,
	.proc = ACLPROC3_GETACL);

/* ---- SETACL ---- */

static bool_t put_entry(XDR *x, uint32_t type, uint32_t id, uint32_t perm)
{
	aclent a = { .type = type, .id = id == NFS_ACL_NO_ID ? 0 : id, .perm = perm };

	return xdr_aclent(x, &a);
}

static bool_t put_list(XDR *x, const struct nfs_acl *acl, uint32_t flag)
{
	bool short_one = acl->n == 3;
	uint32_t aclcnt = acl->n + short_one, count = aclcnt;
	bool_t ok = xdr_uint32_t(x, &aclcnt) && xdr_uint32_t(x, &count);

	for (uint32_t i = 0; i < acl->n; i++) {
		if (short_one && i == 2)
			ok = ok && put_entry(x, ACL_MASK | flag, 0, acl->e[1].perm);
		ok = ok && put_entry(x, acl->e[i].tag | flag, acl->e[i].id, acl->e[i].perm);
	}
	return ok;
}

static bool_t encode_setacl(struct nfs_call *c, XDR *x)
{
	static const struct nfs_acl none;
	const struct nfs_acl *lists = c->args.acl.lists;
	bool access = has_kind(c, NFS_ACL_ACCESS), dflt = has_kind(c, NFS_ACL_DEFAULT);
	uint32_t mask = (access ? NA_ACL : 0u) | (dflt ? NA_DFACL : 0u);
	nfs_fh3 fh = nfs3_fh(c->args.fh);

	return xdr_nfs_fh3(x, &fh) && xdr_uint32_t(x, &mask) &&
	       put_list(x, access ? &lists[NFS_ACL_ACCESS] : &none, 0) &&
	       put_list(x, dflt ? &lists[NFS_ACL_DEFAULT] : &none, NA_DEFAULT);
}

static uint32_t setacl_args(const struct nfs_call *c)
{
	return NFS3_FH_XDR + 4 + LISTS_XDR(2 + c->args.acl.lists[NFS_ACL_ACCESS].n +
					   c->args.acl.lists[NFS_ACL_DEFAULT].n);
}

const struct nfs_opdef nfs3_op_setacl = NFS_OPDEF("SETACL", encode_setacl, get_status,
	.results_max = SETACL_MAX, .args_max_of = setacl_args, .prog = NFSACL_PROGRAM,
	.counted = NFS3_COUNTED_SETACL, .proc = ACLPROC3_SETACL);
