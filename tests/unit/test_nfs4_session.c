/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions of version 4.1: slots and their sequence ids, what SEQUENCE's result
 * does to them, and the operations that make and end client ids and sessions.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "nfs4_play.h"

TestSuite(nfs4_session, .init = play4_setup, .fini = play4_teardown);

static const struct nfs_opdef *def_of(enum nfs_op op)
{
	return nfs_v41.ops[op];
}

/* A call that has been sent. */
static struct nfs_call sent(void)
{
	struct nfs_call c = { .op = NFS_OP_NULL, .lane = lane4(), .target = target4() };

	cr_assert_eq(nfs4_acquire(target4(), &c), 1);
	c.eng.rr.sends = 1;
	return c;
}

/* A reply to it: SEQUENCE of these values. */
static int sequence(struct nfs_call *c, uint32_t seqid, uint32_t slotid)
{
	m_seq_res();
	m_set(m_op_at(0) + 24, seqid);
	m_set(m_op_at(0) + 28, slotid);
	return play_reply(c, def_of(c->op));
}

static int right_sequence(struct nfs_call *c)
{
	return sequence(c, nfs4_call(c)->place.seqid, nfs4_call(c)->place.slot);
}

/* ---- slots ---- */

Test(nfs4_session, slots_of_a_session)
{
	static const uint32_t granted[] = { 1, 2, 10, 63, 64, 65, 128, 2047, 2048, 2049, UINT32_MAX };

	for (unsigned i = 0; i < sizeof(granted) / sizeof(granted[0]); i++) {
		uint32_t n = granted[i] < NFS4_SLOTS_MAX ? granted[i] : NFS4_SLOTS_MAX;
		struct nfs_call c = { .op = NFS_OP_NULL, .lane = lane4(), .target = target4() };

		n4.nslots = granted[i];
		new_session4();
		cr_assert(slots4()->nslots == n && nfree4() == n && nretired4() == 0);
		for (uint32_t k = 0; k < n; k++) {
			cr_assert_eq(nfs4_acquire(target4(), &c), 1);
			cr_assert(nfs4_call(&c)->place.slot == k && nfs4_call(&c)->place.seqid == 1 && nfs4_call(&c)->place.highest == k);
			cr_assert(nfs4_call(&c)->has_slot && nfs4_call(&c)->place.epoch == n4.epoch);
		}
		cr_assert_eq(nfs4_acquire(target4(), &c), 0);
		cr_assert_not(nfs4_call(&c)->has_slot);
	}
}

/* One lane has what the others leave. */
Test(nfs4_session, low_slots_first_and_none_twice)
{
	struct nfs_call c[SLOTS + 1];

	for (unsigned i = 0; i < SLOTS; i++) {
		c[i] = (struct nfs_call){ .op = NFS_OP_GETATTR, .lane = &lanes[i % 3 == 0],
					  .target = &lanes[i % 3 == 0].target };
		cr_assert_eq(nfs4_acquire(c[i].target, &c[i]), 1);
		c[i].eng.rr.sends = 1;
		cr_assert_eq(nfs4_call(&c[i])->place.slot, i);
	}
	c[SLOTS] = (struct nfs_call){ .op = NFS_OP_GETATTR, .lane = lane4(), .target = target4() };
	cr_assert_eq(nfs4_acquire(target4(), &c[SLOTS]), 0);
	c[2].op = NFS_OP_NULL;
	cr_assert_eq(right_sequence(&c[2]), 0);
	nfs4_release(c[2].target, &c[2]);
	cr_assert_eq(nfs4_acquire(target4(), &c[SLOTS]), 1);
	cr_assert_eq(nfs4_call(&c[SLOTS])->place.slot, 2);
	cr_assert_eq(nfs4_call(&c[SLOTS])->place.seqid, 2);
	/* Twice released is once. */
	nfs4_release(c[2].target, &c[2]);
	cr_assert_eq(nfree4(), 0);
}

Test(nfs4_session, what_takes_a_slot)
{
	static const struct { enum nfs_op op; bool slot; } t[] = {
		{ NFS_OP_NULL, true }, { NFS_OP_READ, true }, { NFS_OP_STATFS, true },
		{ NFS4_OP_EXCHANGE_ID, false }, { NFS4_OP_CREATE_SESSION, false },
		{ NFS4_OP_DESTROY_SESSION, false }, { NFS4_OP_DESTROY_CLIENTID, false },
		{ NFS4_OP_RECLAIM_COMPLETE, true }, { NFS4_OP_RENEW, true }, { NFS4_OP_ROOT, true },
		{ NFS4_OP_REOPEN, true },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = { .op = t[i].op, .lane = lane4(), .target = target4() };

		cr_assert_eq(nfs4_acquire(target4(), &c), 1);
		cr_assert_eq(nfs4_call(&c)->has_slot, t[i].slot, "row %u", i);
		nfs4_release(target4(), &c);
		cr_assert_eq(nfree4(), SLOTS);
	}
	/* These pass when there is no session, or none of its slots is free. */
	memset(slots4()->free, 0, sizeof(slots4()->free));
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = { .op = t[i].op, .lane = lane4(), .target = target4() };

		cr_assert_eq(nfs4_acquire(target4(), &c), t[i].slot ? -EAGAIN : 1);
	}
}

Test(nfs4_session, sequence_ids_count)
{
	/* 32 bits, and then from 0 (RFC 8881, section 2.10.6.1). */
	static const uint32_t from[] = { 1, 77, 0x7fffffff, 0xfffffffe };

	for (unsigned i = 0; i < 4; i++) {
		slots4()->seqid[0] = from[i];
		for (uint32_t n = 0; n < 5; n++) {
			struct nfs_call c = sent();

			cr_assert_eq(nfs4_call(&c)->place.slot, 0);
			cr_assert_eq(slots4()->seqid[0], from[i] + n);
			cr_assert_eq(right_sequence(&c), 0);
			nfs4_release(target4(), &c);
		}
	}
}

/* The transport sends a call again after a lost connection: nothing is counted
 * until there is a reply, so the same slot and sequence id go out. */
Test(nfs4_session, replay_under_the_same_slot)
{
	struct nfs_call c = call4(NFS_OP_GETATTR);

	nfs4_call(&c)->place.seqid = 6;
	m_args(3, false);
	m_set(12 + 4 + 16, 6);
	M(9, STAT_MASK);
	play_args(&c, def_of(c.op));
	play_args(&c, def_of(c.op));
	cr_assert_eq(nfs4_call(&c)->place.seqid, 6);
}

enum after { NEXT, SAME, RETIRED };

