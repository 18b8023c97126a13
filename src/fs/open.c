/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opening and closing files.
 *
 *   open     waits while a call is under way that removes a name of the file. Then it counts
 *            itself (opens.h), and sends OPEN. The attributes in the reply are newer than
 *            those that the kernel believes: see is_sent_back(). And the name by which the
 *            kernel has found the file may be another file's by now:
 *
 *            kernel: open(conf), by what it has cached: node 7
 *            OPEN: (directory, conf), if that is node 7's file   -> NFS_EMOVED: ESTALE
 *            kernel: LOOKUP conf: node 9; open node 9
 *
 *            A truncation by name (truncate(2), O_TRUNC) goes the same way.
 *   create   is in make.c. CREATE opens the file.
 *   A file that is opened to be written only: its write()s go past the kernel's page cache
 *            (FOPEN_DIRECT_IO) to write-behind. Nobody reads through this open, and the next
 *            open() of the file drops the pages anyway, because it has changed. Pages that others
 *            have read meanwhile are dropped as after any direct write (told.h); but a mapping asks
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
#include <string.h>
#include "fs/fs_impl.h"

/* The kernel's own flag of an open by execve(); open(2) cannot set it. */
#define FMODE_EXEC 0x20

/* ---- open files ---- */

/* close() sends what was written, waits for that and reports errors, its own and those of the
 * kernel's write-back of mapped pages. */
static bool may_write(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY;
}

/* This open of ino counts already. */
static bool goes_past(const struct fs *fs, const struct inode *ino, const struct fuse_file_info *fi)
{
	return fs->writes_past && (fi->flags & (O_ACCMODE | O_APPEND | O_DIRECT)) == O_WRONLY &&
	       atomic_load(&ino->nfiles) == 1;
}

/* A mapping that is written to needs an open that reads as well. */
static bool may_dirty(const struct fs *fs, int flags)
{
	return (flags & O_ACCMODE) == O_RDWR || (fs->cfg.solo && may_write(flags));
}

struct file *fs_file_new(struct fs_req *r, struct inode *ino, struct fuse_file_info *fi)
{
	struct file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	/* handles_each() may find it at once. */
	f->ino = ino;
	f->dirties = may_dirty(r->fl->fs, fi->flags);
	f->handle = handle_new(&r->fl->fs->files, f);
	if (!f->handle) {
		free(f);
		return NULL;
	}
	inode_ref(ino);
	f->open = r->call.open;
	f->cred = r->cred;
	ahead_open(f);
	fi->fh = f->handle;
	fi->keep_cache = inode_open(&r->fl->fs->inodes, ino, &r->call.res.attr,
				    r->call.op == NFS_OP_OPEN ? r->asked_ns : 0);
	atomic_init(&f->drops, !fi->keep_cache);
	young_asked(ino, fuse_req_ctx(r->req)->pid);
	inode_end_begins(&r->fl->fs->inodes, ino, &f->end, &r->call.res.attr);
	f->past = goes_past(r->fl->fs, ino, fi);
	fi->direct_io |= f->past;
	f->set_id = r->call.res.attr.mode & (S_ISUID | S_ISGID);
	fi->noflush = !may_write(fi->flags);
	fs_behind_opened(f);
	atomic_store(&f->refs, 1);      /* from here on fs_file_get() may find it */
	return f;
}

static bool ref_live(void *obj)
{
	struct file *f = obj;
	unsigned have = atomic_load(&f->refs);

	while (have)
		if (atomic_compare_exchange_weak(&f->refs, &have, have + 1))
			return true;
	return false;
}

/* The first request through f. Not in line, or it makes each request dearer. */
static void __attribute__((noinline)) has_dropped(struct fs *fs, struct file *f)
{
	if (atomic_exchange(&f->drops, false))
		inode_dropped(&fs->inodes, f->ino, f->end.change);
}

struct file *fs_file_get(struct fs *fs, const struct fuse_file_info *fi)
{
	struct file *f = handle_get(&fs->files, fi->fh, ref_live);

