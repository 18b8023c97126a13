/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks of version 4.1: the calls that go out, what is held by their replies, and what becomes of it
 * when the server loses state.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "nfs4_server.h"

#define OWNER 0x1122334455667788u
#define TO_EOF UINT64_MAX

static void start(void)
{
	server4_start();
	fake_times.later_ms = 1;
	server4_mount();
	have_open(0);
}

TestSuite(nfs4_locks, .init = start, .fini = server4_stop, .timeout = 300);

/* ---- calls ---- */

static struct nfs_results res;

static int ask(enum nfs_op op, uint64_t owner, uint64_t offset, uint64_t length, bool write, bool all)
{
	static const struct nfs_fh fh = { .len = 4 };
	struct rpc_cred cred = { 0 };
	struct nfs_call c = { .op = op, .args.fh = &fh, .cred = &cred };
	bool abandoned;
	int rc;

	c.open = op == NFS_OP_LOCKT ? NULL : open_nr(0);
	c.args.lock = (struct nfs_lock_args){
		.owner = owner, .offset = offset, .length = length, .write = write, .all = all,
	};
	rc = nfs_call_sync(&fake_lanes[0].target, &c, 0, &abandoned);
	cr_assert_not(abandoned);
	res = c.res;
	return rc;
}

static int lock(uint64_t offset, uint64_t length, bool write)
{
	return ask(NFS_OP_LOCK, OWNER, offset, length, write, false);
}

static int unlock(uint64_t offset, uint64_t length)
{
	return ask(NFS_OP_LOCKU, OWNER, offset, length, false, false);
}

static int do_io(enum nfs_op op)
{
	static const struct nfs_fh fh = { .len = 4 };
	struct rpc_cred cred = { 0 };
	struct nfs_call c = { .op = op, .args.fh = &fh, .cred = &cred, .open = open_nr(0) };
	bool abandoned;

	return nfs_call_sync(&fake_lanes[0].target, &c, 0, &abandoned);
}

static void expect_log(const char *log)
{
	cr_assert_str_eq(server.log, log);
	memset(server.log, 0, sizeof(server.log));
}

/* What is held: "0-9r 20-29w", "" or "-": there is no such owner. */
static void expect_held(const char *text)
{
	const struct nfs_open *o = open_nr(0);
	char is[256] = "-";
	size_t n = 0;

	list_for_each_entry(struct nfs4_lock, l, &o->locks, node) {
		is[0] = '\0';
		for (unsigned i = 0; i < l->held.n; i++)
			n += (size_t)snprintf(is + n, sizeof(is) - n, "%s%llu-%lld%c", n ? " " : "",
					      (unsigned long long)l->held.r[i].start,
					      (long long)l->held.r[i].last, l->held.r[i].write ? 'w' : 'r');
	}
	cr_assert_str_eq(is, text);
}

static int recover(void)
{
	int rc = nfs4_recover(&fake_cl.server);

	resume();
	return rc;
}

/* ---- the calls ---- */

/* The first one names the open, the next ones have the stateid. */
Test(nfs4_locks, an_owner_gets_a_stateid)
{
	cr_assert_eq(lock(10, 5, true), 0);
	cr_assert_eq(server.last_lock.type, WRITE_LT);
	cr_assert_eq(server.last_lock.owner, OWNER);
	cr_assert_eq(server.last_lock.offset, 10);
	cr_assert_eq(server.last_lock.length, 5);
	cr_assert(res.has_attr && res.lock.held && !res.lock.had);
	cr_assert_eq(lock(12, TO_EOF, false), 0);
	cr_assert_eq(server.last_lock.type, READ_LT);
	cr_assert_eq(server.last_lock.length, UINT64_MAX);
	cr_assert_eq(server.last_lock.stateid[0], 0, "the current one");
	cr_assert_eq(server.last_lock.stateid[1], 0x6c6f636b);
	cr_assert_eq(server.last_lock.stateid[2], 1);
	cr_assert(res.lock.had);
	expect_held("10-11w 12--1r");
	cr_assert_eq(unlock(0, 11), 0);
	expect_held("11-11w 12--1r");
	cr_assert(res.lock.held);
	cr_assert_eq(unlock(0, TO_EOF), 0);
	expect_held("");
	cr_assert_not(res.lock.held);
	cr_assert_eq(lock(1, 1, false), 0);
	expect_log("LlUUl");
	cr_assert_eq(ask(NFS_OP_LOCKU, OWNER, 0, 0, false, true), 0);
	cr_assert_eq(server.last_lock.length, UINT64_MAX);
	expect_held("-");
	expect_log("Uf");
}

