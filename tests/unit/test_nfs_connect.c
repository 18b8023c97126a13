/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connector: a lane's connection is lost, refused for a while, and set up again. Then
 * the calls that were made meanwhile are answered.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <time.h>
#include "fake_lane.h"

#define FIRST_MS 20u

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t w = 7;

	(void)c;
	return xdr_uint32_t(x, &w);
}

static int decode(struct nfs_call *c, XDR *x)
{
	uint32_t w;

	(void)c;
	return xdr_uint32_t(x, &w) && w == 49 ? 0 : -EBADMSG;
}

static const struct nfs_opdef square = {
	.name = "SQUARE", .encode = encode, .decode = decode, .results_max = 4, .proc = 1,
};
#define HANGS 2u
static const struct nfs_opdef hanging = {
	.name = "HANGS", .encode = encode, .decode = decode, .results_max = 4, .proc = HANGS,
};
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1,
	.ops = { [NFS_OP_GETATTR] = &square, [NFS_OP_READLINK] = &hanging },
};

static void execute(uint32_t proc, const uint32_t *w)
{
	if (proc)
		put(ntohl(w[0]) * ntohl(w[0]));
}

static void setup(void)
{
	fake_times.retry_ms = FIRST_MS;
	fake_lane_start(&version, execute);
	cr_assert_eq(nfs_connector_start(&fake_cl.server.path[0]), 0);
}

static void teardown(void)
{
	cr_assert(nfs_connectors_stop(&fake_cl, 20000));
	fake_lane_stop();
}

static void lose(struct nfs_lane *l, void *arg)
{
	(void)l;
	(void)arg;
	fake_break();
}

