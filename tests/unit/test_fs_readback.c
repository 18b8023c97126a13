/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that writes and reads one file in turns (readback.h, behind_read.c), with the kernel
 * and the server played (fs_play.h). The server has the file in memory, with a number, in change
 * attribute and mtime, which each change increments. It executes a call when it is sent, and
 * the test says in which order the replies come. Another client changes the file meanwhile.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "believed_play.h"
#include "fs_play.h"

enum { MOST = 200000 };

/* ---- the server ---- */

static struct {
	char bytes[MOST];
	uint64_t size, nr, verf;
} file;
static bool unstable;                   /* WRITEs are not on stable storage, whatever is asked */
static int next_rc;                     /* of the next call that is executed */
static unsigned calls;

static struct sent {
	struct nfs_call *c;
	uint32_t xid, len;
	struct nfs_attr attr;           /* when it was executed */
	bool eof, stable;
	int rc;
} sent[16];
static unsigned nsent;

static void put(uint64_t at, const void *from, size_t n)
{
	cr_assert_leq(at + n, MOST);
	memcpy(file.bytes + at, from, n);
	if (at + n > file.size)
		file.size = at + n;
	file.nr++;
}

static void execute(struct sent *s)
{
	const struct nfs_io_args *io = &s->c->args.io;

	if (s->rc)
		return;
	if (s->c->op == NFS_OP_SETATTR) {
		memset(file.bytes, 0, MOST);
		file.size = s->c->args.sattr.size;
		file.nr++;
	}
	if (s->c->op == NFS_OP_WRITE) {
		for (uint32_t i = 0; i < io->ndata; i++, s->len += io->data[i - 1].len)
			put(io->offset + s->len, io->data[i].mem, io->data[i].len);
		s->stable = !unstable && !io->unstable;
	}
	if (s->c->op == NFS_OP_READ) {
		uint64_t left = io->offset < file.size ? file.size - io->offset : 0;

		s->len = left < io->count ? (uint32_t)left : io->count;
		s->eof = io->offset + s->len >= file.size;
		memcpy(io->sink[0].mem, file.bytes + io->offset, s->len);
	}
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;
	struct sent *s = &sent[nsent++];

	cr_assert_leq(nsent, 16);
	calls++;
	*s = (struct sent){ .c = c, .xid = c->eng.rr.xid, .rc = next_rc };
	next_rc = 0;
	execute(s);
	s->attr = (struct nfs_attr){
		.mode = S_IFREG | 0644, .nlink = 1, .size = file.size, .change = file.nr,
		.mtime = { 1000, (long)file.nr },
	};
	return xdr_uint32_t(x, &nothing);
}

