/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * READ, WRITE, COMMIT. READ data is in the sink if it was placed there, otherwise in the
 * reply itself. There is one READ in a COMPOUND, so it is clear whose Write chunk it is
 * (RFC 8267, section 4.3). WRITE asks for FILE_SYNC4, unless the caller keeps the data and can
 * send it again after a restart of the server.
 */
#include <string.h>
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"

/* READ's and WRITE's arguments begin alike: in one piece, as SEQUENCE. `last` is READ's count,
 * or WRITE's stable. */
static bool_t put_io(const struct nfs_call *c, XDR *x, nfs_opnum4 op, uint32_t last)
{
	int32_t *at = XDR_INLINE(x, 5 * BYTES_PER_XDR_UNIT + NFS4_OTHER_SIZE);
	stateid4 s = nfs4_io_stateid(c->open, op == OP_WRITE);

	if (!at)
		return FALSE;
	IXDR_PUT_U_INT32(at, op);
	IXDR_PUT_U_INT32(at, s.seqid);
	memcpy(at, s.other, NFS4_OTHER_SIZE);
	at += NFS4_OTHER_SIZE / BYTES_PER_XDR_UNIT;
	IXDR_PUT_U_INT32(at, c->args.io.offset >> 32);
	IXDR_PUT_U_INT32(at, c->args.io.offset);
	IXDR_PUT_U_INT32(at, last);
	return TRUE;
}

/* ---- READ ---- */

static bool_t encode_read(struct nfs_call *c, XDR *x)
{
	return nfs4_begin(c, x, 3, false, c->args.fh) && put_io(c, x, OP_READ, nfs_read_len(c));
}

static int decode_read(struct nfs_call *c, XDR *x)
{
	nfs_bulk data = { .max = nfs_read_len(c), .placed = c->eng.rr.placed };
	int rc = nfs4_check(c, x);
	nfsstat4 status;
	bool_t eof;

	if (rc)
		return rc;
	if (!nfs4_get_result(x, OP_READ, &status))
		return -EBADMSG;
	if (status)
		return nfs4_error(c, status);
	if (!xdr_bool(x, &eof) || !xdr_nfs_bulk(x, &data))
		return -EBADMSG;
	return nfs_take_read(c, &data, eof);
}

const struct nfs_opdef nfs4_op_read = NFS_OPDEF("READ", encode_read, decode_read,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + 4 + 4, .proc = NFSPROC4_COMPOUND);

/* ---- WRITE ---- */

static bool_t encode_write(struct nfs_call *c, XDR *x)
{
	nfs_bulk data = { .len = nfs_write_len(c) };

	if (!nfs4_begin(c, x, 3, true, c->args.fh) ||
	    !put_io(c, x, OP_WRITE, c->args.io.unstable ? UNSTABLE4 : FILE_SYNC4) ||
	    !xdr_nfs_bulk(x, &data))
		return FALSE;
	c->eng.rr.data_pos = data.pos;
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

const struct nfs_opdef nfs4_op_write = NFS_OPDEF("WRITE", encode_write, decode_write,
	.results_max = WRITE_MAX, .proc = NFSPROC4_COMPOUND);

/* ---- COMMIT ---- */

/* A server may report that it could not write once, to whoever asks first, and say that all is well
 * to the next COMMIT. So the reply is to be kept for a replay, like WRITE's. */
static bool_t encode_commit(struct nfs_call *c, XDR *x)
{
	COMMIT4args a = { .offset = c->args.io.offset, .count = c->args.io.count };

	return nfs4_begin(c, x, 3, true, c->args.fh) && nfs4_put_op(x, OP_COMMIT) &&
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
	nfs_take_commit(c, r.COMMIT4res_u.resok4.writeverf, nfs4_call(c)->in_doubt);
	return 0;
}

const struct nfs_opdef nfs4_op_commit = NFS_OPDEF("COMMIT", encode_commit, decode_commit,
	.results_max = WRITE_MAX, .proc = NFSPROC4_COMPOUND);
