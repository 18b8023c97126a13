/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: gathering, and the answer. See behind.h. */
#include <errno.h>
#include <string.h>
#include "vfs/behind_impl.h"

/* A write of at most so many bytes is copied into a WRITE that it continues or changes. More
 * bytes stay where the front end has put them. */
uint32_t behind_gather_max = 131072;
/* The most WRITEs of a file that wait for what continues them; then the oldest is sent. */
#define OPEN_ENDS 16u

void behind_end(struct vfs_op *op)
{
	atomic_fetch_sub(&op->vl->vfs->behind.bytes, op->data.held.len);
	behind_give_room(op);
	op->data.held.state = HELD_NOT;
	vfs_op_free(op);
}

/* ---- gathering ---- */

/* Where a WRITE that begins at offset has to end: WRITEs end at multiples of wsize. */
static uint64_t limit_of(const struct vfs_op *w)
{
	uint64_t size = w->vl->vfs->cl->wsize;

	return (w->data.held.offset / size + 1) * size;
}

/* Copies op's data into w, `at` bytes behind w's beginning. */
static void behind_copy(struct vfs_op *w, size_t at, const struct vfs_op *op)
{
	const struct nfs_io_args *io = &op->call.args.io;

	for (uint32_t i = 0; i < io->ndata; i++) {
		const char *from = io->data[i].mem;

		for (size_t left = io->data[i].len, n; left; left -= n, at += n, from += n) {
			char *to = held_at(w, at, &n);

			n = n < left ? n : left;
			memcpy(to, from, n);
		}
	}
}

/* One more large buffer for w. */
static bool gets_buffer(struct vfs_op *w, const struct vfs_op *op)
{
	struct behind_pool *p = &op->vl->vfs->behind;
	struct extents *x = extents_of(op->ino);
	unsigned i = w->data.held.nparts;

	if (i == RR_SEND_IOV || !behind_take_more(p, x, ARENA_BIG))
		return false;
	w->data.buf[i] = magazine_get_spare(&op->vl->lane->mag, ARENA_BIG_SIZE);
	if (w->data.buf[i]) {
		w->data.held.part[w->data.held.nparts++] = 0;
		return true;
	}
	behind_give_one(p, x, ARENA_BIG);
	return false;
}

/* Makes w as long as n bytes: its last buffer has room for the rest of them, or one more has. */
static bool behind_grows(struct vfs_op *w, const struct vfs_op *op, size_t n)
{
	struct held *h = &w->data.held;
	unsigned last = h->nparts - 1;
	size_t more = n > h->len ? n - h->len : 0, left = w->data.buf[last]->size - h->part[last];

	if (more > left && !gets_buffer(w, op))
		return false;
	left = more < left ? more : left;
	h->part[last] += (uint32_t)left;
	if (more > left)
		h->part[last + 1] = (uint32_t)(more - left);
	return true;
}

/* w's end is `to` now. */
static void set_end_locked(struct extents *x, struct vfs_op *w, uint64_t to)
{
	if (to > held_end(w)) {
		atomic_fetch_add(&w->vl->vfs->behind.bytes, to - held_end(w));
		w->data.held.len = (uint32_t)(to - w->data.held.offset);
		held_resized(x->tree, w);
	}
	if (to == limit_of(w))
		behind_set_locked(x, w, HELD_DUE);
}

static bool takes_more(const struct vfs_op *w, const struct file *f)
{
	return (w->data.held.state == HELD || w->data.held.state == HELD_DUE) && w->file == f;
}

/* The WRITE that can have these bytes, which were written through f, as well: the newest of those that they
 * change, because it follows the others anyway; or one that they continue. NULL: there is none. */
static struct vfs_op *find_host_locked(struct extents *x, const struct file *f, uint64_t from,
				       uint64_t to)
{
	struct vfs_op *changed = NULL, *continued = NULL;

	/* What it continues has the byte before. */
	held_each(w, x->tree, from ? from - 1 : 0, to) {
		if (held_end(w) <= from) {
			if (!continued && takes_more(w, f))
				continued = w;
		} else if (!changed || w->data.held.seq > changed->data.held.seq) {
			if (w->data.held.offset > from)
				return NULL;    /* nor does any one behind it begin in time */
			changed = w;
		}
	}
	if (!changed)
		return continued;
	return takes_more(changed, f) ? changed : NULL;
}

/* Is op's data in another WRITE now? */
static bool gather_locked(struct extents *x, const struct vfs_op *op)
{
	uint64_t from = op->call.args.io.offset, to = from + op->data.size;
	struct vfs_op *w = NULL;

	if (op->data.size <= behind_gather_max)
		w = find_host_locked(x, op->file, from, to);
	if (!w || to > limit_of(w) || !behind_grows(w, op, (size_t)(to - w->data.held.offset)))
		return false;
	behind_copy(w, (size_t)(from - w->data.held.offset), op);
	stat_add(&op->vl->lane->stats, STAT_BEHIND_GATHERED, op->data.size);
	set_end_locked(x, w, to);
	return true;
}

/* The same without a copy: w, which is held nowhere yet, continues a WRITE, and that gets its
 * buffers. */
static bool join_locked(struct extents *x, struct vfs_op *w)
{
	uint64_t from = w->data.held.offset, to = held_end(w);
	struct vfs_op *host = find_host_locked(x, w->file, from, to);
	struct held *h;

	if (!host || held_end(host) != from || to > limit_of(host) ||
	    host->data.held.nparts + w->data.held.nparts > RR_SEND_IOV)
		return false;
	h = &host->data.held;
	for (unsigned i = 0; i < w->data.held.nparts; i++) {
		h->part[h->nparts] = w->data.held.part[i];
		host->data.buf[h->nparts++] = w->data.buf[i];
		w->data.buf[i] = NULL;
	}
	set_end_locked(x, host, to);
	if (atomic_load(&w->vl->vfs->behind.nwaiting))
		behind_set_locked(x, host, HELD_DUE);
	return true;
}

