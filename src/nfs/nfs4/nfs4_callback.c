/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the server may call here: CB_NULL and CB_COMPOUND (RFC 8881, section 20; RFC 7862, section
 * 16). Each call is executed and answered at once, on the lane that it came to (rpcrdma/back.c).
 * So nothing here waits: not for a program, not for the server, not for another lane. What makes work
 * tells the file system, which begins that in a message to its lane: behind the answer.
 *
 *     CB_COMPOUND   minor version, number of operations
 *       CB_SEQUENCE         session, slot, sequence id: nfs4_back.c
 *       an operation        a row of ops[]
 *       ...                 until one fails
 *
 * There are no layouts, so what is about one is refused as RFC 8881 says. There are delegations (nfs4_delegs.h),
 * if they are asked for. What the server asks of a file with one to write (CB_GETATTR) the file system knows, and
 * says without waiting: vfs/promised.h. What it does not know for sure is SERVERFAULT, and the server recalls the
 * delegation: servers answer others with what they get here. One that comes although none is asked for is
 * returned by the open that it comes with (nfs4_delegation.c), whether it is recalled or not.
 *
 * Arguments of an operation that is not supported are not looked at: it ends the COMPOUND.
 */
#include <string.h>
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"
#include "xdr_msg.h"

/* A CB_COMPOUND that is being executed. */
struct callback {
	struct nfs_lane *lane;
	struct nfs_server *server;
	struct nfs4_client *n;
	XDR *args;
	struct nfs_ref tag;
	uint32_t nops;
	CB_SEQUENCE4args sequence;
	bool again;                     /* it was executed before: */
	char results[NFS4_BACK_REPLY] __attribute__((aligned(4)));
	uint32_t len;                   /* of these */
	XDR res;                        /* where they are written */
	uint32_t nresults;
	fattr4 attrs;                   /* CB_GETATTR's result, */
	char values[2 * 8];             /* ...and its values: */
};
#define GETATTR_XDR (2u * 4u + 4u + 2u * 8u)
/* Head and tag, CB_SEQUENCE's result, and the others', which are a status each, and attributes at most. */
_Static_assert(3 * 4 + NFS4_OPAQUE_LIMIT + 4 + 2 * 4 + NFS4_SESSIONID_SIZE + 4 * 4 +
	       (NFS4_BACK_OPS - 1) * (2 * 4 + GETATTR_XDR) <= NFS4_BACK_REPLY, "a reply may be too long to be kept");

/* false: no file of ours has such a handle. */
static bool callback_fh(const nfs_fh4 *in, struct nfs_fh *fh)
{
	if (in->len > sizeof(fh->data))
		return false;
	fh->len = in->len;
	memcpy(fh->data, in->data, in->len);
	return true;
}

static void callback_tell_due(const struct callback *k)
{
	const struct nfs_front *front = k->server->client->cfg.front;

	if (front)
		front->delegations_due(k->lane);
}

/* ---- operations: each decodes its arguments, and says its status ---- */

/* Size and change, and no others (RFC 8881, section 10.4.3); in the order of their numbers. */
static void callback_put_attrs(struct callback *k, const bitmap4 *asked, uint64_t size, uint64_t change)
{
	XDR x;

	k->attrs = (fattr4){ .attr_vals.data = k->values };
	xdr_msg_create(&x, k->values, sizeof(k->values), XDR_ENCODE);
	if (bitmap4_isset(asked, FATTR4_CHANGE)) {
		bitmap4_set(&k->attrs.attrmask, FATTR4_CHANGE);
		xdr_uint64_t(&x, &change);
	}
	if (bitmap4_isset(asked, FATTR4_SIZE)) {
		bitmap4_set(&k->attrs.attrmask, FATTR4_SIZE);
		xdr_uint64_t(&x, &size);
	}
	k->attrs.attr_vals.len = xdr_getpos(&x);
}

static bool callback_knows(const struct callback *k, const struct nfs_delegation *d, uint64_t *size,
			   uint64_t *change)
{
	const struct nfs_front *front = k->server->client->cfg.front;

	return front && front->delegation_attr(k->lane, d, size, change);
}

