/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of src/nfs share. Not for the front end.
 *
 * Threads of a mount:
 *   lanes      one per processor, with a connection on each path: all file operations;
 *              never block
 *   connectors one for each path: they make connections, at first and when one is lost; block
 *              in rr_link_open(). So a path that does not answer does not delay another one
 *   control    recovery of lost state, lease; blocks in nfs_call_sync()
 *   keeper     the arena's (buffers.c); blocks while it maps and registers memory
 *   nlm        of version 3 with locks (nfs3/nlm.h); blocks in calls of the lock manager
 * A connector must not wait for the control thread or for a lane's calls, because those
 * may be waiting for a connection.
 *
 * The version's data for the mount (server->vdata: client id, session) has one user at a
 * time, so it needs no lock:
 *
 *   nfs_client_new    mounting thread    version->mount()
 *        |  the control thread is started
 *   mounted           control thread     version->recover(), version->tick()
 *        |  the control thread has ended
 *   nfs_client_free   unmounting thread  version->umount(), version->free()
 *
 * (Version 3's is for lanes and its lock manager's thread as well: nfs3_impl.h.)
 *
 * A lane may find state lost at any time. During the mount only control calls run. They end
 * with -EAGAIN, and the mounting thread repairs the state. A control thread that cannot be
 * ended keeps the client alive, and the server is told nothing.
 */
#pragma once

#include <pthread.h>
#include "nfs/nfs.h"

struct nfs_control {
	pthread_mutex_t mu;
	pthread_cond_t cond;            /* CLOCK_MONOTONIC; for everything below */
	bool stopping;                  /* control thread: end, and give up waiting */
	bool recover;                   /* a lane has lost its state */
	struct list calls;              /* of nfs_call_sync(), as long as they exist */
	/* Only the control thread uses these: */
	unsigned in_a_row;              /* recoveries that did not last */
	bool counts;                    /* set by the version: this recovery counts in in_a_row */
	uint64_t recovered_ns;          /* when the last one ended */
	bool quiet;                     /* the log already says that recoveries go on */
	unsigned delays;                /* recoveries in a row after which the server wants more to
					 * be asked for later ... */
	uint64_t later_ns;              /* ... and when that is; 0: it does not */

	struct nfs_thread control;
	bool connector_stop;            /* for all of them */
	bool mounted;                   /* (un)mounting thread: version->mount() has succeeded */
};

struct nfs_lane_thread {
	pthread_t tid;
	bool started;
};

/* target.c */
/* The server that cl->cfg names. */
void nfs_server_init(struct nfs_client *cl);
/* No open may be left. */
void nfs_server_fini(struct nfs_client *cl);
/* For a lane that has its loop and buffers. 0 or -errno. Call nfs_target_fini() in any
 * case. */
int nfs_target_init(struct nfs_target *t, struct nfs_server *s, struct nfs_lane *l);
/* After the lane's thread has ended. */
void nfs_target_fini(struct nfs_target *t);
/* Lane thread: how many connections there are, and what waits for them, has changed. */
void nfs_target_changed(struct nfs_target *t, int err);
/* Lane thread: before a connection that is not checked is taken into use. */
void nfs_target_expects(struct nfs_target *t);
/* Any thread: has any lane a connection to this server? One that is being checked does not
 * count. */
bool nfs_server_is_up(const struct nfs_server *s);
/* Lane thread: if this target has no connection and another lane has one to the same
 * server, ends the calls that may run on any lane with -ENOTCONN. */
void nfs_target_give_back(struct nfs_target *t);

/* probe.c, lane thread */
struct nfs_probe {
	uint32_t proc, reply_max;       /* reply_max: of the results */
	struct rpc_auth_call *auth;     /* NULL: a call of nobody */
	bool_t (*args)(void *arg, XDR *x);      /* encodes the arguments; NULL: there are none */
	void (*done)(struct rr_call *rr, int status);
};
/* Makes rr ready to be submitted. -EAGAIN: there is no buffer now; -EMSGSIZE: it does not fit in
 * one. Then rr->msg is NULL. */
