/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Heartbeats: is a connection that says nothing dead?
 *
 *     last reply            H/2               3H/4               H = heartbeat=
 *        |-------------------|-----------------|------------------|
 *                         heartbeat         the lane's other    still nothing: dead, if one of
 *                         on it             paths are asked     the conditions below is true
 *
 * A connection that has heard nothing for half of the time sends a call of procedure NULL. For
 * that each connection keeps a credit (choose.c), because calls without answers have the others.
 * (A server that grants less than four credits gets no heartbeat while they are in use.)
 *
 * A server whose threads all wait for a disk answers nothing on any connection. To break
 * connections then would make it worse: all calls would come a second time, and each attempt to
 * connect again, of each client, would wait at the server until it has time. So silence alone is
 * not enough. One of these must be true as well:
 *
 *   - another path has answered a call that was sent after this heartbeat and after the last
 *     reply: then it is the path and not the server. It may be another lane's connection: a
 *     server that takes no more connections leaves some lanes with one;
 *   - the connection is on trial: nobody needs it yet.
 *
 * A heartbeat also measures the latency of a connection that has no short calls.
 *
 * Otherwise `timeo` decides (lane.c), or the fabric, which breaks a connection by itself when
 * nothing is acknowledged for long.
 *
 * The lane's thread runs this, each for its own connections, and tells the others what it knows
 * of each path (answered_ns). The same clock ends connections of
 * a path that is being removed, when their calls do not end by themselves.
 */
#include <errno.h>
#include "nfs/internal.h"

#define NS_PER_MS 1000000ull
#define TICK_MIN_MS 20u
#define TICK_MAX_MS 500u
/* Ticks in the time of a heartbeat. */
#define TICKS 8u

static uint64_t heartbeat_ns(const struct nfs_target *t)
{
	return (uint64_t)t->server->client->cfg.heartbeat_ms * NS_PER_MS;
}

/* It has been asked, and has said nothing since. */
static uint64_t silent_since(const struct nfs_connection *k)
{
	uint64_t heard = rr_link_now(k->link).heard_ns;

	return heard > k->asked_ns ? heard : k->asked_ns;
}

/* Is it known that the server answers there? Of one on trial, after the first step of its check,
 * unless the check has found another server and is ending the connection. (The check may wait for
 * a recovery that waits for the silent path.) */
static bool is_the_server(const struct nfs_connection *k)
{
	return k->link && (k->up || (k->check.step && !k->check.why.text[0]));
}

/* For the other lanes. */
static void heartbeat_publish(struct nfs_target *t, unsigned path)
{
	uint64_t newest = 0;

	for (unsigned i = 0; i < NFS_CONNS_MAX; i++) {
		const struct nfs_connection *k = &t->conns[path][i];
		uint64_t at = is_the_server(k) ? rr_link_now(k->link).answered_ns : 0;

		newest = at > newest ? at : newest;
	}
	atomic_store_explicit(&t->answered_ns[path], newest, memory_order_relaxed);
}

static bool other_lanes_answer(const struct nfs_connection *k, uint64_t since)
{
	for (unsigned lane = 0; lane < NFS_LANES_MAX; lane++) {
		struct nfs_target *t = k->target->server->targets[lane];

		for (unsigned path = 0; t && path < NFS_PATHS_MAX; path++)
			if (path != k->path && atomic_load_explicit(&t->answered_ns[path],
								    memory_order_relaxed) > since)
				return true;
	}
	return false;
}

/* Has a connection of another path answered what was sent after this heartbeat, and after this
 * connection's last reply? */
static bool others_answer(const struct nfs_connection *k)
{
	const struct nfs_target *t = k->target;
	uint64_t since = silent_since(k);

	for (unsigned path = 0; path < NFS_PATHS_MAX; path++)
		for (unsigned i = 0; i < NFS_CONNS_MAX; i++) {
			const struct nfs_connection *o = &t->conns[path][i];

			if (path != k->path && is_the_server(o) &&
			    rr_link_now(o->link).answered_ns > since)
				return true;
		}
	return other_lanes_answer(k, since);
}

static void ask_others(const struct nfs_connection *k)
{
	struct nfs_target *t = k->target;
	uint64_t since = silent_since(k);

	for (unsigned path = 0; path < NFS_PATHS_MAX; path++)
		for (unsigned i = 0; i < NFS_CONNS_MAX; i++) {
			struct nfs_connection *o = &t->conns[path][i];

			if (path != k->path && o->link && o->up &&
			    rr_link_now(o->link).answered_ns <= since)
				nfs_connection_ask(o);
		}
}

static void give_up(struct nfs_connection *k)
{
	stat_add_to(&k->target->path_stats[k->path].missed, 1);
	rr_link_reset(k->link, -ETIMEDOUT, "no answer to a heartbeat");
}

static void heartbeat_look(struct nfs_connection *k, uint64_t now)
{
	struct rr_link_now l = rr_link_now(k->link);
	uint64_t whole = heartbeat_ns(k->target), silent = now - l.heard_ns;

	if (k->drain_until_ns && now >= k->drain_until_ns) {
		rr_link_reset(k->link, -ESHUTDOWN, "its path is being removed");
		return;
	}
	if (!whole)
		return;
	/* One that has nothing but data to carry is measured as well: RR_MIN_LATENCY must see that
	 * it has become slow. */
	if (silent < whole / 2) {
		if (k->up && now - l.measured_ns >= whole / 2)
			nfs_connection_ask(k);
		return;
	}
	if (!k->up) {
		if (silent >= whole && k->asked)
			give_up(k);
		return;
	}
	if (!k->asked) {
		nfs_connection_ask(k);
		return;
	}
	if (silent >= whole && others_answer(k))
		give_up(k);
	else if (silent >= whole / 4 * 3)
		ask_others(k);
}

static void on_beat(struct loop_timer *timer)
{
	struct nfs_target *t = container_of(timer, struct nfs_target, heartbeat);
	uint64_t now = loop_now(t->lane->loop);

	for (unsigned path = 0; path < NFS_PATHS_MAX; path++) {
		heartbeat_publish(t, path);
		for (unsigned i = 0; i < NFS_CONNS_MAX; i++)
			if (t->conns[path][i].link)
				heartbeat_look(&t->conns[path][i], now);
	}
	nfs_heartbeat_start(t);
}

void nfs_heartbeat_start(struct nfs_target *t)
{
	unsigned beat = t->server->client->cfg.heartbeat_ms, ms = beat ? beat / TICKS : TICK_MAX_MS;

	if (!t->heartbeat.fn)
		loop_timer_init(&t->heartbeat, on_beat);
	loop_timer_set(t->lane->loop, &t->heartbeat,
		       ms < TICK_MIN_MS ? TICK_MIN_MS : ms > TICK_MAX_MS ? TICK_MAX_MS : ms);
}
