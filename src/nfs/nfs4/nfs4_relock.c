/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks in recovery (nfs4_recover.c). Those of an open follow it:
 *
 *   open reclaimed (CLAIM_PREVIOUS)     LOCK, reclaim, for each range; before RECLAIM_COMPLETE
 *   not reclaimed, or opened again      another stateid: what was locked may have been another
 *   (CLAIM_FH)                          client's meanwhile, so the locks are lost. The open stays
 *                                       marked until that is noted, and its calls wait
 *   revoked, with the open or not       TEST_STATEID tells; FREE_STATEID; lost
 *
 * A lock that is lost is never asked for again: who has it would go on with what it protected, and
 * might have been changed. The log says it once. READ and WRITE by that open file fail with EIO
 * (nfs4_open_ready()), until the owner has unlocked everything, or the file is closed.
 *
 * A reply of the old session may still be decoded meanwhile, or afterwards. Each call has the number of
 * how often the locks of its open were settled when it was sent (nfs_open.locks_age), and a reply to an
 * earlier one changes nothing here: its call is sent once more. So what is held is what it was when
 * recovery began with this open.
 */
#include <stdlib.h>
#include <string.h>
#include "nfs/nfs4/nfs4_compound.h"

/* How often a LOCK is sent that gets no answer. */
#define TRIES 5u

/* ---- LOCK, reclaim ---- */

static bool_t encode_relock(struct nfs_call *c, XDR *x)
{
	const struct nfs4_relock *l = &((struct nfs4_ctl *)c->args.version)->lock;

	return nfs4_begin(c, x, 3, true, &c->open->file->fh) && nfs4_put_relock(c, x, l, true);
}

static int decode_relock(struct nfs_call *c, XDR *x)
{
	struct nfs4_ctl *k = c->args.version;
	LOCK4res r;
	int rc = nfs4_check(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_LOCK) || !xdr_LOCK4res(x, &r))
		return -EBADMSG;
	if (nfs4_is_later(r.status) && !nfs4_reclaims_too_long(nfs4_of(c)))
		return NFS_LATER;
	if (!nfs4_is_later(r.status))
		nfs4_of(c)->later_ns = 0;
	k->status = r.status;
	if (r.status)
		return -EIO;
	k->lock.known = true;
	k->lock.stateid = r.LOCK4res_u.resok4.lock_stateid;
	k->lock.stateid.seqid = 0;
	return 0;
}

const struct nfs_opdef nfs4_op_relock = NFS_OPDEF("LOCK (recovery)", encode_relock, decode_relock,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + 1100, .proc = NFSPROC4_COMPOUND);

/* *status: the server's answer, or NFS4_OK. */
static int relock(struct nfs_server *s, struct nfs_open *o, struct nfs4_relock *l, nfsstat4 *status)
{
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	int rc;

	*status = NFS4_OK;
	if (!k)
		return -ENOMEM;
	k->cred = o->cred;
	k->c.open = o;
	k->lock = *l;
	nfs4_open_get(o);               /* the call's, as in nfs4_recover.c */
	rc = nfs4_run(s, k, NFS4_OP_RELOCK, 0, &k);
	if (!k)
		return rc;
	nfs4_open_put(o);
	*status = k->status;
	*l = k->lock;
	free(k);
	return rc;
}

static int relock_tries(struct nfs_server *s, struct nfs_open *o, struct nfs4_relock *l,
			nfsstat4 *status)
{
	int rc = relock(s, o, l, status);

	for (unsigned i = 1; i < TRIES && rc == -EIO && !*status; i++)
		rc = relock(s, o, l, status);
	return rc;
}

/* ---- one owner after the other ---- */

/* The next range to be reclaimed. false: there is none. */
static bool relock_next(struct nfs_open *o, struct nfs4_relock *r, uint64_t from)
{
	struct nfs4_lock *l;
	bool there;

	pthread_mutex_lock(&o->in->mu);
	l = nfs4_lock_find_locked(o, r->owner);
	there = l && !l->lost && nfs_ranges_next(&l->held, from, &r->range);
	pthread_mutex_unlock(&o->in->mu);
	return there;
}

/* A LOCKU of what is lost is sent with the stateid of before, and told that it is not known: without one it
 * would ask for the lock first (nfs4_lock.c). */
static void relock_done(struct nfs_open *o, const struct nfs4_relock *r, bool lost)
{
	struct nfs4_lock *l;

	pthread_mutex_lock(&o->in->mu);
	l = nfs4_lock_find_locked(o, r->owner);
	if (l) {
		l->known = r->known || lost;
		l->stateid = r->known ? r->stateid : l->stateid;
	}
	pthread_mutex_unlock(&o->in->mu);
}

