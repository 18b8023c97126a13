/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Replies to COMPOUNDs, decoded twice (decode_twice.h): GETATTR, LOOKUP and READ. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "decode_twice.h"
#include "nfs4_play.h"

#define COUNT 64u       /* of READ */

static char sink[COUNT + 4];      /* and what is more than was asked for */

/* ---- the message, and damage ---- */

static void write_reply(enum nfs_op op)
{
	m_res();
	if (op == NFS_OP_READ) {
		m_op(OP_READ);
		M(twice_roll(2));
		m_opaque(sink, twice_roll(20) ? twice_roll(COUNT + 1) : COUNT + twice_roll(3));
		return;
	}
	if (op == NFS_OP_LOOKUP) {
		m_op(OP_LOOKUP);
		m_op(OP_GETFH);
		m_opaque(sink, 1 + twice_roll(64));
	}
	m_op(OP_GETATTR);
	m_stat_fattr();
}

/* The words at which a result, a length or a count is are where most of the damage is done. */
static uint32_t write_damaged(enum nfs_op op)
{
	uint32_t len;

	write_reply(op);
	len = m_len();
	switch (twice_roll(8)) {
	case 0:
	case 1:
		return len;
	case 2:
		return twice_roll(len);
	case 3:
	case 4:
		m_fail_at(twice_roll(m_nops()), twice_roll(2) ? 13 : twice_word());
		return m_len();
	case 5:
		m_set(twice_roll(4) * 4, twice_word());
		return len;
	default:
		for (unsigned n = 1 + twice_roll(2); n; n--)
			m_set(twice_roll(len / 4) * 4, twice_word());
		return len;
	}
}

/* ---- by rpcgen's routines ---- */

enum seen { MALFORMED, FAILED, TAKEN };

struct theirs {
	XDR x;
	struct nfs_call c;      /* what was asked */
	nfs_fh4 fh;
	fattr4 attrs;
	READ4res read;
};

static enum seen their_op(struct theirs *t, uint32_t wanted, void *res, xdrproc_t proc)
{
	uint32_t op;

	if (!(xdr_uint32_t)(&t->x, &op) || op != wanted || !proc(&t->x, res))
		return MALFORMED;
	/* All begin with it. */
	return *(nfsstat4 *)res ? FAILED : TAKEN;
}
#define THEIR_OP(t, op, res) their_op(t, OP_##op, res, (xdrproc_t)(void (*)(void))xdr_##op##4res)

static enum seen their_start(struct theirs *t)
{
	const struct nfs4_place *p = &nfs4_call(&t->c)->place;
	compound4_res_head h;
	SEQUENCE4res seq;
	const SEQUENCE4resok *ok = &seq.SEQUENCE4res_u.sr_resok4;
	PUTFH4res put;
	enum seen s;

	if (!xdr_compound4_res_head(&t->x, &h))
		return MALFORMED;
	if (!h.numres)
		return h.status ? FAILED : MALFORMED;
	s = THEIR_OP(t, SEQUENCE, &seq);
	if (s != TAKEN)
		return s;
	if (memcmp(ok->sr_sessionid, p->session, NFS4_SESSIONID_SIZE) || ok->sr_slotid != p->slot ||
	    ok->sr_sequenceid != p->seqid)
		return MALFORMED;
	return THEIR_OP(t, PUTFH, &put);
}

static enum seen their_read(struct theirs *t)
{
	READ4resok *ok = &t->read.READ4res_u.resok4;
	enum seen s;

	ok->data = (nfs_bulk){ .max = COUNT, .placed = t->c.eng.rr.placed };
	s = THEIR_OP(t, READ, &t->read);
	if (s == TAKEN && ok->data.placed && ok->data.len != t->c.eng.rr.placed_len &&
	    ((ok->data.len + 3) & ~3u) != t->c.eng.rr.placed_len)
		return MALFORMED;
	return s;
}

static enum seen their_lookup(struct theirs *t)
{
	LOOKUP4res lookup;
	GETFH4res get;
	enum seen s = THEIR_OP(t, LOOKUP, &lookup);

