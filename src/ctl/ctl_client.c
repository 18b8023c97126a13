/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/loop.h"
#include "ctl/ctl.h"
#include "ctl/proto.h"
#include "ctl/text.h"

/* How long a socket that is not there is waited for: two seconds. */
#define SOCKET_TRIES 40u
#define SOCKET_US    50000u

unsigned ctl_answer_s = 30;

/* ---- which mount ---- */

int ctl_peer_find(struct ctl_peer *p, const char *mountpoint, struct errbuf *eb)
{
	int rc;

	*p = (struct ctl_peer){ .mountpoint = ctl_where_resolve(mountpoint) };
	if (!p->mountpoint)
		return err_set(eb, CTL_GONE, "'%s': %s", mountpoint, strerror(errno));
	rc = ctl_where_find(p->mountpoint, &p->mount);
	if (rc == -ENODEV)
		return err_set(eb, CTL_GONE, "nothing is mounted on '%s'", p->mountpoint);
	if (rc)
		return err_set(eb, CTL_GONE, "cannot read %s: %s", ctl_mountinfo, strerror(-rc));
	if (!p->mount.ours)
		return err_set(eb, CTL_GONE, "the mount on '%s' is not of type fuse.nfsrdma-fuse",
			      p->mountpoint);
	if (geteuid() != 0 && geteuid() != p->mount.owner)
		return err_set(eb, CTL_REFUSED, "only uid %u, who mounted '%s', and root may control it",
			      p->mount.owner, p->mountpoint);
	return CTL_OK;
}

void ctl_peer_free(struct ctl_peer *p)
{
	free(p->mountpoint);
	p->mountpoint = NULL;
}

/* ---- the socket ---- */

static int connect_to(const char name[CTL_NAME_MAX])
{
	const struct timeval tv = { .tv_sec = ctl_answer_s };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	memcpy(un.sun_path, name, sizeof(un.sun_path));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	/* That is also how long connect() waits for a place in the daemon's queue. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* The directory of the mount's owner says who could have made the socket, but its owner may
 * have put a link there to somebody else's. So it counts who listens. */
static int check_peer(int fd, const struct ctl_peer *p, struct errbuf *eb)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return err_set(eb, CTL_GONE, "cannot find out who serves the control socket of '%s': %s",
			      p->mountpoint, strerror(errno));
	if (peer.uid == 0 || peer.uid == p->mount.owner)
		return CTL_OK;
	return err_set(eb, CTL_GONE, "the control socket of '%s' is served by uid %u, but uid %u mounted "
		      "it: not used", p->mountpoint, peer.uid, p->mount.owner);
}

/* Another user may have made the one in /tmp; that does not matter if the daemon's is in /run. */
static bool may_be_elsewhere(int rc)
{
	return rc == -ENOENT || rc == -EPERM || rc == -ECONNREFUSED;
}

/* Tries the places where the socket may be. A file descriptor, or -errno: -EPERM with eb set. */
static int try_places(const struct ctl_peer *p, char name[CTL_NAME_MAX], struct errbuf *eb)
{
	char dirs[CTL_DIRS][CTL_DIR_MAX];
	unsigned n = ctl_where_dirs(p->mount.owner, dirs);
	int rc = -ENOENT;

	/* A socket without a daemon says more than a place that is not to be used, and that more than one
	 * without a socket. */
	for (unsigned i = 0; i < n && may_be_elsewhere(rc); i++) {
		struct errbuf why = { "" };
		char next[CTL_NAME_MAX];
		int there = ctl_where_check(dirs[i], p->mount.owner, &why);

		ctl_where_name(dirs[i], &p->mount, next);
		if (!there)
			there = connect_to(next);
		if (there == -ENOENT || (there == -EPERM && rc == -ECONNREFUSED))
			continue;
		rc = there;
		*eb = why;
		memcpy(name, next, sizeof(next));
	}
	return rc;
}

