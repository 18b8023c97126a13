/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One requester with two links: which link a call uses, and what happens to calls when a
 * link breaks. The test plays both servers.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "buffers.h"
#include "fake_fabric.h"
#include "rpcrdma/conn.h"

#define CALLS 16u

static struct loop *loop;
static struct arena arena;
static struct magazine mag;
static struct stats st;
static struct rr_conn *conn;
static unsigned downs, down_path;
static struct rr_link *links[2];
static struct rr_path_stats path_stats[RR_PATHS_MAX];

static struct test_call {
	struct rr_call rr;
	unsigned dones;
	int status;
} calls[CALLS];

static void on_down(void *ctx, void *owner, int err, const char *why)
{
	(void)ctx, (void)err, (void)why;
	downs++;
	down_path = *(const unsigned *)owner;
}

static void on_buffers(void *ctx)
{
	(void)ctx;
	rr_retry(conn);
}

static void on_done(struct rr_call *rr, int status)
{
	struct test_call *t = container_of(rr, struct test_call, rr);

	t->dones++;
	t->status = status;
}

static struct rr_link *open_on(unsigned path, bool metadata)
{
	static const struct rr_path paths[2] = { { .fabric = &fabric_fake }, { .fabric = &fabric_fake } };
	static unsigned numbers[2] = { 0, 1 };
	const struct rr_way way = {
		.path = &paths[path], .number = path, .metadata = metadata, .owner = &numbers[path],
	};
	struct errbuf eb = { "" };
	struct rr_link *link;

	cr_assert_eq(rr_link_open(conn, &way, &link, &eb), 0, "%s", eb.text);
	return link;
}

static void up(unsigned path)
{
	links[path] = open_on(path, false);
	cr_assert_eq(rr_up(conn, links[path], false), 0);
}

static void setup(void)
{
	static const struct arena_counts counts = { .n = { 48, 24, 0, 4, 2 } };
	static const struct rr_events events = { .down = on_down };
	struct rr_config cfg = {
		.path_stats = path_stats, .credits = 16, .recvs = 24, .lane = 0, .nlanes = 1,
	};

	fake_peer_is_knfsd();
	fake_most = 2;
	loop = loop_new(LOOP_EPOLL);
	cr_assert_eq(arena_init(&arena, &counts, 1), 0);
	magazine_init(&mag, &arena, loop, on_buffers, NULL);
	conn = rr_conn_new(&cfg, loop, &mag, &st, &events, NULL);
	cr_assert_not_null(conn);
	up(0);
	up(1);
}

static void teardown(void)
{
	rr_conn_free(conn);
	cr_assert(!fake_conns[0].open && !fake_conns[1].open);
	cr_assert_eq(buffers_free(&mag, ARENA_RECV), 48);
	cr_assert_eq(buffers_free(&mag, ARENA_MID), 4);
	magazine_fini(&mag);
	arena_fini(&arena);
	loop_free(loop);
}

TestSuite(links, .init = setup, .fini = teardown, .timeout = 300);

static struct test_call *submit(unsigned i, uint32_t reply_max)
{
	struct test_call *t = &calls[i];
	uint32_t *msg;

	memset(t, 0, sizeof(*t));
	t->rr.msg = magazine_get(&mag, ARENA_MSG);
	cr_assert_not_null(t->rr.msg);
	t->rr.xid = rr_xid(conn);
	t->rr.msg_len = 64;
	t->rr.reply_max = reply_max;
	t->rr.done = on_done;
	msg = (uint32_t *)(void *)((char *)t->rr.msg->mem + RR_HDR_ROOM);
	memset(msg, 0, 64);
	msg[0] = htonl(t->rr.xid);
	rr_submit(conn, &t->rr);
	return t;
}

/* Link l's peer sends the reply to that call, with so many credits. */
static void reply_on(unsigned l, const struct test_call *t, uint32_t credits)
{
	uint32_t w[10] = { t->rr.xid, 1, credits, 0, 0, 0, 0, t->rr.xid, 1, 0xbeef };

	for (unsigned i = 0; i < 10; i++)
		w[i] = htonl(w[i]);
	fake_used = &fake_conns[l];
	fake_deliver(w, sizeof(w));
}

static void sent_on(unsigned l)
{
	fake_used = &fake_conns[l];
	for (unsigned i = 0; i < fake.nsends; i++)
		fake_complete(i);
	fake.nsends = 0;
}

/* The XID of link l's i-th sending. */
static uint32_t xid_on(unsigned l, unsigned i)
{
	uint32_t xid;

	cr_assert_lt(i, fake_conns[l].nsends);
	memcpy(&xid, fake_conns[l].sends[i].bytes, 4);
	return ntohl(xid);
}

/* Both links have had a reply, and grant that many credits. */
static void warm_up(uint32_t credits0, uint32_t credits1)
{
	struct test_call *a = submit(14, 500), *b = submit(15, 500);

	cr_assert(xid_on(0, 0) == a->rr.xid && xid_on(1, 0) == b->rr.xid);
	sent_on(0);
	sent_on(1);
	reply_on(0, a, credits0);
	reply_on(1, b, credits1);
	cr_assert(a->dones == 1 && b->dones == 1);
}

