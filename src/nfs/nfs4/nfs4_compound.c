/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * COMPOUNDs, operation by operation (RFC 8881, section 16.2).
 *
 *   call     tag | minor version | n | SEQUENCE | PUTFH | op | ...
 *   reply    status | tag | n | SEQUENCE result | PUTFH result | op result | ...
 *
 * Results are decoded in the order in which the operations were sent. The result of a
 * failed operation is the last one. SEQUENCE's result decides about the slot, whatever
 * follows it.
 */
#include <string.h>
#include "nfs/nfs4/nfs4_impl.h"

/* So often may an open be refused although recovery said that it was there. */
#define STATE_TRIES 3u
/* So often is a call sent again that another client's lock is in the way of: for three
 * seconds. A lock may be held for days, and fsync(), close() and the end of the mount wait for
 * calls. (The kernel's client does not wait at all, and returns EAGAIN. Programs take that for
 * "again", at once and for ever.) */
#define LOCKED_TRIES 5u
/* The longest tag of a reply that is looked at (utf8str_cs). */
#define TAG_MAX 1024u

/* ---- sending ---- */

bool_t nfs4_put_op(XDR *x, nfs_opnum4 op)
{
	uint32_t word = op;

	return xdr_uint32_t(x, &word);
}

bool_t nfs4_begin_bare(struct nfs_call *c, XDR *x, uint32_t nops)
{
	compound4_args_head h = {
		.minorversion = c->target->server->version->minor, .numops = nops,
	};

	return xdr_compound4_args_head(x, &h);
}

/* A reply with a delegation, which we do not want, may be too long to be kept. So a
 * delegation does not count here. */
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
	(void)c;
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

bool_t nfs4_put_fh(XDR *x, const struct nfs_fh *fh)
{
	uint32_t padded = (fh->len + 3) & ~3u;
	int32_t *at = fh->len <= NFS_FH_MAX ? XDR_INLINE(x, 2 * BYTES_PER_XDR_UNIT + padded) : NULL;

	if (!at)
		return FALSE;
	IXDR_PUT_U_INT32(at, OP_PUTFH);
	IXDR_PUT_U_INT32(at, fh->len);
	if (padded)
		at[padded / BYTES_PER_XDR_UNIT - 1] = 0;
	memcpy(at, fh->data, fh->len);
	return TRUE;
}

bool_t nfs4_begin(struct nfs_call *c, XDR *x, uint32_t nops, bool cache, const struct nfs_fh *fh)
{
	if (!c->eng.riding_close)
		return nfs4_begin_seq(c, x, nops, cache) && nfs4_put_fh(x, fh);
	return nfs4_begin_seq(c, x, nops + NFS4_CLOSE_RIDE_OPS, cache) && nfs4_put_rider(c, x) &&
	       nfs4_put_fh(x, fh);
}

bool_t nfs4_put_name(XDR *x, nfs_opnum4 op, const char *name)
{
	component4 n = nfs_ref_str(name);

	return nfs4_put_op(x, op) && xdr_component4(x, &n);
}

/* ---- a file by its names, if they are still the file's ---- */

#define NAME_OPS 3u             /* PUTFH, LOOKUP, VERIFY */

/* VERIFY of the one attribute filehandle. */
static bool_t put_verify(XDR *x, const struct nfs_fh *fh)
{
	uint32_t padded = (fh->len + 3) & ~3u;
	int32_t *at = fh->len <= NFS_FH_MAX ? XDR_INLINE(x, 5 * BYTES_PER_XDR_UNIT + padded) : NULL;

	if (!at)
		return FALSE;
	IXDR_PUT_U_INT32(at, OP_VERIFY);
	IXDR_PUT_U_INT32(at, 1);
	IXDR_PUT_U_INT32(at, 1u << FATTR4_FILEHANDLE);
	IXDR_PUT_U_INT32(at, 4 + padded);
	IXDR_PUT_U_INT32(at, fh->len);
	if (padded)
		at[padded / BYTES_PER_XDR_UNIT - 1] = 0;
	memcpy(at, fh->data, fh->len);
	return TRUE;
}

/* As many as the server takes in one COMPOUND. */
static unsigned choose_names(struct nfs_call *c, uint32_t nops)
{
	uint32_t others = nops - 1 + (c->eng.riding_close ? NFS4_CLOSE_RIDE_OPS : 0);
	uint32_t most = nfs4_of(c)->maxops > others ? (nfs4_of(c)->maxops - others) / NAME_OPS : 0;
	unsigned n = c->args.nwhere - nfs4_call(c)->blind;

	if (atomic_load(&nfs4_of(c)->no_verify))
		n = 0;
	return n < most ? n : most;
}

