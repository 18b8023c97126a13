/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lseek(SEEK_DATA, SEEK_HOLE) and fallocate, without a kernel and without a protocol (fs_play.h). The
 * server has one file, and loses what it has not committed when it restarts.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fs_play.h"

/* ---- the server ---- */

static struct nfs_attr attr;            /* the file's */
static uint64_t hole, data;             /* what SEEK finds */
static int rc;                          /* of SEEK, ALLOCATE and DEALLOCATE */
static char calls[64];                  /* a letter for each */
static struct nfs_space_args space;     /* the newest */

static char letter(const struct nfs_call *c)
{
	switch ((int)c->op) {
	case NFS_OP_OPEN: return 'o';
	case NFS_OP_GETATTR: return 'g';
	case NFS_OP_WRITE: return c->args.io.unstable ? 'w' : 'W';
	case NFS_OP_COMMIT: return 'c';
	case NFS_OP_READ: return 'r';
	case NFS_OP_CLOSE: return 'x';
	case NFS_OP_SEEK: return 'S';
	case NFS_OP_ALLOCATE: return 'A';
	case NFS_OP_DEALLOCATE: return c->args.space.refill ? 'Z' : 'D';
	default: return '?';
	}
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	cr_assert_lt(strlen(calls), sizeof(calls) - 1);
	calls[strlen(calls)] = letter(c);
	if (c->op == NFS_OP_ALLOCATE || c->op == NFS_OP_DEALLOCATE)
		space = c->args.space;
	return xdr_uint32_t(x, &nothing);
}

static int decode_space(struct nfs_call *c)
{
	const struct nfs_space_args *a = &c->args.space;

	if (rc)
		return rc;
	attr.change++;
	attr.mtime.tv_nsec++;
	if ((c->op == NFS_OP_ALLOCATE || a->refill) && attr.size < a->offset + a->length)
		attr.size = a->offset + a->length;
	c->res.attr = attr;
	c->res.has_attr = true;
	return 0;
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)x;
	switch ((int)c->op) {
	case NFS_OP_OPEN:
	case NFS_OP_GETATTR:
		if (c->op == NFS_OP_OPEN)
			c->open = calloc(1, 8);
		c->res.attr = attr;
		c->res.has_attr = true;
		return 0;
	case NFS_OP_WRITE:
		c->res.io.len = c->args.io.data[0].len;
		c->res.io.stable = !c->args.io.unstable;
		c->res.io.verf = 1;
		attr.change++;
		attr.mtime.tv_nsec++;
		if (attr.size < c->args.io.offset + c->res.io.len)
			attr.size = c->args.io.offset + c->res.io.len;
		return 0;
	case NFS_OP_READ:
		c->res.io.ptr = c->args.io.sink[0].mem;
		memset(c->args.io.sink[0].mem, 'x', c->args.io.count);
		c->res.io.len = c->args.io.count;
		return 0;
	case NFS_OP_COMMIT:
		c->res.io.verf = 1;
		c->res.io.twice = false;
		return 0;
	case NFS_OP_SEEK:
		c->res.seek.offset = c->args.seek.hole ? hole : data;
		return rc;
	case NFS_OP_ALLOCATE:
	case NFS_OP_DEALLOCATE:
		return decode_space(c);
	default:
		return 0;
	}
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static struct nfs_version version;

/* ---- the kernel ---- */

static uint64_t fh;

static void serve(void)
{
	for (unsigned i = 0; i < 20; i++) {
		lane_play_serve();
		lane_play_run(0);
	}
}

static void ask(uint32_t opcode, const void *body, size_t len)
{
	fs_play_ask(opcode, FUSE_ROOT_ID, body, len);
}

static uint64_t open_file(int flags)
{
	struct fuse_open_in in = { .flags = (uint32_t)flags };
	const struct fuse_open_out *out = (const void *)answer.data;

	ask(FUSE_OPEN, &in, sizeof(in));
	serve();
	cr_assert(answer.count == 1 && answer.error == 0);
	return out->fh;
}

