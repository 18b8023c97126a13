/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libnfsrdma-preload.so: takes large reads and writes of a program that knows nothing of it past FUSE.
 *
 *     program's thread                      preload                                  library, daemon
 *     ----------------                      -------                                  ---------------
 *     open()              -> preload_calls  the number is known in the table
 *     read(fd, b, 1 MiB)  -> preload_io     first one: whose is it? preload_decide
 *                            preload_lane   the thread's queue and memory            session, attach
 *                            preload_read   pieces; data is copied to b       <=     ring
 *                                           lseek(): the kernel's offset moves
 *     write(fd, b, 4 KiB) -> preload_io     too small: the kernel's
 *     close(fd)           -> preload_calls  the number is unknown again
 *
 * What has whose state:
 *
 *     the table (preload_fd)   process   a word for each number: unknown, opened, left, or a file
 *     struct preload_file      an open file description; its mutex is the offset's
 *     struct preload_mount     process   a session for each mount
 *     struct preload_lane      a thread's queue, memory and pieces with one mount
 *
 * Left to the kernel: numbers that open() of this program has not made (inherited, received, of a stream),
 * other files, O_APPEND, what is mapped into memory here, what is in the page cache, less than
 * NFSRDMA_PRELOAD_MIN bytes, writes that the mount may hold (those are faster there) of less than
 * NFSRDMA_PRELOAD_WRITE_MIN, and of what two numbers or another process also have, what uses its offset.
 * read() and write() of such files go past only as long as nobody else could move the offset
 * between our lseek() that asks for it, and the one that sets it, which comes before the bytes: a child that is
 * made meanwhile, and a handler, go on behind them.
 *
 * Consistency: as nfsrdma.h says, O_DIRECT's. Two things are added to it. What is written past drops the
 * pages of that range, so that a small read of the same file sees it. And a sequential reader is
 * read ahead of. That is not O_DIRECT's: another process on this mount may write the next bytes while
 * they lie here already. So what lies here is given out only if fstat() says that the file is
 * as it was before that was asked for, and had been so for a while then (PRELOAD_REST_S: the
 * server's clock has ticks), by our clock, as the server's may be behind. That is what the page cache gives: who writes on this mount makes
 * the kernel forget the attributes, and of who writes elsewhere they know as soon as the kernel does. Own
 * writes, locks, fsync() and lseek() drop it, too.
 *
 * The end: a daemon that has died is ENOTCONN, and its mount's files are the kernel's from then on.
 * What was under way is repeated there: a read changes nothing, and a write puts the same bytes at the same
 * place. fork(): the child forgets all, and may begin anew with what it opens. The lane of a
 * thread that ends is the next one's. Signals: nothing here blocks them; a handler that reads itself while
 * its thread is in here is served by the kernel, and one that leaves with longjmp() out of a call here leaves the
 * file locked.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "lib/nfsrdma.h"

/* Of a thread's memory: what one entry of the queue reads or writes, and how many of each there are. */
#define PRELOAD_PIECE  (512u << 10)
#define PRELOAD_PIECES 8u

/* How far a sequential reader is read ahead of, and since when a file must not have changed for that. */
#define PRELOAD_AHEAD  (3u << 20)
#define PRELOAD_REST_S 2
/* Times of the server that are older than this say so themselves: its clock is not as far behind. */
#define PRELOAD_OLD_S  300

/* Further than any kernel reads ahead. */
#define PRELOAD_FAR    (8u << 20)

/* So many times NFSRDMA_PRELOAD_MIN goes through the kernel first: it takes as long to attach a file. Of a
 * file that is as long as this at the least, reads do not: the kernel would read ahead. */
#define PRELOAD_WARM   4u
#define PRELOAD_LONG   16u

#define PRELOAD_EXPORT __attribute__((visibility("default")))

/* ---- the table: any thread ---- */

struct preload_mount {
	struct preload_mount *next;
	dev_t dev;
	struct nfsrdma_session *session; /* NULL: rings are not known there */
	atomic_bool dead;
	struct preload_lane *idle;      /* of threads that have ended; preload_lane.c's lock */
};

/* What says that a file is as it was. */
struct preload_stamp {
	int64_t mtime_s, ctime_s;
	uint32_t mtime_ns, ctime_ns;
	uint64_t size;
	unsigned changes;
};

struct preload_file {
	pthread_mutex_t offset;         /* the kernel's, between our lseek()s */
	uint64_t id;                    /* no other one has had it */
	struct preload_file *spare;     /* the next one that is not used */
	unsigned refs;                  /* the table's lock, as for: */
	atomic_uint numbers;            /* of descriptors */
	atomic_bool shared;             /* another process has it as well */
	atomic_bool left;               /* to the kernel */
	/* Once `mount` is set: */
	struct preload_mount *_Atomic mount;
	dev_t dev;
	ino_t ino;
	int access;                     /* O_ACCMODE */
	/* Guesses: no harm if two threads mix them up. */
	_Atomic uint64_t seen, next;
	atomic_uint looks;
	atomic_bool was_cached;
	pthread_mutex_t rest;           /* for: */
	struct preload_stamp resting;   /* the last one that was seen, */
	time_t rests_from;              /* since then, of CLOCK_MONOTONIC; 0: none */
};

/* `flags` are open()'s. */
void preload_fd_opened(int fd, int flags);
void preload_fd_closed(int fd);
void preload_fd_closed_range(unsigned first, unsigned last);
void preload_fd_duplicated(int fd, int copy);
/* From now on others may have each of them; with `exec` those that exec() closes are not meant. */
void preload_fd_inherited(bool exec);
/* Numbers that open() of the program has made, and which are not left. */
bool preload_fd_known(int fd);
/* NULL: the kernel's, by what is known so far. */
struct preload_file *preload_fd_get(int fd, size_t len);
void preload_fd_put(struct preload_file *f);
/* Is that still its number? The file may have been left meanwhile. */
bool preload_fd_is(int fd, const struct preload_file *f);
/* By all its numbers, until they are closed. The caller has a reference. The report counts those of our mounts. */
void preload_fd_leave(struct preload_file *f, bool counts);

/* The library's own descriptors, which the program does not know of and must not close: high numbers. */
int preload_fd_keep(int fd);
bool preload_fd_kept(int fd);
void preload_fd_unkeep(int fd);
/* The first kept number from `fd` to `last`, or -1. */
int preload_fd_next_kept(unsigned fd, unsigned last);

/* ---- the process ---- */

extern size_t preload_min, preload_write_min;
extern _Thread_local bool preload_inside;  /* this thread is in the preload, or in the library */
extern _Thread_local bool preload_keeping; /* what the library opens now stays open */

struct preload_counts {
	_Atomic uint64_t reads, read_bytes, writes, written_bytes, left;
};
extern struct preload_counts preload_counts;

/* The process that has all this; false in a child of vfork() and clone(), which shares its memory. */
bool preload_here(void);
void preload_is_here(bool begun);
void preload_forget_all(void);

/* ---- whose is it: any thread ---- */

/* The kernel's answer for `fd` is f's, and what is asked for may go past. */
bool preload_decide(int fd, struct preload_file *f, size_t len, bool write);
/* `fresh`: as fstat(), which may ask the server. False: it is another file than f. */
bool preload_stamp(int fd, const struct preload_file *f, bool fresh, struct preload_stamp *st);
bool preload_same_stamp(const struct preload_stamp *a, const struct preload_stamp *b);
/* May it be read ahead of? It is noted that f has the stamp now. */
bool preload_at_rest(struct preload_file *f, const struct preload_stamp *st);
bool preload_cached(int fd, struct preload_file *f, uint64_t offset, size_t len);
/* What lies here of that file is not good any more. */
void preload_changed(const struct preload_file *f);
void preload_mapped(int fd);
/* 0, -ENOTTY: it is none of ours, or why it is of no use for that file. */
int preload_mount_of(dev_t dev, int fd, struct preload_mount **out);
void preload_mounts_forget(void);
void preload_mapped_forget(void);

/* ---- a thread's lane ---- */

struct preload_piece {
	uint64_t offset;
	int64_t result;
	uint32_t len, taken;
	bool under_way;
};

#define PRELOAD_ATTACHED 64u

struct preload_lane {
	struct preload_lane *next;      /* of the same thread */
	struct preload_mount *mount;
	struct nfsrdma_queue *queue;
	struct nfsrdma_memory *memory;
	char *at;
	/* Reads, and behind them writes; piece i has the memory at i * PRELOAD_PIECE. */
	struct preload_piece piece[2 * PRELOAD_PIECES];
	/* The window of reads: `count` pieces from `first` on, without a gap, up to `end`. */
	uint64_t window_of, end;        /* a file's id */
	unsigned first, count;
	struct preload_stamp stamp;     /* when it was asked for */
	struct {
		uint64_t id;
		uint32_t number;
	} attached[PRELOAD_ATTACHED];
};

/* The one that this thread has already, or NULL. */
struct preload_lane *preload_lane_there(const struct preload_mount *m);
/* NULL: there is none to be had. */
struct preload_lane *preload_lane(struct preload_mount *m);
void preload_lanes_init(void);
void preload_lanes_forget(void);
int preload_attach(struct preload_lane *lane, const struct preload_file *f, int fd, uint32_t *number);
/* Waits for any piece. 0 or -errno: nothing is completed any more. */
int preload_reap(struct preload_lane *lane);

/* ---- one call ---- */

/* The place in the caller's buffers. */
struct preload_cursor {
	const struct iovec *iov;
	int n;
	size_t in;                      /* iov[0]'s bytes that are done */
};

/* Either way, between the cursor and memory of ours. */
void preload_copy(struct preload_cursor *c, char *at, size_t len, bool write);

struct preload_call {
	int fd;
	bool write, own_offset;         /* the descriptor's, not `offset` */
	int flags;                      /* preadv2()'s */
	const struct iovec *iov;
	int n;
	off_t offset;
};

ssize_t preload_call(const struct preload_call *c);

struct preload_range {
	uint64_t offset;
	size_t len;
	uint32_t file;                  /* its number in the lane */
	bool ahead;                     /* beyond len, too */
};

/* How many bytes; *error: why not all, or 0. */
size_t preload_read(struct preload_lane *lane, const struct preload_file *f, const struct preload_range *r,
		    const struct preload_stamp *st, struct preload_cursor *to, int *error);
size_t preload_write(struct preload_lane *lane, const struct preload_range *r, struct preload_cursor *from,
		     int *error);
bool preload_read_has(const struct preload_lane *lane, const struct preload_file *f, uint64_t offset);
