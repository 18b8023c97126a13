/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of version 3 that are sent twice to a server without a reply cache. It has a small
 * directory, and executes what comes. The reply to the first sending is lost with the
 * connection, if that was executed at all. Between the two another client acts. Whatever the
 * client answers must be true: no lock has two holders.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "fake_fabric.h"
#include "nfs/internal.h"
#include "nfs/nfs3/nfs3_impl.h"

static struct nfs_client cl;
static struct nfs_control ctl;
static struct nfs_lane lane;

/* ---- the server ---- */

enum { DIR_ID = 1, OURS = 10, THEIRS = 11, MADE = 100 };

static struct {
	struct { char name[16]; uint32_t id; } e[8];
	unsigned n;
	uint32_t next;                  /* fileid of the next that is made */
	uint32_t verf[2];               /* of the newest exclusive create, */
	uint32_t verf_of;               /* and what it made */
	bool by_dir;                    /* handles tell of the name that was looked up */
	bool bare;                      /* no attributes with anything */
	uint32_t r[128];                /* the results, in network order */
	unsigned nr;
} srv;

static void put(uint32_t w)
{
	srv.r[srv.nr++] = htonl(w);
}

static unsigned find(const char *name)
{
	unsigned i = 0;

	while (i < srv.n && strcmp(srv.e[i].name, name) != 0)
		i++;
	return i;
}

static uint32_t id_at(const char *name)
{
	unsigned i = find(name);

	return i < srv.n ? srv.e[i].id : 0;
}

static void set(const char *name, uint32_t id)
{
	unsigned i = find(name);

	if (i == srv.n)
		strcpy(srv.e[srv.n++].name, name);
	srv.e[i].id = id;
}

static void unset(const char *name)
{
	unsigned i = find(name);

	if (i < srv.n)
		srv.e[i] = srv.e[--srv.n];
}

static void put_fh(uint32_t id, const char *name)
{
	put(8);
	put(id);
	put(srv.by_dir && name ? (uint32_t)name[0] : 0);
}

static void put_attr(uint32_t id)
{
	put(1);
	put(0644);
	put(1);
	for (unsigned i = 0; i < 11; i++)
		put(i == 9 ? 77 : 0);           /* fsid's second word */
	put(id);
	for (unsigned i = 0; i < 6; i++)
		put(1);
}

static void put_post_attr(uint32_t id)
{
	put(!srv.bare);
	if (!srv.bare)
		put_attr(id);
}

static void put_wcc(void)
{
	put(0);
	put(0);
}

/* ---- arguments ---- */

static const uint32_t *arg;

static uint32_t get(void)
{
	return ntohl(*arg++);
}

static uint32_t get_id(void)
{
	uint32_t len = get(), id = get();

	arg += len / 4 - 1;
	return id;
}

static void get_name(char *to)
{
	uint32_t len = get();

	cr_assert_lt(len, 16);
	memcpy(to, arg, len);
	to[len] = '\0';
	arg += (len + 3) / 4;
}

/* how: CREATE's mode; MKDIR and the like behave as GUARDED. */
static void make(const char *name, uint32_t how)
{
	uint32_t id = id_at(name), v0 = 0, v1 = 0;
	bool excl = how == EXCLUSIVE;

	cr_assert(excl || how == GUARDED);
	if (excl) {
		v0 = get();
		v1 = get();
	}
	if (id && !(excl && srv.verf_of == id && srv.verf[0] == v0 && srv.verf[1] == v1)) {
		put(NFS3ERR_EXIST);
		put_wcc();
		return;
	}
	if (!id) {
		id = srv.next++;
		set(name, id);
		srv.verf[0] = v0;
		srv.verf[1] = v1;
		srv.verf_of = id;
	}
	put(0);
	put(1);
	put_fh(id, NULL);
	put_post_attr(id);
	put_wcc();
}

static void move(void)
{
	char from[16], to[16];
	uint32_t id;

	get_id();
	get_name(from);
	get_id();
	get_name(to);
	id = id_at(from);
	put(id ? 0 : NFS3ERR_NOENT);
	put_wcc();
	put_wcc();
	if (!id)
		return;
	unset(from);
	set(to, id);
}

static void add_link(void)
{
	uint32_t id = get_id();
	char name[16];
	bool there;

	get_id();
	get_name(name);
	there = id_at(name);
	put(there ? NFS3ERR_EXIST : 0);
	put_post_attr(id);
	put_wcc();
	if (!there)
		set(name, id);
}

static void take_away(const char *name)
{
	put(id_at(name) ? 0 : NFS3ERR_NOENT);
	put_wcc();
	unset(name);
}

static void look(const char *name)
{
	uint32_t id = id_at(name);

	put(id ? 0 : NFS3ERR_NOENT);
	if (id) {
		put_fh(id, name);
		put_post_attr(id);
	}
	put_post_attr(DIR_ID);
}

static void attributes(uint32_t id, bool set_them)
{
	put(0);
	if (set_them) {
		put(0);
		put_post_attr(id);
	} else {
		put_attr(id);
	}
}

