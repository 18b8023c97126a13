/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tests that hold for both kinds of loops, and for rings of kernels with and without
 * IORING_FEAT_NO_IOWAIT (base/ring.h). */
#ifndef TESTS_BOTH_LOOPS_H
#define TESTS_BOTH_LOOPS_H

#include <criterion/criterion.h>
#include <errno.h>
#include <liburing.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/loop.h"

static struct loop *loop;
static struct loop *(*loop_again)(void);        /* makes one of the same kind */
static bool old_kernel;                         /* does it without that feature */
static bool no_array;                           /* as liburing 2.6 and later do it */

/* The test is linked with --wrap for this. */
int __real_io_uring_queue_init_params(unsigned n, struct io_uring *ring, struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned n, struct io_uring *ring, struct io_uring_params *p);
/* As later versions of liburing set it up; earlier ones write to an array in any case. */
static int init_without_array(unsigned n, struct io_uring *ring, struct io_uring_params *p)
{
	int rc, fd;

	p->flags |= 1u << 16;           /* IORING_SETUP_NO_SQARRAY */
	fd = (int)syscall(SYS_io_uring_setup, n, p);
	if (fd < 0)
		return -errno;
	rc = io_uring_queue_mmap(fd, p, ring);
	if (rc) {
		close(fd);
		return rc;
	}
	ring->ring_fd = ring->enter_ring_fd = fd;
	ring->flags = p->flags;
	ring->features = p->features;
	ring->sq.array = NULL;
	return 0;
}

int __wrap_io_uring_queue_init_params(unsigned n, struct io_uring *ring, struct io_uring_params *p)
{
	int rc = no_array ? init_without_array(n, ring, p) :
		 __real_io_uring_queue_init_params(n, ring, p);

	if (old_kernel)
		p->features &= ~(1u << 17);
	return rc;
}

static void begin_ring(void)
{
	loop_again = loop_new_ring;
	loop = loop_new_ring();
	if (!loop)
		cr_skip_test("no io_uring: %s", strerror(errno));
}

static void begin_ring_old(void)
{
	old_kernel = true;
	begin_ring();
}

/* On Linux 6.6 and later. */
static void begin_ring_no_array(void)
{
	no_array = true;
	begin_ring();
}

static void begin_epoll(void)
{
	loop_again = loop_new_epoll;
	loop = loop_new_epoll();
	cr_assert_not_null(loop);
}

static void end_loop(void)
{
	if (loop)
		loop_free(loop);
}

static void stop_fn(struct loop_timer *t)
{
	(void)t;
	loop_stop(loop);
}

/* Runs the loop for that long. */
static inline void run_for(unsigned ms)
{
	struct loop_timer t;

	loop_timer_init(&t, stop_fn);
	loop_timer_set(loop, &t, ms);
	cr_assert_eq(loop_run(loop), 0);
	loop_timer_clear(&t);
}

static void too_late(struct loop_timer *t)
{
	(void)t;
	cr_assert_fail("the loop slept");
}

/* Runs the loop until somebody stops it, who does not have to wait for a timer. */
static inline void run_awake(void)
{
	struct loop_timer t;

	loop_timer_init(&t, too_late);
	loop_timer_set(loop, &t, 10000);
	cr_assert_eq(loop_run(loop), 0);
	loop_timer_clear(&t);
}

TestSuite(ring, .init = begin_ring, .fini = end_loop, .timeout = 300);
TestSuite(ring_old, .init = begin_ring_old, .fini = end_loop, .timeout = 300);
TestSuite(ring_no_array, .init = begin_ring_no_array, .fini = end_loop, .timeout = 300);
TestSuite(epoll, .init = begin_epoll, .fini = end_loop, .timeout = 300);

#define RINGS(name) \
	static void name(void); \
	Test(ring, name) { name(); } \
	Test(ring_no_array, name) { name(); } \
	Test(ring_old, name) { name(); } \
	static void name(void)

#define BOTH(name) \
	static void name(void); \
	Test(ring, name) { name(); } \
	Test(ring_old, name) { name(); } \
	Test(epoll, name) { name(); } \
	static void name(void)

#endif