static nfsstat4 callback_getattr(struct callback *k)
{
	nfsstat4 status = NFS4ERR_BADHANDLE;
	struct nfs_delegation d;
	uint64_t size, change;
	CB_GETATTR4args a;
	struct nfs_fh fh;

	if (!xdr_CB_GETATTR4args(k->args, &a))
		return NFS4ERR_BADXDR;
	if (callback_fh(&a.fh, &fh))
		status = nfs4_delegation_asked(k->server, &fh, &d);
	if (status)
		return status;
	if (callback_knows(k, &d, &size, &change)) {
		callback_put_attrs(k, &a.attr_request, size, change);
		stat_add(&k->lane->stats, STAT_DELEGS_ASKED, 1);
	} else {
		status = NFS4ERR_SERVERFAULT;
	}
	nfs_file_put(d.file);
	return status;
}

static void callback_put_getattr(struct callback *k)
{
	xdr_fattr4(&k->res, &k->attrs);
}

static nfsstat4 callback_recall(struct callback *k)
{
	nfsstat4 status = NFS4ERR_BAD_STATEID;
	CB_RECALL4args a;
	struct nfs_fh fh;

	if (!xdr_CB_RECALL4args(k->args, &a))
		return NFS4ERR_BADXDR;
	if (callback_fh(&a.fh, &fh))
		status = nfs4_delegs_recall(k->server, &a.stateid, &fh);
	if (!status)
		callback_tell_due(k);
	return status;
}

static nfsstat4 callback_layoutrecall(struct callback *k)
{
	CB_LAYOUTRECALL4args a;

	return xdr_CB_LAYOUTRECALL4args(k->args, &a) ? NFS4ERR_NOMATCHING_LAYOUT : NFS4ERR_BADXDR;
}

/* Delegations of files and directories are kept, and go back: those of the kinds that it names. Of layouts
 * there are none. */
static nfsstat4 callback_recall_any(struct callback *k)
{
	CB_RECALL_ANY4args a;

	if (!xdr_CB_RECALL_ANY4args(k->args, &a))
		return NFS4ERR_BADXDR;
	nfs4_idle_recall(&k->n->delegs, &a.craa_type_mask, a.craa_objects_to_keep);
	callback_tell_due(k);
	return NFS4_OK;
}

/* The server sees by the next SEQUENCE that higher slots are not used any more (nfs4_slots_are_untold()). */
static nfsstat4 callback_recall_slot(struct callback *k)
{
	CB_RECALL_SLOT4args a;

	if (!xdr_CB_RECALL_SLOT4args(k->args, &a))
		return NFS4ERR_BADXDR;
	nfs4_slots_recall(k->server, k->sequence.csa_sessionid, a.rsa_target_highest_slotid);
	return NFS4_OK;
}

/* A hint (RFC 8881, section 20.11.3): who waits for a lock asks for it again at once, and otherwise
 * with the next poll. */
static nfsstat4 callback_notify_lock(struct callback *k)
{
	const struct nfs_front *front = k->server->client->cfg.front;
	CB_NOTIFY_LOCK4args a;
	struct nfs_fh fh;
	uint64_t owner = 0;

	if (!xdr_CB_NOTIFY_LOCK4args(k->args, &a))
		return NFS4ERR_BADXDR;
	if (a.cnla_lock_owner.owner.len == sizeof(owner))
		memcpy(&owner, a.cnla_lock_owner.owner.data, sizeof(owner));
	if (front && owner && callback_fh(&a.cnla_fh, &fh))
		front->lock_freed(k->lane, &fh, owner);
	return NFS4_OK;
}

/* Of a copy that has failed nothing counts: how stable that is the server does not say. */
static struct nfs_copy_end callback_copy_end(const offload_info4 *o)
{
	const write_response4 *r = &o->offload_info4_u.coa_resok4;

	if (o->coa_status)
		return (struct nfs_copy_end){ .status = nfs4_errno(o->coa_status) };
	return (struct nfs_copy_end){ .count = r->wr_count, .stable = r->wr_committed == FILE_SYNC4,
				      .verf = nfs_verifier(r->wr_writeverf) };
}