/* What became of slot 0, whose sequence id was 1. */
static void expect_slot(enum after a, const char *what)
{
	cr_assert_eq(slots4()->free[0] & 1, a != RETIRED, "%s", what);
	cr_assert_eq(slots4()->seqid[0], a == NEXT ? 2 : 1, "%s", what);
	cr_assert_eq(nretired4(), a == RETIRED, "%s", what);
}

Test(nfs4_session, outcome_of_sequence)
{
	static const struct {
		const char *what;
		uint32_t status;
		unsigned sends;
		int rc;
		enum after after;
		bool in_doubt;
	} t[] = {
		{ "OK", 0, 1, 0, NEXT, false },
		{ "OK, replayed", 0, 2, 0, NEXT, false },
		/* The number is this call's for ever; released, it was given up. */
		{ "DELAY", 10008, 1, NFS_DELAYED, RETIRED, false },
		{ "DELAY, replayed", 10008, 2, NFS_DELAYED, RETIRED, false },
		/* Nobody knows what the server expects next. */
		{ "BADSLOT", 10053, 1, NFS_RECOVER, RETIRED, false },
		{ "SEQ_MISORDERED", 10063, 1, NFS_RECOVER, RETIRED, false },
		{ "SEQ_FALSE_RETRY", 10076, 1, NFS_RECOVER, RETIRED, false },
		{ "SEQ_FALSE_RETRY, replayed", 10076, 2, NFS_RECOVER, RETIRED, true },
		{ "BADSESSION", 10052, 1, NFS_RECOVER, SAME, false },
		{ "BADSESSION, replayed", 10052, 2, NFS_RECOVER, RETIRED, true },
		{ "EXPIRED", 10011, 1, NFS_RECOVER, SAME, false },
		{ "EXPIRED, replayed", 10011, 2, NFS_RECOVER, RETIRED, true },
		/* Its connection goes, and the same message is sent on the next one. */
		{ "CONN_NOT_BOUND_TO_SESSION", 10055, 1, NFS_DELAYED, RETIRED, false },
		{ "CONN_NOT_BOUND_TO_SESSION, replayed", 10055, 2, NFS_DELAYED, RETIRED, false },
		{ "REQ_TOO_BIG", 10065, 1, -EIO, SAME, false },
		{ "REQ_TOO_BIG, replayed", 10065, 2, -EIO, RETIRED, false },
		/* It was executed before, so the next use has the next number;
		 * with the same one it would be refused for ever. */
		{ "RETRY_UNCACHED_REP", 10068, 2, NFS_AGAIN, NEXT, true },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c;

		new_session4();
		c = sent();
		c.eng.rr.sends = t[i].sends;
		m_seq_res();
		if (t[i].status)
			m_fail_at(0, t[i].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "%s", t[i].what);
		nfs4_release(target4(), &c);
		expect_slot(t[i].after, t[i].what);
		cr_assert_eq(nfs4_call(&c)->in_doubt, t[i].in_doubt, "%s", t[i].what);
		cr_assert_eq(atomic_exchange(&n4.need_client, false), t[i].status == 10011);
	}
}

/* Delayed as often as the server likes, and what it says then. */
Test(nfs4_session, outcome_after_delay)
{
	static const struct { const char *what; uint32_t status; int rc; enum after after; } t[] = {
		{ "OK", 0, 0, NEXT }, { "REQ_TOO_BIG", 10065, -EIO, RETIRED },
		{ "RETRY_UNCACHED_REP", 10068, NFS_AGAIN, NEXT },
		{ "BADSESSION", 10052, NFS_RECOVER, RETIRED },
	};

	for (unsigned i = 0; i < 2 * sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c;

		new_session4();
		c = sent();
		/* Its reply was lost in the first round, or in none. */
		for (unsigned n = 0; n < 3; n++) {
			c.eng.rr.sends = n == 0 ? 1 + i % 2 : 1;
			m_seq_res();
			m_fail_at(0, 10008);
			cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_DELAYED);
			cr_assert(nfs4_call(&c)->has_slot && nfs4_call(&c)->place.slot == 0 && slots4()->seqid[0] == 1);
		}
		m_seq_res();
		if (t[i / 2].status)
			m_fail_at(0, t[i / 2].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i / 2].rc, "%s", t[i / 2].what);
		nfs4_release(target4(), &c);
		expect_slot(t[i / 2].after, t[i / 2].what);
		if (t[i / 2].status == 10052)
			cr_assert_eq(nfs4_call(&c)->in_doubt, i % 2, "the first reply may have been lost");
	}
}

/* Delayed, submitted again, and cancelled before it was sent again. */
Test(nfs4_session, given_up_after_delay)
{
	static const uint32_t says[] = { 10008, 10055 };        /* DELAY, CONN_NOT_BOUND_TO_SESSION */

	for (unsigned i = 0; i < 2; i++) {
		struct nfs_call c;

		new_session4();
		c = sent();
		c.eng.rr.sends = 2;
		m_seq_res();
		m_fail_at(0, says[i]);
		cr_assert_eq(play_reply(&c, def_of(c.op)), NFS_DELAYED);
		c.eng.rr.sends = 0;
		nfs4_release(target4(), &c);
		expect_slot(RETIRED, "given up");
	}
}

Test(nfs4_session, outcome_without_a_sequence)
{
	struct nfs_call c = sent();

	/* Garbage: nobody knows what the server did. */
	m_new();
	M(0, 0, 1, 53);
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG);
	nfs4_release(target4(), &c);
	expect_slot(RETIRED, "garbage");

	/* Never sent: the server has not seen the number. */
	new_session4();
	c = sent();
	c.eng.rr.sends = 0;
	nfs4_release(target4(), &c);
	expect_slot(SAME, "not sent");

	/* SEQUENCE was fine, what follows is not. */
	new_session4();
	c = sent();
	c.op = NFS_OP_GETATTR;
	m_res();
	cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG);
	nfs4_release(target4(), &c);
	expect_slot(NEXT, "malformed later");
}

/* A server that answers for another slot, sequence or session (RFC 8881,
 * section 18.46.3: they must be equal) cannot be believed. */
Test(nfs4_session, sequence_of_something_else)
{
	static const struct { const char *what; uint32_t at, value; } t[] = {
		{ "session", 8, 0x39313233 }, { "session's end", 20, 0x63646567 },
		{ "sequence", 24, 2 }, { "sequence before", 24, 0 },
		{ "slot", 28, 1 },
		{ "slot beyond", 28, 0xffffffff },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c;

		new_session4();
		c = sent();
		m_seq_res();
		m_set(m_op_at(0) + t[i].at, t[i].value);
		cr_assert_eq(play_reply(&c, def_of(c.op)), -EBADMSG, "%s", t[i].what);
		nfs4_release(target4(), &c);
		expect_slot(RETIRED, t[i].what);
	}
}

