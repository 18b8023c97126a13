/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is, and what an operation makes of it when it begins. See model.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model.h"

struct model model;

/* ---- life ---- */

void model_start(void)
{
	for (unsigned i = 0; i < model.nfiles; i++) {
		free(model.files[i].now);
		free(model.files[i].events);
	}
	memset(model.files, 0, sizeof(model.files[0]) * model.nfiles);
	memset(model.slots, 0, sizeof(model.slots));
	memset(model.names, 0, sizeof(model.names));
	memset(model.begun, 0, sizeof(model.begun));
	model.nfiles = model.nbegun = 0;
	model.tick = 1;
	history_start();
	for (unsigned i = 0; i < MOUNTS * NAMES; i++)
		model.names[i].missed = true;
}

void model_ended(void)
{
	memset(model.begun, 0, sizeof(model.begun));
	model.nbegun = 0;
}

bool model_busy(void)
{
	return model.nbegun;
}

bool model_has(unsigned name)
{
	return model.names[name].file;
}

uint32_t model_size(unsigned worker, unsigned slot)
{
	return model.slots[worker][slot].file ? model.slots[worker][slot].file->size : 0;
}

const struct slot *next_open(const struct file *f, unsigned mount, unsigned *i)
{
	while (*i < cfg.workers * SLOTS) {
		struct op o = { .worker = (uint8_t)(*i / SLOTS) };
		const struct slot *s = &model.slots[o.worker][(*i)++ % SLOTS];

		if (s->file == f && mount_of(&o) == mount)
			return s;
	}
	return NULL;
}

unsigned half_of(const struct file *f, uint32_t off)
{
	return f->split && off >= cfg.size / 2;
}

struct file *file_new(unsigned mount, bool split)
{
	struct file *f;

	if (model.nfiles == FILES_MAX)
		return NULL;
	f = &model.files[model.nfiles++];
	*f = (struct file){ .split = split, .owner = { mount, mount } };
	if (split)
		f->owner[1] = cfg.mounts - 1;
	if (split)
		f->owner[0] = 0;
	f->size = split ? cfg.size : 0;
	f->now = calloc(1, cfg.size);
	f->events = calloc(1, sizeof(struct event) * (cfg.steps + 64));
	if (!f->now || !f->events) {
		perror("the model");
		exit(2);
	}
	return f;
}

bool name_of(const struct file *f, uint8_t *name)
{
	for (unsigned i = 0; i < MOUNTS * NAMES; i++)
		if (model.names[i].file == f) {
			*name = (uint8_t)i;
			return true;
		}
	return false;
}

void name_is(unsigned n, struct file *f)
{
	struct file *was = model.names[n].file;

	if (f)
		f->names++;
	model.names[n].file = f;
	if (f)
		model.names[n].had[f - model.files] = true;
	else
		model.names[n].missed = true;
	if (!was || --was->names)
		return;
	was->gone = true;
	was->remover = n / NAMES;
	/* What others have begun to write is lost, or is not. */
	for (unsigned h = 0; h < HALVES; h++)
		was->wild |= was->owner[h] != was->remover && cfg.mounts > 1;
}

/* ---- floors ---- */

uint32_t published_to(const struct file *f, unsigned half)
{
	for (uint32_t i = 0; i < f->nevents; i++)
		if (f->events[i].half == half && !f->events[i].published)
			return i;
	return f->nevents;
}

static uint32_t last_event(const struct file *f, unsigned half)
{
	for (uint32_t i = f->nevents; i; i--)
		if (f->events[i - 1].half == half)
			return i;
	return 0;
}

void raise_to(uint32_t floors[HALVES], const uint32_t to[HALVES])
{
	for (unsigned h = 0; h < HALVES; h++)
		if (floors[h] < to[h])
			floors[h] = to[h];
}

static void raise_floor(const struct file *f, unsigned mount, unsigned half, uint32_t *floor)
{
	while (*floor < f->nevents) {
		const struct event *e = &f->events[*floor];

		if (e->half == half && (e->mount != mount || !e->done))
			return;
		++*floor;
	}
}

void raise_own(struct file *f, unsigned mount, unsigned half)
{
	raise_floor(f, mount, half, &f->floors[mount][half]);
	raise_floor(f, mount, half, &f->weak[mount][half]);
}

bool may_follow(struct file *f, unsigned mount, unsigned half)
{
	uint32_t last = last_event(f, half);

	return !f->wild && !f->gone && published_to(f, half) >= last && f->floors[mount][half] >= last;
}

bool may_write(struct file *f, unsigned mount, unsigned half)
{
	if (f->wild || f->owner[half] == mount)
		return !f->wild;
	return !f->split && may_follow(f, mount, half);
}

bool may_cut(struct file *f, unsigned mount)
{
	return !f->split && (may_write(f, mount, 0) || (!f->wild && !f->gone &&
							published_to(f, 0) >= last_event(f, 0)));
}

bool is_foreign(const struct op *o)
{
	return cfg.mounts > 1 && o->name / NAMES != mount_of(o);
}

bool may_be_old(const struct op *o)
{
	enum old_names old = cfg.old[mount_of(o)];

	bool excl = o->flags & O_CREAT && o->flags & O_EXCL;

	return old == ALWAYS || (old == READS && o->what == OPEN && !writes(o->flags) && !excl);
}

/* ---- it begins ---- */

/* The file before the last truncation by name. */
static struct { uint8_t *now; uint32_t size; unsigned owner; } before;

static void remember(const struct file *f)
{
	if (!before.now)
		before.now = malloc(cfg.size);
	if (!before.now) {
		perror("the model");
		exit(2);
	}
	memcpy(before.now, f->now, cfg.size);
	before.size = f->size;
	before.owner = f->owner[0];
}

