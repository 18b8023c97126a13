/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/thread.h"
#include "nfs/idmap_impl.h"

#define NONE_S      60u
#define ENTRIES_MAX 4096u
#define NS_PER_S    1000000000ull

/* ---- the table ---- */

static uint32_t idmap_hash(int way, bool group, const char *name, uint32_t id)
{
	uint64_t seed = (uint64_t)way * 2 + group;

	return (uint32_t)(way == TO_NAME ? hash_bytes(&id, sizeof(id), seed) :
			  hash_bytes(name, strlen(name), seed));
}

static struct nfs_idmap_entry *idmap_find(struct nfs_idmap *im, int way, bool group,
					  const char *name, uint32_t id)
{
	uint32_t hash = idmap_hash(way, group, name, id);

	hash_for_each(n, hash_chain(im->table, hash), hash) {
		struct nfs_idmap_entry *e = container_of(n, struct nfs_idmap_entry, node);

		if (e->way == way && e->group == group &&
		    (way == TO_NAME ? e->id == id : !strcmp(e->name, name)))
			return e;
	}
	return NULL;
}

/* Names come from the server, which may have many, so the table is bounded. */
static void idmap_make_room(struct nfs_idmap *im)
{
	list_for_each_entry_safe(struct nfs_idmap_entry, e, tmp, &im->lru, lru) {
		if (im->entries < ENTRIES_MAX)
			return;
		if (e->refs || e->queued)
			continue;
		hash_del(&e->node);
		list_del(&e->lru);
		free(e);
		im->entries--;
	}
}

static struct nfs_idmap_entry *idmap_add(struct nfs_idmap *im, int way, bool group,
					 const char *name, uint32_t id)
{
	uint32_t hash = idmap_hash(way, group, name, id);
	struct nfs_idmap_entry *e;

	idmap_make_room(im);
	e = im->entries < ENTRIES_MAX ? calloc(1, sizeof(*e)) : NULL;
	if (!e)
		return NULL;
	e->way = way;
	e->group = group;
	e->id = way == TO_ID ? NFS_NOBODY : id;
	if (way == TO_ID)
		memcpy(e->name, name, strlen(name) + 1);
	hash_add(hash_chain(im->table, hash), &e->node, hash);
	list_add_tail(&im->lru, &e->lru);
	im->entries++;
	return e;
}

/* ---- the mapper ---- */

static bool idmap_is_nobody(const char *name)
{
	size_t n = strcspn(name, "@");

	return (n == 6 && !memcmp(name, "nobody", 6)) || (n == 7 && !memcmp(name, "nogroup", 7));
}

static void idmap_warn_once(struct nfs_idmap *im, const struct nfs_idmap_entry *e)
{
	/* This is the server's own word for an owner that it does not know. */
	if (im->warned || (e->way == TO_ID && idmap_is_nobody(e->name)))
		return;
	im->warned = true;
	if (e->way == TO_ID)
		log_warn("the server's %s '%s' is unknown here, so its files belong to nobody: is Domain "
			 "in /etc/idmapd.conf the server's, and does 'getent %s' know the name? Further "
			 "names are not logged", e->group ? "group" : "user", e->name,
			 e->group ? "group" : "passwd");
	else
		log_warn("the server wants names for owners, and %s %u has none here (idmapd.conf(5))",
			 e->group ? "group" : "user", e->id);
}

static void idmap_answer(struct nfs_idmap *im, struct nfs_idmap_entry *e,
			 const struct nfs_idmap_entry *got, int rc)
{
	/* If the name could not be looked up, the old answer may still be right. */
	bool keep = e->found && rc && rc != -ENOENT;

	e->queued = false;
	e->answered = true;
	e->found = rc == 0 || keep;
	e->until_ns = mono_ns() + (rc ? NONE_S : nfs_times_of(&im->cl->cfg)->owner_found_s) * NS_PER_S;
	if (e->way == TO_ID && !keep)
		e->id = rc ? NFS_NOBODY : got->id;
	else if (!rc)
		memcpy(e->name, got->name, sizeof(e->name));
	if (!e->found && !im->stopping)
		idmap_warn_once(im, e);
	for (unsigned i = 0; e->refs && !im->stopping && i < im->cl->nlanes; i++) {
		struct nfs_idmap_lane *w = &im->lane[i];

		if (w->posted)
			continue;
		w->posted = true;
		loop_post(w->lane->loop, &w->m);
	}
}

