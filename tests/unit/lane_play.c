/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>
#include "lane_play.h"

#define CREDITS 32u

struct nfs_lane lane;
uint32_t lane_play_rsize = 1u << 20, lane_play_wsize = 1u << 20;

static struct nfs_client cl;
static struct nfs_control ctl;

/* ---- the server ---- */

/* The reply's headers; a Write chunk of one segment comes back as it was offered. */
static uint32_t reply_to(const struct fake_send *s, uint32_t *w)
{
	uint32_t call[12], n = 4;

	memcpy(call, s->bytes, sizeof(call));
	memset(w, 0, 4 * 20);
	memcpy(w, call, 8);
	w[2] = htonl(CREDITS);
	w[n++] = 0;
	if (!call[4] && call[5]) {
		memcpy(w + n, call + 5, 24);
		n += 6;
	}
	n += 2;                         /* no more Write chunks, no Reply chunk */
	w[n] = call[0];
	w[n + 1] = htonl(1);
	return 4 * (n + 6);
}

void lane_play_serve(void)
{
	static unsigned served;

	if (served > fake.nsends)
		served = 0;
	while (served < fake.nsends) {
		uint32_t w[20], len = reply_to(&fake.sends[served], w);

		fake_complete(served++);
		/* The fabric keeps only so many. */
		if (fake.nsends == served)
			fake.nsends = served = 0;
		fake_deliver(w, len);
	}
}

/* The headers of what was taken and not answered, as far as the first Write chunk. */
static struct { uint32_t w[5 + 2 + 4 * RR_SINK_IOV]; } taken[64];
static unsigned ntaken;

void lane_play_flush(void)
{
	while (fake.nsends) {
		for (unsigned i = 0, n = fake.nsends; i < n; i++) {
			memcpy(taken[ntaken++ % 64].w, fake.sends[i].bytes, sizeof(taken[0].w));
			fake_complete(i);
		}
		fake.nsends = 0;
	}
}

static void reply_nothing(uint32_t xid)
{
	uint32_t w[13] = { 0 };

	w[0] = w[7] = htonl(xid);
	w[1] = w[8] = htonl(1);
	w[2] = htonl(CREDITS);
	fake_deliver(w, sizeof(w));
}

void lane_play_reply(uint32_t xid)
{
	uint32_t w[5 + 2 + 4 * RR_SINK_IOV + 8] = { htonl(xid), htonl(1), htonl(CREDITS) }, n = 5;
	unsigned i;

	lane_play_flush();
	i = ntaken + 63;                /* the newest */
	while (i >= ntaken && taken[i % 64].w[0] != w[0])
		i--;
	if (i >= ntaken && !taken[i % 64].w[4] && taken[i % 64].w[5]) {
		uint32_t words = 2 + 4 * ntohl(taken[i % 64].w[6]);

		memcpy(w + n, taken[i % 64].w + n, 4 * words);
		n += words;
	}
	n += 2;
	w[n] = w[0];
	w[n + 1] = htonl(1);
	fake_deliver(w, 4 * (n + 6));
	lane_play_flush();
}

bool lane_play_answer_ping(struct nfs_target *t)
{
	if (t->ping.state != RR_CALL_INFLIGHT)
		return false;
	reply_nothing(t->ping.xid);
	return true;
}

uint32_t sent_word(unsigned send, unsigned i)
{
	uint32_t v;

	memcpy(&v, fake.sends[send].bytes + 4 * i, 4);
	return ntohl(v);
}

uint64_t sent_address(unsigned send, unsigned i)
{
	return (uint64_t)sent_word(send, i) << 32 | sent_word(send, i + 1);
}

void reply_words(const uint32_t *w, unsigned n)
{
	uint32_t wire[64];

	cr_assert_leq(n, 64);
	for (unsigned i = 0; i < n; i++)
		wire[i] = htonl(w[i]);
	fake_complete(fake.nsends - 1);
	fake_deliver(wire, n * 4);
}

void reply_write3(unsigned send, uint32_t count)
{
	uint32_t xid = sent_word(send, 0);

	REPLY_WORDS(xid, 1, 16, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, 0, 0, 0, count, 2, 7, 7);
}

/* ---- life ---- */

void lane_play_connect(void)
{
	struct errbuf eb = { "" };
	struct rr_link *link;

	cr_assert_eq(nfs_connection_open(&lane.target.conns[0][0], &link, &eb), 0, "%s", eb.text);
	nfs_connection_up(&lane.target.conns[0][0], link);
}

struct nfs_client *lane_play_start(const struct nfs_version *version)
{
	struct errbuf eb = { "" };

	fake_peer_is_knfsd();
	rpc_auth_init();
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	cl = (struct nfs_client){
		.control = &ctl, .lanes = &lane, .nlanes = 1, .name_max = 255,
		.rsize = lane_play_rsize, .wsize = lane_play_wsize, .dtsize = 32768,
		.cfg = { .version = version, .paths[0].fabric = &fabric_fake, .npaths = 1, .server = "server",
			 .lanes = 1, .credits = CREDITS, .buffers = { .n = { 40, 0, 8, 4 } },
			 .timeo_ms = 60000 },
	};
	nfs_server_init(&cl);
	cr_assert_eq(nfs_buffers_init(&cl), 0);
	cr_assert_eq(nfs_lane_init(&cl, 0, &eb), 0, "%s", eb.text);
	lane_play_connect();
	return &cl;
}

void lane_play_end(void)
{
	nfs_lane_fini(&lane);
	arena_fini(&cl.arena);
}

static void stop(struct loop_timer *t)
{
	(void)t;
	loop_stop(lane.loop);
}

void lane_play_run(unsigned ms)
{
	struct loop_timer t;

	loop_timer_init(&t, stop);
	loop_timer_set(lane.loop, &t, ms);
	cr_assert_eq(loop_run(lane.loop), 0);
}
