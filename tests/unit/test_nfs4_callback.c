/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of the server: CB_COMPOUND as a message, and what it is answered with. The test plays a
 * server that repeats, reorders, cuts and invents.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "nfs/common.h"
#include "nfs4_play.h"
#include "xdr_msg.h"

static uint32_t call[512], reply[1024];
static unsigned ncall;
static uint32_t reply_len;

static void setup(void)
{
	play4_setup();
	nfs4_back_enter(&n4.back, n4.sessionid);
}

TestSuite(nfs4_callback, .init = setup, .fini = play4_teardown);

/* ---- calls ---- */

static void c_word(uint32_t w)
{
	cr_assert_lt(ncall, sizeof(call) / sizeof(call[0]));
	call[ncall++] = htonl(w);
}

static void c_words(unsigned n, const uint32_t *w)
{
	while (n--)
		c_word(*w++);
}
#define C(...) c_words(sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, (uint32_t[]){ __VA_ARGS__ })

/* Up to the arguments. */
static void c_head(uint32_t proc)
{
	ncall = 0;
	C(0xabcd, 0, 2, NFS4_CALLBACK, NFS_CB, proc, 0, 0, 0, 0);
}

/* Up to the operations; the tag is "tag". */
static void c_compound(uint32_t minor, uint32_t n)
{
	c_head(CB_COMPOUND);
	C(3, 0x74616700, minor, 0, n);
}

static void c_sequence(uint32_t seqid, uint32_t slot)
{
	C(OP_CB_SEQUENCE, SESSION_WORDS, seqid, slot, slot, 0, 0);
}

/* With one operation to come. */
static void c_begin(uint32_t seqid)
{
	c_compound(1, 2);
	c_sequence(seqid, 0);
}

#define FH 5, 0x6668616e, 0x64000000

/* ---- answers ---- */

static uint32_t answer(void)
{
	XDR in, out;

	memset(reply, 0xee, sizeof(reply));
	xdr_msg_create(&in, call, ncall * 4, XDR_DECODE);
	xdr_msg_create(&out, reply, RR_INLINE - RR_HDR_MIN, XDR_ENCODE);
	return reply_len = rpcserve(&nfs4_callback, target4(), &in, &out);
}

static uint32_t r(unsigned i)
{
	cr_assert_lt(i * 4, reply_len);
	return ntohl(reply[i]);
}

/* Where the results of a compound begin: behind six words of RPC, status, and the tag. */
enum { STATUS = 6, COUNT = 9, FIRST = 10 };

static void expect(uint32_t status, uint32_t n)
{
	answer();
	cr_assert_eq(r(5), 0, "accept_stat %u", r(5));
	cr_assert_eq(r(STATUS), status, "status %u, not %u", r(STATUS), status);
	cr_assert(r(7) == 3 && r(8) == 0x74616700, "the tag");
	cr_assert_eq(r(COUNT), n, "%u results, not %u", r(COUNT), n);
}

/* CB_SEQUENCE has been accepted, and there are so many results. */
static void expect_in_session(uint32_t status, uint32_t n)
{
	static const uint32_t session[] = { SESSION_WORDS };

	expect(status, n);
	cr_assert(r(FIRST) == OP_CB_SEQUENCE && r(FIRST + 1) == 0);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(r(FIRST + 2 + i), session[i]);
}
enum { SECOND = FIRST + 10 };

/* It is the only result. */
static void expect_refused(uint32_t op, uint32_t status)
{
	expect(status, 1);
	cr_assert_eq(r(FIRST), op);
	cr_assert_eq(r(FIRST + 1), status);
	cr_assert_eq(reply_len, (FIRST + 2) * 4);
}

/* ---- */

Test(nfs4_callback, null_and_no_procedure)
{
	c_head(CB_NULL);
	cr_assert_eq(answer(), 24);
	cr_assert_eq(r(5), 0);
	c_head(2);
	cr_assert_eq(answer(), 24);
	cr_assert_eq(r(5), 3);
}

Test(nfs4_callback, sequence_alone)
{
	c_compound(1, 1);
	c_sequence(1, 5);
	expect_in_session(0, 1);
	cr_assert_eq(r(FIRST + 6), 1);
	cr_assert_eq(r(FIRST + 7), 5);
	cr_assert_eq(r(FIRST + 8), NFS4_BACK_SLOTS - 1);
	cr_assert_eq(r(FIRST + 9), NFS4_BACK_SLOTS - 1);
	cr_assert_eq(reply_len, SECOND * 4);
}

