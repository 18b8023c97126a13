/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A flavor of authentication that does all that a flavor may: it has a credential and a
 * verifier of its own, turns arguments and results upside down, gets another credential
 * when the server refuses the old one, and forbids placement.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>
#include "fake_fabric.h"
#include "nfs/internal.h"
#include "nfs_types.h"
#include "rpcrdma/header.h"

static struct nfs_client cl;
static struct nfs_control ctl;
static struct nfs_lane lane;
static struct nfs_version version;
static uint32_t ticket = 1, refused_why;
static bool can_refresh;
static struct rpc_auth_call *its_call;  /* from marshal() on */

/* ---- the flavor ---- */

enum { FLAVOR = 390000, SECRET = 0x5eca11ed };

static bool_t put(XDR *x, uint32_t v)
{
	return xdr_uint32_t(x, &v);
}

static bool_t marshal(struct rpc_auth_call *k, XDR *x)
{
	its_call = k;
	return put(x, FLAVOR) && put(x, 8) && put(x, ticket) && put(x, k->cred->uid) && put(x, 0) &&
	       put(x, 0);
}

/* A length before the arguments, and all of their bits the other way round. */
static bool_t wrap(struct rpc_auth_call *k, XDR *x, bool_t (*encode_it)(void *arg, XDR *x),
		   void *arg)
{
	u_int at = xdr_getpos(x), end;
	uint8_t *base;

	cr_assert_eq(k, its_call);
	if (!put(x, 0) || !encode_it(arg, x))
		return FALSE;
	end = xdr_getpos(x);
	xdr_setpos(x, at);
	if (!put(x, end - at - 4))
		return FALSE;
	base = (uint8_t *)xdr_inline(x, (int)(end - at - 4));
	for (u_int i = 0; i < end - at - 4; i++)
		base[i] = (uint8_t)~base[i];
	return TRUE;
}

static bool verify(struct rpc_auth_call *k, uint32_t flavor, const void *body, uint32_t len)
{
	uint32_t w;

	cr_assert(k == its_call && k->cred->uid == 1000);
	if (flavor != FLAVOR || len != 4)
		return false;
	memcpy(&w, body, 4);
	return ntohl(w) == SECRET;
}

static int unwrap(struct rpc_auth_call *k, XDR *x, int (*decode_it)(void *arg, XDR *x), void *arg)
{
	static uint8_t plain[16384];
	const uint8_t *wrapped;
	uint32_t len;
	XDR inner;
	int rc;

	cr_assert_eq(k, its_call);
	if (!xdr_uint32_t(x, &len) || len > sizeof(plain))
		return -EBADMSG;
	wrapped = (const uint8_t *)xdr_inline(x, (int)len);
	if (!wrapped)
		return -EBADMSG;
	for (uint32_t i = 0; i < len; i++)
		plain[i] = (uint8_t)~wrapped[i];
	xdrmem_create(&inner, (char *)plain, len, XDR_DECODE);
	rc = decode_it(arg, &inner);
	xdr_destroy(&inner);
	return rc;
}

static int refresh(struct rpc_auth_call *k, uint32_t why)
{
	cr_assert(k == its_call && k->cred->uid == 1000);
	refused_why = why;
	ticket++;
	return can_refresh ? 0 : -EACCES;
}

static const struct rpc_auth flavor = {
	.name = "test", .flavor = FLAVOR, .marshal = marshal, .wrap = wrap, .verify = verify,
	.unwrap = unwrap, .refresh = refresh, .no_placement = true,
};

/* ---- the version: READ and WRITE, as simple as they can be ---- */

static bool_t encode_read(struct nfs_call *c, XDR *x)
{
	return xdr_uint32_t(x, &c->args.io.count);
}

static int decode_read(struct nfs_call *c, XDR *x)
{
	nfs_bulk data = { .max = c->args.io.count, .placed = c->eng.rr.placed };

	if (!xdr_nfs_bulk(x, &data))
		return -EBADMSG;
	cr_assert_not(c->eng.rr.placed);
	cr_assert_eq(data.len, c->args.io.count);
	memcpy(c->owner, data.data, data.len);
	return 0;
}

