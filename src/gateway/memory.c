/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of all pairs together: --memory. It is dealt out before it is used:
 *
 *     a pair        its slots, and the record that TCP is receiving
 *     a call        its record and its reply's
 *
 * A pair that would leave no room for a call is turned away. A call for which there is no
 * room waits in the receive where it came. Nothing is dropped, and a client with all its
 * credits open must wait, too. What has been dealt out is always available: pairs keep
 * unused buffers, and a pair that needs one takes it from another.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include "gateway/gateway.h"

#define CALL_BYTES (2 * GW_BUF_BYTES)

static void on_wake(struct loop_msg *m)
{
	struct gw_memory *a = container_of(m, struct gw_memory, wake);
	struct list *n;

	a->waking = false;
	while (!list_empty(&a->waiting) && a->max - a->taken >= CALL_BYTES) {
		n = list_pop(&a->waiting);
		memory_take_call(container_of(n, struct gw_call, out_node));
		call_resume(container_of(n, struct gw_call, out_node));
	}
}

void memory_init(struct gw_memory *a, size_t max)
{
	*a = (struct gw_memory){ .max = max, .wake.fn = on_wake };
	list_init(&a->waiting);
}

static void give(struct gateway *gw, size_t bytes)
{
	struct gw_memory *a = &gw->memory;

	a->taken -= bytes;
	if (list_empty(&a->waiting) || a->waking)
		return;
	a->waking = true;
	loop_post(gw->loop, &a->wake);
}

bool memory_take_call(struct gw_call *k)
{
	struct gw_memory *a = &k->pair->gw->memory;

	if (a->max - a->taken < CALL_BYTES)
		return false;
	a->taken += CALL_BYTES;
	k->budgeted = true;
	return true;
}

void memory_wait(struct gw_call *k)
{
	list_add_tail(&k->pair->gw->memory.waiting, &k->out_node);
}

void memory_give_call(struct gw_call *k)
{
	if (!k->budgeted)
		return;
	k->budgeted = false;
	give(k->pair->gw, CALL_BYTES);
}

/* ---- Buffers ---- */

static void buf_free(struct gw_pair *p, struct gw_buf *b)
{
	if (p->conn)
		p->fab->dereg(p->conn, &b->mr);
	munmap(b->mem, GW_BUF_BYTES);
	free(b);
	p->nbufs--;
	p->gw->memory.bufs--;
}

/* Frees a buffer that a pair does not use. false: there is none. */
static bool reclaim(struct gateway *gw)
{
	list_for_each(n, &gw->pairs) {
		struct gw_pair *p = container_of(n, struct gw_pair, node);
		struct list *free = list_pop(&p->free);

		if (free) {
			buf_free(p, container_of(free, struct gw_buf, node));
			return true;
		}
	}
	return false;
}

/* Makes room for `more` buffers, besides the existing ones and all slots. */
static void make_room(struct gateway *gw, size_t more)
{
	const struct gw_memory *a = &gw->memory;

	while ((a->bufs + more) * GW_BUF_BYTES + a->slots > a->max && reclaim(gw))
		;
}

struct gw_buf *pair_buf(struct gw_pair *p)
{
	struct gw_memory *a = &p->gw->memory;
	struct list *n = list_pop(&p->free);
	struct errbuf eb = { "" };
	struct gw_buf *b;

	if (n)
		return container_of(n, struct gw_buf, node);
	/* For each credit one for the call and one for the reply, and one for the record
	 * that TCP is receiving. */
	if (p->nbufs > 2 * p->gw->credits)
		return NULL;
	make_room(p->gw, 1);
	b = malloc(sizeof(*b));
	if (!b)
		return NULL;
	b->mem = mmap(NULL, GW_BUF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->mem == MAP_FAILED) {
		free(b);
		return NULL;
	}
	/* A lingering pair has no RDMA connection, but reads replies for drc.c. */
	if (p->conn && p->fab->reg(p->conn, b->mem, GW_BUF_BYTES, 0, &b->mr, &eb)) {
		log_err("connection %u: %s", p->id, eb.text);
		munmap(b->mem, GW_BUF_BYTES);
		free(b);
		return NULL;
	}
	list_init(&b->node);
	p->nbufs++;
	a->bufs++;
	return b;
}

void pair_buf_put(struct gw_pair *p, struct gw_buf *b)
{
	if (b)
		list_add_head(&p->free, &b->node);
}

void pair_bufs_free(struct gw_pair *p)
{
	struct list *n;

	while ((n = list_pop(&p->free)))
		buf_free(p, container_of(n, struct gw_buf, node));
}

/* ---- A pair's share ---- */

bool memory_take_pair(struct gw_pair *p, size_t slots)
{
	struct gw_memory *a = &p->gw->memory;
	size_t bytes = slots + GW_BUF_BYTES;

	if (a->max - a->taken < bytes + CALL_BYTES)
		return false;
	a->taken += bytes;
	a->slots += slots;
	p->budget = bytes;
	make_room(p->gw, 0);
	return true;
}

void memory_give_pair(struct gw_pair *p)
{
	if (p->budget)
		p->gw->memory.slots -= p->budget - GW_BUF_BYTES;
	give(p->gw, p->budget);
	p->budget = 0;
}
