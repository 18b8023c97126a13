/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is reported of the table of paths: nfs_paths_info(), and for short nfs_chosen_of(). The thread that answers control
 * commands runs this, and the one that writes the statistics. What a lane knows of its own links (calls in
 * flight, credits) the lane itself writes down first; the rest are counters that lanes add to at
 * any time, and the places of the table, under control->mu.
 */
#include <netinet/in.h>
#include <string.h>
#include "nfs/chosen.h"
#include "nfs/paths_impl.h"

/* Each lane's connections as they are now. */
static void lane_gauges(struct nfs_lane *l, void *arg)
{
	struct nfs_target *t = &l->target;

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
	struct times_sum times = { 0 };

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
	times_sum_add(&times, &st->times);
	for (unsigned i = 0; i < TIMES_BUCKETS; i++)
		out->histogram[i] += times.bucket[i];
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

static enum nfs_path_state state_of(const struct nfs_path *p)
{
	return !p->used ? NFS_PATH_NONE : p->removing ? NFS_PATH_REMOVING :
	       p->refused ? NFS_PATH_REFUSED : p->up ? NFS_PATH_CONNECTED :
	       p->known ? NFS_PATH_RECONNECTING : NFS_PATH_CONNECTING;
}

static void paths_info_fill(struct nfs_client *cl, unsigned path, struct nfs_path_info *out)
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

unsigned nfs_paths_info(struct nfs_client *cl, struct nfs_path_info out[NFS_PATHS_MAX])
{
	unsigned n = 0;

	nfs_each_lane(cl, lane_gauges, NULL);
	pthread_mutex_lock(&cl->control->mu);
	for (unsigned i = 0; i < NFS_PATHS_MAX; i++)
		if (cl->server.path[i].used)
			paths_info_fill(cl, i, &out[n++]);
	pthread_mutex_unlock(&cl->control->mu);
	return n;
}

struct nfs_chosen nfs_chosen_of(struct nfs_client *cl)
{
	struct nfs_server *s = &cl->server;
	struct nfs_chosen c = {
		.version = s->version->name,
		.lanes = cl->nlanes,
		.credits = cl->cfg.credits,
		.slots = s->version->slots ? s->version->slots(s) : 0,
		.rsize = cl->rsize,
		.wsize = cl->wsize,
	};
	const struct nfs_path *first = &s->path[s->first];

	pthread_mutex_lock(&cl->control->mu);
	c.paths = paths_count(s);
	c.fabric = first->way.fabric->name;
	c.memreg = first->facts.memreg ? first->facts.memreg : "";
	c.inline_send = first->facts.inline_send;
	c.inline_recv = first->facts.inline_recv;
	c.remote_inval = first->facts.remote_inval;
	pthread_mutex_unlock(&cl->control->mu);
	c.connections = c.paths * c.lanes * nfs_conns_of(cl);
	c.locked = cl->nlanes * (uint64_t)arena_bytes(&cl->cfg.buffers) +
		   c.connections * (uint64_t)rr_recv_bytes(c.credits);
	return c;
}
