/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens under a delegation make no call (vfs/promised.h, vfs/delegations.c); and who gets in between. The server
 * and the version are the test's (vfs_play.h). The server has one file, which is called a, and gives a
 * delegation to whom `grants` says; what others do to it shows in what it answers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "vfs/vfs_impl.h"
#include "vfs_play.h"

struct nfs_open {
	struct rpc_cred cred;
	uint64_t under;                 /* which delegation */
};

static const struct nfs_fh fh = { .len = 4, .data = "file" }, other = { .len = 4, .data = "othr" };

/* The server's. */
static bool grants, taken, lost, others_name, blind;
static unsigned nlink = 1, others, size = 10;
static char again_at[] = "a";           /* the name, when the delegation is there */
static unsigned server_opens;           /* OPENs without a CLOSE */
static unsigned calls[NFS_OP_VERSION];
static char order[64];                  /* O OPEN, C CLOSE, D DELEGRETURN, M REMOVE, N RENAME, . another one */
static uint32_t sent[64];
static unsigned nsent;

/* The version's. */
static uint64_t number, numbers;        /* of the delegation that is held, and believed */
static bool doubt;
static unsigned due;
static struct nfs_file *of;
static struct nfs_delegation given = { .cred = { .uid = 1000 } };
static struct nfs_open *kept[8];
static unsigned nkept, opens;           /* opens: how many objects there are */

static char letter(enum nfs_op op)
{
	switch (op) {
	case NFS_OP_OPEN: return 'O';
	case NFS_OP_CLOSE: return 'C';
	case NFS_OP_DELEGRETURN: return 'D';
	case NFS_OP_REMOVE: return 'M';
	case NFS_OP_RENAME: return 'N';
	default: return '.';
	}
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;
	size_t n = strlen(order);

	calls[c->op]++;
	if (n < sizeof(order) - 1)
		order[n] = letter(c->op);
	if (c->op == NFS_OP_CLOSE)
		cr_assert_eq(c->cred->uid, c->open->cred.uid);
	cr_assert_lt(nsent, 64);
	sent[nsent++] = c->eng.rr.xid;
	return xdr_uint32_t(x, &nothing);
}

static void give(struct nfs_call *c)
{
	struct nfs_file *f = c->args.file.get(c, c->args.fh);

	nfs_file_put(f);
	c->res.open.named = c->args.nwhere && number && !blind;
	if (!grants || number || c->args.file.flags != O_RDONLY)
		return;
	of = given.file = f;
	number = ++numbers;
	atomic_store(&f->delegation, number);
	c->res.open.delegation = number;
	c->res.open.named = c->args.nwhere && !strcmp(c->args.where[0].name, again_at);
}

static int decode_open(struct nfs_call *c)
{
	for (unsigned i = 0; i < c->args.nwhere; i++)
		if (taken || strcmp(c->args.where[i].name, "a"))
			return -NFS_EMOVED;
	c->open = calloc(1, sizeof(*c->open));
	c->open->cred = *c->cred;
	opens++;
	server_opens++;
	give(c);
	c->open->under = c->args.file.flags == O_RDONLY ? number : 0;
	return 0;
}

static int decode(struct nfs_call *c, XDR *x)
{
	int rc = 0;

	(void)x;
	if (c->op == NFS_OP_READ) {
		c->res.io.ptr = "";
		c->res.io.len = 0;
		c->res.io.eof = true;
		return 0;
	}
	if (c->op == NFS_OP_OPEN)
		rc = decode_open(c);
	server_opens -= c->op == NFS_OP_CLOSE;
	if (rc || c->op == NFS_OP_CLOSE || c->op == NFS_OP_DELEGRETURN)
		return rc;
	if (lost && c->op == NFS_OP_SETATTR)
		return -EIO;
	c->res.fh = taken || others_name ? other : fh;
	c->res.attr = (struct nfs_attr){ .mode = S_IFREG | 0644, .nlink = nlink, .size = size, .used = 4096,
					 .atime.tv_sec = calls[NFS_OP_READ],
					 .change = calls[NFS_OP_SETATTR] + others };
	c->res.has_attr = true;
	return 0;
}

static bool any_due(const struct nfs_server *s)
{
	(void)s;
	return due;
}

