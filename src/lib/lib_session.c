/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The session: tokens, the connection to the daemon's socket, and requests on it. Any thread; requests
 * are made one at a time. They are not given up for a signal, because the answer would be taken for the
 * next one's; the daemon answers at once, but for RING_FORGET, which waits for what is under way.
 */
#include "lib/lib_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *token_error(int error)
{
	switch (error) {
	case ENOTTY:
		return "the file is on no nfsrdma-fuse mount, or on one that does not know rings";
	case EOPNOTSUPP:
		return "the mount has no rings, or not for a file that is opened like this";
	case EDQUOT:
		return "too many files of this user are being attached; wait for some seconds";
	}
	return strerror(error);
}

int lib_token(int fd, struct ring_token *t)
{
	memset(t, 0, sizeof(*t));
	if (ioctl(fd, RING_IOC_TOKEN, t) < 0) {
		int error = errno;

		return lib_fail(-error, "descriptor %d: %s", fd, token_error(error));
	}
	if (t->version != RING_VERSION)
		return lib_fail(-EPROTONOSUPPORT, "the mount's rings are of version %u, this library's of %u",
				(unsigned)t->version, RING_VERSION);
	if (!memchr(t->socket, '\0', sizeof(t->socket)))
		return lib_fail(-EPROTO, "the mount does not say where its socket is");
	return 0;
}

/* ---- requests ---- */

int lib_session_ended(struct nfsrdma_session *s)
{
	atomic_store(&s->ended, true);
	return lib_fail(-ENOTCONN, "the mount's daemon has ended the session, or has ended itself");
}

static ssize_t send_request(struct nfsrdma_session *s, struct ring_request *r, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(fd))];
	} control = { .bytes = { 0 } };
	struct iovec iov = { .iov_base = r, .iov_len = sizeof(*r) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		struct cmsghdr *c;

		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	do
		n = sendmsg(s->socket, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

/* The one descriptor that came with a message, or -1. There is room for no more. */
static int descriptor_of(struct msghdr *m)
{
	int fd = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(fd)))
			memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static ssize_t receive_answer(struct nfsrdma_session *s, struct ring_answer *a, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_LEN(sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = a, .iov_len = sizeof(*a) };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;

	do
		n = recvmsg(s->socket, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	*fd = n < 0 ? -1 : descriptor_of(&m);
	return n;
}

/* With s->lock. Nothing can follow an answer that is none. */
static int ask(struct nfsrdma_session *s, struct ring_request *r, int give_fd, struct ring_answer *a,
	       int *got_fd)
{
	ssize_t n;

	if (atomic_load(&s->ended))
		return lib_session_ended(s);
	n = send_request(s, r, give_fd);
	if (n < 0 && errno != EPIPE && errno != ECONNRESET && errno != ENOTCONN) {
		int error = errno;

		return lib_fail(-error, "the daemon cannot be asked: %s", strerror(error));
	}
	if (n >= 0)
		n = receive_answer(s, a, got_fd);
	if (n <= 0)
		return lib_session_ended(s);
	if (n != sizeof(*a) || a->version != RING_VERSION || a->status > 0) {
		lib_session_ended(s);
		shutdown(s->socket, SHUT_RDWR); /* queues that sleep hear of it */
		return lib_fail(-EPROTO, "the daemon has given an answer that this library does not understand");
	}
	a->why[sizeof(a->why) - 1] = '\0';
	return a->status ? lib_fail(a->status, "%s", a->why[0] ? a->why : strerror(-a->status)) : 0;
}

int lib_request(struct nfsrdma_session *s, struct ring_request *r, int give_fd, uint32_t *value, int *got_fd)
{
	struct ring_answer a;
	int fd = -1, rc;

	r->version = RING_VERSION;
	pthread_mutex_lock(&s->lock);
	rc = ask(s, r, give_fd, &a, &fd);
	pthread_mutex_unlock(&s->lock);
	if (fd >= 0 && (rc || !got_fd)) {
		close(fd);
		fd = -1;
	}
	if (got_fd)
		*got_fd = fd;
	if (rc == 0 && value)
		*value = a.value;
	return rc;
}

/* ---- the connection ---- */

/* named: by the environment */
static int refused(const char *name, bool named, int error)
{
	const char *advice = "";

	if (error == ENOENT && !named)
		advice = " (in a container: bind that socket into it, and name it in NFSRDMA_RINGS if it is elsewhere there)";
	else if (error == ECONNREFUSED)
		advice = " (nobody listens: is it an earlier mount's? A container needs the new one)";
	return lib_fail(-error, "cannot connect to %s%s: %s%s", name, named ? ", which NFSRDMA_RINGS names" : "",
			strerror(error), advice);
}

static int open_socket(const char *name, bool named)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd, rc;

	if (strlen(name) >= sizeof(un.sun_path))
		return refused(name, named, ENAMETOOLONG);
	strcpy(un.sun_path, name);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return refused(name, named, errno);
	do
		rc = connect(fd, (struct sockaddr *)&un, sizeof(un));
	while (rc < 0 && errno == EINTR);
	if (rc < 0) {
		rc = refused(name, named, errno);
		close(fd);
		return rc;
	}
	return fd;
}

/* The token itself is not used: it names the socket. */
int nfsrdma_connect(int fd, struct nfsrdma_session **out)
{
	const char *name = secure_getenv("NFSRDMA_RINGS");
	struct nfsrdma_session *s;
	struct ring_token t;
	int rc;

	*out = NULL;
	rc = lib_token(fd, &t);
	if (rc)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return lib_fail(-ENOMEM, "there is no memory for a session");
	s->socket = name && *name ? open_socket(name, true) : open_socket(t.socket, false);
	if (s->socket < 0) {
		rc = s->socket;
		free(s);
		return rc;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->owner = getpid();
	memcpy(s->name, t.socket, sizeof(s->name));
	*out = s;
	return 0;
}

/* Without the lock: nobody else may use the session any more, and in a child a thread may
 * have it that is not there. */
void nfsrdma_disconnect(struct nfsrdma_session *s)
{
	bool owner;

	if (!s)
		return;
	owner = getpid() == s->owner;
	if (owner)
		shutdown(s->socket, SHUT_RDWR);
	while (s->queues) {
		struct nfsrdma_queue *q = s->queues;

		s->queues = q->next;
		lib_queue_end(q, owner);
	}
	while (s->memories) {
		struct nfsrdma_memory *m = s->memories;

		s->memories = m->next;
		lib_memory_end(m, owner);
	}
	close(s->socket);
	if (owner)
		pthread_mutex_destroy(&s->lock);
	free(s);
}
