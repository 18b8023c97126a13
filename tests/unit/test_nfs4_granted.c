/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks that need no call, under a delegation to write (nfs4_granted.c), how the server gets them (nfs4_claim.c),
 * and who comes in between: a recall, other owners, recovery.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "nfs4_server.h"

#define TO_EOF UINT64_MAX

static struct nfs_open *first, *second; /* of one file; the first one has brought the delegation */

static struct nfs4_delegs *table(void)
{
	return &client4()->delegs;
}

static void give(uint64_t kind)
{
	struct nfs_call c = { .op = NFS_OP_OPEN, .open = first, .lane = &fake_lanes[0], .target = &fake_lanes[0].target };
	stateid4 stateid = { .seqid = 1, .other = "\3el1del2del" };

	c.args.fh = &first->file->fh;
	c.args.file.flags = kind ? O_RDWR : O_RDONLY;
	nfs4_call(&c)->place.epoch = client4()->slots.epoch;
	cr_assert(nfs4_delegs_ask(&c));
	cr_assert(nfs4_delegs_got(&c, &stateid, kind, true));
	nfs4_delegs_ask_ends(&c);
}

static void setup(void)
{
	server4_start();
	fake_times.later_ms = 1;
	server4_mount();
	fake_cl.cfg.delegations = true;
	client4()->back.has = true;
	client4()->lease_s = 90;
	atomic_store(&client4()->belief.renewed_ns, mono_ns());
	have_open(0);
	have_open(0);
	first = open_nr(0);
	second = open_nr(1);
	nfs_file_put(second->file);
	second->file = nfs_file_ref(first->file);
	give(NFS_DELEGATION_WRITES);
}

static void teardown(void)
{
	forget_delegations4(table());
	server4_stop();
}

TestSuite(nfs4_granted, .init = setup, .fini = teardown, .timeout = 300);

/* ---- calls ---- */

static struct nfs_results res;

static struct nfs_lock_args range(uint64_t owner, uint64_t offset, uint64_t length, bool write)
{
	return (struct nfs_lock_args){ .owner = owner, .offset = offset, .length = length, .write = write };
}

static enum nfs_lock_here ask(enum nfs_op op, struct nfs_open *o, struct nfs_lock_args a)
{
	struct nfs_call c = { .op = op, .open = o, .args.fh = &first->file->fh, .args.lock = a };
	enum nfs_lock_here how = nfs_lock_here(&fake_cl.server, &c);

	res = c.res;
	return how;
}

static int granted(enum nfs_op op, struct nfs_open *o, struct nfs_lock_args a)
{
	cr_assert_eq(ask(op, o, a), NFS_LOCK_HERE);
	cr_assert_str_eq(server.log, "");
	return res.status;
}

static int lock(struct nfs_open *o, uint64_t owner, uint64_t offset, uint64_t length, bool write)
{
	return granted(NFS_OP_LOCK, o, range(owner, offset, length, write));
}

static int unlock_all(struct nfs_open *o, uint64_t owner)
{
	struct nfs_lock_args a = range(owner, 0, TO_EOF, false);

	a.all = true;
	return granted(NFS_OP_LOCKU, o, a);
}

/* As the lane does: without the server, or with it. */
static int run(enum nfs_op op, struct nfs_open *o, struct nfs_lock_args a)
{
	struct rpc_cred cred = { 0 };
	struct nfs_call c = { .op = op, .args.fh = &first->file->fh, .cred = &cred, .open = o, .args.lock = a };
	bool abandoned;
	int rc;

	cr_assert_eq(ask(op, o, a), NFS_LOCK_SENT);
	rc = nfs_call_sync(&fake_lanes[0].target, &c, 0, &abandoned);
	res = c.res;
	return rc;
}

/* Do reads and writes by it fail? */
static bool is_lost(struct nfs_open *o)
{
	struct nfs_call c = { .op = NFS_OP_WRITE, .open = o };

	return nfs4_open_ready(&c) == -EIO;
}

