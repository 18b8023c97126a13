/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call engine with a fake version on the fake fabric. There is one lane, on the test's
 * own thread.
 *
 * The version's operation sends one word, and the reply has two: an outcome, which decode
 * returns, and a value.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "buffers.h"
#include "fake_fabric.h"
#include "fake_lane.h"
#include "nfs/common.h"
#include "nfs/internal.h"
#include "rpcrdma/header.h"

#define OP_PLAIN NFS_OP_GETATTR
#define OP_LONG  NFS_OP_READDIR         /* its reply needs a Reply chunk */

static struct nfs_client cl;
static struct nfs_control ctl;
static struct nfs_lane lane;
static struct nfs_version version;
static unsigned slots, acquired, released, freed_hooks;

struct op {
	struct nfs_call c;
	unsigned dones;
	uint32_t value;         /* what the last reply brought */
	uint8_t steps_seen;     /* bit per step that was encoded */
};
static struct op ops[64];

static bool_t encode(struct nfs_call *c, XDR *x)
{
	struct op *o = container_of(c, struct op, c);
	uint32_t w = c->eng.step;

	o->steps_seen |= (uint8_t)(1u << c->eng.step);
	return xdr_uint32_t(x, &w);
}

static bool_t encode_fails(struct nfs_call *c, XDR *x)
{
	(void)c;
	(void)x;
	return FALSE;
}

static int decode(struct nfs_call *c, XDR *x)
{
	struct op *o = container_of(c, struct op, c);
	uint32_t outcome;

	if (!xdr_uint32_t(x, &outcome) || !xdr_uint32_t(x, &o->value))
		return -EBADMSG;
	if (outcome == NFS_NEXT)
		c->eng.step++;
	return (int)outcome;
}

enum { SMALL_MAX = 100 };

static const struct nfs_opdef plain = {
	.name = "PLAIN", .encode = encode, .decode = decode, .results_max = SMALL_MAX, .proc = 1,
};
static const struct nfs_opdef longer = {
	.name = "LONG", .encode = encode, .decode = decode, .results_max = 50000, .proc = 2,
};
static const struct nfs_opdef broken = {
	.name = "BROKEN", .encode = encode_fails, .decode = decode, .results_max = SMALL_MAX, .proc = 3,
};

/* As CREATE of version 4: something comes behind the text. */
static bool_t encode_link(struct nfs_call *c, XDR *x)
{
	uint32_t len = (uint32_t)strlen(c->args.mk.target), tail = 0x7a11;

	if (!xdr_uint32_t(x, &len))
		return FALSE;
	c->eng.rr.data_pos = xdr_getpos(x);
	return xdr_uint32_t(x, &tail);
}

static const struct nfs_opdef symlink_def = {
	.name = "SYMLINK", .encode = encode_link, .decode = decode, .results_max = SMALL_MAX, .proc = 4,
};

static bool_t encode_data(struct nfs_call *c, XDR *x)
{
	uint32_t len = nfs_write_len(c);

	c->eng.rr.data_pos = xdr_getpos(x) + 4;
	return xdr_uint32_t(x, &len);
}

static const struct nfs_opdef write_def = {
	.name = "WRITE", .encode = encode_data, .decode = decode, .results_max = SMALL_MAX, .proc = 5,
};

static uint32_t most;                   /* data that a call may have; 0: any */
static const struct nfs_call *parked_call;    /* recovery is at work on its open */

static int acquire(struct nfs_target *t, struct nfs_call *c)
{
	(void)t;
	if (c == parked_call)
		return NFS_REOPEN;
	if (acquired - released == slots)
		return 0;
	c->eng.most = most;
	acquired++;
	c->version_data[0] = 1;         /* has one */
	return 1;
}

static void release(struct nfs_target *t, struct nfs_call *c)
{
	(void)t;
	cr_assert(c->version_data[0]);
	c->version_data[0] = 0;
	released++;
}

static void hook(struct nfs_lane *l)
{
	(void)l;
	freed_hooks++;
}

static void unheard(struct nfs_lane *l)
{
	(void)l;
}

static const struct nfs_front front = { .lane_changed = unheard, .buffers_freed = hook };

