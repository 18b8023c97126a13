/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names in a directory with a delegation (vfs/dirnames.h). The version is a test's: a name is there if its first
 * letter is a small one, and calls are answered when the test says so.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "vfs/dirnames.h"
#include "vfs/vfs_impl.h"
#include "vfs_play.h"

static uint32_t sent[64];
static unsigned nsent, calls[NFS_OP_VERSION];
static int asked_status;                /* GET_DIR_DELEGATION's */
static bool lost;                       /* nobody hears what became of REMOVE */
static uint64_t number, file_number;    /* of the directory's delegation, and of a file's */

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	calls[c->op]++;
	cr_assert_lt(nsent, 64);
	sent[nsent++] = c->eng.rr.xid;
	return xdr_uint32_t(x, &nothing);
}

static void found(struct nfs_results *res, const char *name)
{
	res->fh = (struct nfs_fh){ .len = 2, .data = { 'f', name[0] } };
	res->attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = 1, .size = 10, .used = 4096 };
	res->has_attr = true;
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)x;
	switch (c->op) {
	case NFS_OP_LOOKUP:
		if (c->args.name[0] < 'a')
			return -ENOENT;
		found(&c->res, c->args.name);
		return 0;
	case NFS_OP_GETATTR:
		found(&c->res, (const char *)c->args.fh->data + 1);
		return 0;
	case NFS_OP_GET_DIR_DELEGATION:
		return asked_status;
	default:
		return lost ? -EIO : 0;
	}
}

static uint64_t delegated(const struct nfs_server *s, struct nfs_file *f)
{
	(void)s;
	return f == &root->file ? number : file_number;
}

static bool any_due(const struct nfs_server *s)
{
	return !s;
}

static void drop(struct nfs_server *s, const struct nfs_file *f)
{
	cr_assert(s && f != &root->file, "the server does not recall it from who changes the directory");
}

static void drop_all(struct nfs_server *s)
{
	cr_assert_not_null(s);
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
	.delegations_due = any_due, .delegation_drop = drop, .delegations_drop = drop_all, .delegated = delegated,
};

static void setup(void)
{
	static const struct nfs_fh fh = { .len = 4, .data = "root" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755, .nlink = 2 };

	vfs_play_start(&version, &fh, &attr, 25);
	vfs.cl->cfg.delegations = true;
	vfs.inodes.dirnames = dirnames_new();
	cr_assert_not_null(vfs.inodes.dirnames);
}

static void teardown(void)
{
	loop_timer_clear(&vl->tick);
	cr_assert(list_empty(&vl->active), "an operation was left");
	vfs_play_end();
}

TestSuite(vfs_dirnames, .init = setup, .fini = teardown, .timeout = 60);

static void reply_to_all(void)
{
	uint32_t xid[64];
	unsigned n = nsent;

	memcpy(xid, sent, sizeof(xid));
	nsent = 0;
	for (unsigned i = 0; i < n; i++)
		lane_play_reply(xid[i]);
}

static void delegate(uint64_t nr)
{
	number = nr;
	atomic_store(&root->file.delegation, nr);
}

/* How many LOOKUPs it needs. */
static unsigned looks_up(const char *name)
{
	unsigned before = calls[NFS_OP_LOOKUP];

	vfs_play_lookup(root, name);
	reply_to_all();
	cr_assert_eq(vfs_answer.count, 1);
	cr_assert_eq(vfs_answer.status, name[0] < 'a' ? -ENOENT : 0);
	if (!vfs_answer.status) {
		cr_assert_eq(vfs_answer.ino->file.fh.data[1], name[0]);
		inode_put(&vfs.inodes, vfs_answer.ino, 1);
	}
	return calls[NFS_OP_LOOKUP] - before;
}

/* ---- names ---- */

Test(vfs_dirnames, what_is_not_there)
{
	cr_assert(looks_up("A") == 1 && looks_up("A") == 1);
	delegate(7);
	cr_assert(looks_up("A") == 1 && looks_up("A") == 0 && looks_up("B") == 1 && looks_up("A") == 0);
	/* It was returned, and there is another one. */
	delegate(8);
	cr_assert(looks_up("A") == 1 && looks_up("A") == 0);
	delegate(0);
	cr_assert(looks_up("A") == 1);
	/* What is believed may be in doubt for a while. */
	delegate(8);
	number = 0;
	cr_assert(looks_up("A") == 1);
	number = 8;
	cr_assert(looks_up("A") == 0);
}

static struct inode *keeps_attributes(const char *name)
{
	struct inode *ino;

	vfs_play_lookup(root, name);
	reply_to_all();
	ino = vfs_answer.ino;
	atomic_store(&ino->file.delegation, 1);
	vfs_play_getattr(ino);
	reply_to_all();
	return ino;
}

/* The answer has attributes, which another client may change if the file has no delegation. */
Test(vfs_dirnames, what_is_there)
{
	struct inode *ino;

	delegate(7);
	cr_assert(looks_up("a") == 1 && looks_up("a") == 1);
	file_number = 3;
	ino = keeps_attributes("a");
	cr_assert(looks_up("a") == 0 && looks_up("b") == 1 && looks_up("b") == 1);
	cr_assert_eq(atomic_load(&ino->size), 10);
	file_number = 4;
	cr_assert_eq(looks_up("a"), 1);
	file_number = 3;
	cr_assert_eq(looks_up("a"), 0);
	/* READ changes the time of access; this mount changes the file. */
	atomic_fetch_add(&ino->reads, 1);
	cr_assert_eq(looks_up("a"), 1);
	vfs_play_getattr(ino);
	reply_to_all();
	cr_assert_eq(looks_up("a"), 0);
	vfs_play_truncate(ino, 10);
	reply_to_all();
	cr_assert_eq(looks_up("a"), 1);
	inode_put(&vfs.inodes, ino, 1);
	/* The kernel has forgotten the file. */
	cr_assert_eq(looks_up("a"), 1);
}

