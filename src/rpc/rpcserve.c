/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of a server; see rpcserve.h. Nothing here allocates, or trusts a length. */
#include <stdbool.h>
#include "rpc/rpc_auth.h"
#include "rpc/rpcserve.h"
#include "xdr_msg.h"

/* RFC 5531, section 9. */
enum { MSG_CALL = 0, MSG_REPLY = 1, RPC_MSG_VERSION = 2 };
enum { STAT_ACCEPTED = 0, STAT_DENIED = 1 };
enum { ACC_PROG_UNAVAIL = 1, ACC_PROG_MISMATCH = 2 };
enum { DENY_RPC_MISMATCH = 0, DENY_AUTH_ERROR = 1, AUTH_BADCRED = 1 };
#define AUTH_BODY_MAX 400u

struct called {
	uint32_t xid, rpcvers, prog, vers, proc;
	uint32_t flavor;
};

static bool skip_auth(XDR *in, uint32_t *flavor)
{
	int32_t *at = XDR_INLINE(in, 2 * BYTES_PER_XDR_UNIT);
	uint32_t len;

	if (!at)
		return false;
	*flavor = IXDR_GET_U_INT32(at);
	len = IXDR_GET_U_INT32(at);
	return len <= AUTH_BODY_MAX && (!len || XDR_INLINE(in, (len + 3) & ~3u));
}

static bool take_head(XDR *in, struct called *c)
{
	int32_t *at = XDR_INLINE(in, 6 * BYTES_PER_XDR_UNIT);
	uint32_t type;

	if (!at)
		return false;
	c->xid = IXDR_GET_U_INT32(at);
	type = IXDR_GET_U_INT32(at);
	c->rpcvers = IXDR_GET_U_INT32(at);
	c->prog = IXDR_GET_U_INT32(at);
	c->vers = IXDR_GET_U_INT32(at);
	c->proc = IXDR_GET_U_INT32(at);
	return type == MSG_CALL;
}

static void put_words(int32_t *at, unsigned n, const uint32_t *w)
{
	while (n--)
		IXDR_PUT_U_INT32(at, *w++);
}

#define WORDS(...) sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, (uint32_t[]){ __VA_ARGS__ }

static uint32_t put_answer(XDR *out, unsigned n, const uint32_t *w)
{
	int32_t *at = XDR_INLINE(out, n * BYTES_PER_XDR_UNIT);

	if (!at)
		return 0;
	put_words(at, n, w);
	return n * BYTES_PER_XDR_UNIT;
}

/* xid, REPLY, accepted, an empty verifier, and then: */
static uint32_t put_accepted(XDR *out, uint32_t xid, uint32_t stat)
{
	return put_answer(out, WORDS(xid, MSG_REPLY, STAT_ACCEPTED, RPC_AUTH_NONE, 0, stat));
}

static uint32_t put_mismatch(XDR *out, uint32_t xid, uint32_t versions)
{
	return put_answer(out, WORDS(xid, MSG_REPLY, STAT_ACCEPTED, RPC_AUTH_NONE, 0, ACC_PROG_MISMATCH,
				     (uint32_t)__builtin_ctz(versions),
				     31u - (uint32_t)__builtin_clz(versions)));
}

static bool has_version(const struct rpcserve_program *p, uint32_t vers)
{
	return vers < 32 && (p->versions >> vers & 1);
}

static uint32_t run_call(const struct rpcserve_program *p, void *ctx, const struct called *c, XDR *in,
			 XDR *out)
{
	XDR begin = *out;
	enum rpc_accept stat;

	if (!put_accepted(out, c->xid, RPC_DONE))
		return 0;
	stat = p->call(ctx, c->proc, in, out);
	if (stat == RPC_DONE)
		return xdr_getpos(out);
	*out = begin;
	return put_accepted(out, c->xid, stat);
}

uint32_t rpcserve(const struct rpcserve_program *p, void *ctx, XDR *in, XDR *out)
{
	struct called c;
	uint32_t verifier;

	if (!take_head(in, &c))
		return 0;
	if (c.rpcvers != RPC_MSG_VERSION)
		return put_answer(out, WORDS(c.xid, MSG_REPLY, STAT_DENIED, DENY_RPC_MISMATCH,
					     RPC_MSG_VERSION, RPC_MSG_VERSION));
	if (!skip_auth(in, &c.flavor) || !skip_auth(in, &verifier))
		return 0;
	if (c.flavor != RPC_AUTH_NONE && c.flavor != RPC_AUTH_SYS)
		return put_answer(out, WORDS(c.xid, MSG_REPLY, STAT_DENIED, DENY_AUTH_ERROR,
					     AUTH_BADCRED));
	if (!p || c.prog != p->number)
		return put_accepted(out, c.xid, ACC_PROG_UNAVAIL);
	if (!has_version(p, c.vers))
		return put_mismatch(out, c.xid, p->versions);
	return run_call(p, ctx, &c, in, out);
}
