/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File data is not copied, on the whole way to the server and back, without a kernel and
 * without a server (fs_play.h). The test reads the transport headers from the fake fabric,
 * and the answer to FUSE from the iovec that would go to the device.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "buffers.h"
#include "fs_play.h"

static struct fs_file *file;

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "file" };
	static const struct nfs_attr attr = { .mode = S_IFREG | 0644, .size = 1 << 30 };

	fs_play_start(&nfs_v3, &root, &attr);
	file = fs_play_file();
}

static void teardown(void)
{
	fs_play_end();
	free(file);
}

/* ---- READ ---- */

static void ask_read(uint64_t off, uint32_t size)
{
	struct fuse_read_in in = { .fh = file->handle, .offset = off, .size = size };

	fs_play_ask(FUSE_READ, FUSE_ROOT_ID, &in, sizeof(in));
}

static void read_is_not_copied(uint64_t off, uint32_t size)
{
	unsigned s = fake.nsends;
	uint64_t addr;
	uint32_t xid;

	ask_read(off, size);
	cr_assert_eq(fake.nsends, s + 1, "one RPC");
	xid = sent_word(s, 0);
	cr_assert(sent_word(s, 5) == 1 && sent_word(s, 6) == 1, "one Write chunk of one segment");
	cr_assert_eq(sent_word(s, 8), size);
	addr = sent_address(s, 9);

	/* The server places the data and says how much. */
	memset((void *)(uintptr_t)addr, 0x5a, size);
	REPLY_WORDS(xid, 1, 16, 0,
		    0, 1, 1, sent_word(s, 7), size, sent_word(s, 9), sent_word(s, 10), 0, 0,
		    xid, 1, 0, 0, 0, 0,         /* accepted */
		    0, 0, size, 0, size);       /* OK, no attributes, count, eof, length */
	cr_assert(answer.count == 1 && answer.error == 0);
	cr_assert_eq(answer.len, size);
	cr_assert_eq((uint64_t)(uintptr_t)answer.at, addr,
		     "what the server wrote to is what FUSE gets");
	cr_assert_eq(stat_get(&lane.stats, STAT_READ_COPIED_BYTES), 0);
}

Test(zerocopy, read, .init = setup, .fini = teardown)
{
	static const uint64_t offs[] = { 0, 1, 4095, 4096, 65537, 4294967295, 4294967296 };
	static const uint32_t sizes[] = { 4096, 5000, 65535, 65536, 77777, 1048575, 1048576 };

	for (unsigned o = 0; o < 7; o++)
		for (unsigned s = 0; s < 7; s++)
			read_is_not_copied(offs[o], sizes[s]);
	cr_assert_eq(buffers_free(&lane.mag, ARENA_MID), 6, "every buffer is back");
	cr_assert_eq(buffers_free(&lane.mag, ARENA_BIG), 3);
}

/* Small data comes in the reply message, and goes on from there. */
Test(zerocopy, small_read_from_the_message, .init = setup, .fini = teardown)
{
	uint32_t xid;

	ask_read(0, 8);
	xid = sent_word(0, 0);
	cr_assert_eq(sent_word(0, 5), 0, "no chunk");
	REPLY_WORDS(xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0,
		    0, 0, 8, 1, 8, 0x61626364, 0x65666768);
	cr_assert(answer.count == 1 && answer.error == 0 && answer.len == 8);
	cr_assert(memcmp(answer.at, "abcdefgh", 8) == 0);
	cr_assert_eq(stat_get(&lane.stats, STAT_READ_COPIED_BYTES), 0);
}

/* A server that gives less than was asked, and not the end: the rest follows
 * into the same buffer. */
Test(zerocopy, short_read_goes_on, .init = setup, .fini = teardown)
{
	uint64_t addr;
	uint32_t xid;

	ask_read(0, 65536);
	xid = sent_word(0, 0);
	addr = sent_address(0, 9);
	REPLY_WORDS(xid, 1, 16, 0,
		    0, 1, 1, sent_word(0, 7), 4096, sent_word(0, 9), sent_word(0, 10), 0, 0,
		    xid, 1, 0, 0, 0, 0, 0, 0, 4096, 0, 4096);
	cr_assert_eq(answer.count, 0);
	cr_assert_eq(fake.nsends, 2);
	cr_assert_eq(sent_address(1, 9), addr + 4096);
	cr_assert_eq(sent_word(1, 8), 65536 - 4096);
	xid = sent_word(1, 0);
	REPLY_WORDS(xid, 1, 16, 0,
		    0, 1, 1, sent_word(1, 7), 100, sent_word(1, 9), sent_word(1, 10), 0, 0,
		    xid, 1, 0, 0, 0, 0, 0, 0, 100, 1, 100);
	cr_assert(answer.count == 1 && answer.len == 4196);
	cr_assert_eq((uint64_t)(uintptr_t)answer.at, addr);
	cr_assert_eq(stat_get(&lane.stats, STAT_READ_COPIED_BYTES), 0);
}

