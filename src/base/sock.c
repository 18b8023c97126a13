/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
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
