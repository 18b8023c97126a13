/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * LOOKUPs that a listing answers (src/fs/siblings.h), against a server with one directory
 * (fs_play.h). A stranger changes it between our calls. The calls are counted by their kinds.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "fs_play.h"

/* ---- the server ---- */

#define NAMES 64u

static struct {
	char name[NAMES][16];           /* "": a free place */
	unsigned size[NAMES];
	uint64_t change;
} dir;
static struct sent {
	struct nfs_call *c;
	uint32_t xid;
	int rc;
	unsigned i;                     /* of the name */
	struct nfs_attr dir;            /* the directory when it was executed */
	struct nfs_dir_change change;
} sent[16];
static unsigned nsent, calls[NFS_OP_MAX];

static int find(const char *name)
{
	for (unsigned i = 0; i < NAMES; i++)
		if (strcmp(dir.name[i], name) == 0)
			return (int)i;
	return -1;
}

static unsigned make(const char *name)
{
	int i = find("");

	cr_assert_geq(i, 0);
	strcpy(dir.name[i], name);
	dir.size[i] = 0;
	dir.change++;
	return (unsigned)i;
}

static void drop(const char *name)
{
	dir.name[find(name)][0] = '\0';
	dir.change++;
}

static struct nfs_attr dir_attr(void)
{
	return (struct nfs_attr){ .mode = S_IFDIR | 0755, .nlink = 2, .change = dir.change };
}

static struct nfs_attr attr_of(unsigned i)
{
	return (struct nfs_attr){ .mode = S_IFIFO | 0644, .nlink = 1, .size = dir.size[i],
				  .change = dir.size[i], .mtime.tv_sec = dir.size[i] };
}

static struct nfs_fh fh_of(unsigned i)
{
	struct nfs_fh fh = { .len = 16 };

	memcpy(fh.data, dir.name[i], 16);
	return fh;
}

static int change(struct sent *s, bool there, const char *name, void (*drops)(const char *))
{
	int i = find(name);

	if ((i >= 0) != there)
		return there ? -ENOENT : -EEXIST;
	s->change.before = dir.change;
	if (drops)
		drops(name);
	else
		s->i = make(name);
	s->change.after = dir.change;
	s->change.known = true;
	return 0;
}

static int execute(struct sent *s)
{
	const struct nfs_call *c = s->c;
	int i;

	switch (c->op) {
	case NFS_OP_LOOKUP:
		i = find(c->args.name);
		s->i = (unsigned)i;
		return i < 0 ? -ENOENT : 0;
	case NFS_OP_MKNOD:
		return change(s, false, c->args.name, NULL);
	case NFS_OP_REMOVE:
		return change(s, true, c->args.name, drop);
	case NFS_OP_SETATTR:
		i = find((const char *)c->args.fh->data);
		cr_assert_geq(i, 0);
		s->i = (unsigned)i;
		dir.size[i] = (unsigned)c->args.sattr.size;
		return 0;
	default:
		return 0;
	}
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	struct sent *s = &sent[nsent++];
	uint32_t nothing = 0;

	cr_assert_leq(nsent, 16);
	calls[c->op]++;
	*s = (struct sent){ .c = c, .xid = c->eng.rr.xid };
	s->rc = execute(s);
	s->dir = dir_attr();
	return xdr_uint32_t(x, &nothing);
}

static void list(struct nfs_call *c)
{
	for (unsigned i = 0; i < NAMES; i++) {
		struct nfs_attr a = attr_of(i);
		struct nfs_fh fh = fh_of(i);
		struct nfs_dirent e = {
			.cookie = i + 1, .fileid = i + 1, .name = dir.name[i],
			.namelen = (uint32_t)strlen(dir.name[i]),
		};

		if (!e.namelen)
			continue;
		if (c->args.dir.plus) {
			e.attr = &a;
			e.fh = &fh;
		}
		c->args.dir.entry(c, &e);
	}
	c->res.dir.eof = true;
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
	c->res.has_attr = s.rc == 0;
	c->res.has_dir_attr[0] = s.rc == 0;
	c->res.dir_attr[0] = s.dir;
	c->res.dir_change[0] = s.change;
	c->res.attr = c->op == NFS_OP_GETATTR ? s.dir : attr_of(s.i < NAMES ? s.i : 0);
	c->res.fh = fh_of(s.i < NAMES ? s.i : 0);
	if (c->op == NFS_OP_READDIR && !s.rc)
		list(c);
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
		fs_play_reply(sent[0].xid);
}

/* ---- the kernel ---- */

static uint32_t user;

static void ask(uint32_t opcode, uint64_t node, const void *body, size_t len)
{
	struct fuse_in_header h = fs_play_header(opcode, node, len);

	h.uid = user;
	fs_play_request(&h, body, len);
	fs_play_flush();
}

static void send_make(const char *name)
{
	struct fuse_mknod_in in = { .mode = S_IFIFO | 0644 };
	char body[sizeof(in) + 16];

	memcpy(body, &in, sizeof(in));
	strcpy(body + sizeof(in), name);
	ask(FUSE_MKNOD, 1, body, sizeof(in) + strlen(name) + 1);
}

