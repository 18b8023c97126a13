/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Questions: GETATTR and LOOKUP; and LINK, which brings attributes as well. Attributes that a change
 * of this mount's own has brought answer a GETATTR once (ownchange.h). Those of a file with a delegation
 * answer any, until this mount changes the file itself (promised.h).
 */
#include <errno.h>
#include <math.h>
#include "vfs/dirnames.h"
#include "vfs/promised.h"
#include "vfs/vfs_impl.h"

void ask_told(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	bool told = true;
	double timeo;

	if (!op->call.res.status && op->waited) {
		inode_lock(t, op->ino);
		timeo = inode_note_locked(t, op->ino, &op->call.res.attr);
		ownchange_told_locked(op->ino);
		told = t->front->attr_locked(op, timeo);
		inode_unlock(t, op->ino);
	}
	if (told)
		vfs_end(op);
	else
		behind_settle(op, op->ino, false, op->go);
}

/* ---- GETATTR ---- */

static void ask_ends(struct vfs_op *op)
{
	if (!op->call.res.status)
		behind_size(op->ino, &op->call.res.attr, op->asked_ns);
	ask_told(op);
}

static void ask_got(struct vfs_op *op)
{
	if (op->attr.delegation && !op->call.res.status)
		promised_keep(op);
	op->call.op = NFS_OP_GETATTR;
	ask_ends(op);
}

static void ask_server(struct vfs_op *op, enum nfs_op number)
{
	op->attr.known = HUGE_VAL;
	op->attr.delegation = promised_delegation(op);
	if (op->attr.delegation && promised_attr(op, number == NFS_OP_BIRTH))
		ask_ends(op);
	else
		vfs_start(op, number, ask_got);
}

/* What was written is on the server. */
static void ask_now(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;

	op->asked_ns = mono_ns();
	op->call.op = NFS_OP_GETATTR;
	op->call.res.status = op->given_up ? -EINTR : 0;
	if (op->given_up || ownchange_attr(t, op->ino, &op->call.res.attr, &op->attr.known))
		ask_ends(op);
	else
		ask_server(op, NFS_OP_GETATTR);
}

static void ask_begins(struct vfs_op *op, void (*go)(struct vfs_op *op))
{
	op->go = go;
	behind_settle(op, op->ino, false, go);
}

void vfs_getattr(struct vfs_op *op)
{
	ask_begins(op, ask_now);
}

/* What an own change has brought lacks the time. */
static void ask_birth(struct vfs_op *op)
{
	op->asked_ns = mono_ns();
	op->call.op = NFS_OP_GETATTR;
	op->call.res.status = 0;
	ask_server(op, NFS_OP_BIRTH);
}

void vfs_birth(struct vfs_op *op)
{
	ask_begins(op, ask_birth);
}

/* ---- names ---- */

static void ask_looked_up(struct vfs_op *op)
{
	if (op->call.res.status == -ENOENT)
		vfs_name_gone(op, op->ino, op->quiet, op->name);
	if (op->vl->vfs->inodes.dirnames)
		dirnames_keep(op);
	vfs_end(op);
}

void vfs_lookup(struct vfs_op *op)
{
	op->quiet = ownchange_changes(&op->vl->vfs->inodes, op->ino);
	op->call.args.name = op->name;
	op->call.op = NFS_OP_LOOKUP;
	if (op->vl->vfs->inodes.dirnames && dirnames_answer(op))
		vfs_end(op);
	else
		vfs_start(op, NFS_OP_LOOKUP, ask_looked_up);
}

static void ask_linked(struct vfs_op *op)
{
	if (!op->call.res.status)
		inode_named(&op->vl->vfs->inodes, op->ino, op->ino2->id, op->name);
	ask_told(op);
}

void vfs_link(struct vfs_op *op)
{
	op->call.args.fh2 = &op->ino2->file.fh;
	op->call.args.name = op->name;
	vfs_start(op, NFS_OP_LINK, ask_linked);
}
