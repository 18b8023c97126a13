/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The client's side: messages of a server while three calls are in flight (one
 * plain, one with a Write chunk, one with a Reply chunk).
 *     input: 1 byte: bit 0: with memory windows; bit 1: what is placed by the Write
 *            chunk is parsed, and the first call has data of its own; then messages, each behind 1 byte: its length / 4, and which call's XID
 *            is put into it (bits 6, 7; 3: none). The credits' first bit says that
 *            the message invalidates something, the second that this is not the call's
 */
#include <errno.h>
#include <string.h>
#include "fake_fabric.h"
#include "fuzz.h"
#include "rpcrdma/conn.h"
#include "rpcrdma/memreg.h"

#define CALLS 3u

static struct arena arena;
static struct magazine mag;
static struct stats st;
static struct rr_call calls[CALLS];
static unsigned dones;
static const struct arena_buf *chunk;    /* the Reply chunk of the third */
static bool links;                       /* bit 1 */

static const struct rr_path path = { .fabric = &fabric_fake };
static const struct rr_way way = { .path = &path };
static struct rr_path_stats path_stats[RR_PATHS_MAX];

static void on_link_down(void *ctx, void *owner, int err, const char *why)
{
	(void)ctx;
	(void)owner;
	CHECK(err < 0 && why);
}
/* A reply to the server: as many bytes as its call has. */
static uint32_t on_called(void *ctx, const void *msg, uint32_t len, void *reply, uint32_t room)
{
	CHECK(len >= 8 && len <= RR_INLINE - RR_HDR_MIN);
	touch(msg, len);
	CHECK(room <= RR_INLINE - RR_HDR_MIN);
	memset(reply, 0x11, room);
	return len < room ? len & ~3u : room;
}
static const struct rr_events events = { .down = on_link_down, .called = on_called };

static bool inside(const struct arena_buf *b, const void *p, size_t len)
{
	return b && (const char *)p >= (char *)b->mem && len <= b->size &&
	       (size_t)((const char *)p - (char *)b->mem) <= b->size - len;
}

static void on_done(struct rr_call *rr, int status)
{
	dones++;
	CHECK(status == 0 || status == -EBADMSG || status == -EREMOTEIO ||
	      status == -EPROTONOSUPPORT);
	/* Nobody else has its buffers: either answered, or the link is gone. */
	CHECK(status != -EBADMSG || !fake.open);
	for (unsigned i = 0; fake.open && i < fake.nwindows; i++)
		CHECK(fake.windows[i].state == FAKE_FREE || fake.windows[i].mem != rr->sink[0].mem);
	if (status)
		return;
	CHECK(rr->reply_len >= 4 && rr->placed_len <= rr->sink[0].len);
	CHECK(rr->reply_len <= RR_INLINE || (rr == &calls[2] && rr->reply_len <= RR_REPLY_MAX));
	CHECK(!inside(chunk, rr->reply, 1));
	touch(rr->reply, rr->reply_len);
	CHECK(rr->placed == (rr->placed_len != 0) && (!rr->placed || rr == &calls[1]));
	CHECK(rr->msg_len == 64);
	if (!rr->placed)
		return;
	/* What is parsed lies where no peer can change it. */
	CHECK(links ? (const char *)rr->data < (char *)arena.data.base ||
		      (const char *)rr->data >= (char *)arena.data.base + arena.data.len :
		      rr->data == rr->sink[0].mem);
	touch(rr->data, rr->placed_len);
}

static void submit(struct rr_conn *conn, unsigned i, struct arena_buf *sink)
{
	static char text[3900];
	struct rr_call *rr = &calls[i];
	uint32_t *msg;

	memset(rr, 0, sizeof(*rr));
	rr->msg = magazine_get(&mag, ARENA_MSG);
	CHECK(rr->msg);
	rr->xid = rr_xid(conn);
	rr->msg_len = 64;
	rr->done = on_done;
	rr->reply_max = i == 2 ? 60000 : 500;
	if (i == 1)
		rr->sink[0] = links ? (struct rr_iov){ NULL, 4096 } : (struct rr_iov){ sink->mem, 65536 };
	if (i == 0 && links) {
		rr->send[0] = (struct rr_iov){ text, sizeof(text) };
		rr->nsend = 1;
		rr->send_copied = true;
		rr->data_pos = 40;
	}
	msg = (uint32_t *)(void *)((char *)rr->msg->mem + RR_HDR_ROOM);
	memset(msg, 0, 64);
	msg[0] = __builtin_bswap32(rr->xid);
	rr_submit(conn, rr);
}

