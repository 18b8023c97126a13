/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Extended attributes as the kernel asks for them (fs_play.h): which names are the server's, sizes
 * and their ends, lists of several replies; and what a change of one leaves of what the kernel has.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include "fs_play.h"

/* ---- the server ---- */

static struct server {
	int rc;                         /* of the next call */
	char value[NFS_XATTR_MAX + 1];
	uint32_t len;
	unsigned name_len, names, replies;      /* LISTXATTRS: names of that length in each of so many */
	struct nfs_attr attr;
	bool atomic;
	bool another;                   /* another client changes the file just before this one does */
	/* what was asked: */
	unsigned calls;
	enum nfs_op op;
	char name[300], set[NFS_XATTR_MAX];
	uint32_t set_len;
	int flags;
	struct nfs_acl lists[2], got[2];        /* what it has, what was set */
	unsigned kinds;
	struct nfs_sattr sattr;         /* MKDIR */
} srv;

static bool is_change(enum nfs_op op)
{
	return op == NFS_OP_SETXATTR || op == NFS_OP_REMOVEXATTR || op == NFS_OP_SETACL;
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	srv.calls++;
	srv.op = c->op;
	srv.sattr = c->args.sattr;
	if (c->op == NFS_OP_GETXATTR || c->op == NFS_OP_SETXATTR || c->op == NFS_OP_REMOVEXATTR)
		strcpy(srv.name, c->args.name);
	if (c->op == NFS_OP_SETXATTR) {
		cr_assert_leq(c->args.xattr.len, NFS_XATTR_MAX);
		memcpy(srv.set, c->args.xattr.value, c->args.xattr.len);
		srv.set_len = c->args.xattr.len;
		srv.flags = c->args.xattr.flags;
	}
	if (c->op == NFS_OP_GETACL || c->op == NFS_OP_SETACL)
		srv.kinds = c->args.acl.kinds;
	if (c->op == NFS_OP_SETACL && srv.kinds == 1u << NFS_ACL_V4) {
		memcpy(srv.set, c->args.acl.value, c->args.acl.len);
		srv.set_len = c->args.acl.len;
	} else if (c->op == NFS_OP_SETACL) {
		memcpy(srv.got, c->args.acl.lists, sizeof(srv.got));
	}
	return xdr_uint32_t(x, &nothing);
}

static void list(struct nfs_call *c)
{
	char name[256];

	memset(name, 'n', sizeof(name));
	for (unsigned i = 0; i < srv.names; i++)
		c->args.xattr.entry(c, name, srv.name_len);
	cr_assert_gt(srv.replies, 0);
	srv.replies--;
	c->res.xattr.eof = !srv.replies;
	c->res.xattr.cookie = c->args.xattr.cookie + srv.names;
}

static int decode(struct nfs_call *c, XDR *x)
{
	int rc = srv.rc;

	(void)x;
	srv.rc = 0;
	if (rc)
		return rc;
	for (unsigned kind = 0; kind < 2 && c->op == NFS_OP_GETACL; kind++)
		if (srv.kinds & 1u << kind)
			c->args.acl.lists[kind] = srv.lists[kind];
	if (c->op == NFS_OP_GETXATTR || (c->op == NFS_OP_GETACL && srv.kinds == 1u << NFS_ACL_V4)) {
		c->res.xattr.value = srv.value;
		c->res.xattr.len = srv.len;
	} else if (c->op == NFS_OP_LISTXATTRS) {
		list(c);
	}
	if (is_change(c->op)) {
		srv.attr.change += srv.another;
		c->res.dir_change[0] = (struct nfs_dir_change){
			srv.atomic, srv.attr.change, srv.attr.change + 1,
		};
		srv.attr.change++;
		srv.attr.ctime.tv_sec++;
	}
	if (c->op == NFS_OP_OPEN)
		c->open = calloc(1, 8);
	c->res.attr = srv.attr;
	c->res.has_attr = c->op != NFS_OP_GETXATTR && c->op != NFS_OP_LISTXATTRS;
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};
/* Of a program beside it. */
static const struct nfs_opdef side_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .prog = 100227, .proc = 1,
};
static const struct nfs_version beside = {
	.name = "test", .prog = 1, .vers = 3,
	.ops = { [0 ... NFS_OP_GETACL - 1] = &any_op, [NFS_OP_GETACL] = &side_op, [NFS_OP_SETACL] = &side_op },
};