Test(nfs4_locks, two_owners)
{
	cr_assert_eq(ask(NFS_OP_LOCK, 1, 0, 1, true, false), 0);
	cr_assert_eq(ask(NFS_OP_LOCK, 2, 1, 1, true, false), 0);
	cr_assert_eq(server.last_lock.owner, 2);
	cr_assert_eq(ask(NFS_OP_LOCKU, 1, 0, 1, false, false), 0);
	cr_assert_eq(server.last_lock.stateid[2], 1);
	expect_log("LLU");
}

/* Whose owner is no bytes long. */
static void deny(uint64_t offset, uint64_t length, uint32_t type)
{
	const uint32_t words[] = {
		(uint32_t)(offset >> 32), (uint32_t)offset, (uint32_t)(length >> 32), (uint32_t)length, type,
		0, 77, 0,
	};

	server.lock = NFS4ERR_DENIED;
	memcpy(server.denied, words, sizeof(words));
	server.ndenied = sizeof(words) / sizeof(words[0]);
}

/* Somebody else's: nothing is held, and the next one asks as a new owner. */
Test(nfs4_locks, denied)
{
	deny(100, 10, READ_LT);
	cr_assert_eq(lock(0, 200, true), -EAGAIN);
	cr_assert_eq(res.lock.offset, 100);
	cr_assert_eq(res.lock.length, 10);
	cr_assert_not(res.lock.write);
	cr_assert_eq(res.lock.holder, 0);
	expect_held("-");
	server.lock = 0;
	cr_assert_eq(lock(0, 200, true), 0);
	expect_log("LL");
	expect_held("0-199w");
}

/* It is this mount's own: the caller knows who that is. */
Test(nfs4_locks, denied_by_another_owner_of_this_mount)
{
	uint64_t owner = OWNER + 1;

	deny(0, 1, WRITE_LT);
	server.denied[6] = (uint32_t)client4()->clientid;
	server.denied[7] = 8;
	memcpy(&server.denied[8], &owner, 8);
	for (unsigned i = 8; i < 10; i++)
		server.denied[i] = ntohl(server.denied[i]);
	server.ndenied = 10;
	cr_assert_eq(lock(0, 1, true), -EAGAIN);
	cr_assert_eq(res.lock.holder, owner);
}

Test(nfs4_locks, tested)
{
	cr_assert_eq(ask(NFS_OP_LOCKT, OWNER, 5, 6, false, false), 0);
	cr_assert_eq(server.last_lock.owner, OWNER);
	cr_assert_eq(server.last_lock.type, READ_LT);
	deny(5, 1, WRITE_LT);
	cr_assert_eq(ask(NFS_OP_LOCKT, OWNER, 5, 6, true, false), -EAGAIN);
	cr_assert(res.lock.write && res.lock.offset == 5 && res.lock.length == 1);
	expect_log("tt");
}

/* An owner that is cut off, or longer than it may be, or of a type that is none. */
Test(nfs4_locks, denied_by_a_broken_owner)
{
	deny(UINT64_MAX, UINT64_MAX, 99);
	server.denied[7] = 1025;
	cr_assert_eq(lock(0, 1, true), -EIO);
	server.denied[7] = 8;
	server.ndenied = 8;
	cr_assert_eq(lock(0, 1, true), -EIO, "it ends before the owner");
	server.ndenied = 3;
	cr_assert_eq(ask(NFS_OP_LOCKT, OWNER, 0, 1, true, false), -EIO);
	server.ndenied = 8;
	server.denied[7] = 0;
	cr_assert_eq(lock(0, 1, true), -EAGAIN);
	cr_assert(res.lock.write);
	expect_held("-");
}

Test(nfs4_locks, errors)
{
	static const struct { uint32_t status; int err; } all[] = {
		{ NFS4ERR_DEADLOCK, -EDEADLK }, { NFS4ERR_OPENMODE, -EBADF },
		{ NFS4ERR_BAD_RANGE, -EINVAL }, { NFS4ERR_LOCK_RANGE, -EINVAL },
		{ NFS4ERR_LOCK_NOTSUPP, -ENOLCK }, { NFS4ERR_STALE, -ESTALE },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		server.lock = all[i].status;
		cr_assert_eq(lock(0, 1, true), all[i].err, "%u", all[i].status);
		expect_held("-");
	}
	server.lock = 0;
	cr_assert_eq(lock(0, 1, true), 0);
	server.locku = NFS4ERR_LOCK_RANGE;
	cr_assert_eq(unlock(0, 1), -EINVAL);
	expect_held("0-0w");
}

