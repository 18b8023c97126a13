/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: room, gathering, and the answer. See behind.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "fs/behind_impl.h"

/* A write of at most so many bytes is copied into a WRITE that it continues or changes. More
 * bytes stay where FUSE has put them. */
uint32_t behind_gather_max = 131072;
/* So many WRITEs of a file wait for what continues them; then the oldest is sent. */
#define OPEN_ENDS 16u
/* A file may have that many times what is free then. So a file that is alone gets 7/8 of the room,
 * two get 7/15 each, and there is always something left for one that comes. */
#define FREE_TIMES 7u
#define QUICK_COMMIT_NS 3000000u

/* ---- life ---- */

static void on_changed(void *ctx);

void behind_pool_init(struct behind_pool *p, struct arena *a, unsigned share)
{
	pthread_mutex_init(&p->mu, NULL);
	list_init(&p->waiting);
	p->arena = a;
	p->always[ARENA_MID] = a->counts.n[ARENA_MID] * share / 100;
	p->always[ARENA_BIG] = a->counts.n[ARENA_BIG] * share / 100;
	if (!share)
		return;
	on_changed(p);
	arena_tell(a, on_changed, p);
}

void behind_pool_stop(struct behind_pool *p)
{
	if (p->arena)
		arena_tell(p->arena, NULL, NULL);
}

void behind_pool_fini(struct behind_pool *p)
{
	pthread_mutex_destroy(&p->mu);
}

void behind_free(struct behind *b)
{
	if (b)
		pthread_mutex_destroy(&b->mu);
	free(b);
}

/* The file's struct behind, made if there is none. NULL: no memory. */
static struct behind *make(struct inode *ino)
{
	struct behind *b = behind_of(ino), *none = NULL;

	if (b)
		return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	pthread_mutex_init(&b->mu, NULL);
	for (unsigned i = 0; i < HELD_STATES; i++)
		list_init(&b->in[i]);
	list_init(&b->waits);
	b->ino = ino;
	if (atomic_compare_exchange_strong(&ino->behind, &none, b))
		return b;
	behind_free(b);                 /* another lane was faster */
	return none;
}

/* ---- room ---- */

/* New memory has to be cleared, and 16 MiB take longer than a COMMIT to a server that has nothing
 * to flush. Where it has, a COMMIT costs more the more often it comes. */
bool behind_rather_commits(const struct behind_pool *p)
{
	return !p->arena->more.n || atomic_load(&p->arena->more.full) ||
	       atomic_load_explicit(&p->commit_ns, memory_order_relaxed) < QUICK_COMMIT_NS;
}

static bool fits_locked(struct behind_pool *p, const struct behind *b, enum arena_class cls)
{
	unsigned most = p->most[cls], taken = p->taken[cls];
	bool fits = taken < most &&
		    (b->taken[cls] == 0 || b->taken[cls] < FREE_TIMES * (most - taken));

	/* In time, so that nobody has to wait for it. */
	if (!fits || (taken >= most / 2 && !behind_rather_commits(p)))
		behind_room_wanted(p, cls);
	return fits;
}

static bool take_one_locked(struct behind_pool *p, struct behind *b, enum arena_class cls)
{
	if (!fits_locked(p, b, cls))
		return false;
	p->taken[cls]++;
	b->taken[cls]++;
	return true;
}

static void give_one_locked(struct behind_pool *p, struct behind *b, enum arena_class cls)
{
	p->taken[cls]--;
	b->taken[cls]--;
}

void behind_room_wanted(struct behind_pool *p, enum arena_class cls)
{
	arena_want(p->arena, cls);
}

/* Takes room for r's buffers. With the pool's lock. */
static bool take_room_locked(struct behind_pool *p, struct fs_req *r)
{
	struct behind *b = behind_of(r->ino);

	if (!take_one_locked(p, b, r->buf[0]->cls))
		return false;
	if (!r->buf[1] || take_one_locked(p, b, r->buf[1]->cls))
		return true;
	give_one_locked(p, b, r->buf[0]->cls);
	return false;
}

/* Takes room for one more buffer. */
static bool take_more(struct behind_pool *p, struct behind *b, enum arena_class cls)
{
	bool got;

	pthread_mutex_lock(&p->mu);
	got = list_empty(&p->waiting) && take_one_locked(p, b, cls);
	pthread_mutex_unlock(&p->mu);
	return got;
}

/* Of those that wait and would fit, the first one whose file has least: a program that writes much
 * does not keep another one from writing a little. */
static struct fs_req *next_waiting_locked(struct behind_pool *p)
{
	struct fs_req *best = NULL;

