/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sockets for threads that may block, but not for ever. */
#ifndef BASE_SOCK_H
#define BASE_SOCK_H

#include <stdint.h>
#include <sys/socket.h>

/* Bytes of an IPv4 or IPv6 address. */
socklen_t sock_addr_len(const struct sockaddr_storage *ss);
/* Waits until fd has one of `events` (poll(2)), or until_ns (mono_ns()) has passed.
 * 0, -ETIMEDOUT or -errno. */
int sock_wait(int fd, short events, uint64_t until_ns);
/* connect(2) of a socket that does not block. 0, -ETIMEDOUT or -errno. */
int sock_connect(int fd, const struct sockaddr_storage *addr, uint64_t until_ns);

#endif
