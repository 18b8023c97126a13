/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the engine sends for a step of a call, and what it makes of the reply. */
#include <string.h>
#include "nfs/common.h"
#include "nfs/internal.h"
#include "xdr_msg.h"

/* WRITE and COMMIT may be executed twice, and what they are for is still here. So a reply that says
 * nothing about them (see message_useless()) has them sent again, as after "later": this often at
 * most, which takes 16 s. Other calls end with EIO at once: a name that is made twice is EEXIST. */
#define USELESS_MAX 9u

enum arena_class nfs_message_class(const struct nfs_call *c)
{
	const struct nfs_opdef *def = nfs_opdef_of(c);
	uint32_t need;

	if (!def->args_max_of)
		return c->eng.auth.flavor->no_placement &&
		       (c->op == NFS_OP_WRITE || c->op == NFS_OP_SYMLINK) ? ARENA_MID : ARENA_MSG;
	need = RR_HDR_ROOM + RPC_CALL_HDR_MAX + def->args_max_of(c);
	return need <= ARENA_MSG_SIZE ? ARENA_MSG : need <= ARENA_MID_SIZE ? ARENA_MID : ARENA_BIG;
}

/* The data of the arguments, which encode() leaves out of the message. Returns how many
 * pieces it has. */
static uint32_t message_data(const struct nfs_call *c, struct rr_iov out[RR_SEND_IOV])
{
	uint32_t left, n;

	if (c->op == NFS_OP_SYMLINK) {
		/* It is only read. */
		out[0].mem = (char *)(uintptr_t)c->args.mk.target;
		out[0].len = (uint32_t)strlen(c->args.mk.target);
		return 1;
	}
	left = nfs_at_most(c, UINT32_MAX);
	for (n = 0; n < c->args.io.ndata && left; n++) {
		out[n] = c->args.io.data[n];
		if (out[n].len > left)
			out[n].len = left;
		left -= out[n].len;
	}
	return n;
}

/* Puts the data into its place in the XDR, because the flavor wraps it with the rest. */
static bool_t message_put_data(struct nfs_call *c, XDR *x)
{
	const struct rr_call *rr = &c->eng.rr;
	struct rr_iov data[RR_SEND_IOV];
	uint32_t len = rr_insert(rr->msg, xdr_getpos(x), rr->data_pos, data, message_data(c, data));

	return len && xdr_setpos(x, len);
}

/* encode() sets data_pos if this step has data. */
static bool_t message_put_args(void *arg, XDR *x)
{
	struct nfs_call *c = arg;

	return nfs_opdef_of(c)->encode(c, x) &&
	       (!c->eng.rr.data_pos || !c->eng.auth.flavor->no_placement || message_put_data(c, x));
}

/* As much of the sink as is asked for. */
static void offer_sink(struct nfs_call *c, uint32_t left)
{
	for (uint32_t i = 0; i < RR_SINK_IOV && left; i++) {
		struct rr_iov *s = &c->eng.rr.sink[i];

		*s = c->args.io.sink[i];
		if (s->len > left)
			s->len = left;
		left -= s->len;
	}
}

/* Data that travels outside the message: what the peer reads and writes. */
static void offer_data(struct nfs_call *c, const struct nfs_opdef *def)
{
	struct rr_call *rr = &c->eng.rr;
	bool inside = c->eng.auth.flavor->no_placement;
	uint32_t wanted = c->op == NFS_OP_READ ? nfs_read_len(c) :
			  def->placed_text ? NFS_PATH_MAX : 0;

	rr->nsend = 0;
	rr->send_copied = c->op == NFS_OP_SYMLINK;
	memset(rr->sink, 0, sizeof(rr->sink));
	if (rr->data_pos && !inside)
		rr->nsend = message_data(c, rr->send);
	if (inside)
		rr->reply_max += (wanted + 3) & ~3u;
	else if (c->op == NFS_OP_READ)
		offer_sink(c, wanted);
	else
		rr->sink[0].len = wanted;
}

static void message_renew(struct rr_call *rr)
{
	rpcmsg_set_xid((char *)rr->msg->mem + RR_HDR_ROOM, rr->xid);
}

