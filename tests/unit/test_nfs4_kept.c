/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * OPENs that stay at the server (nfs4_kept.c): which ones, for whom, and who gets in between: a recall, recovery,
 * and two that want the same.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "fake_lane.h"
#include "nfs4_play.h"
#include "xdr_msg.h"

#define DELEG_WORDS 0x64656c31, 0x64656c32, 0x64656c33
#define DELEG       "del1del2del3"
#define BOTH        (ACCESS4_READ | ACCESS4_EXECUTE)

static const struct rpc_cred user = { .uid = 1000 };
static struct nfs_file *file;           /* a reference */
static struct nfs_open *first;          /* has brought the delegation... */
static _Atomic uint64_t number;         /* ...with this number */

static struct nfs_open *open_it(void)
{
	struct nfs_open *o = open4(&fh);

	nfs_file_put(o->file);
	o->file = nfs_file_ref(file);
	atomic_fetch_add(&file->opens, 1);
	o->rights = BOTH;
	return o;
}

static void give(void)
{
	first = open_it();
	cr_assert(delegate4(first, DELEG));
	atomic_store(&number, first->under);
}

static void setup(void)
{
	play4_setup();
	cl4.cfg.delegations = true;
	n4.back.has = true;
	n4.lease_s = 90;
	file = fake_file(NULL, &fh);
	give();
}

static void teardown(void)
{
	forget_delegations4(&n4.delegs);
	play4_teardown();
	nfs_file_put(file);
}

TestSuite(nfs4_kept, .init = setup, .fini = teardown, .timeout = 60);

/* Another open of that file under the delegation that it has. */
static struct nfs_open *one_more(void)
{
	struct nfs_open *o = open_it();

	o->under = number;
	return o;
}

static bool stays(struct nfs_open *o)
{
	return nfs_open_stays(&cl4.server, o->file, o);
}

static struct nfs_open *again_as(const struct rpc_cred *cred, bool exec)
{
	return nfs_open_again(&cl4.server, file, number, cred, O_RDONLY, exec);
}

static struct nfs_open *again(void)
{
	return again_as(&user, false);
}

static void recall(void)
{
	stateid4 s = { .seqid = 1 };

	memcpy(s.other, DELEG, sizeof(s.other));
	cr_assert_eq(nfs4_delegs_recall(&cl4.server, &s, &fh), NFS4_OK);
}

/* What stays with it is closed. */
static unsigned closed(struct nfs_delegation *d)
{
	struct rpc_cred cred;
	struct nfs_open *o;
	unsigned n = 0;

	while ((o = nfs_delegation_open(lane4(), d, &cred))) {
		cr_assert_eq(cred.uid, o->cred.uid);
		cr_assert(nfs4_open_close(o));
		nfs4_open_put(o);
		n++;
	}
	return n;
}

static void returned(struct nfs_delegation *d, bool answered)
{
	struct nfs_call c = call4(NFS_OP_DELEGRETURN);

	container_of(d, struct nfs4_delegation, d)->answered = answered;
	c.args.delegation = d;
	c.res.status = answered ? 0 : -EIO;
	nfs4_release(target4(), &c);
	nfs4_delegs_return_ends(&c);
}

/* ---- which ones ---- */

Test(nfs4_kept, the_same_open)
{
	cr_assert_null(again());
	cr_assert(stays(first));
	cr_assert_eq(again(), first);
	cr_assert_null(again(), "somebody has it");
	cr_assert(stays(first));
}

Test(nfs4_kept, which_ones)
{
	for (unsigned i = 0; i < 8; i++) {
		struct nfs_open *o = one_more();

		switch (i) {
		case 0: o->access = OPEN4_SHARE_ACCESS_BOTH; break;
		case 1: atomic_store(&o->lost, true); break;
		case 2: atomic_store(&o->reopen, true); break;
		case 3: o->rights = 0; break;           /* an exclusive create asks for none */
		/* What ACCESS has granted is older than the delegation. */
		case 4: o->under = 0; break;
		case 5: o->under++; break;
		/* Another inode of the file: believed.h is about this one. */
		case 6:
			nfs_file_put(o->file);
			o->file = fake_file(NULL, &fh);
			break;
		default: break;
		}
		cr_assert_eq(nfs4_kept_stays(&cl4.server, o), i == 7, "row %u", i);
		if (i == 6)
			atomic_fetch_add(&o->file->opens, 1);
		if (i < 7)
			nfs4_open_put(o);
	}
	nfs4_open_put(first);
}

