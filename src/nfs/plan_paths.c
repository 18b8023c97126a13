/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The addresses of the paths.
 *
 *     path i    from locals[i mod their number] to servers[i mod their number]
 *
 * A name or an interface that could be of either family gets the one of the other end. It runs
 * before the client exists; nfs_plan_path() also afterwards, on the thread that answers control
 * commands.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include "base/sock.h"
#include "nfs/plan_impl.h"

struct addrs {
	struct sockaddr_storage at[NFS_PATHS_MAX];
	unsigned n;
	unsigned left_out;              /* of the server's name, behind those */
};

static const char *family_name(int family)
{
	return family == AF_INET6 ? "IPv6" : "IPv4";
}

static struct in6_addr *plan_paths_v6(struct sockaddr_storage *ss)
{
	return &((struct sockaddr_in6 *)ss)->sin6_addr;
}

/* ---- One address ------------------------------------------------------------ */

/* false: text is not a numeric address. Else *rc is 0, or -errno with eb set. */
static bool plan_paths_numeric(const char *text, unsigned port, struct sockaddr_storage *out,
			       int *rc, struct errbuf *eb)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	}, *ai;
	struct sock_numeric n;
	char service[16];

	if (!sock_numeric(text, strlen(text), &n))
		return false;
	snprintf(service, sizeof(service), "%u", port);
	*rc = getaddrinfo(n.text, service, &hints, &ai);
	if (*rc) {
		*rc = err_set(eb, *rc == EAI_MEMORY ? -ENOMEM : -EINVAL,
			      "cannot use the address '%s': %s; is the interface there?", n.text,
			      gai_strerror(*rc));
		return true;
	}
	sock_addr_set(out, ai->ai_addr);
	freeaddrinfo(ai);
	return true;
}

/* The first address of an interface for a connection to that server. Link-local addresses
 * are for link-local servers only. */
static int interface_addr(const char *name, const struct sockaddr_storage *server,
			  struct sockaddr_storage *out, struct errbuf *eb)
{
	struct sockaddr_storage to = *server, ss;
	int family = to.ss_family;
	bool link = family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(plan_paths_v6(&to));
	bool exists = false, found = false;
	struct ifaddrs *all;
	char text[96];

	if (getifaddrs(&all) < 0)
		return err_set(eb, -errno, "cannot list this host's network interfaces: %s",
			       strerror(errno));
	for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		if (strcmp(i->ifa_name, name) != 0)
			continue;
		exists = true;
		if (!i->ifa_addr || i->ifa_addr->sa_family != family)
			continue;
		sock_addr_set(&ss, i->ifa_addr);
		found = family == AF_INET || IN6_IS_ADDR_LINKLOCAL(plan_paths_v6(&ss)) == link;
	}
	freeifaddrs(all);
	if (!exists)
		return err_set(eb, -ENODEV, "this host has no network interface '%.20s' (`ip addr` lists "
			       "them)", name);
	if (!found)
		return err_set(eb, -ENODEV, "the network interface '%.20s' has no %s address%s, and the "
			       "server's is %s", name, family_name(family),
			       family == AF_INET ? "" : link ? " of link scope" : " beyond link scope",
			       fab_addr_text(server, text, sizeof(text)));
	*out = ss;
	return 0;
}

/* The end on this host: a numeric address or an interface. NULL: any. */
static int local_end(const char *text, const struct sockaddr_storage *server,
		     struct sockaddr_storage *out, struct errbuf *eb)
{
	char from[96], to[96];
	int rc = 0;

	if (!text)
		return 0;
	if (!plan_paths_numeric(text, 0, out, &rc, eb))
		return interface_addr(text, server, out, eb);
	if (rc || out->ss_family == server->ss_family)
		return rc;
	return err_set(eb, -EINVAL, "there is no path from %s to %s: both ends must be IPv4, or both "
		       "IPv6", fab_addr_text(out, from, sizeof(from)),
		       fab_addr_text(server, to, sizeof(to)));
}

