/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vfs returns delegations that are due, and believes the attributes of a file that has one
 * (vfs_play.h). The version is a test's: it has so many, and calls are answered when the test says so.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "vfs/promised.h"
#include "vfs/vfs_impl.h"
#include "vfs_play.h"

#define AT_ONCE 64u

static struct nfs_file file = { .fh = { .len = 4, .data = "file" }, .refs = 1 };
static struct nfs_delegation given = { .file = &file, .cred = { .uid = 1000 } };
static unsigned waiting, under_way, pausing;    /* delegations */
static unsigned dropped;                /* how often the file was */
static bool drops;                      /* and it has one */
static uint32_t sent[512];
static unsigned nsent, calls[NFS_OP_VERSION];
static char order[8];                   /* what was sent: D DELEGRETURN, . another call */

/* The file's names, and what others have changed, although there is a delegation. */
static unsigned nlink = 1, others;
static uint64_t used = 4096;
static bool lost;                       /* nobody hears what became of SETATTR */

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	if (c->op == NFS_OP_DELEGRETURN)
		cr_assert(c->args.fh == &file.fh && c->cred->uid == 1000);
	calls[c->op]++;
	if (strlen(order) < sizeof(order) - 1)
		strcat(order, c->op == NFS_OP_DELEGRETURN ? "D" : ".");
	cr_assert_lt(nsent, 512);
	sent[nsent++] = c->eng.rr.xid;
	return xdr_uint32_t(x, &nothing);
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)x;
	if (c->op == NFS_OP_DELEGRETURN || (lost && c->op == NFS_OP_SETATTR))
		return -EIO;
	if (c->op == NFS_OP_READ) {
		c->res.io.ptr = "";
		c->res.io.len = 0;
		c->res.io.eof = true;
		return 0;
	}
	c->res.has_btime = c->op == NFS_OP_BIRTH;
	c->res.btime.tv_sec = 77;
	c->res.fh = (struct nfs_fh){ .len = 4, .data = "file" };
	c->res.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = nlink, .size = 10, .used = used,
					 .atime.tv_sec = calls[NFS_OP_READ], .change = calls[NFS_OP_SETATTR] + others };
	c->res.has_attr = true;
	return 0;
}

static bool any_due(const struct nfs_server *s)
{
	(void)s;
	return waiting;
}

static struct nfs_delegation *take(struct nfs_server *s)
{
	(void)s;
	cr_assert(waiting);
	waiting--;
	under_way++;
	return &given;
}

/* Without an answer it pauses; what has left its lane is due again. */
static bool no_answers;
static void end(struct nfs_call *c)
{
	cr_assert_eq(c->args.delegation, &given);
	under_way--;
	if (c->res.status == -ENOTCONN)
		waiting++;
	else
		pausing += no_answers;
}

static uint64_t number;

static uint64_t delegated(const struct nfs_server *s, struct nfs_file *f)
{
	(void)s;
	(void)f;
	return number;
}

static void drop(struct nfs_server *s, const struct nfs_file *f)
{
	(void)s;
	cr_assert(atomic_load(&f->delegation));
	dropped++;
	if (!drops)
		return;
	drops = false;
	waiting++;
}

static void drop_all(struct nfs_server *s)
{
	(void)s;
	waiting += 100;
}

/* No OPEN stays: test_vfs_kept.c. */
static bool stays(struct nfs_server *s, struct nfs_open *o)
{
	return s && !o;
}

static struct nfs_open *again(struct nfs_server *s, const struct nfs_file *f, uint64_t delegation,
			      const struct rpc_cred *cred, int flags, bool exec)
{
	cr_assert(s && f && delegation && cred && flags == O_RDONLY && !exec);
	return NULL;
}

