/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * New connections of versions 4.1 and 4.2 that lead to the server: what it may say to the calls of
 * a check, and who else may act meanwhile.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "check4_play.h"

TestSuite(nfs4_check, .init = check4_setup, .fini = play4_teardown);

/* ---- the same server ---- */

Test(nfs4_check, from_the_beginning_to_the_end)
{
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	all_cuts();
	cr_assert_eq(forget(0), NFS_NEXT);
	all_cuts();
	m_join_args();
	sends();
	m_joined();
	cr_assert_eq(takes(), 0);
	all_cuts();
	cr_assert(n4.identity.now.changes == 1);
	cr_assert_eq(nfs_v41.check_proc(&k), NFSPROC4_COMPOUND);
}

Test(nfs4_check, minor_version_2)
{
	cl4.server.version = &nfs_v42;
	m_who_args(2);
	sends();
}

/* A client id that the server has confirmed is not one of ours to destroy. */
Test(nfs4_check, confirmed)
{
	m_who_args(1);
	sends();
	m_who(0x80000000, 3, "name", "scope");
	cr_assert_eq(takes(), NFS_NEXT);
	m_join_args();
	sends();
	begun = (struct nfs_check){ .word[3] = 1 };
	m_who(0x80000000, 3, "other", "scope");
	cr_assert_eq(takes(), -EXDEV);
}

/* What comes of the client id does not matter. */
Test(nfs4_check, probe_cannot_be_destroyed)
{
	static const uint32_t says[] = { DELAY, 10022, 10074, 10004, 1, 10006 };

	for (unsigned i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
		cr_assert_eq(forget(says[i]), NFS_NEXT);
		m_join_args();
		sends();
	}
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	m_forget_args();
	sends();
	m_status(ILLEGAL, ILLEGAL);
	cr_assert_eq(takes(), NFS_NEXT);
	m_new();
	M(10018, 0, 0);                 /* RESOURCE, before the first operation */
	cr_assert_eq(takes(), NFS_NEXT);
}

Test(nfs4_check, not_now)
{
	static const uint32_t says[] = { DELAY, GRACE };

	for (unsigned i = 0; i < 2; i++) {
		k = (struct nfs_check){ 0 };
		m_who_args(1);
		sends();
		m_status(EXCHANGE_ID, says[i]);
		cr_assert_eq(takes(), NFS_LATER);
		m_who_args(1);
		sends();
		up_to_join();
		m_status(BIND, says[i]);
		cr_assert_eq(takes(), NFS_LATER);
		m_join_args();
		sends();
	}
}

/* ---- joining ---- */

Test(nfs4_check, what_the_server_says_of_the_connection)
{
	static const struct { uint32_t at, word; int rc; const char *words; } t[] = {
		{ 36, 3, 0, "" },                       /* fore and back channel */
		{ 36, 2, -EPROTO, "callbacks" },
		{ 36, 0, -EPROTO, "callbacks" },        /* no such direction */
		{ 36, 5, -EPROTO, "callbacks" },
		{ 40, 1, -EPROTO, "RDMA" },
		{ 20, 1, -EPROTO, "another session" },
		{ 32, 1, -EPROTO, "another session" },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		up_to_join();
		m_joined();
		m_set(t[i].at, t[i].word);
		cr_assert_eq(takes(), t[i].rc, "row %u", i);
		cr_assert(strstr(k.why.text, t[i].words), "%s", k.why.text);
	}
	cr_assert_not(asked_for_session());
}

/* The first SEQUENCE joins it. */
Test(nfs4_check, server_without_bind_conn_to_session)
{
	up_to_join();
	m_status(BIND, 10004);
	cr_assert_eq(takes(), 0);
	m_status(ILLEGAL, ILLEGAL);
	cr_assert_eq(takes(), 0);
	all_cuts();
	/* That operation has one status only. */
	m_status(ILLEGAL, DELAY);
	cr_assert_eq(takes(), -EBADMSG);
}

Test(nfs4_check, session_is_lost)
{
	static const uint32_t says[] = { BADSESSION, DEADSESSION };

	for (unsigned i = 0; i < 2; i++) {
		/* Nobody else is there: it is the server, and has restarted. */
		up_to_join();
		m_status(BIND, says[i]);
		cr_assert_eq(takes(), 0);
		cr_assert(asked_for_session());
		/* The next session is on its way. */
		lane4()->hold = true;
		cr_assert_eq(takes(), 0);
		cr_assert_not(asked_for_session());
		lane4()->hold = false;
	}
}

/* A copy of the mounted server's machine says the same names. */
Test(nfs4_check, same_names_without_the_session)
{
	up_to_join();
	other_lane_is_up(true);
	m_status(BIND, BADSESSION);
	cr_assert_eq(takes(), -EAGAIN);
	cr_assert(strstr(k.why.text, "does not know the session"), "%s", k.why.text);
	cr_assert_not(asked_for_session(), "the session is good");
	/* Others have found that it is lost. */
	atomic_store(&n4.need_session, true);
	cr_assert_eq(takes(), NFS_LATER);
	atomic_store(&n4.need_session, false);
	lane4()->hold = true;
	cr_assert_eq(takes(), NFS_LATER);
	lane4()->hold = false;
}

/* The server has restarted, and the other path died just before, without a word. Heartbeats find
 * that if somebody answers for as long as they take. */
