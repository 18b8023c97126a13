/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iWARP: both roles against each other over TCP on 127.0.0.1. */
#include "test_iwarp.h"
#include "vmflags.h"


TestSuite(iwarp_conn, .timeout = 300);

#define MIB (1u << 20)

static uint8_t src[MIB + 8192], dst[MIB + 8192];

/* ---- The same on every kind of connection ---- */

static const struct variant {
	const char *name;
	unsigned flags_a, flags_b;
	unsigned piece;         /* a proxy forwards so much at once; 0: no proxy */
	int sockbuf;
	bool crc;
	uint32_t frame;         /* payload of a frame at most, as with another MSS */
} variants[] = {
	{ .name = "plain" },
	{ .name = "CRC, active side asks", .flags_a = FAB_CRC, .crc = true },
	{ .name = "CRC, passive side asks", .flags_b = FAB_CRC, .crc = true },
	{ .name = "MSS", .flags_a = FAB_MSS_FPDU, .flags_b = FAB_MSS_FPDU },
	{ .name = "Ethernet", .frame = 1424 },
	{ .name = "Ethernet, CRC, pieces", .flags_a = FAB_CRC, .frame = 1424, .piece = 5000,
	  .crc = true },
	{ .name = "tiny and odd frames", .frame = 61 },
	{ .name = "small buffers", .sockbuf = 4096 },
	{ .name = "pieces", .piece = 3000 },
	{ .name = "pieces, CRC, MSS", .flags_a = FAB_CRC | FAB_MSS_FPDU, .flags_b = FAB_MSS_FPDU,
	  .piece = 40000, .sockbuf = 16384, .crc = true },
};

static struct pair *pair_of(const struct variant *v)
{
	struct pair *p = pair_new();

	p->pa.flags = v->flags_a;
	p->pb.flags = v->flags_b;
	p->pa.ord = 4;
	p->sockbuf = v->sockbuf;
	p->use_proxy = v->piece;
	if (v->piece)
		p->proxy.max_piece = v->piece;
	pair_connect(p);
	cr_assert_eq(p->rc, 0, "%s: %s", v->name, p->eb.text);
	if (v->frame) {
		p->a.c->max_tagged = p->a.c->max_untagged = v->frame;
		p->b.c->max_tagged = p->b.c->max_untagged = v->frame;
	}
	cr_expect_eq(p->a.c->crc, v->crc, "%s", v->name);
	cr_expect_eq(p->b.c->crc, v->crc, "%s", v->name);
	return p;
}

#define FOR_VARIANTS(v) \
	for (const struct variant *v = variants; \
	     v < variants + sizeof(variants) / sizeof(variants[0]); v++)

static struct fab_mr reg(struct fab_conn *c, void *mem, size_t len, unsigned access)
{
	struct fab_mr mr;
	struct errbuf eb;

	cr_assert_eq(FAB->reg(c, mem, len, access, &mr, &eb), 0);
	return mr;
}

Test(iwarp_conn, private_data)
{
	struct pair *p = pair_up();
	struct fab_caps caps;

	cr_expect_eq(p->asked_len, 5);
	cr_expect_arr_eq(p->asked, "hello", 5);
	cr_expect_eq(p->peer_len, 8);
	cr_expect_arr_eq(p->peer_priv, "welcome!", 8);
	FAB->caps(p->a.c, &caps);
	cr_expect(caps.reg_per_call && caps.remote_inval);
	cr_expect_eq(p->a.c->ord, 0, "as NFS clients have it");
	cr_expect_eq(p->b.c->ord, 16);
	cr_expect_not_null(strstr(FAB->describe(p->b.c), "127.0.0.1"));
	cr_expect_eq(fabric_by_name("iwarp"), FAB);
	pair_free(p);
}

static void one_send(struct pair *p, struct end *from, struct end *to, uint32_t len,
		     unsigned pieces)
{
	struct fab_sge sge[FAB_SGE_MAX], again;
	unsigned got = to->of[EV_RECV], sent = from->of[EV_SENT];
	struct event *ev;
	uint32_t at = 0;

	fill(src, len, len);
	for (unsigned i = 0; i < pieces; i++) {
		uint32_t n = i + 1 == pieces ? len - at : len / pieces;

		sge[i] = (struct fab_sge){ .mem = src + at, .len = n };
		at += n;
	}
	cr_assert_eq(FAB->post_send(from->c, sge, pieces, src + len), 0);
	RUN_UNTIL(p->loop, to->of[EV_RECV] > got && from->of[EV_SENT] > sent);
	for (ev = to->ev; ev->kind != EV_RECV; ev++)
		;
	cr_assert_eq(ev->len, len);
	cr_expect_not(ev->inval);
	cr_assert_arr_eq(ev->cookie, src, len);
	again = (struct fab_sge){ .mem = ev->cookie, .len = RECV_SIZE };
	cr_assert_eq(FAB->post_recv(to->c, &again, ev->cookie), 0);
	for (ev = from->ev; ev->kind != EV_SENT; ev++)
		;
	cr_assert_eq(ev->cookie, (void *)(src + len));
	from->n = to->n = 0;
}

