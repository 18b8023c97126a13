/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sockets for threads that may block, but only for a limited time. */
#ifndef BASE_SOCK_H
#define BASE_SOCK_H

#include <stdint.h>
#include <sys/socket.h>

/* The size of an IPv4 or IPv6 address. */
socklen_t sock_addr_len(const struct sockaddr_storage *ss);
/* Waits until fd has one of `events` (poll(2)), or until until_ns (mono_ns()). 0,
 * -ETIMEDOUT or -errno. */
int sock_wait(int fd, short events, uint64_t until_ns);
/* connect(2) of a non-blocking socket, which waits until until_ns. 0, -ETIMEDOUT or
 * -errno. */
int sock_connect(int fd, const struct sockaddr_storage *addr, uint64_t until_ns);

#endif
