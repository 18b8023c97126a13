/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Buffers lie inside the mapping, aligned, apart; plans keep their limits; lanes that are
 * short of buffers get those that others do not use.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmflags.h"
#include "base/arena.h"
#include "base/undumped.h"

#define MIB ((size_t)1048576)

static const struct arena_counts few = { .n = { 5, 3, 4, 2 } };

/* ---- one lane ---- */

static struct arena arena;
static struct loop *loop;
static struct magazine mag;
static unsigned freed;

static void on_freed(void *ctx)
{
	(void)ctx;
	freed++;
}

static void setup(void)
{
	loop = loop_new(NULL);
	cr_assert_eq(arena_init(&arena, &few, 2), 0);
	magazine_init(&mag, &arena, loop, on_freed, NULL);
}

static void teardown(void)
{
	magazine_fini(&mag);
	arena_fini(&arena);
	loop_free(loop);
}

TestSuite(base_arena_lane, .init = setup, .fini = teardown, .timeout = 60);

Test(base_arena_lane, buffers_do_not_overlap)
{
	static const size_t sizes[] = { ARENA_MSG_SIZE, ARENA_SMALL_SIZE, ARENA_MID_SIZE,
		ARENA_BIG_SIZE };
	struct arena_buf *all[20];
	unsigned n = 0;

	cr_assert_eq(arena.local.len + arena.data.len, arena_bytes(&few));
	cr_assert_eq(((uintptr_t)arena.local.base | (uintptr_t)arena.data.base) % 4096, 0);
	cr_assert_eq((arena.local.len | arena.data.len) % 4096, 0);
	for (enum arena_class cls = 0; cls < ARENA_CLASSES; cls++) {
		for (unsigned i = 0; i < few.n[cls]; i++) {
			struct arena_range *r = cls < ARENA_SMALL ? &arena.local : &arena.data;
			struct arena_buf *b = magazine_get(&mag, cls);

			cr_assert_not_null(b);
			cr_assert_eq(b->cls, cls);
			cr_assert_eq(b->size, sizes[cls]);
			cr_assert((char *)b->mem >= (char *)r->base);
			cr_assert((char *)b->mem + b->size <= (char *)r->base + r->len);
			if (cls != ARENA_MSG)
				cr_assert_eq((uintptr_t)b->mem % 4096, 0);
			for (size_t at = 0; at < b->size; at += 512)
				cr_assert_eq(((char *)b->mem)[at], 0);
			memset(b->mem, (int)n + 1, b->size);
			all[n++] = b;
		}
		cr_assert_null(magazine_get(&mag, cls));
	}
	for (unsigned i = 0; i < n; i++) {
		for (size_t at = 0; at < all[i]->size; at++)
			cr_assert_eq(((char *)all[i]->mem)[at], (int)i + 1);
		magazine_put(&mag, all[i]);
	}
	for (int cls = 0; cls < ARENA_CLASSES; cls++)
		for (unsigned i = 0; i < few.n[cls]; i++)
			cr_assert_not_null(magazine_get(&mag, cls));
}

Test(base_arena_lane, last_used_comes_first)
{
	struct arena_buf *a = magazine_get(&mag, ARENA_MID), *b = magazine_get(&mag, ARENA_MID);

	magazine_put(&mag, b);
	magazine_put(&mag, a);
	cr_assert_eq(magazine_get(&mag, ARENA_MID), a);
	cr_assert_eq(magazine_get(&mag, ARENA_MID), b);
}

Test(base_arena_lane, the_smallest_that_is_there)
{
	struct arena_buf *b;

	cr_assert_null(magazine_get_data(&mag, ARENA_BIG_SIZE + 1));
	cr_assert_eq((b = magazine_get_data(&mag, ARENA_MID_SIZE + 1))->cls, ARENA_BIG);
	magazine_put(&mag, b);
	for (unsigned i = 0; i < few.n[ARENA_SMALL]; i++)
		cr_assert_eq(magazine_get_data(&mag, ARENA_SMALL_SIZE)->cls, ARENA_SMALL);
	for (unsigned i = 0; i < few.n[ARENA_MID]; i++)
		cr_assert_eq(magazine_get_data(&mag, 1)->cls, ARENA_MID);
	cr_assert_eq(magazine_get_data(&mag, 1)->cls, ARENA_BIG);
	cr_assert_eq(magazine_get_data(&mag, ARENA_BIG_SIZE)->cls, ARENA_BIG);
	cr_assert_null(magazine_get_data(&mag, 1));
	cr_assert_not_null(magazine_get(&mag, ARENA_MSG));
}

/* ---- lanes that share ---- */

static void stop(struct loop_timer *t)
{
	(void)t;
	loop_stop(loop);
}

static void run(unsigned ms)
{
	struct loop_timer t;

	loop_timer_init(&t, stop);
	loop_timer_set(loop, &t, ms);
	cr_assert_eq(loop_run(loop), 0);
}

