/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The requester with a server that the test plays: credits, matching, chunks in the header,
 * loss and replay, and wrong replies.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "buffers.h"
#include "fake_fabric.h"
#include "rpcrdma/impl.h"

#define CALLS 24
#define CREDITS 16u

static struct loop *loop;
static struct arena arena;
static struct magazine mag;
static struct stats st;
static struct rr_conn *conn;
static unsigned downs;

struct test_call {
	unsigned renewals;
	struct rr_call rr;
	unsigned dones;
	int status;
	uint8_t reply[128];
	uint32_t reply_len;
};
static struct test_call calls[CALLS];

static void on_down(void *ctx, void *owner, int err, const char *why)
{
	(void)ctx;
	(void)owner;
	(void)why;
	cr_assert_lt(err, 0);
	downs++;
}
static const struct rr_events events = { .down = on_down };

static void on_done(struct rr_call *rr, int status)
{
	struct test_call *t = container_of(rr, struct test_call, rr);

	t->dones++;
	t->status = status;
	if (!status) {
		t->reply_len = rr->reply_len;
		memcpy(t->reply, rr->reply, rr->reply_len < 128 ? rr->reply_len : 128);
	}
}

/* The peer's inline thresholds, in KiB: what it sends and receives. */
static void peer_inline(unsigned send, unsigned recv)
{
	fake_peer_priv[6] = (uint8_t)(send - 1);
	fake_peer_priv[7] = (uint8_t)(recv - 1);
	fake_peer_priv_len = 8;
}

static const struct rr_path path = { .fabric = &fabric_fake };
static const struct rr_way way = { .path = &path };
static struct rr_path_stats path_stats[RR_PATHS_MAX];

static void up(void)
{
	struct rr_link *link;
	struct errbuf eb = { "" };

	cr_assert_eq(rr_link_open(conn, &way, &link, &eb), 0, "%s", eb.text);
	cr_assert_eq(rr_up(conn, link, false), 0);
}

static void buffers_back(void *ctx)
{
	(void)ctx;
	rr_retry(conn);
}

static void setup_lanes(unsigned nlanes, unsigned credits)
{
	struct arena_counts counts = { .n = { 24, 0, 4, 2 } };
	struct rr_config cfg = {
		.path_stats = path_stats, .credits = credits, .lane = 1, .nlanes = nlanes,
	};

	fake_peer_is_knfsd();
	loop = loop_new(NULL);
	cr_assert_eq(arena_init(&arena, &counts, 1), 0);
	magazine_init(&mag, &arena, loop, buffers_back, NULL);
	conn = rr_conn_new(&cfg, loop, &mag, &st, &events, NULL);
	cr_assert_not_null(conn);
	up();
}

static void setup(void)
{
	setup_lanes(2, CREDITS);
}

static void setup_16(void)
{
	setup_lanes(16, 2 * CREDITS);
}

static void teardown(void)
{
	rr_conn_free(conn);
	cr_assert(!fake.open);
	magazine_fini(&mag);
	arena_fini(&arena);
	loop_free(loop);
}

static void stop_loop(struct loop_timer *t)
{
	(void)t;
	loop_stop(loop);
}

/* Lets timers that are due run. */
static void spin_loop(void)
{
	struct loop_timer t;

	loop_timer_init(&t, stop_loop);
	loop_timer_set(loop, &t, 5);
	cr_assert_eq(loop_run(loop), 0);
}

/* A call whose message is its XID, CALL, and then a count of words. */
static struct test_call *prepare(unsigned i, uint32_t len)
{
	struct test_call *t = &calls[i];
	uint32_t *msg;

	memset(t, 0, sizeof(*t));
	t->rr.msg = magazine_get(&mag, len > 4500 ? ARENA_MID : ARENA_MSG);
	cr_assert_not_null(t->rr.msg);
	t->rr.xid = rr_xid(conn);
	t->rr.msg_len = len;
	t->rr.reply_max = 500;
	t->rr.done = on_done;
	msg = (uint32_t *)(void *)((char *)t->rr.msg->mem + RR_HDR_ROOM);
	for (uint32_t w = 0; w < len / 4; w++)
		msg[w] = htonl(w);
	msg[0] = htonl(t->rr.xid);
	msg[1] = 0;
	return t;
}

static struct test_call *submit(unsigned i)
{
	struct test_call *t = prepare(i, 64);

	rr_submit(conn, &t->rr);
	return t;
}

static uint32_t word(const uint8_t *p, unsigned i)
{
	uint32_t v;

	memcpy(&v, p + 4 * i, 4);
	return ntohl(v);
}

/* An RDMA_MSG without chunks around {xid, type, marker}. */
static void reply_type(uint32_t xid, uint32_t credit, uint32_t type)
{
	uint32_t w[10] = { xid, 1, credit, 0, 0, 0, 0, xid, type, 0xbeef };

	for (unsigned i = 0; i < 10; i++)
		w[i] = htonl(w[i]);
	fake_deliver(w, sizeof(w));
}

static void reply(const struct test_call *t, uint32_t credit)
{
	reply_type(t->rr.xid, credit, 1);
}

/* ---- credits and matching ---- */

Test(conn, one_call_until_the_first_reply, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0);

	submit(1);
	submit(2);
	cr_assert_eq(fake.nsends, 1, "only one before a grant is known");
	cr_assert_eq(word(fake.sends[0].bytes, 0), a->rr.xid);
	cr_assert_eq(word(fake.sends[0].bytes, 2), CREDITS, "asks for its maximum");
	fake_complete(0);
	cr_assert_eq(a->dones, 0);
	reply(a, 2);
	cr_assert(a->dones == 1 && a->status == 0 && a->reply_len == 12);
	cr_assert_eq(word(a->reply, 2), 0xbeef);
	cr_assert_eq(fake.nsends, 3, "the grant of 2 lets both go");
}

Test(conn, done_needs_both_reply_and_send_completion, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0);

	reply(a, 4);
	cr_assert_eq(a->dones, 0, "the device still has the message");
	fake_complete(0);
	cr_assert_eq(a->dones, 1);
	cr_assert_eq(fake.nrecvs, CREDITS + RR_RECV_SPARE, "the receive was posted again");
}

Test(conn, grant_of_zero_is_one, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0), *b = submit(1);

	submit(2);
	fake_complete(0);
	reply(a, 0);
	cr_assert_eq(fake.nsends, 2);
	fake_complete(1);
	reply(b, 0);
	cr_assert_eq(fake.nsends, 3);
}

Test(conn, falling_grant_is_obeyed, .init = setup, .fini = teardown)
{
	struct test_call *t[6];

	t[0] = submit(0);
	fake_complete(0);
	reply(t[0], 4);
	for (unsigned i = 1; i < 6; i++)
		t[i] = submit(i);
	cr_assert_eq(fake.nsends, 5, "four in flight");
	for (unsigned i = 1; i < 5; i++)
		fake_complete(i);
	reply(t[1], 2);
	cr_assert_eq(fake.nsends, 5, "three in flight, two allowed");
	reply(t[2], 2);
	cr_assert_eq(fake.nsends, 5, "two in flight");
	reply(t[3], 2);
	cr_assert_eq(fake.nsends, 6);
}

Test(conn, huge_grant_is_capped, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0);

	fake_complete(0);
	reply(a, UINT32_MAX);
	for (unsigned i = 1; i < CALLS - 3; i++)
		submit(i);
	cr_assert_eq(fake.nsends, 1 + CREDITS);
}

Test(conn, replies_out_of_order, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0), *b, *c;

	fake_complete(0);
	reply(a, 8);
	b = submit(1);
	c = submit(2);
	fake_complete(1);
	fake_complete(2);
	reply(c, 8);
	cr_assert(c->dones == 1 && b->dones == 0);
	reply(b, 8);
	cr_assert_eq(b->dones, 1);
}