/* The oldest call that was sent, on this connection; its XID. */
static uint32_t execute(void)
{
	uint32_t w[256], proc, id;
	char name[16] = "";

	cr_assert_eq(fake.nsends, 1);
	memcpy(w, fake.sends[0].bytes, fake.sends[0].len);
	proc = ntohl(w[7 + 5]);
	arg = w + 7 + 6 + 2 + (ntohl(w[7 + 7]) + 3) / 4 + 2;
	srv.nr = 0;
	switch (proc) {
	case NFSPROC3_RENAME:  move(); return w[0];
	case NFSPROC3_LINK:    add_link(); return w[0];
	}
	id = get_id();
	switch (proc) {
	case NFSPROC3_GETATTR: attributes(id, false); return w[0];
	case NFSPROC3_SETATTR: attributes(id, true); return w[0];
	}
	get_name(name);
	switch (proc) {
	case NFSPROC3_LOOKUP:  look(name); break;
	case NFSPROC3_CREATE:  make(name, get()); break;
	case NFSPROC3_MKDIR:
	case NFSPROC3_SYMLINK:
	case NFSPROC3_MKNOD:   make(name, GUARDED); break;
	case NFSPROC3_REMOVE:
	case NFSPROC3_RMDIR:   take_away(name); break;
	default:               cr_assert(false, "procedure %u", proc);
	}
	return w[0];
}

static void reply(uint32_t xid)
{
	uint32_t w[13 + 128] = { 0 };

	w[0] = w[7] = xid;
	w[1] = w[8] = htonl(1);
	w[2] = htonl(16);
	memcpy(w + 13, srv.r, srv.nr * 4);
	fake_complete(0);
	fake.nsends = 0;
	fake_deliver(w, (13 + srv.nr) * 4);
}

/* ---- the client ---- */

static const struct nfs_fh dir_fh = { .len = 8, .data = { 0, 0, 0, DIR_ID } };
static const struct nfs_fh our_fh = { .len = 8, .data = { 0, 0, 0, OURS } };
static struct nfs_call call;
static unsigned dones;

static void connect_lane(void)
{
	struct rr_link *link;
	struct errbuf eb;

	cr_assert_eq(nfs_connection_open(&lane.target.conns[0][0], &link, &eb), 0);
	nfs_connection_up(&lane.target.conns[0][0], link);
}

static void setup(void)
{
	struct errbuf eb = { "" };

	fake_peer_is_knfsd();
	log_set_level(LOG_LVL_ERR);
	rpc_auth_init();
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	cl = (struct nfs_client){
		.control = &ctl, .lanes = &lane, .nlanes = 1, .name_max = 255,
		.cfg = { .version = &nfs_v3, .paths[0].fabric = &fabric_fake, .npaths = 1, .server = "server",
			 .lanes = 1, .credits = 16, .buffers = { .n = { 24, 0, 4, 2 } },
			 .timeo_ms = 60000 },
	};
	nfs_server_init(&cl);
	cr_assert_eq(nfs_buffers_init(&cl), 0);
	cr_assert_eq(nfs_lane_init(&cl, 0, &eb), 0, "%s", eb.text);
	connect_lane();
}

static void teardown(void)
{
	nfs_lane_fini(&lane);
	arena_fini(&cl.arena);
}

TestSuite(nfs3_replay, .init = setup, .fini = teardown, .timeout = 300);

static void on_done(struct nfs_call *c)
{
	(void)c;
	dones++;
}

/* An operation of ours: what was before it, what somebody else does between its two
 * sendings, whether the first of them was executed, and what is to be answered. */
struct row {
	enum nfs_op op;
	bool executed;
	void (*before)(void), (*others)(void);
	int status;
	const char *why;
};

static int create_flag = O_EXCL;

static void play(const struct row *t)
{
	static const struct rpc_cred cred = { .uid = 1000, .gid = 100 };
	uint32_t xid;

	memset(&call, 0, sizeof(call));
	dones = 0;
	srv.n = 0;
	srv.next = MADE;
	srv.verf_of = 0;
	if (t->before)
		t->before();
	call.op = t->op;
	call.cred = &cred;
	call.done = on_done;
	call.args.fh = t->op == NFS_OP_LINK ? &our_fh : &dir_fh;
	call.args.fh2 = &dir_fh;
	call.args.name = t->op == NFS_OP_RENAME ? "old" : "name";
	call.args.name2 = "new";
	if (t->op == NFS_OP_RENAME)
		call.args.ren.moved = &our_fh;
	else if (t->op == NFS_OP_CREATE)
		call.args.file.flags = O_RDWR | create_flag;
	else if (t->op == NFS_OP_SYMLINK)
		call.args.mk.target = "me";
	else if (t->op == NFS_OP_MKNOD)
		call.args.mk.type = S_IFIFO;
	nfs_start(&lane, &call);
	if (t->executed)
		execute();
	fake_break();
	if (t->others)
		t->others();
	connect_lane();
	while (!dones) {
		xid = execute();
		reply(xid);
	}
	cr_assert_eq(call.res.status, t->status, "%s: %d, not %d", t->why, call.res.status, t->status);
	free(call.open);
}

