/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Delegations that are kept (nfs4_delegs.h), and who gets in between: recalls that overtake OPEN's reply,
 * opens while DELEGRETURN is under way, two that take the same, recovery.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include "nfs4_play.h"
#include "xdr_msg.h"

#define DELEG_WORDS 0x64656c31, 0x64656c32, 0x64656c33
#define DELEG       "del1del2del3"

static void setup(void)
{
	play4_setup();
	cl4.cfg.delegations = true;
	n4.back.has = true;
}

TestSuite(nfs4_delegs, .init = setup, .fini = play4_teardown, .timeout = 60);

static nfsstat4 recall(const char *other, const struct nfs_fh *of)
{
	stateid4 s = { .seqid = 1 };

	memcpy(s.other, other, sizeof(s.other));
	return nfs4_delegs_recall(&cl4.server, &s, of);
}

static struct nfs_delegation *due(void)
{
	return nfs4_delegs_any_due(&cl4.server) ? nfs4_delegs_take(&cl4.server) : NULL;
}

/* DELEGRETURN of it ends, without an answer. */
static void failed(struct nfs_delegation *d, int status)
{
	struct nfs_call c = call4(NFS_OP_DELEGRETURN);

	c.args.delegation = d;
	c.res.status = status;
	nfs4_release(target4(), &c);
	nfs4_delegs_return_ends(&c);
}

static void returned(struct nfs_delegation *d)
{
	container_of(d, struct nfs4_delegation, d)->answered = true;
	failed(d, 0);
}

/* OPENs that have asked. */
static unsigned asking(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < sizeof(n4.delegs.place) / sizeof(n4.delegs.place[0]); i++)
		n += n4.delegs.place[i].asking;
	return n;
}

/* ---- OPEN ---- */

/* share_access, as it is sent. */
static uint32_t sent_access(struct nfs_call *c)
{
	static uint32_t w[256];
	XDR x;

	xdr_msg_create(&x, w, sizeof(w), XDR_ENCODE);
	cr_assert(def4(c->op)->encode(c, &x));
	cr_assert_eq(ntohl(w[16]), OP_OPEN);
	return ntohl(w[18]);
}

static uint32_t asks_for(int flags)
{
	struct nfs_call c = call4(NFS_OP_OPEN);
	uint32_t access;

	c.args.file.flags = flags;
	access = sent_access(&c);
	/* Sent again: it is one call still. */
	cr_assert_eq(sent_access(&c), access);
	cr_assert_eq(asking(), !(access & OPEN4_SHARE_ACCESS_WANT_NO_DELEG));
	nfs4_release(target4(), &c);
	nfs4_release(target4(), &c);
	cr_assert_eq(asking(), 0);
	return access;
}

Test(nfs4_delegs, what_is_asked_for)
{
	struct nfs_open *o;

	cr_assert_eq(asks_for(O_RDONLY), 0x101);
	cr_assert_eq(asks_for(O_WRONLY), 0x202);
	cr_assert_eq(asks_for(O_RDWR), 0x203);
	/* The file has one, in whatever state. */
	o = open4(&fh);
	cr_assert(delegate4(o, DELEG));
	cr_assert_eq(asks_for(O_RDONLY), 0x401);
	cr_assert_eq(asks_for(O_WRONLY), 0x402);
	cr_assert_eq(asks_for(O_RDWR), 0x403);
	cr_assert_eq(recall(DELEG, &fh), NFS4_OK);
	cr_assert_eq(asks_for(O_RDONLY), 0x401);
	returned(due());
	cr_assert_eq(asks_for(O_RDONLY), 0x101);
	n4.delegs.count = NFS4_DELEGS_MAX;
	cr_assert_eq(asks_for(O_RDONLY), 0x401);
	n4.delegs.count = 0;
	/* Nobody could be told that it is wanted back. */
	n4.back.has = false;
	cr_assert_eq(asks_for(O_RDONLY), 0x401);
	n4.back.has = true;
	n4.said = SEQ4_STATUS_CB_PATH_DOWN;
	cr_assert_eq(asks_for(O_RDONLY), 0x401);
	n4.said = 0;
	cl4.cfg.delegations = false;
	cr_assert_eq(asks_for(O_RDONLY), 0x401);
	nfs4_open_put(o);
}

/* OPEN's reply; w: what it says of a delegation. */
static void m_opened(const uint32_t *w, unsigned n)
{
	m_res();
	m_op(OP_OPEN);
	M(4, STATEID_WORDS, 1, 0, 1, 0, 1, 4, 0);
	m_words(w, n);
	m_op(OP_ACCESS);
	M(0x21, 0x21);
	m_op(OP_GETATTR);
	m_stat_fattr();
}

#define READ_DELEGATION(recall, ...) 1, 1, __VA_ARGS__, recall, 0, 0, 0, 0
/* With a limit of 4 GiB. */
#define WRITE_DELEGATION(recall, ...) 2, 1, __VA_ARGS__, recall, 1, 1, 0, 0, 0, 0, 0

static struct nfs_call opening_to(int flags)
{
	struct nfs_call c = call4(NFS_OP_OPEN);

	c.args.file.flags = flags;
	sent_access(&c);
	return c;
}

static struct nfs_call opening(void)
{
	return opening_to(O_RDONLY);
}

static void opened(struct nfs_call *c)
{
	if (c->open)
		nfs4_open_put(c->open);
	nfs4_release(target4(), c);
}

