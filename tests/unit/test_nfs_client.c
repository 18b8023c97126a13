/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which thread runs the version's functions, and when. Mount, recovery, ticks and unmount
 * share the version's data for the mount without a lock. And mounts that fail: what an
 * attempt has left ends before the next one begins. The version is defined in the test, and
 * its server never answers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "fake_fabric.h"
#include "fake_lane.h"
#include "nfs/internal.h"

static _Atomic unsigned users, together;        /* of the version's data, now; ever two */
static _Atomic unsigned recoveries, farewells;
static _Atomic bool recovering;
static bool lose_while_mounting, stuck;
static unsigned fails;                  /* so many mounts, while a thread connects... */
static bool fails_late;                 /* ...or when a call of theirs has got no answer */
static int refused_then;                /* what connections fail with after that; 0: they do not */
static _Atomic unsigned mounts, arenas; /* tried; of these, attempts that still exist */
static unsigned answer_ms[8];           /* of each mount */
static unsigned wishes;                 /* connections of the first path that are wanted then */

static void nap(unsigned ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static void enter(void)
{
	if (atomic_fetch_add(&users, 1))
		atomic_fetch_add(&together, 1);
}

static void leave(void)
{
	atomic_fetch_sub(&users, 1);
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t w = 7;

	(void)c;
	return xdr_uint32_t(x, &w);
}

static int decode(struct nfs_call *c, XDR *x)
{
	(void)c;
	(void)x;
	return 0;
}

static const struct nfs_opdef silence = {
	.name = "SILENCE", .encode = encode, .decode = decode, .results_max = 4, .proc = 1,
};

static bool always(const struct nfs_call *c)
{
	(void)c;
	return true;
}

static const struct nfs_opdef close_def = {
	.name = "CLOSE", .encode = encode, .decode = decode, .results_max = 4, .proc = 1, .rides = always,
};

static const struct rpc_cred cred;

static int ask(struct nfs_client *cl, unsigned timeout_ms)
{
	struct nfs_call *c = calloc(1, sizeof(*c));
	bool abandoned;
	int rc;

	cr_assert_not_null(c);
	*c = (struct nfs_call){
		.op = NFS_OP_GETATTR, .cred = &cred, .flags = NFS_CALL_CONTROL,
	};
	rc = nfs_call_sync(&cl->lanes[0].target, c, timeout_ms, &abandoned);
	if (!abandoned)
		free(c);
	return rc;
}

static void lose(struct nfs_lane *l, void *arg)
{
	(void)arg;
	nfs_control_recover(l->client);
}

static int do_mount(struct nfs_server *s, struct errbuf *eb)
{
	struct nfs_client *cl = s->client;

	enter();
	answer_ms[mounts % 8] = cl->answer_ms;
	atomic_fetch_add(&mounts, 1);
	atomic_fetch_add(&arenas, 1);
	pthread_mutex_lock(&cl->control->mu);
	wishes = cl->server.targets[0]->conns[0][0].wanted;
	pthread_mutex_unlock(&cl->control->mu);
	s->vdata = malloc(1);
	if (fails) {
		fails--;
		if (fails_late)
			cr_expect_eq(ask(cl, 2), -ETIMEDOUT);
		for (unsigned ms = 0; ms < 20000 && !fails_late && fake_opens < 2 * mounts; ms++)
			nap(1);
		leave();
		fake_connect_error = refused_then;
		return err_set(eb, -ETIMEDOUT, "the server is silent");
	}
	if (lose_while_mounting) {
		nfs_each_lane(cl, lose, NULL);
		nap(200);
	}
	leave();
	return 0;
}

static int do_recover(struct nfs_server *s)
{
	struct nfs_client *cl = s->client;
	int rc = 0;

	enter();
	atomic_store(&recovering, true);
	if (stuck)
		rc = ask(cl, 0);
	leave();
	atomic_fetch_add(&recoveries, 1);
	return rc;
}

static void do_tick(struct nfs_server *s)
{
	(void)s;
	enter();
	leave();
}

static void do_umount(struct nfs_server *s)
{
	struct nfs_client *cl = s->client;

	enter();
	/* It says good-bye behind all that waited. */
	cr_expect_eq(atomic_load(&cl->server.close_rides.nwaiting), 0);
	/* Its own calls have their time. */
	cr_expect_eq(ask(cl, 20), -ETIMEDOUT);
	leave();
	atomic_fetch_add(&farewells, 1);
}

/* With the rest of the client. */
static void do_free(struct nfs_server *s)
{
	free(s->vdata);
	atomic_fetch_sub(&arenas, 1);
}

static const struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [NFS_OP_GETATTR] = &silence, [NFS_OP_CLOSE] = &close_def },
	.mount = do_mount, .umount = do_umount, .recover = do_recover, .tick = do_tick,
	.free = do_free,
};

