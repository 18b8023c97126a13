/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One requester with two links: what happens to calls when a link breaks. (Which link takes a
 * call: test_rpcrdma_choose.c.) The test plays both servers.
 */
#include "symlinks_play.h"
#include "vmflags.h"

TestSuite(links, .init = setup, .fini = teardown, .timeout = 300);

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

/* More than credits. Their memory is the link's, and goes with it. */
Test(links, receives_belong_to_their_link)
{
	void *mem = fake_conns[0].recv.base;

	for (unsigned l = 0; l < 2; l++) {
		cr_assert_eq(fake_conns[l].nrecvs, 16 + RR_RECV_SPARE);
		cr_assert_eq(fake_conns[l].recv.len, (16 + RR_RECV_SPARE) * 4096);
		for (unsigned i = 0; i < 16 + RR_RECV_SPARE; i++)
			cr_assert_eq(fake_conns[l].recvs[i].len, 4096);
	}
	cr_assert(is_mapped(mem));
	fake_used = &fake_conns[0];
	fake_break();
	cr_assert_eq(downs, 1);
	cr_assert(!is_mapped(mem));
	cr_assert(is_mapped(fake_conns[1].recv.base));
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

static void reset_answering(struct rr_call *rr, int status)
{
	on_done(rr, status);
	cr_assert_null(rr->link, "it is not in flight any more");
	rr_reset_answering(conn, -ENOTCONN, "test");
	cr_assert_eq(downs, 0, "not inside a fabric callback");
}

/* Only the link that brought it, and only while it is answered. */
Test(links, a_reply_ends_its_link)
{
	struct test_call *a, *b;

	warm_up(8, 8);
	rr_reset_answering(conn, -ENOTCONN, "no reply is being answered");
	a = submit(0, 500);
	b = submit(1, 500);
	cr_assert(xid_on(0, 0) == a->rr.xid && xid_on(1, 0) == b->rr.xid);
	b->rr.done = reset_answering;
	sent_on(0);
	sent_on(1);
	reply_on(1, b, 8);
	rr_reset_answering(conn, -ENOTCONN, "nor now");
	run_loop();
	cr_assert(b->dones == 1 && downs == 1 && down_path == 1 && rr_is_up(conn));
	reply_on(0, a, 8);
	cr_assert_eq(a->dones, 1);
}

/* The server begins anew with each sending: it must have the time for it once. */
Test(links, more_time_after_each_timeout)
{
	const uint64_t timeo = 60000000000ull;
	const struct test_call *a;

	warm_up(8, 8);
	a = submit(0, 500);
	sent_on(0);
	rr_expire(conn, a->rr.posted_ns + timeo, timeo, -ETIMEDOUT, "silent");
	run_loop();
	cr_assert_eq(downs, 0);
	rr_expire(conn, a->rr.posted_ns + timeo + 1, timeo, -ETIMEDOUT, "silent");
	run_loop();
	cr_assert(downs == 1 && down_path == 0);
	cr_assert_eq(xid_on(1, 0), a->rr.xid);
	sent_on(1);
	submit(1, 500);
	sent_on(1);
	reply_on(1, &calls[1], 8);
	rr_expire(conn, a->rr.posted_ns + 2 * timeo, timeo, -ETIMEDOUT, "silent");
	run_loop();
	cr_assert_eq(downs, 1);
	rr_expire(conn, a->rr.posted_ns + 2 * timeo + 1, timeo, -ETIMEDOUT, "silent");
	run_loop();
	cr_assert(downs == 2 && down_path == 1);
}

/* Too old, on one link: the other is not given up. */
Test(links, one_link_is_silent)
{
	warm_up(8, 8);
	submit(0, 500);
	submit(1, 500);
	sent_on(1);
	reply_on(1, &calls[1], 8);
	rr_expire(conn, mono_ns() + 2, 1, -ETIMEDOUT, "silent");
	run_loop();
	cr_assert(downs == 1 && down_path == 0 && rr_is_up(conn));
	cr_assert_eq(xid_on(1, 0), calls[0].rr.xid);
	sent_on(1);
	reply_on(1, &calls[0], 8);
	cr_assert_eq(calls[0].dones, 1);
}
