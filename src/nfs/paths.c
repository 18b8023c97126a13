/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of paths: see paths.h. All of it is under control->mu, which is never held while
 * anything blocks. A place of the table is in use until nothing of the path is left: no link on
 * any lane, none on its way to one, and no attempt of the connector. So what is under way never
 * finds another path in its place.
 *
 * Who acts on a path: its connector makes links, lanes take them and lose them, and the thread
 * that answers control commands adds, removes and reconnects. A lane that gets a link of a path
 * that is being removed drops it. A lane that loses one says so here, and the connector is told
 * unless the path is removed or refused.
 *
 * Attempts are made at once, if the last connection was there for a second; otherwise after 1 s,
 * doubling to 8 s, with half of that at random on top, so that many clients of a server that
 * comes back do not all come at the same moment. They never end by themselves.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include "nfs/internal.h"
#include "nfs/paths.h"

#define RETRY_SHIFT_MAX 3u
#define NS_PER_MS       1000000ull
#define DRAIN_MS        2000u

unsigned nfs_retry_first_ms = 1000;

struct nfs_path *nfs_path_of(const struct nfs_connection *k)
{
	return &k->target->server->path[k->path];
}

static struct nfs_control *control_of(const struct nfs_connection *k)
{
	return k->target->server->client->control;
}

/* ---- with control->mu held ---- */

static unsigned count_used(const struct nfs_server *s)
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
	(void)arg;
	k->wanted = false;
}

static void wish(struct nfs_connection *k, void *arg)
{
	(void)arg;
	k->wanted = !k->busy;
}

static void begin_anew(struct nfs_connection *k, void *arg)
{
	(void)arg;
	k->failures = 0;
	k->retry_ns = 0;
	k->wanted = !k->busy;
}

/* Is this the end of a path that was being removed? */
static void free_place(struct nfs_server *s, unsigned path)
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
static void hope(struct nfs_server *s)
{
	for (unsigned i = 0; i < NFS_PATHS_MAX; i++) {
		if (!s->path[i].used || s->path[i].removing || !s->path[i].refused || !s->path[i].known)
			continue;
		s->path[i].refused = false;
		each_connection(s, i, begin_anew, NULL);
	}
}

static void back_off(struct nfs_connection *k)
{
	unsigned shift = k->failures < RETRY_SHIFT_MAX ? k->failures : RETRY_SHIFT_MAX;
	uint64_t now = mono_ns(), ns = (uint64_t)(nfs_retry_first_ms << shift) * NS_PER_MS;

	k->failures++;
	k->retry_ns = now + ns + now % (ns / 2 + 1);
}

static enum nfs_path_state state_of(const struct nfs_path *p)
{
	return !p->used ? NFS_PATH_NONE : p->removing ? NFS_PATH_REMOVING :
	       p->refused ? NFS_PATH_REFUSED : p->up ? NFS_PATH_CONNECTED :
	       p->known ? NFS_PATH_RECONNECTING : NFS_PATH_CONNECTING;
}

/* ---- a connection's life ---- */

bool nfs_path_arrives(struct nfs_connection *k, bool *check, bool *may_move)
{
	struct nfs_server *s = k->target->server;
	struct nfs_path *p = nfs_path_of(k);
	bool wanted;

	pthread_mutex_lock(&control_of(k)->mu);
	wanted = p->used && !p->removing && !(p->refused && !p->known);
	*may_move = p->known && s->up == 0;
	*check = s->checks && s->version->check_encode &&
		 (s->joins || !p->known || count_used(s) > 1);
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
	p->why.text[0] = '\0';
	/* Another connection of this path has met another server, behind the same address. */
	if (p->refused) {
		p->refused = false;
		each_connection(s, k->path, wish, NULL);
		pthread_cond_broadcast(&control_of(k)->cond);
	}
	k->busy = true;
	k->failures = 0;
	/* If this connection does not last, the next attempt waits. */
	k->retry_ns = mono_ns() + nfs_retry_first_ms * NS_PER_MS;
	pthread_mutex_unlock(&control_of(k)->mu);
	stat_add_to(&k->target->path_stats[k->path].reconnects, again);
}

/* What the log says, once for each outage of a path. */
struct news {
	bool first, refused, removing, none_left;
	unsigned failures;
	char server[80];
};

static void tell(const struct nfs_connection *k, bool was_up, int err, const char *why,
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
			 "calls fail when their time is up (soft)" : "calls wait for one");
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
	n.none_left = was_up && s->up == 0 && count_used(s) > 1;
	fab_addr_text(&p->way.params.server, n.server, sizeof(n.server));
	if (why && err)
		err_set(&p->why, 0, "%s", why);
	if (err == -EXDEV && !p->up && !p->refused)
		n.refused = p->refused = true;
	/* A path that has led to the server may do so again: for a moment after a restart servers of
	 * version 3 do not know their own handles. */
	if (p->refused && !p->known)
		each_connection(s, k->path, forget_wish, NULL);
	else if (!n.removing)
		k->wanted = true;
	if (err)
		back_off(k);
	n.failures = k->failures;
	if (was_up && s->up == 0)
		hope(s);
	free_place(s, k->path);
	pthread_cond_broadcast(&control_of(k)->cond);
	pthread_mutex_unlock(&control_of(k)->mu);
	tell(k, was_up, err, why ? why : "", &n);
}