static struct nfs_open *to_close(struct nfs_server *s, struct nfs_delegation *d, struct rpc_cred *cred)
{
	cr_assert(s && d && cred);
	return NULL;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
	.delegations_due = any_due, .delegation_take = take, .delegation_ends = end,
	.delegation_drop = drop, .delegations_drop = drop_all, .delegated = delegated,
	.open_stays = stays, .open_again = again, .delegation_open = to_close,
};

static void setup(void)
{
	static const struct nfs_fh fh = { .len = 4, .data = "root" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755, .nlink = 2 };

	vfs_play_start(&version, &fh, &attr, 25);
	vfs.cl->cfg.delegations = true;
}

static void teardown(void)
{
	loop_timer_clear(&vl->tick);
	cr_assert(list_empty(&vl->active), "an operation was left");
	vfs_play_end();
}

TestSuite(vfs_delegations, .init = setup, .fini = teardown, .timeout = 60);

/* What is sent meanwhile has no reply yet. */
static void reply_to_all(void)
{
	uint32_t xid[512];
	unsigned n = nsent;

	memcpy(xid, sent, sizeof(xid));
	nsent = 0;
	for (unsigned i = 0; i < n; i++)
		lane_play_reply(xid[i]);
}

/* The server wants some back. The recall has no answer yet, so nothing is sent before that. */
static void due(unsigned n)
{
	unsigned before = nsent;

	waiting += n;
	vfs_nfs_front.delegations_due(vl->lane);
	vfs_nfs_front.delegations_due(vl->lane);
	cr_assert_eq(nsent, before);
	lane_play_run(1);
}

static void tick(void)
{
	vl->tick.fn(&vl->tick);
}

/* At once, and nobody waits for it. */
Test(vfs_delegations, recalled)
{
	due(1);
	cr_assert(under_way == 1 && nsent == 1);
	due(2);
	cr_assert(under_way == 3 && nsent == 3);
	reply_to_all();
	cr_assert(!under_way && !waiting);
	due(0);
	cr_assert_eq(nsent, 0);
}

/* The lane has a window, and other things to do. The next ones begin when some have ended. */
Test(vfs_delegations, a_thousand)
{
	unsigned n = 0;

	due(1000);
	while (waiting || under_way) {
		cr_assert_lt(n++, 200, "%u wait, %u are under way", waiting, under_way);
		cr_assert_leq(under_way, AT_ONCE);
		cr_assert(!waiting || under_way == AT_ONCE);
		reply_to_all();
	}
	cr_assert_eq(calls[NFS_OP_DELEGRETURN], 1000);
}

/* What is due for another reason, and what pauses no longer. */
Test(vfs_delegations, the_tick_looks)
{
	waiting = 1;
	tick();
	cr_assert_eq(under_way, 1);
	no_answers = true;
	reply_to_all();
	cr_assert(!under_way && !waiting && pausing == 1);
	no_answers = false;
	for (unsigned i = 0; i < 10; i++)
		tick();
	cr_assert_eq(calls[NFS_OP_DELEGRETURN], 1);
	waiting = pausing;
	tick();
	cr_assert_eq(under_way, 1);
	reply_to_all();
	cr_assert(!under_way && !waiting);
}

/* Without them nobody looks, nor is an operation made. */
Test(vfs_delegations, nodeleg)
{
	struct list *first = vl->idle.next;

	vfs.cl->cfg.delegations = false;
	waiting = 1;
	tick();
	cr_assert(waiting == 1 && vl->idle.next == first);
	vfs.cl->cfg.delegations = true;
	waiting = 0;
	tick();
	cr_assert_eq(vl->idle.next, first);
}

/* Before the lane takes requests, and after that. */
Test(vfs_delegations, not_attached)
{
	void *front = vl->lane->front;

	vl->lane->front = NULL;
	due(1);
	cr_assert(waiting == 1 && !under_way);
	vl->lane->front = front;
	tick();
	cr_assert_eq(under_way, 1);
	reply_to_all();
}

