/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locks of version 3: this host's rpc.statd, one of the test's, is asked to remember the server. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "nlm_lockd.h"

static struct {
	int listener;
	pthread_t thread;
	_Atomic unsigned calls;
	uint32_t says;                  /* SM_MON: 0: it does */
	unsigned words;                 /* so many of its two results */
	uint32_t call[512];             /* the last one, from its record mark on */
} statd = { .words = 2 };

static bool get(int fd, void *buf, size_t len)
{
	return recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len;
}

static void *statd_main(void *arg)
{
	int fd;

	(void)arg;
	while ((fd = accept(statd.listener, NULL, NULL)) >= 0) {
		uint32_t reply[9] = { 0 };

		while (get(fd, statd.call, 4) && get(fd, statd.call + 1, ntohl(statd.call[0]) & 0x7fffffff)) {
			reply[0] = htonl(0x80000000 | (6 + statd.words) * 4);
			reply[1] = statd.call[1];
			reply[2] = htonl(1);
			reply[7] = htonl(statd.says);
			reply[8] = htonl(77);
			statd.calls++;
			send(fd, reply, (7 + statd.words) * 4, MSG_NOSIGNAL);
		}
		close(fd);
	}
	return NULL;
}

static void start(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);

	statd.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(statd.listener, (struct sockaddr *)&in, len), 0);
	cr_assert_eq(listen(statd.listener, 5), 0);
	cr_assert_eq(getsockname(statd.listener, (struct sockaddr *)&in, &len), 0);
	cr_assert_eq(pthread_create(&statd.thread, NULL, statd_main, NULL), 0);
	lockd_start();
	lockd.statd_port = ntohs(in.sin_port);
}

static void stop(void)
{
	lockd_stop();
	shutdown(statd.listener, SHUT_RDWR);
	pthread_join(statd.thread, NULL);
	close(statd.listener);
}

TestSuite(nlm_watch, .init = start, .fini = stop, .timeout = 60);

/* A counted string; returns what follows it. */
static const uint32_t *is_string(const uint32_t *w, const char *text)
{
	cr_assert_eq(ntohl(*w), strlen(text));
	cr_assert(!memcmp(w + 1, text, strlen(text)));
	return w + 1 + (strlen(text) + 3) / 4;
}

Test(nlm_watch, what_is_asked)
{
	const uint32_t *w = statd.call + 4;
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	cr_assert_eq(statd.calls, 0);
	cr_assert_eq(lock(0, 1, true), 0);
	cr_assert(ntohl(w[0]) == 100024 && ntohl(w[1]) == 1 && ntohl(w[2]) == 2);
	cr_assert(!w[3] && !w[4] && !w[5] && !w[6], "AUTH_NONE");
	w = is_string(is_string(w + 7, "127.0.0.1"), host);
	cr_assert(ntohl(w[0]) == 100021 && ntohl(w[1]) == 4 && ntohl(w[2]) == 16);
	cr_assert_eq((ntohl(statd.call[0]) & 0x7fffffff) / 4, (unsigned)(w + 3 + 4 - statd.call) - 1);
	cr_assert_eq(lockd.state, 77);
	cr_assert_eq(lock(5, 1, true), 0);
	lockd_cut();
	cr_assert_eq(unlock(0, 1), 0);
	lockd_expect_log("M0+1w M5+1w R5+1w M5+1w U0+1 ");
	cr_assert_eq(statd.calls, 1);
	cr_assert_eq(said_times("if this daemon is killed"), 1);
}

/* It is asked again on a new connection, because its rpc.statd may come up after its lock manager. */
Test(nlm_watch, the_server_has_none)
{
	lockd.no_statd = true;
	cr_assert_eq(lock(0, 1, true), 0);
	cr_assert_eq(lock(5, 1, true), 0);
	cr_assert_eq(said_times("if this host crashes, or this daemon is killed"), 1);
	lockd_cut();
	cr_assert_eq(test(), 0);
	lockd_expect_log("M0+1w L0+1w L5+1w R0+1w M0+1w L0+1w L5+1w T0+0w ");
}

/* "No locks" may be meant as it is said. */
Test(nlm_watch, the_server_has_no_locks)
{
	lockd_answers(NLM4_DENIED_NOLOCKS, 0);
	cr_assert_eq(lock(0, 1, true), -ENOLCK);
	lockd_expect_log("M0+1w L0+1w ");
}

static void unwatched(void)
{
	cr_assert_eq(lock(0, 1, true), 0);
	cr_assert_eq(unlock(0, 1), 0);
	lockd_expect_log("L0+1w U0+1 ");
	cr_assert_eq(said_times("if this host crashes, or this daemon is killed"), 1);
}

Test(nlm_watch, it_refuses)
{
	statd.says = 1;
	unwatched();
}

Test(nlm_watch, its_answer_is_cut)
{
	statd.words = 1;
	unwatched();
}

Test(nlm_watch, it_does_not_run)
{
	lockd.statd_port = 1;
	unwatched();
}
