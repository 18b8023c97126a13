/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work requests: translates the fabric's into the device's. What a lane posts in one round of its loop
 * is a chain that the device gets by one call, and so by one doorbell: by a timer that is due at once, when
 * the chain is long enough, and before anything else is posted. Until then the pieces are in no
 * queue, but that looks as if the device was slow. If it refuses the chain, the connection is over. What waits
 * when the connection is closed is not posted any more: its pieces may have another use by then.
 *
 *     post_send --> batch[0] -> batch[1] -> ... --flush--> ibv_post_send()
 *
 * A completion brings the cookie back (verbs.c). Sends, Writes and Reads share one
 * send queue, and the device starts them in the order of posting. The device frees an entry
 * when a signalled work request behind it has completed, so we count:
 *
 *     done <= ... <= sq_done <= ... silent, silent, SIGNALLED, silent, ... <= sq_posted
 *                               |<---------------- sq_size at most ---------------->|
 *
 * Bindings of memory windows wait for the next of these, and go in front of it in the chain
 * (verbs_window.c). RDMA Reads beyond the agreed number wait in the send queue, and later
 * requests wait behind them.
 */
#include "fabric/verbs.h"

#include <errno.h>
#include <stdlib.h>

static struct ibv_sge to_ibv(const struct fab_sge *s)
{
	return (struct ibv_sge){ .addr = (uintptr_t)s->mem, .length = s->len, .lkey = s->lkey };
}

int verbs_minus(int err)
{
	return err > 0 ? -err : err;
}

int verbs_post_recv(struct fab_conn *c, const struct fab_sge *sge, void *cookie)
{
	struct ibv_sge s = to_ibv(sge);
	struct ibv_recv_wr *bad, wr = {
		.wr_id = (uintptr_t)cookie, .sg_list = &s, .num_sge = 1,
	};

	if (c->down)
		return -ENOTCONN;
	return verbs_minus(ibv_post_recv(c->id->qp, &wr, &bad));
}

/* ---- the account of the send queue ---- */

int verbs_sq_init(struct fab_conn *c, uint32_t size)
{
	c->sq_size = size;
	c->signalled = calloc(size, sizeof(*c->signalled));
	return c->signalled ? 0 : -ENOMEM;
}

void verbs_sq_posted(struct fab_conn *c, uint32_t n, bool signalled)
{
	c->sq_posted += n;
	c->silent = signalled ? 0 : c->silent + n;
	if (signalled)
		c->signalled[(c->first_signalled + c->nsignalled++) % c->sq_size] = c->sq_posted;
}

void verbs_sq_done(struct fab_conn *c)
{
	if (c->nsignalled) {
		c->sq_done = c->signalled[c->first_signalled];
		c->first_signalled = (c->first_signalled + 1) % c->sq_size;
		c->nsignalled--;
	}
	if (!c->sq_waits)
		return;
	c->sq_waits = false;
	c->ev->sent(c->ctx, NULL);
}

/* Is there room for n more, and for the end of each window's binding? */
static bool has_room(const struct fab_conn *c, uint32_t n)
{
	return c->sq_posted - c->sq_done + n + c->nwindows <= c->sq_size;
}

/* ---- posting ---- */

void verbs_chain_init(struct fab_conn *c)
{
	c->nbatch = 0;
	c->chain = NULL;
	c->chain_end = &c->chain;
}

int verbs_flush(struct fab_conn *c)
{
	struct ibv_send_wr *first = c->chain, *bad;
	int err;

	if (!first)
		return 0;
	err = c->down ? -ENOTCONN : verbs_minus(ibv_post_send(c->id->qp, first, &bad));
	verbs_bindings_posted(first);
	verbs_chain_init(c);
	/* These would say that there is no room yet, or that only the newest message cannot be sent. */
	return err == -EAGAIN || err == -EINVAL || err == -EMSGSIZE || err == -EFAULT ? -EIO : err;
}

void verbs_on_flush(struct loop_timer *t)
{
	struct fab_conn *c = container_of(t, struct fab_conn, flush);
	int err;

	verbs_enter(c);
	err = verbs_flush(c);
	if (err)
		verbs_down(c, err, "the RDMA device has refused a message");
	verbs_leave(c);
}

/* Before attach there is no loop, and nothing to be gained by waiting. */
static int flush_later(struct fab_conn *c)
{
	if (!c->loop || c->nbatch == VERBS_BATCH)
		return verbs_flush(c);
	if (c->nbatch == 1)
		loop_timer_set(c->loop, &c->flush, 0);
	return 0;
}

/* The caller has filled in the rest of wr. */
static int verbs_post(struct fab_conn *c, const struct ibv_send_wr *wr, const struct fab_sge *sge,
		      unsigned n, void *cookie)
{
	struct verbs_wr *w = &c->batch[c->nbatch];
	bool signalled;
	uint32_t nwr;

	if (c->down)
		return -ENOTCONN;
	if (n > FAB_SGE_MAX)
		return -EINVAL;
	nwr = verbs_nqueued(c) + 1;
	if (!has_room(c, nwr)) {
		c->sq_waits = true;
		return -EAGAIN;
	}
	w->wr = *wr;
	for (unsigned i = 0; i < n; i++)
		w->sge[i] = to_ibv(&sge[i]);
	/* Now and then one without a cookie is signalled as well, because only that
	 * says that those before it are done. */
	signalled = cookie || c->silent + nwr > c->params.max_send / 2;
	w->wr.wr_id = (uintptr_t)cookie;
	w->wr.sg_list = w->sge;
	w->wr.num_sge = (int)n;
	w->wr.send_flags = signalled ? IBV_SEND_SIGNALED : 0;
	*c->chain_end = verbs_with_bindings(c, &w->wr);
	c->chain_end = &w->wr.next;
	c->nbatch++;
	verbs_sq_posted(c, nwr, signalled);
	return flush_later(c);
}

int verbs_post_send(struct fab_conn *c, const struct fab_sge *sge, unsigned n, void *cookie)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	return verbs_post(c, &wr, sge, n, cookie);
}

/* libsiw (44 at least) reads the key from RDMA Write's field. No other library looks
 * there. */
int verbs_post_send_inv(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
			uint32_t rkey, void *cookie)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = rkey, .wr.rdma.rkey = rkey,
	};

	if (!c->can_inval)
		return -EOPNOTSUPP;
	return verbs_post(c, &wr, sge, n, cookie);
}

int verbs_post_write(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
		     uint32_t rkey, uint64_t addr, void *cookie)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};

	return verbs_post(c, &wr, sge, n, cookie);
}

int verbs_post_read(struct fab_conn *c, const struct fab_sge *sge, uint32_t rkey,
		    uint64_t addr, void *cookie)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ, .wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};

	if (!c->ord)
		return -EOPNOTSUPP;
	return verbs_post(c, &wr, sge, 1, cookie);
}
