/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is held on the server by NLM, by the answers that have come, what is leaving, and what becomes of
 * both on a new connection: see nlm.h. Belongs to nlm's thread, which makes no other call meanwhile: so
 * nothing is unlocked here and asked for there at the same time.
 */
#include <errno.h>
#include <stdlib.h>
#include "base/loop.h"
#include "nfs/nfs3/nlm.h"
#include "nfs/nfs3/nfs3_impl.h"

/* A server's grace period is mostly not shorter: after so long without an answer it may be over, and
 * other clients may have had what is locked here. */
#define HELD_SURE_NS 30000000000ull
/* Of the end of the mount: a call's limit, and all calls'. */
#define END_CALL_MS  2000u
#define END_NS       4000000000ull

/* ---- owners ---- */

static struct nlm_owner *held_find(const struct nlm *n, uint64_t number)
{
	hash_for_each(e, hash_chain(n->owners, (uint32_t)number), (uint32_t)number) {
		struct nlm_owner *o = container_of(e, struct nlm_owner, node);

		if (o->who.number == number)
			return o;
	}
	return NULL;
}

static struct nlm_owner *held_make(struct nlm *n, const struct nlm_who *w)
{
	struct nlm_owner *o = held_find(n, w->number);

	if (o)
		return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->who = *w;
	o->epoch = n->epoch;
	hash_add(hash_chain(n->owners, (uint32_t)w->number), &o->node, (uint32_t)w->number);
	n->nowners++;
	return o;
}

static void held_free(struct nlm *n, struct nlm_owner *o)
{
	hash_del(&o->node);
	n->nowners--;
	nfs_ranges_free(&o->held);
	nfs_ranges_free(&o->leaving);
	free(o);
}

/* It is of no use any more if it has nothing. */
static void held_put(struct nlm *n, struct nlm_owner *o)
{
	if (!o->held.n && !o->leaving.n)
		held_free(n, o);
}

/* ---- what changes ---- */

int nlm_held_add(struct nlm *n, const struct nlm_who *w, struct nfs_range r, struct nfs_lock_results *res)
{
	struct nlm_owner *o = held_make(n, w);

	res->held = true;
	if (!o)
		return -ENOMEM;
	o->who.cred = w->cred;
	res->had = nfs_ranges_any(&o->held, r.start, r.last);
	return nfs_ranges_set(&o->leaving, r.start, r.last, NFS_RANGE_NONE) &&
	       nfs_ranges_set(&o->held, r.start, r.last, r.write ? NFS_RANGE_WRITE : NFS_RANGE_READ) ?
	       0 : -ENOMEM;
}

/* Whatever has no memory here, the end of the mount unlocks it. */
static void held_no_memory(const struct nlm *n)
{
	log_err("out of memory: a lock on %s may stay until the mount ends", n->server->name);
}

void nlm_held_leave(struct nlm *n, const struct nlm_who *w, struct nfs_range r)
{
	struct nlm_owner *o = held_make(n, w);

	n->pending = true;
	if (!o || !nfs_ranges_set(&o->leaving, r.start, r.last, NFS_RANGE_READ) ||
	    !nfs_ranges_set(&o->held, r.start, r.last, NFS_RANGE_NONE))
		held_no_memory(n);
}

void nlm_held_doubt(struct nlm *n, const struct nlm_who *w, struct nfs_range r)
{
	struct nlm_owner *o = held_make(n, w);
	bool ok = o && nfs_ranges_set(&o->leaving, r.start, r.last, NFS_RANGE_READ);

	n->pending = true;
	for (unsigned i = 0; ok && i < o->held.n; i++)
		ok = nfs_ranges_set(&o->leaving, o->held.r[i].start, o->held.r[i].last, NFS_RANGE_NONE);
	if (!ok)
		held_no_memory(n);
	if (o)
		held_put(n, o);
}