static int decode(struct nfs_call *c, XDR *x)
{
	unsigned i = 0;
	struct sent s;

	(void)x;
	while (sent[i].c != c || sent[i].xid != c->eng.rr.xid)
		cr_assert_lt(++i, nsent);
	s = sent[i];
	memmove(&sent[i], &sent[i + 1], (--nsent - i) * sizeof(sent[0]));
	if (s.rc)
		return s.rc;
	if (c->op == NFS_OP_WRITE || c->op == NFS_OP_READ || c->op == NFS_OP_COMMIT)
		c->res.io = (struct nfs_io_results){
			.len = s.len, .eof = s.eof, .stable = s.stable, .verf = file.verf,
			.ptr = c->op == NFS_OP_READ ? c->args.io.sink[0].mem : NULL,
		};
	if (c->op == NFS_OP_READ || c->op == NFS_OP_WRITE || c->op == NFS_OP_COMMIT)
		return 0;
	c->res.attr = s.attr;
	c->res.has_attr = true;
	c->res.fh = (struct nfs_fh){ .len = 4, .data = "f" };
	if (c->op == NFS_OP_OPEN || c->op == NFS_OP_CREATE)
		c->open = calloc(1, 8);
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

static void done(void)
{
	for (unsigned i = 0; i < 20; i++) {
		lane_play_flush();
		if (nsent)
			lane_play_reply(sent[0].xid);
		lane_play_run(0);
	}
	cr_assert_eq(nsent, 0);
}

/* The reply to the call that was sent last, and no other. */
static void reply_last(void)
{
	lane_play_reply(sent[nsent - 1].xid);
}

/* ---- the kernel ---- */

static uint64_t node, fh, opens[8];
static unsigned nopens;

static uint32_t tid = 10;

static void ask(uint32_t opcode, uint64_t to, const void *body, size_t len)
{
	struct fuse_in_header h = fs_play_header(opcode, to, len);

	h.pid = tid;
	fs_play_request(&h, body, len);
	lane_play_flush();
}

static void lookup(const char *name)
{
	ask(FUSE_LOOKUP, FUSE_ROOT_ID, name, strlen(name) + 1);
}

static uint64_t open_again(uint32_t flags)
{
	struct fuse_open_in in = { .flags = flags };
	const struct fuse_open_out *out = (const void *)answer.data;

	/* Or an open for writing is sent back, because of the size. */
	if (flags != O_RDONLY) {
		lookup("f");
		done();
	}
	ask(FUSE_OPEN, node, &in, sizeof(in));
	done();
	cr_assert_eq(answer.error, 0);
	opens[nopens++] = out->fh;
	return out->fh;
}

static void write_with(uint64_t at, char what, uint32_t n, uint32_t flags)
{
	struct fuse_write_in in = { .fh = fh, .offset = at, .size = n, .flags = O_RDWR | flags };
	struct fuse_in_header h = fs_play_header(FUSE_WRITE, node, sizeof(in) + n);

	h.pid = tid;
	fs_play_buffers();
	memset(fs_play_dev.mid->mem, what, n);
	fs_play_request(&h, &in, sizeof(in));
	lane_play_flush();
}

/* Returns how many calls it takes. */
static unsigned write_at(uint64_t at, char what, uint32_t n)
{
	unsigned before = calls;

	write_with(at, what, n, 0);
	cr_assert(answer.count == 1 && answer.error == 0);
	return calls - before;
}

static const struct fuse_attr_out *attr_out(void)
{
	return (const void *)answer.data;
}

static void ask_attr(bool reads)
{
	struct fuse_getattr_in in = { .getattr_flags = reads ? FUSE_GETATTR_FH : 0, .fh = fh };

	ask(FUSE_GETATTR, node, &in, sizeof(in));
}

/* As before a read(). Returns how many calls it takes. */
static unsigned look(uint64_t size)
{
	unsigned before = calls;

	ask_attr(true);
	done();
	cr_assert(answer.count == 1 && answer.error == 0);
	cr_assert_eq(attr_out()->attr.size, size, "%lu", (unsigned long)attr_out()->attr.size);
	return calls - before;
}

/* The same by stat(). What it says is the truth. */
static unsigned stat_(void)
{
	unsigned before = calls;

	ask_attr(false);
	done();
	cr_assert(answer.count == 1 && answer.error == 0);
	cr_assert(attr_out()->attr.size == file.size && attr_out()->attr.mtimensec == file.nr);
	return calls - before;
}

static void ask_read(uint64_t at, uint32_t n)
{
	struct fuse_read_in in = { .fh = fh, .offset = at, .size = n, .flags = O_RDWR };

	ask(FUSE_READ, node, &in, sizeof(in));
}

static unsigned read_at(uint64_t at, uint32_t n)
{
	unsigned before = calls;

	ask_read(at, n);
	done();
	cr_assert(answer.count == 1 && answer.error == 0);
	return calls - before;
}

static bool is_all(uint64_t from, uint64_t to, char what)
{
	for (uint64_t i = from; i < to; i++)
		if (i >= answer.len || answer.data[i] != what)
			return false;
	return true;
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "dir" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755 };
	const struct fuse_entry_out *out = (const void *)answer.data;

	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = fs.vfs.inodes.acregmin ? fs.vfs.inodes.acregmin : 30;
	fs.cfg.vfs.write_behind = 60;
	fs_play_start(&version, &root, &attr);
	lookup("f");
	done();
	node = out->nodeid;
	fh = open_again(O_RDWR);
	calls = 0;
}

static void teardown(void)
{
	for (unsigned i = 0; i < 3; i++) {
		behind_tick(&fl->vl, mono_ns() + 40000000000u);
		done();
	}
	for (unsigned i = 0; i < nopens; i++) {
		struct fuse_release_in in = { .fh = opens[i] };

		ask(FUSE_RELEASE, node, &in, sizeof(in));
		done();
	}
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	fs_play_end();
}

TestSuite(fs_young, .init = setup, .fini = teardown, .timeout = 300);

/* ---- a program alone ---- */

