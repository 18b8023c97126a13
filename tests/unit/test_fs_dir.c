/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Directory streams without a kernel and without a protocol (fs_play.h). The version's only
 * operation reads a directory in this file.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fs_play.h"

#define MANY 300u

static uint64_t fh;                     /* of the open directory */

/* ---- the directory on the server ---- */

enum { ATTR = 1, HANDLE = 2, BOTH = 3 };

static struct {
	struct { char name[301]; uint64_t cookie; unsigned has; } e[MANY + 4];
	unsigned n, per_reply;
	uint64_t verf;                  /* a cookie with another is refused, but for 0 */
	int fail;                       /* what the next replies return... */
	unsigned fails;                 /* ...so many */
	unsigned silent;                /* so many replies: no entries, and not the end */
	bool no_fileids;
	unsigned turn, back;            /* what comes after entry `turn` is entry `back` */
	unsigned rpcs;
	uint64_t cookie, asked_verf;    /* of the last one */
	bool plus;
} dir;

static void add(const char *name, uint64_t cookie, unsigned has)
{
	strcpy(dir.e[dir.n].name, name);
	dir.e[dir.n].cookie = cookie;
	dir.e[dir.n++].has = has;
}

/* Cookies that tell nothing about the order. */
static uint64_t cookie_of(unsigned i)
{
	return 1000 + i * 0x9e3779b97f4a7c15u % 0x7fffffffffffff;
}

static void add_many(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char name[40];

		snprintf(name, sizeof(name), "entry-%u%.*s", i, (int)(i % 20), "xxxxxxxxxxxxxxxxxxxx");
		add(name, cookie_of(i), BOTH);
	}
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	dir.rpcs++;
	dir.cookie = c->args.dir.cookie;
	dir.asked_verf = c->args.dir.verf;
	dir.plus = c->args.dir.plus;
	return xdr_uint32_t(x, &nothing);
}

static bool pass(struct nfs_call *c, unsigned i)
{
	uint64_t fileid = dir.no_fileids ? 0 : 5000 + i;
	struct nfs_attr attr = { .mode = S_IFREG | 0644, .fileid = fileid };
	struct nfs_fh h = { .len = 4 };
	struct nfs_dirent e = {
		.cookie = dir.e[i].cookie, .fileid = fileid, .name = dir.e[i].name,
		.namelen = (uint32_t)strlen(dir.e[i].name),
		.attr = dir.e[i].has & ATTR ? &attr : NULL,
		.fh = dir.e[i].has & HANDLE ? &h : NULL,
	};

	memcpy(h.data, &i, 4);
	c->res.dir.entries++;
	return c->args.dir.entry(c, &e);
}

static int decode(struct nfs_call *c, XDR *x)
{
	unsigned i = 0, end;

	if (dir.fails) {
		dir.fails--;
		return dir.fail;
	}
	if (c->args.dir.cookie && c->args.dir.verf && c->args.dir.verf != dir.verf)
		return -NFS_ECOOKIE;
	if (c->args.dir.cookie) {
		while (i < dir.n && dir.e[i].cookie != c->args.dir.cookie)
			i++;
		if (i++ == dir.n)
			return -NFS_ECOOKIE;
		if (dir.turn && i > dir.turn)
			i = dir.back;
	}
	c->res.dir.entries = 0;
	c->res.dir.verf = dir.verf;
	c->res.dir.eof = false;
	if (dir.silent) {
		dir.silent--;
		return 0;
	}
	for (end = dir.per_reply; end && i < dir.n && pass(c, i); end--, i++)
		if (dir.turn && i == dir.turn)
			i = dir.back - 1;
	c->res.dir.eof = i == dir.n;
	return 0;
}

static const struct nfs_opdef readdir_op = {
	.name = "READDIR", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [NFS_OP_READDIR] = &readdir_op },
};

/* ---- what FUSE asks ---- */

