/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DELEGRETURN: as an operation, of delegations that are in the table (nfs4_delegs.h); and as a step of OPEN,
 * of one that comes although there are to be none (nodeleg). Nobody here would know that when it is recalled
 * (nfs4_callback.c), and others would wait until the server revokes it. So it is returned before anybody
 * hears of the open, and before the open is closed.
 */
#include "nfs/nfs4/nfs4_compound.h"

/* ---- OPEN ---- */

void nfs4_delegation_note(struct nfs_call *c, const open_delegation4 *d)
{
	const open_read_delegation4 *read = &d->open_delegation4_u.read;
	bool write = d->delegation_type == OPEN_DELEGATE_WRITE;
	const stateid4 *stateid = write ? &d->open_delegation4_u.write.stateid : &read->stateid;
	struct nfs_open *o = c->open;

	if ((!write && d->delegation_type != OPEN_DELEGATE_READ) ||
	    nfs4_delegs_got(c, stateid, !write && !read->recall))
		return;
	o->delegation = *stateid;
	o->delegation.seqid = 0;
	o->delegated = true;
}

int nfs4_delegation_first(struct nfs_call *c, int rc)
{
	struct nfs_open *o = c->open;

	if (rc > 0 || !o || !o->delegated || !o->file)
		return rc;
	/* CREATE's: when it came nobody knew of which file it is. */
	o->delegated = !nfs4_delegs_got(c, &o->delegation, false);
	if (!o->delegated)
		return rc;
	nfs4_call(c)->result = rc;
	c->eng.step = NFS4_STEP_RETURN;
	return NFS_NEXT;
}

/* ---- DELEGRETURN ---- */

static bool_t put_return(struct nfs_call *c, XDR *x, const struct nfs_fh *fh, const stateid4 *stateid)
{
	DELEGRETURN4args a = { .deleg_stateid = *stateid };

	return nfs4_begin(c, x, 3, true, fh) && nfs4_put_op(x, OP_DELEGRETURN) &&
	       xdr_DELEGRETURN4args(x, &a);
}

/* 0, with the status; or what decode() returns. */
static int get_return(struct nfs_call *c, XDR *x, nfsstat4 *status)
{
	DELEGRETURN4res r;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_DELEGRETURN) || !xdr_DELEGRETURN4res(x, &r))
		return -EBADMSG;
	*status = r.status;
	return r.status == NFS4ERR_DELAY ? NFS_LATER : 0;
}

bool_t nfs4_delegation_encode(struct nfs_call *c, XDR *x)
{
	return put_return(c, x, &c->open->file->fh, &c->open->delegation);
}

/* If the server does not know the delegation (any more), it is as good as returned. */
int nfs4_delegation_decode(struct nfs_call *c, XDR *x)
{
	nfsstat4 status;
	int rc = get_return(c, x, &status);

	if (rc > 0)
		return rc;
	c->open->delegated = false;
	return rc == -EBADMSG ? rc : nfs4_call(c)->result;
}

/* ---- the operation ---- */

/* STEP_FREE: as CLOSE's. */
enum { STEP_DELEGRETURN, STEP_FREE };

static struct nfs4_delegation *delegation_of(const struct nfs_call *c)
{
	return container_of(c->args.delegation, struct nfs4_delegation, d);
}

static bool_t encode_delegreturn(struct nfs_call *c, XDR *x)
{
	const struct nfs4_delegation *d = delegation_of(c);

	if (c->eng.step == STEP_FREE)
		return nfs4_put_free(c, x, &d->stateid);
	return put_return(c, x, c->args.fh, &d->stateid);
}

static int decode_delegreturn(struct nfs_call *c, XDR *x)
{
	nfsstat4 status = NFS4_OK;
	int rc = c->eng.step == STEP_FREE ? nfs4_get_free(c, x) : get_return(c, x, &status);

	if (rc > 0)
		return rc;
	if (nfs4_is_revoked(status)) {
		c->eng.step = STEP_FREE;
		return NFS_NEXT;
	}
	/* Or it stays, and is returned once more. */
	delegation_of(c)->answered = rc == -ESTALE || (!rc && (!status || nfs4_is_unknown(status)));
	return rc;
}

const struct nfs_opdef nfs4_op_delegreturn = NFS_OPDEF("DELEGRETURN", encode_delegreturn,
	decode_delegreturn, .carries = nfs4_carries_kept, .results_max = V4_PREFIX_XDR + V4_OP_XDR,
	.proc = NFSPROC4_COMPOUND);
