/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdarg.h>
#include <string.h>
#include "fake_lane.h"

struct nfs_client fake_cl;
struct nfs_lane fake_lanes[2];
struct nfs_control fake_ctl;
uint32_t out[256];
unsigned nout;
_Atomic bool fake_lane_quiet;
_Atomic uint32_t fake_lane_deaf;

static struct loop_timer timer;
static unsigned answered;       /* of fake.sends */
static unsigned answered_on;    /* which connection that is */
static unsigned served;         /* the lane that has the connection */
static void (*execute_call)(uint32_t proc, const uint32_t *w);

void put(uint32_t w)
{
	cr_assert_lt(nout, sizeof(out) / sizeof(out[0]));
	out[nout++] = htonl(w);
}

void puts_of(unsigned n, ...)
{
	va_list ap;

	va_start(ap, n);
	while (n--)
		put(va_arg(ap, uint32_t));
	va_end(ap);
}

static void answer(unsigned i)
{
	const struct fake_send *s = &fake.sends[i];
	uint32_t w[1024], xid;

	memcpy(w, s->bytes, s->len);
	xid = ntohl(w[0]);
	if (fake_lane_deaf && ntohl(w[7 + 5]) == fake_lane_deaf) {
		fake_complete(i);
		return;
	}
	nout = 0;
	puts_of(7, xid, 1, 16, 0, 0, 0, 0);
	puts_of(6, xid, 1, 0, 0, 0, 0);
	/* Header without chunks; xid ... procedure; credential; verifier. */
	execute_call(ntohl(w[7 + 5]), w + 7 + 6 + 2 + (ntohl(w[7 + 7]) + 3) / 4 + 2);
	fake_complete(i);
	if (fake.nsends == i + 1)
		fake.nsends = answered = 0;
	fake_deliver(out, nout * 4);
}

/* There is a connection, which may still be checked. */
static bool is_connected(void)
{
	return fake_lanes[served].target.conns[0][0].link;
}

static void serve(struct loop_timer *t)
{
	loop_timer_set(fake_lanes[served].loop, t, 1);
	/* Without a connection the connector may be making the next one. */
	if (!is_connected())
		return;
	if (answered_on != fake_opens)
		answered = 0;
	answered_on = fake_opens;
	while (!fake_lane_quiet && is_connected() && answered < fake.nsends)
		answer(answered++);
}

void fake_lane_start(const struct nfs_version *version,
		     void (*execute)(uint32_t proc, const uint32_t *w))
{
	pthread_condattr_t attr;
	struct errbuf eb = { "" };
	struct rr_link *link;

	execute_call = execute;
	fake_peer_is_knfsd();
	rpc_auth_init();
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&fake_ctl.mu, NULL);
	pthread_cond_init(&fake_ctl.cond, &attr);
	fake_cl = (struct nfs_client){
		.control = &fake_ctl, .lanes = fake_lanes, .nlanes = 1, .name_max = 255,
		.rsize = 1 << 20, .wsize = 1 << 20, .dtsize = 61440,
		.cfg = { .times = &fake_times,
			 .version = version, .paths[0].fabric = &fabric_fake, .npaths = 1, .server = "server",
			 .export = "/", .lanes = 1, .credits = 16, .buffers = { .n = { 24, 0, 4, 2 } },
			 .timeo_ms = 60000 },
	};
	nfs_server_init(&fake_cl);
	fake_cl.nlanes = 2;             /* there may be a second one */
	cr_assert_eq(nfs_buffers_init(&fake_cl), 0);
	fake_cl.nlanes = 1;
	cr_assert_eq(nfs_lane_init(&fake_cl, 0, &eb), 0, "%s", eb.text);
	cr_assert_eq(nfs_connection_open(&fake_lanes[0].target.conns[0][0], &link, &eb), 0);
	nfs_connection_up(&fake_lanes[0].target.conns[0][0], link);
	loop_timer_init(&timer, serve);
	loop_timer_set(fake_lanes[0].loop, &timer, 1);
	cr_assert_eq(nfs_lane_start(&fake_lanes[0]), 0);
}