Test(conn, xids_of_lanes_differ, .init = setup, .fini = teardown)
{
	uint32_t x = rr_xid(conn);

	cr_assert_eq(x >> 31, 1, "lane 1 of 2");
	cr_assert_eq(rr_xid(conn), (x + 1) | 1u << 31);
}

/* Each of these calls has a chain of the table to itself. */
Test(conn, xids_of_16_lanes_are_spread, .init = setup_16, .fini = teardown)
{
	struct test_call *a = submit(0);

	fake_complete(0);
	reply(a, 2 * CREDITS);
	for (unsigned i = 1; i < CALLS - 2; i++)
		submit(i);
	cr_assert_eq(fake.nsends, CALLS - 2, "all in flight");
	for (unsigned i = 0; i < RR_HASH; i++)
		cr_assert(!conn->calls[i] || !conn->calls[i]->next, "chain %u", i);
}

/* ---- what is not a reply ---- */

Test(conn, back_call_is_not_a_reply, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0);

	fake_complete(0);
	/* Same XID as our call, but the message is a CALL of the server, and nobody takes those. */
	reply_type(a->rr.xid, 8, 0);
	cr_assert_eq(a->dones, 0);
	cr_assert_eq(stat_get(&st, STAT_RPC_BACK_CALLS), 1);
	cr_assert_eq(fake.nrecvs, CREDITS + RR_RECV_SPARE, "its buffer was posted again");
	reply(a, 8);
	cr_assert_eq(a->dones, 1);
}

Test(conn, unknown_and_duplicate_replies_are_dropped, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0);

	reply_type(a->rr.xid + 1, 8, 1);
	cr_assert_eq(a->dones, 0);
	reply(a, 8);
	reply(a, 8);            /* while it waits for its Send to complete */
	fake_complete(0);
	reply(a, 8);
	cr_assert_eq(a->dones, 1);
	cr_assert_eq(stat_get(&st, STAT_RPC_BAD_REPLIES), 3);
	cr_assert_eq(fake.nrecvs, CREDITS + RR_RECV_SPARE);
}

static void deliver_to(struct test_call *a, const uint32_t *w, unsigned n)
{
	uint32_t wire[32];

	for (unsigned i = 0; i < n; i++)
		wire[i] = htonl(w[i]);
	wire[0] = htonl(a->rr.xid);
	fake_deliver(wire, n * 4);
	cr_assert_eq(fake.nrecvs, CREDITS + RR_RECV_SPARE);
}

static void deliver(struct test_call *a, const uint32_t *w, unsigned n)
{
	fake_complete(fake.nsends - 1);
	deliver_to(a, w, n);
}

/* Delivers a reply that ends the call. */
static void end_reply(struct test_call *a, const uint32_t *w, unsigned n)
{
	deliver(a, w, n);
	cr_assert_eq(a->dones, 1);
}

/* A reply that cannot be decoded: the call is sent again on a new link. It fails only after
 * the third such reply, when the peer cannot reach its buffers any more. */
static void bad_reply(struct test_call *a, const uint32_t *w, unsigned n)
{
	for (unsigned i = 1; i <= 3; i++) {
		deliver(a, w, n);
		cr_assert_eq(a->dones, 0, "not while the link is there");
		cr_assert(fake.open);
		spin_loop();
		cr_assert(!fake.open);
		cr_assert_eq(a->dones, i == 3);
		up();
		cr_assert_eq(fake.nsends, i < 3, "sent again");
	}
	cr_assert_eq(a->status, -EBADMSG);
}
#define WORDS(...) (uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4
#define END(a, ...) end_reply(a, WORDS(__VA_ARGS__))
#define BAD(a, ...) bad_reply(a, WORDS(__VA_ARGS__))

Test(conn, malformed_replies_fail_their_call, .init = setup, .fini = teardown)
{
	struct test_call *a;
	unsigned i = 0;

	a = submit(i++);
	BAD(a, 0, 1, 8, 0);                                     /* cut off */
	a = submit(i++);
	BAD(a, 0, 1, 8, 0, 1, 0, 1, 2, 3, 4, 0, 0, 0, 0, 1);    /* a Read list in a reply */
	a = submit(i++);
	BAD(a, 0, 1, 8, 0, 0, 1, 1, 2, 3, 4, 5, 0, 0, 0, 1);    /* a Write chunk not offered */
	a = submit(i++);
	BAD(a, 0, 1, 8, 1, 0, 0, 0);                            /* NOMSG, no Reply chunk */
	a = submit(i++);
	BAD(a, 0, 1, 8, 1, 0, 0, 1, 1, 2, 64, 4, 5);            /* NOMSG, none offered */
	a = submit(i++);
	BAD(a, 0, 2, 8, 0, 0, 0, 0, 1, 1);                      /* another version */
	a = submit(i++);
	BAD(a, 0, 1, 8, 0, 0, 0, 0);                            /* no message */
	a = submit(i++);
	BAD(a, 0, 1, 8, 0, 0, 0, 0, a->rr.xid + 1, 1);          /* another call's message */
}

Test(conn, rdma_errors_fail_their_call, .init = setup, .fini = teardown)
{
	struct test_call *a;

	a = submit(0);
	END(a, 0, 1, 8, 4, 2);                                  /* ERR_CHUNK */
	cr_assert_eq(a->status, -EREMOTEIO);
	a = submit(1);
	END(a, 0, 1, 8, 4, 1, 2, 3);                            /* ERR_VERS */
	cr_assert_eq(a->status, -EPROTONOSUPPORT);
	cr_assert(fake.open);
}

Test(conn, malformed_reply_then_a_good_one, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0), *b;

	deliver(a, WORDS(0, 1, 8, 0));
	spin_loop();
	cr_assert_eq(downs, 1);
	b = submit(1);
	up();
	cr_assert_eq(word(fake.sends[0].bytes, 0), a->rr.xid, "the same call");
	fake_complete(0);
	reply(a, 8);
	cr_assert(a->dones == 1 && a->status == 0 && a->rr.sends == 2);
	fake_complete(1);
	reply(b, 8);
	cr_assert(b->dones == 1 && b->status == 0);
}

/* They may all have come before the link is closed. */
Test(conn, malformed_replies_to_one_sending_count_once, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0);

	deliver(a, WORDS(0, 1, 8, 0));
	for (unsigned i = 1; i < RR_BAD_MAX; i++)
		deliver_to(a, WORDS(0, 1, 8, 0));
	cr_assert_eq(downs, 0);
	spin_loop();
	cr_assert(downs == 1 && a->dones == 0);
	up();
	fake_complete(0);
	reply(a, 8);
	cr_assert(a->dones == 1 && a->status == 0 && a->rr.sends == 2);
}

Test(conn, message_without_an_xid_is_not_waited_for, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0);

	fake_deliver("", 0);
	spin_loop();
	cr_assert(downs == 1 && a->dones == 0);
	up();
	fake_complete(0);
	reply(a, 8);
	cr_assert(a->dones == 1 && a->status == 0);
}

/* ---- chunks ---- */

/* What a segment names. */
static uint8_t *segment(const uint8_t *h, unsigned at)
{
	return (uint8_t *)(uintptr_t)((uint64_t)word(h, at + 2) << 32 | word(h, at + 3));
}

static struct test_call *submit_read(unsigned i, struct arena_buf *sink, uint32_t len)
{
	struct test_call *t = prepare(i, 128);

	t->rr.sink[0] = (struct rr_iov){ sink->mem, len };
	rr_submit(conn, &t->rr);
	return t;
}