static bool_t encode_write(struct nfs_call *c, XDR *x)
{
	nfs_bulk data = { .len = c->args.io.count };

	if (!xdr_nfs_bulk(x, &data))
		return FALSE;
	c->eng.rr.data_pos = data.pos;
	/* Something comes behind it, as in a COMPOUND. */
	return put(x, 0x626568);
}

static int decode_write(struct nfs_call *c, XDR *x)
{
	return xdr_uint32_t(x, &c->res.io.len) ? 0 : -EBADMSG;
}

static bool_t encode_link(struct nfs_call *c, XDR *x)
{
	nfs_bulk text = { .len = (uint32_t)strlen(c->args.mk.target) };

	if (!xdr_nfs_bulk(x, &text))
		return FALSE;
	c->eng.rr.data_pos = text.pos;
	return put(x, 0x626568);
}

static int decode_link(struct nfs_call *c, XDR *x)
{
	(void)c;
	(void)x;
	return 0;
}

static int decode_text(struct nfs_call *c, XDR *x)
{
	nfs_bulk text = { .max = NFS_PATH_MAX, .placed = c->eng.rr.placed };

	if (!xdr_nfs_bulk(x, &text))
		return -EBADMSG;
	c->res.link.len = text.len;
	memcpy(c->owner, text.data, text.len);
	return 0;
}

static bool_t encode_nothing(struct nfs_call *c, XDR *x)
{
	(void)c;
	(void)x;
	return TRUE;
}

static const struct nfs_opdef readlink_def = {
	.name = "READLINK", .encode = encode_nothing, .decode = decode_text, .results_max = 8,
	.placed_text = true, .proc = 5,
};
static const struct nfs_opdef symlink_def = {
	.name = "SYMLINK", .encode = encode_link, .decode = decode_link, .results_max = 8, .proc = 10,
};
static const struct nfs_opdef read_def = {
	.name = "READ", .encode = encode_read, .decode = decode_read, .results_max = 8, .proc = 6,
};
static const struct nfs_opdef write_def = {
	.name = "WRITE", .encode = encode_write, .decode = decode_write, .results_max = 8, .proc = 7,
};

/* ---- all of it ---- */

static struct nfs_call call;
static struct rpc_cred cred = { .uid = 1000 };
static unsigned dones;
static char bytes[8192], got[8192], target[4097];
static struct arena_buf *buf;

static void setup(void)
{
	struct errbuf eb = { "" };
	struct rr_link *link;

	fake_peer_is_knfsd();
	version = (struct nfs_version){
		.prog = 1, .vers = 1,
		.ops = { [NFS_OP_READ] = &read_def, [NFS_OP_WRITE] = &write_def,
			 [NFS_OP_READLINK] = &readlink_def, [NFS_OP_SYMLINK] = &symlink_def },
	};
	pthread_mutex_init(&ctl.mu, NULL);
	pthread_cond_init(&ctl.cond, NULL);
	cl = (struct nfs_client){
		.control = &ctl, .lanes = &lane, .nlanes = 1,
		.cfg = { .version = &version, .auth = &flavor, .paths[0].fabric = &fabric_fake,
			 .npaths = 1, .server = "server", .lanes = 1, .credits = 16,
			 .buffers = { .n = { 24, 0, 6, 2 } }, .timeo_ms = 60000 },
	};
	nfs_server_init(&cl);
	cr_assert_eq(nfs_buffers_init(&cl), 0);
	cr_assert_eq(nfs_lane_init(&cl, 0, &eb), 0, "%s", eb.text);
	cr_assert_eq(nfs_connection_open(&lane.target.conns[0][0], &link, &eb), 0, "%s", eb.text);
	nfs_connection_up(&lane.target.conns[0][0], link);
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + i / 256);
	buf = magazine_get(&lane.mag, ARENA_MID);
	memcpy(buf->mem, bytes, sizeof(bytes));
}

static void teardown(void)
{
	magazine_put(&lane.mag, buf);
	nfs_lane_fini(&lane);
	arena_fini(&cl.arena);
}

TestSuite(flavor, .init = setup, .fini = teardown, .timeout = 60);

static void on_done(struct nfs_call *c)
{
	(void)c;
	dones++;
}

