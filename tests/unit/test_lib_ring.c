/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libnfsrdma with a played daemon: queues. Sessions and memory: test_lib_session.c. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib_session_play.h"

static struct play_ring *ring;
static struct nfsrdma_done done[64];

static void setup(void)
{
	play_start();
	connect_all();
	ring = play_ring(0);
}

static void teardown(void)
{
	nfsrdma_disconnect(session);
	play_die();
}

TestSuite(lib_ring, .init = setup, .fini = teardown, .timeout = 300);

/* As if so many had gone before. */
static void begin_at(uint32_t count)
{
	queue->filled = queue->sent = queue->taken = ring->taken = ring->completed = count;
	atomic_store(&ring->memory->sq_tail.count, count);
	atomic_store(&ring->memory->sq_head.count, count);
	atomic_store(&ring->memory->cq_tail.count, count);
	atomic_store(&ring->memory->cq_head.count, count);
}

static int read_one(uint64_t user_data)
{
	return nfsrdma_read(queue, file, memory, 0, 4096, user_data * 4096, user_data);
}

static void read_some(uint64_t from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(read_one(from + i), 0, "%s", nfsrdma_why());
	cr_assert_eq(nfsrdma_submit(queue), 0, "%s", nfsrdma_why());
}

static unsigned take_all(struct ring_sqe *e)
{
	unsigned n = 0;

	while (play_take(ring, &e[n]))
		n++;
	return n;
}

/* ---- entries and completions ---- */

Test(lib_ring, an_entry_says_what_it_was_given)
{
	static const struct ring_sqe want_read = {
		.op = RING_READ, .memory = 0, .file = 5, .offset = 1ull << 40, .at = 4097, .len = 300,
		.user_data = 0x1122334455667788,
	}, want_write = {
		.op = RING_WRITE, .memory = 1, .file = 6, .offset = 7, .at = MEMORY - 1, .len = 1, .user_data = 9,
	};
	struct nfsrdma_memory *other;
	struct ring_sqe e[ENTRIES];

	cr_assert_eq(nfsrdma_memory_new(session, MEMORY, &other), 0);
	cr_assert_eq(nfsrdma_read(queue, 5, memory, 4097, 300, 1ull << 40, 0x1122334455667788), 0);
	cr_assert_eq(nfsrdma_write(queue, 6, other, MEMORY - 1, 1, 7, 9), 0);
	cr_expect_eq(take_all(e), 0, "nothing is sent before submit");
	cr_assert_eq(nfsrdma_submit(queue), 0);
	cr_assert_eq(take_all(e), 2);
	cr_expect_arr_eq(&e[0], &want_read, sizeof(e[0]));
	cr_expect_arr_eq(&e[1], &want_write, sizeof(e[1]));
}

Test(lib_ring, data_comes_and_goes_in_the_same_memory)
{
	struct ring_sqe e[ENTRIES];

	memset(nfsrdma_memory_at(memory), 'w', 10);
	cr_assert_eq(nfsrdma_write(queue, file, memory, 0, 10, 0, 1), 0);
	cr_assert_eq(nfsrdma_read(queue, file, memory, 10, 10, 0, 2), 0);
	cr_assert_eq(nfsrdma_submit(queue), 0);
	cr_assert_eq(take_all(e), 2);
	memcpy(play_memory(0) + e[1].at, play_memory(0) + e[0].at, 10);
	play_complete(ring, 1, 10);
	play_complete(ring, 2, 10);
	cr_assert_eq(nfsrdma_wait(queue, done, 2, 64, -1), 2);
	cr_expect_arr_eq((char *)nfsrdma_memory_at(memory) + 10, "wwwwwwwwww", 10);
}

Test(lib_ring, completions_come_in_any_order)
{
	struct ring_sqe e[ENTRIES];

	read_some(100, 4);
	cr_assert_eq(take_all(e), 4);
	play_complete(ring, e[2].user_data, 4096);
	play_complete(ring, e[0].user_data, -EIO);
	play_complete(ring, e[3].user_data, 17);
	play_complete(ring, e[1].user_data, 0);
	cr_assert_eq(nfsrdma_wait(queue, done, 4, 64, -1), 4);
	cr_expect_eq(done[0].user_data, 102);
	cr_expect_eq(done[0].result, 4096);
	cr_expect_eq(done[1].user_data, 100);
	cr_expect_eq(done[1].result, -EIO);
	cr_expect_eq(done[2].user_data, 103);
	cr_expect_eq(done[2].result, 17);
	cr_expect_eq(done[3].user_data, 101);
	cr_expect_eq(done[3].result, 0);
}

