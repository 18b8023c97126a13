/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mount and recovery of version 4.1, from the calls that go out to what becomes
 * of the opens, with a server that knows just enough of client ids, sessions and
 * OPEN.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "fake_lane.h"
#include "nfs/nfs4/nfs4_impl.h"

enum { OK = 0, GRACE = 10013, STALE_CLIENTID = 10022, NO_GRACE = 10033, RECLAIM_BAD = 10034 };

/* ---- the server ---- */

static struct {
	uint32_t slots, maxops, maxresp;        /* of its sessions */
	bool stale;                     /* does not know the client id */
	bool no_root;                   /* nor an export */
	uint32_t clientid, sessions;    /* the newest ones' numbers */
	uint32_t destroyed;             /* the session that went last */
	bool complete;                  /* has heard RECLAIM_COMPLETE */
	uint32_t reclaim[4];            /* what it says to CLAIM_PREVIOUS, of fh[0] */
	uint32_t open[4];               /* and to CLAIM_FH afterwards */
	unsigned badsession;            /* SEQUENCEs that it refuses */
	unsigned late_attrs;            /* GETATTRs behind an OPEN that it delays */
	char log[64];                   /* a letter for each call */
	uint32_t opens;
} server;

static void note(char c)
{
	size_t n = strlen(server.log);

	cr_assert_lt(n, sizeof(server.log) - 1, "no end: %s", server.log);
	server.log[n] = c;
}

static void put_channel(void)
{
	puts_of(7, 0, 1 << 20, server.maxresp, 4096, server.maxops, server.slots, 0);
}

/* OPEN of a lane's, with GETATTR behind it. */
static uint32_t lane_open(void)
{
	note('O');
	return 0;
}

static uint32_t do_open(const uint32_t *w, uint32_t numops)
{
	uint32_t claim, which;

	/* PUTFH: operation, length, handle of 4 bytes. */
	which = ntohl(w[2]);
	if (numops > 3)
		return lane_open();
	/* OPEN: seqid, access, deny, client id, owner of 8 bytes, no create, claim. */
	claim = ntohl(w[3 + 10]);
	note(claim == CLAIM_PREVIOUS ? 'P' : 'F');
	if (claim == CLAIM_PREVIOUS)
		return server.complete ? NO_GRACE : server.reclaim[which];
	return server.complete ? server.open[which] : GRACE;
}

static void put_attrs(bool late)
{
	if (late)
		puts_of(2, OP_GETATTR, NFS4ERR_DELAY);
	else
		puts_of(6, OP_GETATTR, 0, 1, 1 << FATTR4_TYPE, 4, 1);
}

/* PUTFH and what comes with it. */
static void on_file(const uint32_t *w, uint32_t numops)
{
	uint32_t op = ntohl(w[3]), status = 0;

	if (op == OP_OPEN) {
		status = do_open(w, numops);
		puts_of(4, OP_PUTFH, 0, op, status);
	} else if (op == OP_CLOSE) {
		note('c');
		puts_of(4, OP_PUTFH, 0, op, 0);
		puts_of(4, 1, 0, 0, 0);
		return;
	} else {
		note('g');
		puts_of(2, OP_PUTFH, 0);
	}
	if (status)
		return;
	if (op == OP_OPEN) {
		puts_of(4, ++server.opens, 0x6e657773, 0x74617465, 0x69640000);
		puts_of(8, 0, 0, 0, 0, 0, 0, 0, 0);     /* change, flags, attrset, none */
	}
	if (op == OP_GETATTR || numops > 3)
		put_attrs(server.late_attrs && server.late_attrs--);
}