Test(fs_young, in_turns)
{
	for (unsigned i = 0; i < 40; i++) {
		cr_assert_eq(write_at(100 * i, 'a', 100), 0);
		cr_assert_eq(look(100 * (i + 1)), 0);
		cr_assert(attr_out()->attr.mtimensec == 0 && attr_out()->attr_valid == 0 &&
			  attr_out()->attr_valid_nsec == 0, "the old time, to be forgotten at once");
		cr_assert_eq(read_at(0, 4096), 0);
		cr_assert(answer.len == 100 * (i + 1) && is_all(0, answer.len, 'a'));
	}
	cr_assert_eq(stat_(), 2, "WRITE and GETATTR");
}

Test(fs_young, a_new_file)
{
	struct fuse_create_in in = { .flags = O_RDWR | O_CREAT, .mode = S_IFREG | 0644 };
	const struct fuse_entry_out *out = (const void *)answer.data;
	char body[sizeof(in) + 2] = "";

	memcpy(body, &in, sizeof(in));
	body[sizeof(in)] = 'f';
	ask(FUSE_CREATE, FUSE_ROOT_ID, body, sizeof(body));
	done();
	cr_assert_eq(answer.error, 0);
	cr_assert_eq(out->nodeid, node);
	fh = opens[nopens++] = ((const struct fuse_open_out *)(out + 1))->fh;
	write_at(0, 'a', 100);
	cr_assert_eq(look(100), 0);
	cr_assert(attr_out()->attr_valid == 0);
}

/* A hole is zeros. */
Test(fs_young, what_the_server_cannot_have)
{
	put(0, "server", 6);
	open_again(O_RDWR);
	write_at(4096, 'a', 10);
	cr_assert_eq(read_at(2000, 4096), 0);
	cr_assert(answer.len == 2106 && is_all(0, 2096, 0) && is_all(2096, 2106, 'a'));
	cr_assert_eq(write_at(20, 'a', 10), 0);
	cr_assert_eq(read_at(0, 3000), 1, "here it has some");
	cr_assert(answer.len == 3000 && memcmp(answer.data, "server", 6) == 0 && is_all(6, 20, 0) &&
		  is_all(20, 30, 'a') && is_all(30, 3000, 0));
	cr_assert_eq(read_at(2048, 2048), 0, "nothing of that is held");
	cr_assert(answer.len == 2048 && is_all(0, 2048, 0));
	/* What it has got since is not zeros, though it is not held any more. */
	write_at(2000, 'b', 10);
	stat_();
	behind_tick(&fl->vl, mono_ns() + 40000000000u);
	done();
	open_again(O_RDWR);
	write_at(8192, 'c', 10);
	write_with(6000, 'd', 10, O_DSYNC);
	done();
	write_at(8000, 'c', 10);
	read_at(5990, 2100);
	cr_assert(is_all(10, 20, 'd'));
}

/* A page of which a part was written. */
Test(fs_young, own_bytes_over_the_servers)
{
	char old[3000];

	memset(old, 's', sizeof(old));
	put(0, old, sizeof(old));
	open_again(O_RDWR);
	read_at(0, 3000);               /* now the buffer is full of that */
	file.size = 1000;
	file.nr++;
	open_again(O_RDWR);
	calls = 0;
	write_at(100, 'a', 100);
	write_at(1500, 'b', 100);
	cr_assert_eq(look(1600), 0);
	cr_assert_eq(read_at(0, 3000), 1, "READ alone");
	cr_assert(is_all(0, 100, 's') && is_all(100, 200, 'a') && is_all(200, 1000, 's') &&
		  is_all(1000, 1500, 0) && is_all(1500, 1600, 'b') && answer.len == 1600);
}

Test(fs_young, a_write_leaves_while_read_is_under_way)
{
	put(0, "server", 6);
	open_again(O_RDWR);
	write_at(1, 'a', 2);
	ask_read(0, 100);               /* executed now */
	cr_assert_eq(nsent, 1);
	behind_tick(&fl->vl, mono_ns() + 40000000000u);
	lane_play_run(0);
	lane_play_flush();
	reply_last();                   /* WRITE... */
	behind_tick(&fl->vl, mono_ns() + 40000000000u);
	lane_play_run(0);
	lane_play_flush();
	while (nsent > 1)
		reply_last();           /* ...and COMMIT */
	done();
	cr_assert(answer.len == 6 && memcmp(answer.data, "saaver", 6) == 0, "%.6s", answer.data);
}