static struct nfs_config config(void)
{
	fake_peer_is_knfsd();
	return (struct nfs_config){
		.times = &fake_times,
		.version = &version, .paths[0].fabric = &fabric_fake, .npaths = 1, .server = "server", .export = "/",
		.lanes = 1, .credits = 16, .buffers = { .n = { 24, 0, 4, 2 } },
		.rsize = 1 << 20, .wsize = 1 << 20, .timeo_ms = 60000,
	};
}

static struct nfs_client *mount_it(void)
{
	struct nfs_config cfg = config();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };

	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), 0, "%s", eb.text);
	return cl;
}

static void await(_Atomic bool *what)
{
	for (unsigned ms = 0; ms < 20000 && !atomic_load(what); ms++)
		nap(1);
	cr_assert(atomic_load(what));
}

static void *mount_here(void *client)
{
	*(struct nfs_client **)client = mount_it();
	return NULL;
}

/* By a thread of somebody's program, whose signals are the program's affair. The client has no
 * thread that takes them: they would run the program's handlers there, or end it. */
Test(nfs_client, no_thread_takes_signals, .timeout = 300)
{
	struct nfs_client *cl = NULL;
	struct timespec now = { 0 };
	sigset_t usr;
	pthread_t tid;

	cr_assert_eq(pthread_create(&tid, NULL, mount_here, &cl), 0);
	cr_assert_eq(pthread_join(tid, NULL), 0);
	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	cr_assert_eq(pthread_sigmask(SIG_BLOCK, &usr, NULL), 0);
	cr_assert_eq(kill(getpid(), SIGUSR1), 0);
	cr_assert_eq(sigtimedwait(&usr, NULL, &now), SIGUSR1, "nobody has taken it");
	nfs_client_free(cl);
}

/* A lane finds its session gone before the mount is there. */
Test(nfs_client, recovery_waits_for_the_mount, .timeout = 300)
{
	struct nfs_client *cl;

	lose_while_mounting = true;
	cl = mount_it();
	await(&recovering);
	nfs_client_free(cl);
	cr_expect_eq(recoveries, 1);
	cr_expect_eq(farewells, 1);
	cr_assert_eq(together, 0);
}

/* The mount ends while recovery waits for a server that does not answer. */
Test(nfs_client, the_farewell_waits_for_recovery, .timeout = 300)
{
	struct nfs_client *cl;

	stuck = true;
	cl = mount_it();
	nfs_each_lane(cl, lose, NULL);
	await(&recovering);
	nfs_client_free(cl);
	cr_expect_eq(recoveries, 1);
	cr_expect_eq(farewells, 1);
	cr_assert_eq(together, 0);
}

static void no_done(struct nfs_call *c)
{
	(void)c;
}

static void close_it(struct nfs_lane *l, void *arg)
{
	static struct nfs_call c;

	c = (struct nfs_call){ .op = NFS_OP_CLOSE, .cred = &cred, .done = no_done, .open = arg };
	nfs_start(l, &c);
}

