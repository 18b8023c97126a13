/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Delegations (nfs4_delegs.h) after a restart of the server: those of files that are open are asked for again,
 * each with an open of its file, before RECLAIM_COMPLETE (RFC 8881, section 10.2.1).
 *
 *      nfs4_regain_begins()           HELD -> LOST, if the file is open; all others are forgotten
 *      OPEN, CLAIM_PREVIOUS           delegate_type says which kind the file had
 *          brings one of that kind    it is HELD, with another number
 *          brings one of another kind, or one that is wanted back at once    it is DUE
 *          brings none                the file's next open asks
 *      nfs4_regain_ends()             what is LOST is forgotten
 *
 * It is another one: between the restart and the OPEN the server's own programs may have changed the file, and
 * nobody has told this mount. So what was believed is asked for once more, and an OPEN of before does not stay for
 * the next open. But from then on the server calls again before others read or write the file, so that they find
 * what was written here and is not on the server yet. A file that nobody has open has nothing of that kind, and
 * its next OPEN asks for a delegation.
 *
 * Locks that were granted under it are the opens' again, and reclaimed with these (nfs4_relock.c).
 *
 * On the control thread, but for the OPENs; the lanes hold. A recall may overtake the OPEN's reply: then what it
 * names is in the table already, on its way back, and is not kept when the reply comes. If the server restarts once
 * more it begins again with what is HELD or LOST by then.
 */
#include "nfs/nfs4/nfs4_impl.h"

static void regain_lose_locked(struct nfs4_delegs *t, struct nfs4_delegation *d)
{
	bool held = d->state == NFS4_HELD && atomic_load(&d->d.file->opens);

	if (held)
		nfs4_delegs_lose_locked(t, d);
	else if (d->state != NFS4_LOST)
		nfs4_delegs_forget_locked(t, d);
}

void nfs4_regain_begins(struct nfs4_delegs *t)
{
	pthread_mutex_lock(&t->mu);
	for (unsigned i = 0; i < NFS4_DELEGATION_STATES; i++)
		list_for_each_entry_safe(struct nfs4_delegation, d, tmp, &t->in[i].list, node)
			regain_lose_locked(t, d);
	pthread_mutex_unlock(&t->mu);
}

void nfs4_regain_ends(struct nfs4_delegs *t)
{
	pthread_mutex_lock(&t->mu);
	list_for_each_entry_safe(struct nfs4_delegation, d, tmp, &t->in[NFS4_LOST].list, node)
		nfs4_delegs_forget_locked(t, d);
	pthread_mutex_unlock(&t->mu);
}

/* ---- OPEN ---- */

/* The number of the one that the file had, and that this open can ask for. 0: none. */
static uint64_t regain_number_locked(struct nfs4_delegs *t, const struct nfs_open *o)
{
	const struct nfs4_delegation *d = nfs4_delegs_find_lost_locked(t, &o->file->fh);
	uint32_t access;

	if (!d || nfs4_delegs_find_locked(t, &o->file->fh))
		return 0;
	access = nfs_delegation_writes(d->d.number) ? OPEN4_SHARE_ACCESS_WRITE : OPEN4_SHARE_ACCESS_READ;
	return o->access & access ? d->d.number : 0;
}

void nfs4_regain_ask(const struct nfs_call *c, OPEN4args *a)
{
	struct nfs4_client *n = nfs4_of(c);
	uint64_t number;

	pthread_mutex_lock(&n->delegs.mu);
	number = atomic_load(&n->back.has) ? regain_number_locked(&n->delegs, c->open) : 0;
	pthread_mutex_unlock(&n->delegs.mu);
	a->claim.open_claim4_u.delegate_type = OPEN_DELEGATE_NONE;
	if (!number)
		return;
	a->claim.open_claim4_u.delegate_type = nfs_delegation_writes(number) ? OPEN_DELEGATE_WRITE : OPEN_DELEGATE_READ;
	a->share_access = c->open->access | nfs4_delegs_want(number);
}

bool nfs4_regain_fits_locked(struct nfs4_delegs *t, const struct nfs_call *c, uint64_t kind)
{
	uint64_t number = c->op == NFS4_OP_REOPEN ? regain_number_locked(t, c->open) : 0;

	return number && nfs_delegation_writes(number) == nfs_delegation_writes(kind);
}