/* When all slots are retired there must be another session. */
Test(nfs4_session, all_retired)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct nfs_call c = sent();

		cr_assert_not(atomic_load(&n4.need_session));
		cr_assert_not(ctl.recover);
		nfs4_release(target4(), &c);
	}
	cr_assert(atomic_load(&n4.need_session) && ctl.recover);
	cr_assert(nfree4() == 0 && nretired4() == SLOTS);
	new_session4();
	cr_assert(nfree4() == SLOTS && nretired4() == 0);
}

/* Also when those that are left are not to be used. */
Test(nfs4_session, all_below_the_target_retired)
{
	struct nfs_call c = sent(), other;

	m_seq_res();
	m_set(m_op_at(0) + 36, 0);
	cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
	nfs4_release(target4(), &c);
	other = sent();
	nfs4_release(target4(), &other);
	cr_assert(atomic_load(&n4.need_session) && nfree4() == SLOTS - 1);
}

/* ---- how many of them are to be used ---- */

/* A reply to it that names the highest slot that there is, and that is wanted. */
static void replied(struct nfs_call *c, uint32_t highest, uint32_t target)
{
	m_seq_res();
	m_set(m_op_at(0) + 24, nfs4_call(c)->place.seqid);
	m_set(m_op_at(0) + 28, nfs4_call(c)->place.slot);
	m_set(m_op_at(0) + 32, highest);
	m_set(m_op_at(0) + 36, target);
	cr_assert_eq(play_reply(c, def_of(c->op)), 0);
	nfs4_release(target4(), c);
}

/* Those below what the server wants are retired: no SEQUENCE would ever be sent. */
Test(nfs4_session, the_target_goes_below_what_is_left)
{
	struct nfs_call lost = sent(), c = sent();

	nfs4_release(target4(), &lost);
	cr_assert(!atomic_load(&n4.need_session) && nfs4_call(&lost)->place.slot == 0);
	replied(&c, SLOTS - 1, 0);
	cr_assert(atomic_load(&n4.need_session));
}

static unsigned can_be_had(void)
{
	struct nfs_call c[SLOTS + 1];
	unsigned n = 0;

	for (;; n++) {
		c[n] = (struct nfs_call){ .op = NFS_OP_NULL, .lane = lane4(), .target = target4() };
		if (nfs4_acquire(target4(), &c[n]) <= 0)
			break;
	}
	for (unsigned i = 0; i < n; i++)
		nfs4_release(target4(), &c[i]);
	return n;
}

