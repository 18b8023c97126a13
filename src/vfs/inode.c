/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See inode.h. The reference count is atomic, so that most references need no lock. Only
 * the steps to zero and from it are made under the shard's lock, so that nobody finds the inode
 * by its filehandle while it loses what it has.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "vfs/inode_impl.h"
#include "vfs/vfs.h"

static uint32_t fh_hash(const struct nfs_fh *fh)
{
	return (uint32_t)hash_bytes(fh->data, fh->len, 0);
}

static struct inode_shard *shard_at(struct inode_table *t, uint32_t hash)
{
	return &t->shard[hash % INODE_SHARDS];
}

static struct hash_node **chain_of(struct inode_shard *s, uint32_t hash)
{
	return hash_chain(s->by_fh, hash / INODE_SHARDS);
}

void inode_table_init(struct inode_table *t, const struct vfs_front *front)
{
	t->front = front;
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		pthread_mutex_init(&t->shard[i].mu, NULL);
		memset(t->shard[i].by_fh, 0, sizeof(t->shard[i].by_fh));
		list_init(&t->shard[i].forgotten);
		t->shard[i].nforgotten = 0;
	}
	names_init(t);
	handles_init(&t->handles);
	solo_dirs_init(&t->solo_dirs);
	if (getrandom(&t->generation, sizeof(t->generation), 0) != sizeof(t->generation))
		t->generation = (uint32_t)mono_ns();
	atomic_init(&t->count, 0);
	atomic_init(&t->names_missing, 0);
}

/* Without references, or with the last one. */
static void drop_state(struct inode_table *t, struct inode *ino)
{
	names_drop(t, ino);
	free(ino->silly);
	free(ino->after);
	free(ino->promised);
	free(ino->link);
	extents_free(extents_of(ino));
	locks_free(locks_of(ino));
	t->front->inode_ends(ino);
}

static bool is_forgotten(const struct inode *ino)
{
	return atomic_load(&ino->refs) == 0;
}

void inode_table_fini(struct inode_table *t)
{
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		for (unsigned b = 0; b < INODE_BUCKETS; b++) {
			for (struct hash_node *n; (n = t->shard[i].by_fh[b]); ) {
				struct inode *ino = container_of(n, struct inode, by_fh);

				hash_del(n);
				if (!is_forgotten(ino))
					drop_state(t, ino);
				nfs_file_put(&ino->file);
			}
		}
		pthread_mutex_destroy(&t->shard[i].mu);
	}
	names_fini(t);
	solo_dirs_fini(&t->solo_dirs);
	handles_fini(&t->handles);
}

/* ---- by filehandle ---- */

static struct inode *inode_find_fh(struct inode_shard *s, uint32_t hash, const struct nfs_fh *fh)
{
	hash_for_each(n, chain_of(s, hash), hash) {
		struct inode *ino = container_of(n, struct inode, by_fh);

		if (nfs_fh_same(&ino->file.fh, fh) && !atomic_load(&ino->left))
			return ino;
	}
	return NULL;
}

/* ---- forgotten inodes ---- */

/* It is not in its shard's lists any more. */
static void inode_free(struct inode_table *t, struct inode *ino)
{
	handle_del(&t->handles, ino->id);
	nfs_file_put(&ino->file);
}

static void leave_forgotten(struct inode_shard *s, struct inode *ino)
{
	list_del(&ino->node);
	s->nforgotten--;
}

/* ino joins them. Returns what is to be freed then; or NULL. */
static struct inode *join_forgotten(struct inode_shard *s, struct inode *ino)
{
	list_add_tail(&s->forgotten, &ino->node);
	if (++s->nforgotten <= INODE_FORGOTTEN)
		return NULL;
	ino = container_of(s->forgotten.next, struct inode, node);
	leave_forgotten(s, ino);
	hash_del(&ino->by_fh);
	return ino;
}

/* ino has lost its last reference. Returns what is to be freed then; or NULL. */
static struct inode *forget_locked(struct inode_table *t, struct inode_shard *s, struct inode *ino)
{
	/* Another inode has its filehandle; or the file is gone. */
	bool left = atomic_load(&ino->left) || ino->nameless;

	drop_state(t, ino);
	atomic_fetch_sub(&t->count, 1);
	if (left) {
		hash_del(&ino->by_fh);
		return ino;
	}
	memset(&ino->names, 0, t->front->inode_size - offsetof(struct inode, names));
	return join_forgotten(s, ino);
}

static struct inode *new_inode(struct inode_table *t, struct inode_shard *s, uint32_t hash,
			       const struct nfs_fh *fh, mode_t type)
{
	struct inode *ino = calloc(1, t->front->inode_size);

	if (!ino)
		return NULL;
	nfs_file_ref(&ino->file);
	ino->file.fh.len = fh->len;
	memcpy(ino->file.fh.data, fh->data, fh->len);
	ino->type = type;
	ino->id = handle_new(&t->handles, ino);
	if (!ino->id) {
		free(ino);
		return NULL;
	}
	hash_add(chain_of(s, hash), &ino->by_fh, hash);
	return ino;
}

