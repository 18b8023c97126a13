/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File data.
 *
 * READ: the server places the data in a data buffer (or sends it in the reply, if it is
 * short), and that memory goes to fuse_reply_buf(). The request owns the buffer from the
 * start of the READ until the answer is written, or until the lane's device takes it to write
 * the answer later (answers.h).
 *
 * WRITE: the data stays in the buffers that the lane received it in. Mostly it goes to
 * write-behind (behind.h). The rest (direct, O_SYNC, noac, no room at all) goes through: the
 * request owns the buffers until the server has replied, and asks for FILE_SYNC, so that
 * nothing has to be sent again after a restart of the server:
 *
 *      WRITE --FILE_SYNC--------------------------> the next part, or answered
 *       ^  \                                  |
 *       |   less --> COMMIT --same verifier---+
 *       +-------------+ another verifier: the server has restarted in between
 *
 * If a server does less than FILE_SYNC, COMMIT follows while the request still owns the
 * data.
 *
 * A server may read or write fewer bytes than it was asked to. Then we ask for the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include "fs/fs_impl.h"

/* The most useless replies in a row that are not an error: READs without data that are not
 * the end of the file, and COMMITs with another verifier than the WRITE's, or that may have failed
 * before. */
#define TRIES_MAX 8u

/* ---- read ---- */

/* Does this read bypass the page cache? In a direct read the kernel sends the lock owner.
 * When it fills pages for a mapping it does not, even if the file has O_DIRECT. */
static bool reads_direct(const struct fuse_file_info *fi)
{
	return (fi->flags & O_DIRECT) && fi->lock_owner;
}

static void read_done(struct fs_req *r);

static void read_more(struct fs_req *r)
{
	struct nfs_io_args *io = &r->call.args.io;

	io->count = (uint32_t)(r->size - r->filled);
	io->sink[0] = (struct rr_iov){ (char *)r->buf[0]->mem + r->filled, io->count };
	io->sink[1].len = 0;
	fs_req_start(r, NFS_OP_READ, read_done);
}

/* Appends what has arrived to what is in the buffer. */
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

/* The reply has no bytes, but is not the end of the file. The kernel would take an empty
 * answer for the end, and fill pages with zeros. */
static bool tried_enough(struct fs_req *r)
{
	if (r->call.res.io.len) {
		r->tries = 0;
		return false;
	}
	return ++r->tries > TRIES_MAX;
}

/* What was written before may not have been on the server yet when it read. Then the file has
 * no end here. */
static void read_again(struct fs_req *r)
{
	r->reread = true;
	r->lays = false;
	r->call.args.io.offset = r->start;
	r->filled = 0;
	fs_settle(r, r->ino, true, read_more);
}

/* All that the server has sent for r is there. */
static void read_end(struct fs_req *r, struct iovec *iov)
{
	bool again = r->lays ? !fs_behind_lay(r, &iov->iov_len) :
		     iov->iov_len < r->size && !r->reread &&
		     behind_since(r->ino, r->call.eng.start_ns);

	if (again) {
		read_again(r);
		return;
	}
	if (iov->iov_len < r->size)
		inode_read_short(&r->fl->fs->inodes, r->ino, r->start + iov->iov_len, r->start_ns);
	fs_unhurried(r, true, &r->buf[0]);
	fuse_reply_buf(r->req, iov->iov_base, iov->iov_len);
	fs_unhurried(r, false, NULL);
	r->req = NULL;
	fs_req_free(r);
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
		log_err("READ: %s sends neither data nor the end of the file: EIO after %u tries",
			r->fl->lane->client->cfg.server, r->tries);
		fs_reply_err(r, EIO);
		fs_req_free(r);
		return;
	}
	if (more || r->filled || r->lays) {
		gather(r);
		if (more) {
			read_more(r);
			return;
		}
		iov = (struct iovec){ r->buf[0]->mem, r->filled };
	}
	read_end(r, &iov);
}

