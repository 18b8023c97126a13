/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The back channel of a session (RFC 8881, sections 2.10.3.1 and 2.10.6): slots of the server's
 * calls to us, and what they were answered with.
 *
 *     server   --- CB_SEQUENCE: session, slot, sequence id --->
 *                  the next id    --> busy --executed--> answered, the reply is kept
 *                  the same again --> busy: DELAY; answered: the reply that is kept
 *                  any other      --> SEQ_MISORDERED
 *
 * Any connection of the session may carry a call, and its next try another one, when the first has
 * died with our reply. So the slots are the session's, for all lanes, and have a lock, which is held
 * for a look at the table and for the copy of a reply, never while a call is executed. What executes
 * one twice is kept from it by that table alone.
 *
 * Every reply is kept, whether the server asks for that or not: they are short (NFS4_BACK_REPLY),
 * because all that makes one longer is our own.
 *
 * There are two sessions: the newest one, and the one before, which the server may go on to call
 * until that is destroyed (nfs4_slots.c). A lane that decodes CREATE_SESSION enters the session
 * here, before it looks at the next message: the server may call at once. Calls of any other session
 * get BADSESSION.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "rpc/rpcserve.h"
#include "nfs4.h"

#define NFS4_BACK_SLOTS 16u
#define NFS4_BACK_OPS   8u              /* of a CB_COMPOUND */
/* The longest results: a tag of the server, CB_SEQUENCE's, and the others'. */
#define NFS4_BACK_REPLY 2048u

struct nfs4_back_slot {
	uint32_t seqid;                 /* of its newest call; 0: there was none */
	bool busy;                      /* that is being executed */
	uint32_t len;                   /* what it was answered with, */
	char reply[NFS4_BACK_REPLY];    /* from the status on */
};

struct nfs4_back {
	_Atomic bool has;               /* the session has a back channel */
	_Atomic bool need;              /* the server says that no connection carries it */
	_Atomic uint64_t bound_ns;      /* when one was last made to ... */
	uint64_t downs;                 /* control thread: ... and how many had been lost by then */
	unsigned delays;                /* control thread: so often in a row the server has said DELAY to that: */
	uint64_t later_ns;              /* not before this time again */
	pthread_mutex_t mu;             /* for the rest */
	unsigned newest;
	struct nfs4_back_session {
		bool used;
		char id[NFS4_SESSIONID_SIZE];
		struct nfs4_back_slot slot[NFS4_BACK_SLOTS];
	} session[2];
};

void nfs4_back_init(struct nfs4_back *b);
void nfs4_back_fini(struct nfs4_back *b);
/* The server has made that session. */
void nfs4_back_enter(struct nfs4_back *b, const char *id);
/*
 * The first operation of a call that has nops. NFS4_OK: it has to be executed, and
 * nfs4_back_answered() follows; or *again: its reply, *len bytes, is at `kept`, which has room for
 * the longest one. Otherwise the status that CB_SEQUENCE has.
 */
nfsstat4 nfs4_back_sequence(struct nfs4_back *b, const CB_SEQUENCE4args *a, uint32_t nops, bool *again,
			    char *kept, uint32_t *len);
/* Keeps the reply, of NFS4_BACK_REPLY bytes at most. */
void nfs4_back_answered(struct nfs4_back *b, const CB_SEQUENCE4args *a, const char *reply,
			uint32_t len);

/* ---- nfs4_callback.c ---- */

extern const struct rpcserve_program nfs4_callback;

/* ---- nfs4_slots.c: any thread ---- */

struct nfs_server;
struct nfs4_slots;
/* The server wants that session's slots above this one back. */
void nfs4_slots_recall(struct nfs_server *s, const char *session, uint32_t highest);
/* Has that call of the session no reply yet? */
bool nfs4_slots_in_flight(struct nfs4_slots *t, const char *session, uint32_t slot, uint32_t seqid);

/* ---- nfs4_session.c, nfs4_control.c ---- */

/* BIND_CONN_TO_SESSION, for both directions. */
extern const struct nfs_opdef nfs4_op_bind_conn;
/* Control thread: if it may be that no connection carries the back channel any more, one shall. */
void nfs4_look_back(struct nfs_server *s);