/* Makes an inode of the forgotten one with that filehandle, or a new one if there is none. The
 * caller takes the first reference. A server may use a filehandle again, for a file of another
 * type: that gets another id. */
static struct inode *inode_insert(struct inode_table *t, struct inode_shard *s,
				  struct inode *forgotten, uint32_t hash,
				  const struct nfs_fh *fh, const struct nfs_attr *attr)
{
	struct inode *ino = forgotten;

	if (ino)
		leave_forgotten(s, ino);
	if (ino && ino->type != (attr->mode & S_IFMT)) {
		hash_del(&ino->by_fh);
		inode_free(t, ino);
		ino = NULL;
	}
	if (!ino)
		ino = new_inode(t, s, hash, fh, attr->mode & S_IFMT);
	if (!ino)
		return NULL;
	if (!t->front->inode_begins_locked(t, ino, attr)) {
		hash_del(&ino->by_fh);
		inode_free(t, ino);
		return NULL;
	}
	atomic_fetch_add(&t->count, 1);
	return ino;
}

void inode_leave_locked(struct inode_table *t, struct inode *ino)
{
	atomic_store(&ino->left, true);
	names_drop(t, ino);
}

/* With the shard's lock held: takes a reference, and remembers attributes and name. */
static void inode_take(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		       uint64_t parent, const char *name, size_t namelen)
{
	inode_ref(ino);
	inode_note_locked(t, ino, attr);
	if (parent)
		names_add_locked(t, ino, parent, name, namelen, atomic_load(&ino->noted_ns));
}

/* The inode with that filehandle, made if there is none; NULL: no memory. The caller takes a
 * reference before the lock is given back. */
static struct inode *inode_known_locked(struct inode_table *t, struct inode_shard *s, uint32_t hash,
					const struct nfs_fh *fh, const struct nfs_attr *attr)
{
	struct inode *ino = inode_find_fh(s, hash, fh);

	return ino && !is_forgotten(ino) ? ino : inode_insert(t, s, ino, hash, fh, attr);
}

static struct inode *inode_get_as(struct inode_table *t, const struct nfs_fh *fh,
				  struct nfs_attr *attr, uint64_t parent, const char *name,
				  size_t namelen, uint64_t since, bool created)
{
	uint32_t hash = fh_hash(fh);
	struct inode_shard *s = shard_at(t, hash);
	struct inode *ino;

	pthread_mutex_lock(&s->mu);
	ino = inode_known_locked(t, s, hash, fh, attr);
	if (ino) {
		behind_size(ino, attr, since);
		inode_take(t, ino, attr, parent, name, namelen);
		ownchange_told_locked(ino);
		t->front->inode_found_locked(t, ino, attr, since, created);
	}
	pthread_mutex_unlock(&s->mu);
	return ino;
}

struct inode *inode_get(struct inode_table *t, const struct nfs_fh *fh, struct nfs_attr *attr,
			uint64_t parent, const char *name, size_t namelen, uint64_t since)
{
	return inode_get_as(t, fh, attr, parent, name, namelen, since, false);
}

struct inode *inode_get_created(struct inode_table *t, const struct nfs_fh *fh,
				struct nfs_attr *attr, uint64_t parent, const char *name,
				size_t namelen, uint64_t since)
{
	return inode_get_as(t, fh, attr, parent, name, namelen, since, true);
}

struct inode *inode_get_untold(struct inode_table *t, const struct nfs_fh *fh,
			       const struct nfs_attr *attr)
{
	uint32_t hash = fh_hash(fh);
	struct inode_shard *s = shard_at(t, hash);
	struct inode *ino;

	pthread_mutex_lock(&s->mu);
	ino = inode_known_locked(t, s, hash, fh, attr);
	if (ino)
		inode_ref(ino);
	pthread_mutex_unlock(&s->mu);
	return ino;
}

struct inode *inode_get_listed(struct inode_table *t, const struct nfs_fh *fh,
			       const struct nfs_attr *attr, uint64_t parent, const char *name,
			       size_t namelen, uint64_t since)
{
	uint32_t hash = fh_hash(fh);
	struct inode_shard *s = shard_at(t, hash);
	struct inode *ino;

	pthread_mutex_lock(&s->mu);
	ino = inode_find_fh(s, hash, fh);
	if (!ino || is_forgotten(ino))
		ino = inode_insert(t, s, ino, hash, fh, attr);
	else if (!t->front->may_list_locked(ino, since) || atomic_load(&ino->entries_ns) >= since ||
		 behind_since(ino, since))
		ino = NULL;
	if (ino) {
		inode_take(t, ino, attr, parent, name, namelen);
		t->front->inode_listed_locked(ino, attr, since);
	}
	pthread_mutex_unlock(&s->mu);
	return ino;
}

