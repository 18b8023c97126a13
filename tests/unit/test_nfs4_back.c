/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The back channel of a mount: who carries it, what happens when nobody does any more, and a call
 * of the server from the connection to the reply.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "nfs4_server.h"

TestSuite(nfs4_back, .init = server4_start, .fini = server4_stop, .timeout = 300);

static void mount_with_back(void)
{
	server.back = true;
	server4_mount();
	cr_assert(atomic_load(&client4()->back.has));
}

/* A call of a lane finds the server's flags. */
static void getattr(void)
{
	struct one_call c;

	begin(&c, NFS_OP_GETATTR, NULL);
	await(&c, 0);
}

static void expect_log(const char *letters)
{
	cr_assert_str_eq(server.log, letters);
	memset(server.log, 0, sizeof(server.log));
}

/* ---- the session ---- */

/* It may have no use for one, or not like what we say of it. */
Test(nfs4_back, server_without_one)
{
	server4_mount();
	cr_assert_not(atomic_load(&client4()->back.has));
	server.flags = SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_BACKCHANNEL_FAULT;
	getattr();
	cr_assert_not(fake_ctl.recover);
	expect_log("g");
}

Test(nfs4_back, server_that_refuses_one)
{
	static const uint32_t t[] = { NFS4ERR_TOOSMALL, NFS4ERR_INVAL, NFS4ERR_ENCR_ALG_UNSUPP };
	struct errbuf eb = { "" };

	server.back = true;
	server.refuses_back = t[0];
	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), 0, "%s", eb.text);
	expect_log("XSXSCR");
	fake_ctl.mounted = true;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		server.refuses_back = t[i];
		atomic_store(&client4()->need_session, true);
		cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
		expect_log(i ? "SXSD" : "SXS");   /* and the one before the last is destroyed */
		cr_assert_not(atomic_load(&client4()->back.has));
	}
}

/* What is about something else is not tried twice. */
Test(nfs4_back, server_that_refuses_the_session)
{
	struct errbuf eb = { "" };

	server.back = true;
	server.refuses_back = 13;       /* ACCESS */
	cr_assert_eq(nfs4_mount(&fake_cl.server, &eb), -EACCES);
	expect_log("XSE");
}

/* ---- the connection ---- */

/* Not by recovery: calls have nothing to wait for. */
Test(nfs4_back, connection_is_gone)
{
	mount_with_back();
	nfs4_look_back(&fake_cl.server);
	expect_log("");
	server.flags = SEQ4_STATUS_CB_PATH_DOWN;
	getattr();
	cr_assert_not(fake_ctl.recover);
	nfs4_look_back(&fake_cl.server);
	expect_log("gJ");
	nfs4_look_back(&fake_cl.server);
	expect_log("");
	/* It is up again, and then down again. */
	server.flags = 0;
	getattr();
	server.flags = SEQ4_STATUS_CB_PATH_DOWN_SESSION;
	getattr();
	nfs4_look_back(&fake_cl.server);
	expect_log("ggJ");
}

/* Without a word. */
Test(nfs4_back, connection_is_gone_and_the_server_does_not_say_so)
{
	mount_with_back();
	fake_lane_second();
	fake_lane_move();
	nfs4_look_back(&fake_cl.server);
	expect_log("J");
	nfs4_look_back(&fake_cl.server);
	expect_log("");
	fake_lane_move();
	fake_lane_move();
	nfs4_look_back(&fake_cl.server);
	expect_log("J");
}

static void puts_on_trial(struct nfs_lane *l, void *arg)
{
	l->target.conns[0][0].up = false;
}

/* A path whose connections come to nothing, again and again. */
Test(nfs4_back, connection_on_trial_is_gone)
{
	mount_with_back();
	fake_lane_second();
	nfs_each_lane(&fake_cl, puts_on_trial, NULL);
	fake_lane_move();
	nfs4_look_back(&fake_cl.server);
	expect_log("");
}

static void renewed_before(struct nfs_lane *l, void *arg)
{
	struct nfs4_lane *l4 = l->target.vdata;

	(void)arg;
	if (l4->renewed_ns)
		atomic_fetch_sub(&l4->renewed_ns, 45000000000ull);
}

/* BIND_CONN_TO_SESSION renews no lease (RFC 8881, section 8.3). A connection that is lost again and
 * again must not be taken for a mount that is in use. */
Test(nfs4_back, binding_is_no_renewal)
{
	mount_with_back();
	fake_lane_second();
	nfs4_tick(&fake_cl.server);
	expect_log("");
	/* Half of the lease is over. */
	nfs_each_lane(&fake_cl, renewed_before, NULL);
	fake_lane_move();
	nfs4_tick(&fake_cl.server);
	expect_log("Jn");
	nfs4_tick(&fake_cl.server);
	expect_log("");
}

