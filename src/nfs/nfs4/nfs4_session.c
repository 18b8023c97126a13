/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The operations that make and end client ids and sessions, and SEQUENCE alone. */
#include <string.h>
#include <sys/param.h>
#include "nfs/nfs4/nfs4_compound.h"

/* ---- EXCHANGE_ID ---- */

static struct nfs4_ctl *ctl_of(const struct nfs_call *c)
{
	return c->args.version;
}

/* A failed control operation: the thread that waits looks at the status. */
static int control_status(struct nfs_call *c, nfsstat4 status)
{
	ctl_of(c)->status = status;
	if (nfs4_is_later(status) && !ctl_of(c)->once)
		return NFS_LATER;
	return nfs4_errno(status);
}

static bool_t encode_exchange_id(struct nfs_call *c, XDR *x)
{
	const struct nfs4_client *n = nfs4_of(c);
	EXCHANGE_ID4args a = {
		.eia_clientowner.co_ownerid = nfs_ref_str(n->owner),
		.eia_flags = EXCHGID4_FLAG_USE_NON_PNFS,
		.eia_state_protect.spa_how = SP4_NONE,
	};

	memcpy(a.eia_clientowner.co_verifier, n->verifier, NFS4_VERIFIER_SIZE);
	return nfs4_begin_bare(c, x, 1) && nfs4_put_op(x, OP_EXCHANGE_ID) &&
	       xdr_EXCHANGE_ID4args(x, &a);
}

static int decode_exchange_id(struct nfs_call *c, XDR *x)
{
	struct nfs4_ctl *k = ctl_of(c);
	EXCHANGE_ID4res r;
	int rc = nfs4_check_bare(x);

	if (rc)
		return rc;
	memset(&r, 0, sizeof(r));
	if (nfs4_get_op(x, OP_EXCHANGE_ID) || !xdr_EXCHANGE_ID4res(x, &r)) {
		rc = -EBADMSG;
	} else if (r.eir_status) {
		rc = control_status(c, r.eir_status);
	} else {
		k->clientid = r.EXCHANGE_ID4res_u.eir_resok4.eir_clientid;
		k->sequence = r.EXCHANGE_ID4res_u.eir_resok4.eir_sequenceid;
		k->flags = r.EXCHANGE_ID4res_u.eir_resok4.eir_flags;
		nfs4_names_of(&k->names, &r.EXCHANGE_ID4res_u.eir_resok4);
	}
	xdr_free((xdrproc_t)xdr_EXCHANGE_ID4res, (char *)&r);
	return rc;
}

const struct nfs_opdef nfs4_op_exchange_id = {
	.name = "EXCHANGE_ID", .encode = encode_exchange_id, .decode = decode_exchange_id,
	.results_max = NFS4_CONTROL_MAX, .proc = NFSPROC4_COMPOUND,
};

/* ---- CREATE_SESSION ---- */

/* What a call or reply carries besides file data. */
#define OVERHEAD 4096u

static uint32_t slots_wanted(const struct nfs_client *cl)
{
	return cl->nlanes * cl->cfg.credits;
}

