/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Access control lists, by operations of their own: hardly any program wants them, and no other reply
 * has room for one.
 *
 *   acl                         its value is not looked into but for its form; `who` is what the server
 *                               says, as with Linux's client, and nfs4_getfacl prints it
 *   posix_access_acl, posix_default_acl         of 4.2, by draft-ietf-nfsv4-posix-acls, as Linux 7.0
 *                               has it. `who` is a decimal number here, as it is with AUTH_SYS. A list
 *                               with a name is not shown: nobody could set it again
 */
#include <stdio.h>
#include <string.h>
#include "nfs/acl.h"
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"

enum { STEP_ACL, STEP_GETATTR };

static unsigned acl_attr(const struct nfs_call *c)
{
	return c->args.acl.kinds == 1u << NFS_ACL_V4 ? FATTR4_ACL :
	       c->args.acl.kinds == 1u << NFS_ACL_ACCESS ? FATTR4_POSIX_ACCESS_ACL : FATTR4_POSIX_DEFAULT_ACL;
}

static bitmap4 acl_mask(const struct nfs_call *c)
{
	bitmap4 mask = { 0 };

	bitmap4_set(&mask, acl_attr(c));
	return mask;
}

/* The list that is wanted, or to be set. Of NFS_ACL_V4 there is none. */
static struct nfs_acl *acl_list(const struct nfs_call *c)
{
	return &c->args.acl.lists[c->args.acl.kinds == 1u << NFS_ACL_DEFAULT ? NFS_ACL_DEFAULT : NFS_ACL_ACCESS];
}

/* ---- GETACL ---- */

static bool_t encode_getacl(struct nfs_call *c, XDR *x)
{
	GETATTR4args a = { .attr_request = acl_mask(c) };

	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_GETATTR) &&
	       xdr_GETATTR4args(x, &a);
}

static int take_v4(struct nfs_call *c, const attrlist4 *value)
{
	if (!nfs_acl_is_v4(value->data, value->len))
		return -EBADMSG;
	c->res.xattr.value = value->data;
	c->res.xattr.len = value->len;
	return 0;
}

/* Tags are numbered from 1 on there, and are bits here. */
static int take_ace(struct nfs_ace *e, const posixace4 *ace)
{
	uint32_t id = NFS_ACL_NO_ID;
	bool named = ace->tag == POSIXACE4_TAG_USER || ace->tag == POSIXACE4_TAG_GROUP;

	if (ace->tag < POSIXACE4_TAG_USER_OBJ || ace->tag > POSIXACE4_TAG_OTHER || ace->perm > 7)
		return -EBADMSG;
	if (named && !nfs4_is_number(&ace->who, &id))
		return -EOPNOTSUPP;
	*e = (struct nfs_ace){ (uint16_t)(1u << (ace->tag - 1)), (uint16_t)ace->perm, id };
	return 0;
}

static int take_posix(struct nfs_acl *acl, const attrlist4 *value)
{
	posixace4 ace;
	int rc = 0;
	XDR x;

	/* An XDR_DECODE stream is never written through. */
	xdr_msg_create(&x, (void *)(uintptr_t)value->data, value->len, XDR_DECODE);
	if (!xdr_uint32_t(&x, &acl->n) || acl->n > NFS_ACL_ENTRIES)
		return -EBADMSG;
	for (uint32_t i = 0; i < acl->n && !rc; i++)
		rc = xdr_posixace4(&x, &ace) ? take_ace(&acl->e[i], &ace) : -EBADMSG;
	if (!rc && (xdr_getpos(&x) != value->len || !nfs_acl_sort(acl)))
		rc = -EBADMSG;
	xdr_destroy(&x);
	return rc;
}

static int decode_getacl(struct nfs_call *c, XDR *x)
{
	bitmap4 mask = acl_mask(c);
	const fattr4 *got;
	GETATTR4res r;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_GETATTR) || !xdr_GETATTR4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	got = &r.GETATTR4res_u.resok4.obj_attributes;
	/* It has none for this object. */
	if (!bitmap4_isset(&got->attrmask, acl_attr(c)))
		return -EOPNOTSUPP;
	if (memcmp(got->attrmask.words, mask.words, sizeof(mask.words)) != 0)
		return -EBADMSG;
	return acl_attr(c) == FATTR4_ACL ? take_v4(c, &got->attr_vals) :
					   take_posix(acl_list(c), &got->attr_vals);
}

const struct nfs_opdef nfs4_op_getacl = NFS_OPDEF("GETATTR (acl)", encode_getacl, decode_getacl,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + V4_BITMAP_XDR + 4 + NFS_XATTR_MAX,
	.proc = NFSPROC4_COMPOUND);

/* ---- SETACL ---- */

/* An entry with its name, if it has one: its length, and in `who`. */
static uint32_t ace_who(const struct nfs_ace *e, char who[16])
{
	who[0] = '\0';
	if (e->id != NFS_ACL_NO_ID)
		snprintf(who, 16, "%u", e->id);
	return (uint32_t)strlen(who);
}

static bool_t put_posix(XDR *x, const struct nfs_acl *acl)
{
	uint32_t n = acl->n, bytes = 4;
	char who[16];
	bool_t ok;

	for (uint32_t i = 0; i < n; i++)
		bytes += 12 + ((ace_who(&acl->e[i], who) + 3) & ~3u);
	ok = xdr_uint32_t(x, &bytes) && xdr_uint32_t(x, &n);
	for (uint32_t i = 0; i < n && ok; i++) {
		posixace4 ace = {
			.tag = (posixacetag4)__builtin_ffs(acl->e[i].tag), .perm = acl->e[i].perm,
			.who = { .len = ace_who(&acl->e[i], who), .data = who },
		};

		ok = xdr_posixace4(x, &ace);
	}
	return ok;
}

static bool_t encode_setacl(struct nfs_call *c, XDR *x)
{
	attrlist4 value = { .len = c->args.acl.len, .data = c->args.acl.value };
	stateid4 anonymous = nfs4_stateid(NULL);
	bitmap4 mask = acl_mask(c);

	if (c->eng.step == STEP_GETATTR)
		return nfs4_encode_getattr(c, x, c->args.fh);
	return nfs4_begin(c, x, 4, true, c->args.fh) && nfs4_put_op(x, OP_SETATTR) &&
	       xdr_stateid4(x, &anonymous) && xdr_bitmap4(x, &mask) &&
	       (acl_attr(c) == FATTR4_ACL ? xdr_attrlist4(x, &value) : put_posix(x, acl_list(c))) &&
	       nfs4_put_getattr(x);
}

static int decode_setacl(struct nfs_call *c, XDR *x)
{
	SETATTR4res r;
	int rc;

	if (c->eng.step == STEP_GETATTR)
		return nfs4_decode_getattr(c, x);
	rc = nfs4_check(c, x);
	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_SETATTR) || !xdr_SETATTR4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	nfs4_goes_on_at(c, STEP_GETATTR);
	return nfs4_get_attr(c, x);
}

/* See setxattr_args(). A posixace4 has 24 bytes with the longest number. */
static uint32_t setacl_args(const struct nfs_call *c)
{
	return 1024 + (acl_attr(c) == FATTR4_ACL ? c->args.acl.len : 24 * acl_list(c)->n);
}

const struct nfs_opdef nfs4_op_setacl = NFS_OPDEF("SETATTR (acl)", encode_setacl, decode_setacl,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + V4_BITMAP_XDR + V4_GETATTR_XDR,
	.args_max_of = setacl_args, .proc = NFSPROC4_COMPOUND);
