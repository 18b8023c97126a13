/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A thread's lanes: one for each mount that it has read or written past the kernel. */
#undef _FILE_OFFSET_BITS
#include "lib/preload.h"

#include <errno.h>
#include <stdlib.h>

static _Thread_local struct preload_lane *mine;
static _Thread_local unsigned wait_for_one; /* so many calls */
static pthread_key_t at_exit;

static void end(struct preload_lane *lane)
{
	if (lane->queue)
		nfsrdma_queue_free(lane->queue);
	if (lane->memory)
		nfsrdma_memory_free(lane->memory);
	free(lane);
}

/* The thread ends. In a child of fork() the thread that called it has none any more. */
static void end_all(void *unused)
{
	preload_inside = true;
	while (mine) {
		struct preload_lane *lane = mine;

		mine = lane->next;
		end(lane);
	}
	preload_inside = false;
}

void preload_lanes_init(void)
{
	pthread_key_create(&at_exit, end_all);
}

/* In the child of fork(): the session that they are of has gone. */
void preload_lanes_forget(void)
{
	mine = NULL;
	pthread_setspecific(at_exit, NULL);
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
	if (lane->at && pthread_setspecific(at_exit, lane) == 0)
		return lane;
	end(lane);
	return NULL;
}

/* After how many calls a thread that got no lane asks again: a process has so many on a mount, and others
 * may have ended. */
#define ASK_AGAIN 256u

struct preload_lane *preload_lane(struct preload_mount *m)
{
	struct preload_lane *lane = mine;

	while (lane && lane->mount != m)
		lane = lane->next;
	if (lane)
		return lane;
	if (wait_for_one) {
		wait_for_one--;
		return NULL;
	}
	lane = begin(m);
	if (lane) {
		lane->next = mine;
		mine = lane;
	} else {
		wait_for_one = ASK_AGAIN;
	}
	return lane;
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
