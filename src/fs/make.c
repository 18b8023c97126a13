/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkdir, symlink, mknod, link, create.
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
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include "fs/fs_impl.h"

/* Is it of another type than was asked for? The name is known to exist from here on (see
 * known.h), so the kernel's next LOOKUP of it is not answered without the server. */
static bool is_another(const struct fs_req *r, const struct fuse_entry_param *e)
{
	return (e->attr.st_mode & S_IFMT) != r->type;
}

static void entry_done(struct fs_req *r)
{
	struct fs *fs = r->fl->fs;
	struct fuse_entry_param e;
	struct inode *ino;

	fs_dir_changed(r->ino);
	if (r->call.res.status || !r->req) {
		fs_done_name(r);
		return;
	}
	ino = fs_entry(r, r->name, &e);
	if (!ino) {
		fs_reply_err(r, ENOMEM);
	} else if (is_another(r, &e)) {
		inode_untold(ino);
		fs_reply_err(r, ESTALE);
		inode_forget(&fs->inodes, ino, 1);
	} else {
		if (r->type == S_IFLNK && !r->call.res.found)
			link_made(&fs->inodes, ino, r->call.res.attr.change, r->start_ns, r->text);
		if (r->type == S_IFDIR && !r->call.res.found && fs->inodes.solo)
			solo_dir_made(&fs->inodes.solo_dirs, ino->id, r->call.res.attr.change,
				      r->call.eng.start_ns);
		if (fuse_reply_entry(r->req, &e))
			inode_forget(&fs->inodes, ino, 1);
	}
	r->req = NULL;
	fs_req_free(r);
}

/* A request object for creating `name` in `parent`, of that type. NULL: the request has been
 * answered. */
static struct fs_req *make(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t type,
			   mode_t mode)
{
	struct fs_req *r = fs_req_new(req, parent);

	if (!r || !fs_req_name(r, r->name, name))
		return NULL;
	r->type = type;
	r->call.args.name = r->name;
	r->call.args.sattr.valid = NFS_SET_MODE;
	r->call.args.sattr.mode = mode & 07777;
	return r;
}

void fs_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct fs_req *r = make(req, parent, name, S_IFDIR, mode);

	if (r)
		fs_req_start(r, NFS_OP_MKDIR, entry_done);
}

void fs_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct fs_req *r = make(req, parent, name, S_IFLNK, 0777);

	if (!r)
		return;
	r->text = strdup(target);
	if (!r->text || strlen(target) > NFS_PATH_MAX) {
		fs_reply_err(r, r->text ? ENAMETOOLONG : ENOMEM);
		fs_req_free(r);
		return;
	}
	r->call.args.sattr.valid = 0;        /* the mode of a link means nothing */
	r->call.args.mk.target = r->text;
	fs_req_start(r, NFS_OP_SYMLINK, entry_done);
}

/* mknod() of a regular file. CREATE opens the file, so it is closed again. */
static void regular_done(struct fs_req *r)
{
	if (r->call.res.status == 0) {
		struct inode *ino = inode_get(&r->fl->fs->inodes, &r->call.res.fh, &r->call.res.attr,
					      0, NULL, 0, r->start_ns);

		if (ino) {
			inode_untold(ino);
			fs_open_undo(r->fl, ino, r->call.open, &r->cred);
			inode_put(&r->fl->fs->inodes, ino, 1);
		}
	}
	entry_done(r);
}

void fs_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct fs_req *r = make(req, parent, name, mode & S_IFMT, mode);

	if (!r)
		return;
	if (S_ISREG(mode)) {
		r->call.args.file.flags = O_RDWR | O_EXCL;
		fs_req_start(r, NFS_OP_CREATE, regular_done);
		return;
	}
	r->call.args.mk.type = mode & S_IFMT;
	r->call.args.mk.major = major(rdev);
	r->call.args.mk.minor = minor(rdev);
	fs_req_start(r, NFS_OP_MKNOD, entry_done);
}

/* ---- link ---- */

static void link_done(struct fs_req *r)
{
	struct fs *fs = r->fl->fs;
	struct fuse_entry_param e = { 0 };

	fs_dir_changed(r->ino2);
	if (r->call.res.status || !r->req) {
		young_spoil(r->ino);    /* it may have the name all the same */
		fs_done_name(r);
		return;
	}
	inode_update(&fs->inodes, r->ino, &r->call.res.attr, r->start_ns);
	inode_named(&fs->inodes, r->ino, r->ino2->id, r->name);
	inode_ref(r->ino);              /* becomes the kernel's, for this entry */
	fs_entry_node(fs, &e, r->ino);
	fs_stat_of(fs, r->ino, &e.attr, &r->call.res.attr);
	e.attr_timeout = inode_timeo(&fs->inodes, r->ino);
	e.entry_timeout = fs_entry_timeo(fs, r->ino2);
	if (fuse_reply_entry(r->req, &e))
		inode_forget(&fs->inodes, r->ino, 1);
	r->req = NULL;
	fs_req_free(r);
}

void fs_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r || !fs_req_name(r, r->name, name))
		return;
	if (!fs_req_ino2(r, parent))
		return;
	r->call.args.fh2 = &r->ino2->fh;
	r->call.args.name = r->name;
	fs_req_start(r, NFS_OP_LINK, link_done);
}

/* ---- create ---- */

static void create_done(struct fs_req *r)
{
	struct fs *fs = r->fl->fs;
	struct fuse_entry_param e;
	struct inode *ino;
	struct file *f = NULL;
	bool another;

	if (fs_solo_writes_only(r)) {
		fs_req_start(r, NFS_OP_CREATE, create_done);
		return;
	}
	fs_dir_changed(r->ino);
	if (r->call.res.status) {
		fs_done_name(r);
		return;
	}
	ino = fs_entry(r, r->name, &e);
	another = ino && is_another(r, &e);
	if (ino && r->req && !another)
		f = fs_file_new(r, ino, &r->fi);
	if (!f) {
		/* Another type, no memory, or nobody waits any more; but the server may have it
		 * open. */
		if (ino) {
			inode_untold(ino);
			fs_open_undo(r->fl, ino, r->call.open, &r->cred);
		}
		fs_reply_err(r, another ? ESTALE : ENOMEM);
	} else if (fuse_reply_create(r->req, &e, &r->fi)) {
		fs_file_put(r->fl, f);
		inode_forget(&fs->inodes, ino, 1);
	}
	if (!f && ino)
		inode_forget(&fs->inodes, ino, 1);
	r->req = NULL;
	fs_req_free(r);
}

void fs_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi)
{
	struct fs_req *r = make(req, parent, name, S_IFREG, mode);

	if (!r)
		return;
	r->fi = *fi;
	r->call.args.file.flags = fs_solo_flags(r->fl->fs, fi->flags);
	fs_req_start(r, NFS_OP_CREATE, create_done);
}