/* It is locked, and the attributes come by themselves, or not at all. */
Test(nfs4_locks, attributes_that_come_later)
{
	server.lock_attrs = NFS4ERR_DELAY;
	cr_assert_eq(lock(0, 1, true), 0);
	expect_log("Lg");
	cr_assert(res.has_attr);
	server.lock_attrs = NFS4ERR_STALE;
	cr_assert_eq(lock(1, 1, true), 0);
	cr_assert_not(res.has_attr);
	expect_log("l");
	expect_held("0-1w");
}

Test(nfs4_locks, delayed)
{
	server.lock_once = NFS4ERR_DELAY;
	cr_assert_eq(lock(0, 1, true), 0);
	expect_log("LL");
	server.lock_once = NFS4ERR_GRACE;
	cr_assert_eq(lock(1, 1, true), 0);
	expect_log("ll");
}

/* If the call is between two sendings. */
static void expire(struct nfs_lane *l, void *expired)
{
	const struct nfs_call *c = container_of(l->running.next, struct nfs_call, eng.run_node);

	*(bool *)expired = c->eng.rr.state == RR_CALL_IDLE;
	if (*(bool *)expired)
		nfs_expire(l);
}

/* A soft mount's time is up while the server says "later", for ever. */
static void await_expired(struct one_call *o)
{
	bool expired = false;

	server4_await(4);
	fake_cl.cfg.soft = true;
	fake_cl.cfg.timeo_ms = 1;
	fake_cl.cfg.retrans = 0;
	while (!expired)
		nfs_each_lane(&fake_cl, expire, &expired);
	await(o, -EIO);
	fake_cl.cfg.soft = false;
}

Test(nfs4_locks, a_lock_that_is_delayed_for_ever)
{
	struct one_call o;

	server.lock = NFS4ERR_GRACE;
	begin(&o, NFS_OP_LOCK, open_nr(0));
	await_expired(&o);
	cr_assert_eq(strspn(server.log, "L"), strlen(server.log));
	expect_held("-");
	/* The caller sees to it that nothing is. */
	memset(server.log, 0, sizeof(server.log));
	server.lock = 0;
	cr_assert_eq(unlock(0, 1), 0);
	expect_log("LU");
	expect_held("-");
	cr_assert_eq(lock(0, 1, true), 0);
	expect_log("L");
	expect_held("0-0w");
}

/* There is no open of it, and nothing to close. */
Test(nfs4_locks, others_that_are_delayed_for_ever)
{
	static const enum nfs_op ops[] = { NFS_OP_OPEN, NFS_OP_GETATTR };
	struct one_call o;

	for (unsigned i = 0; i < 2; i++) {
		server.refuses = i ? NFS4ERR_DELAY : NFS4ERR_GRACE;
		begin(&o, ops[i], NULL);
		await_expired(&o);
		cr_assert_null(o.open);
		server.refuses = 0;
		memset(server.log, 0, sizeof(server.log));
		begin(&o, ops[i], NULL);
		await(&o, 0);
		expect_log(i ? "g" : "O");
	}
}

/* The caller does not know whether it got the lock. */
Test(nfs4_locks, unlocked_without_a_stateid)
{
	cr_assert_eq(unlock(3, 4), 0);
	expect_log("LU");
	cr_assert_eq(server.last_lock.stateid[1], 0x6c6f636b);
	cr_assert_eq(server.last_lock.offset, 3);
	deny(0, 1, WRITE_LT);
	cr_assert_eq(unlock(3, 4), 0, "it is another's");
	expect_log("L");
}

/* ---- a stateid that is gone ---- */

static const uint32_t gone[] = { NFS4ERR_BAD_STATEID, NFS4ERR_EXPIRED, NFS4ERR_ADMIN_REVOKED };
#define GONE (sizeof(gone) / sizeof(gone[0]))

/* One that is revoked is freed by recovery, with others that may be. */
static void expect_test(uint32_t status)
{
	cr_assert_eq(atomic_exchange(&client4()->need_test, false), status != NFS4ERR_BAD_STATEID);
}

/* Nothing was held: the owner begins anew. */
Test(nfs4_locks, an_owner_that_held_nothing)
{
	for (unsigned i = 0; i < GONE; i++) {
		cr_assert_eq(lock(0, 1, true), 0);
		cr_assert_eq(unlock(0, 1), 0);
		server.lock_once = gone[i];
		cr_assert_eq(lock(0, 1, true), 0);
		expect_log(gone[i] == NFS4ERR_BAD_STATEID ? "LUlL" : "LUlfL");
		expect_held("0-0w");
		expect_test(gone[i]);
		cr_assert_eq(ask(NFS_OP_LOCKU, OWNER, 0, 0, false, true), 0);
		expect_log("Uf");
	}
}

