/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A delegation that nobody wanted. Nobody here knows it when it is recalled (nfs4_callback.c), and
 * others would wait until the server revokes it. So it is returned before anybody hears of the open,
 * and before the open is closed.
 */
#include "nfs/nfs4/nfs4_compound.h"

void nfs4_delegation_note(struct nfs_open *o, const open_delegation4 *d)
{
	bool write = d->delegation_type == OPEN_DELEGATE_WRITE;

	if (!write && d->delegation_type != OPEN_DELEGATE_READ)
		return;
	o->delegation = write ? d->open_delegation4_u.write.stateid :
				d->open_delegation4_u.read.stateid;
	o->delegation.seqid = 0;
	o->delegated = true;
}

int nfs4_delegation_first(struct nfs_call *c, int rc)
{
	if (rc > 0 || !c->open || !c->open->delegated || !c->open->file)
		return rc;
	nfs4_call(c)->result = rc;
	c->eng.step = NFS4_STEP_RETURN;
	return NFS_NEXT;
}

bool_t nfs4_delegation_encode(struct nfs_call *c, XDR *x)
{
	DELEGRETURN4args a = { .deleg_stateid = c->open->delegation };

	return nfs4_begin(c, x, 3, true, &c->open->file->fh) &&
	       nfs4_put_op(x, OP_DELEGRETURN) &&
	       xdr_DELEGRETURN4args(x, &a);
}

/* If the server does not know the delegation (any more), it is as good as returned. */
int nfs4_delegation_decode(struct nfs_call *c, XDR *x)
{
	DELEGRETURN4res r;
	int rc = nfs4_check(c, x);

	if (rc > 0)
		return rc;
	if (!rc && (nfs4_get_op(x, OP_DELEGRETURN) || !xdr_DELEGRETURN4res(x, &r)))
		rc = -EBADMSG;
	if (!rc && r.status == NFS4ERR_DELAY)
		return NFS_LATER;
	c->open->delegated = false;
	return rc == -EBADMSG ? rc : nfs4_call(c)->result;
}