/* ---- Version 3 from several addresses ---------------------------------------- */

/* The address that the server sees, without a port: a path's own end has none. false: there is no route. */
static bool source_of(const struct fab_params *p, struct sockaddr_storage *out)
{
	*out = p->local;
	return out->ss_family != AF_UNSPEC || sock_source(&p->server, out);
}

/* Does p come from another address than one of the first n paths, with version 3? A text for
 * people goes to w. */
static bool warn_v3(const struct nfs_config *cfg, unsigned n, const struct fab_params *p,
		    struct errbuf *w)
{
	struct sockaddr_storage a, b;
	char one[96], other[96];

	if (cfg->version != &nfs_v3 || !source_of(p, &b))
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (!source_of(&cfg->paths[i].params, &a) || sock_addr_same(&a, &b))
			continue;
		err_set(w, 0, "version 3 over paths from several addresses of this host (%s and %s): what is "
			"sent again on another path may be executed twice, and late, so that an old WRITE or "
			"truncation replaces newer data without an error. Use vers=4.1, or one address "
			"(localaddr=); doc/multipath.md", fab_addr_text(&a, one, sizeof(one)),
			fab_addr_text(&b, other, sizeof(other)));
		return true;
	}
	return false;
}

int nfs_plan_path(struct rr_path *out, const struct nfs_config *cfg, const char *server,
	       const char *local, unsigned port, struct errbuf *eb)
{
	const struct sockaddr_storage *first = &cfg->paths[0].params.server;
	struct rr_path p = cfg->paths[0];
	int rc = 0;

	if (port > 65535)
		return err_set(eb, -EINVAL, "port %u is out of range (allowed: 1 to 65535)", port);
	if (!port)
		port = ntohs(first->ss_family == AF_INET6 ?
			     ((const struct sockaddr_in6 *)first)->sin6_port :
			     ((const struct sockaddr_in *)first)->sin_port);
	memset(&p.params.local, 0, sizeof(p.params.local));
	if (!plan_paths_numeric(server, port, &p.params.server, &rc, eb))
		return err_set(eb, -EINVAL, "'%.100s' is not a numeric IPv4 or IPv6 address of the server",
			       server);
	if (!rc)
		rc = local_end(local, &p.params.server, &p.params.local, eb);
	if (rc)
		return rc;
	*out = p;
	warn_v3(cfg, cfg->npaths, &p.params, eb);
	return 0;
}

/* ---- The server's addresses ------------------------------------------------- */

/* Which local end path i has. NULL: any. */
static const char *local_text(const struct nfs_plan_in *in, unsigned i)
{
	return in->nlocals ? in->locals[i % in->nlocals] : NULL;
}

/* The family that a name has to have for path i. */
static int wanted_family(const struct nfs_plan_in *in, unsigned i)
{
	struct sockaddr_storage ss = { .ss_family = AF_UNSPEC };
	const char *local = local_text(in, i);
	struct errbuf ignored;
	int rc;

	if (in->family == AF_INET6)
		return AF_INET6;
	if (local)
		plan_paths_numeric(local, 0, &ss, &rc, &ignored);
	return ss.ss_family;
}

/* Adds addresses of a name, `most` at most: those of the family of the first. So localhost,
 * which has one of each, is one path. */
static int add_name(struct addrs *to, const char *host, const struct nfs_plan_in *in, unsigned most,
		    struct errbuf *eb)
{
	struct addrinfo hints = {
		.ai_family = wanted_family(in, to->n), .ai_socktype = SOCK_STREAM,
	}, *ai;
	unsigned found = 0;
	char service[16];
	int rc;

