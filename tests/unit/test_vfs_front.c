/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Front ends as bad as they may be (vfs_play.h): one that forgets an inode while it is told of it, or
 * has just forgotten it; one that leaves what has ended for later; one that is gone while operations
 * are under way. Below is a server with one file, whose replies come when the test says so.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include "vfs_play.h"

#define BLOCK 4096u

/* ---- the server ---- */

static struct sent { struct nfs_call *c; uint32_t xid; enum nfs_op op; int rc; } sent[64];
static unsigned nsent, calls[NFS_OP_VERSION];

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	cr_assert_lt(nsent, 64);
	calls[c->op]++;
	sent[nsent++] = (struct sent){ c, c->eng.rr.xid, c->op, 0 };
	return xdr_uint32_t(x, &nothing);
}

static void put_data(struct nfs_call *c)
{
	c->res.io.ptr = c->args.io.sink[0].mem;
	c->res.io.len = c->op == NFS_OP_READ ? c->args.io.count : 0;
	c->res.io.stable = true;
	for (unsigned i = 0; c->op == NFS_OP_WRITE && i < c->args.io.ndata; i++)
		c->res.io.len += c->args.io.data[i].len;
}

static int decode(struct nfs_call *c, XDR *x)
{
	unsigned i = 0;
	struct sent s;

	(void)x;
	while (sent[i].c != c || sent[i].xid != c->eng.rr.xid)
		cr_assert_lt(++i, nsent);
	s = sent[i];
	sent[i] = sent[--nsent];
	if (s.rc)
		return s.rc;
	if (c->op == NFS_OP_READ || c->op == NFS_OP_WRITE || c->op == NFS_OP_COMMIT) {
		put_data(c);
		return 0;
	}
	c->res.fh = (struct nfs_fh){ .len = 4, .data = "file" };
	c->res.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = 2, .size = 1u << 20 };
	c->res.has_attr = true;
	if (c->op == NFS_OP_OPEN)
		c->open = calloc(1, 8);
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

/* Replies to the oldest call of that kind. */
static void reply_to(enum nfs_op op, int rc)
{
	unsigned i = 0;

	while (sent[i].op != op)
		cr_assert_lt(++i, nsent);
	sent[i].rc = rc;
	lane_play_reply(sent[i].xid);
}

static void reply_to_all(void)
{
	for (unsigned n = 0; nsent; n++) {
		cr_assert_lt(n, 100, "%u calls, the first is %u", nsent, sent[0].op);
		reply_to(sent[0].op, 0);
	}
}

/* ---- what the tests have ---- */

static struct inode *ino;               /* a reference */
static struct file *f;
static unsigned answers;                /* since the last look */
static int last_status;

static void on_answer(uint64_t nr)
{
	(void)nr;
	answers++;
	last_status = vfs_answer.status;
}

static void setup(void)
{
	static const struct nfs_fh fh = { .len = 4, .data = "root" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755, .nlink = 2 };

	vfs_play_start(&version, &fh, &attr, 25);
	vfs_play_answered = on_answer;
	vfs_play_lookup(root, "a");
	reply_to_all();
	ino = vfs_answer.ino;
	vfs_play_open(ino, O_RDWR, false);
	reply_to_all();
	f = vfs_answer.file;
	cr_assert(ino && f);
	answers = 0;
}

/* All is over. Only the root is known, if nothing is kept. */
static void teardown(void)
{
	vfs_play_slow = 0;
	vfs_play_catch_up();
	reply_to_all();
	lane_play_run(1);
	vl->tick.fn(&vl->tick);         /* it has a reference to what it looks after */
	loop_timer_clear(&vl->tick);
	reply_to_all();
	cr_assert(list_empty(&vl->active), "an operation was left");
	cr_assert_eq(atomic_load(&vfs.inodes.count), 1, "an inode was left");
	vfs_play_end();
}

TestSuite(vfs_front, .init = setup, .fini = teardown, .timeout = 60);

