/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the options that a person gave to the configuration of the client. */
#ifndef SETUP_H
#define SETUP_H

#include "base/log.h"
#include "nfs/nfs.h"
#include "options.h"

/*
 * Fills cfg: addresses are looked up (blocks in the resolver), the buffers are counted
 * to RLIMIT_MEMLOCK. cfg points into o, which must outlive it. 0 or -errno.
 */
int setup_client(struct nfs_config *cfg, const struct options *o, struct errbuf *eb);

#endif
