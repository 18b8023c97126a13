/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CLOSE, by itself or in the COMPOUND of another call (nfs/close_ride.h). */
#include "nfs/nfs4/nfs4_compound.h"

/* STEP_FREE: the server has revoked the stateid, and keeps it until we free it. */
enum { STEP_CLOSE, STEP_FREE };

/* An open without a handle comes from a create that the server could not give one for.
 * It is found by its directory and name. If the name is another file's by now, the
 * server says that the stateid is not that file's. Then the open ends with the mount. */
static bool is_nameless(const struct nfs_call *c)
{
	return !c->open->file && c->args.name;
}

static bool_t put_file(struct nfs_call *c, XDR *x)
{
	if (is_nameless(c))
		return nfs4_begin(c, x, 4, true, c->args.fh) &&
		       nfs4_put_name(x, OP_LOOKUP, c->args.name);
	/* An OPEN by handle that found no memory for the file is undone by that handle. */
	return nfs4_begin(c, x, 3, true, c->open->file ? &c->open->file->fh : c->args.fh);
}

static bool_t encode_close(struct nfs_call *c, XDR *x)
{
	CLOSE4args a = { .open_stateid = nfs4_stateid(c->open) };

	if (c->eng.step == STEP_FREE)
		return nfs4_put_free(c, x, &c->open->stateid);
	return put_file(c, x) && nfs4_put_op(x, OP_CLOSE) && xdr_CLOSE4args(x, &a);
}

/* Nothing is open any more, or was, and that was wanted. */
static bool is_closed(nfsstat4 status)
{
	return !status || status == NFS4ERR_BAD_STATEID || status == NFS4ERR_STALE_STATEID ||
	       status == NFS4ERR_OLD_STATEID;
}

static int decode_close(struct nfs_call *c, XDR *x)
{
	nfsstat4 status;
	CLOSE4res r;
	int rc;

	if (c->eng.step == STEP_FREE)
		return nfs4_get_free(c, x, &status);
	rc = nfs4_check(c, x);
	if (!rc && is_nameless(c))
		rc = nfs4_get_status(c, x, OP_LOOKUP);
	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_CLOSE) || !xdr_CLOSE4res(x, &r))
		return -EBADMSG;
	if (is_closed(r.status))
		return 0;
	switch (r.status) {
	case NFS4ERR_EXPIRED:
	case NFS4ERR_ADMIN_REVOKED:
	case NFS4ERR_DELEG_REVOKED:
		c->eng.step = STEP_FREE;
		return NFS_NEXT;
	default:
		return nfs4_error(c, r.status);
	}
}

/* The server does not know what is lost, or was not opened again: that CLOSE fails. */
static bool nfs4_close_rides(const struct nfs_call *c)
{
	return c->open->file && !atomic_load(&c->open->lost) && nfs4_open_close(c->open) && c->open->access;
}

bool_t nfs4_put_rider(struct nfs_call *c, XDR *x)
{
	struct nfs_open *o = c->eng.riding_close->open;
	CLOSE4args a = { .open_stateid = nfs4_stateid(o) };

	return nfs4_put_fh(x, &o->file->fh) && nfs4_put_op(x, OP_CLOSE) &&
	       xdr_CLOSE4args(x, &a);
}

/* What is wrong with CLOSE is found out when it is sent by itself. */
int nfs4_get_rider(struct nfs_call *c, XDR *x)
{
	nfsstat4 status;
	CLOSE4res r;

	if (nfs4_get_op(x, OP_PUTFH) || !xdr_nfsstat4(x, &status))
		return -EBADMSG;
	if (status)
		return NFS_ALONE;
	if (nfs4_get_op(x, OP_CLOSE) || !xdr_CLOSE4res(x, &r))
		return -EBADMSG;
	c->eng.close_ride_closed = is_closed(r.status);
	return r.status ? NFS_ALONE : 0;
}

const struct nfs_opdef nfs4_op_close = {
	.name = "CLOSE", .encode = encode_close, .decode = decode_close, .rides = nfs4_close_rides,
	.results_max = V4_PREFIX_XDR + 2 * V4_OP_XDR + 16, .proc = NFSPROC4_COMPOUND,
};
