/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sockets for threads that may block, but only for a limited time; and addresses as text. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* The size of an IPv4 or IPv6 address. */
socklen_t sock_addr_len(const struct sockaddr_storage *ss);
/* With nothing in the bytes that the family has no use for. */
void sock_addr_set(struct sockaddr_storage *out, const struct sockaddr *sa);
/* Are they the same, with their ports? Of addresses that are set like that. */
bool sock_addr_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/* The address, without a port, that this host has on its way to another one. Nothing is sent: the kernel looks the
 * route up. false: there is none. */
bool sock_source(const struct sockaddr_storage *to, struct sockaddr_storage *out);
/* Is the address of `one` in its list before it? A resolver may say the same one twice. */
bool sock_addr_again(const struct addrinfo *list, const struct addrinfo *one);
/* Waits until fd has one of `events` (poll(2)), or until until_ns (mono_ns()). 0,
 * -ETIMEDOUT or -errno. */
int sock_wait(int fd, short events, uint64_t until_ns);
/* connect(2) of a non-blocking socket, which waits until until_ns. 0, -ETIMEDOUT or
 * -errno. */
int sock_connect(int fd, const struct sockaddr_storage *addr, uint64_t until_ns);

/* A numeric address, maybe in brackets, maybe with an interface ("fe80::1%eth0"), which need not
 * exist. */
struct sock_numeric {
	int family;                     /* AF_INET, AF_INET6 */
	unsigned char addr[sizeof(struct in6_addr)];
	char text[256];                 /* without brackets */
};
/* false: it is none. */
bool sock_numeric(const char *text, size_t len, struct sock_numeric *out);
/* An interface's name as the kernel takes it, and without '%', which separates it from an
 * address? */
bool sock_is_zone(const char *name);

/*
 * One message over a Unix socket, and a descriptor with it unless fd is -1. flags: MSG_DONTWAIT, or 0.
 * false: it could not be sent, and errno says why.
 */
bool sock_send_with(int to, const void *msg, size_t len, int fd, int flags);
/* The same backwards: *fd is -1 if none has come; the kernel closes those that are too many. Returns what
 * recvmsg() does, for a longer message as long as that is. */
ssize_t sock_receive_with(int from, void *msg, size_t len, int *fd, int flags);
