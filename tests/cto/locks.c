/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks: who has which, and what that says about data. See model.h.
 *
 * An owner is a process (POSIX), or an open file (OFD, flock). Who has the lock:
 *
 *     granted        nobody else may have one that conflicts, on whichever mount. An unlock that
 *                    is under way may have been first.
 *     refused        somebody has one that conflicts, or had it when the question began; or somebody
 *                    waits for one, and may have got it; or a file was closed with one a moment ago:
 *                    the kernel tells FUSE of that later
 *     waits          as long as somebody has it, and no longer. Only a process without locks waits,
 *                    so none waits for itself.
 *
 * What data is new, and is it where it has to be:
 *
 *   - UNLOCK, and a close() that releases POSIX locks, promise what fsync() does: of the mount's own
 *     writes that had ended when it began, by whichever process, with or without the lock. But for
 *     what a mapping has changed: that is msync()'s.
 *   - A lock that is granted raises the floor of that mount: what was published when it began, and if
 *     it had to wait all that the unlock which lets it go on has published. This is the server's
 *     order, so it does not depend on which process is told first. Not what is published while it is
 *     under way.
 *   - The floor is the mount's, not the process's: the kernel has one cache for all of them. A
 *     read that begins after the grant finds it, with or without the lock; of a read that began before
 *     nothing is demanded. It never comes down again.
 *   - That is no matter of how long attributes are believed: acregmin and the like do not excuse a
 *     read under a lock.
 *   - A mapping finds the same. But the kernel knows only by a read() or a stat() that the file is longer,
 *     so nobody looks there (maps_end()).
 *   - Excused by the man page (Locks): a read beside a write of the same mount may miss how long the file
 *     is (`weak` in model.h), but finds no old byte.
 *
 * Who has been granted a lock may write what others have written and published (may_follow()). In a
 * file of two halves one lock of such a half gives it to the mount, while others write the other one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "model.h"

/* So long RELEASE may take, with a server that restarts. */
#define LINGERS_SECONDS 60

static unsigned long granted, waited, news;

void model_counts(unsigned long *g, unsigned long *w, unsigned long *n)
{
	*g = granted;
	*w = waited;
	*n = news;
}

static unsigned owner_of(const struct file *f, const struct op *o)
{
	return o->worker * SLOTS + (f->kind == POSIX ? 0u : o->slot);
}

static bool has_any(const struct held *h)
{
	return h->shared | h->excl;
}

/* Who has a lock that this one conflicts with; OWNERS: nobody. */
static unsigned in_the_way(const struct file *f, const struct op *o)
{
	unsigned i;

	for (i = 0; i < OWNERS; i++)
		if (i != owner_of(f, o) && (f->held[i].excl | (o->excl ? f->held[i].shared : 0)) & o->cells)
			break;
	return i;
}

/* Something about the same cells that is not answered yet: who waits, or who does not. */
static bool has_rival(const struct file *f, const struct op *o, bool parked)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		const struct begun *b = &model.begun[i];

		if (b->on && (b->op.what == LOCK || b->op.what == TEST) && b->file == f &&
		    b->op.worker != o->worker && b->op.cells & o->cells && b->parked == parked)
			return true;
	}
	return false;
}

static bool has_locks(unsigned worker)
{
	for (unsigned i = 0; i < model.nfiles; i++)
		for (unsigned k = 0; k < SLOTS; k++)
			if (has_any(&model.files[i].held[worker * SLOTS + k]))
				return true;
	return false;
}

static struct op of_file(const struct file *f, const struct op *o)
{
	struct op is = *o;

	is.kind = f->locked ? f->kind : o->kind;
	if (is.kind == FLOCK)
		is.cells = ALL_CELLS;
	return is;
}

/* A process's locks go through the open of its first one (vfs/locks.h): the server does not give one to
 * write through an open that only reads. The kernel's client and local files do. */
static bool fits_through(const struct held *h, const struct op *o)
{
	return !has_any(h) || (o->excl ? writes(h->through) : reads(h->through));
}

bool locks_allow(const struct op *o, const struct slot *s)
{
	const struct file *f = s->file;
	struct op is = of_file(f, o);

	if (o->what == UNLOCK)
		return f->locked;
	if (f->gone || f->wild || cfg.fronts[mount_of(o)] || !(o->excl ? writes(s->flags) : reads(s->flags)))
		return false;
	/* flock() gives back what it has before it takes the other one. */
	if (is.kind == FLOCK && (o->what == TEST || has_any(&f->held[o->worker * SLOTS + o->slot])))
		return false;
	if (is.kind == POSIX && o->what == LOCK && !fits_through(&f->held[owner_of(f, o)], o))
		return false;
	/* Which of two comes first nobody knows, nor what the first one is converted from. */
	return !has_rival(f, &is, false) && !(o->waits && has_locks(o->worker));
}