static void ask(uint32_t opcode, const void *body, size_t len)
{
	fs_play_ask(opcode, FUSE_ROOT_ID, body, len);
}

/* The references of a node that the kernel knows; not counting the one that it
 * takes to look. */
static uint64_t refs_of(uint64_t node)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, node);
	uint64_t n;

	cr_assert_not_null(ino);
	n = atomic_load(&ino->refs);
	inode_put(&fs.vfs.inodes, ino, 1);
	return n - 1;
}

static void forget_node(uint64_t node)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, node);

	cr_assert_not_null(ino);
	cr_assert(believed_forget(&fs.vfs.inodes, ino, 1));
	inode_put(&fs.vfs.inodes, ino, 1);
}

static void ask_dir(bool plus, uint64_t off, uint32_t size)
{
	struct fuse_read_in in = { .fh = fh, .offset = off, .size = size };

	ask(plus ? FUSE_READDIRPLUS : FUSE_READDIR, &in, sizeof(in));
}

static uint64_t open_dir(void)
{
	struct fuse_open_in in = { 0 };
	struct fuse_open_out out;

	ask(FUSE_OPENDIR, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0 && answer.len == sizeof(out));
	memcpy(&out, answer.data, sizeof(out));
	return out.fh;
}

static void close_dir(uint64_t which)
{
	struct fuse_release_in in = { .fh = which };

	ask(FUSE_RELEASEDIR, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0);
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 4, .data = "root" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755 };

	log_set_level(LOG_LVL_ERR);
	fs_play_start(&version, &root, &attr);
	memset(&dir, 0, sizeof(dir));
	dir.per_reply = 100;
	dir.verf = 0x5e4f;
	fh = open_dir();
}

static void teardown(void)
{
	close_dir(fh);
	cr_assert_eq(atomic_load(&fs.root->refs), 1, "streams hold the directory no more");
	fs_play_end();
}

TestSuite(fs_dir, .init = setup, .fini = teardown, .timeout = 300);

/* ---- reading it ---- */

static struct {
	struct { char name[256]; uint64_t off, ino, node; } e[2 * MANY];
	unsigned n;
} got;

/* Adds what the answer has; the offset of its last entry, or 0. */
static uint64_t take_answer(bool plus)
{
	uint64_t last = 0;

	for (size_t at = 0; at < answer.len; got.n++) {
		size_t head = plus ? sizeof(struct fuse_entry_out) : 0;
		struct fuse_entry_out entry = { 0 };
		struct fuse_dirent d;

		cr_assert_lt(got.n, 2 * MANY);
		memcpy(&entry, answer.data + at, head);
		memcpy(&d, answer.data + at + head, offsetof(struct fuse_dirent, name));
		cr_assert_leq(d.namelen, 255);
		memcpy(got.e[got.n].name, answer.data + at + head + offsetof(struct fuse_dirent, name),
		       d.namelen);
		got.e[got.n].name[d.namelen] = '\0';
		got.e[got.n].off = last = d.off;
		got.e[got.n].ino = d.ino;
		got.e[got.n].node = entry.nodeid;
		at += head + FUSE_DIRENT_ALIGN(offsetof(struct fuse_dirent, name) + d.namelen);
	}
	return last;
}

/* One request; the offset to go on from, 0 at the end. */
static uint64_t read_some(bool plus, uint64_t off, uint32_t size)
{
	ask_dir(plus, off, size);
	lane_play_serve();
	cr_assert(answer.count == 1 && answer.error == 0, "error %d", answer.error);
	cr_assert_leq(answer.len, size);
	return take_answer(plus);
}

static void read_from(bool plus, uint64_t off, uint32_t size)
{
	uint64_t next;

	got.n = 0;
	while ((next = read_some(plus, off, size)))
		off = next;
}

/* Forgets the inodes that the kernel was given. */
static void forget(void)
{
	for (unsigned i = 0; i < got.n; i++)
		if (got.e[i].node)
			forget_node(got.e[i].node);
}