/* ---- the kernel ---- */

static void serve(void)
{
	unsigned before;

	do {
		before = srv.calls;
		lane_play_serve();
	} while (srv.calls != before);
}

/* Longer than what fs_play_ask() has memory for. */
static void ask(uint32_t opcode, const void *body, size_t len)
{
	struct fuse_in_header h = fs_play_header(opcode, FUSE_ROOT_ID, len);
	char *mem = malloc(h.len);
	struct fuse_buf buf = { .mem = mem, .size = h.len };

	memcpy(mem, &h, sizeof(h));
	memcpy(mem + sizeof(h), body, len);
	answer.count = 0;
	fs_play_buffers();
	fs_lane_request(fl, &buf);
	free(mem);
	serve();
	cr_assert_eq(answer.count, 1);
}

/* Returns how many calls it takes. */
static unsigned get(const char *name, uint32_t size)
{
	struct fuse_getxattr_in in = { .size = size };
	char body[sizeof(in) + 300];
	unsigned before = srv.calls;

	memcpy(body, &in, sizeof(in));
	strcpy(body + sizeof(in), name);
	ask(FUSE_GETXATTR, body, sizeof(in) + strlen(name) + 1);
	return srv.calls - before;
}

static unsigned set(const char *name, const char *value, uint32_t size, uint32_t flags)
{
	static char body[FUSE_COMPAT_SETXATTR_IN_SIZE + 300 + NFS_XATTR_MAX + 1];
	uint32_t in[2] = { size, flags };
	size_t n = strlen(name) + 1;
	unsigned before = srv.calls;

	memcpy(body, in, sizeof(in));
	memcpy(body + sizeof(in), name, n);
	memcpy(body + sizeof(in) + n, value, size);
	ask(FUSE_SETXATTR, body, sizeof(in) + n + size);
	return srv.calls - before;
}

static unsigned remove_(const char *name)
{
	unsigned before = srv.calls;

	ask(FUSE_REMOVEXATTR, name, strlen(name) + 1);
	return srv.calls - before;
}

static unsigned list_(uint32_t size)
{
	struct fuse_getxattr_in in = { .size = size };
	unsigned before = srv.calls;

	ask(FUSE_LISTXATTR, &in, sizeof(in));
	return srv.calls - before;
}

static uint32_t the_size(void)
{
	cr_assert(answer.error == 0 && answer.len == sizeof(struct fuse_getxattr_out));
	return ((const struct fuse_getxattr_out *)(const void *)answer.data)->size;
}

static const struct nfs_version *played = &version;
static mode_t type = S_IFREG;           /* of the root, which is the file that is asked for */

static void start(uint32_t flags, unsigned has)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };

	srv.attr = (struct nfs_attr){
		.mode = type | 0644, .nlink = 1, .size = 100, .change = 10,
		.mtime = { 5, 0 },
	};
	srv.atomic = true;
	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = 30;
	fs_play_flags = flags;
	fs_play_has = has;
	fs_play_start(played, &root, &srv.attr);
}

static void setup(void)
{
	start(FUSE_HANDLE_KILLPRIV_V2, NFS_HAS_XATTRS);
}

static void teardown(void)
{
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	fs_play_end();
}

/* ---- whether there are any ---- */