/* The lane is detached while the message is on its way. */
Test(vfs_delegations, detached)
{
	void *front = vl->lane->front;

	waiting = 1;
	vfs_nfs_front.delegations_due(vl->lane);
	vl->lane->front = NULL;
	lane_play_run(1);
	cr_assert(waiting == 1 && !under_way);
	vl->lane->front = front;
	due(0);
	cr_assert_eq(under_way, 1);
	reply_to_all();
}

/* Another lane has a connection, and takes what this one has not got an answer to. */
Test(vfs_delegations, the_connection_is_lost)
{
	static struct nfs_lane other;

	other.target.up = true;
	vfs.lanes[1]->lane = &other;
	vfs.nlanes = 2;
	/* The server has granted one credit: the second one was not sent. */
	due(2);
	cr_assert_eq(under_way, 2);
	lane_play_flush();
	fake_break();
	tick();
	cr_assert(under_way == 1 && waiting == 1, "connections mostly come back sooner");
	/* It was sent six seconds ago. */
	container_of(vl->active.next, struct vfs_op, node)->call.eng.rr.posted_ns -= 6000000000;
	tick();
	cr_assert(!under_way && waiting == 2, "this lane has no connection");
	vfs.nlanes = 1;
}

/* At the end all are returned, as far as there is time. */
Test(vfs_delegations, the_end_of_the_mount)
{
	nfs_undelegate_all(&vfs.cl->server);
	delegations_return(vl);
	while (under_way)
		reply_to_all();
	cr_assert_eq(calls[NFS_OP_DELEGRETURN], 100);
}

/* ---- attributes ---- */

static struct inode *ino;

static void look_up(void)
{
	vfs_play_lookup(root, "a");
	reply_to_all();
	ino = vfs_answer.ino;
	cr_assert_not_null(ino);
	atomic_store(&ino->file.delegation, 1);
}

/* How many calls it needs. */
static unsigned getattr(void)
{
	unsigned before = calls[NFS_OP_GETATTR];

	vfs_play_getattr(ino);
	reply_to_all();
	cr_assert(vfs_answer.count == 1 && !vfs_answer.status);
	cr_assert(vfs_answer.attr.size == 10 && vfs_answer.attr.change == calls[NFS_OP_SETATTR] + others);
	cr_assert_eq(vfs_answer.attr.atime.tv_sec, calls[NFS_OP_READ]);
	return calls[NFS_OP_GETATTR] - before;
}

/* The same with the time of birth. */
static unsigned birth(void)
{
	unsigned before = calls[NFS_OP_BIRTH];

	vfs_play_birth(ino);
	reply_to_all();
	cr_assert(vfs_answer.count == 1 && !vfs_answer.status && vfs_answer.btime.tv_sec == 77);
	return calls[NFS_OP_BIRTH] - before;
}

Test(vfs_delegations, attributes_are_asked_for_once)
{
	look_up();
	cr_assert(getattr() == 1 && getattr() == 1);
	number = 7;
	cr_assert(getattr() == 1 && getattr() == 0 && getattr() == 0);
	/* It was returned, and there is another one. */
	number = 8;
	cr_assert(getattr() == 1 && getattr() == 0);
	number = 0;
	cr_assert(getattr() == 1 && getattr() == 1);
	number = 8;
	cr_assert_eq(getattr(), 0);
	atomic_store(&ino->file.delegation, 0);
	cr_assert_eq(getattr(), 1);
	inode_put(&vfs.inodes, ino, 1);
}

/* It never changes; what comes with it does. */
Test(vfs_delegations, the_time_of_birth)
{
	look_up();
	cr_assert(birth() == 1 && birth() == 1);
	number = 7;
	cr_assert(getattr() == 1 && birth() == 1 && birth() == 0 && getattr() == 0);
	number = 8;
	cr_assert(birth() == 1 && birth() == 0);
	number = 9;
	cr_assert(getattr() == 1 && birth() == 0);
	inode_put(&vfs.inodes, ino, 1);
}

