/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The slot table under stress: the engine and version 4.1 on several lanes, with a server
 * that is a model of RFC 8881, section 2.10.6. At random it does what servers and
 * connections do: it answers late, not at all, or with DELAY, and it lowers and raises the
 * number of slots. The model checks each message: a slot and a sequence id never carry two
 * different requests, and nothing is executed twice. In the end every call has ended, once.
 * Slots are short, so a lane that is not told of a free slot would wait for ever.
 *
 * The lanes have no connection, so what they send stays in their transport's queue, and the
 * test finds it there. After a "lost connection" the test reads the queue again. Each lane's
 * thread plays the server for its own calls, and the model has a lock. So the order depends
 * on the scheduler as well as on the random numbers.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake_fabric.h"
#include "fake_lane.h"
#include "nfs/internal.h"
#include "nfs/nfs4/nfs4_impl.h"

#define LANES     6u
#define CALLS     400u          /* of each lane */
#define AT_ONCE   24u           /* of them, as FUSE would */
#define SLOTS     12u
#define MIN_SLOTS (LANES + 1)   /* each lane costs it one */

static struct nfs_client cl;
static struct nfs_control ctl;
static struct nfs4_client n4;
static struct nfs_lane lanes[LANES];
static const struct nfs_fh dir = { .len = 4, .data = "dir" };

/* ---- the server ---- */

struct asked {
	uint32_t slot, seqid, highest, call;
	unsigned char session[16];
};

static struct {
	pthread_mutex_t mu;
	struct {
		uint32_t seqid;         /* the newest that has come */
		uint32_t call;          /* and what came with it */
		bool running;           /* its reply is not there yet */
		bool open;              /* its caller has no answer */
	} slot[SLOTS];
	unsigned executed[LANES * CALLS];
	uint32_t target;                /* slots that are wanted */
	unsigned delays, replays;
} server;

static uint32_t word(const uint32_t **w)
{
	return ntohl(*(*w)++);
}

/* Call header, COMPOUND, SEQUENCE, PUTFH, REMOVE of a name that is a number. */
static struct asked read_call(struct nfs_call *c)
{
	const uint32_t *w = (const uint32_t *)(const void *)((char *)c->eng.rr.msg->mem + RR_HDR_ROOM);
	struct asked a;
	uint32_t len;
	char name[16] = "";

	c->eng.rr.renew(&c->eng.rr);    /* as before each sending */
	cr_assert_eq(ntohl(w[0]), c->eng.rr.xid);
	w += 10 + 3;                    /* xid ... verifier; tag, minor version, count */
	cr_assert_eq(word(&w), OP_SEQUENCE);
	memcpy(a.session, w, 16);
	w += 4;
	a.seqid = word(&w);
	a.slot = word(&w);
	a.highest = word(&w);
	w += 1 + 3;                     /* cachethis; PUTFH of four bytes */
	cr_assert_eq(word(&w), OP_REMOVE);
	len = word(&w);
	cr_assert_lt(len, sizeof(name));
	memcpy(name, w, len);
	a.call = (uint32_t)atoi(name);
	return a;
}

/* The request is new, or the same as before: no other one may have these numbers. */
static void arrives(const struct asked *a)
{
	cr_assert(a->slot <= a->highest && a->highest < SLOTS);
	if (a->seqid == server.slot[a->slot].seqid + 1) {
		cr_assert_not(server.slot[a->slot].open, "slot %u: call %u has no answer, and %u comes",
			      a->slot, server.slot[a->slot].call, a->call);
		server.slot[a->slot].seqid = a->seqid;
		server.slot[a->slot].call = a->call;
		server.slot[a->slot].running = true;
		server.slot[a->slot].open = true;
		return;
	}
	cr_assert_eq(a->seqid, server.slot[a->slot].seqid, "slot %u: %u, and %u came before",
		     a->slot, a->seqid, server.slot[a->slot].seqid);
	cr_assert_eq(a->call, server.slot[a->slot].call, "slot %u, sequence id %u: call %u, and now %u",
		     a->slot, a->seqid, server.slot[a->slot].call, a->call);
}

static void execute(const struct asked *a)
{
	if (!server.slot[a->slot].running)
		return;                 /* there is a reply to be repeated */
	server.slot[a->slot].running = false;
	cr_assert_eq(server.executed[a->call]++, 0, "call %u is executed again", a->call);
}

/* ---- a lane: calls, and the answers to them ---- */

struct client_call {
	struct nfs_call c;
	char name[16];
	unsigned dones;
};

static struct driver {
	struct loop_timer timer;
	struct nfs_lane *lane;
	struct client_call calls[CALLS];
	unsigned started, ended;
	unsigned rand;
	unsigned given_up;
	bool begun;
	_Atomic bool finished;
} drivers[LANES];
static _Atomic unsigned ready;          /* lanes whose threads run */

static unsigned chance(struct driver *d, unsigned n)
{
	return (unsigned)rand_r(&d->rand) % n;
}

static void on_done(struct nfs_call *c)
{
	struct client_call *k = container_of(c, struct client_call, c);

	k->dones++;
	drivers[c->lane->index].ended++;
}

