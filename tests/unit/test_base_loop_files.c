/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files and writes of the event loop. What a watch must never see: the event of another watch,
 * of a file that was closed, or of its own former life.
 */
#include <fcntl.h>
#include <liburing.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ring.h"
#include "both_loops.h"

/* ---- Watches ---- */

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

static struct end exclusive;
static unsigned late;

static void late_fn(struct loop_watch *w, uint32_t revents)
{
	(void)w;
	if (revents)
		exclusive.calls++;
	else
		late++;
}

static void stop_watching(struct loop_timer *t)
{
	(void)t;
	cr_assert_eq(loop_rewatch(loop, &exclusive.w, 0), 0);
	poke(&exclusive);
}

/* Of those that wait the kernel wakes one. If that one does not watch any more, somebody else
 * has to be told. */
RINGS(wake_up_of_an_exclusive_watch_that_was_removed)
{
	struct loop_timer t;

	open_end(&exclusive, late_fn);
	cr_assert_eq(loop_rewatch(loop, &exclusive.w, EPOLLIN | EPOLLEXCLUSIVE), 0);
	run_for(1);
	loop_timer_init(&t, stop_watching);
	loop_timer_set(loop, &t, 0);
	run_for(5);
	cr_assert(late == 1 && !exclusive.calls);
	run_for(5);
	cr_assert(late == 1 && !exclusive.calls);
	cr_assert_eq(loop_rewatch(loop, &exclusive.w, EPOLLIN | EPOLLEXCLUSIVE), 0);
	run_for(1);
	cr_assert(late == 1 && exclusive.calls);
	loop_unwatch(loop, &exclusive.w);
}

/* What is not read is reported again, in each round. */
static void leave_it(struct loop_watch *w, uint32_t revents)
{
	struct end *e = container_of(w, struct end, w);

	(void)revents;
	if (++e->calls == 100)
		loop_stop(loop);
}

BOTH(level_triggered)
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

BOTH(number_is_used_again_in_the_same_round)
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
BOTH(closed_file_is_let_go)
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
BOTH(closed_file_is_let_go_by_a_running_loop)
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
BOTH(removed_and_watched_again)
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
BOTH(wants_more)
{
	struct end e;

	open_end(&e, see);
	run_for(5);
	cr_assert_eq(seen, 0);
	cr_assert_eq(loop_rewatch(loop, &e.w, EPOLLIN | EPOLLOUT), 0);
	run_for(5);
	cr_assert_eq(seen, EPOLLOUT);
}

/* More than a ring takes at once, and more reports than it holds: none is lost. */
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

BOTH(crowd_at_once)
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

BOTH(crowd_is_dismissed)
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

/* ---- Writes ---- */

struct note {
	struct loop_op op;
	struct iovec iov;
	char c;
	int res;
	unsigned done;
};

static void note_done(struct loop_op *op, int res)
{
	struct note *n = container_of(op, struct note, op);

	cr_assert_not(op->busy);
	n->res = res;
	n->done++;
}

#define NOTES 200

static struct note notes[NOTES];
static int pipe_fd[2];

static void take_note(unsigned i, char c)
{
	notes[i].c = c;
	notes[i].iov = (struct iovec){ &notes[i].c, 1 };
	notes[i].op.done = note_done;
	cr_assert(loop_writev(loop, &notes[i].op, pipe_fd[1], &notes[i].iov, 1));
	cr_assert(notes[i].op.busy);
}

static ssize_t taken(char *to, size_t n)
{
	return read(pipe_fd[0], to, n);
}

/* Runs fn once in the loop, and the loop for a while. */
static void run_with(void (*fn)(struct loop_timer *t))
{
	struct loop_timer t;

	cr_assert_eq(pipe2(pipe_fd, O_NONBLOCK), 0);
	loop_timer_init(&t, fn);
	loop_timer_set(loop, &t, 0);
	run_for(20);
}

static void take_three(struct loop_timer *t)
{
	char c;

	(void)t;
	for (unsigned i = 0; i < 3; i++)
		take_note(i, (char)('a' + i));
	cr_assert(taken(&c, 1) < 0, "they leave together");
}

RINGS(writes_leave_with_the_wait)
{
	char text[8];

	run_with(take_three);
	cr_assert_eq(taken(text, sizeof(text)), 3);
	cr_assert_arr_eq(text, "abc", 3);
	for (unsigned i = 0; i < 3; i++)
		cr_assert(notes[i].done == 1 && notes[i].res == 1);
}

static unsigned waits;
static uint64_t disk_ns;                /* so long at most they look like waits for a disk */
static int no_enter;                    /* a filter of system calls says this */
static bool take_less;                  /* the kernel does, once */

int __real_io_uring_enter2(unsigned fd, unsigned n, unsigned min, unsigned flags, sigset_t *sig,
			   size_t size);
int __wrap_io_uring_enter2(unsigned fd, unsigned n, unsigned min, unsigned flags, sigset_t *sig,
			   size_t size);
int __wrap_io_uring_enter2(unsigned fd, unsigned n, unsigned min, unsigned flags, sigset_t *sig,
			   size_t size)
{
	const struct io_uring_getevents_arg *arg = (const void *)sig;

	if (no_enter)
		return no_enter;
	if (take_less && n > 1) {
		take_less = false;
		return __real_io_uring_enter2(fd, n - 1, 0, flags, sig, size);
	}
	if (min) {
		const struct __kernel_timespec *ts = (const void *)(uintptr_t)arg->ts;

		waits++;
		if (!(flags & 1u << 7))
			disk_ns += (uint64_t)ts->tv_sec * 1000000000 + (uint64_t)ts->tv_nsec;
	}
	return __real_io_uring_enter2(fd, n, min, flags, sig, size);
}

