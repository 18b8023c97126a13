/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * New connections of a mount of version 4.1: all calls of a check, against a server that has
 * restarted or moved, with the recovery that follows; and a connection that has not joined.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "nfs/paths.h"
#include "nfs4_server.h"

TestSuite(nfs4_check_mount, .init = server4_start, .fini = server4_stop, .timeout = 300);

/* To its end. */
static int check(bool may_move, bool alone, const char *letters)
{
	struct nfs_check c = { .may_move = may_move };
	size_t before = strlen(server.log);
	int rc;

	do
		rc = server4_check(&c, alone);
	while (rc == NFS_NEXT);
	cr_assert_str_eq(server.log + before, letters);
	cr_assert_eq(server.probes_left, 0, "something is left on the server");
	return rc;
}

Test(nfs4_check_mount, another_connection)
{
	server4_mount();
	cr_assert_eq(check(false, false, "xeJ"), 0);
	cr_assert_eq(check(false, false, "xeJ"), 0);
	server.name = "other";
	cr_assert_eq(check(false, false, "xe"), -EXDEV);
	cr_assert_eq(check(true, false, "xe"), -EXDEV, "the old one is still there");
	server.name = "server";
	server.scope = "other";
	cr_assert_eq(check(false, true, "xe"), -EXDEV);
	cr_assert_eq(client4()->identity.now.changes, 1);
}

Test(nfs4_check_mount, restarted_server)
{
	server4_mount();
	have_open(0);
	server.stale = true;
	cr_assert_eq(check(false, true, "xej"), 0);
	cr_assert(fake_ctl.recover, "nobody else may find it");
	cr_assert_eq(check(false, true, "xe"), 0, "recovery goes first");
	cr_assert_eq(check(false, false, "xej"), NFS_LATER);
	memset(server.log, 0, sizeof(server.log));
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "SXSPC");
	expect_open(0, false);
	cr_assert_eq(check(false, false, "xeJ"), 0);
	cr_assert_eq(client4()->identity.now.changes, 1);
}

/* Fail-over of a whole server. */
Test(nfs4_check_mount, server_has_moved)
{
	server4_mount();
	have_open(0);
	server.stale = true;
	server.name = "standby";
	cr_assert_eq(check(false, true, "xe"), -EXDEV, "this path has not led there before");
	cr_assert_eq(check(true, true, "xej"), 0);
	cr_assert_eq(client4()->identity.now.changes, 2);
	memset(server.log, 0, sizeof(server.log));
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "SXSPC");
	expect_open(0, false);
	cr_assert_eq(check(false, false, "xeJ"), 0);
	cr_assert_eq(client4()->identity.now.changes, 2);
}

/* The check finds it, and recovery has to know: nothing is reclaimed. */
Test(nfs4_check_mount, server_has_moved_to_another_scope)
{
	server4_mount();
	have_open(0);
	server.stale = true;
	server.scope = "other";
	cr_assert_eq(check(true, true, "xej"), 0);
	cr_assert_eq(client4()->identity.now.changes, 2);
	memset(server.log, 0, sizeof(server.log));
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "SXSCF");
	expect_open(0, false);
	cr_assert_eq(client4()->identity.now.changes, 2);
}

/* ---- at the same time ---- */

#define ROUNDS 12u

static void *recovers(void *rc)
{
	for (unsigned i = 0; i < ROUNDS && !*(int *)rc; i++) {
		atomic_store(&client4()->need_client, true);
		*(int *)rc = nfs4_recover(&fake_cl.server);
	}
	return NULL;
}

/* The control thread gets client ids and sessions, while a lane asks the same server who it is. */
Test(nfs4_check_mount, recovery_while_connections_are_checked)
{
	pthread_t control;
	int rc = 0;

	server4_mount();
	cr_assert_eq(pthread_create(&control, NULL, recovers, &rc), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct nfs_check c = { .may_move = i % 2 };
		int one;

		/* Lanes hold during a recovery, which is not played here. So a check may meet the
		 * moment between two sessions. It is made again, as the connector would. */
		do {
			one = server4_check(&c, i % 3 == 0);
			if (one == -EAGAIN)
				c = (struct nfs_check){ .may_move = i % 2 };
		} while (one == NFS_NEXT || one == NFS_LATER || one == -EAGAIN);
		cr_assert_eq(one, 0, "%d: %s", one, c.why.text);
	}
	pthread_join(control, NULL);
	cr_assert_eq(rc, 0);
	cr_assert_eq(client4()->identity.now.changes, 1);
	cr_assert_eq(server.probes_left, 0);
	cr_assert_null(strchr(server.log, 'B'), "%s", server.log);
}

/* ---- a connection that has not joined ---- */

/* The session is good: nothing is recovered. Each such connection goes, and the call is sent again
 * on the next one, in its slot. */
Test(nfs4_check_mount, sequence_on_a_connection_that_has_not_joined)
{
	struct one_call o;
	uint32_t seqid;
	unsigned opens;

	fake_times.retry_ms = 1;
	server4_mount();
	cr_assert_eq(nfs_connector_start(&fake_cl.server.path[0]), 0);
	opens = fake_opens;
	seqid = client4()->slots.seqid[0];
	server.unbound = 3;
	begin(&o, NFS_OP_GETATTR, NULL);
	await(&o, 0);
	cr_assert_str_eq(server.log, "uuug");
	cr_assert_eq(fake_opens, opens + 3, "a connection was kept");
	cr_assert_not(fake_ctl.recover || atomic_load(&client4()->need_session));
	cr_assert_eq(client4()->slots.seqid[0], seqid + 1, "not the same slot");
	cr_assert(nfs_connectors_stop(&fake_cl, 20000));
}

/* The only path of the mount leads to a server that was always there, so that its connections
 * need no check; but this server wants each of them to join. */
Test(nfs4_check_mount, server_that_wants_connections_to_join)
{
	struct one_call o[2];

	fake_times.retry_ms = 1;
	server4_mount();
	atomic_store(&fake_cl.server.checks, true);
	cr_assert_eq(nfs_connector_start(&fake_cl.server.path[0]), 0);
	server.strict = true;
	server.joined = 0;              /* the connection is another one than it was */
	begin(&o[0], NFS_OP_GETATTR, NULL);
	await(&o[0], 0);
	cr_assert_str_eq(server.log, "uxeJg");
	/* The next ones join before any call is refused. */
	nfs_path_reconnect(&fake_cl, 0, NULL);
	begin(&o[1], NFS_OP_GETATTR, NULL);
	await(&o[1], 0);
	cr_assert_str_eq(server.log, "uxeJgxeJg");
	cr_assert(nfs_connectors_stop(&fake_cl, 20000));
}
