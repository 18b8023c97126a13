/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks: the calls. See locks.h.
 *
 *   vfs_setlk --> locks_try --> claim the owner --> LOCK --> locks_locked --+--> end
 *                    ^  ^          | busy                          denied   |
 *                    |  +--- some ms                                        |
 *                    +---------- locks_wait.c <-----------------------------+
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vfs/vfs_impl.h"

/* So often a call that may not wait is sent again because an open file is being closed. */
#define CLOSE_TRIES   64u
#define BUSY_MS       1u
#define BUSY_SHIFT_MAX 4u

/* ---- who has locks of a file ---- */

static struct vfs_locks *locks_make(struct inode *ino)
{
	struct vfs_locks *l = locks_of(ino), *was = NULL;

	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	pthread_mutex_init(&l->mu, NULL);
	list_init(&l->owners);
	list_init(&l->waiters);
	l->close = locks_close;
	if (atomic_compare_exchange_strong(&ino->locks, &was, l))
		return l;
	locks_free(l);
	return was;
}

void locks_owner_end_locked(struct lock_owner *o)
{
	list_del(&o->node);
	free(o);
}

/* The one that has its locks, or may get some just now; or else that of this open. */
static struct lock_owner *owner_find_locked(struct vfs_locks *l, uint64_t key, const struct file *f)
{
	struct lock_owner *found = NULL;

	list_for_each_entry(struct lock_owner, o, &l->owners, node) {
		if (o->key != key)
			continue;
		if (o->held || o->busy)
			return o;
		if (o->file == f)
			found = o;
	}
	return found;
}

static uint64_t new_number(struct vfs_op *op)
{
	return atomic_fetch_add(&op->vl->vfs->lock_owners, 1) + 1;
}

static struct lock_owner *owner_new_locked(struct vfs_locks *l, struct vfs_op *op)
{
	struct lock_owner *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->key = op->lock.key;
	o->file = op->file;
	o->number = new_number(op);
	list_add_tail(&l->owners, &o->node);
	return o;
}

/* ---- an operation has its owner ---- */

enum claim { CLAIMED, CLAIM_BUSY, CLAIM_NOTHING, CLAIM_NO_MEMORY };

/* There is nothing to unlock. A number is no longer used when the open ends that it belongs to. */
static enum claim nothing_locked(struct vfs_op *op, struct lock_owner *o)
{
	if (o && op->lock.all && o->file == op->file)
		locks_owner_end_locked(o);
	return CLAIM_NOTHING;
}

static enum claim claim_locked(struct vfs_locks *l, struct vfs_op *op)
{
	struct lock_owner *o = owner_find_locked(l, op->lock.key, op->file);
	bool unlock = op->lock.type == NFS_RANGE_NONE;

	if (o && o->busy)
		return CLAIM_BUSY;
	if (unlock && (!o || !o->held))
		return nothing_locked(op, o);
	if (!o)
		o = owner_new_locked(l, op);
	if (!o)
		return CLAIM_NO_MEMORY;
	/* Its last close is about to unlock it. */
	if (!file_ref_live(o->file))
		return CLAIM_BUSY;
	op->lock.through = o->file;
	op->lock.owner = o;
	op->lock.number = o->number;
	op->lock.unlocks = l->unlocks;
	op->lock.closes = l->closes;
	o->busy = true;
	if (!unlock)
		o->pid = op->lock.pid;
	return CLAIMED;
}

/* The owner is free again. */
static void locks_release(struct vfs_op *op)
{
	struct file *through = op->lock.through;

	op->lock.owner = NULL;
	op->lock.through = NULL;
	file_put(op->vl, through);
}

static void op_lock_release(struct vfs_op *op)
{
	if (op->lock.through)
		file_put(op->vl, op->lock.through);
}

void op_lock_begins(struct vfs_op *op)
{
	memset(&op->lock, 0, sizeof(op->lock));
	op->release = op_lock_release;
}

/* ---- calls ---- */

void locks_call(struct vfs_op *op, enum nfs_op number, void (*done)(struct vfs_op *op))
{
	const struct op_lock *k = &op->lock;

	op->call.open = k->through ? k->through->open : NULL;
	op->call.args.lock = (struct nfs_lock_args){
		.owner = k->number,
		.offset = k->start, .length = nfs_range_length(k->start, k->last),
		.write = k->type == NFS_RANGE_WRITE, .waits = k->waits, .all = k->all,
	};
	vfs_start(op, number, done);
}

