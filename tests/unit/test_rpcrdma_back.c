/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of the server on our connection. The test plays the server, which may not keep to its
 * credits, and our own callee, which answers with the call's third word turned round.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "buffers.h"
#include "fake_fabric.h"
#include "rpcrdma/impl.h"

#define CREDITS 16u
#define NRECVS  (CREDITS + RR_RECV_SPARE)

static struct loop *loop;
static struct arena arena;
static struct magazine mag;
static struct stats st;
static struct rr_conn *conn;
static unsigned downs, called, dones;
static uint32_t longest, answer_len;
static struct rr_path_stats path_stats[RR_PATHS_MAX];

static void on_down(void *ctx, void *owner, int err, const char *why)
{
	downs++;
}

static uint32_t on_called(void *ctx, const void *msg, uint32_t len, void *reply, uint32_t room)
{
	uint32_t w[3];

	called++;
	longest = room;
	cr_assert_geq(len, sizeof(w));
	cr_assert_leq(answer_len, room);
	memcpy(w, msg, sizeof(w));
	w[1] = htonl(1);
	w[2] = ~w[2];
	memset(reply, 0x5a, answer_len);
	memcpy(reply, w, answer_len < sizeof(w) ? answer_len : sizeof(w));
	return answer_len;
}

static void up(void)
{
	static const struct rr_path path = { .fabric = &fabric_fake };
	static const struct rr_way way = { .path = &path };
	struct errbuf eb = { "" };
	struct rr_link *link;

	cr_assert_eq(rr_link_open(conn, &way, &link, &eb), 0, "%s", eb.text);
	cr_assert_eq(rr_up(conn, link, false), 0);
}

static void setup(void)
{
	static const struct rr_events events = { .down = on_down, .called = on_called };
	const struct arena_counts counts = { .n = { 24, 0, 4, 2 } };
	const struct rr_config cfg = { .path_stats = path_stats, .credits = CREDITS, .nlanes = 1 };

	if (!fake_peer_priv_len)
		fake_peer_is_knfsd();
	loop = loop_new(NULL);
	cr_assert_eq(arena_init(&arena, &counts, 1), 0);
	magazine_init(&mag, &arena, loop, NULL, NULL);
	conn = rr_conn_new(&cfg, loop, &mag, &st, &events, NULL);
	cr_assert_not_null(conn);
	answer_len = 12;
	up();
}

static void setup_silent(void)
{
	fake_silent_sends = true;
	setup();
}

/* The server receives a KiB. */
static void setup_small(void)
{
	fake_peer_is_knfsd();
	fake_peer_priv[7] = 0;
	setup();
}

static void teardown(void)
{
	rr_conn_free(conn);
	cr_assert(!fake.open);
	magazine_fini(&mag);
	arena_fini(&arena);
	loop_free(loop);
}

TestSuite(back, .init = setup, .fini = teardown);

static void stop_loop(struct loop_timer *t)
{
	loop_stop(loop);
}

static void spin_loop(void)
{
	struct loop_timer t;

	loop_timer_init(&t, stop_loop);
	loop_timer_set(loop, &t, 5);
	cr_assert_eq(loop_run(loop), 0);
}

static struct rr_link *link_now(void)
{
	return container_of(conn->links.next, struct rr_link, node);
}

static uint32_t sent_word(unsigned send, unsigned i)
{
	uint32_t v;

	cr_assert_lt(send, fake.nsends);
	cr_assert_leq(4 * i + 4, fake.sends[send].len);
	memcpy(&v, fake.sends[send].bytes + 4 * i, 4);
	return ntohl(v);
}

static void deliver(unsigned n, const uint32_t *w)
{
	uint32_t wire[64];

	for (unsigned i = 0; i < n; i++)
		wire[i] = htonl(w[i]);
	fake_deliver(wire, n * 4);
}
#define DELIVER(...) deliver(sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, (uint32_t[]){ __VA_ARGS__ })

/* A call of the server, and a reply to one of ours. */
static void call(uint32_t xid)
{
	DELIVER(xid, 1, 99, 0, 0, 0, 0, xid, 0, xid + 7);
}

static void on_done(struct rr_call *rr, int status)
{
	cr_assert_eq(status, 0);
	dones++;
}

