/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opening and closing files.
 *
 *   open     waits while a call is under way that removes a name of the file. Then it counts
 *            itself (opencount.h), and sends OPEN. The attributes in the reply are newer than
 *            those that the kernel believes: see is_sent_back(). And the name by which the
 *            kernel has found the file may be another file's by now:
 *
 *            kernel: open(conf), by what it has cached: node 7
 *            OPEN: (directory, conf), if that is node 7's file   -> NFS_EMOVED: ESTALE
 *            kernel: LOOKUP conf: node 9; open node 9
 *
 *            A truncation by name (truncate(2), O_TRUNC) goes the same way.
 *
 *            The kernel does not say by which name it has found the file. It may have been one of
 *            several, of which another one is another file's. These two names must not share a
 *            node any longer: open() with O_TRUNC is OPEN and then SETATTR, and nothing tells that
 *            SETATTR from a truncate(2) by the other name, which the kernel still has cached. So
 *            the inode is left, unless it is open or being changed:
 *
 *            others: mv b0 b2, and a new b0; here b0 and b2 are node 7
 *            kernel: open(b2, O_TRUNC)
 *            OPEN of 7: (directory, b2), (directory, b0)         -> NFS_EMOVED: 7 is left, ESTALE
 *            kernel: LOOKUP b2: node 8; OPEN and SETATTR of 8: (directory, b2)
 *            kernel: truncate(b0): SETATTR of 7                  -> ESTALE; LOOKUP b0: node 9
 *
 *            One that is open stays, as two of the kernel's inodes for one file would not see each
 *            other's pages and locks. Then the SETATTR after OPEN is let through by the newest
 *            name, whoever sends it (sentback.h).
 *   create   is in make.c. CREATE opens the file.
 *   A file that is opened to be written only: its write()s go past the kernel's page cache
 *            (FOPEN_DIRECT_IO) to write-behind. Nobody reads through this open, and the next
 *            open() of the file drops the pages anyway, because it has changed. Pages that others
 *            have read meanwhile are dropped as after any direct write (believed.h); but a mapping asks
 *            for no attributes, and keeps them:
 *
 *            write(): drops the page, sends WRITE     mapping: READ, the old bytes, for good
 *
 *            Linux drops them again when the write ends since 6.19, and in its stable series of
 *            6.6, 6.12 and 6.18 since January 2026; nothing tells us which of them this is.
 *            So not beside another open, which may have a mapping already: LMDB reads by one what
 *            it writes through an open of its own. And not with O_APPEND: that is a log, which
 *            others follow.
 *   release  drops FUSE's reference. The last reference may belong to a request that was
 *            interrupted. When it is dropped, CLOSE is sent, then REMOVE for a silly name.
 *
 * A request that opens runs on its lane. The open file (struct file) belongs to no lane.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include "fuse/fs_impl.h"
#include "ring/rings.h"

/* The kernel's own flag of an open by execve(); open(2) cannot set it. */
#define FMODE_EXEC 0x20

/* ---- open files ---- */

/* close() sends what was written, waits for that and reports errors, its own and those of the
 * kernel's write-back of mapped pages. */
static bool may_write(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY;
}

static bool goes_past(const struct fs *fs, int flags)
{
	return fs->writes_past && (flags & (O_ACCMODE | O_APPEND | O_DIRECT)) == O_WRONLY;
}

/* A mapping that is written to needs an open that reads as well. */
static bool may_dirty(const struct fs *fs, int flags)
{
	return (flags & O_ACCMODE) == O_RDWR || (fs->cfg.vfs.solo && may_write(flags));
}

void fs_file_begins_locked(struct vfs_op *op, struct file *file, bool only)
{
	struct fs_req *r = fs_req_of(op);
	struct fs_file *f = fs_file_of(file);
	const struct nfs_attr *attr = &op->call.res.attr;

	r->fi.keep_cache = believed_open_locked(&op->vl->vfs->inodes, file->ino, &f->end, attr,
						op->call.op == NFS_OP_OPEN ? op->asked_ns : 0, only);
	atomic_init(&f->drops, !r->fi.keep_cache);
	readback_asked(file->ino, fuse_req_ctx(r->req)->pid);
	f->past = only && goes_past(fs_of_req(r), r->fi.flags);
	r->fi.direct_io |= f->past;
	f->set_id = attr->mode & (S_ISUID | S_ISGID);
	atomic_fetch_add(&believed_of(file->ino)->dirtiers, f->dirties);
}

struct fs_file *fs_file_new(struct fs_req *r, struct inode *ino)
{
	struct fs *fs = fs_of_req(r);
	struct fs_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	/* handles_each() may find it at once. */
	f->f.ino = ino;
	pthread_mutex_init(&f->back.mu, NULL);  /* it has nothing to give back: file_unlocked() frees f */
	f->dirties = may_dirty(fs, r->fi.flags);
	f->writes = may_write(r->fi.flags);
	f->appends = r->fi.flags & O_APPEND;
	f->access = r->fi.flags & O_ACCMODE;
	f->handle = handle_new(&fs->files, f);
	if (!f->handle) {
		free(f);
		return NULL;
	}
	r->fi.fh = f->handle;
	/* A process loses its POSIX locks by closing any open of the file. */
	r->fi.noflush = !f->writes && !fs->cfg.posix_locks;
	file_begins(&f->f, &r->op, ino);        /* from here on fs_file_get() may find it */
	return f;
}

