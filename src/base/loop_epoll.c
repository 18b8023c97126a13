/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The loop on an epoll set.
 *
 * Removed watches. A callback may remove a watch, and free its memory, while the watch's
 * event already lies in the array that epoll_wait filled. So it is struck out of the rest of
 * that array. The array is short, so this costs less than a generation number in every event.
 */
#include "base/loop_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/sys.h"

#define EVENTS 64               /* fetched at once; the rest comes next round */
#define NS_PER_MS 1000000ull

struct epoll_loop {
	struct loop loop;
	int epfd;
	struct epoll_event ev[EVENTS];
	int nev, next;          /* ev[next..nev-1] are still to be called */
};

static struct epoll_loop *of(struct loop *l)
{
	return container_of(l, struct epoll_loop, loop);
}

/* A watch that wants no events is taken out of the set. epoll reports errors and
 * hang-ups whether asked for or not, and would keep the loop awake. */
static int change(struct loop *l, struct loop_watch *w, uint32_t old, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };
	int op;

	if (!old && !events)
		return 0;
	op = !old ? EPOLL_CTL_ADD : !events ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
	return epoll_ctl(of(l)->epfd, op, w->fd, &ev) < 0 ? -errno : 0;
}

/* Drops events of w that were fetched but not delivered yet. */
static void strike(struct epoll_loop *e, struct loop_watch *w)
{
	for (int i = e->next; i < e->nev; i++)
		if (e->ev[i].data.ptr == w)
			e->ev[i].data.ptr = NULL;
}

static int epoll_watch(struct loop *l, struct loop_watch *w)
{
	return change(l, w, 0, w->events);
}

static int epoll_rewatch(struct loop *l, struct loop_watch *w, uint32_t events)
{
	int err = change(l, w, w->events, events);

	if (!err && !events)
		strike(of(l), w);
	return err;
}

static void epoll_unwatch(struct loop *l, struct loop_watch *w)
{
	/* Fails only if the file was closed first; then it has left the set already. */
	change(l, w, w->events, 0);
	strike(of(l), w);
}

static void epoll_call(struct loop *l)
{
	struct epoll_loop *e = of(l);

	while (e->next < e->nev) {
		struct epoll_event *ev = &e->ev[e->next++];
		struct loop_watch *w = ev->data.ptr;
		uint32_t revents;

		if (!w)
			continue;
		/* The events wanted may have changed since this one was fetched. */
		revents = ev->events & (w->events | EPOLLERR | EPOLLHUP);
		if (revents)
			w->fn(w, revents);
	}
}

/* Rounded up, because waking before a timer is due would make the loop turn for nothing. */
static int to_ms(uint64_t ns)
{
	uint64_t ms = ns / NS_PER_MS + (ns % NS_PER_MS != 0);

	if (ns == UINT64_MAX)
		return -1;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static int epoll_loop_wait(struct loop *l, uint64_t ns)
{
	struct epoll_loop *e = of(l);

	e->next = 0;
	e->nev = sys_epoll_wait(e->epfd, e->ev, EVENTS, to_ms(ns));
	if (e->nev >= 0)
		return 0;
	e->nev = 0;
	return -errno;
}

static void epoll_free(struct loop *l)
{
	close(of(l)->epfd);
	free(of(l));
}

static const struct loop_kind kind = {
	.watch = epoll_watch,
	.rewatch = epoll_rewatch,
	.unwatch = epoll_unwatch,
	.wait = epoll_loop_wait,
	.call = epoll_call,
	.free = epoll_free,
};

struct loop *loop_new_epoll(void)
{
	struct epoll_loop *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->loop.kind = &kind;
	e->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epfd < 0) {
		free(e);
		return NULL;
	}
	return loop_made(&e->loop);
}
