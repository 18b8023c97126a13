/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libnfsrdma with a played daemon: sessions, memory, their end, and fork(). Queues: test_lib_ring.c. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/lib_impl.h"
#include "ring_daemon_play.h"

#define ENTRIES 8u
#define MEMORY 65536u

static struct nfsrdma_session *session;
static struct nfsrdma_memory *memory;
static struct nfsrdma_queue *queue;
static struct nfsrdma_done done[ENTRIES];
static uint32_t file;

static void start(void)
{
	unsetenv("NFSRDMA_RINGS");
	play_start();
}

TestSuite(lib_session, .init = start, .fini = play_die, .timeout = 300);

static void connect_all(void)
{
	cr_assert_eq(nfsrdma_connect(0, &session), 0, "%s", nfsrdma_why());
	cr_assert_eq(nfsrdma_memory_new(session, MEMORY, &memory), 0, "%s", nfsrdma_why());
	cr_assert_eq(nfsrdma_queue_new(session, ENTRIES, &queue), 0, "%s", nfsrdma_why());
	cr_assert_eq(nfsrdma_attach(queue, 0, &file), 0, "%s", nfsrdma_why());
}

static void expect_why(const char *words)
{
	cr_expect(strstr(nfsrdma_why(), words), "\"%s\" does not say \"%s\"", nfsrdma_why(), words);
}

static int connect_with(int error)
{
	play.token_error = error;
	return nfsrdma_connect(0, &session);
}

/* ---- connect ---- */

Test(lib_session, files_that_have_no_rings)
{
	cr_expect_eq(connect_with(ENOTTY), -ENOTTY);
	expect_why("on no nfsrdma-fuse mount");
	cr_expect_eq(connect_with(EOPNOTSUPP), -EOPNOTSUPP);
	expect_why("has no rings");
	cr_expect_eq(connect_with(EDQUOT), -EDQUOT);
	expect_why("wait");
	cr_expect_eq(connect_with(EBADF), -EBADF);
	expect_why("Bad file descriptor");
	cr_expect_null(session);
}

Test(lib_session, another_version)
{
	play.token_version = RING_VERSION + 1;
	cr_expect_eq(nfsrdma_connect(0, &session), -EPROTONOSUPPORT);
	expect_why("of version 2, this library's of 1");
}

Test(lib_session, a_socket_that_is_not_there)
{
	strcpy(play.token_socket, "/nonexistent/rings");
	cr_expect_eq(nfsrdma_connect(0, &session), -ENOENT);
	expect_why("/nonexistent/rings");
	expect_why("in a container: bind that socket");
	expect_why("NFSRDMA_RINGS");
	memset(play.token_socket, 'x', sizeof(play.token_socket));
	cr_expect_eq(nfsrdma_connect(0, &session), -EPROTO, "it has no end");
	play.token_socket[110] = '\0';
	cr_expect_eq(nfsrdma_connect(0, &session), -ENAMETOOLONG);
}

Test(lib_session, the_environment_names_the_socket)
{
	strcpy(play.token_socket, "/nonexistent/rings");
	setenv("NFSRDMA_RINGS", play.socket, 1);
	connect_all();
	nfsrdma_disconnect(session);
	setenv("NFSRDMA_RINGS", "/nonexistent/other", 1);
	cr_expect_eq(nfsrdma_connect(0, &session), -ENOENT);
	expect_why("/nonexistent/other, which NFSRDMA_RINGS names");
	setenv("NFSRDMA_RINGS", "", 1);
	strcpy(play.token_socket, play.socket);
	cr_expect_eq(nfsrdma_connect(0, &session), 0);
	nfsrdma_disconnect(session);
}

/* ---- requests ---- */