/* The oldest name comes first. All lead to the same file, or to the end of the COMPOUND. */
bool_t nfs4_begin_named(struct nfs_call *c, XDR *x, uint32_t nops, bool cache)
{
	const struct nfs_where *w = c->args.where;
	unsigned n = nfs4_call(c)->looks = (uint8_t)choose_names(c, nops);
	bool_t ok = nfs4_begin(c, x, n ? nops - 1 + n * NAME_OPS : nops, cache,
			       n ? w[n - 1].dir : c->args.fh);

	for (unsigned i = n; ok && i; i--)
		ok = (i == n || nfs4_put_fh(x, w[i - 1].dir)) &&
		     nfs4_put_name(x, OP_LOOKUP, w[i - 1].name) && put_verify(x, c->args.fh);
	return ok;
}

bool_t nfs4_put_getattr(XDR *x)
{
	int32_t *at = XDR_INLINE(x, 4 * BYTES_PER_XDR_UNIT);

	if (!at)
		return FALSE;
	IXDR_PUT_U_INT32(at, OP_GETATTR);
	IXDR_PUT_U_INT32(at, nfs4_stat_mask.len);
	IXDR_PUT_U_INT32(at, nfs4_stat_mask.words[0]);
	IXDR_PUT_U_INT32(at, nfs4_stat_mask.words[1]);
	return TRUE;
}

bool_t nfs4_encode_getattr(struct nfs_call *c, XDR *x, const struct nfs_fh *fh)
{
	return nfs4_begin(c, x, 3, false, fh) && nfs4_put_getattr(x);
}

/* ---- statuses ---- */

int nfs4_errno(nfsstat4 status)
{
	switch (status) {
	case NFS4_OK:                   return 0;
	case NFS4ERR_PERM:              return -EPERM;
	case NFS4ERR_NOENT:             return -ENOENT;
	case NFS4ERR_NXIO:              return -ENXIO;
	case NFS4ERR_ACCESS:
	case NFS4ERR_WRONGSEC:          return -EACCES;
	case NFS4ERR_EXIST:             return -EEXIST;
	case NFS4ERR_XDEV:              return -EXDEV;
	case NFS4ERR_NOTDIR:            return -ENOTDIR;
	case NFS4ERR_ISDIR:             return -EISDIR;
	case NFS4ERR_FBIG:              return -EFBIG;
	case NFS4ERR_NOSPC:             return -ENOSPC;
	case NFS4ERR_ROFS:              return -EROFS;
	case NFS4ERR_MLINK:             return -EMLINK;
	case NFS4ERR_NAMETOOLONG:       return -ENAMETOOLONG;
	case NFS4ERR_NOTEMPTY:          return -ENOTEMPTY;
	case NFS4ERR_DQUOT:             return -EDQUOT;
	case NFS4ERR_STALE:
	case NFS4ERR_BADHANDLE:
	case NFS4ERR_FHEXPIRED:         return -ESTALE;
	case NFS4ERR_MOVED:             return -EREMOTE;
	case NFS4ERR_SYMLINK:           return -ELOOP;
	case NFS4ERR_BAD_COOKIE:
	case NFS4ERR_NOT_SAME:          return -NFS_ECOOKIE;
	case NFS4ERR_SHARE_DENIED:
	case NFS4ERR_FILE_OPEN:         return -EBUSY;
	case NFS4ERR_OPENMODE:          return -EBADF;
	case NFS4ERR_NOTSUPP:
	case NFS4ERR_ATTRNOTSUPP:       return -EOPNOTSUPP;
	case NFS4ERR_INVAL:
	case NFS4ERR_BADTYPE:
	case NFS4ERR_WRONG_TYPE:
	case NFS4ERR_BADNAME:
	case NFS4ERR_BADCHAR:
	case NFS4ERR_BADOWNER:
	case NFS4ERR_TOOSMALL:          return -EINVAL;
	case NFS4ERR_MINOR_VERS_MISMATCH: return -EPROTONOSUPPORT;
	default:                        return -EIO;
	}
}

/* The server does not know the session that the call was sent in: use the new one. If a
 * reply to the call was lost with its connection, nobody can tell any more whether it
 * was executed. */
static int session_lost(struct nfs_call *c)
{
	struct nfs4_call *v = nfs4_call(c);

	v->in_doubt = v->in_doubt || v->place.replayed;
	if (v->has_slot && !nfs4_is_current(c))
		return NFS_AGAIN;
	atomic_store(&nfs4_of(c)->need_session, true);
	return NFS_RECOVER;
}

static int stateid_lost(struct nfs_call *c)
{
	if (!c->open || atomic_load(&c->open->lost) || nfs4_call(c)->tries++ >= STATE_TRIES)
		return -EIO;
	atomic_store(&c->open->reopen, true);
	return NFS_REOPEN;
}

