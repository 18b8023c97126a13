/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory windows and the account of the send queue, with a device that the test plays: it
 * has so many entries, executes work requests in order, and frees their entries when a
 * signalled one behind them is taken from the completion queue.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "fabric/verbs.h"

#define WINDOWS  6u
#define MAX_SEND 8u
#define ENTRIES  64u
#define FAB (&fabric_verbs)

TestSuite(verbs_window, .timeout = 300);

/* ---- the device ---- */

static struct entry {
	enum ibv_wr_opcode opcode;
	uint64_t wr_id;
	uint32_t rkey;          /* new one of a binding; what is invalidated */
	bool signalled;
	struct ibv_mw_bind_info info;
} queue[ENTRIES];
static unsigned put, taken;             /* entries in use: taken..put-1 */
static unsigned posts;                  /* calls of post_send */
static int post_error;
static unsigned windows_left = WINDOWS, windows_made;
static uint32_t key_of[64];             /* by window: of the newest binding */

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw;

	cr_assert_eq(type, IBV_MW_TYPE_2);
	if (!windows_left)
		return NULL;
	windows_left--;
	mw = calloc(1, sizeof(*mw));
	mw->context = pd->context;
	mw->rkey = ++windows_made << 8;
	key_of[windows_made % 64] = mw->rkey;
	mw->type = type;
	return mw;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	windows_left++;
	free(mw);
	return 0;
}

static struct ibv_mr device_mr = { .lkey = 77 };

static void check_binding(const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	cr_assert_eq(info->mr, &device_mr);
	cr_assert_eq(wr->bind_mw.rkey >> 8, wr->bind_mw.mw->rkey >> 8);
	/* rxe looks there for the key of the binding before. */
	cr_assert_eq(wr->bind_mw.mw->rkey, key_of[(wr->bind_mw.rkey >> 8) % 64]);
	cr_assert_neq(wr->bind_mw.rkey, wr->bind_mw.mw->rkey, "a new key");
	key_of[(wr->bind_mw.rkey >> 8) % 64] = wr->bind_mw.rkey;
	cr_assert(info->mw_access_flags == IBV_ACCESS_REMOTE_READ ||
		  info->mw_access_flags == IBV_ACCESS_REMOTE_WRITE);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct fab_conn *c = qp->qp_context;

	posts++;
	*bad = wr;
	if (post_error)
		return post_error;
	for (; wr; wr = wr->next) {
		cr_assert_lt(put - taken, c->sq_size, "the send queue overflows");
		if (wr->opcode == IBV_WR_BIND_MW)
			check_binding(wr);
		queue[put++ % ENTRIES] = (struct entry){
			wr->opcode, wr->wr_id,
			wr->opcode == IBV_WR_BIND_MW ? wr->bind_mw.rkey : wr->invalidate_rkey,
			wr->send_flags & IBV_SEND_SIGNALED, { 0 },
		};
		if (wr->opcode == IBV_WR_BIND_MW)
			queue[(put - 1) % ENTRIES].info = wr->bind_mw.bind_info;
	}
	return 0;
}

/* ---- the connection ---- */

static struct ibv_context context = {
	.ops = { .alloc_mw = alloc_mw, .dealloc_mw = dealloc_mw, .post_send = post_send },
};
static struct fab_conn c;
static struct ibv_qp qp = { .context = &context, .qp_context = &c };
static struct rdma_cm_id id = { .qp = &qp, .verbs = &context };
static struct ibv_pd pd = { .context = &context };
static char data[WINDOWS * 8192];
static struct ibv_mr *registered = &device_mr;
static const struct fab_mr data_mr = { .base = data, .len = sizeof(data), .priv = &registered };

static unsigned rooms, unbounds;
static void *last_unbound;

static void on_sent(void *ctx, void *cookie)
{
	cr_assert_null(cookie);
	rooms++;
}

static void on_unbound(void *ctx, void *cookie)
{
	last_unbound = cookie;
	unbounds++;
}

static const struct fab_events events = { .sent = on_sent, .unbound = on_unbound };

