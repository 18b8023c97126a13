/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Control commands that change the table of paths: add, remove, reconnect, policy. The thread that
 * answers control commands runs this. Each command first changes the table, under control->mu, and
 * then asks each lane, by nfs_each_lane(), to act on its own links. A link that is lost in between
 * is no longer there for the lane, and the table already knows what to do without it.
 */
#include <errno.h>
#include <string.h>
#include "nfs/paths_impl.h"

#define DRAIN_MS 2000u

static bool same_ways(const struct rr_path *a, const struct rr_path *b)
{
	return a->fabric == b->fabric &&
	       memcmp(&a->params.server, &b->params.server, sizeof(a->params.server)) == 0 &&
	       memcmp(&a->params.local, &b->params.local, sizeof(a->params.local)) == 0;
}

/* With control->mu held. */
static int find_place(const struct nfs_server *s, const struct rr_path *way, unsigned *id,
		      struct errbuf *eb)
{
	*id = NFS_PATHS_MAX;
	for (unsigned i = 0; i < NFS_PATHS_MAX; i++) {
		if (!s->path[i].used && *id == NFS_PATHS_MAX)
			*id = i;
		if (s->path[i].used && !s->path[i].removing && same_ways(&s->path[i].way, way))
			return err_set(eb, -EEXIST, "path %u has these addresses already", i);
	}
	if (*id == NFS_PATHS_MAX)
		return err_set(eb, -ENOSPC, "there are %u paths already, which is the most; remove "
			       "one first", NFS_PATHS_MAX);
	return 0;
}

/* With control->mu held. Paths that were there from the beginning are in the plan (plan_memory.c).
 * Without this check the path's connections would fail, each time that they are tried. */
static int has_memory(const struct nfs_client *cl, struct errbuf *eb)
{
	const struct nfs_config *cfg = &cl->cfg;
	size_t paths = paths_count(&cl->server) + 1, need;

	if (paths <= cfg->npaths)
		return 0;
	need = (paths - cfg->npaths) * cfg->path_locks;
	if (need <= cfg->locks_left)
		return 0;
	return err_set(eb, -ENOMEM, "the connections of %zu paths need %zu KiB more locked memory "
		       "(RLIMIT_MEMLOCK) than those of %u, and %zu KiB are left: mount with a higher "
		       "limit ('ulimit -l'), or with smaller lanes= or mdconnect=", paths, need / 1024,
		       cfg->npaths, cfg->locks_left / 1024);
}

/* A lane writes its counters without a lock, and none of them has to do with this path now. */
static void zero_stats(struct nfs_lane *l, void *arg)
{
	struct rr_path_stats *st = &l->target.path_stats[*(unsigned *)arg];
	_Atomic uint64_t *const all = &st->calls;

	for (size_t i = 0; i < sizeof(*st) / sizeof(*all); i++)
		atomic_store_explicit(&all[i], 0, memory_order_relaxed);
}

int nfs_path_add(struct nfs_client *cl, const struct rr_path *way, unsigned *id,
		 uint32_t *generation, struct errbuf *eb)
{
	struct nfs_server *s = &cl->server;
	struct nfs_path *p;
	int rc;

	pthread_mutex_lock(&cl->control->mu);
	rc = find_place(s, way, id, eb);
	if (!rc)
		rc = has_memory(cl, eb);
	if (rc) {
		pthread_mutex_unlock(&cl->control->mu);
		return rc;
	}
	p = &s->path[*id];
	p->used = true;
	p->why.text[0] = '\0';
	p->way = *way;
	p->way.params.domain = &cl->domain;
	*generation = ++p->generation;
	pthread_mutex_unlock(&cl->control->mu);
	/* The place is ours, and nothing is connected there before the next step. */
	atomic_store(&s->windows[*id].work, false);
	atomic_store(&s->windows[*id].again_ns, 0);
	nfs_each_lane(cl, zero_stats, id);
	pthread_mutex_lock(&cl->control->mu);
	rc = nfs_connector_start(p);
	if (rc) {
		p->used = false;
		err_set(eb, rc, "cannot start a thread: %s", strerror(-rc));
	} else {
		paths_begin_anew(s, *id);
		pthread_cond_broadcast(&cl->control->cond);
	}
	pthread_mutex_unlock(&cl->control->mu);
	return rc;
}

