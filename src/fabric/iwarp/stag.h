/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Steering tags: the names by which a peer reaches memory. The table belongs to one
 * connection, so a tag means nothing on any other.
 *
 *     STag = | index 14 bits | key 18 bits |
 *
 * The key is random, and new each time that an index is used again. So a peer learns
 * nothing from the tags that it was given about others. It has one guess, because an
 * invalid tag ends the connection. The index that has been free for longest is used first.
 * Index 0 is never used, so no tag is 0.
 *
 * Offsets count from 0 at the start of the registered range, so a peer learns nothing of
 * our addresses.
 *
 * Adding and removing cost a few stores. There is no lock (the table belongs to one
 * connection and so to one thread), and no allocation unless the table has to grow.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "fabric/fabric.h"

struct stag_entry {
	uint8_t *base;
	size_t len;
	uint32_t next;          /* in the free list; 0 ends it */
	uint32_t key;
	uint8_t rights;         /* FAB_REMOTE_* */
	bool valid;
};

struct stag_table {
	struct stag_entry *v;
	uint32_t size;          /* entries; [0] is never used */
	uint32_t free_head, free_tail;
	unsigned nwritable;     /* entries that the peer may write to */
	uint32_t only;          /* the one that was added when there was no other, if it is still
				 * there and nothing has come for any since then, and no program has
				 * that memory, too (base/lent.h); 0: none */
	uint32_t random[64];    /* unused keys; nrandom are left */
	unsigned nrandom;
};

enum stag_result { STAG_OK, STAG_INVALID, STAG_BOUNDS, STAG_WRAP, STAG_DENIED };

#define STAG_KEY_BITS 18u
#define STAG_MAX (1u << (32 - STAG_KEY_BITS))   /* entries, by the bits of the index */

int stag_init(struct stag_table *t, uint32_t size);
void stag_fini(struct stag_table *t);

/* 0 or -errno. rights are FAB_REMOTE_*. mem stays the caller's, and must exist until stag_del(). */
int stag_add(struct stag_table *t, void *mem, size_t len, unsigned rights, uint32_t *stag);
/* false: it was not valid. */
bool stag_del(struct stag_table *t, uint32_t stag);
/* The entry of a valid tag; NULL: the tag is not valid. */
const struct stag_entry *stag_find(const struct stag_table *t, uint32_t stag);
/* May the peer use [to, to + len) of that tag with these rights? *mem is its start. */
enum stag_result stag_check(const struct stag_table *t, uint32_t stag, uint64_t to,
			    uint64_t len, unsigned rights, uint8_t **mem);
