/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Turns of this user's processes, by a lock on the directory that has the sockets (where.h). It is nobody
 * else's, so nobody else can hold the lock. A lock is a descriptor: it ends with the process that has it, at the
 * latest. It is never held for long; if it is, its process is stuck, and whoever waits goes on without it.
 */
#pragma once

#include "ctl/where.h"

/* Waits for that directory's lock, for a second. A descriptor, for close(), or -1. */
int ctl_turn_lock(const char *dir);

/*
 * Who mounts looks first whether something is mounted there already, and takes turns from the look until the
 * mount: two that look at the same time would both mount, one upon the other. Waits for ten seconds.
 */
struct ctl_turn {
	int fd;                         /* -1: there is no such directory, and so no turn */
	char dir[CTL_DIR_MAX];
};
void ctl_turn_begin(struct ctl_turn *t);
void ctl_turn_end(struct ctl_turn *t);
