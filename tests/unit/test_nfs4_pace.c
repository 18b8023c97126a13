/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server that creates sessions and rejects them at the first call, for ever or for a
 * while: how often the client tries, what it logs, and that it can be stopped.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "nfs4_server.h"

/* Sessions after the mount's, each rejected: three at once, then with pauses of 100, 200,
 * 400 and 800 ms before them. */
#define SESSIONS 7u
#define PAUSES_MS (100u + 200u + 400u + 800u)

static int said;                /* what goes to standard error */

static void start(void)
{
	server4_start();
	server4_mount();
	server.badsession = UINT32_MAX;
	cr_assert_eq(nfs_control_start(&fake_cl), 0);
}

TestSuite(nfs4_pace, .init = start, .fini = server4_stop, .timeout = 300);

/* Standard error into a file that has a descriptor and no name. */
static void listen_to_messages(void)
{
	FILE *f = tmpfile();

	cr_assert_not_null(f);
	said = fileno(f);
	dup2(said, STDERR_FILENO);
}

static unsigned lines_said(const char *with)
{
	static char text[65536];
	ssize_t len = pread(said, text, sizeof(text) - 1, 0);
	unsigned n = 0;

	cr_assert_geq(len, 0);
	text[len] = '\0';
	for (const char *p = text; (p = strstr(p, with)); p++)
		n++;
	return n;
}

Test(nfs4_pace, tries_get_rare_and_messages_do_not_repeat)
{
	struct one_call call = { 0 };
	uint64_t began = mono_ns();

	listen_to_messages();
	begin(&call, NFS_OP_GETATTR, NULL);
	server4_await_sessions(1 + SESSIONS);
	cr_expect_geq((mono_ns() - began) / 1000000, PAUSES_MS);
	cr_expect_eq(lines_said("keeps losing the state"), 1);
	cr_expect_leq(lines_said("recovered"), 4, "one for each that was made at once");
	/* The server behaves again. */
	server.badsession = 0;
	await(&call, 0);
	cr_assert(nfs_control_stop(&fake_cl, 30000));
}

/* ... or does not make one: it is asked for with another number each time, and the log says why once. */
Test(nfs4_pace, sessions_that_are_refused)
{
	struct one_call call = { 0 };
	uint64_t began = mono_ns();

	listen_to_messages();
	server.session_error = 28;      /* NOSPC */
	server.session_errors = SESSIONS;
	server.badsession = 1;
	begin(&call, NFS_OP_GETATTR, NULL);
	await(&call, 0);
	cr_expect_geq((mono_ns() - began) / 1000000, PAUSES_MS);
	cr_expect_eq(lines_said("No space left on device"), 1);
	cr_assert(nfs_control_stop(&fake_cl, 30000));
	cr_expect(!strncmp(server.log, "BSXSXSXSXSXSXSXSg", 17), "%s", server.log);
}

/* The server loses one stateid after another. Other calls need not wait for that. */
Test(nfs4_pace, single_opens_do_not_count)
{
	uint64_t began = mono_ns();

	listen_to_messages();
	server.badsession = 0;
	have_open(0);
	for (unsigned i = 0; i < SESSIONS; i++) {
		struct one_call call = { 0 };

		server.set = NFS4ERR_BAD_STATEID;
		begin(&call, NFS_OP_SETATTR, open_nr(0));
		await(&call, 0);
	}
	cr_expect_lt((mono_ns() - began) / 1000000, PAUSES_MS);
	cr_expect_eq(lines_said("keeps losing the state"), 0);
	cr_assert(nfs_control_stop(&fake_cl, 30000));
	cr_expect_str_eq(server.log, "sFssFssFssFssFssFssFs");
}

/* The mount ends during a pause, and while a call waits. */
Test(nfs4_pace, the_mount_can_be_ended_meanwhile)
{
	static struct one_call call;

	begin(&call, NFS_OP_GETATTR, NULL);
	/* The next pause, which is ended, is 3.2 s. */
	server4_await_sessions(1 + SESSIONS + 1);
	cr_assert(nfs_control_stop(&fake_cl, 3000));
	/* Who waits is told, or answered. */
	server.badsession = 0;
	resume();
	pthread_join(call.caller, NULL);
	cr_assert(call.rc == 0 || call.rc == -ESHUTDOWN);
}
