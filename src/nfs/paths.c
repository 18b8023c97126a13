/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of paths (see paths.h): which places are in use, which connections are wanted, and
 * what becomes of a path when one of them comes or goes. paths_change.c has the control commands,
 * paths_info.c what is told of it. All of it is under control->mu, which is never held while
 * anything blocks.
 *
 * A place of the table is in use until nothing of the path is left: no link on any lane, none on
 * its way to one, and no attempt of the connector. So what is under way never finds another path
 * in its place.
 *
 * Two threads act here: the path's connector makes links and says when it cannot, and lanes take
 * links and lose them. A lane that gets a link of a path that is being removed drops it. A lane
 * that loses one says so here, on trial or not, and the connector is told unless the path is
 * removed, or refused and never led to the server.
 *
 * Attempts are made at once, if the last connection was there for a second; otherwise after 1 s,
 * doubling to 8 s, with half of that at random on top, so that many clients of a server that
 * comes back do not all come at the same moment. They never end by themselves.
 */
#include <errno.h>
#include "nfs/paths_impl.h"

#define RETRY_SHIFT_MAX 3u

struct nfs_path *nfs_path_of(const struct nfs_connection *k)
{
	return &k->target->server->path[k->path];
}

static struct nfs_control *control_of(const struct nfs_connection *k)
{
	return k->target->server->client->control;
}

unsigned nfs_conns_of(const struct nfs_client *cl)
{
	return 1 + cl->cfg.mdconnect;
}

/* ---- with control->mu held ---- */

unsigned paths_count(const struct nfs_server *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NFS_PATHS_MAX; i++)
		n += s->path[i].used && !s->path[i].removing;
	return n;
}

/* Calls fn for each lane's connections on that path. */
static void each_connection(struct nfs_server *s, unsigned path,
			    void (*fn)(struct nfs_connection *k, void *arg), void *arg)
{
	for (unsigned lane = 0; lane < NFS_LANES_MAX; lane++)
		for (unsigned i = 0; s->targets[lane] && i < nfs_conns_of(s->client); i++)
			fn(&s->targets[lane]->conns[path][i], arg);
}

static void note_busy(struct nfs_connection *k, void *arg)
{
	*(bool *)arg |= k->busy;
}

static void forget_wish(struct nfs_connection *k, void *arg)
{
	k->wanted = false;
}

static void paths_wish(struct nfs_connection *k, void *arg)
{
	k->wanted = !k->busy;
}

static void begin_anew(struct nfs_connection *k, void *arg)
{
	k->failures = 0;
	k->retry_ns = 0;
	k->wanted = !k->busy;
}

void paths_begin_anew(struct nfs_server *s, unsigned path)
{
	each_connection(s, path, begin_anew, NULL);
}

void paths_forget_wishes(struct nfs_server *s, unsigned path)
{
	each_connection(s, path, forget_wish, NULL);
}

void paths_free_place(struct nfs_server *s, unsigned path)
{
	struct nfs_path *p = &s->path[path];
	bool busy = false;

	if (!p->removing)
		return;
	each_connection(s, path, note_busy, &busy);
	if (!busy)
		p->used = p->removing = p->refused = p->known = false;
}

/* No connection is left. What was another server while there was one may be where the server has
 * moved to: paths that had led to it are tried again. */
static void paths_hope(struct nfs_server *s)
{
	for (unsigned i = 0; i < NFS_PATHS_MAX; i++) {
		if (!s->path[i].used || s->path[i].removing || !s->path[i].refused || !s->path[i].known)
			continue;
		s->path[i].refused = false;
		paths_begin_anew(s, i);
	}
}

static unsigned retry_ms(const struct nfs_connection *k)
{
	return nfs_times_of(&k->target->server->client->cfg)->retry_ms;
}

static void back_off(struct nfs_connection *k)
{
	unsigned shift = k->failures < RETRY_SHIFT_MAX ? k->failures : RETRY_SHIFT_MAX;
	uint64_t now = mono_ns(), ns = (uint64_t)(retry_ms(k) << shift) * NS_PER_MS;

	k->failures++;
	k->retry_ns = now + ns + now % (ns / 2 + 1);
}

/* ---- a connection's life ---- */

bool nfs_path_arrives(struct nfs_connection *k, bool *check, struct nfs_check *in)
{
	struct nfs_server *s = k->target->server;
	struct nfs_path *p = nfs_path_of(k);
	bool wanted;

	pthread_mutex_lock(&control_of(k)->mu);
	wanted = p->used && !p->removing && !(p->refused && !p->known);
	in->known = p->known;
	in->may_move = p->known && s->up == 0;
	*check = s->checks && s->version->check_encode &&
		 (s->joins || !p->known || paths_count(s) > 1);
	pthread_mutex_unlock(&control_of(k)->mu);
	return wanted;
}

