/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The buffers of the process: two page-aligned mappings, cut into classes of equal buffers.
 * A device registers each mapping once. (Receives are not here: each connection has memory of
 * its own for them, see rpcrdma/link.c.)
 *
 *     local  +-----------------+
 *            | MSG   5 KiB     |                                      the device's, and ours
 *            +-----------------+
 *     data   +-----------------+-----------------+-----------------+
 *            | SMALL 8 KiB     | MID  64 KiB     | BIG 1 MiB 4 KiB |  the peer's as well
 *            +-----------------+-----------------+-----------------+
 *
 * MSG    an outgoing message: room for the largest transport header, then the RPC
 *        message, so that one contiguous Send carries both.
 * SMALL  READ data up to 8 KiB, the text of links, Long Calls.
 * MID    READ data up to 64 KiB, WRITE data, Reply chunks.
 * BIG    READ data, and the tail of large FUSE writes.
 *
 * With memreg=pool (rpcrdma/memreg.h) one registration serves all calls, and a peer may
 * write to any of `data` at any time. So nothing there is parsed or followed as a pointer:
 * file data is handed on as it is, and a message is copied out before anybody looks at it.
 * What the arena itself knows of its buffers lies outside both mappings.
 *
 * A buffer belongs to whoever has taken it, on any thread, and may be handed to another
 * thread: what one lane has read another may send or answer. It is put back when no peer
 * can reach it any more: after the reply and its invalidation, or after the connection that
 * it was offered on is gone.
 *
 *     lane 0: magazine  <--+                            +-->  magazine :lane 1
 *             no lock      |    depot, with a lock      |     no lock
 *                          +--- several at a time, -----+
 *                               both ways
 *
 * A lane takes buffers from its magazine, a small stock of its own, and puts them back
 * there. An empty magazine is filled from the depot, the common stock, and a full one is
 * emptied into it, several buffers at a time. When the depot is empty, too, the lane waits
 * in a queue. From then on all lanes put buffers of that class into the depot, including
 * those in their magazines, and each buffer calls the first lane in the queue. So no lane
 * keeps buffers that it does not use while another lane is short of them.
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

enum arena_class { ARENA_MSG, ARENA_SMALL, ARENA_MID, ARENA_BIG, ARENA_CLASSES };

#define ARENA_MSG_SIZE   ((size_t)5120) /* RR_HDR_ROOM + 4096, and alignment */
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
	/* Called when no buffer of these classes was found, without any lock. It may put some
	 * back. Or NULL; the lane's thread may set it. */
	void (*shortage)(void *ctx, enum arena_class first, enum arena_class last);
	void *ctx;
	struct list free[ARENA_CLASSES];
	_Atomic unsigned nfree[ARENA_CLASSES];  /* changed by the lane, read by waiting lanes */
	/* Under the depot's lock: */
	struct list wait[ARENA_CLASSES];        /* in the depot's queue, or unlinked */
	struct loop_msg called, empty;          /* to the lane: buffers are free; empty your
						 * stock */
	bool called_sent, empty_sent;
};

struct arena {
	struct arena_range local;       /* MSG: no peer ever reaches it */
	struct arena_range data;        /* SMALL, MID and BIG */
	struct arena_buf *bufs;
	struct arena_counts counts;

	/* The depot. */
	pthread_mutex_t mu;
	struct list free[ARENA_CLASSES];
	struct list waiting[ARENA_CLASSES];     /* magazines (by `wait`), first come first */
	_Atomic bool wanted[ARENA_CLASSES];     /* somebody waits; changed under mu */
	struct magazine **mags;
	unsigned nmags;
};

/* Bytes that an arena with these counts maps (and pins, when registered). */
size_t arena_bytes(const struct arena_counts *counts);

/* Maps the memory, zeroed and touched, in huge pages if possible. nmags: the largest
 * number of magazines. 0 or -errno. */
int arena_init(struct arena *a, const struct arena_counts *counts, unsigned nmags);
/* Frees the memory. No magazine may be left, and no buffer may be in use. */
void arena_fini(struct arena *a);

/* For the arena's ranges, and for other memory that a device registers. Maps r->len bytes
 * (0: none), zeroed and touched, in huge pages if possible; neither children nor core dumps
 * get them. 0 or -errno; in either case arena_unmap() undoes it. */
int arena_map(struct arena_range *r);
void arena_unmap(const struct arena_range *r);

/* A lane's magazine. freed(ctx) runs on the loop's thread when magazine_get() found
 * nothing and may find something now. */
void magazine_init(struct magazine *m, struct arena *a, struct loop *l,
		   void (*freed)(void *ctx), void *ctx);
/* Gives all its buffers back. The loop must have ended. */
void magazine_fini(struct magazine *m);

/* The loop's thread. A free buffer of that class. NULL: there is none, and freed() will
 * be called. */
struct arena_buf *magazine_get(struct magazine *m, enum arena_class cls);
/* The same from the smallest data class that holds `size`, or a larger one if that is
 * empty. */
struct arena_buf *magazine_get_data(struct magazine *m, size_t size);
/* The same for a use that can be left out: a buffer of the smallest class that holds `size`, if
 * one is free and no lane waits for one. The lane does not wait. */
struct arena_buf *magazine_get_spare(struct magazine *m, size_t size);
/* The loop's thread. The buffer may have been taken here or elsewhere. */
void magazine_put(struct magazine *m, struct arena_buf *b);

/*
 * Plans the counts for one lane so that `lanes` of them together pin at most `limit` bytes
 * (RLIMIT_MEMLOCK; SIZE_MAX: no limit), with at most *credits RPCs in flight on each.
 * `reserve` bytes of the limit are left to each lane for other things: its connections.
 * Shrinks the data classes before MSG. Returns 0, or -ENOMEM when not even the
 * minimum (2 BIG, 4 MID, 8 credits) fits; *need is then the limit that the minimum of one
 * lane takes.
 */
int arena_plan(struct arena_counts *counts, unsigned *credits, unsigned lanes,
	       size_t limit, size_t reserve, size_t *need);

#endif
