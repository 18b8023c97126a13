/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/thread.h"
#include "nfs/internal.h"

#define NONE_S      60u
#define BUCKETS     256u
#define ENTRIES_MAX 4096u
#define NS_PER_S    1000000000ull

enum { TO_ID, TO_NAME };


struct nfs_idmap_entry {
	struct hash_node node;          /* in im->table */
	struct list lru;                /* the least recently used is first */
	struct list asked;              /* in the mapper's queue */
	unsigned refs;                  /* calls that wait */
	int way;
	bool group;
	bool queued;                    /* in the queue, or with the mapper */
	bool answered, found;
	uint64_t asked_ns, until_ns;
	uint32_t id;
	char name[NFS_OWNER_MAX];
};

/* A lane, as the mapper tells it of answers. */
struct waiting_lane {
	struct loop_msg m;
	struct nfs_idmap *im;
	struct nfs_lane *lane;
	bool posted;                    /* m is in the loop's mailbox */
};

struct nfs_idmap {
	struct nfs_client *cl;
	const struct nfs_idmapper *mapper;
	pthread_mutex_t mu;             /* for everything below */
	pthread_cond_t cond;            /* asked is not empty, stopping, or ended */
	struct hash_node *table[BUCKETS];
	struct list lru, asked;
	unsigned entries;
	bool stopping, started, ended, joined, warned, names_wanted;
	pthread_t tid;
	struct waiting_lane lane[NFS_LANES_MAX];
};

/* ---- the table ---- */

static uint32_t hash_of(int way, bool group, const char *name, uint32_t id)
{
	uint64_t seed = (uint64_t)way * 2 + group;

	return (uint32_t)(way == TO_NAME ? hash_bytes(&id, sizeof(id), seed) :
			  hash_bytes(name, strlen(name), seed));
}

static struct nfs_idmap_entry *find(struct nfs_idmap *im, int way, bool group, const char *name,
				    uint32_t id)
{
	uint32_t hash = hash_of(way, group, name, id);

	hash_for_each(n, hash_chain(im->table, hash), hash) {
		struct nfs_idmap_entry *e = container_of(n, struct nfs_idmap_entry, node);

		if (e->way == way && e->group == group &&
		    (way == TO_NAME ? e->id == id : !strcmp(e->name, name)))
			return e;
	}
	return NULL;
}

