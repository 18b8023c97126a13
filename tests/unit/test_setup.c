/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What setup makes of the options: pairs of addresses, the fabric, the buffers. The resolver,
 * the network interfaces and the RDMA devices are played; the last tests have this machine's.
 */
#include "base/meminfo.h"
#include "nfs/nfs.h"
#include "setup.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "fabric/verbs.h"
#include "rpcrdma/memreg.h"
#include "sandbox.h"

static struct options o;
static struct nfs_config cfg;
static struct errbuf eb;

/* ---- What is played ---------------------------------------------------------- */

static bool real;               /* this machine's resolver and interfaces */
static unsigned lookups;        /* of names */
static int no_interfaces;       /* the error of getifaddrs() */

static const struct { const char *name, *addrs[12]; } hosts[] = {
	{ "one", { "10.1.0.1" } },
	{ "three", { "10.1.0.1", "10.1.0.2", "10.1.0.3" } },
	{ "both", { "10.1.0.1", "fd01::1", "10.1.0.2", "fd01::2" } },
	{ "localhost", { "127.0.0.1", "::1" } },
	{ "localhost6", { "::1", "127.0.0.1" } },
	{ "twice", { "10.1.0.1", "10.1.0.1", "10.1.0.2", "10.1.0.1" } },
	{ "ten", { "10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5", "10.1.0.6",
		   "10.1.0.7", "10.1.0.8", "10.1.0.9", "10.1.0.10" } },
};

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **out);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **out);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **out)
{
	struct addrinfo **end = out;
	unsigned h = 0;

	if (real || hints->ai_flags & AI_NUMERICHOST)
		return __real_getaddrinfo(host, port, hints, out);
	lookups++;
	while (h < sizeof(hosts) / sizeof(hosts[0]) && strcmp(hosts[h].name, host) != 0)
		h++;
	*out = NULL;
	for (unsigned i = 0; h < sizeof(hosts) / sizeof(hosts[0]) && i < 12 && hosts[h].addrs[i]; i++) {
		int family = strchr(hosts[h].addrs[i], ':') ? AF_INET6 : AF_INET;

		if (hints->ai_family != AF_UNSPEC && hints->ai_family != family)
			continue;
		if (__real_getaddrinfo(hosts[h].addrs[i], port, hints, end))
			abort();
		end = &(*end)->ai_next;
	}
	return *out ? 0 : EAI_NONAME;
}

/* eth0 has the hardware's address first, then two of IPv4 and two of IPv6. br-lan has only one
 * of link scope, and tun0 none at all. */
static const struct { const char *name, *addr; } places[] = {
	{ "tun0", NULL }, { "eth0", "hardware" }, { "eth0", "10.0.0.1" }, { "eth0", "10.0.0.2" },
	{ "eth1", "10.0.1.1" }, { "br-lan", "fe80::9" }, { "eth0", "fe80::1" }, { "eth0", "fd00::1" },
};
#define PLACES (sizeof(places) / sizeof(places[0]))

static struct interface {
	struct ifaddrs i;
	char name[IF_NAMESIZE];
	struct sockaddr_storage addr;
} interfaces[PLACES];

int __real_getifaddrs(struct ifaddrs **out);
int __wrap_getifaddrs(struct ifaddrs **out);
int __wrap_getifaddrs(struct ifaddrs **out)
{
	if (real)
		return __real_getifaddrs(out);
	errno = no_interfaces;
	if (no_interfaces)
		return -1;
	for (unsigned p = 0; p < PLACES; p++) {
		struct interface *at = &interfaces[p];
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&at->addr;
		struct sockaddr_in *in = (struct sockaddr_in *)&at->addr;

		strcpy(at->name, places[p].name);
		at->i.ifa_name = at->name;
		at->i.ifa_next = p + 1 < PLACES ? &at[1].i : NULL;
		at->i.ifa_addr = places[p].addr ? (struct sockaddr *)&at->addr : NULL;
		at->addr.ss_family = AF_PACKET;
		if (!places[p].addr || strcmp(places[p].addr, "hardware") == 0)
			continue;
		at->addr.ss_family = strchr(places[p].addr, ':') ? AF_INET6 : AF_INET;
		if (at->addr.ss_family == AF_INET) {
			inet_pton(AF_INET, places[p].addr, &in->sin_addr);
		} else {
			inet_pton(AF_INET6, places[p].addr, &in6->sin6_addr);
			in6->sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? 1 : 0;
		}
	}
	*out = &interfaces[0].i;
	return 0;
}

void __real_freeifaddrs(struct ifaddrs *all);
void __wrap_freeifaddrs(struct ifaddrs *all);
void __wrap_freeifaddrs(struct ifaddrs *all)
{
	if (real)
		__real_freeifaddrs(all);
}

/* What each address says to the probe; the last byte of the server's address is the place. */
static int device[16];
static unsigned probes;

int __wrap_verbs_probe(const struct fab_params *p, struct errbuf *why);
int __wrap_verbs_probe(const struct fab_params *p, struct errbuf *why)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&p->server;
	int rc = in->sin_family == AF_INET ? device[ntohl(in->sin_addr.s_addr) & 15] : 0;

	probes++;
	cr_assert_eq(p->timeout_ms, 5000);
	if (rc)
		err_set(why, rc, "the probe says %d", rc);
	return rc;
}

/* Messages of what went well are looked at by one test only. */
static void quiet(void)
{
	log_set_level(LOG_LVL_WARN);
}

static void cleanup(void)
{
	options_free(&o);
}

static int set_up(const char *source, const char *opts)
{
	const char *argv[] = { "nfsrdma-fuse", source, "/mnt", "-o", opts, NULL };

	options_free(&o);
	lookups = probes = 0;
	eb.text[0] = '\0';
	cr_assert_eq(options_parse(&o, 5, (char *const *)argv, &eb), 0, "%s: %s", opts, eb.text);
	return setup_client(&cfg, &o, &eb);
}

static const char *host_text(const struct sockaddr_storage *ss, char *buf, size_t len)
{
	if (ss->ss_family == AF_UNSPEC)
		return "*";
	cr_assert_eq(getnameinfo((const struct sockaddr *)ss, ss->ss_family == AF_INET6 ?
				 sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
				 buf, (socklen_t)len, NULL, 0, NI_NUMERICHOST), 0);
	return buf;
}

