/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	sigdelset(&all, SIGBUS);        /* base/lent.h; blocked, it ends the process */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(out, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}