static void start_more(struct driver *d)
{
	while (d->started < CALLS && d->started - d->ended < AT_ONCE) {
		struct client_call *k = &d->calls[d->started];

		snprintf(k->name, sizeof(k->name), "%u", d->lane->index * CALLS + d->started);
		k->c.op = NFS_OP_REMOVE;
		k->c.args.fh = &dir;
		k->c.args.name = k->name;
		k->c.done = on_done;
		d->started++;
		nfs_start(d->lane, &k->c);
	}
}

/* The reply: with SEQUENCE's status, or REMOVE's result. */
static void reply(struct nfs_call *c, const struct asked *a, uint32_t status, uint32_t target)
{
	uint32_t w[64], n = 0;
	const uint32_t head[] = { c->eng.rr.xid, 1, 0, 0, 0, 0, status, 0, status ? 1 : 3, OP_SEQUENCE, status };
	const uint32_t rest[] = { OP_PUTFH, 0, OP_REMOVE, 0, 1, 0, 1, 0, 2 };

	for (unsigned i = 0; i < sizeof(head) / 4; i++)
		w[n++] = htonl(head[i]);
	if (!status) {
		const uint32_t seq[] = { a->seqid, a->slot, SLOTS - 1, target - 1, 0 };

		memcpy(w + n, a->session, 16);
		n += 4;
		for (unsigned i = 0; i < 5; i++)
			w[n++] = htonl(seq[i]);
		for (unsigned i = 0; i < sizeof(rest) / 4; i++)
			w[n++] = htonl(rest[i]);
	}
	c->eng.rr.reply = w;
	c->eng.rr.reply_len = 4 * n;
	/* Out of the queue, and as if that were its reply. */
	rr_cancel(c->target->conn, &c->eng.rr, 0);
}

/* A call that the transport has: it is on the wire. */
static void serve(struct driver *d, struct nfs_call *c)
{
	struct asked a = read_call(c);
	unsigned what = chance(d, 16);
	uint32_t status = 0, target;

	c->eng.rr.sends++;
	pthread_mutex_lock(&server.mu);
	arrives(&a);
	server.replays += c->eng.rr.sends > 1;
	if (what < 3 && server.slot[a.slot].running) {  /* still at it; or no wish to begin */
		status = NFS4ERR_DELAY;
		server.delays++;
	} else if (what < 6) {          /* the connection dies, before or after */
		if (what == 5)
			execute(&a);
		pthread_mutex_unlock(&server.mu);
		return;
	} else {
		execute(&a);
		server.slot[a.slot].open = false;
	}
	if (chance(d, 32) == 0)
		server.target = MIN_SLOTS + chance(d, SLOTS - MIN_SLOTS + 1);
	target = server.target;
	pthread_mutex_unlock(&server.mu);
	reply(c, &a, status, target);
}

static struct nfs_call *pick(struct driver *d, bool (*fits)(const struct nfs_call *c))
{
	struct nfs_call *found = NULL;
	unsigned n = 0;

	list_for_each(at, &d->lane->running) {
		struct nfs_call *c = container_of(at, struct nfs_call, eng.run_node);

		if (fits(c) && chance(d, ++n) == 0)
			found = c;
	}
	return found;
}

static bool is_sent(const struct nfs_call *c)
{
	return c->eng.rr.state == RR_CALL_WAITING;
}

static bool is_delayed(const struct nfs_call *c)
{
	return c->eng.delayed;
}

static void drive(struct loop_timer *t)
{
	struct driver *d = container_of(t, struct driver, timer);
	struct nfs_call *c;

	/* None may be through before the others have begun. */
	if (!d->begun)
		ready++;
	d->begun = true;
	if (ready < LANES) {
		loop_timer_set(d->lane->loop, t, 1);
		return;
	}
	start_more(d);
	for (unsigned i = chance(d, 8); i-- > 0 && (c = pick(d, is_sent)); )
		serve(d, c);
	/* A soft mount's patience; a few, as each costs a slot. */
	c = d->given_up < 1 ? pick(d, is_delayed) : NULL;
	if (c) {
		d->given_up++;
		nfs_give_up(c, -EIO);
	}
	if (d->ended == CALLS)
		atomic_store(&d->finished, true);
	else
		loop_timer_set(d->lane->loop, t, 0);
}

/* ---- all of it ---- */

