/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The event loop of a lane or of the gateway: file descriptor watches, timers, and a mailbox
 * for messages from other threads. Only loop_post() and loop_stop() may be called from any
 * thread. All other functions belong to the thread that runs the loop (before it runs: to its
 * creator). Only one thread ever runs a loop.
 *
 * A callback may add, change and remove any watch or timer, its own included. A removed
 * watch is not called again, even if its event was already fetched from the kernel in the
 * same round.
 *
 * Files are waited for by epoll. Watches are level-triggered.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"

struct loop;

struct loop_watch {
	int fd;                 /* -1: not registered */
	uint32_t events;        /* EPOLLIN ..., as registered */
	/* revents: EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP, never 0 */
	void (*fn)(struct loop_watch *w, uint32_t revents);
};

struct loop_timer {
	struct list node;       /* in the loop's ordered list, or unlinked */
	uint64_t when;          /* by the loop's clock */
	void (*fn)(struct loop_timer *t);
};

/* Something that is looked at rather than waited for: memory that another process writes. */
struct loop_poller {
	struct list node;       /* in the loop's list, or unlinked */
	/* Once a round; true: it has found work. sleeps: the loop is about to sleep, and whoever has work
	 * from now on has to wake it, by a file. It may add and remove any poller, itself included. */
	bool (*fn)(struct loop_poller *p, bool sleeps);
};

struct loop_msg {
	struct loop_msg *next;  /* the mailbox's link */
	void (*fn)(struct loop_msg *m);
};

/* Returns NULL and sets errno. The caller owns the loop. clock: nanoseconds that never go back, by
 * which its timers run; NULL: mono_ns. */
struct loop *loop_new(uint64_t (*clock)(void));
/* Forgets watches and timers that are still registered, without calling them. */
void loop_free(struct loop *l);

/* w belongs to the caller and must stay until loop_unwatch(). 0 or -errno. */
int loop_watch(struct loop *l, struct loop_watch *w);
/* Changes the events of a registered watch. With events 0 it stays registered but
 * silent. */
int loop_rewatch(struct loop *l, struct loop_watch *w, uint32_t events);
/* Does nothing if w is not registered (fd -1). Sets fd to -1, closes nothing. */
void loop_unwatch(struct loop *l, struct loop_watch *w);

/* loop_timer_set() arms t to fire once, delay_ms from now, and rearms it if it is set
 * already. loop_timer_init() must have been called before. */
void loop_timer_init(struct loop_timer *t, void (*fn)(struct loop_timer *t));
void loop_timer_set(struct loop *l, struct loop_timer *t, unsigned delay_ms);
void loop_timer_clear(struct loop_timer *t);

/* p belongs to the caller and must stay until loop_unpoll(). If a poller adds it, it is called from the
 * next round on. */
void loop_poll(struct loop *l, struct loop_poller *p);
/* p is not called again, even in this round. Does nothing if it is not in a loop; p->node was initialized. */
void loop_unpoll(struct loop_poller *p);

/* Any thread: m->fn(m) will run on the loop's thread. Messages of one sender keep their
 * order. m belongs to the loop until fn is called. */
void loop_post(struct loop *l, struct loop_msg *m);

/* The descriptor by which loop_post() wakes the loop: for a thread with a table of its own. */
int loop_wake_fd(const struct loop *l);

/* Runs until loop_stop(); returns 0 or -errno of a failed wait. */
int loop_run(struct loop *l);
/* Any thread, also a signal handler: loop_run() returns after its round. */
void loop_stop(struct loop *l);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t mono_ns(void);
/* CLOCK_BOOTTIME: the same, but that it goes on while the machine sleeps. */
uint64_t boot_ns(void);
/* The loop's thread. The same as of when this round's events came: earlier, by what the round
 * has taken so far, and without a look at the clock. Outside loop_run() it looks. */
uint64_t loop_now(const struct loop *l);
/* The same inside a callback, for what is counted; elsewhere 0. It is cheaper. */
uint64_t loop_turn(const struct loop *l);