static void start(enum nfs_op op, uint32_t count)
{
	call = (struct nfs_call){ .op = op, .cred = &cred, .done = on_done, .owner = got };
	call.args.io.count = count;
	call.args.io.sink[0] = (struct rr_iov){ buf->mem, count };
	/* In two pieces. */
	call.args.io.data[0] = (struct rr_iov){ buf->mem, count / 3 };
	call.args.io.data[1] = (struct rr_iov){ (char *)buf->mem + count / 3, count - count / 3 };
	call.args.io.ndata = 2;
	if (op == NFS_OP_SYMLINK) {
		memset(target, 'x', count);
		call.args.mk.target = target;
	}
	nfs_start(&lane, &call);
}

/* The transport header of the newest Send, and where the RPC message is: behind it, or
 * where the Read chunk says. */
static const uint8_t *sent(struct rr_header *h)
{
	const struct fake_send *s = &fake.sends[fake.nsends - 1];
	int at = rr_header_decode(h, s->bytes, s->len);

	cr_assert_gt(at, 0);
	cr_assert_eq(h->nwrites, 0, "nothing is placed");
	if (h->proc == RR_MSG) {
		cr_assert_eq(h->nreads, 0, "nothing is fetched");
		return s->bytes + at;
	}
	cr_assert(h->nreads == 1 && h->reads[0].position == 0);
	return (const uint8_t *)fake.data.base + (h->reads[0].seg.offset - fake.data.addr);
}

static uint32_t word(const uint8_t *msg, unsigned i)
{
	uint32_t w;

	memcpy(&w, msg + 4 * i, 4);
	return ntohl(w);
}

/* The server's reply, inline or in the Reply chunk: its verifier, and the results. */
static void reply(uint32_t verifier, const void *results, uint32_t len)
{
	static uint8_t msg[16384];
	const uint32_t head[] = { call.eng.rr.xid, 1, 0, FLAVOR, 4, verifier, 0, len };
	struct rr_header h, r;
	int n;

	for (unsigned i = 0; i < 8; i++)
		*(uint32_t *)(void *)(msg + 64 + 4 * i) = htonl(head[i]);
	for (uint32_t i = 0; i < len; i++)
		msg[64 + 32 + i] = (uint8_t)~((const uint8_t *)results)[i];
	sent(&h);
	rr_header_init(&r, call.eng.rr.xid, 16);
	if (h.has_reply) {
		r.proc = RR_NOMSG;
		r.has_reply = true;
		r.reply = h.reply;
		r.reply.seg[0].length = 32 + len;
		memcpy((uint8_t *)fake.data.base + (h.reply.seg[0].offset - fake.data.addr),
		       msg + 64, 32 + len);
	}
	n = rr_header_encode(&r, msg + (h.has_reply ? 0 : 64 - (int)rr_header_size(&r)),
			     rr_header_size(&r));
	cr_assert_geq(n, 0);
	fake_complete(fake.nsends - 1);
	fake_deliver(msg + (h.has_reply ? 0 : 64 - (int)rr_header_size(&r)),
		     (uint32_t)rr_header_size(&r) + (h.has_reply ? 0 : 32 + len));
}

/* Denied: AUTH_ERROR. */
static void deny(uint32_t why)
{
	uint32_t xid = call.eng.rr.xid;
	uint32_t w[] = { xid, 1, 16, 0, 0, 0, 0, xid, 1, 1, 1, why };

	for (unsigned i = 0; i < sizeof(w) / 4; i++)
		w[i] = htonl(w[i]);
	fake_complete(fake.nsends - 1);
	fake_deliver(w, sizeof(w));
}

static void check_read(uint32_t count)
{
	static uint8_t results[8200];
	uint32_t len = htonl(count);
	struct rr_header h;

	memcpy(results, &len, 4);
	memcpy(results + 4, bytes, count);
	start(NFS_OP_READ, count);
	sent(&h);
	cr_assert_eq(h.has_reply, count > 4000);
	memset(buf->mem, 0, sizeof(bytes));
	reply(SECRET, results, 4 + ((count + 3) & ~3u));
	cr_assert(dones == 1 && call.res.status == 0, "%d", call.res.status);
	cr_assert(!memcmp(got, bytes, count));
	cr_assert_eq(*(char *)buf->mem, 0, "nobody has placed anything");
}

Test(flavor, a_short_read_comes_inside_the_message)
{
	check_read(1001);
}

Test(flavor, a_long_read_comes_in_the_reply_chunk)
{
	check_read(8192);
}

