/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections of a lane on two paths: the check of a new one, and heartbeats. Everything runs
 * on one thread. The test plays the connector, and two servers behind the fake fabric, which
 * may fall silent, as a whole or on one path.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "fake_fabric.h"
#include "fake_lane.h"
#include "nfs/paths.h"

#define BEAT_MS 160u
#define OP NFS_OP_GETATTR
enum { PLAIN = 1, CHECK = 50, STEPS = 3 };

static struct nfs_client cl;
static struct nfs_lane lane;
static struct nfs_control ctl;
static struct loop_timer timer;

/* What is behind each connection of the fake fabric. */
static struct played {
	bool mute;              /* nothing is answered */
	bool busy;              /* of its calls, only pings and checks are answered */
	uint32_t is;            /* the answer to the last call of a check */
	uint32_t accept_stat;   /* RFC 5531: 0, or why the call is not executed */
	unsigned calls, pings, checks;
	unsigned seen;          /* of fake_conns[].sends */
} played[FAKE_CONNS];
/* The answers to the next calls of a check: 0: go on. */
static int check_says[64];
static unsigned nsays, said;
static bool may_move, known;

struct op {
	struct nfs_call c;
	unsigned dones;
	int status;
};
static struct op ops[32];

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
	return xdr_uint32_t(x, &w) ? 0 : -EBADMSG;
}

static uint32_t check_proc(const struct nfs_check *k)
{
	return CHECK + k->step;
}

static bool_t check_encode(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	uint32_t w = k->step;

	cr_assert_eq(t, &lane.target);
	return xdr_uint32_t(x, &w);
}

/* Three calls; the last one says which server it is. */
static int check_decode(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	uint32_t w;

	(void)t;
	may_move = k->may_move;
	known = k->known;
	if (!xdr_uint32_t(x, &w))
		return err_set(&k->why, -EBADMSG, "it says nothing");
	if (said < nsays && check_says[said++])
		return check_says[said - 1];
	if (++k->step < STEPS)
		return NFS_NEXT;
	if (w != 1 && !k->may_move)
		return err_set(&k->why, -EXDEV, "it is server %u", w);
	return 0;
}

static const struct nfs_opdef plain = {
	.name = "PLAIN", .encode = encode, .decode = decode, .results_max = 4, .proc = PLAIN,
};
static struct nfs_version version = {
	.name = "test", .prog = 1, .vers = 1, .ops = { [OP] = &plain },
	.check_proc = check_proc, .check_encode = check_encode, .check_decode = check_decode,
};

/* ---- the servers ---- */

/* Words of a header without chunks, and of one with a Write chunk of one segment. */
enum { PLAIN_WORDS = 7, CHUNK_WORDS = 13 };

static void answer(struct fake_conn *f, struct played *p)
{
	const struct fake_send *s = &f->sends[p->seen];
	uint32_t w[1024] = { 0 }, r[CHUNK_WORDS + 8] = { 0 }, proc, n;

	memcpy(w, s->bytes, s->len < sizeof(w) ? s->len : sizeof(w));
	n = w[5] ? CHUNK_WORDS : PLAIN_WORDS;
	proc = ntohl(w[n + 5]);
	p->pings += proc == 0;
	p->calls += proc == PLAIN;
	p->checks += proc >= CHECK;
	fake_used = f;
	fake_complete(p->seen++);
	if (p->mute || (p->busy && proc == PLAIN))
		return;
	/* The chunk comes back unused. */
	memcpy(r, w, n * sizeof(w[0]));
	r[2] = htonl(8);
	if (n == CHUNK_WORDS)
		r[8] = 0;
	r[n] = w[0];
	r[n + 1] = htonl(1);
	r[n + 5] = htonl(p->accept_stat);
	r[n + 6] = htonl(p->is);
	fake_used = f;
	fake_deliver(r, (n + 8) * sizeof(r[0]));
}

static void serve(struct loop_timer *t)
{
	loop_timer_set(lane.loop, t, 1);
	for (unsigned i = 0; i < FAKE_CONNS; i++) {
		struct fake_conn *f = &fake_conns[i];

		while (f->open && f->attached && played[i].seen < f->nsends) {
			answer(f, &played[i]);
			if (played[i].seen == f->nsends)
				played[i].seen = f->nsends = 0;
		}
	}
}