static void expect_log(const char *log)
{
	cr_assert_str_eq(server.log, log);
	memset(server.log, 0, sizeof(server.log));
}

static nfsstat4 recall(void)
{
	stateid4 s = { .seqid = 1, .other = "\3el1del2del" };

	return nfs4_delegs_recall(&fake_cl.server, &s, &first->file->fh);
}

/* The next open's locks are claimed. false: there is none any more. */
static bool claim(struct nfs_delegation *d)
{
	struct rpc_cred cred = { 0 };
	struct nfs_call c = { .op = NFS_OP_CLAIM, .args.fh = &d->file->fh, .cred = &cred };
	bool abandoned;

	c.open = nfs_delegation_locked(&fake_lanes[0], d, &cred);
	c.args.delegation = d;
	if (!c.open)
		return false;
	nfs_call_sync(&fake_lanes[0].target, &c, 0, &abandoned);
	return true;
}

static int give_back(struct nfs_delegation *d)
{
	struct rpc_cred cred = { 0 };
	struct nfs_call c = { .op = NFS_OP_DELEGRETURN, .args.fh = &d->file->fh, .cred = &cred };
	bool abandoned;

	c.args.delegation = d;
	return nfs_call_sync(&fake_lanes[0].target, &c, 0, &abandoned);
}

static void return_it(void)
{
	struct nfs_delegation *d = nfs4_delegs_take(&fake_cl.server);

	while (claim(d))
		;
	give_back(d);
}

static bool stays(struct nfs_open *o)
{
	o->rights = ACCESS4_READ;
	o->under = atomic_load(&first->file->delegation);
	return nfs4_kept_stays(&fake_cl.server, o);
}

/* ---- without a call ---- */

Test(nfs4_granted, no_call)
{
	cr_assert_eq(lock(first, 1, 10, 5, true), 0);
	cr_assert(res.lock.held && !res.lock.had);
	cr_assert_eq(res.lock.under, atomic_load(&first->file->delegation));
	cr_assert_eq(lock(first, 1, 12, TO_EOF, false), 0);
	cr_assert(res.lock.had);
	cr_assert_eq(granted(NFS_OP_LOCKU, first, range(1, 0, 11, false)), 0);
	cr_assert(res.lock.held);
	cr_assert_not(stays(first), "it is locked");
	cr_assert_eq(granted(NFS_OP_LOCKU, first, range(1, 0, TO_EOF, false)), 0);
	cr_assert_not(res.lock.held);
	cr_assert(stays(first), "as if nobody had locked it");
}

Test(nfs4_granted, unlock_of_everything)
{
	cr_assert_eq(lock(first, 1, 0, 1, true), 0);
	cr_assert_eq(lock(first, 2, 1, 1, true), 0);
	cr_assert_eq(unlock_all(first, 1), 0);
	cr_assert_not(stays(first));
	cr_assert_eq(unlock_all(first, 2), 0);
	cr_assert_eq(first->refs, 1);
	cr_assert(stays(first));
}

/* Of all owners and opens of this mount. */
Test(nfs4_granted, in_the_way)
{
	cr_assert_eq(lock(first, 1, 10, 10, false), 0);
	cr_assert_eq(lock(first, 1, 30, TO_EOF, true), 0);
	cr_assert_eq(lock(second, 2, 0, 30, false), 0, "both only read");
	cr_assert_eq(lock(second, 2, 0, 10, true), 0);
	cr_assert_eq(lock(second, 2, 5, 6, true), -EAGAIN);
	cr_assert(!res.lock.write && res.lock.offset == 10 && res.lock.length == 10 && res.lock.holder == 1);
	cr_assert_eq(lock(second, 2, UINT64_MAX - 1, 1, false), -EAGAIN);
	cr_assert(res.lock.write && res.lock.offset == 30 && res.lock.length == TO_EOF && res.lock.holder == 1);
	cr_assert_eq(lock(first, 1, 0, TO_EOF, true), -EAGAIN);
	cr_assert(res.lock.holder == 2 && res.lock.write && res.lock.offset == 0 && res.lock.length == 10);
	cr_assert_eq(unlock_all(first, 1), 0);
	cr_assert_eq(lock(second, 2, 0, TO_EOF, true), 0);
	cr_assert_eq(unlock_all(second, 2), 0);
}

