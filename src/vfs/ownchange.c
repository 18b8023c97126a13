/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See ownchange.h. */
#include <stdlib.h>
#include <string.h>
#include "vfs/inode_impl.h"
#include "vfs/vfs.h"

#define GONE_NAMES 16u                  /* in each shard */
#define GONE_NAME  80u                  /* with NUL; longer names are not remembered */

struct after {
	uint64_t since_ns;              /* attr are no older than this */
	struct nfs_attr attr;
};

/* A name that does not exist. A shard's first one allocates an array of GONE_NAMES. */
struct gone {
	uint64_t parent_id;             /* 0: this element is free */
	uint64_t until_ns;
	char text[GONE_NAME];
};

/* ---- attributes ---- */

static bool ownchange_counts(const struct inode *ino)
{
	return atomic_load_explicit(&ino->after_counts, memory_order_relaxed);
}

static void ownchange_drop(struct inode *ino)
{
	atomic_store_explicit(&ino->after_counts, false, memory_order_relaxed);
}

uint64_t ownchange_change_begins(struct inode_table *t, struct inode *ino)
{
	uint64_t nr;

	inode_lock(t, ino);
	nr = ++ino->changes + 1;
	if (ino->changing++)
		nr = 0;
	ownchange_drop(ino);
	inode_unlock(t, ino);
	return nr;
}

/* Without memory nothing is kept, and the server will be asked. */
static void ownchange_keep(struct inode *ino, const struct nfs_attr *attr, uint64_t since_ns)
{
	if (!ino->after)
		ino->after = malloc(sizeof(*ino->after));
	if (!ino->after)
		return;
	*ino->after = (struct after){ since_ns, *attr };
	atomic_store_explicit(&ino->after_counts, true, memory_order_relaxed);
}

/* false: nobody knows the owner. */
static bool has_owner(const struct inode *ino, struct nfs_attr *attr, bool no_owner)
{
	if (!no_owner)
		return true;
	attr->uid = ino->uid;
	attr->gid = ino->gid;
	return ino->seen && attr->change == ino->seen_change;
}

void ownchange_change_ends_locked(struct inode_table *t, struct inode *ino, uint64_t nr,
				  const struct ownchange_after *after)
{
	const struct nfs_dir_change *c = after->change;
	struct nfs_attr attr;

	ino->changing--;
	ino->unpromised = ino->unpromised || after->unanswered;
	if (t->solo && S_ISDIR(ino->type))
		solo_dir_changed(&t->solo_dirs, ino->id, c, after->since_ns);
	if (c && c->known && ino->seen && c->before == ino->seen_change)
		ino->seen_change = c->after;
	if (c && c->known && !S_ISDIR(ino->type))
		t->front->marked_locked(ino, c->before, c->after);
	if (!nr || nr != ino->changes + 1 || !after->attr)
		return;
	t->front->changed_locked(ino, after->attr);
	attr = *after->attr;
	if (has_owner(ino, &attr, after->no_owner))
		ownchange_keep(ino, &attr, after->since_ns);
}

void ownchange_change_ends(struct inode_table *t, struct inode *ino, uint64_t nr,
		       const struct ownchange_after *after)
{
	inode_lock(t, ino);
	ownchange_change_ends_locked(t, ino, nr, after);
	inode_unlock(t, ino);
}

void ownchange_changed(struct inode_table *t, uint64_t parent, const char *name, bool unanswered)
{
	struct inode *ino = inode_find(t, parent, name);

	if (!ino)
		return;
	ownchange_change_ends(t, ino, ownchange_change_begins(t, ino),
			      &(struct ownchange_after){ .unanswered = unanswered });
	t->front->attr_spoilt(ino);
	inode_put(t, ino, 1);
}

uint64_t ownchange_changes(struct inode_table *t, struct inode *ino)
{
	uint64_t nr;

	inode_lock(t, ino);
	nr = ino->changing ? 0 : ino->changes + 1;
	inode_unlock(t, ino);
	return nr;
}

