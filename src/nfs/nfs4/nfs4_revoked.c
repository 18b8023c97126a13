/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * State that the server has revoked. It says so in SEQUENCE's flags (RFC 8881, section
 * 18.46.3), while client id and session are good:
 *
 *   EXPIRED_ALL, EXPIRED_SOME    our lease had run out
 *   ADMIN_STATE_REVOKED          the administrator wanted a file system free
 *   RECALLABLE_STATE_REVOKED     delegations (nfs4_delegs.h), and layouts, of which we have none
 *   LEASE_MOVED                  state has moved to another server with its files, which
 *                                answer MOVED from now on; the log says so
 *        |  all of them: which opens are meant?
 *   TEST_STATEID of all opens, locks and delegations
 *        |                       recovery: control thread; lanes go on meanwhile
 *        |-- good                nothing
 *        |-- revoked             FREE_STATEID, or else the server keeps it, and sets the
 *        |                       flag, as long as the client id lives; opened again.
 *        |                       (nfs4_recover.c does both, open by open)
 *        +-- not known           opened again
 *   RESTART_RECLAIM_NEEDED       all opens are reclaimed (nfs4_recover.c)
 *
 * Opening again is safe, because an open gives us nothing that another client could have
 * broken meanwhile: it denies nobody anything, its locks are lost then (nfs4_relock.c), and a
 * delegation is tested by itself. CLAIM_FH opens the same file, whatever its name is now, and the
 * server checks the permissions once more. If it refuses, this open is lost: its I/O fails
 * with EIO, and that of no other.
 */
#include <stdlib.h>
#include <string.h>
#include "nfs/nfs4/nfs4_compound.h"

/* ---- TEST_STATEID ---- */

static bool_t encode_test(struct nfs_call *c, XDR *x)
{
	struct nfs4_ctl *k = c->args.version;
	TEST_STATEID4args a = {
		.ts_stateids = { .ts_stateids_len = k->ntest, .ts_stateids_val = k->test },
	};

	return nfs4_begin_seq(c, x, 2, false) && nfs4_put_op(x, OP_TEST_STATEID) &&
	       xdr_TEST_STATEID4args(x, &a);
}

static int take_results(struct nfs_call *c, const TEST_STATEID4res *r)
{
	struct nfs4_ctl *k = c->args.version;
	const TEST_STATEID4resok *ok = &r->TEST_STATEID4res_u.tsr_resok4;

	k->status = r->tsr_status;
	if (r->tsr_status)
		return nfs4_error(c, r->tsr_status);
	if (ok->tsr_status_codes.tsr_status_codes_len != k->ntest)
		return -EBADMSG;
	memcpy(k->found, ok->tsr_status_codes.tsr_status_codes_val, k->ntest * sizeof(k->found[0]));
	return 0;
}

static int decode_test(struct nfs_call *c, XDR *x)
{
	TEST_STATEID4res r;
	int rc = nfs4_check_seq(c, x);

	if (rc)
		return rc;
	memset(&r, 0, sizeof(r));
	if (nfs4_get_op(x, OP_TEST_STATEID) || !xdr_TEST_STATEID4res(x, &r))
		rc = -EBADMSG;
	else
		rc = take_results(c, &r);
	xdr_free((xdrproc_t)xdr_TEST_STATEID4res, (char *)&r);
	return rc;
}

enum { TEST_MAX = V4_PREFIX_XDR + V4_OP_XDR + 4u + NFS4_TEST_MAX * 4u };

const struct nfs_opdef nfs4_op_test_stateid = NFS_OPDEF("TEST_STATEID", encode_test, decode_test,
	.results_max = TEST_MAX, .proc = NFSPROC4_COMPOUND);

/* ---- FREE_STATEID ---- */

bool_t nfs4_put_free(struct nfs_call *c, XDR *x, const stateid4 *stateid)
{
	FREE_STATEID4args a = { .fsa_stateid = *stateid };

	return nfs4_begin_seq(c, x, 2, true) && nfs4_put_op(x, OP_FREE_STATEID) &&
	       xdr_FREE_STATEID4args(x, &a);
}

