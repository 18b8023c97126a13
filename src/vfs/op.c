/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Operations: their life, and their calls. Each lane has its own. They are taken and freed on its
 * thread, and kept for the next one. So once a mount has warmed up, none is allocated.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vfs/vfs_impl.h"

/* vfs_wait_more() */
#define WAIT_FIRST_MS 1u
#define WAIT_SHIFT_MAX 4u

/* Clears what comes before the union, and the call's arguments. nfs_start() sets up the rest of the
 * call. */
struct vfs_op *vfs_op_new(struct vfs_lane *vl)
{
	struct list *n = list_pop(&vl->idle);
	struct vfs_op *op = n ? container_of(n, struct vfs_op, node) : calloc(1, vl->vfs->front->op_size);

	if (!op)
		return NULL;
	memset(op, 0, offsetof(struct vfs_op, data));
	op->call.flags = 0;
	op->call.args.fh = op->call.args.fh2 = NULL;
	op->call.args.name = op->call.args.name2 = NULL;
	op->call.args.nwhere = 0;
	op->call.open = NULL;
	op->call.args.sattr.valid = 0;
	op->vl = vl;
	op->start_ns = loop_now(vl->lane->loop);
	list_init(&op->wait_node);
	list_add_tail(&vl->active, &op->node);
	return op;
}

struct vfs_op *vfs_op_quiet(struct vfs_lane *vl, struct inode *ino, const struct rpc_cred *cred)
{
	struct vfs_op *op = vfs_op_new(vl);

	if (!op)
		return NULL;
	op->cred = *cred;
	if (ino)
		inode_ref(ino);
	op->ino = ino;
	return op;
}

void vfs_op_free(struct vfs_op *op)
{
	struct vfs_lane *vl = op->vl;
	struct inode_table *t = &vl->vfs->inodes;
	struct file *file = op->file;

	vfs_hold_ends(op);
	if (op->release)
		op->release(op);
	vl->vfs->front->op_ends(op);
	if (op->ino)
		inode_put(t, op->ino, 1);
	if (op->ino2)
		inode_put(t, op->ino2, 1);
	list_del(&op->node);
	list_add_head(&vl->idle, &op->node);
	/* Last, because it may start a CLOSE, and op may become the operation of that. */
	if (file)
		file_put(vl, file);
}

void vfs_wait_more(struct vfs_op *op)
{
	loop_timer_set(op->vl->lane->loop, &op->call.eng.timer, WAIT_FIRST_MS << op->wait_shift);
	op->wait_shift += op->wait_shift < WAIT_SHIFT_MAX;
}

bool vfs_maybe_done(int status)
{
	switch (status) {
	case -EIO:
	case -ETIMEDOUT:
	case -ESHUTDOWN:
	case -ENOENT:           /* a call that was sent twice does not find what it has moved */
	case -ESTALE:
		return true;
	default:
		return false;
	}
}

/* ---- what a call changes: nfs/ops.h, told to known.h ---- */

/* The handles in a change's call are those of inodes. */
static struct inode *op_inode_of(const struct nfs_fh *fh)
{
	return container_of((struct nfs_fh *)(uintptr_t)fh, struct inode, fh);
}

static void op_change_begins(struct vfs_op *op, unsigned i, const struct nfs_fh *fh)
{
	struct inode *ino = op_inode_of(fh);

	op->change[i].ino = ino;
	if (nfs_effects(op->call.op) & NFS_CHANGES_DATA)
		ahead_change_begins(ino);
	op->change[i].nr = known_change_begins(&op->vl->vfs->inodes, ino);
}

static void op_changes_begin(struct vfs_op *op)
{
	const struct nfs_call *c = &op->call;
	unsigned effects = nfs_effects(c->op);
	bool two = effects & NFS_CHANGES_FH2;

	if (!two || c->args.fh != c->args.fh2)
		op_change_begins(op, 0, c->args.fh);
	if (two)
		op_change_begins(op, 1, c->args.fh2);
	if (effects & (NFS_ADDS_NAME | NFS_ADDS_NAME2))
		known_here(&op->vl->vfs->inodes, op_inode_of(two ? c->args.fh2 : c->args.fh)->id,
			   effects & NFS_ADDS_NAME ? c->args.name : c->args.name2);
}