Test(conn, read_data_is_placed_in_the_sink, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);
	struct test_call *a = submit_read(0, sink, 1u << 20);
	const uint8_t *h = fake.sends[0].bytes;
	uint64_t addr = (uint64_t)word(h, 9) << 32 | word(h, 10);

	/* xid vers credit MSG | no reads | 1 chunk of 1 segment | no reply chunk */
	cr_assert(word(h, 3) == 0 && word(h, 4) == 0 && word(h, 5) == 1 && word(h, 6) == 1);
	cr_assert_eq(word(h, 7), fake.rkey);
	cr_assert_eq(word(h, 8), 1u << 20);
	cr_assert_eq(addr, (uintptr_t)sink->mem, "the segment names the sink itself");
	cr_assert(word(h, 11) == 0 && word(h, 12) == 0);
	cr_assert_eq(word(h, 13), a->rr.xid, "the RPC message follows");
	cr_assert_eq(fake.sends[0].len, 52 + 128);

	fake_complete(0);
	END(a, 0, 1, 8, 0, 0, 1, 1, fake.rkey, 1000, 0, 0, 0, 0, a->rr.xid, 1);
	cr_assert_eq(a->status, 0);
	cr_assert(a->rr.placed && a->rr.placed_len == 1000 && a->rr.data == sink->mem);
}

Test(conn, more_than_the_sink_holds_is_refused, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);
	struct test_call *a = submit_read(0, sink, 8192);

	BAD(a, 0, 1, 8, 0, 0, 1, 1, fake.rkey, 8193, 0, 0, 0, 0, a->rr.xid, 1);
	a = submit_read(1, sink, 8192);
	/* The sum must not wrap. */
	BAD(a, 0, 1, 8, 0, 0, 1, 2, 1, 0xffffffff, 0, 0, 1, 2, 0, 0, 0, 0, a->rr.xid, 1);
	a = submit_read(2, sink, 8192);
	/* The offered chunk must come back. */
	BAD(a, 0, 1, 8, 0, 0, 0, 0, a->rr.xid, 1);
}

/* A READ into all pieces that there may be, of so many bytes each. */
static struct test_call *submit_large_read(unsigned i, struct arena_buf *sink, uint32_t len)
{
	struct test_call *t = prepare(i, 128);

	for (uint32_t s = 0; s < RR_SINK_IOV; s++)
		t->rr.sink[s] = (struct rr_iov){ (char *)sink->mem + (RR_SINK_IOV - 1 - s) * len, len };
	rr_submit(conn, &t->rr);
	return t;
}

Test(conn, read_data_is_placed_in_several_pieces, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);
	struct test_call *a = submit_large_read(0, sink, 8192);
	const uint8_t *h = fake.sends[0].bytes;

	cr_assert(word(h, 4) == 0 && word(h, 5) == 1 && word(h, 6) == RR_SINK_IOV);
	for (unsigned s = 0; s < RR_SINK_IOV; s++) {
		cr_assert_eq(word(h, 8 + 4 * s), 8192);
		cr_assert_eq(segment(h, 7 + 4 * s), a->rr.sink[s].mem);
	}
	fake_complete(0);
	END(a, 0, 1, 8, 0, 0, 1, 4, fake.rkey, 8192, 0, 0, fake.rkey, 100, 0, 0, fake.rkey, 0, 0, 0,
	    fake.rkey, 0, 0, 0, 0, 0, a->rr.xid, 1);
	cr_assert_eq(a->status, 0);
	cr_assert(a->rr.placed && a->rr.placed_len == 8292 && a->rr.data == a->rr.sink[0].mem);
}

/* What lies where is known only if each segment but the last one with data is full. */
Test(conn, a_hole_in_what_was_placed, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);
	struct test_call *a = submit_large_read(0, sink, 8192);

	BAD(a, 0, 1, 8, 0, 0, 1, 4, fake.rkey, 8191, 0, 0, fake.rkey, 1, 0, 0, fake.rkey, 0, 0, 0,
	    fake.rkey, 0, 0, 0, 0, 0, a->rr.xid, 1);
	a = submit_large_read(1, sink, 8192);
	BAD(a, 0, 1, 8, 0, 0, 1, 4, fake.rkey, 8192, 0, 0, fake.rkey, 0, 0, 0, fake.rkey, 8192, 0, 0,
	    fake.rkey, 0, 0, 0, 0, 0, a->rr.xid, 1);
	a = submit_large_read(2, sink, 8192);
	/* The sum is right. */
	BAD(a, 0, 1, 8, 0, 0, 1, 2, fake.rkey, 8192, 0, 0, fake.rkey, 8193, 0, 0, 0, 0, a->rr.xid, 1);
}

/* One segment was offered: what would the second be? The sum says nothing about what lies in the
 * first. */
Test(conn, more_segments_than_were_offered, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);
	struct test_call *a = submit_read(0, sink, 8192);

	BAD(a, 0, 1, 8, 0, 0, 1, 2, fake.rkey, 4096, 0, 0, 1, 4096, 0, 0, 0, 0, a->rr.xid, 1);
}

/* A server that does not use the chunk gives it back empty, and the data may be in the
 * message. */
Test(conn, read_data_in_the_message_although_there_is_a_sink, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);
	struct test_call *a = submit_read(0, sink, 8192);

	END(a, 0, 1, 8, 0, 0, 1, 1, fake.rkey, 0, 0, 0, 0, 0, a->rr.xid, 1, 0xda7a);
	cr_assert(a->status == 0 && !a->rr.placed && a->rr.placed_len == 0);
	cr_assert(a->reply_len == 12 && word(a->reply, 2) == 0xda7a);
}

Test(conn, write_data_travels_in_a_read_chunk, .init = setup, .fini = teardown)
{
	struct arena_buf *head = magazine_get(&mag, ARENA_MID), *tail = magazine_get(&mag, ARENA_BIG);
	struct test_call *t = prepare(0, 136);
	const uint8_t *h = fake.sends[0].bytes;

	t->rr.nsend = 2;
	t->rr.send[0] = (struct rr_iov){ (char *)head->mem + 80, 65456 };
	t->rr.send[1] = (struct rr_iov){ tail->mem, 983120 };
	t->rr.data_pos = 120;
	rr_submit(conn, &t->rr);
	for (unsigned s = 0; s < 2; s++) {
		unsigned w = 4 + 6 * s;

		cr_assert(word(h, w) == 1 && word(h, w + 1) == 120, "one chunk: one position");
		cr_assert_eq(word(h, w + 2), fake.rkey);
		cr_assert_eq(word(h, w + 3), t->rr.send[s].len);
		cr_assert_eq((uint64_t)word(h, w + 4) << 32 | word(h, w + 5),
			     (uintptr_t)t->rr.send[s].mem);
	}
	cr_assert(word(h, 16) == 0 && word(h, 17) == 0 && word(h, 18) == 0);
	cr_assert_eq(fake.sends[0].len, 76 + 136);
	cr_assert_eq(stat_get(&st, STAT_WRITE_CHUNK_BYTES), 1u << 20);
}

Test(conn, small_write_data_goes_into_the_message, .init = setup, .fini = teardown)
{
	struct arena_buf *head = magazine_get(&mag, ARENA_MID);
	struct test_call *t = prepare(0, 64);
	const uint8_t *m = fake.sends[0].bytes + RR_HDR_MIN;

	memcpy(head->mem, "hello", 5);
	t->rr.nsend = 1;
	t->rr.send[0] = (struct rr_iov){ head->mem, 5 };
	t->rr.data_pos = 40;
	rr_submit(conn, &t->rr);
	cr_assert_eq(fake.sends[0].len, RR_HDR_MIN + 64 + 8);
	cr_assert_eq(word(m, 9), 9, "what is before it stays");
	cr_assert(memcmp(m + 40, "hello\0\0\0", 8) == 0, "data and its pad");
	cr_assert_eq(word(m, 12), 10, "what is after it follows");
	/* A replay must not insert it twice. */
	fake_break();
	up();
	cr_assert_eq(fake.sends[0].len, RR_HDR_MIN + 64 + 8);
}