/* By that open. status: of LOCK, -1: it has no answer. */
static void lock_by(struct nfs_open *o, int status)
{
	struct nfs_call c = call4(NFS_OP_LOCK);
	static uint32_t w[100];
	XDR x;

	c.open = o;
	c.args.lock = (struct nfs_lock_args){ .owner = 7, .length = UINT64_MAX };
	xdr_msg_create(&x, w, sizeof(w), XDR_ENCODE);
	cr_assert(def4(c.op)->encode(&c, &x));
	m_res();
	m_op(OP_LOCK);
	M(1, STATEID_WORDS);
	m_op(OP_GETATTR);
	m_stat_fattr();
	if (status > 0)
		m_fail_at(2, (uint32_t)status);
	if (status >= 0)
		cr_assert_eq(play_reply(&c, def4(c.op)), status ? -EINVAL : 0);
	nfs4_release(target4(), &c);
}

/* The server may have locks of it, also if nobody here knows of any. */
Test(nfs4_kept, an_open_that_was_locked)
{
	static const int status[] = { 0, NFS4ERR_LOCK_RANGE, -1 };

	for (unsigned i = 0; i < 3; i++) {
		struct nfs_open *o = one_more();

		lock_by(o, status[i]);
		cr_assert_eq(list_empty(&o->locks), i > 0);
		cr_assert_not(stays(o), "row %u", i);
		nfs4_open_put(o);
	}
	cr_assert(stays(first));
}

/* CREATE could not say which file it is. */
Test(nfs4_kept, an_open_without_a_file)
{
	struct nfs_call c = call4(NFS_OP_CREATE);
	struct nfs_open *o = nfs4_open_new(&c, OPEN4_SHARE_ACCESS_READ);

	cr_assert_not(nfs4_kept_stays(&cl4.server, o));
	nfs4_release(target4(), &c);
	nfs4_open_put(o);
	nfs4_open_put(first);
}

Test(nfs4_kept, for_whom)
{
	static const struct rpc_cred other[] = {
		{ .uid = 1001 }, { .uid = 1000, .gid = 1 }, { .uid = 1000, .ngids = 1, .gids = { 5 } },
	};

	cr_assert(stays(first));
	for (unsigned i = 0; i < 3; i++)
		cr_assert_null(again_as(&other[i], false));
	first->rights = ACCESS4_READ;
	cr_assert_null(again_as(&user, true));
	first->rights = ACCESS4_EXECUTE;
	cr_assert_null(again_as(&user, false));
	cr_assert_eq(again_as(&user, true), first);
	cr_assert(stays(first));
	/* What recovery has found out since. */
	atomic_store(&first->lost, true);
	cr_assert_null(again_as(&user, true));
	atomic_store(&first->lost, false);
	atomic_store(&first->reopen, true);
	cr_assert_null(again_as(&user, true));
}

/* An OPEN is for opens of its kind. Under a delegation to read none that writes stays. */
Test(nfs4_kept, to_write)
{
	static const int flags[] = { O_RDONLY, O_WRONLY, O_RDWR };
	struct nfs_open *o[3];

	nfs4_open_put(first);
	forget_delegations4(&n4.delegs);
	first = open_it();
	cr_assert(delegate4_write(first, DELEG));
	atomic_store(&number, first->under);
	for (unsigned i = 0; i < 3; i++) {
		o[i] = i ? one_more() : first;
		o[i]->access = nfs4_share_access(flags[i]);
		cr_assert(stays(o[i]));
	}
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(nfs_open_again(&cl4.server, file, number, &user, flags[i], false), o[i], "row %u", i);
		cr_assert_null(nfs_open_again(&cl4.server, file, number, &user, flags[i], false));
	}
	/* What he may not read, he may write. */
	o[1]->rights = o[2]->rights = ACCESS4_EXECUTE;
	cr_assert(stays(o[1]) && stays(o[2]));
	cr_assert_eq(nfs_open_again(&cl4.server, file, number, &user, O_WRONLY, false), o[1]);
	cr_assert_null(nfs_open_again(&cl4.server, file, number, &user, O_RDWR, false));
	nfs4_open_put(o[0]);
	nfs4_open_put(o[1]);
}