	list_for_each(n, &p->waiting) {
		struct fs_req *r = held_of(n);
		const struct behind *b = behind_of(r->ino);

		if ((!best || b->taken[ARENA_MID] < behind_of(best->ino)->taken[ARENA_MID]) &&
		    fits_locked(p, b, r->buf[0]->cls) &&
		    (!r->buf[1] || fits_locked(p, b, r->buf[1]->cls)))
			best = r;
	}
	return best;
}

/* Room has become free: as many of those that wait as fit get it. */
static void pass_on_locked(struct behind_pool *p)
{
	struct fs_req *r;

	while ((r = next_waiting_locked(p)) && take_room_locked(p, r)) {
		list_del(&r->held.node);
		atomic_fetch_sub(&p->nwaiting, 1);
		r->held.posted = true;
		loop_post(r->fl->lane->loop, &r->held.msg);
	}
}

/* The arena has grown, or given an extent back. On the keeper's thread. */
static void on_changed(void *ctx)
{
	struct behind_pool *p = ctx;
	bool less = false;
	size_t bytes;

	pthread_mutex_lock(&p->mu);
	for (int cls = ARENA_MID; cls <= ARENA_BIG; cls++)
		atomic_store(&p->most[cls],
			     p->always[cls] + arena_more(p->arena, (enum arena_class)cls));
	for (int cls = ARENA_MID; cls <= ARENA_BIG; cls++)
		less |= p->taken[cls] > p->most[cls];
	bytes = p->most[ARENA_MID] * ARENA_MID_SIZE + p->most[ARENA_BIG] * ARENA_BIG_SIZE;
	stat_set(&p->arena->more.stats, STAT_BEHIND_ROOM, bytes);
	pass_on_locked(p);
	pthread_mutex_unlock(&p->mu);
	/* The memory is wanted elsewhere. */
	if (less)
		fs_behind_want_room(container_of(p, struct fs, behind));
}

static void give_room(struct fs_req *r)
{
	struct behind_pool *p = &r->fl->fs->behind;
	struct behind *b = behind_of(r->ino);

	pthread_mutex_lock(&p->mu);
	for (unsigned i = 0; i < RR_SEND_IOV && r->buf[i]; i++)
		give_one_locked(p, b, r->buf[i]->cls);
	pass_on_locked(p);
	pthread_mutex_unlock(&p->mu);
}

void behind_end(struct fs_req *r)
{
	atomic_fetch_sub(&r->fl->fs->behind.bytes, r->held.len);
	give_room(r);
	r->held.state = HELD_NOT;
	fs_req_free(r);
}

/* ---- gathering ---- */

/* Where a WRITE that begins at offset has to end: WRITEs end at multiples of wsize. */
static uint64_t limit_of(const struct fs_req *w)
{
	uint64_t size = w->fl->fs->cl->wsize;

	return (w->held.offset / size + 1) * size;
}