/* Where the Reply chunk of send s lies, when it has no other chunk. */
static void *chunk_at(unsigned s)
{
	const uint8_t *h = fake.sends[s].bytes;

	cr_assert(word(h, 6) == 1 && word(h, 7) == 1, "a Reply chunk of one segment");
	return (void *)(uintptr_t)((uint64_t)word(h, 10) << 32 | word(h, 11));
}

Test(conn, long_reply_in_a_reply_chunk, .init = setup, .fini = teardown)
{
	struct test_call *t = prepare(0, 64);
	const uint8_t *h = fake.sends[0].bytes;
	uint32_t w[2];

	t->rr.reply_max = 60000;
	rr_submit(conn, &t->rr);
	cr_assert(word(h, 4) == 0 && word(h, 5) == 0 && word(h, 6) == 1 && word(h, 7) == 1);
	cr_assert_eq(word(h, 9), ARENA_MID_SIZE);
	w[0] = htonl(t->rr.xid);
	w[1] = htonl(1);
	memcpy(chunk_at(0), w, 8);
	END(t, 0, 1, 8, 1, 0, 0, 1, 1, fake.rkey, 8, 0, 0);
	cr_assert(t->status == 0 && t->reply_len == 8 && word(t->reply, 1) == 1);
	/* A server that answers inline and gives the chunk back unused. */
	t->dones = 0;
	t->rr.xid = rr_xid(conn);
	rr_submit(conn, &t->rr);
	END(t, 0, 1, 8, 0, 0, 0, 1, 1, fake.rkey, 0, 0, 0, t->rr.xid, 1, 5);
	cr_assert(t->status == 0 && t->reply_len == 12 && word(t->reply, 2) == 5);
	/* A length beyond the buffer. */
	t->dones = 0;
	t->rr.xid = rr_xid(conn);
	rr_submit(conn, &t->rr);
	BAD(t, 0, 1, 8, 1, 0, 0, 1, 1, fake.rkey, (uint32_t)ARENA_MID_SIZE + 1, 0, 0);
	/* Two segments. */
	t->dones = 0;
	t->rr.xid = rr_xid(conn);
	rr_submit(conn, &t->rr);
	w[0] = htonl(t->rr.xid);
	memcpy(chunk_at(0), w, 8);
	BAD(t, 0, 1, 8, 1, 0, 0, 1, 2, fake.rkey, 4, 0, 0, fake.rkey, 4, 0, 4);
}

Test(conn, long_call, .init = setup, .fini = teardown)
{
	struct test_call *t = prepare(0, 5000);
	const uint8_t *h = fake.sends[0].bytes;

	rr_submit(conn, &t->rr);
	cr_assert_eq(word(h, 3), RR_NOMSG);
	cr_assert(word(h, 4) == 1 && word(h, 5) == 0, "Position Zero");
	cr_assert_eq(word(h, 7), 5000);
	cr_assert_eq((uint64_t)word(h, 8) << 32 | word(h, 9),
		     (uintptr_t)t->rr.msg->mem + RR_HDR_ROOM);
	cr_assert_eq(fake.sends[0].len, RR_HDR_MIN + RR_READ_SEG_BYTES, "no message follows");
}

/* ---- the text of links ---- */

static void reconnect(unsigned send, unsigned recv)
{
	fake_break();
	peer_inline(send, recv);
	up();
	cr_assert_eq(fake.nsends, 1, "sent again");
}

/* A READLINK: up to 4,096 bytes, for which this module has a buffer. */
static struct test_call *submit_readlink(unsigned i)
{
	struct test_call *t = prepare(i, 64);

	t->rr.reply_max = 120;
	t->rr.sink[0].len = 4096;
	rr_submit(conn, &t->rr);
	return t;
}

static bool among_data_buffers(const void *p)
{
	return (const char *)p >= (char *)arena.data.base &&
	       (const char *)p < (char *)arena.data.base + arena.data.len;
}

Test(conn, text_of_a_link_is_placed_and_copied, .init = setup, .fini = teardown)
{
	const uint8_t *h = fake.sends[0].bytes;
	unsigned mid = buffers_free(&mag, ARENA_MID);
	struct test_call *t = submit_readlink(0);

	cr_assert(word(h, 4) == 0 && word(h, 5) == 1 && word(h, 6) == 1 && word(h, 11) == 0);
	cr_assert_eq(word(h, 12), 0, "no Reply chunk");
	cr_assert_eq(word(h, 8), 4096, "and no more than that can be written");
	cr_assert(among_data_buffers(segment(h, 7)));
	memcpy(segment(h, 7), "over/there", 10);
	END(t, 0, 1, 8, 0, 0, 1, 1, fake.rkey, 10, 0, 0, 0, 0, t->rr.xid, 1, 10);
	cr_assert(t->status == 0 && t->rr.placed && t->rr.placed_len == 10);
	cr_assert(!memcmp(t->rr.data, "over/there", 10));
	cr_assert(!among_data_buffers(t->rr.data), "where no peer can change it");
	cr_assert_eq(buffers_free(&mag, ARENA_MID), mid);
}

Test(conn, text_of_a_link_that_is_not_placed, .init = setup, .fini = teardown)
{
	unsigned mid = buffers_free(&mag, ARENA_MID);
	struct test_call *t = submit_readlink(0);

	END(t, 0, 1, 8, 0, 0, 1, 1, fake.rkey, 0, 0, 0, 0, 0, t->rr.xid, 1, 70);
	cr_assert(t->status == 0 && !t->rr.placed && t->reply_len == 12 && word(t->reply, 2) == 70);
	cr_assert_eq(buffers_free(&mag, ARENA_MID), mid);
}

Test(conn, text_of_a_link_that_is_too_long, .init = setup, .fini = teardown)
{
	struct test_call *t = submit_readlink(0);

	BAD(t, 0, 1, 8, 0, 0, 1, 1, fake.rkey, 4097, 0, 0, 0, 0, t->rr.xid, 1);
	t = submit_readlink(1);
	BAD(t, 0, 1, 8, 0, 0, 1, 2, 1, 0xffffffff, 0, 0, 1, 2, 0, 0, 0, 0, t->rr.xid, 1);
	t = submit_readlink(2);
	BAD(t, 0, 1, 8, 0, 0, 0, 0, t->rr.xid, 1);
	cr_assert_eq(stat_get(&st, STAT_RPC_BAD_REPLIES), 9);
}

/* A server that says the reply is in the chunk that was offered for the text alone. */
Test(conn, reply_in_the_chunk_for_a_text, .init = setup, .fini = teardown)
{
	struct test_call *t = submit_readlink(0);
	uint32_t w[3];

	for (unsigned i = 1; i <= 3; i++) {
		w[0] = htonl(t->rr.xid);
		w[1] = htonl(1);
		memcpy(segment(fake.sends[0].bytes, 7), w, 8);
		deliver(t, WORDS(0, 1, 8, 1, 0, 1, 1, fake.rkey, 0, 0, 0, 0, 1, 1, fake.rkey, 8, 0, 0));
		spin_loop();
		cr_assert_eq(t->dones, i == 3);
		up();
	}
	cr_assert_eq(t->status, -EBADMSG);
}

/* Each connection has a buffer of its own: the server of the first one may have been about
 * to write. */
