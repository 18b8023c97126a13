/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/ring.h"

#include <errno.h>
#include <poll.h>

#define SUBMISSIONS 64u
#define COMPLETIONS 256u
#define NS_PER_S 1000000000ull
#define DAY_NS (86400 * NS_PER_S)
/* Of a wait that shows as iowait. A server that is not far away answers sooner. */
#define SHORT_NS 250000ull

/* liburing 2.3 does not know these. */
#ifndef IORING_FEAT_NO_IOWAIT
#define IORING_FEAT_NO_IOWAIT (1U << 17)
#endif
#ifndef IORING_ENTER_NO_IOWAIT
#define IORING_ENTER_NO_IOWAIT (1U << 7)
#endif

/* liburing 2.3 has functions for these, but does not export them. */
static int register_with(struct io_uring *u, unsigned what, void *arg, unsigned n)
{
	int rc = io_uring_register((unsigned)u->ring_fd, what, arg, n);

	return rc < 0 ? rc : 0;
}

/* Linux 7.3 registers anything if nothing at all is said about that. */
static int restrict_it(struct io_uring *u)
{
	struct io_uring_restriction allow[] = {
		{ .opcode = IORING_RESTRICTION_REGISTER_OP, .register_op = IORING_REGISTER_ENABLE_RINGS },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_POLL_ADD },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_POLL_REMOVE },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_WRITEV },
		{ .opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = IOSQE_CQE_SKIP_SUCCESS },
	};

	return register_with(u, IORING_REGISTER_RESTRICTIONS, allow, sizeof(allow) / sizeof(allow[0]));
}

static int set_up(struct ring *r, unsigned taskrun)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | taskrun |
			 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
		.cq_entries = COMPLETIONS,
	};
	int rc = io_uring_queue_init_params(SUBMISSIONS, &r->u, &p);

	if (rc < 0)
		return rc;
	r->no_iowait = p.features & IORING_FEAT_NO_IOWAIT;
	return 0;
}

/* A filter of system calls may allow the others, and forbid this one. */
static int may_enter(struct ring *r)
{
	int rc = io_uring_enter2((unsigned)r->u.ring_fd, 0, 0, 0, NULL, 0);

	return rc == -EBADFD ? 0 : rc < 0 ? rc : -EINVAL;
}

/* DEFER_TASKRUN is of Linux 6.1. */
int ring_make(struct ring *r)
{
	int rc = set_up(r, IORING_SETUP_DEFER_TASKRUN);

	if (rc < 0)
		return rc;
	if (!r->no_iowait) {
		ring_exit(r);
		rc = set_up(r, IORING_SETUP_COOP_TASKRUN);
		if (rc < 0)
			return rc;
	}
	rc = restrict_it(&r->u);
	if (!rc)
		rc = may_enter(r);
	if (rc < 0)
		ring_exit(r);
	return rc;
}

void ring_exit(struct ring *r)
{
	io_uring_queue_exit(&r->u);
}

int ring_enable(struct ring *r)
{
	return register_with(&r->u, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

/* What liburing does before it submits; liburing 2.3 submits without NO_IOWAIT only. Returns
 * how many the kernel has not taken yet. */
static unsigned publish(struct io_uring_sq *sq)
{
	/* From liburing 2.6 on there is no array where Linux can do without (6.6). */
	for (; sq->sqe_head != sq->sqe_tail && sq->array; sq->sqe_head++)
		sq->array[sq->sqe_head & sq->ring_mask] = sq->sqe_head & sq->ring_mask;
	sq->sqe_head = sq->sqe_tail;
	io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
	return sq->sqe_tail - *sq->khead;
}

int ring_enter(struct ring *r, unsigned completions, uint64_t ns, uint64_t *left)
{
	uint64_t most = r->no_iowait ? DAY_NS : SHORT_NS, now = ns < most ? ns : most;
	struct __kernel_timespec ts = { .tv_sec = (long long)(now / NS_PER_S),
					.tv_nsec = (long long)(now % NS_PER_S) };
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&ts };
	unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
	unsigned queued = publish(&r->u.sq);
	int rc;

	if (r->no_iowait)
		flags |= IORING_ENTER_NO_IOWAIT;
	rc = io_uring_enter2((unsigned)r->u.ring_fd, queued, ns ? completions : 0, flags,
			     (sigset_t *)&arg, sizeof(arg));
	/* How many were taken, also when the time is up. */
	if (rc == -ETIME)
		rc = 0;
	*left = !r->no_iowait && rc == (int)queued ? ns - now : 0;
	return rc < 0 ? rc : 0;
}

void ring_sleep(struct ring *r, uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
	struct pollfd p = { .fd = r->u.ring_fd, .events = POLLIN };

	ppoll(&p, 1, &ts, NULL);
}
