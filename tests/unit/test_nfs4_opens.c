/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens that come and go while recovery is at work, or that there is no memory for, or whose
 * file another client has locked.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "nfs4_server.h"

TestSuite(nfs4_opens, .init = server4_start, .fini = server4_stop, .timeout = 300);

/* The file's table may have given it up before. */
Test(nfs4_opens, a_file_goes_with_its_last_open)
{
	const struct nfs_fh fh = { .len = 4, .data = "file" };
	struct nfs_file *f = fake_file(NULL, &fh);
	struct nfs_open *o[2];

	server4_mount();
	for (unsigned i = 0; i < 2; i++) {
		o[i] = calloc(1, sizeof(*o[i]));
		nfs4_open_list(&client4()->opens[i], o[i]);
		o[i]->file = nfs_file_ref(f);
	}
	nfs_file_put(f);
	nfs4_open_get(o[1]);
	nfs4_open_put(o[0]);
	nfs4_open_put(o[1]);
	cr_assert_eq(atomic_load(&f->refs), 1, "somebody still has the other one");
	nfs4_open_put(o[1]);            /* AddressSanitizer sees who does not free the file */
}

/* The walk goes on where it was, even if the open that it is at is closed meanwhile. */
Test(nfs4_opens, opens_go_under_a_walk)
{
	static const unsigned lane[4] = { 0, 0, 3, NFS_LANES_MAX - 1 };
	struct nfs_open *o[4], *at;

	server4_mount();
	for (unsigned i = 0; i < 4; i++) {
		o[i] = calloc(1, sizeof(*o[i]));
		nfs4_open_list(&client4()->opens[lane[i]], o[i]);
	}
	at = nfs4_next_open(client4(), NULL);
	cr_assert_eq(at, o[0]);
	nfs4_open_put(o[0]);
	cr_assert_eq(o[0]->refs, 1, "the walk has it");
	nfs4_open_put(o[1]);
	at = nfs4_next_open(client4(), at);
	cr_assert_eq(at, o[2], "of another lane");
	nfs4_open_put(o[2]);
	at = nfs4_next_open(client4(), at);
	cr_assert_eq(at, o[3]);
	cr_assert_null(nfs4_next_open(client4(), at));
	nfs4_open_put(o[3]);
	cr_assert_null(nfs4_next_open(client4(), NULL));
}

static _Atomic unsigned all_gone;

static void *coming_and_going(void *arg)
{
	struct nfs4_client *n = arg;
	const struct nfs_fh file = { .len = 4, .data = "file" };

	for (unsigned i = 0; i < 200000; i++) {
		struct nfs_open *o = calloc(1, sizeof(*o));

		nfs4_open_list(&n->opens[i % 3], o);
		o->file = fake_file(NULL, &file);
		atomic_init(&o->settled, true);
		nfs4_open_put(o);
	}
	atomic_fetch_add(&all_gone, 1);
	return NULL;
}

/* On a lane CLOSE ends and drops its reference, while recovery is about to take one to the
 * same open. Either recovery finds the open gone, or it keeps the open. */
Test(nfs4_opens, opens_go_while_recovery_walks)
{
	pthread_t lane[2];

	server4_mount();
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&lane[i], NULL, coming_and_going, client4()), 0);
	while (atomic_load(&all_gone) < 2)
		cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(lane[i], NULL);
	cr_assert(!nfs4_next_open(client4(), NULL));
	cr_assert_str_eq(server.log, "");
}

/* If it were opened again it would stay open on the server for good: the CLOSE that waits has
 * another stateid, and nobody closes the open after that. */
Test(nfs4_opens, what_is_being_closed_is_not_opened_again)
{
	struct one_call close = { 0 };

	server4_mount();
	have_open(0);
	have_open(1);
	server.badsession = 1;
	begin(&close, NFS_OP_CLOSE, open_nr(0));
	server4_await(1);
	server.complete = false;
	atomic_store(&client4()->need_opens, true);
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	resume();
	await(&close, 0);
	cr_assert_str_eq(server.log, "BSPCc", "the other one only");
	expect_open(0, false);
}

/* The OPEN has its reply, and is not sent again because its attributes come later. So
 * recovery has to recover the open like any other. */
Test(nfs4_opens, what_is_opened_is_recovered_though_its_attributes_are_late)
{
	struct one_call open = { 0 };

	server4_mount();
	server.late_attrs = 1;
	begin(&open, NFS_OP_OPEN, NULL);
	server4_await(1);
	server.complete = false;
	atomic_store(&client4()->need_opens, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	resume();
	await(&open, 0);
	cr_assert_not_null(strchr(server.log, 'P'), "%s", server.log);
	cr_assert(open.open && open.open->stateid.seqid == server.opens);
	/* Now it is as any other. */
	atomic_store(&open.open->reopen, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_not_null(strchr(server.log, 'F'));
}

/* The server has opened the file. Without a file of ours the open is closed by the handle that
 * it was opened by. It has no name: that is an open by CREATE only. */
Test(nfs4_opens, an_open_without_memory_is_closed_by_its_handle)
{
	struct one_call open = { 0 };

	server4_mount();
	fake_no_file = true;
	begin(&open, NFS_OP_OPEN, NULL);
	await(&open, -ENOMEM);
	cr_assert_str_eq(server.log, "Oc");
	cr_assert_null(open.open);
	cr_assert(!nfs4_next_open(client4(), NULL));
	/* Then all is as before. */
	fake_no_file = false;
	begin(&open, NFS_OP_OPEN, NULL);
	await(&open, 0);
	cr_assert_str_eq(server.log, "OcO");
}

/* Another client's lock is waited for, but not as long as that client likes. */
Test(nfs4_opens, a_lock_that_stays)
{
	struct one_call set = { 0 };

	fake_times.later_ms = 1;
	server4_mount();
	have_open(0);
	server.set = NFS4ERR_LOCKED;
	begin(&set, NFS_OP_SETATTR, open_nr(0));
	await(&set, 0);
	cr_assert_str_eq(server.log, "ss", "it was there for a moment");
	server.set = NFS4ERR_LOCKED;
	server.set_stays = true;
	begin(&set, NFS_OP_SETATTR, open_nr(0));
	await(&set, -EBUSY);
	cr_assert_not(atomic_load(&open_nr(0)->lost));
}