/* ---- WRITE ---- */

static void ask_write_as(uint64_t off, uint32_t size, uint32_t flags)
{
	struct fuse_write_in in = {
		.fh = file->handle, .offset = off, .size = size, .write_flags = flags,
	};
	struct fuse_in_header h = fs_play_header(FUSE_WRITE, FUSE_ROOT_ID, sizeof(in) + size);

	fs_play_request(&h, &in, sizeof(in));
}

static void ask_write(uint64_t off, uint32_t size)
{
	ask_write_as(off, size, 0);
}

static void write_is_not_copied(uint64_t off, uint32_t size)
{
	char *mid = fs_play_dev.mid->mem, *big = fs_play_dev.big->mem;
	uint32_t first = (uint32_t)ARENA_MID_SIZE, s = fake.nsends;
	bool two = size > first;

	ask_write(off, size);
	cr_assert_eq(fake.nsends, s + 1, "one RPC");
	cr_assert_eq(sent_word(s, 4), 1, "a Read chunk");
	cr_assert_eq(sent_word(s, 7), two ? first : size);
	cr_assert_eq(sent_address(s, 8), (uintptr_t)mid, "where FUSE's headers are not");
	if (two) {
		cr_assert(sent_word(s, 10) == 1 && sent_word(s, 11) == sent_word(s, 5), "the same Position");
		cr_assert_eq(sent_word(s, 13), size - first);
		cr_assert_eq(sent_address(s, 14), (uintptr_t)big);
	}
	cr_assert_eq(sent_word(s, two ? 16 : 10), 0, "no more segments");
	cr_assert_null(fs_play_dev.mid, "the request has the buffers now");
	cr_assert_eq(fs_play_dev.big == NULL, two);
	reply_write3(s, size);
	cr_assert(answer.count == 1 && answer.error == 0);
	cr_assert_eq(stat_get(&lane.stats, STAT_WRITE_COPIED_BYTES), 0);
	fs_play_buffers();
}

Test(zerocopy, write, .init = setup, .fini = teardown)
{
	static const uint64_t offs[] = { 0, 1, 4095, 65537, 4294967296 };
	static const uint32_t sizes[] = { 4096, 5001, 65535, 65536, 65537, 77777, 1048576 };

	for (unsigned o = 0; o < 5; o++)
		for (unsigned s = 0; s < 7; s++)
			write_is_not_copied(offs[o], sizes[s]);
	cr_assert_eq(buffers_free(&lane.mag, ARENA_MID), 6, "every buffer is back");
	cr_assert_eq(buffers_free(&lane.mag, ARENA_BIG), 3);
}

/* A server that writes a part: the rest is sent from where it lies. */
Test(zerocopy, short_write_goes_on, .init = setup, .fini = teardown)
{
	char *big = fs_play_dev.big->mem;

	ask_write(1000, 200000);
	reply_write3(0, 100000);
	cr_assert_eq(answer.count, 0);
	cr_assert_eq(fake.nsends, 2);
	cr_assert_eq(sent_word(1, 7), 100000, "one piece is left, in the tail");
	cr_assert_eq(sent_address(1, 8), (uintptr_t)big + 100000 - ARENA_MID_SIZE);
	reply_write3(1, 100000);
	cr_assert(answer.count == 1 && answer.error == 0);
}

Test(zerocopy, write_error, .init = setup, .fini = teardown)
{
	uint32_t xid;

	ask_write(0, 100000);
	xid = sent_word(0, 0);
	REPLY_WORDS(xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 28, 0, 0);
	cr_assert(answer.count == 1 && answer.error == -ENOSPC);
	cr_assert_eq(buffers_free(&lane.mag, ARENA_MID), 7);
}

/* Half of it is written, then there is no room: write() hears of the half. The
 * write-back of mapped pages would take that for all. */
static void half_written(uint32_t flags)
{
	uint32_t xid;

	ask_write_as(0, 100000, flags);
	reply_write3(0, 50000);
	cr_assert_eq(answer.count, 0);
	xid = sent_word(1, 0);
	REPLY_WORDS(xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 28, 0, 0);
	cr_assert_eq(answer.count, 1);
}

Test(zerocopy, half_written, .init = setup, .fini = teardown)
{
	half_written(0);
	cr_assert(answer.error == 0 && answer.len == sizeof(struct fuse_write_out));
	cr_assert_eq(((const struct fuse_write_out *)(const void *)answer.data)->size, 50000);
}

Test(zerocopy, half_written_back, .init = setup, .fini = teardown)
{
	half_written(FUSE_WRITE_CACHE);
	cr_assert_eq(answer.error, -ENOSPC);
}
