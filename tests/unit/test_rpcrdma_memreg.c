/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registration strategies: when the peer's rights begin and end, by what a fake device has
 * seen of it. The test plays the device and the server.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include "buffers.h"
#include "fake_fabric.h"
#include "rpcrdma/conn.h"
#include "rpcrdma/memreg.h"

#define CALLS 24u
#define CREDITS 16u

static struct loop *loop;
static struct arena arena;
static struct magazine mag;
static struct stats st;
static struct rr_conn *conn;
static unsigned downs;
static struct arena_buf *file;          /* where all calls have their data */

static struct test_call {
	struct rr_call rr;
	unsigned dones;
	int status;
} calls[CALLS];

static void on_down(void *ctx, void *owner, int err, const char *why)
{
	(void)ctx, (void)owner, (void)err, (void)why;
	downs++;
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

static struct test_call *prepare(unsigned i)
{
	struct test_call *t = &calls[i];
	struct arena_buf *msg = t->rr.msg;
	uint32_t *words;

	memset(t, 0, sizeof(*t));
	t->rr.msg = msg ? msg : magazine_get(&mag, ARENA_MSG);
	t->rr.xid = rr_xid(conn);
	t->rr.msg_len = 64;
	t->rr.reply_max = 100;
	t->rr.done = on_done;
	words = (uint32_t *)(void *)((char *)t->rr.msg->mem + RR_HDR_ROOM);
	memset(words, 0, 64);
	words[0] = htonl(t->rr.xid);
	return t;
}

/* The reply, with a Write chunk of `placed` bytes if that is not 0. inv: 0, or the rkey that
 * it invalidates. */
static void reply(const struct test_call *t, uint32_t placed, uint32_t inv)
{
	uint32_t xid = t->rr.xid, w[16] = { xid, 1, CREDITS, 0, 0 }, n = 5;

	if (placed) {
		w[n++] = 1;
		w[n++] = 1;
		n++;
		w[n++] = placed;
		n += 2;
	}
	n += 2;
	w[n++] = xid;
	w[n++] = 1;
	for (unsigned i = 0; i < n; i++)
		w[i] = htonl(w[i]);
	if (inv)
		fake_deliver_inv(w, n * 4, inv);
	else
		fake_deliver(w, n * 4);
}

static const struct rr_path path = { .fabric = &fabric_fake };
static const struct rr_way way = { .path = &path };
static struct rr_path_stats path_stats[RR_PATHS_MAX];

static struct rr_windows windows[RR_PATHS_MAX];

static int try_up(struct errbuf *eb)
{
	struct rr_link *link;
	int rc = rr_link_open(conn, &way, &link, eb);

	return rc ? rc : rr_up(conn, link, false);
}

static void sent(void)
{
	for (unsigned i = 0; i < fake.nsends; i++)
		fake_complete(i);
	fake.nsends = 0;
}

/* Brings a link up. If no call is there to be sent again, a first one gets all credits. */
static void up(void)
{
	bool again = false;
	struct errbuf eb = { "" };
	struct test_call *t;

	for (unsigned i = 0; i < CALLS; i++)
		again |= calls[i].rr.state != RR_CALL_IDLE;
	cr_assert_eq(try_up(&eb), 0, "%s", eb.text);
	if (!again) {
		t = prepare(CALLS - 1);
		rr_submit(conn, &t->rr);
		reply(t, 0, 0);
	}
	sent();
}

static void begin(const struct rr_memreg *memreg)
{
	static const uint8_t knfsd[8] = { 0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3 };
	static const struct arena_counts counts = { .n = { 24, 0, 4, 2 } };
	static const struct rr_events events = { .down = on_down };
	struct rr_config cfg = {
		.path_stats = path_stats, .credits = CREDITS, .nlanes = 1, .memreg = memreg,
		.windows = windows,
	};

	memcpy(fake_peer_priv, knfsd, 8);
	fake_peer_priv_len = 8;
	loop = loop_new(NULL);
	cr_assert_eq(arena_init(&arena, &counts, 1), 0);
	magazine_init(&mag, &arena, loop, on_buffers, NULL);
	conn = rr_conn_new(&cfg, loop, &mag, &st, &events, NULL);
	cr_assert_not_null(conn);
	file = magazine_get(&mag, ARENA_BIG);
}

static void end(void)
{
	for (unsigned i = 0; i < CALLS; i++)
		if (calls[i].rr.msg)
			magazine_put(&mag, calls[i].rr.msg);
	magazine_put(&mag, file);
	rr_conn_free(conn);
	cr_assert(!fake.open);
	cr_assert_eq(buffers_free(&mag, ARENA_MID), 4);
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

/* A READ of 8 KiB at a place of its own. */
static struct test_call *read_call(unsigned i)
{
	struct test_call *t = prepare(i);

	t->rr.sink[0] = (struct rr_iov){ (char *)file->mem + i * 16384, 8192 };
	rr_submit(conn, &t->rr);
	return t;
}

/* A WRITE of two pieces. */
static struct test_call *write_call(unsigned i)
{
	struct test_call *t = prepare(i);

	t->rr.send[0] = (struct rr_iov){ (char *)file->mem + i * 16384, 4096 };
	t->rr.send[1] = (struct rr_iov){ (char *)file->mem + i * 16384 + 8192, 4096 };
	t->rr.nsend = 2;
	t->rr.data_pos = 64;
	rr_submit(conn, &t->rr);
	return t;
}

/* A READLINK: the transport has the buffer for the text. */
static struct test_call *readlink_call(unsigned i)
{
	struct test_call *t = prepare(i);

	t->rr.sink[0].len = 4096;
	rr_submit(conn, &t->rr);
	return t;
}

static bool says_r(void)
{
	return fake.priv[5] & 1;
}

/* ---- a call that could not be sent ---- */

static void each_call(void)
{
	begin(&rr_memreg_call);
	up();
}

/* The registration of its data fails, so nothing was offered, and the connection ends soon.
 * Before that the peer guesses its XID, and answers in a Reply chunk. The request object has
 * had one before. */
Test(memreg, reply_to_what_was_not_sent, .init = each_call, .fini = end)
{
	struct test_call *t = prepare(0);
	uint32_t w[13] = { htonl(t->rr.xid), htonl(1), htonl(16), htonl(RR_NOMSG), 0, 0, htonl(1),
			   htonl(1), htonl(5), htonl(64) };

	t->rr.reply_chunk = true;
	t->rr.chunk_room = 65536;
	t->rr.send[0] = (struct rr_iov){ file->mem, 8192 };
	t->rr.nsend = 1;
	t->rr.data_pos = 64;
	fake_reg_error = -EIO;
	rr_submit(conn, &t->rr);
	fake_reg_error = 0;
	fake_deliver(w, 48);
	cr_assert_eq(t->dones, 0);
	spin_loop();
	cr_assert_eq(downs, 1);
	up();
	reply(t, 0, 0);
	cr_assert_eq(t->dones, 1);
}

/* ---- the default ---- */

static void by_itself(void)
{
	begin(&rr_memreg_auto);
}

Test(memreg, auto_uses_windows, .init = by_itself, .fini = end)
{
	struct test_call *t;

	fake_has_windows = true;
	up();
	cr_assert(says_r());
	t = read_call(0);
	sent();
	reply(t, 8192, t->rr.mrs[0].rkey);
	cr_assert_eq(t->dones, 1);
	/* They work: a connection that is lost later has other reasons. */
	read_call(0);
	fake_break();
	up();
	cr_assert(says_r());
}

Test(memreg, auto_without_windows, .init = by_itself, .fini = end)
{
	up();
	cr_assert_not(says_r());
	cr_assert_eq(read_call(0)->rr.nmrs, 0, "the one rkey of all buffers");
}

/* A driver that has windows, and ends the connection when one is bound. */
Test(memreg, auto_when_windows_do_not_work, .init = by_itself, .fini = end)
{
	struct test_call *t;

	fake_has_windows = true;
	up();
	fake_break();
	up();
	cr_assert(says_r(), "none was bound");
	t = read_call(0);
	fake_break();
	up();
	cr_assert(says_r(), "a connection may be lost");
	fake_break();
	cr_assert_eq(t->dones, 0);
	up();
	cr_assert_not(says_r());
	cr_assert(t->rr.nmrs == 1 && t->rr.mrs[0].rkey != fake.rkey, "a key for this call alone");
	cr_assert(fake.data_has_windows, "another registration of all buffers would lock them again");
	reply(t, 8192, 0);
	cr_assert_eq(t->dones, 1);
}

static void lose_two(void)
{
	read_call(0);
	for (unsigned i = 0; i < 2; i++) {
		fake_break();
		up();
	}
}

/* Two connections that are dropped are not the end of windows. */
Test(memreg, auto_tries_windows_again, .init = by_itself, .fini = end)
{
	struct test_call *t = &calls[0];

	fake_has_windows = true;
	up();
	lose_two();
	cr_assert_not(says_r());
	cr_assert_gt(windows[0].again_ns, mono_ns() + 500000000000);
	windows[0].again_ns = mono_ns();        /* it has come */
	fake_break();
	up();
	cr_assert(says_r());
	fake_break();
	up();
	cr_assert(!says_r() && t->rr.nmrs == 1, "no third one is needed to doubt them again");
	windows[0].again_ns = mono_ns();
	fake_break();
	up();
	cr_assert(says_r());
	reply(t, 8192, t->rr.mrs[0].rkey);
	cr_assert_eq(t->dones, 1);
	cr_assert(windows[0].work);
	lose_two();
	cr_assert(says_r());
}

/* Another lane has the same device. */
Test(memreg, auto_believes_other_lanes, .init = by_itself, .fini = end)
{
	fake_has_windows = true;
	windows[0].work = true;
	up();
	lose_two();
	cr_assert(says_r());
}

/* ---- memory windows ---- */

static void with_windows(void)
{
	fake_has_windows = true;
	begin(&rr_memreg_mw);
	up();
}

Test(memreg, mw_offers_remote_invalidation, .init = with_windows, .fini = end)
{
	cr_assert(says_r());
	cr_assert_eq(fake_in_state(FAKE_FREE), CREDITS + RR_CALL_MRS);
}

Test(memreg, mw_reply_that_invalidates, .init = with_windows, .fini = end)
{
	struct test_call *t = read_call(0);
	const struct fake_window *w = t->rr.mrs[0].priv;

	cr_assert_eq(fake_in_state(FAKE_BOUND), 1);
	cr_assert(w->access == FAB_REMOTE_WRITE && w->mem == t->rr.sink[0].mem && w->len == 8192);
	sent();
	reply(t, 8192, w->rkey);
	cr_assert(t->dones == 1 && t->status == 0);
	cr_assert(fake.unbinds == 0 && fake_in_state(FAKE_FREE) == fake.nwindows);
	cr_assert_eq(stat_get(&st, STAT_RDMA_REMOTE_INVALS), 1);
}

/* The server may invalidate, and need not. */
Test(memreg, mw_reply_that_does_not, .init = with_windows, .fini = end)
{
	struct test_call *t = read_call(0);

	sent();
	reply(t, 8192, 0);
	cr_assert_eq(t->dones, 0, "the server can still write to the buffer");
	cr_assert_eq(fake_in_state(FAKE_ENDING), 1);
	reply(t, 8192, 0);
	cr_assert_eq(t->dones, 0, "a second reply changes nothing");
	cr_assert(fake_unbound());
	cr_assert(t->dones == 1 && t->status == 0);
	cr_assert_eq(stat_get(&st, STAT_RDMA_LOCAL_INVALS), 1);
	spin_loop();
	cr_assert_eq(downs, 0);
}

/* The text of a link is parsed. What the server writes until its window has ended is in the
 * copy, and what it writes later is not. */
Test(memreg, mw_text_is_copied_when_its_window_has_ended, .init = with_windows, .fini = end)
{
	struct test_call *t = readlink_call(0);
	const struct fake_window *w = t->rr.mrs[0].priv;
	char *placed = (char *)(uintptr_t)w->mem;

	cr_assert(w->access == FAB_REMOTE_WRITE && w->len == 4096);
	sent();
	memcpy(placed, "first", 5);
	reply(t, 5, 0);
	memcpy(placed, "later", 5);
	cr_assert_eq(t->dones, 0);
	cr_assert(fake_unbound());
	cr_assert(t->dones == 1 && t->status == 0 && t->rr.placed && t->rr.placed_len == 5);
	memcpy(placed, "never", 5);
	cr_assert(!memcmp(t->rr.data, "later", 5));
}

/* The connection dies while the window is being ended: the reply is here, and counts. */
Test(memreg, mw_text_and_the_connection_dies, .init = with_windows, .fini = end)
{
	struct test_call *t = readlink_call(0);
	char *placed = (char *)(uintptr_t)((const struct fake_window *)t->rr.mrs[0].priv)->mem;

	sent();
	memcpy(placed, "first", 5);
	reply(t, 5, 0);
	cr_assert_eq(t->dones, 0);
	fake_break();
	cr_assert(t->dones == 1 && t->status == 0 && !memcmp(t->rr.data, "first", 5));
}

/* Whatever comes last. */
Test(memreg, mw_send_completes_last, .init = with_windows, .fini = end)
{
	struct test_call *t = read_call(0);

	reply(t, 8192, 0);
	cr_assert(fake_unbound());
	cr_assert_eq(t->dones, 0, "the device still has the message");
	sent();
	cr_assert_eq(t->dones, 1);
}

Test(memreg, mw_one_of_two_is_invalidated, .init = with_windows, .fini = end)
{
	struct test_call *t = write_call(0);
	const struct fake_window *w = t->rr.mrs[1].priv;

	cr_assert(fake_in_state(FAKE_BOUND) == 2 && w->access == FAB_REMOTE_READ);
	sent();
	reply(t, 0, w->rkey);
	cr_assert(t->dones == 0 && w->state == FAKE_FREE && fake_in_state(FAKE_ENDING) == 1);
	cr_assert(fake_unbound());
	cr_assert_eq(t->dones, 1);
}

/* What the server invalidates must have been offered with the call that it answers. */
Test(memreg, mw_another_calls_window, .init = with_windows, .fini = end)
{
	struct test_call *a = read_call(0), *b = read_call(1);

	sent();
	reply(a, 8192, b->rr.mrs[0].rkey);
	/* b's own reply is there as well. Nobody knows what it has still bound. */
	reply(b, 8192, 0);
	cr_assert(a->dones == 0 && b->dones == 0 && fake.unbinds == 0);
	spin_loop();
	cr_assert(downs == 1 && !fake.open);
	cr_assert(b->dones == 1 && b->status == 0, "answered, and out of the server's reach");
	cr_assert_eq(a->dones, 0);
	up();
	a = &calls[0];
	cr_assert_eq(a->rr.sends, 2);
	reply(a, 8192, a->rr.mrs[0].rkey);
	cr_assert_eq(a->dones, 1);
}

/* More is wanted than there are windows: calls wait for each other, and all end. */
Test(memreg, mw_too_few_windows, .init = with_windows, .fini = end)
{
	unsigned ended = 0;

	for (unsigned i = 0; i < CREDITS; i++)
		write_call(i);
	cr_assert_eq(fake.nsends, fake.nwindows / 2, "two for each");
	for (unsigned round = 0; ended < CREDITS; round++) {
		cr_assert_lt(round, CREDITS);
		sent();
		for (unsigned i = 0; i < CREDITS; i++)
			if (!calls[i].dones && calls[i].rr.state == RR_CALL_INFLIGHT)
				reply(&calls[i], 0, 0);
		while (fake_unbound())
			;
		ended = 0;
		for (unsigned i = 0; i < CREDITS; i++)
			ended += calls[i].dones;
	}
	cr_assert(downs == 0 && fake_in_state(FAKE_FREE) == fake.nwindows);
}

/* The connection dies with a call under way, and one whose windows end. */
Test(memreg, mw_connection_dies, .init = with_windows, .fini = end)
{
	struct test_call *a = read_call(0), *b = read_call(1);
	uint32_t old = a->rr.mrs[0].rkey;

	sent();
	reply(b, 8192, 0);
	cr_assert_eq(b->dones, 0);
	fake_break();
	cr_assert(b->dones == 1 && b->status == 0, "its connection is closed");
	cr_assert_eq(a->dones, 0);
	up();
	cr_assert(a->rr.sends == 2 && a->rr.mrs[0].rkey != old);
	cr_assert_eq(((struct fake_window *)a->rr.mrs[0].priv)->state, FAKE_BOUND);
	reply(a, 8192, a->rr.mrs[0].rkey);
	cr_assert_eq(a->dones, 1);
}

/* A binding or an invalidation that the device refuses ends the connection, not the call. */
Test(memreg, mw_device_refuses, .init = with_windows, .fini = end)
{
	struct test_call *t;

	fake_bind_error = -ENOMEM;
	t = read_call(0);
	cr_assert(fake.nsends == 0 && t->dones == 0);
	fake_bind_error = 0;
	spin_loop();
	cr_assert_eq(downs, 1);
	up();
	cr_assert_eq(fake_in_state(FAKE_BOUND), 1);
	fake_unbind_error = -EIO;
	reply(t, 8192, 0);
	cr_assert_eq(t->dones, 0);
	spin_loop();
	cr_assert(downs == 2 && !fake.open);
	cr_assert(t->dones == 1 && t->status == 0, "the end of the connection is the end of its rights");
	fake_unbind_error = 0;
}

/* The bindings of a Send that cannot be posted may have been. */
Test(memreg, mw_send_is_refused, .init = with_windows, .fini = end)
{
	struct test_call *t;

	fake_post_send_error = -EIO;
	t = read_call(0);
	fake_post_send_error = 0;
	cr_assert(t->dones == 0 && fake.unbinds == 0);
	spin_loop();
	cr_assert_eq(downs, 1);
	up();
	cr_assert_eq(t->rr.sends, 1);
	reply(t, 8192, t->rr.mrs[0].rkey);
	cr_assert_eq(t->dones, 1);
}

/* The second piece cannot be bound: the first one's binding is not posted. */
Test(memreg, mw_half_a_call, .init = with_windows, .fini = end)
{
	struct test_call *t = prepare(0);

	t->rr.send[0] = (struct rr_iov){ file->mem, 4096 };
	t->rr.send[1] = (struct rr_iov){ t->rr.msg->mem, 4096 };
	t->rr.nsend = 2;
	t->rr.data_pos = 64;
	rr_submit(conn, &t->rr);
	cr_assert(t->dones == 1 && t->status == -EMSGSIZE && fake.nsends == 0);
	cr_assert_eq(fake_in_state(FAKE_FREE), fake.nwindows);
	cr_assert_eq(downs, 0);
}

Test(memreg, mw_without_windows, .fini = end)
{
	begin(&rr_memreg_mw);
	up();
	cr_assert(!says_r());
	read_call(0);
	cr_assert_eq(fake.nsegs, 1, "registered for the call");
}

/* ---- call, on a device ---- */

static void by_call(void)
{
	begin(&rr_memreg_call);
	up();
}

Test(memreg, call_registers_what_it_uses, .init = by_call, .fini = end)
{
	struct test_call *t = write_call(0);

	cr_assert(!says_r() && fake.nsegs == 2);
	sent();
	reply(t, 0, 0);
	cr_assert(t->dones == 1 && fake.nsegs == 0);
	t = read_call(0);
	cr_assert_eq(fake.nsegs, 1);
	sent();
	reply(t, 8192, 0);
	cr_assert(t->dones == 1 && fake.nsegs == 0);
	cr_assert_eq(stat_get(&st, STAT_RDMA_REGISTRATIONS), 3);
}

/* RLIMIT_MEMLOCK: with others under way it is a matter of waiting. */
Test(memreg, call_waits_for_room, .init = by_call, .fini = end)
{
	struct test_call *a = read_call(0), *b;

	fake_reg_error = -ENOMEM;
	b = write_call(1);
	cr_assert(fake.nsends == 1 && b->dones == 0 && fake.nsegs == 1);
	fake_reg_error = 0;
	sent();
	reply(a, 8192, 0);
	cr_assert(a->dones == 1 && fake.nsends == 1 && fake.nsegs == 2);
	sent();
	reply(b, 0, 0);
	cr_assert(b->dones == 1 && downs == 0);
}

/* Another lane may have all of it. Its calls end without telling this lane, which tries
 * again by the clock. */
Test(memreg, call_without_any_room, .init = by_call, .fini = end)
{
	struct test_call *t;

	fake_reg_error = -ENOMEM;
	t = read_call(0);
	rr_retry(conn);
	spin_loop();
	cr_assert(t->dones == 0 && fake.nsends == 0 && downs == 0);
	fake_reg_error = 0;
	rr_retry(conn);
	sent();
	reply(t, 8192, 0);
	cr_assert_eq(t->dones, 1);
}

/* What is not a matter of room ends the connection. */
Test(memreg, call_device_refuses, .init = by_call, .fini = end)
{
	fake_reg_error = -EIO;
	read_call(0);
	fake_reg_error = 0;
	spin_loop();
	cr_assert_eq(downs, 1);
	up();
	cr_assert_eq(fake.nsegs, 1);
}

Test(memreg, call_outside_of_the_data_buffers, .init = by_call, .fini = end)
{
	struct test_call *t = prepare(0);

	t->rr.sink[0] = (struct rr_iov){ (char *)arena.data.base + arena.data.len - 4096, 8192 };
	rr_submit(conn, &t->rr);
	cr_assert(t->dones == 1 && t->status == -EMSGSIZE && fake.nsegs == 0);
}

/* ---- extents ---- */

#define PIECE_RKEY 0xe000u
#define PIECE_LKEY 77u

static int64_t play_spare(void *ctx)
{
	(void)ctx;
	return INT64_MAX;
}

static int play_add(void *ctx, unsigned i, const struct arena_range *r, struct errbuf *eb)
{
	(void)ctx;
	(void)eb;
	fake_pieces[i] = (struct fab_mr){
		.base = r->base, .len = r->len, .addr = (uintptr_t)r->base, .lkey = PIECE_LKEY + i,
		.rkey = PIECE_RKEY + i,
	};
	return 0;
}

static bool play_remove(void *ctx, unsigned i)
{
	(void)ctx;
	fake_pieces[i] = (struct fab_mr){ 0 };
	return true;
}

static const struct arena_keeper_ops keeper_ops = {
	.spare = play_spare, .add = play_add, .remove = play_remove,
	.look_ms = 3600000,             /* the keeper does only what it is asked for */
};

static struct arena_buf *fixed;         /* the buffer that file was before */

/* file lies in an extent from now on. */
static void file_in_extent(void)
{
	struct arena_buf *other = magazine_get(&mag, ARENA_BIG);

	if (!arena.more.n)
		cr_assert_eq(arena_grows(&arena, 2, &keeper_ops, NULL), 0);
	fixed = file;
	while (!(file = magazine_get_spare(&mag, ARENA_BIG_SIZE))) {
		arena_want(&arena, ARENA_BIG);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	cr_assert_not_null(file->extent);
	magazine_put(&mag, other);
}

static unsigned extents(void)
{
	unsigned n;

	pthread_mutex_lock(&arena.mu);
	n = arena.more.there;
	pthread_mutex_unlock(&arena.mu);
	return n;
}

/* And no longer: the extent goes. */
static void extent_goes(void)
{
	magazine_put(&mag, file);
	file = fixed;
	while (extents()) {
		arena_give_back(&arena);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

/* The handle of the first segment of the Write chunk in the first message that has not been completed. */
static uint32_t handle_sent(void)
{
	uint32_t word;

	memcpy(&word, fake.sends[0].bytes + 7 * 4, 4);
	return ntohl(word);
}

static void with_pool(void)
{
	begin(&rr_memreg_pool);
	up();
}

Test(memreg, pool_names_the_extents_key, .init = with_pool, .fini = end)
{
	struct test_call *t;

	t = read_call(0);
	cr_assert_eq(handle_sent(), fake.rkey);
	sent();
	reply(t, 8192, 0);
	file_in_extent();
	t = read_call(1);
	cr_assert_eq(handle_sent(), PIECE_RKEY);
	sent();
	reply(t, 8192, 0);
	cr_assert(t->dones == 1 && t->status == 0);
	extent_goes();
}

/* A device that came later may lack it: what lies there cannot be offered, and nothing else suffers. */
Test(memreg, memory_that_the_device_lacks, .init = with_pool, .fini = end)
{
	struct fab_mr had;
	struct test_call *t;

	file_in_extent();
	had = fake_pieces[0];
	fake_pieces[0] = (struct fab_mr){ 0 };
	t = read_call(0);
	cr_assert(t->dones == 1 && t->status == -EMSGSIZE, "%d", t->status);
	cr_assert_eq(fake.nsends, 0);
	cr_assert_eq(downs, 0);
	fake_pieces[0] = had;
	t = read_call(1);
	cr_assert_eq(handle_sent(), PIECE_RKEY);
	sent();
	reply(t, 8192, 0);
	extent_goes();
}

Test(memreg, mw_binds_in_the_extent, .init = with_windows, .fini = end)
{
	struct test_call *t;

	file_in_extent();
	t = read_call(0);
	cr_assert_eq(fake_in_state(FAKE_BOUND), 1);
	sent();
	reply(t, 8192, t->rr.mrs[0].rkey);
	cr_assert(t->dones == 1 && t->status == 0);
	extent_goes();
}

/* The link is lost, and the call is sent again on one that knows the extent as well. */
Test(memreg, extents_and_the_connection_dies, .init = with_pool, .fini = end)
{
	struct test_call *t;

	file_in_extent();
	t = read_call(0);
	fake_break();
	up();
	cr_assert_eq(handle_sent(), PIECE_RKEY);
	reply(t, 8192, 0);
	cr_assert_eq(t->dones, 1);
	extent_goes();
}

/* A message that has its data inside, without another copy. */
Test(memreg, a_message_in_an_extent, .init = with_pool, .fini = end)
{
	struct test_call *t = prepare(0);
	struct arena_buf *msg = t->rr.msg;
	uint32_t *words;

	file_in_extent();
	t->rr.msg = file;
	words = (uint32_t *)(void *)((char *)file->mem + RR_HDR_ROOM);
	words[0] = htonl(t->rr.xid);
	rr_submit(conn, &t->rr);
	cr_assert_eq(fake.nsends, 1);
	sent();
	reply(t, 0, 0);
	cr_assert(t->dones == 1 && t->status == 0);
	t->rr.msg = msg;
	extent_goes();
}

Test(memreg, call_in_an_extent, .init = by_call, .fini = end)
{
	struct test_call *t;

	file_in_extent();
	t = read_call(0);
	cr_assert_eq(fake.nsegs, 1);
	sent();
	reply(t, 8192, 0);
	cr_assert(t->dones == 1 && t->status == 0);
	extent_goes();
	file = &(struct arena_buf){ .mem = arena.more.range.base };
	t = read_call(1);
	cr_assert_eq(t->dones, 1);
	cr_assert_eq(t->status, -EMSGSIZE, "it lies nowhere");
	file = fixed;
}

/* A connection on a device that has no room for all extents. They go, and it is made. */
Test(memreg, extents_give_way_to_a_connection, .init = with_pool, .fini = end)
{
	struct errbuf eb = { "" };

	file_in_extent();
	fake_break();
	fake_pieces_error = -ENOMEM;
	cr_assert_eq(try_up(&eb), -ENOMEM);
	cr_assert_str_eq(eb.text, "fake error");
	while (arena_more(&arena, ARENA_BIG))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	extent_goes();
	fake_pieces_error = 0;
	cr_assert_eq(try_up(&eb), 0);
}
