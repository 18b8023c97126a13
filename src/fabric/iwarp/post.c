/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is to be sent: the rings of messages. The owner's posts and the peer's Read Requests
 * fill them, and tx.c empties them. Nothing is sent from here. It is sent when the current
 * event has been handled, or by a timer in the loop's next round.
 */
#include "fabric/iwarp/iwarp.h"

#include <errno.h>
#include <stdlib.h>

static int ring_init(struct iw_ring *r, unsigned limit)
{
	unsigned n = 1;

	while (n < limit)
		n *= 2;
	r->v = calloc(n, sizeof(*r->v));
	if (!r->v)
		return -ENOMEM;
	r->mask = n - 1;
	r->limit = limit;
	return 0;
}

int iw_tx_init(struct fab_conn *c)
{
	unsigned n = c->params.max_send ? c->params.max_send : 1;
	int err = ring_init(&c->tx.ops, n);

	return err ? err : ring_init(&c->tx.reads, n);
}

int iw_tx_agreed(struct fab_conn *c)
{
	return ring_init(&c->tx.responses, c->ird);
}

void iw_tx_fini(struct fab_conn *c)
{
	free(c->tx.ops.v);
	free(c->tx.reads.v);
	free(c->tx.responses.v);
	c->tx.ops.v = c->tx.reads.v = c->tx.responses.v = NULL;
}

void iw_tx_kick(struct fab_conn *c)
{
	if (!c->tx.blocked && list_empty(&c->kick.node))
		loop_timer_set(c->loop, &c->kick, 0);
}

/* ---- RDMA Read, both directions ------------------------------------------- */

enum iw_error iw_tx_respond(struct fab_conn *c, const struct ddp_read_req *r)
{
	static const enum iw_error errors[] = {
		[STAG_OK] = IW_OK, [STAG_INVALID] = IW_E_READ_STAG,
		[STAG_BOUNDS] = IW_E_READ_BOUNDS, [STAG_WRAP] = IW_E_READ_WRAP,
		[STAG_DENIED] = IW_E_READ_ACCESS,
	};
	struct iw_ring *ring = &c->tx.responses;
	enum stag_result res = STAG_OK;
	uint8_t *mem;

	if (ring->tail - ring->head >= c->ird)
		return IW_E_IRD;
	if (r->len)
		res = stag_check(&c->stags, r->src_stag, r->src_to, r->len, FAB_REMOTE_READ, &mem);
	if (res)
		return errors[res];
	*ring_at(ring, ring->tail++) = (struct iw_op){
		.kind = IW_RESPONSE, .len = r->len, .stag = r->sink_stag, .to = r->sink_to,
		.own_stag = r->src_stag, .own_to = r->src_to,
	};
	c->tx.waiting++;
	return IW_OK;
}

void iw_tx_read_done(struct fab_conn *c)
{
	struct iw_ring *ring = &c->tx.reads;
	void *cookie = ring_at(ring, ring->head)->cookie;

	ring->head++;
	c->ev->read(c->ctx, cookie);
}

/* ---- Posting -------------------------------------------------------------- */

/* Adds a message, of which the caller says the rest. NULL with *rc set: it cannot be posted. */
static struct iw_op *iw_post(struct fab_conn *c, struct iw_ring *ring, enum iw_op_kind kind,
			     const struct fab_sge *sge, unsigned n, void *cookie, int *rc)
{
	struct iw_op *op = ring_at(ring, ring->tail);
	uint64_t len = 0;

	*rc = c->down || !c->loop ? -ENOTCONN : n > FAB_SGE_MAX ? -EINVAL :
	      ring->tail - ring->head >= ring->limit ? -ENOMEM : 0;
	if (*rc)
		return NULL;
	for (unsigned i = 0; i < n; i++) {
		op->sge[i] = sge[i];
		len += sge[i].len;
	}
	if (len > UINT32_MAX) {
		*rc = -EMSGSIZE;
		return NULL;
	}
	op->kind = kind;
	op->nsge = n;
	op->len = (uint32_t)len;
	op->done = op->msn = 0;
	op->sent = op->inval = op->own = false;
	op->stag = op->own_stag = 0;
	op->to = op->own_to = 0;
	op->cookie = cookie;
	ring->tail++;
	c->tx.waiting++;
	/* Inside an event, the function that called the owner sends afterwards. */
	if (!c->depth)
		iw_tx_kick(c);
	return op;
}

