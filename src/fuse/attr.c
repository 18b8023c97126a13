/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Translates attributes between NFS and FUSE; says for how long they are believed. */
#include <string.h>
#include <sys/sysmacros.h>
#include "fuse/fs_impl.h"

/* The kernel believes for a second at most that a name does not exist: another client that
 * creates it cannot tell us. */
#define NEGATIVE_MAX 1.0

/* One mount has one st_dev, but may reach several file systems of the server, and their
 * inode numbers repeat. Programs would see loops, and hard links between files that have
 * nothing in common. So the fsid is mixed in. The root's file system keeps its numbers. */
static uint64_t attr_number(const struct fs *fs, const struct nfs_attr *a)
{
	uint64_t h = a->fsid_major * 0x9e3779b97f4a7c15u + a->fsid_minor;

	if (a->fsid_major == fs->fsid_major && a->fsid_minor == fs->fsid_minor)
		return a->fileid;
	h = (h ^ h >> 31) * 0xbf58476d1ce4e5b9u;
	return a->fileid ^ h ^ h >> 29;
}

void fs_stat(const struct fs *fs, struct stat *st, const struct nfs_attr *a)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = attr_number(fs, a);
	st->st_mode = a->mode;
	st->st_nlink = a->nlink;
	st->st_uid = fs->cfg.ugid ? ugid_here(&fs->cfg.ugid->user, a->uid) : a->uid;
	st->st_gid = fs->cfg.ugid ? ugid_here(&fs->cfg.ugid->group, a->gid) : a->gid;
	st->st_rdev = makedev(a->rdev_major, a->rdev_minor);
	st->st_size = a->size > INT64_MAX ? INT64_MAX : (off_t)a->size;
	st->st_blocks = (blkcnt_t)((a->used + 511) / 512);
	/* Programs choose their buffer size by this. Larger buffers take fewer RPCs. The kernel
	 * cuts what is longer than its requests. */
	st->st_blksize = fs_request_most(fs->vfs.cl->wsize);
	st->st_atim = a->atime;
	st->st_mtim = a->mtime;
	st->st_ctim = a->ctime;
}

void fs_stat_of(const struct fs *fs, const struct inode *ino, struct stat *st,
		const struct nfs_attr *a)
{
	fs_stat(fs, st, a);
	st->st_mtim.tv_nsec += atomic_load(&believed_of(ino)->mtime_ahead);
	if (st->st_mtim.tv_nsec >= 1000000000) {
		st->st_mtim.tv_nsec -= 1000000000;
		st->st_mtim.tv_sec++;
	}
}

void fs_sattr(struct nfs_sattr *out, const struct stat *st, int to_set)
{
	memset(out, 0, sizeof(*out));
	if (to_set & FUSE_SET_ATTR_MODE)
		out->valid |= NFS_SET_MODE;
	if (to_set & FUSE_SET_ATTR_UID)
		out->valid |= NFS_SET_UID;
	if (to_set & FUSE_SET_ATTR_GID)
		out->valid |= NFS_SET_GID;
	if (to_set & FUSE_SET_ATTR_SIZE)
		out->valid |= NFS_SET_SIZE;
	if (to_set & FUSE_SET_ATTR_ATIME_NOW)
		out->valid |= NFS_SET_ATIME_NOW;
	else if (to_set & FUSE_SET_ATTR_ATIME)
		out->valid |= NFS_SET_ATIME;
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		out->valid |= NFS_SET_MTIME_NOW;
	else if (to_set & FUSE_SET_ATTR_MTIME)
		out->valid |= NFS_SET_MTIME;
	out->mode = st->st_mode & 07777;
	out->uid = st->st_uid;
	out->gid = st->st_gid;
	out->size = (uint64_t)st->st_size;
	out->atime = st->st_atim;
	out->mtime = st->st_mtim;
}

double fs_entry_timeo(struct fs *fs, struct inode *dir)
{
	if (fs->cfg.lookupcache == FS_LOOKUPCACHE_NONE)
		return 0;
	return inode_timeo(&fs->vfs.inodes, dir);
}

double fs_negative_timeo(const struct fs_config *cfg)
{
	double t = cfg->vfs.acdirmin;

	if (cfg->lookupcache != FS_LOOKUPCACHE_ALL)
		return 0;
	return t < NEGATIVE_MAX ? t : NEGATIVE_MAX;
}

struct inode *fs_entry(struct fs_req *r, const char *name, struct fuse_entry_param *e)
{
	struct fs *fs = fs_of_req(r);
	struct nfs_results *res = &r->op.call.res;
	struct inode *ino = (r->op.call.op == NFS_OP_CREATE ? inode_get_created : inode_get)
			(&fs->vfs.inodes, &res->fh, &res->attr, name ? r->op.ino->id : 0,
			 name, name ? strlen(name) : 0, r->op.start_ns);

	if (!ino)
		return NULL;
	if (r->req)
		fs_tells(r, ino);
	if (r->req && r->op.call.op == NFS_OP_CREATE && atomic_load(&believed_of(ino)->lookups))
		believed_tells_anyway(&fs->vfs.inodes, ino, fuse_req_ctx(r->req)->pid);
	fs_entry_node(fs, e, ino);
	fs_stat_of(fs, ino, &e->attr, &res->attr);
	e->attr_timeout = inode_timeo(&fs->vfs.inodes, ino);
	e->entry_timeout = name ? fs_entry_timeo(fs, r->op.ino) : 0;
	return ino;
}