Test(lib_session, requests_say_what_they_are_for)
{
	struct nfsrdma_queue *second;
	uint32_t other;

	connect_all();
	cr_expect_eq(play_last(RING_MEMORY).value, MEMORY);
	cr_expect_eq(play_last(RING_OPEN).value, ENTRIES);
	cr_assert_eq(nfsrdma_queue_new(session, 4096, &second), 0);
	cr_assert_eq(nfsrdma_attach(second, 2, &other), 0);
	cr_expect_eq(other, 2, "of the played daemon");
	cr_expect_eq(play_last(RING_ATTACH).ring, 1);
	cr_assert_eq(nfsrdma_detach(second, 2), 0);
	cr_expect_eq(play_last(RING_DETACH).ring, 1);
	cr_expect_eq(play_last(RING_DETACH).value, 2);
	nfsrdma_disconnect(session);
}

Test(lib_session, what_the_daemon_refuses)
{
	connect_all();
	play_fault((struct play_fault){ RING_ATTACH, .status = -ENOSPC, .why = "this ring has its 1024 files" });
	cr_expect_eq(nfsrdma_attach(queue, 0, &file), -ENOSPC);
	cr_expect_str_eq(nfsrdma_why(), "this ring has its 1024 files");
	play_fault((struct play_fault){ RING_MEMORY, .status = -EPERM });
	cr_expect_eq(nfsrdma_memory_new(session, MEMORY, &memory), -EPERM);
	cr_expect_null(memory);
	expect_why("not permitted");
	play_fault((struct play_fault){ RING_OPEN, .status = -EMFILE, .why = "no" });
	cr_expect_eq(nfsrdma_queue_new(session, ENTRIES, &queue), -EMFILE);
	cr_expect_null(queue);
	cr_expect_eq(nfsrdma_memory_new(session, MEMORY, &memory), 0, "the session goes on");
	nfsrdma_disconnect(session);
}

Test(lib_session, a_file_of_another_mount)
{
	connect_all();
	strcpy(play.token_socket, "/nonexistent/rings");
	cr_expect_eq(nfsrdma_attach(queue, 0, &file), -EXDEV);
	play.token_error = ENOTTY;
	cr_expect_eq(nfsrdma_attach(queue, 0, &file), -ENOTTY);
	nfsrdma_disconnect(session);
}

Test(lib_session, answers_that_are_none)
{
	static const enum play_oddity oddities[] = { PLAY_SHORT, PLAY_VERSION, PLAY_POSITIVE };

	for (unsigned i = 0; i < 3; i++) {
		play_fault((struct play_fault){ RING_MEMORY, .oddity = oddities[i] });
		cr_assert_eq(nfsrdma_connect(0, &session), 0);
		cr_expect_eq(nfsrdma_memory_new(session, MEMORY, &memory), -EPROTO);
		cr_expect_eq(nfsrdma_memory_new(session, MEMORY, &memory), -ENOTCONN, "it has ended");
		nfsrdma_disconnect(session);
	}
	play_fault((struct play_fault){ RING_OPEN, .oddity = PLAY_NO_BELL });
	cr_assert_eq(nfsrdma_connect(0, &session), 0);
	cr_expect_eq(nfsrdma_queue_new(session, ENTRIES, &queue), -EPROTO);
	expect_why("no bell");
	nfsrdma_disconnect(session);
}

static void *ask_when_asleep(void *arg)
{
	struct nfsrdma_memory *own;

	play_wait_asleep(play_ring(0));
	cr_expect_eq(nfsrdma_memory_new(session, MEMORY, &own), -EPROTO);
	return NULL;
}

/* The daemon itself keeps the connection. */
Test(lib_session, an_answer_that_is_none_wakes_who_sleeps)
{
	pthread_t thread;

	connect_all();
	play_fault((struct play_fault){ RING_MEMORY, .oddity = PLAY_SHORT });
	cr_assert_eq(nfsrdma_read(queue, file, memory, 0, 4096, 0, 0), 0);
	cr_assert_eq(pthread_create(&thread, NULL, ask_when_asleep, NULL), 0);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, ENTRIES, 60000), -ENOTCONN);
	pthread_join(thread, NULL);
	nfsrdma_disconnect(session);
}

Test(lib_session, queues_of_another_size)
{
	static const unsigned sizes[] = { 0, 1, 3, 6, 4095, 8192, 1u << 31 };

	cr_assert_eq(nfsrdma_connect(0, &session), 0);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		cr_expect_eq(nfsrdma_queue_new(session, sizes[i], &queue), -EINVAL);
		expect_why("power of two from 2 to 4096");
	}
	cr_expect_eq(play_count(RING_OPEN), 0);
	nfsrdma_disconnect(session);
}