static struct file *open_it(int flags)
{
	vfs_play_open(ino, flags, false);
	reply_to_all();
	cr_assert(vfs_answer.count == 1 && !vfs_answer.status);
	return vfs_answer.file;
}

/* READ changes it. */
Test(vfs_delegations, the_time_of_access)
{
	struct file *f;

	look_up();
	f = open_it(O_RDONLY);
	number = 7;
	cr_assert(getattr() == 1 && getattr() == 0);
	vfs_play_read(f, 0, 10, false);
	reply_to_all();
	cr_assert(getattr() == 1 && getattr() == 0);
	/* It ends when the question is under way. */
	vfs_play_read(f, 0, 10, false);
	vfs_play_getattr(ino);
	reply_to_all();
	cr_assert(getattr() == 1 && getattr() == 0);
	vfs_play_close(f);
	reply_to_all();
	inode_put(&vfs.inodes, ino, 1);
}

/* It is this mount's to say (RFC 9754). */
Test(vfs_delegations, the_time_of_access_is_ours)
{
	struct timespec before, after;
	struct nfs_attr attr;
	struct file *f;

	look_up();
	f = open_it(O_RDONLY);
	number = 7 | NFS_DELEGATION_TIMES;
	atomic_store(&ino->file.delegation, number);
	cr_assert_eq(getattr(), 1);
	attr = vfs_answer.attr;
	clock_gettime(CLOCK_REALTIME, &before);
	vfs_play_read(f, 0, 10, false);
	reply_to_all();
	clock_gettime(CLOCK_REALTIME, &after);
	vfs_play_getattr(ino);
	cr_assert_eq(vfs_answer.count, 1, "the server is not asked");
	cr_assert(vfs_answer.attr.atime.tv_sec >= before.tv_sec && vfs_answer.attr.atime.tv_sec <= after.tv_sec);
	cr_assert_neq(vfs_answer.attr.atime.tv_nsec, 0);
	vfs_answer.attr.atime = attr.atime;
	cr_assert_eq(memcmp(&attr, &vfs_answer.attr, sizeof(attr)), 0);
	/* Another one, of the other kind. */
	number = 8;
	atomic_store(&ino->file.delegation, number);
	cr_assert(getattr() == 1 && getattr() == 0);
	vfs_play_close(f);
	reply_to_all();
	inode_put(&vfs.inodes, ino, 1);
}

/* The server has not given the file its blocks yet. */
Test(vfs_delegations, blocks)
{
	look_up();
	number = 7;
	used = 0;
	cr_assert(getattr() == 1 && getattr() == 1);
	/* It has holes, and has had them for long. */
	promised_settles_ns = 0;
	cr_assert(getattr() == 0);
	used = 4096;
	others++;
	vfs_play_lookup(root, "a");
	reply_to_all();
	inode_put(&vfs.inodes, vfs_answer.ino, 1);
	cr_assert(getattr() == 1 && getattr() == 0);
	inode_put(&vfs.inodes, ino, 1);
}

/* Another file's time, of an inode that was forgotten: nothing is left of it. */
Test(vfs_delegations, attributes_of_a_file_that_was_forgotten)
{
	look_up();
	number = 7;
	cr_assert(getattr() == 1 && getattr() == 0);
	inode_put(&vfs.inodes, ino, 1);
	look_up();
	cr_assert(getattr() == 1 && getattr() == 0);
	inode_put(&vfs.inodes, ino, 1);
}

Test(vfs_delegations, attributes_of_a_file_with_two_names)
{
	look_up();
	number = 7;
	nlink = 2;
	cr_assert(getattr() == 1 && getattr() == 1);
	inode_put(&vfs.inodes, ino, 1);
}

/* The server has broken its promise, and some reply shows that. */
Test(vfs_delegations, attributes_that_differ)
{
	look_up();
	number = 7;
	cr_assert(getattr() == 1 && getattr() == 0);
	others++;
	vfs_play_lookup(root, "a");
	reply_to_all();
	inode_put(&vfs.inodes, vfs_answer.ino, 1);
	cr_assert(getattr() == 1 && getattr() == 0);
	inode_put(&vfs.inodes, ino, 1);
}

