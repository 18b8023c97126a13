/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call engine: carries one operation through its RPCs.
 *
 *   waiting --room--> encode, rr_submit --reply--> decode --+--> done
 *      ^  ^                                                 |
 *      |  +---- next step, again (at once) -----------------+
 *      |  +---- later: timer -------------------------------+
 *      |  |                                  owners: idmap.h +--> done
 *      +------- parked until state is recovered ------------+
 *
 * All of it runs on the lane's thread. Each sending is encoded from the call's arguments,
 * so that it has the new slot and stateids. One encoding is sent twice in two cases
 * only. The transport replays it after a lost connection. And NFS_DELAYED repeats it, as
 * another call (XID), for a call whose slot is in use at the server: the call waits with slot
 * and buffers, as if it were in flight. Neither a hold nor the queue delays its next sending,
 * because recovery may be waiting for its slot. What each sending wants anew, renew() writes.
 *
 * A call that names an open whose state is lost is parked by itself (NFS_REOPEN): when it finds
 * that out by a reply, or before it takes a slot, because others have found it out. Calls behind
 * it go on.
 *
 * Buffers: the message buffer is taken before the version is asked for a slot, and put back
 * when done() has returned. The transport has the buffer for a long reply.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/probe.h"
#include "nfs/internal.h"
#include "nfs/close_ride.h"

/* A message that is sent again in its slot (nfs_times.delayed_ms): for the first second the server is
 * asked every 10, 20, and then 40 ms; after that the waits double, up to 2.56 s. */
#define DELAYED_SHIFT     2u
#define DELAYED_OFTEN     25u
#define DELAYED_SHIFT_MAX 8u
/* After how many in a row NFS_AGAIN is treated as "later": a server that always answers with
 * the same complaint must not make us spin. */
#define AGAIN_MAX 8u

static void on_reply(struct rr_call *rr, int status);

void nfs_open_drop(struct nfs_call *c)
{
	const struct nfs_version *v = c->target->server->version;

	if (v->open_free)
		v->open_free(c->open);
	else
		free(c->open);
	c->open = NULL;
}

static void engine_finish(struct nfs_call *c, int status)
{
	list_del(&c->eng.run_node);
	if (nfs_owner_any(&c->eng.owners))
		nfs_owner_drop(c);
	c->res.status = c->eng.undo ? c->eng.undo : status;
	if (c->open && c->op == NFS_OP_CLOSE)
		nfs_open_drop(c);
	else if (c->op == NFS_OP_DELEGRETURN || c->op == NFS_OP_CLAIM)
		c->target->server->version->delegation_ends(c);
	c->done(c);
}

/* ---- sending ---- */

/* EXCHANGE_ID and CREATE_SESSION are to come from one address: Linux takes a client id from that only which
 * has asked for it. So control calls do not change connections. */
static void engine_submit(struct nfs_call *c)
{
	if (c->flags & NFS_CALL_CONTROL)
		rr_submit_steady(c->target->conn, &c->eng.rr);
	else
		rr_submit(c->target->conn, &c->eng.rr);
}

/* c ends before it was sent. What done() starts waits for the pump that this is part of. Otherwise a
 * file's WRITEs, of which each one starts the next when it fails, would take stack for all of them. */
static void engine_refuse(struct nfs_lane *l, struct nfs_call *c, int status)
{
	l->refusing = true;
	engine_finish(c, status);
	l->refusing = false;
}

enum started { STARTED, NO_BUFFER, NO_SLOT };

/* Unless it returns STARTED, there is no room now, and c is where it was. */
static enum started start_one(struct nfs_lane *l, struct nfs_call *c)
{
	const struct nfs_version *v = c->target->server->version;
	const struct nfs_opdef *def = nfs_opdef_of(c);
	int rc;