Test(iwarp_conn, sends_of_all_sizes)
{
	static const uint32_t sizes[] = {
		0, 1, 2, 3, 4, 5, 7, 16, 63, 64, 65, 511, 1000, 1447, 1448, 1449, 4093, 4094, 4095,
		4096,
	};

	FOR_VARIANTS(v) {
		struct pair *p = pair_of(v);

		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			one_send(p, &p->a, &p->b, sizes[i], 1 + i % FAB_SGE_MAX);
			one_send(p, &p->b, &p->a, sizes[i], FAB_SGE_MAX - i % FAB_SGE_MAX);
		}
		pair_free(p);
	}
}

/* A Send behind the Write says that the data is there. */
Test(iwarp_conn, write_1mib)
{
	FOR_VARIANTS(v) {
		struct pair *p = pair_of(v);
		struct fab_mr mr = reg(p->a.c, dst + 1, MIB + 200, FAB_REMOTE_WRITE);
		struct fab_sge sge[] = {
			{ .mem = src, .len = 1000 }, { .mem = src + 1000, .len = 3 },
			{ .mem = src + 1003, .len = 0 }, { .mem = src + 1003, .len = MIB - 1003 },
		};
		const struct iw_stats *st;

		say_hello(p);
		fill(src, MIB, 1);
		memset(dst, 0xee, sizeof(dst));
		cr_assert_eq(FAB->post_write(p->b.c, sge, 4, mr.rkey, 100, src), 0);
		send_text(p->b.c, "done", NULL);
		RUN_UNTIL(p->loop, p->a.of[EV_RECV] == 1 && p->b.of[EV_SENT] == 1);
		cr_expect_eq(p->b.ev[0].kind, EV_WRITTEN);
		cr_expect_eq(p->b.ev[0].cookie, (void *)src);
		cr_expect_arr_eq(dst + 101, src, MIB, "%s", v->name);
		for (int i = 0; i < 101; i++)
			cr_assert_eq(dst[i], 0xee);
		for (size_t i = 101 + MIB; i < sizeof(dst); i++)
			cr_assert_eq(dst[i], 0xee);
		st = &p->a.c->stats;
		cr_expect_eq(st->rx_placed + st->rx_copied, MIB + 4);
		/* But for the first stage, and a few bytes behind a header where
		 * TCP had no more for a while; small frames are taken many at a
		 * time instead. */
		if (!v->piece && !v->frame)
			cr_expect_leq(st->rx_copied, IW_STAGE + IW_STAGE_BULK, "%s: %u of %u, frames of %u",
				      v->name, (unsigned)st->rx_copied, MIB, p->b.c->max_tagged);
		pair_free(p);
	}
}

/* More reads than may be outstanding, from both sides at once. */
Test(iwarp_conn, reads)
{
	enum { READS = 24, SIZE = 50000 };

	FOR_VARIANTS(v) {
		struct pair *p = pair_of(v);
		struct end *ends[] = { &p->a, &p->b };
		struct fab_mr from[2], to[2];

		say_hello(p);
		fill(src, MIB, 3);
		memset(dst, 0xee, sizeof(dst));
		for (int i = 0; i < 2; i++) {
			from[i] = reg(ends[i]->c, src, MIB, FAB_REMOTE_READ);
			to[i] = reg(ends[i]->c, dst + i * MIB / 2, MIB / 2, 0);
		}
		for (int i = 0; i < 2; i++) {
			for (unsigned j = 0; j < READS; j++) {
				unsigned at = (j * 20000) % (MIB / 2 - SIZE);
				struct fab_sge sge = {
					.mem = (uint8_t *)to[i].base + at, .len = j ? SIZE : 0,
					.lkey = to[i].lkey,
				};

				cr_assert_eq(FAB->post_read(ends[i]->c, &sge, from[!i].rkey, at,
							    src + j), 0);
			}
		}
		RUN_UNTIL(p->loop, p->a.of[EV_READ] == READS && p->b.of[EV_READ] == READS);
		for (unsigned j = 0; j < READS; j++)
			cr_expect_eq(p->a.ev[j].cookie, (void *)(src + j), "in order");
		for (int i = 0; i < 2; i++) {
			unsigned last = MIB / 2 - SIZE;

			for (unsigned j = 1; j < READS; j++) {
				unsigned at = (j * 20000) % last;

				cr_assert_arr_eq((uint8_t *)to[i].base + at, src + at, SIZE, "%s",
						 v->name);
			}
		}
		pair_free(p);
	}
}

Test(iwarp_conn, read_1mib)
{
	FOR_VARIANTS(v) {
		struct pair *p = pair_of(v);
		struct fab_mr from = reg(p->a.c, src, MIB, FAB_REMOTE_READ);
		struct fab_mr to = reg(p->b.c, dst, MIB, 0);
		struct fab_sge sge = { .mem = dst, .len = MIB, .lkey = to.lkey };

		say_hello(p);
		fill(src, MIB, 4);
		memset(dst, 0xee, sizeof(dst));
		cr_assert_eq(FAB->post_read(p->b.c, &sge, from.rkey, 0, NULL), 0);
		RUN_UNTIL(p->loop, p->b.of[EV_READ] == 1);
		cr_expect_arr_eq(dst, src, MIB, "%s", v->name);
		cr_expect_eq(dst[MIB], 0xee);
		pair_free(p);
	}
}