static void setup(void)
{
	c = (struct fab_conn){
		.params = { .max_send = MAX_SEND, .max_recv = 1, .windows = WINDOWS },
		.id = &id, .ev = &events,
	};
	verbs_windows_init(&c);
	verbs_chain_init(&c);
	loop_timer_init(&c.flush, verbs_on_flush);
	verbs_windows_make(&c, &pd, WINDOWS);
	cr_assert_eq(c.nwindows, WINDOWS);
	cr_assert_eq(verbs_sq_init(&c, verbs_sq_entries(&c.params, false, WINDOWS)), 0);
	cr_assert_leq(c.sq_size, ENTRIES);
}

static void teardown(void)
{
	verbs_windows_free(&c);
	free(c.signalled);
	cr_assert_eq(windows_left, WINDOWS);
}

static struct fab_mr bound(unsigned i, unsigned access)
{
	struct fab_mr mr;

	cr_assert_eq(FAB->bind(&c, &data_mr, data + i * 8192, 8192, access, &mr), 0);
	return mr;
}

static int send_one(void *cookie)
{
	struct fab_sge sge = { data, 8, 1 };

	return FAB->post_send(&c, &sge, 1, cookie);
}

/* Takes the next completion: entries up to the next signalled one are done. False: there is
 * none. */
static bool complete(void)
{
	unsigned at = taken;
	const struct entry *e;

	while (at != put && !queue[at % ENTRIES].signalled)
		at++;
	if (at == put)
		return false;
	e = &queue[at % ENTRIES];
	taken = at + 1;
	verbs_sq_done(&c);
	if (e->opcode == IBV_WR_LOCAL_INV)
		verbs_unbound(&c, (void *)(uintptr_t)e->wr_id);
	return true;
}

static unsigned free_windows(void)
{
	unsigned n = 0;

	list_for_each(at, &c.free_windows)
		n++;
	return n;
}

/* ---- windows ---- */

Test(verbs_window, bindings_leave_with_the_send, .init = setup, .fini = teardown)
{
	struct fab_mr a = bound(0, FAB_REMOTE_READ), b = bound(1, FAB_REMOTE_WRITE);

	cr_assert_eq(posts, 0, "nothing is posted yet");
	cr_assert(a.rkey != b.rkey && a.addr == (uintptr_t)data && a.len == 8192);
	cr_assert_eq(send_one(&c), 0);
	cr_assert(posts == 1 && put == 3);
	cr_assert(queue[0].opcode == IBV_WR_BIND_MW && queue[0].rkey == a.rkey && !queue[0].signalled);
	cr_assert(queue[1].opcode == IBV_WR_BIND_MW && queue[1].rkey == b.rkey && !queue[1].signalled);
	cr_assert(queue[2].opcode == IBV_WR_SEND && queue[2].signalled);
	cr_assert(queue[0].info.addr == (uintptr_t)data && queue[0].info.length == 8192);
	cr_assert(queue[1].info.addr == (uintptr_t)data + 8192 && queue[1].info.length == 8192);
	cr_assert_eq(queue[0].info.mw_access_flags, IBV_ACCESS_REMOTE_READ);
	cr_assert_eq(queue[1].info.mw_access_flags, IBV_ACCESS_REMOTE_WRITE);
	cr_assert_eq(send_one(&c), 0);
	cr_assert_eq(put, 4, "they leave once");
}

Test(verbs_window, none_is_left, .init = setup, .fini = teardown)
{
	struct fab_mr mr;

	for (unsigned i = 0; i < WINDOWS; i++)
		bound(i, FAB_REMOTE_READ);
	cr_assert_eq(FAB->bind(&c, &data_mr, data, 8192, FAB_REMOTE_READ, &mr), -EAGAIN);
}

/* What has not been posted is taken out of the chain, wherever it is. */
Test(verbs_window, unbound_before_the_send, .init = setup, .fini = teardown)
{
	for (unsigned out = 0; out < 3; out++) {
		struct fab_mr mr[3];
		unsigned begin = put;

		for (unsigned i = 0; i < 3; i++)
			mr[i] = bound(i, FAB_REMOTE_READ);
		cr_assert_eq(FAB->unbind(&c, &mr[out], 1, NULL, &c), 0);
		bound(3, FAB_REMOTE_WRITE);
		cr_assert_eq(send_one(&c), 0);
		cr_assert_eq(put - begin, 4, "three bindings and the Send");
		for (unsigned i = begin; i < put; i++)
			cr_assert_neq(queue[i % ENTRIES].rkey, mr[out].rkey);
		while (complete())
			;
		verbs_windows_free(&c);
		verbs_windows_make(&c, &pd, WINDOWS);
	}
	cr_assert_eq(unbounds, 0);
}

