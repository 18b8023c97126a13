/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * copy_file_range without a kernel and without a protocol (fs_play.h). The server has two files, "a" and
 * "b". What it copies lies in its cache until COMMIT, and is lost when it restarts. The test looks at
 * what is on its disk in the end, and at which calls that took.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fs_play.h"
#include "vfs/vfs_impl.h"

#define SIZE 65536u

/* ---- the server ---- */

struct data {
	char bytes[SIZE];
};
static struct data disk[2], cache[2];
static uint64_t sizes[2], change;
static uint64_t verf;
static uint64_t most;                   /* bytes of one COPY */
static bool stable;                     /* COPY's results are on the disk */
static unsigned restarts;               /* so many COMMITs find that it has restarted */
static unsigned restart_at;             /* before the COPY with that number; 0: none */
static int rc_copy, rc_clone, rc_status, rc_cancel, rc_commit;
static bool fails_once;                 /* rc_commit: whoever asks first hears it */
static bool commit_is_twice;            /* the next one */
static unsigned fails_from;             /* rc_copy from the COPY with that number on */
static bool async;                      /* each COPY goes on; else those that may */
static bool offloads;                   /* it can let them */
static bool tells;                      /* CB_OFFLOAD is to come */
static unsigned asks;                   /* so often OFFLOAD_STATUS says that it goes on */
static bool in_vain;                    /* it does not say what became of it */
static int rc_end;                      /* how it ends */
static struct { unsigned from, to; uint64_t from_offset, offset, count; bool on; } running;
static unsigned copies;
static uint64_t asked_for;              /* bytes of the newest COPY */
static void (*before_reply)(void);      /* of COPY... */
static void (*before_cancelled)(void);  /* ...and of OFFLOAD_CANCEL */
static char calls[128];
static bool many;                       /* too many to be noted; each takes 2 ms */

static unsigned file_nr(const struct nfs_fh *fh)
{
	return fh->data[0] == 'b';
}

static void restart(void)
{
	memcpy(cache, disk, sizeof(cache));
	verf++;
	running.on = false;
}

static char letter(const struct nfs_call *c)
{
	switch ((int)c->op) {
	case NFS_OP_LOOKUP: return 'l';
	case NFS_OP_OPEN: return 'o';
	case NFS_OP_GETATTR: return 'g';
	case NFS_OP_WRITE: return c->args.io.unstable ? 'w' : 'W';
	case NFS_OP_COMMIT: return 'c';
	case NFS_OP_CLOSE: return 'x';
	case NFS_OP_COPY: return 'C';
	case NFS_OP_CLONE: return 'K';
	case NFS_OP_OFFLOAD_STATUS: return 's';
	case NFS_OP_OFFLOAD_CANCEL: return 'X';
	default: return '?';
	}
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	if (many)
		return xdr_uint32_t(x, &nothing);
	cr_assert_lt(strlen(calls), sizeof(calls) - 1);
	calls[strlen(calls)] = letter(c);
	return xdr_uint32_t(x, &nothing);
}

static void put_attr(struct nfs_call *c, unsigned i)
{
	c->res.attr = (struct nfs_attr){
		.mode = S_IFREG | 0644, .nlink = 1, .size = sizes[i], .change = change,
		.mtime = { 1, (long)change },
	};
	c->res.has_attr = true;
}

static void copy_bytes(unsigned from, uint64_t from_offset, unsigned to, uint64_t offset, uint64_t n)
{
	cr_assert(from_offset + n <= SIZE && offset + n <= SIZE);
	memmove(cache[to].bytes + offset, cache[from].bytes + from_offset, n);
	if (sizes[to] < offset + n)
		sizes[to] = offset + n;
	change++;
}

/* COMMIT behind COPY. */
static int commit_copy(struct nfs_call *c)
{
	int rc;

	if (restarts && restarts--)
		restart();
	memcpy(disk, cache, sizeof(disk));
	c->res.copy.committed = !c->res.copy.running && c->res.copy.verf == verf;
	c->res.copy.twice = commit_is_twice;
	commit_is_twice = false;
	rc = rc_commit;
	if (fails_once)
		rc_commit = 0;
	return rc;
}

static int decode_copy(struct nfs_call *c)
{
	unsigned from = file_nr(c->args.fh2), to = file_nr(c->args.fh);
	uint64_t at = c->args.copy.from_offset, n = c->args.copy.count;
	bool on;

	copies++;
	asked_for = n;
	if (many)
		usleep(2000);
	if (copies == restart_at)
		restart();
	if (rc_copy && copies >= fails_from)
		return rc_copy;
	if (n > most)
		n = most;
	if (at + n > sizes[from])
		n = at < sizes[from] ? sizes[from] - at : 0;
	on = async || (offloads && c->args.copy.may_go_on);
	c->res.copy.running = on;
	c->res.copy.told = on && tells;
	c->res.copy.count = on ? 0 : n;
	c->res.copy.stable = !on && stable;
	c->res.copy.committed = c->res.copy.twice = false;
	c->res.copy.verf = verf;
	if (on) {
		memset(&c->res.copy.id, (int)copies, sizeof(c->res.copy.id));
		running.on = true;
		running.from = from, running.to = to;
		running.from_offset = at, running.offset = c->args.copy.offset, running.count = n;
	} else {
		copy_bytes(from, at, to, c->args.copy.offset, n);
		if (stable)
			memcpy(disk, cache, sizeof(disk));
	}
	if (before_reply)
		before_reply();
	put_attr(c, to);
	return c->args.copy.commit ? commit_copy(c) : 0;
}

