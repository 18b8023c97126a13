/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/sock.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include "base/loop.h"

socklen_t sock_addr_len(const struct sockaddr_storage *ss)
{
	return ss->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

int sock_wait(int fd, short events, uint64_t until_ns)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		uint64_t now = mono_ns();
		int n;

		if (now >= until_ns)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)((until_ns - now) / 1000000) + 1);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

int sock_connect(int fd, const struct sockaddr_storage *addr, uint64_t until_ns)
{
	int rc, err = 0;
	socklen_t len = sizeof(err);

	if (connect(fd, (const struct sockaddr *)addr, sock_addr_len(addr)) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	rc = sock_wait(fd, POLLOUT, until_ns);
	if (rc)
		return rc;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		return -errno;
	return -err;
}

/* ---- Addresses as text ---- */

bool sock_is_zone(const char *name)
{
	size_t len = strlen(name);

	for (const char *c = name; *c; c++)
		if (!isgraph((unsigned char)*c) || strchr("/:%", *c))
			return false;
	return len > 0 && len < IF_NAMESIZE;
}

bool sock_numeric(const char *text, size_t len, struct sock_numeric *out)
{
	char *zone;

	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	if (len >= sizeof(out->text))
		return false;
	memcpy(out->text, text, len);
	out->text[len] = '\0';
	out->family = AF_INET;
	if (inet_pton(AF_INET, out->text, out->addr) == 1)
		return true;
	zone = strchr(out->text, '%');
	if (zone && !sock_is_zone(zone + 1))
		return false;
	if (zone)
		*zone = '\0';
	out->family = AF_INET6;
	if (inet_pton(AF_INET6, out->text, out->addr) != 1)
		return false;
	if (zone)
		*zone = '%';
	return true;
}