static void setup(void)
{
	struct errbuf eb = { "" };
	struct rr_link *link;

	fake_peer_is_knfsd();
	rpc_auth_init();
	slots = 100;
	version = (struct nfs_version){
		.name = "test", .prog = 1, .vers = 1, .acquire = acquire, .release = release,
		.ops = { [OP_PLAIN] = &plain, [OP_LONG] = &longer, [NFS_OP_ACCESS] = &broken,
			 [NFS_OP_OPEN] = &plain, [NFS_OP_SYMLINK] = &symlink_def },
	};
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	cl.control = &ctl;
	cl.lanes = &lane;
	cl.nlanes = 1;
	cl.cfg = (struct nfs_config){
		.times = &fake_times, .clock = fake_clock, .front = &front,
		.version = &version, .paths[0].fabric = &fabric_fake, .npaths = 1, .server = "server", .lanes = 1,
		.credits = 16, .buffers = { .n = { 24, 0, 4, 2 } }, .timeo_ms = 60000,
	};
	nfs_server_init(&cl);
	cr_assert_eq(nfs_buffers_init(&cl), 0);
	cr_assert_eq(nfs_lane_init(&cl, 0, &eb), 0, "%s", eb.text);
	cr_assert_eq(nfs_connection_open(&lane.target.conns[0][0], &link, &eb), 0);
	nfs_connection_up(&lane.target.conns[0][0], link);
}

static void teardown(void)
{
	/* Every buffer is back where it was. */
	if (list_empty(&lane.running)) {
		cr_assert_eq(buffers_free(&lane.mag, ARENA_MSG), 24);
		cr_assert_eq(buffers_free(&lane.mag, ARENA_MID), 3, "one is the transport's");
		cr_assert_eq(buffers_free(&lane.mag, ARENA_BIG), 2);
		cr_assert_eq(lane.active, 0);
		cr_assert_eq(acquired, released);
	}
	nfs_lane_fini(&lane);
	arena_fini(&cl.arena);
}

static void on_done(struct nfs_call *c)
{
	container_of(c, struct op, c)->dones++;
}

static struct op *start(unsigned i, enum nfs_op op, unsigned flags)
{
	struct op *o = &ops[i];

	memset(o, 0, sizeof(*o));
	o->c.op = op;
	o->c.flags = flags;
	o->c.done = on_done;
	nfs_start(&lane, &o->c);
	return o;
}

/* Answers a call that is in flight: accepted, then outcome and value. */
static void answer(struct op *o, uint32_t outcome, uint32_t value)
{
	uint32_t xid = o->c.eng.rr.xid;
	uint32_t w[] = { xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, outcome, value };

	for (unsigned i = 0; i < sizeof(w) / 4; i++)
		w[i] = htonl(w[i]);
	if (!o->c.eng.rr.sent)
		fake.ev->sent(fake.ctx, &o->c.eng.rr);
	fake_deliver(w, sizeof(w));
}

/* The grant of 16 that the other tests count on. */
static void warm_up(void)
{
	answer(start(60, OP_PLAIN, 0), 0, 0);
}

Test(engine, one_rpc, .init = setup, .fini = teardown)
{
	struct op *o = start(0, OP_PLAIN, 0);

	cr_assert(fake.nsends == 1 && o->dones == 0);
	answer(o, 0, 7);
	cr_assert(o->dones == 1 && o->c.res.status == 0 && o->value == 7);
	cr_assert_eq(freed_hooks, 1);
}

Test(engine, errors_end_the_operation, .init = setup, .fini = teardown)
{
	struct op *o = start(0, OP_PLAIN, 0);

	answer(o, (uint32_t)-ENOENT, 0);
	cr_assert(o->dones == 1 && o->c.res.status == -ENOENT);
}

Test(engine, steps, .init = setup, .fini = teardown)
{
	struct op *o = start(0, OP_PLAIN, 0);
	uint32_t first = o->c.eng.rr.xid;

	answer(o, NFS_NEXT, 0);
	cr_assert(o->dones == 0 && o->c.eng.step == 1 && o->steps_seen == 3);
	cr_assert_neq(o->c.eng.rr.xid, first, "another call of its own");
	answer(o, 0, 9);
	cr_assert(o->dones == 1 && o->value == 9);
	cr_assert_eq(acquired, 2);
}