bool ownchange_attr(struct inode_table *t, struct inode *ino, struct nfs_attr *attr, double *timeo)
{
	bool dir = S_ISDIR(ino->type), known = false;

	/* Mostly there are none. A thread that has just missed them asks the server. */
	if (!ownchange_counts(ino))
		return false;
	inode_lock(t, ino);
	if (ownchange_counts(ino)) {
		/* The shortest time, because the inode has just changed. */
		*timeo = (dir ? t->acdirmin : t->acregmin) -
			 (double)(mono_ns() - ino->after->since_ns) / 1e9;
		*attr = ino->after->attr;
		known = *timeo > 0;
		ownchange_drop(ino);
	}
	inode_unlock(t, ino);
	return known;
}

void ownchange_seen_locked(struct inode *ino, const struct nfs_attr *attr)
{
	ino->seen = true;
	ino->seen_change = attr->change;
	ino->uid = attr->uid;
	ino->gid = attr->gid;
}

bool ownchange_check_locked(struct inode *ino, const struct nfs_attr *attr)
{
	const struct after *a = ino->after;

	if (!ownchange_counts(ino))
		return false;
	if (a->attr.change == attr->change && a->attr.size == attr->size &&
	    a->attr.mtime.tv_sec == attr->mtime.tv_sec &&
	    a->attr.mtime.tv_nsec == attr->mtime.tv_nsec)
		return true;
	ownchange_drop(ino);
	return false;
}

/* Counting another change keeps the attributes that a call under way brings from being
 * kept. */
void ownchange_newer_locked(struct inode *ino)
{
	if (ino->changing)
		ino->changes++;
}

/* What the kernel is told now may be older than what a call under way will bring. */
void ownchange_told_locked(struct inode *ino)
{
	ownchange_newer_locked(ino);
	ownchange_drop(ino);
}

/* ---- names that do not exist ---- */

static struct gone *ownchange_find(struct name_shard *s, uint64_t parent, const char *name)
{
	for (unsigned i = 0; s->gone && i < GONE_NAMES; i++)
		if (s->gone[i].parent_id == parent && strcmp(s->gone[i].text, name) == 0)
			return &s->gone[i];
	return NULL;
}

/* A free element, or the one that expires first. NULL: no memory, so the server is asked. */
static struct gone *ownchange_oldest(struct name_shard *s)
{
	struct gone *g;

	if (!s->gone)
		s->gone = calloc(GONE_NAMES, sizeof(*s->gone));
	g = s->gone;
	for (unsigned i = 1; g && i < GONE_NAMES; i++)
		if (s->gone[i].until_ns < g->until_ns)
			g = &s->gone[i];
	return g;
}

static void ownchange_remember(struct name_shard *s, uint64_t parent, const char *name,
			       uint64_t until_ns)
{
	struct gone *g;

	pthread_mutex_lock(&s->mu);
	g = ownchange_find(s, parent, name);
	if (!g)
		g = ownchange_oldest(s);
	if (g) {
		g->parent_id = parent;
		g->until_ns = until_ns;
		strcpy(g->text, name);
	}
	pthread_mutex_unlock(&s->mu);
}

void ownchange_gone(struct inode_table *t, struct inode *dir, uint64_t nr, const char *name,
		uint64_t until_ns)
{
	if (strlen(name) >= GONE_NAME || until_ns <= mono_ns())
		return;
	inode_lock(t, dir);
	if (nr && !dir->changing && nr == dir->changes + 1)
		ownchange_remember(names_shard_of(t, dir->id, name), dir->id, name, until_ns);
	inode_unlock(t, dir);
}

void ownchange_here_locked(struct name_shard *s, uint64_t parent, const char *name)
{
	struct gone *g = ownchange_find(s, parent, name);

	if (g)
		*g = (struct gone){ 0 };
}

void ownchange_here(struct inode_table *t, uint64_t parent, const char *name)
{
	struct name_shard *s = names_shard_of(t, parent, name);

	if (t->solo)
		solo_dir_adds(&t->solo_dirs, parent, name);
	pthread_mutex_lock(&s->mu);
	ownchange_here_locked(s, parent, name);
	pthread_mutex_unlock(&s->mu);
}

double ownchange_is_gone(struct inode_table *t, uint64_t parent, const char *name)
{
	struct name_shard *s = names_shard_of(t, parent, name);
	uint64_t now, until;
	struct gone *g;

	pthread_mutex_lock(&s->mu);
	g = ownchange_find(s, parent, name);
	until = g ? g->until_ns : 0;
	pthread_mutex_unlock(&s->mu);
	if (!until)
		return 0;
	now = mono_ns();
	return until > now ? (double)(until - now) / 1e9 : 0;
}