/* ---- a name that is another file's by now ---- */

static void note_back(struct fs_req *r)
{
	bool truncates = r->op.call.op == NFS_OP_SETATTR && !r->op.call.args.sattr.size;

	if (r->req && !r->back)
		r->back = sentback_came(&fs_of_req(r)->back, r->op.ino, fuse_req_ctx(r->req)->pid, truncates);
}

bool fs_opens_named(const struct fs *fs)
{
	return fs->cfg.lookupcache != FS_LOOKUPCACHE_NONE && fs->vfs.inodes.acdirmax;
}

bool fs_moved(struct fs_req *r)
{
	bool several = r->op.call.args.nwhere > 1;

	note_back(r);
	if (r->op.call.res.status != -NFS_EMOVED)
		return false;
	if (!r->req || (r->back != BY_HANDLE && (!r->back || !several))) {
		if (r->op.call.op == NFS_OP_OPEN && several && !believed_of(r->op.ino)->solo)
			opencount_leave(&fs_of_req(r)->vfs.inodes, r->op.ino);
		fs_end_err(r, ESTALE);
		return true;
	}
	/* By the newest name alone, which the kernel has just looked up; then without a name, if
	 * the kernel opens without one. */
	if (r->op.call.op == NFS_OP_OPEN)
		sentback_note_unnamed(&fs_of_req(r)->back, r->op.ino, fuse_req_ctx(r->req)->pid, several);
	vfs_by_fewer_names(&r->op);
	return true;
}

/*
 * Close-to-open: OPEN brings newer attributes than the kernel has, but the answer has no
 * place for them. So the kernel is told to forget its attributes, and asks before it uses
 * the size or the times again. For an append it does not ask. So if the size is another one,
 * an open that may append, now or after fcntl(), is answered with ESTALE, and the kernel
 * looks the name up again. The second time the open is let through: somebody is writing
 * right now, or the file is opened without a name. open_end.end guards its appends.
 *
 * A file without any name, which nobody here has open, is not what a name means.
 */
static bool is_wrong(const struct fs_req *r)
{
	const struct nfs_attr *attr = &r->op.call.res.attr;

	if (!attr->nlink && !atomic_load(&r->op.ino->nfiles) && !r->back)
		return true;
	return may_write(r->fi.flags) && !r->back && believed_appends_elsewhere(r->op.ino, attr);
}

static void open_sent_back(struct fs_req *r)
{
	fs_end_err(r, ESTALE);
}

/* true: r has been answered, or is soon. */
static bool is_sent_back(struct fs_req *r)
{
	if (believed_of(r->op.ino)->solo)
		return fs_solo_sent_back(r);
	if (!is_wrong(r))
		return false;
	file_undo(r->op.vl, r->op.ino, r->op.call.open, &r->op.cred);
	atomic_fetch_add(&believed_of(r->op.ino)->differing, 1);
	fs_forget_then(r, false, open_sent_back);
	return true;
}

static void open_answer(struct fs_req *r)
{
	struct fs_file *f = r->opened;

	if (f && (!r->req || fuse_reply_open(r->req, &r->fi)))
		file_put(r->op.vl, &f->f);
	fs_req_free(r);
}

/* Makes the open file for OPEN's reply. */
static void open_ends(struct fs_req *r)
{
	struct believed *b = believed_of(r->op.ino);
	bool differs = !b->solo && believed_differs(&fs_of_req(r)->vfs.inodes, r->op.ino, &r->op.call.res.attr);

	atomic_fetch_add(&b->differing, differs);
	r->opened = r->req ? fs_file_new(r, r->op.ino) : NULL;
	if (!r->opened) {
		file_undo(r->op.vl, r->op.ino, r->op.call.open, &r->op.cred);
		fs_reply_err(r, ENOMEM);
	}
	/* After the attributes were kept (readback.h): the kernel may be told those. */
	if (differs && r->req) {
		atomic_store(&b->may_ask, true);
		fs_forget_then(r, false, open_answer);
	} else {
		atomic_fetch_sub(&b->differing, differs);
		open_answer(r);
	}
}

static void open_done(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);

	if (fs_moved(r))
		return;
	if (fs_solo_writes_only(r)) {
		vfs_start(op, NFS_OP_OPEN, open_done);
		return;
	}
	if (op->call.res.status) {
		fs_end_status(op);
		return;
	}
	if (!r->req || !is_sent_back(r))
		open_ends(r);
}

void fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r)
		return;
	believed_goes_on(r->op.ino, fuse_req_ctx(req)->pid);
	r->fi = *fi;
	r->op.end = open_done;
	fs_solo_widen(r, fi->flags);
	r->op.call.args.file.exec = fi->flags & FMODE_EXEC;
	vfs_open(&r->op, fs_opens_named(fs_of_req(r)));
}

void fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_file *f = handle_del(&fs_of(req)->files, fi->fh);

	if (f && atomic_load(&f->ringed))
		rings_closed(fs_of(req)->rings, &f->f);
	if (f)
		file_put(vfs_this_lane, &f->f);
	fuse_reply_err(req, f ? 0 : EBADF);
}
