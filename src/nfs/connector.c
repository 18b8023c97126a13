/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connectors: one thread for each path, which makes the connections of all lanes on it
 * (nfs_connection.wanted), one after the other. It blocks in nfs_connection_open(), for seconds
 * if the address is silent, and posts the new link to the lane's loop. (When the next attempt is
 * due: paths.c.)
 *
 * A link on its way to the lane is remembered in `coming`, by pointers that the connector sets
 * and the lane clears. If the lane ends first, nfs_connect_forget() drops it.
 *
 * A connector is started with the first path in its place, and waits for the next one when that
 * is removed. It ends with the mount.
 */
#include <errno.h>
#include <stdlib.h>
#include "nfs/internal.h"

#define NS_PER_MS 1000000ull
#define IDLE_MS   60000u

struct up_msg {
	struct loop_msg m;
	struct nfs_connection *k;
	struct rr_link *link;
};

static void on_up(struct loop_msg *m)
{
	struct up_msg *u = container_of(m, struct up_msg, m);
	struct nfs_connection *k = u->k;
	struct rr_link *link = u->link;

	atomic_store(&k->coming, NULL);
	free(u);
	nfs_connection_up(k, link);
}

void nfs_connect_forget(struct nfs_target *t)
{
	for (unsigned path = 0; path < NFS_PATHS_MAX; path++)
		for (unsigned i = 0; i < NFS_CONNS_MAX; i++) {
			struct up_msg *u = atomic_exchange(&t->conns[path][i].coming, NULL);

			if (u)
				rr_link_drop(u->link);
			free(u);
		}
}

static void attempt(struct nfs_connection *k)
{
	struct up_msg *u = calloc(1, sizeof(*u));
	struct errbuf eb = { .text = "out of memory" };
	int rc = u ? nfs_connection_open(k, &u->link, &eb) : -ENOMEM;

	if (rc) {
		free(u);
		nfs_path_lost(k, false, rc, eb.text);
		return;
	}
	u->k = k;
	u->m.fn = on_up;
	atomic_store(&k->coming, u);
	loop_post(k->target->lane->loop, &u->m);
}

/* With control->mu held: a connection that is due, or NULL and the ms until one is. */
static struct nfs_connection *next_due(const struct nfs_path *p, unsigned *wait_ms)
{
	unsigned path = (unsigned)(p - p->server->path), conns = nfs_conns_of(p->server->client);
	uint64_t now = mono_ns(), best = UINT64_MAX;

	for (unsigned lane = 0; lane < NFS_LANES_MAX; lane++) {
		struct nfs_target *t = p->server->targets[lane];

		for (unsigned i = 0; t && i < conns; i++) {
			struct nfs_connection *k = &t->conns[path][i];

			if (!k->wanted)
				continue;
			if (k->retry_ns <= now)
				return k;
			if (k->retry_ns < best)
				best = k->retry_ns;
		}
	}
	*wait_ms = best == UINT64_MAX ? IDLE_MS : (unsigned)((best - now) / NS_PER_MS) + 1;
	return NULL;
}

static void *connector_main(void *arg)
{
	struct nfs_path *p = arg;
	struct nfs_control *ctl = p->server->client->control;

	pthread_mutex_lock(&ctl->mu);
	while (!ctl->connector_stop) {
		struct timespec ts;
		unsigned ms = 0;
		struct nfs_connection *k = next_due(p, &ms);

		if (!k) {
			nfs_deadline(&ts, ms);
			pthread_cond_timedwait(&ctl->cond, &ctl->mu, &ts);
			continue;
		}
		k->wanted = false;
		k->busy = true;
		pthread_mutex_unlock(&ctl->mu);
		attempt(k);
		pthread_mutex_lock(&ctl->mu);
	}
	pthread_mutex_unlock(&ctl->mu);
	nfs_thread_ended(ctl, &p->connector);
	return NULL;
}

int nfs_connector_start(struct nfs_path *p)
{
	return p->connector.started ? 0 : nfs_thread_start(&p->connector, connector_main, p);
}

bool nfs_connectors_stop(struct nfs_client *cl, unsigned timeout_ms)
{
	bool all = true;

	for (unsigned i = 0; i < NFS_PATHS_MAX; i++) {
		struct nfs_path *p = &cl->server.path[i];

		/* Told once, they end at the same time; only the first that hangs is waited for. */
		if (!nfs_thread_stop(cl->control, &p->connector, &cl->control->connector_stop,
				     all ? timeout_ms : 0))
			all = false;
	}
	return all;
}