static void expect_listing(unsigned from)
{
	unsigned dots = from == 0 ? 2 : 0, first = from ? from - 1 : 0;

	cr_assert_eq(got.n, dots + dir.n - first, "%u entries from %u", got.n, from);
	if (dots) {
		cr_assert(!strcmp(got.e[0].name, ".") && got.e[0].off == 1);
		cr_assert(!strcmp(got.e[1].name, "..") && got.e[1].off == 2);
	}
	for (unsigned i = dots; i < got.n; i++) {
		unsigned k = first + i - dots;

		cr_assert_str_eq(got.e[i].name, dir.e[k].name);
		cr_assert_eq(got.e[i].off, dir.e[k].cookie, "the server's cookie");
		cr_assert_eq(got.e[i].ino, 5000 + k);
	}
}

Test(fs_dir, whole_listing)
{
	static const uint32_t sizes[] = { 220, 4096, 65536, 1 << 20 };
	static const unsigned per_reply[] = { 1, 7, 100, 1000 };

	add_many(MANY);
	for (unsigned plus = 0; plus < 2; plus++) {
		for (unsigned s = 0; s < 4; s++) {
			for (unsigned p = 0; p < 4; p++) {
				dir.per_reply = per_reply[p];
				dir.rpcs = 0;
				read_from(plus, 0, sizes[s]);
				expect_listing(0);
				cr_assert_eq(dir.rpcs, (MANY + per_reply[p] - 1) / per_reply[p],
					     "no entry is asked for twice, nor after the end");
				if (plus)
					forget();
			}
		}
	}
	cr_assert_eq(atomic_load(&fs.vfs.inodes.count), 1, "every inode was given back");
}

Test(fs_dir, empty)
{
	read_from(false, 0, 4096);
	cr_assert(got.n == 2 && dir.rpcs == 1);
}

/* Dots that the server sends are not shown: ours are. */
Test(fs_dir, dots_of_the_server)
{
	dir.per_reply = 2;
	add(".", 1, BOTH);
	add("..", 2, BOTH);
	add("...", 3, BOTH);
	add(".a", 4, BOTH);
	read_from(false, 0, 4096);
	cr_assert(got.n == 4 && !strcmp(got.e[2].name, "...") && !strcmp(got.e[3].name, ".a"));
	cr_assert_eq(dir.rpcs, 2, "a reply of nothing but dots is not the end");
}

Test(fs_dir, names_that_do_not_fit)
{
	char name[301];

	add("before", 10, BOTH);
	memset(name, 'n', 300);
	name[300] = '\0';
	add(name, 11, BOTH);
	name[256] = '\0';
	add(name, 12, BOTH);
	name[255] = '\0';
	add(name, 13, BOTH);
	read_from(true, 0, 4096);
	cr_assert_eq(got.n, 4, "longer than 255 bytes is left out");
	cr_assert_str_eq(got.e[3].name, name);
	forget();
	/* Only such names, and more to come behind them. */
	dir.per_reply = 1;
	read_from(false, 0, 4096);
	cr_assert_eq(got.n, 4);
}

