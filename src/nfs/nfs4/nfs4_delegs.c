/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The delegations that are kept: see nfs4_delegs.h. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "nfs/nfs4/nfs4_impl.h"

#define NS_PER_S 1000000000ull
/* The longest pause is this, or a lease period. */
#define PAUSE_SHIFT_MAX 10u

/* ---- with t->mu ---- */

static uint32_t delegs_hash(const struct nfs_fh *fh)
{
	return (uint32_t)hash_bytes(fh->data, fh->len, 0);
}

struct nfs4_delegs_place *nfs4_delegs_place(struct nfs4_delegs *t, const struct nfs_fh *fh)
{
	return hash_chain(t->place, delegs_hash(fh));
}

static uint32_t delegs_stateid_hash(const stateid4 *stateid)
{
	return (uint32_t)hash_bytes(stateid->other, sizeof(stateid->other), 0);
}

static bool delegs_same(const stateid4 *a, const stateid4 *b)
{
	return !memcmp(a->other, b->other, NFS4_OTHER_SIZE);
}

static bool delegs_is_of(const struct nfs4_delegation *d, const struct nfs_fh *fh)
{
	return nfs_fh_same(&d->d.file->fh, fh);
}

/* Of several of one file one may be held, or have locks that go to the server. The others are of no use. */
static unsigned delegs_rank(const struct nfs4_delegation *d)
{
	return d->state == NFS4_HELD ? 2 : !list_empty(&d->granted);
}

struct nfs4_delegation *nfs4_delegs_find_locked(struct nfs4_delegs *t, const struct nfs_fh *fh)
{
	struct nfs4_delegation *best = NULL;
	uint32_t hash = delegs_hash(fh);

	hash_for_each(n, hash_chain(t->by_fh, hash), hash) {
		struct nfs4_delegation *d = container_of(n, struct nfs4_delegation, by_fh);

		if (d->state != NFS4_LOST && delegs_is_of(d, fh) && (!best || delegs_rank(d) > delegs_rank(best)))
			best = d;
	}
	return best;
}

struct nfs4_delegation *nfs4_delegs_find_lost_locked(struct nfs4_delegs *t, const struct nfs_fh *fh)
{
	uint32_t hash = delegs_hash(fh);

	hash_for_each(n, hash_chain(t->by_fh, hash), hash) {
		struct nfs4_delegation *d = container_of(n, struct nfs4_delegation, by_fh);

		if (d->state == NFS4_LOST && delegs_is_of(d, fh))
			return d;
	}
	return NULL;
}

/* That file's; or else another file's, whose stateid it should not be. If one is HELD it is the only one. */
static struct nfs4_delegation *delegs_find_stateid_locked(struct nfs4_delegs *t, const struct nfs_fh *fh,
							  const stateid4 *stateid)
{
	uint32_t hash = delegs_stateid_hash(stateid);
	struct nfs4_delegation *other = NULL;

	hash_for_each(n, hash_chain(t->by_stateid, hash), hash) {
		struct nfs4_delegation *d = container_of(n, struct nfs4_delegation, by_stateid);

		if (d->state == NFS4_LOST || !delegs_same(&d->stateid, stateid))
			continue;
		if (delegs_is_of(d, fh))
			return d;
		other = d;
	}
	return other;
}

static void delegs_list_locked(struct nfs4_delegs *t, struct nfs4_delegation *d,
			       enum nfs4_delegation_state state, bool first)
{
	struct nfs4_delegs_list *l = &t->in[state];

	d->state = state;
	atomic_fetch_add(&l->n, 1);
	if (first)
		list_add_head(&l->list, &d->node);
	else
		list_add_tail(&l->list, &d->node);
}

static void delegs_unlist_locked(struct nfs4_delegs *t, struct nfs4_delegation *d)
{
	list_del(&d->node);
	atomic_fetch_sub(&t->in[d->state].n, 1);
	if (d->state == NFS4_HELD)
		atomic_store(&d->d.file->delegation, 0);
}

static void delegs_move_locked(struct nfs4_delegs *t, struct nfs4_delegation *d,
			       enum nfs4_delegation_state state, bool first)
{
	delegs_unlist_locked(t, d);
	delegs_list_locked(t, d, state, first);
}

void nfs4_delegs_drop_locked(struct nfs4_delegs *t, struct nfs4_delegation *d, bool first)
{
	if (d->state != NFS4_RETURNING)
		delegs_move_locked(t, d, NFS4_DUE, first);
}

/* Nobody finds it any more. */
static void delegs_unhash_locked(struct nfs4_delegation *d)
{
	if (d->by_fh.at) {
		hash_del(&d->by_fh);
		hash_del(&d->by_stateid);
	}
}