/* What is about things that we do not have; and what is not supported. */
Test(nfs4_callback, operations)
{
	static const struct {
		uint32_t op, status;
		unsigned n;
		uint32_t arg[24];
	} t[] = {
		{ OP_CB_GETATTR, NFS4ERR_BADHANDLE, 5, { FH, 1, 0x18 } },
		{ OP_CB_RECALL, NFS4ERR_BAD_STATEID, 8, { 1, STATEID_WORDS, 0, FH } },
		{ OP_CB_LAYOUTRECALL, NFS4ERR_NOMATCHING_LAYOUT, 4, { 1, 3, 0, 3 } },
		{ OP_CB_LAYOUTRECALL, NFS4ERR_NOMATCHING_LAYOUT, 8, { 1, 3, 0, 2, 0, 1, 0, 2 } },
		{ OP_CB_LAYOUTRECALL, NFS4ERR_NOMATCHING_LAYOUT, 15,
		  { 1, 3, 0, 1, FH, 0, 0, 0, 9, 1, STATEID_WORDS } },
		{ OP_CB_LAYOUTRECALL, NFS4ERR_BADXDR, 4, { 1, 3, 0, 4 } },
		{ OP_CB_NOTIFY, NFS4ERR_NOTSUPP, 0, { 0 } },
		{ OP_CB_PUSH_DELEG, NFS4ERR_NOTSUPP, 0, { 0 } },
		{ OP_CB_RECALL_ANY, 0, 3, { 100, 1, 3 } },
		{ OP_CB_RECALLABLE_OBJ_AVAIL, NFS4ERR_NOTSUPP, 3, { 100, 1, 3 } },
		{ OP_CB_RECALL_SLOT, 0, 1, { 0 } },
		{ OP_CB_SEQUENCE, NFS4ERR_SEQUENCE_POS, 9, { SESSION_WORDS, 1, 1, 1, 0, 0 } },
		{ OP_CB_WANTS_CANCELLED, NFS4ERR_NOTSUPP, 2, { 1, 1 } },
		{ OP_CB_NOTIFY_LOCK, 0, 7, { FH, 0, 1, 1, 0x61000000 } },
		{ OP_CB_NOTIFY_DEVICEID, NFS4ERR_NOTSUPP, 1, { 0 } },
	};
	uint32_t seqid = 0;

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		c_begin(++seqid);
		c_word(t[i].op);
		c_words(t[i].n, t[i].arg);
		expect_in_session(t[i].status, 2);
		cr_assert_eq(r(SECOND), t[i].op, "row %u", i);
		cr_assert_eq(r(SECOND + 1), t[i].status, "row %u", i);
		cr_assert_eq(reply_len, (SECOND + 2) * 4);
	}
	/* Each of them cut: it was not executed, if it has arguments. */
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		bool looks = t[i].status != NFS4ERR_NOTSUPP && t[i].status != NFS4ERR_SEQUENCE_POS;

		for (unsigned n = 0; n < t[i].n && looks; n++) {
			c_begin(++seqid);
			c_word(t[i].op);
			c_words(n, t[i].arg);
			expect_in_session(NFS4ERR_BADXDR, 2);
			cr_assert_eq(r(SECOND), t[i].op);
			cr_assert_eq(r(SECOND + 1), NFS4ERR_BADXDR);
		}
	}
}

Test(nfs4_callback, no_such_operation)
{
	static const uint32_t ops[] = { 0, 1, 2, 15, 16, 10044, UINT32_MAX };

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		c_begin(i + 1);
		c_word(ops[i]);
		expect_in_session(NFS4ERR_OP_ILLEGAL, 2);
		cr_assert_eq(r(SECOND), OP_CB_ILLEGAL);
		c_compound(1, 1);
		c_word(ops[i]);
		expect_refused(OP_CB_ILLEGAL, NFS4ERR_OP_ILLEGAL);
	}
}

/* CB_OFFLOAD is of minor version 2. */
Test(nfs4_callback, minor_versions)
{
	cl4.server.version = &nfs_v42;
	for (uint32_t i = 0; i < 2; i++) {
		c_compound(2, 2);
		c_sequence(i + 1, 0);
		C(OP_CB_OFFLOAD, FH, 1, STATEID_WORDS, i * NFS4ERR_IO);
		if (i)
			C(0, 4096);
		else
			C(1, 1, STATEID_WORDS, 0, 4096, 2, 0x61626364, 0x61626364);
		expect_in_session(NFS4ERR_BAD_STATEID, 2);
		cr_assert_eq(r(SECOND), OP_CB_OFFLOAD);
	}
	c_compound(1, 1);
	c_sequence(3, 0);
	expect(NFS4ERR_MINOR_VERS_MISMATCH, 0);
	c_compound(2, 0);
	expect(0, 0);
	c_compound(0, 0);
	expect(NFS4ERR_MINOR_VERS_MISMATCH, 0);
}

/* ---- CB_NOTIFY_LOCK ---- */

static struct {
	unsigned n;
	struct nfs_fh fh;
	uint64_t owner;
} freed;

static void on_lock_freed(struct nfs_lane *l, const struct nfs_fh *of, uint64_t owner)
{
	cr_assert_eq(l, target4()->lane);
	freed.n++;
	freed.fh = *of;
	freed.owner = owner;
}

