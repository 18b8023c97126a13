/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Directories that this mount has made with consistency=solo (solo_dirs.h): which LOOKUPs are sent,
 * and which are answered without. The kernel and the server are played (fs_play.h). The server
 * executes a call when it is sent, and the test says when its reply comes. What it has is a change
 * attribute for each directory; a name exists if the test says so.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "fs_play.h"

/* ---- the server ---- */

static struct sent {
	struct nfs_call *c;
	uint32_t xid;
	struct nfs_dir_change change[2];
	uint64_t attr_change;
	int rc;
} sent[16];
static unsigned nsent, lookups;
static uint64_t change[256];            /* by the first letter of a directory's handle */
static bool not_atomic;
static bool found;                      /* MKDIR's reply was lost, and the directory is found by a LOOKUP */
static const char *there;               /* a name that LOOKUP finds: a file */

static uint64_t *change_of(const struct nfs_fh *fh)
{
	return &change[fh->data[0]];
}

static struct nfs_dir_change changed(const struct nfs_fh *dir)
{
	uint64_t *n = change_of(dir);

	++*n;
	return (struct nfs_dir_change){ !not_atomic, *n - 1, *n };
}

static void execute(struct sent *s)
{
	const struct nfs_args *a = &s->c->args;

	switch (s->c->op) {
	case NFS_OP_RENAME:
		s->change[0] = changed(a->fh);
		s->change[1] = a->fh == a->fh2 ? s->change[0] : changed(a->fh2);
		return;
	case NFS_OP_LINK:
		s->change[1] = changed(a->fh2);
		return;
	case NFS_OP_MKDIR:
		change[(uint8_t)a->name[0]] = 1000;
		s->change[0] = changed(a->fh);
		return;
	case NFS_OP_CREATE:
	case NFS_OP_REMOVE:
		s->change[0] = changed(a->fh);
		return;
	case NFS_OP_SETATTR:
		++*change_of(a->fh);
		return;
	case NFS_OP_LOOKUP:
		lookups++;
		s->rc = there && strcmp(there, a->name) == 0 ? 0 : -ENOENT;
		return;
	default:
		return;
	}
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;
	struct sent *s = &sent[nsent++];

	cr_assert_leq(nsent, 16);
	*s = (struct sent){ .c = c, .xid = c->eng.rr.xid };
	execute(s);
	s->attr_change = *change_of(c->args.fh);
	return xdr_uint32_t(x, &nothing);
}

static bool is_of_a_directory(const struct nfs_call *c)
{
	return c->op == NFS_OP_MKDIR ||
	       ((c->op == NFS_OP_GETATTR || c->op == NFS_OP_SETATTR) && c->args.fh->data[0] != 'F');
}

