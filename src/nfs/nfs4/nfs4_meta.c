/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Operations on names and attributes that change nothing, and SETATTR. */
#include <unistd.h>
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"

/* ---- NULL ---- */

static bool_t encode_null(struct nfs_call *c, XDR *x)
{
	return nfs4_begin_seq(c, x, 1, false);
}

const struct nfs_opdef nfs4_op_null = NFS_OPDEF("SEQUENCE", encode_null, nfs4_check_seq,
	.results_max = V4_PREFIX_XDR, .proc = NFSPROC4_COMPOUND);

/* ---- GETATTR ---- */

static bool_t encode_getattr(struct nfs_call *c, XDR *x)
{
	return nfs4_encode_getattr(c, x, c->args.fh);
}

enum { GETATTR_MAX = V4_PREFIX_XDR + V4_GETATTR_XDR };

const struct nfs_opdef nfs4_op_getattr = NFS_OPDEF("GETATTR", encode_getattr, nfs4_decode_getattr,
	.carries = nfs4_carries, .results_max = GETATTR_MAX, .proc = NFSPROC4_COMPOUND);

static bool_t encode_birth(struct nfs_call *c, XDR *x)
{
	GETATTR4args a = { .attr_request = nfs4_birth_mask };

	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_GETATTR) &&
	       xdr_GETATTR4args(x, &a);
}

const struct nfs_opdef nfs4_op_birth = NFS_OPDEF("GETATTR (birth)", encode_birth,
	nfs4_decode_getattr, .results_max = GETATTR_MAX + 12, .proc = NFSPROC4_COMPOUND);

/* ---- SETATTR ---- */

enum { STEP_SETATTR, STEP_GETATTR };

static bool_t encode_setattr(struct nfs_call *c, XDR *x)
{
	char buf[NFS4_SATTR_MAX], owner[NFS_OWNER_MAX], group[NFS_OWNER_MAX];
	struct nfs_client *cl = c->lane->client;
	struct nfs_sattr s = c->args.sattr;
	/* Only a change of the size needs the open's stateid; otherwise the anonymous
	 * one serves. */
	SETATTR4args a = {
		.stateid = nfs4_io_stateid(c->args.sattr.valid & NFS_SET_SIZE ? c->open : NULL, true),
	};

	if (c->eng.step == STEP_GETATTR)
		return nfs4_encode_getattr(c, x, c->args.fh);
	if ((s.valid & NFS_SET_UID) && nfs_owner_name(cl, false, s.uid, owner))
		s.owner = owner;
	if ((s.valid & NFS_SET_GID) && nfs_owner_name(cl, true, s.gid, group))
		s.group = group;
	return nfs4_put_fattr(&a.obj_attributes, &s, buf, sizeof(buf)) &&
	       nfs4_begin_named(c, x, 4, true) && nfs4_put_op(x, OP_SETATTR) &&
	       xdr_SETATTR4args(x, &a) && nfs4_put_getattr(x);
}

static int decode_setattr(struct nfs_call *c, XDR *x)
{
	SETATTR4res r;
	int rc;

	if (c->eng.step == STEP_GETATTR)
		return nfs4_decode_getattr(c, x);
	rc = nfs4_check_named(c, x);
	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_SETATTR) || !xdr_SETATTR4res(x, &r))
		return -EBADMSG;
	/* Nothing was changed. Send it again with names, once they are known. */
	if (r.status == NFS4ERR_BADOWNER && nfs_owner_names(c))
		return 0;
	if (r.status)
		return nfs4_error(c, r.status);
	nfs4_goes_on_at(c, STEP_GETATTR);
	return nfs4_get_attr(c, x);
}

enum { SETATTR_MAX = V4_PREFIX_XDR + V4_NAMED_XDR + V4_OP_XDR + V4_BITMAP_XDR + V4_GETATTR_XDR };

const struct nfs_opdef nfs4_op_setattr = NFS_OPDEF("SETATTR", encode_setattr, decode_setattr,
	.results_max = SETATTR_MAX, .proc = NFSPROC4_COMPOUND);

/* ---- LOOKUP, LOOKUPP ---- */