static struct nfs_delegation *take(struct nfs_server *s)
{
	(void)s;
	cr_assert(due);
	due--;
	return &given;
}

static void end(struct nfs_call *c)
{
	cr_assert(c->args.delegation == &given && !nkept);
}

static void to_be_returned(void)
{
	if (!number)
		return;
	number = 0;
	atomic_store(&of->delegation, 0);
	due++;
}

static void drop(struct nfs_server *s, const struct nfs_file *f)
{
	(void)s;
	cr_assert_eq(f, of);
	to_be_returned();
}

static void drop_all(struct nfs_server *s)
{
	(void)s;
	to_be_returned();
}

static uint64_t delegated(const struct nfs_server *s, struct nfs_file *f)
{
	(void)s;
	return !doubt && f == of ? number : 0;
}

static bool stays(struct nfs_server *s, struct nfs_open *o)
{
	(void)s;
	if (!number || o->under != number || nkept == 8)
		return false;
	kept[nkept++] = o;
	return true;
}

static struct nfs_open *again(struct nfs_server *s, const struct nfs_file *f, uint64_t delegation,
			      const struct rpc_cred *cred, int flags, bool exec)
{
	(void)s;
	cr_assert(f == of && !exec);
	if (delegation != number || !nkept || kept[nkept - 1]->cred.uid != cred->uid)
		return NULL;
	return kept[--nkept];
}

static struct nfs_open *to_close(struct nfs_server *s, struct nfs_delegation *d, struct rpc_cred *cred)
{
	(void)s;
	cr_assert_eq(d, &given);
	if (!nkept)
		return NULL;
	*cred = kept[nkept - 1]->cred;
	return kept[--nkept];
}

static void open_free(struct nfs_open *o)
{
	opens--;
	free(o);
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [0 ... NFS_OP_VERSION - 1] = &any_op },
	.delegations_due = any_due, .delegation_take = take, .delegation_ends = end,
	.delegation_drop = drop, .delegations_drop = drop_all, .delegated = delegated,
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
}

static void reply_to_everything(void)
{
	while (nsent)
		reply_to_all();
}

static struct inode *ino;

static void look_up(void)
{
	vfs_play_lookup(root, "a");
	reply_to_all();
	ino = vfs_answer.ino;
	cr_assert_not_null(ino);
}

static void setup(void)
{
	static const struct nfs_fh root_fh = { .len = 4, .data = "root" };
	static const struct nfs_attr attr = { .mode = S_IFDIR | 0755, .nlink = 2 };

	vfs_play_start(&version, &root_fh, &attr, 25);
	vfs.cl->cfg.delegations = true;
	vfs.inodes.acdirmax = 60;
	grants = true;
	look_up();
}

static void teardown(void)
{
	inode_put(&vfs.inodes, ino, 1);
	nfs_undelegate_all(&vfs.cl->server);
	delegations_return(vl);
	reply_to_everything();
	loop_timer_clear(&vl->tick);
	cr_assert(list_empty(&vl->active), "an operation was left");
	cr_assert(!server_opens && !nkept, "%u opens are left at the server", server_opens);
	cr_assert_eq(opens, 0);
	vfs_play_end();
}

TestSuite(vfs_kept, .init = setup, .fini = teardown, .timeout = 60);

static struct file *open_it(int flags)
{
	vfs_play_open(ino, flags, true);
	reply_to_everything();
	cr_assert(vfs_answer.count == 1 && !vfs_answer.status, "%d", vfs_answer.status);
	return vfs_answer.file;
}

/* How many OPENs it takes to open the file, and to close it. */
static unsigned open_close(void)
{
	unsigned before = calls[NFS_OP_OPEN];

	vfs_play_close(open_it(O_RDONLY));
	reply_to_everything();
	return calls[NFS_OP_OPEN] - before;
}

static unsigned getattr(void)
{
	unsigned before = calls[NFS_OP_GETATTR];

	vfs_play_getattr(ino);
	reply_to_all();
	cr_assert(vfs_answer.count == 1 && !vfs_answer.status);
	cr_assert_eq(vfs_answer.attr.atime.tv_sec, calls[NFS_OP_READ]);
	cr_assert_eq(vfs_answer.attr.change, calls[NFS_OP_SETATTR] + others);
	return calls[NFS_OP_GETATTR] - before;
}

