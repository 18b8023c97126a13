/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long operations of one kind have taken: a sum, and how many there were by powers of two of
 * microseconds. As with stats.h one thread writes, and any may read: each number is whole, but not all
 * are of the same instant.
 */
#pragma once

#include "base/stats.h"

/* Bucket i has what took 2^i to 2^(i+1) microseconds, the first one also what took less, and the last
 * one also what took longer. A microsecond is taken for TIMES_UNIT nanoseconds. */
#define TIMES_BUCKETS 24u
#define TIMES_UNIT    1024u
/* While counting there is one for any time: so no time has to be compared with the last one. */
#define TIMES_COUNTED 54u

struct times {
	_Atomic uint64_t bucket[TIMES_COUNTED];
	_Atomic uint64_t ns;
};

static inline void times_add(struct times *t, uint64_t ns)
{
	stat_add_to(&t->ns, ns);
	/* The lowest bit makes no difference but to 0. */
	stat_add_to(&t->bucket[(unsigned long)__builtin_clzll(ns / TIMES_UNIT | 1) ^ 63], 1);
}

/* For reports: of all lanes. */
struct times_sum {
	uint64_t count, ns;
	uint64_t bucket[TIMES_BUCKETS];
};

static inline void times_sum_add(struct times_sum *to, const struct times *t)
{
	to->ns += stat_get_from(&t->ns);
	for (unsigned i = 0; i < TIMES_COUNTED; i++) {
		uint64_t n = stat_get_from(&t->bucket[i]);

		to->bucket[i < TIMES_BUCKETS ? i : TIMES_BUCKETS - 1] += n;
		to->count += n;
	}
}

/* One kind of what a program asks a mount for. */
struct times_op {
	const char *name;
	struct times_sum times;         /* of those that are over */
	uint64_t errors;                /* of these */
	uint64_t untimed;               /* further ones, of which no end is known */
};
