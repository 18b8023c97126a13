/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cto: random operations by two processes in each of two or three mounts of one directory,
 * against a model of close-to-open.
 *
 *     main --- op ---> worker 0, 1: processes in mount A      main decides what is done, by a
 *          <-- answer  worker 2, 3: processes in mount B      seed, and knows what each answer
 *                      worker 4, 5: processes in mount C      may be (model.h)
 *
 * What is demanded:
 *
 *   - Within a mount POSIX holds: what a process has written, cut or made, each process of
 *     that mount finds at once, by read() and by a mapping.
 *   - What one mount has written and closed, synchronized, or written with O_SYNC or
 *     O_DIRECT, is what the other mount finds after its next open() of the file. (A mount that
 *     has it open for writing may have its excuse: --old-bytes, model.h.)
 *   - An open and a truncation by name reach the file that has the name then, whichever mount gave
 *     it to that file. (A mount may have its excuse: enum old_names.)
 *   - What fsync(), msync(), close(), and a write() with O_SYNC or O_DIRECT have promised, the
 *     server has when they end (--server). So an old byte that another mount finds afterwards is
 *     in that mount's own cache.
 *   - Who is granted a lock (--locks) finds what was published before, and who has one keeps
 *     others away: locks.c.
 *   - A read with O_DIRECT finds what was published before, as far as its kernel believes the file to go.
 *   - Before that each byte which the other mount finds is what it was at its last open(), or
 *     anything that was written since. It is nothing else.
 *
 * Two mounts that write the same bytes without such an order get what they deserve, so the
 * model does not let them: a file, or half a file, is written by one mount, until that has
 * closed and the other one has opened it; or cuts it to nothing by its name, when it is closed.
 * Names are changed by the mount that they belong to. For a second another mount may believe that
 * there is none.
 *
 * An operation that is not allowed any more, because those that led to it are left out, is
 * skipped. So a sequence can be cut to pieces, and what is left still means something
 * (shrink.c).
 *
 * An operation may be begun before the answer to the one before it is there (`along`).
 * Processes that do so do not write the same bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "chance.h"

enum { MOUNTS = 3, EACH = 2, WORKERS = MOUNTS * EACH, SLOTS = 3, NAMES = 3, IO_MAX = 384 * 1024 };

/* Which opens of a mount may reach a file that had the name before: none; those that only read
 * (version 3); all (the kernel's own client). */
enum old_names { NEVER, READS, ALWAYS };

/* A file has locks of one kind. Locks are of whole cells; the last one has no end (--ends: it has). */
enum lock_kind { POSIX, OFD, FLOCK, KINDS };
enum { CELLS = 8, ALL_CELLS = (1 << CELLS) - 1 };

enum what {
	OPEN, MAKE, CLOSE, READ, WRITE, FTRUNCATE, TRUNCATE, MAP, UNMAP, PEEK, POKE, MSYNC, FSYNC,
	FSTAT, STAT, UNLINK, RENAME, LINK, SERVER, AGAIN, EVENT, PAUSE, MKDIR, RMDIR, LOCK, UNLOCK,
	TEST, NWHATS
};

/* OPEN: O_*. MAKE: a new file of the greatest size, of which each mount writes one half. PEEK
 * and POKE: by the mapping. SERVER: what the server has, without a mount. AGAIN: what a new open
 * finds; after a difference only (blame.c). EVENT: a command, which is not waited for. TEST: F_GETLK. */
struct op {
	uint8_t what, worker, slot;
	uint8_t name, name2;            /* below NAMES: mount A's */
	bool along;
	bool look;                      /* at what the server has, when it has ended; set by the model */
	int flags;
	uint32_t off, len;              /* off: TRUNCATE: the size; PAUSE: ms; EVENT: which */
	uint32_t id;                    /* says which bytes are written, see byte_of(); MKDIR: name */
	/* LOCK, UNLOCK, TEST: */
	uint8_t kind;                   /* the file's, once it has one */
	uint8_t cells;                  /* neighbours: a bit for each */
	bool excl, waits;
};

struct answer {
	int64_t rc;
	int err;
	uint64_t ino, size, nlink;
	int64_t server;                 /* with `look`: so many bytes are in `data`, or -errno */
};

