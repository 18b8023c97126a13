/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/ring.h"

#define SUBMISSIONS 64u
#define COMPLETIONS 256u

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

int ring_make(struct io_uring *ring)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER |
			 IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
		.cq_entries = COMPLETIONS,
	};
	int rc = io_uring_queue_init_params(SUBMISSIONS, ring, &p);

	if (rc < 0)
		return rc;
	rc = restrict_it(ring);
	if (rc < 0)
		io_uring_queue_exit(ring);
	return rc;
}

int ring_enable(struct io_uring *ring)
{
	return register_with(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}
