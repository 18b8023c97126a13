/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SEQUENCE's flags that say that state is revoked or has to be reclaimed (nfs4_revoked.c).
 *
 * A flag is acted upon when it appears. A flag that stays is about state that we do not
 * know. Then the opens are tested again once in a lease period, to find what has been
 * revoked later, and nothing is logged.
 */
#include "nfs/nfs4/nfs4_impl.h"

#define REVOKED_FLAGS (SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED | \
		       SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED | \
		       SEQ4_STATUS_ADMIN_STATE_REVOKED | \
		       SEQ4_STATUS_RECALLABLE_STATE_REVOKED | SEQ4_STATUS_LEASE_MOVED)
#define NS_PER_S 1000000000ull

void nfs4_note_flags(struct nfs_call *c, uint32_t flags)
{
	struct nfs4_client *n = nfs4_of(c);
	uint32_t before, new;

	/* Recovery knows already. But a renewal is the only call of an idle mount. */
	if ((c->flags & NFS_CALL_CONTROL) && c->op != NFS4_OP_RENEW)
		return;
	flags &= REVOKED_FLAGS | SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
	/* The server may have answered before it heard that the opens are reclaimed. */
	if ((flags & SEQ4_STATUS_RESTART_RECLAIM_NEEDED) &&
	    (c->eng.start_ns < atomic_load(&n->reclaimed_ns) || atomic_load(&n->need_complete)))
		flags &= ~(uint32_t)SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
	if (flags == atomic_load(&n->said))
		return;
	before = atomic_exchange(&n->said, flags);
	new = flags & ~before;
	if (new & SEQ4_STATUS_RESTART_RECLAIM_NEEDED)
		atomic_store(&n->need_opens, true);
	if (new & REVOKED_FLAGS)
		atomic_store(&n->need_test, true);
	if (new)
		nfs_control_recover(c->lane->client);
}

void nfs4_test_again(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;

	if (!(atomic_load(&n->said) & REVOKED_FLAGS) ||
	    mono_ns() - n->tested_ns < n->lease_s * NS_PER_S)
		return;
	atomic_store(&n->need_test, true);
	nfs_control_recover(s->client);
}
