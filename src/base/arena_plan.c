/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The number of buffers. Without a limit, for each lane with 64 credits (what Linux
 * grants):
 *
 *   MSG    credits + 8: a message per call, and answers to the
 *          server's calls                                           72 x   5 KiB
 *   SMALL  credits + 8: every credit may be a small READ            72 x   8 KiB
 *   MID    credits + 8: every credit may be a WRITE with a buffer
 *          of its own, the rest are under a request that is read and for
 *          chunks                                                   72 x  64 KiB
 *   BIG    16: more requests of 1 MiB in flight only queue up, on
 *          the wire and in the server's threads                     16 x 1028 KiB
 *                                                                   = 21.5 MiB
 *
 * The least that works:
 *
 *   BIG 2    one under a request that is read, one in flight
 *   MID 4    one under a request that is read, one for a chunk when there is none left
 *            (conn.c), the others for READ and WRITE data
 *   MSG 16   8 credits + 8
 *                          16 x 5 KiB + 4 x 64 KiB + 2 x 1028 KiB = 2.3 MiB
 *
 * The usual limit of an ordinary user is 8 MiB. Two lanes then have 4 MiB each:
 *
 *   reserve: queues and 72 receives     (64 + 288) KiB = 352 KiB
 *   MSG for 64 credits                 72 x 5 KiB =    360 KiB
 *   BIG 2                                             2056 KiB
 *   MID 18 and SMALL 22                               1328 KiB
 *
 * Three BIG would leave only 4 MID, and that is worse: over soft-RoCE four large reads at a
 * time are 1.1 times faster than one, but sixteen small reads are 4 times faster.
 */
#include "base/arena.h"

#include <errno.h>

#define CREDIT_SPARE 8u
#define DATA_SPARE   8u
#define BIG_MOST     16u
#define CREDITS_LEAST 8u

static const unsigned least[ARENA_CLASSES] = { [ARENA_MID] = 4, [ARENA_BIG] = 2 };
static const size_t step[ARENA_CLASSES] = {
	[ARENA_SMALL] = ARENA_SMALL_SIZE, [ARENA_MID] = ARENA_MID_SIZE, [ARENA_BIG] = ARENA_BIG_SIZE,
};

/* Of the data classes that still fit, the one furthest below its count without a limit.
 * ARENA_CLASSES: none fits. */
static int plan_poorest(const struct arena_counts *counts, const struct arena_counts *most,
			size_t room)
{
	int best = ARENA_CLASSES;

	for (int cls = ARENA_SMALL; cls < ARENA_CLASSES; cls++) {
		if (counts->n[cls] >= most->n[cls] || arena_bytes(counts) + step[cls] > room)
			continue;
		/* n / most < best's n / most */
		if (best == ARENA_CLASSES ||
		    counts->n[cls] * most->n[best] < counts->n[best] * most->n[cls])
			best = cls;
	}
	return best;
}

/* The plan for one lane. */
static int plan_lane(struct arena_counts *counts, unsigned *credits, size_t room,
		     size_t reserve, size_t *need)
{
	unsigned c = *credits ? *credits : 1, fewest = c < CREDITS_LEAST ? c : CREDITS_LEAST;
	struct arena_counts most = { .n = {
		[ARENA_SMALL] = c + DATA_SPARE, [ARENA_MID] = c + DATA_SPARE, [ARENA_BIG] = BIG_MOST,
	} };

	for (int cls = ARENA_SMALL; cls < ARENA_CLASSES; cls++)
		counts->n[cls] = least[cls];
	counts->n[ARENA_MSG] = c + CREDIT_SPARE;
	for (; arena_bytes(counts) > room && c > fewest; c--)
		counts->n[ARENA_MSG]--;
	if (arena_bytes(counts) > room) {
		if (need)
			*need = arena_bytes(counts) + reserve;
		return -ENOMEM;
	}
	for (int cls; (cls = plan_poorest(counts, &most, room)) != ARENA_CLASSES; )
		counts->n[cls]++;
	*credits = c;
	return 0;
}

int arena_plan(struct arena_counts *counts, unsigned *credits, unsigned lanes,
	       size_t limit, size_t reserve, size_t *need)
{
	size_t room = limit == SIZE_MAX ? limit : limit / (lanes ? lanes : 1);

	if (limit != SIZE_MAX)
		room = room > reserve ? room - reserve : 0;
	return plan_lane(counts, credits, room, reserve, need);
}