	if (!def) {             /* this version has nothing to tell the server */
		list_del(&c->eng.node);
		engine_refuse(l, c, 0);
		return STARTED;
	}
	if (def->begin && !c->eng.step) {
		list_del(&c->eng.node);
		nfs_counted_begins(c, def->counted);
		def->begin(c);
		return STARTED;
	}
	c->eng.rr.msg = magazine_get(&l->mag, nfs_message_class(c));
	if (!c->eng.rr.msg)
		return NO_BUFFER;
	rc = v->acquire ? v->acquire(c->target, c) : 1;
	if (rc != 1)
		magazine_put(&l->mag, c->eng.rr.msg);
	if (rc == 0 || (rc == -EAGAIN && !(c->flags & NFS_CALL_CONTROL)))
		return NO_SLOT;
	list_del(&c->eng.node);
	if (rc == NFS_REOPEN)
		list_add_tail(&l->parked, &c->eng.node);
	else if (rc < 0)
		engine_refuse(l, c, rc);
	if (rc != 1)
		return STARTED;
	l->active++;
	close_ride_take(c);
	c->eng.rr.done = on_reply;
	c->eng.encoded_ns = loop_now(l->loop);
	PROBE3(call_begin, &c->eng.rr, def->name, l->index);
	if (nfs_message_encode(c)) {
		engine_submit(c);
	} else {
		log_err("%s: the arguments do not fit a message of %zu bytes", def->name,
			c->eng.rr.msg->size - RR_HDR_ROOM);
		on_reply(&c->eng.rr, -EMSGSIZE);
	}
	return STARTED;
}

/*
 * A call that finds no message buffer is passed by the calls behind it. Those may have all
 * the buffers, for their data, and put them back only when they have run. Then this call is
 * the first to get one.
 */
static void engine_pump(struct nfs_lane *l)
{
	struct list *n = l->waiting.next;

	while (n != &l->waiting) {
		struct nfs_call *c = container_of(n, struct nfs_call, eng.node);
		bool control = c->flags & NFS_CALL_CONTROL;

		if (!control && (l->hold || l->active >= l->window))
			return;
		switch (start_one(l, c)) {
		case STARTED:
			n = l->waiting.next;    /* the list may have changed */
			break;
		case NO_BUFFER:
			n = n->next;
			break;
		case NO_SLOT:
			return;
		}
	}
}

void nfs_lane_pump(struct nfs_lane *l)
{
	if (!list_empty(&l->waiting) && !l->refusing)
		engine_pump(l);
}

/* Control calls go before all others, because the others may be held until they have
 * run. */
static void engine_enqueue(struct nfs_lane *l, struct nfs_call *c, bool first)
{
	bool control = c->flags & NFS_CALL_CONTROL;
	struct list *at = l->waiting.next;

	if (!first && !control) {
		list_add_tail(&l->waiting, &c->eng.node);
		return;
	}
	while (!control && at != &l->waiting &&
	       (container_of(at, struct nfs_call, eng.node)->flags & NFS_CALL_CONTROL))
		at = at->next;
	list_add_before(at, &c->eng.node);
}

void nfs_begin(struct nfs_target *t, struct nfs_call *c)
{
	struct nfs_lane *l = t->lane;

	c->target = t;
	c->lane = l;
	c->eng.auth = (struct rpc_auth_call){
		.flavor = c->cred ? t->server->auth : &rpc_auth_none, .cred = c->cred,
	};
	c->eng.step = 0;
	c->eng.sent = c->eng.resent = false;
	c->eng.retries = c->eng.delays = c->eng.useless = 0;
	c->eng.start_ns = c->eng.counted_ns = loop_now(l->loop);
	c->eng.delayed = false;
	c->res.has_attr = c->res.has_dir_attr[0] = c->res.has_dir_attr[1] = false;
	c->res.dir_no_owner = c->res.dir_change[0].known = c->res.dir_change[1].known = false;
	c->res.found = false;
	c->res.status = c->eng.undo = 0;
	c->eng.rr.state = RR_CALL_IDLE;
	c->eng.rr.sends = c->eng.rr.timeouts = 0;
	memset(c->version_data, 0, sizeof(c->version_data));
	c->eng.owners = (struct nfs_owner_wait){ 0 };
	list_init(&c->eng.timer.node);
	c->eng.riding_close = NULL;
	c->eng.close_ride_closed = c->eng.alone = false;
	c->eng.most = 0;
	list_add_tail(&l->running, &c->eng.run_node);
	engine_enqueue(l, c, false);
}

