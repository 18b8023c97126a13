/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RPC-over-RDMA requester of a lane. Calls go in with rr_submit(), and replies come out
 * through call->done. This module decides which chunks a call needs, how many calls the
 * credits allow, and which connection carries each call.
 *
 *   rr_submit --> waiting --credit--> in flight on a link --reply, send completion--> done
 *                    ^                    |
 *                    +-- the link is lost-+   (same XID, new header, new rkeys: renew())
 *
 * A *path* is a way to the server: a fabric and the addresses of both ends. A *link* is one
 * connection on a path. The requester has the queue, the XIDs and the calls. It may have
 * several links, and a policy says which of them takes a call (choose.c). A call
 * belongs to a link from its sending to its reply. A waiting call belongs to none. When a
 * link is lost, its calls wait again, and go to any link that has room.
 *
 * A link may be *on trial*: it takes only calls that name it (rr_submit_on()), until
 * rr_admit(). It may *drain*: it takes no further calls, and ends with its last one.
 *
 * A call stays here until done() is called; losing a link only delays it. Everything runs
 * on the lane's thread, except rr_link_open() and rr_link_drop(). Those run on a thread
 * that may block.
 *
 * Each sending decides anew how a call travels, inline or in chunks, because the next link
 * may have other inline thresholds (RFC 8797 section 4). So the caller gives what either
 * way needs, and this module takes the buffer for a Reply chunk, a Long Call or the text of a
 * link when one is needed. A call that finds no buffer waits, and calls behind it that need
 * none pass it. The module keeps one spare buffer, so that there is always a call that can be
 * sent.
 *
 * Buffers: call->msg, call->send and call->sink belong to the caller, who must not touch,
 * move or put them back between rr_submit() and done(). call->reply points into a receive
 * buffer or into memory of this module, and is valid until done() returns.
 */
#pragma once

#include "base/hash.h"
#include "base/list.h"
#include "base/arena.h"
#include "base/times.h"
#include "fabric/fabric.h"
#include "rpcrdma/header.h"

/* Room for the transport header before the RPC message. The largest header that we build
 * has a Read segment for each piece of the data and one of a Long Call, a Write chunk of four
 * segments and a Reply chunk of one: 28 + 216 + 72 + 20 = 336 bytes. */
#define RR_HDR_ROOM   512u
/* Size of our receives, and the longest message that we send. */
#define RR_INLINE     4096u
/* Calls that the server may have under way on one link (back.c). When it has the reply it may make
 * the next one, although we do not know yet that the Send has left: so it may be twice as many. */
#define RR_BACK_CREDITS 2u
#define RR_BACK_MAX     (2u * RR_BACK_CREDITS)
/* A link has more receives than credits: for the server's own calls and what they are answered
 * with, and for replies that the lane still looks at. */
#define RR_RECV_SPARE (RR_BACK_MAX + 4u)
/* Pieces of a call's data: a WRITE of 4 MiB may be four requests' data, which lie in two buffers each. */
#define RR_SEND_IOV   8u
/* Pieces of memory that a reply's data is placed in: a READ of 4 MiB has four buffers of a MiB. */
#define RR_SINK_IOV   4u
/* What a Reply chunk has room for at least, and the longest reply that one is offered for: that of
 * an extended attribute of 64 KiB. */
#define RR_REPLY_ROOM ((uint32_t)ARENA_MID_SIZE)
#define RR_REPLY_MAX  (RR_REPLY_ROOM + 4096u)
/* A call fails after malformed replies to so many sendings. */
#define RR_BAD_MAX    3u
/* Segments of a call: a Read chunk, and a Write or Reply chunk. */
#define RR_CALL_MRS (RR_SEND_IOV + 1u)

struct rr_iov {
	void *mem;              /* in a data buffer */
	uint32_t len;
};

struct rr_link;
struct rr_memreg;

