/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles of open_by_handle_at(2): the kernel looks up "." in a node that it has forgotten, and
 * wants that very node back; ".." leads to the node above (fs_play.h). The played server has two
 * directories and a few files, the bytes of whose handles are below. The test says when the replies
 * come.
 *
 *      r/  a  b  d/  c             'D' is the root's handle, 'd' the other directory's
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "fs_play.h"

/* ---- the server ---- */

static bool gone[256];                  /* by handle: the file was removed */
static unsigned calls, getattrs, opens, named;  /* named: OPENs that came with names */
static uint64_t change;
static int fails;                       /* what the next call is answered with */

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	calls++;
	getattrs += c->op == NFS_OP_GETATTR;
	opens += c->op == NFS_OP_OPEN;
	named += c->op == NFS_OP_OPEN && c->args.nwhere;
	return xdr_uint32_t(x, &nothing);
}

static struct nfs_attr attr_of(uint8_t is)
{
	return (struct nfs_attr){
		.mode = is == 'd' || is == 'D' ? S_IFDIR | 0755 : S_IFREG | 0644, .nlink = 1,
		.size = 100 + is, .fileid = is, .change = change, .mtime = { 1000, (long)change },
	};
}

/* The node's handle: a file's first letter, which is its name. */
static uint8_t leads_to(const struct nfs_call *c)
{
	if (c->op == NFS_OP_LOOKUP)
		return (uint8_t)c->args.name[0];
	return c->op == NFS_OP_LOOKUPP ? 'D' : c->args.fh->data[0];
}

static int decode(struct nfs_call *c, XDR *x)
{
	uint8_t is = leads_to(c);
	int rc = fails;

	(void)x;
	fails = 0;
	if (rc)
		return rc;
	if (gone[is])
		return c->op == NFS_OP_LOOKUP ? -ENOENT : -ESTALE;
	if (c->op == NFS_OP_OPEN)
		c->open = calloc(1, 8);
	c->res.fh = (struct nfs_fh){ .len = 1, .data = { is } };
	if (c->op == NFS_OP_GETATTR)
		c->res.fh = (struct nfs_fh){ 0 };
	c->res.attr = attr_of(is);
	c->res.has_attr = true;
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
};

/* ---- the kernel ---- */

struct node {
	uint64_t id;
	uint32_t generation;            /* the kernel keeps 32 bits */
};

static void ask_name(uint64_t dir, const char *name)
{
	fs_play_ask(FUSE_LOOKUP, dir, name, strlen(name) + 1);
}

static struct node node_of_answer(uint8_t is)
{
	struct fuse_entry_out out;

	cr_assert(answer.count && answer.error == 0, "error %d", answer.error);
	memcpy(&out, answer.data, sizeof(out));
	cr_assert_eq(out.attr.ino, is);
	cr_assert_eq(out.attr.size, 100 + is);
	cr_assert_eq(out.attr.mtimensec, change, "the server's attributes of now");
	return (struct node){ out.nodeid, (uint32_t)out.generation };
}

static struct node lookup(uint64_t dir, const char *name)
{
	ask_name(dir, name);
	lane_play_serve();
	return node_of_answer((uint8_t)name[0]);
}

static int error_of_lookup(uint64_t dir, const char *name)
{
	ask_name(dir, name);
	lane_play_serve();
	cr_assert_eq(answer.count, 1);
	return answer.error;
}

static void forget(uint64_t node, uint64_t n)
{
	struct fuse_forget_in in = { .nlookup = n };

	fs_play_ask(FUSE_FORGET, node, &in, sizeof(in));
}

/* open_by_handle_at(2), when the node is forgotten. */
static void decode_handle(struct node n, uint8_t is)
{
	struct node back;

	ask_name(n.id, ".");
	lane_play_serve();
	back = node_of_answer(is);
	cr_assert_eq(back.id, n.id);
	cr_assert_eq(back.generation, n.generation);
}

static uint64_t known(void)
{
	return atomic_load(&fs.vfs.inodes.count);
}

static void setup(void)
{
	static const struct nfs_fh root = { .len = 1, .data = "D" };
	struct nfs_attr attr = attr_of('D');
	struct fuse_init_out init;

	change = 1;
	fs.cfg.vfs.acdirmin = 30;
	fs.vfs.inodes.acdirmin = fs.vfs.inodes.acdirmax = 30;
	fs.vfs.inodes.acregmin = fs.vfs.inodes.acregmax = 30;
	fs_play_start(&version, &root, &attr);
	memcpy(&init, answer.data, sizeof(init));
	cr_assert(init.flags & FUSE_EXPORT_SUPPORT, "or the kernel does not ask");
	fs.fsid_major = fs.fsid_minor = 0;
	calls = getattrs = 0;
}

