/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CLOSE in the message of another call (nfs/close_ride.h), by close_ride_play.h: what each rule says, on
 * the test's own thread, and all of it in random orders, on one thread and on one for each lane.
 * Then the server executes messages, refuses them, loses connections before and after that, and
 * lets time pass.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include "fake_lane.h"
#include "close_ride_play.h"

/* All that has happened is on lane 0 unless it says otherwise. */
static struct op *start(uint32_t nr, enum nfs_op op, const struct rpc_cred *cred)
{
	return start_on(0, nr, op, cred);
}

static void answer(bool refuse, int outcome)
{
	answer_on(0, refuse, outcome);
}

static const uint32_t *asked(unsigned i)
{
	return asked_on(0, i);
}

static bool is_close_of(unsigned lane, unsigned i, uint32_t nr)
{
	return asked_on(lane, i)[1] == NFS_OP_CLOSE && asked_on(lane, i)[2] == nr;
}

/* The first reply brings the credits. */
static void setup(void)
{
	play_setup();
	for (unsigned i = 0; i < LANES; i++) {
		start_on(i, FILES - 1, NFS_OP_COMMIT, &user);
		answer_on(i, false, 0);
	}
}

TestSuite(rider, .init = setup, .fini = play_teardown);

Test(rider, close_travels_with_the_next_lookup)
{
	struct op *c, *l;

	c = start(0, NFS_OP_CLOSE, &user);
	cr_assert(c->dones == 1 && c->c.res.status == 0, "nobody waits for it");
	cr_assert_eq(unanswered(0), 0, "it waits");
	l = start(1, NFS_OP_LOOKUP, &user);
	cr_assert_eq(unanswered(0), 1);
	cr_assert_eq(asked(0)[0], 0);
	answer(false, -ENOENT);
	cr_assert(l->dones == 1 && l->c.res.status == -ENOENT);
	cr_assert_not(open_there[0]);
}

/* The kernel tells of close() on one lane, and of the next lookup on another one. */
Test(rider, close_travels_with_another_lanes_lookup)
{
	start_on(0, 0, NFS_OP_CLOSE, &user);
	start_on(1, 1, NFS_OP_LOOKUP, &user);
	cr_assert_eq(asked_on(1, 0)[0], 0);
	pass_on(0, fake_times.close_ride_ms + 20);
	cr_assert_eq(unanswered(0), 0, "it has left");
	answer_on(1, false, 0);
	cr_assert_not(open_there[0]);
}

Test(rider, what_another_lane_is_refused_is_sent_there)
{
	start_on(0, 0, NFS_OP_CLOSE, &user);
	start_on(1, 1, NFS_OP_LOOKUP, &user);
	answer_on(1, true, 0);
	cr_assert_eq(unanswered(0), 0);
	cr_assert_eq(unanswered(1), 2);
	cr_assert(asked_on(1, 0)[0] == NOBODY && asked_on(1, 1)[0] == NOBODY);
	answer_on(1, false, 0);
	answer_on(1, false, 0);
	cr_assert(!open_there[0] && ops[1].dones == 1);
}

Test(rider, close_does_not_wait_for_ever)
{
	start(0, NFS_OP_CLOSE, &user);
	start_on(1, 1, NFS_OP_CLOSE, &user);
	pass_on(0, fake_times.close_ride_ms + 20);
	cr_assert(unanswered(0) == 1 && is_close_of(0, 0, 0), "the other one is the other lane's");
	pass_on(1, 5);
	cr_assert(unanswered(1) == 1 && is_close_of(1, 0, 1));
	answer_on(0, false, 0);
	answer_on(1, false, 0);
}

/* The lane's timer runs for the first of them, which has left meanwhile. */
Test(rider, each_one_has_its_time)
{
	fake_times.close_ride_ms = 1000;            /* more than a busy machine takes the test away for */
	start(0, NFS_OP_CLOSE, &user);
	pass_on(0, fake_times.close_ride_ms / 2);
	start_on(1, 1, NFS_OP_LOOKUP, &user);
	start(2, NFS_OP_CLOSE, &user);
	pass_on(0, fake_times.close_ride_ms / 2 + 2);
	cr_assert_eq(unanswered(0), 0, "it has time left");
	pass_on(0, fake_times.close_ride_ms);
	cr_assert(unanswered(0) == 1 && is_close_of(0, 0, 2));
	answer_on(0, false, 0);
	answer_on(1, false, 0);
}