Test(nfs4_check, session_is_lost_and_the_others_may_be_dead)
{
	lane4()->client->cfg.heartbeat_ms = 100000;
	k.known = true;
	up_to_join();
	other_lane_is_up(true);
	m_status(BIND, BADSESSION);
	cr_assert_eq(takes(), NFS_LATER);
	begun = k;
	cr_assert_eq(takes(), NFS_LATER);
	cr_assert_not(asked_for_session(), "it may be good all the same");
	other_lane_is_up(false);
	cr_assert_eq(takes(), 0);
	cr_assert(asked_for_session());
	/* They do answer. */
	other_lane_is_up(true);
	lane4()->client->cfg.heartbeat_ms = 1;
	usleep(3000);
	cr_assert_eq(takes(), -EAGAIN);
}

/* While it was sent, recovery has made another one. */
Test(nfs4_check, session_is_replaced)
{
	for (unsigned ok = 0; ok < 2; ok++) {
		memcpy(n4.sessionid, "0123456789abcdef", 16);
		new_session4();
		up_to_join();
		memcpy(n4.sessionid, "fedcba9876543210", 16);
		new_session4();
		if (ok)
			m_joined();
		else
			m_status(BIND, BADSESSION);
		cr_assert_eq(takes(), NFS_NEXT);
		m_new();
		M(0, 1, 1, BIND, 0x66656463, 0x62613938, 0x37363534, 0x33323130, 1, 0);
		sends();
		m_new();
		M(0, 0, 1, BIND, 0, 0x66656463, 0x62613938, 0x37363534, 0x33323130, 1, 0);
		cr_assert_eq(takes(), 0);
	}
	cr_assert_not(asked_for_session());
}

/* Recovery needs the connection: it makes the session on it. */
Test(nfs4_check, recovery_in_between)
{
	_Atomic bool *const lost[] = { &n4.need_session, &n4.need_client };

	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
		atomic_store(lost[i], true);
		cr_assert_eq(forget(0), 0);
		/* Another connection is there for that. */
		other_lane_is_up(true);
		cr_assert_eq(forget(0), NFS_NEXT);
		other_lane_is_up(false);
		atomic_store(lost[i], false);
	}
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	slots4()->epoch = 0;
	cr_assert_eq(forget(0), 0, "there is no session yet");
}

/* It has a new client id in the mean time; the server is the same. */
Test(nfs4_check, recovery_asks_who_it_is)
{
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	is_mounted(3, "name", "scope");
	cr_assert_eq(forget(0), NFS_NEXT);
	m_join_args();
	sends();
	is_mounted(3, "new", "scope");
	m_joined();
	cr_assert_eq(takes(), -EAGAIN);
	cr_assert_eq(n4.identity.now.changes, 2);
}

Test(nfs4_check, nothing_known_yet)
{
	n4.identity = (struct nfs4_identity){ .known = false };
	nfs4_identity_init(&n4.identity);
	cr_assert_eq(who(3, "any", "thing"), NFS_NEXT);
	cr_assert_eq(forget(0), NFS_NEXT);
}

/* ---- what servers should not say ---- */

Test(nfs4_check, other_operations)
{
	static const uint32_t ops[] = { 0, 9, 43, 44, 53 };

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		k = (struct nfs_check){ 0 };
		m_who_args(1);
		sends();
		m_who(0, 3, "name", "scope");
		m_set(12, ops[i]);
		cr_assert_eq(takes(), -EBADMSG);
		m_set(12, EXCHANGE_ID);
		cr_assert_eq(takes(), NFS_NEXT);
		m_forget_args();
		sends();
		m_status(ops[i], 0);
		cr_assert_eq(takes(), -EBADMSG);
		up_to_join();
		m_joined();
		m_set(12, ops[i]);
		cr_assert_eq(takes(), -EBADMSG);
	}
}

/* Only names that differ say that it is another server. */
Test(nfs4_check, statuses)
{
	for (uint32_t status = 1; status < 10200; status = status == 100 ? 10000 : status + 1) {
		int rc;

		k = (struct nfs_check){ 0 };
		m_who_args(1);
		sends();
		m_status(EXCHANGE_ID, status);
		rc = takes();
		cr_assert(rc == NFS_LATER || (rc < 0 && rc != -EXDEV), "%u: %d", status, rc);
		up_to_join();
		m_status(BIND, status);
		rc = takes();
		asked_for_session();
		cr_assert_eq(rc == 0, status == 10004 || status == ILLEGAL || status == BADSESSION ||
			     status == DEADSESSION, "%u", status);
		cr_assert(rc == NFS_LATER || (rc <= 0 && rc != -EXDEV), "%u: %d", status, rc);
	}
}

Test(nfs4_check, compound_fails)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 10021, -EPROTONOSUPPORT }, { 10018, -EIO }, { 0, -EBADMSG },
	};

	for (unsigned i = 0; i < 3; i++) {
		k = (struct nfs_check){ 0 };
		m_who_args(1);
		sends();
		m_new();
		M(t[i].status, 0, 0);
		cr_assert_eq(takes(), t[i].rc);
		cr_assert(!t[i].status || strstr(k.why.text, "NFSv4.1"), "%s", k.why.text);
		up_to_join();
		m_new();
		M(t[i].status, 0, 0);
		cr_assert_eq(takes(), t[i].rc);
	}
}
