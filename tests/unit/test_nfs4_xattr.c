/* SPDX-License-Identifier: GPL-2.0-or-later */
/* GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR (RFC 8276), against COMPOUNDs written by hand. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include "nfs/internal.h"
#include "nfs4_play.h"

static char value[NFS_XATTR_MAX + 4];
static char names[4096];

static void on_name(struct nfs_call *c, const char *name, uint32_t len)
{
	size_t n = strlen(names);

	(void)c;
	cr_assert_lt(n + len + 2, sizeof(names));
	memcpy(names + n, name, len);
	strcpy(names + n + len, ";");
}

static struct nfs_call call(enum nfs_op op)
{
	struct nfs_call c = call4(op);

	names[0] = '\0';
	if (op == NFS_OP_SETXATTR) {
		c.args.xattr.value = "hello";
		c.args.xattr.len = 5;
		c.args.xattr.flags = 0;
	} else if (op == NFS_OP_LISTXATTRS) {
		c.args.xattr = (struct nfs_xattr_args){
			.len = 8192, .cookie = 0x1122334455667788, .entry = on_name,
		};
	}
	return c;
}

static void args(struct nfs_call c)
{
	m_minor();
	play_args(&c, def4(c.op));
}

static void m_getattr(void)
{
	M(9, STAT_MASK);
}

TestSuite(nfs4_xattr, .init = play4_setup, .fini = play4_teardown);

Test(nfs4_xattr, arguments)
{
	static const struct { int flags; uint32_t option; } t[] = {
		{ 0, 0 }, { XATTR_CREATE, 1 }, { XATTR_REPLACE, 2 },
	};
	struct nfs_call c;

	m_args(3, false);
	M(72);
	m_str("name");
	args(call(NFS_OP_GETXATTR));

	for (unsigned i = 0; i < 3; i++) {
		c = call(NFS_OP_SETXATTR);
		c.args.xattr.flags = t[i].flags;
		m_args(4, true);
		M(73, t[i].option);
		m_str("name");
		m_str("hello");
		m_getattr();
		args(c);
	}
	c = call(NFS_OP_SETXATTR);
	c.args.xattr.value = NULL;
	c.args.xattr.len = 0;
	m_args(4, true);
	M(73, 0);
	m_str("name");
	M(0);
	m_getattr();
	args(c);

	m_args(3, false);
	M(74, 0x11223344, 0x55667788, 8192);
	args(call(NFS_OP_LISTXATTRS));

	m_args(4, true);
	M(75);
	m_str("name");
	m_getattr();
	args(call(NFS_OP_REMOVEXATTR));
}

/* Only 4.2 has them. */
Test(nfs4_xattr, versions)
{
	for (enum nfs_op op = NFS_OP_GETXATTR; op <= NFS_OP_REMOVEXATTR; op++)
		cr_assert(!nfs_v3.ops[op] && !nfs_v41.ops[op] && nfs_v42.ops[op]);
}

/* ---- replies ---- */

static void m_change(uint32_t op, uint32_t atomic)
{
	m_op(op);
	M(atomic, 0, 76, 0, 77);
	m_op(9);
	m_stat_fattr();
}

static void m_names(uint64_t cookie, uint32_t n)
{
	m_op(74);
	m_u64(cookie);
	M(n);
}

static void good_reply(enum nfs_op op)
{
	m_res();
	switch (op) {
	case NFS_OP_GETXATTR:
		m_op(72);
		m_str("hello");
		break;
	case NFS_OP_LISTXATTRS:
		m_names(3, 2);
		m_str("a");
		m_str("long/er");
		M(1);
		break;
	default:
		m_change(op == NFS_OP_SETXATTR ? 73 : 75, 1);
		break;
	}
}

static const enum nfs_op all_ops[] = {
	NFS_OP_GETXATTR, NFS_OP_SETXATTR, NFS_OP_LISTXATTRS, NFS_OP_REMOVEXATTR,
};

