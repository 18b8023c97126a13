/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file's data without a kernel and without a protocol (fs_play.h). The version's
 * operations are answered from a list that a test writes beforehand. The test fails if an
 * operation comes that is not on the list, or if one on the list does not come.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "buffers.h"
#include "fs_play.h"

static uint64_t fh;                     /* of the open file */

/* ---- the server ---- */

struct step {
	enum nfs_op op;
	uint64_t offset;                /* what is asked for */
	uint32_t count;
	int rc;                         /* what the answer is */
	uint32_t len;
	bool flag;                      /* READ: eof; WRITE: stable; COMMIT: twice */
	uint64_t verf;
};

static struct {
	struct step s[64];
	unsigned n, asked, answered;
	struct nfs_attr attr;           /* the file's */
} srv;

static void expect(struct step s)
{
	cr_assert_lt(srv.n, 64);
	srv.s[srv.n++] = s;
}

static void expect_read(uint64_t offset, uint32_t count, uint32_t len, bool eof)
{
	expect((struct step){ NFS_OP_READ, offset, count, .len = len, .flag = eof });
}

static void expect_write(uint64_t offset, uint32_t count, uint32_t len, bool stable, uint64_t verf)
{
	expect((struct step){ NFS_OP_WRITE, offset, count, .len = len, .flag = stable, .verf = verf });
}

static void expect_commit(uint64_t offset, uint32_t count, int rc, uint64_t verf)
{
	expect((struct step){ NFS_OP_COMMIT, offset, count, .rc = rc, .verf = verf });
}

static uint32_t count_of(const struct nfs_call *c)
{
	uint32_t n = 0;

	if (c->op != NFS_OP_WRITE)
		return c->args.io.count;
	for (uint32_t i = 0; i < c->args.io.ndata; i++)
		n += c->args.io.data[i].len;
	return n;
}

/* The byte at that place of every file that is written here. */
static char byte_at(uint64_t offset)
{
	return (char)(offset * 7 + offset / 251);
}

static void check_data(const struct nfs_call *c)
{
	uint64_t at = c->args.io.offset;

	for (uint32_t i = 0; i < c->args.io.ndata; i++)
		for (uint32_t b = 0; b < c->args.io.data[i].len; b++, at++)
			cr_assert_eq(((char *)c->args.io.data[i].mem)[b], byte_at(at), "the byte at %lu",
				     (unsigned long)at);
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	const struct step *s = &srv.s[srv.asked++];
	uint32_t nothing = 0;

	cr_assert_leq(srv.asked, srv.n, "operation %d at %lu of %u, when none was expected", c->op,
		      (unsigned long)c->args.io.offset, count_of(c));
	cr_assert(c->op == s->op && c->args.io.offset == s->offset && count_of(c) == s->count,
		  "step %u: operation %d at %lu of %u", srv.asked, c->op,
		  (unsigned long)c->args.io.offset, count_of(c));
	if (c->op == NFS_OP_WRITE)
		check_data(c);
	return xdr_uint32_t(x, &nothing);
}

static int decode(struct nfs_call *c, XDR *x)
{
	const struct step *s = &srv.s[srv.answered++];

	(void)x;
	if (s->rc)
		return s->rc;
	if (c->op == NFS_OP_READ) {
		c->res.io.ptr = c->args.io.sink[0].mem;
		c->res.io.eof = s->flag;
		for (uint32_t i = 0; i < s->len; i++)
			((char *)c->args.io.sink[0].mem)[i] = byte_at(c->args.io.offset + i);
	}
	if (c->op != NFS_OP_COMMIT)
		c->res.io.len = s->len;
	if (c->op == NFS_OP_WRITE)
		c->res.io.stable = s->flag;
	if (c->op == NFS_OP_COMMIT)
		c->res.io.twice = s->flag;
	c->res.io.verf = s->verf;
	return 0;
}

static bool_t encode_open(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	(void)c;
	return xdr_uint32_t(x, &nothing);
}

static int decode_open(struct nfs_call *c, XDR *x)
{
	(void)x;
	c->res.attr = srv.attr;
	c->res.has_attr = true;
	c->open = calloc(1, 8);
	return 0;
}

static int decode_getattr(struct nfs_call *c, XDR *x)
{
	(void)x;
	c->res.attr = srv.attr;
	c->res.has_attr = true;
	return 0;
}

enum { SMALL_MAX = 100 };

static const struct nfs_opdef data_op = {
	.name = "data", .encode = encode, .decode = decode, .results_max = SMALL_MAX, .proc = 1,
};
static const struct nfs_opdef open_op = {
	.name = "OPEN", .encode = encode_open, .decode = decode_open, .results_max = SMALL_MAX, .proc = 2,
};

static const struct nfs_opdef getattr_op = {
	.name = "GETATTR", .encode = encode_open, .decode = decode_getattr, .results_max = SMALL_MAX,
	.proc = 3,
};

static uint64_t delegated(const struct nfs_server *s, struct nfs_file *f)
{
	(void)s;
	return atomic_load(&f->delegation);
}

static void drop_delegation(struct nfs_server *s, const struct nfs_file *f)
{
	(void)s;
	cr_assert_not(nfs_delegation_writes(atomic_load(&f->delegation)), "one to write stays");
}

