/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The texts of symbolic links (vfs/symlinks.h), by fs_play.h. The server has one link. It may put
 * another one in its place, with the same handle. Time passes when the test says so.
 *
 * The rule, in any order of requests, executions and replies: a text that the kernel gets was the
 * link's not longer ago than attributes are believed, and a call takes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs_play.h"

#define S 1000000000ull
#define TAKES (2 * S)                   /* a call, at most */
#define ACREGMIN 3u
#define ACREGMAX 12u

uint64_t __real_mono_ns(void);
uint64_t __wrap_mono_ns(void);
static uint64_t passed;

uint64_t __wrap_mono_ns(void)
{
	return __real_mono_ns() + passed;
}

/* ---- the server ---- */

enum { LINKS = 4000, PENDING = 8 };
static unsigned current;                /* the number of its link is its text */
static uint64_t replaced_ns[LINKS];
static bool looked_up;                  /* SYMLINK's handle comes from a LOOKUP */
static const char *text;                /* in place of the number; or NULL */
static unsigned nreadlinks;

static struct pending {
	struct nfs_call *c;
	uint32_t xid;
	bool executed;
	unsigned nr;
	uint64_t sent_ns;
} pending[PENDING];
static unsigned npending;

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	cr_assert_lt(npending, PENDING);
	pending[npending++] = (struct pending){ .c = c, .xid = c->eng.rr.xid, .sent_ns = mono_ns() };
	nreadlinks += c->op == NFS_OP_READLINK;
	return xdr_uint32_t(x, &nothing);
}

static void execute(struct pending *p)
{
	p->nr = p->executed ? p->nr : current;
	p->executed = true;
}

