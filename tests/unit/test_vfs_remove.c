/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Removing names of files that are open, without FUSE and without a protocol
 * (vfs_play.h). The version's operations work on a tree in this file. The test says when the
 * server executes a call, when the reply comes, and whether the reply is lost. Each step
 * checks one rule: a file that is open, or that nobody wanted to remove, has a name.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "vfs_play.h"

/* ---- the server's tree ---- */

enum { ROOT, DIR1, DIR2, FILES, OBJS = FILES + 24 };    /* objects */
#define ENTRIES 64u

static struct {
	struct { int dir, obj; char name[40]; } e[ENTRIES];
	unsigned n;
	int objs;
	bool no_links;
} tree;

/* What this machine's programs have done with each object. */
static struct {
	unsigned opens;                 /* open(2) has returned, close(2) has not been called */
	bool unwanted;                  /* its name was to go, or to be taken */
} seen[OBJS];

static int look(int dir, const char *name)
{
	for (unsigned i = 0; i < tree.n; i++)
		if (tree.e[i].dir == dir && !strcmp(tree.e[i].name, name))
			return (int)i;
	return -1;
}

static int at(int dir, const char *name)
{
	int i = look(dir, name);

	return i < 0 ? -1 : tree.e[i].obj;
}

static unsigned links(int obj)
{
	unsigned n = 0;

	for (unsigned i = 0; i < tree.n; i++)
		n += tree.e[i].obj == obj;
	return n;
}

static bool silly(const char *name)
{
	return !strncmp(name, ".nfs", 4);
}

static void put_entry(int dir, const char *name, int obj)
{
	cr_assert_lt(tree.n, ENTRIES);
	tree.e[tree.n].dir = dir;
	tree.e[tree.n].obj = obj;
	snprintf(tree.e[tree.n++].name, sizeof(tree.e[0].name), "%s", name);
}

static void take_entry(int i)
{
	int obj = tree.e[i].obj;
	char name[40];

	strcpy(name, tree.e[i].name);
	tree.e[i] = tree.e[--tree.n];
	if (!silly(name))
		seen[obj].unwanted = true;
	if (obj < FILES || links(obj))
		return;
	cr_assert(seen[obj].unwanted, "file %d was lost with '%s'", obj, name);
	cr_assert(!seen[obj].opens, "file %d is open, and was lost with '%s'",
		  obj, name);
}

static int new_file(int dir, const char *name)
{
	int obj = tree.objs++;

	cr_assert_lt(obj, OBJS);
	put_entry(dir, name, obj);
	return obj;
}

/* ---- the server's operations ---- */

static int obj_of(const struct nfs_fh *fh)
{
	return fh->data[0];
}

static struct nfs_fh fh_of(int obj)
{
	return (struct nfs_fh){ .len = 4, .data = { (uint8_t)obj, 'f', 'h', '!' } };
}

static struct nfs_attr attr_of(int obj)
{
	return (struct nfs_attr){ .mode = obj < FILES ? S_IFDIR | 0755 : S_IFREG | 0644,
				  .fileid = (uint64_t)obj + 100, .nlink = 1 };
}

static int do_rename(const struct nfs_call *c)
{
	int from = look(obj_of(c->args.fh), c->args.name), to = look(obj_of(c->args.fh2), c->args.name2), obj;
	bool back = silly(c->args.name);

	if (from < 0)
		return -ENOENT;
	obj = tree.e[from].obj;
	if (to >= 0 && tree.e[to].obj == obj)
		return 0;
	if (to >= 0 && obj < FILES) {
		for (unsigned i = 0; i < tree.n; i++)
			if (tree.e[i].dir == tree.e[to].obj)
				return -ENOTEMPTY;
	}
	cr_assert(!back || to < 0, "'%s' was taken from file %d when '%s' came back", c->args.name2,
		  tree.e[to].obj, c->args.name);
	/* Not by take_entry(): this name is not lost. */
	put_entry(obj_of(c->args.fh2), c->args.name2, obj);
	tree.e[from] = tree.e[--tree.n];
	if (to >= 0)
		take_entry(to == (int)tree.n ? from : to);
	return 0;
}

static int do_link(const struct nfs_call *c)
{
	int obj = obj_of(c->args.fh), dir = obj_of(c->args.fh2);

	if (tree.no_links)
		return -EOPNOTSUPP;
	if (!links(obj))
		return -ESTALE;
	if (look(dir, c->args.name) >= 0)
		return -EEXIST;
	put_entry(dir, c->args.name, obj);
	return 0;
}

