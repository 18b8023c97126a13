/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The clients of the control socket. A client reads its line, waits if its command does, and
 * writes its reply:
 *
 *     accept --> reading --line--> ctl_command() --ctl_reply()--> writing --> closed
 *                   |                   |              ^             |
 *                   +-- 5 s, no line    +-- waiting ---+             +-- 5 s, not taken
 *
 * A socket is never waited for. What a client sends after its line stays unread, and while a
 * command waits its socket is not looked at: a client that hangs up keeps its place for the
 * wait's 15 s at most.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "ctl/impl.h"

#define LINE_ROOM 4096u         /* at first: more than most requests need */
#define LOOK_MS 50u             /* between two looks at what a command waits for */
#define ACCEPTS 64              /* at once, before clients get their turn */
#define PAUSE_MS 500u           /* when there are no descriptors */

unsigned ctl_line_ms = 5000, ctl_wait_ms = 15000;

/* ---- one client ---- */

void ctl_client_free(struct ctl_client *c)
{
	int fd = c->watch.fd;

	loop_timer_clear(&c->timer);
	if (fd >= 0) {
		loop_unwatch(c->ctl->loop, &c->watch);
		close(fd);
	}
	list_del(&c->node);
	ctl_stream_end(c);
	c->ctl->nclients--;
	free(c->line);
	free(c->reply);
	free(c);
}

/* Sends what there is room for. */
static void write_reply(struct ctl_client *c)
{
	ssize_t n = send(c->watch.fd, c->reply + c->sent, c->reply_len - c->sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n > 0)
		c->sent += (size_t)n;
	if (c->sent == c->reply_len || (n < 0 && errno != EAGAIN && errno != EINTR) ||
	    loop_rewatch(c->ctl->loop, &c->watch, EPOLLOUT))
		ctl_client_free(c);
}

void ctl_reply(struct ctl_client *c, struct json_object *o)
{
	const char *text = o ? json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
							      JSON_C_TO_STRING_NOSLASHESCAPE) : NULL;
	int n = text ? asprintf(&c->reply, "%s\n", text) : -1;

	json_object_put(o);
	c->wait.waiting = false;
	if (n < 0) {
		c->reply = NULL;
		ctl_client_free(c);
		return;
	}
	c->reply_len = (size_t)n;
	loop_timer_set(c->ctl->loop, &c->timer, ctl_line_ms);
	write_reply(c);
}

static void on_line(struct ctl_client *c, size_t len)
{
	struct ctl_request q;
	struct errbuf eb;

	loop_rewatch(c->ctl->loop, &c->watch, 0);
	if (ctl_request_parse(c->line, len, &q, &eb)) {
		ctl_refuse(c, "%s", eb.text);
		return;
	}
	/* It may be long, and its client may stay. */
	free(c->line);
	c->line = NULL;
	c->len = c->room = 0;
	c->wait.until_ns = mono_ns() + ctl_wait_ms * 1000000ull;
	ctl_command(c, &q);
	json_object_put(q.object);
}

/* false: there is no memory. */
static bool grow_line(struct ctl_client *c)
{
	size_t room = c->room ? 2 * c->room : LINE_ROOM;
	char *line;

	if (c->len < c->room)
		return true;
	line = realloc(c->line, room);
	if (!line)
		return false;
	c->line = line;
	c->room = room;
	return true;
}

/* True: the line is not complete. Otherwise it has been dealt with, and the client may be gone. */
static bool read_line(struct ctl_client *c)
{
	ssize_t n;
	char *end;

	if (!grow_line(c)) {
		ctl_refuse(c, "out of memory");
		return false;
	}
	n = recv(c->watch.fd, c->line + c->len, c->room - c->len, MSG_DONTWAIT);
	if (n < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return true;
		ctl_client_free(c);
		return false;
	}
	end = memchr(c->line + c->len, '\n', (size_t)n);
	c->len += (size_t)n;
	if (end)
		on_line(c, (size_t)(end - c->line));
	else if (c->len == CTL_LINE_MAX)
		ctl_refuse(c, "the line is longer than %u bytes", CTL_LINE_MAX);
	else if (n == 0)
		ctl_refuse(c, "the line has no end: a newline is missing");
	else
		return true;
	return false;
}

static void on_socket(struct loop_watch *w, uint32_t revents)
{
	struct ctl_client *c = container_of(w, struct ctl_client, watch);

	if (c->stream)
		ctl_stream_ready(c);
	else if (c->reply)
		write_reply(c);
	else
		read_line(c);
}

static void on_timer(struct loop_timer *t)
{
	struct ctl_client *c = container_of(t, struct ctl_client, timer);

	if (c->wait.waiting) {
		loop_timer_set(c->ctl->loop, t, LOOK_MS);
		ctl_waiting(c);
	} else if (c->reply) {
		ctl_client_free(c);
	} else if (read_line(c)) {
		/* It was read once more, because this thread may have been away for so long. */
		ctl_refuse(c, "no line came within %u ms", ctl_line_ms);
	}
}