/* ENOSYS: the kernel does not ask again, also for security.capability at each write. */
Test(fs_xattr_none, where_there_are_none, .timeout = 300)
{
	static const struct { uint32_t flags; unsigned has; } t[] = {
		{ FUSE_HANDLE_KILLPRIV_V2, 0 }, { 0, NFS_HAS_XATTRS }, { 0, 0 },
		{ FUSE_HANDLE_KILLPRIV_V2, NFS_HAS_UMASK },
	};

	for (unsigned i = 0; i < 4; i++) {
		start(t[i].flags, t[i].has);
		cr_assert_not(((const struct fuse_init_out *)(const void *)answer.data)->flags &
			      FUSE_HANDLE_KILLPRIV_V2);
		cr_assert(get("user.a", 0) == 0 && answer.error == -ENOSYS);
		cr_assert(get("security.capability", 0) == 0 && answer.error == -ENOSYS);
		cr_assert(set("user.a", "x", 1, 0) == 0 && answer.error == -ENOSYS);
		cr_assert(list_(0) == 0 && answer.error == -ENOSYS);
		cr_assert(remove_("user.a") == 0 && answer.error == -ENOSYS);
		teardown();
	}
}

TestSuite(fs_xattr, .init = setup, .fini = teardown, .timeout = 300);

Test(fs_xattr, the_kernel_keeps_what_it_hears_of_capabilities)
{
	cr_assert(((const struct fuse_init_out *)(const void *)answer.data)->flags &
		  FUSE_HANDLE_KILLPRIV_V2);
	cr_assert(get("security.capability", 20) == 0 && answer.error == -EOPNOTSUPP);
}

Test(fs_xattr, names)
{
	static const char *const others[] = {
		"security.selinux", "trusted.a", "system.posix_acl_access", "system.nfs4_acl", "a", "user",
		"users.a", "USER.a", "",
	};
	char name[300] = "user.";

	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		cr_assert(get(others[i], 0) == 0 && answer.error == -EOPNOTSUPP, "%s", others[i]);
		cr_assert(set(others[i], "x", 1, 0) == 0 && answer.error == -EOPNOTSUPP);
		cr_assert(remove_(others[i]) == 0 && answer.error == -EOPNOTSUPP);
	}
	cr_assert(get("user.", 0) == 0 && answer.error == -EINVAL);
	cr_assert(set("user.", "x", 1, 0) == 0 && answer.error == -EINVAL);

	memset(name + 5, 'n', 250);
	cr_assert(get(name, 10) == 1 && answer.error == 0);
	cr_assert(strlen(srv.name) == 250 && strspn(srv.name, "n") == 250);
	name[255] = 'n';
	cr_assert(get(name, 10) == 0 && answer.error == -ERANGE);
	cr_assert(get("user.user.x", 10) == 1 && !strcmp(srv.name, "user.x"));
}

/* ---- reading ---- */

Test(fs_xattr, sizes)
{
	memset(srv.value, 'v', sizeof(srv.value));
	for (uint32_t len = 1; len <= NFS_XATTR_MAX; len = len == 1 ? 4000 : len == 4000 ? NFS_XATTR_MAX : len + 1) {
		srv.len = len;
		cr_assert_eq(get("user.a", 0), 1);
		cr_assert_eq(the_size(), len);
		cr_assert_eq(get("user.a", len), 1);
		cr_assert(answer.error == 0 && answer.len == len && !memcmp(answer.data, srv.value, len));
		get("user.a", len + 1);
		cr_assert(answer.error == 0 && answer.len == len);
		if (len > 1)
			get("user.a", len - 1);
		cr_assert(len == 1 || answer.error == -ERANGE);
	}
	srv.len = 0;
	get("user.a", 0);
	cr_assert_eq(the_size(), 0);
	get("user.a", 10);
	cr_assert(answer.error == 0 && answer.len == 0);
	srv.rc = -ENODATA;
	get("user.a", 10);
	cr_assert_eq(answer.error, -ENODATA);
}

