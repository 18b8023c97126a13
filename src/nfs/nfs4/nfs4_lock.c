/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * LOCK, LOCKT, LOCKU (RFC 8881, sections 9 and 18.10 to 18.12), and what is held by them.
 *
 *   nfs_open ---locks---> nfs4_lock      one lock-owner: its stateid, and the ranges that it holds
 *                         nfs4_lock      of the file, for recovery (nfs4_relock.c)
 *
 * The first LOCK of an owner names the open (open_to_lock_owner4), and its reply brings the owner's
 * stateid. From then on that stands for both, and CLOSE of that open frees it, with what is held: so
 * the caller unlocks before (vfs/locks.h). Sequence ids are 0: the session's slot orders calls.
 *
 * READ and WRITE go on with the open's stateid. A lock's is needed only where locks are mandatory (RFC
 * 8881, section 9.1.2), which they are on no server that is known here, and the kernel tells the owner
 * of few of them. (Where they are, the server says LOCKED.)
 *
 * What a lost reply means:
 *
 *   with its connection   The slot decides: the same bytes come again, and the server answers from
 *                         its cache. LOCK and LOCKU are executed once.
 *   with its session      The call is sent once more in the next one. To lock what the same owner has
 *   (RETRY_UNCACHED_REP   locked, or unlock what it has not, changes nothing, whether the owner is
 *   as well)              new or not. So the answer to the second one is the truth about both.
 *   with the server       `held` is what replies have said. A LOCK without a reply is not in it, so
 *                         it is not reclaimed, and asked for again as a new one: its caller was told
 *                         nothing yet. A LOCKU without a reply is still in it: it is reclaimed, and
 *                         then unlocked.
 *   too late              (recovery has settled the open's locks meanwhile) The call is sent once more:
 *                         LOCK would have a lock that is lost, and LOCKU would keep one that is reclaimed.
 *   for good              (a soft mount; a reply that cannot be decoded) The caller unlocks, if the
 *                         owner held nothing there before. LOCKU of an owner without a stateid asks
 *                         for the lock once more, to get that.
 *
 * The stateid and `held` are written by the lane that gets the reply, and read by the one that sends
 * the next call of this owner, and by recovery: under the lock of the open's list. The caller lets
 * calls of an owner wait for each other.
 */
#include <string.h>
#include "nfs/nfs4/nfs4_compound.h"

/* STEP_FIND: LOCKU does not know the stateid. STEP_FREE: nobody else knows it any more; the server has revoked it,
 * and keeps it until it is freed. */
enum { STEP_CALL, STEP_GETATTR, STEP_FIND, STEP_FREE };

/* ---- what is held ---- */

/* Takes the owner's stateid for this sending, if there is one. */
static void lock_take_stateid(struct nfs_call *c)
{
	struct nfs4_call *v = nfs4_call(c);
	struct nfs4_lock *l;

	pthread_mutex_lock(&c->open->in->mu);
	nfs4_open_note_lock_locked(c->open);
	l = nfs4_lock_find_locked(c->open, c->args.lock.owner);
	v->locks_age = c->open->locks_age;
	if (l)
		l->ending = c->op == NFS_OP_LOCKU && c->args.lock.all;
	v->lock_known = l && l->known;
	if (v->lock_known) {
		v->lock = l->stateid;
		v->lock.seqid = 0;
	}
	pthread_mutex_unlock(&c->open->in->mu);
}

/* Was the call sent before recovery has settled the open's locks? Then the reply says what the server had,
 * and not what it has. The call is sent once more. */
static bool lock_is_old_locked(struct nfs_call *c)
{
	bool old = nfs4_call(c)->locks_age != c->open->locks_age;

	if (old)
		c->eng.step = STEP_CALL;
	return old;
}

/* LOCK was granted. */
static int lock_note(struct nfs_call *c, const stateid4 *stateid)
{
	struct nfs_open *o = c->open;
	struct nfs4_lock *l;
	int rc = NFS_AGAIN;

	pthread_mutex_lock(&o->in->mu);
	if (!lock_is_old_locked(c)) {
		rc = nfs4_lock_note_locked(o, &c->args.lock, &c->res.lock, &l);
		if (l) {
			l->known = true;
			l->stateid = *stateid;
		}
	}
	pthread_mutex_unlock(&o->in->mu);
	return rc;
}

/* LOCKU was executed, or there is nothing to unlock. stateid NULL: the server has none. */
static int unlock_note(struct nfs_call *c, const stateid4 *stateid)
{
	struct nfs_open *o = c->open;
	struct nfs4_lock *l;
	int rc = NFS_AGAIN;

	pthread_mutex_lock(&o->in->mu);
	if (!lock_is_old_locked(c)) {
		l = stateid ? nfs4_lock_find_locked(o, c->args.lock.owner) : NULL;
		if (l)
			l->stateid = *stateid;
		rc = nfs4_unlock_note_locked(o, &c->args.lock, &c->res.lock);
	}
	pthread_mutex_unlock(&o->in->mu);
	return rc;
}

/* The server does not have the stateid that this sending had. */
static int lock_unknown(struct nfs_call *c, nfsstat4 status)
{
	struct nfs4_call *v = nfs4_call(c);
	bool lost = false, another = true;
	struct nfs4_lock *l;

	if (nfs4_is_revoked(status))
		atomic_store(&nfs4_of(c)->need_test, true);
	pthread_mutex_lock(&c->open->in->mu);
	l = nfs4_lock_find_locked(c->open, c->args.lock.owner);
	/* Recovery may have got another one meanwhile. */
	if (l && !memcmp(l->stateid.other, v->lock.other, NFS4_OTHER_SIZE)) {
		l->known = l->known && l->held.n;
		lost = nfs4_lock_lose_locked(c->open, l);
		another = !l->held.n;
	}
	pthread_mutex_unlock(&c->open->in->mu);
	nfs4_locks_say_lost(c->target->server->name, lost, status);
	return another ? NFS_AGAIN : -EIO;
}

/* The server has said that of the stateid. What becomes of the call is rc; `then` is what STEP_FREE goes on with. */
static int lock_free_first(struct nfs_call *c, int rc, int then, nfsstat4 status)
{
	if (rc != then || !nfs4_is_revoked(status))
		return rc;
	c->eng.step = STEP_FREE;
	return NFS_NEXT;
}

/* Whether that was done does not matter to the caller. "Later" it waits for, as for any call. */
static int lock_freed(struct nfs_call *c, XDR *x, int then)
{
	nfsstat4 status;
	int rc = nfs4_get_free(c, x, &status);

	if (rc > 0)
		return rc;
	c->eng.step = STEP_CALL;
	return then;
}

/* ---- LOCK ---- */

static nfs_lock_type4 lock_type(bool write, bool waits)
{
	return write ? (waits ? WRITEW_LT : WRITE_LT) : (waits ? READW_LT : READ_LT);
}

static locker4 lock_locker(const struct nfs_open *o, const uint64_t *owner, clientid4 clientid,
			   const stateid4 *stateid)
{
	locker4 l = { .new_lock_owner = !stateid };

	if (stateid) {
		l.locker4_u.lock_owner.lock_stateid = *stateid;
		return l;
	}
	l.locker4_u.open_owner.open_stateid = nfs4_stateid(o);
	l.locker4_u.open_owner.lock_owner.clientid = clientid;
	l.locker4_u.open_owner.lock_owner.owner =
		(nfs_ref1024){ .len = sizeof(*owner), .data = (const char *)owner };
	return l;
}

bool_t nfs4_put_relock(struct nfs_call *c, XDR *x, const struct nfs4_relock *l, bool reclaim)
{
	LOCK4args a = {
		.locktype = lock_type(l->range.write, false), .reclaim = reclaim,
		.offset = l->range.start, .length = nfs_range_length(l->range.start, l->range.last),
		.locker = lock_locker(c->open, &l->owner, nfs4_of(c)->clientid,
				      l->known ? &l->stateid : NULL),
	};

	return nfs4_put_op(x, OP_LOCK) && xdr_LOCK4args(x, &a);
}

static bool_t put_lock(struct nfs_call *c, XDR *x, nfs_lock_type4 type)
{
	const struct nfs4_call *v = nfs4_call(c);
	LOCK4args a = {
		.locktype = type, .offset = c->args.lock.offset, .length = c->args.lock.length,
		.locker = lock_locker(c->open, &c->args.lock.owner, nfs4_of(c)->clientid,
				      v->lock_known ? &v->lock : NULL),
	};

	return nfs4_put_op(x, OP_LOCK) && xdr_LOCK4args(x, &a);
}

static bool_t encode_lock(struct nfs_call *c, XDR *x)
{
	if (c->eng.step == STEP_GETATTR)
		return nfs4_encode_getattr(c, x, c->args.fh);
	if (c->eng.step == STEP_FREE)
		return nfs4_put_free(c, x, &nfs4_call(c)->lock);
	lock_take_stateid(c);
	return nfs4_begin(c, x, 4, true, c->args.fh) &&
	       put_lock(c, x, lock_type(c->args.lock.write, c->args.lock.waits)) &&
	       nfs4_put_getattr(x);
}

/* All of it is a stranger's: a range that makes no sense counts as the whole file
 * (nfs_range_last()), and an owner of another length or client as nobody that is known. */
static int lock_denied(struct nfs_call *c, const LOCK4denied *d)
{
	struct nfs_lock_results *r = &c->res.lock;

	r->write = d->locktype != READ_LT && d->locktype != READW_LT;
	r->offset = d->offset;
	r->length = d->length;
	r->holder = 0;
	if (d->owner.clientid == nfs4_of(c)->clientid && d->owner.owner.len == sizeof(r->holder))
		memcpy(&r->holder, d->owner.owner.data, sizeof(r->holder));
	return -EAGAIN;
}

static int get_lock(struct nfs_call *c, XDR *x, LOCK4res *r)
{
	if (nfs4_get_op(x, OP_LOCK) || !xdr_LOCK4res(x, r))
		return -EBADMSG;
	if (r->status == NFS4ERR_DENIED)
		return lock_denied(c, &r->LOCK4res_u.denied);
	if (nfs4_is_unknown(r->status) && nfs4_call(c)->lock_known)
		return lock_free_first(c, lock_unknown(c, r->status), NFS_AGAIN, r->status);
	/* The owner's first lock was by an open that only reads (vfs/locks.h), or flock() is. */
	if (r->status == NFS4ERR_OPENMODE)
		return -EBADF;
	return r->status ? nfs4_error(c, r->status) : 0;
}

/* It is locked, whatever becomes of GETATTR. */
static int lock_attrs(int rc)
{
	return rc < 0 ? 0 : rc;
}

static int decode_lock(struct nfs_call *c, XDR *x)
{
	LOCK4res r;
	int rc;

	if (c->eng.step == STEP_GETATTR)
		return lock_attrs(nfs4_decode_getattr(c, x));
	if (c->eng.step == STEP_FREE)
		return lock_freed(c, x, NFS_AGAIN);
	rc = nfs4_check(c, x);
	if (!rc)
		rc = get_lock(c, x, &r);
	if (!rc)
		rc = lock_note(c, &r.LOCK4res_u.resok4.lock_stateid);
	if (rc)
		return rc;
	nfs4_goes_on_at(c, STEP_GETATTR);
	return lock_attrs(nfs4_get_attr(c, x));
}

/* Offset, length, type, client id, owner. */
#define DENIED_XDR (8u + 8u + 4u + 8u + 4u + 1024u)
#define LOCKED_XDR (16u + V4_GETATTR_XDR)

enum {
	LOCK_MAX = V4_PREFIX_XDR + V4_OP_XDR + (DENIED_XDR > LOCKED_XDR ? DENIED_XDR : LOCKED_XDR),
};

const struct nfs_opdef nfs4_op_lock = NFS_OPDEF("LOCK", encode_lock, decode_lock,
	.results_max = LOCK_MAX, .proc = NFSPROC4_COMPOUND);

/* ---- LOCKT ---- */

static bool_t encode_lockt(struct nfs_call *c, XDR *x)
{
	const struct nfs_lock_args *l = &c->args.lock;
	LOCKT4args a = {
		.locktype = lock_type(l->write, false), .offset = l->offset, .length = l->length,
		.owner.clientid = nfs4_of(c)->clientid,
		.owner.owner = { .len = sizeof(l->owner), .data = (const char *)&l->owner },
	};

	return nfs4_begin(c, x, 3, false, c->args.fh) && nfs4_put_op(x, OP_LOCKT) &&
	       xdr_LOCKT4args(x, &a);
}

static int decode_lockt(struct nfs_call *c, XDR *x)
{
	LOCKT4res r;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_LOCKT) || !xdr_LOCKT4res(x, &r))
		return -EBADMSG;
	if (r.status == NFS4ERR_DENIED)
		return lock_denied(c, &r.LOCKT4res_u.denied);
	return r.status ? nfs4_error(c, r.status) : 0;
}

