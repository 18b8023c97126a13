/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See opens.h. */
#include <stdlib.h>
#include <string.h>
#include "fs/inode_impl.h"
#include "fs/opens.h"
#include "fs/solo.h"

/* In a note. No id has it, because no handle has so great an index. */
#define UNNAMED (1ull << 31)
#define NEWEST  (1ull << 30)
/* So long a thread without a number may take to come back: for a LOOKUP and an OPEN. */
#define UNSEEN_NS 10000000000ull
_Static_assert(HANDLE_CHUNK * HANDLE_CHUNKS < NEWEST, "indices of handles");

static _Atomic uint64_t *note_of(struct inode_table *t, pid_t pid)
{
	return &t->back[(unsigned)pid % SENT_BACK];
}

/* ---- threads without a number ---- */

static struct unseen_note *unseen_of(struct unseen *u, uint64_t id)
{
	return &u->note[(id ^ id >> 30) % UNSEEN];
}

static void unseen_add(struct unseen *u, uint64_t id)
{
	struct unseen_note *n = unseen_of(u, id);
	uint64_t now = mono_ns();

	pthread_mutex_lock(&u->mu);
	if (n->id != id || now >= n->until_ns)
		n->count = 0;
	n->id = id;
	n->count++;
	n->until_ns = now + UNSEEN_NS;
	atomic_store(&u->until_ns, n->until_ns);
	pthread_mutex_unlock(&u->mu);
}

static bool unseen_take(struct unseen *u, uint64_t id)
{
	struct unseen_note *n = unseen_of(u, id);
	uint64_t until = atomic_load(&u->until_ns), now = until ? mono_ns() : 0;
	bool there;

	if (now >= until)               /* mostly nobody was sent back */
		return false;
	pthread_mutex_lock(&u->mu);
	there = n->id == id && n->count && now < n->until_ns;
	n->count -= there;
	pthread_mutex_unlock(&u->mu);
	return there;
}

static enum came_back unseen_came_back(struct unseen *u, uint64_t id, bool truncates)
{
	if (unseen_take(u, id) || (truncates && unseen_take(u, id | UNNAMED)))
		return BY_HANDLE;
	return truncates && unseen_take(u, id | NEWEST) ? BY_NEWEST : NOT_BACK;
}

/* ---- sent back ---- */

void inode_sends_back(struct inode_table *t, const struct inode *ino, pid_t pid)
{
	if (pid)
		atomic_store(note_of(t, pid), ino->id);
	else
		unseen_add(&t->unseen, ino->id);
}

void inode_opened_unnamed(struct inode_table *t, const struct inode *ino, pid_t pid, bool newest)
{
	uint64_t note = ino->id | (newest ? NEWEST : UNNAMED);

	if (pid)
		atomic_store(note_of(t, pid), note);
	else
		unseen_add(&t->unseen, note);
}

void inode_looked_up(struct inode_table *t, const struct inode *ino, pid_t pid)
{
	uint64_t note = pid ? atomic_load(note_of(t, pid)) : 0;

	if (note)
		atomic_store(note_of(t, pid), ino && !(note & (UNNAMED | NEWEST)) ? ino->id : 0);
}

enum came_back inode_came_back(struct inode_table *t, const struct inode *ino, pid_t pid, bool truncates)
{
	_Atomic uint64_t *at = note_of(t, pid);
	uint64_t note;

	if (!pid)
		return unseen_came_back(&t->unseen, ino->id, truncates);
	note = atomic_load(at) ? atomic_exchange(at, 0) : 0;
	if (note == ino->id || (truncates && note == (ino->id | UNNAMED)))
		return BY_HANDLE;
	return truncates && note == (ino->id | NEWEST) ? BY_NEWEST : NOT_BACK;
}

