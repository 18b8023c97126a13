/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locks of version 3: what is given back, or given up, whose it is, and the end of the mount. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>
#include "nlm_lockd.h"

TestSuite(nlm_leaving, .init = lockd_start, .fini = lockd_stop, .timeout = 300);

/* ---- what is leaving ---- */

/* Whoever has closed the file does not ask again. */
Test(nlm_leaving, an_unlock_that_fails)
{
	cr_assert_eq(lock(0, 5, true), 0);
	lockd_answers(NLM4_FAILED, 0);
	cr_assert_eq(unlock(0, 5), -ENOLCK);
	lockd_cut();
	lockd_answers(NLM4_GRANTED, 0);
	wait_for_owners(0);
	cr_assert(!strchr(lockd.log, 'R'), "%s", lockd.log);
	cr_assert_eq(said_times("gives no locks (NLM status 9)"), 1);
}

/* The next lock takes it over. */
Test(nlm_leaving, a_lock_of_what_is_leaving)
{
	cr_assert_eq(lock(0, 5, true), 0);
	lockd_answers(NLM4_FAILED, 0);
	cr_assert_eq(unlock(0, 5), -ENOLCK);
	lockd_answers(NLM4_GRANTED, 0);
	cr_assert_eq(lock(2, 1, true), 0);
	lockd_wait_for_log("U3+2 ");
	lockd_expect_log("L0+5w U0+5 L2+1w U0+2 U3+2 ");
	cr_assert_eq(owners(), 1);
}

/* The first try may have been granted. */
Test(nlm_leaving, a_lock_is_refused_after_an_answer_was_lost)
{
	lockd_does(CLOSES, 1);
	lockd_answers(NLM4_FAILED, 0);
	cr_assert_eq(lock(0, 5, true), -ENOLCK);
	cr_assert_eq(owners(), 1);
	lockd_answers(NLM4_GRANTED, 0);
	lockd_wait_for_log("U0+5 ");
	wait_for_owners(0);
}

/* Who has locked may, and who closes may not. */
Test(nlm_leaving, whose_credential)
{
	uid = 0;
	cr_assert_eq(lock(0, 5, true), 0);
	uid = 1000;
	cr_assert_eq(unlock(0, 5), 0);
	cr_assert_eq(lockd.uid, 0);
	cr_assert_eq(test(), 0);
	cr_assert_eq(lockd.uid, 1000);
}

/* ---- nobody waits any more ---- */

static void give_up(struct nfs_lane *l, void *arg)
{
	(void)arg;
	list_for_each_entry_safe(struct nfs_call, c, tmp, &l->running, eng.run_node)
		nfs_abandon(c, -EIO);
}

static void take_back(struct nfs_lane *l, void *arg)
{
	(void)arg;
	list_for_each_entry_safe(struct nfs_call, c, tmp, &l->running, eng.run_node)
		nfs_take_back(c, -EINTR);
}

/* One is with the server, which may have executed it, and one is not sent any more; but LOCKU is. */
Test(nlm_leaving, calls_are_given_up)
{
	cr_assert_eq(lock(7, 1, true), 0);
	lockd_does(SILENT, 1);
	begin_of(NFS_OP_LOCK, 1);
	begin_of(NFS_OP_LOCK, 2);
	begin_of(NFS_OP_LOCKU, 7);
	nfs_each_lane(&fake_cl, give_up, NULL);
	cr_assert(list_empty(&fake_lanes[0].running));
	lockd_cut();
	wait_for_owners(0);
	lockd_expect_log("L7+1w L1+1r U1+1 U7+1 ");
}

/* Its program is killed, and then it is granted. */
Test(nlm_leaving, nobody_wants_it_any_more)
{
	cr_assert_eq(lock(7, 1, true), 0);
	lockd_shuts(true);
	begin_of(NFS_OP_LOCK, 1);
	nfs_each_lane(&fake_cl, take_back, NULL);
	cr_assert(list_empty(&fake_lanes[0].running));
	lockd_shuts(false);
	lockd_wait_for_log("U1+1 ");
	lockd_expect_log("L7+1w L1+1r U1+1 ");
	cr_assert_eq(owners(), 1);
	cr_assert_eq(unlock(7, 1), 0);
	cr_assert_eq(owners(), 0);
}

