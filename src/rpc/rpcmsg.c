/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ONC RPC headers; see rpcmsg.h. Nothing here allocates. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "rpc/rpcmsg.h"

/* RFC 5531, sections 9 and 14. */
enum { MSG_CALL = 0, MSG_REPLY = 1, RPC_MSG_VERSION = 2 };
enum { STAT_ACCEPTED = 0, STAT_DENIED = 1 };
enum { ACC_SUCCESS = 0, ACC_PROG_UNAVAIL = 1, ACC_PROG_MISMATCH = 2, ACC_PROC_UNAVAIL = 3 };
enum { DENY_RPC_MISMATCH = 0, DENY_AUTH_ERROR = 1 };
enum { FLAVOR_NONE = 0, FLAVOR_SYS = 1 };

#define MACHINE_MAX  255u
#define VERIFIER_MAX 400u

static char machine[MACHINE_MAX + 1] = "localhost";
static uint32_t machine_len = 9;

void rpcmsg_init(void)
{
	if (gethostname(machine, sizeof(machine)))
		strcpy(machine, "localhost");
	machine[MACHINE_MAX] = '\0';
	machine_len = (uint32_t)strlen(machine);
}

static bool_t put(XDR *x, uint32_t v)
{
	return xdr_uint32_t(x, &v);
}

static bool_t put_auth_sys(XDR *x, const struct rpc_cred *cred)
{
	uint32_t ngids = cred->ngids < RPC_GIDS_MAX ? cred->ngids : RPC_GIDS_MAX;
	/* stamp, length of name, name, uid, gid, count, gids */
	uint32_t body = 4 + 4 + ((machine_len + 3) & ~3u) + 4 + 4 + 4 + 4 * ngids;

	if (!put(x, FLAVOR_SYS) || !put(x, body) || !put(x, 0) || !put(x, machine_len) ||
	    !xdr_opaque(x, machine, machine_len) || !put(x, cred->uid) || !put(x, cred->gid) ||
	    !put(x, ngids))
		return FALSE;
	for (uint32_t i = 0; i < ngids; i++)
		if (!put(x, cred->gids[i]))
			return FALSE;
	return TRUE;
}

bool_t rpcmsg_call(XDR *xdrs, uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc,
		   const struct rpc_cred *cred)
{
	if (!put(xdrs, xid) || !put(xdrs, MSG_CALL) || !put(xdrs, RPC_MSG_VERSION) ||
	    !put(xdrs, prog) || !put(xdrs, vers) || !put(xdrs, proc))
		return FALSE;
	if (cred ? !put_auth_sys(xdrs, cred) : !put(xdrs, FLAVOR_NONE) || !put(xdrs, 0))
		return FALSE;
	return put(xdrs, FLAVOR_NONE) && put(xdrs, 0);
}

void rpcmsg_set_xid(void *msg, uint32_t xid)
{
	xid = htonl(xid);
	memcpy(msg, &xid, sizeof(xid));
}

static bool skip_verifier(XDR *x)
{
	char body[VERIFIER_MAX];
	uint32_t flavor, len;

	return xdr_uint32_t(x, &flavor) && xdr_uint32_t(x, &len) && len <= VERIFIER_MAX &&
	       xdr_opaque(x, body, len);
}

static int denied(XDR *x)
{
	uint32_t why;

	if (!xdr_uint32_t(x, &why))
		return -EBADMSG;
	if (why == DENY_AUTH_ERROR)
		return -EACCES;
	return why == DENY_RPC_MISMATCH ? -EPROTONOSUPPORT : -EBADMSG;
}

int rpcmsg_reply(XDR *xdrs, uint32_t xid)
{
	uint32_t got, type, stat;

	if (!xdr_uint32_t(xdrs, &got) || got != xid || !xdr_uint32_t(xdrs, &type) ||
	    type != MSG_REPLY || !xdr_uint32_t(xdrs, &stat))
		return -EBADMSG;
	if (stat == STAT_DENIED)
		return denied(xdrs);
	if (stat != STAT_ACCEPTED || !skip_verifier(xdrs) || !xdr_uint32_t(xdrs, &stat))
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
