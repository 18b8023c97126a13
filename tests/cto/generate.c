/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is done next, by chance. Half of all reads and writes go on where the last one ended. */
#include <fcntl.h>
#include "cto.h"

/* In the order of enum what. */
static const unsigned char weights[NWHATS] = {
	[OPEN] = 16, [MAKE] = 3, [CLOSE] = 8, [READ] = 30, [WRITE] = 36, [FTRUNCATE] = 3, [TRUNCATE] = 1,
	[MAP] = 4, [UNMAP] = 2, [PEEK] = 10, [POKE] = 6, [MSYNC] = 2, [FSYNC] = 4, [FSTAT] = 6, [STAT] = 4,
	[UNLINK] = 2, [RENAME] = 2, [LINK] = 1, [SERVER] = 3, [LOCK] = 36, [UNLOCK] = 18, [TEST] = 2,
};

static uint32_t at[WORKERS][SLOTS];     /* where the last one ended */
static uint32_t serial;
static double last_event;
/* Of this episode. */
static unsigned nfiles;                 /* of each mount */
static bool maps;                       /* nobody reads or looks otherwise, and so tells the kernel */
static bool streams;                    /* who reads goes on reading */
static bool renames;                    /* names change often */
static bool locks;                      /* who has locks does most */

static unsigned weight_of(unsigned what)
{
	bool name = what == UNLINK || what == RENAME || what == LINK || what == TRUNCATE || what == OPEN ||
		    what == CLOSE;
	bool lock = what == LOCK || what == UNLOCK || what == TEST;

	return lock && !locks ? 0 : weights[what] * (renames && name ? 4u : 1u);
}

static unsigned pick_what(void)
{
	unsigned sum = 0, n;

	for (unsigned i = 0; i < NWHATS; i++)
		sum += weight_of(i);
	n = chance(sum);
	for (unsigned i = 0; i < NWHATS; i++) {
		if (n < weight_of(i))
			return i;
		n -= weight_of(i);
	}
	return READ;
}

static uint32_t pick_len(void)
{
	switch (chance(8)) {
	case 0: case 1: return 1 + chance(300);
	case 2: case 3: return 4096 * (1 + chance(4));
	case 4: return 65536;
	case 5: return 1 + chance(131072);
	case 6: return 1 + chance(20000);
	default: return 1 + chance(IO_MAX);
	}
}

static int pick_flags(void)
{
	static const int access[] = { O_RDONLY, O_RDWR, O_RDWR, O_WRONLY };
	int flags = access[chance(4)];

	flags |= chance(3) ? 0 : O_CREAT;
	flags |= flags & O_CREAT && !chance(5) ? O_EXCL : 0;
	flags |= flags & O_ACCMODE && !chance(8) ? O_TRUNC : 0;
	flags |= flags & O_ACCMODE && !chance(5) ? O_APPEND : 0;
	flags |= chance(8) ? 0 : O_DIRECT;
	flags |= chance(10) ? 0 : chance(2) ? O_SYNC : O_DSYNC;
	return flags;
}

static uint32_t pick_off(const struct op *o)
{
	uint32_t size = model_size(o->worker, o->slot);

	switch (chance(8)) {
	case 0: return chance(size + 1);
	case 1: return size;
	case 2: return chance(cfg.size);
	case 3: return chance(cfg.size / 65536 + 1) * 65536 - (chance(2) ? 0 : chance(3000));
	default: return at[o->worker][o->slot];
	}
}

static uint8_t pick_name(unsigned mount)
{
	return (uint8_t)(mount * NAMES + chance(nfiles));
}

static void pick_lock(struct op *o)
{
	unsigned first = chance(CELLS), last = first + chance(CELLS - first);

	o->kind = (uint8_t)chance(KINDS);
	o->cells = chance(3) ? ALL_CELLS : (uint8_t)((2u << last) - (1u << first));
	o->excl = chance(3);
	/* The kernel's own client waits for half a minute when it has come too late. */
	o->waits = o->what == LOCK && chance(cfg.old[mount_of(o)] == ALWAYS ? 16 : 2) == 0;
}

