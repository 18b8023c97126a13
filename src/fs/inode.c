/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See inode.h for the picture. References are atomic so that most of them cost
 * no lock; only the step to zero is made under the shard's lock, where nobody
 * can find the inode at the same time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "fs/inode.h"

static uint32_t fnv(const void *p, size_t len, uint32_t h)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		h = (h ^ b[i]) * 16777619u;
	return h ^ h >> 15;
}

static uint32_t fh_hash(const struct nfs_fh *fh)
{
	return fnv(fh->data, fh->len, 2166136261u);
}

static struct inode_shard *shard_of(struct inode_table *t, uint32_t hash)
{
	return &t->shard[hash % INODE_SHARDS];
}

static struct inode **bucket_of(struct inode_shard *s, uint32_t hash)
{
	return &s->bucket[hash / INODE_SHARDS % INODE_BUCKETS];
}

static struct name_shard *names_of(struct inode_table *t, uint64_t parent, const char *name)
{
	return &t->names[fnv(name, strlen(name), (uint32_t)parent * 2654435761u) % INODE_SHARDS];
}

int inode_table_init(struct inode_table *t)
{
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		pthread_mutex_init(&t->shard[i].mu, NULL);
		pthread_mutex_init(&t->names[i].mu, NULL);
		list_init(&t->names[i].open);
		memset(t->shard[i].bucket, 0, sizeof(t->shard[i].bucket));
	}
	atomic_init(&t->next_id, 1);
	atomic_init(&t->count, 0);
	return 0;
}

static void inode_destroy(struct inode *ino)
{
	free(ino->name);
	free(ino->key_name);
	free(ino->silly);
	free(ino);
}

void inode_table_fini(struct inode_table *t)
{
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		for (unsigned b = 0; b < INODE_BUCKETS; b++) {
			struct inode *ino = t->shard[i].bucket[b], *next;

			for (; ino; ino = next) {
				next = ino->hash_next;
				inode_destroy(ino);
			}
		}
		pthread_mutex_destroy(&t->shard[i].mu);
		pthread_mutex_destroy(&t->names[i].mu);
	}
}

/* ---- names of open inodes ---- */

static void names_remove(struct inode_table *t, struct inode *ino)
{
	struct name_shard *n;

	if (!ino->key_name)
		return;
	n = names_of(t, ino->key_parent, ino->key_name);
	pthread_mutex_lock(&n->mu);
	list_del(&ino->by_name);
	pthread_mutex_unlock(&n->mu);
	free(ino->key_name);
	ino->key_name = NULL;
}

/* Without memory for the key the file is not found by silly rename: a removal
 * then removes it, as if another client had done it. */
static void names_insert(struct inode_table *t, struct inode *ino)
{
	struct name_shard *n;

	if (!ino->name)
		return;
	ino->key_name = strdup(ino->name);
	if (!ino->key_name)
		return;
	ino->key_parent = ino->parent_id;
	n = names_of(t, ino->key_parent, ino->key_name);
	pthread_mutex_lock(&n->mu);
	list_add_head(&n->open, &ino->by_name);
	pthread_mutex_unlock(&n->mu);
}

/* Shard held. */
static void set_name(struct inode_table *t, struct inode *ino, uint64_t parent,
		     const char *name, size_t len)
{
	char *copy;

	if (ino->name && ino->parent_id == parent && strlen(ino->name) == len &&
	    memcmp(ino->name, name, len) == 0)
		return;
	copy = strndup(name, len);
	if (!copy)
		return;
	if (ino->nopen)
		names_remove(t, ino);
	free(ino->name);
	ino->name = copy;
	ino->parent_id = parent;
	if (ino->nopen)
		names_insert(t, ino);
}

struct inode *inode_find_open(struct inode_table *t, uint64_t parent, const char *name)
{
	struct name_shard *n = names_of(t, parent, name);
	struct inode *found = NULL;

	pthread_mutex_lock(&n->mu);
	list_for_each(l, &n->open) {
		struct inode *ino = container_of(l, struct inode, by_name);

		if (ino->key_parent == parent && strcmp(ino->key_name, name) == 0) {
			/* Being listed it is open, so it has a reference. */
			inode_ref(ino);
			found = ino;
			break;
		}
	}
	pthread_mutex_unlock(&n->mu);
	return found;
}

/* ---- attributes ---- */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Shard held. nfs(5): from acregmin the time doubles each time that the file
 * is found unchanged when it has run out, up to acregmax. */
static double note_attr(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	bool dir = S_ISDIR(ino->type);
	double min = dir ? t->acdirmin : t->acregmin, max = dir ? t->acdirmax : t->acregmax;
	uint64_t now = mono_ns();

	if (ino->change != attr->change || !same_time(&ino->mtime, &attr->mtime) ||
	    ino->size != attr->size || !ino->timeo_ns) {
		ino->timeo = min;
		ino->timeo_ns = now;
	} else if ((double)(now - ino->timeo_ns) >= ino->timeo * 1e9) {
		ino->timeo = ino->timeo * 2 > max ? max : ino->timeo * 2;
		ino->timeo_ns = now;
	}
	ino->change = attr->change;
	ino->mtime = attr->mtime;
	ino->size = attr->size;
	return ino->timeo;
}

