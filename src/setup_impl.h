/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of setup.h.
 *
 *   setup.c          the configuration, and which fabric carries it
 *   setup_paths.c    the addresses of the paths
 *   setup_memory.c   the buffers
 *   setup_files.c    open files
 */
#ifndef SETUP_IMPL_H
#define SETUP_IMPL_H

#include "setup.h"

/* Fills cfg->npaths, and server and local of each path. Blocks in the resolver. 0, or -errno
 * with eb set. */
int setup_paths(struct nfs_config *cfg, const struct options *o, struct errbuf *eb);
/* Fills cfg->lanes, credits, buffers, and what may come besides (room, path_locks, locks_left). paths, npaths, mdconnect and memreg are there. 0, or
 * -errno with eb set. */
int setup_memory(struct nfs_config *cfg, const struct options *o, struct errbuf *eb);
/* Raises RLIMIT_NOFILE as far as it is needed, and says so if it cannot be. cfg is complete. */
void setup_files(const struct nfs_config *cfg);

#endif
