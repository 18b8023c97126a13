/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program's connection: what clients.c (its socket, its answers, its end) and requests.c (what it asks
 * for) share. The rings' thread. */
#pragma once

#include <sys/epoll.h>
#include "ring/impl.h"

/* What its socket is watched for while a request is under way: whether the program has died. */
#define CLIENT_BUSY ((uint32_t)EPOLLRDHUP)

struct client {
	struct rings *r;
	struct list node;               /* in rings->clients, under its lock; so are the members for
					 * rings_each(): ring[], nrings, bytes */
	struct loop_watch watch;        /* its socket */
	struct loop_timer again;        /* memory that could not be given back */
	pid_t pid;
	struct user *user;
	bool hung_up;
	struct ring *ring[RING_RINGS];
	unsigned nrings;
	struct { int piece; size_t len; } memory[RING_MEMORIES];        /* piece -1: none */
	uint64_t bytes;
	/* The request that is under way. */
	enum ring_what what;
	unsigned awaited;               /* answers of rings */
	unsigned index;                 /* which memory, or ring */
	struct ring_answer answer;
	int bell;                       /* the program's end, for the answer; or -1 */
};

/* Answers the request, with c->bell if that is there. why: NULL: the status says it. */
void client_answer(struct client *c, int status, unsigned value, const char *why);
/* The ring is to do that; when all that are to have answered, client_finish(). */
void client_order(struct client *c, struct ring *ring, enum order order);
/* The same to all its rings; at once if there are none. */
void client_order_all(struct client *c, enum order order, unsigned index, char *at, size_t len);
/* The orders of the request are done. */
void client_finish(struct client *c);
/* Frees what a ring has that no lane has any more. */
void client_drop_ring(struct ring *ring);

/* ring.to_rings.fn and ring.broken_msg.fn */
void client_on_answer(struct loop_msg *m);
void client_on_broken(struct loop_msg *m);

/* ---- requests.c ---- */

/* Does what is asked, with the descriptor that has come, which stays the caller's, or -1; and answers, or
 * orders that. */
void client_do(struct client *c, const struct ring_request *q, int fd);
/* The client has a piece of memory of that length less. */
void client_uncount_memory(struct client *c, uint64_t len);
