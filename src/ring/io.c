/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Entries: what they ask for is checked, and done by operations of src/vfs, as long as rsize or wsize
 * at most, one after the other. An entry has references to its file, and its memory is counted, until
 * the last of them has ended: so neither goes away under the server.
 *
 *     queue_take --> io_begin --> operation --> io_ended --> the next piece, or io_finish --> queue_add
 *
 * A WRITE begins when the kernel has written what a mapping has changed (vfs_front.writes_past), and is
 * done when no other open of this mount reads older bytes by the kernel's cache (written_past).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include "ring/impl.h"

/* At most so many entries of a ring are taken before others get their turn. */
#define TAKE_MOST 256u

static void io_next(struct ring_io *io);

static void io_count(struct ring_io *io)
{
	struct ring *ring = io->ring;
	struct stats *st = &ring->vl->lane->stats;

	stat_add_to(io->write ? &ring->writes : &ring->reads, 1);
	stat_add_to(io->write ? &ring->written_bytes : &ring->read_bytes, io->done);
	stat_add(st, io->write ? STAT_RING_WRITES : STAT_RING_READS, 1);
	stat_add(st, io->write ? STAT_RING_WRITTEN_BYTES : STAT_RING_READ_BYTES, io->done);
}

/* What was read has gone nowhere then, and what was written may be zeros. */
static bool io_is_lost(const struct ring *ring, unsigned memory)
{
	return lent_is_lost(&ring->vl->vfs->cl->arena.lent, ring->memory[memory].at);
}

/* Bytes that were read or written before an error are what the program hears of first. */
static void io_finish(struct ring_io *io, int status)
{
	struct ring *ring = io->ring;
	int64_t result = io_is_lost(ring, io->memory) ? -EFAULT : io->done ? (int64_t)io->done : status;

	io_count(io);
	queue_add(&ring->q, io->user_data, result);
	ring->memory[io->memory].users--;
	list_del(&io->node);
	list_add_head(&ring->free, &io->node);
	ring->nbusy--;
	ring->vl->ring_entries--;
	file_put(ring->vl, io->file);
	lane_look(ring);
}

static void io_ended(struct vfs_op *op)
{
	struct ring_io *io = op->asker;
	int status = op->call.res.status;
	size_t n = io->write ? op->data.filled : status || !op->data.niov ? 0 : op->data.iov[0].iov_len, wanted = op->data.size;

	io->op = NULL;
	vfs_op_free(op);
	io->done += (uint32_t)n;
	io->left -= (uint32_t)n;
	io->offset += n;
	io->at += n;
	if (status || n < wanted || !io->left || io->ring->ending)
		io_finish(io, status);
	else
		io_next(io);
}

/* The kernel writes what a mapping has changed meanwhile before it drops a page: that WRITE must not wait for this one. */
static void io_written(struct vfs_op *op)
{
	const struct vfs_front *front = op->vl->vfs->front;

	vfs_change_over(op);
	if (front->written_past && (op->data.filled || op->call.res.status))
		front->written_past(op, io_ended);
	else
		io_ended(op);
}

static void io_read_next(struct ring_io *io, struct vfs_op *op)
{
	op->end = io_ended;
	op->data.into = io->at;
	vfs_read(op);
}

static void io_write_next(struct ring_io *io, struct vfs_op *op)
{
	const struct vfs_front *front = op->vl->vfs->front;
	struct nfs_io_args *a = &op->call.args.io;

	op->end = io_written;
	a->offset = io->offset;
	a->data[0] = (struct rr_iov){ io->at, (uint32_t)op->data.size };
	a->ndata = 1;
	if (front->writes_past)
		front->writes_past(op, vfs_write);
	else
		vfs_write(op);
}

static void io_next(struct ring_io *io)
{
	struct ring *ring = io->ring;
	struct vfs_op *op = vfs_op_quiet(ring->vl, io->file->ino, &io->file->cred);
	uint32_t most = atomic_load(io->write ? &ring->vl->vfs->cl->wsize : &ring->vl->vfs->cl->rsize);

	if (!op) {
		io_finish(io, -ENOMEM);
		return;
	}
	io->op = op;
	op->asker = io;
	op->waited = true;
	file_ref(io->file);
	op->file = io->file;
	op_data_begins(op);
	op->data.size = io->left < most ? io->left : most;
	op->data.start = io->offset;
	if (io->write)
		io_write_next(io, op);
	else
		io_read_next(io, op);
}

