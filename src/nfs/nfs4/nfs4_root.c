/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The walk from the server's root to the export, component by component:
 *
 *   PUTROOTFH, LOOKUP a, LOOKUP b, ... GETFH, GETATTR
 *                                        |
 *   PUTFH <---- as long as there are more-+
 *
 * A session limits the operations of one COMPOUND (ca_maxoperations). k->at is where the
 * next COMPOUND starts. It moves only when one has succeeded, so that a repeated COMPOUND
 * is the same.
 *
 * Runs on the mounting thread. The control thread walks once more after each recovery: from the export no
 * further, for the lease period.
 */
#include <stdlib.h>
#include <string.h>
#include "nfs/nfs4/nfs4_compound.h"

/* More would exceed most servers' limits, and would hardly be faster. */
#define LOOKUPS_MAX 12u
/* Of a server that does not say. */
#define LEASE_S 90u

/* Takes the next component of a path; false at its end. */
static bool next_component(const char **path, const char **name, size_t *len)
{
	const char *p = *path;

	while (*p == '/')
		p++;
	if (!*p)
		return false;
	*name = p;
	*len = strcspn(p, "/");
	*path = p + *len;
	return true;
}

/* The part of the path that this COMPOUND starts with. */
static const char *nfs4_root_rest(const struct nfs_call *c)
{
	const struct nfs4_ctl *k = c->args.version;

	return k->at ? k->at : k->path;
}

/* How many components this COMPOUND takes: what the session allows besides SEQUENCE,
 * PUTFH, GETFH and GETATTR. */
static uint32_t nfs4_root_lookups(const struct nfs_call *c)
{
	uint32_t most = nfs4_of(c)->maxops > 4 ? nfs4_of(c)->maxops - 4 : 1, n = 0;
	const char *path = nfs4_root_rest(c), *name;
	size_t len;

	most = most < LOOKUPS_MAX ? most : LOOKUPS_MAX;
	while (n < most && next_component(&path, &name, &len))
		n++;
	return n;
}

static bool_t put_start(struct nfs_call *c, XDR *x)
{
	const struct nfs4_ctl *k = c->args.version;

	return k->at ? nfs4_put_fh(x, &k->from) : nfs4_put_op(x, OP_PUTROOTFH);
}

static bitmap4 root_mask(const struct nfs_call *c)
{
	bitmap4 mask = nfs4_root_mask;

	if (c->target->server->version->minor >= 2) {
		bitmap4_set(&mask, FATTR4_SUPPATTR_EXCLCREAT);
		bitmap4_set(&mask, FATTR4_XATTR_SUPPORT);
	}
	return mask;
}

/* mode_umask is used for all that is made, also by an exclusive create. */
static unsigned root_has(const struct nfs_call *c, const struct nfs4_attrs *a)
{
	const bitmap4 *s = &a->supported;
	bool posix = bitmap4_isset(s, FATTR4_POSIX_ACCESS_ACL) && bitmap4_isset(s, FATTR4_POSIX_DEFAULT_ACL);
	bool acl = c->lane->client->cfg.acl;
	bool umask = bitmap4_isset(s, FATTR4_MODE_UMASK) && bitmap4_isset(&a->exclusive, FATTR4_MODE_UMASK);

	return (a->xattrs ? NFS_HAS_XATTRS : 0u) | (umask ? NFS_HAS_UMASK : 0u) |
	       (acl && bitmap4_isset(s, FATTR4_ACL) ? NFS_HAS_V4_ACL : 0u) |
	       (acl && posix ? NFS_HAS_POSIX_ACL : 0u) |
	       (bitmap4_isset(s, FATTR4_TIME_DELEG_ACCESS) ? NFS_HAS_DELEGATED_TIMES : 0u);
}

