/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the last close of an open file unlocks: see locks.h. */
#include "vfs/vfs_impl.h"

/* With mu: an owner of f that has locks; those that have none end. */
static struct lock_owner *owner_of_file_locked(struct vfs_locks *l, const struct file *f)
{
	list_for_each_entry_safe(struct lock_owner, o, tmp, &l->owners, node) {
		if (o->file != f)
			continue;
		if (o->held)
			return o;
		locks_owner_end_locked(o);
	}
	return NULL;
}

static void locks_close_next(struct vfs_op *op);

/* Whatever came of it: CLOSE ends it, and with version 3 the client goes on trying (nfs3/nlm.h). */
static void locks_close_one(struct vfs_op *op)
{
	struct vfs_locks *l = locks_of(op->ino);
	struct lock_owner *o = op->lock.owner;

	pthread_mutex_lock(&l->mu);
	op->lock.owner = NULL;
	locks_owner_end_locked(o);
	pthread_mutex_unlock(&l->mu);
	locks_close_next(op);
}

static void locks_close_next(struct vfs_op *op)
{
	struct vfs_locks *l = locks_of(op->ino);
	struct vfs_lane *vl = op->vl;
	struct file *f = op->lock.through;

	pthread_mutex_lock(&l->mu);
	op->lock.owner = owner_of_file_locked(l, f);
	if (op->lock.owner) {
		op->lock.number = op->lock.owner->number;
	} else {
		l->closing--;
		l->closes++;
		l->unlocks++;
		locks_wake_locked(l, 0, UINT64_MAX);
	}
	pthread_mutex_unlock(&l->mu);
	if (op->lock.owner) {
		locks_call(op, NFS_OP_LOCKU, locks_close_one);
		return;
	}
	op->lock.through = NULL;        /* that was no reference */
	op->lock.closed(vl, f);
	vfs_op_free(op);
}

bool locks_close(struct vfs_lane *vl, struct file *f,
			void (*closed)(struct vfs_lane *vl, struct file *f))
{
	struct vfs_locks *l = locks_of(f->ino);
	struct vfs_op *op;
	bool any;

	pthread_mutex_lock(&l->mu);
	any = owner_of_file_locked(l, f);
	l->closing += any;
	pthread_mutex_unlock(&l->mu);
	if (!any)
		return false;
	op = vfs_op_quiet(vl, f->ino, &f->cred);
	if (!op) {
		log_err("the locks of a file could not be given back to the server: out of memory");
		pthread_mutex_lock(&l->mu);
		for (struct lock_owner *o; (o = owner_of_file_locked(l, f)); )
			locks_owner_end_locked(o);
		l->closing--;
		pthread_mutex_unlock(&l->mu);
		return false;
	}
	op_lock_begins(op);
	op->lock.through = f;
	op->lock.all = true;
	op->lock.last = UINT64_MAX;
	op->lock.closed = closed;
	locks_close_next(op);
	return true;
}
