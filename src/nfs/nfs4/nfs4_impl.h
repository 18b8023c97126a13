/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of NFSv4.1 share.
 *
 * Who owns what:
 *   struct nfs4_client   server->vdata: identity and session. The control thread writes
 *                        it, or the thread that (un)mounts (nfs/internal.h). Lanes look
 *                        only at the atomics while they work.
 *   struct nfs4_identity part of that: who the server is, with a mutex.
 *   struct nfs4_slots    part of that: the session's slots for all lanes, with a mutex.
 *   struct nfs4_back     part of that: the slots of the server's calls, with a mutex.
 *   struct nfs4_lane     a target's vdata: tells the lane that a slot is free, and when the lane has
 *                        renewed the lease.
 *   struct nfs4_opens    part of that: the opens of one lane, with a mutex.
 *   struct nfs4_delegs   part of that: the delegations, with a mutex.
 *   struct nfs_open      one open of a file (nfs/file.h). References: the caller of OPEN has one,
 *                        or a delegation when it stays (nfs4_kept.c); recovery while it works on
 *                        it, and a REOPEN under way (nfs4_open.c).
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include "nfs/internal.h"
#include "nfs/nfs.h"
#include "nfs/nfs4/nfs4_back.h"
#include "nfs/nfs4/nfs4_delegs.h"
#include "nfs/nfs4/nfs4_identity.h"
#include "nfs/nfs4/nfs4_locks.h"
#include "nfs4.h"

#define NFS4_SLOTS_MAX 2048u            /* NFS_LANES_MAX times the most credits */

/* ---- XDR sizes of the parts of replies ---- */

#define V4_HEAD_XDR   (4u + 4u + 4u)            /* status, our empty tag, count */
#define V4_OP_XDR     (4u + 4u)                 /* operation, status */
#define V4_SEQ_XDR    (V4_OP_XDR + 16u + 5u * 4u)
#define V4_PREFIX_XDR (V4_HEAD_XDR + V4_SEQ_XDR + V4_OP_XDR)    /* ... and PUTFH */
#define V4_FH_XDR     (V4_OP_XDR + 4u + 128u)
#define V4_BITMAP_XDR (4u + 3u * 4u)
/* In theory, owner and group are names of any length. Servers have bounds of their own
 * (Linux: 128). */
#define V4_OWNER_XDR  (4u + 512u)
/* type 4, change 8, size 8, fsid 16, fileid 8, mode 4, numlinks 4, rawdev 8, space_used
 * 8, three times 12 each: 104; and the two names. */
#define V4_ATTRS_XDR  (104u + 2u * V4_OWNER_XDR)
#define V4_GETATTR_XDR (V4_OP_XDR + V4_BITMAP_XDR + 4u + V4_ATTRS_XDR)
#define V4_CHANGE_XDR (4u + 8u + 8u)
/* A directory after a change, without owners; PUTFH or RESTOREFH before that. */
#define V4_DIR_XDR    (V4_OP_XDR + V4_BITMAP_XDR + 4u + 104u)
#define V4_DIR_FH_XDR (V4_OP_XDR + V4_DIR_XDR)
/* Stateid, recall, limit, and an ACE with its name. */
#define V4_DELEGATION_XDR (16u + 4u + 12u + 12u + 4u + 1024u)

/* ---- session ---- */

enum nfs4_outcome { NFS4_UNKNOWN, NFS4_CONSUMED, NFS4_NOT_CONSUMED };

