/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Private to the verbs provider, which has eight files:
 *
 *   verbs_cm.c      the active side's set-up: address, route, request, answer;
 *                   and what the connection manager reports later to either side
 *   verbs_listen.c  the passive side's set-up: listening, requests, answers
 *   verbs.c         the queues: completions, the end
 *   verbs_teardown.c    what takes long at the end
 *   verbs_domain.c  protection domains and memory
 *   verbs_window.c  memory windows
 *   verbs_post.c    the other work requests
 *   verbs_async.c   events of the device, which all its connections share
 */
#pragma once

#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include "base/list.h"
#include "fabric/fabric.h"

/* So many work requests wait for one doorbell at the most. */
#define VERBS_BATCH 16u

struct verbs_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[FAB_SGE_MAX];
};

struct fab_conn {
	struct fab_params params;
	char peer[96];                  /* the other side's address as text */
	char text[256];                 /* for describe() */
	bool passive;                   /* it came from a listener */
	bool answered;                  /* passive: accepted or rejected */

	/* Connection manager. Each connection has a channel of its own, so that no lane
	 * reads another one's events. */
	struct rdma_event_channel *chan;
	struct rdma_cm_id *id;          /* id->qp: the queue pair */
	bool connected;
	bool established;               /* the other side knows that it is connected */

	/* Queues */
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	unsigned cq_events;             /* taken and not yet acknowledged */
	bool armed;                     /* a completion makes an event, or one is there */
	/* The send queue: entries in all, work requests posted and known to be done since
	 * the connection began. Of each signalled one that is under way: its number. */
	uint32_t sq_size, sq_posted, sq_done;
	uint32_t *signalled;            /* a ring of sq_size */
	uint32_t first_signalled, nsignalled;
	unsigned silent;                /* posted after the last signalled one */
	bool sq_waits;                  /* post_send said -EAGAIN */
	/* RDMA Reads outstanding at once, the peer's (ird) and ours (ord): what the
	 * device can do, and what was agreed (0 before connect or accept). */
	unsigned max_ird, max_ord, ird, ord;
	bool can_inval;                 /* the device has Send With Invalidate */
	unsigned inv_flags;             /* of a completion: it was one */

	/* Memory */
	struct fab_domain alone;        /* used if the owner has no domain */
	struct verbs_domain *domain;    /* this device's part of the domain */
	struct list mrs;                /* registrations of this connection only */
	struct verbs_window *windows;   /* all of them; NULL: none */
	unsigned nwindows;
	struct list free_windows;
	struct list ending;             /* invalidated by us, in order of posting */
	struct ibv_send_wr *queued, **queued_end;       /* bindings for the next post_send */

	/* What is to be posted together. */
	struct verbs_wr batch[VERBS_BATCH];
	unsigned nbatch;
	struct ibv_send_wr *chain, **chain_end;         /* these, and bindings between them */
	struct loop_timer flush;

	/* For the lane; unused before attach. */
	struct loop *loop;
	const struct fab_events *ev;
	void *ctx;
	struct loop_watch cm_watch, comp_watch, async_watch;
	struct loop_watch kick_watch;   /* an eventfd, written by verbs_kick() */
	struct list node;               /* in the list of verbs_async.c */
	_Atomic int device_event;       /* enum ibv_event_type + 1; 0: none */