Test(nfs4_kept, not_too_many)
{
	struct nfs_open *o;

	cr_assert(stays(first));
	for (unsigned i = 1; i < NFS4_KEPT_OF_ONE; i++)
		cr_assert(stays(one_more()));
	o = one_more();
	cr_assert_not(stays(o));
	nfs4_open_put(again());
	n4.delegs.nkept += NFS4_KEPT_MAX - NFS4_KEPT_OF_ONE + 1;
	cr_assert_not(stays(o));
	n4.delegs.nkept--;
	cr_assert(stays(o));
	n4.delegs.nkept -= NFS4_KEPT_MAX - NFS4_KEPT_OF_ONE;
}

/* ---- the delegation goes ---- */

Test(nfs4_kept, recalled)
{
	struct nfs_open *used = one_more();
	struct nfs_delegation *d;

	cr_assert(stays(first) && stays(used) && stays(one_more()));
	used = again();
	recall();
	cr_assert_null(again(), "nothing is believed any more");
	cr_assert_not(stays(used));
	d = nfs4_delegs_take(&cl4.server);
	cr_assert_null(again());
	cr_assert_eq(closed(d), 2);
	cr_assert_not(stays(used));
	/* It has no answer, and is taken once more. */
	returned(d, false);
	recall();
	d = nfs4_delegs_take(&cl4.server);
	cr_assert_eq(closed(d), 0);
	returned(d, true);
	cr_assert_not(stays(used), "its user closes it");
	nfs4_open_put(used);
	cr_assert(!n4.delegs.nkept && !nopen4());
}

/* The next one is not that under which it was opened. */
Test(nfs4_kept, another_delegation)
{
	struct nfs_open *o = one_more();
	uint64_t old = number;
	struct nfs_delegation *d;

	recall();
	d = nfs4_delegs_take(&cl4.server);
	returned(d, true);
	cr_assert(delegate4(o, "another one."));
	cr_assert_not(stays(first));
	cr_assert(stays(o));
	cr_assert_null(nfs_open_again(&cl4.server, file, old, &user, O_RDONLY, false));
	cr_assert_eq(nfs_open_again(&cl4.server, file, o->under, &user, O_RDONLY, false), o);
	nfs4_open_put(o);
	nfs4_open_put(first);
}

/* The server has nothing of what it had: recovery does not open it again, nor is it closed. */
Test(nfs4_kept, the_server_has_restarted)
{
	struct nfs_open *used = one_more();

	cr_assert(stays(first) && stays(used));
	used = again();
	forget_delegations4(&n4.delegs);
	cr_assert(nopen4() == 1 && !n4.delegs.nkept);
	cr_assert_not(nfs4_kept_stays(&cl4.server, used));
	nfs4_open_put(used);
}

/* While it is returned. */
Test(nfs4_kept, the_server_restarts_meanwhile)
{
	struct nfs_delegation *d;

	cr_assert(stays(first) && stays(one_more()));
	recall();
	d = nfs4_delegs_take(&cl4.server);
	forget_delegations4(&n4.delegs);
	cr_assert_eq(closed(d), 0);
	returned(d, false);
	cr_assert(!nopen4() && !n4.delegs.count);
}

/* The server says of the delegation only that it does not know it: what stays has to be closed. */
Test(nfs4_kept, a_delegation_that_is_unknown)
{
	static const nfsstat4 found[] = { NFS4ERR_BAD_STATEID, NFS4ERR_DELEG_REVOKED };

	for (unsigned i = 0; i < 2; i++) {
		struct nfs_delegation *d;

		cr_assert(stays(first));
		nfs4_revoked_deleg(&cl4.server, number, found[i]);
		d = nfs4_delegs_take(&cl4.server);
		cr_assert_eq(closed(d), 1);
		returned(d, true);
		give();
	}
	nfs4_open_put(first);
}

/* One that nobody uses does not make its file one that is used. */
Test(nfs4_kept, idle)
{
	cr_assert(stays(first));
	nfs4_idle_sweep(&n4.delegs, 1000, 90);
	nfs4_idle_sweep(&n4.delegs, 1080, 90);
	cr_assert_eq(again(), first);
	nfs4_idle_sweep(&n4.delegs, 1200, 90);
	cr_assert_not(nfs4_delegs_any_due(&cl4.server));
	cr_assert(stays(first));
	nfs4_idle_sweep(&n4.delegs, 1300, 90);
	nfs4_idle_sweep(&n4.delegs, 1389, 90);
	cr_assert_not(nfs4_delegs_any_due(&cl4.server));
	nfs4_idle_sweep(&n4.delegs, 1390, 90);
	cr_assert_eq(closed(nfs4_delegs_take(&cl4.server)), 1);
}

