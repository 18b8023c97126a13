/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File data is not copied: the whole way down and up, without a kernel and
 * without a server (fs_play.h). The transport's headers come out of the made-up
 * fabric; the reply to FUSE is caught as the iovec that would go to writev().
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "buffers.h"
#include "fs_play.h"

static struct file *file;

static struct fuse_in_header header(uint32_t opcode, size_t body)
{
	return fs_play_header(opcode, FUSE_ROOT_ID, body);
}

static void ask(struct fuse_in_header h, const void *body, size_t len)
{
	fs_play_request(&h, body, len);
}

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

/* ---- what the server does ---- */

static uint32_t word(unsigned send, unsigned i)
{
	uint32_t v;

	memcpy(&v, fake.sends[send].bytes + 4 * i, 4);
	return ntohl(v);
}

static uint64_t address(unsigned send, unsigned i)
{
	return (uint64_t)word(send, i) << 32 | word(send, i + 1);
}

static void reply(const uint32_t *w, unsigned n)
{
	uint32_t wire[64];

	for (unsigned i = 0; i < n; i++)
		wire[i] = htonl(w[i]);
	fake_complete(fake.nsends - 1);
	fake_deliver(wire, n * 4);
}

/* ---- READ ---- */

static void ask_read(uint64_t off, uint32_t size)
{
	struct fuse_read_in in = { .fh = file->handle, .offset = off, .size = size };

	ask(header(FUSE_READ, sizeof(in)), &in, sizeof(in));
}

static void read_is_not_copied(uint64_t off, uint32_t size)
{
	unsigned s = fake.nsends;
	uint64_t addr;
	uint32_t xid;

	ask_read(off, size);
	cr_assert_eq(fake.nsends, s + 1, "one RPC");
	xid = word(s, 0);
	cr_assert(word(s, 5) == 1 && word(s, 6) == 1, "one Write chunk of one segment");
	cr_assert_eq(word(s, 8), size);
	addr = address(s, 9);

	/* The server places the data and says how much. */
	memset((void *)(uintptr_t)addr, 0x5a, size);
	reply((uint32_t[]){ xid, 1, 16, 0, 0, 1, 1, word(s, 7), size, word(s, 9), word(s, 10), 0, 0,
			    xid, 1, 0, 0, 0, 0,         /* accepted */
			    0, 0, size, 0, size }, 24); /* OK, no attributes, count, eof, length */
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
	xid = word(0, 0);
	cr_assert_eq(word(0, 5), 0, "no chunk");
	reply((uint32_t[]){ xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0,
			    0, 0, 8, 1, 8, 0x61626364, 0x65666768 }, 20);
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
	xid = word(0, 0);
	addr = address(0, 9);
	reply((uint32_t[]){ xid, 1, 16, 0, 0, 1, 1, word(0, 7), 4096, word(0, 9), word(0, 10), 0, 0,
			    xid, 1, 0, 0, 0, 0, 0, 0, 4096, 0, 4096 }, 24);
	cr_assert_eq(answer.count, 0);
	cr_assert_eq(fake.nsends, 2);
	cr_assert_eq(address(1, 9), addr + 4096);
	cr_assert_eq(word(1, 8), 65536 - 4096);
	xid = word(1, 0);
	reply((uint32_t[]){ xid, 1, 16, 0, 0, 1, 1, word(1, 7), 100, word(1, 9), word(1, 10), 0, 0,
			    xid, 1, 0, 0, 0, 0, 0, 0, 100, 1, 100 }, 24);
	cr_assert(answer.count == 1 && answer.len == 4196);
	cr_assert_eq((uint64_t)(uintptr_t)answer.at, addr);
	cr_assert_eq(stat_get(&lane.stats, STAT_READ_COPIED_BYTES), 0);
}

/* ---- WRITE ---- */

static void ask_write(uint64_t off, uint32_t size)
{
	struct fuse_write_in in = { .fh = file->handle, .offset = off, .size = size };

	ask(header(FUSE_WRITE, sizeof(in) + size), &in, sizeof(in));
}

static void reply_write(unsigned s, uint32_t count)
{
	uint32_t xid = word(s, 0);

	reply((uint32_t[]){ xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0,
			    0, 0, 0, count, 2, 7, 7 }, 20);
}

