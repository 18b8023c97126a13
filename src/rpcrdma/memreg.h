/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registration strategies: how a piece of a data buffer becomes a segment that the
 * peer may read or write.
 *
 *   pool   the arena's data buffers are registered as a whole; a segment
 *          names them by the one long-lived rkey. Costs nothing per call; the
 *          server could read and write any of them at any time while connected
 *          (RFC 8166 section 8.1), so nothing is parsed there (base/arena.h): it can
 *          spoil data under way, and that is all. Remote invalidation must stay
 *          off: the peer would invalidate the buffers under everybody.
 *
 *   call   each segment is registered for its call, with the right that it
 *          needs, and is gone when the reply is there: either the server has
 *          invalidated it (Send With Invalidate), or it is done here, before
 *          anybody looks at the data. The buffers themselves are local. For fabrics
 *          where registering costs next to nothing (fab_caps.reg_per_call).
 */
#ifndef RPCRDMA_MEMREG_H
#define RPCRDMA_MEMREG_H

#include "fabric/fabric.h"
#include "rpcrdma/header.h"

struct rr_call;
struct rr_link;

struct rr_memreg {
	const char *name;
	bool remote_inval;      /* R of RFC 8797 */
	unsigned data_access;   /* FAB_REMOTE_*: the data buffers' registration */
	/* Makes mem..mem+len, which lies in a data buffer, reachable for the call with
	 * `access` (one of FAB_REMOTE_*). 0 or -errno. */
	int (*map)(const struct rr_link *l, struct rr_call *call, void *mem, uint32_t len,
		   unsigned access, struct rr_seg *out);
	/* The reply is here, or the call will not be sent: nothing of it is
	 * reachable any more when this returns. */
	void (*unmap)(const struct rr_link *l, struct rr_call *call);
};

extern const struct rr_memreg rr_memreg_pool;
extern const struct rr_memreg rr_memreg_call;

#endif
