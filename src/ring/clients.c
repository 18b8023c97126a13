/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs: their connections, by which they ask for rings, memory and files (ring.h).
 *
 *     accept --> a request --> client_do_*() --orders to rings--> client_finish() --> its answer
 *                   ^                                                                   |
 *                   +-------------------------------------------------------------------+
 *     hung up, at any time: each ring gives up what is under way; the orders that are under way are
 *     answered; then each ring is told to end; then the memory is given back, and the client is freed
 *
 * One request at a time: while one is under way nothing is read, but it is seen when the program dies. The
 * rings' thread; it waits for devices that register memory, and for no program.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/sock.h"
#include "ring/clients.h"

/* A device may keep its registration while a connection of it is being buried. */
#define AGAIN_MS 100u

static void client_look(struct client *c);

/* ---- answers ---- */

static void client_send(struct client *c)
{
	/* Who does not take his answers before he asks further hangs up, as far as we see. */
	if (!sock_send_with(c->watch.fd, &c->answer, sizeof(c->answer), c->bell, MSG_DONTWAIT))
		shutdown(c->watch.fd, SHUT_RDWR);
}

static void client_close_bell(struct client *c)
{
	if (c->bell >= 0)
		close(c->bell);
	c->bell = -1;
}

void client_answer(struct client *c, int status, unsigned value, const char *why)
{
	c->answer = (struct ring_answer){ .version = RING_VERSION, .status = status, .value = value };
	if (status)
		snprintf(c->answer.why, sizeof(c->answer.why), "%s", why ? why : strerror(-status));
	if (!c->hung_up)
		client_send(c);
	client_close_bell(c);
}

/* ---- orders ---- */

void client_order(struct client *c, struct ring *ring, enum order order)
{
	ring->order = order;
	ring->asked = true;
	ring->ends |= order == RING_DO_END;
	c->awaited += order != RING_DO_END;
	loop_post(ring->vl->lane->loop, &ring->to_lane);
}

/* A ring that ends takes no order. It needs no more memory, but may use what is to be forgotten. */
static void client_await_end(struct client *c, struct ring *ring)
{
	ring->end_awaited = true;
	c->awaited++;
}

void client_order_all(struct client *c, enum order order, unsigned index, char *at, size_t len)
{
	for (unsigned i = 0; i < RING_RINGS; i++) {
		struct ring *ring = c->ring[i];

		if (ring && ring->ends && order == RING_DO_FORGET)
			client_await_end(c, ring);
		if (!ring || ring->ends)
			continue;
		ring->index = index;
		ring->at = at;
		ring->len = len;
		client_order(c, ring, order);
	}
	if (!c->awaited)
		client_finish(c);
}

void client_drop_ring(struct ring *ring)
{
	if (ring->shared)
		munmap(ring->shared, ring->shared_len);
	if (ring->bell_fd >= 0)
		close(ring->bell_fd);
	free(ring->io);
	free(ring);
}

static void client_free_ring(struct client *c, struct ring *ring)
{
	struct rings *r = c->r;

	pthread_mutex_lock(&r->mu);
	c->ring[ring->number] = NULL;
	c->nrings--;
	c->user->rings--;
	pthread_mutex_unlock(&r->mu);
	client_drop_ring(ring);
}

static void client_on_end(struct client *c, struct ring *ring)
{
	bool awaited = ring->end_awaited;

	client_free_ring(c, ring);
	if (awaited && --c->awaited == 0)
		client_finish(c);
	else
		client_look(c);
}

void client_on_answer(struct loop_msg *m)
{
	struct ring *ring = container_of(m, struct ring, to_rings);
	struct client *c = ring->client;

	ring->asked = false;
	if (ring->order == RING_DO_END) {
		client_on_end(c, ring);
		return;
	}
	if (ring->outcome < 0)
		c->answer.status = ring->outcome;
	else if (ring->order == RING_DO_ATTACH)
		c->answer.value = (uint32_t)ring->outcome;
	if (--c->awaited == 0)
		client_finish(c);
}

/* ---- the end ---- */

/* false: not yet. */
static bool client_forget(struct client *c, unsigned i)
{
	if (c->memory[i].piece < 0)
		return true;
	if (!lent_remove(&c->r->vfs->cl->arena.lent, (unsigned)c->memory[i].piece))
		return false;
	c->memory[i].piece = -1;
	client_uncount_memory(c, c->memory[i].len);
	return true;
}

static bool client_forget_all(struct client *c)
{
	bool all = true;

	for (unsigned i = 0; i < RING_MEMORIES; i++)
		all &= client_forget(c, i);
	return all;
}

static void client_free(struct client *c)
{
	struct rings *r = c->r;

	loop_timer_clear(&c->again);
	pthread_mutex_lock(&r->mu);
	list_del(&c->node);
	c->user->clients--;
	user_put(r, c->user);
	if (list_empty(&r->clients))
		pthread_cond_broadcast(&r->ended);
	pthread_mutex_unlock(&r->mu);
	free(c);
}

/* The program is gone: what is left to be done? */
static void client_look(struct client *c)
{
	if (!c->hung_up || c->awaited)
		return;
	for (unsigned i = 0; i < RING_RINGS; i++)
		if (c->ring[i] && !c->ring[i]->ends)
			client_order(c, c->ring[i], RING_DO_END);
	if (c->nrings)
		return;
	if (client_forget_all(c))
		client_free(c);
	else
		loop_timer_set(c->r->loop, &c->again, AGAIN_MS);
}

/* A ring that has been told to end has done so, and may be freed before this came. */
static void client_give_up(struct client *c)
{
	for (unsigned i = 0; i < RING_RINGS; i++)
		if (c->ring[i] && !c->ring[i]->ends)
			loop_post(c->ring[i]->vl->lane->loop, &c->ring[i]->give_up_msg);
}