Test(nfs4_delegs, what_is_kept)
{
	static const struct {
		unsigned n;
		uint32_t w[16];
		bool asked, old_session;
		const char *has;
		int rc;
		unsigned count, due;
	} t[] = {
		{ 1, { 0 }, true, false, NULL, 0, 0, 0 },
		{ 3, { 3, 1, 0 }, true, false, NULL, 0, 0, 0 },
		{ 10, { READ_DELEGATION(0, DELEG_WORDS) }, true, false, NULL, 0, 1, 0 },
		/* There are to be none: OPEN returns it. */
		{ 10, { READ_DELEGATION(0, DELEG_WORDS) }, false, false, NULL, NFS_NEXT, 0, 0 },
		/* It is wanted back already; it is of a session that is gone. */
		{ 10, { READ_DELEGATION(1, DELEG_WORDS) }, true, false, NULL, 0, 1, 1 },
		{ 10, { READ_DELEGATION(0, DELEG_WORDS) }, true, true, NULL, 0, 1, 1 },
		/* To write, although it was asked for to read. */
		{ 13, { 2, 1, DELEG_WORDS, 0, 1, 0, 0, 0, 0, 0, 0 }, true, false, NULL, 0, 1, 1 },
		/* The file has one. */
		{ 10, { READ_DELEGATION(0, DELEG_WORDS) }, true, false, "another one.", 0, 2, 1 },
		{ 10, { READ_DELEGATION(0, DELEG_WORDS) }, true, false, DELEG, 0, 1, 0 },
		/* The same, although nobody has asked: OPEN returns nothing that the file has. */
		{ 10, { READ_DELEGATION(0, DELEG_WORDS) }, false, false, DELEG, 0, 1, 0 },
		{ 10, { READ_DELEGATION(1, DELEG_WORDS) }, false, false, DELEG, 0, 1, 1 },
		{ 13, { 2, 2, DELEG_WORDS, 0, 1, 0, 0, 0, 0, 0, 0 }, false, false, DELEG, 0, 1, 1 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_open *o = t[i].has ? open4(&fh) : NULL;
		struct nfs_call c;

		cl4.cfg.delegations = t[i].asked;
		c = opening();
		cr_assert(!o || delegate4(o, t[i].has));
		if (t[i].old_session)
			new_session4();
		m_opened(t[i].w, t[i].n);
		if (o)          /* delegate4() has made a new session */
			nfs4_call(&c)->place.epoch = n4.slots.epoch;
		cr_assert_eq(play_reply(&c, def4(c.op)), t[i].rc, "row %u", i);
		cr_assert_eq(n4.delegs.count, t[i].count, "row %u", i);
		cr_assert_eq(c.open->delegated, t[i].rc == NFS_NEXT, "row %u", i);
		cr_assert_eq(n4.delegs.in[NFS4_DUE].n, t[i].due, "row %u", i);
		opened(&c);
		if (o)
			nfs4_open_put(o);
		forget_delegations4(&n4.delegs);
	}
}

static unsigned long given(enum stat_id id)
{
	return (unsigned long)stat_get(&lane4()->stats, id);
}

/* The kind that was asked for is kept, and no other. has: the file has that one. */
Test(nfs4_delegs, what_is_kept_to_write)
{
	static const struct {
		int flags;
		unsigned n;
		uint32_t w[16];
		const char *has;
		unsigned count, due;
		bool write;             /* what is held is one to write */
	} t[] = {
		{ O_RDWR, 13, { WRITE_DELEGATION(0, DELEG_WORDS) }, NULL, 1, 0, true },
		{ O_WRONLY, 13, { WRITE_DELEGATION(0, DELEG_WORDS) }, NULL, 1, 0, true },
		{ O_RDWR, 13, { WRITE_DELEGATION(1, DELEG_WORDS) }, NULL, 1, 1, false },
		{ O_RDWR, 10, { READ_DELEGATION(0, DELEG_WORDS) }, NULL, 1, 1, false },
		{ O_RDONLY, 13, { WRITE_DELEGATION(0, DELEG_WORDS) }, NULL, 1, 1, false },
		/* A limit in blocks: as many as there are, of as many bytes. An entry for somebody. */
		{ O_RDWR, 14, { 2, 1, DELEG_WORDS, 0, 2, UINT32_MAX, UINT32_MAX, 0, 0, 7, 2, 0x40610000 }, NULL, 1, 0,
		  true },
		/* Given twice. */
		{ O_RDWR, 13, { WRITE_DELEGATION(0, DELEG_WORDS) }, DELEG, 1, 0, true },
		{ O_RDWR, 13, { WRITE_DELEGATION(1, DELEG_WORDS) }, DELEG, 1, 1, false },
		{ O_RDWR, 13, { WRITE_DELEGATION(0, DELEG_WORDS) }, "another one.", 2, 1, true },
		/* It is one to read by now. */
		{ O_RDONLY, 10, { READ_DELEGATION(0, DELEG_WORDS) }, DELEG, 1, 1, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_open *o = t[i].has ? open4(&fh) : NULL;
		unsigned long before = given(STAT_DELEGS_WRITE);
		struct nfs_call c = opening_to(t[i].flags);
		struct nfs4_delegation *d;

		cr_assert(!o || delegate4_write(o, t[i].has));
		m_opened(t[i].w, t[i].n);
		if (o)          /* delegate4_write() has made a new session */
			nfs4_call(&c)->place.epoch = n4.slots.epoch;
		cr_assert_eq(play_reply(&c, def4(c.op)), 0, "row %u", i);
		cr_assert_eq(n4.delegs.count, t[i].count, "row %u", i);
		cr_assert_eq(n4.delegs.in[NFS4_DUE].n, t[i].due, "row %u", i);
		d = t[i].write ? container_of(n4.delegs.in[NFS4_HELD].list.next, struct nfs4_delegation, node) : NULL;
		cr_assert(!d || (d->d.number & NFS_DELEGATION_WRITES && d->d.number == d->d.file->delegation), "row %u",
			  i);
		cr_assert_eq(given(STAT_DELEGS_WRITE) - before, t[i].write || o, "row %u", i);
		opened(&c);
		if (o)
			nfs4_open_put(o);
		forget_delegations4(&n4.delegs);
	}
	cr_assert_eq(given(STAT_DELEGS_READ), 0);
}

/* The server makes one to read one to write, with its stateid: to us it is neither. */
Test(nfs4_delegs, one_to_read_becomes_one_to_write)
{
	static const uint32_t w[] = { WRITE_DELEGATION(0, DELEG_WORDS) };
	struct nfs_call c = opening_to(O_RDWR);
	struct nfs_open *o = open4(&fh);

	cr_assert(delegate4(o, DELEG));
	m_opened(w, 13);
	nfs4_call(&c)->place.epoch = n4.slots.epoch;
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	cr_assert(n4.delegs.count == 1 && n4.delegs.in[NFS4_DUE].n == 1 && !o->file->delegation);
	opened(&c);
	returned(due());
	cr_assert_eq(asks_for(O_RDWR), 0x203);
	nfs4_open_put(o);
}

/* Neither of size nor of blocks; and each reply cut, and with another word. */
Test(nfs4_delegs, limits_that_are_none)
{
	static const uint32_t bad[] = { 2, 1, DELEG_WORDS, 0, 3, 1, 0, 0, 0, 0, 0 };
	static const uint32_t w[] = { WRITE_DELEGATION(0, DELEG_WORDS) };
	struct nfs_call c = opening_to(O_RDWR);

	m_opened(bad, 13);
	cr_assert_eq(play_reply(&c, def4(c.op)), -EBADMSG);
	cr_assert_eq(n4.delegs.count, 0);
	opened(&c);
	c = opening_to(O_RDWR);
	m_opened(w, 13);
	play_all_cuts(&c, def4(c.op), &hooks4);
	play_twists(&c, def4(c.op), &hooks4);
	opened(&c);
	forget_delegations4(&n4.delegs);
}

/* The server asks for size and change of a file. */
Test(nfs4_delegs, asked)
{
	struct nfs_open *o = open4(&fh), *r = open4(&fh2);
	struct nfs_delegation d, *back;
	struct nfs_call c;

	cr_assert_eq(nfs4_delegation_asked(&cl4.server, &fh, &d), NFS4ERR_BADHANDLE);
	c = opening_to(O_RDWR);
	cr_assert_eq(nfs4_delegation_asked(&cl4.server, &fh, &d), NFS4ERR_DELAY, "it is on its way");
	opened(&c);
	cr_assert(delegate4_write(o, DELEG) && delegate4(r, "another one."));
	cr_assert_eq(nfs4_delegation_asked(&cl4.server, &fh2, &d), NFS4ERR_BADHANDLE, "it is one to read");
	/* As long as the server has not got it back. */
	for (unsigned i = 0; i < 3; i++) {
		if (i == 1)
			cr_assert_eq(recall(DELEG, &fh), NFS4_OK);
		back = i == 2 ? due() : NULL;
		cr_assert_eq(nfs4_delegation_asked(&cl4.server, &fh, &d), NFS4_OK);
		cr_assert(d.file == o->file && d.number & NFS_DELEGATION_WRITES);
		nfs_file_put(d.file);
	}
	returned(back);
	cr_assert_eq(nfs4_delegation_asked(&cl4.server, &fh, &d), NFS4ERR_BADHANDLE);
	nfs4_open_put(o);
	nfs4_open_put(r);
}

/* The open fails, for its user: the file has the delegation all the same. */
Test(nfs4_delegs, the_open_is_refused)
{
	static const uint32_t w[] = { READ_DELEGATION(0, DELEG_WORDS) };
	struct nfs_call c = opening();

	m_opened(w, 10);
	m_set(m_op_at(3) + 12, 0x20);
	cr_assert_eq(play_reply(&c, def4(c.op)), -EACCES);
	cr_assert_eq(n4.delegs.count, 1);
	cr_assert_not(c.open->delegated);
	opened(&c);
	/* It has a reference to the file, which nobody else has any more. */
	cr_assert_eq(recall(DELEG, &fh), NFS4_OK);
	cr_assert(nfs_fh_same(&due()->file->fh, &fh));
}

/* ---- recalls ---- */

Test(nfs4_delegs, a_recall_before_the_reply)
{
	static const uint32_t w[] = { READ_DELEGATION(0, DELEG_WORDS) };
	struct nfs_call c = opening();

	cr_assert_eq(recall(DELEG, &fh), NFS4ERR_DELAY);
	cr_assert_eq(recall("a third one.", &fh2), NFS4_OK, "nobody asks for that file's");
	m_opened(w, 10);
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	/* Found, although the call is not over. */
	cr_assert_eq(recall(DELEG, &fh), NFS4_OK);
	cr_assert_eq(recall("another one.", &fh), NFS4ERR_DELAY);
	opened(&c);
	cr_assert_eq(recall(DELEG, &fh), NFS4_OK, "it is on its way");
	cr_assert_eq(n4.delegs.in[NFS4_DUE].n, 2);
	cr_assert_eq(recall("another one.", &fh), NFS4_OK);
	cr_assert_eq(n4.delegs.in[NFS4_DUE].n, 3);
}

/* Its reply was lost. What the recall says is enough to return it, and then the file may have another. */
Test(nfs4_delegs, a_recall_of_what_nobody_knows)
{
	struct nfs_fh longest = { .len = NFS_FH_MAX };
	struct nfs_delegation *d;

	cr_assert_eq(recall(DELEG, &longest), NFS4_OK);
	cr_assert_eq(recall(DELEG, &longest), NFS4_OK);
	d = due();
	cr_assert(nfs_fh_same(&d->file->fh, &longest) && !due());
	cr_assert_eq(memcmp(container_of(d, struct nfs4_delegation, d)->stateid.other, DELEG, 12), 0);
	returned(d);
	cr_assert_eq(n4.delegs.count, 0);
	cr_assert_eq(recall(DELEG, &fh), NFS4_OK);
	cr_assert_eq(asks_for(O_RDONLY), 0x401);
	returned(due());
	cr_assert_eq(asks_for(O_RDONLY), 0x101);
	/* There are as many as there may be; there are to be none. */
	n4.delegs.count = NFS4_DELEGS_MAX;
	cr_assert_eq(recall(DELEG, &fh), NFS4ERR_BAD_STATEID);
	n4.delegs.count = 0;
	cl4.cfg.delegations = false;
	cr_assert_eq(recall(DELEG, &fh), NFS4ERR_BAD_STATEID);
}

/* An OPEN that does not ask brings none, and says nothing of recalls. */
Test(nfs4_delegs, a_recall_beside_an_open_that_has_not_asked)
{
	struct nfs_call c;

	cl4.cfg.delegations = false;
	c = opening();
	cr_assert_eq(recall(DELEG, &fh), NFS4ERR_BAD_STATEID);
	opened(&c);
}

static int reply_to(struct nfs_call *c)
{
	static const uint32_t w[] = { READ_DELEGATION(0, DELEG_WORDS) };

	m_opened(w, 10);
	nfs4_call(c)->place.epoch = n4.slots.epoch;
	memcpy(nfs4_call(c)->place.session, n4.slots.sessionid, NFS4_SESSIONID_SIZE);
	return play_reply(c, def4(c->op));
}

/* The server gives both the same one, and has it back before the second reply is decoded. */
Test(nfs4_delegs, two_opens_of_one_file)
{
	struct nfs_call a = opening(), b = opening();

	cr_assert_eq(reply_to(&a), 0);
	cr_assert_eq(recall(DELEG, &fh), NFS4_OK);
	returned(due());
	cr_assert_eq(reply_to(&b), 0);
	cr_assert(n4.delegs.count == 1 && n4.delegs.in[NFS4_DUE].n == 1);
	opened(&a);
	opened(&b);
}

/* All of them are dropped before the reply: the server may have wanted that one back, too, and not been able
 * to say so. */
Test(nfs4_delegs, an_open_under_way_when_all_go_back)
{
	struct nfs_call a = opening(), b;

	nfs4_delegs_drop_all(&cl4.server);
	cr_assert_eq(reply_to(&a), 0);
	cr_assert(n4.delegs.count == 1 && n4.delegs.in[NFS4_DUE].n == 1);
	opened(&a);
	returned(due());
	b = opening();
	cr_assert_eq(reply_to(&b), 0);
	cr_assert(n4.delegs.count == 1 && n4.delegs.in[NFS4_HELD].n == 1);
	opened(&b);
}

/* One of them has not asked, and its reply is the first: what that has brought goes back. Until it has, a
 * further OPEN may get the same once more, and must not keep it. */
Test(nfs4_delegs, two_opens_of_which_one_asks)
{
	struct nfs_call a = opening(), b;
	struct nfs_delegation *d;

	cl4.cfg.delegations = false;
	b = opening();
	cl4.cfg.delegations = true;
	cr_assert_eq(reply_to(&b), 0);
	cr_assert_eq(reply_to(&a), 0);
	cr_assert(n4.delegs.count == 1 && n4.delegs.in[NFS4_DUE].n == 1);
	opened(&a);
	opened(&b);
	cr_assert_eq(asks_for(O_RDONLY), 0x401);
	d = due();
	cr_assert_eq(asks_for(O_RDONLY), 0x401);
	returned(d);
	cr_assert_eq(asks_for(O_RDONLY), 0x101);
}

enum { RACES = 20000 };
static _Atomic unsigned granted, ended, bad;

/* The server wants that one back, which it has just given. */
static nfsstat4 recall_nr(unsigned i)
{
	stateid4 s = { .seqid = 1 };
	nfsstat4 status;

	memcpy(s.other, &i, sizeof(i));
	do {
		sched_yield();
		status = nfs4_delegs_recall(&cl4.server, &s, &fh);
	} while (status == NFS4ERR_DELAY);
	return status;
}

static void *recalls(void *arg)
{
	for (unsigned i = 1; i <= RACES; i++) {
		while (atomic_load(&granted) < i)
			sched_yield();
		if (recall_nr(i)) {
			atomic_store(&bad, i);
			return arg;
		}
		returned(due());
		atomic_store(&ended, i);
	}
	return arg;
}

/* It must never be told that there is no such delegation: it would not ask again. */
Test(nfs4_delegs, recalls_race_with_replies)
{
	struct nfs_open *o = open4(&fh);
	pthread_t server;

	cr_assert_eq(pthread_create(&server, NULL, recalls, NULL), 0);
	for (unsigned i = 1; i <= RACES && !atomic_load(&bad); i++) {
		struct nfs_call c = { .op = NFS_OP_OPEN, .lane = lane4(), .target = target4(), .open = o,
				      .args.fh = &fh };
		stateid4 stateid = { .seqid = 1 };

		memcpy(stateid.other, &i, sizeof(i));
		nfs4_call(&c)->place.epoch = n4.slots.epoch;
		cr_assert(nfs4_delegs_ask(&c));
		atomic_store(&granted, i);
		cr_assert(nfs4_delegs_got(&c, &stateid, 0, true));
		nfs4_release(target4(), &c);
		while (atomic_load(&ended) < i && !atomic_load(&bad))
			sched_yield();
	}
	pthread_join(server, NULL);
	cr_assert_eq(bad, 0, "delegation %u was not known", bad);
	nfs4_open_put(o);
}

/* ---- what is due ---- */

/* Each one is taken once, the one first that was recalled last. */
Test(nfs4_delegs, due_once)
{
	struct nfs_open *a = open4(&fh), *b = open4(&fh2);
	struct nfs_delegation *first, *second;

	cr_assert(delegate4(a, DELEG) && delegate4(b, "another one."));
	cr_assert_null(due());
	nfs4_delegs_drop_all(&cl4.server);
	recall(DELEG, &fh);
	recall("another one.", &fh2);
	recall(DELEG, &fh);
	first = due();
	second = due();
	cr_assert(first->file == a->file && second->file == b->file);
	cr_assert_null(due());
	cr_assert_eq(first->cred.uid, 1000);
	/* A recall that comes again finds it under way. */
	cr_assert_eq(recall(DELEG, &fh), NFS4_OK);
	cr_assert_null(due());
	returned(first);
	cr_assert_eq(n4.delegs.count, 1);
	/* The other one's lane has lost its connection. */
	failed(second, -ENOTCONN);
	cr_assert_eq(due(), second);
	returned(second);
	cr_assert_eq(n4.delegs.count, 0);
	nfs4_open_put(a);
	nfs4_open_put(b);
}

/* OPEN's reply overtakes that of DELEGRETURN: the new one is not the one that is returned. */
Test(nfs4_delegs, a_new_one_while_the_old_one_goes)
{
	struct nfs_open *o = open4(&fh);
	struct nfs_delegation *d, *other;

	cr_assert(delegate4(o, DELEG));
	recall(DELEG, &fh);
	d = due();
	cr_assert(delegate4(o, "another one.") && delegate4(o, DELEG));
	cr_assert(n4.delegs.count == 2 && n4.delegs.in[NFS4_DUE].n == 1);
	other = due();
	returned(d);
	cr_assert_eq(asks_for(O_RDONLY), 0x401);
	returned(other);
	cr_assert_eq(asks_for(O_RDONLY), 0x101);
	cr_assert(delegate4(o, "another one."));
	cr_assert_eq(n4.delegs.in[NFS4_HELD].n, 1);
	nfs4_open_put(o);
}

/* Recovery finds that the server has nothing of what was before, while one is being returned. */
Test(nfs4_delegs, forgotten)
{
	struct nfs_open *a = open4(&fh), *b = open4(&fh2);
	struct nfs_delegation *d;

	cr_assert(delegate4(a, DELEG) && delegate4(b, "another one."));
	recall(DELEG, &fh);
	d = due();
	recall("another one.", &fh2);
	forget_delegations4(&n4.delegs);
	cr_assert_null(due());
	cr_assert(delegate4(a, "another one."), "of the server that has restarted");
	failed(d, -ENOTCONN);
	cr_assert_null(due());
	cr_assert_eq(n4.delegs.count, 1);
	cr_assert_eq(recall("another one.", &fh), NFS4_OK);
	nfs4_open_put(a);
	nfs4_open_put(b);
}

/* ---- idle ones ---- */

static struct nfs_open *many[8];
static struct nfs_fh many_fh[8];

/* Eight files with delegations; those of `open`, a bit each, stay open. */
static void have_many(unsigned open)
{
	for (unsigned i = 0; i < 8; i++) {
		char other[12] = { (char)i };

		many_fh[i] = (struct nfs_fh){ .len = 1, .data = { (uint8_t)i } };
		many[i] = open4(&many_fh[i]);
		cr_assert(delegate4(many[i], other));
		if (!(open & 1u << i))
			nfs4_open_put(many[i]);
	}
}

/* Which ones are due, a bit each. */
static unsigned all_due(void)
{
	struct nfs_delegation *d;
	unsigned bits = 0;

	while ((d = due())) {
		bits |= 1u << d->file->fh.data[0];
		returned(d);
	}
	return bits;
}

static void close_many(unsigned open)
{
	for (unsigned i = 0; i < 8; i++)
		if (open & 1u << i)
			nfs4_open_put(many[i]);
}

Test(nfs4_delegs, the_oldest_idle_ones)
{
	static const bitmap4 to_read = { .len = 1, .words = { 1 << RCA4_TYPE_MASK_RDATA_DLG } };

	have_many(1 << 0 | 1 << 3);
	nfs4_idle_recall(&n4.delegs, &to_read, 8);
	cr_assert_eq(all_due(), 0);
	nfs4_idle_recall(&n4.delegs, &to_read, 5);
	cr_assert_eq(all_due(), 1 << 1 | 1 << 2 | 1 << 4);
	nfs4_idle_recall(&n4.delegs, &to_read, 5);
	cr_assert_eq(all_due(), 0);
	/* Fewer than are open. */
	nfs4_idle_recall(&n4.delegs, &to_read, 0);
	nfs4_idle_recall(&n4.delegs, &to_read, 0);
	cr_assert_eq(all_due(), 1 << 5 | 1 << 6 | 1 << 7);
	cr_assert_eq(n4.delegs.count, 2);
	close_many(1 << 0 | 1 << 3);
}

Test(nfs4_delegs, idle_for_some_time)
{
	have_many(1 << 2 | 1 << 5);
	nfs4_idle_sweep(&n4.delegs, 1000, 90);
	nfs4_idle_sweep(&n4.delegs, 1089, 90);
	cr_assert_eq(all_due(), 0);
	nfs4_idle_sweep(&n4.delegs, 1090, 90);
	cr_assert_eq(all_due(), 0xff & ~(1 << 2 | 1 << 5));
	/* One is closed, opened again, and closed. */
	atomic_fetch_sub(&many[5]->file->opens, 1);
	nfs4_idle_sweep(&n4.delegs, 1100, 90);
	atomic_fetch_add(&many[5]->file->opens, 1);
	nfs4_idle_sweep(&n4.delegs, 1200, 90);
	nfs4_open_put(many[5]);
	nfs4_idle_sweep(&n4.delegs, 1300, 90);
	nfs4_idle_sweep(&n4.delegs, 1389, 90);
	cr_assert_eq(all_due(), 0);
	nfs4_idle_sweep(&n4.delegs, 1390, 90);
	cr_assert_eq(all_due(), 1 << 5);
	close_many(1 << 2);
}

/* Opened and closed between two looks. */
Test(nfs4_delegs, used_between_two_looks)
{
	struct nfs_open *o;

	have_many(0);
	nfs4_idle_sweep(&n4.delegs, 1000, 90);
	o = open4(&many_fh[3]);
	nfs_file_put(o->file);
	o->file = nfs_file_ref(container_of(n4.delegs.in[NFS4_HELD].list.prev->prev->prev->prev->prev,
					    struct nfs4_delegation, node)->d.file);
	cr_assert_eq(o->file->fh.data[0], 3);
	atomic_fetch_add(&o->file->opens, 1);
	nfs4_open_put(o);
	nfs4_idle_sweep(&n4.delegs, 1080, 90);
	nfs4_idle_sweep(&n4.delegs, 1090, 90);
	cr_assert_eq(all_due(), 0xff & ~(1 << 3));
}

/* This mount is going to change the file. */
Test(nfs4_delegs, dropped)
{
	have_many(1 << 2 | 1 << 5);
	cr_assert(nfs_undelegate(&cl4.server, many[2]->file));
	cr_assert_eq(all_due(), 1 << 2);
	cr_assert_not(nfs_undelegate(&cl4.server, many[2]->file));
	cr_assert_eq(all_due(), 0);
	close_many(1 << 2 | 1 << 5);
}

/* The oldest ones go, and not those that were used just now. */
Test(nfs4_delegs, too_many)
{
	static struct nfs_fh of[NFS4_DELEGS_MANY];
	struct nfs_open *first = NULL;
	struct nfs_delegation *d;

	for (uint32_t i = 0; i < NFS4_DELEGS_MANY; i++) {
		char other[12] = { 0 };
		struct nfs_open *o;

		of[i].len = sizeof(i);
		memcpy(of[i].data, &i, sizeof(i));
		memcpy(other, &i, sizeof(i));
		o = open4(&of[i]);
		cr_assert(delegate4(o, other));
		if (i)
			nfs4_open_put(o);
		else
			first = o;
		if (i == NFS4_DELEGS_MANY - 2)
			nfs4_idle_sweep(&n4.delegs, 1000, 90);
	}
	nfs4_open_put(first);
	cr_assert_null(due());
	nfs4_idle_sweep(&n4.delegs, 1010, 90);
	for (uint32_t i = 1; (d = due()); i++) {
		cr_assert_eq(memcmp(d->file->fh.data, &i, sizeof(i)), 0, "%u", i);
		returned(d);
	}
	cr_assert_eq(n4.delegs.count, NFS4_DELEGS_MAX / 2);
}

/* ---- without an answer ---- */

/* It is sent again, after longer and longer pauses. */
Test(nfs4_delegs, pauses)
{
	struct nfs_open *o = open4(&fh);
	unsigned s = 1;

	n4.lease_s = 20;
	cr_assert(delegate4(o, DELEG));
	recall(DELEG, &fh);
	for (unsigned i = 0; i < 70; i++) {
		struct nfs_delegation *d = due();
		uint64_t now = mono_ns();

		cr_assert_not_null(d);
		failed(d, -EIO);
		nfs4_idle_sweep(&n4.delegs, now + s * UINT64_C(1000000000) - 1, 90);
		cr_assert_null(due());
		nfs4_idle_sweep(&n4.delegs, mono_ns() + s * UINT64_C(1000000000), 90);
		s = s < 10 ? s * 2 : 20;
	}
	/* Whoever waits for it has asked once more; and the mount ends. */
	failed(due(), -EIO);
	recall(DELEG, &fh);
	failed(due(), -EIO);
	nfs4_delegs_drop_all(&cl4.server);
	returned(due());
	cr_assert_eq(n4.delegs.count, 0);
	nfs4_open_put(o);
}

/* ---- what is believed ---- */

static uint64_t believed(const struct nfs_open *o)
{
	return nfs_delegated(&cl4.server, o->file);
}

Test(nfs4_delegs, believed_while_it_is_held)
{
	struct nfs_open *o = open4(&fh);
	struct nfs_delegation *d;
	uint64_t first;

	n4.lease_s = 90;
	n4.belief.renewed_ns = mono_ns();
	cr_assert_eq(believed(o), 0);
	cr_assert(delegate4(o, DELEG));
	first = believed(o);
	cr_assert_neq(first, 0);
	/* The server is silent. */
	n4.belief.renewed_ns = mono_ns() - 46 * UINT64_C(1000000000);
	cr_assert_eq(believed(o), 0);
	n4.belief.renewed_ns = mono_ns() - 44 * UINT64_C(1000000000);
	cr_assert_eq(believed(o), first);
	n4.belief.renewed_ns = 0;
	cr_assert_eq(believed(o), 0);
	/* A call that was begun before the newest one says nothing. */
	n4.belief.renewed_ns = mono_ns();
	nfs4_belief_renewed(&(struct nfs_call){ .target = target4(), .eng.encoded_ns = 5 });
	cr_assert_eq(believed(o), first);
	/* Not from the moment on when it is wanted back. */
	recall(DELEG, &fh);
	cr_assert_eq(believed(o), 0);
	d = due();
	failed(d, -ENOTCONN);
	cr_assert_eq(believed(o), 0);
	d = due();
	returned(d);
	cr_assert_eq(believed(o), 0);
	cr_assert(delegate4(o, DELEG));
	cr_assert(believed(o) && believed(o) != first);
	forget_delegations4(&n4.delegs);
	cr_assert_eq(believed(o), 0);
	nfs4_open_put(o);
}

/* Whichever of them goes, the server may take it for the other one. wrote: to write. gone: the first is being
 * returned. */
static void expect_neither(struct nfs_open *a, struct nfs_open *b, bool wrote, bool gone)
{
	struct nfs_delegation *first = NULL, *d;

	cr_assert(wrote ? delegate4_write(a, DELEG) : delegate4(a, DELEG));
	cr_assert_neq(believed(a), 0);
	if (gone) {
		nfs4_delegs_drop_all(&cl4.server);
		first = due();
	}
	cr_assert(delegate4(b, DELEG));
	cr_assert(!a->file->delegation && !b->file->delegation && !believed(a) && !believed(b));
	cr_assert(n4.delegs.count == 2 && n4.delegs.in[NFS4_DUE].n == (gone ? 1 : 2));
	while ((d = due()))
		returned(d);
	if (first)
		returned(first);
	cr_assert_eq(n4.delegs.count, 0);
}

Test(nfs4_delegs, one_stateid_for_two_files)
{
	struct nfs_open *a = open4(&fh), *b = open4(&fh2);

	n4.lease_s = 90;
	n4.belief.renewed_ns = mono_ns();
	for (unsigned i = 0; i < 4; i++)
		expect_neither(a, b, i & 1, i & 2);
	/* When both are back, and with a stateid for each, all is well. */
	cr_assert(delegate4(b, DELEG) && delegate4(a, "del1del2del4"));
	cr_assert(believed(a) && believed(b));
	nfs4_open_put(a);
	nfs4_open_put(b);
}

/* That other file's goes back, under its own handle. */
Test(nfs4_delegs, a_recall_with_the_stateid_of_another_file)
{
	struct nfs_open *a = open4(&fh), *b = open4(&fh2);
	struct nfs_delegation *d;

	n4.lease_s = 90;
	n4.belief.renewed_ns = mono_ns();
	cr_assert(delegate4(a, DELEG) && delegate4(b, "another one."));
	cr_assert(believed(a) && believed(b));
	cr_assert_eq(recall(DELEG, &fh2), NFS4_OK);
	cr_assert(!a->file->delegation && !believed(a) && believed(b));
	d = due();
	cr_assert(d && d->file == a->file && !due());
	cr_assert_eq(recall(DELEG, &fh2), NFS4_OK);
	cr_assert(n4.delegs.count == 2 && !due());
	/* From then on nobody knows it. */
	returned(d);
	cr_assert_eq(recall(DELEG, &fh2), NFS4_OK);
	cr_assert(nfs_fh_same(&due()->file->fh, &fh2));
	nfs4_open_put(a);
	nfs4_open_put(b);
}

/* The server has given it to both: the recall is faster than the second one's reply. */
Test(nfs4_delegs, a_recall_with_the_stateid_of_another_file_before_the_reply)
{
	struct nfs_open *b = open4(&fh2);
	struct nfs_call c;

	cr_assert(delegate4(b, DELEG));
	c = opening();
	cr_assert_eq(recall(DELEG, &fh), NFS4ERR_DELAY);
	cr_assert(!b->file->delegation && n4.delegs.in[NFS4_DUE].n == 1);
	cr_assert_eq(reply_to(&c), 0);
	cr_assert(!c.open->file->delegation && n4.delegs.in[NFS4_DUE].n == 2);
	cr_assert_eq(recall(DELEG, &fh), NFS4_OK);
	opened(&c);
	nfs4_open_put(b);
}

static struct nfs_open *believe(void)
{
	struct nfs_open *o = open4(&fh);

	n4.lease_s = 90;
	cr_assert(delegate4(o, DELEG));
	n4.belief.renewed_ns = mono_ns();
	cr_assert_neq(believed(o), 0);
	return o;
}

/* A message of then has no flags in its reply; the call was begun long before. */
static void good_reply(uint64_t encoded_ns)
{
	nfs4_note_flags(&(struct nfs_call){ .op = NFS_OP_GETATTR, .lane = lane4(), .target = target4(),
					    .eng.start_ns = 1, .eng.encoded_ns = encoded_ns }, 0);
}

/* Until a message of after that is executed: an older reply may be decoded later. */
static void expect_doubt(const struct nfs_open *o, uint64_t before)
{
	cr_assert_eq(believed(o), 0);
	good_reply(before);
	cr_assert_eq(believed(o), 0);
	good_reply(mono_ns());
	cr_assert_neq(believed(o), 0);
}

Test(nfs4_delegs, not_believed_while_a_flag_is_set)
{
	static const uint32_t flags[] = {
		SEQ4_STATUS_CB_PATH_DOWN, SEQ4_STATUS_BACKCHANNEL_FAULT, SEQ4_STATUS_RECALLABLE_STATE_REVOKED,
		SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED, SEQ4_STATUS_RESTART_RECLAIM_NEEDED,
	};
	struct nfs_open *o = believe();

	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		uint64_t before = mono_ns();

		nfs4_note_flags(&(struct nfs_call){ .op = NFS_OP_GETATTR, .lane = lane4(),
						    .target = target4(), .eng.start_ns = before + 1 }, flags[i]);
		expect_doubt(o, before);
	}
	nfs4_open_put(o);
}

/* Recovery may find that nothing is lost; nobody else waits until it has looked. */
Test(nfs4_delegs, not_believed_when_the_server_does_not_know_us)
{
	static const uint32_t status[] = {
		NFS4ERR_BADSESSION, NFS4ERR_DEADSESSION, NFS4ERR_STALE_CLIENTID, NFS4ERR_EXPIRED,
	};
	struct nfs_open *o = believe();

	for (unsigned i = 0; i < sizeof(status) / sizeof(status[0]); i++) {
		struct nfs_call c = call4(NFS_OP_GETATTR);
		uint64_t before = mono_ns();

		m_res();
		m_fail_at(0, status[i]);
		cr_assert_eq(play_reply(&c, def4(c.op)), NFS_RECOVER);
		expect_doubt(o, before);
		nfs4_release(target4(), &c);
		n4.need_session = n4.need_client = false;
	}
	nfs4_open_put(o);
}

/* The server may restart, and local programs write there, before there is another one. */
Test(nfs4_delegs, not_believed_when_no_connection_is_left)
{
	struct nfs_connection *k = &target4()->conns[0][0];
	struct nfs_open *o = believe();
	uint64_t before = mono_ns();

	nfs_connections_init(target4());
	cl4.server.path[0].used = true;
	cl4.server.path[0].up = cl4.server.up = 2;
	nfs_path_lost(k, true, 0, "it is gone");
	cr_assert_neq(believed(o), 0);
	nfs_path_lost(k, true, 0, "it is gone");
	expect_doubt(o, before);
	nfs4_open_put(o);
}

/* A reply of a session that was replaced since. */
Test(nfs4_delegs, believed_when_an_old_session_is_unknown)
{
	struct nfs_open *o = believe();
	struct nfs_call c = call4(NFS_OP_GETATTR);

	new_session4();
	m_res();
	m_fail_at(0, NFS4ERR_BADSESSION);
	cr_assert_eq(play_reply(&c, def4(c.op)), NFS_AGAIN);
	cr_assert_neq(believed(o), 0);
	nfs4_release(target4(), &c);
	nfs4_open_put(o);
}

/* The lease has run on meanwhile. */
Test(nfs4_delegs, not_believed_when_the_machine_has_slept)
{
	struct nfs_open *o = believe();
	uint64_t before = mono_ns();

	n4.belief.slept_ns -= 3600 * UINT64_C(1000000000);
	expect_doubt(o, before);
	nfs4_open_put(o);
}

/* One that was forgotten while it was returned takes nothing from the next one. */
Test(nfs4_delegs, believed_while_an_old_one_goes)
{
	struct nfs_open *o = open4(&fh);
	struct nfs_delegation *d;

	n4.lease_s = 90;
	n4.belief.renewed_ns = mono_ns();
	cr_assert(delegate4(o, DELEG));
	recall(DELEG, &fh);
	d = due();
	forget_delegations4(&n4.delegs);
	cr_assert(delegate4(o, "another one."));
	cr_assert_neq(believed(o), 0);
	returned(d);
	cr_assert_neq(believed(o), 0);
	nfs4_open_put(o);
}

/* ---- DELEGRETURN ---- */

static struct nfs_call returning(void)
{
	struct nfs_open *o = open4(&fh);
	struct nfs_call c;

	cr_assert(delegate4(o, DELEG));
	nfs4_open_put(o);
	recall(DELEG, &fh);
	c = call4(NFS_OP_DELEGRETURN);
	c.args.delegation = due();
	return c;
}

static bool is_answered(const struct nfs_call *c)
{
	return container_of(c->args.delegation, struct nfs4_delegation, d)->answered;
}

static void m_return_args(void)
{
	m_args(3, true);
	M(8, 0, DELEG_WORDS);
	m_minor();
}

/* at: which operation says so. */
Test(nfs4_delegs, delegreturn)
{
	static const struct { unsigned at; uint32_t status; int rc; bool answered; } t[] = {
		{ 2, 0, 0, true }, { 2, NFS4ERR_BAD_STATEID, 0, true }, { 2, NFS4ERR_STALE_STATEID, 0, true },
		{ 2, NFS4ERR_DELAY, NFS_LATER, false }, { 1, NFS4ERR_MOVED, -EREMOTE, false },
		{ 2, NFS4ERR_SERVERFAULT, 0, false }, { 1, NFS4ERR_IO, -EIO, false },
		{ 0, NFS4ERR_BADSESSION, NFS_RECOVER, false }, { 0, NFS4ERR_DELAY, NFS_DELAYED, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = returning();

		m_return_args();
		play_args(&c, def4(c.op));
		m_res();
		m_op(OP_DELEGRETURN);
		if (t[i].status)
			m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, def4(c.op)), t[i].rc, "row %u", i);
		cr_assert_eq(is_answered(&c), t[i].answered, "row %u", i);
		nfs4_release(target4(), &c);
		nfs4_delegs_return_ends(&c);
		cr_assert_eq(n4.delegs.count, !t[i].answered, "row %u", i);
		forget_delegations4(&n4.delegs);
		atomic_store(&n4.need_session, false);
	}
}

