/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Request objects and who asks. A lane's objects are its own: taken and given
 * back on its thread, kept for the next request, so that nothing is allocated
 * once a mount has warmed up.
 *
 * Credentials: uid and gid come with each request, the supplementary groups
 * have to be read from /proc. They are remembered for half a second per
 * (process, uid, gid): a process that changes its groups and nothing else is
 * believed its old ones for that long.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/fs_impl.h"

#define GROUPS_NS 500000000ull
#define GROUPS_MAX 256
/* What the kernel may take longer, as it counts in ticks of up to 10 ms. */
#define JIFFIES_MS 20u

static void read_groups(fuse_req_t req, struct rpc_cred *cred)
{
	gid_t all[GROUPS_MAX];
	int n = fuse_req_getgroups(req, GROUPS_MAX, all);

	/* The process may be gone already: then it has no groups. AUTH_SYS has
	 * room for 16, whoever is in more is only in the first of them. */
	if (n > GROUPS_MAX)
		n = GROUPS_MAX;
	cred->ngids = 0;
	for (int i = 0; i < n && cred->ngids < RPC_GIDS_MAX; i++)
		cred->gids[cred->ngids++] = all[i];
}

static void get_cred(struct fs_lane *fl, fuse_req_t req, struct rpc_cred *out)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct fs_cred_slot *s = &fl->creds[(unsigned)ctx->pid & (FS_CRED_CACHE - 1)];
	uint64_t now = mono_ns();

	if (s->pid != ctx->pid || s->cred.uid != ctx->uid || s->cred.gid != ctx->gid ||
	    now >= s->until_ns) {
		s->pid = ctx->pid;
		s->cred.uid = ctx->uid;
		s->cred.gid = ctx->gid;
		read_groups(req, &s->cred);
		s->until_ns = now + GROUPS_NS;
	}
	*out = s->cred;
}

#define SIG(n) (1ull << ((n) - 1))
/* What these do by default is not to end the process. */
#define HARMLESS (SIG(SIGCHLD) | SIG(SIGCONT) | SIG(SIGURG) | SIG(SIGWINCH) | SIG(SIGSTOP) | \
		  SIG(SIGTSTP) | SIG(SIGTTIN) | SIG(SIGTTOU))

static bool is_line(const char *line, const char *key, uint64_t *mask)
{
	size_t len = strlen(key);

	if (strncmp(line, key, len) != 0)
		return false;
	*mask |= strtoull(line + len, NULL, 16);
	return true;
}

bool fs_dies(pid_t pid, bool unknown)
{
	uint64_t pending = 0, other = HARMLESS;
	char path[64], *line = NULL;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = pid ? fopen(path, "re") : NULL;
	if (!f)
		return unknown;
	while (getline(&line, &size, f) > 0)
		if (!is_line(line, "SigPnd:", &pending) && !is_line(line, "ShdPnd:", &pending) &&
		    !is_line(line, "SigBlk:", &other) && !is_line(line, "SigIgn:", &other))
			is_line(line, "SigCgt:", &other);
	free(line);
	fclose(f);
	return pending & ~other;
}

/* Everything but the links is set anew; the call's machinery is nfs_start()'s. */
static struct fs_req *take(struct fs_lane *fl)
{
	struct list *n = list_pop(&fl->idle);
	struct fs_req *r = n ? container_of(n, struct fs_req, node) : malloc(sizeof(*r));

	if (!r)
		return NULL;
	memset(r, 0, offsetof(struct fs_req, call));
	r->call.flags = 0;
	r->call.fh = r->call.fh2 = NULL;
	r->call.name = r->call.name2 = NULL;
	r->call.open = NULL;
	r->call.sattr.valid = 0;
	r->fl = fl;
	r->start_ns = mono_ns();
	list_init(&r->buf_node);
	list_add_tail(&fl->active, &r->node);
	return r;
}