/* Both sides write and read all they can through sockets that hold next to nothing. If
 * receiving waited for room to send, both would wait for ever. */
Test(iwarp_conn, no_deadlock)
{
	static uint8_t mem[4][MIB];
	struct pair *p = pair_new();
	struct fab_mr wr[2], rd[2], sink[2];

	p->sockbuf = 4096;
	p->pa.ord = 16;
	pair_connect(p);
	say_hello(p);
	for (int i = 0; i < 2; i++) {
		struct fab_conn *c = i ? p->b.c : p->a.c;

		wr[i] = reg(c, mem[i], MIB, FAB_REMOTE_WRITE);
		rd[i] = reg(c, src, MIB, FAB_REMOTE_READ);
		sink[i] = reg(c, mem[2 + i], MIB, 0);
	}
	for (int n = 0; n < 8; n++) {
		for (int i = 0; i < 2; i++) {
			struct fab_conn *c = i ? p->b.c : p->a.c;
			struct fab_sge w = { .mem = src, .len = MIB };
			struct fab_sge r = { .mem = mem[2 + i], .len = MIB, .lkey = sink[i].lkey };

			cr_assert_eq(FAB->post_write(c, &w, 1, wr[!i].rkey, 0, NULL), 0);
			cr_assert_eq(FAB->post_read(c, &r, rd[!i].rkey, 0, NULL), 0);
		}
	}
	RUN_UNTIL(p->loop, p->a.of[EV_READ] == 8 && p->b.of[EV_READ] == 8 &&
		  p->a.of[EV_WRITTEN] == 8 && p->b.of[EV_WRITTEN] == 8);
	cr_expect_arr_eq(mem[2], src, MIB);
	cr_expect_arr_eq(mem[3], src, MIB);
	pair_free(p);
}

/* ---- Invalidation ---- */

Test(iwarp_conn, send_with_invalidate)
{
	struct pair *p = pair_up();
	struct fab_mr mr = reg(p->a.c, dst, 4096, FAB_REMOTE_WRITE);
	struct fab_mr other = reg(p->a.c, dst + 4096, 4096, FAB_REMOTE_WRITE);
	struct fab_sge sge = { .mem = src, .len = 100 };

	say_hello(p);
	fill(src, 100, 9);
	memset(dst, 0xee, 8192);
	cr_assert_eq(FAB->post_write(p->b.c, &sge, 1, mr.rkey, 0, NULL), 0);
	cr_assert_eq(FAB->post_send_inv(p->b.c, &sge, 1, mr.rkey, NULL), 0);
	RUN_UNTIL(p->loop, p->a.of[EV_RECV] == 1);
	cr_expect(p->a.ev[0].inval);
	cr_expect_eq(p->a.ev[0].rkey, mr.rkey);
	cr_expect_arr_eq(dst, src, 100, "what came before it");
	/* The other one lives. */
	cr_assert_eq(FAB->post_write(p->b.c, &sge, 1, other.rkey, 0, NULL), 0);
	send_text(p->b.c, "x", NULL);
	RUN_UNTIL(p->loop, p->a.of[EV_RECV] == 2);
	cr_expect_arr_eq(dst + 4096, src, 100);
	FAB->dereg(p->a.c, &mr);        /* nothing left to do */
	fill(src, 100, 10);
	mr.rkey = p->a.ev[0].rkey;
	cr_assert_eq(FAB->post_write(p->b.c, &sge, 1, mr.rkey, 0, NULL), 0);
	RUN_UNTIL(p->loop, p->a.of[EV_DOWN] && p->b.of[EV_DOWN]);
	cr_expect_neq(dst[0], src[0], "a late write touches nothing");
	cr_expect_not_null(strstr(p->a.why, "not valid"), "%s", p->a.why);
	cr_expect_not_null(strstr(p->b.why, "Terminate"), "%s", p->b.why);
	pair_free(p);
}

/* The owner takes the memory back while a write is coming in. */
Test(iwarp_conn, dereg_in_mid_write)
{
	struct pair *p = pair_new();
	struct fab_sge sge = { .mem = src, .len = MIB };
	struct fab_mr mr;
	uint8_t *copy = malloc(MIB);

	p->sockbuf = 4096;
	pair_connect(p);
	mr = reg(p->a.c, dst, MIB, FAB_REMOTE_WRITE);
	say_hello(p);
	fill(src, MIB, 1);
	memset(dst, 0xee, MIB);
	cr_assert_eq(FAB->post_write(p->b.c, &sge, 1, mr.rkey, 0, NULL), 0);
	RUN_UNTIL(p->loop, p->a.c->stats.rx_placed > 30000);
	cr_expect_eq(p->b.of[EV_WRITTEN], 0);
	FAB->dereg(p->a.c, &mr);
	memcpy(copy, dst, MIB);
	RUN_UNTIL(p->loop, p->a.of[EV_DOWN] && p->b.of[EV_DOWN]);
	cr_expect_arr_eq(dst, copy, MIB);
	free(copy);
	pair_free(p);
}