static int decode_status(struct nfs_call *c)
{
	cr_assert_null(c->open, "its stateid is no open's");
	cr_assert_eq(c->args.copy.id.bytes[5], copies);
	if (rc_status || !running.on)
		return rc_status ? rc_status : -EIO;
	if (rc_end) {
		running.on = c->res.copy.running = false;
		return rc_end;
	}
	c->res.copy.running = asks > 0 || in_vain;
	c->res.copy.count = 0;
	if (asks && asks--)
		return 0;
	if (!in_vain) {
		copy_bytes(running.from, running.from_offset, running.to, running.offset, running.count);
		c->res.copy.count = running.count;
		running.on = false;
	}
	return 0;
}

static int decode_clone(struct nfs_call *c)
{
	unsigned to = file_nr(c->args.fh);

	if (rc_clone)
		return rc_clone;
	copy_bytes(file_nr(c->args.fh2), c->args.copy.from_offset, to, c->args.copy.offset,
		   c->args.copy.count);
	memcpy(disk, cache, sizeof(disk));
	put_attr(c, to);
	return 0;
}

static int decode_write(struct nfs_call *c)
{
	unsigned i = file_nr(c->args.fh);
	uint64_t at = c->args.io.offset;

	for (unsigned k = 0; k < c->args.io.ndata; k++) {
		memcpy(cache[i].bytes + at, c->args.io.data[k].mem, c->args.io.data[k].len);
		at += c->args.io.data[k].len;
	}
	if (sizes[i] < at)
		sizes[i] = at;
	change++;
	c->res.io.len = (uint32_t)(at - c->args.io.offset);
	c->res.io.stable = !c->args.io.unstable;
	c->res.io.verf = verf;
	if (c->res.io.stable)
		memcpy(disk, cache, sizeof(disk));
	return 0;
}

static int decode_commit(struct nfs_call *c)
{
	if (rc_commit)
		return rc_commit;
	if (restarts && restarts--)
		restart();
	memcpy(disk, cache, sizeof(disk));
	c->res.io.verf = verf;
	c->res.io.twice = false;
	return 0;
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)x;
	switch ((int)c->op) {
	case NFS_OP_LOOKUP:
		c->res.fh = (struct nfs_fh){ .len = 1 };
		c->res.fh.data[0] = c->args.name[0];
		put_attr(c, file_nr(&c->res.fh));
		return 0;
	case NFS_OP_OPEN:
	case NFS_OP_GETATTR:
		if (c->op == NFS_OP_OPEN)
			c->open = calloc(1, 8);
		put_attr(c, file_nr(c->args.fh));
		return 0;
	case NFS_OP_WRITE:
		return decode_write(c);
	case NFS_OP_COMMIT:
		return decode_commit(c);
	case NFS_OP_COPY:
		return decode_copy(c);
	case NFS_OP_CLONE:
		return decode_clone(c);
	case NFS_OP_OFFLOAD_STATUS:
		return decode_status(c);
	case NFS_OP_OFFLOAD_CANCEL:
		if (before_cancelled)
			before_cancelled();
		running.on = running.on && rc_cancel;
		return rc_cancel;
	default:
		return 0;
	}
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static struct nfs_version version;

/* ---- the kernel ---- */

static struct { uint64_t node, fh; } a, b;

static void serve(void)
{
	for (unsigned i = 0; i < 20; i++) {
		lane_play_serve();
		lane_play_run(0);
	}
}

static void ask(uint32_t opcode, uint64_t node, const void *body, size_t len)
{
	fs_play_ask(opcode, node, body, len);
	serve();
}

static uint64_t look_up(const char *name)
{
	const struct fuse_entry_out *out = (const void *)answer.data;

	ask(FUSE_LOOKUP, FUSE_ROOT_ID, name, strlen(name) + 1);
	cr_assert(answer.count == 1 && answer.error == 0);
	return out->nodeid;
}

static uint64_t open_file(uint64_t node, int flags)
{
	struct fuse_open_in in = { .flags = (uint32_t)flags };
	const struct fuse_open_out *out = (const void *)answer.data;

	ask(FUSE_OPEN, node, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0);
	return out->fh;
}

static void close_file(uint64_t node, uint64_t fh)
{
	struct fuse_release_in in = { .fh = fh };

	ask(FUSE_RELEASE, node, &in, sizeof(in));
}