/* With -f a mount is there a moment before its socket. */
static int open_socket(const struct ctl_peer *p, int *fd, struct errbuf *eb)
{
	char name[CTL_NAME_MAX] = "";
	int rc = try_places(p, name, eb);

	for (unsigned i = 0; (rc == -ENOENT || rc == -EPERM) && i < SOCKET_TRIES; i++) {
		usleep(SOCKET_US);
		rc = try_places(p, name, eb);
	}
	*fd = rc;
	if (rc >= 0)
		return CTL_OK;
	if (rc == -EPERM) {
		struct errbuf why = *eb;

		return err_set(eb, CTL_GONE, "there is no control socket for '%s': its daemon has ended, or could not make "
			       "one: %s", p->mountpoint, why.text);
	}
	if (rc == -ENOENT)
		return err_set(eb, CTL_GONE, "there is no control socket for '%s': its daemon has ended, or "
			      "could not make one (its log says why)", p->mountpoint);
	if (rc == -ECONNREFUSED)
		return err_set(eb, CTL_GONE, "nobody answers at '%s': the daemon of '%s' has ended; unmount "
			      "it (fusermount3 -u)", name, p->mountpoint);
	return err_set(eb, CTL_GONE, "cannot connect to '%s': %s", name, strerror(-rc));
}

int ctl_peer_there(const struct ctl_peer *p, struct errbuf *eb)
{
	int fd, status = open_socket(p, &fd, eb);

	if (!status)
		close(fd);
	return status;
}

pid_t ctl_peer_pid(const struct ctl_peer *p)
{
	char name[CTL_NAME_MAX];
	struct errbuf eb;
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);
	int fd = try_places(p, name, &eb);

	if (fd < 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		peer.pid = 0;
	close(fd);
	return peer.pid;
}

/* ---- request and reply ---- */

/* If the daemon has closed already, it has said why. */
static void send_line(int fd, struct json_object *request)
{
	char *line;
	int n = asprintf(&line, "%s\n", json_object_to_json_string_ext(request,
								       JSON_C_TO_STRING_PLAIN));

	if (n < 0)
		return;
	for (int sent = 0; sent < n; ) {
		ssize_t k = send(fd, line + sent, (size_t)(n - sent), MSG_NOSIGNAL);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			break;
		sent += (int)k;
	}
	free(line);
}