/* ---- memory ---- */

Test(lib_session, memory_is_zeroed_sealed_and_whole_pages)
{
	char *at;

	cr_assert_eq(nfsrdma_connect(0, &session), 0);
	cr_expect_eq(nfsrdma_memory_new(session, 0, &memory), -EINVAL);
	cr_expect_eq(nfsrdma_memory_new(session, SIZE_MAX, &memory), -EINVAL);
	cr_assert_eq(nfsrdma_memory_new(session, 5000, &memory), 0);
	cr_expect_eq(play_last(RING_MEMORY).value % (size_t)sysconf(_SC_PAGESIZE), 0);
	at = nfsrdma_memory_at(memory);
	for (unsigned i = 0; i < 5000; i++)
		cr_assert_eq(at[i], 0);
	at[4999] = 'a';
	cr_expect_eq(play_memory(0)[4999], 'a');
	cr_expect_eq(nfsrdma_memory_free(memory), 0);
	cr_expect_eq(play_last(RING_FORGET).value, 0);
	nfsrdma_disconnect(session);
}

Test(lib_session, memory_of_the_callers)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, MEMORY), 0);
	connect_all();
	cr_expect_eq(nfsrdma_memory_add(session, fd, 100, &memory), -EINVAL);
	cr_expect_eq(nfsrdma_memory_add(session, fd, 0, &memory), -EINVAL);
	cr_expect_eq(nfsrdma_memory_add(session, -1, MEMORY, &memory), -EBADF);
	cr_expect_eq(nfsrdma_memory_add(session, 9999, MEMORY, &memory), -EBADF);
	cr_assert_eq(nfsrdma_memory_add(session, fd, MEMORY, &memory), 0);
	cr_expect_null(nfsrdma_memory_at(memory));
	cr_assert_eq(pwrite(fd, "data", 4, 0), 4);
	cr_expect_arr_eq(play_memory(1), "data", 4);
	close(fd);
	cr_expect_eq(nfsrdma_read(queue, file, memory, MEMORY - 1, 1, 0, 0), 0);
	cr_expect_eq(nfsrdma_memory_free(memory), 0);
	cr_expect_eq(play_last(RING_FORGET).value, 1);
	nfsrdma_disconnect(session);
}

static void *fail_in_a_thread(void *arg)
{
	cr_expect_eq(nfsrdma_detach(queue, file), -EIO);
	expect_why("for this thread");
	return NULL;
}

Test(lib_session, why_is_each_threads_own)
{
	pthread_t thread;

	connect_all();
	play_fault((struct play_fault){ RING_DETACH, .status = -EIO, .why = "for this thread" });
	cr_expect_eq(nfsrdma_queue_new(session, 3, &(struct nfsrdma_queue *){ NULL }), -EINVAL);
	cr_assert_eq(pthread_create(&thread, NULL, fail_in_a_thread, NULL), 0);
	pthread_join(thread, NULL);
	expect_why("power of two");
	nfsrdma_disconnect(session);
}

static void *attach_often(void *arg)
{
	int fd = *(int *)arg;

	for (unsigned i = 0; i < 300; i++) {
		uint32_t number;

		cr_expect_eq(nfsrdma_attach(queue, fd, &number), 0);
		cr_expect_eq(number, (uint32_t)fd, "the answer is another request's");
	}
	return NULL;
}

Test(lib_session, threads_get_the_answers_to_their_requests)
{
	pthread_t threads[3];
	int fds[3] = { 0, 1, 2 };

	connect_all();
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, attach_often, &fds[i]), 0);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(play_count(RING_ATTACH), 901);
	nfsrdma_disconnect(session);
}

/* ---- the end of the daemon ---- */

static void read_some(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(nfsrdma_read(queue, file, memory, 0, 4096, 0, i), 0);
	cr_assert_eq(nfsrdma_submit(queue), 0);
}

