/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens and truncations by names that the kernel has cached, while others give these names to
 * other files (fs_play.h). The played server has a few names in its root, and looks at those that
 * come with an OPEN or a SETATTR. The test is the kernel: it opens a node, and looks a name up
 * again only when it is told ESTALE.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "fs_play.h"

/* ---- the server ---- */

enum { NAMES = 4 };
static char files[NAMES];               /* what "a", "b", ... are; 0: there is no such name */
static uint32_t nlink = 1;
static uint64_t changes;                /* of all files */
static unsigned calls, opens, cuts, looked_at;  /* what the server was asked, and had */

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	calls++;
	opens += c->op == NFS_OP_OPEN;
	opens -= c->op == NFS_OP_CLOSE;
	return xdr_uint32_t(x, &nothing);
}

static struct nfs_attr attr_of(const struct nfs_fh *fh)
{
	return (struct nfs_attr){
		.mode = fh->data[0] == 'd' ? S_IFDIR | 0755 : S_IFREG | 0644, .nlink = nlink,
		.size = 10, .change = changes, .mtime = { 1000, (long)changes },
	};
}

static int look_up(struct nfs_call *c)
{
	char is = files[c->args.name[0] - 'a'];

	if (!is)
		return -ENOENT;
	c->res.fh = (struct nfs_fh){ .len = 1, .data = { (uint8_t)is } };
	c->res.attr = attr_of(&c->res.fh);
	c->res.has_attr = true;
	return 0;
}

static bool has_its_names(const struct nfs_call *c)
{
	looked_at = c->args.nwhere;
	for (unsigned i = 0; i < looked_at; i++) {
		cr_assert_eq(c->args.where[i].dir, &fs.root->file.fh);
		if (files[c->args.where[i].name[0] - 'a'] != c->args.fh->data[0])
			return false;
	}
	return true;
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)x;
	if (c->op == NFS_OP_LOOKUP)
		return look_up(c);
	if (c->op == NFS_OP_CLOSE)
		return 0;
	if (c->op == NFS_OP_GETATTR && !memchr(files, c->args.fh->data[0], NAMES))
		return -ESTALE;
	if (!has_its_names(c)) {
		opens -= c->op == NFS_OP_OPEN;
		return -NFS_EMOVED;
	}
	cuts += c->op == NFS_OP_SETATTR;
	if (c->op == NFS_OP_OPEN)
		c->open = calloc(1, 8);
	c->res.attr = attr_of(c->args.fh);
	c->res.has_attr = true;
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

/* ---- the kernel ---- */

static uint32_t pid;                    /* the thread that asks */

static int ask(uint32_t opcode, uint64_t node, const void *body, size_t len)
{
	struct fuse_in_header h = fs_play_header(opcode, node, len);

	h.pid = pid;
	calls = looked_at = 0;
	fs_play_request(&h, body, len);
	for (unsigned i = 0; i < 4; i++)
		lane_play_serve();
	cr_assert_eq(answer.count, 1);
	return answer.error;
}

static uint64_t lookup(const char *name)
{
	struct fuse_entry_out out;

	cr_assert_eq(ask(FUSE_LOOKUP, FUSE_ROOT_ID, name, strlen(name) + 1), 0);
	memcpy(&out, answer.data, sizeof(out));
	return out.nodeid;
}

/* Closes it at once. */
static int open_node(uint64_t node, int flags)
{
	struct fuse_open_in in = { .flags = (uint32_t)flags };
	struct fuse_release_in release = { 0 };
	struct fuse_open_out out;
	unsigned were, at;

	if (ask(FUSE_OPEN, node, &in, sizeof(in)))
		return answer.error;
	memcpy(&out, answer.data, sizeof(out));
	release.fh = out.fh;
	were = calls;
	at = looked_at;
	cr_assert_eq(ask(FUSE_RELEASE, node, &release, sizeof(release)), 0);
	calls = were;
	looked_at = at;
	return 0;
}

static int truncate_node(uint64_t node)
{
	struct fuse_setattr_in in = { .valid = FATTR_SIZE, .size = 0 };

	return ask(FUSE_SETATTR, node, &in, sizeof(in));
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 1, .data = "d" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755 };

	fs.cfg.vfs.acdirmin = 30;
	fs.vfs.inodes.acdirmin = fs.vfs.inodes.acdirmax = 30;
	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = 30;
	fs_play_start(&version, &root, &attr);
	pid = 100;
	memcpy(files, "x\0\0", NAMES);
}

static void teardown(void)
{
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	cr_assert_eq(opens, 0, "an open was left");
	fs_play_end();
}

TestSuite(fs_open, .init = setup, .fini = teardown, .timeout = 300);

