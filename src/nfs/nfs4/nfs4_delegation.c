/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DELEGRETURN: as an operation, of delegations that are in the table (nfs4_delegs.h); and as a step of OPEN,
 * of one that comes although there are to be none (nodeleg). Nobody here would know that when it is recalled
 * (nfs4_callback.c), and others would wait until the server revokes it. So it is returned before anybody
 * hears of the open, and before the open is closed. And which one the server asks about.
 */
#include "nfs/nfs4/nfs4_compound.h"
#include "xdr_msg.h"

#define NS_PER_S UINT64_C(1000000000)

/* ---- OPEN ---- */

void nfs4_delegation_note(struct nfs_call *c, const open_delegation4 *d)
{
	const open_read_delegation4 *read = &d->open_delegation4_u.read;
	open_delegation_type4 type = d->delegation_type;
	bool write = type == OPEN_DELEGATE_WRITE || type == OPEN_DELEGATE_WRITE_ATTRS_DELEG;
	bool times = type == OPEN_DELEGATE_READ_ATTRS_DELEG;
	const stateid4 *stateid = write ? &d->open_delegation4_u.write.stateid : &read->stateid;
	struct nfs_open *o = c->open;

	if ((!write && !times && type != OPEN_DELEGATE_READ) ||
	    nfs4_delegs_got(c, stateid, write ? NFS_DELEGATION_WRITES : times ? NFS_DELEGATION_TIMES : 0,
			    type != OPEN_DELEGATE_WRITE_ATTRS_DELEG &&
			    !(write ? d->open_delegation4_u.write.recall : read->recall)))
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
	o->delegated = !nfs4_delegs_got(c, &o->delegation, 0, false);
	if (!o->delegated)
		return rc;
	nfs4_call(c)->result = rc;
	c->eng.step = NFS4_STEP_RETURN;
	return NFS_NEXT;
}

/* ---- CB_GETATTR ---- */

/* One that is on its way back counts until the server has it. */
nfsstat4 nfs4_delegation_asked(struct nfs_server *s, const struct nfs_fh *fh, struct nfs_delegation *d)
{
	struct nfs4_delegs *t = &((struct nfs4_client *)s->vdata)->delegs;
	nfsstat4 status = NFS4ERR_BADHANDLE;
	struct nfs4_delegation *has;

	pthread_mutex_lock(&t->mu);
	has = nfs4_delegs_find_locked(t, fh);
	if (has && nfs_delegation_writes(has->d.number)) {
		*d = has->d;
		nfs_file_ref(d->file);
		status = NFS4_OK;
	} else if (!has && nfs4_delegs_place(t, fh)->asking) {
		status = NFS4ERR_DELAY;
	}
	pthread_mutex_unlock(&t->mu);
	return status;
}

/* ---- OPEN to write, of a file with one to read ---- */

bool nfs4_delegation_leaves(struct nfs_server *s, const struct nfs_file *f)
{
	struct nfs4_delegs *t = &((struct nfs4_client *)s->vdata)->delegs;
	const struct nfs4_delegation *d;
	bool leaves;

	pthread_mutex_lock(&t->mu);
	d = nfs4_delegs_find_locked(t, &f->fh);
	leaves = d && !nfs_delegation_writes(d->d.number) && (d->state == NFS4_DUE || d->state == NFS4_RETURNING);
	pthread_mutex_unlock(&t->mu);
	return leaves;
}

/* ---- DELEGRETURN ---- */

static bool_t put_return_op(XDR *x, const stateid4 *stateid)
{
	DELEGRETURN4args a = { .deleg_stateid = *stateid };

	return nfs4_put_op(x, OP_DELEGRETURN) && xdr_DELEGRETURN4args(x, &a);
}

static bool_t put_return(struct nfs_call *c, XDR *x, const struct nfs_fh *fh, const stateid4 *stateid)
{
	return nfs4_begin(c, x, 3, true, fh) && put_return_op(x, stateid);
}

/* 0, with the status; or what decode() returns. */
static int get_return_op(XDR *x, nfsstat4 *status)
{
	DELEGRETURN4res r;

	if (nfs4_get_op(x, OP_DELEGRETURN) || !xdr_DELEGRETURN4res(x, &r))
		return -EBADMSG;
	*status = r.status;
	return r.status == NFS4ERR_DELAY ? NFS_LATER : 0;
}

