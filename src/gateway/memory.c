/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of all pairs together: --memory. It is dealt out before it is used:
 *
 *     a pair        its slots, and the record that TCP is receiving
 *     a call        its record and its reply's, by the sizes of its chunks
 *
 * A pair that would leave no room for the largest call is turned away, unless others have been
 * idle for some seconds: they end, and their clients connect again when they want something.
 *
 * A call for which there is no room waits in the receive where it came. Nothing is dropped, and
 * a client with all its credits open must wait, too. A peer gets three quarters at most, and what
 * waits for that does not keep others' calls waiting. What has been dealt out is always
 * available: pairs keep unused buffers, and a pair that needs one takes it from another.
 *
 * Most messages have 1 MiB of data at most. A buffer with room for 4 MiB is another matter: over
 * verbs all of it is pinned. So a call has such a one for its record if its Read chunks say so,
 * or for the reply if its Write and Reply chunks do. (No operation of NFS needs both.)
 */
#include <stdlib.h>
#include <sys/mman.h>
#include "gateway/gateway.h"

#define LARGEST_CALL (GW_BUF_BYTES + GW_LARGE_BYTES)
/* A connection on which nothing has come for so long may be asked for its memory. */
#define IDLE_MS 10000u

/* No peer has more than this, so that others can always work. But each may have one call. */
static bool is_share(const struct gw_memory *a, const struct gw_peer *e, size_t had, size_t bytes)
{
	return !had || e->taken + bytes <= a->max / 4 * 3;
}

static bool may_take(const struct gw_call *k)
{
	const struct gw_peer *e = k->pair->peer;

	return is_share(&k->pair->gw->memory, e, e->calls, k->call_size + k->reply_size);
}

/* The first call that waits, but for those whose peer has its share. It may be that there is
 * no room for it: then all that came later wait, too. */
static struct gw_call *next_call(struct gw_memory *a)
{
	a->searches++;
	list_for_each(n, &a->waiting) {
		struct gw_call *k = container_of(n, struct gw_call, out_node);

		/* What is behind such a call of the same peer must not overtake it. */
		if (k->pair->peer->passed == a->searches)
			continue;
		if (may_take(k))
			return k;
		k->pair->peer->passed = a->searches;
	}
	return NULL;
}

/* Ends the pair that has been idle for longest, one of this peer unless that is NULL, and takes
 * its share back. Its client connects again when it wants something. false: there is none. */
static bool end_idle(struct gateway *gw, const struct gw_peer *of)
{
	uint64_t before = mono_ns() - IDLE_MS * 1000000ull;
	struct gw_pair *oldest = NULL;

	list_for_each(n, &gw->pairs) {
		struct gw_pair *p = container_of(n, struct gw_pair, node);

		if (!p->budget || p->ended || p->ncalls || (of && p->peer != of) || p->busy_at > before)
			continue;
		if (!oldest || p->busy_at < oldest->busy_at)
			oldest = p;
	}
	if (!oldest)
		return false;
	pair_end(oldest, "it is idle, and others need its memory");
	memory_give_pair(oldest);
	return true;
}

static bool take_call(struct gw_call *k)
{
	while (!memory_take_call(k))
		if (!end_idle(k->pair->gw, NULL))
			return false;
	return true;
}

static void on_wake(struct loop_msg *m)
{
	struct gw_memory *a = container_of(m, struct gw_memory, wake);
	struct gw_call *k;

	a->waking = false;
	while ((k = next_call(a)) && take_call(k)) {
		list_del(&k->out_node);
		list_init(&k->out_node);
		call_resume(k);
	}
}

static void wake(struct gateway *gw)
{
	struct gw_memory *a = &gw->memory;

	if (list_empty(&a->waiting) || a->waking)
		return;
	a->waking = true;
	loop_post(gw->loop, &a->wake);
}

void memory_init(struct gw_memory *a, size_t max)
{
	*a = (struct gw_memory){ .max = max, .wake.fn = on_wake };
	list_init(&a->waiting);
}

static void take(struct gw_pair *p, size_t bytes)
{
	p->gw->memory.taken += bytes;
	p->peer->taken += bytes;
}

static void give(struct gw_pair *p, size_t bytes)
{
	p->gw->memory.taken -= bytes;
	p->peer->taken -= bytes;
	wake(p->gw);
}

