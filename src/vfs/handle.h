/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles: the numbers by which a front end's other side knows inodes, open files and directory
 * streams. They come back from outside, so each one is looked up here before it is used.
 *
 *     handle = | generation 32 bits | index 32 bits |
 *
 *     slot[index]:  generation, object
 *
 * A slot's generation changes with each object, and begins at random. The slot that has
 * been free for longest is used first. So a handle that was given up, or never existed, is
 * not mistaken for another one. No handle is 0 or 1, which is the root.
 *
 * Any thread. A slot is read and changed under one of a few locks, which is held for that
 * only: handle_get() takes its reference under it, handle_del() ends the handle under it.
 * handle_new() sets the object of a slot that no handle names yet, without it.
 * Slots stay where they are until handles_fini(). So the only lock for the whole table is
 * that of the list of free slots.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HANDLE_LOCKS  64u
#define HANDLE_CHUNK  4096u             /* slots in one allocation */
#define HANDLE_CHUNKS 16384u

struct handle_slot {
	void *_Atomic obj;              /* NULL: free */
	uint32_t gen;
	uint32_t next;                  /* free: index of the next free slot + 1; 0: none */
};

struct handles {
	pthread_mutex_t mu;             /* for the list of free slots, and for growing */
	uint32_t free_head, free_tail;  /* index + 1; 0: the list is empty */
	uint32_t seed;
	_Atomic uint32_t nslots;
	pthread_mutex_t lock[HANDLE_LOCKS];     /* for the slots, by index */
	struct handle_slot *_Atomic chunk[HANDLE_CHUNKS];
};

void handles_init(struct handles *h);
void handles_fini(struct handles *h);

/* Makes a handle for obj, which must not be NULL. 0: no memory. */
uint64_t handle_new(struct handles *h, void *obj);
/*
 * The handle's object, with a reference that `ref` has taken. While ref runs the handle
 * cannot be given up. ref returns false if the object is about to be freed. NULL: there is
 * no such handle, or ref returned false.
 */
void *handle_get(struct handles *h, uint64_t handle, bool (*ref)(void *obj));
/* Calls look(object, arg), during which the handle cannot be given up. false: there is no such
 * handle. */
bool handle_look(struct handles *h, uint64_t handle, void (*look)(const void *obj, void *arg),
		 void *arg);
/* Calls look(object, arg) for one object after the other, whose handle cannot be given up
 * meanwhile. Those that come or go during this may be left out. */
void handles_each(struct handles *h, void (*look)(const void *obj, void *arg), void *arg);
/* Gives the handle up and returns its object. NULL: there is no such handle (any more). */
void *handle_del(struct handles *h, uint64_t handle);
