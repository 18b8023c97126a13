/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks that this mount grants itself. Under a delegation to write nobody else has the file open, so nobody else
 * has a lock of it: LOCK, LOCKT and LOCKU make no call (RFC 8881, section 10.4.2). Before the delegation goes back
 * the server gets all of them (nfs4_claim.c).
 *
 *      nfs4_delegation.granted ----> nfs_open ----> nfs_open.locks, which the server does not know
 *                              ----> nfs_open       (each with a reference of this list)
 *
 * A file's locks are all of one kind, or nobody would compare them: either all are the server's, or all are
 * granted here.
 *
 *   the server's      nfs_file.locked counts the opens that LOCK was sent by, whatever came of it. As long as
 *                     there is one, LOCK is sent. An open that has been locked so stays so until it is closed.
 *   granted here      `granted` is not empty. As long as that is so, no LOCK of the file is sent but by nfs4_claim.c.
 *
 *      LOCK: HELD, and believed? ---yes, no open is `locked`--> granted here
 *                    | no                                            |
 *                    |                          DUE, RETURNING: LOCK, LOCKT and LOCKU of the file wait
 *                    v                                               | all are claimed, or lost
 *                   sent <-------------------------------------------+
 *
 * Which it is, is decided under the table's lock, and noted under it: a LOCK that is to be sent counts before
 * it is encoded. So there is no moment at which another lane could grant what such a LOCK is asking for.
 *
 * Who else acts in between:
 *
 *   a recall, or whoever drops the delegation    It is DUE, under the lock. Who asks from then on waits, some
 *        milliseconds at a time, until what was granted is the server's. Whoever was granted one before is claimed.
 *   the lease is in doubt, the machine has slept, the last connection is lost    Somebody else may have the file
 *        by now, so nothing is granted any more (nfs4_belief.c), and the delegation goes back: the server says by
 *        its answer to DELEGRETURN whether it was good to the end. The control thread looks at each tick.
 *   the server restarts     The opens are reclaimed, and the locks with them, as if the server had had them: in its
 *        grace period nobody else gets any (nfs4_relock.c). They are the server's then, also if the delegation is
 *        reclaimed as well (nfs4_regain.c). Until all opens are reclaimed no lock of the file is granted under that.
 *   the server has revoked the delegation    What was granted under it is lost, and counts as other lost locks do:
 *        I/O of these opens fails until they are unlocked or closed.
 *   the open is lost, or opened again in recovery    Its locks are lost, as all are (nfs4_relock.c).
 *   an unlock      is done here while the delegation is HELD, believed or not: it takes nothing from anybody.
 *   CLOSE          The caller has unlocked before. An open that nobody locks any more is in no list, and may stay
 *        under the delegation (nfs4_kept.c).
 */
#include <errno.h>
#include <stdlib.h>
#include "nfs/nfs4/nfs4_impl.h"

static struct nfs4_delegs *granted_table(const struct nfs_server *s)
{
	return &((struct nfs4_client *)s->vdata)->delegs;
}

/* LOCKT has no open, and its handle is that of the caller's file. */
static struct nfs_file *granted_file(const struct nfs_call *c)
{
	return c->open ? c->open->file : container_of((struct nfs_fh *)(uintptr_t)c->args.fh, struct nfs_file, fh);
}

/* ---- with t->mu ---- */

static void granted_add_locked(struct nfs4_delegation *d, struct nfs_open *o)
{
	if (o->granted_under)
		return;
	o->granted_under = d;
	list_add_tail(&d->granted, &o->granted);
	nfs4_open_get(o);
}

static void granted_remove_locked(struct nfs_open *o)
{
	list_del(&o->granted);
	o->granted_under = NULL;
	nfs4_open_put(o);
}

static struct nfs_open *granted_first(const struct list *opens)
{
	return list_empty(opens) ? NULL : container_of(opens->next, struct nfs_open, granted);
}

static void granted_drop_list_locked(struct list *opens)
{
	struct nfs_open *o;

	while ((o = granted_first(opens))) {
		nfs4_open_note_lock(o);
		granted_remove_locked(o);
	}
}

void nfs4_granted_claimed_locked(struct nfs_open *o)
{
	struct nfs4_delegation *d = o->granted_under;

	nfs4_open_note_lock(o);
	list_del(&o->granted);
	o->granted_under = NULL;
	list_add_tail(&d->claimed, &o->granted);
}

void nfs4_granted_drop_locked(struct nfs4_delegation *d)
{
	granted_drop_list_locked(&d->granted);
	granted_drop_list_locked(&d->claimed);
}

static unsigned granted_lose_list_locked(const struct list *opens)
{
	unsigned lost = 0;

	list_for_each_entry(struct nfs_open, o, opens, granted)
		lost += nfs4_locks_lose(o);
	return lost;
}

unsigned nfs4_granted_lose_locked(struct nfs4_delegation *d)
{
	unsigned lost = granted_lose_list_locked(&d->granted) + granted_lose_list_locked(&d->claimed);

	nfs4_granted_drop_locked(d);
	return lost;
}

static bool granted_open_is_good(const struct nfs_open *o)
{
	return atomic_load(&o->settled) && !atomic_load(&o->reopen) && !atomic_load(&o->lost);
}

/* While the one of before a restart is LOST, opens of the file are still to be reclaimed, and their locks with them. */
static bool granted_may_locked(const struct nfs_server *s, const struct nfs4_delegation *d, const struct nfs_call *c)
{
	struct nfs_file *f = granted_file(c);

	return d->state == NFS4_HELD && nfs_delegation_writes(d->d.number) && d->d.file == f &&
	       !nfs4_delegs_find_lost_locked(granted_table(s), &f->fh) &&
	       !atomic_load(&f->locked) && (!c->open || granted_open_is_good(c->open)) &&
	       nfs4_belief_delegation(s, f) == d->d.number;
}

