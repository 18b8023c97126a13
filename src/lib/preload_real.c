/* SPDX-License-Identifier: GPL-2.0-or-later */
#undef _FILE_OFFSET_BITS
#include "lib/preload_real.h"

#include <dlfcn.h>
#include <string.h>

/* Their off_t must be ours. */
_Static_assert(sizeof(off_t) == 8 && sizeof(void *) == 8, "64 bits");

struct preload_real preload_real;

/* A pointer to an object is none to a function in C, but for dlsym(). */
static void find(const char *name, void *function)
{
	void *at = dlsym(RTLD_NEXT, name);

	memcpy(function, &at, sizeof(at));
}

#define FIND(name) find(#name, &preload_real.name)

void preload_real_find(void)
{
	FIND(read);
	FIND(write);
	FIND(pread);
	FIND(pwrite);
	FIND(readv);
	FIND(writev);
	FIND(preadv2);
	FIND(pwritev2);
	FIND(openat);
	FIND(close);
	FIND(dup);
	FIND(dup3);
	FIND(fcntl);
	FIND(close_range);
	FIND(lseek);
	FIND(ftruncate);
	FIND(fsync);
	FIND(fdatasync);
	FIND(flock);
	FIND(mmap);
	FIND(socket);
	FIND(socketpair);
	FIND(recvmsg);
	FIND(memfd_create);
	FIND(fclose);
}
