/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CLOSE in the message of another call (nfs/rider.h), on the fake fabric. There is one lane,
 * on the test's own thread.
 *
 * The version has a CLOSE that rides, a LOOKUP that carries it, and a REMOVE that does
 * neither. A message says which file its CLOSE is of, and what else it asks for. The server
 * keeps which files are open. In a random order it executes messages, refuses them, loses
 * connections before and after that, and lets time pass.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "buffers.h"
#include "fake_fabric.h"
#include "nfs/internal.h"
#include "nfs/rider.h"

enum { CLOSED = 1, NOT_OPEN, REFUSED };         /* what the server says of a CLOSE */
#define NOBODY 0xffffffffu
#define FILES  400u

static struct nfs_client cl;
static struct nfs_control ctl;
static struct nfs_lane lane;
static struct nfs_version version;
static const struct rpc_cred user = { .uid = 1 }, other_user = { .uid = 2 };

struct op {
	struct nfs_call c;
	uint32_t nr;
	unsigned dones;
};
static struct op ops[FILES];
static bool open_there[FILES];          /* on the server */
static bool removed[FILES];

/* ---- the version: | CLOSE of, or NOBODY | main operation | of | ---- */

static uint32_t nr_of(const struct nfs_call *c)
{
	return container_of(c, struct op, c)->nr;
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t w[3] = { c->eng.rider ? nr_of(c->eng.rider) : NOBODY, (uint32_t)c->op, nr_of(c) };

	return xdr_uint32_t(x, &w[0]) && xdr_uint32_t(x, &w[1]) && xdr_uint32_t(x, &w[2]);
}

static bool delayed;            /* SEQUENCE says so, before anything is executed */