Test(fs_xattr, lists)
{
	srv.names = 3, srv.name_len = 4, srv.replies = 2;
	cr_assert_eq(list_(0), 2);
	cr_assert_eq(the_size(), 60);
	srv.replies = 2;
	cr_assert_eq(list_(60), 2);
	cr_assert(answer.error == 0 && answer.len == 60);
	for (unsigned i = 0; i < 60; i += 10)
		cr_assert(!strcmp(answer.data + i, "user.nnnn"));
	srv.replies = 1;
	list_(29);
	cr_assert_eq(answer.error, -ERANGE);
	srv.names = 0, srv.replies = 1;
	list_(0);
	cr_assert_eq(the_size(), 0);
	list_((srv.replies = 1, 100));
	cr_assert(answer.error == 0 && answer.len == 0);
	srv.rc = -EACCES;
	list_(100);
	cr_assert_eq(answer.error, -EACCES);
	srv.rc = -EIO, srv.names = 1, srv.replies = 1;
	list_(100);
	cr_assert_eq(answer.error, -EIO);
}

/* listxattr(2) returns 64 KiB at most. */
Test(fs_xattr, lists_that_are_too_long)
{
	srv.names = 16, srv.name_len = 250, srv.replies = 16;
	cr_assert_eq(list_(0), 16);
	cr_assert_eq(the_size(), NFS_XATTR_MAX);
	srv.replies = 1000;
	cr_assert_eq(list_(0), 17, "and is not asked for to its end");
	cr_assert_eq(answer.error, -E2BIG);
	srv.names = 0, srv.replies = 100000;
	cr_assert_leq(list_(0), NFS_XATTR_MAX / strlen("user.n"), "names that are left out, for ever");
	cr_assert_eq(answer.error, -E2BIG);
}

/* ---- changing ---- */

Test(fs_xattr, what_is_set)
{
	memset(srv.value, 'v', sizeof(srv.value));
	cr_assert_eq(set("user.a", "hello", 5, 0), 1);
	cr_assert(answer.error == 0 && srv.op == NFS_OP_SETXATTR && !strcmp(srv.name, "a"));
	cr_assert(srv.set_len == 5 && !memcmp(srv.set, "hello", 5) && srv.flags == 0);
	set("user.a", "", 0, XATTR_CREATE);
	cr_assert(answer.error == 0 && srv.set_len == 0 && srv.flags == XATTR_CREATE);
	set("user.a", "x", 1, XATTR_REPLACE);
	cr_assert(answer.error == 0 && srv.flags == XATTR_REPLACE);
	cr_assert(set("user.a", "x", 1, XATTR_CREATE | XATTR_REPLACE) == 0 && answer.error == -EINVAL);
	cr_assert_eq(set("user.a", srv.value, NFS_XATTR_MAX, 0), 1);
	cr_assert(answer.error == 0 && srv.set_len == NFS_XATTR_MAX &&
		  !memcmp(srv.set, srv.value, NFS_XATTR_MAX));
	cr_assert(set("user.a", srv.value, NFS_XATTR_MAX + 1, 0) == 0 && answer.error == -E2BIG);
	cr_assert_eq(remove_("user.b"), 1);
	cr_assert(answer.error == 0 && srv.op == NFS_OP_REMOVEXATTR && !strcmp(srv.name, "b"));
	srv.rc = -EEXIST;
	set("user.a", "x", 1, XATTR_CREATE);
	cr_assert_eq(answer.error, -EEXIST);
	srv.rc = -ENODATA;
	remove_("user.a");
	cr_assert_eq(answer.error, -ENODATA);
}

static unsigned getattr(void)
{
	struct fuse_getattr_in in = { 0 };
	const struct fuse_attr_out *out = (const void *)answer.data;
	unsigned before = srv.calls;

	ask(FUSE_GETATTR, &in, sizeof(in));
	cr_assert(answer.error == 0 && out->attr.ctime == (uint64_t)srv.attr.ctime.tv_sec);
	return srv.calls - before;
}

