/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Makes the client's configuration from the options. */
#ifndef SETUP_H
#define SETUP_H

#include "base/log.h"
#include "nfs/nfs.h"
#include "options.h"

/*
 * Fills cfg: looks up addresses (blocks in the resolver), makes paths of them, chooses the
 * fabric (blocks for up to five seconds for each address that does not answer), and plans as
 * many buffers as RLIMIT_MEMLOCK allows. cfg points into o, which must outlive it. 0, or
 * -errno with eb set.
 */
int setup_client(struct nfs_config *cfg, const struct options *o, struct errbuf *eb);

/*
 * Makes one more path for a mount that runs. Any thread, also in the sandbox; it asks no
 * resolver, and waits for nobody.
 *
 *   server   a numeric IPv4 or IPv6 address, in brackets or not: "10.0.1.1", "fe80::1%eth0"
 *   local    the same, of the server's family; or the name of a network interface, of which
 *            the first address goes that has the server's family; or NULL: any
 *   port     1 to 65535; 0: the port of cfg->paths[0]
 *
 * Everything else in *out (fabric, flags, time-out, ..) is as in cfg->paths[0]. Returns 0, or
 * -EINVAL, -ENODEV (no such interface, or none of its addresses fits) or another -errno with
 * eb set; then *out is as it was. If eb is set and the result is 0, it is a warning. Whether the mount has such a path, or is out of memory for
 * one, is for nfs_path_add() to say.
 */
int setup_path(struct rr_path *out, const struct nfs_config *cfg, const char *server,
	       const char *local, unsigned port, struct errbuf *eb);

#endif