/* "LOCAL>SERVER ...", by place. */
static const char *pairs(void)
{
	static char text[2048];
	size_t n = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < cfg.npaths; i++) {
		char from[96], to[96];

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s>%s", i ? " " : "",
				      host_text(&cfg.paths[i].params.local, from, sizeof(from)),
				      host_text(&cfg.paths[i].params.server, to, sizeof(to)));
	}
	return text;
}

#define PAIRS(source, opts, want) \
	do { \
		cr_assert_eq(set_up(source ":/e", opts), 0, "%s -o %s: %s", source, opts, eb.text); \
		cr_expect_str_eq(pairs(), want, "%s -o %s: %s", source, opts, pairs()); \
	} while (0)
#define REFUSED(source, opts, error, words) \
	do { \
		cr_expect_eq(set_up(source ":/e", opts), error, "%s -o %s", source, opts); \
		cr_expect_str_eq(eb.text, words, "%s -o %s:\n%s", source, opts, eb.text); \
	} while (0)

TestSuite(setup, .init = quiet, .fini = cleanup, .timeout = 300);

/* ---- Addresses ----------------------------------------------------------------- */

Test(setup, the_servers_name)
{
	PAIRS("10.0.0.1", "", "*>10.0.0.1");
	PAIRS("[fd00::1]", "", "*>fd00::1");
	cr_expect_eq(lookups, 0);
	PAIRS("one", "", "*>10.1.0.1");
	PAIRS("three", "", "*>10.1.0.1 *>10.1.0.2 *>10.1.0.3");
	cr_expect_eq(lookups, 1);
	/* Which of them is the mounted server, version 3 could not tell. */
	PAIRS("three", "vers=3", "*>10.1.0.1");
	PAIRS("nobody", "vers=3,remoteports=three~10.1.0.9", "*>10.1.0.1 *>10.1.0.9");
	PAIRS("both", "", "*>10.1.0.1 *>10.1.0.2");
	PAIRS("both", "proto=rdma6", "*>fd01::1 *>fd01::2");
	PAIRS("localhost6", "", "*>::1");
	PAIRS("twice", "", "*>10.1.0.1 *>10.1.0.2");
	REFUSED("nobody", "", -EHOSTUNREACH, "cannot find an address for 'nobody': Name or service not "
		"known; check the name and the resolver");
	REFUSED("three", "proto=rdma6", -EHOSTUNREACH, "cannot find an IPv6 address for 'three': Name or "
		"service not known; check the name and the resolver");
	REFUSED("10.0.0.1", "proto=rdma6", -EINVAL,
		"'10.0.0.1' is not an IPv6 address, and proto=rdma6 allows no others");
}

Test(setup, a_name_with_too_many_addresses)
{
	char line[512] = "";
	FILE *err;

	cr_redirect_stderr();
	log_set_level(LOG_LVL_INFO);
	PAIRS("ten", "fabric=iwarp", "*>10.1.0.1 *>10.1.0.2 *>10.1.0.3 *>10.1.0.4 *>10.1.0.5 *>10.1.0.6 "
	      "*>10.1.0.7 *>10.1.0.8");
	fflush(stderr);
	err = cr_get_redirected_stderr();
	cr_assert(fgets(line, sizeof(line), err));
	cr_expect_str_eq(line, "nfsrdma-fuse: 'ten' has more than 8 addresses; only the first 8 are used, "
			 "because a mount has no more paths\n");
	cr_assert(fgets(line, sizeof(line), err));
	cr_expect_str_eq(line, "nfsrdma-fuse: path 0 goes from any address to 10.1.0.1 port 20049\n");
	/* Where one address was asked for, or there are no more, there is nothing to say. */
	PAIRS("nobody", "addr=three,fabric=iwarp", "*>10.1.0.1");
	PAIRS("twice", "fabric=iwarp", "*>10.1.0.1 *>10.1.0.2");
	fflush(stderr);
	while (fgets(line, sizeof(line), err))
		cr_expect_null(strstr(line, "more than"), "%s", line);
}

/* Of the server's own name: other names are not meant to be all of them. */
Test(setup, addresses_that_are_left_out)
{
	static const struct { const char *source, *opts; unsigned addresses, left_out; } t[] = {
		{ "ten:/e", "ro", 8, 2 }, { "ten:/e", "vers=3", 1, 9 }, { "ten:/e", "vers=3,localaddr=10.0.0.1~10.0.0.2", 1, 9 },
		{ "three:/e", "ro", 3, 0 }, { "twice:/e", "vers=3", 1, 1 }, { "both:/e", "ro", 2, 0 },
		{ "nobody:/e", "remoteports=ten", 1, 0 }, { "10.0.0.1:/e", "ro", 1, 0 },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cr_assert_eq(set_up(t[i].source, t[i].opts), 0, "%s", eb.text);
		cr_expect(cfg.addresses == t[i].addresses && cfg.left_out == t[i].left_out, "%s -o %s: %u, and not %u",
			  t[i].source, t[i].opts, cfg.addresses, cfg.left_out);
	}
}

Test(setup, addresses_one_by_one)
{
	PAIRS("nobody", "addr=10.0.0.1", "*>10.0.0.1");
	cr_expect_eq(lookups, 0);
	PAIRS("nobody", "addr=three", "*>10.1.0.1");
	PAIRS("nobody", "remoteports=[fd00::1]~10.0.0.2", "*>fd00::1 *>10.0.0.2");
	PAIRS("nobody", "remoteports=10.0.0.1~10.0.0.2~10.0.0.3~10.0.0.4~10.0.0.5~10.0.0.6~10.0.0.7~10.0.0.8",
	      "*>10.0.0.1 *>10.0.0.2 *>10.0.0.3 *>10.0.0.4 *>10.0.0.5 *>10.0.0.6 *>10.0.0.7 *>10.0.0.8");
	lookups = 0;
	PAIRS("nobody", "remoteports=10.0.0.1~three~localhost6", "*>10.0.0.1 *>10.1.0.1 *>::1");
	cr_expect_eq(lookups, 2);
	PAIRS("nobody", "remoteports=both~localhost,proto=rdma6", "*>fd01::1 *>::1");
	REFUSED("one", "remoteports=one~nobody", -EHOSTUNREACH, "cannot find an address for 'nobody': Name or "
		"service not known; check the name and the resolver");
	REFUSED("both", "remoteports=fd00::1~10.0.0.1,proto=rdma6", -EINVAL,
		"'10.0.0.1' is not an IPv6 address, and proto=rdma6 allows no others");
	REFUSED("nobody", "remoteports=10.0.0.1~10.0.0.2~10.0.0.1", -EINVAL, "paths 0 and 2 are "
		"the same: both go from any address to 10.0.0.1 port 20049; leave one out");
	REFUSED("nobody", "remoteports=one~three", -EINVAL, "paths 0 and 1 are the same: both go from any "
		"address to 10.1.0.1 port 20049; leave one out");
}

