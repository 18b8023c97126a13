/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What ahead.c and ahead_fetch.c share. */
#ifndef VFS_AHEAD_IMPL_H
#define VFS_AHEAD_IMPL_H

#include "vfs/vfs_impl.h"

struct ahead_piece {
	struct file *file;              /* in whose list it is; NULL: in none */
	struct list node;               /* in that list */
	struct list all;                /* in vfs_ahead.all */
	struct list waiters;            /* requests that wait for it (wait_node) */
	struct vfs_lane *vl;             /* has sent its READ */
	struct arena_buf *buf[RR_SINK_IOV];     /* each has vfs_ahead.part bytes of it; the last one
						 * may have less, and those behind are NULL */
	uint64_t at;                    /* where it begins in the file */
	uint32_t len;                   /* bytes asked for while it is flying; then what came */
	uint32_t given;                 /* how much was given out */
	bool flying;                    /* its READ is under way */
	bool eof;                       /* the file ends where it ends */
	unsigned refs;                  /* lanes that answer from it */
	uint64_t nr;                    /* the file's data_nr when READ was sent... */
	uint64_t sent_ns;               /* ...and when that was */
};

/* ---- ahead.c ---- */

/* true: op is answered, or waits for a piece. */
bool ahead_serve(struct vfs_op *op);
/* Of its buffers. */
size_t ahead_piece_size(const struct ahead_piece *p);
/* Gives its buffers back. It is in no list. */
void ahead_piece_free(struct vfs_lane *vl, struct ahead_piece *p);
/* The requests of this lane that waited for a piece look again. No lock may be held. */
void ahead_run_woken(struct vfs_lane *vl);

/* With the lock held: */

/* Takes p out of its file's list. Nobody gets anything from it any more. */
void ahead_drop(struct vfs_lane *vl, struct ahead_piece *p);
/* Drops f's pieces that are outdated. */
void ahead_purge(struct vfs_lane *vl, struct file *f, uint64_t now);
/* p's READ has ended. ok: it has brought something, or the end of the file. */
void ahead_landed(struct vfs_lane *vl, struct ahead_piece *p, bool ok, uint64_t now);
/* f's piece that has, or will have, the byte at that place; or NULL. */
struct ahead_piece *ahead_piece_at(const struct file *f, uint64_t at);

#endif