/* The operations behind SEQUENCE. */
static void second(const uint32_t *w, uint32_t numops)
{

	switch (ntohl(w[0])) {
	case OP_RECLAIM_COMPLETE:
		note('C');
		server.complete = true;
		puts_of(2, OP_RECLAIM_COMPLETE, 0);
		return;
	case OP_PUTROOTFH:
		note('R');
		if (server.no_root) {
			puts_of(2, OP_PUTROOTFH, NFS4ERR_ACCESS);
			return;
		}
		puts_of(6, OP_PUTROOTFH, 0, OP_GETFH, 0, 4, 0x726f6f74);
		puts_of(6, OP_GETATTR, 0, 1, 1 << FATTR4_TYPE, 4, 2);
		return;
	case OP_PUTFH:
		on_file(w, numops);
		return;
	default:
		note('?');
	}
}

/* One call: w is its COMPOUND. */
static void execute(uint32_t proc, const uint32_t *w)
{
	unsigned head = nout;
	uint32_t numops = ntohl(w[2]), op = ntohl(w[3]), status = 0;

	cr_assert_eq(proc, NFSPROC4_COMPOUND);
	puts_of(3, 0, 0, numops);
	switch (op) {
	case OP_EXCHANGE_ID:
		note('X');
		if (server.stale || !server.clientid)
			server.clientid++;
		server.stale = false;
		server.complete = false;
		puts_of(11, op, 0, 0, server.clientid, 1, 0, 0, 0, 0, 0, 0);
		put(0);
		break;
	case OP_CREATE_SESSION:
		note('S');
		status = server.stale ? STALE_CLIENTID : 0;
		puts_of(2, op, status);
		if (status)
			break;
		puts_of(6, 0x73657373, 0x696f6e2e, 0x2e2e2e2e, ++server.sessions, ntohl(w[6]), 0);
		put_channel();
		put_channel();
		break;
	case OP_SEQUENCE:
		status = server.badsession ? NFS4ERR_BADSESSION : 0;
		puts_of(2, op, status);
		if (status) {
			server.badsession--;
			note('B');
			break;
		}
		for (unsigned i = 0; i < 6; i++)
			put(ntohl(w[4 + i]));
		/* Session, sequence id and slot as they came; then ours. */
		puts_of(3, server.slots - 1, server.slots - 1, 0);
		second(w + 12, numops);
		break;
	case OP_DESTROY_SESSION:
		note('D');
		server.destroyed = ntohl(w[7]);
		puts_of(2, op, 0);
		break;
	case OP_DESTROY_CLIENTID:
		note('E');
		puts_of(2, op, 0);
		break;
	default:
		note('!');
		puts_of(2, op, 0);
	}
	/* The failed operation is the last one. */
	if (nout >= 2 && ntohl(out[nout - 1]) >= 10000 && ntohl(out[nout - 1]) < 10100)
		out[head] = out[nout - 1];
}

/* ---- the client ---- */

static void start(void)
{
	nfs4_end_timeout_ms = 10000;
	fake_lane_start(&nfs_v41, execute);
	server.slots = 8;
	server.maxops = 16;
	server.maxresp = 1 << 20;
}

static void stop(void)
{
	fake_lane_stop();
	if (fake_cl.vdata)
		nfs4_free(&fake_cl);
}

TestSuite(nfs4_recover, .init = start, .fini = stop, .timeout = 20);

/* An open file, and its place in recovery's list. */
static void have_open(unsigned i)
{
	struct nfs4_client *n = fake_cl.vdata;
	struct nfs_open *o = calloc(1, sizeof(*o));

	o->refs = 1;
	atomic_init(&o->settled, true);
	o->fh = (struct nfs_fh){ .len = 4, .data = { 0, 0, 0, (uint8_t)i } };
	o->access = OPEN4_SHARE_ACCESS_BOTH;
	o->owner = i;
	list_add_tail(&n->opens, &o->node);
}

static struct nfs_open *open_nr(unsigned i)
{
	struct nfs4_client *n = fake_cl.vdata;
	struct list *l = n->opens.next;

	while (i--)
		l = l->next;
	return container_of(l, struct nfs_open, node);
}

static void expect(unsigned i, bool lost)
{
	const struct nfs_open *o = open_nr(i);

	cr_assert_eq(atomic_load(&o->lost), lost, "open %u", i);
	cr_assert(!atomic_load(&o->reopen));
	cr_assert_eq(o->stateid.seqid != 0, !lost);
}