static struct rr_call ours;

static void submit(void)
{
	uint32_t *msg;

	ours = (struct rr_call){ .xid = rr_xid(conn), .msg_len = 64, .reply_max = 500, .done = on_done };
	ours.msg = magazine_get(&mag, ARENA_MSG);
	msg = (uint32_t *)(void *)((char *)ours.msg->mem + RR_HDR_ROOM);
	memset(msg, 0, 64);
	msg[0] = htonl(ours.xid);
	rr_submit(conn, &ours);
}

static void reply(uint32_t credit)
{
	DELIVER(ours.xid, 1, credit, 0, 0, 0, 0, ours.xid, 1, 0);
}

/* ---- */

Test(back, answered_out_of_its_receive)
{
	call(0x77);
	cr_assert_eq(called, 1);
	cr_assert_eq(fake.nsends, 1);
	cr_assert_eq(fake.sends[0].len, RR_HDR_MIN + 12);
	cr_assert_eq(sent_word(0, 0), 0x77);
	cr_assert_eq(sent_word(0, 1), 1);
	cr_assert_eq(sent_word(0, 2), RR_BACK_CREDITS);
	for (unsigned i = 3; i < 7; i++)
		cr_assert_eq(sent_word(0, i), 0);
	cr_assert_eq(sent_word(0, 7), 0x77);
	cr_assert_eq(sent_word(0, 8), 1);
	cr_assert_eq(sent_word(0, 9), ~(0x77u + 7));
	cr_assert_eq(fake.nrecvs, NRECVS - 1, "the device still reads it");
	fake_complete(0);
	cr_assert_eq(fake.nrecvs, NRECVS);
	cr_assert_eq(stat_get(&st, STAT_RPC_BACK_CALLS), 1);
}

Test(back, both_directions_may_have_the_same_xid)
{
	submit();
	fake_complete(0);
	call(ours.xid);
	cr_assert_eq(called, 1);
	cr_assert_eq(dones, 0);
	cr_assert_eq(sent_word(1, 8), 1);
	reply(8);
	cr_assert_eq(dones, 1);
	fake_complete(1);
	cr_assert_eq(fake.nrecvs, NRECVS);
	/* ... and while our own call has not left yet. */
	submit();
	call(ours.xid);
	fake_complete(3);
	cr_assert_eq(dones, 1);
	reply(8);
	fake_complete(2);
	cr_assert_eq(dones, 2);
	cr_assert_eq(fake.nrecvs, NRECVS);
}

Test(back, its_credits_are_no_grant)
{
	submit();
	fake_complete(0);
	reply(3);
	call(1);
	cr_assert_eq(link_now()->grant, 3);
}

Test(back, chunks_are_refused)
{
	unsigned n = 0;

	DELIVER(5, 1, 2, 0, 1, 12, 2, 3, 4, 5, 0, 0, 0, 5, 0, 9);      /* a Read chunk */
	DELIVER(6, 1, 2, 0, 0, 1, 1, 2, 3, 4, 5, 0, 0, 6, 0, 9);       /* a Write chunk */
	DELIVER(7, 1, 2, 0, 0, 0, 1, 1, 2, 3, 4, 5, 7, 0, 9);          /* a Reply chunk */
	DELIVER(8, 1, 2, 1, 1, 0, 2, 3, 4, 5, 0, 0, 0);                /* a Long Call */
	cr_assert_eq(called, 0);
	cr_assert_eq(fake.nsends, 4);
	for (; n < 4; n++) {
		cr_assert_eq(fake.sends[n].len, 20);
		cr_assert_eq(sent_word(n, 0), 5 + n);
		cr_assert_eq(sent_word(n, 3), RR_ERROR);
		cr_assert_eq(sent_word(n, 4), RR_ERR_CHUNK);
		fake_complete(n);
	}
	cr_assert_eq(fake.nrecvs, NRECVS);
	cr_assert_eq(downs, 0);
}

Test(back, chunks_with_the_xid_of_our_call)
{
	submit();
	fake_complete(0);
	DELIVER(ours.xid, 1, 2, 1, 1, 0, 2, 3, 4, 5, 0, 0, 0);
	cr_assert_eq(sent_word(1, 3), RR_ERROR);
	reply(1);
	cr_assert_eq(dones, 1);
	cr_assert_eq(downs, 0);
}

