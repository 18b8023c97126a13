/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See opencount.h. */
#include <stdlib.h>
#include <string.h>
#include "vfs/inode_impl.h"
#include "vfs/ownchange.h"
#include "vfs/opencount.h"

bool opencount_open_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	inode_note_locked(t, ino, attr);
	ownchange_newer_locked(ino);
	atomic_fetch_add(&ino->nopen, 1);
	return atomic_fetch_add(&ino->nfiles, 1) == 0;
}

bool opencount_opening(struct inode_table *t, struct inode *ino)
{
	bool may;

	inode_lock(t, ino);
	may = !ino->pins;
	atomic_fetch_add(&ino->nopen, may);
	inode_unlock(t, ino);
	return may;
}

/* With the shard's lock held: silly is going to be removed, and ino is not open. */
static void pin_by(struct silly *silly, struct inode *ino)
{
	inode_ref(ino);
	silly->pinned = ino;
	ino->pins++;
}

struct silly *opencount_close(struct inode_table *t, struct inode *ino)
{
	struct silly *silly = NULL;

	inode_lock(t, ino);
	if (atomic_fetch_sub(&ino->nopen, 1) == 1) {
		silly = ino->silly;
		ino->silly = NULL;
		if (silly) {
			/* Or the next open would ask the server for it. */
			names_remove_locked(t, ino, silly->dir->id, silly->name);
			opencount_silly_leaves(silly);
			pin_by(silly, ino);
		}
	}
	inode_unlock(t, ino);
	return silly;
}

/* For a LOOKUP and an OPEN. */
#define STAYS_NS 10000000000ull

bool opencount_may_leave_locked(const struct inode *ino)
{
	return atomic_load(&ino->nopen) == 1 && !ino->pins && !ino->silly && !ino->changing &&
	       !atomic_load(&ino->held);
}

void opencount_leave(struct inode_table *t, struct inode *ino)
{
	uint64_t now = mono_ns();

	inode_lock(t, ino);
	if (opencount_may_leave_locked(ino) && now >= ino->stays_ns)
		inode_leave_locked(t, ino);
	else
		ino->stays_ns = now + STAYS_NS;
	inode_unlock(t, ino);
}

bool opencount_pin(struct inode_table *t, struct inode *ino)
{
	bool may;

	inode_lock(t, ino);
	may = !atomic_load(&ino->nopen) || ino->silly;
	ino->pins += may;
	inode_unlock(t, ino);
	return may;
}

void opencount_unpin(struct inode_table *t, struct inode *ino)
{
	inode_lock(t, ino);
	ino->pins--;
	inode_unlock(t, ino);
}

/* ---- silly names ---- */

bool opencount_set_silly(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name,
		     struct silly *silly)
{
	bool take;

	inode_lock(t, ino);
	take = atomic_load(&ino->nopen) > 0 && !ino->silly;
	if (name)
		names_remove_locked(t, ino, parent, name);
	if (take) {
		ino->silly = silly;
		names_add_locked(t, ino, parent, silly->name, strlen(silly->name), mono_ns());
	} else if (!atomic_load(&ino->nopen)) {
		pin_by(silly, ino);
	}
	inode_unlock(t, ino);
	return take;
}

bool opencount_silly_is(struct inode_table *t, struct inode *ino, const char *name)
{
	bool is;

	inode_lock(t, ino);
	is = ino->silly && strcmp(ino->silly->name, name) == 0;
	inode_unlock(t, ino);
	return is;
}

static struct silly *take_silly_locked(struct inode_shard *s)
{
	struct silly *silly;

	for (unsigned b = 0; b < INODE_BUCKETS; b++) {
		for (struct hash_node *n = s->by_fh[b]; n; n = n->next) {
			struct inode *ino = container_of(n, struct inode, by_fh);

			silly = ino->silly;
			ino->silly = NULL;
			if (silly)
				return silly;
		}
	}
	return NULL;
}

struct silly *opencount_take_silly(struct inode_table *t)
{
	struct silly *silly = NULL;

	for (unsigned i = 0; i < INODE_SHARDS && !silly; i++) {
		pthread_mutex_lock(&t->shard[i].mu);
		silly = take_silly_locked(&t->shard[i]);
		pthread_mutex_unlock(&t->shard[i].mu);
	}
	return silly;
}

void opencount_silly_leaves(struct silly *s)
{
	if (!s->leaving)
		atomic_fetch_add(&s->dir->nleaving, 1);
	s->leaving = true;
}

void opencount_silly_free(struct inode_table *t, struct silly *s)
{
	if (!s)
		return;
	if (s->pinned) {
		opencount_unpin(t, s->pinned);
		inode_put(t, s->pinned, 1);
	}
	atomic_fetch_sub(&s->dir->nleaving, s->leaving);
	atomic_fetch_sub(&s->dir->nsilly, 1);
	atomic_fetch_add(&s->dir->silly_gone, 1);       /* last: see silly_note() */
	inode_put(t, s->dir, 1);
	free(s);
}
