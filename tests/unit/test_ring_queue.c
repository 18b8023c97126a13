/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon's end of a ring's memory (ring/queue.h), with a program that is right, and with one that is not. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "ring/queue.h"

enum { ENTRIES = 8 };
static union {
	struct ring_memory m;
	uint8_t bytes[sizeof(struct ring_memory) + ENTRIES * (sizeof(struct ring_sqe) + sizeof(struct ring_cqe))];
} shared;
static struct queue q;
static struct ring_sqe e;

/* All counts begin there. */
static void begin(uint32_t at)
{
	memset(&shared, 0, sizeof(shared));
	queue_init(&q, &shared.m, ENTRIES);
	q.taken = q.done = q.published = at;
	atomic_store(&shared.m.sq_tail.count, at);
	atomic_store(&shared.m.sq_head.count, at);
	atomic_store(&shared.m.cq_tail.count, at);
	atomic_store(&shared.m.cq_head.count, at);
}

static void fill(uint64_t user_data)
{
	uint32_t at = atomic_load(&shared.m.sq_tail.count);

	shared.m.sq[at & (ENTRIES - 1)] = (struct ring_sqe){ .op = RING_READ, .user_data = user_data };
	atomic_store(&shared.m.sq_tail.count, at + 1);
}

/* The next completion. */
static struct ring_cqe fetch(void)
{
	uint32_t at = atomic_fetch_add(&shared.m.cq_head.count, 1);

	cr_assert_neq(at, atomic_load(&shared.m.cq_tail.count));
	return ring_cq(&shared.m, ENTRIES)[at & (ENTRIES - 1)];
}

Test(ring_queue, has_each_entry_once_and_in_order_also_when_counts_wrap)
{
	uint64_t filled = 0, taken = 0;

	begin(UINT32_MAX - 20);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned n = 0; n <= round % ENTRIES; n++)
			fill(filled++);
		while (queue_take(&q, &e) == QUEUE_ENTRY) {
			cr_assert_eq(e.user_data, taken++);
			queue_add(&q, e.user_data, (int64_t)e.user_data + 1);
		}
		cr_assert_eq(taken, filled);
		cr_assert_not(queue_publish(&q));
		for (uint64_t n = atomic_load(&shared.m.cq_tail.count) - atomic_load(&shared.m.cq_head.count); n; n--) {
			struct ring_cqe c = fetch();

			cr_assert_eq((uint64_t)c.result, c.user_data + 1);
		}
	}
}

Test(ring_queue, takes_no_entry_for_whose_completion_there_would_be_no_room)
{
	begin(0);
	for (unsigned i = 0; i < ENTRIES; i++)
		fill(i);
	for (unsigned i = 0; i < ENTRIES; i++)
		cr_assert_eq(queue_take(&q, &e), QUEUE_ENTRY);
	/* More than there is room for: the program may not, and waits for it in vain. */
	fill(100);
	cr_assert_eq(queue_take(&q, &e), QUEUE_EMPTY);
	cr_assert_not(queue_sleep(&q), "the lane may sleep, and does not turn for it");
	queue_add(&q, 0, 1);
	queue_publish(&q);
	cr_assert_eq(queue_take(&q, &e), QUEUE_EMPTY);
	fetch();
	cr_assert_eq(queue_take(&q, &e), QUEUE_ENTRY);
	cr_assert_eq(e.user_data, 100);
}

Test(ring_queue, counts_that_cannot_be_break_it)
{
	static const struct { uint32_t tail, fetched; } wrong[] = {
		{ ENTRIES + 1, 0 }, { UINT32_MAX, 0 }, { 0x80000000, 0 }, { 1, 1 }, { 1, UINT32_MAX - ENTRIES },
		{ 1, 0x80000000 },
	};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		begin(0);
		atomic_store(&shared.m.sq_tail.count, wrong[i].tail);
		atomic_store(&shared.m.cq_head.count, wrong[i].fetched);
		cr_assert_eq(queue_take(&q, &e), QUEUE_BROKEN, "%u", i);
		cr_assert_not(queue_sleep(&q), "%u: and the lane sleeps", i);
	}
}

Test(ring_queue, wakes_who_sleeps_when_there_is_what_he_waits_for)
{
	begin(0);
	for (unsigned i = 0; i < 4; i++) {
		fill(i);
		queue_take(&q, &e);
	}
	queue_add(&q, 0, 0);
	cr_assert_not(queue_publish(&q), "it is awake");
	atomic_store(&shared.m.cq_head.wanted, 3);
	atomic_store(&shared.m.cq_head.flags, RING_SLEEPS);
	queue_add(&q, 1, 0);
	cr_assert_not(queue_publish(&q), "it waits for three");
	queue_add(&q, 2, 0);
	cr_assert(queue_publish(&q));
	cr_assert_not(queue_publish(&q), "nothing is new");
}

Test(ring_queue, sleeps_only_if_nothing_came_before)
{
	begin(0);
	cr_assert_not(queue_sleep(&q));
	cr_assert_eq(atomic_load(&shared.m.sq_head.flags), RING_SLEEPS);
	queue_awake(&q);
	cr_assert_eq(atomic_load(&shared.m.sq_head.flags), 0);
	fill(1);
	cr_assert(queue_sleep(&q));
}

Test(ring_queue, sees_whether_the_program_sleeps)
{
	begin(0);
	cr_assert_not(queue_program_sleeps(&q));
	atomic_store(&shared.m.cq_head.flags, RING_SLEEPS);
	cr_assert(queue_program_sleeps(&q));
}

/* Whatever it writes: no entry that there cannot be, and nothing outside the ring's memory (ASan). */
Test(ring_queue, a_program_that_scribbles_harms_itself)
{
	unsigned seed = 1, taken = 0, broken = 0;

	begin(0);
	for (unsigned i = 0; i < 2000000; i++) {
		uint32_t r = (uint32_t)rand_r(&seed);

		if (r % 3 == 0)
			shared.bytes[(r >> 4) % sizeof(shared.bytes)] = (uint8_t)(r >> 20);
		else if (r % 3 == 1)
			atomic_store(&shared.m.sq_tail.count, q.taken + (r >> 8) % 3);
		if (r % 64 == 0)
			atomic_store(&shared.m.cq_head.count, q.published);
		if (queue_take(&q, &e) == QUEUE_ENTRY) {
			taken++;
			queue_add(&q, e.user_data, -1);
			queue_publish(&q);
			cr_assert_eq(q.taken, q.done);
		} else if (queue_take(&q, &e) == QUEUE_BROKEN) {
			broken++;
		}
	}
	cr_assert(taken > 1000 && broken > 1000, "%u taken, %u broken", taken, broken);
}
