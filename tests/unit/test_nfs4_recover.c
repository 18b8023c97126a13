/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mount and recovery of version 4.1, from the calls that go out to what becomes
 * of the opens.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "nfs4_server.h"
#include "nfs/nfs4/nfs4_compound.h"

TestSuite(nfs4_recover, .init = server4_start, .fini = server4_stop, .timeout = 300);

/* ---- recovery ---- */

/* The server forgets all of it. log: what it hears then. */
static void restarts(const char *log)
{
	server.stale = true;
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, log);
}

/* A restart, and its grace period: opens are reclaimed, then it is told so. */
Test(nfs4_recover, restarted_server)
{
	server4_mount();
	have_open(0);
	have_open(1);
	restarts("SXSPPC");
	expect_open(0, false);
	expect_open(1, false);
}

/* The lease has ended, or the grace period: there is nothing to reclaim, and
 * any other OPEN is refused before RECLAIM_COMPLETE. */
Test(nfs4_recover, lease_ended)
{
	server4_mount();
	have_open(0);
	have_open(1);
	server.reclaim[0] = NFS4ERR_NO_GRACE;
	server.reclaim[1] = NFS4ERR_RECLAIM_BAD;
	restarts("SXSPPCFF");
	expect_open(0, false);
	expect_open(1, false);
}

static void is_ready(void)
{
	server.reclaim[0] = 0;
}

/* In its grace period, and not ready for what that is for. */
Test(nfs4_recover, a_reclaim_that_is_told_grace)
{
	fake_times.later_ms = 1;
	server4_mount();
	have_open(0);
	have_open(1);
	server.reclaim[0] = NFS4ERR_GRACE;
	server.executed = is_ready;
	restarts("SXSPPPC");
	expect_open(0, false);
	expect_open(1, false);
}

/* ... for longer than a lease period: no open is lost by that, nor does the mount stand still for ever. */
static void reclaims_that_are_always_told(uint32_t status)
{
	fake_times.later_ms = 1;
	server4_mount();
	atomic_store(&client4()->lease_s, 0);
	have_open(0);
	have_open(1);
	server.reclaim[0] = server.reclaim[1] = status;
	restarts("SXSPPCFF");
	expect_open(0, false);
	expect_open(1, false);
}

Test(nfs4_recover, reclaims_that_are_always_told_grace)
{
	reclaims_that_are_always_told(NFS4ERR_GRACE);
}

Test(nfs4_recover, reclaims_that_are_always_delayed)
{
	reclaims_that_are_always_told(NFS4ERR_DELAY);
}

/* Another server, which has a grace period of its own: nothing is reclaimed there. From then on it is this
 * mount's server, and what is open there is reclaimed when it restarts. */
Test(nfs4_recover, another_scope)
{
	server4_mount();
	have_open(0);
	have_open(1);
	server.stale = true;
	server.scope = "other";
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "SXSCFF");
	expect_open(0, false);
	expect_open(1, false);
	restarts("SXSCFFSXSPPC");
}

/* It restarts before the opens are settled: it has the scope of before now, and has never had them. */
Test(nfs4_recover, another_scope_that_restarts)
{
	server4_mount();
	have_open(0);
	server.stale = true;
	server.scope = "other";
	server.restarts = 2;
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "SXSXSCF");
	expect_open(0, false);
}

Test(nfs4_recover, some_are_lost)
{
	server4_mount();
	for (unsigned i = 0; i < 4; i++)
		have_open(i);
	server.reclaim[1] = 10001;      /* BADHANDLE */
	server.reclaim[2] = server.reclaim[3] = NFS4ERR_NO_GRACE;
	server.open[3] = 70;            /* STALE */
	server.stale = true;
	atomic_store(&client4()->need_client, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "XSPPPPCFF");
	expect_open(0, false);
	expect_open(1, true);
	expect_open(2, false);
	expect_open(3, true);
}

/* Nobody may read the file any more. Who only writes, and was let in to read by the way, needs no more. */
Test(nfs4_recover, what_may_not_be_read_any_more)
{
	server4_mount();
	have_open(0);
	open_nr(0)->needed = OPEN4_SHARE_ACCESS_WRITE;
	server.forbids = OPEN4_SHARE_ACCESS_READ;
	restarts("SXSPPC");
	expect_open(0, false);
	/* From now on as it is. */
	atomic_store(&open_nr(0)->reopen, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "SXSPPCF");
	cr_assert_eq(open_nr(0)->access, OPEN4_SHARE_ACCESS_WRITE);
	expect_open(0, false);
}