/* ---- the connector ---- */

static struct nfs_connection *conn_of(unsigned path)
{
	return &lane.target.conns[path][0];
}

/* Connects on that path. Returns which connection of the fake fabric it is. */
static unsigned arrive(unsigned path, uint32_t is)
{
	struct errbuf eb = { "" };
	struct rr_link *link;
	unsigned i;

	conn_of(path)->wanted = false;
	conn_of(path)->busy = true;
	cr_assert_eq(nfs_connection_open(conn_of(path), &link, &eb), 0, "%s", eb.text);
	i = (unsigned)(fake_used - fake_conns);
	played[i] = (struct played){ .is = is };
	nfs_connection_up(conn_of(path), link);
	return i;
}

static void setup(void)
{
	struct errbuf eb = { "" };

	fake_peer_is_knfsd();
	fake_most = FAKE_CONNS;
	rpc_auth_init();
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	cl = (struct nfs_client){
		.control = &ctl, .lanes = &lane, .nlanes = 1,
		.cfg = { .version = &version, .npaths = 2, .server = "server", .lanes = 1, .credits = 16,
			 .heartbeat_ms = BEAT_MS, .clock = fake_clock, .times = &fake_times, .buffers = { .n = { 40, 0, 4, 2 } }, .timeo_ms = 60000 },
	};
	for (unsigned i = 0; i < 2; i++) {
		struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001 + i) };

		cl.cfg.paths[i].fabric = &fabric_fake;
		memcpy(&cl.cfg.paths[i].params.server, &in, sizeof(in));
	}
	nfs_server_init(&cl);
	cr_assert_eq(nfs_buffers_init(&cl), 0);
	cr_assert_eq(nfs_lane_init(&cl, 0, &eb), 0, "%s", eb.text);
	loop_timer_init(&timer, serve);
	loop_timer_set(lane.loop, &timer, 1);
	cr_assert_eq(arrive(0, 1), 0);
	cr_assert(conn_of(0)->up, "there is nothing to compare with while the mount is made");
	cl.server.checks = true;
}

static void teardown(void)
{
	nfs_lane_fini(&lane);
	for (unsigned i = 0; i < FAKE_CONNS; i++)
		cr_assert(!fake_conns[i].open);
	arena_fini(&cl.arena);
}

TestSuite(connection, .init = setup, .fini = teardown, .timeout = 60);

static void data_done(struct rr_call *rr, int status)
{
	cr_assert_eq(status, 0);
	magazine_put(&lane.mag, rr->msg);
	rr->msg = NULL;
}

static void on_done(struct nfs_call *c)
{
	struct op *o = container_of(c, struct op, c);

	o->dones++;
	o->status = c->res.status;
}

static struct op *start(unsigned i)
{
	struct op *o = &ops[i];

	memset(o, 0, sizeof(*o));
	o->c.op = OP;
	o->c.done = on_done;
	nfs_start(&lane, &o->c);
	return o;
}

static enum nfs_path_state state(unsigned path)
{
	const struct nfs_path *p = &cl.server.path[path];

	return p->refused ? NFS_PATH_REFUSED : p->up ? NFS_PATH_CONNECTED :
	       p->known ? NFS_PATH_RECONNECTING : NFS_PATH_CONNECTING;
}

/* ---- the check ---- */

Test(connection, checked_before_it_is_used)
{
	unsigned b = arrive(1, 1);

	cr_assert(!conn_of(1)->up && conn_of(1)->link);
	for (unsigned i = 0; i < 4; i++)
		start(i);
	cr_assert_eq(state(1), NFS_PATH_CONNECTING);
	fake_pass(&lane, 20);
	cr_assert(conn_of(1)->up && state(1) == NFS_PATH_CONNECTED);
	cr_assert(played[b].checks == STEPS && played[b].calls == 0);
	for (unsigned i = 0; i < 8; i++)
		start(8 + i);
	fake_pass(&lane, 10);
	cr_assert_eq(played[b].calls, 4);
	for (unsigned i = 0; i < 4; i++)
		cr_assert(ops[i].dones == 1 && ops[8 + i].dones == 1);
	cr_assert(!may_move, "the other path has a connection");
	cr_assert_not(known);
	fake_used = &fake_conns[b];
	fake_break();
	arrive(1, 1);
	fake_pass(&lane, 20);
	cr_assert(known && !may_move && conn_of(1)->up);
}

