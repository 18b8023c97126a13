/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The requester's queue, and the calls in flight. (When a link is lost: lost.c.)
 *
 *     waiting:  a  b  c  d            link 0:  inflight  x  y      grant 2
 *               |                     link 1:  inflight  z         grant 8   <- a
 *               +-- to the link that rr_choose() says
 *
 * A call is complete when three things are true, in whatever order they become so: its
 * reply is here; its Send has completed, so that the device is done with the message
 * buffer (where a completion would cost a wake-up, the reply is taken for that: a peer that
 * answers has received the message); the peer's rights to its buffers have ended (memreg.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/probe.h"
#include "rpcrdma/impl.h"

/* ---- table of calls in flight ---- */

/* By XID: those one behind the other use chain after chain. */
struct rr_call *rr_find(const struct rr_link *link, uint32_t xid)
{
	hash_for_each(n, hash_chain(link->conn->calls, xid), xid) {
		struct rr_call *call = container_of(n, struct rr_call, by_xid);

		if (call->link == link)
			return call;
	}
	return NULL;
}

static void conn_track(struct rr_link *link, struct rr_call *call)
{
	hash_add(hash_chain(link->conn->calls, call->xid), &call->by_xid, call->xid);
	call->link = link;
	call->path = link->path;
	list_add_tail(&link->inflight, &call->node);
	link->ninflight++;
	call->state = RR_CALL_INFLIGHT;
}

void rr_untrack(struct rr_call *call)
{
	struct rr_link *link = call->link;

	hash_del(&call->by_xid);
	list_del(&call->node);
	link->ninflight--;
	call->link = NULL;
	call->state = RR_CALL_IDLE;
}

/* What the peer has placed in the call's chunk is copied: a Reply chunk, or data that is
 * parsed. A reply has one of them. Both lengths have been checked (reply.c). */
static void copy_chunk(struct rr_conn *c, struct rr_call *call)
{
	if (call->reply == call->chunk->mem)
		call->reply = memcpy(c->copy, call->chunk->mem, call->reply_len);
	else if (call->placed && call->data == call->chunk->mem)
		call->data = memcpy(c->copy, call->chunk->mem, call->placed_len);
}

/* The owner may submit the message again, and gets it as it was. */
static void tell_owner(struct rr_call *call, int status)
{
	rr_withdraw_data(call);
	call->done(call, status);
}

void rr_end_call(struct rr_conn *c, struct rr_call *call)
{
	if (!call->status && call->chunk)
		copy_chunk(c, call);
	rr_put_chunk(c, call);
	tell_owner(call, call->status);
}

/* ---- completion ---- */

static void end_if_drained(struct rr_link *link)
{
	if (link->draining && !link->ninflight)
		rr_link_reset(link, -ESHUTDOWN, "its path is being removed");
}

static void conn_finish(struct rr_call *call)
{
	struct rr_link *link = call->link;
	struct rr_conn *c = link->conn;
	struct rr_link *before = c->answering;
	void *recv = call->recv;

	rr_untrack(call);
	call->recv = NULL;
	c->answering = link;
	rr_end_call(c, call);
	c->answering = before;
	/* The reply was in there until now. */
	if (rr_in_use(c, link)) {
		if (recv)
			rr_repost(link, recv);
		end_if_drained(link);
	}
	rr_pump(c);
}

void rr_progress(struct rr_call *call)
{
	if (call->sent && call->replied && !call->unmapping)
		conn_finish(call);
}

static void on_sent(void *ctx, void *cookie)
{
	struct rr_link *link = ctx;
	struct rr_call *call = cookie;

	if (link->nback && rr_back_sent(link, cookie))
		return;
	if (!call) {
		rr_pump(link->conn);
		return;
	}
	call->sent = true;
	rr_progress(call);
}

/* ---- sending ---- */

static void conn_unqueue(struct rr_conn *c, struct rr_call *call)
{
	list_del(&call->node);
	c->nwaiting[rr_is_bulk(call)]--;
	call->state = RR_CALL_IDLE;
}

/* What rr_send() said: the call is in flight, or will be again with what else the link had. */
static void conn_posted(struct rr_link *link, struct rr_call *call, int rc)
{
	struct rr_conn *c = link->conn;

	conn_track(link, call);
	call->posted_ns = loop_now(c->loop);
	/* What was not posted has not been sent, and so the next one is no replay. */
	if (rc) {
		rr_link_reset(link, rc, "cannot post a send");
		return;
	}
	PROBE4(call_sent, call, call->xid, link->path, call->sends);
	stat_add(c->st, call->sends++ ? STAT_RPC_REPLAYS : STAT_RPC_CALLS, 1);
	stat_add_to(&link->ps->calls, 1);
}