Test(setup, ranges_of_servers)
{
	PAIRS("nobody", "remoteports=10.0.0.1-10.0.0.3~10.0.1.1",
	      "*>10.0.0.1 *>10.0.0.2 *>10.0.0.3 *>10.0.1.1");
	PAIRS("nobody", "remoteports=fd00::1-fd00::2~10.0.0.1", "*>fd00::1 *>fd00::2 *>10.0.0.1");
	cr_expect_eq(lookups, 0);
	PAIRS("nobody", "remoteports=fe80::1%lo-fe80::2%lo", "*>fe80::1%lo *>fe80::2%lo");
	REFUSED("nobody", "remoteports=fe80::1%nosuch", -EINVAL, "cannot use the address "
		"'fe80::1%nosuch': Name or service not known; is the interface there?");
	REFUSED("nobody", "remoteports=fd00::1~10.0.0.2,proto=rdma6", -EINVAL,
		"'10.0.0.2' is not an IPv6 address, and proto=rdma6 allows no others");
}

Test(setup, local_ends)
{
	PAIRS("10.1.0.1", "localaddr=10.0.0.1", "10.0.0.1>10.1.0.1");
	PAIRS("three", "localaddr=10.0.0.1",
	      "10.0.0.1>10.1.0.1 10.0.0.1>10.1.0.2 10.0.0.1>10.1.0.3");
	PAIRS("10.1.0.1", "localports=10.0.0.1-10.0.0.3",
	      "10.0.0.1>10.1.0.1 10.0.0.2>10.1.0.1 10.0.0.3>10.1.0.1");
	PAIRS("three", "localports=10.0.0.1-10.0.0.2",
	      "10.0.0.1>10.1.0.1 10.0.0.2>10.1.0.2 10.0.0.1>10.1.0.3");
	PAIRS("nobody", "remoteports=10.1.0.1~10.1.0.2,localports=10.0.0.1-10.0.0.5",
	      "10.0.0.1>10.1.0.1 10.0.0.2>10.1.0.2 10.0.0.3>10.1.0.1 10.0.0.4>10.1.0.2 10.0.0.5>10.1.0.1");
	PAIRS("nobody", "remoteports=10.1.0.1~10.1.0.3,localports=10.0.0.1",
	      "10.0.0.1>10.1.0.1 10.0.0.1>10.1.0.3");
	/* The names' families follow. */
	PAIRS("both", "localaddr=fd00::1", "fd00::1>fd01::1 fd00::1>fd01::2");
	PAIRS("localhost", "localports=fd00::1", "fd00::1>::1");
	PAIRS("nobody", "remoteports=both~both,localports=10.0.0.1~fd00::1",
	      "10.0.0.1>10.1.0.1 fd00::1>fd01::1");
	PAIRS("nobody", "remoteports=10.1.0.1~fd01::1,localports=10.0.0.1~fd00::1",
	      "10.0.0.1>10.1.0.1 fd00::1>fd01::1");
	REFUSED("three", "localaddr=fd00::1", -EHOSTUNREACH, "cannot find an IPv6 address for 'three': "
		"Name or service not known; check the name and the resolver");
	REFUSED("10.1.0.1", "localaddr=fd00::1", -EINVAL, "there is no path from [fd00::1] to 10.1.0.1 "
		"port 20049: both ends must be IPv4, or both IPv6");
	REFUSED("both", "proto=rdma6,localports=10.0.0.1", -EINVAL, "there is no path from 10.0.0.1 to "
		"[fd01::1] port 20049: both ends must be IPv4, or both IPv6");
}

Test(setup, interfaces)
{
	PAIRS("three", "localports=eth0~eth1", "10.0.0.1>10.1.0.1 10.0.1.1>10.1.0.2 10.0.0.1>10.1.0.3");
	PAIRS("[fd01::1]", "localports=eth0~fd00::7", "fd00::1>fd01::1 fd00::7>fd01::1");
	PAIRS("[fe80::7%lo]", "localports=eth0~br-lan", "fe80::1%lo>fe80::7%lo fe80::9%lo>fe80::7%lo");
	PAIRS("nobody", "remoteports=10.1.0.1~fd01::1,localports=eth0",
	      "10.0.0.1>10.1.0.1 fd00::1>fd01::1");
	PAIRS("10.1.0.1", "localports=eth1~10.0.0.1-10.0.0.2",
	      "10.0.1.1>10.1.0.1 10.0.0.1>10.1.0.1 10.0.0.2>10.1.0.1");
	REFUSED("10.1.0.1", "localports=eth0~eth7", -ENODEV,
		"this host has no network interface 'eth7' (`ip addr` lists them)");
	REFUSED("10.1.0.1", "localports=tun0", -ENODEV, "the network interface 'tun0' has no IPv4 address, "
		"and the server's is 10.1.0.1 port 20049");
	REFUSED("[fd01::1]", "localports=br-lan", -ENODEV, "the network interface 'br-lan' has no IPv6 "
		"address beyond link scope, and the server's is [fd01::1] port 20049");
	REFUSED("[fe80::7%lo]", "localports=eth1", -ENODEV, "the network interface 'eth1' has no IPv6 "
		"address of link scope, and the server's is [fe80::7%lo] port 20049");
	REFUSED("10.1.0.1", "localports=eth0~10.0.0.1", -EINVAL, "paths 0 and 1 are the same: both go "
		"from 10.0.0.1 to 10.1.0.1 port 20049; leave one out");
	no_interfaces = EACCES;
	REFUSED("10.1.0.1", "localports=eth0", -EACCES,
		"cannot list this host's network interfaces: Permission denied");
}

/* ---- What holds for all paths ---------------------------------------------------- */

static unsigned port_of(const struct rr_path *p)
{
	return ntohs(((const struct sockaddr_in *)&p->params.server)->sin_port);
}

