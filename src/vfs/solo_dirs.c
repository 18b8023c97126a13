/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See solo_dirs.h. */
#include <stdlib.h>
#include <string.h>
#include "base/loop.h"
#include "vfs/solo_dirs.h"

void solo_dirs_init(struct solo_dirs *d)
{
	for (unsigned i = 0; i < SOLO_DIR_SHARDS; i++) {
		pthread_mutex_init(&d->shard[i].mu, NULL);
		d->shard[i].dir = NULL;
	}
}

void solo_dirs_fini(struct solo_dirs *d)
{
	for (unsigned i = 0; i < SOLO_DIR_SHARDS; i++) {
		free(d->shard[i].dir);
		pthread_mutex_destroy(&d->shard[i].mu);
	}
}

/* ---- names ---- */

static uint8_t solo_dirs_lower(char c)
{
	return (uint8_t)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static uint64_t hash_of(const char *name)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *name; name++)
		h = (h ^ solo_dirs_lower(*name)) * 0x100000001b3u;
	return (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
}

/* Letters beyond ASCII, and a dot or space at the end: the server may take another name for it. */
static bool has_other_forms(const char *name)
{
	char last = 0;

	for (; *name; last = *name++)
		if ((uint8_t)*name >= 0x80)
			return true;
	return last == '.' || last == ' ';
}

/* Neither that, nor may the server know a file by it which nobody has made so. */
static bool solo_dirs_usual(const char *name)
{
	return name[0] != '.' && !strpbrk(name, "~:") && !has_other_forms(name);
}

static void set_bit(struct solo_dir *s, uint64_t n)
{
	n %= SOLO_DIR_BITS;
	s->bits[n / 64] |= 1ull << n % 64;
}

static bool has_bit(const struct solo_dir *s, uint64_t n)
{
	n %= SOLO_DIR_BITS;
	return s->bits[n / 64] >> n % 64 & 1;
}

/* ---- directories ---- */

/* Locks the directory's shard. */
static struct solo_dirs_shard *solo_dirs_lock(struct solo_dirs *d, uint64_t id)
{
	struct solo_dirs_shard *s = &d->shard[(id * 0x9e3779b97f4a7c15u >> 32) % SOLO_DIR_SHARDS];

	pthread_mutex_lock(&s->mu);
	return s;
}

static void solo_dirs_unlock(struct solo_dirs_shard *s)
{
	pthread_mutex_unlock(&s->mu);
}

static struct solo_dir *find_locked(struct solo_dirs_shard *s, uint64_t id)
{
	for (unsigned i = 0; s->dir && i < SOLO_DIR_WAYS; i++)
		if (s->dir[i].id == id)
			return &s->dir[i];
	return NULL;
}

/* A free one is as old as can be. */
static struct solo_dir *oldest_locked(struct solo_dirs_shard *s)
{
	struct solo_dir *o = s->dir;

	for (unsigned i = 1; i < SOLO_DIR_WAYS; i++)
		if (s->dir[i].since_ns < o->since_ns)
			o = &s->dir[i];
	return o;
}

static void end_locked(struct solo_dir *s)
{
	s->id = s->since_ns = 0;
}

void solo_dir_made(struct solo_dirs *d, uint64_t id, uint64_t change, uint64_t since_ns)
{
	struct solo_dirs_shard *s = solo_dirs_lock(d, id);
	struct solo_dir *o;

	if (!s->dir)
		s->dir = calloc(SOLO_DIR_WAYS, sizeof(*s->dir));
	if (s->dir) {
		o = find_locked(s, id);
		if (!o)
			o = oldest_locked(s);
		*o = (struct solo_dir){ .id = id, .change = change, .since_ns = since_ns };
	}
	solo_dirs_unlock(s);
}

void solo_dir_adds(struct solo_dirs *d, uint64_t id, const char *name)
{
	struct solo_dirs_shard *s = solo_dirs_lock(d, id);
	struct solo_dir *o = find_locked(s, id);
	uint64_t h;

	if (o && has_other_forms(name)) {
		end_locked(o);
	} else if (o) {
		h = hash_of(name);
		set_bit(o, h);
		set_bit(o, h >> 32);
	}
	solo_dirs_unlock(s);
}

void solo_dir_changed(struct solo_dirs *d, uint64_t id, const struct nfs_dir_change *c,
		      uint64_t since_ns)
{
	struct solo_dirs_shard *s = solo_dirs_lock(d, id);
	struct solo_dir *o = find_locked(s, id);

	if (o && c && c->known && c->before == o->change) {
		o->change = c->after;
		o->since_ns = since_ns;
	} else if (o) {
		end_locked(o);
	}
	solo_dirs_unlock(s);
}

void solo_dir_seen(struct solo_dirs *d, uint64_t id, uint64_t change)
{
	struct solo_dirs_shard *s = solo_dirs_lock(d, id);
	struct solo_dir *o = find_locked(s, id);

	if (o && o->change != change)
		end_locked(o);
	solo_dirs_unlock(s);
}

bool solo_dir_lacks(struct solo_dirs *d, uint64_t id, const char *name)
{
	struct solo_dirs_shard *s;
	struct solo_dir *o;
	uint64_t h;
	bool lacks;

	if (!solo_dirs_usual(name))
		return false;
	h = hash_of(name);
	s = solo_dirs_lock(d, id);
	o = find_locked(s, id);
	lacks = o && mono_ns() - o->since_ns < SOLO_DIR_S * 1000000000ull &&
		!(has_bit(o, h) && has_bit(o, h >> 32));
	solo_dirs_unlock(s);
	return lacks;
}
