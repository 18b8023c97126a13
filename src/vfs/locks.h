/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks of byte ranges on the server: for fcntl(), open file descriptions, flock() (of the whole file).
 * locks.c has the calls, locks_wait.c who waits for a lock.
 *
 *   inode.locks ----> owners    who has locks of the file, or had: one for each key of the front end's and open
 *      (NULL: none)   waiters   operations that were denied and wait, the oldest first
 *
 * An owner's locks belong on the server to the open that its first one went through (`file`), and are
 * freed when that is closed. (Version 3 has no CLOSE; its client unlocks them then, nfs3/nlm.h.) So who
 * holds nothing is another owner with the open of its next lock: each has a number, by which the server knows
 * it, and which is the same when that open has its turn again, unless a descriptor of that open was closed in
 * between. While it holds something, its other locks go through the same open, whichever it names: for POSIX
 * all locks that a process has of a file are one set. That open cannot be closed meanwhile by whoever
 * has the locks, because close() of any open of the file releases them: the front end says so
 * (vfs_unlock_owner()).
 *
 * What the last close of an open file finds (open file descriptions and flock(), whose owner is that
 * open file) is unlocked before CLOSE.
 *
 * Calls of one owner come one after the other: it is `busy`, and who wants it looks again in some
 * milliseconds. Others' are sent at once.
 *
 * What is promised of data: before LOCK, what was written is on the server, and before LOCKU on stable
 * storage. With LOCK all that was read ahead is dropped, and not only if the file's attributes are
 * others: a server's clock may not have ticked between two writes. LOCK brings the attributes. The front
 * end sees to what its other side keeps (vfs_lock_told()).
 *
 * Under a delegation to write this mount grants locks itself, because nobody else has the file open
 * (nfs/nfs4/nfs4_granted.c). The first one asks for the attributes, which LOCK would have brought. From then on the
 * front end knows the file as it is, for as long as the delegation lasts, and with it there is nothing to do.
 *
 * An operation that nobody waits for any more, and that gets its lock, gives it back; unless it was to
 * change what the owner held there: to unlock that would take away what its program has. Then the
 * stronger one stays, until it is unlocked. The same if the call has ended without an answer.
 *
 * A file that is closed without a wait (the kernel tells of it later) may still have its lock when the
 * next program asks. So one that may not wait is sent again while such a close is at work.
 */
#pragma once

#include <stdlib.h>
#include "vfs/inode.h"
#include "nfs/ranges.h"

struct vfs_op;
struct vfs_lane;
struct file;

struct lock_owner {
	struct list node;               /* in vfs_locks.owners */
	uint64_t key;                   /* the front end's */
	uint64_t number;                /* the server's */
	struct file *file;              /* no reference: who uses it takes one */
	pid_t pid;                      /* of the last lock */
	bool busy;                      /* an operation has it */
	bool held;                      /* it has locks, or may have */
};

/* Everything under mu. */
struct vfs_locks {
	pthread_mutex_t mu;
	struct list owners, waiters;    /* op_lock.node */
	uint64_t under;                 /* since a lock that was granted under that delegation the front end
					 * knows the file as it is; 0: none */
	unsigned unlocks;               /* LOCKUs that have ended, and what the server has said to be free */
	unsigned closing, closes;       /* last closes that unlock: under way; ended */
	/* The last reference to f is gone. true: it had locks, which are unlocked, and then closed()
	 * comes. (A pointer: this file stands above the one that closes.) */
	bool (*close)(struct vfs_lane *vl, struct file *f,
		      void (*closed)(struct vfs_lane *vl, struct file *f));
};

/* Part of an operation. */
struct op_lock {
	/* From the front end. vfs_getlk() also returns what is in the way in type (NFS_RANGE_NONE:
	 * nothing), start, last, pid (0: it is not of this mount). */
	uint64_t key;
	uint64_t start, last;
	enum nfs_range_set type;        /* NFS_RANGE_NONE: unlock */
	pid_t pid;
	bool waits;                     /* until it is granted */

	bool all;                       /* unlock, whatever the owner has */
	bool queued;                    /* in waiters */
	bool asleep;                    /* ...and in the lane's list, with the timer */
	bool woken;                     /* the lane is told to try it: under mu */
	unsigned shift;                 /* of its next pause */
	unsigned tries;
	unsigned unlocks, closes;       /* of vfs_locks, when the call was made */
	int status;                     /* of LOCK, while LOCKU undoes it */
	bool had;                       /* its answer, while GETATTR is under way */
	uint64_t under;                 /* LOCK was granted under that delegation; 0: by the server */
	bool unchanged;                 /* the front end knows the file as it is: vfs_locks.under */
	struct lock_owner *owner;       /* busy with this operation, or NULL */
	uint64_t number;                /* for the server */
	struct file *through;           /* a reference: whose open the call has */
	struct list node, lane_node;
	void (*closed)(struct vfs_lane *vl, struct file *f);
};

static inline struct vfs_locks *locks_of(const struct inode *ino)
{
	return atomic_load_explicit(&ino->locks, memory_order_acquire);
}

/* With the inode. An owner goes with its open, at the latest. */
static inline void locks_free(struct vfs_locks *l)
{
	if (l)
		pthread_mutex_destroy(&l->mu);
	free(l);
}

/* ---- for the front end: vfs_op has ino and file (references), and end ---- */

/* Before the members of op->lock are used. */
void op_lock_begins(struct vfs_op *op);
/* -EAGAIN: another one has it, and op does not wait. */
void vfs_setlk(struct vfs_op *op);
void vfs_getlk(struct vfs_op *op);
/* The owner has closed one of its opens: all that it has of the file is unlocked. false: it has
 * nothing, and op does not end. */
bool vfs_unlock_owner(struct vfs_op *op, uint64_t key);
/* Has somebody of this mount a lock of it? */
bool vfs_has_locks(const struct inode *ino);
/* vfs_setlk() has succeeded, and not op->lock.unchanged: its attributes, if it has any, are the newest ones. */
void vfs_lock_told(struct vfs_op *op);
/* The front end's other side knows the file now as op has brought it. */
void vfs_lock_known(struct vfs_op *op);

/* ---- locks_wait.c ---- */

/* op pauses, and goes on with the timer. */
void locks_pause(struct vfs_op *op, unsigned ms, void (*again)(struct loop_timer *t));
/* op was denied. Its next try is locks_try(op). */
void locks_sleep(struct vfs_op *op);
/* op waits no longer. granted: it has got the lock. */
void locks_leave(struct vfs_op *op, bool granted);
/* With mu: start..last was unlocked: the first who waits for some of it tries at once. */
void locks_wake_locked(struct vfs_locks *l, uint64_t start, uint64_t last);
/* vfs_lane.locks_msg. */
void locks_on_wake(struct loop_msg *m);
/* The server says that a lock may be free which it has denied that owner. */
void locks_on_freed(struct vfs_lane *vl, const struct nfs_fh *fh, uint64_t number);
/* The lane ends: who waits has waited for nothing. */
void locks_lane_ends(struct vfs_lane *vl);

/* ---- locks.c ---- */

void locks_try(struct vfs_op *op);
/* LOCK, LOCKT or LOCKU as op->lock says. */
void locks_call(struct vfs_op *op, enum nfs_op number, void (*done)(struct vfs_op *op));
/* With mu. */
void locks_owner_end_locked(struct lock_owner *o);

/* ---- locks_close.c ---- */

/* vfs_locks.close */
bool locks_close(struct vfs_lane *vl, struct file *f, void (*closed)(struct vfs_lane *vl, struct file *f));
