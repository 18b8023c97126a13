/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * State that the server takes away while it knows the client: what SEQUENCE's flags
 * lead to, and which opens it is about.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include "nfs4_server.h"
#include "nfs/nfs4/nfs4_compound.h"

static void start(void)
{
	server4_start();
	server4_mount();
	client4()->lease_s = 90;
}

TestSuite(nfs4_revoked, .init = start, .fini = server4_stop, .timeout = 300);

/* Any call of the mount, which sees the flags. */
static void look(void)
{
	struct one_call call = { 0 };

	begin(&call, NFS_OP_GETATTR, NULL);
	await(&call, 0);
}

/* As the control thread does when it is asked to. */
static unsigned recover_if_asked(void)
{
	bool asked;

	pthread_mutex_lock(&fake_ctl.mu);
	asked = fake_ctl.recover;
	fake_ctl.recover = false;
	pthread_mutex_unlock(&fake_ctl.mu);
	if (asked)
		cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	return asked;
}

static void have_opens(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		have_open(i);
}

/* The client asks which opens are meant, and frees the revoked ones. Then the server clears
 * its flag. The other opens are not touched. */
Test(nfs4_revoked, some_are_freed_and_opened_again)
{
	have_opens(4);
	server.flags = SEQ4_STATUS_ADMIN_STATE_REVOKED;
	server.test[1] = NFS4ERR_ADMIN_REVOKED;
	server.test[2] = NFS4ERR_BAD_STATEID;
	server.test[3] = NFS4ERR_OLD_STATEID;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "gTfFF");
	cr_assert_eq(server.freed, 1 << 1, "what the server does not know is not freed");
	cr_assert_eq(server.flags, 0);
	expect_open(1, false);
	expect_open(2, false);
	cr_assert_eq(open_nr(0)->stateid.seqid, 0);
	cr_assert_eq(open_nr(3)->stateid.seqid, 0);
	look();
	cr_assert_eq(recover_if_asked(), 0);
}

Test(nfs4_revoked, each_flag_is_acted_upon)
{
	static const uint32_t flags[] = {
		SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED, SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED,
		SEQ4_STATUS_ADMIN_STATE_REVOKED, SEQ4_STATUS_RECALLABLE_STATE_REVOKED,
		SEQ4_STATUS_LEASE_MOVED,
	};

	have_open(0);
	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		memset(server.log, 0, sizeof(server.log));
		server.flags = flags[i];
		look();
		cr_assert_eq(recover_if_asked(), 1, "flag %#x", flags[i]);
		cr_assert_str_eq(server.log, "gT");
		server.flags = 0;
		look();
		cr_assert_eq(recover_if_asked(), 0);
	}
	memset(server.log, 0, sizeof(server.log));
	server.flags = SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
	server.complete = false;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "gPC");
}

/* The server restarts again before anybody has seen it without the flag. */
Test(nfs4_revoked, each_restart_is_noticed)
{
	have_open(0);
	server.flags = SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
	for (unsigned i = 0; i < 3; i++) {
		memset(server.log, 0, sizeof(server.log));
		server.complete = false;
		look();
		look();
		cr_assert_eq(recover_if_asked(), 1, "restart %u", i);
		cr_assert_str_eq(server.log, "ggPC");
	}
}

static void note_late_reply(struct nfs_lane *l, void *arg)
{
	struct nfs_call c = { .op = NFS_OP_GETATTR, .lane = l, .target = &l->target, .eng.start_ns = *(uint64_t *)arg };

	nfs4_note_flags(&c, SEQ4_STATUS_RESTART_RECLAIM_NEEDED);
}

/* A reply that was on its way while all was reclaimed says nothing new. */
Test(nfs4_revoked, a_late_reply_is_no_restart)
{
	uint64_t before = mono_ns(), after;

	have_open(0);
	server.flags = SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
	server.complete = false;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	nfs_each_lane(&fake_cl, note_late_reply, &before);
	cr_assert_eq(recover_if_asked(), 0);
	after = mono_ns();
	nfs_each_lane(&fake_cl, note_late_reply, &after);
	cr_assert(atomic_load(&client4()->need_opens));
}