Test(fs_young, a_direct_read_asks_the_server)
{
	struct fuse_read_in in = {
		.fh = fh, .size = 512, .flags = O_RDWR | O_DIRECT, .read_flags = FUSE_READ_LOCKOWNER,
		.lock_owner = 1,
	};

	write_at(0, 'a', 100);
	calls = 0;
	ask(FUSE_READ, node, &in, sizeof(in));
	done();
	cr_assert(calls == 2 && is_all(0, 100, 'a'), "WRITE and READ");
}

/* The mutex is not held for longer than a copy of 128 KiB. */
Test(fs_young, many_bytes_are_sent_first)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, node);
	struct vfs_op op = { .vl = &fl->vl, .ino = ino, .data.size = 131072, .data.cached = true };

	op.data.buf[0] = magazine_get(&lane.mag, ARENA_BIG);
	for (unsigned i = 0; i < 3; i++)
		write_at(i * 60000, 'a', 60000);
	cr_assert_eq(behind_read(&op), BEHIND_ALL);
	op.data.size++;
	cr_assert_eq(behind_read(&op), BEHIND_FIRST);
	magazine_put(&lane.mag, op.data.buf[0]);
	inode_put(&fs.vfs.inodes, ino, 1);
}

Test(fs_young, many_reads_after_a_write)
{
	unsigned n = 0;

	write_at(0, 'a', 100);
	for (unsigned i = 0; i < 30; i++)
		n += look(100) > 0;
	cr_assert_eq(n, 1, "it asks once: %u", n);
	cr_assert_geq(attr_out()->attr_valid, 29);
}

/* ---- stat() ---- */

/* The kernel has forgotten the atime. */
Test(fs_young, stat_after_a_read)
{
	put(0, "server", 6);
	open_again(O_RDWR);
	calls = 0;
	cr_assert_eq(stat_(), 0, "OPEN has said something else, and it is told that");
	cr_assert_eq(attr_out()->attr.size, 6);
	cr_assert_eq(stat_(), 1, "nobody has read: it wants to know");
	read_at(0, 100);
	cr_assert_eq(stat_(), 0);
	cr_assert_geq(attr_out()->attr_valid, 29);
	cr_assert_eq(stat_(), 1);
	read_at(0, 100);
	lookup("f");
	done();
	cr_assert_eq(stat_(), 1, "it has got the atime since");
	read_at(0, 100);
	write_at(0, 'a', 1);
	cr_assert_eq(stat_(), 2);
	/* What was written before the attributes were asked for is written after that. */
	read_at(0, 100);
	write_at(0, 'a', 1);
	lookup("f");
	done();
	read_at(10, 100);
	cr_assert_gt(stat_(), 0);
	fs.vfs.inodes.acregmin = 1;
	open_again(O_RDWR);
	read_at(0, 100);
	lane_play_run(1100);
	cr_assert_eq(stat_(), 1);
}

/* A write was answered when all others were on the server, and before GETATTR was sent. */
Test(fs_young, stat_after_a_write_that_getattr_did_not_see)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, node);
	struct nfs_attr attr = { .mode = S_IFREG | 0644, .nlink = 1 };

	write_at(0, 'a', 100);
	believed_answer(&fs.vfs.inodes, ino, &attr, mono_ns(), mono_ns(), 30);
	cr_assert_eq(look(100), 0, "but it is known here");
	readback_read(ino, (pid_t)tid);
	cr_assert_eq(stat_(), 2);
	write_at(0, 'b', 100);
	believed_answer(&fs.vfs.inodes, ino, &attr, mono_ns(), mono_ns(), 30);
	for (unsigned i = 0; i < 3; i++) {
		behind_tick(&fl->vl, mono_ns() + 40000000000u);
		done();
	}
	readback_read(ino, (pid_t)tid);
	cr_assert_eq(stat_(), 1, "it has left");
	inode_put(&fs.vfs.inodes, ino, 1);
}

/* ---- several threads ---- */

/* Of another container, say: FUSE names them all 0. */
Test(fs_young, threads_that_cannot_be_told_apart)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, node);
	struct nfs_attr attr = { .mode = S_IFREG | 0644, .nlink = 1 };

	believed_answer(&fs.vfs.inodes, ino, &attr, mono_ns(), mono_ns(), 30);
	readback_asked(ino, 0);
	tid = 0;
	write_at(0, 'a', 100);
	cr_assert_neq(look(100), 0, "the server is asked");
	inode_put(&fs.vfs.inodes, ino, 1);
}

Test(fs_young, another_thread_reads_while_one_writes)
{
	write_at(0, 'a', 100);
	tid++;
	read_at(0, 100);
	cr_assert_gt(look(100), 0, "the page may be older than the write");
	tid--;
	write_at(0, 'b', 100);
	cr_assert_gt(look(100), 0, "the other one has asked last");
	write_at(0, 'c', 100);
	cr_assert_eq(look(100), 0);
}

