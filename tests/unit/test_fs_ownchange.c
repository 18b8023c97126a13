/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the server is asked after this mount's own changes, and what is answered without it
 * (fs_play.h). The calls are counted, and the test says in which order they are answered.
 * The server's attributes have a number, in size and mtime, which each call that changes
 * something increments.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "believed_play.h"
#include "fs_play.h"

/* ---- the server ---- */

static struct sent {
	struct nfs_call *c;
	uint32_t xid;
	struct nfs_attr attr;           /* when it was executed */
	uint64_t before;                /* the change attribute right before that */
	int rc;
} sent[16];
static unsigned nsent, calls;
static unsigned now;                    /* the attributes' number */
static bool silent;                     /* about what directories are after a change */
static bool no_owner;                   /* its replies to changes are without owners */
static uid_t owner;                     /* of everything */
static int next_rc;

static bool changes(enum nfs_op op)
{
	return op == NFS_OP_REMOVE || op == NFS_OP_RENAME || op == NFS_OP_MKDIR ||
	       op == NFS_OP_WRITE || op == NFS_OP_LINK || op == NFS_OP_SETATTR;
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	cr_assert_lt(nsent, 16);
	calls++;
	now += changes(c->op);
	sent[nsent] = (struct sent){ .c = c, .xid = c->eng.rr.xid, .rc = next_rc };
	sent[nsent].before = now - changes(c->op);
	sent[nsent++].attr = (struct nfs_attr){
		.mode = c->args.fh->data[0] == 'f' && c->op != NFS_OP_LOOKUP ? S_IFREG | 0644 :
									  S_IFDIR | 0755,
		.nlink = 1, .size = now, .change = now, .mtime = { 1000, now }, .uid = owner,
	};
	next_rc = 0;
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
	sent[i] = sent[--nsent];
	c->res.attr = s.attr;
	c->res.has_attr = s.rc == 0;
	c->res.has_dir_attr[0] = c->res.has_dir_attr[1] = changes(c->op) && !silent && s.rc == 0;
	c->res.dir_attr[0] = c->res.dir_attr[1] = s.attr;
	c->res.dir_no_owner = no_owner;
	if (no_owner)
		c->res.dir_attr[0].uid = c->res.dir_attr[1].uid = 65534;
	c->res.dir_change[0] = c->res.dir_change[1] = (struct nfs_dir_change){
		c->res.has_dir_attr[0], s.before, s.before + 1,
	};
	c->res.fh = (struct nfs_fh){ .len = 4, .data = "new" };
	if (c->op == NFS_OP_LOOKUP && c->args.name[0] == 'f')
		c->res.fh = (struct nfs_fh){ .len = 4, .data = "f" };
	if (c->op == NFS_OP_LOOKUP && c->args.name[0] == 'f')
		c->res.attr.mode = S_IFREG | 0644;
	if (c->op == NFS_OP_OPEN)
		c->open = calloc(1, 8);
	if (c->op == NFS_OP_WRITE) {
		c->res.io.len = 100;
		c->res.io.stable = true;
	}
	return s.rc;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

/* Of those that have no reply the one with that number. */
static void reply(unsigned i)
{
	cr_assert_lt(i, nsent);
	lane_play_reply(sent[i].xid);
}

/* ---- the kernel ---- */

static void ask(uint32_t opcode, uint64_t node, const void *body, size_t len, const char *more)
{
	char bytes[512];
	size_t n = more ? strlen(more) + 1 : 0;

	cr_assert_leq(len + n, sizeof(bytes));
	memcpy(bytes, body, len);
	if (more)
		memcpy(bytes + len, more, n);
	fs_play_ask(opcode, node, bytes, len + n);
	lane_play_flush();
}

static void mkdir_(const char *name)
{
	struct fuse_mkdir_in in = { .mode = 0755 };

	ask(FUSE_MKDIR, FUSE_ROOT_ID, &in, sizeof(in), name);
}

static void unlink_(const char *name)
{
	ask(FUSE_UNLINK, FUSE_ROOT_ID, name, strlen(name) + 1, NULL);
}

static void rename_(const char *name, const char *newname)
{
	struct fuse_rename_in in = { .newdir = FUSE_ROOT_ID };
	char body[sizeof(in) + 32];

	memcpy(body, &in, sizeof(in));
	strcpy(body + sizeof(in), name);
	ask(FUSE_RENAME, FUSE_ROOT_ID, body, sizeof(in) + strlen(name) + 1, newname);
}

static void ask_attr(uint64_t node)
{
	struct fuse_getattr_in in = { 0 };

	ask(FUSE_GETATTR, node, &in, sizeof(in), NULL);
}

/* Returns how many calls it takes. The answer's attributes have the newest number. */
static unsigned getattr(uint64_t node)
{
	const struct fuse_attr_out *out = (const void *)answer.data;
	unsigned before = calls;

	ask_attr(node);
	if (nsent)
		reply(0);
	cr_assert(answer.count == 1 && answer.error == 0);
	cr_assert(out->attr.size == now && out->attr.mtimensec == now, "number %lu, not %u",
		  (unsigned long)out->attr.size, now);
	cr_assert_eq(out->attr.uid, owner);
	return calls - before;
}

static void ask_name(const char *name)
{
	ask(FUSE_LOOKUP, FUSE_ROOT_ID, name, strlen(name) + 1, NULL);
}

/* The same, for a name that is not there. */
static unsigned not_there(const char *name)
{
	const struct fuse_entry_out *out = (const void *)answer.data;
	unsigned before = calls;

	next_rc = -ENOENT;
	ask_name(name);
	if (nsent)
		reply(0);
	next_rc = 0;
	cr_assert(answer.count == 1);
	if (answer.error == 0) {
		cr_assert_eq(out->nodeid, 0);
		cr_assert(out->entry_valid < 1 || (out->entry_valid == 1 && !out->entry_valid_nsec));
	}
	return calls - before;
}

static void done(void)
{
	while (nsent)
		reply(0);
}

/* What waits for its time gets on. */
static void pass_time(unsigned ms)
{
	lane_play_run(ms);
	lane_play_flush();
}

static uint64_t the_file(void)
{
	const struct fuse_entry_out *out = (const void *)answer.data;

	ask_name("f");
	done();
	cr_assert(answer.error == 0 && out->nodeid);
	return out->nodeid;
}

static uint64_t open_file(uint64_t node)
{
	struct fuse_open_in in = { .flags = O_RDONLY };
	const struct fuse_open_out *out = (const void *)answer.data;

	ask(FUSE_OPEN, node, &in, sizeof(in), NULL);
	done();
	cr_assert_eq(answer.error, 0);
	return out->fh;
}

static void close_file(uint64_t node, uint64_t fh)
{
	struct fuse_release_in in = { .fh = fh };

	ask(FUSE_RELEASE, node, &in, sizeof(in), NULL);
	done();
	cr_assert_eq(answer.error, 0);
}

static void write_file(uint64_t node, uint64_t fh)
{
	struct fuse_write_in in = { .fh = fh, .size = 100, .flags = O_RDWR };
	char body[sizeof(in) + 100] = "";

	memcpy(body, &in, sizeof(in));
	ask(FUSE_WRITE, node, body, sizeof(body), NULL);
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "dir" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755 };

	fs.cfg.vfs.acdirmin = 30;
	fs.vfs.inodes.acdirmin = fs.vfs.inodes.acdirmax = 30;
	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = 30;
	fs_play_start(&version, &root, &attr);
	getattr(1);                     /* until the first reply there is one credit */
}