Test(nfs4_granted, tested)
{
	cr_assert_eq(granted(NFS_OP_LOCKT, NULL, range(2, 0, TO_EOF, true)), 0);
	cr_assert_eq(lock(first, 1, 10, 10, false), 0);
	cr_assert_eq(granted(NFS_OP_LOCKT, NULL, range(1, 0, TO_EOF, true)), 0, "its own");
	cr_assert_eq(granted(NFS_OP_LOCKT, NULL, range(2, 0, TO_EOF, false)), 0);
	cr_assert_eq(granted(NFS_OP_LOCKT, NULL, range(2, 19, 1, true)), -EAGAIN);
	cr_assert(!res.lock.write && res.lock.offset == 10 && res.lock.holder == 1);
}

/* As the server would say OPENMODE. */
Test(nfs4_granted, opens_of_one_kind)
{
	second->access = OPEN4_SHARE_ACCESS_READ;
	cr_assert_eq(lock(second, 2, 0, 1, true), -EBADF);
	cr_assert_eq(lock(second, 2, 0, 1, false), 0);
	second->access = OPEN4_SHARE_ACCESS_WRITE;
	cr_assert_eq(lock(second, 2, 1, 1, false), -EBADF);
	cr_assert_eq(lock(second, 2, 1, 1, true), 0);
}

/* The server has given another one of that file, which goes back: it says nothing of the locks. */
Test(nfs4_granted, another_one_that_goes_back)
{
	static const stateid4 other = { .seqid = 1, .other = "\2el9del9del" };

	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(lock(first, 1, 10 * i, 1, true), 0);
		cr_assert_eq(lock(second, 2, 10 * i, 1, true), -EAGAIN);
		cr_assert_eq(nfs4_delegs_recall(&fake_cl.server, &other, &first->file->fh), NFS4_OK);
	}
	cr_assert_eq(recall(), NFS4_OK);
	cr_assert_eq(ask(NFS_OP_LOCK, second, range(2, 0, 1, true)), NFS_LOCK_LATER);
}

/* ---- by the server ---- */

/* Others may have locks of a file that one has a delegation to read of. */
Test(nfs4_granted, one_to_read)
{
	forget_delegations4(table());
	give(0);
	cr_assert_eq(run(NFS_OP_LOCK, first, range(1, 0, 1, false)), 0);
	expect_log("L");
}

/* The server knows who has what: all others of the file go there as well, until the open is closed. */
Test(nfs4_granted, a_file_that_was_locked_before)
{
	forget_delegations4(table());
	cr_assert_eq(run(NFS_OP_LOCK, first, range(1, 0, 1, true)), 0);
	give(NFS_DELEGATION_WRITES);
	cr_assert_eq(run(NFS_OP_LOCKT, NULL, range(2, 0, 1, true)), 0);
	cr_assert_eq(run(NFS_OP_LOCK, second, range(2, 0, 1, true)), 0);
	cr_assert_eq(run(NFS_OP_LOCKU, first, range(1, 0, 1, false)), 0);
	cr_assert_eq(ask(NFS_OP_LOCK, first, range(1, 0, 1, false)), NFS_LOCK_SENT);
	cr_assert_eq(atomic_load(&first->file->locked), 2);
}

/* A LOCK that is about to be sent counts. */
Test(nfs4_granted, a_lock_that_is_on_its_way)
{
	forget_delegations4(table());
	cr_assert_eq(ask(NFS_OP_LOCK, first, range(1, 0, 1, true)), NFS_LOCK_SENT);
	give(NFS_DELEGATION_WRITES);
	cr_assert_eq(ask(NFS_OP_LOCK, second, range(2, 0, 1, true)), NFS_LOCK_SENT);
}

