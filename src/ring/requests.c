/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What programs ask for (ring.h): rings, memory, files. See clients.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "ring/clients.h"

static void client_refuse(struct client *c, int status, const char *why)
{
	client_answer(c, status, 0, why);
	loop_rewatch(c->r->loop, &c->watch, EPOLLIN);
}

/* Counts one more ring of the user. */
static int client_take_place(struct client *c, struct ring *ring, struct errbuf *eb)
{
	struct rings *r = c->r;
	int rc = -EDQUOT;
	bool room;

	pthread_mutex_lock(&r->mu);
	room = user_has_room(r, c->user);
	for (unsigned i = 0; i < RING_RINGS && room && c->user->rings < r->cfg.most_rings && rc; i++) {
		if (c->ring[i])
			continue;
		c->ring[i] = ring;
		ring->number = i;
		c->nrings++;
		c->user->rings++;
		rc = 0;
	}
	pthread_mutex_unlock(&r->mu);
	if (!room)
		return err_set(eb, rc, "all programs may have %u connections and rings, a user %u: raise the daemon's "
			       "hard RLIMIT_NOFILE", r->cfg.most_files, user_most_files(r));
	return rc ? err_set(eb, rc, "this user has %u rings, or this program %u", r->cfg.most_rings, RING_RINGS) : 0;
}

static struct vfs_lane *client_choose_lane(struct rings *r)
{
	struct vfs_lane *vl = r->vfs->lanes[0];

	for (unsigned i = 0; i < r->vfs->nlanes; i++) {
		vl = r->vfs->lanes[r->next_lane++ % r->vfs->nlanes];
		if (nfs_lane_up(vl->lane))
			break;
	}
	return vl;
}