/* Names come from the server, which may have many, so the table is bounded. */
static void make_room(struct nfs_idmap *im)
{
	list_for_each_safe(n, tmp, &im->lru) {
		struct nfs_idmap_entry *e = container_of(n, struct nfs_idmap_entry, lru);

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

static struct nfs_idmap_entry *add(struct nfs_idmap *im, int way, bool group, const char *name,
				   uint32_t id)
{
	uint32_t hash = hash_of(way, group, name, id);
	struct nfs_idmap_entry *e;

	make_room(im);
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

static bool is_nobody(const char *name)
{
	size_t n = strcspn(name, "@");

	return (n == 6 && !memcmp(name, "nobody", 6)) || (n == 7 && !memcmp(name, "nogroup", 7));
}

static void warn_once(struct nfs_idmap *im, const struct nfs_idmap_entry *e)
{
	/* This is the server's own word for an owner that it does not know. */
	if (im->warned || (e->way == TO_ID && is_nobody(e->name)))
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

static void on_answered(struct loop_msg *m);

static void answer(struct nfs_idmap *im, struct nfs_idmap_entry *e,
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
		warn_once(im, e);
	for (unsigned i = 0; e->refs && !im->stopping && i < im->cl->nlanes; i++) {
		struct waiting_lane *w = &im->lane[i];

		if (w->posted)
			continue;
		w->posted = true;
		loop_post(w->lane->loop, &w->m);
	}
}

static void *mapper_main(void *arg)
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
		answer(im, e, &q, rc);
	}
	im->ended = true;
	pthread_cond_broadcast(&im->cond);
	pthread_mutex_unlock(&im->mu);
	return NULL;
}

static bool start_mapper(struct nfs_idmap *im)
{
	int rc;

	if (im->started)
		return true;
	rc = thread_start(&im->tid, mapper_main, im);
	if (rc)
		log_err("cannot start a thread for the owners' names: %s", strerror(-rc));
	im->started = rc == 0;
	return im->started;
}

/* ---- asking; with the lock held ---- */

static void ask(struct nfs_idmap *im, struct nfs_idmap_entry *e, uint64_t now)
{
	if (e->queued || im->stopping || !start_mapper(im))
		return;
	e->queued = true;
	e->asked_ns = now;
	list_add_tail(&im->asked, &e->asked);
	pthread_cond_signal(&im->cond);
}

static struct nfs_idmap_entry *look_up(struct nfs_idmap *im, int way, bool group,
				       const char *name, uint32_t id)
{
	struct nfs_idmap_entry *e = find(im, way, group, name, id);
	uint64_t now = mono_ns();

	if (!e)
		e = add(im, way, group, name, id);
	if (!e)
		return NULL;
	list_del(&e->lru);
	list_add_tail(&im->lru, &e->lru);
	if (now >= e->until_ns)
		ask(im, e, now);
	return e;
}

/* Is it worth waiting for the answer? */
static bool is_open(const struct nfs_idmap *im, const struct nfs_idmap_entry *e)
{
	return e && e->queued && !e->answered &&
	       mono_ns() - e->asked_ns < nfs_times_of(&im->cl->cfg)->owner_ms * 1000000ull;
}

/* ---- for the version's codec ---- */

/* Only such names go to the library and into the log. */
static bool is_sane(const char *name, uint32_t len, char out[NFS_OWNER_MAX])
{
	if (len == 0 || len >= NFS_OWNER_MAX)
		return false;
	for (uint32_t i = 0; i < len; i++)
		if ((uint8_t)name[i] < ' ' || name[i] == 0x7f)
			return false;
	memcpy(out, name, len);
	out[len] = '\0';
	return true;
}

static void set_owner(struct nfs_call *c, bool group, uint32_t id)
{
	if (group)
		c->res.attr.gid = id;
	else
		c->res.attr.uid = id;
}

static void drop(struct nfs_call *c, bool group)
{
	struct nfs_idmap_entry *e = c->eng.owners.of[group];

	if (e)
		e->refs--;
	c->eng.owners.of[group] = NULL;
}

void nfs_owner_of_call(struct nfs_call *c, bool group, const char *name, uint32_t len)
{
	struct nfs_idmap *im = c->lane->client->idmap;
	struct nfs_idmap_entry *e;
	char text[NFS_OWNER_MAX];

	if (!im || !is_sane(name, len, text)) {
		set_owner(c, group, NFS_NOBODY);
		return;
	}
	pthread_mutex_lock(&im->mu);
	drop(c, group);
	e = look_up(im, TO_ID, group, text, 0);
	set_owner(c, group, e ? e->id : NFS_NOBODY);
	if (is_open(im, e)) {
		e->refs++;
		c->eng.owners.of[group] = e;
	}
	pthread_mutex_unlock(&im->mu);
}

bool nfs_owner_known(struct nfs_client *cl, bool group, const char *name, uint32_t len,
		     uint32_t *id)
{
	struct nfs_idmap *im = cl->idmap;
	struct nfs_idmap_entry *e;
	char text[NFS_OWNER_MAX];
	bool known;

	*id = NFS_NOBODY;
	if (!im || !is_sane(name, len, text))
		return true;
	pthread_mutex_lock(&im->mu);
	e = look_up(im, TO_ID, group, text, 0);
	if (e)
		*id = e->id;
	known = !is_open(im, e);
	pthread_mutex_unlock(&im->mu);
	return known;
}

bool nfs_owner_names(struct nfs_call *c)
{
	struct nfs_idmap *im = c->lane->client->idmap;

	if (!im || c->eng.owners.by_name)
		return false;
	c->eng.owners.by_name = c->eng.owners.send = true;
	pthread_mutex_lock(&im->mu);
	im->names_wanted = true;
	for (int group = 0; group < 2; group++) {
		struct nfs_idmap_entry *e;

		if (!(c->args.sattr.valid & (group ? NFS_SET_GID : NFS_SET_UID)))
			continue;
		e = look_up(im, TO_NAME, group, NULL, group ? c->args.sattr.gid : c->args.sattr.uid);
		drop(c, group);
		if (is_open(im, e)) {
			e->refs++;
			c->eng.owners.of[group] = e;
		}
	}
	pthread_mutex_unlock(&im->mu);
	return true;
}

bool nfs_owner_name(struct nfs_client *cl, bool group, uint32_t id, char name[NFS_OWNER_MAX])
{
	struct nfs_idmap *im = cl->idmap;
	struct nfs_idmap_entry *e;
	bool found = false;

	if (!im)
		return false;
	pthread_mutex_lock(&im->mu);
	if (im->names_wanted) {
		/* An old name is asked for again; meanwhile the old answer is used. */
		e = look_up(im, TO_NAME, group, NULL, id);
		found = e && e->found;
		if (found)
			memcpy(name, e->name, NFS_OWNER_MAX);
	}
	pthread_mutex_unlock(&im->mu);
	return found;
}

/* ---- calls that wait ---- */

/* With the lock held: gives c the answers that are there. true: that was all of them. */
static bool take_answers(struct nfs_call *c, bool late)
{
	bool all = true;

	for (int group = 0; group < 2; group++) {
		struct nfs_idmap_entry *e = c->eng.owners.of[group];

		if (!e)
			continue;
		if (!e->answered && !late) {
			all = false;
			continue;
		}
		if (e->way == TO_ID)
			set_owner(c, group, e->id);
		drop(c, group);
	}
	return all;
}

/* Takes c off the lane's list. Its references have been dropped. */
static void go_on(struct nfs_call *c)
{
	bool send = c->eng.owners.send;

	c->eng.owners.waits = c->eng.owners.send = false;
	loop_timer_clear(&c->eng.timer);
	list_del(&c->eng.node);
	nfs_owner_done(c, send);
}

static void on_late(struct loop_timer *t)
{
	struct nfs_call *c = container_of(t, struct nfs_call, eng.timer);
	struct nfs_idmap *im = c->lane->client->idmap;

	pthread_mutex_lock(&im->mu);
	take_answers(c, true);
	pthread_mutex_unlock(&im->mu);
	go_on(c);
}

static void on_answered(struct loop_msg *m)
{
	struct waiting_lane *w = container_of(m, struct waiting_lane, m);
	struct list ready;

	list_init(&ready);
	pthread_mutex_lock(&w->im->mu);
	w->posted = false;
	list_for_each_safe(n, tmp, &w->lane->mapping) {
		struct nfs_call *c = container_of(n, struct nfs_call, eng.node);

		if (!take_answers(c, false))
			continue;
		list_del(n);
		list_add_tail(&ready, n);
	}
	pthread_mutex_unlock(&w->im->mu);
	/* One at a time, because what follows may change the rest of the list. */
	while (!list_empty(&ready))
		go_on(container_of(ready.next, struct nfs_call, eng.node));
}

bool nfs_owner_wait(struct nfs_call *c)
{
	struct nfs_idmap *im = c->lane->client->idmap;
	bool all;

	if (!c->eng.owners.of[0] && !c->eng.owners.of[1] && !c->eng.owners.send)
		return false;
	pthread_mutex_lock(&im->mu);
	all = take_answers(c, false);
	pthread_mutex_unlock(&im->mu);
	if (all && !c->eng.owners.send)
		return false;
	c->eng.owners.waits = true;
	loop_timer_init(&c->eng.timer, on_late);
	loop_timer_set(c->lane->loop, &c->eng.timer, all ? 0 : nfs_times_of(&im->cl->cfg)->owner_ms);
	list_add_tail(&c->lane->mapping, &c->eng.node);
	return true;
}

void nfs_owner_drop(struct nfs_call *c)
{
	struct nfs_idmap *im = c->lane->client->idmap;

	if (!c->eng.owners.of[0] && !c->eng.owners.of[1] && !c->eng.owners.send)
		return;
	if (c->eng.owners.waits)
		loop_timer_clear(&c->eng.timer);
	c->eng.owners.waits = c->eng.owners.send = false;
	pthread_mutex_lock(&im->mu);
	drop(c, false);
	drop(c, true);
	pthread_mutex_unlock(&im->mu);
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
		im->lane[i] = (struct waiting_lane){
			.m.fn = on_answered, .im = im, .lane = &cl->lanes[i],
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
