/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A pair of connections: how it begins, its buffers, its calls, and its end.
 *
 *     request ---> pair made, receives posted, TCP starts to connect
 *     TCP is connected ---> accept; if that fails: reject, so that the client
 *                           knows at once that there is no server
 *     ...
 *     down, end of TCP, a fault ---> pair_end: closes both, end_msg frees the pair;
 *                           TCP later, if calls whose outcome counts run there
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "gateway/gateway.h"

/* Receives beyond the credits, for replies to the server's own calls. */
#define EXTRA_RECVS 8u
/* Work requests of one call: the segments of a Write chunk, and the reply. A client that
 * always cuts its memory finer than that loses its connection. */
#define SENDS_PER_CALL 8u
/* How long a pair waits for a server that does not answer. */
#define LINGER_MS 60000u
/* A client that has not moved a byte for so long, although it was asked for one or sent one,
 * does not get further. Meanwhile its calls have the memory that others wait for. */
#define STALL_MS 60000u

static unsigned nrecvs(const struct gateway *gw)
{
	return gw->credits + EXTRA_RECVS;
}

static unsigned nslots(const struct gateway *gw)
{
	return nrecvs(gw) + 2 * gw->credits + 2 * GW_BACK_CREDITS;
}

unsigned pair_max_send(const struct gateway *gw)
{
	return gw->credits * SENDS_PER_CALL + EXTRA_RECVS +
	       (gw_fault_wanted(&gw->faults, FAULT_SCRIBBLE) ? SCRIBBLES_MAX : 0);
}

unsigned pair_max_recv(const struct gateway *gw)
{
	return nrecvs(gw);
}

/* ---- calls ---- */

unsigned pair_credits(const struct gateway *gw)
{
	unsigned granted = reply_granted(gw);

	return granted > gw->credits ? granted : gw->credits;
}

/*
 * The most open calls of a pair. A call is open until the Send of its reply has completed.
 * The client may see the reply before that and send its next call. So it may have up to
 * twice its credits, and a few. A client that heeds its credits never has more; one that does not
 * would make us keep calls without end. A fault that grants more is allowed for, and one that grants
 * less is not held against the client.
 */
static size_t calls_max(const struct gateway *gw)
{
	return 2 * (size_t)pair_credits(gw) + EXTRA_RECVS;
}

struct gw_call *pair_call(struct gw_pair *p)
{
	struct gw_call *k;

	if (p->ncalls >= calls_max(p->gw)) {
		pair_end(p, "the client ignores its credits: it has far more calls open than it was granted");
		return NULL;
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		pair_end(p, "out of memory");
		return NULL;
	}
	p->ncalls++;
	k->pair = p;
	k->number = ++p->gw->ncalls;
	list_init(&k->out_node);
	loop_timer_init(&k->delay, NULL);
	list_add_tail(&p->calls, &k->node);
	return k;
}

static void call_free(struct gw_call *k)
{
	loop_timer_clear(&k->delay);
	list_del(&k->node);
	k->pair->ncalls--;
	list_del(&k->out_node);
	drc_gone(k);
	pair_buf_put(k->pair, k->call);
	pair_buf_put(k->pair, k->reply);
	memory_give_call(k);
	free(k);
}

void pair_call_done(struct gw_call *k)
{
	if (k->answered && !k->reads_left && !k->sends_left && list_empty(&k->out_node))
		call_free(k);
}

/* ---- sending ---- */

static void on_stall(struct loop_timer *t)
{
	struct gw_pair *p = container_of(t, struct gw_pair, stall);
	uint64_t since = (mono_ns() - p->moved_at) / 1000000;

	p->stall_set = false;
	if (!p->posted)
		return;
	if (since >= STALL_MS) {
		pair_end(p, "the client has neither answered an RDMA Read nor taken what was sent for a minute");
		return;
	}
	p->stall_set = true;
	loop_timer_set(p->gw->loop, t, STALL_MS - (unsigned)since);
}

void pair_posted(struct gw_pair *p)
{
	if (!p->posted++)
		p->moved_at = mono_ns();
	if (p->stall_set)
		return;
	p->stall_set = true;
	loop_timer_set(p->gw->loop, &p->stall, STALL_MS);
}

static void moved(struct gw_pair *p)
{
	p->posted--;
	p->moved_at = mono_ns();
}

static void on_sent(void *ctx, void *cookie)
{
	struct gw_pair *p = ctx;
	struct gw_slot *slot = cookie;

	moved(p);
	list_add_tail(&p->send_free, &slot->node);
	if (slot->k) {
		slot->k->sends_left--;
		pair_call_done(slot->k);
	}
}

