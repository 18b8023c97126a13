/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lookup, forget, readlink.
 *
 * With open_by_handle_at(2) the kernel looks up "." in a node that it has forgotten, and for a
 * directory ".." in that and in each directory above, up to one that it knows. It wants the very
 * node back that is in the handle. inode.h says for how long that is known:
 *
 *      LOOKUP (7, ".")    inode_fh(7): a filehandle    GETATTR of that    inode_get(): 7 again
 *                         there is none: ESTALE        ESTALE             not 7: ESTALE
 *
 * In between anybody may look the file up by name, and gets node 7 as well; or the kernel forgets
 * it once more. An earlier FORGET may also arrive after this lookup: it takes away what the kernel
 * had before, and the node keeps the reference of this lookup.
 */
#include <errno.h>
#include <string.h>
#include "fuse/fs_impl.h"

/* ---- lookup, forget ---- */

/* Answers that the name does not exist, to be believed for timeo seconds. Does nothing if
 * timeo is 0. */
static void reply_not_there(struct fs_req *r, double timeo)
{
	struct fuse_entry_param e;

	if (timeo <= 0 || !r->req)
		return;
	e = (struct fuse_entry_param){ .entry_timeout = timeo };
	sentback_looked_up(&fs_of_req(r)->back, NULL, fuse_req_ctx(r->req)->pid);
	fuse_reply_entry(r->req, &e);
	fs_replied(r);
}

/* The server was asked before the kernel was to forget what it has of ino (believed.h). Asks again, a
 * few times. */
static bool lookup_again(struct fs_req *r, struct inode *ino)
{
	uint64_t asked = r->late_attrs ? r->op.asked_ns : r->op.start_ns;

	if (!believed_is_late(ino, &r->op.call.res.attr, r->op.start_ns, asked) || r->late_attrs == FS_LATE_MOST)
		return false;
	r->late_attrs++;
	believed_forget(&r->op.vl->vfs->inodes, ino, 1);
	r->op.asked_ns = mono_ns();
	vfs_lookup(&r->op);
	return true;
}

static void lookup_done(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	struct fs *fs = fs_of_req(r);
	struct fuse_entry_param e;
	struct inode *ino;

	if (op->call.res.status == -ENOENT)
		reply_not_there(r, fs->vfs.inodes.negative_timeo);
	if (op->call.res.status || !r->req) {
		fs_end_status(op);
		return;
	}
	ino = fs_entry(r, op->name, &e);
	if (ino && lookup_again(r, ino))
		return;
	sentback_looked_up(&fs->back, ino, fuse_req_ctx(r->req)->pid);
	if (!ino)
		fs_reply_err(r, ENOMEM);
	else if (fuse_reply_entry(r->req, &e))
		believed_forget(&fs->vfs.inodes, ino, 1);       /* the kernel did not get it */
	fs_req_free(r);
}

/* Answers "." and "..", which are no names of the file. The kernel has one node of the root, and
 * never gives that back. */
static void node_done(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	struct fs *fs = fs_of_req(r);
	struct fuse_entry_param e;
	struct inode *ino;

	if (r->node_id)
		op->call.res.fh = r->node_fh;
	if (op->call.res.status || !r->req) {
		fs_end_status(op);
		return;
	}
	ino = fs_entry(r, NULL, &e);
	if (ino == fs->root) {
		e.ino = FUSE_ROOT_ID;
		e.generation = 0;
	}
	if (!ino)
		fs_reply_err(r, ENOMEM);
	else if (r->node_id && e.ino != r->node_id)
		fs_reply_err(r, ESTALE);
	if (ino && (!r->req || fuse_reply_entry(r->req, &e) || ino == fs->root))
		believed_forget(&fs->vfs.inodes, ino, 1);
	fs_req_free(r);
}

static void lookup_self(fuse_req_t req, fuse_ino_t node)
{
	struct fs_req *r = fs_req_by_fh(req, node);

	if (r)
		vfs_start(&r->op, NFS_OP_GETATTR, node_done);
}

static void lookup_parent(fuse_req_t req, fuse_ino_t node)
{
	struct fs_req *r = fs_req_new(req, node);

	if (r)
		vfs_start(&r->op, NFS_OP_LOOKUPP, node_done);
}

/* For how many seconds the name is known not to exist; 0: that is not known. */
static double not_there(struct fs_req *r)
{
	struct inode_table *t = &r->op.vl->vfs->inodes;
	double timeo = ownchange_is_gone(t, r->op.ino->id, r->op.name);

	if (timeo <= 0 && t->solo && solo_dir_lacks(&t->solo_dirs, r->op.ino->id, r->op.name))
		timeo = t->negative_timeo;
	return timeo;
}

static void lookup_name(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs_req *r = fs_req_new(req, parent);

	if (!r || !fs_req_name(r, r->op.name, name))
		return;
	reply_not_there(r, not_there(r));
	if (!r->req) {
		fs_req_free(r);
		return;
	}
	r->op.end = lookup_done;
	vfs_lookup(&r->op);
}

void fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	bool dot = name[0] == '.';      /* nearly never, and two strcmp() cost 50 instructions */

	if (dot && strcmp(name, ".") == 0)
		lookup_self(req, parent);
	else if (dot && strcmp(name, "..") == 0)
		lookup_parent(req, parent);
	else
		lookup_name(req, parent, name);
}

static void lookup_forget(struct fs *fs, fuse_ino_t ino, uint64_t n)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	struct inode *known;
	bool ok;

	stat_add(&vfs_this_lane->lane->stats, STAT_FUSE_FORGETS, n);
	if (ino == FUSE_ROOT_ID)
		return;
	known = inode_by_id(&fs->vfs.inodes, ino);
	ok = known && believed_forget(&fs->vfs.inodes, known, n);
	if (known)
		inode_put(&fs->vfs.inodes, known, 1);
	if (!ok && !atomic_flag_test_and_set(&said))
		log_warn("FUSE FORGET for unknown node %llx: this process's memory may be corrupted. "
			 "Further cases are not logged",
			 (unsigned long long)ino);
}

void fs_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	lookup_forget(fs_of(req), ino, n);
	fuse_reply_none(req);
}

void fs_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *f)
{
	for (size_t i = 0; i < count; i++)
		lookup_forget(fs_of(req), f[i].ino, f[i].nlookup);
	fuse_reply_none(req);
}

/* ---- readlink ---- */

static void readlink_done(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	const char *text = op->call.res.link.target;
	size_t len = op->call.res.link.len;
	char target[NFS_PATH_MAX + 1];

	if (op->call.res.status == 0)
		symlink_keep(&op->vl->vfs->inodes, op->ino, &op->link_ask, text, len);
	if (op->call.res.status == 0 && r->req) {
		/* The kernel takes a page, less a NUL. */
		if (len >= NFS_PATH_MAX) {
			fs_reply_err(r, ENAMETOOLONG);
		} else {
			memcpy(target, text, len);
			target[len] = '\0';
			fuse_reply_readlink(r->req, target);
			fs_replied(r);
		}
	}
	fs_end_status(op);
}

void fs_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct fs_req *r = fs_req_new(req, ino);
	char target[NFS_PATH_MAX];

	if (!r)
		return;
	if (symlink_get(&r->op.vl->vfs->inodes, r->op.ino, target)) {
		fuse_reply_readlink(req, target);
		fs_req_free(r);
		return;
	}
	r->op.link_ask = symlink_ask(r->op.ino);
	vfs_start(&r->op, NFS_OP_READLINK, readlink_done);
}
