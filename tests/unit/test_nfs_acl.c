/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Access control lists: the forms that programs have (nfs/acl.h), and NFSACL and version 4's
 * attribute against messages written by hand.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <stdlib.h>
#include <string.h>
#include "nfs/acl.h"
#include "nfs/internal.h"
#include "nfs4_play.h"

/* ---- the extended attribute ---- */

#define E(tag, perm, id) (uint8_t)(tag), 0, perm, 0, (id) & 0xff, (id) >> 8 & 0xff, (id) >> 16 & 0xff, (id) >> 24 & 0xff
#define NOBODY 0xffffffffu

static const uint8_t full[] = {
	2, 0, 0, 0, E(ACL_USER_OBJ, 6, NOBODY), E(ACL_USER, 4, 1234u), E(ACL_USER, 7, 70000u),
	E(ACL_GROUP_OBJ, 4, NOBODY), E(ACL_GROUP, 0, 50u), E(ACL_MASK, 7, NOBODY), E(ACL_OTHER, 0, NOBODY),
};
static const uint8_t mode[] = {
	2, 0, 0, 0, E(ACL_USER_OBJ, 6, NOBODY), E(ACL_GROUP_OBJ, 4, NOBODY), E(ACL_OTHER, 4, NOBODY),
};

static struct nfs_acl lists[2], other;
static uint8_t bytes[NFS_ACL_XATTR(NFS_ACL_ENTRIES)];

Test(nfs_acl, there_and_back)
{
	cr_assert_eq(nfs_acl_from_xattr(&other, full, sizeof(full)), 0);
	cr_assert(other.n == 7 && other.e[2].tag == ACL_USER && other.e[2].id == 70000 && other.e[2].perm == 7);
	cr_assert_not(nfs_acl_is_mode(&other));
	cr_assert_eq(nfs_acl_to_xattr(&other, bytes), sizeof(full));
	cr_assert(!memcmp(bytes, full, sizeof(full)));
	cr_assert_eq(nfs_acl_from_xattr(&other, mode, sizeof(mode)), 0);
	cr_assert(nfs_acl_is_mode(&other));
	cr_assert_eq(nfs_acl_from_xattr(&other, full, 4), 0);
	cr_assert_eq(other.n, 0, "an empty list takes the list away");
}

/* In any order, and with ids where there are none. */
Test(nfs_acl, order)
{
	static const uint8_t mixed[] = {
		2, 0, 0, 0, E(ACL_OTHER, 0, 9u), E(ACL_MASK, 7, 0u), E(ACL_GROUP, 0, 50u), E(ACL_USER, 7, 70000u),
		E(ACL_USER_OBJ, 6, 5u), E(ACL_USER, 4, 1234u), E(ACL_GROUP_OBJ, 4, 6u),
	};

	cr_assert_eq(nfs_acl_from_xattr(&other, mixed, sizeof(mixed)), 0);
	cr_assert_eq(nfs_acl_to_xattr(&other, bytes), sizeof(full));
	cr_assert(!memcmp(bytes, full, sizeof(full)));
}

Test(nfs_acl, what_is_none)
{
	static const struct { size_t at; uint8_t to; } t[] = {
		{ 0, 1 }, { 0, 3 }, { 1, 1 },   /* the version */
		{ 4, 2 }, { 4, 0 }, { 4, 0x40 }, { 5, 1 },      /* tags: a named one without a name, none, ... */
		{ 6, 8 }, { 7, 1 },             /* permissions */
		{ 16, 0x72 },                   /* (see below) */
		{ 28, ACL_USER_OBJ }, { 28, ACL_OTHER },        /* twice, and none of the other */
		{ 44, ACL_OTHER },              /* no mask */
		{ 52, ACL_MASK },
	};
	uint8_t bad[sizeof(full)];

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		memcpy(bad, full, sizeof(full));
		if (t[i].at == 16) {            /* the same user twice */
			memcpy(bad + 24, bad + 16, 4);
		} else {
			bad[t[i].at] = t[i].to;
		}
		cr_assert_eq(nfs_acl_from_xattr(&other, bad, sizeof(bad)), -EINVAL, "row %u", i);
	}
	for (size_t len = 0; len < sizeof(full); len++)
		if (len != 4)
			cr_assert_eq(nfs_acl_from_xattr(&other, full, len), -EINVAL, "%zu bytes", len);
}

