/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The gateway between a client and a server that both send anything: its own
 * objects, but for TCP, over a fabric that only checks what it is told.
 *     input: messages, each behind 2 bytes: the length of the client's message,
 *            the length / 4 of the server's reply to it
 */
#include <errno.h>
#include <string.h>
#include "fuzz.h"
#include "gateway/gateway.h"

#define READS 128u

static struct gateway gw;
static struct fab_events ev;
static void *ev_ctx;
static struct { struct fab_sge sge; void *cookie; } reads[READS];
static struct { void *cookie; bool send; } sends[READS * 8];
static unsigned nreads, nsends, closes;
static struct { char *mem; void *cookie; } recvs[512];
static unsigned recv_head, recv_tail;

/* ---- The server ---- */

static struct gw_pair *pair;
static const uint8_t *answer;
static uint32_t answer_len;
static bool ignored;            /* the server has left a call unanswered */

void tcp_open(struct gw_pair *p)
{
	p->tcp_ready = true;
	pair = p;
}

void tcp_close(struct gw_pair *p)
{
	p->tcp_ready = false;
}

void tcp_send(struct gw_call *k)
{
	struct gw_pair *p = k->pair;
	struct gw_buf *b;
	uint32_t xid = __builtin_bswap32(k->xid), reply = __builtin_bswap32(1);

	CHECK(!k->reads_left && k->call_len <= k->call->size - GW_MARK);
	k->passed = true;
	touch(k->call->mem + GW_MARK, k->call_len);
	/* A call that was refused must not come here, and nothing that is no call. */
	CHECK(!k->answered && gw_word(k->call->mem + GW_MARK + 4) == 0);
	pair_buf_put(p, k->call);
	k->call = NULL;
	b = pair_buf(p, gw_buf_size(answer_len));
	CHECK(b);
	memcpy(b->mem + GW_MARK, answer, answer_len);
	/* What it answers: a server can be wrong in the rest only. */
	if (answer_len >= 8 && answer[4] < 128) {
		memcpy(b->mem + GW_MARK, &xid, 4);
		memcpy(b->mem + GW_MARK + 4, &reply, 4);
	} else if (answer_len >= 8 && answer[4] < 192) {
		memset(b->mem + GW_MARK + 4, 0, 4);     /* it calls instead */
		ignored = true;
	} else {
		ignored = true;
	}
	reply_received(p, b, answer_len);
}

void tcp_send_back(struct gw_pair *p, struct gw_back *b)
{
	CHECK(b->len >= 8 && b->len <= GW_INLINE);
	touch(b->mem + GW_MARK, b->len);
	back_drop(p, b);
}

/* This server has each call as a whole as soon as it is passed on. */
void tcp_withdraw(struct gw_call *k)
{
	CHECK(!k->passed || !k->call);
}

/* ---- The fabric ---- */

static int f_reg(struct fab_conn *c, void *mem, size_t len, unsigned access,
		 struct fab_mr *out, struct errbuf *eb)
{
	static uint32_t key;

	(void)c;
	(void)eb;
	CHECK(!access);
	*out = (struct fab_mr){ .base = mem, .len = len, .lkey = ++key, .rkey = key };
	return 0;
}

static int f_post_recv(struct fab_conn *c, const struct fab_sge *sge, void *cookie)
{
	(void)c;
	CHECK(recv_tail - recv_head < 512);
	recvs[recv_tail % 512].mem = sge->mem;
	recvs[recv_tail++ % 512].cookie = cookie;
	return 0;
}

static int sent(const struct fab_sge *sge, unsigned n, bool send, void *cookie)
{
	CHECK(n == 1 && !closes);
	touch(sge->mem, sge->len);
	if (nsends == READS * 8)
		return -ENOMEM;
	sends[nsends].send = send;
	sends[nsends++].cookie = cookie;
	return 0;
}

/* What goes to the client is a header that it can read. */
static int f_post_send(struct fab_conn *c, const struct fab_sge *sge, unsigned n, void *cookie)
{
	static struct rr_header h;

	(void)c;
	CHECK(rr_header_decode(&h, sge->mem, sge->len) > 0 && h.nreads == 0);
	CHECK(sge->len <= pair->inline_max || h.nwrites || h.has_reply);
	return sent(sge, n, true, cookie);
}

static int f_post_send_inv(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
			   uint32_t rkey, void *cookie)
{
	(void)rkey;
	return f_post_send(c, sge, n, cookie);
}