/* The grace period is over, and the file may not be read. */
Test(nfs4_recover, what_may_not_be_read_and_is_not_reclaimed)
{
	server4_mount();
	have_open(0);
	open_nr(0)->needed = OPEN4_SHARE_ACCESS_WRITE;
	atomic_store(&open_nr(0)->reopen, true);
	server.forbids = OPEN4_SHARE_ACCESS_READ;
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "FF");
	expect_open(0, false);
}

/* ---- files whose mode lets nobody open them again ---- */

static bool is_anonymous(stateid4 s)
{
	static const stateid4 none;

	return !memcmp(&s, &none, sizeof(s));
}

/* The owner has it open, and the mode forbids one kind of access, or both. */
static void restart_with_mode(uint32_t forbids, const char *log, uint32_t access)
{
	const struct nfs_open *o;

	server4_mount();
	have_open(0);
	server.forbids = forbids;
	server.stale = true;
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, log);
	o = open_nr(0);
	cr_assert_eq(o->access, access);
	cr_assert(!atomic_load(&o->lost) && !atomic_load(&o->reopen));
	cr_assert_eq(is_anonymous(nfs4_io_stateid(o, false)), !access);
	cr_assert_eq(is_anonymous(nfs4_io_stateid(o, true)), !(access & OPEN4_SHARE_ACCESS_WRITE));
}

/* 0444, as git makes its objects. */
Test(nfs4_recover, may_be_opened_to_read_only)
{
	restart_with_mode(OPEN4_SHARE_ACCESS_WRITE, "SXSPPC", OPEN4_SHARE_ACCESS_READ);
	expect_open(0, false);
}

/* 0200: what is open to write may be read by that. */
Test(nfs4_recover, may_be_opened_to_write_only)
{
	restart_with_mode(OPEN4_SHARE_ACCESS_READ, "SXSPPPC", OPEN4_SHARE_ACCESS_WRITE);
	expect_open(0, false);
}

/* 0: nothing is open at the server, nothing is asked for again, and nothing is tested. */
Test(nfs4_recover, may_not_be_opened)
{
	restart_with_mode(OPEN4_SHARE_ACCESS_BOTH, "SXSPPPC", 0);
	restarts("SXSPPPCSXSC");
	atomic_store(&client4()->need_test, true);
	atomic_store(&open_nr(0)->reopen, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "SXSPPPCSXSC");
	cr_assert(!atomic_load(&open_nr(0)->reopen) && !atomic_load(&open_nr(0)->lost));
}

/* The session lives, and SEQUENCE says that the opens do not. */
Test(nfs4_recover, opens_are_gone)
{
	server4_mount();
	have_open(0);
	server.complete = false;
	atomic_store(&client4()->need_opens, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "PC");
	expect_open(0, false);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "PC", "once");
}

Test(nfs4_recover, one_stateid)
{
	server4_mount();
	have_open(0);
	have_open(1);
	atomic_store(&open_nr(1)->reopen, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "F");
	cr_assert_eq(open_nr(0)->stateid.seqid, 0);
	expect_open(1, false);
}

/* A reply that is no answer says nothing about the open: it is asked for again. */
static void no_answers(unsigned cut, unsigned err_chunk, const char *log)
{
	fake_times.later_ms = 1;
	server4_mount();
	have_open(0);
	have_open(1);
	have_open(2);
	server.reclaim[1] = NFS4ERR_NO_GRACE;
	server.reclaim[2] = 10001;      /* BADHANDLE: that is an answer */
	server.stale = true;
	server.cut = cut;
	server.err_chunk = err_chunk;
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, log);
	cr_assert(server.cut == 0 && server.err_chunk == 0);
	expect_open(0, false);
	expect_open(1, false);
	expect_open(2, true);
}

Test(nfs4_recover, a_reply_that_is_cut)
{
	no_answers(1, 0, "SXSPPPPCF");
}

Test(nfs4_recover, the_transport_refuses_a_reply)
{
	no_answers(0, 4, "SXSPPPPPPPCF");
}

/* Of an open that is not reclaimed, but opened again by its handle. */
Test(nfs4_recover, a_reply_that_is_cut_after_the_grace_period)
{
	fake_times.later_ms = 1;
	server4_mount();
	have_open(0);
	atomic_store(&open_nr(0)->reopen, true);
	server.cut = 3;
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "FFFF");
	expect_open(0, false);
}

