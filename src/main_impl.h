/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The mount, which main.c begins and ends, and what main_control.c tells of it. */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/log.h"
#include "ctl/ctl.h"
#include "fuse/fs.h"
#include "nfs/nfs.h"
#include "options.h"
#include "signals.h"

/* The server thread: set_up(), and in the end nfs_client_free(). */
struct server {
	pthread_t thread;
	bool started;
	sem_t is_up, may_end;
	_Atomic bool tries;     /* is_up was posted because the command need not wait, and not because it is up */
	int rc;                 /* set_up()'s */
};

struct mount {
	struct server server;
	struct options opt;     /* those that it was made with */
	struct options now;     /* the command thread's: with what remounts have changed; strings are opt's */
	struct nfs_config cfg;
	struct ugid ugid_table;
	const struct ugid *ugid;        /* the table; NULL: users are the same on the server */
	struct rpc_cred own;            /* this process there */
	struct nfs_client *client;
	struct fs *fs;
	struct ctl *ctl;        /* NULL: the mount cannot be controlled */
	struct signals signals;
	uint64_t keep;          /* capabilities that are kept */
	int stats_dir;          /* the directory of stats=, or -1 */
	int bound;              /* bind_files() of the main thread */
	struct errbuf eb;       /* why it failed */
};

/* ---- main_control.c ---- */

/* Any thread, until the client is freed: the file of the option stats is written, if there is one. */
void mount_write_stats(void *mount);
/* Runs on the server thread, because what the command thread starts talks to the server. The
 * mount is worth more than its control. */
void mount_prepare_control(struct mount *m);
/* When it is mounted. */
void mount_start_control(struct mount *m);
/* The log says what was chosen. */
void mount_say_chosen(const struct mount *m);
