/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file of which this mount has a delegation to write (vfs/promised.h, vfs/delegations.c): what is believed,
 * what the server is told when it asks, and what it has before the delegation goes back. The server and the
 * version are the test's (vfs_play.h). The server has one file, which is called a; it executes calls in the
 * order in which they are sent, and answers when the test says so.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "nfs/common.h"
#include "vfs/behind_impl.h"
#include "vfs/promised.h"
#include "vfs_play.h"

#define WRITES(n) (NFS_DELEGATION_WRITES | (n))

struct nfs_open {
	struct rpc_cred cred;
	int flags;
	uint64_t under;
};

/* The server's. */
static uint64_t size, change;
static unsigned nlink;
static int fails;                       /* WRITE's status */
static bool silent;                     /* nobody hears what became of SETATTR */
static bool grants;
static unsigned calls[NFS_OP_VERSION];
static char order[64];                  /* O OPEN, W WRITE, C COMMIT, L CLAIM, D DELEGRETURN, . another one */
static uint32_t sent[64];
static unsigned nsent;

/* The version's. */
static uint64_t number;                 /* of what is held */
static unsigned numbers, due;
static struct nfs_delegation given = { .cred = { .uid = 1000 } };
static struct nfs_open *kept[8];
static unsigned nkept;
static bool leaving;                    /* one to read goes back */
static unsigned nlocked;                /* opens with locks that the server does not have */
static int claims;                      /* CLAIM's status */

static void execute(struct nfs_call *c)
{
	const struct nfs_io_args *io = &c->args.io;
	uint64_t end = io->offset + (c->op == NFS_OP_WRITE ? nfs_write_len(c) : 0);

	if (c->op == NFS_OP_SETATTR)
		size = c->args.sattr.size;
	if (c->op == NFS_OP_WRITE && !fails && end > size)
		size = end;
	change += c->op == NFS_OP_SETATTR || c->op == NFS_OP_WRITE;
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	static const char letters[NFS_OP_VERSION] = {
		[NFS_OP_OPEN] = 'O', [NFS_OP_WRITE] = 'W', [NFS_OP_COMMIT] = 'C', [NFS_OP_DELEGRETURN] = 'D',
		[NFS_OP_CLAIM] = 'L',
	};
	uint32_t nothing = 0;

	execute(c);
	calls[c->op]++;
	cr_assert(nsent < 64 && strlen(order) < 63);
	order[strlen(order)] = letters[c->op] ? letters[c->op] : '.';
	sent[nsent++] = c->eng.rr.xid;
	return xdr_uint32_t(x, &nothing);
}

static void decode_open(struct nfs_call *c)
{
	struct nfs_file *f = c->args.file.get(c, c->args.fh);

	c->open = calloc(1, sizeof(*c->open));
	c->open->cred = *c->cred;
	c->open->flags = c->args.file.flags;
	c->res.open.named = c->args.nwhere;
	if (grants && !number) {
		number = WRITES(++numbers);
		given = (struct nfs_delegation){ .file = f, .cred = *c->cred, .number = number };
		atomic_store(&f->delegation, number);
		c->res.open.delegation = number;
	}
	c->open->under = number;
	nfs_file_put(f);
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)x;
	if (c->op == NFS_OP_WRITE) {
		c->res.io.len = nfs_write_len(c);
		c->res.io.stable = !c->args.io.unstable;
		return fails;
	}
	if (c->op == NFS_OP_CLAIM)
		return claims;
	if (c->op == NFS_OP_COMMIT || c->op == NFS_OP_CLOSE || c->op == NFS_OP_DELEGRETURN)
		return 0;
	if (silent && c->op == NFS_OP_SETATTR)
		return -EIO;
	if (c->op == NFS_OP_OPEN)
		decode_open(c);
	c->res.fh = (struct nfs_fh){ .len = 4, .data = "file" };
	c->res.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = nlink, .size = size, .used = size + 4096,
					 .change = change };
	c->res.has_attr = true;
	return 0;
}

static bool any_due(const struct nfs_server *s)
{
	return s && due;
}

static struct nfs_delegation *take(struct nfs_server *s)
{
	cr_assert(s && due);
	due--;
	return &given;
}

static void end(struct nfs_call *c)
{
	cr_assert_eq(c->args.delegation, &given);
	if (c->op == NFS_OP_CLAIM) {
		cr_assert_not_null(c->open);
		cr_assert_eq(c->cred->uid, 77, "the user who has opened it");
		nlocked -= claims != -ENOTCONN;
		due += claims == -ENOTCONN;
		c->open = NULL;
	} else {
		cr_assert_eq(c->cred->uid, given.cred.uid);
		leaving = false;
	}
}

