/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this process has of one file's data:
 *
 *   held      what programs have written, and the server may not have on stable storage yet:
 *             WRITEs (behind.h), in lists by state and in a tree by offset
 *   pieces    what was read ahead (ahead.h), in a list by age
 *
 * and the operations that wait for one of these. There is one lock for all of it, and a READ takes
 * it once: read.c looks whether something is held of its bytes, ahead.c whether pieces have them.
 *
 * Only one of the two has an answer at a time. A write that is held outdates all pieces, and nothing
 * is read ahead until the server has it for good (ahead.h). So the two need no common tree: there is
 * no range that both of them know anything good of.
 *
 * struct extents is made when the file is first written to or read ahead of, and freed with the
 * inode. Nothing is allocated under its lock. Who holds the lock of the inode's shard, or of
 * vfs_ahead, may take it; who holds it may take those of behind_pool and of the arena's depot.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "base/arena.h"
#include "base/list.h"
#include "base/loop.h"
#include "vfs/inode.h"

struct ahead_piece;
struct vfs_op;

enum held_state {
	HELD_NOT,
	HELD,                   /* may still grow */
	HELD_DUE,               /* to be sent as soon as nothing is before it */
	HELD_MOVES,             /* on its way to a lane with a connection, and DUE there */
	HELD_SENDING,
	HELD_LOOSE,
	HELD_COMMITTING,        /* LOOSE, and the COMMIT under way is for it */
	HELD_GONE,
	HELD_STATES
};

struct extents {
	pthread_mutex_t mu;             /* for everything here that is not atomic */
	struct inode *ino;
	struct list waits;              /* settle.node */

	/* What is held: behind.h. */
	struct list in[HELD_STATES];    /* HELD to COMMITTING: op_data.held.node, by seq. One that
					 * MOVES is in that of DUE */
	struct vfs_op *tree;            /* all of these, see behind_tree.h */
	struct list lane_node;          /* in vfs_lane.held, that lane's: */
	bool on_lane;                   /* that lane's tick looks after the file, and has a
					 * reference to it */
	struct loop_msg msg;            /* to a lane with a connection: go on */
	bool posted;                    /* it is on its way, with a reference to the inode */
	uint64_t seq;                   /* of the newest WRITE */
	unsigned loose[ARENA_CLASSES];  /* buffers of LOOSE ones */
	bool committing;                /* COMMIT is under way */
	bool commit_wanted;
	uint64_t doubt_ns;              /* UNSTABLE data that was sent before may be lost */
	_Atomic unsigned count;         /* of all WRITEs that are held */
	_Atomic uint64_t left_ns;       /* when a WRITE last left */
	/* The highest end of those that the server has: since left_from_ns, and in the minute
	 * before that. */
	_Atomic uint64_t left_end, left_end_before;     /* changed under mu */
	uint64_t left_from_ns;
	_Atomic uint64_t errors;        /* how many WRITEs have failed */
	int error;                      /* the newest of these, -errno */
	_Atomic unsigned taken[ARENA_CLASSES];  /* buffers */

	/* What was read ahead: ahead.h. */
	struct list pieces;
	_Atomic unsigned npieces;       /* changed under mu */
	bool listed;                    /* changed under the mount's lock, too */
	struct list node;               /* in vfs_ahead.files, under that lock alone */
};

/* An operation that waits: until what was written before is on the server, or for a piece. */
struct settle {
	struct list node;               /* in extents.waits */
	struct loop_msg msg;            /* to its lane: the wait is over */
	struct ahead_piece *piece;      /* that it waits for; or NULL: */
	uint64_t upto;                  /* the newest WRITE that it waits for */
	bool stable;
	void (*go)(struct vfs_op *op);
};

/* NULL: the file was never written to, nor read ahead of. */
static inline struct extents *extents_of(const struct inode *ino)
{
	return atomic_load_explicit(&ino->extents, memory_order_acquire);
}
/* The same, made if there is none. NULL: no memory. No lock may be held. */
struct extents *extents_make(struct inode *ino);
/* With the inode. Nothing is held, and there are no pieces. */
void extents_free(struct extents *x);
/* With the lock: op waits, until extents_wake_locked() takes it out. op->settle.go runs on its lane
 * then. */
void extents_wait_locked(struct extents *x, struct vfs_op *op, void (*go)(struct vfs_op *op));
void extents_wake_locked(struct vfs_op *op);
