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

/* ---- the life of a piece; the lock is held ---- */

static uint64_t oldest_good(const struct vfs *vfs)
{
	return vfs->inodes.acregmin * 1000000000ull;
}

static bool is_good(const struct vfs *vfs, const struct ahead_piece *p, uint64_t now)
{
	return p->nr == atomic_load(&p->file->ino->data_nr) && now - p->sent_ns < oldest_good(vfs);
}

/* Takes op out of the list of waiters. On another lane it looks again by message, on this one
 * in run_woken(). */
static void wake(struct vfs_lane *vl, struct vfs_op *op)
{
	list_del(&op->wait_node);
	op->waits_piece = NULL;
	if (op->vl == vl)
		list_add_tail(&vl->woken, &op->wait_node);
	else
		loop_post(op->vl->lane->loop, &op->data.woken);
}

static void wake_all(struct vfs_lane *vl, struct ahead_piece *p)
{
	while (!list_empty(&p->waiters))
		wake(vl, container_of(p->waiters.next, struct vfs_op, wait_node));
}

size_t ahead_piece_size(const struct ahead_piece *p)
{
	size_t n = 0;

	for (unsigned i = 0; i < RR_SINK_IOV && p->buf[i]; i++)
		n += p->buf[i]->size;
	return n;
}

void ahead_piece_free(struct vfs_lane *vl, struct ahead_piece *p)
{
	for (unsigned i = 0; i < RR_SINK_IOV && p->buf[i]; i++)
		magazine_put(&vl->lane->mag, p->buf[i]);
	free(p);
}

static void maybe_free(struct vfs_lane *vl, struct ahead_piece *p)
{
	struct vfs_ahead *a = &vl->vfs->ahead;

	if (p->file || p->flying || p->refs)
		return;
	if (p->given < p->len)
		stat_add(&vl->lane->stats, STAT_AHEAD_WASTED, p->len - p->given);
	list_del(&p->all);
	a->used -= ahead_piece_size(p);
	ahead_piece_free(vl, p);
}

void ahead_drop(struct vfs_lane *vl, struct ahead_piece *p)
{
	struct ahead *a = &p->file->ahead;

	if (p->given >= p->len && !p->flying)
		ahead_was_right(&a->track);
	else if (!p->given)
		ahead_was_wrong(&a->track);
	list_del(&p->node);
	atomic_fetch_sub(&a->npieces, 1);
	p->file = NULL;
	wake_all(vl, p);
	maybe_free(vl, p);
}

void ahead_landed(struct vfs_lane *vl, struct ahead_piece *p, bool ok, uint64_t now)
{
	bool short_of = now < atomic_load(&vl->vfs->ahead.pause_ns);

	if (!p->file)
		maybe_free(vl, p);
	else if (!ok || (short_of && list_empty(&p->waiters)))
		ahead_drop(vl, p);
	else
		wake_all(vl, p);
}

void ahead_purge(struct vfs_lane *vl, struct file *f, uint64_t now)
{
	list_for_each_safe(n, tmp, &f->ahead.pieces) {
		struct ahead_piece *p = container_of(n, struct ahead_piece, node);

		if (!is_good(vl->vfs, p, now))
			ahead_drop(vl, p);
	}
}

struct ahead_piece *ahead_piece_at(const struct file *f, uint64_t at)
{
	list_for_each(n, &f->ahead.pieces) {
		struct ahead_piece *p = container_of(n, struct ahead_piece, node);

		if (at >= p->at && at - p->at < p->len)
			return p;
	}
	return NULL;
}

/* ---- answers ---- */

enum got { NOTHING, ON_ITS_WAY, ALL };

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

/* With the lock held. */
static enum got collect(struct vfs_op *op)
{
	struct op_data *d = &op->data;
	struct ahead_piece *p = NULL, *next;
	uint64_t end = d->start + d->size;

	d->niov = 0;
	d->since_ns = op->start_ns;
	for (uint64_t at = d->start; at < end; ) {
		next = ahead_piece_at(op->file, at);
		if (!next)
			return p && p->eof ? ALL : NOTHING;
		p = next;
		if (p->flying) {
			if (is_cut_off(op, p))
				return NOTHING;
			op->waits_piece = p;
			return ON_ITS_WAY;
		}
		if (d->niov == AHEAD_PARTS)
			return NOTHING;
		at = add_part(d, p, op->vl->vfs->ahead.part, at, end);
	}
	return ALL;
}

static void let_go(struct vfs_op *op);

static void hold(struct vfs_op *op)
{
	struct op_data *d = &op->data;

	op->release = let_go;
	for (unsigned i = 0; i < d->niov; i++) {
		d->piece[i]->refs++;
		d->piece[i]->given += (uint32_t)d->iov[i].iov_len;
	}
}

/* The result of op, a READ, is not used any more. */
static void let_go(struct vfs_op *op)
{
	struct vfs_lane *vl = op->vl;

	op_data_release(op);
	pthread_mutex_lock(&vl->vfs->ahead.mu);
	for (unsigned i = 0; i < op->data.niov; i++) {
		struct ahead_piece *p = op->data.piece[i];

		p->refs--;
		/* A lane was short of buffers, and could not have this one then. */
		if (p->file && !p->flying && !p->refs &&
		    mono_ns() < atomic_load(&vl->vfs->ahead.pause_ns))
			ahead_drop(vl, p);
		else
			maybe_free(vl, p);
	}
	pthread_mutex_unlock(&vl->vfs->ahead.mu);
}

