/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See ahead.h. Pieces: their life, and answers from them. What is fetched: ahead_fetch.c. */
#include <errno.h>
#include <stdlib.h>
#include "vfs/ahead_impl.h"

/* A piece that nobody wants is freed after so long, however long it would be good. */
#define KEEP_NS 5000000000ull
/* Nothing is read ahead for so long after buffers were short. */
#define PAUSE_NS 1000000000ull
/* A request waits for so many pieces, one after the other. Then it goes its own way. */
#define WAITS_MOST 8u

/* ---- the life of a piece ---- */

static bool is_good(const struct vfs *vfs, const struct ahead_piece *p, uint64_t now)
{
	return p->nr == atomic_load(&p->file->ino->data_nr) &&
	       now - p->sent_ns < vfs->inodes.acregmin * 1000000000ull;
}

/* Those that wait for p look again. true: there are some. */
static bool wake_locked(struct extents *x, const struct ahead_piece *p)
{
	bool any = false;

	list_for_each_safe(n, tmp, &x->waits) {
		struct vfs_op *op = container_of(n, struct vfs_op, settle.node);

		if (op->settle.piece != p)
			continue;
		extents_wake_locked(op);
		any = true;
	}
	return any;
}

/* The last reference is gone: it is in no list, and no READ is under way. Any lock may be held but
 * the depot's. */
static void ahead_piece_free(struct vfs_lane *vl, struct ahead_piece *p)
{
	if (p->given < p->len)
		stat_add(&vl->lane->stats, STAT_AHEAD_WASTED, p->len - p->given);
	atomic_fetch_sub(&vl->vfs->ahead.used, p->size);
	for (unsigned i = 0; i < RR_SINK_IOV && p->buf[i]; i++)
		magazine_put(&vl->lane->mag, p->buf[i]);
	free(p);
}

void ahead_put(struct vfs_lane *vl, struct ahead_piece *p)
{
	if (atomic_fetch_sub(&p->refs, 1) == 1)
		ahead_piece_free(vl, p);
}

void ahead_drop_locked(struct vfs_lane *vl, struct ahead_piece *p)
{
	struct ahead_track *track = &p->file->ahead.track;
	struct extents *x = extents_of(p->file->ino);

	if (p->given >= p->len && !p->flying)
		ahead_was_right(track);
	else if (!p->given)
		ahead_was_wrong(track);
	list_del(&p->node);
	atomic_fetch_sub(&x->npieces, 1);
	p->file = NULL;
	wake_locked(x, p);
	ahead_put(vl, p);
}

void ahead_landed_locked(struct vfs_lane *vl, struct ahead_piece *p, bool ok, uint64_t now)
{
	bool is_short = now < atomic_load(&vl->vfs->ahead.pause_ns);

	p->flying = false;
	p->used_ns = now;
	if (p->file && ((!wake_locked(extents_of(p->file->ino), p) && is_short) || !ok))
		ahead_drop_locked(vl, p);
	ahead_put(vl, p);
}

/* Nobody answers from it, waits for it or fetches it. */
static bool is_idle_locked(const struct ahead_piece *p)
{
	return atomic_load(&p->refs) == 1;
}

static bool is_old_locked(const struct vfs *vfs, const struct ahead_piece *p, uint64_t now)
{
	return !p->flying && (!is_good(vfs, p, now) || now - p->used_ns > KEEP_NS);
}

static void ahead_purge_locked(struct vfs_lane *vl, struct extents *x, uint64_t now)
{
	ahead_each(p, x)
		if (!is_good(vl->vfs, p, now))
			ahead_drop_locked(vl, p);
}

struct ahead_piece *ahead_piece_at_locked(const struct extents *x, uint64_t at)
{
	ahead_each(p, x)
		if (at >= p->at && at - p->at < p->len)
			return p;
	return NULL;
}

/* ---- answers ---- */

/* op has waited. */
static void look_again(struct vfs_op *op)
{
	if (!op->waited)
		vfs_end_with(op, -EINTR);
	else if (!ahead_serve(op))
		read_start(op);
}

/* Another lane may wake op as soon as the lock is free. */
static enum ahead_got wait_for_locked(struct extents *x, struct vfs_op *op, struct ahead_piece *p)
{
	if (op->data.waits++ >= WAITS_MOST)
		return AHEAD_NOTHING;
	op->settle = (struct settle){ .piece = p };
	extents_wait_locked(x, op, look_again);
	return AHEAD_ON_ITS_WAY;
}