Test(nfs4_xattr, good_replies)
{
	for (unsigned i = 0; i < 4; i++) {
		struct nfs_call c = call(all_ops[i]), pristine = c;
		const struct nfs_opdef *d = def4(c.op);

		good_reply(c.op);
		cr_assert_eq(play_reply(&c, d), 0, "%s", d->name);
		if (c.op == NFS_OP_GETXATTR)
			cr_assert(c.res.xattr.len == 5 && !memcmp(c.res.xattr.value, "hello", 5));
		else if (c.op == NFS_OP_LISTXATTRS)
			cr_assert(c.res.xattr.eof && c.res.xattr.cookie == 3 && !strcmp(names, "a;long/er;"));
		else
			expect_stat(&c.res.attr);
		if (c.op == NFS_OP_SETXATTR || c.op == NFS_OP_REMOVEXATTR)
			cr_assert(c.res.dir_change[0].known && c.res.dir_change[0].before == 76 &&
				  c.res.dir_change[0].after == 77);
		hooks4.after(&c);
		play_all_cuts(&pristine, d, &hooks4);
		names[0] = '\0';
		play_default_limits(&pristine, d, 128);
	}
}

/* Without the list: each of its twists appends names. */
Test(nfs4_xattr, twisted_replies)
{
	for (unsigned i = 0; i < 4; i++) {
		struct nfs_call c = call(all_ops[i]);

		if (c.op == NFS_OP_LISTXATTRS)
			continue;
		good_reply(c.op);
		play_twists(&c, def4(c.op), &hooks4);
	}
}

Test(nfs4_xattr, what_the_server_refuses)
{
	static const struct { uint32_t status; int rc; } t[] = {
		{ 10095, -ENODATA }, { 10096, -E2BIG }, { 10004, -EOPNOTSUPP }, { 17, -EEXIST },
		{ 1, -EPERM }, { 13, -EACCES }, { 28, -ENOSPC }, { 69, -EDQUOT }, { 30, -EROFS },
		{ 70, -ESTALE }, { 10008, NFS_LATER }, { 10052, NFS_RECOVER },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		for (unsigned o = 0; o < 4; o++) {
			struct nfs_call c = call(all_ops[o]);

			good_reply(c.op);
			m_fail_at(2, t[i].status);
			cr_assert_eq(play_reply(&c, def4(c.op)), t[i].rc, "row %u, %s", i, def4(c.op)->name);
			hooks4.after(&c);
		}
	}
}

/* It has said that it has them, and has not. */
Test(nfs4_xattr, operations_that_the_server_does_not_know)
{
	for (unsigned o = 0; o < 4; o++) {
		struct nfs_call c = call(all_ops[o]);

		m_res();
		M(10044, 10044);
		cr_assert_eq(play_reply(&c, def4(c.op)), -EOPNOTSUPP);
		hooks4.after(&c);
	}
}

/* What has had its effect is not sent again for its attributes. */
Test(nfs4_xattr, late_attributes)
{
	for (unsigned o = 1; o < 4; o += 2) {
		struct nfs_call c = call(all_ops[o]);

		good_reply(c.op);
		m_fail_at(3, 10008);
		cr_assert_eq(play_reply(&c, def4(c.op)), NFS_LATER);
		m_args(3, false);
		m_getattr();
		args(c);
		m_res();
		m_op(9);
		m_stat_fattr();
		cr_assert_eq(play_reply(&c, def4(c.op)), 0);
		expect_stat(&c.res.attr);
		cr_assert(c.res.dir_change[0].known);
		hooks4.after(&c);
	}
}

/* The session was lost with the reply. */
Test(nfs4_xattr, own_earlier_effect)
{
	struct nfs_call c = call(NFS_OP_REMOVEXATTR);

	nfs4_call(&c)->in_doubt = true;
	good_reply(c.op);
	m_fail_at(2, 10095);
	cr_assert_eq(play_reply(&c, def4(c.op)), NFS_NEXT);
	m_args(3, false);
	m_getattr();
	args(c);
	hooks4.after(&c);

	c = call(NFS_OP_SETXATTR);
	c.args.xattr.flags = XATTR_CREATE;
	nfs4_call(&c)->in_doubt = true;
	good_reply(c.op);
	m_fail_at(2, 17);
	cr_assert_eq(play_reply(&c, def4(c.op)), -EEXIST);
	hooks4.after(&c);
}

