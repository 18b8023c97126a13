/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the lock-owners of an open hold: see nfs4_lock.c. All with o->in->mu. */
#include <stdlib.h>
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

void nfs4_lock_say_lost(const char *server, nfsstat4 status)
{
	log_err("a lock of an open file on %s was lost with the server's state (status %d): reads and "
		"writes by that open file fail until it is unlocked or closed", server, status);
}