static bool leaves(struct nfs_server *s, const struct nfs_file *of)
{
	return s && leaving && of == given.file;
}

static struct nfs_open *to_claim(struct nfs_server *s, struct nfs_delegation *d, struct rpc_cred *cred)
{
	static struct nfs_open locked;

	cr_assert(s && d == &given);
	if (!nlocked)
		return NULL;
	*cred = (struct rpc_cred){ .uid = 77 };
	return &locked;
}

static void wanted_back(void)
{
	if (!number)
		return;
	leaving = !nfs_delegation_writes(number);
	number = 0;
	atomic_store(&given.file->delegation, 0);
	due++;
}

static void drop(struct nfs_server *s, const struct nfs_file *f)
{
	cr_assert(s && f == given.file);
	wanted_back();
}

static void drop_all(struct nfs_server *s)
{
	(void)s;
	wanted_back();
}

static uint64_t delegated(const struct nfs_server *s, struct nfs_file *f)
{
	return s && f == given.file ? number : 0;
}

static bool stays(struct nfs_server *s, struct nfs_open *o)
{
	if (!s || !number || o->under != number || nkept == 8)
		return false;
	kept[nkept++] = o;
	return true;
}

static struct nfs_open *again(struct nfs_server *s, const struct nfs_file *f, uint64_t delegation,
			      const struct rpc_cred *cred, int flags, bool exec)
{
	cr_assert(s && f == given.file && cred && !exec);
	for (unsigned i = 0; i < nkept && delegation == number; i++) {
		struct nfs_open *o = kept[i];

		if (o->flags != flags)
			continue;
		kept[i] = kept[--nkept];
		return o;
	}
	return NULL;
}

static struct nfs_open *to_close(struct nfs_server *s, struct nfs_delegation *d, struct rpc_cred *cred)
{
	cr_assert(s && d == &given);
	if (!nkept)
		return NULL;
	*cred = kept[nkept - 1]->cred;
	return kept[--nkept];
}

static void open_free(struct nfs_open *o)
{
	free(o);
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
	.delegations_due = any_due, .delegation_take = take, .delegation_ends = end,
	.delegation_drop = drop, .delegations_drop = drop_all, .delegated = delegated,
	.delegation_leaves = leaves, .delegation_locked = to_claim,
	.open_stays = stays, .open_again = again, .delegation_open = to_close, .open_free = open_free,
};

/* What is sent meanwhile has no reply yet. */
static void reply_to_all(void)
{
	uint32_t xid[64];
	unsigned n = nsent;

	memcpy(xid, sent, sizeof(xid));
	nsent = 0;
	for (unsigned i = 0; i < n; i++)
		lane_play_reply(xid[i]);
	lane_play_run(1);
}

static void reply_to_everything(void)
{
	while (nsent)
		reply_to_all();
}

static struct inode *ino;
static struct file *f;

static struct file *open_it(int flags)
{
	vfs_play_open(ino, flags, true);
	reply_to_everything();
	cr_assert(vfs_answer.count == 1 && !vfs_answer.status, "%d", vfs_answer.status);
	return vfs_answer.file;
}

static void setup(void)
{
	static const struct nfs_fh root_fh = { .len = 4, .data = "root" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755, .nlink = 2 };

	vfs_play_start(&version, &root_fh, &attr, 25);
	vfs.cl->cfg.delegations = true;
	vfs.inodes.acdirmax = 60;
	size = 1000;
	change = 70;
	nlink = 1;
	grants = true;
	vfs_play_lookup(root, "a");
	reply_to_all();
	ino = vfs_answer.ino;
	f = open_it(O_RDWR);
	cr_assert_eq(number, WRITES(1));
	memset(order, 0, sizeof(order));
}

static void teardown(void)
{
	if (f)
		vfs_play_close(f);
	reply_to_everything();
	inode_put(&vfs.inodes, ino, 1);
	nfs_undelegate_all(&vfs.cl->server);
	delegations_return(vl);
	for (unsigned i = 0; i < 2; i++) {      /* WRITE, COMMIT */
		behind_want_everything(vl);
		reply_to_everything();
	}
	loop_timer_clear(&vl->tick);
	cr_assert(list_empty(&vl->active), "an operation was left");
	cr_assert_eq(nkept, 0);
	vfs_play_end();
}

TestSuite(vfs_delegs_write, .init = setup, .fini = teardown, .timeout = 60);