double inode_update(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	double timeo;

	pthread_mutex_lock(&s->mu);
	timeo = note_attr(t, ino, attr);
	pthread_mutex_unlock(&s->mu);
	return timeo;
}

double inode_timeo(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	double timeo;

	pthread_mutex_lock(&s->mu);
	timeo = ino->timeo_ns ? ino->timeo : S_ISDIR(ino->type) ? t->acdirmin : t->acregmin;
	pthread_mutex_unlock(&s->mu);
	return timeo;
}

/* ---- the table ---- */

static struct inode *find(struct inode_shard *s, uint32_t hash, const struct nfs_fh *fh)
{
	struct inode *ino = *bucket_of(s, hash);

	for (; ino; ino = ino->hash_next)
		if (ino->hash == hash && ino->fh.len == fh->len &&
		    memcmp(ino->fh.data, fh->data, fh->len) == 0)
			break;
	return ino;
}

static struct inode *insert(struct inode_table *t, struct inode_shard *s, uint32_t hash,
			    const struct nfs_fh *fh, const struct nfs_attr *attr)
{
	struct inode **b = bucket_of(s, hash), *ino = calloc(1, sizeof(*ino));

	if (!ino)
		return NULL;
	ino->hash = hash;
	ino->fh.len = fh->len;
	memcpy(ino->fh.data, fh->data, fh->len);
	ino->id = atomic_fetch_add(&t->next_id, 1);
	ino->type = attr->mode & S_IFMT;
	list_init(&ino->by_name);
	ino->hash_next = *b;
	*b = ino;
	atomic_fetch_add(&t->count, 1);
	return ino;
}

static void unhash(struct inode_table *t, struct inode_shard *s, struct inode *ino)
{
	struct inode **p = bucket_of(s, ino->hash);

	while (*p != ino)
		p = &(*p)->hash_next;
	*p = ino->hash_next;
	atomic_fetch_sub(&t->count, 1);
}

struct inode *inode_get(struct inode_table *t, const struct nfs_fh *fh,
			const struct nfs_attr *attr, uint64_t parent, const char *name,
			size_t namelen)
{
	uint32_t hash = fh_hash(fh);
	struct inode_shard *s = shard_of(t, hash);
	struct inode *ino;

	pthread_mutex_lock(&s->mu);
	ino = find(s, hash, fh);
	if (!ino)
		ino = insert(t, s, hash, fh, attr);
	if (ino) {
		inode_ref(ino);
		note_attr(t, ino, attr);
		/* The silly name is not one that it should be found under by
		 * accident; what it was called before is gone. */
		if (parent && !ino->silly)
			set_name(t, ino, parent, name, namelen);
	}
	pthread_mutex_unlock(&s->mu);
	return ino;
}

void inode_ref(struct inode *ino)
{
	atomic_fetch_add(&ino->refs, 1);
}

void inode_put(struct inode_table *t, struct inode *ino, uint64_t n)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	uint64_t have = atomic_load(&ino->refs);
	bool last;

	while (have > n)
		if (atomic_compare_exchange_weak(&ino->refs, &have, have - n))
			return;
	pthread_mutex_lock(&s->mu);
	last = atomic_fetch_sub(&ino->refs, n) == n;
	if (last)
		unhash(t, s, ino);
	pthread_mutex_unlock(&s->mu);
	if (last)
		inode_destroy(ino);
}

/* ---- open files ---- */

bool inode_open(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	bool keep;

	pthread_mutex_lock(&s->mu);
	note_attr(t, ino, attr);
	keep = ino->cache_valid && ino->cache_change == attr->change;
	ino->cache_valid = true;
	ino->cache_change = attr->change;
	if (ino->nopen++ == 0)
		names_insert(t, ino);
	pthread_mutex_unlock(&s->mu);
	return keep;
}

struct silly *inode_close(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	struct silly *silly = NULL;

	pthread_mutex_lock(&s->mu);
	if (--ino->nopen == 0) {
		names_remove(t, ino);
		silly = ino->silly;
		ino->silly = NULL;
	}
	pthread_mutex_unlock(&s->mu);
	return silly;
}

void inode_renamed(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name)
{
	struct inode_shard *s = shard_of(t, ino->hash);

	pthread_mutex_lock(&s->mu);
	set_name(t, ino, parent, name, strlen(name));
	pthread_mutex_unlock(&s->mu);
}

bool inode_set_silly(struct inode_table *t, struct inode *ino, uint64_t parent, struct silly *silly)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	bool open;

	pthread_mutex_lock(&s->mu);
	open = ino->nopen > 0;
	if (open) {
		ino->silly = silly;
		set_name(t, ino, parent, silly->name, strlen(silly->name));
	}
	pthread_mutex_unlock(&s->mu);
	return open;
}

struct silly *inode_clear_silly(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	struct silly *silly;

	pthread_mutex_lock(&s->mu);
	silly = ino->silly;
	ino->silly = NULL;
	pthread_mutex_unlock(&s->mu);
	return silly;
}

bool inode_is_silly(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	bool is;

	pthread_mutex_lock(&s->mu);
	is = ino->silly != NULL;
	pthread_mutex_unlock(&s->mu);
	return is;
}
