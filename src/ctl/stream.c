/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command log: clients that get a line for each request, until they hang up. Lanes collect while there is
 * such a client (fuse/oplog.h). Twenty times a second the command thread takes what has come and writes a line to
 * each client that wants it, as far as its buffer has room. A client that does not read loses lines, and is told
 * how many when there is room again: neither lanes nor other clients wait for it.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "ctl/impl.h"
#include "ctl/text.h"

#define STREAM_MS   50u
#define STREAM_ROOM 262144u
#define ROUND_MOST  4096u       /* requests; others get their turn then */

struct ctl_stream {
	struct ctl_request wants;       /* its filters */
	uint64_t lost;                  /* lines since the last one */
	size_t len, sent;
	char out[STREAM_ROOM];
};

/* ---- lines ---- */

/* The name itself fits, or as lines have it (`shown`): who asks for what a line has means that name, though "\" and
 * "[" in it would be more in a pattern. */
static bool stream_name_fits(const char *pattern, const char *name, const char *shown)
{
	return fnmatch(pattern, name, 0) == 0 || fnmatch(pattern, shown, FNM_NOESCAPE) == 0 ||
	       strcmp(pattern, shown) == 0;
}

static bool stream_wants(const struct ctl_request *q, const struct oprec *r, const char *shown)
{
	return (!*q->op || strcasecmp(q->op, r->op ? r->op : "") == 0) && (!q->has_pid || q->pid == (unsigned)r->pid) &&
	       (!q->has_uid || q->uid == r->uid) && (!q->name || stream_name_fits(q->name, r->name, shown)) &&
	       r->end_ns - r->begin_ns >= q->slower * 1000ull;
}

/* false: there is no room. Takes the object over. */
static bool stream_put(struct ctl_stream *s, struct json_object *o)
{
	const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	size_t n = text ? strlen(text) : STREAM_ROOM;

	if (s->sent && s->len + n + 1 > STREAM_ROOM) {
		memmove(s->out, s->out + s->sent, s->len - s->sent);
		s->len -= s->sent;
		s->sent = 0;
	}
	if (s->len + n + 1 <= STREAM_ROOM) {
		memcpy(s->out + s->len, text, n);
		s->out[s->len + n] = '\n';
		s->len += n + 1;
	} else {
		n = 0;
	}
	json_object_put(o);
	return n;
}

/* How many lines were lost, before the next one. false: there is no room, or no memory. */
static bool stream_say_lost(struct ctl_stream *s)
{
	struct json_object *o = json_object_new_object();

	if (!o)
		return false;
	ctl_add_number(o, "lost", s->lost);
	if (!stream_put(s, o))
		return false;
	s->lost = 0;
	return true;
}

static void stream_line(struct ctl_stream *s, const struct oprec *r, const char *shown, uint64_t wall_ns)
{
	struct json_object *o = s->lost && !stream_say_lost(s) ? NULL : json_object_new_object();

	if (!o) {
		s->lost++;
		return;
	}
	ctl_add_number(o, "time_ns", wall_ns);
	ctl_add_number(o, "pid", (uint64_t)r->pid);
	ctl_add_number(o, "uid", r->uid);
	ctl_add_text(o, "op", r->op ? r->op : "?");
	ctl_add_text(o, "name", shown);
	if (r->has_range) {
		ctl_add_number(o, "offset", r->offset);
		ctl_add_number(o, "size", r->size);
	}
	ctl_add_number(o, "took_ns", r->end_ns - r->begin_ns);
	ctl_add_number(o, "server_ns", r->server_ns);
	json_object_object_add(o, "status", json_object_new_int(r->result));
	s->lost += !stream_put(s, o);
}

/* ---- rounds ---- */

/* false: the client is gone. */
static bool stream_send(struct ctl_client *c)
{
	struct ctl_stream *s = c->stream;
	ssize_t n = s->len > s->sent ? send(c->watch.fd, s->out + s->sent, s->len - s->sent, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

	if (n > 0)
		s->sent += (size_t)n;
	if (s->sent == s->len)
		s->sent = s->len = 0;
	if ((n < 0 && errno != EAGAIN && errno != EINTR) ||
	    loop_rewatch(c->ctl->loop, &c->watch, EPOLLIN | (s->len ? EPOLLOUT : 0))) {
		ctl_client_free(c);
		return false;
	}
	return true;
}

static void on_round(struct loop_timer *t)
{
	struct ctl *ctl = container_of(t, struct ctl, streaming);
	uint64_t wall = ctl_wall_ns() - mono_ns();
	uint64_t lost = ctl->cfg.log_lost(ctl->cfg.arg);
	char shown[CTL_ESCAPED(OPREC_NAME)];
	struct oprec r;

	for (unsigned i = 0; i < ROUND_MOST && ctl->cfg.log_next(&r, ctl->cfg.arg); i++) {
		ctl_escape(r.name, shown);
		list_for_each_entry(struct ctl_client, c, &ctl->clients, node)
			if (c->stream && stream_wants(&c->stream->wants, &r, shown))
				stream_line(c->stream, &r, shown, wall + r.end_ns);
	}
	for (struct list *n = ctl->clients.next, *next; n != &ctl->clients; n = next) {
		struct ctl_client *c = container_of(n, struct ctl_client, node);

		next = n->next;
		if (c->stream) {
			c->stream->lost += lost - ctl->stream_lost;
			stream_send(c);
		}
	}
	ctl->stream_lost = lost;
	if (ctl->nstreams)
		loop_timer_set(ctl->loop, t, STREAM_MS);
}

void ctl_stream_ready(struct ctl_client *c)
{
	char ignored[256];
	ssize_t n = recv(c->watch.fd, ignored, sizeof(ignored), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		ctl_client_free(c);
	else
		stream_send(c);
}

void ctl_stream_end(struct ctl_client *c)
{
	struct ctl *ctl = c->ctl;

	if (!c->stream)
		return;
	json_object_put(c->stream->wants.object);
	free(c->stream);
	c->stream = NULL;
	if (--ctl->nstreams)
		return;
	loop_timer_clear(&ctl->streaming);
	ctl->cfg.log_end(ctl->cfg.arg);
}

void ctl_command_log(struct ctl_client *c, const struct ctl_request *q)
{
	struct ctl *ctl = c->ctl;
	struct ctl_stream *s;

	if (ctl->nstreams >= CTL_STREAMS) {
		ctl_refuse(c, "%u others listen already", ctl->nstreams);
		return;
	}
	s = ctl->cfg.log_begin ? calloc(1, sizeof(*s)) : NULL;
	if (!s || (!ctl->nstreams && ctl->cfg.log_begin(ctl->cfg.arg))) {
		free(s);
		ctl_refuse(c, "out of memory");
		return;
	}
	s->wants = *q;
	json_object_get(q->object);
	c->stream = s;
	if (!ctl->nstreams++) {
		ctl->stream_lost = ctl->cfg.log_lost(ctl->cfg.arg);
		loop_timer_init(&ctl->streaming, on_round);
		loop_timer_set(ctl->loop, &ctl->streaming, STREAM_MS);
	}
	loop_timer_clear(&c->timer);
	log_info("control: uid %u listens to single requests", c->uid);
	stream_put(s, ctl_reply_new(ctl));
	stream_send(c);
}
