/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The loop on io_uring: one system call gives the kernel everything that is queued and waits.
 *
 *     queue:  writes (loop_writev), polls to remove, polls to arm  --io_uring_enter-->  kernel
 *     round:  slots that are ready, writes that are done           <--completions----
 *
 * Watches. Each has a slot here, which outlives it:
 *
 *             before each wait             an event
 *     `arm` ------------------> armed --------------------> `ready`
 *       ^                         |                            |
 *       |                         | POLL_REMOVE                | call
 *       +-------------------------+-- rewatch <----------------+
 *
 * A poll reports once. It looks at the file when it is armed, and it is armed again before
 * the next sleep, so watches are level-triggered. The kernel holds the file, not the number,
 * from arming to the report or the removal; so a removal leaves before the round ends, or at
 * once outside loop_run(). What the kernel still says of a poll that was removed names the
 * slot and the generation that it had. It is no event of any watch.
 *
 * An armed poll with EPOLLEXCLUSIVE takes a wake-up even when this thread is busy, and others
 * that wait for the file sleep on. It may do so until its removal has reached the kernel. If it
 * is just being woken then, the kernel even arms it again, and it takes a wake-up much later.
 * So a report of such a poll that was removed is passed on as no event (loop.h): somebody has to
 * look at the file.
 *
 * Writes. They go to files that do not block, so the kernel has done them when it has taken
 * them. Each reports in any case, and so a wait is one for all that are under way, and for one
 * report more. If one was done later all the same, its memory stays until then.
 *
 * More reports than the queue holds are kept by the kernel, which hands them out at the next
 * wait (IORING_FEAT_NODROP).
 */
#include "base/loop_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "base/ring.h"

struct ring_slot {
	struct loop_watch *w;
	struct list node;       /* in `arm`, `ready`, `calling` or `unused`; or unlinked */
	struct list late_node;  /* in `late`, or unlinked */
	uint32_t index, gen;
	uint32_t revents;       /* while ready */
	bool armed;             /* the kernel will report this generation */
	bool exclusive;         /* it was armed with EPOLLEXCLUSIVE */
};

struct ring_loop {
	struct loop loop;
	struct ring ring;
	bool enabled, running;
	pthread_t owner;        /* who has enabled it */
	unsigned ops;           /* writes between loop_writev() and `done` */
	struct ring_slot **slots;
	unsigned nslots;
	struct list unused, arm, ready, calling;
	struct list late;       /* a poll that was removed has taken a wake-up */
};

static struct ring_loop *of(struct loop *l)
{
	return container_of(l, struct ring_loop, loop);
}

/* ---- What the kernel says --------------------------------------------------- */

/* An op's is its address, which is even. 0: nobody cares. */
static uint64_t name_of(const struct ring_slot *s)
{
	return (uint64_t)s->gen << 32 | s->index << 1 | 1;
}

static void polled(struct ring_loop *r, uint64_t name, int res)
{
	struct ring_slot *s = r->slots[(uint32_t)name >> 1];

	if (s->gen != name >> 32) {
		if (res > 0 && s->w && s->exclusive && list_empty(&s->late_node))
			list_add_tail(&r->late, &s->late_node);
		return;
	}
	s->armed = false;
	if (res == -EBADF)
		return;                 /* was closed first, and is silent, as with epoll */
	s->revents = res < 0 ? EPOLLERR : (uint32_t)res;
	list_add_tail(&r->ready, &s->node);
}

static void written(struct ring_loop *r, struct loop_op *op, int res)
{
	r->ops--;
	op->busy = false;
	op->done(op, res);
}

static void reap(struct ring_loop *r)
{
	struct io_uring_cqe *cqe;
	unsigned head, n = 0;

	io_uring_for_each_cqe(&r->ring.u, head, cqe) {
		uint64_t name = cqe->user_data;

		if (name & 1)
			polled(r, name, cqe->res);
		else if (name)
			written(r, (struct loop_op *)(uintptr_t)name, cqe->res);
		n++;
	}
	io_uring_cq_advance(&r->ring.u, n);
}

