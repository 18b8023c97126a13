/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * iWARP: peers that violate the rules. Each attack is bytes on a raw socket. It has to end
 * its connection once, with the right message, and do nothing else: memory around that which
 * the peer may write to does not change, and a connection between two honest ends on the
 * same loop goes on.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include "test_iwarp.h"

TestSuite(iwarp_bad, .timeout = 300);

#define REGION 4096u            /* of each right: nothing, all, write, read, nothing */
#define RECV   1024u
#define RECVS  2
/* The longest memory that frames are guessed for, and some that is longer. */
#define AREA   9000u

enum { PAD1, WRITABLE, PAD2, READABLE, PAD3, SINK, PAD4, REGIONS };

static uint8_t mem[REGIONS * REGION], recvs[RECVS + 1][RECV], big[1u << 20];

static struct pair *honest;
static struct fab_listener *li;
static struct end victim;
static struct fab_mr mr_write, mr_read, mr_dead, mr_local, mr_big;
static int raw = -1;

/* ---- The attacker's side: frames, right or wrong ---- */

static struct {
	uint8_t b[256 << 10];
	unsigned n;
	uint32_t msn;           /* of the next honest Send */
	bool crc, bad_crc;
} out;

static void emit(struct ddp_hdr h, const void *payload)
{
	uint8_t *at = out.b + out.n;
	unsigned size = ddp_encode(&h, at), pad;

	if (payload)
		memcpy(at + size, payload, h.payload);
	else
		memset(at + size, 0x55, h.payload);
	size += h.payload;
	pad = -size & 3;
	memset(at + size, 0, pad + 4);
	size += pad;
	if (out.crc)
		ddp_crc_put(at + size, ddp_crc(DDP_CRC_INIT, at, size));
	if (out.bad_crc)
		at[size] ^= 1;
	out.n += size + 4;
}

static void send_seg(uint32_t msn, uint32_t mo, uint32_t len, bool last)
{
	emit((struct ddp_hdr){
		.op = RDMAP_SEND, .msn = msn, .mo = mo, .payload = len, .last = last }, NULL);
}

static void hello(void)
{
	send_seg(out.msn++, 0, 5, true);
}

static void tagged(enum rdmap_op op, uint32_t stag, uint64_t to, uint32_t len, bool last)
{
	emit((struct ddp_hdr){
		.tagged = true, .op = op, .stag = stag, .to = to, .payload = len, .last = last },
	     NULL);
}

static void read_req(uint32_t msn, uint32_t stag, uint64_t to, uint32_t len)
{
	uint8_t b[DDP_READ_REQ];

	ddp_read_encode(&(struct ddp_read_req){
		.sink_stag = 0x700, .len = len, .src_stag = stag, .src_to = to }, b);
	emit((struct ddp_hdr){
		.op = RDMAP_READ_REQ, .qn = DDP_QN_READ, .msn = msn, .payload = DDP_READ_REQ,
		.last = true }, b);
}

static void bytes(const void *p, unsigned n)
{
	memcpy(out.b + out.n, p, n);
	out.n += n;
}

static void header(uint16_t ulpdu, uint8_t ddp, uint8_t rdmap)
{
	uint8_t b[64] = { 0 };

	put16(b, ulpdu);
	b[2] = ddp;
	b[3] = rdmap;
	bytes(b, sizeof(b));
}

/* ---- Attacks ---- */

static void garbage_ff(void) { memset(out.b, 0xff, 4096); out.n = 4096; }
static void garbage_0(void) { memset(out.b, 0, 4096); out.n = 4096; }
static void http(void) { bytes("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", 36); }
static void half_frame(void) { send_seg(1, 0, 500, true); out.n -= 300; }
static void half_header(void) { send_seg(1, 0, 500, true); out.n = 7; }
static void half_trailer(void) { send_seg(1, 0, 501, true); out.n -= 3; }
static void length_0(void) { header(0, 0x41, 0x43); }
static void length_tagged(void) { header(13, 0xc1, 0x40); }
static void length_untagged(void) { header(17, 0x41, 0x43); }
static void ddp_0_tagged(void) { header(20, 0xc0, 0x40); }
static void ddp_2_untagged(void) { header(20, 0x42, 0x43); }
static void rdmap_0(void) { header(20, 0x41, 0x03); }
static void opcode_8(void) { header(20, 0x41, 0x48); }
static void opcode_15(void) { header(20, 0x41, 0x4f); }
static void tagged_send(void) { header(20, 0xc1, 0x43); }
static void untagged_write(void) { header(20, 0x41, 0x40); }

static void qn(enum rdmap_op op, uint32_t n)
{
	emit((struct ddp_hdr){ .op = op, .qn = n, .msn = 1, .payload = 28, .last = true }, NULL);
}

static void send_qn_1(void) { qn(RDMAP_SEND, 1); }
static void send_qn_3(void) { qn(RDMAP_SEND, 3); }
static void send_qn_max(void) { qn(RDMAP_SEND, UINT32_MAX); }
static void read_qn_0(void) { qn(RDMAP_READ_REQ, 0); }
static void term_qn_0(void) { qn(RDMAP_TERMINATE, 0); }
static void msn_0(void) { send_seg(0, 0, 5, true); }
static void msn_2(void) { send_seg(2, 0, 5, true); }
static void msn_again(void) { hello(); send_seg(1, 0, 5, true); }
static void msn_other(void) { send_seg(1, 0, 5, false); send_seg(2, 5, 5, true); }
static void mo_first(void) { send_seg(1, 4, 5, true); }
static void mo_gap(void) { send_seg(1, 0, 8, false); send_seg(1, 12, 8, true); }
static void mo_overlap(void) { send_seg(1, 0, 8, false); send_seg(1, 4, 8, true); }
static void mo_huge(void) { send_seg(1, 0, 8, false); send_seg(1, UINT32_MAX - 3, 8, true); }
static void too_long(void) { send_seg(1, 0, RECV + 1, true); }
static void far_too_long(void) { send_seg(1, 0, 65500, true); }
static void too_long_in_2(void) { send_seg(1, 0, 1000, false); send_seg(1, 1000, 25, true); }
static void no_recv(void) { hello(); hello(); hello(); }
static void no_recv_empty(void) { hello(); hello(); send_seg(3, 0, 0, true); }