/* Referenced; NULL: there is none. The kernel keeps to what it was told: other
 * numbers come from where nobody should have been able to change them. */
static struct inode *find_node(struct fs *fs, fuse_ino_t node)
{
	if (node != FUSE_ROOT_ID)
		return inode_by_id(&fs->inodes, node);
	inode_ref(fs->root);
	return fs->root;
}

/* With ino's reference, which is r's then, or given back. */
static struct fs_req *req_with(fuse_req_t req, struct inode *ino)
{
	struct fs_req *r = take(fs_this_lane);

	if (!r) {
		inode_put(&fs_of(req)->inodes, ino, 1);
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	r->req = req;
	get_cred(r->fl, req, &r->cred);
	r->ino = ino;
	return r;
}

struct fs_req *fs_req_new(fuse_req_t req, fuse_ino_t node)
{
	struct inode *ino = find_node(fs_of(req), node);

	if (ino)
		return req_with(req, ino);
	fuse_reply_err(req, ESTALE);
	return NULL;
}

struct fs_req *fs_req_on(fuse_req_t req, struct inode *ino)
{
	inode_ref(ino);
	return req_with(req, ino);
}

struct fs_req *fs_req_file(fuse_req_t req, const struct fuse_file_info *fi)
{
	struct file *f = fs_file_get(fs_of(req), fi);
	struct fs_req *r;

