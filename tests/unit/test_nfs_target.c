/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two servers on one lane. A call uses the version, the connections and the slots of its
 * target, and what happens to one target does not affect the other.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>
#include "fake_fabric.h"
#include "nfs/internal.h"

#define OP NFS_OP_GETATTR

static struct nfs_client cl;
static struct nfs_control ctl;
static struct nfs_lane lane;
static struct nfs_server other;
static struct nfs_target second;
static struct nfs_version versions[2];
static unsigned slots[2] = { 8, 8 }, taken[2];

struct op {
	struct nfs_call c;
	unsigned dones, decoded_by;
};
static struct op ops[16];

static unsigned which(const struct nfs_target *t)
{
	return t == &second;
}

static bool_t encode(struct nfs_call *c, XDR *x)
{
	uint32_t w = 77;

	(void)c;
	return xdr_uint32_t(x, &w);
}

static int decode(struct nfs_call *c, XDR *x, unsigned by)
{
	uint32_t outcome;

	container_of(c, struct op, c)->decoded_by = by;
	return xdr_uint32_t(x, &outcome) ? (int)outcome : -EBADMSG;
}

static int decode_first(struct nfs_call *c, XDR *x)
{
	return decode(c, x, 1);
}

static int decode_second(struct nfs_call *c, XDR *x)
{
	return decode(c, x, 2);
}

static const struct nfs_opdef defs[2] = {
	{ .name = "FIRST", .encode = encode, .decode = decode_first, .results_max = 8, .proc = 11 },
	{ .name = "SECOND", .encode = encode, .decode = decode_second, .results_max = 8, .proc = 22 },
};

static int acquire(struct nfs_target *t, struct nfs_call *c)
{
	(void)c;
	if (taken[which(t)] == slots[which(t)])
		return 0;
	taken[which(t)]++;
	return 1;
}

static void release(struct nfs_target *t, struct nfs_call *c)
{
	(void)c;
	taken[which(t)]--;
}

static char heard[16];                  /* by the front: a lane that is up, or down */

static void on_change(struct nfs_lane *l)
{
	heard[strlen(heard)] = nfs_lane_up(l) ? 'u' : 'd';
}

static void on_buffers(struct nfs_lane *l)
{
	(void)l;
}

static const struct nfs_front front = { .lane_changed = on_change, .buffers_freed = on_buffers };

static void connect_to(struct nfs_target *t)
{
	struct errbuf eb = { "" };
	struct rr_link *link;

	cr_assert_eq(nfs_connection_open(&t->conns[0][0], &link, &eb), 0, "%s", eb.text);
	nfs_connection_up(&t->conns[0][0], link);
}

static void setup(void)
{
	struct errbuf eb = { "" };

	fake_peer_is_knfsd();
	fake_most = 2;
	for (unsigned i = 0; i < 2; i++)
		versions[i] = (struct nfs_version){
			.prog = 100 + i, .vers = 3 + i, .acquire = acquire, .release = release,
			.ops = { [OP] = &defs[i] },
		};
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	cl = (struct nfs_client){
		.control = &ctl, .lanes = &lane, .nlanes = 1,
		.cfg = { .front = &front, .version = &versions[0], .paths[0].fabric = &fabric_fake, .npaths = 1,
			 .server = "first", .lanes = 1, .credits = 16,
			 .buffers = { .n = { 24, 0, 4, 2 } }, .timeo_ms = 60000 },
	};
	nfs_server_init(&cl);
	cr_assert_eq(nfs_buffers_init(&cl), 0);
	cr_assert_eq(nfs_lane_init(&cl, 0, &eb), 0, "%s", eb.text);
	other = (struct nfs_server){
		.client = &cl, .name = "second", .version = &versions[1], .auth = &rpc_auth_none,
	};
	nfs_paths_init(&other);
	cr_assert_eq(nfs_target_init(&second, &other, &lane), 0);
	connect_to(&lane.target);
	connect_to(&second);
}

static void teardown(void)
{
	nfs_target_fini(&second);
	nfs_lane_fini(&lane);
	cr_assert(!cl.server.targets[0] && !other.targets[0]);
	arena_fini(&cl.arena);
}