/* ---- the time of access (RFC 9754) ---- */

Test(nfs4_delegs, who_asks_for_times)
{
	cl4.has = NFS_HAS_DELEGATED_TIMES;
	cr_assert_eq(asks_for(O_RDONLY), 0x100101);
	cr_assert_eq(asks_for(O_RDWR), 0x203);
	cl4.has = 0;
	cr_assert_eq(asks_for(O_RDONLY), 0x101);
}

/* With one of that kind, whose file was read at that time: DELEGRETURN. */
static struct nfs_call returning_times(uint64_t accessed_ns)
{
	static const uint32_t w[] = { 4, 1, DELEG_WORDS, 0, 0, 0, 0, 0 };
	struct nfs_call c = opening();
	struct nfs_file *f;

	m_opened(w, 10);
	nfs4_call(&c)->place.epoch = n4.slots.epoch;
	memcpy(nfs4_call(&c)->place.session, n4.slots.sessionid, NFS4_SESSIONID_SIZE);
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	f = c.open->file;
	cr_assert(atomic_load(&f->delegation) & NFS_DELEGATION_TIMES);
	cr_assert_eq(f->accessed_ns, 0);
	atomic_store(&f->accessed_ns, accessed_ns);
	nfs4_release(target4(), &c);
	nfs4_open_put(c.open);
	recall(DELEG, &fh);
	c = call4(NFS_OP_DELEGRETURN);
	c.args.delegation = due();
	return c;
}