/* ... but not for ever, and the next one has its chances, too. */
Test(nfs4_recover, replies_that_are_always_cut)
{
	fake_times.later_ms = 1;
	server4_mount();
	have_open(0);
	have_open(1);
	server.complete = false;
	server.cut = 8;
	atomic_store(&client4()->need_opens, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert_str_eq(server.log, "PPPPPPPPPC");
	cr_assert(atomic_load(&open_nr(0)->lost));
	expect_open(1, false);
}

/* Each of them costs a slot, and the session has fewer slots than there are tries. */
Test(nfs4_recover, the_transport_always_refuses_and_few_slots)
{
	fake_times.later_ms = 1;
	server.slots = 2;
	server4_mount();
	have_open(0);
	server.complete = false;
	server.err_chunk = 1000;
	atomic_store(&client4()->need_opens, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	cr_assert(atomic_load(&open_nr(0)->lost));
}

/* ---- the lease ---- */

static void restart_with_lease(uint32_t lease, const char *log)
{
	server4_mount();
	cr_assert_eq(atomic_load(&client4()->lease_s), 90);
	server.stale = true;
	server.lease = lease;
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	nfs4_tick(&fake_cl.server);
	cr_assert_str_eq(server.log, log);
}

/* It would end us before we renew, if we went by the one of before. */
Test(nfs4_recover, a_restart_with_a_shorter_lease)
{
	restart_with_lease(10, "SXSCR");
	cr_assert_eq(atomic_load(&client4()->lease_s), 10);
	nfs4_tick(&fake_cl.server);
	cr_assert_str_eq(server.log, "SXSCR", "once");
}

/* It says "later": nobody waits for that, and it is asked again. */
Test(nfs4_recover, a_lease_that_is_told_later)
{
	server.no_lease = NFS4ERR_DELAY;
	restart_with_lease(10, "SXSCR");
	cr_assert_eq(atomic_load(&client4()->lease_s), 90);
	server.no_lease = 0;
	nfs4_tick(&fake_cl.server);
	cr_assert_str_eq(server.log, "SXSCRR");
	cr_assert_eq(atomic_load(&client4()->lease_s), 10);
}

/* The export is gone, and comes later than the server. */
Test(nfs4_recover, a_lease_that_is_not_told)
{
	server.no_lease = 70;           /* STALE */
	restart_with_lease(10, "SXSCR");
	cr_assert_eq(atomic_load(&client4()->lease_s), 90);
	server.no_lease = 0;
	nfs4_tick(&fake_cl.server);
	cr_assert_str_eq(server.log, "SXSCRR", "again");
	cr_assert_eq(atomic_load(&client4()->lease_s), 10);
	nfs4_tick(&fake_cl.server);
	cr_assert_str_eq(server.log, "SXSCRR", "once");
}

/* Only a SEQUENCE that is OK renews it, and all that comes is "later" to a call of before. */
Test(nfs4_recover, a_lease_that_refusals_do_not_renew)
{
	struct one_call call = { 0 };

	fake_times.later_ms = 1;
	server4_mount();
	atomic_store(&client4()->lease_s, 1);
	server.seq_delays = true;
	begin(&call, NFS_OP_GETATTR, NULL);
	usleep(1000000);
	nfs4_tick(&fake_cl.server);
	server.seq_delays = false;
	await(&call, 0);
	cr_assert_str_eq(server.log, "ng");
	atomic_store(&client4()->lease_s, 90);
	nfs4_tick(&fake_cl.server);
	cr_assert_str_eq(server.log, "ng", "not before it is due");
}

/* ---- a session that lives on ---- */

static struct nfs_call in_flight;

static void take_slot(struct nfs_lane *l, void *arg)
{
	(void)arg;
	in_flight.lane = l;
	in_flight.target = &l->target;
	in_flight.op = NFS_OP_REMOVE;
	cr_assert_eq(nfs4_acquire(&l->target, &in_flight), 1);
}

static void give_slot(struct nfs_lane *l, void *arg)
{
	(void)arg;
	nfs4_release(&l->target, &in_flight);
}

/* Its slots are of no use any more, but the server may have to repeat the reply
 * to a call that was sent in it: it goes after that call. */
Test(nfs4_recover, the_old_session_is_destroyed_when_nothing_of_it_is_left)
{
	server4_mount();
	nfs_each_lane(&fake_cl, take_slot, NULL);
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	nfs4_tick(&fake_cl.server);
	cr_assert_str_eq(server.log, "SR");
	nfs_each_lane(&fake_cl, give_slot, NULL);
	nfs4_tick(&fake_cl.server);
	cr_assert_str_eq(server.log, "SRD");
	cr_assert_eq(server.destroyed, 1);
	nfs4_tick(&fake_cl.server);
	cr_assert_str_eq(server.log, "SRD", "once");
	nfs4_umount(&fake_cl.server);
	cr_assert_str_eq(server.log, "SRDDE");
	cr_assert_eq(server.destroyed, 2);
}

/* ... and it is gone with the client id that it belonged to. */
Test(nfs4_recover, a_forgotten_session_is_not_destroyed)
{
	server4_mount();
	server.stale = true;
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	nfs4_tick(&fake_cl.server);
	cr_assert_str_eq(server.log, "SXSCR");
}

/* Two in a row, with no tick between them. */
Test(nfs4_recover, no_old_session_is_forgotten)
{
	server4_mount();
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&client4()->need_session, true);
		cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	}
	cr_assert_str_eq(server.log, "SSD");
	cr_assert_eq(server.destroyed, 1);
	nfs4_umount(&fake_cl.server);
	cr_assert_str_eq(server.log, "SSDDDE");
}