/* What neither carries it nor takes a name away passes it. So does what another user wants to
 * know, in a message of his own. */
Test(rider, others_do_not_carry)
{
	start(0, NFS_OP_CLOSE, &user);
	start(1, NFS_OP_COMMIT, &user);
	start(2, NFS_OP_LOOKUP, &other_user);
	cr_assert_eq(unanswered(0), 2);
	cr_assert(asked(0)[0] == NOBODY && asked(1)[0] == NOBODY);
	start(3, NFS_OP_LOOKUP, &user);
	cr_assert_eq(asked(2)[0], 0);
	for (unsigned i = 0; i < 3; i++)
		answer(false, 0);
}

/* There are servers that do not remove what is open. */
Test(rider, names_are_taken_away_behind_it)
{
	start_on(0, 0, NFS_OP_CLOSE, &user);
	start_on(1, 1, NFS_OP_CLOSE, &other_user);
	start_on(2, 2, NFS_OP_REMOVE, &user);
	cr_assert_eq(unanswered(2), 3);
	cr_assert(is_close_of(2, 0, 0) && is_close_of(2, 1, 1));
	cr_assert_eq(asked_on(2, 2)[1], NFS_OP_REMOVE);
	for (unsigned i = 0; i < 3; i++)
		answer_on(2, false, 0);
	for (unsigned i = 0; i < 2; i++)
		pass_on(i, fake_times.close_ride_ms + 20);
	cr_assert(unanswered(0) == 0 && unanswered(1) == 0);
}

Test(rider, what_is_refused_is_sent_by_itself)
{
	struct op *l;

	start(0, NFS_OP_CLOSE, &user);
	l = start(1, NFS_OP_LOOKUP, &user);
	answer(true, 0);
	cr_assert(!l->dones && open_there[0]);
	cr_assert_eq(unanswered(0), 2);
	cr_assert(asked(0)[0] == NOBODY && asked(1)[0] == NOBODY);
	answer(false, 0);
	answer(false, 0);
	cr_assert(!open_there[0] && l->dones == 1);
}

/* Each of them would cost the LOOKUP another round, and after some it would be told to wait. */
Test(rider, many_that_are_refused_hold_nobody_up)
{
	struct op *l;

	for (unsigned i = 0; i < 12; i++)
		start(i, NFS_OP_CLOSE, &user);
	l = start(12, NFS_OP_LOOKUP, &user);
	answer(true, 0);
	while (!l->dones) {
		cr_assert_eq(asked(0)[0], NOBODY);
		answer(false, 0);
	}
	pass_on(0, fake_times.close_ride_ms + 20);
	while (unanswered(0))
		answer(false, 0);
}

/* A program that works as another user has closed many files. */
Test(rider, a_carrier_does_not_look_for_ever)
{
	for (unsigned i = 0; i < 40; i++)
		start(i, NFS_OP_CLOSE, &other_user);
	start(40, NFS_OP_CLOSE, &user);
	start(41, NFS_OP_LOOKUP, &user);
	cr_assert_eq(asked(0)[0], NOBODY);
	answer(false, 0);
	pass_on(0, fake_times.close_ride_ms + 20);
	while (unanswered(0))
		answer(false, 0);
	for (unsigned i = 0; i < 41; i++)
		cr_assert_not(open_there[i]);
}

Test(rider, what_others_wait_for_goes_at_once)
{
	struct op *c = start(0, NFS_OP_MAX, &user);

	cr_assert(!c->dones && unanswered(0) == 1);
	answer(false, 0);
	cr_assert(c->dones == 1 && !open_there[0]);
}

/* The time of the carrier is up. The connection goes with it, and CLOSE has its own time. */
Test(rider, time_is_up)
{
	struct op *l;

	start(0, NFS_OP_CLOSE, &user);
	l = start(1, NFS_OP_LOOKUP, &user);
	l->c.eng.start_ns = 1;
	nfs_expire(&play_lanes[0]);
	pass_on(0, 5);
	cr_assert(l->dones == 1 && l->c.res.status == -EIO);
	cr_assert(!list_empty(&play_lanes[0].running), "CLOSE waits for a connection");
	connect_lane(0);
	cr_assert(is_close_of(0, 0, 0));
	answer(false, 0);
	cr_assert_not(open_there[0]);
}

