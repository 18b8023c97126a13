/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What loop.c shares with the two ways to wait for files: io_uring (loop_ring.c) and epoll
 * (loop_epoll.c). Each has a struct of its own, which begins with struct loop.
 */
#ifndef BASE_LOOP_IMPL_H
#define BASE_LOOP_IMPL_H

#include <stdatomic.h>
#include <sys/types.h>
#include "base/loop.h"

/* All belong to the loop's thread, as in loop.h. 0 or -errno. */
struct loop_kind {
	/* loop_run() begins on this thread, and ends there; or NULL. */
	int (*begin)(struct loop *l);
	void (*end)(struct loop *l);
	int (*watch)(struct loop *l, struct loop_watch *w);
	int (*rewatch)(struct loop *l, struct loop_watch *w, uint32_t events);
	void (*unwatch)(struct loop *l, struct loop_watch *w);
	/* Fetches events, and sleeps until there are some, at most for ns nanoseconds;
	 * UINT64_MAX: for ever. */
	int (*wait)(struct loop *l, uint64_t ns);
	/* Calls the watches whose events were fetched. */
	void (*call)(struct loop *l);
	/* As loop_writev() and loop_flush(); or NULL. */
	bool (*writev)(struct loop *l, struct loop_op *op, int fd, const struct iovec *iov,
		       unsigned n);
	void (*flush)(struct loop *l);
	void (*free)(struct loop *l);
};

struct loop {
	const struct loop_kind *kind;
	struct loop_watch wake;         /* the mailbox's eventfd */
	struct list timers;             /* ordered by `when` */
	uint64_t now;                   /* when this round's events came; 0: no round */

	_Atomic(struct loop_msg *) mailbox;     /* newest first */
	atomic_bool sleeping;           /* a sender must write to the eventfd */
	atomic_bool stop;
};

/* The last step of making a loop: what is common. l->kind is set. NULL: it is freed again, and
 * errno is set. */
struct loop *loop_made(struct loop *l);

#endif
