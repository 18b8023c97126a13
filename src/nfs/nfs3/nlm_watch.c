/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NSM: this host's rpc.statd, if there is one, is asked to remember the server (SM_MON). When this host has
 * crashed and is up again, it tells the server's (SM_NOTIFY), which then frees what was locked from here.
 * Only with that is the server asked for locks that it is to watch this host for (nlm_wire_lock()).
 *
 * When the server restarts, statd calls the kernel's lock manager, which knows nothing of this: Linux's
 * statd takes no other program, and only from 127.0.0.1 and a reserved port. The connection tells us.
 *
 * There is no SM_UNMON: statd has one record of a server, which is the kernel's client's as well, and that of
 * other mounts of this program. Without it their locks would stay. So a server may be told of a restart of
 * this host that does not concern it, which changes nothing there.
 */
#include <arpa/inet.h>
#include "nfs/nfs3/nlm.h"
#include "sm_inter.h"

/* Of each of the two connections, and the two calls. statd looks the server's name up. */
#define WATCH_MS 2000u
/* NLM_SM_NOTIFY of Linux's lock manager. */
#define WATCH_CALLS_PROC 16

static int watch_call(struct nlm *n, struct rpctcp *t, struct sm_stat_res *res, struct errbuf *why)
{
	const void *ip = n->addr.ss_family == AF_INET6 ?
			 (const void *)&((const struct sockaddr_in6 *)(const void *)&n->addr)->sin6_addr :
			 (const void *)&((const struct sockaddr_in *)(const void *)&n->addr)->sin_addr;
	char server[INET6_ADDRSTRLEN] = "";
	sm_mon a = {
		.my_id = { .my_name = nfs_ref_str(n->host), .my_prog = NLM_PROGRAM, .my_vers = NLM_V4,
			   .my_proc = WATCH_CALLS_PROC },
		.priv = { n->id, n->id },
	};

	inet_ntop(n->addr.ss_family, ip, server, sizeof(server));
	a.mon_name = nfs_ref_str(server);
	return rpctcp_call(t, SM_PROGRAM, SM_V1, SMPROC_MON, NULL, (xdrproc_t)xdr_sm_mon, &a,
			   (xdrproc_t)xdr_sm_stat_res, res, why);
}

static int watch_ask(struct nlm *n, struct errbuf *why)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage addr = { 0 };
	struct sm_stat_res res = { 0 };
	struct rpctcp *t;
	int rc;

	memcpy(&addr, &in, sizeof(in));
	rc = rpcbind_tcp_port(&addr, SM_PROGRAM, SM_V1, "rpc.statd", "", WATCH_MS, why);
	if (rc < 0)
		return rc;
	addr = rpctcp_with_port(&addr, (unsigned)rc);
	rc = rpctcp_open(&t, &addr, NULL, "rpc.statd", WATCH_MS, why);
	if (rc)
		return rc;
	rc = watch_call(n, t, &res, why);
	rpctcp_close(t);
	n->nsm_state = res.state;
	return rc ? rc : res.res_stat == SM_STAT_SUCC ? 0 : err_set(why, -EIO, "rpc.statd refuses");
}

void nlm_watch(struct nlm *n)
{
	struct errbuf why;

	if (n->watch_asked)
		return;
	n->watch_asked = true;
	n->watches = n->monitored = !watch_ask(n, &why);
	if (!n->watches)
		log_debug("locks on %s: this host's rpc.statd does not help (%s)", n->server->name, why.text);
}
