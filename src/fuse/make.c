/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What changes names: mkdir, symlink, mknod, link, create, unlink, rmdir, rename.
 *
 * What has the name may be something else than was asked for. An UNCHECKED CREATE of version
 * 3 succeeds for a fifo that another client has made just before, and where a reply has no
 * handle, the LOOKUP after it may find what came later. The kernel takes such an answer for
 * EIO, and gives back neither the node nor the open file that it was given. So everything is
 * undone, and the answer is ESTALE: the kernel looks the name up once more, without what it
 * knows, and goes on with what is there. open() then opens the fifo, as with the kernel's
 * own NFS client, and mkdir() fails with EEXIST.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include "fuse/fs_impl.h"

/* Is it of another type than was asked for? The name is known to exist from here on (see
 * ownchange.h), so the kernel's next LOOKUP of it is not answered without the server. */
static bool is_another(const struct fs_req *r, const struct fuse_entry_param *e)
{
	return (e->attr.st_mode & S_IFMT) != r->type;
}

static void entry_done(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	struct inode_table *t = &op->vl->vfs->inodes;
	struct fuse_entry_param e;
	struct inode *ino;

	if (op->call.res.status || !r->req) {
		fs_end_name(r);
		return;
	}
	ino = fs_entry(r, op->name, &e);
	if (!ino) {
		fs_reply_err(r, ENOMEM);
	} else if (is_another(r, &e)) {
		believed_unheard(ino);
		fs_reply_err(r, ESTALE);
		believed_forget(t, ino, 1);
	} else {
		if (r->type == S_IFLNK && !op->call.res.found)
			symlink_made(t, ino, op->call.res.attr.change, op->start_ns, r->text);
		if (r->type == S_IFDIR && !op->call.res.found && t->solo)
			solo_dir_made(&t->solo_dirs, ino->id, op->call.res.attr.change,
				      op->call.eng.start_ns);
		if (fuse_reply_entry(r->req, &e))
			believed_forget(t, ino, 1);
	}
	fs_req_free(r);
}

/* A request object for creating `name` in `parent`, of that type. NULL: the request has been
 * answered. */
static struct fs_req *make_req(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t type,
			       mode_t mode)
{
	struct fs_req *r = fs_req_new(req, parent);

	if (!r || !fs_req_name(r, r->op.name, name))
		return NULL;
	r->type = type;
	r->op.call.args.name = r->op.name;
	r->op.call.args.sattr.valid = NFS_SET_MODE;
	r->op.call.args.sattr.mode = mode & 07777;
	if (fs_of_req(r)->tells_umask) {
		r->op.call.args.sattr.valid |= NFS_SET_UMASK;
		r->op.call.args.sattr.umask = fuse_req_ctx(req)->umask;
	}
	return r;
}

void fs_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct fs_req *r = make_req(req, parent, name, S_IFDIR, mode);

	if (r)
		vfs_start(&r->op, NFS_OP_MKDIR, entry_done);
}

void fs_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct fs_req *r = make_req(req, parent, name, S_IFLNK, 0777);

	if (!r)
		return;
	r->text = strdup(target);
	if (!r->text || strlen(target) > NFS_PATH_MAX) {
		fs_end_err(r, r->text ? ENAMETOOLONG : ENOMEM);
		return;
	}
	r->op.call.args.sattr.valid = 0;        /* the mode of a link means nothing */
	r->op.call.args.mk.target = r->text;
	vfs_start(&r->op, NFS_OP_SYMLINK, entry_done);
}

/* mknod() of a regular file. CREATE opens the file, so it is closed again. */
static void regular_done(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	struct nfs_results *res = &op->call.res;

	if (res->status == 0) {
		struct inode *ino = inode_get(t, &res->fh, &res->attr, 0, NULL, 0, op->start_ns);

		if (ino) {
			believed_unheard(ino);
			file_undo(op->vl, ino, op->call.open, &op->cred);
			inode_put(t, ino, 1);
		}
	}
	entry_done(op);
}

