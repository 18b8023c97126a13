/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of the event loop. What a watch must never see: the event of another watch,
 * of a file that was closed, or of its own former life.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop_play.h"

struct end {
	struct loop_watch w;
	int other;
	unsigned calls;
};

static void count_fn(struct loop_watch *w, uint32_t revents)
{
	struct end *e = container_of(w, struct end, w);
	char c;

	(void)revents;
	e->calls++;
	if (read(w->fd, &c, 1) == 0)
		loop_unwatch(loop, w);
}

static void count_and_stop(struct loop_watch *w, uint32_t revents)
{
	count_fn(w, revents);
	loop_stop(loop);
}

static void open_end(struct end *e, void (*fn)(struct loop_watch *w, uint32_t revents))
{
	int fd[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	*e = (struct end){ .w = { .fd = fd[0], .events = EPOLLIN, .fn = fn }, .other = fd[1] };
	cr_assert_eq(loop_watch(loop, &e->w), 0);
}

static void poke(struct end *e)
{
	cr_assert_eq(write(e->other, "x", 1), 1);
}

/* What is not read is reported again, in each round. */
static void leave_it(struct loop_watch *w, uint32_t revents)
{
	struct end *e = container_of(w, struct end, w);

	(void)revents;
	if (++e->calls == 100)
		loop_stop(loop);
}

Test(loop, level_triggered)
{
	struct end e;

	open_end(&e, leave_it);
	poke(&e);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(e.calls, 100);
}

static struct end both[2], later;

/* Closes the other one, whose event has been fetched, too. A new watch gets its file number. */
static void close_other(struct loop_watch *w, uint32_t revents)
{
	struct end *other = &both[container_of(w, struct end, w) == both];
	int fd = other->w.fd;

	(void)revents;
	loop_unwatch(loop, w);
	loop_unwatch(loop, &other->w);
	close(fd);
	open_end(&later, count_fn);
	cr_assert_eq(later.w.fd, fd);
	memset(other, 0xee, sizeof(*other));
}

Test(loop, number_is_used_again_in_the_same_round)
{
	open_end(&both[0], close_other);
	open_end(&both[1], close_other);
	poke(&both[0]);
	poke(&both[1]);
	run_for(20);
	cr_assert_eq(later.calls, 0);
	poke(&later);
	run_for(20);
	cr_assert_eq(later.calls, 1);
}

/* The peer hears of a close at once, although the loop was watching the file. */
Test(loop, closed_file_is_let_go)
{
	struct end e;
	char c;
	int fd;

	open_end(&e, count_fn);
	run_for(5);
	fd = e.w.fd;
	loop_unwatch(loop, &e.w);
	close(fd);
	cr_assert_eq(read(e.other, &c, 1), 0, "%s", strerror(errno));
}

static struct end closing;

static void close_it(struct loop_timer *t)
{
	int fd = closing.w.fd;

	(void)t;
	loop_unwatch(loop, &closing.w);
	close(fd);
}

/* The same while the loop runs; it does not wait for anything else. */
Test(loop, closed_file_is_let_go_by_a_running_loop)
{
	struct loop_timer t;
	struct end peer;

	open_end(&closing, count_fn);
	peer = (struct end){ .w = { .fd = closing.other, .events = EPOLLIN, .fn = count_fn } };
	cr_assert_eq(loop_watch(loop, &peer.w), 0);
	loop_timer_init(&t, close_it);
	loop_timer_set(loop, &t, 5);
	run_for(30);
	cr_assert_eq(peer.calls, 1);
	cr_assert_eq(peer.w.fd, -1);
}

/* In the kernel's hands, then removed and watched anew: one event, not two. */
Test(loop, removed_and_watched_again)
{
	struct end e;
	int fd;

	open_end(&e, count_fn);
	run_for(5);
	fd = e.w.fd;
	for (int i = 0; i < 3; i++) {
		loop_unwatch(loop, &e.w);
		e.w.fd = fd;
		cr_assert_eq(loop_watch(loop, &e.w), 0);
	}
	poke(&e);
	run_for(20);
	cr_assert_eq(e.calls, 1);
}

static uint32_t seen;

static void see(struct loop_watch *w, uint32_t revents)
{
	seen = revents;
	loop_rewatch(loop, w, EPOLLIN);
}

/* Other events than those that the kernel waits for. */
Test(loop, wants_more)
{
	struct end e;

	open_end(&e, see);
	run_for(5);
	cr_assert_eq(seen, 0);
	cr_assert_eq(loop_rewatch(loop, &e.w, EPOLLIN | EPOLLOUT), 0);
	run_for(5);
	cr_assert_eq(seen, EPOLLOUT);
}

/* More than are fetched at once: none is lost. */
#define CROWD 1000

static struct end *crowd;
static unsigned crowd_called;

static void crowd_fn(struct loop_watch *w, uint32_t revents)
{
	struct end *e = container_of(w, struct end, w);

	(void)revents;
	cr_assert_eq(e->calls++, 0);
	loop_unwatch(loop, w);
	if (++crowd_called == CROWD)
		loop_stop(loop);
}

static void start_crowd(struct loop_timer *t)
{
	(void)t;
	for (int i = 0; i < CROWD; i++) {
		uint64_t one = 1;

		cr_assert_eq(write(crowd[i].w.fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	}
}

static void gather_crowd(void)
{
	struct rlimit lim;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	crowd = calloc(CROWD, sizeof(*crowd));
	for (int i = 0; i < CROWD; i++) {
		int fd = eventfd(0, EFD_NONBLOCK);

		if (fd < 0)
			cr_skip_test("no %d files here", CROWD);
		crowd[i].w = (struct loop_watch){ .fd = fd, .events = EPOLLIN, .fn = crowd_fn };
		cr_assert_eq(loop_watch(loop, &crowd[i].w), 0);
	}
}

Test(loop, crowd_at_once)
{
	struct loop_timer t;

	gather_crowd();
	loop_timer_init(&t, start_crowd);
	loop_timer_set(loop, &t, 10);
	cr_assert_eq(loop_run(loop), 0);
	free(crowd);
}

/* Nobody waits any more for what a whole crowd still reports. */
static void dismiss(struct loop_timer *t)
{
	start_crowd(t);
	for (int i = 0; i < CROWD; i++) {
		int fd = crowd[i].w.fd;

		loop_unwatch(loop, &crowd[i].w);
		close(fd);
	}
	free(crowd);
}

Test(loop, crowd_is_dismissed)
{
	struct loop_timer t;
	struct end e;

	gather_crowd();
	loop_timer_init(&t, dismiss);
	loop_timer_set(loop, &t, 10);
	open_end(&e, count_and_stop);
	run_for(30);
	cr_assert_eq(crowd_called, 0);
	poke(&e);
	run_awake();
	cr_assert_eq(e.calls, 1);
}