	/*
	 * `down` and `recv` may close the connection while one of our functions is still at
	 * work on it. close() then undoes everything but the struct itself. The outermost
	 * function frees that: verbs_enter(), verbs_leave().
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

/* Tells the owner that the connection is over, after which no callback follows. Only the
 * first call does anything. c may be closed afterwards. */
void verbs_down(struct fab_conn *c, int err, const char *why);

/* ---- verbs.c ---- */

/* Entries of the send queue. The active side's Sends are silent: half as many again need not
 * be waited for. A window takes two, for its binding and for the end of that. */
static inline unsigned verbs_sq_entries(const struct fab_params *p, bool passive, unsigned windows)
{
	return p->max_send + (passive ? 0 : p->max_send / 2) + 2 * windows;
}

/* An empty connection. NULL: no memory. */
struct fab_conn *verbs_new(const struct fab_params *p);
/* Makes protection domain, completion queue and queue pair on c->id's device. 0 or
 * -errno; call verbs_close() then. */
int verbs_queues(struct fab_conn *c, struct errbuf *eb);
/* Of fabric.h. */
void verbs_close(struct fab_conn *c);

/* ---- verbs_teardown.c ---- */

/* What is left of a connection whose peer has no rights any more. */
struct verbs_remains {
	struct rdma_cm_id *id;
	struct rdma_event_channel *chan;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	unsigned cq_events;
	struct fab_domain *in;
	struct verbs_domain *domain;
};
/* Any member but `in` may be NULL. here: when it returns all of it is gone; otherwise it does not
 * wait. */
void verbs_teardown(struct verbs_remains *r, bool here);

/* ---- verbs_domain.c ---- */

/* Returns the protection domain for c on c->id's device; NULL and errno if there is
 * none. Leave it when the queue pair is gone. It ends with its last connection. */
struct ibv_pd *verbs_domain_enter(struct fab_conn *c);
/* vd may be NULL. */
void verbs_domain_leave(struct fab_domain *d, struct verbs_domain *vd);
/* What only this connection has registered. */
void verbs_mrs_free(struct fab_conn *c);
/* Of fabric.h. */
int verbs_reg(struct fab_conn *c, void *mem, size_t len, unsigned access,
	      struct fab_mr *out, struct errbuf *eb);
int verbs_reg_shared(struct fab_conn *c, void *mem, size_t len, unsigned access,
		     struct fab_mr *out, struct errbuf *eb);
int verbs_reg_pieces(struct fab_conn *c, unsigned access, const struct fab_mr **out,
		     struct errbuf *eb);
int verbs_reg_part(struct fab_conn *c, const struct fab_mr *in, void *mem, size_t len, unsigned access,
		   struct fab_mr *out, struct errbuf *eb);
void verbs_dereg(struct fab_conn *c, struct fab_mr *mr);

/* The registration that reg or reg_shared has described. */
struct ibv_mr *verbs_mr_of(const struct fab_mr *mr);

/* ---- verbs_window.c ---- */

/* How many windows a connection of the active side may have: as many as wanted, or none. */
unsigned verbs_windows_fit(const struct fab_params *p, const struct ibv_device_attr *dev);
void verbs_windows_init(struct fab_conn *c);
/* Makes n windows, or none if the device has no room: c->nwindows says so. */
void verbs_windows_make(struct fab_conn *c, struct ibv_pd *pd, unsigned n);
/* When the queue pair has stopped, before that and what they are bound to go. */
void verbs_windows_free(struct fab_conn *c);
/* How many bindings are queued. */
unsigned verbs_nqueued(const struct fab_conn *c);
/* Puts the queued bindings in front of wr and returns the first of them, or wr. When the chain
 * has been posted, verbs_bindings_posted() follows. */
struct ibv_send_wr *verbs_with_bindings(struct fab_conn *c, struct ibv_send_wr *wr);
/* Also of a chain that the device has refused: part of it may have been posted, and close follows. */
void verbs_bindings_posted(struct ibv_send_wr *first);
/* The invalidation posted with `cookie` has completed. Reports it. */
void verbs_unbound(struct fab_conn *c, void *cookie);
/* Of fabric.h. */
int verbs_bind(struct fab_conn *c, const struct fab_mr *in, void *mem, size_t len,
	       unsigned access, struct fab_mr *out);
int verbs_unbind(struct fab_conn *c, struct fab_mr *mrs, unsigned n,
		 const uint32_t *by_peer, void *cookie);

/* ---- verbs_post.c ---- */

/* The account of the send queue, for a queue with that many entries. 0 or -ENOMEM. */
int verbs_sq_init(struct fab_conn *c, uint32_t size);
/* n work requests have been posted; the last one is signalled or not. */
void verbs_sq_posted(struct fab_conn *c, uint32_t n, bool signalled);
/* The oldest signalled work request has completed, and all before it. If post_send said
 * -EAGAIN, reports that there is room. */
void verbs_sq_done(struct fab_conn *c);

/* Nothing is to be posted. */
void verbs_chain_init(struct fab_conn *c);
/* Posts all that waits for that. 0, or -errno: the connection is to be closed. */
int verbs_flush(struct fab_conn *c);
/* fab_conn.flush.fn */
void verbs_on_flush(struct loop_timer *t);
/* The libraries return an errno, as they should, or its negative (libsiw). -errno. */
int verbs_minus(int err);
/* Of fabric.h. */
int verbs_post_recv(struct fab_conn *c, const struct fab_sge *sge, void *cookie);
int verbs_post_send(struct fab_conn *c, const struct fab_sge *sge, unsigned n, void *cookie);
int verbs_post_send_inv(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
			uint32_t rkey, void *cookie);
int verbs_post_write(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
		     uint32_t rkey, uint64_t addr, void *cookie);
int verbs_post_read(struct fab_conn *c, const struct fab_sge *sge,
		    uint32_t rkey, uint64_t addr, void *cookie);

/* ---- verbs_cm.c ---- */

/* RDMA Reads at once, unless params say otherwise: a power of two, because svcrdma has trouble
 * with other numbers. What a WRITE brings is fetched by these, in small pieces, so
 * they are the window of writes over a long round trip. Devices mostly can do less. */
#define VERBS_READS 128u

/* Makes a channel of the connection manager, non-blocking. 0 or -errno. */
int verbs_cm_channel(struct rdma_event_channel **out, struct errbuf *eb);
const char *verbs_device_name(const struct rdma_cm_id *id);
/* Copies an address as librdmacm gives it. */
void verbs_addr(struct sockaddr_storage *out, const struct sockaddr *sa);

/* Finds device, address and route. 0 or -errno. */
int verbs_cm_open(struct fab_conn *c, struct errbuf *eb);
int verbs_cm_connect(struct fab_conn *c, const void *priv, size_t privlen,
		     void *peer_priv, size_t *peer_len, struct errbuf *eb);
/* Handles the events of the connection manager; may report `down`. */
void verbs_cm_events(struct fab_conn *c);
int verbs_probe(const struct fab_params *p, struct errbuf *eb);

/* ---- verbs_listen.c: of fabric.h ---- */

int verbs_listen(const struct fab_params *p, struct loop *l, const struct fab_listen_events *ev,
		 void *ctx, struct fab_listener **out, struct errbuf *eb);
void verbs_listen_addr(const struct fab_listener *li, struct sockaddr_storage *out);
void verbs_unlisten(struct fab_listener *li);
int verbs_accept(struct fab_conn *c, const void *priv, size_t privlen, struct errbuf *eb);
void verbs_reject(struct fab_conn *c, const void *priv, size_t privlen);

/* ---- verbs_async.c ---- */

/* Between verbs_async_join() and verbs_async_leave(), events of c's device reach c. */
int verbs_async_join(struct fab_conn *c);
void verbs_async_leave(struct fab_conn *c);
/* Makes kick_watch fire. Any thread that keeps c from being closed. */
void verbs_kick(struct fab_conn *c);

/* ---- shared ---- */

int verbs_nonblock(int fd);
