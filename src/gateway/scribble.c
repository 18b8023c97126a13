/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * --fault scribble: plays a server that RDMA-Writes random bytes over whatever the client's
 * handles reach. The chunks of the client's calls tell the handles, Read chunks included.
 * The newest are kept:
 *
 *     ring   handle, offset, length | ... | ...      of this connection
 *
 * Each time, it picks one of these at random and does it value times:
 *
 *     own    writes somewhere within a chunk that waits for its data
 *     ring   writes over all of a segment, whose call may be over long ago
 *     walk   from a segment's end upwards, or from its start downwards, block by block;
 *            the next time goes on from there, as long as the handle is in use
 *
 * This happens when the call arrives or some milliseconds later, whatever goes on then. A
 * Write to memory that the client has not opened ends the connection, with its ring and
 * walk. The next connection begins anew.
 *
 * Writes over a chunk that waits for its data are posted, and so placed, before that data.
 * They do no harm if the bounds are right.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include "gateway/gateway.h"

#define RING 64u
#define NOISE 65536u            /* the most bytes of one Write */
#define LATER_MS 20u

struct gw_scribble {
	struct gw_pair *pair;
	char *noise;
	struct fab_mr mr;
	struct rr_seg ring[RING];
	unsigned nring;         /* how many were ever put in */
	struct {
		uint32_t handle, step;  /* step 0: not started */
		bool up;
		uint64_t at;    /* up: first byte not yet written; down: last one written */
	} walk;
	unsigned posted;        /* Writes that have not completed */
	unsigned long times;    /* of the pending timer */
	struct loop_timer later;
};

static void on_later(struct loop_timer *t);

static uint32_t below(uint32_t n)
{
	uint32_t r = 0;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		r = (uint32_t)mono_ns();
	return n ? r % n : 0;
}

static struct gw_scribble *scribble_new(struct gw_pair *p)
{
	struct gw_scribble *s = calloc(1, sizeof(*s));
	struct errbuf eb = { "" };

	if (!s)
		return NULL;
	s->pair = p;
	loop_timer_init(&s->later, on_later);
	s->noise = mmap(NULL, NOISE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->noise == MAP_FAILED) {
		free(s);
		return NULL;
	}
	for (uint32_t i = 0; i < NOISE; i += 256)       /* getrandom() returns this whole */
		if (getrandom(s->noise + i, 256, 0) != 256)
			memset(s->noise + i, 0xa5, 256);
	if (p->fab->reg(p->conn, s->noise, NOISE, 0, &s->mr, &eb)) {
		log_err("connection %u: %s", p->id, eb.text);
		munmap(s->noise, NOISE);
		free(s);
		return NULL;
	}
	return s;
}

void scribble_free(struct gw_pair *p)
{
	struct gw_scribble *s = p->scribble;

	if (!s)
		return;
	loop_timer_clear(&s->later);
	munmap(s->noise, NOISE);
	free(s);
	p->scribble = NULL;
}

/* ---- The writes ---- */

static void write_noise(struct gw_scribble *s, uint32_t handle, uint64_t at, uint32_t len)
{
	uint32_t n = len < NOISE ? len : NOISE;
	struct fab_sge sge = { s->noise + below(NOISE - n + 1), n, s->mr.lkey };
	struct gw_pair *p = s->pair;
	int rc;

	if (!n || p->ended || s->posted >= SCRIBBLES_MAX)
		return;
	log_debug("connection %u: scribble over %08x, %u bytes at %llx", p->id, handle, n,
		  (unsigned long long)at);
	rc = p->fab->post_write(p->conn, &sge, 1, handle, at, s);
	if (rc)
		pair_end(p, strerror(-rc));
	else
		s->posted++;
}

void scribble_written(struct gw_pair *p)
{
	p->scribble->posted--;
}

/* A segment that the reply will be written to. NULL: the call has none, or has been
 * answered. */
static const struct rr_seg *waiting_seg(const struct gw_call *k)
{
	if (k->answered)
		return NULL;
	if (k->h.nwrites && k->h.writes[0].nseg)
		return &k->h.writes[0].seg[0];
	return k->h.has_reply && k->h.reply.nseg ? &k->h.reply.seg[0] : NULL;
}

