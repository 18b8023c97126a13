/* SPDX-License-Identifier: GPL-2.0-or-later */
/* consistency=solo in open, setattr and release. See solo.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "fuse/fs_impl.h"
#include "fuse/solo.h"
#include "vfs/opencount.h"

/* The log speaks of changes by others once in so much time: of one, or of all since. */
#define SAY_NS 1000000000ull

/* ---- open ---- */

void fs_solo_widen(struct fs_req *r, int flags)
{
	struct nfs_args *a = &r->op.call.args;

	a->file.widened = fs_of_req(r)->cfg.vfs.solo && (flags & O_ACCMODE) == O_WRONLY;
	a->file.flags = a->file.widened ? (flags & ~O_ACCMODE) | O_RDWR : flags;
}

bool fs_solo_writes_only(struct fs_req *r)
{
	struct nfs_args *a = &r->op.call.args;

	if (r->op.call.res.status != -EACCES || !a->file.widened)
		return false;
	a->file.widened = false;
	a->file.flags = r->fi.flags;
	r->fi.direct_io = 1;
	return true;
}

struct solo_verdict {
	bool news;                      /* somebody else's change is seen for the first time */
	bool leaves;
	bool differs;                   /* in what the kernel does not keep itself */
	char name[80];
};

static void solo_name_locked(const struct inode *ino, struct solo_verdict *v)
{
	snprintf(v->name, sizeof(v->name), "%s", ino->names ? ino->names->text : "(unknown)");
}

static bool solo_differs(const struct nfs_attr *a, const struct nfs_attr *b)
{
	return a->mode != b->mode || a->nlink != b->nlink || a->uid != b->uid || a->gid != b->gid;
}

/* OPEN has brought attr. nr: ownchange_changes() when it was sent, which is no longer that if a change
 * has begun since, and 0 if one was under way. alone: nobody else has the file open. */
static void solo_compare_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t nr, bool alone)
{
	struct solo *s = believed_of(ino)->solo;

	if (nr != ino->changes + 1 || atomic_load(&s->lost))
		return;
	if ((alone && atomic_load(&s->size) != attr->size) ||
	    (s->nr == nr && (s->attr.size != attr->size || !same_time(&s->attr.mtime, &attr->mtime))))
		s->foreign = true;
	else
		solo_after_locked(ino, attr);
}

static struct solo_verdict solo_look(struct inode_table *t, struct inode *ino,
				const struct nfs_attr *attr, uint64_t nr)
{
	struct believed *b = believed_of(ino);
	struct solo_verdict v = { 0 };
	bool before, alone;

	inode_lock(t, ino);
	alone = atomic_load(&ino->nopen) == 1;  /* this open counts */
	before = b->solo->foreign;
	v.differs = solo_differs(&b->solo->attr, attr);
	solo_compare_locked(ino, attr, nr, alone);
	v.news = b->solo->foreign && !before;
	solo_name_locked(ino, &v);
	v.leaves = opencount_may_leave_locked(ino) && !solo_keeps_locked(ino);
	if (v.leaves)
		inode_leave_locked(t, ino);
	inode_unlock(t, ino);
	return v;
}

static bool solo_may_say(struct fs *fs, uint64_t now)
{
	uint64_t last = atomic_load(&fs->solo_said_ns);

	return (!last || now - last >= SAY_NS) &&
	       atomic_compare_exchange_strong(&fs->solo_said_ns, &last, now);
}

static void solo_say(struct fs *fs, const struct solo_verdict *v)
{
	if (!solo_may_say(fs, mono_ns())) {
		atomic_fetch_add(&fs->solo_unsaid, 1);
		return;
	}
	log_warn("somebody else has changed the file '%s' on %s, but with consistency=solo only this "
		 "mount may write: %s. Use consistency=cto where others write", v->name,
		 fs->vfs.cl->cfg.server, v->leaves ? "it is read anew" :
		 "it is open here, and its size and times are read anew when it is closed");
}

void fs_solo_say_rest(struct fs *fs, uint64_t now)
{
	unsigned n;

	if (!atomic_load(&fs->solo_unsaid) || !solo_may_say(fs, now))
		return;
	n = atomic_exchange(&fs->solo_unsaid, 0);
	if (n)
		log_warn("%u more files on %s were changed by somebody else, but with consistency=solo "
			 "only this mount may write", n, fs->vfs.cl->cfg.server);
}

bool fs_solo_sent_back(struct fs_req *r)
{
	struct fs *fs = fs_of_req(r);
	struct solo_verdict v = solo_look(&fs->vfs.inodes, r->op.ino, &r->op.call.res.attr, r->op.quiet);

	if (v.news) {
		stat_add(&r->op.vl->lane->stats, STAT_SOLO_CHANGED, 1);
		solo_say(fs, &v);
	}
	if (v.leaves || v.differs)
		fs_forget_attr(r);
	if (!v.leaves)
		return false;
	file_undo(r->op.vl, r->op.ino, r->op.call.open, &r->op.cred);
	fs_end_err(r, ESTALE);
	return true;
}

/* ---- times ---- */

/* The server lets root and the owner set a mtime. */
static bool solo_may_set(const struct solo *s, const struct rpc_cred *cred)
{
	return cred->uid == 0 || cred->uid == s->attr.uid;
}

/* The kernel sends the time at which it has changed or written the file, as for touch(1), which
 * is both mtime and ctime then. */
