/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hash tables: an array of chains, whose length is a power of two, in the owner's struct. All
 * bytes zero is an empty one. Nodes are members of what is in the table (container_of()), and
 * keep their hash, by which most others on a chain are passed over. The newest is the first of
 * its chain. Locks are the owner's.
 *
 *     struct hash_node *table[256];
 *
 *     hash_add(hash_chain(table, h), &thing->node, h);
 *     hash_for_each(n, hash_chain(table, h), h) { .. the key may still be another .. }
 *     hash_del(&thing->node);
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct hash_node {
	struct hash_node *next, **at;   /* at: what points to this node; NULL: it is in no table */
	uint32_t hash;
};

/* The chain of `hash`. */
#define hash_chain(table, hash) \
	(&(table)[(hash) & (sizeof(table) / sizeof((table)[0]) - 1)])

/* Nodes of the chain with that hash. */
#define hash_for_each(pos, chain, h) \
	for (struct hash_node *pos = *(chain); pos; pos = pos->next) \
		if (pos->hash == (h))

static inline void hash_add(struct hash_node **chain, struct hash_node *n, uint32_t hash)
{
	n->hash = hash;
	n->at = chain;
	n->next = *chain;
	if (n->next)
		n->next->at = &n->next;
	*chain = n;
}

static inline void hash_del(struct hash_node *n)
{
	*n->at = n->next;
	if (n->next)
		n->next->at = n->at;
	n->at = NULL;
}

/* Mixes eight bytes at a time into `h`. The high half is folded into the low one, which may be
 * used alone. */
static inline uint64_t hash_bytes(const void *p, size_t len, uint64_t h)
{
	const uint8_t *b = p;
	uint64_t w;

	for (; len >= sizeof(w); len -= sizeof(w), b += sizeof(w)) {
		memcpy(&w, b, sizeof(w));
		h = (h ^ w) * 0x9e3779b97f4a7c15u;
		h ^= h >> 32;
	}
	for (w = len; len; len--)
		w = w << 8 | *b++;
	h = (h ^ w) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 32;
}