/* Ends op->change[i]. */
static void op_change_ends(struct vfs_op *op, unsigned i)
{
	const struct nfs_call *c = &op->call;
	struct inode *ino = op->change[i].ino;
	bool data = nfs_effects(c->op) & NFS_CHANGES_DATA;
	struct known_after a;

	if (!ino)
		return;
	a = (struct known_after){ .since_ns = c->eng.start_ns };
	op->change[i].ino = NULL;
	if (data)
		ahead_change_ends(ino);
	if (c->res.status == 0 && data) {
		a.attr = c->res.has_attr ? &c->res.attr : NULL;
	} else if (c->res.status == 0) {
		/* RENAME within one directory is its one change, the second. */
		a.attr = c->res.has_dir_attr[i] ? &c->res.dir_attr[i] : NULL;
		a.no_owner = c->res.dir_no_owner;
		a.change = &c->res.dir_change[i];
	}
	known_change_ends(&op->vl->vfs->inodes, ino, op->change[i].nr, &a);
}

/* For a call that removes or moves a name. nr: the change of the name's directory. */
static void op_name_ends(struct vfs_op *op, uint64_t nr)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	const struct nfs_call *c = &op->call;

	known_changed(t, op_inode_of(c->args.fh)->id, c->args.name);
	if (nfs_effects(c->op) & NFS_ADDS_NAME2)
		known_changed(t, op_inode_of(c->args.fh2)->id, c->args.name2);
	if (c->res.status == 0)
		vfs_name_gone(op, op_inode_of(c->args.fh), nr, c->args.name);
}

static void op_changes_end(struct vfs_op *op)
{
	bool first = op->change[0].ino;

	op_change_ends(op, 0);
	op_change_ends(op, 1);
	if (nfs_effects(op->call.op) & NFS_DROPS_NAME)
		op_name_ends(op, op->change[first ? 0 : 1].nr);
}

void vfs_name_gone(struct vfs_op *op, struct inode *dir, uint64_t nr, const char *name)
{
	struct inode_table *t = &op->vl->vfs->inodes;

	known_gone(t, dir, nr, name, op->call.eng.start_ns + (uint64_t)(t->negative_timeo * 1e9));
}

/* ---- calls ---- */

static void on_call_done(struct nfs_call *c)
{
	struct vfs_op *op = container_of(c, struct vfs_op, call);

	op->calling = false;
	if (op->change[0].ino || op->change[1].ino)
		op_changes_end(op);
	op->done(op);
}

/* An operation that was given up before it has changed anything changes nothing any more. */
static void op_send(struct vfs_op *op)
{
	bool change = vfs_is_change(&op->call);

	if (change && op->given_up && !op->changes) {
		op->call.res.status = -EINTR;
		op->done(op);
		return;
	}
	if (change) {
		op->changes++;
		op_changes_begin(op);
	}
	if (op->call.op == NFS_OP_OPEN || op->call.op == NFS_OP_SETATTR)
		op->asked_ns = mono_ns();
	if (op->call.op == NFS_OP_OPEN)
		op->quiet = known_changes(&op->vl->vfs->inodes, op->ino);
	op->calling = true;
	nfs_start(op->vl->lane, &op->call);
}

static void op_send_in_turn(struct vfs_op *op)
{
	if (vfs_is_change(&op->call))
		vfs_in_turn(op, op_send);
	else
		op_send(op);
}

/* What op's call must not overtake: NULL, or an inode for behind_settle(). */
static struct inode *op_settles(const struct vfs_op *op, unsigned effects)
{
	/* A call in the middle of a change that has begun. */
	if (op->changes)
		return NULL;
	if (effects & NFS_AFTER_HELD)
		return op->ino;
	return effects & NFS_AFTER_HELD_OF_NAME ? op->rm.pinned : NULL;
}

void vfs_start(struct vfs_op *op, enum nfs_op number, void (*done)(struct vfs_op *op))
{
	unsigned effects = nfs_effects(number);

	op->done = done;
	op->call.op = number;
	op->call.done = on_call_done;
	op->call.cred = &op->cred;
	if (!op->call.args.fh)
		op->call.args.fh = &op->ino->fh;
	behind_settle(op, op_settles(op, effects), effects & NFS_AFTER_STABLE, op_send_in_turn);
}
