/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One round of the loop:
 *
 *     mailbox -> due timers -> write what is queued, and wait -> watches' callbacks
 *
 * Mailbox. Senders push onto a stack with compare-and-swap. The loop takes the whole stack
 * with one exchange and reverses it, so there is no ABA problem, and each sender's order is
 * kept. A sender writes to the eventfd only when the loop sleeps or is about to:
 *
 *     loop:   sleeping = true;  mailbox empty? -> wait
 *     sender: push;             sleeping, set to false? -> write eventfd
 *
 * All four accesses are sequentially consistent, so at least one side sees the other: the
 * loop finds the message, or the sender finds it sleeping. Of several senders only one
 * writes. loop_stop() works the same way with its flag in place of the mailbox, and is safe
 * in a signal handler.
 */
#include "base/loop_impl.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "base/log.h"

#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

uint64_t mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t loop_now(const struct loop *l)
{
	return l->now ? l->now : mono_ns();
}

/* ---- Files ---------------------------------------------------------------- */

int loop_watch(struct loop *l, struct loop_watch *w)
{
	if (w->fd < 0)
		return -EBADF;
	return l->kind->watch(l, w);
}

int loop_rewatch(struct loop *l, struct loop_watch *w, uint32_t events)
{
	int err;

	if (w->fd < 0)
		return -EBADF;
	if (events == w->events)
		return 0;
	err = l->kind->rewatch(l, w, events);
	if (!err)
		w->events = events;
	return err;
}

void loop_unwatch(struct loop *l, struct loop_watch *w)
{
	if (w->fd < 0)
		return;
	l->kind->unwatch(l, w);
	w->fd = -1;
}

bool loop_queues(const struct loop *l)
{
	return l->kind->writev;
}

bool loop_writev(struct loop *l, struct loop_op *op, int fd, const struct iovec *iov, unsigned n)
{
	return loop_queues(l) && l->kind->writev(l, op, fd, iov, n);
}

void loop_flush(struct loop *l)
{
	if (l->kind->flush)
		l->kind->flush(l);
}

/* ---- Timers --------------------------------------------------------------- */

void loop_timer_init(struct loop_timer *t, void (*fn)(struct loop_timer *t))
{
	list_init(&t->node);
	t->when = 0;
	t->fn = fn;
}

void loop_timer_set(struct loop *l, struct loop_timer *t, unsigned delay_ms)
{
	struct list *at = &l->timers;

	list_del(&t->node);
	/* Due at once is what connections use for each message: that needs no clock. */
	t->when = delay_ms ? mono_ns() + delay_ms * NS_PER_MS : 0;
	/* A lane has a handful of timers, and a new one is usually the last. */
	while (at->prev != &l->timers &&
	       container_of(at->prev, struct loop_timer, node)->when > t->when)
		at = at->prev;
	list_add_before(at, &t->node);
}

void loop_timer_clear(struct loop_timer *t)
{
	list_del(&t->node);
}

static struct loop_timer *first_timer(struct loop *l)
{
	if (list_empty(&l->timers))
		return NULL;
	return container_of(l->timers.next, struct loop_timer, node);
}

/* The timers that are due now move to a list of their own first. So a timer that sets
 * itself again with no delay runs once a round, not for ever. What became due during the
 * round is seen in the next one, which then comes without a sleep. */
static void run_timers(struct loop *l)
{
	struct loop_timer *t = first_timer(l);
	struct list due;
	struct list *n;
	uint64_t now;

	if (!t)
		return;
	now = loop_now(l);
	list_init(&due);
	while ((t = first_timer(l)) && t->when <= now) {
		list_del(&t->node);
		list_add_tail(&due, &t->node);
	}
	while ((n = list_pop(&due))) {
		t = container_of(n, struct loop_timer, node);
		t->fn(t);
	}
}

/* ---- Mailbox -------------------------------------------------------------- */

