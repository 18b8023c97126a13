/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What conn.c, link.c and send.c share. Not for other modules.
 *
 * Threads: rr_conn is the lane's. A control thread only runs rr_link_open(),
 * while c->link is NULL, and reads nothing of rr_conn but what never changes
 * after rr_conn_new(): cfg, slab, recvs.
 */
#ifndef RPCRDMA_IMPL_H
#define RPCRDMA_IMPL_H

#include "rpcrdma/conn.h"
#include "rpcrdma/memreg.h"
#include "rpcrdma/pdata.h"

#define RR_HASH 256u            /* power of two; twice the largest credit limit */

struct rr_link {
	const struct fabric *fabric;
	struct fab_conn *fab;
	struct fab_mr local, data;      /* the slab's two ranges */
	const struct rr_memreg *memreg;
	uint32_t send_limit;            /* inline thresholds as agreed (RFC 8797) */
	uint32_t recv_limit;
	char text[256];
};

struct rr_conn {
	struct rr_config cfg;
	struct loop *loop;
	struct slab *slab;
	struct stats *st;
	const struct rr_events *ev;
	void *ctx;

	struct slab_buf **recvs;        /* every RECV buffer of the slab */
	unsigned nrecvs;
	struct slab_buf *spare;         /* for a chunk when the slab has none; or in use: NULL */
	void *copy;                     /* RR_REPLY_MAX: where a Reply chunk is looked at,
					 * as the peer may still write to the chunk */

	struct rr_link *link;           /* NULL: not connected */
	struct loop_timer reset_timer;  /* a reset asked for from inside a callback */
	int reset_err;                  /* != 0: the link is to be given up */
	const char *reset_why;

	uint32_t next_xid;
	unsigned grant;                 /* calls that may be in flight now */

	struct list waiting;            /* in order of submission; replays first */
	struct list inflight;           /* in order of sending */
	unsigned nwaiting, ninflight;
	struct rr_call *hash[RR_HASH];  /* in flight, by XID */
};

enum { RR_NO_BUFFER = 1 };

/* send.c: builds the transport header in front of the message and posts it.
 * 0; RR_NO_BUFFER: not now; -EMSGSIZE, -EFAULT, -EINVAL: this call can never be
 * sent; else the link failed. Nothing is kept unless it is 0. */
int rr_send(struct rr_conn *c, struct rr_call *call);
/* Gives the sending's chunk back: no peer can reach it any more. */
void rr_put_chunk(struct rr_conn *c, struct rr_call *call);

/* link.c */
void rr_link_close(struct rr_link *link);

#endif
