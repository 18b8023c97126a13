/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process's buffers: two page-aligned mappings, cut into classes. A device
 * registers each mapping once.
 *
 *     local  +-----------------+-------------+
 *            | RECV  4 KiB     | MSG   5 KiB |                       the device's, and ours
 *            +-----------------+-------------+
 *     data   +-----------------+-----------------+-----------------+
 *            | SMALL 8 KiB     | MID  64 KiB     | BIG 1 MiB 4 KiB |  the peer's as well
 *            +-----------------+-----------------+-----------------+
 *
 * RECV   posted receives of a connection (inline threshold).
 * MSG    an outgoing message: room for the largest transport header, then the RPC
 *        message, so that one contiguous Send carries both.
 * SMALL  READ data up to 8 KiB, short Reply chunks, long messages.
 * MID    READ data up to 64 KiB, WRITE data, Long Calls, Reply chunks.
 * BIG    READ data, and the tail of large FUSE writes.
 *
 * A peer may write to any of `data` at any time, if one registration serves for all
 * calls (rpcrdma/memreg.h). So nothing is parsed there, and nothing that is followed
 * lies there: file data is handed on as it is, and a message is copied out before
 * anybody looks at it. What the arena knows of its buffers is outside of both mappings.
 *
 * A buffer belongs to whoever has taken it, on any thread, and may be handed to another
 * one: what one lane has read another may send or answer. It is put back when no peer
 * can reach it any more: after the reply and its invalidation, or after the connection
 * that it was offered to is gone.
 *
 *     lane 0: magazine  <--+                            +-->  magazine :lane 1
 *             no lock      |    depot, with a lock      |     no lock
 *                          +--- some at a time, both ---+
 *                               ways
 *
 * A lane takes from its magazine and puts there. An empty one is filled from the depot, a
 * full one is emptied to the depot, several buffers at a time. When the depot is empty,
 * too, the lane waits in a queue: from then on all lanes put buffers of that class into
 * the depot, those that lie in magazines included, and each buffer calls the first that
 * waits. So no lane has buffers that it does not use while another one is short of them.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"

enum arena_class { ARENA_RECV, ARENA_MSG, ARENA_SMALL, ARENA_MID, ARENA_BIG, ARENA_CLASSES };

#define ARENA_RECV_SIZE  ((size_t)4096)
#define ARENA_MSG_SIZE   ((size_t)5120) /* RR_HDR_ROOM + 4096, and what is aligned */
#define ARENA_SMALL_SIZE ((size_t)8192)
#define ARENA_MID_SIZE   ((size_t)65536)
/* 1 MiB of data plus a page, so that data that starts inside a page fits. */
#define ARENA_BIG_SIZE   ((size_t)1048576 + 4096)

struct arena_buf {
	struct list node;       /* the arena's while free; the owner's while taken */
	enum arena_class cls;
	size_t size;            /* bytes at mem */
	void *mem;
};

struct arena_counts {
	unsigned n[ARENA_CLASSES];
};

struct arena_range {
	void *base;
	size_t len;
};

struct magazine {
	struct arena *arena;
	struct loop *loop;
	void (*freed)(void *ctx);
	void *ctx;
	struct list free[ARENA_CLASSES];
	_Atomic unsigned nfree[ARENA_CLASSES];  /* changed by the lane, read by who waits */
	/* Under the depot's lock: */
	struct list wait[ARENA_CLASSES];        /* in the depot's queue, or by itself */
	struct loop_msg called, empty;          /* to the lane: there are buffers; give yours */
	bool called_sent, empty_sent;
};

struct arena {
	struct arena_range local;       /* RECV and MSG: no peer ever gets in */
	struct arena_range data;        /* SMALL, MID and BIG */
	struct arena_buf *bufs;
	struct arena_counts counts;

	/* The depot. */
	pthread_mutex_t mu;
	struct list free[ARENA_CLASSES];
	struct list waiting[ARENA_CLASSES];     /* magazines (wait), in order */
	_Atomic bool wanted[ARENA_CLASSES];     /* somebody waits; changed under mu */
	struct magazine **mags;
	unsigned nmags;
};

/* Bytes that an arena with these counts maps (and pins, when registered). */
size_t arena_bytes(const struct arena_counts *counts);

/* Maps the memory, zeroed and touched, in huge pages where there are some. nmags: the most
 * magazines that there will be. 0 or -errno. */
int arena_init(struct arena *a, const struct arena_counts *counts, unsigned nmags);
/* All buffers are forgotten; no magazine may be left. */
void arena_fini(struct arena *a);

/* Any thread, past the magazines: for what is taken and put back rarely, as the receives
 * of a connection are. NULL: there is none. */
struct arena_buf *arena_take(struct arena *a, enum arena_class cls);
void arena_give(struct arena *a, struct arena_buf *b);

/* A lane's magazine. freed(ctx) runs on the loop's thread when magazine_get() had found
 * nothing and may find something now. */
void magazine_init(struct magazine *m, struct arena *a, struct loop *l,
		   void (*freed)(void *ctx), void *ctx);
/* Gives all back; the loop has ended. */
void magazine_fini(struct magazine *m);

/* The loop's thread. A free buffer of that class; NULL: there is none, and freed() will
 * be called. */
struct arena_buf *magazine_get(struct magazine *m, enum arena_class cls);
/* The smallest data class that holds `size`, or a larger one when that is empty. */
struct arena_buf *magazine_get_data(struct magazine *m, size_t size);
/* The loop's thread. A buffer that was taken here or elsewhere. */
void magazine_put(struct magazine *m, struct arena_buf *b);

/*
 * Counts for one of `lanes` lanes so that all of them together pin at most
 * `limit` bytes (RLIMIT_MEMLOCK; SIZE_MAX for none), at most `credits` RPCs in
 * flight on each. Shrinks the data classes before RECV and MSG. 0, or
 * -ENOMEM when not even the minimum (2 BIG, 4 MID, 8 credits) fits;
 * *need is then the limit that one lane's minimum would take.
 */
int arena_plan(struct arena_counts *counts, unsigned *credits, unsigned lanes,
	       size_t limit, size_t *need);

#endif
