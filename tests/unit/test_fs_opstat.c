/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How requests of the kernel are counted (fuse/opstat.h), and their times by powers of two (base/times.h). */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include "fuse/opstat.h"

static struct opstat *s;

static void setup(void)
{
	s = calloc(1, sizeof(*s));
	opstat_init(s);
}

static void teardown(void)
{
	free(s);
}

TestSuite(fs_opstat, .init = setup, .fini = teardown, .timeout = 60);

static void begins(uint32_t opcode, uint64_t unique, uint64_t now)
{
	opstat_begins(s, &(struct fuse_in_header){ .opcode = opcode, .unique = unique }, now);
}

static void ends(uint64_t unique, int error, uint64_t now)
{
	opstat_ends(s, &(struct fuse_out_header){ .unique = unique, .error = error }, now);
}

static struct times_sum times_of(unsigned opcode)
{
	struct times_sum t = { 0 };

	times_sum_add(&t, &s->kind[opcode].times);
	return t;
}

static uint64_t untimed(unsigned opcode)
{
	return stat_get_from(&s->kind[opcode].untimed);
}

Test(fs_opstat, time_and_errors)
{
	struct times_sum t;

	begins(FUSE_READ, 2, 1000000);
	begins(FUSE_LOOKUP, 4, 1000000);
	ends(4, -ENOENT, 1000000);
	ends(2, 0, 1000000 + 5 * TIMES_UNIT);
	t = times_of(FUSE_READ);
	cr_assert_eq(t.count, 1);
	cr_assert_eq(t.ns, 5 * TIMES_UNIT);
	cr_assert_eq(t.bucket[2], 1, "4 to 8 microseconds");
	cr_assert_eq(stat_get_from(&s->kind[FUSE_READ].errors), 0);
	cr_assert_eq(times_of(FUSE_LOOKUP).bucket[0], 1);
	cr_assert_eq(stat_get_from(&s->kind[FUSE_LOOKUP].errors), 1);
}

Test(fs_opstat, any_time_has_a_bucket)
{
	struct times_sum t;

	begins(FUSE_READ, 2, 0);
	ends(2, 0, UINT64_MAX);
	begins(FUSE_READ, 4, 0);
	ends(4, 0, TIMES_UNIT - 1);
	t = times_of(FUSE_READ);
	cr_assert_eq(t.count, 2);
	cr_assert_eq(t.bucket[TIMES_BUCKETS - 1], 1);
	cr_assert_eq(t.bucket[0], 1);
}

/* What nobody has asked for, and what is answered twice, is nothing. */
Test(fs_opstat, answers_to_nothing)
{
	ends(0, 0, 5);
	ends(2, 0, 5);
	begins(FUSE_READ, 2, 0);
	ends(2, 0, 5);
	ends(2, 0, 7);
	for (unsigned i = 0; i < OPSTAT_KINDS; i++)
		cr_assert_eq(times_of(i).count, i == FUSE_READ, "%u", i);
}

Test(fs_opstat, places_of_others)
{
	/* One after the other has the same place. */
	for (unsigned i = 0; i < OPSTAT_LOOKS + 2; i++)
		begins(FUSE_SETLKW, 2 + i * OPSTAT_PLACES, i);
	cr_assert_eq(untimed(FUSE_SETLKW), 2);
	for (unsigned i = 0; i < OPSTAT_LOOKS + 2; i++)
		ends(2 + i * OPSTAT_PLACES, 0, 1000 + i);
	cr_assert_eq(times_of(FUSE_SETLKW).count, OPSTAT_LOOKS);
	cr_assert_eq(times_of(FUSE_SETLKW).ns, OPSTAT_LOOKS * 1000, "each its own time");
	/* All are free again. */
	for (unsigned i = 0; i < OPSTAT_LOOKS; i++)
		begins(FUSE_GETLK, 2 + i * OPSTAT_PLACES, i);
	cr_assert_eq(untimed(FUSE_GETLK), 0);
}

Test(fs_opstat, no_answer_and_no_name)
{
	const struct fuse_in_header forget = { .opcode = FUSE_FORGET, .unique = 2 };

	opstat_begins_further(s, &forget, 0);
	cr_assert_eq(untimed(FUSE_FORGET), 1);
	ends(2, 0, 1);
	cr_assert_eq(times_of(FUSE_FORGET).count, 0);
	/* Whatever the kernel says is a kind. */
	begins(UINT32_MAX, 4, 0);
	ends(4, -ENOSYS, 0);
	cr_assert_eq(times_of(UINT32_MAX % OPSTAT_KINDS).count, 1);
	cr_assert_str_eq(opstat_name(FUSE_WRITE), "WRITE");
	cr_assert_null(opstat_name(OPSTAT_KINDS));
}
