/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Attributes that were asked for and did not come. RFC 8881 lets a server leave out most of
 * them, and READDIR's rdattr_error all of them. What is missing is 0 in the decoded struct, so
 * an empty file, or one that has not changed, must not be made of it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "nfs4_play.h"

/* nfs4_stat_mask in the order of the values. */
static const struct { unsigned number, n; uint32_t w[4]; bool required; } stat_attrs[] = {
	{ FATTR4_TYPE, 1, { NF4REG }, true }, { FATTR4_CHANGE, 2, { 0, 77 }, true },
	{ FATTR4_SIZE, 2, { 1, 0x10 }, true }, { FATTR4_FSID, 4, { 0, 5, 0, 6 }, true },
	{ FATTR4_FILEID, 2, { 0, 7 }, false }, { FATTR4_MODE, 1, { 0644 }, false },
	{ FATTR4_NUMLINKS, 1, { 2 }, false }, { FATTR4_OWNER, 2, { 1, 0x37000000 }, false },
	{ FATTR4_OWNER_GROUP, 2, { 1, 0x38000000 }, false }, { FATTR4_RAWDEV, 2, { 0, 0 }, false },
	{ FATTR4_SPACE_USED, 2, { 0, 4096 }, false }, { FATTR4_TIME_ACCESS, 3, { 0, 1, 2 }, false },
	{ FATTR4_TIME_METADATA, 3, { 0, 3, 4 }, false }, { FATTR4_TIME_MODIFY, 3, { 0, 5, 6 }, false },
};
#define N (sizeof(stat_attrs) / sizeof(stat_attrs[0]))

static bool is_there(unsigned i, unsigned missing, bool owners)
{
	return i != missing && (owners || (stat_attrs[i].number != FATTR4_OWNER &&
					   stat_attrs[i].number != FATTR4_OWNER_GROUP));
}

/* All of them but one; N: all. Directories are asked for without owners. */
static void m_fattr_without(unsigned missing, bool owners)
{
	uint32_t mask[2] = { 0 }, at;

	for (unsigned i = 0; i < N; i++)
		if (is_there(i, missing, owners))
			mask[stat_attrs[i].number / 32] |= 1u << (stat_attrs[i].number % 32);
	M(2, mask[0], mask[1]);
	at = m_len();
	M(0);
	for (unsigned i = 0; i < N; i++)
		if (is_there(i, missing, owners))
			m_words(stat_attrs[i].w, stat_attrs[i].n);
	m_end_opaque(at);
}

static struct { unsigned n; bool attr; } seen;

static bool on_entry(struct nfs_call *c, const struct nfs_dirent *e)
{
	(void)c;
	seen.n++;
	seen.attr = e->attr != NULL;
	return true;
}

static struct nfs_call call(enum nfs_op op)
{
	struct nfs_call c = call4(op);

	if (op == NFS_OP_READDIR) {
		memset(&seen, 0, sizeof(seen));
		c.args.dir.count = 4096;
		c.args.dir.plus = true;
		c.args.dir.entry = on_entry;
	}
	return c;
}

TestSuite(nfs4_missing, .init = play4_setup, .fini = play4_teardown);

Test(nfs4_missing, of_a_file)
{
	for (unsigned i = 0; i <= N; i++) {
		struct nfs_call c = call(NFS_OP_GETATTR);
		bool refused = i < N && stat_attrs[i].required;

		m_res();
		m_op(9);
		m_fattr_without(i, true);
		cr_assert_eq(play_reply(&c, def4(c.op)), refused ? -EBADMSG : 0, "row %u", i);
		cr_assert_eq(c.res.has_attr, !refused, "row %u", i);
		if (refused)
			continue;
		cr_assert(c.res.attr.change == 77 && c.res.attr.size == 0x100000010, "row %u", i);
		/* To the kernel, no link means that the file was removed. */
		cr_assert_eq(c.res.attr.nlink, i < N && stat_attrs[i].number == FATTR4_NUMLINKS ? 1 : 2);
		cr_assert_eq(c.res.attr.uid, i < N && stat_attrs[i].number == FATTR4_OWNER ? NFS_NOBODY : 7);
	}
}

/* None at all: a bitmap of no words, or of words without a bit. */
Test(nfs4_missing, all)
{
	for (uint32_t words = 0; words <= 3; words++) {
		struct nfs_call c = call(NFS_OP_GETATTR);

		m_res();
		m_op(9);
		M(words);
		for (uint32_t w = 0; w < words; w++)
			M(0);
		M(0);
		cr_assert_eq(play_reply(&c, def4(c.op)), -EBADMSG);
	}
}

/* The entry stays, without attributes. */
Test(nfs4_missing, of_an_entry)
{
	for (unsigned i = 0; i <= N; i++) {
		struct nfs_call c = call(NFS_OP_READDIR);
		bool whole = i == N || (!stat_attrs[i].required && stat_attrs[i].number != FATTR4_MODE);

		m_res();
		m_op(26);
		M(0, 0, 1, 0, 3);
		m_str("name");
		m_fattr_without(i, true);
		M(0, 1);
		cr_assert_eq(play_reply(&c, def4(c.op)), 0, "row %u", i);
		cr_assert(seen.n == 1 && seen.attr == whole, "row %u", i);
	}
}

/* The change has had its effect, and so it succeeds. */
Test(nfs4_missing, of_a_changed_directory)
{
	for (unsigned i = 1; i <= N; i++) {
		struct nfs_call c = call(NFS_OP_REMOVE);

		m_res();
		m_op(28);
		M(1, 0, 1, 0, 2);
		m_op(9);
		m_fattr_without(i, false);
		cr_assert_eq(play_reply(&c, def4(c.op)), 0, "row %u", i);
		cr_assert(c.res.dir_change[0].known, "row %u", i);
		cr_assert_eq(c.res.has_dir_attr[0], i == N || !stat_attrs[i].required, "row %u", i);
	}
}

/* LINK in doubt: two files without a number are not proved to be one. */
Test(nfs4_missing, number_of_a_linked_file)
{
	for (unsigned with = 0; with < 2; with++) {
		unsigned missing = with ? N : 4;
		struct nfs_call c = call(NFS_OP_LINK);

		cr_assert_eq(stat_attrs[4].number, FATTR4_FILEID);
		c.eng.step = 2;
		m_res();
		m_op(15);
		m_op(9);
		m_fattr_without(missing, true);
		m_op(22);
		m_op(9);
		m_fattr_without(missing, true);
		cr_assert_eq(play_reply(&c, def4(c.op)), with ? 0 : -EEXIST);
	}
}
