/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The io_uring of a loop (loop_ring.c), and what it may do.
 *
 * seccomp does not see what a ring does. So it is restricted, for good, before it is enabled:
 * it can poll files, and write to them, and nothing else. The loop's creator makes it, and the
 * thread that runs the loop enables it. From then on no other thread can submit
 * (SINGLE_ISSUER), and the kernel works for it only inside its calls (DEFER_TASKRUN).
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include <liburing.h>

/* 0 or -errno: Linux is older than 6.1 (-EINVAL), or forbids it (-EPERM, -ENOSYS). */
int ring_make(struct io_uring *ring);
/* On the thread that is going to use it. 0 or -errno. */
int ring_enable(struct io_uring *ring);

#endif