/* Nothing else tells why a directory cannot be removed that seems to be empty. */
Test(fs_dir, a_name_that_does_not_fit_is_said_once)
{
	char name[257], file[] = "/tmp/test_fs_dir.XXXXXX", said[2000] = "", *at;
	struct nfs_attr attr = { .mode = S_IFDIR | 0755, .fileid = 1 };
	struct nfs_fh a = { .len = 1, .data = "a" }, b = { .len = 1, .data = "b" };
	struct inode *one = inode_get(&fs.vfs.inodes, &a, &attr, fs.root->id, "one", 3, mono_ns());
	struct inode *two = inode_get(&fs.vfs.inodes, &b, &attr, one->id, "two", 3, mono_ns());
	struct fuse_open_in in = { 0 };
	int old = dup(2), out = mkstemp(file);

	unlink(file);
	fs.vfs.place = "/mnt";
	memset(name, 'n', 256);
	name[256] = '\0';
	add(name, 10, BOTH);
	log_set_level(LOG_LVL_WARN);
	close_dir(fh);
	fs_play_ask(FUSE_OPENDIR, two->id, &in, sizeof(in));
	memcpy(&fh, answer.data, sizeof(fh));
	dup2(out, 2);
	for (unsigned i = 0; i < 2; i++)
		read_from(false, 0, 4096);
	dup2(old, 2);
	cr_assert_gt(pread(out, said, sizeof(said) - 1, 0), 0, "nothing was said");
	at = strstr(said, "a name in '/mnt/one/two' has 256 bytes");
	cr_assert(at && !strstr(at + 1, "a name in"), "%s", said);
	inode_put(&fs.vfs.inodes, two, 1);
	inode_put(&fs.vfs.inodes, one, 1);
	close(out);
	close(old);
}

/* Programs take an entry with the number 0 for a removed one, and do not show it. */
Test(fs_dir, entries_without_numbers)
{
	dir.no_fileids = true;
	add("attributes", 10, BOTH);
	add("none", 11, 0);
	for (unsigned plus = 0; plus < 2; plus++) {
		read_from(plus, 0, 4096);
		cr_assert_eq(got.n, 4);
		for (unsigned i = 0; i < 4; i++)
			cr_assert_neq(got.e[i].ino, 0, "%s, plus %u", got.e[i].name, plus);
	}
	forget();
}

/* ---- offsets ---- */

/* From each entry's offset the rest follows: in the same stream, in another,
 * and in any order, as after seekdir(). */
Test(fs_dir, offsets_are_stable)
{
	uint64_t first = fh;

	add_many(MANY);
	dir.per_reply = 37;
	for (unsigned i = 0; i < MANY; i += 7) {
		unsigned k = (i * 211) % MANY;

		fh = i % 2 ? first : open_dir();
		read_from(false, dir.e[k].cookie, 1000);
		expect_listing(k + 2);
		if (fh != first)
			close_dir(fh);
	}
	fh = first;
	read_from(false, 1, 4096);
	cr_assert(got.n == MANY + 1 && !strcmp(got.e[0].name, ".."));
	read_from(false, 2, 4096);
	cr_assert(got.n == MANY && !strcmp(got.e[0].name, dir.e[0].name));
}

/* Back by a page: what is kept serves without the server. */
Test(fs_dir, seek_within_what_is_kept)
{
	add_many(50);
	read_from(false, 0, 500);
	cr_assert_eq(dir.rpcs, 1);
	for (unsigned k = 50; k-- > 0; ) {
		read_from(false, dir.e[k].cookie, 500);
		expect_listing(k + 2);
	}
	cr_assert_eq(dir.rpcs, 1);
}

Test(fs_dir, rewind_shows_what_is_new)
{
	add_many(10);
	read_from(false, 0, 4096);
	add("newcomer", 7, BOTH);
	read_from(false, 0, 4096);
	expect_listing(0);
	cr_assert_eq(dir.rpcs, 2);
	cr_assert(dir.cookie == 0 && dir.asked_verf == 0);
}

/* What the next request needs goes along: the cookie and its verifier. */
Test(fs_dir, verifier)
{
	add_many(20);
	dir.per_reply = 10;
	read_from(false, 0, 65536);
	cr_assert(dir.rpcs == 2 && dir.cookie == dir.e[9].cookie && dir.asked_verf == 0x5e4f);
	cr_assert(dir.plus, "asked with attributes, whatever the kernel wants of them");
	atomic_store(&fs.vfs.cl->no_plus, true);
	read_from(true, 0, 65536);
	cr_assert(!dir.plus && got.n == 22, "but not of a server that has none");
	forget();
}

/* ---- failures ---- */