/* ... and while a read of it is being answered. */
Test(iwarp_conn, dereg_in_mid_response)
{
	struct pair *p = pair_new();
	struct fab_sge sge = { .mem = dst, .len = MIB };
	struct fab_mr from, to;

	p->sockbuf = 4096;
	pair_connect(p);
	from = reg(p->a.c, src, MIB, FAB_REMOTE_READ);
	to = reg(p->b.c, dst, MIB, 0);
	sge.lkey = to.lkey;
	say_hello(p);
	cr_assert_eq(FAB->post_read(p->b.c, &sge, from.rkey, 0, NULL), 0);
	RUN_UNTIL(p->loop, p->b.c->stats.rx_placed > 30000);
	FAB->dereg(p->a.c, &from);
	RUN_UNTIL(p->loop, p->a.of[EV_DOWN] && p->b.of[EV_DOWN]);
	cr_expect_not_null(strstr(p->a.why, "read from an STag"), "%s", p->a.why);
	cr_expect_eq(p->b.of[EV_READ], 0);
	pair_free(p);
}

/* ---- System calls ---- */

static struct fab_mr rpc_mr;

/* An NFS READ of 4 KiB: Write, Send, from inside the event. */
static void serve(struct end *e, struct event *ev)
{
	struct fab_sge data = { .mem = src, .len = 4096 }, reply = { .mem = src, .len = 120 };
	struct fab_sge again = { .mem = ev->cookie, .len = RECV_SIZE };

	if (ev->kind != EV_RECV)
		return;
	cr_assert_eq(FAB->post_recv(e->c, &again, ev->cookie), 0);
	cr_assert_eq(FAB->post_write(e->c, &data, 1, rpc_mr.rkey, 0, NULL), 0);
	cr_assert_eq(FAB->post_send_inv(e->c, &reply, 1, rpc_mr.rkey, NULL), 0);
}

Test(iwarp_conn, system_calls_per_rpc)
{
	enum { RPCS = 200 };
	struct pair *p = pair_up();
	struct iw_stats before[2], after[2];

	say_hello(p);
	p->b.hook = serve;
	before[0] = p->a.c->stats;
	before[1] = p->b.c->stats;
	for (unsigned i = 0; i < RPCS; i++) {
		struct fab_sge call = { .mem = src, .len = 160 };

		rpc_mr = reg(p->a.c, dst, 4096, FAB_REMOTE_WRITE);
		cr_assert_eq(FAB->post_send(p->a.c, &call, 1, NULL), 0);
		RUN_UNTIL(p->loop, p->a.of[EV_RECV] == i + 1 && p->a.of[EV_SENT] == i + 1);
		for (struct event *ev = p->a.ev; ev < p->a.ev + p->a.n; ev++) {
			struct fab_sge again = { .mem = ev->cookie, .len = RECV_SIZE };

			if (ev->kind == EV_RECV)
				cr_assert_eq(FAB->post_recv(p->a.c, &again, ev->cookie), 0);
		}
		p->a.n = p->b.n = 0;
	}
	after[0] = p->a.c->stats;
	after[1] = p->b.c->stats;
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(after[i].send_calls - before[i].send_calls, RPCS);
		/* TCP may deliver in two what was sent at once, but hardly ever. */
		cr_expect_leq(after[i].recv_calls - before[i].recv_calls, RPCS + RPCS / 20);
	}
	pair_free(p);
}

/* ---- Rules of posting ---- */

Test(iwarp_conn, posts_out_of_turn)
{
	struct pair *p = pair_new();
	struct fab_sge sge = { .mem = src, .len = 10 };
	struct errbuf eb;
	struct fab_mr mr;

	p->pa.max_send = p->pb.max_send = 4;
	cr_assert_eq(FAB->open(&p->pa, &p->a.c, &eb), 0);
	cr_expect_eq(FAB->post_send(p->a.c, &sge, 1, NULL), -ENOTCONN, "before attach");
	cr_expect_eq(FAB->post_write(p->a.c, &sge, 1, 1, 0, NULL), -ENOTCONN);
	cr_expect_eq(FAB->accept(p->a.c, NULL, 0, &eb), -EINVAL, "not the passive side");
	FAB->close(p->a.c);
	p->a.c = NULL;

	pair_connect(p);
	cr_expect_eq(FAB->post_recv(p->a.c, &sge, NULL), -ENOMEM, "more than max_recv");
	for (int i = 0; i < 4; i++)
		cr_expect_eq(FAB->post_send(p->a.c, &sge, 1, NULL), 0);
	cr_expect_eq(FAB->post_send(p->a.c, &sge, 1, NULL), -ENOMEM, "more than max_send");
	cr_expect_eq(FAB->post_send(p->a.c, &sge, FAB_SGE_MAX + 1, NULL), -EINVAL);
	cr_expect_eq(FAB->post_read(p->a.c, &sge, 0x100, 0, NULL), -EOPNOTSUPP, "ord is 0");
	cr_expect_eq(FAB->post_read(p->b.c, &sge, 0x100, 0, NULL), -EFAULT, "not registered");
	mr = reg(p->b.c, src, 9, 0);
	sge.lkey = mr.lkey;
	cr_expect_eq(FAB->post_read(p->b.c, &sge, 0x100, 0, NULL), -EFAULT, "beyond its end");
	cr_expect_eq(FAB->accept(p->b.c, NULL, 0, &eb), -EINVAL, "accepted already");
	RUN_UNTIL(p->loop, p->a.of[EV_SENT] == 4);
	FAB->close(p->b.c);
	p->b.c = NULL;
	RUN_UNTIL(p->loop, p->a.of[EV_DOWN]);
	cr_expect_eq(FAB->post_send(p->a.c, &sge, 1, NULL), -ENOTCONN, "after down");
	cr_expect_eq(FAB->post_recv(p->a.c, &sge, NULL), -ENOTCONN);
	pair_free(p);
}