/* Held, and answered. */
static void write_at(uint64_t offset, unsigned n)
{
	cr_assert(vfs_play_buffers());
	memset(vfs_play_mid->mem, 'x', n);
	vfs_play_write(f, offset, n, true, false);
	cr_assert(vfs_answer.count == 1 && !vfs_answer.status);
}

static int sync_it(void)
{
	vfs_play_settle(f, true);
	reply_to_everything();
	cr_assert_eq(vfs_answer.count, 1);
	return vfs_answer.status;
}

/* How many calls it needs. */
static unsigned getattr(void)
{
	unsigned before = calls[NFS_OP_GETATTR];

	vfs_play_getattr(ino);
	reply_to_everything();
	cr_assert(vfs_answer.count == 1 && !vfs_answer.status);
	cr_assert(vfs_answer.attr.size == size && vfs_answer.attr.change == change);
	return calls[NFS_OP_GETATTR] - before;
}

static void cut(uint64_t to)
{
	vfs_play_truncate(ino, to);
	reply_to_everything();
}

static bool tells_of(uint64_t nr, uint64_t *asked_size, uint64_t *asked_change)
{
	struct nfs_delegation d = { .file = &ino->file, .number = nr };

	return vfs_nfs_front.delegation_attr(vl->lane, &d, asked_size, asked_change);
}

/* The server asks for the file's attributes, and sends nothing meanwhile. */
static void expect_told(uint64_t told_size, uint64_t told_change)
{
	uint64_t s = 0, c = 0;
	unsigned before = nsent;

	cr_assert(tells_of(WRITES(numbers), &s, &c));
	cr_assert(s == told_size && c == told_change, "%lu %lu, not %lu %lu", (unsigned long)s, (unsigned long)c,
		  (unsigned long)told_size, (unsigned long)told_change);
	cr_assert_eq(nsent, before);
}

static bool is_known(void)
{
	uint64_t s, c;

	return tells_of(WRITES(numbers), &s, &c);
}

/* The recall has no answer yet: nothing is sent before that. */
static void recall(void)
{
	unsigned before = nsent;

	wanted_back();
	vfs_nfs_front.delegations_due(vl->lane);
	cr_assert_eq(nsent, before);
	lane_play_run(1);
}

/* ---- own changes ---- */

Test(vfs_delegs_write, own_writes)
{
	cr_assert_eq(getattr(), 0, "OPEN has brought them");
	write_at(500, 1000);
	cr_assert_eq(sync_it(), 0);
	cr_assert(number && getattr() == 1 && getattr() == 0);
	/* Its reply has the attributes. */
	cut(200);
	cr_assert(number && getattr() == 0);
	write_at(0, 10);
	cut(3000);
	cr_assert(number && getattr() == 0);
	cr_assert_null(strchr(order, 'D'));
}

/* Who may open the file, and its names: what was granted is older than that. */
Test(vfs_delegs_write, other_changes)
{
	vfs_play_link(ino, root, "b");
	cr_assert_not(number);
	reply_to_everything();
	cr_assert_str_eq(order, "D.");
}

/* An open that another one's writing comes between; and one that has brought the delegation. */
Test(vfs_delegs_write, opens_beside_own_writes)
{
	struct file *g;

	vfs_play_open(ino, O_RDWR, true);
	cr_assert(vfs_play_buffers());
	vfs_play_write(f, 0, 10, false, false);
	reply_to_everything();
	cr_assert(number, "it stays");
	vfs_play_close(vfs_answer.file);
	g = open_it(O_RDONLY);
	vfs_play_close(g);
	recall();
	reply_to_everything();
	vfs_play_open(ino, O_RDWR, true);
	cr_assert(vfs_play_buffers());
	vfs_play_write(f, 0, 10, false, false);
	reply_to_everything();
	cr_assert_not(number, "what OPEN has granted may be older than a chmod");
	vfs_play_close(vfs_answer.file);
}

/* ---- opens ---- */

Test(vfs_delegs_write, opens_without_a_call)
{
	static const int flags[] = { O_RDWR, O_WRONLY, O_RDONLY };

	vfs_play_close(f);
	f = NULL;
	reply_to_everything();
	cr_assert(calls[NFS_OP_OPEN] == 1 && !calls[NFS_OP_CLOSE] && nkept == 1);
	for (unsigned i = 0; i < 3; i++) {
		vfs_play_close(open_it(flags[i]));
		vfs_play_close(open_it(flags[i]));
		cr_assert_eq(calls[NFS_OP_OPEN], 1 + i, "row %u", i);
	}
	/* Attributes from before an own write are no answer. */
	f = open_it(O_RDONLY);
	cut(10);
	vfs_play_close(open_it(O_RDONLY));
	cr_assert_eq(calls[NFS_OP_OPEN], 4, "the only one of that kind was in use");
	vfs_play_close(f);
	f = open_it(O_RDWR);
	write_at(0, 10);
	vfs_play_close(f);
	f = NULL;
	reply_to_everything();
	vfs_play_close(open_it(O_RDONLY));
	cr_assert_eq(calls[NFS_OP_OPEN], 5);
	cr_assert_not(calls[NFS_OP_CLOSE]);
}