static bool_t encode_root(struct nfs_call *c, XDR *x)
{
	GETATTR4args a = { .attr_request = root_mask(c) };
	uint32_t n = nfs4_root_lookups(c);
	const char *path = nfs4_root_rest(c), *name;
	size_t len;

	if (!nfs4_begin_seq(c, x, 4 + n, false) || !put_start(c, x))
		return FALSE;
	while (n-- && next_component(&path, &name, &len)) {
		component4 comp = { .len = (uint32_t)len, .data = name };

		if (!nfs4_put_op(x, OP_LOOKUP) || !xdr_component4(x, &comp))
			return FALSE;
	}
	return nfs4_put_op(x, OP_GETFH) && nfs4_put_op(x, OP_GETATTR) && xdr_GETATTR4args(x, &a);
}

static int root_result(struct nfs_call *c, nfsstat4 status)
{
	struct nfs4_ctl *k = c->args.version;

	k->status = status;
	if (k->once && nfs4_is_later(status))
		return -EBUSY;
	return status ? nfs4_error(c, status) : 0;
}

static int root_status(struct nfs_call *c, XDR *x, nfs_opnum4 op)
{
	nfsstat4 status;

	if (nfs4_get_op(x, op) || !xdr_nfsstat4(x, &status))
		return -EBADMSG;
	return root_result(c, status);
}

static int take_root_attrs(struct nfs_call *c, XDR *x)
{
	struct nfs4_ctl *k = c->args.version;
	struct nfs4_attrs a;
	GETATTR4res r;
	int rc;

	if (nfs4_get_op(x, OP_GETATTR) || !xdr_GETATTR4res(x, &r))
		return -EBADMSG;
	rc = root_result(c, r.status);
	if (rc)
		return rc;
	if (!nfs4_get_fattr(&a, &r.GETATTR4res_u.resok4.obj_attributes))
		return -EBADMSG;
	c->res.attr = a.attr;
	/* Absent means "no limit of mine" (RFC 8881, section 5.8.2). */
	k->maxread = a.maxread && a.maxread < NFS_IO_MAX ? (uint32_t)a.maxread : NFS_IO_MAX;
	k->maxwrite = a.maxwrite && a.maxwrite < NFS_IO_MAX ? (uint32_t)a.maxwrite : NFS_IO_MAX;
	k->maxname = a.maxname;
	k->maxfilesize = a.maxfilesize;
	k->lease_s = a.lease_s;
	k->has = root_has(c, &a);
	return 0;
}

/* Can the end of the path be mounted? */
static int check_type(struct nfs_call *c)
{
	struct nfs4_ctl *k = c->args.version;

	if (S_ISDIR(c->res.attr.mode))
		return 0;
	k->status = S_ISLNK(c->res.attr.mode) ? NFS4ERR_SYMLINK : NFS4ERR_NOTDIR;
	return nfs4_errno(k->status);
}

static int decode_root(struct nfs_call *c, XDR *x)
{
	struct nfs4_ctl *k = c->args.version;
	uint32_t n = nfs4_root_lookups(c);
	const char *path = nfs4_root_rest(c), *name;
	int rc = nfs4_check_seq(c, x);
	size_t len;

	if (!rc)
		rc = root_status(c, x, k->at ? OP_PUTFH : OP_PUTROOTFH);
	k->been = path;
	while (!rc && n-- && next_component(&path, &name, &len)) {
		rc = root_status(c, x, OP_LOOKUP);
		if (!rc)
			k->been = path;
	}
	if (!rc)
		rc = nfs4_get_fh(c, x);
	if (!rc)
		rc = take_root_attrs(c, x);
	if (rc)
		return rc;
	/* Only now: a COMPOUND that is sent again must start where it did. */
	k->at = path;
	k->from = c->res.fh;
	return nfs4_root_lookups(c) ? NFS_NEXT : check_type(c);
}

static uint32_t root_max(const struct nfs_call *c)
{
	return V4_PREFIX_XDR + nfs4_root_lookups(c) * V4_OP_XDR + V4_FH_XDR + V4_GETATTR_XDR + 128;
}

