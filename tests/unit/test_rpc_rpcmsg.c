/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Headers of calls and replies, word by word. gethostname() is the test's own,
 * so that the bounds of the machine name can be tried.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "rpc/rpcmsg.h"
#include "xdr_msg.h"

#define WORDS(...) (const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4

static size_t host_len;                 /* the name is so many 'h' */
static int host_rc;

/* As libc does it: what does not fit is cut off and not terminated. */
int gethostname(char *name, size_t len)
{
	size_t n = host_len < len ? host_len : len;

	memset(name, 'h', n);
	if (n < len)
		name[n] = '\0';
	return host_rc;
}

static uint32_t sent[512];

/* Encodes a call into exactly `room` bytes; its length, or 0 if it failed. */
static uint32_t call(const struct rpc_cred *cred, uint32_t room)
{
	char *buf = malloc(room ? room : 1);
	struct rpc_auth_call k = { .flavor = cred ? &rpc_auth_sys : &rpc_auth_none, .cred = cred };
	uint32_t len = 0;
	XDR x;

	xdr_msg_create(&x, buf, room, XDR_ENCODE);
	if (rpcmsg_call(&x, 0x1234, 100003, 3, 6, &k))
		len = xdr_getpos(&x);
	xdr_destroy(&x);
	memcpy(sent, buf, len);
	free(buf);
	for (uint32_t i = 0; i < len / 4; i++)
		sent[i] = ntohl(sent[i]);
	return len;
}

static void expect_words(unsigned at, const uint32_t *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(sent[at + i], w[i], "word %u: %x, not %x", at + i, sent[at + i], w[i]);
}

Test(rpcmsg, call_without_credential)
{
	cr_assert_eq(call(NULL, 2048), 40);
	expect_words(0, WORDS(0x1234, 0, 2, 100003, 3, 6, 0, 0, 0, 0));
}

Test(rpcmsg, call_with_auth_sys)
{
	struct rpc_cred cred = { .uid = 1000, .gid = 0xfffffffe, .ngids = 2, .gids = { 7, 9 } };

	host_len = 5;
	rpc_auth_init();
	cr_assert_eq(call(&cred, 2048), 40 + 36);
	/* Flavor, body length, stamp, the name with its pad, ids; no verifier. */
	expect_words(6, WORDS(1, 36, 0, 5, 0x68686868, 0x68000000, 1000, 0xfffffffe, 2, 7, 9, 0, 0));
}

Test(rpcmsg, sixteen_groups_and_no_more)
{
	static const struct { uint32_t have, sent; } t[] = {
		{ 0, 0 }, { 1, 1 }, { 15, 15 }, { 16, 16 }, { 17, 16 }, { UINT32_MAX, 16 },
	};
	struct rpc_cred cred = { .uid = 1 };

	host_len = 4;
	rpc_auth_init();
	for (uint32_t i = 0; i < RPC_GIDS_MAX; i++)
		cred.gids[i] = 100 + i;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cred.ngids = t[i].have;
		cr_assert_eq(call(&cred, 2048), 40 + 28 - 4 + 4 * t[i].sent);
		cr_assert_eq(sent[7], 24 + 4 * t[i].sent, "the body's length is true");
		cr_assert_eq(sent[13], t[i].sent);
		for (uint32_t g = 0; g < t[i].sent; g++)
			cr_assert_eq(sent[14 + g], 100 + g);
	}
}

Test(rpcmsg, machine_name_bounds)
{
	static const struct { size_t have; int rc; uint32_t sent; } t[] = {
		{ 0, 0, 0 }, { 1, 0, 1 }, { 4, 0, 4 }, { 254, 0, 254 }, { 255, 0, 255 },
		{ 256, 0, 255 }, { 1000, 0, 255 },
		{ 20, -1, 9 },          /* "localhost" */
	};
	struct rpc_cred cred = { .uid = 1 };

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint32_t padded = (t[i].sent + 3) & ~3u;

		host_len = t[i].have;
		host_rc = t[i].rc;
		rpc_auth_init();
		cr_assert_eq(call(&cred, 2048), 40 + 20 + padded);
		cr_assert_eq(sent[7], 20 + padded);
		cr_assert_eq(sent[9], t[i].sent);
	}
}