static void teardown(void)
{
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	fs_play_end();
}

TestSuite(fs_known, .init = setup, .fini = teardown, .timeout = 300);

/* ---- attributes of directories ---- */

Test(fs_known, a_directory_after_a_change)
{
	mkdir_("a"), done();
	cr_assert_eq(getattr(1), 0, "MKDIR's reply had them");
	cr_assert_eq(getattr(1), 1, "once");
	rename_("a", "b"), done();
	cr_assert_eq(getattr(1), 0, "RENAME");
	unlink_("b"), done();
	cr_assert_eq(getattr(1), 0, "REMOVE");
}

Test(fs_known, a_server_that_does_not_say)
{
	silent = true;
	mkdir_("a"), done();
	cr_assert_eq(getattr(1), 1);
	silent = false;
	mkdir_("b");
	sent[0].rc = -EEXIST;
	done();
	cr_assert_eq(getattr(1), 1, "a failure");
}

/* Version 4. Without other changes in between the owner is that of an earlier reply. */
Test(fs_known, replies_without_owners)
{
	no_owner = true;
	mkdir_("a"), done();
	cr_assert_eq(getattr(1), 0);
	mkdir_("b"), done();
	rename_("b", "c"), done();
	cr_assert_eq(getattr(1), 0, "of the second change the kernel has not asked for the first");
	/* Another client gives the directory away: before, and right behind the change. */
	now++, owner = 7;
	mkdir_("d"), done();
	cr_assert_eq(getattr(1), 1);
	cr_assert_eq(getattr(1), 1);
	mkdir_("e");
	now++, owner = 8;
	sent[0].attr.change = now;
	done();
	cr_assert_eq(getattr(1), 1);
	unlink_("e"), done();
	cr_assert_eq(getattr(1), 0);
	owner = 0;
}

