/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of src/nfs share. Not for the front end.
 *
 * Threads of a mount:
 *   lanes      one per connection: all file operations; never block
 *   connector  sets lost connections up again; blocks in rr_link_open()
 *   control    recovery of lost state, lease; blocks in nfs_call_sync()
 * The connector must not wait for the control thread or a lane's calls, as
 * those may be waiting for a connection.
 */
#ifndef NFS_INTERNAL_H
#define NFS_INTERNAL_H

#include <pthread.h>
#include "nfs/nfs.h"

struct nfs_control {
	pthread_mutex_t mu;
	pthread_cond_t cond;            /* CLOCK_MONOTONIC; for everything below */
	bool stopping;
	bool recover;                   /* a lane has lost its state */
	bool have_connector, have_control;
	pthread_t connector, control;
	_Atomic bool mounted;           /* version->mount has succeeded */
};

struct nfs_lane_thread {
	pthread_t tid;
	bool started;
	bool want_link;                 /* under control->mu: connector, connect me */
	unsigned failures;              /* connector's: attempts in a row */
	uint64_t retry_ns;              /* connector's: not before */
};

/* lane.c */
int nfs_lane_init(struct nfs_client *cl, unsigned index, struct errbuf *eb);
int nfs_lane_start(struct nfs_lane *l);
void nfs_lane_stop(struct nfs_lane *l);
void nfs_lane_fini(struct nfs_lane *l);

/* engine.c: lane thread: an operation that waits or is parked ends so. */
void nfs_give_up(struct nfs_call *c, int status);

/* control.c */
int nfs_control_start(struct nfs_client *cl);
/* Returns false if a thread is still blocked and keeps the client alive. */
bool nfs_control_stop(struct nfs_client *cl, unsigned timeout_ms);
/* Any thread: a call found the server's state gone. */
void nfs_control_recover(struct nfs_client *cl);
/* connect.c: any thread: the lane's connection is lost. */
void nfs_connect_request(struct nfs_lane *l);
void *nfs_connector(void *arg);
/* Between the first attempts of an outage; a variable for the tests. */
extern unsigned nfs_retry_first_ms;
/* Monotonic now + ms, for pthread_cond_timedwait on control->cond. */
void nfs_deadline(struct timespec *ts, unsigned ms);

#endif