static void hold(struct nfs_lane *l, void *on)
{
	l->hold = on;
	if (!on)
		nfs_lane_pump(l);
}

static void count_locked(struct nfs_lane *l, void *n)
{
	list_for_each_entry(struct nfs_call, c, &l->running, eng.run_node)
		*(unsigned *)n += !nfs3_call(c)->job;
}

/* Its program is killed, while the call for attributes waits for a connection: whoever has asked is told, and
 * has to unlock it. */
Test(nlm_leaving, it_is_locked_and_waits_for_attributes)
{
	unsigned n = 0;

	lockd_shuts(true);
	begin_of(NFS_OP_LOCK, 1);
	nfs_each_lane(&fake_cl, hold, &fake_cl);
	lockd_shuts(false);
	for (unsigned i = 0; i < 4000 && !n; i++) {
		usleep(5000);
		nfs_each_lane(&fake_cl, count_locked, &n);
	}
	nfs_each_lane(&fake_cl, take_back, NULL);
	wait_for_calls(1, 0);
	nfs_each_lane(&fake_cl, hold, NULL);
	wait_for_calls(0, 0);
	cr_assert_eq(owners(), 1);
}

/* Others go on, and its program can be killed. */
Test(nlm_leaving, one_call_hangs)
{
	lockd.silent_at = true;
	begin_of(NFS_OP_LOCK, 1);
	cr_assert_eq(ask(NFS_OP_LOCK, OWNER + 1, 5, 1, true, false), 0);
	nfs_each_lane(&fake_cl, take_back, NULL);
	cr_assert(list_empty(&fake_lanes[0].running));
	cr_assert_eq(ask(NFS_OP_LOCKU, OWNER + 1, 5, 1, true, false), 0);
	pthread_mutex_lock(&lockd.mu);
	lockd.silent_at = false;
	pthread_mutex_unlock(&lockd.mu);
	wait_for_owners(0);
	lockd_wait_for_log("U1+1 ");
}

/* ---- whose locks they are ---- */

/* It is from one address to one, whatever becomes of the paths. */
Test(nlm_leaving, addresses)
{
	struct nfs_server *s = &fake_cl.server;
	struct sockaddr_in *local = (struct sockaddr_in *)&s->path[0].way.params.local;
	struct sockaddr_in *server = (struct sockaddr_in *)&s->path[0].way.params.server;

	*local = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002) };
	lockd_mount_again();
	cr_assert_eq(lock(0, 5, true), 0);
	cr_assert_eq(lockd.from, 0x7f000002);
	local->sin_addr.s_addr = htonl(0x7f000003);
	server->sin_addr.s_addr = htonl(0x7f000063);    /* where nobody listens */
	lockd_cut();
	cr_assert_eq(test(), 0);
	cr_assert_eq(lockd.from, 0x7f000002);
	cr_assert_eq(said_times("no longer has the address"), 0);
}

Test(nlm_leaving, the_address_is_gone)
{
	struct sockaddr_in *local = (struct sockaddr_in *)&mounted->nlm->local;

	cr_assert_eq(lock(0, 5, true), 0);
	local->sin_addr.s_addr = htonl(0xc0000201);
	lockd_cut();
	cr_assert_eq(test(), 0);
	cr_assert_eq(lockd.from, 0x7f000001);
	cr_assert_eq(said_times("no longer has the address 192.0.2.1"), 1);
}

/* Two mounts are two owners, whatever they number. */
Test(nlm_leaving, mounts)
{
	uint32_t svid, oh[4];

	cr_assert_eq(lock(0, 5, true), 0);
	svid = lockd.svid;
	memcpy(oh, lockd.oh, 16);
	lockd_mount_again();
	cr_assert_eq(lock(0, 5, true), 0);
	cr_assert(lockd.svid != svid && memcmp(oh, lockd.oh, 16));
}

