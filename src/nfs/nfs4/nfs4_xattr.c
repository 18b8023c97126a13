/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Extended attributes (RFC 8276): what Linux calls user.NAME is NAME here.
 *
 * The server says at the mount whether it has them (nfs4_root.c). One that answers OP_ILLEGAL even
 * so has none.
 *
 * Nothing says how long a value is before it is there, and a server sends a long reply even if our
 * receive cannot take it. So GETXATTR always offers room for the longest. No part of these may be
 * placed (RFC 8267): what does not fit inline is in a Reply chunk, or a Long Call.
 *
 * If the session was lost with the reply: REMOVEXATTR takes NOXATTR for its own effect, as REMOVE
 * does. SETXATTR that creates does not take EEXIST, as CREATE does not (nfs4_dir.c).
 */
#include <string.h>
#include <sys/xattr.h>
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"

/* With "user." a name has XATTR_NAME_MAX bytes at most. */
#define NAME_MOST 250u

enum { STEP_XATTR, STEP_GETATTR };

/* Operation and status: 0, or what decode() returns. */
static int xattr_get_op(struct nfs_call *c, XDR *x, nfs_opnum4 op)
{
	uint32_t got;
	nfsstat4 status;

	if (!xdr_uint32_t(x, &got) || (got != (uint32_t)op && got != OP_ILLEGAL) ||
	    !xdr_nfsstat4(x, &status))
		return -EBADMSG;
	if (got == OP_ILLEGAL)
		return -EOPNOTSUPP;
	return status ? nfs4_error(c, status) : 0;
}

static bool_t xattr_put_key(XDR *x, const char *name)
{
	xattrkey4 key = nfs_ref_str(name);

	return xdr_xattrkey4(x, &key);
}

/* ---- GETXATTR ---- */

static bool_t encode_getxattr(struct nfs_call *c, XDR *x)
{
	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_GETXATTR) &&
	       xattr_put_key(x, c->args.name);
}

static int decode_getxattr(struct nfs_call *c, XDR *x)
{
	xattrvalue4 value;
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = xattr_get_op(c, x, OP_GETXATTR);
	if (rc)
		return rc;
	if (!xdr_xattrvalue4(x, &value))
		return -EBADMSG;
	c->res.xattr.value = value.data;
	c->res.xattr.len = value.len;
	return 0;
}

const struct nfs_opdef nfs4_op_getxattr = NFS_OPDEF("GETXATTR", encode_getxattr, decode_getxattr,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + 4 + NFS_XATTR_MAX, .proc = NFSPROC4_COMPOUND);

/* ---- SETXATTR, REMOVEXATTR, and the file after that ---- */

static bool_t xattr_put_set(struct nfs_call *c, XDR *x)
{
	const struct nfs_xattr_args *a = &c->args.xattr;
	SETXATTR4args s = {
		.sxa_option = a->flags & XATTR_CREATE ? SETXATTR4_CREATE :
			      a->flags & XATTR_REPLACE ? SETXATTR4_REPLACE : SETXATTR4_EITHER,
		.sxa_key = nfs_ref_str(c->args.name),
		.sxa_value = { .len = a->len, .data = a->value },
	};

	return nfs4_put_op(x, OP_SETXATTR) && xdr_SETXATTR4args(x, &s);
}

static bool_t encode_change(struct nfs_call *c, XDR *x)
{
	bool_t ok;

	if (c->eng.step == STEP_GETATTR)
		return nfs4_encode_getattr(c, x, c->args.fh);
	ok = nfs4_begin(c, x, 4, true, c->args.fh);
	if (c->op == NFS_OP_SETXATTR)
		ok = ok && xattr_put_set(c, x);
	else
		ok = ok && nfs4_put_op(x, OP_REMOVEXATTR) && xattr_put_key(x, c->args.name);
	return ok && nfs4_put_getattr(x);
}

