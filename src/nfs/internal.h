/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of src/nfs share. Not for the front end.
 *
 * Threads of a mount:
 *   lanes      one per processor, with a connection on each path: all file operations;
 *              never block
 *   connector  sets lost connections up again; blocks in rr_link_open()
 *   control    recovery of lost state, lease; blocks in nfs_call_sync()
 * The connector must not wait for the control thread or a lane's calls, as
 * those may be waiting for a connection.
 *
 * What the version keeps for the mount (cl->server.vdata: client id, session) has one
 * user at a time, and so no lock:
 *
 *   nfs_client_new    who mounts      version->mount()
 *        |  the control thread is started
 *   mounted           control         version->recover(), version->tick()
 *        |  the control thread has ended
 *   nfs_client_free   who unmounts    version->umount(), version->free()
 *
 * Lanes find state lost at any time. While mounting there are control calls only,
 * which end with -EAGAIN: who mounts mends it. A control thread that cannot be
 * ended keeps the client, and nothing is said to the server.
 */
#ifndef NFS_INTERNAL_H
#define NFS_INTERNAL_H

#include <pthread.h>
#include "nfs/nfs.h"

struct nfs_control {
	pthread_mutex_t mu;
	pthread_cond_t cond;            /* CLOCK_MONOTONIC; for everything below */
	bool stopping;                  /* control thread: end, and give up what it waits for */
	bool recover;                   /* a lane has lost its state */
	struct list targets;            /* all of all lanes (nfs_target.all) */
	/* The control thread's own: */
	unsigned in_a_row;              /* recoveries that did not last, if they count: */
	bool counts;                    /* set by the version: of more than single opens */
	uint64_t recovered_ns;          /* when the last one ended */
	bool quiet;                     /* it was said that this goes on: no more messages */

	struct nfs_thread {
		pthread_t tid;
		bool started, ended;
	} connector, control;
	bool connector_stop;
	bool mounted;                   /* who (un)mounts: version->mount has succeeded */
};

struct nfs_lane_thread {
	pthread_t tid;
	bool started;
};

/* target.c */
/* The server that cl->cfg names. */
void nfs_server_init(struct nfs_client *cl);
/* No open is left. */
void nfs_server_fini(struct nfs_client *cl);
/* Of a lane that has its loop and buffers. 0 or -errno; nfs_target_fini() in any case. */
int nfs_target_init(struct nfs_target *t, struct nfs_server *s, struct nfs_lane *l);
/* When the lane's thread has ended. */
void nfs_target_fini(struct nfs_target *t);
/* Lane thread, or none yet: takes a connection into use. */
int nfs_target_connected(struct nfs_target *t, struct rr_link *link);
/* Lane thread: another lane has a connection to the server and this one has none. Calls
 * that may run on any lane are given back. */
void nfs_target_give_back(struct nfs_target *t);

/* lane.c */
/* The buffers of all lanes, before the first of them. 0 or -errno. */
int nfs_buffers_init(struct nfs_client *cl);
int nfs_lane_init(struct nfs_client *cl, unsigned index, struct errbuf *eb);
int nfs_lane_start(struct nfs_lane *l);
void nfs_lane_stop(struct nfs_lane *l);
void nfs_lane_fini(struct nfs_lane *l);

/* engine.c: lane thread: an operation that the transport does not have ends so: it
 * waits, is parked, or has been told to come later. */
void nfs_give_up(struct nfs_call *c, int status);
/* The first wait of one that is told to come later; a variable for the tests. */
extern unsigned nfs_later_first_ms;

/* control.c */
int nfs_connector_start(struct nfs_client *cl);
int nfs_control_start(struct nfs_client *cl);
/* Return false if the thread is still blocked and keeps the client alive. */
bool nfs_connector_stop(struct nfs_client *cl, unsigned timeout_ms);
bool nfs_control_stop(struct nfs_client *cl, unsigned timeout_ms);
/* Any thread: a call found the server's state gone. */
void nfs_control_recover(struct nfs_client *cl);
/* connector.c: any thread: the target has no connection on that path. */
void nfs_connect_request(struct nfs_target *t, unsigned path);
void nfs_connector(struct nfs_client *cl);
/* Between the first attempts of an outage; a variable for the tests. */
extern unsigned nfs_retry_first_ms;
/* Monotonic now + ms, for pthread_cond_timedwait on control->cond. */
void nfs_deadline(struct timespec *ts, unsigned ms);

#endif