static bool is_of_file(unsigned what)
{
	return what == READ || what == WRITE || what == FSTAT || what == PEEK || what == POKE || what == UNLOCK;
}

static struct op pick(void)
{
	static struct op o;
	unsigned own;

	/* One of three is more of the same: streams, which are read ahead and gathered. */
	if ((o.what != READ && o.what != WRITE) || chance(3))
		o = (struct op){ .what = (uint8_t)pick_what(), .worker = (uint8_t)chance(cfg.workers), .slot = (uint8_t)chance(SLOTS) };
	if (locks && is_of_file(o.what) && chance(2))
		model_holder(chance(WORKERS * SLOTS), &o.worker, &o.slot);
	if (o.what == LOCK || o.what == UNLOCK || o.what == TEST)
		pick_lock(&o);
	own = cfg.mounts == 1 ? chance(cfg.families) : mount_of(&o);
	if (maps && (o.what == READ || o.what == FSTAT || o.what == STAT))
		o.what = chance(3) ? PEEK : MAP;
	o.along = model_busy();
	o.id = ++serial;
	o.name = pick_name(o.what == OPEN || o.what == SERVER || o.what == TRUNCATE ? chance(cfg.families) : own);
	o.name2 = pick_name(own);
	o.len = pick_len();
	o.off = pick_off(&o);
	if (streams && o.what == READ && chance(8)) {
		o.len = 4096 * (1 + chance(8));
		o.off = at[o.worker][o.slot];
	}
	if (o.off > cfg.size)
		o.off = 0;
	if (o.what == OPEN && o.name / NAMES == own && !model_has(o.name) && chance(2)) {
		o.what = MAKE;
	} else if (o.what == OPEN) {
		o.flags = pick_flags();
		if (cfg.mounts > 1 && o.name / NAMES != mount_of(&o) && cfg.old[mount_of(&o)] == ALWAYS)
			o.flags &= ~(O_CREAT | O_EXCL | O_TRUNC);
		/* The kernel's own client has no direct appends. */
		if (cfg.old[mount_of(&o)] == ALWAYS && o.flags & O_DIRECT)
			o.flags &= ~O_APPEND;
	} else if (o.what == FSYNC) {
		o.len = chance(2);
	} else if (o.what == SERVER) {
		o.off = 0;
		o.len = cfg.size;
	} else if (o.what == TRUNCATE || o.what == FTRUNCATE) {
		o.off = chance(3) ? chance(cfg.size / 2) : model_size(o.worker, o.slot) / 2;
		o.off = o.off > cfg.size ? 0 : o.off;
	}
	return o;
}

/* A read or write has to fit. */
static void fit(struct op *o)
{
	uint32_t end = cfg.size;

	if (o->what == PEEK || o->what == POKE || o->what == MSYNC)
		end = model_size(o->worker, o->slot);
	if (o->off >= end)
		o->off = end ? chance(end) : 0;
	if (o->len > end - o->off)
		o->len = end - o->off;
}

void generate_start(void)
{
	nfiles = 1 + chance(cfg.files);
	maps = !chance(4);
	streams = !chance(4);
	renames = !chance(3);
	locks = cfg.locks && chance(4);
	if (locks) {
		nfiles = 1;
		maps = false;
	}
}

struct op generate(void)
{
	struct op o;

	if (cfg.nevents && now_seconds() - last_event > cfg.every) {
		if (last_event > 0) {
			last_event = now_seconds();
			return (struct op){ .what = EVENT, .off = chance(cfg.nevents) };
		}
		last_event = now_seconds();
	}
	if (!chance(400))
		return (struct op){ .what = PAUSE, .off = chance(4) ? chance(100) : chance(2000) };
	for (unsigned i = 0; i < 30 || !model_busy(); i++) {
		o = pick();
		if (o.what == READ || o.what == WRITE || o.what == PEEK || o.what == POKE || o.what == MSYNC)
			fit(&o);
		if (!model_allows(&o))
			continue;
		if (o.what == READ || o.what == WRITE)
			at[o.worker][o.slot] = o.off + o.len;
		return o;
	}
	return (struct op){ .what = PAUSE };    /* nothing fits beside what is under way */
}