/* The last close() before it waits for a call that carries it (nfs/close_ride.h). */
Test(nfs_client, the_farewell_waits_for_riders, .timeout = 300)
{
	struct nfs_client *cl = mount_it();
	void *open = malloc(1);         /* CLOSE has no answer, so nobody frees it */

	nfs_each_lane(cl, close_it, open);
	cr_assert_eq(atomic_load(&cl->server.close_rides.nwaiting), 1);
	nfs_client_free(cl);
	free(open);
	cr_expect_eq(farewells, 1);
}

/* ---- attempts that fail ---- */

/* Two lanes, of which the second one's connection hangs. */
static struct nfs_config two_lanes(void)
{
	struct nfs_config cfg = config();

	cfg.lanes = 2;
	fake_most = 2;
	fake_hangs_from = 2;
	return cfg;
}

/* The server falls silent when the first lane has its connection. */
Test(nfs_client, what_cannot_be_freed_yet_is_handed_back, .timeout = 300)
{
	struct nfs_config cfg = two_lanes();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };
	bool freed = false;

	fails = 1;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ETIMEDOUT);
	cr_assert_str_eq(eb.text, "the server is silent");
	cr_assert(cl && arenas == 1, "a thread still uses it");
	cr_assert(!nfs_client_free(cl) && arenas == 1);
	fake_hangs_from = 0;
	for (unsigned i = 0; i < 100 && !freed; i++)
		freed = nfs_client_free(cl);
	cr_assert(freed && arenas == 0);
	cr_assert_eq(farewells, 0, "there was no mount");
	cr_assert(nfs_client_free(NULL));
}

static void *end_hanging(void *arg)
{
	(void)arg;
	nap(900);
	cr_expect_eq(mounts, 1, "the next attempt waits for the end of the first one");
	fake_hangs_from = 0;
	return NULL;
}

Test(nfs_client, one_attempt_at_a_time, .timeout = 300)
{
	struct nfs_config cfg = two_lanes();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };
	pthread_t thread;

	fails = 1;
	fake_times.pause_ms = 10;
	cr_assert_eq(pthread_create(&thread, NULL, end_hanging, NULL), 0);
	cr_assert_eq(nfs_client_new(&cfg, 60, &cl, &eb), 0, "%s", eb.text);
	cr_assert(mounts == 2 && arenas == 1);
	pthread_join(thread, NULL);
	cr_assert(nfs_client_free(cl));
}

/* It hangs for longer than the mount is tried: that is not waited for. */
Test(nfs_client, attempts_end_with_their_time, .timeout = 300)
{
	struct nfs_config cfg = two_lanes();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };

	fails = 10;
	fake_times.pause_ms = 10;
	cr_assert_eq(nfs_client_new(&cfg, 2, &cl, &eb), -ETIMEDOUT);
	cr_assert_str_eq(eb.text, "the server is silent");
	cr_assert(mounts == 1 && arenas == 1 && cl);
	fake_hangs_from = 0;
	while (!nfs_client_free(cl))
		;
}

/* The lane has a call that nobody waits for any more. It ends with the lane. */
Test(nfs_client, attempts_leave_no_memory, .timeout = 300)
{
	struct nfs_config cfg = config();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };
	size_t before = 0, after;

	fails_late = true;
	for (unsigned i = 0; i < 30; i++) {
		if (i == 10)
			before = mallinfo2().uordblks;
		fails = 1;
		cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ETIMEDOUT);
		cr_assert_null(cl);
	}
	after = mallinfo2().uordblks;
	cr_assert(after < before + 10 * sizeof(struct nfs_call), "%zu, before %zu", after, before);
}

/* There is a server behind the next address. */
Test(nfs_client, silent_behind_an_address, .timeout = 300)
{
	struct nfs_config cfg = config();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };

	fake_most = 3;
	cfg.npaths = 3;
	cfg.paths[1].fabric = cfg.paths[2].fabric = &fabric_fake;
	fails_late = true;
	fails = 1;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), 0, "%s", eb.text);
	cr_assert(mounts == 2 && arenas == 1);
	cr_assert_eq(cl->server.first, 1);
	cr_assert(answer_ms[0] == 10000 && answer_ms[1] == 10000, "there is a third one");
	cr_assert(nfs_client_free(cl));
	/* Behind none. */
	fails = 10;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ETIMEDOUT);
	cr_assert_str_eq(eb.text, "the server is silent");
	cr_assert(mounts == 5 && arenas == 0);
	cr_assert(answer_ms[3] == 10000 && answer_ms[4] == 60000);
}