Test(engine, later, .init = setup, .fini = teardown)
{
	struct op *o = start(0, OP_PLAIN, 0);

	answer(o, NFS_LATER, 0);
	cr_assert(fake.nsends == 1 && o->dones == 0);
	cr_assert_eq(acquired, released, "no slot is held while it waits");
	fake_pass(&lane, 150);
	cr_assert_eq(fake.nsends, 2);
	cr_assert_geq(o->c.eng.encoded_ns, o->c.eng.start_ns + 100000000, "what the reply is as new as");
	answer(o, 0, 0);
	cr_assert_eq(o->dones, 1);
}

/* What was sent, behind the XIDs of both headers. */
static void expect_same_message(unsigned a, unsigned b)
{
	const struct fake_send *x = &fake.sends[a], *y = &fake.sends[b];

	cr_assert_eq(x->len, y->len);
	cr_assert(memcmp(x->bytes, y->bytes, 4) && memcmp(x->bytes + 28, y->bytes + 28, 4),
		  "a call of its own");
	cr_assert(!memcmp(x->bytes + 4, y->bytes + 4, 24) &&
		  !memcmp(x->bytes + 32, y->bytes + 32, x->len - 32));
}

/* The slot belongs to this message. So the call waits with slot and buffers, and the message
 * is sent again unchanged, past held and queued calls. */
Test(engine, delayed, .init = setup, .fini = teardown)
{
	struct op *o, *other;

	warm_up();
	slots = 2;
	o = start(0, OP_PLAIN, 0);
	answer(o, NFS_DELAYED, 0);
	cr_assert(fake.nsends == 2 && o->dones == 0);
	cr_assert_eq(acquired - released, 1, "its slot is not given back");
	cr_assert(lane.active == 1 && buffers_free(&lane.mag, ARENA_MSG) == 23);
	lane.hold = true;
	other = start(1, OP_PLAIN, 0);
	/* Another encoding would show a step. */
	o->c.eng.step = 1;
	fake_pass(&lane, 150);
	cr_assert_eq(fake.nsends, 3);
	cr_assert_lt(o->c.eng.encoded_ns, o->c.eng.start_ns + 100000000);
	expect_same_message(1, 2);
	answer(o, NFS_DELAYED, 0);
	fake_pass(&lane, 250);
	cr_assert_eq(fake.nsends, 4);
	expect_same_message(1, 3);
	answer(o, 0, 5);
	cr_assert(o->dones == 1 && o->value == 5 && acquired == released);
	lane.hold = false;
	nfs_lane_pump(&lane);
	answer(other, 0, 0);
}

/* The server says DELAY: so many ms later the message is sent again. */
static void delayed_for(struct op *o, unsigned ms)
{
	unsigned sends = fake.nsends;

	answer(o, NFS_DELAYED, 0);
	fake_pass(&lane, ms - 1);
	cr_assert_eq(fake.nsends, sends, "send %u comes before %u ms", sends, ms);
	fake_pass(&lane, 1);
	cr_assert_eq(fake.nsends, sends + 1, "send %u comes after %u ms", sends, ms);
}

/* Programs wait for this after each fail-over, so in the first second the server is asked often. */
Test(engine, delayed_again_and_again, .init = setup, .fini = teardown)
{
	static const struct { unsigned times, ms; } pace[] = {
		{ 1, 10 }, { 1, 20 }, { 24, 40 }, { 1, 80 }, { 1, 160 }, { 1, 320 }, { 1, 640 },
		{ 1, 1280 }, { 3, 2560 },
	};
	struct op *o = start(0, OP_PLAIN, 0);

	for (unsigned i = 0; i < sizeof(pace) / sizeof(pace[0]); i++)
		for (unsigned n = 0; n < pace[i].times; n++)
			delayed_for(o, pace[i].ms);
	/* The next message begins anew. */
	answer(o, NFS_NEXT, 0);
	delayed_for(o, 10);
	answer(o, 0, 0);
	cr_assert_eq(o->dones, 1);
}

