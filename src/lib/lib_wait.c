/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue's two ways to the daemon and back: entries are sent, and completions are waited for. The queue's
 * thread.
 *
 * The words by which each side sees whether the other one sleeps are stored and loaded in sequentially
 * consistent order. That is ring.h's full fence, also against a daemon that has a fence in its place; and
 * ThreadSanitizer, which does not know fences, knows it.
 *
 * The bell may ring for a sleep that is over already, so that it wakes for nothing. It is not rung
 * too seldom: the daemon loads flags and `wanted` behind its fence, and we the count behind ours.
 */
#include "lib/lib_impl.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* So many looks in a row may find nothing before one asks whether there still is a daemon. */
#define LIB_WAIT_LOOKS 256u

static int ring_ended(struct nfsrdma_queue *q)
{
	q->ended = true;
	return lib_fail(-ENOTCONN, "the mount's daemon has ended the ring, or has ended itself");
}

int lib_queue_goes_on(struct nfsrdma_queue *q)
{
	if (q->ended)
		return ring_ended(q);
	if (atomic_load_explicit(&q->session->ended, memory_order_relaxed))
		return lib_session_ended(q->session);
	return 0;
}

/* ---- to the daemon ---- */

static int wake_daemon(struct nfsrdma_queue *q)
{
	int error;

	if (send(q->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
		return 0;
	error = errno;
	if (error == EAGAIN || error == EWOULDBLOCK)
		return 0;
	if (error == EPIPE || error == ECONNRESET)
		return ring_ended(q);
	return lib_fail(-error, "the daemon cannot be woken: %s", strerror(error));
}

/* If the daemon could not be woken, the next call tries again. */
int nfsrdma_submit(struct nfsrdma_queue *q)
{
	struct ring_line *head = &q->ring->sq_head;
	int rc = lib_queue_goes_on(q);

	if (rc || q->sent == q->filled)
		return rc;
	atomic_store(&q->ring->sq_tail.count, q->filled);
	rc = atomic_load(&head->flags) & RING_SLEEPS ? wake_daemon(q) : 0;
	if (rc == 0)
		q->sent = q->filled;
	return rc;
}

/* ---- and back ---- */

static uint32_t completed(struct nfsrdma_queue *q)
{
	return atomic_load(&q->ring->cq_tail.count) - q->taken;
}

static int empty_bell(struct nfsrdma_queue *q)
{
	char bytes[256];
	ssize_t n = recv(q->bell, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)))
		return 0;
	return ring_ended(q);
}

/* Until the bell rings. 1: it has; 0: ms milliseconds have passed. */
static int sleep_once(struct nfsrdma_queue *q, int ms)
{
	struct pollfd fds[] = {
		{ .fd = q->bell, .events = POLLIN },
		{ .fd = q->session->socket },
	};
	int n = poll(fds, 2, ms), error = errno;

	if (n < 0)
		return lib_fail(-error, "the wait for completions has ended: %s", strerror(error));
	if (fds[1].revents)
		return lib_session_ended(q->session);
	if (fds[0].revents && empty_bell(q))
		return -ENOTCONN;
	return n > 0;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int ms_until(int64_t end_ns)
{
	int64_t left = end_ns - now_ns();

	return left > 0 ? (int)((left + 999999) / 1000000) : 0;
}

/* Until `least` completions are there. 0: they are, or the time is over. */
static int sleep_until(struct nfsrdma_queue *q, uint32_t least, int timeout_ms)
{
	struct ring_line *head = &q->ring->cq_head;
	int64_t end_ns = timeout_ms < 0 ? 0 : now_ns() + (int64_t)timeout_ms * 1000000;
	int rc = 1;

	atomic_store(&head->wanted, q->taken + least);
	atomic_store(&head->flags, RING_SLEEPS);
	while (rc > 0 && completed(q) < least)
		rc = sleep_once(q, timeout_ms < 0 ? -1 : ms_until(end_ns));
	atomic_store_explicit(&head->flags, 0, memory_order_relaxed);
	return rc < 0 ? rc : 0;
}

/* Who asks again and again without sleeping has to hear of the daemon's end, too. */
static int look(struct nfsrdma_queue *q)
{
	int rc;

	if (q->filled == q->taken || completed(q) || ++q->looks % LIB_WAIT_LOOKS)
		return 0;
	rc = sleep_once(q, 0);
	return rc < 0 ? rc : 0;
}

static unsigned take_done(struct nfsrdma_queue *q, struct nfsrdma_done *done, unsigned max)
{
	const struct ring_cqe *cq = ring_cq(q->ring, q->entries);
	uint32_t n = completed(q);

	if (n > max)
		n = max;
	for (uint32_t i = 0; i < n; i++) {
		const struct ring_cqe *c = &cq[(q->taken + i) & (q->entries - 1)];

		done[i] = (struct nfsrdma_done){ .user_data = c->user_data, .result = c->result };
	}
	q->taken += n;
	atomic_store_explicit(&q->ring->cq_head.count, q->taken, memory_order_release);
	return n;
}

/* What is done when the daemon ends is still told of, and only then that it has. */
int nfsrdma_wait(struct nfsrdma_queue *q, struct nfsrdma_done *done, unsigned min, unsigned max,
		 int timeout_ms)
{
	uint32_t under_way = q->filled - q->taken, least = timeout_ms ? min : 0;
	unsigned n = 0;
	int rc = nfsrdma_submit(q);

	if (least > max)
		least = max;
	if (least > under_way)
		least = under_way;
	if (rc == 0)
		rc = completed(q) < least ? sleep_until(q, least, timeout_ms) : look(q);
	if (rc == 0 || rc == -ENOTCONN)
		n = take_done(q, done, max);
	return n ? (int)n : rc;
}
