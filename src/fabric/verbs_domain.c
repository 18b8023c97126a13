/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Protection domains and memory registrations.
 *
 *   struct fab_domain                  the owner's: what connections share
 *       struct verbs_domain  mlx5_0    one device: its protection domain,
 *           verbs_mr, verbs_mr ...     and what is registered there for all of them; its
 *                                      fab_device has the pieces that come and go
 *       struct verbs_domain  mlx5_1
 *
 * A connection whose owner gives no domain has one of its own (fab_conn.alone).
 *
 * A device's part exists while a connection on that device exists. It ends with the last
 * one, because librdmacm closes the device with its last identifier, and the protection
 * domain with it.
 *
 * Threads: connecting threads enter and register, those of verbs_teardown.c leave, all of them at any
 * time, under the domain's lock. While one thread registers memory, others that want the same
 * registration wait for it. They would have to wait for their own as well.
 */
#include "fabric/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* One registration. */
struct verbs_mr {
	struct ibv_mr *mr;      /* first: tests have one without the rest */
	struct list node;       /* verbs_domain.mrs or fab_conn.mrs */
	int flags;              /* IBV_ACCESS_* */
};

struct verbs_domain {
	struct fab_device dev;  /* in fab_domain.devices */
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	unsigned conns;
	struct list mrs;        /* shared by all of its connections */
};

static struct fab_domain *domain_of(struct fab_conn *c)
{
	return c->params.domain ? c->params.domain : &c->alone;
}

/* 0, or -errno: a window still refers to it. */
static int free_mr(struct verbs_mr *m)
{
	int err = ibv_dereg_mr(m->mr);

	if (err)
		return -err;
	list_del(&m->node);
	free(m);
	return 0;
}

static void free_mrs(struct list *mrs)
{
	for (struct list *n; (n = list_pop(mrs)); ) {
		struct verbs_mr *m = container_of(n, struct verbs_mr, node);

		if (free_mr(m))
			free(m);        /* the device ends it with the protection domain */
	}
}

/* ---- memory ---- */

