/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libnfsrdma with a played daemon: the end of either, and fork(). */
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

#include "lib_session_play.h"

static struct nfsrdma_done done[ENTRIES];

TestSuite(lib_end, .init = play_start, .fini = play_die, .timeout = 300);

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

Test(lib_end, the_daemon_dies_under_a_sleeping_queue)
{
	pthread_t thread;

	connect_all();
	read_some(2);
	cr_assert_eq(pthread_create(&thread, NULL, die_when_asleep, NULL), 0);
	cr_expect_eq(nfsrdma_wait(queue, done, 1, ENTRIES, -1), -ENOTCONN);
	pthread_join(thread, NULL);
	expect_the_end();
}

Test(lib_end, the_daemon_dies_while_nobody_looks)
{
	connect_all();
	read_some(2);
	play_die();
	expect_the_end();
}

Test(lib_end, the_daemon_dies_under_one_that_does_not_sleep)
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

Test(lib_end, the_daemon_dies_and_cannot_be_woken)
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

Test(lib_end, what_was_done_before_is_told_of)
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

Test(lib_end, the_daemon_dies_under_a_request)
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

Test(lib_end, one_ring_ends)
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
Test(lib_end, nothing_stays_open)
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
	cr_expect_eq(play_count(RING_CLOSE), 1);
	cr_expect_eq(play_last(RING_CLOSE).ring, 0);
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

Test(lib_end, a_child_that_disconnects_does_not_hurt)
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
Test(lib_end, a_child_does_not_keep_a_session_alive)
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