/* The transport has put the text into the message. */
Test(engine, delayed_link, .init = setup, .fini = teardown)
{
	struct op *o = &ops[0];

	warm_up();
	o->c = (struct nfs_call){ .op = NFS_OP_SYMLINK, .done = on_done };
	o->c.args.mk.target = "over/there";
	nfs_start(&lane, &o->c);
	cr_assert(!memcmp(fake.sends[1].bytes + fake.sends[1].len - 16, "over/there\0\0\0\0\x7a\x11", 16));
	for (unsigned i = 1; i < 4; i++) {
		answer(o, NFS_DELAYED, 0);
		fake_pass(&lane, 50 + 100u * (1u << (i - 1)));
		cr_assert_eq(fake.nsends, 2 + i);
		expect_same_message(1, 1 + i);
	}
	answer(o, 0, 0);
	cr_assert_eq(o->dones, 1);
}

Test(engine, delayed_and_the_connection_dies, .init = setup, .fini = teardown)
{
	struct op *o = start(0, OP_PLAIN, 0);
	struct rr_link *link;
	struct errbuf eb;

	answer(o, NFS_DELAYED, 0);
	fake_break();
	fake_pass(&lane, 150);
	cr_assert(o->dones == 0 && o->c.eng.rr.state == RR_CALL_WAITING);
	cr_assert_eq(acquired - released, 1);
	cr_assert_eq(nfs_connection_open(&lane.target.conns[0][0], &link, &eb), 0);
	nfs_connection_up(&lane.target.conns[0][0], link);
	answer(o, 0, 0);
	cr_assert_eq(o->dones, 1);
}

/* A soft mount's time-out also ends calls that the server has told to come later. */
Test(engine, told_to_come_later_and_given_up, .init = setup, .fini = teardown)
{
	struct op *later, *delayed;

	warm_up();
	fake_times.later_ms = fake_times.delayed_ms = 60000;
	later = start(0, OP_PLAIN, 0);
	answer(later, NFS_LATER, 0);
	delayed = start(1, OP_PLAIN, 0);
	answer(delayed, NFS_DELAYED, 0);
	cl.cfg.soft = true;
	cl.cfg.timeo_ms = 500;
	fake_pass(&lane, 1300);
	cr_assert(later->dones == 1 && later->c.res.status == -EIO);
	cr_assert(delayed->dones == 1 && delayed->c.res.status == -EIO);
	cr_assert_eq(fake.nsends, 3);
}

/* An OPEN that is given up is closed. The CLOSE has a time of its own, or it would drop the
 * connection. */
Test(engine, given_up_open_is_closed_in_its_own_time, .init = setup, .fini = teardown)
{
	struct op *o;

	warm_up();
	version.ops[NFS_OP_CLOSE] = &plain;
	fake_times.later_ms = fake_times.delayed_ms = 60000;
	o = start(0, NFS_OP_OPEN, 0);
	o->c.open = malloc(8);
	answer(o, NFS_LATER, 0);
	cl.cfg.soft = true;
	cl.cfg.timeo_ms = 900;
	while (fake.nsends < 3)
		fake_pass(&lane, 10);
	fake_pass(&lane, 10);
	cr_assert(rr_is_up(lane.target.conn) && o->dones == 0);
	answer(o, 0, 0);
	cr_assert(o->dones == 1 && o->c.res.status == -EIO && !o->c.open);
}

Test(engine, again_does_not_spin, .init = setup, .fini = teardown)
{
	struct op *o = start(0, OP_PLAIN, 0);

	for (unsigned i = 0; i < 8; i++)
		answer(o, NFS_AGAIN, 0);
	cr_assert_eq(fake.nsends, 9);
	answer(o, NFS_AGAIN, 0);
	cr_assert_eq(fake.nsends, 9, "after that it takes its time");
	fake_pass(&lane, 3500);
	cr_assert_eq(fake.nsends, 10);
	answer(o, 0, 0);
	cr_assert_eq(o->dones, 1);
}

