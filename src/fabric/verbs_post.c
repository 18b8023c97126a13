/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work requests: translates the fabric's into the device's. Each is handed to the device at
 * once, so nothing is kept here. Its completion brings the cookie back (verbs.c). Sends,
 * Writes and Reads share one send queue of max_send entries, and the device starts them in
 * the order of posting. Reads beyond the agreed number wait in that queue, and later
 * requests wait behind them.
 */
#include "fabric/verbs.h"

#include <errno.h>

static struct ibv_sge to_ibv(const struct fab_sge *s)
{
	return (struct ibv_sge){ .addr = (uintptr_t)s->mem, .length = s->len, .lkey = s->lkey };
}

/* The libraries return an errno, as they should, or its negative (libsiw). */
static int minus(int err)
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
	return minus(ibv_post_recv(c->id->qp, &wr, &bad));
}

/* The caller has filled in the rest of wr. */
static int post(struct fab_conn *c, struct ibv_send_wr *wr, const struct fab_sge *sge,
		unsigned n, void *cookie)
{
	struct ibv_sge s[FAB_SGE_MAX];
	struct ibv_send_wr *bad;

	if (c->down)
		return -ENOTCONN;
	if (n > FAB_SGE_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < n; i++)
		s[i] = to_ibv(&sge[i]);
	wr->wr_id = (uintptr_t)cookie;
	wr->sg_list = s;
	wr->num_sge = (int)n;
	wr->send_flags = IBV_SEND_SIGNALED;
	return minus(ibv_post_send(c->id->qp, wr, &bad));
}

int verbs_post_send(struct fab_conn *c, const struct fab_sge *sge, unsigned n, void *cookie)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	return post(c, &wr, sge, n, cookie);
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
	return post(c, &wr, sge, n, cookie);
}

int verbs_post_write(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
		     uint32_t rkey, uint64_t addr, void *cookie)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};

	return post(c, &wr, sge, n, cookie);
}

int verbs_post_read(struct fab_conn *c, const struct fab_sge *sge, uint32_t rkey,
		    uint64_t addr, void *cookie)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ, .wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};

	if (!c->ord)
		return -EOPNOTSUPP;
	return post(c, &wr, sge, 1, cookie);
}
