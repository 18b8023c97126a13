/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The other side of ONC RPC (RFC 5531): a call comes in, and its reply goes out. It is for calls of
 * a server to its client, on the connection that the client has made. So the peer is known, and
 * the credential decides nothing: AUTH_NONE and AUTH_SYS are taken as they are.
 */
#pragma once

#include <stdint.h>
#include <rpc/types.h>
#include <rpc/xdr.h>

/* accept_stat of RFC 5531, as far as a procedure says so. */
enum rpc_accept { RPC_DONE = 0, RPC_PROC_UNAVAIL = 3, RPC_GARBAGE_ARGS = 4 };

struct rpcserve_program {
	uint32_t number;
	uint32_t versions;              /* a bit each */
	/* Decodes the arguments, and encodes the results. What it has written counts only if it
	 * returns RPC_DONE. */
	enum rpc_accept (*call)(void *ctx, uint32_t proc, XDR *args, XDR *res);
};

/* Answers the call in `in`. p NULL: there is no program. Returns the bytes of the reply; 0: it is
 * no call, or there is no room for an answer. Both streams are xdr_msg.h's. */
uint32_t rpcserve(const struct rpcserve_program *p, void *ctx, XDR *in, XDR *out);
