/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "op_play.h"
#include "rpcrdma/plan.h"
#include "xdr_msg.h"

static struct {
	uint32_t w[65536];
	uint32_t len;
} msg;

static char *last;              /* what was decoded last: results point into it */

void m_new(void)
{
	memset(msg.w, 0, msg.len);
	msg.len = 0;
}

void m_words(const uint32_t *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++, msg.len += 4)
		msg.w[msg.len / 4] = htonl(w[i]);
	cr_assert_lt(msg.len, sizeof(msg.w) / 2);
}

void m_u64(uint64_t v)
{
	M((uint32_t)(v >> 32), (uint32_t)v);
}

void m_opaque(const void *data, uint32_t len)
{
	M(len);
	memcpy((char *)msg.w + msg.len, data, len);
	msg.len += (len + 3) & ~3u;
}

void m_str(const char *s)
{
	m_opaque(s, (uint32_t)strlen(s));
}

uint32_t m_len(void)
{
	return msg.len;
}

void m_trunc(uint32_t at)
{
	memset((char *)msg.w + at, 0, msg.len - at);
	msg.len = at;
}

void m_set(uint32_t at, uint32_t w)
{
	msg.w[at / 4] = htonl(w);
}

uint32_t m_get(uint32_t at)
{
	return ntohl(msg.w[at / 4]);
}

/* Encodes into `room` bytes; the length, or -1. */
static int encode(const struct nfs_call *proto, const struct nfs_opdef *def, uint32_t room,
		  void *copy)
{
	struct nfs_call c = *proto;
	char *buf = malloc(room ? room : 1);
	int len = -1;
	XDR x;

	xdr_msg_create(&x, buf, room, XDR_ENCODE);
	if (def->encode(&c, &x))
		len = (int)xdr_getpos(&x);
	xdr_destroy(&x);
	if (len > 0 && copy)
		memcpy(copy, buf, (size_t)len);
	free(buf);
	return len;
}

void play_args(const struct nfs_call *c, const struct nfs_opdef *def)
{
	static uint32_t got[sizeof(msg.w) / 4];
	int len = encode(c, def, sizeof(got), got);

	for (uint32_t i = 0; i < msg.len / 4 && (int)i < len / 4; i++)
		cr_assert_eq(got[i], msg.w[i], "%s: word %u is %x, not %x", def->name, i,
			     ntohl(got[i]), ntohl(msg.w[i]));
	cr_assert_eq(len, (int)msg.len, "%s: %d bytes, not %u", def->name, len, msg.len);
	for (uint32_t room = 0; room < msg.len; room += 4)
		cr_assert_eq(encode(c, def, room, NULL), -1, "%s fits %u bytes", def->name, room);
}

void play_default_limits(const struct nfs_call *c, const struct nfs_opdef *def, uint32_t fh_len)
{
	static const struct rpc_cred cred = { .ngids = RPC_GIDS_MAX };
	struct rpc_auth_call k = { .flavor = &rpc_auth_sys, .cred = &cred };
	const uint32_t host = 64;       /* a host name is no longer */
	struct nfs_fh fh = { .len = fh_len };
	struct nfs_call copy = *c;
	struct rr_plan plan;
	uint32_t len;
	char buf[512];
	XDR x;

	copy.args.fh = copy.args.fh2 = &fh;
	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	cr_assert(rpcmsg_call(&x, 1, 1, 1, 1, &k));
	len = xdr_getpos(&x) + host;
	xdr_destroy(&x);
	len += (uint32_t)encode(&copy, def, sizeof(msg.w), NULL);
	cr_assert_eq(rr_plan(&plan, &(struct rr_plan_in){
		.send_limit = 1024, .recv_limit = 1024, .msg_len = len,
		.data_len = c->op == NFS_OP_WRITE ? NFS_IO_MAX : c->op == NFS_OP_SYMLINK ? NFS_PATH_MAX : 0,
		.nsend = RR_SEND_IOV, .data_short = c->op == NFS_OP_SYMLINK,
		.nsink = c->op == NFS_OP_READ ? RR_SINK_IOV : 1,
		.sink_len = c->op == NFS_OP_READ ? NFS_IO_MAX : def->placed_text ? NFS_PATH_MAX : 0,
		.reply_max = RPC_REPLY_HDR_MAX + nfs_results_max(def, &copy) }), 0, "%s", def->name);
	cr_assert_eq(plan.call == RR_CALL_READ_CHUNK, c->op == NFS_OP_WRITE || c->op == NFS_OP_SYMLINK);
	cr_assert_eq(plan.reply == RR_REPLY_WRITE_CHUNK, c->op == NFS_OP_READ || def->placed_text);
	cr_assert_leq(RPC_REPLY_HDR_MAX + nfs_results_max(def, &copy), RR_REPLY_MAX, "%s", def->name);
}

int play_cut(struct nfs_call *c, const struct nfs_opdef *def, uint32_t len)
{
	int rc;
	XDR x;

	free(last);
	last = malloc(len ? len : 1);
	memcpy(last, msg.w, len);
	xdr_msg_create(&x, last, len, XDR_DECODE);
	rc = def->decode(c, &x);
	xdr_destroy(&x);
	return rc;
}

int play_reply(struct nfs_call *c, const struct nfs_opdef *def)
{
	int rc = play_cut(c, def, msg.len);
	uint32_t data = c->op == NFS_OP_READ ? (c->args.io.count + 3) & ~3u : def->placed_text ? NFS_PATH_MAX : 0;
	uint32_t inline_data = c->eng.rr.placed ? 0 : data;
	const struct nfs_call *rider = c->eng.riding_close;
	uint32_t rides = rider ? nfs_results_max(c->target->server->version->ops[rider->op], rider) : 0;

	if (!rc)
		cr_assert_leq(msg.len, nfs_results_max(def, c) + rides + inline_data,
			      "%s: a reply of %u bytes, more than results_max", def->name, msg.len);
	return rc;
}

static int once(const struct nfs_call *proto, const struct nfs_opdef *def,
		const struct play_hooks *h, uint32_t len)
{
	struct nfs_call c = *proto;
	int rc;

	if (h && h->before)
		h->before(&c);
	rc = play_cut(&c, def, len);
	if (h && h->after)
		h->after(&c);
	return rc;
}

void play_all_cuts(const struct nfs_call *c, const struct nfs_opdef *def,
		   const struct play_hooks *h)
{
	for (uint32_t len = 0; len < msg.len; len++)
		cr_assert_eq(once(c, def, h, len), -EBADMSG, "%s: %u of %u bytes", def->name, len,
			     msg.len);
}

void play_twists(const struct nfs_call *c, const struct nfs_opdef *def,
		 const struct play_hooks *h)
{
	static const uint32_t bad[] = {
		0, 1, 2, 9, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffc, 0x40000000, 1025,
	};

	for (uint32_t i = 0; i < msg.len / 4; i++) {
		uint32_t was = msg.w[i];

		for (unsigned b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
			msg.w[i] = htonl(bad[b]);
			once(c, def, h, msg.len);
		}
		msg.w[i] = was;
	}
}
