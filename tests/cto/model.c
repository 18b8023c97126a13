/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each answer may be. See cto.h.
 *
 * A file is a list of events: writes and truncations, in the order in which they were begun.
 * `now` is what it is after all of them. For each mount and each half of the file there is a
 * floor: the events up to there have to be seen. What one mount finds is checked byte by
 * byte: it is what the byte was at the floor, or what a later event has made of it.
 *
 *     events of a half   w1  w2  w3  w4  w5          owner: A
 *                                 ^       ^
 *                  published, B has      floor of A: its own, ended
 *                  opened: floor of B
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cto.h"

enum { FILES_MAX = 512, HALVES = 2, PAGE = 4096 };

struct event {
	bool cuts;                      /* a truncation to `size`; otherwise a write */
	bool published;
	uint8_t mount, half;
	uint32_t off, len, id, size;    /* size: the file's, afterwards */
	uint32_t done;                  /* at that tick; 0: it is under way */
};

static struct file {
	uint64_t ino;
	bool split;                     /* each mount writes a half of it */
	bool gone;                      /* its names are, by `remover` */
	bool wild;                      /* nobody can say what is in it */
	unsigned remover, names;
	uint32_t size;
	uint8_t *now;
	struct event *events;
	uint32_t nevents;
	unsigned owner[HALVES];
	uint32_t floors[MOUNTS][HALVES];
	uint32_t wfloor[MOUNTS];        /* the floor by opens for writing: a mount may append */
} files[FILES_MAX];
static unsigned nfiles;

static struct slot {
	struct file *file;
	int flags;
	bool mapped;
} slots[WORKERS][SLOTS];

/* Which file a name is, and which it has been. */
static struct name {
	struct file *file;
	bool had[FILES_MAX], missed;    /* missed: at some time there was none */
} names[MOUNTS * NAMES];

static struct begun {
	bool on;
	struct op op;
	struct file *file;
	uint32_t event;                 /* its own + 1; 0: none */
	uint32_t tick, floors[HALVES];
	uint32_t published[HALVES], size;
	bool longer;                    /* it has made the file longer */
} begun[WORKERS];
static unsigned nbegun;
static uint32_t tick;

/* ---- life ---- */

void model_start(void)
{
	for (unsigned i = 0; i < nfiles; i++) {
		free(files[i].now);
		free(files[i].events);
	}
	memset(files, 0, sizeof(files[0]) * nfiles);
	memset(slots, 0, sizeof(slots));
	memset(names, 0, sizeof(names));
	memset(begun, 0, sizeof(begun));
	nfiles = nbegun = 0;
	tick = 1;
	for (unsigned i = 0; i < MOUNTS * NAMES; i++)
		names[i].missed = true;
}

void model_ended(void)
{
	memset(begun, 0, sizeof(begun));
	nbegun = 0;
}

bool model_busy(void)
{
	return nbegun;
}

bool model_has(unsigned name)
{
	return names[name].file;
}

uint32_t model_size(unsigned worker, unsigned slot)
{
	return slots[worker][slot].file ? slots[worker][slot].file->size : 0;
}

static unsigned half_of(const struct file *f, uint32_t off)
{
	return f->split && off >= cfg.size / 2;
}

static struct file *file_new(unsigned mount, bool split)
{
	struct file *f;

	if (nfiles == FILES_MAX)
		return NULL;
	f = &files[nfiles++];
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

static void name_is(unsigned n, struct file *f)
{
	struct file *was = names[n].file;

	if (f)
		f->names++;
	names[n].file = f;
	if (f)
		names[n].had[f - files] = true;
	else
		names[n].missed = true;
	if (!was || --was->names)
		return;
	was->gone = true;
	was->remover = n / NAMES;
	/* What others have begun to write is lost, or is not. */
	for (unsigned h = 0; h < HALVES; h++)
		was->wild |= was->owner[h] != was->remover && cfg.mounts > 1;
}

/* ---- floors ---- */

/* The events of a half up to there are published. */
static uint32_t published_to(const struct file *f, unsigned half)
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

/* A mount sees its own writes that have ended. */
static void raise_own(struct file *f, unsigned mount, unsigned half)
{
	uint32_t *floor = &f->floors[mount][half];

	while (*floor < f->nevents) {
		const struct event *e = &f->events[*floor];

		if (e->half == half && (e->mount != mount || !e->done))
			return;
		++*floor;
	}
}

static bool may_write(struct file *f, unsigned mount, unsigned half)
{
	uint32_t last = last_event(f, half);

	if (f->wild || f->owner[half] == mount)
		return !f->wild;
	return !f->split && !f->gone && published_to(f, half) >= last && f->floors[mount][half] >= last;
}

/* ---- may it be done? ---- */

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
	case CLOSE: case READ: case PEEK: case POKE: case FSYNC: case MSYNC: case FSTAT: return true;
	default: return false;
	}
}