struct rr_call {
	/* ---- set by the caller before rr_submit ---- */
	unsigned timeouts;      /* 0; rr_expire() counts in it. Of an operation that is submitted
				 * again it is left as it is */
	uint32_t xid;           /* rr_xid(), also in the RPC message */
	struct arena_buf *msg;  /* the RPC message begins at msg->mem + RR_HDR_ROOM */
	uint32_t msg_len;       /* without the data of `send`; so it is again in done() */
	/*
	 * Makes the message what this sending wants: called before each, be it the first, a replay
	 * or one that then finds no buffer. Nobody else has the message then, and the data of
	 * `send` is not in it. It must not change msg_len. NULL: it is sent as it is.
	 */
	void (*renew)(struct rr_call *c);
	/* The call's data: a WRITE's, or the target of a link. In the RPC message it comes
	 * at data_pos, right after its length word. It travels as a Read chunk, or is
	 * copied into the message when all of it fits inline. nsend 0: none. */
	struct rr_iov send[RR_SEND_IOV];
	uint32_t nsend;
	uint32_t data_pos;
	bool send_copied;       /* it is short, and lies in plain memory: a Read chunk is made
				 * of a copy */
	/* Where to place the reply's data: in these pieces, one after the other. A piece of
	 * length 0 ends them; if it is the first, there is no data. It is placed by a
	 * Write chunk of as many segments, unless the whole reply fits inline. sink[0].mem
	 * NULL: the data is parsed, so it is placed in a buffer of this module, and copied
	 * from there when nobody can write to it any more. It is then one piece of at most
	 * RR_REPLY_ROOM bytes. */
	struct rr_iov sink[RR_SINK_IOV];
	/* Upper bound of the RPC reply without the data for `sink`; at most
	 * RR_REPLY_MAX, less the message if that is too long to be sent inline. */
	uint32_t reply_max;
	/*
	 * Called once. status 0: `reply` is the RPC reply message. Otherwise
	 *   -EREMOTEIO  the peer answered RDMA_ERROR: it may or may not have
	 *               executed the call
	 *   -EBADMSG    malformed replies to all of RR_BAD_MAX sendings
	 *   -EMSGSIZE   cannot be sent: reply_max or the part that must be inline is
	 *               too long
	 *   -ENOTCONN   of rr_submit_on(): its link was lost
	 * or what was given to rr_cancel().
	 */
	void (*done)(struct rr_call *c, int status);

	/* ---- results, for done ---- */
	const void *reply;
	uint32_t reply_len;
	bool placed;            /* the data is not in the message: it came in the Write chunk */
	const void *data;       /* placed: where it begins, in sink or in memory of this module */
	uint32_t placed_len;    /* bytes there */
	unsigned path;          /* of the link that it was last on; sends 0: none */

	/* ---- internal to this module ---- */
	uint32_t data_len;      /* of all of `send`, */
	uint32_t sink_len;      /* and of all of `sink`, */
	uint32_t nsink;         /* which has so many pieces */
	struct list node;
	struct hash_node by_xid;
	struct rr_link *link;   /* the link that it is in flight on */
	enum rr_call_state {
		RR_CALL_IDLE, RR_CALL_WAITING, RR_CALL_INFLIGHT,
	} state;
	bool sent, replied;     /* the Send has completed; the reply is here */
	bool pinned;            /* to its link: rr_submit_on() */
	bool unmapping;         /* the peer may still reach what is in mrs */
	unsigned sends;         /* how often it went on the wire; > 1: a replay */
	unsigned bad, bad_at;   /* sendings that had malformed replies; which was the last such */
	bool data_inline;       /* `send` has been copied into msg for this sending */
	struct arena_buf *chunk;        /* what this sending's chunks need (send.c); or NULL */
	uint32_t chunk_room;    /* bytes of it that the peer may write */
	bool write_chunk, reply_chunk;  /* what this sending has offered */
	int status;
	struct fab_mr mrs[RR_CALL_MRS]; /* what the peer can reach */
	unsigned nmrs;
	void *recv;             /* the receive that holds the reply */
	uint64_t posted_ns;     /* when it was last sent */
};

struct rr_conn;

/* The receives of a link for that many credits, and the bytes that they take. A link has memory
 * of its own for them, registered while the link is there. */
static inline unsigned rr_recvs(unsigned credits)
{
	return credits + RR_RECV_SPARE;
}

static inline size_t rr_recv_bytes(unsigned credits)
{
	return (size_t)rr_recvs(credits) * RR_INLINE;
}

