/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of paths while lanes, connectors and control commands use it at the same time. The
 * lane and the connectors have their threads. The servers behind the fake fabric answer from
 * the lane's thread.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include "fake_fabric.h"
#include "fake_lane.h"
#include "nfs/paths.h"

enum { PLAIN = 1, CHECK = 50 };

static struct nfs_client *cl;
static struct nfs_version version;
static struct loop_timer timer;
static unsigned seen[FAKE_CONNS];       /* of fake_conns[].sends; the lane's */
static _Atomic unsigned answered;
static _Atomic bool stranger;           /* new connections lead to another server */
static _Atomic bool mute;

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

static uint32_t check_proc(const struct nfs_check *k)
{
	return CHECK + k->step;
}

static bool_t check_encode(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	(void)t;
	(void)k;
	(void)x;
	return TRUE;
}

static int check_decode(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	(void)t;
	(void)x;
	return stranger ? err_set(&k->why, -EXDEV, "a stranger") : 0;
}

static const struct nfs_opdef plain = {
	.name = "PLAIN", .encode = encode, .decode = decode, .results_max = 4, .proc = PLAIN,
};

static void answer(struct fake_conn *f, unsigned i)
{
	uint32_t w[16], r[14];

	memcpy(w, f->sends[i].bytes, sizeof(w));
	fake_used = f;
	fake_complete(i);
	memcpy(r, (uint32_t[14]){ ntohl(w[0]), 1, 8, 0, 0, 0, 0, ntohl(w[0]), 1 }, sizeof(r));
	for (unsigned k = 0; k < 14; k++)
		r[k] = htonl(r[k]);
	answered++;
	fake_deliver(r, sizeof(r));
}

static void serve(struct loop_timer *t)
{
	struct nfs_lane *l = &cl->lanes[0];

	loop_timer_set(l->loop, t, 1);
	for (unsigned i = 0; i < FAKE_CONNS && !mute; i++) {
		struct fake_conn *f = &fake_conns[i];

		/* Another thread may be making a connection: only those of the lane count. */
		for (unsigned path = 0; path < NFS_PATHS_MAX; path++) {
			if (!l->target.conns[path][0].link || !fake_carries(f, l->target.conns[path][0].link))
				continue;
			if (seen[i] > f->nsends)
				seen[i] = 0;
			while (f->attached && seen[i] < f->nsends)
				answer(f, seen[i]++);
			if (f->attached && seen[i] == f->nsends)
				seen[i] = f->nsends = 0;
		}
	}
}

static void begin_serving(struct nfs_lane *l, void *arg)
{
	(void)arg;
	loop_timer_init(&timer, serve);
	loop_timer_set(l->loop, &timer, 1);
}

static int no_mount(struct nfs_server *s, struct errbuf *eb)
{
	(void)s;
	(void)eb;
	return 0;
}

static void no_umount(struct nfs_server *s)
{
	(void)s;
}

static struct rr_path path_to(uint32_t host)
{
	struct rr_path p = { .fabric = &fabric_fake };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000 + host) };

	memcpy(&p.params.server, &in, sizeof(in));
	return p;
}

static void setup(void)
{
	struct nfs_config cfg = {
		.times = &fake_times,
		.version = &version, .npaths = 1, .server = "server", .export = "/", .lanes = 1, .credits = 16,
		.buffers = { .n = { 40, 0, 4, 2 } }, .timeo_ms = 60000, .heartbeat_ms = 200,
	};
	struct errbuf eb = { "" };

	fake_peer_is_knfsd();
	fake_most = FAKE_CONNS;
	fake_times.retry_ms = 20;
	version = (struct nfs_version){
		.name = "test", .prog = 1, .vers = 1, .ops = { [NFS_OP_GETATTR] = &plain },
		.check_proc = check_proc, .check_encode = check_encode, .check_decode = check_decode,
		.mount = no_mount, .umount = no_umount,
	};
	cfg.paths[0] = path_to(1);
	cr_assert_eq(nfs_client_new(&cfg, 0, &cl, &eb), 0, "%s", eb.text);
	nfs_each_lane(cl, begin_serving, NULL);
}

