/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * WRITE. Mostly the data goes to write-behind (behind.h). The rest (direct, O_SYNC, noac, no room
 * at all) goes through: the operation owns the buffers until the server has replied, and asks for
 * FILE_SYNC, so that nothing has to be sent again after a restart of the server:
 *
 *      WRITE --FILE_SYNC--------------------------> the next part, or the end
 *       ^  \                                  |
 *       |   less --> COMMIT --same verifier---+
 *       +-------------+ another verifier: the server has restarted in between
 *
 * If a server does less than FILE_SYNC, COMMIT follows while the operation still owns the data. It
 * may write fewer bytes than it was asked to. Then we ask for the rest.
 */
#include <errno.h>
#include "vfs/vfs_impl.h"

/* The most COMMITs in a row with another verifier than the WRITE's, or that may have failed
 * before. */
#define WRITE_TRIES_MAX 8u

/* Moves the pieces on by the n bytes that have been written. */
static void write_advance(struct nfs_call *c, uint32_t n)
{
	c->args.io.offset += n;
	while (n && c->args.io.ndata) {
		struct rr_iov *d = &c->args.io.data[0];
		uint32_t part = n < d->len ? n : d->len;

		d->mem = (char *)d->mem + part;
		d->len -= part;
		n -= part;
		if (d->len == 0) {
			c->args.io.data[0] = c->args.io.data[1];
			c->args.io.ndata--;
		}
	}
}

/* The next n bytes are on stable storage. */
static void write_stable(struct vfs_op *op, uint32_t n)
{
	op->data.filled += n;
	op->data.tries = 0;
	op->vl->vfs->front->written(op->ino, op->call.args.io.offset + n);
	if (op->data.filled == op->data.size) {
		vfs_end(op);
		return;
	}
	write_advance(&op->call, n);
	write_through(op);
}

static void write_committed(struct vfs_op *op)
{
	struct nfs_call *c = &op->call;

	if (c->res.status || c->res.io.twice)
		behind_doubt(op);
	if (c->res.status) {
		vfs_end(op);
	} else if (c->res.io.verf == op->data.verf && !c->res.io.twice) {
		write_stable(op, c->args.io.count);
	} else if (++op->data.tries > WRITE_TRIES_MAX) {
		log_err("WRITE: %s sends another write verifier with each COMMIT, as if it had "
			"restarted each time, or no reply: EIO after %u tries", op->vl->vfs->cl->cfg.server,
			op->data.tries);
		vfs_end_with(op, -EIO);
	} else {
		write_through(op);
	}
}

static void write_done(struct vfs_op *op)
{
	struct nfs_call *c = &op->call;

	if (c->res.status) {
		behind_doubt(op);
		vfs_end(op);
	} else if (c->res.io.stable) {
		write_stable(op, c->res.io.len);
	} else {
		op->data.verf = c->res.io.verf;
		c->args.io.count = c->res.io.len;
		vfs_start(op, NFS_OP_COMMIT, write_committed);
	}
}

void write_through(struct vfs_op *op)
{
	op->call.args.io.unstable = false;
	vfs_start(op, NFS_OP_WRITE, write_done);
}

void vfs_write(struct vfs_op *op)
{
	op->call.open = op->file->open;
	if (behind_takes(op))
		behind_write(op);
	else
		behind_settle(op, op->ino, true, write_through);
}