TestSuite(nfs_target, .init = setup, .fini = teardown, .timeout = 60);

static void on_done(struct nfs_call *c)
{
	container_of(c, struct op, c)->dones++;
}

static struct op *start(unsigned i, struct nfs_target *t)
{
	struct op *o = &ops[i];

	memset(o, 0, sizeof(*o));
	o->c.op = OP;
	o->c.done = on_done;
	nfs_start_at(t, &o->c);
	return o;
}

static void answer(unsigned conn, struct op *o)
{
	uint32_t xid = o->c.eng.rr.xid;
	uint32_t w[] = { xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 0 };

	for (unsigned i = 0; i < sizeof(w) / 4; i++)
		w[i] = htonl(w[i]);
	fake_used = &fake_conns[conn];
	if (!o->c.eng.rr.sent)
		fake.ev->sent(fake.ctx, &o->c.eng.rr);
	fake_deliver(w, sizeof(w));
}

/* Program, version, procedure of the i-th message on that connection. */
static void expect_sent(unsigned conn, unsigned i, uint32_t prog, uint32_t vers, uint32_t proc)
{
	uint32_t w[13];

	cr_assert_lt(i, fake_conns[conn].nsends);
	memcpy(w, fake_conns[conn].sends[i].bytes, sizeof(w));
	cr_assert_eq(ntohl(w[10]), prog);
	cr_assert_eq(ntohl(w[11]), vers);
	cr_assert_eq(ntohl(w[12]), proc);
}

Test(nfs_target, a_call_goes_to_its_server)
{
	struct op *a = start(0, &lane.target), *b = start(1, &second);

	cr_assert(fake_conns[0].nsends == 1 && fake_conns[1].nsends == 1);
	expect_sent(0, 0, 100, 3, 11);
	expect_sent(1, 0, 101, 4, 22);
	cr_assert(taken[0] == 1 && taken[1] == 1);
	answer(1, b);
	answer(0, a);
	cr_assert(a->dones == 1 && a->decoded_by == 1);
	cr_assert(b->dones == 1 && b->decoded_by == 2);
	cr_assert(taken[0] == 0 && taken[1] == 0);
}

/* The caller of nfs_start() means the server that is mounted, wherever the call has
 * been before. */
Test(nfs_target, the_next_time_it_may_be_another_server)
{
	struct op *o = start(0, &second);

	answer(1, o);
	nfs_start(&lane, &o->c);
	expect_sent(0, 0, 100, 3, 11);
	answer(0, o);
	cr_assert(o->dones == 2 && o->decoded_by == 1);
}

Test(nfs_target, one_server_is_lost)
{
	struct op *a = start(0, &lane.target), *b = start(1, &second);

	fake_used = &fake_conns[1];
	fake_break();
	cr_assert(!atomic_load(&second.up) && nfs_lane_up(&lane));
	cr_assert(second.conns[0][0].wanted && !lane.target.conns[0][0].wanted);
	answer(0, a);
	cr_assert(a->dones == 1 && b->dones == 0);
	connect_to(&second);
	cr_assert_eq(fake_conns[1].nsends, 1, "it is sent again");
	answer(1, b);
	cr_assert(b->dones == 1 && b->decoded_by == 2);
}

/* Of the server that is mounted, and when there is no connection any more, or one again. */
Test(nfs_target, the_front_hears_of_the_last_connection)
{
	struct errbuf eb = { "" };
	struct rr_link *link;

	cr_assert_str_eq(heard, "u");
	fake_used = &fake_conns[1];
	fake_break();
	connect_to(&second);
	cr_assert_str_eq(heard, "u");
	fake_used = &fake_conns[0];
	fake_break();
	cr_assert_str_eq(heard, "ud");
	connect_to(&lane.target);
	cr_assert_str_eq(heard, "udu");
	/* Neither does a further one say anything, nor its end. */
	fake_most = 3;
	cr_assert_eq(nfs_connection_open(&lane.target.conns[0][1], &link, &eb), 0, "%s", eb.text);
	nfs_connection_up(&lane.target.conns[0][1], link);
	fake_break();
	cr_assert_str_eq(heard, "udu");
}
