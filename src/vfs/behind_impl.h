/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of write-behind share: behind.c (gathering, answers), behind_room.c, behind_send.c
 * (WRITE and COMMIT), behind_lost.c (lists, and what the server has lost), behind_read.c (READs),
 * behind_wait.c (who waits for what). A function whose name ends with "locked" needs extents.mu.
 */
#pragma once

#include "vfs/vfs_impl.h"

/* COMMITs in a row that a WRITE is lost in, before that is an error. */
#define BEHIND_TRIES_MAX 8u

static inline struct vfs_op *held_of(struct list *n)
{
	return container_of(n, struct vfs_op, data.held.node);
}

static inline uint64_t held_end(const struct vfs_op *op)
{
	return op->data.held.offset + op->data.held.len;
}

/* Where byte `at` of a WRITE lies, and how many bytes lie there together from that one on. */
static inline char *held_at(const struct vfs_op *op, size_t at, size_t *n)
{
	unsigned i = 0;

	for (; at >= op->data.held.part[i]; i++)
		at -= op->data.held.part[i];
	*n = op->data.held.part[i] - at;
	return (char *)op->data.buf[i]->mem + at;
}

static inline bool held_overlaps(const struct vfs_op *op, uint64_t offset, uint64_t end)
{
	return op->data.held.offset < end && offset < held_end(op);
}

/* Has the server not said yet that it has it? */
static inline bool held_unsent(const struct vfs_op *op)
{
	return op->data.held.state >= HELD && op->data.held.state <= HELD_SENDING;
}

static inline struct vfs_op *held_first(const struct list *l)
{
	return list_empty(l) ? NULL : held_of(l->next);
}

/* ---- behind.c ---- */

/* The most bytes that are copied; a variable for the tests. */
extern uint32_t behind_gather_max;
/* op, which was answered or failed, has ended: gives its room to others, and frees it. On its
 * lane. */
void behind_end(struct vfs_op *op);

/* ---- behind_room.c ---- */

/* Is COMMIT to make room, and not new memory? */
bool behind_rather_commits(const struct behind_pool *p);
/* Takes room for op's buffers. false: on_room() is called when it has got some. */
bool behind_has_room(struct vfs_op *op, void (*on_room)(struct loop_msg *m));
/* Takes room for one more buffer, if nobody waits for it. */
bool behind_take_more(struct behind_pool *p, struct extents *x, enum arena_class cls);
/* Gives room to others: a buffer's; that of all that op has. */
void behind_give_one(struct behind_pool *p, struct extents *x, enum arena_class cls);
void behind_give_room(struct vfs_op *op);

/* ---- behind_send.c ---- */

/* Something has changed: sends what is to be sent now, starts a COMMIT if one is due, wakes
 * who has waited for this. On a lane; the caller has a reference to ino. */
void behind_progress(struct inode *ino);
/* op has got a message. */
void behind_on_msg(struct loop_msg *m);

/* ---- behind_wait.c ---- */

/* Wakes those whose wait is over. true: one of the others waits for a COMMIT that could be
 * sent now. */
bool behind_wake_locked(struct extents *x);
/* ---- behind_lost.c ---- */

/* op gets that state, and its place in the list of that. */
void behind_set_locked(struct extents *x, struct vfs_op *op, enum held_state state);
/* Off the file's lists. It gets that state when its lane may free it. */
void behind_drop_locked(struct extents *x, struct vfs_op *op);
/* The same, because the data is on stable storage. */
void behind_leave_locked(struct extents *x, struct vfs_op *op);
/* q, a COMMIT, has ended. What is on stable storage now, or is given up, goes to `gone`, until its
 * lane may free it; what is not is sent again. */
void behind_sort_out_locked(struct extents *x, const struct vfs_op *q, struct list *gone);
/* See behind_doubt(). */
void behind_doubt_locked(struct extents *x, const struct vfs_op *failed);

/* A WRITE of the file has failed with this status, or a COMMIT. */
void behind_failed_locked(struct extents *x, struct inode *ino, int status);
