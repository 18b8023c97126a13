/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File data: read, write, flush, fsync. What becomes of it is in src/vfs (read.c, write.c,
 * behind.h, ahead.h); what the kernel is to believe after it, believed.h and readback.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include "fuse/fs_impl.h"
#include "fuse/readback.h"

/* The kernel truncates as soon as it has the last answer; but the request may wait for lanes that are busy. */
#define ROLL_BACK_NS 60000000000ull
/* The requests of one write() lie in the queue together, and a lane may have no buffer for the next one yet. */
#define TOGETHER_NS 1000000000ull

/* ---- read ---- */

/* Does this read bypass the page cache? In a direct read the kernel sends the lock owner.
 * When it fills pages for a mapping it does not, even if the file has O_DIRECT. */
static bool reads_direct(const struct fuse_file_info *fi)
{
	return (fi->flags & O_DIRECT) && fi->lock_owner;
}

static void reply_data(struct fs_req *r)
{
	const struct op_data *d = &r->op.data;

	if (d->niov == 1)
		fuse_reply_buf(r->req, d->iov[0].iov_base, d->iov[0].iov_len);
	else
		fuse_reply_iov(r->req, d->iov, (int)d->niov);
	fs_replied(r);
}

static void read_end(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	struct op_data *d = &op->data;
	size_t len = 0;

	if (op->call.res.status || !r->req) {
		fs_end_status(op);
		return;
	}
	for (unsigned i = 0; i < d->niov; i++)
		len += d->iov[i].iov_len;
	if (len < d->size && d->since_ns)
		believed_read_short(&op->vl->vfs->inodes, op->ino, d->start + len, d->since_ns);
	reply_data(r);
	fs_req_free(r);
}

void fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_file(req, fi);

	if (!r)
		return;
	if (size > VFS_IO_MAX) {        /* not from a kernel that obeys max_read */
		fs_end_err(r, EINVAL);
		return;
	}
	op_data_begins(&r->op);
	r->op.end = read_end;
	r->op.data.size = size;
	r->op.data.start = (uint64_t)off;
	r->op.data.cached = !reads_direct(fi);
	if (r->op.data.cached) {
		believed_paged(r->op.ino);
		readback_read(r->op.ino, fuse_req_ctx(req)->pid);
		believed_goes_on(r->op.ino, fuse_req_ctx(req)->pid);
	} else {
		r->gives_up = FS_GIVES_UP_UNTOLD;
	}
	vfs_read(&r->op);
}

/* ---- write ---- */

/* Does this write bypass the page cache? The kernel's own write-back never does. */
static bool is_direct(const struct fuse_file_info *fi)
{
	return (fi->flags & O_DIRECT) && !fi->writepage;
}

static bool goes_past(const struct fs_req *r)
{
	return is_direct(&r->fi) || (fs_file_of(r->op.file)->past && !r->fi.writepage);
}

/*
 * r, a write, is about to be answered. If it has gone past the kernel's pages, these may have the
 * old bytes (believed.h). A READ that has brought them has said so before (believed_paged), or finds what
 * is held by now. The kernel asks for the attributes before the next read(), and drops the pages
 * when the mtime is another one. For the writes of an open that only writes it does that by
 * itself. For O_DIRECT it may have no reason to, and is told to forget the attributes, before the
 * answer: so a program reads what it has written. To drop the pages here would wait for pages that
 * are being read, and this very thread may have to bring them.
 */
static void past_the_pages(struct fs_req *r)
{
	const struct believed *b = believed_of(r->op.ino);
	bool direct = is_direct(&r->fi) || r->moved;

	if (!(goes_past(r) || r->moved) || b->solo || (!direct && !atomic_load(&b->paged)))
		return;
	if (believed_written_past(r->op.ino) && direct && r->req)
		fs_forget_attr(r);
}

/* What the kernel believes of the file now. */
static void believe_written(struct fs_req *r, int status)
{
	struct inode *ino = r->op.ino;
	uint64_t end = r->op.data.start + r->op.data.filled;

	if (r->op.data.filled)
		believed_reaches(ino, end);
	if (r->op.data.filled && r->req) {
		believed_wrote(ino, end);
		if (!is_direct(&r->fi) && !r->fi.writepage)
			believed_forgets(ino);
		readback_wrote(ino, end, fuse_req_ctx(r->req)->pid);
	} else if (r->op.data.filled) {
		believed_unheard(ino);
	}
	if (r->op.data.filled && r->moved)
		believed_unheard(ino);
	atomic_fetch_sub(&believed_of(ino)->writing, 1);
	if (status)
		readback_spoil(ino);       /* the server may have executed it */
	if (status && believed_of(ino)->solo)
		believed_written_past(ino);
	if (r->op.data.filled)
		past_the_pages(r);
}

static void write_end(struct vfs_op *op);

/* ---- the kernel's truncations: struct roll_back ---- */

static bool may_roll_back_locked(const struct roll_back *back, pid_t pid)
{
	return back->failed && back->failed_pid == pid && mono_ns() - back->ns < ROLL_BACK_NS;
}

