/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server gets the locks that this mount has granted itself under a delegation (nfs4_granted.c), before it gets
 * that back: one operation for each open, and one LOCK for each range.
 *
 *      granted --LOCK, LOCK, ...--> claimed --DELEGRETURN--> OK: they are held
 *                     | refused                     +------> the server does not know it: they are lost
 *                     +-----------> lost
 *
 * The delegation is the operation's meanwhile (nfs4_delegs.h), and where it is in the open's locks stands there.
 * Nobody changes these: LOCK and LOCKU of the file wait. In between:
 *
 *   the lane loses its connection    The operation goes to another lane, and begins again. To lock what the same
 *                          owner has locked changes nothing.
 *   the session is lost    The same: what may have been executed is sent once more.
 *   the server restarts    The delegation is forgotten, and recovery has reclaimed the locks, or they are lost.
 *                          It has counted that (nfs_open.locks_age): nothing is left to be done.
 *   CLOSE                  has taken the open: there are no locks of it, but what memory was missing to note.
 *   the open is not known any more    It is opened again, and has lost its locks: the same.
 *   the server has revoked the delegation    Somebody else may have had the lock, changed what it protects, and
 *                          given it back, so that the server grants it once more. Its answer to DELEGRETURN tells:
 *                          until then the locks are in doubt, and are lost if the delegation was. (Programs go on
 *                          meanwhile. What they write reaches the server by opens that it knows.) They are lost as
 *                          well if DELEGRETURN was executed in a session that is lost: the next answer is the same.
 */
#include <stdlib.h>
#include "nfs/nfs4/nfs4_compound.h"

static struct nfs4_delegation *claim_delegation(const struct nfs_call *c)
{
	return container_of(c->args.delegation, struct nfs4_delegation, d);
}

/* ---- the next range ---- */

/* With o->in->mu: of that owner from there on, or of the next one. */
static bool claim_find_locked(const struct nfs_open *o, struct nfs4_claim *k)
{
	const struct nfs4_lock *l = nfs4_lock_find_locked(o, k->lock.owner);

	while (!l || l->lost || k->ended || !nfs_ranges_next(&l->held, k->from, &k->lock.range)) {
		l = nfs4_lock_next_locked(o, k->lock.owner);
		if (!l)
			return false;
		k->lock.owner = l->owner;
		k->from = 0;
		k->ended = false;
	}
	k->lock.known = l->known;
	k->lock.stateid = l->stateid;
	return true;
}

static bool claim_find(struct nfs_open *o, struct nfs4_claim *k)
{
	bool found;

	pthread_mutex_lock(&o->in->mu);
	found = o->locks_age == k->age && atomic_load(&o->holder) != NFS4_CLOSING && claim_find_locked(o, k);
	pthread_mutex_unlock(&o->in->mu);
	return found;
}

/* The server has that range. */
static void claim_note(struct nfs_open *o, const struct nfs4_claim *k, const stateid4 *stateid)
{
	struct nfs4_lock *l;

	pthread_mutex_lock(&o->in->mu);
	l = o->locks_age == k->age ? nfs4_lock_find_locked(o, k->lock.owner) : NULL;
	if (l) {
		l->known = true;
		l->stateid = *stateid;
		l->stateid.seqid = 0;
	}
	pthread_mutex_unlock(&o->in->mu);
}

/* ---- the operation ---- */

/* If nothing is left (any more), a COMPOUND that does nothing. */
static bool_t encode_claim(struct nfs_call *c, XDR *x)
{
	struct nfs4_claim *k = &claim_delegation(c)->claim;

	k->sent = claim_find(c->open, k);
	if (!k->sent)
		return nfs4_begin(c, x, 2, true, &c->open->file->fh);
	return nfs4_begin(c, x, 3, true, &c->open->file->fh) && nfs4_put_relock(c, x, &k->lock, false);
}

/* 0, or what decode() returns. */
static int claim_take(struct nfs_call *c, const LOCK4res *r)
{
	const struct nfs4_claim *k = &claim_delegation(c)->claim;
	int rc;

	if (!r->status) {
		claim_note(c->open, k, &r->LOCK4res_u.resok4.lock_stateid);
		return 0;
	}
	rc = k->lock.known && nfs4_is_unknown(r->status) ? -EIO : nfs4_error(c, r->status);
	if (rc > 0)
		return rc;
	nfs4_lock_lose_owner(c->target->server, c->open, k->lock.owner, NULL, r->status);
	return 0;
}

static int decode_claim(struct nfs_call *c, XDR *x)
{
	struct nfs4_claim *k = &claim_delegation(c)->claim;
	LOCK4res r;
	int rc = nfs4_check(c, x);

	if (rc || !k->sent)
		return rc;
	if (nfs4_get_op(x, OP_LOCK) || !xdr_LOCK4res(x, &r))
		return -EBADMSG;
	rc = claim_take(c, &r);
	if (rc)
		return rc;
	k->ended = k->lock.range.last == UINT64_MAX;
	k->from = k->lock.range.last + 1;
	return claim_find(c->open, k) ? NFS_NEXT : 0;
}

const struct nfs_opdef nfs4_op_claim = NFS_OPDEF("LOCK (delegation)", encode_claim, decode_claim,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR + 1100, .proc = NFSPROC4_COMPOUND);

/* ---- its begin and its end ---- */

struct nfs_open *nfs4_claim_next(struct nfs_server *s, struct nfs_delegation *given, struct rpc_cred *cred)
{
	struct nfs4_delegation *d = container_of(given, struct nfs4_delegation, d);
	struct nfs4_delegs *t = &((struct nfs4_client *)s->vdata)->delegs;
	struct nfs_open *o = NULL;

	pthread_mutex_lock(&t->mu);
	if (!list_empty(&d->granted)) {
		o = container_of(d->granted.next, struct nfs_open, granted);
		nfs4_open_get(o);
		*cred = o->cred;
	}
	pthread_mutex_unlock(&t->mu);
	if (!o)
		return NULL;
	pthread_mutex_lock(&o->in->mu);
	d->claim = (struct nfs4_claim){ .age = o->locks_age };
	pthread_mutex_unlock(&o->in->mu);
	return o;
}

/* Is it sent once more, because its lane or the mount has ended? */
static bool claim_goes_on(int status)
{
	return status == -ENOTCONN || status == -ESHUTDOWN;
}

static void claim_ends(struct nfs_call *c, bool goes_on)
{
	struct nfs4_delegs *t = &nfs4_of(c)->delegs;
	struct nfs4_delegation *d = claim_delegation(c);
	struct nfs_open *o = c->open;
	int status = c->res.status;
	unsigned lost = 0;

	pthread_mutex_lock(&t->mu);
	if (status && !goes_on)
		lost = nfs4_locks_lose(o);
	if (!goes_on && o->granted_under == d)
		nfs4_granted_claimed_locked(o);
	pthread_mutex_unlock(&t->mu);
	nfs4_locks_say_lost(c->target->server->name, lost, NFS4_OK);
	nfs4_open_put(o);
	c->open = NULL;
}

void nfs4_claim_or_return_ends(struct nfs_call *c)
{
	bool claims = c->op == NFS_OP_CLAIM, goes_on = claims && claim_goes_on(c->res.status);

	if (claims)
		claim_ends(c, goes_on);
	if (!claims || goes_on)
		nfs4_delegs_return_ends(c);
}
