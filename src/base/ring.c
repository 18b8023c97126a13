/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/ring.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SUBMISSIONS 64u
#define COMPLETIONS 256u
#define NS_PER_S 1000000000ull
#define SHORT_NS 2000000ull      /* of a wait in io_uring_enter() */

/* liburing 2.3 has functions for these, but does not export them. */
static int register_with(struct io_uring *ring, unsigned what, void *arg, unsigned n)
{
	int rc = io_uring_register((unsigned)ring->ring_fd, what, arg, n);

	return rc < 0 ? rc : 0;
}

static int restrict_it(struct io_uring *ring)
{
	struct io_uring_restriction allow[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_POLL_ADD },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_POLL_REMOVE },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_WRITEV },
		{ .opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = IOSQE_CQE_SKIP_SUCCESS },
	};

	return register_with(ring, IORING_REGISTER_RESTRICTIONS, allow,
			     sizeof(allow) / sizeof(allow[0]));
}

static int make_eventfd(struct ring *ring)
{
	ring->efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (ring->efd < 0)
		return -errno;
	io_uring_cq_eventfd_toggle(&ring->u, false);
	return register_with(&ring->u, IORING_REGISTER_EVENTFD, &ring->efd, 1);
}

int ring_make(struct ring *ring)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER |
			 IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
		.cq_entries = COMPLETIONS,
	};
	int rc = io_uring_queue_init_params(SUBMISSIONS, &ring->u, &p);

	if (rc < 0)
		return rc;
	rc = make_eventfd(ring);
	if (!rc)
		rc = restrict_it(&ring->u);
	if (rc < 0)
		ring_exit(ring);
	return rc;
}

void ring_exit(struct ring *ring)
{
	io_uring_queue_exit(&ring->u);
	if (ring->efd >= 0)
		close(ring->efd);
}

int ring_enable(struct ring *ring)
{
	return register_with(&ring->u, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

/* There is always a limit: without one, liburing waits again by itself after a signal. */
static int wait_inside(struct io_uring *u, unsigned reports, uint64_t ns)
{
	struct __kernel_timespec ts = { .tv_sec = (long long)(ns / NS_PER_S),
					.tv_nsec = (long long)(ns % NS_PER_S) };
	struct io_uring_cqe *cqe;

	return io_uring_submit_and_wait_timeout(u, &cqe, reports, &ts, NULL);
}

/* The kernel is asked once more after it has been told to write to the eventfd. The barrier is
 * for that order: either it writes, or the question finds what there is. */
static int wait_outside(struct ring *ring, unsigned reports, uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
	struct pollfd p = { .fd = ring->efd, .events = POLLIN };
	uint64_t n;
	int rc;

	io_uring_cq_eventfd_toggle(&ring->u, true);
	__sync_synchronize();
	rc = io_uring_get_events(&ring->u);
	if (rc >= 0 && io_uring_cq_ready(&ring->u) < reports)
		ppoll(&p, 1, &ts, NULL);
	io_uring_cq_eventfd_toggle(&ring->u, false);
	/* Empty, if nothing was written: then there is nothing to read. */
	if (read(ring->efd, &n, sizeof(n)) < 0 && rc >= 0)
		rc = 0;
	return rc < 0 ? rc : io_uring_get_events(&ring->u);
}

int ring_wait_for(struct ring *ring, unsigned reports, uint64_t ns)
{
	int rc;

	if (!ns)
		return io_uring_submit_and_get_events(&ring->u);
	rc = wait_inside(&ring->u, reports, ns < SHORT_NS ? ns : SHORT_NS);
	if (rc < 0 && rc != -ETIME)
		return rc;
	/* Not -ETIME if something was submitted, also when the time is up. */
	if (ns <= SHORT_NS || io_uring_cq_ready(&ring->u) >= reports)
		return 0;
	return wait_outside(ring, reports, ns - SHORT_NS);
}
