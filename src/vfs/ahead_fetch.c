/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See ahead.h. What is read ahead, and the READs that do it. */
#include <stdlib.h>
#include <string.h>
#include "vfs/ahead_impl.h"
#include "vfs/inode_impl.h"

#define PAGE ((uint64_t)4096)
/* Strided: at most so many runs ahead. */
#define RUNS_MOST 16u
/* Lanes of one run are at most so far apart. */
#define BEHIND (2ull * VFS_IO_MAX)

/* What is going to be started when the lock is free. */
struct plan {
	struct vfs_lane *vl;
	struct file *file;
	uint64_t size;                  /* of the file, in whole pages */
	uint64_t now;
	struct list reqs;               /* by wait_node */
	unsigned n;
};

/* ---- one piece ---- */

/* A READ has ended, whatever its result. */
static void fetched(struct vfs_op *op)
{
	struct ahead_piece *p = op->fetches;
	const struct nfs_results *res = &op->call.res;
	struct vfs_lane *vl = op->vl;
	struct vfs_ahead *a = &vl->vfs->ahead;
	bool ok = !res->status && (res->io.len || res->io.eof);
	uint64_t now = mono_ns();

	/* What is not placed is short: it is in the message. */
	if (ok && res->io.len && res->io.ptr != p->buf[0]->mem) {
		memcpy(p->buf[0]->mem, res->io.ptr, res->io.len);
		stat_add(&vl->lane->stats, STAT_READ_COPIED_BYTES, res->io.len);
	}
	pthread_mutex_lock(&a->mu);
	p->flying = false;
	p->len = ok ? res->io.len : 0;
	p->eof = ok && res->io.eof;
	if (ok)
		ahead_window_latency(&op->file->ahead.window, now - p->sent_ns, now);
	ahead_landed(vl, p, ok, now);
	pthread_mutex_unlock(&a->mu);
	vfs_op_free(op);
	ahead_run_woken(vl);
}

static size_t buffer_size(uint64_t len)
{
	return len <= ARENA_SMALL_SIZE ? ARENA_SMALL_SIZE : len <= ARENA_MID_SIZE ? ARENA_MID_SIZE :
	       ARENA_BIG_SIZE;
}

/* Of all buffers of a piece. */
static size_t buffers_size(const struct vfs_ahead *a, uint64_t len)
{
	uint64_t rest = len % a->part;

	return (size_t)(len / a->part) * buffer_size(a->part) + (rest ? buffer_size(rest) : 0);
}

/* Others come first: is there room for one more READ that nobody has asked for? */
static bool has_room(const struct plan *pl, uint64_t len)
{
	const struct nfs_lane *l = pl->vl->lane;
	const struct vfs_ahead *a = &pl->vl->vfs->ahead;

	return a->used + buffers_size(a, len) <= a->most && pl->now >= atomic_load(&a->pause_ns) &&
	       l->active + pl->n < l->window / 2 && list_empty(&l->waiting) &&
	       list_empty(&pl->vl->want_buf) && nfs_lane_up(l);
}

static void set_args(struct vfs_op *op, const struct ahead_piece *p)
{
	uint32_t left = p->len, part = (uint32_t)op->vl->vfs->ahead.part, n;

	op->fetches = (struct ahead_piece *)(uintptr_t)p;
	op->call.open = op->file->open;
	op->call.args.io.offset = p->at;
	op->call.args.io.count = p->len;
	for (unsigned i = 0; i < RR_SINK_IOV; i++, left -= n) {
		n = left < part ? left : part;
		op->call.args.io.sink[i] = (struct rr_iov){ n ? p->buf[i]->mem : NULL, n };
	}
}

/* The count of changes comes first, then whether one is under way: see
 * ahead_change_begins(). */
static bool is_quiet(struct inode *ino, uint64_t *nr)
{
	*nr = atomic_load(&ino->data_nr);
	return !atomic_load(&ino->data_busy);
}