	if (f && atomic_load_explicit(&f->drops, memory_order_relaxed))
		has_dropped(fs, f);
	return f;
}

static void close_done(struct fs_req *r)
{
	if (r->call.res.status && r->call.res.status != -ESTALE)
		log_debug("CLOSE: %s", strerror(-r->call.res.status));
	if (r->silly)
		fs_remove_silly(r->fl, r->silly);
	r->silly = NULL;
	fs_req_free(r);
}

static void close_open(struct fs_lane *fl, struct inode *ino, struct nfs_open *open,
		       const struct rpc_cred *cred, struct silly *silly)
{
	struct fs_req *r = fs_req_new_quiet(fl, ino, cred);

	if (!r) {
		log_err("a file could not be closed on the server: out of memory");
		if (silly)
			fs_remove_silly(fl, silly);
		return;
	}
	r->silly = silly;
	r->call.open = open;
	/* Opens of the file wait until its silly name is removed. */
	if (silly)
		r->call.flags |= NFS_CALL_NOW;
	fs_req_start(r, NFS_OP_CLOSE, close_done);
}

void fs_open_undo(struct fs_lane *fl, struct inode *ino, struct nfs_open *open,
		  const struct rpc_cred *cred)
{
	close_open(fl, ino, open, cred, NULL);
}

void fs_file_put(struct fs_lane *fl, struct file *f)
{
	struct inode_table *t = &fl->fs->inodes;
	struct silly *silly;

	if (atomic_fetch_sub(&f->refs, 1) > 1)
		return;
	handle_del(&fl->fs->files, f->handle);  /* if the kernel has not got it */
	ahead_close(fl, f);
	inode_end_ends(t, f->ino, &f->end);
	atomic_fetch_sub(&f->ino->nfiles, 1);
	silly = inode_close(t, f->ino);
	if (!silly)
		fs_solo_release(fl, f);
	close_open(fl, f->ino, f->open, &f->cred, silly);
	inode_put(t, f->ino, 1);
	free(f);
}

/* ---- open ---- */

/* r is going to open r->ino. The file counts as open from now on, or a call that removes a
 * name of it might take it for closed. false: such a call is under way. */
static bool opening(struct fs_req *r)
{
	r->opening = inode_opening(&r->fl->fs->inodes, r->ino);
	return r->opening;
}

void fs_opening_ends(struct fs_req *r)
{
	struct silly *s;

	if (!r->opening)
		return;
	s = inode_close(&r->fl->fs->inodes, r->ino);
	if (s)
		fs_remove_silly(r->fl, s);
}

/* ---- a name that is another file's by now ---- */

static void note_back(struct fs_req *r)
{
	if (r->req && !r->back)
		r->back = inode_came_back(&r->fl->fs->inodes, r->ino, fuse_req_ctx(r->req)->pid,
					  r->call.op == NFS_OP_SETATTR);
}

void fs_start_named(struct fs_req *r, enum nfs_op op, void (*done)(struct fs_req *r))
{
	struct fs *fs = r->fl->fs;
	struct nfs_args *a = &r->call.args;

	/* Where the kernel keeps no names, it has just looked. */
	r->named = fs->cfg.lookupcache != FS_LOOKUPCACHE_NONE && fs->inodes.acdirmax;
	if (r->named) {
		inode_names(&fs->inodes, r->ino, &r->names);
		a->nwhere = r->names.n;
	}
	for (unsigned i = 0; i < a->nwhere; i++)
		a->where[i] = (struct nfs_where){ &r->names.dir[i]->fh, r->names.name[i] };
	fs_req_start(r, op, done);
}

/* By the newest name alone, which the kernel has just looked up; then without a name, if the kernel
 * opens without one. */
static void start_unnamed(struct fs_req *r, void (*done)(struct fs_req *r))
{
	bool newest = r->call.args.nwhere > 1;

	r->call.args.nwhere = newest;
	if (r->call.op == NFS_OP_OPEN)
		inode_opened_unnamed(&r->fl->fs->inodes, r->ino, fuse_req_ctx(r->req)->pid, newest);
	fs_req_start(r, r->call.op, done);
}