static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .delegated = delegated, .delegation_drop = drop_delegation,
	.ops = {
		[NFS_OP_READ] = &data_op, [NFS_OP_WRITE] = &data_op, [NFS_OP_COMMIT] = &data_op,
		[NFS_OP_OPEN] = &open_op, [NFS_OP_GETATTR] = &getattr_op,
		[NFS_OP_SETATTR] = &getattr_op,
	},
};

/* ---- what FUSE asks ---- */

static void ask(uint32_t opcode, const void *body, size_t len)
{
	fs_play_ask(opcode, FUSE_ROOT_ID, body, len);
	lane_play_serve();
}

/* The same with `data` bytes of a file's at `off`, which lie elsewhere; it is answered later. */
static void request_with(uint32_t opcode, const void *body, size_t len, uint64_t off, size_t data)
{
	struct fuse_in_header h = fs_play_header(opcode, FUSE_ROOT_ID, len + data);

	cr_assert_leq(data, ARENA_MID_SIZE + ARENA_BIG_SIZE);
	fs_play_buffers();
	for (size_t i = 0; i < data; i++)
		((char *)(i < ARENA_MID_SIZE ? fs_play_dev.mid : fs_play_dev.big)->mem)
			[i < ARENA_MID_SIZE ? i : i - ARENA_MID_SIZE] = byte_at(off + i);
	fs_play_request(&h, body, len);
}

static void ask_with(uint32_t opcode, const void *body, size_t len, uint64_t off, size_t data)
{
	request_with(opcode, body, len, off, data);
	lane_play_serve();
}

static void ask_read_as(uint64_t off, uint32_t size, uint32_t flags, uint64_t owner)
{
	struct fuse_read_in in = {
		.fh = fh, .offset = off, .size = size, .flags = flags, .lock_owner = owner,
		.read_flags = owner ? FUSE_READ_LOCKOWNER : 0,
	};

	ask(FUSE_READ, &in, sizeof(in));
	cr_assert_eq(answer.count, 1, "one answer");
	cr_assert_eq(srv.answered, srv.n, "all that was expected");
}

static void ask_read(uint64_t off, uint32_t size)
{
	ask_read_as(off, size, 0, 0);
}

static void ask_write_as(uint64_t off, uint32_t size, uint32_t flags, uint32_t write_flags)
{
	struct fuse_write_in in = {
		.fh = fh, .offset = off, .size = size, .flags = flags, .write_flags = write_flags,
	};

	ask_with(FUSE_WRITE, &in, sizeof(in), off, size);
	cr_assert_eq(answer.count, 1, "one answer");
	cr_assert_eq(srv.answered, srv.n, "all that was expected");
}

static void ask_write(uint64_t off, uint32_t size)
{
	ask_write_as(off, size, O_RDWR, 0);
}

static struct fuse_open_out open_file(uint32_t flags)
{
	struct fuse_open_in in = { .flags = flags };
	struct fuse_open_out out;

	ask(FUSE_OPEN, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0 && answer.len == sizeof(out));
	memcpy(&out, answer.data, sizeof(out));
	return out;
}

static void close_file(uint64_t which)
{
	struct fuse_release_in in = { .fh = which };

	ask(FUSE_RELEASE, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0);
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };

	srv.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = 1, .size = 1 << 20 };
	fs_play_start(&version, &root, &srv.attr);
	fh = open_file(O_RDWR).fh;
	notice.count = 0;
}

static void teardown(void)
{
	close_file(fh);
	cr_assert_eq(atomic_load(&fs.root->refs), 1, "open files hold it no more");
	cr_assert(buffers_free(&lane.mag, ARENA_MID) == 6 && buffers_free(&lane.mag, ARENA_BIG) == 3,
		  "every buffer is back");
	fs_play_end();
}

TestSuite(fs_data, .init = setup, .fini = teardown, .timeout = 300);

/* ---- WRITE, and what is not FILE_SYNC ---- */

static void expect_written(uint32_t size)
{
	struct fuse_write_out out;

	cr_assert_eq(answer.error, 0);
	cr_assert_eq(answer.len, sizeof(out));
	memcpy(&out, answer.data, sizeof(out));
	cr_assert_eq(out.size, size);
}

Test(fs_data, stable_write)
{
	expect_write(1000, 5000, 5000, true, 1);
	ask_write(1000, 5000);
	expect_written(5000);
}

/* The data is on stable storage before write() is answered, and nothing else is committed. */
Test(fs_data, unstable_write_is_committed)
{
	expect_write(1000, 5000, 5000, false, 1);
	expect_commit(1000, 5000, 0, 1);
	ask_write(1000, 5000);
	expect_written(5000);
}

/* The server has restarted between WRITE and COMMIT, and has lost the data. */
Test(fs_data, restart_before_commit)
{
	expect_write(1000, 5000, 5000, false, 1);
	expect_commit(1000, 5000, 0, 2);
	expect_write(1000, 5000, 5000, false, 2);
	expect_commit(1000, 5000, 0, 2);
	ask_write(1000, 5000);
	expect_written(5000);
}