static void expect_the_end(void)
{
	struct nfsrdma_queue *q;

	cr_expect_eq(nfsrdma_wait(queue, done, 1, ENTRIES, -1), -ENOTCONN);
	expect_why("has ended");
	cr_expect_eq(nfsrdma_submit(queue), -ENOTCONN);
	cr_expect_eq(nfsrdma_read(queue, file, memory, 0, 4096, 0, 0), -ENOTCONN);
	cr_expect_eq(nfsrdma_attach(queue, 0, &file), -ENOTCONN);
	cr_expect_eq(nfsrdma_queue_new(session, ENTRIES, &q), -ENOTCONN);
	cr_expect_eq(nfsrdma_detach(queue, 0), -ENOTCONN);
	cr_expect_eq(nfsrdma_memory_free(memory), -ENOTCONN);
	expect_why("has ended");
	nfsrdma_queue_free(queue);
	nfsrdma_disconnect(session);
}

static void *die_when_asleep(void *arg)
{
	play_wait_asleep(play_ring(0));
	play_die();
	return NULL;
}

Test(lib_session, the_daemon_dies_under_a_sleeping_queue)
{
	pthread_t thread;

	connect_all();
	read_some(2);
	cr_assert_eq(pthread_create(&thread, NULL, die_when_asleep, NULL), 0);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, ENTRIES, -1), -ENOTCONN);
	pthread_join(thread, NULL);
	expect_the_end();
}

Test(lib_session, the_daemon_dies_while_nobody_looks)
{
	connect_all();
	read_some(2);
	play_die();
	expect_the_end();
}

Test(lib_session, the_daemon_dies_under_one_that_does_not_sleep)
{
	int n = 0;

	connect_all();
	read_some(2);
	play_die();
	for (unsigned i = 0; i < 10000 && n == 0; i++)
		n = nfsrdma_wait(queue, done, i % 2, ENTRIES, 0);
	cr_expect_eq(n, -ENOTCONN);
	expect_the_end();
}

Test(lib_session, the_daemon_dies_and_cannot_be_woken)
{
	connect_all();
	cr_assert(play_lie_down(play_ring(0)));
	/* What is there of the ring stays. */
	play_fault((struct play_fault){ RING_FORGET, .dies = true });
	cr_expect_eq(nfsrdma_memory_free(memory), -ENOTCONN);
	cr_assert_eq(nfsrdma_queue_new(session, ENTRIES, &(struct nfsrdma_queue *){ NULL }), -ENOTCONN);
	session->ended = false;
	memory = &(struct nfsrdma_memory){ .session = session, .len = MEMORY };
	cr_assert_eq(nfsrdma_read(queue, file, memory, 0, 4096, 0, 0), 0);
	play_wait_disconnected();
	cr_expect_eq(nfsrdma_submit(queue), -ENOTCONN);
	nfsrdma_disconnect(session);
}

Test(lib_session, what_was_done_before_is_told_of)
{
	struct play_ring *ring;
	struct ring_sqe e;

	connect_all();
	ring = play_ring(0);
	read_some(3);
	while (play_take(ring, &e))
		;
	play_complete(ring, 2, 4096);
	play_die();
	cr_assert_eq(nfsrdma_wait(queue, done, 3, ENTRIES, -1), 1);
	cr_expect_eq(done[0].user_data, 2);
	expect_the_end();
}

Test(lib_session, the_daemon_dies_under_a_request)
{
	connect_all();
	play_fault((struct play_fault){ RING_ATTACH, .dies = true });
	cr_expect_eq(nfsrdma_attach(queue, 0, &file), -ENOTCONN);
	expect_the_end();
}

static void *close_bell_when_asleep(void *arg)
{
	play_wait_asleep(play_ring(0));
	shutdown(play_ring(0)->bell, SHUT_RDWR);
	return NULL;
}

