/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/sock.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "base/loop.h"

socklen_t sock_addr_len(const struct sockaddr_storage *ss)
{
	return ss->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

void sock_addr_set(struct sockaddr_storage *out, const struct sockaddr *sa)
{
	struct sockaddr_storage ss = { .ss_family = sa->sa_family };

	memcpy(&ss, sa, sock_addr_len(&ss));
	*out = ss;
}

bool sock_addr_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Connecting a datagram socket sends nothing. */
bool sock_source(const struct sockaddr_storage *to, struct sockaddr_storage *out)
{
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*out);
	bool known;

	*out = (struct sockaddr_storage){ .ss_family = AF_UNSPEC };
	known = fd >= 0 && connect(fd, (const struct sockaddr *)to, sock_addr_len(to)) == 0 &&
		getsockname(fd, (struct sockaddr *)out, &len) == 0;
	if (fd >= 0)
		close(fd);
	if (out->ss_family == AF_INET6)
		((struct sockaddr_in6 *)out)->sin6_port = 0;
	else
		((struct sockaddr_in *)out)->sin_port = 0;
	return known;
}

bool sock_addr_again(const struct addrinfo *list, const struct addrinfo *one)
{
	for (const struct addrinfo *a = list; a != one; a = a->ai_next)
		if (a->ai_addrlen == one->ai_addrlen && memcmp(a->ai_addr, one->ai_addr, one->ai_addrlen) == 0)
			return true;
	return false;
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

bool sock_send_with(int to, const void *msg, size_t len, int fd, int flags)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c = { .h.cmsg_len = 0 };
	struct iovec iov = { (void *)(uintptr_t)msg, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		m.msg_control = &c;
		m.msg_controllen = sizeof(c.room);
		c.h = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
					.cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	}
	return sendmsg(to, &m, MSG_NOSIGNAL | flags) == (ssize_t)len;
}

ssize_t sock_receive_with(int from, void *msg, size_t len, int *fd, int flags)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c;
	struct iovec iov = { msg, len };
	/* CMSG_SPACE is room for two on 64-bit machines, and who sends two would leave us one for ever. */
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c,
			    .msg_controllen = CMSG_LEN(sizeof(int)) };
	const struct cmsghdr *h;
	ssize_t n;

	*fd = -1;
	n = TEMP_FAILURE_RETRY(recvmsg(from, &m, MSG_CMSG_CLOEXEC | MSG_TRUNC | flags));
	h = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(h), sizeof(*fd));
	return n;
}