static void wake(struct loop *l)
{
	uint64_t one = 1;
	int saved = errno;

	if (!atomic_exchange(&l->sleeping, false))
		return;
	/* At most one write per sleep, so only a signal can make it fail. */
	while (write(l->wake.fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	errno = saved;
}

static void wake_fn(struct loop_watch *w, uint32_t revents)
{
	uint64_t n;

	(void)revents;
	/* Only empties the eventfd; the work is in the mailbox. */
	if (read(w->fd, &n, sizeof(n)) < 0)
		return;
}

void loop_post(struct loop *l, struct loop_msg *m)
{
	struct loop_msg *head = atomic_load_explicit(&l->mailbox, memory_order_relaxed);

	do {
		m->next = head;
	} while (!atomic_compare_exchange_weak(&l->mailbox, &head, m));
	/* m is not ours any more. */
	wake(l);
}

void loop_stop(struct loop *l)
{
	atomic_store(&l->stop, true);
	wake(l);
}

/* False: it was empty. */
static bool run_mailbox(struct loop *l)
{
	struct loop_msg *m, *next, *in_order = NULL;

	/* A load is cheaper than an exchange, and usually there is nothing. */
	if (!atomic_load(&l->mailbox))
		return false;
	for (m = atomic_exchange(&l->mailbox, NULL); m; m = next) {
		next = m->next;
		m->next = in_order;
		in_order = m;
	}
	for (m = in_order; m; m = next) {
		next = m->next;
		m->fn(m);
	}
	return true;
}

/* ---- Running -------------------------------------------------------------- */

struct loop *loop_made(struct loop *l)
{
	int err;

	list_init(&l->timers);
	l->wake = (struct loop_watch){ .fd = -1, .events = EPOLLIN, .fn = wake_fn };
	l->wake.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	err = l->wake.fd < 0 ? -errno : loop_watch(l, &l->wake);
	if (!err)
		return l;
	if (l->wake.fd >= 0)
		close(l->wake.fd);
	l->kind->free(l);
	errno = -err;
	return NULL;
}

struct loop *loop_new(enum loop_want want)
{
	return want == LOOP_RING ? loop_new_ring() : loop_new_epoll();
}

void loop_free(struct loop *l)
{
	int wake;

	if (!l)
		return;
	wake = l->wake.fd;
	/* A timer's owner may still clear it afterwards. */
	while (list_pop(&l->timers))
		;
	l->kind->free(l);
	close(wake);
}

/* How long a wait may sleep; UINT64_MAX: for ever. */
static uint64_t sleep_ns(struct loop *l)
{
	struct loop_timer *t = first_timer(l);
	uint64_t now;

	if (!t)
		return UINT64_MAX;
	if (!t->when)
		return 0;
	now = mono_ns();
	return t->when <= now ? 0 : t->when - now;
}

/* Fetches events. 0 or -errno. */
static int wait_events(struct loop *l, bool may_sleep)
{
	uint64_t ns = 0;
	int err;

	if (may_sleep) {
		atomic_store(&l->sleeping, true);
		/* From here on a sender wakes us. Look once more for messages that came
		 * before. */
		if (!atomic_load(&l->mailbox) && !atomic_load(&l->stop))
			ns = sleep_ns(l);
	}
	err = l->kind->wait(l, ns);
	l->now = mono_ns();
	if (may_sleep)
		atomic_store(&l->sleeping, false);
	return err == -EINTR ? 0 : err;
}

int loop_run(struct loop *l)
{
	int err = l->kind->begin ? l->kind->begin(l) : 0;

	while (!err && !atomic_load(&l->stop)) {
		bool worked = run_mailbox(l);

		run_timers(l);
		err = wait_events(l, !worked);
		if (!err)
			l->kind->call(l);
	}
	if (l->kind->end)
		l->kind->end(l);
	/* A stop before the next loop_run() must not be lost, so the flag is cleared
	 * here and not at the start. */
	atomic_store(&l->stop, false);
	l->now = 0;
	return err;
}