/* Copies r's data into w, `at` bytes behind w's beginning. */
static void copy(struct fs_req *w, size_t at, const struct fs_req *r)
{
	const struct nfs_io_args *io = &r->call.args.io;

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
static bool gets_buffer(struct fs_req *w, const struct fs_req *r)
{
	struct behind_pool *p = &r->fl->fs->behind;
	struct behind *b = behind_of(r->ino);
	unsigned i = w->held.nparts;

	if (i == RR_SEND_IOV || !take_more(p, b, ARENA_BIG))
		return false;
	w->buf[i] = magazine_get_spare(&r->fl->lane->mag, ARENA_BIG_SIZE);
	if (w->buf[i]) {
		w->held.part[w->held.nparts++] = 0;
		return true;
	}
	pthread_mutex_lock(&p->mu);
	give_one_locked(p, b, ARENA_BIG);
	pass_on_locked(p);
	pthread_mutex_unlock(&p->mu);
	return false;
}

/* Makes w as long as n bytes: its last buffer has room for the rest of them, or one more has. */
static bool grows(struct fs_req *w, const struct fs_req *r, size_t n)
{
	struct held *h = &w->held;
	unsigned last = h->nparts - 1;
	size_t more = n > h->len ? n - h->len : 0, left = w->buf[last]->size - h->part[last];

	if (more > left && !gets_buffer(w, r))
		return false;
	left = more < left ? more : left;
	h->part[last] += (uint32_t)left;
	if (more > left)
		h->part[last + 1] = (uint32_t)(more - left);
	return true;
}

/* w's end is `to` now. */
static void set_end_locked(struct behind *b, struct fs_req *w, uint64_t to)
{
	if (to > held_end(w)) {
		atomic_fetch_add(&w->fl->fs->behind.bytes, to - held_end(w));
		w->held.len = (uint32_t)(to - w->held.offset);
		held_resized(b->tree, w);
	}
	if (to == limit_of(w))
		behind_want_locked(b, w);
}

static bool takes_more(const struct fs_req *w, const struct fs_req *r)
{
	return (w->held.state == HELD || w->held.state == HELD_DUE) && w->file == r->file;
}

/* The WRITE that r's data can be copied into: the one WRITE that it changes, or one that it
 * continues. NULL: there is none. */
static struct fs_req *find_host_locked(struct behind *b, const struct fs_req *r)
{
	uint64_t from = r->call.args.io.offset, to = from + r->size;
	struct fs_req *changed = NULL, *continued = NULL;

	/* What it continues has the byte before. */
	held_each(w, b->tree, from ? from - 1 : 0, to) {
		if (held_end(w) <= from) {
			if (!continued && takes_more(w, r))
				continued = w;
		} else if (changed) {
			return NULL;
		} else {
			changed = w;
		}
	}
	if (!changed)
		return continued;
	return takes_more(changed, r) && changed->held.offset <= from ? changed : NULL;
}

/* Is r's data in another WRITE now? */
static bool gather_locked(struct behind *b, const struct fs_req *r)
{
	uint64_t from = r->call.args.io.offset, to = from + r->size;
	struct fs_req *w = r->size <= behind_gather_max ? find_host_locked(b, r) : NULL;

	if (!w || to > limit_of(w) || !grows(w, r, (size_t)(to - w->held.offset)))
		return false;
	copy(w, (size_t)(from - w->held.offset), r);
	stat_add(&r->fl->lane->stats, STAT_BEHIND_GATHERED, r->size);
	set_end_locked(b, w, to);
	return true;
}

/* The same without a copy: r, which has room, continues a WRITE, and that gets its buffers. */
static bool join_locked(struct behind *b, struct fs_req *r)
{
	uint64_t from = r->call.args.io.offset, to = from + r->size;
	const struct nfs_io_args *io = &r->call.args.io;
	struct fs_req *w = find_host_locked(b, r);

	if (!w || held_end(w) != from || to > limit_of(w) || w->held.nparts + io->ndata > RR_SEND_IOV)
		return false;
	for (uint32_t i = 0; i < io->ndata; i++) {
		w->held.part[w->held.nparts] = io->data[i].len;
		w->buf[w->held.nparts++] = r->buf[i];
		r->buf[i] = NULL;
	}
	set_end_locked(b, w, to);
	if (atomic_load(&r->fl->fs->behind.nwaiting))
		behind_want_locked(b, w);
	return true;
}

/* ---- the answer ---- */

static void answer(struct fs_req *r)
{
	uint64_t end = r->call.args.io.offset + r->size;

	stat_add(&r->fl->lane->stats, STAT_BEHIND_BYTES, r->size);
	if (r->req) {
		inode_wrote(r->ino, end);
		young_wrote(r->ino, end, fuse_req_ctx(r->req)->pid);
	} else {
		inode_untold(r->ino);
	}
	atomic_fetch_sub(&r->ino->writing, 1);
	fs_past_the_pages(r);
	if (r->req) {
		fs_unhurried(r, true, NULL);
		fuse_reply_write(r->req, r->size);
		fs_unhurried(r, false, NULL);
	}
	r->req = NULL;
}

/* What r continues, or what has been waiting for longest, will hardly grow any more. */
static void want_others_locked(struct behind *b, const struct fs_req *r)
{
	unsigned open = 0;

	list_for_each_safe(n, tmp, &b->in[HELD]) {
		struct fs_req *w = held_of(n);

		if (w != r && held_end(w) == r->held.offset)
			behind_want_locked(b, w);
		else
			open += w != r;
	}
	if (open >= OPEN_ENDS)
		behind_want_locked(b, held_first(&b->in[HELD]));
}

/* The file gets its first WRITE: this lane's tick looks after it. */
static void look_after(struct behind *b)
{
	inode_ref(b->ino);
	list_add_tail(&fs_this_lane->held, &b->lane_node);
}

static void hold_locked(struct behind *b, struct fs_req *r)
{
	const struct nfs_io_args *io = &r->call.args.io;

	r->held.offset = r->call.args.io.offset;
	r->held.len = (uint32_t)r->size;
	r->held.since_ns = mono_ns();
	r->held.msg.fn = behind_on_msg;
	for (r->held.nparts = 0; r->held.nparts < io->ndata; r->held.nparts++)
		r->held.part[r->held.nparts] = io->data[r->held.nparts].len;
	atomic_fetch_add(&r->fl->fs->behind.bytes, r->size);
	ahead_change_begins(r->ino);
	r->held.seq = ++b->seq;
	held_insert(&b->tree, r);
	behind_set_locked(b, r, HELD);
	atomic_fetch_add(&b->count, 1);
	if (held_end(r) >= limit_of(r) || atomic_load(&r->fl->fs->behind.nwaiting))
		behind_want_locked(b, r);
	want_others_locked(b, r);
}

/* r has room: from now on it is a WRITE that is held, or a part of one. */
static void hold(struct fs_req *r)
{
	struct behind *b = behind_of(r->ino);
	bool joins, first;

	pthread_mutex_lock(&b->mu);
	joins = join_locked(b, r);
	if (!joins)
		hold_locked(b, r);
	first = !b->on_lane;
	b->on_lane = true;
	pthread_mutex_unlock(&b->mu);
	if (first)
		look_after(b);
	answer(r);
	behind_progress(r->ino);
	if (joins)
		fs_req_free(r);
}

/* ---- a new WRITE ---- */

static void fail(struct fs_req *r, int err)
{
	atomic_fetch_sub(&r->ino->writing, 1);
	fs_reply_err(r, err);
	fs_req_free(r);
}

/* Sends r like a file system that has no write-behind. */
static void through(struct fs_req *r)
{
	fs_settle(r, r->ino, true, fs_write_through);
}

/* r has waited for room, and has it now. */
static void on_room(struct loop_msg *m)
{
	struct fs_req *r = container_of(m, struct fs_req, held.msg);

	r->held.posted = false;
	r->held.state = HELD_NOT;
	if (r->req && !atomic_load(&r->fl->fs->behind.closed)) {
		hold(r);
		return;
	}
	give_room(r);
	if (r->req)
		through(r);
	else
		fail(r, 0);             /* given up meanwhile */
}

void fs_behind_want_room(struct fs *fs)
{
	if (!atomic_load(&fs->behind.bytes))
		return;
	for (unsigned i = 0; i < fs->nlanes; i++)
		if (!atomic_exchange(&fs->lanes[i].room_wanted, true))
			loop_post(fs->lanes[i].lane->loop, &fs->lanes[i].room_msg);
}

static bool has_room(struct fs_req *r)
{
	struct behind_pool *p = &r->fl->fs->behind;
	bool got;

	pthread_mutex_lock(&p->mu);
	got = list_empty(&p->waiting) && take_room_locked(p, r);
	if (!got) {
		r->held.state = HELD_WAITS;
		r->held.msg.fn = on_room;
		list_add_tail(&p->waiting, &r->held.node);
		atomic_fetch_add(&p->nwaiting, 1);
		pass_on_locked(p);
	}
	pthread_mutex_unlock(&p->mu);
	if (!got && behind_rather_commits(p))
		fs_behind_want_room(r->fl->fs);
	return got;
}

void fs_behind_write(struct fs_req *r)
{
	struct behind *b = make(r->ino);
	/* What a mapping has changed is written in any case. */
	int err = b && !r->fi.writepage ? fs_behind_error(r->file, true) : 0;
	bool gathered;

	r->held = (struct held){ .state = HELD_NOT };
	if (!b) {
		through(r);
		return;
	}
	if (err) {
		fs_forget_attr(r);
		fail(r, err);
		return;
	}
	pthread_mutex_lock(&b->mu);
	gathered = gather_locked(b, r);
	pthread_mutex_unlock(&b->mu);
	if (gathered) {
		answer(r);
		behind_progress(r->ino);
		fs_req_free(r);
	} else if (has_room(r)) {
		hold(r);
	}
}

bool fs_behind_takes(const struct fs_req *r)
{
	const struct behind_pool *p = &r->fl->fs->behind;

	if (!r->req)
		return false;           /* its process was killed while it was parked */
	/* O_SYNC contains O_DSYNC. Dirty pages of a mapping are written when fsync() says so. */
	return p->most[ARENA_MID] && !atomic_load(&p->closed) && (!r->buf[1] || p->most[ARENA_BIG]) &&
	       (r->fi.writepage || !(r->fi.flags & (O_DSYNC | O_DIRECT)));
}

bool fs_behind_give_up(struct fs_req *r)
{
	struct behind_pool *p = &r->fl->fs->behind;
	bool mine = false;

	if (r->held.state != HELD_WAITS)
		return false;
	pthread_mutex_lock(&p->mu);
	if (!r->held.posted) {
		list_del(&r->held.node);
		atomic_fetch_sub(&p->nwaiting, 1);
		mine = true;
	}
	pthread_mutex_unlock(&p->mu);
	if (mine)
		fail(r, EINTR);
	return mine;
}
