/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel asks a lane for, and how long that takes. Every request comes by fs_lane_request(), and
 * every answer leaves by fs_lane_writev(): there they are counted, whoever handles them.
 *
 * Between these two an entry of a table has the request. FUSE numbers its requests one after the other, so
 * the number is the place in the table, or one of the next few if an older request is still there. If
 * there is no place, which takes hundreds of requests that wait, a request is counted and its time is not.
 *
 * Time is the loop's: from the turn that has read the request to the one that answers it. What is answered
 * at once has taken none.
 *
 * The lane's thread has the table and counts; any thread reads what is counted.
 */
#pragma once

#include <linux/fuse.h>
#include "base/times.h"

#define OPSTAT_KINDS  64u               /* opcodes; power of two */
#define OPSTAT_PLACES 1024u             /* power of two; half of them, as numbers are even */
#define OPSTAT_LOOKS  8u
#define OPSTAT_NONE   1u                /* no request has this number; messages of our own have 0 */

struct opstat_kind {
	struct times times;             /* of those that were answered */
	_Atomic uint64_t errors;
	_Atomic uint64_t untimed;       /* that get no answer, or had no place */
	uint64_t spare[7];              /* a power of two is found faster */
};

_Static_assert(sizeof(struct opstat_kind) == 512, "`spare` fills it up");

struct opstat {
	struct opstat_kind kind[OPSTAT_KINDS];
	struct opstat_place {
		uint64_t unique;                /* OPSTAT_NONE: free */
		struct opstat_kind *kind;
		uint64_t since_ns;
		uint64_t spare;
	} place[OPSTAT_PLACES];
};

/* Before the lane's thread gets it; all zero. */
void opstat_init(struct opstat *s);
/* The same as below, where the first place may be another's, or the request gets no answer. */
void opstat_begins_further(struct opstat *s, const struct fuse_in_header *h, uint64_t now_ns);
void opstat_ends_further(struct opstat *s, const struct fuse_out_header *h, uint64_t now_ns);

static inline void opstat_take(struct opstat *s, struct opstat_place *p, const struct fuse_in_header *h,
			       uint64_t now_ns)
{
	p->unique = h->unique;
	p->kind = &s->kind[h->opcode % OPSTAT_KINDS];
	p->since_ns = now_ns;
}

/* The opcodes that get no answer: opstat_begins_further(). */
#define OPSTAT_SILENT (1ull << FUSE_FORGET | 1ull << FUSE_BATCH_FORGET | 1ull << FUSE_INTERRUPT | \
		       1ull << FUSE_NOTIFY_REPLY)

/* Lane: a request has come that gets an answer. */
static inline void opstat_begins(struct opstat *s, const struct fuse_in_header *h, uint64_t now_ns)
{
	struct opstat_place *p = &s->place[h->unique % OPSTAT_PLACES];

	if (p->unique == OPSTAT_NONE)
		opstat_take(s, p, h, now_ns);
	else
		opstat_begins_further(s, h, now_ns);
}

static inline void opstat_count(struct opstat_place *p, const struct fuse_out_header *h, uint64_t now_ns)
{
	struct opstat_kind *k = p->kind;

	times_add(&k->times, now_ns - p->since_ns);
	p->unique = OPSTAT_NONE;
	if (h->error)
		stat_add_to(&k->errors, 1);
}

/* Lane: an answer, or a message of our own, leaves. */
static inline void opstat_ends(struct opstat *s, const struct fuse_out_header *h, uint64_t now_ns)
{
	struct opstat_place *p = &s->place[h->unique % OPSTAT_PLACES];

	if (p->unique == h->unique)
		opstat_count(p, h, now_ns);
	else
		opstat_ends_further(s, h, now_ns);
}

/* The name of an opcode, "WRITE"; NULL: it has none. */
const char *opstat_name(unsigned opcode);