void fake_lane_second(void)
{
	struct errbuf eb = { "" };

	cr_assert_eq(nfs_lane_init(&fake_cl, 1, &eb), 0, "%s", eb.text);
	cr_assert_eq(nfs_lane_start(&fake_lanes[1]), 0);
	fake_cl.nlanes = 2;
}

static void lose(struct nfs_lane *l, void *arg)
{
	(void)arg;
	if (l->index != served)
		return;
	loop_timer_clear(&timer);
	fake_break();
}

static void gain(struct nfs_lane *l, void *link)
{
	if (l->index != served)
		return;
	answered = 0;
	nfs_connection_up(&l->target.conns[0][0], link);
	loop_timer_set(l->loop, &timer, 1);
}

void fake_lane_move(void)
{
	struct errbuf eb = { "" };
	struct rr_link *link;

	nfs_each_lane(&fake_cl, lose, NULL);
	served = !served;
	cr_assert_eq(nfs_connection_open(&fake_lanes[served].target.conns[0][0], &link, &eb), 0, "%s", eb.text);
	nfs_each_lane(&fake_cl, gain, link);
}

struct pause {
	struct loop_timer timer;
	struct loop *loop;
	struct loop_msg stop;
	uint64_t until_ns;
	unsigned more;                  /* rounds, if the machine was slow */
};

/* A machine that lets this thread wait has all timers run out at once, and what is played by one
 * timer after the other would have had a single turn. */
static void on_pause(struct loop_timer *t)
{
	struct pause *p = container_of(t, struct pause, timer);

	if (mono_ns() >= p->until_ns + 2000000 && p->more) {
		p->more--;
		loop_timer_set(p->loop, t, 1);
		return;
	}
	loop_stop(p->loop);
}

struct nfs_times fake_times = NFS_TIMES;
static uint64_t played_ns = 1000000000ull;

uint64_t fake_clock(void)
{
	return played_ns;
}

void fake_sleep(unsigned ms)
{
	played_ns += ms * 1000000ull;
}

static void on_stop(struct loop_msg *m)
{
	loop_stop(container_of(m, struct pause, stop)->loop);
}

/* A millisecond at a time, and a few rounds more, for what is due at once. */
static void play_time(struct nfs_lane *l, unsigned ms)
{
	struct pause p = { .loop = l->loop, .stop.fn = on_stop };

	for (unsigned i = 0; i < ms + 20; i++) {
		fake_sleep(i < ms);
		loop_post(l->loop, &p.stop);
		cr_assert_eq(loop_run(l->loop), 0);
	}
}

void fake_pass(struct nfs_lane *l, unsigned ms)
{
	struct pause p = { .loop = l->loop, .until_ns = mono_ns() + ms * 1000000ull, .more = 20 };

	if (l->client->cfg.clock == fake_clock) {
		play_time(l, ms);
		return;
	}
	loop_timer_init(&p.timer, on_pause);
	loop_timer_set(l->loop, &p.timer, ms);
	cr_assert_eq(loop_run(l->loop), 0);
}

void fake_lane_stop(void)
{
	for (unsigned i = 0; i < fake_cl.nlanes; i++)
		nfs_lane_stop(&fake_lanes[i]);
	for (unsigned i = 0; i < fake_cl.nlanes; i++)
		nfs_lane_fini(&fake_lanes[i]);
	arena_fini(&fake_cl.arena);
}

_Atomic bool fake_no_file;

struct nfs_file *fake_file(struct nfs_call *c, const struct nfs_fh *fh)
{
	struct nfs_file *f = calloc(1, sizeof(*f));

	(void)c;
	if (fake_no_file) {
		free(f);
		return NULL;
	}
	f->fh = *fh;
	return nfs_file_ref(f);
}