Test(connection, another_server_is_refused)
{
	unsigned b = arrive(1, 2);

	fake_pass(&lane, 20);
	cr_assert(!fake_conns[b].open && state(1) == NFS_PATH_REFUSED);
	cr_assert_str_eq(cl.server.path[1].why.text, "it is server 2");
	cr_assert(!conn_of(1)->wanted, "it is not tried again by itself");
	cr_assert_eq(played[b].calls, 0);
	for (unsigned i = 0; i < 4; i++)
		start(i);
	fake_pass(&lane, 10);
	cr_assert_eq(ops[3].dones, 1, "the mount goes on");
}

/* What becomes of the others on that path is not why it is refused. */
Test(connection, refused_and_then_not_reached)
{
	struct nfs_connection *second = &lane.target.conns[1][1];

	cl.cfg.mdconnect = 1;
	second->busy = true;
	arrive(1, 2);
	fake_pass(&lane, 20);
	cr_assert_eq(state(1), NFS_PATH_REFUSED);
	nfs_path_lost(second, false, -ECONNREFUSED, "nobody is there");
	cr_assert_eq(state(1), NFS_PATH_REFUSED);
	cr_assert_str_eq(cl.server.path[1].why.text, "it is server 2");
}

/* Not another server, but not usable: tried again, and rarer and rarer. */
Test(connection, check_that_fails)
{
	uint64_t first;

	check_says[0] = -EACCES;
	nsays = 1;
	arrive(1, 1);
	fake_pass(&lane, 20);
	cr_assert(state(1) == NFS_PATH_CONNECTING && conn_of(1)->wanted && conn_of(1)->failures == 1);
	first = conn_of(1)->retry_ns - mono_ns();
	said = 0;
	arrive(1, 1);
	fake_pass(&lane, 20);
	cr_assert(conn_of(1)->failures == 2 && conn_of(1)->retry_ns - mono_ns() > first);
	said = nsays = 0;
	arrive(1, 1);
	fake_pass(&lane, 20);
	cr_assert(state(1) == NFS_PATH_CONNECTED && conn_of(1)->failures == 0);
}

/* It may get that version: it is tried again, and says why it is not used. */
Test(connection, server_without_that_version)
{
	unsigned b = arrive(1, 1);

	played[b].accept_stat = 2;      /* PROG_MISMATCH */
	fake_pass(&lane, 20);
	cr_assert(state(1) == NFS_PATH_CONNECTING && conn_of(1)->wanted);
	cr_assert_str_eq(cl.server.path[1].why.text, "it does not have version 1 of NFS");
}

Test(connection, server_that_checks_later)
{
	unsigned b;

	check_says[1] = NFS_LATER;
	nsays = 2;
	b = arrive(1, 1);
	fake_pass(&lane, 50);
	cr_assert(!conn_of(1)->up && played[b].checks == 2);
	fake_pass(&lane, 250);
	cr_assert(conn_of(1)->up && played[b].checks == STEPS + 1);
}

Test(connection, lost_during_the_check)
{
	unsigned b = arrive(1, 1);

	played[b].mute = true;
	fake_pass(&lane, 5);
	fake_used = &fake_conns[b];
	fake_break();
	cr_assert(!conn_of(1)->link && conn_of(1)->wanted && !conn_of(1)->asked);
	fake_pass(&lane, 5);
	arrive(1, 1);
	fake_pass(&lane, 20);
	cr_assert(conn_of(1)->up);
}

Test(connection, lost_while_it_is_to_come_back_later)
{
	unsigned b;

	check_says[0] = NFS_LATER;
	nsays = 1;
	b = arrive(1, 1);
	fake_pass(&lane, 10);
	fake_used = &fake_conns[b];
	fake_break();
	fake_pass(&lane, 300);
	cr_assert(!conn_of(1)->link && played[b].checks == 1);
}

/* Silent already: it does not stay on trial for ever. */
Test(connection, silent_on_trial)
{
	unsigned b = arrive(1, 1);

	played[b].mute = true;
	fake_pass(&lane, BEAT_MS * 3 / 2);
	cr_assert(!fake_conns[b].open && conn_of(1)->wanted);
	cr_assert_eq(atomic_load(&lane.target.path_stats[1].missed), 1);
}