static void rounds(uint64_t n)
{
	struct ring_sqe e[ENTRIES];

	for (uint64_t i = 0; i < n; i++) {
		read_some(3 * i, 3);
		cr_assert_eq(take_all(e), 3);
		for (unsigned j = 0; j < 3; j++) {
			cr_assert_eq(e[j].user_data, 3 * i + j);
			play_complete(ring, e[j].user_data, (int64_t)j);
		}
		cr_assert_eq(nfsrdma_wait(queue, done, 3, 3, -1), 3);
		for (unsigned j = 0; j < 3; j++) {
			cr_assert_eq(done[j].user_data, 3 * i + j);
			cr_assert_eq(done[j].result, (int64_t)j);
		}
	}
}

Test(lib_ring, the_ring_goes_round)
{
	rounds(100);
}

Test(lib_ring, counts_wrap)
{
	begin_at(UINT32_MAX - 10);
	rounds(10);
	cr_expect_lt(atomic_load(&ring->memory->sq_tail.count), 100);
	cr_expect_lt(atomic_load(&ring->memory->cq_head.count), 100);
}

static void expect_full(void)
{
	cr_assert_eq(read_one(1), -EAGAIN);
	cr_expect(strstr(nfsrdma_why(), "under way"), "%s", nfsrdma_why());
}

static void fill_and_empty(void)
{
	struct ring_sqe e[ENTRIES];

	read_some(0, ENTRIES);
	expect_full();
	cr_assert_eq(take_all(e), ENTRIES);
	expect_full();
	for (unsigned i = 0; i < ENTRIES; i++)
		play_complete(ring, i, 1);
	/* There would be no room for its completion. */
	expect_full();
	cr_assert_eq(nfsrdma_wait(queue, done, 1, 2, -1), 2);
	read_some(50, 2);
	expect_full();
	cr_assert_eq(take_all(e), 2);
	play_complete(ring, 50, 1);
	play_complete(ring, 51, 1);
	cr_assert_eq(nfsrdma_wait(queue, done, 64, 64, -1), ENTRIES);
}

Test(lib_ring, a_full_queue_takes_no_more)
{
	fill_and_empty();
}

Test(lib_ring, a_full_queue_takes_no_more_where_counts_wrap)
{
	begin_at(UINT32_MAX - 3);
	fill_and_empty();
	begin_at(UINT32_MAX - ENTRIES + 1);
	fill_and_empty();
}

Test(lib_ring, what_cannot_be_is_refused)
{
	struct nfsrdma_session *other_session;
	struct nfsrdma_memory foreign = { .len = MEMORY };
	uint64_t last = INT64_MAX;

	cr_expect_eq(nfsrdma_read(queue, file, memory, 0, 0, 0, 0), -EINVAL);
	cr_expect_eq(nfsrdma_read(queue, file, memory, 0, NFSRDMA_IO_MAX + 1, 0, 0), -EINVAL);
	cr_expect_eq(nfsrdma_write(queue, file, memory, MEMORY, 1, 0, 0), -EFAULT);
	cr_expect_eq(nfsrdma_write(queue, file, memory, MEMORY - 1, 2, 0, 0), -EFAULT);
	cr_expect_eq(nfsrdma_write(queue, file, memory, UINT64_MAX, 2, 0, 0), -EFAULT);
	cr_expect(strstr(nfsrdma_why(), "65536 bytes"), "%s", nfsrdma_why());
	cr_expect_eq(nfsrdma_read(queue, file, memory, 0, 2, last - 1, 0), -EINVAL);
	cr_expect_eq(nfsrdma_read(queue, file, memory, 0, 2, UINT64_MAX, 0), -EINVAL);
	cr_expect_eq(nfsrdma_read(queue, file, memory, 0, 2, last - 2, 0), 0);
	cr_assert_eq(nfsrdma_connect(0, &other_session), 0);
	foreign.session = other_session;
	cr_expect_eq(nfsrdma_read(queue, file, &foreign, 0, 2, 0, 0), -EINVAL);
	nfsrdma_disconnect(other_session);
	cr_expect_eq(NFSRDMA_IO_MAX, RING_IO_MAX);
}

/* ---- waiting ---- */

Test(lib_ring, min_and_max)
{
	struct ring_sqe e[ENTRIES];

	cr_expect_eq(nfsrdma_wait(queue, done, 5, 64, -1), 0, "nothing is under way");
	for (unsigned i = 0; i < 5; i++)
		cr_assert_eq(read_one(i), 0);
	cr_expect_eq(nfsrdma_wait(queue, done, 0, 64, -1), 0, "nothing is done, and it has submitted");
	cr_assert_eq(take_all(e), 5);
	for (unsigned i = 0; i < 4; i++)
		play_complete(ring, i, 1);
	cr_expect_eq(nfsrdma_wait(queue, done, 4, 0, -1), 0);
	cr_expect_eq(nfsrdma_wait(queue, done, 64, 3, -1), 3, "no more than it can take are waited for");
	cr_expect_eq(done[2].user_data, 2);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, 64, -1), 1);
	cr_expect_eq(done[0].user_data, 3);
	play_complete(ring, 4, 1);
	cr_expect_eq(nfsrdma_wait(queue, done, 64, 64, -1), 1, "no more than are under way are waited for");
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