Test(engine, recovery_holds_all_but_control_calls, .init = setup, .fini = teardown)
{
	struct op *lost, *waits, *control;

	warm_up();
	lost = start(0, OP_PLAIN, 0);
	answer(lost, NFS_RECOVER, 0);
	cr_assert(lost->dones == 0 && ctl.recover && lane.hold);
	waits = start(1, OP_PLAIN, 0);
	cr_assert_eq(fake.nsends, 2, "held");
	control = start(2, OP_PLAIN, NFS_CALL_CONTROL);
	cr_assert_eq(fake.nsends, 3, "a control call passes");
	answer(control, 0, 0);
	cr_assert_eq(control->dones, 1);
	/* A control call that finds the state lost is not parked. */
	control = start(2, OP_PLAIN, NFS_CALL_CONTROL);
	answer(control, NFS_RECOVER, 0);
	cr_assert(control->dones == 1 && control->c.res.status == -EAGAIN);
	/* What lane_resume() does. */
	lane.hold = false;
	list_splice_tail(&lane.waiting, &lane.parked);
	nfs_lane_pump(&lane);
	answer(lost, 0, 0);
	answer(waits, 0, 0);
	cr_assert(lost->dones == 1 && waits->dones == 1);
}

/* All calls wait for recovery, so recovery must get the slot that becomes free. */
Test(engine, nothing_held_is_before_a_control_call, .init = setup, .fini = teardown)
{
	struct op *a, *b, *control;

	warm_up();
	slots = 1;
	a = start(0, OP_PLAIN, 0);
	lane.hold = true;
	b = start(1, OP_PLAIN, 0);
	control = start(2, OP_PLAIN, NFS_CALL_CONTROL);
	cr_assert_eq(fake.nsends, 2, "no slot is free");
	answer(a, NFS_NEXT, 0);
	cr_assert_eq(fake.nsends, 3, "the control call has it");
	answer(control, 0, 0);
	cr_assert(control->dones == 1 && fake.nsends == 3);
	lane.hold = false;
	nfs_lane_pump(&lane);
	answer(a, 0, 0);
	answer(b, 0, 0);
	cr_assert(a->dones == 1 && b->dones == 1);
}

/* All large buffers are with calls that wait, as after a recovery: one call that
 * needs one for its reply gets the transport's own, and the next must not stop
 * those behind it. */
Test(engine, who_has_its_buffer_passes_who_has_none, .init = setup, .fini = teardown)
{
	struct arena_buf *data[5];
	struct op *first, *blocked, *passes, *later;

	warm_up();
	for (unsigned i = 0; i < 5; i++)
		data[i] = magazine_get(&lane.mag, i < 3 ? ARENA_MID : ARENA_BIG);
	lane.hold = true;
	first = start(0, OP_LONG, 0);
	blocked = start(1, OP_LONG, 0);
	passes = start(2, OP_PLAIN, 0);
	later = start(3, OP_PLAIN, 0);
	lane.hold = false;
	nfs_lane_pump(&lane);
	cr_assert_eq(fake.nsends, 4, "all but one");
	answer(passes, 0, 0);
	cr_assert_eq(fake.nsends, 4);
	/* The first buffer that comes back is for the one that waits for it. */
	magazine_put(&lane.mag, data[0]);
	answer(later, 0, 0);
	cr_assert_eq(fake.nsends, 5);
	answer(blocked, 0, 0);
	answer(first, 0, 0);
	cr_assert(first->dones == 1 && blocked->dones == 1 && passes->dones == 1 &&
		  later->dones == 1);
	for (unsigned i = 1; i < 5; i++)
		magazine_put(&lane.mag, data[i]);
}

static const struct rr_iov *pieces_of(enum nfs_op op, const struct rr_call *rr)
{
	return op == NFS_OP_READ ? rr->sink : rr->send;
}

/* Its chunk comes back as it was offered. */
static void answer_placed(struct op *o)
{
	const struct fake_send *s = &fake.sends[fake.nsends - 1];
	uint32_t body[8] = { htonl(o->c.eng.rr.xid), htonl(1) };
	struct rr_header h, r;
	uint8_t msg[512];
	int len;

	cr_assert_gt(rr_header_decode(&h, s->bytes, s->len), 0);
	rr_header_init(&r, h.xid, 16);
	r.nwrites = h.nwrites;
	memcpy(r.writes, h.writes, sizeof(r.writes));
	len = rr_header_encode(&r, msg, sizeof(msg));
	cr_assert_gt(len, 0);
	memcpy(msg + len, body, sizeof(body));
	fake_complete(fake.nsends - 1);
	fake_deliver(msg, (uint32_t)len + sizeof(body));
}

