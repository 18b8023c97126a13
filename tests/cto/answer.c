/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is an answer right, and what does it tell? See model.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "model.h"

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
		uint32_t at = b->op.off + i, floor = b->bytes[half_of(f, at)];

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
	for (unsigned i = model.nfiles; i; i--)
		if (model.files[i - 1].ino == ino)
			return &model.files[i - 1];
	return NULL;
}

bool expect(int got, int want, char *why, size_t size)
{
	if (got != want)
		snprintf(why, size, "'%s', not '%s'", got ? strerror(got) : "done", want ? strerror(want) : "done");
	return got == want;
}

/* Everything, or with msync() what is in its range. */
static void publish(const struct begun *b)
{
	struct file *f = b->file;

	for (uint32_t i = 0; i < f->nevents; i++)
		f->events[i].published |= publishes(b, &f->events[i]);
}

static void demand(struct begun *b, const uint32_t floors[HALVES])
{
	memcpy(b->floors, floors, sizeof(b->floors));
	memcpy(b->bytes, floors, sizeof(b->bytes));
}

/* The server's own bytes, read when b had ended. */
static bool check_promise(struct begun *b, const struct answer *a, const uint8_t *data, char *why,
			  size_t size)
{
	demand(b, b->promised);
	b->op.off = 0;
	b->op.len = cfg.size;
	if (a->server >= 0 && check_data(b, a->server, data, why, size))
		return true;
	if (a->server < 0)
		snprintf(why, size, "'%s'", strerror(-(int)a->server));
	snprintf(why + strlen(why), size - strlen(why), "; so the server has it, after this has ended: "
		 "a promise was not kept");
	return false;
}

static void event_done(struct begun *b, int flags)
{
	struct event *e;

	if (!b->event)
		return;
	e = &b->file->events[b->event - 1];
	e->done = ++model.tick;
	e->published |= (flags & (O_DSYNC | O_DIRECT)) != 0;
	raise_own(b->file, e->mount, e->half);
}

/* Has the mount's own writing hidden for good what another one has written beside it? */
static bool hides(const struct file *f, unsigned mount)
{
	for (uint32_t i = 0; i < f->nevents && f->split && cfg.old_bytes[mount]; i++)
		if (f->events[i].mount == mount)
			return true;
	return false;
}

static void opened(struct begun *b, struct file *f)
{
	unsigned mount = mount_of(&b->op);
	bool same = f == b->file;

	model.slots[b->op.worker][b->op.slot] = (struct slot){ .file = f, .flags = b->op.flags };
	f->keeps[mount] &= !(same && b->first) || hides(f, mount);
	if (same && !f->keeps[mount]) {
		raise_to(f->floors[mount], b->published);
		raise_to(f->weak[mount], b->published);
	}
	if (same && writes(b->op.flags) && f->wfloor[mount] < f->floors[mount][0])
		f->wfloor[mount] = f->floors[mount][0];
	f->keeps[mount] |= cfg.old_bytes[mount] && writes(b->op.flags);
	event_done(b, O_DIRECT);
	for (unsigned h = 0; h < HALVES; h++)
		raise_own(f, mount, h);
}

/* One of another mount's names, which it may not have seen changing. */
static bool check_old(struct begun *b, const struct answer *a, char *why, size_t size)
{
	const struct name *n = &model.names[b->op.name];
	struct file *f = a->rc ? NULL : find_ino(a->ino);
	bool ok = false;

	if (a->rc) {
		for (unsigned i = 0; i < model.nfiles; i++)
			ok |= n->had[i] && model.files[i].gone;
		if ((a->err == ENOENT && n->missed) || (a->err == ESTALE && ok))
			return true;
		return expect(a->err, 0, why, size);
	}
	if (!f || !n->had[f - model.files]) {
		snprintf(why, size, "inode %llu never had this name", (unsigned long long)a->ino);
		return false;
	}
	if (f->gone)
		f->wild |= writes(b->op.flags);
	opened(b, f);
	return true;
}

/* One of another mount's names. For a while the kernel may believe that there is no such name. */
static bool check_foreign(struct begun *b, const struct answer *a, char *why, size_t size)
{
	const struct name *n = &model.names[b->op.name];
	int flags = b->op.flags, want = !n->file ? ENOENT : flags & O_CREAT && flags & O_EXCL ? EEXIST : 0;

	if (a->err == ENOENT && n->missed && !(flags & O_CREAT)) {
		take_back(b);
		return true;
	}
	if (!expect(a->err, want, why, size) || want)
		return a->err == want;
	if (a->ino != n->file->ino) {
		snprintf(why, size, "inode %llu, but the name is %llu", (unsigned long long)a->ino,
			 (unsigned long long)n->file->ino);
		return false;
	}
	opened(b, n->file);
	return true;
}

