/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libnfsrdma with a played daemon that takes, completes and sleeps by chance: no wakeup is lost. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "lib/lib_impl.h"
#include "ring_daemon_play.h"

#define ENTRIES 32u
#define TOTAL 100000u           /* entries */
#define WAIT_MS 60000
#define WRAPS_AT (UINT32_MAX - TOTAL / 2)

/* Criterion tells of each assertion, and takes its time for that. */
#define MUST(c, ...) do { if (!(c)) cr_assert_fail(__VA_ARGS__); } while (0)

struct chance {
	uint32_t state;
};

/* Below n. */
static uint32_t chance(struct chance *c, uint32_t n)
{
	c->state ^= c->state << 13;
	c->state ^= c->state >> 17;
	c->state ^= c->state << 5;
	return c->state % n;
}

/* One entry at a time: a side that sleeps lies down as often as can be, right when the other one is
 * about to wake it. */
static bool one_by_one;
static bool daemon_sleeps = true, program_sleeps = true;

/* So that each side finds the other one at another place. */
static void dawdle(struct chance *c, bool sleeps)
{
	struct timespec t = { .tv_nsec = chance(c, 60000) };

	if (one_by_one) {
		for (volatile uint32_t n = sleeps ? chance(c, 3000) : 0; n; n--)
			;
		return;
	}
	switch (chance(c, 40)) {
	case 0:
		nanosleep(&t, NULL);
		break;
	case 1:
	case 2:
		sched_yield();
	}
}

/* For a machine with one processor. */
static void let_others_run(unsigned *looks)
{
	if (++*looks % 256 == 0)
		sched_yield();
}

static struct play_ring *ring;
static _Atomic unsigned failed_sleeps;

static int64_t result_of(uint64_t user_data)
{
	return (int64_t)(user_data * 7 % 4096) + 1;
}

/* Some of those that were taken, by chance, with one publication. */
static unsigned complete_some(struct chance *c, uint64_t *pending, unsigned n)
{
	unsigned now = one_by_one ? n : chance(c, n + 1);

	for (unsigned i = 0; i < now; i++) {
		unsigned at = chance(c, n);

		play_fill(ring, pending[at], result_of(pending[at]));
		pending[at] = pending[--n];
	}
	if (now)
		play_publish(ring);
	return n;
}

static void *daemon_lane(void *arg)
{
	struct chance c = { 12345 };
	uint64_t pending[ENTRIES];
	struct ring_sqe e;
	unsigned n = 0, looks = 0;

	while (ring->completed != WRAPS_AT + TOTAL && !failed_sleeps) {
		while (chance(&c, 8) && play_take(ring, &e)) {
			memcpy(play_memory(0) + e.at, &e.offset, sizeof(e.offset));
			pending[n++] = e.user_data;
		}
		n = complete_some(&c, pending, n);
		dawdle(&c, daemon_sleeps);
		if (!daemon_sleeps)
			let_others_run(&looks);
		if (daemon_sleeps && n == 0 && ring->completed != WRAPS_AT + TOTAL &&
		    play_lie_down(ring) && !play_sleep(ring))
			failed_sleeps++;
	}
	return NULL;
}

static struct nfsrdma_session *session;
static struct nfsrdma_memory *memory;
static struct nfsrdma_queue *queue;

static void begin(void)
{
	play_start();
	cr_assert_eq(nfsrdma_connect(0, &session), 0);
	cr_assert_eq(nfsrdma_memory_new(session, (size_t)2 * ENTRIES * 8, &memory), 0);
	cr_assert_eq(nfsrdma_queue_new(session, ENTRIES, &queue), 0);
	ring = play_ring(0);
	queue->filled = queue->sent = queue->taken = ring->taken = ring->completed = WRAPS_AT;
	atomic_store(&ring->memory->sq_tail.count, WRAPS_AT);
	atomic_store(&ring->memory->sq_head.count, WRAPS_AT);
	atomic_store(&ring->memory->cq_tail.count, WRAPS_AT);
	atomic_store(&ring->memory->cq_head.count, WRAPS_AT);
}

