/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Soft mounts: a call older than timeo * (retrans + 1) fails with EIO as soon as no live connection
 * holds its buffers. The lane looks once a second, and when it has lost a connection.
 */
#include <errno.h>
#include "nfs/internal.h"

#define NS_PER_MS 1000000ull

static uint64_t expire_limit_ns(const struct nfs_config *cfg)
{
	return (uint64_t)cfg->timeo_ms * (cfg->retrans + 1) * NS_PER_MS;
}

/* Calls of a soft mount whose time is up. One that is in flight takes its connection with
 * it, because the server may still reach its buffers; then its turn comes here again, at
 * once. False: there is none that can end now. */
static bool expire_one(struct nfs_lane *l, uint64_t before_ns)
{
	list_for_each_entry(struct nfs_call, c, &l->running, eng.run_node) {
		if (c->eng.start_ns > before_ns || (c->flags & NFS_CALL_CONTROL))
			continue;
		/* The server has answered, and the wait for an owner's name is bounded. */
		if (c->eng.owners.waits)
			continue;
		if (c->eng.rr.state == RR_CALL_INFLIGHT) {
			rr_reset_link_of(&c->eng.rr, -ETIMEDOUT, "a call has timed out (soft)");
			continue;
		}
		/* The call is not in flight. It waits for a link, for room, for its
		 * timer, or for recovery, which the server may have left half-done. */
		if (c->eng.rr.state == RR_CALL_WAITING)
			rr_cancel(c->target->conn, &c->eng.rr, -ETIMEDOUT);
		else if (!nfs_give_up(c, -EIO))
			continue;
		return true;    /* and the list has changed */
	}
	return false;
}

void nfs_expire(struct nfs_lane *l)
{
	uint64_t now = loop_now(l->loop), limit = expire_limit_ns(&l->client->cfg);
	unsigned most = 0;

	if (!l->client->cfg.soft || now < limit)
		return;
	/* One that has to undo what it did goes on as another call. */
	list_for_each(n, &l->running)
		most++;
	while (most-- && expire_one(l, now - limit))
		;
}