/* The reply says that the file system cannot say what was before, or has it otherwise. */
Test(fs_known, changes_that_are_not_atomic)
{
	no_owner = true;
	mkdir_("a");
	sent[0].before--;
	done();
	cr_assert_eq(getattr(1), 1);
	no_owner = false;
}

Test(fs_known, nothing_is_believed)
{
	fs.vfs.inodes.acdirmin = fs.vfs.inodes.acdirmax = fs.cfg.vfs.acdirmin = 0;
	fs.vfs.inodes.negative_timeo = 0;
	unlink_("a"), done();
	cr_assert_eq(getattr(1), 1, "actimeo=0");
	cr_assert_eq(not_there("a"), 1);
	fs.cfg.vfs.acdirmin = 30;
	fs.cfg.lookupcache = FS_LOOKUPCACHE_POS;
	fs.vfs.inodes.negative_timeo = fs_negative_timeo(&fs.cfg);
	unlink_("b"), done();
	cr_assert_eq(not_there("b"), 1, "lookupcache=positive");
}

/* The call whose reply comes last need not be the one that was executed last. */
Test(fs_known, two_changes_at_once)
{
	static const char *const names[] = { "b", "c" };

	for (unsigned last = 0; last < 2; last++) {
		mkdir_("a");
		unlink_(names[last]);
		reply(last);
		reply(0);
		cr_assert_eq(getattr(1), 1, "order %u", last);
		cr_assert_eq(not_there(names[last]), 1, "order %u", last);
	}
	mkdir_("a"), done();
	mkdir_("b");
	ask_attr(1);
	cr_assert_eq(nsent, 2, "GETATTR while a change is under way");
	done();
}

/* The kernel is told attributes while a change is under way. So those that the change brings
 * must not be kept: the kernel would not ask for them. */
Test(fs_known, told_meanwhile)
{
	mkdir_("a");
	ask_attr(1);
	reply(1);
	reply(0);
	cr_assert_eq(getattr(1), 1);
}

/* The same with an OPEN's attributes, which are newer than the kernel's. */
Test(fs_known, opened_meanwhile)
{
	struct nfs_attr newer = { .mode = S_IFDIR | 0755, .change = 99 };

	mkdir_("a");
	believed_open(&fs.vfs.inodes, fs.root, NULL, &newer, mono_ns());
	done();
	cr_assert_eq(getattr(1), 1);
	opencount_close(&fs.vfs.inodes, fs.root);
}

/* ---- names that are not there ---- */

Test(fs_known, names_that_are_gone)
{
	unlink_("a"), done();
	cr_assert_eq(not_there("a"), 0, "removed");
	cr_assert_eq(not_there("b"), 1, "never asked for");
	cr_assert_eq(not_there("b"), 0, "not found a moment ago");
	mkdir_("a"), done();
	ask_name("a");
	cr_assert_eq(nsent, 1, "made again");
	done();
	rename_("a", "b"), done();
	cr_assert_eq(not_there("a"), 0, "renamed");
	ask_name("b");
	cr_assert_eq(nsent, 1, "renamed to");
	done();
}