static int do_remove(const struct nfs_call *c, bool dir)
{
	int i = look(obj_of(c->args.fh), c->args.name);

	if (i < 0)
		return -ENOENT;
	for (unsigned k = 0; dir && k < tree.n; k++)
		if (tree.e[k].dir == tree.e[i].obj)
			return -ENOTEMPTY;
	take_entry(i);
	return 0;
}

/* ---- what programs have asked ---- */

enum what { NOTHING, LOOKUPS, OPENS, UNLINKS, RENAMES, OTHERS };

static struct ask {
	uint64_t nr;
	enum what what;
	bool answered, counted;
	bool names;                     /* takes a name away */
	int error;
	int from, to, obj, old;         /* directories; file at the name, and at the new one */
	char name[8], newname[8];
	struct file *file;
	const struct vfs_op *op;        /* until it is answered */
} asks[256];
static unsigned nasks;

/* ---- calls under way ---- */

enum fate { WORKS, DENIED, LOST_BEFORE, LOST_AFTER };

static struct sent {
	struct nfs_call *c;
	uint32_t xid;
	enum nfs_op op;
	bool executed;
	int rc, obj;                    /* what the reply says */
} sent[64];
static unsigned nsent, executed;
static char say[65536];                 /* the daemon's messages */

/* An operation may have waited for another one. What it finds at its names counts when it
 * sends its first call. */
static void look_at_names(const struct vfs_op *op)
{
	for (unsigned i = 0; i < nasks; i++) {
		struct ask *a = &asks[i];

		if (a->op != op || a->answered || !a->names || op->changes != 1)
			continue;
		a->obj = at(a->from, a->name);
		a->old = at(a->to, a->newname);
	}
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t nothing = 0;

	look_at_names(container_of(c, struct vfs_op, call));
	cr_assert_lt(nsent, 64);
	sent[nsent++] = (struct sent){ .c = c, .xid = c->eng.rr.xid, .op = c->op };
	return xdr_uint32_t(x, &nothing);
}

static int run_op(struct sent *s)
{
	const struct nfs_call *c = s->c;

	switch (s->op) {
	case NFS_OP_LOOKUP:
		s->obj = at(obj_of(c->args.fh), c->args.name);
		return s->obj < 0 ? -ENOENT : 0;
	case NFS_OP_LINK:
		s->obj = obj_of(c->args.fh);
		return do_link(c);
	case NFS_OP_OPEN:
		s->obj = obj_of(c->args.fh);
		for (unsigned i = 0; i < c->args.nwhere; i++)
			if (at(obj_of(c->args.where[i].dir), c->args.where[i].name) != s->obj)
				return links(s->obj) ? -NFS_EMOVED : -ESTALE;
		return links(s->obj) ? 0 : -ESTALE;
	case NFS_OP_RENAME:
		return do_rename(c);
	case NFS_OP_REMOVE:
		return do_remove(c, false);
	case NFS_OP_RMDIR:
		return do_remove(c, true);
	default:
		return 0;
	}
}

static void execute(struct sent *s, enum fate fate)
{
	executed++;
	s->executed = true;
	s->rc = fate == WORKS || fate == LOST_AFTER ? run_op(s) : 0;
	if (fate != WORKS)
		s->rc = fate == DENIED ? -EACCES : -EIO;
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
	if (s.rc)
		return s.rc;
	if (s.op == NFS_OP_LOOKUP || s.op == NFS_OP_LINK || s.op == NFS_OP_OPEN) {
		c->res.fh = fh_of(s.obj);
		c->res.attr = attr_of(s.obj);
		c->res.has_attr = true;
	}
	if (s.op == NFS_OP_OPEN)
		c->open = calloc(1, 8);
	return 0;
}

static const struct nfs_opdef any_op = {
	.name = "call", .encode = encode, .decode = decode, .results_max = 100, .proc = 1,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1,
	.ops = {
		[NFS_OP_LOOKUP] = &any_op, [NFS_OP_OPEN] = &any_op, [NFS_OP_CLOSE] = &any_op,
		[NFS_OP_LINK] = &any_op, [NFS_OP_RENAME] = &any_op, [NFS_OP_REMOVE] = &any_op,
		[NFS_OP_RMDIR] = &any_op,
	},
};

static void reply(struct sent *s)
{
	lane_play_reply(s->xid);
}

static struct sent *the_call(enum nfs_op op)
{
	for (unsigned i = 0; i < nsent; i++)
		if (sent[i].op == op)
			return &sent[i];
	return NULL;
}

static void serve(enum fate fate)
{
	execute(&sent[0], fate);
	reply(&sent[0]);
}

