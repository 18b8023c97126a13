/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lock manager's calls, and its connection: see nlm.h. What a reply says of lengths and offsets is a
 * stranger's: a range that makes no sense counts as "to the end" (nfs_range_last()).
 */
#include <errno.h>
#include <string.h>
#include "base/loop.h"
#include "nfs/nfs3/nlm.h"
#include "nfs/nfs3/nfs3_impl.h"

/* Our svids have this bit, and 30 random ones. A kernel counts from 1, and process ids are smaller. */
#define SVID_OURS 0x40000000u

/* ---- the connection ---- */

static void wire_set(struct nlm *n, struct rpctcp *t)
{
	pthread_mutex_lock(&n->mu);
	n->tcp = t;
	pthread_mutex_unlock(&n->mu);
}

static int wire_connect(struct nlm *n, unsigned port, struct errbuf *why)
{
	struct sockaddr_storage ss = rpctcp_with_port(&n->addr, port);
	struct rpctcp *t;
	int rc = rpctcp_open(&t, &ss, &n->local, "lockd", n->limit_ms, why);

	if (rc)
		return rc;
	rpctcp_local(t, &n->local);
	n->monitored = n->watches;
	wire_set(n, t);
	return 0;
}

/* From another address we are another host to the server. */
static void wire_lose_local(struct nlm *n)
{
	char addr[80];

	fab_addr_text(&n->local, addr, sizeof(addr));
	if (n->nowners)
		log_err("this host no longer has the address %s: its locks on %s are lost, and stay there until "
			"its lock manager is restarted (see Locks in the man page)", addr, n->server->name);
	n->local.ss_family = AF_UNSPEC;
}

int nlm_wire_open(struct nlm *n, struct errbuf *why)
{
	int rc, port = (int)n->server->client->cfg.nlmport;

	nlm_wire_close(n);
	if (!port)
		port = rpcbind_tcp_port(&n->addr, NLM_PROGRAM, NLM_V4, "lockd", "nlmport", n->limit_ms, why);
	if (port < 0)
		return port;
	rc = wire_connect(n, (unsigned)port, why);
	if (rc != -EADDRNOTAVAIL || n->local.ss_family == AF_UNSPEC)
		return rc;
	wire_lose_local(n);
	return wire_connect(n, (unsigned)port, why);
}

void nlm_wire_close(struct nlm *n)
{
	struct rpctcp *t = n->tcp;

	wire_set(n, NULL);
	rpctcp_close(t);
}

bool nlm_wire_refused(int rc)
{
	return rc == -EACCES || rc == -EREMOTEIO || rc == -EOPNOTSUPP || rc == -EPROTONOSUPPORT;
}

/* By the clock that goes on while this host sleeps. */
uint64_t nlm_wire_silent_ns(const struct nlm *n)
{
	return boot_ns() - n->answered_ns;
}

/* After any other error nobody knows what comes next on it. */
static int wire_end(struct nlm *n, int rc)
{
	if (!rc)
		n->answered_ns = boot_ns();
	else if (!nlm_wire_refused(rc))
		nlm_wire_close(n);
	return rc;
}

static int wire_call(struct nlm *n, uint32_t proc, const struct rpc_cred *cred, xdrproc_t args, void *argp,
		     xdrproc_t res, void *resp, struct errbuf *why)
{
	/* With sec=none calls have no credential. */
	if (n->server->auth->flavor != RPC_AUTH_SYS)
		cred = NULL;
	rpctcp_set_timeout(n->tcp, n->limit_ms);
	return wire_end(n, rpctcp_call(n->tcp, NLM_PROGRAM, NLM_V4, proc, cred, args, argp, res, resp, why));
}

/* ---- what all calls have ---- */

struct wire_oh {
	uint64_t id, number;
};

static uint32_t wire_svid(const struct nlm *n, uint64_t number)
{
	return SVID_OURS | (((uint32_t)n->id + (uint32_t)number) & (SVID_OURS - 1));
}

static nlm4_obj wire_cookie(struct nlm *n)
{
	n->cookie++;
	return (nlm4_obj){ .len = sizeof(n->cookie), .data = (const char *)&n->cookie };
}

static int wire_check_cookie(struct nlm *n, const nlm4_obj *cookie, struct errbuf *why)
{
	if (cookie->len == sizeof(n->cookie) && !memcmp(cookie->data, &n->cookie, sizeof(n->cookie)))
		return 0;
	err_set(why, -EBADMSG, "lockd on %s: the answer is to another call", n->server->name);
	return wire_end(n, -EBADMSG);
}

