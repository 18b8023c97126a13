/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Makes the client's and the file system's configuration from the options. */
#pragma once

#include "nfs/chosen.h"
#include "options.h"

/* Fills cfg, and makes the plan of it (nfs_plan(), which blocks). cfg points into o, which must
 * outlive it. 0, or -errno with eb set. */
int setup_client(struct nfs_config *cfg, const struct options *o, struct errbuf *eb);
/* What a remount changes of it, and nothing else. */
struct nfs_config setup_times(const struct options *o);
/* Who is who on the server, by idmap=. *out is NULL if they are the same there, or to. own: who the daemon is
 * there. 0, or -errno with eb set. */
int setup_ugid(const struct ugid **out, struct ugid *to, struct rpc_cred *own, const struct options *o,
	       struct errbuf *eb);
/* What the file system is to do; negative_timeo is the front end's. It points into o, too. */
struct vfs_config setup_vfs(const struct options *o);
/* What cl has come to, with what the options make of the file system. */
struct nfs_chosen setup_chosen(struct nfs_client *cl, const struct options *o);
/* Are locks of that kind the server's? */
bool setup_server_locks(const struct options *o, enum opt_local_lock kind);