static void teardown(void)
{
	cr_assert(list_empty(&fl->vl.active), "a request was left");
	fs_play_end();
}

TestSuite(fs_handles, .init = setup, .fini = teardown, .timeout = 300);

Test(fs_handles, a_forgotten_file_is_found)
{
	struct node a = lookup(FUSE_ROOT_ID, "a");

	for (unsigned i = 0; i < 3; i++) {
		forget(a.id, 1);
		cr_assert_eq(known(), 1, "only the root");
		change++;
		calls = 0;
		decode_handle(a, 'a');
		cr_assert(calls == 1 && getattrs == i + 1, "GETATTR alone");
		cr_assert_eq(known(), 2);
	}
	cr_assert_eq(lookup(FUSE_ROOT_ID, "a").id, a.id);
	forget(a.id, 2);
	cr_assert_eq(known(), 1);
}

/* A name is found again before its handle is used: the kernel must not get two nodes of a file. */
Test(fs_handles, a_forgotten_file_is_looked_up)
{
	struct node a = lookup(FUSE_ROOT_ID, "a"), again;

	forget(a.id, 1);
	again = lookup(FUSE_ROOT_ID, "a");
	cr_assert(again.id == a.id && again.generation == a.generation);
	decode_handle(a, 'a');
	forget(a.id, 2);
	cr_assert_eq(known(), 1);
}

Test(fs_handles, the_file_is_gone)
{
	struct node a = lookup(FUSE_ROOT_ID, "a");

	forget(a.id, 1);
	gone['a'] = true;
	cr_assert_eq(error_of_lookup(a.id, "."), -ESTALE);
	cr_assert_eq(known(), 1);
	gone['a'] = false;
	fails = -EIO;
	cr_assert_eq(error_of_lookup(a.id, "."), -EIO, "the server cannot tell now");
	decode_handle(a, 'a');
}

/* What nobody was given, and what is of another mount's time. */
Test(fs_handles, no_such_node)
{
	struct node a = lookup(FUSE_ROOT_ID, "a");
	static struct fs another;
	struct inode_table *other = &another.vfs.inodes;

	calls = 0;
	cr_assert_eq(error_of_lookup(a.id + 1, "."), -ESTALE);
	cr_assert_eq(error_of_lookup(a.id ^ 1ull << 40, "."), -ESTALE);
	cr_assert_eq(calls, 0, "nothing for the server");
	cr_assert_eq(a.generation, fs.vfs.inodes.generation);
	inode_table_init(other, &fs_front);
	cr_assert_neq(other->generation, a.generation, "one time in four thousand million");
	inode_table_fini(other);
	/* Other requests do not bring a forgotten node back. */
	forget(a.id, 1);
	cr_assert_eq(error_of_lookup(a.id, "b"), -ESTALE);
	cr_assert_eq(calls, 0);
}

/* There are more of them than are kept. */
Test(fs_handles, too_many_are_forgotten)
{
	struct node a = lookup(FUSE_ROOT_ID, "a");
	struct nfs_attr attr = attr_of('x');

	forget(a.id, 1);
	for (unsigned i = 0; i < 4 * INODE_FORGOTTEN * INODE_SHARDS; i++) {
		struct nfs_fh fh = { .len = 1 + sizeof(i) };

		memcpy(fh.data + 1, &i, sizeof(i));
		inode_put(&fs.vfs.inodes, inode_get(&fs.vfs.inodes, &fh, &attr, 0, NULL, 0, mono_ns()), 1);
	}
	calls = 0;
	cr_assert_eq(error_of_lookup(a.id, "."), -ESTALE);
	cr_assert_eq(calls, 0);
	cr_assert_neq(lookup(FUSE_ROOT_ID, "a").id, a.id, "no file gets that node again");
}

/* The same while GETATTR is under way: the file is there, but its node is not any more. */
Test(fs_handles, forgotten_for_good_meanwhile)
{
	struct node a = lookup(FUSE_ROOT_ID, "a");
	struct nfs_attr attr = attr_of('d');
	struct nfs_fh fh = { .len = 1, .data = "a" };

	forget(a.id, 1);
	ask_name(a.id, ".");
	/* A directory has had the handle: the node of before is no more. */
	inode_put(&fs.vfs.inodes, inode_get(&fs.vfs.inodes, &fh, &attr, 0, NULL, 0, mono_ns()), 1);
	lane_play_serve();
	cr_assert(answer.count == 1 && answer.error == -ESTALE);
	cr_assert_eq(known(), 1, "the new node is not the kernel's");
}