/* The lock manager of version 3 is wanted if any kind of locks is the server's. */
Test(setup, locks)
{
	static const struct { const char *opts; bool locks; } t[] = {
		{ "vers=3", true }, { "vers=3,nolock", false }, { "vers=3,local_lock=flock", true },
		{ "vers=3,local_lock=posix", true }, { "vers=3,local_lock=all", false },
		{ "vers=3,consistency=solo", false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cr_assert_eq(set_up("10.0.0.1:/e", t[i].opts), 0, "%s", eb.text);
		cr_expect_eq(cfg.locks, t[i].locks, "%s", t[i].opts);
	}
}

Test(setup, each_path_has_it)
{
	PAIRS("three", "port=111,mpacrc,fabric=iwarp", "*>10.1.0.1 *>10.1.0.2 *>10.1.0.3");
	cr_expect_eq(probes, 0);
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(port_of(&cfg.paths[i]), 111);
		cr_expect_eq(cfg.paths[i].params.flags, FAB_CRC);
		cr_expect_eq(cfg.paths[i].params.timeout_ms, 5000);
		cr_expect_eq(cfg.paths[i].fabric, &fabric_iwarp);
		cr_expect_null(cfg.paths[i].params.hint);
	}
	cr_expect_eq(cfg.policy, RR_MIN_INFLIGHT);
	cr_expect_eq(cfg.mdconnect, 0);
	cr_expect_eq(cfg.heartbeat_ms, 5000);
	cr_expect_str_eq(cfg.server, "three");
	PAIRS("nobody", "addr=10.0.0.1,mp_policy=round-robin,mdconnect=3,heartbeat=7,fabric=verbs,mssfpdu",
	      "*>10.0.0.1");
	cr_expect_eq(probes, 0);
	cr_expect_eq(cfg.policy, RR_ROUND_ROBIN);
	cr_expect_eq(cfg.mdconnect, 3);
	cr_expect_eq(cfg.heartbeat_ms, 7000);
	cr_expect_str_eq(cfg.server, "nobody");
	cr_expect_eq(cfg.paths[0].fabric, &fabric_verbs);
	cr_expect_eq(cfg.paths[0].params.flags, FAB_MSS_FPDU);
	PAIRS("one", "mp_policy=min-latency", "*>10.1.0.1");
	cr_expect_eq(cfg.policy, RR_MIN_LATENCY);
	PAIRS("one", "mp_policy=min-inflight", "*>10.1.0.1");
	cr_expect_eq(cfg.policy, RR_MIN_INFLIGHT);
}

/* The answers for the three addresses, how many are asked, and what is chosen. */
static void chosen(int a, int b, int c, unsigned asked, const struct fabric *want, const char *hint)
{
	device[1] = a;
	device[2] = b;
	device[3] = c;
	cr_assert_eq(set_up("three:/e", ""), 0, "%s", eb.text);
	cr_expect_eq(probes, asked, "%d %d %d: %u asked", a, b, c, probes);
	for (unsigned i = 0; i < 3; i++) {
		const char *text = cfg.paths[i].params.hint;

		cr_expect_str_eq(cfg.paths[i].fabric->name, want->name, "%d %d %d", a, b, c);
		cr_expect_eq(!text, !hint);
		cr_expect(!hint || strncmp(text, hint, strlen(hint)) == 0, "%d %d %d: %s", a, b, c, text);
	}
}

Test(setup, the_fabric)
{
	static const char none[] = "no RDMA device leads to the server, so iWARP over TCP was tried";
	static const char not_allowed[] = "this user may not use RDMA devices, so iWARP over TCP was tried";

	chosen(0, 0, 0, 1, &fabric_verbs, NULL);
	chosen(-ENODEV, 0, 0, 2, &fabric_verbs, NULL);
	chosen(-EACCES, -ENODEV, 0, 3, &fabric_verbs, NULL);
	chosen(-ENODEV, -ENODEV, -ENODEV, 3, &fabric_iwarp, none);
	chosen(-EACCES, -EACCES, -EACCES, 3, &fabric_iwarp, not_allowed);
	chosen(-EPERM, -EPERM, -ENODEV, 3, &fabric_iwarp, not_allowed);
	chosen(-ENODEV, -ENODEV, -EACCES, 3, &fabric_iwarp, none);
	/* An address that is dead decides nothing. */
	chosen(-ETIMEDOUT, 0, 0, 2, &fabric_verbs, NULL);
	chosen(-ETIMEDOUT, -ENODEV, -ENODEV, 3, &fabric_iwarp, none);
	chosen(-ENODEV, -EHOSTUNREACH, -ENODEV, 3, &fabric_iwarp, none);
	chosen(-ETIMEDOUT, -ENETUNREACH, -ETIMEDOUT, 3, &fabric_verbs, NULL);
}

/* ---- Memory -------------------------------------------------------------------- */

static rlim_t memlock, memlock_hard;    /* hard 0: the same */
static bool memlock_stays;               /* it cannot be raised */

/* In place of the C library's: not everybody who runs tests may raise the limit. */
int getrlimit(__rlimit_resource_t which, struct rlimit *out)
{
	long rc = syscall(SYS_prlimit64, 0, which, NULL, out);

	if (which == RLIMIT_MEMLOCK && memlock)
		*out = (struct rlimit){ memlock, memlock_hard ? memlock_hard : memlock };
	return (int)rc;
}

int setrlimit(__rlimit_resource_t which, const struct rlimit *r)
{
	if (which != RLIMIT_MEMLOCK || !memlock)
		return (int)syscall(SYS_prlimit64, 0, which, r, NULL);
	cr_expect_eq(r->rlim_max, memlock_hard, "the hard limit is not ours");
	if (memlock_stays)
		return -1;
	memlock = r->rlim_cur;
	return 0;
}

/* As an ordinary user with that limit. */
static void limit_kib(size_t kib)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = { 0 };

	memlock = kib * 1024;
	cr_assert_eq(syscall(SYS_capget, &h, d), 0);
	d[0].effective &= ~(1u << CAP_IPC_LOCK);
	cr_assert_eq(syscall(SYS_capset, &h, d), 0);
}

/* What all lanes pin: the arena, and for each connection its queues and its receives, 4 KiB
 * for each credit and 8 more. With memreg=pool the queues are 64 KiB for 64 credits. */
static size_t pinned_kib(unsigned connections)
{
	return cfg.lanes * (arena_bytes(&cfg.buffers) / 1024 +
			    connections * ((cfg.credits + 63) / 64 * 64 + (cfg.credits + 8) * 4));
}

