/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes the client's configuration from the options: looks up addresses, and plans buffers
 * within the process's limits. Runs on the server thread (main.c), before the client exists.
 */
#include <errno.h>
#include <linux/capability.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "rpcrdma/memreg.h"
#include "setup.h"

/* The time-out of each step of connection set-up: address, route, connect. */
#define CONNECT_STEP_MS 5000u

static int lookup(const char *host, unsigned port, int family, int flags,
		  struct sockaddr_storage *out, struct errbuf *eb)
{
	struct addrinfo hints = {
		.ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = flags,
	}, *ai;
	char service[16];
	int rc;

	snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(host, service, &hints, &ai);
	if (rc)
		return err_set(eb, rc == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH,
			       "cannot find an address for '%s': %s; check the name and the resolver",
			       host, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
	memset(out, 0, sizeof(*out));
	memcpy(out, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	return 0;
}

static bool may_lock_all(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &h, d) == 0 &&
	       (d[0].effective & (1u << CAP_IPC_LOCK));
}

/* How many bytes may be pinned; SIZE_MAX: there is no limit. */
static size_t memlock_limit(void)
{
	struct rlimit r;

	if (may_lock_all() || getrlimit(RLIMIT_MEMLOCK, &r) < 0 || r.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return r.rlim_cur;
}

/* How often a buffer may be registered at once. Each time counts. Without windows auto becomes
 * pool, and mw becomes call; the cache may have registered buffers that are not in use, and
 * others are. */
static unsigned times_locked(const struct nfs_config *cfg)
{
	if (cfg->memreg == &rr_memreg_pool || cfg->memreg == &rr_memreg_auto)
		return 1;
	return cfg->memreg == &rr_memreg_cache ? 3 : 2;
}

/* What the queues of a connection with 64 credits pin, where the hardware keeps them in the
 * process's memory: work requests of up to 256 bytes, completions of 64, doorbells. Windows
 * take places in them. */
#define QUEUE_BYTES  ((size_t)65536)
#define WINDOW_BYTES ((size_t)65536)

static size_t queue_bytes(const struct nfs_config *cfg, unsigned credits)
{
	size_t bytes = QUEUE_BYTES + (cfg->memreg->windows ? WINDOW_BYTES : 0);

	return bytes * ((credits + 63) / 64);
}

/* Registered memory counts against RLIMIT_MEMLOCK. If the limit is too low we use fewer
 * buffers, then fewer lanes, until they fit. One message says so, and what to do. */
static int plan_buffers(struct nfs_config *cfg, const struct options *o, struct errbuf *eb)
{
	/* iWARP in user space pins nothing. */
	size_t limit = cfg->paths[0].fabric == &fabric_iwarp ? SIZE_MAX : memlock_limit(), need = 0;
	unsigned times = times_locked(cfg);
	struct arena_counts full = { 0 };
	size_t queues = queue_bytes(cfg, o->credits);
	unsigned credits = o->credits;
	int rc;

	rc = arena_plan(&full, &credits, o->lanes, SIZE_MAX, queues, &need);
	if (rc)
		return err_set(eb, rc, "cannot plan the buffers: %s", strerror(-rc));
	for (cfg->lanes = o->lanes; ; cfg->lanes--) {
		cfg->credits = o->credits;
		rc = arena_plan(&cfg->buffers, &cfg->credits, cfg->lanes,
				limit == SIZE_MAX ? limit : limit / times, queues, &need);
		if (rc == 0)
			break;
		if (cfg->lanes == 1)
			return err_set(eb, rc, "%zu KiB of locked memory (RLIMIT_MEMLOCK) are not enough, "
				       "at least %zu KiB are needed: raise the limit with 'ulimit -l %zu', "
				       "in /etc/security/limits.conf, or with LimitMEMLOCK= in a unit",
				       limit / 1024, need * times / 1024 + 1, need * times / 1024 + 1);
	}
	if (cfg->lanes < o->lanes || arena_bytes(&cfg->buffers) < arena_bytes(&full))
		log_warn("RLIMIT_MEMLOCK is %zu KiB: using %u of %u connections with %zu KiB of "
			 "buffers each; 'ulimit -l %zu' would allow all of them",
			 limit / 1024, cfg->lanes, o->lanes, arena_bytes(&cfg->buffers) / 1024,
			 (arena_bytes(&full) + queues) * o->lanes * times / 1024 + 1);
	return 0;
}

/*
 * fabric=auto uses verbs if this machine has a device with a route to the server, otherwise
 * iWARP in user space. If the server is merely down we stay with verbs, so that a retry uses
 * the same fabric.
 */
#define TRIED "so iWARP over TCP was tried: is nfsrdma-gateway or a server with siw there? " \
	"fabric=verbs insists on a device"

static void choose_fabric(struct rr_path *path, const struct options *o)
{
	struct errbuf why = { "" };
	int rc;

	path->fabric = o->fabric == OPT_FABRIC_IWARP ? &fabric_iwarp : &fabric_verbs;
	if (o->fabric != OPT_FABRIC_AUTO)
		return;
	rc = fabric_verbs.probe(&path->params, &why);
	if (rc == -ENODEV || rc == -EACCES || rc == -EPERM) {
		path->fabric = &fabric_iwarp;
		/* A user who has a device, and expects it to be used, must learn of this. */
		path->params.hint = rc == -ENODEV ? "no RDMA device leads to the server, " TRIED :
				   "this user may not use RDMA devices, " TRIED;
		log_info("fabric=auto: using iWARP in user space, because %s", why.text);
	} else {
		log_info("fabric=auto: using verbs");
	}
}

static const struct rr_memreg *const memregs[] = {
	[OPT_MEMREG_AUTO] = &rr_memreg_auto,
	[OPT_MEMREG_POOL] = &rr_memreg_pool,
	[OPT_MEMREG_CALL] = &rr_memreg_call,
	[OPT_MEMREG_MW] = &rr_memreg_mw,
	[OPT_MEMREG_CACHE] = &rr_memreg_cache,
};

static const enum loop_want loops[] = {
	[OPT_LOOP_EPOLL] = LOOP_EPOLL, [OPT_LOOP_RING] = LOOP_RING,
};

int setup_client(struct nfs_config *cfg, const struct options *o, struct errbuf *eb)
{
	int family = o->family == OPT_FAMILY_INET6 ? AF_INET6 : AF_UNSPEC;
	struct rr_path *path = &cfg->paths[0];
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
		.loop = loops[o->loop],
		.idmapper = o->vers == OPT_VERS_3 ? NULL : &nfs_idmapper_lib,
		.npaths = 1,
	};
	path->params.timeout_ms = CONNECT_STEP_MS;
	path->params.flags = (o->mpa_crc ? FAB_CRC : 0) | (o->mss_fpdu ? FAB_MSS_FPDU : 0);
	rc = lookup(o->server, o->port, family, 0, &path->params.server, eb);
	if (!rc && o->localaddr)
		rc = lookup(o->localaddr, 0, path->params.server.ss_family, AI_NUMERICHOST,
			    &path->params.local, eb);
	if (rc)
		return rc;
	choose_fabric(path, o);
	return plan_buffers(cfg, o, eb);
}