/* ---- what is in the way ---- */

/* With o->in->mu. */
static bool granted_owner_has(const struct nfs4_lock *l, const struct nfs_lock_args *a, struct nfs_range *range)
{
	uint64_t from = a->offset, last = nfs_range_last(a->offset, a->length);

	while (nfs_ranges_next(&l->held, from, range) && range->start <= last) {
		if (a->write || range->write)
			return true;
		if (range->last == UINT64_MAX)
			break;
		from = range->last + 1;
	}
	return false;
}

static bool granted_open_denies(struct nfs_open *o, const struct nfs_lock_args *a, struct nfs_lock_results *r)
{
	struct nfs_range range;
	bool denies = false;

	pthread_mutex_lock(&o->in->mu);
	list_for_each_entry(const struct nfs4_lock, l, &o->locks, node) {
		if (l->owner == a->owner || !granted_owner_has(l, a, &range))
			continue;
		r->write = range.write;
		r->offset = range.start;
		r->length = nfs_range_length(range.start, range.last);
		r->holder = l->owner;
		denies = true;
		break;
	}
	pthread_mutex_unlock(&o->in->mu);
	return denies;
}

static bool granted_denied_locked(const struct nfs4_delegation *d, struct nfs_call *c)
{
	list_for_each_entry(struct nfs_open, o, &d->granted, granted)
		if (granted_open_denies(o, &c->args.lock, &c->res.lock))
			return true;
	return false;
}

/* ---- the answers ---- */

/* As the server would say OPENMODE. */
static bool granted_suits(const struct nfs_open *o, bool write)
{
	return o->access & (write ? OPEN4_SHARE_ACCESS_WRITE : OPEN4_SHARE_ACCESS_READ);
}

static int granted_lock_locked(struct nfs4_delegation *d, struct nfs_call *c)
{
	struct nfs_open *o = c->open;
	struct nfs4_lock *l = NULL;
	int rc = -EIO;

	if (granted_denied_locked(d, c))
		return -EAGAIN;
	if (!granted_suits(o, c->args.lock.write))
		return -EBADF;
	pthread_mutex_lock(&o->in->mu);
	if (!atomic_load(&o->locks_lost))
		rc = nfs4_lock_note_locked(o, &c->args.lock, &c->res.lock, &l);
	pthread_mutex_unlock(&o->in->mu);
	if (l)
		granted_add_locked(d, o);
	c->res.lock.under = d->d.number;
	return rc;
}

static int granted_unlock_locked(struct nfs_call *c)
{
	struct nfs_open *o = c->open;
	struct nfs4_lock *l;
	bool any;
	int rc;

	pthread_mutex_lock(&o->in->mu);
	rc = nfs4_unlock_note_locked(o, &c->args.lock, &c->res.lock);
	l = nfs4_lock_find_locked(o, c->args.lock.owner);
	if (l && !c->res.lock.held)
		nfs4_lock_free_locked(l);
	any = !list_empty(&o->locks);
	pthread_mutex_unlock(&o->in->mu);
	if (!any)
		granted_remove_locked(o);
	return rc;
}

static enum nfs_lock_here granted_unlock_here_locked(struct nfs_call *c)
{
	const struct nfs4_delegation *d = c->open->granted_under;

	if (!d)
		return NFS_LOCK_SENT;
	if (d->state != NFS4_HELD)
		return NFS_LOCK_LATER;
	c->res.status = granted_unlock_locked(c);
	return NFS_LOCK_HERE;
}

static enum nfs_lock_here granted_lock_here_locked(struct nfs_server *s, struct nfs4_delegs *t, struct nfs_call *c)
{
	struct nfs4_delegation *d = nfs4_delegs_find_locked(t, c->args.fh);

	if (d && granted_may_locked(s, d, c)) {
		c->res.status = c->op == NFS_OP_LOCK ? granted_lock_locked(d, c) :
				granted_denied_locked(d, c) ? -EAGAIN : 0;
		return NFS_LOCK_HERE;
	}
	if (d && !list_empty(&d->granted)) {
		if (d->state == NFS4_HELD)
			nfs4_delegs_drop_locked(t, d, true);
		return NFS_LOCK_LATER;
	}
	if (c->op == NFS_OP_LOCK)
		nfs4_open_note_lock(c->open);
	return NFS_LOCK_SENT;
}

enum nfs_lock_here nfs4_granted_lock(struct nfs_server *s, struct nfs_call *c)
{
	struct nfs4_delegs *t = granted_table(s);
	enum nfs_lock_here how;

	pthread_mutex_lock(&t->mu);
	how = c->op == NFS_OP_LOCKU ? granted_unlock_here_locked(c) : granted_lock_here_locked(s, t, c);
	pthread_mutex_unlock(&t->mu);
	return how;
}

/* ---- control thread ---- */

void nfs4_granted_look(struct nfs_server *s)
{
	struct nfs4_delegs *t = granted_table(s);

	pthread_mutex_lock(&t->mu);
	list_for_each_entry_safe(struct nfs4_delegation, d, tmp, &t->in[NFS4_HELD].list, node)
		if (!list_empty(&d->granted) && nfs4_belief_delegation(s, d->d.file) != d->d.number)
			nfs4_delegs_drop_locked(t, d, true);
	pthread_mutex_unlock(&t->mu);
}