static void set_up(bool driven)
{
	struct errbuf eb = { "" };

	rpc_auth_init();
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	pthread_mutex_init(&server.mu, NULL);
	pthread_mutex_init(&n4.slots.mu, NULL);
	memcpy(n4.sessionid, "0123456789abcdef", 16);
	n4.nslots = SLOTS;
	n4.max_cached = 4096;
	n4.epoch = 1;
	server.target = SLOTS;
	fake_times.later_ms = fake_times.delayed_ms = 0;
	cl = (struct nfs_client){
		.cfg = { .times = &fake_times,
			 .version = &nfs_v41, .paths[0].fabric = &fabric_fake, .npaths = 1, .server = "server",
			 .lanes = LANES, .credits = 16, .buffers = { .n = { 24, 0, 4, 2 } },
			 .timeo_ms = 60000 },
		.lanes = lanes, .nlanes = LANES, .control = &ctl,
	};
	nfs_server_init(&cl);
	cl.server.vdata = &n4;
	cr_assert_eq(nfs_buffers_init(&cl), 0);
	for (unsigned i = 0; i < LANES; i++) {
		cr_assert_eq(nfs_lane_init(&cl, i, &eb), 0, "%s", eb.text);
		drivers[i].lane = &lanes[i];
		drivers[i].rand = 4711 + i;
		loop_timer_init(&drivers[i].timer, drive);
		if (driven)
			loop_timer_set(lanes[i].loop, &drivers[i].timer, 0);
	}
	nfs4_slots_install(&cl.server);
}

static void setup(void)
{
	set_up(true);
}

static void setup_still(void)
{
	set_up(false);
}

static void teardown(void)
{
	for (unsigned i = 0; i < LANES; i++)
		nfs_lane_fini(&lanes[i]);
	arena_fini(&cl.arena);
}

static void await_all(void)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	for (unsigned i = 0; i < LANES; i++)
		while (!atomic_load(&drivers[i].finished))
			nanosleep(&ms, NULL);
}

Test(nfs4_slots, no_two_requests_under_one_number, .init = setup, .fini = teardown, .timeout = 300)
{
	unsigned given_up = 0;

	for (unsigned i = 0; i < LANES; i++)
		cr_assert_eq(nfs_lane_start(&lanes[i]), 0);
	await_all();
	for (unsigned i = 0; i < LANES; i++)
		nfs_lane_stop(&lanes[i]);
	for (unsigned i = 0; i < LANES; i++) {
		cr_assert(list_empty(&lanes[i].running) && lanes[i].active == 0);
		given_up += drivers[i].given_up;
		for (unsigned k = 0; k < CALLS; k++) {
			const struct client_call *call = &drivers[i].calls[k];

			cr_assert_eq(call->dones, 1, "call %u of lane %u ended %u times", k, i,
				     call->dones);
			if (call->c.res.status == 0)
				cr_assert_eq(server.executed[i * CALLS + k], 1);
		}
	}
	/* What was given up has retired its slot; everything else is back. */
	cr_assert(server.delays && server.replays && given_up == LANES);
	for (unsigned i = 0, n = 0; i < SLOTS; i++) {
		n += !(n4.slots.free[0] >> i & 1);
		cr_assert_eq(n4.slots.busy[0], 0);
		if (i == SLOTS - 1)
			cr_assert_eq(n, given_up);
	}
	cr_assert(n4.slots.promised == 0 && n4.slots.waiting == 0 && nfs4_slots_left(&n4.slots) == 0);
}

/* ---- none will come back ---- */

static void stop_loop(struct loop_timer *t)
{
	(void)t;
	loop_stop(lanes[1].loop);
}

/* The control thread waits for a call that waits for a slot, and the last slot is retired.
 * Only the control thread can make another session, so its call fails. Other calls wait for
 * the new session. */
Test(nfs4_slots, a_control_call_does_not_wait_for_ever, .init = setup_still, .fini = teardown)
{
	struct client_call *all = drivers[0].calls, *control = drivers[1].calls, *other = control + 1;
	struct loop_timer t;

	for (unsigned i = 0; i < SLOTS; i++) {
		all[i].c = (struct nfs_call){ .op = NFS_OP_REMOVE, .args.fh = &dir, .args.name = "a", .done = on_done };
		nfs_start(&lanes[0], &all[i].c);
		cr_assert(is_sent(&all[i].c));
		all[i].c.eng.rr.sends = 1;
	}
	other->c = (struct nfs_call){ .op = NFS_OP_REMOVE, .args.fh = &dir, .args.name = "b", .done = on_done };
	nfs_start(&lanes[1], &other->c);
	control->c = (struct nfs_call){
		.op = NFS4_OP_RENEW, .flags = NFS_CALL_CONTROL, .done = on_done,
	};
	nfs_start(&lanes[1], &control->c);
	cr_assert(!is_sent(&control->c) && !is_sent(&other->c));
	for (unsigned i = 0; i < SLOTS; i++)
		rr_cancel(lanes[0].target.conn, &all[i].c.eng.rr, -ETIMEDOUT);
	cr_assert(atomic_load(&n4.need_session) && ctl.recover);
	loop_timer_init(&t, stop_loop);
	loop_timer_set(lanes[1].loop, &t, 0);
	cr_assert_eq(loop_run(lanes[1].loop), 0);
	cr_assert(control->dones == 1 && control->c.res.status == -EAGAIN);
	cr_assert_eq(other->dones, 0);
	/* There is a new session, and slots for all. */
	n4.epoch++;
	nfs4_slots_install(&cl.server);
	loop_timer_set(lanes[1].loop, &t, 0);
	cr_assert_eq(loop_run(lanes[1].loop), 0);
	cr_assert(is_sent(&other->c));
}