/* Does the operation wait for another one: an open for a call that removes a name, or a
 * change for one that was given up? */
static bool waits(const struct vfs_op *op)
{
	if (op->call.op == NFS_OP_OPEN)
		return op->waited && !op->open.opening;
	return op->go && !op->calling && !op->changes;
}

/* Makes an operation that waits look again, without letting its time pass. false: there is
 * none. */
static bool look_again(void)
{
	list_for_each(n, &vl->active) {
		struct vfs_op *op = container_of(n, struct vfs_op, node);

		if (!waits(op))
			continue;
		loop_timer_clear(&op->call.eng.timer);
		op->call.eng.timer.fn(&op->call.eng.timer);
		lane_play_flush();
		return true;
	}
	return false;
}

static void serve_all(void)
{
	while (nsent || look_again()) {
		if (!nsent)
			continue;
		if (!sent[0].executed)
			execute(&sent[0], WORKS);
		reply(&sent[0]);
	}
}

/* ---- the programs ---- */

static struct inode *found;             /* a reference, which stays until the end: programs forget nothing */

/* An answer has come: to which of them? */
static void answered(uint64_t nr)
{
	for (unsigned i = 0; i < nasks; i++) {
		struct ask *a = &asks[i];

		if (a->nr != nr)
			continue;
		cr_assert_not(a->answered);
		a->answered = true;
		a->error = vfs_answer.status;
		if (a->names && a->old >= 0 && (!a->error || (a->error == -EINTR && a->op->changes)))
			seen[a->old].unwanted = true;
		if (a->what == LOOKUPS)
			found = a->error ? NULL : vfs_answer.ino;
		if (a->what == OPENS && !a->error)
			a->file = vfs_answer.file;
	}
}

/* The next operation is this one. */
static struct ask *asks_for(enum what what)
{
	struct ask *a = &asks[nasks++ % 256];

	*a = (struct ask){ .nr = vfs_play_next, .what = what };
	return a;
}

/* It has been started. */
static struct ask *asked(struct ask *a)
{
	struct list *last = vl->active.prev;

	a->op = list_empty(&vl->active) ? NULL : container_of(last, struct vfs_op, node);
	lane_play_flush();
	return a;
}

static struct inode *dirs[FILES];

/* The name's inode, or NULL. */
static struct inode *lookup(int dir, const char *name)
{
	unsigned before = nsent;
	struct ask *a = asks_for(LOOKUPS);

	vfs_play_lookup(dirs[dir], name);
	asked(a);
	cr_assert_eq(nsent, before + 1);
	execute(&sent[before], WORKS);
	reply(&sent[before]);
	cr_assert(a->answered);
	nasks--;
	return found;
}

static struct ask *open_inode(struct inode *ino, int obj)
{
	struct ask *a = asks_for(OPENS);

	a->obj = obj;
	vfs_play_open(ino, O_RDONLY, true);
	return asked(a);
}

static struct ask *start_open(int dir, const char *name)
{
	int obj = at(dir, name);

	return open_inode(lookup(dir, name), obj);
}

/* close(2) */
static void start_close(struct ask *opened)
{
	seen[opened->obj].opens--;
	opened->what = NOTHING;
	vfs_play_close(opened->file);
	lane_play_flush();
}

/* Without looking the name up before. */
static struct ask *unlink_at_once_in(int dir, const char *name)
{
	struct ask *a = asks_for(UNLINKS);

	a->old = -1;
	vfs_play_unlink(dirs[dir], name);
	return asked(a);
}

static struct ask *start_unlink(int dir, const char *name)
{
	int obj = at(dir, name);
	struct ask *a;

	lookup(dir, name);
	a = unlink_at_once_in(dir, name);
	a->from = a->to = dir;
	a->obj = a->old = obj;
	strcpy(a->name, name);
	strcpy(a->newname, name);
	a->names = true;
	return a;
}

static struct ask *rename_at_once_in(int dir, const char *name, int newdir, const char *newname)
{
	struct ask *a = asks_for(RENAMES);

	a->old = -1;
	vfs_play_rename(dirs[dir], name, dirs[newdir], newname);
	return asked(a);
}

static struct ask *start_rename(int dir, const char *name, int newdir, const char *newname)
{
	int obj = at(dir, name), old = at(newdir, newname);
	struct ask *a;

	lookup(dir, name);
	lookup(newdir, newname);
	a = rename_at_once_in(dir, name, newdir, newname);
	a->from = dir;
	a->to = newdir;
	a->obj = obj;
	a->old = old;
	strcpy(a->name, name);
	strcpy(a->newname, newname);
	a->names = true;
	return a;
}

