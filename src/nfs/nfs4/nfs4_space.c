/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The space that a file's data takes: SEEK, ALLOCATE, DEALLOCATE (RFC 7862, section 15).
 *
 * The server's reply to a change is kept for a replay; if it was lost with its session, the change is
 * sent again. That does no harm: nothing of this mount has written to the range meanwhile (ops.h: what
 * was written before is on stable storage, and what comes later waits).
 */
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"

/* ---- SEEK ---- */

static bool_t encode_seek(struct nfs_call *c, XDR *x)
{
	SEEK4args a = {
		.sa_stateid = nfs4_io_stateid(c->open, false), .sa_offset = c->args.seek.offset,
		.sa_what = c->args.seek.hole ? NFS4_CONTENT_HOLE : NFS4_CONTENT_DATA,
	};

	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_SEEK) &&
	       xdr_SEEK4args(x, &a);
}

/* Without data behind the offset, the RFC has sr_eof TRUE, and Linux NFS4ERR_NXIO. The end of the
 * file is a hole. */
static int decode_seek(struct nfs_call *c, XDR *x)
{
	seek_res4 r;
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = nfs4_get_once(c, x, OP_SEEK);
	if (rc)
		return rc;
	if (!xdr_seek_res4(x, &r))
		return -EBADMSG;
	if (r.sr_eof && !c->args.seek.hole)
		return -ENXIO;
	if (r.sr_offset < c->args.seek.offset || r.sr_offset > INT64_MAX)
		return -EBADMSG;
	c->res.seek.offset = r.sr_offset;
	return 0;
}

const struct nfs_opdef nfs4_op_seek = NFS_OPDEF("SEEK", encode_seek, decode_seek,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + 4 + 8, .proc = NFSPROC4_COMPOUND);

/* ---- ALLOCATE, DEALLOCATE ---- */

enum { STEP_SPACE, STEP_GETATTR };

/* Both have the same arguments. */
static bool_t put_space(const struct nfs_call *c, XDR *x, nfs_opnum4 op)
{
	ALLOCATE4args a = {
		.aa_stateid = nfs4_io_stateid(c->open, true), .aa_offset = c->args.space.offset,
		.aa_length = c->args.space.length,
	};

	return nfs4_put_op(x, op) && xdr_ALLOCATE4args(x, &a);
}

static bool_t encode_allocate(struct nfs_call *c, XDR *x)
{
	if (c->eng.step == STEP_GETATTR)
		return nfs4_encode_getattr(c, x, c->args.fh);
	return nfs4_begin(c, x, 4, true, c->args.fh) && put_space(c, x, OP_ALLOCATE) &&
	       nfs4_put_getattr(x);
}

static int space_changed(struct nfs_call *c, XDR *x)
{
	nfs4_goes_on_at(c, STEP_GETATTR);
	return nfs4_get_attr(c, x);
}

static int decode_allocate(struct nfs_call *c, XDR *x)
{
	int rc;

	if (c->eng.step == STEP_GETATTR)
		return nfs4_decode_getattr(c, x);
	rc = nfs4_check(c, x);
	if (!rc)
		rc = nfs4_get_maybe(c, x, OP_ALLOCATE);
	return rc ? rc : space_changed(c, x);
}

static bool_t encode_deallocate(struct nfs_call *c, XDR *x)
{
	bool refill = c->args.space.refill;

	if (c->eng.step == STEP_GETATTR)
		return nfs4_encode_getattr(c, x, c->args.fh);
	return nfs4_begin(c, x, 4 + refill, true, c->args.fh) && put_space(c, x, OP_DEALLOCATE) &&
	       (!refill || put_space(c, x, OP_ALLOCATE)) && nfs4_put_getattr(x);
}

/* Of both, the first one says whether the server has it. */
static int decode_deallocate(struct nfs_call *c, XDR *x)
{
	int rc;

	if (c->eng.step == STEP_GETATTR)
		return nfs4_decode_getattr(c, x);
	rc = nfs4_check(c, x);
	if (!rc)
		rc = nfs4_get_maybe(c, x, OP_DEALLOCATE);
	if (!rc && c->args.space.refill)
		rc = nfs4_get_status(c, x, OP_ALLOCATE);
	return rc ? rc : space_changed(c, x);
}

enum { SPACE_MAX = V4_PREFIX_XDR + V4_OP_XDR + V4_OP_XDR + V4_GETATTR_XDR };

const struct nfs_opdef nfs4_op_allocate = NFS_OPDEF("ALLOCATE", encode_allocate, decode_allocate,
	.results_max = SPACE_MAX, .proc = NFSPROC4_COMPOUND);
const struct nfs_opdef nfs4_op_deallocate = NFS_OPDEF("DEALLOCATE", encode_deallocate, decode_deallocate,
	.results_max = SPACE_MAX, .proc = NFSPROC4_COMPOUND);