/* Does a request of [start, end) belong to the write() that has sent those before? Or to one behind that, which is no
 * harm: the kernel's size is the older one then, and more are taken for longer. */
static bool direct_goes_on_locked(const struct roll_back *back, pid_t pid, uint64_t start, uint64_t end)
{
	return back->under_way || may_roll_back_locked(back, pid) ||
	       (back->pid == pid && start <= back->end && end >= back->begin && mono_ns() - back->ns < TOGETHER_NS);
}

static void direct_reaches_locked(struct roll_back *back, pid_t pid, uint64_t told, uint64_t start, uint64_t end)
{
	if (!direct_goes_on_locked(back, pid, start, end)) {
		back->size = told;
		back->begin = start;
		back->end = end;
		back->failed = false;
	}
	if (back->size > told && back->size != NOBODY_KNOWS)
		back->size = told;
	if (back->begin > start)
		back->begin = start;
	if (back->end < end)
		back->end = end;
	back->pid = pid;
}

static void direct_begins(struct fs_req *r)
{
	struct roll_back *back = &fs_file_of(r->op.file)->back;

	if (!is_direct(&r->fi))
		return;
	pthread_mutex_lock(&back->mu);
	direct_reaches_locked(back, fuse_req_ctx(r->req)->pid, atomic_load(&believed_of(r->op.ino)->told_size),
			      r->op.data.start, r->op.data.start + r->op.data.size);
	back->under_way++;
	pthread_mutex_unlock(&back->mu);
}

static void direct_ends(struct fs_req *r)
{
	struct roll_back *back = &fs_file_of(r->op.file)->back;

	if (!is_direct(&r->fi))
		return;
	pthread_mutex_lock(&back->mu);
	back->under_way--;
	back->ns = mono_ns();
	pthread_mutex_unlock(&back->mu);
}

static void direct_failed_locked(struct roll_back *back, pid_t pid)
{
	back->failed = true;
	back->failed_pid = pid;
	back->ns = mono_ns();
}

void fs_write_fails(struct fs_req *r)
{
	struct roll_back *back;

	if (r->op.end != write_end || !is_direct(&r->fi) || believed_of(r->op.ino)->solo)
		return;
	back = &fs_file_of(r->op.file)->back;
	pthread_mutex_lock(&back->mu);
	direct_failed_locked(back, fuse_req_ctx(r->req)->pid);
	pthread_mutex_unlock(&back->mu);
}

bool fs_is_roll_back(struct fs_file *f, pid_t pid)
{
	struct roll_back *back = &f->back;
	bool is;

	pthread_mutex_lock(&back->mu);
	is = may_roll_back_locked(back, pid) && (back->size == NOBODY_KNOWS || back->end > back->size);
	back->failed &= back->failed_pid != pid;
	if (back->pid == pid)
		back->pid = -1;         /* its write() is over */
	pthread_mutex_unlock(&back->mu);
	return is;
}

/* ---- write() ends ---- */

/* If an error comes after a part was written, write() returns that part, and the next
 * write() the error. The kernel's write-back of mapped pages has no next one, and takes
 * any answer but an error for a complete write. Of a direct write it makes EIO of a part, and rolls it back. */
static bool part_counts(const struct fs_req *r)
{
	return !r->fi.writepage && (!is_direct(&r->fi) || believed_of(r->op.ino)->solo);
}

static void write_end(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	int status = op->call.res.status;

	believe_written(r, status);
	direct_ends(r);
	if (r->req && op->data.late_error)
		fs_forget_attr(r);
	if (r->req && (status == 0 || (op->data.filled && part_counts(r)))) {
		fuse_reply_write(r->req, op->data.filled);
		fs_replied(r);
	} else if (op->data.filled) {
		believed_unheard(op->ino);  /* the kernel does not hear how far it came */
	}
	if (status && r->fi.writepage)
		behind_say_dropped(op, op->data.start + op->data.filled, op->data.size - op->data.filled, status);
	if (status && r->req)
		fs_write_fails(r);
	fs_end_err(r, status);
}

static void data_refused(struct fs_req *r)
{
	fs_end_err(r, ESTALE);
}

/* Its first request began where the file ends for the kernel. */
static void direct_refused(struct fs_req *r, uint64_t start, size_t size)
{
	struct roll_back *back = &fs_file_of(r->op.file)->back;
	pid_t pid = fuse_req_ctx(r->req)->pid;

	pthread_mutex_lock(&back->mu);
	direct_reaches_locked(back, pid, 0, start, start + size);
	direct_failed_locked(back, pid);
	pthread_mutex_unlock(&back->mu);
}

/* The kernel asks for the attributes when a program does, or when the file is opened again. */
static void append_refused(struct fs_req *r, uint64_t offset, size_t size)
{
	log_warn("an append at %" PRIu64 " was refused (ESTALE): the file on %s was longer than that "
		 "when it was opened or locked; open it again", offset, fs_of_req(r)->vfs.cl->cfg.server);
	if (is_direct(&r->fi))
		direct_refused(r, offset, size);
	atomic_fetch_add(&believed_of(r->op.ino)->differing, 1);
	fs_forget_then(r, false, data_refused);
}

