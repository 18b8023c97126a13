/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A lane's RPC-over-RDMA requester: calls go in with rr_submit(), replies come out
 * through call->done. What is below (which chunks, how many credits, which connection
 * carries it) is this module's affair.
 *
 *   rr_submit --> waiting --credit--> in flight on a link --reply, send completion--> done
 *                    ^                    |
 *                    +-- the link is lost-+   (same XID, new header, new rkeys)
 *
 * A *path* is a way to the server: a fabric, and both ends' addresses. A *link* is one
 * connection on a path. The requester has the queue, the XIDs and the calls; it may have
 * several links, and a call goes to the one that has the fewest in flight. A call belongs
 * to a link from sending to reply. A call that waits belongs to none, and neither does one
 * whose link is lost: it is sent on whichever has room next.
 *
 * A call stays here until done is called: losing a link only delays it. Everything but
 * rr_link_open() and rr_link_drop() runs on the lane's thread; those run on a thread that
 * may block.
 *
 * How a call travels (inline or by chunks) is decided each time that it is sent,
 * as the next link may have other inline thresholds (RFC 8797 section 4).
 * So the caller gives what any way takes, and the buffer for a Reply chunk is
 * taken here, when there is to be one. A call that finds none waits, and those behind
 * it that need none pass it; one buffer is this module's own, so that there is always a
 * call that can be sent.
 *
 * Buffers: call->msg, call->send and call->sink belong to the caller but must not
 * be touched, moved or put back between rr_submit() and done. call->reply points
 * into a receive buffer or into memory of this module, and is valid only until
 * done returns.
 */
#ifndef RPCRDMA_CONN_H
#define RPCRDMA_CONN_H

#include "base/list.h"
#include "base/arena.h"
#include "base/stats.h"
#include "fabric/fabric.h"
#include "rpcrdma/header.h"

/* Room before the RPC message for the transport header: with two Read
 * segments and a Write and a Reply chunk of one segment it takes 28 + 48 + 24
 * + 20 = 120 bytes. */
#define RR_HDR_ROOM   512u
/* Our receives, and the most that we send in one message. */
#define RR_INLINE     4096u
/* Pieces of WRITE data: a FUSE request lies in up to two buffers. */
#define RR_SEND_IOV   2u
/* The longest reply that there is a Reply chunk for. */
#define RR_REPLY_MAX  ((uint32_t)ARENA_MID_SIZE)
/* Sendings of a call that is answered with something malformed each time. */
#define RR_BAD_MAX    3u
/* Segments of a call: a Read chunk and a Write or Reply chunk. */
#define RR_CALL_MRS (RR_SEND_IOV + 1u)

struct rr_iov {
	void *mem;              /* in a data buffer */
	uint32_t len;
};

struct rr_link;

struct rr_call {
	/* ---- set by the caller before rr_submit ---- */
	uint32_t xid;           /* rr_xid(), also in the RPC message */
	struct arena_buf *msg;  /* the RPC message begins at msg->mem + RR_HDR_ROOM */
	uint32_t msg_len;       /* without the data of `send` */
	/* File data of a WRITE, which belongs into the message at data_pos
	 * (right after its length word). Travels as a Read chunk, or is copied
	 * into the message when all of it fits inline. nsend 0: none. */
	struct rr_iov send[RR_SEND_IOV];
	uint32_t nsend;
	uint32_t data_pos;
	/* Where READ data is to be placed (sink.len 0: none), by a Write chunk
	 * unless the whole reply fits inline. */
	struct rr_iov sink;
	/* Upper bound of the RPC reply, without the data for `sink`; at most
	 * RR_REPLY_MAX. */
	uint32_t reply_max;
	/*
	 * Called once. status 0: `reply` is the RPC reply message. Otherwise
	 *   -EREMOTEIO  the peer answered RDMA_ERROR: it may or may not have
	 *               executed the call
	 *   -EBADMSG    malformed replies to all of RR_BAD_MAX sendings
	 *   -EMSGSIZE   cannot be sent: reply_max is too much, or what has to be
	 *               inline is
	 * or what was given to rr_cancel().
	 */
	void (*done)(struct rr_call *c, int status);

