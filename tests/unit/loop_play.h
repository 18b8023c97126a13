/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A loop for each test, and ways to run it. */
#pragma once

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/loop.h"

static struct loop *loop;

static void begin_loop(void)
{
	loop = loop_new(NULL);
	cr_assert_not_null(loop);
}

static void end_loop(void)
{
	if (loop)
		loop_free(loop);
}

static void stop_fn(struct loop_timer *t)
{
	(void)t;
	loop_stop(loop);
}

/* Runs the loop for that long. */
static inline void run_for(unsigned ms)
{
	struct loop_timer t;

	loop_timer_init(&t, stop_fn);
	loop_timer_set(loop, &t, ms);
	cr_assert_eq(loop_run(loop), 0);
	loop_timer_clear(&t);
}

static void too_late(struct loop_timer *t)
{
	(void)t;
	cr_assert_fail("the loop slept");
}

/* Runs the loop until somebody stops it, who does not have to wait for a timer. */
static inline void run_awake(void)
{
	struct loop_timer t;

	loop_timer_init(&t, too_late);
	loop_timer_set(loop, &t, 10000);
	cr_assert_eq(loop_run(loop), 0);
	loop_timer_clear(&t);
}

TestSuite(loop, .init = begin_loop, .fini = end_loop, .timeout = 300);