static void long_list(struct nfs_acl *acl, uint32_t n)
{
	acl->n = n;
	for (uint32_t i = 0; i < n; i++)
		acl->e[i] = (struct nfs_ace){ ACL_USER, 4, 1000 + i };
	acl->e[0] = (struct nfs_ace){ ACL_USER_OBJ, 6, NFS_ACL_NO_ID };
	acl->e[n - 3] = (struct nfs_ace){ ACL_GROUP_OBJ, 4, NFS_ACL_NO_ID };
	acl->e[n - 2] = (struct nfs_ace){ ACL_MASK, 4, NFS_ACL_NO_ID };
	acl->e[n - 1] = (struct nfs_ace){ ACL_OTHER, 4, NFS_ACL_NO_ID };
}

Test(nfs_acl, long_lists)
{
	static uint8_t more[NFS_ACL_XATTR(NFS_ACL_ENTRIES + 1)] = { 2 };

	long_list(&other, NFS_ACL_ENTRIES);
	cr_assert_eq(nfs_acl_to_xattr(&other, bytes), sizeof(bytes));
	cr_assert_eq(nfs_acl_from_xattr(&lists[0], bytes, sizeof(bytes)), 0);
	cr_assert(lists[0].n == NFS_ACL_ENTRIES && !memcmp(lists[0].e, other.e, sizeof(other.e)));
	cr_assert_eq(nfs_acl_from_xattr(&lists[0], more, sizeof(more)), -E2BIG);
}

/* ---- version 4's ---- */

static const uint32_t aces[] = { 2, 0, 0, 0x1601a7, 6, 0x4f574e45, 0x52400000, 1, 0x40, 2, 1, 0x35000000 };

static size_t v4(const uint32_t *w, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i++)
		for (unsigned b = 0; b < 4; b++)
			out[4 * i + b] = (uint8_t)(w[i] >> (24 - 8 * b));
	return 4 * n;
}

Test(nfs_acl, form_of_version_4)
{
	uint8_t acl[sizeof(aces) + 4];
	size_t len = v4(aces, 12, acl);

	cr_assert(nfs_acl_is_v4(acl, len));
	for (size_t i = 0; i < len; i++)
		cr_assert_not(nfs_acl_is_v4(acl, i), "%zu bytes", i);
	cr_assert_not(nfs_acl_is_v4(acl, len + 4));
	cr_assert(nfs_acl_is_v4("\0\0\0", 4), "an empty list");
	acl[3] = 3;
	cr_assert_not(nfs_acl_is_v4(acl, len));
	memset(acl, 0xff, 4);
	cr_assert_not(nfs_acl_is_v4(acl, len));
	v4(aces, 12, acl);
	for (uint32_t who = 0; who < 2; who++) {
		memset(acl + 16, who ? 0xff : 0x7f, 4);
		cr_assert_not(nfs_acl_is_v4(acl, len), "a name that is longer than all of it");
	}
}

/* ---- NFSACL ---- */

static struct nfs_client cl3 = { .name_max = 255 };
static struct nfs_server server3 = { .client = &cl3, .version = &nfs_v3 };
static struct nfs_lane lane3 = { .client = &cl3, .target = { .server = &server3, .lane = &lane3 } };

static struct nfs_call call3(enum nfs_op op, unsigned kinds)
{
	return (struct nfs_call){
		.op = op, .lane = &lane3, .target = &lane3.target, .args.fh = &fh,
		.args.acl = { .kinds = kinds, .lists = lists },
	};
}

#define ACCESS (1u << NFS_ACL_ACCESS)
#define DEFAULT (1u << NFS_ACL_DEFAULT)

