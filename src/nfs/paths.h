/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The paths of a mount: a session of several ways to one server.
 *
 *     struct nfs_server       path 0 (10.0.0.1)      path 1 (10.0.1.1)
 *                                 |                      |
 *     lane 0   target -- rr_conn -+- link ---------------+- link
 *     lane 1   target -- rr_conn -+- link ---------------+- link
 *                                 |                      |
 *     connector threads           0                      1
 *
 * A path is a pair of addresses, ours and the server's, and a fabric. Each lane has one
 * connection on each path (and mdconnect= more for calls without file data), so nconnect=
 * says how many connections a path has. A path has a number, its place in the table, which is
 * used again after the path was removed.
 *
 *     NONE --add--> CONNECTING --checked, joined--> CONNECTED <----------------+
 *      ^                |                               | last connection lost |
 *      |                | another server                v                      |
 *      |                +-----> REFUSED           RECONNECTING --joined--------+
 *      |                           |                    |
 *      +--- nothing left ---- REMOVING <--- remove -----+
 *
 * The functions here are for threads that are not lanes: the thread that mounts, and the one
 * that answers control commands. They return at once; nfs_paths_info() tells what has come of
 * it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/log.h"
#include "nfs/nfs.h"

enum nfs_path_state {
	NFS_PATH_NONE,          /* the place is free */
	NFS_PATH_CONNECTING,    /* no connection so far */
	NFS_PATH_CONNECTED,     /* at least one lane has a connection */
	NFS_PATH_RECONNECTING,  /* all connections are lost */
	NFS_PATH_REFUSED,       /* another server is there. It is tried again by itself only if it has
				 * led to the server before */
	NFS_PATH_REMOVING,      /* its calls come to an end, then the place is free */
};

struct nfs_path_info {
	unsigned id;                    /* its place, 0 .. NFS_PATHS_MAX - 1 */
	uint32_t generation;            /* counts the uses of that place */
	enum nfs_path_state state;
	const char *fabric;             /* "verbs", "iwarp" */
	char server[80], local[80];     /* numeric addresses; local "any" if none was asked for */
	unsigned port;                  /* the server's */
	unsigned connections, wanted;   /* how many there are, of how many */
	char why[256];                  /* why there is none, or "" */
	/* Sums over the lanes, since the path was added. */
	uint64_t calls;                 /* sent on it */
	uint64_t tx_bytes, rx_bytes;    /* RPC messages and file data */
	uint64_t in_flight;             /* now */
	uint64_t credits;               /* granted by the server, now */
	uint64_t reconnects;            /* connections that came into use again */
	uint64_t failovers;             /* calls that left it for another path, or were sent again
					 * on it */
	uint64_t heartbeats, missed;    /* sent, and without an answer in time */
	uint64_t registrations;         /* made for calls */
	uint64_t latency_ns;            /* moving average over calls without much data; 0: none */
	uint64_t histogram[TIMES_BUCKETS]; /* calls that took 2^i to 2^(i+1) us; the first also
					 * less, the last also more */
};

/* "connecting", ... */
const char *nfs_path_state_name(enum nfs_path_state s);
/* Fills an entry for each place that is in use, in their order. Returns how many these are. */
unsigned nfs_paths_info(struct nfs_client *cl, struct nfs_path_info out[NFS_PATHS_MAX]);
/*
 * Adds a path and begins to connect. *id and *generation name it. 0; -EEXIST: a path has these
 * addresses; -ENOSPC: all places are in use; -ENOMEM. eb is set. If it cannot
 * connect, the path stays, and is tried again: the caller decides, and may remove it.
 */
int nfs_path_add(struct nfs_client *cl, const struct rr_path *path, unsigned *id,
		 uint32_t *generation, struct errbuf *eb);
/*
 * Begins to remove a path: no call is sent on it any more, and those in flight have two
 * seconds to end; then they are sent again on another path. 0; -ENOENT: there is none;
 * -EBUSY: it is the last one that is connected, and without `force` that is refused. eb is
 * set.
 */
int nfs_path_remove(struct nfs_client *cl, unsigned id, bool force, struct errbuf *eb);
/* Closes all its connections, and connects again at once. 0 or -ENOENT with eb set. */
int nfs_path_reconnect(struct nfs_client *cl, unsigned id, struct errbuf *eb);
/* How the lanes choose a connection from now on. */
void nfs_paths_set_policy(struct nfs_client *cl, enum rr_policy policy);
enum rr_policy nfs_paths_policy(const struct nfs_client *cl);
/* "round-robin", "min-inflight", "min-latency". */
const char *nfs_policy_name(enum rr_policy policy);
/* false: there is no policy of that name. */
bool nfs_policy_named(const char *name, enum rr_policy *out);