static nfsstat4 callback_copy_ended(const struct callback *k, const CB_OFFLOAD4args *a)
{
	const struct nfs_front *front = k->server->client->cfg.front;
	struct nfs_copy_end end = callback_copy_end(&a->coa_offload_info);
	struct nfs_copy_id id;
	struct nfs_fh fh;

	memcpy(&id, &a->coa_stateid, sizeof(id));
	return front && callback_fh(&a->coa_fh, &fh) && front->copy_ended(k->lane, &fh, &id, &end) ?
	       NFS4_OK : NFS4ERR_BAD_STATEID;
}

static nfsstat4 callback_offload(struct callback *k)
{
	nfsstat4 status = NFS4ERR_BADXDR;
	CB_OFFLOAD4args a;

	memset(&a, 0, sizeof(a));
	if (xdr_CB_OFFLOAD4args(k->args, &a))
		status = callback_copy_ended(k, &a);
	xdr_free((xdrproc_t)xdr_CB_OFFLOAD4args, (char *)&a);
	return status;
}

static nfsstat4 callback_notsupp(struct callback *k)
{
	return NFS4ERR_NOTSUPP;
}

/* It is not the first operation. */
static nfsstat4 callback_sequence_late(struct callback *k)
{
	return NFS4ERR_SEQUENCE_POS;
}

struct callback_op {
	nfsstat4 (*execute)(struct callback *k);
	uint32_t minor;                 /* the first one that has it */
	void (*put)(struct callback *k);        /* what follows the status NFS4_OK; NULL: nothing */
};

static const struct callback_op ops[] = {
	[OP_CB_GETATTR]              = { callback_getattr, 1, callback_put_getattr },
	[OP_CB_RECALL]               = { callback_recall, 1 },
	[OP_CB_LAYOUTRECALL]         = { callback_layoutrecall, 1 },
	[OP_CB_NOTIFY]               = { callback_notsupp, 1 },
	[OP_CB_PUSH_DELEG]           = { callback_notsupp, 1 },
	[OP_CB_RECALL_ANY]           = { callback_recall_any, 1 },
	[OP_CB_RECALLABLE_OBJ_AVAIL] = { callback_notsupp, 1 },
	[OP_CB_RECALL_SLOT]          = { callback_recall_slot, 1 },
	[OP_CB_SEQUENCE]             = { callback_sequence_late, 1 },
	[OP_CB_WANTS_CANCELLED]      = { callback_notsupp, 1 },
	[OP_CB_NOTIFY_LOCK]          = { callback_notify_lock, 1 },
	[OP_CB_NOTIFY_DEVICEID]      = { callback_notsupp, 1 },
	[OP_CB_OFFLOAD]              = { callback_offload, 2 },
};

/* NULL: there is none in this minor version. */
static const struct callback_op *find_op(const struct nfs_server *s, uint32_t number)
{
	const struct callback_op *op = number < sizeof(ops) / sizeof(ops[0]) ? &ops[number] : NULL;

	return op && op->execute && op->minor <= s->version->minor ? op : NULL;
}

/* ---- CB_SEQUENCE ---- */

/* A call that refers to one of ours is about what that has brought (RFC 8881, section 2.10.6.3): it
 * comes again when we have its reply. */
static bool is_too_early(const struct callback *k)
{
	uint32_t n = k->sequence.csa_referring_call_lists.csa_referring_call_lists_len;
	const referring_call_list4 *l = k->sequence.csa_referring_call_lists.csa_referring_call_lists_val;

	for (; n--; l++) {
		const referring_call4 *c = l->rcl_referring_calls.rcl_referring_calls_val;

		for (uint32_t i = l->rcl_referring_calls.rcl_referring_calls_len; i--; c++)
			if (nfs4_slots_in_flight(&k->n->slots, l->rcl_sessionid, c->rc_slotid,
						 c->rc_sequenceid))
				return true;
	}
	return false;
}

/* The first operation, whose number is set to what the result has. NFS4_OK: the others follow, or
 * the call was executed before. */
static nfsstat4 callback_first(struct callback *k, uint32_t *number)
{
	if (!xdr_uint32_t(k->args, number) || !find_op(k->server, *number)) {
		*number = OP_CB_ILLEGAL;
		return NFS4ERR_OP_ILLEGAL;
	}
	if (*number != OP_CB_SEQUENCE)
		return NFS4ERR_OP_NOT_IN_SESSION;
	if (!xdr_CB_SEQUENCE4args(k->args, &k->sequence))
		return NFS4ERR_BADXDR;
	if (is_too_early(k))
		return NFS4ERR_DELAY;
	return nfs4_back_sequence(&k->n->back, &k->sequence, k->nops, &k->again, k->results, &k->len);
}

