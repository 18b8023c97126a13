/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What all providers share: their table, domains, and addresses as text. */
#include "fabric/fabric.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

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

void fab_domain_init(struct fab_domain *d)
{
	pthread_mutex_init(&d->mu, NULL);
	pthread_cond_init(&d->ended, NULL);
	list_init(&d->devices);
	d->ending = 0;
}

void fab_domain_fini(struct fab_domain *d)
{
	pthread_mutex_lock(&d->mu);
	while (d->ending)
		pthread_cond_wait(&d->ended, &d->mu);
	pthread_mutex_unlock(&d->mu);
	pthread_cond_destroy(&d->ended);
	pthread_mutex_destroy(&d->mu);
}

void fab_domain_wait_for(struct fab_domain *d)
{
	pthread_mutex_lock(&d->mu);
	d->ending++;
	pthread_mutex_unlock(&d->mu);
}

void fab_domain_done(struct fab_domain *d)
{
	/* With the lock held, because the domain may end right after it. */
	pthread_mutex_lock(&d->mu);
	if (--d->ending == 0)
		pthread_cond_broadcast(&d->ended);
	pthread_mutex_unlock(&d->mu);
}

const char *fab_addr_text(const struct sockaddr_storage *ss, char *buf, size_t len)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];
	bool v6 = ss->ss_family == AF_INET6;
	socklen_t salen = v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	if (ss->ss_family == AF_UNSPEC) {
		snprintf(buf, len, "any address");
		return buf;
	}
	if (getnameinfo((const struct sockaddr *)ss, salen, host, sizeof(host),
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
