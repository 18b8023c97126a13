/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a COMPOUND begins with: its head, and SEQUENCE, whose result decides about the slot,
 * whatever follows it. May the server keep the reply for a replay?
 */
#include <string.h>
#include "nfs/nfs4/nfs4_compound.h"

/* The longest tag of a reply that is looked at (utf8str_cs). */
#define TAG_MAX 1024u

/* ---- sending ---- */

bool_t nfs4_begin_bare(struct nfs_call *c, XDR *x, uint32_t nops)
{
	compound4_args_head h = {
		.minorversion = c->target->server->version->minor, .numops = nops,
	};

	return xdr_compound4_args_head(x, &h);
}

/* A reply with a delegation may be too long to be kept, if the name in its ACE is. Few are, and so a
 * delegation does not count here: if the server cannot keep the reply, OPEN is sent again. */
static bool fits_cache(const struct nfs_call *c, bool rider)
{
	const struct nfs4_call *v = nfs4_call_const(c);
	const struct nfs_opdef *def = c->target->server->version->ops[c->op];
	bool opens = c->op == NFS_OP_OPEN || c->op == NFS_OP_CREATE || c->op == NFS4_OP_REOPEN;
	uint32_t n = RPC_REPLY_HDR_MIN + nfs_results_max(def, c) - (opens ? V4_DELEGATION_XDR : 0);

	if (rider)
		n += V4_RIDER_XDR;
	return n <= v->place.max_cached && !v->uncached;
}

bool nfs4_carries(const struct nfs_call *c)
{
	return true;
}

bool nfs4_carries_kept(const struct nfs_call *c)
{
	return fits_cache(c, true) || !fits_cache(c, false);
}

bool nfs4_carries_long(const struct nfs_call *c)
{
	const struct nfs4_client *n = c->target->server->vdata;

	return n->maxops >= NFS4_OPS_NEEDED + NFS4_CLOSE_RIDE_OPS && nfs4_carries_kept(c);
}

/* All calls begin with this, so it is written in one piece: tag, minor version, number of
 * operations, and SEQUENCE. */
static bool_t put_head(XDR *x, uint32_t minor, uint32_t nops, const struct nfs4_place *p,
		       bool cache)
{
	int32_t *at = XDR_INLINE(x, 8 * BYTES_PER_XDR_UNIT + NFS4_SESSIONID_SIZE);

	if (!at)
		return FALSE;
	IXDR_PUT_U_INT32(at, 0);
	IXDR_PUT_U_INT32(at, minor);
	IXDR_PUT_U_INT32(at, nops);
	IXDR_PUT_U_INT32(at, OP_SEQUENCE);
	memcpy(at, p->session, NFS4_SESSIONID_SIZE);
	at += NFS4_SESSIONID_SIZE / BYTES_PER_XDR_UNIT;
	IXDR_PUT_U_INT32(at, p->seqid);
	IXDR_PUT_U_INT32(at, p->slot);
	IXDR_PUT_U_INT32(at, p->highest);
	IXDR_PUT_U_INT32(at, cache);
	return TRUE;
}

bool_t nfs4_begin_seq(struct nfs_call *c, XDR *x, uint32_t nops, bool cache)
{
	struct nfs4_call *v = nfs4_call(c);

	v->cached = cache && fits_cache(c, c->eng.riding_close);
	v->had_effect = false;
	return put_head(x, c->target->server->version->minor, nops, &v->place, v->cached);
}

/* ---- receiving ---- */

int nfs4_check_bare(XDR *x)
{
	int32_t *at = XDR_INLINE(x, 2 * BYTES_PER_XDR_UNIT);
	uint32_t status, tag, numres;

	if (!at)
		return -EBADMSG;
	status = IXDR_GET_U_INT32(at);
	/* Ours was empty. */
	tag = IXDR_GET_U_INT32(at);
	if (tag > TAG_MAX || (tag && !XDR_INLINE(x, (tag + 3) & ~3u)) || !xdr_uint32_t(x, &numres))
		return -EBADMSG;
	/* It failed before the first operation, so there is no result. */
	if (numres == 0)
		return status == NFS4ERR_MINOR_VERS_MISMATCH ? -EPROTONOSUPPORT :
		       status ? -EIO : -EBADMSG;
	return 0;
}