const struct nfs_opdef nfs4_op_lockt = NFS_OPDEF("LOCKT", encode_lockt, decode_lockt,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + DENIED_XDR, .proc = NFSPROC4_COMPOUND);

/* ---- LOCKU ---- */

/* With the owner's last lock the server forgets the owner, in the same COMPOUND. */
static bool_t put_unlock(struct nfs_call *c, XDR *x)
{
	const struct nfs_lock_args *l = &c->args.lock;
	LOCKU4args a = {
		.locktype = WRITE_LT, .lock_stateid = nfs4_call(c)->lock,
		.offset = l->all ? 0 : l->offset, .length = l->all ? UINT64_MAX : l->length,
	};
	FREE_STATEID4args f = { .fsa_stateid = nfs4_call(c)->lock };

	if (!nfs4_begin(c, x, l->all ? 4 : 3, true, c->args.fh) || !nfs4_put_op(x, OP_LOCKU) ||
	    !xdr_LOCKU4args(x, &a))
		return FALSE;
	return !l->all || (nfs4_put_op(x, OP_FREE_STATEID) && xdr_FREE_STATEID4args(x, &f));
}

static bool_t encode_locku(struct nfs_call *c, XDR *x)
{
	struct nfs4_call *v = nfs4_call(c);

	if (c->eng.step == STEP_FREE)
		return nfs4_put_free(c, x, &v->lock);
	if (c->eng.step != STEP_FIND)
		lock_take_stateid(c);
	if (v->lock_known)
		return put_unlock(c, x);
	c->eng.step = STEP_CALL;
	return nfs4_begin(c, x, 3, true, c->args.fh) &&
	       put_lock(c, x, lock_type(!(c->open->access & OPEN4_SHARE_ACCESS_READ), false));
}

