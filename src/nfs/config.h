/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a client is made from. plan.h fills what depends on this machine. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "nfs/front.h"
#include "rpc/rpc_auth.h"
#include "rpcrdma/conn.h"

#define NFS_PATHS_MAX RR_PATHS_MAX

struct nfs_version;
struct nfs_idmapper;

/* How long things take that are nobody's options. */
struct nfs_times {
	unsigned retry_ms;              /* the pause between the first attempts to connect of an
					 * outage; it grows (paths.c) */
	unsigned later_ms;              /* the first wait after "come later"; it doubles up to
					 * NFS_LATER_SHIFT_MAX times */
	unsigned delayed_ms;            /* the same when a message has to be sent again in its slot:
					 * the server still executes it, and is done within the time of
					 * a call. Programs wait for it after each fail-over */
	unsigned close_ride_ms;              /* how long CLOSE waits for a call that carries it */
	unsigned owner_ms;              /* how long a call waits for an owner's name or number, */
	unsigned owner_found_s;         /* and how long the mapper's answer is believed */
	unsigned end_ms;                /* for the end of a session or a client id: no answer is
					 * needed, because the lease ends them anyway */
	unsigned pause_ms;              /* between two attempts to mount */
	unsigned free_ms;               /* how long the next path waits for the end of an attempt:
					 * connecting has up to three steps of five seconds */
};
#define NFS_TIMES { .retry_ms = 1000, .later_ms = 100, .delayed_ms = 10, .close_ride_ms = 20, \
	.owner_ms = 5000, .owner_found_s = 600, .end_ms = 400, .pause_ms = 2000, .free_ms = 20000 }

struct nfs_config {
	const struct nfs_version *version;
	const struct nfs_version *older;        /* if the server does not have that one; NULL: it has to */
	const struct rpc_auth *auth;            /* from sec=; NULL: AUTH_SYS */
	struct rr_path paths[NFS_PATHS_MAX];    /* ways to the server; the first with a server
						 * that answers is used to mount */
	unsigned npaths;
	/* How many addresses of the server the paths go to; how many more its name has, which are not tried. */
	unsigned addresses, left_out;
	const struct fabric *second;            /* of all paths, if no server answers by their own; NULL: none */
	enum rr_policy policy;          /* which connection takes a call */
	unsigned mdconnect;             /* further connections on each path and lane, for calls
					 * without file data */
	_Atomic unsigned heartbeat_ms;  /* a connection that is silent for so long is dead; 0: none is */
	const struct rpc_cred *own;     /* the daemon on the server; NULL: as here. Copied */
	const char *server;             /* as the user wrote it */
	const char *export;
	unsigned lanes;
	unsigned credits;               /* per lane */
	struct arena_counts buffers;    /* per lane */
	size_t room;                    /* bytes by which all buffers together may grow */
	bool lends;                     /* memory of programs may be lent (base/lent.h) */
	unsigned files_left;            /* so many files may programs' connections and rings have open here */
	size_t path_locks;              /* bytes of locked memory that a path's connections take; 0:
					 * there is no limit */
	size_t locks_left;              /* ... that are left for further paths than these */
	size_t locks_limit;             /* how many bytes this process may lock; SIZE_MAX: any number */
	size_t locks_wanted;            /* ... and how many would be good; fewer lanes or buffers are
					 * planned if that is more. 0: the fabric locks none */
	const struct rr_memreg *memreg; /* how memory is registered; NULL: pool */
	uint32_t rsize, wsize;          /* wanted; the server may lower them */
	uint64_t (*clock)(void);        /* the lanes'; NULL: mono_ns */
	const struct nfs_times *times;  /* NULL: NFS_TIMES */
	/* The first attempt has failed, and others follow: who waits for the client need not, from now on. NULL:
	 * everybody does. */
	void (*tries_again)(void *arg);
	void *tries_again_arg;
	/* The paths that have connected, whatever came then: bit i is path i's. NULL: nobody wants to know. */
	unsigned *connected;
	_Atomic unsigned timeo_ms;      /* a call this old drops the connection */
	_Atomic unsigned retrans;       /* soft mounts: time-outs before EIO */
	_Atomic bool soft;
	unsigned mountport, nlmport;    /* v3: mountd's, the lock manager's; 0: ask rpcbind */
	bool acl;                       /* access control lists are wanted */
	bool delegations;               /* v4: and delegations of files that are read */
	bool locks;                     /* v3: some locks are the server's */
	const struct nfs_idmapper *idmapper;    /* v4: resolves owners' names; NULL: no names */
	const struct nfs_front *front;  /* who is told what happens; NULL: nobody */
};

static inline const struct nfs_times *nfs_times_of(const struct nfs_config *cfg)
{
	static const struct nfs_times times = NFS_TIMES;

	return cfg->times ? cfg->times : &times;
}
