/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ONC RPC messages (RFC 5531) over a transport that keeps record boundaries: the headers of
 * calls and replies. The credential and the verifier in them belong to the flavor
 * (rpc_auth.h).
 * A stream lies in memory that is aligned to four bytes (xdr_msg.h).
 */
#pragma once

#include "rpc/rpc_auth.h"

/* From xid to the verifier of an accepted reply without an error: 24 bytes and a
 * verifier body. AUTH_SYS servers usually leave the body empty, but may send one (RFC
 * 5531: 400 bytes). */
#define RPC_VERIFIER_MAX  400u
#define RPC_REPLY_HDR_MAX (24u + RPC_VERIFIER_MAX)
#define RPC_REPLY_HDR_MIN 24u

/* From xid to the verifier of a call: ten words, and both bodies (RFC 5531: 400 bytes each). */
#define RPC_CALL_HDR_MAX (40u + 2u * RPC_VERIFIER_MAX)

/* Encodes everything before the arguments. FALSE: the stream is full. */
bool_t rpcmsg_call(XDR *xdrs, uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc,
		   struct rpc_auth_call *k);

/* Turns the message into another call: the XID is its first word. */
void rpcmsg_set_xid(void *msg, uint32_t xid);

/*
 * Decodes everything before the results. k's flavor checks the verifier; k NULL: no check.
 * Returns 0 if the results follow. Otherwise
 *   -EBADMSG         not a reply, another XID, truncated, or a bad verifier
 *   -EPROTONOSUPPORT the server does not have the program or the version
 *   -EOPNOTSUPP      the server does not have the procedure
 *   -EKEYREJECTED    the credential was refused; *why is the auth_stat
 *   -EREMOTEIO       GARBAGE_ARGS or SYSTEM_ERR
 */
int rpcmsg_reply(XDR *xdrs, uint32_t xid, struct rpc_auth_call *k, uint32_t *why);