bool inode_open(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		uint64_t asked)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	bool keep;

	pthread_mutex_lock(&s->mu);
	if (S_ISREG(ino->type))
		young_begin_locked(ino);
	if (asked && young_takes_locked(ino, asked))
		young_keep_locked(t, ino, attr, asked, UINT64_MAX);
	else if (asked)
		young_drop_locked(ino);
	told_note_locked(t, ino, attr);
	known_newer_locked(ino);
	/* What was asked for before now may be older than attr. */
	atomic_store(&ino->fresh_ns, mono_ns());
	keep = ino->solo ? solo_keeps_locked(ino) :
	       ino->cache_valid && ino->cache_change == attr->change;
	/* If this is the only open, and the kernel does not keep its pages, there are no pages
	 * until the next read or write. */
	if (atomic_fetch_add(&ino->nfiles, 1) == 0 && !keep)
		atomic_store(&ino->paged, false);
	atomic_fetch_add(&ino->nopen, 1);
	pthread_mutex_unlock(&s->mu);
	return keep;
}

void inode_dropped(struct inode_table *t, struct inode *ino, uint64_t change)
{
	struct inode_shard *s = inode_shard_of(t, ino);

	pthread_mutex_lock(&s->mu);
	ino->cache_valid = true;
	ino->cache_change = change;
	pthread_mutex_unlock(&s->mu);
}

bool inode_opening(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	bool may;

	pthread_mutex_lock(&s->mu);
	may = !ino->pins;
	atomic_fetch_add(&ino->nopen, may);
	pthread_mutex_unlock(&s->mu);
	return may;
}

/* With the shard's lock held: silly is going to be removed, and ino is not open. */
static void pin_by(struct silly *silly, struct inode *ino)
{
	inode_ref(ino);
	silly->pinned = ino;
	ino->pins++;
}

struct silly *inode_close(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	struct silly *silly = NULL;

	pthread_mutex_lock(&s->mu);
	if (atomic_fetch_sub(&ino->nopen, 1) == 1) {
		silly = ino->silly;
		ino->silly = NULL;
		if (silly) {
			silly_leaves(silly);
			pin_by(silly, ino);
		}
	}
	pthread_mutex_unlock(&s->mu);
	return silly;
}

bool inode_pin(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	bool may;

	pthread_mutex_lock(&s->mu);
	may = !atomic_load(&ino->nopen) || ino->silly;
	ino->pins += may;
	pthread_mutex_unlock(&s->mu);
	return may;
}

void inode_unpin(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = inode_shard_of(t, ino);

	pthread_mutex_lock(&s->mu);
	ino->pins--;
	pthread_mutex_unlock(&s->mu);
}

/* ---- silly names ---- */

bool inode_set_silly(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name,
		     struct silly *silly)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	bool take;

	pthread_mutex_lock(&s->mu);
	take = atomic_load(&ino->nopen) > 0 && !ino->silly;
	if (name)
		names_remove_locked(t, ino, parent, name);
	if (take) {
		ino->silly = silly;
		names_add_locked(t, ino, parent, silly->name, strlen(silly->name), mono_ns());
	} else if (!atomic_load(&ino->nopen)) {
		pin_by(silly, ino);
	}
	pthread_mutex_unlock(&s->mu);
	return take;
}

bool inode_silly_is(struct inode_table *t, struct inode *ino, const char *name)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	bool is;

	pthread_mutex_lock(&s->mu);
	is = ino->silly && strcmp(ino->silly->name, name) == 0;
	pthread_mutex_unlock(&s->mu);
	return is;
}

static struct silly *take_silly_of(struct inode_shard *s)
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

struct silly *inode_take_silly(struct inode_table *t)
{
	struct silly *silly = NULL;

	for (unsigned i = 0; i < INODE_SHARDS && !silly; i++) {
		pthread_mutex_lock(&t->shard[i].mu);
		silly = take_silly_of(&t->shard[i]);
		pthread_mutex_unlock(&t->shard[i].mu);
	}
	return silly;
}

void silly_leaves(struct silly *s)
{
	if (!s->leaving && s->dir)
		atomic_fetch_add(&s->dir->nleaving, 1);
	s->leaving = true;
}

void silly_free(struct inode_table *t, struct silly *s)
{
	if (s && s->pinned) {
		inode_unpin(t, s->pinned);
		inode_put(t, s->pinned, 1);
	}
	if (s && s->dir) {
		atomic_fetch_sub(&s->dir->nleaving, s->leaving);
		atomic_fetch_sub(&s->dir->nsilly, 1);
		atomic_fetch_add(&s->dir->silly_gone, 1);       /* last: see fs_silly_note() */
		inode_put(t, s->dir, 1);
	}
	free(s);
}
