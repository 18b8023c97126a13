/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which of a requester's links takes a call: policies, links for metadata, links on trial,
 * links that drain, and calls that name their link.
 */
#include "symlinks_play.h"

TestSuite(choose, .init = setup, .fini = teardown, .timeout = 60);

/* With file data: a READ of 64 KiB. */
static struct test_call *submit_bulk(unsigned i)
{
	struct test_call *t = &calls[i];

	memset(t, 0, sizeof(*t));
	t->rr.msg = magazine_get(&mag, ARENA_MSG);
	t->rr.xid = rr_xid(conn);
	t->rr.msg_len = 64;
	t->rr.reply_max = 200;
	t->rr.sink[0] = (struct rr_iov){ arena.data.base, 65536 };
	t->rr.done = on_done;
	memset((char *)t->rr.msg->mem + RR_HDR_ROOM, 0, 64);
	memcpy((char *)t->rr.msg->mem + RR_HDR_ROOM, &(uint32_t){ htonl(t->rr.xid) }, 4);
	rr_submit(conn, &t->rr);
	return t;
}

/* The reply to a READ: its Write chunk was not used. */
static void reply_bulk(unsigned l, const struct test_call *t, uint32_t credits)
{
	uint32_t w[16] = { t->rr.xid, 1, credits, 0, 0, 1, 1, fake_conns[l].rkey, 0, 0, 0, 0, 0,
			   t->rr.xid, 1, 7 };

	for (unsigned i = 0; i < 16; i++)
		w[i] = htonl(w[i]);
	fake_used = &fake_conns[l];
	fake_deliver(w, sizeof(w));
}

static struct test_call *submit_short(unsigned i)
{
	return submit(i, 500);
}

static struct rr_link *third(bool metadata, bool trial)
{
	struct rr_link *link;

	fake_most = 3;
	link = open_on(1, metadata);
	cr_assert_eq(rr_up(conn, link, trial), 0);
	return link;
}

/* How many messages each link has sent since the last look. */
static void expect_sends(unsigned a, unsigned b, unsigned c)
{
	static const char *const names[] = { "the first", "the second", "the third" };
	unsigned want[] = { a, b, c };

	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(fake_conns[i].nsends, want[i], "%s link: %u, not %u", names[i],
			     fake_conns[i].nsends, want[i]);
}

Test(choose, round_robin)
{
	warm_up(16, 16);
	rr_set_policy(conn, RR_ROUND_ROBIN);
	submit(0, 500);
	submit(1, 500);
	submit(2, 500);
	sent_on(0);
	sent_on(1);
	/* One link has none in flight now: it is not preferred. */
	for (unsigned i = 0; i < 3; i += 2)
		reply_on(calls[i].rr.link == calls[0].rr.link ? 0 : 1, &calls[i], 16);
	for (unsigned i = 4; i < 10; i++)
		submit(i, 500);
	expect_sends(3, 3, 0);
}

Test(choose, round_robin_passes_a_full_link)
{
	warm_up(2, 16);
	rr_set_policy(conn, RR_ROUND_ROBIN);
	for (unsigned i = 0; i < 8; i++)
		submit(i, 500);
	expect_sends(2, 6, 0);
}

/* Calls that are to come from one address do not take turns... */
Test(choose, steady_calls_stay_on_one_link)
{
	warm_up(16, 16);
	rr_set_policy(conn, RR_ROUND_ROBIN);
	for (unsigned i = 0; i < 3; i++)
		submit_by(rr_submit_steady, i, 500);
	expect_sends(3, 0, 0);
	submit(3, 500);
	submit(4, 500);
	submit_by(rr_submit_steady, 5, 500);
	expect_sends(5, 1, 0);
}

/* ...unless there is no room. */
Test(choose, steady_calls_pass_a_full_link)
{
	warm_up(2, 16);
	for (unsigned i = 0; i < 3; i++)
		submit_by(rr_submit_steady, i, 500);
	expect_sends(2, 1, 0);
}

static void wait_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000l }, NULL);
}

/* The first link takes 30 ms for a call, the second one none. */
static void learn(void)
{
	struct test_call *a, *b;

	rr_set_policy(conn, RR_ROUND_ROBIN);
	for (unsigned i = 0; i < 24; i++) {
		a = submit(0, 500);
		b = submit(1, 500);
		if (fake_conns[0].nsends == 0 || xid_on(0, 0) != a->rr.xid) {
			struct test_call *swap = a;

			a = b;
			b = swap;
		}
		sent_on(0);
		sent_on(1);
		reply_on(1, b, 16);
		wait_ms(i < 2 ? 30 : 3);
		reply_on(0, a, 16);
		cr_assert(a->dones == 1 && b->dones == 1);
	}
}

Test(choose, min_latency)
{
	warm_up(16, 16);
	learn();
	rr_set_policy(conn, RR_MIN_LATENCY);
	for (unsigned i = 0; i < 10; i++)
		submit(i, 500);
	expect_sends(0, 10, 0);
	cr_assert_gt(atomic_load(&path_stats[0].latency_ns), 2000000u);
	cr_assert_gt(atomic_load(&path_stats[0].latency_ns), 2 * atomic_load(&path_stats[1].latency_ns));
}

