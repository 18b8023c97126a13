/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Buffers lie inside the mapping, aligned, apart; plans keep their limits. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmflags.h"
#include "base/slab.h"

#define MIB ((size_t)1048576)

static const struct slab_counts few = { .n = { 3, 5, 4, 2 } };

Test(base_slab, buffers_do_not_overlap)
{
	static const size_t sizes[] = { SLAB_RECV_SIZE, SLAB_MSG_SIZE, SLAB_MID_SIZE, SLAB_BIG_SIZE };
	struct slab_buf *all[16];
	unsigned n = 0;
	struct slab s;

	cr_assert_eq(slab_init(&s, &few), 0);
	cr_assert_eq(s.local.len + s.data.len, slab_bytes(&few));
	cr_assert_eq(((uintptr_t)s.local.base | (uintptr_t)s.data.base) % 4096, 0);
	cr_assert_eq((s.local.len | s.data.len) % 4096, 0);
	for (int cls = 0; cls < SLAB_CLASSES; cls++) {
		cr_assert_eq(s.nfree[cls], few.n[cls]);
		for (unsigned i = 0; i < few.n[cls]; i++) {
			struct slab_range *r = cls < SLAB_MID ? &s.local : &s.data;
			struct slab_buf *b = slab_get(&s, cls);

			cr_assert_not_null(b);
			cr_assert_eq(b->cls, cls);
			cr_assert_eq(b->size, sizes[cls]);
			cr_assert((char *)b->mem >= (char *)r->base);
			cr_assert((char *)b->mem + b->size <= (char *)r->base + r->len);
			if (cls != SLAB_MSG)
				cr_assert_eq((uintptr_t)b->mem % 4096, 0);
			for (size_t at = 0; at < b->size; at += 512)
				cr_assert_eq(((char *)b->mem)[at], 0);
			memset(b->mem, (int)n + 1, b->size);
			all[n++] = b;
		}
		cr_assert_null(slab_get(&s, cls));
		cr_assert_eq(s.nfree[cls], 0);
	}
	for (unsigned i = 0; i < n; i++) {
		for (size_t at = 0; at < all[i]->size; at++)
			cr_assert_eq(((char *)all[i]->mem)[at], (int)i + 1);
		slab_put(&s, all[i]);
	}
	for (int cls = 0; cls < SLAB_CLASSES; cls++)
		cr_assert_eq(s.nfree[cls], few.n[cls]);
	slab_fini(&s);
	slab_fini(&s);  /* does no harm */
}

Test(base_slab, last_used_comes_first)
{
	struct slab_buf *a, *b;
	struct slab s;

	cr_assert_eq(slab_init(&s, &few), 0);
	a = slab_get(&s, SLAB_MID);
	b = slab_get(&s, SLAB_MID);
	slab_put(&s, b);
	slab_put(&s, a);
	cr_assert_eq(slab_get(&s, SLAB_MID), a);
	cr_assert_eq(slab_get(&s, SLAB_MID), b);
	slab_fini(&s);
}

Test(base_slab, data_falls_back_to_big)
{
	struct slab_buf *b;
	struct slab s;

	cr_assert_eq(slab_init(&s, &few), 0);
	cr_assert_null(slab_get_data(&s, SLAB_BIG_SIZE + 1));
	cr_assert_eq((b = slab_get_data(&s, SLAB_MID_SIZE + 1))->cls, SLAB_BIG);
	slab_put(&s, b);
	for (unsigned i = 0; i < few.n[SLAB_MID]; i++)
		cr_assert_eq(slab_get_data(&s, SLAB_MID_SIZE)->cls, SLAB_MID);
	cr_assert_eq(slab_get_data(&s, 1)->cls, SLAB_BIG);
	cr_assert_eq(slab_get_data(&s, SLAB_BIG_SIZE)->cls, SLAB_BIG);
	cr_assert_null(slab_get_data(&s, 1));
	cr_assert_eq(s.nfree[SLAB_RECV], few.n[SLAB_RECV]);
	cr_assert_eq(s.nfree[SLAB_MSG], few.n[SLAB_MSG]);
	slab_fini(&s);
}

Test(base_slab, nothing_is_an_error)
{
	static const struct slab_counts none;
	struct slab s;

	cr_assert_eq(slab_init(&s, &none), -EINVAL);
}