/* ---- results ---- */

static void put_result(struct callback *k, uint32_t op, nfsstat4 status)
{
	xdr_uint32_t(&k->res, &op);
	xdr_enum(&k->res, &status);
	k->nresults++;
}

static void put_sequence(struct callback *k)
{
	CB_SEQUENCE4resok ok = {
		.csr_sequenceid = k->sequence.csa_sequenceid, .csr_slotid = k->sequence.csa_slotid,
		.csr_highest_slotid = NFS4_BACK_SLOTS - 1,
		.csr_target_highest_slotid = NFS4_BACK_SLOTS - 1,
	};

	memcpy(ok.csr_sessionid, k->sequence.csa_sessionid, sizeof(ok.csr_sessionid));
	xdr_CB_SEQUENCE4resok(&k->res, &ok);
}

/* Status, tag, how many results there are: the first and the last are known in the end. */
static void put_head(struct callback *k, nfsstat4 status)
{
	xdr_msg_create(&k->res, k->results, sizeof(k->results), XDR_ENCODE);
	xdr_enum(&k->res, &status);
	xdr_nfs_ref1024(&k->res, &k->tag);
	xdr_uint32_t(&k->res, &k->nresults);
}

static void end_results(struct callback *k, nfsstat4 status)
{
	k->len = xdr_getpos(&k->res);
	put_head(k, status);
}

/* ---- CB_COMPOUND ---- */

/* The operations behind CB_SEQUENCE. */
static nfsstat4 callback_rest(struct callback *k)
{
	nfsstat4 status = NFS4_OK;
	uint32_t number;

	while (k->nresults < k->nops && !status) {
		const struct callback_op *op = NULL;

		if (xdr_uint32_t(k->args, &number))
			op = find_op(k->server, number);
		status = op ? op->execute(k) : NFS4ERR_OP_ILLEGAL;
		put_result(k, op ? number : OP_CB_ILLEGAL, status);
		if (!status && op->put)
			op->put(k);
	}
	return status;
}

static void callback_run(struct callback *k)
{
	nfsstat4 status;
	uint32_t number;

	status = callback_first(k, &number);
	if (k->again)
		return;
	put_result(k, number, status);
	if (!status) {
		put_sequence(k);
		status = callback_rest(k);
		end_results(k, status);
		nfs4_back_answered(&k->n->back, &k->sequence, k->results, k->len);
	} else {
		end_results(k, status);
	}
}

static enum rpc_accept callback_compound(struct callback *k, XDR *res)
{
	cb_compound4_args_head head;
	void *at;

	if (!xdr_cb_compound4_args_head(k->args, &head))
		return RPC_GARBAGE_ARGS;
	k->tag = head.tag;
	k->nops = head.numops;
	put_head(k, NFS4_OK);
	if (head.minorversion != k->server->version->minor)
		end_results(k, NFS4ERR_MINOR_VERS_MISMATCH);
	else if (!k->nops)
		end_results(k, NFS4_OK);
	else
		callback_run(k);
	xdr_free((xdrproc_t)xdr_CB_SEQUENCE4args, (char *)&k->sequence);
	at = XDR_INLINE(res, k->len);
	if (!at)
		return RPC_GARBAGE_ARGS;
	memcpy(at, k->results, k->len);
	return RPC_DONE;
}

static enum rpc_accept callback_call(void *target, uint32_t proc, XDR *args, XDR *res)
{
	struct nfs_target *t = target;
	struct callback k = { .lane = t->lane, .server = t->server, .n = t->server->vdata, .args = args };

	switch (proc) {
	case CB_NULL:
		return RPC_DONE;
	case CB_COMPOUND:
		return callback_compound(&k, res);
	default:
		return RPC_PROC_UNAVAIL;
	}
}

/* RFC 5661 spoke of version 4, and its XDR of version 1, which servers use. */
const struct rpcserve_program nfs4_callback = {
	.number = NFS4_CALLBACK, .versions = 1u << NFS_CB | 1u << NFS_V4, .call = callback_call,
};
