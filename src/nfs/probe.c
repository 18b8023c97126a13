/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probes: calls that are not operations. They have no slot and nobody waits for what they bring;
 * they ask who is there (the check of a new connection) or whether anybody is (heartbeat, ping).
 * So they do not go through the engine: their owner (connection.c, target.c) has the rr_call and
 * its message, submits it, and gives the message back when the call is done, which a connection
 * that dies brings about as well. Lane thread.
 */
#include <errno.h>
#include "nfs/internal.h"
#include "xdr_msg.h"

static bool_t no_args(void *arg, XDR *x)
{
	return TRUE;
}

int nfs_probe_encode(const struct nfs_target *t, struct rr_call *rr, const struct nfs_probe *p,
		     void *arg)
{
	const struct nfs_version *v = t->server->version;
	struct rpc_auth_call none = { .flavor = &rpc_auth_none }, *auth = p->auth ? p->auth : &none;
	XDR x;
	bool ok;

	*rr = (struct rr_call){ .done = p->done, .reply_max = RPC_REPLY_HDR_MAX + p->reply_max };
	rr->msg = magazine_get(&t->lane->mag, ARENA_MSG);
	if (!rr->msg)
		return -EAGAIN;
	rr->xid = rr_xid(t->conn);
	xdr_msg_create(&x, (char *)rr->msg->mem + RR_HDR_ROOM, (u_int)(rr->msg->size - RR_HDR_ROOM),
		       XDR_ENCODE);
	ok = rpcmsg_call(&x, rr->xid, v->prog, v->vers, p->proc, auth) &&
	     auth->flavor->wrap(auth, &x, p->args ? p->args : no_args, arg);
	rr->msg_len = xdr_getpos(&x);
	if (!ok)
		nfs_probe_put(t, rr);
	return ok ? 0 : -EMSGSIZE;
}

void nfs_probe_put(const struct nfs_target *t, struct rr_call *rr)
{
	magazine_put(&t->lane->mag, rr->msg);
	rr->msg = NULL;
}