static void none(void)          { }
static void ours_is_old(void)   { set("old", OURS); }
static void name_is_there(void) { set("name", THEIRS); }
static void they_make(void)     { set("name", THEIRS); }
static void they_link_new(void) { set("new", THEIRS); }
static void they_remove(void)   { unset("name"); }
static void they_make_again(void) { unset("name"); set("name", THEIRS); }
static void they_move(void)     { unset("old"); set("elsewhere", OURS); }
static void they_replace(void)  { unset("old"); set("new", THEIRS); }

static const struct row rows[] = {
	{ NFS_OP_LINK, true, none, none, 0, "our link is there" },
	{ NFS_OP_LINK, true, none, they_make_again, -EEXIST, "our link was replaced" },
	{ NFS_OP_LINK, false, none, none, 0, "the first one got lost" },
	{ NFS_OP_LINK, false, none, they_make, -EEXIST, "somebody else's lock" },
	{ NFS_OP_LINK, false, name_is_there, none, -EEXIST, "was there before" },
	{ NFS_OP_LINK, false, name_is_there, they_remove, 0, "was there, and is gone" },
	{ NFS_OP_RENAME, true, ours_is_old, none, 0, "ours has the new name" },
	{ NFS_OP_RENAME, true, ours_is_old, they_link_new, -ENOENT, "it had" },
	{ NFS_OP_RENAME, false, ours_is_old, none, 0, "the first one got lost" },
	{ NFS_OP_RENAME, false, ours_is_old, they_move, -ENOENT, "moved by somebody else" },
	{ NFS_OP_RENAME, false, ours_is_old, they_replace, -ENOENT, "removed, and the name taken" },
	{ NFS_OP_RENAME, false, none, they_link_new, -ENOENT, "was never there" },
	{ NFS_OP_MKDIR, false, none, they_make, -EEXIST, "somebody else's lock" },
	{ NFS_OP_MKDIR, false, name_is_there, none, -EEXIST, "was there before" },
	{ NFS_OP_MKDIR, false, none, none, 0, "the first one got lost" },
	/* What cannot be told from that. */
	{ NFS_OP_MKDIR, true, none, none, -EEXIST, "ours, as far as anybody knows" },
	{ NFS_OP_SYMLINK, false, none, they_make, -EEXIST, "somebody else's lock" },
	{ NFS_OP_SYMLINK, true, none, none, -EEXIST, "ours, as far as anybody knows" },
	{ NFS_OP_MKNOD, false, none, they_make, -EEXIST, "somebody else's" },
	{ NFS_OP_MKNOD, true, none, none, -EEXIST, "ours, as far as anybody knows" },
	{ NFS_OP_CREATE, true, none, none, 0, "it has our verifier" },
	{ NFS_OP_CREATE, true, none, they_make_again, -EEXIST, "it has another" },
	{ NFS_OP_CREATE, false, none, they_make, -EEXIST, "it has another" },
	{ NFS_OP_REMOVE, true, name_is_there, none, -ENOENT, "gone, and by whom?" },
	{ NFS_OP_REMOVE, false, name_is_there, they_remove, -ENOENT, "gone by somebody else" },
	{ NFS_OP_REMOVE, false, name_is_there, none, 0, "the first one got lost" },
	{ NFS_OP_RMDIR, true, name_is_there, none, -ENOENT, "gone, and by whom?" },
	{ NFS_OP_RMDIR, false, name_is_there, they_remove, -ENOENT, "gone by somebody else" },
};

static void play_all(void)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		play(&rows[i]);
}

Test(nfs3_replay, no_lock_has_two_holders)
{
	play_all();
}

/* GUARDED. The caller opens what is there, and cuts it, whoever has made it (vfs/create.c). */
Test(nfs3_replay, create_with_o_trunc)
{
	create_flag = O_TRUNC;
	play(&(struct row){ NFS_OP_CREATE, true, none, none, -EEXIST, "ours, as far as anybody knows" });
	play(&(struct row){ NFS_OP_CREATE, false, none, they_make, -EEXIST, "somebody else's" });
	play(&(struct row){ NFS_OP_CREATE, false, none, none, 0, "the first one got lost" });
}

/* A server that exports with subtree_check gives a file one handle for each
 * directory: a link is told by its fileid, and what was moved is not told at all. */
Test(nfs3_replay, handles_of_directories)
{
	srv.by_dir = true;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct row t = rows[i];

		if (t.op == NFS_OP_RENAME && t.executed)
			t.status = -ENOENT;
		play(&t);
	}
}

/* A server that gives no attributes with anything. */
Test(nfs3_replay, bare_replies)
{
	srv.bare = true;
	play_all();
	/* Neither handle nor fileid: not told either. */
	srv.by_dir = true;
	play(&(struct row){ NFS_OP_LINK, true, none, none, -EEXIST, "nothing tells" });
}
