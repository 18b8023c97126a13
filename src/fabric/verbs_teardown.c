/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of a connection's objects at the device and in the kernel.
 *
 * To destroy a queue pair may take seconds: soft-RoCE waits for packets that still name it, and
 * with a link that is down those lie in the neighbour's queue. A lane must not wait for that,
 * because it has other connections that work. So verbs_close() ends the peer's rights by itself,
 * and what is left is taken down by a thread:
 *
 *     verbs_close(), the lane         queue pair in the error state; windows freed; memory of
 *        |                            this connection alone not registered any more
 *        v
 *     teardown_main(), its own thread     queue pair, completion queue, identifier destroyed; the
 *                                     domain left, as the last step
 *
 * In the error state a queue pair executes nothing that arrives (InfiniBand, 10.3.1). So the
 * memory that all connections of a device share is out of the peer's reach as well.
 *
 * The thread has nothing of the fab_conn, which is freed at once. Its domain belongs to the
 * owner, who waits for all such threads in fab_domain_fini(). A connection without an owner's
 * domain, and one for which there is no thread, is buried by verbs_close() itself.
 */
#include <stdlib.h>
#include "base/thread.h"
#include "fabric/verbs.h"

static void teardown(struct verbs_remains *r)
{
	if (r->id && r->id->qp)
		rdma_destroy_qp(r->id);
	if (r->cq) {
		/* Without this, destroying the queue waits for ever. */
		ibv_ack_cq_events(r->cq, r->cq_events);
		ibv_destroy_cq(r->cq);
	}
	if (r->comp)
		ibv_destroy_comp_channel(r->comp);
	verbs_domain_leave(r->in, r->domain);
	if (r->id)
		rdma_destroy_id(r->id);
	if (r->chan)
		rdma_destroy_event_channel(r->chan);
}

static void *teardown_main(void *arg)
{
	struct verbs_remains *r = arg;
	struct fab_domain *d = r->in;

	teardown(r);
	free(r);
	/* The last that is known of the domain. */
	fab_domain_done(d);
	return NULL;
}

static bool teardown_later(const struct verbs_remains *r)
{
	struct verbs_remains *own = malloc(sizeof(*own));
	pthread_t tid;
	int err;

	if (!own)
		return false;
	*own = *r;
	fab_domain_wait_for(r->in);
	err = thread_start(&tid, teardown_main, own);
	if (err) {
		fab_domain_done(r->in);
		free(own);
		return false;
	}
	pthread_detach(tid);
	return true;
}

void verbs_teardown(struct verbs_remains *r, bool here)
{
	if (here || !teardown_later(r))
		teardown(r);
}
