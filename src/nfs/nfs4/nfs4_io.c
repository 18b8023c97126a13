/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * READ, WRITE, COMMIT. READ data is in the sink if the reply says it was placed
 * there, otherwise in the reply itself; one READ per COMPOUND, so there is no
 * doubt which Write chunk is whose (RFC 8267, section 4.3). WRITE asks for
 * FILE_SYNC4: no copy is kept that could be sent again after a restart.
 */
#include <string.h>
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

/* Old servers also place the XDR pad; more than that is not ours. */
static bool placed_len_ok(const struct nfs_call *c, uint32_t len)
{
	return c->eng.rr.placed_len == len || c->eng.rr.placed_len == ((len + 3) & ~3u);
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
	if (ok->data.len > c->args.io.count || (c->eng.rr.placed && !placed_len_ok(c, ok->data.len)))
		return -EBADMSG;
	c->res.io.ptr = c->eng.rr.placed ? c->args.io.sink.mem : ok->data.data;
	c->res.io.len = ok->data.len;
	c->res.io.eof = ok->eof;
	stat_add(&c->lane->stats, STAT_READ_REQUESTS, 1);
	stat_add(&c->lane->stats, c->eng.rr.placed ? STAT_READ_PLACED_BYTES : STAT_READ_INLINE_BYTES,
		 ok->data.len);
	return 0;
}

const struct nfs_opdef nfs4_op_read = {
	.name = "READ", .encode = encode_read, .decode = decode_read,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + 4 + 4, .proc = NFSPROC4_COMPOUND,
};

/* ---- WRITE ---- */

static uint32_t data_len(const struct nfs_call *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->args.io.ndata; i++)
		n += c->args.io.data[i].len;
	return n;
}

static bool_t encode_write(struct nfs_call *c, XDR *x)
{
	WRITE4args a = {
		.stateid = nfs4_stateid(c->open), .offset = c->args.io.offset,
		.stable = FILE_SYNC4, .data.len = data_len(c),
	};

	if (!nfs4_begin(c, x, 3, true, c->args.fh) || !nfs4_put_op(x, OP_WRITE) ||
	    !xdr_WRITE4args(x, &a))
		return FALSE;
	c->eng.rr.data_pos = a.data.pos;
	return TRUE;
}

static uint64_t get_verf(const char *verf)
{
	uint64_t v;

	memcpy(&v, verf, sizeof(v));
	return v;
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
	if (ok->count == 0 || ok->count > data_len(c))
		return -EBADMSG;
	c->res.io.len = ok->count;
	c->res.io.stable = ok->committed == FILE_SYNC4;
	c->res.io.verf = get_verf(ok->writeverf);
	stat_add(&c->lane->stats, STAT_WRITE_REQUESTS, 1);
	return 0;
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
	c->res.io.verf = get_verf(r.COMMIT4res_u.resok4.writeverf);
	return 0;
}

const struct nfs_opdef nfs4_op_commit = {
	.name = "COMMIT", .encode = encode_commit, .decode = decode_commit,
	.results_max = WRITE_MAX, .proc = NFSPROC4_COMPOUND,
};