/* Others may have changed the file in between. */
Test(nfs4_xattr, change_that_is_not_atomic)
{
	struct nfs_call c = call(NFS_OP_SETXATTR);

	m_res();
	m_change(73, 0);
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	cr_assert_not(c.res.dir_change[0].known);
	hooks4.after(&c);
}

/* ---- the longest ---- */

Test(nfs4_xattr, values_of_64_kib_and_one_byte_more)
{
	for (uint32_t more = 0; more < 2; more++) {
		struct nfs_call c = call(NFS_OP_GETXATTR);

		memset(value, 'x', sizeof(value));
		m_res();
		m_op(72);
		m_opaque(value, NFS_XATTR_MAX + more);
		cr_assert_eq(play_reply(&c, def4(c.op)), more ? -EBADMSG : 0);
		if (!more)
			cr_assert(c.res.xattr.len == NFS_XATTR_MAX && !memcmp(c.res.xattr.value, value, NFS_XATTR_MAX));
		hooks4.after(&c);

		c = call(NFS_OP_SETXATTR);
		c.args.xattr.value = value;
		c.args.xattr.len = NFS_XATTR_MAX + more;
		if (more) {
			char buf[512];
			XDR x;

			xdr_msg_create(&x, buf, sizeof(buf), XDR_ENCODE);
			cr_assert_not(def4(c.op)->encode(&c, &x));
		} else {
			m_args(4, true);
			M(73, 0);
			m_str("name");
			m_opaque(value, NFS_XATTR_MAX);
			m_getattr();
			args(c);
		}
		hooks4.after(&c);
	}
}

/* With the longest handle, credentials and name, the message fits the buffer that it gets. */
Test(nfs4_xattr, message_buffers)
{
	static const struct { uint32_t len; enum arena_class cls; } t[] = {
		{ 0, ARENA_MSG }, { 2000, ARENA_MSG }, { 2800, ARENA_MID }, { 60000, ARENA_MID },
		{ 65000, ARENA_BIG }, { NFS_XATTR_MAX, ARENA_BIG },
	};
	static const size_t size[] = { ARENA_MSG_SIZE, ARENA_SMALL_SIZE, ARENA_MID_SIZE, ARENA_BIG_SIZE };
	static const struct rpc_cred cred = { .ngids = RPC_GIDS_MAX };
	static char name[256], msg[ARENA_BIG_SIZE];
	struct nfs_fh longest = { .len = NFS_FH_MAX };

	memset(name, 'n', 250);
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct rpc_auth_call k = { .flavor = &rpc_auth_sys, .cred = &cred };
		struct nfs_call c = call(NFS_OP_SETXATTR);
		XDR x;

		c.eng.auth = k;
		c.args.fh = &longest;
		c.args.name = name;
		c.args.xattr.value = value;
		c.args.xattr.len = t[i].len;
		cr_assert_eq(nfs_message_class(&c), t[i].cls, "row %u", i);
		xdr_msg_create(&x, msg, (u_int)(size[t[i].cls] - RR_HDR_ROOM), XDR_ENCODE);
		cr_assert(rpcmsg_call(&x, 1, 1, 1, 1, &k) && def4(c.op)->encode(&c, &x), "row %u", i);
		hooks4.after(&c);
	}
}

/* ---- lists ---- */

Test(nfs4_xattr, lists_that_do_not_go_on)
{
	static const struct { uint64_t cookie; uint32_t n, eof; int rc; } t[] = {
		{ 0x1122334455667788, 1, 0, -EBADMSG }, { 5, 0, 0, -EBADMSG }, { 5, 1, 0, 0 },
		{ 0x1122334455667788, 1, 1, 0 }, { 0x1122334455667788, 0, 1, 0 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_LISTXATTRS);

		m_res();
		m_names(t[i].cookie, t[i].n);
		if (t[i].n)
			m_str("a");
		M(t[i].eof);
		cr_assert_eq(play_reply(&c, def4(c.op)), t[i].rc, "row %u", i);
		if (!t[i].rc)
			cr_assert(c.res.xattr.eof == t[i].eof && c.res.xattr.cookie == t[i].cookie);
		hooks4.after(&c);
	}
}