/* ---- What the kernel is told ------------------------------------------------- */

static bool for_now(int err)
{
	return err == -EINTR || err == -EAGAIN || err == -EBUSY;
}

/* Gives the kernel what is queued, without waiting. */
static int submit(struct ring_loop *r)
{
	uint64_t left;
	int rc = 0;

	while (io_uring_sq_ready(&r->ring.u)) {
		rc = ring_enter(&r->ring, 0, 0, &left);
		if (rc < 0 && !for_now(rc))
			return rc;
		/* It takes no more while too much is unread. */
		if (rc < 0)
			reap(r);
	}
	return 0;
}

static struct io_uring_sqe *get_sqe(struct ring_loop *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring.u);

	if (!sqe && !submit(r))
		sqe = io_uring_get_sqe(&r->ring.u);
	return sqe;
}

/* Whatever comes of the armed poll is no event of the watch from now on. If the thread that
 * armed it has ended, it has taken its polls along. */
static void disarm(struct ring_loop *r, struct ring_slot *s)
{
	uint64_t name = name_of(s);
	struct io_uring_sqe *sqe;

	if (!s->armed)
		return;
	s->armed = false;
	s->gen++;
	if (!pthread_equal(r->owner, pthread_self()))
		return;
	sqe = get_sqe(r);
	if (!sqe)
		return;
	io_uring_prep_poll_remove(sqe, name);
	io_uring_sqe_set_flags(sqe, IOSQE_CQE_SKIP_SUCCESS);
	io_uring_sqe_set_data64(sqe, 0);
	if (!r->running)
		submit(r);
}

static int arm_all(struct ring_loop *r)
{
	struct list *n;

	while ((n = list_pop(&r->arm))) {
		struct ring_slot *s = container_of(n, struct ring_slot, node);
		struct io_uring_sqe *sqe = get_sqe(r);

		if (!sqe) {
			list_add_head(&r->arm, n);
			return -EBUSY;
		}
		io_uring_prep_poll_add(sqe, s->w->fd, s->w->events);
		io_uring_sqe_set_data64(sqe, name_of(s));
		s->armed = true;
		s->exclusive = s->w->events & EPOLLEXCLUSIVE;
	}
	return 0;
}

/* ---- Watches ------------------------------------------------------------------ */

static struct ring_slot *more_slots(struct ring_loop *r)
{
	struct ring_slot **v = realloc(r->slots, (r->nslots + 1) * sizeof(void *));
	struct ring_slot *s;

	if (!v)
		return NULL;
	r->slots = v;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->index = r->nslots;
	list_init(&s->node);
	list_init(&s->late_node);
	v[r->nslots++] = s;
	return s;
}

static int ring_watch(struct loop *l, struct loop_watch *w)
{
	struct ring_loop *r = of(l);
	struct list *n;

	if (fcntl(w->fd, F_GETFD) < 0)
		return -errno;
	n = list_pop(&r->unused);
	w->slot = n ? container_of(n, struct ring_slot, node) : more_slots(r);
	if (!w->slot)
		return -ENOMEM;
	w->slot->exclusive = false;
	w->slot->w = w;
	if (w->events)
		list_add_tail(&r->arm, &w->slot->node);
	return 0;
}

/* A fetched event stays, and ring_call() looks whether it is still wanted. */
static int ring_rewatch(struct loop *l, struct loop_watch *w, uint32_t events)
{
	struct ring_loop *r = of(l);
	struct ring_slot *s = w->slot;

	if (!events) {
		disarm(r, s);
		list_del(&s->node);
		return 0;
	}
	if (s->armed || list_empty(&s->node)) {
		disarm(r, s);
		list_add_tail(&r->arm, &s->node);
	}
	return 0;
}

static void ring_unwatch(struct loop *l, struct loop_watch *w)
{
	struct ring_loop *r = of(l);
	struct ring_slot *s = w->slot;

	disarm(r, s);
	list_del(&s->node);
	list_del(&s->late_node);
	list_add_tail(&r->unused, &s->node);
	s->w = NULL;
	w->slot = NULL;
}