static void we_make(const char *name)
{
	send_make(name);
	done();
}

static void we_remove(const char *name)
{
	ask(FUSE_UNLINK, 1, name, strlen(name) + 1);
	done();
}

static void getattr(void)
{
	struct fuse_getattr_in in = { 0 };

	ask(FUSE_GETATTR, 1, &in, sizeof(in));
	done();
}

/* The answer: the size, or -1: it does not exist, or -2: an error. */
static const struct fuse_entry_out *entry = (const void *)answer.data;

static int lookup(const char *name)
{
	memset(calls, 0, sizeof(calls));
	ask(FUSE_LOOKUP, 1, name, strlen(name) + 1);
	done();
	cr_assert_eq(answer.count, 1);
	if (answer.error == -ENOENT || (!answer.error && !entry->nodeid))
		return -1;
	return answer.error ? -2 : (int)entry->attr.size;
}

static void expect_calls(unsigned lookups, unsigned readdirs, const char *what)
{
	cr_assert_eq(calls[NFS_OP_LOOKUP], lookups, "%s: %u LOOKUPs", what, calls[NFS_OP_LOOKUP]);
	cr_assert_eq(calls[NFS_OP_READDIR], readdirs, "%s: %u READDIRs", what, calls[NFS_OP_READDIR]);
}

static void not_there(const char *name, unsigned lookups, unsigned readdirs)
{
	cr_assert_eq(lookup(name), -1, "%s", name);
	expect_calls(lookups, readdirs, name);
	cr_assert(!answer.error && entry->entry_valid <= 1);
}

static void there(const char *name, unsigned lookups, unsigned readdirs)
{
	cr_assert_eq(lookup(name), (int)dir.size[find(name)], "%s", name);
	expect_calls(lookups, readdirs, name);
}

/* It may be found by a LOOKUP, or by a listing that is newer than that. */
static void seen(const char *name)
{
	cr_assert_eq(lookup(name), (int)dir.size[find(name)], "%s", name);
	cr_assert(calls[NFS_OP_LOOKUP] || calls[NFS_OP_READDIR], "%s", name);
}

/* What known.h remembers of names is not what is tested here. */
static void forget_names(void)
{
	for (unsigned i = 0; i < NAME_SHARDS; i++) {
		free(fs.inodes.names[i].gone);
		fs.inodes.names[i].gone = NULL;
	}
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "dir" };
	struct nfs_attr attr;

	dir.change = 100;
	make("old");
	make("Older");
	attr = dir_attr();
	fs.cfg.acregmin = fs.inodes.acregmin = fs.inodes.acregmax = 30;
	fs.cfg.acdirmin = fs.inodes.acdirmin = fs.inodes.acdirmax = 30;
	fs_play_start(&version, &root, &attr);
	getattr();                      /* until the first reply there is one credit */
}

static void teardown(void)
{
	cr_assert(list_empty(&fl->active), "a request was left");
	fs_play_end();
}

TestSuite(fs_siblings, .init = setup, .fini = teardown, .timeout = 120);

/* ---- names that are not there ---- */

/* A stranger makes a name and says so: it is there at once, whatever a listing says. */
Test(fs_siblings, names_of_strangers)
{
	char name[16];

	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		cr_assert_eq(lookup(name), -1);
		we_make(name);
		snprintf(name, sizeof(name), "t%u", i);
		make(name);
		seen(name);
	}
}

Test(fs_siblings, nothing_is_believed)
{
	fs.cfg.lookupcache = FS_LOOKUPCACHE_NONE;
	for (unsigned i = 0; i < 9; i++)
		there("old", 1, 0);
	fs.cfg.lookupcache = FS_LOOKUPCACHE_ALL;
	fs.inodes.acregmin = 0;
	for (unsigned i = 0; i < 9; i++)
		there("old", 1, 0);
}

/* ---- names that are there ---- */

static void list_here(void)
{
	for (unsigned i = 0; i < 8; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		dir.size[make(name)] = 10 + i;
	}
	getattr();
	there("f0", 1, 0);
	there("f1", 1, 0);
	there("f2", 1, 0);
	there("f3", 0, 1);
	there("f4", 0, 0);
	cr_assert(entry->entry_valid < 30 && entry->attr_valid < 30);
}

Test(fs_siblings, looking_at_files)
{
	list_here();
	there("f5", 0, 0);
	not_there("none", 1, 0);
	dir.size[find("f6")]++;         /* a stranger's: seen a second later at most */
	fs_play_run(1050);
	there("f6", 1, 0);
}

Test(fs_siblings, files_that_we_change)
{
	struct fuse_setattr_in in = { .valid = FATTR_SIZE, .size = 500 };
	uint64_t node;

	list_here();
	cr_assert_eq(lookup("f4"), 14);
	node = entry->nodeid;
	/* While it is being changed, and behind that. */
	ask(FUSE_SETATTR, node, &in, sizeof(in));
	memset(calls, 0, sizeof(calls));
	ask(FUSE_LOOKUP, 1, "f4", 3);
	cr_assert_eq(calls[NFS_OP_LOOKUP], 1);
	done();
	there("f4", 1, 0);
	cr_assert_eq(dir.size[find("f4")], 500);
	we_remove("f5");
	cr_assert_eq(lookup("f5"), -1);
	we_make("f5");
	there("f5", 1, 0);
	there("f6", 0, 0);
}