/* LOCKU has ended. */
static void locks_unlocked_locked(struct vfs_locks *l, struct vfs_op *op)
{
	struct lock_owner *o = op->lock.owner;
	int status = op->call.res.status;

	o->busy = false;
	/* Only a later try or CLOSE can tell. */
	o->held = status || op->call.res.lock.held;
	l->unlocks++;
	if (!status)
		locks_wake_locked(l, op->lock.all ? 0 : op->lock.start,
				  op->lock.all ? UINT64_MAX : op->lock.last);
	if (!op->lock.all || status)
		return;
	locks_owner_end_locked(o);
	/* It may have had locks before by the open that it has closed. */
	nothing_locked(op, owner_find_locked(l, op->lock.key, op->file));
}

static void locks_note_unlocked(struct vfs_op *op)
{
	struct vfs_locks *l = locks_of(op->ino);

	pthread_mutex_lock(&l->mu);
	locks_unlocked_locked(l, op);
	pthread_mutex_unlock(&l->mu);
	locks_release(op);
}

static void locks_unlocked(struct vfs_op *op)
{
	locks_note_unlocked(op);
	vfs_end(op);
}

/* ---- LOCK ---- */

static void locks_undone(struct vfs_op *op)
{
	int status = op->lock.status;

	locks_note_unlocked(op);
	locks_leave(op, false);
	vfs_end_with(op, status);
}

/* May the server have executed a LOCK that has ended with this? */
static bool locks_maybe(int status)
{
	return status == -EIO || status == -ETIMEDOUT || status == -ESHUTDOWN || status == -ENOMEM ||
	       status == -ENOTCONN;
}

static void on_lock_again(struct loop_timer *t)
{
	struct vfs_op *op = container_of(t, struct vfs_op, call.eng.timer);

	op->pause_ends = NULL;
	locks_try(op);
}

/* Is it denied by what is just being closed? */
static bool locks_closing(struct vfs_op *op)
{
	struct vfs_locks *l = locks_of(op->ino);
	bool closing;

	pthread_mutex_lock(&l->mu);
	closing = l->closing || l->closes != op->lock.closes;
	pthread_mutex_unlock(&l->mu);
	return closing && op->lock.tries++ < CLOSE_TRIES;
}

static void locks_soon(struct vfs_op *op)
{
	locks_pause(op, BUSY_MS << op->lock.shift, on_lock_again);
	op->lock.shift += op->lock.shift < BUSY_SHIFT_MAX;
}

static void locks_denied(struct vfs_op *op)
{
	if (!op->waited) {
		locks_leave(op, false);
		vfs_end_with(op, -EINTR);
	} else if (op->lock.waits) {
		locks_sleep(op);
	} else if (locks_closing(op)) {
		locks_soon(op);
	} else {
		vfs_end(op);
	}
}

static void locks_decide(struct vfs_op *op)
{
	struct vfs_locks *l = locks_of(op->ino);
	int status = op->call.res.status;
	bool undo;

	pthread_mutex_lock(&l->mu);
	undo = status ? locks_maybe(status) && !op->lock.owner->held :
			!op->waited && !op->call.res.lock.had;
	if (!status || undo)
		op->lock.owner->held = true;
	op->lock.owner->busy = undo;
	pthread_mutex_unlock(&l->mu);
	if (undo) {
		op->lock.status = status ? status : -EINTR;
		locks_call(op, NFS_OP_LOCKU, locks_undone);
		return;
	}
	locks_release(op);
	if (status == -EAGAIN) {
		locks_denied(op);
		return;
	}
	locks_leave(op, !status);
	vfs_end(op);
}

/* A GETATTR that has failed has brought nothing: the lock is granted all the same. */
static void locks_looked(struct vfs_op *op)
{
	op->call.res.status = 0;
	op->call.res.lock = (struct nfs_lock_results){ .held = true, .had = op->lock.had };
	locks_decide(op);
}

static void locks_locked(struct vfs_op *op)
{
	struct vfs_locks *l = locks_of(op->ino);

	op->lock.under = op->call.res.status ? 0 : op->call.res.lock.under;
	if (!op->lock.under) {
		locks_decide(op);
		return;
	}
	pthread_mutex_lock(&l->mu);
	op->lock.unchanged = l->under == op->lock.under;
	pthread_mutex_unlock(&l->mu);
	op->lock.had = op->call.res.lock.had;
	if (op->lock.unchanged)
		locks_decide(op);
	else
		vfs_start(op, NFS_OP_GETATTR, locks_looked);
}