Test(fs_xattr, attributes_after_a_change)
{
	getattr();
	set("user.a", "x", 1, 0);
	cr_assert_eq(getattr(), 0, "SETXATTR's reply had them");
	cr_assert_eq(getattr(), 1, "once");
	remove_("user.a");
	cr_assert_eq(getattr(), 0, "REMOVEXATTR's, too");
	srv.rc = -ENOSPC;
	set("user.a", "x", 1, 0);
	cr_assert_eq(getattr(), 1);
}

/* Opens, reads one byte so that the kernel has dropped what it drops, and closes. May it keep its
 * pages? */
static bool keeps(void)
{
	struct fuse_open_in in = { .flags = O_RDONLY };
	struct fuse_open_out out;
	struct fuse_read_in rd = { .size = 0 };
	struct fuse_release_in rel = { 0 };

	ask(FUSE_OPEN, &in, sizeof(in));
	cr_assert_eq(answer.error, 0);
	memcpy(&out, answer.data, sizeof(out));
	rd.fh = rel.fh = out.fh;
	ask(FUSE_READ, &rd, sizeof(rd));
	ask(FUSE_RELEASE, &rel, sizeof(rel));
	return out.open_flags & FOPEN_KEEP_CACHE;
}

Test(fs_xattr, pages_stay_over_own_changes_of_attributes)
{
	keeps();
	cr_assert(keeps());
	set("user.a", "x", 1, 0);
	cr_assert(keeps());
	remove_("user.a");
	cr_assert(keeps());
	srv.attr.change++;
	cr_assert_not(keeps(), "another client's change");
	cr_assert(keeps());
	srv.attr.change++;
	set("user.a", "x", 1, 0);
	cr_assert_not(keeps(), "the same, before an own one");
	srv.another = true;
	set("user.a", "x", 1, 0);
	cr_assert_not(keeps(), "the same, after this mount has looked");
	srv.another = false;
	keeps();
	srv.atomic = false;
	set("user.a", "x", 1, 0);
	cr_assert_not(keeps(), "the server cannot say");
}

/* ---- access control lists ---- */

#define E(tag, perm, id) (uint8_t)(tag), 0, perm, 0, (id) & 0xff, (id) >> 8 & 0xff, (id) >> 16 & 0xff, (id) >> 24 & 0xff

static const uint8_t posix[] = {
	2, 0, 0, 0, E(ACL_USER_OBJ, 6, 0xffffffffu), E(ACL_USER, 4, 1234u), E(ACL_GROUP_OBJ, 4, 0xffffffffu),
	E(ACL_MASK, 4, 0xffffffffu), E(ACL_OTHER, 0, 0xffffffffu),
};
static const char v4[] = "\0\0\0\1" "\0\0\0\0" "\0\0\0\0" "\0\0\0\1" "\0\0\0\2" "5\0\0";

static void start_acl(mode_t of, unsigned has)
{
	type = of;
	start(FUSE_HANDLE_KILLPRIV_V2, has);
}

static void end_acl(void)
{
	teardown();
	type = S_IFREG;
	memset(&srv, 0, sizeof(srv));
}