static struct ask *start_rmdir(const char *name)
{
	struct ask *a = asks_for(OTHERS);

	vfs_play_rmdir(dirs[ROOT], name);
	return asked(a);
}

static struct ask *opened(int dir, const char *name)
{
	struct ask *a = start_open(dir, name);

	serve_all();
	cr_assert(a->answered && !a->error);
	a->counted = true;
	seen[a->obj].opens++;
	return a;
}

static void run_loop(unsigned ms)
{
	lane_play_run(ms);
	lane_play_flush();
}

/* ---- what the daemon says ---- */

static int old_stderr, said;

static bool was_said(const char *text)
{
	ssize_t n = pread(said, say, sizeof(say) - 1, 0);

	say[n > 0 ? n : 0] = '\0';
	return strstr(say, text);
}

/* ---- both ---- */

static void setup(void)
{
	struct nfs_fh fh = fh_of(ROOT);
	struct nfs_attr attr = attr_of(ROOT);
	char path[] = "/tmp/test_vfs_remove.XXXXXX";

	said = mkstemp(path);
	unlink(path);
	old_stderr = dup(2);
	dup2(said, 2);
	vfs_play_answered = answered;
	vfs.inodes.acdirmin = vfs.inodes.acdirmax = 30;
	vfs_play_start(&version, &fh, &attr, 0);
	nasks = 0;
	memset(&tree, 0, sizeof(tree));
	memset(seen, 0, sizeof(seen));
	tree.objs = FILES;
	put_entry(ROOT, "d1", DIR1);
	put_entry(ROOT, "d2", DIR2);
	dirs[ROOT] = root;
	dirs[DIR1] = lookup(ROOT, "d1");
	dirs[DIR2] = lookup(ROOT, "d2");
}

static void teardown(void)
{
	cr_assert(list_empty(&vl->active), "an operation was left");
	vfs_play_end();
	dup2(old_stderr, 2);
	close(said);
	close(old_stderr);
}

TestSuite(vfs_remove, .timeout = 300);

/* Checks that each silly name which is left was logged; or that there is none at all. */
static void expect_nothing_of_ours(bool none_at_all)
{
	for (unsigned i = 0; i < tree.n; i++)
		if (silly(tree.e[i].name))
			cr_assert(!none_at_all && was_said(tree.e[i].name), "'%s' stays: file %d",
				  tree.e[i].name, tree.e[i].obj);
}

/* ---- one failure, anywhere ---- */

/*
 * unlink of an open file, or rename over it. Call number `which` fails in one way, and the
 * file is closed before call number `closed` is executed, or before its reply comes.
 * Afterwards the name belongs to the old file, or to the new one if the server has done it.
 */
static bool one_failure(bool is_unlink, bool no_links, unsigned which, enum fate fate,
			unsigned closed, bool before_reply)
{
	struct ask *o, *a;
	int old, new;
	unsigned n = 0;
	bool done;

	setup();
	tree.no_links = no_links;
	old = new_file(DIR1, "a");
	new = new_file(DIR2, "b");
	o = opened(DIR1, "a");
	a = is_unlink ? start_unlink(DIR1, "a") : start_rename(DIR2, "b", DIR1, "a");
	for (; nsent; n++) {
		if (n == closed && !before_reply)
			start_close(o);
		execute(&sent[0], n == which ? fate : WORKS);
		if (n == closed && before_reply)
			start_close(o);
		reply(&sent[0]);
		cr_assert_lt(n, 20);
	}
	if (o->what)
		start_close(o);
	serve_all();
	cr_assert(a->answered);
	done = at(DIR1, "a") != old;
	if (is_unlink)
		cr_assert(done == (at(DIR1, "a") < 0) && at(DIR2, "b") == new);
	else
		cr_assert_eq(done ? at(DIR1, "a") : at(DIR2, "b"), new);
	cr_assert(done || a->error, "reported as done, and not done");
	cr_assert(!done || !a->error || a->error == -EIO, "done, and error %d", a->error);
	cr_assert(a->error || done);
	cr_assert(which < n || !a->error);
	expect_nothing_of_ours(which >= n);
	teardown();
	return which < n;
}

Test(vfs_remove, one_failure_anywhere)
{
	static const enum fate fates[] = { DENIED, LOST_BEFORE, LOST_AFTER };

	for (unsigned k = 0; k < 4; k++)
		for (unsigned f = 0; f < 3; f++)
			for (unsigned c = 0; c < 8; c++)
				for (unsigned which = 0; which < 8; which++)
					one_failure(k & 1, k & 2, which, fates[f], c / 2, c % 2);
}