/* Belongs to nfs4_slots.c. */
struct nfs4_slots {
	pthread_mutex_t mu;             /* for everything here, and nfs4_lane.posted */
	uint32_t epoch;                 /* 0: no session yet */
	char sessionid[NFS4_SESSIONID_SIZE];
	uint32_t max_cached;            /* the longest reply that the server keeps */
	uint32_t max_read, max_write;   /* bytes of data */
	unsigned nslots;                /* of the session, as far as we can use them */
	unsigned limit;                 /* use only slot ids below this ... */
	unsigned top;                   /* ... the server has only those below this */
	uint32_t changes;               /* how often `limit` has changed */
	bool untold;                    /* slots are recalled, and no SEQUENCE has told since that none is
					 * in use from `limit` on */
	unsigned left;                  /* calls in flight that belong to older sessions */
	uint32_t waiting, woken;        /* lanes, one bit each */
	unsigned promised;              /* free slots reserved for woken lanes */
	unsigned turn;                  /* whose turn it is to be woken first */
	uint64_t free[NFS4_SLOTS_MAX / 64], busy[NFS4_SLOTS_MAX / 64];
	uint32_t seqid[NFS4_SLOTS_MAX]; /* of the slot's next or current use */
};

struct nfs4_lane {
	struct nfs_target *target;
	struct loop_msg wake;           /* tells the lane that a slot is free */
	bool posted;                    /* wake is on its way */
	_Atomic uint64_t renewed_ns;    /* the newest SEQUENCE that was executed was encoded then */
};

/* Belongs to nfs4_state.c. */
struct nfs4_opens {
	pthread_mutex_t mu;             /* for the list, and references to what is on it */
	struct list list;               /* in the order of opening */
};

/* What the server that has given the client id knows of the opens. The one further down stays if there is
 * another client id before they are settled. */
enum nfs4_opens_state {
	NFS4_OPENS_KNOWN,
	NFS4_OPENS_FORGOTTEN,           /* they must be reclaimed */
	NFS4_OPENS_ELSEWHERE,           /* it has never had them: another server has, of another scope */
};

struct nfs4_client {
	char owner[256];                /* co_ownerid: unique to this mount */
	char verifier[NFS4_VERIFIER_SIZE];
	clientid4 clientid;
	struct nfs4_names clientid_by;  /* the server that has given it */
	sequenceid4 sequence;           /* for the next CREATE_SESSION */
	char sessionid[NFS4_SESSIONID_SIZE];
	clientid4 session_of;           /* the client id of the session */
	char old[NFS4_SESSIONID_SIZE];  /* the session before it ... */
	_Atomic bool have_old;          /* ... which has still to be destroyed */
	uint32_t epoch;
	unsigned nslots;
	uint32_t max_cached;
	uint32_t max_read, max_write;   /* bytes of data */
	uint32_t maxops;                /* in one COMPOUND */
	uint32_t rsize, wsize, dtsize;  /* the mount's, which no later session exceeds */
	struct nfs4_slots slots;
	struct nfs4_back back;
	struct nfs4_identity identity;
	struct nfs4_opens opens[NFS_LANES_MAX];
	struct nfs4_delegs delegs;
	struct nfs4_belief {            /* nfs4_belief.c */
		_Atomic uint64_t renewed_ns;    /* the newest call that was executed was begun then */
		_Atomic uint64_t lost_ns;       /* when something was last amiss */
		_Atomic uint64_t slept_ns;      /* how long this machine has slept, as far as is known */
	} belief;
	_Atomic uint32_t lease_s;       /* the thread that (un)mounts and the control thread write it */
	bool lease_is_old;              /* the same: the server may have restarted with another one */
	_Atomic bool need_client;       /* the server does not know our client id */
	_Atomic bool need_session;
	_Atomic bool need_opens;        /* the server says that our opens are lost */
	_Atomic bool need_complete;     /* they are reclaimed, and the server has to hear of it */
	_Atomic bool need_test;         /* ... or that some are or may be */
	_Atomic uint32_t said;          /* SEQUENCE's flags, as last seen */
	_Atomic uint64_t reclaimed_ns;  /* when all opens were last reclaimed */
	uint64_t tested_ns;             /* control thread: when the opens were last tested */
	bool moved;                     /* control thread: the log mentions LEASE_MOVED */
	enum nfs4_opens_state opens_are;        /* control thread */
	uint64_t later_ns;              /* since when reclaims are told "later", and nothing else; 0: they are not. Control
					 * thread, or a lane with its call */
	unsigned delayed;               /* control thread: opens that the server delays */
	_Atomic uint64_t next_owner;    /* one open-owner for each open */
	_Atomic bool no_verify;         /* the server cannot compare handles */
};

