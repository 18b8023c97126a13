/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work requests: translates the fabric's into the device's. Each is handed to the device at
 * once. Its completion brings the cookie back (verbs.c). Sends, Writes and Reads share one
 * send queue, and the device starts them in the order of posting. The device frees an entry
 * when a signalled work request behind it has completed, so we count:
 *
 *     done <= ... <= sq_done <= ... silent, silent, SIGNALLED, silent, ... <= sq_posted
 *                               |<---------------- sq_size at most ---------------->|
 *
 * Bindings of memory windows wait for the next of these, and go in front of it
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

/* The caller has filled in the rest of wr. */
static int verbs_post(struct fab_conn *c, struct ibv_send_wr *wr, const struct fab_sge *sge,
		      unsigned n, void *cookie)
{
	struct ibv_sge s[FAB_SGE_MAX];
	struct ibv_send_wr *bad;
	bool signalled;
	uint32_t nwr;
	int err;

	if (c->down)
		return -ENOTCONN;
	if (n > FAB_SGE_MAX)
		return -EINVAL;
	nwr = verbs_nqueued(c) + 1;
	if (!has_room(c, nwr)) {
		c->sq_waits = true;
		return -EAGAIN;
	}
	for (unsigned i = 0; i < n; i++)
		s[i] = to_ibv(&sge[i]);
	/* Now and then one without a cookie is signalled as well, because only that
	 * says that those before it are done. */
	signalled = cookie || c->silent + nwr > c->params.max_send / 2;
	wr->wr_id = (uintptr_t)cookie;
	wr->sg_list = s;
	wr->num_sge = (int)n;
	wr->send_flags = signalled ? IBV_SEND_SIGNALED : 0;
	err = ibv_post_send(c->id->qp, verbs_with_bindings(c, wr), &bad);
	if (err) {
		verbs_bindings_kept(c);
		/* -EAGAIN would say that nothing has happened. */
		err = verbs_minus(err);
		return err == -EAGAIN ? -EIO : err;
	}
	verbs_bindings_posted(c, wr);
	verbs_sq_posted(c, nwr, signalled);
	return 0;
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