/* One open cannot be opened again, but the others can. */
Test(nfs4_revoked, one_is_lost_by_itself)
{
	have_opens(3);
	server.flags = SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED;
	for (unsigned i = 0; i < 3; i++)
		server.test[i] = NFS4ERR_EXPIRED;
	server.open[1] = NFS4ERR_STALE;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "gTfFfFfF");
	expect_open(0, false);
	expect_open(1, true);
	expect_open(2, false);
}

/* More than go into one call. */
Test(nfs4_revoked, many)
{
	for (unsigned i = 0; i < 2 * NFS4_TEST_MAX + 1; i++)
		have_open(0);
	server.flags = SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "gTTT");
	cr_assert_eq(server.tested, 2 * NFS4_TEST_MAX + 1);
}

/* The flag is about state that we do not know. Asking once in a lease is enough. */
Test(nfs4_revoked, a_flag_that_stays)
{
	have_open(0);
	server.flags = SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
	server.flags_stay = true;
	for (unsigned i = 0; i < 20; i++) {
		look();
		cr_assert_eq(recover_if_asked(), i == 0);
		nfs4_tick(&fake_cl.server);
		cr_assert_eq(recover_if_asked(), 0);
	}
	/* What is revoked while it is up is found, too. */
	server.test[0] = NFS4ERR_EXPIRED;
	memset(server.log, 0, sizeof(server.log));
	client4()->tested_ns = mono_ns() - 91000000000;
	nfs4_tick(&fake_cl.server);
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "TfF");
	expect_open(0, false);
}

/* A mount without work hears of it when it renews its lease. */
Test(nfs4_revoked, a_renewal_sees_the_flags)
{
	have_open(0);
	server.flags = SEQ4_STATUS_ADMIN_STATE_REVOKED;
	server.test[0] = NFS4ERR_ADMIN_REVOKED;
	client4()->lease_s = 0;         /* due now */
	nfs4_tick(&fake_cl.server);
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "nTfF");
	expect_open(0, false);
}

/* An open that nobody uses any more is freed, and not opened again. */
Test(nfs4_revoked, close_frees)
{
	struct one_call close = { 0 };

	have_open(0);
	server.close = NFS4ERR_ADMIN_REVOKED;
	begin(&close, NFS_OP_CLOSE, open_nr(0));
	await(&close, 0);
	cr_assert_str_eq(server.log, "cf");
	cr_assert_eq(server.freed, 1);
	cr_assert(!nfs4_next_open(client4(), NULL));
}

/* I/O fails because of it: the stateid is freed before the file is opened again. */
Test(nfs4_revoked, io_that_finds_it)
{
	struct one_call set = { 0 };

	have_open(0);
	server.set = NFS4ERR_EXPIRED;
	server.test[0] = NFS4ERR_EXPIRED;
	begin(&set, NFS_OP_SETATTR, open_nr(0));
	server4_await(1);
	while (!recover_if_asked())
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	cr_assert_str_eq(server.log, "sTfF");
	resume();
	await(&set, 0);
	cr_assert_str_eq(server.log, "sTfFs");
}

/* The server has said that open 1 is good, and revokes it. A call finds that out before the others are opened again. */
static void revokes_the_second(void)
{
	struct nfs_call c = {
		.op = NFS_OP_SETATTR, .open = open_nr(1), .lane = &fake_lanes[0], .target = &fake_lanes[0].target,
	};

	server.executed = NULL;
	server.test[1] = NFS4ERR_ADMIN_REVOKED;
	cr_assert_eq(nfs4_error(&c, NFS4ERR_ADMIN_REVOKED), NFS_REOPEN);
}

Test(nfs4_revoked, one_after_it_was_tested)
{
	have_opens(2);
	server.flags = SEQ4_STATUS_ADMIN_STATE_REVOKED;
	server.test[0] = NFS4ERR_ADMIN_REVOKED;
	server.executed = revokes_the_second;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "gTfFfF");
	cr_assert_eq(server.freed, 3, "or the server keeps it");
	cr_assert_eq(server.flags, 0);
	expect_open(0, false);
	expect_open(1, false);
}