Test(links, a_call_goes_where_the_fewest_are)
{
	warm_up(2, 8);
	for (unsigned i = 0; i < 7; i++)
		submit(i, 500);
	cr_assert_eq(fake_conns[0].nsends, 2, "no more than its credits");
	cr_assert_eq(fake_conns[1].nsends, 5);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(xid_on(i % 2, i / 2), calls[i].rr.xid, "in turn");
	sent_on(0);
	sent_on(1);
	for (unsigned i = 0; i < 7; i++)
		reply_on(i < 4 ? i % 2 : 1, &calls[i], 8);
	for (unsigned i = 0; i < 7; i++)
		cr_assert(calls[i].dones == 1 && calls[i].status == 0);
}

/* The same XIDs, in the order of their first sending, and each is answered once. */
Test(links, calls_move_when_a_link_dies)
{
	warm_up(8, 8);
	for (unsigned i = 0; i < 6; i++)
		submit(i, 500);
	cr_assert(fake_conns[0].nsends == 3 && fake_conns[1].nsends == 3);
	reply_on(0, &calls[2], 8);      /* its Send has not completed */
	fake_used = &fake_conns[0];
	fake_break();
	cr_assert(downs == 1 && down_path == 0 && rr_is_up(conn));
	cr_assert(calls[2].dones == 1 && calls[2].status == 0, "it was answered");
	cr_assert_eq(fake_conns[1].nsends, 5);
	cr_assert(xid_on(1, 3) == calls[0].rr.xid && xid_on(1, 4) == calls[4].rr.xid);
	cr_assert_eq(calls[0].rr.sends, 2);
	sent_on(1);
	for (unsigned i = 0; i < 6; i++)
		if (i != 2)
			reply_on(1, &calls[i], 8);
	for (unsigned i = 0; i < 6; i++)
		cr_assert(calls[i].dones == 1 && calls[i].status == 0);
	up(0);
	submit(0, 500);
	submit(1, 500);
	cr_assert(fake_conns[0].nsends == 1 && fake_conns[1].nsends == 1, "the next link of that path is used");
	for (unsigned l = 0; l < 2; l++) {
		sent_on(l);
		reply_on(l, &calls[1 - l], 8);
		cr_assert_eq(calls[1 - l].dones, 1);
	}
}

/* Nobody but the link that a call was sent on brings its reply. */
Test(links, a_reply_of_the_other_link)
{
	struct test_call *t;

	warm_up(8, 8);
	t = submit(0, 500);
	sent_on(0);
	reply_on(1, t, 8);
	cr_assert_eq(t->dones, 0);
	cr_assert_eq(stat_get(&st, STAT_RPC_BAD_REPLIES), 1);
	reply_on(0, t, 8);
	cr_assert_eq(t->dones, 1);
}

/* With one buffer for Reply chunks the second call goes when the first one's link is
 * closed, and not before: its peer could write to the buffer. */
static void check_closed(const struct fake_conn *f)
{
	cr_assert_eq(f, &fake_conns[1]);
	cr_assert(!fake_conns[0].open, "the dead link's peer could write to it");
}

Test(links, no_buffer_is_used_again_before_its_link_is_closed)
{
	struct arena_buf *held[8];
	unsigned n = 0;

	warm_up(8, 8);
	for (int cls = ARENA_MID; cls <= ARENA_BIG; cls++)
		while ((held[n] = magazine_get(&mag, cls)))
			n++;
	submit(0, 50000);
	submit(1, 50000);
	cr_assert(fake_conns[0].nsends == 1 && fake_conns[1].nsends == 0, "it has no buffer");
	fake_sending = check_closed;
	fake_used = &fake_conns[0];
	fake_break();
	cr_assert_eq(fake_conns[1].nsends, 1);
	cr_assert_eq(xid_on(1, 0), calls[0].rr.xid);
	fake_sending = NULL;
	while (n)
		magazine_put(&mag, held[--n]);
	cr_assert_eq(rr_cancel(conn, &calls[1].rr, -EIO), 0);
	fake_used = &fake_conns[1];
	fake_break();
	cr_assert_eq(rr_cancel(conn, &calls[0].rr, -EIO), 0);
}

static void stop_loop(struct loop_timer *t)
{
	(void)t;
	loop_stop(loop);
}

/* Too old, on one link: the other is not given up. */
Test(links, one_link_is_silent)
{
	struct loop_timer t;

	warm_up(8, 8);
	submit(0, 500);
	submit(1, 500);
	sent_on(1);
	reply_on(1, &calls[1], 8);
	rr_expire(conn, mono_ns() + 1, -ETIMEDOUT, "silent");
	loop_timer_init(&t, stop_loop);
	loop_timer_set(loop, &t, 5);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert(downs == 1 && down_path == 0 && rr_is_up(conn));
	cr_assert_eq(xid_on(1, 0), calls[0].rr.xid);
	sent_on(1);
	reply_on(1, &calls[0], 8);
	cr_assert_eq(calls[0].dones, 1);
}
