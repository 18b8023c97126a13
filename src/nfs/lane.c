/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A lane's life: loop, magazine and thread. Its clock looks once a second for calls that
 * have waited too long.
 *
 * When there is no reply for `timeo`, the connection is dropped, because a call cannot be
 * sent twice on one connection (its credit and its buffers are with the server). Everything
 * is replayed on a new connection, and that call has once more `timeo` the next time, up to ten
 * of them. A hard mount repeats that for ever; for a soft one see expire.c.
 *
 * (The lane's connections: target.c.)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/thread.h"
#include "nfs/internal.h"
#include "nfs/close_ride.h"

#define TICK_MS 1000u
#define NS_PER_MS 1000000ull
/* The log says "not responding" when a call has waited for so long. */
#define SLOW_MS 5000u

bool nfs_lane_up(const struct nfs_lane *l)
{
	return atomic_load(&l->target.up);
}

/* ---- clock ---- */

static void say_slow(struct nfs_lane *l, uint64_t now)
{
	const struct nfs_call *oldest = NULL;
	bool slow;

	if (!list_empty(&l->running))
		oldest = container_of(l->running.next, struct nfs_call, eng.run_node);
	slow = oldest && now - oldest->eng.start_ns > SLOW_MS * NS_PER_MS &&
	       now - atomic_load_explicit(&l->target.last_reply_ns, memory_order_relaxed) >
	       SLOW_MS * NS_PER_MS;
	if (slow == l->slow)
		return;
	l->slow = slow;
	if (slow)
		log_warn("server %s is not responding, still trying", l->client->cfg.server);
	else
		log_info("server %s is responding again", l->client->cfg.server);
}

static void on_tick(struct loop_timer *t)
{
	struct nfs_lane *l = container_of(t, struct nfs_lane, tick);
	const struct nfs_config *cfg = &l->client->cfg;
	uint64_t now = loop_now(l->loop), timeo = cfg->timeo_ms * NS_PER_MS;

	loop_timer_set(l->loop, t, TICK_MS);
	say_slow(l, now);
	list_for_each_entry(struct nfs_target, to, &l->targets, node) {
		if (rr_expire(to->conn, now, timeo, -ETIMEDOUT, "no reply within timeo"))
			nfs_kept_say(l, now);
		nfs_target_give_back(to);
		/* The device may have room now for what a call registers. */
		rr_retry(to->conn);
	}
	nfs_expire(l);
}

/* ---- life ---- */

static void init_lists(struct nfs_lane *l)
{
	list_init(&l->waiting);
	list_init(&l->parked);
	list_init(&l->mapping);
	list_init(&l->running);
	close_rides_lane_init(l);
	list_init(&l->targets);
	loop_timer_init(&l->tick, on_tick);
}

/* Another lane has put back buffers that this one needed. */
static void on_buffers(void *ctx)
{
	struct nfs_lane *l = ctx;

	list_for_each(n, &l->targets)
		rr_retry(container_of(n, struct nfs_target, node)->conn);
	nfs_lane_pump(l);
	nfs_buffers_freed(l);
}

int nfs_lane_init(struct nfs_client *cl, unsigned index, struct errbuf *eb)
{
	const struct nfs_config *cfg = &cl->cfg;
	struct nfs_lane *l = &cl->lanes[index];
	int err = -ENOMEM;

	l->client = cl;
	l->index = index;
	l->window = cfg->credits;
	atomic_store(&l->kept_from_ns, NFS_KEPT_FROM_NS);
	init_lists(l);
	l->thread = calloc(1, sizeof(*l->thread));
	l->loop = loop_new(cfg->clock);
	if (!l->thread || !l->loop)
		goto fail;
	magazine_init(&l->mag, &cl->arena, l->loop, on_buffers, l);
	err = nfs_target_init(&l->target, &cl->server, l);
	if (err)
		goto fail;
	loop_timer_set(l->loop, &l->tick, TICK_MS);
	return 0;
fail:
	return err_set(eb, err, "cannot set up lane %u of %u: %s", index + 1, cfg->lanes,
		       strerror(-err));
}

/* Without this lane nothing can be ended in order: its requests have no answer, and whoever
 * asks all lanes waits for it. So the process ends, as if it had crashed: programs get ENOTCONN
 * until somebody unmounts, and nobody writes to the directory below by mistake. */
static void *lane_main(void *arg)
{
	const struct nfs_lane *l = arg;
	int rc = loop_run(l->loop);

	if (!rc)
		return NULL;
	log_err("lane %u cannot go on (%s): this process ends, and data that was not yet sent is lost; "
		"unmount by hand",
		l->index, strerror(-rc));
	_exit(EXIT_FAILURE);
}

int nfs_lane_start(struct nfs_lane *l)
{
	int rc = thread_start(&l->thread->tid, lane_main, l);

	l->thread->started = rc == 0;
	return rc;
}

void nfs_lane_stop(struct nfs_lane *l)
{
	if (!l->thread || !l->thread->started)
		return;
	loop_stop(l->loop);
	pthread_join(l->thread->tid, NULL);
	l->thread->started = false;
}

void nfs_lane_fini(struct nfs_lane *l)
{
	if (!l->client)
		return;
	nfs_target_fini(&l->target);
	nfs_calls_forget(l);
	magazine_fini(&l->mag);
	if (l->loop)
		loop_free(l->loop);
	free(l->thread);
}
