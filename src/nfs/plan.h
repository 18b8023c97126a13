/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The plan of a mount: from what is wanted to a configuration of the client. It finds the
 * addresses of the paths, chooses the fabric, and counts the buffers that this process may lock
 * and the files that it may open. Blocks; before there is a client, on the thread that makes it.
 *
 *     nfs_plan_in  --+
 *                    +-- nfs_plan() -->  nfs_config: paths, lanes, credits, buffers, room
 *     nfs_config   --+
 */
#pragma once

#include "nfs/config.h"

enum nfs_plan_fabric { NFS_PLAN_AUTO, NFS_PLAN_VERBS, NFS_PLAN_IWARP };

struct nfs_plan_in {
	/* Both ends of paths: path i goes from locals[i mod nlocals] to servers[i mod nservers].
	 * Numeric addresses, or names: of hosts, and of network interfaces. nlocals 0: any. */
	const char *servers[NFS_PATHS_MAX], *locals[NFS_PATHS_MAX];
	unsigned nservers, nlocals;
	bool all;                       /* servers[0] is the only one, and all of its addresses are
					 * wanted */
	int family;                     /* AF_INET6: no other addresses; AF_UNSPEC: any */
	unsigned port;
	enum nfs_plan_fabric fabric;
	unsigned flags;                 /* FAB_CRC, FAB_MSS_FPDU */
	unsigned lanes, credits;        /* wanted; there may be fewer */
	unsigned growth;                /* the buffers may grow by so many percent of the memory */
	/* The front end's: its longest request, and the longest READ or WRITE that it makes with
	 * so many large buffers. */
	uint32_t request_max;
	uint32_t (*longest_io)(unsigned nbig);
};

/*
 * Fills what is missing in cfg: lanes, credits, buffers, room, files_left, path_locks, locks_*, and the
 * paths. Lowers rsize and wsize to what there are buffers for. Blocks in the resolver, and for up to five
 * seconds for each address that does not answer. 0, or -errno with eb set.
 */
int nfs_plan(struct nfs_config *cfg, const struct nfs_plan_in *in, struct errbuf *eb);

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
 * eb set; then *out is as it was. If eb is set and the result is 0, it is a warning. Whether the
 * mount has such a path, or is out of memory for one, is for nfs_path_add() to say.
 */
int nfs_plan_path(struct rr_path *out, const struct nfs_config *cfg, const char *server,
		  const char *local, unsigned port, struct errbuf *eb);