static bool check_open(struct begun *b, const struct answer *a, char *why, size_t size)
{
	const struct op *o = &b->op;
	struct name *n = &model.names[o->name];
	bool creat = o->flags & O_CREAT, excl = creat && o->flags & O_EXCL;
	int want = n->file ? excl ? EEXIST : 0 : creat ? 0 : ENOENT;

	if (is_foreign(o))
		return may_be_old(o) ? check_old(b, a, why, size) : check_foreign(b, a, why, size);
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
	struct file *from = model.names[o->name].file, *to = model.names[o->name2].file;
	int want = !from ? ENOENT : o->what == LINK && to ? EEXIST : 0;

	/* A server that restarts may have done it, and not have said so. What it does not find then
	 * counts as removed; a kernel has looked the name up before (nfs4_dir.c). */
	if (cfg.nevents && cfg.fronts[mount_of(o)] && o->what == UNLINK && want && !a->err)
		return true;
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

bool is_lost(const struct begun *b)
{
	const struct file *f = b->file;

	return f && (f->wild || (f->gone && f->remover != mount_of(&b->op) && cfg.mounts > 1));
}

/* A read beside a change by the same mount may miss how long the file is. Who reads by system calls, or
 * looks, has the kernel ask. */
static bool check_found(struct begun *b, const struct answer *a, const uint8_t *data, char *why,
			size_t size)
{
	uint32_t *raced = &b->file->raced[mount_of(&b->op)];

	if (b->beside)
		memcpy(b->floors, b->weak, sizeof(b->floors));
	for (unsigned h = 0; h < HALVES && b->op.what == PEEK && *raced; h++)
		b->bytes[h] = b->bytes[h] < *raced ? b->bytes[h] : *raced - 1;
	if (b->op.what == FSTAT ? !check_stat(b, a, why, size) : !check_data(b, a->rc, data, why, size))
		return false;
	if (b->op.what != PEEK && !(b->op.flags & O_DIRECT))
		raise_to(b->file->weak[mount_of(&b->op)], b->floors);
	if (b->op.what != PEEK && !(b->op.flags & O_DIRECT) && !b->beside)
		*raced = 0;
	return true;
}

static bool check_file(struct begun *b, const struct answer *a, const uint8_t *data, char *why,
		       size_t size)
{
	const struct op *o = &b->op;
	struct slot *s = &model.slots[o->worker][o->slot];
	int flags = s->flags;

	if (o->what == CLOSE || o->what == UNLOCK)
		locks_released(b);
	if (o->what == CLOSE)
		*s = (struct slot){ 0 };
	else if (o->what == MAP || o->what == UNMAP)
		s->mapped = o->what == MAP;
	if (is_lost(b))
		return true;
	if (o->what == TRUNCATE && is_foreign(o) && a->err == ENOENT && model.names[o->name].missed) {
		take_back(b);
		return true;
	}
	if (!expect(a->err, 0, why, size))
		return false;
	if (o->what == WRITE && a->rc != (int64_t)o->len) {
		snprintf(why, size, "%lld bytes", (long long)a->rc);
		return false;
	}
	if (o->what == READ || o->what == PEEK || o->what == FSTAT)
		return check_found(b, a, data, why, size);
	event_done(b, o->what == WRITE ? flags : o->what == FTRUNCATE || o->what == TRUNCATE ? O_DIRECT : 0);
	if (o->what != WRITE && (promises(o, flags) || b->releases))
		publish(b);
	return !o->look || check_promise(b, a, data, why, size);
}

static bool check_server(struct begun *b, const struct answer *a, const uint8_t *data, char *why,
			 size_t size)
{
	const uint32_t all[HALVES] = { b->file->nevents, b->file->nevents };

	demand(b, all);
	b->op.off = 0;
	return expect(a->err, 0, why, size) && check_data(b, a->rc, data, why, size);
}

bool model_check(const struct op *o, const struct answer *a, const uint8_t *data, char *why,
		 size_t size)
{
	struct begun *b = &model.begun[o->worker];

	b->on = false;
	model.nbegun -= !b->parked;
	switch (o->what) {
	case OPEN: return check_open(b, a, why, size);
	case MAKE: return check_make(b, a, why, size);
	case UNLINK: case RENAME: case LINK: return check_name(b, a, why, size);
	case STAT: return check_stat(b, a, why, size);
	case LOCK: case TEST: return locks_check(b, a, why, size);
	case SERVER: return check_server(b, a, data, why, size);
	case EVENT: case PAUSE: return true;
	case MKDIR: case RMDIR: return expect(a->err, 0, why, size);
	default: return check_file(b, a, data, why, size);
	}
}

/* ---- after a difference ---- */

bool model_names(const struct op *o, uint8_t *name)
{
	const struct file *f = model.begun[o->worker].file;

	return f && !f->wild && name_of(f, name);
}

bool model_would_do(const struct op *o, int64_t n, const uint8_t *data)
{
	char why[256] = "";

	return n >= 0 && check_data(&model.begun[o->worker], n, data, why, sizeof(why));
}
