/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server that knows just enough of client ids, sessions and open state, behind a
 * client of one lane (fake_lane.h); and opens of that client. It runs on the lane's
 * thread; what tests set is set before the call that meets it.
 */
#ifndef TESTS_NFS4_SERVER_H
#define TESTS_NFS4_SERVER_H

#include <pthread.h>
#include "fake_lane.h"
#include "nfs/nfs4/nfs4_impl.h"

#define SERVER_OPENS 4u

struct server4 {
	uint32_t slots, maxops, maxresp;        /* of its sessions */
	bool stale;                     /* does not know the client id */
	bool no_root;                   /* nor an export */
	uint32_t clientid, sessions;    /* the newest ones' numbers */
	uint32_t destroyed;             /* the session that went last */
	bool complete;                  /* has heard RECLAIM_COMPLETE */
	uint32_t reclaim[SERVER_OPENS]; /* what it says to CLAIM_PREVIOUS, of fh[0] */
	uint32_t open[SERVER_OPENS];    /* and to CLAIM_FH afterwards */
	_Atomic unsigned badsession;    /* SEQUENCEs that it refuses */
	unsigned late_attrs;            /* GETATTRs behind an OPEN that it delays */
	uint32_t flags;                 /* SEQUENCE's, until all that is revoked is freed */
	bool flags_stay;                /* or for ever */
	uint32_t test[SERVER_OPENS];    /* what it says to TEST_STATEID, of other[0] */
	bool cannot_test, tests_fewer;  /* than it was asked for */
	uint32_t close;                 /* and to CLOSE */
	uint32_t set;                   /* and to one SETATTR */
	uint32_t tested, freed;         /* how many; which, a bit each */
	/*
	 * A letter for each call: X EXCHANGE_ID, S CREATE_SESSION, D and E their ends,
	 * B refused for its session, R the root, C RECLAIM_COMPLETE, P and F an OPEN
	 * that reclaims and one by handle, O a lane's, c CLOSE, g GETATTR, T TEST_STATEID, f
	 * FREE_STATEID, n SEQUENCE alone, s SETATTR.
	 */
	char log[256];
	uint32_t opens;
};
extern struct server4 server;

/* For a test suite's init and fini; and the mount, which empties the log. */
void server4_start(void);
void server4_stop(void);
void server4_mount(void);
/* The test's client. */
static inline struct nfs4_client *client4(void)
{
	return fake_cl.server.vdata;
}
/* Until the server has noted so many calls. */
void server4_await(size_t n);
/* Until it has made so many sessions. */
void server4_await_sessions(size_t n);

/* An open file with handle i, and its place in recovery's list; and it. */
void have_open(unsigned i);
struct nfs_open *open_nr(unsigned i);
/* It is lost, or has a stateid of the server's. */
void expect_open(unsigned i, bool lost);

/* A file operation on a thread of its own, which waits for recovery if it must. */
struct one_call {
	struct held {           /* the lane's, once it is abandoned */
		struct nfs_call c;
		struct rpc_cred cred;
		struct nfs_fh fh;
	} *held;
	pthread_t caller;
	/* ---- results ---- */
	int rc;
	struct nfs_open *open;
};
void begin(struct one_call *o, enum nfs_op op, struct nfs_open *open);
/* Lets the lane go on, as after recovery. */
void resume(void);
void await(struct one_call *o, int rc);

#endif
