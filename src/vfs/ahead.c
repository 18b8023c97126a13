/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See ahead.h. Pieces: their life, and answers from them. What is fetched: ahead_fetch.c. */
#include <stdlib.h>
#include "vfs/ahead_impl.h"

/* A piece that nobody wants is freed after so long, however long it would be good. */
#define KEEP_NS 5000000000ull
/* Nothing is read ahead for so long after buffers were short. */
#define PAUSE_NS 1000000000ull
/* One answer is made of so many parts of pieces at most. */
#define PARTS 4u
/* A request waits for so many pieces, one after the other. Then it goes its own way. */
#define WAITS_MOST 8u

/* ---- the life of a piece; the lock is held ---- */

static uint64_t oldest_good(const struct fs *fs)
{
	return fs->inodes.acregmin * 1000000000ull;
}

static bool is_good(const struct fs *fs, const struct ahead_piece *p, uint64_t now)
{
	return p->nr == atomic_load(&p->file->ino->data_nr) && now - p->sent_ns < oldest_good(fs);
}

/* Takes r out of the list of waiters. On another lane it looks again by message, on this one
 * in run_woken(). */
static void wake(struct fs_lane *fl, struct fs_req *r)
{
	list_del(&r->buf_node);
	r->ahead.piece = NULL;
	if (r->fl == fl)
		list_add_tail(&fl->woken, &r->buf_node);
	else
		loop_post(r->fl->lane->loop, &r->ahead.msg);
}

static void wake_all(struct fs_lane *fl, struct ahead_piece *p)
{
	while (!list_empty(&p->waiters))
		wake(fl, container_of(p->waiters.next, struct fs_req, buf_node));
}

size_t ahead_piece_size(const struct ahead_piece *p)
{
	size_t n = 0;

	for (unsigned i = 0; i < RR_SINK_IOV && p->buf[i]; i++)
		n += p->buf[i]->size;
	return n;
}

void ahead_piece_free(struct fs_lane *fl, struct ahead_piece *p)
{
	for (unsigned i = 0; i < RR_SINK_IOV && p->buf[i]; i++)
		magazine_put(&fl->lane->mag, p->buf[i]);
	free(p);
}

static void maybe_free(struct fs_lane *fl, struct ahead_piece *p)
{
	struct fs_ahead *a = &fl->fs->ahead;

	if (p->file || p->flying || p->refs)
		return;
	if (p->given < p->len)
		stat_add(&fl->lane->stats, STAT_AHEAD_WASTED, p->len - p->given);
	list_del(&p->all);
	a->used -= ahead_piece_size(p);
	ahead_piece_free(fl, p);
}

void ahead_drop(struct fs_lane *fl, struct ahead_piece *p)
{
	struct ahead *a = &p->file->ahead;

	if (p->given >= p->len && !p->flying)
		ahead_was_right(&a->track);
	else if (!p->given)
		ahead_was_wrong(&a->track);
	list_del(&p->node);
	atomic_fetch_sub(&a->npieces, 1);
	p->file = NULL;
	wake_all(fl, p);
	maybe_free(fl, p);
}

void ahead_landed(struct fs_lane *fl, struct ahead_piece *p, bool ok, uint64_t now)
{
	bool short_of = now < atomic_load(&fl->fs->ahead.pause_ns);

	if (!p->file)
		maybe_free(fl, p);
	else if (!ok || (short_of && list_empty(&p->waiters)))
		ahead_drop(fl, p);
	else
		wake_all(fl, p);
}

