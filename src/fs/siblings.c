/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See siblings.h. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "fs/inode_impl.h"
#include "fs/known.h"
#include "fs/siblings.h"

#define PLACES     64u                  /* a power of two */
#define ENTRIES    256u                 /* the most of one listing */
#define FOUND_MIN  3u                   /* so many LOOKUPs first */
#define SECOND     1000000000ull
#define HERE_NS    SECOND               /* how long an entry is used */
#define PAUSE_NS   (SECOND / 4)
#define PAUSE_SHIFT 8u                  /* 64 s */
#define USED_MIN   2u                   /* so many answers are what a listing costs */

struct entry {
	uint32_t hash;
	bool touched;                   /* what it says may be wrong */
	struct nfs_fh fh;
	struct nfs_attr attr;
	char name[NFS_NAME_MAX + 1];
};

struct brood {
	uint64_t nr;                    /* known_changes() when it was asked for */
	uint64_t since;                 /* when that was */
	uid_t uid;
	gid_t gid;
	struct entry *entry;
	unsigned n, cap;
};

struct siblings {
	pthread_mutex_t mu;
	uint64_t dir_id;                /* 0: nobody's */
	uid_t uid;                      /* whose LOOKUPs and listing it is */
	gid_t gid;
	unsigned found;                 /* by the server, one soon after the other */
	uint64_t looked_ns;             /* the newest LOOKUP */
	uint64_t not_before_ns;         /* no listing before that */
	unsigned pause_shift;
	unsigned served;                /* answers from this listing */
	uint64_t since_ns;              /* when it was asked for; 0: there is none */
	struct entry *entry;
	unsigned n;
};

static uint32_t hash_of(const char *name, size_t len)
{
	return inode_hash(name, len, 2166136261u);
}

/* ---- places ---- */

static struct siblings *place_of(struct inode_table *t, uint64_t dir_id)
{
	return &t->siblings[(dir_id * 0x9e3779b97f4a7c15u) >> 58 & (PLACES - 1)];
}

/* Its place, locked. NULL: it has none. */
static struct siblings *lock(struct inode_table *t, uint64_t dir_id)
{
	struct siblings *s;

	if (!t->siblings)               /* no memory: the server is asked */
		return NULL;
	s = place_of(t, dir_id);
	pthread_mutex_lock(&s->mu);
	if (s->dir_id == dir_id)
		return s;
	pthread_mutex_unlock(&s->mu);
	return NULL;
}

static void unlock(struct siblings *s)
{
	pthread_mutex_unlock(&s->mu);
}

static void forget(struct siblings *s)
{
	free(s->entry);
	s->entry = NULL;
	s->n = 0;
	s->since_ns = 0;
}

void siblings_init(struct inode_table *t)
{
	t->siblings = calloc(PLACES, sizeof(*t->siblings));
	for (unsigned i = 0; t->siblings && i < PLACES; i++)
		pthread_mutex_init(&t->siblings[i].mu, NULL);
}

void siblings_fini(struct inode_table *t)
{
	for (unsigned i = 0; t->siblings && i < PLACES; i++) {
		forget(&t->siblings[i]);
		pthread_mutex_destroy(&t->siblings[i].mu);
	}
	free(t->siblings);
	t->siblings = NULL;
}

/* ---- LOOKUPs ---- */

static bool is_theirs(const struct siblings *s, const struct rpc_cred *cred)
{
	return s->uid == cred->uid && s->gid == cred->gid;
}

static const struct entry *find(const struct siblings *s, const char *name)
{
	uint32_t hash = hash_of(name, strlen(name));

	for (unsigned i = 0; i < s->n; i++)
		if (s->entry[i].hash == hash && strcmp(s->entry[i].name, name) == 0)
			return s->entry[i].touched ? NULL : &s->entry[i];
	return NULL;
}

bool siblings_here(struct inode_table *t, struct inode *dir, const struct rpc_cred *cred,
		   const char *name, struct nfs_fh *fh, struct nfs_attr *attr, uint64_t *since)
{
	struct siblings *s = lock(t, dir->id);
	const struct entry *e = NULL;
	uint64_t now = mono_ns();

	if (!s)
		return false;
	if (is_theirs(s, cred) && s->since_ns > atomic_load(&t->stale_ns) &&
	    now - s->since_ns < HERE_NS)
		e = find(s, name);
	if (e) {
		*fh = e->fh;
		*attr = e->attr;
		*since = s->since_ns;
		s->served++;
		s->looked_ns = now;
	}
	unlock(s);
	return e;
}