/* A directory's handle is its name, and a file's is F and its name. */
static int decode(struct nfs_call *c, XDR *x)
{
	bool dir = is_of_a_directory(c);
	unsigned i = 0;
	struct sent s;

	(void)x;
	while (sent[i].c != c || sent[i].xid != c->eng.rr.xid)
		cr_assert_lt(++i, nsent);
	s = sent[i];
	sent[i] = sent[--nsent];
	c->res.attr = (struct nfs_attr){
		.mode = dir ? S_IFDIR | 0755 : S_IFREG | 0644, .nlink = 1,
		.change = c->op == NFS_OP_MKDIR ? 1000 : s.attr_change,
	};
	c->res.has_attr = s.rc == 0;
	c->res.found = c->op == NFS_OP_MKDIR && found;
	memcpy(c->res.dir_change, s.change, sizeof(s.change));
	c->res.fh = (struct nfs_fh){ .len = 32 };
	if (c->args.name)
		snprintf((char *)c->res.fh.data, 32, "%s%s", dir ? "" : "F", c->args.name);
	if (c->op == NFS_OP_CREATE && s.rc == 0)
		c->open = calloc(1, 8);
	return s.rc;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

static void done(void)
{
	while (nsent)
		lane_play_reply(sent[0].xid);
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

static uint64_t node_of_answer(void)
{
	const struct fuse_entry_out *out = (const void *)answer.data;

	cr_assert(answer.count == 1 && answer.error == 0, "error %d", answer.error);
	return out->nodeid;
}

static void ask_mkdir(uint64_t dir, const char *name)
{
	struct fuse_mkdir_in in = { .mode = 0755 };

	ask(FUSE_MKDIR, dir, &in, sizeof(in), name);
}

static uint64_t mkdir_(const char *name)
{
	ask_mkdir(FUSE_ROOT_ID, name);
	done();
	return node_of_answer();
}

static void make(uint64_t dir, const char *name)
{
	ask_mkdir(dir, name);
	done();
	node_of_answer();
}

static void ask_lookup(uint64_t dir, const char *name)
{
	ask(FUSE_LOOKUP, dir, name, strlen(name) + 1, NULL);
}

/* Is the server asked for that name? */
static bool is_asked(uint64_t dir, const char *name)
{
	unsigned before = lookups;

	ask_lookup(dir, name);
	done();
	cr_assert_eq(answer.count, 1);
	if (!there || strcmp(there, name))
		cr_assert(answer.error == -ENOENT || node_of_answer() == 0);
	return lookups > before;
}

static void rename_to(uint64_t dir, const char *name, uint64_t newdir, const char *newname)
{
	struct fuse_rename_in in = { .newdir = newdir };
	char body[sizeof(in) + 32];

	memcpy(body, &in, sizeof(in));
	strcpy(body + sizeof(in), name);
	ask(FUSE_RENAME, dir, body, sizeof(in) + strlen(name) + 1, newname);
}

static void unlink_(uint64_t dir, const char *name)
{
	ask(FUSE_UNLINK, dir, name, strlen(name) + 1, NULL);
}

static void link_to(uint64_t node, uint64_t dir, const char *name)
{
	struct fuse_link_in in = { .oldnodeid = node };

	ask(FUSE_LINK, dir, &in, sizeof(in), name);
}

static void getattr(uint64_t node)
{
	struct fuse_getattr_in in = { 0 };

	ask(FUSE_GETATTR, node, &in, sizeof(in), NULL);
	done();
}

static void chmod_(uint64_t node)
{
	struct fuse_setattr_in in = { .valid = FATTR_MODE, .mode = 0700 };

	ask(FUSE_SETATTR, node, &in, sizeof(in), NULL);
	done();
}

static uint64_t d;

static void setup(void)
{
	static const struct nfs_fh root = { .len = 32, .data = "/" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755 };

	fs.cfg.vfs.solo = true;
	fs.cfg.vfs.acdirmin = 3600;
	fs.vfs.inodes.acdirmin = fs.vfs.inodes.acdirmax = 3600;
	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = 3600;
	fs_play_start(&version, &root, &attr);
	getattr(FUSE_ROOT_ID);          /* until the first reply there is one credit */
	d = mkdir_("d");
}

static void teardown(void)
{
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	fs_play_end();
}

TestSuite(fs_solo_dirs, .init = setup, .fini = teardown, .timeout = 300);

/* ---- names ---- */

Test(fs_solo_dirs, names_that_were_never_made)
{
	cr_assert(is_asked(FUSE_ROOT_ID, "a"), "this mount has not made the root");
	cr_assert_not(is_asked(d, "a"));
	make(d, "a");
	cr_assert_not(is_asked(d, "b"));
	there = "a";
	cr_assert(is_asked(d, "a"));
	there = NULL;
	cr_assert(is_asked(d, "A"), "the server may not tell A from a");
}

Test(fs_solo_dirs, a_name_that_is_being_made)
{
	ask_mkdir(d, "a");
	ask_lookup(d, "a");             /* the one who makes it was killed */
	cr_assert_eq(nsent, 2);
	done();
}

Test(fs_solo_dirs, nobody_knows_whether_it_was_made)
{
	ask_mkdir(d, "a");
	sent[0].rc = -EIO;
	done();
	lane_play_run(1100), lane_play_flush();
	cr_assert(is_asked(d, "a"));
}

Test(fs_solo_dirs, linked_and_renamed_to)
{
	uint64_t f;

	there = "f";
	ask_lookup(FUSE_ROOT_ID, "f"), done();
	f = node_of_answer();
	link_to(f, d, "l"), done();
	rename_to(FUSE_ROOT_ID, "f", d, "r"), done();
	cr_assert_not(is_asked(d, "a"));
	there = "l";
	cr_assert(is_asked(d, "l"));
	there = "r";
	cr_assert(is_asked(d, "r"));
}

/* A listing has it, which somebody else has made: what ls shows can be opened. */
Test(fs_solo_dirs, a_name_that_was_seen)
{
	inode_named(&fs.vfs.inodes, fs.root, d, "a");
	there = "a";
	cr_assert(is_asked(d, "a"));
}

Test(fs_solo_dirs, nobody_knows_who_has_made_the_directory)
{
	uint64_t e;

	found = true;
	e = mkdir_("e");
	cr_assert(is_asked(e, "a"));
}

/* unlink() of an open file renames it. */
Test(fs_solo_dirs, silly_names)
{
	struct fuse_create_in in = { .flags = O_RDWR, .mode = 0644 };
	struct fuse_release_in release = { 0 };
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} made;
	char silly[64] = "";

	ask(FUSE_CREATE, d, &in, sizeof(in), "f"), done();
	cr_assert_eq(answer.error, 0);
	memcpy(&made, answer.data, sizeof(made));
	unlink_(d, "f");
	cr_assert(nsent == 1 && sent[0].c->op == NFS_OP_RENAME);
	strcpy(silly, sent[0].c->args.name2);
	done();
	cr_assert_not(is_asked(d, "a"));
	there = silly;
	cr_assert(is_asked(d, silly));
	there = NULL;
	release.fh = made.open.fh;
	ask(FUSE_RELEASE, made.entry.nodeid, &release, sizeof(release), NULL);
	done();
}

Test(fs_solo_dirs, names_with_other_forms)
{
	static const char *const asked[] = { ".snapshot", "LONGNA~1", "a.", "a ", "a:b", "\xc3\xa4" };

	for (unsigned i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		cr_assert(is_asked(d, asked[i]), "%s", asked[i]);
	make(d, ".hidden");
	cr_assert_not(is_asked(d, "a"));
	make(d, "\xe2\x84\xaa");        /* the unit Kelvin: a server that folds case has a k */
	cr_assert(is_asked(d, "a"));
}

/* ---- changes ---- */

Test(fs_solo_dirs, somebody_else_between_two_changes)
{
	make(d, "a");
	cr_assert_not(is_asked(d, "b"));
	change['d']++;
	make(d, "c");
	cr_assert(is_asked(d, "b"));
}

Test(fs_solo_dirs, somebody_else_seen_by_getattr)
{
	getattr(d);
	cr_assert_not(is_asked(d, "b"), "it is as it was");
	change['d']++;
	getattr(d);
	cr_assert(is_asked(d, "b"));
}

Test(fs_solo_dirs, not_atomic)
{
	not_atomic = true;
	make(d, "a");
	cr_assert(is_asked(d, "b"));
}

Test(fs_solo_dirs, a_change_that_failed)
{
	ask_mkdir(d, "a");
	sent[0].rc = -EEXIST;
	done();
	cr_assert(is_asked(d, "b"));
}

Test(fs_solo_dirs, the_directory_itself_is_changed)
{
	chmod_(d);
	cr_assert(is_asked(d, "b"));
}

Test(fs_solo_dirs, changes_of_all_kinds)
{
	make(d, "a"), make(d, "b");
	rename_to(d, "a", d, "c"), done();
	unlink_(d, "b"), done();
	cr_assert_not(is_asked(d, "x"));
}

/* ---- time and room ---- */

static struct solo_dirs one;

static void begin_one(void)
{
	solo_dirs_init(&one);
}

static void end_one(void)
{
	solo_dirs_fini(&one);
}

TestSuite(solo_dirs, .init = begin_one, .fini = end_one, .timeout = 300);

Test(solo_dirs, a_directory_that_was_left_alone)
{
	uint64_t old = mono_ns() - SOLO_DIR_S * 1000000000ull;
	struct nfs_dir_change c = { true, 5, 6 };

	solo_dir_made(&one, 7, 5, old);
	cr_assert_not(solo_dir_lacks(&one, 7, "a"), "somebody may have made it");
	solo_dir_adds(&one, 7, "b");
	solo_dir_changed(&one, 7, &c, mono_ns());
	cr_assert(solo_dir_lacks(&one, 7, "a"), "nobody has");
	cr_assert_not(solo_dir_lacks(&one, 7, "b"));
}

Test(solo_dirs, no_room)
{
	uint64_t now = mono_ns();
	unsigned known = 0;

	for (uint64_t id = 1; id <= 10000; id++)
		solo_dir_made(&one, id, 1, now + id);
	for (uint64_t id = 1; id <= 10000; id++)
		known += solo_dir_lacks(&one, id, "a");
	cr_assert_eq(known, SOLO_DIR_SHARDS * SOLO_DIR_WAYS);
	cr_assert(solo_dir_lacks(&one, 10000, "a"), "the newest one");
	solo_dir_adds(&one, 1, "a");    /* what is not known does no harm */
	solo_dir_changed(&one, 1, NULL, now);
	solo_dir_seen(&one, 1, 2);
}

Test(solo_dirs, very_many_names)
{
	char name[32];

	solo_dir_made(&one, 7, 1, mono_ns());
	for (unsigned i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		solo_dir_adds(&one, 7, name);
		cr_assert_not(solo_dir_lacks(&one, 7, name));
	}
}

/* A directory that is made anew under the same id is empty. */
Test(solo_dirs, made_again)
{
	solo_dir_made(&one, 7, 1, mono_ns());
	solo_dir_adds(&one, 7, "a");
	solo_dir_made(&one, 7, 1, mono_ns());
	cr_assert(solo_dir_lacks(&one, 7, "a"));
}