Test(verbs_window, invalidated_by_the_peer, .init = setup, .fini = teardown)
{
	struct fab_mr mr[2] = { bound(0, FAB_REMOTE_READ), bound(1, FAB_REMOTE_WRITE) };
	uint32_t rkey = mr[0].rkey;

	cr_assert_eq(send_one(NULL), 0);
	cr_assert_eq(FAB->unbind(&c, mr, 1, &rkey, &c), 0);
	cr_assert(posts == 1 && free_windows() == WINDOWS - 1);
	rkey = 12345;
	cr_assert_eq(FAB->unbind(&c, mr + 1, 1, &rkey, &c), 1, "it was another one");
	cr_assert(posts == 2 && queue[(put - 1) % ENTRIES].opcode == IBV_WR_LOCAL_INV);
}

/* Those of a call end together, and calls one after the other. */
Test(verbs_window, invalidated_by_us, .init = setup, .fini = teardown)
{
	struct fab_mr a[2] = { bound(0, FAB_REMOTE_READ), bound(1, FAB_REMOTE_WRITE) };
	struct fab_mr b[1] = { bound(2, FAB_REMOTE_READ) };

	cr_assert_eq(send_one(NULL), 0);
	cr_assert_eq(FAB->unbind(&c, a, 2, NULL, a), 1);
	cr_assert_eq(FAB->unbind(&c, b, 1, NULL, b), 1);
	cr_assert(posts == 3 && put == 7);
	cr_assert(queue[4].rkey == a[0].rkey && !queue[4].signalled);
	cr_assert(queue[5].rkey == a[1].rkey && queue[5].signalled);
	cr_assert_eq(free_windows(), WINDOWS - 3, "not before the device says so");
	cr_assert(complete() && last_unbound == a && free_windows() == WINDOWS - 1);
	cr_assert(complete() && last_unbound == b && free_windows() == WINDOWS);
	cr_assert_not(complete());
}

/* The device refuses: nobody knows what it has taken, and the connection is to be closed. */
Test(verbs_window, refused, .init = setup, .fini = teardown)
{
	struct fab_mr mr = bound(0, FAB_REMOTE_READ);

	post_error = ENOMEM;
	cr_assert_eq(send_one(NULL), -ENOMEM);
	post_error = 0;
	mr = bound(1, FAB_REMOTE_READ);
	cr_assert_eq(send_one(NULL), 0);
	post_error = EIO;
	cr_assert_eq(FAB->unbind(&c, &mr, 1, NULL, &c), -EIO);
	cr_assert_neq(free_windows(), WINDOWS);
}

/* Without bindings nothing is left of a Send that could not be posted. */
Test(verbs_window, refused_send, .init = setup, .fini = teardown)
{
	post_error = EAGAIN;
	cr_assert_eq(send_one(NULL), -EIO, "-EAGAIN is our own");
	post_error = 0;
	cr_assert_eq(send_one(NULL), 0);
	cr_assert_eq(put, 1);
}

/* Bindings that find no room wait for it with their Send. */
Test(verbs_window, no_room_for_a_binding, .init = setup, .fini = teardown)
{
	struct fab_mr mr;
	unsigned before;

	while (send_one(NULL) == 0)
		;
	mr = bound(0, FAB_REMOTE_READ);
	before = put;
	cr_assert_eq(send_one(NULL), -EAGAIN);
	cr_assert_eq(put, before);
	cr_assert(complete() && rooms == 1);
	cr_assert_eq(send_one(NULL), 0);
	cr_assert(put == before + 2 && queue[before % ENTRIES].rkey == mr.rkey);
}

Test(verbs_window, device_without_enough)
{
	verbs_windows_init(&c);
	verbs_windows_make(&c, &pd, WINDOWS + 1);
	cr_assert(c.nwindows == 0 && windows_left == WINDOWS);
}

