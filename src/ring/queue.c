/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See queue.h. */
#include "ring/queue.h"

void queue_init(struct queue *q, struct ring_memory *m, uint32_t entries)
{
	*q = (struct queue){ .m = m, .cq = ring_cq(m, entries), .entries = entries };
}

/* What the next entry is, by the program's counts. */
static enum queue_next queue_look(const struct queue *q)
{
	uint32_t filled = atomic_load_explicit(&q->m->sq_tail.count, memory_order_acquire);
	uint32_t fetched;

	if (filled == q->taken)
		return QUEUE_EMPTY;
	fetched = atomic_load_explicit(&q->m->cq_head.count, memory_order_acquire);
	if (filled - q->taken > q->entries || q->published - fetched > q->entries)
		return QUEUE_BROKEN;
	/* Between what the program has fetched and what was taken there is no room for one more. */
	return q->taken - fetched < q->entries ? QUEUE_ENTRY : QUEUE_EMPTY;
}

enum queue_next queue_take(struct queue *q, struct ring_sqe *out)
{
	enum queue_next next = queue_look(q);

	if (next != QUEUE_ENTRY)
		return next;
	/* Whole, and once: it may change at any time. */
	*out = *(volatile struct ring_sqe *)&q->m->sq[q->taken & (q->entries - 1)];
	q->taken++;
	atomic_store_explicit(&q->m->sq_head.count, q->taken, memory_order_release);
	return QUEUE_ENTRY;
}

void queue_add(struct queue *q, uint64_t user_data, int64_t result)
{
	q->cq[q->done & (q->entries - 1)] = (struct ring_cqe){ user_data, result };
	q->done++;
}

bool queue_publish(struct queue *q)
{
	if (q->published == q->done)
		return false;
	q->published = q->done;
	atomic_store_explicit(&q->m->cq_tail.count, q->done, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	return (atomic_load_explicit(&q->m->cq_head.flags, memory_order_relaxed) & RING_SLEEPS) &&
	       (int32_t)(q->done - atomic_load_explicit(&q->m->cq_head.wanted, memory_order_relaxed)) >= 0;
}

bool queue_program_sleeps(const struct queue *q)
{
	return atomic_load_explicit(&q->m->cq_head.flags, memory_order_relaxed) & RING_SLEEPS;
}

bool queue_sleep(struct queue *q)
{
	q->sleeps = true;
	atomic_store_explicit(&q->m->sq_head.flags, RING_SLEEPS, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return queue_look(q) == QUEUE_ENTRY;
}

void queue_awake(struct queue *q)
{
	if (!q->sleeps)
		return;
	q->sleeps = false;
	atomic_store_explicit(&q->m->sq_head.flags, 0, memory_order_relaxed);
}
