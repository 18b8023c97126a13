/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One requester with two links, for tests of what its links do. The test plays both servers.
 * Each test program that includes this has a requester of its own.
 */
#pragma once

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

static inline void on_down(void *ctx, void *owner, int err, const char *why)
{
	(void)ctx, (void)err, (void)why;
	downs++;
	down_path = *(const unsigned *)owner;
}

static inline void on_buffers(void *ctx)
{
	(void)ctx;
	rr_retry(conn);
}

static inline void on_done(struct rr_call *rr, int status)
{
	struct test_call *t = container_of(rr, struct test_call, rr);

	t->dones++;
	t->status = status;
	magazine_put(&mag, rr->msg);
}

static inline struct rr_link *open_on(unsigned path, bool metadata)
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

static inline void up(unsigned path)
{
	links[path] = open_on(path, false);
	cr_assert_eq(rr_up(conn, links[path], false), 0);
}

static inline void setup(void)
{
	static const struct arena_counts counts = { .n = { 24, 0, 4, 2 } };
	static const struct rr_events events = { .down = on_down };
	struct rr_config cfg = {
		.path_stats = path_stats, .credits = 16, .lane = 0, .nlanes = 1, .reserve = true,
	};

	fake_peer_is_knfsd();
	fake_most = 2;
	loop = loop_new(NULL);
	cr_assert_eq(arena_init(&arena, &counts, 1), 0);
	magazine_init(&mag, &arena, loop, on_buffers, NULL);
	conn = rr_conn_new(&cfg, loop, &mag, &st, &events, NULL);
	cr_assert_not_null(conn);
	up(0);
	up(1);
}

static inline void teardown(void)
{
	rr_conn_free(conn);
	cr_assert(!fake_conns[0].open && !fake_conns[1].open);
	cr_assert_eq(buffers_free(&mag, ARENA_MID), 4);
	magazine_fini(&mag);
	arena_fini(&arena);
	loop_free(loop);
}

static inline struct test_call *submit_by(void (*how)(struct rr_conn *c, struct rr_call *call), unsigned i,
					  uint32_t reply_max)
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
	how(conn, &t->rr);
	return t;
}

static inline struct test_call *submit(unsigned i, uint32_t reply_max)
{
	return submit_by(rr_submit, i, reply_max);
}

/* Link l's peer sends the reply to that call, with so many credits. */
static inline void reply_on(unsigned l, const struct test_call *t, uint32_t credits)
{
	uint32_t w[10] = { t->rr.xid, 1, credits, 0, 0, 0, 0, t->rr.xid, 1, 0xbeef };

	for (unsigned i = 0; i < 10; i++)
		w[i] = htonl(w[i]);
	fake_used = &fake_conns[l];
	fake_deliver(w, sizeof(w));
}

static inline void sent_on(unsigned l)
{
	fake_used = &fake_conns[l];
	for (unsigned i = 0; i < fake.nsends; i++)
		fake_complete(i);
	fake.nsends = 0;
}

/* The XID of link l's i-th sending. */
static inline uint32_t xid_on(unsigned l, unsigned i)
{
	uint32_t xid;

	cr_assert_lt(i, fake_conns[l].nsends);
	memcpy(&xid, fake_conns[l].sends[i].bytes, 4);
	return ntohl(xid);
}

/* Both links have had a reply, and grant that many credits. */
static inline void warm_up(uint32_t credits0, uint32_t credits1)
{
	struct test_call *a = submit(14, 500), *b = submit(15, 500);

	cr_assert(xid_on(0, 0) == a->rr.xid && xid_on(1, 0) == b->rr.xid);
	sent_on(0);
	sent_on(1);
	reply_on(0, a, credits0);
	reply_on(1, b, credits1);
	cr_assert(a->dones == 1 && b->dones == 1);
}

static inline void stop_loop(struct loop_timer *t)
{
	(void)t;
	loop_stop(loop);
}

static inline void run_loop(void)
{
	struct loop_timer t;

	loop_timer_init(&t, stop_loop);
	loop_timer_set(loop, &t, 5);
	cr_assert_eq(loop_run(loop), 0);
}
