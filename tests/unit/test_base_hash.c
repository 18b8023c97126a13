/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chains of a hash table, compared with an array. */
#include "base/hash.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include "base/list.h"

#define THINGS 300u

struct thing {
	struct hash_node node;
	unsigned key;
	bool there;
};

TestSuite(base_hash, .timeout = 60);

static struct hash_node *table[16];
static struct thing things[THINGS];

/* Few hashes, so that keys share them, and more hashes than chains. */
static uint32_t hash_of(unsigned key)
{
	return key % 40 * 0x01010101u;
}

static bool find(unsigned key)
{
	unsigned found = 0;

	hash_for_each(n, hash_chain(table, hash_of(key)), hash_of(key)) {
		const struct thing *t = container_of(n, struct thing, node);

		cr_assert(t->there && hash_of(t->key) == hash_of(key));
		found += t->key == key;
	}
	cr_assert_leq(found, 1);
	return found;
}

Test(base_hash, what_was_added_is_found_until_it_goes)
{
	uint32_t seed = 1;

	for (unsigned i = 0; i < 20000; i++) {
		struct thing *t;

		seed = seed * 1664525u + 1013904223u;
		t = &things[(seed >> 8) % THINGS];
		t->key = (unsigned)(t - things);
		cr_assert_eq(find(t->key), t->there);
		cr_assert_eq(!t->node.at, !t->there);
		if (t->there)
			hash_del(&t->node);
		else
			hash_add(hash_chain(table, hash_of(t->key)), &t->node, hash_of(t->key));
		t->there = !t->there;
		cr_assert_eq(find(t->key), t->there);
	}
	for (unsigned i = 0; i < THINGS; i++)
		if (things[i].there)
			hash_del(&things[i].node);
	for (unsigned i = 0; i < 16; i++)
		cr_assert_null(table[i]);
}

/* Each byte and the length count, and the low bits are as good as the others. */
Test(base_hash, bytes)
{
	char text[64] = "";
	unsigned chains[16] = { 0 };
	uint64_t h, before = 0;

	for (size_t len = 0; len < sizeof(text); len++) {
		h = hash_bytes(text, len, 0);
		cr_assert(len == 0 || h != before);
		before = h;
		for (size_t i = 0; i < len; i++) {
			text[i] = 1;
			cr_assert_neq(hash_bytes(text, len, 0), h);
			text[i] = 0;
		}
		cr_assert_neq(hash_bytes(text, len, 1), h);
	}
	for (uint32_t i = 0; i < 1600; i++)
		chains[hash_bytes(&i, sizeof(i), 0) & 15]++;
	for (unsigned i = 0; i < 16; i++)
		cr_assert(chains[i] > 50 && chains[i] < 150, "chain %u: %u", i, chains[i]);
}
