/* SPDX-License-Identifier: GPL-2.0-or-later */
/* May an operation be done now? See model.h. */
#include "model.h"

static bool overlaps(const struct begun *b, const struct file *f, const struct op *o)
{
	uint32_t from = b->op.off / PAGE * PAGE, to = b->op.off + b->op.len;
	bool pages = b->op.what == POKE || o->what == POKE;

	if (b->file != f || (b->op.what != WRITE && b->op.what != POKE))
		return false;
	/* Direct writes beside changed pages of a mapping: POSIX says nothing. */
	if (pages && (b->op.flags | o->flags) & O_DIRECT)
		return true;
	return o->off < to && o->off + o->len > from;
}

/* Is it one of those that others may be beside? */
static bool is_social(const struct file *f, const struct op *o)
{
	switch (o->what) {
	case WRITE: return !(o->flags & O_APPEND) && f && o->off + o->len <= f->size;
	case OPEN: return !(o->flags & (O_CREAT | O_TRUNC));
	case CLOSE: case READ: case PEEK: case POKE: case FSYNC: case MSYNC: case FSTAT: case LOCK:
	case UNLOCK: case TEST: return true;
	default: return false;
	}
}

static bool fits_beside(const struct file *f, const struct op *o)
{
	if (!is_social(f, o))
		return false;
	for (unsigned i = 0; i < WORKERS; i++) {
		const struct begun *b = &model.begun[i];

		if (b->on && (!is_social(b->file, &b->op) || b->longer ||
			      ((o->what == WRITE || o->what == POKE) && overlaps(b, f, o))))
			return false;
	}
	return true;
}

/* An open that only reads does not tell the kernel where the file ends. */
static bool knows_end_from(const struct file *f, unsigned mount, uint32_t floor)
{
	for (uint32_t i = floor; i < f->nevents; i++)
		if (f->events[i].mount != mount)
			return false;
	return true;
}

static bool knows_end(const struct file *f, unsigned mount)
{
	uint32_t opened = f->wfloor[mount], locked = f->lfloor[mount];

	return knows_end_from(f, mount, opened > locked ? opened : locked);
}

/* Nor does a lock, at once. */
static bool maps_end(const struct file *f, unsigned mount)
{
	return knows_end(f, mount) && knows_end_from(f, mount, f->weak[mount][0]);
}

static bool allows_write(const struct op *o, const struct slot *s)
{
	struct file *f = s->file;
	unsigned mount = mount_of(o), half = half_of(f, o->off);
	uint32_t off = s->flags & O_APPEND ? f->size : o->off;

	if (!writes(s->flags) || !o->len || off + o->len > cfg.size ||
	    half_of(f, off + o->len - 1) != half)
		return false;
	if (!may_write(f, mount, half) && !(f->split && locks_cover(f, o) && may_follow(f, mount, half)))
		return false;
	if (!(s->flags & O_APPEND))
		return true;
	/* FUSE does not say which of the requests of a direct write is the first: ESTALE, if it did not
	 * know the end. */
	return !f->split && (s->flags & O_DIRECT ? knows_end_from(f, mount, f->wfloor[mount]) : knows_end(f, mount));
}

/* In the kernel's own client direct reads and writes may pass over what a mapping has changed: its
 * whole folio is written later, over what was written directly. */
static bool mixes(const struct op *o, const struct slot *s)
{
	bool direct = (o->what == READ || o->what == WRITE) && s->flags & O_DIRECT;
	const struct slot *other;
	unsigned i = 0;

	if (cfg.old[mount_of(o)] != ALWAYS || (!direct && o->what != POKE))
		return false;
	while ((other = next_open(s->file, mount_of(o), &i)))
		if (direct ? other->poked : (other->flags & O_DIRECT) != 0)
			return true;
	return false;
}

/* The kernel's own client sends no truncation to the size that it believes the file to have
 * (nfs_setattr()); only an open tells it for certain what others have made of that. */
static bool reaches_server(const struct op *o, const struct file *f)
{
	unsigned mount = mount_of(o);

	return !cfg.old_bytes[mount] || knows_end_from(f, mount, f->wfloor[mount]);
}

/*
 * Linux's server (6.12, 7.3) gives a delegation to write beside another client's open that only reads. Who has
 * one locks by itself and may keep what it writes, so the reader's locks exclude nobody and bring nothing new,
 * until it opens the file once more. No client can see that. With --beside none comes to be: what may be given
 * one does not open a file that others only read, and nobody else opens or closes it meanwhile.
 */
static bool may_be_given(const struct op *o)
{
	return o->what == OPEN && writes(o->flags) &&
	       (cfg.beside == BESIDE_WRITES || (cfg.beside == BESIDE_RDWR && reads(o->flags)));
}

static bool opens_beside_readers(const struct op *o, const struct file *f)
{
	bool any = false;

	for (unsigned mount = 0; mount < cfg.mounts; mount++) {
		const struct slot *s;
		unsigned i = 0;

		while (mount != mount_of(o) && (s = next_open(f, mount, &i))) {
			if (writes(s->flags))
				return false;
			any = true;
		}
	}
	return any;
}