Test(conn, text_of_a_link_by_the_thresholds_of_the_day, .init = setup, .fini = teardown)
{
	const uint8_t *h = fake.sends[0].bytes;
	unsigned mid = buffers_free(&mag, ARENA_MID);
	struct test_call *t = submit_readlink(0);

	for (unsigned i = 0; i < 2; i++) {
		fake_break();
		cr_assert_eq(buffers_free(&mag, ARENA_MID), mid, "given back with the connection");
		peer_inline(1, 1);
		up();
		cr_assert(word(h, 5) == 1 && word(h, 8) == 4096 && t->dones == 0);
	}
	t->rr.sink[0].len = t->rr.sink_len = 100;       /* as if it fitted inline */
	fake_break();
	up();
	cr_assert_eq(word(h, 5), 0);
	cr_assert_eq(buffers_free(&mag, ARENA_MID), mid);
	END(t, 0, 1, 8, 0, 0, 0, 0, t->rr.xid, 1, 10);
	cr_assert(t->status == 0 && !t->rr.placed);
}

static const char plain_memory[] = "0123456789abcdefghijklmnopqrstuvwxyz/ABCDEFGHIJKLMNOPQRSTUVWXYZ.";

/* A SYMLINK of version 4: something comes behind the target. */
static struct test_call *submit_symlink(unsigned i, uint32_t msg_len, uint32_t len)
{
	static char target[4096];
	struct test_call *t = prepare(i, msg_len);

	for (unsigned n = 0; n < sizeof(target); n++)
		target[n] = plain_memory[n % 64];
	t->rr.nsend = 1;
	t->rr.send[0] = (struct rr_iov){ target, len };
	t->rr.send_copied = true;
	t->rr.data_pos = 40;
	rr_submit(conn, &t->rr);
	return t;
}

/* The message at m, in which there are so many bytes of data, with their pad. */
static void expect_message(const uint8_t *m, uint32_t msg_len, uint32_t len)
{
	uint32_t padded = (len + 3) & ~3u;

	for (unsigned w = 2; w < 10; w++)
		cr_assert_eq(word(m, w), w);
	for (unsigned n = 0; n < padded; n++)
		cr_assert_eq(m[40 + n], n < len ? (uint8_t)plain_memory[n % 64] : 0, "byte %u", n);
	for (unsigned w = 10; w < msg_len / 4; w++)
		cr_assert_eq(word(m, w + padded / 4), w);
}

Test(conn, target_of_a_link_travels_in_a_read_chunk, .init = setup, .fini = teardown)
{
	const uint8_t *h = fake.sends[0].bytes, *data;
	unsigned mid = buffers_free(&mag, ARENA_MID);
	struct test_call *t = submit_symlink(0, 400, 4095);

	cr_assert(word(h, 3) == RR_MSG && word(h, 4) == 1 && word(h, 5) == 40 && word(h, 10) == 0);
	cr_assert_eq(word(h, 7), 4095, "without its pad");
	cr_assert_eq(fake.sends[0].len, 52 + 400);
	expect_message(h + 52, 400, 0);
	data = segment(h, 6);
	cr_assert(among_data_buffers(data), "a copy");
	cr_assert(!memcmp(data, t->rr.send[0].mem, 4095) && data[4095] == 0);
	cr_assert_eq(stat_get(&st, STAT_WRITE_CHUNK_BYTES), 0, "no file data");
	fake_complete(0);
	reply(t, 8);
	cr_assert(t->dones == 1 && t->status == 0);
	cr_assert_eq(buffers_free(&mag, ARENA_MID), mid);
}

/* It needs a Reply chunk as well: they share a buffer, and do not overlap. */
Test(conn, target_of_a_link_beside_a_reply_chunk, .init = setup, .fini = teardown)
{
	const uint8_t *h = fake.sends[0].bytes;
	struct test_call *t;

	fake_break();
	peer_inline(1, 1);
	up();
	t = submit_symlink(0, 400, 3001);
	t->rr.reply_max = 1500;
	fake_break();
	up();
	cr_assert(word(h, 4) == 1 && word(h, 7) == 3001 && word(h, 10) == 0 && word(h, 11) == 0);
	cr_assert(word(h, 12) == 1 && word(h, 13) == 1);
	cr_assert_eq(word(h, 15), RR_REPLY_ROOM - 3008);
	cr_assert_eq(segment(h, 14) + word(h, 15), segment(h, 6));
	memset(segment(h, 14), 0xff, word(h, 15));
	cr_assert(!memcmp(segment(h, 6), t->rr.send[0].mem, 3001));
}

Test(conn, target_of_a_link_by_the_thresholds_of_the_day, .init = setup, .fini = teardown)
{
	const uint8_t *h = fake.sends[0].bytes, *m = h + RR_HDR_MIN;
	struct test_call *t = submit_symlink(0, 400, 1501), *u;

	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(fake.sends[0].len, RR_HDR_MIN + 400 + 1504, "inline");
		expect_message(m, 400, 1501);
		reconnect(4, 1);
		cr_assert(word(h, 4) == 1 && word(h, 5) == 40 && word(h, 7) == 1501, "a Read chunk");
		expect_message(h + 52, 400, 0);
		cr_assert(!memcmp(segment(h, 6), t->rr.send[0].mem, 1501));
		reconnect(4, 4);
	}
	fake_complete(0);
	reply(t, 8);
	cr_assert(t->dones == 1 && t->status == 0);
	/* The rest alone is too long for a small peer: a Long Call with all of it. */
	u = submit_symlink(1, 1200, 1501);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(fake.sends[i ? 0 : 1].len, RR_HDR_MIN + 1200 + 1504, "inline");
		reconnect(4, 1);
		cr_assert(word(h, 3) == RR_NOMSG && word(h, 4) == 1 && word(h, 5) == 0);
		cr_assert_eq(word(h, 7), 1200 + 1504);
		expect_message(segment(h, 6), 1200, 1501);
		reconnect(4, 4);
	}
	fake_complete(0);
	reply(u, 8);
	cr_assert(u->dones == 1 && u->status == 0);
}

/* The owner gets its message back as it was, whatever has become of the data. */
Test(conn, message_is_as_it_was, .init = setup, .fini = teardown)
{
	struct test_call *t = submit_symlink(0, 400, 777);

	fake_complete(0);
	reply(t, 8);
	cr_assert(t->dones == 1 && t->rr.msg_len == 400);
	expect_message((uint8_t *)t->rr.msg->mem + RR_HDR_ROOM, 400, 0);
	/* Lost while it waited with the data in it, and taken back. */
	t = submit_symlink(1, 400, 777);
	fake_break();
	cr_assert_eq(rr_cancel(conn, &t->rr, -ETIMEDOUT), 0);
	cr_assert(t->dones == 1 && t->status == -ETIMEDOUT && t->rr.msg_len == 400);
	expect_message((uint8_t *)t->rr.msg->mem + RR_HDR_ROOM, 400, 0);
}

/* Words before and behind the data get the number of the sending. */
static void put_number(struct rr_call *rr)
{
	struct test_call *t = container_of(rr, struct test_call, rr);
	uint32_t *msg = (uint32_t *)(void *)((char *)rr->msg->mem + RR_HDR_ROOM);

	cr_assert_eq(rr->msg_len, t->rr.nsend ? 64 : 5000, "the data is not in it");
	t->renewals++;
	msg[2] = msg[15] = htonl(0xa0 + t->renewals);
}

static void submit_numbered(unsigned i, uint32_t len, struct arena_buf *data)
{
	struct test_call *t = prepare(i, len);

	t->rr.renew = put_number;
	if (data) {
		t->rr.nsend = 1;
		t->rr.send[0] = (struct rr_iov){ data->mem, 5 };
		t->rr.data_pos = 40;
	}
	rr_submit(conn, &t->rr);
}