/* A file that cannot be put back stays, and the log says so. */
Test(vfs_remove, kept_and_said, .init = setup, .fini = teardown)
{
	struct ask *o, *a;
	int old = new_file(DIR1, "a");
	char name[40] = "";

	new_file(DIR2, "b");
	tree.no_links = true;
	o = opened(DIR1, "a");
	a = start_rename(DIR2, "b", DIR1, "a");
	serve(WORKS);                   /* LINK: not supported */
	serve(WORKS);                   /* RENAME a -> .nfs */
	cr_assert_lt(at(DIR1, "a"), 0);
	serve(DENIED);                  /* RENAME b -> a */
	start_close(o);
	while (nsent) {
		enum nfs_op op = sent[0].op;

		serve(op == NFS_OP_RENAME ? DENIED : WORKS);
	}
	cr_assert(a->answered && a->error == -EACCES);
	cr_assert_eq(links(old), 1);
	for (unsigned i = 0; i < tree.n; i++)
		if (tree.e[i].obj == old)
			strcpy(name, tree.e[i].name);
	cr_assert(silly(name) && was_said(name) && was_said("data are"));
}

/* ---- any order ---- */

static unsigned seed;

static unsigned roll(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

static const char *const names[] = { "a", "b", "c" };

static bool locked(int dir)
{
	for (unsigned i = 0; i < nasks; i++)
		if (!asks[i].answered && (asks[i].what == UNLINKS || asks[i].what == RENAMES) &&
		    (asks[i].from == dir || asks[i].to == dir))
			return true;
	return false;
}

static void see_answers(void)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < nasks; i++) {
		struct ask *a = &asks[i];

		if (a->answered && a->what == OPENS && !a->counted) {
			a->counted = true;
			seen[a->obj].opens += !a->error;
			if (a->error)
				a->what = NOTHING;
		}
		if (a->answered && a->names)
			a->what = NOTHING;
		if (a->what)
			asks[kept++] = *a;
	}
	nasks = kept;
}

static void some_request(bool others)
{
	int d1 = DIR1 + (int)roll(2), d2 = DIR1 + (int)roll(2);
	const char *n1 = names[roll(3)], *n2 = names[roll(3)];

	switch (roll(others ? 5 : 4)) {
	case 0:
		if (at(d1, n1) >= 0 && nasks < 30)
			start_open(d1, n1);
		return;
	case 1:
		for (unsigned i = 0; i < nasks; i++) {
			if (asks[i].what == OPENS && asks[i].counted) {
				start_close(&asks[i]);
				return;
			}
		}
		return;
	case 2:
		if (at(d1, n1) >= 0 && !locked(d1))
			start_unlink(d1, n1);
		return;
	case 3:
		if (at(d1, n1) >= 0 && at(d1, n1) != at(d2, n2) && !locked(d1) && !locked(d2))
			start_rename(d1, n1, d2, n2);
		return;
	default:                        /* another client */
		if (at(d1, n1) < 0 && tree.objs < OBJS)
			new_file(d1, n1);
	}
}

static enum fate some_fate(unsigned failures, bool others, enum nfs_op op)
{
	if (roll(100) >= failures || (others && op == NFS_OP_LINK))
		return WORKS;
	return DENIED + roll(3);
}

static void some_kill(void)
{
	list_for_each(n, &vl->active) {
		struct vfs_op *op = container_of(n, struct vfs_op, node);

		if (vfs_play_nr(op) && op->call.op != NFS_OP_OPEN && roll(2)) {
			vfs_play_give_up(op);
			return;
		}
	}
}

static void any_order(unsigned which)
{
	bool others = which % 3 == 0, kills = which % 2;
	unsigned failures = which % 5 * 8;

	seed = which;
	setup();
	tree.no_links = !others && which % 7 < 3;
	for (unsigned i = 0; i < 5; i++)
		new_file(DIR1 + (int)(i % 2), names[i / 2]);
	for (unsigned step = 0; step < 250; step++) {
		struct sent *s = nsent ? &sent[roll(nsent)] : NULL;

		if (s && !s->executed && roll(2))
			execute(s, some_fate(failures, others, s->op));
		else if (s && s->executed && roll(2))
			reply(s);
		else if (kills && !roll(20))
			some_kill();
		else if (!roll(20))
			look_again();
		else
			some_request(others);
		see_answers();
	}
	do {
		serve_all();
		see_answers();
		for (unsigned i = 0; i < nasks; i++)
			if (asks[i].what == OPENS)
				start_close(&asks[i]);
		see_answers();
	} while (nsent);
	for (int obj = FILES; obj < tree.objs; obj++)
		cr_assert(links(obj) || seen[obj].unwanted, "file %d is gone", obj);
	expect_nothing_of_ours(failures == 0 && !others);
	teardown();
}