static bool_t encode_create_session(struct nfs_call *c, XDR *x)
{
	const struct nfs_client *cl = c->lane->client;
	const struct nfs4_client *n = nfs4_of(c);
	const struct nfs4_ctl *k = ctl_of(c);
	/* As nobody in particular: who calls is known by the connection (rpcserve.h). */
	callback_sec_parms4 sec = { .cb_secflavor = RPC_AUTH_SYS };
	CREATE_SESSION4args a = {
		.csa_clientid = k->clientid, .csa_sequence = k->sequence,
		/* This connection is the first one that the server calls on. It is RDMA
		 * already (not stepped up). */
		.csa_flags = k->flags,
		.csa_fore_chan_attrs = {
			/* Counts the whole call, with data in chunks. */
			.ca_maxrequestsize = MAX(n->wsize, NFS_XATTR_MAX) + OVERHEAD,
			.ca_maxresponsesize = MAX(n->rsize, NFS_XATTR_MAX) + OVERHEAD,
			.ca_maxresponsesize_cached = OVERHEAD,
			.ca_maxoperations = 16,
			.ca_maxrequests = slots_wanted(cl),
		},
		.csa_back_chan_attrs = {
			/* What fits the inline threshold behind a header. */
			.ca_maxrequestsize = RR_INLINE - RR_HDR_MIN,
			.ca_maxresponsesize = NFS4_BACK_REPLY,
			.ca_maxresponsesize_cached = NFS4_BACK_REPLY,
			.ca_maxoperations = NFS4_BACK_OPS, .ca_maxrequests = NFS4_BACK_SLOTS,
		},
		.csa_cb_program = NFS4_CALLBACK,
		.csa_sec_parms = { .csa_sec_parms_len = 1, .csa_sec_parms_val = &sec },
	};

	return nfs4_begin_bare(c, x, 1) && nfs4_put_op(x, OP_CREATE_SESSION) &&
	       xdr_CREATE_SESSION4args(x, &a);
}

static int decode_create_session(struct nfs_call *c, XDR *x)
{
	struct nfs4_client *n = nfs4_of(c);
	struct nfs4_ctl *k = ctl_of(c);
	CREATE_SESSION4res r;
	const CREATE_SESSION4resok *ok = &r.CREATE_SESSION4res_u.csr_resok4;
	uint32_t asked = slots_wanted(c->lane->client);
	int rc = nfs4_check_bare(x);

	if (rc)
		return rc;
	memset(&r, 0, sizeof(r));
	if (nfs4_get_op(x, OP_CREATE_SESSION) || !xdr_CREATE_SESSION4res(x, &r)) {
		rc = -EBADMSG;
	} else if (r.csr_status) {
		rc = control_status(c, r.csr_status);
	} else {
		memcpy(k->sessionid, ok->csr_sessionid, sizeof(k->sessionid));
		k->flags &= ok->csr_flags;
		if (k->flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN)
			nfs4_back_enter(&n->back, k->sessionid);
		k->nslots = ok->csr_fore_chan_attrs.ca_maxrequests;
		if (k->nslots > asked)
			k->nslots = asked;
		k->maxreq = ok->csr_fore_chan_attrs.ca_maxrequestsize;
		k->maxresp = ok->csr_fore_chan_attrs.ca_maxresponsesize;
		k->maxcached = ok->csr_fore_chan_attrs.ca_maxresponsesize_cached;
		k->maxops = ok->csr_fore_chan_attrs.ca_maxoperations;
	}
	xdr_free((xdrproc_t)xdr_CREATE_SESSION4res, (char *)&r);
	return rc;
}

const struct nfs_opdef nfs4_op_create_session = {
	.name = "CREATE_SESSION", .encode = encode_create_session,
	.decode = decode_create_session, .results_max = NFS4_CONTROL_MAX, .proc = NFSPROC4_COMPOUND,
};

/* ---- BIND_CONN_TO_SESSION ---- */

/* The connection that this is sent on becomes one that the server calls on. */
static bool_t encode_bind(struct nfs_call *c, XDR *x)
{
	BIND_CONN_TO_SESSION4args a = { .bctsa_dir = CDFC4_FORE_OR_BOTH };

	memcpy(a.bctsa_sessid, nfs4_of(c)->sessionid, sizeof(a.bctsa_sessid));
	return nfs4_begin_bare(c, x, 1) && nfs4_put_op(x, OP_BIND_CONN_TO_SESSION) &&
	       xdr_BIND_CONN_TO_SESSION4args(x, &a);
}

static int decode_bind(struct nfs_call *c, XDR *x)
{
	BIND_CONN_TO_SESSION4res r;
	int rc = nfs4_check_bare(x);
	uint32_t op;

	if (rc)
		return rc;
	if (!xdr_uint32_t(x, &op) || (op != OP_BIND_CONN_TO_SESSION && op != OP_ILLEGAL) ||
	    !xdr_BIND_CONN_TO_SESSION4res(x, &r))
		return -EBADMSG;
	if (r.bctsr_status)
		return control_status(c, r.bctsr_status);
	if (op == OP_ILLEGAL)
		return -EBADMSG;
	return r.BIND_CONN_TO_SESSION4res_u.bctsr_resok4.bctsr_dir == CDFS4_FORE ? -EOPNOTSUPP : 0;
}