/* Whose an open is. Recovery takes free ones only, and so does CLOSE. */
enum nfs4_holder {
	NFS4_FREE, NFS4_RECOVERED,      /* recovery is at work on it: CLOSE waits */
	NFS4_CLOSING,                   /* for good */
};

struct nfs_open {
	struct list node;               /* in `in` */
	struct nfs4_opens *in;
	unsigned refs;                  /* under in->mu */
	struct nfs_file *file;          /* a reference; NULL: the server has not returned its handle yet */
	_Atomic bool settled;           /* OPEN has its reply: recovery may use it */
	_Atomic enum nfs4_holder holder;
	_Atomic bool reopen;            /* the server does not know its stateid */
	_Atomic bool lost;              /* ... and would not open it again */
	struct rpc_cred cred;
	uint32_t access;                /* OPEN4_SHARE_ACCESS_*; as stateid; 0: recovery was not let open it for
					 * anything, and all I/O goes by the anonymous stateid */
	uint32_t needed;                /* ... of these the ones that it must have */
	uint64_t owner;
	unsigned unanswered;            /* recovery: OPENs in a row that got no answer */
	_Atomic bool to_free;           /* the server has revoked `stateid`, and keeps it until recovery frees
					 * it; set before `reopen` */
	stateid4 stateid;               /* written by OPEN's lane until `settled`; afterwards by
					 * recovery, while no lane looks at it (nfs4_recover.c) */
	uint32_t rights;                /* what OPEN's ACCESS has granted; 0: it has not asked */
	uint64_t under;                 /* the delegation that it has brought, or was sent under: its number */
	struct list kept;               /* in nfs4_delegation.kept, if nobody uses it (nfs4_kept.c) */
	bool delegated;                 /* as stateid: `delegation` is not kept, and must be returned */
	stateid4 delegation;
	struct list granted;            /* in nfs4_delegation.granted, or claimed (nfs4_granted.c); under its table's lock */
	struct nfs4_delegation *granted_under;  /* the same: NULL: not in `granted` */
	bool was_locked;                /* LOCK was sent by it, whatever came of that; under in->mu */
	struct list locks;              /* nfs4_lock, under in->mu */
	uint32_t locks_age;             /* under in->mu: how often recovery has settled them */
	_Atomic unsigned locks_lost;    /* how many of these have lost theirs: I/O fails */
};

/* Has the server revoked that stateid; does it not have it (any more), for whatever reason? */
static inline bool nfs4_is_revoked(nfsstat4 status)
{
	return status == NFS4ERR_EXPIRED || status == NFS4ERR_ADMIN_REVOKED ||
	       status == NFS4ERR_DELEG_REVOKED;
}
static inline bool nfs4_is_unknown(nfsstat4 status)
{
	return status == NFS4ERR_BAD_STATEID || status == NFS4ERR_STALE_STATEID ||
	       status == NFS4ERR_OLD_STATEID || nfs4_is_revoked(status);
}

static inline struct nfs4_client *nfs4_of(const struct nfs_call *c)
{
	return c->target->server->vdata;
}

/* The version's own operations, all of them control calls. args.version: struct
 * nfs4_ctl. */
#define NFS4_OP_EXCHANGE_ID      (NFS_OP_VERSION + 0)
#define NFS4_OP_CREATE_SESSION   (NFS_OP_VERSION + 1)
#define NFS4_OP_DESTROY_SESSION  (NFS_OP_VERSION + 2)
#define NFS4_OP_DESTROY_CLIENTID (NFS_OP_VERSION + 3)
#define NFS4_OP_RECLAIM_COMPLETE (NFS_OP_VERSION + 4)
#define NFS4_OP_RENEW            (NFS_OP_VERSION + 5)   /* SEQUENCE alone */
#define NFS4_OP_ROOT             (NFS_OP_VERSION + 6)   /* the walk to the export */
#define NFS4_OP_REOPEN           (NFS_OP_VERSION + 7)   /* c->open; reclaim: CLAIM_PREVIOUS */
#define NFS4_OP_TEST_STATEID     (NFS_OP_VERSION + 8)   /* test, ntest -> found */
#define NFS4_OP_FREE_STATEID     (NFS_OP_VERSION + 9)   /* test[0] */
#define NFS4_OP_RELOCK           (NFS_OP_VERSION + 10)  /* c->open, lock -> lock: LOCK, reclaim */
#define NFS4_OP_BIND_CONN        (NFS_OP_VERSION + 11)  /* nfs4_back.h */
#define NFS4_TEST_MAX 32u               /* stateids of one TEST_STATEID */