/* ---- no call ---- */

Test(vfs_kept, one_open)
{
	cr_assert(open_close() == 1 && open_close() == 0 && open_close() == 0);
	cr_assert(calls[NFS_OP_CLOSE] == 0 && server_opens == 1);
	cr_assert_eq(getattr(), 0, "OPEN's attributes came behind the delegation");
}

/* As many as there are open files at a time. */
Test(vfs_kept, several_opens)
{
	struct file *a = open_it(O_RDONLY), *b = open_it(O_RDONLY);

	cr_assert_eq(server_opens, 2);
	vfs_play_close(a);
	vfs_play_close(b);
	a = open_it(O_RDONLY);
	b = open_it(O_RDONLY);
	cr_assert(calls[NFS_OP_OPEN] == 2 && !calls[NFS_OP_CLOSE]);
	cr_assert_neq(a->open, b->open);
	/* It is recalled meanwhile: who has the file open goes on, and closes it. */
	to_be_returned();
	vfs_play_close(a);
	delegations_return(vl);
	reply_to_everything();
	cr_assert(calls[NFS_OP_CLOSE] == 1 && server_opens == 1);
	vfs_play_close(b);
	reply_to_everything();
}

/* An open whose process is killed while OPEN is under way: the next one has it. */
Test(vfs_kept, nobody_waits)
{
	vfs_play_open(ino, O_RDONLY, true);
	cr_assert_not(vfs_play_give_up(container_of(vl->active.next, struct vfs_op, node)));
	reply_to_everything();
	cr_assert(server_opens == 1 && open_close() == 0);
}

Test(vfs_kept, none_is_given)
{
	grants = false;
	cr_assert(open_close() == 1 && open_close() == 1);
	cr_assert(calls[NFS_OP_CLOSE] == 2 && getattr() == 1);
}

/* To write, and by no name: the kernel has not just looked one up. */
Test(vfs_kept, other_opens)
{
	struct file *f;

	cr_assert_eq(open_close(), 1);
	vfs_play_open(ino, O_RDONLY, false);
	reply_to_everything();
	vfs_play_close(vfs_answer.file);
	cr_assert_eq(calls[NFS_OP_OPEN], 2);
	f = open_it(O_WRONLY);
	cr_assert_eq(calls[NFS_OP_OPEN], 3);
	vfs_play_close(f);
	reply_to_everything();
	/* The file's delegation went back before it was opened to write, and another one has come. */
	cr_assert_eq(calls[NFS_OP_DELEGRETURN], 1);
	cr_assert_eq(open_close() + open_close(), 1);
}

/* ---- what ends it ---- */

Test(vfs_kept, a_recall)
{
	cr_assert(open_close() == 1 && open_close() == 0);
	grants = false;
	memset(order, 0, sizeof(order));
	to_be_returned();
	vfs_nfs_front.delegations_due(vl->lane);
	/* From now on, and before DELEGRETURN is sent. */
	vfs_play_open(ino, O_RDONLY, true);
	cr_assert_eq(calls[NFS_OP_OPEN], 2);
	lane_play_run(1);
	reply_to_everything();
	cr_assert_eq(calls[NFS_OP_CLOSE], 1);
	cr_assert_str_eq(order, "OCD");
	others++;
	vfs_play_close(vfs_answer.file);
	reply_to_everything();
	cr_assert(open_close() == 1 && server_opens == 0);
}

/* Another delegation than that under which the file was opened. */
Test(vfs_kept, another_delegation)
{
	cr_assert(open_close() == 1 && open_close() == 0);
	to_be_returned();
	delegations_return(vl);
	reply_to_everything();
	others++;
	cr_assert(open_close() == 1 && open_close() == 0 && getattr() == 0);
}

/* The session is lost, the machine has slept, and what else nfs4_belief.c knows. */
Test(vfs_kept, doubt)
{
	cr_assert(open_close() == 1 && open_close() == 0);
	doubt = true;
	cr_assert_eq(open_close(), 1);
	doubt = false;
	cr_assert_eq(open_close(), 0);
}