/* RFC 5044: the passive side's first frame comes after the active side's. */
Test(iwarp_conn, passive_side_waits)
{
	struct pair *p = pair_up();

	send_text(p->b.c, "early", NULL);
	run_ms(p->loop, 50);
	cr_expect_eq(p->b.of[EV_SENT], 0);
	cr_expect_eq(p->a.of[EV_RECV], 0);
	send_text(p->a.c, "hello", NULL);
	RUN_UNTIL(p->loop, p->a.of[EV_RECV] == 1 && p->b.of[EV_SENT] == 1);
	pair_free(p);
}

/* The active side wakes a peer that may have missed its first Send. No timer runs before that
 * Send, or after the peer has sent something. */
Test(iwarp_conn, nudges)
{
	struct pair *p = pair_up();
	struct loop_timer *nudge = &p->a.c->nudge;

	run_ms(p->loop, 60);
	cr_expect(list_empty(&nudge->node), "a connection that is idle from the start");
	cr_expect_eq(p->a.c->stats.tx_bytes, 0);
	loop_rewatch(p->loop, &p->b.c->watch, 0);
	send_text(p->a.c, "hello", NULL);
	RUN_UNTIL(p->loop, p->a.c->nudges == 2);
	cr_expect_not(list_empty(&nudge->node));
	cr_expect_eq(p->a.of[EV_WRITTEN], 0, "nobody's but ours");
	loop_rewatch(p->loop, &p->b.c->watch, EPOLLIN);
	send_text(p->b.c, "here", NULL);
	RUN_UNTIL(p->loop, p->b.of[EV_RECV] == 1 && p->a.of[EV_RECV] == 1);
	run_ms(p->loop, 60);
	cr_expect(list_empty(&nudge->node));
	send_text(p->a.c, "more", NULL);
	RUN_UNTIL(p->loop, p->b.of[EV_RECV] == 2);
	cr_expect(list_empty(&nudge->node));
	cr_expect(list_empty(&p->b.c->nudge.node), "the passive side has none");
	pair_free(p);
}

/* ---- The end ---- */

Test(iwarp_conn, reject)
{
	struct pair *p = pair_new();

	p->reject = true;
	pair_connect(p);
	cr_expect_eq(p->rc, -ECONNREFUSED);
	cr_expect_not_null(strstr(p->eb.text, "rejected"), "%s", p->eb.text);
	cr_expect_eq(p->peer_len, 2);
	cr_expect_arr_eq(p->peer_priv, "no", 2);
	pair_free(p);
}

Test(iwarp_conn, nobody_listens)
{
	struct pair *p = pair_new();
	struct sockaddr_storage ss = loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint8_t priv[FAB_PRIV_RECV_MAX];
	struct errbuf eb;
	size_t len;

	/* Bound and not listening: nobody else gets the port meanwhile. */
	cr_assert_eq(bind(fd, (struct sockaddr *)&ss, sizeof(struct sockaddr_in)), 0);
	p->pa.server = loopback(port_of(fd));
	cr_expect_eq(FAB->probe(&p->pa, &eb), 0);
	cr_assert_eq(FAB->open(&p->pa, &p->a.c, &eb), 0);
	cr_expect_eq(FAB->connect(p->a.c, "x", 1, priv, &len, &eb), -ECONNREFUSED);
	cr_expect_not_null(strstr(eb.text, "Connection refused"), "%s", eb.text);
	cr_expect_null(strchr(eb.text, '('), "%s", eb.text);
	FAB->close(p->a.c);
	p->pa.hint = "is it plugged in?";
	cr_assert_eq(FAB->open(&p->pa, &p->a.c, &eb), 0, "%s", eb.text);
	cr_expect_eq(FAB->connect(p->a.c, "x", 1, priv, &len, &eb), -ECONNREFUSED);
	cr_expect_not_null(strstr(eb.text, "Connection refused (is it plugged in?)"), "%s", eb.text);
	FAB->close(p->a.c);
	close(fd);
	loop_free(p->loop);
	free(p);
}

static void close_it(struct end *e, struct event *ev)
{
	if (ev->kind != *(enum ev_kind *)e->hook_arg || !e->c)
		return;
	FAB->close(e->c);
	e->c = NULL;
}

