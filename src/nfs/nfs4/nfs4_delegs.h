/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The delegations that the server has given us and that we keep. Each open file has an OPEN of its own at the
 * server all the same: one that was sent for it, or one that has stayed there since an earlier close()
 * (nfs4_kept.c). So no open is lost with a delegation. What depends on it is what is believed under it
 * (nfs4_belief.c), that OPENs stay, and locks of which the server does not know (nfs4_granted.c), which it gets
 * before it gets that back. So to lose one is no error, but for these locks, if the server has revoked it.
 *
 * An OPEN that only reads asks for one to read, any other for one to write, and each keeps the kind that it
 * has asked for. A directory's is asked for by itself (nfs4_dirdeleg.c). Which kind a delegation is never
 * changes, and its number says it (NFS_DELEGATION_WRITES). One to write is one to read as well, and stays while
 * this mount writes. What is held back under it are WRITEs, as without: fsync() waits for the server, and close()
 * unless the user does not want that (nodelegflush). How much space the server has promised (the limit) nobody
 * looks at, nor whom it would let open the file (the entry). New files get none: CREATE does not ask.
 *
 *      OPEN's reply: HELD --wanted back, dropped, or idle--> DUE ------> RETURNING ---> freed
 *                                                             ^              |
 *      OPEN's reply, of no use -------------------------------+              |
 *      a recall of one that is not known ---------------------+              | no answer
 *                                                             +--- PAUSES <--+
 *      the server restarts: HELD ---> LOST ---> freed; or there is another one, of an OPEN that reclaims
 *
 * Who owns one. The table does unless it is RETURNING, and whoever has the lock may free it. While it
 * is RETURNING it is the operation's (DELEGRETURN), which frees it when it ends; the table still has it,
 * so that nobody asks for another one of that handle meanwhile. It has a reference to its nfs_file, for
 * the handle.
 *
 * Who acts, and where:
 *
 *   a lane, OPEN            asks for one (nfs4_delegs_ask()), and keeps what the reply brings
 *   a lane, CB_RECALL       makes it DUE, the first of them, and tells the file system (nfs/front.h), which
 *                           takes what is due and starts DELEGRETURN when the recall has its answer. (It
 *                           is the file system that returns it, because what depends on it is there: what
 *                           was written under one to write is on the server before. vfs/delegations.c.)
 *   a lane, CB_GETATTR      looks for one to write; the file system knows the answer (nfs4_callback.c)
 *   a lane, CB_RECALL_ANY   makes idle ones DUE of the kinds that it names, those first that were not used for
 *                           longest
 *   a lane, another call    drops it (nfs_undelegate()) before this mount changes the file itself: many
 *                           servers recall it then, and let the call wait. One to write stays if only data
 *                           and times change: vfs/start.c
 *   a lane, its tick        takes what is due
 *   control thread's tick   makes those DUE whose file nobody has used for a lease period; when the table
 *                           is nearly full the oldest ones until it is half full; and those that pause
 *   control thread, recovery   forgets all that a restarted server has forgotten; those that are revoked
 *                           are due (nfs4_revoked.c)
 *   unmounting thread       all are due, and the lanes return them; what is left then is returned by itself
 *                           (nfs4_mount.c)
 *
 * Who else may act in between:
 *
 *   a recall, before OPEN's reply    The server gives the delegation and wants it back at once; the
 *        recall may come on another connection, and before the reply. If it says which call it is
 *        about, it is told to come later (nfs4_callback.c). Many servers do not. So as long as an OPEN of
 *        that file that has asked for a delegation has no reply, a recall of what is not known here is
 *        answered DELAY. The OPEN is counted before it is encoded, and until after its reply is decoded,
 *        with the delegation in the table: there is no moment in which a recall finds neither. (Files
 *        are counted by hashes: it may be another file's OPEN.)
 *   a recall of what nobody knows    The reply that brought it was lost with its session, say. The recall
 *        has the stateid and the handle, and DELEGRETURN needs no more: it is DUE. Otherwise the server
 *        would revoke it, and say so in SEQUENCE's flags until the mount ends.
 *   one stateid for two files    No good server gives that. What it takes back, recalls or revokes by it is of
 *        either file, and nobody here would know of which. So both are DUE when the second one comes: one that
 *        is HELD is the only one in the table with its stateid. A recall that has the stateid of another file:
 *        that file's is DUE, and the answer is OK. BAD_STATEID would be said of the stateid and the handle, but
 *        any error ends the recall (RFC 8881, section 20.2.4): the server would not wait for what was written
 *        and locked under it.
 *   OPEN, while DELEGRETURN is under way    OPEN does not ask for another one.
 *   an OPEN that has not asked    Its reply may have what the file has already. Nothing is new then; but
 *        if it is of the other kind now, or wanted back, it is DUE. What the file does not have is DUE at once.
 *   an OPEN to write, while one to read is HELD    The file system has dropped that one just before, and waits for
 *        some time until it has gone back. Then OPEN asks for one to write; until then it asks for none. To ask
 *        at once might bring the old one again, or a better one with its stateid (RFC 8881, section 10.4.1),
 *        which DELEGRETURN takes.
 *   CB_GETATTR before OPEN's reply    is answered DELAY, as a recall is.
 *   two lanes, two OPENs of one file    Both ask, or one of them. The server may give both the same
 *        stateid, and by the time the second reply is decoded the delegation of the first one may have been
 *        returned. So what a reply brings is kept only if none of that file was on its way back since the
 *        OPEN was encoded (place.returns, returns).
 *   a recall, while the server has no connection to send it on    Linux does not send it later, and
 *        revokes only what it has tried to recall (since 6.12 at the latest): who waits for the delegation
 *        would wait for as long as the file is used here. So all are DUE when there is a back channel again,
 *        after BIND_CONN_TO_SESSION (nfs4_control.c) and with a new session (nfs4_recover.c); and so is
 *        what the reply to an OPEN brings that was sent before.
 *   two lanes that take what is due    One gets it, with the lock held.
 *   the lane of a DELEGRETURN loses its connection    vfs ends the operation when another lane has one,
 *        and it is DUE again: that lane's tick takes it. The server may get two of them.
 *   a DELEGRETURN without an answer    It pauses, for longer each time, up to a lease period, and is sent
 *        again as long as the mount lasts: only its answer says whether the server keeps the stateid.
 *   the session is lost     Delegations are the client's, not the session's: they stay. A DELEGRETURN
 *        that the server has executed is answered BAD_STATEID in the next session: it is returned.
 *   the server restarts     The table is emptied while the lanes hold; those of files that are open come again
 *        with their opens (nfs4_regain.c), and are others then. A DELEGRETURN under way ends with whatever the
 *        server says. An OPEN's reply that the old server has sent, and that is decoded later, is of a
 *        session that is not the newest one any more: what it brings is not kept. (Whether it is, is
 *        looked at with the lock held. So it is kept before the table is emptied, or not at all.)
 *   an OPEN that stays      goes with the delegation: whoever takes that to return it takes those as well,
 *        and closes them; what the server has forgotten with it is dropped.
 *   the file is freed       The delegation has a reference to the nfs_file; vfs may forget the inode,
 *        and make another one with that handle. The table goes by handles, and finds it for both.
 *
 * What is believed as long as it is HELD: nfs4_belief.c.
 *
 * The lock is held for a look at the table, and never while anything is sent or told. The slots' lock
 * may be taken while it is held.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "base/hash.h"
#include "base/list.h"
#include "nfs/file.h"
#include "nfs/nfs4/nfs4_locks.h"
#include "nfs4.h"

#define NFS4_DELEGS_MAX 5000u
/* With so many, the oldest ones are returned until half of NFS4_DELEGS_MAX are left. */
#define NFS4_DELEGS_MANY (NFS4_DELEGS_MAX / 4 * 3)
/* So many OPENs that nobody uses stay at the server, of all files and of one. */
#define NFS4_KEPT_MAX NFS4_DELEGS_MAX
#define NFS4_KEPT_OF_ONE 4u

struct nfs_call;
struct nfs_server;

enum nfs4_delegation_state { NFS4_HELD, NFS4_DUE, NFS4_RETURNING, NFS4_PAUSES, NFS4_LOST, NFS4_DELEGATION_STATES };

/* Under the lock, but for what is constant. */
struct nfs4_delegation {
	struct nfs_delegation d;        /* constant */
	struct hash_node by_fh;         /* in no table once it is forgotten; the same of: */
	struct hash_node by_stateid;
	struct list node;               /* in the list of its state */
	enum nfs4_delegation_state state;
	uint64_t used_ns;               /* HELD: when the file was last seen to be used */
	uint64_t again_ns;              /* PAUSES: until then */
	unsigned tries;                 /* DELEGRETURNs in a row without an answer */
	bool answered;                  /* DELEGRETURN's: the server has it back */
	bool no_times;                  /* the same: the server has refused the time of access */
	struct list kept;               /* OPENs that nobody uses */
	unsigned nkept;
	struct list granted;            /* opens by which there are locks that only this mount knows (nfs4_granted.c) */
	struct list claimed;            /* RETURNING: those whose locks are the server's since */
	struct nfs4_claim claim;        /* RETURNING: the operation's */
	nfsstat4 refused;               /* DELEGRETURN's: the server did not know it, or has revoked it; or NFS4_OK */
	stateid4 stateid;               /* constant; its seqid is 0 */
};

struct nfs4_delegs {
	pthread_mutex_t mu;             /* for the rest, but for what is atomic */
	struct hash_node *by_fh[1024], *by_stateid[1024];
	struct nfs4_delegs_place {      /* of files with one hash */
		unsigned asking;        /* OPENs without a reply that have asked for one */
		uint32_t returns;       /* how many have begun to go back */
	} place[1024];
	struct nfs4_delegs_list {
		struct list list;       /* HELD: the one that was not used for longest first */
		_Atomic unsigned n;
	} in[NFS4_DELEGATION_STATES];
	uint32_t returns;               /* how often all have begun to go back at once */
	uint64_t numbers;
	_Atomic unsigned count;         /* of all lists */
	unsigned nkept;                 /* OPENs that nobody uses */
};

void nfs4_delegs_init(struct nfs4_delegs *t);
/* When all others are gone. Frees what is left. */
void nfs4_delegs_fini(struct nfs4_delegs *t);

/* ---- lane threads ---- */

/* OPEN is being encoded: does it ask for a delegation? If so, nfs4_delegs_ask_ends() follows when the
 * reply has been decoded, or will not come. */
bool nfs4_delegs_ask(struct nfs_call *c);
void nfs4_delegs_ask_ends(struct nfs_call *c);
/* Which one it asks for: OPEN4_SHARE_ACCESS_WANT_*. The access is not widened for it: knfsd before 6.16 gives one to
 * write only to who opens a file for both. */
uint32_t nfs4_delegs_wanted(const struct nfs_call *c);
/* The same of a kind. */
uint32_t nfs4_delegs_want(uint64_t kind);
/* OPEN has brought that one, for c->open->file. kind: NFS_DELEGATION_WRITES, _TIMES, _OF_DIR, or 0. useful: it may
 * be kept, or else it is due. false: OPEN has to return it, because there are to be none. */
bool nfs4_delegs_got(struct nfs_call *c, const stateid4 *stateid, uint64_t kind, bool useful);
/* The arguments of an OPEN that reclaims ask for what c->open's file had before the server's restart. */
void nfs4_regain_ask(const struct nfs_call *c, OPEN4args *a);
/* The server wants it back. What CB_RECALL is answered. */
nfsstat4 nfs4_delegs_recall(struct nfs_server *s, const stateid4 *stateid, const struct nfs_fh *fh);
/* The same of idle ones of these kinds (RCA4_TYPE_MASK_*), until so many of them are left: nfs4_idle.c. */
void nfs4_idle_recall(struct nfs4_delegs *t, const bitmap4 *kinds, uint32_t keep);
/* CB_GETATTR of that file. NFS4_OK: it has *d, to write, with a reference to the file. Otherwise what it is
 * answered. nfs4_delegation.c. */
nfsstat4 nfs4_delegation_asked(struct nfs_server *s, const struct nfs_fh *fh, struct nfs_delegation *d);
/* Members of struct nfs_version. */
bool nfs4_delegs_any_due(const struct nfs_server *s);
struct nfs_delegation *nfs4_delegs_take(struct nfs_server *s);
void nfs4_delegs_return_ends(struct nfs_call *c);

/* OPEN4_SHARE_ACCESS_* of O_ACCMODE: nfs4_state.c. */
uint32_t nfs4_share_access(int flags);
/* Members of struct nfs_version: nfs4_kept.c. */
bool nfs4_kept_stays(struct nfs_server *s, struct nfs_open *o);
struct nfs_open *nfs4_kept_again(struct nfs_server *s, const struct nfs_file *f, uint64_t delegation,
				 const struct rpc_cred *cred, int flags, bool exec);
struct nfs_open *nfs4_kept_take(struct nfs_server *s, struct nfs_delegation *d, struct rpc_cred *cred);

/* The same: nfs4_granted.c, nfs4_claim.c. */
enum nfs_lock_here nfs4_granted_lock(struct nfs_server *s, struct nfs_call *c);
struct nfs_open *nfs4_claim_next(struct nfs_server *s, struct nfs_delegation *d, struct rpc_cred *cred);
/* CLAIM has ended: its open is claimed; or it has to go on somewhere else, and the delegation is due again, as if
 * DELEGRETURN had no answer. Or DELEGRETURN has. */
void nfs4_claim_or_return_ends(struct nfs_call *c);

/* ---- any thread ---- */

struct nfs4_delegs_place *nfs4_delegs_place(struct nfs4_delegs *t, const struct nfs_fh *fh);
/* With t->mu. That file's; of several, the one that matters most. And: those that stay with it are dropped,
 * without CLOSE. */
struct nfs4_delegation *nfs4_delegs_find_locked(struct nfs4_delegs *t, const struct nfs_fh *fh);
void nfs4_kept_drop_locked(struct nfs4_delegs *t, struct nfs4_delegation *d);
/* The same: it is due, the first of them or the last. And: the server does not have it any more, nor what stays
 * with it; d is gone, unless its operation has it. */
void nfs4_delegs_drop_locked(struct nfs4_delegs *t, struct nfs4_delegation *d, bool first);
void nfs4_delegs_forget_locked(struct nfs4_delegs *t, struct nfs4_delegation *d);
/* It is LOST from now on; and: that of the file. */
void nfs4_delegs_lose_locked(struct nfs4_delegs *t, struct nfs4_delegation *d);
struct nfs4_delegation *nfs4_delegs_find_lost_locked(struct nfs4_delegs *t, const struct nfs_fh *fh);
/* c, an OPEN that reclaims, has brought one of that kind, which its file had before. */
bool nfs4_regain_fits_locked(struct nfs4_delegs *t, const struct nfs_call *c, uint64_t kind);

/* The same: what was granted under it is the server's business from now on, or, if it is forgotten, recovery's.
 * Or all of it is lost: of how many owners? And: the server has the locks of that open, which has some. */
void nfs4_granted_drop_locked(struct nfs4_delegation *d);
unsigned nfs4_granted_lose_locked(struct nfs4_delegation *d);
void nfs4_granted_claimed_locked(struct nfs_open *o);

/* Members of struct nfs_version. The second one is for any thread, and for what OPENs under way will bring, too. */
void nfs4_delegs_drop(struct nfs_server *s, const struct nfs_file *f);
void nfs4_delegs_drop_all(struct nfs_server *s);
bool nfs4_delegation_leaves(struct nfs_server *s, const struct nfs_file *f);

/* ---- control thread ---- */

/* Drops those that nobody has used for so long, and what are too many. Ends pauses. nfs4_idle.c. */
void nfs4_idle_sweep(struct nfs4_delegs *t, uint64_t now_ns, uint64_t patience_ns);
/* Drops those under which there are locks, and that may have been revoked. */
void nfs4_granted_look(struct nfs_server *s);
/* The server has none of them any more. Those of open files may come again with OPENs that reclaim, until
 * nfs4_regain_ends(). */
void nfs4_regain_begins(struct nfs4_delegs *t);
void nfs4_regain_ends(struct nfs4_delegs *t);
