/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Answers that leave together, with the system call by which the lane's loop waits.
 *
 *     answers_take() --> slot: header, attributes: copied here --\
 *                              READ's data: where it lies --------+--> loop_writev() --> kernel
 *                                                                 |
 *     the magazine <------------- the buffer, when it is written -+
 *
 * Order. All that a lane writes reaches the kernel in the order in which it was given: what
 * cannot wait here (a notification, a large answer) is written at once, after what waits. So a
 * notification never overtakes the answer before it, which may carry what it revokes. Between
 * lanes there is no order, as there never was: the kernel's threads look at answers when they
 * come to it.
 *
 * Nothing waits for long: all leave at the end of the loop's round, or before that when the
 * slots are full, or when something large is read or written.
 *
 * Who has the data. An answer's data may wait only if it lies in an arena buffer that the
 * request lends (fs_dev.lend). The queue takes it, and puts it back when the kernel has read
 * it. Whatever else libfuse points to is its own, or the request's, and is gone when this
 * returns. So it is copied, if it is short.
 *
 * When the mount or the lane ends, what waits is written first (answers_end()). After that
 * everything is written at once.
 */
#ifndef FS_ANSWERS_H
#define FS_ANSWERS_H

#include <stdbool.h>
#include <sys/uio.h>
#include "base/arena.h"
#include "base/loop.h"

#define ANSWERS      16u
/* The parts of an answer that are copied, together. FUSE's headers and attributes fit. */
#define ANSWER_BYTES 512u
/* More data than this does not wait. */
#define ANSWER_DATA  32768u

struct answer {
	struct loop_op op;
	struct answers *of;
	struct arena_buf *buf;          /* to be put back; or NULL */
	struct iovec iov[2];
	_Alignas(8) char bytes[ANSWER_BYTES];
};

struct answers {
	struct magazine *mag;           /* the lane's; its loop takes the writes */
	int fd;
	bool ended;                     /* nothing waits (any more) */
	struct answer v[ANSWERS];
	unsigned used;                  /* v[0..used-1] have been taken... */
	unsigned busy;                  /* ...and so many of them are not written yet */
};

void answers_init(struct answers *a, struct magazine *mag, int fd);
/* Takes an answer if it may wait. *lend: the buffer that its data lies in, or NULL; if the
 * answer is taken, so is the buffer, and *lend is NULL then. lend may be NULL. False: the
 * caller writes it. Then nothing waits any more. */
bool answers_take(struct answers *a, const struct iovec *iov, int count, struct arena_buf **lend);
/* Writes what waits. */
void answers_flush(struct answers *a);
/* The same, and from now on nothing waits. On the lane's thread. */
void answers_end(struct answers *a);

/* Complains about an answer that the kernel has not taken. ENOENT: its request was
 * interrupted, and nobody waits. */
void answer_failed(int err);

#endif
