/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Answers that wait for the end of the loop's round (fs/answers.h): what may wait, who has the
 * data meanwhile, and the order in which the kernel gets it all. A socket takes the place of
 * /dev/fuse.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fs/answers.h"

static struct loop *loop;
static struct arena arena;
static struct magazine mag;
static struct answers answers;
static int dev[2];                      /* ours, the kernel's */

static void on_freed(void *ctx)
{
	(void)ctx;
}

static void begin(struct loop *l)
{
	struct arena_counts few = { { 8, 2, 2, 2 } };

	loop = l;
	if (!loop)
		cr_skip_test("no io_uring: %s", strerror(errno));
	cr_assert_eq(arena_init(&arena, &few, 1), 0);
	magazine_init(&mag, &arena, loop, on_freed, NULL);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, dev), 0);
	answers_init(&answers, &mag, dev[0]);
}

static void begin_ring(void)
{
	begin(loop_new_ring());
}

static void begin_epoll(void)
{
	begin(loop_new_epoll());
}

static void end(void)
{
	if (!loop)
		return;
	magazine_fini(&mag);
	loop_free(loop);
	arena_fini(&arena);
}

static unsigned refused;                /* so many calls of the kernel */

int __real_io_uring_enter2(unsigned fd, unsigned n, unsigned min, unsigned flags, sigset_t *sig,
			   size_t size);
int __wrap_io_uring_enter2(unsigned fd, unsigned n, unsigned min, unsigned flags, sigset_t *sig,
			   size_t size);
int __wrap_io_uring_enter2(unsigned fd, unsigned n, unsigned min, unsigned flags, sigset_t *sig,
			   size_t size)
{
	if (refused) {
		refused--;
		return -EAGAIN;
	}
	return __real_io_uring_enter2(fd, n, min, flags, sig, size);
}

TestSuite(answers, .init = begin_ring, .fini = end, .timeout = 60);
TestSuite(answers_epoll, .init = begin_epoll, .fini = end, .timeout = 60);

/* ---- */

static void stop_fn(struct loop_timer *t)
{
	(void)t;
	loop_stop(loop);
}

/* Runs fn inside the loop. */
static void run_with(void (*fn)(struct loop_timer *t))
{
	struct loop_timer t, stop;

	loop_timer_init(&t, fn);
	loop_timer_set(loop, &t, 0);
	loop_timer_init(&stop, stop_fn);
	loop_timer_set(loop, &stop, 10);
	cr_assert_eq(loop_run(loop), 0);
}

/* libfuse's header is on its stack, and is gone when the answer has been given. */
static bool give(uint64_t unique, const void *data, size_t len, struct arena_buf **lend)
{
	uint64_t header[2] = { unique, len };
	struct iovec iov[2] = {
		{ header, sizeof(header) }, { (void *)(uintptr_t)data, len },
	};
	bool taken = answers_take(&answers, iov, len ? 2 : 1, lend);

	memset(header, 0xee, sizeof(header));
	return taken;
}

/* What the kernel gets next; 0: nothing. */
static char got[1 << 17];

static uint64_t next(void)
{
	ssize_t n = recv(dev[1], got, sizeof(got), MSG_DONTWAIT);
	uint64_t header[2];

	if (n < 0)
		return 0;
	memcpy(header, got, sizeof(header));
	cr_assert_eq((size_t)n, sizeof(header) + header[1]);
	return header[0];
}

static void three(struct loop_timer *t)
{
	(void)t;
	for (uint64_t i = 1; i <= 3; i++)
		cr_assert(give(i, "data", 4, NULL));
	cr_assert_eq(next(), 0, "they leave together");
}

Test(answers, leave_at_the_end_of_the_round)
{
	run_with(three);
	for (uint64_t i = 1; i <= 3; i++) {
		cr_assert_eq(next(), i);
		cr_assert_arr_eq(got + 16, "data", 4);
	}
}

static void flushed(struct loop_timer *t)
{
	three(t);
	answers_flush(&answers);
	for (uint64_t i = 1; i <= 3; i++)
		cr_assert_eq(next(), i);
	answers_flush(&answers);
}

Test(answers, leave_with_a_flush)
{
	run_with(flushed);
}

/* What cannot wait is written by the caller, behind what waits. */
static void too_long(struct loop_timer *t)
{
	static char much[ANSWER_BYTES];

	three(t);
	cr_assert_not(give(4, much, sizeof(much), NULL));
	for (uint64_t i = 1; i <= 3; i++)
		cr_assert_eq(next(), i);
	cr_assert(give(5, much, sizeof(much) - 16, NULL));
}

Test(answers, what_is_long_does_not_wait)
{
	run_with(too_long);
	cr_assert_eq(next(), 5);
}

static void many(struct loop_timer *t)
{
	(void)t;
	for (uint64_t i = 1; i <= 3 * ANSWERS + 1; i++)
		cr_assert(give(i, NULL, 0, NULL));
}

Test(answers, more_than_there_are_slots)
{
	run_with(many);
	for (uint64_t i = 1; i <= 3 * ANSWERS + 1; i++)
		cr_assert_eq(next(), i);
}

#define QUEUE 64u                       /* base/ring.c */

static struct loop_op others[2 * QUEUE];
static unsigned others_done;

static void other_done(struct loop_op *op, int res)
{
	cr_assert(op >= others && res == 1);
	others_done++;
}

static void fill_queue(struct loop_op *op, unsigned n)
{
	static struct iovec byte = { (void *)(uintptr_t)"x", 1 };

	while (n--) {
		op->done = other_done;
		cr_assert(loop_writev(loop, op++, dev[1], &byte, 1));
	}
}