static void close_file(uint64_t file)
{
	struct fuse_release_in in = { .fh = file };

	ask(FUSE_RELEASE, &in, sizeof(in));
	serve();
}

static void write_file(uint64_t offset, uint32_t size)
{
	struct fuse_write_in in = { .fh = fh, .size = size, .offset = offset, .flags = O_RDWR };
	struct fuse_in_header h = fs_play_header(FUSE_WRITE, FUSE_ROOT_ID, sizeof(in) + size);

	fs_play_request(&h, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0);
}

static void read_page(void)
{
	struct fuse_read_in in = { .fh = fh, .size = 4096, .flags = O_RDWR };

	ask(FUSE_READ, &in, sizeof(in));
	serve();
	cr_assert(answer.count == 1 && answer.error == 0);
}

/* Returns the offset, or -errno; and the calls that it took. */
static int64_t seek_to(uint64_t offset, int whence, const char *took)
{
	struct fuse_lseek_in in = { .fh = fh, .offset = offset, .whence = (uint32_t)whence };
	const struct fuse_lseek_out *out = (const void *)answer.data;

	memset(calls, 0, sizeof(calls));
	ask(FUSE_LSEEK, &in, sizeof(in));
	serve();
	cr_assert_eq(answer.count, 1);
	cr_assert_str_eq(calls, took);
	return answer.error ? answer.error : (int64_t)out->offset;
}

static int fallocate_at(int mode, uint64_t offset, uint64_t length, const char *took)
{
	struct fuse_fallocate_in in = {
		.fh = fh, .offset = offset, .length = length, .mode = (uint32_t)mode,
	};

	memset(calls, 0, sizeof(calls));
	notice.count = 0;
	ask(FUSE_FALLOCATE, &in, sizeof(in));
	serve();
	cr_assert_eq(answer.count, 1);
	cr_assert_str_eq(calls, took);
	return answer.error;
}

/* The size that the kernel is told; and the calls that it took. */
static uint64_t stat_size(const char *took)
{
	struct fuse_getattr_in in = { 0 };
	const struct fuse_attr_out *out = (const void *)answer.data;

	memset(calls, 0, sizeof(calls));
	ask(FUSE_GETATTR, &in, sizeof(in));
	serve();
	cr_assert(answer.count == 1 && answer.error == 0);
	cr_assert_str_eq(calls, took);
	return out->attr.size;
}

static void start(bool without)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };

	version = (struct nfs_version){ .name = "test", .prog = 1, .vers = 1 };
	for (unsigned i = 0; i < NFS_OP_VERSION; i++)
		version.ops[i] = &any_op;
	if (without)
		version.ops[NFS_OP_SEEK] = version.ops[NFS_OP_ALLOCATE] = version.ops[NFS_OP_DEALLOCATE] = NULL;
	attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = 1, .size = 100000, .change = 1 };
	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = 30;
	fs.cfg.vfs.write_behind = 50;
	fs_play_start(&version, &root, &attr);
	fh = open_file(O_RDWR);
}

static void setup(void)
{
	start(false);
}

static void teardown(void)
{
	close_file(fh);
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	cr_assert_eq(atomic_load(&believed_of(fs.root)->dirtiers), 0);
	cr_assert_eq(atomic_load(&believed_of(fs.root)->writing), 0);
	fs_play_end();
}

TestSuite(fs_space, .init = setup, .fini = teardown, .timeout = 300);

/* ---- lseek ---- */

Test(fs_space, the_server_says_where)
{
	data = 8192, hole = 65536;
	cr_assert_eq(seek_to(4096, SEEK_DATA, "S"), 8192);
	cr_assert_eq(seek_to(4096, SEEK_HOLE, "S"), 65536);
	rc = -ENXIO;
	cr_assert_eq(seek_to(200000, SEEK_DATA, "S"), -ENXIO);
	cr_assert_eq(seek_to(UINT64_MAX, SEEK_DATA, ""), -ENXIO, "a negative offset");
	cr_assert_eq(seek_to(0, SEEK_SET, ""), -EINVAL, "not from a kernel");
}

