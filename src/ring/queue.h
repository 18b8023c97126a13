/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon's end of a ring's memory: ring.h has the picture. Everything that the program writes is
 * read once, and checked; what this side writes it never reads back. So it makes no difference what
 * the program does to the memory, but to the program.
 *
 * One lane's thread.
 */
#pragma once

#include <stdbool.h>
#include "ring/ring.h"

struct queue {
	struct ring_memory *m;
	struct ring_cqe *cq;
	uint32_t entries;
	uint32_t taken;                 /* entries, so far */
	uint32_t done;                  /* completions, so far */
	uint32_t published;             /* of them, those that the program was told of */
	bool sleeps;                    /* RING_SLEEPS is set */
};

/* m: ring_bytes(entries), mapped. entries is a power of two. */
void queue_init(struct queue *q, struct ring_memory *m, uint32_t entries);

enum queue_next { QUEUE_EMPTY, QUEUE_ENTRY, QUEUE_BROKEN };
/* The next entry. BROKEN: the program's counts cannot be; the ring is to end. */
enum queue_next queue_take(struct queue *q, struct ring_sqe *out);
/* One that was taken is done. */
void queue_add(struct queue *q, uint64_t user_data, int64_t result);
/* Tells the program of all that are done. true: it sleeps, and is to be woken. */
bool queue_publish(struct queue *q);
/* Does the program wait for completions? What it says: only a hint. */
bool queue_program_sleeps(const struct queue *q);
/* The lane is about to sleep: from now on the program wakes it. true: it has filled entries before
 * that, and may not. */
bool queue_sleep(struct queue *q);
/* The lane is awake. */
void queue_awake(struct queue *q);
