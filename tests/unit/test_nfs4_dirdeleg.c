/* SPDX-License-Identifier: GPL-2.0-or-later */
/* GET_DIR_DELEGATION (nfs4_dirdeleg.c): what it asks, what it brings, and the recall that is faster. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "nfs4_play.h"
#include "xdr_msg.h"

#define DIR_WORDS 0x64697231, 0x64697232, 0x64697233
#define DIR       "dir1dir2dir3"

static struct nfs_file dir = { .fh = { .len = 3, .data = "dir" }, .refs = 1 };

static void setup(void)
{
	play4_setup();
	cl4.cfg.delegations = true;
	n4.back.has = true;
}

TestSuite(nfs4_dirdeleg, .init = setup, .fini = play4_teardown, .timeout = 60);

static struct nfs_call asking(void)
{
	struct nfs_call c = call4(NFS_OP_GET_DIR_DELEGATION);

	c.args.fh = &dir.fh;
	return c;
}

/* It is sent. */
static struct nfs_call asked(void)
{
	static uint32_t w[256];
	struct nfs_call c = asking();
	XDR x;

	xdr_msg_create(&x, w, sizeof(w), XDR_ENCODE);
	cr_assert(def4(c.op)->encode(&c, &x));
	nfs4_call(&c)->place.epoch = n4.slots.epoch;
	memcpy(nfs4_call(&c)->place.session, n4.slots.sessionid, NFS4_SESSIONID_SIZE);
	return c;
}

/* cookieverf, stateid, and three bitmaps, of which one is not empty. */
static void m_granted(void)
{
	m_res();
	m_op(46);
	M(0, 1, 2, 1, DIR_WORDS, 0, 1, 0x10, 0);
}

static nfsstat4 recall(void)
{
	stateid4 s = { .seqid = 1 };

	memcpy(s.other, DIR, sizeof(s.other));
	return nfs4_delegs_recall(&cl4.server, &s, &dir.fh);
}

static void ends(struct nfs_call *c)
{
	nfs4_release(target4(), c);
	forget_delegations4(&n4.delegs);
	cr_assert_eq(n4.delegs.count, 0);
	cr_assert_eq(dir.refs, 1);
}

Test(nfs4_dirdeleg, arguments)
{
	struct nfs_call c = call4(NFS_OP_GET_DIR_DELEGATION);

	m_args(3, true);
	M(46, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	m_minor();
	play_args(&c, def4(c.op));
	nfs4_release(target4(), &c);
}

Test(nfs4_dirdeleg, granted)
{
	struct nfs_call c = asked();
	struct nfs_delegation *d;

	cr_assert_eq(dir.delegation, 0);
	m_granted();
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	cr_assert(dir.delegation & NFS_DELEGATION_OF_DIR && n4.delegs.count == 1 && dir.refs == 2);
	cr_assert_eq(recall(), NFS4_OK);
	cr_assert_eq(dir.delegation, 0);
	d = nfs4_delegs_take(&cl4.server);
	cr_assert(d && d->file == &dir && d->cred.uid == c.cred->uid);
	container_of(d, struct nfs4_delegation, d)->answered = true;
	c.args.delegation = d;
	nfs4_delegs_return_ends(&c);
	ends(&c);
}

/* The recall is faster than the reply; and comes again when that is there. */
Test(nfs4_dirdeleg, recalled_before_the_reply)
{
	struct nfs_call c = asked();

	cr_assert_eq(recall(), NFS4ERR_DELAY);
	m_granted();
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	cr_assert_eq(recall(), NFS4_OK);
	cr_assert(dir.delegation == 0 && n4.delegs.in[NFS4_DUE].n == 1);
	ends(&c);
}

/* There is none; or nobody would hear of its recall: it goes back, if it comes nevertheless. */
Test(nfs4_dirdeleg, without_a_back_channel)
{
	struct nfs_call c;

	n4.back.has = false;
	c = asked();
	m_granted();
	cr_assert_eq(play_reply(&c, def4(c.op)), 0);
	cr_assert(dir.delegation == 0 && n4.delegs.in[NFS4_DUE].n == 1);
	ends(&c);
}

Test(nfs4_dirdeleg, refused)
{
	static const struct { unsigned at; uint32_t status; int rc; bool lacks; } t[] = {
		{ 2, NFS4ERR_NOTSUPP, -EOPNOTSUPP, true }, { 2, NFS4ERR_DELAY, NFS_LATER, false },
		{ 2, NFS4ERR_NOTDIR, -ENOTDIR, false }, { 1, NFS4ERR_STALE, -ESTALE, false },
		{ 0, NFS4ERR_BADSESSION, NFS_RECOVER, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = asked();

		m_granted();
		m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, def4(c.op)), t[i].rc, "row %u", i);
		cr_assert_eq(cl4.server.lacks >> NFS_OP_GET_DIR_DELEGATION & 1, t[i].lacks, "row %u", i);
		cl4.server.lacks = 0;
		atomic_store(&n4.need_session, false);
		ends(&c);
	}
}

/* A server that has not heard of the operation. And one that has, and gives none now. */
Test(nfs4_dirdeleg, none)
{
	struct nfs_call c = asked();

	m_res();
	M(OP_ILLEGAL, NFS4ERR_OP_ILLEGAL);
	cr_assert_eq(play_reply(&c, def4(c.op)), -EOPNOTSUPP);
	cr_assert_eq(cl4.server.lacks >> NFS_OP_GET_DIR_DELEGATION & 1, 1);
	ends(&c);
	c = asked();
	m_res();
	m_op(46);
	M(GDD4_UNAVAIL, 1);
	cr_assert_eq(play_reply(&c, def4(c.op)), -EAGAIN);
	ends(&c);
}

Test(nfs4_dirdeleg, replies_that_are_none)
{
	struct nfs_call c = asking();

	m_granted();
	play_all_cuts(&c, def4(c.op), &hooks4);
	play_twists(&c, def4(c.op), &hooks4);
	nfs4_release(target4(), &c);
	forget_delegations4(&n4.delegs);
}