/* Nothing is granted by what may have been revoked. What was granted goes to the server. */
Test(nfs4_granted, in_doubt)
{
	cr_assert_eq(lock(first, 1, 0, 1, true), 0);
	nfs4_belief_doubt(&client4()->belief);
	cr_assert_eq(ask(NFS_OP_LOCK, second, range(2, 5, 1, true)), NFS_LOCK_LATER);
	cr_assert(nfs4_delegs_any_due(&fake_cl.server));
	return_it();
	expect_log("Lr");
	cr_assert_eq(run(NFS_OP_LOCK, second, range(2, 5, 1, true)), 0);
}

Test(nfs4_granted, in_doubt_and_nobody_asks)
{
	nfs4_granted_look(&fake_cl.server);
	cr_assert_not(nfs4_delegs_any_due(&fake_cl.server));
	cr_assert_eq(lock(first, 1, 0, 1, true), 0);
	nfs4_granted_look(&fake_cl.server);
	cr_assert_not(nfs4_delegs_any_due(&fake_cl.server));
	nfs4_belief_doubt(&client4()->belief);
	nfs4_granted_look(&fake_cl.server);
	cr_assert(nfs4_delegs_any_due(&fake_cl.server));
}

/* An unlock takes nothing from anybody. */
Test(nfs4_granted, an_unlock_in_doubt)
{
	cr_assert_eq(lock(first, 1, 0, 1, true), 0);
	nfs4_belief_doubt(&client4()->belief);
	cr_assert_eq(unlock_all(first, 1), 0);
	cr_assert_eq(run(NFS_OP_LOCK, first, range(1, 0, 1, true)), 0);
}

/* ---- the server gets them ---- */

Test(nfs4_granted, recalled)
{
	struct nfs_delegation *d;

	cr_assert_eq(lock(first, 1, 0, 10, true), 0);
	cr_assert_eq(lock(first, 1, 20, 5, false), 0);
	cr_assert_eq(lock(second, 2, 40, TO_EOF, true), 0);
	cr_assert_eq(recall(), NFS4_OK);
	/* Everybody waits who would change what is claimed. */
	cr_assert_eq(ask(NFS_OP_LOCK, second, range(2, 30, 1, true)), NFS_LOCK_LATER);
	cr_assert_eq(ask(NFS_OP_LOCKU, first, range(1, 0, 1, true)), NFS_LOCK_LATER);
	cr_assert_eq(ask(NFS_OP_LOCKT, NULL, range(2, 0, 1, true)), NFS_LOCK_LATER);
	d = nfs4_delegs_take(&fake_cl.server);
	cr_assert(claim(d));
	expect_log("Ll");
	cr_assert(server.last_lock.type == READ_LT && server.last_lock.offset == 20 && server.last_lock.length == 5);
	cr_assert_eq(ask(NFS_OP_LOCKU, second, range(2, 0, 1, true)), NFS_LOCK_LATER);
	cr_assert_eq(ask(NFS_OP_LOCK, first, range(1, 30, 1, true)), NFS_LOCK_LATER, "it might be the second one's");
	cr_assert(claim(d));
	cr_assert(server.last_lock.owner == 2 && server.last_lock.length == UINT64_MAX);
	cr_assert_not(claim(d));
	expect_log("L");
	/* The server has them. */
	cr_assert_eq(run(NFS_OP_LOCK, first, range(1, 30, 1, true)), 0);
	cr_assert_eq(give_back(d), 0);
	cr_assert_eq(run(NFS_OP_LOCKU, second, range(2, 40, TO_EOF, false)), 0);
	expect_log("lrU");
	cr_assert_eq(atomic_load(&first->file->locked), 2);
	cr_assert_eq(first->refs + second->refs, 2);
	cr_assert_not(is_lost(first));
}