/* A call that finds no link with room is passed by calls of the other kind. Nobody looks at calls that
 * cannot go: thousands may wait. left: calls of each kind that were not looked at yet; 0: no link
 * has room for that kind. */
static void pump_all(struct rr_conn *c)
{
	struct list *n = c->waiting.next;
	unsigned left[2] = { c->nwaiting[false], c->nwaiting[true] };

	while (n != &c->waiting && (left[false] || left[true])) {
		struct rr_call *call = container_of(n, struct rr_call, node);
		bool bulk = rr_is_bulk(call);
		struct rr_link *link = left[bulk] ? rr_choose(c, call) : NULL;
		int rc;

		n = n->next;
		left[bulk] = link ? left[bulk] - 1 : 0;
		if (!link)
			continue;
		rc = rr_send(link, call);
		if (rc == RR_NO_BUFFER)
			continue;
		conn_unqueue(c, call);
		if (rr_unsendable(rc)) {
			tell_owner(call, -EMSGSIZE);
			/* The list may have changed. */
			n = c->waiting.next;
			memcpy(left, c->nwaiting, sizeof(left));
			continue;
		}
		conn_posted(link, call, rc);
	}
}

void rr_pump(struct rr_conn *c)
{
	if (!list_empty(&c->waiting) && !c->losing)
		pump_all(c);
}

/* They stay the same for all its sendings. */
static void count_data(struct rr_call *call)
{
	uint32_t len = 0, n = 0;

	for (uint32_t i = 0; i < call->nsend; i++)
		len += call->send[i].len;
	call->data_len = len;
	for (len = 0; n < RR_SINK_IOV && call->sink[n].len; n++)
		len += call->sink[n].len;
	call->sink_len = len;
	call->nsink = n;
}

static void reset_call(struct rr_call *call)
{
	count_data(call);
	call->state = RR_CALL_WAITING;
	call->pinned = false;
	call->sent = call->replied = call->unmapping = call->data_inline = false;
	call->sends = call->bad = call->bad_at = 0;
	call->placed = false;
	call->placed_len = 0;
	call->recv = NULL;
	call->chunk = NULL;
	call->link = NULL;
	call->nmrs = 0;
	call->status = 0;
	call->reply = NULL;
	call->reply_len = 0;
}

/* Nothing waits before it, and there is a link: it need not be queued. False: it has to be. This
 * may complete the call, if it can never be sent. So do not touch it afterwards. */
static bool send_at_once(struct rr_link *link, struct rr_call *call)
{
	int rc = rr_send(link, call);

	if (rc == RR_NO_BUFFER)
		return false;
	if (rr_unsendable(rc)) {
		call->state = RR_CALL_IDLE;
		tell_owner(call, -EMSGSIZE);
	} else {
		conn_posted(link, call, rc);
	}
	return true;
}

void rr_submit_steady(struct rr_conn *c, struct rr_call *call)
{
	struct rr_link *link = c->sets[0].n ? c->sets[0].link[0] : NULL;
	bool goes = link && link->ninflight < link->room && list_empty(&c->waiting) && !c->losing;

	if (goes)
		reset_call(call);
	if (!goes || !send_at_once(link, call))
		rr_submit(c, call);
}

void rr_submit(struct rr_conn *c, struct rr_call *call)
{
	bool first = list_empty(&c->waiting);
	struct rr_link *link = first && !c->losing ? rr_choose(c, call) : NULL;
	bool room = link || (!first && rr_has_room(c, call));

	reset_call(call);
	if (link && send_at_once(link, call))
		return;
	list_add_tail(&c->waiting, &call->node);
	c->nwaiting[rr_is_bulk(call)]++;
	PROBE3(call_waits, call, c->nwaiting[rr_is_bulk(call)], c->sets[rr_is_bulk(call)].n);
	if (!room && !list_empty(&c->links))
		stat_add(c->st, STAT_RPC_CREDIT_WAITS, 1);
	else if (!link)
		rr_pump(c);
}

int rr_submit_on(struct rr_link *link, struct rr_call *call)
{
	int rc;

	if (link->reset_err)
		return -ENOTCONN;
	if (link->ninflight >= link->grant)
		return -EAGAIN;
	reset_call(call);
	call->pinned = true;
	rc = rr_send(link, call);
	if (rc == RR_NO_BUFFER || rr_unsendable(rc)) {
		call->state = RR_CALL_IDLE;
		return rc == RR_NO_BUFFER ? -EAGAIN : -EMSGSIZE;
	}
	conn_posted(link, call, rc);
	return 0;
}