Test(nfs4_session, the_server_says_how_many)
{
	static const struct { uint32_t highest, target; unsigned n; } t[] = {
		{ SLOTS - 1, SLOTS - 1, SLOTS }, { SLOTS - 1, 3, 4 }, { 3, SLOTS - 1, 4 }, { 5, 2, 3 },
		/* One is always to be had; and never more than the session was made with. */
		{ 0, 0, 1 }, { SLOTS, SLOTS, SLOTS }, { UINT32_MAX, UINT32_MAX, SLOTS },
		{ UINT32_MAX, 0, 1 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = sent();

		replied(&c, t[i].highest, t[i].target);
		cr_assert_eq(can_be_had(), t[i].n, "row %u: %u", i, can_be_had());
	}
}

/* What is in use above the limit stays until it comes back, and is told truly. */
Test(nfs4_session, high_slots_are_retired_as_they_come_back)
{
	struct nfs_call c[4], next;

	for (unsigned i = 0; i < 4; i++)
		c[i] = sent();
	replied(&c[0], SLOTS - 1, 1);
	cr_assert_eq(can_be_had(), 1, "slot 0; 1 is in use");
	next = sent();
	cr_assert(nfs4_call(&next)->place.slot == 0 && nfs4_call(&next)->place.highest == 3);
	replied(&c[3], SLOTS - 1, 1);
	replied(&c[2], SLOTS - 1, 1);
	replied(&c[1], SLOTS - 1, 1);
	nfs4_release(target4(), &next);
	new_session4();
	cr_assert_eq(can_be_had(), SLOTS, "another session, another number");
}

/* A reply that was under way when the number changed does not change it back. */
Test(nfs4_session, what_was_said_before_is_old)
{
	struct nfs_call c = sent(), before = sent(), after;

	replied(&c, SLOTS - 1, 4);
	replied(&before, SLOTS - 1, SLOTS - 1);
	cr_assert_eq(can_be_had(), 5);
	after = sent();
	replied(&after, SLOTS - 1, SLOTS - 1);
	cr_assert_eq(can_be_had(), SLOTS);
}

/* A slot that the server has dropped begins anew when it has it again. */
Test(nfs4_session, dropped_slots_begin_anew)
{
	struct nfs_call c[3], again;

	for (unsigned i = 0; i < 3; i++)
		c[i] = sent();
	replied(&c[0], 0, 0);
	replied(&c[1], SLOTS - 1, SLOTS - 1);           /* old */
	cr_assert_eq(slots4()->seqid[1], 2, "2 is in use: the server cannot have dropped any");
	nfs4_release(target4(), &c[2]);                   /* and is retired */
	again = sent();
	replied(&again, 0, 0);
	cr_assert_eq(slots4()->seqid[1], 1);
	again = sent();
	cr_assert_eq(nfs4_call(&again)->place.seqid, 3, "0 goes on");
	replied(&again, SLOTS - 1, SLOTS - 1);
	cr_assert_eq(can_be_had(), SLOTS - 1);
	cr_assert_eq(slots4()->seqid[2], 1);
	cr_assert_eq(nretired4(), 1, "retired is retired");
}

/* ---- lanes that wait for a slot ---- */

static unsigned pumped;

static bool wants(struct nfs_call *c)
{
	*c = (struct nfs_call){ .op = NFS_OP_NULL, .lane = c->lane, .target = &c->lane->target };
	return nfs4_acquire(c->target, c) > 0;
}

static void stop_loop(struct loop_timer *t)
{
	loop_stop(lanes[pumped].loop);
	(void)t;
}

/* Lane i's mailbox is seen to. */
static void mail(unsigned i)
{
	struct loop_timer t;

	pumped = i;
	list_init(&lanes[i].waiting);
	loop_timer_init(&t, stop_loop);
	loop_timer_set(lanes[i].loop, &t, 0);
	cr_assert_eq(loop_run(lanes[i].loop), 0);
}

/* A busy lane, which would take it again at once, leaves it to the one that waits. */
Test(nfs4_session, a_slot_is_kept_for_who_waits)
{
	struct nfs_call c[SLOTS], a = { .lane = &lanes[0] }, b = { .lane = &lanes[1] };

	for (unsigned i = 0; i < SLOTS; i++)
		c[i] = sent();
	cr_assert_not(wants(&a));
	replied(&c[4], SLOTS - 1, SLOTS - 1);
	cr_assert_not(wants(&b), "it is lane 0's");
	cr_assert(wants(&a));
	cr_assert_eq(nfs4_call(&a)->place.slot, 4);
	mail(0);
	/* Now lane 1 waits, and lane 0 does not. */
	replied(&c[5], SLOTS - 1, SLOTS - 1);
	cr_assert_not(wants(&a));
	cr_assert(wants(&b));
	/* Two for two. */
	cr_assert_not(wants(&b));
	replied(&c[6], SLOTS - 1, SLOTS - 1);
	replied(&c[7], SLOTS - 1, SLOTS - 1);
	cr_assert(wants(&a) && wants(&b));
}

/* What the woken one has no use for any more goes to the next. */
Test(nfs4_session, a_slot_that_is_not_wanted_any_more)
{
	struct nfs_call c[SLOTS], a = { .lane = &lanes[0] }, b = { .lane = &lanes[1] };

	for (unsigned i = 0; i < SLOTS; i++)
		c[i] = sent();
	cr_assert_not(wants(&a));
	cr_assert_not(wants(&b));
	replied(&c[1], SLOTS - 1, SLOTS - 1);
	cr_assert_eq(slots4()->promised, 1);
	cr_assert_eq(slots4()->woken, 1);
	mail(0);                        /* has nothing to send */
	cr_assert_eq(slots4()->woken, 2);
	cr_assert_not(wants(&a));
	mail(1);
	cr_assert_eq(slots4()->woken, 1);
	mail(0);
	cr_assert(slots4()->woken == 0 && slots4()->promised == 0);
	cr_assert(wants(&b));
}

/* More are to be used: all who wait are told; fewer: the promise is void. */
Test(nfs4_session, waiting_while_the_number_changes)
{
	struct nfs_call c = sent(), held, a = { .lane = &lanes[0] }, b = { .lane = &lanes[1] };

	replied(&c, SLOTS - 1, 0);
	held = sent();
	cr_assert_not(wants(&a));
	cr_assert_not(wants(&b));
	replied(&held, SLOTS - 1, 1);
	cr_assert_eq(slots4()->woken, 3);
	cr_assert(wants(&a));
	a.eng.rr.sends = 1;
	replied(&a, SLOTS - 1, 0);
	held = (struct nfs_call){ .lane = &lanes[0] };
	cr_assert_not(wants(&held), "the only one is lane 1's");
	cr_assert(wants(&b));
	cr_assert(nfs4_call(&b)->place.slot == 0 && slots4()->promised == 0);
	/* A new session: who waits is told. */
	new_session4();
	cr_assert_eq(slots4()->woken, 1);
}

/* ---- a call of the session before ---- */

Test(nfs4_session, old_session)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 0, 0 }, { 10052, NFS_AGAIN }, { 10063, NFS_AGAIN }, { 10078, NFS_AGAIN },
		{ 10008, NFS_DELAYED },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = sent(), other;

		m_seq_res();            /* as it comes, of the old session */
		memcpy(n4.sessionid, i % 2 ? "newsessionnewses" : "NEWSESSIONNEWSES", 16);
		new_session4();
		other = sent();         /* has the same place in the new session */
		cr_assert_eq(nfs4_call(&other)->place.slot, nfs4_call(&c)->place.slot);
		cr_assert_eq(nfs4_slots_left(slots4()), 1);
		for (unsigned w = 0; w < 4; w++) {
			uint32_t word;

			memcpy(&word, nfs4_call(&c)->place.session + 4 * w, 4);
			m_set(m_op_at(0) + 8 + 4 * w, ntohl(word));
		}
		if (t[i].status)
			m_fail_at(0, t[i].status);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "status %u", t[i].status);
		nfs4_release(target4(), &c);
		/* The new session's slots are as they were. */
		cr_assert(nfree4() == SLOTS - 1 && nretired4() == 0 && !nfs4_slots_left(slots4()));
		cr_assert(slots4()->seqid[0] == 1 && nfs4_call(&other)->place.outcome == NFS4_UNKNOWN);
		cr_assert_not(atomic_load(&n4.need_session), "there is a new one already");
		nfs4_call(&other)->place.outcome = NFS4_NOT_CONSUMED;
		nfs4_release(target4(), &other);
	}
}

/* ---- status flags ---- */