static void give_to(struct siblings *s, uint64_t dir_id, const struct rpc_cred *cred)
{
	forget(s);
	s->dir_id = dir_id;
	s->uid = cred->uid;
	s->gid = cred->gid;
	s->found = s->pause_shift = 0;
	s->not_before_ns = 0;
}

void siblings_found(struct inode_table *t, struct inode *dir, const struct rpc_cred *cred)
{
	uint64_t now = mono_ns();
	struct siblings *s;

	if (!t->siblings)
		return;
	s = place_of(t, dir->id);
	pthread_mutex_lock(&s->mu);
	if (s->dir_id != dir->id || !is_theirs(s, cred))
		give_to(s, dir->id, cred);
	else if (now - s->looked_ns > SECOND)
		s->found = 0;
	s->looked_ns = now;
	s->found++;
	unlock(s);
}

/* ---- listings ---- */

static void pause_from(struct siblings *s, uint64_t now)
{
	s->not_before_ns = now + (PAUSE_NS << s->pause_shift);
	s->pause_shift += s->pause_shift < PAUSE_SHIFT;
}

static bool is_wanted(struct siblings *s, const struct rpc_cred *cred)
{
	uint64_t now = mono_ns();

	if (!is_theirs(s, cred) || s->found < FOUND_MIN || now < s->not_before_ns)
		return false;
	s->found = 0;
	if (s->since_ns && s->served < USED_MIN) {
		forget(s);
		pause_from(s, now);
		return false;
	}
	if (s->since_ns)
		s->pause_shift = 0;
	return true;
}

struct brood *siblings_wanted(struct inode_table *t, struct inode *dir,
			      const struct rpc_cred *cred)
{
	struct siblings *s = lock(t, dir->id);
	struct brood *b = NULL;

	if (!s)
		return NULL;
	if (is_wanted(s, cred))
		b = calloc(1, sizeof(*b));
	unlock(s);
	if (!b)
		return NULL;
	b->nr = known_changes(t, dir);
	b->since = mono_ns();
	b->uid = cred->uid;
	b->gid = cred->gid;
	return b;
}

void brood_free(struct brood *b)
{
	if (!b)
		return;
	free(b->entry);
	free(b);
}

/* Room for one more. false: there is none. */
static bool have_room(struct brood *b)
{
	unsigned cap = b->cap ? b->cap * 2 : 16;
	struct entry *more;

	if (b->n < b->cap)
		return true;
	if (cap > ENTRIES)
		return false;
	more = realloc(b->entry, cap * sizeof(*more));
	if (!more)
		return false;
	b->entry = more;
	b->cap = cap;
	return true;
}

void brood_add(struct brood *b, const struct nfs_dirent *d)
{
	struct entry *e;

	if (!d->attr || !d->fh || d->namelen > NFS_NAME_MAX || !have_room(b))
		return;
	e = &b->entry[b->n++];
	*e = (struct entry){ .hash = hash_of(d->name, d->namelen), .fh = *d->fh, .attr = *d->attr };
	memcpy(e->name, d->name, d->namelen);
}

void siblings_take(struct inode_table *t, struct inode *dir, struct brood *b)
{
	struct inode_shard *shard = inode_shard_of(t, dir);
	struct siblings *s;

	pthread_mutex_lock(&shard->mu);
	s = lock(t, dir->id);
	/* This mount may have changed the directory meanwhile: nobody knows what the reply
	 * shows. */
	if (s && s->uid == b->uid && s->gid == b->gid && b->nr && !dir->changing &&
	    b->nr == dir->changes + 1) {
		forget(s);
		s->since_ns = b->since;
		s->served = 0;
		s->entry = b->entry;
		s->n = b->n;
		b->entry = NULL;
	}
	if (s)
		unlock(s);
	pthread_mutex_unlock(&shard->mu);
	brood_free(b);
}

void siblings_failed(struct inode_table *t, struct inode *dir, struct brood *b)
{
	struct siblings *s = lock(t, dir->id);

	if (s) {
		s->pause_shift = PAUSE_SHIFT;
		pause_from(s, mono_ns());
		unlock(s);
	}
	brood_free(b);
}

/* ---- changes ---- */

void siblings_touch(struct inode_table *t, uint64_t dir_id, const char *name)
{
	struct siblings *s = lock(t, dir_id);

	if (!s)
		return;
	/* Another spelling may be the same name to the server. */
	for (unsigned i = 0; i < s->n; i++)
		if (strcasecmp(s->entry[i].name, name) == 0)
			s->entry[i].touched = true;
	unlock(s);
}