/* Reads up to the newline. Its length without that, or -errno; *text is the caller's. */
static ssize_t read_reply(int fd, char **text)
{
	char *buf = malloc(CTL_REPLY_MAX), *end;
	size_t len = 0;
	ssize_t n;

	*text = buf;
	if (!buf)
		return -ENOMEM;
	for (;;) {
		n = recv(fd, buf + len, CTL_REPLY_MAX - len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		end = memchr(buf + len, '\n', (size_t)n);
		len += (size_t)n;
		if (end)
			return end - buf;
		if (n == 0)
			return -ECONNRESET;
		if (len == CTL_REPLY_MAX)
			return -EMSGSIZE;
	}
}

static int check_reply(const struct ctl_peer *p, struct json_object *o, struct errbuf *eb)
{
	const char *mountpoint = ctl_text_of(o, "mountpoint"), *error = ctl_text_of(o, "error");

	if (!json_object_is_type(o, json_type_object))
		return err_set(eb, CTL_GONE, "the process that answers for '%s' is not a daemon of this program",
			      p->mountpoint);
	/* A client that is turned away is not told the mount point. */
	if ((*mountpoint || !*error) && !ctl_where_mounted(&p->mount, mountpoint))
		return err_set(eb, CTL_GONE, "the daemon that answers for '%s' serves '%.200s': not used",
			      p->mountpoint, mountpoint);
	return *error ? err_set(eb, CTL_REFUSED, "%s", error) : CTL_OK;
}

static int take_reply(int fd, const struct ctl_peer *p, struct json_object **reply,
		      struct errbuf *eb)
{
	struct json_tokener *t = json_tokener_new();
	char *text;
	ssize_t n = read_reply(fd, &text);
	int status;

	if (n == -EAGAIN)
		status = err_set(eb, CTL_GONE, "the daemon of '%s' has not answered for %u s",
				p->mountpoint, ctl_answer_s);
	else if (n == -ECONNRESET || n == -EPIPE)
		status = err_set(eb, CTL_GONE, "the daemon of '%s' has ended", p->mountpoint);
	else if (n < 0 || !t)
		status = err_set(eb, CTL_GONE, "no reply from the daemon of '%s': %s", p->mountpoint,
				strerror(t ? (int)-n : ENOMEM));
	else {
		*reply = json_tokener_parse_ex(t, text, (int)n);
		status = check_reply(p, *reply, eb);
	}
	if (t)
		json_tokener_free(t);
	free(text);
	ctl_clean(eb->text);
	return status;
}

int ctl_ask(const struct ctl_peer *p, struct json_object *request, struct json_object **reply,
	    struct errbuf *eb)
{
	int fd, status = open_socket(p, &fd, eb);

	*reply = NULL;
	if (status)
		return status;
	status = check_peer(fd, p, eb);
	if (!status) {
		send_line(fd, request);
		status = take_reply(fd, p, reply, eb);
	}
	close(fd);
	return status;
}

int ctl_ask_command(const struct ctl_peer *p, const char *command, const char *member, const char *value,
		    struct json_object **reply, struct errbuf *eb)
{
	struct json_object *q = json_object_new_object(), *said = NULL;
	int status;

	if (reply)
		*reply = NULL;
	if (!q)
		return err_set(eb, CTL_GONE, "out of memory");
	ctl_add_text(q, "command", command);
	if (member)
		ctl_add_text(q, member, value);
	status = ctl_ask(p, q, reply ? reply : &said, eb);
	json_object_put(q);
	json_object_put(said);
	return status;
}

/* ---- many lines ---- */

int ctl_lines_open(struct ctl_lines *l, const struct ctl_peer *p, struct json_object *request, struct errbuf *eb)
{
	int fd, status = open_socket(p, &fd, eb);

	*l = (struct ctl_lines){ .peer = p, .fd = -1 };
	if (status)
		return status;
	l->fd = fd;
	l->text = malloc(CTL_LINES_ROOM);
	l->tokener = json_tokener_new();
	status = check_peer(fd, p, eb);
	if (!status && (!l->text || !l->tokener))
		status = err_set(eb, CTL_GONE, "out of memory");
	if (!status)
		send_line(fd, request);
	else
		ctl_lines_close(l);
	return status;
}

void ctl_lines_close(struct ctl_lines *l)
{
	if (l->fd >= 0)
		close(l->fd);
	if (l->tokener)
		json_tokener_free(l->tokener);
	free(l->text);
	*l = (struct ctl_lines){ .fd = -1 };
}

/* The first line says whose daemon it is. */
static int take_line(struct ctl_lines *l, const char *text, size_t n, void (*line)(struct json_object *o, void *to),
		     void *to, struct errbuf *eb)
{
	struct json_object *o;
	int status = CTL_OK;

	json_tokener_reset(l->tokener);
	o = json_tokener_parse_ex(l->tokener, text, (int)n);
	if (!l->known)
		status = check_reply(l->peer, o, eb);
	else if (o)
		line(o, to);
	l->known = true;
	json_object_put(o);
	return status;
}

/* All lines that are complete. */
static int take_lines(struct ctl_lines *l, void (*line)(struct json_object *o, void *to), void *to, struct errbuf *eb)
{
	char *at = l->text, *end;
	int status = CTL_OK;

	while (!status && (end = memchr(at, '\n', l->len))) {
		status = take_line(l, at, (size_t)(end - at), line, to, eb);
		l->len -= (size_t)(end + 1 - at);
		at = end + 1;
	}
	memmove(l->text, at, l->len);
	if (!status && l->len == CTL_LINES_ROOM)
		status = err_set(eb, CTL_GONE, "the daemon of '%s' sends a line without an end", l->peer->mountpoint);
	return status;
}

int ctl_lines_take(struct ctl_lines *l, int ms, void (*line)(struct json_object *o, void *to), void *to,
		   struct errbuf *eb)
{
	const uint64_t until = mono_ns() + (uint64_t)(ms < 0 ? 0 : ms) * 1000000u;
	int status = CTL_OK;

	while (!status) {
		struct pollfd pfd = { .fd = l->fd, .events = POLLIN };
		uint64_t now = mono_ns();
		int left = ms < 0 ? -1 : now < until ? (int)((until - now + 999999u) / 1000000u) : 0;
		ssize_t n = poll(&pfd, 1, left);

		if (n == 0 || left == 0)
			return CTL_OK;
		if (n > 0)
			n = recv(l->fd, l->text + l->len, CTL_LINES_ROOM - l->len, MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			status = err_set(eb, CTL_GONE, "the daemon of '%s' has ended", l->peer->mountpoint);
		else
			l->len += (size_t)n;
		if (!status)
			status = take_lines(l, line, to, eb);
	}
	ctl_clean(eb->text);
	return status;
}
