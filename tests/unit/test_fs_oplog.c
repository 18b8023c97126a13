/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a listener gets of single requests (fuse/oplog.h): which ones, their names and ranges, and what is counted
 * as lost when there is no room. The test is the kernel (fs_play.h), a second lane, and the listener.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "fs_play.h"

static const struct nfs_attr attr = { .mode = S_IFDIR | 0755, .nlink = 2, .fileid = 1, .change = 5 };
static struct fs_lane *other;           /* the second lane */
static struct inode *deep;              /* "/dir/deep" */

static struct inode *add(struct inode *dir, const char *name, uint8_t handle)
{
	const struct nfs_fh fh = { .len = 1, .data = { handle } };
	struct nfs_attr mine = attr;

	return inode_get(&fs.vfs.inodes, &fh, &mine, dir->id, name, strlen(name), mono_ns());
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 1, .data = "r" };
	static struct nfs_version version = { .name = "test", .prog = 1, .vers = 1 };
	struct inode *dir;

	fs_play_start(&version, &root, &attr);
	fs_lane_init(&fs, 1);
	other = &fs.lanes[1];
	fs.vfs.nlanes = 2;
	dir = add(fs.root, "dir", 'd');
	deep = add(dir, "deep", 'e');
}

static void teardown(void)
{
	fs.vfs.nlanes = 1;
	fs_lane_fini(other);
	fs_play_end();
}

TestSuite(fs_oplog, .init = setup, .fini = teardown, .timeout = 60);

/* A request with what follows its header. */
static void begins(struct fs_lane *of, uint32_t opcode, uint64_t unique, uint64_t node, const void *body, size_t len,
		   uint64_t now)
{
	_Alignas(8) char mem[sizeof(struct fuse_in_header) + 2048];
	const struct fuse_in_header h = {
		.len = (uint32_t)(sizeof(h) + len), .opcode = opcode, .unique = unique, .nodeid = node, .pid = 11, .uid = 12,
	};
	const struct fuse_buf buf = { .mem = mem, .size = h.len };

	memcpy(mem, &h, sizeof(h));
	if (len)
		memcpy(mem + sizeof(h), body, len);
	oplog_begins(of, &buf, now);
}

static void ends(struct fs_lane *of, uint64_t unique, int error, uint64_t now)
{
	oplog_ends(of, &(struct fuse_out_header){ .unique = unique, .error = error }, now);
}

static void statfs(struct fs_lane *of, uint64_t unique, uint64_t begin, uint64_t end)
{
	begins(of, FUSE_STATFS, unique, FUSE_ROOT_ID, NULL, 0, begin);
	ends(of, unique, 0, end);
}

static struct oprec next(void)
{
	struct oprec r;

	cr_assert(fs_log_next(&fs, &r), "nothing came");
	return r;
}

/* How much of it the server had: since the call was sent whose answer is being dealt with. */
Test(fs_oplog, at_the_server)
{
	cr_assert_eq(fs_log_begin(&fs), 0);
	statfs(fl, 2, 100, 150);
	fl->vl.answered_ns = 230;
	statfs(fl, 4, 200, 300);
	fl->vl.answered_ns = 0;
	statfs(fl, 6, 400, 450);
	cr_assert_eq(next().server_ns, 0);
	cr_assert_eq(next().server_ns, 70);
	cr_assert_eq(next().server_ns, 0);
}

static void expect_nothing(void)
{
	struct oprec r;

	cr_assert(!fs_log_next(&fs, &r), "%s %s", r.op, r.name);
}