/* Many bytes take their time on a good path, too. */
Test(choose, latency_is_of_short_calls)
{
	uint64_t before;
	struct test_call *t;

	warm_up(16, 16);
	learn();
	rr_set_policy(conn, RR_MIN_LATENCY);
	before = atomic_load(&path_stats[1].latency_ns);
	t = submit_bulk(0);
	cr_assert_eq(fake_conns[1].nsends, 1);
	sent_on(1);
	wait_ms(50);
	reply_bulk(1, t, 16);
	cr_assert(t->dones == 1 && t->status == 0);
	cr_assert_eq(atomic_load(&path_stats[1].latency_ns), before);
}

Test(choose, metadata_has_links_of_its_own)
{
	struct rr_link *md;

	warm_up(16, 16);
	md = third(true, false);
	submit(0, 500);
	sent_on(2);
	reply_on(2, &calls[0], 16);
	for (unsigned i = 1; i < 5; i++)
		submit(i, 500);
	expect_sends(0, 0, 4);
	for (unsigned i = 5; i < 9; i++)
		submit_bulk(i);
	expect_sends(2, 2, 4);
	/* Without it, they go where the data goes. */
	fake_used = &fake_conns[2];
	fake_break();
	expect_sends(4, 4, 4);
	cr_assert_eq(downs, 1);
	(void)md;
}

/* Data that finds no room holds up nothing else, and the other way round. */
Test(choose, kinds_do_not_wait_for_each_other)
{
	warm_up(1, 1);
	third(true, false);
	for (unsigned i = 0; i < 4; i++)
		submit_bulk(i);
	expect_sends(1, 1, 0);
	submit(4, 500);
	expect_sends(1, 1, 1);
	submit(5, 500);
	expect_sends(1, 1, 1);
	sent_on(0);
	sent_on(2);
	reply_on(2, &calls[4], 1);
	expect_sends(0, 1, 1);
}

Test(choose, trial)
{
	struct rr_call q = { .done = on_done };
	struct rr_link *link;

	warm_up(16, 16);
	link = third(false, true);
	for (unsigned i = 0; i < 6; i++)
		submit(i, 500);
	expect_sends(3, 3, 0);
	q.msg = magazine_get(&mag, ARENA_MSG);
	q.xid = rr_xid(conn);
	q.msg_len = 64;
	q.reply_max = 100;
	calls[7].rr = q;
	cr_assert_eq(rr_submit_on(link, &calls[7].rr), 0);
	expect_sends(3, 3, 1);
	cr_assert_eq(rr_submit_on(link, &calls[8].rr), -EAGAIN, "one credit until the first reply");
	sent_on(2);
	memcpy((char *)q.msg->mem + RR_HDR_ROOM, &(uint32_t){ htonl(q.xid) }, 4);
	reply_on(2, &calls[7], 16);
	cr_assert(calls[7].dones == 1 && calls[7].status == 0);
	submit(8, 500);
	cr_assert_eq(fake_conns[2].nsends, 0);
	rr_admit(link);
	submit(9, 500);
	cr_assert_eq(fake_conns[2].nsends, 1);
}

/* All links are lost but the one on trial: calls wait until it is admitted. */
Test(choose, nothing_goes_to_a_link_on_trial)
{
	struct rr_link *link;

	warm_up(16, 16);
	link = third(false, true);
	submit(0, 500);
	for (unsigned i = 0; i < 2; i++) {
		fake_used = &fake_conns[i];
		fake_break();
	}
	cr_assert(downs == 2 && !rr_is_up(conn));
	expect_sends(1, 1, 0);
	rr_admit(link);
	cr_assert(rr_is_up(conn));
	cr_assert_eq(xid_on(2, 0), calls[0].rr.xid);
	cr_assert_eq(atomic_load(&path_stats[0].failovers) + atomic_load(&path_stats[1].failovers), 2);
}

/* A call that names its link ends with it, and is not sent on another one. */
Test(choose, pinned_calls_end_with_their_link)
{
	warm_up(16, 16);
	calls[0].rr = (struct rr_call){ .done = on_done, .msg_len = 64, .reply_max = 100 };
	calls[0].rr.msg = magazine_get(&mag, ARENA_MSG);
	calls[0].rr.xid = rr_xid(conn);
	calls[0].dones = 0;
	cr_assert_eq(rr_submit_on(links[0], &calls[0].rr), 0);
	expect_sends(1, 0, 0);
	fake_used = &fake_conns[0];
	fake_break();
	cr_assert(calls[0].dones == 1 && calls[0].status == -ENOTCONN);
	cr_assert_eq(fake_conns[1].nsends, 0);
}

