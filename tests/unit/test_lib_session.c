/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libnfsrdma with a played daemon: sessions and memory. Their end: test_lib_end.c. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib_session_play.h"

TestSuite(lib_session, .init = play_start, .fini = play_die, .timeout = 300);

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
}

/* A program without a descriptor to spare. The daemon has made the ring. */
Test(lib_session, a_bell_that_does_not_come)
{
	unsigned closed;

	play_fault((struct play_fault){ RING_OPEN, .oddity = PLAY_NO_BELL });
	cr_assert_eq(nfsrdma_connect(0, &session), 0);
	closed = play_count(RING_CLOSE);
	cr_expect_eq(nfsrdma_queue_new(session, ENTRIES, &queue), -EMFILE);
	expect_why("bell");
	cr_expect_eq(play_count(RING_CLOSE), closed + 1, "the ring is given back");
	play_fault((struct play_fault){ .oddity = PLAY_NONE });
	cr_expect_eq(nfsrdma_queue_new(session, ENTRIES, &queue), 0, "the session goes on");
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
	struct nfsrdma_done done[ENTRIES];
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
