/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libnfsrdma inside. It knows the daemon by ring.h only, and needs nothing but the C library.
 *
 *     struct nfsrdma_session    a connection to the daemon's socket
 *         lock                  held from a request to its answer: any thread may make one. It is also
 *                               that of the two lists, so that disconnect() finds all there is
 *         memories, queues      what is on them knows its session
 *     struct nfsrdma_memory     a number that the daemon has given, and where it is mapped here
 *     struct nfsrdma_queue      the ring and the bell. Its thread's alone: no lock
 *
 * Descriptors: the session's socket and one bell for each queue. Those of memory are closed when
 * the daemon has them. All are closed by exec().
 *
 * The end of the daemon: a request finds the socket closed; a sleeping queue is woken by poll(), which
 * looks at both bell and socket; who only looks whether something is done asks poll() now and then.
 * Whoever finds it notes it in the session, or in the queue if only its ring has ended.
 *
 * fork(): the child has copies of the descriptors, but not the mappings (MADV_DONTFORK), so it must not
 * unmap what may be something else's in the child by now. Its nfsrdma_disconnect() closes its
 * copies and frees the structs; shutdown(), which would end the parent's, is the owner's.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "ring/ring.h"

/* What others may call is all that the library exports. */
#pragma GCC visibility push(default)
#include "lib/nfsrdma.h"
#pragma GCC visibility pop

struct nfsrdma_session {
	pthread_mutex_t lock;
	int socket;
	pid_t owner;                    /* the process that has connected */
	atomic_bool ended;              /* the daemon or the mount; it stays so */
	char name[sizeof(((struct ring_token *)0)->socket)]; /* the mount's socket, as its tokens say */
	struct nfsrdma_memory *memories;
	struct nfsrdma_queue *queues;
};

struct nfsrdma_memory {
	struct nfsrdma_memory *next;
	struct nfsrdma_session *session;
	uint32_t number;                /* the daemon's */
	void *at;                       /* NULL: the caller's memory, not mapped here */
	size_t len;
};

struct nfsrdma_queue {
	struct nfsrdma_queue *next;
	struct nfsrdma_session *session;
	uint32_t number;                /* the daemon's */
	int bell;
	bool ended;                     /* this ring; it stays so */
	struct ring_memory *ring;
	size_t len;
	uint32_t entries;
	/* Counts as in ring.h, which wrap around. From taken to filled is under way, at most `entries`. */
	uint32_t filled, sent, taken;
	uint32_t looks;                 /* that have found nothing */
};

/* ---- lib_why.c ---- */

/* Notes why the function fails that this thread is in, and returns status. */
int lib_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- lib_session.c ---- */

/* A token for the open file fd. */
int lib_token(int fd, struct ring_token *t);
/* -ENOTCONN, and so will be all that follows. */
int lib_session_ended(struct nfsrdma_session *s);
/* A request and its answer: the daemon's status. With give_fd, unless that is -1. *value: what the answer
 * says; *got_fd: the descriptor that came with it, or -1; either may be NULL. */
int lib_request(struct nfsrdma_session *s, struct ring_request *r, int give_fd, uint32_t *value, int *got_fd);

/* ---- lib_memory.c ---- */

/* A sealed memfd of len bytes, mapped at *at, but not in children. Returns its descriptor. */
int lib_memfd(size_t len, void **at);
/* len in whole pages; 0: it is 0, or more than there can be. */
size_t lib_pages(size_t len);
/* Frees what is here of it. In a forked child that is not much. */
void lib_memory_end(struct nfsrdma_memory *m, bool owner);

/* ---- lib_queue.c ---- */

void lib_queue_end(struct nfsrdma_queue *q, bool owner);

/* ---- lib_wait.c ---- */

/* 0, or -ENOTCONN: its ring has ended, or all has. */
int lib_queue_goes_on(struct nfsrdma_queue *q);