static void lose_by(uint32_t status)
{
	cr_assert_eq(lock(0, 1, true), 0);
	server.lock_once = status;
	cr_assert_eq(lock(5, 1, true), -EIO);
	expect_test(status);
	cr_assert_eq(do_io(NFS_OP_READ), -EIO);
	cr_assert_eq(do_io(NFS_OP_WRITE), -EIO);
	cr_assert_eq(lock(5, 1, true), -EIO);
	expect_log("Ll");
	/* Until it is unlocked. */
	server.locku = NFS4ERR_BAD_STATEID;
	cr_assert_eq(unlock(0, TO_EOF), 0);
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
	server.locku = 0;
	cr_assert_eq(lock(5, 1, true), 0);
	expect_log("UL");
	expect_held("5-5w");
	cr_assert_eq(ask(NFS_OP_LOCKU, OWNER, 0, 0, false, true), 0);
	expect_log("Uf");
}

Test(nfs4_locks, what_was_held_is_lost)
{
	for (unsigned i = 0; i < GONE; i++)
		lose_by(gone[i]);
}

Test(nfs4_locks, unlock_finds_it)
{
	cr_assert_eq(lock(0, 1, true), 0);
	server.locku = NFS4ERR_EXPIRED;
	cr_assert_eq(unlock(0, 1), 0);
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
	expect_held("");
	expect_log("LUf");
}

/* ... and nobody else knows the stateid then, which the server keeps until it is freed. */
Test(nfs4_locks, the_last_unlock_finds_it)
{
	for (unsigned i = 0; i < GONE; i++) {
		cr_assert_eq(lock(0, 1, true), 0);
		server.locku = gone[i];
		server.free_delays = i == 1;
		cr_assert_eq(ask(NFS_OP_LOCKU, OWNER, 0, 0, false, true), 0);
		cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
		cr_assert_not(res.lock.held);
		expect_held("-");
		expect_log(i == 0 ? "LU" : i == 1 ? "LUdf" : "LUf");
	}
}

/* ---- recovery ---- */

static void restart(void)
{
	server.stale = true;
	atomic_store(&client4()->need_session, true);
	memset(server.log, 0, sizeof(server.log));
	cr_assert_eq(recover(), 0);
}

/* Each range, after its open, and before RECLAIM_COMPLETE. */
Test(nfs4_locks, reclaimed)
{
	cr_assert_eq(lock(0, 10, true), 0);
	cr_assert_eq(lock(20, 10, false), 0);
	cr_assert_eq(lock(40, TO_EOF, true), 0);
	cr_assert_eq(ask(NFS_OP_LOCK, 9, 12, 1, true, false), 0);
	restart();
	expect_log("SXSPKKkkC");
	cr_assert_eq(server.last_lock.offset, 40);
	cr_assert_eq(server.last_lock.length, UINT64_MAX);
	cr_assert_eq(server.last_lock.owner, OWNER, "the one with the greater number");
	cr_assert_eq(server.last_lock.stateid[2], 7, "not one of before");
	cr_assert_eq(unlock(0, 1), 0);
	cr_assert_eq(server.last_lock.stateid[2], 8);
	cr_assert_eq(do_io(NFS_OP_COMMIT), -EIO);       /* the server plays none */
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
}

Test(nfs4_locks, refused)
{
	static const uint32_t status[] = {
		NFS4ERR_NO_GRACE, NFS4ERR_RECLAIM_BAD, NFS4ERR_RECLAIM_CONFLICT, NFS4ERR_DENIED,
		NFS4ERR_BAD_STATEID, NFS4ERR_STALE,
	};

	for (unsigned i = 0; i < sizeof(status) / sizeof(status[0]); i++) {
		cr_assert_eq(lock(0, 10, true), 0);
		cr_assert_eq(lock(20, 10, true), 0);
		server.relock = status[i];
		if (status[i] == NFS4ERR_DENIED)
			deny(0, 1, WRITE_LT);
		restart();
		server.lock = 0;
		expect_log("SXSPKC");
		cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 1);
		expect_open(0, false);
		cr_assert_eq(do_io(NFS_OP_READ), -EIO);
		/* Only once. */
		restart();
		expect_log("SXSPC");
		server.locku = NFS4ERR_BAD_STATEID;
		cr_assert_eq(ask(NFS_OP_LOCKU, OWNER, 0, 0, false, true), 0);
		server.locku = 0;
		cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
		memset(server.log, 0, sizeof(server.log));
	}
}

static void loses_the_session(void)
{
	server.reclaim[0] = 0;
	server.badsession = 1;
	server.executed = NULL;
}

/* An open is told "later", and then its call ends with the session: that is no answer to what it reclaims. */
Test(nfs4_locks, the_session_is_lost_behind_a_delay)
{
	fake_times.later_ms = 1;
	cr_assert_eq(lock(0, 10, true), 0);
	server.reclaim[0] = NFS4ERR_DELAY;
	server.executed = loses_the_session;
	restart();
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
	cr_assert_eq(strcspn(server.log, "K"), strlen(server.log) - 2, "%s", server.log);
	expect_open(0, false);
}

