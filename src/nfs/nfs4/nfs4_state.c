/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Open state. Each open() is an OPEN with an open-owner of its own. So it has a stateid of
 * its own, and CLOSE ends that open and no other.
 *
 * The opens of the mount are on one list, for recovery:
 *
 *   OPEN's reply      listed. When the lane has stateid and handle the open is settled:
 *        |            recovery may use it, and write those (nfs4_recover.c). The lane
 *        |            writes them no more: what is missing of the COMPOUND is
 *        |            asked for without the OPEN
 *   CLOSE is started  it takes the open, and recovery leaves that alone from now on. Otherwise
 *        |            it would open what the server closes, and nobody would close that
 *        |            again. If recovery has it just now, CLOSE waits (nfs4_open_waits())
 *   CLOSE is done     the caller's reference goes, whatever came of the CLOSE. The
 *                     last reference takes the open off the list
 *
 * References change under one lock, and so does the list. An open on the list has at least
 * one reference.
 *
 * I/O sends the stateid with seqid 0, "the current one" (RFC 8881, section 8.2.2), because
 * a call on another connection may overtake one that changes the seqid.
 */
#include <stdlib.h>
#include "nfs/nfs4/nfs4_impl.h"

stateid4 nfs4_stateid(const struct nfs_open *o)
{
	stateid4 s = { 0 };

	if (o) {
		s = o->stateid;
		s.seqid = 0;
	}
	return s;
}

void nfs4_open_put(struct nfs_server *s, struct nfs_open *o)
{
	if (nfs_open_put(&s->files, &o->ref))
		free(o);
}

struct nfs_open *nfs4_open_new(struct nfs_call *c, uint32_t access)
{
	struct nfs_open *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->cred = *c->cred;
	o->access = access;
	o->owner = nfs4_call(c)->owner;
	nfs_open_list(&c->target->server->files, &o->ref);
	return o;
}

int nfs4_open_settle(struct nfs_call *c, const struct nfs_fh *fh)
{
	int rc = c->open->ref.file ? 0 :
		 nfs_open_of(&c->target->server->files, &c->open->ref, fh);

	if (!rc)
		atomic_store(&c->open->settled, true);
	return rc;
}

/* It is the last user. It need not wait until the file is open again: a stateid that the
 * server does not know is closed. */
bool nfs4_open_close(struct nfs_open *o)
{
	enum nfs4_holder was = NFS4_FREE;

	return atomic_compare_exchange_strong(&o->holder, &was, NFS4_CLOSING) ||
	       was == NFS4_CLOSING;
}

bool nfs4_open_waits(const struct nfs_call *c)
{
	struct nfs_open *o = c->open;

	if (c->flags & NFS_CALL_CONTROL)
		return false;
	if (c->op == NFS_OP_CLOSE)
		return !nfs4_open_close(o);
	/* One that is not settled is not recovered: the server's answer will tell. */
	return atomic_load(&o->reopen) && atomic_load(&o->settled);
}

struct nfs_open *nfs4_next_open(struct nfs_server *s, struct nfs_open *o)
{
	struct nfs_open_ref *next = nfs_open_next(&s->files, o ? &o->ref : NULL);

	if (o)
		nfs4_open_put(s, o);
	return next ? container_of(next, struct nfs_open, ref) : NULL;
}

bool nfs4_is_ours(const struct nfs_open *o)
{
	return atomic_load(&o->settled) && atomic_load(&o->holder) != NFS4_CLOSING &&
	       !atomic_load(&o->lost);
}