static bool_t encode_lookup(struct nfs_call *c, XDR *x)
{
	bool_t ok = nfs4_begin(c, x, 5, false, c->args.fh);

	ok = ok && (c->op == NFS_OP_LOOKUPP ? nfs4_put_op(x, OP_LOOKUPP) :
		    nfs4_put_name(x, OP_LOOKUP, c->args.name));
	return ok && nfs4_put_op(x, OP_GETFH) && nfs4_put_getattr(x);
}

static int decode_lookup(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = nfs4_get_status(c, x, c->op == NFS_OP_LOOKUPP ? OP_LOOKUPP : OP_LOOKUP);
	if (!rc)
		rc = nfs4_get_fh(c, x);
	return rc ? rc : nfs4_get_attr(c, x);
}

enum { LOOKUP_MAX = V4_PREFIX_XDR + V4_OP_XDR + V4_FH_XDR + V4_GETATTR_XDR };

const struct nfs_opdef nfs4_op_lookup = NFS_OPDEF("LOOKUP", encode_lookup, decode_lookup,
	.carries = nfs4_carries, .results_max = LOOKUP_MAX, .proc = NFSPROC4_COMPOUND);
const struct nfs_opdef nfs4_op_lookupp = NFS_OPDEF("LOOKUPP", encode_lookup, decode_lookup,
	.results_max = LOOKUP_MAX, .proc = NFSPROC4_COMPOUND);

/* ---- ACCESS ---- */

static bool_t encode_access(struct nfs_call *c, XDR *x)
{
	ACCESS4args a = { .access = nfs_access_bits(c->args.access.mask) };

	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_ACCESS) &&
	       xdr_ACCESS4args(x, &a);
}

static int decode_access(struct nfs_call *c, XDR *x)
{
	ACCESS4res r;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_ACCESS) || !xdr_ACCESS4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	c->res.access.mask = c->args.access.mask &
			     nfs_access_mask(r.ACCESS4res_u.resok4.access);
	return 0;
}

const struct nfs_opdef nfs4_op_access = {
	.name = "ACCESS", .encode = encode_access, .decode = decode_access, .carries = nfs4_carries,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + 8, .proc = NFSPROC4_COMPOUND,
};

/* ---- READLINK ---- */

static bool_t encode_readlink(struct nfs_call *c, XDR *x)
{
	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_READLINK);
}

static int decode_readlink(struct nfs_call *c, XDR *x)
{
	READLINK4res r;
	nfs_bulk *text = &r.READLINK4res_u.resok4.link;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	*text = (nfs_bulk){ .max = NFS_PATH_MAX };
	if (nfs4_get_op(x, OP_READLINK) || !xdr_READLINK4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	return nfs_take_link(c, text);
}

/*
 * The text may be placed (RFC 8267), but it comes in a Reply chunk with the rest. Linux's
 * knfsd takes the wrong bytes if it is offered a Write chunk for it: it writes the length
 * word and the text without its last four bytes, and these are in the message where the
 * length should be. (Seen with 6.1 and 6.12, soft-RoCE. Version 3 does it right.) Nothing
 * tells servers apart that do.
 */
const struct nfs_opdef nfs4_op_readlink = NFS_OPDEF("READLINK", encode_readlink, decode_readlink,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + 4 + NFS_PATH_MAX, .proc = NFSPROC4_COMPOUND);

/* ---- the file system's attributes ---- */

static bool_t encode_statfs(struct nfs_call *c, XDR *x)
{
	GETATTR4args a = { .attr_request = nfs4_fs_mask };

	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_GETATTR) &&
	       xdr_GETATTR4args(x, &a);
}

static int decode_statfs(struct nfs_call *c, XDR *x)
{
	struct nfs4_attrs a;
	GETATTR4res r;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_GETATTR) || !xdr_GETATTR4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	if (!nfs4_get_fattr(&a, &r.GETATTR4res_u.resok4.obj_attributes))
		return -EBADMSG;
	c->res.statfs = a.fs;
	c->res.statfs.name_max = c->lane->client->name_max;
	if (a.maxname && a.maxname < c->res.statfs.name_max)
		c->res.statfs.name_max = a.maxname;
	return 0;
}

const struct nfs_opdef nfs4_op_statfs = {
	.name = "GETATTR (file system)", .encode = encode_statfs, .decode = decode_statfs,
	.results_max = GETATTR_MAX, .proc = NFSPROC4_COMPOUND,
};