static void planned(const char *source, const char *opts, unsigned connections, unsigned lanes,
		    unsigned credits, size_t limit)
{
	cr_assert_eq(set_up(source, opts), 0, "%s: %s", opts, eb.text);
	cr_expect_eq(cfg.npaths * (1 + cfg.mdconnect), connections);
	cr_expect_eq(cfg.lanes, lanes, "%s: %u lanes", opts, cfg.lanes);
	cr_expect_eq(cfg.credits, credits, "%s: %u credits", opts, cfg.credits);
	cr_expect_eq(cfg.buffers.n[ARENA_MSG], credits + 8);
	cr_expect_leq(pinned_kib(connections), limit, "%s: %zu KiB", opts, pinned_kib(connections));
	/* What is left is not enough for another of the smallest buffers in each lane. */
	cr_expect_gt(pinned_kib(connections) + lanes * 72, limit, "%s: %zu KiB", opts,
		     pinned_kib(connections));
}

#define POOL "memreg=pool,fabric=verbs,lanes="

Test(setup, buffers_within_the_limit)
{
	limit_kib(8192);
	cr_redirect_stderr();
	planned("10.0.0.1:/e", POOL "2", 1, 2, 64, 8192);
	planned("10.0.0.1:/e", POOL "2,mdconnect=1", 2, 2, 64, 8192);
	/* Seven more connections take 7 * (288 + 64) KiB of a lane's 4096. */
	planned("ten:/e", POOL "1", 8, 1, 64, 8192);
	/* Of credits and lanes the credits give way first. 4096 KiB for each lane; 8 * 64 are
	 * queues, 2312 the least of data buffers. A credit takes 8 * 4 + 5, as do 8 spare ones. */
	planned("ten:/e", POOL "2", 8, 2, 26, 8192);
	planned("three:/e", POOL "3", 3, 2, 64, 8192);
	/* Eight paths of five connections: few calls at once, but it works. */
	planned("ten:/e", POOL "4,mdconnect=4", 40, 1, 12, 8192);
	cr_assert_eq(set_up("ten:/e", POOL "8,credits=4"), 0, "%s", eb.text);
	cr_expect_eq(cfg.credits, 4);
}

Test(setup, what_the_warning_promises_is_true)
{
	char line[512] = "";
	size_t kib;

	limit_kib(8192);
	cr_redirect_stderr();
	cr_assert_eq(set_up("three:/e", POOL "3"), 0);
	fflush(stderr);
	cr_assert(fgets(line, sizeof(line), cr_get_redirected_stderr()));
	cr_assert_eq(sscanf(line, "nfsrdma-fuse: warning: RLIMIT_MEMLOCK is 8192 KiB: using 2 of 3 "
			    "connections on each path with %*u KiB of buffers each; 'ulimit -l %zu'", &kib), 1,
		     "%s", line);
	/* 3 lanes with 21.5 MiB of buffers, and 3 connections with queues and 72 receives. */
	cr_expect_eq(kib, 3 * ((72 * (5 + 8 + 64) + 16 * 1028) + 3 * (64 + 72 * 4)) + 1, "%zu", kib);
}

/* Larger READs and WRITEs than there are buffers for. */
Test(setup, sizes_within_the_limit)
{
	char line[512] = "";
	FILE *err;

	limit_kib(8192);
	cr_redirect_stderr();
	cr_assert_eq(set_up("10.0.0.1:/e", POOL "2,rsize=4194304,wsize=2097152"), 0);
	cr_expect(cfg.rsize == 1048576 && cfg.wsize == 1048576, "%u, %u", cfg.rsize, cfg.wsize);
	cr_assert_eq(set_up("10.0.0.1:/e", POOL "2,rsize=4096"), 0);
	cr_expect(cfg.rsize == 4096 && cfg.wsize == 1048576, "%u, %u", cfg.rsize, cfg.wsize);
	fflush(stderr);
	err = cr_get_redirected_stderr();
	cr_assert(fgets(line, sizeof(line), err));
	cr_expect(strstr(line, "KiB of buffers each, and rsize and wsize of at most 1048576; 'ulimit"),
		  "%s", line);
	cr_assert(fgets(line, sizeof(line), err));
	cr_expect(!strstr(line, "size"), "%s", line);
	cr_expect_null(fgets(line, sizeof(line), err), "%s", line);
}

static void limit_files(rlim_t soft, rlim_t hard)
{
	const struct rlimit r = { .rlim_cur = soft, .rlim_max = hard };

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &r), 0);
}

static rlim_t files_now(void)
{
	struct rlimit r;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &r), 0);
	return r.rlim_cur;
}

/* One for each connection, and three with a device. One path may become eight while the mount is in use. */
Test(setup, open_files)
{
	struct rlimit r;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &r), 0);
	cr_assert_geq(r.rlim_max, 4096, "the test itself needs that");
	limit_files(256, 4096);
	cr_assert_eq(set_up("10.0.0.1:/e", "fabric=iwarp,lanes=16,mdconnect=4"), 0, "%s", eb.text);
	cr_assert_eq(files_now(), 4096, "programs may have many");
	cr_assert_eq(cfg.files_left, 4096 - (64 + 16 * (8 + 8 * 5) + 256), "with dma-bufs of programs");
	limit_files(256, 4096);
	cr_assert_eq(set_up("10.0.0.1:/e", "fabric=iwarp,lanes=16,mdconnect=4,norings"), 0, "%s", eb.text);
	cr_assert_eq(files_now(), 64 + 16 * (8 + 8 * 5));
	limit_files(256, 4096);
	cr_assert_eq(set_up("10.0.0.1:/e", "fabric=iwarp,lanes=1,norings"), 0);
	cr_assert_eq(files_now(), 256, "it is enough");
	limit_files(2000, 4096);
	cr_assert_eq(set_up("10.0.0.1:/e", "fabric=iwarp,lanes=1"), 0);
	cr_assert_eq(files_now(), 4096, "however few the mount needs");
}