static void m_ace(uint32_t type, uint32_t id, uint32_t perm)
{
	M(type, id, perm);
}

static void m_full(uint32_t flag)
{
	M(7, 7);
	m_ace(1 | flag, 0, 6);
	m_ace(2 | flag, 1234, 4);
	m_ace(2 | flag, 70000, 7);
	m_ace(4 | flag, 0, 4);
	m_ace(8 | flag, 50, 0);
	m_ace(0x10 | flag, 0, 7);
	m_ace(0x20 | flag, 0, 0);
}

/* The three, and a mask. */
static void m_mode(uint32_t flag)
{
	M(4, 4);
	m_ace(1 | flag, 0, 6);
	m_ace(4 | flag, 0, 4);
	m_ace(0x10 | flag, 0, 4);
	m_ace(0x20 | flag, 0, 4);
}

static void m_attr3(void)
{
	M(1, 1, 0644, 2, 1000, 100, 0, 0x10, 0, 0x2000, 0, 0, 0, 5, 0, 7, 100, 1, 200, 2, 300, 3);
}

Test(nfs_acl, nfsacl_is_a_program_of_its_own)
{
	for (enum nfs_op op = NFS_OP_GETACL; op <= NFS_OP_SETACL; op++) {
		const struct nfs_opdef *d = nfs_v3.ops[op];

		cr_assert(d->prog == 100227 && d->proc == (op == NFS_OP_GETACL ? 1 : 2));
		cr_assert_lt(d->counted, nfs_v3.nprocs);
		cr_assert_str_eq(nfs_v3.procs[d->counted], d->name);
	}
}

Test(nfs_acl, nfsacl_getacl)
{
	static const struct { unsigned kinds; uint32_t mask; } t[] = {
		{ ACCESS, 3 }, { DEFAULT, 12 }, { ACCESS | DEFAULT, 15 },
	};
	const struct nfs_opdef *d = nfs_v3.ops[NFS_OP_GETACL];

	for (unsigned i = 0; i < 3; i++) {
		struct nfs_call c = call3(NFS_OP_GETACL, t[i].kinds), pristine = c;

		m_new();
		m_opaque("fhand", 5);
		M(t[i].mask);
		play_args(&c, d);
		m_new();
		M(0);
		m_attr3();
		M(15);
		m_mode(0);
		m_full(0x1000);
		lists[0].n = lists[1].n = 99;
		cr_assert_eq(play_reply(&c, d), 0);
		cr_assert(c.res.has_attr && c.res.attr.uid == 1000);
		if (t[i].kinds & ACCESS)
			cr_assert(nfs_acl_to_xattr(&lists[0], bytes) == sizeof(mode) && !memcmp(bytes, mode, sizeof(mode)));
		else
			cr_assert_eq(lists[0].n, 99);
		if (t[i].kinds & DEFAULT)
			cr_assert(nfs_acl_to_xattr(&lists[1], bytes) == sizeof(full) && !memcmp(bytes, full, sizeof(full)));
		else
			cr_assert_eq(lists[1].n, 99);
		play_all_cuts(&pristine, d, NULL);
		play_twists(&pristine, d, NULL);
		play_default_limits(&pristine, d, 64);
	}
}

/* No list; a list with bits that others do not have; and lists that are none. */
Test(nfs_acl, nfsacl_lists)
{
	static const struct { uint32_t n, type, perm; int rc; } t[] = {
		{ 0, 1, 6, 0 }, { 4, 1, 0xfffffffe, 0 }, { 4, 0x1001, 6, 0 }, { 4, 2, 6, -EBADMSG },
		{ 4, 0x101, 6, -EBADMSG }, { 4, 0x20, 6, -EBADMSG }, { 1025, 1, 6, -EBADMSG }, { 5, 1, 6, -EBADMSG },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call3(NFS_OP_GETACL, ACCESS);

		m_new();
		M(0, 0, 3, t[i].n, t[i].n);
		if (t[i].n) {
			m_ace(t[i].type, 0, t[i].perm);
			m_ace(4, 0, 4);
			m_ace(0x10, 0, 4);
			m_ace(0x20, 0, 4);
		}
		M(0, 0);
		cr_assert_eq(play_reply(&c, nfs_v3.ops[NFS_OP_GETACL]), t[i].rc, "row %u", i);
		if (!t[i].rc)
			cr_assert_eq(lists[0].n, t[i].n ? 3 : 0);
	}
}