/*
 * Linux siw (up to 6.12 at least) sends its MPA Reply before it hands the socket to the
 * code that reads frames. If the first frame arrives in between, it stays in the socket
 * until another one comes, and a peer that waits for an answer to it waits for ever. So
 * while we have sent something and heard nothing, an empty RDMA Write follows now and then.
 * It touches no memory and needs no STag (RFC 5040 section 5.1), and RFC 6581 uses it for
 * much the same purpose. The timer runs from the first Send on, so that an idle lane
 * sleeps.
 */
#define NUDGE_MS   40u
#define NUDGES_MAX 50u

static void on_nudge(struct loop_timer *t)
{
	struct fab_conn *c = container_of(t, struct fab_conn, nudge);
	struct iw_op *op;
	int rc;

	if (c->rx.heard || c->nudges == NUDGES_MAX)
		return;
	loop_timer_set(c->loop, t, NUDGE_MS);
	/* Only when all Sends have left, so that the Write follows them. */
	if (c->tx.ops.head != c->tx.ops.tail)
		return;
	op = iw_post(c, &c->tx.ops, IW_WRITE, NULL, 0, NULL, &rc);
	if (op) {
		op->own = true;
		c->nudges++;
	}
}

void iw_nudge_init(struct fab_conn *c)
{
	loop_timer_init(&c->nudge, on_nudge);
}

static struct iw_op *post_send(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
			       void *cookie, int *rc)
{
	struct iw_op *op = iw_post(c, &c->tx.ops, IW_SEND, sge, n, cookie, rc);

	if (op && !c->passive && !c->rx.heard && c->nudges < NUDGES_MAX &&
	    list_empty(&c->nudge.node))
		loop_timer_set(c->loop, &c->nudge, NUDGE_MS);
	return op;
}

int iw_post_send(struct fab_conn *c, const struct fab_sge *sge, unsigned n, void *cookie)
{
	int rc;

	post_send(c, sge, n, cookie, &rc);
	return rc;
}

int iw_post_send_inv(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
		     uint32_t rkey, void *cookie)
{
	int rc;
	struct iw_op *op = post_send(c, sge, n, cookie, &rc);

	if (op) {
		op->inval = true;
		op->stag = rkey;
	}
	return rc;
}

int iw_post_write(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
		  uint32_t rkey, uint64_t addr, void *cookie)
{
	int rc;
	struct iw_op *op = iw_post(c, &c->tx.ops, IW_WRITE, sge, n, cookie, &rc);

	if (op) {
		op->stag = rkey;
		op->to = addr;
	}
	return rc;
}

int iw_post_read(struct fab_conn *c, const struct fab_sge *sge, uint32_t rkey,
		 uint64_t addr, void *cookie)
{
	const struct stag_entry *e = stag_find(&c->stags, sge->lkey);
	uint8_t *mem = sge->mem;
	struct iw_op *op;
	int rc;

	if (!c->ord)
		return -EOPNOTSUPP;
	if (!e || mem < e->base || (size_t)(mem - e->base) > e->len ||
	    sge->len > e->len - (size_t)(mem - e->base))
		return -EFAULT;
	op = iw_post(c, &c->tx.reads, IW_READ, sge, 1, cookie, &rc);
	if (op) {
		op->stag = rkey;
		op->to = addr;
		op->own_stag = sge->lkey;
		op->own_to = (uint64_t)(mem - e->base);
	}
	return rc;
}