Test(fs_open, the_name_is_still_the_files)
{
	uint64_t node = lookup("a");

	cr_assert_eq(open_node(node, O_RDONLY), 0);
	cr_assert(calls == 1 && looked_at == 1);
	cr_assert_eq(open_node(node, O_WRONLY), 0);
	cr_assert(calls == 1 && looked_at == 1);
	cr_assert_eq(truncate_node(node), 0);
	cr_assert(calls == 1 && looked_at == 1 && cuts == 1);
}

/* mv a b, and a new a, by another client. */
static void replace(void)
{
	files[1] = files[0];
	files[0] = files[0] == 'x' ? 'y' : 'x';
	changes++;
}

Test(fs_open, the_name_is_another_files)
{
	static const int flags[] = { O_RDONLY, O_WRONLY, O_RDWR | O_APPEND, O_RDONLY };

	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		uint64_t node = lookup("a"), now;

		replace();
		cr_assert_eq(open_node(node, flags[i]), -ESTALE, "not %d", answer.error);
		cr_assert_eq(opens, 0);
		now = lookup("a");
		cr_assert_neq(now, node);
		cr_assert_eq(open_node(now, flags[i]), 0);
		cr_assert_eq(calls, 1);
	}
}

Test(fs_open, truncate_by_a_name_that_is_another_files)
{
	uint64_t node = lookup("a");

	replace();
	cr_assert_eq(truncate_node(node), -ESTALE);
	cr_assert_eq(cuts, 0);
	cr_assert_eq(truncate_node(lookup("a")), 0);
	cr_assert_eq(cuts, 1);
}

/* The thread's next open is another one, and is not let through. */
Test(fs_open, the_name_is_gone)
{
	uint64_t node;

	files[1] = 'x';
	node = lookup("a");
	cr_assert_eq(lookup("b"), node);
	for (unsigned i = 0; i < 4; i++) {
		files[i % 2] = 0;
		cr_assert_eq(i < 2 ? open_node(node, O_RDONLY) : truncate_node(node), -ESTALE);
		cr_assert_eq(lookup(i % 2 ? "b" : "a"), 0);
	}
	cr_assert_eq(cuts, 0);
}

/* open("/proc/self/fd/1", O_TRUNC): no name is looked up. Other threads get nothing of that, nor
 * does the same one later. */
Test(fs_open, without_a_name)
{
	uint64_t node = lookup("a");

	replace();
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(open_node(node, O_WRONLY), -ESTALE);
		pid = 101 + i;
		cr_assert_eq(open_node(node, O_WRONLY), -ESTALE);
		pid = 100;
		cr_assert_eq(open_node(node, O_WRONLY), 0);
		cr_assert(calls == 2 && looked_at == 0);
		cr_assert_eq(truncate_node(node), 0);
		cr_assert_eq(cuts, i + 1);
	}
	cr_assert_eq(truncate_node(node), -ESTALE, "by name, later");
	cr_assert_eq(cuts, 2);
}

/* The kernel does not say by which name it has found the file. */
Test(fs_open, one_of_two_names_is_another_files)
{
	uint64_t node, other;

	files[1] = 'x';
	node = lookup("a");
	cr_assert_eq(lookup("b"), node);
	cr_assert_eq(open_node(node, O_WRONLY), 0);
	cr_assert(calls == 1 && looked_at == 2);
	files[0] = 'y';
	/* By a, which was not looked up last. */
	cr_assert_eq(open_node(node, O_WRONLY), -ESTALE);
	other = lookup("a");
	cr_assert_eq(open_node(other, O_WRONLY), 0);
	/* By b: that is not a's node any more. */
	cr_assert_eq(open_node(node, O_WRONLY), -ESTALE);
	cr_assert_eq(calls, 0);
	other = lookup("b");
	cr_assert_neq(other, node);
	cr_assert_eq(open_node(other, O_WRONLY), 0);
	cr_assert(calls == 1 && looked_at == 1);
}

/* mv a b, and a new a, by another client. What the kernel opens as b it still has cached as a, too.
 * open() with O_TRUNC is OPEN and SETATTR; a truncation by the other name is no such SETATTR. */
Test(fs_open, truncate_by_the_other_name)
{
	uint64_t node = lookup("a"), now;

	replace();
	cr_assert_eq(lookup("b"), node);
	cr_assert_eq(open_node(node, O_RDWR), -ESTALE);
	now = lookup("b");
	cr_assert_eq(open_node(now, O_RDWR), 0);
	cr_assert_eq(truncate_node(node), -ESTALE, "by a, which is another file");
	cr_assert(calls == 0 && cuts == 0);
	cr_assert_eq(truncate_node(lookup("a")), 0);
	cr_assert_eq(truncate_node(now), 0, "O_TRUNC");
	cr_assert(looked_at == 1 && cuts == 2);
	cr_assert_eq(open_node(node, O_RDWR), -ESTALE);
}

/* The kernel looks the name up itself, and it is still the file's: another one of its names is
 * not. */