/* SEQUENCE's result, in one piece, because every reply has it. Session, slot and sequence id come
 * back as they were sent (RFC 8881, section 18.46.3). If not, this is the reply to another call:
 * false. */
static bool get_sequence(XDR *x, struct nfs4_place *p, uint32_t *flags)
{
	int32_t *at = XDR_INLINE(x, NFS4_SESSIONID_SIZE + 5 * BYTES_PER_XDR_UNIT);

	if (!at || memcmp(at, p->session, NFS4_SESSIONID_SIZE))
		return false;
	at += NFS4_SESSIONID_SIZE / BYTES_PER_XDR_UNIT;
	if (IXDR_GET_U_INT32(at) != p->seqid || IXDR_GET_U_INT32(at) != p->slot)
		return false;
	p->said_highest = IXDR_GET_U_INT32(at);
	p->said_target = IXDR_GET_U_INT32(at);
	*flags = IXDR_GET_U_INT32(at);
	p->said = true;
	return true;
}

/* SEQUENCE failed, so this time nothing of the COMPOUND was executed. */
static int sequence_failed(struct nfs_call *c, nfsstat4 status)
{
	struct nfs4_call *v = nfs4_call(c);

	switch (status) {
	/* The server may still be at work on the first sending. It takes whatever comes
	 * next in this slot with this number for another try of that. */
	case NFS4ERR_DELAY:
		v->place.used = true;
		return NFS_DELAYED;
	/* The session is good, and the connection has not joined it. The next one will
	 * (nfs4_check.c). It takes the same message, which may be the replay of one that was
	 * executed. */
	case NFS4ERR_CONN_NOT_BOUND_TO_SESSION:
		atomic_store(&c->target->server->joins, true);
		rr_reset_answering(c->target->conn, -ENOTCONN, "it has not joined the session");
		v->place.used = true;
		return NFS_DELAYED;
	/* The number is used up: the call was executed. */
	case NFS4ERR_RETRY_UNCACHED_REP:
		v->place.outcome = NFS4_CONSUMED;
		break;
	/* Nobody knows which number the server expects, so none can follow. */
	case NFS4ERR_BADSLOT:
	case NFS4ERR_BAD_HIGH_SLOT:
	case NFS4ERR_SEQ_MISORDERED:
	case NFS4ERR_SEQ_FALSE_RETRY:
		break;
	/* The call was refused. Its number is free, unless an earlier sending may have
	 * used it. */
	default:
		if (!v->place.used && !v->place.replayed)
			v->place.outcome = NFS4_NOT_CONSUMED;
	}
	/* Not about a stateid: nfs-ganesha says this when the client's lease has ended. */
	if (status == NFS4ERR_EXPIRED)
		status = NFS4ERR_STALE_CLIENTID;
	return nfs4_error(c, status);
}

/* The server may have executed it long before its reply came. */
static void note_renewal(const struct nfs_call *c)
{
	struct nfs4_lane *l4 = c->target->vdata;

	if (c->eng.encoded_ns > atomic_load_explicit(&l4->renewed_ns, memory_order_relaxed))
		atomic_store_explicit(&l4->renewed_ns, c->eng.encoded_ns, memory_order_relaxed);
}

int nfs4_check_seq(struct nfs_call *c, XDR *x)
{
	struct nfs4_place *p = &nfs4_call(c)->place;
	nfsstat4 status;
	uint32_t flags;
	int rc = nfs4_check_bare(x);

	p->replayed |= c->eng.rr.sends > 1;
	if (rc)
		return rc;
	if (!nfs4_get_result(x, OP_SEQUENCE, &status))
		return -EBADMSG;
	if (status)
		return sequence_failed(c, status);
	if (!get_sequence(x, p, &flags))
		return -EBADMSG;
	p->outcome = NFS4_CONSUMED;
	note_renewal(c);
	nfs4_note_flags(c, flags);
	return 0;
}
