/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Control calls run on a lane that has a connection. If that lane loses it, they move to
 * another one that has a connection. The end of the control thread ends all of them.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "fake_lane.h"

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
static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [NFS_OP_GETATTR] = &square },
};

static void execute(uint32_t proc, const uint32_t *w)
{
	(void)proc;
	put(ntohl(w[0]) * ntohl(w[0]));
}

static void start(void)
{
	fake_lane_start(&version, execute);
	fake_lane_second();
}

TestSuite(nfs_any, .init = start, .fini = fake_lane_stop, .timeout = 300);

static const struct rpc_cred cred;
static struct nfs_call call;
static pthread_t caller;

static void *call_main(void *status)
{
	bool abandoned;

	*(int *)status = nfs_call_any(&fake_cl.server, &call, 0, &abandoned);
	return NULL;
}

static void begin(int *status)
{
	call = (struct nfs_call){
		.op = NFS_OP_GETATTR, .flags = NFS_CALL_CONTROL, .cred = &cred,
	};
	cr_assert_eq(pthread_create(&caller, NULL, call_main, status), 0);
}

static void see_sends(struct nfs_lane *l, void *arg)
{
	if (l->index == 0)
		*(_Atomic unsigned *)arg = fake.nsends;
}

static void await_sent(void)
{
	_Atomic unsigned sends = 0;

	while (!sends) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		nfs_each_lane(&fake_cl, see_sends, &sends);
	}
}

static void see_running(struct nfs_lane *l, void *arg)
{
	if (l->index == 0)
		*(_Atomic bool *)arg = !list_empty(&l->running);
}

static void await_idle(void)
{
	_Atomic bool running = true;

	while (running) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		nfs_each_lane(&fake_cl, see_running, &running);
	}
}

Test(nfs_any, takes_the_lane_that_is_up)
{
	int status = 1;

	fake_lane_move();
	begin(&status);
	pthread_join(caller, NULL);
	cr_assert_eq(status, 0);
	cr_assert_eq(call.lane->index, 1);
}

static void abandon(void)
{
	struct nfs_call *c = calloc(1, sizeof(*c));
	bool abandoned = false;

	cr_assert_not_null(c);
	*c = (struct nfs_call){ .op = NFS_OP_GETATTR, .flags = NFS_CALL_CONTROL, .cred = &cred };
	fake_lane_quiet = true;
	cr_assert_eq(nfs_call_any(&fake_cl.server, c, 50, &abandoned), -ETIMEDOUT);
	cr_assert(abandoned);
	await_sent();
	fake_lane_quiet = false;
	await_idle();
}

/* Its memory is the lane's, which is at it, and gives it back when the reply comes. Not
 * one call alone: pointers to the last ones stay where LeakSanitizer finds them. */
Test(nfs_any, an_abandoned_call_is_not_lost_memory)
{
	for (unsigned i = 0; i < 8; i++)
		abandon();
}

/* Sent, and then the connection goes, with the reply. */
Test(nfs_any, leaves_a_lane_that_has_lost_its_connection)
{
	int status = 1;

	fake_lane_quiet = true;
	begin(&status);
	await_sent();
	fake_lane_move();
	fake_lane_quiet = false;
	pthread_join(caller, NULL);
	cr_assert_eq(status, 0);
	cr_assert_eq(call.lane->index, 1);
}

struct waiter {
	pthread_t tid;
	struct nfs_call *c;
	int rc;
};

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;
	bool abandoned;

	w->rc = nfs_call_sync(&fake_lanes[0].target, w->c, 10000, &abandoned);
	return NULL;
}

static bool all_wait(unsigned n)
{
	pthread_mutex_lock(&fake_ctl.mu);
	list_for_each(i, &fake_ctl.calls)
		n--;
	pthread_mutex_unlock(&fake_ctl.mu);
	return n == 0;
}

/* They wake up one after the other, most of them when the control thread has ended already. */
Test(nfs_any, the_end_of_the_mount_reaches_all_who_wait)
{
	struct waiter w[40];
	unsigned n = sizeof(w) / sizeof(w[0]);

	fake_lane_quiet = true;
	cr_assert_eq(nfs_control_start(&fake_cl), 0);
	for (unsigned i = 0; i < n; i++) {
		w[i].c = calloc(1, sizeof(*w[i].c));
		cr_assert_not_null(w[i].c);
		*w[i].c = (struct nfs_call){ .op = NFS_OP_GETATTR, .cred = &cred };
		cr_assert_eq(pthread_create(&w[i].tid, NULL, waiter_main, &w[i]), 0);
	}
	while (!all_wait(n))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	cr_assert(nfs_control_stop(&fake_cl, 30000));
	for (unsigned i = 0; i < n; i++) {
		pthread_join(w[i].tid, NULL);
		cr_assert_eq(w[i].rc, -ESHUTDOWN, "%u: %d", i, w[i].rc);
	}
}