Test(nfs_acl, nfsacl_setacl)
{
	const struct nfs_opdef *d = nfs_v3.ops[NFS_OP_SETACL];
	struct nfs_call c = call3(NFS_OP_SETACL, ACCESS), pristine = c;

	nfs_acl_from_xattr(&lists[0], full, sizeof(full));
	m_new();
	m_opaque("fhand", 5);
	M(1);
	m_full(0);
	M(0, 0);
	play_args(&c, d);

	c = call3(NFS_OP_SETACL, ACCESS | DEFAULT);
	nfs_acl_from_xattr(&lists[1], mode, sizeof(mode));
	m_new();
	m_opaque("fhand", 5);
	M(5);
	m_full(0);
	m_mode(0x1000);
	play_args(&c, d);

	m_new();
	M(0);
	m_attr3();
	cr_assert_eq(play_reply(&c, d), 0);
	cr_assert(c.res.has_attr && c.res.attr.mode == (S_IFREG | 0644));
	play_all_cuts(&pristine, d, NULL);
	play_twists(&pristine, d, NULL);
	m_new();
	M(1, 0);
	cr_assert_eq(play_reply(&c, d), -EPERM);
	m_new();
	M(10004, 0);
	cr_assert_eq(play_reply(&c, d), -EOPNOTSUPP);
	m_new();
	M(10008, 0);
	cr_assert_eq(play_reply(&c, d), NFS_LATER);
}

/* Both lists of 1,024 entries: the arguments fit their buffer, and the reply its chunk. */
Test(nfs_acl, nfsacl_of_1024_entries)
{
	struct nfs_call c = call3(NFS_OP_SETACL, ACCESS | DEFAULT);
	static const size_t size[] = { ARENA_MSG_SIZE, ARENA_SMALL_SIZE, ARENA_MID_SIZE, ARENA_BIG_SIZE };
	static char msg[ARENA_BIG_SIZE];
	XDR x;

	long_list(&lists[0], NFS_ACL_ENTRIES);
	long_list(&lists[1], NFS_ACL_ENTRIES);
	c.eng.auth.flavor = &rpc_auth_sys;
	xdr_msg_create(&x, msg, (u_int)(size[nfs_message_class(&c)] - RR_HDR_ROOM - RPC_CALL_HDR_MAX), XDR_ENCODE);
	cr_assert(nfs_v3.ops[c.op]->encode(&c, &x));

	c = call3(NFS_OP_GETACL, ACCESS | DEFAULT);
	m_new();
	M(0);
	m_attr3();
	M(15);
	for (unsigned l = 0; l < 2; l++) {
		M(NFS_ACL_ENTRIES, NFS_ACL_ENTRIES);
		for (unsigned i = 0; i < NFS_ACL_ENTRIES; i++)
			m_ace(lists[l].e[i].tag, lists[l].e[i].id, lists[l].e[i].perm);
	}
	lists[0].n = 0;
	cr_assert_eq(play_reply(&c, nfs_v3.ops[c.op]), 0);
	cr_assert(lists[0].n == NFS_ACL_ENTRIES && lists[1].n == NFS_ACL_ENTRIES);
}

/* ---- the attribute ---- */

TestSuite(nfs4_acl, .init = play4_setup, .fini = play4_teardown);

static uint8_t v4_acl[65536];

static struct nfs_call call_v4(enum nfs_op op, size_t len)
{
	struct nfs_call c = call4(op);

	c.args.acl = (struct nfs_acl_args){
		.kinds = 1u << NFS_ACL_V4, .value = v4_acl, .len = (uint32_t)len,
	};
	return c;
}