/* Nor is anything kept that comes in while there is doubt. */
Test(vfs_kept, doubt_while_it_is_opened)
{
	vfs_play_open(ino, O_RDONLY, true);
	doubt = true;
	reply_to_everything();
	doubt = false;
	vfs_play_close(vfs_answer.file);
	cr_assert(open_close() == 1 && open_close() == 0);
}

/* The delegation goes back before this mount changes the file, and what stays is closed. */
Test(vfs_kept, own_changes)
{
	cr_assert_eq(open_close(), 1);
	grants = false;
	memset(order, 0, sizeof(order));
	vfs_play_truncate(ino, 10);
	reply_to_everything();
	cr_assert_str_eq(order, "CD.");
	cr_assert_eq(open_close(), 1);
	/* While the change is under way: it may be executed before or behind OPEN. */
	grants = true;
	vfs_play_truncate(ino, 10);
	vfs_play_open(ino, O_RDONLY, true);
	reply_to_everything();
	vfs_play_close(vfs_answer.file);
	cr_assert_eq(open_close(), 1);
	cr_assert_eq(open_close(), 0);
}

/* A user's OPEN is executed before this mount's own chmod, for which the truncation stands, and that takes his right
 * away. The replies come in any order, and no server recalls a delegation because of what its holder does. */
Test(vfs_kept, rights_from_before_an_own_change)
{
	for (unsigned i = 0; i < 4; i++) {
		bool open_first = i & 1, change_ends_first = i & 2;
		uint32_t xid[2];

		if (open_first)
			vfs_play_open(ino, O_RDONLY, true);
		vfs_play_truncate(ino, 10);
		if (!open_first)
			vfs_play_open(ino, O_RDONLY, true);
		memcpy(xid, sent, sizeof(xid));
		nsent = 0;
		lane_play_reply(xid[open_first == change_ends_first]);
		lane_play_reply(xid[open_first != change_ends_first]);
		vfs_play_close(vfs_answer.file);
		reply_to_everything();
		cr_assert(!server_opens && !number, "row %u: the next one is opened without a question", i);
	}
}

/* It may be executed at any time, and nothing is recalled because of it. */
Test(vfs_kept, a_change_without_an_answer)
{
	lost = true;
	cr_assert_eq(open_close(), 1);
	vfs_play_truncate(ino, 10);
	reply_to_everything();
	cr_assert(open_close() == 1 && open_close() == 1);
}

/* ---- another user ---- */

Test(vfs_kept, another_user)
{
	cr_assert_eq(open_close(), 1);
	kept[0]->cred.uid = 77;
	cr_assert(open_close() == 1 && open_close() == 0);
	cr_assert_eq(nkept, 2);
}

/* ---- names ---- */

/* Another client has given the name to another file between OPEN's look at it and the delegation. */
Test(vfs_kept, the_name_goes_before_the_delegation_comes)
{
	again_at[0] = 'x';
	cr_assert_eq(open_close(), 1);
	taken = true;
	vfs_play_open(ino, O_RDONLY, true);
	reply_to_everything();
	cr_assert_eq(vfs_answer.status, -NFS_EMOVED);
	taken = false;
}

/* The server has not said so; the next OPEN, which is sent under the delegation, shows it. */
Test(vfs_kept, the_name_is_not_known_to_be_held)
{
	again_at[0] = 'x';
	cr_assert(open_close() == 1 && open_close() == 1 && open_close() == 0);
}

/* The server cannot say which file has a name: another client may have given it to another one. */
Test(vfs_kept, names_that_cannot_be_looked_at)
{
	again_at[0] = 'x';
	blind = true;
	cr_assert(open_close() == 1 && open_close() == 1 && open_close() == 1);
}

/* The kernel may have found the file by one that is not its name. */
Test(vfs_kept, another_name)
{
	cr_assert(open_close() == 1 && open_close() == 0);
	inode_named(&vfs.inodes, ino, root->id, "b");
	vfs_play_open(ino, O_RDONLY, true);
	reply_to_everything();
	cr_assert_eq(vfs_answer.status, -NFS_EMOVED);
	/* Its own is the newest one again. */
	look_up();
	inode_put(&vfs.inodes, ino, 1);
	vfs_play_open(ino, O_RDONLY, true);
	reply_to_everything();
	cr_assert_eq(vfs_answer.status, -NFS_EMOVED);
	inode_unnamed(&vfs.inodes, root->id, "b");
	cr_assert_eq(open_close(), 0);
}