	if (!f) {
		fuse_reply_err(req, EBADF);
		return NULL;
	}
	r = fs_req_on(req, f->ino);
	if (!r) {
		fs_file_put(fs_this_lane, f);
		return NULL;
	}
	r->file = f;
	r->cred = f->cred;
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

void fs_entry_node(struct fuse_entry_param *e, struct inode *ino)
{
	inode_known(ino);
	e->ino = ino->id;
	e->generation = ino->id;
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

bool fs_opening(struct fs_req *r)
{
	r->opening = inode_opening(&r->fl->fs->inodes, r->ino);
	return r->opening;
}

static void end_opening(struct fs_req *r)
{
	struct silly *s = inode_close(&r->fl->fs->inodes, r->ino);

	if (s)
		fs_remove_silly(r->fl, s);
}

void fs_req_free(struct fs_req *r)
{
	struct fs_lane *fl = r->fl;
	struct inode_table *t = &fl->fs->inodes;
	struct file *file = r->file;

	if (r->opening)
		end_opening(r);
	fs_unpin(r);
	for (unsigned i = 0; i < 2; i++)
		if (r->buf[i])
			slab_put(&fl->lane->slab, r->buf[i]);
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
	free(r->text);
	fs_spare_free(r);
	silly_free(t, r->silly);
	list_del(&r->node);
	list_add_head(&fl->idle, &r->node);
	/* Last, as it may start a CLOSE, and r is free to be that one's. */
	if (file)
		fs_file_put(fl, file);
}

/* ---- what a call changes, see known.h ---- */

/* Handles of calls are those of inodes. */
static struct inode *inode_of(const struct nfs_fh *fh)
{
	return container_of((struct nfs_fh *)(uintptr_t)fh, struct inode, fh);
}

static void begin(struct fs_req *r, unsigned i, const struct nfs_fh *fh)
{
	struct inode *ino = inode_of(fh);

	r->change[i].ino = ino;
	r->change[i].nr = known_change_begins(&r->fl->fs->inodes, ino);
}

static void changes_begin(struct fs_req *r)
{
	struct inode_table *t = &r->fl->fs->inodes;
	const struct nfs_call *c = &r->call;

	switch (c->op) {
	case NFS_OP_CREATE:
	case NFS_OP_MKDIR:
	case NFS_OP_SYMLINK:
	case NFS_OP_MKNOD:
		begin(r, 0, c->fh);
		known_here(t, inode_of(c->fh)->id, c->name);
		return;
	case NFS_OP_REMOVE:
	case NFS_OP_RMDIR:
	case NFS_OP_SETATTR:
	case NFS_OP_WRITE:
		begin(r, 0, c->fh);
		return;
	case NFS_OP_LINK:
	case NFS_OP_RENAME:
		if (c->fh != c->fh2)
			begin(r, 0, c->fh);
		begin(r, 1, c->fh2);
		known_here(t, inode_of(c->fh2)->id, c->op == NFS_OP_LINK ? c->name : c->name2);
		return;
	default:
		return;
	}
}

/* Of what r->change[i] was. */
static void end(struct fs_req *r, unsigned i)
{
	const struct nfs_call *c = &r->call;
	const struct nfs_attr *a = c->has_dir_attr[i] ? &c->dir_attr[i] : NULL;
	struct inode *ino = r->change[i].ino;

	if (!ino)
		return;
	r->change[i].ino = NULL;
	if (c->op == NFS_OP_WRITE && c->has_attr)
		a = &c->attr;
	known_change_ends(&r->fl->fs->inodes, ino, r->change[i].nr,
			  c->status == 0 ? a : NULL, c->start_ns);
}

/* The name that the call takes away; nr: of the change of its directory. */
static void end_name(struct fs_req *r, uint64_t nr)
{
	struct inode_table *t = &r->fl->fs->inodes;
	const struct nfs_call *c = &r->call;

	known_changed(t, inode_of(c->fh)->id, c->name);
	if (c->op == NFS_OP_RENAME)
		known_changed(t, inode_of(c->fh2)->id, c->name2);
	if (c->status == 0)
		fs_name_gone(r, inode_of(c->fh), nr, c->name);
}

static void changes_end(struct fs_req *r)
{
	bool two = r->change[0].ino && r->change[1].ino;

	end(r, 0);
	end(r, 1);
	switch (r->call.op) {
	case NFS_OP_REMOVE:
	case NFS_OP_RMDIR:
		end_name(r, r->change[0].nr);
		return;
	case NFS_OP_RENAME:
		end_name(r, r->change[two ? 0 : 1].nr);
		return;
	default:
		return;
	}
}

void fs_name_gone(struct fs_req *r, struct inode *dir, uint64_t nr, const char *name)
{
	struct fs *fs = r->fl->fs;

	known_gone(&fs->inodes, dir, nr, name,
		   r->call.start_ns + (uint64_t)(fs_negative_timeo(fs) * 1e9));
}

static void on_call_done(struct nfs_call *c)
{
	struct fs_req *r = container_of(c, struct fs_req, call);

	changes_end(r);
	r->done(r);
}

void fs_req_start(struct fs_req *r, enum nfs_op op, void (*done)(struct fs_req *r))
{
	r->done = done;
	r->call.op = op;
	r->call.done = on_call_done;
	r->call.cred = &r->cred;
	if (!r->call.fh)
		r->call.fh = &r->ino->fh;
	changes_begin(r);
	nfs_start(r->fl->lane, &r->call);
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
	if (r->req)
		fuse_reply_err(r->req, err < 0 ? -err : err);
	r->req = NULL;
}

void fs_done_status(struct fs_req *r)
{
	fs_reply_err(r, r->call.status);
	fs_req_free(r);
}

static void on_asks_again(struct loop_timer *t)
{
	fs_done_status(container_of(t, struct fs_req, call.timer));
}

/* The kernel asks for no name while one is being made in its directory: what it was
 * told is older than this request. */
void fs_done_name(struct fs_req *r)
{
	double left = fs_negative_timeo(r->fl->fs) - (double)(mono_ns() - r->start_ns) / 1e9;

	if (r->call.status != -EIO || !r->req || left < 0) {
		fs_done_status(r);
		return;
	}
	loop_timer_init(&r->call.timer, on_asks_again);
	loop_timer_set(r->fl->lane->loop, &r->call.timer, (unsigned)(left * 1e3) + JIFFIES_MS);
}