Test(nfs4_session, status_flags)
{
	static const struct { uint32_t flags; unsigned call_flags; bool opens, test; } t[] = {
		{ 0, 0, false, false },
		{ 0x0001, 0, false, false },            /* CB_PATH_DOWN: we have none */
		{ 0x0200, 0, false, false },            /* CB_PATH_DOWN_SESSION, */
		{ 0x0400, 0, false, false },            /* BACKCHANNEL_FAULT alike */
		{ 0x0100, 0, true, false },             /* RESTART_RECLAIM_NEEDED */
		{ 0x0008, 0, false, true },             /* EXPIRED_ALL_STATE_REVOKED: nothing to
							 * reclaim, each has to be freed */
		{ 0x0020, 0, false, true },             /* ADMIN_STATE_REVOKED */
		{ 0x0120, 0, true, true },
		{ 0x0100, NFS_CALL_CONTROL, false, false },     /* seen by who recovers */
		{ 0xfffffe00, 0, false, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = sent();
		bool recover = t[i].opens || t[i].test;

		ctl.recover = false;
		atomic_store(&n4.need_opens, false);
		atomic_store(&n4.need_test, false);
		atomic_store(&n4.said, 0);
		c.flags = t[i].call_flags;
		m_seq_res();
		m_set(m_op_at(0) + 40, t[i].flags);
		m_set(m_op_at(0) + 24, nfs4_call(&c)->place.seqid);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_eq(ctl.recover, recover, "row %u", i);
		cr_assert_eq(atomic_load(&n4.need_opens), t[i].opens);
		cr_assert_eq(atomic_load(&n4.need_test), t[i].test);
		cr_assert_not(atomic_load(&n4.need_client), "it is still good");
		/* Said with each reply, even when it has been done. */
		ctl.recover = false;
		atomic_store(&n4.need_opens, false);
		atomic_store(&n4.need_test, false);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_not(ctl.recover || atomic_load(&n4.need_opens) || atomic_load(&n4.need_test));
		/* No more, and then again: another restart. */
		m_set(m_op_at(0) + 40, 0);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		m_set(m_op_at(0) + 40, t[i].flags);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_eq(ctl.recover, recover, "row %u", i);
		nfs4_release(target4(), &c);
	}
}

/* ---- EXCHANGE_ID ---- */

static struct nfs4_ctl ctl_call(enum nfs_op op)
{
	struct nfs4_ctl k = { .c = { .op = op, .lane = lane4(), .target = target4(), .flags = NFS_CALL_CONTROL } };

	new_session4();
	cr_assert_eq(nfs4_acquire(target4(), &k.c), 1);
	return k;
}

#define CTL(k, op_) \
	struct nfs4_ctl k = ctl_call(op_); \
	k.c.args.version = &k

/* The first operation of a reply without SEQUENCE. */
static void m_bare(uint32_t op)
{
	m_new();
	M(0, 0, 1, op, 0);
}

static void m_exchange_id(void)
{
	m_bare(42);
	m_u64(0x1122334455667788);
	M(7, 0x80000000, 0);            /* sequence; CONFIRMED_R; SP4_NONE */
	m_u64(3);
	m_str("server owner");
	m_str("scope");
	M(1);
	m_str("domain");
	m_str("name");
	M(0, 5, 6);
}

Test(nfs4_session, exchange_id)
{
	CTL(k, NFS4_OP_EXCHANGE_ID);
	const struct nfs_opdef *d = def_of(NFS4_OP_EXCHANGE_ID);

	strcpy(n4.owner, "who");
	memcpy(n4.verifier, "verifier", 8);
	m_new();
	M(0, 1, 1, 42, 0x76657269, 0x66696572);
	m_str("who");
	M(0x10000, 0, 0);               /* USE_NON_PNFS, SP4_NONE, no implementation id */
	play_args(&k.c, d);

	m_exchange_id();
	cr_assert_eq(play_reply(&k.c, d), 0);
	cr_assert(k.clientid == 0x1122334455667788 && k.sequence == 7 && k.flags == 0x80000000);
	cr_assert(k.names.minor == 3 && k.names.major_len == 12 && k.names.scope_len == 5);
	cr_assert(!memcmp(k.names.major, "server owner", 12) && !memcmp(k.names.scope, "scope", 5));
	cr_assert_eq(k.status, NFS4_OK);
	play_all_cuts(&k.c, d, NULL);
	play_twists(&k.c, d, NULL);
}

/* ---- CREATE_SESSION ---- */

static void m_create_session(uint32_t maxreq, uint32_t maxresp, uint32_t slots)
{
	m_bare(43);
	M(0x6e657773, 0x65737369, 0x6f6e6e65, 0x77736573, 7, 0);
	M(0, maxreq, maxresp, 4096, 16, slots, 0);
	M(0, 4000, 4000, 0, 2, 1, 1, 8);        /* with an IRD */
}

Test(nfs4_session, create_session)
{
	CTL(k, NFS4_OP_CREATE_SESSION);
	const struct nfs_opdef *d = def_of(NFS4_OP_CREATE_SESSION);
	static const struct { uint32_t maxreq, maxresp, slots, got; } t[] = {
		{ 1 << 20, 1 << 20, 64, 64 }, { 512, 600, 1, 1 }, { 0, 0, 0, 0 },
		{ UINT32_MAX, UINT32_MAX, 128, 128 },
		/* More than was asked for: not ours to use. */
		{ 4096, 4096, 129, 128 }, { 4096, 4096, UINT32_MAX, 128 },
	};

	k.clientid = 0x1122334455667788;
	k.sequence = 7;
	m_new();
	M(0, 1, 1, 43, 0x11223344, 0x55667788, 7, 0);
	M(0, (1 << 19) + 4096, (1 << 20) + 4096, 4096, 16, 2 * 64, 0);
	M(0, RR_INLINE - RR_HDR_MIN, 2048, 2048, 8, 16, 0);
	M(0x40000000, 1, 1, 0, 0, 0, 0, 0);     /* NFS4_CALLBACK, AUTH_SYS of nobody in particular */
	play_args(&k.c, d);
	k.flags = 2;                    /* CONN_BACK_CHAN */
	m_set(28, 2);
	play_args(&k.c, d);
	/* An extended attribute may be longer than the data of a READ or WRITE. */
	n4.rsize = n4.wsize = 4096;
	m_set(36, 65536 + 4096);
	m_set(40, 65536 + 4096);
	play_args(&k.c, d);

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		m_create_session(t[i].maxreq, t[i].maxresp, t[i].slots);
		cr_assert_eq(play_reply(&k.c, d), 0);
		cr_assert(!memcmp(k.sessionid, "newsessionnewses", 16));
		cr_assert_eq(k.nslots, t[i].got, "row %u: %u slots", i, k.nslots);
		cr_assert(k.maxreq == t[i].maxreq && k.maxresp == t[i].maxresp);
		cr_assert_eq(k.flags, 0, "the server makes no calls");
		cr_assert_not(n4.back.session[0].used || n4.back.session[1].used);
		k.flags = 2;
	}
	play_all_cuts(&k.c, d, NULL);
	play_twists(&k.c, d, NULL);
}

/* The session may be called in at once. */
Test(nfs4_session, create_session_with_a_back_channel)
{
	CTL(k, NFS4_OP_CREATE_SESSION);
	const struct nfs_opdef *d = def_of(NFS4_OP_CREATE_SESSION);

	k.flags = 2;
	m_create_session(1 << 20, 1 << 20, 64);
	m_set(40, 7);                   /* and what nobody has asked for */
	cr_assert_eq(play_reply(&k.c, d), 0);
	cr_assert_eq(k.flags, 2);
	cr_assert_eq(n4.back.session[0].used + n4.back.session[1].used, 1);
	cr_assert(!memcmp(n4.back.session[n4.back.newest].id, "newsessionnewses", 16));
}

