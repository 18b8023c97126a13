/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ring_daemon_play.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct play play;

/* The thread's and the test's, with the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	pthread_t thread;
	bool started, dying;
	int listener, connection;
	struct play_ring rings[PLAY_RINGS];
	char *memories[PLAY_MEMORIES];
	size_t memory_lens[PLAY_MEMORIES];
	unsigned n_rings, n_memories;
	unsigned counts[RING_CLOSE + 1];
	struct ring_request last[RING_CLOSE + 1];
	struct play_fault fault;
} mine = { .listener = -1, .connection = -1 };

static void must(bool true_, const char *what)
{
	if (true_)
		return;
	perror(what);
	abort();
}

/* ---- tokens ---- */

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	struct ring_token *t;
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (request != RING_IOC_TOKEN)
		return __real_ioctl(fd, request, arg);
	if (play.token_error) {
		errno = play.token_error;
		return -1;
	}
	t = arg;
	*t = (struct ring_token){ .version = play.token_version };
	memcpy(t->token, &fd, sizeof(fd));
	memcpy(t->socket, play.token_socket, sizeof(t->socket));
	return 0;
}

/* ---- requests, in the thread, with the lock ---- */

static ssize_t receive(int from, struct ring_request *r, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { r, sizeof(*r) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

	*fd = -1;
	if (c)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return n;
}

static void give(int to, const struct ring_answer *a, size_t len, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec iov = { (void *)a, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c = &control.align;

		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		*c = (struct cmsghdr){ CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	sendmsg(to, &m, MSG_NOSIGNAL);
}

/* Returns the program's end of its bell. */
static int open_ring(int fd, uint32_t entries)
{
	struct play_ring *r = &mine.rings[mine.n_rings];
	int bell[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bell) == 0, "socketpair");
	*r = (struct play_ring){ .entries = entries, .bell = bell[0] };
	r->memory = mmap(NULL, ring_bytes(entries), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(r->memory != MAP_FAILED, "a ring's memory");
	return bell[1];
}

static void map_memory(int fd, size_t len)
{
	mine.memory_lens[mine.n_memories] = len;
	mine.memories[mine.n_memories] = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(mine.memories[mine.n_memories] != MAP_FAILED, "memory");
}

static void answer(int to, const struct ring_request *r, int fd)
{
	struct ring_answer a = { .version = RING_VERSION };
	struct play_fault f = r->what == mine.fault.at ? mine.fault : (struct play_fault){ 0 };
	int bell = -1;

	if (f.status) {
		a.status = f.status;
		snprintf(a.why, sizeof(a.why), "%s", f.why ? f.why : "");
	} else if (r->what == RING_OPEN) {
		bell = open_ring(fd, (uint32_t)r->value);
		a.value = mine.n_rings++;
	} else if (r->what == RING_MEMORY) {
		map_memory(fd, r->value);
		a.value = mine.n_memories++;
	} else if (r->what == RING_ATTACH) {
		memcpy(&a.value, r->token, sizeof(a.value)); /* the descriptor's number */
	}
	if (f.oddity == PLAY_VERSION)
		a.version++;
	if (f.oddity == PLAY_POSITIVE)
		a.status = 7;
	give(to, &a, f.oddity == PLAY_SHORT ? 8 : sizeof(a), f.oddity == PLAY_NO_BELL ? -1 : bell);
	if (bell >= 0)
		close(bell);
}

static void serve(int connection)
{
	struct ring_request r;
	bool goes_on = true;
	int fd;

	while (goes_on && receive(connection, &r, &fd) == sizeof(r)) {
		pthread_mutex_lock(&lock);
		must(r.version == RING_VERSION && r.what >= RING_OPEN && r.what <= RING_CLOSE, "request");
		mine.counts[r.what]++;
		mine.last[r.what] = r;
		goes_on = !(mine.fault.dies && r.what == mine.fault.at);
		if (goes_on)
			answer(connection, &r, fd);
		pthread_mutex_unlock(&lock);
		if (fd >= 0)
			close(fd);
	}
}

/* With the lock. The test may be looking at a bell, so that it stays open until play_die(). */
static void end_connection(void)
{
	close(mine.connection);
	mine.connection = -1;
	for (unsigned i = 0; i < mine.n_rings; i++)
		shutdown(mine.rings[i].bell, SHUT_RDWR);
}

static void *play_main(void *arg)
{
	int fd;

	while ((fd = accept4(mine.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		bool dying;

		pthread_mutex_lock(&lock);
		mine.connection = fd;
		dying = mine.dying;
		pthread_mutex_unlock(&lock);
		if (!dying)
			serve(fd);
		pthread_mutex_lock(&lock);
		end_connection();
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* ---- begin and end ---- */

void play_start(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	unsetenv("NFSRDMA_RINGS");
	strcpy(play.folder, "/tmp/ringplay.XXXXXX");
	must(mkdtemp(play.folder) != NULL, "folder");
	snprintf(play.socket, sizeof(play.socket), "%s/rings", play.folder);
	strcpy(play.token_socket, play.socket);
	play.token_version = RING_VERSION;
	strcpy(un.sun_path, play.socket);
	mine.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	must(bind(mine.listener, (struct sockaddr *)&un, sizeof(un)) == 0, "bind");
	must(listen(mine.listener, 8) == 0, "listen");
	must(pthread_create(&mine.thread, NULL, play_main, NULL) == 0, "thread");
	mine.started = true;
}

void play_die(void)
{
	if (!mine.started)
		return;
	mine.started = false;
	unlink(play.socket);
	rmdir(play.folder);
	pthread_mutex_lock(&lock);
	mine.dying = true;
	shutdown(mine.listener, SHUT_RDWR);
	shutdown(mine.connection, SHUT_RDWR);
	pthread_mutex_unlock(&lock);
	pthread_join(mine.thread, NULL);
	close(mine.listener);
	for (unsigned i = 0; i < mine.n_rings; i++) {
		close(mine.rings[i].bell);
		munmap(mine.rings[i].memory, ring_bytes(mine.rings[i].entries));
	}
	for (unsigned i = 0; i < mine.n_memories; i++)
		munmap(mine.memories[i], mine.memory_lens[i]);
}

void play_fault(struct play_fault f)
{
	pthread_mutex_lock(&lock);
	mine.fault = f;
	pthread_mutex_unlock(&lock);
}

/* ---- what there is ---- */

struct play_ring *play_ring(unsigned i)
{
	struct play_ring *r;

	pthread_mutex_lock(&lock);
	must(i < mine.n_rings, "no such ring");
	r = &mine.rings[i];
	pthread_mutex_unlock(&lock);
	return r;
}

char *play_memory(unsigned i)
{
	char *at;

	pthread_mutex_lock(&lock);
	must(i < mine.n_memories, "no such memory");
	at = mine.memories[i];
	pthread_mutex_unlock(&lock);
	return at;
}

unsigned play_count(enum ring_what what)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = mine.counts[what];
	pthread_mutex_unlock(&lock);
	return n;
}

struct ring_request play_last(enum ring_what what)
{
	struct ring_request r;

	pthread_mutex_lock(&lock);
	r = mine.last[what];
	pthread_mutex_unlock(&lock);
	return r;
}

void play_wait_disconnected(void)
{
	bool there = true;

	while (there) {
		sched_yield();
		pthread_mutex_lock(&lock);
		there = mine.connection >= 0;
		pthread_mutex_unlock(&lock);
	}
}

/* ---- a ring ---- */

bool play_take(struct play_ring *r, struct ring_sqe *e)
{
	if (atomic_load(&r->memory->sq_tail.count) == r->taken)
		return false;
	*e = r->memory->sq[r->taken % r->entries];
	atomic_store(&r->memory->sq_head.count, ++r->taken);
	return true;
}

/* The program must have room for it, whatever it has taken. */
void play_fill(struct play_ring *r, uint64_t user_data, int64_t result)
{
	must(r->completed - atomic_load(&r->memory->cq_head.count) < r->entries, "no room for a completion");
	ring_cq(r->memory, r->entries)[r->completed++ % r->entries] =
		(struct ring_cqe){ .user_data = user_data, .result = result };
}

void play_publish(struct play_ring *r)
{
	struct ring_line *head = &r->memory->cq_head;

	atomic_store(&r->memory->cq_tail.count, r->completed);
	if (!(atomic_load(&head->flags) & RING_SLEEPS) ||
	    (int32_t)(r->completed - atomic_load(&head->wanted)) < 0)
		return;
	r->rung++;
	send(r->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void play_complete(struct play_ring *r, uint64_t user_data, int64_t result)
{
	play_fill(r, user_data, result);
	play_publish(r);
}

bool play_lie_down(struct play_ring *r)
{
	atomic_store(&r->memory->sq_head.flags, RING_SLEEPS);
	if (atomic_load(&r->memory->sq_tail.count) == r->taken)
		return true;
	atomic_store(&r->memory->sq_head.flags, 0);
	return false;
}

bool play_sleep(struct play_ring *r)
{
	struct pollfd p = { .fd = r->bell, .events = POLLIN };
	char bytes[64];
	bool rung;

	r->slept++;
	rung = poll(&p, 1, 60000) == 1 && recv(r->bell, bytes, sizeof(bytes), MSG_DONTWAIT) > 0;
	atomic_store(&r->memory->sq_head.flags, 0);
	return rung;
}

bool play_was_rung(struct play_ring *r)
{
	char bytes[64];

	return recv(r->bell, bytes, sizeof(bytes), MSG_DONTWAIT) > 0;
}

void play_wait_asleep(struct play_ring *r)
{
	while (!(atomic_load(&r->memory->cq_head.flags) & RING_SLEEPS))
		sched_yield();
}