/* A WRITE is on its way, and its file is closed: nothing but that has the inode, and the front end. */
static void write_and_close(void)
{
	cr_assert(vfs_play_buffers());
	vfs_play_write(f, 0, BLOCK, true, false);
	cr_assert_eq(answers, 1, "it is held");
	vfs_play_settle(f, false);
	cr_assert_eq(calls[NFS_OP_WRITE], 1);
	vfs_play_close(f);
}

/* ---- it forgets ---- */

/* Events run without a lock, and the inode that they are about may lose its last other reference in
 * them. */
Test(vfs_front, forgets_while_it_is_told_what_was_written)
{
	write_and_close();
	vfs_play_inode(ino)->drops = true;
	reply_to(NFS_OP_WRITE, 0);
	cr_assert_eq(vfs_play_seen.forgotten, 1);
	reply_to_all();
}

Test(vfs_front, forgets_while_it_is_told_what_was_lost)
{
	write_and_close();
	vfs_play_inode(ino)->drops = true;
	reply_to(NFS_OP_WRITE, -EIO);
	cr_assert_eq(vfs_play_seen.forgotten, 1);
	reply_to_all();
}

Test(vfs_front, forgets_while_it_is_told_that_attributes_are_spoilt)
{
	vfs_play_close(f);
	reply_to_all();
	vfs_play_inode(ino)->drops = true;
	vfs_play_unlink(root, "a");
	reply_to_all();
	cr_assert(vfs_play_seen.forgotten == 1 && calls[NFS_OP_REMOVE] == 1);
}

Test(vfs_front, forgets_while_a_write_goes_through)
{
	cr_assert(vfs_play_buffers());
	vfs_play_write(f, 0, BLOCK, false, false);
	vfs_play_close(f);
	vfs_play_inode(ino)->drops = true;
	reply_to(NFS_OP_WRITE, 0);
	cr_assert_eq(vfs_play_seen.forgotten, 1);
	reply_to_all();
}

/* It has forgotten the inode before the event: that comes for what goes on, and none comes later. */
Test(vfs_front, has_just_forgotten)
{
	write_and_close();
	inode_put(&vfs.inodes, ino, 1);
	cr_assert_eq(vfs_play_inode(ino)->there, 0);
	reply_to(NFS_OP_WRITE, 0);
	reply_to_all();
}

/* It asks for the inode again while the last operation still has it: there is one. */
Test(vfs_front, has_just_forgotten_and_asks_again)
{
	write_and_close();
	inode_put(&vfs.inodes, ino, 1);
	vfs_play_lookup(root, "a");
	reply_to(NFS_OP_LOOKUP, 0);
	cr_assert_eq(vfs_answer.ino, ino);
	vfs_play_inode(ino)->drops = true;
	reply_to(NFS_OP_WRITE, 0);
	reply_to_all();
}

/* ---- it is slow ---- */

/* It has no place for what has come, and holds all buffers by that. Other operations go on, and the READs
 * that wait for buffers do when it has caught up. */
Test(vfs_front, is_slow_with_data)
{
	unsigned asked = 0;

	vfs_play_slow = 1;
	for (; asked < 20; asked++)
		vfs_play_read(f, asked * BLOCK, BLOCK, false);
	while (nsent)
		reply_to(NFS_OP_READ, 0);
	cr_assert(answers && answers < asked, "%u of %u", answers, asked);
	cr_assert_not(list_empty(&vl->want_buf));
	answers = 0;
	vfs_play_getattr(ino);
	reply_to(NFS_OP_GETATTR, 0);
	cr_assert(answers == 1 && last_status == 0);
	while (!list_empty(&vl->want_buf)) {
		vfs_play_catch_up();
		lane_play_run(1);
		reply_to_all();
	}
	cr_assert_eq(calls[NFS_OP_READ], asked);
	vfs_play_close(f);
	inode_put(&vfs.inodes, ino, 1);
}

