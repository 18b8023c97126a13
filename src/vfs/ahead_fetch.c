/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See ahead.h. What is read ahead, and the READs that do it. */
#include <stdlib.h>
#include <string.h>
#include "vfs/ahead_impl.h"

#define PAGE ((uint64_t)4096)
/* The most READs that are begun for one read; if strided, the most runs ahead. */
#define RUNS_MOST 16u
/* Lanes of one run are at most so far apart. */
#define BEHIND (2ull * VFS_IO_MAX)

/* What is going to be fetched: made with the file's lock held. */
struct plan {
	struct vfs_lane *vl;
	struct file *file;
	struct extents *x;
	uint64_t size;                  /* of the file, in whole pages */
	uint64_t now;
	uint64_t nr;                    /* the file's data_nr */
	size_t room;                    /* for the buffers of so many bytes more */
	unsigned n;
	struct { uint64_t at, len; } want[RUNS_MOST];
};

/* ---- one piece ---- */

/* A READ has ended, whatever its result. */
static void ahead_fetch_done(struct vfs_op *op)
{
	struct ahead_piece *p = op->fetches;
	const struct nfs_results *res = &op->call.res;
	struct vfs_lane *vl = op->vl;
	struct extents *x = extents_of(op->ino);
	bool ok = !res->status && (res->io.len || res->io.eof);
	uint64_t now = mono_ns();

	/* What is not placed is short: it is in the message. */
	if (ok && res->io.len && res->io.ptr != p->buf[0]->mem) {
		memcpy(p->buf[0]->mem, res->io.ptr, res->io.len);
		stat_add(&vl->lane->stats, STAT_READ_COPIED_BYTES, res->io.len);
	}
	pthread_mutex_lock(&x->mu);
	p->len = ok ? res->io.len : 0;
	p->eof = ok && res->io.eof;
	if (ok)
		ahead_window_latency(&op->file->ahead.window, now - p->sent_ns, now);
	ahead_landed_locked(vl, p, ok, now);
	pthread_mutex_unlock(&x->mu);
	vfs_op_free(op);
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
static bool has_room(const struct plan *pl, size_t size)
{
	const struct nfs_lane *l = pl->vl->lane;

	return size <= pl->room && pl->now >= atomic_load(&pl->vl->vfs->ahead.pause_ns) &&
	       l->active + pl->n < l->window / 2 && list_empty(&l->waiting) &&
	       list_empty(&pl->vl->want_buf) && nfs_lane_up(l);
}

/* The count of changes comes first, then whether one is under way: see
 * ahead_change_begins(). */
static bool is_quiet(struct inode *ino, uint64_t *nr)
{
	*nr = atomic_load(&ino->data_nr);
	return !atomic_load(&ino->data_busy);
}

/* The READ's arguments, with buffers for the piece. false: there is none for a part of it. */
static bool get_buffers(struct vfs_op *op, struct ahead_piece *p)
{
	uint32_t left = p->len, part = (uint32_t)op->vl->vfs->ahead.part, n;
	struct nfs_io_args *io = &op->call.args.io;

	op->call.open = op->file->open;
	io->offset = p->at;
	io->count = p->len;
	for (unsigned i = 0; i < RR_SINK_IOV; i++, left -= n) {
		n = left < part ? left : part;
		p->buf[i] = n ? magazine_get_spare(&op->vl->lane->mag, n) : NULL;
		if (n && !p->buf[i])
			return false;
		io->sink[i] = (struct rr_iov){ n ? p->buf[i]->mem : NULL, n };
	}
	return true;
}

/* op has not been sent, and its piece is in no list. */
static void ahead_fetch_discard(struct vfs_op *op)
{
	op->fetches->len = 0;           /* nothing is wasted */
	ahead_put(op->vl, op->fetches);
	vfs_op_free(op);
}

/* A READ and its piece, to which it has a reference. NULL: others have taken the room, there are no
 * buffers for it, or no memory. */
static struct vfs_op *new_fetch(const struct plan *pl, uint64_t at, uint64_t len)
{
	struct vfs_ahead *a = &pl->vl->vfs->ahead;
	struct ahead_piece *p = malloc(sizeof(*p));
	struct vfs_op *op = p ? vfs_op_quiet(pl->vl, pl->file->ino, &pl->file->cred) : NULL;

	if (!op) {
		free(p);
		return NULL;
	}
	*p = (struct ahead_piece){
		.vl = pl->vl, .at = at, .len = (uint32_t)len, .refs = 1,
		.size = buffers_size(a, len), .nr = pl->nr, .sent_ns = pl->now,
	};
	op->fetches = p;
	op->file = pl->file;
	file_ref(op->file);
	if (atomic_fetch_add(&a->used, p->size) + p->size <= a->most && get_buffers(op, p))
		return op;
	ahead_fetch_discard(op);
	return NULL;
}

/* Unless another lane has been faster. */
static void add_locked(struct extents *x, struct file *f, struct ahead_piece *p)
{
	if (ahead_piece_at_locked(x, p->at) || ahead_piece_at_locked(x, p->at + p->len - 1))
		return;
	p->file = f;
	p->flying = true;
	atomic_fetch_add(&p->refs, 1);
	list_add_tail(&x->pieces, &p->node);
	atomic_fetch_add(&x->npieces, 1);
}

/* The pieces are made, put into the file's list, and fetched. No lock may be held. */
static void ahead_fetch_send(struct plan *pl)
{
	struct extents *x = pl->x;
	struct vfs_op *op[RUNS_MOST];
	unsigned n = 0;
	bool listed;

	while (n < pl->n && (op[n] = new_fetch(pl, pl->want[n].at, pl->want[n].len)))
		n++;
	pl->n = 0;
	if (!n)
		return;
	pthread_mutex_lock(&x->mu);
	for (unsigned i = 0; i < n; i++)
		add_locked(x, pl->file, op[i]->fetches);
	listed = x->listed;
	pthread_mutex_unlock(&x->mu);
	/* Before their READs can end: see ahead_give_way(). */
	if (!listed)
		ahead_relist(&pl->vl->vfs->ahead, x);
	for (unsigned i = 0; i < n; i++) {
		if (op[i]->fetches->flying) {
			stat_add(&pl->vl->lane->stats, STAT_AHEAD_READS, 1);
			vfs_start(op[i], NFS_OP_READ, ahead_fetch_done);
		} else {
			ahead_fetch_discard(op[i]);
		}
	}
}

/* ---- which; the file's lock is held ---- */

/* false: no more. */
static bool ahead_fetch_want(struct plan *pl, uint64_t at, uint64_t len)
{
	size_t size = buffers_size(&pl->vl->vfs->ahead, len);

	if (pl->n == RUNS_MOST || !has_room(pl, size))
		return false;
	pl->room -= size;
	pl->want[pl->n].at = at;
	pl->want[pl->n++].len = len;
	return true;
}

/* A piece that begins at `at`: ends at a multiple of rsize, with the file, and where the next
 * piece begins. */
static uint64_t ahead_fetch_length(const struct plan *pl, uint64_t at)
{
	uint64_t rsize = pl->vl->vfs->ahead.piece, len = rsize - at % rsize;

	if (len > pl->file->ahead.window.piece)
		len = pl->file->ahead.window.piece;
	if (len > pl->size - at)
		len = pl->size - at;
	ahead_each(p, pl->x)
		if (p->at > at && p->at - at < len)
			len = p->at - at;
	return len;
}

static void plan_sequential(struct plan *pl, const struct ahead_hint *h)
{
	uint64_t at = h->end, end = at + pl->file->ahead.window.size, len;
	const struct ahead_piece *p;

	while (at < end && at < pl->size) {
		p = ahead_piece_at_locked(pl->x, at);
		if (p && p->eof)
			return;
		len = p ? p->at + p->len - at : ahead_fetch_length(pl, at);
		if (!p && !ahead_fetch_want(pl, at, len))
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
		if (!ahead_piece_at_locked(pl->x, at) &&
		    !ahead_fetch_want(pl, at, len < pl->size - at ? len : pl->size - at))
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
	ahead_each(p, pl->x) {
		if (p->file == pl->file && is_passed(p, h)) {
			pl->room += p->size;
			ahead_drop_locked(pl->vl, p);
		}
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

/* There is a buffer for one piece only. */
static bool is_scarce(const struct vfs_ahead *a)
{
	return a->most < 2 * ARENA_BIG_SIZE;
}

/* `bytes` are read. What is given out of a piece that is passed is freed before
 * ahead_fetch_send(). */
static void ahead_fetch_plan(struct plan *pl, uint64_t bytes, struct ahead_hint *h)
{
	struct vfs_ahead *a = &pl->vl->vfs->ahead;
	struct inode *ino = pl->file->ino;
	size_t used = atomic_load(&a->used);

	pl->size = (atomic_load_explicit(&ino->size, memory_order_relaxed) + PAGE - 1) & ~(PAGE - 1);
	pl->room = used < a->most ? a->most - used : 0;
	ahead_window_read(&pl->file->ahead.window, bytes, a->window, a->piece, pl->now);
	if (h->kind == AHEAD_SEQUENTIAL && !is_scarce(a))
		catch_up(&pl->file->ahead, h);
	drop_passed(pl, h);
	if (!is_quiet(ino, &pl->nr))
		return;
	if (h->kind == AHEAD_SEQUENTIAL)
		plan_sequential(pl, h);
	else
		plan_strided(pl, h);
}

/* The answer first. f is kept, because op may be gone then. If buffers are scarce, a READ of op's
 * own would take the one that a piece needs. So what is missing becomes a piece, which begins with
 * what op wants. */
void ahead_read(struct vfs_op *op)
{
	struct vfs_lane *vl = op->vl;
	struct file *f = op->file;
	struct extents *x = extents_of(op->ino);
	struct plan pl = { .vl = vl, .file = f };
	struct ahead_hint hint;
	enum ahead_got got;
	bool becomes;

	ahead_track(&f->ahead.track, op->data.start, op->data.size, &hint);
	if (hint.kind != AHEAD_NONE)
		x = extents_make(op->ino);
	if (!x || (hint.kind == AHEAD_NONE && !atomic_load(&x->npieces))) {
		read_start(op);
		return;
	}
	file_ref(f);
	pl.x = x;
	pl.now = mono_ns();
	pthread_mutex_lock(&x->mu);
	got = ahead_look_locked(x, op, pl.now);
	becomes = got == AHEAD_NOTHING && hint.kind == AHEAD_SEQUENTIAL && is_scarce(&vl->vfs->ahead);
	if (becomes)
		hint.end = op->data.start;
	if (hint.kind != AHEAD_NONE)
		ahead_fetch_plan(&pl, op->data.size, &hint);
	pthread_mutex_unlock(&x->mu);
	if (becomes)
		ahead_fetch_send(&pl);
	if (becomes ? !ahead_serve(op) : !ahead_give(op, got))
		read_start(op);
	ahead_fetch_send(&pl);
	file_put(vl, f);
}