/* ...and committed: a server that restarts forgets it until it is sent again. */
Test(fs_space, what_was_written_is_there_before)
{
	close_file(fh);
	fh = open_file(O_WRONLY);
	data = hole = 0;
	write_file(0, 4096);
	write_file(1 << 20, 4096);
	cr_assert_eq(seek_to(0, SEEK_DATA, "wwcS"), 0);
}

/* NOTSUPP: the file is data up to its end. The server is not asked again. */
Test(fs_space, a_server_that_cannot_seek)
{
	rc = -EOPNOTSUPP;
	cr_assert_eq(seek_to(10, SEEK_DATA, "Sg"), 10);
	atomic_fetch_or(&fs.vfs.cl->server.lacks, UINT64_C(1) << NFS_OP_SEEK);
	cr_assert_eq(seek_to(10, SEEK_DATA, "g"), 10);
	cr_assert_eq(seek_to(10, SEEK_HOLE, "g"), 100000);
	cr_assert_eq(seek_to(99999, SEEK_HOLE, "g"), 100000);
	cr_assert_eq(seek_to(100000, SEEK_DATA, "g"), -ENXIO);
	cr_assert_eq(seek_to(100000, SEEK_HOLE, "g"), -ENXIO);
	write_file(100000, 50);
	cr_assert_eq(seek_to(100000, SEEK_HOLE, "Wg"), 100050, "with what was written");
}

/* The operation of a request that failed is the next one's. cp(1) closes what it has sought in. */
Test(fs_space, close_after_lseek_has_failed)
{
	struct fuse_flush_in in = { .lock_owner = 7 };

	close_file(fh);
	fh = open_file(O_RDONLY);
	rc = -ENXIO;
	cr_assert_eq(seek_to(200000, SEEK_DATA, "S"), -ENXIO);
	rc = 0;
	in.fh = fh;
	ask(FUSE_FLUSH, &in, sizeof(in));
	serve();
	cr_assert(answer.count == 1 && answer.error == 0, "close() says %d", answer.error);
}

/* A mapping may have dirtied pages that the kernel has not sent. */
Test(fs_space, pages_that_may_be_dirty)
{
	uint64_t other;

	data = hole = 50000;
	cr_assert_eq(seek_to(0, SEEK_DATA, "S"), 50000, "there are no pages");
	read_page();
	cr_assert_eq(seek_to(0, SEEK_DATA, "g"), 0);
	cr_assert_eq(seek_to(0, SEEK_HOLE, "g"), 100000);
	/* Nor by another open file. */
	other = fh;
	fh = open_file(O_RDONLY);
	cr_assert_eq(seek_to(0, SEEK_HOLE, "g"), 100000);
	close_file(other);
	cr_assert_eq(seek_to(0, SEEK_HOLE, "S"), 50000, "nobody may dirty any");
}

/* ---- fallocate ---- */

Test(fs_space, modes)
{
	cr_assert_eq(fallocate_at(0, 4096, 8192, "A"), 0);
	cr_assert(space.offset == 4096 && space.length == 8192);
	cr_assert_eq(fallocate_at(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1, 2, "D"), 0);
	cr_assert(space.offset == 1 && space.length == 2);
	cr_assert_eq(fallocate_at(FALLOC_FL_ZERO_RANGE, 1, 2, "Z"), 0);
	cr_assert_eq(fallocate_at(FALLOC_FL_KEEP_SIZE, 1, 2, ""), -EOPNOTSUPP);
	cr_assert_eq(fallocate_at(FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 1, 2, ""), -EOPNOTSUPP);
	cr_assert_eq(fallocate_at(FALLOC_FL_COLLAPSE_RANGE, 0, 4096, ""), -EOPNOTSUPP);
	cr_assert_eq(fallocate_at(0, UINT64_C(1) << 63, 1, ""), -EINVAL);
	cr_assert_eq(fallocate_at(0, 1, INT64_MAX, ""), -EINVAL);
	cr_assert_eq(fallocate_at(0, 1, 0, ""), -EINVAL);
	cr_assert_eq(fallocate_at(0, 1, INT64_MAX - 1, "A"), 0);
}