void locks_begin(struct begun *b)
{
	struct file *f = b->file;
	struct op *o = &b->op;

	if (o->what == LOCK || o->what == UNLOCK || o->what == TEST) {
		*o = of_file(f, o);
		f->kind = o->kind;
		f->locked = true;
	}
	if (o->what == UNLOCK || (o->what == CLOSE && f->kind == POSIX))
		b->releases = has_any(&f->held[owner_of(f, o)]);
	b->blocked = (o->what == LOCK || o->what == TEST) && in_the_way(f, o) < OWNERS;
}

/* ---- answers ---- */

static void grant(struct begun *b)
{
	struct file *f = b->file;
	unsigned mount = mount_of(&b->op);
	struct held *h = &f->held[owner_of(f, &b->op)];
	uint8_t cells = b->op.cells;

	if (!has_any(h))
		h->through = model.slots[b->op.worker][b->op.slot].flags;
	h->shared = (uint8_t)((h->shared & ~cells) | (b->op.excl ? 0 : cells));
	h->excl = (uint8_t)((h->excl & ~cells) | (b->op.excl ? cells : 0));
	granted++;
	waited += b->parked;
	for (unsigned k = 0; k < HALVES; k++)
		news += b->published[k] > f->floors[mount][k];
	/* The kernel's own client drops its cache for a lock only where it has no delegation. An open may bring one
	 * while it has the file open for writing, and then what is old stays. */
	if (f->keeps[mount])
		return;
	raise_to(f->floors[mount], b->published);
	f->lfloor[mount] = f->floors[mount][0];
}

bool locks_check(struct begun *b, const struct answer *a, char *why, size_t size)
{
	const struct op *o = &b->op;
	unsigned holder = in_the_way(b->file, o);
	bool may_fail = !o->waits && (b->blocked || has_rival(b->file, o, true) ||
				      now_seconds() < b->file->lingers);

	if (a->err == EAGAIN && may_fail)
		return true;
	if (!a->err && holder < OWNERS && !is_lost(b)) {
		snprintf(why, size, "granted, but worker %u has a lock", holder / SLOTS);
		return false;
	}
	if (!is_lost(b) && !expect(a->err, 0, why, size))
		return false;
	if (o->what == LOCK && !a->err)
		grant(b);
	return true;
}

/* Who waits for it has to find what it has published. */
static void tell_waiting(const struct begun *b, const struct held *was)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		struct begun *w = &model.begun[i];

		if (w->on && w->op.what == LOCK && w->file == b->file && w->op.worker != b->op.worker &&
		    (was->excl | (w->op.excl ? was->shared : 0)) & w->op.cells)
			raise_to(w->published, b->promised);
	}
}

void locks_released(const struct begun *b)
{
	struct file *f = b->file;
	struct held *h = &f->held[owner_of(f, &b->op)];
	uint8_t cells = b->op.what == UNLOCK ? b->op.cells : ALL_CELLS;
	struct held was = { .shared = h->shared & cells, .excl = h->excl & cells };

	h->shared &= (uint8_t)~cells;
	h->excl &= (uint8_t)~cells;
	if (!has_any(&was) || is_lost(b))
		return;
	if (b->releases || promises(&b->op, b->op.flags))
		tell_waiting(b, &was);
	if (b->op.what == CLOSE && f->kind != POSIX)
		f->lingers = now_seconds() + LINGERS_SECONDS;
}

bool locks_cover(const struct file *f, const struct op *o)
{
	const struct held *h = &f->held[owner_of(f, o)];
	uint32_t cell = cfg.size / CELLS, to = (o->off + o->len - 1) / cell;

	for (uint32_t i = o->off / cell; i <= to; i++)
		if (!(h->excl & 1u << (i < CELLS ? i : CELLS - 1)))
			return false;
	return true;
}

/* ---- for main ---- */

bool model_must_wait(unsigned worker)
{
	const struct begun *b = &model.begun[worker];

	return in_the_way(b->file, &b->op) < OWNERS;
}

void model_waits(unsigned worker)
{
	struct begun *b = &model.begun[worker];

	model.nbegun -= !b->parked;
	b->parked = true;
}

bool model_holder(unsigned nth, uint8_t *worker, uint8_t *slot)
{
	for (unsigned i = 0; i < OWNERS; i++) {
		const struct slot *s = &model.slots[(i + nth) % OWNERS / SLOTS][(i + nth) % SLOTS];

		if (!s->file || !has_any(&s->file->held[(i + nth) % OWNERS / SLOTS * SLOTS +
				(s->file->kind == POSIX ? 0 : (i + nth) % SLOTS)]))
			continue;
		*worker = (uint8_t)((i + nth) % OWNERS / SLOTS);
		*slot = (uint8_t)((i + nth) % SLOTS);
		return true;
	}
	return false;
}
