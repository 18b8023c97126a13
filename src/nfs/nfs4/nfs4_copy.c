/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copies that the server makes: COPY and CLONE within one server, OFFLOAD_STATUS and OFFLOAD_CANCEL of a
 * copy that goes on behind COPY's reply (RFC 7862, sections 4 and 15).
 *
 *   PUTFH source | SAVEFH | PUTFH destination | COPY | COMMIT, if it is short | GETATTR
 *   PUTFH source | SAVEFH | PUTFH destination | CLONE | COMMIT | GETATTR
 *
 * COPY says how stable the copy is, as WRITE does, and COMMIT's verifier has to be COPY's. CLONE does not
 * say it, so COMMIT always follows: without a look at its verifier, because both are executed by one
 * server, or by none.
 *
 * Exactly once. The reply is kept for a replay. If it was lost with its session, the same is copied once
 * more. That is harmless: source and destination do not overlap (vfs/copy.c), so the source has still
 * what it had, or what others have written there while the call was under way; and nobody of this mount
 * writes the destination before the call ends (vfs/start.c).
 *
 * A copy that goes on is asked for only if the server can say by CB_OFFLOAD when it has ended: older Linux
 * forgets it then, and who asks has lost the result. A COPY that has to be sent again, because the server
 * wants that or has lost the session, asks for a synchronous one: servers limit how many go on at a time, and
 * of two that go on only the second one would be known.
 *
 * A copy that goes on has a stateid of its own, which only its server knows, until that restarts. No
 * recovery is asked for if the server does not know it: what it says is the answer.
 */
#include <string.h>
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"

_Static_assert(sizeof(((struct nfs_results *)0)->copy.id) == sizeof(stateid4), "it is one");

enum { STEP_COPY, STEP_GETATTR };

/* SEQUENCE, and what both begin with: `more` operations follow. */
static bool_t put_files(struct nfs_call *c, XDR *x, uint32_t more)
{
	return nfs4_begin(c, x, 4 + more, true, c->args.fh2) && nfs4_put_op(x, OP_SAVEFH) &&
	       nfs4_put_fh(x, c->args.fh);
}

static int check_files(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = nfs4_get_status(c, x, OP_SAVEFH);
	return rc ? rc : nfs4_get_status(c, x, OP_PUTFH);
}

static bool_t put_commit(XDR *x)
{
	COMMIT4args all = { 0 };

	return nfs4_put_op(x, OP_COMMIT) && xdr_COMMIT4args(x, &all);
}

static int get_commit(struct nfs_call *c, XDR *x, char verf[NFS4_VERIFIER_SIZE])
{
	int rc = nfs4_get_status(c, x, OP_COMMIT);

	return rc ? rc : xdr_opaque(x, verf, NFS4_VERIFIER_SIZE) ? 0 : -EBADMSG;
}

static int copy_changed(struct nfs_call *c, XDR *x)
{
	nfs4_goes_on_at(c, STEP_GETATTR);
	return nfs4_get_attr(c, x);
}

/* ---- COPY ---- */

static bool copy_is_told(struct nfs_call *c)
{
	struct nfs4_back *b = &nfs4_of(c)->back;

	return atomic_load(&b->has) && !atomic_load(&b->need);
}

static bool_t encode_copy(struct nfs_call *c, XDR *x)
{
	COPY4args a = {
		.ca_src_stateid = nfs4_io_stateid(c->args.copy.from, false),
		.ca_dst_stateid = nfs4_io_stateid(c->open, true),
		.ca_src_offset = c->args.copy.from_offset, .ca_dst_offset = c->args.copy.offset,
		.ca_count = c->args.copy.count, .ca_consecutive = TRUE,
		.ca_synchronous = !c->args.copy.may_go_on || c->eng.retries || !copy_is_told(c),
	};

	if (c->eng.step == STEP_GETATTR)
		return nfs4_encode_getattr(c, x, c->args.fh);
	return put_files(c, x, 2 + c->args.copy.commit) && nfs4_put_op(x, OP_COPY) &&
	       xdr_COPY4args(x, &a) && (!c->args.copy.commit || put_commit(x)) && nfs4_put_getattr(x);
}

static int take_copy(struct nfs_call *c, const write_response4 *r)
{
	bool running = r->wr_callback_id.wr_callback_id_len;

	if (!running && r->wr_count > c->args.copy.count)
		return -EBADMSG;
	c->res.copy.running = running;
	c->res.copy.told = running && copy_is_told(c);
	if (running)
		memcpy(&c->res.copy.id, r->wr_callback_id.wr_callback_id_val, sizeof(c->res.copy.id));
	c->res.copy.count = running ? 0 : r->wr_count;
	c->res.copy.stable = !running && r->wr_committed == FILE_SYNC4;
	c->res.copy.verf = nfs_verifier(r->wr_writeverf);
	c->res.copy.committed = c->res.copy.twice = false;
	return 0;
}

static int copy_committed(struct nfs_call *c, XDR *x)
{
	char verf[NFS4_VERIFIER_SIZE];
	int rc = get_commit(c, x, verf);

	if (!rc)
		c->res.copy.committed = !c->res.copy.running && c->res.copy.verf == nfs_verifier(verf);
	c->res.copy.twice = nfs4_call(c)->in_doubt;
	return rc;
}

static int copy_result(struct nfs_call *c, XDR *x)
{
	COPY4resok r;
	int rc;

	memset(&r, 0, sizeof(r));
	rc = xdr_COPY4resok(x, &r) ? take_copy(c, &r.cr_response) : -EBADMSG;
	xdr_free((xdrproc_t)xdr_COPY4resok, (char *)&r);
	return rc;
}

