/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which link takes the next call.
 *
 *     links:  path 0: L0 (data)  M0 (metadata)      path 1: L1 (data)  M1 (on trial)
 *
 *     sets[1], calls with file data:     L0 L1
 *     sets[0], all others:               M0          (L0 L1, if no metadata link is left)
 *
 * The sets are made when a link comes, goes, or changes, so that a call costs a look at the
 * links that may take it and nothing else. With one link there is nothing to choose.
 *
 * The latency that RR_MIN_LATENCY compares is that of short calls: a megabyte takes its time
 * on the best path. A path that is not chosen gets no calls to measure. Its heartbeats are
 * measured instead, so it is found out when a slow path has become fast. A link that was never
 * measured is tried at once.
 */
#include <limits.h>
#include <string.h>
#include "rpcrdma/impl.h"

/* A credit of each link is kept for calls that name their link, so that a heartbeat can be
 * sent on a link whose other calls get no answer. Of very few credits none can be spared. */
#define RESERVE_FROM 4u

void rr_set_grant(struct rr_link *link, unsigned grant)
{
	link->grant = grant;
	link->room = grant - (grant >= RESERVE_FROM && link->conn->cfg.reserve);
}

static void choose_add(struct rr_set *s, struct rr_link *link)
{
	if (s->n < RR_LINKS_MAX)
		s->link[s->n++] = link;
}

/* The other kind has no link of its own. */
static void take_links_of(struct rr_set *s, const struct rr_set *other)
{
	memcpy(s->link, other->link, sizeof(s->link));
	s->n = other->n;
}

void rr_sort_links(struct rr_conn *c)
{
	struct rr_set *meta = &c->sets[0], *bulk = &c->sets[1];

	meta->n = bulk->n = 0;
	list_for_each_entry(struct rr_link, link, &c->links, node)
		if (!link->trial && !link->draining && !link->reset_err)
			choose_add(link->metadata ? meta : bulk, link);
	if (!meta->n)
		take_links_of(meta, bulk);
	else if (!bulk->n)
		take_links_of(bulk, meta);
}

static struct rr_link *round_robin(struct rr_set *s)
{
	unsigned at = s->turn < s->n ? s->turn : 0;

	for (unsigned i = 0; i < s->n; i++) {
		struct rr_link *link = s->link[at];

		at = at + 1 < s->n ? at + 1 : 0;
		if (link->ninflight < link->room) {
			s->turn = at;
			return link;
		}
	}
	return NULL;
}

static struct rr_link *min_inflight(struct rr_set *s)
{
	struct rr_link *best = NULL;
	unsigned least = UINT_MAX;

	for (struct rr_link *const *p = s->link; p < s->link + s->n; p++) {
		unsigned n = (*p)->ninflight;

		if (n < least && n < (*p)->room) {
			least = n;
			best = *p;
		}
	}
	return best;
}

static struct rr_link *min_latency(struct rr_set *s)
{
	struct rr_link *best = NULL;
	uint64_t least = UINT64_MAX;

	for (struct rr_link *const *p = s->link; p < s->link + s->n; p++) {
		if ((*p)->latency_ns < least && (*p)->ninflight < (*p)->room) {
			least = (*p)->latency_ns;
			best = *p;
		}
	}
	return best;
}

bool rr_has_room(const struct rr_conn *c, const struct rr_call *call)
{
	const struct rr_set *s = &c->sets[rr_is_bulk(call)];

	for (unsigned i = 0; i < s->n; i++)
		if (s->link[i]->ninflight < s->link[i]->room)
			return true;
	return false;
}

void rr_set_policy(struct rr_conn *c, enum rr_policy policy)
{
	c->choose = policy == RR_ROUND_ROBIN ? round_robin : policy == RR_MIN_LATENCY ? min_latency :
		    min_inflight;
}