/* An idle lane's magazine gives its buffers to a lane that waits. */
Test(base_arena_lane, nothing_lies_idle)
{
	struct arena_buf *held[4];
	struct magazine other;

	magazine_init(&other, &arena, loop, on_freed, NULL);
	for (unsigned i = 0; i < few.n[ARENA_MID]; i++)
		held[i] = magazine_get(&other, ARENA_MID);
	for (unsigned i = 0; i < few.n[ARENA_MID]; i++)
		magazine_put(&other, held[i]);
	cr_assert_null(magazine_get(&mag, ARENA_MID));
	run(5);
	cr_assert_eq(freed, 1);
	for (unsigned i = 0; i < few.n[ARENA_MID]; i++)
		cr_assert_not_null(magazine_get(&mag, ARENA_MID));
	magazine_fini(&other);
}

/* If a lane is called and does not take the buffer, the next one gets it. */
Test(base_arena_lane, the_next_is_called)
{
	struct arena_buf *held[4];
	struct magazine other;

	magazine_init(&other, &arena, loop, on_freed, NULL);
	for (unsigned i = 0; i < few.n[ARENA_MID]; i++)
		held[i] = magazine_get(&mag, ARENA_MID);
	cr_assert_null(magazine_get(&other, ARENA_MID));
	cr_assert_null(magazine_get(&mag, ARENA_MID));
	magazine_put(&mag, held[0]);
	run(5);
	cr_assert_eq(freed, 2);
	cr_assert_eq(magazine_get(&mag, ARENA_MID), held[0]);
	magazine_fini(&other);
}

/*
 * The lanes want more buffers than there are. Each lane wants several at once, and holds
 * those that it has until it has all. (There is one buffer more than all lanes can hold and
 * still be short.) Then it hands some to its neighbour, and begins again. All lanes finish.
 */
#define LANES  4u
#define ROUNDS 3000u

static struct worker {
	struct magazine mag;
	struct loop *loop;
	struct loop_msg begin, gift;
	struct arena_buf *held[2], *given;
	_Atomic bool has_gift;
	unsigned nheld, rounds, rand;
	bool ended;
	pthread_t tid;
} workers[LANES];
static _Atomic unsigned ended;

static void work(void *ctx)
{
	struct worker *w = ctx, *next = &workers[(w - workers + 1) % LANES];

	while (w->rounds < ROUNDS) {
		w->rand = w->rand * 1103515245 + 12345;
		if (w->nheld < 1 + (w->rand >> 16) % 2) {
			w->held[w->nheld] = magazine_get_data(&w->mag, (w->rand >> 18) % ARENA_MID_SIZE);
			if (!w->held[w->nheld])
				return;
			memset(w->held[w->nheld++]->mem, (int)w->rounds, 64);
			continue;
		}
		w->rounds++;
		while (w->nheld) {
			struct arena_buf *b = w->held[--w->nheld];

			if (!atomic_exchange(&next->has_gift, true)) {
				next->given = b;
				loop_post(next->loop, &next->gift);
			} else {
				magazine_put(&w->mag, b);
			}
		}
	}
	/* Its magazine is to serve the others. */
	if (!w->ended && atomic_fetch_add(&ended, 1) + 1 == LANES)
		for (unsigned i = 0; i < LANES; i++)
			loop_stop(workers[i].loop);
	w->ended = true;
}

static void on_gift(struct loop_msg *m)
{
	struct worker *w = container_of(m, struct worker, gift);
	struct arena_buf *b = w->given;

	cr_assert_eq(((char *)b->mem)[0], ((char *)b->mem)[63]);
	atomic_store(&w->has_gift, false);
	magazine_put(&w->mag, b);
}

static void on_begin(struct loop_msg *m)
{
	work(container_of(m, struct worker, begin));
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	loop_run(w->loop);
	return NULL;
}

Test(base_arena, lanes_share, .timeout = 120)
{
	static const struct arena_counts counts = { .n = { 0, 3, 4, 1 } };
	unsigned n = 0;

	cr_assert_eq(arena_init(&arena, &counts, LANES), 0);
	for (unsigned i = 0; i < LANES; i++) {
		struct worker *w = &workers[i];

		w->rand = 4711 * (i + 1);
		w->loop = loop_new(NULL);
		w->begin.fn = on_begin;
		w->gift.fn = on_gift;
		magazine_init(&w->mag, &arena, w->loop, work, w);
		loop_post(w->loop, &w->begin);
	}
	for (unsigned i = 0; i < LANES; i++)
		cr_assert_eq(pthread_create(&workers[i].tid, NULL, worker_main, &workers[i]), 0);
	for (unsigned i = 0; i < LANES; i++)
		pthread_join(workers[i].tid, NULL);
	for (unsigned i = 0; i < LANES; i++) {
		struct worker *w = &workers[i];

		cr_assert_eq(w->rounds, ROUNDS);
		if (atomic_load(&w->has_gift))
			magazine_put(&w->mag, w->given);
		magazine_fini(&w->mag);
		loop_free(w->loop);
	}
	for (int cls = 0; cls < ARENA_CLASSES; cls++)
		list_for_each(b, &arena.free[cls])
			n++;
	cr_assert_eq(n, 8, "%u are back", n);
	arena_fini(&arena);
}