Test(nfs4_xattr, names_that_are_none)
{
	static const struct { const char *name; uint32_t len; int rc; const char *listed; } t[] = {
		{ "", 0, -EBADMSG, NULL }, { "a\0b", 3, -EBADMSG, NULL }, { "a\0", 2, -EBADMSG, NULL },
		{ value, 250, 0, value }, { value, 251, 0, "" }, { value, 1024, 0, "" },
		{ value, 1025, -EBADMSG, NULL },
	};

	memset(value, 'n', sizeof(value));
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = call(NFS_OP_LISTXATTRS);

		m_res();
		m_names(5, 2);
		m_opaque(t[i].name, t[i].len);
		m_str("z");
		M(1);
		cr_assert_eq(play_reply(&c, def4(c.op)), t[i].rc, "row %u", i);
		if (t[i].listed)
			cr_assert_eq(strlen(names), 2 + (t[i].listed[0] ? 251 : 0), "row %u: %s", i, names);
		hooks4.after(&c);
	}
}

/* More names than there are bytes. */
Test(nfs4_xattr, a_count_that_is_not_true)
{
	static const uint32_t counts[] = { 3, 0x7fffffff, 0xffffffff };

	for (unsigned i = 0; i < 3; i++) {
		struct nfs_call c = call(NFS_OP_LISTXATTRS);

		m_res();
		m_names(5, counts[i]);
		m_str("a");
		m_str("b");
		M(1);
		cr_assert_eq(play_reply(&c, def4(c.op)), -EBADMSG);
		hooks4.after(&c);
	}
}

/* ---- at the mount ---- */

/* supported: of its words 0 and 2 bits 12, 17 and 27, 28. */
Test(nfs4_xattr, the_server_says_what_it_has)
{
	static const struct {
		bool v42, acl;
		uint32_t supports, w0, w2, exclusive;
		unsigned has;
	} t[] = {
		{ true, false, 0, 0, 0, 0, 0 }, { true, false, 1, 0, 0, 0, NFS_HAS_XATTRS },
		{ true, true, 0, 1 << 12, 0, 0, NFS_HAS_V4_ACL }, { true, false, 0, 1 << 12, 0, 0, 0 },
		{ true, false, 0, 0, 1 << 17, 0, 0 }, { true, false, 0, 0, 0, 1 << 17, 0 },
		{ true, false, 0, 0, 1 << 17, 1 << 17, NFS_HAS_UMASK },
		{ true, true, 0, 0, 3 << 27, 0, NFS_HAS_POSIX_ACL }, { true, true, 0, 0, 1 << 27, 0, 0 },
		{ true, false, 0, 0, 3 << 27, 0, 0 }, { false, true, 0, 1 << 12, 0, 0, NFS_HAS_V4_ACL },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs4_ctl k = { .c = call4(NFS4_OP_ROOT), .path = "/", .has = ~0u };
		uint32_t at;

		k.c.args.version = &k;
		cl4.cfg.acl = t[i].acl;
		cl4.server.version = t[i].v42 ? &nfs_v42 : &nfs_v41;
		m_seq_args(4, false);
		M(24, 10, 9, t[i].v42 ? 3 : 2, 0xe810051b, 0x0030a23a);
		if (t[i].v42)
			M(1 << 18 | 1 << 11);
		m_minor();
		cl4.server.version = t[i].v42 ? &nfs_v42 : &nfs_v41;
		play_args(&k.c, def4(NFS4_OP_ROOT));
		cl4.server.version = t[i].v42 ? &nfs_v42 : &nfs_v41;

		m_seq_res();
		m_op(24);
		m_op(10);
		m_opaque("here", 4);
		m_op(9);
		M(t[i].v42 ? 3 : 2, 1 << 1 | 1, 0);
		if (t[i].v42)
			M(1 << 18 | 1 << 11);
		at = m_len();
		M(0, 3, t[i].w0, 0, t[i].w2, 2);        /* supported_attrs, type */
		if (t[i].v42)
			M(3, 0, 0, t[i].exclusive, t[i].supports);
		m_end_opaque(at);
		cr_assert_eq(play_reply(&k.c, def4(NFS4_OP_ROOT)), 0, "row %u", i);
		cr_assert_eq(k.has, t[i].has, "row %u: %x", i, k.has);
		hooks4.after(&k.c);
	}
}