static void mount_it(void)
{
	struct errbuf eb = { "" };

	cr_assert_eq(nfs4_mount(&fake_cl, &eb), 0, "%s", eb.text);
	cr_assert_str_eq(server.log, "XSCR");
	memset(server.log, 0, sizeof(server.log));
	fake_ctl.mounted = true;
}

static struct nfs4_client *client(void)
{
	return fake_cl.vdata;
}

/* ---- recovery ---- */

/* A restart, and its grace period: opens are reclaimed, then it is told so. */
Test(nfs4_recover, restarted_server)
{
	mount_it();
	have_open(0);
	have_open(1);
	server.stale = true;
	atomic_store(&client()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	cr_assert_str_eq(server.log, "SXSPPC");
	expect(0, false);
	expect(1, false);
}

/* The lease has ended, or the grace period: there is nothing to reclaim, and
 * any other OPEN is refused before RECLAIM_COMPLETE. */
Test(nfs4_recover, lease_ended)
{
	mount_it();
	have_open(0);
	have_open(1);
	server.reclaim[0] = NO_GRACE;
	server.reclaim[1] = RECLAIM_BAD;
	server.stale = true;
	atomic_store(&client()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	cr_assert_str_eq(server.log, "SXSPPCFF");
	expect(0, false);
	expect(1, false);
}

Test(nfs4_recover, some_are_lost)
{
	mount_it();
	for (unsigned i = 0; i < 4; i++)
		have_open(i);
	server.reclaim[1] = 10001;      /* BADHANDLE */
	server.reclaim[2] = server.reclaim[3] = NO_GRACE;
	server.open[3] = 70;            /* STALE */
	atomic_store(&client()->need_client, true);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	cr_assert_str_eq(server.log, "XSPPPPCFF");
	expect(0, false);
	expect(1, true);
	expect(2, false);
	expect(3, true);
}

/* The session lives, and SEQUENCE says that the opens do not. */
Test(nfs4_recover, opens_are_gone)
{
	mount_it();
	have_open(0);
	server.complete = false;
	atomic_store(&client()->need_opens, true);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	cr_assert_str_eq(server.log, "PC");
	expect(0, false);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	cr_assert_str_eq(server.log, "PC", "once");
}

Test(nfs4_recover, one_stateid)
{
	mount_it();
	have_open(0);
	have_open(1);
	atomic_store(&open_nr(1)->reopen, true);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	cr_assert_str_eq(server.log, "F");
	cr_assert_eq(open_nr(0)->stateid.seqid, 0);
	expect(1, false);
}

/* ---- opens that come and go ---- */

static _Atomic unsigned all_gone;

static void *coming_and_going(void *arg)
{
	struct nfs_client *c = arg;
	struct nfs4_client *n = c->vdata;

	for (unsigned i = 0; i < 200000; i++) {
		struct nfs_open *o = calloc(1, sizeof(*o));

		o->refs = 1;
		atomic_init(&o->settled, true);
		pthread_mutex_lock(&n->opens_mu);
		list_add_tail(&n->opens, &o->node);
		pthread_mutex_unlock(&n->opens_mu);
		nfs4_open_put(c, o);
	}
	atomic_fetch_add(&all_gone, 1);
	return NULL;
}

/* CLOSE ends, with the last reference, on a lane, while recovery is about to take
 * the very same open: whoever comes second finds it gone, or keeps it. */
Test(nfs4_recover, opens_go_while_recovery_walks)
{
	pthread_t lane[2];

	mount_it();
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&lane[i], NULL, coming_and_going, &fake_cl), 0);
	while (atomic_load(&all_gone) < 2)
		cr_assert_eq(nfs4_recover(&fake_cl), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(lane[i], NULL);
	cr_assert(list_empty(&client()->opens));
	cr_assert_str_eq(server.log, "");
}

struct one_call {
	struct nfs_call c;
	struct rpc_cred cred;
	struct nfs_fh fh;
	pthread_t caller;
	int rc;
};

static void *call_main(void *arg)
{
	struct one_call *o = arg;
	bool leaked;

	o->rc = nfs_call_sync(&fake_lanes[0], &o->c, 0, &leaked);
	return NULL;
}

/* A file operation, which waits for recovery if it must. */
static void begin(struct one_call *o, enum nfs_op op, struct nfs_open *open)
{
	o->fh = (struct nfs_fh){ .len = 4 };
	o->c = (struct nfs_call){ .op = op, .fh = &o->fh, .cred = &o->cred, .open = open };
	cr_assert_eq(pthread_create(&o->caller, NULL, call_main, o), 0);
}

static void resume(struct nfs_lane *l, void *arg)
{
	(void)arg;
	l->hold = false;
	list_splice_tail(&l->waiting, &l->parked);
	nfs_lane_pump(l);
}

static void await(struct one_call *o, int rc)
{
	nfs_each_lane(&fake_cl, resume, NULL);
	pthread_join(o->caller, NULL);
	cr_assert_eq(o->rc, rc, "%d", o->rc);
}

static void see_log(struct nfs_lane *l, void *arg)
{
	(void)l;
	*(_Atomic size_t *)arg = strlen(server.log);
}

/* Until the server, which is on the lane's thread, has noted so many calls. */
static void await_log(size_t n)
{
	_Atomic size_t len = 0;

	while (len < n) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		nfs_each_lane(&fake_cl, see_log, &len);
	}
}

