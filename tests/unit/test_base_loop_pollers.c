/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pollers of the event loop: when they are called, and when the loop may sleep. */
#include "loop_play.h"

struct poller {
	struct loop_poller p;
	unsigned rounds, sleeps;        /* calls, of each kind */
	unsigned work;                  /* for so many rounds it finds some */
	unsigned late_work;             /* found by so many calls before a sleep */
	struct loop_timer *starts;      /* a timer, in the first round */
	struct loop_poller *ends;       /* another poller, in the first round */
};

static bool poll_fn(struct loop_poller *lp, bool sleeps)
{
	struct poller *p = container_of(lp, struct poller, p);

	if (sleeps)
		return ++p->sleeps <= p->late_work;
	if (!p->rounds++ && p->starts)
		loop_timer_set(loop, p->starts, 0);
	if (p->ends)
		loop_unpoll(p->ends);
	return p->rounds <= p->work;
}

static struct poller poller = { .p = { .fn = poll_fn } };
static unsigned rounds_before_timer;

static void timer_fn(struct loop_timer *t)
{
	rounds_before_timer = poller.rounds;
	loop_stop(loop);
}

/* What a poller starts is sent by a timer that is due at once: in the same round, or a call to the kernel
 * would lie between the two. */
Test(loop, a_timer_that_a_poller_starts_is_of_the_same_round)
{
	struct loop_timer t;

	loop_timer_init(&t, timer_fn);
	poller.starts = &t;
	loop_poll(loop, &poller.p);
	run_awake();
	cr_assert_eq(rounds_before_timer, 1);
	loop_unpoll(&poller.p);
}

/* After work it looks again before it says that it will sleep; and it does not, if there is work by then. */
Test(loop, sleeps_when_no_poller_has_work)
{
	poller.work = 3;
	poller.late_work = 2;
	loop_poll(loop, &poller.p);
	run_for(20);
	/* Three rounds with work, two with work that comes before a sleep, and one that sleeps until the timer
	 * is due, which stops the loop in its seventh round. */
	cr_assert_eq(poller.sleeps, 4);
	cr_assert_eq(poller.rounds, 7);
	loop_unpoll(&poller.p);
}

Test(loop, a_poller_that_is_gone_is_not_called)
{
	loop_poll(loop, &poller.p);
	loop_unpoll(&poller.p);
	run_for(1);
	cr_assert_eq(poller.rounds + poller.sleeps, 0);
}

/* What one poller finds may end the owner of another. */
Test(loop, a_poller_may_remove_the_next_one)
{
	struct poller next = { .p = { .fn = poll_fn } }, last = next;

	poller.ends = &next.p;
	loop_poll(loop, &poller.p);
	loop_poll(loop, &next.p);
	loop_poll(loop, &last.p);
	run_for(1);
	cr_assert_eq(next.rounds + next.sleeps, 0);
	cr_assert(last.rounds && last.rounds == poller.rounds && last.sleeps == poller.sleeps);
	loop_unpoll(&poller.p);
	loop_unpoll(&last.p);
}
