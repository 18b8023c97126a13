/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See rider.h. */
#include <string.h>
#include "nfs/rider.h"

static const struct nfs_opdef *def_of(const struct nfs_call *c)
{
	return c->target->server->version->ops[c->op];
}

static void on_timer(struct loop_timer *t)
{
	struct nfs_lane *l = container_of(t, struct nfs_lane, riders_timer);

	riders_go(l);
	nfs_lane_pump(l);
}

void riders_init(struct nfs_lane *l)
{
	list_init(&l->riders);
	loop_timer_init(&l->riders_timer, on_timer);
}

bool rider_waits(struct nfs_lane *l, struct nfs_call *c)
{
	const struct nfs_opdef *def = def_of(c);

	if ((c->flags & NFS_CALL_NOW) || !def || !def->rides || !def->rides(c))
		return false;
	if (list_empty(&l->riders))
		loop_timer_set(l->loop, &l->riders_timer, RIDER_MS);
	list_add_tail(&l->riders, &c->eng.node);
	return true;
}

void riders_go(struct nfs_lane *l)
{
	if (list_empty(&l->riders))
		return;
	loop_timer_clear(&l->riders_timer);
	list_splice_tail(&l->waiting, &l->riders);
}

/* The server sees the carrier's user behind both. */
static bool same_user(const struct rpc_cred *a, const struct rpc_cred *b)
{
	return a && b && a->uid == b->uid && a->gid == b->gid && a->ngids == b->ngids &&
	       memcmp(a->gids, b->gids, a->ngids * sizeof(a->gids[0])) == 0;
}

void rider_take(struct nfs_lane *l, struct nfs_call *c)
{
	const struct nfs_opdef *def = def_of(c);

	if (list_empty(&l->riders) || c->eng.step || c->eng.alone || !def->carries || !def->carries(c))
		return;
	list_for_each(n, &l->riders) {
		struct nfs_call *r = container_of(n, struct nfs_call, eng.node);

		if (r->target != c->target || !same_user(r->cred, c->cred))
			continue;
		list_del(&r->eng.node);
		r->eng.aboard = true;
		c->eng.rider = r;
		c->eng.rider_closed = false;
		break;
	}
	if (list_empty(&l->riders))
		loop_timer_clear(&l->riders_timer);
}

struct nfs_call *rider_leave(struct nfs_call *c, bool *closed)
{
	struct nfs_call *r = c->eng.rider;

	c->eng.rider = NULL;
	*closed = c->eng.rider_closed;
	if (r)
		r->eng.aboard = false;
	return r;
}
