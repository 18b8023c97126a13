/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A daemon for the tests of libnfsrdma: it speaks ring.h on a real socket. A thread of its own answers
 * requests. What a ring is filled with, the test takes and completes itself by play_take() and
 * play_complete(), in its thread or another one: one thread at a time for each ring.
 *
 * ioctl() is wrapped: any descriptor is a file of the mount.
 */
#pragma once

#include <stdbool.h>

#include "ring/ring.h"

#define PLAY_RINGS 4u
#define PLAY_MEMORIES 4u

/* An answer of the wrong shape. */
enum play_oddity { PLAY_NONE, PLAY_SHORT, PLAY_VERSION, PLAY_POSITIVE, PLAY_NO_BELL };

struct play_ring {
	struct ring_memory *memory;
	uint32_t entries;
	int bell;
	uint32_t taken, completed;      /* counts */
	unsigned rung, slept;           /* so often */
};

/* Of the ioctl; the test sets them. */
struct play {
	char folder[32], socket[48];
	int token_error;                /* positive */
	uint32_t token_version;
	char token_socket[120];         /* where tokens say it is */
};

/* What becomes of requests of one kind. */
struct play_fault {
	enum ring_what at;
	int status;
	const char *why;
	enum play_oddity oddity;
	bool dies;                      /* without an answer */
};

extern struct play play;

void play_start(void);
/* As when its process ends: no descriptor of it stays open. May be called again. */
void play_die(void);
void play_fault(struct play_fault f);

struct play_ring *play_ring(unsigned i);
char *play_memory(unsigned i);
/* How many of these requests have come. */
unsigned play_count(enum ring_what what);
/* The last one of them. */
struct ring_request play_last(enum ring_what what);
/* Nobody is connected. Waits for that. */
void play_wait_disconnected(void);

bool play_take(struct play_ring *r, struct ring_sqe *e);
/* Fills in a completion, which the program sees with play_publish(). */
void play_fill(struct play_ring *r, uint64_t user_data, int64_t result);
void play_publish(struct play_ring *r);
void play_complete(struct play_ring *r, uint64_t user_data, int64_t result);
/* Says that the daemon sleeps; false: there is an entry, and it does not. */
bool play_lie_down(struct play_ring *r);
/* Until the program's bell rings. False: it has not for a minute; or the program's end is closed. */
bool play_sleep(struct play_ring *r);
/* Whether it has rung; does not wait. */
bool play_was_rung(struct play_ring *r);
/* Waits until the program says that it sleeps. */
void play_wait_asleep(struct play_ring *r);