/* It looked at the file, and opens it to write: OPEN asks for one to write when the other one has gone back. */
Test(vfs_delegs_write, an_open_after_one_to_read)
{
	number = given.number = 5;
	atomic_store(&ino->file.delegation, 5);
	vfs_play_open(ino, O_RDWR, true);
	cr_assert_str_eq(order, "D");
	reply_to_all();
	cr_assert_str_eq(order, "DO");
	reply_to_everything();
	cr_assert(vfs_answer.count == 1 && !vfs_answer.status);
	cr_assert_eq(number, WRITES(2));
	vfs_play_close(vfs_answer.file);
	/* Who reads waits for nothing. */
	number = given.number = 5;
	atomic_store(&ino->file.delegation, 5);
	recall();
	vfs_play_open(ino, O_RDONLY, true);
	cr_assert_str_eq(order, "DO.DO");
	reply_to_everything();
	vfs_play_close(vfs_answer.file);
}

/* The server takes its time, or has no connection. */
Test(vfs_delegs_write, an_open_that_waits_no_longer)
{
	number = given.number = 5;
	atomic_store(&ino->file.delegation, 5);
	vfs_play_open(ino, O_WRONLY, true);
	for (unsigned i = 0; i < 200 && !strchr(order, 'O'); i++)
		lane_play_run(5);
	cr_assert_str_eq(order, "DO");
	reply_to_everything();
	cr_assert(vfs_answer.count == 1 && !vfs_answer.status);
	vfs_play_close(vfs_answer.file);
}

/* ---- the server asks ---- */

Test(vfs_delegs_write, the_server_asks)
{
	expect_told(1000, 70);
	write_at(500, 100);
	expect_told(1000, 71);
	write_at(600, 500);
	expect_told(1100, 71);
	write_at(5000, 100);
	expect_told(5100, 71);
	/* They are under way. */
	vfs_play_settle(f, true);
	expect_told(5100, 71);
	reply_to_all();
	/* The server has it, and COMMIT is under way: what it has itself is right. */
	expect_told(5100, 70);
	reply_to_everything();
	expect_told(5100, 70);
	cr_assert_eq(getattr(), 1);
	expect_told(5100, change);
	cut(77);
	expect_told(77, change);
	/* What is not held. */
	cr_assert(vfs_play_buffers());
	vfs_play_write(f, 2000, 10, false, false);
	reply_to_everything();
	expect_told(2010, change - 1);
}

/* It was recalled, and is not back yet. */
Test(vfs_delegs_write, the_server_asks_while_it_goes_back)
{
	write_at(5000, 100);
	recall();
	expect_told(5100, 71);
	reply_to_all();
	expect_told(5100, 70);
	reply_to_everything();
}

Test(vfs_delegs_write, what_is_not_known)
{
	uint64_t s, c;

	cr_assert_not(tells_of(WRITES(7), &s, &c));
	fails = -ENOSPC;
	write_at(5000, 100);
	cr_assert_eq(sync_it(), -ENOSPC);
	cr_assert_not(is_known(), "it may have written a part");
	fails = 0;
	cr_assert(getattr() == 1 && is_known());
	silent = true;
	cut(50);
	cr_assert_not(is_known(), "it may be cut at any time");
	silent = false;
	reply_to_everything();
}

/* Nobody here knows of which of its names. */
Test(vfs_delegs_write, a_file_with_two_names)
{
	recall();
	reply_to_everything();
	nlink = 2;
	vfs_play_close(open_it(O_RDWR));
	cr_assert(number && !is_known());
}

Test(vfs_delegs_write, a_file_that_was_forgotten)
{
	struct nfs_delegation d = { .file = nfs_file_ref(&ino->file), .number = number };
	uint64_t s, c;

	write_at(0, 10);
	cr_assert_eq(sync_it(), 0);
	vfs_play_close(f);
	f = NULL;
	behind_want_everything(vl);
	inode_put(&vfs.inodes, ino, 1);
	cr_assert_eq(ino->refs, 0);
	cr_assert_not(vfs_nfs_front.delegation_attr(vl->lane, &d, &s, &c));
	recall();
	reply_to_everything();
	nfs_file_put(d.file);
	vfs_play_lookup(root, "a");
	reply_to_all();
	ino = vfs_answer.ino;
}

