/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each answer may be. See cto.h. Who has what:
 *
 *     model.c     what is, and what an operation makes of it when it begins
 *     allow.c     may an operation be done?
 *     answer.c    is an answer right, and what does it tell?
 *     locks.c     who has which locks, and what that says about data
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
 *
 * --old-bytes is for the kernel's own client (6.12), which promises less, and for that mount only:
 *
 *   - It leaves its cache as it is while it has the file open for writing: a new change attribute
 *     might come of its own writes (nfs_update_inode(), have_writers). It drops the cache at the
 *     first open when nobody there has the file open any more (NFS_INO_DATA_INVAL_DEFER).
 *     So from an open for writing to such a first open, opens raise no floor.
 *   - The change attribute that comes with its own WRITE it takes for the one that this WRITE has
 *     made, whoever else has written meanwhile (nfs_wcc_update_inode()): what is in its cache then
 *     stays. So where it writes one half, opens do not raise its floor of the other half.
 *   - It sends no truncation to the size that it believes the file to have, so it truncates only what
 *     nobody else has changed since it was opened there for writing (reaches_server() in allow.c).
 *
 * Where that mount only reads, all is demanded of it.
 */
#pragma once

#include <fcntl.h>
#include "cto.h"

enum { FILES_MAX = 512, HALVES = 2, PAGE = 4096, OWNERS = WORKERS * SLOTS };

struct event {
	bool cuts;                      /* a truncation to `size`; otherwise a write */
	bool poked;                     /* by a mapping */
	bool published;
	uint8_t mount, half;
	uint32_t off, len, id, size;    /* size: the file's, afterwards */
	uint32_t done;                  /* at that tick; 0: it is under way */
};

struct file {
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
	uint32_t lfloor[MOUNTS];        /* and by locks */
	uint32_t weak[MOUNTS][HALVES];  /* the floor without locks, until somebody has read since */
	uint32_t raced[MOUNTS];         /* mappings may have older bytes than this event + 1: note_raced(); 0: not */
	bool keeps[MOUNTS];             /* its opens need not find what is new: --old-bytes */
	bool locked;                    /* some time: `kind` is decided */
	uint8_t kind;
	struct held { uint8_t shared, excl; int through; } held[OWNERS];        /* cells; an open's flags */
	double lingers;                 /* locks of files that were closed: until then */
};

struct slot {
	struct file *file;
	int flags;
	bool mapped, poked;             /* poked: since its open */
};

/* Which file a name is, and which it has been. */
struct name {
	struct file *file;
	bool had[FILES_MAX], missed;    /* missed: at some time there was none */
};

struct begun {
	bool on;
	struct op op;
	struct file *file;
	uint32_t event;                 /* its own + 1; 0: none */
	uint32_t tick, floors[HALVES];
	uint32_t bytes[HALVES];         /* the floors, but for how long the file is: O_DIRECT */
	uint32_t published[HALVES], size;
	uint32_t promised[HALVES];      /* events up to there the server has when it has ended */
	bool longer;                    /* it has made the file longer */
	bool first;                     /* OPEN: nobody else of the mount had it open */
	uint32_t weak[HALVES];
	bool beside;                    /* the mount has changed the file meanwhile */
	bool releases;                  /* locks, and so it promises what CLOSE does */
	bool blocked;                   /* LOCK, TEST: somebody had it when it began */
	bool parked;                    /* LOCK: others go on */
};

extern struct model {
	struct file files[FILES_MAX];
	unsigned nfiles;
	struct slot slots[WORKERS][SLOTS];
	struct name names[MOUNTS * NAMES];
	struct begun begun[WORKERS];
	unsigned nbegun;
	uint32_t tick;
} model;

/* Does the flag of open() say so? */
static inline bool reads(int flags)
{
	return (flags & O_ACCMODE) != O_WRONLY;
}

static inline bool writes(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY;
}

/* Does it promise, by its end, that the server has what was written? */
static inline bool promises(const struct op *o, int flags)
{
	switch (o->what) {
	case FSYNC: case MSYNC: return true;
	case CLOSE: return writes(flags);
	case WRITE: return flags & (O_DSYNC | O_DIRECT);
	default: return false;
	}
}

/* ---- model.c ---- */

/* The next place, from *i, where a process of the mount has the file open; NULL: nowhere. */
const struct slot *next_open(const struct file *f, unsigned mount, unsigned *i);

unsigned half_of(const struct file *f, uint32_t off);
struct file *file_new(unsigned mount, bool split);
/* One of its names. false: it has none. */
bool name_of(const struct file *f, uint8_t *name);
/* The name is that file now; NULL: it is gone. */
void name_is(unsigned n, struct file *f);
/* Does this operation publish that event, when it has ended? */
bool publishes(const struct begun *b, const struct event *e);
/* The events of a half up to there are published. */
uint32_t published_to(const struct file *f, unsigned half);
/* A mount sees its own writes that have ended. */
void raise_own(struct file *f, unsigned mount, unsigned half);
bool may_write(struct file *f, unsigned mount, unsigned half);
/* The mount has to find all that others wrote to that half. */
bool may_follow(struct file *f, unsigned mount, unsigned half);
/* The same for cutting it by its name: what others wrote is closed, and need not have been seen. */
bool may_cut(struct file *f, unsigned mount);
/* The event of b, which nothing else was beside, has not happened after all. */
void take_back(struct begun *b);
/* Is it about a name of another mount? May it reach a file that had that name before? */
bool is_foreign(const struct op *o);
bool may_be_old(const struct op *o);

/* Higher, where `to` is. */
void raise_to(uint32_t floors[HALVES], const uint32_t to[HALVES]);

/* ---- answer.c ---- */

bool expect(int got, int want, char *why, size_t size);
/* An open file that the other mount has removed: the server may not know it any more. */
bool is_lost(const struct begun *b);

/* ---- locks.c ---- */

bool locks_allow(const struct op *o, const struct slot *s);
void locks_begin(struct begun *b);
bool locks_check(struct begun *b, const struct answer *a, char *why, size_t size);
/* UNLOCK or CLOSE has ended. */
void locks_released(const struct begun *b);
/* It has an exclusive lock of these bytes. */
bool locks_cover(const struct file *f, const struct op *o);

/* ---- allow.c ---- */

/* Is it about an open file? */
bool is_slotted(const struct op *o);