static void call_late(struct ring_loop *r)
{
	struct list *n;

	while ((n = list_pop(&r->late))) {
		struct loop_watch *w = container_of(n, struct ring_slot, late_node)->w;

		w->fn(w, 0);
	}
}

static void ring_call(struct loop *l)
{
	struct ring_loop *r = of(l);
	struct list *n;

	call_late(r);
	/* What a flush finds ready meanwhile has its turn in the next round. */
	list_splice_tail(&r->calling, &r->ready);
	while ((n = list_pop(&r->calling))) {
		struct ring_slot *s = container_of(n, struct ring_slot, node);
		struct loop_watch *w = s->w;
		uint32_t revents = s->revents & (w->events | EPOLLERR | EPOLLHUP);

		/* The callback may remove it again. */
		list_add_tail(&r->arm, &s->node);
		if (revents)
			w->fn(w, revents);
	}
}

/* ---- Writes --------------------------------------------------------------------- */

static bool ring_writev(struct loop *l, struct loop_op *op, int fd, const struct iovec *iov,
			unsigned n)
{
	struct ring_loop *r = of(l);
	struct io_uring_sqe *sqe = r->running ? get_sqe(r) : NULL;

	if (!sqe)
		return false;
	io_uring_prep_writev(sqe, fd, iov, n, 0);
	io_uring_sqe_set_data(sqe, op);
	op->busy = true;
	r->ops++;
	return true;
}

static void ring_flush(struct loop *l)
{
	struct ring_loop *r = of(l);
	uint64_t left;
	int rc;

	if (!r->running || !r->ops)
		return;
	rc = submit(r);
	reap(r);
	while (r->ops && (!rc || for_now(rc))) {
		rc = ring_enter(&r->ring, 1, UINT64_MAX, &left);
		reap(r);
	}
}

/* ---- Running ---------------------------------------------------------------------- */

static int ring_begin(struct loop *l)
{
	struct ring_loop *r = of(l);
	int rc;

	if (!r->enabled) {
		rc = ring_enable(&r->ring);
		if (rc < 0)
			return rc;
		r->enabled = true;
		r->owner = pthread_self();
	}
	r->running = true;
	return 0;
}

static void ring_end(struct loop *l)
{
	struct ring_loop *r = of(l);

	if (!r->running)
		return;
	ring_flush(l);
	submit(r);
	r->running = false;
}

static bool has_calls(const struct ring_loop *r)
{
	return !list_empty(&r->ready) || !list_empty(&r->late);
}

static int ring_wait(struct loop *l, uint64_t ns)
{
	struct ring_loop *r = of(l);
	uint64_t left;
	int rc = arm_all(r);

	if (rc)
		return rc;
	if (has_calls(r))
		ns = 0;
	rc = ring_enter(&r->ring, r->ops + 1, ns, &left);
	reap(r);
	if (left && !has_calls(r)) {
		ring_sleep(&r->ring, left);
		reap(r);
	}
	return for_now(rc) ? 0 : rc;
}

static void ring_free(struct loop *l)
{
	struct ring_loop *r = of(l);

	ring_exit(&r->ring);
	for (unsigned i = 0; i < r->nslots; i++)
		free(r->slots[i]);
	free(r->slots);
	free(r);
}

static const struct loop_kind kind = {
	.begin = ring_begin,
	.end = ring_end,
	.watch = ring_watch,
	.rewatch = ring_rewatch,
	.unwatch = ring_unwatch,
	.wait = ring_wait,
	.call = ring_call,
	.writev = ring_writev,
	.flush = ring_flush,
	.free = ring_free,
};

struct loop *loop_new_ring(void)
{
	struct ring_loop *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return NULL;
	list_init(&r->unused);
	list_init(&r->arm);
	list_init(&r->ready);
	list_init(&r->calling);
	list_init(&r->late);
	r->loop.kind = &kind;
	err = ring_make(&r->ring);
	if (!err)
		return loop_made(&r->loop);
	free(r);
	errno = -err;
	return NULL;
}