/* How a call is given to one of several links that have room. */
enum rr_policy {
	RR_MIN_INFLIGHT,        /* the one with the fewest calls in flight */
	RR_ROUND_ROBIN,         /* each in turn */
	RR_MIN_LATENCY,         /* the one that has answered fastest lately */
};

#define RR_PATHS_MAX 8u
#define RR_LINKS_MAX 64u        /* of one requester */

/* A way to the server. */
struct rr_path {
	const struct fabric *fabric;
	struct fab_params params;       /* server, local, timeout */
};

/* What one lane has done on a path. The lane writes it, and any thread may read it. */
struct rr_path_stats {
	_Atomic uint64_t calls;         /* sent, again ones included */
	_Atomic uint64_t tx_bytes;      /* RPC messages and data */
	_Atomic uint64_t rx_bytes;
	_Atomic uint64_t failovers;     /* calls that lost their link before the reply */
	_Atomic uint64_t registrations; /* segments made accessible for calls */
	_Atomic uint64_t latency_ns;    /* moving average over short calls; 0: none yet */
	struct times times;
	/* The owner's: */
	_Atomic uint64_t in_flight, credits;    /* as of the last look */
	_Atomic uint64_t reconnects;    /* connections that came into use again */
	_Atomic uint64_t heartbeats, missed;
};

/* What memreg=auto knows of memory windows on a path (memreg.h). All lanes share it. */
struct rr_windows {
	_Atomic bool work;              /* the peer has used one */
	_Atomic uint64_t again_ns;      /* connections were lost before any did: none has windows
					 * before that time (mono_ns()); 0: it did not come to that */
};

struct rr_events {
	/* A link is gone, and `owner` is what rr_link_open() was given for it. Its calls are
	 * kept, and continue on other links if there are any. The owner arranges for a new
	 * link and rr_up(). why: for the log. */
	void (*down)(void *ctx, void *owner, int err, const char *why);
	/* The server calls, on one of the links (RFC 8167): len bytes of an RPC message. The reply
	 * is written to `reply`, and its length returned; 0: there is none. Nothing may be waited
	 * for, and no link ended. */
	uint32_t (*called)(void *ctx, const void *msg, uint32_t len, void *reply, uint32_t room);
};

struct rr_config {
	enum rr_policy policy;
	struct rr_path_stats *path_stats;       /* for each path; the owner's, must outlive it */
	unsigned credits;               /* the most calls in flight on a link that we ask for */
	unsigned lane, nlanes;          /* keeps the lanes' XIDs apart */
	const struct rr_memreg *memreg; /* the registration strategy (memreg.h); NULL: pool */
	struct rr_windows *windows;     /* memreg=auto: for each path; the owner's, must outlive it */
	bool reserve;                   /* keep a credit of each link for rr_submit_on() */
};

/* m, st and ev belong to the lane and outlive the requester. NULL: no memory. It runs on
 * the lane's thread, or before there is one. */
struct rr_conn *rr_conn_new(const struct rr_config *cfg, struct loop *l, struct magazine *m,
			    struct stats *st, const struct rr_events *ev, void *ctx);
/* Closes the links. done() is not called for calls that are still here. */
void rr_conn_free(struct rr_conn *c);

/* Where a link leads, and what it is for. */
struct rr_way {
	const struct rr_path *path;     /* need not outlive rr_link_open() */
	unsigned number;                /* of the path, below RR_PATHS_MAX: for counters */
	bool metadata;                  /* for calls without file data, as long as there are other
					 * links for those with data */
	void *owner;                    /* for ev->down */
};
/*
 * A thread that may block: connects. Registers memory, posts receives and
 * exchanges private data. 0, or -errno with eb set. The link belongs to the caller until
 * rr_up(). Several threads may do this at once.
 */
int rr_link_open(struct rr_conn *c, const struct rr_way *way, struct rr_link **out,
		 struct errbuf *eb);
