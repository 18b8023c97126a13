/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What happens by chance, and again with the same seed: xorshift64*. For one thread. */
#pragma once

#include <stdint.h>

void chance_seed(uint64_t seed);
/* Less than n. */
uint32_t chance(uint32_t n);