static void m_acl(size_t len)
{
	M(1, 1 << 12);
	m_opaque(v4_acl, (uint32_t)len);
}

Test(nfs4_acl, getacl)
{
	const struct nfs_opdef *d = nfs_v41.ops[NFS_OP_GETACL];
	size_t len = v4(aces, 12, v4_acl);
	struct nfs_call c = call_v4(NFS_OP_GETACL, 0), pristine = c;

	m_args(3, false);
	M(9, 1, 1 << 12);
	play_args(&c, d);
	m_res();
	m_op(9);
	m_acl(len);
	cr_assert_eq(play_reply(&c, d), 0);
	cr_assert(c.res.xattr.len == len && !memcmp(c.res.xattr.value, v4_acl, len));
	hooks4.after(&c);
	play_all_cuts(&pristine, d, &hooks4);
	play_twists(&pristine, d, &hooks4);
	play_default_limits(&pristine, d, 128);
}

Test(nfs4_acl, bad_attributes)
{
	static const struct { unsigned n; uint32_t w[8]; int rc; } t[] = {
		{ 2, { 0, 0 }, -EOPNOTSUPP }, { 3, { 1, 0, 0 }, -EOPNOTSUPP }, { 4, { 1, 1 << 12, 4, 0 }, 0 },
		{ 4, { 1, 1 << 12, 4, 1 }, -EBADMSG }, { 3, { 1, 1 << 12, 0 }, -EBADMSG },
		{ 6, { 1, 1 << 12 | 1 << 13, 8, 0, 0 }, -EBADMSG }, { 5, { 2, 1 << 12, 1, 4, 0 }, -EBADMSG },
		{ 5, { 1, 1 << 12, 8, 0, 0 }, -EBADMSG }, { 5, { 2, 1 << 12, 0, 4, 0 }, 0 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call_v4(NFS_OP_GETACL, 0);

		m_res();
		m_op(9);
		m_words(t[i].w, t[i].n);
		cr_assert_eq(play_reply(&c, nfs_v41.ops[c.op]), t[i].rc, "row %u", i);
		hooks4.after(&c);
	}
}

Test(nfs4_acl, setacl)
{
	const struct nfs_opdef *d = nfs_v41.ops[NFS_OP_SETACL];
	size_t len = v4(aces, 12, v4_acl);
	struct nfs_call c = call_v4(NFS_OP_SETACL, len), pristine = c;

	m_args(4, true);
	M(34, 0, 0, 0, 0);
	m_acl(len);
	M(9, STAT_MASK);
	play_args(&c, d);
	m_res();
	m_op(34);
	M(1, 1 << 12);
	m_op(9);
	m_stat_fattr();
	cr_assert_eq(play_reply(&c, d), 0);
	expect_stat(&c.res.attr);
	hooks4.after(&c);
	play_all_cuts(&pristine, d, &hooks4);
	play_twists(&pristine, d, &hooks4);
}

Test(nfs4_acl, what_the_server_refuses)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 10032, -EOPNOTSUPP }, { 10039, -EINVAL }, { 22, -EINVAL }, { 1, -EPERM }, { 10008, NFS_LATER },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call_v4(NFS_OP_SETACL, 4);

		m_res();
		m_op(34);
		M(0);
		m_fail_at(2, t[i].status);
		m_trunc(m_len());
		M(0);
		cr_assert_eq(play_reply(&c, nfs_v41.ops[c.op]), t[i].rc, "row %u", i);
		hooks4.after(&c);
	}
}

Test(nfs4_acl, lists_of_1000_entries)
{
	uint32_t n = 1000;
	size_t len = 4;
	struct nfs_call c;

	v4(&n, 1, v4_acl);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t head[] = { 0, 0, 0x1601a7, 20 };

		len += v4(head, 4, v4_acl + len);
		len += (size_t)sprintf((char *)v4_acl + len, "%08u@example.org", i);
	}
	cr_assert(nfs_acl_is_v4(v4_acl, len));
	c = call_v4(NFS_OP_GETACL, 0);
	m_res();
	m_op(9);
	m_acl(len);
	cr_assert_eq(play_reply(&c, nfs_v41.ops[c.op]), 0);
	cr_assert_eq(c.res.xattr.len, len);
	hooks4.after(&c);
	c = call_v4(NFS_OP_SETACL, len);
	m_args(4, true);
	M(34, 0, 0, 0, 0);
	m_acl(len);
	M(9, STAT_MASK);
	play_args(&c, nfs_v41.ops[c.op]);
	cr_assert_eq(nfs_message_class(&c), ARENA_MID);
	hooks4.after(&c);
}

