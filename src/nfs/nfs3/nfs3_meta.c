/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Operations on names and attributes that change nothing, and SETATTR. A server may leave
 * attributes out of a reply (post_op_attr). Where we need them, a GETATTR follows as the
 * next step.
 */
#include <string.h>
#include <unistd.h>
#include "nfs/common.h"
#include "nfs/nfs3/nfs3_impl.h"

/* ---- NULL ---- */

static bool_t encode_null(struct nfs_call *c, XDR *x)
{
	return TRUE;
}

static int decode_null(struct nfs_call *c, XDR *x)
{
	return 0;
}

const struct nfs_opdef nfs3_op_null = NFS_OPDEF("NULL", encode_null, decode_null,
	.results_max = 0, .proc = NFSPROC3_NULL);

/* ---- GETATTR ---- */

bool_t nfs3_encode_getattr(XDR *x, const struct nfs_fh *fh)
{
	GETATTR3args a = { .object = nfs3_fh(fh) };

	return xdr_GETATTR3args(x, &a);
}

int nfs3_decode_getattr(struct nfs_call *c, XDR *x)
{
	GETATTR3res r;

	if (!xdr_GETATTR3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	if (!nfs3_get_fattr(&c->res.attr, &r.GETATTR3res_u.resok.obj_attributes))
		return -EBADMSG;
	c->res.has_attr = true;
	return 0;
}

static bool_t encode_getattr(struct nfs_call *c, XDR *x)
{
	return nfs3_encode_getattr(x, c->args.fh);
}

const struct nfs_opdef nfs3_op_getattr = NFS_OPDEF("GETATTR", encode_getattr, nfs3_decode_getattr,
	.results_max = NFS3_STATUS_XDR + NFS3_ATTR_XDR, .proc = NFSPROC3_GETATTR);

/* ---- LOOKUPs if there are names to look at, SETATTR, GETATTR if the reply had no attributes ---- */

static uint32_t setattr_proc(const struct nfs_call *c)
{
	return c->eng.step < c->args.nwhere ? NFSPROC3_LOOKUP :
	       c->eng.step == c->args.nwhere ? NFSPROC3_SETATTR : NFSPROC3_GETATTR;
}

static bool_t encode_setattr(struct nfs_call *c, XDR *x)
{
	SETATTR3args a = { .object = nfs3_fh(c->args.fh) };

	if (c->eng.step < c->args.nwhere)
		return nfs3_encode_name(c, x);
	if (c->eng.step > c->args.nwhere)
		return nfs3_encode_getattr(x, c->args.fh);
	nfs3_sattr(&a.new_attributes, &c->args.sattr);
	return xdr_SETATTR3args(x, &a);
}

static int decode_setattr(struct nfs_call *c, XDR *x)
{
	SETATTR3res r;

	if (c->eng.step < c->args.nwhere)
		return nfs3_decode_name(c, x);
	if (c->eng.step > c->args.nwhere)
		return nfs3_decode_getattr(c, x);
	if (!xdr_SETATTR3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	if (nfs3_take_attr(c, &r.SETATTR3res_u.resok.obj_wcc.after))
		return -EBADMSG;
	if (c->res.has_attr)
		return 0;
	c->eng.step++;
	return NFS_NEXT;
}

const struct nfs_opdef nfs3_op_setattr = NFS_OPDEF("SETATTR", encode_setattr, decode_setattr,
	.results_max = NFS3_LOOKUP_XDR, .proc_of = setattr_proc);

/* ---- LOOKUP, then GETATTR ---- */

bool_t nfs3_encode_lookup(XDR *x, const struct nfs_fh *dir, const char *name)
{
	LOOKUP3args a = { .what = nfs3_dirop(dir, name) };

	return xdr_LOOKUP3args(x, &a);
}

int nfs3_decode_lookup(struct nfs_call *c, XDR *x)
{
	LOOKUP3res r;

	if (!xdr_LOOKUP3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	if (!nfs3_get_fh(&c->res.fh, &r.LOOKUP3res_u.resok.object))
		return -EBADMSG;
	return nfs3_take_attr(c, &r.LOOKUP3res_u.resok.obj_attributes);
}

static uint32_t lookup_proc(const struct nfs_call *c)
{
	return c->eng.step ? NFSPROC3_GETATTR : NFSPROC3_LOOKUP;
}

static bool_t encode_lookup(struct nfs_call *c, XDR *x)
{
	if (c->eng.step)
		return nfs3_encode_getattr(x, &c->res.fh);
	return nfs3_encode_lookup(x, c->args.fh, c->op == NFS_OP_LOOKUPP ? ".." : c->args.name);
}

static int decode_lookup(struct nfs_call *c, XDR *x)
{
	int rc;

	if (c->eng.step)
		return nfs3_decode_getattr(c, x);
	rc = nfs3_decode_lookup(c, x);
	if (rc || c->res.has_attr)
		return rc;
	c->eng.step = 1;
	return NFS_NEXT;
}

const struct nfs_opdef nfs3_op_lookup = NFS_OPDEF("LOOKUP", encode_lookup, decode_lookup,
	.results_max = NFS3_LOOKUP_XDR, .proc_of = lookup_proc);
const struct nfs_opdef nfs3_op_lookupp = NFS_OPDEF("LOOKUP ..", encode_lookup, decode_lookup,
	.results_max = NFS3_LOOKUP_XDR, .proc_of = lookup_proc);

/* ---- a name that is to be a file's ---- */

bool_t nfs3_encode_name(struct nfs_call *c, XDR *x)
{
	const struct nfs_where *w = &c->args.where[c->eng.step];

	return nfs3_encode_lookup(x, w->dir, w->name);
}

/* A user who may not search the directory any more may still open what he has open
 * (/proc/self/fd), so the handle alone decides then, and for whatever else. */
int nfs3_decode_name(struct nfs_call *c, XDR *x)
{
	int rc = nfs3_decode_lookup(c, x);

	c->res.has_attr = false;
	if (rc > 0 || rc == -EBADMSG)
		return rc;
	if (rc == -ENOENT || rc == -ENOTDIR || rc == -ESTALE)
		return -NFS_EMOVED;
	if (!rc && !nfs_fh_same(&c->res.fh, c->args.fh))
		return -NFS_EMOVED;
	c->eng.step++;
	return NFS_NEXT;
}

/* ---- ACCESS ---- */

static bool_t encode_access(struct nfs_call *c, XDR *x)
{
	ACCESS3args a = {
		.object = nfs3_fh(c->args.fh), .access = nfs_access_bits(c->args.access.mask),
	};

	return xdr_ACCESS3args(x, &a);
}

static int decode_access(struct nfs_call *c, XDR *x)
{
	ACCESS3res r;

	if (!xdr_ACCESS3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	if (nfs3_take_attr(c, &r.ACCESS3res_u.resok.obj_attributes))
		return -EBADMSG;
	c->res.access.mask = c->args.access.mask &
			     nfs_access_mask(r.ACCESS3res_u.resok.access);
	return 0;
}

const struct nfs_opdef nfs3_op_access = NFS_OPDEF("ACCESS", encode_access, decode_access,
	.results_max = NFS3_STATUS_XDR + NFS3_ATTR_XDR + 4, .proc = NFSPROC3_ACCESS);

/* ---- READLINK ---- */

static bool_t encode_readlink(struct nfs_call *c, XDR *x)
{
	READLINK3args a = { .symlink = nfs3_fh(c->args.fh) };

	return xdr_READLINK3args(x, &a);
}

static int decode_readlink(struct nfs_call *c, XDR *x)
{
	READLINK3res r;
	nfs_bulk *text = &r.READLINK3res_u.resok.data;

	*text = (nfs_bulk){ .max = NFS_PATH_MAX, .placed = c->eng.rr.placed };
	if (!xdr_READLINK3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	return nfs_take_link(c, text);
}

const struct nfs_opdef nfs3_op_readlink = {
	.name = "READLINK", .encode = encode_readlink, .decode = decode_readlink,
	.results_max = NFS3_STATUS_XDR + NFS3_ATTR_XDR + 4, .proc = NFSPROC3_READLINK,
	.placed_text = true,
};

/* ---- FSSTAT ---- */

static bool_t encode_statfs(struct nfs_call *c, XDR *x)
{
	FSSTAT3args a = { .fsroot = nfs3_fh(c->args.fh) };

	return xdr_FSSTAT3args(x, &a);
}

static int decode_statfs(struct nfs_call *c, XDR *x)
{
	FSSTAT3res r;
	const FSSTAT3resok *ok = &r.FSSTAT3res_u.resok;

	if (!xdr_FSSTAT3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	c->res.statfs = (struct nfs_statfs){
		.tbytes = ok->tbytes, .fbytes = ok->fbytes, .abytes = ok->abytes,
		.tfiles = ok->tfiles, .ffiles = ok->ffiles, .afiles = ok->afiles,
		.name_max = c->lane->client->name_max,
	};
	return 0;
}

const struct nfs_opdef nfs3_op_statfs = NFS_OPDEF("FSSTAT", encode_statfs, decode_statfs,
	.results_max = NFS3_STATUS_XDR + NFS3_ATTR_XDR + 6 * 8 + 4, .proc = NFSPROC3_FSSTAT);

/* ---- FSINFO and PATHCONF, for the mount ---- */

static int decode_fsinfo(struct nfs_call *c, XDR *x)
{
	struct nfs3_fsinfo *out = c->args.version;
	FSINFO3res r;
	const post_op_attr *root = &r.FSINFO3res_u.resok.obj_attributes;

	if (!xdr_FSINFO3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	out->rtmax = r.FSINFO3res_u.resok.rtmax;
	out->wtmax = r.FSINFO3res_u.resok.wtmax;
	out->dtpref = r.FSINFO3res_u.resok.dtpref;
	out->max_file_size = r.FSINFO3res_u.resok.maxfilesize;
	out->has_root = root->attributes_follow &&
			nfs3_get_fattr(&out->root, &root->post_op_attr_u.attributes);
	return 0;
}

static int decode_pathconf(struct nfs_call *c, XDR *x)
{
	struct nfs3_fsinfo *out = c->args.version;
	PATHCONF3res r;

	if (!xdr_PATHCONF3res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs3_error(r.status);
	out->name_max = r.PATHCONF3res_u.resok.name_max;
	return 0;
}

enum { INFO_MAX = NFS3_STATUS_XDR + NFS3_ATTR_XDR + 64 };

/* The arguments of all three are one file handle. */
const struct nfs_opdef nfs3_op_fsinfo = NFS_OPDEF("FSINFO", encode_getattr, decode_fsinfo,
	.results_max = INFO_MAX, .proc = NFSPROC3_FSINFO);
const struct nfs_opdef nfs3_op_pathconf = NFS_OPDEF("PATHCONF", encode_getattr, decode_pathconf,
	.results_max = INFO_MAX, .proc = NFSPROC3_PATHCONF);
