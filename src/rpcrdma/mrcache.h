/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registrations of one connection that are kept after their use, by range.
 *
 *     by first page:   [p] -> 4 KiB read        [q] -> 1 MiB write -> 64 KiB write
 *     idle:            least lately used --> ... --> lately used
 *
 * An entry is a range of whole pages with one right. A piece of memory is served by an
 * entry that begins at the same page, has that right, and is long enough. What is in use is
 * never given up. What is idle goes, the least lately used first, while there are more bytes
 * than `limit`, or when the device has no room for more.
 *
 * The memory must stay mapped while the connection lasts, or not be kept here after its use.
 *
 * Threads: the link's.
 */
#ifndef RPCRDMA_MRCACHE_H
#define RPCRDMA_MRCACHE_H

#include "base/list.h"
#include "base/stats.h"
#include "fabric/fabric.h"

#define RR_MRCACHE_HASH 256u    /* power of two */

struct rr_mrcache {
	const struct fabric *fabric;
	struct fab_conn *fab;
	struct stats *st;
	size_t limit, bytes;            /* of idle ones and those in use */
	struct list hash[RR_MRCACHE_HASH];
	struct list idle;               /* least lately used first */
};

struct rr_mrcache_entry;

/* The cache registers on that connection, and counts in st. */
void rr_mrcache_init(struct rr_mrcache *c, const struct fabric *fabric, struct fab_conn *fab,
		     size_t limit, struct stats *st);
/* The connection is closed, and its registrations have ended with it. */
void rr_mrcache_fini(struct rr_mrcache *c);

/* A registration of mem..mem+len with `access` (one of FAB_REMOTE_*). 0, or what reg
 * returned; if the device has no room, all that was idle has been given up before. */
int rr_mrcache_get(struct rr_mrcache *c, void *mem, size_t len, unsigned access,
		   struct rr_mrcache_entry **out);
/* keep: it may be of use again. Otherwise it ends with its last user: the memory may go. */
void rr_mrcache_put(struct rr_mrcache *c, struct rr_mrcache_entry *e, bool keep);
/* Its range and rkey. The range begins at or before what was asked for. */
const struct fab_mr *rr_mrcache_mr(const struct rr_mrcache_entry *e);

#endif
