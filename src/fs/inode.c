/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See inode.h for the picture. References are atomic so that most of them cost
 * no lock; only the step to zero is made under the shard's lock, where nobody
 * can find the inode at the same time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "fs/known.h"

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

static uint32_t name_hash(uint64_t parent, const char *name)
{
	return fnv(name, strlen(name), (uint32_t)parent * 2654435761u);
}

static struct name_shard *names_of(struct inode_table *t, uint32_t hash)
{
	return &t->names[hash % INODE_SHARDS];
}

static struct list *names_bucket(struct name_shard *n, uint32_t hash)
{
	return &n->bucket[hash / INODE_SHARDS % NAME_BUCKETS];
}

struct name_shard *inode_names_of(struct inode_table *t, uint64_t parent, const char *name)
{
	return names_of(t, name_hash(parent, name));
}

int inode_table_init(struct inode_table *t)
{
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		pthread_mutex_init(&t->shard[i].mu, NULL);
		pthread_mutex_init(&t->names[i].mu, NULL);
		for (unsigned b = 0; b < NAME_BUCKETS; b++)
			list_init(&t->names[i].bucket[b]);
		t->names[i].gone = NULL;
		memset(t->shard[i].bucket, 0, sizeof(t->shard[i].bucket));
	}
	handles_init(&t->handles);
	atomic_init(&t->count, 0);
	return 0;
}

static void inode_destroy(struct inode *ino)
{
	for (struct name *n = ino->names, *next; n; n = next) {
		next = n->next;
		free(n);
	}
	free(ino->silly);
	free(ino->after);
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
		free(t->names[i].gone);
		pthread_mutex_destroy(&t->shard[i].mu);
		pthread_mutex_destroy(&t->names[i].mu);
	}
	handles_fini(&t->handles);
}

/* ---- names ---- */

/* Of one inode. Those that other clients have taken away stay until they are too
 * many: nobody asks for them. */
#define NAMES_MAX 16u

static void drop_name(struct inode_table *t, struct name **p)
{
	struct name *n = *p;
	struct name_shard *s = names_of(t, n->hash);

	pthread_mutex_lock(&s->mu);
	list_del(&n->by_name);
	pthread_mutex_unlock(&s->mu);
	*p = n->next;
	free(n);
}

/* Shard held: where it is in ino's list. */
static struct name **name_at(struct inode *ino, uint64_t parent, const char *text, size_t len)
{
	struct name **p = &ino->names;

	while (*p && ((*p)->parent_id != parent || strncmp((*p)->text, text, len) != 0 ||
		      (*p)->text[len]))
		p = &(*p)->next;
	return p;
}

static void remove_name(struct inode_table *t, struct inode *ino, uint64_t parent,
			const char *text)
{
	struct name **p = name_at(ino, parent, text, strlen(text));

	if (*p)
		drop_name(t, p);
}

static struct name *new_name(struct inode *ino, uint64_t parent, const char *text, size_t len)
{
	struct name *n = malloc(sizeof(*n) + len + 1);

	if (!n)
		return NULL;
	n->ino = ino;
	n->parent_id = parent;
	memcpy(n->text, text, len);
	n->text[len] = '\0';
	n->hash = name_hash(parent, n->text);
	list_init(&n->by_name);
	return n;
}

static void keep_newest(struct inode_table *t, struct inode *ino)
{
	struct name **p = &ino->names;

	for (unsigned i = 0; *p && i < NAMES_MAX; i++)
		p = &(*p)->next;
	if (*p)
		drop_name(t, p);
}

/* Shard held: its newest, and the name's. Without memory for it a removal removes
 * the file, as if another client had done it. */
static void add_name(struct inode_table *t, struct inode *ino, uint64_t parent,
		     const char *text, size_t len)
{
	struct name **p = name_at(ino, parent, text, len), *n = *p;
	struct name_shard *s;

	if (n)
		*p = n->next;
	else
		n = new_name(ino, parent, text, len);
	if (!n)
		return;
	n->next = ino->names;
	ino->names = n;
	s = names_of(t, n->hash);
	pthread_mutex_lock(&s->mu);
	list_del(&n->by_name);
	list_add_head(names_bucket(s, n->hash), &n->by_name);
	known_here_locked(s, parent, n->text);
	pthread_mutex_unlock(&s->mu);
	keep_newest(t, ino);
}

/* Names shard or handle held: an inode that is listed may be on its way out. */
static bool ref_live(void *obj)
{
	struct inode *ino = obj;
	uint64_t have = atomic_load(&ino->refs);

	while (have)
		if (atomic_compare_exchange_weak(&ino->refs, &have, have + 1))
			return true;
	return false;
}

struct inode *inode_find(struct inode_table *t, uint64_t parent, const char *name)
{
	uint32_t hash = name_hash(parent, name);
	struct name_shard *s = names_of(t, hash);
	struct inode *found = NULL;