	snprintf(service, sizeof(service), "%u", in->port);
	rc = getaddrinfo(host, service, &hints, &ai);
	if (rc)
		return err_set(eb, rc == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH,
			       "cannot find an %saddress for '%s': %s; check the name and the resolver",
			       hints.ai_family == AF_INET6 ? "IPv6 " :
			       hints.ai_family == AF_INET ? "IPv4 " : "",
			       host, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
	for (struct addrinfo *a = ai; a; a = a->ai_next) {
		if (a->ai_family != ai->ai_family || sock_addr_again(ai, a))
			continue;
		if (found++ < most)
			sock_addr_set(&to->at[to->n++], a->ai_addr);
	}
	freeaddrinfo(ai);
	if (in->all && found > most)
		to->left_out = found - most;
	if (most > 1 && found > most)
		log_info("'%s' has more than %u addresses; only the first %u are used, because a mount "
			 "has no more paths", host, most, most);
	return 0;
}

/* Adds a numeric address, or addresses of a name. */
static int add_server(struct addrs *to, const char *host, const struct nfs_plan_in *in, unsigned most,
		      struct errbuf *eb)
{
	struct sockaddr_storage *at = &to->at[to->n];
	int rc = 0;

	if (!plan_paths_numeric(host, in->port, at, &rc, eb))
		return add_name(to, host, in, most, eb);
	if (rc)
		return rc;
	if (in->family == AF_INET6 && at->ss_family != AF_INET6)
		return err_set(eb, -EINVAL, "'%s' is not an IPv6 address, and proto=rdma6 allows no "
			       "others", host);
	to->n++;
	return 0;
}

/* A name may stand for several servers. Version 4.1 tells them apart, and version 3 cannot tell
 * one from its copy (nfs3_check.c): with it only the first address of a name is used. */
static int find_servers(struct addrs *to, const struct nfs_config *cfg,
			const struct nfs_plan_in *in, struct errbuf *eb)
{
	unsigned most = in->all && cfg->version != &nfs_v3 ? NFS_PATHS_MAX : 1;
	int rc = 0;

	for (unsigned i = 0; i < in->nservers && !rc; i++)
		rc = add_server(to, in->servers[i], in, most, eb);
	return rc;
}

/* ---- Pairs ------------------------------------------------------------------ */

static int refuse_twins(const struct nfs_config *cfg, unsigned n, struct errbuf *eb)
{
	const struct fab_params *b = &cfg->paths[n].params;
	char from[96], to[96];

	for (unsigned i = 0; i < n; i++) {
		const struct fab_params *a = &cfg->paths[i].params;

		if (sock_addr_same(&a->server, &b->server) &&
		    sock_addr_same(&a->local, &b->local))
			return err_set(eb, -EINVAL, "paths %u and %u are the same: both go from %s to %s; "
				       "leave one out", i, n,
				       fab_addr_text(&b->local, from, sizeof(from)),
				       fab_addr_text(&b->server, to, sizeof(to)));
	}
	return 0;
}

int plan_paths(struct nfs_config *cfg, const struct nfs_plan_in *in, struct errbuf *eb)
{
	struct addrs servers = { .n = 0 };
	int rc = find_servers(&servers, cfg, in, eb);
	struct errbuf warning;
	bool warned = false;
	char from[96], to[96];

	if (rc)
		return rc;
	cfg->addresses = servers.n;
	cfg->left_out = servers.left_out;
	cfg->npaths = in->nlocals > servers.n ? in->nlocals : servers.n;
	for (unsigned i = 0; i < cfg->npaths; i++) {
		struct fab_params *p = &cfg->paths[i].params;

		p->server = servers.at[i % servers.n];
		rc = local_end(local_text(in, i), &p->server, &p->local, eb);
		if (!rc)
			rc = refuse_twins(cfg, i, eb);
		if (rc)
			return rc;
		if (cfg->npaths > 1)
			log_info("path %u goes from %s to %s", i,
				 fab_addr_text(&p->local, from, sizeof(from)),
				 fab_addr_text(&p->server, to, sizeof(to)));
		if (!warned && warn_v3(cfg, i, p, &warning)) {
			log_warn("%s", warning.text);
			warned = true;
		}
	}
	return 0;
}