Test(fs_acl, of_version_4, .timeout = 300)
{
	start_acl(S_IFREG, NFS_HAS_V4_ACL);
	memcpy(srv.value, v4, sizeof(v4));
	srv.len = sizeof(v4);
	cr_assert_eq(get("system.nfs4_acl", 0), 1);
	cr_assert(the_size() == sizeof(v4) && srv.kinds == 1u << NFS_ACL_V4);
	get("system.nfs4_acl", 100);
	cr_assert(answer.error == 0 && answer.len == sizeof(v4) && !memcmp(answer.data, v4, sizeof(v4)));
	get("system.nfs4_acl", sizeof(v4) - 1);
	cr_assert_eq(answer.error, -ERANGE);
	cr_assert_eq(set("system.nfs4_acl", v4, sizeof(v4), 0), 1);
	cr_assert(answer.error == 0 && srv.set_len == sizeof(v4) && !memcmp(srv.set, v4, sizeof(v4)));
	cr_assert(notice.count == 1 && notice.what.off == -1, "the mode may be another one");
	cr_assert(set("system.nfs4_acl", v4, sizeof(v4) - 4, 0) == 0 && answer.error == -EINVAL);
	cr_assert(set("system.nfs4_acl", v4, 0, 0) == 0 && answer.error == -EINVAL);
	cr_assert(remove_("system.nfs4_acl") == 0 && answer.error == -EINVAL);
	cr_assert(get("system.posix_acl_access", 0) == 0 && answer.error == -EOPNOTSUPP);
	cr_assert(get("user.a", 0) == 0 && answer.error == -EOPNOTSUPP);
	cr_assert(list_(0) == 0 && answer.error == -ENOSYS);
	end_acl();
}

Test(fs_acl, posix_ones, .timeout = 300)
{
	start_acl(S_IFREG, NFS_HAS_POSIX_ACL | NFS_HAS_NFSACL);
	cr_assert_eq(nfs_acl_from_xattr(&srv.lists[NFS_ACL_ACCESS], posix, sizeof(posix)), 0);
	cr_assert_eq(get("system.posix_acl_access", 100), 1);
	cr_assert(answer.error == 0 && answer.len == sizeof(posix) && !memcmp(answer.data, posix, sizeof(posix)));
	cr_assert_eq(srv.kinds, 1u << NFS_ACL_ACCESS);
	get("system.posix_acl_access", 0);
	cr_assert_eq(the_size(), sizeof(posix));
	get("system.posix_acl_default", 100);
	cr_assert_eq(answer.error, -ENODATA);
	/* What the mode says. */
	srv.lists[NFS_ACL_ACCESS].n = 3;
	get("system.posix_acl_access", 100);
	cr_assert_eq(answer.error, -ENODATA);

	cr_assert_eq(set("system.posix_acl_access", (const char *)posix, sizeof(posix), 0), 1);
	cr_assert(answer.error == 0 && srv.got[0].n == 5 && srv.got[0].e[1].id == 1234);
	cr_assert(srv.kinds == 1u << NFS_ACL_ACCESS && notice.count == 1);
	cr_assert(set("system.posix_acl_access", (const char *)posix, sizeof(posix) - 8, 0) == 0 &&
		  answer.error == -EINVAL);
	cr_assert(set("system.posix_acl_default", (const char *)posix, sizeof(posix), 0) == 0 &&
		  answer.error == -EACCES);
	cr_assert(remove_("system.posix_acl_default") == 0 && answer.error == -ENODATA);
	cr_assert_eq(remove_("system.posix_acl_access"), 1);
	cr_assert(answer.error == 0 && srv.got[0].n == 0);
	cr_assert(get("system.nfs4_acl", 0) == 0 && answer.error == -EOPNOTSUPP);
	end_acl();
}

