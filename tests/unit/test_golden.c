/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What Linux itself has sent over siw (tests/golden), read with our code. The codecs decode
 * each frame and header. Each chunk is compared with the RDMA operations on it. The live
 * provider gets Linux's bytes on its socket, in both roles.
 */
#include "golden.h"
#include "rpc/rpcmsg.h"
#include "rpcrdma/header.h"
#include "rpcrdma/pdata.h"
#include "test_iwarp.h"

TestSuite(golden, .timeout = 300);

static const char *const files[] = { "siw-v3.hex", "siw-v41.hex", "siw-crc.hex" };
#define NFILES (sizeof(files) / sizeof(files[0]))

static struct golden *next_file(struct golden *before)
{
	static size_t next;

	if (before)
		golden_free(before);
	else
		next = 0;
	return next < NFILES ? golden_read(files[next++]) : NULL;
}

/* Runs the next statement for each file, with g as its contents. */
#define EACH_FILE(g) \
	for (struct golden *g = next_file(NULL); g; g = next_file(g))

Test(golden, mpa)
{
	EACH_FILE(g) {
		const struct mpa_terms passive = { .ird = 16, .ord = 16 };
		const struct mpa_terms active = { .ird = g->side[CLIENT].mpa.ird };
		const bool ours = g->crc;       /* the client was ours */
		struct mpa_terms t;
		const char *why = "";

		for (int s = 0; s < SIDES; s++) {
			uint8_t buf[MPA_FRAME_MAX];
			struct rr_pdata pd;

			cr_assert_eq(mpa_encode(&g->side[s].mpa, buf), g->side[s].mpa_len);
			cr_expect_arr_eq(buf, g->side[s].bytes, g->side[s].mpa_len);
			cr_expect_eq(g->side[s].mpa.rev, 2);
			cr_expect(g->side[s].mpa.enhanced && !g->side[s].mpa.markers);
			rr_pdata_decode(&pd, g->side[s].mpa.priv, g->side[s].mpa.privlen);
			cr_expect(pd.present);
			cr_expect_eq(pd.send_size, 4096);
			cr_expect_eq(pd.recv_size, 4096);
			cr_expect_eq(pd.remote_inval, s == CLIENT);
		}
		cr_expect_eq(mpa_judge_request(&g->side[CLIENT].mpa, &passive, &t, &why), 0, "%s", why);
		cr_expect_eq(t.crc, ours);
		cr_expect_gt(t.ord, 0, "a server that may not read");
		cr_expect_eq(mpa_judge_reply(&g->side[SERVER].mpa, &active, &t, &why), 0, "%s", why);
		cr_expect_eq(t.crc, ours);
		cr_expect_gt(t.ird, 0);
	}
}

static uint32_t crc_of(const struct golden_frame *f)
{
	uint8_t put[DDP_CRC_BYTES];

	ddp_crc_put(put, ddp_crc(DDP_CRC_INIT, f->bytes, f->len - DDP_CRC_BYTES));
	return get32(put);
}

Test(golden, frames)
{
	EACH_FILE(g) {
		uint32_t msn[SIDES][DDP_QNS] = { { 0 } };
		unsigned seen[RDMAP_OPS] = { 0 };

		for (unsigned i = 0; i < g->nframes; i++) {
			const struct golden_frame *f = &g->frames[i];
			uint8_t buf[DDP_UNTAGGED_HDR];

			cr_assert_eq(ddp_encode(&f->h, buf), f->hdr);
			cr_expect_arr_eq(buf, f->bytes, f->hdr, "frame %u", i);
			seen[f->h.op]++;
			/* siw does not clear its pads, and does not have to. */
			for (uint32_t n = f->hdr + f->h.payload;
			     g->crc && f->from == CLIENT && n < f->len - DDP_CRC_BYTES; n++)
				cr_expect_eq(f->bytes[n], 0, "frame %u: pad", i);
			if (g->crc)
				cr_expect_eq(get32(f->bytes + f->len - DDP_CRC_BYTES), crc_of(f),
					     "frame %u: CRC", i);
			if (f->h.tagged)
				continue;
			cr_expect_eq(f->h.msn, msn[f->from][f->h.qn] + 1, "frame %u: MSN", i);
			msn[f->from][f->h.qn] += f->h.last;
		}
		cr_expect_gt(seen[RDMAP_WRITE], 0);
		cr_expect_gt(seen[RDMAP_READ_REQ], 0);
		cr_expect_gt(seen[RDMAP_READ_RESP], 0);
		cr_expect_gt(seen[RDMAP_SEND], 20);
		cr_expect_gt(seen[RDMAP_SEND_INV], 0);
		cr_expect_eq(seen[RDMAP_TERMINATE], 0);
	}
}

/* ---- Transport headers, and what was done with the chunks ---- */

#define CALLS_MAX 512u