/* The session takes less than the call has: both pieces are cut, or only the second one. */
Test(engine, less_data_than_was_asked_for, .init = setup, .fini = teardown)
{
	static const struct { uint32_t most, first, second; } t[] = {
		{ 0, 65536, 65536 }, { 200000, 65536, 65536 }, { 100000, 65536, 34464 },
		{ 65536, 65536, 0 }, { 4096, 4096, 0 },
	};
	struct arena_buf *buf = magazine_get(&lane.mag, ARENA_BIG);

	version.ops[NFS_OP_READ] = &plain;
	version.ops[NFS_OP_WRITE] = &write_def;
	warm_up();
	for (unsigned i = 0; i < 2 * sizeof(t) / sizeof(t[0]); i++) {
		enum nfs_op op = i % 2 ? NFS_OP_READ : NFS_OP_WRITE;
		struct op *o = &ops[i];
		const struct rr_iov *p;

		memset(o, 0, sizeof(*o));
		o->c.op = op;
		o->c.done = on_done;
		o->c.args.io.count = 131072;
		o->c.args.io.ndata = 2;
		for (unsigned k = 0; k < 2; k++)
			o->c.args.io.sink[k] = o->c.args.io.data[k] =
				(struct rr_iov){ (char *)buf->mem + k * 65536, 65536 };
		most = t[i / 2].most;
		nfs_start(&lane, &o->c);
		p = pieces_of(op, &o->c.eng.rr);
		cr_assert_eq(p[0].len, t[i / 2].first, "row %u", i);
		cr_assert_eq(p[1].len, t[i / 2].second, "row %u", i);
		answer_placed(o);
		cr_assert_eq(o->dones, 1);
	}
	magazine_put(&lane.mag, buf);
}

/* It finds that out before it takes a slot, or by a reply. Others are not in its way. */
Test(engine, a_call_waits_for_its_open_alone, .init = setup, .fini = teardown)
{
	struct op *a, *b, *c;

	warm_up();
	parked_call = &ops[0].c;
	a = start(0, OP_PLAIN, 0);
	b = start(1, OP_PLAIN, 0);
	cr_assert(fake.nsends == 2 && !ctl.recover);
	answer(b, NFS_REOPEN, 0);
	cr_assert(ctl.recover && acquired == released && !lane.hold);
	c = start(2, OP_PLAIN, 0);
	answer(c, 0, 0);
	cr_assert(a->dones == 0 && b->dones == 0 && c->dones == 1);
	/* Recovery is done with b's. */
	list_splice_tail(&lane.waiting, &lane.parked);
	nfs_lane_pump(&lane);
	answer(b, 0, 0);
	cr_assert(a->dones == 0 && b->dones == 1);
	parked_call = NULL;
	list_splice_tail(&lane.waiting, &lane.parked);
	nfs_lane_pump(&lane);
	answer(a, 0, 0);
	cr_assert_eq(a->dones, 1);
}

/* OPEN has opened the file and fails after all: nobody would ever close it. */
Test(engine, failed_open_is_closed, .init = setup, .fini = teardown)
{
	struct op *o = start(0, NFS_OP_OPEN, 0);

	version.ops[NFS_OP_CLOSE] = &plain;
	o->c.open = malloc(8);          /* as decode would have */
	answer(o, (uint32_t)-EACCES, 0);
	cr_assert(o->dones == 0 && fake.nsends == 2, "CLOSE");
	answer(o, NFS_LATER, 0);
	fake_pass(&lane, 150);
	answer(o, (uint32_t)-EIO, 0);
	cr_assert(o->dones == 1 && o->c.res.status == -EACCES && !o->c.open, "why OPEN failed");
	/* Nothing was opened: nothing is to be closed. */
	o = start(1, NFS_OP_OPEN, 0);
	answer(o, (uint32_t)-ENOENT, 0);
	cr_assert(o->dones == 1 && o->c.res.status == -ENOENT && fake.nsends == 4);
}

