/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connector: one thread that sets lost connections up again. A target asks for a
 * connection (nfs_connect_request). The connector blocks in rr_link_open(), and posts the
 * new link to the lane's loop. The first attempt for a lane and path is made at once,
 * unless the lost connection was made less than a second ago. Further attempts are 1 s
 * apart, doubling to 8 s.
 *
 * A link on its way to the lane is remembered in attempt[].coming, by pointers that the
 * connector sets and the lane clears. If the lane ends first, nfs_connect_forget() drops it.
 */
#include <errno.h>
#include <stdlib.h>
#include "nfs/internal.h"

#define RETRY_SHIFT_MAX 3u
#define NS_PER_MS       1000000ull

unsigned nfs_retry_first_ms = 1000;

struct up_msg {
	struct loop_msg m;
	struct nfs_target *target;
	unsigned path;
	struct rr_link *link;
};

static void on_up(struct loop_msg *m)
{
	struct up_msg *u = container_of(m, struct up_msg, m);
	struct nfs_target *t = u->target;
	unsigned path = u->path;
	int rc;

	atomic_store(&t->attempt[path].coming, NULL);
	log_info("connection %u to %s: %s", t->lane->index, t->server->name,
		 rr_link_text(u->link));
	rc = nfs_target_connected(t, u->link);
	free(u);
	if (rc)
		nfs_connect_request(t, path);
	else
		nfs_lane_pump(t->lane);
}

void nfs_connect_request(struct nfs_target *t, unsigned path)
{
	struct nfs_control *ctl = t->server->client->control;

	pthread_mutex_lock(&ctl->mu);
	t->attempt[path].wanted = true;
	pthread_cond_broadcast(&ctl->cond);
	pthread_mutex_unlock(&ctl->mu);
}

void nfs_connect_forget(struct nfs_target *t)
{
	for (unsigned path = 0; path < NFS_PATHS_MAX; path++) {
		struct up_msg *u = atomic_exchange(&t->attempt[path].coming, NULL);

		if (u)
			rr_link_drop(u->link);
		free(u);
	}
}

static void attempt(struct nfs_target *t, unsigned path)
{
	struct nfs_attempt *a = &t->attempt[path];
	struct up_msg *u = calloc(1, sizeof(*u));
	struct errbuf eb = { .text = "out of memory" };
	unsigned ms;

	if (u && rr_link_open(t->conn, path, &u->link, &eb) == 0) {
		a->failures = 0;
		/* If this connection does not last, the next attempt waits. */
		a->retry_ns = mono_ns() + nfs_retry_first_ms * NS_PER_MS;
		u->target = t;
		u->path = path;
		u->m.fn = on_up;
		atomic_store(&a->coming, u);
		loop_post(t->lane->loop, &u->m);
		return;
	}
	free(u);
	/* Log the reason once per outage, further ones for debugging only. */
	if (a->failures == 0)
		log_warn("cannot reconnect yet: %s", eb.text);
	else
		log_debug("connection %u: attempt %u failed: %s", t->lane->index, a->failures + 1,
			  eb.text);
	ms = nfs_retry_first_ms << (a->failures < RETRY_SHIFT_MAX ? a->failures : RETRY_SHIFT_MAX);
	a->failures++;
	a->retry_ns = mono_ns() + ms * NS_PER_MS;
	nfs_connect_request(t, path);
}

/* With ctl->mu held: a target and path that are due, or NULL and the ms until some are. */
static struct nfs_target *next_due(const struct nfs_control *ctl, unsigned *path,
				   unsigned *wait_ms)
{
	uint64_t now = mono_ns(), best = UINT64_MAX;

	for (*path = 0; *path < NFS_PATHS_MAX; ++*path) {
		list_for_each(n, &ctl->targets) {
			struct nfs_target *t = container_of(n, struct nfs_target, all);
			const struct nfs_attempt *a = &t->attempt[*path];

			if (!a->wanted)
				continue;
			if (a->retry_ns <= now)
				return t;
			if (a->retry_ns < best)
				best = a->retry_ns;
		}
	}
	*wait_ms = best == UINT64_MAX ? 60000 : (unsigned)((best - now) / NS_PER_MS) + 1;
	return NULL;
}

void nfs_connector(struct nfs_client *cl)
{
	struct nfs_control *ctl = cl->control;

	pthread_mutex_lock(&ctl->mu);
	while (!ctl->connector_stop) {
		struct timespec ts;
		unsigned ms = 0, path;
		struct nfs_target *t = next_due(ctl, &path, &ms);

		if (!t) {
			nfs_deadline(&ts, ms);
			pthread_cond_timedwait(&ctl->cond, &ctl->mu, &ts);
			continue;
		}
		t->attempt[path].wanted = false;
		pthread_mutex_unlock(&ctl->mu);
		attempt(t, path);
		pthread_mutex_lock(&ctl->mu);
	}
	pthread_mutex_unlock(&ctl->mu);
}