/* 0, with the status; or what decode() returns. */
static int get_return(struct nfs_call *c, XDR *x, nfsstat4 *status)
{
	int rc = nfs4_check(c, x);

	return rc ? rc : get_return_op(x, status);
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

/*
 * With the time of access, if that is this mount's to say, it follows SETATTR in one COMPOUND:
 *
 *      PUTFH, SETATTR (time_deleg_access), DELEGRETURN
 *
 * A server that refuses the time executes no DELEGRETURN, which is then sent without.
 *
 * STEP_FREE: the server has revoked the delegation, and keeps it until it is freed; or it may have. It does not
 * know the file (any more), and has not looked at the stateid. SEQUENCE would have a flag for as long as the
 * mount lasts, and nothing would be believed under any other delegation. FREE_STATEID needs no file. One that is
 * not revoked is refused with LOCKS_HELD (RFC 8881, section 18.38.3), and is returned later: its file system may
 * be exported again, or the server revokes it with that.
 */
enum { STEP_DELEGRETURN, STEP_FREE };

static struct nfs4_delegation *delegation_of(const struct nfs_call *c)
{
	return container_of(c->args.delegation, struct nfs4_delegation, d);
}

static bool delegation_times(const struct nfs4_delegation *d)
{
	return (d->d.number & NFS_DELEGATION_TIMES) && !d->no_times && atomic_load(&d->d.file->accessed_ns);
}

static bool_t put_access_time(XDR *x, const struct nfs4_delegation *d)
{
	uint64_t ns = atomic_load(&d->d.file->accessed_ns);
	nfstime4 t = { (int64_t)(ns / NS_PER_S), (uint32_t)(ns % NS_PER_S) };
	SETATTR4args a = { .stateid = d->stateid };
	char value[12];
	bool_t ok;
	XDR v;

	xdr_msg_create(&v, value, sizeof(value), XDR_ENCODE);
	ok = xdr_nfstime4(&v, &t);
	bitmap4_set(&a.obj_attributes.attrmask, FATTR4_TIME_DELEG_ACCESS);
	a.obj_attributes.attr_vals = (attrlist4){ .len = xdr_getpos(&v), .data = value };
	return ok && nfs4_put_op(x, OP_SETATTR) && xdr_SETATTR4args(x, &a);
}

static bool_t encode_delegreturn(struct nfs_call *c, XDR *x)
{
	const struct nfs4_delegation *d = delegation_of(c);

	if (c->eng.step == STEP_FREE)
		return nfs4_put_free(c, x, &d->stateid);
	nfs4_call(c)->times = delegation_times(d);
	if (!nfs4_call(c)->times)
		return put_return(c, x, c->args.fh, &d->stateid);
	return nfs4_begin(c, x, 4, true, c->args.fh) && put_access_time(x, d) && put_return_op(x, &d->stateid);
}

/* 0: DELEGRETURN's result follows; or what decode() returns. */
static int get_access_time(struct nfs_call *c, XDR *x)
{
	SETATTR4res r;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_SETATTR) || !xdr_SETATTR4res(x, &r))
		return -EBADMSG;
	if (r.status == NFS4ERR_DELAY)
		return NFS_LATER;
	delegation_of(c)->no_times = r.status;
	return r.status ? NFS_NEXT : 0;
}

static int get_times_and_return(struct nfs_call *c, XDR *x, nfsstat4 *status)
{
	int rc = get_access_time(c, x);

	return rc ? rc : get_return_op(x, status);
}

/* PUTFH or DELEGRETURN says so. */
static bool has_no_file(int rc, nfsstat4 status)
{
	return rc == -ESTALE || status == NFS4ERR_STALE || status == NFS4ERR_BADHANDLE || status == NFS4ERR_FHEXPIRED;
}

static int decode_delegation_free(struct nfs_call *c, XDR *x)
{
	nfsstat4 status = NFS4_OK;
	int rc = nfs4_get_free(c, x, &status);

	delegation_of(c)->answered = !rc && status != NFS4ERR_LOCKS_HELD;
	return rc;
}

static int decode_delegreturn(struct nfs_call *c, XDR *x)
{
	nfsstat4 status = NFS4_OK;
	int rc;

	if (c->eng.step == STEP_FREE)
		return decode_delegation_free(c, x);
	rc = nfs4_call(c)->times ? get_times_and_return(c, x, &status) : get_return(c, x, &status);
	if (rc > 0)
		return rc;
	if (nfs4_is_unknown(status))
		delegation_of(c)->refused = status;
	if (nfs4_is_revoked(status) || has_no_file(rc, status)) {
		c->eng.step = STEP_FREE;
		return NFS_NEXT;
	}
	/* Or it stays, and is returned once more. */
	delegation_of(c)->answered = !rc && (!status || nfs4_is_unknown(status));
	return rc;
}

const struct nfs_opdef nfs4_op_delegreturn = NFS_OPDEF("DELEGRETURN", encode_delegreturn,
	decode_delegreturn, .carries = nfs4_carries_kept, .results_max = V4_PREFIX_XDR + V4_OP_XDR + V4_BITMAP_XDR + V4_OP_XDR,
	.proc = NFSPROC4_COMPOUND);