/*
 * An append goes where it has to (believed.h). false: it would overwrite data, and r has been answered, or
 * is soon. Of a direct one the kernel sends several requests together, and nobody knows which of them is
 * the first: so it is not moved.
 */
static bool append_begins(struct fs_req *r, uint64_t *off, size_t size)
{
	uint64_t end = atomic_load(&fs_file_of(r->op.file)->end.end), to = believed_append(r->op.ino, *off);

	if (r->fi.writepage)
		return true;
	if (!is_direct(&r->fi)) {
		r->moved = to != *off;
		*off = to;
	} else if (end < to) {
		end = to;
	}
	if (*off >= end)
		return true;
	append_refused(r, *off, size);
	return false;
}

/* O_SYNC contains O_DSYNC. Dirty pages of a mapping are written when fsync() says so. */
static bool may_be_held(const struct fuse_file_info *fi)
{
	return fi->writepage || !(fi->flags & (O_DSYNC | O_DIRECT));
}

void fs_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *bufv, off_t off,
		  struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_file(req, fi);
	size_t size = bufv->buf[0].size;
	uint64_t at = (uint64_t)off;

	if (!r)
		return;
	r->fi = *fi;
	if (fi->writepage)
		fs_write_back_count(fs_of_req(r));
	if (!goes_past(r))
		believed_paged(r->op.ino);
	if (size == 0) {
		fuse_reply_write(req, 0);
		fs_req_free(r);
		return;
	}
	if ((fi->flags & O_APPEND) && !append_begins(r, &at, size))
		return;
	op_data_begins(&r->op);
	r->op.end = write_end;
	r->op.data.size = size;
	r->op.data.start = r->op.call.args.io.offset = at;
	r->op.data.quick = may_be_held(fi);
	r->op.data.writeback = fi->writepage;
	if (!r->op.data.quick && is_direct(fi))
		r->gives_up = FS_GIVES_UP_UNTOLD;
	atomic_fetch_add(&believed_of(r->op.ino)->writing, 1);
	direct_begins(r);
	if (fs_this_lane()->dev->ops->take(fs_this_lane()->dev, r, bufv->buf[0].mem))
		vfs_write(&r->op);
}

/* ---- fsync, close ---- */

static void data_report(struct fs_req *r, bool seen)
{
	int err = r->req ? behind_error(r->op.file, seen) : 0;  /* nobody would hear of it */

	if (err)
		fs_forget_attr(r);
	fs_end_err(r, err);
}

static void data_unlocked(struct vfs_op *op)
{
	data_report(fs_req_of(op), false);
}

/* Whoever closes loses his POSIX locks of the file. */
static void data_unlock(struct fs_req *r, void (*end)(struct vfs_op *op))
{
	r->op.end = end;
	r->op.call.res.status = 0;
	if (!vfs_unlock_owner(&r->op, r->fi.lock_owner))
		end(&r->op);
}

/* The server clears set-id bits when a file is written, and the kernel forgets only the size and
 * the times then: execve() would still use the bits. It is refused while the file is open. */
static void data_flushed(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	struct believed *b = believed_of(op->ino);

	if (fs_file_of(op->file)->set_id && r->req)
		fs_forget_attr(r);
	/* With the write-back cache the kernel forgets the number of blocks with each close(), and
	 * asks with the next stat(). See readback.h. */
	if (b->solo)
		atomic_store(&b->may_ask, true);
	data_unlock(r, data_unlocked);
}

static void data_synced(struct vfs_op *op)
{
	data_report(fs_req_of(op), true);
}

/* The server says so before anybody else reads the file or asks how long it is, and the answer to that is that
 * what was written is on stable storage, or how much it is (vfs/delegations.c, vfs/promised.h). So nobody sees whether
 * that was before close(). */
static bool data_may_follow(const struct fs_req *r)
{
	const struct fs *fs = fs_of_req(r);

	return fs->cfg.late_data && nfs_delegation_writes(nfs_delegated(&fs->vfs.cl->server, &r->op.ino->file));
}

void fs_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_file(req, fi);

	if (!r)
		return;
	r->gives_up = FS_GIVES_UP_UNTOLD;
	believed_goes_on(r->op.ino, fuse_req_ctx(req)->pid);
	r->fi.lock_owner = fi->lock_owner;
	if ((fs_file_of(r->op.file)->writes || believed_of(r->op.ino)->solo) && !data_may_follow(r))
		behind_settle(&r->op, r->op.ino, true, data_flushed);
	else if (fs_file_of(r->op.file)->writes)
		data_flushed(&r->op);
	else
		data_unlock(r, fs_end_status);
}

void fs_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_file(req, fi);

	if (r)
		behind_settle(&r->op, r->op.ino, true, data_synced);
}