/* By the lane's own way, with somebody who listens and without. */
Test(fs_oplog, only_while_somebody_listens)
{
	static const struct fuse_getattr_in ask;        /* what is cached will do */
	struct oprec r;

	fs_play_ask(FUSE_GETATTR, fs.root->id, &ask, sizeof(ask));
	expect_nothing();
	cr_assert_null(atomic_load(&fl->log), "memory that nobody has asked for");
	cr_assert_eq(fs_log_begin(&fs), 0);
	fs_play_ask(FUSE_GETATTR, fs.root->id, &ask, sizeof(ask));
	r = next();
	cr_assert_str_eq(r.op, "GETATTR");
	cr_assert_str_eq(r.name, "/");
	cr_assert_eq(r.result, answer.error);
	expect_nothing();
	fs_log_end(&fs);
	fs_play_ask(FUSE_GETATTR, fs.root->id, &ask, sizeof(ask));
	expect_nothing();
	cr_assert_eq(fs_log_lost(&fs), 0);
}

Test(fs_oplog, ranges_and_names)
{
	static const struct fuse_read_in io = { .offset = 7, .size = 9 };
	static const struct fuse_fallocate_in space = { .offset = 1, .length = 2 };
	struct oprec r;

	fs_log_begin(&fs);
	begins(fl, FUSE_READ, 2, deep->id, &io, sizeof(io), 100);
	ends(fl, 2, -EIO, 150);
	r = next();
	cr_assert(strcmp(r.op, "READ") == 0 && r.begin_ns == 100 && r.end_ns == 150 && r.pid == 11 && r.uid == 12);
	cr_assert(r.has_range && r.offset == 7 && r.size == 9 && r.result == -EIO && r.node == deep->id);
	cr_assert_str_eq(r.name, "/dir/deep");
	begins(fl, FUSE_FALLOCATE, 2, deep->id, &space, sizeof(space), 0);
	ends(fl, 2, 0, 0);
	r = next();
	cr_assert(r.has_range && r.offset == 1 && r.size == 2);
	/* What is too short for what it says has no range. */
	begins(fl, FUSE_READ, 2, deep->id, &io, 8, 0);
	ends(fl, 2, 0, 0);
	r = next();
	cr_assert(!r.has_range && r.size == 0);
	begins(fl, FUSE_LOOKUP, 2, deep->id, "x\ny", 4, 0);
	ends(fl, 2, 0, 0);
	cr_assert_str_eq(next().name, "/dir/deep/x\ny");
	/* A name without its end is none, and neither is a node that nobody has. */
	begins(fl, FUSE_LOOKUP, 2, deep->id, "xyz", 3, 0);
	ends(fl, 2, 0, 0);
	cr_assert_str_eq(next().name, "/dir/deep");
	begins(fl, FUSE_LOOKUP, 2, 987654321, "x", 2, 0);
	ends(fl, 2, 0, 0);
	cr_assert_str_eq(next().name, "?/x");
}

/* What does not fit keeps its end. */
Test(fs_oplog, long_name)
{
	char name[OPREC_NAME + 200];
	struct oprec r;

	memset(name, 'n', sizeof(name));
	memcpy(name + sizeof(name) - 5, "last", 5);
	fs_log_begin(&fs);
	begins(fl, FUSE_LOOKUP, 2, deep->id, name, sizeof(name), 0);
	ends(fl, 2, 0, 0);
	r = next();
	cr_assert_lt(strlen(r.name), OPREC_NAME);
	cr_assert_gt(strlen(r.name), OPREC_NAME - 10);
	cr_assert_eq(*r.name, '?');
	cr_assert_str_eq(r.name + strlen(r.name) - 5, "nlast");
}