Test(vfs_remove, any_order)
{
	for (unsigned i = 0; i < 1000; i++)
		any_order(i);
}

/* ---- opens that come while the name goes ---- */

/* Nothing is sent before that call's reply; then OPEN finds no file. */
static void open_is_late(enum nfs_op op, struct inode *ino, int obj)
{
	struct ask *a = open_inode(ino, obj);

	run_loop(3);
	cr_assert(!the_call(NFS_OP_OPEN) && !a->answered, "OPEN is sent into what removes it");
	execute(the_call(op), WORKS);
	run_loop(3);
	cr_assert_null(the_call(NFS_OP_OPEN));
	reply(the_call(op));
	serve_all();
	cr_assert(a->answered);
	cr_assert_eq(a->error, -ESTALE, "error %d", a->error);
}

Test(vfs_remove, open_during_a_plain_removal, .init = setup, .fini = teardown)
{
	int obj = new_file(DIR1, "a"), target = new_file(DIR1, "c");
	struct inode *ino = lookup(DIR1, "a"), *target_ino = lookup(DIR1, "c");

	start_unlink(DIR1, "a");
	open_is_late(NFS_OP_REMOVE, ino, obj);
	new_file(DIR2, "b");
	start_rename(DIR2, "b", DIR1, "c");
	open_is_late(NFS_OP_RENAME, target_ino, target);
}

/* An open also waits for the removal of a silly name after the last close. */
Test(vfs_remove, open_after_the_last_close, .init = setup, .fini = teardown)
{
	int obj = new_file(DIR1, "a");
	struct ask *o = opened(DIR1, "a");
	struct inode *ino = o->file->ino;

	start_unlink(DIR1, "a");
	serve_all();
	start_close(o);
	execute(the_call(NFS_OP_CLOSE), WORKS);
	reply(the_call(NFS_OP_CLOSE));
	open_is_late(NFS_OP_REMOVE, ino, obj);
}

/* The opening process is killed while the open waits: the operation is freed. */
Test(vfs_remove, open_that_waits_is_killed, .init = setup, .fini = teardown)
{
	int obj = new_file(DIR1, "a");
	struct inode *ino = lookup(DIR1, "a");

	start_unlink(DIR1, "a");
	open_inode(ino, obj);
	list_for_each(n, &vl->active) {
		struct vfs_op *op = container_of(n, struct vfs_op, node);

		if (op->call.op == NFS_OP_OPEN)
			vfs_play_give_up(op);
	}
	run_loop(20);
	serve_all();
}

/* ---- a file with more names than are remembered ---- */

#define LINKS 20u

/* All names of the file are known, and it is open. Other clients have removed all
 * but the first one. */
static struct ask *first_of_many_names(void)
{
	int obj = new_file(DIR1, "l0");
	struct ask *o;
	char name[8];

	for (unsigned i = 0; i < LINKS; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		if (i)
			put_entry(DIR1, name, obj);
		cr_assert_not_null(lookup(DIR1, name));
	}
	o = opened(DIR1, name);
	for (unsigned i = 1; i < LINKS; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		take_entry(look(DIR1, name));
	}
	return o;
}

static void still_there(struct ask *o)
{
	serve_all();
	cr_assert_eq(links(o->obj), 1, "under its silly name");
	start_close(o);
	serve_all();
	expect_nothing_of_ours(true);
}

static struct ask *unlink_at_once(const char *name)
{
	return unlink_at_once_in(DIR1, name);
}

static struct ask *rename_at_once(const char *name, const char *newname)
{
	return rename_at_once_in(DIR1, name, DIR1, newname);
}

Test(vfs_remove, unlink_of_a_name_that_was_not_remembered, .init = setup, .fini = teardown)
{
	struct ask *o = first_of_many_names(), *a;

	a = unlink_at_once("l0");
	serve_all();
	cr_assert(a->answered && !a->error, "%d", a->error);
	cr_assert_lt(look(DIR1, "l0"), 0);
	still_there(o);
}

Test(vfs_remove, rename_onto_a_name_that_was_not_remembered, .init = setup, .fini = teardown)
{
	struct ask *o = first_of_many_names(), *a;
	int b = new_file(DIR1, "b");

	lookup(DIR1, "b");
	a = rename_at_once("b", "l0");
	serve_all();
	cr_assert(a->answered && !a->error, "%d", a->error);
	cr_assert_eq(at(DIR1, "l0"), b);
	still_there(o);
}