/* From inside every event, with everything else under way. */
Test(iwarp_conn, close_in_events)
{
	for (int side = 0; side < 2; side++) {
		for (enum ev_kind k = EV_RECV; k <= EV_DOWN; k++) {
			struct pair *p = pair_new();
			struct end *closer = side ? &p->b : &p->a, *other = side ? &p->a : &p->b;

			p->pa.ord = 16;
			pair_connect(p);
			say_hello(p);
			closer->hook = close_it;
			closer->hook_arg = &k;
			for (int i = 0; i < 2; i++) {
				struct end *e = i ? &p->b : &p->a, *o = i ? &p->a : &p->b;
				struct fab_mr w = reg(o->c, dst + i * 4096, 4096, FAB_REMOTE_WRITE);
				struct fab_mr r = reg(o->c, src, MIB, FAB_REMOTE_READ);
				struct fab_mr s = reg(e->c, dst, MIB, 0);
				struct fab_sge sge = { .mem = src, .len = 4096 };
				struct fab_sge sink = { .mem = dst, .len = MIB, .lkey = s.lkey };

				cr_assert_eq(FAB->post_write(e->c, &sge, 1, w.rkey, 0, NULL), 0);
				send_text(e->c, "x", NULL);
				cr_assert_eq(FAB->post_read(e->c, &sink, r.rkey, 0, NULL), 0);
				cr_assert_eq(FAB->post_read(e->c, &sink, r.rkey, 0, NULL), 0);
				send_text(e->c, "y", NULL);
			}
			if (k == EV_DOWN) {
				FAB->close(other->c);
				other->c = NULL;
				RUN_UNTIL(p->loop, !closer->c);
			} else {
				RUN_UNTIL(p->loop, !closer->c && other->of[EV_DOWN]);
				cr_expect_eq(other->of[EV_DOWN], 1);
				cr_expect_eq(closer->of[EV_DOWN], 0, "close is silent");
			}
			run_ms(p->loop, 1);
			pair_free(p);
		}
	}
}

static struct fab_conn *asked;

static void keep_request(void *ctx, struct fab_conn *c, const void *priv, size_t len)
{
	(void)ctx, (void)priv, (void)len;
	asked = c;
}

/* Before the answer, after it, after attach, and without any of it; the peer
 * is told each time. */
Test(iwarp_conn, close_in_set_up)
{
	static const struct fab_listen_events keep = { .request = keep_request };

	for (int state = 0; state < 4; state++) {
		struct pair *p = pair_new();
		struct errbuf eb;
		pthread_t t;

		asked = NULL;
		cr_assert_eq(FAB->open(&p->pa, &p->a.c, &eb), 0);
		FAB->close(p->a.c);
		cr_assert_eq(FAB->listen(&p->pb, p->loop, &keep, p, &p->li, &eb), 0);
		FAB->listen_addr(p->li, &p->pa.server);
		cr_assert_eq(FAB->open(&p->pa, &p->a.c, &eb), 0);
		cr_assert_eq(pthread_create(&t, NULL, connect_thread, p), 0);
		RUN_UNTIL(p->loop, asked);
		if (state == 1)
			FAB->unlisten(p->li);
		if (state >= 1)
			cr_assert_eq(FAB->accept(asked, "y", 1, &eb), 0);
		if (state == 2)
			cr_assert_eq(FAB->attach(asked, p->loop, &events, &p->b), 0);
		if (state < 3)
			FAB->close(asked);
		RUN_UNTIL(p->loop, p->connected);
		pthread_join(t, NULL);
		cr_expect_eq(p->rc, state ? 0 : -ECONNRESET, "%d: %s", state, p->eb.text);
		if (state == 3) {
			/* The active one goes, before either was attached. */
			FAB->close(p->a.c);
			cr_assert_eq(FAB->attach(asked, p->loop, &events, &p->b), 0);
			RUN_UNTIL(p->loop, p->b.of[EV_DOWN]);
			FAB->close(asked);
		} else {
			if (state) {
				cr_assert_eq(FAB->attach(p->a.c, p->loop, &events, &p->a), 0);
				RUN_UNTIL(p->loop, p->a.of[EV_DOWN]);
			}
			FAB->close(p->a.c);
		}
		p->a.c = NULL;
		if (state != 1)
			FAB->unlisten(p->li);
		loop_free(p->loop);
		free(p);
	}
}

/* What is read ahead is people's data as well. */
Test(iwarp_conn, what_is_read_ahead_is_not_in_core_dumps)
{
	struct pair *p = pair_new();

	pair_connect(p);
	cr_expect(has_flag(p->a.c->rx.stage, " dd") && has_flag(p->b.c->rx.stage, " dd"));
	pair_free(p);
}

/* The request is there, its owner takes time, and the peer does not. On a busy machine
 * the peer's patience may end before it has asked: then it gets more. */
Test(iwarp_conn, peer_goes_before_the_answer)
{
	static const struct fab_listen_events keep = { .request = keep_request };
	struct pair *p = pair_new();
	struct errbuf eb;
	pthread_t t;

	asked = NULL;
	cr_assert_eq(FAB->listen(&p->pb, p->loop, &keep, p, &p->li, &eb), 0);
	FAB->listen_addr(p->li, &p->pa.server);
	for (p->pa.timeout_ms = 50; !asked; p->pa.timeout_ms *= 2) {
		p->connected = false;
		cr_assert_eq(FAB->open(&p->pa, &p->a.c, &eb), 0);
		cr_assert_eq(pthread_create(&t, NULL, connect_thread, p), 0);
		RUN_UNTIL(p->loop, p->connected);
		pthread_join(t, NULL);
		cr_assert_eq(p->rc, -ETIMEDOUT, "%s", p->eb.text);
		/* What it has sent is in our socket, if anything is. */
		run_ms(p->loop, 20);
		FAB->close(p->a.c);
		p->a.c = NULL;
	}
	p->b.c = asked;
	if (!FAB->accept(asked, "y", 1, &eb)) {
		cr_assert_eq(FAB->attach(asked, p->loop, &events, &p->b), 0);
		RUN_UNTIL(p->loop, p->b.of[EV_DOWN]);
	}
	pair_free(p);
}

