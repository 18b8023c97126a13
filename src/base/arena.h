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
 * BIG    READ data, and the tail of large writes.
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
 *
 * EXTENTS. The buffers described so far exist as long as the arena. More data buffers come and go
 * with the work, in extents of 16 MiB, up to a bound (arena_grows()). Their addresses are
 * reserved from the beginning; their memory is there only while the extent is:
 *
 *     AWAY  --mapped, touched, registered with all devices-->  LIVE
 *      ^                                                         |
 *      +--registered nowhere, unmapped--  LEAVING  <-------------+  unused for some seconds, or
 *                                                                   the machine is short of
 *                                                                   memory
 *
 * The keeper, a thread that may block, does both. A lane asks for more by arena_want() and goes
 * on; when an extent is LIVE, the lanes in the queue are called. An extent cannot be added if
 * memory is short, or if a device cannot register it. Then the arena stays as it is, and no
 * lane notices.
 *
 * Magazines do not stock an extent's buffers, and the depot gives them out last, those of the
 * lowest extent first. So extents become free from the top, and one that has all its buffers in
 * the depot is used by nobody. From one that is LEAVING no buffer is given out. It stays
 * registered until the last of its buffers is back.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "base/lent.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/stats.h"

enum arena_class { ARENA_MSG, ARENA_SMALL, ARENA_MID, ARENA_BIG, ARENA_CLASSES };

#define ARENA_MSG_SIZE   ((size_t)5120) /* RR_HDR_ROOM + 4096, and alignment */
#define ARENA_SMALL_SIZE ((size_t)8192)
#define ARENA_MID_SIZE   ((size_t)65536)
/* 1 MiB of data plus a page, so that data that starts inside a page fits. */
#define ARENA_BIG_SIZE   ((size_t)1048576 + 4096)

struct arena_extent;

struct arena_buf {
	struct list node;       /* the arena's while free; the owner's while taken */
	struct arena_extent *extent;    /* that it lies in; NULL: it is always there */
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

#define ARENA_EXTENT_BITS 24u
#define ARENA_EXTENT      ((size_t)1 << ARENA_EXTENT_BITS)
#define ARENA_EXTENTS_MAX 1024u

enum arena_extent_state { ARENA_AWAY, ARENA_LIVE, ARENA_LEAVING };

struct arena_extent {
	_Atomic enum arena_extent_state state;  /* the keeper changes it, under the depot's lock */
	struct arena_counts counts;
	struct arena_buf *bufs;
	/* Under the depot's lock: */
	struct list free[ARENA_CLASSES];
	unsigned out;                   /* buffers that somebody has */
	bool used;                      /* a buffer was given out since the keeper last looked */
	unsigned idle;                  /* looks in a row that found it free and not used */
};

/* What the keeper needs. All are called on its thread. */
struct arena_keeper_ops {
	/* Bytes that may still be taken from the machine; negative: it is short of memory. */
	int64_t (*spare)(void *ctx);
	/* Registers extent i, all of r, with all devices that there are and that come. 0, or
	 * -errno with eb set: then no device has it. */
	int (*add)(void *ctx, unsigned i, const struct arena_range *r, struct errbuf *eb);
	/* Ends that. false: a device still has it, and will be asked again. */
	bool (*remove)(void *ctx, unsigned i);
	unsigned look_ms;       /* how often the keeper looks while there are extents */
};

struct arena_growth {
	struct arena_range range;       /* the extents' addresses */
	struct arena_extent *extents;
	unsigned n;                     /* of them; 0: the arena does not grow */
	const struct arena_keeper_ops *ops;
	void *ctx;
	struct stats stats;             /* written by the keeper, and before it starts */
	_Atomic unsigned wanted;        /* 1 << class: more of these buffers */
	_Atomic bool full;              /* none can be had now */
	/* Under the depot's lock: */
	pthread_cond_t cond;
	bool stop, give_back;           /* asked of the keeper */
	unsigned there;                 /* extents that are not AWAY */
	unsigned free[ARENA_CLASSES];   /* free buffers of LIVE extents */
	unsigned lowest[ARENA_CLASSES]; /* no LIVE extent below has a free one */
	struct arena_counts live;       /* buffers of LIVE extents */
	/* The keeper's: */
	unsigned most;                  /* extents that can be had; n, or what was found */
	uint64_t again_ns;              /* until then; 0: most is n */
	uint64_t look_ns;               /* when it looks next */
	bool told_short, told_limit;    /* the log says so already */
	pthread_t tid;
	bool started;
	/* Who is told of changes; under told_mu, which is held during the call. */
	pthread_mutex_t told_mu;
	void (*changed)(void *ctx);
	void *changed_ctx;
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

	struct arena_growth more;
	struct lent lent;               /* its pieces are numbered behind the extents */
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

/*
 * From now on the arena grows by up to n extents. Reserves their addresses, and starts the
 * keeper, which has the caller's privileges. 0 or -errno; the arena works in either case.
 */
int arena_grows(struct arena *a, unsigned n, const struct arena_keeper_ops *ops, void *ctx);
/* Ends the keeper, before the lanes' loops and the devices end. Extents stay as they are. */
void arena_stop_growing(struct arena *a);
/* Any thread, does not wait: more buffers of this class would be of use. */
void arena_want(struct arena *a, enum arena_class cls);
/* Any thread: the memory of all extents is wanted elsewhere. They leave as soon as their buffers
 * are back, and none comes for a while. */
void arena_give_back(struct arena *a);
/* How many buffers of this class LIVE extents have. */
unsigned arena_more(struct arena *a, enum arena_class cls);
/* changed(ctx) is called on the keeper's thread each time that arena_more() has changed. When
 * this returns the one before is not called any more. NULL: nobody. */
void arena_tell(struct arena *a, void (*changed)(void *ctx), void *ctx);
/* The extent of a piece of an extent's buffer; -1: it lies in none that is there. */
int arena_extent_of(const struct arena *a, const void *mem, size_t len);
/* The same for the devices' tables of registered pieces, where memory that is lent comes behind the
 * extents; -1: it is in neither. */
static inline int arena_piece_of(const struct arena *a, const void *mem, size_t len)
{
	int i = arena_extent_of(a, mem, len);

	if (i >= 0)
		return i;
	i = lent_find(&a->lent, mem, len);
	return i < 0 ? -1 : (int)a->more.n + i;
}

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
/* The loop's thread. *b is kept for later, and has nothing in it that is needed. If it lies in an
 * extent it is exchanged for one from below that, so that the extent can leave. */
void magazine_exchange(struct magazine *m, struct arena_buf **b);

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