static int error_of(uint64_t off)
{
	ask_dir(false, off, 4096);
	lane_play_serve();
	cr_assert_eq(answer.count, 1);
	return answer.error;
}

Test(fs_dir, errors)
{
	static const int errors[] = { -EACCES, -ESTALE, -EIO, -ENOTDIR };

	add_many(20);
	dir.per_reply = 10;
	for (unsigned i = 0; i < 4; i++) {
		dir.fail = errors[i];
		dir.fails = 1;
		cr_assert_eq(error_of(0), errors[i]);
		/* The stream goes on to be of use. */
		read_from(false, 0, 4096);
		expect_listing(0);
		/* Later in the directory. */
		cr_assert_eq(error_of(0), 0);
		dir.fails = 1;
		cr_assert_eq(error_of(dir.e[9].cookie), errors[i]);
	}
}

/* A verifier that the server does not take any more: once without. */
Test(fs_dir, forgotten_verifier)
{
	uint64_t first = fh;

	add_many(20);
	dir.per_reply = 10;
	cr_assert_eq(error_of(0), 0);
	dir.verf = 0xbeef;
	read_from(false, dir.e[9].cookie, 4096);
	expect_listing(11);
	cr_assert(dir.rpcs == 3 && dir.asked_verf == 0);
	/* The cookie itself is gone: no error number of ours, and no loop. */
	dir.e[9].cookie = 999;
	fh = open_dir();
	cr_assert_eq(error_of(cookie_of(9)), -EIO);
	cr_assert_eq(dir.rpcs, 5);
	cr_assert_eq(error_of(123456), -EIO);
	read_from(false, 0, 4096);
	expect_listing(0);
	close_dir(fh);
	fh = first;
}

/*
 * An entry was removed while the server read the directory, and it says so (seen
 * with nfs-ganesha 4.3): it is asked again. ENOENT would be the end of the
 * directory, to programs that ask by readdir().
 */
Test(fs_dir, entry_gone_meanwhile)
{
	add_many(20);
	dir.per_reply = 10;
	dir.fail = -ENOENT;
	dir.fails = 1;
	read_from(false, 0, 4096);
	expect_listing(0);
	cr_assert_eq(dir.rpcs, 3);
	/* Later in the directory; by the same cookie and verifier. */
	cr_assert_eq(error_of(0), 0);
	dir.fails = 3;
	read_from(false, dir.e[9].cookie, 4096);
	expect_listing(11);
	cr_assert(dir.rpcs == 8 && dir.cookie == dir.e[9].cookie && dir.asked_verf == 0x5e4f);
	/* For ever. */
	dir.fails = 1000000;
	dir.rpcs = 0;
	cr_assert_eq(error_of(0), -EIO);
	cr_assert_lt(dir.rpcs, 1000);
	dir.fails = 0;
	read_from(false, 0, 4096);
	expect_listing(0);
}

/* No entries, and not the end: asked again, but not for ever. A listing that ends
 * there, without an error, would be a wrong one. */
Test(fs_dir, nothing_and_not_the_end)
{
	add_many(20);
	dir.per_reply = 10;
	dir.silent = 1;
	read_from(false, 0, 4096);
	expect_listing(0);
	cr_assert_eq(error_of(0), 0);
	dir.silent = 3;
	read_from(false, dir.e[9].cookie, 4096);
	expect_listing(11);
	dir.silent = 1000000;
	dir.rpcs = 0;
	cr_assert_eq(error_of(0), -EIO);
	cr_assert_lt(dir.rpcs, 1000);
	cr_assert_eq(error_of(dir.e[9].cookie), -EIO);
	dir.silent = 0;
	read_from(false, 0, 4096);
	expect_listing(0);
}

/* Reads the directory to its end, or to an error, which is returned. */
static int read_until_error(uint32_t size)
{
	uint64_t off = 0;

	got.n = 0;
	for (unsigned i = 0; i < 10000; i++) {
		ask_dir(false, off, size);
		lane_play_serve();
		cr_assert_eq(answer.count, 1);
		if (answer.error || !answer.len)
			return answer.error;
		got.n = 0;              /* how many there are does not matter */
		off = take_answer(false);
	}
	cr_assert(false, "no end");
	return 0;
}

