/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events of the device: a broken queue pair or completion queue, or the device itself.
 * librdmacm opens each device once in a process, so all connections on it share one file of
 * such events. Any lane may happen to read an event, and must pass it on to the lane that
 * it concerns:
 *
 *     device --> any lane: device_event of each connection concerned = type
 *                          and a byte into its eventfd
 *     eventfd -> its lane: down
 *
 * A mutex protects the list of connections. It is taken when a connection comes or goes and
 * when an event is there, never on the way of a request. Most such errors also show as
 * flushed completions or as a device removal in the connection manager, whichever comes
 * first. An overrun completion queue shows only here.
 */
#include "fabric/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list conns = { &conns, &conns };

/* ---- Reading (any lane of the device) ------------------------------------- */

static bool async_concerns(const struct fab_conn *c, const struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return ev->element.qp == c->id->qp;
	case IBV_EVENT_CQ_ERR:
		return ev->element.cq == c->cq;
	case IBV_EVENT_DEVICE_FATAL:
		return true;
	default:
		/* Ports and addresses come and go. A connection survives that unless its
		 * retries run out. */
		return false;
	}
}

static void pass_on(struct ibv_context *verbs, const struct ibv_async_event *ev)
{
	pthread_mutex_lock(&lock);
	list_for_each_entry(struct fab_conn, c, &conns, node) {
		if (c->id->verbs != verbs || !async_concerns(c, ev))
			continue;
		atomic_store(&c->device_event, (int)ev->event_type + 1);
		verbs_kick(c);
	}
	pthread_mutex_unlock(&lock);
}

static void async_fn(struct loop_watch *w, uint32_t revents)
{
	struct fab_conn *c = container_of(w, struct fab_conn, async_watch);
	struct ibv_context *verbs = c->id->verbs;
	struct ibv_async_event ev;
	bool any = false;

	/* Another lane may have been faster. */
	while (ibv_get_async_event(verbs, &ev) == 0) {
		log_debug("%s: device event: %s", c->text, ibv_event_type_str(ev.event_type));
		pass_on(verbs, &ev);
		/* Not earlier: until it is acknowledged nobody destroys the object that
		 * it is about. */
		ibv_ack_async_event(&ev);
		any = true;
	}
	if (!any && (revents & (EPOLLERR | EPOLLHUP))) {
		/* The file is dead, and so is its device. */
		atomic_store(&c->device_event, IBV_EVENT_DEVICE_FATAL + 1);
		verbs_kick(c);
		loop_rewatch(c->loop, w, 0);
	}
}

/* ---- Being told ----------------------------------------------------------- */

void verbs_kick(struct fab_conn *c)
{
	uint64_t one = 1;

	/* Fails only when the counter is full, and then the file is readable. */
	TEMP_FAILURE_RETRY(write(c->kick_watch.fd, &one, sizeof(one)));
}

static void device_down(struct fab_conn *c, int type)
{
	char why[128];

	if (type == IBV_EVENT_DEVICE_FATAL) {
		verbs_down(c, -ENODEV, "the RDMA device failed or was removed");
		return;
	}
	snprintf(why, sizeof(why), "the RDMA device reports: %s",
		 ibv_event_type_str((enum ibv_event_type)type));
	verbs_down(c, -EIO, why);
}

static void kick_fn(struct loop_watch *w, uint32_t revents)
{
	struct fab_conn *c = container_of(w, struct fab_conn, kick_watch);
	uint64_t n;
	int type;

	if (read(w->fd, &n, sizeof(n)) < 0 && errno == EAGAIN)
		return;
	type = atomic_exchange(&c->device_event, 0);
	if (!type)
		return;
	verbs_enter(c);
	/* The connection manager may know a better reason than "fatal". */
	verbs_cm_events(c);
	if (!c->closed)
		device_down(c, type - 1);
	verbs_leave(c);
}

/* ---- Coming and going ----------------------------------------------------- */

int verbs_async_join(struct fab_conn *c)
{
	int err;

	c->kick_watch = (struct loop_watch){ .fd = -1, .events = EPOLLIN, .fn = kick_fn };
	c->async_watch = (struct loop_watch){ .fd = -1, .events = EPOLLIN, .fn = async_fn };
	list_init(&c->node);
	err = verbs_nonblock(c->id->verbs->async_fd);
	if (err)
		return err;
	c->kick_watch.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	/* A descriptor of our own for the shared file: an epoll set takes each
	 * descriptor once, and a loop may serve two connections of one device. */
	c->async_watch.fd = fcntl(c->id->verbs->async_fd, F_DUPFD_CLOEXEC, 0);
	if (c->kick_watch.fd < 0 || c->async_watch.fd < 0) {
		err = -errno;
		goto fail;
	}
	err = loop_watch(c->loop, &c->kick_watch);
	if (!err)
		err = loop_watch(c->loop, &c->async_watch);
	if (err)
		goto fail;
	pthread_mutex_lock(&lock);
	list_add_tail(&conns, &c->node);
	pthread_mutex_unlock(&lock);
	return 0;
fail:
	verbs_async_leave(c);
	return err;
}

static void leave_watch(struct loop *l, struct loop_watch *w)
{
	int fd = w->fd;

	loop_unwatch(l, w);
	if (fd >= 0)
		close(fd);
}

void verbs_async_leave(struct fab_conn *c)
{
	/* After this no other lane finds c. */
	pthread_mutex_lock(&lock);
	list_del(&c->node);
	pthread_mutex_unlock(&lock);
	leave_watch(c->loop, &c->async_watch);
	leave_watch(c->loop, &c->kick_watch);
}