static void write_file(uint64_t node, uint64_t fh, uint64_t offset, uint32_t size, char with)
{
	struct fuse_write_in in = { .fh = fh, .size = size, .offset = offset, .flags = O_RDWR };
	struct fuse_in_header h = fs_play_header(FUSE_WRITE, node, sizeof(in) + size);

	fs_play_buffers();
	memset(fs_play_dev.mid->mem, with, size);
	fs_play_request(&h, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0);
}

static void start_copy(uint64_t from, uint64_t to, uint64_t len)
{
	struct fuse_copy_file_range_in in = {
		.fh_in = a.fh, .off_in = from, .nodeid_out = b.node, .fh_out = b.fh, .off_out = to,
		.len = len,
	};

	memset(calls, 0, sizeof(calls));
	notice.count = 0;
	fs_play_ask(FUSE_COPY_FILE_RANGE, a.node, &in, sizeof(in));
}

static int64_t copied(const char *took)
{
	const struct fuse_write_out *out = (const void *)answer.data;

	for (unsigned i = 0; i < 300 && !answer.count; i++) {
		serve();
		lane_play_run(5);
	}
	cr_assert_eq(answer.count, 1);
	cr_assert_str_eq(calls, took);
	return answer.error ? answer.error : (int64_t)out->size;
}

/* How many bytes the kernel is told, or -errno; and the calls that it took. */
static int64_t copy(uint64_t from, uint64_t to, uint64_t len, const char *took)
{
	start_copy(from, to, len);
	return copied(took);
}

static void expect_disk(uint64_t from, uint64_t to, uint64_t len)
{
	cr_assert_eq(memcmp(disk[1].bytes + to, disk[0].bytes + from, len), 0);
}

static uint64_t told_size(void)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, b.node);
	uint64_t size = atomic_load(&believed_of(ino)->told_size);

	inode_put(&fs.vfs.inodes, ino, 1);
	return size;
}

/* Changes of b under way. */
static unsigned busy(void)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, b.node);
	unsigned n = atomic_load(&ino->data_busy);

	inode_put(&fs.vfs.inodes, ino, 1);
	return n;
}

static void lacks(enum nfs_op op)
{
	atomic_fetch_or(&fs.vfs.cl->server.lacks, UINT64_C(1) << op);
}

static void start(bool without)
{
	static const struct nfs_fh root = { .len = 3, .data = "dir" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755, .nlink = 2 };

	version = (struct nfs_version){ .name = "test", .prog = 1, .vers = 1 };
	for (unsigned i = 0; i < NFS_OP_VERSION; i++)
		version.ops[i] = &any_op;
	if (without)
		version.ops[NFS_OP_COPY] = version.ops[NFS_OP_CLONE] = NULL;
	for (unsigned i = 0; i < SIZE; i++) {
		disk[0].bytes[i] = (char)(i * 7 + i / 251 + 1);
		disk[1].bytes[i] = 'o';
	}
	memcpy(cache, disk, sizeof(cache));
	sizes[0] = SIZE, sizes[1] = 4096;
	most = UINT64_MAX;
	copy_commits_max = 0;
	copy_goes_on_min = 1;
	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = 30;
	fs.cfg.vfs.write_behind = 50;
	fs_play_start(&version, &root, &attr);
	a.node = look_up("a");
	b.node = look_up("b");
	a.fh = open_file(a.node, O_RDWR);
	b.fh = open_file(b.node, O_RDWR);
	lacks(NFS_OP_CLONE);
}

static void setup(void)
{
	start(false);
}

static void teardown(void)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, b.node);

	cr_assert_eq(atomic_load(&believed_of(ino)->writing), 0);
	cr_assert_eq(atomic_load(&ino->held), 0);
	cr_assert_eq(busy(), 0);
	inode_put(&fs.vfs.inodes, ino, 1);
	close_file(a.node, a.fh);
	close_file(b.node, b.fh);
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	fs_play_end();
}

/* The kernel knows something of the destination. */
static void tell_b(void)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, b.node);

	fs_play_tell(ino);
	inode_put(&fs.vfs.inodes, ino, 1);
}

TestSuite(fs_copy, .init = setup, .fini = teardown, .timeout = 300);

/* ---- COPY ---- */

Test(fs_copy, all_at_once)
{
	stable = true;
	cr_assert_eq(copy(0, 0, SIZE, "C"), SIZE);
	expect_disk(0, 0, SIZE);
	cr_assert_eq(told_size(), SIZE, "the kernel has set it");
	cr_assert_eq(notice.count, 0);
}

/* It does less than it was asked to, and leaves it in its cache. */
Test(fs_copy, little_by_little)
{
	most = 20000;
	cr_assert_eq(copy(100, 5000, 50000, "CCCc"), 50000);
	expect_disk(100, 5000, 50000);
	cr_assert_eq(told_size(), 55000);
}

