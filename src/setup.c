/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes the client's configuration from the options, and chooses the fabric. Runs on the
 * server thread (main.c), before the client exists.
 */
#include <errno.h>
#include "rpcrdma/memreg.h"
#include "setup_impl.h"

/* The time-out of each step of connection set-up: address, route, connect. */
#define CONNECT_STEP_MS 5000u

/*
 * fabric=auto uses verbs if this machine has a device with a route to the server, otherwise
 * iWARP in user space. The paths are asked in turn. The first that has a device decides for
 * all, because one rule is easier to foresee than a mixture. An address that does not answer
 * decides nothing: the server may be down, or that way to it, and others are fine. If all are
 * silent we stay with verbs, so that a retry uses the same fabric.
 */
#define TRIED "so iWARP over TCP was tried: is nfsrdma-gateway or a server with siw there? " \
	"fabric=verbs insists on a device"

static bool no_device(int rc)
{
	return rc == -ENODEV || rc == -EACCES || rc == -EPERM;
}

/* The hint, or NULL: verbs is the choice. Fills why. */
static const char *why_not_verbs(const struct nfs_config *cfg, struct errbuf *why)
{
	/* A user who has a device, and expects it to be used, must learn of this. */
	const char *hint = NULL;

	for (unsigned i = 0; i < cfg->npaths; i++) {
		struct errbuf eb = { "" };
		int rc = fabric_verbs.probe(&cfg->paths[i].params, &eb);

		if (rc == 0)
			return NULL;
		if (!no_device(rc)) {
			log_info("fabric=auto: path %u decides nothing, because %s", i, eb.text);
			continue;
		}
		if (hint)
			continue;
		*why = eb;
		hint = rc == -ENODEV ? "no RDMA device leads to the server, " TRIED :
				       "this user may not use RDMA devices, " TRIED;
	}
	return hint;
}

static void choose_fabric(struct nfs_config *cfg, const struct options *o)
{
	const struct fabric *fabric = o->fabric == OPT_FABRIC_IWARP ? &fabric_iwarp : &fabric_verbs;
	struct errbuf why = { "" };
	const char *hint = NULL;

	if (o->fabric == OPT_FABRIC_AUTO) {
		hint = why_not_verbs(cfg, &why);
		if (hint) {
			fabric = &fabric_iwarp;
			log_info("fabric=auto: using iWARP in user space, because %s", why.text);
		} else {
			log_info("fabric=auto: using verbs");
		}
	}
	for (unsigned i = 0; i < cfg->npaths; i++) {
		cfg->paths[i].fabric = fabric;
		cfg->paths[i].params.hint = hint;
	}
}

static const struct rr_memreg *const memregs[] = {
	[OPT_MEMREG_AUTO] = &rr_memreg_auto,
	[OPT_MEMREG_POOL] = &rr_memreg_pool,
	[OPT_MEMREG_CALL] = &rr_memreg_call,
	[OPT_MEMREG_MW] = &rr_memreg_mw,
};

static const enum rr_policy policies[] = {
	[OPT_POLICY_INFLIGHT] = RR_MIN_INFLIGHT, [OPT_POLICY_ROBIN] = RR_ROUND_ROBIN,
	[OPT_POLICY_LATENCY] = RR_MIN_LATENCY,
};

int setup_client(struct nfs_config *cfg, const struct options *o, struct errbuf *eb)
{
	int rc;

	*cfg = (struct nfs_config){
		.version = o->vers == OPT_VERS_3 ? &nfs_v3 :
			   o->vers == OPT_VERS_42 ? &nfs_v42 : &nfs_v41,
		.auth = o->sec == OPT_SEC_NONE ? &rpc_auth_none : &rpc_auth_sys,
		.server = o->server,
		.export = o->export,
		.rsize = o->rsize,
		.wsize = o->wsize,
		.timeo_ms = o->timeo * 100,
		.retrans = o->retrans,
		.soft = o->soft,
		.mountport = o->mountport,
		.memreg = memregs[o->memreg],
		.idmapper = o->vers == OPT_VERS_3 ? NULL : &nfs_idmapper_lib,
		.policy = policies[o->policy],
		.mdconnect = o->mdconnect,
		.heartbeat_ms = o->heartbeat * 1000,
	};
	for (unsigned i = 0; i < NFS_PATHS_MAX; i++) {
		cfg->paths[i].params.timeout_ms = CONNECT_STEP_MS;
		cfg->paths[i].params.flags = (o->mpa_crc ? FAB_CRC : 0) |
					     (o->mss_fpdu ? FAB_MSS_FPDU : 0);
	}
	rc = setup_paths(cfg, o, eb);
	if (rc)
		return rc;
	choose_fabric(cfg, o);
	rc = setup_memory(cfg, o, eb);
	if (!rc)
		setup_files(cfg);
	return rc;
}
