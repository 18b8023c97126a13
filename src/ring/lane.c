/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A ring on its lane: its orders, its files and memory, and its end. See impl.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "ring/impl.h"

static void lane_answer(struct ring *ring, int outcome)
{
	ring->answers_later = false;
	ring->outcome = outcome;
	loop_post(ring->rings->loop, &ring->to_rings);
}

/* ---- the loop ---- */

static bool on_poll(struct loop_poller *p, bool sleeps)
{
	struct ring *ring = container_of(p, struct ring, poller);

	return sleeps ? io_sleep(ring) : io_run(ring);
}

/* Only empties it: io_run() follows in any case. */
static void on_bell(struct loop_watch *w, uint32_t revents)
{
	struct ring *ring = container_of(w, struct ring, bell);
	char bytes[64];

	/* The program has closed its end. The socket tells. */
	if (recv(w->fd, bytes, sizeof(bytes), MSG_DONTWAIT) == 0)
		loop_rewatch(ring->vl->lane->loop, w, 0);
}

/* ---- files ---- */

/* ring_file.index: it never had a place. */
#define NO_PLACE (RING_FILES + 1)

static int lane_place(const struct ring *ring)
{
	for (unsigned i = 0; i < RING_FILES; i++)
		if (!ring->file[i])
			return (int)i;
	return -EMFILE;
}

static void lane_count_files(struct ring *ring, int n)
{
	ring->nfiles += (unsigned)n;
	atomic_store(&ring->files_now, ring->nfiles);
}

/* f is in no list, and no message is under way. */
static void lane_free_file(struct ring *ring, struct ring_file *f)
{
	if (f->index < RING_FILES)
		ring->file[f->index] = NULL;
	lane_count_files(ring, -1);
	file_put(ring->vl, f->file);
	free(f);
}

/* If the kernel has closed it, lane_on_closed() comes, and does it. */
static void lane_detach(struct ring *ring, struct ring_file *f)
{
	struct rings *r = ring->rings;
	bool comes;

	pthread_mutex_lock(&r->mu);
	comes = f->closing;
	if (!comes)
		list_del(&f->node);
	pthread_mutex_unlock(&r->mu);
	if (!comes)
		lane_free_file(ring, f);
}

static int lane_attach(struct ring *ring)
{
	struct ring_file *f = ring->attach;
	int place = lane_place(ring);

	/* Counted in any case: a ring does not end before lane_on_closed() has come. */
	lane_count_files(ring, 1);
	if (f->closed_early) {
		lane_free_file(ring, f);
		return -EBADF;
	}
	f->index = place < 0 ? NO_PLACE : (unsigned)place;
	if (place < 0)
		lane_detach(ring, f);
	else
		ring->file[place] = f;
	return place;
}

void lane_on_closed(struct loop_msg *m)
{
	struct ring_file *f = container_of(m, struct ring_file, closed);
	struct ring *ring = f->ring;

	pthread_mutex_lock(&ring->rings->mu);
	list_del(&f->node);
	pthread_mutex_unlock(&ring->rings->mu);
	if (f->index == RING_FILES) {
		f->closed_early = true;
		return;
	}
	lane_free_file(ring, f);
	lane_look(ring);
}

static int lane_detach_one(struct ring *ring)
{
	struct ring_file *f = ring->index < RING_FILES ? ring->file[ring->index] : NULL;

	if (!f)
		return -EBADF;
	lane_detach(ring, f);
	return 0;
}

/* ---- orders ---- */

void lane_init(struct ring *ring)
{
	list_init(&ring->poller.node);
	ring->poller.fn = on_poll;
	ring->bell = (struct loop_watch){ .fd = -1, .events = EPOLLIN, .fn = on_bell };
}

static int lane_begin(struct ring *ring)
{
	struct loop *l = ring->vl->lane->loop;
	int rc;

	ring->bell.fd = ring->bell_fd;
	rc = loop_watch(l, &ring->bell);
	if (rc)
		return rc;
	loop_poll(l, &ring->poller);
	return 0;
}

static void lane_give_up(struct ring *ring)
{
	ring->ending = true;
	io_give_up(ring);
}

void lane_on_give_up(struct loop_msg *m)
{
	lane_give_up(container_of(m, struct ring, give_up_msg));
}

/* Ends when lane_look() sees that nothing is left. */
static void lane_end(struct ring *ring)
{
	lane_give_up(ring);
	for (unsigned i = 0; i < RING_FILES && ring->nfiles; i++)
		if (ring->file[i])
			lane_detach(ring, ring->file[i]);
}

static void lane_ended(struct ring *ring)
{
	loop_unpoll(&ring->poller);
	loop_unwatch(ring->vl->lane->loop, &ring->bell);
	lane_answer(ring, 0);
}

void lane_look(struct ring *ring)
{
	if (!ring->answers_later)
		return;
	if (ring->order == RING_DO_FORGET && !ring->memory[ring->index].users)
		lane_answer(ring, 0);
	else if (ring->order == RING_DO_END && list_empty(&ring->busy) && !ring->nfiles)
		lane_ended(ring);
}

void lane_on_order(struct loop_msg *m)
{
	struct ring *ring = container_of(m, struct ring, to_lane);

	switch (ring->order) {
	case RING_DO_BEGIN:
		lane_answer(ring, lane_begin(ring));
		break;
	case RING_DO_LEND:
		ring->memory[ring->index] = (struct ring_memory_of){ ring->at, ring->len, 0 };
		lane_answer(ring, 0);
		break;
	case RING_DO_ATTACH:
		lane_answer(ring, lane_attach(ring));
		break;
	case RING_DO_DETACH:
		lane_answer(ring, lane_detach_one(ring));
		break;
	case RING_DO_FORGET:
		ring->memory[ring->index].at = NULL;
		ring->answers_later = true;
		lane_look(ring);
		break;
	case RING_DO_END:
		lane_end(ring);
		/* Not before: the rings' thread frees it then. */
		ring->answers_later = true;
		lane_look(ring);
		break;
	}
}