Test(verbs_window, what_fits_a_device)
{
	struct fab_params p = { .max_send = 100, .max_recv = 100, .windows = 50 };
	struct ibv_device_attr dev = {
		.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS,
		.max_mw = 50, .max_qp_wr = 250, .max_cqe = 350,
	};
	struct ibv_device_attr d = dev;

	cr_assert_eq(verbs_windows_fit(&p, &dev), 50);
	d.max_mw--;
	cr_assert_eq(verbs_windows_fit(&p, &d), 0);
	d = dev;
	d.max_qp_wr--;
	cr_assert_eq(verbs_windows_fit(&p, &d), 0);
	d = dev;
	d.max_cqe--;
	cr_assert_eq(verbs_windows_fit(&p, &d), 0);
	d = dev;
	d.device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS;
	cr_assert_eq(verbs_windows_fit(&p, &d), 0);
	d.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2A;
	cr_assert_eq(verbs_windows_fit(&p, &d), 0);
	d.device_cap_flags |= IBV_DEVICE_MEM_MGT_EXTENSIONS;
	cr_assert_eq(verbs_windows_fit(&p, &d), 50);
}

/* ---- one doorbell for many ---- */

static struct loop *loop;
static int down_error;

static void on_down(void *ctx, int err, const char *why)
{
	down_error = err;
}

static void on_time(struct loop_timer *t)
{
	loop_stop(loop);
}

/* Timers that are due at once have been called when it returns. */
static void run_loop(void)
{
	struct loop_timer t;

	loop_timer_init(&t, on_time);
	loop_timer_set(loop, &t, 0);
	cr_assert_eq(loop_run(loop), 0);
}

static void setup_loop(void)
{
	static const struct fab_events with_down = { .sent = on_sent, .unbound = on_unbound, .down = on_down };

	setup();
	loop = loop_new(NULL);
	c.loop = loop;
	c.ev = &with_down;
	c.comp_watch.fd = c.cm_watch.fd = c.async_watch.fd = c.kick_watch.fd = -1;
	list_init(&c.node);
}

static void teardown_loop(void)
{
	loop_timer_clear(&c.flush);
	loop_free(loop);
	teardown();
}

Test(verbs_window, a_rounds_sends_leave_together, .init = setup_loop, .fini = teardown_loop)
{
	struct fab_mr a = bound(0, FAB_REMOTE_READ), b;

	cr_assert_eq(send_one(NULL), 0);
	cr_assert_eq(send_one(NULL), 0);
	b = bound(1, FAB_REMOTE_WRITE);
	cr_assert_eq(send_one(&c), 0);
	cr_assert_eq(posts, 0);
	run_loop();
	cr_assert(posts == 1 && put == 5);
	cr_assert(queue[0].opcode == IBV_WR_BIND_MW && queue[0].rkey == a.rkey);
	cr_assert(queue[1].opcode == IBV_WR_SEND && queue[2].opcode == IBV_WR_SEND);
	cr_assert(queue[3].opcode == IBV_WR_BIND_MW && queue[3].rkey == b.rkey);
	cr_assert(queue[4].opcode == IBV_WR_SEND && queue[4].signalled);
	run_loop();
	cr_assert_eq(posts, 1, "they leave once");
	cr_assert_eq(send_one(NULL), 0);
	run_loop();
	cr_assert(posts == 2 && put == 6);
}

/* The device has a window's binding before its end. */
Test(verbs_window, an_end_does_not_overtake, .init = setup_loop, .fini = teardown_loop)
{
	struct fab_mr mr = bound(0, FAB_REMOTE_READ);

	cr_assert_eq(send_one(NULL), 0);
	cr_assert_eq(FAB->unbind(&c, &mr, 1, NULL, &mr), 1);
	cr_assert(posts == 2 && put == 3);
	cr_assert(queue[0].opcode == IBV_WR_BIND_MW && queue[1].opcode == IBV_WR_SEND);
	cr_assert(queue[2].opcode == IBV_WR_LOCAL_INV && queue[2].rkey == mr.rkey);
	run_loop();
	cr_assert_eq(posts, 2);
}

Test(verbs_window, many_do_not_wait, .init = setup_loop, .fini = teardown_loop)
{
	c.params.max_send = c.sq_size = ENTRIES;
	free(c.signalled);
	cr_assert_eq(verbs_sq_init(&c, ENTRIES), 0);
	for (unsigned i = 0; i < VERBS_BATCH; i++) {
		cr_assert_eq(posts, 0);
		cr_assert_eq(send_one(NULL), 0);
	}
	cr_assert(posts == 1 && put == VERBS_BATCH);
}