Test(fs_known, names_that_may_be_there)
{
	unlink_("a"), done();
	mkdir_("a");
	sent[0].rc = -EIO;
	done();
	cr_assert_eq(not_there("a"), 1, "nobody knows what became of it");
	pass_time(1100);
	not_there("d");                 /* and another client makes it, and a listing has it */
	inode_named(&fs.vfs.inodes, fs.root, fs.root->id, "d");
	ask_name("d");
	cr_assert_eq(nsent, 1);
	done();
	/* LOOKUP is executed, then MKDIR; LOOKUP's reply comes last. */
	next_rc = -ENOENT;
	ask_name("c");
	mkdir_("c");
	reply(1);
	reply(0);
	ask_name("c");
	cr_assert_eq(nsent, 1, "made while it was looked for");
	done();
}

/* A call that creates a name has failed with EIO, and may have created it. A program that
 * gets this error and looks must see the truth, not what the kernel was told before. */
Test(fs_known, an_error_comes_when_the_kernel_asks_again)
{
	uint64_t asked = mono_ns();

	cr_assert_eq(not_there("a"), 1);
	mkdir_("a");
	sent[0].rc = -EIO;
	done();
	cr_assert_eq(answer.count, 0, "the kernel believes that there is no such name");
	pass_time(1100);
	cr_assert(answer.count == 1 && answer.error == -EIO);
	cr_assert_geq(mono_ns() - asked, 1000000000u);
	mkdir_("a");
	sent[0].rc = -EEXIST;
	done();
	cr_assert(answer.count == 1 && answer.error == -EEXIST, "nothing is in doubt");
	fs.cfg.lookupcache = FS_LOOKUPCACHE_POS;
	fs.vfs.inodes.negative_timeo = fs_negative_timeo(&fs.cfg);
	mkdir_("a");
	sent[0].rc = -EIO;
	done();
	cr_assert(answer.count == 1 && answer.error == -EIO, "it was not told to believe that");
}

/* ---- files ---- */

Test(fs_known, a_file_that_was_written)
{
	uint64_t f = the_file(), fh = open_file(f), again, third;

	write_file(f, fh), done();
	cr_assert_eq(getattr(f), 0);
	cr_assert_eq(getattr(f), 1);
	write_file(f, fh);
	write_file(f, fh), done();
	cr_assert_eq(getattr(f), 1, "two at once");
	write_file(f, fh), done();
	notice.count = 0;
	again = open_file(f);
	cr_assert_eq(notice.count, 0, "the kernel asks anyway");
	cr_assert_eq(getattr(f), 0, "OPEN has said the same");
	write_file(f, fh), done();
	now++;                          /* another client */
	third = open_file(f);
	cr_assert_eq(notice.count, 1, "OPEN has said something else");
	cr_assert_eq(getattr(f), 0, "the kernel is told that");
	cr_assert_eq(getattr(f), 1);
	close_file(f, third);
	close_file(f, again);
	close_file(f, fh);
}

/* Its links are fewer, its ctime is another one. */
Test(fs_known, a_file_whose_name_goes)
{
	uint64_t f = the_file(), fh = open_file(f);

	write_file(f, fh), done();
	unlink_("f"), done();           /* it is open: RENAME */
	cr_assert_eq(getattr(f), 1);
	close_file(f, fh);
}

/* Between an ENOENT and its being remembered another thread can make the name. */
Test(fs_known, made_before_it_is_remembered)
{
	uint64_t nr = ownchange_changes(&fs.vfs.inodes, fs.root);

	cr_assert_neq(nr, 0);
	mkdir_("a"), done();
	ownchange_gone(&fs.vfs.inodes, fs.root, nr, "a", UINT64_MAX);
	cr_assert_eq(ownchange_is_gone(&fs.vfs.inodes, fs.root->id, "a"), 0, "made meanwhile");
	ownchange_gone(&fs.vfs.inodes, fs.root, ownchange_changes(&fs.vfs.inodes, fs.root), "b", UINT64_MAX);
	cr_assert_gt(ownchange_is_gone(&fs.vfs.inodes, fs.root->id, "b"), 0);
	mkdir_("b");
	cr_assert_eq(ownchange_is_gone(&fs.vfs.inodes, fs.root->id, "b"), 0, "being made");
	ownchange_gone(&fs.vfs.inodes, fs.root, ownchange_changes(&fs.vfs.inodes, fs.root), "b", UINT64_MAX);
	cr_assert_eq(ownchange_is_gone(&fs.vfs.inodes, fs.root->id, "b"), 0, "a change is under way");
	done();
}
