/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One round of the loop:
 *
 *     mailbox -> pollers -> due timers -> wait -> watches' callbacks
 *
 * Removed watches. A callback may remove a watch, and free its memory, while the watch's
 * event already lies in the array that epoll_wait filled. So it is struck out of the rest of
 * that array. The array is short, so this costs less than a generation number in every event.
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
#include "base/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "base/sys.h"

#define EVENTS 64               /* fetched at once; the rest comes next round */
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull
#define SOON_NS   (50 * NS_PER_MS)

struct loop {
	struct loop_watch wake;         /* the mailbox's eventfd */
	uint64_t (*clock)(void);
	struct list timers;             /* ordered by `when` */
	struct list at_once;            /* those that are due at once */
	struct list pollers;
	uint64_t now;                   /* when this round's events came; 0: no round */

	_Atomic(struct loop_msg *) mailbox;     /* newest first */
	atomic_bool sleeping;           /* a sender must write to the eventfd */
	atomic_bool stop;

	int epfd;
	struct epoll_event ev[EVENTS];
	int nev, next;                  /* ev[next..nev-1] are still to be called */
};

static uint64_t loop_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t mono_ns(void)
{
	return loop_clock(CLOCK_MONOTONIC);
}

uint64_t boot_ns(void)
{
	return loop_clock(CLOCK_BOOTTIME);
}

uint64_t loop_now(const struct loop *l)
{
	return l->now ? l->now : l->clock();
}

uint64_t loop_turn(const struct loop *l)
{
	return l->now;
}

/* ---- Files ---------------------------------------------------------------- */

/* A watch that wants no events is taken out of the set. epoll reports errors and
 * hang-ups whether asked for or not, and would keep the loop awake. */
static int change_set(struct loop *l, struct loop_watch *w, uint32_t old, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };
	int op;

	if (!old && !events)
		return 0;
	op = !old ? EPOLL_CTL_ADD : !events ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
	return epoll_ctl(l->epfd, op, w->fd, &ev) < 0 ? -errno : 0;
}

/* Drops events of w that were fetched but not delivered yet. */
static void strike_out(struct loop *l, struct loop_watch *w)
{
	for (int i = l->next; i < l->nev; i++)
		if (l->ev[i].data.ptr == w)
			l->ev[i].data.ptr = NULL;
}

int loop_watch(struct loop *l, struct loop_watch *w)
{
	return w->fd < 0 ? -EBADF : change_set(l, w, 0, w->events);
}

int loop_rewatch(struct loop *l, struct loop_watch *w, uint32_t events)
{
	int err;

	if (w->fd < 0)
		return -EBADF;
	if (events == w->events)
		return 0;
	err = change_set(l, w, w->events, events);
	if (err)
		return err;
	if (!events)
		strike_out(l, w);
	w->events = events;
	return 0;
}

void loop_unwatch(struct loop *l, struct loop_watch *w)
{
	if (w->fd < 0)
		return;
	/* Fails only if the file was closed first; then it has left the set already. */
	change_set(l, w, w->events, 0);
	strike_out(l, w);
	w->fd = -1;
}

static void call_watches(struct loop *l)
{
	while (l->next < l->nev) {
		struct epoll_event *ev = &l->ev[l->next++];
		struct loop_watch *w = ev->data.ptr;
		uint32_t revents;

		if (!w)
			continue;
		/* The events wanted may have changed since this one was fetched. */
		revents = ev->events & (w->events | EPOLLERR | EPOLLHUP);
		if (revents)
			w->fn(w, revents);
	}
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
	/* That is what connections use for each message. */
	if (!delay_ms) {
		list_add_tail(&l->at_once, &t->node);
		return;
	}
	t->when = l->clock() + delay_ms * NS_PER_MS;
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
	uint64_t now = loop_now(l);
	struct loop_timer *t;
	struct list due;
	struct list *n;

	list_init(&due);
	list_splice_tail(&due, &l->at_once);
	while ((t = first_timer(l)) && t->when <= now) {
		list_del(&t->node);
		list_add_tail(&due, &t->node);
	}
	while ((n = list_pop(&due))) {
		t = container_of(n, struct loop_timer, node);
		t->fn(t);
	}
}

/* ---- Pollers --------------------------------------------------------------- */

void loop_poll(struct loop *l, struct loop_poller *p)
{
	list_add_tail(&l->pollers, &p->node);
}

