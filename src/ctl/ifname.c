/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The address of an interface. The daemon looks for it, as the client may live in another
 * name space of networks. */
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "ctl/impl.h"

/* The family of a numeric address, or AF_UNSPEC. *out gets the address. */
static int numeric(const char *text, struct sockaddr_storage *out)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM }, *ai;
	int family;

	if (getaddrinfo(text, NULL, &hints, &ai))
		return AF_UNSPEC;
	memset(out, 0, sizeof(*out));
	memcpy(out, ai->ai_addr, ai->ai_addrlen);
	family = ai->ai_family;
	freeaddrinfo(ai);
	return family;
}

static bool is_link_local(const struct sockaddr *sa)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;

	return sa->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

/* The first address that can reach the server: both are of the link only, or neither is. */
static const struct sockaddr *choose(const struct ifaddrs *list, const char *name,
				     const struct sockaddr *server, bool *exists)
{
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		if (strcmp(i->ifa_name, name) != 0)
			continue;
		*exists = true;
		if (i->ifa_addr && i->ifa_addr->sa_family == server->sa_family &&
		    is_link_local(i->ifa_addr) == is_link_local(server))
			return i->ifa_addr;
	}
	return NULL;
}

int ctl_local_address(const char *local, const char *server, char out[CTL_WORD_MAX],
		      struct errbuf *eb)
{
	struct sockaddr_storage to, from;
	const struct sockaddr *sa;
	struct ifaddrs *list;
	bool exists = false;
	int rc = 0;

	snprintf(out, CTL_WORD_MAX, "%s", local);
	/* make_path() says what is wrong with the server's address. */
	if (!*local || numeric(local, &from) != AF_UNSPEC || numeric(server, &to) == AF_UNSPEC)
		return 0;
	if (getifaddrs(&list) < 0)
		return err_set(eb, -errno, "cannot list the network interfaces: %s", strerror(errno));
	sa = choose(list, local, (const struct sockaddr *)&to, &exists);
	if (!exists)
		rc = err_set(eb, -ENODEV, "'%s' is neither a numeric address nor a network interface "
			     "of this machine", local);
	else if (!sa || getnameinfo(sa, to.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
				    sizeof(struct sockaddr_in), out, CTL_WORD_MAX, NULL, 0,
				    NI_NUMERICHOST))
		rc = err_set(eb, -EADDRNOTAVAIL, "the interface '%s' has no address from which %s "
			     "could be reached", local, server);
	freeifaddrs(list);
	return rc;
}
