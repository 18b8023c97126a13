/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A mount's part of a device, and the registrations of its pieces of memory there. */
#include <errno.h>
#include <stdlib.h>
#include "fabric/fabric.h"

void fab_domain_init(struct fab_domain *d)
{
	*d = (struct fab_domain){ 0 };
	pthread_mutex_init(&d->mu, NULL);
	pthread_mutex_init(&d->ending_mu, NULL);
	pthread_cond_init(&d->ended, NULL);
	list_init(&d->devices);
}

void fab_domain_fini(struct fab_domain *d)
{
	pthread_mutex_lock(&d->ending_mu);
	while (d->ending)
		pthread_cond_wait(&d->ended, &d->ending_mu);
	pthread_mutex_unlock(&d->ending_mu);
	pthread_cond_destroy(&d->ended);
	pthread_mutex_destroy(&d->ending_mu);
	pthread_mutex_destroy(&d->mu);
	free(d->pieces);
}

void fab_domain_wait_for(struct fab_domain *d)
{
	pthread_mutex_lock(&d->ending_mu);
	d->ending++;
	pthread_mutex_unlock(&d->ending_mu);
}

void fab_domain_done(struct fab_domain *d)
{
	/* With the lock held, because the domain may end right after it. */
	pthread_mutex_lock(&d->ending_mu);
	if (--d->ending == 0)
		pthread_cond_broadcast(&d->ended);
	pthread_mutex_unlock(&d->ending_mu);
}

/* ---- pieces ---- */

/* A device's registrations of all pieces. */
struct domain_table {
	struct list node;               /* in fab_device.tables */
	int how;
	struct fab_mr mr[];             /* len 0: not registered */
};

static struct domain_table *domain_table_of(struct list *n)
{
	return container_of(n, struct domain_table, node);
}

int fab_domain_pieces(struct fab_domain *d, unsigned n)
{
	d->pieces = calloc(n, sizeof(*d->pieces));
	d->npieces = d->pieces ? n : 0;
	return d->pieces ? 0 : -ENOMEM;
}

static bool domain_drop(struct fab_device *dev, struct fab_mr *mr)
{
	if (mr->len && dev->dereg(dev, mr))
		return false;
	*mr = (struct fab_mr){ 0 };
	return true;
}

static bool domain_drop_piece(struct fab_domain *d, unsigned i)
{
	bool all = true;

	d->pieces[i].len = 0;
	list_for_each_entry(struct fab_device, dev, &d->devices, node) {
		list_for_each(t, &dev->tables)
			all &= domain_drop(dev, &domain_table_of(t)->mr[i]);
	}
	return all;
}

static int domain_add_piece(struct fab_domain *d, unsigned i, const struct fab_piece *piece,
			    struct errbuf *eb)
{
	list_for_each_entry(struct fab_device, dev, &d->devices, node) {
		list_for_each(t, &dev->tables) {
			struct fab_mr mr;
			int rc = dev->reg(dev, piece, domain_table_of(t)->how, &mr, eb);

			if (rc)
				return rc;
			domain_table_of(t)->mr[i] = mr;
		}
	}
	return 0;
}

int fab_domain_add(struct fab_domain *d, unsigned i, const struct fab_piece *piece, struct errbuf *eb)
{
	int rc;

	pthread_mutex_lock(&d->mu);
	rc = domain_add_piece(d, i, piece, eb);
	if (rc)
		domain_drop_piece(d, i);        /* nobody has used it, so each device gives it up */
	else
		d->pieces[i] = *piece;
	pthread_mutex_unlock(&d->mu);
	return rc;
}

bool fab_domain_remove(struct fab_domain *d, unsigned i)
{
	bool all;

	pthread_mutex_lock(&d->mu);
	all = domain_drop_piece(d, i);
	pthread_mutex_unlock(&d->mu);
	return all;
}

static void domain_table_free(const struct fab_domain *d, struct fab_device *dev,
			      struct domain_table *t)
{
	for (unsigned i = 0; i < d->npieces; i++)
		domain_drop(dev, &t->mr[i]);
	list_del(&t->node);
	free(t);
}

/* 0, or the device cannot be used. */
static int domain_add_late(struct fab_device *dev, const struct fab_piece *piece, int how, struct fab_mr *mr,
			   struct errbuf *eb)
{
	struct errbuf why;
	int rc = piece->len ? dev->reg(dev, piece, how, mr, &why) : 0;

	if (!rc)
		return 0;
	if (piece->dmabuf < 0)
		return err_set(eb, rc, "%s", why.text);
	*mr = (struct fab_mr){ 0 };
	log_warn("reads and writes by a program's ring fail on this path: %s", why.text);
	return 0;
}

int fab_device_pieces(struct fab_domain *d, struct fab_device *dev, int how,
		      const struct fab_mr **out, struct errbuf *eb)
{
	struct domain_table *t;
	int rc = 0;

	list_for_each(n, &dev->tables) {
		if (domain_table_of(n)->how == how) {
			*out = domain_table_of(n)->mr;
			return 0;
		}
	}
	t = calloc(1, sizeof(*t) + d->npieces * sizeof(t->mr[0]));
	if (!t)
		return err_set(eb, -ENOMEM, "no memory for registrations");
	t->how = how;
	list_add_tail(&dev->tables, &t->node);
	for (unsigned i = 0; i < d->npieces && !rc; i++)
		rc = domain_add_late(dev, &d->pieces[i], how, &t->mr[i], eb);
	if (rc)
		domain_table_free(d, dev, t);
	else
		*out = t->mr;
	return rc;
}

void fab_device_fini(struct fab_domain *d, struct fab_device *dev)
{
	while (!list_empty(&dev->tables))
		domain_table_free(d, dev, domain_table_of(dev->tables.next));
}