void take_back(struct begun *b)
{
	if (!b->event)
		return;
	memcpy(b->file->now, before.now, cfg.size);
	b->file->size = before.size;
	b->file->owner[0] = before.owner;
	b->file->nevents = --b->event;
	b->event = 0;
}

static void add_event(struct begun *b, bool cuts, uint32_t off, uint32_t len)
{
	struct file *f = b->file;
	unsigned half = half_of(f, off), mount = mount_of(&b->op);
	struct event *e = &f->events[f->nevents++];

	if (cuts && off < f->size)
		memset(f->now + off, 0, f->size - off);
	for (uint32_t i = 0; i < len; i++)
		f->now[off + i] = byte_of(b->op.id, i);
	b->longer = off + len > f->size;
	if (cuts || b->longer)
		f->size = off + len;
	*e = (struct event){ .cuts = cuts, .mount = (uint8_t)mount, .half = (uint8_t)half, .off = off,
			     .len = len, .id = b->op.id, .size = f->size, .poked = b->op.what == POKE };
	f->owner[half] = mount;
	b->event = f->nevents;
}

bool publishes(const struct begun *b, const struct event *e)
{
	uint32_t from = b->op.off, to = from + b->op.len;

	if (b->op.what == WRITE)
		return e == &b->file->events[b->event - 1];
	return e->mount == mount_of(&b->op) && e->done && e->done < b->tick &&
	       (b->op.what != MSYNC || (!e->cuts && e->off >= from && e->off + e->len <= to)) &&
	       (!e->poked || !b->releases || promises(&b->op, b->op.flags));
}

/* Known when it begins: what others publish meanwhile may be there later. */
static uint32_t promised_to(const struct begun *b, unsigned half)
{
	const struct file *f = b->file;
	uint32_t i = 0;

	while (i < f->nevents && (f->events[i].half != half || f->events[i].published ||
				  publishes(b, &f->events[i])))
		i++;
	return i;
}

/*
 * A write() with O_SYNC beside a read() of the same mount: the kernel may drop the page between filling it
 * and sending it, and the read brings it again, as it was. It asks before the next read() and drops it; a
 * mapping keeps it until then (man page, LIMITS).
 */
static void note_raced(const struct begun *read, const struct begun *write)
{
	uint32_t *raced = &write->file->raced[mount_of(&write->op)];

	if (read->op.what == READ && write->op.what == WRITE && write->op.flags & O_DSYNC &&
	    !(write->op.flags & O_DIRECT) && write->event && (!*raced || *raced > write->event))
		*raced = write->event;
}

/* A read beside a change by the same mount does not find all that a lock promises: locks.c. */
static void note_beside(struct begun *b)
{
	const struct slot *s;
	unsigned any = 0;

	for (unsigned i = 0; i < WORKERS; i++) {
		struct begun *other = &model.begun[i];

		if (other == b || !other->on || other->file != b->file ||
		    mount_of(&other->op) != mount_of(&b->op))
			continue;
		note_raced(b, other);
		b->beside |= other->op.what == WRITE || other->op.what == POKE;
		other->beside |= b->op.what == WRITE || b->op.what == POKE;
	}
	while ((s = next_open(b->file, mount_of(&b->op), &any)))
		b->beside |= s->poked;
}

static void set_floors(struct begun *b, int flags)
{
	struct file *f = b->file;

	for (unsigned h = 0; h < HALVES; h++) {
		b->floors[h] = f->floors[mount_of(&b->op)][h];
		b->weak[h] = f->weak[mount_of(&b->op)][h];
		b->published[h] = published_to(f, h);
	}
	memcpy(b->bytes, b->floors, sizeof(b->bytes));
	if (b->op.what == READ && flags & O_DIRECT)
		raise_to(b->bytes, b->published);
	note_beside(b);
}

void model_begins(struct op *o)
{
	unsigned any = 0;
	struct begun *b = &model.begun[o->worker];
	struct slot *s = &model.slots[o->worker][o->slot];
	struct file *f = is_slotted(o) ? s->file : NULL;

	if (is_slotted(o))
		o->flags = s->flags;
	s->poked |= o->what == POKE;
	if (o->what == OPEN || o->what == TRUNCATE || o->what == STAT || o->what == SERVER)
		f = model.names[o->name].file;
	*b = (struct begun){ .on = true, .op = *o, .file = f, .tick = ++model.tick };
	model.nbegun++;
	if (!f)
		return;
	locks_begin(b);
	*o = b->op;
	o->look = cfg.server && !f->wild && (promises(o, s->flags) || b->releases) && name_of(f, &o->name);
	b->op = *o;
	/* Who is about to close it still has it open. */
	b->first = o->what == OPEN && !next_open(f, mount_of(o), &any);
	set_floors(b, s->flags);
	if (o->what == TRUNCATE || (o->what == OPEN && o->flags & O_TRUNC))
		remember(f);
	if (o->what == WRITE)
		add_event(b, false, s->flags & O_APPEND ? f->size : o->off, o->len);
	else if (o->what == POKE)
		add_event(b, false, o->off, o->len);
	else if (o->what == FTRUNCATE || o->what == TRUNCATE)
		add_event(b, true, o->off, 0);
	else if (o->what == OPEN && o->flags & O_TRUNC && !(o->flags & O_CREAT && o->flags & O_EXCL))
		add_event(b, true, 0, 0);
	for (unsigned i = 0; i < WORKERS; i++)
		if (model.begun[i].on && model.begun[i].file == f && mount_of(&model.begun[i].op) == mount_of(o))
			note_raced(&model.begun[i], b);
	for (unsigned h = 0; h < HALVES && (o->look || o->what == UNLOCK || o->what == CLOSE); h++)
		b->promised[h] = promised_to(b, h);
}