static void delegs_free_locked(struct nfs4_delegs *t, struct nfs4_delegation *d)
{
	nfs4_kept_drop_locked(t, d);
	nfs4_granted_drop_locked(d);
	delegs_unhash_locked(d);
	delegs_unlist_locked(t, d);
	atomic_fetch_sub(&t->count, 1);
	nfs_file_put(d->d.file);
	free(d);
}

/* The server does not have it any more, nor what stays with it. */
void nfs4_delegs_forget_locked(struct nfs4_delegs *t, struct nfs4_delegation *d)
{
	nfs4_kept_drop_locked(t, d);
	nfs4_granted_drop_locked(d);
	if (d->state == NFS4_RETURNING)
		delegs_unhash_locked(d);
	else
		delegs_free_locked(t, d);
}

/* The server has restarted, and may give it again. */
void nfs4_delegs_lose_locked(struct nfs4_delegs *t, struct nfs4_delegation *d)
{
	nfs4_kept_drop_locked(t, d);
	nfs4_granted_drop_locked(d);
	delegs_move_locked(t, d, NFS4_LOST, false);
}

/* Takes a reference to the file. NULL: no memory. */
static struct nfs4_delegation *delegs_add_locked(struct nfs4_delegs *t, struct nfs_file *f,
						 const struct rpc_cred *cred, const stateid4 *stateid,
						 uint64_t kind, enum nfs4_delegation_state state)
{
	struct nfs4_delegation *d = calloc(1, sizeof(*d));
	uint32_t hash = delegs_hash(&f->fh), stateid_hash = delegs_stateid_hash(stateid);

	if (!d)
		return NULL;
	d->d.file = nfs_file_ref(f);
	d->d.cred = *cred;
	d->stateid = *stateid;
	d->stateid.seqid = 0;
	d->d.number = ++t->numbers | kind;
	list_init(&d->kept);
	list_init(&d->granted);
	list_init(&d->claimed);
	hash_add(hash_chain(t->by_fh, hash), &d->by_fh, hash);
	hash_add(hash_chain(t->by_stateid, stateid_hash), &d->by_stateid, stateid_hash);
	delegs_list_locked(t, d, state, state == NFS4_DUE);
	atomic_fetch_add(&t->count, 1);
	return d;
}

/* ---- life ---- */

void nfs4_delegs_init(struct nfs4_delegs *t)
{
	pthread_mutex_init(&t->mu, NULL);
	for (unsigned i = 0; i < NFS4_DELEGATION_STATES; i++)
		list_init(&t->in[i].list);
}

void nfs4_delegs_fini(struct nfs4_delegs *t)
{
	for (unsigned i = 0; i < NFS4_DELEGATION_STATES; i++)
		list_for_each_entry_safe(struct nfs4_delegation, d, tmp, &t->in[i].list, node)
			delegs_free_locked(t, d);
	pthread_mutex_destroy(&t->mu);
}

/* ---- OPEN ---- */

/* Nobody could be told that it is wanted back, or nothing would be believed. */
static bool delegs_are_useless(const struct nfs4_client *n)
{
	return !atomic_load(&n->back.has) || atomic_load(&n->said);
}

static bool delegs_may_ask(struct nfs_call *c, const struct nfs4_delegs *t)
{
	return c->lane->client->cfg.delegations && !delegs_are_useless(nfs4_of(c)) &&
	       atomic_load(&t->count) < NFS4_DELEGS_MAX;
}

/* The kind of delegation that c asks for, if it asks. */
static bool delegs_asks_to_write(const struct nfs_call *c)
{
	return c->op != NFS_OP_GET_DIR_DELEGATION && (c->args.file.flags & O_ACCMODE) != O_RDONLY;
}

/* Changes when one of that file begins to go back, or all do. */
static uint32_t delegs_returns_locked(struct nfs4_delegs *t, const struct nfs_fh *fh)
{
	return nfs4_delegs_place(t, fh)->returns + t->returns;
}

bool nfs4_delegs_ask(struct nfs_call *c)
{
	struct nfs4_delegs *t = &nfs4_of(c)->delegs;
	struct nfs4_call *v = nfs4_call(c);
	struct nfs4_delegation *d;

	v->under = 0;
	if (v->asks || !delegs_may_ask(c, t))
		return v->asks;
	pthread_mutex_lock(&t->mu);
	d = nfs4_delegs_find_locked(t, c->args.fh);
	v->asks = !d;
	v->under = d && d->state == NFS4_HELD ? d->d.number : 0;
	if (v->asks) {
		nfs4_delegs_place(t, c->args.fh)->asking++;
		v->returns = delegs_returns_locked(t, c->args.fh);
	}
	pthread_mutex_unlock(&t->mu);
	return v->asks;
}

