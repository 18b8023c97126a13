/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See names.h. */
#include <stdlib.h>
#include <string.h>
#include "vfs/inode_impl.h"

/* The most names of one inode. Names that other clients have removed stay until there are
 * too many: they do no harm, because nobody asks for them. Most files with more names have
 * far more. */
#define NAMES_MAX 16u

static uint32_t name_hash(uint64_t parent, const char *name, size_t len)
{
	return (uint32_t)hash_bytes(name, len, parent);
}

/* The first entry from h on, in its chain, with that name. */
static struct name *names_from(struct hash_node *h, uint32_t hash, uint64_t parent, const char *text)
{
	for (; h; h = h->next) {
		struct name *n = container_of(h, struct name, by_name);

		if (h->hash == hash && n->parent_id == parent && strcmp(n->text, text) == 0)
			return n;
	}
	return NULL;
}

/* The next one with the same name. */
static struct name *names_behind(const struct name *n)
{
	return names_from(n->by_name.next, n->by_name.hash, n->parent_id, n->text);
}

static struct name_shard *shard_at(struct inode_table *t, uint32_t hash)
{
	return &t->names[hash % NAME_SHARDS];
}

static struct hash_node **chain_of(struct name_shard *s, uint32_t hash)
{
	return hash_chain(s->by_name, hash / NAME_SHARDS);
}

struct name_shard *names_shard_of(struct inode_table *t, uint64_t parent, const char *name)
{
	return shard_at(t, name_hash(parent, name, strlen(name)));
}

void names_init(struct inode_table *t)
{
	for (unsigned i = 0; i < NAME_SHARDS; i++) {
		struct name_shard *s = &t->names[i];

		*s = (struct name_shard){ 0 };
		pthread_mutex_init(&s->mu, NULL);
	}
}

void names_fini(struct inode_table *t)
{
	for (unsigned i = 0; i < NAME_SHARDS; i++) {
		free(t->names[i].gone);
		pthread_mutex_destroy(&t->names[i].mu);
	}
}

/* ---- an inode's names ---- */

static void names_free(struct inode_table *t, struct name **p)
{
	struct name *n = *p;
	struct name_shard *s = shard_at(t, n->by_name.hash);

	pthread_mutex_lock(&s->mu);
	if (n->by_name.at)
		hash_del(&n->by_name);
	pthread_mutex_unlock(&s->mu);
	*p = n->next;
	free(n);
}

void names_drop(struct inode_table *t, struct inode *ino)
{
	while (ino->names)
		names_free(t, &ino->names);
	if (ino->names_missing)
		atomic_fetch_sub(&t->names_missing, 1);
	ino->names_missing = false;
}

/* The link of ino's list that points to that name; or the last link. */
static struct name **place_of(struct inode *ino, uint64_t parent, const char *text, size_t len)
{
	struct name **p = &ino->names;

	while (*p && ((*p)->parent_id != parent || strncmp((*p)->text, text, len) != 0 ||
		      (*p)->text[len]))
		p = &(*p)->next;
	return p;
}

void names_remove_locked(struct inode_table *t, struct inode *ino, uint64_t parent,
			 const char *text)
{
	struct name **p = place_of(ino, parent, text, strlen(text));

	if (*p)
		names_free(t, p);
	ino->nameless = !ino->names && !ino->names_missing;
}

void names_hold_locked(struct inode *ino, uint64_t parent, const char *text, uint64_t delegation)
{
	struct name *n = *place_of(ino, parent, text, strlen(text));

	if (n)
		n->delegation = delegation;
}

bool names_are_held_locked(struct inode *ino, uint64_t parent, const char *text, uint64_t delegation)
{
	const struct name *n = *place_of(ino, parent, text, strlen(text));

	return n && n->delegation == delegation;
}

static struct name *names_make(struct inode *ino, uint64_t parent, const char *text, size_t len)
{
	struct name *n = malloc(sizeof(*n) + len + 1);

	if (!n)
		return NULL;
	n->ino = ino;
	n->delegation = 0;
	n->parent_id = parent;
	memcpy(n->text, text, len);
	n->text[len] = '\0';
	n->by_name.hash = name_hash(parent, text, len);
	n->by_name.at = NULL;
	return n;
}

static void note_missing(struct inode_table *t, struct inode *ino)
{
	if (!ino->names_missing)
		atomic_fetch_add(&t->names_missing, 1);
	ino->names_missing = true;
}

/* The entries of other inodes behind n: the name was theirs before. Without n they would be
 * found. They stay with their inodes. */