static void client_hang_up(struct client *c)
{
	int fd = c->watch.fd;

	if (c->hung_up)
		return;
	c->hung_up = true;
	loop_unwatch(c->r->loop, &c->watch);
	close(fd);
	client_close_bell(c);
	client_give_up(c);
	client_look(c);
}

static void on_again(struct loop_timer *t)
{
	struct client *c = container_of(t, struct client, again);

	if (c->hung_up)
		client_look(c);
	else
		client_finish(c);
}

void client_on_broken(struct loop_msg *m)
{
	const struct ring *ring = container_of(m, struct ring, broken_msg);

	log_warn("a program (pid %d) has spoilt its ring: counts that cannot be; its rings end", ring->client->pid);
	client_hang_up(ring->client);
}

/* ---- the socket ---- */

/* The orders of the request are done. */
void client_finish(struct client *c)
{
	int status = c->answer.status;

	if (c->hung_up) {
		client_look(c);
		return;
	}
	if (c->what == RING_FORGET && !client_forget(c, c->index)) {
		loop_timer_set(c->r->loop, &c->again, AGAIN_MS);
		return;
	}
	client_answer(c, status, c->answer.value, status == -EBADF ? "the file is closed" :
		      status == -EMFILE ? "the ring has as many files as it can have" : NULL);
	/* Of a ring that its lane has not taken nothing can be asked. */
	if (status && c->what == RING_OPEN)
		client_hang_up(c);
	else
		loop_rewatch(c->r->loop, &c->watch, EPOLLIN);
}


static void on_client(struct loop_watch *w, uint32_t revents)
{
	struct client *c = container_of(w, struct client, watch);
	struct ring_request q;
	ssize_t n;
	int fd;

	if (w->events == CLIENT_BUSY) {
		client_hang_up(c);
		return;
	}
	n = sock_receive_with(w->fd, &q, sizeof(q), &fd, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR) && !(revents & (EPOLLHUP | EPOLLERR)))
		return;
	if (n == sizeof(q))
		client_do(c, &q, fd);
	else
		client_hang_up(c);
	if (fd >= 0)
		close(fd);
}

static struct user *client_user(struct rings *r, uid_t uid)
{
	struct user *u;

	pthread_mutex_lock(&r->mu);
	u = user_get(r, uid);
	if (u && (u->clients >= r->cfg.most_rings || !user_has_room(r, u))) {
		user_put(r, u);
		u = NULL;
	}
	if (u)
		u->clients++;
	pthread_mutex_unlock(&r->mu);
	return u;
}

static void client_give_up_user(struct rings *r, struct user *u)
{
	pthread_mutex_lock(&r->mu);
	u->clients--;
	user_put(r, u);
	pthread_mutex_unlock(&r->mu);
}

static struct client *client_new(struct rings *r, int fd, pid_t pid, struct user *u)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->r = r;
	c->pid = pid;
	c->user = u;
	c->bell = -1;
	c->watch = (struct loop_watch){ .fd = fd, .events = EPOLLIN, .fn = on_client };
	loop_timer_init(&c->again, on_again);
	for (unsigned i = 0; i < RING_MEMORIES; i++)
		c->memory[i].piece = -1;
	if (!loop_watch(r->loop, &c->watch))
		return c;
	free(c);
	return NULL;
}

/* Who has too many is closed without a word, and so is who cannot be identified. */
void clients_accept(struct rings *r, int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	struct user *u = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ? NULL : client_user(r, peer.uid);
	struct client *c = u ? client_new(r, fd, peer.pid, u) : NULL;

	if (!c) {
		close(fd);
		if (u)
			client_give_up_user(r, u);
		return;
	}
	pthread_mutex_lock(&r->mu);
	list_add_tail(&r->clients, &c->node);
	pthread_mutex_unlock(&r->mu);
}

/* client_hang_up() may free this one, and no other. */
void clients_end(struct rings *r)
{
	list_for_each_entry_safe(struct client, c, tmp, &r->clients, node)
		client_hang_up(c);
}

void clients_lost(struct rings *r)
{
	for (struct list *n; (n = list_pop(&r->attached)); )
		free(container_of(n, struct ring_file, node));
	for (struct list *n; (n = list_pop(&r->clients)); ) {
		struct client *c = container_of(n, struct client, node);

		for (unsigned i = 0; i < RING_RINGS; i++)
			if (c->ring[i])
				client_drop_ring(c->ring[i]);
		if (!c->hung_up)
			close(c->watch.fd);
		free(c);
	}
}

/* ---- for others ---- */

static void client_now(const struct client *c, struct rings_now *now)
{
	*now = (struct rings_now){ .pid = c->pid, .uid = c->user->uid, .rings = c->nrings, .bytes = c->bytes };
	for (unsigned i = 0; i < RING_RINGS; i++) {
		const struct ring *ring = c->ring[i];

		if (!ring)
			continue;
		now->files += atomic_load(&ring->files_now);
		now->reads += stat_get_from(&ring->reads);
		now->writes += stat_get_from(&ring->writes);
		now->read_bytes += stat_get_from(&ring->read_bytes);
		now->written_bytes += stat_get_from(&ring->written_bytes);
	}
}

void rings_each(struct rings *r, void (*look)(const struct rings_now *now, void *arg), void *arg)
{
	pthread_mutex_lock(&r->mu);
	list_for_each_entry(struct client, c, &r->clients, node) {
		struct rings_now now;

		client_now(c, &now);
		look(&now, arg);
	}
	pthread_mutex_unlock(&r->mu);
}
