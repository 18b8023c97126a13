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
#define BEHIND (2ull * FS_REQUEST_MAX)

/* What is going to be started when the lock is free. */
struct plan {
	struct fs_lane *fl;
	struct file *file;
	uint64_t size;                  /* of the file, in whole pages */
	uint64_t now;
	struct list reqs;               /* by buf_node */
	unsigned n;
};

/* ---- one piece ---- */

/* A READ has ended, whatever its result. */
static void fetched(struct fs_req *r)
{
	struct ahead_piece *p = r->extra;
	const struct nfs_results *res = &r->call.res;
	struct fs_lane *fl = r->fl;
	struct fs_ahead *a = &fl->fs->ahead;
	bool ok = !res->status && (res->io.len || res->io.eof);
	uint64_t now = mono_ns();

	/* What is not placed is short: it is in the message. */
	if (ok && res->io.len && res->io.ptr != p->buf[0]->mem) {
		memcpy(p->buf[0]->mem, res->io.ptr, res->io.len);
		stat_add(&fl->lane->stats, STAT_READ_COPIED_BYTES, res->io.len);
	}
	pthread_mutex_lock(&a->mu);
	p->flying = false;
	p->len = ok ? res->io.len : 0;
	p->eof = ok && res->io.eof;
	if (ok)
		ahead_window_latency(&r->file->ahead.window, now - p->sent_ns, now);
	ahead_landed(fl, p, ok, now);
	pthread_mutex_unlock(&a->mu);
	fs_req_free(r);
	ahead_run_woken(fl);
}

static size_t buffer_size(uint64_t len)
{
	return len <= ARENA_SMALL_SIZE ? ARENA_SMALL_SIZE : len <= ARENA_MID_SIZE ? ARENA_MID_SIZE :
	       ARENA_BIG_SIZE;
}

/* Of all buffers of a piece. */
static size_t buffers_size(const struct fs_ahead *a, uint64_t len)
{
	uint64_t rest = len % a->part;

	return (size_t)(len / a->part) * buffer_size(a->part) + (rest ? buffer_size(rest) : 0);
}

/* Others come first: is there room for one more READ that nobody has asked for? */
static bool has_room(const struct plan *pl, uint64_t len)
{
	const struct nfs_lane *l = pl->fl->lane;
	const struct fs_ahead *a = &pl->fl->fs->ahead;

	return a->used + buffers_size(a, len) <= a->most && pl->now >= atomic_load(&a->pause_ns) &&
	       l->active + pl->n < l->window / 2 && list_empty(&l->waiting) &&
	       list_empty(&pl->fl->want_buf) && nfs_lane_up(l);
}

static void set_args(struct fs_req *r, const struct ahead_piece *p)
{
	uint32_t left = p->len, part = (uint32_t)r->fl->fs->ahead.part, n;

	r->extra = (void *)(uintptr_t)p;
	r->call.open = r->file->open;
	r->call.args.io.offset = p->at;
	r->call.args.io.count = p->len;
	for (unsigned i = 0; i < RR_SINK_IOV; i++, left -= n) {
		n = left < part ? left : part;
		r->call.args.io.sink[i] = (struct rr_iov){ n ? p->buf[i]->mem : NULL, n };
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
	const struct fs_ahead *a = &pl->fl->fs->ahead;
	unsigned i = 0;

	for (uint64_t at = 0; at < p->len; at += a->part) {
		uint64_t left = p->len - at;

		p->buf[i] = magazine_get_spare(&pl->fl->lane->mag, left < a->part ? left : a->part);
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
		.file = pl->file, .fl = pl->fl, .at = at, .len = (uint32_t)len, .flying = true,
		.nr = nr, .sent_ns = pl->now,
	};
	list_init(&p->waiters);
	if (get_buffers(pl, p))
		return p;
	ahead_piece_free(pl->fl, p);
	return NULL;
}

static bool add_piece(struct plan *pl, uint64_t at, uint64_t len)
{
	struct fs_ahead *a = &pl->fl->fs->ahead;
	struct ahead_piece *p;
	struct fs_req *r;
	uint64_t nr;

	if (!has_room(pl, len) || !is_quiet(pl->file->ino, &nr))
		return false;
	p = new_piece(pl, at, len, nr);
	r = p ? fs_req_new_quiet(pl->fl, pl->file->ino, &pl->file->cred) : NULL;
	if (!r) {
		if (p)
			ahead_piece_free(pl->fl, p);
		return false;
	}
	list_add_tail(&pl->file->ahead.pieces, &p->node);
	list_add_tail(&a->all, &p->all);
	atomic_fetch_add(&pl->file->ahead.npieces, 1);
	a->used += ahead_piece_size(p);
	atomic_fetch_add(&pl->file->refs, 1);
	r->file = pl->file;
	set_args(r, p);
	list_add_tail(&pl->reqs, &r->buf_node);
	pl->n++;
	return true;
}

/* ---- which ---- */

/* A piece that begins at `at`: ends at a multiple of rsize, with the file, and where the next
 * piece begins. */
static uint64_t length(const struct plan *pl, uint64_t at)
{
	uint64_t rsize = pl->fl->fs->ahead.piece, len = rsize - at % rsize;

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

	if (len > pl->fl->fs->ahead.piece)
		len = pl->fl->fs->ahead.piece;
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
			ahead_drop(pl->fl, p);
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
static bool is_scarce(const struct fs_ahead *a)
{
	return a->most < 2 * ARENA_BIG_SIZE;
}

static void fetch(struct fs_lane *fl, struct file *f, uint64_t bytes, struct ahead_hint *h)
{
	struct fs_ahead *a = &fl->fs->ahead;
	struct plan pl = { .fl = fl, .file = f, .now = mono_ns() };
	struct list *n;

	list_init(&pl.reqs);
	pl.size = (size_of(&fl->fs->inodes, f->ino) + PAGE - 1) & ~(PAGE - 1);
	pthread_mutex_lock(&a->mu);
	ahead_purge(fl, f, pl.now);
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
		stat_add(&fl->lane->stats, STAT_AHEAD_READS, 1);
		fs_req_start(container_of(n, struct fs_req, buf_node), NFS_OP_READ, fetched);
	}
	ahead_run_woken(fl);
}

/* Nothing has r's data. If buffers are scarce, a READ of r's own would take the one that a piece
 * needs. So it becomes a piece, which begins with what r wants. */
static void read_missing(struct fs_req *r, struct ahead_hint *hint)
{
	if (hint->kind == AHEAD_SEQUENTIAL && is_scarce(&r->fl->fs->ahead)) {
		hint->end = r->start;
		fetch(r->fl, r->file, r->size, hint);
		hint->kind = AHEAD_NONE;
		if (ahead_serve(r))
			return;
	}
	fs_read_start(r);
}

/* The answer first. f is kept, because r may be gone then. */
void ahead_read(struct fs_req *r)
{
	struct fs_lane *fl = r->fl;
	struct file *f = r->file;
	uint64_t bytes = r->size;
	struct ahead_hint hint;

	ahead_track(&f->ahead.track, r->start, r->size, &hint);
	if (hint.kind == AHEAD_NONE && !atomic_load(&f->ahead.npieces)) {
		fs_read_start(r);
		return;
	}
	atomic_fetch_add(&f->refs, 1);
	if (!atomic_load(&f->ahead.npieces) || !ahead_serve(r))
		read_missing(r, &hint);
	if (hint.kind != AHEAD_NONE)
		fetch(fl, f, bytes, &hint);
	else
		ahead_run_woken(fl);
	fs_file_put(fl, f);
}