bool memory_size_call(struct gw_call *k, uint32_t msg_len)
{
	uint64_t call = msg_len, reply = GW_INLINE;

	for (uint32_t i = 0; i < k->h.nreads; i++)
		call += (uint64_t)k->h.reads[i].seg.length + 3;         /* and its pad */
	for (uint32_t i = 0; i < k->h.nwrites; i++)
		reply += rr_chunk_len(&k->h.writes[i]);
	if (k->h.has_reply)
		reply += rr_chunk_len(&k->h.reply);
	k->call_size = gw_buf_size(call);
	k->reply_size = gw_buf_size(reply);
	return k->call_size + k->reply_size <= LARGEST_CALL;
}

bool memory_take_call(struct gw_call *k)
{
	const struct gw_memory *a = &k->pair->gw->memory;
	size_t bytes = k->call_size + k->reply_size;

	if (a->max - a->taken < bytes || !may_take(k))
		return false;
	take(k->pair, bytes);
	k->pair->peer->calls += bytes;
	k->budgeted = true;
	return true;
}

void memory_wait(struct gw_call *k)
{
	list_add_tail(&k->pair->gw->memory.waiting, &k->out_node);
	/* Those before it may be of peers that have their share. */
	wake(k->pair->gw);
}

void memory_give_call(struct gw_call *k)
{
	if (!k->budgeted)
		return;
	k->budgeted = false;
	k->pair->peer->calls -= k->call_size + k->reply_size;
	give(k->pair, k->call_size + k->reply_size);
}

/* ---- Buffers ---- */

static void buf_free(struct gw_pair *p, struct gw_buf *b)
{
	if (p->conn)
		p->fab->dereg(p->conn, &b->mr);
	p->nbufs--;
	p->gw->memory.bufs -= b->size;
	munmap(b->mem, b->size);
	free(b);
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

/* Makes room for so many bytes of buffers, besides the existing ones and all slots. */
static void make_room(struct gateway *gw, size_t more)
{
	const struct gw_memory *a = &gw->memory;

	while (a->bufs + more + a->slots > a->max && reclaim(gw))
		;
}

/* An unused buffer of that size. A larger one would be more than its user's share. */
static struct gw_buf *find_free(struct gw_pair *p, size_t size)
{
	list_for_each(n, &p->free) {
		struct gw_buf *b = container_of(n, struct gw_buf, node);

		if (b->size == size) {
			list_del(&b->node);
			return b;
		}
	}
	return NULL;
}

static struct gw_buf *buf_new(struct gw_pair *p, size_t size)
{
	struct errbuf eb = { "" };
	struct gw_buf *b = malloc(sizeof(*b));

	if (!b)
		return NULL;
	b->size = size;
	b->mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->mem == MAP_FAILED) {
		free(b);
		return NULL;
	}
	/* A lingering pair has no RDMA connection, but reads replies for drc.c. */
	if (p->conn && p->fab->reg(p->conn, b->mem, size, 0, &b->mr, &eb)) {
		log_err("connection %u: %s", p->id, eb.text);
		munmap(b->mem, size);
		free(b);
		return NULL;
	}
	list_init(&b->node);
	p->nbufs++;
	p->gw->memory.bufs += size;
	return b;
}

struct gw_buf *pair_buf(struct gw_pair *p, size_t size)
{
	struct gw_buf *b = find_free(p, size);
	struct list *n;

	if (b)
		return b;
	/* For each credit one for the call and one for the reply, and one for the record
	 * that TCP is receiving. */
	if (p->nbufs > 2 * p->gw->credits) {
		n = list_pop(&p->free);
		if (!n)
			return NULL;
		buf_free(p, container_of(n, struct gw_buf, node));
	}
	make_room(p->gw, size);
	return buf_new(p, size);
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

	while (!is_share(a, p->peer, p->peer->taken, bytes))
		if (!end_idle(p->gw, p->peer))
			return false;
	while (a->max - a->taken < bytes + LARGEST_CALL)
		if (!end_idle(p->gw, NULL))
			return false;
	take(p, bytes);
	a->slots += slots;
	p->budget = bytes;
	make_room(p->gw, 0);
	return true;
}

void memory_give_pair(struct gw_pair *p)
{
	if (!p->budget)
		return;
	p->gw->memory.slots -= p->budget - GW_BUF_BYTES;
	give(p, p->budget);
	p->budget = 0;
}