static void teardown(void)
{
	bool freed = false;

	/* A thread that has no processor has not ended yet. */
	for (unsigned i = 0; i < 20 && !freed; i++)
		freed = nfs_client_free(cl);
	cr_assert(freed);
	for (unsigned i = 0; i < FAKE_CONNS; i++)
		cr_assert(!fake_conns[i].open);
}

TestSuite(paths, .init = setup, .fini = teardown, .timeout = 120);

static int call(void)
{
	struct nfs_call c = { .op = NFS_OP_GETATTR };
	bool abandoned;
	int rc = nfs_call_sync(&cl->lanes[0].target, &c, 10000, &abandoned);

	cr_assert(!abandoned);
	return rc;
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static struct nfs_path_info info(unsigned id)
{
	struct nfs_path_info all[NFS_PATHS_MAX];
	unsigned n = nfs_paths_info(cl, all);

	for (unsigned i = 0; i < n; i++)
		if (all[i].id == id)
			return all[i];
	return (struct nfs_path_info){ .state = NFS_PATH_NONE };
}

static void await(unsigned id, enum nfs_path_state s)
{
	for (unsigned i = 0; i < 10000 && info(id).state != s; i++)
		nap();
	cr_assert_eq(info(id).state, s, "it is %s", nfs_path_state_name(info(id).state));
}

static unsigned add(uint32_t host)
{
	struct rr_path p = path_to(host);
	struct errbuf eb = { "" };
	uint32_t generation;
	unsigned id;

	cr_assert_eq(nfs_path_add(cl, &p, &id, &generation, &eb), 0, "%s", eb.text);
	cr_assert_eq(info(id).generation, generation);
	return id;
}

static int try_remove(unsigned id, bool force)
{
	struct errbuf eb = { "" };
	int rc = nfs_path_remove(cl, id, force, &eb);

	cr_assert_eq(rc != 0, eb.text[0] != '\0');
	return rc;
}

Test(paths, added_and_removed)
{
	unsigned id = add(2);

	cr_assert_eq(id, 1);
	await(id, NFS_PATH_CONNECTED);
	cr_assert_str_eq(info(id).server, "10.0.0.2");
	cr_assert_str_eq(info(id).local, "any");
	for (unsigned i = 0; i < 10; i++)
		cr_assert_eq(call(), 0);
	cr_assert_eq(try_remove(0, false), 0, "it need not be the newest");
	await(0, NFS_PATH_NONE);
	for (unsigned i = 0; i < 10; i++)
		cr_assert_eq(call(), 0);
	cr_assert_geq(info(id).calls, 10);
	cr_assert_eq(add(3), 0, "the place is used again");
	await(0, NFS_PATH_CONNECTED);
	cr_assert_eq(info(0).generation, 2);
	cr_assert_lt(info(0).calls, 3, "and its counters begin anew");
}

Test(paths, what_is_refused)
{
	struct rr_path p = path_to(1);
	struct errbuf eb = { "" };
	uint32_t generation;
	unsigned id;

	cr_assert_eq(nfs_path_add(cl, &p, &id, &generation, &eb), -EEXIST);
	cr_assert_eq(try_remove(0, false), -EBUSY);
	cr_assert_eq(try_remove(1, false), -ENOENT);
	cr_assert_eq(try_remove(NFS_PATHS_MAX, false), -ENOENT);
	cr_assert_eq(nfs_path_reconnect(cl, 5, &eb), -ENOENT);
	fake_connect_error = -ECONNREFUSED;
	for (unsigned i = 1; i < NFS_PATHS_MAX; i++)
		add(i + 1);
	p = path_to(100);
	cr_assert_eq(nfs_path_add(cl, &p, &id, &generation, &eb), -ENOSPC);
	cr_assert_eq(try_remove(0, false), -EBUSY, "the only one that is connected");
	for (unsigned i = 1; i < NFS_PATHS_MAX; i++) {
		cr_assert_eq(try_remove(i, false), 0);
		await(i, NFS_PATH_NONE);
	}
	fake_connect_error = 0;
	cr_assert_eq(call(), 0);
}

/* What may be locked is not enough for the connections of so many. */
Test(paths, no_locked_memory_for_another)
{
	struct rr_path p = path_to(4);
	struct errbuf eb = { "" };
	uint32_t generation;
	unsigned id, second;

	cl->cfg.path_locks = 300 << 10;
	cl->cfg.locks_left = 700 << 10;
	second = add(2);
	add(3);
	cr_assert_eq(nfs_path_add(cl, &p, &id, &generation, &eb), -ENOMEM);
	cr_assert_str_eq(eb.text, "the connections of 4 paths need 900 KiB more locked memory "
			 "(RLIMIT_MEMLOCK) than those of 1, and 700 KiB are left: mount with a higher "
			 "limit ('ulimit -l'), or with smaller lanes= or mdconnect=");
	cr_assert_eq(try_remove(second, false), 0);
	add(4);
}

/* Nobody there: it goes on trying, and says why it has nothing. */
Test(paths, address_that_does_not_answer)
{
	unsigned id;

	fake_connect_error = -ECONNREFUSED;
	id = add(2);
	for (unsigned i = 0; i < 5000 && !info(id).why[0]; i++)
		nap();
	cr_assert_str_eq(info(id).why, "fake error");
	cr_assert_eq(info(id).state, NFS_PATH_CONNECTING);
	fake_connect_error = 0;
	await(id, NFS_PATH_CONNECTED);
	cr_assert_str_eq(info(id).why, "");
}

Test(paths, another_server)
{
	unsigned id;

	stranger = true;
	id = add(2);
	await(id, NFS_PATH_REFUSED);
	cr_assert_str_eq(info(id).why, "a stranger");
	cr_assert_eq(call(), 0);
	stranger = false;
	cr_assert_eq(nfs_path_reconnect(cl, id, NULL), 0);
	await(id, NFS_PATH_CONNECTED);
	stranger = true;
	cr_assert_eq(try_remove(id, false), 0);
	await(id, NFS_PATH_NONE);
}

Test(paths, reconnect)
{
	uint64_t before;

	before = info(0).reconnects;
	cr_assert_eq(nfs_path_reconnect(cl, 0, NULL), 0);
	for (unsigned i = 0; i < 5000 && info(0).reconnects == before; i++)
		nap();
	cr_assert_eq(info(0).reconnects, before + 1);
	cr_assert_eq(call(), 0);
}

static void look_for_link(struct nfs_lane *l, void *arg)
{
	*(bool *)arg = l->target.conns[1][0].link;
}

/* Also what is on trial is closed, and tried again at once. */
Test(paths, reconnect_on_trial)
{
	bool there = false;

	fake_times.retry_ms = 60000;
	mute = true;
	cr_assert_eq(add(2), 1);
	for (unsigned i = 0; i < 5000 && !there; i++)
		nfs_each_lane(cl, look_for_link, &there);
	cr_assert(there);
	cr_assert_eq(nfs_path_reconnect(cl, 1, NULL), 0);
	mute = false;
	await(1, NFS_PATH_CONNECTED);
}

/* The last one goes, because somebody insists, and calls wait for the next. */
Test(paths, none_left)
{
	struct nfs_call *c = calloc(1, sizeof(*c));
	bool abandoned;
	unsigned id;

	cr_assert_eq(try_remove(0, true), 0);
	await(0, NFS_PATH_NONE);
	c->op = NFS_OP_GETATTR;
	cr_assert_eq(nfs_call_sync(&cl->lanes[0].target, c, 50, &abandoned), -ETIMEDOUT);
	cr_assert(abandoned);
	id = add(7);
	await(id, NFS_PATH_CONNECTED);
	cr_assert_eq(call(), 0);
}

/* A call that gets no answer does not keep its path for ever. */
Test(paths, removed_with_a_call_that_hangs)
{
	struct nfs_call *c = calloc(1, sizeof(*c));
	bool abandoned;
	unsigned id;
	uint64_t began;

	mute = true;
	c->op = NFS_OP_GETATTR;
	cr_assert_eq(nfs_call_sync(&cl->lanes[0].target, c, 50, &abandoned), -ETIMEDOUT);
	mute = false;
	id = add(2);
	await(id, NFS_PATH_CONNECTED);
	began = mono_ns();
	cr_assert_eq(try_remove(0, false), 0);
	await(0, NFS_PATH_NONE);
	cr_assert_lt(mono_ns() - began, 4000000000u);
	cr_assert_eq(call(), 0);
}

/* Somebody uses the mount all the time. */
static _Atomic bool ends;
static _Atomic unsigned calls_made;

static void *use(void *arg)
{
	(void)arg;
	while (!ends) {
		cr_assert_eq(call(), 0);
		calls_made++;
	}
	return NULL;
}

static void *ask(void *arg)
{
	(void)arg;
	while (!ends) {
		struct nfs_path_info all[NFS_PATHS_MAX];

		cr_assert_leq(nfs_paths_info(cl, all), 3);
		nap();
	}
	return NULL;
}

Test(paths, many_changes_under_load)
{
	enum rr_policy policies[] = { RR_MIN_INFLIGHT, RR_ROUND_ROBIN, RR_MIN_LATENCY };
	pthread_t users[3];

	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(pthread_create(&users[i], NULL, i ? use : ask, NULL), 0);
	for (unsigned i = 0; i < 100; i++) {
		unsigned id = add(2 + i % 3);

		nfs_paths_set_policy(cl, policies[i % 3]);
		cr_assert_eq(nfs_paths_policy(cl), policies[i % 3]);
		if (i % 5)
			await(id, NFS_PATH_CONNECTED);
		if (i % 7 == 3)
			nfs_path_reconnect(cl, id, NULL);
		cr_assert_eq(try_remove(id, true), 0);
		if (i % 4)
			await(id, NFS_PATH_NONE);
		else if (i % 8)
			await(id, NFS_PATH_NONE);
		else
			for (unsigned k = 0; k < 2000 && info(id).state != NFS_PATH_NONE; k++)
				nap();
	}
	ends = true;
	for (unsigned i = 0; i < 3; i++)
		pthread_join(users[i], NULL);
	cr_assert_gt(calls_made, 100);
}

Test(paths, policies_by_name)
{
	enum rr_policy p;

	cr_assert(nfs_policy_named("min-latency", &p) && p == RR_MIN_LATENCY);
	cr_assert(nfs_policy_named("round-robin", &p) && p == RR_ROUND_ROBIN);
	cr_assert(nfs_policy_named("min-inflight", &p) && p == RR_MIN_INFLIGHT);
	cr_assert(!nfs_policy_named("fastest", &p) && !nfs_policy_named("", &p));
	cr_assert_str_eq(nfs_policy_name(RR_ROUND_ROBIN), "round-robin");
}

/* Only one path will be left that is connected, as soon as the first one has drained. */
Test(paths, removed_while_another_drains)
{
	struct nfs_call *c = calloc(1, sizeof(*c));
	bool abandoned;
	unsigned id, dead;

	id = add(2);
	await(id, NFS_PATH_CONNECTED);
	fake_connect_error = -ECONNREFUSED;
	dead = add(3);
	mute = true;
	c->op = NFS_OP_GETATTR;
	cr_assert_eq(nfs_call_sync(&cl->lanes[0].target, c, 20, &abandoned), -ETIMEDOUT);
	cr_assert_eq(try_remove(0, false), 0);
	cr_assert_eq(info(0).state, NFS_PATH_REMOVING, "its call has not ended");
	mute = false;
	cr_expect_eq(try_remove(id, false), -EBUSY, "the only one that is connected");
	fake_connect_error = 0;
	await(dead, NFS_PATH_CONNECTED);
}

/* The server restarts, and does not know the handle of the root for a while (NFSv3). The first
 * connection is taken, as there is no other. The others' checks say -EXDEV only for that while. */
Test(paths, another_server_for_a_moment_after_a_restart)
{
	unsigned id = add(2);

	await(id, NFS_PATH_CONNECTED);
	stranger = true;                /* STALE, on any connection that may not move */
	cr_assert_eq(nfs_path_reconnect(cl, id, NULL), 0);
	await(id, NFS_PATH_REFUSED);
	stranger = false;               /* the disk is there */
	for (unsigned i = 0; i < 1000 && info(id).state != NFS_PATH_CONNECTED; i++)
		nap();
	cr_assert_eq(info(id).state, NFS_PATH_CONNECTED, "a path that has led to the server before, and does "
		     "now, is %s for ever", nfs_path_state_name(info(id).state));
}
