/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copies that go on behind COPY's reply, from that reply until they have ended.
 *
 *   lane that copies                         any lane, its thread
 *     offload_expect()   COPY is sent
 *                                            offload_on_ended(): CB_OFFLOAD. It may come before the
 *     offload_wait()     COPY's reply         reply: then it is kept
 *        pause  <--- message to the lane ---- offload_on_ended()
 *        OFFLOAD_STATUS, if nothing is heard for long
 *     ended()
 *
 * A copy is found by the file and by the id that COPY's reply has. What is said of one that nobody waits
 * for is kept only while a COPY has no reply yet, and no more than OFFLOAD_EARLY of it. Only the first word
 * about a copy counts.
 *
 * A callback may be lost with its connection, and a server need not have any to send. So it is asked, too,
 * by OFFLOAD_STATUS: often, if no callback is to come. It is told to stop if nobody waits for the copy
 * any more, or if it does not know how far it has come. Until it has answered that, the operation has not
 * ended, and nobody of this mount writes the file.
 *
 * The operation and its timer are its lane's. The table has a lock, under which others set what has become
 * of a copy; they name the lane in the message, and not the operation. Operations that are left when their
 * lane's thread has ended are in the table until they are freed; no lane hears of callbacks by then.
 */
#pragma once

#include <pthread.h>
#include "nfs/call.h"

struct vfs;
struct vfs_lane;
struct vfs_op;

#define OFFLOAD_EARLY 16u

enum offload_fate {
	OFFLOAD_ENDED,          /* op->copy.wait.end says how */
	OFFLOAD_LOST,           /* the server copies no more, and how far it has come is not known */
	OFFLOAD_RUNS,           /* it may copy on, and cannot be stopped */
};

/* Everything under mu. */
struct vfs_offloads {
	pthread_mutex_t mu;
	struct list waiting;            /* op_offload.node */
	unsigned expected;              /* COPYs that may go on, and have no reply yet */
	unsigned nearly;                /* how many were kept since there are any */
	struct offload_early {
		bool used;
		struct nfs_fh fh;
		struct nfs_copy_id id;
		struct nfs_copy_end end;
	} early[OFFLOAD_EARLY];
};

/* Part of an operation that copies. */
struct op_offload {
	struct list node;
	enum { OFFLOAD_NOT, OFFLOAD_EXPECTED, OFFLOAD_WAITS, OFFLOAD_TOLD } state;      /* under mu */
	struct nfs_copy_end end;        /* under mu, while it is in the table */
	bool pauses;                    /* the timer runs, and no call is under way */
	unsigned ask_ms, most_ms;       /* the next pause between two OFFLOAD_STATUS, and the longest */
	uint64_t ask_ns;                /* when the next one is sent */
	void (*ended)(struct vfs_op *op, enum offload_fate fate);
};

void offloads_init(struct vfs_offloads *o);
void offloads_fini(struct vfs_offloads *o);

/* COPY is about to be started as op's call, and the copy may go on. offload_wait() or offload_leave()
 * follows. */
void offload_expect(struct vfs_op *op);
/* op's COPY has been answered: the copy goes on, with op->call.args.copy.id. ended() runs when it does
 * not any more. */
void offload_wait(struct vfs_op *op, void (*ended)(struct vfs_op *op, enum offload_fate fate));
/* op waits for none, or not any more. true: op->copy.wait.end is what CB_OFFLOAD has said. */
bool offload_leave(struct vfs_op *op);

/* nfs_front.copy_ended, on vl's thread */
bool offload_on_ended(struct vfs_lane *vl, const struct nfs_fh *fh, const struct nfs_copy_id *id,
		      const struct nfs_copy_end *end);
void offload_on_wake(struct loop_msg *m);
