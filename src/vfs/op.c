/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Operations: their life. Each lane has its own. They are taken and freed on its thread, and kept
 * for the next one. So once a mount has warmed up, none is allocated, but for a crowd of them, whose
 * memory goes back. What they do: start.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vfs/vfs_impl.h"

/* A lane keeps so many. */
#define IDLE_MOST 1024u

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
	vl->nidle -= n != NULL;
	memset(op, 0, offsetof(struct vfs_op, data));
	op->call.flags = 0;
	op->call.args.fh = op->call.args.fh2 = NULL;
	op->call.args.name = op->call.args.name2 = NULL;
	op->call.args.nwhere = 0;
	op->call.args.file.verifier = 0;
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

/* ---- what it holds: start.c ---- */

static void op_count_held(struct vfs_op *op, int n)
{
	if (op->ino)
		atomic_fetch_add(&op->ino->held, (unsigned)n);
	if (op->ino2)
		atomic_fetch_add(&op->ino2->held, (unsigned)n);
}

void vfs_hold(struct vfs_op *op)
{
	op->holds = true;
	op->changes += !op->changes;
	op_count_held(op, 1);
}

void vfs_change_over(struct vfs_op *op)
{
	if (op->holds)
		op_count_held(op, -1);
	op->holds = false;
	op->changes = 0;
}

static void op_keep(struct vfs_lane *vl, struct vfs_op *op)
{
	if (vl->nidle >= IDLE_MOST) {
		free(op);
		return;
	}
	list_add_head(&vl->idle, &op->node);
	vl->nidle++;
}

void vfs_op_free(struct vfs_op *op)
{
	struct vfs_lane *vl = op->vl;
	struct inode_table *t = &vl->vfs->inodes;
	struct file *file = op->file;

	vfs_change_over(op);
	if (op->release)
		op->release(op);
	if (op->memory)
		free(op->memory);
	vl->vfs->front->op_ends(op);
	if (op->ino)
		inode_put(t, op->ino, 1);
	if (op->ino2)
		inode_put(t, op->ino2, 1);
	list_del(&op->node);
	op_keep(vl, op);
	/* Last, because it may start a CLOSE, and op may become the operation of that. */
	if (file)
		file_put(vl, file);
}

void op_data_release(struct vfs_op *op)
{
	for (unsigned i = 0; i < RR_SEND_IOV && op->data.buf[i]; i++)
		magazine_put(&op->vl->lane->mag, op->data.buf[i]);
}

void op_data_begins(struct vfs_op *op)
{
	memset(&op->data, 0, offsetof(struct op_data, held));
	op->data.held.state = HELD_NOT;
	op->release = op_data_release;
}

bool op_data_buffers(struct vfs_lane *vl, struct arena_buf **mid, struct arena_buf **big)
{
	if (!*mid)
		*mid = magazine_get(&vl->lane->mag, ARENA_MID);
	if (!*big)
		*big = magazine_get(&vl->lane->mag, ARENA_BIG);
	return *mid && *big;
}

/* The first `size` bytes of *b are the next ones. */
static void op_data_take_one(struct vfs_op *op, struct arena_buf **b, size_t size)
{
	struct nfs_io_args *io = &op->call.args.io;

	op->data.buf[io->ndata] = *b;
	io->data[io->ndata++] = (struct rr_iov){ (*b)->mem, (uint32_t)size };
	*b = NULL;
}

void op_data_take(struct vfs_op *op, struct arena_buf **mid, struct arena_buf **big)
{
	size_t size = op->data.size, first = size < (*mid)->size ? size : (*mid)->size;

	op->call.args.io.ndata = 0;
	op_data_take_one(op, mid, first);
	if (first < size)
		op_data_take_one(op, big, size - first);
}

void op_data_copy(struct vfs_op *op, struct arena_buf **mid, struct arena_buf **big, const char *data)
{
	size_t size = op->data.size, first = size < (*mid)->size ? size : (*mid)->size;

	memcpy((*mid)->mem, data, first);
	memcpy((*big)->mem, data + first, size - first);
	op_data_take(op, mid, big);
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

/* ---- lanes ---- */

_Thread_local struct vfs_lane *vfs_this_lane;

/* What was sent costs a slot of the session then, and connections mostly come back sooner. */
#define STAYS_NS 5000000000ull

struct vfs_lane *vfs_other_lane(const struct vfs_lane *vl)
{
	struct vfs *vfs = vl->vfs;

	if (nfs_lane_up(vl->lane))
		return NULL;
	for (unsigned i = 0; i < vfs->nlanes; i++)
		if (nfs_lane_up(vfs->lanes[i]->lane))
			return vfs->lanes[i];
	return NULL;
}

bool vfs_leave_lane(struct nfs_call *c, uint64_t now_ns)
{
	uint64_t posted_ns = c->eng.rr.posted_ns;

	return nfs_take_back(c, -ENOTCONN) ||
	       (now_ns > posted_ns && now_ns - posted_ns >= STAYS_NS && nfs_abandon(c, -ENOTCONN));
}