struct config {
	const char *dirs[MOUNTS];       /* all may be one mount */
	bool fronts[MOUNTS];            /* it is a front end of its own, and its directory below... */
	const char *source, *options;   /* ...this: SERVER:/EXPORT, and what follows -o */
	enum old_names old[MOUNTS];
	bool old_bytes[MOUNTS];         /* see keeps in model.h */
	enum beside { BESIDE_NONE, BESIDE_RDWR, BESIDE_WRITES } beside;     /* allow.c */
	const char *server;             /* or NULL */
	bool lies;                      /* fsync() is not done, and said to be */
	bool locks, ends;
	const char *events[8];
	unsigned nevents, every;        /* an event each so many seconds */
	const char *silence;            /* or NULL */
	unsigned mounts;                /* 1: all processes are in one */
	unsigned workers, families;     /* processes, and families of names: of one mount each */
	uint32_t size;                  /* of the largest file */
	unsigned steps;
	unsigned files;                 /* names of each mount that are used */
	uint64_t seed;
	long seconds;
	unsigned tries;                 /* when shrinking, of each candidate */
};
extern struct config cfg;

/* A byte of what is written with this number; never 0. */
static inline uint8_t byte_of(uint32_t id, uint32_t pos)
{
	uint32_t x = id * 0x9e3779b1u + pos * 0x85ebca77u;

	x = (x ^ x >> 15) * 0x2c1b3c6du;
	return (uint8_t)(x >> 24 | 1);
}

static inline void bytes_of(const struct op *o, uint8_t *to)
{
	for (uint32_t i = 0; i < o->len; i++)
		to[i] = byte_of(o->id, i);
}

static inline unsigned mount_of(const struct op *o)
{
	return cfg.mounts == 1 ? 0 : o->worker / EACH;
}

/* ---- worker.c ---- */

/* Once: the processes that are front ends. */
void fronts_start(void);
/* false: one of them has failed. */
bool fronts_end(void);

/* Processes for one episode. */
void workers_start(void);
void workers_end(void);
void worker_begin(const struct op *o);
/* The answer to what it was asked last. data: what it has read. false: none comes. */
bool worker_answer(unsigned worker, struct answer *a, const uint8_t **data);
/* One of those that are asked for, which has answered; in time, or by now. -1: none has. */
int worker_any(const bool asked[WORKERS], bool in_time);

/* ---- by_front.c ---- */

/* Does it, by the front end (front.h) of this process. The answer; or -1 with errno. */
int64_t by_front(const struct op *o, struct answer *a, uint8_t *data);
/* This thread has nothing open any more. */
void by_front_ends(void);

/* ---- model.c, allow.c, answer.c, locks.c ---- */

void model_start(void);
/* May it be done now? With other operations under way? */
bool model_allows(const struct op *o);
void model_begins(struct op *o);
/* All that was begun has been answered: is it as it has to be? false: `why` says what not. */
bool model_check(const struct op *o, const struct answer *a, const uint8_t *data, char *why,
		 size_t size);
void model_ended(void);
/* Is something under way? Who waits for a lock that another one has does not count. */
bool model_busy(void);
/* Has the worker to wait for the lock that it waits for? */
bool model_must_wait(unsigned worker);
/* It goes on waiting: others do something meanwhile. */
void model_waits(unsigned worker);
/* Of the locks that were granted: those that the process waited for while another one had it; and
 * reads which only a lock has told that they have to find what is new. */
void model_counts(unsigned long *granted, unsigned long *waited, unsigned long *news);
/* A process that has locks, and by which open file. false: nobody has. */
bool model_holder(unsigned nth, uint8_t *worker, uint8_t *slot);
uint32_t model_size(unsigned worker, unsigned slot);
bool model_has(unsigned name);

/* Of the file that a READ or PEEK was about: a name. false: it has none, or nobody can say what
 * is in it. */
bool model_names(const struct op *o, uint8_t *name);
/* Would these bytes have been right as the answer to that READ or PEEK, of late? */
bool model_would_do(const struct op *o, int64_t n, const uint8_t *data);

/* ---- history.c ---- */

void history_start(void);
/* It has been answered. */
void history_note(const struct op *o, const struct answer *a, double began);
/* That is a difference. */
void history_wrong(const struct op *o);
/* What was done last with the file of the last difference. */
void history_print(void);

/* ---- blame.c ---- */

/* A READ or PEEK has found what is not right: adds who has what now. */
void blame(const struct op *o, char *why, size_t size);

/* ---- main.c ---- */

/* Does these, in a directory of their own. false: there is a difference. n may be reduced to
 * where it was found. */
bool episode(const struct op *ops, unsigned *n, char *why, size_t size);
void print_op(const struct op *o);
double now_seconds(void);

/* ---- generate.c ---- */

/* A new episode. */
void generate_start(void);
/* What comes next; the model allows it. */
struct op generate(void);

/* ---- shrink.c ---- */

/* Leaves out what is not needed for a difference. */
void shrink(struct op *ops, unsigned *n, char *why, size_t size);