/* All is lost, and the first path that had been used before leads to another server: a server
 * has moved. A path that has never led to the server does not get that chance. */
Test(connection, who_may_have_moved)
{
	unsigned b = arrive(1, 2);

	fake_pass(&lane, 20);
	cr_assert_eq(state(1), NFS_PATH_REFUSED);
	cl.server.path[1].refused = false;      /* as if somebody asked for it */
	fake_used = &fake_conns[0];
	fake_break();
	b = arrive(1, 2);
	fake_pass(&lane, 20);
	cr_assert(!may_move && !fake_conns[b].open && state(1) == NFS_PATH_REFUSED);
	arrive(0, 2);
	fake_pass(&lane, 20);
	cr_assert(may_move && conn_of(0)->up);
}

/* The whole server moves, and one path finds that out while the other one's end is not yet
 * noticed. It is refused, but not for good. */
Test(connection, refused_only_as_long_as_another_is_there)
{
	unsigned b = arrive(1, 1);

	fake_pass(&lane, 20);
	cr_assert_eq(state(1), NFS_PATH_CONNECTED);
	fake_used = &fake_conns[b];
	fake_break();
	arrive(1, 2);
	fake_pass(&lane, 20);
	cr_assert(state(1) == NFS_PATH_REFUSED && conn_of(1)->retry_ns > mono_ns());
	fake_used = &fake_conns[0];
	fake_break();
	cr_assert(state(1) == NFS_PATH_RECONNECTING && conn_of(1)->wanted && conn_of(1)->retry_ns == 0);
	arrive(1, 2);
	fake_pass(&lane, 20);
	cr_assert(may_move && conn_of(1)->up);
}

/* ---- heartbeats ---- */

static unsigned both_up(void)
{
	unsigned b = arrive(1, 1);

	fake_pass(&lane, 20);
	cr_assert(conn_of(1)->up);
	/* Their first replies bring credits. */
	start(30);
	start(31);
	fake_pass(&lane, 10);
	cr_assert(ops[30].dones == 1 && ops[31].dones == 1);
	played[0].calls = played[b].calls = 0;
	return b;
}

Test(connection, idle_ones_are_asked)
{
	unsigned b = both_up();

	fake_pass(&lane, BEAT_MS * 4);
	cr_assert(played[0].pings >= 3 && played[0].pings <= 9, "%u", played[0].pings);
	cr_assert(played[b].pings >= 3 && played[b].pings <= 9, "%u", played[b].pings);
	cr_assert(conn_of(0)->up && conn_of(1)->up);
	cr_assert_eq(atomic_load(&lane.target.path_stats[0].missed), 0);
}

/* In use, they are not. */
Test(connection, no_heartbeat_while_there_are_replies)
{
	unsigned b = both_up(), pings;

	pings = played[0].pings + played[b].pings;
	for (unsigned i = 0; i < 30; i++) {
		start(0);
		start(1);
		fake_pass(&lane, 10);
		cr_assert(ops[0].dones == 1 && ops[1].dones == 1);
	}
	cr_assert_eq(played[0].pings + played[b].pings, pings);
}

/* Its calls go to the other path, within the time of a heartbeat and what the clock is off. */
Test(connection, silent_path)
{
	unsigned b = both_up();
	uint64_t began;

	played[0].mute = true;
	began = fake_clock();
	for (unsigned i = 0; i < 6; i++)
		start(i);
	cr_assert_eq(lane.target.timed_out, false);
	while (conn_of(0)->link)
		fake_pass(&lane, 5);
	cr_assert_leq(fake_clock() - began, 2ull * BEAT_MS * 1000000);
	fake_pass(&lane, 5);
	for (unsigned i = 0; i < 6; i++)
		cr_assert(ops[i].dones == 1 && ops[i].status == 0);
	cr_assert_eq(played[b].calls, 6);
	cr_assert_eq(atomic_load(&lane.target.path_stats[0].failovers), 3);
	cr_assert_eq(atomic_load(&lane.target.path_stats[0].missed), 1);
	cr_assert(state(0) == NFS_PATH_RECONNECTING && conn_of(0)->wanted && !fake_conns[0].open);
}