	pthread_mutex_lock(&s->mu);
	list_for_each(l, names_bucket(s, hash)) {
		struct name *n = container_of(l, struct name, by_name);

		if (n->hash == hash && n->parent_id == parent && strcmp(n->text, name) == 0 &&
		    ref_live(n->ino)) {
			found = n->ino;
			break;
		}
	}
	pthread_mutex_unlock(&s->mu);
	return found;
}

void inode_named(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name)
{
	struct inode_shard *s = shard_of(t, ino->hash);

	pthread_mutex_lock(&s->mu);
	add_name(t, ino, parent, name, strlen(name));
	pthread_mutex_unlock(&s->mu);
}

/* Takes the name away, and returns whose it was, referenced. */
static struct inode *unname(struct inode_table *t, uint64_t parent, const char *name)
{
	struct inode *ino = inode_find(t, parent, name);
	struct inode_shard *s;

	if (!ino)
		return NULL;
	s = shard_of(t, ino->hash);
	pthread_mutex_lock(&s->mu);
	remove_name(t, ino, parent, name);
	pthread_mutex_unlock(&s->mu);
	return ino;
}

void inode_unnamed(struct inode_table *t, uint64_t parent, const char *name)
{
	struct inode *ino = unname(t, parent, name);

	if (ino)
		inode_put(t, ino, 1);
}

void inode_renamed(struct inode_table *t, uint64_t from, const char *name, uint64_t to,
		   const char *newname)
{
	struct inode *moved = unname(t, from, name);

	inode_unnamed(t, to, newname);
	if (!moved)
		return;
	inode_named(t, moved, to, newname);
	inode_put(t, moved, 1);
}

/* ---- attributes ---- */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool differs(const struct inode *ino, const struct nfs_attr *attr)
{
	return ino->change != attr->change || !same_time(&ino->mtime, &attr->mtime) ||
	       ino->size != attr->size;
}

/* Shard held. nfs(5): from acregmin the time doubles each time that the file
 * is found unchanged when it has run out, up to acregmax. */
static double note_attr(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	bool dir = S_ISDIR(ino->type);
	double min = dir ? t->acdirmin : t->acregmin, max = dir ? t->acdirmax : t->acregmax;
	uint64_t now = mono_ns();

	if (differs(ino, attr) || !ino->timeo_ns) {
		ino->timeo = min;
		ino->timeo_ns = now;
	} else if ((double)(now - ino->timeo_ns) >= ino->timeo * 1e9) {
		ino->timeo = ino->timeo * 2 > max ? max : ino->timeo * 2;
		ino->timeo_ns = now;
	}
	ino->change = attr->change;
	ino->mtime = attr->mtime;
	ino->size = attr->size;
	known_check_locked(ino, attr);
	return ino->timeo;
}

/* Shard held: what it will take for the size, and throw pages away by. */
static void tell_listed(struct inode *ino, const struct nfs_attr *attr)
{
	bool other = !same_time(&ino->told_mtime, &attr->mtime);

	atomic_store(&ino->told_size, attr->size);
	if (atomic_exchange(&ino->outdated, false) && !other)
		atomic_fetch_add(&ino->mtime_ahead, 1);
	else if (other)
		atomic_store(&ino->mtime_ahead, 0);
	ino->told_mtime = attr->mtime;
}

/* Shard held: the kernel is going to be told. */
static void tell(struct inode *ino, const struct nfs_attr *attr)
{
	tell_listed(ino, attr);
	known_told_locked(ino);
	atomic_store(&ino->fresh_ns, mono_ns());
}

double inode_update(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	double timeo;

	pthread_mutex_lock(&s->mu);
	timeo = note_attr(t, ino, attr);
	tell(ino, attr);
	pthread_mutex_unlock(&s->mu);
	return timeo;
}

void inode_mtime_set(struct inode *ino)
{
	atomic_store(&ino->mtime_ahead, 0);
}

void inode_paged(struct inode *ino)
{
	if (!atomic_load(&ino->paged))
		atomic_store(&ino->paged, true);
}

bool inode_written_past(struct inode *ino)
{
	if (!atomic_load(&ino->paged))
		return false;
	atomic_store(&ino->outdated, true);
	return true;
}

void inode_wrote(struct inode *ino, uint64_t end)
{
	uint64_t was = atomic_load(&ino->told_size);

	while (was < end && !atomic_compare_exchange_weak(&ino->told_size, &was, end))
		;
	atomic_store(&ino->fresh_ns, mono_ns());
}

bool inode_differs(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	bool other;

	pthread_mutex_lock(&s->mu);
	/* What follows this mount's own change the kernel has not been told, and knows
	 * that it has to ask. */
	other = !known_check_locked(ino, attr) && differs(ino, attr);
	pthread_mutex_unlock(&s->mu);
	return other;
}