void nfs4_delegs_ask_ends(struct nfs_call *c)
{
	struct nfs4_delegs *t = &nfs4_of(c)->delegs;

	pthread_mutex_lock(&t->mu);
	nfs4_delegs_place(t, c->args.fh)->asking--;
	pthread_mutex_unlock(&t->mu);
	nfs4_call(c)->asks = false;
}

uint32_t nfs4_delegs_want(uint64_t kind)
{
	return nfs_delegation_writes(kind) ? OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG :
	       OPEN4_SHARE_ACCESS_WANT_READ_DELEG |
	       (kind & NFS_DELEGATION_TIMES ? OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS : 0);
}

uint32_t nfs4_delegs_wanted(const struct nfs_call *c)
{
	bool times = atomic_load(&c->lane->client->has) & NFS_HAS_DELEGATED_TIMES;

	return nfs4_delegs_want(delegs_asks_to_write(c) ? NFS_DELEGATION_WRITES : times ? NFS_DELEGATION_TIMES : 0);
}

/* What the delegation is of, and whose it is: OPEN's, or GET_DIR_DELEGATION's. NULL: nobody knows yet. */
static struct nfs_file *delegs_file_of(const struct nfs_call *c)
{
	return c->open ? c->open->file : container_of((struct nfs_fh *)(uintptr_t)c->args.fh, struct nfs_file, fh);
}

static const struct rpc_cred *delegs_cred_of(const struct nfs_call *c)
{
	return c->open ? &c->open->cred : c->cred;
}

/* It is what c has asked for, and nothing has gone back since. */
static bool delegs_fits_locked(struct nfs_call *c, struct nfs4_delegs *t, const struct nfs_file *f, uint64_t kind)
{
	const struct nfs4_call *v = nfs4_call(c);

	return v->asks && nfs_delegation_writes(kind) == delegs_asks_to_write(c) &&
	       v->returns == delegs_returns_locked(t, &f->fh);
}

static bool delegs_keeps_locked(struct nfs_call *c, struct nfs4_delegs *t, const stateid4 *stateid, uint64_t kind)
{
	bool regains = nfs4_regain_fits_locked(t, c, kind);
	struct nfs_file *f = delegs_file_of(c);
	struct nfs4_delegation *d;

	if ((!regains && !delegs_fits_locked(c, t, f, kind)) || nfs4_delegs_find_locked(t, &f->fh) || !nfs4_is_current(c))
		return false;
	d = delegs_add_locked(t, f, delegs_cred_of(c), stateid, kind, NFS4_HELD);
	if (!d)
		return false;
	atomic_store(&f->used, true);
	if (!regains)
		atomic_store(&f->accessed_ns, 0);
	atomic_store(&f->delegation, d->d.number);
	if (c->open && !regains)
		c->open->under = c->res.open.delegation = d->d.number;
	stat_add(&c->lane->stats, nfs_delegation_writes(kind) ? STAT_DELEGS_WRITE : STAT_DELEGS_READ, 1);
	return true;
}

/* It is not kept. Nobody asks for another one until it has gone back, so it is in the table. */
static bool delegs_goes_back_locked(struct nfs_call *c, struct nfs4_delegs *t, const stateid4 *stateid, uint64_t kind)
{
	return c->lane->client->cfg.delegations &&
	       delegs_add_locked(t, delegs_file_of(c), delegs_cred_of(c), stateid, kind, NFS4_DUE);
}

bool nfs4_delegs_got(struct nfs_call *c, const stateid4 *stateid, uint64_t kind, bool useful)
{
	struct nfs4_delegs *t = &nfs4_of(c)->delegs;
	struct nfs_file *f = delegs_file_of(c);
	bool has = true, of_another;
	struct nfs4_delegation *d;

	if (!f)
		return false;
	pthread_mutex_lock(&t->mu);
	d = delegs_find_stateid_locked(t, &f->fh, stateid);
	of_another = d && !delegs_is_of(d, &f->fh);
	if (d && (of_another || !useful || (kind ^ d->d.number) & NFS_DELEGATION_WRITES))
		nfs4_delegs_drop_locked(t, d, true);
	if (!d || of_another)
		has = (useful && !of_another && delegs_keeps_locked(c, t, stateid, kind)) ||
		      delegs_goes_back_locked(c, t, stateid, kind);
	pthread_mutex_unlock(&t->mu);
	nfs4_belief_renewed(c);
	return has;
}

/* ---- wanted back, or dropped ---- */

/* false: too many, or no memory. */
static bool delegs_add_unknown_locked(struct nfs_server *s, struct nfs4_delegs *t,
				      const stateid4 *stateid, const struct nfs_fh *fh)
{
	struct nfs_file *f;
	bool added;

	if (!s->client->cfg.delegations || atomic_load(&t->count) >= NFS4_DELEGS_MAX)
		return false;
	f = calloc(1, sizeof(*f));
	if (!f)
		return false;
	f->fh = *fh;
	atomic_init(&f->refs, 1);
	added = delegs_add_locked(t, f, &s->client->own, stateid, 0, NFS4_DUE);
	nfs_file_put(f);
	return added;
}