	/* ---- results, for done ---- */
	const void *reply;
	uint32_t reply_len;
	bool placed;            /* the Write chunk was offered: data is not in the message */
	uint32_t placed_len;    /* bytes placed in sink */

	/* ---- this module's ---- */
	struct list node;
	struct rr_call *hash_next;
	struct rr_link *link;   /* in flight: on that */
	enum rr_call_state {
		RR_CALL_IDLE, RR_CALL_WAITING, RR_CALL_INFLIGHT,
	} state;
	bool sent, replied;     /* send completed; reply taken */
	unsigned sends;         /* how often it went on the wire; > 1: a replay */
	unsigned bad;           /* malformed replies to it */
	bool data_inline;       /* `send` has been copied into msg, for this sending */
	struct arena_buf *chunk;        /* of this sending: a Reply chunk, a Long Call; or NULL */
	uint32_t reply_room;    /* the Reply chunk's length */
	int status;
	struct fab_mr mrs[RR_CALL_MRS]; /* what is reachable for the peer */
	unsigned nmrs;
	struct arena_buf *recv; /* the receive that holds the reply */
	uint64_t posted_ns;     /* when it was last sent */
};

struct rr_conn;

/* A way to the server. */
struct rr_path {
	const struct fabric *fabric;
	struct fab_params params;       /* server, local, timeout */
};

struct rr_events {
	/* That path's link is gone; calls are kept, and go on by other links if there
	 * are some. The owner arranges for a new link and rr_up(). why: for the log. */
	void (*down)(void *ctx, unsigned path, int err, const char *why);
};

struct rr_config {
	const struct rr_path *paths;    /* the owner's, as long as the requester */
	unsigned credits;               /* most calls in flight on a link that we ask for */
	unsigned recvs;                 /* receives of a link: more than credits */
	unsigned lane, nlanes;          /* keeps the lanes' XIDs apart */
};

/* m, st and ev are the lane's and outlive the requester. NULL: no memory. */
struct rr_conn *rr_conn_new(const struct rr_config *cfg, struct loop *l, struct magazine *m,
			    struct stats *st, const struct rr_events *ev, void *ctx);
/* Closes the links; calls that are still here are forgotten, not called. */
void rr_conn_free(struct rr_conn *c);

/*
 * A thread that may block: connects on that path: memory registered, receives posted,
 * private data exchanged. 0 or -errno with eb set. The link belongs to the caller until
 * rr_up().
 */
int rr_link_open(struct rr_conn *c, unsigned path, struct rr_link **out, struct errbuf *eb);
/* A link that was never handed to rr_up(). */
void rr_link_drop(struct rr_link *link);
/* Text about the link for the log: device, addresses, thresholds. */
const char *rr_link_text(const struct rr_link *link);

/* Lane: takes the link into use; calls that a lost one had are sent first. */
int rr_up(struct rr_conn *c, struct rr_link *link);
/* Is there a link? */
bool rr_is_up(const struct rr_conn *c);
/* Lane: gives up each link that has a call in flight which was sent before that
 * (mono_ns), as if the peer had closed it; ev->down follows. */
void rr_expire(struct rr_conn *c, uint64_t before_ns, int err, const char *why);
/* Lane: gives up the link that the call, which is in flight, was sent on. */
void rr_reset_link_of(const struct rr_call *call, int err, const char *why);

/* Next XID: unique among the lanes of a mount. */
uint32_t rr_xid(struct rr_conn *c);

void rr_submit(struct rr_conn *c, struct rr_call *call);
/* There may be buffers again for calls that had found none. */
void rr_retry(struct rr_conn *c);

/*
 * Takes a call back that is waiting, or in flight on a connection that is
 * gone; done(call, status) runs inside. -EBUSY while a live connection has it:
 * the peer could still reach its buffers.
 */
int rr_cancel(struct rr_conn *c, struct rr_call *call, int status);

/* Calls waiting or in flight. */
unsigned rr_pending(const struct rr_conn *c);

#endif