bool inode_send_back(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		     bool append, pid_t pid, uint64_t since)
{
	struct sent_back *s = &t->back[(unsigned)pid % SENT_BACK];
	uint64_t fresh = atomic_load(&ino->fresh_ns);
	bool before = atomic_load(&s->id) == ino->id;

	if (atomic_load(&ino->told_size) == attr->size || atomic_load(&ino->writing) ||
	    fresh >= since || (before && (!append || atomic_load(&s->fresh_ns) != fresh))) {
		if (before)
			atomic_store(&s->id, 0);
		return false;
	}
	atomic_store(&s->id, ino->id);
	atomic_store(&s->fresh_ns, fresh);
	return true;
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
	ino->id = handle_new(&t->handles, ino);
	if (!ino->id) {
		free(ino);
		return NULL;
	}
	ino->type = attr->mode & S_IFMT;
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

/* Shard held: one more reference, and what is known now. */
static void take(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		 uint64_t parent, const char *name, size_t namelen)
{
	inode_ref(ino);
	note_attr(t, ino, attr);
	if (parent)
		add_name(t, ino, parent, name, namelen);
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
		take(t, ino, attr, parent, name, namelen);
		tell(ino, attr);
	}
	pthread_mutex_unlock(&s->mu);
	return ino;
}

struct inode *inode_get_listed(struct inode_table *t, const struct nfs_fh *fh,
			       const struct nfs_attr *attr, uint64_t parent, const char *name,
			       size_t namelen, uint64_t since)
{
	uint32_t hash = fh_hash(fh);
	struct inode_shard *s = shard_of(t, hash);
	struct inode *ino;

	pthread_mutex_lock(&s->mu);
	ino = find(s, hash, fh);
	if (!ino)
		ino = insert(t, s, hash, fh, attr);
	else if (atomic_load(&ino->fresh_ns) >= since)
		ino = NULL;
	if (ino) {
		take(t, ino, attr, parent, name, namelen);
		/* No newer than `since`: nothing else is outdated by it. */
		tell_listed(ino, attr);
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
	if (last) {
		handle_del(&t->handles, ino->id);
		while (ino->names)
			drop_name(t, &ino->names);
		inode_destroy(ino);
	}
}

struct inode *inode_by_id(struct inode_table *t, uint64_t id)
{
	return handle_get(&t->handles, id, ref_live);
}

void inode_known(struct inode *ino)
{
	atomic_fetch_add(&ino->lookups, 1);
}

bool inode_forget(struct inode_table *t, struct inode *ino, uint64_t n)
{
	uint64_t have = atomic_load(&ino->lookups), take;

	do
		take = n < have ? n : have;
	while (!atomic_compare_exchange_weak(&ino->lookups, &have, have - take));
	if (take)
		inode_put(t, ino, take);
	return take == n;
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
	/* The first of all opens drops the pages: there are none but by a read or
	 * write that follows. */
	if (atomic_fetch_add(&ino->nfiles, 1) == 0 && !keep)
		atomic_store(&ino->paged, false);
	atomic_fetch_add(&ino->nopen, 1);
	pthread_mutex_unlock(&s->mu);
	return keep;
}

bool inode_opening(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	bool may;

	pthread_mutex_lock(&s->mu);
	may = !ino->pins;
	atomic_fetch_add(&ino->nopen, may);
	pthread_mutex_unlock(&s->mu);
	return may;
}

bool inode_pin(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	bool may;

	pthread_mutex_lock(&s->mu);
	may = !atomic_load(&ino->nopen) || ino->silly;
	ino->pins += may;
	pthread_mutex_unlock(&s->mu);
	return may;
}

void inode_unpin(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = shard_of(t, ino->hash);

	pthread_mutex_lock(&s->mu);
	ino->pins--;
	pthread_mutex_unlock(&s->mu);
}

/* Shard held: silly is to be removed, and nobody has ino open. */
static void pin_by(struct silly *silly, struct inode *ino)
{
	inode_ref(ino);
	silly->pinned = ino;
	ino->pins++;
}

struct silly *inode_close(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = shard_of(t, ino->hash);
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

bool inode_set_silly(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name,
		     struct silly *silly)
{
	struct inode_shard *s = shard_of(t, ino->hash);
	bool take;

	pthread_mutex_lock(&s->mu);
	take = atomic_load(&ino->nopen) > 0 && !ino->silly;
	if (name)
		remove_name(t, ino, parent, name);
	if (take) {
		ino->silly = silly;
		add_name(t, ino, parent, silly->name, strlen(silly->name));
	} else if (!atomic_load(&ino->nopen)) {
		pin_by(silly, ino);
	}
	pthread_mutex_unlock(&s->mu);
	return take;
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

bool inode_silly_is(struct inode_table *t, struct inode *ino, const char *name)
{
	struct inode_shard *s = shard_of(t, ino->hash);
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
		for (struct inode *ino = s->bucket[b]; ino; ino = ino->hash_next) {
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