Test(conn, each_sending_is_another_message, .init = setup, .fini = teardown)
{
	struct arena_buf *data = magazine_get(&mag, ARENA_MID);
	const uint8_t *m = fake.sends[0].bytes + RR_HDR_MIN;

	submit_numbered(0, 64, data);
	cr_assert(word(m, 2) == 0xa1 && word(m, 17) == 0xa1, "behind the data");
	fake_break();
	up();
	cr_assert(word(m, 2) == 0xa2 && word(m, 17) == 0xa2, "a replay");
	fake_complete(0);
	reply(&calls[0], 8);
	cr_assert_eq(calls[0].renewals, 2);
	/* A Long Call. */
	submit_numbered(1, 5000, NULL);
	m = (uint8_t *)calls[1].rr.msg->mem + RR_HDR_ROOM;
	cr_assert(fake.nsends == 2 && word(m, 2) == 0xa1);
	fake_break();
	up();
	cr_assert(fake.nsends == 1 && word(m, 2) == 0xa2);
	magazine_put(&mag, data);
}

Test(conn, data_at_an_impossible_place, .init = setup, .fini = teardown)
{
	for (unsigned i = 0; i < 3; i++) {
		static const uint32_t lens[] = { 5, 4000, 4000 };
		struct test_call *t = prepare(i, i == 2 ? 4068 : 64);

		t->rr.nsend = 1;
		t->rr.send[0] = (struct rr_iov){ (void *)(uintptr_t)plain_memory, lens[i] };
		t->rr.send_copied = true;
		t->rr.data_pos = t->rr.msg_len + 4;
		rr_submit(conn, &t->rr);
		cr_assert(t->dones == 1 && t->status == -EMSGSIZE && fake.nsends == 0);
	}
}

Test(conn, what_cannot_be_sent_fails_at_once, .init = setup, .fini = teardown)
{
	struct test_call *t = prepare(0, 64), *b;
	static uint8_t foreign[8192];

	t->rr.reply_max = RR_REPLY_MAX + 1;
	rr_submit(conn, &t->rr);
	cr_assert(t->dones == 1 && t->status == -EMSGSIZE && fake.nsends == 0);
	t = prepare(1, 64);
	t->rr.sink[0] = (struct rr_iov){ foreign, sizeof(foreign) };       /* not in the arena */
	rr_submit(conn, &t->rr);
	cr_assert(t->dones == 1 && t->status == -EMSGSIZE && fake.nsends == 0);
	b = submit(2);
	cr_assert_eq(fake.nsends, 1, "the next one is not held up");
	cr_assert_eq(b->dones, 0);
}

/* ---- loss ---- */

Test(conn, calls_survive_the_connection, .init = setup, .fini = teardown)
{
	struct test_call *t[5];
	uint32_t old;

	t[0] = submit(0);
	fake_complete(0);
	reply(t[0], 3);
	for (unsigned i = 1; i < 5; i++)
		t[i] = submit(i);
	cr_assert_eq(fake.nsends, 4);
	reply(t[2], 3);                 /* its Send has not completed yet */
	old = fake.rkey;
	fake_break();
	cr_assert_eq(downs, 1);
	cr_assert(!fake.open, "closed at once");
	cr_assert(t[2]->dones == 1 && t[2]->status == 0, "its reply was here");
	cr_assert(t[1]->dones + t[3]->dones + t[4]->dones == 0);
	submit(5);
	up();
	cr_assert_neq(fake.rkey, old);
	cr_assert_eq(fake.nsends, 1, "one credit on a new connection");
	cr_assert_eq(word(fake.sends[0].bytes, 0), t[1]->rr.xid, "in the old order");
	fake_complete(0);
	reply(t[1], 16);
	cr_assert_eq(fake.nsends, 4);
	cr_assert_eq(word(fake.sends[1].bytes, 0), t[3]->rr.xid);
	cr_assert_eq(word(fake.sends[2].bytes, 0), t[4]->rr.xid);
	cr_assert_eq(t[3]->rr.sends, 2);
	cr_assert_eq(t[4]->rr.sends, 1, "was only waiting");
}

Test(conn, replay_names_the_new_key, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);

	submit_read(0, sink, 65536);
	cr_assert_eq(word(fake.sends[0].bytes, 7), fake.rkey);
	fake_break();
	up();
	cr_assert_eq(word(fake.sends[0].bytes, 7), fake.rkey);
}

Test(conn, thresholds_may_shrink, .init = setup, .fini = teardown)
{
	struct test_call *t = prepare(0, 2000);

	rr_submit(conn, &t->rr);
	cr_assert_eq(fake.sends[0].len, 2028);
	fake_break();
	fake_peer_priv_len = 0;         /* now 1024 both ways */
	up();
	cr_assert_eq(word(fake.sends[0].bytes, 3), RR_NOMSG, "now it is a Long Call");
}

/* How a GETATTR's or LOOKUP's reply comes: of 2,000 bytes at most. */
Test(conn, reply_chunk_by_the_thresholds_of_the_day, .init = setup, .fini = teardown)
{
	const uint8_t *h = fake.sends[0].bytes;
	struct test_call *t = prepare(0, 64);
	unsigned mid = buffers_free(&mag, ARENA_MID);
	uint32_t w[3];

	t->rr.reply_max = 2000;
	rr_submit(conn, &t->rr);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(word(h, 6), 0, "inline");
		cr_assert_eq(buffers_free(&mag, ARENA_MID), mid);
		reconnect(1, 4);
		cr_assert(chunk_at(0) && t->dones == 0);
		cr_assert_eq(buffers_free(&mag, ARENA_MID), mid - 1);
		reconnect(4, 4);
	}
	reconnect(1, 1);
	w[0] = htonl(t->rr.xid);
	w[1] = htonl(1);
	w[2] = htonl(77);
	memcpy(chunk_at(0), w, 12);
	END(t, 0, 1, 8, 1, 0, 0, 1, 1, fake.rkey, 12, 0, 0);
	cr_assert(t->status == 0 && t->reply_len == 12 && word(t->reply, 2) == 77);
	cr_assert_eq(buffers_free(&mag, ARENA_MID), mid);
}

Test(conn, read_by_the_thresholds_of_the_day, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_MID);
	const uint8_t *h = fake.sends[0].bytes;
	struct test_call *t = submit_read(0, sink, 2000);

	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(word(h, 5), 0, "inline");
		reconnect(1, 4);
		cr_assert(word(h, 5) == 1 && word(h, 8) == 2000, "a Write chunk");
		cr_assert_eq(word(h, 12), 0);
		reconnect(4, 1);
	}
	END(t, 0, 1, 8, 0, 0, 0, 0, t->rr.xid, 1, 5);
	cr_assert(t->status == 0 && t->reply_len == 12);
	/* A large one has its Write chunk in any case. */
	t = submit_read(1, sink, 65536);
	reconnect(1, 1);
	cr_assert(word(h, 5) == 1 && word(h, 8) == 65536);
}

/* Data in two pieces, 5 + len bytes, with something before and behind it. */
static struct test_call *submit_write(unsigned i, struct arena_buf *data, uint32_t len)
{
	struct test_call *t = prepare(i, 64);

	memset(data->mem, 0x5a, 5 + len);
	t->rr.nsend = 2;
	t->rr.send[0] = (struct rr_iov){ data->mem, 5 };
	t->rr.send[1] = (struct rr_iov){ (char *)data->mem + 5, len };
	t->rr.data_pos = 40;
	rr_submit(conn, &t->rr);
	return t;
}