/* COMMIT goes with what may be the last COPY. */
Test(fs_copy, commit_in_the_same_call)
{
	copy_commits_max = SIZE;
	cr_assert_eq(copy(0, 0, SIZE, "C"), SIZE);
	expect_disk(0, 0, SIZE);
	/* It was not the last one; what came before has the same verifier. */
	most = 20000;
	copy_commits_max = 25536;
	cr_assert_eq(copy(0, 0, SIZE, "CCCC"), SIZE);
	expect_disk(0, 0, SIZE);
	/* The server restarts between the two. */
	most = UINT64_MAX;
	copy_commits_max = SIZE;
	restarts = 1;
	cr_assert_eq(copy(0, 0, SIZE, "CcC"), SIZE);
	expect_disk(0, 0, SIZE);
	/* ...or before them, and what came before that is lost. */
	most = 40000;
	copy_commits_max = SIZE - 40000;
	restart_at = copies + 2;
	cr_assert_eq(copy(0, 0, SIZE, "CCCC"), SIZE);
	expect_disk(0, 0, SIZE);
	rc_commit = -EIO;
	tell_b();
	cr_assert_eq(copy(0, 0, 1000, "C"), -EIO);
	cr_assert_eq(notice.count, 1);
}

/* Not even what was copied before counts: the error may be that of its COMMIT, and comes once. */
Test(fs_copy, commit_in_the_same_call_fails_once)
{
	most = 40000;
	copy_commits_max = SIZE - 40000;
	rc_commit = -EIO, fails_once = true;
	cr_assert_eq(copy(0, 0, SIZE, "CC"), -EIO);
	cr_assert_eq(told_size(), NOBODY_KNOWS);
}

/* The one that failed may be the one whose reply was lost. */
Test(fs_copy, commit_in_the_same_call_is_twice)
{
	most = 40000;
	copy_commits_max = SIZE - 40000;
	commit_is_twice = true;
	cr_assert_eq(copy(0, 0, SIZE, "CCCC"), SIZE);
	expect_disk(0, 0, SIZE);
}

/* The source ends sooner than the kernel believes. */
Test(fs_copy, a_source_that_ends)
{
	sizes[0] = 30000;
	cr_assert_eq(copy(20000, 0, 20000, "CCc"), 10000);
	expect_disk(20000, 0, 10000);
	cr_assert_eq(copy(30000, 0, 20000, "C"), -EOPNOTSUPP, "who reads will find that");
}

/* The server has lost the half of it that it had copied: everything is copied once more. */
Test(fs_copy, half_of_it_with_another_verifier)
{
	most = SIZE / 2;
	restart_at = 2;
	cr_assert_eq(copy(0, 0, SIZE, "CCCCc"), SIZE);
	expect_disk(0, 0, SIZE);
}

Test(fs_copy, a_restart_before_commit)
{
	restarts = 2;
	cr_assert_eq(copy(0, 0, SIZE, "CcCcCc"), SIZE);
	expect_disk(0, 0, SIZE);
}

Test(fs_copy, a_server_that_restarts_each_time)
{
	restarts = 100;
	cr_assert_eq(copy(0, 0, SIZE, "CcCcCcCcCcCcCcCcCc"), -EIO);
	cr_assert_eq(notice.count, 1, "its pages and attributes may be old");
	cr_assert_eq(told_size(), NOBODY_KNOWS);
}

Test(fs_copy, commit_that_fails)
{
	rc_commit = -EIO;
	cr_assert_eq(copy(0, 0, SIZE, "Cc"), -EIO);
	cr_assert_eq(notice.count, 1);
}

/* A mapping's page of the file that is copied to. */
static void write_beside(void)
{
	before_reply = NULL;
	write_file(b.node, b.fh, 8192, 100, 'x');
	answer.count = 0;
	behind_tick(&fl->vl, mono_ns() + 2000000000u);
}

static int64_t copy_beside_a_write(const char *took)
{
	start_copy(0, 0, 4096);
	if (!before_reply)
		write_beside();
	return copied(took);
}

/* It may be that of the page, and come once: that is sent again. */
Test(fs_copy, commit_that_fails_beside_a_write)
{
	rc_commit = -EIO;
	before_reply = write_beside;
	cr_assert_eq(copy_beside_a_write("CwcW"), -EIO);
}

Test(fs_copy, commit_in_the_same_call_that_fails_beside_a_write)
{
	copy_commits_max = SIZE;
	rc_commit = -EIO;
	cr_assert_eq(copy_beside_a_write("CwW"), -EIO);
	commit_is_twice = true;
	rc_commit = 0;
	cr_assert_eq(copy_beside_a_write("CwW"), 4096);
}

Test(fs_copy, clone_that_fails_beside_a_write)
{
	atomic_store(&fs.vfs.cl->server.lacks, 0);
	rc_clone = -EIO;
	cr_assert_eq(copy_beside_a_write("KwW"), -EIO);
}

/* What was copied before an error counts. The error comes with the next call. */
Test(fs_copy, an_error_in_the_middle)
{
	most = 20000;
	rc_copy = -ENOSPC;
	fails_from = 3;
	cr_assert_eq(copy(0, 0, SIZE, "CCCc"), 40000);
	expect_disk(0, 0, 40000);
	cr_assert_eq(told_size(), NOBODY_KNOWS, "more may have been changed");
	cr_assert_eq(copy(40000, 40000, SIZE - 40000, "C"), -ENOSPC);
}