/* ---- the end of a write ---- */

/* op's data is in a WRITE that is held. */
static void behind_answer(struct vfs_op *op)
{
	stat_add(&op->vl->lane->stats, STAT_BEHIND_BYTES, op->data.size);
	op->data.filled = op->data.size;
	vfs_end_with(op, 0);
}

/* What op continues, or what has been waiting for longest, will hardly grow any more. */
static void want_others_locked(struct extents *x, const struct vfs_op *op)
{
	unsigned open = 0;

	list_for_each_safe(n, tmp, &x->in[HELD]) {
		struct vfs_op *w = held_of(n);

		if (w != op && held_end(w) == op->data.held.offset)
			behind_set_locked(x, w, HELD_DUE);
		else
			open += w != op;
	}
	if (open >= OPEN_ENDS)
		behind_set_locked(x, held_first(&x->in[HELD]), HELD_DUE);
}

/* The WRITE that op's data becomes: it gets op's buffers. NULL: no memory. */
static struct vfs_op *new_held(struct vfs_op *op)
{
	const struct nfs_io_args *io = &op->call.args.io;
	struct vfs_op *w = vfs_op_quiet(op->vl, op->ino, &op->cred);
	struct held *h;

	if (!w)
		return NULL;
	op_data_begins(w);
	file_ref(op->file);
	w->file = op->file;
	w->call.open = op->file->open;
	h = &w->data.held;
	*h = (struct held){ .offset = io->offset, .len = (uint32_t)op->data.size, .since_ns = mono_ns(),
			    .msg.fn = behind_on_msg, .nparts = io->ndata };
	for (unsigned i = 0; i < io->ndata; i++) {
		h->part[i] = io->data[i].len;
		w->data.buf[i] = op->data.buf[i];
		op->data.buf[i] = NULL;
	}
	return w;
}

static void hold_locked(struct extents *x, struct vfs_op *w)
{
	atomic_fetch_add(&w->vl->vfs->behind.bytes, w->data.held.len);
	ahead_change_begins(w->ino);
	w->data.held.seq = ++x->seq;
	held_insert(&x->tree, w);
	behind_set_locked(x, w, HELD);
	atomic_fetch_add(&x->count, 1);
	if (held_end(w) >= limit_of(w) || atomic_load(&w->vl->vfs->behind.nwaiting))
		behind_set_locked(x, w, HELD_DUE);
	want_others_locked(x, w);
}

/* op ends, and the file goes on. */
static void answer_and_go_on(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	struct inode *ino = op->ino;

	inode_ref(ino);
	behind_answer(op);
	behind_progress(ino);
	inode_put(t, ino, 1);
}

/* Sends op like a file system that has no write-behind. */
static void behind_through(struct vfs_op *op)
{
	behind_settle(op, op->ino, true, write_through);
}

/* op has room: its data is a part of a WRITE that is held, or becomes one. */
static void behind_hold(struct vfs_op *op)
{
	struct extents *x = extents_of(op->ino);
	struct vfs_op *w = new_held(op);
	bool joins, first;

	if (!w) {
		behind_give_room(op);
		behind_through(op);
		return;
	}
	pthread_mutex_lock(&x->mu);
	joins = join_locked(x, w);
	if (!joins)
		hold_locked(x, w);
	first = !x->on_lane;
	x->on_lane = true;
	pthread_mutex_unlock(&x->mu);
	/* The file gets its first WRITE: this lane's tick looks after it. */
	if (first) {
		inode_ref(x->ino);
		list_add_tail(&vfs_this_lane->held, &x->lane_node);
	}
	if (joins)
		vfs_op_free(w);
	answer_and_go_on(op);
}

/* ---- a new WRITE ---- */

/* op has waited for room, and has it now. */
static void on_room(struct loop_msg *m)
{
	struct vfs_op *op = container_of(m, struct vfs_op, data.held.msg);

	op->data.held.posted = false;
	op->waits_room = false;
	if (op->waited && !atomic_load(&op->vl->vfs->behind.closed)) {
		behind_hold(op);
		return;
	}
	behind_give_room(op);
	if (op->waited)
		behind_through(op);
	else
		vfs_end_with(op, -EINTR);   /* given up meanwhile */
}

void behind_write(struct vfs_op *op)
{
	struct extents *x = extents_make(op->ino);
	/* What a mapping has changed is written in any case. */
	int err = x && !op->data.writeback ? behind_error(op->file, true) : 0;
	bool gathered, due;

	if (!x) {
		behind_through(op);
		return;
	}
	if (err) {
		op->data.late_error = true;
		vfs_end_with(op, err);
		return;
	}
	pthread_mutex_lock(&x->mu);
	gathered = gather_locked(x, op);
	due = !list_empty(&x->in[HELD_DUE]);
	pthread_mutex_unlock(&x->mu);
	if (gathered && !due)
		behind_answer(op);
	else if (gathered)
		answer_and_go_on(op);
	else if (behind_has_room(op, on_room))
		behind_hold(op);
}

bool behind_takes(const struct vfs_op *op)
{
	const struct behind_pool *p = &op->vl->vfs->behind;

	if (!op->waited)
		return false;           /* its process was killed while it was parked */
	return op->data.quick && p->most[ARENA_MID] && !atomic_load(&p->closed) && !atomic_load(&p->off) &&
	       (!op->data.buf[1] || p->most[ARENA_BIG]);
}
