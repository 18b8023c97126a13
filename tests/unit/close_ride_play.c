/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "buffers.h"
#include "fake_lane.h"
#include "close_ride_play.h"

enum { CLOSED = 1, NOT_OPEN, REFUSED };         /* what the server says of a CLOSE */

struct nfs_client play_cl;
struct nfs_lane play_lanes[LANES];
const struct rpc_cred user = { .uid = 1 }, other_user = { .uid = 2 };
struct op ops[FILES];
_Atomic bool open_there[FILES];
_Atomic unsigned in_vain[FILES];
bool delayed;

static struct nfs_control ctl;
static struct nfs_version version;
static unsigned answered[LANES];        /* sends of this connection */
/* The fabric's list of connections has no lock of its own. */
static pthread_mutex_t fabric_mu = PTHREAD_MUTEX_INITIALIZER;
static struct fake_conn *conns[LANES];

/* What nfs_open is here: which file that is. */
struct nfs_open {
	uint32_t nr;
};

/* ---- the version ---- */

static uint32_t nr_of(const struct nfs_call *c)
{
	return c->op == NFS_OP_CLOSE ? c->open->nr : container_of(c, struct op, c)->nr;
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t w[3] = { c->eng.riding_close ? nr_of(c->eng.riding_close) : NOBODY, (uint32_t)c->op, nr_of(c) };

	return xdr_uint32_t(x, &w[0]) && xdr_uint32_t(x, &w[1]) && xdr_uint32_t(x, &w[2]);
}

/* | what became of the rider | result | whose | */
static int decode(struct nfs_call *c, XDR *x)
{
	uint32_t w[3];

	for (unsigned i = 0; i < 3; i++)
		if (!xdr_uint32_t(x, &w[i]))
			return -EBADMSG;
	if (delayed)
		return NFS_DELAYED;
	if (c->eng.riding_close) {
		c->eng.close_ride_closed = w[0] != REFUSED;
		if (w[0] != CLOSED)
			return NFS_ALONE;
	}
	cr_assert_eq(w[2], nr_of(c), "the reply to another call");
	return (int)w[1];
}

static bool always(const struct nfs_call *c)
{
	(void)c;
	return true;
}

static const struct nfs_opdef
	close_def = { .name = "CLOSE", .encode = encode, .decode = decode, .rides = always, .results_max = 12 },
	lookup_def = { .name = "LOOKUP", .encode = encode, .decode = decode, .carries = always, .results_max = 12 },
	write_def = { .name = "COMMIT", .encode = encode, .decode = decode, .results_max = 12 },
	remove_def = { .name = "REMOVE", .encode = encode, .decode = decode, .results_max = 12, .unnames = true };

/* ---- the server ---- */

static uint32_t close_there(uint32_t nr)
{
	bool was;

	cr_assert_lt(nr, FILES);
	was = atomic_exchange(&open_there[nr], false);
	atomic_fetch_add(&in_vain[nr], !was);
	return was ? CLOSED : NOT_OPEN;
}

const uint32_t *asked_on(unsigned lane, unsigned i)
{
	static _Thread_local uint32_t w[256];
	const struct fake_send *s = &conns[lane]->sends[i];

	memcpy(w, s->bytes, s->len);
	for (unsigned k = 0; k < s->len / 4; k++)
		w[k] = ntohl(w[k]);
	/* Both headers, credential, verifier. */
	return w + 7 + 6 + 2 + (w[7 + 7] + 3) / 4 + 2;
}

/* The first message after a connection that was silent for a second: the machine was slow. */
static bool is_ping(unsigned lane, unsigned i)
{
	const struct rr_call *ping = &play_lanes[lane].target.ping;
	uint32_t xid;

	memcpy(&xid, conns[lane]->sends[i].bytes, 4);
	return ping->state == RR_CALL_INFLIGHT && ping->xid == ntohl(xid);
}

/* refuse: of the CLOSE before the main operation. */
static void execute(unsigned lane, unsigned i, bool refuse, int outcome, uint32_t reply[3])
{
	const uint32_t *w = asked_on(lane, i);

	memset(reply, 0, 12);
	if (delayed || is_ping(lane, i))
		return;
	reply[0] = w[0] == NOBODY ? 0 : refuse ? REFUSED : close_there(w[0]);
	reply[1] = (uint32_t)outcome;
	reply[2] = w[2];
	if (w[0] != NOBODY && reply[0] != CLOSED)
		return;                 /* the COMPOUND has ended */
	if (w[1] == NFS_OP_CLOSE && outcome == 0)
		close_there(w[2]);
}

unsigned unanswered(unsigned lane)
{
	return conns[lane]->nsends - answered[lane];
}

/* The fabric's list of what was sent is short. */
static void forget_answered(unsigned lane)
{
	unsigned left = unanswered(lane);

	if (left && answered[lane] < FAKE_SENDS / 2)
		return;
	memmove(fake.sends, fake.sends + answered[lane], left * sizeof(fake.sends[0]));
	fake.nsends = left;
	answered[lane] = 0;
}