static void check_write(uint32_t count)
{
	const uint32_t padded = (count + 3) & ~3u;
	struct rr_header h;
	const uint8_t *msg;

	start(NFS_OP_WRITE, count);
	msg = sent(&h);
	cr_assert_eq(h.proc, count > 4000 ? RR_NOMSG : RR_MSG);
	cr_assert_eq(word(msg, 6), FLAVOR);
	cr_assert_eq(word(msg, 8), ticket);
	cr_assert_eq(word(msg, 9), 1000);
	/* The wrapped body: length, data, its pad, what is behind. */
	cr_assert_eq(word(msg, 12), 4 + padded + 4);
	cr_assert_eq(~word(msg, 13), count);
	for (uint32_t i = 0; i < padded; i++)
		cr_assert_eq((uint8_t)~msg[56 + i], i < count ? (uint8_t)bytes[i] : 0, "byte %u", i);
	cr_assert_eq(~word(msg, 14 + padded / 4), 0x626568);
}

Test(flavor, data_of_a_short_write_is_wrapped_with_the_rest)
{
	const uint32_t n = htonl(1001);

	check_write(1001);
	reply(SECRET, &n, 4);
	cr_assert(dones == 1 && call.res.status == 0 && call.res.io.len == 1001);
}

Test(flavor, data_of_a_long_write_is_wrapped_with_the_rest)
{
	const uint32_t n = htonl(8190);

	check_write(8190);
	reply(SECRET, &n, 4);
	cr_assert(dones == 1 && call.res.status == 0 && call.res.io.len == 8190);
}

/* The target of a link as well, which may be longer than a message buffer. */
Test(flavor, text_of_a_link_is_wrapped_with_the_rest)
{
	static const uint32_t lens[] = { 10, 4095 };
	struct rr_header h;
	const uint8_t *msg;

	for (unsigned i = 0; i < 2; i++) {
		uint32_t padded = (lens[i] + 3) & ~3u;

		start(NFS_OP_SYMLINK, lens[i]);
		msg = sent(&h);
		cr_assert_eq(h.proc, i ? RR_NOMSG : RR_MSG);
		cr_assert_eq(word(msg, 12), 4 + padded + 4);
		cr_assert_eq(~word(msg, 13), lens[i]);
		for (uint32_t b = 0; b < padded; b++)
			cr_assert_eq((uint8_t)~msg[56 + b], b < lens[i] ? 'x' : 0, "byte %u", b);
		cr_assert_eq(~word(msg, 14 + padded / 4), 0x626568);
		reply(SECRET, "", 0);
		cr_assert(dones == i + 1 && call.res.status == 0);
	}
}

/* It comes inside the reply, which may need a Reply chunk for that. */
Test(flavor, text_of_a_link_is_not_placed)
{
	static uint8_t results[4100];
	uint32_t len = htonl(4095);
	struct rr_header h;

	memcpy(results, &len, 4);
	memcpy(results + 4, bytes, 4095);
	start(NFS_OP_READLINK, 0);
	sent(&h);
	cr_assert(h.has_reply);
	reply(SECRET, results, 4100);
	cr_assert(dones == 1 && call.res.status == 0 && call.res.link.len == 4095);
	cr_assert(!memcmp(got, bytes, 4095));
}

/* Whoever it was, it is not believed. */
Test(flavor, a_reply_of_somebody_elses)
{
	const uint32_t n = htonl(10);

	/* A WRITE would be sent again. */
	start(NFS_OP_READ, 10);
	reply(SECRET + 1, &n, 4);
	cr_assert(dones == 1 && call.res.status == -EIO);
}

Test(flavor, another_credential)
{
	const uint32_t n = htonl(10);
	struct rr_header h;

	can_refresh = true;
	start(NFS_OP_WRITE, 10);
	cr_assert_eq(word(sent(&h), 8), 1);
	deny(13);
	cr_assert(dones == 0 && refused_why == 13);
	cr_assert_eq(word(sent(&h), 8), 2, "sent again with the new one");
	reply(SECRET, &n, 4);
	cr_assert(dones == 1 && call.res.status == 0);
}

Test(flavor, no_other_credential)
{
	start(NFS_OP_WRITE, 10);
	deny(1);
	cr_assert(dones == 1 && call.res.status == -EACCES && refused_why == 1);
}