/* Then the kernel reads and writes: EOPNOTSUPP, EXDEV. */
Test(fs_copy, what_makes_the_kernel_copy)
{
	copy_goes_on_min = UINT64_MAX;
	rc_copy = -EXDEV;
	cr_assert_eq(copy(0, 0, SIZE, "C"), -EXDEV);
	cr_assert_eq(notice.count, 0);
	rc_copy = -EINVAL;
	cr_assert_eq(copy(0, 0, SIZE, "C"), -EOPNOTSUPP, "behind the end that the server knows");
	rc_copy = -EOPNOTSUPP;
	cr_assert_eq(copy(0, 0, SIZE, "C"), -EOPNOTSUPP);
	lacks(NFS_OP_COPY);
	cr_assert_eq(copy(0, 0, SIZE, ""), -EOPNOTSUPP, "the server is not asked again");
	cr_assert_eq(told_size(), 4096);
}

Test(fs_copy, bad_arguments)
{
	cr_assert_eq(copy(0, 0, 0, ""), -EINVAL);
	cr_assert_eq(copy(UINT64_C(1) << 63, 0, 1, ""), -EINVAL);
	cr_assert_eq(copy(0, UINT64_C(1) << 63, 1, ""), -EINVAL);
	cr_assert_eq(copy(0, INT64_MAX, 1, ""), -EINVAL);
	cr_assert_eq(copy(0, 0, UINT64_C(1) << 63, ""), -EINVAL);
	a.fh++;
	cr_assert_eq(copy(0, 0, 1, ""), -EBADF);
	a.fh--;
}

/* The answer has 32 bits for it. */
Test(fs_copy, the_most_in_one_go)
{
	sizes[0] = UINT64_C(1) << 40;
	rc_copy = -EIO;
	cr_assert_eq(copy(0, 0, UINT64_C(1) << 40, "C"), -EIO);
	cr_assert(asked_for <= UINT32_MAX && asked_for >= 1 << 20);
	sizes[0] = SIZE;
}

/* A server that copies a byte at a time: the program hears after a second how far it is. */
Test(fs_copy, a_second_at_most)
{
	int64_t n;

	most = 1;
	many = true;
	n = copy(0, 0, SIZE, "");
	many = false;
	cr_assert(n > 0 && n < SIZE, "%ld bytes", (long)n);
	expect_disk(0, 0, (uint64_t)n);
	most = UINT64_MAX;
}

static bool no_reference(void *obj)
{
	return obj;
}

/* Two users: one call cannot have the rights of both. */
Test(fs_copy, opens_of_two_users)
{
	struct fs_file *f = handle_get(&fs.files, a.fh, no_reference);

	cr_assert_not_null(f);
	f->f.cred.uid++;
	cr_assert_eq(copy(0, 0, SIZE, ""), -EXDEV);
	f->f.cred.uid--;
	f->f.cred.ngids ^= 1;
	cr_assert_eq(copy(0, 0, SIZE, ""), -EXDEV);
	f->f.cred.ngids ^= 1;
}

/* ---- one file ---- */

Test(fs_copy, ranges_that_overlap)
{
	uint64_t node = b.node, fh = b.fh;

	stable = true;
	b.node = a.node, b.fh = a.fh;
	cr_assert_eq(copy(0, 1000, 1001, ""), -EINVAL);
	cr_assert_eq(copy(1000, 0, 1001, ""), -EINVAL);
	cr_assert_eq(copy(1000, 0, 1000, "C"), 1000);
	cr_assert_eq(memcmp(disk[0].bytes, disk[0].bytes + 1000, 1000), 0);
	b.node = node, b.fh = fh;
}

/* ---- what was written ---- */

/* Of both files: a WRITE that is sent again would undo the copy, and one that the server has lost would
 * be missing in it. */
Test(fs_copy, what_was_written_is_stable_before)
{
	write_file(a.node, a.fh, 0, 4096, 'A');
	write_file(a.node, a.fh, 20000, 4096, 'A');
	write_file(b.node, b.fh, 0, 4096, 'B');
	write_file(b.node, b.fh, 40000, 4096, 'B');
	cr_assert_eq(copy(0, 0, SIZE, "wwcwwcCc"), SIZE);
	expect_disk(0, 0, SIZE);
	cr_assert(disk[1].bytes[0] == 'A' && disk[1].bytes[20000] == 'A');
}

/* ---- CLONE ---- */

Test(fs_copy, clone_is_one_call)
{
	atomic_store(&fs.vfs.cl->server.lacks, 0);
	cr_assert_eq(copy(0, 0, SIZE, "K"), SIZE);
	expect_disk(0, 0, SIZE);
	cr_assert_eq(told_size(), SIZE);
	/* Not blocks; up to the source's end. */
	cr_assert_eq(copy(0, 0, 5000, "Cc"), 5000);
	cr_assert_eq(copy(1, 0, 4096, "Cc"), 4096);
	cr_assert_eq(copy(0, 1, 4096, "Cc"), 4096);
	sizes[0] = 10000;
	look_up("a");
	cr_assert_eq(copy(4096, 8192, 10000 - 4096, "K"), 10000 - 4096);
}