static int f_post_write(struct fab_conn *c, const struct fab_sge *sge, unsigned n,
			uint32_t rkey, uint64_t addr, void *cookie)
{
	(void)c;
	(void)rkey;
	(void)addr;
	CHECK(sge->len && sge->len <= GW_MSG_MAX);
	return sent(sge, n, false, cookie);
}

static int f_post_read(struct fab_conn *c, const struct fab_sge *sge, uint32_t rkey,
		       uint64_t addr, void *cookie)
{
	const struct gw_call *k = cookie;

	(void)c;
	(void)rkey;
	(void)addr;
	CHECK(!closes && sge->len);
	CHECK((char *)sge->mem >= k->call->mem + GW_MARK &&
	      (size_t)((char *)sge->mem - k->call->mem) + sge->len <= k->call->size);
	if (nreads == READS)
		return -ENOMEM;
	reads[nreads].sge = *sge;
	reads[nreads++].cookie = cookie;
	return 0;
}

static int f_accept(struct fab_conn *c, const void *priv, size_t privlen, struct errbuf *eb)
{
	(void)c;
	(void)eb;
	CHECK(priv && privlen);
	return 0;
}

static int f_attach(struct fab_conn *c, struct loop *l, const struct fab_events *e, void *ctx)
{
	(void)c;
	(void)l;
	ev = *e;
	ev_ctx = ctx;
	return 0;
}

static const char *f_describe(const struct fab_conn *c)
{
	(void)c;
	return "fuzz";
}

static void f_close(struct fab_conn *c)
{
	(void)c;
	closes++;
}

static void f_reject(struct fab_conn *c, const void *priv, size_t privlen)
{
	(void)priv;
	(void)privlen;
	f_close(c);
}

static const struct fabric fabric_fuzz = {
	.name = "fuzz", .reg = f_reg, .post_recv = f_post_recv, .post_send = f_post_send,
	.post_send_inv = f_post_send_inv, .post_write = f_post_write, .post_read = f_post_read,
	.accept = f_accept, .attach = f_attach, .describe = f_describe, .close = f_close,
	.reject = f_reject,
};

/* ---- The client ---- */

static void complete_all(void)
{
	for (unsigned i = 0; i < nreads && !pair->ended; i++) {
		struct fab_sge *s = &reads[i].sge;

		memset(s->mem, (int)i, s->len < 4096 ? s->len : 4096);
		ev.read(ev_ctx, reads[i].cookie);
	}
	nreads = 0;
	for (unsigned i = 0; i < nsends && !pair->ended; i++)
		(sends[i].send ? ev.sent : ev.written)(ev_ctx, sends[i].cookie);
	nsends = 0;
}

static void play(const uint8_t *data, size_t len)
{
	for (size_t at = 0; at + 2 <= len && !pair->ended; ) {
		size_t n = data[at], m = data[at + 1] * 4u;

		at += 2;
		n = n < len - at ? n : len - at;
		answer = data + at + n;
		answer_len = (uint32_t)(m < len - at - n ? m : len - at - n);
		CHECK(recv_head != recv_tail);
		memcpy(recvs[recv_head % 512].mem, data + at, n);
		ev.recv(ev_ctx, recvs[recv_head++ % 512].cookie, (uint32_t)n, false, 0);
		at += n + answer_len;
		if (!pair->ended)
			complete_all();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static char dummy;
	struct loop *l = fuzz_loop();

	if (!len || len > 4096)
		return 0;
	gw = (struct gateway){ .loop = l, .fab = &fabric_fuzz, .credits = 4 };
	list_init(&gw.pairs);
	list_init(&gw.peers);
	drc_init(&gw.drc);
	memory_init(&gw.memory, 64u << 20);
	ignored = false;
	recv_head = recv_tail = nreads = nsends = closes = 0;
	/* Bit 0: RFC 8797 private data, 4096 and R; else 1024 bytes. */
	pair_request(&gw, (struct fab_conn *)(void *)&dummy,
		     "\xf6\xab\x0e\x18\x01\x01\x03\x03", data[0] & 1 ? 8 : 0);
	pair_accept(pair);
	play(data + 1, len - 1);
	if (!pair->ended && !ignored)
		CHECK(list_empty(&pair->calls));
	pair_end(pair, NULL);
	fuzz_spin(l, 0);
	CHECK(list_empty(&gw.pairs) && closes == 1);
	CHECK(gw.memory.taken == 0 && gw.memory.bufs == 0);
	drc_clear(&gw.drc);
	return 0;
}