/* A child must not see the mapping: its pages are the device's. */
Test(base_slab, not_inherited)
{
	struct slab s;
	int status;
	pid_t pid;

	cr_assert_eq(slab_init(&s, &few), 0);
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
	slab_fini(&s);
}

Test(base_slab, plan_without_limit)
{
	struct slab_counts c;
	unsigned credits = 64;

	cr_assert_eq(slab_plan(&c, &credits, 8, SIZE_MAX, NULL), 0);
	cr_assert_eq(credits, 64);
	cr_assert_eq(c.n[SLAB_RECV], 72);
	cr_assert_eq(c.n[SLAB_MSG], 72);
	cr_assert_eq(c.n[SLAB_MID], 72);
	cr_assert_eq(c.n[SLAB_BIG], 16);
	cr_assert_eq(slab_bytes(&c), 72 * (4096 + 5120 + 65536) + 16 * (MIB + 4096));
}

/* The numbers of the comment in slab.c. */
Test(base_slab, plan_two_lanes_in_8_mib)
{
	struct slab_counts c;
	unsigned credits = 64;
	size_t need = 0;

	cr_assert_eq(slab_plan(&c, &credits, 2, 8 * MIB, &need), 0);
	cr_assert_eq(credits, 64);
	cr_assert_eq(c.n[SLAB_MID], 20);
	cr_assert_eq(c.n[SLAB_BIG], 2);
	cr_assert(slab_bytes(&c) <= 4 * MIB - 65536);
}

/* For every limit: it is kept, the minimum is kept, more room never gives less
 * credits, what is left over is smaller than a MID, and a refusal names a limit
 * that is enough. */
Test(base_slab, plan_properties)
{
	unsigned last_credits = 0;

	for (size_t limit = 0; limit < 64 * MIB; limit += 61 * 1024 + 7) {
		for (unsigned lanes = 1; lanes <= 5; lanes++) {
			struct slab_counts c;
			unsigned credits = 64;
			size_t need = 0, all;

			if (slab_plan(&c, &credits, lanes, limit, &need) < 0) {
				cr_assert_gt(need, limit / lanes);
				credits = 64;
				cr_assert_eq(slab_plan(&c, &credits, lanes, need * lanes, &need), 0);
				cr_assert_eq(credits, 8);
				continue;
			}
			all = lanes * slab_bytes(&c);
			cr_assert_leq(all, limit);
			cr_assert(credits >= 8 && credits <= 64);
			cr_assert_geq(c.n[SLAB_MID], 4);
			cr_assert_geq(c.n[SLAB_BIG], 2);
			cr_assert_eq(c.n[SLAB_RECV], credits + 8);
			cr_assert_eq(c.n[SLAB_MSG], credits + 8);
			/* Data buffers are given up before credits. */
			if (credits < 64)
				cr_assert(c.n[SLAB_MID] == 4 && c.n[SLAB_BIG] == 2);
			if (c.n[SLAB_MID] < 72 && credits == 64)
				cr_assert_lt(limit / lanes - 65536 - slab_bytes(&c), SLAB_MID_SIZE);
			if (lanes == 1) {
				cr_assert_geq(credits, last_credits);
				last_credits = credits;
			}
		}
	}
}

Test(base_slab, plan_small_wishes)
{
	struct slab_counts c;
	unsigned credits = 0;

	cr_assert_eq(slab_plan(&c, &credits, 1, SIZE_MAX, NULL), 0);
	cr_assert_eq(credits, 1);
	credits = 2;
	cr_assert_eq(slab_plan(&c, &credits, 0, 3 * MIB, NULL), 0);
	cr_assert_eq(credits, 2);
	credits = 64;
	cr_assert_eq(slab_plan(&c, &credits, 1, 1 * MIB, NULL), -ENOMEM);
}

Test(base_slab, data_is_not_in_core_dumps)
{
	struct slab s;
	char *mem;

	cr_assert_eq(slab_init(&s, &few), 0);
	cr_assert(has_flag(s.local.base, " dd"), "messages");
	cr_assert(has_flag(s.data.base, " dd"), "data");
	slab_fini(&s);
	mem = slab_undumped(100000);
	cr_assert(mem && !mem[0] && !mem[99999] && has_flag(mem, " dd"), "and beside the slab");
	slab_undumped_free(mem, 100000);
	slab_undumped_free(NULL, 100000);
}