/* The server goes for good in the middle of recovery: soft is soft. */
Test(engine, soft_calls_do_not_wait_for_recovery, .init = setup, .fini = teardown)
{
	struct op *parked, *held, *control;

	warm_up();
	parked = start(0, OP_PLAIN, 0);
	answer(parked, NFS_RECOVER, 0);
	held = start(1, OP_PLAIN, 0);
	control = start(2, OP_PLAIN, NFS_CALL_CONTROL);
	cl.cfg.soft = true;
	cl.cfg.timeo_ms = 500;
	fake_pass(&lane, 1300);
	cr_assert(parked->dones == 1 && parked->c.res.status == -EIO);
	cr_assert(held->dones == 1 && held->c.res.status == -EIO);
	cr_assert_eq(control->dones, 0, "recovery goes on");
}

Test(engine, slots_bound_what_is_sent, .init = setup, .fini = teardown)
{
	struct op *a, *b;

	warm_up();
	slots = 1;
	a = start(0, OP_PLAIN, 0);
	b = start(1, OP_PLAIN, 0);
	cr_assert_eq(fake.nsends, 2);
	cr_assert_eq(buffers_free(&lane.mag, ARENA_MSG), 23, "the one that waits holds no buffer");
	answer(a, 0, 0);
	cr_assert_eq(fake.nsends, 3);
	answer(b, 0, 0);
}

Test(engine, reply_buffers_bound_what_is_sent, .init = setup, .fini = teardown)
{
	struct op *o[8];

	warm_up();
	for (unsigned i = 0; i < 8; i++)
		o[i] = start(i, OP_LONG, 0);
	cr_assert_eq(fake.nsends, 1 + 6, "4 MID and 2 BIG buffers");
	answer(o[0], 0, 0);
	cr_assert_eq(fake.nsends, 1 + 7);
	for (unsigned i = 1; i < 8; i++)
		answer(o[i], 0, 0);
	for (unsigned i = 0; i < 8; i++)
		cr_assert_eq(o[i]->dones, 1);
}

Test(engine, window, .init = setup, .fini = teardown)
{
	struct op *o[20];

	warm_up();
	for (unsigned i = 0; i < 20; i++)
		o[i] = start(i, OP_PLAIN, 0);
	cr_assert_eq(lane.active, 16);
	for (unsigned i = 0; i < 20; i++)
		answer(o[i], 0, i);
	for (unsigned i = 0; i < 20; i++)
		cr_assert(o[i]->dones == 1 && o[i]->value == i);
}

Test(engine, operation_without_rpc, .init = setup, .fini = teardown)
{
	struct op *o = &ops[0];

	o->c = (struct nfs_call){ .op = NFS_OP_CLOSE, .done = on_done, .open = malloc(8) };
	nfs_start(&lane, &o->c);
	cr_assert(o->dones == 1 && o->c.res.status == 0 && o->c.open == NULL);
	cr_assert_eq(fake.nsends, 0);
}

Test(engine, bad_messages, .init = setup, .fini = teardown)
{
	struct op *o = start(0, NFS_OP_ACCESS, 0);
	uint32_t w[16];

	cr_assert(o->dones == 1 && o->c.res.status == -EIO && fake.nsends == 0);
	/* A reply whose results are cut off. */
	o = start(1, OP_PLAIN, 0);
	memset(w, 0, sizeof(w));
	w[0] = w[7] = htonl(o->c.eng.rr.xid);
	w[1] = w[2] = w[8] = htonl(1);
	fake_complete(0);
	fake_deliver(w, 14 * 4);
	cr_assert(o->dones == 1 && o->c.res.status == -EIO);
	/* A message that is a reply to someone else. */
	o = start(2, OP_PLAIN, 0);
	w[0] = htonl(o->c.eng.rr.xid);
	w[7] = htonl(o->c.eng.rr.xid + 1);
	fake_complete(1);
	fake_deliver(w, 15 * 4);
	cr_assert(o->dones == 0 && !rr_is_up(lane.target.conn), "sent again on a new connection");
}

