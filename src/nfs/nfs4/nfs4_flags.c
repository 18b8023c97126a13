/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SEQUENCE's flags (RFC 8881, section 18.46.3):
 *
 *   state is revoked, or has to be reclaimed    nfs4_revoked.c
 *   CB_PATH_DOWN, CB_PATH_DOWN_SESSION          the server has no connection to call on: one is
 *                                               bound (nfs4_look_back()), and all delegations go back
 *   BACKCHANNEL_FAULT                           it has lost track of the back channel's slots, and
 *                                               only another session has others
 *
 * A flag is acted upon when it appears. A flag that stays is about state that we do not
 * know. Then the opens are tested again once in a lease period, to find what has been
 * revoked later, and nothing is logged. In the same way another connection is bound. Only a fault
 * that stays brings no further sessions: each would cost all calls a pause.
 *
 * What the server says of a back channel that it has not granted is ignored. A call that was begun
 * before a connection was bound says nothing of it: neither that a flag is there, nor that it is gone.
 * Calls that have waited for another session are of that kind, and a flag that they took away would
 * appear once more.
 */
#include "nfs/nfs4/nfs4_impl.h"

#define REVOKED_FLAGS (SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED | \
		       SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED | \
		       SEQ4_STATUS_ADMIN_STATE_REVOKED | \
		       SEQ4_STATUS_RECALLABLE_STATE_REVOKED | SEQ4_STATUS_LEASE_MOVED)
#define PATH_FLAGS (SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION)
#define BACK_FLAGS (PATH_FLAGS | SEQ4_STATUS_BACKCHANNEL_FAULT)
#define OUR_FLAGS  (REVOKED_FLAGS | SEQ4_STATUS_RESTART_RECLAIM_NEEDED | BACK_FLAGS)
#define NS_PER_S 1000000000ull

static uint32_t flags_of_back(const struct nfs_call *c, uint32_t flags, uint32_t said)
{
	const struct nfs4_client *n = nfs4_of(c);

	if (!atomic_load(&n->back.has))
		return 0;
	return (c->eng.start_ns < atomic_load(&n->back.bound_ns) ? said : flags) & BACK_FLAGS;
}

static void flags_take(struct nfs_call *c, uint32_t flags)
{
	struct nfs4_client *n = nfs4_of(c);
	uint32_t before = atomic_load(&n->said), new;

	if ((flags | before) & BACK_FLAGS)
		flags = (flags & ~(uint32_t)BACK_FLAGS) | flags_of_back(c, flags, before);
	/* The server may have answered before it heard that the opens are reclaimed. */
	if ((flags & SEQ4_STATUS_RESTART_RECLAIM_NEEDED) &&
	    (c->eng.start_ns < atomic_load(&n->reclaimed_ns) || atomic_load(&n->need_complete)))
		flags &= ~(uint32_t)SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
	if (flags == before)
		return;
	before = atomic_exchange(&n->said, flags);
	new = flags & ~before;
	if (new & SEQ4_STATUS_RESTART_RECLAIM_NEEDED)
		atomic_store(&n->need_opens, true);
	if (new & REVOKED_FLAGS)
		atomic_store(&n->need_test, true);
	if (new & PATH_FLAGS)
		atomic_store(&n->back.need, true);
	if (new & SEQ4_STATUS_BACKCHANNEL_FAULT)
		atomic_store(&n->need_session, true);
	if (new & ~(uint32_t)PATH_FLAGS)
		nfs_control_recover(c->lane->client);
}

void nfs4_note_flags(struct nfs_call *c, uint32_t flags)
{
	struct nfs4_client *n = nfs4_of(c);

	/* Recovery knows already. But a renewal is the only call of an idle mount. */
	if ((c->flags & NFS_CALL_CONTROL) && c->op != NFS4_OP_RENEW)
		return;
	flags &= OUR_FLAGS;
	if (flags || atomic_load(&n->said))
		flags_take(c, flags);
	if (flags)
		nfs4_belief_doubt(&n->belief);
	else if (atomic_load(&n->delegs.count))
		nfs4_belief_renewed(c);
}

static bool is_a_lease_ago(const struct nfs4_client *n, uint64_t ns)
{
	return mono_ns() - ns >= atomic_load(&n->lease_s) * NS_PER_S;
}

void nfs4_look_again(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	uint32_t said = atomic_load(&n->said);

	if ((said & PATH_FLAGS) && is_a_lease_ago(n, atomic_load(&n->back.bound_ns)))
		atomic_store(&n->back.need, true);
	if (!(said & REVOKED_FLAGS) || !is_a_lease_ago(n, n->tested_ns))
		return;
	atomic_store(&n->need_test, true);
	nfs_control_recover(s->client);
}
