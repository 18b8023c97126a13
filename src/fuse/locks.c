/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fcntl() and flock(), where the server has the locks (vfs/locks.h).
 *
 * Who owns a lock: FUSE sends a number. For POSIX locks it stands for the process, and FLUSH has it
 * too: at each close() of that process. Of open file descriptions, and with flock(), it stands for the
 * open file, and no unlock comes at its last close: RELEASE means that.
 *
 * Signals: a program that waits for a lock is told of any signal at once (EINTR), as with a local
 * file. FUSE_INTERRUPT may come on another lane, which tells the one that has the request. If LOCK was
 * on its way it is given back (vfs/locks.h).
 *
 * The kernel's attributes and pages go with each lock, as with Linux's client. What LOCK brings cannot
 * tell whether they are good: the server's times may be the same after another one's write as before it
 * (many file systems' clocks go by 4 ms), and newer attributes that this mount has heard of may be on
 * their way to the kernel only, in the answer to another program's LOOKUP.
 * Before the answer the kernel forgets the attributes, and drops all pages (dropper.h). It is not left to
 * the next read(), which sees another mtime: that sets the attributes first, and drops the pages then, and
 * one of another process that comes in between finds good attributes, and old pages. Mappings show what
 * has changed; what was written to one is sent by msync() before the unlock. (A lock that this mount has granted
 * itself, and not the first one under its delegation, needs nothing of that: what the kernel has is what the
 * file is.)
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include "fuse/fs_impl.h"

/* ---- signals ---- */

/* Any lane's thread. */
static void on_lock_interrupt(fuse_req_t req, void *arg)
{
	struct fs_lane *fl = arg;

	if (!atomic_exchange(&fl->signalled, true))
		loop_post(fl->vl.lane->loop, &fl->signal_msg);
}

static struct fs_req *locks_signalled(struct fs_lane *fl)
{
	list_for_each_entry(struct fs_req, r, &fl->vl.active, op.node)
		if (r->gives_up == FS_GIVES_UP_SIGNALLED && r->req && fuse_req_interrupted(r->req))
			return r;
	return NULL;
}

void fs_locks_on_signal(struct loop_msg *m)
{
	struct fs_lane *fl = container_of(m, struct fs_lane, signal_msg);
	struct fs_req *r;

	atomic_store(&fl->signalled, false);
	while (fl->vl.lane->front && (r = locks_signalled(fl)))
		fs_give_up(r);
}

/* ---- locks ---- */

static void lock_answer(struct fs_req *r)
{
	vfs_lock_known(&r->op);
	fs_end_status(&r->op);
}

static void lock_end(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	struct believed *b = believed_of(op->ino);

	if (op->call.res.status || op->lock.type == NFS_RANGE_NONE || !r->req || op->lock.unchanged) {
		fs_end_status(op);
		return;
	}
	atomic_fetch_add(&b->differing, !b->solo);
	vfs_lock_told(op);
	believed_lock_end(&op->vl->vfs->inodes, op->ino, op->call.res.has_attr ? &op->call.res.attr : NULL);
	if (b->solo) {
		lock_answer(r);
		return;
	}
	believed_locked(op->ino);
	r->gives_up = FS_GIVES_UP_KILLED;       /* it has the lock */
	fs_forget_then(r, true, lock_answer);
}

static enum nfs_range_set lock_type(int type)
{
	return type == F_WRLCK ? NFS_RANGE_WRITE : type == F_RDLCK ? NFS_RANGE_READ : NFS_RANGE_NONE;
}

static struct fs_req *lock_new(fuse_req_t req, const struct fuse_file_info *fi, const struct flock *lk)
{
	struct fs_req *r = fs_req_file(req, fi);
	struct op_lock *k;

	if (!r)
		return NULL;
	believed_goes_on(r->op.ino, fuse_req_ctx(req)->pid);
	op_lock_begins(&r->op);
	k = &r->op.lock;
	k->key = fi->lock_owner;
	k->type = lock_type(lk->l_type);
	k->start = (uint64_t)lk->l_start;
	k->last = nfs_range_last(k->start, (uint64_t)lk->l_len);
	k->pid = lk->l_pid;
	r->op.end = lock_end;
	return r;
}

static void lock_set(fuse_req_t req, const struct fuse_file_info *fi, const struct flock *lk, bool waits)
{
	struct fs_req *r = lock_new(req, fi, lk);

	if (!r)
		return;
	r->op.lock.waits = waits;
	r->gives_up = waits ? FS_GIVES_UP_SIGNALLED : FS_GIVES_UP_KILLED;
	if (waits)
		fuse_req_interrupt_func(req, on_lock_interrupt, fs_lane_of(r->op.vl));
	vfs_setlk(&r->op);
}

void fs_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lk, int sleep)
{
	lock_set(req, fi, lk, sleep);
}

void fs_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
	struct flock lk = {
		.l_type = op & LOCK_EX ? F_WRLCK : op & LOCK_SH ? F_RDLCK : F_UNLCK,
		.l_pid = fuse_req_ctx(req)->pid,
	};

	lock_set(req, fi, &lk, !(op & LOCK_NB) && lk.l_type != F_UNLCK);
}

static void lock_tested(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);
	const struct op_lock *k = &op->lock;
	struct flock lk = {
		.l_type = k->type == NFS_RANGE_WRITE ? F_WRLCK : k->type == NFS_RANGE_READ ? F_RDLCK : F_UNLCK,
		.l_whence = SEEK_SET, .l_pid = k->pid,
	};

	if (op->call.res.status || !r->req) {
		fs_end_status(op);
		return;
	}
	/* 0: to the end. The server may say what no off_t can. */
	lk.l_start = k->start > INT64_MAX ? INT64_MAX : (off_t)k->start;
	if (k->last < INT64_MAX)
		lk.l_len = (off_t)(k->last - k->start + 1);
	fuse_reply_lock(r->req, &lk);
	fs_replied(r);
	fs_req_free(r);
}

void fs_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lk)
{
	struct fs_req *r = lock_new(req, fi, lk);

	if (!r)
		return;
	r->op.end = lock_tested;
	vfs_getlk(&r->op);
}
