/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many files the program may have open (RLIMIT_NOFILE). Shells and systemd begin at 1,024,
 * because there are programs that use select(). This one does not, and may go up to the hard
 * limit. It does if programs may have rings: each connection and each ring of theirs is a file
 * here, and they may have what the plan leaves. That is done before there are threads, because the
 * list of system calls (src/sandbox.c) does not have it, and for the most paths that there may be:
 * they can be added while the mount is in use.
 */
#include <limits.h>
#include <sys/resource.h>
#include "fabric/fabric.h"
#include "nfs/nfs.h"
#include "nfs/plan_impl.h"

/* Of a device: the connection manager's events, completions, and an eventfd. */
#define CONNECTION_FILES 3u
/* Epoll, eventfd, the front end's device; some for what comes and goes. */
#define LANE_FILES  8u
/* Standard streams, log, control socket and its clients, devices, /proc. */
#define OTHER_FILES 64u
/* Each piece of memory that programs lend may be a dma-buf, whose descriptor is kept. */
#define LENT_FILES(cfg) ((cfg)->lends ? LENT_PIECES : 0)

static rlim_t plan_files_needed(const struct nfs_config *cfg, unsigned paths)
{
	unsigned each = cfg->paths[0].fabric == &fabric_iwarp ? 1 : CONNECTION_FILES;

	return OTHER_FILES + cfg->lanes * (LANE_FILES + paths * (1 + cfg->mdconnect) * each);
}

/* What is left of the limit. If it is low, half of what the paths that there are leave, and further paths
 * may find too little. */
static unsigned plan_files_left(rlim_t limit, rlim_t now, rlim_t most)
{
	rlim_t half = limit > now ? (limit - now) / 2 : 0, left = limit > most ? limit - most : 0;

	if (left < half)
		left = half;
	return left < INT_MAX ? (unsigned)left : INT_MAX;
}

void plan_files(struct nfs_config *cfg)
{
	rlim_t now = plan_files_needed(cfg, cfg->npaths);
	rlim_t most = plan_files_needed(cfg, NFS_PATHS_MAX) + LENT_FILES(cfg);
	struct rlimit r;
	rlim_t soft;

	cfg->files_left = 0;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return;
	soft = r.rlim_cur;
	if (soft < most || cfg->lends)
		r.rlim_cur = r.rlim_max < most || cfg->lends ? r.rlim_max : most;
	if (r.rlim_cur != soft && setrlimit(RLIMIT_NOFILE, &r) < 0)
		r.rlim_cur = soft;
	cfg->files_left = plan_files_left(r.rlim_cur, now, most);
	if (r.rlim_max < now)
		log_warn("at most %llu files may be open (RLIMIT_NOFILE), and %u connections on each of "
			 "%u paths may need %llu: some will not be made; raise the hard limit, with "
			 "'ulimit -Hn' as root, in /etc/security/limits.conf, or with LimitNOFILE= in a "
			 "unit", (unsigned long long)r.rlim_max, cfg->lanes * (1 + cfg->mdconnect),
			 cfg->npaths, (unsigned long long)now);
}
