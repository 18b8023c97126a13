/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registration strategies: how a piece of a data buffer becomes a segment that the peer may
 * read or write, and how that ends. (-o memreg=)
 *
 *           when set up         for each call             after its reply        R  the peer reaches
 *   pool    all data buffers    nothing                   nothing                0  all data buffers
 *   call    -                   register its pieces       end the registration   *  the calls under way
 *   mw      windows             bind a window to each     end the binding        1  the calls under way
 *
 *   R      the bit of RFC 8797: the peer may invalidate what it was offered, by its reply
 *   *      if the fabric lets peers invalidate registrations (iwarp)
 *
 * pool: every segment names the one long-lived rkey. The server could read and write any
 * data buffer at any time while connected (RFC 8166 section 8.1). So nothing is parsed
 * there (base/arena.h): a server can spoil data under way, and nothing else. Remote
 * invalidation must stay off, or the peer would invalidate the buffers of all calls.
 *
 * call: each segment is registered with the right that it needs. With a device that is two
 * system calls for each segment. With iWARP in user space it costs next to nothing.
 *
 * mw: a binding is a work request in front of the Send, and so is its end (fabric.h). If the
 * server's reply is a Send With Invalidate, that binding has ended. The others are ended
 * here, and the call is complete when the device has said so:
 *
 *     map: bind, bind, Send -->
 *                           <-- reply, Send With Invalidate of one of them
 *     unmap: invalidate the other -->
 *     rr_unmapped()         <-- done: nobody but us touches the buffers
 *
 * An extent (base/arena.h) is registered as a whole while it is there, as the other data buffers
 * are while the connection is. No other registration of its memory outlasts the call that it was
 * made for.
 *
 * When a connection dies, everything that was registered or bound on it ends with it,
 * before the buffers are used for anything else (rr_link_shut()). A call that is sent again
 * is mapped again, on the new connection.
 *
 * A fabric or a device that lacks what a strategy needs gets another one: rr_memreg_for().
 */
#pragma once

#include "fabric/fabric.h"
#include "rpcrdma/header.h"

struct rr_call;
struct rr_link;

enum { RR_UNMAPPING = 1 };

struct rr_memreg {
	const char *name;
	bool windows;           /* it needs memory windows */
	unsigned data_access;   /* FAB_*: how the data buffers as a whole are registered */
	/* Lets the peer reach mem..mem+len, which lies in a data buffer, with `access`
	 * (FAB_REMOTE_READ or FAB_REMOTE_WRITE) for this call. 0; RR_NO_BUFFER: not now,
	 * another call has to end first; or -errno. */
	int (*map)(const struct rr_link *l, struct rr_call *call, void *mem, uint32_t len,
		   unsigned access, struct rr_seg *out);
	/* The reply is here, or the call will not be sent. by_peer: the rkey that the peer
	 * has invalidated; NULL: none. 0: the peer reaches nothing of the call any more.
	 * RR_UNMAPPING: that will be so when rr_unmapped() is called. -errno: only when
	 * the link is closed. */
	int (*unmap)(const struct rr_link *l, struct rr_call *call, const uint32_t *by_peer);
};

/* The registration, as a whole, of the memory that a piece of a data buffer lies in. NULL: it lies
 * in no data buffer, or in memory of a program that this device could not register (fab_domain). */
const struct fab_mr *rr_data_mr(const struct rr_link *l, const void *mem, uint32_t len);

/*
 * Not a strategy: stands for mw where the device has windows and its driver is sound, and
 * for pool elsewhere; both are the device's affair. While windows are in doubt, because
 * connections were lost before any worked, it stands for call. That is up to the server, which
 * may drop what it likes, and so it gets no more by that than mw gives it: pool's one key is
 * not obtained by dropping connections.
 */
extern const struct rr_memreg rr_memreg_auto;
extern const struct rr_memreg rr_memreg_pool;
extern const struct rr_memreg rr_memreg_call;
extern const struct rr_memreg rr_memreg_mw;

/*
 * The strategy for a connection that can do `caps`, if `wanted` is what the user wants.
 * *why: the reason for another one, in words; NULL: it is the one that is wanted.
 */
const struct rr_memreg *rr_memreg_for(const struct rr_memreg *wanted, const struct fab_caps *caps,
				      const char **why);