static void wr(uint32_t stag, uint64_t to, uint32_t len)
{
	hello();
	tagged(RDMAP_WRITE, stag, to, len, true);
}

static void stag_0(void) { wr(0, 0, 16); }
static void stag_max(void) { wr(UINT32_MAX, 0, 16); }
static void stag_key(void) { wr(mr_write.rkey ^ 1, 0, 16); }
static void stag_index(void) { wr(mr_write.rkey ^ 1u << 18, 0, 16); }
static void stag_dead(void) { wr(mr_dead.rkey, 0, 16); }
static void bounds_1(void) { wr(mr_write.rkey, REGION, 1); }
static void bounds_2(void) { wr(mr_write.rkey, REGION - 100, 101); }
static void bounds_3(void) { wr(mr_write.rkey, 0, 65000); }
static void bounds_4(void) { wr(mr_write.rkey, 1ull << 63, 16); }
static void wrap(void) { wr(mr_write.rkey, UINT64_MAX - 3, 16); }
static void wr_read_only(void) { wr(mr_read.rkey, 0, 16); }
static void wr_local(void) { wr(mr_local.rkey, 0, 16); }

static void bounds_2nd(void)
{
	tagged(RDMAP_WRITE, mr_write.rkey, REGION - 16, 16, false);
	tagged(RDMAP_WRITE, mr_write.rkey, REGION, 4, true);
}

static void two_writes(uint32_t stag, uint64_t to, enum rdmap_op op)
{
	tagged(RDMAP_WRITE, mr_write.rkey, 0, 16, false);
	tagged(op, stag, to, 16, true);
}

static void overlap_same(void) { two_writes(mr_write.rkey, 8, RDMAP_WRITE); }
static void overlap_gap(void) { two_writes(mr_write.rkey, 32, RDMAP_WRITE); }
static void overlap_back(void) { two_writes(mr_write.rkey, 0, RDMAP_WRITE); }
static void overlap_stag(void) { two_writes(mr_big.rkey, 16, RDMAP_WRITE); }
static void overlap_op(void) { two_writes(mr_write.rkey, 16, RDMAP_READ_RESP); }

static void mixed_send(void)
{
	send_seg(1, 0, 8, false);
	emit((struct ddp_hdr){ .op = RDMAP_SEND_SE, .msn = 1, .mo = 8, .last = true }, NULL);
}

static void mixed_read(void) { send_seg(1, 0, 8, false); read_req(1, mr_read.rkey, 0, 8); }
static void rd_stag(void) { read_req(1, mr_read.rkey ^ 0x10, 0, 8); }
static void rd_dead(void) { read_req(1, mr_dead.rkey, 0, 8); }
static void rd_bounds(void) { read_req(1, mr_read.rkey, 1, REGION); }
static void rd_huge(void) { read_req(1, mr_read.rkey, 0, UINT32_MAX); }
static void rd_wrap(void) { read_req(1, mr_read.rkey, UINT64_MAX, 2); }
static void rd_write_only(void) { read_req(1, mr_write.rkey, 0, 8); }
static void rd_local(void) { read_req(1, mr_local.rkey, 0, 8); }
static void rd_msn(void) { read_req(2, mr_read.rkey, 0, 8); }

static void rd_form(uint32_t len, uint32_t mo, bool last)
{
	emit((struct ddp_hdr){ .op = RDMAP_READ_REQ, .qn = DDP_QN_READ, .msn = 1, .mo = mo,
			       .payload = len, .last = last }, NULL);
}

static void rd_short(void) { rd_form(27, 0, true); }
static void rd_empty(void) { rd_form(0, 0, true); }
static void rd_long(void) { rd_form(1000, 0, true); }
static void rd_not_last(void) { rd_form(28, 0, false); }
static void rd_mo(void) { rd_form(28, 4, true); }
/* 17 and 16 are agreed on; none of the answers is read. */
static void rd_ird(void) { for (uint32_t i = 1; i < 18; i++) read_req(i, mr_big.rkey, 0, 1 << 20); }

/* The victim has asked for 1000 bytes to offset 0 of mr_local. */
static void rsp(uint32_t stag, uint64_t to, uint32_t len, bool last)
{
	tagged(RDMAP_READ_RESP, stag, to, len, last);
}

static void rsp_none(void) { rsp(mr_write.rkey, 0, 8, true); }
static void rsp_stag(void) { rsp(mr_write.rkey, 0, 1000, true); }
static void rsp_to(void) { rsp(mr_local.rkey, 4, 1000, true); }
static void rsp_long(void) { rsp(mr_local.rkey, 0, 1001, true); }
static void rsp_short(void) { rsp(mr_local.rkey, 0, 999, true); }
static void rsp_not_last(void) { rsp(mr_local.rkey, 0, 1000, false); }
static void rsp_2nd(void) { rsp(mr_local.rkey, 0, 500, false); rsp(mr_local.rkey, 500, 501, true); }
static void rsp_twice(void) { rsp(mr_local.rkey, 0, 1000, true); rsp(mr_local.rkey, 0, 1000, true); }

static void inval(uint32_t stag)
{
	emit((struct ddp_hdr){ .op = RDMAP_SEND_INV, .msn = 1, .stag = stag, .payload = 4,
			       .last = true }, NULL);
}

static void inval_0(void) { inval(0); }
static void inval_dead(void) { inval(mr_dead.rkey); }
static void inval_local(void) { inval(mr_local.rkey); }

static void term(const void *p, uint32_t len)
{
	emit((struct ddp_hdr){ .op = RDMAP_TERMINATE, .qn = DDP_QN_TERM, .msn = 1,
			       .payload = len, .last = true }, p);
}