	if (s == TAKEN)
		s = THEIR_OP(t, GETFH, &get);
	if (s != TAKEN)
		return s;
	t->fh = get.GETFH4res_u.resok4.object;
	return t->fh.len ? TAKEN : MALFORMED;
}

static enum seen their_reply(struct theirs *t)
{
	struct nfs4_attrs a;
	GETATTR4res attr;
	enum seen s = their_start(t);

	if (s == TAKEN && t->c.op == NFS_OP_READ)
		return their_read(t);
	if (s == TAKEN && t->c.op == NFS_OP_LOOKUP)
		s = their_lookup(t);
	if (s == TAKEN)
		s = THEIR_OP(t, GETATTR, &attr);
	if (s != TAKEN)
		return s;
	/* test_nfs4_fattr_twice looks at the values. */
	t->attrs = attr.GETATTR4res_u.resok4.obj_attributes;
	return nfs4_get_fattr(&a, &t->attrs) && nfs4_has_required(&a) ? TAKEN : MALFORMED;
}

/* ---- both ---- */

static struct nfs_call call(enum nfs_op op)
{
	struct nfs_call c = call4(op);

	if (op != NFS_OP_READ)
		return c;
	c.open = &open_file;
	c.args.io.count = COUNT;
	c.args.io.sink[0] = (struct rr_iov){ sink, COUNT };
	c.eng.rr.placed = !twice_roll(4);
	c.eng.rr.placed_len = c.eng.rr.placed ? 1 + twice_roll(COUNT) : 0;
	c.eng.rr.data = sink;
	return c;
}

static void same_results(const struct nfs_call *ours, struct theirs *t)
{
	const READ4resok *read = &t->read.READ4res_u.resok4;
	struct nfs4_attrs a;

	if (ours->op == NFS_OP_READ) {
		cr_assert(ours->res.io.len == read->data.len && ours->res.io.eof == (read->eof != 0));
		cr_assert(ours->res.io.len <= COUNT);
		if (read->data.placed)
			cr_assert_eq(ours->res.io.ptr, (const void *)sink);
		else
			cr_assert_eq(memcmp(ours->res.io.ptr, read->data.data, read->data.len), 0);
		return;
	}
	cr_assert(nfs4_get_fattr(&a, &t->attrs) && ours->res.has_attr);
	cr_assert_eq(memcmp(&a.attr, &ours->res.attr, sizeof(a.attr)), 0);
	if (ours->op == NFS_OP_LOOKUP)
		cr_assert(ours->res.fh.len == t->fh.len && !memcmp(ours->res.fh.data, t->fh.data, t->fh.len));
}

static void twice(enum nfs_op op, unsigned seen[3])
{
	struct nfs_call c = call(op);
	uint32_t len = write_damaged(op), words = (len + 3) / 4 * 4;
	uint32_t *copy = malloc(words ? words : 4);
	struct theirs t = { .c = c };
	enum seen s;
	int rc;

	for (uint32_t at = 0; at < len; at += 4)
		copy[at / 4] = htonl(m_get(at));
	xdrmem_create(&t.x, (char *)copy, len, XDR_DECODE);
	s = their_reply(&t);
	rc = play_cut(&c, def4(op), len);
	cr_assert_eq(rc == 0 ? TAKEN : rc == -EBADMSG ? MALFORMED : FAILED, s, "%d, %d", rc, (int)s);
	if (s == TAKEN)
		same_results(&c, &t);
	seen[s]++;
	hooks4.after(&c);
	free(copy);
}

TestSuite(nfs4_compound_twice, .init = play4_setup, .fini = play4_teardown);

Test(nfs4_compound_twice, random_ones)
{
	static const enum nfs_op ops[] = { NFS_OP_GETATTR, NFS_OP_LOOKUP, NFS_OP_READ };

	twice_seed(3);
	for (unsigned o = 0; o < 3; o++) {
		unsigned seen[3] = { 0 };

		for (unsigned i = 0; i < TWICE_ROUNDS / 4; i++)
			twice(ops[o], seen);
		/* Or this looks at one kind only. */
		for (unsigned s = 0; s < 3; s++)
			cr_assert(seen[s] > TWICE_ROUNDS / 100, "%u, %u: %u", o, s, seen[s]);
	}
}