static int decode(struct nfs_call *c, XDR *x)
{
	static char number[16];
	unsigned i = 0;
	struct pending p;

	(void)x;
	while (pending[i].c != c)
		cr_assert_lt(++i, npending);
	execute(&pending[i]);
	p = pending[i];
	pending[i] = pending[--npending];
	if (c->op == NFS_OP_READLINK) {
		snprintf(number, sizeof(number), "%u", p.nr);
		c->res.link.target = text ? text : number;
		c->res.link.len = (uint32_t)strlen(c->res.link.target);
		return 0;
	}
	c->res.fh = (struct nfs_fh){ .len = 4, .data = "lnk" };
	/* Its size is a lie. */
	c->res.attr = (struct nfs_attr){ .mode = S_IFLNK | 0777, .nlink = 1, .change = p.nr };
	c->res.has_attr = true;
	c->res.found = c->op == NFS_OP_SYMLINK && looked_up;
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = NFS_PATH_MAX + 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

static void reply(unsigned i)
{
	unsigned before = npending;

	execute(&pending[i]);
	lane_play_reply(pending[i].xid);
	cr_assert_eq(npending, before - 1, "call %u of %u is not in flight", i, before);
}

static void reply_to_all(void)
{
	lane_play_flush();
	while (npending)
		reply(0);
}

static void replace(void)
{
	replaced_ns[current++] = mono_ns();
	cr_assert_lt(current, LINKS);
}

/* ---- the kernel ---- */

static uint64_t node;
static uint64_t readlinks[PENDING * 2];  /* requests without an answer, by `unique` */
static unsigned nnewest;

static void lookup(void)
{
	fs_play_ask(FUSE_LOOKUP, FUSE_ROOT_ID, "a", 2);
}

static void make(const char *target)
{
	char body[64];
	size_t len = (size_t)snprintf(body, sizeof(body), "a%c%s", 0, target) + 1;

	fs_play_ask(FUSE_SYMLINK, FUSE_ROOT_ID, body, len);
	reply_to_all();
	cr_assert_eq(answer.error, 0);
	node = ((struct fuse_entry_out *)(void *)answer.data)->nodeid;
}

/* How many READLINKs it took. Its answer is text. */
static unsigned read_link(const char *expected)
{
	unsigned before = nreadlinks;

	fs_play_ask(FUSE_READLINK, node, NULL, 0);
	if (npending)
		reply_to_all();
	cr_assert_eq(answer.count, 1);
	cr_assert_eq(answer.error, 0);
	cr_assert(answer.len == strlen(expected) && !memcmp(answer.data, expected, answer.len),
		  "not '%s'", expected);
	return nreadlinks - before;
}

static void setup_with(unsigned min, unsigned max)
{
	static const struct nfs_fh root = { .len = 4, .data = "dir" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755 };

	fs.cfg.vfs.acregmin = min;
	fs.vfs.inodes.acregmin = min;
	fs.vfs.inodes.acregmax = max;
	fs_play_start(&version, &root, &attr);
	lookup();
	reply_to_all();
	node = ((struct fuse_entry_out *)(void *)answer.data)->nodeid;
}

static void setup(void)
{
	setup_with(ACREGMIN, ACREGMAX);
}

static void setup_noac(void)
{
	setup_with(0, 0);
}

static void teardown(void)
{
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	fs_play_end();
}

TestSuite(fs_links, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(fs_links_noac, .init = setup_noac, .fini = teardown, .timeout = 300);

Test(fs_links, a_text_is_read_once)
{
	cr_assert_eq(read_link("0"), 1);
	cr_assert_eq(read_link("0"), 0);
}

/* As all kernels' page cache would not, if the size is too small. */
Test(fs_links, a_text_is_whole_whatever_its_size)
{
	text = "a/longer/text";
	cr_assert_eq(read_link(text), 1);
	lookup();
	reply_to_all();
	cr_assert_eq(read_link(text), 0);
}

Test(fs_links, what_is_made_here_is_known)
{
	make("0");
	cr_assert_eq(read_link("0"), 0);
}

/* Its name was somebody else's when it was looked up. */
Test(fs_links, what_was_looked_up_after_it_was_made_is_read)
{
	looked_up = true;
	make("mine");
	cr_assert_eq(read_link("0"), 1);
}

/* Another lane has got other attributes before this one heard that the link was made. */
Test(fs_links, what_has_changed_since_it_was_made_is_read)
{
	struct inode *ino = inode_by_id(&fs.vfs.inodes, node);

	symlink_made(&fs.vfs.inodes, ino, 1, mono_ns(), "mine");
	inode_put(&fs.vfs.inodes, ino, 1);
	cr_assert_eq(read_link("0"), 1);
}

Test(fs_links, texts_are_believed_like_attributes)
{
	read_link("0");
	passed += (ACREGMIN - 1) * S;
	cr_assert_eq(read_link("0"), 0);
	passed += 2 * S;
	cr_assert_eq(read_link("0"), 1);
	cr_assert_eq(read_link("0"), 0);
	/* The same attributes again, which are believed for longer now: it is the same link. */
	passed += (ACREGMIN - 1) * S;
	lookup();
	reply_to_all();
	passed += (2 * ACREGMIN - 1) * S;
	cr_assert_eq(read_link("0"), 0);
}

Test(fs_links_noac, asks_each_time)
{
	read_link("0");
	cr_assert_eq(read_link("0"), 1);
	make("0");
	cr_assert_eq(read_link("0"), 1);
}

Test(fs_links, other_attributes_outdate_a_text)
{
	read_link("0");
	replace();
	lookup();
	reply_to_all();
	cr_assert_eq(read_link("1"), 1);
}

/* READLINK was executed before, and its reply comes after. */
Test(fs_links, other_attributes_outdate_a_text_that_is_on_its_way)
{
	fs_play_ask(FUSE_READLINK, node, NULL, 0);
	lane_play_flush();
	execute(&pending[0]);
	replace();
	lookup();
	lane_play_flush();
	reply(1);
	reply(0);
	cr_assert_eq(read_link("1"), 1);
}

/* Of two READLINKs, the reply to the first may come last. */
Test(fs_links, the_newer_text_stays)
{
	fs_play_ask(FUSE_READLINK, node, NULL, 0);
	lane_play_flush();
	execute(&pending[0]);
	replace();
	passed += S;
	fs_play_ask(FUSE_READLINK, node, NULL, 0);
	lane_play_flush();
	reply(1);
	reply(0);
	cr_assert_eq(read_link("1"), 0);
}

Test(fs_links, no_text_and_too_long_a_text)
{
	static char longest[NFS_PATH_MAX + 1];

	text = "";
	fs_play_ask(FUSE_READLINK, node, NULL, 0);
	reply_to_all();
	memset(longest, 'x', NFS_PATH_MAX);
	text = longest;
	fs_play_ask(FUSE_READLINK, node, NULL, 0);
	cr_assert_eq(npending, 1, "nothing is known");
	reply_to_all();
	cr_assert_eq(answer.error, -ENAMETOOLONG);
	longest[NFS_PATH_MAX - 1] = '\0';
	cr_assert_eq(read_link(longest), 1);
	cr_assert_eq(read_link(longest), 0);
}

/* ---- all of it in random orders ---- */

static unsigned seed, nkept;

static unsigned any(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static void check_text(const struct fuse_out_header *h)
{
	uint64_t now = mono_ns();
	char number[16] = "";
	unsigned nr;

	for (unsigned i = 0; i < nnewest; i++) {
		if (readlinks[i] != h->unique)
			continue;
		readlinks[i] = readlinks[--nnewest];
		cr_assert_lt(answer.len, sizeof(number));
		memcpy(number, answer.data, answer.len);
		nr = (unsigned)strtoul(number, NULL, 10);
		cr_assert_leq(nr, current);
		cr_assert(nr == current || now - replaced_ns[nr] < ACREGMAX * S + 2 * TAKES,
			  "%u after %u was there", nr, current);
		return;
	}
}

static void ask_for_text(void)
{
	struct fuse_in_header h = fs_play_header(FUSE_READLINK, node, 0);
	unsigned before = nreadlinks;

	readlinks[nnewest++] = h.unique;
	fs_play_request(&h, NULL, 0);
	nkept += nreadlinks == before;
}

static void something_happens(void)
{
	unsigned i;

	switch (npending < PENDING - 1 ? any(9) : 8) {
	case 0: case 1: case 2:
		ask_for_text();
		break;
	case 3: case 4:
		lookup();
		break;
	case 5:
		if (any(4) == 0 && current < LINKS - 1)
			replace();
		break;
	case 6:
		for (i = 0; i < npending; )
			if (mono_ns() + S - pending[i].sent_ns >= TAKES)
				reply(i);
			else
				i++;
		passed += any(1000) * (S / 1000);
		break;
	case 7:
		if (npending)
			execute(&pending[any(npending)]);
		break;
	default:
		if (npending)
			reply(any(npending));
	}
	lane_play_flush();
}

Test(fs_links, no_text_is_older_than_attributes)
{
	fs_play_answered = check_text;
	for (unsigned round = 1; round < 20; round++) {
		seed = round;
		for (unsigned i = 0; i < 3000; i++)
			something_happens();
	}
	reply_to_all();
	fs_play_answered = NULL;
	cr_assert_gt(nkept, 1000, "%u texts were not asked for", nkept);
}
