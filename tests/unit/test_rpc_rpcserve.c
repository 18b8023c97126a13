/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of a server to its client: what each of them is answered with. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>
#include "rpc/rpcserve.h"
#include "xdr_msg.h"

#define XID  0x11223344u
#define PROG 0x40000000u

static uint32_t reply[64];
static unsigned room = sizeof(reply);

static enum rpc_accept on_call(void *ctx, uint32_t proc, XDR *args, XDR *res)
{
	uint32_t v = 0;

	cr_assert_eq(ctx, &room);
	if (proc == 0)
		return RPC_DONE;
	if (proc > 2)
		return RPC_PROC_UNAVAIL;
	if (!xdr_uint32_t(args, &v))
		return RPC_GARBAGE_ARGS;
	v++;
	if (!xdr_uint32_t(res, &v))
		return RPC_GARBAGE_ARGS;
	return proc == 1 ? RPC_DONE : RPC_GARBAGE_ARGS;
}

static const struct rpcserve_program program = {
	.number = PROG, .versions = 1u << 1 | 1u << 4, .call = on_call,
};

static uint32_t serve_bytes(const struct rpcserve_program *p, const void *msg, uint32_t len)
{
	XDR in, out;

	memset(reply, 0xee, sizeof(reply));
	xdr_msg_create(&in, (void *)(uintptr_t)msg, len, XDR_DECODE);
	xdr_msg_create(&out, reply, room, XDR_ENCODE);
	return rpcserve(p, &room, &in, &out);
}

static uint32_t serve(const struct rpcserve_program *p, unsigned n, const uint32_t *w)
{
	uint32_t wire[300];

	for (unsigned i = 0; i < n; i++)
		wire[i] = htonl(w[i]);
	return serve_bytes(p, wire, n * 4);
}

static void expect(uint32_t len, unsigned n, const uint32_t *w)
{
	cr_assert_eq(len, n * 4, "%u bytes", len);
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(ntohl(reply[i]), w[i], "word %u: %u", i, ntohl(reply[i]));
}

#define LIST(...) sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, (uint32_t[]){ __VA_ARGS__ }
#define NONE 0, 0
#define HEAD(vers, proc) XID, 0, 2, PROG, vers, proc

Test(rpcserve, answers)
{
	uint32_t n;

	n = serve(&program, LIST(HEAD(1, 0), NONE, NONE));
	expect(n, LIST(XID, 1, 0, NONE, 0));
	n = serve(&program, LIST(HEAD(4, 1), NONE, NONE, 41));
	expect(n, LIST(XID, 1, 0, NONE, 0, 42));
	/* AUTH_SYS, whoever it is; and a verifier. */
	n = serve(&program, LIST(HEAD(1, 1), 1, 20, 0, 0, 0, 0, 0, 1, 3, 0x61626300, 41));
	expect(n, LIST(XID, 1, 0, NONE, 0, 42));
}

Test(rpcserve, refuses)
{
	uint32_t n;

	n = serve(NULL, LIST(HEAD(1, 0), NONE, NONE));
	expect(n, LIST(XID, 1, 0, NONE, 1));
	n = serve(&program, LIST(XID, 0, 2, PROG + 1, 1, 0, NONE, NONE));
	expect(n, LIST(XID, 1, 0, NONE, 1));
	n = serve(&program, LIST(HEAD(2, 0), NONE, NONE));
	expect(n, LIST(XID, 1, 0, NONE, 2, 1, 4));
	n = serve(&program, LIST(HEAD(33, 0), NONE, NONE));
	expect(n, LIST(XID, 1, 0, NONE, 2, 1, 4));
	n = serve(&program, LIST(HEAD(1, 3), NONE, NONE));
	expect(n, LIST(XID, 1, 0, NONE, 3));
	n = serve(&program, LIST(HEAD(1, 1), NONE, NONE));
	expect(n, LIST(XID, 1, 0, NONE, 4));
	/* What was written before is taken back. */
	n = serve(&program, LIST(HEAD(1, 2), NONE, NONE, 7));
	expect(n, LIST(XID, 1, 0, NONE, 4));
	/* Another RPC; another flavor. */
	n = serve(&program, LIST(XID, 0, 3, PROG, 1, 0, NONE, NONE));
	expect(n, LIST(XID, 1, 1, 0, 2, 2));
	n = serve(&program, LIST(HEAD(1, 0), 6, 0, NONE));
	expect(n, LIST(XID, 1, 1, 1, 1));
}

Test(rpcserve, no_answer)
{
	uint32_t w[200] = { htonl(XID), 0, htonl(2), htonl(PROG), htonl(1), 0, 0, htonl(404) };
	uint32_t n;

	n = serve(&program, LIST(XID, 1, 2, PROG, 1, 0, NONE, NONE));
	cr_assert_eq(n, 0, "a reply");
	for (unsigned i = 0; i < 40; i++)
		cr_assert_eq(serve_bytes(&program, w, i), 0, "cut after %u", i);
	cr_assert_eq(serve_bytes(&program, w, sizeof(w)), 0, "a credential that is too long");
	w[7] = htonl(400);
	cr_assert_eq(serve_bytes(&program, w, sizeof(w)), 24, "and one that is not");
	w[7] = htonl(UINT32_MAX);
	cr_assert_eq(serve_bytes(&program, w, sizeof(w)), 0);
}

Test(rpcserve, no_room)
{
	uint32_t n;

	for (room = 0; room < 24; room++) {
		n = serve(&program, LIST(HEAD(1, 0), NONE, NONE));
		cr_assert_eq(n, 0);
	}
	n = serve(&program, LIST(HEAD(1, 1), NONE, NONE, 41));
	expect(n, LIST(XID, 1, 0, NONE, 4));
}