/* Another client cannot have it. If it has, this one has lost it. */
Test(nfs4_granted, refused)
{
	cr_assert_eq(lock(first, 1, 20, 10, true), 0);
	cr_assert_eq(lock(first, 1, 40, 10, true), 0);
	cr_assert_eq(lock(first, 2, 0, 10, true), 0);
	cr_assert_eq(recall(), NFS4_OK);
	server.lock_once = NFS4ERR_DENIED;
	server.ndenied = 8;
	return_it();
	expect_log("LLr");
	cr_assert(server.last_lock.owner == 2 && server.last_lock.offset == 0, "all of the first one's is lost");
	cr_assert_eq(atomic_load(&first->locks_lost), 1);
	cr_assert(is_lost(first));
	cr_assert_not(is_lost(second));
}

Test(nfs4_granted, told_to_come_later)
{
	cr_assert_eq(lock(first, 1, 0, 10, true), 0);
	cr_assert_eq(recall(), NFS4_OK);
	server.lock_once = NFS4ERR_DELAY;
	return_it();
	expect_log("LLr");
	cr_assert_not(is_lost(first));
}

/* Somebody else may have had the lock, and have given it back. */
Test(nfs4_granted, revoked_before_it_is_returned)
{
	static const uint32_t status[] = { NFS4ERR_BAD_STATEID, NFS4ERR_DELEG_REVOKED };

	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(lock(i ? second : first, 1, 0, 10, true), 0);
		cr_assert_eq(recall(), NFS4_OK);
		server.delegreturn = status[i];
		return_it();
		expect_log(i ? "Lrf" : "Lr");
		cr_assert(is_lost(i ? second : first));
		/* As if it was closed. */
		first->file->locked = 0;
		server.delegreturn = 0;
		give(NFS_DELEGATION_WRITES);
	}
}

Test(nfs4_granted, found_to_be_revoked)
{
	static const nfsstat4 found[] = { NFS4ERR_BAD_STATEID, NFS4ERR_DELEG_REVOKED };

	for (unsigned i = 0; i < 2; i++) {
		struct nfs_open *o = i ? second : first;

		cr_assert_eq(lock(o, 1, 0, 10, true), 0);
		nfs4_revoked_deleg(&fake_cl.server, atomic_load(&first->file->delegation), found[i]);
		cr_assert(is_lost(o));
		if (i)
			return_it();
		first->file->locked = 0;
		memset(server.log, 0, sizeof(server.log));
		give(NFS_DELEGATION_WRITES);
	}
}

/* The lane that claims has lost its connection: another one begins again. */
Test(nfs4_granted, claimed_by_another_lane)
{
	struct nfs_delegation *d;
	struct rpc_cred cred = { 0 };
	struct nfs_call c = { .op = NFS_OP_CLAIM, .target = &fake_lanes[0].target, .res.status = -ENOTCONN };

	cr_assert_eq(lock(first, 1, 0, 10, true), 0);
	cr_assert_eq(lock(first, 1, 20, 10, true), 0);
	cr_assert_eq(recall(), NFS4_OK);
	d = nfs4_delegs_take(&fake_cl.server);
	c.open = nfs_delegation_locked(&fake_lanes[0], d, &cred);
	c.args.delegation = d;
	nfs4_claim_or_return_ends(&c);
	cr_assert_eq(ask(NFS_OP_LOCKU, first, range(1, 0, 1, true)), NFS_LOCK_LATER);
	return_it();
	expect_log("Llr");
	cr_assert_eq(first->refs, 1);
	cr_assert_not(is_lost(first));
}

/* ---- recovery ---- */

static void lose_session(bool stale)
{
	server.stale = stale;
	atomic_store(&client4()->need_session, true);
	memset(server.log, 0, sizeof(server.log));
	cr_assert_eq(nfs4_recover(&fake_cl.server), 0);
	resume();
}

