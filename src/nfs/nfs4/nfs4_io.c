/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * READ, WRITE, COMMIT. READ data is in the sink if it was placed there, otherwise in the
 * reply itself. There is one READ in a COMPOUND, so it is clear whose Write chunk it is
 * (RFC 8267, section 4.3). WRITE asks for FILE_SYNC4, unless the caller keeps the data and can
 * send it again after a restart of the server.
 */
#include <string.h>
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_impl.h"

/* ---- READ ---- */

static bool_t encode_read(struct nfs_call *c, XDR *x)
{
	READ4args a = {
		.stateid = nfs4_stateid(c->open), .offset = c->args.io.offset, .count = c->args.io.count,
	};

	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_READ) &&
	       xdr_READ4args(x, &a);
}

static int decode_read(struct nfs_call *c, XDR *x)
{
	READ4res r;
	READ4resok *ok = &r.READ4res_u.resok4;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	ok->data = (nfs_bulk){ .max = c->args.io.count, .placed = c->eng.rr.placed };
	if (nfs4_get_op(x, OP_READ) || !xdr_READ4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	return nfs_take_read(c, &ok->data, ok->eof);
}

const struct nfs_opdef nfs4_op_read = {
	.name = "READ", .encode = encode_read, .decode = decode_read,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + 4 + 4, .proc = NFSPROC4_COMPOUND,
};

/* ---- WRITE ---- */

static bool_t encode_write(struct nfs_call *c, XDR *x)
{
	WRITE4args a = {
		.stateid = nfs4_stateid(c->open), .offset = c->args.io.offset,
		.stable = c->args.io.unstable ? UNSTABLE4 : FILE_SYNC4, .data.len = nfs_write_len(c),
	};

	if (!nfs4_begin(c, x, 3, true, c->args.fh) || !nfs4_put_op(x, OP_WRITE) ||
	    !xdr_WRITE4args(x, &a))
		return FALSE;
	c->eng.rr.data_pos = a.data.pos;
	return TRUE;
}

static int decode_write(struct nfs_call *c, XDR *x)
{
	WRITE4res r;
	const WRITE4resok *ok = &r.WRITE4res_u.resok4;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_WRITE) || !xdr_WRITE4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	return nfs_take_write(c, ok->count, ok->committed == FILE_SYNC4, ok->writeverf);
}

enum { WRITE_MAX = V4_PREFIX_XDR + V4_OP_XDR + 4 + 4 + NFS4_VERIFIER_SIZE };

const struct nfs_opdef nfs4_op_write = {
	.name = "WRITE", .encode = encode_write, .decode = decode_write,
	.results_max = WRITE_MAX, .proc = NFSPROC4_COMPOUND,
};

/* ---- COMMIT ---- */

static bool_t encode_commit(struct nfs_call *c, XDR *x)
{
	COMMIT4args a = { .offset = c->args.io.offset, .count = c->args.io.count };

	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_COMMIT) &&
	       xdr_COMMIT4args(x, &a);
}

static int decode_commit(struct nfs_call *c, XDR *x)
{
	COMMIT4res r;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_COMMIT) || !xdr_COMMIT4res(x, &r))
		return -EBADMSG;
	if (r.status)
		return nfs4_error(c, r.status);
	c->res.io.verf = nfs_verifier(r.COMMIT4res_u.resok4.writeverf);
	return 0;
}

const struct nfs_opdef nfs4_op_commit = {
	.name = "COMMIT", .encode = encode_commit, .decode = decode_commit,
	.results_max = WRITE_MAX, .proc = NFSPROC4_COMPOUND,
};
