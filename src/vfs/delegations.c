/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Delegations go back to the server. nfs says that some are wanted back (nfs/front.h), this mount is going
 * to change a file that has one (start.c), or the tick finds some that are due for another reason: nobody
 * needs them, or it is time to send again what had no answer. Whichever lane takes one returns it; if that
 * has no connection and another lane has one, it is due again. To lose one is no error, and what is believed
 * of a file under a delegation that is due is believed no longer; so nobody is told.
 *
 * What was written under one to write is on stable storage before it goes back, or others would not see it, and it
 * would replace what they write. That is write-behind's work (behind.h), which DELEGRETURN waits for as a fsync()
 * does. In between:
 *
 *   programs write more    What comes after the recall is as without a delegation: each open has its OPEN.
 *                          DELEGRETURN does not wait for that, nor they for it.
 *   the data cannot be written     It is lost, and who has written it is told, as ever. Then the delegation goes.
 *   the connection dies    Write-behind goes on where there is one; when it is done, so does DELEGRETURN.
 *   the server restarts    The WRITEs go again, by opens that are reclaimed, and DELEGRETURN ends with whatever
 *                          the server says.
 *   it revokes the delegation      The WRITEs go by the opens' stateids, or fail if these are revoked as well.
 *                          So do those of a file that was closed meanwhile (nodelegflush), over what others may
 *                          have written since.
 *
 * Locks that were granted under one to write without the server (nfs/nfs4/nfs4_granted.c) are the server's before it
 * goes back, open by open (CLAIM). Operations for locks of that file wait meanwhile (start.c), and no others do.
 *
 * One to read waits for nothing: there are servers that let a WRITE of its holder wait for its return.
 */
#include <errno.h>
#include <string.h>
#include "vfs/vfs_impl.h"

/* A lane returns so many at a time: it has other things to do, too. */
#define DELEGATIONS_MOST 64u

static void delegations_end(struct vfs_op *op)
{
	const struct nfs_fh *fh = op->call.args.fh;     /* which may have gone: whoever waits has the file */
	struct vfs_lane *vl = op->vl;

	vl->returning--;
	vfs_op_free(op);
	vfs_delegation_gone(vl, fh);
	delegations_return(vl);
}

static void delegations_returned(struct vfs_op *op)
{
	if (op->call.res.status)
		log_debug("DELEGRETURN: %s", strerror(-op->call.res.status));
	delegations_end(op);
}

static void delegations_closed(struct vfs_op *op)
{
	vfs_op_free(op);
}

/* CLOSE of what stays with it at the server: it rides in DELEGRETURN (nfs/close_ride.h). */
static bool delegations_close_one(struct vfs_lane *vl, struct nfs_delegation *d)
{
	struct vfs_op *op = vfs_op_new(vl);
	struct nfs_open *open = op ? nfs_delegation_open(vl->lane, d, &op->cred) : NULL;

	if (!open) {
		if (op)
			vfs_op_free(op);
		return false;
	}
	op->call.args.fh = &d->file->fh;        /* of which the open has a reference, too */
	op->call.open = open;
	vfs_start(op, NFS_OP_CLOSE, delegations_closed);
	return true;
}

/* The file of one to write, of which there may be data that the server does not have: a reference; or NULL. */
static struct inode *delegations_writes(const struct nfs_delegation *d)
{
	struct inode *ino = container_of(d->file, struct inode, file);

	return nfs_delegation_writes(d->number) && inode_ref_live(ino) ? ino : NULL;
}

static void delegations_claim(struct vfs_op *op);

static void delegations_claimed(struct vfs_op *op)
{
	if (op->call.res.status == -ENOTCONN || op->call.res.status == -ESHUTDOWN)
		delegations_end(op);
	else
		delegations_claim(op);
}

/* The next step of its return: locks that the server does not have, or DELEGRETURN. */
static void delegations_claim(struct vfs_op *op)
{
	struct nfs_delegation *d = op->call.args.delegation;

	op->call.open = nfs_delegation_locked(op->vl->lane, d, &op->cred);
	if (op->call.open) {
		vfs_start(op, NFS_OP_CLAIM, delegations_claimed);
		return;
	}
	while (delegations_close_one(op->vl, d))
		;
	op->cred = d->cred;
	vfs_start(op, NFS_OP_DELEGRETURN, delegations_returned);
}

static bool delegations_return_one(struct vfs_lane *vl)
{
	struct vfs_op *op = vfs_op_new(vl);
	struct nfs_delegation *d = op ? nfs_delegation_take(vl->lane) : NULL;

	if (!d) {
		if (op)
			vfs_op_free(op);
		return false;
	}
	op->ino = delegations_writes(d);
	op->call.args.fh = &d->file->fh;
	op->call.args.delegation = d;
	vl->returning++;
	delegations_claim(op);
	return true;
}

void delegations_return(struct vfs_lane *vl)
{
	while (nfs_delegations_due(vl->lane) && vl->returning < DELEGATIONS_MOST && nfs_lane_up(vl->lane) &&
	       delegations_return_one(vl))
		;
}

void delegations_on_due(struct loop_msg *m)
{
	struct vfs_lane *vl = container_of(m, struct vfs_lane, delegations_msg);

	vl->delegations_told = false;
	if (vl->lane->front)
		delegations_return(vl);
}

static bool delegations_any_leaves(struct vfs_lane *vl, uint64_t now_ns)
{
	list_for_each_entry(struct vfs_op, op, &vl->active, node)
		if (op->calling && (op->done == delegations_returned || op->done == delegations_claimed) &&
		    vfs_leave_lane(&op->call, now_ns))
			return true;
	return false;
}

/* The list changes. */
void delegations_move_all(struct vfs_lane *vl, uint64_t now_ns)
{
	while (vl->returning && vfs_other_lane(vl) && delegations_any_leaves(vl, now_ns))
		;
}