struct inode *inode_by_fh(struct inode_table *t, const struct nfs_fh *fh)
{
	uint32_t hash = fh_hash(fh);
	struct inode_shard *s = shard_at(t, hash);
	struct inode *ino;

	pthread_mutex_lock(&s->mu);
	ino = inode_find_fh(s, hash, fh);
	if (ino && !inode_ref_live(ino))
		ino = NULL;
	pthread_mutex_unlock(&s->mu);
	return ino;
}

struct nfs_file *inode_file(struct inode_table *t, const struct nfs_fh *fh)
{
	uint32_t hash = fh_hash(fh);
	struct inode_shard *s = shard_at(t, hash);
	struct inode *ino, *gone = NULL;

	pthread_mutex_lock(&s->mu);
	ino = inode_find_fh(s, hash, fh);
	if (!ino) {
		ino = new_inode(t, s, hash, fh, S_IFREG);
		gone = ino ? join_forgotten(s, ino) : NULL;
	}
	if (ino)
		nfs_file_ref(&ino->file);
	pthread_mutex_unlock(&s->mu);
	if (gone)
		inode_free(t, gone);
	return ino ? &ino->file : NULL;
}

/* ---- references ---- */

void inode_ref(struct inode *ino)
{
	atomic_fetch_add(&ino->refs, 1);
}

bool inode_ref_live(void *obj)
{
	struct inode *ino = obj;
	uint64_t have = atomic_load(&ino->refs);

	while (have)
		if (atomic_compare_exchange_weak(&ino->refs, &have, have + 1))
			return true;
	return false;
}

void inode_put(struct inode_table *t, struct inode *ino, uint64_t n)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	uint64_t have = atomic_load(&ino->refs);
	struct inode *gone = NULL;

	while (have > n)
		if (atomic_compare_exchange_weak(&ino->refs, &have, have - n))
			return;
	pthread_mutex_lock(&s->mu);
	if (atomic_fetch_sub(&ino->refs, n) == n)
		gone = forget_locked(t, s, ino);
	pthread_mutex_unlock(&s->mu);
	if (gone)
		inode_free(t, gone);
}

static void copy_fh(const void *obj, void *fh)
{
	memcpy(fh, &((const struct inode *)obj)->file.fh, sizeof(struct nfs_fh));
}

bool inode_fh(struct inode_table *t, uint64_t id, struct nfs_fh *fh)
{
	return handle_look(&t->handles, id, copy_fh, fh);
}

struct inode *inode_by_id(struct inode_table *t, uint64_t id)
{
	return handle_get(&t->handles, id, inode_ref_live);
}

/* ---- attributes ---- */

bool inode_differs_locked(const struct inode *ino, const struct nfs_attr *attr)
{
	return ino->change != attr->change || !same_time(&ino->mtime, &attr->mtime) ||
	       ino->size != attr->size;
}

/* As in nfs(5): the time begins with acregmin. When it has run out and the file is found
 * unchanged, it doubles, up to acregmax. */
double inode_note_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr)
{
	bool dir = S_ISDIR(ino->type);
	double min = dir ? t->acdirmin : t->acregmin, max = dir ? t->acdirmax : t->acregmax;
	double timeo = atomic_load_explicit(&ino->timeo, memory_order_relaxed);
	uint64_t now = mono_ns();

	if (inode_differs_locked(ino, attr))
		ahead_outdated(ino);
	if (t->solo && dir && !ino->changing)
		solo_dir_seen(&t->solo_dirs, ino->id, attr->change);
	if (inode_differs_locked(ino, attr) || !ino->timeo_ns) {
		timeo = min;
		ino->timeo_ns = now;
	} else if ((double)(now - ino->timeo_ns) >= timeo * 1e9) {
		timeo = timeo * 2 > max ? max : timeo * 2;
		ino->timeo_ns = now;
	}
	atomic_store_explicit(&ino->timeo, timeo, memory_order_relaxed);
	ino->change = attr->change;
	ino->mtime = attr->mtime;
	ino->size = attr->size;
	atomic_store(&ino->noted_ns, now);
	ownchange_seen_locked(ino, attr);
	ownchange_check_locked(ino, attr);
	return timeo;
}

double inode_timeo(const struct inode_table *t, const struct inode *ino)
{
	double timeo = atomic_load_explicit(&ino->timeo, memory_order_relaxed);

	return timeo > 0 ? timeo : S_ISDIR(ino->type) ? t->acdirmin : t->acregmin;
}
