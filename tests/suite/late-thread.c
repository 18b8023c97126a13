/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Preloaded into a program: the first thread that it makes begins three seconds
 * later than it was made, as can happen on a busy machine.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static void *(*begin)(void *);

static void *late(void *arg)
{
	sleep(3);
	return begin(arg);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	static atomic_bool made;
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
	if (atomic_exchange(&made, 1))
		return create(thread, attr, start, arg);
	begin = start;
	return create(thread, attr, late, arg);
}