Test(lib_ring, time_is_over)
{
	struct ring_sqe e[ENTRIES];
	double begin = seconds();

	read_some(0, 3);
	cr_assert_eq(take_all(e), 3);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, 64, 30), 0);
	cr_expect_geq(seconds() - begin, 0.03);
	play_complete(ring, 0, 1);
	cr_expect_eq(nfsrdma_wait(queue, done, 2, 64, 1), 1, "what is done is returned");
	cr_expect_eq(nfsrdma_wait(queue, done, 2, 64, 0), 0);
	cr_expect_eq(atomic_load(&ring->memory->cq_head.flags), 0);
}

static void on_signal(int sig)
{
}

static atomic_bool is_over;
static pthread_t waiter;

/* One that comes before poll() is lost, so there are many. */
static void *interrupt(void *arg)
{
	play_wait_asleep(ring);
	while (!is_over) {
		pthread_kill(waiter, SIGUSR1);
		sched_yield();
	}
	return NULL;
}

Test(lib_ring, a_signal_ends_the_wait)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct ring_sqe e[ENTRIES];
	pthread_t thread;

	sigaction(SIGUSR1, &act, NULL);
	read_some(0, 2);
	cr_assert_eq(take_all(e), 2);
	play_complete(ring, 0, 1);
	waiter = pthread_self();
	cr_assert_eq(pthread_create(&thread, NULL, interrupt, NULL), 0);
	cr_expect_eq(nfsrdma_wait(queue, done, 2, 64, -1), -EINTR);
	is_over = true;
	pthread_join(thread, NULL);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, 64, -1), 1, "nothing is lost");
}

/* ---- sleeping ---- */

Test(lib_ring, only_a_daemon_that_sleeps_is_woken)
{
	struct ring_sqe e[ENTRIES];

	read_some(0, 1);
	cr_expect_not(play_was_rung(ring));
	cr_assert_eq(take_all(e), 1);
	cr_assert(play_lie_down(ring));
	cr_assert_eq(nfsrdma_submit(queue), 0);
	cr_expect_not(play_was_rung(ring), "there is nothing to be sent");
	read_some(1, 1);
	cr_expect(play_was_rung(ring));
}

/* The daemon does not answer the bell for so long that it is full. */
Test(lib_ring, a_full_bell_is_no_error)
{
	struct ring_sqe e[ENTRIES];

	atomic_store(&ring->memory->sq_head.flags, RING_SLEEPS);
	for (unsigned i = 0; i < 10000; i++) {
		read_some(i, 1);
		cr_assert_eq(take_all(e), 1);
		play_complete(ring, i, 1);
		cr_assert_eq(nfsrdma_wait(queue, done, 1, 64, -1), 1);
	}
	cr_expect(play_was_rung(ring));
}

static void *complete_three(void *arg)
{
	play_wait_asleep(ring);
	for (uint64_t i = 0; i < 3; i++) {
		cr_expect_eq(ring->rung, 0);
		play_complete(ring, i, 1);
	}
	cr_expect_eq(ring->rung, 1);
	return NULL;
}

static void wait_asleep_for_three(void)
{
	struct ring_sqe e[ENTRIES];
	pthread_t thread;

	read_some(0, 5);
	cr_assert_eq(take_all(e), 5);
	cr_assert_eq(pthread_create(&thread, NULL, complete_three, NULL), 0);
	cr_expect_eq(nfsrdma_wait(queue, done, 3, 64, -1), 3);
	cr_expect_eq(atomic_load(&ring->memory->cq_head.flags), 0);
	pthread_join(thread, NULL);
}

Test(lib_ring, the_program_is_woken_when_it_wants)
{
	wait_asleep_for_three();
}

Test(lib_ring, the_program_is_woken_when_it_wants_where_counts_wrap)
{
	begin_at(UINT32_MAX - 1);
	wait_asleep_for_three();
}

/* The daemon has rung for a wait that was over. */
Test(lib_ring, an_old_bell_wakes_for_nothing)
{
	struct ring_sqe e[ENTRIES];

	read_some(0, 1);
	cr_assert_eq(take_all(e), 1);
	cr_assert_eq(send(ring->bell, "xx", 2, 0), 2);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, 64, 20), 0);
	play_complete(ring, 0, 1);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, 64, -1), 1);
}
