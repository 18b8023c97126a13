/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What arena.c (memory, depot, magazines) and arena_extents.c (growing) share. */
#pragma once

#include "base/arena.h"

/* ---- arena.c ---- */

/* Addresses for len bytes, aligned to a huge page, without memory. NULL and errno. */
void *arena_reserve(size_t len);
/* Gives pages to a part of what arena_reserve() has returned, zeroed and touched. 0 or -errno;
 * arena_depopulate() undoes it in either case. */
int arena_populate(const struct arena_range *r);
void arena_depopulate(const struct arena_range *r);
/* Makes the buffers of one class from `at` on, and puts them into `free`. Returns what is behind
 * them in bufs. */
struct arena_buf *arena_cut(struct arena_buf *bufs, struct list *free, enum arena_class cls,
			    char *at, unsigned n);
/* With the depot's lock: calls one waiting magazine for each free buffer. */
void arena_call_waiting(struct arena *a, int cls);

/* ---- arena_extents.c; with the depot's lock ---- */

/* A free buffer of the lowest extent that has one; NULL: there is none. */
struct arena_buf *arena_take_extra(struct arena *a, int cls);
void arena_put_extra(struct arena *a, struct arena_buf *b);

/* ---- arena_extents.c; for arena_init() and arena_fini() ---- */

void arena_growth_init(struct arena *a);
void arena_growth_fini(struct arena *a);