void ahead_purge(struct fs_lane *fl, struct file *f, uint64_t now)
{
	list_for_each_safe(n, tmp, &f->ahead.pieces) {
		struct ahead_piece *p = container_of(n, struct ahead_piece, node);

		if (!is_good(fl->fs, p, now))
			ahead_drop(fl, p);
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

struct parts {
	struct ahead_piece *piece[PARTS];
	struct iovec iov[PARTS];
	unsigned n;
	uint64_t end;                   /* of the file, if the answer ends there; or of the answer */
	uint64_t since_ns;              /* the oldest piece */
};

/* As much from `at` on as is in one of p's buffers. */
static void add_part(struct parts *out, struct ahead_piece *p, uint64_t part, uint64_t at,
		     uint64_t end)
{
	uint64_t i = (at - p->at) / part, in = (at - p->at) % part, n = part - in;

	if (n > p->at + p->len - at)
		n = p->at + p->len - at;
	if (n > end - at)
		n = end - at;
	out->piece[out->n] = p;
	out->iov[out->n++] = (struct iovec){ (char *)p->buf[i]->mem + in, n };
	out->end = at + n;
	if (p->sent_ns < out->since_ns)
		out->since_ns = p->sent_ns;
}

/* With the lock held. */
static enum got collect(struct fs_req *r, struct parts *out)
{
	uint64_t at = r->start, end = r->start + r->size;
	struct ahead_piece *p = NULL, *next;

	*out = (struct parts){ .since_ns = r->start_ns };
	for (; at < end; at = out->end) {
		next = ahead_piece_at(r->file, at);
		if (!next)
			return p && p->eof ? ALL : NOTHING;
		p = next;
		if (p->flying) {
			r->ahead.piece = p;
			return ON_ITS_WAY;
		}
		if (out->n == PARTS)
			return NOTHING;
		add_part(out, p, r->fl->fs->ahead.part, at, end);
	}
	return ALL;
}

static void hold(struct parts *x)
{
	for (unsigned i = 0; i < x->n; i++) {
		x->piece[i]->refs++;
		x->piece[i]->given += (uint32_t)x->iov[i].iov_len;
	}
}

static void let_go(struct fs_lane *fl, struct parts *x)
{
	pthread_mutex_lock(&fl->fs->ahead.mu);
	for (unsigned i = 0; i < x->n; i++) {
		struct ahead_piece *p = x->piece[i];

		p->refs--;
		/* A lane was short of buffers, and could not have this one then. */
		if (p->file && !p->flying && !p->refs &&
		    mono_ns() < atomic_load(&fl->fs->ahead.pause_ns))
			ahead_drop(fl, p);
		else
			maybe_free(fl, p);
	}
	pthread_mutex_unlock(&fl->fs->ahead.mu);
}

static void answer(struct fs_req *r, struct parts *x)
{
	struct fs_lane *fl = r->fl;

	if (x->end < r->start + r->size)
		inode_read_short(&fl->fs->inodes, r->ino, x->end, x->since_ns);
	if (r->req)
		fuse_reply_iov(r->req, x->iov, (int)x->n);
	r->req = NULL;
	stat_add(&fl->lane->stats, STAT_AHEAD_HITS, 1);
	let_go(fl, x);
	fs_req_free(r);
}

/* r has waited. */
static void look_again(struct fs_req *r)
{
	if (!r->req)
		fs_req_free(r);
	else if (!ahead_serve(r))
		fs_read_start(r);
}

static void on_woken(struct loop_msg *m)
{
	struct fs_req *r = container_of(m, struct fs_req, ahead.msg);
	struct fs_lane *fl = r->fl;

	look_again(r);
	ahead_run_woken(fl);
}

bool ahead_serve(struct fs_req *r)
{
	struct fs_ahead *a = &r->fl->fs->ahead;
	struct parts parts;
	enum got got;

	pthread_mutex_lock(&a->mu);
	ahead_purge(r->fl, r->file, mono_ns());
	got = collect(r, &parts);
	if (got == ALL)
		hold(&parts);
	if (got == ON_ITS_WAY && r->ahead.times++ < WAITS_MOST) {
		r->ahead.msg.fn = on_woken;
		list_add_tail(&r->ahead.piece->waiters, &r->buf_node);
	} else if (got == ON_ITS_WAY) {
		r->ahead.piece = NULL;
		got = NOTHING;
	}
	pthread_mutex_unlock(&a->mu);
	if (got == ON_ITS_WAY)
		stat_add(&r->fl->lane->stats, STAT_AHEAD_WAITS, 1);
	else if (got == ALL)
		answer(r, &parts);
	return got != NOTHING;
}

void ahead_run_woken(struct fs_lane *fl)
{
	struct list *n;

	if (fl->waking)
		return;
	fl->waking = true;
	while ((n = list_pop(&fl->woken)))
		look_again(container_of(n, struct fs_req, buf_node));
	fl->waking = false;
}

bool ahead_leave(struct fs_req *r)
{
	struct fs_ahead *a = &r->fl->fs->ahead;
	bool leave;

	pthread_mutex_lock(&a->mu);
	leave = r->ahead.piece && r->req && !nfs_lane_up(r->ahead.piece->fl->lane) &&
		nfs_lane_up(r->fl->lane);
	if (leave) {
		r->ahead.piece = NULL;
		list_del(&r->buf_node);
	}
	pthread_mutex_unlock(&a->mu);
	if (leave)
		fs_read_start(r);
	return leave;
}

/* ---- memory ---- */

static bool has_one_of(const struct ahead_piece *p, int first, int last)
{
	for (unsigned i = 0; i < RR_SINK_IOV && p->buf[i]; i++)
		if ((int)p->buf[i]->cls >= first && (int)p->buf[i]->cls <= last)
			return true;
	return false;
}

void ahead_give_way(struct fs_lane *fl, int first, int last)
{
	struct fs_ahead *a = &fl->fs->ahead;

	atomic_store(&a->pause_ns, mono_ns() + PAUSE_NS);
	pthread_mutex_lock(&a->mu);
	list_for_each_safe(n, tmp, &a->all) {
		struct ahead_piece *p = container_of(n, struct ahead_piece, all);

		if (p->file && !p->flying && !p->refs && has_one_of(p, first, last))
			ahead_drop(fl, p);
	}
	pthread_mutex_unlock(&a->mu);
}

void ahead_sweep(struct fs_lane *fl)
{
	struct fs_ahead *a = &fl->fs->ahead;
	uint64_t now = mono_ns();

	pthread_mutex_lock(&a->mu);
	list_for_each_safe(n, tmp, &a->all) {
		struct ahead_piece *p = container_of(n, struct ahead_piece, all);

		if (p->file && !p->flying && (!is_good(fl->fs, p, now) || now - p->sent_ns > KEEP_NS))
			ahead_drop(fl, p);
	}
	pthread_mutex_unlock(&a->mu);
}

/* ---- life ---- */

/* While one piece is given out, the next one has to have room: see ahead_init(). */
uint32_t fs_longest_io(unsigned nbig)
{
	unsigned n = nbig / 4;

	return FS_REQUEST_MAX * (n < 1 ? 1 : n < RR_SINK_IOV ? n : RR_SINK_IOV);
}

/* A quarter of the large buffers; or half of them, if a piece takes several. One is worth it, too:
 * most of what is asked for comes from there. But two have to be left, one under the FUSE read and
 * one for a READ. */
static unsigned share(const struct fs *fs)
{
	unsigned n = fs->cl->arena.counts.n[ARENA_BIG];

	return n < 3 ? 0 : n < 8 ? 1 : fs->cl->rsize > FS_REQUEST_MAX ? n / 2 : n / 4;
}

void ahead_init(struct fs *fs, uint64_t window)
{
	uint32_t longest = fs_longest_io(fs->cl->arena.counts.n[ARENA_BIG]);
	struct fs_ahead *a = &fs->ahead;

	pthread_mutex_init(&a->mu, NULL);
	list_init(&a->all);
	a->most = share(fs) * ARENA_BIG_SIZE;
	a->part = FS_REQUEST_MAX;
	a->piece = fs->cl->rsize < longest ? fs->cl->rsize : longest;
	a->window = fs->inodes.acregmin && a->most ? window : 0;
}

void ahead_fini(struct fs *fs)
{
	struct list *n;

	while ((n = list_pop(&fs->ahead.all)))
		free(container_of(n, struct ahead_piece, all));
	pthread_mutex_destroy(&fs->ahead.mu);
}

void ahead_open(struct file *f)
{
	list_init(&f->ahead.pieces);
}

void ahead_close(struct fs_lane *fl, struct file *f)
{
	if (!atomic_load(&f->ahead.npieces))
		return;
	pthread_mutex_lock(&fl->fs->ahead.mu);
	while (!list_empty(&f->ahead.pieces))
		ahead_drop(fl, container_of(f->ahead.pieces.next, struct ahead_piece, node));
	pthread_mutex_unlock(&fl->fs->ahead.mu);
}
