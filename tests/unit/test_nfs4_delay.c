/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recovery of opens that the server delays: what else goes on meanwhile, and what happens to
 * those opens. The control thread runs, as in a mount.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include "nfs4_server.h"

#define FOR_EVER UINT32_MAX
#define NEW_STATEID 0x6e657773u         /* as the server's first word of it */

static struct one_call set;

static void start(void)
{
	server4_start();
	server4_mount();
	fake_times.later_ms = 1;
	have_open(0);
	have_open(1);
	cr_assert_eq(nfs_control_start(&fake_cl), 0);
}

static void stop(void)
{
	cr_assert(nfs_control_stop(&fake_cl, 30000));
	server4_stop();
}

TestSuite(nfs4_delay, .init = start, .fini = stop, .timeout = 60);

static char seen[sizeof(server.log)];

static void copy_log(struct nfs_lane *l, void *arg)
{
	(void)l;
	(void)arg;
	memcpy(seen, server.log, sizeof(seen));
}

/* What has been noted by now: the server may be at work. */
static const char *log_now(void)
{
	nfs_each_lane(&fake_cl, copy_log, NULL);
	return seen;
}

static unsigned count_of(char letter)
{
	unsigned n = 0;

	for (const char *p = log_now(); *p; p++)
		n += *p == letter;
	return n;
}

/* Open 0 is lost, and the server delays what would open it again. A SETATTR waits for it. */
static void delay_open_0(void)
{
	server.open[0] = NFS4ERR_DELAY;
	server.set = NFS4ERR_BAD_STATEID;
	begin(&set, NFS_OP_SETATTR, open_nr(0));
	server4_await(3);
	cr_assert(log_now()[0] == 's' && strspn(seen + 1, "F") == strlen(seen) - 1, "%s", seen);
}

static void get_attr(void)
{
	struct one_call get = { 0 };

	begin(&get, NFS_OP_GETATTR, NULL);
	await(&get, 0);
}

Test(nfs4_delay, other_calls_go_on)
{
	struct one_call other = { 0 };

	delay_open_0();
	get_attr();
	begin(&other, NFS_OP_SETATTR, open_nr(1));
	await(&other, 0);
	server.open[0] = 0;
	await(&set, 0);
	expect_open(0, false);
}

/* It is not the first in the list, and has its turn all the same. */
Test(nfs4_delay, other_opens_are_recovered)
{
	struct one_call other = { 0 };

	delay_open_0();
	server.set = NFS4ERR_BAD_STATEID;
	begin(&other, NFS_OP_SETATTR, open_nr(1));
	await(&other, 0);
	expect_open(1, false);
	cr_assert(atomic_load(&open_nr(0)->reopen));
	server.open[0] = 0;
	await(&set, 0);
	expect_open(0, false);
}

/* Nobody uses it any more, so nobody opens it again. */
Test(nfs4_delay, close_does_not_wait)
{
	struct one_call close = { 0 }, other = { 0 };
	const char *rest;

	server.open[0] = NFS4ERR_DELAY;
	atomic_store(&open_nr(0)->reopen, true);
	nfs_control_recover(&fake_cl);
	server4_await(2);
	begin(&close, NFS_OP_CLOSE, open_nr(0));
	await(&close, 0);
	cr_assert_neq(server.closed, NEW_STATEID);
	/* Another recovery, of the other open. */
	server.set = NFS4ERR_BAD_STATEID;
	begin(&other, NFS_OP_SETATTR, open_nr(0));
	await(&other, 0);
	rest = strchr(log_now(), 'c');
	cr_assert(rest && strspn(seen, "F") == (size_t)(rest - seen));
	cr_assert_str_eq(rest, "csFs");
}

static void see_parked(struct nfs_lane *l, void *arg)
{
	*(bool *)arg = !list_empty(&l->parked);
}

/* The server opens the file just now: it is closed after that, by what it is open as. */
Test(nfs4_delay, close_waits_for_the_open_under_way)
{
	struct one_call close = { 0 };
	bool waits = false;

	fake_lane_quiet = true;
	atomic_store(&open_nr(0)->reopen, true);
	nfs_control_recover(&fake_cl);
	while (atomic_load(&open_nr(0)->holder) != NFS4_RECOVERED)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	begin(&close, NFS_OP_CLOSE, open_nr(0));
	while (!waits)
		nfs_each_lane(&fake_cl, see_parked, &waits);
	fake_lane_quiet = false;
	await(&close, 0);
	cr_assert_str_eq(log_now(), "Fc");
	cr_assert_eq(server.closed, NEW_STATEID);
}

/* Another session, and then the same again. */
Test(nfs4_delay, the_session_is_lost_meanwhile)
{
	delay_open_0();
	server.badsession = 1;
	while (!count_of('S'))
		get_attr();
	cr_assert(atomic_load(&open_nr(0)->reopen));
	server.open[0] = 0;
	await(&set, 0);
	expect_open(0, false);
	cr_assert_eq(count_of('P'), 0);
}

/* All is reclaimed, and that is so only once, although the server goes on asking for it. */
static void reclaim_whose_end_is_told(uint32_t error)
{
	server.complete_error = error;
	server.complete_delays = FOR_EVER;
	server.complete = false;
	server.flags = SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
	get_attr();
	while (!count_of('d'))
		get_attr();
	for (unsigned i = 0; i < 5; i++)
		get_attr();
	server.flags = 0;
	get_attr();
	server.complete_delays = 0;
	while (!count_of('C'))
		get_attr();
	cr_assert_eq(count_of('P'), 2, "%s", seen);
	cr_assert_eq(count_of('C'), 1);
}

Test(nfs4_delay, the_end_of_reclaim)
{
	reclaim_whose_end_is_told(NFS4ERR_DELAY);
}

/* Other calls have nothing to wait for. */
Test(nfs4_delay, the_end_of_reclaim_is_refused)
{
	reclaim_whose_end_is_told(NFS4ERR_SERVERFAULT);
}

/* It is freed once, before the file is open again, as what it was open as. */
Test(nfs4_delay, what_is_revoked)
{
	struct one_call other = { 0 }, again = { 0 };
	const char *freed;

	server.free_delays = FOR_EVER;
	server.test[0] = NFS4ERR_ADMIN_REVOKED;
	server.flags = SEQ4_STATUS_ADMIN_STATE_REVOKED;
	get_attr();
	while (!count_of('d'))
		get_attr();
	begin(&other, NFS_OP_SETATTR, open_nr(1));
	await(&other, 0);
	begin(&again, NFS_OP_SETATTR, open_nr(0));
	server.free_delays = 0;
	await(&again, 0);
	cr_assert(server.freed == 1 && count_of('f') == 1 && count_of('F') == 1);
	freed = strchr(log_now(), 'f');
	cr_assert(freed && strchr(freed, 'F'));
	expect_open(0, false);
}

/* Who waits is told, and so is the thread that recovers. */
Test(nfs4_delay, the_mount_ends_meanwhile)
{
	delay_open_0();
	cr_assert(nfs_control_stop(&fake_cl, 3000));
	server.open[0] = 0;
	atomic_store(&open_nr(0)->reopen, false);
	resume();
	pthread_join(set.caller, NULL);
	cr_assert(set.rc == 0 || set.rc == -ESHUTDOWN);
}
