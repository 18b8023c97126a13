/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Delegations after a restart of the server (nfs4_regain.c): who asks for which, and what becomes of the answer. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include "nfs4_server.h"

static void start(void)
{
	server4_start();
	server4_mount();
	client4()->lease_s = 90;
	fake_cl.cfg.delegations = true;
	client4()->back.has = true;
	server.back = true;
}

TestSuite(nfs4_regain, .init = start, .fini = server4_stop, .timeout = 300);

/* Files 0 to n - 1 are open. */
static void have_opens(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		have_open(i);
		atomic_store(&open_nr(i)->file->opens, 1);
	}
}

/* The server gives the same stateid as before. */
static bool same_again;

/* Open i's file has one of that kind; its number. */
static uint64_t have_delegation(unsigned i, uint64_t kind)
{
	stateid4 stateid = { .other = { 'o', 'l', 'd', (char)i } };

	if (same_again)
		memcpy(stateid.other, "delegated\0\0", sizeof(stateid.other));
	return give_delegation(i, kind, &stateid);
}

static unsigned count(enum nfs4_delegation_state state)
{
	return atomic_load(&client4()->delegs.in[state].n);
}

/* The server has restarted: session, client id, opens. */
static void restarts(void)
{
	server.stale = true;
	server.complete = false;
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_eq(count(NFS4_LOST), 0);
	cr_assert_eq(atomic_load(&client4()->delegs.count), count(NFS4_HELD) + count(NFS4_DUE));
}

static void expect_asked(uint32_t want, uint32_t delegate)
{
	cr_assert_eq(server.reopens.access, OPEN4_SHARE_ACCESS_BOTH | want, "%x", server.reopens.access);
	cr_assert_eq(server.reopens.delegate, delegate);
}

/* It is another one: nothing is believed that was under the old one, and the open stays for nobody. */
Test(nfs4_regain, one_to_read)
{
	uint64_t before;

	have_opens(1);
	before = have_delegation(0, 0);
	server.gives = OPEN_DELEGATE_READ;
	restarts();
	cr_assert_str_eq(server.log, "SXSPC");
	expect_asked(OPEN4_SHARE_ACCESS_WANT_READ_DELEG, OPEN_DELEGATE_READ);
	cr_assert_eq(count(NFS4_HELD), 1);
	cr_assert(open_nr(0)->file->delegation);
	cr_assert_neq(open_nr(0)->file->delegation, before);
	cr_assert_neq(open_nr(0)->under, open_nr(0)->file->delegation);
}

Test(nfs4_regain, one_with_the_same_stateid)
{
	same_again = true;
	have_opens(1);
	have_delegation(0, 0);
	server.gives = OPEN_DELEGATE_READ;
	restarts();
	cr_assert_eq(count(NFS4_HELD), 1);
	cr_assert(open_nr(0)->file->delegation);
}

Test(nfs4_regain, one_to_write)
{
	have_opens(1);
	have_delegation(0, NFS_DELEGATION_WRITES);
	server.gives = OPEN_DELEGATE_WRITE;
	restarts();
	expect_asked(OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG, OPEN_DELEGATE_WRITE);
	cr_assert_eq(count(NFS4_HELD), 1);
	cr_assert(nfs_delegation_writes(open_nr(0)->file->delegation));
}

/* When the file was read is said to the server with the next one. */
Test(nfs4_regain, one_with_times)
{
	have_opens(1);
	have_delegation(0, NFS_DELEGATION_TIMES);
	atomic_store(&open_nr(0)->file->accessed_ns, 77);
	server.gives = OPEN_DELEGATE_READ;
	restarts();
	expect_asked(OPEN4_SHARE_ACCESS_WANT_READ_DELEG | OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS, OPEN_DELEGATE_READ);
	cr_assert_eq(atomic_load(&open_nr(0)->file->accessed_ns), 77);
}

Test(nfs4_regain, the_server_gives_none)
{
	have_opens(1);
	have_delegation(0, 0);
	restarts();
	expect_asked(OPEN4_SHARE_ACCESS_WANT_READ_DELEG, OPEN_DELEGATE_READ);
	cr_assert_eq(count(NFS4_HELD) + count(NFS4_DUE), 0);
	cr_assert_eq(open_nr(0)->file->delegation, 0);
}

/* What is no good goes back: of another kind, wanted back at once, or that nobody has asked for. */
Test(nfs4_regain, one_that_is_no_good)
{
	have_opens(1);
	for (unsigned i = 0; i < 3; i++) {
		if (i < 2)
			have_delegation(0, 0);
		server.gives = i ? OPEN_DELEGATE_READ : OPEN_DELEGATE_WRITE;
		server.recalls = i == 1;
		restarts();
		cr_assert_eq(count(NFS4_HELD), 0, "%u", i);
		cr_assert_eq(count(NFS4_DUE), 1, "%u", i);
		cr_assert_eq(open_nr(0)->file->delegation, 0);
		forget_delegations4(&client4()->delegs);
	}
	expect_asked(OPEN4_SHARE_ACCESS_WANT_NO_DELEG, OPEN_DELEGATE_NONE);
}