/* What it has encoded says what the reply has. */
static void send_return(struct nfs_call *c)
{
	static uint32_t w[256];
	XDR x;

	play_args(c, def4(c->op));
	xdr_msg_create(&x, w, sizeof(w), XDR_ENCODE);
	cr_assert(def4(c->op)->encode(c, &x));
}

static void m_times_args(void)
{
	m_args(4, true);
	M(34, 0, DELEG_WORDS, 3, 0, 0, 1 << 20, 12, 0, 5, 7);
	M(8, 0, DELEG_WORDS);
	m_minor();
}

static void m_times_res(void)
{
	m_res();
	m_op(OP_SETATTR);
	M(3, 0, 0, 1 << 20);
	m_op(OP_DELEGRETURN);
}

static void times_end(struct nfs_call *c)
{
	nfs4_release(target4(), c);
	nfs4_delegs_return_ends(c);
	cr_assert_eq(n4.delegs.count, 0);
}

Test(nfs4_delegs, delegreturn_says_when_the_file_was_read)
{
	struct nfs_call c = returning_times(5000000007);

	m_times_args();
	send_return(&c);
	m_times_res();
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	cr_assert(is_answered(&c));
	times_end(&c);
	/* It was not read. */
	c = returning_times(0);
	m_return_args();
	send_return(&c);
	m_res();
	m_op(OP_DELEGRETURN);
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	times_end(&c);
}