Test(nfs4_kept, the_server_wants_idle_ones_back)
{
	static const bitmap4 to_read = { .len = 1, .words = { 1 << RCA4_TYPE_MASK_RDATA_DLG } };

	cr_assert(stays(first));
	nfs4_idle_recall(&n4.delegs, &to_read, 0);
	cr_assert_eq(closed(nfs4_delegs_take(&cl4.server)), 1);
}

/* A mount of its own, which has a session and nothing else. */
static void another_mount(void)
{
	struct nfs4_client *n = calloc(1, sizeof(*n));

	cr_assert_not_null(n);
	pthread_mutex_init(&n->slots.mu, NULL);
	nfs4_opens_init(n);
	nfs4_delegs_init(&n->delegs);
	nfs4_belief_init(&n->belief);
	nfs4_back_init(&n->back);
	nfs4_identity_init(&n->identity);
	n->back.has = true;
	n->nslots = SLOTS;
	n->epoch = 1;
	cl4.server.vdata = n;
}

/* Nobody has taken what stays, because no server answers. (ASan sees what is wrong.) */
Test(nfs4_kept, the_mount_ends_without_the_server)
{
	nfs4_open_put(first);
	another_mount();
	give();
	cr_assert(stays(first) && stays(one_more()));
	nfs4_delegs_drop_all(&cl4.server);
	nfs4_free(&cl4.server);
	cl4.server.vdata = &n4;
	cr_assert_eq(file->opens, 0);
}

/* ---- two at a time ---- */

enum { RACES = 20000 };
static _Atomic unsigned used_by[2], twice;
static _Atomic bool ends;

/* Opens and closes the file. */
static void *opens_and_closes(void *arg)
{
	_Atomic unsigned *count = arg;

	while (!atomic_load(&ends)) {
		struct nfs_open *o = again();

		if (!o) {
			sched_yield();
			continue;
		}
		if (atomic_exchange(&o->locks_lost, 1))
			atomic_store(&twice, 1);
		atomic_fetch_add(count, 1);
		atomic_store(&o->locks_lost, 0);
		if (!stays(o))
			nfs4_open_put(o);       /* CLOSE */
	}
	return arg;
}

/* Each has one that the other one has not, and none is closed twice, or left. */
Test(nfs4_kept, races_with_recalls)
{
	pthread_t t[2];

	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, opens_and_closes, &used_by[i]), 0);
	/* On a busy machine one of them may not have run by then. */
	for (unsigned i = 0; i < RACES / 20 || !used_by[0] || !used_by[1]; i++) {
		struct nfs_delegation *d;

		cr_assert(stays(first));
		for (unsigned k = 0; k < 20; k++)
			sched_yield();
		recall();
		d = nfs4_delegs_take(&cl4.server);
		closed(d);
		returned(d, true);
		while (atomic_load(&file->opens))
			sched_yield();
		give();
	}
	atomic_store(&ends, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	cr_assert(!twice);
	nfs4_open_put(first);
}

/* ---- OPEN, and its name once more ---- */

static const struct nfs_fh dir1 = { .len = 4, .data = "dir1" };

static struct nfs_call opening(void)
{
	struct nfs_call c = call4(NFS_OP_OPEN);

	c.args.fh = &fh2;
	c.args.where[0] = (struct nfs_where){ &dir1, "newest" };
	c.args.where[1] = (struct nfs_where){ &dir1, "older" };
	c.args.nwhere = 2;
	nfs4_call(&c)->owner = 0x4142434445464748;
	return c;
}

static void m_name(const char *name)
{
	M(OP_PUTFH);
	m_opaque("dir1", 4);
	M(OP_LOOKUP);
	m_str(name);
	M(OP_VERIFY, 1, 1 << 19, 8);
	m_opaque("dir2", 4);
}

static void m_open_args(bool asks, bool again)
{
	m_seq_args(again ? 13 : 10, true);
	m_name("older");
	m_name("newest");
	M(OP_OPEN, 0, asks ? 0x101 : 0x401, 0);
	m_u64(n4.clientid);
	M(8, 0x48474645, 0x44434241, 0, 4, OP_ACCESS, 0x21, OP_GETATTR, 2);
}

