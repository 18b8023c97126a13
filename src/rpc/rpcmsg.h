/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ONC RPC messages (RFC 5531) over a transport that keeps record boundaries:
 * the call header with its AUTH_SYS credential, and the reply header.
 */
#ifndef RPC_RPCMSG_H
#define RPC_RPCMSG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <rpc/types.h>
#include <rpc/xdr.h>

#define RPC_GIDS_MAX 16u        /* AUTH_SYS carries no more */

struct rpc_cred {
	uid_t uid;
	gid_t gid;
	uint32_t ngids;
	gid_t gids[RPC_GIDS_MAX];
};

/* xid..verifier of an accepted reply without an error: 24 bytes, and room for
 * a verifier body, which AUTH_SYS servers leave empty but may send (RFC 5531: 400). */
#define RPC_REPLY_HDR_MAX (24u + 400u)
#define RPC_REPLY_HDR_MIN 24u

/* The machine name sent in AUTH_SYS credentials: this host's, cut to 255. Call
 * once before the first rpcmsg_call(). */
void rpcmsg_init(void);

/* Encodes everything before the arguments. cred NULL: AUTH_NONE. FALSE when
 * the stream is full. */
bool_t rpcmsg_call(XDR *xdrs, uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc,
		   const struct rpc_cred *cred);

/* The same message as another call: its XID is the first word. */
void rpcmsg_set_xid(void *msg, uint32_t xid);

/*
 * Decodes everything before the results. 0: the results follow. Otherwise
 *   -EBADMSG         not a reply, another XID, or cut off
 *   -EPROTONOSUPPORT the server does not have the program or the version
 *   -EOPNOTSUPP      not the procedure
 *   -EACCES          credential refused
 *   -EREMOTEIO       GARBAGE_ARGS or SYSTEM_ERR
 */
int rpcmsg_reply(XDR *xdrs, uint32_t xid);

#endif