/* ---- version 4.2's POSIX lists ---- */

static struct nfs_call call_posix(enum nfs_op op, enum nfs_acl_kind kind)
{
	struct nfs_call c = call4(op);

	c.args.acl = (struct nfs_acl_args){ .kinds = 1u << kind, .lists = lists };
	return c;
}

static void m_posix_mask(enum nfs_acl_kind kind)
{
	M(3, 0, 0, kind == NFS_ACL_DEFAULT ? 1 << 27 : 1 << 28);
}

static void m_posix(void)
{
	uint32_t at = m_len();

	M(0, 7);
	M(1, 6, 0);
	M(2, 4), m_str("1234");
	M(2, 7), m_str("70000");
	M(3, 4, 0);
	M(4, 0), m_str("50");
	M(5, 7, 0);
	M(6, 0, 0);
	m_end_opaque(at);
}

Test(nfs4_acl, posix_lists)
{
	for (enum nfs_acl_kind kind = NFS_ACL_ACCESS; kind <= NFS_ACL_DEFAULT; kind++) {
		struct nfs_call c = call_posix(NFS_OP_GETACL, kind), pristine = c;

		m_args(3, false);
		M(9);
		m_posix_mask(kind);
		play_args(&c, nfs_v42.ops[c.op]);
		m_res();
		m_op(9);
		m_posix_mask(kind);
		m_posix();
		memset(lists, 0, sizeof(lists));
		cr_assert_eq(play_reply(&c, nfs_v42.ops[c.op]), 0);
		cr_assert(nfs_acl_to_xattr(&lists[kind], bytes) == sizeof(full) && !memcmp(bytes, full, sizeof(full)));
		cr_assert_eq(lists[!kind].n, 0);
		hooks4.after(&c);
		play_all_cuts(&pristine, nfs_v42.ops[c.op], &hooks4);
		play_twists(&pristine, nfs_v42.ops[c.op], &hooks4);

		c = call_posix(NFS_OP_SETACL, kind);
		nfs_acl_from_xattr(&lists[kind], full, sizeof(full));
		m_args(4, true);
		M(34, 0, 0, 0, 0);
		m_posix_mask(kind);
		m_posix();
		M(9, STAT_MASK);
		play_args(&c, nfs_v42.ops[c.op]);
		hooks4.after(&c);

		c = call_posix(NFS_OP_SETACL, kind);
		lists[kind].n = 0;
		m_args(4, true);
		M(34, 0, 0, 0, 0);
		m_posix_mask(kind);
		M(4, 0, 9, STAT_MASK);
		play_args(&c, nfs_v42.ops[c.op]);
		hooks4.after(&c);
	}
}

