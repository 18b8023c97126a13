/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ONC RPC headers; see rpcmsg.h. Nothing here allocates. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "rpc/rpcmsg.h"
#include "xdr_msg.h"

/* RFC 5531, section 9. */
enum { MSG_CALL = 0, MSG_REPLY = 1, RPC_MSG_VERSION = 2 };
enum { STAT_ACCEPTED = 0, STAT_DENIED = 1 };
enum { ACC_SUCCESS = 0, ACC_PROG_UNAVAIL = 1, ACC_PROG_MISMATCH = 2, ACC_PROC_UNAVAIL = 3 };
enum { DENY_RPC_MISMATCH = 0, DENY_AUTH_ERROR = 1 };

bool_t rpcmsg_call(XDR *xdrs, uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc,
		   struct rpc_auth_call *k)
{
	int32_t *at = XDR_INLINE(xdrs, 6 * BYTES_PER_XDR_UNIT);

	if (!at)
		return FALSE;
	IXDR_PUT_U_INT32(at, xid);
	IXDR_PUT_U_INT32(at, MSG_CALL);
	IXDR_PUT_U_INT32(at, RPC_MSG_VERSION);
	IXDR_PUT_U_INT32(at, prog);
	IXDR_PUT_U_INT32(at, vers);
	IXDR_PUT_U_INT32(at, proc);
	return k->flavor->marshal(k, xdrs);
}

void rpcmsg_set_xid(void *msg, uint32_t xid)
{
	xid = htonl(xid);
	memcpy(msg, &xid, sizeof(xid));
}

/* The rest of a verifier, of which `at` is the head. */
static bool check_verifier(XDR *x, const int32_t *at, struct rpc_auth_call *k)
{
	uint32_t flavor = IXDR_GET_U_INT32(at), len = IXDR_GET_U_INT32(at);

	if (len > RPC_VERIFIER_MAX || (len && !XDR_INLINE(x, (len + 3) & ~3u)))
		return false;
	return !k || k->flavor->verify(k, flavor, at, len);
}

/* `at` are the two words behind that. */
static int rpcmsg_denied(const int32_t *at, uint32_t *why)
{
	uint32_t stat = IXDR_GET_U_INT32(at);

	*why = IXDR_GET_U_INT32(at);
	return stat == DENY_AUTH_ERROR ? -EKEYREJECTED :
	       stat == DENY_RPC_MISMATCH ? -EPROTONOSUPPORT : -EBADMSG;
}

int rpcmsg_reply(XDR *xdrs, uint32_t xid, struct rpc_auth_call *k, uint32_t *why)
{
	/* No reply is shorter. What comes behind the third word is the head of a verifier, or
	 * says why the call was denied. */
	int32_t *at = XDR_INLINE(xdrs, 5 * BYTES_PER_XDR_UNIT);
	uint32_t got, type, stat;

	if (!at)
		return -EBADMSG;
	got = IXDR_GET_U_INT32(at);
	type = IXDR_GET_U_INT32(at);
	stat = IXDR_GET_U_INT32(at);
	if (got != xid || type != MSG_REPLY)
		return -EBADMSG;
	if (stat == STAT_DENIED)
		return rpcmsg_denied(at, why);
	if (stat != STAT_ACCEPTED || !check_verifier(xdrs, at, k) || !xdr_uint32_t(xdrs, &stat))
		return -EBADMSG;
	switch (stat) {
	case ACC_SUCCESS:
		return 0;
	case ACC_PROG_UNAVAIL:
	case ACC_PROG_MISMATCH:
		return -EPROTONOSUPPORT;
	case ACC_PROC_UNAVAIL:
		return -EOPNOTSUPP;
	default:
		return -EREMOTEIO;      /* GARBAGE_ARGS, SYSTEM_ERR */
	}
}
