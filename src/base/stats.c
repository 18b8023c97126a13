/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Printing of the counters of stats.h. */
#include <inttypes.h>
#include "base/stats.h"

static const char *const stat_names[STAT_COUNT] = {
#define X(id, name, help) [STAT_##id] = name,
	STATS_TABLE(X)
#undef X
};

void stats_print(FILE *f, const struct stats *const *lanes, unsigned n)
{
	for (unsigned id = 0; id < STAT_COUNT; id++) {
		uint64_t sum = 0;

		for (unsigned i = 0; i < n; i++)
			sum += stat_get(lanes[i], id);
		fprintf(f, "%s %" PRIu64 "\n", stat_names[id], sum);
	}
}
