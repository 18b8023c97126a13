/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locks of version 3: calls, bad answers, and what becomes of what is held on a new connection. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>
#include "nlm_lockd.h"

TestSuite(nlm, .init = lockd_start, .fini = lockd_stop, .timeout = 300);

/* ---- calls ---- */

Test(nlm, what_is_asked_and_held)
{
	cr_assert_eq(lock(10, 5, true), 0);
	cr_assert(res.has_attr && res.lock.held && !res.lock.had);
	cr_assert_eq(res.attr.size, 4711);
	cr_assert_eq(lockd.svid >> 30, 1, "neither a kernel's nor a process id");
	cr_assert_eq(lock(12, TO_EOF, false), 0);
	cr_assert(res.lock.had);
	lockd_expect_log("L10+5w L12+0r ");
	cr_assert_eq(unlock(10, 2), 0);
	cr_assert(res.lock.held);
	cr_assert_eq(ask(NFS_OP_LOCKU, OWNER, 3, 4, false, true), 0);
	cr_assert(!res.lock.held && owners() == 0);
	lockd_expect_log("U10+2 U0+0 ");
	cr_assert_eq(test(), 0);
	lockd_expect_log("T0+0w ");
}

Test(nlm, each_owner_is_another_one)
{
	uint32_t svid, oh[4];

	cr_assert_eq(lock(0, 1, true), 0);
	svid = lockd.svid;
	memcpy(oh, lockd.oh, 16);
	cr_assert_eq(ask(NFS_OP_LOCK, OWNER + 1, 1, 1, true, false), 0);
	cr_assert(lockd.svid != svid && memcmp(oh, lockd.oh, 16));
	cr_assert_eq(owners(), 2);
}

/* It is locked whatever the server says then. */
Test(nlm, no_attributes)
{
	lockd.getattr = 70;             /* STALE */
	cr_assert_eq(lock(10, 5, true), 0);
	cr_assert(!res.has_attr && res.lock.held && owners() == 1);
	lockd.getattr = 10008;          /* JUKEBOX */
	begin_of(NFS_OP_LOCK, 20);
	wait_for_calls(1, 0);
	lockd.getattr = 0;
	wait_for_calls(0, 0);
	lockd_expect_log("L10+5w L20+1r ");
}

/* They are in one chain. */
Test(nlm, owners_with_the_same_hash)
{
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(ask(NFS_OP_LOCK, OWNER + i * NLM_OWNERS, i, 1, true, false), 0);
	cr_assert_eq(ask(NFS_OP_LOCKU, OWNER + 2 * NLM_OWNERS, 2, 1, false, false), 0);
	lockd_cut();
	cr_assert_eq(ask(NFS_OP_LOCKU, OWNER, 0, 1, false, false), 0);
	cr_assert_eq(owners(), 2);
	cr_assert_eq(ask(NFS_OP_LOCKT, OWNER, 3, 1, true, false), -EAGAIN);
	cr_assert_eq(res.lock.holder, OWNER + 3 * NLM_OWNERS);
}

Test(nlm, answers)
{
	static const struct { uint32_t stat; int lock, unlock; } t[] = {
		{ NLM4_DENIED, -EAGAIN, -ENOLCK }, { NLM4_DENIED_NOLOCKS, -ENOLCK, -ENOLCK },
		{ NLM4_DEADLCK, -EDEADLK, -EDEADLK }, { NLM4_ROFS, -EROFS, -EROFS },
		{ NLM4_STALE_FH, -ESTALE, 0 }, { NLM4_FBIG, -EOVERFLOW, -EOVERFLOW },
		{ NLM4_FAILED, -ENOLCK, -ENOLCK }, { NLM4_BLOCKED, -EIO, -EIO },
		{ 10, -EIO, -EIO }, { 0x80000000, -EIO, -EIO }, { 0xffffffff, -EIO, -EIO },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		lockd_answers(t[i].stat, 0);
		cr_expect_eq(lock(0, 1, true), t[i].lock, "%x", t[i].stat);
		cr_expect_eq(unlock(0, 1), t[i].unlock, "%x", t[i].stat);
		lockd_answers(NLM4_GRANTED, 0);
		cr_expect_eq(unlock(0, 1), 0);
		cr_expect_eq(owners(), 0);
	}
}

