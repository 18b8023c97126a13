/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * --allow UID: only connections of that user of this machine. The kernel lists TCP sockets
 * with the user who made each. The client's end of a connection is in the list, if the
 * client is in our network namespace.
 *
 *     sl  local_address rem_address   st tx_queue:rx_queue tr:when retrnsmt uid ... inode
 *      0: 0100007F:8124 0100007F:4E51 01 ...                                  1000   4711
 *
 * A socket that its user has closed has no user any more (the list says 0). So it must be
 * established, and must have an inode. The same list tells the users of this machine apart
 * (peer.c). Addresses are words in the machine's own byte order.
 *
 * --enter PID: the network namespace of the NFS server. The lists and the listener are
 * opened before, and stay in the namespace in which they were opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "gateway/gateway.h"

#define TCP_ESTABLISHED_ 1u

int allow_open(struct gw_allow *a, struct errbuf *eb)
{
	static const char *const names[] = { "/proc/net/tcp", "/proc/net/tcp6" };

	for (unsigned i = 0; i < 2; i++) {
		a->lists[i] = fopen(names[i], "re");
		if (!a->lists[i] && i == 0)
			return err_set(eb, -errno, "--allow: cannot read %s: %s", names[i], strerror(errno));
	}
	return 0;
}

void allow_close(struct gw_allow *a)
{
	for (unsigned i = 0; i < 2; i++)
		if (a->lists[i])
			fclose(a->lists[i]);
	a->lists[0] = a->lists[1] = NULL;
}

/* An address as in the list. v6: an IPv4 address as IPv6 sockets have it. */
static void address_text(const struct sockaddr_storage *ss, bool v6, char *out, size_t cap)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)ss;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)ss;
	uint32_t w[4] = { 0, 0, htonl(0xffff), in->sin_addr.s_addr };

	if (ss->ss_family == AF_INET6)
		memcpy(w, &in6->sin6_addr, sizeof(w));
	if (v6)
		snprintf(out, cap, "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 ":%04X",
			 w[0], w[1], w[2], w[3], ntohs(in6->sin6_port));
	else
		snprintf(out, cap, "%08" PRIX32 ":%04X", w[3], ntohs(in->sin_port));
}

/* Finds the user of the socket from -> to. */
static bool user_of(FILE *list, bool v6, const struct sockaddr_storage *from,
		    const struct sockaddr_storage *to, unsigned *uid)
{
	char want_from[48], want_to[48], local[48], remote[48], line[512];
	unsigned state;
	unsigned long inode;

	address_text(from, v6, want_from, sizeof(want_from));
	address_text(to, v6, want_to, sizeof(want_to));
	/* A seek alone may stay within stdio's buffer. So first discard what was read of
	 * the list as it was before. */
	fflush(list);
	rewind(list);
	while (fgets(line, sizeof(line), list))
		if (sscanf(line, " %*[0-9]: %47s %47s %x %*s %*s %*s %u %*s %lu",
			   local, remote, &state, uid, &inode) == 5 &&
		    !strcmp(local, want_from) && !strcmp(remote, want_to) &&
		    state == TCP_ESTABLISHED_ && inode)
			return true;
	return false;
}

bool allow_user(const struct gw_allow *a, const struct sockaddr_storage *local,
		const struct sockaddr_storage *peer, unsigned *uid)
{
	return (peer->ss_family == AF_INET && a->lists[0] &&
		user_of(a->lists[0], false, peer, local, uid)) ||
	       (a->lists[1] && user_of(a->lists[1], true, peer, local, uid));
}

bool allow_peer(const struct gw_allow *a, const struct sockaddr_storage *local,
		const struct sockaddr_storage *peer)
{
	unsigned uid = 0;
	char text[96];

	if (allow_user(a, local, peer, &uid)) {
		if (uid == a->uid)
			return true;
		log_info("turned away %s: its user is %u, not %u (--allow)",
			 fab_addr_text(peer, text, sizeof(text)), uid, a->uid);
	} else {
		log_info("turned away %s: its user is unknown here (--allow)",
			 fab_addr_text(peer, text, sizeof(text)));
	}
	return false;
}

/* ---- --enter ---- */

static int enter(const char *pid, const char *which, int type, struct errbuf *eb)
{
	char path[64], own[32];
	struct stat there, here;
	int fd, rc = 0;

	snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, which);
	snprintf(own, sizeof(own), "/proc/self/ns/%s", which);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(eb, -errno, "--enter: cannot open %s: %s", path, strerror(errno));
	/* Our own cannot be entered. */
	if (fstat(fd, &there) || stat(own, &here) || there.st_ino != here.st_ino)
		rc = setns(fd, type) ? err_set(eb, -errno, "--enter: cannot enter %s: %s", path,
					       strerror(errno)) : 0;
	close(fd);
	return rc;
}

int enter_server(const char *pid, struct errbuf *eb)
{
	int rc = enter(pid, "user", CLONE_NEWUSER, eb);

	return rc ? rc : enter(pid, "net", CLONE_NEWNET, eb);
}
