/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * open(O_CREAT | O_TRUNC) of a name that the kernel thinks is free, while others have given it to a
 * file (fs_play.h). The played server has a few names in its root. What was written is held until it is
 * wanted, and must not be in the file after the truncation.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "fs_play.h"

/* ---- the server ---- */

static struct { mode_t mode; uint64_t size; bool denied; } files[4];    /* by handle */
static int named[4];                    /* which one "a", "b", ... is; -1: there is no such name */
static unsigned nfiles;
/* A letter for each call: G and U CREATE, with and without O_TRUNC or O_EXCL, S SETATTR, s the same
 * without an open file, L LOOKUP, O OPEN, W WRITE, C CLOSE. */
static char sent[32];
static uint32_t last_xid;
static unsigned opens;
static void (*others)(void);            /* what they do when a CREATE was refused */

static bool is_guarded(const struct nfs_call *c)
{
	return c->args.file.flags & (O_TRUNC | O_EXCL);
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;
	size_t n = strlen(sent);

	cr_assert_lt(n, sizeof(sent) - 1);
	switch (c->op) {
	case NFS_OP_CREATE: sent[n] = is_guarded(c) ? 'G' : 'U'; break;
	case NFS_OP_SETATTR: sent[n] = c->open ? 'S' : 's'; break;
	case NFS_OP_LOOKUP: sent[n] = 'L'; break;
	case NFS_OP_OPEN: sent[n] = 'O'; break;
	case NFS_OP_WRITE: sent[n] = 'W'; break;
	case NFS_OP_CLOSE: sent[n] = 'C'; break;
	default: cr_assert(false, "operation %u", c->op);
	}
	last_xid = c->eng.rr.xid;
	return xdr_uint32_t(x, &nothing);
}

static int found(struct nfs_call *c, int i)
{
	if (c->op == NFS_OP_LOOKUP || c->op == NFS_OP_CREATE)
		c->res.fh = (struct nfs_fh){ .len = 2, .data = { 'f', (uint8_t)i } };
	if (c->op == NFS_OP_OPEN || c->op == NFS_OP_CREATE) {
		c->open = calloc(1, 8);
		opens++;
	}
	c->res.attr = (struct nfs_attr){
		.mode = files[i].mode | 0644, .nlink = 1, .size = files[i].size, .change = files[i].size,
	};
	c->res.has_attr = true;
	return 0;
}

static int make(struct nfs_call *c)
{
	int *n = &named[c->args.name[0] - 'a'];

	if (*n >= 0 && is_guarded(c)) {
		if (others)
			others();
		return -EEXIST;
	}
	if (*n < 0) {
		*n = (int)nfiles++;
		files[*n].mode = S_IFREG;
	}
	return found(c, *n);
}

static int write_to(struct nfs_call *c, int i)
{
	uint64_t end = c->args.io.offset;

	for (uint32_t k = 0; k < c->args.io.ndata; k++)
		end += c->args.io.data[k].len;
	c->res.io.len = (uint32_t)(end - c->args.io.offset);
	c->res.io.stable = true;
	if (files[i].size < end)
		files[i].size = end;
	return 0;
}