void nfs_start_at(struct nfs_target *t, struct nfs_call *c)
{
	const struct nfs_opdef *def = t->server->version->ops[c->op];

	if (c->op == NFS_OP_CLOSE && close_ride_waits(t, c)) {
		c->res.status = 0;
		c->done(c);
		return;
	}
	if (def && (def->unnames || (c->flags & NFS_CALL_NOW)))
		close_rides_go(t);
	nfs_begin(t, c);
	nfs_lane_pump(t->lane);
}

void nfs_start(struct nfs_lane *l, struct nfs_call *c)
{
	nfs_start_at(&l->target, c);
}

void nfs_owner_done(struct nfs_call *c, bool send)
{
	struct nfs_lane *l = c->lane;

	if (send)
		engine_enqueue(l, c, true);
	else
		engine_finish(c, 0);
	nfs_lane_pump(l);
	nfs_buffers_freed(l);
}

/* ---- replies ---- */

static void on_later(struct loop_timer *t)
{
	struct nfs_call *c = container_of(t, struct nfs_call, eng.timer);

	engine_enqueue(c->lane, c, false);
	nfs_lane_pump(c->lane);
}

static unsigned engine_lower(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static void wait_a_while(struct nfs_call *c, unsigned ms, void (*fn)(struct loop_timer *t))
{
	stat_add(&c->lane->stats, STAT_RPC_RETRIES, 1);
	loop_timer_init(&c->eng.timer, fn);
	loop_timer_set(c->lane->loop, &c->eng.timer, ms);
}

static void engine_later(struct nfs_call *c)
{
	wait_a_while(c, nfs_times_of(&c->lane->client->cfg)->later_ms <<
		     engine_lower(c->eng.retries++, NFS_LATER_SHIFT_MAX), on_later);
}

static void on_delayed(struct loop_timer *t)
{
	struct nfs_call *c = container_of(t, struct nfs_call, eng.timer);

	c->eng.delayed = false;
	c->eng.rr.xid = rr_xid(c->target->conn);
	engine_submit(c);
}

static void engine_delayed(struct nfs_call *c)
{
	unsigned n = c->eng.delays++;
	unsigned shift = n < DELAYED_OFTEN ? engine_lower(n, DELAYED_SHIFT) :
			 engine_lower(n - DELAYED_OFTEN + DELAYED_SHIFT, DELAYED_SHIFT_MAX);

	c->eng.delayed = true;
	wait_a_while(c, nfs_times_of(&c->lane->client->cfg)->delayed_ms << shift, on_delayed);
}

static void engine_again(struct nfs_call *c)
{
	if (++c->eng.retries > AGAIN_MAX)
		engine_later(c);
	else
		engine_enqueue(c->lane, c, true);
}

static void give_place(struct nfs_call *c)
{
	struct nfs_lane *l = c->lane;
	const struct nfs_version *v = c->target->server->version;

	if (v->release)
		v->release(c->target, c);
	l->active--;
}

/* The server has opened the file, and a later step failed. CLOSE it, or it would stay
 * open on the server as long as the mount lasts. */
static bool undo_open(struct nfs_call *c, int status)
{
	if (!status || !c->open || (c->op != NFS_OP_OPEN && c->op != NFS_OP_CREATE))
		return false;
	c->eng.undo = status;
	c->op = NFS_OP_CLOSE;
	c->eng.step = 0;
	c->eng.start_ns = loop_now(c->lane->loop);      /* a soft mount gives CLOSE its own time */
	engine_enqueue(c->lane, c, true);
	return true;
}

/* The call waits for room, for recovery, or for its timer; no connection has its
 * buffers. */
bool nfs_give_up(struct nfs_call *c, int status)
{
	const struct nfs_opdef *def = nfs_opdef_of(c);
	struct nfs_lane *l = c->lane;
	struct arena_buf *msg = c->eng.rr.msg;
	bool had_room = c->eng.delayed;

	if (def && def->forget && !def->forget(c))
		return false;
	list_del(&c->eng.node);
	loop_timer_clear(&c->eng.timer);
	close_ride_leave(c);
	if (had_room) {
		c->eng.delayed = false;
		give_place(c);
	}
	if (!undo_open(c, status))
		engine_finish(c, status);
	if (had_room)
		magazine_put(&l->mag, msg);
	nfs_lane_pump(l);
	nfs_buffers_freed(l);
	return true;
}

bool nfs_take_back(struct nfs_call *c, int status)
{
	return !c->eng.sent && !c->eng.rr.sends && nfs_abandon(c, status);
}

bool nfs_abandon(struct nfs_call *c, int status)
{
	struct rr_call *rr = &c->eng.rr;

	if (rr->state == RR_CALL_INFLIGHT)
		return false;
	if (rr->state != RR_CALL_WAITING)
		return nfs_give_up(c, status);
	rr_cancel(c->target->conn, rr, status);
	return true;
}

/* The call is over, or has its next place. */
static void go_on(struct nfs_call *c, int rc)
{
	struct nfs_lane *l = c->lane;

	switch (rc) {
	case NFS_NEXT:
		engine_enqueue(l, c, true);
		break;
	case NFS_AGAIN:
		engine_again(c);
		break;
	case NFS_ALONE:
		c->eng.alone = true;
		engine_enqueue(l, c, true);
		break;
	case NFS_LATER:
		engine_later(c);
		break;
	case NFS_RECOVER:
	case NFS_REOPEN:
		nfs_control_recover(l->client);
		/* The thread that recovers waits for this control call. */
		if (c->flags & NFS_CALL_CONTROL) {
			engine_finish(c, -EAGAIN);
			break;
		}
		list_add_tail(&l->parked, &c->eng.node);
		l->hold = l->hold || rc == NFS_RECOVER;
		break;
	default:
		if (rc > 0)
			rc = -EIO;
		if (rc == 0 && nfs_owner_wait(c))
			break;
		if (!undo_open(c, rc))
			engine_finish(c, rc);
		break;
	}
}

void nfs_elsewhere_done(struct nfs_call *c, int rc)
{
	struct nfs_lane *l = c->lane;

	nfs_counted_ends(c, 0, rc);
	go_on(c, rc);
	nfs_lane_pump(l);
	nfs_buffers_freed(l);
}

static void on_reply(struct rr_call *rr, int status)
{
	struct nfs_call *c = container_of(rr, struct nfs_call, eng.rr);
	struct nfs_lane *l = c->lane;
	struct arena_buf *msg = rr->msg;
	int rc;

	if (rr->sends)
		c->eng.sent = true;
	if (rr->sends > 1)
		c->eng.resent = true;
	rc = nfs_message_result(c, status);
	PROBE5(call_end, rr, rr->xid, rr->path, rr->timeouts, rc);
	nfs_counted_ends(c, status, rc);
	if (rc == NFS_DELAYED) {
		/* The transport has given back the chunk's buffer. */
		engine_delayed(c);
	} else {
		c->eng.delays = 0;
		give_place(c);
		close_ride_leave(c);
		go_on(c, rc);
		magazine_put(&l->mag, msg);
	}
	nfs_lane_pump(l);
	nfs_buffers_freed(l);
}
