/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is believed under a delegation (nfs4_delegs.h): that nobody else has changed the file.
 *
 * nfs_file.delegation says that it is held: that is taken away with the table's lock held, before anything
 * is sent. So whoever has seen it has seen it before DELEGRETURN was sent, and before anybody else could
 * change the file. A server revokes a delegation only after it has waited for a lease period: for a call of
 * ours, or for our answer to a recall. So it is believed for half a lease period from when a message was encoded
 * whose SEQUENCE was executed, and if nothing was amiss since then. (The call may have been begun long before: in
 * a grace period it is sent again and again. A reply alone does not count: a process that was stopped for long
 * wakes up with old ones, and with refusals.) Amiss is:
 *
 *   a flag in SEQUENCE's result    The server has no way to call us, has revoked something, or has
 *        restarted. An older reply without the flag may be decoded later: it does not count.
 *   the session or the client id is unknown    What is known here may be gone. Recovery will look, but not
 *        all who write at the server meanwhile wait for a grace period: local programs, version 3.
 *   the last connection is lost    The server may be restarting: it has lost what we have, and waits for nobody
 *        who writes there. Otherwise a mount that only uses what it believes would not hear of that.
 *   this machine has slept    The lease has run on, and the monotonic clock, by which calls begin, has not.
 *
 * Any thread. Order: lost_ns is read behind renewed_ns, and written before what others may see of it.
 */
#include "nfs/nfs4/nfs4_impl.h"

/* Half of a second of the lease. */
#define LEASE_HALF_NS 500000000ull
/* Looks at two clocks may be so far apart, and it is no sleep. */
#define CLOCKS_NS 1000000000ll

void nfs4_belief_init(struct nfs4_belief *b)
{
	uint64_t now = mono_ns();

	atomic_init(&b->slept_ns, boot_ns() - now);
}

void nfs4_belief_doubt(struct nfs4_belief *b)
{
	atomic_store(&b->lost_ns, mono_ns());
}

/* Of two lanes at a time the older one may win, which does no harm. */
void nfs4_belief_renewed(const struct nfs_call *c)
{
	struct nfs4_belief *b = &nfs4_of(c)->belief;

	if (c->eng.encoded_ns > atomic_load(&b->renewed_ns))
		atomic_store(&b->renewed_ns, c->eng.encoded_ns);
}

static void belief_look_for_sleep(struct nfs4_belief *b)
{
	uint64_t now = mono_ns(), slept = boot_ns() - now;

	if ((int64_t)(slept - atomic_load(&b->slept_ns)) < CLOCKS_NS)
		return;
	nfs4_belief_doubt(b);
	atomic_store(&b->slept_ns, slept);
}

static bool belief_is_fresh(const struct nfs_server *s)
{
	const struct nfs4_client *n = s->vdata;
	uint64_t renewed = atomic_load(&n->belief.renewed_ns), now = mono_ns();

	return renewed > atomic_load(&n->belief.lost_ns) && renewed > atomic_load(&s->cut_ns) &&
	       (now <= renewed || now - renewed < atomic_load(&n->lease_s) * LEASE_HALF_NS);
}

uint64_t nfs4_belief_delegation(const struct nfs_server *s, struct nfs_file *f)
{
	struct nfs4_client *n = s->vdata;
	uint64_t number = atomic_load(&f->delegation);

	belief_look_for_sleep(&n->belief);
	if (!number || !belief_is_fresh(s))
		return 0;
	if (!atomic_load(&f->used))
		atomic_store(&f->used, true);
	return number;
}