static void drain_lane(struct nfs_lane *l, void *arg)
{
	struct nfs_target *t = &l->target;
	unsigned path = *(unsigned *)arg;

	for (unsigned i = 0; i < NFS_CONNS_MAX; i++) {
		struct nfs_connection *k = &t->conns[path][i];

		if (!k->link)
			continue;
		k->drain_until_ns = loop_now(l->loop) + DRAIN_MS * NS_PER_MS;
		rr_drain(k->link);
		if (!k->up)
			rr_link_reset(k->link, -ESHUTDOWN, "its path is being removed");
	}
	nfs_target_changed(t, 0);
}

static int no_path(unsigned id, struct errbuf *eb)
{
	return err_set(eb, -ENOENT, "there is no path %u", id);
}

/* With control->mu held: connections that are left when the paths that are being removed are
 * gone. */
static unsigned count_up(const struct nfs_server *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NFS_PATHS_MAX; i++)
		n += s->path[i].removing ? 0 : s->path[i].up;
	return n;
}

/* With control->mu held. */
static int may_remove(const struct nfs_server *s, unsigned id, bool force, struct errbuf *eb)
{
	const struct nfs_path *p = id < NFS_PATHS_MAX ? &s->path[id] : NULL;

	if (!p || !p->used || p->removing)
		return no_path(id, eb);
	if (!force && paths_count(s) == 1)
		return err_set(eb, -EBUSY, "path %u is the last one: without it the mount waits until a "
			       "path is added; --force removes it", id);
	if (!force && p->up && p->up == count_up(s))
		return err_set(eb, -EBUSY, "path %u is the only one that is connected: without it the "
			       "mount waits; --force removes it", id);
	return 0;
}

int nfs_path_remove(struct nfs_client *cl, unsigned id, bool force, struct errbuf *eb)
{
	int rc;

	pthread_mutex_lock(&cl->control->mu);
	rc = may_remove(&cl->server, id, force, eb);
	if (!rc) {
		cl->server.path[id].removing = true;
		paths_forget_wishes(&cl->server, id);
		paths_free_place(&cl->server, id);
	}
	pthread_mutex_unlock(&cl->control->mu);
	if (!rc)
		nfs_each_lane(cl, drain_lane, &id);
	return rc;
}

static void reset_lane(struct nfs_lane *l, void *arg)
{
	for (unsigned i = 0; i < NFS_CONNS_MAX; i++) {
		struct nfs_connection *k = &l->target.conns[*(unsigned *)arg][i];

		if (k->link)
			rr_link_reset(k->link, -ECANCELED, "a reconnect was requested");
	}
}

int nfs_path_reconnect(struct nfs_client *cl, unsigned id, struct errbuf *eb)
{
	struct nfs_path *p = id < NFS_PATHS_MAX ? &cl->server.path[id] : NULL;
	bool there;

	pthread_mutex_lock(&cl->control->mu);
	there = p && p->used && !p->removing;
	if (there) {
		p->refused = false;
		p->why.text[0] = '\0';
		paths_begin_anew(&cl->server, id);
		pthread_cond_broadcast(&cl->control->cond);
	}
	pthread_mutex_unlock(&cl->control->mu);
	if (!there)
		return no_path(id, eb);
	nfs_each_lane(cl, reset_lane, &id);
	return 0;
}

static void lane_policy(struct nfs_lane *l, void *arg)
{
	rr_set_policy(l->target.conn, *(enum rr_policy *)arg);
}

void nfs_paths_set_policy(struct nfs_client *cl, enum rr_policy policy)
{
	atomic_store(&cl->server.policy, policy);
	nfs_each_lane(cl, lane_policy, &policy);
}

enum rr_policy nfs_paths_policy(const struct nfs_client *cl)
{
	return atomic_load(&cl->server.policy);
}
