/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counting buffers, for tests. */
#pragma once

#include "base/arena.h"

/* What that magazine and the depot have. */
static inline unsigned buffers_free(const struct magazine *m, enum arena_class cls)
{
	unsigned n = atomic_load(&m->nfree[cls]);

	list_for_each(b, &m->arena->free[cls])
		n++;
	return n;
}
