/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The counters of stats.h by their names. */
#include <stdarg.h>
#include <stdio.h>
#include "base/stats.h"

static const char *const stat_names[STAT_COUNT] = {
#define X(id, name, help) [STAT_##id] = name,
	STATS_TABLE(X)
#undef X
};

void stats_put(const struct stats_out *out, uint64_t value, const char *name, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, name);
	vsnprintf(text, sizeof(text), name, ap);
	va_end(ap);
	out->put(out->to, text, value);
}

void stats_put_all(const struct stats_out *out, const struct stats *const *lanes, unsigned n)
{
	for (unsigned id = 0; id < STAT_COUNT; id++) {
		uint64_t sum = 0;

		for (unsigned i = 0; i < n; i++)
			sum += stat_get(lanes[i], id);
		stats_put(out, sum, "%s", stat_names[id]);
	}
}