static void find_three(void)
{
	make("a"), make("b"), make("c"), make("d");
	there("a", 1, 0);
	there("b", 1, 0);
	there("c", 1, 0);
	memset(calls, 0, sizeof(calls));
}

/* Another lane changes a name while the listing is under way: before it, or after. */
static void change_while_listed(bool first)
{
	find_three();
	if (first)
		ask(FUSE_UNLINK, 1, "d", 2);
	ask(FUSE_LOOKUP, 1, "old", 4);
	if (!first)
		ask(FUSE_UNLINK, 1, "d", 2);
	cr_assert(nsent == 2 && calls[NFS_OP_READDIR] == 1);
	fs_play_reply(sent[first].xid);
	done();
	cr_assert_eq(calls[NFS_OP_LOOKUP], 1);
	forget_names();
	not_there("d", 1, 0);
	there("Older", 1, 0);
}

Test(fs_siblings, our_change_before_a_listing)
{
	change_while_listed(true);
}

Test(fs_siblings, our_change_after_a_listing)
{
	change_while_listed(false);
}

Test(fs_siblings, another_user)
{
	list_here();
	user = 7;
	there("f6", 1, 0);
	user = 0;
}

Test(fs_siblings, a_directory_that_cannot_be_read)
{
	find_three();
	ask(FUSE_LOOKUP, 1, "d", 2);
	cr_assert(nsent == 1 && calls[NFS_OP_READDIR] == 1);
	sent[0].rc = -EACCES;
	done();
	cr_assert(calls[NFS_OP_LOOKUP] == 1 && answer.error == 0);
	for (unsigned i = 0; i < 9; i++)
		there("old", 1, 0);
}

/* What was known of a file is forgotten with its inode. A listing from before is not to
 * bring the old size back. */
Test(fs_siblings, a_file_that_is_forgotten)
{
	struct fuse_setattr_in in = { .valid = FATTR_SIZE, .size = 500 };
	struct fuse_forget_in forget = { .nlookup = 1 };
	uint64_t node;

	list_here();
	there("f7", 0, 0);
	node = entry->nodeid;
	ask(FUSE_SETATTR, node, &in, sizeof(in));
	done();
	ask(FUSE_FORGET, node, &forget, sizeof(forget));
	there("f7", 1, 0);
	cr_assert_eq(entry->attr.size, 500);
}

/* The kernel looks the name up again to hear the truth. */
Test(fs_siblings, after_estale)
{
	struct fuse_getattr_in in = { 0 };

	list_here();
	there("f5", 0, 0);
	ask(FUSE_GETATTR, entry->nodeid, &in, sizeof(in));
	sent[0].rc = -ESTALE;
	done();
	cr_assert_eq(answer.error, -ESTALE);
	drop("f5");
	cr_assert_eq(lookup("f5"), -1);
	expect_calls(1, 0, "f5");
	there("f6", 1, 0);
}

/* Listings that nobody uses become rare. */
Test(fs_siblings, listings_that_are_not_used)
{
	unsigned listings = 0;

	list_here();
	for (unsigned i = 0; i < 60; i++) {
		atomic_store(&fs.inodes.stale_ns, mono_ns());   /* of no use, each */
		lookup("f5");
		listings += calls[NFS_OP_READDIR];
	}
	cr_assert_leq(listings, 3, "%u", listings);
}

/* ---- anything ---- */

static unsigned roll(unsigned n)
{
	static unsigned long long x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (unsigned)(x % n);
}

/*
 * We and a stranger make and remove names at random. What is there is found. What we have
 * removed is not, unless the stranger has made it since; what he has removed may be found for
 * a second.
 */
Test(fs_siblings, anything)
{
	bool theirs[20] = { false };    /* the stranger was the last one to change the name */
	unsigned saved = 0;
	char name[16];

	for (unsigned i = 0; i < 20000; i++) {
		unsigned n = roll(20);
		bool is;
		int got;

		snprintf(name, sizeof(name), "r%u", n);
		is = find(name) >= 0;
		forget_names();
		switch (roll(12)) {
		case 0:
			if (is)
				drop(name);
			else
				make(name);
			theirs[n] = true;
			break;
		case 1:
			if (is)
				we_remove(name);
			else
				we_make(name);
			theirs[n] = false;
			break;
		default:
			got = lookup(name);
			saved += !calls[NFS_OP_LOOKUP] && !calls[NFS_OP_READDIR];
			cr_assert(got >= 0 || !is, "step %u: %s", i, name);
			cr_assert(got < 0 || is || theirs[n], "step %u: %s", i, name);
		}
	}
	cr_assert_gt(saved, 1000, "%u", saved);
}
