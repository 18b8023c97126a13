/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Private to the verbs provider, which lies in three files:
 *
 *   verbs_cm.c     setting up: address, route, connection request, answer; and
 *                  what the connection manager reports later
 *   verbs.c        the queues: memory, work requests, completions, the end
 *   verbs_async.c  events of the device, which all its connections share
 */
#ifndef FABRIC_VERBS_H
#define FABRIC_VERBS_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include "base/list.h"
#include "fabric/fabric.h"

struct fab_conn {
	struct fab_params params;
	char server[96];                /* the address in words */
	char text[128];                 /* for describe() */

	/* Connection manager. A channel of its own, so that no lane reads
	 * another one's events. */
	struct rdma_event_channel *chan;
	struct rdma_cm_id *id;          /* id->qp: the queue pair */
	bool connected;

	/* Queues */
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	unsigned cq_events;             /* taken and not yet acknowledged */
	bool armed;                     /* the next completion makes an event, or
					 * there is one to be taken */
	bool polled;                    /* poll() has been called: it will be again */
	uint32_t max_msg;
	struct list mrs;                /* struct verbs_mr: what is registered */

	/* Lane; nothing of it before attach */
	struct loop *loop;
	const struct fab_events *ev;
	void *ctx;
	struct loop_watch cm_watch, comp_watch, async_watch;
	struct loop_watch kick_watch;   /* an eventfd, written by verbs_kick() */
	struct list node;               /* in verbs_async.c's list */
	_Atomic int device_event;       /* enum ibv_event_type + 1; 0: none */

	/*
	 * `down` and `recv` may close the connection while one of our functions
	 * is still at work on it. close() then undoes everything but the struct
	 * itself; whoever entered first frees it: verbs_enter(), verbs_leave().
	 */
	unsigned depth;
	bool down, closed;
};

static inline void verbs_enter(struct fab_conn *c)
{
	c->depth++;
}

/* False when c has been freed. */
bool verbs_leave(struct fab_conn *c);

/* No more callbacks after this one, which tells the owner. Only the first call
 * does anything. c may be closed afterwards. */
void verbs_down(struct fab_conn *c, int err, const char *why);

/* ---- verbs_cm.c ---- */

/* A device, an address and a route, or -errno. */
int verbs_cm_open(struct fab_conn *c, struct errbuf *eb);
int verbs_cm_connect(struct fab_conn *c, const void *priv, size_t privlen,
		     void *peer_priv, size_t *peer_len, struct errbuf *eb);
void verbs_cm_close(struct fab_conn *c);
/* Takes what the connection manager has to say; may report `down`. */
void verbs_cm_events(struct fab_conn *c);
int verbs_probe(const struct fab_params *p, struct errbuf *eb);

/* ---- verbs_async.c ---- */

/* From here to verbs_async_leave() events of c's device reach c. */
int verbs_async_join(struct fab_conn *c);
void verbs_async_leave(struct fab_conn *c);
/* Makes kick_watch call; any thread that keeps c from being closed. */
void verbs_kick(struct fab_conn *c);

/* ---- shared ---- */

int verbs_nonblock(int fd);

#endif