/* A call, and what the server has done for it. */
struct call {
	struct rr_header h;
	uint64_t written[RR_WRITES_MAX + 1];    /* to each Write chunk; the Reply chunk */
	bool answered;
};

struct transcript {
	struct call *calls;
	unsigned n;
	struct ddp_read_req reads[64];          /* that the server has asked for */
	uint64_t got[64];
	unsigned nreads;
};

/* Is [to, to + len) of that STag in the chunk? */
static bool in_chunk(const struct rr_chunk *c, uint32_t stag, uint64_t to, uint32_t len)
{
	for (uint32_t i = 0; i < c->nseg; i++) {
		const struct rr_seg *s = &c->seg[i];

		if (s->handle == stag && to >= s->offset && to + len <= s->offset + s->length)
			return true;
	}
	return false;
}

static void server_wrote(struct transcript *t, const struct golden_frame *f)
{
	for (unsigned i = t->n; i-- > 0; ) {
		struct call *k = &t->calls[i];

		if (k->answered)
			continue;
		for (uint32_t w = 0; w < k->h.nwrites; w++)
			if (in_chunk(&k->h.writes[w], f->h.stag, f->h.to, f->h.payload)) {
				k->written[w] += f->h.payload;
				return;
			}
		if (k->h.has_reply && in_chunk(&k->h.reply, f->h.stag, f->h.to, f->h.payload)) {
			k->written[RR_WRITES_MAX] += f->h.payload;
			return;
		}
	}
	cr_assert_fail("the server wrote to an STag that no call offers: %08x", f->h.stag);
}

static void server_reads(struct transcript *t, const struct golden_frame *f)
{
	struct ddp_read_req r;

	cr_assert_eq(f->h.payload, DDP_READ_REQ);
	ddp_read_decode(&r, f->payload);
	t->reads[t->nreads++ % 64] = r;
	for (unsigned i = 0; i < t->n; i++)
		for (uint32_t n = 0; !t->calls[i].answered && n < t->calls[i].h.nreads; n++) {
			struct rr_chunk one = { 1, { t->calls[i].h.reads[n].seg } };

			if (in_chunk(&one, r.src_stag, r.src_to, r.len))
				return;
		}
	cr_assert_fail("the server read from an STag that no call offers: %08x", r.src_stag);
}

static void client_responds(struct transcript *t, const struct golden_frame *f)
{
	for (unsigned i = 0; i < t->nreads; i++) {
		struct ddp_read_req *r = &t->reads[i];

		if (r->sink_stag == f->h.stag && f->h.to == r->sink_to + t->got[i]) {
			t->got[i] += f->h.payload;
			cr_assert_leq(t->got[i], r->len);
			cr_expect_eq(f->h.last, t->got[i] == r->len);
			return;
		}
	}
	cr_assert_fail("a response that nobody asked for");
}

static bool offered(const struct call *k, uint32_t stag)
{
	bool found = k->h.has_reply && in_chunk(&k->h.reply, stag, k->h.reply.seg[0].offset, 0);

	for (uint32_t i = 0; i < k->h.nreads; i++)
		found |= k->h.reads[i].seg.handle == stag;
	for (uint32_t i = 0; i < k->h.nwrites; i++)
		found |= in_chunk(&k->h.writes[i], stag, k->h.writes[i].seg[0].offset, 0);
	return found;
}

static void replied(struct transcript *t, const struct rr_header *h, const struct golden_send *m,
		    const struct golden_frame *f, uint32_t at)
{
	struct call *k = NULL;
	struct rpc_auth_call auth = { .flavor = &rpc_auth_sys };
	uint32_t why;
	XDR x;

	for (unsigned i = 0; i < t->n; i++)
		if (t->calls[i].h.xid == h->xid && !t->calls[i].answered)
			k = &t->calls[i];
	cr_assert(k, "a reply to nothing: %08x", h->xid);
	k->answered = true;
	if (f->h.op == RDMAP_SEND_INV)
		cr_expect(offered(k, f->h.stag), "invalidates what was not offered");
	/* RFC 8166: the reply returns the chunks, with the lengths written. */
	cr_expect_eq(h->nreads, 0);
	cr_expect_eq(h->nwrites, k->h.nwrites);
	for (uint32_t i = 0; i < h->nwrites; i++)
		cr_expect_eq(rr_chunk_len(&h->writes[i]), k->written[i]);
	if (h->proc == RR_NOMSG) {
		cr_expect(h->has_reply);
		cr_expect_eq(rr_chunk_len(&h->reply), k->written[RR_WRITES_MAX]);
		return;
	}
	xdrmem_create(&x, (char *)m->bytes + at, m->len - at, XDR_DECODE);
	cr_expect_eq(rpcmsg_reply(&x, h->xid, &auth, &why), 0, "reply %08x", h->xid);
}

