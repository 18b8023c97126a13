/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Request objects. Each lane has its own. They are taken and released on its thread, and
 * kept for the next request. So once a mount has warmed up, none is allocated.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "fuse/fs_impl.h"

/* The kernel may believe an entry for so much longer: it counts in ticks of up to 10 ms. */
#define JIFFIES_MS 20u
/* fs_wait_more() */
#define WAIT_FIRST_MS 1u
#define WAIT_SHIFT_MAX 4u

/* Clears what comes before `spare_size`, and the call's arguments. nfs_start() sets up the rest of the
 * call. */
static struct fs_req *take(struct fs_lane *fl)
{
	struct list *n = list_pop(&fl->idle);
	struct fs_req *r = n ? container_of(n, struct fs_req, node) : malloc(sizeof(*r));

	if (!r)
		return NULL;
	memset(r, 0, offsetof(struct fs_req, spare_size));
	r->wait.dir = NULL;
	r->wait.until_ns = 0;
	r->ahead.piece = NULL;
	r->ahead.times = 0;
	r->change[0].ino = r->change[1].ino = NULL;
	r->held.state = HELD_NOT;
	r->call.flags = 0;
	r->call.args.fh = r->call.args.fh2 = NULL;
	r->call.args.name = r->call.args.name2 = NULL;
	r->call.args.nwhere = 0;
	r->call.open = NULL;
	r->call.args.sattr.valid = 0;
	r->fl = fl;
	r->start_ns = loop_now(fl->lane->loop);
	list_init(&r->buf_node);
	list_add_tail(&fl->active, &r->node);
	return r;
}

/* The node's inode, with a reference. NULL: there is none. The kernel uses only node ids
 * that it was given; any other one comes from memory that was tampered with. */
static struct inode *find_node(struct fs *fs, fuse_ino_t node)
{
	if (node != FUSE_ROOT_ID)
		return inode_by_id(&fs->inodes, node);
	inode_ref(fs->root);
	return fs->root;
}

/* Takes over the caller's reference to ino, which may be NULL: it becomes r's, or is dropped.
 * cred: on whose behalf; NULL: the caller's of the request. */
static struct fs_req *req_with(fuse_req_t req, struct inode *ino, const struct rpc_cred *cred)
{
	struct fs_req *r = take(fs_this_lane);

	if (!r) {
		if (ino)
			inode_put(&fs_of(req)->inodes, ino, 1);
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	r->req = req;
	if (cred)
		r->cred = *cred;
	else
		fs_cred(r->fl, req, &r->cred);
	r->ino = ino;
	return r;
}

struct fs_req *fs_req_new(fuse_req_t req, fuse_ino_t node)
{
	struct inode *ino = find_node(fs_of(req), node);

	if (ino)
		return req_with(req, ino, NULL);
	fuse_reply_err(req, ESTALE);
	return NULL;
}

struct fs_req *fs_req_by_fh(fuse_req_t req, fuse_ino_t node)
{
	struct fs *fs = fs_of(req);
	struct fs_req *r;
	struct nfs_fh fh = fs->root->fh;

	if (node != FUSE_ROOT_ID && !inode_fh(&fs->inodes, node, &fh)) {
		fuse_reply_err(req, ESTALE);
		return NULL;
	}
	r = req_with(req, NULL, NULL);
	if (!r)
		return NULL;
	r->node_fh = fh;
	r->call.args.fh = &r->node_fh;
	r->node_id = node;
	return r;
}

struct fs_req *fs_req_on(fuse_req_t req, struct inode *ino)
{
	inode_ref(ino);
	return req_with(req, ino, NULL);
}

struct fs_req *fs_req_file(fuse_req_t req, const struct fuse_file_info *fi)
{
	struct file *f = fs_file_get(fs_of(req), fi);
	struct fs_req *r;

	if (!f) {
		fuse_reply_err(req, EBADF);
		return NULL;
	}
	/* The opener's rights count, as with a local file. So nobody reads the caller's
	 * groups from /proc for each READ and WRITE. */
	inode_ref(f->ino);
	r = req_with(req, f->ino, &f->cred);
	if (!r) {
		fs_file_put(fs_this_lane, f);
		return NULL;
	}
	r->file = f;
	return r;
}

bool fs_req_ino2(struct fs_req *r, fuse_ino_t node)
{
	r->ino2 = find_node(r->fl->fs, node);
	if (r->ino2)
		return true;
	fs_reply_err(r, ESTALE);
	fs_req_free(r);
	return false;
}

fuse_ino_t fs_node(const struct fs *fs, const struct inode *ino)
{
	return ino == fs->root ? FUSE_ROOT_ID : ino->id;
}

void fs_entry_node(const struct fs *fs, struct fuse_entry_param *e, struct inode *ino)
{
	inode_known(ino);
	e->ino = ino->id;
	e->generation = fs->inodes.generation;
}

struct fs_req *fs_req_new_quiet(struct fs_lane *fl, struct inode *ino, const struct rpc_cred *cred)
{
	struct fs_req *r = take(fl);