/* The end of an unlink waits for the front end, and an open of the file's other name does not. */
Test(vfs_front, is_slow_with_a_name)
{
	vfs_play_close(f);
	reply_to_all();
	vfs_play_slow = 1;
	vfs_play_unlink(root, "a");
	reply_to(NFS_OP_REMOVE, 0);
	cr_assert_eq(vfs_play_seen.left, 1);
	vfs_play_open(ino, O_RDONLY, false);
	cr_assert_eq(calls[NFS_OP_OPEN], 2, "at once");
	reply_to(NFS_OP_OPEN, 0);
	vfs_play_close(vfs_answer.file);
	inode_put(&vfs.inodes, ino, 1);
}

/* Who writes is slow: what it was told to have written goes to the server all the same. */
Test(vfs_front, is_slow_with_what_it_writes)
{
	vfs_play_slow = 1;
	for (unsigned i = 0; i < 4; i++) {
		cr_assert(vfs_play_buffers());
		vfs_play_write(f, i * BLOCK * 2, BLOCK, true, false);
	}
	for (unsigned i = 0; i < 4; i++) {
		vfs_play_settle(f, false);
		lane_play_run(1);       /* there is room for others */
		reply_to_all();
	}
	cr_assert(answers == 8 && last_status == 0, "%u", answers);
	cr_assert_eq(atomic_load(&vfs.behind.bytes), 0);
	vfs_play_close(f);
	inode_put(&vfs.inodes, ino, 1);
}

/* ---- it is gone ---- */

/* Nobody waits for these any more. All of them come to their end; what was opened is closed, and what
 * was written is sent. */
Test(vfs_front, is_gone)
{
	cr_assert(vfs_play_buffers());
	vfs_play_write(f, 0, BLOCK, true, false);
	vfs_play_read(f, 1 << 19, BLOCK, false);
	vfs_play_lookup(root, "b");
	vfs_play_unlink(root, "c");
	vfs_play_open(ino, O_RDONLY, false);
	vfs_play_getattr(ino);
	vfs_play_settle(f, false);
	answers = 0;
	vfs_play_gone();
	cr_assert(answers == 6 && last_status == -ENOTCONN, "%u", answers);
	vfs_play_close(f);
	inode_put(&vfs.inodes, ino, 1);
	reply_to_all();
	lane_play_run(1);
	reply_to_all();
	cr_assert_eq(answers, 6);
	cr_assert_eq(calls[NFS_OP_CLOSE], calls[NFS_OP_OPEN]);
	cr_assert_eq(atomic_load(&vfs.behind.bytes), 0);
}

/* The same for READs that have no buffer yet, when its lane is taken away. */
Test(vfs_front, is_gone_before_a_read_was_sent)
{
	for (unsigned i = 0; i < 20; i++)
		vfs_play_read(f, i * BLOCK, BLOCK, false);
	cr_assert_not(list_empty(&vl->want_buf));
	vfs_play_gone();
	vfs_lane_detach(vl);
	cr_assert(list_empty(&vl->want_buf));
	vfs_play_close(f);
	inode_put(&vfs.inodes, ino, 1);
	reply_to_all();
	cr_assert_lt(calls[NFS_OP_READ], 20);
}

/* Programs may ask for many at once, by rings, and never again. */
Test(vfs_front, of_a_crowd_of_operations_a_lane_keeps_some)
{
	enum { CROWD = 3000, KEPT = 1024 };
	struct vfs_op *op[CROWD];
	unsigned n = 0;

	for (unsigned i = 0; i < CROWD; i++)
		cr_assert_not_null(op[i] = vfs_op_quiet(vl, NULL, &(struct rpc_cred){ .uid = 0 }));
	for (unsigned i = 0; i < CROWD; i++)
		vfs_op_free(op[i]);
	for (const struct list *at = vl->idle.next; at != &vl->idle; at = at->next)
		n++;
	cr_assert_eq(n, KEPT);
	for (unsigned i = 0; i < CROWD; i++)
		cr_assert_not_null(op[i] = vfs_op_quiet(vl, NULL, &(struct rpc_cred){ .uid = 0 }));
	cr_assert(list_empty(&vl->idle) && vl->nidle == 0);
	for (unsigned i = 0; i < CROWD; i++)
		vfs_op_free(op[i]);
	vfs_play_close(f);
	inode_put(&vfs.inodes, ino, 1);
	reply_to_all();
}
