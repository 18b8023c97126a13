/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registration strategies: how a piece of a data buffer becomes a segment that the peer may
 * read or write.
 *
 *   pool   The arena's data buffers are registered as a whole, and every segment names
 *          them by the one long-lived rkey. A call costs nothing. The server could read
 *          and write any data buffer at any time while connected (RFC 8166 section 8.1).
 *          So nothing is parsed there (base/arena.h): a server can spoil data under way,
 *          and nothing else. Remote invalidation must stay off, or the peer would
 *          invalidate the buffers of all calls.
 *
 *   call   Each segment is registered for its call, with the right that it needs. The
 *          registration ends when the reply is there: either the server has invalidated
 *          it (Send With Invalidate), or it is undone here, before anybody looks at the
 *          data. The data buffers as a whole allow local access only. For fabrics where
 *          registering costs next to nothing (fab_caps.reg_per_call).
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
	unsigned data_access;   /* FAB_REMOTE_*: how the data buffers as a whole are registered */
	/* Lets the peer reach mem..mem+len, which lies in a data buffer, with `access`
	 * (one of FAB_REMOTE_*) for this call. 0 or -errno. */
	int (*map)(const struct rr_link *l, struct rr_call *call, void *mem, uint32_t len,
		   unsigned access, struct rr_seg *out);
	/* The reply is here, or the call will not be sent. When this returns, the peer
	 * reaches nothing of the call any more. */
	void (*unmap)(const struct rr_link *l, struct rr_call *call);
};

extern const struct rr_memreg rr_memreg_pool;
extern const struct rr_memreg rr_memreg_call;

#endif
