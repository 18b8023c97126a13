/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File data is not copied: the whole way down and up, without a kernel and
 * without a server. FUSE requests are made by hand and given to libfuse; the
 * transport's headers come out of the made-up fabric; the reply to FUSE is
 * caught as the iovec that would go to writev().
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "buffers.h"
#include "fake_fabric.h"
#include "fs/fs_impl.h"
#include "nfs/internal.h"

static struct nfs_client cl;
static struct nfs_control ctl;
static struct nfs_lane lane;
static struct fs fs;
static struct fs_lane *fl;
static struct file *file;

/* ---- what FUSE gets ---- */

static struct {
	unsigned count;
	int error;
	const void *data;
	size_t len;
	uint32_t word;          /* the data's first */
} answer;

static ssize_t catch_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct fuse_out_header *h = iov[0].iov_base;
	ssize_t total = 0;

	(void)fd;
	(void)userdata;
	answer.count++;
	answer.error = h->error;
	answer.data = count > 1 ? iov[1].iov_base : NULL;
	answer.len = count > 1 ? iov[1].iov_len : 0;
	if (answer.len >= sizeof(answer.word))
		memcpy(&answer.word, answer.data, sizeof(answer.word));
	for (int i = 0; i < count; i++)
		total += (ssize_t)iov[i].iov_len;
	return total;
}

static ssize_t no_read(int fd, void *buf, size_t len, void *userdata)
{
	(void)fd;
	(void)buf;
	(void)len;
	(void)userdata;
	return -1;
}

/* ---- what FUSE asks ---- */

static uint64_t unique = 1;

static struct fuse_in_header header(uint32_t opcode, size_t body)
{
	return (struct fuse_in_header){
		.len = (uint32_t)(sizeof(struct fuse_in_header) + body), .opcode = opcode,
		.unique = unique++, .nodeid = FUSE_ROOT_ID,
	};
}

static void ask(struct fuse_in_header h, const void *body, size_t len)
{
	struct fuse_buf buf = { .mem = fl->rx.head, .size = h.len };

	memcpy(buf.mem, &h, sizeof(h));
	memcpy((char *)buf.mem + sizeof(h), body, len);
	answer.count = 0;
	fuse_session_process_buf(fs.se, &buf);
}

static void ask_init(void)
{
	struct fuse_init_in in = {
		.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = 131072, .flags = FUSE_MAX_PAGES | FUSE_BIG_WRITES,
	};

	ask(header(FUSE_INIT, sizeof(in)), &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0);
}

static void setup(void)
{
	static const uint8_t knfsd[8] = { 0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3 };
	static const struct fuse_custom_io io = { .writev = catch_writev, .read = no_read };
	struct nfs_fh fh = { .len = 4, .data = "file" };
	struct nfs_attr attr = { .mode = S_IFREG | 0644, .size = 1 << 30 };
	struct errbuf eb = { "" };
	struct rr_link *link;

	memcpy(fake_peer_priv, knfsd, 8);
	fake_peer_priv_len = 8;
	rpc_auth_init();
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	cl = (struct nfs_client){
		.control = &ctl, .lanes = &lane, .nlanes = 1, .rsize = NFS_IO_MAX,
		.wsize = NFS_IO_MAX, .name_max = 255,
		.cfg = { .version = &nfs_v3, .paths[0].fabric = &fabric_fake, .npaths = 1, .server = "server",
			 .lanes = 1, .credits = 16, .buffers = { .n = { 24, 24, 0, 8, 4 } },
			 .timeo_ms = 60000 },
	};
	nfs_server_init(&cl);
	cr_assert_eq(nfs_buffers_init(&cl), 0);
	cr_assert_eq(nfs_lane_init(&cl, 0, &eb), 0, "%s", eb.text);
	cr_assert_eq(rr_link_open(lane.target.conn, 0, &link, &eb), 0);
	cr_assert_eq(rr_up(lane.target.conn, link), 0);

	fs.cl = &cl;
	fs.cfg.fuse_opts = "fsname=test";
	fs.nlanes = 1;
	fs.lanes = calloc(1, sizeof(*fs.lanes));
	sem_init(&fs.inited, 0, 0);
	inode_table_init(&fs.inodes);
	fl = &fs.lanes[0];
	fs_lane_init(&fs, 0, -1);
	fs_this_lane = fl;
	lane.fs = fl;
	fl->rx.mid = magazine_get(&lane.mag, ARENA_MID);
	fl->rx.big = magazine_get(&lane.mag, ARENA_BIG);
	cr_assert_eq(fs_session_new(&fs, &eb), 0, "%s", eb.text);
	cr_assert_eq(fuse_session_custom_io(fs.se, &io, 0), 0);

	handles_init(&fs.files);
	handles_init(&fs.dirs);
	file = calloc(1, sizeof(*file));
	atomic_init(&file->refs, 1);
	file->handle = handle_new(&fs.files, file);
	file->ino = inode_get(&fs.inodes, &fh, &attr, 0, NULL, 0);
	fs.root = file->ino;
	ask_init();
}