/* As much from `at` on as is in one of p's buffers. Returns where that ends. */
static uint64_t add_part(struct op_data *d, struct ahead_piece *p, uint64_t part, uint64_t at,
			 uint64_t end)
{
	uint64_t i = (at - p->at) / part, in = (at - p->at) % part, n = part - in;

	if (n > p->at + p->len - at)
		n = p->at + p->len - at;
	if (n > end - at)
		n = end - at;
	d->piece[d->niov] = p;
	d->iov[d->niov++] = (struct iovec){ (char *)p->buf[i]->mem + in, n };
	if (p->sent_ns < d->since_ns)
		d->since_ns = p->sent_ns;
	return at + n;
}

/* p's READ waits for a connection, and op's lane has one. */
static bool is_cut_off(const struct vfs_op *op, const struct ahead_piece *p)
{
	return !nfs_lane_up(p->vl->lane) && nfs_lane_up(op->vl->lane);
}

static enum ahead_got collect_locked(struct extents *x, struct vfs_op *op)
{
	struct op_data *d = &op->data;
	struct ahead_piece *p = NULL, *next;
	uint64_t end = d->start + d->size;

	d->niov = 0;
	d->since_ns = op->start_ns;
	for (uint64_t at = d->start; at < end; ) {
		next = ahead_piece_at_locked(x, at);
		if (!next)
			return p && p->eof ? AHEAD_ALL : AHEAD_NOTHING;
		p = next;
		if (p->flying)
			return is_cut_off(op, p) ? AHEAD_NOTHING : wait_for_locked(x, op, p);
		if (d->niov == AHEAD_PARTS)
			return AHEAD_NOTHING;
		at = add_part(d, p, op->vl->vfs->ahead.part, at, end);
	}
	return AHEAD_ALL;
}

/* A lane was short of buffers, and could not have those that answers were given from. */
static void drop_given(struct vfs_lane *vl, struct extents *x)
{
	pthread_mutex_lock(&x->mu);
	ahead_each(p, x)
		if (p->given && is_idle_locked(p))
			ahead_drop_locked(vl, p);
	pthread_mutex_unlock(&x->mu);
}

/* The result of op, a READ, is not used any more. */
static void let_go(struct vfs_op *op)
{
	uint64_t pause_ns;

	op_data_release(op);
	for (unsigned i = 0; i < op->data.niov; i++)
		ahead_put(op->vl, op->data.piece[i]);
	/* In this order: see ahead_give_way(). */
	pause_ns = atomic_load(&op->vl->vfs->ahead.pause_ns);
	if (pause_ns && mono_ns() < pause_ns)
		drop_given(op->vl, extents_of(op->ino));
}

static void hold_locked(struct vfs_op *op, uint64_t now)
{
	struct op_data *d = &op->data;

	op->release = let_go;
	for (unsigned i = 0; i < d->niov; i++) {
		atomic_fetch_add(&d->piece[i]->refs, 1);
		d->piece[i]->given += (uint32_t)d->iov[i].iov_len;
		d->piece[i]->used_ns = now;
	}
}

enum ahead_got ahead_look_locked(struct extents *x, struct vfs_op *op, uint64_t now)
{
	enum ahead_got got;

	ahead_purge_locked(op->vl, x, now);
	got = collect_locked(x, op);
	if (got == AHEAD_ALL)
		hold_locked(op, now);
	return got;
}

bool ahead_give(struct vfs_op *op, enum ahead_got got)
{
	struct stats *stats = &op->vl->lane->stats;

	if (got == AHEAD_ON_ITS_WAY) {
		stat_add(stats, STAT_AHEAD_WAITS, 1);
	} else if (got == AHEAD_ALL) {
		stat_add(stats, STAT_AHEAD_HITS, 1);
		vfs_end_with(op, 0);
	}
	return got != AHEAD_NOTHING;
}

bool ahead_serve(struct vfs_op *op)
{
	struct extents *x = extents_of(op->ino);
	uint64_t now = mono_ns();
	enum ahead_got got;

	pthread_mutex_lock(&x->mu);
	got = ahead_look_locked(x, op, now);
	pthread_mutex_unlock(&x->mu);
	return ahead_give(op, got);
}

static void leave_locked(struct extents *x)
{
	list_for_each_safe(n, tmp, &x->waits) {
		struct vfs_op *op = container_of(n, struct vfs_op, settle.node);

		if (op->settle.piece && is_cut_off(op, op->settle.piece))
			extents_wake_locked(op);
	}
}

void ahead_leave(struct vfs_lane *vl)
{
	struct vfs_ahead *a = &vl->vfs->ahead;

	pthread_mutex_lock(&a->mu);
	list_for_each(n, &a->files) {
		struct extents *x = container_of(n, struct extents, node);

		pthread_mutex_lock(&x->mu);
		leave_locked(x);
		pthread_mutex_unlock(&x->mu);
	}
	pthread_mutex_unlock(&a->mu);
}

/* ---- memory ---- */

