/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server that knows just enough of client ids, sessions and open state, for a client of
 * one lane (fake_lane.h); and opens of that client. The server runs on the lane's thread. A
 * test sets its members before it makes the call that they affect.
 */
#pragma once

#include <pthread.h>
#include "fake_lane.h"
#include "nfs/nfs4/nfs4_impl.h"

#define SERVER_OPENS 4u

struct server4 {
	uint32_t slots, maxops, maxreq, maxresp;        /* limits of its sessions */
	bool stale;                     /* it does not know the client id */
	unsigned restarts;              /* so often it restarts once more, between client id and session */
	bool no_root;                   /* it has no export */
	uint32_t lease, no_lease;       /* seconds; the status of GETATTR that asks after the mount */
	uint32_t clientid, sessions;    /* numbers of the newest ones */
	bool confirmed;                 /* by a session of the newest client id */
	uint32_t sequence, created;     /* the newest CREATE_SESSION that counts, and its status, which is that of all
					 * with this number */
	uint32_t session_errors, session_error; /* so many of them fail, with this status */
	uint32_t destroyed;             /* the session that was destroyed last */
	bool complete;                  /* it has got RECLAIM_COMPLETE */
	uint32_t reclaim[SERVER_OPENS]; /* status of CLAIM_PREVIOUS, by fh[0] */
	_Atomic uint32_t open[SERVER_OPENS];    /* status of CLAIM_FH, by fh[0] */
	uint32_t forbids;               /* OPEN4_SHARE_ACCESS_*: both are ACCESS if they are for one of these */
	_Atomic unsigned badsession;    /* how many SEQUENCEs it refuses */
	_Atomic unsigned unbound;       /* how many it refuses because of their connection */
	_Atomic bool seq_delays;        /* it delays all SEQUENCEs but those that are alone */
	bool strict;                    /* it refuses all on connections that have not joined */
	unsigned joined;                /* the connection (fake_opens) that has joined last */
	const char *name, *scope;       /* who it says it is */
	unsigned cut, err_chunk;        /* how many OPENs of recovery it executes, and then
					 * answers with half a reply; with ERR_CHUNK */
	void (*executed)(void);         /* is called when it has executed an OPEN of recovery, LOCK, LOCKU or
					 * TEST_STATEID */
	uint32_t gives;                 /* the delegation that the next OPEN of recovery brings */
	uint32_t recalls;               /* 1: and that is wanted back at once */
	struct server4_reopen {         /* the newest OPEN of recovery */
		uint32_t access, delegate;      /* share_access; CLAIM_PREVIOUS's delegate_type */
	} reopens;
	_Atomic uint32_t refuses;       /* status of a lane's OPEN, and of GETATTR alone */
	unsigned late_attrs;            /* how many GETATTRs after an OPEN it delays */
	_Atomic uint32_t flags;         /* SEQUENCE's, until all revoked state is freed... */
	bool flags_stay;                /* ...or for ever */
	_Atomic uint32_t test[SERVER_OPENS];    /* result of TEST_STATEID, by other[0] */
	bool cannot_test, tests_fewer;  /* TEST_STATEID fails; returns too few results */
	bool back;                      /* its sessions have a back channel */
	uint32_t refuses_back;          /* the status of CREATE_SESSION that asks for one */
	uint32_t bind_delays;           /* so often BIND_CONN_TO_SESSION is told to come later */
	uint32_t close;                 /* status of CLOSE */
	uint32_t delegreturn;           /* status of DELEGRETURN */
	_Atomic uint32_t set;           /* status of one SETATTR ... */
	bool set_stays;                 /* ... or of all */
	_Atomic unsigned complete_delays, free_delays;  /* so often RECLAIM_COMPLETE and
					 * FREE_STATEID are told to come later */
	uint32_t complete_error;        /* ... or RECLAIM_COMPLETE something else */
	uint32_t closed;                /* the first word of the stateid that was closed last */
	uint32_t tested, freed;         /* how many were tested; which were freed, a bit each */
	/*
	 * A letter for each call: X EXCHANGE_ID, S CREATE_SESSION, D DESTROY_SESSION,
	 * E DESTROY_CLIENTID, B any call that is refused for its session, R the root, also for the lease,
	 * C RECLAIM_COMPLETE, P an OPEN that reclaims, F an OPEN by handle, O an OPEN of a
	 * lane, c CLOSE, g GETATTR, T TEST_STATEID, f FREE_STATEID, n SEQUENCE alone,
	 * r DELEGRETURN,
	 * d RECLAIM_COMPLETE, FREE_STATEID or BIND_CONN_TO_SESSION that is told to come later, or refused, s SETATTR, u SEQUENCE on a connection that has not joined. Of a check: x EXCHANGE_ID,
	 * e DESTROY_CLIENTID, J BIND_CONN_TO_SESSION, j the same for a session that it does not
	 * know.
	 */
	char log[256];
	/*
	 * Locks: L LOCK of a new owner, l of one with a stateid, K and k the same that reclaim, U LOCKU,
	 * f FREE_STATEID behind it, t LOCKT, p PUTFH alone.
	 */
	uint32_t lock, locku, relock;   /* status of LOCK and LOCKT, of LOCKU, of LOCK that reclaims */
	uint32_t lock_once, relock_once;        /* status of one LOCK, and of one that reclaims */
	uint32_t test_lock;             /* result of TEST_STATEID of each */
	uint32_t lock_attrs;            /* status of GETATTR behind LOCK, once */
	uint32_t locks;                 /* how many stateids it has given */
	uint32_t denied[10];            /* behind DENIED: offset, length, type, client id, owner... */
	unsigned ndenied;               /* ...so many words */
	struct server4_lock {           /* the newest LOCK, LOCKT or LOCKU */
		uint32_t type, stateid[4];
		uint64_t offset, length, owner;
	} last_lock;
	uint32_t status;                /* the COMPOUND's, where it is not the last word */
	uint32_t opens;
	uint32_t probes, probes_left;   /* client ids that checks have got; and not given back */
};
extern struct server4 server;

/* For a test suite's init and fini; and the mount, after which the log is empty. */
void server4_start(void);
void server4_stop(void);
void server4_mount(void);
/* The test's client. */
static inline struct nfs4_client *client4(void)
{
	return fake_cl.server.vdata;
}
/* The server has restarted, and gives no delegation again. */
static inline void forget_delegations4(struct nfs4_delegs *t)
{
	nfs4_regain_begins(t);
	nfs4_regain_ends(t);
}
/* Runs a check's next call, on the lane's thread. alone: as if no lane were connected. Returns
 * what check_decode() says. */
int server4_check(struct nfs_check *k, bool alone);
/* Waits until the server has noted so many calls. */
void server4_await(size_t n);
/* Waits until it has made so many sessions. */
void server4_await_sessions(size_t n);

/* Makes an open of the file with handle i, which recovery will find; returns that open. */
void have_open(unsigned i);
struct nfs_open *open_nr(unsigned i);
/* The file of open i has that delegation, of that kind (NFS_DELEGATION_*); its number. */
uint64_t give_delegation(unsigned i, uint64_t kind, const stateid4 *stateid);
/* Checks that the open is lost, or that it has a stateid of the server. */
void expect_open(unsigned i, bool lost);

/* A file operation on a thread of its own. It waits for recovery if it has to. */
struct one_call {
	struct held {           /* belongs to the lane if the call is abandoned */
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