/* The longest COMPOUNDs are LINK's and CREATE's. The walk to the export adapts to the limit. */
#define NFS4_OPS_NEEDED 8u

/* A control call with everything that it points to. It is heap memory of its own,
 * because the thread that waits may give up before the lane is done. */
struct nfs4_ctl {
	struct nfs_call c;
	struct rpc_cred cred;
	nfsstat4 status;                /* as the server sent it */
	bool reclaim;
	bool once;                      /* do not repeat the call when the server says "later": it
					 * ends with an error, and nfs4_is_later(status) */
	clientid4 clientid;
	sequenceid4 sequence;
	uint32_t flags;                 /* EXCHANGE_ID's; CREATE_SESSION's, asked for and granted */
	struct nfs4_names names;        /* the same: the server's */
	char sessionid[NFS4_SESSIONID_SIZE];
	unsigned nslots;
	uint32_t maxreq, maxresp, maxcached, maxops;
	const char *path;               /* the walk to the export: the whole path */
	const char *at;                 /* where the next COMPOUND starts; NULL: at the root */
	struct nfs_fh from;             /* the handle of that place */
	const char *been;               /* the end of the last component that was found */
	uint32_t maxread, maxwrite, maxname, lease_s, has;      /* has: NFS_HAS_* */
	uint64_t maxfilesize;
	stateid4 test[NFS4_TEST_MAX];
	nfsstat4 found[NFS4_TEST_MAX];
	unsigned ntest;
	struct nfs4_relock lock;
};

/* ---- the version's part of a call ---- */

/* A call's place in a session: what its SEQUENCE says, and the outcome. */
struct nfs4_place {
	char session[16];
	uint32_t epoch;                 /* numbers our sessions */
	uint32_t slot, seqid;
	uint32_t highest;               /* the highest slot in use */
	uint32_t max_cached;            /* the longest reply that the server keeps */
	uint32_t changes;               /* nfs4_slots.changes when the slot was taken */
	bool said;                      /* SEQUENCE was OK, and the server wants: */
	uint32_t said_highest, said_target;
	uint8_t outcome;                /* enum nfs4_outcome: was seqid used up? */
	bool used;                      /* was sent before this sending */
	bool replayed;                  /* ... and a reply to it was lost */
};

struct nfs4_call {
	struct nfs4_place place;
	bool has_slot;                  /* place is valid */
	bool in_doubt;                  /* may have been executed in a session that is lost */
	bool had_effect;                /* an operation before the failed one had its effect */
	bool cached, uncached;          /* we ask the server to keep the reply; it cannot */
	bool mode_missing;              /* exclusive create: the server has not set the mode yet */
	uint8_t looks;                  /* how many names in args.where this sending looks at */
	uint8_t blind;                  /* of so many, the last ones, the server cannot say whose
					 * they are */
	uint8_t tries;                  /* how often its stateid was refused */
	int result;                     /* the result of OPEN, while its delegation is returned */
	uint32_t returns;               /* OPEN that asks: what had begun to go back when it was encoded */
	uint64_t owner;                 /* of an OPEN; 0: not chosen yet */
	bool asks;                      /* OPEN: this sending asks for a delegation, */
	bool again;                     /* ...and looks at the newest name once more behind it */
	bool times;                     /* DELEGRETURN: this sending has the time of access */
	bool lock_known;                /* LOCK, LOCKU: this sending has the owner's stateid: */
	uint32_t locks_age;             /* LOCK, LOCKU: the open's when it was encoded */
	union {
		stateid4 lock;
		uint64_t under;         /* OPEN that does not ask: as nfs_open's */
	};
};
_Static_assert(sizeof(struct nfs4_call) <= NFS_CALL_VERSION, "struct nfs_call has no room");