static void no_news(struct nfs_lane *l)
{
	(void)l;
}

/* The file system hears which file, and which of its owners; of owners that are not ours, nothing. */
Test(nfs4_callback, a_lock_that_may_be_free)
{
	static const struct nfs_front front = {
		.lane_changed = no_news, .buffers_freed = no_news, .lock_freed = on_lock_freed,
	};
	uint32_t words[2];
	uint64_t owner = 0x1122334455667788;

	memcpy(words, &owner, sizeof(words));
	target4()->server->client->cfg.front = &front;
	c_begin(1);
	C(OP_CB_NOTIFY_LOCK, FH, 0, 1, 8, ntohl(words[0]), ntohl(words[1]));
	expect_in_session(0, 2);
	cr_assert_eq(freed.n, 1);
	cr_assert(freed.fh.len == 5 && !memcmp(freed.fh.data, "fhand", 5));
	cr_assert_eq(freed.owner, owner);
	/* It comes again, and is answered from what is kept. */
	expect_in_session(0, 2);
	cr_assert_eq(freed.n, 1);
	c_begin(2);
	C(OP_CB_NOTIFY_LOCK, FH, 0, 1, 7, ntohl(words[0]), ntohl(words[1]) & 0xffffff00);
	expect_in_session(0, 2);
	cr_assert_eq(freed.n, 1);
	target4()->server->client->cfg.front = NULL;
	c_begin(3);
	C(OP_CB_NOTIFY_LOCK, FH, 0, 1, 8, ntohl(words[0]), ntohl(words[1]));
	expect_in_session(0, 2);
}

/* ---- CB_OFFLOAD ---- */

static struct {
	unsigned n;
	bool known;
	struct nfs_fh fh;
	struct nfs_copy_id id;
	struct nfs_copy_end end;
} ended;

static bool on_copy_ended(struct nfs_lane *l, const struct nfs_fh *of, const struct nfs_copy_id *id,
			  const struct nfs_copy_end *end)
{
	cr_assert_eq(l, target4()->lane);
	ended.n++;
	ended.fh = *of;
	ended.id = *id;
	ended.end = *end;
	return ended.known;
}

/* The file system hears how it has ended, and says whether it knows the copy. */
Test(nfs4_callback, a_copy_that_has_ended)
{
	static const struct nfs_front front = { .copy_ended = on_copy_ended };
	static const stateid4 id = { 1, "opn1opn2opn3" };
	static const struct { uint32_t status, committed; int rc; } t[] = {
		{ 0, 2, 0 }, { 0, 1, 0 }, { 0, 0, 0 }, { 28, 0, -ENOSPC }, { 10004, 0, -EOPNOTSUPP },
		{ 77777, 0, -EIO },
	};
	uint32_t seqid = 0;

	cl4.cfg.front = &front;
	cl4.server.version = &nfs_v42;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		ended.known = i % 2;
		c_compound(2, 2);
		c_sequence(++seqid, 0);
		C(OP_CB_OFFLOAD, FH, 1, STATEID_WORDS, t[i].status);
		if (t[i].status)
			C(0, 4096);
		else
			C(0, 1, 4096, t[i].committed, 0x61626364, 0x65666768);
		expect_in_session(i % 2 ? 0 : NFS4ERR_BAD_STATEID, 2);
		cr_assert_eq(ended.n, i + 1);
		cr_assert(ended.fh.len == 5 && !memcmp(ended.fh.data, "fhand", 5));
		cr_assert_eq(memcmp(&ended.id, &id, sizeof(id)), 0);
		cr_assert_eq(ended.end.status, t[i].rc, "row %u", i);
		cr_assert_eq(ended.end.count, t[i].status ? 0 : 0x100001000);
		cr_assert(ended.end.stable == (t[i].committed == 2), "DATA_SYNC4 is not enough");
		cr_assert(t[i].status || ended.end.verf == nfs_verifier("abcdefgh"));
		/* It comes again, and is answered from what is kept. */
		expect_in_session(i % 2 ? 0 : NFS4ERR_BAD_STATEID, 2);
		cr_assert_eq(ended.n, i + 1);
	}
	/* Cut, and with two ids: nobody hears of it. */
	for (unsigned n = 0; n < 7; n++) {
		c_compound(2, 2);
		c_sequence(++seqid, 0);
		C(OP_CB_OFFLOAD, FH, 1, STATEID_WORDS, 0);
		for (unsigned i = 0; i < n; i++)
			c_word(n == 6 && !i ? 2 : 0);
		if (n == 6)
			ncall--;
		expect_in_session(NFS4ERR_BADXDR, 2);
	}
	cr_assert_eq(ended.n, sizeof(t) / sizeof(t[0]));
}

/* ---- CB_RECALL, CB_RECALL_ANY ---- */

static unsigned told;

/* As the file system does, but that it does not return them. */
static void on_delegations_due(struct nfs_lane *l)
{
	cr_assert_eq(l, target4()->lane);
	told++;
}