static void write_is_not_copied(uint64_t off, uint32_t size)
{
	char *mid = fs_play_dev.mid->mem, *big = fs_play_dev.big->mem;
	uint32_t first = (uint32_t)ARENA_MID_SIZE, s = fake.nsends;
	bool two = size > first;

	ask_write(off, size);
	cr_assert_eq(fake.nsends, s + 1, "one RPC");
	cr_assert_eq(word(s, 4), 1, "a Read chunk");
	cr_assert_eq(word(s, 7), two ? first : size);
	cr_assert_eq(address(s, 8), (uintptr_t)mid, "where FUSE's headers are not");
	if (two) {
		cr_assert(word(s, 10) == 1 && word(s, 11) == word(s, 5), "the same Position");
		cr_assert_eq(word(s, 13), size - first);
		cr_assert_eq(address(s, 14), (uintptr_t)big);
	}
	cr_assert_eq(word(s, two ? 16 : 10), 0, "no more segments");
	cr_assert_null(fs_play_dev.mid, "the request has the buffers now");
	cr_assert_eq(fs_play_dev.big == NULL, two);
	reply_write(s, size);
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
	reply_write(0, 100000);
	cr_assert_eq(answer.count, 0);
	cr_assert_eq(fake.nsends, 2);
	cr_assert_eq(word(1, 7), 100000, "one piece is left, in the tail");
	cr_assert_eq(address(1, 8), (uintptr_t)big + 100000 - ARENA_MID_SIZE);
	reply_write(1, 100000);
	cr_assert(answer.count == 1 && answer.error == 0);
}

Test(zerocopy, write_error, .init = setup, .fini = teardown)
{
	uint32_t xid;

	ask_write(0, 100000);
	xid = word(0, 0);
	reply((uint32_t[]){ xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 28, 0, 0 }, 16);
	cr_assert(answer.count == 1 && answer.error == -ENOSPC);
	cr_assert_eq(buffers_free(&lane.mag, ARENA_MID), 7);
}

/* Half of it is written, then there is no room: write() hears of the half. The
 * write-back of mapped pages would take that for all. */