static bool fits_beside(const struct file *f, const struct op *o)
{
	if (!is_social(f, o))
		return false;
	for (unsigned i = 0; i < WORKERS; i++) {
		const struct begun *b = &begun[i];

		if (b->on && (!is_social(b->file, &b->op) || b->longer ||
			      ((o->what == WRITE || o->what == POKE) && overlaps(b, f, o))))
			return false;
	}
	return true;
}

static bool reads(int flags)  { return (flags & O_ACCMODE) != O_WRONLY; }
static bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

/* An open that only reads does not tell the kernel where the file ends. */
static bool knows_end(const struct file *f, unsigned mount)
{
	for (uint32_t i = f->wfloor[mount]; i < f->nevents; i++)
		if (f->events[i].mount != mount)
			return false;
	return true;
}

static bool allows_write(const struct op *o, const struct slot *s)
{
	struct file *f = s->file;
	unsigned mount = mount_of(o), half = half_of(f, o->off);
	uint32_t off = s->flags & O_APPEND ? f->size : o->off;

	if (!writes(s->flags) || !o->len || off + o->len > cfg.size ||
	    half_of(f, off + o->len - 1) != half || !may_write(f, mount, half))
		return false;
	return !(s->flags & O_APPEND) || (!f->split && knows_end(f, mount));
}

static bool allows_slot(const struct op *o, const struct slot *s)
{
	const struct file *f = s->file;

	switch (o->what) {
	case CLOSE: case FSYNC: case FSTAT: return true;
	case READ: return reads(s->flags) && o->len;
	case WRITE: return allows_write(o, s);
	case FTRUNCATE:
		return writes(s->flags) && !f->split && o->off <= cfg.size &&
		       may_write(s->file, mount_of(o), 0);
	case MAP: return reads(s->flags) && !s->mapped && !(s->flags & O_DIRECT);
	case UNMAP: return s->mapped;
	/* Nobody else may cut it: reading behind the end is SIGBUS. */
	case PEEK:
		return s->mapped && !f->wild && o->off + o->len <= f->size &&
		       (f->split || (f->owner[0] == mount_of(o) && !f->gone && knows_end(f, mount_of(o))));
	case POKE:
		return s->mapped && (s->flags & O_ACCMODE) == O_RDWR && !f->wild &&
		       o->off + o->len <= f->size && f->owner[half_of(f, o->off)] == mount_of(o) &&
		       half_of(f, o->off + o->len - 1) == half_of(f, o->off) && !f->gone &&
		       (f->split || knows_end(f, mount_of(o)));
	case MSYNC: return s->mapped && o->off + o->len <= f->size;
	default: return false;
	}
}

static bool allows_name(const struct op *o)
{
	const struct name *n = &names[o->name];
	bool own = cfg.mounts == 1 || o->name / NAMES == mount_of(o);

	switch (o->what) {
	case OPEN:
		if (slots[o->worker][o->slot].file)
			return false;
		/* O_EXCL alone means nothing; O_TRUNC without write access neither. */
		if (o->flags & O_TRUNC && (!writes(o->flags) || (n->file && (n->file->split ||
		    !may_write(n->file, mount_of(o), 0)))))
			return false;
		return own || !(o->flags & (O_CREAT | O_TRUNC));
	case MAKE: return own && !n->file;
	case TRUNCATE:
		return own && n->file && !n->file->split && o->off <= cfg.size &&
		       may_write(n->file, mount_of(o), 0);
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

/* Is it about an open file? */
static bool is_slotted(const struct op *o)
{
	switch (o->what) {
	case CLOSE: case READ: case WRITE: case FTRUNCATE: case MAP: case UNMAP: case PEEK: case POKE:
	case MSYNC: case FSYNC: case FSTAT: return true;
	default: return false;
	}
}

bool model_allows(const struct op *o)
{
	const struct slot *s = &slots[o->worker][o->slot];
	bool slotted = is_slotted(o);
	struct op whole = *o;

	if (begun[o->worker].on || (nfiles == FILES_MAX && (o->what == OPEN || o->what == MAKE)))
		return false;
	if (slotted)
		whole.flags = s->flags;
	if (slotted && (!s->file || !allows_slot(o, s)))
		return false;
	if (!slotted && !allows_name(o))
		return false;
	return !nbegun || fits_beside(slotted ? s->file : names[o->name].file, &whole);
}

/* ---- it begins ---- */

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
			     .len = len, .id = b->op.id, .size = f->size };
	f->owner[half] = mount;
	b->event = f->nevents;
}