static bool try_read(struct fs_req *r)
{
	r->buf[0] = magazine_get_data(&r->fl->lane->mag, r->size);
	if (!r->buf[0])
		return false;
	if (!r->lays || !fs_behind_serve(r))
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

void fs_read_start(struct fs_req *r)
{
	if (!list_empty(&r->fl->want_buf) || !try_read(r)) {
		stat_add(&r->fl->lane->stats, STAT_FUSE_WAITS, 1);
		list_add_tail(&r->fl->want_buf, &r->buf_node);
	}
}

/* What was written is on the server. */
static void read_now(struct fs_req *r)
{
	if (r->fl->fs->ahead.window && !reads_direct(&r->fi))
		ahead_read(r);
	else
		fs_read_start(r);
}

void fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_file(req, fi);

	(void)ino;
	if (!r)
		return;
	if (size > FS_REQUEST_MAX) {    /* not from a kernel that obeys max_read */
		fs_reply_err(r, EINVAL);
		fs_req_free(r);
		return;
	}
	r->fi = *fi;
	r->size = size;
	r->call.open = r->file->open;
	r->start = r->call.args.io.offset = (uint64_t)off;
	if (!reads_direct(fi)) {
		inode_paged(r->ino);
		young_read(r->ino, fuse_req_ctx(req)->pid);
	}
	r->lays = !reads_direct(fi) && fs_behind_reads(r);
	if (r->lays)
		fs_read_start(r);
	else if (behind_holds_bytes(r->ino, r->start, size))
		fs_settle(r, r->ino, true, read_now);
	else
		read_now(r);
}

/* ---- write ---- */

/* Moves the pieces on by the n bytes that have been written. */
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

/* Does this write bypass the page cache? The kernel's own write-back never does. */
static bool is_direct(const struct fuse_file_info *fi)
{
	return (fi->flags & O_DIRECT) && !fi->writepage;
}

static bool goes_past(const struct fs_req *r)
{
	return is_direct(&r->fi) || (r->file->past && !r->fi.writepage);
}

/*
 * Pages may have the old bytes (told.h). A READ that has brought them has said so before
 * (inode_paged), or finds what is held by now. The kernel asks for the attributes before the next
 * read(), and drops the pages when the mtime is another one. For the writes of an open that only
 * writes it does that by itself. For O_DIRECT it may have no reason to, and is told to forget the
 * attributes, before the answer: so a program reads what it has written. To drop the pages here
 * would wait for pages that are being read, and this very thread may have to bring them.
 */
void fs_past_the_pages(struct fs_req *r)
{
	bool direct = is_direct(&r->fi);

	if (!goes_past(r) || r->ino->solo || (!direct && !atomic_load(&r->ino->paged)))
		return;
	if (inode_written_past(r->ino) && direct && r->req)
		fs_forget_attr(r);
}

static void write_end(struct fs_req *r, int status)
{
	atomic_fetch_sub(&r->ino->writing, 1);
	if (status)
		young_spoil(r->ino);    /* the server may have executed it */
	if (status && r->ino->solo)
		inode_written_past(r->ino);
	if (r->filled)
		fs_past_the_pages(r);
	/* If an error comes after a part was written, write() returns that part, and the next
	 * write() the error. The kernel's write-back of mapped pages has no next one, and takes
	 * any answer but an error for a complete write. */
	if (r->req && (status == 0 || (r->filled && !r->fi.writepage))) {
		fs_unhurried(r, true, NULL);
		fuse_reply_write(r->req, r->filled);
		fs_unhurried(r, false, NULL);
		r->req = NULL;
	} else if (r->filled) {
		inode_untold(r->ino);   /* the kernel does not hear how far it came */
	}
	fs_reply_err(r, status);
	fs_req_free(r);
}

/* The next n bytes are on stable storage. */
static void written(struct fs_req *r, uint32_t n)
{
	r->filled += n;
	r->tries = 0;
	young_there(r->ino, r->call.args.io.offset + n);
	if (r->req) {
		inode_wrote(r->ino, r->call.args.io.offset + n);
		young_wrote(r->ino, r->call.args.io.offset + n, fuse_req_ctx(r->req)->pid);
	} else {
		inode_untold(r->ino);
	}
	if (r->filled == r->size) {
		write_end(r, 0);
		return;
	}
	advance(&r->call, n);
	fs_write_through(r);
}