static const struct nfs_front due_front = { .delegations_due = on_delegations_due };

static unsigned ndue(void)
{
	return atomic_load(&n4.delegs.in[NFS4_DUE].n);
}

Test(nfs4_callback, recalls)
{
	static const struct { uint32_t seqid, other, fh, status; unsigned told; } t[] = {
		{ 9, 0x6f706e33, 0x64000000, 0, 1 }, { 1, 0x6f706e33, 0x64000000, 0, 2 },
		{ 1, 0x6f706e34, 0x64000000, NFS4ERR_BAD_STATEID, 2 },
		/* The handle is another one. */
		{ 1, 0x6f706e33, 0x65000000, 0, 3 },
	};
	struct nfs_open *o = open4(&fh);

	cl4.cfg.front = &due_front;
	cr_assert(delegate4(o, "opn1opn2opn3"));
	for (uint32_t i = 0; i < 4; i++) {
		c_begin(i + 1);
		C(OP_CB_RECALL, t[i].seqid, 0x6f706e31, 0x6f706e32, t[i].other, 0, 5, 0x6668616e, t[i].fh);
		expect_in_session(t[i].status, 2);
		cr_assert_eq(told, t[i].told, "row %u", i);
	}
	cr_assert_eq(ndue(), 1);
	/* Nobody is there to be told: it is due all the same. */
	forget_delegations4(&n4.delegs);
	cl4.cfg.front = NULL;
	cr_assert(delegate4(o, "opn1opn2opn3"));
	c_begin(5);
	C(OP_CB_RECALL, 1, STATEID_WORDS, 0, FH);
	expect_in_session(0, 2);
	cr_assert_eq(ndue(), 1);
	nfs4_open_put(o);
}

/* ---- CB_GETATTR ---- */

static bool knows;

static bool on_asked(struct nfs_lane *l, const struct nfs_delegation *d, uint64_t *size, uint64_t *change)
{
	cr_assert(l == target4()->lane && nfs_fh_same(&d->file->fh, &fh) && d->number & NFS_DELEGATION_WRITES);
	*size = 0x1122334455667788;
	*change = 0x99aabbccddeeff00;
	return knows;
}

Test(nfs4_callback, attributes)
{
	static const struct nfs_front front = { .delegations_due = on_delegations_due, .delegation_attr = on_asked };
	static const struct { unsigned n; uint32_t asked[4]; unsigned told; uint32_t words[8]; } t[] = {
		{ 2, { 1, 0x18 }, 7, { 1, 0x18, 16, 0x99aabbcc, 0xddeeff00, 0x11223344, 0x55667788 } },
		{ 2, { 1, 0x10 }, 5, { 1, 0x10, 8, 0x11223344, 0x55667788 } },
		{ 2, { 1, 0x08 }, 5, { 1, 0x08, 8, 0x99aabbcc, 0xddeeff00 } },
		/* Others as well, and none. */
		{ 4, { 3, UINT32_MAX, UINT32_MAX, UINT32_MAX }, 7,
		  { 1, 0x18, 16, 0x99aabbcc, 0xddeeff00, 0x11223344, 0x55667788 } },
		{ 3, { 2, 0, 0x300000 }, 2, { 0, 0 } },
		{ 1, { 0 }, 2, { 0, 0 } },
	};
	struct nfs_open *o = open4(&fh), *reader = open4(&fh2);
	uint32_t seqid = 0;

	cl4.cfg.front = &front;
	cr_assert(delegate4_write(o, "opn1opn2opn3") && delegate4(reader, "opn1opn2opn4"));
	knows = true;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		c_begin(++seqid);
		C(OP_CB_GETATTR, FH);
		c_words(t[i].n, t[i].asked);
		/* And once more, from what is kept. */
		for (unsigned again = 0; again < 2; again++) {
			expect_in_session(0, 2);
			cr_assert(r(SECOND) == OP_CB_GETATTR && r(SECOND + 1) == 0);
			for (unsigned k = 0; k < t[i].told; k++)
				cr_assert_eq(r(SECOND + 2 + k), t[i].words[k], "row %u, word %u", i, k);
			cr_assert_eq(reply_len, (SECOND + 2 + t[i].told) * 4, "row %u", i);
		}
	}
	cr_assert_eq(stat_get(&target4()->lane->stats, STAT_DELEGS_ASKED), seqid);
	/* As many as may be in one call, behind the longest tag: the server may keep all of it. */
	c_head(CB_COMPOUND);
	C(1024);
	for (unsigned i = 0; i < 256; i++)
		c_word(0x74616774);
	C(1, 0, NFS4_BACK_OPS);
	c_sequence(++seqid, 0);
	for (unsigned i = 1; i < NFS4_BACK_OPS; i++)
		C(OP_CB_GETATTR, FH, 1, 0x18);
	cr_assert_eq(answer(), (6 + 1 + 257 + 1 + 10 + (NFS4_BACK_OPS - 1) * 9) * 4);
	/* What the file system does not know; and a file with one to read, or with a handle that is none. */
	knows = false;
	c_begin(++seqid);
	C(OP_CB_GETATTR, FH, 1, 0x18);
	expect_in_session(NFS4ERR_SERVERFAULT, 2);
	cr_assert_eq(reply_len, (SECOND + 2) * 4);
	c_begin(++seqid);
	C(OP_CB_GETATTR, fh2.len);
	for (unsigned i = 0; i < fh2.len; i += 4)
		C((uint32_t)fh2.data[i] << 24 | (uint32_t)fh2.data[i + 1] << 16 | (uint32_t)fh2.data[i + 2] << 8 |
		  fh2.data[i + 3]);
	C(1, 0x18);
	expect_in_session(NFS4ERR_BADHANDLE, 2);
	cl4.cfg.front = NULL;
	c_begin(++seqid);
	C(OP_CB_GETATTR, FH, 1, 0x18);
	expect_in_session(NFS4ERR_SERVERFAULT, 2);
	cr_assert_eq(atomic_load(&o->file->refs), 2, "the open and the delegation");
	nfs4_open_put(o);
	nfs4_open_put(reader);
}