/* The file has a delegation now: its name needs no second look. */
static void has_one(void)
{
	struct nfs_open *o = open4(&fh2);

	cr_assert(delegate4(o, "another one."));
	nfs4_open_put(o);
}

/* Up to GETATTR's mask. */
static void expect_args(struct nfs_call *c, bool asks, bool looks_again)
{
	static uint32_t w[300], want[300];
	unsigned n;
	XDR x;

	xdr_msg_create(&x, w, sizeof(w), XDR_ENCODE);
	cr_assert(def4(c->op)->encode(c, &x));
	m_open_args(asks, looks_again);
	m_minor();
	n = m_len() / 4;
	for (unsigned i = 0; i < n; i++)
		want[i] = m_get(i * 4);
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(ntohl(w[i]), want[i], "word %u of %u: %08x, not %08x", i, n, ntohl(w[i]), want[i]);
	m_new();
	if (looks_again)
		m_name("newest");
	for (unsigned i = 0; i < m_len() / 4; i++)
		cr_assert_eq(ntohl(w[n + 2 + i]), m_get(i * 4), "word %u behind", i);
	cr_assert_eq(xdr_getpos(&x) / 4, n + 2 + m_len() / 4);
}

Test(nfs4_kept, the_name_is_looked_at_again)
{
	struct nfs_call c = opening();

	expect_args(&c, true, true);
	nfs4_release(target4(), &c);
	has_one();
	c = opening();
	expect_args(&c, false, false);
	nfs4_release(target4(), &c);
	nfs4_open_put(first);
}

/* Without it, if the server does not take so many operations. */
Test(nfs4_kept, no_room_for_the_name)
{
	struct nfs_call c = opening();

	n4.maxops = 12;
	expect_args(&c, true, false);
	nfs4_release(target4(), &c);
	nfs4_open_put(first);
}

static void m_opened(unsigned names)
{
	m_seq_res();
	m_set(8, 10 + 3 * names);
	for (unsigned i = 0; i < 2; i++) {
		m_op(OP_PUTFH);
		m_op(OP_LOOKUP);
		m_op(OP_VERIFY);
	}
	m_op(OP_OPEN);
	M(4, STATEID_WORDS, 1, 0, 1, 0, 1, 4, 0, 1, 1, DELEG_WORDS, 0, 0, 0, 0, 0);
	m_op(OP_ACCESS);
	M(0x21, 0x20);
	m_op(OP_GETATTR);
	m_stat_fattr();
	for (unsigned i = 0; i < names; i++) {
		m_op(OP_PUTFH);
		m_op(OP_LOOKUP);
		m_op(OP_VERIFY);
	}
}

/* at: which operation fails; 0: none. */
Test(nfs4_kept, the_name_is_or_is_not)
{
	static const struct { unsigned at; uint32_t status; bool named; } t[] = {
		{ 0, 0, true }, { 10, NFS4ERR_STALE, false }, { 11, NFS4ERR_NOENT, false },
		{ 11, NFS4ERR_DELAY, false }, { 12, NFS4ERR_NOT_SAME, false },
	};

	nfs4_open_put(first);
	/* The other file's, whose stateid this one gets. */
	forget_delegations4(&n4.delegs);
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = opening();

		expect_args(&c, true, true);
		c.args.file.exec = true;
		c.res.open.named = false;
		m_opened(1);
		if (t[i].at)
			m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, def4(c.op)), 0, "row %u", i);
		cr_assert_eq(c.res.open.named, t[i].named, "row %u", i);
		cr_assert(c.open->under && c.open->under == c.res.open.delegation);
		cr_assert_eq(c.open->rights, ACCESS4_EXECUTE);
		nfs4_open_put(c.open);
		nfs4_release(target4(), &c);
		forget_delegations4(&n4.delegs);
	}
}

/* An OPEN that does not ask is under the delegation that the file had when it was sent. */
Test(nfs4_kept, an_open_under_a_delegation)
{
	struct nfs_call c;

	nfs4_open_put(first);
	has_one();
	c = opening();
	expect_args(&c, false, false);
	c.args.file.exec = true;
	c.res.open = (struct nfs_open_results){ 0 };
	m_opened(0);
	/* OPEN's delegation: none. */
	cr_assert_eq(nfs4_call(&c)->under, n4.delegs.numbers);
	nfs4_release(target4(), &c);
	c = opening();
	c.args.file.flags = O_WRONLY;
	cr_assert_not(nfs4_delegs_ask(&c));
	nfs4_release(target4(), &c);
}