static int reg_failed(const struct verbs_domain *vd, int err, size_t len, struct errbuf *eb)
{
	struct rlimit lim;

	if (err == -ENOMEM && getrlimit(RLIMIT_MEMLOCK, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY)
		return err_set(eb, err, "cannot register %zu bytes of memory with RDMA device %s: the "
			       "limit of locked memory for the whole process is %llu bytes; "
			       "raise it with `ulimit -l`, 'memlock' in "
			       "/etc/security/limits.conf, or LimitMEMLOCK= of the systemd unit",
			       len, ibv_get_device_name(vd->verbs->device),
			       (unsigned long long)lim.rlim_cur);
	return err_set(eb, err, "cannot register %zu bytes of memory with RDMA device %s: %s",
		       len, ibv_get_device_name(vd->verbs->device), strerror(-err));
}

/* iWARP devices treat a Read's data like a peer's Write. So memory that is read into
 * must allow remote writes. A side that does not read must not allow them. */
static bool reads_need_write(const struct fab_conn *c)
{
	return (c->passive || c->params.ord) &&
	       c->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

static int access_flags(const struct fab_conn *c, unsigned access)
{
	int flags = IBV_ACCESS_LOCAL_WRITE;

	if (access & FAB_REMOTE_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if ((access & FAB_REMOTE_WRITE) || reads_need_write(c))
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (access & FAB_WINDOWS)
		flags |= IBV_ACCESS_MW_BIND;
	return flags;
}

static void domain_describe(struct verbs_mr *m, struct fab_mr *out)
{
	*out = (struct fab_mr){
		.base = m->mr->addr, .len = m->mr->length, .addr = (uintptr_t)m->mr->addr,
		.lkey = m->mr->lkey, .rkey = m->mr->rkey, .priv = m,
	};
}

/* Registers, keeps that in `mrs`, and describes it. 0, or -errno with eb set. */
static int make_mr(const struct verbs_domain *vd, void *mem, size_t len, int flags,
		   struct list *mrs, struct fab_mr *out, struct errbuf *eb)
{
	struct verbs_mr *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return err_set(eb, -ENOMEM, "no memory for a registration");
	m->mr = ibv_reg_mr(vd->pd, mem, len, flags);
	if (!m->mr) {
		rc = reg_failed(vd, errno ? -errno : -ENOMEM, len, eb);
		free(m);
		return rc;
	}
	m->flags = flags;
	list_add_tail(mrs, &m->node);
	domain_describe(m, out);
	return 0;
}

struct ibv_mr *verbs_mr_of(const struct fab_mr *mr)
{
	return ((struct verbs_mr *)mr->priv)->mr;
}

int verbs_reg(struct fab_conn *c, void *mem, size_t len, unsigned access,
	      struct fab_mr *out, struct errbuf *eb)
{
	return make_mr(c->domain, mem, len, access_flags(c, access), &c->mrs, out, eb);
}

void verbs_dereg(struct fab_conn *c, struct fab_mr *mr)
{
	if (mr->priv)
		free_mr(mr->priv);
	mr->priv = NULL;
}

static int reg_piece(struct fab_device *dev, void *mem, size_t len, int flags, struct fab_mr *out,
		     struct errbuf *eb)
{
	struct verbs_domain *vd = container_of(dev, struct verbs_domain, dev);

	return make_mr(vd, mem, len, flags, &vd->mrs, out, eb);
}

static int dereg_piece(struct fab_device *dev, struct fab_mr *mr)
{
	return free_mr(mr->priv);
}

/* ---- entering and leaving ---- */

static struct verbs_domain *domain_find(const struct fab_domain *d, const struct ibv_context *verbs)
{
	list_for_each_entry(struct verbs_domain, vd, &d->devices, dev.node)
		if (vd->verbs == verbs)
			return vd;
	return NULL;
}

static struct verbs_domain *domain_add(struct fab_domain *d, struct ibv_context *verbs)
{
	struct verbs_domain *vd = calloc(1, sizeof(*vd));

	if (!vd)
		return NULL;
	vd->pd = ibv_alloc_pd(verbs);
	if (!vd->pd) {
		free(vd);
		return NULL;
	}
	vd->verbs = verbs;
	vd->dev.reg = reg_piece;
	vd->dev.dereg = dereg_piece;
	list_init(&vd->dev.tables);
	list_init(&vd->mrs);
	list_add_tail(&d->devices, &vd->dev.node);
	return vd;
}

struct ibv_pd *verbs_domain_enter(struct fab_conn *c)
{
	struct fab_domain *d = domain_of(c);
	struct verbs_domain *vd;

	pthread_mutex_lock(&d->mu);
	vd = domain_find(d, c->id->verbs);
	if (!vd)
		vd = domain_add(d, c->id->verbs);
	if (vd)
		vd->conns++;
	c->domain = vd;
	pthread_mutex_unlock(&d->mu);
	return vd ? vd->pd : NULL;
}

void verbs_mrs_free(struct fab_conn *c)
{
	free_mrs(&c->mrs);
}

void verbs_domain_leave(struct fab_domain *d, struct verbs_domain *vd)
{
	if (!vd)
		return;
	pthread_mutex_lock(&d->mu);
	if (--vd->conns == 0) {
		fab_device_fini(d, &vd->dev);
		free_mrs(&vd->mrs);
		ibv_dealloc_pd(vd->pd);
		list_del(&vd->dev.node);
		free(vd);
	}
	pthread_mutex_unlock(&d->mu);
}

static struct verbs_mr *find_mr(const struct verbs_domain *vd, const void *mem, size_t len,
				int flags)
{
	list_for_each_entry(struct verbs_mr, m, &vd->mrs, node)
		if (m->mr->addr == mem && m->mr->length == len && m->flags == flags)
			return m;
	return NULL;
}

int verbs_reg_shared(struct fab_conn *c, void *mem, size_t len, unsigned access,
		     struct fab_mr *out, struct errbuf *eb)
{
	struct fab_domain *d = domain_of(c);
	int flags = access_flags(c, access), rc = 0;
	struct verbs_mr *m;

	pthread_mutex_lock(&d->mu);
	m = find_mr(c->domain, mem, len, flags);
	if (m)
		domain_describe(m, out);
	else
		rc = make_mr(c->domain, mem, len, flags, &c->domain->mrs, out, eb);
	pthread_mutex_unlock(&d->mu);
	return rc;
}

/* ---- pieces ---- */

int verbs_reg_pieces(struct fab_conn *c, unsigned access, const struct fab_mr **out,
		     struct errbuf *eb)
{
	struct fab_domain *d = domain_of(c);
	int rc;

	pthread_mutex_lock(&d->mu);
	rc = fab_device_pieces(d, &c->domain->dev, access_flags(c, access), out, eb);
	pthread_mutex_unlock(&d->mu);
	return rc;
}