/* Some servers cannot test stateids. Then the replies to I/O tell, one by one. */
Test(nfs4_revoked, a_server_that_cannot_test)
{
	have_opens(2);
	server.flags = SEQ4_STATUS_ADMIN_STATE_REVOKED;
	server.cannot_test = true;
	server.flags_stay = true;
	for (unsigned i = 0; i < 5; i++) {
		look();
		cr_assert_eq(recover_if_asked(), i == 0);
	}
	cr_assert_str_eq(server.log, "gTgggg");
	cr_assert_not(atomic_load(&open_nr(0)->lost));
}

/* Too few results: nobody knows which belongs to which stateid, so none is believed. */
Test(nfs4_revoked, fewer_results_than_stateids)
{
	have_opens(2);
	server.flags = SEQ4_STATUS_ADMIN_STATE_REVOKED;
	server.test[0] = NFS4ERR_ADMIN_REVOKED;
	server.tests_fewer = true;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "gT");
	cr_assert_eq(server.freed, 0);
}

/* ---- delegations ---- */

/* Open i has one. Its stateid is what TEST_STATEID finds in server.test[i]. */
static void have_delegation(unsigned i)
{
	client4()->back.has = true;
	give_delegation(i, 0, &(stateid4){ .other[0] = (char)i });
	client4()->back.has = false;
}

static unsigned ndelegs(void)
{
	return atomic_load(&client4()->delegs.count);
}

/* What is revoked is due: DELEGRETURN's answer tells whether the server keeps it. What is not known is
 * gone. */
Test(nfs4_revoked, delegations)
{
	have_opens(4);
	for (unsigned i = 0; i < 4; i++)
		have_delegation(i);
	server.flags = SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
	server.test[1] = NFS4ERR_DELEG_REVOKED;
	server.test[2] = NFS4ERR_BAD_STATEID;
	server.test[3] = NFS4ERR_OLD_STATEID;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "gTTfFF");
	cr_assert_eq(ndelegs(), 3);
	cr_assert_eq(client4()->delegs.in[NFS4_DUE].n, 1);
	cr_assert_eq(nfs4_delegs_take(&fake_cl.server)->file, open_nr(1)->file);
}

/* More than go into one TEST_STATEID, and a server that cannot test them. */
Test(nfs4_revoked, many_delegations)
{
	const unsigned n = 2 * NFS4_TEST_MAX;

	for (unsigned i = 0; i < n; i++)
		have_open(i);
	for (unsigned i = 0; i < n; i++)
		have_delegation(i);
	server.flags = SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
	server.test[0] = NFS4ERR_STALE_STATEID;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "gTTTTF");
	cr_assert_eq(server.tested, 2 * n);
	cr_assert_eq(ndelegs(), n - 1);
	server.flags = 0;
	look();
	server.cannot_test = true;
	server.flags = SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_eq(ndelegs(), n - 1);
	cr_assert_eq(client4()->delegs.in[NFS4_DUE].n, 0);
}

/* Opens are reclaimed, and delegations are not. */
Test(nfs4_revoked, delegations_of_before_the_restart)
{
	have_open(0);
	have_delegation(0);
	server.flags = SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
	server.complete = false;
	look();
	cr_assert_eq(recover_if_asked(), 1);
	cr_assert_str_eq(server.log, "gPC");
	cr_assert_eq(ndelegs(), 0);
}

/* Or else the server would keep the client id. */
Test(nfs4_revoked, delegations_at_the_end)
{
	have_opens(3);
	for (unsigned i = 0; i < 3; i++)
		have_delegation(i);
	server.delegreturn = NFS4ERR_BAD_STATEID;
	nfs4_umount(&fake_cl.server);
	cr_assert_str_eq(server.log, "rrrDE");
	cr_assert_eq(ndelegs(), 0);
}
