/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a status means for the call: an errno, or what the engine does next (nfs/version.h). */
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"

/* How often an open may be rejected after recovery found it valid. */
#define STATE_TRIES 3u
/* How often a call is sent again that another client's lock keeps from being executed: for three
 * seconds. A lock may be held for days, and fsync(), close() and the end of the mount wait for
 * calls. (The kernel's client does not wait at all, and returns EAGAIN. Programs take that for
 * "again", at once and for ever.) */
#define LOCKED_TRIES 5u

int nfs4_errno(nfsstat4 status)
{
	switch (status) {
	/* The kernel has looked at the descriptor. But the file may be open at the server for less
	 * than that (nfs4_recover.c). */
	case NFS4ERR_OPENMODE:
	case NFS4ERR_WRONGSEC:          return -EACCES;
	case NFS4ERR_FHEXPIRED:         return -ESTALE;
	case NFS4ERR_MOVED:             return -EREMOTE;
	case NFS4ERR_SYMLINK:           return -ELOOP;
	case NFS4ERR_NOT_SAME:          return -NFS_ECOOKIE;
	case NFS4ERR_DENIED:            return -EAGAIN;
	case NFS4ERR_DEADLOCK:          return -EDEADLK;
	case NFS4ERR_LOCK_NOTSUPP:      return -ENOLCK;
	case NFS4ERR_LOCK_RANGE:
	case NFS4ERR_BAD_RANGE:         return -EINVAL;
	case NFS4ERR_SHARE_DENIED:
	case NFS4ERR_FILE_OPEN:         return -EBUSY;
	case NFS4ERR_UNION_NOTSUPP:
	case NFS4ERR_OFFLOAD_DENIED:
	case NFS4ERR_OFFLOAD_NO_REQS:
	case NFS4ERR_ATTRNOTSUPP:       return -EOPNOTSUPP;
	case NFS4ERR_NOXATTR:           return -ENODATA;
	case NFS4ERR_XATTR2BIG:         return -E2BIG;
	case NFS4ERR_WRONG_TYPE:
	case NFS4ERR_BADNAME:
	case NFS4ERR_BADCHAR:
	case NFS4ERR_BADOWNER:          return -EINVAL;
	case NFS4ERR_MINOR_VERS_MISMATCH: return -EPROTONOSUPPORT;
	default:                        return nfs_errno(status);
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
	nfs4_belief_doubt(&nfs4_of(c)->belief);
	atomic_store(&nfs4_of(c)->need_session, true);
	return NFS_RECOVER;
}

/* Of two, the server does not say which. To open one again that is good does no harm. */
static int stateid_lost(struct nfs_call *c)
{
	struct nfs_open *from = nfs4_source(c);

	if (!c->open || atomic_load(&c->open->lost) || (from && atomic_load(&from->lost)) ||
	    nfs4_call(c)->tries++ >= STATE_TRIES)
		return -EIO;
	atomic_store(&c->open->reopen, true);
	if (from)
		atomic_store(&from->reopen, true);
	return NFS_REOPEN;
}

/* The server keeps it until it knows that we know. TEST_STATEID may have found it good just before, so it is noted
 * here. One that is good is not freed: the server refuses that. */
static int stateid_revoked(struct nfs_call *c)
{
	struct nfs_open *from = nfs4_source(c);

	if (c->open)
		atomic_store(&c->open->to_free, true);
	if (from)
		atomic_store(&from->to_free, true);
	return stateid_lost(c);
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
		nfs4_belief_doubt(&nfs4_of(c)->belief);
		atomic_store(&nfs4_of(c)->need_client, true);
		return NFS_RECOVER;
	case NFS4ERR_BAD_STATEID:
	case NFS4ERR_STALE_STATEID:
	case NFS4ERR_OLD_STATEID:
		return stateid_lost(c);
	case NFS4ERR_EXPIRED:
	case NFS4ERR_ADMIN_REVOKED:
	case NFS4ERR_DELEG_REVOKED:
		atomic_store(&nfs4_of(c)->need_test, true);
		return stateid_revoked(c);
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