static void link_up(struct rr_conn *conn)
{
	struct rr_link *link;
	struct errbuf eb = { "" };

	CHECK(rr_link_open(conn, &way, &link, &eb) == 0);
	CHECK(rr_up(conn, link, false) == 0);
}

/* Something that the call has offered, or not. */
static uint32_t inval_of(unsigned who, const uint8_t *msg)
{
	uint32_t rkey;

	memcpy(&rkey, msg + 4, 4);
	return who < CALLS && calls[who].nmrs && !(msg[8] & 0x40) ? calls[who].mrs[0].rkey : rkey;
}

static void play(struct rr_conn *conn, const uint8_t *data, size_t len)
{
	uint8_t msg[256];
	unsigned sent = 0;

	for (size_t at = 0; at < len; ) {
		size_t n = (data[at] & 0x3fu) * 4u;
		unsigned who = data[at++] >> 6;
		uint32_t xid;

		if (n > len - at)
			n = len - at;
		memcpy(msg, data + at, n);
		at += n;
		if (who < CALLS) {
			xid = __builtin_bswap32(calls[who].xid);
			if (n >= 4)
				memcpy(msg, &xid, 4);
			if (n >= 32 && (msg[27] == 0))
				memcpy(msg + 28, &xid, 4);
			/* As if the server had written the reply. */
			if (calls[who].chunk)
				memcpy(calls[who].chunk->mem, &xid, 4);
			chunk = calls[2].chunk;
		}
		if (n >= 12 && (msg[8] & 0x80))
			fake_deliver_inv(msg, (uint32_t)n, inval_of(who, msg));
		else
			fake_deliver(msg, (uint32_t)n);
		if (n & 4)
			fake_unbound();
		if (sent < fake.nsends)
			fake_complete(sent++);
		if (!rr_is_up(conn)) {
			fuzz_spin(fuzz_loop(), 0);
			CHECK(!fake.open);
			link_up(conn);
			sent = 0;
		}
	}
}

static void buffers_back(void *ctx)
{
	(void)ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct arena_counts counts = { .n = { 24, 0, 4, 2 } };
	struct rr_config cfg = { .path_stats = path_stats, .credits = 4, .nlanes = 1 };
	bool windows = len && (data[0] & 1);
	static struct arena_buf *sink;
	struct rr_conn *conn;
	unsigned pending = 0;

	if (len > 4096)
		return 0;
	fake_has_windows = windows;
	links = len && (data[0] & 2);
	cfg.memreg = windows ? &rr_memreg_mw : &rr_memreg_pool;
	if (!sink) {
		CHECK(arena_init(&arena, &counts, 1) == 0);
		magazine_init(&mag, &arena, fuzz_loop(), buffers_back, NULL);
		sink = magazine_get(&mag, ARENA_MID);
		CHECK(sink);
	}
	fake_peer_priv_len = 0;
	dones = 0;
	conn = rr_conn_new(&cfg, fuzz_loop(), &mag, &st, &events, NULL);
	CHECK(conn);
	link_up(conn);
	for (unsigned i = 0; i < CALLS; i++)
		submit(conn, i, sink);
	play(conn, data + (len > 0), len - (len > 0));
	rr_conn_free(conn);
	for (unsigned i = 0; i < CALLS; i++) {
		pending += calls[i].state != RR_CALL_IDLE;
		magazine_put(&mag, calls[i].msg);
		if (calls[i].chunk)
			magazine_put(&mag, calls[i].chunk);
	}
	CHECK(dones <= CALLS && dones + pending == CALLS);
	return 0;
}
