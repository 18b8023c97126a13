/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From an export's path to its handle: MOUNT over TCP, then FSINFO, PATHCONF and, if need be,
 * GETATTR over the RDMA connection, which is up by then. Runs on the mounting thread, which
 * may block. MOUNT never runs over RDMA, because servers do not offer it.
 */
#include <stdlib.h>
#include <string.h>
#include "mount3.h"
#include "nfs/nfs3/nfs3_impl.h"
#include "nfs/nfs3/nlm.h"
#include "rpc/rpctcp.h"

#define MOUNT_TIMEOUT_MS 10000u
/* The same as version 4.1 gives its server. */
#define ASK_TIMEOUT_MS   60000u
/* Nobody depends on the answer to UMNT: mountd only keeps a list. */
#define UMNT_TIMEOUT_MS  300u

/* Where the mount was made: another path of the mount may not answer. */
static const struct sockaddr_storage *server_addr(const struct nfs_server *s)
{
	return &s->path[s->first].way.params.server;
}

static int open_mountd(struct nfs_server *s, struct rpctcp **out, unsigned timeout_ms,
		       struct errbuf *eb)
{
	int port = (int)s->client->cfg.mountport;
	struct sockaddr_storage ss;

	if (!port)
		port = rpcbind_tcp_port(server_addr(s), MOUNT_PROGRAM, MOUNT_V3, "mountd",
					"mountport", timeout_ms, eb);
	/* That is the export's, and a server without version 3 may have no mountd. */
	if (port == -ENOENT)
		return -EPROTONOSUPPORT;
	if (port < 0)
		return port;
	ss = rpctcp_with_port(server_addr(s), (unsigned)port);
	return rpctcp_open(out, &ss, NULL, "mountd", timeout_ms, eb);
}

static int mount_error(struct nfs_server *s, mountstat3 status, struct errbuf *eb)
{
	const char *server = s->name, *export = s->client->cfg.export;

	switch (status) {
	case MNT3ERR_PERM:
	case MNT3ERR_ACCES:
		return err_set(eb, -EACCES, "%s does not let this host mount '%s': check /etc/exports "
			       "there (an ordinary user needs 'insecure' with vers=3; vers=4.1 does not)",
			       server, export);
	case MNT3ERR_NOENT:
		return err_set(eb, -ENOENT, "%s has no export '%s': 'showmount -e %s' lists them",
			       server, export, server);
	case MNT3ERR_NOTDIR:
		return err_set(eb, -ENOTDIR, "'%s' on %s is not a directory", export, server);
	case MNT3ERR_NAMETOOLONG:
		return err_set(eb, -ENAMETOOLONG, "the path '%s' is too long for %s", export, server);
	default:
		return err_set(eb, -EIO, "%s cannot mount '%s': mountd says error %d", server, export,
			       (int)status);
	}
}

/* Older servers send an empty list for AUTH_SYS. */
static bool is_offered(const mountres3_ok *ok, uint32_t flavor)
{
	for (u_int i = 0; i < ok->auth_flavors.auth_flavors_len; i++)
		if (ok->auth_flavors.auth_flavors_val[i] == (int)flavor)
			return true;
	return ok->auth_flavors.auth_flavors_len == 0 && flavor == RPC_AUTH_SYS;
}

static int take_root(struct nfs_server *s, const mountres3 *res, struct errbuf *eb)
{
	const mountres3_ok *ok = &res->mountres3_u.mountinfo;

	if (res->fhs_status != MNT3_OK)
		return mount_error(s, res->fhs_status, eb);
	if (!is_offered(ok, s->auth->flavor))
		return err_set(eb, -EACCES, "%s does not export '%s' with sec=%s: add that to the "
			       "export there; this client has no Kerberos yet", s->name,
			       s->client->cfg.export, s->auth->name);
	if (!nfs3_get_fh(&s->client->root_fh, &ok->fhandle))
		return err_set(eb, -EBADMSG, "%s gave a malformed handle for '%s'", s->name,
			       s->client->cfg.export);
	return 0;
}

static int get_root(struct nfs_server *s, struct errbuf *eb)
{
	dirpath path = nfs_ref_str(s->client->cfg.export);
	mountres3 res;
	struct rpctcp *t;
	int rc;

	rc = open_mountd(s, &t, MOUNT_TIMEOUT_MS, eb);
	if (rc)
		return rc;
	memset(&res, 0, sizeof(res));
	rc = rpctcp_call(t, MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT, &s->client->own,
			 (xdrproc_t)xdr_dirpath, &path, (xdrproc_t)xdr_mountres3, &res, eb);
	if (!rc)
		rc = take_root(s, &res, eb);
	xdr_free((xdrproc_t)xdr_mountres3, (char *)&res);
	rpctcp_close(t);
	return rc;
}

/* Heap memory of its own: if the answer does not come in time, it belongs to the lane. */
struct question {
	struct nfs_call c;
	struct nfs_fh root;
	struct nfs3_fsinfo info;
};