void loop_unpoll(struct loop_poller *p)
{
	list_del(&p->node);
}

/* true: some have found work. Those still to be called are on a list of their own, so that one may
 * remove any other. */
static bool run_pollers(struct loop *l, bool sleeps)
{
	bool worked = false;
	struct list todo;
	struct list *n;

	list_init(&todo);
	list_splice_tail(&todo, &l->pollers);
	while ((n = list_pop(&todo))) {
		struct loop_poller *p = container_of(n, struct loop_poller, node);

		list_add_tail(&l->pollers, n);
		worked |= p->fn(p, sleeps);
	}
	return worked;
}

/* ---- Mailbox -------------------------------------------------------------- */

static void loop_wake(struct loop *l)
{
	uint64_t one = 1;
	int saved = errno;

	if (!atomic_exchange(&l->sleeping, false))
		return;
	/* At most one write per sleep, so only a signal can make it fail. */
	TEMP_FAILURE_RETRY(write(l->wake.fd, &one, sizeof(one)));
	errno = saved;
}

static void wake_fn(struct loop_watch *w, uint32_t revents)
{
	uint64_t n;

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
	loop_wake(l);
}

int loop_wake_fd(const struct loop *l)
{
	return l->wake.fd;
}

void loop_stop(struct loop *l)
{
	atomic_store(&l->stop, true);
	loop_wake(l);
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

static int open_files(struct loop *l)
{
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epfd < 0)
		return -errno;
	l->wake.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return l->wake.fd < 0 ? -errno : loop_watch(l, &l->wake);
}

struct loop *loop_new(uint64_t (*clock)(void))
{
	struct loop *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return NULL;
	l->clock = clock ? clock : mono_ns;
	list_init(&l->timers);
	list_init(&l->at_once);
	list_init(&l->pollers);
	l->wake = (struct loop_watch){ .fd = -1, .events = EPOLLIN, .fn = wake_fn };
	err = open_files(l);
	if (!err)
		return l;
	loop_free(l);
	errno = -err;
	return NULL;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	/* A timer's owner may still clear it afterwards. */
	while (list_pop(&l->timers) || list_pop(&l->at_once) || list_pop(&l->pollers))
		;
	if (l->wake.fd >= 0)
		close(l->wake.fd);
	if (l->epfd >= 0)
		close(l->epfd);
	free(l);
}

/* How long a wait may sleep, for epoll_wait(); -1: for ever. Rounded up, because waking before a
 * timer is due would make the loop turn for nothing. A timer that is not due soon needs no look at
 * the clock: it is late by what this round has taken. */
static int sleep_ms(struct loop *l)
{
	struct loop_timer *t = first_timer(l);
	uint64_t now = loop_now(l), ms;

	if (!list_empty(&l->at_once))
		return 0;
	if (!t)
		return -1;
	if (t->when <= now + SOON_NS)
		now = l->clock();
	ms = t->when <= now ? 0 : (t->when - now + NS_PER_MS - 1) / NS_PER_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* Fetches events. 0 or -errno. */
static int wait_events(struct loop *l, bool may_sleep)
{
	int ms = 0, err;

	if (may_sleep) {
		atomic_store(&l->sleeping, true);
		/* From here on a sender wakes us. Look once more for messages that came
		 * before. */
		if ((list_empty(&l->pollers) || !run_pollers(l, true)) && !atomic_load(&l->mailbox) && !atomic_load(&l->stop))
			ms = sleep_ms(l);
	}
	l->next = 0;
	l->nev = sys_epoll_wait(l->epfd, l->ev, EVENTS, ms);
	err = l->nev < 0 ? -errno : 0;
	l->now = l->clock();
	if (may_sleep)
		atomic_store(&l->sleeping, false);
	return err == -EINTR ? 0 : err;
}

int loop_run(struct loop *l)
{
	int err = 0;

	while (!err && !atomic_load(&l->stop)) {
		bool worked = run_mailbox(l);

		if (!list_empty(&l->pollers))
			worked |= run_pollers(l, false);
		run_timers(l);
		err = wait_events(l, !worked);
		if (!err)
			call_watches(l);
	}
	/* A stop before the next loop_run() must not be lost, so the flag is cleared
	 * here and not at the start. */
	atomic_store(&l->stop, false);
	l->now = 0;
	return err;
}
