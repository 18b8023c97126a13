/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What ahead.c and ahead_fetch.c share. */
#pragma once

#include "vfs/vfs_impl.h"

struct ahead_piece {
	struct file *file;              /* whose reader it was fetched for; NULL: it is in no list */
	struct list node;               /* in the list of that file's extents */
	struct vfs_lane *vl;             /* has sent its READ */
	struct arena_buf *buf[RR_SINK_IOV];     /* each has vfs_ahead.part bytes of it; the last one
						 * may have less, and those behind are NULL */
	size_t size;                    /* of all its buffers: counted in vfs_ahead.used */
	uint64_t at;                    /* where it begins in the file */
	uint32_t len;                   /* bytes asked for while it is flying; then what came */
	uint32_t given;                 /* how much was given out */
	bool flying;                    /* its READ is under way */
	bool eof;                       /* the file ends where it ends */
	_Atomic unsigned refs;          /* more of them only with the lock held */
	uint64_t nr;                    /* the file's data_nr when READ was sent... */
	uint64_t sent_ns;               /* ...and when that was */
	uint64_t used_ns;               /* when it came, or was last given out */
};

enum ahead_got { AHEAD_NOTHING, AHEAD_ON_ITS_WAY, AHEAD_ALL };

/* The pieces of x, from the oldest one on; p may be dropped. */
#define ahead_each(p, x) \
	for (struct ahead_piece *p = ahead_piece_of((x)->pieces.next), *p##_next; \
	     &p->node != &(x)->pieces && (p##_next = ahead_piece_of(p->node.next)); \
	     p = p##_next)

static inline struct ahead_piece *ahead_piece_of(struct list *n)
{
	return container_of(n, struct ahead_piece, node);
}

/* ---- ahead.c ---- */

/* Drops a reference. */
void ahead_put(struct vfs_lane *vl, struct ahead_piece *p);
/* op has got that, with the lock held. true: it is answered now, or waits for a piece. */
bool ahead_give(struct vfs_op *op, enum ahead_got got);
/* The same after a look: no lock may be held. */
bool ahead_serve(struct vfs_op *op);
/* Puts x into the mount's list, or takes it out: it has pieces now, or none. No lock may be held. */
void ahead_relist(struct vfs_ahead *a, struct extents *x);

/* With extents.mu held: */

/* What is there for op? ahead_give() follows. What is outdated is dropped. */
enum ahead_got ahead_look_locked(struct extents *x, struct vfs_op *op, uint64_t now);
/* Takes p out of its list. Nobody gets anything from it any more. */
void ahead_drop_locked(struct vfs_lane *vl, struct ahead_piece *p);
/* p's READ has ended. ok: it has brought something, or the end of the file. Drops the READ's
 * reference. */
void ahead_landed_locked(struct vfs_lane *vl, struct ahead_piece *p, bool ok, uint64_t now);
/* The piece that has, or will have, the byte at that place; or NULL. */
struct ahead_piece *ahead_piece_at_locked(const struct extents *x, uint64_t at);
