/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The plan of a mount, and which fabric carries it. */
#include <errno.h>
#include "nfs/plan_impl.h"

/* The time-out of each step of connection set-up: address, route, connect. */
#define CONNECT_STEP_MS 5000u

/*
 * fabric=auto uses verbs if this machine has a device with a route to the server, otherwise
 * iWARP in user space. The paths are asked in turn. The first that has a device decides for
 * all, because one rule is easier to foresee than a mixture. An address that does not answer
 * is ignored: the server may be down, or that way to it, and others are fine. If all are
 * silent we stay with verbs, so that a retry uses the same fabric. A server that is not to be had by a
 * device at the first attempt is asked for by iWARP once: it may have only that (nfs_client_new()).
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
			log_info("fabric=auto: path %u is ignored: %s", i, eb.text);
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

static void choose_fabric(struct nfs_config *cfg, enum nfs_plan_fabric which)
{
	const struct fabric *fabric = which == NFS_PLAN_IWARP ? &fabric_iwarp : &fabric_verbs;
	struct errbuf why = { "" };
	const char *hint = NULL;

	if (which == NFS_PLAN_AUTO) {
		hint = why_not_verbs(cfg, &why);
		if (hint) {
			fabric = &fabric_iwarp;
			log_info("fabric=auto: using iWARP in user space, because %s", why.text);
		} else {
			log_info("fabric=auto: using verbs");
			cfg->second = &fabric_iwarp;
		}
	}
	for (unsigned i = 0; i < cfg->npaths; i++) {
		cfg->paths[i].fabric = fabric;
		cfg->paths[i].params.hint = hint;
	}
}

int nfs_plan(struct nfs_config *cfg, const struct nfs_plan_in *in, struct errbuf *eb)
{
	int rc;

	for (unsigned i = 0; i < NFS_PATHS_MAX; i++) {
		cfg->paths[i].params.timeout_ms = CONNECT_STEP_MS;
		cfg->paths[i].params.flags = in->flags;
	}
	rc = plan_paths(cfg, in, eb);
	if (rc)
		return rc;
	choose_fabric(cfg, in->fabric);
	rc = plan_memory(cfg, in, eb);
	if (!rc)
		plan_files(cfg);
	return rc;
}
