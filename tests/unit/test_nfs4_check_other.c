/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * New connections of versions 4.1 and 4.2 that lead to another server: it is found, and refused
 * unless the server may have moved there.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "check4_play.h"

TestSuite(nfs4_check_other, .init = check4_setup, .fini = play4_teardown);

/* ---- other servers ---- */

/* It is left as it was, and then refused. */
static void refuses(const char *words)
{
	cr_assert_eq(forget(0), -EXDEV);
	cr_assert(strstr(k.why.text, words), "no '%s' in: %s", words, k.why.text);
	cr_assert(strlen(k.why.text) < 256, "%s", k.why.text);
	cr_assert(n4.identity.now.changes == 1 && n4.identity.now.joins == 0);
}

Test(nfs4_check_other, another_server)
{
	static const struct { uint64_t minor; const char *major, *scope, *words; } t[] = {
		{ 3, "other", "scope", "(its name is 'other', that of the mounted one 'name')" },
		{ 3, "nam", "scope", "its name is 'nam'," },
		{ 3, "name2", "scope", "its name is 'name2'," },
		{ 3, "", "scope", "its name is ''," },
		{ 3, "name", "elsewhere", "(its scope is 'elsewhere', that of the mounted one 'scope')" },
		{ 3, "name", "", "its scope is ''," },
		{ 4, "name", "scope", "(its minor id is 4, that of the mounted one 3)" },
		{ 3ull << 32, "name", "scope", "minor id" },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cr_assert_eq(who(t[i].minor, t[i].major, t[i].scope), NFS_NEXT);
		refuses(t[i].words);
	}
}

/* A server without names is compared all the same. */
Test(nfs4_check_other, empty_names)
{
	is_mounted(0, "", "");
	cr_assert_eq(who(0, "", ""), NFS_NEXT);
	cr_assert_eq(forget(0), NFS_NEXT);
	cr_assert_eq(who(0, "a", ""), NFS_NEXT);
	cr_assert_eq(forget(0), -EXDEV);
	cr_assert_eq(who(0, "", "a"), NFS_NEXT);
	cr_assert_eq(forget(0), -EXDEV);
}

Test(nfs4_check_other, names_for_the_log)
{
	static const char odd[] = "a\n\0\x1b'\\\xff z";
	char longest[1024];

	m_who_args(1);
	sends();
	m_who_bytes(0, 3, odd, sizeof(odd) - 1, "scope");
	cr_assert_eq(takes(), NFS_NEXT);
	refuses("'a\\x0a\\x00\\x1b\\x27\\x5c\\xff z'");
	/* A 0 among the bytes ends nothing. */
	k = (struct nfs_check){ 0 };
	m_who_args(1);
	sends();
	m_who_bytes(0, 3, "name\0x", 6, "scope");
	cr_assert_eq(takes(), NFS_NEXT);
	refuses("'name\\x00x'");
	memset(longest, 0xee, sizeof(longest));
	k = (struct nfs_check){ 0 };
	m_who_args(1);
	sends();
	m_who_bytes(0, 3, longest, sizeof(longest), "scope");
	cr_assert_eq(takes(), NFS_NEXT);
	refuses("\\xee...'");
}

/* The longest names, and longer ones. */
Test(nfs4_check_other, bounds)
{
	char longest[1026] = "";

	memset(longest, 'x', 1025);
	for (unsigned more = 0; more < 2; more++) {
		k = (struct nfs_check){ 0 };
		m_who_args(1);
		sends();
		m_who_bytes(0, 3, longest, 1024 + more, "scope");
		cr_assert_eq(takes(), more ? -EBADMSG : NFS_NEXT);
		m_who_bytes(0, 3, "name", 4, longest + 1 - more);
		cr_assert_eq(takes(), more ? -EBADMSG : NFS_NEXT);
	}
}

/* ---- a server that has moved ---- */

Test(nfs4_check_other, moved)
{
	k.may_move = true;
	cr_assert_eq(who(9, "new", "place"), NFS_NEXT);
	cr_assert(n4.identity.now.changes == 2 && n4.identity.names.minor == 9);
	cr_assert_eq(forget(0), NFS_NEXT);
	m_join_args();
	sends();
	m_status(BIND, BADSESSION);
	cr_assert_eq(takes(), 0);
	cr_assert(asked_for_session());
	/* The others find it there, and the log says it once. */
	for (unsigned i = 0; i < 2; i++) {
		k.may_move = i;
		cr_assert_eq(who(9, "new", "place"), NFS_NEXT);
		cr_assert_eq(forget(0), NFS_NEXT);
		cr_assert_eq(n4.identity.now.changes, 2);
	}
	k.may_move = false;
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
	cr_assert_eq(forget(0), -EXDEV);
}

/* Since the check began another lane has connected to the server that was mounted. */
Test(nfs4_check_other, moves_only_if_nobody_is_connected)
{
	k.may_move = true;
	other_lane_is_up(true);
	cr_assert_eq(who(3, "new", "scope"), NFS_NEXT);
	refuses("another server");
}

/* Two lanes find two servers. */
static struct nfs_check two_lanes(bool second_asks_later, const char *second_finds, int *rc)
{
	struct nfs_check first;

	k = (struct nfs_check){ .may_move = true };
	if (!second_asks_later) {
		m_who_args(1);
		sends();
		first = k;
		cr_assert_eq(who(3, "new", "scope"), NFS_NEXT);
		begun = first;
		first = k;
	} else {
		cr_assert_eq(who(3, "new", "scope"), NFS_NEXT);
		first = k;
		k = (struct nfs_check){ .may_move = true };
		m_who_args(1);
		sends();
	}
	m_who(0, 3, second_finds, "scope");
	*rc = takes();
	return first;
}

Test(nfs4_check_other, first_one_decides_who_the_server_is)
{
	struct nfs_check first;
	int rc;

	/* It asked before the first one had moved. */
	first = two_lanes(false, "newer", &rc);
	cr_assert_eq(rc, NFS_NEXT);
	cr_assert_eq(forget(0), -EAGAIN);
	cr_assert_eq(n4.identity.now.changes, 2);
	k = first;
	cr_assert_eq(forget(0), NFS_NEXT);
	m_join_args();
	sends();
	m_joined();
	cr_assert_eq(takes(), 0);
}

Test(nfs4_check_other, overtaken_before_the_end)
{
	struct nfs_check first;
	int rc;

	/* It asked later, so the first one has not ended: it must not end well any more. */
	first = two_lanes(true, "newer", &rc);
	cr_assert_eq(rc, NFS_NEXT);
	cr_assert_eq(forget(0), NFS_NEXT);
	k = first;
	cr_assert_eq(forget(0), NFS_NEXT);
	m_join_args();
	sends();
	m_joined();
	cr_assert_eq(takes(), -EAGAIN);
}

/* A lane has just been told that it may use its connection, and is not up yet. */
Test(nfs4_check_other, nobody_moves_after_a_check_has_ended_well)
{
	struct nfs_check second;

	k.may_move = true;
	m_who_args(1);
	sends();
	second = k;
	up_to_join();
	m_joined();
	cr_assert_eq(takes(), 0);
	begun = second;
	m_who(0, 3, "new", "scope");
	cr_assert_eq(takes(), NFS_NEXT);
	cr_assert_eq(forget(0), -EAGAIN);
	cr_assert_eq(n4.identity.now.changes, 1);
	/* But one that finds the same server joins as well. */
	k = second;
	cr_assert_eq(who(3, "name", "scope"), NFS_NEXT);
}