Test(setup, too_few_open_files)
{
	char line[512] = "";
	FILE *err;

	limit_files(256, 600);
	cr_redirect_stderr();
	cr_assert_eq(set_up("10.0.0.1:/e", "fabric=iwarp,lanes=16,mdconnect=4"), 0);
	cr_assert_eq(files_now(), 600, "without a word: it is enough for the one path");
	cr_assert_eq(cfg.files_left, (600 - (64 + 16 * (8 + 5))) / 2, "half of what it leaves");
	cr_assert_eq(set_up("ten:/e", "fabric=iwarp,lanes=16,mdconnect=4"), 0);
	fflush(stderr);
	err = cr_get_redirected_stderr();
	while (fgets(line, sizeof(line), err) && !strstr(line, "RLIMIT_NOFILE"))
		;
	cr_expect(strstr(line, "at most 600 files may be open (RLIMIT_NOFILE), and 80 connections on each of "
			 "8 paths may need 832") && strstr(line, "LimitNOFILE="), "%s", line);
	cr_assert_eq(cfg.files_left, 0);
}

Test(setup, large_sizes_of_one_lane)
{
	cr_assert_eq(set_up("10.0.0.1:/e", "fabric=iwarp,lanes=1,rsize=4194304,wsize=4194304"), 0);
	cr_expect(cfg.rsize == 4194304 && cfg.wsize == 4194304, "%u, %u", cfg.rsize, cfg.wsize);
}

Test(setup, too_little_memory)
{
	limit_kib(4096);
	REFUSED("10.0.0.1", POOL "1,mdconnect=2", 0, "");
	/* 16 * 5 + 4 * 64 + 2 * 1028 for the least, 40 * 64 for queues, 40 * 16 * 4 for receives. */
	REFUSED("ten", POOL "4,mdconnect=4", -ENOMEM, "4096 KiB of locked memory (RLIMIT_MEMLOCK) are not "
		"enough, at least 7513 KiB are needed for so many paths and connections: raise the limit "
		"with 'ulimit -l 7513', in /etc/security/limits.conf, or with LimitMEMLOCK= in a unit");
}

Test(setup, the_least_is_enough)
{
	limit_kib(7513);
	cr_redirect_stderr();
	cr_assert_eq(set_up("ten:/e", POOL "4,mdconnect=4"), 0, "%s", eb.text);
	cr_expect_eq(cfg.credits, 8);
	cr_expect_eq(cfg.lanes, 1);
}

Test(setup, no_limit)
{
	limit_kib(64);
	cr_assert_eq(set_up("ten:/e", "fabric=iwarp,lanes=16,mdconnect=4"), 0, "%s", eb.text);
	cr_expect_eq(cfg.lanes, 16);
	cr_expect_eq(cfg.credits, 64);
	cr_expect_eq(cfg.buffers.n[ARENA_BIG], 16);
	cr_expect_eq(cfg.locks_limit, SIZE_MAX);
	cr_expect_eq(cfg.locks_wanted, 0);
}

/* A soft limit below the hard one is raised. */
Test(setup, soft_limit)
{
	limit_kib(64);
	memlock_hard = (rlim_t)65536 * 1024;
	memlock_stays = true;
	cr_expect_eq(set_up("10.0.0.1:/e", POOL "2"), -ENOMEM);
	memlock_stays = false;
	cr_assert_eq(set_up("10.0.0.1:/e", POOL "2"), 0, "%s", eb.text);
	cr_expect_eq(cfg.locks_limit, memlock_hard);
	cr_expect_eq(cfg.lanes, 2);
	limit_kib(64);
	memlock_hard = RLIM_INFINITY;
	cr_assert_eq(set_up("10.0.0.1:/e", POOL "2"), 0, "%s", eb.text);
	cr_expect_eq(cfg.locks_limit, SIZE_MAX);
}

/* What the plan leaves is for growing, in extents of 16 MiB, and for further paths. */
static void left_over(const char *opts, size_t kib, unsigned extents, unsigned paths)
{
	limit_kib(kib);
	cr_assert_eq(set_up("10.0.0.1:/e", opts), 0, "%s", eb.text);
	cr_expect_eq(cfg.room, extents * ARENA_EXTENT, "%zu KiB: %zu KiB of room", kib,
		     cfg.room / 1024);
	cr_expect_eq(cfg.path_locks ? cfg.locks_left / cfg.path_locks : 0, paths,
		     "%zu KiB: %zu KiB for paths of %zu", kib, cfg.locks_left / 1024,
		     cfg.path_locks / 1024);
}

/* Of two lanes: 2 * (72 * (5 + 8 + 64) + 16 * 1028) are buffers, and 2 * (64 + 72 * 4) each path. */
#define TWO_LANES ((size_t)2 * (72 * 77 + 16 * 1028))
#define A_PATH    ((size_t)2 * (64 + 72 * 4))
#define EXTENTS   ((size_t)16384)

Test(setup, what_the_limit_leaves)
{
	cr_redirect_stderr();
	left_over(POOL "2", TWO_LANES + A_PATH + 9 * A_PATH + 2 * EXTENTS, 2, 9);
	left_over(POOL "2", TWO_LANES + A_PATH + 1 * A_PATH + EXTENTS, 1, 1);
	left_over(POOL "2", TWO_LANES + A_PATH + EXTENTS, 0, EXTENTS / A_PATH);
	left_over(POOL "2", TWO_LANES + A_PATH, 0, 0);
	cr_expect_eq(cfg.locks_limit, (TWO_LANES + A_PATH) * 1024);
	cr_expect_eq(cfg.locks_wanted, cfg.locks_limit);
	left_over(POOL "2", 8192, 0, 0);
}

/* Each extent counts as often as a buffer may be registered. */
Test(setup, what_the_limit_leaves_for_other_strategies)
{
	left_over("memreg=call,fabric=verbs,lanes=2", TWO_LANES * 2 + A_PATH * 4 + 2 * EXTENTS, 1, 3);
	cr_redirect_stderr();
	left_over("memreg=call,fabric=verbs,lanes=2", TWO_LANES * 2 + A_PATH * 2 + EXTENTS, 0,
		  1 + EXTENTS / A_PATH);
}

/* While windows are in doubt memreg=auto registers the buffers of each call once more, which counts
 * once more. If no call found room for that, all of them would wait for ever. */
static void one_call_fits(const char *opts, size_t kib)
{
	size_t pinned, most;

	limit_kib(kib);
	cr_assert_eq(set_up("10.0.0.1:/e", opts), 0, "%s", eb.text);
	/* The queues have windows, too. */
	pinned = pinned_kib(1) + cfg.lanes * ((cfg.credits + 63) / 64 * 64) + cfg.room / 1024;
	most = cfg.rsize > cfg.wsize ? cfg.rsize : cfg.wsize;
	cr_expect_geq(kib, pinned + most / 1024 + 64, "%s: %zu of %zu KiB are locked, and a call has %zu",
		      opts, pinned, kib, most / 1024);
	cr_expect_geq(kib * 1024, pinned * 1024 + cfg.locks_left + most, "%s: paths may take it", opts);
}