/* The peer's process dies: with nothing under way, with data of ours that it
 * has not read, and with an answer half given. */
Test(iwarp_conn, peer_vanishes)
{
	for (int how = 0; how < 3; how++) {
		struct pair *p = pair_new();
		struct linger now = { .l_onoff = 1 };
		struct fab_sge sge = { .mem = src, .len = MIB };
		struct fab_mr mr;

		p->sockbuf = how ? 4096 : 0;
		pair_connect(p);
		say_hello(p);
		mr = reg(how == 1 ? p->b.c : p->a.c, dst, MIB, FAB_REMOTE_WRITE);
		if (how == 1) {
			loop_rewatch(p->loop, &p->b.c->watch, 0);
			cr_assert_eq(FAB->post_write(p->a.c, &sge, 1, mr.rkey, 0, NULL), 0);
			RUN_UNTIL(p->loop, p->a.c->tx.blocked);
			setsockopt(p->b.c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		} else if (how == 2) {
			cr_assert_eq(FAB->post_write(p->b.c, &sge, 1, mr.rkey, 0, NULL), 0);
			RUN_UNTIL(p->loop, p->a.c->stats.rx_placed > 0);
		}
		FAB->close(p->b.c);
		p->b.c = NULL;
		RUN_UNTIL(p->loop, p->a.of[EV_DOWN]);
		run_ms(p->loop, 20);
		cr_expect_eq(p->a.of[EV_DOWN], 1);
		cr_expect_eq(p->a.of[EV_WRITTEN], 0);
		cr_expect_eq(p->a.ev[p->a.n - 1].err, -ECONNRESET, "%d: %s", how, p->a.why);
		cr_expect_not_null(strstr(p->a.why, how == 0 ? "closed the connection" :
					  how == 1 ? "reset" : "middle of a frame"),
				   "%d: %s", how, p->a.why);
		pair_free(p);
	}
}

/* Calls that TCP has not delivered when their connection is given up were sent again on another
 * one. They must not reach the server later: a file that has been made again in the meantime
 * would be removed. The passive side's close is different: its last reply may be under way. */
Test(iwarp_conn, nothing_is_delivered_after_close)
{
	for (int passive = 0; passive < 2; passive++) {
		struct pair *p = pair_new();
		struct fab_sge sge = { .mem = src, .len = MIB };
		struct end *from, *to;
		struct fab_mr mr;
		char buf[65536];
		ssize_t n;
		int fd;

		p->sockbuf = 4096;
		pair_connect(p);
		say_hello(p);
		from = passive ? &p->b : &p->a;
		to = passive ? &p->a : &p->b;
		loop_rewatch(p->loop, &to->c->watch, 0);
		mr = reg(to->c, dst, MIB, FAB_REMOTE_WRITE);
		cr_assert_eq(FAB->post_write(from->c, &sge, 1, mr.rkey, 0, NULL), 0);
		RUN_UNTIL(p->loop, from->c->tx.blocked);
		fd = dup(to->c->fd);
		FAB->close(from->c);
		from->c = NULL;
		do {
			n = recv(fd, buf, sizeof(buf), 0);
		} while (n > 0);
		cr_expect_eq(n, passive ? 0 : -1);
		cr_expect(passive || errno == ECONNRESET, "%s", strerror(errno));
		close(fd);
		pair_free(p);
	}
}

/* ---- Damage on the way ---- */

Test(iwarp_conn, crc_finds_damage)
{
	/* A bit each in the length, the header, the payload, and the CRC. */
	static const unsigned at[] = { 5, 9, 13, 19, 30, 100, 20 + 2000, 20 + 2000 + 3 };

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		struct pair *p = pair_new();
		struct fab_sge sge = { .mem = src, .len = 2000 };

		p->pa.flags = FAB_CRC;
		p->use_proxy = true;
		pair_connect(p);
		say_hello(p);
		p->proxy.flip_way = &p->proxy.up;
		p->proxy.flip_at = p->proxy.up.passed + at[i];
		cr_assert_eq(FAB->post_send(p->a.c, &sge, 1, NULL), 0);
		RUN_UNTIL(p->loop, p->b.of[EV_DOWN] && p->a.of[EV_DOWN]);
		cr_expect_eq(p->b.of[EV_RECV], 0);
		if (at[i] >= 20)
			cr_expect_not_null(strstr(p->b.why, "CRC32c"), "%s", p->b.why);
		pair_free(p);
	}
}

/* ---- Two connections ---- */