/* The server wants the message again later, and until then the time is up. */
Test(rider, time_is_up_between_two_sendings)
{
	struct op *l;

	start(0, NFS_OP_CLOSE, &user);
	l = start(1, NFS_OP_LOOKUP, &user);
	delayed = true;
	answer(false, 0);
	delayed = false;
	cr_assert(!l->dones);
	l->c.eng.start_ns = 1;
	nfs_expire(&play_lanes[0]);
	cr_assert(l->dones == 1 && l->c.res.status == -EIO);
	cr_assert(is_close_of(0, 0, 0));
	answer(false, 0);
}

/* Lanes hold while lost state is recovered. Nothing that rides is encoded then. */
Test(rider, lanes_that_hold_carry_nothing)
{
	play_lanes[0].hold = play_lanes[1].hold = true;
	start_on(0, 0, NFS_OP_CLOSE, &user);
	start_on(1, 1, NFS_OP_LOOKUP, &user);
	pass_on(0, fake_times.close_ride_ms + 20);
	cr_assert(unanswered(0) == 0 && unanswered(1) == 0);
	play_lanes[0].hold = play_lanes[1].hold = false;
	for (unsigned i = 0; i < 2; i++) {
		nfs_lane_pump(&play_lanes[i]);
		cr_assert_eq(unanswered(i), 1);
		answer_on(i, false, 0);
	}
}

/* Its lane is without a connection. Others carry it. */
Test(rider, a_lane_without_a_connection)
{
	disconnect_lane(0);
	start_on(0, 0, NFS_OP_CLOSE, &user);
	start_on(1, 1, NFS_OP_LOOKUP, &user);
	cr_assert_eq(asked_on(1, 0)[0], 0);
	answer_on(1, false, 0);
	connect_lane(0);
}

/* Of a silly name all opens are closed before the last one is: the name goes with that one's
 * reply, and no other may be on its way then. */
Test(rider, others_go_before_what_is_waited_for)
{
	start_on(0, 0, NFS_OP_CLOSE, &user);
	start_on(1, 1, NFS_OP_MAX, &user);
	cr_assert_eq(unanswered(1), 2);
	cr_assert(is_close_of(1, 0, 0) && is_close_of(1, 1, 1));
	answer_on(1, false, 0);
	answer_on(1, false, 0);
	pass_on(0, fake_times.close_ride_ms + 20);
	cr_assert_eq(unanswered(0), 0);
}

/* What a lane without a connection starts leaves the CLOSEs of others to lanes that have one. */
Test(rider, a_lane_without_a_connection_takes_none)
{
	start_on(0, 0, NFS_OP_CLOSE, &user);
	disconnect_lane(1);
	start_on(1, 1, NFS_OP_CLOSE, &user);
	start_on(1, 2, NFS_OP_LOOKUP, &user);
	start_on(1, 3, NFS_OP_REMOVE, &user);
	pass_on(0, fake_times.close_ride_ms + 20);
	cr_assert(unanswered(0) == 1 && is_close_of(0, 0, 0));
	answer_on(0, false, 0);
	connect_lane(1);
	while (unanswered(1))
		answer_on(1, false, 0);
	cr_assert(!open_there[0] && !open_there[1]);
	cr_assert(ops[2].dones == 1 && ops[3].dones == 1);
}

/* ---- all of it in random orders ---- */

static struct driver {
	struct loop_timer timer;
	unsigned lane, seed;
	uint32_t next, end;             /* the lane's files */
	bool losses;
	_Atomic bool finished;
} drivers[LANES];

static unsigned any(struct driver *d, unsigned n)
{
	d->seed = d->seed * 1103515245 + 12345;
	return (d->seed >> 16) % n;
}

static bool half(void *d)
{
	return any(d, 2);
}

static bool is_busy(const struct driver *d)
{
	unsigned n = 0;

	list_for_each(at, &play_lanes[d->lane].running)
		n++;
	return n > 12 || unanswered(d->lane) > 24;
}

