/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the lock-owners of an open hold: see nfs4_lock.c. With o->in->mu, but for the last ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "nfs/nfs4/nfs4_impl.h"

struct nfs4_lock *nfs4_lock_next_locked(const struct nfs_open *o, uint64_t owner)
{
	struct nfs4_lock *next = NULL;

	list_for_each_entry(struct nfs4_lock, l, &o->locks, node)
		if (l->owner > owner && (!next || l->owner < next->owner))
			next = l;
	return next;
}

struct nfs4_lock *nfs4_lock_find_locked(const struct nfs_open *o, uint64_t owner)
{
	list_for_each_entry(struct nfs4_lock, l, &o->locks, node)
		if (l->owner == owner)
			return l;
	return NULL;
}

void nfs4_lock_free_locked(struct nfs4_lock *l)
{
	list_del(&l->node);
	nfs_ranges_free(&l->held);
	free(l);
}

void nfs4_locks_free_locked(struct nfs_open *o)
{
	list_for_each_entry_safe(struct nfs4_lock, l, tmp, &o->locks, node)
		nfs4_lock_free_locked(l);
}

bool nfs4_lock_lose_locked(struct nfs_open *o, struct nfs4_lock *l)
{
	if (!l->held.n || l->lost)
		return false;
	l->lost = true;
	atomic_fetch_add(&o->locks_lost, 1);
	return true;
}

int nfs4_lock_note_locked(struct nfs_open *o, const struct nfs_lock_args *a, struct nfs_lock_results *r,
			  struct nfs4_lock **out)
{
	uint64_t last = nfs_range_last(a->offset, a->length);
	struct nfs4_lock *l = nfs4_lock_find_locked(o, a->owner);
	bool ok;

	if (!l) {
		l = calloc(1, sizeof(*l));
		if (l) {
			l->owner = a->owner;
			list_add_tail(&o->locks, &l->node);
		}
	}
	*out = l;
	if (!l)
		return -ENOMEM;
	r->had = nfs_ranges_any(&l->held, a->offset, last);
	ok = nfs_ranges_set(&l->held, a->offset, last, a->write ? NFS_RANGE_WRITE : NFS_RANGE_READ);
	l->unsure = l->unsure || !ok;
	r->held = true;
	return ok ? 0 : -ENOMEM;
}

int nfs4_unlock_note_locked(struct nfs_open *o, const struct nfs_lock_args *a, struct nfs_lock_results *r)
{
	uint64_t last = nfs_range_last(a->offset, a->length);
	struct nfs4_lock *l = nfs4_lock_find_locked(o, a->owner);
	bool ok;

	r->held = false;
	if (!l)
		return 0;
	ok = nfs_ranges_set(&l->held, a->all ? 0 : a->offset, a->all ? UINT64_MAX : last, NFS_RANGE_NONE);
	if (l->lost && !l->held.n) {
		l->lost = l->known = false;
		atomic_fetch_sub(&o->locks_lost, 1);
	}
	r->held = l->held.n || l->unsure;
	if (a->all)
		nfs4_lock_free_locked(l);
	return ok ? 0 : -ENOMEM;
}

void nfs4_open_note_lock_locked(struct nfs_open *o)
{
	if (!o->was_locked && o->file)
		atomic_fetch_add(&o->file->locked, 1);
	o->was_locked = true;
}

/* ---- without it ---- */

void nfs4_open_note_lock(struct nfs_open *o)
{
	pthread_mutex_lock(&o->in->mu);
	nfs4_open_note_lock_locked(o);
	pthread_mutex_unlock(&o->in->mu);
}

unsigned nfs4_locks_lose(struct nfs_open *o)
{
	unsigned lost = 0;

	pthread_mutex_lock(&o->in->mu);
	list_for_each_entry(struct nfs4_lock, l, &o->locks, node)
		lost += nfs4_lock_lose_locked(o, l);
	pthread_mutex_unlock(&o->in->mu);
	return lost;
}

void nfs4_locks_say_lost(const char *server, unsigned lost, nfsstat4 status)
{
	for (; lost; lost--)
		log_err("a lock of an open file on %s was lost with the server's state (status %d): reads and "
			"writes by that open file fail until it is unlocked or closed", server, status);
}

/* The server was asked for that stateid. Its answer may be older than a LOCK that has brought another one, or come
 * before the reply to the LOCKU with which the stateid went. */
static bool held_is_without(const struct nfs4_lock *l, const stateid4 *stateid, nfsstat4 status)
{
	return !memcmp(l->stateid.other, stateid->other, NFS4_OTHER_SIZE) &&
	       (!l->ending || nfs4_is_revoked(status));
}

void nfs4_lock_lose_owner(const struct nfs_server *s, struct nfs_open *o, uint64_t owner, const stateid4 *stateid,
			  nfsstat4 status)
{
	struct nfs4_lock *l;
	bool lost;

	pthread_mutex_lock(&o->in->mu);
	l = nfs4_lock_find_locked(o, owner);
	lost = l && (!stateid || held_is_without(l, stateid, status)) && nfs4_lock_lose_locked(o, l);
	pthread_mutex_unlock(&o->in->mu);
	nfs4_locks_say_lost(s->name, lost, status);
}