/* The change's reply answers the question that follows. */
Test(fs_space, the_size_afterwards)
{
	struct believed *b = believed_of(fs.root);

	cr_assert_eq(fallocate_at(0, 100000, 50000, "A"), 0);
	cr_assert_eq(atomic_load(&b->told_size), 150000, "the kernel has set it");
	cr_assert_eq(stat_size(""), 150000);
	cr_assert_eq(fallocate_at(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 140000, 50000, "D"), 0);
	cr_assert_eq(atomic_load(&b->told_size), 150000);
	cr_assert_eq(stat_size(""), 150000);
	cr_assert_eq(stat_size("g"), 150000);
	cr_assert_eq(notice.count, 0);
}

/* A WRITE that is sent again after a restart must not fill the hole. */
Test(fs_space, what_was_written_is_stable_before_a_hole)
{
	write_file(0, 4096);
	write_file(1 << 20, 4096);
	cr_assert_eq(fallocate_at(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192, "wwcD"), 0);
	cr_assert_not(behind_holds(fs.root));
}

Test(fs_space, what_was_read_ahead_is_dropped)
{
	uint64_t nr = atomic_load(&fs.root->data_nr);

	cr_assert_eq(fallocate_at(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096, "D"), 0);
	cr_assert(atomic_load(&fs.root->data_nr) > nr);
	cr_assert_eq(atomic_load(&fs.root->data_busy), 0);
}

Test(fs_space, a_server_without_fallocate)
{
	atomic_fetch_or(&fs.vfs.cl->server.lacks, UINT64_C(1) << NFS_OP_ALLOCATE);
	cr_assert_eq(fallocate_at(0, 0, 4096, ""), -EOPNOTSUPP);
	cr_assert_eq(fallocate_at(FALLOC_FL_ZERO_RANGE, 0, 4096, ""), -EOPNOTSUPP);
	cr_assert_eq(fallocate_at(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096, "D"), 0);
}

/* A failure may have changed some of it: the kernel drops no pages, and is told to ask. */
Test(fs_space, failures)
{
	struct believed *b = believed_of(fs.root);

	read_page();
	rc = -EOPNOTSUPP;
	cr_assert_eq(fallocate_at(0, 0, 4096, "A"), -EOPNOTSUPP);
	cr_assert(notice.count == 0 && !atomic_load(&b->outdated));
	rc = -ENOSPC;
	cr_assert_eq(fallocate_at(0, 0, 4096, "A"), -ENOSPC);
	cr_assert_eq(notice.count, 1);
	rc = -EIO;
	fs_play_tell(fs.root);
	cr_assert_eq(fallocate_at(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096, "D"), -EIO);
	cr_assert(notice.count == 1 && atomic_load(&b->outdated), "its pages are old");
	cr_assert_eq(atomic_load(&b->told_size), NOBODY_KNOWS);
	cr_assert_eq(stat_size("g"), 100000);
	rc = -EOPNOTSUPP;
	cr_assert_eq(fallocate_at(FALLOC_FL_ZERO_RANGE, 0, 4096, "Z"), -EOPNOTSUPP);
	cr_assert_eq(notice.count, 1, "the hole may have been made");
}

/* ---- a version without them ---- */

static void setup_without(void)
{
	start(true);
}

TestSuite(fs_space_41, .init = setup_without, .fini = teardown, .timeout = 300);

Test(fs_space_41, a_version_without)
{
	cr_assert_eq(seek_to(0, SEEK_DATA, ""), -ENOSYS, "the kernel answers from now on");
	cr_assert_eq(fallocate_at(0, 0, 4096, ""), -ENOSYS);
}