/* op has waited. */
static void look_again(struct vfs_op *op)
{
	if (!op->waited)
		vfs_end_with(op, -EINTR);
	else if (!ahead_serve(op))
		read_start(op);
}

static void on_woken(struct loop_msg *m)
{
	struct vfs_op *op = container_of(m, struct vfs_op, data.woken);
	struct vfs_lane *vl = op->vl;

	look_again(op);
	ahead_run_woken(vl);
}

bool ahead_serve(struct vfs_op *op)
{
	struct vfs_ahead *a = &op->vl->vfs->ahead;
	enum got got;

	pthread_mutex_lock(&a->mu);
	ahead_purge(op->vl, op->file, mono_ns());
	got = collect(op);
	if (got == ALL)
		hold(op);
	if (got == ON_ITS_WAY && op->data.waits++ < WAITS_MOST) {
		op->data.woken.fn = on_woken;
		list_add_tail(&op->waits_piece->waiters, &op->wait_node);
	} else if (got == ON_ITS_WAY) {
		op->waits_piece = NULL;
		got = NOTHING;
	}
	pthread_mutex_unlock(&a->mu);
	if (got == ON_ITS_WAY) {
		stat_add(&op->vl->lane->stats, STAT_AHEAD_WAITS, 1);
	} else if (got == ALL) {
		stat_add(&op->vl->lane->stats, STAT_AHEAD_HITS, 1);
		vfs_end_with(op, 0);
	}
	return got != NOTHING;
}

void ahead_run_woken(struct vfs_lane *vl)
{
	struct list *n;

	if (vl->waking)
		return;
	vl->waking = true;
	while ((n = list_pop(&vl->woken)))
		look_again(container_of(n, struct vfs_op, wait_node));
	vl->waking = false;
}

void ahead_leave(struct vfs_lane *vl)
{
	struct vfs_ahead *a = &vl->vfs->ahead;

	pthread_mutex_lock(&a->mu);
	list_for_each(n, &a->all) {
		struct ahead_piece *p = container_of(n, struct ahead_piece, all);

		list_for_each_safe(w, tmp, &p->waiters) {
			struct vfs_op *op = container_of(w, struct vfs_op, wait_node);

			if (is_cut_off(op, p))
				wake(vl, op);
		}
	}
	pthread_mutex_unlock(&a->mu);
	ahead_run_woken(vl);
}

/* ---- memory ---- */

static bool has_one_of(const struct ahead_piece *p, int first, int last)
{
	for (unsigned i = 0; i < RR_SINK_IOV && p->buf[i]; i++)
		if ((int)p->buf[i]->cls >= first && (int)p->buf[i]->cls <= last)
			return true;
	return false;
}

void ahead_give_way(struct vfs_lane *vl, int first, int last)
{
	struct vfs_ahead *a = &vl->vfs->ahead;

	atomic_store(&a->pause_ns, mono_ns() + PAUSE_NS);
	pthread_mutex_lock(&a->mu);
	list_for_each_safe(n, tmp, &a->all) {
		struct ahead_piece *p = container_of(n, struct ahead_piece, all);

		if (p->file && !p->flying && !p->refs && has_one_of(p, first, last))
			ahead_drop(vl, p);
	}
	pthread_mutex_unlock(&a->mu);
}

void ahead_sweep(struct vfs_lane *vl)
{
	struct vfs_ahead *a = &vl->vfs->ahead;
	uint64_t now = mono_ns();

	pthread_mutex_lock(&a->mu);
	list_for_each_safe(n, tmp, &a->all) {
		struct ahead_piece *p = container_of(n, struct ahead_piece, all);

		if (p->file && !p->flying && (!is_good(vl->vfs, p, now) || now - p->sent_ns > KEEP_NS))
			ahead_drop(vl, p);
	}
	pthread_mutex_unlock(&a->mu);
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
static unsigned share(const struct vfs *vfs)
{
	unsigned n = vfs->cl->arena.counts.n[ARENA_BIG];

	return n < 3 ? 0 : n < 8 ? 1 : vfs->cl->rsize > VFS_IO_MAX ? n / 2 : n / 4;
}

void ahead_init(struct vfs *vfs, uint64_t window)
{
	uint32_t longest = vfs_longest_io(vfs->cl->arena.counts.n[ARENA_BIG]);
	struct vfs_ahead *a = &vfs->ahead;

	pthread_mutex_init(&a->mu, NULL);
	list_init(&a->all);
	a->most = share(vfs) * ARENA_BIG_SIZE;
	a->part = VFS_IO_MAX;
	a->piece = vfs->cl->rsize < longest ? vfs->cl->rsize : longest;
	a->window = vfs->inodes.acregmin && a->most ? window : 0;
}

void ahead_fini(struct vfs *vfs)
{
	struct list *n;

	while ((n = list_pop(&vfs->ahead.all)))
		free(container_of(n, struct ahead_piece, all));
	pthread_mutex_destroy(&vfs->ahead.mu);
}

void ahead_open(struct file *f)
{
	list_init(&f->ahead.pieces);
}

void ahead_close(struct vfs_lane *vl, struct file *f)
{
	if (!atomic_load(&f->ahead.npieces))
		return;
	pthread_mutex_lock(&vl->vfs->ahead.mu);
	while (!list_empty(&f->ahead.pieces))
		ahead_drop(vl, container_of(f->ahead.pieces.next, struct ahead_piece, node));
	pthread_mutex_unlock(&vl->vfs->ahead.mu);
}
