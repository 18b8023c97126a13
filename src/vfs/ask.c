/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Questions: GETATTR and LOOKUP; and LINK, which brings attributes as well. Attributes that a change
 * of this mount's own has brought answer a GETATTR once (ownchange.h). Those of a file with a delegation
 * answer any, until this mount changes the file itself:
 *
 *      GETATTR is sent: delegation 7, so many own changes     reply: 7 still, and no other change
 *      GETATTR: 7 still, and no other change: the same attributes, as if the server had been asked now
 *
 * What that does not hold for is asked for:
 *
 *   the time of access      after each READ of this mount; others' reads are seen when something else has
 *                           the server asked
 *   a file with several names    This mount may remove one of which nobody here knows that it is the file's.
 *   a change without an answer   The server may execute it at any time, and recalls nothing from who has sent
 *                           it: nothing is believed of that file any more.
 *   another change attribute     in any reply since, whatever the server has promised
 *   blocks                  while there are fewer than the size needs, and the change is young
 *
 * The attributes of OPEN's reply are not kept: it may be older than the delegation, which another OPEN has
 * brought.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
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

struct promised {
	/* Under that delegation, after so many own changes, and so many READs: */
	uint64_t delegation, quiet;
	unsigned reads;
	struct nfs_attr attr;
	uint64_t asked_ns;
	uint64_t change_ns;             /* when attr.change was first seen */
	bool born;                      /* the rest is known, which never changes: */
	bool has_btime;
	struct timespec btime;
};

uint64_t ask_settles_ns = 30000000000ull;

/* Servers give a file its blocks some time after it was written, and that is no change. */
static bool ask_is_settled(const struct promised *p)
{
	return p->attr.used >= p->attr.size || p->asked_ns - p->change_ns >= ask_settles_ns;
}

static uint64_t ask_delegation(const struct vfs_op *op)
{
	return nfs_delegated(op->vl->lane->target.server, &op->ino->file);
}

static bool ask_holds_locked(const struct vfs_op *op, const struct promised *p)
{
	return p && op->quiet && !op->ino->unpromised && p->delegation == op->attr.delegation &&
	       p->quiet == op->quiet && p->reads == op->attr.reads && p->attr.change == op->ino->change &&
	       ask_is_settled(p);
}

static bool ask_is_promised(struct vfs_op *op, bool birth)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	const struct promised *p;
	bool is;

	op->attr.delegation = ask_delegation(op);
	if (!op->attr.delegation)
		return false;
	op->attr.reads = atomic_load(&op->ino->reads);
	op->quiet = ownchange_changes(t, op->ino);
	inode_lock(t, op->ino);
	p = op->ino->promised;
	is = ask_holds_locked(op, p) && (!birth || p->born);
	if (is) {
		op->call.res.attr = p->attr;
		op->call.res.has_btime = p->has_btime;
		op->call.res.btime = p->btime;
	}
	inode_unlock(t, op->ino);
	return is;
}

/* Without memory nothing is kept. */
static void ask_keep_locked(const struct vfs_op *op)
{
	const struct nfs_results *res = &op->call.res;
	struct promised *p = op->ino->promised;

	if (!p)
		p = op->ino->promised = calloc(1, sizeof(*p));
	if (!p)
		return;
	if (!p->change_ns || p->attr.change != res->attr.change)
		p->change_ns = op->asked_ns;
	p->delegation = op->attr.delegation;
	p->quiet = op->quiet;
	p->reads = op->attr.reads;
	p->attr = res->attr;
	p->asked_ns = op->asked_ns;
	if (op->call.op != NFS_OP_BIRTH)
		return;
	p->born = true;
	p->has_btime = res->has_btime;
	p->btime = res->btime;
}

static void ask_keep(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;

	if (!op->quiet || ownchange_changes(t, op->ino) != op->quiet || op->call.res.attr.nlink != 1 ||
	    ask_delegation(op) != op->attr.delegation)
		return;
	inode_lock(t, op->ino);
	ask_keep_locked(op);
	inode_unlock(t, op->ino);
}

static void ask_got(struct vfs_op *op)
{
	if (op->attr.delegation && !op->call.res.status)
		ask_keep(op);
	op->call.op = NFS_OP_GETATTR;
	ask_ends(op);
}

static void ask_server(struct vfs_op *op, enum nfs_op number)
{
	op->attr.known = HUGE_VAL;
	if (ask_is_promised(op, number == NFS_OP_BIRTH))
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
	op->attr.late = 0;
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
	vfs_end(op);
}

void vfs_lookup(struct vfs_op *op)
{
	op->quiet = ownchange_changes(&op->vl->vfs->inodes, op->ino);
	op->call.args.name = op->name;
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