/* The same entry over and over (seen with nfs-ganesha 4.3): a listing of it would
 * have no end. */
Test(fs_dir, same_entry_again)
{
	add_many(20);
	dir.per_reply = 10;
	dir.e[5] = dir.e[4];
	cr_assert_eq(error_of(0), -EIO);
	cr_assert_eq(dir.rpcs, 1);
	/* It may come once more at the beginning of the next reply, but not for ever. */
	dir.e[5].cookie = cookie_of(5);
	dir.e[10] = dir.e[9];
	cr_assert_eq(error_of(0), 0);
	cr_assert_eq(error_of(dir.e[9].cookie), 0);
	dir.per_reply = 1;
	cr_assert_eq(error_of(0), 0);
	cr_assert_eq(error_of(dir.e[9].cookie), -EIO);
}

/* Cookies that are hashes: two names may have one. */
Test(fs_dir, cookies_that_collide)
{
	add_many(40);
	dir.e[5].cookie = dir.e[4].cookie;
	dir.e[20].cookie = dir.e[21].cookie = dir.e[22].cookie;
	for (uint32_t size = 200; size < 2000; size += 50) {
		read_from(false, 0, size);
		expect_listing(0);
	}
}

/* Version 3 reserves only 0. Entries may have the offsets of our dots, wherever a request or a
 * reply ends. */
Test(fs_dir, cookies_of_the_dots)
{
	static const uint64_t rows[][4] = { { 2 }, { 1 }, { 1, 2 }, { 2, 1, 7 }, { 7, 1, 2 }, { 1, 2, 3, 4 } };

	for (unsigned r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		dir.n = 0;
		for (unsigned i = 0; i < 4 && rows[r][i]; i++)
			add((const char[]){ (char)('a' + i), '\0' }, rows[r][i], BOTH);
		for (dir.per_reply = 1; dir.per_reply < 5; dir.per_reply++) {
			for (uint32_t size = 32; size < 300; size += 32) {
				read_from(false, 0, size);
				expect_listing(0);
			}
		}
	}
}

/* 0 is the beginning: whoever goes on from there lists everything again. */
Test(fs_dir, cookie_of_the_beginning)
{
	for (unsigned at = 0; at < 20; at++) {
		dir.n = 0;
		add_many(20);
		dir.e[at].cookie = 0;
		for (dir.per_reply = 1; dir.per_reply < 30; dir.per_reply += 7)
			cr_assert_eq(read_until_error(220), -EIO, "entry %u", at);
	}
}

/* From some entry on, back to an earlier one: of any size, in pieces of any size. */
Test(fs_dir, cookies_in_a_circle)
{
	static const unsigned per_reply[] = { 1, 2, 7, 100 };

	add_many(MANY);
	for (unsigned size = 2; size < 60; size += 3) {
		for (unsigned p = 0; p < 4; p++) {
			dir.per_reply = per_reply[p];
			dir.turn = 70;
			dir.back = 70 - size;
			dir.rpcs = 0;
			cr_assert_eq(read_until_error(4096), -EIO);
			cr_assert_leq(dir.rpcs * dir.per_reply, 70 + 10 * size + 200, "%u, %u: %u",
				      size, dir.per_reply, dir.rpcs);
		}
	}
	/* No longer: as good as any. */
	dir.turn = 0;
	read_from(false, 0, 4096);
	expect_listing(0);
}

Test(fs_dir, one_request_at_a_time)
{
	add_many(5);
	ask_dir(false, 0, 4096);
	cr_assert_eq(answer.count, 0, "waits for the server");
	ask_dir(false, 0, 4096);
	cr_assert(answer.count == 1 && answer.error == -EINTR);
	answer.count = 0;
	lane_play_serve();
	cr_assert(answer.count == 1 && answer.error == 0);
	got.n = 0;
	take_answer(false);
	expect_listing(0);
}

