/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A thread's lanes: one for each mount that it has read or written past the kernel. When it ends, they
 * lie with the mount, until the next thread needs one: a process has only so many, and memory that the
 * daemon's devices know takes long to make.
 */
#undef _FILE_OFFSET_BITS
#include "lib/preload.h"

#include <errno.h>
#include <stdlib.h>

static _Thread_local struct preload_lane *mine;
static _Thread_local unsigned wait_for_one; /* so many calls */
static pthread_key_t at_exit;

/* Of mounts' idle lanes. */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

static void end(struct preload_lane *lane)
{
	if (lane->queue)
		nfsrdma_queue_free(lane->queue);
	if (lane->memory)
		nfsrdma_memory_free(lane->memory);
	free(lane);
}

/* The thread ends. What is under way is whoever's who has the lane next. */
static void leave_all(void *unused)
{
	preload_inside = true;
	pthread_mutex_lock(&idle_lock);
	while (mine) {
		struct preload_lane *lane = mine;

		mine = lane->next;
		lane->next = lane->mount->idle;
		lane->mount->idle = lane;
	}
	pthread_mutex_unlock(&idle_lock);
	preload_inside = false;
}

static struct preload_lane *take_idle(struct preload_mount *m)
{
	struct preload_lane *lane;

	pthread_mutex_lock(&idle_lock);
	lane = m->idle;
	if (lane)
		m->idle = lane->next;
	pthread_mutex_unlock(&idle_lock);
	return lane;
}

void preload_lanes_init(void)
{
	pthread_key_create(&at_exit, leave_all);
}

/* In the child of fork(): the session that they are of has gone. */
void preload_lanes_forget(void)
{
	mine = NULL;
	wait_for_one = 0;
	pthread_setspecific(at_exit, NULL);
	pthread_mutex_init(&idle_lock, NULL);
}

static struct preload_lane *begin(struct preload_mount *m)
{
	struct preload_lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->mount = m;
	preload_keeping = true;
	if (nfsrdma_queue_new(m->session, 2 * PRELOAD_PIECES, &lane->queue) == 0 &&
	    nfsrdma_memory_new(m->session, (size_t)2 * PRELOAD_PIECES * PRELOAD_PIECE, &lane->memory) == 0)
		lane->at = nfsrdma_memory_at(lane->memory);
	preload_keeping = false;
	if (lane->at)
		return lane;
	end(lane);
	return NULL;
}

struct preload_lane *preload_lane_there(const struct preload_mount *m)
{
	struct preload_lane *lane = mine;

	while (lane && lane->mount != m)
		lane = lane->next;
	return lane;
}

/* After how many calls a thread that got no lane asks again: a process has so many on a mount, and others
 * may have ended. */
#define ASK_AGAIN 256u

struct preload_lane *preload_lane(struct preload_mount *m)
{
	struct preload_lane *lane = preload_lane_there(m);

	if (lane)
		return lane;
	lane = take_idle(m);
	if (!lane && wait_for_one) {
		wait_for_one--;
		return NULL;
	}
	if (!lane)
		lane = begin(m);
	if (!lane) {
		wait_for_one = ASK_AGAIN;
		return NULL;
	}
	lane->next = mine;
	mine = lane;
	pthread_setspecific(at_exit, lane);
	return lane;
}

/* The daemon gives the number of a file that was closed to the next one, and tells nobody: whoever had it here
 * has it no more, and must not have it detached later. */
static void forget_number(struct preload_lane *lane, uint32_t number)
{
	for (unsigned i = 0; i < PRELOAD_ATTACHED; i++)
		if (lane->attached[i].number == number)
			lane->attached[i].id = 0;
}

/* Its place is the id's. Who was there before is attached again when it is needed. */
int preload_attach(struct preload_lane *lane, const struct preload_file *f, int fd, uint32_t *number)
{
	unsigned i = f->id % PRELOAD_ATTACHED;
	int rc;

	if (lane->attached[i].id == f->id) {
		*number = lane->attached[i].number;
		return 0;
	}
	if (lane->attached[i].id)
		nfsrdma_detach(lane->queue, lane->attached[i].number);
	lane->attached[i].id = 0;
	rc = nfsrdma_attach(lane->queue, fd, &lane->attached[i].number);
	if (rc)
		return rc;
	forget_number(lane, lane->attached[i].number);
	lane->attached[i].id = f->id;
	*number = lane->attached[i].number;
	return 0;
}

/* A signal does not end it, as with a hard mount. */
int preload_reap(struct preload_lane *lane)
{
	struct nfsrdma_done done[2 * PRELOAD_PIECES];
	int n;

	do
		n = nfsrdma_wait(lane->queue, done, 1, 2 * PRELOAD_PIECES, -1);
	while (n == -EINTR);
	if (n == 0)
		n = -EIO; /* nothing is under way: not ours to wait for */
	if (n < 0) {
		atomic_store(&lane->mount->dead, true);
		return n;
	}
	for (int i = 0; i < n; i++) {
		struct preload_piece *p = &lane->piece[done[i].user_data % (2 * PRELOAD_PIECES)];

		p->result = done[i].result;
		p->under_way = false;
	}
	return 0;
}
