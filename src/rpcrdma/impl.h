/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of src/rpcrdma share. Not for other modules.
 *
 *   conn.c    the queue, and the calls in flight
 *   lost.c    what becomes of the calls of a link that is lost
 *   choose.c  which link takes the next call
 *   link.c    how a connection begins and ends
 *   send.c    from a call to one Send
 *   reply.c   from a receive to the call that it answers
 *   back.c    calls of the server, and our replies
 *
 * Threads: rr_conn belongs to the lane, and so does a link from rr_up() on. Before that a
 * link belongs to the thread in rr_link_open(). That thread reads only what never changes
 * in rr_conn after rr_conn_new(): cfg, st and mag->arena; and cfg.windows and told, which are
 * atomic.
 */
#pragma once

#include "rpcrdma/conn.h"
#include "rpcrdma/memreg.h"
#include "rpcrdma/pdata.h"

#define RR_HASH 256u            /* power of two; twice the largest credit limit */

struct rr_link {
	struct rr_conn *conn;
	unsigned path;
	bool metadata;                  /* see struct rr_way */
	void *owner;
	struct rr_path_stats *ps;
	const struct fabric *fabric;
	struct fab_conn *fab;
	struct fab_mr local, data;      /* the arena's two ranges */
	const struct fab_mr *extents;   /* the same of its extents; NULL: the fabric needs none */
	const struct rr_memreg *memreg;
	bool remote_inval;              /* R of RFC 8797, as we said it */
	bool peer_inval;                /* ... and as the server did */
	bool silent;                    /* a reply is all that says that a Send has left */
	struct arena_range recvs;       /* its receives, one behind the other ... */
	struct fab_mr recv_mr;          /* ... as registered */
	uint32_t send_limit;            /* inline thresholds as agreed (RFC 8797) */
	uint32_t recv_limit;
	char text[256];

	/* In use: */
	struct list node;               /* in conn->links */
	struct rr_back {                /* replies to the server that wait for room (back.c) */
		void *mem;
		uint32_t len;
	} unsent[RR_BACK_MAX];
	unsigned nunsent;
	unsigned nback;                 /* those and the ones that have not left yet */
	unsigned grant;                 /* calls that may be in flight now, ... */
	unsigned room;                  /* ... without the one that is kept for rr_submit_on() */
	struct list inflight;           /* in order of sending */
	unsigned ninflight;
	bool trial, draining;
	uint64_t heard_ns, answered_ns, measured_ns;    /* see struct rr_link_now */
	uint64_t latency_ns;            /* moving average over short calls; 0: none yet */
	bool mapped;                    /* a call with a segment was sent */
	bool windows_work;              /* the peer has used one of this link */
	struct loop_timer reset_timer;  /* for a reset that was asked for inside a callback */
	int reset_err;                  /* != 0: the link will be given up */
	const char *reset_why;
};

struct rr_conn {
	struct rr_config cfg;
	struct loop *loop;
	struct magazine *mag;
	struct stats *st;
	const struct rr_events *ev;
	void *ctx;

	_Atomic bool told;              /* which strategy it is, if it is not the one wanted */
	unsigned windows_lost[RR_PATHS_MAX];    /* connections lost before a window worked there */
	bool no_room;                   /* a registration had to wait, which was said */
	struct arena_buf *spare;        /* a MID for a chunk if no buffer is free; NULL: in use */
	void *copy;                     /* RR_REPLY_MAX bytes: what the peer has written, and
					 * is parsed, is copied here first, because the peer may
					 * still write to the chunk */

	struct list links;              /* attached; on trial and draining ones, too */
	struct rr_set {                 /* those that take calls without file data [0], with it [1] */
		struct rr_link *link[RR_LINKS_MAX];
		unsigned n;
		unsigned turn;          /* round-robin: who is next */
	} sets[2];
	struct rr_link *(*choose)(struct rr_set *s);    /* the policy: one of several, or NULL */
	struct rr_link *answering;      /* while done() runs: where the reply came from; or NULL */
	uint32_t next_xid;
	uint32_t xid_mask, xid_lane;    /* of an XID: the bits that count, and the others */
	struct list waiting;            /* in order of submission; replays first */
	unsigned losing;                /* a link is being given up: nothing is sent */
	unsigned nwaiting[2];           /* of these, by rr_is_bulk() */
	struct hash_node *calls[RR_HASH];       /* in flight, by XID */
};

