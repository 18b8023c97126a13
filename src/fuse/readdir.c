/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * opendir, readdir, readdirplus, releasedir. The kernel asks for a page of entries at a time.
 *
 *     offset  0    1     2    cookie ...
 *             "."  ".."  1st entry, 2nd, ...
 *
 * The offset that the kernel gets with an entry is its cookie (vfs/dirstream.h). "." and ".." are
 * made here, with offsets 1 and 2: version 4 does not send them and reserves these cookies. It
 * reserves only cookie 0 in version 3: an entry with a dot's offset is told from the dot by where
 * the stream is.
 *
 * Reading from offset 0 asks the server anew. So does an offset that is not among the entries that
 * are kept. When this mount has changed the directory, the kept entries may include names that are
 * gone. So they are returned without nodes and attributes, and the kernel looks a name up before
 * it uses it.
 */
#include <errno.h>
#include <string.h>
#include "fuse/fs_impl.h"

/* Larger answers are of no use. Kernels ask for 4 KiB, newer ones for more. */
#define REPLY_MAX 65536u
/* The inode number in a listing if the server sends none; libfuse uses the same. */
#define NO_FILEID 0xffffffffu
/* The least size of an entry: fuse_entry_out and fuse_dirent are 128 + 24 bytes. */
#define PLUS_ENTRY_MIN 152u

/* The answer that a request is filling. */
struct filler {
	struct fs_req *r;
	bool plus;
	char *buf;
	size_t len, cap;
	struct inode *given[REPLY_MAX / PLUS_ENTRY_MIN + 1];
	unsigned ngiven;
};

/* ---- filling ---- */

static double readdir_age(const struct dirstream *s)
{
	return (double)(mono_ns() - s->fetched_ns) / 1e9;
}

static double readdir_left(double timeo, double old)
{
	return timeo > old ? timeo - old : 0;
}

/* Adds one entry. false: there is no room for it. e is for READDIRPLUS, st for READDIR. */
static bool readdir_add(struct filler *f, const char *name, const struct fuse_entry_param *e,
			const struct stat *st, uint64_t off)
{
	fuse_req_t req = f->r->req;
	size_t n, room = f->cap - f->len;

	if (f->plus)
		n = fuse_add_direntry_plus(req, f->buf + f->len, room, name, e, (off_t)off);
	else
		n = fuse_add_direntry(req, f->buf + f->len, room, name, st, (off_t)off);
	if (n > room)
		return false;
	f->len += n;
	return true;
}

static bool add_dot(struct filler *f, const char *name, uint64_t off)
{
	struct fuse_entry_param e = { 0 };

	e.attr.st_mode = S_IFDIR;
	e.attr.st_ino = 1;      /* nobody can use the number: getcwd() asks the parent */
	return readdir_add(f, name, &e, &e.attr, off);
}

static bool add_entry(struct filler *f, struct dirstream *s, const struct dent *d)
{
	struct fs *fs = fs_of_req(f->r);
	struct fuse_entry_param e = { 0 };
	char name[NFS_NAME_MAX + 1];
	struct inode *ino = NULL;
	bool ok;

	memcpy(name, d->name, d->namelen);
	name[d->namelen] = '\0';
	e.attr.st_ino = d->fileid;
	if (d->has_attr)
		fs_stat(fs, &e.attr, &d->attr);
	if (f->plus && fuse_add_direntry_plus(f->r->req, NULL, 0, name, NULL, 0) > f->cap - f->len)
		return false;
	if (f->plus && d->has_attr && d->has_fh &&
	    dirstream_is_current(s))
		ino = inode_get_listed(&fs->vfs.inodes, &d->fh, &d->attr, s->ino->id, name,
				       d->namelen, s->asked_ns);
	if (ino) {
		double old = readdir_age(s);

		fs_entry_node(fs, &e, ino);
		fs_stat_of(fs, ino, &e.attr, &d->attr);
		e.attr_timeout = readdir_left(inode_timeo(&fs->vfs.inodes, ino), old);
		e.entry_timeout = readdir_left(fs_entry_timeo(fs, s->ino), old);
	}
	/* readdir() of the C library skips entries with the number 0, and a server that cannot
	 * read an entry's attributes sends no number. */
	if (!e.attr.st_ino)
		e.attr.st_ino = NO_FILEID;
	ok = readdir_add(f, name, &e, &e.attr, d->cookie);
	if (ino && ok)
		f->given[f->ngiven++] = ino;
	else if (ino)
		believed_forget(&fs->vfs.inodes, ino, 1);
	return ok;
}