bool nlm_held_any(const struct nlm *n, uint64_t number)
{
	const struct nlm_owner *o = held_find(n, number);

	return o && o->held.n;
}

/* ---- what is in the way ---- */

/* The first of its locks that is in r's way. */
static bool held_conflicts(const struct nlm_owner *o, struct nfs_range r, struct nfs_lock_results *res)
{
	struct nfs_range h;
	uint64_t from = r.start;

	while (nfs_ranges_next(&o->held, from, &h) && h.start <= r.last) {
		if (h.write || r.write) {
			*res = (struct nfs_lock_results){
				.write = h.write, .offset = h.start,
				.length = nfs_range_length(h.start, h.last), .holder = o->who.number,
			};
			return true;
		}
		if (h.last == UINT64_MAX)
			break;
		from = h.last + 1;
	}
	return false;
}

bool nlm_held_test(const struct nlm *n, const struct nlm_who *w, struct nfs_range r,
		   struct nfs_lock_results *res)
{
	for (unsigned i = 0; i < NLM_OWNERS; i++)
		for (const struct hash_node *e = n->owners[i]; e; e = e->next) {
			const struct nlm_owner *o = container_of((uintptr_t)e, struct nlm_owner, node);

			if (o->who.number != w->number && nfs_fh_same(&o->who.fh, &w->fh) &&
			    held_conflicts(o, r, res))
				return true;
		}
	return false;
}

/* ---- unlock ---- */

static bool held_is_unlocked(int stat)
{
	/* A file that is gone has no locks. */
	return stat == NLM4_GRANTED || stat == NLM4_STALE_FH;
}

static int held_unlock(struct nlm *n, struct nlm_owner *o, struct errbuf *why)
{
	struct nfs_range r;

	while (nfs_ranges_next(&o->leaving, 0, &r)) {
		int stat = nlm_wire_unlock(n, &o->who, r.start, r.last, why);

		o->slow = stat == -ETIMEDOUT;
		if (!held_is_unlocked(stat))
			return stat;
		if (!nfs_ranges_set(&o->leaving, r.start, r.last, NFS_RANGE_NONE))
			break;          /* no memory: it is unlocked again some time */
	}
	return NLM4_GRANTED;
}

int nlm_held_unlock(struct nlm *n, uint64_t number, struct errbuf *why)
{
	struct nlm_owner *o = held_find(n, number);
	int stat = o ? held_unlock(n, o, why) : NLM4_GRANTED;

	if (o)
		held_put(n, o);
	return stat;
}

/* ---- once more ---- */

/* The status is "grace" if the server says so to both kinds, as it does when its grace period ends just
 * then. */
static int held_again(struct nlm *n, struct nlm_owner *o, struct nfs_range r, struct errbuf *why)
{
	int stat = nlm_wire_lock(n, &o->who, r, n->reclaims, why);

	if (stat == NLM4_DENIED_GRACE_PERIOD) {
		n->reclaims = !n->reclaims;
		stat = nlm_wire_lock(n, &o->who, r, n->reclaims, why);
	}
	o->slow = stat == -ETIMEDOUT;
	return stat;
}

static void held_log_lost(const struct nlm *n)
{
	log_err("a lock of an open file on %s was lost, because another client has it: its program goes on "
		"without it", n->server->name);
}

static void held_log_refused(const struct nlm *n, struct nlm_owner *o, int stat, const struct errbuf *why)
{
	if (!o->refused && stat < 0)
		log_warn("a lock of an open file on %s is not given back (%s); still trying", n->server->name,
			 why->text);
	else if (!o->refused)
		log_warn("a lock of an open file on %s is not given back (NLM status %d); still trying",
			 n->server->name, stat);
	o->refused = true;
}

/* An owner's locks; what is lost is held no longer. 0; or a status or -errno: of the one that is still to
 * be asked for. */
