/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client's configuration, what its plan is made from (nfs/plan.h), and the file system's
 * configuration, by the options. */
#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>
#include "nfs/nfs.h"
#include "rpcrdma/memreg.h"
#include "setup.h"

/* What write-behind has at least, in percent of the buffers that are always there. */
#define BEHIND_SHARE 25u

static const struct rr_memreg *const memregs[] = {
	[OPT_MEMREG_AUTO] = &rr_memreg_auto,
	[OPT_MEMREG_POOL] = &rr_memreg_pool,
	[OPT_MEMREG_CALL] = &rr_memreg_call,
	[OPT_MEMREG_MW] = &rr_memreg_mw,
};

static unsigned setup_ends(const char *out[NFS_PATHS_MAX], const struct opt_ends *list)
{
	for (unsigned i = 0; i < list->n; i++)
		out[i] = list->text[i];
	return list->n;
}

int setup_client(struct nfs_config *cfg, const struct options *o, struct errbuf *eb)
{
	struct nfs_plan_in in = {
		.all = !o->remoteports.n,
		.family = o->family,
		.port = o->port,
		.fabric = o->fabric,
		.flags = (o->mpa_crc ? FAB_CRC : 0) | (o->mss_fpdu ? FAB_MSS_FPDU : 0),
		.lanes = o->lanes,
		.credits = o->credits,
		.growth = o->noac || o->sync ? 0 : o->writebehind,
		.request_max = VFS_IO_MAX,
		.longest_io = vfs_longest_io,
	};

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
		.nlmport = o->nlmport,
		.acl = o->acl,
		.older = o->vers_may_fall ? &nfs_v41 : NULL,
		.delegations = o->deleg && o->vers != OPT_VERS_3,
		.locks = setup_server_locks(o, OPT_LOCAL_POSIX) || setup_server_locks(o, OPT_LOCAL_FLOCK),
		.memreg = memregs[o->memreg],
		.lends = o->rings && o->consistency != OPT_SOLO,
		.idmapper = o->vers == OPT_VERS_3 ? NULL : &nfs_idmapper_lib,
		.front = &vfs_nfs_front,
		.policy = o->policy,
		.mdconnect = o->mdconnect,
		.heartbeat_ms = o->heartbeat * 1000,
	};
	in.nservers = setup_ends(in.servers, &o->remoteports);
	if (in.all)
		in.servers[in.nservers++] = o->server;
	in.nlocals = setup_ends(in.locals, &o->localports);
	return nfs_plan(cfg, &in, eb);
}

struct nfs_config setup_times(const struct options *o)
{
	return (struct nfs_config){
		.timeo_ms = o->timeo * 100, .retrans = o->retrans, .soft = o->soft, .heartbeat_ms = o->heartbeat * 1000,
	};
}

int setup_ugid(const struct ugid **out, struct ugid *to, struct rpc_cred *own, const struct options *o,
	       struct errbuf *eb)
{
	struct errbuf why;
	int rc = 0;

	*out = NULL;
	*own = (struct rpc_cred){ .uid = geteuid(), .gid = getegid() };
	if (o->idmap == OPT_IDMAP_FILE) {
		rc = ugid_of_file(to, o->idmapfile, eb);
	} else if (o->idmap == OPT_IDMAP_USER && ugid_of_namespace(to, "/proc/self", &why)) {
		log_info("%s: users are taken to be the same on the server", why.text);
		return 0;
	}
	if (rc || o->idmap == OPT_IDMAP_NONE || !(to->user.n + to->group.n))
		return rc;
	if (o->acl)
		return err_set(eb, -EINVAL, "option acl: in this user namespace users have other numbers than outside, and "
			       "lists of the server have those; do without, or give idmap=none as well");
	own->uid = ugid_there(&to->user, own->uid);
	own->gid = ugid_there(&to->group, own->gid);
	*out = to;
	return 0;
}

/* With noac, options_settle() has set the cache times to 0. */
struct vfs_config setup_vfs(const struct options *o)
{
	unsigned share = o->writebehind > BEHIND_SHARE ? o->writebehind : BEHIND_SHARE;

	return (struct vfs_config){
		.place = o->mountpoint,
		.acregmin = o->acregmin,
		.acregmax = o->acregmax,
		.acdirmin = o->acdirmin,
		.acdirmax = o->acdirmax,
		.solo = o->consistency == OPT_SOLO,
		.write_behind = o->noac || o->sync || !o->writebehind ? 0 : share,
		.readahead = o->readahead,
		.rdirplus = o->rdirplus,
	};
}

struct nfs_chosen setup_chosen(struct nfs_client *cl, const struct options *o)
{
	const struct vfs_config vfs = setup_vfs(o);
	struct nfs_chosen c = nfs_chosen_of(cl);

	c.readahead = vfs.readahead;
	/* About so much, in MiB: a part of the buffers is for messages. */
	if (vfs.write_behind)
		c.write_behind = ((cl->cfg.room + cl->nlanes * (uint64_t)arena_bytes(&cl->cfg.buffers) / 100 *
						  vfs.write_behind) >> 20) << 20;
	return c;
}

/* With consistency=solo nobody else has the files. */
bool setup_server_locks(const struct options *o, enum opt_local_lock kind)
{
	return !o->nolock && !(o->local_lock & kind) && o->consistency != OPT_SOLO;
}