/* DELEGRETURN needs no more than the recall has. */
Test(nfs4_callback, recalls_of_what_nobody_knows)
{
	cl4.cfg.front = &due_front;
	cl4.cfg.delegations = true;
	c_begin(1);
	C(OP_CB_RECALL, 1, STATEID_WORDS, 0, FH);
	expect_in_session(0, 2);
	cr_assert(told == 1 && ndue() == 1);
	/* It comes again, and is answered from what is kept; and once more. */
	expect_in_session(0, 2);
	c_begin(2);
	C(OP_CB_RECALL, 2, STATEID_WORDS, 0, FH);
	expect_in_session(0, 2);
	cr_assert_eq(ndue(), 1);
	cr_assert(nfs_fh_same(&nfs4_delegs_take(&cl4.server)->file->fh, &fh));
}

/* That other file's goes back. */
Test(nfs4_callback, recalls_with_the_stateid_of_another_file)
{
	struct nfs_open *o = open4(&fh2);

	cl4.cfg.front = &due_front;
	cl4.cfg.delegations = true;
	cr_assert(delegate4(o, "opn1opn2opn3"));
	c_begin(1);
	C(OP_CB_RECALL, 1, STATEID_WORDS, 0, FH);
	expect_in_session(0, 2);
	cr_assert(told == 1 && ndue() == 1 && !o->file->delegation);
	cr_assert_eq(nfs4_delegs_take(&cl4.server)->file, o->file);
	nfs4_open_put(o);
}

/* The longest handle that it may have, and one that is longer. */
Test(nfs4_callback, recalls_of_long_handles)
{
	for (uint32_t len = 124; len <= 132; len += 4) {
		c_begin((len - 120) / 4);
		C(OP_CB_RECALL, 1, STATEID_WORDS, 0, len);
		for (uint32_t i = 0; i < len / 4; i++)
			c_word(i);
		expect_in_session(len > 128 ? NFS4ERR_BADXDR : NFS4ERR_BAD_STATEID, 2);
	}
}

/* That directory's delegation. */
static void delegate_dir(struct nfs_file *dir)
{
	struct nfs_call c = call4(NFS_OP_GET_DIR_DELEGATION);
	static const stateid4 stateid = { .seqid = 1, .other = "a directory" };

	c.args.fh = &dir->fh;
	nfs4_delegs_ask(&c);
	cr_assert(nfs4_delegs_got(&c, &stateid, NFS_DELEGATION_OF_DIR, true));
	nfs4_release(target4(), &c);
}

/* Of the kinds that it wants back. */
Test(nfs4_callback, recalls_of_any)
{
	static struct nfs_file dir = { .fh = { .len = 3, .data = "dir" }, .refs = 1 };
	static const struct { uint32_t keep, types; unsigned due; } t[] = {
		{ 0, 0, 0 }, { 0, 1 << RCA4_TYPE_MASK_FILE_LAYOUT, 0 }, { 1, 1 << RCA4_TYPE_MASK_DIR_DLG, 0 },
		{ 0, 1 << RCA4_TYPE_MASK_DIR_DLG, 1 },
		/* Those of other kinds do not count. */
		{ 1, 1 << RCA4_TYPE_MASK_RDATA_DLG, 1 },
		/* That file is open. */
		{ 0, 1 << RCA4_TYPE_MASK_WDATA_DLG, 1 },
		{ 0, 1 << RCA4_TYPE_MASK_RDATA_DLG, 2 },
	};
	struct nfs_open *a = open4(&fh), *b = open4(&fh2);

	cl4.cfg.front = &due_front;
	cl4.cfg.delegations = true;
	n4.back.has = true;
	cr_assert(delegate4(a, "opn1opn2opn3") && delegate4_write(b, "another one."));
	delegate_dir(&dir);
	nfs4_open_put(a);
	for (uint32_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		c_begin(i + 1);
		C(OP_CB_RECALL_ANY, t[i].keep, 1, t[i].types);
		expect_in_session(0, 2);
		cr_assert_eq(ndue(), t[i].due, "row %u", i);
		cr_assert_eq(dir.delegation == 0, t[i].due > 0, "row %u", i);
	}
	cr_assert(told);
	nfs4_open_put(b);
	c_begin(8);
	C(OP_CB_RECALL_ANY, 0, 1, 1 << RCA4_TYPE_MASK_RDATA_DLG | 1 << RCA4_TYPE_MASK_WDATA_DLG);
	expect_in_session(0, 2);
	cr_assert_eq(ndue(), 3);
}