/* NFSACL sets both of a directory's lists: the other one stays what it is. */
Test(fs_acl, both_of_a_directory, .timeout = 300)
{
	start_acl(S_IFDIR, NFS_HAS_POSIX_ACL | NFS_HAS_NFSACL);
	for (unsigned kind = 0; kind < 2; kind++) {
		const char *name = kind ? "system.posix_acl_default" : "system.posix_acl_access";

		memset(srv.lists, 0, sizeof(srv.lists));
		cr_assert_eq(nfs_acl_from_xattr(&srv.lists[!kind], posix, sizeof(posix)), 0);
		cr_assert_eq(set(name, (const char *)posix, 4 + 5 * 8, 0), 2);
		cr_assert(answer.error == 0 && srv.kinds == 3);
		cr_assert(srv.got[0].n == 5 && srv.got[1].n == 5);
		cr_assert_eq(remove_(name), 2);
		cr_assert(answer.error == 0 && srv.got[kind].n == 0 && srv.got[!kind].n == 5);
		srv.rc = -EACCES;
		cr_assert_eq(set(name, (const char *)posix, sizeof(posix), 0), 1);
		cr_assert_eq(answer.error, -EACCES);
	}
	end_acl();
	/* Version 4's are by themselves. */
	start_acl(S_IFDIR, NFS_HAS_POSIX_ACL);
	cr_assert_eq(set("system.posix_acl_default", (const char *)posix, sizeof(posix), 0), 1);
	cr_assert(answer.error == 0 && srv.kinds == 1u << NFS_ACL_DEFAULT && srv.got[1].n == 5);
	end_acl();
}

static void ask_acl(uint32_t accept_stat)
{
	struct fuse_getxattr_in in = { .size = 100 };
	char body[sizeof(in) + 30] = "";
	uint32_t xid;

	memcpy(body, &in, sizeof(in));
	strcpy(body + sizeof(in), "system.posix_acl_access");
	fs_play_ask(FUSE_GETXATTR, FUSE_ROOT_ID, body, sizeof(in) + 24);
	xid = sent_word(fake.nsends - 1, 0);
	cr_assert(sent_word(fake.nsends - 1, 10) == 100227 && sent_word(fake.nsends - 1, 11) == 3);
	cr_assert_eq(answer.count, 0);
	REPLY_WORDS(xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, accept_stat, 0, 0);
	fake.nsends = 0;
	cr_assert(answer.count == 1 && answer.error == -EOPNOTSUPP);
}

/* A server without NFSACL is asked once. One that does not know a procedure, or an object's lists, may
 * know others. */
Test(fs_acl, no_nfsacl, .timeout = 300)
{
	played = &beside;
	start_acl(S_IFREG, NFS_HAS_POSIX_ACL | NFS_HAS_NFSACL);
	ask_acl(3);
	ask_acl(3);
	ask_acl(1);
	cr_assert_eq(atomic_load(&fs.vfs.cl->has), 0);
	cr_assert(get("system.posix_acl_access", 100) == 0 && answer.error == -ENOSYS);
	cr_assert(set("system.posix_acl_access", (const char *)posix, sizeof(posix), 0) == 0 &&
		  answer.error == -ENOSYS);
	end_acl();
	/* Nor one that has another version of it. */
	start_acl(S_IFREG, NFS_HAS_POSIX_ACL | NFS_HAS_NFSACL);
	ask_acl(2);
	cr_assert_eq(atomic_load(&fs.vfs.cl->has), 0);
	end_acl();
	played = &version;
}

/* ---- the umask ---- */

Test(fs_umask, is_the_servers_if_it_can, .timeout = 300)
{
	struct fuse_mkdir_in in = { .mode = 0777, .umask = 027 };
	char body[sizeof(in) + 2] = "";

	memcpy(body, &in, sizeof(in));
	strcpy(body + sizeof(in), "d");
	for (unsigned can = 0; can < 2; can++) {
		const struct fuse_init_out *out = (const void *)answer.data;

		type = S_IFDIR;
		start(FUSE_DONT_MASK | FUSE_HANDLE_KILLPRIV_V2, can ? NFS_HAS_UMASK : 0);
		cr_assert_eq(!!(out->flags & FUSE_DONT_MASK), can);
		ask(FUSE_MKDIR, body, sizeof(body));
		cr_assert(srv.op == NFS_OP_MKDIR && srv.sattr.mode == 0777);
		cr_assert_eq(srv.sattr.valid, can ? NFS_SET_MODE | NFS_SET_UMASK : NFS_SET_MODE);
		cr_assert(!can || srv.sattr.umask == 027);
		end_acl();
	}
}