/* A call would have the one credit that there is until the first reply, and wait for timeo. */
Test(connection, silent_path_that_never_answered)
{
	unsigned b;

	played[0].mute = true;
	start(0);
	fake_pass(&lane, 5);
	b = arrive(1, 1);
	fake_pass(&lane, BEAT_MS * 3);
	cr_assert(conn_of(1)->up && !conn_of(0)->link);
	cr_assert(ops[0].dones == 1 && ops[0].status == 0);
	cr_assert_eq(played[b].calls, 1);
}

/* A silent server is no silent path. To send everything again would make it worse. */
Test(connection, silent_server)
{
	unsigned b = both_up();

	for (unsigned i = 0; i < 6; i++)
		start(i);
	played[0].mute = played[b].mute = true;
	for (unsigned i = 6; i < 12; i++)
		start(i);
	fake_pass(&lane, BEAT_MS * 4);
	cr_assert(conn_of(0)->up && conn_of(1)->up, "both have calls");
	cr_assert_eq(atomic_load(&lane.target.path_stats[0].failovers), 0);
}

/* It answers, but not these calls: a file system that hangs. */
Test(connection, busy_server)
{
	unsigned b = both_up();

	played[0].busy = true;
	for (unsigned i = 0; i < 6; i++)
		start(i);
	fake_pass(&lane, BEAT_MS * 4);
	cr_assert(conn_of(0)->up && conn_of(1)->up);
	cr_assert_eq(ops[0].dones + ops[1].dones + ops[2].dones + ops[3].dones + ops[4].dones + ops[5].dones, 3);
	cr_assert_geq(played[0].pings, 3);
	(void)b;
}

/* All threads of the server hang at once, and the other path's last reply came right before
 * that: it says nothing about now. */
Test(connection, reply_from_before)
{
	unsigned b = both_up();

	fake_pass(&lane, BEAT_MS);
	for (unsigned i = 0; i < 4; i++)
		start(i);
	played[0].mute = true;
	/* Until the first path's heartbeat is about to be sent. */
	for (unsigned i = 0; i < 20 && !(conn_of(0)->asked && lane.target.conns[0][0].rr.sends); i++) {
		start(8);
		start(9);
		fake_pass(&lane, 4);
		if (!ops[8].dones || !ops[9].dones)
			break;
	}
	played[b].mute = true;
	start(10);
	start(11);
	fake_pass(&lane, BEAT_MS * 3);
	cr_assert(conn_of(0)->up && conn_of(1)->up);
}

/* Nobody uses the mount. A server that is silent as a whole is left alone; a path is not. */
Test(connection, idle_and_silent)
{
	unsigned b = both_up();

	played[0].mute = played[b].mute = true;
	fake_pass(&lane, BEAT_MS * 3);
	cr_assert(conn_of(0)->link && conn_of(1)->link);
	fake_used = &fake_conns[b];
	fake_break();
	b = arrive(1, 1);
	fake_pass(&lane, BEAT_MS * 3);
	cr_assert(!conn_of(0)->link && conn_of(0)->wanted && conn_of(1)->up);
}

/* This lane has no connection on the other path, because the server takes no more of them. Another
 * lane has one, and it answers. */
Test(connection, silent_path_of_a_lane_that_has_no_other)
{
	static struct nfs_target other;

	cl.server.targets[1] = &other;
	start(0);
	fake_pass(&lane, BEAT_MS);
	cr_assert(ops[0].dones == 1 && atomic_load(&lane.target.answered_ns[0]), "others may know");
	played[0].mute = true;
	fake_pass(&lane, BEAT_MS * 3);
	cr_assert(conn_of(0)->up, "the server may be busy");
	/* Sent before the heartbeat. */
	atomic_store(&other.answered_ns[1], conn_of(0)->asked_ns);
	/* The same path. */
	atomic_store(&other.answered_ns[0], fake_clock());
	fake_pass(&lane, BEAT_MS);
	cr_assert(conn_of(0)->up);
	atomic_store(&other.answered_ns[1], fake_clock());
	fake_pass(&lane, BEAT_MS);
	cr_assert(!conn_of(0)->up, "it is the path");
	cl.server.targets[1] = NULL;
}

/* Every credit is in use, and yet there is a heartbeat. */
Test(connection, heartbeat_of_a_full_connection)
{
	unsigned b = both_up();

	played[0].mute = true;
	for (unsigned i = 0; i < 24; i++)
		start(i);
	fake_pass(&lane, BEAT_MS * 2);
	cr_assert(!conn_of(0)->link);
	for (unsigned i = 0; i < 24; i++)
		cr_assert_eq(ops[i].dones, 1);
	cr_assert_eq(played[b].calls, 24);
}