Test(setup, a_call_of_auto_without_windows)
{
	cr_redirect_stderr();
	one_call_fits("fabric=verbs,lanes=1", 8192);
	one_call_fits("fabric=verbs,lanes=2", 8192);
	one_call_fits("fabric=verbs,lanes=4", 8192);
	one_call_fits("fabric=verbs,lanes=2,rsize=4194304,wsize=4194304", 65536);
	for (size_t kib = 65536; kib < 65536 + EXTENTS; kib += 512)
		one_call_fits("fabric=verbs,lanes=2", kib);
}

static size_t room_of(const char *opts)
{
	cr_assert_eq(set_up("10.0.0.1:/e", opts), 0, "%s", eb.text);
	return cfg.room;
}

/* A share of the memory; an eighth or so, and never more than 1 GiB. */
Test(setup, room_by_the_memory_there_is)
{
	struct meminfo m;
	size_t percent;

	meminfo_open(&m, "");
	percent = (size_t)(meminfo_total(&m) / 100);
	meminfo_close(&m);
	cr_assert_gt(percent, 0);
#define AT_MOST_1G(n) ((n) < (size_t)1 << 30 ? (n) : (size_t)1 << 30)
	cr_expect_eq(room_of("fabric=iwarp"), AT_MOST_1G(percent * 12));
	cr_expect_eq(room_of("fabric=iwarp,writebehind=2"), AT_MOST_1G(percent * 2));
	cr_expect_eq(room_of("fabric=iwarp,writebehind=75"), AT_MOST_1G(percent * 75));
	cr_expect_eq(room_of("fabric=iwarp,writebehind=0"), 0);
	cr_expect_eq(room_of("fabric=iwarp,noac"), 0);
	cr_expect_eq(room_of("fabric=iwarp,sync"), 0);
	cr_expect_eq(cfg.path_locks, 0, "nothing is locked");
}

/* ---- One more path --------------------------------------------------------------- */

static struct rr_path path;

static int add(const char *server, const char *local, unsigned port)
{
	memset(&path, 0x5a, sizeof(path));
	eb.text[0] = '\0';
	return nfs_plan_path(&path, &cfg, server, local, port, &eb);
}

static void added(const char *server, const char *local, unsigned port, const char *want)
{
	char from[96], to[96], text[200];

	cr_assert_eq(add(server, local, port), 0, "%s: %s", server, eb.text);
	snprintf(text, sizeof(text), "%s>%s", host_text(&path.params.local, from, sizeof(from)),
		 host_text(&path.params.server, to, sizeof(to)));
	cr_expect_str_eq(text, want, "%s", text);
	cr_expect_eq(port_of(&path), port ? port : 111);
	cr_expect_eq(path.fabric, &fabric_iwarp);
	cr_expect_eq(path.params.flags, FAB_CRC | FAB_MSS_FPDU);
	cr_expect_eq(path.params.timeout_ms, 5000);
	cr_expect_eq(path.params.hint, cfg.paths[0].params.hint);
}

static void not_added(const char *server, const char *local, unsigned port, int err, const char *words)
{
	struct rr_path before;

	memset(&before, 0x5a, sizeof(before));
	cr_expect_eq(add(server, local, port), err, "%s", server);
	cr_expect_str_eq(eb.text, words, "%s:\n%s", server, eb.text);
	cr_expect_eq(memcmp(&path, &before, sizeof(path)), 0, "%s: it was changed", server);
}

Test(setup, one_more_path)
{
	device[1] = device[2] = device[3] = -ENODEV;
	PAIRS("three", "port=111,mpacrc,mssfpdu,localaddr=10.0.0.7",
	      "10.0.0.7>10.1.0.1 10.0.0.7>10.1.0.2 10.0.0.7>10.1.0.3");
	lookups = 0;
	added("10.9.0.1", NULL, 0, "*>10.9.0.1");
	added("10.9.0.1", NULL, 222, "*>10.9.0.1");
	added("10.9.0.1", "10.0.0.3", 0, "10.0.0.3>10.9.0.1");
	added("[fd09::1]", NULL, 65535, "*>fd09::1");
	added("fd09::1", "[fd00::3]", 0, "fd00::3>fd09::1");
	added("10.9.0.1", "eth1", 0, "10.0.1.1>10.9.0.1");
	added("fd09::1", "eth0", 0, "fd00::1>fd09::1");
	added("fe80::2%lo", "br-lan", 0, "fe80::9%lo>fe80::2%lo");
	not_added("one", NULL, 0, -EINVAL, "'one' is not a numeric IPv4 or IPv6 address of the server");
	not_added("", NULL, 0, -EINVAL, "'' is not a numeric IPv4 or IPv6 address of the server");
	not_added("10.9.1", NULL, 0, -EINVAL,
		  "'10.9.1' is not a numeric IPv4 or IPv6 address of the server");
	not_added("10.9.0.1", "one", 0, -ENODEV,
		  "this host has no network interface 'one' (`ip addr` lists them)");
	not_added("10.9.0.1", "", 0, -ENODEV,
		  "this host has no network interface '' (`ip addr` lists them)");
	not_added("10.9.0.1", "fd00::1", 0, -EINVAL, "there is no path from [fd00::1] to 10.9.0.1 port "
		  "111: both ends must be IPv4, or both IPv6");
	not_added("fd09::1", "eth1", 0, -ENODEV, "the network interface 'eth1' has no IPv6 address beyond "
		  "link scope, and the server's is [fd09::1] port 111");
	not_added("fe80::1%nosuch", NULL, 0, -EINVAL, "cannot use the address 'fe80::1%nosuch': Name or "
		  "service not known; is the interface there?");
	not_added("10.9.0.1", NULL, 65536, -EINVAL, "port 65536 is out of range (allowed: 1 to 65535)");
	cr_expect_eq(lookups, 0);
	/* The port of the first path is found in either family. */
	PAIRS("[fd01::1]", "port=111,mpacrc,mssfpdu,fabric=iwarp", "*>fd01::1");
	added("10.9.0.1", NULL, 0, "*>10.9.0.1");
}

