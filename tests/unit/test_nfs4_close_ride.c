/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CLOSE in the COMPOUND of another call, as messages (nfs/close_ride.h). test_nfs_close_ride has what the
 * engine makes of it.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include "nfs4_play.h"

static struct nfs_call rider;

/* A call that carries the CLOSE of open_file. */
static struct nfs_call carrier(enum nfs_op op)
{
	struct nfs_call c = call4(op);

	rider = (struct nfs_call){ .op = NFS_OP_CLOSE, .open = &open_file };
	c.eng.riding_close = &rider;
	c.eng.close_ride_closed = false;
	return c;
}

static void m_rider_args(uint32_t nops, bool cache)
{
	m_args(nops, cache);
	M(4, 0, 0, STATEID_WORDS);
	M(22);
	m_opaque("fhand", 5);
}

static void m_rider_res(void)
{
	m_res();
	m_op(4);
	M(1, 0, 0, 0);
	m_op(22);
}

static void m_access_res(void)
{
	m_rider_res();
	m_op(3);
	M(0x3f, 0x3f);
}

TestSuite(rider4, .init = play4_setup, .fini = play4_teardown);

Test(rider4, arguments)
{
	struct nfs_call c = carrier(NFS_OP_ACCESS);

	c.args.access.mask = 4;
	m_rider_args(5, false);
	M(3, 0x1);
	play_args(&c, def4(NFS_OP_ACCESS));
	cr_assert(nfs4_op_close.rides(&rider));
	cr_assert_eq(atomic_load(&open_file.holder), NFS4_CLOSING, "recovery leaves it alone");
	atomic_store(&open_file.holder, NFS4_RECOVERED);
	cr_assert_not(nfs4_op_close.rides(&rider), "and it leaves recovery alone");
	atomic_store(&open_file.holder, NFS4_FREE);
	hooks4.after(&c);
}

Test(rider4, both_succeed)
{
	struct nfs_call c = carrier(NFS_OP_ACCESS);

	c.args.access.mask = 4;
	m_access_res();
	cr_assert_eq(play_reply(&c, def4(NFS_OP_ACCESS)), 0);
	cr_assert(c.eng.close_ride_closed && (c.res.access.mask & 4));
	hooks4.after(&c);
}

/* CLOSE has had its effect, whatever follows. */
Test(rider4, the_carrier_fails)
{
	struct nfs_call c = carrier(NFS_OP_ACCESS);

	m_access_res();
	m_fail_at(4, 13);
	cr_assert_eq(play_reply(&c, def4(NFS_OP_ACCESS)), -EACCES);
	cr_assert(c.eng.close_ride_closed);
	hooks4.after(&c);
}

/* The COMPOUND ends there, so the carrier is sent again. What is not open any more is closed;
 * everything else is for a CLOSE by itself. */
Test(rider4, close_fails)
{
	static const struct { unsigned at; uint32_t status; bool closed; } t[] = {
		{ 1, 70, false }, { 1, 10008, false }, { 2, 10025, true }, { 2, 10023, true }, { 2, 10024, true },
		{ 2, 10011, false }, { 2, 10047, false }, { 2, 10087, false }, { 2, 10008, false },
		{ 2, 10006, false },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct nfs_call c = carrier(NFS_OP_ACCESS);

		m_access_res();
		m_fail_at(t[i].at, t[i].status);
		cr_assert_eq(play_reply(&c, def4(NFS_OP_ACCESS)), NFS_ALONE, "row %u", i);
		cr_assert_eq(c.eng.close_ride_closed, t[i].closed, "row %u", i);
		cr_assert_not(atomic_load(&open_file.reopen));
		hooks4.after(&c);
	}
}

/* It would only hold up what carries it. */
Test(rider4, what_is_lost_does_not_ride)
{
	struct nfs_call c = { .op = NFS_OP_CLOSE, .open = &open_file };

	cr_assert(def4(NFS_OP_CLOSE)->rides(&c));
	atomic_store(&open_file.lost, true);
	cr_assert_not(def4(NFS_OP_CLOSE)->rides(&c));
	atomic_store(&open_file.lost, false);
}

/* SEQUENCE fails: nobody has looked at CLOSE. */
Test(rider4, the_session_is_lost)
{
	struct nfs_call c = carrier(NFS_OP_ACCESS);

	m_access_res();
	m_fail_at(0, 10052);
	cr_assert_eq(play_reply(&c, def4(NFS_OP_ACCESS)), NFS_RECOVER);
	cr_assert_not(c.eng.close_ride_closed);
	hooks4.after(&c);
}

Test(rider4, malformed)
{
	struct nfs_call c = carrier(NFS_OP_ACCESS);

	m_access_res();
	play_all_cuts(&c, def4(NFS_OP_ACCESS), &hooks4);
	m_access_res();
	play_twists(&c, def4(NFS_OP_ACCESS), &hooks4);
	hooks4.after(&c);
}

/* An OPEN is executed once because the server keeps its reply. It carries nothing that makes
 * the reply too long for that. */
Test(rider4, open_carries_what_leaves_its_reply_short)
{
	const struct nfs_opdef *def = def4(NFS_OP_OPEN);
	struct nfs_call c = call4(NFS_OP_OPEN);
	uint32_t *most = &nfs4_call(&c)->place.max_cached;

	*most = RPC_REPLY_HDR_MIN + nfs_results_max(def, &c) - V4_DELEGATION_XDR;
	cr_assert_not(def->carries(&c));
	*most += V4_RIDER_XDR;
	cr_assert(def->carries(&c));
	*most = 2128;                   /* Linux */
	cr_assert(def->carries(&c));
	/* It is not kept anyway. */
	*most = 100;
	cr_assert(def->carries(&c));
	hooks4.after(&c);
}

/* So does a create. It is one of the longest COMPOUNDs, and sessions may allow no longer ones. */
Test(rider4, create_carries_what_the_session_allows)
{
	const struct nfs_opdef *def = def4(NFS_OP_CREATE);
	struct nfs_call c = call4(NFS_OP_CREATE);

	nfs4_call(&c)->place.max_cached = 2128;
	nfs4_of(&c)->maxops = NFS4_OPS_NEEDED + NFS4_CLOSE_RIDE_OPS;
	cr_assert(def->carries(&c));
	nfs4_of(&c)->maxops--;
	cr_assert_not(def->carries(&c));
	nfs4_of(&c)->maxops = 16;
	nfs4_call(&c)->place.max_cached = RPC_REPLY_HDR_MIN + nfs_results_max(def, &c) - V4_DELEGATION_XDR;
	cr_assert_not(def->carries(&c));
	hooks4.after(&c);
}

/* A server may refuse to remove or replace what is open, or keep a name of it. */
Test(rider4, what_takes_a_name_away_comes_after)
{
	cr_assert(def4(NFS_OP_REMOVE)->unnames && def4(NFS_OP_RMDIR)->unnames && def4(NFS_OP_RENAME)->unnames);
}
