/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Request objects: an operation (vfs.h) with the request of FUSE's that it is for. */
#include <errno.h>
#include <string.h>
#include "fuse/fs_impl.h"

/* The kernel may believe an entry for so much longer: it counts in ticks of up to 10 ms. */
#define JIFFIES_MS 20u

/* The node's inode, with a reference. NULL: there is none. The kernel uses only node ids
 * that it was given; any other one comes from memory that was tampered with. */
static struct inode *find_node(struct fs *fs, fuse_ino_t node)
{
	if (node != FUSE_ROOT_ID)
		return inode_by_id(&fs->vfs.inodes, node);
	inode_ref(fs->root);
	return fs->root;
}

/* Takes over the caller's reference to ino, which may be NULL: it becomes r's, or is dropped.
 * cred: on whose behalf; NULL: the caller's of the request. */
static struct fs_req *req_with(fuse_req_t req, struct inode *ino, const struct rpc_cred *cred)
{
	struct vfs_op *op = vfs_op_new(vfs_this_lane);
	struct fs_req *r;

	if (!op) {
		if (ino)
			inode_put(&fs_of(req)->vfs.inodes, ino, 1);
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	r = fs_req_of(op);
	r->req = req;
	r->back = NOT_BACK;
	r->named = r->reads = r->statx = false;
	r->gives_up = FS_GIVES_UP_KILLED;
	r->late_attrs = 0;
	r->node_id = 0;
	op->waited = true;
	op->end = fs_end_status;
	op->ino = ino;
	if (cred) {
		op->cred = *cred;
	} else {
		/* Not before it was read, which the loop's time is (believed_hears_locked()). */
		op->start_ns = mono_ns();
		fs_cred(fs_this_lane(), req, op->start_ns, &op->cred);
	}
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
	struct nfs_fh fh = fs->root->file.fh;

	if (node != FUSE_ROOT_ID && !inode_fh(&fs->vfs.inodes, node, &fh)) {
		fuse_reply_err(req, ESTALE);
		return NULL;
	}
	r = req_with(req, NULL, NULL);
	if (!r)
		return NULL;
	r->node_fh = fh;
	r->op.call.args.fh = &r->node_fh;
	r->node_id = node;
	return r;
}

struct fs_req *fs_req_on(fuse_req_t req, struct inode *ino)
{
	inode_ref(ino);
	return req_with(req, ino, NULL);
}

static bool file_live(void *obj)
{
	return file_ref_live(&((struct fs_file *)obj)->f);
}

/* The first request through f. Not in line, or it makes each request dearer. */
static void __attribute__((noinline)) has_dropped(struct fs *fs, struct fs_file *f)
{
	if (atomic_exchange(&f->drops, false))
		believed_dropped(&fs->vfs.inodes, f->f.ino, f->end.change);
}

struct fs_file *fs_file_get(struct fs *fs, const struct fuse_file_info *fi)
{
	struct fs_file *f = handle_get(&fs->files, fi->fh, file_live);

	if (f && atomic_load_explicit(&f->drops, memory_order_relaxed))
		has_dropped(fs, f);
	return f;
}

struct fs_req *fs_req_file(fuse_req_t req, const struct fuse_file_info *fi)
{
	struct fs_file *f = fs_file_get(fs_of(req), fi);
	struct fs_req *r;

	if (!f) {
		fuse_reply_err(req, EBADF);
		return NULL;
	}
	/* The opener's rights count, as with a local file. So nobody reads the caller's
	 * groups from /proc for each READ and WRITE. */
	inode_ref(f->f.ino);
	r = req_with(req, f->f.ino, &f->f.cred);
	if (!r) {
		file_put(vfs_this_lane, &f->f);
		return NULL;
	}
	r->op.file = &f->f;
	return r;
}

bool fs_req_ino2(struct fs_req *r, fuse_ino_t node)
{
	r->op.ino2 = find_node(fs_of_req(r), node);
	if (r->op.ino2)
		return true;
	fs_end_err(r, ESTALE);
	return false;
}

bool fs_req_name(struct fs_req *r, char *to, const char *name)
{
	size_t len = strlen(name);

	if (len > NFS_NAME_MAX || len > fs_of_req(r)->vfs.cl->name_max) {
		fs_end_err(r, ENAMETOOLONG);
		return false;
	}
	memcpy(to, name, len + 1);
	return true;
}

fuse_ino_t fs_node(const struct fs *fs, const struct inode *ino)
{
	return ino == fs->root ? FUSE_ROOT_ID : ino->id;
}

void fs_entry_node(const struct fs *fs, struct fuse_entry_param *e, struct inode *ino)
{
	believed_known(ino);
	e->ino = ino->id;
	e->generation = fs->vfs.inodes.generation;
}

void fs_reply_err(struct fs_req *r, int err)
{
	if (!r->req)
		return;
	if (err < 0)
		err = -err;
	/* Where the kernel has a path it goes through it once more, and looks each name up. */
	if (err == ESTALE && r->op.ino && !r->op.file)
		sentback_note(&fs_of_req(r)->back, r->op.ino, fuse_req_ctx(r->req)->pid);
	fuse_reply_err(r->req, err);
	fs_replied(r);
}

void fs_end_err(struct fs_req *r, int err)
{
	fs_reply_err(r, err);
	fs_req_free(r);
}

void fs_end_status(struct vfs_op *op)
{
	fs_end_err(fs_req_of(op), op->call.res.status);
}

static void on_asks_again(struct loop_timer *t)
{
	fs_end_status(container_of(t, struct vfs_op, call.eng.timer));
}

/* While a name is being created the kernel looks up no name in that directory. So what it
 * was told about this name is older than the request, and has expired when `left` is up. */
void fs_end_name(struct fs_req *r)
{
	double left = fs_of_req(r)->vfs.inodes.negative_timeo -
		      (double)(mono_ns() - r->op.start_ns) / 1e9;

	if (r->op.call.res.status != -EIO || !r->req || left < 0) {
		fs_end_status(&r->op);
		return;
	}
	loop_timer_init(&r->op.call.eng.timer, on_asks_again);
	loop_timer_set(r->op.vl->lane->loop, &r->op.call.eng.timer, (unsigned)(left * 1e3) + JIFFIES_MS);
}
