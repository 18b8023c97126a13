/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The network that iWARP in user space goes over: by which interface the kernel would send to the server,
 * and what it says of that below /sys/class/net. Nothing is sent. An RDMA device's link: devices.c.
 */
#include "doctor/doctor_impl.h"

#include <ifaddrs.h>
#include <net/if.h>
#include "base/sock.h"

/* Below Ethernet's, some tunnel takes its share of each frame, or somebody has set it. */
#define LINKS_MTU_ETHERNET 1500u
/* From here on what comes is received where it belongs, and not copied (fabric/iwarp/iwarp.h). */
#define LINKS_MTU_LARGE 8192u

static bool links_interface(const struct sockaddr_storage *server, char name[IF_NAMESIZE])
{
	struct sockaddr_storage own, one;
	struct ifaddrs *all = NULL;

	name[0] = '\0';
	if (!sock_source(server, &own) || getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *a = all; a && !name[0]; a = a->ifa_next) {
		if (!a->ifa_addr)
			continue;
		sock_addr_set(&one, a->ifa_addr);
		if (sock_addr_same(&one, &own))
			snprintf(name, IF_NAMESIZE, "%s", a->ifa_name);
	}
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
