/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fuzz targets share. A target is one C file with
 *
 *     int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
 *
 * linked with libFuzzer, or with driver.c where there is none; see run. It keeps
 * no state from one input to the next but for what costs too much to make.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/log.h"
#include "base/loop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			abort(); \
		} \
	} while (0)

/* Reads all of it, for the sanitizer to look at. */
static inline void touch(const void *mem, size_t len)
{
	const volatile uint8_t *p = mem;
	uint8_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum = (uint8_t)(sum ^ p[i]);
	(void)sum;
}

static inline void fuzz_stop(struct loop_timer *t);

struct fuzz_spin {
	struct loop_timer t;
	struct loop *l;
};

static inline void fuzz_stop(struct loop_timer *t)
{
	loop_stop(container_of(t, struct fuzz_spin, t)->l);
}

/* One loop for all inputs; silent. */
static inline struct loop *fuzz_loop(void)
{
	static struct loop *l;

	if (!l) {
		log_set_level(LOG_LVL_ERR);
		l = loop_new(NULL);
		CHECK(l);
	}
	return l;
}

/* Runs what is due and what was posted. */
static inline void fuzz_spin(struct loop *l, unsigned ms)
{
	struct fuzz_spin s = { .l = l };

	loop_timer_init(&s.t, fuzz_stop);
	loop_timer_set(l, &s.t, ms);
	CHECK(loop_run(l) == 0);
}