/* Nor does the next address connect. The mount is tried again: what the first one has may pass. */
Test(nfs_client, silent_behind_an_address_and_no_other, .timeout = 300)
{
	struct nfs_config cfg = config();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };

	fake_most = 2;
	cfg.npaths = 2;
	cfg.paths[1].fabric = &fabric_fake;
	fails_late = true;
	fails = 1;
	refused_then = -ECONNRESET;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ETIMEDOUT);
	cr_assert_str_eq(eb.text, "the server is silent");
	cr_assert(mounts == 1 && arenas == 0 && !cl);
}

/* What hangs is not waited for for ever, and the next address has no turn. */
Test(nfs_client, silent_behind_an_address_and_hangs, .timeout = 300)
{
	struct nfs_config cfg = two_lanes();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };

	cfg.npaths = 2;
	cfg.paths[1].fabric = &fabric_fake;
	fails = 1;
	fake_times.free_ms = 100;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ETIMEDOUT);
	cr_assert(mounts == 1 && arenas == 1 && cl);
	fake_hangs_from = 0;
	while (!nfs_client_free(cl))
		;
}

/* Later than the first round, which looks twice, for half a second each. */
static void *end_hanging_late(void *arg)
{
	nap(900);
	return end_hanging(arg);
}

/* It has its turn in the next round, before the silent one has another. */
Test(nfs_client, the_next_round_begins_behind_the_silent_address, .timeout = 300)
{
	struct nfs_config cfg = two_lanes();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };
	pthread_t thread;

	cfg.npaths = 2;
	cfg.paths[1].fabric = &fabric_fake;
	fake_most = 4;
	fails = 1;
	fake_times.free_ms = 100;
	fake_times.pause_ms = 10;
	cr_assert_eq(pthread_create(&thread, NULL, end_hanging_late, NULL), 0);
	cr_assert_eq(nfs_client_new(&cfg, 60, &cl, &eb), 0, "%s", eb.text);
	pthread_join(thread, NULL);
	cr_assert(mounts == 2 && cl->server.first == 1);
	cr_assert(nfs_client_free(cl));
}

/* The device has no room for its events, for example. Where the path leads is not known then, and
 * it is not asked before the mount is made. */
Test(nfs_client, a_connection_that_cannot_be_used, .timeout = 300)
{
	struct nfs_config cfg = config();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };

	cfg.npaths = 2;
	cfg.paths[1].fabric = &fabric_fake;
	fake_most = 2;
	fake_attach_errors = 1;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), 0, "%s", eb.text);
	cr_assert(cl->server.first == 1 && wishes == 0);
	cr_assert(nfs_client_free(cl));
}

/* Only what may pass is tried again. */
Test(nfs_client, attempts_that_would_fail_again, .timeout = 300)
{
	static const int t[][2] = { { -EACCES, 1 }, { -ECONNREFUSED, 3 } };

	for (unsigned i = 0; i < 2; i++) {
		struct nfs_config cfg = config();
		struct nfs_client *cl = NULL;
		struct errbuf eb = { "" };
		unsigned before = fake_opens;

		fake_times.pause_ms = 600;
		fake_connect_error = t[i][0];
		cr_assert_eq(nfs_client_new(&cfg, 1, &cl, &eb), t[i][0]);
		cr_assert_eq(fake_opens - before, (unsigned)t[i][1]);
		cr_assert_null(cl);
	}
}

static int do_refuse(struct nfs_server *s, struct errbuf *eb)
{
	(void)s;
	atomic_fetch_add(&arenas, 1);
	return err_set(eb, -ENOENT, "the server has no such export");
}