/* COMMIT may have failed before, and said so in a reply that was lost. */
Test(fs_data, commit_is_executed_twice)
{
	expect_write(1000, 5000, 5000, false, 1);
	expect((struct step){ NFS_OP_COMMIT, 1000, 5000, .verf = 1, .flag = true });
	expect_write(1000, 5000, 5000, true, 1);
	ask_write(1000, 5000);
	expect_written(5000);
}

/* The server writes part by part; each part is committed by itself, and some are stable. */
Test(fs_data, unstable_parts)
{
	expect_write(1000, 5000, 2000, false, 1);
	expect_commit(1000, 2000, 0, 2);
	expect_write(1000, 5000, 3000, false, 2);
	expect_commit(1000, 3000, 0, 2);
	expect_write(4000, 2000, 1500, true, 3);
	expect_write(5500, 500, 500, false, 4);
	expect_commit(5500, 500, 0, 4);
	ask_write(1000, 5000);
	expect_written(5000);
}

Test(fs_data, commit_fails)
{
	expect_write(0, 5000, 5000, false, 1);
	expect_commit(0, 5000, -ENOSPC, 0);
	ask_write(0, 5000);
	cr_assert_eq(answer.error, -ENOSPC);
}

/* Only committed data counts as written. */
Test(fs_data, commit_of_the_second_part_fails)
{
	expect_write(0, 5000, 3000, false, 1);
	expect_commit(0, 3000, 0, 1);
	expect_write(3000, 2000, 2000, false, 1);
	expect_commit(3000, 2000, -ENOSPC, 0);
	ask_write(0, 5000);
	expect_written(3000);
}

/* A server that sends another verifier each time never confirms the data. */
Test(fs_data, verifier_that_never_stays)
{
	for (unsigned i = 0; i < 9; i++) {
		expect_write(0, 5000, 5000, false, 2 * i);
		expect_commit(0, 5000, 0, 2 * i + 1);
	}
	ask_write(0, 5000);
	cr_assert_eq(answer.error, -EIO);
}

/* fsync() after all that has nothing to do: no RPC. */
Test(fs_data, fsync)
{
	struct fuse_fsync_in in = { .fh = fh };

	expect_write(0, 5000, 5000, false, 1);
	expect_commit(0, 5000, 0, 1);
	ask_write(0, 5000);
	ask(FUSE_FSYNC, &in, sizeof(in));
	cr_assert_eq(answer.count, 1);
	cr_assert(answer.error == 0 || answer.error == -ENOSYS, "the kernel takes both for done");
}

/* ---- READ ---- */

static void expect_data(uint64_t off, uint32_t size)
{
	cr_assert_eq(answer.error, 0);
	cr_assert_eq(answer.len, size);
	for (uint32_t i = 0; i < size; i++)
		cr_assert_eq(answer.data[i], byte_at(off + i), "byte %u", i);
}

Test(fs_data, short_reads)
{
	expect_read(100, 20000, 4096, false);
	expect_read(4196, 15904, 1, false);
	expect_read(4197, 15903, 15903, false);
	ask_read(100, 20000);
	expect_data(100, 20000);
}

Test(fs_data, end_of_file)
{
	expect_read(100, 20000, 4096, false);
	expect_read(4196, 15904, 100, true);
	ask_read(100, 20000);
	expect_data(100, 4196);
	expect_read(4296, 4096, 0, true);
	ask_read(4296, 4096);
	expect_data(4296, 0);
}

/* No bytes, and not the end: the kernel would take it for the end, cut its size
 * there and fill pages with zeros. */
Test(fs_data, nothing_is_not_the_end)
{
	for (unsigned i = 0; i < 9; i++)
		expect_read(100, 20000, 0, false);
	ask_read(100, 20000);
	cr_assert_eq(answer.error, -EIO);
}

Test(fs_data, nothing_after_a_part_is_not_the_end)
{
	expect_read(100, 20000, 4096, false);
	for (unsigned i = 0; i < 9; i++)
		expect_read(4196, 15904, 0, false);
	ask_read(100, 20000);
	cr_assert_eq(answer.error, -EIO);
}

/* Now and then: each part starts anew. */
Test(fs_data, nothing_at_first)
{
	uint64_t at = 100;

	for (unsigned part = 0; part < 5; part++, at += 1000) {
		for (unsigned i = 0; i < 8; i++)
			expect_read(at, 5000 - part * 1000, 0, false);
		expect_read(at, 5000 - part * 1000, 1000, false);
	}
	ask_read(100, 5000);
	expect_data(100, 5000);
}

/* FUSE gets the memory that the READ ahead was placed in, of two of them if need be. A direct read gets
 * nothing of it, and the pages of a direct open's mapping do. */
Test(fs_data, what_was_read_ahead)
{
	const char *at;

	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = 1000;
	ahead_init(&fs.vfs, 64 << 10);
	fs.vfs.ahead.most = 2 * ARENA_BIG_SIZE;
	fs.vfs.ahead.piece = fs.vfs.ahead.part = 24 << 10;
	expect_read(0, 4096, 4096, false);
	ask_read(0, 4096);
	expect_read(4096, 4096, 4096, false);
	expect_read(8192, 16384, 16384, false);
	expect_read(24576, 24576, 24576, false);
	ask_read(4096, 4096);
	ask_read(8192, 4096);
	expect_data(8192, 4096);
	at = answer.at;
	ask_read_as(12288, 4096, O_RDWR | O_DIRECT, 0);
	expect_data(12288, 4096);
	cr_assert_eq((const char *)answer.at, at + 4096);
	expect_read(16384, 4096, 4096, false);
	ask_read_as(16384, 4096, O_RDWR | O_DIRECT, 0x1234);
	expect_read(49152, 24576, 24576, false);
	ask_read(20480, 8192);
	expect_data(20480, 8192);
	cr_assert_eq(stat_get(&lane.stats, STAT_AHEAD_HITS), 3);
}