/* What is another's is not this owner's, and without the open nothing is. */
static int found_stateid(struct nfs_call *c, XDR *x)
{
	struct nfs4_call *v = nfs4_call(c);
	LOCK4res r;

	if (nfs4_get_op(x, OP_LOCK) || !xdr_LOCK4res(x, &r))
		return -EBADMSG;
	if (r.status == NFS4ERR_DENIED || nfs4_is_unknown(r.status))
		return unlock_note(c, NULL);
	if (r.status)
		return nfs4_error(c, r.status);
	v->lock = r.LOCK4res_u.resok4.lock_stateid;
	v->lock.seqid = 0;
	v->lock_known = true;
	c->eng.step = STEP_FIND;
	return NFS_NEXT;
}

static int decode_locku(struct nfs_call *c, XDR *x)
{
	LOCKU4res r;
	int rc;

	if (c->eng.step == STEP_FREE)
		return lock_freed(c, x, 0);
	rc = nfs4_check(c, x);
	if (rc)
		return rc;
	if (!nfs4_call(c)->lock_known)
		return found_stateid(c, x);
	if (nfs4_get_op(x, OP_LOCKU) || !xdr_LOCKU4res(x, &r))
		return -EBADMSG;
	/* The lock was lost before: the log says so, and it is not held any more. */
	if (nfs4_is_unknown(r.status)) {
		lock_unknown(c, r.status);
		return lock_free_first(c, unlock_note(c, NULL), 0, r.status);
	}
	if (r.status)
		return nfs4_error(c, r.status);
	return unlock_note(c, &r.LOCKU4res_u.lock_stateid);
}

const struct nfs_opdef nfs4_op_locku = NFS_OPDEF("LOCKU", encode_locku, decode_locku,
	.results_max = V4_PREFIX_XDR + 2 * V4_OP_XDR + DENIED_XDR, .proc = NFSPROC4_COMPOUND);