/* What the server says of the time is no reason to keep the delegation. */
Test(nfs4_delegs, delegreturn_with_a_time_that_is_refused)
{
	struct nfs_call c = returning_times(5000000007);

	m_times_args();
	send_return(&c);
	m_times_res();
	m_fail_at(2, NFS4ERR_DELAY);
	cr_assert_eq(play_reply(&c, def4(c.op)), NFS_LATER);
	m_times_res();
	m_fail_at(2, NFS4ERR_INVAL);
	cr_assert_eq(play_reply(&c, def4(c.op)), NFS_NEXT);
	cr_assert_not(is_answered(&c));
	m_return_args();
	send_return(&c);
	m_res();
	m_op(OP_DELEGRETURN);
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	cr_assert(is_answered(&c));
	times_end(&c);
}

Test(nfs4_delegs, delegreturn_of_what_is_unknown_with_a_time)
{
	static const struct { unsigned at; uint32_t status; int rc; bool answered; } t[] = {
		{ 3, NFS4ERR_BAD_STATEID, 0, true }, { 3, NFS4ERR_DELAY, NFS_LATER, false },
		{ 1, NFS4ERR_STALE, NFS_NEXT, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = returning_times(5000000007);

		m_times_args();
		send_return(&c);
		m_times_res();
		m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, def4(c.op)), t[i].rc, "row %u", i);
		cr_assert_eq(is_answered(&c), t[i].answered, "row %u", i);
		nfs4_release(target4(), &c);
		nfs4_delegs_return_ends(&c);
		forget_delegations4(&n4.delegs);
	}
}