/* ---- close() ----
 * The kernel writes mapped pages back in close(), and tells of errors there,
 * unless it was told that this open has nothing to flush. Pages are dirtied by
 * way of an O_RDWR open only; any other that closes would take the error from
 * the one that has written. */
Test(fs_data, who_flushes)
{
	static const struct { uint32_t flags; bool noflush; } t[] = {
		{ O_RDONLY, true }, { O_WRONLY, false }, { O_RDWR, false },
		{ O_RDWR | O_APPEND, false }, { O_WRONLY | O_DIRECT, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct fuse_open_out out = open_file(t[i].flags);

		cr_assert_eq(!!(out.open_flags & FOPEN_NOFLUSH), t[i].noflush, "flags %o", t[i].flags);
		close_file(out.fh);
	}
}

/* close() and fsync() of a file that was not written to cost no call. */
Test(fs_data, nothing_to_flush)
{
	struct fuse_flush_in flush = { .fh = fh };
	struct fuse_fsync_in sync = { .fh = fh };

	ask(FUSE_FLUSH, &flush, sizeof(flush));
	cr_assert(answer.count == 1 && answer.error == 0);
	ask(FUSE_FSYNC, &sync, sizeof(sync));
	cr_assert(answer.count == 1 && answer.error == 0);
}

/* ---- the size that the kernel appends at ---- */

/* The nanoseconds of the mtime that the kernel is told. */
static uint32_t told_mtime(void)
{
	struct fuse_getattr_in in = { 0 };
	struct fuse_attr_out out;

	ask(FUSE_GETATTR, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0 && answer.len == sizeof(out));
	memcpy(&out, answer.data, sizeof(out));
	return out.attr.mtimensec;
}

static int try_open(uint32_t flags)
{
	struct fuse_open_in in = { .flags = flags };
	struct fuse_open_out out;

	ask(FUSE_OPEN, &in, sizeof(in));
	cr_assert_eq(answer.count, 1);
	if (!answer.error) {
		memcpy(&out, answer.data, sizeof(out));
		close_file(out.fh);
	}
	return answer.error;
}

/* Another client has made it longer: who may write is sent back to where the kernel
 * learns the size, O_APPEND or not, as that can be set later. */
Test(fs_data, open_of_what_has_grown)
{
	static const struct { uint32_t flags; bool back; } t[] = {
		{ O_RDONLY, false }, { O_WRONLY, true }, { O_RDWR, true },
		{ O_WRONLY | O_APPEND, true }, { O_RDONLY | O_APPEND, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		srv.attr.size += 1000;
		cr_assert_eq(try_open(t[i].flags), t[i].back ? -ESTALE : 0, "row %u", i);
		told_mtime();           /* GETATTR: the kernel knows it now */
		cr_assert_eq(try_open(t[i].flags), 0, "row %u, known", i);
	}
}

/* ftruncate(). The server's file stays as it is. */
static int set_size(uint64_t size)
{
	struct fuse_setattr_in in = { .valid = FATTR_SIZE | FATTR_FH, .fh = fh, .size = size };
	uint64_t was = srv.attr.size;

	ask(FUSE_SETATTR, &in, sizeof(in));
	cr_assert(answer.count == 1 && srv.attr.size == was);
	return answer.error;
}

/*
 * The kernel may believe an old size all the same (believed.h). An append there would overwrite
 * data. It is refused, until the kernel has heard of a smaller size.
 */
Test(fs_data, append_at_an_old_end)
{
	struct fuse_open_out o;

	srv.attr.size = 5000;
	srv.attr.change++;
	cr_assert_eq(try_open(O_WRONLY), -ESTALE);
	told_mtime();
	o = open_file(O_WRONLY | O_APPEND);
	close_file(fh);
	fh = o.fh;
	notice.count = 0;
	ask_write_as(4999, 100, O_WRONLY | O_APPEND, 0);
	cr_assert(answer.error == -ESTALE && notice.count == 1, "error %d", answer.error);
	cr_assert_eq(set_size(4999), 0, "a program's own truncation");
	/* When a direct write fails, the kernel truncates the file to where it began. */
	ask_write_as(4998, 100, O_WRONLY | O_APPEND | O_DIRECT, 0);
	cr_assert_eq(answer.error, -ESTALE);
	cr_assert_eq(set_size(4998), -ESTALE, "others' data would be cut off");
	cr_assert_eq(set_size(4998), 0);
	expect_write(4999, 100, 100, true, 1);
	ask_write_as(4999, 100, O_WRONLY, 0);
	expect_written(100);
	expect_write(5099, 100, 100, true, 1);
	ask_write_as(5099, 100, O_WRONLY | O_APPEND, 0);
	expect_written(100);
	/* Pages that are written back are where they belong. */
	expect_write(0, 100, 100, true, 1);
	ask_write_as(0, 100, O_WRONLY | O_APPEND, FUSE_WRITE_CACHE);
	expect_written(100);
	srv.attr.size = 10;
	told_mtime();
	expect_write(10, 100, 100, true, 1);
	ask_write_as(10, 100, O_WRONLY | O_APPEND, 0);
	expect_written(100);
}

/* A ring has made the file longer, and the kernel does not ask before it appends. */
Test(fs_data, append_behind_what_a_ring_has_written)
{
	struct fuse_write_in in = { .fh = fh, .offset = 5000, .size = 100, .flags = O_WRONLY | O_APPEND };

	srv.attr.size = 5000;
	told_mtime();
	believed_reached_past(&fs.vfs.inodes, fs.root, 9000);
	expect_write(9000, 100, 100, true, 1);
	ask_with(FUSE_WRITE, &in, sizeof(in), 9000, 100);
	expect_written(100);
	/* The rest of that write(), which the kernel has divided where a page ends for it. */
	in.offset = 5100;
	expect_write(9100, 100, 100, true, 1);
	ask_with(FUSE_WRITE, &in, sizeof(in), 9100, 100);
	expect_written(100);
	ask_write_as(5100, 100, O_WRONLY | O_APPEND | O_DIRECT, 0);
	cr_assert_eq(answer.error, -ESTALE, "nobody knows which of its requests is the first");
	/* Somebody has cut it. */
	srv.attr.size = 700;
	srv.attr.change++;
	told_mtime();
	expect_write(700, 100, 100, true, 1);
	ask_write_as(700, 100, O_WRONLY | O_APPEND, 0);
	expect_written(100);
}

/* ---- direct writes of a file that has pages ---- */

static void write_direct(uint64_t off)
{
	expect_write(off, 4096, 4096, true, 1);
	ask_write_as(off, 4096, O_RDWR | O_DIRECT, 0);
	expect_written(4096);
}

/* Through the page cache. */
static void read_cached(uint64_t off)
{
	expect_read(off, 4096, 4096, false);
	ask_read(off, 4096);
}

Test(fs_data, direct_write_past_pages)
{
	write_direct(0);
	cr_assert_eq(notice.count, 0, "nobody has read it through the cache");
	read_cached(0);
	write_direct(0);
	cr_assert_eq(notice.count, 1);
	cr_assert_eq(notice.answers, 0, "before the answer");
	cr_assert_eq(notice.what.off, -1, "nothing that waits for pages");
	write_direct(8192);
	cr_assert_eq(notice.count, 1, "it has forgotten already");
	fs_play_tell(fs.root);
	write_direct(8192);
	cr_assert_eq(notice.count, 2);
}

/* The kernel waits for a notification to be handled, and may be dropping the inode if nobody
 * waits for the answer. */
Test(fs_data, direct_write_of_a_killed_process)
{
	struct fuse_write_in in = { .fh = fh, .size = 4096, .flags = O_RDWR | O_DIRECT };
	struct fuse_in_header h = fs_play_header(FUSE_WRITE, FUSE_ROOT_ID, sizeof(in) + 4096);

	read_cached(0);
	expect_write(0, 4096, 4096, true, 1);
	for (unsigned i = 0; i < 4096; i++)
		((char *)fs_play_dev.mid->mem)[i] = byte_at(i);
	fs_play_request(&h, &in, sizeof(in));
	cr_assert_not(fs_give_up(container_of(fl->vl.active.prev, struct fs_req, op.node)));
	lane_play_serve();
	cr_assert_eq(srv.answered, srv.n);
	cr_assert_eq(notice.count, 0);
	cr_assert(atomic_load(&believed_of(fs.root)->outdated), "the next answer makes the kernel drop its pages");
}

/* read() of a direct open names its owner; a mapping of it has pages, and does not. */
Test(fs_data, mapping_of_a_direct_open_makes_pages)
{
	expect_read(0, 4096, 4096, false);
	ask_read_as(0, 4096, O_RDWR | O_DIRECT, 0x1234);
	write_direct(0);
	cr_assert_eq(notice.count, 0, "a direct read");
	expect_read(0, 4096, 4096, false);
	ask_read_as(0, 4096, O_RDWR | O_DIRECT, 0);
	write_direct(0);
	cr_assert_eq(notice.count, 1);
}

Test(fs_data, buffered_write_makes_pages)
{
	expect_write(0, 100, 100, true, 1);
	ask_write(0, 100);
	cr_assert_eq(notice.count, 0);
	write_direct(0);
	cr_assert_eq(notice.count, 1);
}

/* A direct open's mapped pages: they are no direct writes. */
Test(fs_data, written_back_is_not_past_pages)
{
	read_cached(0);
	expect_write(0, 100, 100, true, 1);
	ask_write_as(0, 100, O_RDWR | O_DIRECT, FUSE_WRITE_CACHE);
	cr_assert_eq(notice.count, 0);
}

Test(fs_data, failed_direct_write)
{
	read_cached(0);
	expect((struct step){ NFS_OP_WRITE, 0, 4096, .rc = -ENOSPC });
	ask_write_as(0, 4096, O_RDWR | O_DIRECT, 0);
	cr_assert_eq(answer.error, -ENOSPC);
	cr_assert_eq(notice.count, 0, "nothing was written");
}

static void fails_direct(uint64_t off)
{
	expect((struct step){ NFS_OP_WRITE, off, 4096, .rc = -ENOSPC });
	ask_write_as(off, 4096, O_RDWR | O_DIRECT, 0);
	cr_assert_eq(answer.error, -ENOSPC);
}

/* The kernel was told the one size, and by now the server has the other one. */
static void made_longer(uint64_t told, uint64_t now)
{
	srv.attr.size = told;
	told_mtime();
	srv.attr.size = now;
}

/* The kernel sets the size that it believes then, and others have made the file longer. */
Test(fs_data, failed_direct_write_that_the_kernel_rolls_back)
{
	made_longer(1000, 5000);
	fails_direct(2000);
	cr_assert_eq(set_size(1000), -ESTALE, "others' data would be cut off");
	cr_assert_eq(set_size(1000), 0, "a program's own truncation");
	srv.attr.size = 5000;
	told_mtime();
	fails_direct(0);
	cr_assert_eq(set_size(5000), 0, "the file would not have become longer");
	fails_direct(4096);
	cr_assert_eq(set_size(5000), -ESTALE, "the kernel's is the next one");
	cr_assert_eq(set_size(3000), 0, "it is not the kernel's");
}

static int set_size_by(uint32_t pid, uint64_t size)
{
	struct fuse_setattr_in in = { .valid = FATTR_SIZE | FATTR_FH, .fh = fh, .size = size };
	struct fuse_in_header h = fs_play_header(FUSE_SETATTR, FUSE_ROOT_ID, sizeof(in));

	h.pid = pid;
	fs_play_request(&h, &in, sizeof(in));
	lane_play_serve();
	return answer.error;
}

Test(fs_data, another_thread_truncates_after_a_failed_direct_write)
{
	made_longer(1000, 5000);
	fails_direct(2000);
	cr_assert_eq(set_size_by(77, 1000), 0);
	cr_assert_eq(set_size(1000), -ESTALE);
}

/* A ring has made the file longer, say: what the kernel believes then may be anything. */
Test(fs_data, failed_direct_write_where_nobody_knows_the_kernels_size)
{
	made_longer(1000, 9000);
	believed_unheard(fs.root);
	fails_direct(2000);
	cr_assert_eq(set_size(1000), -ESTALE, "what the ring has written would be cut off");
	cr_assert_eq(set_size(1000), 0);
}

/* The kernel believes what it did before the write() until all of it is answered. */
Test(fs_data, direct_write_in_two_requests_of_which_one_fails)
{
	struct fuse_write_in in = { .fh = fh, .size = 4096, .flags = O_RDWR | O_DIRECT };

	/* The first one may be answered before the next one is read. */
	made_longer(1000, 9000);
	expect_write(0, 4096, 4096, true, 1);
	ask_write_as(0, 4096, O_RDWR | O_DIRECT, 0);
	fails_direct(4096);
	cr_assert_eq(set_size(1000), -ESTALE);
	made_longer(1000, 9000);
	expect_write(4096, 4096, 4096, true, 1);
	expect((struct step){ NFS_OP_WRITE, 0, 4096, .rc = -ENOSPC });
	in.offset = 4096;
	request_with(FUSE_WRITE, &in, sizeof(in), 4096, 4096);
	in.offset = 0;
	request_with(FUSE_WRITE, &in, sizeof(in), 0, 4096);
	lane_play_serve();
	cr_assert_eq(srv.answered, srv.n);
	cr_assert_eq(set_size(1000), -ESTALE, "what others have added would be cut off");
	/* The kernel believes that the file has 1000 bytes, as it did before, and not what was written. */
	fails_direct(0);
	cr_assert_eq(set_size(1000), -ESTALE);
	cr_assert_eq(set_size(1000), 0);
}

/* It fails where the file was already, and the other request makes it longer: before and behind. */
Test(fs_data, direct_write_across_the_end_of_which_the_first_part_fails)
{
	struct fuse_write_in in = { .fh = fh, .size = 4096, .flags = O_RDWR | O_DIRECT };

	made_longer(6000, 9000);
	expect((struct step){ NFS_OP_WRITE, 0, 4096, .rc = -ENOSPC });
	expect_write(4096, 4096, 4096, true, 1);
	request_with(FUSE_WRITE, &in, sizeof(in), 0, 4096);
	in.offset = 4096;
	request_with(FUSE_WRITE, &in, sizeof(in), 4096, 4096);
	lane_play_serve();
	cr_assert_eq(set_size(6000), -ESTALE);
	made_longer(6000, 9000);
	expect_write(4096, 4096, 4096, true, 1);
	ask_write_as(4096, 4096, O_RDWR | O_DIRECT, 0);
	fails_direct(0);
	cr_assert_eq(set_size(6000), -ESTALE);
	cr_assert_eq(set_size(6000), 0);
}

/* The kernel makes EIO of a part of a direct write, and rolls it back: so the error is better. */
Test(fs_data, direct_write_that_is_stored_in_part)
{
	made_longer(1000, 5000);
	expect_write(0, 4096, 3000, true, 1);
	expect((struct step){ NFS_OP_WRITE, 3000, 1096, .rc = -ENOSPC });
	ask_write_as(0, 4096, O_RDWR | O_DIRECT, 0);
	cr_assert_eq(answer.error, -ENOSPC);
	cr_assert_eq(set_size(1000), -ESTALE);
}

/* The kernel throws pages away when the mtime is another one than it knows. */
Test(fs_data, mtime_differs_after_a_direct_write)
{
	srv.attr.mtime = (struct timespec){ 1000, 500 };
	cr_assert_eq(told_mtime(), 500);
	read_cached(0);
	write_direct(0);
	cr_assert_eq(told_mtime(), 501, "the server's clock has not moved");
	cr_assert_eq(told_mtime(), 501, "nothing happened");
	write_direct(0);
	write_direct(0);
	cr_assert_eq(told_mtime(), 502);
	write_direct(0);
	srv.attr.mtime.tv_nsec = 4000;
	cr_assert_eq(told_mtime(), 4000, "it has moved");
	cr_assert_eq(told_mtime(), 4000);
	write_direct(0);
	srv.attr.mtime.tv_nsec = 999999999;
	cr_assert_eq(told_mtime(), 999999999);
	write_direct(0);
	cr_assert_eq(told_mtime(), 0, "the next second");
}

Test(fs_data, mtime_that_was_set)
{
	struct fuse_setattr_in in = { .valid = FATTR_MTIME, .mtime = 1000, .mtimensec = 500 };
	struct fuse_attr_out out;

	srv.attr.mtime = (struct timespec){ 1000, 500 };
	told_mtime();
	read_cached(0);
	write_direct(0);
	cr_assert_eq(told_mtime(), 501);
	ask(FUSE_SETATTR, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0);
	memcpy(&out, answer.data, sizeof(out));
	cr_assert_eq(out.attr.mtimensec, 500);
	cr_assert_eq(told_mtime(), 500);
}

/* The last close has let the pages be: the next open drops them, or keeps them. */
Test(fs_data, pages_of_earlier_opens)
{
	read_cached(0);
	close_file(fh);
	fh = open_file(O_RDWR).fh;
	write_direct(0);
	cr_assert_eq(notice.count, 1, "kept, as the file is the same");
	close_file(fh);
	srv.attr.change++;
	fh = open_file(O_RDWR).fh;
	notice.count = 0;               /* of the open, whose attributes are others */
	write_direct(0);
	cr_assert_eq(notice.count, 0, "dropped");
}

/* ---- opens that only write: their writes go past the pages, if the kernel drops these ---- */

static uint64_t past;                   /* such an open, older than fh; 0: none */

static void setup_past(void)
{
	fs_play_minor = 39;
	setup();
	close_file(fh);
	past = open_file(O_WRONLY).fh;
	fh = open_file(O_RDWR).fh;
	notice.count = 0;
}

static void close_past(void)
{
	if (past)
		close_file(past);
	past = 0;
}

static void teardown_past(void)
{
	close_past();
	teardown();
}

static void setup_past_behind(void)
{
	fs.cfg.vfs.write_behind = 60;
	setup_past();
}

TestSuite(fs_data_past, .init = setup_past, .fini = teardown_past, .timeout = 300);
TestSuite(fs_data_past_behind, .init = setup_past_behind, .fini = teardown_past, .timeout = 300);

/* The file's only open. */
static bool is_past(uint32_t flags)
{
	struct fuse_open_out out;

	close_past();
	close_file(fh);
	out = open_file(flags);
	fh = out.fh;
	return out.open_flags & FOPEN_DIRECT_IO;
}

Test(fs_data_past, which_opens)
{
	cr_assert(is_past(O_WRONLY));
	cr_assert(is_past(O_WRONLY | O_SYNC));
	cr_assert_not(is_past(O_RDWR));
	cr_assert_not(is_past(O_RDONLY));
	cr_assert_not(is_past(O_WRONLY | O_APPEND), "a log");
	cr_assert_not(is_past(O_WRONLY | O_DIRECT), "the kernel does it by itself");
}

/* LMDB maps its file by one open, and writes the pages that say what is valid through another. A
 * page that a mapping brings back during such a write would stay as it was. */
Test(fs_data_past, not_beside_another_open)
{
	struct fuse_open_out out;

	close_past();
	out = open_file(O_WRONLY | O_DSYNC);
	cr_assert_not(out.open_flags & FOPEN_DIRECT_IO);
	close_file(out.fh);
	cr_assert(is_past(O_WRONLY | O_DSYNC));
}

Test(fs_data, an_older_kernel_does_not_drop_pages)
{
	cr_assert_not(is_past(O_WRONLY));
}

/* Through an open that only writes. The kernel forgets the mtime by itself. */
static void write_past(uint32_t write_flags)
{
	uint64_t was = fh;

	fh = past;
	ask_write_as(0, 4096, O_WRONLY, write_flags);
	expect_written(4096);
	cr_assert_eq(notice.count, 0);
	fh = was;
}

/* Will the next answer make the kernel drop its pages? */
static bool is_outdated(void)
{
	return atomic_load(&believed_of(fs.root)->outdated);
}

/* Somebody else may have read a page before the server had the new bytes. */
Test(fs_data_past, pages_of_others)
{
	expect_write(0, 4096, 4096, true, 1);
	write_past(0);
	cr_assert_not(is_outdated(), "there is no page");
	read_cached(8192);
	expect_write(0, 4096, 4096, true, 1);
	write_past(0);
	cr_assert(is_outdated());
}

/* The same when the server does not have the bytes yet. */
Test(fs_data_past_behind, pages_of_others)
{
	struct fuse_flush_in in = { .fh = fh };

	write_past(0);
	cr_assert_not(is_outdated(), "there is no page");
	expect_write(0, 4096, 4096, true, 1);
	ask(FUSE_FLUSH, &in, sizeof(in));
	read_cached(8192);
	write_past(0);
	cr_assert(is_outdated());
	expect_write(0, 4096, 4096, true, 1);
	ask(FUSE_FLUSH, &in, sizeof(in));
	lane_play_run(5);
	behind_tick(&fl->vl, mono_ns());  /* the lane looks after the file no more */
}

/* close() of a file with a delegation to write, if the option says so: the data follows. fsync() waits for it. */
Test(fs_data_past_behind, close_under_a_delegation)
{
	struct fuse_flush_in in = { .fh = fh };
	struct fuse_fsync_in sync = { .fh = fh };

	/* The option is not there; the delegation is not to write. */
	atomic_store(&fs.root->file.delegation, 1 | NFS_DELEGATION_WRITES);
	write_past(0);
	expect_write(0, 4096, 4096, true, 1);
	ask(FUSE_FLUSH, &in, sizeof(in));
	lane_play_run(1);
	fs.cfg.late_data = true;
	atomic_store(&fs.root->file.delegation, 1);
	write_past(0);
	expect_write(0, 4096, 4096, true, 1);
	ask(FUSE_FLUSH, &in, sizeof(in));
	lane_play_run(1);
	atomic_store(&fs.root->file.delegation, 1 | NFS_DELEGATION_WRITES);
	write_past(0);
	ask(FUSE_FLUSH, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0);
	cr_assert(behind_holds(fs.root));
	expect_write(0, 4096, 4096, true, 1);
	ask(FUSE_FSYNC, &sync, sizeof(sync));
	lane_play_run(1);
	cr_assert(answer.count == 1 && answer.error == 0 && !behind_holds(fs.root));
	atomic_store(&fs.root->file.delegation, 0);
	lane_play_run(5);
	behind_tick(&fl->vl, mono_ns());
}

/* A mapping's pages may be written back through any open that can write. */
Test(fs_data_past, written_back_is_not_past_pages)
{
	read_cached(0);
	expect_write(0, 4096, 4096, true, 1);
	write_past(FUSE_WRITE_CACHE);
	cr_assert_not(is_outdated());
}

/* ---- set-id bits, which the server clears when the file is written ---- */

static void close_written(uint32_t flags)
{
	struct fuse_flush_in in;

	close_file(fh);
	fh = open_file(flags).fh;
	in = (struct fuse_flush_in){ .fh = fh };
	expect_write(0, 4096, 4096, true, 1);
	ask_write_as(0, 4096, flags, 0);
	expect_written(4096);
	notice.count = 0;
	ask(FUSE_FLUSH, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0);
}

/* After write() the kernel asks for size and times only before it uses them, and execve() uses
 * neither. */
Test(fs_data, the_kernel_forgets_set_id_bits)
{
	close_written(O_RDWR);
	cr_assert_eq(notice.count, 0, "there are none");
	srv.attr.mode = S_IFREG | S_ISUID | 0775;
	close_written(O_WRONLY);
	cr_assert_eq(notice.count, 1);
	cr_assert_eq(notice.answers, 0, "before close() returns");
	srv.attr.mode = S_IFREG | S_ISGID | 0775;
	fs_play_tell(fs.root);
	close_written(O_RDWR);
	cr_assert_eq(notice.count, 1);
}

/* What libfuse does not say, or says otherwise. A small wsize is not to make READs small. */
Test(fs_data_init, the_answer_to_init)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };
	const struct fuse_init_out *out = (const void *)answer.data;

	lane_play_wsize = 65536;
	srv.attr = (struct nfs_attr){ .mode = S_IFREG | 0644 };
	fs_play_start(&version, &root, &srv.attr);
	cr_assert_eq(out->max_write, 65536);
	cr_assert_eq(out->max_pages, VFS_IO_MAX / (unsigned)getpagesize());
	cr_assert(out->flags & FUSE_HANDLE_KILLPRIV);
	fs_play_end();
}

/* A kernel that may make larger requests (fs.fuse.max_pages_limit) would need more memory under
 * its device's read than there is. */
Test(fs_data_init, requests_are_of_a_mib)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };
	const struct fuse_init_out *out = (const void *)answer.data;

	lane_play_rsize = lane_play_wsize = 4u << 20;
	srv.attr = (struct nfs_attr){ .mode = S_IFREG | 0644 };
	fs_play_start(&version, &root, &srv.attr);
	cr_assert_eq(out->max_write, 1u << 20);
	cr_assert_eq(out->max_pages, (1u << 20) / (unsigned)getpagesize());
	cr_assert_leq(sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in) + out->max_write,
		      FS_HEAD_BYTES + ARENA_MID_SIZE + ARENA_BIG_SIZE);
	fs_play_end();
}
