/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ONC RPC messages (RFC 5531) over a transport that keeps record boundaries: the headers
 * of calls and replies. What is in them of a flavor is rpc_auth.h's.
 */
#ifndef RPC_RPCMSG_H
#define RPC_RPCMSG_H

#include "rpc/rpc_auth.h"

/* xid..verifier of an accepted reply without an error: 24 bytes, and room for
 * a verifier body, which AUTH_SYS servers leave empty but may send (RFC 5531: 400). */
#define RPC_VERIFIER_MAX  400u
#define RPC_REPLY_HDR_MAX (24u + RPC_VERIFIER_MAX)
#define RPC_REPLY_HDR_MIN 24u

/* Encodes everything before the arguments. FALSE: the stream is full. */
bool_t rpcmsg_call(XDR *xdrs, uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc,
		   const struct rpc_auth *auth, const struct rpc_cred *cred);

/* The same message as another call: its XID is the first word. */
void rpcmsg_set_xid(void *msg, uint32_t xid);

/*
 * Decodes everything before the results. auth checks the verifier; NULL: nobody does.
 * 0: the results follow. Otherwise
 *   -EBADMSG         not a reply, another XID, cut off, or a verifier that is wrong
 *   -EPROTONOSUPPORT the server does not have the program or the version
 *   -EOPNOTSUPP      not the procedure
 *   -EKEYREJECTED    the credential was refused; *why is the auth_stat
 *   -EREMOTEIO       GARBAGE_ARGS or SYSTEM_ERR
 */
int rpcmsg_reply(XDR *xdrs, uint32_t xid, const struct rpc_auth *auth, uint32_t *why);

#endif