static void teardown(void)
{
	fs_lane_fini(fl);
	fuse_session_destroy(fs.se);
	inode_table_fini(&fs.inodes);
	handles_fini(&fs.files);
	handles_fini(&fs.dirs);
	free(fs.lanes);
	free(file);
	nfs_lane_fini(&lane);
	arena_fini(&cl.arena);
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
	cr_assert_eq((uint64_t)(uintptr_t)answer.data, addr,
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
	cr_assert(memcmp(answer.data, "abcdefgh", 8) == 0);
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
	cr_assert_eq((uint64_t)(uintptr_t)answer.data, addr);
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
	char *mid = fl->rx.mid->mem, *big = fl->rx.big->mem;
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
	cr_assert_null(fl->rx.mid, "the request has the buffers now");
	cr_assert_eq(fl->rx.big == NULL, two);
	reply_write(s, size);
	cr_assert(answer.count == 1 && answer.error == 0);
	cr_assert_eq(stat_get(&lane.stats, STAT_WRITE_COPIED_BYTES), 0);
	fl->rx.mid = magazine_get(&lane.mag, ARENA_MID);
	if (two)
		fl->rx.big = magazine_get(&lane.mag, ARENA_BIG);
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
	char *big = fl->rx.big->mem;

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
	cr_assert(answer.error == 0 && answer.word == 50000);
}

Test(zerocopy, half_written_back, .init = setup, .fini = teardown)
{
	half_written(FUSE_WRITE_CACHE);
	cr_assert_eq(answer.error, -ENOSPC);
}

/* ---- requests that do not fit the first buffer, and are not WRITEs ---- */

#define FORGETS 8000u

static void stop_fn(struct loop_timer *t)
{
	(void)t;
	loop_stop(lane.loop);
}

/* Dropping the kernel's caches makes one request of all that it forgets. */
Test(zerocopy, thousands_of_forgets, .init = setup, .fini = teardown)
{
	static struct {
		struct fuse_in_header h;
		struct fuse_batch_forget_in in;
		struct fuse_forget_one one[FORGETS];
	} msg;
	struct nfs_attr attr = { .mode = S_IFREG | 0644 };
	int s[2], room = 1 << 20;
	struct loop_timer stop;

	cr_assert(sizeof(msg) > FS_HEAD_BYTES + fl->rx.mid->size);
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

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, s), 0);
	setsockopt(s[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	cr_assert_eq(send(s[1], &msg, sizeof(msg), 0), (ssize_t)sizeof(msg));
	fl->fd = s[0];
	fs_lane_attach(&lane, &fs);
	loop_timer_init(&stop, stop_fn);
	for (int i = 0; i < 1000 && atomic_load(&fs.inodes.count) > 1; i++) {
		loop_timer_set(lane.loop, &stop, 10);
		loop_run(lane.loop);
	}
	cr_expect_eq(atomic_load(&fs.inodes.count), 1);
	cr_expect_eq(stat_get(&lane.stats, STAT_FUSE_FORGETS), FORGETS);
	fs_lane_detach(&lane, &fs);
	fl->fd = -1;
	close(s[0]);
	close(s[1]);
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
	cr_assert_not_null(fl->rx.mid, "nobody has its data");
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

static void run_loop(unsigned ms)
{
	struct loop_timer stop;

	loop_timer_init(&stop, stop_fn);
	loop_timer_set(lane.loop, &stop, ms);
	loop_run(lane.loop);
}

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
	int s[2], room = 1 << 20;
	struct arena_buf *held[16];
	unsigned nheld = 0;

	for (unsigned c = ARENA_MID; c <= ARENA_BIG; c++)
		while ((held[nheld] = magazine_get(&lane.mag, c)))
			nheld++;
	held[nheld++] = fl->rx.mid;
	held[nheld++] = fl->rx.big;
	fl->rx.mid = fl->rx.big = NULL;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, s), 0);
	setsockopt(s[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	fl->fd = s[0];
	feed(s[1], header(FUSE_WRITE, sizeof(in) + in.size), &in, sizeof(in), in.size);
	feed(s[1], header(FUSE_GETATTR, sizeof(struct fuse_getattr_in)), &(struct fuse_getattr_in){ 0 },
	     sizeof(struct fuse_getattr_in), 0);
	fs_lane_attach(&lane, &fs);
	run_loop(1500);
	cr_assert_eq(fake.nsends, 1);
	cr_assert_eq(word(0, 12), 1, "GETATTR, and WRITE is not before it");
	cr_assert(fl->starved && fl->nparked == 1);
	while (nheld)
		magazine_put(&lane.mag, held[--nheld]);
	reply((uint32_t[]){ word(0, 0), 1, 16, 0, 0, 0, 0, word(0, 0), 1, 0, 0, 0, 0, 70 }, 14);
	cr_assert_eq(fake.nsends, 2);
	cr_assert(!fl->starved && fl->nparked == 0);
	cr_assert_eq(word(1, 7) + word(1, 13), in.size, "two pieces");
	for (uint32_t i = 0; i < in.size; i++) {
		const char *piece = (const char *)(uintptr_t)(i < word(1, 7) ? address(1, 8) : address(1, 14));

		cr_assert_eq(piece[i < word(1, 7) ? i : i - word(1, 7)], (char)(i * 7));
	}
	cr_assert_eq(stat_get(&lane.stats, STAT_WRITE_COPIED_BYTES), in.size);
	answer.count = 0;
	reply_write(1, in.size);
	cr_assert(answer.count == 1 && answer.error == 0);
	fs_lane_detach(&lane, &fs);
	fl->fd = -1;
	close(s[0]);
	close(s[1]);
}