int nfs4_get_free(struct nfs_call *c, XDR *x, nfsstat4 *status)
{
	FREE_STATEID4res r;
	int rc = nfs4_check_seq(c, x);

	if (rc)
		return rc;
	if (nfs4_get_op(x, OP_FREE_STATEID) || !xdr_FREE_STATEID4res(x, &r))
		return -EBADMSG;
	*status = r.fsr_status;
	return r.fsr_status == NFS4ERR_DELAY ? NFS_LATER : 0;
}

static bool_t encode_free(struct nfs_call *c, XDR *x)
{
	const struct nfs4_ctl *k = c->args.version;

	return nfs4_put_free(c, x, &k->test[0]);
}

static int decode_free(struct nfs_call *c, XDR *x)
{
	struct nfs4_ctl *k = c->args.version;
	nfsstat4 status;
	int rc = nfs4_get_free(c, x, &status);

	if (rc != NFS_LATER)
		return rc;
	k->status = NFS4ERR_DELAY;
	return -EBUSY;
}

const struct nfs_opdef nfs4_op_free_stateid = NFS_OPDEF("FREE_STATEID", encode_free, decode_free,
	.results_max = V4_PREFIX_XDR + V4_OP_XDR, .proc = NFSPROC4_COMPOUND);

/* ---- the opens ---- */

int nfs4_free_stateid(struct nfs_server *s, const stateid4 *stateid)
{
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	int rc;

	if (!k)
		return -ENOMEM;
	k->test[0] = *stateid;
	rc = nfs4_run(s, k, NFS4_OP_FREE_STATEID, 0, &k);
	if (k && nfs4_is_later(k->status))
		rc = NFS_LATER;
	free(k);
	return rc;
}

/* Settles one tested open: it is good, or must be opened again. */
static void nfs4_revoked_settle(struct nfs_open *o, nfsstat4 found, unsigned *gone)
{
	if (nfs4_is_revoked(found))
		atomic_store(&o->to_free, true);
	else if (found != NFS4ERR_BAD_STATEID && found != NFS4ERR_STALE_STATEID)
		return;         /* good, or only its seqid is older than the server's */
	*gone += !atomic_exchange(&o->reopen, true);
}

/* The opens of one TEST_STATEID, with a reference to each. */
struct batch {
	struct nfs_open *open[NFS4_TEST_MAX];
	unsigned n;
};

static int test_batch(struct nfs_server *s, const struct batch *b, unsigned *gone)
{
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	int rc;

	if (!k)
		return -ENOMEM;
	k->ntest = b->n;
	for (unsigned i = 0; i < b->n; i++)
		k->test[i] = b->open[i]->stateid;
	rc = nfs4_run(s, k, NFS4_OP_TEST_STATEID, 0, &k);
	for (unsigned i = 0; i < b->n && !rc; i++)
		nfs4_revoked_settle(b->open[i], k->found[i], gone);
	free(k);
	return rc;
}

static void put_batch(struct nfs_server *s, struct batch *b)
{
	while (b->n)
		nfs4_open_put(b->open[--b->n]);
}

static int test_all(struct nfs_server *s, unsigned *gone)
{
	struct batch b = { .n = 0 };
	struct nfs_open *o = NULL;
	int rc = 0;

	while (!rc && (o = nfs4_next_open(s->vdata, o))) {
		if (!nfs4_is_ours(o) || !o->access)
			continue;
		nfs4_open_get(o);
		b.open[b.n++] = o;
		if (b.n == NFS4_TEST_MAX) {
			rc = test_batch(s, &b, gone);
			put_batch(s, &b);
		}
	}
	if (o)
		nfs4_open_put(o);
	if (!rc && b.n)
		rc = test_batch(s, &b, gone);
	put_batch(s, &b);
	return rc;
}

