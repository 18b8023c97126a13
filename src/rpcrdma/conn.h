/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One lane's RPC-over-RDMA connection as a requester: calls go in with
 * rr_submit(), replies come out through call->done. What is below (which
 * chunks, how many credits, which connection carries it) is this module's
 * affair.
 *
 *   rr_submit --> waiting --credit--> in flight --reply and send completion--> done
 *                    ^                    |
 *                    +--- connection lost-+   (same XID, new header, new rkeys)
 *
 * A call stays here until done is called: losing the connection only delays
 * it. Everything but rr_link_open() and rr_link_drop() runs on the lane's
 * thread. rr_link_open() runs on a thread that may block, while the lane has
 * no connection: it then is the only user of the slab's RECV buffers.
 *
 * How a call travels (inline or by chunks) is decided each time that it is sent,
 * as the next connection may have other inline thresholds (RFC 8797 section 4).
 * So the caller gives what any way takes, and the buffer for a Reply chunk is
 * taken here, when there is to be one. Who finds none waits, and is passed by
 * those behind it that need none; one buffer is this module's own, so that
 * somebody can always be sent.
 *
 * Buffers: call->msg, call->send and call->sink belong to the caller but must not
 * be touched, moved or put back between rr_submit() and done. call->reply points
 * into a receive buffer or into memory of this module, and is valid only until
 * done returns.
 */
#ifndef RPCRDMA_CONN_H
#define RPCRDMA_CONN_H

#include "base/list.h"
#include "base/slab.h"
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
#define RR_REPLY_MAX  ((uint32_t)SLAB_MID_SIZE)
/* Sendings of a call that is answered with something malformed each time. */
#define RR_BAD_MAX    3u
/* Segments of a call: a Read chunk and a Write or Reply chunk. */
#define RR_CALL_MRS (RR_SEND_IOV + 1u)

struct rr_iov {
	void *mem;              /* in one of the slab's data buffers */
	uint32_t len;
};

struct rr_call {
	/* ---- set by the caller before rr_submit ---- */
	uint32_t xid;           /* rr_xid(), also in the RPC message */
	struct slab_buf *msg;   /* the RPC message begins at msg->mem + RR_HDR_ROOM */
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
	enum rr_call_state {
		RR_CALL_IDLE, RR_CALL_WAITING, RR_CALL_INFLIGHT,
	} state;
	bool sent, replied;     /* send completed; reply taken */
	unsigned sends;         /* how often it went on the wire; > 1: a replay */
	unsigned bad;           /* malformed replies to it */
	bool data_inline;       /* `send` has been copied into msg, for this sending */
	struct slab_buf *chunk; /* of this sending: a Reply chunk, a Long Call; or NULL */
	uint32_t reply_room;    /* the Reply chunk's length */
	int status;
	struct fab_mr mrs[RR_CALL_MRS]; /* what is reachable for the peer */
	unsigned nmrs;
	struct slab_buf *recv;  /* the receive that holds the reply */
	uint64_t posted_ns;     /* when it was last sent */
};

struct rr_conn;
struct rr_link;                 /* a connection ready to be taken into use */

struct rr_events {
	/* The connection is gone; calls are kept. The owner arranges for a new
	 * link and rr_up(). why: for the log. */
	void (*down)(void *ctx, int err, const char *why);
};

struct rr_config {
	const struct fabric *fabric;
	struct fab_params params;       /* server, local, timeout */
	unsigned credits;               /* most calls in flight that we ask for */
	unsigned lane, nlanes;          /* keeps the lanes' XIDs apart */
};

/* s, st and ev are the lane's and outlive the connection. NULL and errno. */
struct rr_conn *rr_conn_new(const struct rr_config *cfg, struct loop *l, struct slab *s,
			    struct stats *st, const struct rr_events *ev, void *ctx);
/* Closes the link; calls that are still here are forgotten, not called. */
void rr_conn_free(struct rr_conn *c);

/*
 * Control thread: connects: memory registered, receives posted, private data
 * exchanged. 0 or -errno with eb set. The link belongs to the caller until
 * rr_up().
 */
int rr_link_open(struct rr_conn *c, struct rr_link **out, struct errbuf *eb);
/* A link that was never handed to rr_up(). */
void rr_link_drop(struct rr_link *link);
/* Text about the link for the log: device, addresses, thresholds. */
const char *rr_link_text(const struct rr_link *link);

/* Lane: takes the link into use; calls of the lost one are sent first. */
int rr_up(struct rr_conn *c, struct rr_link *link);
bool rr_is_up(const struct rr_conn *c);
/* Lane: gives the connection up, as if the peer had closed it; ev->down follows. */
void rr_reset(struct rr_conn *c, int err, const char *why);

/* Next XID: unique among the lanes of a mount. */
uint32_t rr_xid(struct rr_conn *c);

void rr_submit(struct rr_conn *c, struct rr_call *call);

/*
 * Takes a call back that is waiting, or in flight on a connection that is
 * gone; done(call, status) runs inside. -EBUSY while a live connection has it:
 * the peer could still reach its buffers.
 */
int rr_cancel(struct rr_conn *c, struct rr_call *call, int status);

/* When the oldest call in flight was sent (mono_ns), 0 when there is none. */
uint64_t rr_oldest(const struct rr_conn *c);
/* Calls waiting or in flight. */
unsigned rr_pending(const struct rr_conn *c);

#endif