bool fs_moved(struct fs_req *r, void (*done)(struct fs_req *r))
{
	note_back(r);
	if (r->call.res.status != -NFS_EMOVED)
		return false;
	if (r->req && (r->back == BY_HANDLE || (r->back && r->call.args.nwhere > 1))) {
		start_unnamed(r, done);
	} else {
		fs_reply_err(r, ESTALE);
		fs_req_free(r);
	}
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
	const struct nfs_attr *attr = &r->call.res.attr;

	if (!attr->nlink && !atomic_load(&r->ino->nfiles) && !r->back)
		return true;
	return may_write(r->fi.flags) && !r->back && inode_appends_elsewhere(r->ino, attr);
}

/* true: r has been answered. */
static bool is_sent_back(struct fs_req *r)
{
	if (r->ino->solo)
		return fs_solo_sent_back(r);
	if (!is_wrong(r))
		return false;
	fs_forget_attr(r);
	fs_open_undo(r->fl, r->ino, r->call.open, &r->cred);
	fs_reply_err(r, ESTALE);
	fs_req_free(r);
	return true;
}

/* The open file for OPEN's reply; NULL: no memory. */
static struct file *opened(struct fs_req *r)
{
	bool differs = !r->ino->solo && inode_differs(&r->fl->fs->inodes, r->ino, &r->call.res.attr);
	struct file *f;

	/* Until the kernel is told, other opens find no difference any more but this. */
	atomic_fetch_add(&r->ino->differing, differs);
	f = fs_file_new(r, r->ino, &r->fi);
	/* After the attributes were kept (young.h): the kernel may be told those. */
	if (differs)
		fs_forget_attr(r);
	atomic_fetch_sub(&r->ino->differing, differs);
	return f;
}

static void open_done(struct fs_req *r)
{
	struct file *f;

	if (fs_moved(r, open_done))
		return;
	if (fs_solo_writes_only(r)) {
		fs_req_start(r, NFS_OP_OPEN, open_done);
		return;
	}
	if (r->call.res.status) {
		fs_done_status(r);
		return;
	}
	if (r->req && is_sent_back(r))
		return;
	f = r->req ? opened(r) : NULL;
	if (!f) {
		fs_open_undo(r->fl, r->ino, r->call.open, &r->cred);
		fs_reply_err(r, ENOMEM);
	} else if (fuse_reply_open(r->req, &r->fi)) {
		fs_file_put(r->fl, f);
	}
	r->req = NULL;
	fs_req_free(r);
}

/* The kernel still knows this inode by another name. */
static bool has_left(struct fs_req *r)
{
	if (!r->ino->solo || !atomic_load(&r->ino->solo->left))
		return false;
	fs_reply_err(r, ESTALE);
	return true;
}

static void on_open_wait(struct loop_timer *t)
{
	struct fs_req *r = container_of(t, struct fs_req, call.eng.timer);

	if (!r->req || has_left(r))     /* interrupted; answered */
		fs_req_free(r);
	else if (opening(r))
		fs_start_named(r, NFS_OP_OPEN, open_done);
	else
		fs_wait_more(r);
}

void fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_req *r = fs_req_new(req, ino);

	if (!r)
		return;
	r->fi = *fi;
	r->call.args.file.flags = fs_solo_flags(r->fl->fs, fi->flags);
	r->call.args.file.exec = fi->flags & FMODE_EXEC;
	r->call.op = NFS_OP_OPEN;
	loop_timer_init(&r->call.eng.timer, on_open_wait);
	on_open_wait(&r->call.eng.timer);
}

void fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct file *f = handle_del(&fs_of(req)->files, fi->fh);

	(void)ino;
	if (f)
		fs_file_put(fs_this_lane, f);
	fuse_reply_err(req, f ? 0 : EBADF);
}
