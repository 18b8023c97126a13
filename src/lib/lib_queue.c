/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue: its ring's begin and end, its files, and filling it. One thread's. How it waits: lib_wait.c.
 *
 * The entries that are filled and not sent yet are seen by nobody: sq_tail is stored when they are sent.
 * There is no look at sq_head's count: no more than `entries` are under way, and the daemon has taken an
 * entry before it completes it, so what lies where the next one goes has been taken.
 */
#include "lib/lib_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- begin and end ---- */

/* The daemon maps the memfd as well, and gives the bell. */
static int open_ring(struct nfsrdma_queue *q)
{
	struct ring_request r = { .what = RING_OPEN, .value = q->entries };
	void *at;
	int fd, rc;

	q->len = lib_pages(ring_bytes(q->entries));
	fd = lib_memfd(q->len, &at);
	if (fd < 0)
		return fd;
	q->ring = at;
	rc = lib_request(q->session, &r, fd, &q->number, &q->bell);
	close(fd);
	if (rc == 0 && q->bell < 0) {
		/* The program may have no room for it. The daemon has the ring already. */
		lib_request(q->session, &(struct ring_request){ .what = RING_CLOSE, .ring = q->number }, -1, NULL, NULL);
		rc = lib_fail(-EMFILE, "the ring's bell has not come: there are too many open descriptors");
	}
	if (rc)
		munmap(at, q->len);
	return rc;
}

int nfsrdma_queue_new(struct nfsrdma_session *s, unsigned entries, struct nfsrdma_queue **out)
{
	struct nfsrdma_queue *q;
	int rc;

	*out = NULL;
	if (entries < RING_ENTRIES_MIN || entries > RING_ENTRIES_MAX || (entries & (entries - 1)))
		return lib_fail(-EINVAL, "%u entries are not a power of two from %u to %u", entries,
				RING_ENTRIES_MIN, RING_ENTRIES_MAX);
	q = calloc(1, sizeof(*q));
	if (!q)
		return lib_fail(-ENOMEM, "there is no memory for a queue");
	q->session = s;
	q->entries = entries;
	rc = open_ring(q);
	if (rc) {
		free(q);
		return rc;
	}
	pthread_mutex_lock(&s->lock);
	q->next = s->queues;
	s->queues = q;
	pthread_mutex_unlock(&s->lock);
	*out = q;
	return 0;
}

/* A child that has a copy of the bell must not keep the ring alive. */
void lib_queue_end(struct nfsrdma_queue *q, bool owner)
{
	if (owner) {
		shutdown(q->bell, SHUT_RDWR);
		munmap(q->ring, q->len);
	}
	close(q->bell);
	free(q);
}

void nfsrdma_queue_free(struct nfsrdma_queue *q)
{
	struct ring_request r = { .what = RING_CLOSE, .ring = q->number };
	struct nfsrdma_session *s = q->session;
	struct nfsrdma_queue **at;

	pthread_mutex_lock(&s->lock);
	for (at = &s->queues; *at != q; at = &(*at)->next)
		;
	*at = q->next;
	pthread_mutex_unlock(&s->lock);
	/* Before the memory goes: a daemon that has ended need not be told. */
	lib_request(s, &r, -1, NULL, NULL);
	lib_queue_end(q, true);
}

/* ---- files ---- */

int nfsrdma_attach(struct nfsrdma_queue *q, int fd, uint32_t *file)
{
	struct ring_request r = { .what = RING_ATTACH, .ring = q->number };
	struct ring_token t;
	int rc = lib_token(fd, &t);

	if (rc)
		return rc;
	if (strcmp(t.socket, q->session->name) != 0)
		return lib_fail(-EXDEV, "descriptor %d is of another mount than the session", fd);
	memcpy(r.token, t.token, sizeof(r.token));
	return lib_request(q->session, &r, -1, file, NULL);
}

int nfsrdma_detach(struct nfsrdma_queue *q, uint32_t file)
{
	struct ring_request r = { .what = RING_DETACH, .ring = q->number, .value = file };

	return lib_request(q->session, &r, -1, NULL, NULL);
}

/* ---- filling ---- */

static int check(struct nfsrdma_queue *q, const struct nfsrdma_memory *m, uint64_t at, uint32_t len,
		 uint64_t offset)
{
	int rc = lib_queue_goes_on(q);

	if (rc)
		return rc;
	if (m->session != q->session)
		return lib_fail(-EINVAL, "the memory is of another session than the queue");
	if (!len || len > RING_IO_MAX)
		return lib_fail(-EINVAL, "a read or write has from 1 to %u bytes, not %u", RING_IO_MAX, (unsigned)len);
	if (at > m->len || len > m->len - at)
		return lib_fail(-EFAULT, "%u bytes at %llu are not in memory of %zu bytes", (unsigned)len,
				(unsigned long long)at, m->len);
	if (offset > (uint64_t)INT64_MAX - len)
		return lib_fail(-EINVAL, "no file has %u bytes at %llu", (unsigned)len, (unsigned long long)offset);
	if (q->filled - q->taken == q->entries)
		return lib_fail(-EAGAIN, "all %u entries of the queue are under way", (unsigned)q->entries);
	return 0;
}

static int fill(struct nfsrdma_queue *q, enum ring_op op, uint32_t file, const struct nfsrdma_memory *m,
		uint64_t at, uint32_t len, uint64_t offset, uint64_t user_data)
{
	int rc = check(q, m, at, len, offset);

	if (rc)
		return rc;
	q->ring->sq[q->filled & (q->entries - 1)] = (struct ring_sqe){
		.op = (uint8_t)op, .memory = (uint16_t)m->number, .file = file,
		.offset = offset, .at = at, .len = len, .user_data = user_data,
	};
	q->filled++;
	return 0;
}

int nfsrdma_read(struct nfsrdma_queue *q, uint32_t file, const struct nfsrdma_memory *m, uint64_t at,
		 uint32_t len, uint64_t offset, uint64_t user_data)
{
	return fill(q, RING_READ, file, m, at, len, offset, user_data);
}

int nfsrdma_write(struct nfsrdma_queue *q, uint32_t file, const struct nfsrdma_memory *m, uint64_t at,
		  uint32_t len, uint64_t offset, uint64_t user_data)
{
	return fill(q, RING_WRITE, file, m, at, len, offset, user_data);
}