/* false: time should pass. */
static bool something_happens(struct driver *d)
{
	static const int outcomes[] = { 0, 0, 0, -ENOENT, NFS_AGAIN };
	static const enum nfs_op kinds[] = {
		NFS_OP_LOOKUP, NFS_OP_LOOKUP, NFS_OP_LOOKUP, NFS_OP_COMMIT, NFS_OP_REMOVE,
	};
	unsigned what = is_busy(d) || d->next == d->end ? 9 : any(d, 10);

	if (what < 3) {
		start_on(d->lane, d->next++, NFS_OP_CLOSE, any(d, 8) ? &user : &other_user);
	} else if (what < 5) {
		start_on(d->lane, d->next++, kinds[any(d, 5)], &user);
	} else if (what == 5) {
		if (d->losses && any(d, 8) == 0)
			lose(d->lane, half, d);
	} else if (what == 6) {
		return any(d, 8) > 0;
	} else if (unanswered(d->lane)) {
		answer_on(d->lane, any(d, 8) == 0, outcomes[any(d, 5)]);
	} else {
		return d->next < d->end && !is_busy(d);
	}
	return true;
}

static bool is_over(const struct driver *d)
{
	return d->next == d->end && list_empty(&play_lanes[d->lane].running) && all_closed();
}

static void prepare(unsigned lane, unsigned seed, bool losses)
{
	struct driver *d = &drivers[lane];

	d->lane = lane;
	d->seed = seed * LANES + lane + 1;
	d->next = lane * (FILES / LANES);
	d->end = d->next + FILES / LANES - 1;
	d->losses = losses;
	atomic_store(&d->finished, false);
}

/* Without a loss each file is closed once. */
static void check(unsigned round, bool losses)
{
	for (unsigned lane = 0; lane < LANES; lane++) {
		for (uint32_t i = lane * (FILES / LANES); i < drivers[lane].end; i++) {
			cr_assert_eq(ops[i].dones, 1, "round %u, call %u", round, i);
			cr_assert(!open_there[i], "round %u, file %u", round, i);
			cr_assert(losses || !in_vain[i], "round %u: file %u is closed twice", round, i);
		}
	}
}

static void one_thread(bool losses)
{
	for (unsigned round = 0; round < 30; round++) {
		bool over = false;

		for (unsigned i = 0; i < LANES; i++)
			prepare(i, round, losses);
		while (!over) {
			over = true;
			for (unsigned i = 0; i < LANES; i++) {
				if (!something_happens(&drivers[i]))
					pass_on(i, any(&drivers[i], fake_times.close_ride_ms / 4));
				over = over && is_over(&drivers[i]);
			}
		}
		check(round, losses);
	}
}

Test(rider, nothing_stays_open, .timeout = 120)
{
	one_thread(true);
}

Test(rider, nothing_is_closed_twice, .timeout = 120)
{
	one_thread(false);
}

static void drive(struct loop_timer *t)
{
	struct driver *d = container_of(t, struct driver, timer);
	unsigned ms = 0;

	for (unsigned i = 0; i < 20 && !ms; i++)
		ms = something_happens(d) ? 0 : 1;
	if (is_over(d))
		atomic_store(&d->finished, true);
	/* It may have to send another lane's yet. */
	loop_timer_set(play_lanes[d->lane].loop, t, ms);
}

static bool all_finished(void)
{
	bool all = true;

	for (unsigned i = 0; i < LANES; i++)
		all = all && atomic_load(&drivers[i].finished);
	return all;
}

static void many_threads(bool losses)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < LANES; i++) {
			prepare(i, round, losses);
			loop_timer_init(&drivers[i].timer, drive);
			loop_timer_set(play_lanes[i].loop, &drivers[i].timer, 0);
		}
		for (unsigned i = 0; i < LANES; i++)
			cr_assert_eq(nfs_lane_start(&play_lanes[i]), 0);
		while (!all_finished())
			nanosleep(&ms, NULL);
		for (unsigned i = 0; i < LANES; i++) {
			nfs_lane_stop(&play_lanes[i]);
			loop_timer_clear(&drivers[i].timer);
		}
		check(round, losses);
	}
}

Test(rider, nothing_stays_open_on_threads, .timeout = 120)
{
	many_threads(true);
}

Test(rider, nothing_is_closed_twice_on_threads, .timeout = 120)
{
	many_threads(false);
}