/* A mount that has nothing to say says that it does not use the slots. */
Test(nfs4_back, slots_are_recalled)
{
	mount_with_back();
	nfs4_slots_recall(&fake_cl.server, client4()->sessionid, 0);
	nfs4_tick(&fake_cl.server);
	expect_log("n");
	nfs4_tick(&fake_cl.server);
	expect_log("");
	nfs4_slots_recall(&fake_cl.server, client4()->sessionid, 0);
	getattr();
	nfs4_tick(&fake_cl.server);
	expect_log("g");
}

/* A server whose flag stays: it does not take connections for that. */
Test(nfs4_back, no_connection_will_do)
{
	mount_with_back();
	server.back = false;
	server.flags = SEQ4_STATUS_CB_PATH_DOWN;
	getattr();
	nfs4_look_back(&fake_cl.server);
	expect_log("gJ");
	for (unsigned i = 0; i < 5; i++)
		getattr();
	nfs4_look_back(&fake_cl.server);
	expect_log("ggggg");
}

/* The pause is over. */
static void end_pause(void)
{
	cr_assert_gt(client4()->back.later_ns, mono_ns());
	client4()->back.later_ns = mono_ns();
}

/* "Later" is no refusal, and is not said twice for one question. */
Test(nfs4_back, a_connection_that_is_bound_later)
{
	uint64_t pause, before = 0;

	fake_times.later_ms = 3600000;
	mount_with_back();
	fake_lane_second();
	fake_lane_move();
	server.bind_delays = 3;
	for (unsigned i = 0; i < 3; i++) {
		nfs4_look_back(&fake_cl.server);
		expect_log("d");
		nfs4_look_back(&fake_cl.server);
		expect_log("");
		pause = client4()->back.later_ns - mono_ns();
		cr_assert_gt(pause, before + before / 2);
		before = pause;
		end_pause();
	}
	nfs4_look_back(&fake_cl.server);
	expect_log("J");
	nfs4_look_back(&fake_cl.server);
	expect_log("");
	/* The next pause is a short one again. */
	fake_lane_move();
	server.bind_delays = 1;
	nfs4_look_back(&fake_cl.server);
	cr_assert_lt(client4()->back.later_ns - mono_ns(), before / 2);
	/* Another session has its connection. */
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	nfs4_look_back(&fake_cl.server);
	expect_log("dS");
	fake_lane_move();
	nfs4_look_back(&fake_cl.server);
	expect_log("J");
}

/* It is lost meanwhile. */
Test(nfs4_back, session_is_gone)
{
	mount_with_back();
	server.flags = SEQ4_STATUS_CB_PATH_DOWN;
	getattr();
	server.flags = 0;
	server.badsession = 1;
	nfs4_look_back(&fake_cl.server);
	cr_assert(fake_ctl.recover);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	expect_log("gjS");
	nfs4_look_back(&fake_cl.server);
	expect_log("");
}

/* Only another session has slots that both agree on. */
Test(nfs4_back, server_has_lost_track)
{
	mount_with_back();
	server.flags = SEQ4_STATUS_BACKCHANNEL_FAULT;
	getattr();
	cr_assert(fake_ctl.recover);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	expect_log("gS");
	cr_assert(atomic_load(&client4()->back.has));
	/* That has not helped: and another one would not. */
	fake_ctl.recover = false;
	getattr();
	cr_assert_not(fake_ctl.recover);
}

static void hold_calls(struct nfs_lane *l, void *arg)
{
	l->hold = true;
}

static void see_waiting(struct nfs_lane *l, void *arg)
{
	*(_Atomic bool *)arg = !list_empty(&l->waiting);
}

static void await_waiting(void)
{
	_Atomic bool is = false;

	while (!is)
		nfs_each_lane(&fake_cl, see_waiting, &is);
}

/* Calls that have waited for that session are older than it. */
Test(nfs4_back, server_has_lost_track_while_calls_wait)
{
	struct one_call c;

	mount_with_back();
	server.flags = SEQ4_STATUS_BACKCHANNEL_FAULT | SEQ4_STATUS_CB_PATH_DOWN;
	getattr();
	nfs_each_lane(&fake_cl, hold_calls, NULL);
	begin(&c, NFS_OP_GETATTR, NULL);
	await_waiting();
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	resume();
	await(&c, 0);
	expect_log("gSg");
	fake_ctl.recover = false;
	getattr();
	nfs4_look_back(&fake_cl.server);
	cr_assert_not(fake_ctl.recover);
	expect_log("g");
}