/* user_data: its number, and the place in memory, which is free again when it is done. */
static struct {
	unsigned free[ENTRIES], n_free;
	bool done[TOTAL];
	unsigned filled, taken;
} work;

static void fill_some(struct chance *c)
{
	unsigned n = one_by_one ? work.filled == work.taken : chance(c, ENTRIES + 1);

	while (n-- && work.n_free && work.filled < TOTAL) {
		unsigned place = work.free[--work.n_free];
		uint64_t user_data = (uint64_t)place << 32 | work.filled;

		MUST(nfsrdma_read(queue, 0, memory, place * 8, 8, user_data, user_data) == 0, "%s", nfsrdma_why());
		work.filled++;
	}
}

static void check(const struct nfsrdma_done *d)
{
	uint64_t place = d->user_data >> 32;
	uint32_t number = (uint32_t)d->user_data;

	MUST(number < work.filled, "%u is done, and was not asked for", number);
	MUST(!work.done[number], "%u is done twice", number);
	MUST(d->result == result_of(d->user_data), "%u has a wrong result", number);
	MUST(memcmp((char *)nfsrdma_memory_at(memory) + place * 8, &d->user_data, 8) == 0, "%u has wrong data",
	     number);
	work.done[number] = true;
	work.free[work.n_free++] = (unsigned)place;
	work.taken++;
}

/* A wakeup that is lost is one that the time takes the place of. */
static unsigned wait_for(unsigned min, unsigned max, struct nfsrdma_done *done)
{
	struct timespec begin, end;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	n = nfsrdma_wait(queue, done, min, max, WAIT_MS);
	clock_gettime(CLOCK_MONOTONIC, &end);
	MUST(n >= 0, "%s", nfsrdma_why());
	MUST(end.tv_sec - begin.tv_sec < WAIT_MS / 1000, "nobody has woken the program");
	MUST(!failed_sleeps, "nobody has woken the daemon");
	return (unsigned)n;
}

static void race(void)
{
	struct nfsrdma_done done[ENTRIES];
	struct chance c = { 54321 };
	unsigned looks = 0;
	pthread_t lane;

	begin();
	for (unsigned i = 0; i < ENTRIES; i++)
		work.free[work.n_free++] = i;
	cr_assert_eq(pthread_create(&lane, NULL, daemon_lane, NULL), 0);
	while (work.taken < TOTAL) {
		unsigned min = !program_sleeps ? 0 : one_by_one || chance(&c, 4) ? 1 : chance(&c, ENTRIES);
		unsigned n;

		fill_some(&c);
		if (one_by_one)
			MUST(nfsrdma_submit(queue) == 0, "%s", nfsrdma_why());
		dawdle(&c, program_sleeps);
		n = wait_for(min, 1 + chance(&c, ENTRIES), done);
		for (unsigned i = 0; i < n; i++)
			check(&done[i]);
		if (!program_sleeps)
			let_others_run(&looks);
	}
	pthread_join(lane, NULL);
	cr_log_info("of %u entries: the daemon slept %u times, and rang %u times\n", TOTAL, ring->slept, ring->rung);
	cr_expect_eq(ring->slept > 10, daemon_sleeps);
	cr_expect_eq(ring->rung > 10, program_sleeps);
	nfsrdma_disconnect(session);
	play_die();
}

TestSuite(lib_ring_race, .timeout = 300);

Test(lib_ring_race, no_wakeup_is_lost)
{
	race();
}

Test(lib_ring_race, no_wakeup_of_the_daemon_is_lost)
{
	one_by_one = true;
	program_sleeps = false;
	race();
}

Test(lib_ring_race, no_wakeup_of_the_program_is_lost)
{
	one_by_one = true;
	daemon_sleeps = false;
	race();
}