const struct nfs_opdef nfs4_op_root = NFS_OPDEF("LOOKUP of the export", encode_root, decode_root,
	.results_max_of = root_max, .proc = NFSPROC4_COMPOUND);

/* ---- for the mount ---- */

static int root_error(struct nfs_server *s, int rc, const struct nfs4_ctl *k, struct errbuf *eb)
{
	const char *server = s->name, *export = s->client->cfg.export;
	/* How far the server came. */
	int len = k->been > k->path ? (int)(k->been - k->path) : 1;
	const char *been = k->been > k->path ? k->path : "/";

	switch (k->status) {
	case NFS4ERR_NOENT:
		return err_set(eb, -ENOENT, "%s has no export '%s': with NFSv4 the path starts at the "
			       "server's root export (fsid=0), which is '/'", server, export);
	case NFS4ERR_ACCESS:
	case NFS4ERR_PERM:
		return err_set(eb, -EACCES, "%s does not let this host mount '%s': check /etc/exports "
			       "there", server, export);
	case NFS4ERR_WRONGSEC:
		return err_set(eb, -EACCES, "%s does not export '%s' with sec=%s: add that to the "
			       "export there; this client has no Kerberos yet", server, export,
			       s->auth->name);
	case NFS4ERR_NOTDIR:
		return err_set(eb, -ENOTDIR, "'%.*s' on %s is not a directory", len, been, server);
	case NFS4ERR_SYMLINK:
		return err_set(eb, -ELOOP, "'%.*s' on %s is a symbolic link, which is not followed "
			       "on the way to an export: name the directory that it leads to",
			       len, been, server);
	default:
		return err_set(eb, rc, "%s cannot mount '%s': %s", server, export, strerror(-rc));
	}
}

int nfs4_find_root(struct nfs_server *s, struct errbuf *eb)
{
	struct nfs_client *cl = s->client;
	struct nfs4_client *n = s->vdata;
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	int rc;

	if (!k)
		return err_set(eb, -ENOMEM, "out of memory");
	k->path = cl->cfg.export;
	rc = nfs4_run(s, k, NFS4_OP_ROOT, 0, &k);
	if (!k)
		return err_set(eb, rc, "%s does not answer: %s", s->name, strerror(-rc));
	if (rc) {
		rc = root_error(s, rc, k, eb);
	} else {
		cl->root_fh = k->c.res.fh;
		cl->rsize = nfs_clamp_size(cl->rsize, k->maxread);
		cl->wsize = nfs_clamp_size(cl->wsize, k->maxwrite);
		if (k->maxname && k->maxname < cl->name_max)
			cl->name_max = k->maxname;
		cl->has = k->has;
		if (k->maxfilesize)
			cl->max_file_size = k->maxfilesize;
		atomic_store(&n->lease_s, k->lease_s ? k->lease_s : LEASE_S);
		n->lease_is_old = false;
	}
	free(k);
	return rc;
}

/* Until it says, it is asked at each tick: the export may come later than the server. One that has answered and does
 * not tell has the one of before. */
static void root_lease_answered(struct nfs_server *s, int rc, const struct nfs4_ctl *k)
{
	struct nfs4_client *n = s->vdata;
	uint32_t before = atomic_load(&n->lease_s);

	if (rc)
		return;
	n->lease_is_old = false;
	if (!k->lease_s || k->lease_s == before)
		return;
	atomic_store(&n->lease_s, k->lease_s);
	log_info("%s has a lease period of %u s now; it was %u s before", s->name, k->lease_s, before);
}

void nfs4_read_lease(struct nfs_server *s)
{
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	int rc;

	if (!k)
		return;
	k->path = k->at = "";
	k->from = s->client->root_fh;
	k->once = true;
	rc = nfs4_run(s, k, NFS4_OP_ROOT, 0, &k);
	if (!k)
		return;
	root_lease_answered(s, rc, k);
	free(k);
}