/* Without a number the holder is not of this mount. */
Test(nlm, who_is_in_the_way)
{
#define HOLDER(...) do { \
	static const uint32_t holder_w[] = { __VA_ARGS__ }; \
	lockd.nholder = sizeof(holder_w) / 4; \
	memcpy(lockd.holder, holder_w, sizeof(holder_w)); \
} while (0)
	uint32_t oh[4];

	cr_assert_eq(lock(12, 1, true), 0);
	memcpy(oh, lockd.oh, 16);
	lockd.stat = NLM4_DENIED;
	/* Linux does not say who it is. */
	HOLDER(1, 4711, 0, 0, 10, 0, 5);
	cr_assert_eq(test(), -EAGAIN);
	cr_assert(res.lock.write && res.lock.offset == 10 && res.lock.length == 5);
	cr_assert_eq(res.lock.holder, 0, "one is not in one's own way");
	/* Nor is it asked about what this mount holds itself. */
	cr_assert_eq(ask(NFS_OP_LOCKT, OWNER + 1, 0, TO_EOF, false, false), -EAGAIN);
	cr_assert(res.lock.write && res.lock.offset == 12 && res.lock.length == 1 && res.lock.holder == OWNER);
	HOLDER(0, 4711, 0, 0xffffffff, 0xffffffff, 0, 0);
	cr_assert_eq(test(), -EAGAIN);
	cr_assert(!res.lock.write && res.lock.offset == UINT64_MAX && res.lock.length == UINT64_MAX);
	cr_assert_eq(res.lock.holder, 0);
	HOLDER(7, 1, 16, 0, 0, 0, 0, 0, 10, 0xffffffff, 0xfffffff0);
	cr_assert_eq(test(), -EAGAIN);
	cr_assert(res.lock.write && res.lock.holder == 0, "another client's");
	for (unsigned i = 0; i < 4; i++)
		lockd.holder[3 + i] = ntohl(oh[i]);
	cr_assert_eq(test(), -EAGAIN);
	cr_assert_eq(res.lock.holder, OWNER);
	HOLDER(1, 1, 3, 0x61626300, 0, 10, 0, 5);
	cr_assert_eq(test(), -EAGAIN);
	cr_assert_eq(res.lock.holder, 0);
	lockd_expect_log("L12+1w T0+0w T0+0w T0+0w T0+0w T0+0w ");
	/* Too long, and cut: three times, and on a new connection each time. */
	HOLDER(1, 1, 1025);
	cr_assert_eq(test(), -EIO);
	HOLDER(1, 1, 4, 0x61626364, 0, 10, 0);
	cr_assert_eq(test(), -EIO);
	lockd.stat = NLM4_GRANTED;
	cr_assert_eq(test(), 0);
}

/* ---- bad answers ---- */

Test(nlm, an_answer_that_says_nothing)
{
	static const enum wrong t[] = { CUT, WRONG_XID, WRONG_COOKIE, LONG_COOKIE, LONG_RECORD, REFUSES, CLOSES };

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		lockd.cut = 8;
		lockd_does(t[i], 1);
		cr_assert_eq(lock(0, 1, true), 0, "%u", i);
		lockd_does(t[i], 1);
		cr_assert_eq(unlock(0, 1), 0);
		lockd_expect_log("L0+1w L0+1w U0+1 U0+1 ");
		cr_assert_eq(owners(), 0);
	}
	/* It may have been granted. */
	for (unsigned i = 0; i < 6; i++) {
		lockd_does(t[i], 3);
		cr_assert_eq(lock(0, 1, true), -EIO, "%u", i);
		wait_for_owners(0);
		lockd_expect_log("L0+1w L0+1w L0+1w U0+1 ");
	}
	for (lockd.cut = 0; lockd.cut < 9; lockd.cut++) {
		lockd_does(CUT, 1);
		cr_assert_eq(lock(0, 1, true), 0, "%u words", lockd.cut);
		lockd_expect_log("L0+1w L0+1w ");
		cr_assert_eq(unlock(0, 1), 0);
		lockd_expect_log("U0+1 ");
	}
}

/* ---- the connection and the server ---- */

/* All that is held is asked for again, first as a reclaim, and what is to be unlocked is not. It has not
 * restarted. */
Test(nlm, a_connection_is_lost)
{
	cr_assert_eq(lock(0, 5, true), 0);
	cr_assert_eq(lock(10, 5, false), 0);
	lockd_cut();
	cr_assert_eq(unlock(0, 5), 0);
	cr_assert_eq(owners(), 1);
	lockd_cut();
	cr_assert_eq(test(), 0);
	cr_assert_eq(unlock(10, 5), 0);
	lockd_cut();
	cr_assert_eq(test(), 0);
	lockd_expect_log("L0+5w L10+5r R10+5r L10+5r U0+5 R10+5r L10+5r T0+0w U10+5 T0+0w ");
}

Test(nlm, a_restart)
{
	cr_assert_eq(lock(0, 5, true), 0);
	cr_assert_eq(lock(10, TO_EOF, false), 0);
	lockd_answers(NLM4_GRANTED, 2);
	lockd_cut();
	cr_assert_eq(test(), 0);
	lockd_expect_log("L0+5w L10+0r R0+5w R10+0r T0+0w T0+0w T0+0w ");
	cr_assert_eq(said_times("has restarted: locks of 1 owners were reclaimed"), 1);
	cr_assert_eq(unlock(0, TO_EOF), 0);
	lockd_expect_log("U0+0 ");
}