/* This mount changes the directory: before LOOKUP, while it is under way, and afterwards. */
Test(vfs_dirnames, own_changes)
{
	unsigned before;

	delegate(7);
	cr_assert(looks_up("A") == 1 && looks_up("A") == 0);
	before = calls[NFS_OP_LOOKUP];
	vfs_play_unlink(root, "x");
	vfs_play_lookup(root, "A");
	cr_assert_eq(calls[NFS_OP_LOOKUP], before + 1, "the change is under way");
	reply_to_all();
	reply_to_all();
	cr_assert(looks_up("A") == 1 && looks_up("A") == 0);
	vfs_play_lookup(root, "B");
	vfs_play_unlink(root, "x");
	reply_to_all();
	reply_to_all();
	cr_assert_eq(looks_up("B"), 1, "the server may have executed LOOKUP before");
	vfs_play_rename(root, "x", root, "y");
	reply_to_all();
	reply_to_all();
	cr_assert_eq(looks_up("B"), 1);
}

/* The server may execute it at any time, and recalls nothing because of it. */
Test(vfs_dirnames, a_change_without_an_answer)
{
	delegate(7);
	cr_assert(looks_up("A") == 1 && looks_up("A") == 0);
	lost = true;
	vfs_play_unlink(root, "x");
	reply_to_all();
	reply_to_all();
	cr_assert(looks_up("A") == 1 && looks_up("A") == 1);
}

/* Another client's change between the two. */
Test(vfs_dirnames, recalled_while_it_is_looked_up)
{
	static const uint64_t t[][3] = { { 0, 7, 7 }, { 17, 0, 17 }, { 27, 28, 28 } };

	for (unsigned i = 0; i < 3; i++) {
		delegate(t[i][0]);
		vfs_play_lookup(root, "A");
		delegate(t[i][1]);
		reply_to_all();
		delegate(t[i][2]);
		cr_assert_eq(looks_up("A"), 1, "row %u", i);
	}
}

Test(vfs_dirnames, no_more_than_there_is_room_for)
{
	char name[16];

	delegate(7);
	for (unsigned i = 0; i < DIRNAMES_MAX + 10; i++) {
		snprintf(name, sizeof(name), "A%u", i);
		cr_assert_eq(looks_up(name), 1);
	}
	cr_assert_eq(vfs.inodes.dirnames->n, DIRNAMES_MAX);
	cr_assert_eq(looks_up(name), 0);
	cr_assert_eq(looks_up("A10"), 0);
	cr_assert_eq(looks_up("A9"), 1);
}

/* ---- the delegation ---- */

static unsigned asks(void)
{
	return calls[NFS_OP_GET_DIR_DELEGATION];
}

static void look_up_many(void)
{
	for (unsigned i = 0; i < 10; i++)
		looks_up("A");
}

Test(vfs_dirnames, a_delegation_is_asked_for)
{
	for (unsigned i = 1; i < DIRNAMES_LOOKUPS; i++)
		looks_up("A");
	cr_assert_eq(asks(), 0);
	looks_up("A");
	cr_assert_eq(asks(), 1);
	/* Others change the directory all the time. */
	look_up_many();
	cr_assert_eq(asks(), 1);
	atomic_store(&root->asked_ns, mono_ns() - DIRNAMES_PAUSE_S * 1000000000ull);
	look_up_many();
	cr_assert_eq(asks(), 2);
	/* It has one, which may be in doubt. */
	delegate(7);
	number = 0;
	atomic_store(&root->asked_ns, 0);
	look_up_many();
	cr_assert_eq(asks(), 2);
}

Test(vfs_dirnames, a_server_that_does_not_know_them)
{
	asked_status = -EOPNOTSUPP;
	look_up_many();
	cr_assert_eq(asks(), 1);
	atomic_fetch_or(&vfs.cl->server.lacks, UINT64_C(1) << NFS_OP_GET_DIR_DELEGATION);
	vfs.inodes.dirnames->ask_ns = root->asked_ns = 0;
	look_up_many();
	cr_assert_eq(asks(), 1);
}

/* Of any directory. */
Test(vfs_dirnames, a_server_that_gives_none)
{
	uint64_t pause, last = 0;

	asked_status = -EAGAIN;
	for (unsigned i = 0; i < 14; i++) {
		uint64_t now = mono_ns();

		vfs.inodes.dirnames->ask_ns = root->asked_ns = 0;
		look_up_many();
		cr_assert_eq(asks(), i + 1);
		root->asked_ns = 0;
		look_up_many();
		cr_assert_eq(asks(), i + 1, "it pauses");
		pause = vfs.inodes.dirnames->ask_ns - now;
		cr_assert(pause >= 1000000000 && pause < 1025 * 1000000000ull);
		cr_assert(i > 10 || pause > last + last / 2, "%u", i);
		last = pause;
	}
	asked_status = 0;
	vfs.inodes.dirnames->ask_ns = root->asked_ns = 0;
	look_up_many();
	cr_assert_eq(vfs.inodes.dirnames->denials, 0);
}