/* ---- it goes back ---- */

Test(vfs_delegs_write, what_is_held_goes_first)
{
	write_at(500, 100);
	recall();
	cr_assert_str_eq(order, "W");
	/* That may come at any time, and is as without a delegation: it holds up nothing. */
	write_at(90000, 100);
	reply_to_all();
	cr_assert_str_eq(order, "WD");
	reply_to_everything();
	cr_assert_eq(sync_it(), 0);
}

Test(vfs_delegs_write, what_is_held_is_stable_first)
{
	write_at(500, 100);
	write_at(5000, 100);
	recall();
	cr_assert_str_eq(order, "WW");
	reply_to_all();
	cr_assert_str_eq(order, "WWC");
	reply_to_all();
	cr_assert_str_eq(order, "WWCD");
	reply_to_everything();
}

/* Locks that the server does not have: one open after the other, and before what stays with it is closed. */
Test(vfs_delegs_write, locks_go_first)
{
	write_at(500, 100);
	vfs_play_close(open_it(O_WRONLY));
	memset(order, 0, sizeof(order));
	cr_assert_eq(nkept, 1);
	nlocked = 2;
	recall();
	cr_assert_str_eq(order, "L");
	reply_to_all();
	cr_assert_str_eq(order, "LL");
	cr_assert_eq(nkept, 1);
	reply_to_all();
	cr_assert_eq(nkept, 0);
	reply_to_everything();
	cr_assert_eq(order[strlen(order) - 1], 'D');
	cr_assert_eq(calls[NFS_OP_DELEGRETURN], 1);
}

/* A lock that is refused is lost, and that is all. */
Test(vfs_delegs_write, locks_that_are_refused)
{
	nlocked = 1;
	claims = -EIO;
	recall();
	reply_to_everything();
	cr_assert_str_eq(order, "LD");
}

/* Its lane has lost the connection: another one begins again, and nothing is returned before. */
Test(vfs_delegs_write, locks_that_change_lanes)
{
	nlocked = 1;
	claims = -ENOTCONN;
	recall();
	reply_to_all();
	cr_assert_str_eq(order, "LL");
	claims = 0;
	reply_to_everything();
	cr_assert_str_eq(order, "LLD");
	cr_assert_eq(vl->returning, 0);
}

/* Another lane has a connection. It was sent six seconds ago: it is not waited for any longer. */
Test(vfs_delegs_write, locks_whose_lane_has_no_connection)
{
	static struct nfs_lane other;

	/* Nothing is left that would need a connection. */
	vfs_play_close(f);
	f = NULL;
	reply_to_everything();
	cr_assert_eq(nkept, 1);
	open_free(kept[--nkept]);
	other.target.up = true;
	vfs.lanes[1]->lane = &other;
	vfs.nlanes = 2;
	nlocked = 1;
	claims = -ENOTCONN;
	recall();
	lane_play_flush();
	fake_break();
	container_of(vl->active.next, struct vfs_op, node)->call.eng.rr.posted_ns -= 6000000000;
	cr_assert(vl->returning == 1 && !due);
	delegations_move_all(vl, mono_ns());
	cr_assert(!vl->returning && due == 1, "it is due, for whoever has a connection");
	vfs.nlanes = 1;
	due = nlocked = 0;
	nsent = 0;
}

/* An fsync() is waiting for the same. */
Test(vfs_delegs_write, recalled_while_it_is_written)
{
	write_at(500, 100);
	vfs_play_settle(f, true);
	recall();
	cr_assert_str_eq(order, "W");
	cr_assert_eq(vfs_answer.count, 0);
	reply_to_all();
	cr_assert_eq(vfs_answer.count, 1, "it waits for no DELEGRETURN");
	cr_assert_str_eq(order, "WD");
	reply_to_everything();
}

/* It goes back all the same, and the error is the program's. */
Test(vfs_delegs_write, what_is_held_cannot_be_written)
{
	fails = -ENOSPC;
	write_at(500, 100);
	recall();
	reply_to_all();
	cr_assert_str_eq(order, "WD");
	reply_to_everything();
	cr_assert_eq(sync_it(), -ENOSPC);
}

/* One to read has nothing to do with what is written: the server may let WRITE wait for it. */
Test(vfs_delegs_write, one_to_read_waits_for_nothing)
{
	write_at(500, 100);
	given.number = 5;
	recall();
	cr_assert_str_eq(order, "D");
	reply_to_everything();
}