/* Closed while a request runs, as after an interrupt: it ends, and frees. */
Test(fs_dir, closed_meanwhile)
{
	uint64_t first = fh;

	add_many(5);
	fh = open_dir();
	ask_dir(false, 0, 4096);
	close_dir(fh);
	answer.count = 0;
	lane_play_serve();
	cr_assert(answer.count == 1 && answer.error == 0);
	fh = first;
}

/* ---- inodes ---- */

/* A file that was written after the server was asked: its size in what is kept
 * is an old one, which the kernel must not hear of. */
Test(fs_dir, nothing_outdated)
{
	struct nfs_fh h = { .len = 4, .data = { 40 } };
	struct nfs_attr attr = { .mode = S_IFREG | 0644 };
	struct inode *written = inode_get(&fs.vfs.inodes, &h, &attr, 0, NULL, 0, mono_ns());
	uint64_t off;

	add_many(60);
	got.n = 0;
	off = read_some(true, 0, 4096);
	cr_assert_lt(got.n, 40);
	believed_wrote(written, 100);
	while ((off = read_some(true, off, 4096)))
		;
	cr_assert(dir.rpcs == 1 && got.n == 62);
	for (unsigned i = 2; i < got.n; i++)
		cr_assert_eq(!got.e[i].node, i == 42, "entry %u", i);
	forget();
	inode_put(&fs.vfs.inodes, written, 1);
}

/* After this mount has changed the directory what is kept may be gone. */
Test(fs_dir, nothing_that_may_be_gone)
{
	uint64_t off;
	unsigned first;

	add_many(60);
	got.n = 0;
	off = read_some(true, 0, 4096);
	first = got.n;
	atomic_store(&fs.root->entries_ns, mono_ns());
	while ((off = read_some(true, off, 4096)))
		;
	cr_assert(dir.rpcs == 1 && got.n == 62);
	for (unsigned i = 2; i < got.n; i++)
		cr_assert_eq(!got.e[i].node, i >= first, "entry %u", i);
	forget();
	/* A listing from now on is new. */
	read_from(true, 0, 65536);
	for (unsigned i = 2; i < got.n; i++)
		cr_assert(got.e[i].node);
	forget();
}

Test(fs_dir, plus_brings_inodes)
{
	uint64_t before = atomic_load(&fs.vfs.inodes.count);

	add("both", 10, BOTH);
	add("attributes", 11, ATTR);
	add("handle", 12, HANDLE);
	add("none", 13, 0);
	read_from(true, 0, 4096);
	cr_assert_eq(got.n, 6);
	cr_assert(!got.e[0].node && !got.e[1].node, "nor are there any of the dots");
	cr_assert(got.e[2].node && !got.e[3].node && !got.e[4].node && !got.e[5].node);
	cr_assert_eq(atomic_load(&fs.vfs.inodes.count), before + 1);
	cr_assert_eq(refs_of(got.e[2].node), 1);
	/* Each time that the kernel gets it counts. */
	read_from(true, 0, 4096);
	cr_assert_eq(refs_of(got.e[2].node), 2);
	forget();
	forget();
	cr_assert_eq(atomic_load(&fs.vfs.inodes.count), before);
	/* Plain listings bring none. */
	read_from(false, 0, 4096);
	cr_assert_eq(atomic_load(&fs.vfs.inodes.count), before);
}

/* An answer that the kernel did not take is as if nothing had been given. */
Test(fs_dir, plus_not_taken)
{
	uint64_t before = atomic_load(&fs.vfs.inodes.count);

	add_many(10);
	ask_dir(true, 0, 65536);
	fs_play_refuse = true;
	lane_play_serve();
	fs_play_refuse = false;
	cr_assert_eq(atomic_load(&fs.vfs.inodes.count), before);
}

