/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connectors: one thread for each path, which makes the connections of all lanes on it
 * (nfs_connection.wanted), one after the other. It blocks in nfs_connection_make(), for seconds
 * if the address is silent. (When the next attempt is due: paths.c.)
 *
 * A connector is started with the first path in its place, and waits for the next one when that
 * is removed. It ends with the mount.
 */
#include "nfs/internal.h"

#define NS_PER_MS 1000000ull
#define IDLE_MS   60000u

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
		nfs_connection_make(k);
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