/* false: there is no buffer for a part of it. */
static bool get_buffers(const struct plan *pl, struct ahead_piece *p)
{
	const struct vfs_ahead *a = &pl->vl->vfs->ahead;
	unsigned i = 0;

	for (uint64_t at = 0; at < p->len; at += a->part) {
		uint64_t left = p->len - at;

		p->buf[i] = magazine_get_spare(&pl->vl->lane->mag, left < a->part ? left : a->part);
		if (!p->buf[i++])
			return false;
	}
	return true;
}

/* NULL: there are no buffers for it, or no memory. */
static struct ahead_piece *new_piece(const struct plan *pl, uint64_t at, uint64_t len, uint64_t nr)
{
	struct ahead_piece *p = malloc(sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct ahead_piece){
		.file = pl->file, .vl = pl->vl, .at = at, .len = (uint32_t)len, .flying = true,
		.nr = nr, .sent_ns = pl->now,
	};
	list_init(&p->waiters);
	if (get_buffers(pl, p))
		return p;
	ahead_piece_free(pl->vl, p);
	return NULL;
}

static bool add_piece(struct plan *pl, uint64_t at, uint64_t len)
{
	struct vfs_ahead *a = &pl->vl->vfs->ahead;
	struct ahead_piece *p;
	struct vfs_op *op;
	uint64_t nr;

	if (!has_room(pl, len) || !is_quiet(pl->file->ino, &nr))
		return false;
	p = new_piece(pl, at, len, nr);
	op = p ? vfs_op_quiet(pl->vl, pl->file->ino, &pl->file->cred) : NULL;
	if (!op) {
		if (p)
			ahead_piece_free(pl->vl, p);
		return false;
	}
	list_add_tail(&pl->file->ahead.pieces, &p->node);
	list_add_tail(&a->all, &p->all);
	atomic_fetch_add(&pl->file->ahead.npieces, 1);
	a->used += ahead_piece_size(p);
	file_ref(pl->file);
	op->file = pl->file;
	set_args(op, p);
	list_add_tail(&pl->reqs, &op->wait_node);
	pl->n++;
	return true;
}

/* ---- which ---- */

/* A piece that begins at `at`: ends at a multiple of rsize, with the file, and where the next
 * piece begins. */
static uint64_t length(const struct plan *pl, uint64_t at)
{
	uint64_t rsize = pl->vl->vfs->ahead.piece, len = rsize - at % rsize;

	if (len > pl->file->ahead.window.piece)
		len = pl->file->ahead.window.piece;
	if (len > pl->size - at)
		len = pl->size - at;
	list_for_each(n, &pl->file->ahead.pieces) {
		const struct ahead_piece *p = container_of(n, struct ahead_piece, node);

		if (p->at > at && p->at - at < len)
			len = p->at - at;
	}
	return len;
}

static void plan_sequential(struct plan *pl, const struct ahead_hint *h)
{
	uint64_t at = h->end, end = at + pl->file->ahead.window.size, len;
	const struct ahead_piece *p;

	while (at < end && at < pl->size) {
		p = ahead_piece_at(pl->file, at);
		if (p && p->eof)
			return;
		len = p ? p->at + p->len - at : length(pl, at);
		if (!p && !add_piece(pl, at, len))
			return;
		at += len;
	}
}

static void plan_strided(struct plan *pl, const struct ahead_hint *h)
{
	uint64_t left = pl->file->ahead.window.size, at = h->start, len = h->len;

	if (len > pl->vl->vfs->ahead.piece)
		len = pl->vl->vfs->ahead.piece;
	for (unsigned i = 0; i < RUNS_MOST && left >= len; i++, left -= len) {
		at += h->delta;
		/* Backwards, it gets beyond the end at last. */
		if (at >= pl->size)
			return;
		if (!ahead_piece_at(pl->file, at) &&
		    !add_piece(pl, at, len < pl->size - at ? len : pl->size - at))
			return;
	}
}

/* What was given out; and what the run has left behind, because the kernel had those pages
 * already. A piece that another lane has just given out is kept until that lane reads ahead, or
 * this one would take it for missing. */