/* For longer than a lease period: it is lost, and nothing else waits for it. */
Test(nfs4_locks, reclaims_that_are_always_delayed)
{
	static const uint32_t status[] = { NFS4ERR_DELAY, NFS4ERR_GRACE };

	atomic_store(&client4()->lease_s, 0);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(lock(0, 10, true), 0);
		server.relock = status[i];
		restart();
		expect_log("SXSPKC");
		cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 1);
		expect_open(0, false);
		server.locku = NFS4ERR_BAD_STATEID;
		cr_assert_eq(unlock(0, 10), 0);
		server.locku = 0;
		memset(server.log, 0, sizeof(server.log));
	}
}

/* ... and it is not asked for again, not for a moment. */
Test(nfs4_locks, unlocked_after_it_was_refused)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.relock = NFS4ERR_RECLAIM_CONFLICT;
	restart();
	expect_log("SXSPKC");
	server.locku = NFS4ERR_BAD_STATEID;
	cr_assert_eq(unlock(0, 10), 0);
	expect_log("U");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
}

/* Each owner has two ranges; they are asked for in the order of their numbers. */
static void two_owners_lock(void)
{
	for (uint64_t owner = 1; owner <= 2; owner++)
		for (uint64_t i = 0; i < 2; i++)
			cr_assert_eq(ask(NFS_OP_LOCK, owner, 10 * owner + 5 * i, 1, true, false), 0);
}

/* The one that was refused has lost both its ranges, and the other one has its own. */
static void expect_one_is_left(uint64_t lost, uint64_t left)
{
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 1);
	expect_open(0, false);
	memset(server.log, 0, sizeof(server.log));
	server.locku = NFS4ERR_BAD_STATEID;
	cr_assert_eq(ask(NFS_OP_LOCKU, lost, 0, 0, false, true), 0);
	server.locku = 0;
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
	cr_assert_eq(ask(NFS_OP_LOCKU, left, 10 * left, 1, false, false), 0);
	expect_log("UU");
	cr_assert_eq(server.last_lock.stateid[1], 0x6c6f636b);
	restart();
	expect_log("SXSPKC");
	cr_assert_eq(server.last_lock.owner, left);
	cr_assert_eq(server.last_lock.offset, 10 * left + 5);
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
}

Test(nfs4_locks, the_first_owner_is_refused)
{
	two_owners_lock();
	server.relock_once = NFS4ERR_RECLAIM_CONFLICT;
	restart();
	cr_assert_str_eq(server.log, "SXSPKKkC");
	expect_one_is_left(1, 2);
}

static void refuse_second_owner(void)
{
	if (server.log[strlen(server.log) - 1] != 'k')
		return;
	server.executed = NULL;
	server.relock_once = NFS4ERR_RECLAIM_CONFLICT;
}

Test(nfs4_locks, the_second_owner_is_refused)
{
	two_owners_lock();
	server.executed = refuse_second_owner;
	restart();
	cr_assert_str_eq(server.log, "SXSPKkKC");
	expect_one_is_left(2, 1);
}

/* The lease has ended: the open is opened again, and somebody else may have had the lock. */
Test(nfs4_locks, an_open_that_is_not_reclaimed)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.reclaim[0] = NFS4ERR_NO_GRACE;
	restart();
	expect_log("SXSPCF");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 1);
	expect_open(0, false);
	cr_assert_eq(do_io(NFS_OP_WRITE), -EIO);
}

/* Its mode lets nobody open the file again: I/O goes on without an open, and what was locked by it is lost. */
Test(nfs4_locks, an_open_that_is_not_allowed_again)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.forbids = OPEN4_SHARE_ACCESS_BOTH;
	restart();
	expect_log("SXSPPPC");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 1);
	cr_assert_not(atomic_load(&open_nr(0)->lost));
	cr_assert_eq(do_io(NFS_OP_WRITE), -EIO);
}

/* Another server, which would take this mount's word for a lock that it has granted to somebody else. */
Test(nfs4_locks, nothing_is_reclaimed_in_another_scope)
{
	cr_assert_eq(lock(0, 10, true), 0);
	cr_assert_eq(ask(NFS_OP_LOCK, 9, 12, 1, true, false), 0);
	server.scope = "other";
	restart();
	expect_log("SXSCF");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 2);
	expect_open(0, false);
	cr_assert_eq(do_io(NFS_OP_WRITE), -EIO);
	/* It is not reclaimed later either. */
	restart();
	expect_log("SXSPC");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 2);
}