static int decode(struct nfs_call *c, XDR *x)
{
	int i = c->op == NFS_OP_LOOKUP ? named[c->args.name[0] - 'a'] : c->args.fh ? c->args.fh->data[1] : 0;

	(void)x;
	switch (c->op) {
	case NFS_OP_CREATE: return make(c);
	case NFS_OP_CLOSE: opens--; return 0;
	case NFS_OP_WRITE: return write_to(c, i);
	case NFS_OP_LOOKUP: return i < 0 ? -ENOENT : found(c, i);
	case NFS_OP_SETATTR:
		if (files[i].denied)
			return -EACCES;
		files[i].size = c->args.sattr.size;
		return found(c, i);
	default: return found(c, i);
	}
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

/* ---- the kernel ---- */

static void serve(unsigned times)
{
	while (times--) {
		lane_play_serve();
		lane_play_run(1);
	}
}

static int ask(uint32_t opcode, uint64_t node, const void *body, size_t len)
{
	fs_play_ask(opcode, node, body, len);
	serve(6);
	cr_assert_eq(answer.count, 1);
	return answer.error;
}

static int lookup(const char *name, uint64_t *node)
{
	int rc = ask(FUSE_LOOKUP, FUSE_ROOT_ID, name, 2);

	*node = rc ? 0 : ((struct fuse_entry_out *)(void *)answer.data)->nodeid;
	return rc;
}

/* An open file of `name`, of which `end` bytes are written then, and held. */
struct writer { uint64_t node, fh; };

static void write_to_fh(const struct writer *w, uint64_t end)
{
	struct fuse_write_in in = { .fh = w->fh, .offset = end - 100, .size = 100, .flags = O_RDWR };
	struct fuse_in_header h = fs_play_header(FUSE_WRITE, w->node, sizeof(in) + 100);

	fs_play_request(&h, &in, sizeof(in));
	cr_assert(answer.count == 1 && answer.error == 0, "it is held");
}

static struct writer writes(const char *name, uint64_t end)
{
	struct fuse_open_in in = { .flags = O_RDWR };
	struct writer w;

	cr_assert_eq(lookup(name, &w.node), 0);
	cr_assert_eq(ask(FUSE_OPEN, w.node, &in, sizeof(in)), 0);
	w.fh = ((struct fuse_open_out *)(void *)answer.data)->fh;
	write_to_fh(&w, end);
	return w;
}

static void closes(struct writer w)
{
	struct fuse_flush_in flush = { .fh = w.fh };
	struct fuse_release_in in = { .fh = w.fh };

	cr_assert_eq(ask(FUSE_FLUSH, w.node, &flush, sizeof(flush)), 0);
	cr_assert_eq(ask(FUSE_RELEASE, w.node, &in, sizeof(in)), 0);
}

static void ask_create(const char *name, int flags)
{
	struct { struct fuse_create_in in; char name[2]; } body = {
		{ .flags = O_CREAT | (uint32_t)flags, .mode = S_IFREG | 0644 }, { name[0] }
	};

	memset(sent, 0, sizeof(sent));
	fs_play_ask(FUSE_CREATE, FUSE_ROOT_ID, &body, offsetof(typeof(body), name) + 2);
}

/* What the kernel has then, and closes at once. The size it is told is that of the file. */
static int create(const char *name, int flags)
{
	struct { struct fuse_entry_out e; struct fuse_open_out o; } out;
	char until[sizeof(sent)];

	ask_create(name, flags);
	serve(8);
	cr_assert_eq(answer.count, 1);
	memcpy(until, sent, sizeof(sent));
	if (answer.error)
		return answer.error;
	memcpy(&out, answer.data, sizeof(out));
	cr_assert_eq(out.e.attr.size, files[named[name[0] - 'a']].size);
	closes((struct writer){ out.e.nodeid, out.o.fh });
	memcpy(sent, until, sizeof(sent));
	return 0;
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 3, .data = "dir" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755 };
	uint64_t node;

	fs.cfg.vfs.write_behind = 60;
	fs.cfg.vfs.acdirmin = 30;
	fs.vfs.inodes.acdirmin = fs.vfs.inodes.acdirmax = 30;
	fs_play_start(&version, &root, &attr);
	files[0].mode = files[1].mode = S_IFREG;
	nfiles = 2;
	named[0] = named[3] = -1;
	named[1] = 0;
	named[2] = 1;
	files[0].size = files[1].size = 1000;
	cr_assert_eq(lookup("a", &node), 0, "that is how the kernel is told of no such name");
}

static void teardown(void)
{
	serve(4);
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	cr_assert_eq(opens, 0);
	fs_play_end();
}

TestSuite(fs_create, .init = setup, .fini = teardown, .timeout = 300);

static void rename_b(void)
{
	named[0] = named[1];
	named[1] = -1;
}

static void rename_c(void)
{
	named[0] = named[2];
	named[2] = -1;
}

static void unlink_a(void)
{
	named[0] = -1;
}

/* ---- what others have done ---- */

Test(fs_create, nobody_has_made_it)
{
	cr_assert_eq(create("a", O_RDWR | O_TRUNC), 0);
	cr_assert_str_eq(sent, "G");
	cr_assert_eq(create("d", O_RDWR), 0);
	cr_assert_str_eq(sent, "U");
}

Test(fs_create, a_file_that_is_open_here_has_the_name)
{
	struct writer w = writes("b", 2000);

	rename_b();
	cr_assert_eq(create("a", O_RDWR | O_TRUNC), 0);
	cr_assert_str_eq(sent, "GUWS", "%s", sent);
	cr_assert_eq(files[0].size, 0);
	/* What is written after that is there. */
	write_to_fh(&w, 300);
	closes(w);
	cr_assert_eq(files[0].size, 300);
}

Test(fs_create, an_unknown_file_has_the_name)
{
	rename_b();
	cr_assert_eq(create("a", O_WRONLY | O_TRUNC), 0);
	cr_assert_str_eq(sent, "GUS");
	cr_assert_eq(files[0].size, 0);
}

/* Nothing is cut, so it need not be known. */
Test(fs_create, without_o_trunc)
{
	struct writer w = writes("b", 2000);

	rename_b();
	ask_create("a", O_RDWR | O_EXCL);
	serve(2);
	cr_assert_eq(answer.error, -EEXIST);
	ask_create("a", O_RDWR | O_EXCL | O_TRUNC);
	serve(2);
	cr_assert_eq(answer.error, -EEXIST);
	cr_assert_str_eq(sent, "G");
	files[0].size = 2000;           /* for create(): what the kernel is told */
	cr_assert_eq(create("a", O_RDWR), 0);
	cr_assert_str_eq(sent, "U");
	closes(w);
}

