/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A lane's buffers: two page-aligned mappings, each registered as a whole with
 * the fabric, cut into four classes.
 *
 *     local  +-----------------+-------------+
 *            | RECV  4 KiB x r | MSG   5 KiB |      the device's, and ours
 *            +-----------------+-------------+
 *     data   +-----------------+-----------------------+
 *            | MID  64 KiB x m | BIG 1 MiB + 4 KiB x b |     the peer's as well
 *            +-----------------+-----------------------+
 *
 * RECV  posted receives of the connection (inline threshold).
 * MSG   outgoing message: room for the largest transport header, then the RPC
 *       message, so that one contiguous send carries both.
 * MID   READ data up to 64 KiB, WRITE data, Long Calls, and Reply chunks.
 * BIG   READ data and the tail of large FUSE writes.
 *
 * Where one registration serves for all calls (rpcrdma/memreg.h) the peer may write
 * to any of `data`, at any time. So nothing is ever parsed there, and nothing that
 * is followed lies there: only file data, which is handed on as it is, and
 * messages, which are copied out before anybody looks at them. What the slab knows
 * of its buffers is outside of both.
 *
 * A slab belongs to one lane and is used by its thread only: no locks. A
 * buffer is owned by whoever slab_get() gave it to until slab_put(). It may be
 * put back only when no peer can reach it any more: after the reply (and its
 * invalidation), or after the connection that it was registered with is gone.
 */
#ifndef BASE_SLAB_H
#define BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>
#include "base/list.h"
#include "base/log.h"

enum slab_class { SLAB_RECV, SLAB_MSG, SLAB_MID, SLAB_BIG, SLAB_CLASSES };

struct slab_buf {
	struct list node;       /* free list link; the owner's to use while taken */
	enum slab_class cls;
	size_t size;            /* bytes at mem */
	void *mem;
};

struct slab_counts {
	unsigned n[SLAB_CLASSES];
};

struct slab_range {
	void *base;
	size_t len;
};

struct slab {
	struct slab_range local;        /* RECV and MSG: no peer ever gets in */
	struct slab_range data;         /* MID and BIG */
	struct slab_buf *bufs;
	struct list free[SLAB_CLASSES];
	unsigned nfree[SLAB_CLASSES];
	struct slab_counts counts;
};

#define SLAB_RECV_SIZE ((size_t)4096)
#define SLAB_MSG_SIZE  ((size_t)5120)  /* RR_HDR_ROOM + 4096 */
#define SLAB_MID_SIZE  ((size_t)65536)
/* 1 MiB of data plus a page, so that data that starts inside a page fits. */
#define SLAB_BIG_SIZE  ((size_t)1048576 + 4096)

/* Bytes that a slab with these counts maps (and pins, when registered). */
size_t slab_bytes(const struct slab_counts *counts);

/* Maps the memory, zeroed and touched. Returns 0 or -errno. */
int slab_init(struct slab *s, const struct slab_counts *counts);
void slab_fini(struct slab *s);

/* A free buffer of that class; NULL when there is none (the caller queues). */
struct slab_buf *slab_get(struct slab *s, enum slab_class cls);
void slab_put(struct slab *s, struct slab_buf *b);

/* The smallest data class (MID or BIG) that holds `size`, falling back to the
 * next larger one when it is empty; NULL when neither has a buffer. */
struct slab_buf *slab_get_data(struct slab *s, size_t size);

/* Memory for people's data outside of any slab, which is not in a core dump either;
 * whole pages, zeroed. NULL: there is none. */
void *slab_undumped(size_t len);
void slab_undumped_free(void *mem, size_t len);

/*
 * Counts for one of `lanes` lanes so that all of them together pin at most
 * `limit` bytes (RLIMIT_MEMLOCK; SIZE_MAX for none), at most `credits` RPCs in
 * flight on each. Shrinks MID and BIG before RECV and MSG. Returns 0, or
 * -ENOMEM when not even the minimum (2 BIG, 4 MID, 8 credits) fits;
 * *need is then the limit that one lane's minimum would take.
 */
int slab_plan(struct slab_counts *counts, unsigned *credits, unsigned lanes,
	      size_t limit, size_t *need);

#endif
