/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Leaves out pieces of a sequence that shows a difference: halves, quarters, down to single
 * operations, as long as what remains shows one. What depends on how fast things go does not
 * show each time, so each candidate has several tries.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cto.h"

#define SECONDS_MAX 300

static double end;

/* Does this show a difference as well? Then it is what there is now. */
static bool try(struct op *ops, unsigned *n, const struct op *candidate, unsigned count, char *why,
		size_t size)
{
	char said[512];

	for (unsigned i = 0; i < cfg.tries && now_seconds() < end; i++) {
		unsigned left = count;

		if (episode(candidate, &left, said, sizeof(said)))
			continue;
		memmove(ops, candidate, left * sizeof(*ops));
		*n = left;
		snprintf(why, size, "%s", said);
		return true;
	}
	return false;
}

/* Without pieces of so many operations. true: something went. */
static bool pass(struct op *ops, unsigned *n, unsigned piece, struct op *candidate, char *why, size_t size)
{
	bool any = false;

	/* From the end: what is behind the difference has gone already. */
	for (unsigned from = *n; from; ) {
		unsigned len = from < piece ? from : piece;

		from -= len;
		if (from + len > *n)
			continue;
		memcpy(candidate, ops, from * sizeof(*ops));
		memcpy(candidate + from, ops + from + len, (*n - from - len) * sizeof(*ops));
		any |= try(ops, n, candidate, *n - len, why, size);
	}
	return any;
}

/* One after the other, where that still shows it. */
static void in_order(struct op *ops, unsigned *n, struct op *candidate, char *why, size_t size)
{
	memcpy(candidate, ops, *n * sizeof(*ops));
	for (unsigned i = 0; i < *n; i++)
		candidate[i].along = false;
	try(ops, n, candidate, *n, why, size);
}

void shrink(struct op *ops, unsigned *n, char *why, size_t size)
{
	struct op *candidate = calloc(*n + 1, sizeof(*ops));
	unsigned was = *n;

	if (!candidate)
		return;
	end = now_seconds() + SECONDS_MAX;
	memcpy(candidate, ops, *n * sizeof(*ops));
	if (!try(ops, n, candidate, *n, why, size)) {
		printf("the same operations do not show it again in %u tries: here are all of them\n", cfg.tries);
	} else {
		in_order(ops, n, candidate, why, size);
		for (unsigned piece = *n / 2; piece; piece = piece > 1 ? piece / 2 : 0)
			while (pass(ops, n, piece, candidate, why, size) && piece == 1)
				;
		printf("%u of %u operations are enough\n", *n, was);
	}
	free(candidate);
}
