/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The io_uring of a loop (loop_ring.c), and what it may do.
 *
 * seccomp does not see what a ring does. So it is restricted, for good, before it is enabled:
 * it can poll files, and write to them, and nothing else. The loop's creator makes it, and the
 * thread that runs the loop enables it. From then on no other thread can submit
 * (SINGLE_ISSUER), and the kernel works for it only inside its calls (DEFER_TASKRUN).
 *
 * Linux counts a thread that waits in io_uring_enter() as one that waits for a disk. An idle
 * mount would be 100 % iowait in top(1). So only short waits are there, and a long one goes on
 * in ppoll(): the kernel writes to an eventfd when the ring has something to say.
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include <liburing.h>
#include <stdint.h>

struct ring {
	struct io_uring u;
	int efd;                /* the eventfd of long waits */
};

/* 0 or -errno: Linux is older than 6.1 (-EINVAL), or forbids it (-EPERM, -ENOSYS). */
int ring_make(struct ring *ring);
void ring_exit(struct ring *ring);
/* On the thread that is going to use it. 0 or -errno. */
int ring_enable(struct ring *ring);
/* Submits what is queued, and waits for that many reports, or for ns nanoseconds. 0, also if
 * the time is up, or -errno. */
int ring_wait_for(struct ring *ring, unsigned reports, uint64_t ns);

#endif
