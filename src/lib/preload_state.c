/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What all of the preload knows of the process it is in. */
#undef _FILE_OFFSET_BITS
#include "lib/preload.h"

#include <unistd.h>

size_t preload_min = 64u << 10, preload_write_min = 4u << 20;
_Thread_local bool preload_inside, preload_keeping;
struct preload_counts preload_counts;

/* 0: not begun, or of no use. */
static _Atomic pid_t here;

/* Cheap enough: who asks is about to make a system call of some microseconds. */
bool preload_here(void)
{
	pid_t pid = atomic_load_explicit(&here, memory_order_relaxed);

	return pid && pid == getpid();
}

void preload_is_here(bool begun)
{
	atomic_store(&here, begun ? getpid() : 0);
}