static int held_reclaim(struct nlm *n, struct nlm_owner *o, struct errbuf *why)
{
	struct nfs_range r;
	uint64_t from = 0;

	while (nfs_ranges_next(&o->held, from, &r)) {
		int stat = held_again(n, o, r, why);

		if (stat == NLM4_DENIED) {
			held_log_lost(n);
			nfs_ranges_set(&o->held, r.start, r.last, NFS_RANGE_NONE);
		} else if (stat != NLM4_GRANTED) {
			held_log_refused(n, o, stat, why);
			return stat;
		}
		if (r.last == UINT64_MAX)
			break;
		from = r.last + 1;
	}
	o->epoch = n->epoch;
	o->refused = false;
	return 0;
}

void nlm_held_outdated(struct nlm *n)
{
	n->epoch++;
	n->reclaims = true;
	n->pending = n->nowners;
}

/* -errno: the connection is lost. o may be freed. */
static int held_settle(struct nlm *n, struct nlm_owner *o, unsigned *reclaimed, struct errbuf *why)
{
	bool again = o->epoch != n->epoch;
	int rc = again ? held_reclaim(n, o, why) : 0;

	*reclaimed += again && !rc && o->held.n;
	if (!rc)
		rc = held_unlock(n, o, why);
	n->pending = n->pending || rc;
	held_put(n, o);
	return n->tcp ? 0 : rc;
}

static void held_log_settled(const struct nlm *n, unsigned reclaimed, bool late)
{
	if (reclaimed && n->reclaims)
		log_info("%s has restarted: locks of %u owners were reclaimed", n->server->name, reclaimed);
	else if (reclaimed && late)
		log_warn("%s did not answer for long: if it has restarted meanwhile, other clients may have "
			 "had locks that are held here", n->server->name);
}

int nlm_held_settle(struct nlm *n, bool all, struct errbuf *why)
{
	bool late = nlm_wire_silent_ns(n) > HELD_SURE_NS;
	unsigned reclaimed = 0;
	int rc = 0;

	n->pending = false;
	for (unsigned i = 0; i < NLM_OWNERS && !rc; i++)
		for (struct hash_node *e = n->owners[i], *next; e && !rc; e = next) {
			struct nlm_owner *o = container_of(e, struct nlm_owner, node);

			next = e->next;
			if (o->slow && !all)
				n->pending = true;
			else if (nlm_is_stopping(n))
				rc = err_set(why, -ESHUTDOWN, "the mount ends");
			else
				rc = held_settle(n, o, &reclaimed, why);
		}
	n->pending = n->pending || rc;
	held_log_settled(n, reclaimed, late);
	return rc;
}

/* ---- the end ---- */

/* All of it; the connection may have been broken because it took too long. */
static bool held_end(struct nlm *n, const struct nlm_owner *o, bool *connects)
{
	struct errbuf why;
	int stat = -ENOTCONN;

	if (n->tcp)
		stat = nlm_wire_unlock(n, &o->who, 0, UINT64_MAX, &why);
	if (!n->tcp && *connects) {
		*connects = false;
		if (!nlm_wire_open(n, &why))
			stat = nlm_wire_unlock(n, &o->who, 0, UINT64_MAX, &why);
	}
	return held_is_unlocked(stat);
}

void nlm_held_end(struct nlm *n)
{
	uint64_t end = mono_ns() + END_NS;
	unsigned stay = 0;
	bool connects = true;

	n->limit_ms = END_CALL_MS;
	for (unsigned i = 0; i < NLM_OWNERS; i++)
		while (n->owners[i]) {
			struct nlm_owner *o = container_of(n->owners[i], struct nlm_owner, node);

			if (mono_ns() >= end || !held_end(n, o, &connects))
				stay += o->held.n + o->leaving.n;
			held_free(n, o);
		}
	if (stay)
		log_warn("%u locks may stay on %s, which has not taken them back, until its lock manager is "
			 "restarted (see Locks in the man page)", stay, n->server->name);
}