Test(nfs4_session, bind_conn_to_session)
{
	CTL(k, NFS4_OP_BIND_CONN);
	const struct nfs_opdef *d = def_of(NFS4_OP_BIND_CONN);

	cr_assert_not(nfs4_call(&k.c)->has_slot);
	m_new();
	M(0, 1, 1, 41, 0x30313233, 0x34353637, 0x38396162, 0x63646566, 3, 0);
	play_args(&k.c, d);
	m_bare(41);
	M(0x30313233, 0x34353637, 0x38396162, 0x63646566, 3, 0);
	cr_assert_eq(play_reply(&k.c, d), 0);
	play_all_cuts(&k.c, d, NULL);
	m_set(36, 1);
	cr_assert_eq(play_reply(&k.c, d), -EOPNOTSUPP, "for our own calls only");
	/* A server without it (nfs4_check.c): that is an answer. */
	m_bare(OP_ILLEGAL);
	m_set(16, NFS4ERR_OP_ILLEGAL);
	cr_assert_eq(play_reply(&k.c, d), nfs4_errno(NFS4ERR_OP_ILLEGAL));
	m_set(16, NFS4_OK);
	cr_assert_eq(play_reply(&k.c, d), -EBADMSG);
}

/* The session has a back channel. */
Test(nfs4_session, flags_of_the_back_channel)
{
	static const struct { uint32_t flags; bool bind, session; } t[] = {
		{ 0x0001, true, false }, { 0x0200, true, false }, { 0x0400, false, true },
		{ 0x0601, true, true }, { 0x0006, false, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = sent();

		ctl.recover = false;
		atomic_store(&n4.back.has, true);
		atomic_store(&n4.back.need, false);
		atomic_store(&n4.need_session, false);
		atomic_store(&n4.said, 0);
		atomic_store(&n4.back.bound_ns, 0);
		m_seq_res();
		m_set(m_op_at(0) + 40, t[i].flags);
		m_set(m_op_at(0) + 24, nfs4_call(&c)->place.seqid);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_eq(atomic_load(&n4.back.need), t[i].bind, "row %u", i);
		cr_assert_eq(atomic_load(&n4.need_session), t[i].session, "row %u", i);
		cr_assert_eq(ctl.recover, t[i].session, "no call waits for a connection to be bound");
		/* It stays: nothing more at once. What was said before the connection was bound does
		 * not count. */
		atomic_store(&n4.back.need, false);
		atomic_store(&n4.need_session, false);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_not(atomic_load(&n4.back.need) || atomic_load(&n4.need_session));
		atomic_store(&n4.said, 0);
		atomic_store(&n4.back.bound_ns, c.eng.start_ns + 1);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_not(atomic_load(&n4.back.need) || atomic_load(&n4.need_session));
		/* What was begun before does not say that it has gone and come back, either. */
		atomic_store(&n4.said, t[i].flags);
		m_set(m_op_at(0) + 40, 0);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		atomic_store(&n4.back.bound_ns, 0);
		m_set(m_op_at(0) + 40, t[i].flags);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert_not(atomic_load(&n4.back.need) || atomic_load(&n4.need_session), "row %u", i);
		/* If it stays for a lease period another connection is tried. */
		atomic_store(&n4.said, t[i].flags);
		n4.lease_s = 90;
		atomic_store(&n4.back.bound_ns, mono_ns());
		nfs4_look_again(&cl4.server);
		cr_assert_not(atomic_load(&n4.back.need));
		n4.lease_s = 0;
		nfs4_look_again(&cl4.server);
		cr_assert_eq(atomic_load(&n4.back.need), t[i].bind);
		nfs4_release(target4(), &c);
	}
}

/* ---- the others ---- */

Test(nfs4_session, ends)
{
	CTL(s, NFS4_OP_DESTROY_SESSION);
	CTL(i, NFS4_OP_DESTROY_CLIENTID);

	memcpy(s.sessionid, n4.sessionid, sizeof(s.sessionid));
	m_new();
	M(0, 1, 1, 44, SESSION_WORDS);
	play_args(&s.c, def_of(s.c.op));
	m_bare(44);
	cr_assert_eq(play_reply(&s.c, def_of(s.c.op)), 0);
	play_all_cuts(&s.c, def_of(s.c.op), NULL);
	/* In use: it is asked again, unless nobody waits for it. */
	for (unsigned n = 0; n < 2; n++) {
		s.once = n;
		m_new();
		M(10008, 0, 1, 44, 10008);
		cr_assert_eq(play_reply(&s.c, def_of(s.c.op)), n ? nfs4_errno(10008) : NFS_LATER);
	}

	m_new();
	M(0, 1, 1, 57);
	m_u64(n4.clientid);
	play_args(&i.c, def_of(i.c.op));
	m_bare(57);
	cr_assert_eq(play_reply(&i.c, def_of(i.c.op)), 0);
	play_all_cuts(&i.c, def_of(i.c.op), NULL);
}

Test(nfs4_session, reclaim_complete)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 0, 0 }, { 10054, 0 }, { 10008, NFS_LATER }, { 10006, -EIO },
	};
	const struct nfs_opdef *d = def_of(NFS4_OP_RECLAIM_COMPLETE);

	for (unsigned i = 0; i < 4; i++) {
		CTL(k, NFS4_OP_RECLAIM_COMPLETE);

		m_seq_args(2, true);
		M(58, 0);
		play_args(&k.c, d);
		m_seq_res();
		m_op(58);
		if (t[i].status)
			m_fail_at(1, t[i].status);
		cr_assert_eq(play_reply(&k.c, d), t[i].rc, "status %u", t[i].status);
		if (!i)
			play_all_cuts(&k.c, d, &hooks4);
	}
}

/* Who waits for a control call looks at the status itself. */
Test(nfs4_session, control_statuses)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 10008, NFS_LATER }, { 10013, NFS_LATER }, { 10022, -EIO }, { 10063, -EIO },
		{ 10052, -EIO }, { 1, -EPERM }, { 10017, -EIO }, { 10074, -EIO }, { 28, -ENOSPC },
		{ 10021, -EPROTONOSUPPORT },
	};
	static const struct { enum nfs_op op; uint32_t num; } ops[] = {
		{ NFS4_OP_EXCHANGE_ID, 42 }, { NFS4_OP_CREATE_SESSION, 43 },
		{ NFS4_OP_DESTROY_SESSION, 44 }, { NFS4_OP_DESTROY_CLIENTID, 57 },
	};

	for (unsigned o = 0; o < 4; o++) {
		for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
			CTL(k, ops[o].op);

			m_new();
			M(t[i].status, 0, 1, ops[o].num, t[i].status);
			cr_assert_eq(play_reply(&k.c, def_of(k.c.op)), t[i].rc);
			cr_assert_eq(k.status, t[i].status);
			cr_assert_not(atomic_load(&n4.need_session));
		}
		CTL(k, ops[o].op);

		/* A server of minor version 0 has nothing to say about it. */
		m_new();
		M(10021, 0, 0);
		cr_assert_eq(play_reply(&k.c, def_of(k.c.op)), -EPROTONOSUPPORT);
	}
}