Test(fs_young, another_thread_reads_before_the_write_ends)
{
	cr_assert_eq(look(0), 0);
	tid++;
	read_at(0, 100);
	tid--;
	write_at(0, 'a', 100);
	cr_assert_gt(look(100), 0);
}

Test(fs_young, another_thread_opens_while_one_writes)
{
	tid++;
	open_again(O_RDONLY);
	tid--;
	write_at(0, 'a', 100);
	cr_assert_gt(look(100), 0);
}

/* ---- another client ---- */

/* It changes the file to `size` bytes. */
static void another(uint64_t size)
{
	file.size = size;
	file.nr++;
}

Test(fs_young, it_is_noticed_in_time)
{
	fs.vfs.inodes.acregmin = 1;
	open_again(O_RDWR);
	write_at(0, 'a', 100);
	cr_assert_eq(look(100), 0);
	lane_play_run(1100);
	another(500);
	cr_assert_gt(look(500), 0);
	cr_assert_eq(attr_out()->attr.mtimensec, file.nr);
}

Test(fs_young, noac)
{
	fs.vfs.inodes.acregmin = 0;
	open_again(O_RDWR);
	write_at(0, 'a', 100);
	cr_assert_gt(look(100), 0);
}

/* OPEN brings the news. The kernel is told to ask, and hears them without another call. */
Test(fs_young, it_is_noticed_by_open)
{
	write_at(0, 'a', 100);
	stat_();
	another(500);
	notice.count = 0;
	open_again(O_RDONLY);
	cr_assert_eq(notice.count, 1);
	cr_assert_eq(look(500), 0);
	cr_assert(attr_out()->attr.mtimensec == file.nr && attr_out()->attr_valid >= 29);
}

Test(fs_young, what_the_kernel_was_told_ends_it)
{
	write_at(0, 'a', 100);
	another(500);
	lookup("f");
	done();
	write_at(0, 'a', 100);
	cr_assert_gt(look(500), 0);
}

/* What is older than the newest attributes is not laid over what the server has now. */
Test(fs_young, it_has_written_over_ours)
{
	unstable = true;
	write_at(0, 'a', 100);
	behind_tick(&fl->vl, mono_ns() + 2000000000u);
	done();
	cr_assert_eq(read_at(0, 100), 0, "nobody knows better");
	put(50, "another", 7);
	cr_assert_eq(read_at(0, 100), 0);
	open_again(O_RDONLY);
	read_at(0, 100);
	cr_assert(is_all(0, 50, 'a') && memcmp(answer.data + 50, "another", 7) == 0);
}

/* READ finds the end before the size. */
Test(fs_young, it_has_cut_the_file)
{
	char old[5000] = "";

	put(0, old, sizeof(old));
	open_again(O_RDWR);
	cr_assert_eq(look(5000), 0);
	another(10);
	read_at(0, 3000);
	cr_assert_eq(answer.len, 10);
	cr_assert_eq(look(10), 1);
}

/* ---- what ends it ---- */

Test(fs_young, a_direct_write)
{
	write_at(0, 'a', 100);
	cr_assert_eq(look(100), 0);
	write_with(0, 'b', 512, O_DIRECT);
	done();
	cr_assert_gt(look(512), 0);
}

/* It leaves no other mtime than the kernel was told, because the server's clock has not ticked.
 * The kernel has pages, and drops them if it is told a later one (believed.h). */
static void direct_write_in_the_same_tick(void)
{
	another(500);
	open_again(O_RDONLY);
	cr_assert_eq(look(500), 0);
	read_at(0, 100);
	write_with(0, 'b', 500, O_DIRECT);
	done();
	file.nr--;
}

Test(fs_young, a_direct_write_in_the_same_tick)
{
	direct_write_in_the_same_tick();
	cr_assert_gt(look(500), 0);
	cr_assert_eq(attr_out()->attr.mtimensec, file.nr + 1);
}

/* What an OPEN brought before the next answer is told with a later mtime as well. */
Test(fs_young, a_direct_write_in_the_same_tick_and_open)
{
	direct_write_in_the_same_tick();
	open_again(O_RDONLY);
	cr_assert_eq(look(500), 0);
	cr_assert_eq(attr_out()->attr.mtimensec, file.nr + 1);
}