/* ---- the end of what the kernel has sent for syncfs() ---- */

static _Atomic bool waited;
static _Atomic int result;

static void *wait_for_pages(void *fd)
{
	atomic_store(&result, fs_write_back_wait(&fs, *(int *)fd));
	atomic_store(&waited, true);
	return NULL;
}

/* The process that calls syncfs() has this pid, and other programs have others. */
#define SYNCS 4242

static uint64_t open_by(uint32_t pid, uint32_t flags)
{
	struct fuse_in_header h = fs_play_header(FUSE_OPENDIR, FUSE_ROOT_ID, sizeof(struct fuse_open_in));
	struct fuse_open_in in = { .flags = flags };
	struct fuse_open_out out;

	h.pid = pid;
	fs_play_request(&h, &in, sizeof(in));
	lane_play_serve();
	cr_assert(answer.count == 1 && answer.error == 0 && answer.len == sizeof(out));
	memcpy(&out, answer.data, sizeof(out));
	return out.fh;
}

/* Begins to wait. It is this process that calls syncfs(), and the daemon knows it. */
static void begin_waiting(pthread_t *thread, int fds[2])
{
	const int32_t pid = SYNCS;

	atomic_store(&waited, false);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	cr_assert_eq(pthread_create(thread, NULL, wait_for_pages, &fds[0]), 0);
	cr_assert_eq(send(fds[1], &pid, sizeof(pid), 0), sizeof(pid));
	cr_assert_eq(recv(fds[1], &(char){ 0 }, 1, 0), 1);
}

static void say(int fd, int32_t what)
{
	cr_assert_eq(send(fd, &what, sizeof(what), 0), sizeof(what));
}

static void end_waiting(pthread_t thread, const int fds[2], int expected)
{
	while (!atomic_load(&waited))
		lane_play_run(1);
	pthread_join(thread, NULL);
	cr_assert_eq(atomic_load(&result), expected);
	close(fds[0]);
	close(fds[1]);
}

/* A request that a program waits for overtakes WRITEs of the kernel. RELEASEDIR does not. And other
 * programs cannot end it: 0 is the pid of all those in other pid namespaces. */
Test(fs_dir, pages_end_with_a_release_of_that_process)
{
	uint64_t early = open_by(SYNCS, O_DIRECTORY), its;
	pthread_t thread;
	int fds[2];

	begin_waiting(&thread, fds);
	its = open_by(SYNCS, O_DIRECTORY);
	say(fds[1], 0);
	close_dir(early);
	for (uint32_t pid = 0; pid < 3; pid++)
		close_dir(open_by(pid, O_DIRECTORY | O_NONBLOCK | O_DSYNC));
	lane_play_run(200);
	cr_assert_not(atomic_load(&waited), "there may be more WRITEs");
	close_dir(its);
	end_waiting(thread, fds, 0);
}

/* It may be that RELEASEDIR is read before the process says that it is done. */
Test(fs_dir, pages_end_when_the_process_is_done)
{
	pthread_t thread;
	int fds[2];

	begin_waiting(&thread, fds);
	close_dir(open_by(SYNCS, O_DIRECTORY));
	lane_play_run(200);
	cr_assert_not(atomic_load(&waited), "it does not say that syncfs() has succeeded");
	say(fds[1], 0);
	end_waiting(thread, fds, 0);
}

/* The root cannot be opened. */
Test(fs_dir, pages_cannot_be_sent)
{
	pthread_t thread;
	int fds[2];

	begin_waiting(&thread, fds);
	say(fds[1], -EACCES);
	end_waiting(thread, fds, -EACCES);
}

/* The process has been killed. */
Test(fs_dir, nobody_sends_the_pages)
{
	pthread_t thread;
	int fds[2];

	begin_waiting(&thread, fds);
	shutdown(fds[1], SHUT_RDWR);
	end_waiting(thread, fds, -ESRCH);
}