/* An open that only reads has no right to write by its open file. */
Test(fs_create, an_open_that_only_reads)
{
	rename_b();
	cr_assert_eq(create("a", O_RDONLY | O_TRUNC), 0);
	cr_assert_str_eq(sent, "GUs");
	cr_assert_eq(files[0].size, 0);
}

/* ---- what they do meanwhile ---- */

Test(fs_create, the_name_is_free_again)
{
	struct writer w = writes("b", 2000);

	rename_b();
	others = unlink_a;
	cr_assert_eq(create("a", O_RDWR | O_TRUNC), 0);
	cr_assert_str_eq(sent, "GUS");
	cr_assert_eq(named[0], 2, "a new file");
	closes(w);
	cr_assert_eq(files[0].size, 2000, "the other one was not cut");
}

Test(fs_create, the_name_is_another_open_file_s_again)
{
	struct writer w = writes("b", 2000), w2 = writes("c", 3000);

	rename_b();
	others = rename_c;
	cr_assert_eq(create("a", O_RDWR | O_TRUNC), 0);
	cr_assert_str_eq(sent, "GUWS");
	cr_assert_eq(files[1].size, 0);
	closes(w);
	closes(w2);
	cr_assert(files[0].size == 2000 && files[1].size == 0);
}

/* The first try has made the file, and the reply was lost: as a server without its reply cache has it. */
Test(fs_create, the_file_is_its_own)
{
	named[0] = 2;
	nfiles = 3;
	files[2].mode = S_IFREG;
	cr_assert_eq(create("a", O_RDWR | O_TRUNC), 0);
	cr_assert_str_eq(sent, "GUS");
}

/* ---- what cannot be cut ---- */

Test(fs_create, the_file_may_not_be_written_to)
{
	uint64_t node;

	rename_b();
	files[0].denied = true;         /* which version 3 says when it is cut */
	cr_assert_eq(create("a", O_WRONLY | O_TRUNC), -EACCES);
	cr_assert(strncmp(sent, "GUSC", 4) == 0 && opens == 0);
	cr_assert_eq(files[0].size, 1000);
	memset(sent, 0, sizeof(sent));
	cr_assert(lookup("a", &node) == 0 && node, "the server is asked");
	cr_assert_str_eq(sent, "L");
}

Test(fs_create, it_is_a_fifo)
{
	rename_b();
	files[0].mode = S_IFIFO;
	cr_assert_eq(create("a", O_WRONLY | O_TRUNC), -ESTALE, "so the kernel looks the name up again");
	cr_assert(strncmp(sent, "GUC", 3) == 0 && opens == 0);
}

/* ---- killed ---- */

static void kill_it(void)
{
	list_for_each(n, &fl->vl.active) {
		struct fs_req *r = container_of(n, struct fs_req, op.node);

		if (!r->req)
			continue;
		cr_assert_not(fs_give_up(r), "it goes on");
		cr_assert_eq(answer.error, -EINTR);
		return;
	}
	cr_assert(false, "nobody waits");
}

Test(fs_create, killed_before_it_is_opened)
{
	rename_b();
	ask_create("a", O_RDWR | O_TRUNC);
	lane_play_flush();
	kill_it();
	lane_play_reply(last_xid);
	cr_assert_str_eq(sent, "G");
}

Test(fs_create, killed_before_it_is_cut)
{
	struct writer w = writes("b", 2000);

	rename_b();
	ask_create("a", O_RDWR | O_TRUNC);
	lane_play_serve();
	cr_assert_str_eq(sent, "GUW", "%s", sent);
	kill_it();
	serve(4);
	cr_assert(strncmp(sent, "GUWC", 4) == 0, "%s", sent);
	cr_assert_eq(files[0].size, 2000);
	closes(w);
}

/* Newer changes do not overtake it. */
Test(fs_create, killed_while_it_is_cut)
{
	struct writer w = writes("b", 2000);
	struct fuse_flush_in in = { .fh = w.fh };

	rename_b();
	ask_create("a", O_RDWR | O_TRUNC);
	for (unsigned i = 0; !strchr(sent, 'S'); i++) {
		cr_assert_lt(i, 10);
		serve(1);
	}
	lane_play_flush();
	kill_it();
	write_to_fh(&w, 300);
	fs_play_ask(FUSE_FLUSH, w.node, &in, sizeof(in));
	lane_play_run(20);
	cr_assert_str_eq(sent, "GUWS", "%s", sent);
	lane_play_reply(last_xid);      /* SETATTR... */
	lane_play_reply(last_xid);      /* ...and CLOSE */
	lane_play_run(20);
	serve(4);
	cr_assert_str_eq(sent, "GUWSCW", "%s", sent);
	cr_assert_eq(files[0].size, 300);
	closes(w);
}
