/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "chance.h"

static uint64_t state = 1;

void chance_seed(uint64_t seed)
{
	state = seed * 0x9e3779b97f4a7c15u + 1;
}

uint32_t chance(uint32_t n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)((state * 0x2545f4914f6cdd1du >> 32) % n);
}
