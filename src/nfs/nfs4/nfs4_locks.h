/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locks: what is held by an open, and who asks for it once more. See nfs4_lock.c, nfs4_relock.c, nfs4_claim.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "nfs/call.h"
#include "nfs/ranges.h"
#include "nfs/version.h"
#include "nfs4.h"

/* What one lock-owner has through one open (nfs4_lock.c). Under in->mu of the open. */
struct nfs4_lock {
	struct list node;               /* in nfs_open.locks */
	uint64_t owner;
	bool known;                     /* the server has this stateid for it: */
	stateid4 stateid;
	struct nfs_ranges held;
	bool unsure;                    /* the server may have more than `held` */
	bool lost;                      /* the server does not have `held`: counted in locks_lost */
	bool ending;                    /* the newest call sent is LOCKU of all: with it the stateid goes */
};

/* A range of what an owner has locked, as LOCK asks for it once more. */
struct nfs4_relock {
	uint64_t owner;
	struct nfs_range range;
	bool known;                     /* the server has this stateid for the owner: */
	stateid4 stateid;
};

/* How far an operation has got with the locks of an open (nfs4_claim.c). */
struct nfs4_claim {
	struct nfs4_relock lock;
	uint64_t from;                  /* the range ends there or behind it... */
	bool ended;                     /* ...or there is none: the owner's last one went to the end */
	bool sent;                      /* this sending has a LOCK */
	uint32_t age;                   /* nfs_open.locks_age */
};

/* ---- nfs4_lock.c ---- */

extern const struct nfs_opdef nfs4_op_lock, nfs4_op_lockt, nfs4_op_locku, nfs4_op_claim;
/* LOCK once more, of c->open. */
bool_t nfs4_put_relock(struct nfs_call *c, XDR *x, const struct nfs4_relock *l, bool reclaim);

/* ---- nfs4_held.c: with o->in->mu ---- */

/* That owner's; that of the least number above it; or NULL. */
struct nfs4_lock *nfs4_lock_find_locked(const struct nfs_open *o, uint64_t owner);
struct nfs4_lock *nfs4_lock_next_locked(const struct nfs_open *o, uint64_t owner);
void nfs4_lock_free_locked(struct nfs4_lock *l);
void nfs4_locks_free_locked(struct nfs_open *o);
/* The owner gets that lock: r has `had` and `held`. *l: NULL, or what is noted of it. 0 or -ENOMEM. And LOCKU's. */
int nfs4_lock_note_locked(struct nfs_open *o, const struct nfs_lock_args *a, struct nfs_lock_results *r,
			  struct nfs4_lock **l);
int nfs4_unlock_note_locked(struct nfs_open *o, const struct nfs_lock_args *a, struct nfs_lock_results *r);
/* LOCK is sent by it. */
void nfs4_open_note_lock_locked(struct nfs_open *o);
/* What l has is lost. false: it has nothing, or that is known. */
bool nfs4_lock_lose_locked(struct nfs_open *o, struct nfs4_lock *l);
/* Without the lock. LOCK is sent by it; all that its owners have is lost: of how many? The log says so of each. */
void nfs4_open_note_lock(struct nfs_open *o);
unsigned nfs4_locks_lose(struct nfs_open *o);
void nfs4_locks_say_lost(const char *server, unsigned lost, nfsstat4 status);
/* Both, of one owner's. stateid: TEST_STATEID has found the status of this one; NULL: whatever it has. */
void nfs4_lock_lose_owner(const struct nfs_server *s, struct nfs_open *o, uint64_t owner, const stateid4 *stateid,
			  nfsstat4 status);

/* ---- nfs4_relock.c: control thread, in recovery ---- */

/* o is reclaimed: so are its locks. 0, or as nfs4_run(). */
int nfs4_locks_reclaim(struct nfs_server *s, struct nfs_open *o);
/* o has another stateid than before: its locks are lost. */
void nfs4_locks_gone(struct nfs_server *s, struct nfs_open *o);
/* Which ones has the server revoked? 0, or as nfs4_test_ends(). */
int nfs4_locks_test(struct nfs_server *s);
extern const struct nfs_opdef nfs4_op_relock;