/* The connection has not told of it. */
Test(nlm, a_grace_period_out_of_nothing)
{
	cr_assert_eq(lock(0, 5, true), 0);
	lockd_answers(NLM4_GRANTED, 2);
	cr_assert_eq(test(), 0);
	lockd_expect_log("L0+5w T0+0w R0+5w T0+0w T0+0w ");
	lockd_answers(NLM4_GRANTED, 2);
	cr_assert_eq(unlock(0, 5), 0);
	lockd_expect_log("U0+5 U0+5 U0+5 ");
}

static void age(struct nfs_lane *l, void *arg)
{
	list_for_each_entry(struct nfs_call, c, &l->running, eng.run_node) {
		c->eng.start_ns -= 300000000000ull;
		if (arg && nfs3_call(c)->grace_ns)
			nfs3_call(c)->grace_ns -= 300000000000ull;
	}
}

/* Calls have waited for a server that was away for longer than its grace period lasts. */
Test(nlm, the_grace_period_counts_from_its_first_answer)
{
	lockd_does(CLOSES, 0);
	begin_of(NFS_OP_LOCK, 0);
	nfs_each_lane(&fake_cl, age, NULL);
	lockd_answers(NLM4_GRANTED, 5);
	lockd_does(WELL, 0);
	wait_for_owners(1);
	wait_for_calls(0, 0);
}

/* LOCK ends, LOCKU does not. */
Test(nlm, a_grace_period_without_end)
{
	cr_assert_eq(lock(5, 1, true), 0);
	lockd_answers(NLM4_GRANTED, 100000);
	begin_of(NFS_OP_LOCK, 0);
	begin_of(NFS_OP_LOCKU, 5);
	nfs_each_lane(&fake_cl, age, &fake_cl);
	wait_for_calls(0, 1);
	lockd_answers(NLM4_GRANTED, 0);
	wait_for_owners(0);
}

/* Then its grace period may have come and gone. */
Test(nlm, a_server_that_was_away_for_long)
{
	cr_assert_eq(lock(0, 5, true), 0);
	lockd_cut();
	cr_assert_eq(test(), 0);
	cr_assert_eq(said_times("did not answer for long"), 0);
	mounted->nlm->answered_ns -= 60000000000ull;
	lockd_cut();
	cr_assert_eq(test(), 0);
	cr_assert_eq(said_times("did not answer for long"), 1);
	cr_assert_eq(owners(), 1);
}

/* Another client has it by now. It is not asked for again. */
Test(nlm, a_lock_is_lost)
{
	cr_assert_eq(lock(0, 5, true), 0);
	lockd_answers(NLM4_DENIED, 0);
	lockd_cut();
	cr_assert_eq(lock(20, 1, false), -EAGAIN);
	cr_assert_eq(owners(), 0);
	cr_assert_eq(said_times("was lost, because another client has it"), 1);
	lockd_answers(NLM4_GRANTED, 0);
	lockd_cut();
	cr_assert_eq(unlock(0, 5), 0);
	lockd_expect_log("L0+5w R0+5w L0+5w L20+1r U0+5 ");
}

/* Only "denied" is the last word. */
Test(nlm, a_lock_is_not_given_back_yet)
{
	static const uint32_t t[] = { NLM4_FAILED, NLM4_DENIED_NOLOCKS, NLM4_STALE_FH, 77, NLM4_DENIED_GRACE_PERIOD };

	for (unsigned i = 0; i < 6; i++) {
		cr_assert_eq(lock(0, 5, true), 0);
		if (i < 5)
			lockd_answers(t[i], 0);
		else
			lockd_does(REFUSES, 0);
		lockd_cut();
		lockd_wait_for_log("L0+5w R0+5w ");
		usleep(100000);
		cr_assert_eq(owners(), 1);
		lockd_answers(NLM4_GRANTED, 0);
		lockd_does(WELL, 0);
		cr_assert_eq(unlock(0, 5), 0);
		pthread_mutex_lock(&lockd.mu);
		lockd.log[0] = '\0';
		pthread_mutex_unlock(&lockd.mu);
	}
	cr_assert_eq(said_times("was lost"), 0);
	cr_assert_eq(said_times("is not given back (NLM status 8); still trying"), 0);
	cr_assert_eq(said_times("is not given back (NLM status 9); still trying"), 1);
}

/* While nobody asks for anything. */
Test(nlm, a_restart_is_noticed)
{
	cr_assert_eq(lock(0, 5, true), 0);
	lockd_answers(NLM4_GRANTED, 100);
	lockd_cut();
	lockd_wait_for_log("R");
	lockd_answers(NLM4_GRANTED, 0);
	lockd_expect_log("L0+5w R0+5w ");
}