/* | what became of the rider | result | whose | */
static int decode(struct nfs_call *c, XDR *x)
{
	uint32_t w[3];

	for (unsigned i = 0; i < 3; i++)
		if (!xdr_uint32_t(x, &w[i]))
			return -EBADMSG;
	if (delayed)
		return NFS_DELAYED;
	if (c->eng.rider) {
		c->eng.rider_closed = w[0] != REFUSED;
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
	remove_def = { .name = "REMOVE", .encode = encode, .decode = decode, .results_max = 12 };

/* ---- the server ---- */

static uint32_t close_there(uint32_t nr)
{
	bool was = open_there[nr];

	cr_assert_lt(nr, FILES);
	open_there[nr] = false;
	return was ? CLOSED : NOT_OPEN;
}

/* What send i has asked for. */
static const uint32_t *asked(unsigned i)
{
	static uint32_t w[256];
	const struct fake_send *s = &fake.sends[i];

	memcpy(w, s->bytes, s->len);
	for (unsigned k = 0; k < s->len / 4; k++)
		w[k] = ntohl(w[k]);
	/* Both headers, credential, verifier. */
	return w + 7 + 6 + 2 + (w[7 + 7] + 3) / 4 + 2;
}

static unsigned answered;       /* sends of this connection */

/* Executes send i, whose CLOSE is refused if `refuse` is set, and whose main operation then
 * has that outcome. */
static void execute(unsigned i, bool refuse, int outcome, uint32_t reply[3])
{
	const uint32_t *w = asked(i);

	memset(reply, 0, 12);
	if (delayed)
		return;
	reply[0] = w[0] == NOBODY ? 0 : refuse ? REFUSED : close_there(w[0]);
	reply[1] = (uint32_t)outcome;
	reply[2] = w[2];
	if (w[0] != NOBODY && reply[0] != CLOSED)
		return;                 /* the COMPOUND has ended */
	if (w[1] == NFS_OP_CLOSE && outcome == 0)
		close_there(w[2]);
	if (w[1] == NFS_OP_REMOVE && outcome == 0)
		removed[w[2]] = true;
}

static void reply_to(unsigned i, const uint32_t reply[3])
{
	uint32_t xid, w[16];

	memcpy(&xid, fake.sends[i].bytes, 4);
	xid = ntohl(xid);
	memcpy(w, (uint32_t[]){ xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0 }, 52);
	memcpy(w + 13, reply, 12);
	for (unsigned k = 0; k < 16; k++)
		w[k] = htonl(w[k]);
	fake_complete(i);
	if (answered == fake.nsends)
		fake.nsends = answered = 0;
	fake_deliver(w, sizeof(w));
}

static void answer(bool refuse, int outcome)
{
	uint32_t reply[3];
	unsigned i = answered++;

	cr_assert_lt(i, fake.nsends);
	if (asked(i)[1] == NFS_OP_CLOSE && outcome < 0)
		outcome = 0;
	execute(i, refuse, outcome, reply);
	reply_to(i, reply);
}

static void connect_again(void)
{
	struct rr_link *link;
	struct errbuf eb;

	answered = 0;
	cr_assert_eq(rr_link_open(lane.target.conn, 0, &link, &eb), 0);
	cr_assert_eq(nfs_target_connected(&lane.target, link), 0);
}

/* ---- the client ---- */

static void setup(void)
{
	struct errbuf eb = { "" };

	fake_peer_is_knfsd();
	rpc_auth_init();
	version = (struct nfs_version){
		.name = "test", .prog = 1, .vers = 1,
		.ops = { [NFS_OP_NULL] = &remove_def, [NFS_OP_CLOSE] = &close_def,
			 [NFS_OP_LOOKUP] = &lookup_def, [NFS_OP_REMOVE] = &remove_def },
	};
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	cl.control = &ctl;
	cl.lanes = &lane;
	cl.nlanes = 1;
	cl.cfg = (struct nfs_config){
		.version = &version, .paths[0].fabric = &fabric_fake, .npaths = 1, .server = "server", .lanes = 1,
		.credits = 16, .buffers = { .n = { 24, 24, 0, 4, 2 } }, .timeo_ms = 60000,
		.retrans = 2, .soft = true,
	};
	nfs_server_init(&cl);
	cr_assert_eq(nfs_buffers_init(&cl), 0);
	cr_assert_eq(nfs_lane_init(&cl, 0, &eb), 0, "%s", eb.text);
	connect_again();
}

static void teardown(void)
{
	cr_assert(list_empty(&lane.running) && list_empty(&lane.riders));
	cr_assert_eq(buffers_free(&lane.mag, ARENA_MSG), 24);
	cr_assert_eq(lane.active, 0);
	nfs_lane_fini(&lane);
	arena_fini(&cl.arena);
}

static void on_done(struct nfs_call *c)
{
	struct op *o = container_of(c, struct op, c);

	o->dones++;
	if (c->op == NFS_OP_CLOSE && c->res.status == 0)
		cr_assert(!open_there[o->nr], "file %u is still open there", o->nr);
}

static struct op *start(uint32_t nr, enum nfs_op op, const struct rpc_cred *cred)
{
	struct op *o = &ops[nr];

	memset(o, 0, sizeof(*o));
	o->nr = nr;
	o->c = (struct nfs_call){ .op = op, .done = on_done, .cred = cred };
	if (op == NFS_OP_CLOSE) {
		o->c.open = calloc(1, 64);      /* the version has no open_free() */
		open_there[nr] = true;
	}
	nfs_start(&lane, &o->c);
	return o;
}

static void stop_loop(struct loop_timer *t)
{
	(void)t;
	loop_stop(lane.loop);
}

static void pass(unsigned ms)
{
	struct loop_timer t;

	loop_timer_init(&t, stop_loop);
	loop_timer_set(lane.loop, &t, ms);
	cr_assert_eq(loop_run(lane.loop), 0);
}

TestSuite(rider, .init = setup, .fini = teardown);

/* The first reply brings the credits. */
static void warm_up(void)
{
	start(FILES - 1, NFS_OP_REMOVE, &user);
	answer(false, 0);
}

Test(rider, close_travels_with_the_next_lookup)
{
	struct op *c, *l;

	warm_up();
	c = start(0, NFS_OP_CLOSE, &user);
	cr_assert_eq(fake.nsends, 0, "it waits");
	l = start(1, NFS_OP_LOOKUP, &user);
	cr_assert_eq(fake.nsends, 1);
	cr_assert_eq(asked(0)[0], 0);
	answer(false, -ENOENT);
	cr_assert(c->dones == 1 && c->c.res.status == 0);
	cr_assert(l->dones == 1 && l->c.res.status == -ENOENT);
}

Test(rider, close_does_not_wait_for_ever)
{
	struct op *c;

	warm_up();
	c = start(0, NFS_OP_CLOSE, &user);
	pass(RIDER_MS + 20);
	cr_assert_eq(fake.nsends, 1);
	answer(false, 0);
	cr_assert_eq(c->dones, 1);
}

/* What does not carry it starts after it. So does what another user wants to know, in a message
 * of his own. */
Test(rider, others_do_not_carry)
{
	warm_up();
	start(0, NFS_OP_CLOSE, &user);
	start(1, NFS_OP_REMOVE, &user);
	cr_assert(asked(0)[1] == NFS_OP_CLOSE && asked(0)[2] == 0);
	cr_assert_eq(asked(1)[1], NFS_OP_REMOVE);
	start(2, NFS_OP_CLOSE, &user);
	start(3, NFS_OP_LOOKUP, &other_user);
	cr_assert_eq(asked(2)[0], NOBODY);
	cr_assert_eq(fake.nsends, 3);
	pass(RIDER_MS + 20);
	cr_assert_eq(fake.nsends, 4);
	for (unsigned i = 0; i < 4; i++)
		answer(false, 0);
}

Test(rider, what_is_refused_is_sent_by_itself)
{
	struct op *c, *l;

	warm_up();
	c = start(0, NFS_OP_CLOSE, &user);
	l = start(1, NFS_OP_LOOKUP, &user);
	answer(true, 0);
	cr_assert(!c->dones && !l->dones);
	cr_assert_eq(fake.nsends, 2);
	cr_assert(asked(0)[0] == NOBODY && asked(1)[0] == NOBODY);
	answer(false, 0);
	answer(false, 0);
	cr_assert(c->dones == 1 && l->dones == 1);
}

/* Each of them would cost the LOOKUP another round, and after some it would be told to wait. */
Test(rider, many_that_are_refused_hold_nobody_up)
{
	struct op *l;

	warm_up();
	for (unsigned i = 0; i < 12; i++)
		start(i, NFS_OP_CLOSE, &user);
	l = start(12, NFS_OP_LOOKUP, &user);
	answer(true, 0);
	cr_assert(asked(0)[0] == NOBODY && asked(0)[2] == 12);
	answer(false, 0);
	cr_assert_eq(l->dones, 1);
	pass(RIDER_MS + 20);
	for (unsigned i = 0; i < 12; i++)
		answer(false, 0);
}

Test(rider, what_others_wait_for_goes_at_once)
{
	struct op *o = &ops[0];

	warm_up();
	memset(o, 0, sizeof(*o));
	o->c = (struct nfs_call){ .op = NFS_OP_CLOSE, .flags = NFS_CALL_NOW, .done = on_done, .cred = &user };
	nfs_start(&lane, &o->c);
	cr_assert_eq(fake.nsends, 1);
	answer(false, 0);
}

/* The time of both is up while they are in flight in one message. The connection goes with
 * them, and CLOSE does not end before the one that carries it. */
Test(rider, time_is_up)
{
	struct op *c, *l;

	warm_up();
	c = start(0, NFS_OP_CLOSE, &user);
	l = start(1, NFS_OP_LOOKUP, &user);
	c->c.eng.start_ns = l->c.eng.start_ns = 1;
	nfs_lane_expire(&lane);
	pass(5);
	cr_assert(l->dones == 1 && l->c.res.status == -EIO);
	cr_assert(c->dones == 1 && c->c.res.status == -EIO);
}

/* CLOSE is older than what carries it. It ends with that, not before. */
Test(rider, time_is_up_for_close)
{
	struct op *c, *l;

	warm_up();
	c = start(0, NFS_OP_CLOSE, &user);
	l = start(1, NFS_OP_LOOKUP, &user);
	c->c.eng.start_ns = 1;
	nfs_lane_expire(&lane);
	pass(5);
	cr_assert(!c->dones && !l->dones);
	answer(false, 0);
	cr_assert(c->dones == 1 && c->c.res.status == 0 && l->dones == 1);
}

/* The server wants the message again later, and until then the time is up. */
Test(rider, time_is_up_between_two_sendings)
{
	struct op *c, *l;

	warm_up();
	c = start(0, NFS_OP_CLOSE, &user);
	l = start(1, NFS_OP_LOOKUP, &user);
	delayed = true;
	answer(false, 0);
	delayed = false;
	cr_assert(!c->dones && !l->dones);
	l->c.eng.start_ns = 1;
	nfs_lane_expire(&lane);
	cr_assert(l->dones == 1 && l->c.res.status == -EIO);
	cr_assert_eq(asked(0)[1], NFS_OP_CLOSE);
	answer(false, 0);
	cr_assert(c->dones == 1 && c->c.res.status == 0);
}

Test(rider, what_travels_is_not_taken_back)
{
	struct op *c, *l;

	warm_up();
	c = start(0, NFS_OP_CLOSE, &user);
	l = start(1, NFS_OP_LOOKUP, &user);
	cr_assert(!nfs_take_back(&c->c, -EINTR));
	answer(false, 0);
	cr_assert(c->dones == 1 && l->dones == 1);
	c = start(2, NFS_OP_CLOSE, &user);
	cr_assert(nfs_take_back(&c->c, -EINTR));
	cr_assert_eq(c->dones, 1);
	l = start(3, NFS_OP_LOOKUP, &user);
	cr_assert_eq(asked(0)[0], NOBODY);
	answer(false, 0);
}

/* ---- all of it in random orders ---- */

static unsigned seed;

static unsigned any(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static bool is_busy(void)
{
	unsigned n = 0;

	list_for_each(at, &lane.running)
		n++;
	return n > 12;
}

static void something_happens(uint32_t *next)
{
	static const int outcomes[] = { 0, 0, 0, -ENOENT, NFS_AGAIN };
	uint32_t reply[3];

	switch (is_busy() ? 9 : any(10)) {
	case 0: case 1: case 2:
		if (*next < FILES - 1)
			start((*next)++, NFS_OP_CLOSE, any(8) ? &user : &other_user);
		return;
	case 3: case 4:
		if (*next < FILES - 1)
			start((*next)++, any(4) ? NFS_OP_LOOKUP : NFS_OP_REMOVE, &user);
		return;
	case 5:
		if (any(8))
			return;
		/* The connection is lost; the server may have executed what nobody hears of. */
		for (unsigned i = answered; i < fake.nsends; i++)
			if (any(2))
				execute(i, any(8) == 0, 0, reply);
		fake_break();
		connect_again();
		return;
	case 6:
		if (any(8) == 0)
			pass(any(2 * RIDER_MS));
		return;
	default:
		if (answered < fake.nsends)
			answer(any(8) == 0, outcomes[any(5)]);
		else if (is_busy())
			pass(1);
	}
}

Test(rider, nothing_stays_open, .timeout = 120)
{
	for (unsigned round = 0; round < 60; round++) {
		uint32_t next = 0;

		seed = round + 1;
		while (next < FILES - 1) {
			something_happens(&next);
			/* The fabric's list of what was sent is short. */
			while (fake.nsends > 32)
				answer(false, 0);
		}
		while (!list_empty(&lane.running)) {
			if (answered < fake.nsends)
				answer(false, 0);
			else
				pass(1);
		}
		for (uint32_t i = 0; i < next; i++) {
			cr_assert_eq(ops[i].dones, 1, "round %u, call %u", round, i);
			cr_assert(!open_there[i], "round %u, file %u", round, i);
		}
	}
}