static void *idmap_main(void *arg)
{
	struct nfs_idmap *im = arg;
	struct nfs_idmap_entry *e, q;
	struct list *n;
	int rc;

	pthread_mutex_lock(&im->mu);
	while (!im->stopping) {
		n = list_pop(&im->asked);
		if (!n) {
			pthread_cond_wait(&im->cond, &im->mu);
			continue;
		}
		/* `queued` keeps e in the table. */
		e = container_of(n, struct nfs_idmap_entry, asked);
		q = *e;
		pthread_mutex_unlock(&im->mu);
		rc = q.way == TO_ID ? im->mapper->to_id(q.group, q.name, &q.id) :
		     im->mapper->to_name(q.group, q.id, q.name, sizeof(q.name));
		pthread_mutex_lock(&im->mu);
		idmap_answer(im, e, &q, rc);
	}
	im->ended = true;
	pthread_cond_broadcast(&im->cond);
	pthread_mutex_unlock(&im->mu);
	return NULL;
}

static bool idmap_start(struct nfs_idmap *im)
{
	int rc;

	if (im->started)
		return true;
	rc = thread_start(&im->tid, idmap_main, im);
	if (rc)
		log_err("cannot start a thread for the owners' names: %s", strerror(-rc));
	im->started = rc == 0;
	return im->started;
}

/* ---- asking; with the lock held ---- */

static void idmap_ask(struct nfs_idmap *im, struct nfs_idmap_entry *e, uint64_t now)
{
	if (e->queued || im->stopping || !idmap_start(im))
		return;
	e->queued = true;
	e->asked_ns = now;
	list_add_tail(&im->asked, &e->asked);
	pthread_cond_signal(&im->cond);
}

struct nfs_idmap_entry *nfs_idmap_look_up(struct nfs_idmap *im, int way, bool group,
					  const char *name, uint32_t id)
{
	struct nfs_idmap_entry *e = idmap_find(im, way, group, name, id);
	uint64_t now = mono_ns();

	if (!e)
		e = idmap_add(im, way, group, name, id);
	if (!e)
		return NULL;
	list_del(&e->lru);
	list_add_tail(&im->lru, &e->lru);
	if (now >= e->until_ns)
		idmap_ask(im, e, now);
	return e;
}

bool nfs_idmap_is_open(const struct nfs_idmap *im, const struct nfs_idmap_entry *e)
{
	return e && e->queued && !e->answered &&
	       mono_ns() - e->asked_ns < nfs_times_of(&im->cl->cfg)->owner_ms * 1000000ull;
}

/* ---- life ---- */

struct nfs_idmap *nfs_idmap_new(struct nfs_client *cl, const struct nfs_idmapper *m)
{
	struct nfs_idmap *im = calloc(1, sizeof(*im));
	pthread_condattr_t attr;

	if (!im)
		return NULL;
	im->cl = cl;
	im->mapper = m;
	pthread_mutex_init(&im->mu, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&im->cond, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&im->lru);
	list_init(&im->asked);
	for (unsigned i = 0; i < cl->nlanes; i++)
		im->lane[i] = (struct nfs_idmap_lane){
			.m.fn = nfs_idmap_answered, .im = im, .lane = &cl->lanes[i],
		};
	return im;
}

bool nfs_idmap_stop(struct nfs_idmap *im, unsigned timeout_ms)
{
	struct timespec ts;
	bool ended;

	if (!im)
		return true;
	nfs_deadline(&ts, timeout_ms);
	pthread_mutex_lock(&im->mu);
	/* From now on no mapper is started. */
	im->stopping = true;
	pthread_cond_broadcast(&im->cond);
	while (im->started && !im->ended &&
	       pthread_cond_timedwait(&im->cond, &im->mu, &ts) != ETIMEDOUT)
		;
	ended = !im->started || im->ended;
	pthread_mutex_unlock(&im->mu);
	if (ended && im->started && !im->joined) {
		pthread_join(im->tid, NULL);
		im->joined = true;
	}
	return ended;
}

void nfs_idmap_free(struct nfs_idmap *im)
{
	if (!im)
		return;
	list_for_each_safe(n, tmp, &im->lru)
		free(container_of(n, struct nfs_idmap_entry, lru));
	pthread_cond_destroy(&im->cond);
	pthread_mutex_destroy(&im->mu);
	free(im);
}