nfsstat4 nfs4_delegs_recall(struct nfs_server *s, const stateid4 *stateid, const struct nfs_fh *fh)
{
	struct nfs4_delegs *t = &((struct nfs4_client *)s->vdata)->delegs;
	nfsstat4 status = NFS4_OK;
	struct nfs4_delegation *d;

	pthread_mutex_lock(&t->mu);
	d = delegs_find_stateid_locked(t, fh, stateid);
	if (d)
		nfs4_delegs_drop_locked(t, d, true);
	if (!(d && delegs_is_of(d, fh)) && nfs4_delegs_place(t, fh)->asking)
		status = NFS4ERR_DELAY;
	else if (!d && !delegs_add_unknown_locked(s, t, stateid, fh))
		status = NFS4ERR_BAD_STATEID;
	pthread_mutex_unlock(&t->mu);
	return status;
}

void nfs4_delegs_drop(struct nfs_server *s, const struct nfs_file *f)
{
	struct nfs4_delegs *t = &((struct nfs4_client *)s->vdata)->delegs;
	struct nfs4_delegation *d;

	pthread_mutex_lock(&t->mu);
	d = nfs4_delegs_find_locked(t, &f->fh);
	if (d && d->state == NFS4_HELD)
		nfs4_delegs_drop_locked(t, d, true);
	pthread_mutex_unlock(&t->mu);
}

static void delegs_drop_list_locked(struct nfs4_delegs *t, enum nfs4_delegation_state state)
{
	list_for_each_entry_safe(struct nfs4_delegation, d, tmp, &t->in[state].list, node)
		nfs4_delegs_drop_locked(t, d, false);
}

void nfs4_delegs_drop_all(struct nfs_server *s)
{
	struct nfs4_delegs *t = &((struct nfs4_client *)s->vdata)->delegs;

	pthread_mutex_lock(&t->mu);
	t->returns++;
	delegs_drop_list_locked(t, NFS4_HELD);
	delegs_drop_list_locked(t, NFS4_PAUSES);
	pthread_mutex_unlock(&t->mu);
}

/* ---- DELEGRETURN ---- */

bool nfs4_delegs_any_due(const struct nfs_server *s)
{
	const struct nfs4_client *n = s->vdata;

	return atomic_load(&n->delegs.in[NFS4_DUE].n);
}

struct nfs_delegation *nfs4_delegs_take(struct nfs_server *s)
{
	struct nfs4_delegs *t = &((struct nfs4_client *)s->vdata)->delegs;
	struct nfs4_delegation *d = NULL;

	pthread_mutex_lock(&t->mu);
	if (!list_empty(&t->in[NFS4_DUE].list)) {
		d = container_of(t->in[NFS4_DUE].list.next, struct nfs4_delegation, node);
		delegs_move_locked(t, d, NFS4_RETURNING, false);
		nfs4_delegs_place(t, &d->d.file->fh)->returns++;
	}
	pthread_mutex_unlock(&t->mu);
	return d ? &d->d : NULL;
}

/* If only its lane has lost its connection, another one sends it. */
static void delegs_send_again_locked(struct nfs4_delegs *t, struct nfs4_delegation *d, int status,
				     uint32_t lease_s)
{
	uint64_t s = 1u << (d->tries < PAUSE_SHIFT_MAX ? d->tries : PAUSE_SHIFT_MAX);

	if (status == -ENOTCONN) {
		delegs_move_locked(t, d, NFS4_DUE, false);
		return;
	}
	d->tries++;
	d->again_ns = mono_ns() + (s < lease_s ? s : lease_s) * NS_PER_S;
	delegs_move_locked(t, d, NFS4_PAUSES, false);
}

/* A control call without an answer is sent once more, or never: it keeps the delegation. */
void nfs4_delegs_return_ends(struct nfs_call *c)
{
	struct nfs4_delegation *d = container_of(c->args.delegation, struct nfs4_delegation, d);
	struct nfs4_client *n = nfs4_of(c);
	struct nfs4_delegs *t = &n->delegs;
	nfsstat4 refused = d->refused;
	unsigned lost = 0;

	pthread_mutex_lock(&t->mu);
	if (refused)
		lost = nfs4_granted_lose_locked(d);
	if (d->answered || !d->by_fh.at)
		delegs_free_locked(t, d);
	else if (!(c->flags & NFS_CALL_CONTROL))
		delegs_send_again_locked(t, d, c->res.status, atomic_load(&n->lease_s));
	pthread_mutex_unlock(&t->mu);
	nfs4_locks_say_lost(c->target->server->name, lost, refused);
}
