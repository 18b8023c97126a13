/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of plan.h.
 *
 *   plan.c          the order, and which fabric it is
 *   plan_paths.c    the addresses of the paths
 *   plan_memory.c   the buffers
 *   plan_files.c    open files
 */
#pragma once

#include "nfs/nfs.h"
#include "nfs/plan.h"

/* Fills cfg->npaths, and server and local of each path. Blocks in the resolver. 0, or -errno
 * with eb set. */
int plan_paths(struct nfs_config *cfg, const struct nfs_plan_in *in, struct errbuf *eb);
/* Fills cfg->lanes, credits, buffers, and what may come besides (room, path_locks, locks_left).
 * paths, npaths, mdconnect and memreg are there. 0, or -errno with eb set. */
int plan_memory(struct nfs_config *cfg, const struct nfs_plan_in *in, struct errbuf *eb);
/* Raises RLIMIT_NOFILE as far as it is needed, and says so if it cannot be. Fills cfg->files_left; the rest of
 * cfg is complete. */
void plan_files(struct nfs_config *cfg);