void model_begins(struct op *o)
{
	struct begun *b = &begun[o->worker];
	const struct slot *s = &slots[o->worker][o->slot];
	struct file *f = is_slotted(o) ? s->file : NULL;

	if (is_slotted(o))
		o->flags = s->flags;
	if (o->what == OPEN || o->what == TRUNCATE || o->what == STAT || o->what == SERVER)
		f = names[o->name].file;
	*b = (struct begun){ .on = true, .op = *o, .file = f, .tick = ++tick };
	nbegun++;
	if (!f)
		return;
	for (unsigned h = 0; h < HALVES; h++) {
		b->floors[h] = f->floors[mount_of(o)][h];
		b->published[h] = published_to(f, h);
	}
	if (o->what == WRITE)
		add_event(b, false, s->flags & O_APPEND ? f->size : o->off, o->len);
	else if (o->what == POKE)
		add_event(b, false, o->off, o->len);
	else if (o->what == FTRUNCATE || o->what == TRUNCATE)
		add_event(b, true, o->off, 0);
	else if (o->what == OPEN && o->flags & O_TRUNC && !(o->flags & O_CREAT && o->flags & O_EXCL))
		add_event(b, true, 0, 0);
}

/* ---- what is found ---- */

static void say_byte(const struct file *f, uint32_t at, const uint8_t *got, uint32_t len, char *why,
		     size_t size)
{
	size_t n = strlen(why);

	for (uint32_t i = f->nevents; i; i--) {
		const struct event *e = &f->events[i - 1];
		uint32_t k = 0;

		if (e->cuts || at < e->off)
			continue;
		while (k < 8 && k < len && byte_of(e->id, at - e->off + k) == got[k])
			k++;
		if (k < (len < 8 ? len : 8))
			continue;
		snprintf(why + n, size - n, "; these bytes were written by #%u", e->id);
		return;
	}
	snprintf(why + n, size - n, got[0] ? "; nobody has written them" : "; they are zero");
}

/* May this byte have that value for somebody with this floor? */
static bool may_be(const struct file *f, uint32_t at, uint32_t floor, uint8_t got)
{
	for (uint32_t i = f->nevents; i; i--) {
		const struct event *e = &f->events[i - 1];
		bool cut = e->cuts && e->off <= at, written = !e->cuts && at >= e->off && at < e->off + e->len;

		if (!cut && !written)
			continue;
		if (got == (cut ? 0 : byte_of(e->id, at - e->off)))
			return true;
		if (i <= floor)
			return false;
	}
	return !got;
}

/* The sizes that somebody may find: the one at the floor, that of a later event, and what is
 * between: a write arrives in pieces. */
static void sizes(const struct begun *b, uint32_t *least, uint32_t *most)
{
	const struct file *f = b->file;

	*least = *most = f->size;
	if (f->split || b->floors[0] >= f->nevents)
		return;
	*least = *most = b->floors[0] ? f->events[b->floors[0] - 1].size : 0;
	for (uint32_t i = b->floors[0]; i < f->nevents; i++) {
		*least = f->events[i].size < *least ? f->events[i].size : *least;
		*most = f->events[i].size > *most ? f->events[i].size : *most;
	}
}

static bool check_size(const struct begun *b, uint64_t size)
{
	uint32_t least, most;

	sizes(b, &least, &most);
	return size >= least && size <= most;
}

static uint32_t clamp(uint32_t size, const struct op *o)
{
	return size <= o->off ? 0 : size - o->off < o->len ? size - o->off : o->len;
}

static bool check_count(const struct begun *b, uint32_t n)
{
	uint32_t least, most;

	sizes(b, &least, &most);
	return n >= clamp(least, &b->op) && n <= clamp(most, &b->op);
}

