/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What all providers share: their table, domains, and addresses as text. */
#include "fabric/fabric.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/sock.h"

static const struct fabric *const fabrics[] = {
	&fabric_verbs,
	&fabric_iwarp,
};

const struct fabric *fabric_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof(fabrics) / sizeof(fabrics[0]); i++)
		if (!strcmp(fabrics[i]->name, name))
			return fabrics[i];
	return NULL;
}

/* ---- domains ---- */

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
struct table {
	struct list node;               /* in fab_device.tables */
	int how;
	struct fab_mr mr[];             /* len 0: not registered */
};

static struct table *table_of(struct list *n)
{
	return container_of(n, struct table, node);
}

int fab_domain_pieces(struct fab_domain *d, unsigned n)
{
	d->pieces = calloc(n, sizeof(*d->pieces));
	d->npieces = d->pieces ? n : 0;
	return d->pieces ? 0 : -ENOMEM;
}

static bool drop(struct fab_device *dev, struct fab_mr *mr)
{
	if (mr->len && dev->dereg(dev, mr))
		return false;
	*mr = (struct fab_mr){ 0 };
	return true;
}

static bool drop_piece(struct fab_domain *d, unsigned i)
{
	bool all = true;

	d->pieces[i].len = 0;
	list_for_each(n, &d->devices) {
		struct fab_device *dev = container_of(n, struct fab_device, node);

		list_for_each(t, &dev->tables)
			all &= drop(dev, &table_of(t)->mr[i]);
	}
	return all;
}

static int add_piece(struct fab_domain *d, unsigned i, void *mem, size_t len, struct errbuf *eb)
{
	list_for_each(n, &d->devices) {
		struct fab_device *dev = container_of(n, struct fab_device, node);

		list_for_each(t, &dev->tables) {
			struct fab_mr mr;
			int rc = dev->reg(dev, mem, len, table_of(t)->how, &mr, eb);

			if (rc)
				return rc;
			table_of(t)->mr[i] = mr;
		}
	}
	return 0;
}

int fab_domain_add(struct fab_domain *d, unsigned i, void *mem, size_t len, struct errbuf *eb)
{
	int rc;

	pthread_mutex_lock(&d->mu);
	rc = add_piece(d, i, mem, len, eb);
	if (rc)
		drop_piece(d, i);       /* nobody has used it, so each device gives it up */
	else
		d->pieces[i] = (struct fab_piece){ mem, len };
	pthread_mutex_unlock(&d->mu);
	return rc;
}

bool fab_domain_remove(struct fab_domain *d, unsigned i)
{
	bool all;

	pthread_mutex_lock(&d->mu);
	all = drop_piece(d, i);
	pthread_mutex_unlock(&d->mu);
	return all;
}

static void table_free(const struct fab_domain *d, struct fab_device *dev, struct table *t)
{
	for (unsigned i = 0; i < d->npieces; i++)
		drop(dev, &t->mr[i]);
	list_del(&t->node);
	free(t);
}

int fab_device_pieces(struct fab_domain *d, struct fab_device *dev, int how,
		      const struct fab_mr **out, struct errbuf *eb)
{
	struct table *t;
	int rc = 0;

	list_for_each(n, &dev->tables) {
		if (table_of(n)->how == how) {
			*out = table_of(n)->mr;
			return 0;
		}
	}
	t = calloc(1, sizeof(*t) + d->npieces * sizeof(t->mr[0]));
	if (!t)
		return err_set(eb, -ENOMEM, "no memory for registrations");
	t->how = how;
	list_add_tail(&dev->tables, &t->node);
	for (unsigned i = 0; i < d->npieces && !rc; i++)
		if (d->pieces[i].len)
			rc = dev->reg(dev, d->pieces[i].mem, d->pieces[i].len, how, &t->mr[i], eb);
	if (rc)
		table_free(d, dev, t);
	else
		*out = t->mr;
	return rc;
}

void fab_device_fini(struct fab_domain *d, struct fab_device *dev)
{
	while (!list_empty(&dev->tables))
		table_free(d, dev, table_of(dev->tables.next));
}

/* ---- addresses ---- */

const char *fab_addr_text(const struct sockaddr_storage *ss, char *buf, size_t len)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];
	bool v6 = ss->ss_family == AF_INET6;

	if (ss->ss_family == AF_UNSPEC) {
		snprintf(buf, len, "any address");
		return buf;
	}
	if (getnameinfo((const struct sockaddr *)ss, sock_addr_len(ss), host, sizeof(host),
			port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV)) {
		snprintf(buf, len, "an address of unknown family %d", ss->ss_family);
		return buf;
	}
	snprintf(buf, len, "%s%s%s", v6 ? "[" : "", host, v6 ? "]" : "");
	/* A local address usually leaves the port to the system. */
	if (strcmp(port, "0")) {
		size_t at = strlen(buf);

		snprintf(buf + at, len - at, " port %s", port);
	}
	return buf;
}