/* ---- the way to the export ---- */

Test(nfs4_session, root)
{
	static const struct { const char *path; unsigned n; const char *name[3]; } t[] = {
		{ "/", 0, { NULL } }, { "", 0, { NULL } }, { "/a", 1, { "a" } },
		{ "/a//b/", 2, { "a", "b" } }, { "a/b/c", 3, { "a", "b", "c" } },
	};
	const struct nfs_opdef *d = def_of(NFS4_OP_ROOT);

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		CTL(k, NFS4_OP_ROOT);
		uint32_t at;

		k.path = t[i].path;
		m_seq_args(4 + t[i].n, false);
		M(24);
		for (unsigned n = 0; n < t[i].n; n++) {
			M(15);
			m_str(t[i].name[n]);
		}
		M(10, 9, 2, 0xe810051b, 0x0030a23a);
		play_args(&k.c, d);

		m_seq_res();
		m_op(24);
		for (unsigned n = 0; n < t[i].n; n++)
			m_op(15);
		m_op(10);
		m_opaque("root", 4);
		m_op(9);
		M(1, 0xe8000402);       /* type, and what the mount wants to know */
		at = m_len();
		M(0, 2, 90, 1, 0, 143, 0, 65536, 0, 0x7fffffff);
		m_end_opaque(at);
		cr_assert_eq(play_reply(&k.c, d), 0, "'%s'", t[i].path);
		cr_assert(k.c.res.fh.len == 4 && S_ISDIR(k.c.res.attr.mode));
		cr_assert(k.lease_s == 90 && k.maxname == 143 && k.maxfilesize == 0x100000000 &&
			  k.maxread == 65536 && k.maxwrite == NFS_IO_MAX);
		k.at = NULL;
		play_all_cuts(&k.c, d, &hooks4);
		play_twists(&k.c, d, &hooks4);
		for (unsigned at_op = 1; at_op < 2 + t[i].n; at_op++) {
			CTL(f, NFS4_OP_ROOT);

			f.path = t[i].path;
			m_fail_at(1 + t[i].n - (at_op - 1), 2);
			cr_assert_eq(play_reply(&f.c, d), -ENOENT);
			cr_assert_eq(f.status, NFS4ERR_NOENT, "for the message");
		}
	}
}

/* GETFH has said where it ends, GETATTR is to come later: all of it is the same again. */
Test(nfs4_session, deep_root_is_delayed)
{
	const struct nfs_opdef *d = def_of(NFS4_OP_ROOT);
	CTL(k, NFS4_OP_ROOT);

	n4.maxops = 5;
	k.path = "/a/a";
	new_session4();
	cr_assert_eq(nfs4_acquire(target4(), &k.c), 1);
	for (unsigned i = 0; i < 3; i++) {
		m_seq_args(5, false);
		if (i) {
			M(22);
			m_opaque("one", 3);
		} else {
			M(24);
		}
		M(15);
		m_str("a");
		M(10, 9, 2, 0xe810051b, 0x0030a23a);
		play_args(&k.c, d);
		m_seq_res();
		m_op(i ? 22 : 24);
		m_op(15);
		m_op(10);
		m_opaque(i ? "two" : "one", 3);
		m_op(9);
		M(1, 0x2, 4, 2);
		if (i == 1)
			m_fail_at(4, 10008);
		cr_assert_eq(play_reply(&k.c, d), i == 0 ? NFS_NEXT : i == 1 ? NFS_LATER : 0);
	}
	cr_assert(k.c.res.fh.len == 3 && !memcmp(k.c.res.fh.data, "two", 3));
}

static void m_root_end(uint32_t type)
{
	m_op(10);
	m_opaque("here", 4);
	m_op(9);
	M(1, 0x2, 4, type);
}

/* A session takes so many operations at once: further from where the last has ended. */
Test(nfs4_session, deep_root)
{
	static const struct { unsigned maxops, each; } t[] = {
		{ 16, 12 }, { 7, 3 }, { 8, 4 }, { 100, 12 },
	};
	const struct nfs_opdef *d = def_of(NFS4_OP_ROOT);
	char path[200] = "";

	for (unsigned i = 0; i < 40; i++)
		sprintf(path + strlen(path), "/d%u", i);
	for (unsigned i = 0; i < 4; i++) {
		CTL(k, NFS4_OP_ROOT);

		n4.maxops = t[i].maxops;
		k.path = path;
		for (unsigned done = 0; done < 40; ) {
			unsigned n = 40 - done < t[i].each ? 40 - done : t[i].each;
			const char *at = k.at;

			new_session4();
			cr_assert_eq(nfs4_acquire(target4(), &k.c), 1);
			m_seq_args(4 + n, false);
			if (done) {
				M(22);
				m_opaque("here", 4);
			} else {
				M(24);
			}
			for (unsigned c = 0; c < n; c++) {
				char name[8];

				sprintf(name, "d%u", done + c);
				M(15);
				m_str(name);
			}
			M(10, 9, 2, 0xe810051b, 0x0030a23a);
			play_args(&k.c, d);
			m_seq_res();
			m_op(done ? 22 : 24);
			for (unsigned c = 0; c < n; c++)
				m_op(15);
			m_root_end(2);
			play_all_cuts(&k.c, d, &hooks4);
			cr_assert_eq(k.at, at, "what was cut off is asked for again");
			done += n;
			cr_assert_eq(play_reply(&k.c, d), done < 40 ? NFS_NEXT : 0);
		}
		cr_assert(k.at == path + strlen(path) && k.been == k.at);
	}
}

/* What is no directory, and what of the way was found. */
Test(nfs4_session, root_that_is_no_directory)
{
	static const struct { uint32_t type, lookup; int rc; uint32_t status; const char *been; } t[] = {
		{ 5, 0, -ELOOP, NFS4ERR_SYMLINK, "/a/b" }, { 1, 0, -ENOTDIR, NFS4ERR_NOTDIR, "/a/b" },
		{ 2, NFS4ERR_SYMLINK, -ELOOP, NFS4ERR_SYMLINK, "/a" },
		{ 2, NFS4ERR_NOTDIR, -ENOTDIR, NFS4ERR_NOTDIR, "/a" },
	};

	for (unsigned i = 0; i < 4; i++) {
		CTL(k, NFS4_OP_ROOT);

		k.path = "/a/b";
		m_seq_res();
		m_op(24);
		m_op(15);
		m_op(15);
		if (t[i].lookup)
			m_fail_at(3, t[i].lookup);
		else
			m_root_end(t[i].type);
		cr_assert_eq(play_reply(&k.c, def_of(NFS4_OP_ROOT)), t[i].rc, "row %u", i);
		cr_assert_eq(k.status, t[i].status);
		cr_assert_eq((size_t)(k.been - k.path), strlen(t[i].been));
	}
}