/* A stream that is too short by any number of bytes is said so, and no byte
 * behind it is touched (the buffer is exact: ASan would tell). */
Test(rpcmsg, no_room)
{
	struct rpc_cred cred = { .uid = 1, .ngids = 16 };
	uint32_t len;

	host_len = 13;
	rpc_auth_init();
	len = call(&cred, 2048);
	cr_assert_gt(len, 100);
	for (uint32_t room = 0; room < len; room++)
		cr_assert_eq(call(&cred, room), 0, "%u bytes", room);
	cr_assert_eq(call(&cred, len), len);
	for (uint32_t room = 0; room < 40; room++)
		cr_assert_eq(call(NULL, room), 0);
}

/* ---- replies ---- */

/* The first `len` bytes of the words, in memory of that size; *pos: how far it
 * was read. Nobody checks the verifier unless there is `auth`. */
static const struct rpc_auth *auth;
static uint32_t why;

static int reply(const uint32_t *w, uint32_t len, uint32_t *pos)
{
	char *buf = malloc(len ? len : 1);
	int rc;
	XDR x;

	for (uint32_t i = 0; i < len; i++)
		buf[i] = (char)(w[i / 4] >> (24 - 8 * (i % 4)));
	xdr_msg_create(&x, buf, len, XDR_DECODE);
	rc = rpcmsg_reply(&x, 0x1234, auth ? &(struct rpc_auth_call){ .flavor = auth } : NULL, &why);
	if (pos)
		*pos = xdr_getpos(&x);
	xdr_destroy(&x);
	free(buf);
	return rc;
}