int nfs_probe_encode(const struct nfs_target *t, struct rr_call *rr, const struct nfs_probe *p,
		     void *arg);
/* Gives its message back, when it is done or was not sent. */
void nfs_probe_put(const struct nfs_target *t, struct rr_call *rr);

/* connection.c */
void nfs_connections_init(struct nfs_target *t);
/* A thread that may block: connects. 0, or -errno with eb set. */
int nfs_connection_open(struct nfs_connection *k, struct rr_link **out, struct errbuf *eb);
/* The connector's thread: the same, and the lane gets the link. Or the path hears why there is
 * none. */
void nfs_connection_make(struct nfs_connection *k);
/* Lane thread, or before it starts: takes the link into use, or on trial. If that fails, or the
 * path is being removed, the link is dropped. */
void nfs_connection_up(struct nfs_connection *k, struct rr_link *link);
/* Lane thread: rr_events.down. */
void nfs_connection_down(void *target, void *connection, int err, const char *why);
/* Lane thread: sends a call of the version's NULL procedure on this connection, if that is
 * possible now, and if none is under way. */
void nfs_connection_ask(struct nfs_connection *k);
/* When connectors and lane have ended: drops the links that the lane has not taken. */
void nfs_connections_forget(struct nfs_target *t);
/* When lane and connections have ended: gives the buffers of calls back. */
void nfs_connections_fini(struct nfs_target *t);

/* heartbeat.c, lane thread */
void nfs_heartbeat_start(struct nfs_target *t);

/* paths.c */
/* How many connections each lane has on each path. */
unsigned nfs_conns_of(const struct nfs_client *cl);
/* The paths that the configuration names. */
void nfs_paths_init(struct nfs_server *s);
/* Any thread: all lanes want their connections on that path. */
void nfs_connect_all(struct nfs_client *cl, unsigned path);
/* The connection's path. */
struct nfs_path *nfs_path_of(const struct nfs_connection *k);
/* Lane thread. The link is here. false: nobody wants it any more. *check: it has to be checked;
 * what the check is told (*in) is set. */
bool nfs_path_arrives(struct nfs_connection *k, bool *check, struct nfs_check *in);
/* Lane thread: the connection takes calls from now on. */
void nfs_path_joined(struct nfs_connection *k);
/* There is no link: it was lost, or could not be made. was_up: nfs_path_joined() had been called.
 * err 0: it may be tried at once; -EXDEV: the path leads to another server. why may be NULL. */
void nfs_path_lost(struct nfs_connection *k, bool was_up, int err, const char *why);

/* Lane thread: buffers of an operation, or of another lane, are back. */
static inline void nfs_buffers_freed(struct nfs_lane *l)
{
	if (l->client->cfg.front)
		l->client->cfg.front->buffers_freed(l);
}

/* buffers.c */
/* The buffers of all lanes. Before the first nfs_lane_init(). 0 or -errno. */
int nfs_buffers_init(struct nfs_client *cl);

/* lane.c */
int nfs_lane_init(struct nfs_client *cl, unsigned index, struct errbuf *eb);
int nfs_lane_start(struct nfs_lane *l);
void nfs_lane_stop(struct nfs_lane *l);
void nfs_lane_fini(struct nfs_lane *l);

/* expire.c, lane thread: on a soft mount, ends calls whose time is up, or gives up the connection
 * that they are in flight on. */
void nfs_expire(struct nfs_lane *l);

/* engine.c, lane thread: ends an operation that is not with the transport: one that
 * waits, is parked, or was told to come later. false: its answer is on the way (nfs_opdef.forget), and
 * it ends by that. */
bool nfs_give_up(struct nfs_call *c, int status);
/* The same as nfs_start_at(), but c never rides, and waits for the next nfs_lane_pump(). */
void nfs_begin(struct nfs_target *t, struct nfs_call *c);
/* Any thread: CLOSE frees its open, whatever came of it. */
void nfs_open_drop(struct nfs_call *c);
/* Lane thread: a call that went another way (nfs_opdef.begin) has ended. rc: as of decode(). */
void nfs_elsewhere_done(struct nfs_call *c, int rc);
/* How often the wait after "come later" doubles (nfs_times.later_ms). */
#define NFS_LATER_SHIFT_MAX 5u