/* ---- what a reader has doubted ---- */

/* The reply to a call of the check is here before its Send has completed, and then the
 * connection breaks: the call ends with status 0 while the link is being closed. */
static void answered_then_broken(int says)
{
	uint32_t w[1024], r[15];
	unsigned b;

	check_says[0] = says;
	nsays = says ? 1 : 0;
	b = arrive(1, 1);
	memcpy(w, fake_conns[b].sends[0].bytes, sizeof(uint32_t) * 15);
	memcpy(r, (uint32_t[15]){ ntohl(w[0]), 1, 8, 0, 0, 0, 0, ntohl(w[0]), 1, 0, 0, 0, 0, 1 }, sizeof(r));
	for (unsigned i = 0; i < 15; i++)
		r[i] = htonl(r[i]);
	fake_used = &fake_conns[b];
	fake_deliver(r, sizeof(r));
	cr_assert(conn_of(1)->asked, "its Send has not completed");
	fake_used = &fake_conns[b];
	fake_break();
	fake_pass(&lane, 50);
	cr_assert(!conn_of(1)->link && conn_of(1)->wanted == (says != -EXDEV) && !conn_of(1)->asked);
}

Test(connection, check_answered_and_broken_with_a_next_step)
{
	answered_then_broken(0);
}

Test(connection, check_answered_and_broken_with_a_fault)
{
	answered_then_broken(-EACCES);
	cr_assert_str_eq(cl.server.path[1].why.text, strerror(EACCES), "and not that it broke");
}

Test(connection, check_answered_and_broken_by_a_stranger)
{
	answered_then_broken(-EXDEV);
	cr_assert_eq(state(1), NFS_PATH_REFUSED);
	cr_assert_str_eq(cl.server.path[1].why.text, strerror(EXDEV));
}

/* While it was alone, every credit of the first connection was used, and it fell silent. Then
 * the second path comes back: the calls need not wait for timeo. */
Test(connection, silent_and_full_when_the_other_path_comes_back)
{
	unsigned b = both_up();

	fake_used = &fake_conns[b];
	fake_break();
	played[0].mute = true;
	for (unsigned i = 0; i < 16; i++)
		start(i);
	fake_pass(&lane, BEAT_MS / 4);
	arrive(1, 1);
	fake_pass(&lane, BEAT_MS * 4);
	cr_assert(conn_of(1)->up);
	cr_expect(!conn_of(0)->link, "it has been silent for %u ms, and the other path answers", BEAT_MS * 4);
	for (unsigned i = 0; i < 16; i++)
		cr_expect_eq(ops[i].dones, 1, "call %u", i);
}

/* The server has moved with all its addresses. One path finds that before the other one is known
 * to be lost, and is refused. When the move has been accepted, it is the right server. */
Test(connection, a_move_that_one_path_finds_first)
{
	unsigned b = both_up();

	fake_times.retry_ms = 1;
	fake_used = &fake_conns[b];
	fake_break();
	arrive(1, 2);
	fake_pass(&lane, 20);
	cr_assert_eq(state(1), NFS_PATH_REFUSED);
	fake_used = &fake_conns[0];
	fake_break();
	arrive(0, 2);
	fake_pass(&lane, 50);
	cr_assert(conn_of(0)->up && may_move, "the move is accepted");
	cr_assert(conn_of(1)->wanted || conn_of(1)->busy, "the other path is never tried again");
}

/* The only path in use is silent, with calls in flight. The other one's check gets answers, but
 * "later": it waits for a recovery, whose calls are in flight on the silent one. */
Test(connection, silent_path_that_a_check_waits_for)
{
	struct played *p;

	start(0);
	fake_pass(&lane, 10);
	cr_assert_eq(ops[0].dones, 1);
	for (unsigned i = 1; i < 64; i++)
		check_says[i] = NFS_LATER;
	nsays = 64;
	played[0].mute = true;
	start(1);
	start(2);
	p = &played[arrive(1, 1)];
	/* On a busy machine checks and heartbeats come late. */
	for (unsigned i = 0; i < 100 && (p->checks < 3 || conn_of(0)->link); i++)
		fake_pass(&lane, BEAT_MS);
	cr_assert_geq(p->checks, 3, "it answers");
	cr_assert(!conn_of(0)->link, "silent, and another path answers");
}