void pair_send(struct gw_pair *p, struct gw_call *k, const void *msg, size_t len,
	       bool inval, uint32_t handle)
{
	struct gw_slot *slot;
	struct fab_sge sge;
	int rc;

	if (p->ended)
		return;
	if (len > GW_INLINE || list_empty(&p->send_free)) {
		pair_end(p, "no room to send: the client has more calls open than it was granted");
		return;
	}
	slot = container_of(list_pop(&p->send_free), struct gw_slot, node);
	slot->k = k;
	memcpy(slot->mem, msg, len);
	sge = (struct fab_sge){ slot->mem, (uint32_t)len, p->slot_mr.lkey };
	rc = inval ? p->fab->post_send_inv(p->conn, &sge, 1, handle, slot) : -EOPNOTSUPP;
	/* Invalidation is optional, and some devices cannot do it: then the client
	 * invalidates itself. */
	if (rc == -EOPNOTSUPP)
		rc = p->fab->post_send(p->conn, &sge, 1, slot);
	if (rc) {
		pair_end(p, strerror(-rc));
		return;
	}
	pair_posted(p);
	if (k)
		k->sends_left++;
}

/* ---- events ---- */

static int post_recv(struct gw_pair *p, struct gw_slot *slot)
{
	struct fab_sge sge = { slot->mem, GW_INLINE, p->slot_mr.lkey };

	return p->fab->post_recv(p->conn, &sge, slot);
}

void pair_recv_again(struct gw_pair *p, struct gw_slot *slot)
{
	int rc = p->ended ? 0 : post_recv(p, slot);

	if (rc)
		pair_end(p, strerror(-rc));
}

static void on_recv(void *ctx, void *cookie, uint32_t len, bool invalidated, uint32_t rkey)
{
	struct gw_pair *p = ctx;

	(void)invalidated;
	(void)rkey;
	if (p->ended)
		return;
	p->busy_at = mono_ns();
	call_received(p, cookie, len);
}

static void on_written(void *ctx, void *cookie)
{
	struct gw_pair *p = ctx;
	struct gw_call *k = cookie;

	if (cookie == p->scribble) {
		scribble_written(p);
		return;
	}
	moved(p);
	k->sends_left--;
	pair_call_done(k);
}

static void on_read(void *ctx, void *cookie)
{
	moved(ctx);
	call_read_done(cookie);
}

static void on_down(void *ctx, int err, const char *why)
{
	(void)err;
	pair_end(ctx, why);
}

static const struct fab_events pair_events = {
	.recv = on_recv, .sent = on_sent, .written = on_written, .read = on_read, .down = on_down,
};

/* ---- the end ---- */

static void on_end(struct loop_msg *m)
{
	pair_free(container_of(m, struct gw_pair, end_msg));
}

/* Does it have calls whose outcome counts, and a server that may still tell it? */
static bool has_to_linger(const struct gw_pair *p)
{
	if (p->tcp.fd < 0)
		return false;
	list_for_each(n, &p->calls) {
		const struct gw_call *k = container_of(n, struct gw_call, node);

		if (!k->answered && (k->late || drc_runs(k)))
			return true;
	}
	return false;
}

/* Both sides are done. */
static void end_all(struct gw_pair *p)
{
	p->lingers = false;
	loop_timer_clear(&p->linger);
	loop_timer_clear(&p->idle);
	list_for_each(n, &p->calls)
		loop_timer_clear(&container_of(n, struct gw_call, node)->delay);
	tcp_close(p);
	p->end_msg.fn = on_end;
	loop_post(p->gw->loop, &p->end_msg);
}

static void on_linger(struct loop_timer *t)
{
	struct gw_pair *p = container_of(t, struct gw_pair, linger);

	log_info("connection %u has ended; the NFS server has not answered its calls for %u s", p->id,
		 LINGER_MS / 1000);
	end_all(p);
}

void pair_linger_check(struct gw_pair *p)
{
	if (p->lingers && !has_to_linger(p))
		end_all(p);
}

/* Nobody waits for the answers any more. */
static void end_calls(struct gw_pair *p)
{
	list_for_each(n, &p->calls) {
		struct gw_call *k = container_of(n, struct gw_call, node);

		if (!k->held)
			loop_timer_clear(&k->delay);
		if (k->slot)
			list_del(&k->out_node);         /* it waits for memory */
		tcp_withdraw(k);
		if (!drc_runs(k))
			drc_gone(k);
	}
	drc_pair_ends(p);
}

void pair_end(struct gw_pair *p, const char *why)
{
	if (p->ended) {
		if (p->lingers && p->tcp.fd < 0)
			end_all(p);
		return;
	}
	p->ended = true;
	loop_timer_clear(&p->stall);
	if (why)
		log_info("connection %u ends: %s", p->id, why);
	end_calls(p);
	if (p->accepted)
		p->fab->close(p->conn);
	else
		p->fab->reject(p->conn, NULL, 0);
	p->conn = NULL;
	if (!has_to_linger(p)) {
		end_all(p);
		return;
	}
	p->lingers = true;
	loop_timer_set(p->gw->loop, &p->linger, LINGER_MS);
}