Test(nfs4_delegs, replies_that_are_none_with_a_time)
{
	struct nfs_call c = returning_times(5000000007);

	nfs4_call(&c)->times = true;
	m_times_res();
	play_all_cuts(&c, def4(c.op), &hooks4);
	play_twists(&c, def4(c.op), &hooks4);
	nfs4_release(target4(), &c);
	nfs4_delegs_return_ends(&c);
}

/* Nobody knows whether the server has it. */
Test(nfs4_delegs, delegreturn_with_a_garbled_reply)
{
	struct nfs_call c = returning();

	m_res();
	m_op(OP_CLOSE);
	cr_assert_eq(play_reply(&c, def4(c.op)), -EBADMSG);
	cr_assert_not(is_answered(&c));
	nfs4_release(target4(), &c);
	nfs4_delegs_return_ends(&c);
	cr_assert_eq(n4.delegs.count, 1);
}

/* The server keeps the stateid until it is freed, or may do so: DELEGRETURN has failed at its operation `at`. */
static void frees(unsigned at, uint32_t status, uint32_t freed, bool answered)
{
	struct nfs_call c = returning();

	m_res();
	m_op(OP_DELEGRETURN);
	m_fail_at(at, status);
	cr_assert_eq(play_reply(&c, def4(c.op)), NFS_NEXT, "%u", status);
	m_seq_args(2, true);
	M(45, 0, DELEG_WORDS);
	m_minor();
	play_args(&c, def4(c.op));
	m_seq_res();
	m_op(45);
	m_fail_at(1, NFS4ERR_DELAY);
	cr_assert_eq(play_reply(&c, def4(c.op)), NFS_LATER);
	m_seq_res();
	m_op(45);
	if (freed)
		m_fail_at(1, freed);
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	cr_assert_eq(is_answered(&c), answered, "%u", freed);
	nfs4_release(target4(), &c);
	nfs4_delegs_return_ends(&c);
	cr_assert_eq(n4.delegs.count, !answered);
	forget_delegations4(&n4.delegs);
}