/* ---- mount ---- */

Test(nfs4_recover, a_refused_mount_leaves_nothing)
{
	struct errbuf eb = { "" };

	server.no_root = true;
	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), -EACCES);
	cr_assert_str_eq(server.log, "XSCRDE");
}

/* Nobody else would: the control thread comes when there is a mount. */
Test(nfs4_recover, a_session_that_is_lost_while_mounting)
{
	struct errbuf eb = { "" };

	server.badsession = 1;
	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	cr_assert_str_eq(server.log, "XSBSCR");
	cr_assert_eq(fake_cl.root_fh.len, 4);
}

Test(nfs4_recover, a_mount_does_not_make_sessions_for_ever)
{
	struct errbuf eb = { "" };

	server.badsession = 1000;
	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), -EIO);
	cr_assert_not_null(strstr(eb.text, "then rejects them"), "%s", eb.text);
	/* All that were made, and the client id. */
	cr_assert_str_eq(server.log, "XSBSBSDBSDBDDE");
}

Test(nfs4_recover, limits_of_the_session)
{
	static const struct { uint32_t slots, maxops; unsigned nlanes; int rc; } t[] = {
		{ 1, 16, 1, 0 }, { 0, 16, 1, -ENOSR },
		{ 1, 16, 2, 0 },                /* lanes share what there is */
		{ 1, 8, 1, 0 }, { 1, 7, 1, -ENOSR },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct errbuf eb = { "" };

		server.slots = t[i].slots;
		server.maxops = t[i].maxops;
		fake_cl.nlanes = t[i].nlanes;
		cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), t[i].rc, "row %u: %s", i, eb.text);
		cr_assert_eq(eb.text[0] != 0, t[i].rc != 0);
		cr_assert_str_eq(server.log, t[i].rc ? "XSDE" : "XSCR");
		memset(server.log, 0, sizeof(server.log));
		fake_cl.nlanes = 1;
		nfs4_free(&fake_cl.server);
		fake_cl.server.vdata = NULL;
	}
}

Test(nfs4_recover, large_sizes_fit_the_session)
{
	struct errbuf eb = { "" };

	fake_cl.rsize = fake_cl.wsize = 4u << 20;
	server.maxresp = (4u << 20) + 4096;
	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	cr_assert_eq(fake_cl.rsize, 4u << 20);
	cr_assert_eq(fake_cl.wsize, (1u << 20) - 4096);
}

Test(nfs4_recover, sizes_fit_the_session)
{
	struct errbuf eb = { "" };

	server.maxresp = 65536;
	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	cr_assert(fake_cl.rsize <= 65536 - 1024 && fake_cl.rsize % 4096 == 0 && fake_cl.rsize > 32768);
	cr_assert_leq(fake_cl.dtsize, 65536 - 1024);
	cr_assert(fake_cl.wsize % 4096 == 0 && fake_cl.wsize <= (1 << 20) - 1024);
}