/* The same name once more: it was another file's in between, or only looked up again. */
Test(vfs_kept, the_name_again)
{
	cr_assert(open_close() == 1 && open_close() == 0);
	look_up();
	inode_put(&vfs.inodes, ino, 1);
	cr_assert_eq(open_close(), 0);
	inode_unnamed(&vfs.inodes, root->id, "a");
	inode_named(&vfs.inodes, ino, root->id, "a");
	cr_assert(open_close() == 1 && open_close() == 0);
}

/* This mount may remove one of which nobody here knows that it is the file's. */
Test(vfs_kept, two_names)
{
	nlink = 2;
	cr_assert(open_close() == 1 && open_close() == 1);
}

Test(vfs_kept, removed)
{
	cr_assert(open_close() == 1 && open_close() == 0);
	memset(order, 0, sizeof(order));
	vfs_play_unlink(root, "a");
	reply_to_everything();
	cr_assert_str_eq(order, "CDM", "there are servers that do not remove what is open");
	cr_assert(!server_opens && !number);
	grants = false;
	look_up();
	inode_put(&vfs.inodes, ino, 1);
}

/* While it is open, it gets a silly name, and no OPEN stays. */
Test(vfs_kept, removed_while_open)
{
	struct file *f;

	cr_assert_eq(open_close(), 1);
	f = open_it(O_RDONLY);
	vfs_play_unlink(root, "a");
	reply_to_everything();
	vfs_play_close(f);
	reply_to_everything();
	cr_assert_eq(server_opens, 0);
	grants = false;
	look_up();
	inode_put(&vfs.inodes, ino, 1);
}

/* What replaces it is another file. */
Test(vfs_kept, replaced)
{
	cr_assert(open_close() == 1 && open_close() == 0);
	grants = false;
	vfs_play_rename(root, "x", root, "a");
	reply_to_everything();
	cr_assert(!number && !server_opens);
}

/* ---- attributes ---- */

Test(vfs_kept, the_time_of_access)
{
	struct file *f = open_it(O_RDONLY);

	vfs_play_read(f, 0, 10, false);
	reply_to_all();
	vfs_play_close(f);
	cr_assert_eq(open_close(), 0);
	cr_assert(getattr() == 1 && getattr() == 0);
	cr_assert_eq(open_close(), 0);
}

/* Another open's READ is executed behind OPEN, and has its reply before OPEN has. */
Test(vfs_kept, a_read_beside_the_open)
{
	struct file *f, *g;

	grants = false;
	f = open_it(O_RDONLY);
	grants = true;
	vfs_play_read(f, 0, 10, false);
	vfs_play_open(ino, O_RDONLY, true);
	reply_to_everything();
	g = vfs_answer.file;
	cr_assert_eq(getattr(), 1);
	vfs_play_close(f);
	vfs_play_close(g);
	reply_to_everything();
	cr_assert_eq(open_close(), 0);
}

/* An OPEN's reply is decoded behind that of the OPEN that has brought the delegation, and is older. */
Test(vfs_kept, a_reply_from_before)
{
	struct file *a;
	uint32_t first;

	grants = false;
	vfs_play_open(ino, O_RDONLY, true);
	first = sent[0];
	vfs_play_open(ino, O_RDONLY, true);
	grants = true;
	lane_play_reply(sent[1]);
	a = vfs_answer.file;
	nsent = 0;
	others--;       /* a change that was made between them */
	lane_play_reply(first);
	others++;
	vfs_play_close(vfs_answer.file);
	vfs_play_close(a);
	reply_to_everything();
	vfs_play_open(ino, O_RDONLY, true);
	reply_to_everything();
	vfs_play_close(vfs_answer.file);
	cr_assert_eq(getattr(), 0);
}

/* Nothing is left of an inode that was forgotten. */
Test(vfs_kept, forgotten)
{
	cr_assert(open_close() == 1 && open_close() == 0);
	inode_put(&vfs.inodes, ino, 1);
	look_up();
	cr_assert(open_close() == 1 && open_close() == 0);
}