/* A name with more addresses than there are paths: who mounts has to hear of it, but only if none answers. */
Test(nfs_client, addresses_that_were_not_tried, .timeout = 300)
{
	struct nfs_config cfg = config();
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };
	struct nfs_version refuses;

	fake_most = 2;
	cfg.npaths = cfg.addresses = 2;
	cfg.left_out = 48;
	cfg.paths[1].fabric = &fabric_fake;
	/* Silent behind both; behind one, and the other does not connect; neither connects. */
	fails_late = true;
	fails = 10;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ETIMEDOUT);
	cr_expect_str_eq(eb.text, "the server is silent. Of the 50 addresses of 'server' only the first 2 were tried: "
			 "name others with remoteports=A~B");
	fails = 1;
	refused_then = -ECONNRESET;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ETIMEDOUT);
	cr_expect_str_eq(eb.text, "the server is silent. Of the 50 addresses of 'server' only the first 2 were tried: "
			 "name others with remoteports=A~B");
	cfg.addresses = 1;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ECONNRESET);
	cr_expect(strstr(eb.text, ". Of the 49 addresses of 'server' only the first was tried: name another with remoteports=A"), "%s", eb.text);
	cfg.left_out = 0;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ECONNRESET);
	cr_expect_null(strstr(eb.text, "addresses of"), "%s", eb.text);
	/* A server has answered. */
	cfg.left_out = 48;
	refused_then = 0;
	fake_connect_error = 0;
	refuses = version;
	refuses.mount = do_refuse;
	cfg.version = &refuses;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ENOENT);
	cr_expect_str_eq(eb.text, "the server has no such export");
	cfg.version = &version;
	fails = 0;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), 0, "%s", eb.text);
	cr_assert(nfs_client_free(cl));
}

/* ---- a second fabric ---- */

static int device_says;                 /* what connections by the device fail with */
static unsigned device_asked;

static int device_connect(struct fab_conn *c, const void *priv, size_t privlen, void *peer_priv, size_t *peer_len,
			  struct errbuf *eb)
{
	(void)c;
	(void)priv;
	(void)privlen;
	(void)peer_priv;
	(void)peer_len;
	device_asked++;
	return err_set(eb, device_says, "the device says so");
}

/* Its `connect` is the device's; all else is fabric_fake's. */
static struct fabric device;

static struct nfs_config by_device(int says)
{
	struct nfs_config cfg = config();

	device = fabric_fake;
	device.connect = device_connect;
	device_says = says;
	cfg.paths[0].fabric = &device;
	cfg.second = &fabric_fake;
	return cfg;
}

Test(nfs_client, a_server_that_has_only_the_second_fabric, .timeout = 300)
{
	struct nfs_config cfg = by_device(-ETIMEDOUT);
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };

	cr_assert_eq(nfs_client_new(&cfg, 60, &cl, &eb), 0, "%s", eb.text);
	cr_assert(device_asked == 1 && mounts == 1);
	cr_assert_eq(cl->cfg.paths[0].fabric, &fabric_fake, "paths that are added have it, too");
	cr_assert(nfs_client_free(cl));
}

/* Then the device's error is what people hear, and what is tried again. */
Test(nfs_client, neither_fabric_has_a_server, .timeout = 300)
{
	struct nfs_config cfg = by_device(-ETIMEDOUT);
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };

	fake_connect_error = -ECONNREFUSED;
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), -ETIMEDOUT);
	cr_assert_str_eq(eb.text, "the device says so");
	cr_assert(device_asked == 1 && !cl);
	fake_times.pause_ms = 10;
	cr_assert_eq(nfs_client_new(&cfg, 1, &cl, &eb), -ETIMEDOUT);
	cr_assert(device_asked > 3 && !cl && arenas == 0);
}

/* What does not pass is no reason to look elsewhere. */
Test(nfs_client, a_device_that_cannot_be_used, .timeout = 300)
{
	struct nfs_config cfg = by_device(-EPERM);
	struct nfs_client *cl = NULL;
	struct errbuf eb = { "" };

	cr_assert_eq(nfs_client_new(&cfg, 60, &cl, &eb), -EPERM);
	cr_assert(device_asked == 1 && mounts == 0);
}