/* How many bytes of data a call of 512 KiB has, or asks for. */
static uint32_t length_of(enum nfs_op op)
{
	static const struct nfs_fh file = { .len = 4 };
	static char data[2][256 * 1024];
	char msg[4096];
	XDR x;

	memset(&in_flight, 0, sizeof(in_flight));
	in_flight.args.fh = &file;
	in_flight.args.io.count = sizeof(data);
	in_flight.args.io.ndata = 2;
	for (unsigned i = 0; i < 2; i++)
		in_flight.args.io.data[i] = (struct rr_iov){ data[i], sizeof(data[i]) };
	if (op == NFS_OP_READDIR)
		in_flight.args.dir.count = sizeof(data);
	nfs_each_lane(&fake_cl, take_slot, NULL);
	xdr_msg_create(&x, msg, sizeof(msg), XDR_ENCODE);
	in_flight.op = op;
	cr_assert(nfs_v41.ops[op]->encode(&in_flight, &x));
	nfs_each_lane(&fake_cl, give_slot, NULL);
	/* The last word; READDIR has its attributes behind it. */
	if (op == NFS_OP_READDIR)
		xdr_setpos(&x, xdr_getpos(&x) - 4 * (1 + nfs4_names_mask.len));
	return ntohl(*(uint32_t *)(void *)(msg + xdr_getpos(&x) - 4));
}

/* The server restarts with another configuration, or its address moves to another host. */
Test(nfs4_recover, a_later_session_is_smaller)
{
	static const enum nfs_op ops[] = { NFS_OP_READ, NFS_OP_WRITE, NFS_OP_READDIR };

	server4_mount();
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(length_of(ops[i]), 512 * 1024);
	server.maxreq = server.maxresp = 65536;
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(length_of(ops[i]), 60 * 1024, "row %u", i);
	cr_assert(fake_cl.rsize == 60 * 1024 && fake_cl.wsize == 60 * 1024 && fake_cl.dtsize == 60 * 1024);
	/* And back again, but not to more than the kernel knows. */
	server.maxreq = server.maxresp = 4u << 20;
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(length_of(ops[i]), 512 * 1024);
	cr_assert(fake_cl.rsize == (1 << 20) - 4096 && fake_cl.wsize == (1 << 20) - 4096);
}

/* EXCHANGE_ID has come from another address of this machine. */
Test(nfs4_recover, a_client_id_in_use)
{
	server.back = true;
	server4_mount();
	server.refuses_back = NFS4ERR_CLID_INUSE;
	atomic_store(&client4()->need_session, true);
	cr_assert_lt(nfs4_recover(&fake_cl.server), 0);
	cr_assert(!strncmp(server.log, "SXS", 3), "%s", server.log);
	server.refuses_back = 0;
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
}

/* A number that it has refused is used up: it says the same to it for ever. The client asks which one is next. */
Test(nfs4_recover, a_session_that_is_refused_once)
{
	static const uint32_t all[] = { 28 /* NOSPC */, NFS4ERR_SERVERFAULT, NFS4ERR_TOOSMALL };

	server4_mount();
	have_open(0);
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		memset(server.log, 0, sizeof(server.log));
		server.session_error = all[i];
		server.session_errors = all[i] == NFS4ERR_TOOSMALL ? 2 : 1;
		atomic_store(&client4()->need_session, true);
		cr_assert_lt(nfs4_recover(&fake_cl.server), 0);
		cr_assert_str_eq(server.log, all[i] == NFS4ERR_TOOSMALL ? "SXS" : "S");
		cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
		cr_assert_str_eq(server.log + strlen(server.log) - (i ? 3 : 2), i ? "XSD" : "XS");
	}
	cr_assert_eq(open_nr(0)->stateid.seqid, 0, "nothing of it was lost");
}

/* ... and a mount says why. */
Test(nfs4_recover, a_mount_whose_session_is_refused)
{
	struct errbuf eb = { "" };

	server.session_error = 28;      /* NOSPC */
	server.session_errors = UINT32_MAX;
	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), -ENOSPC);
	cr_assert_not_null(strstr(eb.text, "refuses an NFSv4.1 session: No space left on device"), "%s", eb.text);
	cr_assert_str_eq(server.log, "XSE");
	nfs4_free(&fake_cl.server);
	memset(server.log, 0, sizeof(server.log));
	server.session_error = NFS4ERR_TOOSMALL;
	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), -EINVAL);
	cr_assert_str_eq(server.log, "XSXSE");
}

Test(nfs4_recover, a_server_that_says_nothing)
{
	struct errbuf eb = { "" };

	fake_cl.answer_ms = 20;
	fake_lane_quiet = true;
	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), -ETIMEDOUT);
	cr_assert_not_null(strstr(eb.text, "does not answer"));
}