/* ---- life ---- */

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

/* ---- for people ---- */

/* Each lane's connections as they are now. */
static void lane_gauges(struct nfs_lane *l, void *arg)
{
	struct nfs_target *t = &l->target;

	(void)arg;
	for (unsigned path = 0; path < NFS_PATHS_MAX; path++) {
		uint64_t in_flight = 0, credits = 0;

		for (unsigned i = 0; i < NFS_CONNS_MAX; i++) {
			struct rr_link_now now;

			if (!t->conns[path][i].link)
				continue;
			now = rr_link_now(t->conns[path][i].link);
			in_flight += now.in_flight;
			credits += now.credits;
		}
		atomic_store(&t->path_stats[path].in_flight, in_flight);
		atomic_store(&t->path_stats[path].credits, credits);
	}
}

static void add_stats(struct nfs_path_info *out, const struct rr_path_stats *st, unsigned *nlat)
{
	uint64_t latency = stat_get_from(&st->latency_ns);

	out->calls += stat_get_from(&st->calls);
	out->tx_bytes += stat_get_from(&st->tx_bytes);
	out->rx_bytes += stat_get_from(&st->rx_bytes);
	out->in_flight += stat_get_from(&st->in_flight);
	out->credits += stat_get_from(&st->credits);
	out->failovers += stat_get_from(&st->failovers);
	out->heartbeats += stat_get_from(&st->heartbeats);
	out->missed += stat_get_from(&st->missed);
	out->registrations += stat_get_from(&st->registrations);
	out->reconnects += stat_get_from(&st->reconnects);
	out->latency_ns += latency;
	*nlat += latency != 0;
	for (unsigned i = 0; i < RR_LATENCY_BUCKETS; i++)
		out->histogram[i] += stat_get_from(&st->histogram[i]);
}

/* Without the port, which it returns. */
static unsigned addr_text(const struct sockaddr_storage *ss, char *buf, size_t len)
{
	struct sockaddr_storage bare = *ss;
	in_port_t *port = ss->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)&bare)->sin6_port :
			  &((struct sockaddr_in *)&bare)->sin_port;
	unsigned n = ntohs(*port);

	*port = 0;
	fab_addr_text(&bare, buf, len);
	return n;
}

static void fill(struct nfs_client *cl, unsigned path, struct nfs_path_info *out)
{
	const struct nfs_path *p = &cl->server.path[path];
	unsigned nlat = 0;

	*out = (struct nfs_path_info){
		.id = path, .generation = p->generation, .state = state_of(p),
		.fabric = p->way.fabric->name, .connections = p->up,
		.wanted = cl->nlanes * nfs_conns_of(cl),
	};
	out->port = addr_text(&p->way.params.server, out->server, sizeof(out->server));
	if (p->way.params.local.ss_family == AF_UNSPEC)
		strcpy(out->local, "any");
	else
		addr_text(&p->way.params.local, out->local, sizeof(out->local));
	snprintf(out->why, sizeof(out->why), "%.*s", (int)sizeof(out->why) - 1, p->why.text);
	for (unsigned i = 0; i < cl->nlanes; i++)
		add_stats(out, &cl->lanes[i].target.path_stats[path], &nlat);
	if (nlat)
		out->latency_ns /= nlat;
}

unsigned nfs_paths_info(struct nfs_client *cl, struct nfs_path_info *out, unsigned max)
{
	unsigned n = 0;

	nfs_each_lane(cl, lane_gauges, NULL);
	pthread_mutex_lock(&cl->control->mu);
	for (unsigned i = 0; i < NFS_PATHS_MAX; i++) {
		if (!cl->server.path[i].used)
			continue;
		if (n < max)
			fill(cl, i, &out[n]);
		n++;
	}
	pthread_mutex_unlock(&cl->control->mu);
	return n;
}

/* ---- changes ---- */

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
	nfs_each_lane(cl, zero_stats, id);
	pthread_mutex_lock(&cl->control->mu);
	rc = nfs_connector_start(p);
	if (rc) {
		p->used = false;
		err_set(eb, rc, "cannot start a thread: %s", strerror(-rc));
	} else {
		each_connection(s, *id, begin_anew, NULL);
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
		k->drain_until_ns = mono_ns() + DRAIN_MS * NS_PER_MS;
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
	if (!force && count_used(s) == 1)
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
		each_connection(&cl->server, id, forget_wish, NULL);
		free_place(&cl->server, id);
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
			rr_link_reset(k->link, -ECONNRESET, "reconnect was asked for");
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
		each_connection(&cl->server, id, begin_anew, NULL);
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