Test(conn, write_by_the_thresholds_of_the_day, .init = setup, .fini = teardown)
{
	struct arena_buf *data = magazine_get(&mag, ARENA_MID);
	const uint8_t *h = fake.sends[0].bytes, *m = h + RR_HDR_MIN;
	struct test_call *t = submit_write(0, data, 1496);

	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(fake.sends[0].len, RR_HDR_MIN + 64 + 1504, "inline");
		cr_assert(word(m, 9) == 9 && word(m, 10 + 1504 / 4) == 10);
		cr_assert(memcmp(m + 40, data->mem, 1501) == 0 && m[40 + 1501] == 0);
		reconnect(4, 1);
		cr_assert(word(h, 4) == 1 && word(h, 5) == 40 && word(h, 7) == 5, "a Read chunk");
		cr_assert(word(h, 10) == 1 && word(h, 13) == 1496 && word(h, 16) == 0);
		cr_assert_eq(fake.sends[0].len, 76 + 64, "the message without the data");
		for (unsigned w = 2; w < 16; w++)
			cr_assert_eq(word(h + 76, w), w);
		reconnect(1, 4);
	}
	cr_assert_eq(stat_get(&st, STAT_WRITE_INLINE_BYTES), 1501, "counted once");
	reply(t, 8);
	fake_complete(0);
	cr_assert(t->dones == 1 && t->status == 0);
	t = submit_write(1, data, 60000);
	reconnect(1, 1);
	cr_assert(word(h, 4) == 1 && word(h, 13) == 60000);
}

/* Long names: a call that was inline is a Long Call, and the other way round. */
Test(conn, long_call_by_the_thresholds_of_the_day, .init = setup, .fini = teardown)
{
	const uint8_t *h = fake.sends[0].bytes;
	struct test_call *t = prepare(0, 2000);

	t->rr.reply_max = 1500;
	rr_submit(conn, &t->rr);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(fake.sends[0].len, RR_HDR_MIN + 2000);
		reconnect(1, 1);
		cr_assert(word(h, 3) == RR_NOMSG && word(h, 4) == 1 && word(h, 7) == 2000);
		for (unsigned w = 2; w < 500; w++)
			cr_assert_eq(word((void *)(uintptr_t)((uint64_t)word(h, 8) << 32 |
							      word(h, 9)), w), w);
		cr_assert(word(h, 11) == 0 && word(h, 12) == 1, "and a Reply chunk");
		reconnect(4, 4);
	}
	reply(t, 8);
	fake_complete(0);
	cr_assert(t->dones == 1 && t->status == 0);
}

/* The chunks need more buffers than there are. One call at a time has one, calls that need
 * none pass it, and all calls end. */
Test(conn, chunks_wait_for_buffers, .init = setup, .fini = teardown)
{
	struct arena_buf *held[8];
	struct test_call *t[4];
	unsigned n = 0;
	uint32_t w[2] = { 0, htonl(1) };

	t[0] = submit(0);
	fake_complete(0);
	reply(t[0], 8);
	for (int cls = ARENA_MID; cls <= ARENA_BIG; cls++)
		while ((held[n] = magazine_get(&mag, cls)))
			n++;
	for (unsigned i = 1; i < 4; i++) {
		t[i] = prepare(i, 64);
		t[i]->rr.reply_max = i < 3 ? 2000 : 500;
		rr_submit(conn, &t[i]->rr);
	}
	fake_break();
	peer_inline(1, 1);
	up();
	cr_assert_eq(word(fake.sends[0].bytes, 0), t[1]->rr.xid);
	w[0] = htonl(t[1]->rr.xid);
	memcpy(chunk_at(0), w, 8);
	fake_break();
	up();
	cr_assert_eq(word(fake.sends[0].bytes, 0), t[1]->rr.xid, "its buffer was given back");
	memcpy(chunk_at(0), w, 8);
	deliver(t[1], WORDS(0, 1, 8, 1, 0, 0, 1, 1, fake.rkey, 8, 0, 0));
	cr_assert(t[1]->dones == 1 && t[1]->status == 0);
	cr_assert_eq(fake.nsends, 3);
	fake_break();
	up();
	submit(4);
	cr_assert_eq(word(fake.sends[0].bytes, 0), t[2]->rr.xid);
	w[0] = htonl(t[2]->rr.xid);
	memcpy(chunk_at(0), w, 8);
	t[0] = prepare(0, 64);
	t[0]->rr.reply_max = 2000;
	rr_submit(conn, &t[0]->rr);
	deliver(t[2], WORDS(0, 1, 8, 1, 0, 0, 1, 1, fake.rkey, 8, 0, 0));
	cr_assert(t[2]->dones == 1 && t[2]->status == 0);
	cr_assert_eq(fake.nsends, 4, "one has the buffer, two need none");
	t[1] = prepare(1, 64);
	t[1]->rr.reply_max = 2000;
	rr_submit(conn, &t[1]->rr);
	t[2] = submit(2);
	cr_assert_eq(fake.nsends, 5);
	cr_assert_eq(word(fake.sends[4].bytes, 0), t[2]->rr.xid, "passes who has no buffer");
	for (unsigned i = 1; i < 5; i++)
		fake_complete(i);
	w[0] = htonl(t[0]->rr.xid);
	memcpy(chunk_at(3), w, 8);
	deliver_to(t[0], WORDS(0, 1, 8, 1, 0, 0, 1, 1, fake.rkey, 8, 0, 0));
	cr_assert(t[0]->dones == 1 && t[0]->status == 0);
	cr_assert_eq(fake.nsends, 6);
	cr_assert_eq(word(fake.sends[5].bytes, 0), t[1]->rr.xid);
	while (n)
		magazine_put(&mag, held[--n]);
}

/* Of those that wait, one finds no buffer and one can never be sent. Those behind them go. */
Test(conn, who_can_go_passes_who_cannot, .init = setup, .fini = teardown)
{
	struct arena_buf *held[8];
	struct test_call *t[6];
	unsigned n = 0;

	t[0] = submit(0);
	fake_complete(0);
	reply(t[0], 8);
	for (int cls = ARENA_MID; cls <= ARENA_BIG; cls++)
		while ((held[n] = magazine_get(&mag, cls)))
			n++;
	fake_break();
	peer_inline(1, 1);
	for (unsigned i = 1; i < 6; i++) {
		t[i] = prepare(i, 64);
		if (i == 2 || i == 3)
			t[i]->rr.reply_max = 2000;
		if (i == 4) {
			t[i]->rr.nsend = 1;
			t[i]->rr.send[0] = (struct rr_iov){ (void *)(uintptr_t)plain_memory, 5 };
			t[i]->rr.send_copied = true;
			t[i]->rr.data_pos = t[i]->rr.msg_len + 4;
		}
		rr_submit(conn, &t[i]->rr);
	}
	up();
	cr_assert_eq(fake.nsends, 1);
	fake_complete(0);
	reply(t[1], 8);
	cr_assert(t[4]->dones == 1 && t[4]->status == -EMSGSIZE);
	cr_assert_eq(fake.nsends, 3);
	cr_expect_eq(word(fake.sends[1].bytes, 0), t[2]->rr.xid, "it has the buffer in reserve");
	cr_expect_eq(word(fake.sends[2].bytes, 0), t[5]->rr.xid);
	while (n)
		magazine_put(&mag, held[--n]);
}

Test(conn, failed_post_resets, .init = setup, .fini = teardown)
{
	struct test_call *a;

	fake_post_send_error = -EIO;
	a = submit(0);
	cr_assert_eq(downs, 0, "not from inside the submit");
	cr_assert(!rr_is_up(conn));
	spin_loop();
	cr_assert_eq(downs, 1);
	cr_assert_eq(a->dones, 0);
	fake_post_send_error = 0;
	up();
	fake_complete(0);
	reply(a, 1);
	cr_assert_eq(a->dones, 1);
}

/* A queue pair that is not ready says EINVAL: the next one takes the call. */
Test(conn, post_that_is_not_taken_resets, .init = setup, .fini = teardown)
{
	static const int errs[] = { -EINVAL, -EMSGSIZE, -EFAULT, -ENOMEM };

	for (unsigned i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
		struct test_call *a;

		fake_post_send_error = errs[i];
		a = submit(i);
		cr_assert_eq(a->dones, 0, "%s ended the call", strerror(-errs[i]));
		spin_loop();
		cr_assert_eq(downs, i + 1);
		fake_post_send_error = 0;
		up();
		fake_complete(0);
		reply(a, 1);
		cr_assert(a->dones == 1 && a->status == 0);
	}
}