static void see_up(struct nfs_lane *l, void *arg)
{
	*(_Atomic bool *)arg = nfs_lane_up(l);
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void await_up(void)
{
	_Atomic bool is_up = false;

	for (unsigned i = 0; i < 20000 && !is_up; i++) {
		nap();
		nfs_each_lane(&fake_cl, see_up, &is_up);
	}
	cr_assert(is_up, "not connected again");
}

static void await_opens(unsigned n)
{
	for (unsigned i = 0; i < 20000 && fake_opens < n; i++)
		nap();
	cr_assert_geq(fake_opens, n);
}

/* The ms between attempt i of the test and the one before it. */
static unsigned gap_ms(unsigned i)
{
	return (unsigned)((fake_open_ns[i] - fake_open_ns[i - 1]) / 1000000);
}

static int call_of(enum nfs_op op)
{
	struct nfs_call c = { .op = op };
	bool abandoned;
	int rc = nfs_call_sync(&fake_lanes[0].target, &c, 0, &abandoned);

	cr_assert(!abandoned);
	return rc;
}

static int call(void)
{
	return call_of(NFS_OP_GETATTR);
}

static void *call_main(void *arg)
{
	*(int *)arg = call();
	return NULL;
}

static void *hang_main(void *arg)
{
	*(_Atomic int *)arg = call_of(NFS_OP_READLINK);
	return NULL;
}

/* One call that the server does not answer, as with a file system that hangs. It is sent
 * again on each new connection. Others go past it. */
Test(connect, one_hangs_and_others_do_not, .init = setup, .fini = teardown)
{
	_Atomic int status = 1;
	pthread_t caller;

	fake_cl.cfg.timeo_ms = 200;
	fake_lane_deaf = HANGS;
	cr_assert_eq(pthread_create(&caller, NULL, hang_main, (void *)&status), 0);
	for (unsigned n = 3; n < 6; n++) {
		await_opens(n);
		await_up();
		cr_assert_eq(call(), 0, "connection %u", n);
	}
	cr_assert_eq(status, 1, "it has not been answered");
	fake_lane_deaf = 0;
	pthread_join(caller, NULL);
	cr_assert_eq(status, 0);
}

/* A server that takes connections and answers nothing: a soft mount's call ends in time,
 * and is not put off by the new connections. */
Test(connect, soft_calls_end, .init = setup, .fini = teardown)
{
	uint64_t began = mono_ns();

	fake_cl.cfg.timeo_ms = 300;
	fake_cl.cfg.soft = true;
	fake_lane_quiet = true;
	cr_assert_eq(call(), -EIO);
	cr_assert_lt(mono_ns() - began, 20000000000ull);
	fake_lane_quiet = false;
	cr_assert_eq(call(), 0);
}

Test(connect, refused_for_a_while, .init = setup, .fini = teardown)
{
	static const unsigned at_least[] = { 1, 2, 4, 8, 8, 8 };
	pthread_t caller;
	int status = 1;

	cr_assert_eq(call(), 0);
	fake_connect_error = -ECONNREFUSED;
	nfs_each_lane(&fake_cl, lose, NULL);
	cr_assert_eq(pthread_create(&caller, NULL, call_main, &status), 0);
	/* The one of the set-up, the one at once, and those after a pause. */
	await_opens(2 + 6);
	fake_connect_error = 0;
	await_up();
	pthread_join(caller, NULL);
	cr_assert_eq(status, 0, "the call that waited: %d", status);
	for (unsigned i = 0; i < 6; i++)
		cr_expect_geq(gap_ms(2 + i), at_least[i] * FIRST_MS - 1, "pause %u: %u ms", i, gap_ms(2 + i));
	cr_assert_eq(call(), 0);
}

/* The first attempt is made at once; but not if the connection was new. */
Test(connect, pause_only_for_a_connection_that_did_not_last, .init = setup, .fini = teardown)
{
	uint64_t lost;

	fake_times.retry_ms = 3000;
	lost = mono_ns();
	nfs_each_lane(&fake_cl, lose, NULL);
	await_up();
	cr_expect_eq(fake_opens, 2);
	cr_expect_lt(fake_open_ns[1] - lost, 2900 * 1000000ull, "an attempt that was not due before");
	nfs_each_lane(&fake_cl, lose, NULL);
	await_up();
	cr_expect_eq(fake_opens, 3);
	cr_expect_geq(gap_ms(2), 2999);
	cr_assert_eq(call(), 0);
}

/* A success ends the outage: the next one begins with short pauses again. */
Test(connect, pauses_start_over, .init = setup, .fini = teardown)
{
	unsigned before;

	for (unsigned outage = 0; outage < 2; outage++) {
		fake_connect_error = -ECONNREFUSED;
		before = fake_opens;
		nfs_each_lane(&fake_cl, lose, NULL);
		await_opens(before + 4);
		fake_connect_error = 0;
		await_up();
		cr_expect_eq(fake_lanes[0].target.conns[0][0].failures, 0);
		cr_assert_eq(call(), 0);
	}
}

static _Atomic unsigned ticks;

static void tick(struct nfs_server *s)
{
	(void)s;
	ticks++;
}

/* The lease is renewed, however often other threads signal the control thread. */
Test(connect, ticks_come_whatever_else_happens)
{
	struct nfs_version ticking = version;
	_Atomic bool up = false;

	ticking.tick = tick;
	fake_lane_start(&ticking, execute);
	cr_assert_eq(nfs_control_start(&fake_cl), 0);
	for (unsigned ms = 0; ms < 10000 && !ticks; ms++) {
		nap();
		if (ms % 50 == 0)
			nfs_each_lane(&fake_cl, see_up, &up);
	}
	cr_assert_gt(ticks, 0);
	cr_assert(nfs_control_stop(&fake_cl, 10000));
	fake_lane_stop();
}

/* teardown: the connector does not wait for its pause. */
static sem_t go;

static void hold(struct loop_msg *m)
{
	(void)m;
	sem_wait(&go);
}

static void *let_go(void *arg)
{
	(void)arg;
	/* By then the lane has been told to stop. */
	nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
	sem_post(&go);
	return NULL;
}

/* The lane is busy when its new connection comes, and then it ends. */
Test(connect, end_before_the_lane_has_its_connection)
{
	static struct loop_msg m = { .fn = hold };
	pthread_t letter;

	setup();
	sem_init(&go, 0, 0);
	fake_connect_error = -ECONNREFUSED;
	nfs_each_lane(&fake_cl, lose, NULL);
	loop_post(fake_lanes[0].loop, &m);
	fake_connect_error = 0;
	for (unsigned i = 0; i < 20000 && !atomic_load(&fake_lanes[0].target.conns[0][0].coming); i++)
		nap();
	cr_assert(nfs_connectors_stop(&fake_cl, 20000));
	cr_assert(fake.open);
	cr_assert_eq(pthread_create(&letter, NULL, let_go, NULL), 0);
	fake_lane_stop();
	pthread_join(letter, NULL);
	cr_assert(!fake.open, "nobody has closed it");
}

Test(connect, end_during_a_pause, .init = setup, .fini = teardown)
{
	fake_times.retry_ms = 3600 * 1000;
	fake_connect_error = -ECONNREFUSED;
	nfs_each_lane(&fake_cl, lose, NULL);
	await_opens(2);
}
