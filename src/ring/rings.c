/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The life of all rings of a mount, and what each user has of them. See rings.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/thread.h"
#include "ring/impl.h"

#define ACCEPTS 64u             /* at once, before others get their turn */
#define PAUSE_MS 500u           /* when there are no descriptors */
#define TICK_MS 1000u
#define END_S 3                 /* for so long rings_end() waits */

/* ---- users ---- */

struct user *user_get(struct rings *r, uid_t uid)
{
	struct user *u;

	list_for_each_entry(struct user, at, &r->users, node)
		if (at->uid == uid)
			return at;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	list_add_tail(&r->users, &u->node);
	return u;
}

void user_put(struct rings *r, struct user *u)
{
	if (u->clients || u->tokens)
		return;
	list_del(&u->node);
	free(u);
}

unsigned user_most_files(const struct rings *r)
{
	return r->cfg.most_files - r->cfg.most_files / 4;
}

bool user_has_room(const struct rings *r, const struct user *u)
{
	unsigned all = 0;

	list_for_each_entry(struct user, at, &r->users, node)
		all += at->clients + at->rings;
	return all < r->cfg.most_files && u->clients + u->rings < user_most_files(r);
}

/* ---- the rings' thread ---- */

static void on_listener(struct loop_watch *w, uint32_t revents)
{
	struct rings *r = container_of(w, struct rings, listener);

	for (unsigned i = 0; i < ACCEPTS; i++) {
		int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			clients_accept(r, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			loop_rewatch(r->loop, w, 0);
			loop_timer_set(r->loop, &r->pause, PAUSE_MS);
		}
		return;
	}
}

static void on_pause_over(struct loop_timer *t)
{
	struct rings *r = container_of(t, struct rings, pause);

	loop_rewatch(r->loop, &r->listener, EPOLLIN);
}

static void on_tick(struct loop_timer *t)
{
	struct rings *r = container_of(t, struct rings, tick);

	tokens_expire(r, false);
	loop_timer_set(r->loop, t, TICK_MS);
}

static void on_listen(struct loop_msg *m)
{
	struct rings *r = container_of(m, struct rings, listen_msg);
	int rc = loop_watch(r->loop, &r->listener);

	if (rc)
		log_warn("this mount has no rings: %s", strerror(-rc));
	loop_timer_set(r->loop, &r->tick, TICK_MS);
}

static void on_end(struct loop_msg *m)
{
	struct rings *r = container_of(m, struct rings, end_msg);
	int fd = r->listener.fd;

	loop_timer_clear(&r->tick);
	loop_timer_clear(&r->pause);
	if (fd >= 0) {
		loop_unwatch(r->loop, &r->listener);
		close(fd);
	}
	tokens_expire(r, true);
	clients_end(r);
}

static void *rings_main(void *arg)
{
	struct rings *r = arg;
	int rc = loop_run(r->loop);

	if (rc)
		log_err("the rings' socket is not served any more: %s", strerror(-rc));
	return NULL;
}

/* ---- life ---- */

static void rings_init(struct rings *r)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&r->mu, NULL);
	pthread_cond_init(&r->ended, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&r->clients);
	list_init(&r->users);
	list_init(&r->tokens);
	list_init(&r->attached);
	r->listener = (struct loop_watch){ .fd = -1, .events = EPOLLIN, .fn = on_listener };
	loop_timer_init(&r->pause, on_pause_over);
	loop_timer_init(&r->tick, on_tick);
	r->listen_msg.fn = on_listen;
	r->end_msg.fn = on_end;
}

int rings_new(struct rings **out, struct vfs *vfs, const struct rings_config *cfg)
{
	struct rings *r = calloc(1, sizeof(*r));
	int rc;

	*out = NULL;
	if (!r)
		return -ENOMEM;
	r->vfs = vfs;
	r->cfg = *cfg;
	rings_init(r);
	r->loop = loop_new(NULL);
	rc = r->loop ? thread_start(&r->thread, rings_main, r) : -errno;
	r->started = !rc;
	*out = r;
	if (rc) {
		rings_free(r);
		*out = NULL;
	}
	return rc;
}

void rings_listen(struct rings *r, int fd, const char *name)
{
	pthread_mutex_lock(&r->mu);
	snprintf(r->socket, sizeof(r->socket), "%s", name);
	pthread_mutex_unlock(&r->mu);
	r->listener.fd = fd;
	loop_post(r->loop, &r->listen_msg);
}

void rings_end(struct rings *r)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += END_S;
	pthread_mutex_lock(&r->mu);
	r->ending = true;
	pthread_mutex_unlock(&r->mu);
	loop_post(r->loop, &r->end_msg);
	pthread_mutex_lock(&r->mu);
	while (!list_empty(&r->clients) && !rc)
		rc = pthread_cond_timedwait(&r->ended, &r->mu, &until);
	pthread_mutex_unlock(&r->mu);
	if (rc)
		log_warn("rings of programs end with the mount: the server has not answered all that they have asked for");
	loop_stop(r->loop);
	pthread_join(r->thread, NULL);
	r->started = false;
}

void rings_free(struct rings *r)
{
	if (!r)
		return;
	if (r->started)
		rings_end(r);
	clients_lost(r);
	for (struct list *n; (n = list_pop(&r->users)); )
		free(container_of(n, struct user, node));
	if (r->loop)
		loop_free(r->loop);
	pthread_mutex_destroy(&r->mu);
	pthread_cond_destroy(&r->ended);
	free(r);
}