static bool opens_beside_opens(const struct op *o, const struct file *f)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		const struct begun *b = &model.begun[i];

		if (b->on && b->file == f && mount_of(&b->op) != mount_of(o) &&
		    (b->op.what == OPEN || b->op.what == CLOSE) && (may_be_given(o) || may_be_given(&b->op)))
			return true;
	}
	return false;
}

static bool allows_slot(const struct op *o, const struct slot *s)
{
	const struct file *f = s->file;

	if (mixes(o, s))
		return false;
	switch (o->what) {
	case CLOSE: return !opens_beside_opens(o, f);
	case FSYNC: case FSTAT: return true;
	case LOCK: case UNLOCK: case TEST: return locks_allow(o, s);
	case READ: return reads(s->flags) && o->len;
	case WRITE: return allows_write(o, s);
	case FTRUNCATE:
		return writes(s->flags) && !f->split && o->off <= cfg.size &&
		       may_write(s->file, mount_of(o), 0) && reaches_server(o, f);
	case MAP: return reads(s->flags) && !s->mapped && !(s->flags & O_DIRECT);
	case UNMAP: return s->mapped;
	/* Nobody else may cut it: reading behind the end is SIGBUS. */
	case PEEK:
		return s->mapped && !f->wild && o->off + o->len <= f->size &&
		       (f->split || (f->owner[0] == mount_of(o) && !f->gone && maps_end(f, mount_of(o))));
	case POKE:
		return s->mapped && (s->flags & O_ACCMODE) == O_RDWR && !f->wild &&
		       o->off + o->len <= f->size && f->owner[half_of(f, o->off)] == mount_of(o) &&
		       half_of(f, o->off + o->len - 1) == half_of(f, o->off) && !f->gone &&
		       (f->split || maps_end(f, mount_of(o)));
	/* msync() of a mapping that cannot be written to does nothing. */
	case MSYNC:
		return s->mapped && (s->flags & O_ACCMODE) == O_RDWR && o->off + o->len <= f->size;
	default: return false;
	}
}

/* An open of an older name may be of any file that had it. */
static bool misleads(const struct op *o)
{
	const struct name *n = &model.names[o->name];

	for (unsigned i = 0; i < model.nfiles; i++) {
		const struct file *f = &model.files[i];

		if (f != n->file && !(n->had[i] && is_foreign(o) && may_be_old(o)))
			continue;
		if (opens_beside_opens(o, f) || (may_be_given(o) && opens_beside_readers(o, f)))
			return true;
	}
	return false;
}

static bool allows_name(const struct op *o)
{
	const struct name *n = &model.names[o->name];
	bool own = !is_foreign(o);

	switch (o->what) {
	case OPEN:
		if (model.slots[o->worker][o->slot].file)
			return false;
		/* O_EXCL alone means nothing; O_TRUNC without write access neither. */
		if (misleads(o))
			return false;
		if (o->flags & O_TRUNC && (!writes(o->flags) || (n->file && !may_cut(n->file, mount_of(o)))))
			return false;
		/* A new name is its own mount's. */
		return own || !(o->flags & (O_CREAT | O_TRUNC)) ||
		       (n->file && cfg.old[mount_of(o)] != ALWAYS);
	case MAKE: return own && !n->file;
	case TRUNCATE:
		return (own || !may_be_old(o)) && n->file && !n->file->split && o->off <= cfg.size &&
		       (o->off ? may_write(n->file, mount_of(o), 0) : may_cut(n->file, mount_of(o))) &&
		       reaches_server(o, n->file);
	case STAT: return own;
	case UNLINK: return own;
	case RENAME: case LINK:
		return own && o->name / NAMES == o->name2 / NAMES;
	case SERVER:
		return cfg.server && n->file && !n->file->wild &&
		       published_to(n->file, 0) == n->file->nevents &&
		       published_to(n->file, 1) == n->file->nevents;
	default: return true;
	}
}

bool is_slotted(const struct op *o)
{
	switch (o->what) {
	case CLOSE: case READ: case WRITE: case FTRUNCATE: case MAP: case UNMAP: case PEEK: case POKE:
	case MSYNC: case FSYNC: case FSTAT: case LOCK: case UNLOCK: case TEST: return true;
	default: return false;
	}
}

bool model_allows(const struct op *o)
{
	const struct slot *s = &model.slots[o->worker][o->slot];
	bool slotted = is_slotted(o);
	struct op whole = *o;

	if (model.begun[o->worker].on ||
	    (model.nfiles == FILES_MAX && (o->what == OPEN || o->what == MAKE)))
		return false;
	if (slotted)
		whole.flags = s->flags;
	if (slotted && (!s->file || !allows_slot(o, s)))
		return false;
	if (!slotted && !allows_name(o))
		return false;
	return !model.nbegun || fits_beside(slotted ? s->file : model.names[o->name].file, &whole);
}