static void half_written(uint32_t flags)
{
	struct fuse_write_in in = {
		.fh = file->handle, .size = 100000, .write_flags = flags,
	};
	uint32_t xid;

	ask(header(FUSE_WRITE, sizeof(in) + in.size), &in, sizeof(in));
	reply_write(0, 50000);
	cr_assert_eq(answer.count, 0);
	xid = word(1, 0);
	reply((uint32_t[]){ xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 28, 0, 0 }, 16);
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

/* ---- requests that do not fit the first buffer, and are not WRITEs ---- */

#define FORGETS 8000u

/* Dropping the kernel's caches makes one request of all that it forgets. */
Test(zerocopy, thousands_of_forgets, .init = setup, .fini = teardown)
{
	static struct {
		struct fuse_in_header h;
		struct fuse_batch_forget_in in;
		struct fuse_forget_one one[FORGETS];
	} msg;
	struct nfs_attr attr = { .mode = S_IFREG | 0644 };
	int kernel;

	cr_assert(sizeof(msg) > FS_HEAD_BYTES + fs_play_dev.mid->size);
	for (uint32_t i = 0; i < FORGETS; i++) {
		struct nfs_fh fh = { .len = 8 };
		struct inode *ino;

		memcpy(fh.data, &i, sizeof(i));
		ino = inode_get(&fs.inodes, &fh, &attr, 0, NULL, 0);
		inode_known(ino);
		msg.one[i].nodeid = ino->id;
		msg.one[i].nlookup = 1;
	}
	msg.in.count = FORGETS;
	msg.h = header(FUSE_BATCH_FORGET, sizeof(msg) - sizeof(msg.h));
	cr_assert_eq(atomic_load(&fs.inodes.count), FORGETS + 1);

	kernel = fs_play_attach();
	cr_assert_eq(send(kernel, &msg, sizeof(msg), 0), (ssize_t)sizeof(msg));
	for (int i = 0; i < 1000 && atomic_load(&fs.inodes.count) > 1; i++)
		fs_play_run(10);
	cr_expect_eq(atomic_load(&fs.inodes.count), 1);
	cr_expect_eq(stat_get(&lane.stats, STAT_FUSE_FORGETS), FORGETS);
	fs_play_detach();
}

/* ---- numbers that the kernel was never told, or has given back ---- */

static int error_of(uint32_t opcode, uint64_t node, const void *body, size_t len)
{
	struct fuse_in_header h = header(opcode, len);
	unsigned sends = fake.nsends;

	h.nodeid = node;
	ask(h, body, len);
	cr_assert_eq(answer.count, opcode != FUSE_FORGET, "one answer to opcode %u", opcode);
	cr_assert_eq(fake.nsends, sends, "nothing for the server");
	return answer.error;
}

static int stale(uint64_t node)
{
	static const char two_names[] = "a\0b";
	const struct { struct fuse_rename2_in in; char names[4]; } rename = {
		{ .newdir = node }, { 'a', 0, 'b', 0 }
	};
	const struct { struct fuse_link_in in; char name[4]; } link = {
		{ .oldnodeid = FUSE_ROOT_ID }, "a"
	};
	const struct { struct fuse_mkdir_in in; char name[4]; } mkdir = { { 0 }, "a" };
	static const char zeros[256];
	int err = error_of(FUSE_GETATTR, node, zeros, sizeof(struct fuse_getattr_in));

	cr_assert_eq(error_of(FUSE_LOOKUP, node, two_names, 2), err);
	cr_assert_eq(error_of(FUSE_SETATTR, node, zeros, sizeof(struct fuse_setattr_in)), err);
	cr_assert_eq(error_of(FUSE_READLINK, node, zeros, 0), err);
	cr_assert_eq(error_of(FUSE_MKDIR, node, &mkdir, sizeof(mkdir)), err);
	cr_assert_eq(error_of(FUSE_UNLINK, node, two_names, 2), err);
	cr_assert_eq(error_of(FUSE_RMDIR, node, two_names, 2), err);
	cr_assert_eq(error_of(FUSE_SYMLINK, node, two_names, sizeof(two_names)), err);
	cr_assert_eq(error_of(FUSE_RENAME2, node, &rename, sizeof(rename)), err);
	cr_assert_eq(error_of(FUSE_RENAME2, FUSE_ROOT_ID, &rename, sizeof(rename)), err);
	cr_assert_eq(error_of(FUSE_LINK, node, &link, sizeof(link)), err);
	cr_assert_eq(error_of(FUSE_OPEN, node, zeros, sizeof(struct fuse_open_in)), err);
	cr_assert_eq(error_of(FUSE_OPENDIR, node, zeros, sizeof(struct fuse_open_in)), err);
	cr_assert_eq(error_of(FUSE_STATFS, node, zeros, 0), err);
	return err;
}

Test(zerocopy, no_such_node, .init = setup, .fini = teardown)
{
	struct nfs_attr attr = { .mode = S_IFREG | 0644 };
	struct nfs_fh fh = { .len = 4, .data = "next" };
	struct fuse_forget_in forget = { .nlookup = 3 };
	struct inode *ino = inode_get(&fs.inodes, &fh, &attr, 0, NULL, 0);
	uint64_t id = ino->id;

	cr_assert_eq(stale(id + 1), -ESTALE);
	cr_assert_eq(stale(id ^ 1ull << 40), -ESTALE);
	cr_assert_eq(stale((uintptr_t)ino), -ESTALE, "no addresses");
	cr_assert_eq(stale((uintptr_t)&fs), -ESTALE);
	/* An open file has it; the kernel gives back more than it was given. */
	inode_known(ino);
	inode_ref(ino);
	error_of(FUSE_FORGET, id, &forget, sizeof(forget));
	error_of(FUSE_FORGET, id, &forget, sizeof(forget));
	cr_assert_eq(atomic_load(&ino->refs), 1);
	inode_put(&fs.inodes, ino, 1);
	cr_assert_eq(stale(id), -ESTALE, "it is gone");
	error_of(FUSE_FORGET, id, &forget, sizeof(forget));
	error_of(FUSE_FORGET, 0x4141414141414141, &forget, sizeof(forget));
	error_of(FUSE_FORGET, FUSE_ROOT_ID, &forget, sizeof(forget));
	cr_assert_eq(atomic_load(&fs.inodes.count), 1);
}

static void no_such_file(uint64_t fh, int err)
{
	struct fuse_read_in read = { .fh = fh, .size = 4096 };
	struct fuse_write_in write = { .fh = fh, .size = 4096 };
	struct fuse_release_in release = { .fh = fh };
	struct fuse_setattr_in size = { .valid = FATTR_SIZE | FATTR_FH, .fh = fh };
	struct fuse_in_header h;

	cr_assert_eq(error_of(FUSE_READ, FUSE_ROOT_ID, &read, sizeof(read)), err);
	h = header(FUSE_WRITE, sizeof(write) + write.size);
	ask(h, &write, sizeof(write));
	cr_assert(answer.count == 1 && answer.error == err && fake.nsends == 0);
	cr_assert_not_null(fs_play_dev.mid, "nobody has its data");
	cr_assert_eq(error_of(FUSE_SETATTR, FUSE_ROOT_ID, &size, sizeof(size)), err);
	cr_assert_eq(error_of(FUSE_RELEASE, FUSE_ROOT_ID, &release, sizeof(release)), err);
	cr_assert_eq(error_of(FUSE_READDIR, FUSE_ROOT_ID, &read, sizeof(read)), err);
	cr_assert_eq(error_of(FUSE_READDIRPLUS, FUSE_ROOT_ID, &read, sizeof(read)), err);
	cr_assert_eq(error_of(FUSE_RELEASEDIR, FUSE_ROOT_ID, &release, sizeof(release)), err);
}

Test(zerocopy, no_such_file, .init = setup, .fini = teardown)
{
	no_such_file(file->handle + 1, -EBADF);
	no_such_file(file->handle ^ 1ull << 63, -EBADF);
	no_such_file((uintptr_t)file, -EBADF);
	no_such_file(0, -EBADF);
	cr_assert_eq(handle_del(&fs.files, file->handle), file);
	no_such_file(file->handle, -EBADF);
	cr_assert_eq(atomic_load(&file->refs), 1);
}

/* ---- a lane without receive buffers ---- */

static void feed(int fd, struct fuse_in_header h, const void *body, size_t len, size_t data)
{
	static char msg[ARENA_BIG_SIZE];

	memcpy(msg, &h, sizeof(h));
	memcpy(msg + sizeof(h), body, len);
	for (size_t i = 0; i < data; i++)
		msg[sizeof(h) + len + i] = (char)(i * 7);
	cr_assert_eq(send(fd, msg, h.len, 0), (ssize_t)h.len);
}

/* All buffers are with a server that does not answer: what is not data gets
 * through, and a WRITE waits for a buffer and is what it was. */
Test(zerocopy, starved, .init = setup, .fini = teardown)
{
	struct fuse_write_in in = { .fh = file->handle, .size = 100000 };
	int kernel;
	struct arena_buf *held[16];
	unsigned nheld = 0;

	for (unsigned c = ARENA_MID; c <= ARENA_BIG; c++)
		while ((held[nheld] = magazine_get(&lane.mag, c)))
			nheld++;
	held[nheld++] = fs_play_dev.mid;
	held[nheld++] = fs_play_dev.big;
	fs_play_dev.mid = fs_play_dev.big = NULL;
	kernel = fs_play_attach();
	feed(kernel, header(FUSE_WRITE, sizeof(in) + in.size), &in, sizeof(in), in.size);
	feed(kernel, header(FUSE_GETATTR, sizeof(struct fuse_getattr_in)), &(struct fuse_getattr_in){ 0 },
	     sizeof(struct fuse_getattr_in), 0);
	fs_play_run(1500);
	cr_assert_eq(fake.nsends, 1);
	cr_assert_eq(word(0, 12), 1, "GETATTR, and WRITE is not before it");
	cr_assert_eq(fl->dev->state, FS_DEV_PARKING);
	while (nheld)
		magazine_put(&lane.mag, held[--nheld]);
	reply((uint32_t[]){ word(0, 0), 1, 16, 0, 0, 0, 0, word(0, 0), 1, 0, 0, 0, 0, 70 }, 14);
	cr_assert_eq(fake.nsends, 2);
	cr_assert_eq(fl->dev->state, FS_DEV_READING);
	cr_assert_eq(word(1, 7) + word(1, 13), in.size, "two pieces");
	for (uint32_t i = 0; i < in.size; i++) {
		const char *piece = (const char *)(uintptr_t)(i < word(1, 7) ? address(1, 8) : address(1, 14));

		cr_assert_eq(piece[i < word(1, 7) ? i : i - word(1, 7)], (char)(i * 7));
	}
	cr_assert_eq(stat_get(&lane.stats, STAT_WRITE_COPIED_BYTES), in.size);
	answer.count = 0;
	reply_write(1, in.size);
	cr_assert(answer.count == 1 && answer.error == 0);
	fs_play_detach();
}
