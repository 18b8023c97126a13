/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The network that iWARP in user space goes over: by which interface the kernel would send to the server,
 * and what it says of that below /sys/class/net. Nothing is sent. An RDMA device's link: devices.c.
 */
#include "doctor/doctor_impl.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

/* Below Ethernet's, some tunnel takes its share of each frame, or somebody has set it. */
#define LINKS_MTU_ETHERNET 1500u
/* From here on what comes is received where it belongs, and not copied (fabric/iwarp/iwarp.h). */
#define LINKS_MTU_LARGE 8192u

static bool links_same_address(const struct sockaddr *a, const struct sockaddr_storage *b)
{
	if (!a || a->sa_family != b->ss_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return a->sa_family == AF_INET6 && memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
						  &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* The address that this machine has for the server. Connecting a datagram socket sends nothing. */
static bool links_own_address(const struct sockaddr_storage *server, struct sockaddr_storage *own)
{
	socklen_t len = sizeof(*own);
	int fd = socket(server->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool known = fd >= 0 && connect(fd, (const struct sockaddr *)server, sizeof(*server)) == 0 &&
		     getsockname(fd, (struct sockaddr *)own, &len) == 0;

	if (fd >= 0)
		close(fd);
	return known;
}

static bool links_interface(const struct sockaddr_storage *server, char name[IF_NAMESIZE])
{
	struct sockaddr_storage own = { 0 };
	struct ifaddrs *all = NULL;

	name[0] = '\0';
	if (!links_own_address(server, &own) || getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *a = all; a && !name[0]; a = a->ifa_next)
		if (links_same_address(a->ifa_addr, &own))
			snprintf(name, IF_NAMESIZE, "%s", a->ifa_name);
	freeifaddrs(all);
	return name[0];
}

/* 0: the kernel does not say, as of a speed that is none. */
static unsigned links_number(const struct doctor *d, const char *name, const char *what)
{
	char line[32];
	unsigned n;

	return doctor_line(d, line, sizeof(line), "/sys/class/net/%s/%s", name, what) && sscanf(line, "%u", &n) == 1 &&
	       line[0] != '-' ? n : 0;
}

void doctor_link(struct doctor *d, const struct sockaddr_storage *server)
{
	char at[80], name[IF_NAMESIZE], rate[32] = "", text[192];
	unsigned mtu, speed;

	if (!links_interface(server, name))
		return;
	mtu = links_number(d, name, "mtu");
	if (!mtu)
		return;
	speed = links_number(d, name, "speed");
	if (speed)
		snprintf(rate, sizeof(rate), ", %u Mbit/s", speed);
	snprintf(text, sizeof(text), "%s is reached by the interface %s (MTU %u%s)", fab_addr_text(server, at, sizeof(at)),
		 name, mtu, rate);
	if (mtu < LINKS_MTU_ETHERNET)
		doctor_note(d, DOCTOR_COSTS, "link", "an MTU of 1500 or more ('ip link set mtu'), at both ends and between "
			    "them; a tunnel takes some of it away", "%s: small frames take this processor's time", text);
	else
		doctor_note(d, DOCTOR_GOOD, "link", "", "%s%s", text, mtu < LINKS_MTU_LARGE ? "; with an MTU of 9000 at both "
			    "ends and between them, if the network can, what is read is not copied" : "");
}