/* An owner that holds nothing, and so loses nothing. */
Test(nfs4_locks, nothing_to_lose)
{
	cr_assert_eq(lock(0, 10, true), 0);
	cr_assert_eq(unlock(0, 10), 0);
	server.reclaim[0] = NFS4ERR_NO_GRACE;
	restart();
	expect_log("SXSPCF");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
	cr_assert_eq(lock(0, 10, true), 0);
	expect_log("L");
}

Test(nfs4_locks, revoked)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.flags = SEQ4_STATUS_ADMIN_STATE_REVOKED;
	server.test_lock = NFS4ERR_ADMIN_REVOKED;
	memset(server.log, 0, sizeof(server.log));
	atomic_store(&client4()->need_test, true);
	cr_assert_eq(recover(), 0);
	expect_log("TTf");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 1);
	cr_assert_eq(do_io(NFS_OP_READ), -EIO);
	/* What is good is left alone. */
	server.locku = NFS4ERR_BAD_STATEID;
	cr_assert_eq(unlock(0, 10), 0);
	server.locku = server.test_lock = 0;
	cr_assert_eq(lock(0, 10, true), 0);
	memset(server.log, 0, sizeof(server.log));
	atomic_store(&client4()->need_test, true);
	cr_assert_eq(recover(), 0);
	expect_log("TT");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
}

static void recover_by_test(int rc, const char *log)
{
	memset(server.log, 0, sizeof(server.log));
	atomic_store(&client4()->need_test, true);
	cr_assert_eq(recover(), rc);
	expect_log(log);
	cr_assert_eq(atomic_load(&client4()->need_test), rc != 0);
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 1);
}

/* A lane hears of it before recovery does, which frees the stateid all the same, and not twice. */
Test(nfs4_locks, revoked_and_lost_before)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.lock_once = server.test_lock = NFS4ERR_ADMIN_REVOKED;
	cr_assert_eq(lock(20, 10, true), -EIO);
	recover_by_test(0, "TTf");
	recover_by_test(0, "TT");
}

/* ... and later, if the server says so. What else there is to do is done meanwhile. */
Test(nfs4_locks, revoked_and_freed_later)
{
	have_open(1);
	cr_assert_eq(lock(0, 10, true), 0);
	atomic_store(&open_nr(1)->reopen, true);
	server.test_lock = NFS4ERR_ADMIN_REVOKED;
	server.free_delays = 1;
	recover_by_test(NFS_LATER, "TTdF");
	expect_open(1, false);
	recover_by_test(0, "TTf");
}

/* The open is revoked as well. */
Test(nfs4_locks, revoked_with_its_open)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.test[0] = server.test_lock = NFS4ERR_EXPIRED;
	recover_by_test(0, "TTffF");
	expect_open(0, false);
}

static void on_tested(void)
{
	struct nfs4_lock *l = nfs4_lock_find_locked(open_nr(0), OWNER);

	if (l)
		l->stateid.other[11]++;
}

/* It is unlocked and locked anew between the server's answer and what recovery does with that. */
Test(nfs4_locks, locked_anew_while_it_is_tested)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.test_lock = NFS4ERR_ADMIN_REVOKED;
	server.executed = on_tested;
	memset(server.log, 0, sizeof(server.log));
	atomic_store(&client4()->need_test, true);
	cr_assert_eq(recover(), 0);
	expect_log("TTf");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
}

/* TEST_STATEID fails, and what else recovery has to do is done all the same. */
static void recover_without_test(void)
{
	memset(server.log, 0, sizeof(server.log));
	atomic_store(&open_nr(1)->reopen, true);
	atomic_store(&client4()->need_test, true);
	cr_assert_eq(recover(), 0);
	expect_log("TTF");
	expect_open(1, false);
	cr_assert_not(atomic_load(&client4()->need_test));
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
}

Test(nfs4_locks, a_server_that_cannot_test)
{
	have_open(1);
	cr_assert_eq(lock(0, 10, true), 0);
	server.cannot_test = true;
	recover_without_test();
	server.cannot_test = false;
	server.tests_fewer = true;
	recover_without_test();
}

/* ---- a WRITE of the moment in which the open is open again, and its locks are not known to be lost ---- */

static struct {
	struct rpc_cred cred;
	struct nfs_fh fh;
	struct nfs_call c;
	struct loop_msg now;
	_Atomic bool done;
} meanwhile;

static void meanwhile_done(struct nfs_call *c)
{
	(void)c;
	atomic_store(&meanwhile.done, true);
}

/* The lane has just decoded the OPEN's reply. Recovery waits: for the lock, to give back its reference. */
static void meanwhile_write(struct loop_msg *m)
{
	(void)m;
	nfs_start(&fake_lanes[0], &meanwhile.c);
	pthread_mutex_unlock(&client4()->opens[0].mu);
}