static bool solo_is_now(const struct stat *st, int to_set)
{
	return (to_set & FUSE_SET_ATTR_ATIME_NOW) && (to_set & FUSE_SET_ATTR_CTIME) &&
	       same_time(&st->st_mtim, &st->st_ctim);
}

static void solo_owe_locked(struct solo *s, const struct timespec *mtime)
{
	s->owes = true;
	s->mtime = *mtime;
}

/* The mtime, and nothing else. By an open file: the kernel has written. By name: utimensat(),
 * or the kernel after a change of names. true: nothing is to be sent. */
static bool solo_keeps_mtime_locked(struct inode *ino, const struct timespec *mtime, bool by_file)
{
	struct solo *s = believed_of(ino)->solo;

	if (by_file)
		solo_owe_locked(s, mtime);
	return by_file || same_time(mtime, s->owes ? &s->mtime : &ino->mtime);
}

/* Sets *attr, which the kernel may be told, to be believed for no time: it does not look at the
 * answer, or a program has set what is set already. */
static bool solo_settles(struct fs_req *r, const struct stat *st, int to_set, bool by_file,
			 struct nfs_attr *attr)
{
	struct nfs_sattr *a = &r->op.call.args.sattr;
	struct solo *s = believed_of(r->op.ino)->solo;
	bool kept = false;

	inode_lock(&fs_of_req(r)->vfs.inodes, r->op.ino);
	*attr = s->attr;
	if (a->valid & NFS_SET_SIZE) {
		/* Whoever may write may set the size, but not this time. */
		if (a->valid & NFS_SET_MTIME)
			solo_owe_locked(s, &a->mtime);
		a->valid &= ~(unsigned)NFS_SET_MTIME;
	} else if (a->valid == NFS_SET_MTIME && (to_set & FUSE_SET_ATTR_CTIME)) {
		kept = solo_keeps_mtime_locked(r->op.ino, &a->mtime, by_file);
	} else if ((a->valid & NFS_SET_MTIME) && solo_is_now(st, to_set) &&
		   !solo_may_set(s, &r->op.cred)) {
		a->valid = (a->valid & ~(unsigned)NFS_SET_MTIME) | NFS_SET_MTIME_NOW;
	}
	if (a->valid & (NFS_SET_MTIME | NFS_SET_MTIME_NOW) && !kept)
		s->owes = false;
	inode_unlock(&fs_of_req(r)->vfs.inodes, r->op.ino);
	return kept;
}

bool fs_solo_setattr(struct fs_req *r, const struct stat *st, int to_set,
		     const struct fuse_file_info *fi)
{
	struct nfs_attr attr;
	struct stat out;

	if (!believed_of(r->op.ino)->solo || !solo_settles(r, st, to_set, fi, &attr))
		return false;
	fs_stat(fs_of_req(r), &out, &attr);
	fuse_reply_attr(r->req, &out, 0);
	fs_replied(r);
	return true;
}

/* ---- release ---- */

static void solo_times_done(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;

	if (op->call.res.status) {
		log_debug("SETATTR of the mtime: %s", strerror(-op->call.res.status));
	} else {
		inode_lock(t, op->ino);
		inode_note_locked(t, op->ino, &op->call.res.attr);
		inode_unlock(t, op->ino);
	}
	vfs_op_free(op);
}

/* Not of a file that is read anew: the next open leaves its node, and would take the mtime that comes
 * after it for somebody else's change. */
static bool solo_owes_locked(struct inode *ino)
{
	return believed_of(ino)->solo->owes && solo_keeps_locked(ino);
}

/* Until it is taken, a program that sets a time cancels it; after that it waits (vfs_hold()). */
static bool solo_take_owed(struct vfs_op *op)
{
	struct solo *s = believed_of(op->ino)->solo;
	bool owed;

	inode_lock(&op->vl->vfs->inodes, op->ino);
	owed = solo_owes_locked(op->ino);
	s->owes = false;
	op->call.args.sattr = (struct nfs_sattr){ .valid = NFS_SET_MTIME, .mtime = s->mtime };
	inode_unlock(&op->vl->vfs->inodes, op->ino);
	return owed;
}

static void solo_send_times(struct vfs_op *op)
{
	vfs_hold(op);
	if (solo_take_owed(op))
		vfs_start(op, NFS_OP_SETATTR, solo_times_done);
	else
		vfs_op_free(op);
}

/* All that was written is on the server. */
static void solo_times_in_turn(struct vfs_op *op)
{
	vfs_in_turn(op, solo_send_times);
}

static bool solo_is_owed(struct vfs_lane *vl, struct file *f)
{
	struct solo *s = believed_of(f->ino)->solo;
	bool owed;

	inode_lock(&vl->vfs->inodes, f->ino);
	owed = solo_owes_locked(f->ino) && solo_may_set(s, &f->cred);
	inode_unlock(&vl->vfs->inodes, f->ino);
	return owed;
}

/* Without memory the file keeps the server's mtime. */
void fs_solo_release(struct vfs_lane *vl, struct file *f)
{
	struct vfs_op *op;

	if (!believed_of(f->ino)->solo || !solo_is_owed(vl, f))
		return;
	op = vfs_op_quiet(vl, f->ino, &f->cred);
	if (op)
		behind_settle(op, op->ino, true, solo_times_in_turn);
}