/* ---- memory ---- */

/* A child must not see the mapping: its pages are the device's. */
Test(base_arena, not_inherited)
{
	struct arena s;
	int status;
	pid_t pid;

	cr_assert_eq(arena_init(&s, &few, 1), 0);
	pid = fork();
	if (!pid) {
		/* write() answers EFAULT instead of raising a signal. */
		int fd[2];

		if (pipe(fd))
			_exit(2);
		_exit(write(fd[1], s.local.base, 1) < 0 && errno == EFAULT &&
		      write(fd[1], s.data.base, 1) < 0 && errno == EFAULT ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	arena_fini(&s);
}

/* The queues of a connection with 64 credits, and its receives. */
#define RESERVE ((size_t)65536 + 72 * 4096)

Test(base_arena, plan_without_limit)
{
	struct arena_counts c;
	unsigned credits = 64;

	cr_assert_eq(arena_plan(&c, &credits, 8, SIZE_MAX, RESERVE, NULL), 0);
	cr_assert_eq(credits, 64);
	cr_assert_eq(c.n[ARENA_MSG], 72);
	cr_assert_eq(c.n[ARENA_SMALL], 72);
	cr_assert_eq(c.n[ARENA_MID], 72);
	cr_assert_eq(c.n[ARENA_BIG], 16);
	cr_assert_eq(arena_bytes(&c), 72 * (5120 + 8192 + 65536) + 16 * (MIB + 4096));
}

/* The numbers of the comment in arena_plan.c. */
Test(base_arena, plan_two_lanes_in_8_mib)
{
	struct arena_counts c;
	unsigned credits = 64;
	size_t need = 0;

	cr_assert_eq(arena_plan(&c, &credits, 2, 8 * MIB, RESERVE, &need), 0);
	cr_assert_eq(credits, 64);
	cr_assert_eq(c.n[ARENA_SMALL], 22);
	cr_assert_eq(c.n[ARENA_MID], 18);
	cr_assert_eq(c.n[ARENA_BIG], 2);
	cr_assert(arena_bytes(&c) <= 4 * MIB - RESERVE);
}

/* For every limit: it is kept, the minimum is kept, more room never gives less
 * credits, what is left over has room for no other, and a refusal names a limit
 * that is enough. */
Test(base_arena, plan_properties)
{
	unsigned last_credits = 0;

	for (size_t limit = 0; limit < 64 * MIB; limit += 61 * 1024 + 7) {
		for (unsigned lanes = 1; lanes <= 5; lanes++) {
			struct arena_counts c;
			unsigned credits = 64;
			size_t need = 0, all;

			if (arena_plan(&c, &credits, lanes, limit, RESERVE, &need) < 0) {
				cr_assert_gt(need, limit / lanes);
				credits = 64;
				cr_assert_eq(arena_plan(&c, &credits, lanes, need * lanes, RESERVE, &need), 0);
				cr_assert_eq(credits, 8);
				continue;
			}
			all = lanes * arena_bytes(&c);
			cr_assert_leq(all, limit);
			cr_assert(credits >= 8 && credits <= 64);
			cr_assert_geq(c.n[ARENA_MID], 4);
			cr_assert_geq(c.n[ARENA_BIG], 2);
			cr_assert_eq(c.n[ARENA_MSG], credits + 8);
			/* Data buffers are given up before credits. */
			if (credits < 64)
				cr_assert(c.n[ARENA_MID] == 4 && c.n[ARENA_BIG] == 2);
			if (c.n[ARENA_MID] < 72 && credits == 64)
				cr_assert_lt(limit / lanes - RESERVE - arena_bytes(&c),
					     c.n[ARENA_SMALL] < 72 ? ARENA_SMALL_SIZE : ARENA_MID_SIZE);
			if (lanes == 1) {
				cr_assert_geq(credits, last_credits);
				last_credits = credits;
			}
		}
	}
}

Test(base_arena, plan_small_wishes)
{
	struct arena_counts c;
	unsigned credits = 0;

	cr_assert_eq(arena_plan(&c, &credits, 1, SIZE_MAX, RESERVE, NULL), 0);
	cr_assert_eq(credits, 1);
	credits = 2;
	cr_assert_eq(arena_plan(&c, &credits, 0, 3 * MIB, RESERVE, NULL), 0);
	cr_assert_eq(credits, 2);
	credits = 64;
	cr_assert_eq(arena_plan(&c, &credits, 1, 1 * MIB, RESERVE, NULL), -ENOMEM);
}

Test(base_arena, data_is_not_in_core_dumps)
{
	struct arena s;
	char *mem;

	cr_assert_eq(arena_init(&s, &few, 1), 0);
	cr_assert(has_flag(s.local.base, " dd"), "messages");
	cr_assert(has_flag(s.data.base, " dd"), "data");
	arena_fini(&s);
	mem = undumped_alloc(100000);
	cr_assert(mem && !mem[0] && !mem[99999] && has_flag(mem, " dd"), "and beside the buffers");
	undumped_free(mem, 100000);
	undumped_free(NULL, 100000);
}