static void m_opened_under(unsigned looks)
{
	m_seq_res();
	m_op(OP_PUTFH);
	for (unsigned i = 0; i < looks; i++) {
		if (i)
			m_op(OP_PUTFH);
		m_op(OP_LOOKUP);
		m_op(OP_VERIFY);
	}
	m_op(OP_OPEN);
	M(4, STATEID_WORDS, 1, 0, 1, 0, 1, 4, 0, 0);
	m_op(OP_ACCESS);
	M(0x21, 0x21);
	m_op(OP_GETATTR);
	m_stat_fattr();
}

/* Such an OPEN has looked at the newest name, if it could: not if a user may not search that directory, or the
 * server cannot compare handles, or does not take so many operations. */
Test(nfs4_kept, the_name_under_a_delegation)
{
	static const struct { uint8_t blind; bool no_verify; uint32_t maxops; unsigned looks; } t[] = {
		{ 0, false, 16, 2 }, { 1, false, 16, 1 }, { 2, false, 16, 0 }, { 0, true, 16, 0 }, { 0, false, 6, 0 },
	};

	nfs4_open_put(first);
	has_one();
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = opening();
		static uint32_t w[300];
		XDR x;

		n4.no_verify = t[i].no_verify;
		n4.maxops = t[i].maxops;
		nfs4_call(&c)->blind = t[i].blind;
		xdr_msg_create(&x, w, sizeof(w), XDR_ENCODE);
		cr_assert(def4(c.op)->encode(&c, &x));
		c.res.open = (struct nfs_open_results){ 0 };
		m_opened_under(t[i].looks);
		cr_assert_eq(play_reply(&c, def4(c.op)), 0, "row %u", i);
		cr_assert_eq(c.open->under, n4.delegs.numbers);
		cr_assert_eq(c.res.open.named, t[i].looks > 0, "row %u", i);
		nfs4_open_put(c.open);
		nfs4_release(target4(), &c);
	}
	n4.no_verify = false;
}

Test(nfs4_kept, replies_that_are_none)
{
	struct nfs_call c = opening();

	nfs4_open_put(first);
	cr_assert(nfs4_delegs_ask(&c));
	nfs4_call(&c)->looks = 2;
	nfs4_call(&c)->again = true;
	c.args.file.exec = true;
	m_opened(1);
	play_all_cuts(&c, def4(c.op), &hooks4);
	play_twists(&c, def4(c.op), &hooks4);
	nfs4_release(target4(), &c);
}

/* ---- DELEGRETURN ---- */

/* It takes the CLOSE along. */
Test(nfs4_kept, close_and_delegreturn)
{
	struct nfs_call c = call4(NFS_OP_DELEGRETURN), close = call4(NFS_OP_CLOSE);
	const struct nfs_opdef *def = def4(NFS_OP_DELEGRETURN);
	struct nfs_delegation *d;
	struct rpc_cred cred;

	cr_assert(stays(first));
	recall();
	d = nfs4_delegs_take(&cl4.server);
	close.open = nfs_delegation_open(lane4(), d, &cred);
	cr_assert(def4(NFS_OP_CLOSE)->rides(&close) && def->carries(&c));
	nfs4_release(target4(), &close);
	c.args.delegation = d;
	c.eng.riding_close = &close;
	m_seq_args(5, true);
	M(OP_PUTFH);
	m_opaque("fhand", 5);
	M(OP_CLOSE, 0, 0, 0, 0, 0, OP_PUTFH);
	m_opaque("fhand", 5);
	M(OP_DELEGRETURN, 0, DELEG_WORDS);
	m_minor();
	play_args(&c, def);
	m_seq_res();
	m_op(OP_PUTFH);
	m_op(OP_CLOSE);
	M(1, STATEID_WORDS);
	m_op(OP_PUTFH);
	m_op(OP_DELEGRETURN);
	cr_assert_eq(play_reply(&c, def), 0);
	cr_assert(c.eng.close_ride_closed);
	c.eng.riding_close = NULL;
	nfs4_open_put(close.open);
	nfs4_release(target4(), &c);
	nfs4_delegs_return_ends(&c);
	cr_assert_eq(n4.delegs.count, 0);
}
