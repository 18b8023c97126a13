/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Steering tags: the names under which a peer may reach memory. The table
 * belongs to one connection, so that a tag means nothing on any other one.
 *
 *     STag = | index 14 bits | key 18 bits |
 *
 * The key is random, and another one each time that an index is used again: from
 * the tags that a peer was given it learns nothing of others. It has one guess: what
 * is not valid ends the connection. The index that has been free for longest is used
 * first. Index 0 is never used: no tag is 0.
 *
 * Offsets count from 0 at the start of the registered range: a peer learns
 * nothing of our addresses.
 *
 * Adding and removing are a few stores: no lock (the table is its connection's,
 * which is one thread's), no allocation but when the table has to grow.
 */
#ifndef IWARP_STAG_H
#define IWARP_STAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stag_entry {
	uint8_t *base;
	size_t len;
	uint32_t next;          /* of the free list; 0 ends it */
	uint32_t key;
	uint8_t rights;         /* FAB_REMOTE_* */
	bool valid;
};

struct stag_table {
	struct stag_entry *v;
	uint32_t size;          /* entries, of which [0] is never used */
	uint32_t free_head, free_tail;
	uint32_t random[64];    /* for keys, of which so many are left */
	unsigned nrandom;
};

enum stag_result { STAG_OK, STAG_INVALID, STAG_BOUNDS, STAG_WRAP, STAG_DENIED };

#define STAG_KEY_BITS 18u
#define STAG_MAX (1u << (32 - STAG_KEY_BITS))   /* entries; what the index has bits for */

int stag_init(struct stag_table *t, uint32_t size);
void stag_fini(struct stag_table *t);

/* 0 or -errno. mem stays the caller's and has to live until stag_del(). */
int stag_add(struct stag_table *t, void *mem, size_t len, unsigned rights, uint32_t *stag);
/* False if it was not valid. */
bool stag_del(struct stag_table *t, uint32_t stag);
/* The entry, if the tag is valid. */
const struct stag_entry *stag_find(const struct stag_table *t, uint32_t stag);
/* May [to, to + len) of that tag be used with these rights? *mem is its start. */
enum stag_result stag_check(const struct stag_table *t, uint32_t stag, uint64_t to,
			    uint64_t len, unsigned rights, uint8_t **mem);

#endif