void fs_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct fs_req *r = make_req(req, parent, name, mode & S_IFMT, mode);
	struct nfs_args *a = r ? &r->op.call.args : NULL;

	if (!r)
		return;
	if (S_ISREG(mode)) {
		a->file.flags = O_RDWR | O_EXCL;
		vfs_start(&r->op, NFS_OP_CREATE, regular_done);
		return;
	}
	a->mk.type = mode & S_IFMT;
	a->mk.major = major(rdev);
	a->mk.minor = minor(rdev);
	vfs_start(&r->op, NFS_OP_MKNOD, entry_done);
}

/* ---- link ---- */

static void link_done(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	struct fs *fs = fs_of_req(r);
	struct inode_table *t = &fs->vfs.inodes;
	struct fuse_entry_param e = { 0 };

	if (op->call.res.status || !r->req) {
		readback_spoil(op->ino);   /* it may have the name anyway */
		fs_end_name(r);
		return;
	}
	inode_ref(op->ino);             /* becomes the kernel's, for this entry */
	fs_entry_node(fs, &e, op->ino);
	fs_stat_of(fs, op->ino, &e.attr, &op->call.res.attr);
	believed_tells_anyway(t, op->ino, fuse_req_ctx(r->req)->pid);
	if (!believed_is_late(op->ino, &op->call.res.attr, UINT64_MAX, op->start_ns))
		e.attr_timeout = r->timeo;
	e.entry_timeout = fs_entry_timeo(fs, op->ino2);
	if (fuse_reply_entry(r->req, &e))
		believed_forget(t, op->ino, 1);
	fs_req_free(r);
}

void fs_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r || !fs_req_name(r, r->op.name, name))
		return;
	if (!fs_req_ino2(r, parent))
		return;
	r->op.end = link_done;
	vfs_link(&r->op);
}

/* ---- create ---- */

static void create_done(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	struct inode_table *t = &op->vl->vfs->inodes;
	struct fuse_entry_param e;
	struct inode *ino;
	struct fs_file *f = NULL;
	bool another;

	if (fs_solo_writes_only(r)) {
		vfs_create(op);
		return;
	}
	if (op->call.res.status) {
		fs_end_name(r);
		return;
	}
	ino = fs_entry(r, op->name, &e);
	another = ino && is_another(r, &e);
	if (ino && r->req && !another)
		f = fs_file_new(r, ino);
	if (!f) {
		/* Another type, no memory, or nobody waits any more; but the server may have it
		 * open. */
		if (ino) {
			believed_unheard(ino);
			file_undo(op->vl, ino, op->call.open, &op->cred);
		}
		fs_reply_err(r, another ? ESTALE : ENOMEM);
	} else if (fuse_reply_create(r->req, &e, &r->fi)) {
		file_put(op->vl, &f->f);
		believed_forget(t, ino, 1);
	}
	if (!f && ino)
		believed_forget(t, ino, 1);
	fs_req_free(r);
}

void fs_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi)
{
	struct fs_req *r = make_req(req, parent, name, S_IFREG, mode);

	if (!r)
		return;
	r->fi = *fi;
	fs_solo_widen(r, fi->flags);
	r->op.end = create_done;
	vfs_create(&r->op);
}

/* ---- unlink, rmdir, rename ---- */

void fs_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs_req *r = fs_req_new(req, parent);

	if (r && fs_req_name(r, r->op.name, name))
		vfs_unlink(&r->op);
}

void fs_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs_req *r = fs_req_new(req, parent);

	if (r && fs_req_name(r, r->op.name, name))
		vfs_rmdir(&r->op);
}

void fs_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
	       const char *newname, unsigned flags)
{
	struct fs_req *r;

	if (flags) {            /* RENAME_NOREPLACE, RENAME_EXCHANGE: NFS has neither */
		fuse_reply_err(req, EINVAL);
		return;
	}
	r = fs_req_new(req, parent);
	if (!r || !fs_req_name(r, r->op.name, name) || !fs_req_name(r, r->op.name2, newname))
		return;
	if (fs_req_ino2(r, newparent))
		vfs_rename(&r->op);
}