Test(fs_copy, clone_that_is_refused)
{
	static const int why[] = { -EINVAL, -EXDEV, -EOPNOTSUPP, -ENOSPC };

	atomic_store(&fs.vfs.cl->server.lacks, 0);
	for (unsigned i = 0; i < sizeof(why) / sizeof(why[0]); i++) {
		rc_clone = why[i];
		cr_assert_eq(copy(0, 0, SIZE, "KCc"), SIZE);
	}
	/* It may have been executed. */
	rc_clone = -EIO;
	cr_assert_eq(copy(0, 0, SIZE, "K"), -EIO);
	cr_assert_eq(notice.count, 1);
	/* Without COPY, CLONE is tried all the same. */
	lacks(NFS_OP_COPY);
	rc_clone = -EINVAL;
	cr_assert_eq(copy(0, 0, SIZE, "K"), -EOPNOTSUPP);
}

/* ---- a copy that goes on ---- */

Test(fs_copy, it_goes_on)
{
	async = true;
	asks = 3;
	cr_assert_eq(copy(0, 0, SIZE, "Cssssc"), SIZE);
	expect_disk(0, 0, SIZE);
}

/* COPY's reply has attributes of before. */
Test(fs_copy, the_size_after_it_went_on)
{
	const struct fuse_attr_out *out = (const void *)answer.data;
	struct fuse_getattr_in in = { 0 };

	async = true;
	asks = 1;
	start_copy(0, 0, SIZE);
	serve();
	cr_assert_eq(busy(), 1, "what is read meanwhile is not kept");
	for (unsigned i = 0; i < 300 && !answer.count; i++) {
		serve();
		lane_play_run(5);
	}
	cr_assert_eq(answer.error, 0);
	cr_assert_eq(busy(), 0);
	ask(FUSE_GETATTR, b.node, &in, sizeof(in));
	cr_assert_eq(out->attr.size, SIZE, "it is %llu", (unsigned long long)out->attr.size);
}

/* The server has restarted, and does not know it any more. */
Test(fs_copy, it_is_lost)
{
	async = true;
	asks = 1;
	start_copy(0, 0, SIZE);
	serve();
	restart();
	for (unsigned i = 0; i < 300 && !answer.count; i++) {
		serve();
		lane_play_run(5);
	}
	cr_assert_eq(answer.error, 0);
	cr_assert_str_eq(calls, "CsXCssc");
	expect_disk(0, 0, SIZE);
}

/* That is how it has ended, and nothing is to be stopped or done again. */
Test(fs_copy, it_fails_behind_the_reply)
{
	async = true;
	rc_end = -ENOSPC;
	cr_assert_eq(copy(0, 0, SIZE, "Cs"), -ENOSPC);
}

/* A server that does not say how far it is, and can be told to stop; and one that cannot. */
Test(fs_copy, nobody_knows_what_became_of_it)
{
	async = true;
	rc_status = -EOPNOTSUPP;
	cr_assert_eq(copy(0, 0, SIZE, "CsXCsXCsXCsXCsXCsXCsXCsXCsX"), -EIO);
	rc_cancel = -EOPNOTSUPP;
	tell_b();
	cr_assert_eq(copy(0, 0, SIZE, "CsX"), -EIO);
	cr_assert_eq(notice.count, 1);
	running.on = false;
}

/* The program is killed: the server is told to stop, and only then others may write. */
Test(fs_copy, killed_while_it_goes_on)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, b.node);
	struct vfs_op *op;

	async = in_vain = true;
	start_copy(0, 0, SIZE);
	serve();
	cr_assert_str_eq(calls, "C");
	op = container_of(fl->vl.active.prev, struct vfs_op, node);
	cr_assert_not(fs_give_up(fs_req_of(op)));
	cr_assert(answer.count == 1 && answer.error == -EINTR);
	cr_assert(atomic_load(&ino->held), "who changes it waits");
	for (unsigned i = 0; i < 300 && atomic_load(&ino->held); i++) {
		serve();
		lane_play_run(5);
	}
	cr_assert_str_eq(calls, "CX");
	cr_assert_not(running.on);
	cr_assert_not(atomic_load(&ino->held));
	cr_assert(atomic_load(&believed_of(ino)->mixed), "what the kernel knows may be old");
	inode_put(&fs.vfs.inodes, ino, 1);
}

/* Before the server has heard of it, nothing happens. */
Test(fs_copy, killed_at_once)
{
	struct vfs_op *op;

	write_file(b.node, b.fh, 0, 4096, 'B');
	start_copy(0, 0, SIZE);
	op = container_of(fl->vl.active.prev, struct vfs_op, node);
	fs_give_up(fs_req_of(op));
	serve();
	cr_assert_null(strchr(calls, 'C'));
	cr_assert_eq(answer.error, -EINTR);
}