Test(conn, cancel, .init = setup, .fini = teardown)
{
	struct test_call *a = submit(0), *b = submit(1);

	cr_assert_eq(rr_cancel(conn, &a->rr, -ETIMEDOUT), -EBUSY, "the peer has its buffers");
	cr_assert_eq(rr_cancel(conn, &b->rr, -ETIMEDOUT), 0);
	cr_assert(b->dones == 1 && b->status == -ETIMEDOUT);
	fake_break();
	cr_assert_eq(rr_cancel(conn, &a->rr, -ETIMEDOUT), 0);
	cr_assert(a->dones == 1 && a->status == -ETIMEDOUT);
	up();
	cr_assert_eq(fake.nsends, 0);
}

Test(conn, refused_link, .init = setup, .fini = teardown)
{
	struct rr_link *link;
	struct errbuf eb = { "" };

	fake_break();
	fake_connect_error = -ECONNREFUSED;
	cr_assert_eq(rr_link_open(conn, &way, &link, &eb), -ECONNREFUSED);
	cr_assert(!fake.open, "nothing of it is left");
	fake_connect_error = 0;
	up();
	cr_assert_eq(stat_get(&st, STAT_CONN_UPS), 2);
	cr_assert_eq(stat_get(&st, STAT_CONN_DOWNS), 1);
}

/* ---- Send With Invalidate ---- */

/* The reply to a READ of that XID, whose Write chunk has `key`, invalidates `inv`. */
static void reply_inv(uint32_t xid, uint32_t key, uint32_t inv)
{
	uint32_t w[] = { xid, 1, 8, 0, 0, 1, 1, key, 8192, 0, 0, 0, 0, xid, 1 };

	for (unsigned i = 0; i < sizeof(w) / 4; i++)
		w[i] = htonl(w[i]);
	fake_deliver_inv(w, sizeof(w), inv);
}

static void per_call(void)
{
	fake_break();
	fake_reg_per_call = true;
	up();
	downs = 0;
}

Test(conn, invalidation_of_its_own, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);
	struct test_call *a;

	per_call();
	a = submit_read(0, sink, 8192);
	cr_assert_eq(fake.nsegs, 1);
	fake_complete(0);
	reply_inv(a->rr.xid, word(fake.sends[0].bytes, 7), word(fake.sends[0].bytes, 7));
	cr_assert(a->dones == 1 && a->status == 0 && a->rr.placed_len == 8192);
	spin_loop();
	cr_assert(downs == 0 && fake.nsegs == 0);
}

/* A reply that invalidates another call's segment: that call would go on as if the server
 * could still write to its memory. */
Test(conn, invalidation_of_another_calls, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);
	struct test_call *a, *b;

	per_call();
	a = submit(0);
	fake_complete(0);
	reply(a, 8);
	a = submit_read(0, sink, 8192);
	b = submit_read(1, sink, 8192);
	fake_complete(1);
	reply_inv(a->rr.xid, word(fake.sends[1].bytes, 7), word(fake.sends[2].bytes, 7));
	cr_assert(a->dones == 0 && b->dones == 0);
	spin_loop();
	cr_assert(downs == 1 && !fake.open && a->dones == 0 && b->dones == 0);
	/* Both are sent again, and end. */
	up();
	fake_complete(0);
	reply_inv(a->rr.xid, word(fake.sends[0].bytes, 7), word(fake.sends[0].bytes, 7));
	cr_assert(a->dones == 1 && a->status == 0);
	fake_complete(1);
	reply_inv(b->rr.xid, word(fake.sends[1].bytes, 7), word(fake.sends[1].bytes, 7));
	cr_assert(b->dones == 1 && b->status == 0);
	cr_assert_eq(downs, 1);
}

/* Nobody's reply, which has nothing to invalidate. */
Test(conn, invalidation_without_a_call, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);
	struct test_call *a;
	uint32_t key;

	per_call();
	a = submit_read(0, sink, 8192);
	key = word(fake.sends[0].bytes, 7);
	reply_inv(a->rr.xid + 2, key, key);
	cr_assert_eq(a->dones, 0);
	spin_loop();
	cr_assert_eq(downs, 1);
}

/* With one key for all of the data buffers it is never the server's to take. */
Test(conn, invalidation_of_the_pools_key, .init = setup, .fini = teardown)
{
	struct arena_buf *sink = magazine_get(&mag, ARENA_BIG);
	struct test_call *a = submit_read(0, sink, 8192);

	fake_complete(0);
	reply_inv(a->rr.xid, fake.rkey, fake.rkey);
	cr_assert_eq(a->dones, 0);
	spin_loop();
	cr_assert_eq(downs, 1);
	up();
	fake_complete(0);
	END(a, 0, 1, 8, 0, 0, 1, 1, fake.rkey, 1000, 0, 0, 0, 0, a->rr.xid, 1);
	cr_assert_eq(a->status, 0);
}

/* ---- a Send that cannot be posted ---- */

Test(conn, what_was_not_posted_is_no_replay, .init = setup, .fini = teardown)
{
	struct test_call *a;

	fake_post_send_error = -ENOMEM;
	a = submit(0);
	fake_post_send_error = 0;
	cr_assert(a->dones == 0 && a->rr.sends == 0);
	spin_loop();
	cr_assert_eq(downs, 1);
	up();
	cr_assert_eq(a->rr.sends, 1);
	cr_assert_eq(stat_get(&st, STAT_RPC_REPLAYS), 0);
	fake_complete(0);
	reply(a, 4);
	cr_assert_eq(a->dones, 1);
}

/* ---- Sends that nobody reports ---- */

static void silent(void)
{
	setup();
	fake_break();
	fake_silent_sends = true;
	up();
	downs = 0;
}

/* A peer that answers a message has received it. */
Test(conn, a_reply_says_that_the_send_has_left, .init = silent, .fini = teardown)
{
	struct test_call *a = submit(0);

	reply(a, 4);
	cr_assert(a->dones == 1 && a->status == 0);
}

Test(conn, full_send_queue, .init = silent, .fini = teardown)
{
	struct test_call *a, *b;

	a = submit(0);
	reply(a, 8);
	submit(3);
	fake_post_send_error = -EAGAIN;
	a = submit(1);
	b = submit(2);
	cr_assert(fake.nsends == 2 && a->dones == 0 && b->dones == 0);
	spin_loop();
	cr_assert_eq(downs, 0, "it is no fault");
	fake_post_send_error = 0;
	fake.ev->sent(fake.ctx, NULL);
	cr_assert_eq(fake.nsends, 4);
	reply(b, 8);
	reply(a, 8);
	cr_assert(a->dones == 1 && b->dones == 1);
}

/* The peer answers, and does not acknowledge: nothing will ever make room. */
Test(conn, send_queue_that_stays_full, .init = silent, .fini = teardown)
{
	struct test_call *a = submit(0);

	reply(a, 8);
	fake_post_send_error = -EAGAIN;
	a = submit(1);
	fake_post_send_error = 0;
	cr_assert_eq(a->dones, 0);
	spin_loop();
	cr_assert_eq(downs, 1);
	up();
	reply(a, 8);
	cr_assert_eq(a->dones, 1);
}

/* What was sent without a word is sent again when the connection is lost. */
Test(conn, silent_sends_are_replayed, .init = silent, .fini = teardown)
{
	struct test_call *a = submit(0);

	fake_break();
	cr_assert_eq(a->dones, 0);
	up();
	cr_assert_eq(a->rr.sends, 2);
	reply(a, 4);
	cr_assert_eq(a->dones, 1);
}