/* A copy that goes on has changed nothing yet that attributes would show. */
static int decode_copy(struct nfs_call *c, XDR *x)
{
	int rc;

	if (c->eng.step == STEP_GETATTR)
		return nfs4_decode_getattr(c, x);
	rc = check_files(c, x);
	if (!rc)
		rc = nfs4_get_once(c, x, OP_COPY);
	if (!rc)
		rc = copy_result(c, x);
	if (!rc && c->args.copy.commit)
		rc = copy_committed(c, x);
	return rc ? rc : copy_changed(c, x);
}

/* Two requirements, of the result or of NFS4ERR_OFFLOAD_NO_REQS. */
enum { COPY_XDR = V4_OP_XDR + 4u + 16u + 8u + 4u + NFS4_VERIFIER_SIZE + 2u * 4u,
       COMMIT_XDR = V4_OP_XDR + NFS4_VERIFIER_SIZE, FILES_XDR = V4_PREFIX_XDR + 2u * V4_OP_XDR };

const struct nfs_opdef nfs4_op_copy = NFS_OPDEF("COPY", encode_copy, decode_copy,
	.results_max = FILES_XDR + COPY_XDR + COMMIT_XDR + V4_GETATTR_XDR, .proc = NFSPROC4_COMPOUND);

/* ---- CLONE ---- */

static bool_t encode_clone(struct nfs_call *c, XDR *x)
{
	CLONE4args a = {
		.cl_src_stateid = nfs4_io_stateid(c->args.copy.from, false),
		.cl_dst_stateid = nfs4_io_stateid(c->open, true),
		.cl_src_offset = c->args.copy.from_offset, .cl_dst_offset = c->args.copy.offset,
		.cl_count = c->args.copy.count,
	};

	if (c->eng.step == STEP_GETATTR)
		return nfs4_encode_getattr(c, x, c->args.fh);
	return put_files(c, x, 3) && nfs4_put_op(x, OP_CLONE) && xdr_CLONE4args(x, &a) &&
	       put_commit(x) && nfs4_put_getattr(x);
}

static int decode_clone(struct nfs_call *c, XDR *x)
{
	char verf[NFS4_VERIFIER_SIZE];
	int rc;

	if (c->eng.step == STEP_GETATTR)
		return nfs4_decode_getattr(c, x);
	rc = check_files(c, x);
	if (!rc)
		rc = nfs4_get_once(c, x, OP_CLONE);
	if (!rc)
		rc = get_commit(c, x, verf);
	return rc ? rc : copy_changed(c, x);
}

const struct nfs_opdef nfs4_op_clone = NFS_OPDEF("CLONE", encode_clone, decode_clone,
	.results_max = FILES_XDR + V4_OP_XDR + COMMIT_XDR + V4_GETATTR_XDR,
	.proc = NFSPROC4_COMPOUND);

/* ---- a copy that goes on ---- */

static bool_t put_offload(struct nfs_call *c, XDR *x, nfs_opnum4 op)
{
	OFFLOAD_STATUS4args a;

	memcpy(&a.osa_stateid, &c->args.copy.id, sizeof(a.osa_stateid));
	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, op) &&
	       xdr_OFFLOAD_STATUS4args(x, &a);
}

static bool_t encode_status(struct nfs_call *c, XDR *x)
{
	return put_offload(c, x, OP_OFFLOAD_STATUS);
}

static int take_status(struct nfs_call *c, const OFFLOAD_STATUS4resok *r)
{
	bool running = !r->osr_complete.osr_complete_len;

	if (r->osr_count > c->args.copy.count)
		return -EBADMSG;
	c->res.copy.running = running;
	c->res.copy.count = r->osr_count;
	return running ? 0 : nfs4_errno(*r->osr_complete.osr_complete_val);
}

static int decode_status(struct nfs_call *c, XDR *x)
{
	OFFLOAD_STATUS4resok r;
	int rc = nfs4_check(c, x);

	if (!rc)
		rc = nfs4_get_maybe(c, x, OP_OFFLOAD_STATUS);
	if (rc)
		return rc;
	memset(&r, 0, sizeof(r));
	rc = xdr_OFFLOAD_STATUS4resok(x, &r) ? take_status(c, &r) : -EBADMSG;
	xdr_free((xdrproc_t)xdr_OFFLOAD_STATUS4resok, (char *)&r);
	return rc;
}

const struct nfs_opdef nfs4_op_offload_status = NFS_OPDEF("OFFLOAD_STATUS", encode_status, decode_status,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + 8u + 2u * 4u, .proc = NFSPROC4_COMPOUND);

static bool_t encode_cancel(struct nfs_call *c, XDR *x)
{
	return put_offload(c, x, OP_OFFLOAD_CANCEL);
}

/* If the server does not know it, it has ended, or the server has restarted: it copies no more. */
static int decode_cancel(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check(c, x);
	nfsstat4 status;

	if (rc)
		return rc;
	if (!nfs4_get_result(x, OP_OFFLOAD_CANCEL, &status))
		return -EBADMSG;
	switch (status) {
	case NFS4_OK:
	case NFS4ERR_COMPLETE_ALREADY:
	case NFS4ERR_BAD_STATEID:
	case NFS4ERR_STALE_STATEID:
		return 0;
	default:
		return nfs4_error(c, status);
	}
}

const struct nfs_opdef nfs4_op_offload_cancel = NFS_OPDEF("OFFLOAD_CANCEL", encode_cancel, decode_cancel,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR, .proc = NFSPROC4_COMPOUND);