void locks_try(struct vfs_op *op)
{
	struct vfs_locks *l = locks_of(op->ino);
	enum claim claim;

	pthread_mutex_lock(&l->mu);
	claim = claim_locked(l, op);
	pthread_mutex_unlock(&l->mu);
	switch (claim) {
	case CLAIM_BUSY:
		locks_soon(op);
		break;
	case CLAIMED:
		op->lock.shift = op->lock.queued ? op->lock.shift : 0;
		if (op->lock.type == NFS_RANGE_NONE)
			locks_call(op, NFS_OP_LOCKU, locks_unlocked);
		else
			locks_call(op, NFS_OP_LOCK, locks_locked);
		break;
	default:
		locks_leave(op, false);
		vfs_end_with(op, claim == CLAIM_NOTHING ? 0 : -ENOLCK);
	}
}

void vfs_setlk(struct vfs_op *op)
{
	/* Whoever unlocks counts on it. */
	op->goes_on = op->lock.type == NFS_RANGE_NONE;
	if (!locks_of(op->ino) && op->goes_on)
		vfs_end_with(op, 0);
	else if (!locks_make(op->ino))
		vfs_end_with(op, -ENOLCK);
	else
		locks_try(op);
}

void vfs_lock_told(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	struct nfs_attr *attr = &op->call.res.attr;

	ahead_outdated(op->ino);
	if (op->call.res.has_attr)
		behind_size(op->ino, attr, op->call.eng.start_ns);
	inode_lock(t, op->ino);
	if (op->call.res.has_attr)
		inode_note_locked(t, op->ino, attr);
	ownchange_newer_locked(op->ino);
	inode_unlock(t, op->ino);
}

void vfs_lock_known(struct vfs_op *op)
{
	struct vfs_locks *l = locks_of(op->ino);

	if (!op->lock.under || !op->call.res.has_attr || op->given_up)
		return;
	pthread_mutex_lock(&l->mu);
	l->under = op->lock.under;
	pthread_mutex_unlock(&l->mu);
}

/* ---- LOCKT ---- */

static void locks_tested(struct vfs_op *op)
{
	struct vfs_locks *l = locks_of(op->ino);
	const struct nfs_lock_results *r = &op->call.res.lock;
	struct op_lock *k = &op->lock;

	k->pid = 0;
	if (!op->call.res.status)
		k->type = NFS_RANGE_NONE;
	if (op->call.res.status != -EAGAIN) {
		vfs_end(op);
		return;
	}
	k->type = r->write ? NFS_RANGE_WRITE : NFS_RANGE_READ;
	k->start = r->offset;
	k->last = nfs_range_last(r->offset, r->length);
	pthread_mutex_lock(&l->mu);
	list_for_each_entry(struct lock_owner, o, &l->owners, node)
		if (o->number == r->holder)
			k->pid = o->pid;
	pthread_mutex_unlock(&l->mu);
	vfs_end_with(op, 0);
}

void vfs_getlk(struct vfs_op *op)
{
	struct vfs_locks *l = locks_make(op->ino);
	struct lock_owner *o;

	if (!l) {
		vfs_end_with(op, -ENOLCK);
		return;
	}
	/* Its own locks are not in its way. */
	pthread_mutex_lock(&l->mu);
	o = owner_find_locked(l, op->lock.key, op->file);
	op->lock.number = o ? o->number : new_number(op);
	pthread_mutex_unlock(&l->mu);
	locks_call(op, NFS_OP_LOCKT, locks_tested);
}

/* ---- what closes ---- */

bool vfs_unlock_owner(struct vfs_op *op, uint64_t key)
{
	struct vfs_locks *l = locks_of(op->ino);
	bool any;

	if (!l)
		return false;
	pthread_mutex_lock(&l->mu);
	any = owner_find_locked(l, key, op->file);
	pthread_mutex_unlock(&l->mu);
	if (!any)
		return false;
	op_lock_begins(op);
	op->lock.key = key;
	op->lock.last = UINT64_MAX;
	op->lock.all = op->goes_on = true;
	locks_try(op);
	return true;
}

bool vfs_has_locks(const struct inode *ino)
{
	struct vfs_locks *l = locks_of(ino);
	bool any = false;

	if (!l)
		return false;
	pthread_mutex_lock(&l->mu);
	list_for_each_entry(const struct lock_owner, o, &l->owners, node)
		any |= o->held;
	pthread_mutex_unlock(&l->mu);
	return any;
}