static nlm4_lock wire_alock(const struct nlm *n, const struct nlm_who *w, const struct wire_oh *oh,
			    uint64_t start, uint64_t last)
{
	uint64_t len = nfs_range_length(start, last);

	return (nlm4_lock){
		.caller_name = nfs_ref_str(n->host),
		.fh = { .len = w->fh.len, .data = (const char *)w->fh.data },
		.oh = { .len = sizeof(*oh), .data = (const char *)oh },
		.svid = (int)wire_svid(n, w->number),
		.l_offset = start, .l_len = len == UINT64_MAX ? 0 : len,
	};
}

static struct wire_oh wire_oh_of(const struct nlm *n, const struct nlm_who *w)
{
	return (struct wire_oh){ .id = n->id, .number = w->number };
}

/* ---- the calls ---- */

int nlm_wire_null(struct nlm *n, struct errbuf *why)
{
	char none;

	return wire_call(n, NLM4PROC_NULL, NULL, (xdrproc_t)xdr_void, &none, (xdrproc_t)xdr_void, &none, why);
}

/* Any 32 bits may come; the result must not look like an -errno. */
static int wire_stat(nlm4_stats stat)
{
	return (int)stat < 0 ? INT32_MAX : (int)stat;
}

static int wire_result(struct nlm *n, int rc, const nlm4_res *res, struct errbuf *why)
{
	if (!rc)
		rc = wire_check_cookie(n, &res->cookie, why);
	return rc ? rc : wire_stat(res->stat);
}

static int wire_lock(struct nlm *n, const struct nlm_who *w, struct nfs_range r, bool reclaim,
		     struct errbuf *why)
{
	struct wire_oh oh = wire_oh_of(n, w);
	nlm4_lockargs a = {
		.cookie = wire_cookie(n), .exclusive = r.write, .reclaim = reclaim,
		.alock = wire_alock(n, w, &oh, r.start, r.last), .state = n->nsm_state,
	};
	nlm4_res res = { 0 };
	int rc = wire_call(n, n->monitored ? NLM4PROC_LOCK : NLM4PROC_NM_LOCK, &w->cred,
			   (xdrproc_t)xdr_nlm4_lockargs, &a, (xdrproc_t)xdr_nlm4_res, &res, why);

	return wire_result(n, rc, &res, why);
}

int nlm_wire_lock(struct nlm *n, const struct nlm_who *w, struct nfs_range r, bool reclaim,
		  struct errbuf *why)
{
	int stat = wire_lock(n, w, r, reclaim, why);

	if (stat != NLM4_DENIED_NOLOCKS || !n->monitored)
		return stat;
	/* It may have no rpc.statd, and so cannot watch this host. */
	n->monitored = false;
	return wire_lock(n, w, r, reclaim, why);
}

int nlm_wire_unlock(struct nlm *n, const struct nlm_who *w, uint64_t start, uint64_t last,
		    struct errbuf *why)
{
	struct wire_oh oh = wire_oh_of(n, w);
	nlm4_unlockargs a = { .cookie = wire_cookie(n), .alock = wire_alock(n, w, &oh, start, last) };
	nlm4_res res = { 0 };
	int rc = wire_call(n, NLM4PROC_UNLOCK, &w->cred, (xdrproc_t)xdr_nlm4_unlockargs, &a,
			   (xdrproc_t)xdr_nlm4_res, &res, why);

	return wire_result(n, rc, &res, why);
}

/* 0: unknown. Linux leaves oh empty, and puts lockd's process into svid. */
static uint64_t wire_holder(const struct nlm *n, const nlm4_holder *h)
{
	struct wire_oh oh;

	if (h->oh.len != sizeof(oh))
		return 0;
	memcpy(&oh, h->oh.data, sizeof(oh));
	return oh.id == n->id ? oh.number : 0;
}

int nlm_wire_test(struct nlm *n, const struct nlm_who *w, struct nfs_range r,
		  struct nfs_lock_results *out, struct errbuf *why)
{
	struct wire_oh oh = wire_oh_of(n, w);
	nlm4_testargs a = {
		.cookie = wire_cookie(n), .exclusive = r.write,
		.alock = wire_alock(n, w, &oh, r.start, r.last),
	};
	nlm4_testres res = { 0 };
	const nlm4_holder *h = &res.test_stat.nlm4_testrply_u.holder;
	int rc = wire_call(n, NLM4PROC_TEST, &w->cred, (xdrproc_t)xdr_nlm4_testargs, &a,
			   (xdrproc_t)xdr_nlm4_testres, &res, why);

	if (!rc)
		rc = wire_check_cookie(n, &res.cookie, why);
	if (rc)
		return rc;
	if (res.test_stat.stat == NLM4_DENIED) {
		out->write = h->exclusive;
		out->offset = h->l_offset;
		out->length = h->l_len ? h->l_len : UINT64_MAX;
		out->holder = wire_holder(n, h);
	}
	return wire_stat(res.test_stat.stat);
}