Test(rpcmsg, reply_statuses)
{
	static const struct { uint32_t w[8], n; int rc; } t[] = {
		{ { 0x1234, 1, 0, 0, 0, 0 }, 6, 0 },
		/* A verifier of any flavor is skipped with its pad. */
		{ { 0x1234, 1, 0, 6, 5, 0x61626364, 0x65000000, 0 }, 8, 0 },
		{ { 0x1234, 1, 0, 0, 0, 1 }, 6, -EPROTONOSUPPORT },             /* PROG_UNAVAIL */
		{ { 0x1234, 1, 0, 0, 0, 2, 3, 4 }, 8, -EPROTONOSUPPORT },       /* PROG_MISMATCH */
		{ { 0x1234, 1, 0, 0, 0, 3 }, 6, -EOPNOTSUPP },                  /* PROC_UNAVAIL */
		{ { 0x1234, 1, 0, 0, 0, 4 }, 6, -EREMOTEIO },                   /* GARBAGE_ARGS */
		{ { 0x1234, 1, 0, 0, 0, 5 }, 6, -EREMOTEIO },                   /* SYSTEM_ERR */
		{ { 0x1234, 1, 0, 0, 0, 6 }, 6, -EREMOTEIO },                   /* no such status */
		{ { 0x1234, 1, 0, 0, 0, 0xffffffff }, 6, -EREMOTEIO },
		{ { 0x1234, 1, 1, 0, 2, 2 }, 6, -EPROTONOSUPPORT },             /* RPC_MISMATCH */
		{ { 0x1234, 1, 1, 1, 1 }, 5, -EKEYREJECTED },         /* AUTH_BADCRED */
		{ { 0x1234, 1, 1, 1, 5 }, 5, -EKEYREJECTED },         /* AUTH_TOOWEAK */
		{ { 0x1234, 1, 1, 1, 14 }, 5, -EKEYREJECTED },        /* RPCSEC_GSS_CTXPROBLEM */
		{ { 0x1234, 1, 1, 2, 0 }, 5, -EBADMSG },        /* no such reject_stat */
		{ { 0x1234, 1, 2, 0, 0, 0 }, 6, -EBADMSG },     /* neither accepted nor denied */
		{ { 0x1234, 0, 0, 0, 0, 0 }, 6, -EBADMSG },     /* a call */
		{ { 0x1234, 2, 0, 0, 0, 0 }, 6, -EBADMSG },
		{ { 0x1235, 1, 0, 0, 0, 0 }, 6, -EBADMSG },     /* somebody else's */
		{ { 0x34120000, 1, 0, 0, 0, 0 }, 6, -EBADMSG },
		{ { 0x1234, 1, 0, 0, 401, 0 }, 6, -EBADMSG },   /* verifiers have 400 at most */
		{ { 0x1234, 1, 0, 0, 0xffffffff, 0 }, 6, -EBADMSG },
		{ { 0x1234, 1, 0, 0, 0x80000000, 0 }, 6, -EBADMSG },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		cr_assert_eq(reply(t[i].w, t[i].n * 4, NULL), t[i].rc, "row %u", i);
}

Test(rpcmsg, the_flavor_checks_the_verifier)
{
	static const struct { uint32_t flavor; bool none, sys; } t[] = {
		{ RPC_AUTH_NONE, true, true }, { RPC_AUTH_SYS, false, true },
		{ RPC_AUTH_SHORT, false, true }, { 6, false, false }, { UINT32_MAX, false, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const uint32_t w[] = { 0x1234, 1, 0, t[i].flavor, 4, 0x61626364, 0 };

		auth = &rpc_auth_none;
		cr_assert_eq(reply(w, sizeof(w), NULL), t[i].none ? 0 : -EBADMSG, "row %u", i);
		auth = &rpc_auth_sys;
		cr_assert_eq(reply(w, sizeof(w), NULL), t[i].sys ? 0 : -EBADMSG, "row %u", i);
	}
}

Test(rpcmsg, why_a_credential_was_refused)
{
	static const uint32_t w[] = { 0x1234, 1, 1, 1, 13 };
	const struct rpc_cred cred = { .uid = 1000 };
	struct rpc_auth_call k = { .flavor = &rpc_auth_sys, .cred = &cred };

	auth = k.flavor;
	cr_assert_eq(reply(w, sizeof(w), NULL), -EKEYREJECTED);
	cr_assert_eq(why, 13);
	cr_assert_eq(auth->refresh(&k, why), -EACCES, "it would be the same again");
}

Test(rpcmsg, results_follow_the_header)
{
	static const uint32_t plain[] = { 0x1234, 1, 0, 0, 0, 0, 77 };
	uint32_t longest[106] = { 0x1234, 1, 0, 3, 400 }, pos;
	uint32_t longer[300] = { 0x1234, 1, 0, 3, 401 };

	cr_assert_eq(reply(plain, sizeof(plain), &pos), 0);
	cr_assert_eq(pos, RPC_REPLY_HDR_MIN);
	cr_assert_eq(reply(longest, sizeof(longest), &pos), 0);
	cr_assert_eq(pos, RPC_REPLY_HDR_MAX, "the room that callers leave for it");
	/* All of it there, and more than a verifier may be. */
	cr_assert_eq(reply(longer, sizeof(longer), NULL), -EBADMSG);
	longer[4] = 1100;
	cr_assert_eq(reply(longer, sizeof(longer), NULL), -EBADMSG);
}

Test(rpcmsg, replies_cut_anywhere)
{
	static const uint32_t accepted[] = { 0x1234, 1, 0, 6, 5, 0x61626364, 0x65000000, 0 };
	static const uint32_t denied[] = { 0x1234, 1, 1, 0, 2, 2 };

	for (uint32_t len = 0; len < sizeof(accepted); len++)
		cr_assert_eq(reply(accepted, len, NULL), -EBADMSG, "%u bytes", len);
	for (uint32_t len = 0; len < sizeof(denied); len++)
		cr_assert_lt(reply(denied, len, NULL), 0, "%u bytes", len);
}