/* message.c, lane thread */
static inline const struct nfs_opdef *nfs_opdef_of(const struct nfs_call *c)
{
	return c->target->server->version->ops[c->op];
}
/* The buffer that it needs: some flavors have file data inside. */
enum arena_class nfs_message_class(const struct nfs_call *c);
/* Into rr->msg, and what is placed beside it. false: it does not fit. */
bool nfs_message_encode(struct nfs_call *c);
/* What the engine does next, see version.h. status: the transport's. */
int nfs_message_result(struct nfs_call *c, int status);

/* threads.c */
/* Monotonic now + ms, for pthread_cond_timedwait on control->cond. */
void nfs_deadline(struct timespec *ts, unsigned ms);
/* Starts fn(arg) with all signals blocked. 0 or -errno. */
int nfs_thread_start(struct nfs_thread *t, void *(*fn)(void *), void *arg);
/* The last that such a thread does. */
void nfs_thread_ended(struct nfs_control *ctl, struct nfs_thread *t);
/* Sets *stop and waits until t has ended; false: it has not. */
bool nfs_thread_stop(struct nfs_control *ctl, struct nfs_thread *t, bool *stop, unsigned timeout_ms);
/* Any thread: a call found the server's state lost. The control thread recovers it. */
void nfs_control_recover(struct nfs_client *cl);

/* control.c */
int nfs_control_start(struct nfs_client *cl);
/* false: the thread is still blocked; it then keeps the client alive. */
bool nfs_control_stop(struct nfs_client *cl, unsigned timeout_ms);
/* The thread that recovers: no lane starts a call that is not a control call any more. */
void nfs_lanes_hold(struct nfs_client *cl);
/* The thread that recovers: lanes hold no longer, and try parked calls again. */
void nfs_lanes_go_on(struct nfs_client *cl);
/* The thread that recovers: sleeps; the end of the mount ends the sleep. */
void nfs_control_nap(struct nfs_client *cl, unsigned ms);
/* When the lane's thread and its connections have ended: frees its calls of nfs_call_sync(),
 * which nobody waits for any more. */
void nfs_calls_forget(struct nfs_lane *l);

/* connector.c */
/* With control->mu held: a thread for that path, unless it has one. 0 or -errno. */
int nfs_connector_start(struct nfs_path *p);
/* false: one is still blocked; it then keeps the client alive. */
bool nfs_connectors_stop(struct nfs_client *cl, unsigned timeout_ms);

/* counted.c */

/* Lane: a call of that kind is made. */
static inline void nfs_counted_begins(struct nfs_call *c, unsigned kind)
{
	c->eng.counted = &c->lane->counted[kind];
	stat_add_to(&c->eng.counted->made, 1);
}

/* How long the server took. */
static inline uint64_t nfs_counted_sent(struct nfs_counted *n, const struct rr_call *rr, uint64_t since_ns,
					uint64_t now_ns)
{
	uint64_t posted_ns = rr->posted_ns;

	stat_add_to(&n->tx_bytes, rr->msg_len + rr->data_len);
	stat_add_to(&n->rx_bytes, rr->reply_len + rr->placed_len);
	if (posted_ns != since_ns)
		stat_add_to(&n->queue_ns, posted_ns - since_ns);
	times_add(&n->rtt, now_ns - posted_ns);
	return now_ns - posted_ns;
}

/* Lane: the same as nfs_counted_odd(), whatever there is about it. In line, as all calls come here. */
static inline void nfs_counted_ends(struct nfs_call *c, int status, int rc)
{
	const struct rr_call *rr = &c->eng.rr;

	if (status | rc | (int)(rr->sends ^ 1) | (int)rr->timeouts)
		nfs_counted_odd(c, status, rc);
	else if (nfs_counted_sent(c->eng.counted, rr, c->eng.counted_ns, loop_turn(c->lane->loop)) >=
		 atomic_load_explicit(&c->lane->kept_from_ns, memory_order_relaxed))
		nfs_kept_add(c, 0, loop_turn(c->lane->loop));
}
