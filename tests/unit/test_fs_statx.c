/* SPDX-License-Identifier: GPL-2.0-or-later */
/* FUSE_STATX, which libfuse does not know, without a kernel and without a protocol (fs_play.h). */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "fs_play.h"
#include "fuse/statx.h"

/* The kernel's struct fuse_statx_in. */
struct statx_in {
	uint32_t getattr_flags, reserved;
	uint64_t fh;
	uint32_t flags, mask;
};

static unsigned births, attrs;
static bool no_birth;
static struct nfs_attr attr = {
	.mode = S_IFREG | 0640, .nlink = 3, .uid = 1000, .gid = 100, .size = 0x123456789, .used = 8192,
	.fileid = 77, .change = 5, .rdev_major = 8, .rdev_minor = 300,
	.atime = { 1, 2 }, .mtime = { 3, 4 }, .ctime = { 5, 6 },
};

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	births += c->op == NFS_OP_BIRTH;
	attrs += c->op == NFS_OP_GETATTR;
	return xdr_uint32_t(x, &nothing);
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)x;
	c->res.attr = attr;
	c->res.has_attr = true;
	c->res.has_btime = c->op == NFS_OP_BIRTH && !no_birth;
	c->res.btime = (struct timespec){ 7, 8 };
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static struct nfs_version version;

static void start(bool birth)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };

	version = (struct nfs_version){ .name = "test", .prog = 1, .vers = 1 };
	version.ops[NFS_OP_GETATTR] = &any_op;
	version.ops[NFS_OP_BIRTH] = birth ? &any_op : NULL;
	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = 30;
	fs_play_start(&version, &root, &attr);
}

static void setup(void)
{
	start(true);
}

static void teardown(void)
{
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	fs_play_end();
}

TestSuite(fs_statx, .init = setup, .fini = teardown, .timeout = 60);

static const struct fs_statx_out *ask_statx(void)
{
	struct statx_in in = { .mask = STATX_BASIC_STATS | STATX_BTIME };

	fs_play_ask(FS_STATX, FUSE_ROOT_ID, &in, sizeof(in));
	lane_play_serve();
	cr_assert_eq(answer.count, 1);
	return (const void *)answer.data;
}

static const struct fuse_attr_out *ask_attr(void)
{
	struct fuse_getattr_in in = { 0 };

	fs_play_ask(FUSE_GETATTR, FUSE_ROOT_ID, &in, sizeof(in));
	lane_play_serve();
	cr_assert(answer.count == 1 && answer.error == 0);
	return (const void *)answer.data;
}

Test(fs_statx, all_of_it)
{
	const struct fs_statx_out *out = ask_statx();

	cr_assert(answer.error == 0 && answer.len == sizeof(*out));
	cr_assert(births == 1 && attrs == 0);
	cr_assert_eq(out->mask, STATX_BASIC_STATS | STATX_BTIME);
	cr_assert(out->btime.sec == 7 && out->btime.nsec == 8);
	cr_assert(out->atime.sec == 1 && out->mtime.sec == 3 && out->ctime.sec == 5);
	cr_assert(out->atime.nsec == 2 && out->mtime.nsec == 4 && out->ctime.nsec == 6);
	cr_assert(out->size == 0x123456789 && out->blocks == 16 && out->ino == 77 && out->nlink == 3);
	cr_assert(out->mode == (S_IFREG | 0640) && out->uid == 1000 && out->gid == 100);
	cr_assert(out->rdev_major == 8 && out->rdev_minor == 300);
	cr_assert(out->valid == 30 || (out->valid == 29 && out->valid_nsec > 900000000));
	cr_assert_eq(atomic_load(&believed_of(fs.root)->told_size), 0x123456789, "the kernel was told them");
}

/* What is a STATX, and what a GETATTR, is not mixed up; each asks the server, which is all it can. */
Test(fs_statx, one_after_the_other)
{
	cr_assert_eq(ask_attr()->attr.size, 0x123456789);
	cr_assert_eq(answer.len, sizeof(struct fuse_attr_out));
	ask_statx();
	cr_assert_eq(answer.len, sizeof(struct fs_statx_out));
	ask_attr();
	cr_assert_eq(answer.len, sizeof(struct fuse_attr_out));
	cr_assert(births == 1 && attrs == 2);
}

/* By an open file, too: the number is where GETATTR has it. */
Test(fs_statx, a_server_that_does_not_know_it)
{
	no_birth = true;
	cr_assert_eq(ask_statx()->mask, STATX_BASIC_STATS);
	cr_assert(ask_statx()->btime.sec == 0 && answer.error == 0);
}

Test(fs_statx, times_without_end)
{
	struct fs_statx_out out;
	struct stat st = { 0 };

	fs_statx(&out, &st, 1.5, NULL);
	cr_assert(out.valid == 1 && out.valid_nsec == 500000000);
	fs_statx(&out, &st, 1e30, NULL);
	cr_assert(out.valid == 4000000000 && out.valid_nsec == 0);
	fs_statx(&out, &st, -1, NULL);
	cr_assert(out.valid == 0 && out.valid_nsec == 0);
}

static void setup_without(void)
{
	start(false);
}

TestSuite(fs_statx_3, .init = setup_without, .fini = teardown, .timeout = 60);

Test(fs_statx_3, a_version_without)
{
	ask_statx();
	cr_assert_eq(answer.error, -ENOSYS, "the kernel asks by GETATTR from now on");
	ask_attr();
	cr_assert(births == 0 && attrs == 1);
}