static bool check_data(const struct begun *b, int64_t n, const uint8_t *data, char *why, size_t size)
{
	const struct file *f = b->file;

	if (!check_count(b, (uint32_t)n)) {
		snprintf(why, size, "%lld bytes, but the file has %u", (long long)n, f->size);
		return false;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = b->op.off + i, floor = b->floors[half_of(f, at)];

		if ((f->now[at] == data[i] && at < f->size) || may_be(f, at, floor, data[i]))
			continue;
		snprintf(why, size, "byte %u is %u, not %u", at, data[i], f->now[at]);
		say_byte(f, at, data + i, (uint32_t)n - i, why, size);
		return false;
	}
	return true;
}

/* ---- it has ended ---- */

static struct file *find_ino(uint64_t ino)
{
	for (unsigned i = nfiles; i; i--)
		if (files[i - 1].ino == ino)
			return &files[i - 1];
	return NULL;
}

static bool expect(int got, int want, char *why, size_t size)
{
	if (got != want)
		snprintf(why, size, "'%s', not '%s'", got ? strerror(got) : "done", want ? strerror(want) : "done");
	return got == want;
}

/* Everything, or with msync() what is in its range. */
static void publish(const struct begun *b)
{
	bool part = b->op.what == MSYNC;
	uint32_t from = b->op.off, to = from + b->op.len;
	struct file *f = b->file;

	for (uint32_t i = 0; i < f->nevents; i++) {
		struct event *e = &f->events[i];

		if (e->mount == mount_of(&b->op) && e->done && e->done < b->tick)
			e->published |= !part || (!e->cuts && e->off >= from && e->off + e->len <= to);
	}
}

static void event_done(struct begun *b, int flags)
{
	struct event *e;

	if (!b->event)
		return;
	e = &b->file->events[b->event - 1];
	e->done = ++tick;
	e->published |= (flags & (O_DSYNC | O_DIRECT)) != 0;
	raise_own(b->file, e->mount, e->half);
}

static void opened(struct begun *b, struct file *f)
{
	unsigned mount = mount_of(&b->op);
	bool same = f == b->file;

	slots[b->op.worker][b->op.slot] = (struct slot){ .file = f, .flags = b->op.flags };
	for (unsigned h = 0; h < HALVES && same; h++)
		if (f->floors[mount][h] < b->published[h])
			f->floors[mount][h] = b->published[h];
	if (same && writes(b->op.flags) && f->wfloor[mount] < f->floors[mount][0])
		f->wfloor[mount] = f->floors[mount][0];
	event_done(b, O_DIRECT);
	for (unsigned h = 0; h < HALVES; h++)
		raise_own(f, mount, h);
}

/* One of the other mount's names. */
static bool check_foreign(struct begun *b, const struct answer *a, char *why, size_t size)
{
	const struct name *n = &names[b->op.name];
	struct file *f = a->rc ? NULL : find_ino(a->ino);
	bool ok = false;

	if (a->rc) {
		for (unsigned i = 0; i < nfiles; i++)
			ok |= n->had[i] && files[i].gone;
		if ((a->err == ENOENT && n->missed) || (a->err == ESTALE && ok))
			return true;
		return expect(a->err, 0, why, size);
	}
	if (!f || !n->had[f - files]) {
		snprintf(why, size, "inode %llu never had this name", (unsigned long long)a->ino);
		return false;
	}
	if (f->gone)
		f->wild |= writes(b->op.flags);
	opened(b, f);
	return true;
}

static bool check_open(struct begun *b, const struct answer *a, char *why, size_t size)
{
	const struct op *o = &b->op;
	struct name *n = &names[o->name];
	bool creat = o->flags & O_CREAT, excl = creat && o->flags & O_EXCL;
	int want = n->file ? excl ? EEXIST : 0 : creat ? 0 : ENOENT;

	if (cfg.mounts > 1 && o->name / NAMES != mount_of(o))
		return check_foreign(b, a, why, size);
	if (!expect(a->err, want, why, size) || want)
		return a->err == want;
	if (!n->file) {
		struct file *was = find_ino(a->ino);

		if (was && !was->gone) {
			snprintf(why, size, "the new file has the inode number of another one");
			return false;
		}
		if (was)
			was->ino = 0;
		b->file = file_new(mount_of(o), false);
		b->file->ino = a->ino;
		name_is(o->name, b->file);
	} else if (n->file->ino != a->ino) {
		snprintf(why, size, "inode %llu, not %llu", (unsigned long long)a->ino, (unsigned long long)n->file->ino);
		return false;
	}
	opened(b, b->file);
	return true;
}