/* Their own reports do not end the wait. */
RINGS(writes_do_not_wake)
{
	run_with(take_three);
	cr_assert_eq(waits, 1, "until the timer that stops, and not %u", waits);
}

/* Linux counts who waits in io_uring_enter() as iowait, unless it is told not to. */
RINGS(idle_is_no_iowait)
{
	run_for(50);
	cr_assert(waits > 0 && waits <= 3, "%u waits", waits);
	cr_assert_leq(disk_ns, 1000000);
}

static void flush_three(struct loop_timer *t)
{
	char text[8];

	take_three(t);
	loop_flush(loop);
	cr_assert_eq(taken(text, sizeof(text)), 3);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(notes[i].done, 1);
	loop_flush(loop);
}

RINGS(writes_leave_with_a_flush)
{
	run_with(flush_three);
}

static struct end flushed;

/* What the kernel has not taken is given to it again before the loop sleeps. */
RINGS(kernel_takes_less_than_it_is_given)
{
	struct end e[2];

	open_end(&e[0], count_fn);
	open_end(&e[1], count_and_stop);
	poke(&e[1]);
	take_less = true;
	run_awake();
	cr_assert(!take_less && e[0].calls == 0 && e[1].calls == 1);
}

static void flush_in_call(struct loop_watch *w, uint32_t revents)
{
	poke(&flushed);
	flush_three(NULL);
	count_fn(w, revents);
	loop_unwatch(loop, w);
}

/* A flush meets the events of watches. They are not lost, and the loop does not sleep. */
RINGS(flush_keeps_events)
{
	struct end e;
	uint64_t start;

	cr_assert_eq(pipe2(pipe_fd, O_NONBLOCK), 0);
	open_end(&e, flush_in_call);
	open_end(&flushed, count_and_stop);
	run_for(5);
	poke(&e);
	start = mono_ns();
	run_for(5000);
	cr_assert(e.calls == 1 && flushed.calls == 1);
	cr_assert_lt(mono_ns() - start, 2000000000u);
}

static void take_many(struct loop_timer *t)
{
	(void)t;
	for (unsigned i = 0; i < NOTES; i++)
		take_note(i, (char)i);
}

/* More than the queue holds. */
RINGS(many_writes_keep_their_order)
{
	char text[NOTES + 1];

	run_with(take_many);
	cr_assert_eq(taken(text, sizeof(text)), NOTES);
	for (unsigned i = 0; i < NOTES; i++)
		cr_assert(text[i] == (char)i && notes[i].done == 1 && notes[i].res == 1);
}

static void take_bad(struct loop_timer *t)
{
	(void)t;
	close(pipe_fd[0]);
	take_note(0, 'a');
}

RINGS(error_of_a_write)
{
	signal(SIGPIPE, SIG_IGN);
	run_with(take_bad);
	cr_assert(notes[0].done == 1 && notes[0].res == -EPIPE);
}

static void take_and_stop(struct loop_watch *w, uint32_t revents)
{
	(void)revents;
	take_three(NULL);
	loop_unwatch(loop, w);
	loop_stop(loop);
}

/* What is queued when the loop ends has left when loop_run() returns. */
RINGS(writes_leave_before_the_loop_ends)
{
	struct end e;

	cr_assert_eq(pipe2(pipe_fd, O_NONBLOCK), 0);
	open_end(&e, take_and_stop);
	poke(&e);
	cr_assert_eq(loop_run(loop), 0);
	for (unsigned i = 0; i < 3; i++)
		cr_assert(notes[i].done == 1 && notes[i].res == 1);
}

/* seccomp does not see what a ring does: so it can do nothing else. */
Test(files, rings_do_nothing_else)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	struct ring r;
	uint64_t left;
	int rc = ring_make(&r);

	if (rc)
		cr_skip_test("no io_uring: %s", strerror(-rc));
	cr_assert_eq(ring_enable(&r), 0);
	sqe = io_uring_get_sqe(&r.u);
	io_uring_prep_openat(sqe, AT_FDCWD, "/", O_RDONLY, 0);
	io_uring_sqe_set_data64(sqe, 0);
	cr_assert_eq(ring_enter(&r, 1, UINT64_MAX, &left), 0);
	cr_assert_eq(io_uring_peek_cqe(&r.u, &cqe), 0);
	cr_assert_eq(cqe->res, -EACCES);
	cr_assert(io_uring_register_files_sparse(&r.u, 1) < 0);
	ring_exit(&r);
}

/* A kernel or a container may forbid it. */
Test(files, no_ring)
{
	struct loop *l;

	no_enter = -EPERM;
	errno = 0;
	cr_assert_null(loop_new(LOOP_RING));
	cr_assert_eq(errno, EPERM);
	l = loop_new(LOOP_EPOLL);
	cr_assert(l && !loop_queues(l));
	loop_free(l);
	no_enter = 0;
	l = loop_new(LOOP_RING);
	cr_assert(!l || loop_queues(l));
	loop_free(l);
}

/* Nobody would give it to the kernel. */
BOTH(no_writes_outside_a_running_loop)
{
	cr_assert_not(loop_writev(loop, &notes[0].op, 1, &notes[0].iov, 1));
	run_for(1);
	cr_assert_not(loop_writev(loop, &notes[0].op, 1, &notes[0].iov, 1));
	loop_flush(loop);
}