static int xattr_get_change(struct nfs_call *c, XDR *x, nfs_opnum4 op)
{
	change_info4 info;
	int rc = xattr_get_op(c, x, op);

	if (rc == -ENODATA && op == OP_REMOVEXATTR && nfs4_call(c)->in_doubt) {
		nfs4_goes_on_at(c, STEP_GETATTR);
		return NFS_NEXT;
	}
	if (rc)
		return rc;
	if (!xdr_change_info4(x, &info))
		return -EBADMSG;
	nfs4_take_change(c, 0, &info);
	nfs4_goes_on_at(c, STEP_GETATTR);
	return 0;
}

static int decode_change(struct nfs_call *c, XDR *x)
{
	int rc;

	if (c->eng.step == STEP_GETATTR)
		return nfs4_decode_getattr(c, x);
	rc = nfs4_check(c, x);
	if (!rc)
		rc = xattr_get_change(c, x, c->op == NFS_OP_SETXATTR ? OP_SETXATTR : OP_REMOVEXATTR);
	return rc ? rc : nfs4_get_attr(c, x);
}

/* SEQUENCE, a CLOSE, PUTFH, the name, and GETATTR have some 700 bytes with the longest handles. */
static uint32_t setxattr_args(const struct nfs_call *c)
{
	return 1024 + c->args.xattr.len;
}

enum { CHANGE_MAX = V4_PREFIX_XDR + V4_OP_XDR + V4_CHANGE_XDR + V4_GETATTR_XDR };

const struct nfs_opdef nfs4_op_setxattr = NFS_OPDEF("SETXATTR", encode_change, decode_change,
	.results_max = CHANGE_MAX, .args_max_of = setxattr_args, .proc = NFSPROC4_COMPOUND);
const struct nfs_opdef nfs4_op_removexattr = NFS_OPDEF("REMOVEXATTR", encode_change, decode_change,
	.results_max = CHANGE_MAX, .proc = NFSPROC4_COMPOUND);

/* ---- LISTXATTRS ---- */

static bool_t encode_listxattrs(struct nfs_call *c, XDR *x)
{
	LISTXATTRS4args a = {
		.lxa_cookie = c->args.xattr.cookie,
		.lxa_maxcount = nfs_at_most(c, c->args.xattr.len),
	};

	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_LISTXATTRS) &&
	       xdr_LISTXATTRS4args(x, &a);
}

/* Names that are too long for Linux are left out. One with a NUL would be two names. */
static bool xattr_get_names(struct nfs_call *c, XDR *x, uint32_t n)
{
	xattrkey4 name;

	while (n--) {
		if (!xdr_xattrkey4(x, &name) || !name.len || memchr(name.data, '\0', name.len))
			return false;
		if (name.len <= NAME_MOST)
			c->args.xattr.entry(c, name.data, name.len);
	}
	return true;
}

static int decode_listxattrs(struct nfs_call *c, XDR *x)
{
	struct nfs_xattr_results *r = &c->res.xattr;
	uint32_t n;
	bool_t eof;
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = xattr_get_op(c, x, OP_LISTXATTRS);
	if (rc)
		return rc;
	if (!xdr_nfs_cookie4(x, &r->cookie) || !xdr_uint32_t(x, &n) || !xattr_get_names(c, x, n) ||
	    !xdr_bool(x, &eof))
		return -EBADMSG;
	/* A list that does not go on would never end. */
	if (!eof && (!n || r->cookie == c->args.xattr.cookie))
		return -EBADMSG;
	r->eof = eof;
	return 0;
}

/* lxa_maxcount is of LISTXATTRS4resok. */
static uint32_t listxattrs_max(const struct nfs_call *c)
{
	return V4_PREFIX_XDR + V4_OP_XDR + c->args.xattr.len;
}

const struct nfs_opdef nfs4_op_listxattrs = NFS_OPDEF("LISTXATTRS", encode_listxattrs, decode_listxattrs,
	.results_max_of = listxattrs_max, .proc = NFSPROC4_COMPOUND);