/* A connection that joins the session carries both directions. */
Test(nfs4_back, connections_that_join)
{
	struct nfs_check c = { .step = 0 };
	int rc;

	mount_with_back();
	do
		rc = server4_check(&c, false);
	while (rc == NFS_NEXT);
	cr_assert_eq(rc, 0, "%s", c.why.text);
	expect_log("xeJ");
}

/* ---- delegations: a recall that the server could not send is never sent ---- */

static unsigned delegs(enum nfs4_delegation_state state)
{
	return atomic_load(&client4()->delegs.in[state].n);
}

static void have_delegations(unsigned n)
{
	mount_with_back();
	for (unsigned i = 0; i < n; i++) {
		have_open(i);
		give_delegation(i, i % 2 ? NFS_DELEGATION_WRITES : 0, &(stateid4){ .other[0] = (char)i });
	}
	memset(server.log, 0, sizeof(server.log));
	fake_lane_second();
}

Test(nfs4_back, all_go_back_when_a_connection_is_bound_again)
{
	have_delegations(3);
	nfs4_look_back(&fake_cl.server);
	cr_assert_eq(delegs(NFS4_HELD), 3);
	fake_lane_move();
	server.bind_delays = 1;
	fake_times.later_ms = 3600000;
	nfs4_look_back(&fake_cl.server);
	expect_log("d");
	cr_assert_eq(delegs(NFS4_HELD), 3, "it has none yet");
	end_pause();
	nfs4_look_back(&fake_cl.server);
	expect_log("J");
	cr_assert_eq(delegs(NFS4_DUE), 3);
	cr_assert_eq(delegs(NFS4_HELD), 0);
}

Test(nfs4_back, all_go_back_after_another_session)
{
	have_delegations(2);
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	expect_log("S");
	cr_assert_eq(delegs(NFS4_DUE), 2);
	cr_assert_eq(delegs(NFS4_HELD), 0);
}

/* ---- calls ---- */

struct played {
	uint32_t session, seqid;
	uint32_t status;                /* of the COMPOUND */
	uint32_t sequence;              /* of CB_SEQUENCE */
};

/* On the lane's thread, as from its loop. CB_SEQUENCE, CB_RECALL_ANY. */
static void play_call(struct nfs_lane *l, void *arg)
{
	struct played *p = arg;
	const uint32_t w[] = {
		0x99, 1, 2, 0, 0, 0, 0, 0x99, 0, 2, NFS4_CALLBACK, NFS_CB, CB_COMPOUND, 0, 0, 0, 0,
		0, 1, 0, 2,
		OP_CB_SEQUENCE, 0x73657373, 0x696f6e2e, 0x2e2e2e2e, p->session, p->seqid, 0, 0, 0, 0,
		OP_CB_RECALL_ANY, 0, 0,
	};
	unsigned n = fake.nsends;
	uint32_t wire[sizeof(w) / sizeof(w[0])], got[32] = { 0 };

	for (unsigned i = 0; i < sizeof(w) / sizeof(w[0]); i++)
		wire[i] = htonl(w[i]);
	fake_deliver(wire, sizeof(wire));
	cr_assert_eq(fake.nsends, n + 1);
	memcpy(got, fake.sends[n].bytes, fake.sends[n].len < sizeof(got) ? fake.sends[n].len : sizeof(got));
	cr_assert(ntohl(got[0]) == 0x99 && ntohl(got[7]) == 0x99 && ntohl(got[8]) == 1);
	p->status = ntohl(got[13]);
	p->sequence = ntohl(got[17]);
	fake_complete(n);
	fake.nsends = n;
}

static void served(uint32_t session, uint32_t seqid, uint32_t status)
{
	struct played p = { .session = session, .seqid = seqid };

	nfs_each_lane(&fake_cl, play_call, &p);
	cr_assert_eq(p.status, status, "%u", p.status);
	cr_assert_eq(p.sequence, status);
}

Test(nfs4_back, calls_of_the_server)
{
	mount_with_back();
	served(1, 1, 0);
	served(1, 1, 0);
	served(1, 3, NFS4ERR_SEQ_MISORDERED);
	served(2, 1, NFS4ERR_BADSESSION);
	/* A session that replaces it, and the one before. */
	atomic_store(&client4()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	served(2, 1, 0);
	served(1, 2, 0);
}

/* Nobody has asked for a back channel: there is no session that it could call in. */
Test(nfs4_back, calls_without_a_back_channel)
{
	server4_mount();
	served(1, 1, NFS4ERR_BADSESSION);
}