/* A tag of one means nothing on the other. */
Test(iwarp_conn, tags_are_a_connections_own)
{
	struct pair *p = pair_up(), *q = pair_up();
	struct fab_sge sge = { .mem = src, .len = 100 };
	struct fab_mr mr;

	reg(p->a.c, dst, 4096, FAB_REMOTE_WRITE);
	mr = reg(p->a.c, dst, 4096, FAB_REMOTE_WRITE);
	say_hello(p);
	say_hello(q);
	memset(dst, 0xee, 4096);
	cr_assert_eq(FAB->post_write(q->b.c, &sge, 1, mr.rkey, 0, NULL), 0);
	RUN_UNTIL(q->loop, q->a.of[EV_DOWN]);
	cr_expect_eq(dst[0], 0xee);
	one_send(p, &p->a, &p->b, 4096, 1);
	one_send(p, &p->b, &p->a, 4096, 1);
	pair_free(q);
	pair_free(p);
}

/* ---- Threads ---- */

/* As a gateway does it: one loop listens, others serve. */
static struct {
	struct loop *loop;
	struct loop_msg take, give_back;
	struct fab_conn *c;
	struct end end;
	uint8_t in[NRECV][RECV_SIZE];
	_Atomic bool closed;
} server;

static void echo(struct end *e, struct event *ev)
{
	struct fab_sge sge = { .mem = ev->cookie, .len = ev->len };

	if (ev->kind == EV_RECV) {
		cr_assert_eq(FAB->post_send(e->c, &sge, 1, ev->cookie), 0);
	} else if (ev->kind == EV_SENT) {
		sge.len = RECV_SIZE;
		cr_assert_eq(FAB->post_recv(e->c, &sge, ev->cookie), 0);
	}
}

static void take_over(struct loop_msg *m)
{
	struct errbuf eb;

	(void)m;
	server.end.c = server.c;
	server.end.hook = echo;
	post_recvs(server.c, server.in);
	cr_assert_eq(FAB->accept(server.c, NULL, 0, &eb), 0);
	cr_assert_eq(FAB->attach(server.c, server.loop, &events, &server.end), 0);
}

static void hand_over(void *ctx, struct fab_conn *c, const void *priv, size_t len)
{
	(void)ctx, (void)priv, (void)len;
	server.c = c;
	server.take.fn = take_over;
	loop_post(server.loop, &server.take);
}

static void close_there(struct loop_msg *m)
{
	(void)m;
	FAB->close(server.c);
	server.closed = true;
	loop_stop(server.loop);
}

static void *server_main(void *arg)
{
	(void)arg;
	/* Each event of the end stops the loop. */
	while (!server.closed)
		loop_run(server.loop);
	return NULL;
}

Test(iwarp_conn, served_by_another_thread)
{
	static const struct fab_listen_events hand = { .request = hand_over };
	struct pair *p = pair_new();
	struct errbuf eb;
	pthread_t t, s;

	server.loop = server.end.loop = loop_new(NULL);
	cr_assert_eq(pthread_create(&s, NULL, server_main, NULL), 0);
	cr_assert_eq(FAB->listen(&p->pb, p->loop, &hand, p, &p->li, &eb), 0);
	FAB->listen_addr(p->li, &p->pa.server);
	cr_assert_eq(FAB->open(&p->pa, &p->a.c, &eb), 0);
	post_recvs(p->a.c, p->recv_a);
	cr_assert_eq(pthread_create(&t, NULL, connect_thread, p), 0);
	RUN_UNTIL(p->loop, p->connected);
	pthread_join(t, NULL);
	cr_assert_eq(p->rc, 0, "%s", p->eb.text);
	cr_assert_eq(FAB->attach(p->a.c, p->loop, &events, &p->a), 0);
	for (unsigned i = 1; i < 200; i++) {
		struct fab_sge sge = { .mem = src, .len = i * 20 };
		struct event *ev = p->a.ev;

		fill(src, sge.len, i);
		p->a.n = p->a.of[EV_RECV] = p->a.of[EV_SENT] = 0;
		cr_assert_eq(FAB->post_send(p->a.c, &sge, 1, NULL), 0);
		RUN_UNTIL(p->loop, p->a.of[EV_RECV] && p->a.of[EV_SENT]);
		ev += ev->kind != EV_RECV;
		cr_assert_eq(ev->len, sge.len);
		cr_assert_arr_eq(ev->cookie, src, sge.len);
		sge = (struct fab_sge){ .mem = ev->cookie, .len = RECV_SIZE };
		cr_assert_eq(FAB->post_recv(p->a.c, &sge, sge.mem), 0);
	}
	server.give_back.fn = close_there;
	loop_post(server.loop, &server.give_back);
	RUN_UNTIL(p->loop, p->a.of[EV_DOWN]);
	pthread_join(s, NULL);
	loop_free(server.loop);
	pair_free(p);
}

Test(iwarp_conn, ipv6)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	struct pair *p;

	if (fd < 0 || bind(fd, (struct sockaddr *)&in6, sizeof(in6)))
		cr_skip_test("no IPv6 here");
	close(fd);
	p = pair_new();
	memcpy(&p->pb.local, &in6, sizeof(in6));
	pair_connect(p);
	cr_assert_eq(p->rc, 0, "%s", p->eb.text);
	cr_expect_not_null(strstr(FAB->describe(p->b.c), "[::1]"), "%s", FAB->describe(p->b.c));
	one_send(p, &p->a, &p->b, 4000, 3);
	one_send(p, &p->b, &p->a, 4000, 3);
	pair_free(p);
}