/* ---- attributes ---- */

/* What every server has: type, change, size, fsid. As a mask; length and values, up to the type
 * and behind it. */
#define REQ       0x11a
#define REQ_REST  0, 1, 0, 0, 0, 1, 0, 1
#define REQ_BYTES 36

Test(nfs4_session, attribute_bitmaps)
{
	static const struct { const char *what; unsigned n; uint32_t w[24]; int rc; } t[] = {
		{ "what every server has", 12, { 1, REQ, REQ_BYTES, 1, REQ_REST }, 0 },
		{ "type alone", 4, { 1, 0x2, 4, 1 }, -EBADMSG },
		{ "words of zeros behind", 19, { 8, REQ, 0, 0, 0, 0, 0, 0, 0, REQ_BYTES, 1, REQ_REST }, 0 },
		{ "nine words", 20, { 9, REQ, 0, 0, 0, 0, 0, 0, 0, 0, REQ_BYTES, 1, REQ_REST }, -EBADMSG },
		{ "words without end", 12, { 0xffffffff, REQ, REQ_BYTES, 1, REQ_REST }, -EBADMSG },
		{ "no type", 11, { 1, REQ & ~2u, REQ_BYTES - 4, REQ_REST }, -EBADMSG },
		{ "no words", 2, { 0, 0 }, -EBADMSG },
		/* Values have no length: what was not asked for cannot be skipped. */
		{ "mandatory, not asked for", 13, { 1, REQ | 4, REQ_BYTES + 4, 1, 0, REQ_REST }, -EBADMSG },
		{ "unknown number", 15, { 3, REQ, 0, 0x80000000, REQ_BYTES + 4, 1, REQ_REST, 0 }, -EBADMSG },
		{ "unknown number without a value", 14, { 3, REQ, 0, 0x80000000, REQ_BYTES, 1, REQ_REST }, -EBADMSG },
		{ "the highest number", 20, { 8, REQ, 0, 0, 0, 0, 0, 0, 0x80000000, REQ_BYTES + 4, 1, REQ_REST, 0 },
		  -EBADMSG },
		{ "one bit", 12, { 1, 0xffffffff, REQ_BYTES, 1, REQ_REST }, -EBADMSG },
		{ "value too short", 11, { 1, REQ, REQ_BYTES - 4, 1, 0, 1, 0, 0, 0, 1, 0 }, -EBADMSG },
		{ "value too long", 13, { 1, REQ, REQ_BYTES + 4, 1, REQ_REST, 0 }, -EBADMSG },
		{ "cut in a word", 12, { 1, REQ, REQ_BYTES - 2, 1, REQ_REST }, -EBADMSG },
		{ "length beyond the message", 12, { 1, REQ, 0x7fffffff, 1, REQ_REST }, -EBADMSG },
		{ "type 0", 12, { 1, REQ, REQ_BYTES, 0, REQ_REST }, -EBADMSG },
		{ "type 8, an attribute directory", 12, { 1, REQ, REQ_BYTES, 8, REQ_REST }, 0 },
		{ "type 10", 12, { 1, REQ, REQ_BYTES, 10, REQ_REST }, -EBADMSG },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call4(NFS_OP_GETATTR);

		m_res();
		m_op(9);
		m_words(t[i].w, t[i].n);
		cr_assert_eq(play_reply(&c, def_of(c.op)), t[i].rc, "%s", t[i].what);
		cr_assert_eq(c.res.has_attr, t[i].rc == 0);
		if (!t[i].rc)
			cr_assert(c.res.attr.uid == 65534 && c.res.attr.gid == 65534, "nobody, if not told");
	}
}

Test(nfs4_session, owner_names)
{
	static const struct { const char *name; uint32_t id; } t[] = {
		{ "0", 0 }, { "1000", 1000 }, { "4294967295", 4294967295 }, { "0000000007", 7 },
		{ "4294967296", 65534 }, { "9999999999", 65534 }, { "10000000000", 65534 },
		{ "18446744073709551617", 65534 },
		{ "", 65534 }, { "root@example.org", 65534 }, { "1000@x", 65534 }, { "-1", 65534 },
		{ "+1", 65534 }, { " 1", 65534 }, { "0x10", 65534 },
	};
	static char longest[1026];

	memset(longest, 'x', 1025);
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]) + 2; i++) {
		bool known = i < sizeof(t) / sizeof(t[0]);
		struct nfs_call c = call4(NFS_OP_GETATTR);
		uint32_t at;

		if (i == sizeof(t) / sizeof(t[0]))
			longest[1024] = '\0';
		if (i > sizeof(t) / sizeof(t[0]))
			longest[1024] = 'x';
		m_res();
		m_op(9);
		M(2, REQ, 0x10);
		at = m_len();
		M(0, 1, REQ_REST);
		m_str(known ? t[i].name : longest);
		m_end_opaque(at);
		if (i > sizeof(t) / sizeof(t[0])) {
			cr_assert_eq(play_cut(&c, def_of(c.op), m_len()), -EBADMSG);
			continue;
		}
		cr_assert_eq(play_cut(&c, def_of(c.op), m_len()), 0);
		cr_assert_eq(c.res.attr.uid, known ? t[i].id : 65534, "'%s': %u",
			     known ? t[i].name : "longest", c.res.attr.uid);
	}
}

Test(nfs4_session, times)
{
	static const struct { uint32_t hi, lo, nsec; time_t sec; long got; } t[] = {
		{ 0, 1, 999999999, 1, 999999999 }, { 0, 1, 1000000000, 1, 0 },
		{ 0, 1, 0xffffffff, 1, 0 }, { 0xffffffff, 0xffffffff, 0, -1, 0 },
		{ 1, 0, 5, 4294967296, 5 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call4(NFS_OP_GETATTR);

		m_res();
		m_op(9);
		M(2, REQ, 1 << 21, REQ_BYTES + 12, 1, REQ_REST, t[i].hi, t[i].lo, t[i].nsec);
		cr_assert_eq(play_reply(&c, def_of(c.op)), 0);
		cr_assert(c.res.attr.mtime.tv_sec == t[i].sec && c.res.attr.mtime.tv_nsec == t[i].got);
	}
}