static inline struct nfs4_call *nfs4_call(struct nfs_call *c)
{
	return (struct nfs4_call *)c->version_data;
}
static inline const struct nfs4_call *nfs4_call_const(const struct nfs_call *c)
{
	return (const struct nfs4_call *)c->version_data;
}

/* ---- nfs4_slots.c ---- */

/* Members of struct nfs_version. */
int nfs4_acquire(struct nfs_target *t, struct nfs_call *c);
void nfs4_release(struct nfs_target *t, struct nfs_call *c);
int nfs4_target_init(struct nfs_target *t);
void nfs4_target_fini(struct nfs_target *t);
/* Was the call sent in the newest session? */
bool nfs4_is_current(const struct nfs_call *c);
/* Switches to the client's newest session. */
void nfs4_slots_install(struct nfs_server *s);
/* The newest session's id. false: there is none yet. */
bool nfs4_slots_session(struct nfs4_slots *t, char id[NFS4_SESSIONID_SIZE]);
/* How many calls are in flight that belong to earlier sessions? */
unsigned nfs4_slots_left(struct nfs4_slots *t);
/* How many slots calls may have now. Member of struct nfs_version. */
unsigned nfs4_slots_now(struct nfs_server *s);
/* Does the server wait to be told that the slots which it has recalled are not used any more? */
bool nfs4_slots_are_untold(struct nfs4_slots *t);

/* ---- nfs4_session.c ---- */

extern const struct nfs_opdef nfs4_op_exchange_id, nfs4_op_create_session,
	nfs4_op_destroy_session, nfs4_op_destroy_clientid, nfs4_op_reclaim_complete, nfs4_op_renew;

/* The longest results of these, and of BIND_CONN_TO_SESSION. */
enum { NFS4_CONTROL_MAX = V4_HEAD_XDR + V4_OP_XDR + 24 + 3 * (4 + 1024) + 64 };

/* ---- nfs4_check.c: members of struct nfs_version ---- */

uint32_t nfs4_check_proc(const struct nfs_check *k);
bool_t nfs4_check_encode(struct nfs_target *t, struct nfs_check *k, XDR *x);
int nfs4_check_decode(struct nfs_target *t, struct nfs_check *k, XDR *x);

/* ---- nfs4_control.c ---- */

/* Control thread: runs k->c and waits. Frees k; if `keep` is set, *keep gets it instead
 * (NULL if the call was abandoned). */
int nfs4_run(struct nfs_server *s, struct nfs4_ctl *k, enum nfs_op op, unsigned timeout_ms,
	     struct nfs4_ctl **keep);
struct nfs4_ctl *nfs4_ctl_new(const struct nfs_server *s);
/* opens_are becomes what the server says, if that is worse. */
int nfs4_new_clientid(struct nfs_server *s, nfsstat4 *status);
/* It may have another client id then. */
int nfs4_new_session(struct nfs_server *s, nfsstat4 *status);
/* `once`: as nfs4_ctl's. */
int nfs4_destroy_session(struct nfs_server *s, const char *id, bool once);
/* Destroys the session before the present one. The server has forgotten it, or else keeps it as
 * long as the client id lives. No call of that session may be left. */
void nfs4_destroy_old(struct nfs_server *s);
void nfs4_destroy_clientid(struct nfs_server *s);
void nfs4_renew(struct nfs_server *s);
/* The client's sizes are the mount's. */
void nfs4_note_sizes(const struct nfs_client *cl, struct nfs4_client *n);

/* ---- nfs4_mount.c ---- */

int nfs4_mount(struct nfs_server *s, struct errbuf *eb);
void nfs4_umount(struct nfs_server *s);
void nfs4_free(struct nfs_server *s);
void nfs4_tick(struct nfs_server *s);