/* 0, or why not. */
static int io_check(const struct ring *ring, const struct ring_sqe *e)
{
	static const uint64_t zero3[3];
	const struct ring_memory_of *m;
	const struct ring_file *f;

	if ((e->op != RING_READ && e->op != RING_WRITE) || e->zero || e->zero2 || memcmp(e->zero3, zero3, sizeof(zero3)) ||
	    !e->len || e->len > RING_IO_MAX || e->offset > (uint64_t)INT64_MAX - e->len)
		return -EINVAL;
	f = e->file < RING_FILES ? ring->file[e->file] : NULL;
	if (!f || f->access == (e->op == RING_READ ? O_WRONLY : O_RDONLY))
		return -EBADF;
	m = e->memory < RING_MEMORIES ? &ring->memory[e->memory] : NULL;
	if (!m || !m->at || e->at > m->len || e->len > m->len - e->at || io_is_lost(ring, e->memory))
		return -EFAULT;
	return 0;
}

static void io_begin(struct ring *ring, const struct ring_sqe *e)
{
	struct ring_io *io;
	int rc = io_check(ring, e);

	if (rc) {
		queue_add(&ring->q, e->user_data, rc);
		return;
	}
	io = container_of(list_pop(&ring->free), struct ring_io, node);
	list_add_tail(&ring->busy, &io->node);
	ring->nbusy++;
	ring->vl->ring_entries++;
	io->file = ring->file[e->file]->file;
	file_ref(io->file);
	io->memory = e->memory;
	ring->memory[io->memory].users++;
	io->at = ring->memory[io->memory].at + e->at;
	io->user_data = e->user_data;
	io->offset = e->offset;
	io->left = e->len;
	io->done = 0;
	io->write = e->op == RING_WRITE;
	io_next(io);
}

/* No entry is taken any more. */
static bool io_is_over(const struct ring *ring)
{
	return ring->ending || ring->broken;
}

/* May one more be under way? */
static bool io_has_room(const struct ring *ring)
{
	return !list_empty(&ring->free) &&
	       (ring->nbusy < RING_BUSY_SURE || ring->vl->ring_entries < LANE_BUSY_MOST);
}

/* What may not be taken stays where it is, and nobody turns for it. */
bool io_sleep(struct ring *ring)
{
	return !io_is_over(ring) &&
	       ((queue_sleep(&ring->q) && io_has_room(ring)) || ring->q.published != ring->q.done);
}

bool io_run(struct ring *ring)
{
	enum queue_next next = QUEUE_EMPTY;
	struct ring_sqe e;
	bool worked = ring->q.published != ring->q.done;

	queue_awake(&ring->q);
	for (unsigned n = 0; !io_is_over(ring) && io_has_room(ring) && n < TAKE_MOST &&
	     (next = queue_take(&ring->q, &e)) == QUEUE_ENTRY; n++) {
		io_begin(ring, &e);
		worked = true;
	}
	/* The program's socket is closed then, by which it hears of that. */
	if (next == QUEUE_BROKEN) {
		ring->broken = true;
		loop_post(ring->rings->loop, &ring->broken_msg);
	}
	if (queue_publish(&ring->q))
		send(ring->bell.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);       /* full: it is awake */
	/* A program that sleeps fills nothing, so there is no reason to look again before the lane sleeps. */
	return worked && !queue_program_sleeps(&ring->q);
}

/* The list may change with each, so it is looked at from the beginning. */
static struct ring_io *io_still_waited(struct ring *ring)
{
	list_for_each_entry(struct ring_io, io, &ring->busy, node)
		if (io->op && io->op->waited)
			return io;
	return NULL;
}

void io_give_up(struct ring *ring)
{
	struct ring_io *io;

	while ((io = io_still_waited(ring)))
		if (!vfs_give_up(io->op) && io->op)
			io->op->waited = false;
}