/* A credit of each link is kept for them, as long as there is another link. */
Test(choose, credit_for_a_heartbeat)
{
	warm_up(4, 4);
	for (unsigned i = 0; i < 10; i++)
		submit(i, 500);
	expect_sends(3, 3, 0);
	calls[10].rr = (struct rr_call){ .done = on_done, .msg_len = 64, .reply_max = 100 };
	calls[10].rr.msg = magazine_get(&mag, ARENA_MSG);
	calls[10].rr.xid = rr_xid(conn);
	cr_assert_eq(rr_submit_on(links[1], &calls[10].rr), 0);
	calls[11].rr = calls[10].rr;
	cr_assert_eq(rr_submit_on(links[1], &calls[11].rr), -EAGAIN);
	fake_used = &fake_conns[0];
	fake_break();
	cr_assert_eq(fake_conns[1].nsends, 4, "the heartbeat has the fourth");
}

/* It ends with its last call, and nothing is sent twice. */
Test(choose, drain)
{
	warm_up(16, 16);
	submit(0, 500);
	submit(1, 500);
	rr_drain(links[0]);
	for (unsigned i = 2; i < 6; i++)
		submit(i, 500);
	expect_sends(1, 5, 0);
	run_loop();
	cr_assert(fake_conns[0].open && downs == 0);
	sent_on(0);
	reply_on(0, xid_on(1, 0) == calls[0].rr.xid ? &calls[1] : &calls[0], 16);
	run_loop();
	cr_assert(!fake_conns[0].open && downs == 1 && down_path == 0);
	cr_assert_eq(stat_get(&st, STAT_RPC_REPLAYS), 0);
	rr_drain(links[1]);
	run_loop();
	cr_assert_eq(downs, 1, "it has calls");
	fake_used = &fake_conns[1];
	fake_break();
}

Test(choose, drain_without_calls)
{
	warm_up(16, 16);
	rr_drain(links[1]);
	cr_assert(fake_conns[1].open, "it may be one of its callbacks that asks for this");
	run_loop();
	cr_assert(!fake_conns[1].open && downs == 1 && down_path == 1);
}

/* What a lane sees of a link: its heartbeats depend on it. */
Test(choose, signs_of_life)
{
	struct rr_link_now now;
	uint64_t sent;

	warm_up(16, 16);
	wait_ms(2);
	sent = mono_ns();
	submit(0, 500);
	wait_ms(2);
	now = rr_link_now(links[0]);
	cr_assert(now.in_flight == 1 && now.credits == 16 && now.heard_ns < sent && now.answered_ns < sent);
	sent_on(0);
	reply_on(0, &calls[0], 12);
	now = rr_link_now(links[0]);
	cr_assert(now.in_flight == 0 && now.credits == 12);
	cr_assert(now.answered_ns >= sent && now.heard_ns > now.answered_ns);
	now = rr_link_now(links[1]);
	cr_assert(now.heard_ns < sent && now.answered_ns < sent, "that was the other link");
}

static unsigned link_of(const struct test_call *t, const struct rr_link *link3)
{
	return t->rr.link == links[0] ? 0 : t->rr.link == link3 ? 2 : 1;
}

/* The policies with three links against a model: no link has more calls than the newest reply
 * allowed, no call waits while a link has room, and each is answered once. */
Test(choose, random_against_a_model)
{
	struct rr_link *link3;
	unsigned state = 12345, granted[3] = { 16, 16, 1 };

	warm_up(16, 16);
	link3 = third(false, false);
	for (unsigned i = 0; i < CALLS; i++)
		calls[i].dones = 1;
	for (unsigned round = 0; round < 20000; round++) {
		struct test_call *t = &calls[(state = state * 1103515245u + 12345u) >> 20 & 15];
		unsigned in_flight[3] = { 0 }, waiting = 0;

		rr_set_policy(conn, (enum rr_policy)((state >> 12 & 0xff) % 3));
		if (t->dones) {
			(state >> 9 & 1 ? submit_bulk : submit_short)((unsigned)(t - calls));
		} else if (t->rr.state == RR_CALL_INFLIGHT) {
			unsigned l = link_of(t, link3);

			granted[l] = 1 + (state >> 15 & 7);
			(t->rr.sink[0].mem ? reply_bulk : reply_on)(l, t, granted[l]);
			cr_assert(t->dones == 1 && t->status == 0);
		}
		for (unsigned l = 0; l < 3; l++)
			sent_on(l);
		for (unsigned i = 0; i < CALLS; i++) {
			waiting += !calls[i].dones && calls[i].rr.state == RR_CALL_WAITING;
			if (!calls[i].dones && calls[i].rr.state == RR_CALL_INFLIGHT)
				in_flight[link_of(&calls[i], link3)]++;
		}
		for (unsigned l = 0; l < 3 && waiting; l++)
			cr_assert_geq(in_flight[l] + (granted[l] >= 4), granted[l], "round %u, link %u", round, l);
	}
	for (unsigned l = 0; l < 3; l++) {
		fake_used = &fake_conns[l];
		fake_break();
	}
	for (unsigned i = 0; i < CALLS; i++)
		if (!calls[i].dones)
			cr_assert_eq(rr_cancel(conn, &calls[i].rr, -EIO), 0);
}
