/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The io_uring of a loop (loop_ring.c): what it may do, and how its thread sleeps.
 *
 * seccomp does not see what a ring does. So it is restricted, for good, before it is enabled:
 * it can poll files, and write to them, and nothing else. The loop's creator makes it, and the
 * thread that runs the loop enables it. From then on no other thread can submit
 * (SINGLE_ISSUER).
 *
 * Sleep. Linux counts a thread that waits in io_uring_enter() as one that waits for a disk:
 * an idle mount would be 100 % iowait in top(1). Linux 6.15 can be told not to (NO_IOWAIT).
 * There the kernel works for the ring only inside its calls (DEFER_TASKRUN), and every wait
 * is one call. Before that only short waits are in io_uring_enter(), and a long one goes on in
 * ppoll() on the ring itself (ring_sleep). Such a ring has COOP_TASKRUN:
 *
 *     a file is ready:   the kernel gives this thread work to do, which ends its sleep
 *     thread:            ppoll: completions? -> sleep -> work: a completion -> ppoll: completions?
 *
 * So a completion that comes before ppoll() looks is seen, and one that comes after that ends
 * the sleep. With DEFER_TASKRUN nothing would end it: Linux 6.18 leaves the work for the next
 * io_uring_enter(), and tells no one who polls. Nor is there an eventfd that the ring writes
 * to: it would not, where the file that is ready is an eventfd as well (our mailbox).
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

struct ring {
	struct io_uring u;
	bool no_iowait;         /* every wait is in io_uring_enter() */
};

/* 0 or -errno: Linux is older than 6.1 (-EINVAL), or forbids it (-EPERM, -ENOSYS). */
int ring_make(struct ring *r);
void ring_exit(struct ring *r);
/* On the thread that is going to use it. 0 or -errno. */
int ring_enable(struct ring *r);

/* Gives the kernel what is queued, and waits for that many completions, for ns nanoseconds at
 * most. Without no_iowait it may return long before that: *left says how many nanoseconds
 * are left then, and is 0 otherwise. 0, also if nothing came, or -errno: -EINTR, -EAGAIN and
 * -EBUSY pass. */
int ring_enter(struct ring *r, unsigned completions, uint64_t ns, uint64_t *left);
/* Only without no_iowait, when all completions have been handled: sleeps until there is one, or
 * for ns nanoseconds, or until a signal comes. */
void ring_sleep(struct ring *r, uint64_t ns);

#endif
