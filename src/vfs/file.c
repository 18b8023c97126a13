/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opening and closing files. An open file (struct file) belongs to no lane; an operation that
 * opens one runs on its lane.
 *
 *   open     waits while a call is under way that removes a name of the file. Then it counts
 *            itself (opencount.h), and sends OPEN. The name by which the front end has found the file may
 *            be another file's by now:
 *
 *            open(conf), by what was cached: inode 7
 *            OPEN: (directory, conf), if that is inode 7's file   -> NFS_EMOVED
 *            LOOKUP conf: inode 9; open of that
 *
 *            A truncation by name (truncate(2), O_TRUNC) goes the same way.
 *   close    The last reference may belong to an operation that nobody waits for any more. When it is
 *            dropped, what is locked through this open is unlocked (locks.h), CLOSE is sent, then REMOVE
 *            for a silly name.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vfs/promised.h"
#include "vfs/vfs_impl.h"

/* ---- open files ---- */

bool file_ref_live(struct file *f)
{
	unsigned have = atomic_load(&f->refs);

	while (have)
		if (atomic_compare_exchange_weak(&f->refs, &have, have + 1))
			return true;
	return false;
}

static void file_closed(struct vfs_op *op)
{
	if (op->call.res.status && op->call.res.status != -ESTALE)
		log_debug("CLOSE: %s", strerror(-op->call.res.status));
	if (op->rm.silly)
		silly_remove(op->vl, op->rm.silly);
	op->rm.silly = NULL;
	vfs_op_free(op);
}

static void file_close(struct vfs_lane *vl, struct inode *ino, struct nfs_open *open,
		       const struct rpc_cred *cred, struct silly *silly)
{
	struct vfs_op *op;

	if (!silly && nfs_open_stays(vl->lane->target.server, &ino->file, open))
		return;
	op = vfs_op_quiet(vl, ino, cred);
	if (!op) {
		log_err("a file could not be closed on the server: out of memory");
		if (silly)
			silly_remove(vl, silly);
		return;
	}
	op_remove_begins(op);
	op->rm.silly = silly;
	op->call.open = open;
	/* Opens of the file wait until its silly name is removed. */
	if (silly)
		op->call.flags |= NFS_CALL_NOW;
	vfs_start(op, NFS_OP_CLOSE, file_closed);
}

void file_undo(struct vfs_lane *vl, struct inode *ino, struct nfs_open *open,
	       const struct rpc_cred *cred)
{
	file_close(vl, ino, open, cred, NULL);
}

static void file_unlocked(struct vfs_lane *vl, struct file *f)
{
	struct inode_table *t = &vl->vfs->inodes;
	struct silly *silly;

	ahead_close(vl, f);
	atomic_fetch_sub(&f->ino->nfiles, 1);
	silly = opencount_close(t, f->ino);
	vl->vfs->front->file_ends(vl, f, silly);
	file_close(vl, f->ino, f->open, &f->cred, silly);
	inode_put(t, f->ino, 1);
	free(f);
}

static void file_last(struct vfs_lane *vl, struct file *f)
{
	struct vfs_locks *l = locks_of(f->ino);

	if (!l || !l->close(vl, f, file_unlocked))
		file_unlocked(vl, f);
}

void file_begins(struct file *f, struct vfs_op *op, struct inode *ino)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	bool only;

	inode_ref(ino);
	f->last = file_last;
	f->ino = ino;
	f->open = op->call.open;
	f->cred = op->cred;
	behind_opened(f);
	inode_lock(t, ino);
	only = opencount_open_locked(t, ino, &op->call.res.attr);
	t->front->file_begins_locked(op, f, only);
	inode_unlock(t, ino);
	atomic_store(&f->refs, 1);
}

/* ---- open, by names ---- */

static void op_open_release(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	struct silly *s = op->open.opening ? opencount_close(t, op->ino) : NULL;

	if (s)
		silly_remove(op->vl, s);
	if (op->open.named)
		for (unsigned i = 0; i < op->open.names.n; i++)
			inode_put(t, op->open.names.dir[i], 1);
}

static void op_open_begins(struct vfs_op *op, bool named)
{
	op->open.opening = false;
	op->open.named = named;
	op->open.delegation = 0;
	op->open.names.n = 0;
	op->release = op_open_release;
}

static void file_start_named(struct vfs_op *op, enum nfs_op number, void (*done)(struct vfs_op *op))
{
	struct nfs_args *a = &op->call.args;

	if (op->open.named) {
		inode_names(&op->vl->vfs->inodes, op->ino, &op->open.names);
		a->nwhere = op->open.names.n;
	}
	/* Looked at after the open was counted (opencount_leave()) and the names were taken: what is
	 * left has none, and would be reached by its handle. */
	if (atomic_load(&op->ino->left) && (op->open.named || number == NFS_OP_OPEN)) {
		vfs_end_with(op, -ESTALE);
		return;
	}
	for (unsigned i = 0; i < a->nwhere; i++)
		a->where[i] = (struct nfs_where){ &op->open.names.dir[i]->file.fh, op->open.names.name[i] };
	vfs_start(op, number, done);
}

static void file_opened(struct vfs_op *op)
{
	if (!op->call.res.status)
		promised_opened(op);
	vfs_end(op);
}

static void on_open_wait(struct loop_timer *t)
{
	struct vfs_op *op = container_of(t, struct vfs_op, call.eng.timer);

	if (!op->waited) {
		vfs_end_with(op, -EINTR);
		return;
	}
	op->open.opening = opencount_opening(&op->vl->vfs->inodes, op->ino);
	if (op->open.opening)
		file_start_named(op, NFS_OP_OPEN, file_opened);
	else
		vfs_wait_more(op);
}

void vfs_open(struct vfs_op *op, bool named)
{
	op_open_begins(op, named);
	op->call.op = NFS_OP_OPEN;
	loop_timer_init(&op->call.eng.timer, on_open_wait);
	on_open_wait(&op->call.eng.timer);
}

static void file_set(struct vfs_op *op)
{
	const struct nfs_sattr *set = &op->call.args.sattr;
	int status = op->call.res.status;

	if ((set->valid & NFS_SET_SIZE) && (!status || vfs_maybe_done(status)))
		behind_cut(op->ino, set->size);
	ask_told(op);
}

void vfs_setattr(struct vfs_op *op, bool named)
{
	op_open_begins(op, named);
	file_start_named(op, NFS_OP_SETATTR, file_set);
}

bool vfs_by_fewer_names(struct vfs_op *op)
{
	bool newest = op->call.args.nwhere > 1;

	op->call.args.nwhere = newest;
	vfs_start(op, op->call.op, op->done);
	return newest;
}