static bool has_one_of(const struct ahead_piece *p, int first, int last)
{
	for (unsigned i = 0; i < RR_SINK_IOV && p->buf[i]; i++)
		if ((int)p->buf[i]->cls >= first && (int)p->buf[i]->cls <= last)
			return true;
	return false;
}

/* x is in the mount's list if it has pieces. With the mount's lock, too. */
static void relist_locked(struct vfs_ahead *a, struct extents *x)
{
	bool has = !list_empty(&x->pieces);

	if (has && !x->listed)
		list_add_tail(&a->files, &x->node);
	if (!has && x->listed)
		list_del(&x->node);
	x->listed = has;
}

void ahead_relist(struct vfs_ahead *a, struct extents *x)
{
	pthread_mutex_lock(&a->mu);
	pthread_mutex_lock(&x->mu);
	relist_locked(a, x);
	pthread_mutex_unlock(&x->mu);
	pthread_mutex_unlock(&a->mu);
}

/* Drops what is old, and what nobody uses of these classes, of all files. */
static void ahead_reclaim(struct vfs_lane *vl, int first, int last)
{
	struct vfs_ahead *a = &vl->vfs->ahead;
	uint64_t now = mono_ns();

	pthread_mutex_lock(&a->mu);
	list_for_each_safe(n, tmp, &a->files) {
		struct extents *x = container_of(n, struct extents, node);

		pthread_mutex_lock(&x->mu);
		ahead_each(p, x)
			if (is_old_locked(vl->vfs, p, now) ||
			    (is_idle_locked(p) && has_one_of(p, first, last)))
				ahead_drop_locked(vl, p);
		relist_locked(a, x);
		pthread_mutex_unlock(&x->mu);
	}
	pthread_mutex_unlock(&a->mu);
}

/* First the time, then the pieces; let_go() does it the other way round. So one of the two finds
 * what an answer is being given from. */
void ahead_give_way(struct vfs_lane *vl, int first, int last)
{
	atomic_store(&vl->vfs->ahead.pause_ns, mono_ns() + PAUSE_NS);
	ahead_reclaim(vl, first, last);
}

void ahead_sweep(struct vfs_lane *vl)
{
	ahead_reclaim(vl, ARENA_CLASSES, ARENA_CLASSES);
}

/* ---- life ---- */

/* While one piece is given out, the next one has to have room: see ahead_init(). */
uint32_t vfs_longest_io(unsigned nbig)
{
	unsigned n = nbig / 4;

	return VFS_IO_MAX * (n < 1 ? 1 : n < RR_SINK_IOV ? n : RR_SINK_IOV);
}

/* A quarter of the large buffers; or half of them, if a piece takes several. One is worth it, too:
 * most of what is asked for comes from there. But two have to be left, one under a request that is
 * read and one for a READ. */
static unsigned ahead_share(const struct vfs *vfs)
{
	unsigned n = vfs->cl->arena.counts.n[ARENA_BIG];

	return n < 3 ? 0 : n < 8 ? 1 : vfs->cl->rsize > VFS_IO_MAX ? n / 2 : n / 4;
}

void ahead_init(struct vfs *vfs, uint64_t window)
{
	uint32_t longest = vfs_longest_io(vfs->cl->arena.counts.n[ARENA_BIG]);
	struct vfs_ahead *a = &vfs->ahead;

	pthread_mutex_init(&a->mu, NULL);
	list_init(&a->files);
	a->most = ahead_share(vfs) * ARENA_BIG_SIZE;
	a->part = VFS_IO_MAX;
	a->piece = vfs->cl->rsize < longest ? vfs->cl->rsize : longest;
	ahead_change(vfs, window);
}

/* With noac nothing is read ahead, because nothing of it would be believed. */
void ahead_change(struct vfs *vfs, uint64_t window)
{
	struct vfs_ahead *a = &vfs->ahead;

	atomic_store(&a->window, atomic_load(&vfs->inodes.acregmin) && a->most ? window : 0);
}

void ahead_fini(struct vfs *vfs)
{
	struct list *n, *m;

	/* Files that could not be closed. */
	while ((n = list_pop(&vfs->ahead.files)))
		while ((m = list_pop(&container_of(n, struct extents, node)->pieces)))
			free(ahead_piece_of(m));
	pthread_mutex_destroy(&vfs->ahead.mu);
}

void ahead_close(struct vfs_lane *vl, struct file *f)
{
	struct extents *x = extents_of(f->ino);
	bool unlist;

	if (!x)
		return;
	pthread_mutex_lock(&x->mu);
	ahead_each(p, x)
		if (p->file == f)
			ahead_drop_locked(vl, p);
	unlist = x->listed && list_empty(&x->pieces);
	pthread_mutex_unlock(&x->mu);
	if (unlist)
		ahead_relist(&vl->vfs->ahead, x);
}