/* ---- ...and the server says how it has ended ---- */

/* On a lane of its own. */
static bool call_back(char file, unsigned nr, struct nfs_copy_end end)
{
	static struct nfs_lane other;
	struct vfs_lane vl = { .vfs = &fs.vfs, .lane = &other };
	struct nfs_fh fh = { .len = 1, .data = { (uint8_t)file } };
	struct nfs_copy_id id;

	memset(&id, (int)nr, sizeof(id));
	other.front = &vl;
	return vfs_nfs_front.copy_ended(&other, &fh, &id, &end);
}

/* The newest copy has come so far. */
static struct nfs_copy_end so_far(uint64_t count)
{
	copy_bytes(running.from, running.from_offset, running.to, running.offset, count);
	if (stable)
		memcpy(disk, cache, sizeof(disk));
	running.on = false;
	return (struct nfs_copy_end){ .count = count, .stable = stable, .verf = verf };
}

static void ends(uint64_t count)
{
	cr_assert(call_back('b', copies, so_far(count)));
}

static void ends_all(void)
{
	ends(running.count);
}

static void start_offload(uint64_t len)
{
	offloads = tells = in_vain = true;
	start_copy(0, 0, len);
	serve();
	cr_assert(answer.count == 0 && busy() == 1);
}

Test(fs_copy, the_server_says_that_it_has_ended)
{
	stable = true;
	start_offload(SIZE);
	ends_all();
	cr_assert_eq(copied("C"), SIZE);
	expect_disk(0, 0, SIZE);
	stable = false;
	start_offload(SIZE);
	ends_all();
	cr_assert_eq(copied("Cc"), SIZE);
	expect_disk(0, 0, SIZE);
	cr_assert_not(call_back('b', copies, (struct nfs_copy_end){ .count = 1 }), "it is over");
}

Test(fs_copy, only_long_ones_go_on)
{
	copy_goes_on_min = 10000;
	offloads = true;
	cr_assert_eq(copy(0, 0, 9999, "Cc"), 9999);
	copy_commits_max = 20000;
	cr_assert_eq(copy(0, 0, 20000, "C"), 20000);
}

/* The reply to COPY is decoded behind that. */
Test(fs_copy, the_server_says_it_before_its_reply)
{
	stable = offloads = tells = in_vain = true;
	before_reply = ends_all;
	cr_assert_eq(copy(0, 0, SIZE, "C"), SIZE);
	expect_disk(0, 0, SIZE);
}

/* What nobody waits for is kept as long as a COPY has no reply, and not for the next one. */
static void says_much(void)
{
	for (unsigned i = 100; i < 200; i++)
		cr_assert(call_back('b', i, (struct nfs_copy_end){ .count = 1, .stable = true }));
	cr_assert(call_back('a', copies, (struct nfs_copy_end){ .count = 2, .stable = true }));
	cr_assert(call_back('b', copies + 1, (struct nfs_copy_end){ .count = 3, .stable = true }));
	ends_all();
}

Test(fs_copy, the_server_says_much_before_its_reply)
{
	stable = offloads = tells = in_vain = true;
	before_reply = says_much;
	cr_assert_eq(copy(0, 0, SIZE, "C"), SIZE);
	before_reply = NULL;
	start_offload(SIZE);
	ends_all();
	cr_assert_eq(copied("C"), SIZE);
	for (unsigned i = 0; i < 256; i++)
		cr_assert_not(call_back('b', i, (struct nfs_copy_end){ .count = 1, .stable = true }));
}

Test(fs_copy, the_server_says_it_twice)
{
	start_offload(SIZE);
	stable = true;
	ends_all();
	cr_assert(call_back('b', copies, (struct nfs_copy_end){ .status = -EIO }));
	cr_assert_eq(copied("C"), SIZE);
	expect_disk(0, 0, SIZE);
}

Test(fs_copy, the_server_says_it_of_another_copy)
{
	start_offload(SIZE);
	cr_assert_not(call_back('a', copies, (struct nfs_copy_end){ .status = -EIO }));
	cr_assert_not(call_back('b', copies + 1, (struct nfs_copy_end){ .status = -EIO }));
	serve();
	cr_assert_eq(answer.count, 0);
	ends_all();
	cr_assert_eq(copied("Cc"), SIZE);
}

/* It is lost. */
Test(fs_copy, the_server_never_says_it)
{
	start_offload(SIZE);
	in_vain = false;
	cr_assert_eq(copied("Csc"), SIZE);
	expect_disk(0, 0, SIZE);
}

/* OFFLOAD_STATUS is under way, or OFFLOAD_CANCEL. */
Test(fs_copy, the_server_says_it_while_it_is_asked)
{
	start_offload(SIZE);
	for (unsigned i = 0; i < 300 && !strchr(calls, 's'); i++)
		lane_play_run(5);
	ends_all();
	cr_assert_eq(copied("Csc"), SIZE);
	expect_disk(0, 0, SIZE);
	start_offload(SIZE);
	rc_status = -EIO;
	before_cancelled = ends_all;
	cr_assert_eq(copied("CsXc"), SIZE);
	expect_disk(0, 0, SIZE);
}