Test(nfs4_acl, bad_posix_lists)
{
	static const struct { unsigned n; uint32_t w[12]; int rc; } t[] = {
		{ 1, { 0 }, 0 }, { 10, { 3, 1, 6, 0, 3, 4, 0, 6, 4, 0 }, 0 },
		{ 10, { 2, 1, 6, 0, 3, 4, 0, 6, 4, 0 }, -EBADMSG }, { 10, { 4, 1, 6, 0, 3, 4, 0, 6, 4, 0 }, -EBADMSG },
		{ 10, { 3, 0, 6, 0, 3, 4, 0, 6, 4, 0 }, -EBADMSG }, { 10, { 3, 7, 6, 0, 3, 4, 0, 6, 4, 0 }, -EBADMSG },
		{ 10, { 3, 1, 8, 0, 3, 4, 0, 6, 4, 0 }, -EBADMSG }, { 1, { 1025 }, -EBADMSG },
		{ 10, { 3, 0xffffffff, 6, 0, 3, 4, 0, 6, 4, 0 }, -EBADMSG }, { 0, { 0 }, -EBADMSG },
		/* A name, and none where there has to be one. */
		{ 8, { 3, 1, 6, 0, 2, 4, 1, 0x61000000 }, -EOPNOTSUPP }, { 7, { 3, 1, 6, 0, 2, 4, 0 }, -EOPNOTSUPP },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call_posix(NFS_OP_GETACL, NFS_ACL_ACCESS);

		m_res();
		m_op(9);
		m_posix_mask(NFS_ACL_ACCESS);
		M(4 * t[i].n);
		m_words(t[i].w, t[i].n);
		cr_assert_eq(play_reply(&c, nfs_v42.ops[c.op]), t[i].rc, "row %u", i);
		hooks4.after(&c);
	}
}

/* ---- the umask of who makes something ---- */

static struct nfs_call call_make(enum nfs_op op)
{
	struct nfs_call c = call4(op);

	nfs4_call(&c)->owner = 5;
	c.args.file.flags = O_RDWR | O_EXCL;
	c.args.file.verifier = 0x0101010101010101;
	c.args.sattr = (struct nfs_sattr){ .valid = NFS_SET_MODE | NFS_SET_UMASK, .mode = 0100666, .umask = 022 };
	return c;
}

static void m_umask(void)
{
	M(3, 0, 0, 1 << 17, 8, 0666, 022);
}

Test(nfs4_acl, mode_and_umask)
{
	static const struct { uint32_t w1, w2; bool mode; } t[] = {
		{ 1 << 21, 1 << 17, false }, { 2, 0, false }, { 2 | 1 << 21, 0, false }, { 0, 0, true },
	};
	struct nfs_call c = call_make(NFS_OP_MKDIR);

	m_args(7, true);
	M(6, 2);
	m_str("name");
	m_umask();
	M(10, 9, STAT_MASK, 22);
	m_opaque("fhand", 5);
	M(9, 2, 0x0010011a, 0x0030a20a);
	play_args(&c, nfs_v42.ops[c.op]);
	hooks4.after(&c);

	/* What the server has set by it is not set again with the times. What it has not set: as the
	 * kernel would have applied the umask. */
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct nfs_opdef *d = nfs_v42.ops[NFS_OP_CREATE];

		c = call_make(NFS_OP_CREATE);
		m_args(7, true);
		M(18, 0, 3 | 0x400, 0, 0x00c11e27, 1, 8, 0x05000000, 0);
		M(1, 3, 0x01010101, 0x01010101);
		m_umask();
		M(0);
		m_str("name");
		M(10, 9, STAT_MASK, 22);
		m_opaque("fhand", 5);
		M(9, 2, 0x0010011a, 0x0030a20a);
		play_args(&c, d);
		m_res();
		m_op(18);
		M(4, STATEID_WORDS, 1, 0, 1, 0, 2, 4, 3, 0, t[i].w1, t[i].w2, 0);
		m_op(10);
		m_opaque("new handle", 10);
		m_op(9);
		m_stat_fattr();
		m_op(22);
		m_fail_at(5, 70);
		if (!t[i].mode && !(t[i].w1 & 1 << 21)) {
			cr_assert_eq(play_reply(&c, d), 0, "row %u", i);
		} else {
			cr_assert_eq(play_reply(&c, d), NFS_NEXT, "row %u", i);
			m_seq_args(4, true);
			M(22);
			m_opaque("new handle", 10);
			M(34, 0, STATEID_WORDS);
			if (t[i].mode)
				M(2, 0, 2 | 1 << 16 | 1 << 22, 12, 0644, 0, 0);
			else
				M(2, 0, 1 << 16 | 1 << 22, 8, 0, 0);
			M(9, STAT_MASK);
			play_args(&c, d);
		}
		hooks4.after(&c);
	}
}