Test(fs_open, the_other_name_is_another_files)
{
	uint64_t node;

	files[1] = 'x';
	node = lookup("a");
	cr_assert_eq(lookup("b"), node);
	files[1] = 'y';
	cr_assert_eq(open_node(node, O_RDONLY), -ESTALE);
	node = lookup("a");
	cr_assert_eq(open_node(node, O_RDONLY), 0);
	cr_assert_eq(looked_at, 1);
}

/* mv b a, by another client. The kernel asks for attributes before it opens a: its file is no more,
 * and the one that is called a now had another name. */
Test(fs_open, sent_back_before_the_open)
{
	struct fuse_getattr_in in = { 0 };
	uint64_t node, other;

	files[1] = 'y';
	node = lookup("a");
	other = lookup("b");
	files[0] = 'y';
	files[1] = 0;
	cr_assert_eq(ask(FUSE_GETATTR, node, &in, sizeof(in)), -ESTALE);
	cr_assert_eq(lookup("a"), other);
	cr_assert_eq(open_node(other, O_RDWR), 0);
}

static bool may_keep(uint64_t node, uint64_t *fh)
{
	struct fuse_open_in in = { .flags = O_RDONLY };
	struct fuse_open_out out;

	cr_assert_eq(ask(FUSE_OPEN, node, &in, sizeof(in)), 0);
	memcpy(&out, answer.data, sizeof(out));
	*fh = out.fh;
	return out.open_flags & FOPEN_KEEP_CACHE;
}

/* Another client has written. Two processes open the file, and the kernel drops its pages when the
 * first one goes on. */
Test(fs_open, two_opens_at_once)
{
	uint64_t node = lookup("a"), fh[6];

	for (unsigned i = 0; i < 6; i += 3) {
		struct fuse_fsync_in in = { 0 };

		changes++;
		cr_assert_not(may_keep(node, &fh[i]));
		cr_assert_not(may_keep(node, &fh[i + 1]), "there are pages of the old file");
		in.fh = fh[i + 1];
		cr_assert_eq(ask(FUSE_FSYNC, node, &in, sizeof(in)), 0);
		cr_assert(may_keep(node, &fh[i + 2]), "the second process goes on");
	}
	for (unsigned i = 0; i < 6; i++) {
		struct fuse_release_in release = { .fh = fh[i] };

		cr_assert_eq(ask(FUSE_RELEASE, node, &release, sizeof(release)), 0);
	}
}

/* Let through because of a name that was gone: not when the other one is given away, later. */
Test(fs_open, let_through_once)
{
	struct fuse_release_in release = { 0 };
	uint64_t node;

	files[1] = 'x';
	node = lookup("b");
	cr_assert_eq(lookup("a"), node);
	may_keep(node, &release.fh);
	files[1] = 0;
	cr_assert_eq(open_node(node, O_WRONLY), -ESTALE);
	cr_assert_eq(lookup("a"), node, "it is open");
	cr_assert_eq(open_node(node, O_WRONLY), 0);
	cr_assert_eq(truncate_node(node), 0, "O_TRUNC");
	cr_assert_eq(open_node(node, O_WRONLY), -ESTALE);
	cr_assert_eq(lookup("a"), node);
	cr_assert_eq(open_node(node, O_WRONLY), 0);
	files[0] = 'y';
	cr_assert_eq(truncate_node(node), -ESTALE);
	cr_assert_eq(cuts, 1);
	cr_assert_eq(ask(FUSE_RELEASE, node, &release, sizeof(release)), 0);
}

/* Names that the kernel does not keep need no look. */
Test(fs_open, names_that_are_not_kept)
{
	uint64_t node = lookup("a");

	replace();
	fs.vfs.inodes.acdirmax = 0;
	cr_assert_eq(open_node(node, O_WRONLY), 0);
	cr_assert(calls == 1 && looked_at == 0);
}

/* Somebody else has replaced the file, and somebody else has it open: version 4's servers let it be
 * opened by its handle. */
Test(fs_open, a_file_without_a_name)
{
	struct fuse_open_in in = { .flags = O_RDONLY };
	struct fuse_release_in release = { 0 };
	uint64_t node = lookup("a");
	struct fuse_open_out out;

	fs.vfs.inodes.acdirmax = 0;
	cr_assert_eq(ask(FUSE_OPEN, node, &in, sizeof(in)), 0);
	memcpy(&out, answer.data, sizeof(out));
	nlink = 0;
	cr_assert_eq(open_node(node, O_RDONLY), 0, "open here: /proc/self/fd");
	release.fh = out.fh;
	cr_assert_eq(ask(FUSE_RELEASE, node, &release, sizeof(release)), 0);
	cr_assert_eq(open_node(node, O_RDONLY), -ESTALE);
	cr_assert_eq(opens, 0, "the server has it open no more");
	cr_assert_eq(open_node(node, O_RDONLY), 0, "servers that do not count links");
	nlink = 1;
}