Test(fs_young, a_write_that_fails)
{
	write_at(0, 'a', 100);
	next_rc = -ENOSPC;
	behind_tick(&fl->vl, mono_ns() + 2000000000u);
	done();
	cr_assert_eq(look(0), 1);
}

Test(fs_young, a_name_is_removed)
{
	write_at(0, 'a', 100);
	cr_assert_eq(look(100), 0);
	ownchange_changed(&fs.vfs.inodes, fs.root->id, "f", false);
	cr_assert_gt(look(100), 0);
}

Test(fs_young, a_truncation)
{
	struct fuse_setattr_in in = { .valid = FATTR_SIZE | FATTR_FH, .fh = fh, .size = 40 };

	write_at(0, 'a', 100);
	ask(FUSE_SETATTR, node, &in, sizeof(in));
	done();
	cr_assert_eq(look(40), 0, "its reply counts");
	write_at(0, 'a', 10);
	cr_assert_eq(look(40), 0);
	in.size = 5;
	ask(FUSE_SETATTR, node, &in, sizeof(in));
	next_rc = -EIO;
	done();
}

/* A SETATTR of which the kernel does not hear may have been executed. */
Test(fs_young, a_truncation_that_fails)
{
	struct fuse_setattr_in in = { .valid = FATTR_SIZE | FATTR_FH, .fh = fh, .size = 40 };

	cr_assert_eq(look(0), 0);
	next_rc = -EIO;
	ask(FUSE_SETATTR, node, &in, sizeof(in));
	done();
	cr_assert_eq(look(0), 1);
}

Test(fs_young, an_answer_that_the_kernel_did_not_get)
{
	write_at(0, 'a', 100);
	believed_unheard(inode_by_id(&fs.vfs.inodes, node));
	cr_assert_gt(look(100), 0);
	inode_put(&fs.vfs.inodes, inode_by_id(&fs.vfs.inodes, node), 2);
}

/* Attributes that are believed for a shorter time than others are not kept for longer. */
Test(fs_young, attributes_that_are_old_already)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, node);
	struct nfs_attr attr = { .mode = S_IFREG | 0644, .nlink = 1 };

	believed_answer(&fs.vfs.inodes, ino, &attr, mono_ns(), mono_ns(), 30);
	cr_assert_eq(look(0), 0);
	believed_answer(&fs.vfs.inodes, ino, &attr, mono_ns(), mono_ns(), 0);
	cr_assert_eq(look(0), 1);
	inode_put(&fs.vfs.inodes, ino, 1);
}

/* ---- answers that overtake each other ---- */

Test(fs_young, a_name_is_removed_while_getattr_is_under_way)
{
	readback_spoil(inode_by_id(&fs.vfs.inodes, node));
	ask_attr(true);
	ownchange_changed(&fs.vfs.inodes, fs.root->id, "f", false);
	done();
	cr_assert_eq(look(0), 1);
	inode_put(&fs.vfs.inodes, inode_by_id(&fs.vfs.inodes, node), 2);
}

/* What was kept before is older than OPEN's attributes. */
Test(fs_young, a_write_while_open_is_under_way)
{
	struct fuse_open_in in = { .flags = O_RDONLY };

	write_at(0, 'a', 100);
	stat_();
	another(500);
	ask(FUSE_OPEN, node, &in, sizeof(in));
	cr_assert_eq(nsent, 1);
	write_at(0, 'a', 100);
	lane_play_reply(sent[0].xid);
	opens[nopens++] = ((const struct fuse_open_out *)(const void *)answer.data)->fh;
	cr_assert_gt(look(500), 0);
}

Test(fs_young, a_write_while_getattr_is_under_way)
{
	readback_spoil(inode_by_id(&fs.vfs.inodes, node));
	ask_attr(true);
	cr_assert_eq(nsent, 1);
	write_at(0, 'a', 100);
	done();
	cr_assert_gt(look(100), 0, "nobody knows whether these have it");
	inode_put(&fs.vfs.inodes, inode_by_id(&fs.vfs.inodes, node), 2);
}

Test(fs_young, newer_attributes_while_getattr_is_under_way)
{
	readback_spoil(inode_by_id(&fs.vfs.inodes, node));
	ask_attr(true);
	cr_assert_eq(nsent, 1);
	another(500);
	lookup("f");
	reply_last();
	done();
	cr_assert_eq(look(500), 1);
	inode_put(&fs.vfs.inodes, inode_by_id(&fs.vfs.inodes, node), 2);
}