/* ---- the session ---- */

Test(nfs4_callback, not_in_a_session)
{
	c_compound(1, 1);
	C(OP_CB_RECALL_ANY, 1, 0);
	expect_refused(OP_CB_RECALL_ANY, NFS4ERR_OP_NOT_IN_SESSION);
	c_compound(1, 1);
	C(OP_CB_SEQUENCE, 1, 2, 3, 4, 1, 0, 0, 0, 0);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_BADSESSION);
	c_compound(1, 1);
	C(OP_CB_SEQUENCE, SESSION_WORDS, 1, 16, 16, 0, 0);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_BADSLOT);
	c_compound(1, 1);
	C(OP_CB_SEQUENCE, SESSION_WORDS, 1, 15, 16, 0, 0);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_BAD_HIGH_SLOT);
	c_compound(1, 1);
	C(OP_CB_SEQUENCE, SESSION_WORDS, 1, 15, 14, 0, 0);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_BAD_HIGH_SLOT);
	/* None of these has used up a number. */
	c_compound(1, 1);
	c_sequence(1, 15);
	expect_in_session(0, 1);
}

Test(nfs4_callback, too_many_operations)
{
	for (uint32_t n = 8; n < 70; n++) {
		c_compound(1, n);
		c_sequence(1, 0);
		for (uint32_t i = 1; i < n; i++)
			C(OP_CB_RECALL_ANY, 1, 0);
		if (n == 8) {
			expect_in_session(0, 8);
			c_compound(1, 1);
			c_sequence(2, 0);
			expect_in_session(0, 1);
		} else {
			call[ncall - 3 * (n - 1) - 5] = htonl(3);
			expect_refused(OP_CB_SEQUENCE, NFS4ERR_TOO_MANY_OPS);
		}
	}
	/* As many as it says, and not there. */
	c_compound(1, 8);
	c_sequence(3, 0);
	C(OP_CB_RECALL_ANY, 1, 0);
	expect_in_session(NFS4ERR_OP_ILLEGAL, 3);
}

/* A reply was lost with its connection: the same call again gets the same reply, bytes and all, on
 * whichever lane; and is not executed again. */
Test(nfs4_callback, repeated)
{
	uint32_t first[64], len;

	c_begin(1);
	C(OP_CB_RECALL_SLOT, 3);
	len = answer();
	memcpy(first, reply, len);
	cr_assert_eq(slots4()->limit, 4);
	slots4()->limit = SLOTS;
	for (unsigned i = 0; i < 3; i++) {
		call[0] = htonl(i);             /* the XID is its own */
		cr_assert_eq(answer(), len);
		cr_assert_eq(r(0), i);
		cr_assert(!memcmp(reply + 1, first + 1, len - 4));
		cr_assert_eq(slots4()->limit, SLOTS);
	}
	/* One that has failed is repeated as well. */
	c_begin(2);
	C(OP_CB_RECALL, 1, STATEID_WORDS, 0, FH);
	expect_in_session(NFS4ERR_BAD_STATEID, 2);
	expect_in_session(NFS4ERR_BAD_STATEID, 2);
	/* The one before that is gone. */
	c_begin(1);
	C(OP_CB_RECALL_SLOT, 3);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_SEQ_MISORDERED);
}

Test(nfs4_callback, out_of_order)
{
	static const uint32_t wrong[] = { 0, 2, 3, UINT32_MAX };

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		c_begin(wrong[i]);
		C(OP_CB_RECALL_SLOT, 3);
		expect_refused(OP_CB_SEQUENCE, NFS4ERR_SEQ_MISORDERED);
	}
	cr_assert_eq(slots4()->limit, SLOTS);
	/* The numbers go round. */
	n4.back.session[n4.back.newest].slot[0].seqid = UINT32_MAX - 1;
	for (uint32_t seqid = UINT32_MAX - 1; ++seqid != 2; ) {
		c_begin(seqid);
		C(OP_CB_RECALL_ANY, 0, 0);
		expect_in_session(0, 2);
		expect_in_session(0, 2);
	}
}