/* ---- accepting ---- */

/* For who gets no place: a socket that is new has room for so little. */
static void turn_away(int fd, const char *error)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "{\"error\":\"%s\"}\n", error);

	if (send(fd, line, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug("control: %s", strerror(errno));
	close(fd);
}

static bool may_control(int fd, uid_t *uid)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	*uid = peer.uid;
	return peer.uid == 0 || peer.uid == geteuid();
}

static void take_client(struct ctl *ctl, int fd)
{
	struct ctl_client *c;
	uid_t uid;

	if (!may_control(fd, &uid)) {
		turn_away(fd, "permission denied: only root and the user who mounted may control it");
		return;
	}
	if (ctl->nclients >= CTL_CLIENTS) {
		turn_away(fd, "too many control connections");
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		turn_away(fd, "out of memory");
		return;
	}
	c->ctl = ctl;
	c->uid = uid;
	c->watch = (struct loop_watch){ .fd = fd, .events = EPOLLIN, .fn = on_socket };
	loop_timer_init(&c->timer, on_timer);
	if (loop_watch(ctl->loop, &c->watch)) {
		free(c);
		turn_away(fd, "out of memory");
		return;
	}
	list_add_tail(&ctl->clients, &c->node);
	ctl->nclients++;
	loop_timer_set(ctl->loop, &c->timer, ctl_line_ms);
}

static void on_pause_over(struct loop_timer *t)
{
	struct ctl *ctl = container_of(t, struct ctl, pause);

	loop_rewatch(ctl->loop, &ctl->listener, EPOLLIN);
}

static void on_listener(struct loop_watch *w, uint32_t revents)
{
	struct ctl *ctl = container_of(w, struct ctl, listener);

	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			take_client(ctl, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			loop_rewatch(ctl->loop, w, 0);
			loop_timer_set(ctl->loop, &ctl->pause, PAUSE_MS);
		}
		return;
	}
}

/* Command thread: the main thread has made the socket. */
static void on_hand_over(struct loop_msg *m)
{
	struct ctl *ctl = container_of(m, struct ctl, hand_over);

	ctl->listener = (struct loop_watch){
		.fd = ctl->socket.fd, .events = EPOLLIN, .fn = on_listener,
	};
	if (loop_watch(ctl->loop, &ctl->listener))
		log_warn("the control socket is not served: out of memory");
}

/* ---- life ---- */

int ctl_listen(struct ctl *ctl, struct errbuf *eb)
{
	int rc;

	if (ctl->cfg.make_socket)
		rc = ctl->socket.fd = ctl->cfg.make_socket(eb);
	else
		rc = ctl_socket_make(&ctl->socket, CTL_SOCKET_CONTROL, ctl->cfg.mountpoint, eb);
	if (rc < 0)
		return rc;
	ctl->hand_over.fn = on_hand_over;
	loop_post(ctl->loop, &ctl->hand_over);
	return 0;
}

static void *thread_main(void *arg)
{
	struct ctl *ctl = arg;
	int rc = loop_run(ctl->loop);

	if (rc)
		log_err("the control socket is not served any more: %s", strerror(-rc));
	return NULL;
}

int ctl_new(const struct ctl_config *cfg, struct ctl **out, struct errbuf *eb)
{
	struct ctl *ctl = calloc(1, sizeof(*ctl));
	int rc;

	*out = NULL;
	if (!ctl)
		return err_set(eb, -ENOMEM, "out of memory");
	ctl->cfg = *cfg;
	ctl->since_ns = mono_ns();
	ctl->socket.fd = ctl->listener.fd = -1;
	list_init(&ctl->clients);
	loop_timer_init(&ctl->pause, on_pause_over);
	ctl->loop = loop_new(NULL);
	rc = ctl->loop ? thread_start(&ctl->thread, thread_main, ctl) : -errno;
	if (rc) {
		if (ctl->loop)
			loop_free(ctl->loop);
		free(ctl);
		return err_set(eb, rc, "cannot start the command thread: %s", strerror(-rc));
	}
	*out = ctl;
	return 0;
}

void ctl_free(struct ctl *ctl)
{
	if (!ctl)
		return;
	if (ctl->cfg.remove_socket)
		ctl->cfg.remove_socket();
	else
		ctl_socket_remove(&ctl->socket);
	loop_stop(ctl->loop);
	pthread_join(ctl->thread, NULL);
	while (!list_empty(&ctl->clients)) {
		struct ctl_client *c = container_of(ctl->clients.next, struct ctl_client, node);
		bool answered = c->reply || c->stream;
		int fd = c->watch.fd;

		loop_unwatch(ctl->loop, &c->watch);
		ctl_client_free(c);
		if (answered)
			close(fd);
		else
			turn_away(fd, "the mount ends");
	}
	ctl_socket_close(&ctl->socket);
	loop_free(ctl->loop);
	free(ctl);
}