/* ERR_CHUNK, or a reply of which there is no more than the RPC header. */
static void answer_uselessly(struct op *o, bool refuse)
{
	uint32_t xid = o->c.eng.rr.xid;
	uint32_t w[] = { xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0 };

	if (refuse) {
		w[3] = 4;               /* RDMA_ERROR */
		w[4] = 2;               /* ERR_CHUNK */
	}
	for (unsigned i = 0; i < sizeof(w) / 4; i++)
		w[i] = htonl(w[i]);
	if (!o->c.eng.rr.sent)
		fake.ev->sent(fake.ctx, &o->c.eng.rr);
	fake_deliver(w, refuse ? 20 : sizeof(w));
}

/* WRITE and COMMIT are sent again: the data is here, and to write it twice does no harm. A
 * server that never says anything useful gets an end, too. */
Test(engine, what_may_be_repeated_is_sent_again, .init = setup, .fini = teardown)
{
	static const enum nfs_op twice[] = { NFS_OP_WRITE, NFS_OP_COMMIT };
	struct op *o;

	fake_times.later_ms = 1;
	version.ops[NFS_OP_WRITE] = version.ops[NFS_OP_COMMIT] = &plain;
	for (unsigned i = 0; i < 2; i++) {
		o = start(i, twice[i], 0);
		answer_uselessly(o, i);
		cr_assert(o->dones == 0 && acquired == released);
		fake_pass(&lane, 20);
		cr_assert_eq(o->c.eng.rr.state, RR_CALL_INFLIGHT);
		answer(o, 0, 7);
		cr_assert(o->dones == 1 && o->c.res.status == 0 && o->value == 7);
	}
	o = start(2, NFS_OP_WRITE, 0);
	for (unsigned n = 1; !o->dones; n++) {
		cr_assert_leq(n, 10, "for ever");
		answer_uselessly(o, n % 2);
		if (!o->dones)
			fake_pass(&lane, 100);
	}
	cr_assert_eq(o->c.res.status, -EIO);
	o = start(3, OP_PLAIN, 0);
	answer_uselessly(o, true);
	cr_assert(o->dones == 1 && o->c.res.status == -EIO);
}

static void reconnect(unsigned kib)
{
	struct rr_link *link;
	struct errbuf eb;

	fake_break();
	fake_peer_priv[6] = fake_peer_priv[7] = (uint8_t)(kib - 1);
	cr_assert_eq(nfs_connection_open(&lane.target.conns[0][0], &link, &eb), 0);
	nfs_connection_up(&lane.target.conns[0][0], link);
}

/* The next connection takes less, or more, in one message: what is under way goes
 * on, and what comes is as that connection has it. */
Test(engine, other_inline_thresholds_after_a_reconnect, .init = setup, .fini = teardown)
{
	static const struct nfs_opdef medium = {
		.name = "MEDIUM", .encode = encode, .decode = decode, .results_max = 2000,
	};
	struct op *a, *b;

	version.ops[NFS_OP_LOOKUP] = &medium;
	a = start(0, NFS_OP_LOOKUP, 0);
	b = start(1, NFS_OP_LOOKUP, 0);
	for (unsigned kib = 1; kib < 5; kib++) {
		reconnect(kib);
		cr_assert(a->dones == 0 && fake.nsends == 1);
	}
	reconnect(1);
	answer(a, 0, 1);
	answer(b, 0, 2);
	cr_assert(a->dones == 1 && a->c.res.status == 0 && a->value == 1);
	cr_assert(b->dones == 1 && b->c.res.status == 0 && b->value == 2);
}

Test(engine, replay_is_told, .init = setup, .fini = teardown)
{
	struct op *o = start(0, OP_PLAIN, 0);
	struct rr_link *link;
	struct errbuf eb;

	lane.target.conns[0][0].wanted = false;
	fake_break();
	cr_assert(lane.target.conns[0][0].wanted, "the connector is asked");
	cr_assert_eq(nfs_connection_open(&lane.target.conns[0][0], &link, &eb), 0);
	nfs_connection_up(&lane.target.conns[0][0], link);
	answer(o, 0, 0);
	cr_assert(o->dones == 1 && o->c.eng.resent);
}