/* The same, and the check knows that it is another server, which it takes its leave of. That one's
 * answers say nothing about this path. */
Test(connection, silent_path_and_a_stranger)
{
	struct played *p;

	start(0);
	fake_pass(&lane, 10);
	for (unsigned i = 1; i < 64; i++)
		check_says[i] = NFS_LATER;
	nsays = 64;
	played[0].mute = true;
	start(1);
	p = &played[arrive(1, 1)];
	fake_pass(&lane, 10);
	cr_assert(conn_of(1)->link && conn_of(1)->check.step);
	err_set(&conn_of(1)->check.why, -EXDEV, "it is another server");
	fake_pass(&lane, 4 * BEAT_MS);
	cr_assert_geq(p->checks, 2);
	cr_assert(conn_of(0)->up, "the server may be busy");
}

static void on_done_start(struct nfs_call *c)
{
	on_done(c);
	start(9);
}

/* A soft mount: one call hangs, and its time is up. A reply to another call comes right before
 * the connection is closed. The first call ends, and does not take the next connection, too. */
Test(connection, soft_call_that_hangs)
{
	unsigned b = both_up();
	const struct fake_send *s;
	uint32_t w[7], r[15];

	cl.cfg.heartbeat_ms = 0;
	cl.cfg.soft = true;
	cl.cfg.timeo_ms = 100;
	played[0].busy = true;
	start(0);
	start(1);
	start(2)->c.done = on_done_start;
	fake_pass(&lane, 10);
	cr_assert(ops[1].dones == 1 && !ops[0].dones && !ops[2].dones);
	fake_sleep(150);
	nfs_expire(&lane);
	/* Behind those that were answered before. */
	s = NULL;
	for (unsigned i = 0; i < 8 && !s; i++) {
		memcpy(w, fake_conns[0].sends[i].bytes, sizeof(w));
		if (ntohl(w[0]) == ops[2].c.eng.rr.xid)
			s = &fake_conns[0].sends[i];
	}
	cr_assert_not_null(s);
	memcpy(r, (uint32_t[15]){ ntohl(w[0]), 1, 8, 0, 0, 0, 0, ntohl(w[0]), 1, 0, 0, 0, 0, 1 }, sizeof(r));
	for (unsigned i = 0; i < 15; i++)
		r[i] = htonl(r[i]);
	fake_used = &fake_conns[0];
	fake_deliver(r, sizeof(r));
	fake_pass(&lane, 20);
	cr_assert(!fake_conns[0].open);
	cr_assert(ops[2].dones == 1 && ops[9].dones == 1);
	cr_expect(fake_conns[b].open, "one call has cost both connections");
	cr_assert_eq(ops[0].dones, 1);
}

/* Two connections of a path are checked at once, and a balancer is there: one leads to another
 * server, and the path is refused. The other one's check ends well after that. */
Test(connection, refused_while_another_is_on_trial)
{
	struct nfs_connection *second = &lane.target.conns[1][1];
	struct errbuf eb = { "" };
	struct rr_link *link;
	unsigned i;

	cl.cfg.mdconnect = 1;
	arrive(1, 2);
	second->busy = true;
	cr_assert_eq(nfs_connection_open(second, &link, &eb), 0, "%s", eb.text);
	i = (unsigned)(fake_used - fake_conns);
	played[i] = (struct played){ .is = 1, .mute = true };
	nfs_connection_up(second, link);
	fake_pass(&lane, 20);
	cr_assert_eq(state(1), NFS_PATH_REFUSED);
	/* Its first answer comes late. */
	played[i].mute = false;
	{
		uint32_t r[15] = { second->rr.xid, 1, 8, 0, 0, 0, 0, second->rr.xid, 1, 0, 0, 0, 0, 1 };

		for (unsigned n = 0; n < 15; n++)
			r[n] = htonl(r[n]);
		fake_used = &fake_conns[i];
		fake_deliver(r, sizeof(r));
	}
	fake_pass(&lane, 20);
	cr_assert(!second->up || !cl.server.path[1].refused,
		  "the path is refused, and a connection on it is in use: when it is lost, nobody makes another");
}