/* The server is asked for the file. If it does not say, nothing is removed. */
Test(vfs_remove, what_a_name_is_cannot_be_found_out, .init = setup, .fini = teardown)
{
	static const enum fate fates[] = { DENIED, LOST_BEFORE };
	struct ask *o = first_of_many_names(), *a;

	new_file(DIR1, "b");
	lookup(DIR1, "b");
	for (unsigned i = 0; i < 4; i++) {
		a = i % 2 ? unlink_at_once("l0") : rename_at_once("b", "l0");
		serve(fates[i / 2]);
		cr_assert(a->answered, "%u", i);
		cr_assert_eq(a->error, i / 2 ? -EIO : -EACCES, "%u: %d", i, a->error);
		cr_assert_eq(at(DIR1, "l0"), o->obj);
	}
	/* A name that is not there is no target. */
	a = rename_at_once("b", "new");
	serve_all();
	cr_assert(a->answered && !a->error && at(DIR1, "new") >= 0);
	a = unlink_at_once("none");
	serve_all();
	cr_assert(a->answered && a->error == -ENOENT);
	start_close(o);
	serve_all();
}

/* ---- silly names in calls of users ---- */

/* The only silly name that there is. */
static const char *the_silly(void)
{
	for (unsigned i = 0; i < tree.n; i++)
		if (silly(tree.e[i].name))
			return tree.e[i].name;
	cr_assert(false, "there is no silly name");
	return NULL;
}

static void busy(struct ask *a)
{
	cr_assert(a->answered && a->error == -EBUSY, "%d", a->error);
	cr_assert_eq(nsent, 0, "and the server has not been asked");
}

static struct ask *link_at_once(struct inode *ino, const char *newname)
{
	struct ask *a = asks_for(OTHERS);

	vfs_play_link(ino, dirs[DIR1], newname);
	return asked(a);
}

/* Renamed, the file could be removed by its new name while it is open; replaced, it is gone,
 * and the last close removes what has replaced it. */
Test(vfs_remove, a_silly_name_is_busy, .init = setup, .fini = teardown)
{
	int a = new_file(DIR1, "a"), b = new_file(DIR1, "b");
	struct ask *o = opened(DIR1, "a");
	char name[40];

	lookup(DIR1, "b");
	start_unlink(DIR1, "a");
	serve_all();
	strcpy(name, the_silly());
	lookup(DIR1, name);
	busy(rename_at_once(name, "c"));
	busy(rename_at_once("b", name));
	busy(unlink_at_once(name));
	cr_assert(at(DIR1, name) == a && at(DIR1, "b") == b);
	/* A second name is harmless, and so has a user the file back. */
	link_at_once(o->file->ino, "c");
	serve_all();
	cr_assert(at(DIR1, "c") == a && at(DIR1, name) == a);
	/* The last close removes the name whatever it belongs to by then. */
	start_close(o);
	execute(the_call(NFS_OP_CLOSE), WORKS);
	reply(the_call(NFS_OP_CLOSE));
	cr_assert_not_null(the_call(NFS_OP_REMOVE));
	cr_assert_eq(rename_at_once("b", name)->error, -EBUSY);
	serve_all();
	cr_assert(at(DIR1, "b") == b && at(DIR1, "c") == a);
	expect_nothing_of_ours(true);
}

/* The name is not remembered either. */
Test(vfs_remove, a_silly_name_that_was_not_remembered_is_busy, .init = setup, .fini = teardown)
{
	int a = new_file(DIR1, "a");
	struct ask *o = opened(DIR1, "a");
	char silly_name[40], name[8];

	start_unlink(DIR1, "a");
	serve_all();
	strcpy(silly_name, the_silly());
	for (unsigned i = 0; i < LINKS; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		put_entry(DIR1, name, a);
		lookup(DIR1, name);
	}
	busy(rename_at_once(silly_name, "c"));
	busy(rename_at_once("l1", silly_name));
	unlink_at_once(silly_name);
	serve_all();
	cr_assert_eq(at(DIR1, silly_name), a);
	start_close(o);
	serve_all();
	expect_nothing_of_ours(true);
}