/* The first one is written when others fill the queue, and is heard of when there is no place
 * for the second one at once. */
static void crowded(struct loop_timer *t)
{
	(void)t;
	cr_assert(give(1, NULL, 0, NULL));
	fill_queue(others, QUEUE);
	fill_queue(others + QUEUE, QUEUE - 1);
	refused = 1;
	cr_assert(give(2, NULL, 0, NULL));
	cr_assert_eq(refused, 0);
	cr_assert_eq(others_done, QUEUE - 1);
	cr_assert(give(3, NULL, 0, NULL));
}

Test(answers, one_is_done_while_another_is_queued)
{
	run_with(crowded);
	for (uint64_t i = 1; i <= 3; i++)
		cr_assert_eq(next(), i);
	cr_assert_eq(others_done, 2 * QUEUE - 1);
	cr_assert(answers.busy == 0 && answers.used == 0);
}

/* Nobody can be given more while the kernel takes nothing, and no answer is lost. */
static void interrupted(struct loop_timer *t)
{
	three(t);
	refused = 5;
	answers_flush(&answers);
	cr_assert_eq(refused, 0);
	for (uint64_t i = 1; i <= 3; i++)
		cr_assert_eq(next(), i);
	three(t);
	refused = 1;                    /* the round's wait */
}

Test(answers, kernel_takes_them_later)
{
	run_with(interrupted);
	for (uint64_t i = 1; i <= 3; i++)
		cr_assert_eq(next(), i);
	cr_assert_eq(next(), 0);
}

/* ---- data ---- */

static struct arena_buf *lent;

static void lend(struct loop_timer *t)
{
	struct arena_buf *mine, *b = magazine_get(&mag, ARENA_MID);

	(void)t;
	mine = magazine_get(&mag, ARENA_MID);
	cr_assert(b && mine);
	lent = b;
	memset(b->mem, 'x', 8192);
	cr_assert(give(1, (char *)b->mem + 4096, 4096, &b));
	cr_assert_null(b, "the queue has it");
	cr_assert_null(magazine_get(&mag, ARENA_MID), "and nobody else");
	/* Not copied. */
	memset((char *)lent->mem + 4096, 'y', 4096);
	magazine_put(&mag, mine);
}

static void expect_data(void)
{
	cr_assert_eq(next(), 1);
	for (unsigned i = 0; i < 4096; i++)
		cr_assert_eq(got[16 + i], 'y');
}

Test(answers, data_stays_where_it_is)
{
	run_with(lend);
	expect_data();
	cr_assert_not_null(magazine_get(&mag, ARENA_MID));
	cr_assert_not_null(magazine_get(&mag, ARENA_MID), "it was put back");
}

static void lend_and_end(struct loop_timer *t)
{
	lend(t);
	answers_end(&answers);
	expect_data();
	cr_assert_not(give(2, NULL, 0, NULL));
}

Test(answers, nothing_waits_after_the_end)
{
	run_with(lend_and_end);
	cr_assert_not_null(magazine_get(&mag, ARENA_MID));
	cr_assert_not_null(magazine_get(&mag, ARENA_MID));
}

/* Data elsewhere than in the buffer that is lent, partly elsewhere, and too much of it. */
static void not_in_it(struct loop_timer *t)
{
	struct arena_buf *b = magazine_get(&mag, ARENA_MID), *other = magazine_get(&mag, ARENA_MID);
	char *mem = b->mem;

	(void)t;
	cr_assert_not(give(1, other->mem, 4096, &b));
	cr_assert_not(give(1, "some bytes", 10, &b));
	cr_assert_not(give(1, mem + b->size - 4096, 4097, &b));
	cr_assert_not(give(1, mem, ANSWER_DATA + 1, &b));
	cr_assert_eq(next(), 0);
	cr_assert_not_null(b);
	cr_assert(give(2, mem + b->size - 4096, 4096, &b));
	cr_assert_null(b);
	magazine_put(&mag, other);
}

Test(answers, only_data_in_the_buffer_waits)
{
	run_with(not_in_it);
	cr_assert_eq(next(), 2);
}

/* An answer without data leaves the buffer with the request. */
static void no_data(struct loop_timer *t)
{
	struct arena_buf *b = magazine_get(&mag, ARENA_MID);

	(void)t;
	cr_assert(give(1, NULL, 0, &b));
	cr_assert_not_null(b);
	magazine_put(&mag, b);
}

Test(answers, empty_read)
{
	run_with(no_data);
	cr_assert_eq(next(), 1);
}

static void nobody_there(struct loop_timer *t)
{
	close(dev[1]);
	lend(t);
}

/* The kernel does not take it: the buffer comes back all the same. */
Test(answers, error)
{
	signal(SIGPIPE, SIG_IGN);
	run_with(nobody_there);
	cr_assert_not_null(magazine_get(&mag, ARENA_MID));
	cr_assert_not_null(magazine_get(&mag, ARENA_MID));
	cr_assert(answers.busy == 0 && answers.used == 0);
}

/* epoll has no queue. */
static void at_once(struct loop_timer *t)
{
	struct arena_buf *b = magazine_get(&mag, ARENA_MID);

	(void)t;
	cr_assert_not(give(1, b->mem, 4096, &b));
	cr_assert_not(give(1, NULL, 0, NULL));
	cr_assert_not_null(b);
	magazine_put(&mag, b);
}

Test(answers_epoll, nothing_waits)
{
	run_with(at_once);
}

/* Nor is there one before the loop runs. */
Test(answers, nothing_waits_outside_the_loop)
{
	at_once(NULL);
}