static int relock_owner(struct nfs_server *s, struct nfs_open *o, uint64_t owner)
{
	struct nfs4_relock r = { .owner = owner };
	uint64_t from = 0;
	nfsstat4 status;
	int rc = 0;

	if (!relock_next(o, &r, 0))
		return 0;
	while (!rc && relock_next(o, &r, from)) {
		rc = relock_tries(s, o, &r, &status);
		if (rc || r.range.last == UINT64_MAX)
			break;
		from = r.range.last + 1;
	}
	if (rc == -EAGAIN || rc == -ESHUTDOWN || rc == -ENOMEM)
		return rc;
	relock_done(o, &r, rc);
	if (rc)
		nfs4_lock_lose_owner(s, o, owner, NULL, status);
	return 0;
}

/* The server has none of their stateids; lose: nor what they had. Returns how many have lost theirs. */
static unsigned forget_stateids(struct nfs_open *o, bool lose)
{
	unsigned lost = 0;

	pthread_mutex_lock(&o->in->mu);
	o->locks_age++;
	list_for_each_entry(struct nfs4_lock, l, &o->locks, node) {
		lost += lose && nfs4_lock_lose_locked(o, l);
		l->known = l->lost;     /* LOCKU is sent with it, and told that it is not known */
	}
	pthread_mutex_unlock(&o->in->mu);
	return lost;
}

static uint64_t next_owner(struct nfs_open *o, uint64_t owner)
{
	struct nfs4_lock *l;

	pthread_mutex_lock(&o->in->mu);
	l = nfs4_lock_next_locked(o, owner);
	owner = l ? l->owner : 0;
	pthread_mutex_unlock(&o->in->mu);
	return owner;
}

int nfs4_locks_reclaim(struct nfs_server *s, struct nfs_open *o)
{
	int rc = 0;

	forget_stateids(o, false);
	for (uint64_t owner = 0; !rc && (owner = next_owner(o, owner)); )
		rc = relock_owner(s, o, owner);
	return rc;
}

void nfs4_locks_gone(struct nfs_server *s, struct nfs_open *o)
{
	nfs4_locks_say_lost(s->name, forget_stateids(o, true), NFS4ERR_BAD_STATEID);
}

/* ---- revoked ---- */

/* The stateids of o's owners, of so many at most; also of those that a lane has found to be revoked, or whose
 * FREE_STATEID was delayed: the server keeps what is not freed, and its flag. */
static unsigned stateids_of(struct nfs_open *o, uint64_t owner, struct nfs4_ctl *k, uint64_t *owners)
{
	struct nfs4_lock *l;

	k->ntest = 0;
	pthread_mutex_lock(&o->in->mu);
	while (k->ntest < NFS4_TEST_MAX && (l = nfs4_lock_next_locked(o, owner))) {
		owner = l->owner;
		if (!l->known)
			continue;
		owners[k->ntest] = owner;
		k->test[k->ntest++] = l->stateid;
	}
	pthread_mutex_unlock(&o->in->mu);
	return k->ntest;
}

/* Of several: the error, or else NFS_LATER, with which the others have their turn. */
static int worse_of(int rc, int other)
{
	return rc < 0 ? rc : other ? other : rc;
}

static int lose_tested(struct nfs_server *s, struct nfs_open *o, const struct nfs4_ctl *k,
		       const uint64_t *owners, unsigned n)
{
	int rc = 0;

	for (unsigned i = 0; i < n && rc >= 0; i++) {
		if (!nfs4_is_unknown(k->found[i]) || k->found[i] == NFS4ERR_OLD_STATEID)
			continue;
		nfs4_lock_lose_owner(s, o, owners[i], &k->test[i], k->found[i]);
		if (nfs4_is_revoked(k->found[i]))
			rc = worse_of(rc, nfs4_free_stateid(s, &k->test[i]));
	}
	return rc;
}

static int locks_test_of(struct nfs_server *s, struct nfs_open *o)
{
	uint64_t owners[NFS4_TEST_MAX], owner = 0;
	struct nfs4_ctl *k;
	int rc = 0, one;
	unsigned n;

	do {
		k = nfs4_ctl_new(s);
		if (!k)
			return -ENOMEM;
		n = stateids_of(o, owner, k, owners);
		if (n) {
			one = nfs4_run(s, k, NFS4_OP_TEST_STATEID, 0, &k);
			if (k && !one)
				one = lose_tested(s, o, k, owners, n);
			rc = worse_of(rc, one);
			owner = owners[n - 1];
		}
		free(k);
	} while (rc >= 0 && n == NFS4_TEST_MAX);
	return rc;
}

int nfs4_locks_test(struct nfs_server *s)
{
	struct nfs_open *o = NULL;
	int rc = 0;

	while (rc >= 0 && (o = nfs4_next_open(s->vdata, o)))
		if (nfs4_is_ours(o) && next_owner(o, 0))
			rc = worse_of(rc, locks_test_of(s, o));
	if (o)
		nfs4_open_put(o);
	return nfs4_test_ends(s->vdata, rc);
}
