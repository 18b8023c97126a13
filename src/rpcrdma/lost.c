/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Giving a link up: who asks for it, what becomes of its calls, and what is concluded from it.
 *
 * Its fabric connection is closed at once. After that nobody can reach a buffer through it. Calls
 * whose reply had come are completed. The rest go back to the head of the queue, in the order of
 * their sending. They are sent again, with the same XID, on another link, or when the owner brings
 * a new one (rr_up). A call is never sent twice on one link. The link's receives are freed last,
 * because the completed replies lie in them. A call that names its link (rr_submit_on) ends with it.
 */
#include <errno.h>
#include "rpcrdma/impl.h"

/* Takes the link's calls back into the queue. Calls that are answered, or must not be
 * sent again, go to `finished`. Both lists keep the order of sending. */
static void take_back(struct rr_link *link, struct list *finished)
{
	struct rr_conn *c = link->conn;

	while (!list_empty(&link->inflight)) {
		struct rr_call *call = container_of(link->inflight.prev, struct rr_call, node);

		rr_untrack(call);
		call->nmrs = 0;         /* gone with the link */
		call->unmapping = false;
		if (!call->replied)
			rr_put_chunk(c, call);
		if (!call->replied && (call->pinned || call->bad >= RR_BAD_MAX)) {
			call->status = call->pinned ? -ENOTCONN : -EBADMSG;
			call->replied = true;
		}
		if (call->replied) {
			list_add_head(finished, &call->node);
		} else {
			stat_add_to(&link->ps->failovers, 1);
			call->state = RR_CALL_WAITING;
			list_add_head(&c->waiting, &call->node);
			c->nwaiting[rr_is_bulk(call)]++;
		}
	}
}

#define WINDOWS_LOST_MAX 2u
#define WINDOWS_PAUSE_NS 600000000000ull

/*
 * A driver may say that it has windows, and break the connection at the first call that has
 * one. Any connection may be lost once; the second in a row is a reason to do without, unless
 * some lane has seen windows work on that path.
 *
 * A server can bring this about: it drops two connections. So what comes instead gives it no
 * more than windows do: a registration for each call. It is slower, and so it does not last:
 * after ten minutes the next connection has windows again. Only the user chooses pool.
 */
static void doubt_windows(struct rr_link *link)
{
	struct rr_conn *c = link->conn;
	struct rr_windows *w;

	if (c->cfg.memreg != &rr_memreg_auto || !link->memreg->windows || !link->mapped)
		return;
	w = &c->cfg.windows[link->path];
	if (atomic_load(&w->work) || ++c->windows_lost[link->path] < WINDOWS_LOST_MAX)
		return;
	if (atomic_exchange(&w->again_ns, mono_ns() + WINDOWS_PAUSE_NS))
		return;
	log_warn("%u connections with memory windows were lost before any was seen to work (%s): "
		 "memreg=call is used, and windows are tried again every ten minutes. memreg=pool is "
		 "faster, needs less locked memory, and lets the server reach all data buffers",
		 c->windows_lost[link->path], link->text);
}

static void lose_link(struct rr_link *link, int err, const char *why)
{
	struct rr_conn *c = link->conn;
	void *owner = link->owner;
	struct list finished;

	list_del(&link->node);
	/* Callers that are told below may still look at the link. Nothing is sent on it. */
	if (!link->reset_err)
		link->reset_err = err ? err : -ENOTCONN;
	rr_sort_links(c);
	loop_timer_clear(&link->reset_timer);
	doubt_windows(link);
	rr_link_shut(link);
	stat_add(c->st, STAT_CONN_DOWNS, 1);
	list_init(&finished);
	take_back(link, &finished);
	/* The owner hears of the loss before anything is sent elsewhere: calls whose time is up end
	 * then, or they would take the next link with them. */
	c->losing++;
	for (struct list *n; (n = list_pop(&finished)); )
		rr_end_call(c, container_of(n, struct rr_call, node));
	rr_link_free(link);
	c->ev->down(c->ctx, owner, err, why);
	c->losing--;
	rr_pump(c);
}

void rr_on_reset(struct loop_timer *t)
{
	struct rr_link *link = container_of(t, struct rr_link, reset_timer);

	lose_link(link, link->reset_err, link->reset_why);
}

void rr_link_reset(struct rr_link *link, int err, const char *why)
{
	if (link->reset_err)
		return;
	link->reset_err = err;
	link->reset_why = why;
	rr_sort_links(link->conn);
	loop_timer_set(link->conn->loop, &link->reset_timer, 0);
}

void rr_reset_link_of(const struct rr_call *call, int err, const char *why)
{
	if (call->link)
		rr_link_reset(call->link, err, why);
}

bool rr_in_use(const struct rr_conn *c, const struct rr_link *link)
{
	list_for_each(n, &c->links)
		if (container_of(n, struct rr_link, node) == link)
			return true;
	return false;
}

void rr_reset_answering(struct rr_conn *c, int err, const char *why)
{
	if (c->answering && rr_in_use(c, c->answering))
		rr_link_reset(c->answering, err, why);
}

/* Counts each call whose time is up. */
static bool is_silent(struct rr_link *link, uint64_t now_ns, uint64_t timeo_ns)
{
	bool silent = false;

	list_for_each_entry(struct rr_call, call, &link->inflight, node) {
		if (now_ns <= call->posted_ns + timeo_ns * (call->timeouts + 1))
			continue;
		silent = true;
		call->timeouts += call->timeouts < RR_TIMEOUTS_MAX;
	}
	return silent;
}

bool rr_expire(struct rr_conn *c, uint64_t now_ns, uint64_t timeo_ns, int err, const char *why)
{
	bool any = false;

	list_for_each_entry(struct rr_link, link, &c->links, node) {
		if (is_silent(link, now_ns, timeo_ns)) {
			rr_link_reset(link, err, why);
			any = true;
		}
	}
	return any;
}

void rr_on_down(void *ctx, int err, const char *why)
{
	lose_link(ctx, err, why);
}
