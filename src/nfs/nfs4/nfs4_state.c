/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Open state. Each open() is an OPEN with an open-owner of its own. So it has a stateid of
 * its own, and CLOSE ends that open and no other.
 *
 * The opens of the mount are on lists, for recovery, one for each lane:
 *
 *   OPEN's reply      listed by its lane. When that has stateid and handle the open is settled:
 *        |            recovery may use it, and write those (nfs4_recover.c). The lane
 *        |            writes them no more: what is missing of the COMPOUND is
 *        |            asked for without the OPEN
 *   CLOSE is started  it takes the open, and recovery leaves that alone from now on. Otherwise
 *        |            it would open what the server closes, and nobody would close that
 *        |            again. If recovery has it just now, CLOSE waits (nfs4_open_ready())
 *   CLOSE is done     the caller's reference goes, whatever came of the CLOSE. The
 *                     last reference takes the open off its list
 *
 * Any lane and the control thread add and drop references, under the lock of the list. An open on
 * a list has at least one. A walk finds each open that was listed when it began and has not ended
 * when it gets there. It may miss what is listed meanwhile.
 *
 * I/O sends the stateid with seqid 0, "the current one" (RFC 8881, section 8.2.2), because
 * a call on another connection may overtake one that changes the seqid.
 */
#include <fcntl.h>
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

stateid4 nfs4_io_stateid(const struct nfs_open *o, bool writes)
{
	bool is_open = o && (writes ? o->access & OPEN4_SHARE_ACCESS_WRITE : o->access);

	return nfs4_stateid(is_open ? o : NULL);
}

/* ---- the lists ---- */

void nfs4_opens_init(struct nfs4_client *n)
{
	for (unsigned i = 0; i < NFS_LANES_MAX; i++) {
		pthread_mutex_init(&n->opens[i].mu, NULL);
		list_init(&n->opens[i].list);
	}
}

void nfs4_opens_fini(struct nfs4_client *n)
{
	struct nfs_open *o;

	/* Without a CLOSE: the mount ended first. */
	while ((o = nfs4_next_open(n, NULL))) {
		o->refs = 1;
		nfs4_open_put(o);
	}
	for (unsigned i = 0; i < NFS_LANES_MAX; i++)
		pthread_mutex_destroy(&n->opens[i].mu);
}

void nfs4_open_list(struct nfs4_opens *l, struct nfs_open *o)
{
	o->in = l;
	o->refs = 1;
	list_init(&o->locks);
	pthread_mutex_lock(&l->mu);
	list_add_tail(&l->list, &o->node);
	pthread_mutex_unlock(&l->mu);
}

void nfs4_open_get(struct nfs_open *o)
{
	pthread_mutex_lock(&o->in->mu);
	o->refs++;
	pthread_mutex_unlock(&o->in->mu);
}

void nfs4_open_put(struct nfs_open *o)
{
	struct nfs4_opens *l = o->in;
	bool last;

	pthread_mutex_lock(&l->mu);
	last = --o->refs == 0;
	if (last) {
		list_del(&o->node);
		nfs4_locks_free_locked(o);
	}
	pthread_mutex_unlock(&l->mu);
	if (!last)
		return;
	/* CREATE may have left an open without one. */
	if (o->file) {
		if (o->was_locked)
			atomic_fetch_sub(&o->file->locked, 1);
		atomic_store(&o->file->used, true);
		atomic_fetch_sub(&o->file->opens, 1);
		nfs_file_put(o->file);
	}
	free(o);
}

struct nfs_open *nfs4_next_open(struct nfs4_client *n, struct nfs_open *o)
{
	struct nfs_open *next = NULL, *at = o;

	for (struct nfs4_opens *l = o ? o->in : n->opens; !next && l < n->opens + NFS_LANES_MAX; l++) {
		struct list *node;

		pthread_mutex_lock(&l->mu);
		node = at ? at->node.next : l->list.next;
		if (node != &l->list) {
			next = container_of(node, struct nfs_open, node);
			next->refs++;
		}
		pthread_mutex_unlock(&l->mu);
		at = NULL;
	}
	if (o)
		nfs4_open_put(o);
	return next;
}

/* ---- their life ---- */

uint32_t nfs4_share_access(int flags)
{
	switch (flags & O_ACCMODE) {
	case O_WRONLY: return OPEN4_SHARE_ACCESS_WRITE;
	case O_RDWR:   return OPEN4_SHARE_ACCESS_BOTH;
	default:       return OPEN4_SHARE_ACCESS_READ;
	}
}

struct nfs_open *nfs4_open_new(struct nfs_call *c, uint32_t access)
{
	struct nfs_open *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->cred = *c->cred;
	o->access = access;
	o->needed = c->args.file.widened ? OPEN4_SHARE_ACCESS_WRITE : access;
	o->owner = nfs4_call(c)->owner;
	nfs4_open_list(&nfs4_of(c)->opens[c->lane->index], o);
	return o;
}

int nfs4_open_settle(struct nfs_call *c, const struct nfs_fh *fh)
{
	struct nfs_open *o = c->open;

	if (!o->file) {
		o->file = c->args.file.get(c, fh);
		if (!o->file)
			return -ENOMEM;
		atomic_fetch_add(&o->file->opens, 1);
	}
	atomic_store(&o->settled, true);
	return 0;
}

/* It is the last user. It need not wait until the file is open again: a stateid that the
 * server does not know is closed. */
bool nfs4_open_close(struct nfs_open *o)
{
	enum nfs4_holder was = NFS4_FREE;

	return atomic_compare_exchange_strong(&o->holder, &was, NFS4_CLOSING) ||
	       was == NFS4_CLOSING;
}

struct nfs_open *nfs4_source(const struct nfs_call *c)
{
	return c->op == NFS_OP_COPY || c->op == NFS_OP_CLONE ? c->args.copy.from : NULL;
}

/* One that is not settled is not recovered: the server's answer will tell. */
static bool is_marked(const struct nfs_open *o)
{
	return atomic_load(&o->reopen) && atomic_load(&o->settled);
}

static bool has_lost_locks(const struct nfs_open *o)
{
	return atomic_load_explicit(&o->locks_lost, memory_order_relaxed);
}

static bool needs_locks(enum nfs_op op)
{
	switch (op) {
	case NFS_OP_READ:
	case NFS_OP_WRITE:
	case NFS_OP_SETATTR:
	case NFS_OP_LOCK:
	case NFS_OP_ALLOCATE:
	case NFS_OP_DEALLOCATE:
	case NFS_OP_COPY:
	case NFS_OP_CLONE:
		return true;
	default:
		return false;
	}
}

int nfs4_open_ready(const struct nfs_call *c)
{
	const struct nfs_open *o = c->open, *from = nfs4_source(c);

	if (!(c->flags & NFS_CALL_CONTROL) &&
	    (c->op == NFS_OP_CLOSE ? !nfs4_open_close(c->open) : is_marked(o) || (from && is_marked(from))))
		return NFS_REOPEN;
	/* What it was to protect may be another client's by now. */
	return (has_lost_locks(o) || (from && has_lost_locks(from))) && needs_locks(c->op) ? -EIO : 1;
}

bool nfs4_is_ours(const struct nfs_open *o)
{
	return atomic_load(&o->settled) && atomic_load(&o->holder) != NFS4_CLOSING &&
	       !atomic_load(&o->lost);
}
