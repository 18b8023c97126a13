/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A target: what a lane has of a server, its connections and the version's data.
 *
 * When the last connection is lost, the target keeps its calls until the connector brings
 * another one. But calls that may run on any lane (NFS_CALL_ANY_LANE: renewal, recovery,
 * unmount) end with -ENOTCONN when another lane has a connection to this server, at once or
 * at the lane's next tick.
 *
 * A new connection has one credit until its first reply, and the calls of the lost one go
 * first. If the server does not answer the first of them (its file system hangs, or it is
 * busy with the first sending and silent to the second), that call would take the credit of
 * each new connection, and all other calls of the lane would wait behind it. So when a call
 * was without an answer for long, the first message on the new connection is a ping
 * (procedure NULL), which any server answers. Its reply brings credits for the others.
 */
#include <errno.h>
#include "nfs/internal.h"
#include "nfs/close_ride.h"
#include "xdr_msg.h"

void nfs_server_init(struct nfs_client *cl)
{
	cl->server = (struct nfs_server){
		.client = cl, .name = cl->cfg.server, .version = cl->cfg.version,
		.auth = cl->cfg.auth ? cl->cfg.auth : &rpc_auth_sys,
	};
	nfs_paths_init(&cl->server);
	close_rides_init(&cl->server.close_rides);
	list_init(&cl->control->calls);
}

void nfs_server_fini(struct nfs_client *cl)
{
	close_rides_fini(&cl->server.close_rides);
}

/* ---- connections ---- */

/* A call that could run elsewhere; NULL: there is none. One at a time, because giving a
 * call up changes the lane's list. */
static struct nfs_call *target_movable(const struct nfs_target *t)
{
	list_for_each_entry(struct nfs_call, c, &t->lane->running, eng.run_node)
		if (c->target == t && (c->flags & NFS_CALL_ANY_LANE) &&
		    c->eng.rr.state != RR_CALL_INFLIGHT)
			return c;
	return NULL;
}

bool nfs_server_is_up(const struct nfs_server *s)
{
	for (unsigned i = 0; i < NFS_LANES_MAX; i++)
		if (s->targets[i] && atomic_load(&s->targets[i]->up))
			return true;
	return false;
}

uint64_t nfs_server_replied_ns(const struct nfs_server *s)
{
	uint64_t newest = 0;

	for (unsigned i = 0; i < NFS_LANES_MAX; i++) {
		const struct nfs_target *t = s->targets[i];
		uint64_t ns = t ? atomic_load_explicit(&t->last_reply_ns, memory_order_relaxed) : 0;

		newest = ns > newest ? ns : newest;
	}
	return newest;
}

void nfs_target_give_back(struct nfs_target *t)
{
	struct nfs_call *c;

	if (atomic_load(&t->up) || !nfs_server_is_up(t->server))
		return;
	while ((c = target_movable(t))) {
		if (c->eng.rr.state == RR_CALL_WAITING)
			rr_cancel(t->conn, &c->eng.rr, -ENOTCONN);
		else
			nfs_give_up(c, -ENOTCONN);
	}
}

/* ---- the ping ---- */

/* A call that has waited so long for its reply may wait for ever. */
#define SILENT_NS 1000000000ull

static void ping_done(struct rr_call *rr, int status)
{
	struct nfs_target *t = container_of(rr, struct nfs_target, ping);

	(void)status;           /* its credits count, nothing else */
	nfs_probe_put(t, rr);
}

static bool needs_ping(const struct nfs_target *t)
{
	uint64_t sent = rr_first_replay_ns(t->conn);

	return !t->ping.msg && sent && (t->timed_out || loop_now(t->lane->loop) - sent >= SILENT_NS);
}

/* If there is no buffer for it, things go on as without one. */
static void target_ping(struct nfs_target *t)
{
	const struct nfs_probe null = { .done = ping_done };

	if (nfs_probe_encode(t, &t->ping, &null, NULL) == 0)
		rr_submit_first(t->conn, &t->ping);
}

/* ---- up and down ---- */

void nfs_target_expects(struct nfs_target *t)
{
	if (needs_ping(t))
		target_ping(t);
	atomic_store(&t->up, true);
}

void nfs_target_changed(struct nfs_target *t, int err)
{
	const struct nfs_front *front = t->server->client->cfg.front;
	bool up = rr_is_up(t->conn), was = atomic_exchange(&t->up, up);

	if (err)
		t->timed_out = err == -ETIMEDOUT;
	nfs_target_give_back(t);
	/* Now, because on the next connection they are in flight again. */
	if (err)
		nfs_expire(t->lane);
	nfs_lane_pump(t->lane);
	/* nfs_target_expects() has promised it already, and other lanes may have seen that. */
	if (front && t == &t->lane->target && (was != up || t->told_up != up)) {
		t->told_up = up;
		front->lane_changed(t->lane);
	}
}

/* ---- calls of the server ---- */

/* On whichever connection it comes: who calls, and about what, is in the call (nfs4_back.c). */
static uint32_t on_called(void *target, const void *msg, uint32_t len, void *reply, uint32_t room)
{
	struct nfs_target *t = target;
	XDR in, out;

	xdr_msg_create(&in, (void *)(uintptr_t)msg, len, XDR_DECODE);
	xdr_msg_create(&out, reply, room, XDR_ENCODE);
	return rpcserve(atomic_load(&t->server->program), t, &in, &out);
}

/* ---- life ---- */

static const struct rr_events events = { .down = nfs_connection_down, .called = on_called };

int nfs_target_init(struct nfs_target *t, struct nfs_server *s, struct nfs_lane *l)
{
	const struct nfs_config *cfg = &s->client->cfg;
	const struct rr_config rc = {
		.policy = cfg->policy, .path_stats = t->path_stats, .credits = cfg->credits,
		.lane = l->index, .nlanes = cfg->lanes, .memreg = cfg->memreg, .windows = s->windows,
		.reserve = cfg->heartbeat_ms != 0,
	};

	*t = (struct nfs_target){ .server = s, .lane = l };
	atomic_init(&t->last_reply_ns, loop_now(l->loop));
	nfs_connections_init(t);
	s->targets[l->index] = t;
	list_add_tail(&l->targets, &t->node);
	t->conn = rr_conn_new(&rc, l->loop, &l->mag, &l->stats, &events, t);
	if (!t->conn)
		return -ENOMEM;
	nfs_heartbeat_start(t);
	return s->version->target_init ? s->version->target_init(t) : 0;
}

void nfs_target_fini(struct nfs_target *t)
{
	if (!t->server)
		return;
	nfs_connections_forget(t);
	loop_timer_clear(&t->heartbeat);
	rr_conn_free(t->conn);
	nfs_connections_fini(t);
	if (t->ping.msg)
		ping_done(&t->ping, 0);
	if (t->vdata && t->server->version->target_fini)
		t->server->version->target_fini(t);
	list_del(&t->node);
	t->server->targets[t->lane->index] = NULL;
}
