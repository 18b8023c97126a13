/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files' data.
 *
 * READ: the server places the data in a data buffer (or sends it in the
 * reply, if it is short), and that very memory goes to fuse_reply_iov(). The
 * buffer is the request's from the start of the READ until the reply is
 * written.
 *
 * WRITE: the data stays where FUSE put it; the request owns those receive
 * buffers until the server has answered. Each WRITE is FILE_SYNC, so that
 * nothing has to be sent again after a server restart:
 *
 *      WRITE --FILE_SYNC--------------------------> the next part, or answered
 *       ^  \                                  |
 *       |   less --> COMMIT --same verifier---+
 *       +-------------+ another one: the server has restarted in between
 *
 * A server that does less than FILE_SYNC has the data committed while the
 * request still owns it. So there is never anything that fsync() or close()
 * would have to do, and no state of an open or a file that could be forgotten.
 *
 * A server may do less than was asked: the rest is asked for again.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "fs/fs_impl.h"

/* What a server may answer in a row before it is an error: READs of no bytes that
 * are not the end of the file, and COMMITs with another verifier than WRITE's. */
#define TRIES_MAX 8u

/* ---- read ---- */

/* Past the page cache: the kernel says then whose read it is. What a mapping reads
 * comes by way of the pages, however the file was opened. */
static bool reads_direct(const struct fuse_file_info *fi)
{
	return (fi->flags & O_DIRECT) && fi->lock_owner;
}

static void read_done(struct fs_req *r);

static void read_more(struct fs_req *r)
{
	r->call.args.io.sink.mem = (char *)r->buf[0]->mem + r->filled;
	r->call.args.io.count = (uint32_t)(r->size - r->filled);
	r->call.args.io.sink.len = r->call.args.io.count;
	fs_req_start(r, NFS_OP_READ, read_done);
}

/* What has arrived so far is in the buffer, in one piece. */
static void gather(struct fs_req *r)
{
	struct nfs_call *c = &r->call;
	char *at = (char *)r->buf[0]->mem + r->filled;

	/* Placed data is there already. */
	if (c->res.io.len && c->res.io.ptr != at) {
		memcpy(at, c->res.io.ptr, c->res.io.len);
		stat_add(&r->fl->lane->stats, STAT_READ_COPIED_BYTES, c->res.io.len);
	}
	r->filled += c->res.io.len;
	c->args.io.offset += c->res.io.len;
}

/* No bytes, and not the end either: the kernel would take an empty answer for
 * the end, and fill pages with zeros. */
static bool tried_enough(struct fs_req *r)
{
	if (r->call.res.io.len) {
		r->tries = 0;
		return false;
	}
	return ++r->tries > TRIES_MAX;
}

static void read_done(struct fs_req *r)
{
	struct nfs_call *c = &r->call;
	struct iovec iov;
	bool more;

	if (c->res.status || !r->req) {
		fs_done_status(r);
		return;
	}
	iov = (struct iovec){ (void *)(uintptr_t)c->res.io.ptr, c->res.io.len };
	more = !c->res.io.eof && r->filled + c->res.io.len < r->size;
	if (more && tried_enough(r)) {
		log_err("READ: %s answers without data, and not with the end of the file either: "
			"EIO after %u times", r->fl->lane->client->cfg.server, r->tries);
		fs_reply_err(r, EIO);
		fs_req_free(r);
		return;
	}
	if (more || r->filled) {
		gather(r);
		if (more) {
			read_more(r);
			return;
		}
		iov = (struct iovec){ r->buf[0]->mem, r->filled };
	}
	fuse_reply_iov(r->req, &iov, iov.iov_len ? 1 : 0);
	r->req = NULL;
	fs_req_free(r);
}

static bool try_read(struct fs_req *r)
{
	r->buf[0] = magazine_get_data(&r->fl->lane->mag, r->size);
	if (!r->buf[0])
		return false;
	read_more(r);
	return true;
}

bool fs_retry_reads(struct fs_lane *fl)
{
	while (!list_empty(&fl->want_buf)) {
		struct fs_req *r = container_of(fl->want_buf.next, struct fs_req, buf_node);

		list_del(&r->buf_node);
		if (!try_read(r)) {
			list_add_head(&fl->want_buf, &r->buf_node);
			return false;
		}
	}
	return true;
}

void fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_file(req, fi);

	(void)ino;
	if (!r)
		return;
	if (size > NFS_IO_MAX) {        /* the kernel keeps to max_read */
		fs_reply_err(r, EINVAL);
		fs_req_free(r);
		return;
	}
	r->size = size;
	r->call.open = r->file->open;
	r->call.args.io.offset = (uint64_t)off;
	if (!reads_direct(fi))
		inode_paged(r->ino);
	if (!list_empty(&r->fl->want_buf) || !try_read(r)) {
		stat_add(&r->fl->lane->stats, STAT_FUSE_WAITS, 1);
		list_add_tail(&r->fl->want_buf, &r->buf_node);
	}
}

/* ---- write ---- */

/* Moves the pieces on by what has been written. */
static void advance(struct nfs_call *c, uint32_t n)
{
	c->args.io.offset += n;
	while (n && c->args.io.ndata) {
		struct rr_iov *d = &c->args.io.data[0];
		uint32_t part = n < d->len ? n : d->len;

		d->mem = (char *)d->mem + part;
		d->len -= part;
		n -= part;
		if (d->len == 0) {
			c->args.io.data[0] = c->args.io.data[1];
			c->args.io.ndata--;
		}
	}
}

/* Past the page cache: never so for what the kernel writes back from there. */
static bool is_direct(const struct fuse_file_info *fi)
{
	return (fi->flags & O_DIRECT) && !fi->writepage;
}

/* Before the answer, so that whoever has seen the write through reads what it
 * wrote. Offset -1: attributes only, see told.h. To throw the pages away here
 * would wait for those that are being read, by way of this very thread. */
static void past_the_pages(struct fs_req *r)
{
	if (r->filled && is_direct(&r->fi) && inode_written_past(r->ino))
		fuse_lowlevel_notify_inval_inode(r->fl->fs->se, fs_node(r->fl->fs, r->ino),
						 -1, 0);
}

static void write_end(struct fs_req *r, int status)
{
	atomic_fetch_sub(&r->ino->writing, 1);
	past_the_pages(r);
	/* An error after a part was written: write() tells of that part, the
	 * next one of the error. The kernel's write-back of mapped pages has no
	 * next one, and takes any answer but an error for all of it. */
	if (r->req && (status == 0 || (r->filled && !r->fi.writepage))) {
		fuse_reply_write(r->req, r->filled);
		r->req = NULL;
	}
	fs_reply_err(r, status);
	fs_req_free(r);
}

/* The first n bytes of what was left are on stable storage. */
static void written(struct fs_req *r, uint32_t n)
{
	r->filled += n;
	r->tries = 0;
	inode_wrote(r->ino, r->call.args.io.offset + n);
	if (r->filled == r->size) {
		write_end(r, 0);
		return;
	}
	advance(&r->call, n);
	fs_write_start(r);
}

static void commit_done(struct fs_req *r)
{
	struct nfs_call *c = &r->call;

	if (c->res.status) {
		write_end(r, c->res.status);
	} else if (c->res.io.verf == r->verf) {
		written(r, c->args.io.count);
	} else if (++r->tries > TRIES_MAX) {
		log_err("WRITE: %s has another write verifier with each COMMIT, as if it had "
			"restarted each time: EIO after %u times", r->fl->lane->client->cfg.server,
			r->tries);
		write_end(r, -EIO);
	} else {
		fs_write_start(r);
	}
}

static void write_done(struct fs_req *r)
{
	struct nfs_call *c = &r->call;

	if (c->res.status) {
		write_end(r, c->res.status);
	} else if (c->res.io.stable) {
		written(r, c->res.io.len);
	} else {
		r->verf = c->res.io.verf;
		c->args.io.count = c->res.io.len;
		fs_req_start(r, NFS_OP_COMMIT, commit_done);
	}
}

void fs_write_start(struct fs_req *r)
{
	fs_req_start(r, NFS_OP_WRITE, write_done);
}

void fs_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *bufv, off_t off,
		  struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_file(req, fi);
	size_t size = bufv->buf[0].size;

	(void)ino;
	if (!r)
		return;
	r->fi = *fi;
	r->size = size;
	r->call.open = r->file->open;
	r->call.args.io.offset = (uint64_t)off;
	if (!is_direct(fi))
		inode_paged(r->ino);
	if (size == 0) {
		fuse_reply_write(req, 0);
		r->req = NULL;
		fs_req_free(r);
		return;
	}
	atomic_fetch_add(&r->ino->writing, 1);
	if (r->fl->dev->ops->take(r->fl->dev, r, bufv->buf[0].mem, size))
		fs_write_start(r);
}