/* Opened anew it would be the server's for good: the CLOSE that waits has another
 * stateid, and the caller is gone when it is through. */
Test(nfs4_recover, what_is_being_closed_is_not_opened_again)
{
	struct one_call close = { 0 };

	mount_it();
	have_open(0);
	have_open(1);
	server.badsession = 1;
	begin(&close, NFS_OP_CLOSE, open_nr(0));
	await_log(1);
	server.complete = false;
	atomic_store(&client()->need_opens, true);
	atomic_store(&client()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	cr_assert_str_eq(server.log, "BSPC", "the other one only");
	await(&close, 0);
	cr_assert_str_eq(server.log, "BSPCc");
	expect(0, false);
}

/* The OPEN has its reply, and is not sent again for the sake of attributes that
 * come later: the open is recovery's business, as any other. */
Test(nfs4_recover, what_is_opened_is_recovered_though_its_attributes_are_late)
{
	struct one_call open = { 0 };

	mount_it();
	server.late_attrs = 1;
	begin(&open, NFS_OP_OPEN, NULL);
	await_log(1);
	server.complete = false;
	atomic_store(&client()->need_opens, true);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	await(&open, 0);
	cr_assert_not_null(strchr(server.log, 'P'), "%s", server.log);
	cr_assert(open.c.open && open.c.open->stateid.seqid == server.opens);
	/* Now it is as any other. */
	atomic_store(&open.c.open->reopen, true);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	cr_assert_not_null(strchr(server.log, 'F'));
}

/* ---- a session that lives on ---- */

static struct nfs_call in_flight;

static void take_slot(struct nfs_lane *l, void *arg)
{
	(void)arg;
	in_flight.lane = l;
	in_flight.op = NFS_OP_REMOVE;
	cr_assert(nfs4_acquire(l, &in_flight));
}

static void give_slot(struct nfs_lane *l, void *arg)
{
	(void)arg;
	nfs4_release(l, &in_flight);
}

/* Its slots are of no use any more, but the server may have to repeat the reply
 * to a call that was sent in it: it goes after that call. */
Test(nfs4_recover, the_old_session_is_destroyed_when_nothing_of_it_is_left)
{
	mount_it();
	nfs_each_lane(&fake_cl, take_slot, NULL);
	atomic_store(&client()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	nfs4_tick(&fake_cl);
	cr_assert_str_eq(server.log, "S");
	nfs_each_lane(&fake_cl, give_slot, NULL);
	nfs4_tick(&fake_cl);
	cr_assert_str_eq(server.log, "SD");
	cr_assert_eq(server.destroyed, 1);
	nfs4_tick(&fake_cl);
	cr_assert_str_eq(server.log, "SD", "once");
	nfs4_umount(&fake_cl);
	cr_assert_str_eq(server.log, "SDDE");
	cr_assert_eq(server.destroyed, 2);
}

/* ... and it is gone with the client id that it belonged to. */
Test(nfs4_recover, a_forgotten_session_is_not_destroyed)
{
	mount_it();
	server.stale = true;
	atomic_store(&client()->need_session, true);
	cr_assert_eq(nfs4_recover(&fake_cl), 0);
	nfs4_tick(&fake_cl);
	cr_assert_str_eq(server.log, "SXSC");
}

/* Two in a row, with no tick between them. */
Test(nfs4_recover, no_old_session_is_forgotten)
{
	mount_it();
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&client()->need_session, true);
		cr_assert_eq(nfs4_recover(&fake_cl), 0);
	}
	cr_assert_str_eq(server.log, "SSD");
	cr_assert_eq(server.destroyed, 1);
	nfs4_umount(&fake_cl);
	cr_assert_str_eq(server.log, "SSDDDE");
}