/* Another lane is at it. */
Test(nfs4_callback, repeated_too_early)
{
	CB_SEQUENCE4args a = { .csa_sequenceid = 1 };
	char kept[NFS4_BACK_REPLY];
	uint32_t len;
	bool again;

	memcpy(a.csa_sessionid, n4.sessionid, 16);
	cr_assert_eq(nfs4_back_sequence(&n4.back, &a, 1, &again, kept, &len), NFS4_OK);
	cr_assert_not(again);
	c_compound(1, 1);
	c_sequence(1, 0);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_DELAY);
	c_compound(1, 1);
	c_sequence(2, 0);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_DELAY);
	/* Its session goes meanwhile, twice. */
	nfs4_back_enter(&n4.back, "another session.");
	nfs4_back_enter(&n4.back, "the third of all");
	nfs4_back_answered(&n4.back, &a, kept, 8);
	c_compound(1, 1);
	c_sequence(1, 0);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_BADSESSION);
}

/* The server may call in the session before, until that is destroyed. */
Test(nfs4_callback, two_sessions)
{
	c_compound(1, 1);
	c_sequence(1, 0);
	expect_in_session(0, 1);
	nfs4_back_enter(&n4.back, "another session.");
	expect_in_session(0, 1);
	nfs4_back_enter(&n4.back, "another session.");
	c_compound(1, 1);
	c_sequence(2, 0);
	expect_in_session(0, 1);
	nfs4_back_enter(&n4.back, "the third of all");
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_BADSESSION);
	nfs4_back_enter(&n4.back, n4.sessionid);
	c_compound(1, 1);
	c_sequence(1, 0);
	expect_in_session(0, 1);
}

/* Recalls of what we do not hold, on all slots, all of them. */
Test(nfs4_callback, a_thousand_recalls)
{
	for (uint32_t i = 0; i < 1000; i++) {
		c_compound(1, 2);
		C(OP_CB_SEQUENCE, SESSION_WORDS, i / 16 + 1, i % 16, 15, 0, 0);
		C(OP_CB_RECALL, i, STATEID_WORDS, 0, FH);
		expect_in_session(NFS4ERR_BAD_STATEID, 2);
	}
}

/* ---- calls of ours that a call is about ---- */

static void c_referring(uint32_t seqid, uint32_t slot, uint32_t ours)
{
	c_compound(1, 1);
	C(OP_CB_SEQUENCE, SESSION_WORDS, seqid, 0, 0, 0);
	C(2, 1, 2, 3, 4, 0, SESSION_WORDS, 2, ours + 7, slot, ours, slot);
}

Test(nfs4_callback, it_comes_before_our_reply)
{
	struct nfs_call c = call4(NFS_OP_GETATTR);
	const struct nfs4_place *p = &nfs4_call(&c)->place;

	c_referring(1, p->slot, p->seqid);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_DELAY);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_DELAY);
	nfs4_release(target4(), &c);
	expect_in_session(0, 1);
	c_referring(2, UINT32_MAX, 1);
	expect_in_session(0, 1);
}

Test(nfs4_callback, it_refers_to_too_much)
{
	c_compound(1, 1);
	C(OP_CB_SEQUENCE, SESSION_WORDS, 1, 0, 0, 0, UINT32_MAX);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_BADXDR);
	c_compound(1, 1);
	C(OP_CB_SEQUENCE, SESSION_WORDS, 1, 0, 0, 0, 1, SESSION_WORDS, 65);
	for (unsigned i = 0; i < 130; i++)
		c_word(1);
	expect_refused(OP_CB_SEQUENCE, NFS4ERR_BADXDR);
}

/* ---- our slots ---- */

Test(nfs4_callback, slots_are_wanted_back)
{
	c_begin(1);
	C(OP_CB_RECALL_SLOT, 3);
	expect_in_session(0, 2);
	cr_assert_eq(slots4()->limit, 4);
	/* More than there are now: that is for a reply to say. */
	c_begin(2);
	C(OP_CB_RECALL_SLOT, UINT32_MAX);
	expect_in_session(0, 2);
	cr_assert_eq(slots4()->limit, 4);
	c_begin(3);
	C(OP_CB_RECALL_SLOT, 0);
	expect_in_session(0, 2);
	cr_assert_eq(slots4()->limit, 1);
	cr_assert_not(atomic_load(&n4.need_session));
	/* A session that is not the newest one has no slots that we use. */
	slots4()->limit = SLOTS;
	memcpy(slots4()->sessionid, "another session.", 16);
	c_begin(4);
	C(OP_CB_RECALL_SLOT, 0);
	expect_in_session(0, 2);
	cr_assert_eq(slots4()->limit, SLOTS);
}