static void commit_done(struct fs_req *r)
{
	struct nfs_call *c = &r->call;

	if (c->res.status) {
		write_end(r, c->res.status);
	} else if (c->res.io.verf == r->verf && !c->res.io.twice) {
		written(r, c->args.io.count);
	} else if (++r->tries > TRIES_MAX) {
		log_err("WRITE: %s sends another write verifier with each COMMIT, as if it had "
			"restarted each time, or no reply: EIO after %u tries", r->fl->lane->client->cfg.server,
			r->tries);
		write_end(r, -EIO);
	} else {
		fs_write_through(r);
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

void fs_write_through(struct fs_req *r)
{
	r->call.args.io.unstable = false;
	fs_req_start(r, NFS_OP_WRITE, write_done);
}

void fs_write_start(struct fs_req *r)
{
	if (fs_behind_takes(r))
		fs_behind_write(r);
	else
		fs_settle(r, r->ino, true, fs_write_through);
}

/* An append that would overwrite data. The kernel asks for the attributes when a program does,
 * or when the file is opened again. true: r has been answered. */
static bool is_stale(struct fs_req *r, uint64_t offset)
{
	if (r->fi.writepage || offset >= atomic_load(&r->file->end.end))
		return false;
	log_warn("an append at %" PRIu64 " was refused (ESTALE): the file on %s has been longer "
		 "since it was opened; open it again", offset, r->fl->fs->cl->cfg.server);
	fs_forget_attr(r);
	if (is_direct(&r->fi))
		atomic_store(&r->file->refused, offset + 1);
	fs_reply_err(r, ESTALE);
	fs_req_free(r);
	return true;
}

bool fs_is_roll_back(struct file *f, uint64_t size)
{
	uint64_t refused = size + 1;

	return atomic_compare_exchange_strong(&f->refused, &refused, 0);
}

/* ---- fsync, close ---- */

static void report(struct fs_req *r, bool seen)
{
	int err = r->req ? fs_behind_error(r->file, seen) : 0;  /* nobody would hear of it */

	if (err)
		fs_forget_attr(r);
	fs_reply_err(r, err);
	fs_req_free(r);
}

/* The server clears set-id bits when a file is written, and the kernel forgets only the size and
 * the times then: execve() would still use the bits. It is refused while the file is open. */
static void flushed(struct fs_req *r)
{
	if (r->file->set_id && r->req)
		fs_forget_attr(r);
	/* With the write-back cache the kernel forgets the number of blocks with each close(), and
	 * asks with the next stat(). See young.h. */
	if (r->ino->solo)
		atomic_store(&r->ino->atime_old, true);
	report(r, false);
}

static void synced(struct fs_req *r)
{
	report(r, true);
}

static void flush(fuse_req_t req, const struct fuse_file_info *fi, void (*done)(struct fs_req *r))
{
	struct fs_req *r = fs_req_file(req, fi);

	if (r)
		fs_settle(r, r->ino, true, done);
}

void fs_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	flush(req, fi, flushed);
}

void fs_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)ino;
	(void)datasync;
	flush(req, fi, synced);
}

/* ---- a new write ---- */

void fs_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *bufv, off_t off,
		  struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_file(req, fi);
	size_t size = bufv->buf[0].size;

	(void)ino;
	if (!r)
		return;
	r->fi = *fi;
	if (fi->writepage && atomic_load(&r->fl->fs->ends))
		atomic_fetch_add(&r->fl->fs->page_writes, 1);
	r->size = size;
	r->call.open = r->file->open;
	r->call.args.io.offset = (uint64_t)off;
	if (!goes_past(r))
		inode_paged(r->ino);
	if (size == 0) {
		fuse_reply_write(req, 0);
		r->req = NULL;
		fs_req_free(r);
		return;
	}
	if ((fi->flags & O_APPEND) && is_stale(r, (uint64_t)off))
		return;
	atomic_fetch_add(&r->ino->writing, 1);
	if (r->fl->dev->ops->take(r->fl->dev, r, bufv->buf[0].mem, size))
		fs_write_start(r);
}
