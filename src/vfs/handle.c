/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Handles; see handle.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include "vfs/handle.h"

static uint32_t index_of(uint64_t handle)
{
	return (uint32_t)handle;
}

static uint32_t gen_of(uint64_t handle)
{
	return (uint32_t)(handle >> 32);
}

/* With generation 0 a handle could be 0 or 1. */
static uint32_t not_zero(uint32_t gen)
{
	return gen ? gen : 1;
}

void handles_init(struct handles *h)
{
	memset(h, 0, sizeof(*h));
	pthread_mutex_init(&h->mu, NULL);
	for (unsigned i = 0; i < HANDLE_LOCKS; i++)
		pthread_mutex_init(&h->lock[i], NULL);
	if (getrandom(&h->seed, sizeof(h->seed), 0) != sizeof(h->seed))
		h->seed = (uint32_t)time(NULL);
}

void handles_fini(struct handles *h)
{
	for (unsigned i = 0; i < HANDLE_CHUNKS; i++)
		free(atomic_load(&h->chunk[i]));
	for (unsigned i = 0; i < HANDLE_LOCKS; i++)
		pthread_mutex_destroy(&h->lock[i]);
	pthread_mutex_destroy(&h->mu);
}

/* i must be less than nslots. */
static struct handle_slot *slot_at(struct handles *h, uint32_t i)
{
	return &atomic_load_explicit(&h->chunk[i / HANDLE_CHUNK], memory_order_acquire)
		[i % HANDLE_CHUNK];
}

static pthread_mutex_t *lock_of(struct handles *h, uint32_t i)
{
	return &h->lock[i % HANDLE_LOCKS];
}

/* With mu held: a slot that was never used. */
static struct handle_slot *handle_grow(struct handles *h, uint32_t *index)
{
	uint32_t i = atomic_load(&h->nslots);
	struct handle_slot *chunk;

	if (i == HANDLE_CHUNK * HANDLE_CHUNKS)
		return NULL;
	if (i % HANDLE_CHUNK == 0) {
		chunk = malloc(HANDLE_CHUNK * sizeof(*chunk));
		if (!chunk)
			return NULL;
		atomic_store_explicit(&h->chunk[i / HANDLE_CHUNK], chunk, memory_order_release);
	}
	*index = i;
	*slot_at(h, i) = (struct handle_slot){ .gen = not_zero(h->seed ^ i * 2654435761u) };
	atomic_store(&h->nslots, i + 1);
	return slot_at(h, i);
}

/* With mu held. */
static struct handle_slot *take_free(struct handles *h, uint32_t *index)
{
	struct handle_slot *s;

	if (!h->free_head)
		return handle_grow(h, index);
	*index = h->free_head - 1;
	s = slot_at(h, *index);
	h->free_head = s->next;
	if (!h->free_head)
		h->free_tail = 0;
	return s;
}

static void put_free(struct handles *h, uint32_t index)
{
	pthread_mutex_lock(&h->mu);
	slot_at(h, index)->next = 0;
	if (h->free_tail)
		slot_at(h, h->free_tail - 1)->next = index + 1;
	else
		h->free_head = index + 1;
	h->free_tail = index + 1;
	pthread_mutex_unlock(&h->mu);
}

/* Nobody has the handle yet: its generation is another one than that of all handles that were
 * given out for this slot, and changes only in handle_del(). So this needs no lock of the slot. */
uint64_t handle_new(struct handles *h, void *obj)
{
	struct handle_slot *s;
	uint64_t handle = 0;
	uint32_t i;

	pthread_mutex_lock(&h->mu);
	s = take_free(h, &i);
	if (s) {
		handle = (uint64_t)s->gen << 32 | i;
		atomic_store_explicit(&s->obj, obj, memory_order_release);
	}
	pthread_mutex_unlock(&h->mu);
	return handle;
}

/* The handle's slot, locked. NULL: there is no such handle. */
static struct handle_slot *lock_slot(struct handles *h, uint64_t handle)
{
	uint32_t i = index_of(handle);
	struct handle_slot *s;

	if (i >= atomic_load(&h->nslots))
		return NULL;
	s = slot_at(h, i);
	pthread_mutex_lock(lock_of(h, i));
	if (s->obj && s->gen == gen_of(handle))
		return s;
	pthread_mutex_unlock(lock_of(h, i));
	return NULL;
}

void *handle_get(struct handles *h, uint64_t handle, bool (*ref)(void *obj))
{
	struct handle_slot *s = lock_slot(h, handle);
	void *obj;

	if (!s)
		return NULL;
	obj = ref(s->obj) ? s->obj : NULL;
	pthread_mutex_unlock(lock_of(h, index_of(handle)));
	return obj;
}

bool handle_look(struct handles *h, uint64_t handle, void (*look)(const void *obj, void *arg),
		 void *arg)
{
	struct handle_slot *s = lock_slot(h, handle);

	if (!s)
		return false;
	look(s->obj, arg);
	pthread_mutex_unlock(lock_of(h, index_of(handle)));
	return true;
}

void handles_each(struct handles *h, void (*look)(const void *obj, void *arg), void *arg)
{
	for (uint32_t i = 0; i < atomic_load(&h->nslots); i++) {
		const void *obj;

		pthread_mutex_lock(lock_of(h, i));
		obj = atomic_load_explicit(&slot_at(h, i)->obj, memory_order_acquire);
		if (obj)
			look(obj, arg);
		pthread_mutex_unlock(lock_of(h, i));
	}
}

void *handle_del(struct handles *h, uint64_t handle)
{
	struct handle_slot *s = lock_slot(h, handle);
	void *obj;

	if (!s)
		return NULL;
	obj = s->obj;
	s->obj = NULL;
	s->gen = not_zero(s->gen + 1);
	pthread_mutex_unlock(lock_of(h, index_of(handle)));
	put_free(h, index_of(handle));
	return obj;
}