/* Frees a link that was never handed to rr_up(). */
void rr_link_drop(struct rr_link *link);
/* Describes the link for the log: device, addresses, thresholds. */
const char *rr_link_text(const struct rr_link *link);
/* What was agreed when it was made, which does not change. */
struct rr_link_facts {
	const char *memreg;             /* the name of the strategy */
	uint32_t inline_send, inline_recv;      /* thresholds: what we send, and what we receive */
	bool remote_inval;              /* the server invalidates what we let it, if it has not lied */
};
struct rr_link_facts rr_link_facts(const struct rr_link *link);

/* Lane: takes the link into use, or on trial. Calls of a lost link are sent first. 0, or
 * -errno: then the link is gone, and ev->down is not called. */
int rr_up(struct rr_conn *c, struct rr_link *link, bool trial);
/* Lane: the trial is over, and the link takes any call. */
void rr_admit(struct rr_link *link);
/* Lane: the link takes no further calls. It is given up when it has none in flight, now or
 * later. */
void rr_drain(struct rr_link *link);
/* Lane: gives the link up, also inside a callback: a timer closes it, nothing is sent on it
 * until then, and ev->down follows. why must stay that long. */
void rr_link_reset(struct rr_link *link, int err, const char *why);
/* Lane: how calls are given to links from now on. */
void rr_set_policy(struct rr_conn *c, enum rr_policy policy);
/* Is there a link that takes any call? */
bool rr_is_up(const struct rr_conn *c);

/* What a lane may ask of its links. */
struct rr_link_now {
	unsigned in_flight, credits;
	uint64_t heard_ns;              /* when the newest reply came, or when the link was made */
	uint64_t answered_ns;           /* when the newest call that was answered had been sent; 0:
					 * none was */
	uint64_t measured_ns;           /* when its latency was last measured, or when it was made */
};
struct rr_link_now rr_link_now(const struct rr_link *link);
/* Lane: gives up each link with a call in flight whose time is up, as if the peer had closed it. true: there was one.
 * ev->down follows. now_ns: mono_ns(). The first time a call has timeo_ns since it was sent, then
 * two of them, and so on, up to RR_TIMEOUTS_MAX + 1. What the server begins anew with each sending,
 * as it does with COMMIT, would never end otherwise if it takes longer than timeo. */
#define RR_TIMEOUTS_MAX 9u
bool rr_expire(struct rr_conn *c, uint64_t now_ns, uint64_t timeo_ns, int err, const char *why);
/* Lane: gives up the link that this call is in flight on. */
void rr_reset_link_of(const struct rr_call *call, int err, const char *why);
/* Inside done(): gives up the link that the reply has come on. It is not in flight there any
 * more. */
void rr_reset_answering(struct rr_conn *c, int err, const char *why);

/* Puts data with its XDR pad into a message of len bytes (behind RR_HDR_ROOM), at pos. Returns the
 * new length; 0: there is no room. */
uint32_t rr_insert(struct arena_buf *msg, uint32_t len, uint32_t pos, const struct rr_iov *data,
		   uint32_t n);

/* Next XID: unique among the lanes of a mount. */
uint32_t rr_xid(struct rr_conn *c);

void rr_submit(struct rr_conn *c, struct rr_call *call);
/* The same, without file data, and by the first link if that has room, whatever the policy: the server may
 * want to see one call come from where another one came. */
void rr_submit_steady(struct rr_conn *c, struct rr_call *call);
/*
 * Sends the call on that link now, or not at all: 0; -EAGAIN: no credit or no buffer is free;
 * -ENOTCONN: the link is about to end. If the link is lost before the reply, done() gets
 * -ENOTCONN, and the call is not sent again.
 */
int rr_submit_on(struct rr_link *link, struct rr_call *call);
/* The same, before all calls that wait. */
void rr_submit_first(struct rr_conn *c, struct rr_call *call);
/* Of the calls that wait to be sent again, when the first one was last sent (mono_ns()). 0:
 * there is none. */
uint64_t rr_first_replay_ns(const struct rr_conn *c);
/* Buffers may be free again for calls that found none. */
void rr_retry(struct rr_conn *c);

/*
 * Takes back a call that is waiting; done(call, status) runs inside. -EBUSY while the call
 * is in flight on a link: the peer could still reach its buffers.
 */
int rr_cancel(struct rr_conn *c, struct rr_call *call, int status);
