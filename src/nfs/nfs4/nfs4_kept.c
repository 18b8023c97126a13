/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * OPENs that stay at the server when their file is closed, and are used again: under a delegation (nfs4_delegs.h)
 * a further open() makes no call.
 *
 *      OPEN: the delegation's, or sent under it         in use: the file system's
 *                                                         |  ^
 *                              close: nfs4_kept_stays()   |  |  open: nfs4_kept_again()
 *                                                         v  |
 *                                                       nfs4_delegation.kept
 *                                                         |  the delegation is taken: nfs4_kept_take()
 *                                                         v
 *                                                       CLOSE, which rides in DELEGRETURN
 *
 * One that is in use is one open file's, as without delegations. There are as many as were ever open at a time;
 * NFS4_KEPT_OF_ONE of them stay. One that LOCK was sent by does not stay: CLOSE frees what its owners have at the
 * server. That may be more than is known here: a LOCK without an answer (a soft mount's, or one whose reply was
 * garbled) may be executed after the LOCKU that was to undo it, or that had no answer either. Then nobody would
 * unlock it, and the next open() would find the file locked, by nobody. And marks of locks that were lost go with
 * their open: they make no other open file fail.
 *
 * Under a delegation to write OPENs that write stay as well, and each is for opens of its kind. What open()
 * means beyond that does not depend on OPEN: the kernel cuts the file (O_TRUNC) by a SETATTR of its own, knows who
 * appends, and refuses to run what is open for writing here (ETXTBSY). At the server the file counts as open for
 * writing; who runs it there has the delegation recalled before, and these closed with it.
 *
 * The user who opens it again is the one who has opened it, with the same groups; and what ACCESS has granted
 * to him then, to read or to execute, and OPEN, to write, holds as long as the delegation: a server recalls it
 * before it changes mode, owner or list. That is so for an OPEN that has brought the delegation, and for those that were sent
 * under it (nfs_open.under), not for older ones. It need not recall it for a change by this mount itself
 * (RFC 8881, section 10.4.4; Linux does not): the file system drops it before one, and when an OPEN ends beside
 * one (promised_opened()). (A user who has lost a group at the server keeps what he has, as with all clients
 * that keep ACCESS' results.) Whether attributes and name hold is the file system's business: vfs/promised.h.
 *
 * Who else acts in between:
 *
 *   a recall, or whoever drops the delegation    From then on none is given, and none stays. Both look at the
 *        delegation with the lock held: an open() that has got one was before the recall's answer.
 *   whoever takes the delegation    takes these with it, one by one. A file that is closed meanwhile does not
 *        find the delegation HELD, and sends CLOSE.
 *   recovery    They are on the lists of opens (nfs4_state.c) like all others, are tested and opened again. One
 *        that could not be opened, or is not yet, is not given. After a restart of the server they are dropped
 *        before opens are reclaimed: nobody needs them, and the server does not know them.
 *   TEST_STATEID    says of a delegation that the server does not know it: what stays with it may well be
 *        known, so it is returned all the same.
 *   the lease runs out, the machine sleeps, the session is lost    nfs4_belief.c: then nobody asks for one.
 *   the same file with another inode    finds no delegation, and these stay with the first one.
 *   the unmount    As a recall of all. What the lanes cannot return any more is closed with the client id, or
 *        by the lease.
 */
#include "nfs/nfs4/nfs4_impl.h"

static struct nfs4_delegs *kept_table(const struct nfs_server *s)
{
	return &((struct nfs4_client *)s->vdata)->delegs;
}

/* ---- with t->mu ---- */

static void kept_take_locked(struct nfs4_delegs *t, struct nfs4_delegation *d, struct nfs_open *o)
{
	list_del(&o->kept);
	t->nkept--;
	d->nkept--;
	atomic_fetch_add(&o->file->opens, 1);
}

static struct nfs_open *kept_first(const struct nfs4_delegation *d)
{
	return list_empty(&d->kept) ? NULL : container_of(d->kept.next, struct nfs_open, kept);
}

void nfs4_kept_drop_locked(struct nfs4_delegs *t, struct nfs4_delegation *d)
{
	struct nfs_open *o;

	while ((o = kept_first(d))) {
		kept_take_locked(t, d, o);
		nfs4_open_put(o);
	}
}

static bool kept_is_good(const struct nfs_open *o)
{
	return !atomic_load(&o->reopen) && !atomic_load(&o->lost) && o->access;
}

static bool kept_was_locked(const struct nfs_open *o)
{
	bool was;

	pthread_mutex_lock(&o->in->mu);
	was = o->was_locked;
	pthread_mutex_unlock(&o->in->mu);
	return was;
}

/* Under one to read nobody writes. */
static bool kept_is_for(const struct nfs4_delegation *d, uint32_t access)
{
	return access == OPEN4_SHARE_ACCESS_READ || nfs_delegation_writes(d->d.number);
}

static bool kept_may_stay_locked(const struct nfs4_delegs *t, const struct nfs4_delegation *d,
				 const struct nfs_open *o)
{
	return d && d->state == NFS4_HELD && d->d.number == o->under && d->d.file == o->file &&
	       d->nkept < NFS4_KEPT_OF_ONE && t->nkept < NFS4_KEPT_MAX && kept_is_for(d, o->access) &&
	       o->rights && kept_is_good(o) && !o->granted_under && !kept_was_locked(o);
}

/* ---- lane threads ---- */

bool nfs4_kept_stays(struct nfs_server *s, struct nfs_open *o)
{
	struct nfs4_delegs *t = kept_table(s);
	struct nfs4_delegation *d;
	bool stays;

	if (!o->file)
		return false;
	pthread_mutex_lock(&t->mu);
	d = nfs4_delegs_find_locked(t, &o->file->fh);
	stays = kept_may_stay_locked(t, d, o);
	if (stays) {
		list_add_head(&d->kept, &o->kept);
		t->nkept++;
		d->nkept++;
		atomic_store(&o->file->used, true);
		atomic_fetch_sub(&o->file->opens, 1);
	}
	pthread_mutex_unlock(&t->mu);
	return stays;
}

static struct nfs_open *kept_find_locked(const struct nfs4_delegation *d, const struct rpc_cred *cred,
					 uint32_t access, uint32_t rights)
{
	list_for_each_entry(struct nfs_open, o, &d->kept, kept)
		if (o->access == access && kept_is_good(o) && !(rights & ~o->rights) && rpc_cred_same(&o->cred, cred))
			return o;
	return NULL;
}

/* What ACCESS must have granted. That he may write, OPEN itself has said. */
static uint32_t kept_rights(uint32_t access, bool exec)
{
	return exec ? ACCESS4_EXECUTE : access & OPEN4_SHARE_ACCESS_READ ? ACCESS4_READ : 0;
}

struct nfs_open *nfs4_kept_again(struct nfs_server *s, const struct nfs_file *f, uint64_t delegation,
				 const struct rpc_cred *cred, int flags, bool exec)
{
	uint32_t access = nfs4_share_access(flags);
	struct nfs4_delegs *t = kept_table(s);
	struct nfs_open *o = NULL;
	struct nfs4_delegation *d;

	pthread_mutex_lock(&t->mu);
	d = nfs4_delegs_find_locked(t, &f->fh);
	if (d && d->state == NFS4_HELD && d->d.number == delegation)
		o = kept_find_locked(d, cred, access, kept_rights(access, exec));
	if (o)
		kept_take_locked(t, d, o);
	pthread_mutex_unlock(&t->mu);
	return o;
}

struct nfs_open *nfs4_kept_take(struct nfs_server *s, struct nfs_delegation *given, struct rpc_cred *cred)
{
	struct nfs4_delegation *d = container_of(given, struct nfs4_delegation, d);
	struct nfs4_delegs *t = kept_table(s);
	struct nfs_open *o;

	pthread_mutex_lock(&t->mu);
	o = kept_first(d);
	if (o)
		kept_take_locked(t, d, o);
	pthread_mutex_unlock(&t->mu);
	if (o)
		*cred = o->cred;
	return o;
}