/* The server hears of it by the next SEQUENCE that has no slot above the target in use. */
Test(nfs4_callback, slots_that_are_not_used_any_more)
{
	struct nfs_call low = call4(NFS_OP_GETATTR), high = low;

	cr_assert_not(nfs4_slots_are_untold(slots4()));
	cr_assert_eq(nfs4_acquire(target4(), &high), 1);
	c_begin(1);
	C(OP_CB_RECALL_SLOT, 0);
	expect_in_session(0, 2);
	cr_assert_not(nfs4_slots_are_untold(slots4()), "slot 1 is in use");
	nfs4_release(target4(), &low);
	cr_assert_eq(nfs4_acquire(target4(), &low), 1);
	cr_assert_eq(nfs4_call(&low)->place.highest, 1);
	nfs4_release(target4(), &low);
	nfs4_release(target4(), &high);
	cr_assert(nfs4_slots_are_untold(slots4()));
	cr_assert_eq(nfs4_acquire(target4(), &low), 1);
	cr_assert(!nfs4_call(&low)->place.highest && !nfs4_slots_are_untold(slots4()));
	nfs4_release(target4(), &low);
	/* It may know less than it could: the limit was lower already, and nothing was sent since. */
	c_begin(2);
	C(OP_CB_RECALL_SLOT, 3);
	expect_in_session(0, 2);
	cr_assert(nfs4_slots_are_untold(slots4()));
	new_session4();
	cr_assert_not(nfs4_slots_are_untold(slots4()));
}

/* The only slot that it leaves us was retired. */
Test(nfs4_callback, slots_without_which_nothing_goes)
{
	struct nfs_call c = call4(NFS_OP_GETATTR);

	c.eng.rr.sends = 1;
	nfs4_release(target4(), &c);
	cr_assert_eq(nretired4(), 1);
	c_begin(1);
	C(OP_CB_RECALL_SLOT, 0);
	expect_in_session(0, 2);
	cr_assert(atomic_load(&n4.need_session));
	cr_assert(ctl.recover);
}

/* A control call that waits for a slot there must not keep recovery waiting. */
Test(nfs4_callback, slots_that_are_waited_for_in_vain)
{
	struct nfs_call c = call4(NFS_OP_GETATTR), busy = c, third = c;
	const struct nfs4_lane *l4 = target4()->vdata;

	slots4()->limit = 2;
	cr_assert_eq(nfs4_acquire(target4(), &busy), 1);
	cr_assert_eq(nfs4_acquire(target4(), &third), 0);
	c.eng.rr.sends = 1;
	nfs4_release(target4(), &c);
	cr_assert_not(l4->posted, "the other slot may still become free");
	c_begin(1);
	C(OP_CB_RECALL_SLOT, 0);
	expect_in_session(0, 2);
	cr_assert(ctl.recover && l4->posted);
	cr_assert_eq(nfs4_acquire(target4(), &third), -EAGAIN);
	nfs4_release(target4(), &busy);
}

/* ---- the message ---- */

Test(nfs4_callback, tags)
{
	for (uint32_t len = 1020; len <= 1025; len++) {
		c_head(CB_COMPOUND);
		c_word(len);
		for (uint32_t i = 0; i < (len + 3) / 4; i++)
			c_word(0x61616161);
		if (len % 4)
			call[ncall - 1] &= htonl(~0u << (4 - len % 4) * 8);
		C(1, 0, 1);
		c_sequence(len - 1019, 0);
		answer();
		cr_assert_eq(r(5), len > 1024 ? 4 : 0);
		if (len <= 1024)
			cr_assert(r(6) == 0 && r(7) == len);
	}
}

/* Wherever it is cut: an answer or none, and never an operation that is not there. */
Test(nfs4_callback, cut)
{
	unsigned n;

	c_begin(1);
	C(OP_CB_RECALL_SLOT, 3);
	n = ncall;
	for (unsigned i = 0; i < n; i++) {
		ncall = i;
		answer();
		if (i < 10)
			cr_assert_eq(reply_len, 0);
		else if (i < 15)
			cr_assert_eq(r(5), 4, "%u words", i);
		else
			cr_assert_neq(r(STATUS), 0);
		cr_assert_eq(slots4()->limit, SLOTS);
	}
}

/* No word makes it do what it must not. */
Test(nfs4_callback, twisted)
{
	static const uint32_t bad[] = { 0, 1, 2, 3, 17, 64, 65, 0x7fffffff, 0x80000000, UINT32_MAX };
	uint32_t seqid = 0;

	for (unsigned i = 0; i < 60; i++) {
		for (unsigned k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
			c_begin(++seqid);
			C(OP_CB_NOTIFY_LOCK, FH, 0, 1, 1, 0x61000000);
			if (i >= ncall)
				return;
			call[i] = htonl(bad[k]);
			answer();
			cr_assert_leq(reply_len, NFS4_BACK_REPLY + 24);
			/* Whatever that was, the slot is as the server believes, or can be. */
			seqid = n4.back.session[n4.back.newest].slot[0].seqid;
			cr_assert_not(n4.back.session[n4.back.newest].slot[0].busy);
		}
	}
}
