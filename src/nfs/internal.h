/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of src/nfs share. Not for the front end.
 *
 * Threads of a mount:
 *   lanes      one per processor, with a connection on each path: all file operations;
 *              never block
 *   connector  sets lost connections up again; blocks in rr_link_open()
 *   control    recovery of lost state, lease; blocks in nfs_call_sync()
 * The connector must not wait for the control thread or for a lane's calls, because those
 * may be waiting for a connection.
 *
 * The version's data for the mount (cl->server.vdata: client id, session) has one user at a
 * time, so it needs no lock:
 *
 *   nfs_client_new    mounting thread    version->mount()
 *        |  the control thread is started
 *   mounted           control thread     version->recover(), version->tick()
 *        |  the control thread has ended
 *   nfs_client_free   unmounting thread  version->umount(), version->free()
 *
 * A lane may find state lost at any time. During the mount only control calls run. They end
 * with -EAGAIN, and the mounting thread repairs the state. A control thread that cannot be
 * ended keeps the client alive, and the server is told nothing.
 */
#ifndef NFS_INTERNAL_H
#define NFS_INTERNAL_H

#include <pthread.h>
#include "nfs/nfs.h"

struct nfs_control {
	pthread_mutex_t mu;
	pthread_cond_t cond;            /* CLOCK_MONOTONIC; for everything below */
	bool stopping;                  /* control thread: end, and give up waiting */
	bool recover;                   /* a lane has lost its state */
	struct list targets;            /* all targets of all lanes (nfs_target.all) */
	struct list calls;              /* of nfs_call_sync(), as long as they exist */
	/* Only the control thread uses these: */
	unsigned in_a_row;              /* recoveries that did not last */
	bool counts;                    /* set by the version: this recovery counts in in_a_row */
	uint64_t recovered_ns;          /* when the last one ended */
	bool quiet;                     /* the log already says that recoveries go on */

	struct nfs_thread {
		pthread_t tid;
		bool started, ended;
	} connector, control;
	bool connector_stop;
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
/* Lane thread, or before it starts: takes a connection into use. */
int nfs_target_connected(struct nfs_target *t, struct rr_link *link);
/* Lane thread: if this target has no connection and another lane has one to the same
 * server, ends the calls that may run on any lane with -ENOTCONN. */
void nfs_target_give_back(struct nfs_target *t);

/* lane.c */
/* The buffers of all lanes. Before the first nfs_lane_init(). 0 or -errno. */
int nfs_buffers_init(struct nfs_client *cl);
int nfs_lane_init(struct nfs_client *cl, unsigned index, struct errbuf *eb);
int nfs_lane_start(struct nfs_lane *l);
void nfs_lane_stop(struct nfs_lane *l);
/* The lane's thread: on a soft mount, ends calls whose time is up, or gives up the connection
 * that they are in flight on. */
void nfs_lane_expire(struct nfs_lane *l);
void nfs_lane_fini(struct nfs_lane *l);

/* engine.c, lane thread: ends an operation that is not with the transport: one that
 * waits, is parked, or was told to come later. */
void nfs_give_up(struct nfs_call *c, int status);
/* The same as nfs_start_at(), but c never rides, and waits for the next nfs_lane_pump(). */
void nfs_begin(struct nfs_target *t, struct nfs_call *c);
/* Any thread: CLOSE frees its open, whatever came of it. */
void nfs_open_drop(struct nfs_call *c);
/* First wait after "come later"; a variable for the tests. */
extern unsigned nfs_later_first_ms;

/* control.c */
int nfs_connector_start(struct nfs_client *cl);
int nfs_control_start(struct nfs_client *cl);
/* They return false if the thread is still blocked; it then keeps the client alive. */
bool nfs_connector_stop(struct nfs_client *cl, unsigned timeout_ms);
bool nfs_control_stop(struct nfs_client *cl, unsigned timeout_ms);
/* Any thread: a call found the server's state lost. */
void nfs_control_recover(struct nfs_client *cl);
/* The thread that recovers: sleeps; the end of the mount ends the sleep. */
void nfs_control_nap(struct nfs_client *cl, unsigned ms);
/* When the lane's thread and its connections have ended: frees its calls of nfs_call_sync(),
 * which nobody waits for any more. */
void nfs_calls_forget(struct nfs_lane *l);
/* connector.c, any thread: the target has no connection on that path. */
void nfs_connect_request(struct nfs_target *t, unsigned path);
/* When connector and lane have ended: drops the links that the lane has not taken. */
void nfs_connect_forget(struct nfs_target *t);
void nfs_connector(struct nfs_client *cl);
/* Pause between the first attempts of an outage; a variable for the tests. */
extern unsigned nfs_retry_first_ms;
/* Monotonic now + ms, for pthread_cond_timedwait on control->cond. */
void nfs_deadline(struct timespec *ts, unsigned ms);

#endif