void answer_on(unsigned lane, bool refuse, int outcome)
{
	unsigned i = answered[lane]++;
	uint32_t reply[3], xid, w[16];

	fake_used = conns[lane];
	cr_assert_lt(i, fake.nsends);
	if (!is_ping(lane, i) && asked_on(lane, i)[1] == NFS_OP_CLOSE && outcome < 0)
		outcome = 0;
	execute(lane, i, refuse, outcome, reply);
	memcpy(&xid, fake.sends[i].bytes, 4);
	xid = ntohl(xid);
	memcpy(w, (uint32_t[]){ xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0 }, 52);
	memcpy(w + 13, reply, 12);
	for (unsigned k = 0; k < 16; k++)
		w[k] = htonl(w[k]);
	fake_complete(i);
	forget_answered(lane);
	fake_deliver(w, sizeof(w));
}

void connect_lane(unsigned lane)
{
	struct rr_link *link;
	struct errbuf eb;

	answered[lane] = 0;
	pthread_mutex_lock(&fabric_mu);
	cr_assert_eq(nfs_connection_open(&play_lanes[lane].target.conns[0][0], &link, &eb), 0);
	conns[lane] = fake_used;
	pthread_mutex_unlock(&fabric_mu);
	nfs_connection_up(&play_lanes[lane].target.conns[0][0], link);
}

void disconnect_lane(unsigned lane)
{
	fake_used = conns[lane];
	pthread_mutex_lock(&fabric_mu);
	fake_break();
	pthread_mutex_unlock(&fabric_mu);
}

void lose(unsigned lane, bool (*some)(void *ctx), void *ctx)
{
	uint32_t reply[3];

	for (unsigned i = answered[lane]; i < conns[lane]->nsends; i++)
		if (some(ctx))
			execute(lane, i, some(ctx), 0, reply);
	disconnect_lane(lane);
	connect_lane(lane);
}

/* ---- the client ---- */

void play_setup(void)
{
	struct errbuf eb = { "" };

	fake_peer_is_knfsd();
	fake_most = LANES;
	rpc_auth_init();
	version = (struct nfs_version){
		.name = "test", .prog = 1, .vers = 1,
		.ops = { [NFS_OP_CLOSE] = &close_def, [NFS_OP_LOOKUP] = &lookup_def,
			 [NFS_OP_COMMIT] = &write_def, [NFS_OP_REMOVE] = &remove_def },
	};
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	play_cl.control = &ctl;
	play_cl.lanes = play_lanes;
	play_cl.nlanes = LANES;
	play_cl.cfg = (struct nfs_config){
		.times = &fake_times,
		.version = &version, .paths[0].fabric = &fabric_fake, .npaths = 1, .server = "server", .lanes = LANES,
		.credits = 16, .buffers = { .n = { 24, 0, 4, 2 } }, .timeo_ms = 60000,
		.retrans = 2, .soft = true,
	};
	nfs_server_init(&play_cl);
	cr_assert_eq(nfs_buffers_init(&play_cl), 0);
	for (unsigned i = 0; i < LANES; i++) {
		cr_assert_eq(nfs_lane_init(&play_cl, i, &eb), 0, "%s", eb.text);
		connect_lane(i);
	}
}

bool all_closed(void)
{
	struct nfs_close_rides *rs = &play_cl.server.close_rides;
	unsigned nwaiting;
	bool all;

	pthread_mutex_lock(&rs->mu);
	all = list_empty(&rs->waiting) && list_empty(&rs->away);
	nwaiting = atomic_load(&rs->nwaiting);
	pthread_mutex_unlock(&rs->mu);
	cr_assert(!all || !nwaiting);
	return all;
}

void play_teardown(void)
{
	unsigned msgs = 0;

	cr_assert(all_closed());
	for (unsigned i = 0; i < LANES; i++) {
		cr_assert(list_empty(&play_lanes[i].running));
		cr_assert_eq(play_lanes[i].active, 0);
		msgs += atomic_load(&play_lanes[i].mag.nfree[ARENA_MSG]);
	}
	cr_assert_eq(msgs - atomic_load(&play_lanes[0].mag.nfree[ARENA_MSG]) + buffers_free(&play_lanes[0].mag, ARENA_MSG),
		     24 * LANES);
	for (unsigned i = 0; i < LANES; i++)
		nfs_lane_fini(&play_lanes[i]);
	nfs_server_fini(&play_cl);
	arena_fini(&play_cl.arena);
}

static void on_done(struct nfs_call *c)
{
	struct op *o = container_of(c, struct op, c);

	cr_assert(c->op != NFS_OP_CLOSE || !c->open, "the open is not the caller's any more");
	atomic_fetch_add(&o->dones, 1);
}

struct op *start_on(unsigned lane, uint32_t nr, enum nfs_op op, const struct rpc_cred *cred)
{
	struct op *o = &ops[nr];

	memset(o, 0, sizeof(*o));
	o->nr = nr;
	o->c = (struct nfs_call){ .op = op, .done = on_done, .cred = cred };
	if (op == NFS_OP_MAX) {
		o->c.op = NFS_OP_CLOSE;
		o->c.flags = NFS_CALL_NOW;
	}
	if (o->c.op == NFS_OP_CLOSE) {
		o->c.open = malloc(sizeof(struct nfs_open));    /* the version has no open_free() */
		o->c.open->nr = nr;
		atomic_store(&open_there[nr], true);
		atomic_store(&in_vain[nr], 0);
	}
	nfs_start(&play_lanes[lane], &o->c);
	return o;
}

void pass_on(unsigned lane, unsigned ms)
{
	fake_used = conns[lane];
	fake_pass(&play_lanes[lane], ms);
}