void rr_submit_first(struct rr_conn *c, struct rr_call *call)
{
	reset_call(call);
	list_add_head(&c->waiting, &call->node);
	c->nwaiting[rr_is_bulk(call)]++;
	rr_pump(c);
}

void rr_retry(struct rr_conn *c)
{
	magazine_exchange(c->mag, &c->spare);
	rr_pump(c);
}

int rr_cancel(struct rr_conn *c, struct rr_call *call, int status)
{
	if (call->state == RR_CALL_INFLIGHT)
		return -EBUSY;
	if (call->state == RR_CALL_WAITING) {
		conn_unqueue(c, call);
		tell_owner(call, status);
	}
	return 0;
}

/* ---- life ---- */

static const struct fab_events fab_events = {
	.recv = rr_on_recv,
	.sent = on_sent,
	.unbound = rr_unmapped,
	.down = rr_on_down,
};

int rr_up(struct rr_conn *c, struct rr_link *link, bool trial)
{
	int rc = link->fabric->attach(link->fab, c->loop, &fab_events, link);

	if (rc) {
		rr_link_drop(link);
		return rc;
	}
	loop_timer_init(&link->reset_timer, rr_on_reset);
	list_init(&link->inflight);
	rr_set_grant(link, 1);
	link->trial = trial;
	link->heard_ns = link->measured_ns = loop_now(c->loop);
	list_add_tail(&c->links, &link->node);
	rr_sort_links(c);
	stat_add(c->st, STAT_CONN_UPS, 1);
	rr_pump(c);
	return 0;
}

void rr_admit(struct rr_link *link)
{
	link->trial = false;
	rr_sort_links(link->conn);
	rr_pump(link->conn);
}

void rr_drain(struct rr_link *link)
{
	link->draining = true;
	rr_sort_links(link->conn);
	end_if_drained(link);
}

struct rr_conn *rr_conn_new(const struct rr_config *cfg, struct loop *l, struct magazine *m,
			    struct stats *st, const struct rr_events *ev, void *ctx)
{
	struct rr_conn *c = calloc(1, sizeof(*c));
	uint32_t seed = 0;

	if (!c)
		return NULL;
	c->cfg = *cfg;
	if (!c->cfg.nlanes)
		c->cfg.nlanes = 1;
	if (!c->cfg.memreg)
		c->cfg.memreg = &rr_memreg_pool;
	c->loop = l;
	c->mag = m;
	c->st = st;
	c->ev = ev;
	c->ctx = ctx;
	list_init(&c->links);
	rr_set_policy(c, cfg->policy);
	list_init(&c->waiting);
	c->copy = malloc(RR_REPLY_MAX);
	c->spare = magazine_get(m, ARENA_MID);
	if (!c->copy || !c->spare) {
		rr_conn_free(c);
		return NULL;
	}
	/* XIDs begin at random, so that a server's reply cache does not take them for
	 * those of an earlier mount. The highest bits are the lane's number. */
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = (uint32_t)mono_ns();
	c->next_xid = seed;
	for (c->xid_mask = UINT32_MAX; UINT32_MAX / c->xid_mask < c->cfg.nlanes; )
		c->xid_mask >>= 1;
	c->xid_lane = cfg->lane * (c->xid_mask + 1);
	return c;
}

void rr_conn_free(struct rr_conn *c)
{
	if (!c)
		return;
	for (struct list *n; (n = list_pop(&c->links)); ) {
		struct rr_link *link = container_of(n, struct rr_link, node);

		loop_timer_clear(&link->reset_timer);
		rr_link_drop(link);
	}
	if (c->spare)
		magazine_put(c->mag, c->spare);
	free(c->copy);
	free(c);
}

/* ---- queries ---- */

bool rr_is_up(const struct rr_conn *c)
{
	return c->sets[0].n > 0;
}

struct rr_link_now rr_link_now(const struct rr_link *link)
{
	return (struct rr_link_now){
		.in_flight = link->ninflight, .credits = link->grant,
		.heard_ns = link->heard_ns, .answered_ns = link->answered_ns,
		.measured_ns = link->measured_ns,
	};
}

uint32_t rr_xid(struct rr_conn *c)
{
	return c->xid_lane | (c->next_xid++ & c->xid_mask);
}

uint64_t rr_first_replay_ns(const struct rr_conn *c)
{
	const struct rr_call *first;

	if (list_empty(&c->waiting))
		return 0;
	first = container_of(c->waiting.next, struct rr_call, node);
	return first->sends ? first->posted_ns : 0;
}