static void term_rfc(void) { term("\x11\x00\x00\x00", 4); }
static void term_siw(void) { term("\x10\x05\x00\x00", 4); }
static void term_empty(void) { term("", 0); }
static void term_long(void) { uint8_t p[65] = { 0x10 }; term(p, sizeof(p)); }
static void term_in_send(void) { send_seg(1, 0, 8, false); term_rfc(); }
static void crc_bad(void) { out.bad_crc = true; hello(); }
static void nothing(void) { }
static void reset(void)
{
	struct linger now = { .l_onoff = 1 };

	setsockopt(raw, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(raw);
	raw = -1;
}

static const struct attack {
	const char *name;
	void (*fn)(void);
	enum iw_error e;        /* that it is; IW_OK: see below */
	const char *why;        /* a part of what is said, if not the words of e */
	bool crc, fin, reads;   /* the peer closes after it; the victim reads */
} attacks[] = {
#define A(f, ...) { .name = #f, .fn = f, __VA_ARGS__ }
	A(garbage_ff, .e = IW_E_TAGGED_VERSION),
	A(garbage_0, .e = IW_E_LENGTH),
	A(http, .why = "the peer"),
	A(half_frame, .why = "middle of a frame", .fin = true),
	A(half_header, .why = "middle of a frame", .fin = true),
	A(half_trailer, .why = "middle of a frame", .fin = true),
	A(nothing, .why = "closed the connection", .fin = true),
	A(reset, .why = "reset"),
	A(length_0, .e = IW_E_LENGTH), A(length_tagged, .e = IW_E_LENGTH),
	A(length_untagged, .e = IW_E_LENGTH),
	A(ddp_0_tagged, .e = IW_E_TAGGED_VERSION), A(ddp_2_untagged, .e = IW_E_UNTAGGED_VERSION),
	A(rdmap_0, .e = IW_E_RDMAP_VERSION),
	A(opcode_8, .e = IW_E_OPCODE), A(opcode_15, .e = IW_E_OPCODE),
	A(tagged_send, .e = IW_E_OPCODE), A(untagged_write, .e = IW_E_OPCODE),
	A(send_qn_1, .e = IW_E_QN), A(send_qn_3, .e = IW_E_QN), A(send_qn_max, .e = IW_E_QN),
	A(read_qn_0, .e = IW_E_QN), A(term_qn_0, .e = IW_E_QN),
	A(msn_0, .e = IW_E_MSN), A(msn_2, .e = IW_E_MSN), A(msn_again, .e = IW_E_MSN),
	A(msn_other, .e = IW_E_MSN), A(rd_msn, .e = IW_E_MSN),
	A(mo_first, .e = IW_E_MO), A(mo_gap, .e = IW_E_MO), A(mo_overlap, .e = IW_E_MO),
	A(mo_huge, .e = IW_E_MO),
	A(too_long, .e = IW_E_TOO_LONG), A(far_too_long, .e = IW_E_TOO_LONG),
	A(too_long_in_2, .e = IW_E_TOO_LONG),
	A(no_recv, .e = IW_E_NO_RECV), A(no_recv_empty, .e = IW_E_NO_RECV),
	A(stag_0, .e = IW_E_STAG), A(stag_max, .e = IW_E_STAG), A(stag_key, .e = IW_E_STAG),
	A(stag_index, .e = IW_E_STAG), A(stag_dead, .e = IW_E_STAG),
	A(bounds_1, .e = IW_E_BOUNDS), A(bounds_2, .e = IW_E_BOUNDS), A(bounds_3, .e = IW_E_BOUNDS),
	A(bounds_4, .e = IW_E_BOUNDS), A(bounds_2nd, .e = IW_E_BOUNDS),
	A(wrap, .e = IW_E_WRAP),
	A(wr_read_only, .e = IW_E_ACCESS), A(wr_local, .e = IW_E_ACCESS),
	A(overlap_same, .e = IW_E_INTERSECT), A(overlap_gap, .e = IW_E_INTERSECT),
	A(overlap_back, .e = IW_E_INTERSECT), A(overlap_stag, .e = IW_E_INTERSECT),
	A(overlap_op, .e = IW_E_INTERSECT), A(mixed_send, .e = IW_E_INTERSECT),
	A(mixed_read, .e = IW_E_INTERSECT),
	A(rd_stag, .e = IW_E_READ_STAG), A(rd_dead, .e = IW_E_READ_STAG),
	A(rd_bounds, .e = IW_E_READ_BOUNDS), A(rd_huge, .e = IW_E_READ_BOUNDS),
	A(rd_wrap, .e = IW_E_READ_WRAP),
	A(rd_write_only, .e = IW_E_READ_ACCESS), A(rd_local, .e = IW_E_READ_ACCESS),
	A(rd_short, .e = IW_E_READ_FORM), A(rd_empty, .e = IW_E_READ_FORM),
	A(rd_long, .e = IW_E_READ_FORM), A(rd_not_last, .e = IW_E_READ_FORM), A(rd_mo, .e = IW_E_MO),
	A(rd_ird, .why = "Read Requests at once"),
	A(rsp_none, .e = IW_E_RESPONSE),
	A(rsp_stag, .e = IW_E_RESPONSE, .reads = true), A(rsp_to, .e = IW_E_RESPONSE, .reads = true),
	A(rsp_long, .e = IW_E_RESPONSE, .reads = true), A(rsp_short, .e = IW_E_RESPONSE, .reads = true),
	A(rsp_not_last, .e = IW_E_RESPONSE, .reads = true),
	A(rsp_2nd, .e = IW_E_RESPONSE, .reads = true), A(rsp_twice, .e = IW_E_RESPONSE, .reads = true),
	A(inval_0, .e = IW_E_INVALIDATE), A(inval_dead, .e = IW_E_INVALIDATE),
	A(inval_local, .e = IW_E_INVALIDATE),
	A(term_rfc, .why = "Terminate 11 00 (DDP"), A(term_siw, .why = "Terminate 10 05"),
	A(term_empty, .why = "(Terminate)"), A(term_long, .e = IW_E_TOO_LONG),
	A(term_in_send, .why = "Terminate 11 00"),
	A(crc_bad, .e = IW_E_CRC, .crc = true),
};

/* ---- The victim ---- */

static void victim_request(void *ctx, struct fab_conn *c, const void *priv, size_t len)
{
	struct errbuf eb;

	(void)ctx, (void)priv, (void)len;
	victim.c = c;
	for (int i = 0; i < RECVS; i++) {
		struct fab_sge sge = { .mem = recvs[i], .len = RECV };

		cr_assert_eq(FAB->post_recv(c, &sge, recvs[i]), 0);
	}
	FAB->reg(c, mem + WRITABLE * REGION, REGION, FAB_REMOTE_WRITE, &mr_dead, &eb);
	FAB->reg(c, mem + WRITABLE * REGION, REGION, FAB_REMOTE_WRITE, &mr_write, &eb);
	FAB->reg(c, mem + READABLE * REGION, REGION, FAB_REMOTE_READ, &mr_read, &eb);
	FAB->reg(c, mem + SINK * REGION, REGION, 0, &mr_local, &eb);
	FAB->reg(c, big, sizeof(big), FAB_REMOTE_READ | FAB_REMOTE_WRITE, &mr_big, &eb);
	FAB->dereg(c, &(struct fab_mr){ .rkey = mr_dead.rkey });
	cr_assert_eq(FAB->accept(c, NULL, 0, &eb), 0);
	cr_assert_eq(FAB->attach(c, honest->loop, &events, &victim), 0);
}

static const struct fab_listen_events victim_events = { .request = victim_request };

static int dial(void)
{
	struct sockaddr_storage ss;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	FAB->listen_addr(li, &ss);
	cr_assert_eq(connect(fd, (struct sockaddr *)&ss, sizeof(struct sockaddr_in)), 0);
	return fd;
}

static void set_up_ms(unsigned ms)
{
	struct fab_params params = {
		.local = loopback(0), .max_send = 8, .max_recv = RECVS, .timeout_ms = ms,
	};
	struct errbuf eb;

	honest = pair_up();
	say_hello(honest);
	victim.loop = honest->loop;
	cr_assert_eq(FAB->listen(&params, honest->loop, &victim_events, NULL, &li, &eb), 0);
}

static void set_up(void)
{
	set_up_ms(200);
}

static void set_up_patient(void)
{
	set_up_ms(MPA_TIMEOUT_MS);
}

static void tear_down(void)
{
	FAB->unlisten(li);
	pair_free(honest);
}

/* MPA done: raw is the attacker's socket. depths: of the Request, and then of
 * the Reply. */
static void meet_with(bool crc, uint8_t depths[static MPA_DEPTHS])
{
	struct mpa_frame req = { .rev = 2, .enhanced = true, .crc = crc };
	uint8_t buf[MPA_FRAME_MAX];
	size_t n = mpa_encode(&req, buf);

	memcpy(buf + MPA_HDR, depths, MPA_DEPTHS);
	memset(&victim, 0, sizeof(victim));
	victim.loop = honest->loop;
	memset(mem, 0xee, sizeof(mem));
	memset(recvs, 0xee, sizeof(recvs));
	out.n = 0;
	out.msn = 1;
	out.crc = crc;
	out.bad_crc = false;
	raw = dial();
	cr_assert_eq(send(raw, buf, n, 0), (ssize_t)n);
	RUN_UNTIL(honest->loop, victim.c);
	cr_assert_eq(recv(raw, buf, MPA_HDR + MPA_DEPTHS, MSG_WAITALL), MPA_HDR + MPA_DEPTHS);
	memcpy(depths, buf + MPA_HDR, MPA_DEPTHS);
}

static void meet(bool crc)
{
	meet_with(crc, (uint8_t[]){ 0, 16, 0, 16 });
}

static void push(void)
{
	unsigned done = 0;

	while (done < out.n) {
		ssize_t n = send(raw, out.b + done, out.n - done, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0)
			done += (unsigned)n;
		else if (errno == EAGAIN)
			run_ms(honest->loop, 1);
		else
			break;
	}
	out.n = 0;
}

static void still_well(void)
{
	struct end *ends[] = { &honest->a, &honest->b };

	for (int i = 0; i < 2; i++) {
		struct end *from = ends[i], *to = ends[!i];
		struct fab_sge again = { .len = RECV_SIZE };

		from->n = to->n = 0;
		memset(from->of, 0, sizeof(from->of));
		memset(to->of, 0, sizeof(to->of));
		send_text(from->c, "still here", NULL);
		RUN_UNTIL(honest->loop, to->of[EV_RECV] == 1 && from->of[EV_SENT] == 1);
		again.mem = to->ev[0].cookie;
		cr_assert_arr_eq(again.mem, "still here", 10);
		cr_assert_eq(FAB->post_recv(to->c, &again, again.mem), 0);
	}
}

static void memory_unharmed(const char *name, bool sink)
{
	for (unsigned i = 0; i < sizeof(mem); i++)
		if (i / REGION != WRITABLE && !(sink && i / REGION == SINK && i % REGION < 1000))
			cr_assert_eq(mem[i], 0xee, "%s: byte %u", name, i);
	for (unsigned i = 0; i < RECV; i++)
		cr_assert_eq(recvs[RECVS][i], 0xee, "%s", name);
}

/* The last frame that the attacker gets, if it is whole, says what it did. */
static void check_terminate(const char *name, enum iw_error e)
{
	static uint8_t in[65536];
	ssize_t n = 0, k;
	const uint8_t *p = in;

	while ((k = recv(raw, in + n, sizeof(in) - (size_t)n, MSG_DONTWAIT)) > 0)
		n += k;
	while (p + 4 <= in + n && (p[3] & RDMAP_OP_MASK) != RDMAP_TERMINATE)
		p += 2 + get16(p) + ddp_pad(get16(p)) + 4;
	cr_assert(p + 24 <= in + n, "%s: no Terminate", name);
	cr_expect_eq(p[2], 0x41);
	cr_expect_eq(get32(p + 8), DDP_QN_TERM);
	cr_expect_eq(get32(p + 12), 1);
	cr_expect_eq(p[20], iw_errors[e].where, "%s", name);
	cr_expect_eq(p[21], iw_errors[e].code, "%s", name);
	cr_expect_eq(p + 2 + get16(p) + ddp_pad(get16(p)) + 4, in + n, "%s: the end", name);
}

static void start_read(void)
{
	struct fab_sge sge = {
		.mem = mem + SINK * REGION, .len = 1000, .lkey = mr_local.lkey,
	};

	hello();
	push();
	RUN_UNTIL(honest->loop, victim.of[EV_RECV] == 1);
	cr_assert_eq(FAB->post_read(victim.c, &sge, 0x700, 0, NULL), 0);
	RUN_UNTIL(honest->loop, victim.c->stats.send_calls == 1);
}

Test(iwarp_bad, attacks, .init = set_up, .fini = tear_down)
{
	for (const struct attack *a = attacks;
	     a < attacks + sizeof(attacks) / sizeof(attacks[0]); a++) {
		const char *why = a->why ? a->why : iw_errors[a->e].why;

		meet(a->crc);
		if (a->reads)
			start_read();
		a->fn();
		push();
		if (a->fin)
			shutdown(raw, SHUT_WR);
		RUN_UNTIL(honest->loop, victim.of[EV_DOWN]);
		run_ms(honest->loop, 2);
		cr_expect_eq(victim.of[EV_DOWN], 1, "%s", a->name);
		cr_expect_eq(victim.ev[victim.n - 1].kind, EV_DOWN, "%s: nothing after", a->name);
		cr_expect_lt(victim.ev[victim.n - 1].err, 0, "%s", a->name);
		cr_expect_not_null(strstr(victim.why, why), "%s: %s", a->name, victim.why);
		cr_expect_null(strchr(victim.why, '\n'));
		memory_unharmed(a->name, a->reads);
		if (a->e)
			check_terminate(a->name, a->e);
		still_well();
		FAB->close(victim.c);
		if (raw >= 0)
			close(raw);
	}
}

/* One byte at a time, all of it is the same. */
Test(iwarp_bad, attacks_in_pieces, .init = set_up, .fini = tear_down)
{
	for (const struct attack *a = attacks;
	     a < attacks + sizeof(attacks) / sizeof(attacks[0]); a++) {
		const char *why = a->why ? a->why : iw_errors[a->e].why;

		if (a->reads || a->fn == reset || a->fn == rd_ird)
			continue;
		meet(a->crc);
		a->fn();
		for (unsigned i = 0; i < out.n && i < 500 && !victim.of[EV_DOWN]; i++) {
			if (send(raw, out.b + i, 1, MSG_NOSIGNAL) != 1)
				break;
			loop_stop(honest->loop);
			loop_run(honest->loop);
		}
		if (a->fin)
			shutdown(raw, SHUT_WR);
		else if (out.n > 500)
			send(raw, out.b + 500, out.n - 500, MSG_NOSIGNAL);
		RUN_UNTIL(honest->loop, victim.of[EV_DOWN]);
		cr_expect_not_null(strstr(victim.why, why), "%s: %s", a->name, victim.why);
		memory_unharmed(a->name, false);
		FAB->close(victim.c);
		close(raw);
	}
	still_well();
}

/* Frames that are allowed but rare. */
Test(iwarp_bad, odd_and_allowed, .init = set_up, .fini = tear_down)
{
	meet(false);
	tagged(RDMAP_WRITE, 0, 0, 0, true);             /* nothing to nowhere */
	tagged(RDMAP_WRITE, mr_write.rkey, 0, 100, false);
	emit((struct ddp_hdr){ .op = RDMAP_SEND_SE, .msn = 1, .payload = 10 }, NULL);
	tagged(RDMAP_WRITE, mr_write.rkey, 100, 0, false);
	emit((struct ddp_hdr){ .op = RDMAP_SEND_SE, .msn = 1, .mo = 10, .payload = 0 }, NULL);
	emit((struct ddp_hdr){ .op = RDMAP_SEND_SE, .msn = 1, .mo = 10, .payload = RECV - 10,
			       .last = true }, NULL);
	tagged(RDMAP_WRITE, mr_write.rkey, 100, REGION - 100, true);
	read_req(1, 0, 0, 0);                           /* nothing from nowhere */
	emit((struct ddp_hdr){ .op = RDMAP_SEND_SE_INV, .msn = 2, .stag = mr_write.rkey,
			       .last = true }, NULL);
	push();
	RUN_UNTIL(honest->loop, victim.of[EV_RECV] == 2 || victim.of[EV_DOWN]);
	cr_assert_eq(victim.of[EV_DOWN], 0, "%s", victim.why);
	cr_expect_eq(victim.ev[0].len, RECV);
	cr_expect_eq(victim.ev[1].len, 0);
	cr_expect(victim.ev[1].inval);
	cr_expect_eq(victim.ev[1].rkey, mr_write.rkey);
	for (unsigned i = 0; i < REGION; i++)
		cr_assert_eq(mem[WRITABLE * REGION + i], 0x55);
	memory_unharmed("odd", false);
	FAB->close(victim.c);
	close(raw);
}

/* ---- Guesses (placement_guess.c) ---- */

/* What came of a message has to be what was sent. */
static struct {
	uint8_t text[64][RECV], is[AREA], known[AREA], read[REGION];
	uint32_t len[64];
	unsigned sent, got;
} model;

static void model_recv(struct end *e, struct event *ev)
{
	struct fab_sge again = { .mem = ev->cookie, .len = RECV };
	unsigned i = model.got;

	if (ev->kind != EV_RECV)
		return;
	model.got++;
	cr_assert_lt(i, model.sent);
	cr_assert_eq(ev->len, model.len[i]);
	cr_assert_arr_eq(ev->cookie, model.text[i], ev->len);
	cr_assert_eq(FAB->post_recv(e->c, &again, ev->cookie), 0);
}

static void random_bytes(uint8_t *p, uint32_t n, unsigned *seed)
{
	while (n--)
		*p++ = (uint8_t)rand_r(seed);
}

static void model_send(unsigned *seed)
{
	unsigned i = model.sent++;

	model.len[i] = (uint32_t)rand_r(seed) % RECV;
	random_bytes(model.text[i], model.len[i], seed);
	emit((struct ddp_hdr){ .op = RDMAP_SEND, .msn = out.msn++, .payload = model.len[i],
			       .last = true }, model.text[i]);
}

/* A Write to a part of the memory, mostly to its start, in one or two segments. */
static void model_write(uint32_t stag, uint32_t size, unsigned *seed)
{
	uint32_t at = rand_r(seed) % 3 ? 0 : (uint32_t)rand_r(seed) % size;
	uint32_t len = rand_r(seed) % 2 ? size - at : (uint32_t)rand_r(seed) % (size - at + 1);
	uint32_t first = rand_r(seed) % 2 ? len : (uint32_t)rand_r(seed) % (len + 1);

	random_bytes(model.is + at, len, seed);
	memset(model.known + at, 1, len);
	emit((struct ddp_hdr){ .tagged = true, .op = RDMAP_WRITE, .stag = stag, .to = at,
			       .payload = first, .last = first == len }, model.is + at);
	if (first < len)
		emit((struct ddp_hdr){ .tagged = true, .op = RDMAP_WRITE, .stag = stag,
				       .to = at + first, .payload = len - first, .last = true },
		     model.is + at + first);
}

/* The victim reads, and this is the answer. Returns how long it is. */
static uint32_t model_read(unsigned *seed)
{
	uint64_t calls = victim.c->stats.send_calls;
	struct fab_sge sge = {
		.mem = mem + SINK * REGION, .len = 1 + (uint32_t)rand_r(seed) % REGION,
		.lkey = mr_local.lkey,
	};

	cr_assert_eq(FAB->post_read(victim.c, &sge, 0x700, 0, NULL), 0);
	RUN_UNTIL(honest->loop, victim.c->stats.send_calls > calls);
	random_bytes(model.read, sge.len, seed);
	emit((struct ddp_hdr){ .tagged = true, .op = RDMAP_READ_RESP, .stag = mr_local.rkey,
			       .payload = sge.len, .last = true }, model.read);
	return sge.len;
}

/* Sends what is there, in pieces that recvmsg() may or may not see as such. */
static void push_in_pieces(unsigned *seed)
{
	unsigned done = 0;

	while (done < out.n) {
		unsigned most = rand_r(seed) % 2 ? 64 : 20000, n = 1 + (unsigned)rand_r(seed) % most;

		if (n > out.n - done)
			n = out.n - done;
		cr_assert_eq(send(raw, out.b + done, n, MSG_NOSIGNAL), (ssize_t)n);
		done += n;
		if (rand_r(seed) % 2) {
			loop_stop(honest->loop);
			loop_run(honest->loop);
		}
	}
	out.n = 0;
}

/* Whatever comes, in whatever order: the messages are right, all that was written is there,
 * and nothing is written beside the memory. */
static void one_guess(unsigned *seed)
{
	uint32_t size = 1 + (uint32_t)rand_r(seed) % (rand_r(seed) % 2 ? 200 : AREA), stag, reads = 0;
	struct fab_mr mr;
	struct errbuf eb;

	memset(model.known, 0, sizeof(model.known));
	model.sent = model.got = 0;
	memset(big, 0xee, 2 * AREA);
	cr_assert_eq(FAB->reg(victim.c, big, size, FAB_REMOTE_WRITE, &mr, &eb), 0);
	stag = mr.rkey;
	if (rand_r(seed) % 4 == 0 && victim.of[EV_RECV])
		reads = model_read(seed);
	for (int i = rand_r(seed) % 5; i > 0; i--)
		if (rand_r(seed) % 2)
			model_send(seed);
		else
			model_write(stag, size, seed);
	model_send(seed);
	push_in_pieces(seed);
	RUN_UNTIL(honest->loop, model.got == model.sent || victim.of[EV_DOWN]);
	cr_assert_eq(victim.of[EV_DOWN], 0, "%s", victim.why);
	for (uint32_t i = 0; i < 2 * AREA; i++)
		cr_assert(i < size ? !model.known[i] || big[i] == model.is[i] : big[i] == 0xee,
			  "byte %u of %u", i, size);
	cr_assert_arr_eq(mem + SINK * REGION, model.read, reads);
	FAB->dereg(victim.c, &mr);
}

Test(iwarp_bad, guesses, .init = set_up, .fini = tear_down)
{
	unsigned seed = 1;

	for (int crc = 0; crc < 2; crc++) {
		meet(crc);
		victim.hook = model_recv;
		FAB->dereg(victim.c, &mr_write);
		FAB->dereg(victim.c, &mr_big);
		for (int i = 0; i < 1500; i++)
			one_guess(&seed);
		memset(mem + SINK * REGION, 0xee, REGION);
		memory_unharmed("guesses", false);
		cr_expect_gt(victim.c->stats.rx_placed, 1500u);
		FAB->close(victim.c);
		close(raw);
	}
}

/* Peer-to-peer mode: the frame that says "ready" carries nothing, moves nothing,
 * and lets the passive side speak. */
Test(iwarp_bad, ready_to_receive, .init = set_up, .fini = tear_down)
{
	/* The Request asks for Write, or Write or Read; for Read; for a Read of
	 * one that will do no other. */
	static const struct {
		uint8_t ask[4], get[4];
		bool read;
	} cases[] = {
		{ { 0x80, 16, 0x80, 16 }, { 0x80, 16, 0x80, 16 }, false },
		{ { 0x80, 16, 0xc0, 0 }, { 0x80, 0, 0x80, 16 }, false },
		{ { 0x80, 16, 0x40, 16 }, { 0x80, 16, 0x40, 16 }, true },
		{ { 0x80, 16, 0x40, 0 }, { 0x80, 1, 0x40, 16 }, true },
	};
	/* A Read Response of nothing to where the Request said. */
	static const uint8_t response[] = { 0, 14, 0xc1, 0x42, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ddp_hdr h = { .op = RDMAP_SEND };
		uint8_t depths[4], in[200], *p = in;
		enum iw_error e;
		ssize_t n;

		memcpy(depths, cases[i].ask, 4);
		meet_with(i & 1, depths);
		cr_expect_arr_eq(depths, cases[i].get, 4, "%zu: %02x%02x %02x%02x", i, depths[0],
				 depths[1], depths[2], depths[3]);
		send_text(victim.c, "first", NULL);
		run_ms(honest->loop, 10);
		cr_expect_eq(recv(raw, in, sizeof(in), MSG_DONTWAIT), -1, "not yet");
		if (cases[i].read)
			read_req(1, 0, 0, 0);
		else
			tagged(RDMAP_WRITE, 0, 0, 0, true);
		push();
		RUN_UNTIL(honest->loop, victim.of[EV_SENT] || victim.of[EV_DOWN]);
		cr_assert_eq(victim.of[EV_DOWN], 0, "%s", victim.why);
		cr_expect_eq(victim.of[EV_RECV], 0, "it takes no receive");
		run_ms(honest->loop, 5);
		n = recv(raw, in, sizeof(in), MSG_DONTWAIT);
		for (int frames = 0; frames < 1 + cases[i].read; frames++) {
			unsigned size;

			cr_assert_lt(p, in + n);
			size = ddp_decode(&h, p, (unsigned)(in + n - p), &e);
			cr_assert(size);
			if (h.op == RDMAP_READ_RESP)
				cr_expect_arr_eq(p, response, sizeof(response));
			else
				cr_expect_arr_eq(p + size, "first", 5);
			p += size + h.payload + ddp_pad(size - 2 + h.payload) + 4;
		}
		cr_expect_eq(p, in + n);
		/* And from here on as ever. */
		hello();
		push();
		RUN_UNTIL(honest->loop, victim.of[EV_RECV] == 1);
		memory_unharmed("ready", false);
		FAB->close(victim.c);
		close(raw);
	}
	still_well();
}

/* The test does not wait for 30 s: it makes the timer due. */
Test(iwarp_bad, half_a_frame_and_silence, .init = set_up, .fini = tear_down)
{
	meet(false);
	half_frame();
	push();
	RUN_UNTIL(honest->loop, victim.c->stats.rx_bytes && !list_empty(&victim.c->stall.node));
	loop_timer_set(honest->loop, &victim.c->stall, 0);
	RUN_UNTIL(honest->loop, victim.of[EV_DOWN] || !list_empty(&victim.c->stall.node));
	/* It looks back to when it was set: something may have come since. */
	if (!victim.of[EV_DOWN])
		loop_timer_set(honest->loop, &victim.c->stall, 0);
	RUN_UNTIL(honest->loop, victim.of[EV_DOWN]);
	cr_expect_not_null(strstr(victim.why, "30 s"), "%s", victim.why);
	cr_expect_eq(victim.ev[0].err, -ETIMEDOUT);
	FAB->close(victim.c);
	close(raw);
	still_well();
}

/* Right frames with some wrong bytes: whatever they do, only memory that is open to the peer
 * may change. */
Test(iwarp_bad, fuzz, .init = set_up, .fini = tear_down)
{
	unsigned seed = 1, survived = 0;

	for (int round = 0; round < 400; round++) {
		uint32_t stag;

		meet(round & 1);
		stag = mr_write.rkey;
		hello();
		tagged(RDMAP_WRITE, stag, 0, 1000, false);
		tagged(RDMAP_WRITE, stag, 1000, 3000, true);
		read_req(1, mr_read.rkey, 0, 4000);
		send_seg(2, 0, 400, false);
		send_seg(2, 400, 624, true);
		tagged(RDMAP_WRITE, stag, 10, 100, true);
		/* Where it hurts: the payloads are larger than all headers. */
		for (int i = rand_r(&seed) % 4; i >= 0; i--) {
			static const unsigned heads[] = { 0, 32, 1052, 4072, 4124, 4548, 5196 };
			unsigned at = heads[rand_r(&seed) % 7] + (unsigned)rand_r(&seed) % 48;

			if (at < out.n)
				out.b[at] = (uint8_t)((unsigned)rand_r(&seed) >> 4);
		}
		if (!(rand_r(&seed) % 8))
			out.n = (unsigned)rand_r(&seed) % out.n;
		push();
		shutdown(raw, SHUT_WR);
		RUN_UNTIL(honest->loop, victim.of[EV_DOWN]);
		survived += strstr(victim.why, "the peer closed the connection") != NULL;
		cr_expect_eq(victim.of[EV_DOWN], 1);
		memory_unharmed("fuzz", false);
		FAB->close(victim.c);
		close(raw);
	}
	cr_expect_lt(survived, 400);
	still_well();
}

/* ---- Bad peers before there is a connection: at the passive side ---- */

static bool gone(int fd)
{
	char b;

	return recv(fd, &b, 1, MSG_DONTWAIT) == 0 ||
		(errno != EAGAIN && errno != EINTR);
}

Test(iwarp_bad, requests, .init = set_up, .fini = tear_down)
{
	static const struct {
		const char *name, *bytes;
		size_t len;
		bool rejected;
	} cases[] = {
		{ "nothing", "", 0, false },
		{ "garbage", "GET / HTTP/1.0\r\n\r\n", 18, false },
		{ "a Reply", "MPA ID Rep Frame\x10\x02\0\x04\0\x10\0\0", 24, false },
		{ "half", "MPA ID Req Frame\x10\x02\0", 19, false },
		{ "no private data yet", "MPA ID Req Frame\x10\x02\0\x04\0", 21, false },
		{ "too much private data", "MPA ID Req Frame\x10\x02\x01\x01", 20, false },
		{ "far too much", "MPA ID Req Frame\x10\x02\xff\xff", 20, false },
		{ "no depths", "MPA ID Req Frame\x10\x02\0\x03\0\0\0", 23, false },
		{ "more than it", "MPA ID Req Frame\x10\x02\0\x04\0\x10\0\0\0", 25, false },
		{ "revision 1", "MPA ID Req Frame\0\x01\0\0", 20, true },
		{ "revision 3", "MPA ID Req Frame\x10\x03\0\x04\0\x10\0\0", 24, true },
		{ "markers", "MPA ID Req Frame\x90\x02\0\x04\0\x10\0\0", 24, true },
	};
	uint8_t buf[64];

	victim.c = NULL;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = dial();

		cr_assert_eq(send(fd, cases[i].bytes, cases[i].len, 0), (ssize_t)cases[i].len);
		if (cases[i].rejected) {
			ssize_t n = 0;

			RUN_UNTIL(honest->loop, (n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0);
			cr_expect_geq(n, 20, "%s", cases[i].name);
			cr_expect_arr_eq(buf, "MPA ID Rep Frame", 16);
			cr_expect(buf[16] & 0x20, "%s", cases[i].name);
		}
		RUN_UNTIL(honest->loop, gone(fd));
		cr_expect_null(victim.c, "%s", cases[i].name);
		close(fd);
	}
	still_well();
}

/* Silent peers cannot use up our files, and do not keep out a peer that speaks later. */
Test(iwarp_bad, many_silent_peers, .init = set_up, .fini = tear_down)
{
	int fd[100];

	for (int i = 0; i < 100; i++)
		fd[i] = dial();
	RUN_UNTIL(honest->loop, gone(fd[99]));
	run_ms(honest->loop, 300);
	for (int i = 0; i < 100; i++) {
		cr_expect(gone(fd[i]));
		close(fd[i]);
	}
	meet(false);
	hello();
	push();
	RUN_UNTIL(honest->loop, victim.of[EV_RECV]);
	FAB->close(victim.c);
	close(raw);
}

/* The oldest of them goes, and nobody waits for their time to be over. */
Test(iwarp_bad, silent_peers_give_way, .init = set_up_patient, .fini = tear_down)
{
	enum { MAX = 64 };
	int fd[MAX];
	uint64_t begin = mono_ns();

	for (int i = 0; i < MAX; i++)
		fd[i] = dial();
	run_ms(honest->loop, 20);
	for (int i = 0; i < MAX; i++)
		cr_expect_not(gone(fd[i]), "%d", i);
	meet(false);
	cr_expect(gone(fd[0]));
	for (int i = 1; i < MAX; i++)
		cr_expect_not(gone(fd[i]), "%d", i);
	hello();
	push();
	RUN_UNTIL(honest->loop, victim.of[EV_RECV]);
	cr_expect_lt(mono_ns() - begin, (MPA_TIMEOUT_MS - 1000) * 1000000ull);
	FAB->close(victim.c);
	close(raw);
	for (int i = 0; i < MAX; i++)
		close(fd[i]);
}

/* How often the log says `what`; fd is a pipe in place of standard error. */
static unsigned said(int fd, const char *what)
{
	char buf[8192];
	ssize_t len = read(fd, buf, sizeof(buf) - 1);
	unsigned n = 0;

	buf[len > 0 ? len : 0] = '\0';
	for (const char *at = buf; (at = strstr(at, what)); at++)
		n++;
	return n;
}

/* No file for a connection: it waits, and one line says so each time. */
Test(iwarp_bad, no_files, .init = set_up_patient, .fini = tear_down)
{
	struct rlimit old, none;
	int log[2], real = dup(STDERR_FILENO);

	cr_assert_eq(pipe2(log, O_NONBLOCK), 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	dup2(log[1], STDERR_FILENO);
	for (int round = 0; round < 2; round++) {
		int fd = dial(), next = dup(fd);
		uint8_t byte = 0;

		close(next);
		none = old;
		none.rlim_cur = (rlim_t)next;
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
		run_ms(honest->loop, 350);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
		cr_expect_eq(said(log[0], "must wait: Too many open files"), 1, "round %d", round);
		/* It is taken, heard and found wrong. */
		cr_assert_eq(send(fd, &byte, 1, 0), 1);
		RUN_UNTIL(honest->loop, gone(fd));
		cr_expect_eq(said(log[0], "does not speak iWARP"), 1);
		close(fd);
	}
	dup2(real, STDERR_FILENO);
	close(real);
	close(log[0]);
	close(log[1]);
}

/* ---- ... and at the active side ---- */

struct fake_server {
	int fd;
	const char *bytes;
	size_t len;
	bool stay;
};

static void *serve_bytes(void *arg)
{
	struct fake_server *s = arg;
	int fd = accept(s->fd, NULL, NULL);
	char buf[64];

	recv(fd, buf, sizeof(buf), 0);
	send(fd, s->bytes, s->len, MSG_NOSIGNAL);
	if (s->stay)
		recv(fd, buf, sizeof(buf), 0);
	close(fd);
	return NULL;
}

Test(iwarp_bad, replies)
{
	static const struct {
		const char *name, *bytes;
		size_t len;
		bool stay;
		int err;
		const char *why;
	} cases[] = {
		{ "good", "MPA ID Rep Frame\x10\x02\0\x04\0\0\0\x10", 24, true, 0, NULL },
		{ "asks for peer-to-peer", "MPA ID Rep Frame\x10\x02\0\x04\xc0\0\xc0\x10", 24, true, 0,
		  NULL },
		{ "closes", "", 0, false, -ECONNRESET, "instead of answering" },
		{ "silent", "", 0, true, -ETIMEDOUT, "does not answer" },
		{ "garbage", "HTTP/1.0 400\r\n", 14, true, -EPROTO, "does not speak iWARP" },
		{ "a Request", "MPA ID Req Frame\x10\x02\0\x04\0\0\0\x10", 24, true, -EPROTO,
		  "does not speak iWARP" },
		{ "half, closes", "MPA ID Rep Fr", 13, false, -ECONNRESET, "closed" },
		{ "half, silent", "MPA ID Rep Frame\x10\x02\0\x04\0", 21, true, -ETIMEDOUT,
		  "does not answer" },
		{ "too much private data", "MPA ID Rep Frame\x10\x02\x01\x01", 20, true, -EPROTO,
		  "256 bytes" },
		{ "revision 1", "MPA ID Rep Frame\0\x01\0\0", 20, true, -EPROTONOSUPPORT, "revision 1" },
		{ "rejects", "MPA ID Rep Frame\x20\x01\0\0", 20, true, -ECONNREFUSED, "rejected" },
		{ "markers", "MPA ID Rep Frame\x90\x02\0\x04\0\0\0\x10", 24, true, -EOPNOTSUPP,
		  "markers" },
		{ "wants more reads", "MPA ID Rep Frame\x10\x02\0\x04\0\0\0\x11", 24, true, -EPROTO,
		  "IRD" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sockaddr_storage ss = loopback(0);
		struct fake_server s = {
			.fd = socket(AF_INET, SOCK_STREAM, 0), .bytes = cases[i].bytes,
			.len = cases[i].len, .stay = cases[i].stay,
		};
		struct fab_params params = { .max_send = 1, .max_recv = 1, .timeout_ms = 20000 };
		uint8_t priv[FAB_PRIV_RECV_MAX];
		struct fab_conn *c;
		struct errbuf eb;
		size_t len;
		pthread_t t;
		int err;

		cr_assert_eq(bind(s.fd, (struct sockaddr *)&ss, sizeof(struct sockaddr_in)), 0);
		cr_assert_eq(listen(s.fd, 1), 0);
		/* The others answer, however busy the machine is. */
		if (cases[i].err == -ETIMEDOUT)
			params.timeout_ms = 200;
		params.server = loopback(port_of(s.fd));
		cr_assert_eq(pthread_create(&t, NULL, serve_bytes, &s), 0);
		cr_assert_eq(FAB->open(&params, &c, &eb), 0);
		err = FAB->connect(c, "hello", 5, priv, &len, &eb);
		cr_expect_eq(err, cases[i].err, "%s: %d %s", cases[i].name, err, err ? eb.text : "");
		if (err)
			cr_expect_not_null(strstr(eb.text, cases[i].why), "%s: %s", cases[i].name,
					   eb.text);
		FAB->close(c);
		pthread_join(t, NULL);
		close(s.fd);
	}
}