/* The kernel's FORGET comes before the LOOKUP that follows it, behind it, and in the middle. */
Test(fs_handles, forget_and_lookup_overtake_each_other)
{
	struct node a = lookup(FUSE_ROOT_ID, "a");

	lookup(FUSE_ROOT_ID, "a");
	decode_handle(a, 'a');
	forget(a.id, 2);
	cr_assert_eq(known(), 2, "the lookup of . counts");
	ask_name(a.id, ".");
	forget(a.id, 1);
	cr_assert_eq(known(), 1);
	lane_play_serve();
	cr_assert_eq(node_of_answer('a').id, a.id);
	cr_assert_eq(known(), 2);
	forget(a.id, 1);
	cr_assert_eq(known(), 1);
	/* The answer does not get there. */
	ask_name(a.id, ".");
	fs_play_refuse = true;
	lane_play_serve();
	fs_play_refuse = false;
	cr_assert_eq(known(), 1);
	decode_handle(a, 'a');
}

/* Two programs use the same handle, and a third one the name. */
Test(fs_handles, several_at_once)
{
	struct node a = lookup(FUSE_ROOT_ID, "a");

	forget(a.id, 1);
	ask_name(a.id, ".");
	ask_name(a.id, ".");
	ask_name(FUSE_ROOT_ID, "a");
	lane_play_serve();
	cr_assert_eq(answer.count, 3);
	cr_assert_eq(node_of_answer('a').id, a.id);
	cr_assert_eq(known(), 2);
	forget(a.id, 3);
	cr_assert_eq(known(), 1);
}

/* It is opened by its handle: nobody knows what it is called by now. */
Test(fs_handles, opened_without_a_name)
{
	struct fuse_open_in in = { .flags = O_RDWR };
	struct fuse_release_in release = { 0 };
	struct node a = lookup(FUSE_ROOT_ID, "a");
	struct fuse_open_out out;

	forget(a.id, 1);
	decode_handle(a, 'a');
	fs_play_ask(FUSE_OPEN, a.id, &in, sizeof(in));
	lane_play_serve();
	cr_assert(answer.count == 1 && answer.error == 0);
	cr_assert(opens == 1 && named == 0);
	memcpy(&out, answer.data, sizeof(out));
	release.fh = out.fh;
	fs_play_ask(FUSE_RELEASE, a.id, &release, sizeof(release));
	lane_play_serve();
}

/* The kernel has one node of the root, and gives back none. */
Test(fs_handles, the_root_is_above)
{
	struct node d = lookup(FUSE_ROOT_ID, "d"), root;
	uint64_t refs = atomic_load(&fs.root->refs);

	forget(d.id, 1);
	decode_handle(d, 'd');
	for (unsigned i = 0; i < 3; i++) {
		ask_name(i == 2 ? FUSE_ROOT_ID : d.id, i == 2 ? "." : "..");
		lane_play_serve();
		root = node_of_answer('D');
		cr_assert_eq(root.id, FUSE_ROOT_ID);
		cr_assert_eq(root.generation, 0, "that is what the kernel has for it");
	}
	cr_assert_eq(atomic_load(&fs.root->refs), refs);
	cr_assert_null(inode_find(&fs.vfs.inodes, inode_by_id(&fs.vfs.inodes, d.id)->id, ".."));
	inode_put(&fs.vfs.inodes, inode_by_id(&fs.vfs.inodes, d.id), 2);
	gone['D'] = true;
	cr_assert_eq(error_of_lookup(d.id, ".."), -ESTALE);
	fails = -ENOENT;
	cr_assert_eq(error_of_lookup(d.id, ".."), -ENOENT, "not kept as a name that is not there");
}

/* consistency=solo: what comes back is a regular file with all that one has. */
Test(fs_handles, solo)
{
	struct node a;

	fs.cfg.vfs.solo = true;
	a = lookup(FUSE_ROOT_ID, "a");
	forget(a.id, 1);
	decode_handle(a, 'a');
	cr_assert_not_null(believed_of(inode_by_id(&fs.vfs.inodes, a.id))->solo);
	inode_put(&fs.vfs.inodes, inode_by_id(&fs.vfs.inodes, a.id), 2);
}