bool nfs_message_encode(struct nfs_call *c)
{
	const struct nfs_version *v = c->target->server->version;
	const struct nfs_opdef *def = nfs_opdef_of(c);
	const struct nfs_call *ride = c->eng.riding_close;
	struct rpc_auth_call *auth = &c->eng.auth;
	uint32_t proc = def->proc_of ? def->proc_of(c) : def->proc;
	uint32_t prog = def->prog ? def->prog : v->prog;
	XDR x;
	bool ok;

	c->eng.rr.xid = rr_xid(c->target->conn);
	c->eng.rr.renew = message_renew;
	c->eng.rr.data_pos = 0;
	c->eng.rr.sends = 0;
	c->eng.rr.reply_max = RPC_REPLY_HDR_MAX + nfs_results_max(def, c);
	if (ride)
		c->eng.rr.reply_max += nfs_results_max(nfs_opdef_of(ride), ride);
	xdr_msg_create(&x, (char *)c->eng.rr.msg->mem + RR_HDR_ROOM,
		      (u_int)(c->eng.rr.msg->size - RR_HDR_ROOM), XDR_ENCODE);
	ok = rpcmsg_call(&x, c->eng.rr.xid, prog, v->vers, proc, auth) &&
	     auth->flavor->wrap(auth, &x, message_put_args, c);
	nfs_counted_begins(c, !v->procs ? c->op : def->prog ? def->counted : proc);
	c->eng.rr.msg_len = xdr_getpos(&x);
	offer_data(c, def);
	return ok;
}

/* ---- replies ---- */

static int message_take_results(void *arg, XDR *x)
{
	struct nfs_call *c = arg;

	return nfs_opdef_of(c)->decode(c, x);
}

static int message_decode(struct nfs_call *c)
{
	struct rpc_auth_call *auth = &c->eng.auth;
	uint32_t why;
	XDR x;
	int rc;

	/* An XDR_DECODE stream is never written through. */
	xdr_msg_create(&x, (void *)(uintptr_t)c->eng.rr.reply, c->eng.rr.reply_len, XDR_DECODE);
	rc = rpcmsg_reply(&x, c->eng.rr.xid, auth, &why);
	if (!rc)
		rc = auth->flavor->unwrap(auth, &x, message_take_results, c);
	else if (rc == -EKEYREJECTED && !(rc = auth->flavor->refresh(auth, why)))
		rc = NFS_AGAIN;
	return rc;
}

/* The server has answered, but not what became of the call. */
static int message_useless(struct nfs_call *c, const char *what)
{
	bool last = (c->op != NFS_OP_WRITE && c->op != NFS_OP_COMMIT) || c->eng.useless == USELESS_MAX;

	log_msg(last ? LOG_LVL_ERR : c->eng.useless ? LOG_LVL_DEBUG : LOG_LVL_WARN,
		"%s on %s: %s: %s", nfs_opdef_of(c)->name, c->target->server->name, what,
		last ? "EIO" : "it is sent again");
	c->eng.useless += !last;
	return last ? -EIO : NFS_LATER;
}

static int transport_error(struct nfs_call *c, int status)
{
	/* A soft mount promises EIO, and programs know that. */
	if (status == -ETIMEDOUT)
		return -EIO;
	/* The waiting thread tries another lane; or the call was taken back. */
	if (status == -ESHUTDOWN || status == -ENOTCONN || status == -EINTR)
		return status;
	if (status == -EMSGSIZE) {
		log_err("%s failed on %s: the call cannot be sent within the connection's limits",
			nfs_opdef_of(c)->name, c->target->server->name);
		return -EIO;
	}
	return message_useless(c, status == -EBADMSG ? "malformed RPC-over-RDMA reply" :
			       status == -EPROTONOSUPPORT ? "no common RPC-over-RDMA version" :
			       "the server refused the transport header");
}

static int message_take_reply(struct nfs_call *c)
{
	int rc;

	atomic_store_explicit(&c->target->last_reply_ns, loop_now(c->lane->loop),
			      memory_order_relaxed);
	rc = message_decode(c);
	if (rc == -EPROTONOSUPPORT && nfs_opdef_of(c)->prog) {
		/* Nobody asks again. */
		atomic_fetch_and(&c->lane->client->has, ~(unsigned)(NFS_HAS_NFSACL | NFS_HAS_POSIX_ACL));
		return -EOPNOTSUPP;
	}
	/* Who makes the client may try another version. */
	if (rc == -EPROTONOSUPPORT && (c->flags & NFS_CALL_CONTROL))
		return rc;
	if (rc != -EBADMSG && rc != -EREMOTEIO && rc != -EPROTONOSUPPORT)
		return rc;
	return message_useless(c, rc == -EBADMSG ? "malformed reply" : rc == -EREMOTEIO ?
			       "the server could not execute it" : "program or version unknown");
}

int nfs_message_result(struct nfs_call *c, int status)
{
	return status ? transport_error(c, status) : message_take_reply(c);
}
