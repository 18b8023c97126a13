/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is the server at the other end of a new connection the one that is mounted? A server of
 * version 3 has no name. So it is asked for the attributes of the mounted root, by its handle:
 * another server does not know that handle, or means another directory by it.
 *
 * Who owns what: struct nfs3_mounted, which is server->vdata, says what the root is. The mounting
 * thread writes it, and later a lane that finds that the server has moved. A mutex guards it. It
 * is read and changed only for a moment.
 *
 * A server that has restarted may not have mounted its disk yet, or count its disks in another
 * order, and then has another fsid, or does not know the handle for a while. So if no other
 * connection says otherwise, and this path has led to the server before, whatever is there is
 * taken, and calls may find that the handle is stale.
 *
 * There is nothing on the server that a lost connection could leave.
 */
#include <stdlib.h>
#include <string.h>
#include "nfs/internal.h"
#include "nfs/nfs3/nfs3_impl.h"
#include "nfs/nfs3/nlm.h"

_Static_assert(NFS3_STATUS_XDR + NFS3_ATTR_XDR <= NFS_CHECK_RESULTS_MAX, "the reply is longer");

struct nfs3_mounted *nfs3_mounted(struct nfs_server *s)
{
	struct nfs3_mounted *m = s->vdata;

	if (m)
		return m;
	m = s->vdata = calloc(1, sizeof(*m));
	if (m)
		pthread_mutex_init(&m->mu, NULL);
	return m;
}

int nfs3_root_set(struct nfs_server *s, const struct nfs_attr *a)
{
	struct nfs3_mounted *m = nfs3_mounted(s);

	if (!m)
		return -ENOMEM;
	m->known = true;
	m->fsid = a->fsid_major;
	m->fileid = a->fileid;
	return 0;
}

bool nfs3_stop(struct nfs_server *s, unsigned timeout_ms)
{
	return nlm_stop(nfs3_nlm(s), timeout_ms);
}

void nfs3_free(struct nfs_server *s)
{
	struct nfs3_mounted *m = s->vdata;

	nlm_free(m->nlm);
	pthread_mutex_destroy(&m->mu);
	free(m);
	s->vdata = NULL;
}

uint32_t nfs3_check_proc(const struct nfs_check *k)
{
	return NFSPROC3_GETATTR;
}

bool_t nfs3_check_encode(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	return nfs3_encode_getattr(x, &t->server->client->root_fh);
}

static bool nfs3_check_moves(const struct nfs_target *t, const struct nfs_check *k)
{
	return k->may_move && !nfs_server_is_up(t->server);
}

/* -EXDEV, or 0 if whatever is there is taken. */
static int nfs3_check_refuse(const struct nfs_target *t, struct nfs_check *k, const char *why)
{
	if (!nfs3_check_moves(t, k))
		return err_set(&k->why, -EXDEV, "it is another server (%s)", why);
	log_warn("%s has changed while there was no connection (%s): its files are used as they are now",
		 t->server->name, why);
	return 0;
}

static int nfs3_check_compare(const struct nfs_target *t, struct nfs_check *k,
			      const struct nfs_attr *a)
{
	struct nfs3_mounted *m = t->server->vdata;
	bool same;

	if (!S_ISDIR(a->mode))
		return err_set(&k->why, -EXDEV,
			       "it is another server (the root of this mount is no directory there)");
	if (!m || !m->known)    /* the mounted server did not say */
		return 0;
	pthread_mutex_lock(&m->mu);
	same = m->fsid == a->fsid_major && m->fileid == a->fileid;
	if (!same && nfs3_check_moves(t, k)) {
		m->fsid = a->fsid_major;
		m->fileid = a->fileid;
	}
	pthread_mutex_unlock(&m->mu);
	return same ? 0 :
	       nfs3_check_refuse(t, k, "the root of this mount is another directory there");
}

static int not_ok(const struct nfs_target *t, struct nfs_check *k, nfsstat3 status)
{
	int rc = nfs3_error(status);

	switch (status) {
	case NFS3ERR_JUKEBOX:
		return NFS_LATER;
	case NFS3ERR_STALE:
	case NFS3ERR_BADHANDLE:
		return nfs3_check_refuse(t, k, "it does not know the root of this mount");
	case NFS3ERR_ACCES:
	case NFS3ERR_PERM:
		return err_set(&k->why, -EACCES, "the server does not admit the local address of this "
			       "path: check /etc/exports there");
	default:
		/* -EXDEV would say that it is another server. */
		return err_set(&k->why, rc == -EXDEV ? -EIO : rc, "it refuses GETATTR of the root of "
			       "this mount: %s (status %d)", strerror(-rc), (int)status);
	}
}

int nfs3_check_decode(struct nfs_target *t, struct nfs_check *k, XDR *x)
{
	struct nfs_attr a;
	GETATTR3res r;

	if (!xdr_GETATTR3res(x, &r))
		return err_set(&k->why, -EBADMSG, "its answer to GETATTR is malformed");
	if (r.status)
		return not_ok(t, k, r.status);
	if (!nfs3_get_fattr(&a, &r.GETATTR3res_u.resok.obj_attributes))
		return err_set(&k->why, -EBADMSG, "its answer to GETATTR is malformed");
	return nfs3_check_compare(t, k, &a);
}