/* They are reclaimed as if the server had had them. */
Test(nfs4_granted, the_server_restarts)
{
	cr_assert_eq(lock(first, 1, 0, 10, true), 0);
	cr_assert_eq(lock(first, 1, 20, 10, false), 0);
	cr_assert_eq(lock(second, 2, 40, 10, true), 0);
	lose_session(true);
	expect_log("SXSPKkPKC");
	cr_assert_eq(run(NFS_OP_LOCKU, first, range(1, 0, 10, false)), 0);
	cr_assert_eq(server.last_lock.stateid[1], 0x6c6f636b);
	cr_assert_not(is_lost(first));
	expect_log("U");
	cr_assert_eq(first->refs + second->refs, 2);
}

Test(nfs4_granted, the_server_restarts_and_reclaims_nothing)
{
	cr_assert_eq(lock(first, 1, 0, 10, true), 0);
	server.reclaim[0] = NFS4ERR_NO_GRACE;
	lose_session(true);
	cr_assert(is_lost(first));
}

/* The session alone is no reason. But the delegation goes back, as it may have been recalled meanwhile: the
 * server gets the lock. */
Test(nfs4_granted, the_session_is_lost)
{
	struct nfs_delegation *d;

	cr_assert_eq(lock(first, 1, 0, 10, true), 0);
	lose_session(false);
	expect_log("S");
	d = nfs4_delegs_take(&fake_cl.server);
	cr_assert(d);
	while (claim(d))
		;
	expect_log("L");
	cr_assert_not(is_lost(first));
}

/* The first open's OPEN has brought the delegation, and the second one's is under way. */
static void lock_at_the_second(void)
{
	static unsigned nopens;

	if (++nopens < 2)
		return;
	server.executed = NULL;
	atomic_store(&client4()->belief.renewed_ns, mono_ns());
	cr_assert_eq(ask(NFS_OP_LOCK, second, range(2, 0, 10, true)), NFS_LOCK_SENT);
}

/* It would be reclaimed with its open, and be the server's; and its unlock would not be sent. */
Test(nfs4_granted, a_lock_while_the_delegation_comes_back)
{
	server.back = true;
	server.gives = OPEN_DELEGATE_WRITE;
	server.executed = lock_at_the_second;
	atomic_store(&first->file->opens, 2);
	lose_session(true);
	cr_assert_null(server.executed);
	expect_log("SXSPPC");
	cr_assert(nfs_delegation_writes(atomic_load(&first->file->delegation)), "it has come back");
	cr_assert_eq(run(NFS_OP_LOCK, second, range(2, 0, 10, true)), 0);
	cr_assert_eq(run(NFS_OP_LOCKU, second, range(2, 0, 10, true)), 0);
	expect_log("LU");
}

static void on_restart(void)
{
	server.executed = NULL;
	server.badsession = 1;
	server.stale = true;
}

static void *recover_soon(void *arg)
{
	while (!atomic_load(&client4()->need_session))
		usleep(1000);
	while (nfs4_recover(&fake_cl.server))
		;
	resume();
	return arg;
}

/* The server restarts between two LOCKs of one claim: recovery has reclaimed all of them. */
Test(nfs4_granted, the_server_restarts_while_it_gets_them)
{
	struct nfs_delegation *d;
	pthread_t control;

	cr_assert_eq(lock(first, 1, 0, 10, true), 0);
	cr_assert_eq(lock(first, 1, 20, 10, false), 0);
	cr_assert_eq(recall(), NFS4_OK);
	d = nfs4_delegs_take(&fake_cl.server);
	server.executed = on_restart;
	cr_assert_eq(pthread_create(&control, NULL, recover_soon, NULL), 0);
	while (claim(d))
		;
	pthread_join(control, NULL);
	expect_log("LBSXSPKkPCp");
	give_back(d);
	expect_log("r");
	cr_assert_eq(atomic_load(&first->locks_lost), 0);
	cr_assert_eq(first->refs, 1);
}