Test(lib_session, one_ring_ends)
{
	struct nfsrdma_queue *other;
	pthread_t thread;

	connect_all();
	read_some(2);
	cr_assert_eq(pthread_create(&thread, NULL, close_bell_when_asleep, NULL), 0);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, ENTRIES, -1), -ENOTCONN);
	pthread_join(thread, NULL);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, ENTRIES, -1), -ENOTCONN);
	cr_expect_eq(nfsrdma_read(queue, file, memory, 0, 4096, 0, 0), -ENOTCONN);
	cr_assert_eq(nfsrdma_queue_new(session, ENTRIES, &other), 0, "the others go on");
	cr_expect_eq(nfsrdma_read(other, file, memory, 0, 4096, 0, 0), 0);
	cr_expect_eq(nfsrdma_submit(other), 0);
	nfsrdma_disconnect(session);
}

/* ---- the program's end, and fork() ---- */

static bool hears_the_end(int bell)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };
	char byte;

	return poll(&p, 1, 60000) == 1 && recv(bell, &byte, 1, MSG_DONTWAIT) == 0;
}

static unsigned count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* The played daemon's descriptors count, too: it has closed what came with a request when it answers the
 * next one. */
Test(lib_session, nothing_stays_open)
{
	unsigned before, n;

	cr_assert_eq(nfsrdma_connect(0, &session), 0);
	cr_assert_eq(nfsrdma_memory_new(session, MEMORY, &memory), 0);
	nfsrdma_disconnect(session);
	play_wait_disconnected();
	before = count_descriptors();
	connect_all();
	n = count_descriptors();
	cr_expect_eq(nfsrdma_queue_new(session, 3, &(struct nfsrdma_queue *){ NULL }), -EINVAL);
	play_fault((struct play_fault){ RING_OPEN, .status = -EMFILE });
	cr_expect_eq(nfsrdma_queue_new(session, 4, &(struct nfsrdma_queue *){ NULL }), -EMFILE);
	cr_assert_eq(nfsrdma_detach(queue, file), 0);
	cr_expect_eq(count_descriptors(), n);
	nfsrdma_queue_free(queue);
	cr_expect(hears_the_end(play_ring(0)->bell));
	nfsrdma_disconnect(session);
	play_wait_disconnected();
	cr_expect_eq(count_descriptors(), before + 1, "that one is the played daemon's, of the bell");
	nfsrdma_disconnect(NULL);
}

/* In the child: 0, or what is wrong. */
static int disconnect_in_child(void)
{
	char *memory_at = nfsrdma_memory_at(memory), *ring_at = (char *)queue->ring;
	int bell = queue->bell, fd = session->socket;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	/* Neither is in the child: its own memory may lie there. */
	if (mmap(memory_at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0) != memory_at)
		return 1;
	if (mmap(ring_at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0) != ring_at)
		return 2;
	nfsrdma_disconnect(session);
	memory_at[0] = ring_at[0] = 'c';
	if (fcntl(bell, F_GETFD) != -1 || fcntl(fd, F_GETFD) != -1)
		return 3;
	return 0;
}

Test(lib_session, a_child_that_disconnects_does_not_hurt)
{
	struct ring_sqe e;
	int wstatus;
	pid_t child;

	connect_all();
	read_some(1);
	child = fork();
	if (child == 0)
		_exit(disconnect_in_child());
	cr_assert_eq(waitpid(child, &wstatus, 0), child);
	cr_expect_eq(wstatus, 0, "status %#x", wstatus);
	cr_assert(play_take(play_ring(0), &e));
	play_complete(play_ring(0), e.user_data, 4096);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, ENTRIES, -1), 1);
	cr_expect_eq(nfsrdma_attach(queue, 0, &file), 0);
	nfsrdma_disconnect(session);
}

/* The child has copies of the descriptors all the time. */
Test(lib_session, a_child_does_not_keep_a_session_alive)
{
	pid_t child;
	int hold[2];
	char byte;

	connect_all();
	cr_assert_eq(pipe(hold), 0);
	child = fork();
	if (child == 0) {
		close(hold[1]);
		_exit(read(hold[0], &byte, 1) != 0);
	}
	nfsrdma_queue_free(queue);
	cr_expect(hears_the_end(play_ring(0)->bell));
	nfsrdma_disconnect(session);
	play_wait_disconnected();
	close(hold[0]);
	close(hold[1]);
	cr_expect_eq(waitpid(child, NULL, 0), child);
}