static void write_meanwhile(void)
{
	meanwhile.fh.len = 4;
	meanwhile.c = (struct nfs_call){ .op = NFS_OP_WRITE, .args.fh = &meanwhile.fh, .cred = &meanwhile.cred,
					 .open = open_nr(0), .done = meanwhile_done };
	meanwhile.now.fn = meanwhile_write;
	pthread_mutex_lock(&client4()->opens[0].mu);
	loop_post(fake_lanes[0].loop, &meanwhile.now);
}

static void expect_lost(const char *log)
{
	expect_log(log);
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 1);
	expect_open(0, false);
	cr_assert_eq(do_io(NFS_OP_WRITE), -EIO);
}

static void on_opened_again(void)
{
	if (server.log[strlen(server.log) - 1] != 'F')
		return;
	server.executed = NULL;
	write_meanwhile();
}

/* log: no call of a file but those of recovery. */
static void expect_no_write(const char *log)
{
	server.executed = on_opened_again;
	memset(server.log, 0, sizeof(server.log));
	cr_assert_eq(recover(), 0);
	while (!atomic_load(&meanwhile.done))
		usleep(1000);
	cr_assert_eq(meanwhile.c.res.status, -EIO);
	expect_lost(log);
}

Test(nfs4_locks, a_write_beside_the_open_that_is_not_reclaimed)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.reclaim[0] = NFS4ERR_NO_GRACE;
	server.stale = true;
	atomic_store(&client4()->need_session, true);
	expect_no_write("SXSPCF");
}

Test(nfs4_locks, a_write_beside_the_open_whose_stateid_is_lost)
{
	cr_assert_eq(lock(0, 10, true), 0);
	atomic_store(&open_nr(0)->reopen, true);
	expect_no_write("F");
}

Test(nfs4_locks, a_write_beside_the_open_that_is_revoked)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.test[0] = NFS4ERR_EXPIRED;
	atomic_store(&client4()->need_test, true);
	expect_no_write("TTfF");
}

static void on_session_lost(void)
{
	server.executed = NULL;
	server.badsession = 1;
	server.reclaim[0] = NFS4ERR_NO_GRACE;
}

/* The session is lost between the OPEN and the DELEGRETURN that ends the call: the next OPEN brings the
 * same stateid, and it is not the one with the locks. */
Test(nfs4_locks, an_open_again_whose_end_is_lost)
{
	cr_assert_eq(lock(0, 10, true), 0);
	atomic_store(&open_nr(0)->reopen, true);
	server.gives = OPEN_DELEGATE_READ;
	server.executed = on_session_lost;
	memset(server.log, 0, sizeof(server.log));
	cr_assert_eq(recover(), 0);
	expect_lost("FBSFr");
}

/* It is reclaimed, and the session is lost before its locks are; when there is the next one the grace period
 * is over. The server has the open, and another client may have had the lock. */
Test(nfs4_locks, an_open_that_is_reclaimed_without_its_locks)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.executed = on_session_lost;
	restart();
	expect_lost("SXSPBSPCF");
}

/* ---- a reply of before recovery, which comes after it ---- */

static void on_locks_gone(void)
{
	server.executed = NULL;
	nfs4_locks_gone(&fake_cl.server, open_nr(0));
}

static void on_reclaimed(void)
{
	server.executed = NULL;
	cr_assert_eq(nfs4_locks_reclaim(&fake_cl.server, open_nr(0)), 0);
}

/* What it has granted is lost, and was not reclaimed: the lock is asked for again. */
Test(nfs4_locks, granted_before_recovery)
{
	server.executed = on_locks_gone;
	cr_assert_eq(lock(0, 10, true), 0);
	expect_log("LL");
	cr_assert_eq(unlock(0, 10), 0);
	server.executed = on_reclaimed;
	cr_assert_eq(lock(0, 10, true), 0);
	expect_log("UlL");
	expect_held("0-9w");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
}

/* It had another lock, and that is lost. */
Test(nfs4_locks, granted_before_another_one_is_lost)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.executed = on_locks_gone;
	cr_assert_eq(lock(20, 10, true), -EIO);
	expect_log("Ll");
	expect_held("0-9w");
	cr_assert_eq(do_io(NFS_OP_WRITE), -EIO);
}

Test(nfs4_locks, unlocked_before_recovery)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.executed = on_locks_gone;
	cr_assert_eq(unlock(0, 10), 0);
	expect_log("LUU");
	expect_held("");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
}