static void hide_older(struct inode_table *t, struct name *n)
{
	struct name_shard *s = shard_at(t, n->by_name.hash);
	struct name *o;

	pthread_mutex_lock(&s->mu);
	/* Where nobody finds n nobody finds what is behind it. */
	while (n->by_name.at && (o = names_behind(n)))
		hash_del(&o->by_name);
	pthread_mutex_unlock(&s->mu);
}

static void keep_newest(struct inode_table *t, struct inode *ino)
{
	struct name **p = &ino->names;

	for (unsigned i = 0; *p && i < NAMES_MAX; i++)
		p = &(*p)->next;
	if (!*p)
		return;
	note_missing(t, ino);
	hide_older(t, *p);
	names_free(t, p);
}

bool inode_names_missing(struct inode_table *t)
{
	return atomic_load(&t->names_missing) > 0;
}

/* Without memory the name is missing. */
void names_add_locked(struct inode_table *t, struct inode *ino, uint64_t parent,
		      const char *text, size_t len, uint64_t now)
{
	struct name **p = place_of(ino, parent, text, len), *n = *p;
	struct name_shard *s;

	ino->nameless = false;
	if (n)
		*p = n->next;
	else
		n = names_make(ino, parent, text, len);
	if (!n) {
		note_missing(t, ino);
		return;
	}
	if (t->solo)
		solo_dir_adds(&t->solo_dirs, parent, n->text);
	n->seen_ns = now;
	n->next = ino->names;
	ino->names = n;
	s = shard_at(t, n->by_name.hash);
	pthread_mutex_lock(&s->mu);
	if (n->by_name.at)
		hash_del(&n->by_name);
	hash_add(chain_of(s, n->by_name.hash), &n->by_name, n->by_name.hash);
	ownchange_here_locked(s, parent, n->text);
	pthread_mutex_unlock(&s->mu);
	keep_newest(t, ino);
}

/* ---- by name ---- */

struct inode *inode_find(struct inode_table *t, uint64_t parent, const char *name)
{
	uint32_t hash = name_hash(parent, name, strlen(name));
	struct name_shard *s = shard_at(t, hash);
	struct inode *found;
	struct name *n;

	pthread_mutex_lock(&s->mu);
	n = names_from(*chain_of(s, hash), hash, parent, name);
	while (n && !inode_ref_live(n->ino))
		n = names_behind(n);
	found = n ? n->ino : NULL;
	pthread_mutex_unlock(&s->mu);
	return found;
}

/* Is ino the newest inode with that name? The kernel knows no other one by it. */
static bool is_newest(struct inode_table *t, const struct name *n)
{
	uint32_t hash = n->by_name.hash;
	struct name_shard *s = shard_at(t, hash);
	bool is;

	pthread_mutex_lock(&s->mu);
	is = names_from(*chain_of(s, hash), hash, n->parent_id, n->text) == n;
	pthread_mutex_unlock(&s->mu);
	return is;
}

void inode_names(struct inode_table *t, struct inode *ino, struct names_of *out)
{
	struct name *n;

	out->n = 0;
	inode_lock(t, ino);
	for (n = ino->names; n && out->n < NFS_WHERE_MAX; n = n->next) {
		if (n != ino->names && (mono_ns() - n->seen_ns > t->acdirmax * 1000000000ull ||
					!is_newest(t, n)))
			continue;
		out->dir[out->n] = inode_by_id(t, n->parent_id);
		if (out->dir[out->n])
			strcpy(out->name[out->n++], n->text);
	}
	inode_unlock(t, ino);
}

void inode_named(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name)
{
	inode_lock(t, ino);
	names_add_locked(t, ino, parent, name, strlen(name), mono_ns());
	inode_unlock(t, ino);
}

/* Removes the name. Returns the inode that had it, with a reference; or NULL. */
static struct inode *names_unname(struct inode_table *t, uint64_t parent, const char *name)
{
	struct inode *ino = inode_find(t, parent, name);

	if (!ino)
		return NULL;
	inode_lock(t, ino);
	names_remove_locked(t, ino, parent, name);
	inode_unlock(t, ino);
	return ino;
}

void inode_unnamed(struct inode_table *t, uint64_t parent, const char *name)
{
	struct inode *ino = names_unname(t, parent, name);

	if (ino)
		inode_put(t, ino, 1);
}

void inode_renamed(struct inode_table *t, uint64_t from, const char *name, uint64_t to,
		   const char *newname)
{
	struct inode *moved = names_unname(t, from, name);

	inode_unnamed(t, to, newname);
	if (!moved)
		return;
	inode_named(t, moved, to, newname);
	inode_put(t, moved, 1);
}