void nfs_path_joined(struct nfs_connection *k)
{
	struct nfs_server *s = k->target->server;
	struct nfs_path *p = nfs_path_of(k);
	bool again;

	pthread_mutex_lock(&control_of(k)->mu);
	again = k->generation == p->generation;
	k->generation = p->generation;
	p->up++;
	s->up++;
	p->known = true;
	p->facts = rr_link_facts(k->link);
	p->why.text[0] = '\0';
	/* Another connection of this path has met another server, behind the same address. (A path
	 * that is being removed gets no further connections.) */
	if (p->refused && !p->removing) {
		p->refused = false;
		each_connection(s, k->path, paths_wish, NULL);
		pthread_cond_broadcast(&control_of(k)->cond);
	}
	k->busy = true;
	k->failures = 0;
	/* If this connection does not last, the next attempt waits. */
	k->retry_ns = mono_ns() + retry_ms(k) * NS_PER_MS;
	pthread_mutex_unlock(&control_of(k)->mu);
	stat_add_to(&k->target->path_stats[k->path].reconnects, again);
}

/* What the log says, once for each outage of a path. */
struct news {
	bool first, refused, removing, none_left;
	unsigned failures;
	char server[80];
};

static void paths_tell(const struct nfs_connection *k, bool was_up, int err, const char *why,
		       const struct news *n)
{
	const struct nfs_server *s = k->target->server;

	if (n->removing)
		return;
	if (was_up)
		log_warn("connection %u to %s (%s) lost: %s; reconnecting", k->target->lane->index,
			 s->name, n->server, why);
	else if (n->refused)
		log_err("the path to %s at %s is refused: %s", s->name, n->server, why);
	else if (n->first && err)
		log_warn("cannot connect to %s at %s yet: %s", s->name, n->server, why);
	else if (err)
		log_debug("connection %u to %s (%s): attempt %u failed: %s", k->target->lane->index,
			  s->name, n->server, n->failures, why);
	if (n->none_left)
		log_warn("no path to %s is left; %s", s->name, s->client->cfg.soft ?
			 "calls fail when they time out (soft)" : "calls wait for one");
}

void nfs_path_lost(struct nfs_connection *k, bool was_up, int err, const char *why)
{
	struct nfs_server *s = k->target->server;
	struct nfs_path *p = nfs_path_of(k);
	struct news n = { .removing = false };

	pthread_mutex_lock(&control_of(k)->mu);
	k->busy = false;
	p->up -= was_up;
	s->up -= was_up;
	n.removing = p->removing || !p->used;
	n.first = err && !p->why.text[0];
	n.none_left = was_up && s->up == 0 && paths_count(s) > 1;
	fab_addr_text(&p->way.params.server, n.server, sizeof(n.server));
	/* As long as it is refused, it says what it is refused for. */
	if (why && err && (err == -EXDEV || !p->refused))
		err_set(&p->why, 0, "%s", why);
	if (err == -EXDEV && !p->up && !p->refused)
		n.refused = p->refused = true;
	/* A path that has led to the server may do so again: for a moment after a restart servers of
	 * version 3 do not know their own handles. */
	if (p->refused && !p->known)
		paths_forget_wishes(s, k->path);
	else if (!n.removing)
		k->wanted = true;
	if (err)
		back_off(k);
	n.failures = k->failures;
	if (was_up && s->up == 0) {
		atomic_store(&s->cut_ns, mono_ns());
		paths_hope(s);
	}
	paths_free_place(s, k->path);
	pthread_cond_broadcast(&control_of(k)->cond);
	pthread_mutex_unlock(&control_of(k)->mu);
	paths_tell(k, was_up, err, why ? why : "", &n);
}

/* ---- the mount's life ---- */

void nfs_paths_init(struct nfs_server *s)
{
	const struct nfs_client *cl = s->client;

	for (unsigned i = 0; i < NFS_PATHS_MAX; i++) {
		s->path[i].server = s;
		if (i >= cl->cfg.npaths)
			continue;
		s->path[i].used = true;
		s->path[i].generation = 1;
		s->path[i].way = cl->cfg.paths[i];
	}
	atomic_init(&s->policy, cl->cfg.policy);
}

void nfs_connect_all(struct nfs_client *cl, unsigned path)
{
	pthread_mutex_lock(&cl->control->mu);
	each_connection(&cl->server, path, paths_wish, NULL);
	pthread_cond_broadcast(&cl->control->cond);
	pthread_mutex_unlock(&cl->control->mu);
}