static bool check_make(const struct begun *b, const struct answer *a, char *why, size_t size)
{
	struct file *was = a->rc ? NULL : find_ino(a->ino), *f;

	if (!expect(a->err, 0, why, size))
		return false;
	if (was)
		was->ino = 0;
	f = file_new(mount_of(&b->op), true);
	f->ino = a->ino;
	name_is(b->op.name, f);
	return true;
}

static bool check_name(const struct begun *b, const struct answer *a, char *why, size_t size)
{
	const struct op *o = &b->op;
	struct file *from = names[o->name].file, *to = names[o->name2].file;
	int want = !from ? ENOENT : o->what == LINK && to ? EEXIST : 0;

	/* A server that restarts may have done it, and not have said so. */
	if (cfg.nevents && !want && a->err == (o->what == LINK ? EEXIST : ENOENT))
		want = 0;
	else if (!expect(a->err, want, why, size) || want)
		return a->err == want;
	if (o->what == UNLINK) {
		name_is(o->name, NULL);
	} else if (o->what == LINK) {
		name_is(o->name2, from);
	} else if (from != to) {        /* two names of one file: POSIX leaves both */
		name_is(o->name2, from);
		name_is(o->name, NULL);
	}
	return true;
}

static bool check_stat(struct begun *b, const struct answer *a, char *why, size_t size)
{
	bool named = b->op.what == STAT;

	if (named && !expect(a->err, b->file ? 0 : ENOENT, why, size))
		return false;
	if (!b->file)
		return true;
	if (a->ino != b->file->ino || !check_size(b, a->size)) {
		snprintf(why, size, "inode %llu with %llu bytes, not %llu with %u", (unsigned long long)a->ino,
			 (unsigned long long)a->size, (unsigned long long)b->file->ino, b->file->size);
		return false;
	}
	return true;
}

/* An open file that the other mount has removed: the server may not know it any more. */
static bool is_lost(const struct begun *b)
{
	const struct file *f = b->file;

	return f && (f->wild || (f->gone && f->remover != mount_of(&b->op) && cfg.mounts > 1));
}

static bool check_file(struct begun *b, const struct answer *a, const uint8_t *data, char *why,
		       size_t size)
{
	const struct op *o = &b->op;
	struct slot *s = &slots[o->worker][o->slot];
	int flags = s->flags;

	if (o->what == CLOSE)
		*s = (struct slot){ 0 };
	else if (o->what == MAP || o->what == UNMAP)
		s->mapped = o->what == MAP;
	if (is_lost(b))
		return true;
	if (!expect(a->err, 0, why, size))
		return false;
	if (o->what == WRITE && a->rc != (int64_t)o->len) {
		snprintf(why, size, "%lld bytes", (long long)a->rc);
		return false;
	}
	if (o->what == READ || o->what == PEEK)
		return check_data(b, a->rc, data, why, size);
	if (o->what == FSTAT)
		return check_stat(b, a, why, size);
	event_done(b, o->what == WRITE ? flags : o->what == FTRUNCATE || o->what == TRUNCATE ? O_DIRECT : 0);
	if (o->what == FSYNC || o->what == MSYNC || (o->what == CLOSE && writes(flags)))
		publish(b);
	return true;
}

static bool check_server(struct begun *b, const struct answer *a, const uint8_t *data, char *why,
			 size_t size)
{
	b->floors[0] = b->floors[1] = b->file->nevents;
	b->op.off = 0;
	return expect(a->err, 0, why, size) && check_data(b, a->rc, data, why, size);
}

bool model_check(const struct op *o, const struct answer *a, const uint8_t *data, char *why,
		 size_t size)
{
	struct begun *b = &begun[o->worker];

	b->on = false;
	nbegun--;
	switch (o->what) {
	case OPEN: return check_open(b, a, why, size);
	case MAKE: return check_make(b, a, why, size);
	case UNLINK: case RENAME: case LINK: return check_name(b, a, why, size);
	case STAT: return check_stat(b, a, why, size);
	case SERVER: return check_server(b, a, data, why, size);
	case EVENT: case PAUSE: case RMDIR: return true;
	case MKDIR: return expect(a->err, 0, why, size);
	default: return check_file(b, a, data, why, size);
	}
}
