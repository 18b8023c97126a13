/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads that no signal interrupts: another thread takes signals (signals.c). */
#pragma once

#include <pthread.h>

/* Starts a thread that blocks all signals but SIGSYS, which comes from the program's list of
 * system calls. 0 or -errno. */
int thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg);
