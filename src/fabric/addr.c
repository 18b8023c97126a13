/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Addresses as text. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include "base/sock.h"
#include "fabric/fabric.h"

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