/* The same with a stateid that is revoked: the LOCKU is sent once more first. */
Test(nfs4_locks, refused_to_unlock_before_recovery)
{
	cr_assert_eq(lock(0, 10, true), 0);
	server.executed = on_locks_gone;
	server.locku = NFS4ERR_EXPIRED;
	cr_assert_eq(unlock(0, 10), 0);
	expect_log("LUUf");
	expect_held("");
	cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
}

static unsigned lost_meanwhile;
static nfsstat4 found_meanwhile;

/* The server has executed LOCKU, and what it says of the stateid from then on is there before LOCKU's reply. */
static void on_unlocked(void)
{
	stateid4 stateid = nfs4_lock_find_locked(open_nr(0), OWNER)->stateid;

	server.executed = NULL;
	nfs4_lock_lose_owner(&fake_cl.server, open_nr(0), OWNER, &stateid, found_meanwhile);
	lost_meanwhile = atomic_load(&open_nr(0)->locks_lost);
}

/* With all that it holds the owner's stateid goes. That is no loss, unlike what becomes of it otherwise. */
Test(nfs4_locks, tested_while_it_is_unlocked)
{
	static const struct { bool all; nfsstat4 found; unsigned lost; } t[] = {
		{ true, NFS4ERR_BAD_STATEID, 0 }, { true, NFS4ERR_ADMIN_REVOKED, 1 }, { false, NFS4ERR_BAD_STATEID, 1 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cr_assert_eq(lock(0, 10, true), 0);
		found_meanwhile = t[i].found;
		server.executed = on_unlocked;
		cr_assert_eq(ask(NFS_OP_LOCKU, OWNER, 0, 10, false, t[i].all), 0);
		cr_assert_eq(lost_meanwhile, t[i].lost, "row %u", i);
		cr_assert_eq(atomic_load(&open_nr(0)->locks_lost), 0);
	}
	/* It was not unlocked, and is locked again. */
	cr_assert_eq(lock(0, 10, true), 0);
	server.locku = NFS4ERR_SERVERFAULT;
	cr_assert_lt(ask(NFS_OP_LOCKU, OWNER, 0, 10, false, true), 0);
	server.executed = on_unlocked;
	cr_assert_eq(lock(20, 10, true), 0);
	cr_assert_eq(lost_meanwhile, 1);
}

/* ---- ranges, against a byte map ---- */

enum { BYTES = 40 };

static void check_ranges(const struct nfs_ranges *s, const char *map)
{
	char is[BYTES] = { 0 };

	for (unsigned i = 0; i < s->n; i++) {
		const struct nfs_range *r = &s->r[i];

		cr_assert_leq(r->start, r->last);
		cr_assert(!i || s->r[i - 1].last < r->start);
		cr_assert(!i || s->r[i - 1].last + 1 < r->start || s->r[i - 1].write != r->write, "merged");
		for (uint64_t b = r->start; b <= r->last && b < BYTES; b++)
			is[b] = r->write ? NFS_RANGE_WRITE : NFS_RANGE_READ;
	}
	cr_assert_eq(memcmp(is, map, BYTES), 0);
}

Test(nfs4_locks, ranges_split_and_merge)
{
	struct nfs_ranges s = { 0 };
	char map[BYTES] = { 0 };
	unsigned seed = 1;

	for (unsigned n = 0; n < 100000; n++) {
		unsigned a = (unsigned)rand_r(&seed) % BYTES, b = (unsigned)rand_r(&seed) % BYTES;
		unsigned start = a < b ? a : b, last = a < b ? b : a;
		enum nfs_range_set type = (enum nfs_range_set)(rand_r(&seed) % 3);
		bool any = false;

		for (unsigned i = start; i <= last; i++)
			any = any || map[i];
		cr_assert_eq(nfs_ranges_any(&s, start, last), any);
		/* The last byte stands for all that follow. */
		cr_assert(nfs_ranges_set(&s, start, last == BYTES - 1 ? UINT64_MAX : last, type));
		memset(map + start, (int)type, last - start + 1);
		check_ranges(&s, map);
	}
	nfs_ranges_free(&s);
}

Test(nfs4_locks, ranges_that_make_no_sense)
{
	cr_assert_eq(nfs_range_last(0, 1), 0);
	cr_assert_eq(nfs_range_last(5, 0), UINT64_MAX);
	cr_assert_eq(nfs_range_last(5, UINT64_MAX), UINT64_MAX);
	cr_assert_eq(nfs_range_last(UINT64_MAX, 1), UINT64_MAX);
	cr_assert_eq(nfs_range_last(UINT64_MAX, 2), UINT64_MAX);
	cr_assert_eq(nfs_range_last(UINT64_MAX - 1, 2), UINT64_MAX);
	cr_assert_eq(nfs_range_length(3, 3), 1);
	cr_assert_eq(nfs_range_length(3, UINT64_MAX), UINT64_MAX);
}