/* ---- nfs4_root.c ---- */

/* In a session: finds the export, and sets root_fh and the limits of the client. */
int nfs4_find_root(struct nfs_server *s, struct errbuf *eb);
/* Control thread, when that is done: asks for the lease period once more. If the server has it later,
 * lease_is_old stays. */
void nfs4_read_lease(struct nfs_server *s);
extern const struct nfs_opdef nfs4_op_root;

/* ---- nfs4_state.c ---- */

/* The stateid of the open, or the anonymous one (o NULL). */
stateid4 nfs4_stateid(const struct nfs_open *o);
/* The one for I/O: the anonymous one if the server has not let recovery open the file again for that. READs go by
 * what is open to write as well (RFC 8881, section 9.1.2). */
stateid4 nfs4_io_stateid(const struct nfs_open *o, bool writes);
/* The second open that the call names. NULL: there is none. */
struct nfs_open *nfs4_source(const struct nfs_call *c);
/* Lane thread: may the call, which has an open, be sent? 1: it may, and CLOSE has its open then.
 * NFS_REOPEN: not before recovery is done with its opens. -EIO: a lock of them is lost. */
int nfs4_open_ready(const struct nfs_call *c);
void nfs4_opens_init(struct nfs4_client *n);
/* When all others are gone. Frees what is open still: the mount ended before its CLOSE. */
void nfs4_opens_fini(struct nfs4_client *n);
/* Appends it to that list, with one reference. */
void nfs4_open_list(struct nfs4_opens *l, struct nfs_open *o);
/* Adds a reference. The caller must have one already. */
void nfs4_open_get(struct nfs_open *o);
/* Drops a reference. The last one frees the open. */
void nfs4_open_put(struct nfs_open *o);
/* A new one, for OPEN's reply, is on its lane's list. NULL: no memory. */
struct nfs_open *nfs4_open_new(struct nfs_call *c, uint32_t access);
/* The open has its handle, so recovery may use it. */
int nfs4_open_settle(struct nfs_call *c, const struct nfs_fh *fh);
/* CLOSE takes the open. false: recovery has it. */
bool nfs4_open_close(struct nfs_open *o);
/* The next open after `o` (NULL: the first), with a reference. Drops the reference to
 * `o`. */
struct nfs_open *nfs4_next_open(struct nfs4_client *n, struct nfs_open *o);
/* May recovery work on it? Not while a lane opens or closes it, and not once it is lost. */
bool nfs4_is_ours(const struct nfs_open *o);

/* ---- nfs4_close.c ---- */

/* PUTFH and CLOSE of the call's rider (nfs/close_ride.h), and their results: 0, -EBADMSG, or
 * NFS_ALONE if CLOSE has failed, and ended the COMPOUND. */
#define NFS4_CLOSE_RIDE_OPS 2u
_Static_assert(5 + NFS4_CLOSE_RIDE_OPS <= NFS4_OPS_NEEDED, "LOOKUP has five without it");
#define V4_RIDER_XDR (2u * V4_OP_XDR + 16u)
bool_t nfs4_put_rider(struct nfs_call *c, XDR *x);
int nfs4_get_rider(struct nfs_call *c, XDR *x);

/* ---- nfs4_delegation.c ---- */

/* A step of all operations that open: DELEGRETURN. */
#define NFS4_STEP_RETURN UINT8_MAX
/* OPEN's reply has this. */
void nfs4_delegation_note(struct nfs_call *c, const open_delegation4 *d);
/* What decode() returns for an OPEN that ends with rc. */
int nfs4_delegation_first(struct nfs_call *c, int rc);
bool_t nfs4_delegation_encode(struct nfs_call *c, XDR *x);
int nfs4_delegation_decode(struct nfs_call *c, XDR *x);
extern const struct nfs_opdef nfs4_op_delegreturn, nfs4_op_get_dir_delegation;

/* ---- nfs4_belief.c ---- */

