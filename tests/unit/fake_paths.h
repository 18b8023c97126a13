/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions of nfs/paths.h, played: a table of paths that the test fills in and changes,
 * on any thread. A test that has this in its sources has nothing of the real ones.
 */
#pragma once

#include <pthread.h>
#include "nfs/paths.h"

extern struct fake_paths {
	pthread_mutex_t mu;             /* for all of it */
	struct nfs_path_info path[NFS_PATHS_MAX];
	enum nfs_path_state added;      /* the state that a path gets when it is added */
	bool keeps;                     /* a path that is removed stays REMOVING */
	bool busy;                      /* it cannot be removed without force: it is connected just
					 * now, and the last one */
	bool only;                      /* it cannot be removed without force, connected or not: the
					 * mount has no other one */
	int reconnect_rc;               /* of the path with number 1 */
	unsigned adds, removes, forced, reconnects;
	enum rr_policy policy;
} fake_paths;

/* Puts a path into its place. */
void fake_path_put(unsigned id, enum nfs_path_state state, const char *server);
/* Waits until place `id` has that state. false: not within 5 s. */
bool fake_path_await(unsigned id, enum nfs_path_state state);
/* Changes the state of a path. */
void fake_path_set(unsigned id, enum nfs_path_state state, const char *why);
/* Its place is used again. */
void fake_path_replace(unsigned id);