/* The caller would believe that only its message is wrong, and others would wait. */
Test(verbs_window, a_full_chain_that_is_refused, .init = setup_loop, .fini = teardown_loop)
{
	c.params.max_send = c.sq_size = ENTRIES;
	free(c.signalled);
	cr_assert_eq(verbs_sq_init(&c, ENTRIES), 0);
	for (unsigned i = 1; i < VERBS_BATCH; i++)
		cr_assert_eq(send_one(NULL), 0);
	post_error = EINVAL;
	cr_assert_eq(send_one(NULL), -EIO);
}

/* Nobody waits for the answer to a message that has not left. */
Test(verbs_window, a_chain_that_is_refused_ends_the_connection, .init = setup_loop, .fini = teardown_loop)
{
	cr_assert_eq(send_one(NULL), 0);
	post_error = EAGAIN;
	c.loop = NULL;                          /* down takes watches out that are not there here */
	verbs_on_flush(&c.flush);
	cr_assert_eq(down_error, -EIO);
	cr_assert_eq(send_one(NULL), -ENOTCONN);
}

/* ---- the send queue ---- */

/* Sends without a cookie: few are signalled, and when the queue is full it is said, and
 * said again when there is room. */
Test(verbs_window, silent_sends, .init = setup, .fini = teardown)
{
	unsigned n = 0, signalled = 0;

	while (send_one(NULL) == 0)
		n++;
	cr_assert_eq(send_one(NULL), -EAGAIN);
	for (unsigned i = 0; i < put; i++)
		signalled += queue[i].signalled;
	cr_assert(n >= MAX_SEND && signalled >= 1 && signalled <= n / 3, "%u of %u", signalled, n);
	cr_assert(complete() && rooms == 1);
	cr_assert_eq(send_one(NULL), 0);
	cr_assert(complete() && rooms == 1, "nobody waits");
}

/* The ends of bindings always find room. */
Test(verbs_window, room_for_the_end, .init = setup, .fini = teardown)
{
	struct fab_mr mr[WINDOWS];

	for (unsigned i = 0; i < WINDOWS; i++)
		mr[i] = bound(i, FAB_REMOTE_READ);
	cr_assert_eq(send_one(NULL), 0);
	while (send_one(NULL) == 0)
		;
	for (unsigned i = 0; i < WINDOWS; i++)
		cr_assert_eq(FAB->unbind(&c, &mr[i], 1, NULL, &mr[i]), 1);
}

/* Anything in any order: never too many, and always going on. */
static void at_random(void)
{
	struct fab_mr live[WINDOWS];
	unsigned nlive = 0, nsent = 0, sent = 0;

	srand(1);
	for (unsigned i = 0; i < 200000; i++) {
		if (loop && rand() % 3 == 0)
			verbs_on_flush(&c.flush);
		switch (rand() % 4) {
		case 0:
			if (free_windows()) {
				live[nlive] = bound(nlive, FAB_REMOTE_WRITE);
				nlive++;
			}
			break;
		case 1:
			if (send_one(rand() % 8 ? NULL : &c) == 0) {
				nsent = nlive;
				sent++;
			}
			break;
		case 2:
			if (nsent) {
				unsigned n = 1 + (unsigned)rand() % nsent;
				uint32_t rkey = live[0].rkey;

				cr_assert_geq(FAB->unbind(&c, live, n, rand() % 2 ? &rkey : NULL, live), 0);
				nlive -= n;
				nsent -= n;
				memmove(live, live + n, nlive * sizeof(live[0]));
			}
			break;
		default:
			complete();
			break;
		}
		/* Until then nothing is waited for in vain. */
		if (c.sq_waits && !c.chain)
			cr_assert(complete() || put == taken, "full, and no completion will come");
	}
	cr_assert_gt(sent, 20000);
	cr_assert_eq(verbs_flush(&c), 0);
	while (complete())
		;
	cr_assert_eq(put - taken, c.sq_posted - c.sq_done);
}

Test(verbs_window, at_random, .init = setup, .fini = teardown)
{
	at_random();
}

Test(verbs_window, at_random_in_chains, .init = setup_loop, .fini = teardown_loop)
{
	at_random();
}
