/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registration strategies: how a piece of the slab becomes a segment that the
 * peer may read or write.
 *
 *   pool   the slab is registered once per connection; a segment names it by
 *          the one long-lived rkey. Costs nothing per call; the server could
 *          touch the slab at any time while connected, so it has to be trusted
 *          (RFC 8166 section 8.1). Remote invalidation must stay off: the
 *          peer would invalidate the slab under everybody.
 */
#ifndef RPCRDMA_MEMREG_H
#define RPCRDMA_MEMREG_H

#include "fabric/fabric.h"
#include "rpcrdma/header.h"

struct rr_memreg {
	const char *name;
	bool remote_inval;      /* R of RFC 8797 */
	/* Makes mem..mem+len, which lies in the slab that `slab` registers,
	 * reachable. 0 or -errno. */
	int (*map)(const struct fab_mr *slab, void *mem, uint32_t len, struct rr_seg *out);
};

extern const struct rr_memreg rr_memreg_pool;

#endif