/* FORGET has no answer, so its place would never be free again. */
Test(fs_oplog, no_answer)
{
	fs_log_begin(&fs);
	begins(fl, FUSE_FORGET, 2, deep->id, NULL, 0, 0);
	ends(fl, 2, 0, 1);
	begins(fl, FUSE_INTERRUPT, 4, 0, NULL, 0, 0);
	ends(fl, 4, 0, 1);
	expect_nothing();
	/* A place of one that is never answered is taken by the next one that needs it: that one is there, and the
	 * other one is lost. */
	begins(fl, FUSE_SETLKW, 6, deep->id, NULL, 0, 0);
	begins(fl, FUSE_GETATTR, 6 + 2 * OPLOG_PLACES, deep->id, NULL, 0, 5);
	cr_assert_eq(fs_log_lost(&fs), 1);
	ends(fl, 6, 0, 6);
	expect_nothing();
	ends(fl, 6 + 2 * OPLOG_PLACES, 0, 7);
	cr_assert_str_eq(next().op, "GETATTR");
	/* Answers to nothing, of a notification, and a second one. */
	ends(fl, 0, 0, 8);
	ends(fl, 6 + 2 * OPLOG_PLACES, 0, 8);
	expect_nothing();
	cr_assert_eq(fs_log_lost(&fs), 1);
}

Test(fs_oplog, full_ring)
{
	fs_log_begin(&fs);
	for (unsigned i = 0; i < OPLOG_RING + 3; i++)
		statfs(fl, 2 + 2 * i, i, i);
	cr_assert_eq(fs_log_lost(&fs), 3);
	/* There is room for one, and the oldest ones are what was kept. */
	cr_assert_eq(next().end_ns, 0);
	statfs(fl, 2, 5000, 5000);
	statfs(fl, 4, 5001, 5001);
	cr_assert_eq(fs_log_lost(&fs), 4);
	for (unsigned i = 1; i < OPLOG_RING; i++)
		cr_assert_eq(next().end_ns, i);
	cr_assert_eq(next().end_ns, 5000);
	expect_nothing();
}

/* A listener gets them in the order of their ends, and of each lane what it has lost. */
Test(fs_oplog, several_lanes)
{
	fs_log_begin(&fs);
	statfs(fl, 2, 0, 10);
	statfs(other, 2, 5, 20);
	statfs(other, 4, 1, 40);
	statfs(fl, 4, 0, 30);
	for (unsigned ns = 10; ns <= 40; ns += 10)
		cr_assert_eq(next().end_ns, ns);
	expect_nothing();
	/* The same number on two lanes is two requests. */
	begins(fl, FUSE_GETATTR, 6, deep->id, NULL, 0, 0);
	begins(other, FUSE_STATFS, 6, FUSE_ROOT_ID, NULL, 0, 0);
	ends(other, 6, 0, 50);
	cr_assert_str_eq(next().op, "STATFS");
	for (unsigned i = 0; i < OPLOG_RING + 2; i++)
		statfs(other, 8 + 2 * i, 0, 60);
	ends(fl, 6, 0, 55);
	cr_assert_str_eq(next().op, "GETATTR");
	cr_assert_eq(fs_log_lost(&fs), 2);
}

/* What was left there belongs to nobody who listens later; what began before ends after. */
Test(fs_oplog, next_listener)
{
	fs_log_begin(&fs);
	statfs(fl, 2, 0, 1);
	begins(fl, FUSE_GETATTR, 4, deep->id, NULL, 0, 2);
	fs_log_end(&fs);
	fs_log_begin(&fs);
	expect_nothing();
	ends(fl, 4, 0, 3);
	cr_assert_str_eq(next().op, "GETATTR");
}

/* A request that was under way when the last one left, and whose answer nobody saw, is not lost to the next one. */
Test(fs_oplog, place_of_an_earlier_listener)
{
	fs_log_begin(&fs);
	begins(fl, FUSE_GETATTR, 4, deep->id, NULL, 0, 2);
	fs_log_end(&fs);
	fs_log_begin(&fs);
	statfs(fl, 4 + 2 * OPLOG_PLACES, 3, 4);
	cr_assert_str_eq(next().op, "STATFS");
	cr_assert_eq(fs_log_lost(&fs), 0);
	begins(fl, FUSE_GETATTR, 4, deep->id, NULL, 0, 5);
	statfs(fl, 4 + 2 * OPLOG_PLACES, 6, 7);
	cr_assert_eq(fs_log_lost(&fs), 1);
}
