/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles: the numbers by which FUSE knows what is ours (nodes, open files,
 * directory streams). They come back from outside, so none of them is followed
 * before it was found here.
 *
 *     handle = | generation 32 bits | index 32 bits |
 *
 *     slot[index]:  generation, object
 *
 * A slot's generation changes with each object, and begins at random; the slot that
 * has been free for longest is used first. So a handle that has been given up, or
 * never was, is not taken for another one. None is 0 or FUSE_ROOT_ID.
 *
 * Any thread. A slot is read and changed under one of a few locks, held for that
 * only: handle_get() takes its reference there, handle_del() ends the handle there.
 * Slots stay where they are until handles_fini(), so that there is no lock for all
 * but that of the list of free ones.
 */
#ifndef FS_HANDLE_H
#define FS_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HANDLE_LOCKS  64u
#define HANDLE_CHUNK  4096u             /* slots that are allocated at once */
#define HANDLE_CHUNKS 16384u

struct handle_slot {
	void *obj;                      /* NULL: free */
	uint32_t gen;
	uint32_t next;                  /* free: the next free one, + 1; 0 ends the list */
};

struct handles {
	pthread_mutex_t mu;             /* for the list of free slots, and growing */
	uint32_t free_head, free_tail;  /* + 1 */
	uint32_t seed;
	_Atomic uint32_t nslots;
	pthread_mutex_t lock[HANDLE_LOCKS];     /* of the slots, by their indices */
	struct handle_slot *_Atomic chunk[HANDLE_CHUNKS];
};

void handles_init(struct handles *h);
void handles_fini(struct handles *h);

/* A handle for obj, which is not NULL; 0: no memory. */
uint64_t handle_new(struct handles *h, void *obj);
/*
 * The handle's object, referenced: ref is called while it cannot be given up, and
 * says whether there was something left to refer to. NULL: no such handle.
 */
void *handle_get(struct handles *h, uint64_t handle, bool (*ref)(void *obj));
/* Gives the handle up: its object; NULL if there is no such handle (any more). */
void *handle_del(struct handles *h, uint64_t handle);

#endif
