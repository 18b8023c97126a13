/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of steering tags; see stag.h. */
#include "fabric/iwarp/stag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/lent.h"

#define KEY_MASK ((1u << STAG_KEY_BITS) - 1)

/* getrandom() returns so few bytes in one piece once the system is up. */
static int new_key(struct stag_table *t, uint32_t *key)
{
	uint32_t last = *key;

	if (!t->nrandom) {
		if (getrandom(t->random, sizeof(t->random), 0) != sizeof(t->random))
			return -EIO;
		t->nrandom = sizeof(t->random) / sizeof(t->random[0]);
	}
	*key = t->random[--t->nrandom] & KEY_MASK;
	t->random[t->nrandom] = 0;
	if (*key == last)
		*key ^= 1;
	return 0;
}

static void put_free(struct stag_table *t, uint32_t i)
{
	t->v[i].next = 0;
	if (t->free_tail)
		t->v[t->free_tail].next = i;
	else
		t->free_head = i;
	t->free_tail = i;
}

static int stag_grow(struct stag_table *t, uint32_t size)
{
	struct stag_entry *v;
	uint32_t old = t->size;

	if (size > STAG_MAX)
		return -ENOSPC;
	v = realloc(t->v, size * sizeof(*v));
	if (!v)
		return -ENOMEM;
	memset(v + old, 0, (size - old) * sizeof(*v));
	t->v = v;
	t->size = size;
	for (uint32_t i = old ? old : 1; i < size; i++)
		put_free(t, i);
	return 0;
}

int stag_init(struct stag_table *t, uint32_t size)
{
	memset(t, 0, sizeof(*t));
	return stag_grow(t, size < 2 ? 2 : size);
}

void stag_fini(struct stag_table *t)
{
	free(t->v);
	memset(t, 0, sizeof(*t));
}

int stag_add(struct stag_table *t, void *mem, size_t len, unsigned rights, uint32_t *stag)
{
	struct stag_entry *e;
	uint32_t i;
	int err;

	if (!t->free_head) {
		err = stag_grow(t, t->size * 2);
		if (err)
			return err;
	}
	i = t->free_head;
	e = &t->v[i];
	err = new_key(t, &e->key);
	if (err)
		return err;
	t->free_head = e->next;
	if (!t->free_head)
		t->free_tail = 0;
	e->base = mem;
	e->len = len;
	e->rights = (uint8_t)rights;
	e->valid = true;
	*stag = i << STAG_KEY_BITS | e->key;
	if (rights & FAB_REMOTE_WRITE)
		t->only = t->nwritable++ || lent_holds(mem) ? 0 : *stag;
	return 0;
}

const struct stag_entry *stag_find(const struct stag_table *t, uint32_t stag)
{
	uint32_t i = stag >> STAG_KEY_BITS;
	const struct stag_entry *e;

	if (i >= t->size)
		return NULL;
	e = &t->v[i];
	return e->valid && e->key == (stag & KEY_MASK) ? e : NULL;
}

bool stag_del(struct stag_table *t, uint32_t stag)
{
	uint32_t i = stag >> STAG_KEY_BITS;
	struct stag_entry *e;

	if (!stag_find(t, stag))
		return false;
	e = &t->v[i];
	t->nwritable -= (e->rights & FAB_REMOTE_WRITE) != 0;
	if (t->only == stag)
		t->only = 0;
	e->valid = false;
	e->base = NULL;
	put_free(t, i);
	return true;
}

enum stag_result stag_check(const struct stag_table *t, uint32_t stag, uint64_t to,
			    uint64_t len, unsigned rights, uint8_t **mem)
{
	const struct stag_entry *e = stag_find(t, stag);

	if (!e)
		return STAG_INVALID;
	if ((e->rights & rights) != rights)
		return STAG_DENIED;
	if (len && to + (len - 1) < to)
		return STAG_WRAP;
	if (to > e->len || len > e->len - to)
		return STAG_BOUNDS;
	*mem = e->base + to;
	return STAG_OK;
}