static void scribble_own(struct gw_scribble *s)
{
	unsigned skip = below(s->pair->ncalls);
	const struct rr_seg *seg = NULL;
	uint32_t from;

	list_for_each(n, &s->pair->calls) {
		const struct rr_seg *g = waiting_seg(container_of(n, struct gw_call, node));

		if (g)
			seg = g;
		if (seg && !skip--)
			break;
	}
	if (!seg)
		return;
	from = below(seg->length);
	write_noise(s, seg->handle, seg->offset + from, 1 + below(seg->length - from));
}

static const struct rr_seg *ring_seg(const struct gw_scribble *s)
{
	return &s->ring[below(s->nring < RING ? s->nring : RING)];
}

static void scribble_ring(struct gw_scribble *s)
{
	const struct rr_seg *seg = ring_seg(s);

	for (uint32_t done = 0; done < seg->length; done += NOISE)
		write_noise(s, seg->handle, seg->offset + done, seg->length - done);
}

static void scribble_walk(struct gw_scribble *s)
{
	static const uint32_t steps[] = { 1, 512, 4096, NOISE };

	if (!s->walk.step) {
		const struct rr_seg *seg = ring_seg(s);

		s->walk.handle = seg->handle;
		s->walk.step = steps[below(sizeof(steps) / sizeof(steps[0]))];
		s->walk.up = below(2);
		s->walk.at = seg->offset + (s->walk.up ? seg->length : 0);
	}
	if (!s->walk.up)
		s->walk.at -= s->walk.step;     /* may wrap below 0: any offset will do */
	write_noise(s, s->walk.handle, s->walk.at, s->walk.step);
	if (s->walk.up)
		s->walk.at += s->walk.step;
	/* Small steps near the chunk, where it matters most, then larger ones. */
	if (s->walk.step < NOISE)
		s->walk.step *= 2;
}

static void scribble(struct gw_scribble *s, unsigned long times)
{
	static void (*const kinds[])(struct gw_scribble *) = {
		scribble_own, scribble_ring, scribble_walk
	};
	void (*kind)(struct gw_scribble *) = kinds[below(3)];

	while (times-- && !s->pair->ended)
		kind(s);
}

static void on_later(struct loop_timer *t)
{
	struct gw_scribble *s = container_of(t, struct gw_scribble, later);

	scribble(s, s->times);
}

/* ---- The calls ---- */

static void remember(struct gw_scribble *s, const struct rr_seg *seg)
{
	if (!seg->length)
		return;
	/* A handle that belonged to one call does not come back. One that serves all
	 * calls does. */
	if (seg->handle != s->walk.handle)
		s->walk.step = 0;
	s->ring[s->nring++ % RING] = *seg;
}

static void remember_call(struct gw_scribble *s, const struct rr_header *h)
{
	for (uint32_t i = 0; i < h->nreads; i++)
		remember(s, &h->reads[i].seg);
	for (uint32_t i = 0; i < h->nwrites; i++)
		for (uint32_t j = 0; j < h->writes[i].nseg; j++)
			remember(s, &h->writes[i].seg[j]);
	for (uint32_t j = 0; h->has_reply && j < h->reply.nseg; j++)
		remember(s, &h->reply.seg[j]);
}

void scribble_call(struct gw_call *k)
{
	struct gw_pair *p = k->pair;
	struct gw_scribble *s = p->scribble;
	unsigned long times;

	if (!gw_fault_wanted(&p->gw->faults, FAULT_SCRIBBLE))
		return;
	if (!s && !(s = p->scribble = scribble_new(p))) {
		pair_end(p, "no memory to scribble with");
		return;
	}
	remember_call(s, &k->h);
	if (!s->nring || !gw_fault(&p->gw->faults, FAULT_SCRIBBLE, k->number, &times))
		return;
	if (!list_empty(&s->later.node) || below(2)) {
		scribble(s, times);
		return;
	}
	s->times = times;
	loop_timer_set(p->gw->loop, &s->later, 1 + below(LATER_MS));
}