Test(back, what_invalidates_is_no_call)
{
	const uint32_t w[] = { htonl(1), htonl(1), htonl(2), 0, 0, 0, 0, htonl(1), 0, 0 };

	fake_deliver_inv(w, sizeof(w), 7);
	spin_loop();
	cr_assert_eq(downs, 1);
	cr_assert_eq(called, 0);
}

Test(back, nothing_to_say)
{
	answer_len = 0;
	for (unsigned i = 0; i < 100; i++)
		call(i);
	cr_assert_eq(called, 100);
	cr_assert_eq(fake.nsends, 0);
	cr_assert_eq(fake.nrecvs, NRECVS);
}

Test(back, longest_reply)
{
	answer_len = RR_INLINE - RR_HDR_MIN;
	call(1);
	cr_assert_eq(longest, RR_INLINE - RR_HDR_MIN);
	cr_assert_eq(fake.sends[0].len, RR_INLINE);
}

Test(back_small, longest_reply_by_the_threshold, .init = setup_small, .fini = teardown)
{
	call(1);
	cr_assert_eq(longest, 1024 - RR_HDR_MIN);
}

/* One after the other, as many as it likes. */
Test(back, a_thousand)
{
	for (unsigned i = 0; i < 1000; i++) {
		call(i);
		fake_complete(0);
		fake.nsends = 0;
	}
	cr_assert_eq(called, 1000);
	cr_assert_eq(fake.nrecvs, NRECVS);
	cr_assert_eq(downs, 0);
}

/* It does not take our replies, or makes calls that it has no credits for. */
Test(back, more_than_it_was_granted)
{
	for (unsigned i = 0; i < RR_BACK_MAX; i++)
		call(i);
	cr_assert_eq(called, RR_BACK_MAX);
	spin_loop();
	cr_assert_eq(downs, 0);
	cr_assert_geq(fake.nrecvs, CREDITS, "a reply to each of our calls finds a receive");
	call(99);
	cr_assert_eq(called, RR_BACK_MAX);
	call(100);
	spin_loop();
	cr_assert_eq(downs, 1);
	up();
	call(1);
	cr_assert_eq(called, RR_BACK_MAX + 1);
	cr_assert_eq(fake.nsends, 1);
}

Test(back_silent, a_reply_waits_for_room, .init = setup_silent, .fini = teardown)
{
	submit();
	fake_post_send_error = -EAGAIN;
	call(1);
	call(2);
	cr_assert_eq(fake.nsends, 1);
	cr_assert_eq(fake.nrecvs, NRECVS - 2);
	fake_post_send_error = 0;
	fake.ev->sent(fake.ctx, NULL);
	cr_assert_eq(fake.nsends, 3);
	cr_assert_eq(sent_word(1, 7), 1);
	cr_assert_eq(sent_word(2, 7), 2);
	fake_complete(2);
	fake_complete(1);
	cr_assert_eq(fake.nrecvs, NRECVS);
	reply(8);
	cr_assert_eq(dones, 1);
	cr_assert_eq(downs, 0);
}

Test(back, a_reply_that_cannot_be_sent)
{
	fake_post_send_error = -EIO;
	call(1);
	call(2);
	fake_post_send_error = 0;
	cr_assert_eq(called, 1, "the link is given up");
	spin_loop();
	cr_assert_eq(downs, 1);
}

/* The connection dies between the call and its reply: nothing of it is left for the next one. */
Test(back, connection_dies_before_the_reply_has_left)
{
	submit();
	call(1);
	fake_post_send_error = -EAGAIN;
	call(2);
	fake_post_send_error = 0;
	fake_break();
	cr_assert_eq(downs, 1);
	up();
	cr_assert_eq(fake.nsends, 1, "our call again, and no reply");
	cr_assert_eq(sent_word(0, 7), ours.xid);
	cr_assert_eq(fake.nrecvs, NRECVS);
	fake_complete(0);
	cr_assert_eq(fake.nsends, 1);
	reply(8);
	cr_assert_eq(dones, 1);
}