Test(nfs4_delegs, delegreturn_of_what_is_revoked)
{
	frees(2, NFS4ERR_DELEG_REVOKED, 0, true);
	frees(2, NFS4ERR_ADMIN_REVOKED, 0, true);
	frees(2, NFS4ERR_EXPIRED, 0, true);
}

/* The file is gone, so the server has not looked at the stateid. */
Test(nfs4_delegs, delegreturn_of_a_file_that_is_gone)
{
	static const uint32_t status[] = { NFS4ERR_STALE, NFS4ERR_BADHANDLE, NFS4ERR_FHEXPIRED };

	for (unsigned i = 0; i < sizeof(status) / sizeof(status[0]); i++) {
		for (unsigned at = 1; at <= 2; at++) {
			frees(at, status[i], 0, true);
			frees(at, status[i], NFS4ERR_BAD_STATEID, true);
			frees(at, status[i], NFS4ERR_LOCKS_HELD, false);
		}
	}
}

Test(nfs4_delegs, replies_that_are_none)
{
	struct nfs_call c = returning();

	m_res();
	m_op(OP_DELEGRETURN);
	play_all_cuts(&c, def4(c.op), &hooks4);
	play_twists(&c, def4(c.op), &hooks4);
	nfs4_release(target4(), &c);
	nfs4_delegs_return_ends(&c);
}