/* It comes, or goes, while the call is under way. */
Test(vfs_delegations, attributes_that_others_may_have_changed)
{
	static const uint64_t t[][3] = { { 0, 7, 7 }, { 17, 0, 17 }, { 27, 28, 28 } };

	look_up();
	for (unsigned i = 0; i < 3; i++) {
		number = t[i][0];
		vfs_play_getattr(ino);
		number = t[i][1];
		reply_to_all();
		number = t[i][2];
		cr_assert_eq(getattr(), 1, "row %u", i);
	}
	inode_put(&vfs.inodes, ino, 1);
}

/* This mount changes the file: before it is asked for, while that is under way, and afterwards. */
Test(vfs_delegations, attributes_after_own_changes)
{
	look_up();
	number = 7;
	cr_assert(getattr() == 1 && getattr() == 0);
	vfs_play_truncate(ino, 10);
	reply_to_all();
	cr_assert(getattr() == 1 && getattr() == 0);
	/* The server may execute GETATTR before SETATTR. */
	vfs_play_truncate(ino, 10);
	vfs_play_getattr(ino);
	reply_to_all();
	cr_assert_eq(getattr(), 1);
	number = 8;
	vfs_play_getattr(ino);
	vfs_play_truncate(ino, 10);
	reply_to_all();
	cr_assert(getattr() == 1 && getattr() == 0);
	inode_put(&vfs.inodes, ino, 1);
}

/* The server may execute it at any time, and recalls nothing because of it. */
Test(vfs_delegations, attributes_after_a_change_without_an_answer)
{
	look_up();
	number = 7;
	lost = true;
	vfs_play_truncate(ino, 10);
	reply_to_all();
	cr_assert(getattr() == 1 && getattr() == 1);
	number = 8;
	others++;
	cr_assert(getattr() == 1 && getattr() == 1);
	inode_put(&vfs.inodes, ino, 1);
}

/* ---- this mount changes the file ---- */

/* The delegation goes back before that. */
static void expect_drop(bool is, void (*start)(void))
{
	unsigned before = dropped;

	drops = true;
	atomic_store(&ino->file.delegation, 1);
	order[0] = 0;
	start();
	while (nsent)
		reply_to_all();
	cr_assert_eq(dropped - before, is);
	cr_assert_eq(order[0] == 'D', is, "%s", order);
	cr_assert_null(strchr(order + 1, 'D'));
	atomic_store(&ino->file.delegation, 0);
}

static void start_reader(void) { vfs_play_close(open_it(O_RDONLY)); }
static void start_writer(void) { vfs_play_close(open_it(O_WRONLY)); }
static void start_both(void) { vfs_play_close(open_it(O_RDWR)); }
static void start_truncate(void) { vfs_play_truncate(ino, 10); }
static void start_getattr(void) { vfs_play_getattr(ino); }
static void start_link(void) { vfs_play_link(ino, root, "b"); }
static void start_unlink(void) { vfs_play_unlink(root, "a"); }
static void start_rename(void) { vfs_play_rename(root, "a", root, "c"); }
static void start_rename_other(void) { vfs_play_rename(root, "a", root, "x"); }

Test(vfs_delegations, own_changes)
{
	look_up();
	expect_drop(false, start_reader);
	expect_drop(false, start_getattr);
	expect_drop(true, start_writer);
	expect_drop(true, start_both);
	expect_drop(true, start_truncate);
	expect_drop(true, start_link);
	expect_drop(true, start_rename);
	/* Another file is called a; the last rename has taken that name from this one. */
	expect_drop(false, start_rename_other);
	look_up();
	inode_put(&vfs.inodes, ino, 1);
	expect_drop(true, start_unlink);
	inode_put(&vfs.inodes, ino, 1);
}