void nfs4_belief_init(struct nfs4_belief *b);
/* Something is amiss. */
void nfs4_belief_doubt(struct nfs4_belief *b);
/* The call's SEQUENCE was executed, and had no flags. */
void nfs4_belief_renewed(const struct nfs_call *c);
/* A member of struct nfs_version. */
uint64_t nfs4_belief_delegation(const struct nfs_server *s, struct nfs_file *f);

/* ---- nfs4_recover.c ---- */

int nfs4_recover(struct nfs_server *s);
/* A lane with a call of the control thread that was told "later" again: is that so for a lease period now? */
bool nfs4_reclaims_too_long(struct nfs4_client *n);
/* 0; -errno; NFS_LATER if it is `once`. */
int nfs4_reclaim_complete(struct nfs_server *s, bool once);
/* "Come back later"? */
static inline bool nfs4_is_later(nfsstat4 status)
{
	return status == NFS4ERR_DELAY || status == NFS4ERR_GRACE;
}

/* ---- nfs4_flags.c ---- */

/* Lane thread: looks at SEQUENCE's flags in a reply. */
void nfs4_note_flags(struct nfs_call *c, uint32_t flags);
/* Control thread: asks for what a flag wants once more if it has stayed for a lease period. */
void nfs4_look_again(struct nfs_server *s);

/* ---- nfs4_revoked.c ---- */

/* Control thread, in recovery: marks the opens that must be opened again. */
int nfs4_test_opens(struct nfs_server *s);
/* Control thread, in recovery: drops the delegations that are revoked, and forgets those that the server
 * does not know. 0, or as nfs4_run(). */
int nfs4_test_delegs(struct nfs_server *s);
/* Control thread, in recovery: what a test ends with. 0, NFS_LATER, or as nfs4_run(): it has to be done again. */
int nfs4_test_ends(struct nfs4_client *n, int rc);
/* What TEST_STATEID has found of that one. */
void nfs4_revoked_deleg(struct nfs_server *s, uint64_t number, nfsstat4 found);
/* Control thread, in recovery: 0; NFS_LATER; or -errno. */
int nfs4_free_stateid(struct nfs_server *s, const stateid4 *stateid);
/* FREE_STATEID as a COMPOUND, and its decode(). What the server says does not matter to most: what was freed
 * before, or cannot be freed, leaves nothing to do. */
bool_t nfs4_put_free(struct nfs_call *c, XDR *x, const stateid4 *stateid);
int nfs4_get_free(struct nfs_call *c, XDR *x, nfsstat4 *status);
extern const struct nfs_opdef nfs4_op_test_stateid, nfs4_op_free_stateid;

/* ---- the rest ---- */

extern const struct nfs_opdef nfs4_op_null, nfs4_op_getattr, nfs4_op_birth, nfs4_op_setattr, nfs4_op_lookup,
	nfs4_op_lookupp, nfs4_op_access, nfs4_op_readlink, nfs4_op_statfs;      /* nfs4_meta.c */
extern const struct nfs_opdef nfs4_op_open, nfs4_op_create, nfs4_op_reopen;      /* nfs4_open.c */
extern const struct nfs_opdef nfs4_op_close;                            /* nfs4_close.c */
extern const struct nfs_opdef nfs4_op_read, nfs4_op_write, nfs4_op_commit;      /* nfs4_io.c */
extern const struct nfs_opdef nfs4_op_seek, nfs4_op_allocate, nfs4_op_deallocate;     /* nfs4_space.c */
extern const struct nfs_opdef nfs4_op_copy, nfs4_op_clone, nfs4_op_offload_status, nfs4_op_offload_cancel;
extern const struct nfs_opdef nfs4_op_mkdir, nfs4_op_symlink, nfs4_op_mknod, nfs4_op_remove,
	nfs4_op_rmdir, nfs4_op_rename, nfs4_op_link, nfs4_op_readdir;           /* nfs4_dir.c */
extern const struct nfs_opdef nfs4_op_getxattr, nfs4_op_setxattr, nfs4_op_listxattrs, nfs4_op_removexattr,
	nfs4_op_getacl, nfs4_op_setacl;                         /* nfs4_xattr.c, nfs4_acl.c */