	if (!r)
		return NULL;
	r->cred = *cred;
	if (ino)
		inode_ref(ino);
	r->ino = ino;
	return r;
}

void fs_req_free(struct fs_req *r)
{
	struct fs_lane *fl = r->fl;
	struct inode_table *t = &fl->fs->inodes;
	struct file *file = r->file;

	fs_hold_ends(r);
	fs_opening_ends(r);
	fs_unpin(r);
	for (unsigned i = 0; i < RR_SEND_IOV && r->buf[i]; i++)
		magazine_put(&fl->lane->mag, r->buf[i]);
	if (r->ino)
		inode_put(t, r->ino, 1);
	if (r->ino2)
		inode_put(t, r->ino2, 1);
	if (r->victim)
		inode_put(t, r->victim, 1);
	if (r->moved)
		inode_put(t, r->moved, 1);
	if (r->emptied)
		inode_put(t, r->emptied, 1);
	if (r->named)
		for (unsigned i = 0; i < r->names.n; i++)
			inode_put(t, r->names.dir[i], 1);
	free(r->text);
	fs_spare_free(r);
	if (r->silly)
		silly_free(t, r->silly);
	list_del(&r->node);
	list_add_head(&fl->idle, &r->node);
	/* Last, because it may start a CLOSE, and r may become the request object of that. */
	if (file)
		fs_file_put(fl, file);
}

static void on_call_done(struct nfs_call *c)
{
	struct fs_req *r = container_of(c, struct fs_req, call);

	r->calling = false;
	if (r->change[0].ino || r->change[1].ino)
		fs_changes_end(r);
	r->done(r);
}

/* A request that was given up before it has changed anything changes nothing any more. */
static void start(struct fs_req *r)
{
	bool change = fs_is_change(&r->call);

	if (change && r->given_up && !r->changes) {
		r->call.res.status = -EINTR;
		r->done(r);
		return;
	}
	if (change) {
		r->changes++;
		fs_changes_begin(r);
	}
	if (r->call.op == NFS_OP_OPEN || r->call.op == NFS_OP_SETATTR)
		r->asked_ns = mono_ns();
	if (r->call.op == NFS_OP_OPEN)
		r->quiet = known_changes(&r->fl->fs->inodes, r->ino);
	r->calling = true;
	nfs_start(r->fl->lane, &r->call);
}

static void in_turn(struct fs_req *r)
{
	if (fs_is_change(&r->call))
		fs_in_turn(r, start);
	else
		start(r);
}

void fs_req_start(struct fs_req *r, enum nfs_op op, void (*done)(struct fs_req *r))
{
	struct inode *settles;
	bool stable = false;

	r->done = done;
	r->call.op = op;
	r->call.done = on_call_done;
	r->call.cred = &r->cred;
	if (!r->call.args.fh)
		r->call.args.fh = &r->ino->fh;
	settles = fs_settles(r, &stable);
	fs_settle(r, settles, stable, in_turn);
}

bool fs_req_name(struct fs_req *r, char *to, const char *name)
{
	size_t len = strlen(name);

	if (len > NFS_NAME_MAX || len > r->fl->fs->cl->name_max) {
		fs_reply_err(r, ENAMETOOLONG);
		fs_req_free(r);
		return false;
	}
	memcpy(to, name, len + 1);
	return true;
}

void fs_reply_err(struct fs_req *r, int err)
{
	if (!r->req)
		return;
	if (err < 0)
		err = -err;
	/* Where the kernel has a path it goes through it once more, and looks each name up. */
	if (err == ESTALE && r->ino && !r->file)
		inode_sends_back(&r->fl->fs->inodes, r->ino, fuse_req_ctx(r->req)->pid);
	fuse_reply_err(r->req, err);
	r->req = NULL;
}

void fs_done_status(struct fs_req *r)
{
	fs_reply_err(r, r->call.res.status);
	fs_req_free(r);
}

void fs_wait_more(struct fs_req *r)
{
	loop_timer_set(r->fl->lane->loop, &r->call.eng.timer, WAIT_FIRST_MS << r->wait_shift);
	r->wait_shift += r->wait_shift < WAIT_SHIFT_MAX;
}

static void on_asks_again(struct loop_timer *t)
{
	fs_done_status(container_of(t, struct fs_req, call.eng.timer));
}

/* While a name is being created the kernel looks up no name in that directory. So what it
 * was told about this name is older than the request, and has expired when `left` is up. */
void fs_done_name(struct fs_req *r)
{
	double left = fs_negative_timeo(r->fl->fs) - (double)(mono_ns() - r->start_ns) / 1e9;

	if (r->call.res.status != -EIO || !r->req || left < 0) {
		fs_done_status(r);
		return;
	}
	loop_timer_init(&r->call.eng.timer, on_asks_again);
	loop_timer_set(r->fl->lane->loop, &r->call.eng.timer, (unsigned)(left * 1e3) + JIFFIES_MS);
}