/* What the daemon has given up is the users'. */
Test(vfs_remove, a_silly_name_that_was_left_is_not_busy, .init = setup, .fini = teardown)
{
	int a = new_file(DIR1, "a"), c;
	struct ask *o = opened(DIR1, "a");
	char name[40];

	start_unlink(DIR1, "a");
	execute(&sent[0], LOST_AFTER);
	reply(&sent[0]);
	serve(WORKS);                   /* the silly name is there */
	c = new_file(DIR1, "a");        /* and another client's file in the old place */
	serve_all();
	strcpy(name, the_silly());
	cr_assert(was_said(name));
	lookup(DIR1, name);
	rename_at_once(name, "back");
	serve_all();
	cr_assert(at(DIR1, "back") == a && at(DIR1, "a") == c);
	start_close(o);
	serve_all();
}

/* ---- directories that are about to be empty ---- */

/*
 * The file is gone from the server when its REMOVE has been executed, and that is
 * after RMDIR here; but its reply comes first.
 */
static void nearly_empty(bool by_rename, unsigned files)
{
	struct ask *o[3], *a;

	for (unsigned i = 0; i < files; i++) {
		new_file(DIR1, names[i]);
		o[i] = opened(DIR1, names[i]);
		start_unlink(DIR1, names[i]);
		serve_all();
	}
	for (unsigned i = 0; i < files; i++)
		start_close(o[i]);
	while (the_call(NFS_OP_CLOSE)) {
		execute(the_call(NFS_OP_CLOSE), WORKS);
		reply(the_call(NFS_OP_CLOSE));
	}
	lookup(ROOT, "d1");
	a = by_rename ? start_rename(ROOT, "d2", ROOT, "d1") :
			start_rmdir("d1");
	for (unsigned i = 0; i < files; i++) {
		enum nfs_op op = by_rename ? NFS_OP_RENAME : NFS_OP_RMDIR;

		execute(the_call(op), WORKS);
		execute(the_call(NFS_OP_REMOVE), WORKS);
		if (i % 2) {
			reply(the_call(op));
			cr_assert_not(a->answered);
			reply(the_call(NFS_OP_REMOVE));
		} else {
			reply(the_call(NFS_OP_REMOVE));
			reply(the_call(op));
		}
		for (unsigned ms = 0; ms < 10000 && !the_call(op) && !a->answered; ms++)
			run_loop(1);
		cr_assert_not(a->answered, "error %d after %u of %u", a->error, i + 1, files);
	}
	serve_all();
	cr_assert(a->answered && a->error == 0, "error %d", a->error);
	cr_assert_eq(at(ROOT, "d1"), by_rename ? DIR2 : -1);
}

Test(vfs_remove, rmdir_after_the_last_close, .init = setup, .fini = teardown)
{
	nearly_empty(false, 3);
}

Test(vfs_remove, rename_onto_a_directory_after_the_last_close, .init = setup, .fini = teardown)
{
	nearly_empty(true, 3);
}

/* rmdir of a directory fails if the directory has names that stay. */
Test(vfs_remove, rmdir_of_what_is_not_empty, .init = setup, .fini = teardown)
{
	struct ask *a;

	new_file(DIR1, "a");
	lookup(ROOT, "d1");
	a = start_rmdir("d1");
	serve_all();
	cr_assert(a->answered && a->error == -ENOTEMPTY);
	cr_assert_eq(executed, 4, "one RMDIR");
	/* A file that is open stays: that is found out in a second. */
	opened(DIR1, "a");
	start_unlink(DIR1, "a");
	serve_all();
	executed = 0;
	a = start_rmdir("d1");
	for (unsigned ms = 0; ms < 500 && !a->answered; ms++) {
		serve_all();
		run_loop(10);
	}
	cr_assert(a->answered && a->error == -ENOTEMPTY);
	cr_assert_eq(executed, 1, "and not by asking the server");
	for (unsigned i = 0; i < nasks; i++)
		if (asks[i].what == OPENS)
			start_close(&asks[i]);
	serve_all();
}

/* ---- names that have gone ---- */

/* The file is open by one name, which is removed, and closed: its silly name is gone, and nobody may
 * look for the file there. It has another name, by which it is opened. */
Test(vfs_remove, open_after_the_silly_name_is_gone, .init = setup, .fini = teardown)
{
	int obj = new_file(DIR1, "a");
	struct inode *ino;
	struct ask *o;

	put_entry(DIR1, "b", obj);
	ino = lookup(DIR1, "b");
	o = opened(DIR1, "a");
	start_unlink(DIR1, "a");
	serve_all();
	start_close(o);
	serve_all();
	expect_nothing_of_ours(true);
	o = open_inode(ino, obj);       /* by "b", which was looked up before */
	serve_all();
	cr_assert(o->answered && !o->error, "error %d", o->error);
	seen[obj].opens++;
	start_close(o);
	serve_all();
}
