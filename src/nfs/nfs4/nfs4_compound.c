/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * COMPOUNDs, operation by operation (RFC 8881, section 16.2).
 *
 *   call     tag | minor version | n | SEQUENCE | PUTFH | op | ...
 *   reply    status | tag | n | SEQUENCE result | PUTFH result | op result | ...
 *
 * Results are decoded in the order in which the operations were sent. The result of a
 * failed operation is the last one.
 */
#include <string.h>
#include "nfs/nfs4/nfs4_compound.h"

/* ---- sending ---- */

bool_t nfs4_put_op(XDR *x, nfs_opnum4 op)
{
	uint32_t word = op;

	return xdr_uint32_t(x, &word);
}

bool_t nfs4_put_fh(XDR *x, const struct nfs_fh *fh)
{
	uint32_t padded = (fh->len + 3) & ~3u;
	int32_t *at = fh->len <= NFS_FH_MAX ? XDR_INLINE(x, 2 * BYTES_PER_XDR_UNIT + padded) : NULL;

	if (!at)
		return FALSE;
	IXDR_PUT_U_INT32(at, OP_PUTFH);
	IXDR_PUT_U_INT32(at, fh->len);
	if (padded)
		at[padded / BYTES_PER_XDR_UNIT - 1] = 0;
	memcpy(at, fh->data, fh->len);
	return TRUE;
}

bool_t nfs4_begin(struct nfs_call *c, XDR *x, uint32_t nops, bool cache, const struct nfs_fh *fh)
{
	if (!c->eng.riding_close)
		return nfs4_begin_seq(c, x, nops, cache) && nfs4_put_fh(x, fh);
	return nfs4_begin_seq(c, x, nops + NFS4_CLOSE_RIDE_OPS, cache) && nfs4_put_rider(c, x) &&
	       nfs4_put_fh(x, fh);
}

bool_t nfs4_put_name(XDR *x, nfs_opnum4 op, const char *name)
{
	component4 n = nfs_ref_str(name);

	return nfs4_put_op(x, op) && xdr_component4(x, &n);
}

bool_t nfs4_put_getattr(XDR *x)
{
	int32_t *at = XDR_INLINE(x, 4 * BYTES_PER_XDR_UNIT);

	if (!at)
		return FALSE;
	IXDR_PUT_U_INT32(at, OP_GETATTR);
	IXDR_PUT_U_INT32(at, nfs4_stat_mask.len);
	IXDR_PUT_U_INT32(at, nfs4_stat_mask.words[0]);
	IXDR_PUT_U_INT32(at, nfs4_stat_mask.words[1]);
	return TRUE;
}

bool_t nfs4_encode_getattr(struct nfs_call *c, XDR *x, const struct nfs_fh *fh)
{
	return nfs4_begin(c, x, 3, false, fh) && nfs4_put_getattr(x);
}

/* ---- receiving ---- */

void nfs4_goes_on_at(struct nfs_call *c, uint8_t step)
{
	c->eng.step = step;
	nfs4_call(c)->had_effect = true;
}

int nfs4_get_op(XDR *x, nfs_opnum4 op)
{
	uint32_t got;

	return xdr_uint32_t(x, &got) && got == (uint32_t)op ? 0 : -EBADMSG;
}

/* Nobody asks again. */
static int server_lacks(struct nfs_call *c)
{
	atomic_fetch_or(&c->target->server->lacks, UINT64_C(1) << c->op);
	return -EOPNOTSUPP;
}

/* The operation's status, if the server knows it. */
static int get_if_known(struct nfs_call *c, XDR *x, nfs_opnum4 op, nfsstat4 *status)
{
	uint32_t got;

	if (!xdr_uint32_t(x, &got) || (got != (uint32_t)op && got != OP_ILLEGAL) ||
	    !xdr_nfsstat4(x, status) || (got == OP_ILLEGAL && *status != NFS4ERR_OP_ILLEGAL))
		return -EBADMSG;
	return got == OP_ILLEGAL ? server_lacks(c) : 0;
}

int nfs4_get_maybe(struct nfs_call *c, XDR *x, nfs_opnum4 op)
{
	nfsstat4 status;
	int rc = get_if_known(c, x, op, &status);

	return rc ? rc : status ? nfs4_error(c, status) : 0;
}

int nfs4_get_once(struct nfs_call *c, XDR *x, nfs_opnum4 op)
{
	nfsstat4 status;
	int rc = get_if_known(c, x, op, &status);

	if (!rc && status == NFS4ERR_NOTSUPP)
		return server_lacks(c);
	return rc ? rc : status ? nfs4_error(c, status) : 0;
}