int nfs4_error(struct nfs_call *c, nfsstat4 status)
{
	struct nfs4_call *v = nfs4_call(c);

	switch (status) {
	case NFS4ERR_DELAY:
	case NFS4ERR_GRACE:
		return NFS_LATER;
	case NFS4ERR_LOCKED:
		return c->eng.retries < LOCKED_TRIES ? NFS_LATER : -EBUSY;
	case NFS4ERR_BADSESSION:
	case NFS4ERR_DEADSESSION:
	case NFS4ERR_BADSLOT:
	case NFS4ERR_BAD_HIGH_SLOT:
	case NFS4ERR_SEQ_MISORDERED:
	case NFS4ERR_SEQ_FALSE_RETRY:
		return session_lost(c);
	case NFS4ERR_STALE_CLIENTID:
		v->in_doubt = v->in_doubt || v->place.replayed;
		atomic_store(&nfs4_of(c)->need_client, true);
		return NFS_RECOVER;
	case NFS4ERR_BAD_STATEID:
	case NFS4ERR_STALE_STATEID:
	case NFS4ERR_OLD_STATEID:
		return stateid_lost(c);
	case NFS4ERR_EXPIRED:
	case NFS4ERR_ADMIN_REVOKED:
	case NFS4ERR_DELEG_REVOKED:
		/* The server keeps it until it knows that we know. */
		atomic_store(&nfs4_of(c)->need_test, true);
		return stateid_lost(c);
	/* A replay, and the server has not kept the reply. Linux says so behind a
	 * SEQUENCE that is OK, others in SEQUENCE. */
	case NFS4ERR_RETRY_UNCACHED_REP:
		v->in_doubt = true;
		return NFS_AGAIN;
	/* The operations before the one that says so have been executed, and that one
	 * has not (RFC 8881, section 2.10.6.4). */
	case NFS4ERR_REP_TOO_BIG_TO_CACHE:
		if (!v->cached)
			return -EIO;
		v->uncached = true;
		return NFS_AGAIN;
	case NFS4ERR_REP_TOO_BIG:
		return v->had_effect ? NFS_AGAIN : -EIO;
	default:
		return nfs4_errno(status);
	}
}