/* An OPEN that has stayed is no open file. */
Test(nfs4_regain, a_file_that_nobody_has_open)
{
	have_opens(1);
	have_delegation(0, 0);
	atomic_store(&open_nr(0)->file->opens, 0);
	restarts();
	expect_asked(OPEN4_SHARE_ACCESS_WANT_NO_DELEG, OPEN_DELEGATE_NONE);
	cr_assert_eq(count(NFS4_HELD), 0);
	atomic_store(&open_nr(0)->file->opens, 1);
}

/* One of two opens of a file asks, which may do what the delegation is for; when it is there nobody does. */
Test(nfs4_regain, two_opens_of_a_file)
{
	have_opens(2);
	nfs_file_put(open_nr(1)->file);
	open_nr(1)->file = nfs_file_ref(open_nr(0)->file);
	have_delegation(0, NFS_DELEGATION_WRITES);
	open_nr(0)->access = open_nr(0)->needed = OPEN4_SHARE_ACCESS_READ;
	server.gives = OPEN_DELEGATE_WRITE;
	restarts();
	/* The first one has brought what it has not asked for. */
	cr_assert_eq(count(NFS4_HELD), 0);
	cr_assert_eq(count(NFS4_DUE), 1);
	expect_asked(OPEN4_SHARE_ACCESS_WANT_NO_DELEG, OPEN_DELEGATE_NONE);
	forget_delegations4(&client4()->delegs);
	open_nr(0)->access = open_nr(0)->needed = OPEN4_SHARE_ACCESS_BOTH;
	have_delegation(0, NFS_DELEGATION_WRITES);
	open_nr(0)->access = open_nr(0)->needed = OPEN4_SHARE_ACCESS_READ;
	restarts();
	expect_asked(OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG, OPEN_DELEGATE_WRITE);
	open_nr(0)->access = open_nr(0)->needed = OPEN4_SHARE_ACCESS_BOTH;
	have_delegation(0, NFS_DELEGATION_WRITES);
	server.gives = OPEN_DELEGATE_WRITE;
	restarts();
	expect_asked(OPEN4_SHARE_ACCESS_WANT_NO_DELEG, OPEN_DELEGATE_NONE);
	cr_assert_eq(count(NFS4_HELD), 1);
}

/* Nobody could be told that it is wanted back. */
Test(nfs4_regain, without_a_back_channel)
{
	have_opens(1);
	have_delegation(0, 0);
	server.back = false;
	restarts();
	expect_asked(OPEN4_SHARE_ACCESS_WANT_NO_DELEG, OPEN_DELEGATE_NONE);
	cr_assert_eq(count(NFS4_HELD), 0);
}

/* It restarts once more, when one of two files has its delegation again. */
static void once_more(void)
{
	server.executed = NULL;
	server.badsession = 1;
	server.stale = true;
}

Test(nfs4_regain, the_server_restarts_again)
{
	have_opens(2);
	have_delegation(0, 0);
	have_delegation(1, 0);
	server.gives = OPEN_DELEGATE_READ;
	server.executed = once_more;
	restarts();
	cr_assert_str_eq(server.log, "SXSPBSXSPPC");
	expect_asked(OPEN4_SHARE_ACCESS_WANT_READ_DELEG, OPEN_DELEGATE_READ);
	cr_assert_eq(count(NFS4_HELD), 0);
	cr_assert_eq(open_nr(0)->file->delegation, 0);
}

/* Another server has given them. */
Test(nfs4_regain, another_scope)
{
	have_opens(1);
	have_delegation(0, 0);
	server.scope = "other";
	restarts();
	cr_assert_str_eq(server.log, "SXSCF");
	cr_assert_eq(server.reopens.access, OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
	cr_assert_eq(count(NFS4_HELD), 0);
}

/* The server recalls it before OPEN's reply is decoded: it goes back, and is not kept. */
static void recalls_it(void)
{
	const stateid4 new = { .seqid = 1, .other = "delegated" };

	server.executed = NULL;
	cr_assert_eq(nfs4_delegs_recall(&fake_cl.server, &new, &open_nr(0)->file->fh), NFS4_OK);
}

Test(nfs4_regain, a_recall_before_the_reply)
{
	have_opens(1);
	have_delegation(0, 0);
	server.gives = OPEN_DELEGATE_READ;
	server.executed = recalls_it;
	restarts();
	cr_assert_eq(count(NFS4_HELD), 0);
	cr_assert_eq(count(NFS4_DUE), 1);
	cr_assert_eq(open_nr(0)->file->delegation, 0);
}