static void say_gone(struct nfs_server *s, unsigned gone)
{
	struct nfs4_client *n = s->vdata;
	uint32_t said = atomic_load(&n->said);

	if (gone && !s->client->control->quiet)
		log_warn("%s no longer knows %u open files%s: opening them again",
			 s->name, gone, said & SEQ4_STATUS_ADMIN_STATE_REVOKED ?
			 ", its administrator has revoked them" : "");
	if (!(said & SEQ4_STATUS_LEASE_MOVED) || n->moved)
		return;
	n->moved = true;
	log_warn("%s says that a file system has moved to another server; this client does not follow "
		 "it: its files fail with EREMOTE; mount it from there", s->name);
}

/* A server that cannot test stateids tells by its answers to I/O, one by one, and recalls delegations. */
int nfs4_test_ends(struct nfs4_client *n, int rc)
{
	if (rc != -EAGAIN && rc != -ESHUTDOWN && rc != -ENOMEM && rc != NFS_LATER)
		return 0;
	atomic_store(&n->need_test, true);
	return rc;
}

int nfs4_test_opens(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	unsigned gone = 0;
	int rc;

	atomic_store(&n->need_test, false);
	rc = test_all(s, &gone);
	n->tested_ns = mono_ns();
	say_gone(s, gone);
	return nfs4_test_ends(n, rc);
}

/* ---- the delegations ---- */

/* One that was held when the table was looked at. */
struct revoked_deleg {
	uint64_t number;
	stateid4 stateid;
};

/* All of them: an array, which the caller frees. NULL: no memory, or there are none (*n). */
static struct revoked_deleg *revoked_list_delegs(struct nfs4_delegs *t, unsigned *n)
{
	struct revoked_deleg *held;

	pthread_mutex_lock(&t->mu);
	*n = atomic_load(&t->in[NFS4_HELD].n);
	held = *n ? calloc(*n, sizeof(*held)) : NULL;
	if (held) {
		unsigned i = 0;

		list_for_each_entry(struct nfs4_delegation, d, &t->in[NFS4_HELD].list, node)
			held[i++] = (struct revoked_deleg){ d->d.number, d->stateid };
	}
	pthread_mutex_unlock(&t->mu);
	return held;
}

/* One that is revoked is returned as any other: the server says then whether it keeps the stateid until
 * that is freed. What was locked under it may be somebody else's. */
void nfs4_revoked_deleg(struct nfs_server *s, uint64_t number, nfsstat4 found)
{
	struct nfs4_delegs *t = &((struct nfs4_client *)s->vdata)->delegs;
	unsigned lost = 0;

	if (!nfs4_is_unknown(found) || found == NFS4ERR_OLD_STATEID)
		return;
	pthread_mutex_lock(&t->mu);
	list_for_each_entry(struct nfs4_delegation, d, &t->in[NFS4_HELD].list, node) {
		if (d->d.number != number)
			continue;
		lost = nfs4_granted_lose_locked(d);
		if (nfs4_is_revoked(found) || d->nkept)
			nfs4_delegs_drop_locked(t, d, false);
		else
			nfs4_delegs_forget_locked(t, d);
		break;
	}
	pthread_mutex_unlock(&t->mu);
	nfs4_locks_say_lost(s->name, lost, found);
}

static int test_held(struct nfs_server *s, const struct revoked_deleg *held, unsigned count)
{
	struct nfs4_ctl *k = nfs4_ctl_new(s);
	int rc;

	if (!k)
		return -ENOMEM;
	k->ntest = count;
	for (unsigned i = 0; i < count; i++)
		k->test[i] = held[i].stateid;
	rc = nfs4_run(s, k, NFS4_OP_TEST_STATEID, 0, &k);
	for (unsigned i = 0; i < count && !rc; i++)
		nfs4_revoked_deleg(s, held[i].number, k->found[i]);
	free(k);
	return rc;
}

int nfs4_test_delegs(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	unsigned count;
	struct revoked_deleg *held = revoked_list_delegs(&n->delegs, &count);
	int rc = count && !held ? -ENOMEM : 0;

	for (unsigned i = 0; i < count && !rc; i += NFS4_TEST_MAX)
		rc = test_held(s, held + i, count - i < NFS4_TEST_MAX ? count - i : NFS4_TEST_MAX);
	free(held);
	return nfs4_test_ends(n, rc);
}