int nfs4_get_status(struct nfs_call *c, XDR *x, nfs_opnum4 op)
{
	nfsstat4 status;

	if (!nfs4_get_result(x, op, &status))
		return -EBADMSG;
	return status ? nfs4_error(c, status) : 0;
}

int nfs4_check(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check_seq(c, x);

	if (!rc && c->eng.riding_close)
		rc = nfs4_get_rider(c, x);
	return rc ? rc : nfs4_get_status(c, x, OP_PUTFH);
}

int nfs4_get_fh(struct nfs_call *c, XDR *x)
{
	nfsstat4 status;
	nfs_fh4 fh;

	if (!nfs4_get_result(x, OP_GETFH, &status))
		return -EBADMSG;
	if (status)
		return nfs4_error(c, status);
	if (!xdr_nfs_fh4(x, &fh) || fh.len == 0 || fh.len > NFS_FH_MAX)
		return -EBADMSG;
	c->res.fh.len = fh.len;
	memcpy(c->res.fh.data, fh.data, fh.len);
	return 0;
}

int nfs4_get_attr(struct nfs_call *c, XDR *x)
{
	struct nfs4_attrs a;
	nfsstat4 status;
	fattr4 in;

	if (!nfs4_get_result(x, OP_GETATTR, &status))
		return -EBADMSG;
	if (status)
		return nfs4_error(c, status);
	if (!xdr_fattr4(x, &in) || !nfs4_get_fattr(&a, &in) || !nfs4_has_required(&a))
		return -EBADMSG;
	c->res.attr = a.attr;
	c->res.has_attr = true;
	if (c->op == NFS_OP_BIRTH) {
		c->res.has_btime = bitmap4_isset(&a.got, FATTR4_TIME_CREATE);
		c->res.btime = a.btime;
	}
	/* An earlier reply of this operation may have had names, which are still looked up. */
	if (nfs_owner_any(&c->eng.owners))
		nfs_owner_drop(c);
	if (a.owner.len)
		nfs_owner_of_call(c, false, a.owner.data, a.owner.len);
	if (a.group.len)
		nfs_owner_of_call(c, true, a.group.data, a.group.len);
	return 0;
}

int nfs4_decode_getattr(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check(c, x);

	return rc ? rc : nfs4_get_attr(c, x);
}

/* ---- directories ---- */

bool_t nfs4_put_dir(XDR *x)
{
	GETATTR4args a = { .attr_request = nfs4_after_mask };

	return nfs4_put_op(x, OP_GETATTR) && xdr_GETATTR4args(x, &a);
}

bool_t nfs4_put_dir_fh(XDR *x, const struct nfs_fh *fh)
{
	return nfs4_put_fh(x, fh) && nfs4_put_dir(x);
}

int nfs4_get_dir(struct nfs_call *c, XDR *x, unsigned i, bool *ends)
{
	struct nfs4_attrs a;
	GETATTR4res r;

	if (nfs4_get_op(x, OP_GETATTR) || !xdr_GETATTR4res(x, &r))
		return -EBADMSG;
	*ends = r.status;
	if (r.status)
		return 0;
	if (!nfs4_get_fattr(&a, &r.GETATTR4res_u.resok4.obj_attributes) ||
	    !bitmap4_isset(&a.got, FATTR4_TYPE))
		return -EBADMSG;
	if (!nfs4_has_required(&a))
		return 0;
	c->res.dir_attr[i] = a.attr;
	c->res.has_dir_attr[i] = true;
	c->res.dir_no_owner = true;
	return 0;
}

static int get_after(struct nfs_call *c, XDR *x, nfs_opnum4 op, unsigned i)
{
	nfsstat4 status;
	bool ends;

	if (nfs4_get_op(x, op) || !xdr_nfsstat4(x, &status))
		return -EBADMSG;
	return status ? 0 : nfs4_get_dir(c, x, i, &ends);
}

int nfs4_get_dir_fh(struct nfs_call *c, XDR *x, unsigned i)
{
	return get_after(c, x, OP_PUTFH, i);
}

int nfs4_get_dir_saved(struct nfs_call *c, XDR *x, unsigned i)
{
	return get_after(c, x, OP_RESTOREFH, i);
}

void nfs4_take_change(struct nfs_call *c, unsigned i, const change_info4 *info)
{
	c->res.dir_change[i] = (struct nfs_dir_change){ info->atomic, info->before, info->after };
}