/* ---- mount ---- */

Test(nfs4_recover, a_refused_mount_leaves_nothing)
{
	struct errbuf eb = { "" };

	server.no_root = true;
	cr_assert_eq(nfs4_mount(&fake_cl, &eb), -EACCES);
	cr_assert_str_eq(server.log, "XSCRDE");
}

/* Nobody else would: the control thread comes when there is a mount. */
Test(nfs4_recover, a_session_that_is_lost_while_mounting)
{
	struct errbuf eb = { "" };

	server.badsession = 1;
	cr_assert_eq(nfs4_mount(&fake_cl, &eb), 0, "%s", eb.text);
	cr_assert_str_eq(server.log, "XSBSCR");
	cr_assert_eq(fake_cl.root_fh.len, 4);
}

Test(nfs4_recover, a_mount_does_not_make_sessions_for_ever)
{
	struct errbuf eb = { "" };

	server.badsession = 1000;
	cr_assert_eq(nfs4_mount(&fake_cl, &eb), -EIO);
	cr_assert_not_null(strstr(eb.text, "does not know them afterwards"), "%s", eb.text);
	/* All that were made, and the client id. */
	cr_assert_str_eq(server.log, "XSBSBSDBSDBDDE");
}

Test(nfs4_recover, limits_of_the_session)
{
	static const struct { uint32_t slots, maxops; unsigned nlanes; int rc; } t[] = {
		{ 1, 16, 1, 0 }, { 0, 16, 1, -ENOSR }, { 1, 16, 2, -ENOSR },
		{ 1, 7, 1, 0 }, { 1, 6, 1, -ENOSR },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct errbuf eb = { "" };

		server.slots = t[i].slots;
		server.maxops = t[i].maxops;
		fake_cl.nlanes = t[i].nlanes;
		cr_assert_eq(nfs4_mount(&fake_cl, &eb), t[i].rc, "row %u: %s", i, eb.text);
		cr_assert_eq(eb.text[0] != 0, t[i].rc != 0);
		cr_assert_str_eq(server.log, t[i].rc ? "XSDE" : "XSCR");
		memset(server.log, 0, sizeof(server.log));
		fake_cl.nlanes = 1;
		nfs4_free(&fake_cl);
		fake_cl.vdata = NULL;
	}
}

Test(nfs4_recover, sizes_fit_the_session)
{
	struct errbuf eb = { "" };

	server.maxresp = 65536;
	cr_assert_eq(nfs4_mount(&fake_cl, &eb), 0, "%s", eb.text);
	cr_assert(fake_cl.rsize <= 65536 - 1024 && fake_cl.rsize % 4096 == 0 && fake_cl.rsize > 32768);
	cr_assert_leq(fake_cl.dtsize, 65536 - 1024);
	cr_assert(fake_cl.wsize % 4096 == 0 && fake_cl.wsize <= (1 << 20) - 1024);
}