/* A path is refused, tried again, and removed just when a check of it ends well. Its place may be
 * another path's soon, so nothing may be connected there any more. */
Test(connection, joined_on_a_path_that_is_removed)
{
	unsigned b;

	cl.cfg.mdconnect = 1;
	b = arrive(1, 1);
	fake_pass(&lane, 20);
	cr_assert(conn_of(1)->up);
	cl.server.path[1].refused = true;
	fake_used = &fake_conns[b];
	fake_break();
	arrive(1, 1);
	/* As nfs_path_remove() does it, before the lane has heard of it. */
	pthread_mutex_lock(&ctl.mu);
	cl.server.path[1].removing = true;
	for (unsigned i = 0; i < 2; i++)
		lane.target.conns[1][i].wanted = false;
	pthread_mutex_unlock(&ctl.mu);
	fake_pass(&lane, 20);
	cr_assert(conn_of(1)->up, "it has been checked");
	rr_drain(conn_of(1)->link);
	fake_pass(&lane, 20);
	cr_assert(!conn_of(1)->link && !cl.server.path[1].used, "the place is free");
	for (unsigned i = 0; i < 2; i++)
		cr_assert(!lane.target.conns[1][i].wanted, "and its connector makes connection %u there", i);
}

/* A heartbeat waits at the server behind other calls, and some of these are answered. Then the
 * whole server hangs. What the other path has answered before that says nothing about now. */
Test(connection, reply_from_before_with_an_old_heartbeat)
{
	unsigned b = both_up();
	struct op *first = NULL;
	uint32_t r[15];

	played[0].mute = true;
	for (unsigned i = 0; i < 4; i++)
		start(i);
	for (unsigned i = 0; i < 100 && !conn_of(0)->asked; i++)
		fake_pass(&lane, 2);
	cr_assert(conn_of(0)->asked && conn_of(0)->link);
	fake_pass(&lane, 4);
	/* The other path answers what was sent after the heartbeat. */
	start(8);
	start(9);
	fake_pass(&lane, 4);
	/* And this one answers one of the calls that came before it. */
	for (unsigned i = 0; i < 4 && !first; i++)
		first = ops[i].dones ? NULL : &ops[i];
	cr_assert_not_null(first);
	memcpy(r, (uint32_t[15]){ first->c.eng.rr.xid, 1, 8, 0, 0, 0, 0, first->c.eng.rr.xid, 1, 0, 0, 0, 0, 1 },
	       sizeof(r));
	for (unsigned i = 0; i < 15; i++)
		r[i] = htonl(r[i]);
	fake_used = &fake_conns[0];
	fake_deliver(r, sizeof(r));
	cr_assert_eq(first->dones, 1);
	/* Now the server hangs. */
	played[b].mute = true;
	for (unsigned i = 10; i < 16; i++)
		start(i);
	fake_pass(&lane, BEAT_MS * 3);
	cr_assert(conn_of(0)->up && conn_of(1)->up, "the server hangs, and its calls are sent again");
}

/* Data alone keeps a connection from falling silent, and its latency says nothing about the path.
 * It is measured all the same: RR_MIN_LATENCY must see that a path has become slow. */
Test(connection, measured_although_it_is_busy)
{
	unsigned b = both_up(), pings = played[0].pings;
	struct rr_call data, *c = &data;

	played[b].mute = false;
	for (unsigned i = 0; i < 60; i++) {
		data = (struct rr_call){ .done = data_done, .msg_len = 60, .reply_max = 100 };
		c->msg = magazine_get(&lane.mag, ARENA_MSG);
		c->xid = rr_xid(lane.target.conn);
		memset((char *)c->msg->mem + RR_HDR_ROOM, 0, 60);
		memcpy((char *)c->msg->mem + RR_HDR_ROOM, &(uint32_t){ htonl(c->xid) }, 4);
		((uint32_t *)(void *)((char *)c->msg->mem + RR_HDR_ROOM))[5] = htonl(PLAIN);
		c->sink[0] = (struct rr_iov){ cl.arena.data.base, 65536 };
		cr_assert_eq(rr_submit_on(conn_of(0)->link, c), 0);
		fake_pass(&lane, 5);
		cr_assert_null(c->msg);
	}
	cr_assert_geq(played[0].pings - pings, 2);
}