const struct nfs_opdef nfs4_op_bind_conn = {
	.name = "BIND_CONN_TO_SESSION", .encode = encode_bind, .decode = decode_bind,
	.results_max = NFS4_CONTROL_MAX, .proc = NFSPROC4_COMPOUND,
};

/* ---- the end of both ---- */

static bool_t encode_destroy_session(struct nfs_call *c, XDR *x)
{
	DESTROY_SESSION4args a;

	memcpy(a.dsa_sessionid, ctl_of(c)->sessionid, sizeof(a.dsa_sessionid));
	return nfs4_begin_bare(c, x, 1) && nfs4_put_op(x, OP_DESTROY_SESSION) &&
	       xdr_DESTROY_SESSION4args(x, &a);
}

static bool_t encode_destroy_clientid(struct nfs_call *c, XDR *x)
{
	DESTROY_CLIENTID4args a = { .dca_clientid = nfs4_of(c)->clientid };

	return nfs4_begin_bare(c, x, 1) && nfs4_put_op(x, OP_DESTROY_CLIENTID) &&
	       xdr_DESTROY_CLIENTID4args(x, &a);
}

static int decode_one_status(struct nfs_call *c, XDR *x, nfs_opnum4 op)
{
	nfsstat4 status;

	if (nfs4_get_op(x, op) || !xdr_nfsstat4(x, &status))
		return -EBADMSG;
	return status ? control_status(c, status) : 0;
}

static int decode_destroy(struct nfs_call *c, XDR *x)
{
	bool session = c->op == NFS4_OP_DESTROY_SESSION;
	int rc = nfs4_check_bare(x);

	return rc ? rc : decode_one_status(c, x, session ? OP_DESTROY_SESSION : OP_DESTROY_CLIENTID);
}

const struct nfs_opdef nfs4_op_destroy_session = {
	.name = "DESTROY_SESSION", .encode = encode_destroy_session,
	.decode = decode_destroy, .results_max = NFS4_CONTROL_MAX, .proc = NFSPROC4_COMPOUND,
};
const struct nfs_opdef nfs4_op_destroy_clientid = {
	.name = "DESTROY_CLIENTID", .encode = encode_destroy_clientid,
	.decode = decode_destroy, .results_max = NFS4_CONTROL_MAX, .proc = NFSPROC4_COMPOUND,
};

/* ---- in the session ---- */

static bool_t encode_reclaim_complete(struct nfs_call *c, XDR *x)
{
	RECLAIM_COMPLETE4args a = { .rca_one_fs = FALSE };

	return nfs4_begin_seq(c, x, 2, true) && nfs4_put_op(x, OP_RECLAIM_COMPLETE) &&
	       xdr_RECLAIM_COMPLETE4args(x, &a);
}

static int decode_reclaim_complete(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check_seq(c, x);

	if (rc)
		return rc;
	rc = decode_one_status(c, x, OP_RECLAIM_COMPLETE);
	/* It was said before, and the reply was lost with a session. */
	return ctl_of(c)->status == NFS4ERR_COMPLETE_ALREADY ? 0 : rc;
}

static bool_t encode_renew(struct nfs_call *c, XDR *x)
{
	return nfs4_begin_seq(c, x, 1, false);
}

const struct nfs_opdef nfs4_op_reclaim_complete = {
	.name = "RECLAIM_COMPLETE", .encode = encode_reclaim_complete,
	.decode = decode_reclaim_complete, .results_max = NFS4_CONTROL_MAX, .proc = NFSPROC4_COMPOUND,
};
const struct nfs_opdef nfs4_op_renew = NFS_OPDEF("SEQUENCE", encode_renew, nfs4_check_seq,
	.results_max = NFS4_CONTROL_MAX, .proc = NFSPROC4_COMPOUND);