static bool is_passed(const struct ahead_piece *p, const struct ahead_hint *h)
{
	uint64_t end = p->at + p->len;

	if (p->flying)
		return false;
	if (p->given >= p->len)
		return h->kind == AHEAD_STRIDED || p->at < h->start || end <= h->end;
	return h->kind == AHEAD_SEQUENTIAL && p->at >= h->start && end + BEHIND <= h->end;
}

static void drop_passed(struct plan *pl, const struct ahead_hint *h)
{
	list_for_each_safe(n, tmp, &pl->file->ahead.pieces) {
		struct ahead_piece *p = container_of(n, struct ahead_piece, node);

		if (is_passed(p, h))
			ahead_drop(pl->vl, p);
	}
}

/* Another lane may have seen later reads of the run, and their pieces may be gone already. */
static void catch_up(struct ahead *a, struct ahead_hint *h)
{
	if (a->run_start == h->start && a->run_end > h->end && a->run_end - h->end <= BEHIND)
		h->end = a->run_end;
	a->run_start = h->start;
	a->run_end = h->end;
}

static uint64_t size_of(struct inode_table *t, struct inode *ino)
{
	struct inode_shard *s = inode_shard_of(t, ino);
	uint64_t size;

	pthread_mutex_lock(&s->mu);
	size = ino->size;
	pthread_mutex_unlock(&s->mu);
	return size;
}

/* There is a buffer for one piece only. */
static bool is_scarce(const struct vfs_ahead *a)
{
	return a->most < 2 * ARENA_BIG_SIZE;
}

static void fetch(struct vfs_lane *vl, struct file *f, uint64_t bytes, struct ahead_hint *h)
{
	struct vfs_ahead *a = &vl->vfs->ahead;
	struct plan pl = { .vl = vl, .file = f, .now = mono_ns() };
	struct list *n;

	list_init(&pl.reqs);
	pl.size = (size_of(&vl->vfs->inodes, f->ino) + PAGE - 1) & ~(PAGE - 1);
	pthread_mutex_lock(&a->mu);
	ahead_purge(vl, f, pl.now);
	ahead_window_read(&f->ahead.window, bytes, a->window, a->piece, pl.now);
	if (h->kind == AHEAD_SEQUENTIAL && !is_scarce(a))
		catch_up(&f->ahead, h);
	drop_passed(&pl, h);
	if (h->kind == AHEAD_SEQUENTIAL)
		plan_sequential(&pl, h);
	else
		plan_strided(&pl, h);
	pthread_mutex_unlock(&a->mu);
	while ((n = list_pop(&pl.reqs))) {
		stat_add(&vl->lane->stats, STAT_AHEAD_READS, 1);
		vfs_start(container_of(n, struct vfs_op, wait_node), NFS_OP_READ, fetched);
	}
	ahead_run_woken(vl);
}

/* Nothing has op's data. If buffers are scarce, a READ of op's own would take the one that a piece
 * needs. So it becomes a piece, which begins with what op wants. */
static void read_missing(struct vfs_op *op, struct ahead_hint *hint)
{
	if (hint->kind == AHEAD_SEQUENTIAL && is_scarce(&op->vl->vfs->ahead)) {
		hint->end = op->data.start;
		fetch(op->vl, op->file, op->data.size, hint);
		hint->kind = AHEAD_NONE;
		if (ahead_serve(op))
			return;
	}
	read_start(op);
}

/* The answer first. f is kept, because op may be gone then. */
void ahead_read(struct vfs_op *op)
{
	struct vfs_lane *vl = op->vl;
	struct file *f = op->file;
	uint64_t bytes = op->data.size;
	struct ahead_hint hint;

	ahead_track(&f->ahead.track, op->data.start, op->data.size, &hint);
	if (hint.kind == AHEAD_NONE && !atomic_load(&f->ahead.npieces)) {
		read_start(op);
		return;
	}
	file_ref(f);
	if (!atomic_load(&f->ahead.npieces) || !ahead_serve(op))
		read_missing(op, &hint);
	if (hint.kind != AHEAD_NONE)
		fetch(vl, f, bytes, &hint);
	else
		ahead_run_woken(vl);
	file_put(vl, f);
}
