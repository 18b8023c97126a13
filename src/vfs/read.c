/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * READ: the server places the data in a data buffer (or sends it in the reply, if it is short),
 * and that memory is the result. The operation owns the buffer from the start of the READ until it
 * is freed. What is held (behind_read.c) or was read ahead (ahead.h) is the result without a call.
 * Or it is placed in memory that the front end has named (data.into), after all that is held.
 *
 * A server may read fewer bytes than it was asked to. Then we ask for the rest.
 */
#include <errno.h>
#include <string.h>
#include "vfs/vfs_impl.h"

/* The most READs in a row that bring no data and are not the end of the file. */
#define READ_TRIES_MAX 8u

static void read_done(struct vfs_op *op);

/* Where its data is to be. */
static char *read_memory(const struct vfs_op *op)
{
	return op->data.into ? op->data.into : op->data.buf[0]->mem;
}

static void read_more(struct vfs_op *op)
{
	struct nfs_io_args *io = &op->call.args.io;

	io->count = (uint32_t)(op->data.size - op->data.filled);
	io->sink[0] = (struct rr_iov){ read_memory(op) + op->data.filled, io->count };
	io->sink[1].len = 0;
	vfs_start(op, NFS_OP_READ, read_done);
}

/* Appends what has arrived to what is in the buffer. */
static void read_gather(struct vfs_op *op)
{
	struct nfs_call *c = &op->call;
	char *at = read_memory(op) + op->data.filled;

	/* Placed data is there already. */
	if (c->res.io.len && c->res.io.ptr != at) {
		memcpy(at, c->res.io.ptr, c->res.io.len);
		stat_add(&op->vl->lane->stats, STAT_READ_COPIED_BYTES, c->res.io.len);
	}
	op->data.filled += c->res.io.len;
	c->args.io.offset += c->res.io.len;
}

/* The reply has no bytes, but is not the end of the file. An empty result would be taken for the
 * end, and pages filled with zeros. */
static bool read_tried_enough(struct vfs_op *op)
{
	if (op->call.res.io.len) {
		op->data.tries = 0;
		return false;
	}
	return ++op->data.tries > READ_TRIES_MAX;
}

/* What was written before may not have been on the server yet when it read. Then the file has
 * no end here. */
static void read_again(struct vfs_op *op)
{
	op->data.reread = true;
	op->data.lays = false;
	op->call.args.io.offset = op->data.start;
	op->data.filled = 0;
	behind_settle(op, op->ino, true, read_more);
}

/* All that the server has sent for op is there. */
static void read_ends(struct vfs_op *op, const void *mem, size_t len)
{
	struct op_data *d = &op->data;
	bool again = d->lays ? !behind_lay(op, &len) :
		     len < d->size && !d->reread && behind_since(op->ino, op->call.eng.start_ns);

	if (again) {
		read_again(op);
		return;
	}
	d->iov[0] = (struct iovec){ (void *)(uintptr_t)mem, len };
	d->niov = 1;
	d->since_ns = op->start_ns;
	vfs_end(op);
}

static void read_done(struct vfs_op *op)
{
	struct nfs_call *c = &op->call;
	struct op_data *d = &op->data;
	const void *mem = c->res.io.ptr;
	size_t len = c->res.io.len;
	bool more;

	if (c->res.status || !op->waited) {
		vfs_end(op);
		return;
	}
	more = !c->res.io.eof && d->filled + len < d->size;
	if (more && read_tried_enough(op)) {
		log_err("READ: %s sends neither data nor the end of the file: EIO after %u tries",
			op->vl->vfs->cl->cfg.server, d->tries);
		vfs_end_with(op, -EIO);
		return;
	}
	if (more || d->filled || d->lays || d->into) {
		read_gather(op);
		if (more) {
			read_more(op);
			return;
		}
		mem = read_memory(op);
		len = d->filled;
	}
	read_ends(op, mem, len);
}

static bool read_try(struct vfs_op *op)
{
	struct arena_buf *buf = magazine_get_data(&op->vl->lane->mag, op->data.size);

	op->data.buf[0] = buf;
	if (buf)
		op->go(op);
	return buf;
}

bool read_retry(struct vfs_lane *vl)
{
	while (!list_empty(&vl->want_buf)) {
		struct vfs_op *op = container_of(vl->want_buf.next, struct vfs_op, wait_node);

		list_del(&op->wait_node);
		if (!read_try(op)) {
			list_add_head(&vl->want_buf, &op->wait_node);
			return false;
		}
	}
	return true;
}

/* Calls go(op) when it has a buffer. */
static void read_with_buffer(struct vfs_op *op, void (*go)(struct vfs_op *op))
{
	op->go = go;
	if (op->data.buf[0]) {
		go(op);
	} else if (!list_empty(&op->vl->want_buf) || !read_try(op)) {
		stat_add(&op->vl->lane->stats, STAT_FUSE_WAITS, 1);
		list_add_tail(&op->vl->want_buf, &op->wait_node);
	}
}

void read_start(struct vfs_op *op)
{
	read_with_buffer(op, read_more);
}

/* Nothing is held of it, or not any more. */
static void read_now(struct vfs_op *op)
{
	if (op->vl->vfs->ahead.window && op->data.cached)
		ahead_read(op);
	else
		read_start(op);
}

/* Something is held of the file. What is answered from there is copied, so there is a buffer. */
static void read_held(struct vfs_op *op)
{
	switch (behind_read(op)) {
	case BEHIND_ALL:
		vfs_end_with(op, 0);
		break;
	case BEHIND_SOME:
		read_more(op);
		break;
	case BEHIND_FIRST:
		behind_settle(op, op->ino, true, read_now);
		break;
	case BEHIND_NONE:
		read_now(op);
	}
}

void vfs_read(struct vfs_op *op)
{
	op->call.open = op->file->open;
	op->call.args.io.offset = op->data.start;
	if (op->data.into)
		behind_settle(op, op->ino, true, read_more);
	else if (behind_holds(op->ino))
		read_with_buffer(op, read_held);
	else
		read_now(op);
}
