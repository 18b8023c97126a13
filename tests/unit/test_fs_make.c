/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names that a call of ours has made, and that are something else than it was asked for
 * (fs_play.h). The kernel refuses such an answer with EIO, and then gives back neither node
 * nor open file.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "fs_play.h"
#include "nfs/common.h"

static enum nfs_op ops[8];              /* what the server was asked, in this order */
static unsigned nops, opens;
static mode_t mode;                     /* of what it answers with */
static int next_rc;
static char verifier[8];                /* of the newest CREATE, if that is exclusive */

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	cr_assert_lt(nops, 8);
	ops[nops++] = c->op;
	if (c->op == NFS_OP_CREATE)
		nfs_create_verifier(c, verifier);
	opens -= c->op == NFS_OP_CLOSE;
	return xdr_uint32_t(x, &nothing);
}

static int decode(struct nfs_call *c, XDR *x)
{
	int rc = next_rc;

	(void)x;
	next_rc = 0;
	if (rc || c->op == NFS_OP_CLOSE)
		return rc;
	c->res.fh = (struct nfs_fh){ .len = 4, .data = "new" };
	c->res.attr = (struct nfs_attr){ .mode = mode | 0644, .nlink = 1 };
	c->res.has_attr = true;
	if (c->op == NFS_OP_CREATE) {
		c->open = calloc(1, 8);
		opens++;
	}
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

static void ask(uint32_t opcode, const void *body, size_t len)
{
	char bytes[128];

	nops = 0;
	memcpy(bytes, body, len);
	memcpy(bytes + len, "a", 2);
	fs_play_ask(opcode, FUSE_ROOT_ID, bytes, len + 2);
	for (unsigned i = 0; i < 3; i++)
		lane_play_serve();
	cr_assert_eq(answer.count, 1);
}

static void create(void)
{
	struct fuse_create_in in = { .flags = O_RDWR | O_CREAT, .mode = S_IFREG | 0644 };

	ask(FUSE_CREATE, &in, sizeof(in));
}

static void make_node(mode_t type)
{
	struct fuse_mknod_in in = { .mode = type | 0644 };

	ask(FUSE_MKNOD, &in, sizeof(in));
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "dir" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755 };

	fs.cfg.vfs.acdirmin = 30;
	fs.vfs.inodes.acdirmin = fs.vfs.inodes.acdirmax = 30;
	fs_play_start(&version, &root, &attr);
}

static void teardown(void)
{
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	fs_play_end();
}

TestSuite(fs_make, .init = setup, .fini = teardown, .timeout = 300);

/* The server has the answer that the kernel did not get: nothing is left of it. */
static void nothing_is_left(void)
{
	cr_assert_eq(answer.error, -ESTALE, "not %d: so the kernel looks the name up again",
		     answer.error);
	cr_assert_eq(opens, 0);
	cr_assert_eq(atomic_load(&fs.vfs.inodes.count), 1, "the root");
}

/* An UNCHECKED CREATE succeeds for whatever has the name meanwhile. */
Test(fs_make, create_finds_a_fifo)
{
	/* The kernel has just been told that there is no such name. */
	next_rc = -ENOENT;
	fs_play_ask(FUSE_LOOKUP, FUSE_ROOT_ID, "a", 2);
	lane_play_serve();
	mode = S_IFIFO;
	create();
	nothing_is_left();
	cr_assert(nops == 2 && ops[0] == NFS_OP_CREATE && ops[1] == NFS_OP_CLOSE);
	/* It asks again, and the answer must not be what was known before. */
	nops = 0;
	fs_play_ask(FUSE_LOOKUP, FUSE_ROOT_ID, "a", 2);
	lane_play_serve();
	cr_assert(nops == 1 && ops[0] == NFS_OP_LOOKUP && answer.error == 0);
	cr_assert_eq(((struct fuse_entry_out *)(void *)answer.data)->attr.mode & S_IFMT, S_IFIFO);
}

Test(fs_make, create_finds_other_types)
{
	static const mode_t types[] = { S_IFDIR, S_IFLNK, S_IFCHR, S_IFBLK, S_IFSOCK, 0 };

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		mode = types[i];
		create();
		nothing_is_left();
	}
}

/* Of version 3 the handle may come from a LOOKUP, after the name has been given away. */
Test(fs_make, others_find_another_type)
{
	struct fuse_mkdir_in in = { .mode = 0755 };

	mode = S_IFREG;
	ask(FUSE_MKDIR, &in, sizeof(in));
	nothing_is_left();
	make_node(S_IFIFO);
	nothing_is_left();
	mode = S_IFIFO;
	make_node(S_IFREG);
	nothing_is_left();
	make_node(S_IFIFO);
	cr_assert(answer.error == 0 && atomic_load(&fs.vfs.inodes.count) == 2);
}

/* By its verifier a server knows a CREATE that was sent twice: it says that it has made the file. So
 * another CREATE of the same name must not have it, though the operation is one that was used before. */
Test(fs_make, each_exclusive_create_has_a_verifier_of_its_own)
{
	char before[10][8];

	mode = S_IFREG;
	for (unsigned i = 0; i < 10; i++) {
		make_node(S_IFREG);
		memcpy(before[i], verifier, 8);
		for (unsigned k = 0; k < i; k++)
			cr_assert_neq(memcmp(before[k], verifier, 8), 0, "CREATE %u has that of %u", i, k);
	}
}
