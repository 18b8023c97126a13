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
#include "config.h"

/* One registration. */
struct verbs_mr {
	struct ibv_mr *mr;      /* first: tests have one without the rest */
	struct list node;       /* verbs_domain.mrs or fab_conn.mrs */
	int flags;              /* IBV_ACCESS_* */
	/* ibv_mr.addr is the offset if it is of a dma-buf. */
	struct fab_piece of;
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

/* What devices and their libraries say who do not have it. */
static bool lacks_dmabuf(int err)
{
	return err == -EOPNOTSUPP || err == -ENOSYS || err == -EINVAL || err == -EPROTONOSUPPORT;
}

static int reg_failed(const struct verbs_domain *vd, int err, const struct fab_piece *piece, struct errbuf *eb)
{
	const char *device = ibv_get_device_name(vd->verbs->device);
	size_t len = piece->len;
	struct rlimit lim;

	if (piece->dmabuf >= 0 && lacks_dmabuf(err))
		return err_set(eb, -EOPNOTSUPP, "RDMA device %s takes no memory of other devices (dma-buf: %s); "
			       "use a memfd", device, strerror(-err));
	if (err == -ENOMEM && getrlimit(RLIMIT_MEMLOCK, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY)
		return err_set(eb, err, "cannot register %zu bytes of memory with RDMA device %s: the "
			       "limit of locked memory for the whole process is %llu bytes; "
			       "raise it with `ulimit -l`, 'memlock' in "
			       "/etc/security/limits.conf, or LimitMEMLOCK= of the systemd unit",
			       len, device, (unsigned long long)lim.rlim_cur);
	return err_set(eb, err, "cannot register %zu bytes of %s with RDMA device %s: %s",
		       len, piece->dmabuf >= 0 ? "a dma-buf" : "memory", device, strerror(-err));
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
		.base = m->of.mem, .len = m->of.len, .addr = (uintptr_t)m->of.mem,
		.lkey = m->mr->lkey, .rkey = m->mr->rkey, .priv = m,
	};
}

/* What lies at `offset` in a dma-buf is named by the address that it is mapped at. So a peer, and a window,
 * see no difference from other memory. */
static struct ibv_mr *reg_with_device(const struct verbs_domain *vd, const struct fab_piece *piece, uint64_t offset,
				      int flags)
{
	if (piece->dmabuf < 0)
		return ibv_reg_mr(vd->pd, piece->mem, piece->len, flags);
#ifdef HAVE_IBV_REG_DMABUF_MR
	return ibv_reg_dmabuf_mr(vd->pd, offset, piece->len, (uintptr_t)piece->mem, piece->dmabuf, flags);
#else
	errno = ENOSYS;
	return NULL;
#endif
}

/* Registers, keeps that in `mrs`, and describes it. offset: in the dma-buf. 0, or -errno with eb set. */
static int make_mr(const struct verbs_domain *vd, const struct fab_piece *piece, uint64_t offset, int flags,
		   struct list *mrs, struct fab_mr *out, struct errbuf *eb)
{
	struct verbs_mr *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return err_set(eb, -ENOMEM, "no memory for a registration");
	m->mr = reg_with_device(vd, piece, offset, flags);
	if (!m->mr) {
		rc = reg_failed(vd, errno ? -errno : -ENOMEM, piece, eb);
		free(m);
		return rc;
	}
	m->flags = flags;
	m->of = *piece;
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
	return make_mr(c->domain, &(struct fab_piece){ mem, len, -1 }, 0, access_flags(c, access), &c->mrs, out, eb);
}

/* Pages of another device cannot be had by their address here, as ibv_reg_mr() would. */
int verbs_reg_part(struct fab_conn *c, const struct fab_mr *in, void *mem, size_t len, unsigned access,
		   struct fab_mr *out, struct errbuf *eb)
{
	const struct verbs_mr *m = in->priv;
	uint64_t offset = (uint64_t)((const char *)mem - (const char *)m->of.mem);

	return make_mr(c->domain, &(struct fab_piece){ mem, len, m->of.dmabuf }, offset, access_flags(c, access),
		       &c->mrs, out, eb);
}

void verbs_dereg(struct fab_conn *c, struct fab_mr *mr)
{
	if (mr->priv)
		free_mr(mr->priv);
	mr->priv = NULL;
}

static int reg_piece(struct fab_device *dev, const struct fab_piece *piece, int flags, struct fab_mr *out,
		     struct errbuf *eb)
{
	struct verbs_domain *vd = container_of(dev, struct verbs_domain, dev);

	return make_mr(vd, piece, 0, flags, &vd->mrs, out, eb);
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
		if (m->of.mem == mem && m->of.len == len && m->flags == flags)
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
		rc = make_mr(c->domain, &(struct fab_piece){ mem, len, -1 }, 0, flags, &c->domain->mrs, out, eb);
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
