/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What signals do while a mount is made, runs, and ends. A thread of its own takes them, from the
 * start, so neither a mount point nor a resolver nor a dead server can keep anybody from stopping
 * us. What SIGINT, SIGTERM and SIGHUP do, unless nohup ignores SIGHUP, depends on the phase:
 *
 *   CONNECTING   end the process: there is nothing to undo on this machine
 *   MOUNTING     wait until it is known whether the kernel has the mount
 *   RUNNING      unmount
 *   ENDING       end the process: there is no mount any more
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include "base/log.h"

/* Called by the signal thread. */
struct signals_ops {
	void (*begin)(void *ctx);               /* first of all: it gives up its privileges */
	void (*given_up)(void *ctx, int sig);   /* says that the mount will not come about */
	void (*stop)(void *ctx);
	void (*stats)(void *ctx);               /* SIGUSR1 */
};

struct signals {
	const struct signals_ops *ops;
	void *ctx;
	pthread_t thread;
	sem_t ready;            /* the thread has given up its privileges */
	pthread_mutex_t mu;     /* for what follows */
	enum { CONNECTING, MOUNTING, RUNNING, ENDING } phase;
	int ended_by;           /* the signal that came while MOUNTING, or 0 */
	bool stats_asked;       /* SIGUSR1 came before RUNNING */
	int status;             /* ENDING: the exit status */
};

/* Call it before any thread is started, so that all threads inherit the mask. */
void signals_block(void);
/* Returns when the thread has given up its privileges. Otherwise, on a busy machine, the
 * mount might be there before the thread runs, and then the sandbox would not let it. 0, or
 * -errno with eb set. */
int signals_start(struct signals *s, const struct signals_ops *ops, void *ctx, struct errbuf *eb);
void signals_stop(struct signals *s);

void signals_enter_mounting(struct signals *s);
/* The kernel has the mount, and programs may have written by it already: from now on it ends as a mount that
 * was there. Returns the signal that came while MOUNTING, or 0. */
int signals_enter_running(struct signals *s);
/* From now on only the server has to be told, and it may be silent. */
void signals_enter_ending(struct signals *s, int status);

/* How long MOUNTING may last after a signal; a variable for the tests. */
extern unsigned signals_mounting_s;