void pair_free(struct gw_pair *p)
{
	if (p->conn)
		p->fab->close(p->conn);
	p->conn = NULL;
	p->ended = true;
	loop_timer_clear(&p->stall);
	loop_timer_clear(&p->linger);
	loop_timer_clear(&p->idle);
	tcp_close(p);
	while (!list_empty(&p->calls))
		call_free(container_of(p->calls.next, struct gw_call, node));
	drc_pair_ends(p);
	back_free(p);
	scribble_free(p);
	pair_buf_put(p, p->in.buf);
	pair_bufs_free(p);
	memory_give_pair(p);
	peer_leave(p);
	list_del(&p->node);
	free(p->slots);
	free(p->slot_mem);
	free(p);
}

/* ---- the beginning ---- */

static int make_slots(struct gw_pair *p, struct errbuf *eb)
{
	unsigned n = nslots(p->gw);
	int rc;

	if (!memory_take_pair(p, (size_t)(n + GW_BACK_MAX) * GW_INLINE))
		return err_set(eb, -ENOMEM, "no room for one more connection (--memory)");
	p->slots = calloc(n, sizeof(*p->slots));
	p->slot_mem = aligned_alloc(4096, (size_t)n * GW_INLINE);
	if (!p->slots || !p->slot_mem)
		return err_set(eb, -ENOMEM, "out of memory");
	rc = p->fab->reg(p->conn, p->slot_mem, (size_t)n * GW_INLINE, 0, &p->slot_mr, eb);
	for (unsigned i = 0; i < n && !rc; i++) {
		p->slots[i].mem = p->slot_mem + (size_t)i * GW_INLINE;
		if (i >= nrecvs(p->gw))
			list_add_tail(&p->send_free, &p->slots[i].node);
		else if ((rc = post_recv(p, &p->slots[i])))
			err_set(eb, rc, "cannot post a receive: %s", strerror(-rc));
	}
	return rc;
}

static int start(struct gw_pair *p, const void *priv, size_t privlen, struct errbuf *eb)
{
	struct rr_pdata theirs;
	int rc;

	rr_pdata_decode(&theirs, priv, privlen);
	p->remote_inval = theirs.remote_inval;
	p->inline_max = theirs.recv_size < GW_INLINE ? theirs.recv_size : GW_INLINE;
	rc = make_slots(p, eb);
	if (!rc)
		tcp_open(p);
	return rc;
}

void pair_accept(struct gw_pair *p)
{
	struct rr_pdata ours = {
		.remote_inval = true, .send_size = GW_INLINE, .recv_size = GW_INLINE,
	};
	struct errbuf eb = { "" };
	uint8_t out[RR_PDATA_BYTES];
	int rc;

	rr_pdata_encode(&ours, out);
	rc = p->fab->accept(p->conn, out, sizeof(out), &eb);
	if (!rc && (rc = p->fab->attach(p->conn, p->gw->loop, &pair_events, p)))
		err_set(&eb, rc, "cannot attach: %s", strerror(-rc));
	p->accepted = !rc;
	if (rc)
		pair_end(p, eb.text);
	else
		log_info("connection %u: %s", p->id, p->fab->describe(p->conn));
}

/* Ends a pair that has been idle for long. Its client connects again when it needs to. */
static void on_idle(struct loop_timer *t)
{
	struct gw_pair *p = container_of(t, struct gw_pair, idle);
	uint64_t since = (mono_ns() - p->busy_at) / 1000000;

	if (p->ncalls || since < p->gw->idle_ms)
		loop_timer_set(p->gw->loop, t, p->ncalls ? p->gw->idle_ms : p->gw->idle_ms - (unsigned)since);
	else
		pair_end(p, "it was idle for longer than --idle allows");
}

static bool allowed(const struct gw_pair *p)
{
	struct sockaddr_storage local, peer;

	p->fab->addrs(p->conn, &local, &peer);
	return allow_peer(&p->gw->allow, &local, &peer);
}

void pair_request(void *ctx, struct fab_conn *c, const void *priv, size_t privlen)
{
	struct gateway *gw = ctx;
	struct gw_pair *p = calloc(1, sizeof(*p));
	struct errbuf eb = { "" };

	if (!p) {
		gw->fab->reject(c, NULL, 0);
		return;
	}
	p->gw = gw;
	p->fab = gw->fab;
	p->conn = c;
	p->id = ++gw->ids;
	p->tcp.fd = -1;
	loop_timer_init(&p->linger, on_linger);
	loop_timer_init(&p->idle, on_idle);
	loop_timer_init(&p->stall, on_stall);
	p->busy_at = mono_ns();
	list_init(&p->send_free);
	list_init(&p->free);
	list_init(&p->out);
	list_init(&p->calls);
	back_init(&p->back);
	drc_kept_init(&p->recent);
	list_add_tail(&gw->pairs, &p->node);
	if (!peer_enter(p)) {
		pair_end(p, "out of memory");
		return;
	}
	if (gw->allow.on && !allowed(p)) {
		pair_end(p, NULL);
		return;
	}
	if (gw->idle_ms)
		loop_timer_set(gw->loop, &p->idle, gw->idle_ms);
	if (start(p, priv, privlen, &eb))
		pair_end(p, eb.text);
}