static void readdir_serve(struct filler *f, struct dirstream *s)
{
	const struct dent *d;

	while ((d = dirstream_entry(s)) && add_entry(f, s, d))
		dirstream_next(s, d);
}

/* r has used its stream. */
static void dir_end(struct fs_req *r)
{
	struct dirstream *s = r->op.list.stream;

	dirstream_give(s);
	dirstream_put(&r->op.vl->vfs->inodes, s);
	fs_end_status(&r->op);
}

static void readdir_finish(struct fs_req *r, struct filler *f)
{
	struct inode_table *t = &r->op.vl->vfs->inodes;

	/* Before the answer: the next request may come to another lane at once. */
	dirstream_give(r->op.list.stream);
	if (fuse_reply_buf(r->req, f->buf, f->len))
		for (unsigned i = 0; i < f->ngiven; i++)        /* the answer did not arrive */
			believed_forget(t, f->given[i], 1);
	fs_replied(r);
	dirstream_put(t, r->op.list.stream);
	fs_end_status(&r->op);
}

/* Answers from offset dir.off on, with the kept entries; or fetches others. */
static void go_on(struct fs_req *r)
{
	struct dirstream *s = r->op.list.stream;
	uint64_t off = r->dir.off;
	bool behind_entry = off && s->any && s->pos_off == off;
	static _Thread_local char buf[REPLY_MAX];
	struct filler f = {
		.r = r, .plus = r->dir.plus, .buf = buf,
		.cap = r->dir.size < REPLY_MAX ? r->dir.size : REPLY_MAX,
	};

	if (!r->req) {                  /* interrupted meanwhile */
		dir_end(r);
		return;
	}
	r->op.call.res.status = 0;
	if (off == 0 && add_dot(&f, ".", 1))
		off = 1;
	if (off == 1 && !behind_entry && add_dot(&f, "..", 2))
		off = 2;
	if (off < 2 && !behind_entry) {
		readdir_finish(r, &f);
		return;
	}
	if (off == 2 && !behind_entry)
		off = 0;                /* the server's beginning */
	if (!dirstream_seek(s, off)) {
		vfs_list(&r->op, off);
		return;
	}
	readdir_serve(&f, s);
	if (f.len == 0 && !dirstream_entry(s) && !s->eof)
		vfs_list(&r->op, s->seq.last);  /* all kept entries were returned before */
	else
		readdir_finish(r, &f);
}

static void readdir_listed(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);

	if (op->call.res.status)
		dir_end(r);
	else
		go_on(r);
}

/* ---- handlers ---- */

void fs_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct fs_req *r = fs_req_new(req, ino);
	struct dirstream *s;

	if (!r)
		return;
	s = dirstream_new(r->op.ino);
	if (s) {
		s->syncs = fs_write_back_is_by(fs, fuse_req_ctx(req)->pid);
		fi->fh = s->handle = handle_new(&fs->dirs, s);
	}
	if (!s || !s->handle) {
		fs_reply_err(r, ENOMEM);
	} else if (fuse_reply_open(req, fi)) {
		handle_del(&fs->dirs, s->handle);
		s->handle = 0;
	}
	if (s && !s->handle)
		dirstream_put(&fs->vfs.inodes, s);
	fs_req_free(r);
}

void fs_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct dirstream *s = handle_del(&fs->dirs, fi->fh);

	if (s && s->syncs)
		atomic_store(&fs->write_back.synced, true);
	if (s)
		dirstream_put(&fs->vfs.inodes, s);
	fuse_reply_err(req, s ? 0 : EBADF);
}

void fs_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	fuse_reply_err(req, 0);         /* a server replies when the change is stable */
}

static void read_dir(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi, bool plus)
{
	struct fs *fs = fs_of(req);
	struct dirstream *s = handle_get(&fs->dirs, fi->fh, dirstream_ref);
	struct fs_req *r;

	if (!s) {
		fuse_reply_err(req, EBADF);
		return;
	}
	r = fs_req_on(req, s->ino);
	if (!r) {
		dirstream_put(&fs->vfs.inodes, s);
		return;
	}
	if (!dirstream_take(s)) {       /* an interrupted request still runs */
		dirstream_put(&fs->vfs.inodes, s);
		fs_end_err(r, EINTR);
		return;
	}
	r->op.end = readdir_listed;
	r->op.list = (struct op_list){ .stream = s };
	r->dir.off = (uint64_t)off;
	r->dir.size = size;
	r->dir.plus = plus;
	if (off == 0)                   /* rewinddir() shows what is new */
		dirstream_restart(s);
	go_on(r);
}

void fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	read_dir(req, size, off, fi, false);
}

void fs_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	read_dir(req, size, off, fi, true);
}