/* What was made stays in ring, and is undone by the caller. */
static int ring_make(struct client *c, struct ring *ring, uint64_t entries, int memfd, struct errbuf *eb)
{
	size_t page = (size_t)getpagesize(), ios = entries < RING_BUSY_MOST ? entries : RING_BUSY_MOST;
	int fds[2];
	int rc;

	if (entries < RING_ENTRIES_MIN || entries > RING_ENTRIES_MAX || entries & (entries - 1))
		return err_set(eb, -EINVAL, "a ring has a power of two of entries, %u to %u", RING_ENTRIES_MIN,
			       RING_ENTRIES_MAX);
	ring->shared_len = (ring_bytes((uint32_t)entries) + page - 1) / page * page;
	rc = lent_check(memfd, ring->shared_len, eb);
	if (rc)
		return rc;
	ring->io = calloc(ios, sizeof(*ring->io));
	if (!ring->io)
		return err_set(eb, -ENOMEM, "out of memory");
	ring->shared = mmap(NULL, ring->shared_len, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (ring->shared == MAP_FAILED) {
		ring->shared = NULL;
		return err_set(eb, -errno, "the ring cannot be mapped: %s", strerror(errno));
	}
	madvise(ring->shared, ring->shared_len, MADV_DONTFORK);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return err_set(eb, -errno, "socketpair: %s", strerror(errno));
	ring->bell_fd = fds[0];
	c->bell = fds[1];
	queue_init(&ring->q, ring->shared, (uint32_t)entries);
	for (unsigned i = 0; i < ios; i++) {
		ring->io[i].ring = ring;
		list_add_tail(&ring->free, &ring->io[i].node);
	}
	return 0;
}

static struct ring *ring_new(struct client *c)
{
	struct lent *lent = &c->r->vfs->cl->arena.lent;
	struct ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return NULL;
	ring->rings = c->r;
	ring->client = c;
	ring->vl = client_choose_lane(c->r);
	ring->bell_fd = -1;
	ring->to_lane.fn = lane_on_order;
	ring->to_rings.fn = client_on_answer;
	ring->give_up_msg.fn = lane_on_give_up;
	ring->broken_msg.fn = client_on_broken;
	list_init(&ring->free);
	list_init(&ring->busy);
	lane_init(ring);
	for (unsigned i = 0; i < RING_MEMORIES; i++)
		if (c->memory[i].piece >= 0)
			ring->memory[i] = (struct ring_memory_of){ lent_at(lent, (unsigned)c->memory[i].piece),
								   c->memory[i].len, 0 };
	return ring;
}

static void client_do_open(struct client *c, const struct ring_request *q, int fd)
{
	struct ring *ring = ring_new(c);
	struct errbuf eb;
	int rc = ring ? ring_make(c, ring, q->value, fd, &eb) : err_set(&eb, -ENOMEM, "out of memory");

	if (!rc)
		rc = client_take_place(c, ring, &eb);
	if (!rc) {
		c->answer.value = ring->number;
		client_order(c, ring, RING_DO_BEGIN);
		return;
	}
	if (ring)
		client_drop_ring(ring);
	if (c->bell >= 0)
		close(c->bell);
	c->bell = -1;
	client_refuse(c, rc, eb.text);
}

static int client_free_memory(const struct client *c)
{
	for (unsigned i = 0; i < RING_MEMORIES; i++)
		if (c->memory[i].piece < 0)
			return (int)i;
	return -1;
}

/* Of the pieces that there are for all: a user has one for each thread that the preload serves, and leaves some. */
#define USER_PIECES (LENT_PIECES / 4 * 3)

static int client_count_memory(struct client *c, uint64_t len, struct errbuf *eb)
{
	uint64_t most = c->r->cfg.most_bytes, has;
	struct user *u = c->user;
	unsigned pieces;
	bool fits;

	pthread_mutex_lock(&c->r->mu);
	has = u->bytes;
	pieces = u->pieces;
	fits = pieces < USER_PIECES && has <= most && len <= most - has;
	if (fits) {
		c->bytes += len;
		u->bytes += len;
		u->pieces++;
	}
	pthread_mutex_unlock(&c->r->mu);
	return fits ? 0 : err_set(eb, -EDQUOT, "a user's programs may lend %llu MiB in %u pieces, and have lent %llu"
				  " in %u", (unsigned long long)most >> 20, USER_PIECES,
				  (unsigned long long)has >> 20, pieces);
}

void client_uncount_memory(struct client *c, uint64_t len)
{
	pthread_mutex_lock(&c->r->mu);
	c->bytes -= len;
	c->user->bytes -= len;
	c->user->pieces--;
	pthread_mutex_unlock(&c->r->mu);
}

static void client_do_memory(struct client *c, const struct ring_request *q, int fd)
{
	struct lent *lent = &c->r->vfs->cl->arena.lent;
	int i = client_free_memory(c), piece, rc;
	struct errbuf eb;

	rc = i < 0 ? err_set(&eb, -EMFILE, "a program has %u pieces of memory at most", RING_MEMORIES) :
	     q->value > INT64_MAX ? err_set(&eb, -EINVAL, "so much memory there is not") :
	     client_count_memory(c, q->value, &eb);
	if (rc) {
		client_refuse(c, rc, eb.text);
		return;
	}
	piece = lent_add(lent, fd, q->value, &eb);
	if (piece < 0) {
		client_uncount_memory(c, q->value);
		client_refuse(c, piece, eb.text);
		return;
	}
	c->memory[i].piece = piece;
	c->memory[i].len = q->value;
	c->answer.value = (uint32_t)i;
	client_order_all(c, RING_DO_LEND, (unsigned)i, lent_at(lent, (unsigned)piece), q->value);
}

static void client_do_forget(struct client *c, const struct ring_request *q)
{
	if (q->value >= RING_MEMORIES || c->memory[q->value].piece < 0) {
		client_refuse(c, -EINVAL, "there is no such memory");
		return;
	}
	c->index = (unsigned)q->value;
	client_order_all(c, RING_DO_FORGET, c->index, NULL, 0);
}

static struct ring *client_ring(struct client *c, const struct ring_request *q)
{
	struct ring *ring = q->ring < RING_RINGS ? c->ring[q->ring] : NULL;

	if (ring && !ring->ends)
		return ring;
	client_refuse(c, -EINVAL, "there is no such ring");
	return NULL;
}

static void client_do_attach(struct client *c, const struct ring_request *q)
{
	struct ring *ring = client_ring(c, q);
	struct ring_file *a = ring ? calloc(1, sizeof(*a)) : NULL;
	struct errbuf eb;
	int rc;

	if (!ring)
		return;
	if (!a) {
		client_refuse(c, -ENOMEM, NULL);
		return;
	}
	*a = (struct ring_file){ .ring = ring, .index = RING_FILES, .closed.fn = lane_on_closed };
	rc = token_take(c->r, q->token, c->user->uid, a, &eb);
	if (rc) {
		free(a);
		client_refuse(c, rc, eb.text);
		return;
	}
	ring->attach = a;
	client_order(c, ring, RING_DO_ATTACH);
}

static void client_do_detach(struct client *c, const struct ring_request *q)
{
	struct ring *ring = client_ring(c, q);

	if (!ring)
		return;
	ring->index = q->value < RING_FILES ? (unsigned)q->value : RING_FILES;
	client_order(c, ring, RING_DO_DETACH);
}

/* Answered at once: what is under way may wait for a server that is silent. */
static void client_do_close(struct client *c, const struct ring_request *q)
{
	struct ring *ring = client_ring(c, q);

	if (!ring)
		return;
	client_order(c, ring, RING_DO_END);
	client_finish(c);
}

void client_do(struct client *c, const struct ring_request *q, int fd)
{
	loop_rewatch(c->r->loop, &c->watch, CLIENT_BUSY);
	c->what = q->what;
	c->answer = (struct ring_answer){ 0 };
	if (q->version != RING_VERSION)
		client_refuse(c, -EPROTONOSUPPORT, "another version of the ring's protocol");
	else if (fd < 0 && (q->what == RING_OPEN || q->what == RING_MEMORY))
		client_refuse(c, -EINVAL, "the descriptor of the memory is missing");
	else if (q->what == RING_OPEN)
		client_do_open(c, q, fd);
	else if (q->what == RING_MEMORY)
		client_do_memory(c, q, fd);
	else if (q->what == RING_FORGET)
		client_do_forget(c, q);
	else if (q->what == RING_ATTACH)
		client_do_attach(c, q);
	else if (q->what == RING_DETACH)
		client_do_detach(c, q);
	else if (q->what == RING_CLOSE)
		client_do_close(c, q);
	else
		client_refuse(c, -EINVAL, "no such request");
}