void nfs4_goes_on_at(struct nfs_call *c, uint8_t step)
{
	c->eng.step = step;
	nfs4_call(c)->had_effect = true;
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

int nfs4_get_op(XDR *x, nfs_opnum4 op)
{
	uint32_t got;

	return xdr_uint32_t(x, &got) && got == (uint32_t)op ? 0 : -EBADMSG;
}

int nfs4_get_status(struct nfs_call *c, XDR *x, nfs_opnum4 op)
{
	nfsstat4 status;

	if (!nfs4_get_result(x, op, &status))
		return -EBADMSG;
	return status ? nfs4_error(c, status) : 0;
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

int nfs4_check_seq(struct nfs_call *c, XDR *x)
{
	struct nfs4_place *p = &nfs4_call(c)->place;
	nfsstat4 status;
	uint32_t flags;
	int rc = nfs4_check_bare(x);

	p->replayed = p->replayed || c->eng.rr.sends > 1;
	if (rc)
		return rc;
	if (!nfs4_get_result(x, OP_SEQUENCE, &status))
		return -EBADMSG;
	if (status)
		return sequence_failed(c, status);
	if (!get_sequence(x, p, &flags))
		return -EBADMSG;
	p->outcome = NFS4_CONSUMED;
	nfs4_note_flags(c, flags);
	return 0;
}

int nfs4_check(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check_seq(c, x);

	if (!rc && c->eng.riding_close)
		rc = nfs4_get_rider(c, x);
	return rc ? rc : nfs4_get_status(c, x, OP_PUTFH);
}

/* What was asked about name i has failed with rc. A user who may not search the directory any more
 * may still open what he has open (/proc/self/fd), so the server's other reasons do not count. */
static int not_found(struct nfs_call *c, unsigned i, int rc)
{
	if (rc > 0 || rc == -EBADMSG)
		return rc;
	if (rc == -ENOENT || rc == -ENOTDIR || rc == -ESTALE)
		return -NFS_EMOVED;
	nfs4_call(c)->blind = (uint8_t)(c->args.nwhere - i);
	return NFS_AGAIN;
}

static int get_verify(struct nfs_call *c, XDR *x, unsigned i)
{
	nfsstat4 status;

	if (!nfs4_get_result(x, OP_VERIFY, &status))
		return -EBADMSG;
	switch (status) {
	case NFS4_OK:
		return 0;
	case NFS4ERR_NOT_SAME:
		return -NFS_EMOVED;
	case NFS4ERR_ATTRNOTSUPP:
	case NFS4ERR_NOTSUPP:
	case NFS4ERR_INVAL:
		atomic_store(&nfs4_of(c)->no_verify, true);
		return NFS_AGAIN;
	default:
		return not_found(c, i, nfs4_error(c, status));
	}
}

int nfs4_check_named(struct nfs_call *c, XDR *x)
{
	unsigned n = nfs4_call(c)->looks;
	int rc = nfs4_check(c, x);

	for (unsigned i = n; i; i--) {
		if (!rc && i < n)
			rc = nfs4_get_status(c, x, OP_PUTFH);
		if (!rc)
			rc = nfs4_get_status(c, x, OP_LOOKUP);
		rc = rc ? not_found(c, i - 1, rc) : get_verify(c, x, i - 1);
		if (rc)
			return rc;
	}
	return rc;
}

int nfs4_get_fh(struct nfs_call *c, XDR *x)
{
	nfsstat4 status;
	nfs_fh4 fh;

	if (!nfs4_get_result(x, OP_GETFH, &status))
		return -EBADMSG;
	if (status)
		return nfs4_error(c, status);
	if (!xdr_nfs_fh4(x, &fh) || fh.len == 0 || fh.len > NFS_FH_MAX)
		return -EBADMSG;
	c->res.fh.len = fh.len;
	memcpy(c->res.fh.data, fh.data, fh.len);
	return 0;
}

int nfs4_get_attr(struct nfs_call *c, XDR *x)
{
	struct nfs4_attrs a;
	nfsstat4 status;
	fattr4 in;

	if (!nfs4_get_result(x, OP_GETATTR, &status))
		return -EBADMSG;
	if (status)
		return nfs4_error(c, status);
	if (!xdr_fattr4(x, &in) || !nfs4_get_fattr(&a, &in) || !nfs4_has_required(&a))
		return -EBADMSG;
	c->res.attr = a.attr;
	c->res.has_attr = true;
	/* An earlier reply of this operation may have had names, which are still looked up. */
	nfs_owner_drop(c);
	if (a.owner.len)
		nfs_owner_of_call(c, false, a.owner.data, a.owner.len);
	if (a.group.len)
		nfs_owner_of_call(c, true, a.group.data, a.group.len);
	return 0;
}

int nfs4_decode_getattr(struct nfs_call *c, XDR *x)
{
	int rc = nfs4_check(c, x);

	return rc ? rc : nfs4_get_attr(c, x);
}

/* ---- directories ---- */

bool_t nfs4_put_dir(XDR *x)
{
	GETATTR4args a = { .attr_request = nfs4_after_mask };

	return nfs4_put_op(x, OP_GETATTR) && xdr_GETATTR4args(x, &a);
}

bool_t nfs4_put_dir_fh(XDR *x, const struct nfs_fh *fh)
{
	return nfs4_put_fh(x, fh) && nfs4_put_dir(x);
}

int nfs4_get_dir(struct nfs_call *c, XDR *x, unsigned i, bool *ends)
{
	struct nfs4_attrs a;
	GETATTR4res r;

	if (nfs4_get_op(x, OP_GETATTR) || !xdr_GETATTR4res(x, &r))
		return -EBADMSG;
	*ends = r.status;
	if (r.status)
		return 0;
	if (!nfs4_get_fattr(&a, &r.GETATTR4res_u.resok4.obj_attributes) ||
	    !bitmap4_isset(&a.got, FATTR4_TYPE))
		return -EBADMSG;
	if (!nfs4_has_required(&a))
		return 0;
	c->res.dir_attr[i] = a.attr;
	c->res.has_dir_attr[i] = true;
	c->res.dir_no_owner = true;
	return 0;
}

static int get_after(struct nfs_call *c, XDR *x, nfs_opnum4 op, unsigned i)
{
	nfsstat4 status;
	bool ends;

	if (nfs4_get_op(x, op) || !xdr_nfsstat4(x, &status))
		return -EBADMSG;
	return status ? 0 : nfs4_get_dir(c, x, i, &ends);
}

int nfs4_get_dir_fh(struct nfs_call *c, XDR *x, unsigned i)
{
	return get_after(c, x, OP_PUTFH, i);
}

int nfs4_get_dir_saved(struct nfs_call *c, XDR *x, unsigned i)
{
	return get_after(c, x, OP_RESTOREFH, i);
}

void nfs4_take_change(struct nfs_call *c, unsigned i, const change_info4 *info)
{
	c->res.dir_change[i] = (struct nfs_dir_change){ info->atomic, info->before, info->after };
}