/* What this mount knows itself says nothing of the server. */
Test(nlm_leaving, an_answer_that_is_not_the_servers)
{
	uint64_t before;

	cr_assert_eq(lock(12, 1, true), 0);
	before = fake_lanes[0].target.last_reply_ns;
	cr_assert_eq(ask(NFS_OP_LOCKT, OWNER + 1, 0, TO_EOF, false, false), -EAGAIN);
	cr_assert_eq(unlock(12, 1), 0);
	cr_assert_eq(fake_lanes[0].target.last_reply_ns, before);
}

/* ---- the end ---- */

Test(nlm_leaving, the_mount_ends)
{
	cr_assert_eq(lock(0, 5, true), 0);
	cr_assert_eq(ask(NFS_OP_LOCK, OWNER + 1, 7, 1, true, false), 0);
	cr_assert(nfs3_stop(&fake_cl.server, 500));
	lockd_expect_log("L0+5w L7+1w U0+0 U0+0 ");
	cr_assert_eq(owners(), 0);
	cr_assert_eq(said_times("may stay"), 0);
}

/* Nothing is asked for again before. */
Test(nlm_leaving, the_mount_ends_without_a_connection)
{
	cr_assert_eq(lock(0, 5, true), 0);
	cr_assert_eq(ask(NFS_OP_LOCK, OWNER + 1, 7, 1, true, false), 0);
	lockd_cut();
	cr_assert(nfs3_stop(&fake_cl.server, 500));
	lockd_expect_log("L0+5w L7+1w U0+0 U0+0 ");
	cr_assert_eq(said_times("may stay"), 0);
}

Test(nlm_leaving, the_mount_ends_during_a_call)
{
	uint64_t before = mono_ns();

	lockd_does(SILENT, 1);
	begin_of(NFS_OP_LOCK, 1);
	begin_of(NFS_OP_LOCKU, 7);
	cr_assert(nfs3_stop(&fake_cl.server, 500));
	cr_assert_lt(mono_ns() - before, 9000000000ull);
	lockd_expect_log("L1+1r U0+0 ");
}

/* And that takes too long: there is nothing to warn of. */
Test(nlm_leaving, the_mount_ends_without_locks)
{
	cr_assert_eq(lock(0, 5, true), 0);
	cr_assert_eq(unlock(0, 5), 0);
	cr_assert_eq(owners(), 0);
	nfs3_stop(&fake_cl.server, 0);
	cr_assert_eq(said_times("may stay"), 0);
}

Test(nlm_leaving, the_mount_ends_without_an_answer)
{
	cr_assert_eq(lock(0, 5, true), 0);
	cr_assert_eq(ask(NFS_OP_LOCK, OWNER + 1, 7, 1, true, false), 0);
	lockd_does(SILENT, 0);
	cr_assert(nfs3_stop(&fake_cl.server, 500));
	cr_assert_eq(said_times("2 locks may stay on server"), 1);
	cr_assert_eq(owners(), 0);
}

/* ---- there is none ---- */

/* And it is not tried again: NFS answers. */
static void refused(const char *words)
{
	struct errbuf eb = { "" };
	struct nlm *n;

	cr_assert_eq(nlm_new(&fake_cl.server, &n, &eb), -ENOLCK);
	cr_assert(strstr(eb.text, "nolock") && strstr(eb.text, "server"), "%s", eb.text);
	cr_assert(strstr(eb.text, words), "%s", eb.text);
}

Test(nlm_leaving, no_lock_manager)
{
	lockd.port = 0;
	refused("has no lock manager");
	lockd.port = 1;
	refused("cannot be reached");
}

/* nlmport= */
Test(nlm_leaving, a_port_that_is_given)
{
	fake_cl.cfg.nlmport = lockd.port;
	lockd.port = 0;
	lockd_mount_again();
	cr_assert_eq(lock(0, 5, true), 0);
}
