/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What programs that load a server have in common: nfs_random, ring_random. */
#pragma once

#include <stdint.h>
#include <time.h>

/* Seconds, from any beginning. */
static inline double load_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Which block of the file's is next, at random: good enough for that (xorshift64). *state: LOAD_STATE at first. */
#define LOAD_STATE 88172645463325252ULL
static inline uint64_t load_block(uint64_t *state, uint64_t blocks)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % blocks;
}