Test(fs_copy, the_server_says_that_it_has_failed)
{
	static const struct { int status, rc; } t[] = {
		{ -ENOSPC, -ENOSPC }, { -EIO, -EIO }, { -EXDEV, -EXDEV }, { -EINVAL, -EOPNOTSUPP },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		start_offload(SIZE);
		cr_assert(call_back('b', copies, (struct nfs_copy_end){ .status = t[i].status }));
		cr_assert_eq(copied("C"), t[i].rc);
	}
	cr_assert_eq(told_size(), NOBODY_KNOWS, "some of it may have been changed");
}

Test(fs_copy, more_than_was_asked_for)
{
	tell_b();
	start_offload(1000);
	cr_assert(call_back('b', copies, (struct nfs_copy_end){ .count = 1001, .stable = true }));
	cr_assert_eq(copied("C"), -EIO);
	cr_assert_eq(notice.count, 1);
	cr_assert_eq(told_size(), NOBODY_KNOWS);
}

/* All of it is asked for, in the end. */
Test(fs_copy, half_of_it)
{
	start_offload(SIZE);
	ends(20000);
	serve();
	cr_assert_str_eq(calls, "CC");
	cr_assert_eq(asked_for, SIZE - 20000);
	ends_all();
	cr_assert_eq(copied("CCc"), SIZE);
	expect_disk(0, 0, SIZE);
}

/* Two halves, or the second half and COMMIT. */
Test(fs_copy, another_verifier_at_the_end)
{
	start_offload(SIZE);
	ends(20000);
	serve();
	restart();
	running.on = true;
	ends_all();
	serve();
	cr_assert_str_eq(calls, "CCC");
	cr_assert_eq(asked_for, SIZE);
	ends_all();
	restarts = 1;
	serve();
	cr_assert_str_eq(calls, "CCCcC");
	ends_all();
	cr_assert_eq(copied("CCCcCc"), SIZE);
	expect_disk(0, 0, SIZE);
}

/* What is on stable storage is not copied again; and the next COPY does not go on. */
Test(fs_copy, the_second_half_is_lost)
{
	start_offload(SIZE);
	stable = true;
	ends(20000);
	serve();
	restart();
	memset(cache[0].bytes, 'n', 20000);
	cr_assert_eq(copied("CCsXC"), SIZE);
	cr_assert_eq(asked_for, SIZE - 20000);
	expect_disk(20000, 20000, SIZE - 20000);
	cr_assert_neq(disk[1].bytes[0], 'n');
}

Test(fs_copy, the_second_half_cannot_be_stopped)
{
	start_offload(SIZE);
	stable = true;
	ends(20000);
	rc_status = rc_cancel = -EOPNOTSUPP;
	cr_assert_eq(copied("CCsX"), -EIO, "it may replace what is written behind that");
	running.on = false;
}

/* Such copies it cannot make. */
Test(fs_copy, the_server_cannot_go_on)
{
	offloads = true;
	rc_copy = -EOPNOTSUPP;
	cr_assert_eq(copy(0, 0, SIZE, "CC"), -EOPNOTSUPP);
}

/* The program is killed: OFFLOAD_CANCEL, but not if the copy has ended by itself. */
Test(fs_copy, killed_while_the_server_goes_on)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, b.node);

	for (unsigned k = 0; k < 2; k++) {
		start_offload(SIZE);
		fs_give_up(fs_req_of(container_of(fl->vl.active.prev, struct vfs_op, node)));
		cr_assert(answer.count == 1 && answer.error == -EINTR);
		cr_assert(atomic_load(&ino->held));
		if (k)
			ends_all();
		for (unsigned i = 0; i < 300 && atomic_load(&ino->held); i++) {
			serve();
			lane_play_run(5);
		}
		cr_assert_str_eq(calls, k ? "C" : "CX");
		cr_assert_not(running.on);
		cr_assert_not(atomic_load(&ino->held));
	}
	inode_put(&fs.vfs.inodes, ino, 1);
}

/* A server that says each time that it has copied nothing: the kernel reads, and finds data. */
Test(fs_copy, nothing_is_copied)
{
	start_offload(SIZE);
	ends(0);
	cr_assert_eq(copied("C"), -EOPNOTSUPP);
	offloads = false;
	most = 0;
	cr_assert_eq(copy(0, 0, SIZE, "C"), -EOPNOTSUPP);
	most = UINT64_MAX;
	cr_assert_eq(copy(SIZE, 0, 1, "C"), 0, "its end");
}

/* ---- a version without it ---- */

static void setup_without(void)
{
	start(true);
}

TestSuite(fs_copy_41, .init = setup_without, .fini = teardown, .timeout = 300);

Test(fs_copy_41, a_version_without)
{
	cr_assert_eq(copy(0, 0, SIZE, ""), -ENOSYS);
}