/* What is sent again from another address is a new call for a server of version 3. */
static unsigned warnings(FILE *err)
{
	char line[1024];
	unsigned n = 0;

	fflush(stderr);
	while (fgets(line, sizeof(line), err))
		n += strstr(line, "version 3 over paths from several addresses") != NULL;
	clearerr(err);
	return n;
}

Test(setup, version_3_from_several_addresses)
{
	FILE *err;

	cr_redirect_stderr();
	err = cr_get_redirected_stderr();
	PAIRS("10.1.0.1", "vers=3,fabric=iwarp,localports=10.0.0.1-10.0.0.3",
	      "10.0.0.1>10.1.0.1 10.0.0.2>10.1.0.1 10.0.0.3>10.1.0.1");
	cr_expect_eq(warnings(err), 1, "once");
	PAIRS("10.1.0.1", "fabric=iwarp,localports=10.0.0.1-10.0.0.2",
	      "10.0.0.1>10.1.0.1 10.0.0.2>10.1.0.1");
	PAIRS("nobody", "vers=3,fabric=iwarp,remoteports=10.1.0.1~10.1.0.2,localaddr=10.0.0.1",
	      "10.0.0.1>10.1.0.1 10.0.0.1>10.1.0.2");
	cr_expect_eq(warnings(err), 0);
	/* One more. */
	cr_assert_eq(add("10.1.0.3", "10.0.0.1", 0), 0);
	cr_expect_str_eq(eb.text, "");
	cr_assert_eq(add("10.1.0.3", "10.0.0.9", 0), 0);
	cr_expect(strstr(eb.text, "(10.0.0.1 and 10.0.0.9)"), "%s", eb.text);
	/* The system chooses both. */
	PAIRS("nobody", "vers=3,fabric=iwarp,remoteports=127.0.0.1~127.0.0.2", "*>127.0.0.1 *>127.0.0.2");
	cr_expect_eq(warnings(err), 0, "both are 127.0.0.1");
	PAIRS("nobody", "vers=3,fabric=iwarp,remoteports=127.0.0.1~::1", "*>127.0.0.1 *>::1");
	cr_expect_eq(warnings(err), 1);
}

/* From a control command anything may come. */
Test(setup, odd_paths)
{
	static const char bytes[] = "0123456789abcdef.:-~[]%x/ =\t\n\x80\xff" "etho";
	uint32_t seed = 1;
	unsigned taken = 0;

	PAIRS("one", "fabric=iwarp", "*>10.1.0.1");
	for (unsigned i = 0; i < 20000; i++) {
		static const char *const good[] = { "10.0.0.1", "fd00::1", "[fe80::1%lo]", "eth0" };
		char *text[2];

		for (unsigned t = 0; t < 2; t++) {
			/* Most with one odd byte; without a byte to spare behind it. */
			const char *from = good[(seed >> 8) % 4];
			size_t len = strlen(from);

			seed = seed * 1664525 + 1013904223;
			text[t] = strdup(from);
			text[t][(seed >> 8) % len] = bytes[(seed >> 16) % (sizeof(bytes) - 1)];
			seed = seed * 1664525 + 1013904223;
		}
		if (add(text[0], (seed >> 28) ? text[1] : NULL, 0) == 0)
			taken++;
		else
			cr_assert_neq(eb.text[0], '\0', "%s %s", text[0], text[1]);
		free(text[0]);
		free(text[1]);
	}
	cr_assert(taken > 100 && taken < 19900, "%u", taken);
}

/* ---- On this machine ------------------------------------------------------------- */

Test(setup, real_names_and_interfaces)
{
	real = true;
	cr_assert_eq(set_up("localhost:/e", "fabric=iwarp"), 0, "%s", eb.text);
	cr_expect_eq(cfg.npaths, 1, "%s", pairs());
	PAIRS("127.0.0.2", "localports=lo,fabric=iwarp", "127.0.0.1>127.0.0.2");
}

/* The daemon does this when it has given up what it needs no more. */
Test(setup, one_more_path_in_the_sandbox)
{
	int wstatus;
	pid_t pid;

	real = true;
	PAIRS("127.0.0.1", "fabric=iwarp,vers=3", "*>127.0.0.1");
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		const struct timespec none = { 0 };
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGUSR2);
		sigprocmask(SIG_BLOCK, &set, NULL);
		if (sandbox_enter())
			_exit(1);
		if (nfs_plan_path(&path, &cfg, "127.0.0.2", "lo", 0, &eb))
			_exit(2);
		if (nfs_plan_path(&path, &cfg, "fe80::1%lo", NULL, 0, &eb))
			_exit(3);
		/* A system call that is not allowed sends this. */
		_exit(sigtimedwait(&set, NULL, &none) == SIGUSR2 ? 4 : 0);
	}
	cr_assert_eq(waitpid(pid, &wstatus, 0), pid);
	cr_assert(WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == 0, "status %#x", (unsigned)wstatus);
}

static uint32_t always_64k(unsigned nbig)
{
	(void)nbig;
	return 65536;
}

/* A library has no options. */
Test(setup, a_plan_of_somebody_else)
{
	const struct nfs_plan_in in = {
		.servers = { "10.0.0.1", "10.0.0.2" }, .nservers = 2, .locals = { "10.0.0.9" }, .nlocals = 1,
		.port = 20049, .fabric = NFS_PLAN_IWARP, .flags = FAB_CRC, .lanes = 3, .credits = 16,
		.request_max = 4096, .longest_io = always_64k,
	};

	cfg = (struct nfs_config){
		.version = &nfs_v41, .memreg = &rr_memreg_call, .rsize = 1 << 20, .wsize = 4096,
	};
	cr_assert_eq(nfs_plan(&cfg, &in, &eb), 0, "%s", eb.text);
	cr_assert(cfg.npaths == 2 && cfg.lanes == 3 && cfg.credits == 16 && !cfg.room);
	cr_assert(cfg.rsize == 65536 && cfg.wsize == 4096);
	for (unsigned i = 0; i < 2; i++) {
		const struct sockaddr_in *to = (const void *)&cfg.paths[i].params.server;

		cr_assert(cfg.paths[i].fabric == &fabric_iwarp && cfg.paths[i].params.flags == FAB_CRC);
		cr_assert_eq(ntohl(to->sin_addr.s_addr), 0x0a000001 + i);
	}
}