/* A Send of either side: header, message, and what it is about. */
static void message(struct transcript *t, const struct golden *g, const struct golden_send *m)
{
	const struct golden_frame *f = &g->frames[m->frame];
	struct rr_header h;
	uint8_t buf[4096];
	int n = rr_header_decode(&h, m->bytes, m->len);

	cr_assert_gt(n, 0);
	cr_assert_eq(rr_header_size(&h), (size_t)n);
	cr_assert_eq(rr_header_encode(&h, buf, sizeof(buf)), n);
	cr_expect_arr_eq(buf, m->bytes, (size_t)n);
	cr_expect_gt(h.credit, 0);
	if (h.proc == RR_MSG) {
		cr_assert_geq(m->len, (uint32_t)n + 8);
		cr_expect_eq(get32(m->bytes + n), h.xid);
	}
	if (m->from == SERVER && (h.proc == RR_NOMSG || get32(m->bytes + n + 4) == 1)) {
		replied(t, &h, m, f, (uint32_t)n);
	} else if (m->from == CLIENT && (h.proc == RR_NOMSG || get32(m->bytes + n + 4) == 0)) {
		cr_assert_lt(t->n, CALLS_MAX);
		t->calls[t->n++] = (struct call){ .h = h };
	} /* else: the back channel */
}

Test(golden, messages_and_chunks)
{
	EACH_FILE(g) {
		struct transcript t = { .calls = calloc(CALLS_MAX, sizeof(struct call)) };
		unsigned send = 0, written = 0;

		cr_assert_not_null(t.calls);
		for (unsigned i = 0; i < g->nframes; i++) {
			const struct golden_frame *f = &g->frames[i];

			if (f->h.op == RDMAP_READ_REQ)
				server_reads(&t, f);
			else if (f->h.op == RDMAP_READ_RESP)
				client_responds(&t, f);
			else if (f->h.op == RDMAP_WRITE && f->h.payload)
				server_wrote(&t, f), written++;
			else if (send < g->nsends && g->sends[send].frame == i)
				message(&t, g, &g->sends[send++]);
		}
		cr_expect_eq(send, g->nsends);
		cr_expect_gt(written, 0);
		cr_expect_gt(t.nreads, 0);
		for (unsigned i = 0; i < t.nreads; i++)
			cr_expect_eq(t.got[i], t.reads[i].len);
		for (unsigned i = 0; i < t.n; i++)
			cr_expect(t.calls[i].answered, "call %u: no reply", i);
		free(t.calls);
	}
}

/* ---- The provider, with a recorded peer ---- */

#define PLAY_RECVS 64u

static uint8_t play_mem[PLAY_RECVS][RECV_SIZE];

static void play_recvs(struct fab_conn *c)
{
	for (unsigned i = 0; i < PLAY_RECVS; i++) {
		struct fab_sge sge = { .mem = play_mem[i], .len = RECV_SIZE };

		cr_assert_eq(FAB->post_recv(c, &sge, play_mem[i]), 0);
	}
}

/* Bytes of the recorded side, in pieces, as TCP would cut them at worst. */
static void play(int fd, const struct golden *g, enum golden_side s, uint32_t from, uint32_t to,
		 unsigned *seed)
{
	while (from < to) {
		uint32_t n = 1 + (uint32_t)rand_r(seed) % 400;

		if (n > to - from)
			n = to - from;
		cr_assert_eq(send(fd, g->side[s].bytes + from, n, MSG_NOSIGNAL), (ssize_t)n);
		from += n;
	}
}

/* Checks that the provider delivers what that side has sent. */
static void check_heard(const struct end *e, const struct golden *g, enum golden_side s)
{
	unsigned n = 0;

	for (unsigned i = 0; n < g->side[s].nonly_sends; i++) {
		if (g->sends[i].from != s)
			continue;
		cr_assert_eq(e->ev[n].kind, EV_RECV);
		cr_assert_eq(e->ev[n].len, g->sends[i].len);
		cr_expect_arr_eq(e->ev[n].cookie, g->sends[i].bytes, g->sends[i].len);
		n++;
	}
	cr_expect_eq(e->of[EV_DOWN], 0, "%s", e->why);
}

static struct end heard;
static struct golden *playing;

static void take_request(void *ctx, struct fab_conn *c, const void *priv, size_t len)
{
	const struct mpa_frame *said = &playing->side[CLIENT].mpa;
	struct errbuf eb;

	(void)ctx;
	cr_assert_eq(len, said->privlen);
	cr_expect_arr_eq(priv, said->priv, len);
	heard.c = c;
	play_recvs(c);
	cr_assert_eq(FAB->accept(c, playing->side[SERVER].mpa.priv,
				 playing->side[SERVER].mpa.privlen, &eb), 0, "%s", eb.text);
	cr_assert_eq(FAB->attach(c, heard.loop, &events, &heard), 0);
}