/* choose.c */

/* (rr_set_policy() is here, too.) Which links take calls has changed. */
void rr_sort_links(struct rr_conn *c);
/* The peer grants so many credits. */
void rr_set_grant(struct rr_link *link, unsigned grant);
/* Has one? */
bool rr_has_room(const struct rr_conn *c, const struct rr_call *call);
/* Has the call file data, which travels in chunks? */
static inline bool rr_is_bulk(const struct rr_call *call)
{
	return call->sink[0].mem || (call->nsend && !call->send_copied);
}

/* The link for that call; NULL: none has room. */
static inline struct rr_link *rr_choose(struct rr_conn *c, const struct rr_call *call)
{
	struct rr_set *s = &c->sets[rr_is_bulk(call)];

	if (s->n != 1)
		return c->choose(s);
	return s->link[0]->ninflight < s->link[0]->room ? s->link[0] : NULL;
}

/* conn.c */

/* The call with that XID that is in flight on that link; NULL: there is none. */
struct rr_call *rr_find(const struct rr_link *link, uint32_t xid);
/* The reply is here, the Send has completed, or nobody reaches the call's buffers any
 * more. The call is finished when all three are true. */
void rr_progress(struct rr_call *call);
/* The call is not in flight any more. */
void rr_untrack(struct rr_call *call);
/* The reply is here, or can no longer come. Buffers are put back before the owner is
 * told, because it may be waiting for one. */
void rr_end_call(struct rr_conn *c, struct rr_call *call);
/* Sends what waits, as far as links have room. */
void rr_pump(struct rr_conn *c);
enum { RR_NO_BUFFER = 1 };

/* lost.c */

/* (rr_link_reset(), rr_reset_link_of(), rr_reset_answering() and rr_expire() are here, too.)
 * fab_events.down */
void rr_on_down(void *ctx, int err, const char *why);
/* The time for rr_link_reset() has come. */
void rr_on_reset(struct loop_timer *t);
/* Is the link still there? The call's owner may have ended it in done(). */
bool rr_in_use(const struct rr_conn *c, const struct rr_link *link);

/* send.c: builds the transport header in front of the message and posts both. Returns 0;
 * RR_NO_BUFFER: not now; -EMSGSIZE, -EFAULT, -EINVAL: this call can never be sent. Then
 * nothing is kept. Another error: the link failed, and the call keeps what it has on it
 * until the link is closed, because part of it may have been posted. */
int rr_send(struct rr_link *link, struct rr_call *call);
/* Takes data that was copied into the message out of it again. It is still where call->send
 * says. */
void rr_withdraw_data(struct rr_call *call);
/* Is that result the call's own fault? */
bool rr_unsendable(int rc);
/* Gives the chunk buffer of a sending back. No peer may be able to reach it any more. */
void rr_put_chunk(struct rr_conn *c, struct rr_call *call);

/* link.c: after rr_link_shut() no peer reaches a buffer through the link. rr_link_free()
 * then gives back what the link had. (rr_link_drop() does both.) */
void rr_link_shut(struct rr_link *link);
void rr_link_free(struct rr_link *link);

/* reply.c */
void rr_on_recv(void *ctx, void *cookie, uint32_t len, bool invalidated, uint32_t rkey);
/* The call's windows are unbound. */
void rr_unmapped(void *ctx, void *cookie);
/* Posts a receive, for the first time or again: RR_INLINE bytes of link->recvs. 0 or -errno. */
int rr_post_recv(struct rr_link *link, void *mem);
/* The same for one that was used. If it fails, the link is given up. */
void rr_repost(struct rr_link *link, void *mem);

/* back.c */
/* The server calls, in a receive of this link; msg: behind the header. */
void rr_back_call(struct rr_link *link, struct rr_header *h, void *recv, const uint8_t *msg,
		  uint32_t len);
/* A Send has left, so there is room. true: it was a reply to the server. */
bool rr_back_sent(struct rr_link *link, void *cookie);