static int nfs3_mount_ask(struct nfs_server *s, enum nfs_op op, struct nfs3_fsinfo *info,
			  struct errbuf *eb)
{
	struct nfs_client *cl = s->client;
	struct question *q = calloc(1, sizeof(*q));
	bool abandoned;
	int rc;

	if (!q)
		return err_set(eb, -ENOMEM, "out of memory");
	q->root = cl->root_fh;
	q->info = *info;
	q->c.op = op;
	q->c.flags = NFS_CALL_CONTROL;
	q->c.cred = &cl->own;
	q->c.args.fh = &q->root;
	q->c.args.version = &q->info;
	rc = nfs_call_any(s, &q->c, cl->answer_ms ? cl->answer_ms : ASK_TIMEOUT_MS, &abandoned);
	if (!abandoned) {
		*info = q->info;
		if (q->c.res.has_attr) {        /* GETATTR */
			info->has_root = true;
			info->root = q->c.res.attr;
		}
		free(q);
	}
	if (rc)
		return err_set(eb, rc, "%s answers MOUNT but not NFSv3 over RDMA for '%s': %s",
			       s->name, cl->cfg.export, strerror(-rc));
	return 0;
}

/* PATHCONF only tells how long names may be. If the server answers, but not this, it is
 * mounted anyway. */
static int ask_pathconf(struct nfs_server *s, struct nfs3_fsinfo *info, struct errbuf *eb)
{
	int rc = nfs3_mount_ask(s, NFS3_OP_PATHCONF, info, eb);

	if (!rc || rc == -ETIMEDOUT || rc == -ESHUTDOWN || rc == -ENOMEM)
		return rc;
	log_warn("%s does not say how long names may be ('%s', PATHCONF: %s): assuming up to %u "
		 "bytes", s->name, s->client->cfg.export, strerror(-rc), info->name_max);
	return 0;
}

/* What the root is, for the check of later connections. FSINFO may have told. If the server
 * answers, but not this, it is mounted anyway. */
static int ask_root(struct nfs_server *s, struct nfs3_fsinfo *info, struct errbuf *eb)
{
	int rc = info->has_root ? 0 : nfs3_mount_ask(s, NFS_OP_GETATTR, info, eb);

	if (rc == -ETIMEDOUT || rc == -ESHUTDOWN || rc == -ENOMEM)
		return rc;
	if (rc) {
		log_debug("%s does not say what the root of '%s' is (GETATTR: %s): other servers on later "
			  "connections may not be noticed", s->name, s->client->cfg.export, strerror(-rc));
		return 0;
	}
	return nfs3_root_set(s, &info->root) ? err_set(eb, -ENOMEM, "out of memory") : 0;
}

/* The last step, because a thread is there from then on. */
static int mount_locks(struct nfs_server *s, struct errbuf *eb)
{
	struct nfs3_mounted *m;

	if (!s->client->cfg.locks)
		return 0;
	m = nfs3_mounted(s);
	return m ? nlm_new(s, &m->nlm, eb) : err_set(eb, -ENOMEM, "out of memory");
}

int nfs3_mount(struct nfs_server *s, struct errbuf *eb)
{
	struct nfs_client *cl = s->client;
	struct nfs3_fsinfo info = { .name_max = NFS_NAME_MAX };
	int rc;

	rc = get_root(s, eb);
	if (!rc)
		rc = nfs3_mount_ask(s, NFS3_OP_FSINFO, &info, eb);
	if (!rc)
		rc = ask_pathconf(s, &info, eb);
	if (!rc)
		rc = ask_root(s, &info, eb);
	if (rc)
		return rc;
	if (info.rtmax < 4096 || info.wtmax < 4096)
		return err_set(eb, -EOPNOTSUPP, "%s reads and writes at most %u and %u bytes at a time, "
			       "less than a page", s->name, info.rtmax, info.wtmax);
	cl->rsize = nfs_clamp_size(cl->rsize, info.rtmax);
	cl->wsize = nfs_clamp_size(cl->wsize, info.wtmax);
	cl->max_file_size = info.max_file_size;
	/* The first call will show whether it has. */
	if (cl->cfg.acl)
		atomic_store(&cl->has, NFS_HAS_POSIX_ACL | NFS_HAS_NFSACL);
	if (info.name_max && info.name_max < cl->name_max)
		cl->name_max = info.name_max;
	return mount_locks(s, eb);
}

void nfs3_umount(struct nfs_server *s)
{
	dirpath path = nfs_ref_str(s->client->cfg.export);
	struct errbuf eb;
	struct rpctcp *t;
	char none;

	if (open_mountd(s, &t, UMNT_TIMEOUT_MS, &eb))
		return;
	rpctcp_call(t, MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_UMNT, &s->client->own,
		    (xdrproc_t)xdr_dirpath, &path, (xdrproc_t)xdr_void, &none, &eb);
	rpctcp_close(t);
}