Test(golden, passive_role_serves_linux_client)
{
	static const struct fab_listen_events ev = { .request = take_request };

	EACH_FILE(g) {
		struct fab_params pr = { .max_send = 8, .max_recv = PLAY_RECVS, .timeout_ms = 5000,
					 .local = loopback(0) };
		struct fab_listener *li;
		struct sockaddr_storage where;
		uint8_t reply[MPA_FRAME_MAX];
		struct errbuf eb;
		unsigned seed = 3;
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		playing = g;
		heard = (struct end){ .loop = loop_new(NULL) };
		cr_assert_eq(FAB->listen(&pr, heard.loop, &ev, NULL, &li, &eb), 0, "%s", eb.text);
		FAB->listen_addr(li, &where);
		cr_assert_eq(connect(fd, (struct sockaddr *)&where, sizeof(struct sockaddr_in)), 0);
		play(fd, g, CLIENT, 0, g->side[CLIENT].mpa_len, &seed);
		RUN_UNTIL(heard.loop, heard.c);
		/* The same answer as siw's, but for what IRD and ORD are. */
		cr_assert_eq(recv(fd, reply, g->side[SERVER].mpa_len, MSG_WAITALL),
			     (ssize_t)g->side[SERVER].mpa_len);
		memcpy(reply + MPA_HDR, g->side[SERVER].bytes + MPA_HDR, MPA_DEPTHS);
		cr_expect_arr_eq(reply, g->side[SERVER].bytes, g->side[SERVER].mpa_len);
		play(fd, g, CLIENT, g->side[CLIENT].mpa_len, g->side[CLIENT].only_sends, &seed);
		cr_assert_geq(g->side[CLIENT].nonly_sends, 5);
		RUN_UNTIL(heard.loop, heard.of[EV_DOWN] ||
			  heard.of[EV_RECV] == g->side[CLIENT].nonly_sends);
		check_heard(&heard, g, CLIENT);
		FAB->close(heard.c);
		FAB->unlisten(li);
		loop_free(heard.loop);
		close(fd);
	}
}

/* Linux's server, on a thread: the other side blocks in connect. */
static void *recorded_server(void *arg)
{
	int fd = accept(*(int *)arg, NULL, NULL);
	uint8_t request[MPA_FRAME_MAX];
	unsigned seed = 5;

	/* The client's is of the same size: it says the same. */
	cr_assert_eq(recv(fd, request, playing->side[CLIENT].mpa_len, MSG_WAITALL),
		     (ssize_t)playing->side[CLIENT].mpa_len);
	play(fd, playing, SERVER, 0, playing->side[SERVER].only_sends, &seed);
	*(int *)arg = fd;
	return NULL;
}

Test(golden, active_role_hears_linux_server)
{
	EACH_FILE(g) {
		struct fab_params pr = { .max_send = 8, .max_recv = PLAY_RECVS, .timeout_ms = 5000,
					 .flags = g->crc ? FAB_CRC : 0,
					 .ird = g->side[CLIENT].mpa.ird };
		const struct mpa_frame *say = &g->side[CLIENT].mpa, *hear = &g->side[SERVER].mpa;
		uint8_t priv[FAB_PRIV_RECV_MAX];
		size_t len = sizeof(priv);
		int listening = socket(AF_INET, SOCK_STREAM, 0), fd = listening;
		struct errbuf eb = { "" };
		pthread_t thread;

		playing = g;
		heard = (struct end){ .loop = loop_new(NULL) };
		pr.server = loopback(0);
		cr_assert_eq(bind(fd, (struct sockaddr *)&pr.server, sizeof(struct sockaddr_in)), 0);
		cr_assert_eq(listen(fd, 1), 0);
		pr.server = loopback(port_of(fd));
		cr_assert_eq(pthread_create(&thread, NULL, recorded_server, &fd), 0);
		cr_assert_eq(FAB->open(&pr, &heard.c, &eb), 0, "%s", eb.text);
		play_recvs(heard.c);
		cr_assert_eq(FAB->connect(heard.c, say->priv, say->privlen, priv, &len, &eb), 0,
			     "%s", eb.text);
		cr_assert_eq(len, hear->privlen);
		cr_expect_arr_eq(priv, hear->priv, len);
		pthread_join(thread, NULL);
		cr_assert_eq(FAB->attach(heard.c, heard.loop, &events, &heard), 0);
		cr_assert_geq(g->side[SERVER].nonly_sends, 1);
		RUN_UNTIL(heard.loop, heard.of[EV_DOWN] ||
			  heard.of[EV_RECV] == g->side[SERVER].nonly_sends);
		check_heard(&heard, g, SERVER);
		FAB->close(heard.c);
		loop_free(heard.loop);
		close(fd);
		close(listening);
	}
}
