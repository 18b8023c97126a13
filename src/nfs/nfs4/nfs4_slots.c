/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The session's slots, one table for all lanes.
 *
 *   free --acquire--> in use --reply--> SEQUENCE was OK:     seqid + 1, free
 *                       ^               SEQUENCE says DELAY: +
 *                       +---- the same message, later -------+
 *                                       SEQUENCE failed:     the same seqid, free
 *                                       no usable reply:     retired
 *
 * A slot and its sequence id belong to one request until it has its answer (RFC 8881,
 * section 2.10.6.2). A server that is still at work on a request whose reply was lost
 * answers its replay with DELAY. Whatever comes next with the same numbers is that request
 * to the server. So after DELAY neither slot nor number goes to another call. If the call
 * is given up instead, the slot is retired.
 *
 * A retired slot is not used again in this session, because nobody knows which sequence id
 * the server expects next. When no slot is left, a new session is made. A lost connection
 * retires nothing: the transport sends the same call again, with the same slot and sequence
 * id, and the server either executes it then or repeats its reply (RFC 8881, section
 * 2.10.6).
 *
 * The table has a lock, which is held only for a look at it. A call takes away a copy of
 * everything that its SEQUENCE says (struct nfs4_place), so nobody looks at the table while
 * encoding or decoding. So a new session replaces the old one in one moment. Calls that
 * were sent in the old one find another epoch when they give their slot back; the slot is
 * gone. The server may still have to repeat a reply to one of them, so the old session is
 * destroyed when the last of them has ended.
 *
 * A lane that finds no slot is noted as waiting. Whoever gives a slot back reserves it for
 * the lane whose turn it is, and wakes that lane. A busy lane, which would take it again at
 * once, does not get it. If the woken lane no longer needs the slot, the next lane gets it.
 *
 * With each reply the server says how many slots it wants us to use, and how many it has
 * (RFC 8881, section 18.46.3). Slots beyond the first number are not taken. When the server
 * drops slots and later has them again, they begin with sequence id 1. A reply is too old
 * to count if its call took its slot before the last change. If the server recalls slots
 * (CB_RECALL_SLOT), it learns by the highest slot of a SEQUENCE that they are not used any
 * more. A mount that has nothing to send sends one for that at its next tick (nfs4_tick()).
 */
#include <stdlib.h>
#include <string.h>
#include "nfs/nfs4/nfs4_impl.h"

#define NONE UINT32_MAX
#define WORD(id) ((id) / 64)
#define BIT(id)  (1ull << ((id) % 64))

/* EXCHANGE_ID ... DESTROY_CLIENTID, and BIND_CONN_TO_SESSION, are sent without SEQUENCE (RFC 8881,
 * section 2.10.2.1). */
static bool takes_slot(const struct nfs_call *c)
{
	return (c->op < NFS4_OP_EXCHANGE_ID || c->op > NFS4_OP_DESTROY_CLIENTID) &&
	       c->op != NFS4_OP_BIND_CONN;
}

/* ---- the table; all with t->mu held ---- */

/* The bits of word w that stand for ids below n. */
static uint64_t nfs4_slots_below(unsigned w, unsigned n)
{
	if (n >= (w + 1) * 64)
		return UINT64_MAX;
	return n <= w * 64 ? 0 : BIT(n) - 1;
}

/* Prefers low slots, so that the server may take the high ones back. */
static uint32_t first_free(const struct nfs4_slots *t)
{
	for (unsigned w = 0; w * 64 < t->limit; w++) {
		uint64_t bits = t->free[w] & nfs4_slots_below(w, t->limit);

		if (bits)
			return w * 64 + (unsigned)__builtin_ctzll(bits);
	}
	return NONE;
}

static unsigned count_free(const struct nfs4_slots *t)
{
	unsigned n = 0;

	for (unsigned w = 0; w * 64 < t->limit; w++)
		n += (unsigned)__builtin_popcountll(t->free[w] & nfs4_slots_below(w, t->limit));
	return n;
}

static unsigned count_busy(const struct nfs4_slots *t)
{
	unsigned n = 0;

	for (unsigned w = 0; w * 64 < t->nslots; w++)
		n += (unsigned)__builtin_popcountll(t->busy[w]);
	return n;
}

/* The highest slot in use, plus 1; 0: no slot is in use. */
static unsigned busy_end(const struct nfs4_slots *t)
{
	for (unsigned w = WORD(t->nslots + 63); w-- > 0; )
		if (t->busy[w])
			return (w + 1) * 64 - (unsigned)__builtin_clzll(t->busy[w]);
	return 0;
}

/* Is any slot free, or will one ever be? */
static bool any_left(const struct nfs4_slots *t)
{
	for (unsigned w = 0; w * 64 < t->limit; w++)
		if ((t->free[w] | t->busy[w]) & nfs4_slots_below(w, t->limit))
			return true;
	return false;
}

static uint32_t nfs4_slots_take(struct nfs4_slots *t, unsigned lane)
{
	uint32_t id = first_free(t), bit = 1u << lane;

	if (t->woken & bit) {           /* a slot is reserved for it */
		t->woken &= ~bit;
		t->promised--;
	} else if (t->promised && count_free(t) <= t->promised) {
		id = NONE;
	}
	if (id == NONE) {
		t->waiting |= bit;
		return NONE;
	}
	t->waiting &= ~bit;
	t->free[WORD(id)] &= ~BIT(id);
	t->busy[WORD(id)] |= BIT(id);
	return id;
}

/* A highest id as a count of ids, at most `max`. */
static unsigned clamp_count(uint32_t highest, unsigned max)
{
	return highest < max ? highest + 1 : max;
}

static void nfs4_slots_obey(struct nfs4_slots *t, const struct nfs4_place *p)
{
	unsigned top = clamp_count(p->said_highest, t->nslots);
	unsigned limit = clamp_count(p->said_target, top);

	if (top < t->top && busy_end(t) <= top) {
		for (unsigned id = top; id < t->top; id++)
			t->seqid[id] = 1;
		t->top = top;
	} else if (top > t->top) {
		t->top = top;
	}
	if (limit != t->limit) {
		t->limit = limit;
		t->changes++;
	}
}

/* false: no slot is left. Either this was the last one, or the server wants fewer used
 * than have been retired below its limit. */
static bool nfs4_slots_give(struct nfs4_slots *t, const struct nfs4_place *p, bool on_wire)
{
	uint32_t id = p->slot;

	t->busy[WORD(id)] &= ~BIT(id);
	if (p->outcome != NFS4_UNKNOWN || !on_wire) {
		t->seqid[id] += p->outcome == NFS4_CONSUMED;
		t->free[WORD(id)] |= BIT(id);
	}
	if (p->said && p->changes == t->changes)
		nfs4_slots_obey(t, p);
	/* Mostly it is this one. */
	return (id < t->limit && (t->free[WORD(id)] & BIT(id))) || any_left(t);
}

/* Reserves one free slot for each waiting lane, as far as they go round. Returns the
 * lanes whose threads must be told. */
static uint32_t wake_some(const struct nfs_server *s, struct nfs4_slots *t)
{
	uint32_t tell = 0;
	unsigned n;

	if (!t->waiting)
		return 0;
	n = count_free(t);
	while (t->waiting && n > t->promised) {
		unsigned lane = t->turn++ % s->client->nlanes;
		struct nfs4_lane *l4 = s->targets[lane]->vdata;
		uint32_t bit = 1u << lane;

		if (!(t->waiting & bit))
			continue;
		t->waiting &= ~bit;
		t->woken |= bit;
		t->promised++;
		if (!l4->posted)
			tell |= bit;
		l4->posted = true;
	}
	return tell;
}

/* This session has no slots left. The thread that would make another session may be
 * waiting for a control call that waits for a slot, so that call must end now. */
static uint32_t wake_all(const struct nfs_server *s, const struct nfs4_slots *t)
{
	uint32_t tell = 0;

	for (unsigned i = 0; i < s->client->nlanes; i++) {
		struct nfs4_lane *l4 = s->targets[i]->vdata;

		if (!(t->waiting >> i & 1) || l4->posted)
			continue;
		l4->posted = true;
		tell |= 1u << i;
	}
	return tell;
}

/* ---- waking; without the lock ---- */

static void nfs4_slots_post(const struct nfs_server *s, uint32_t lanes)
{
	for (unsigned i = 0; lanes >> i; i++) {
		struct nfs4_lane *l4 = s->targets[i]->vdata;

		if (lanes >> i & 1)
			loop_post(l4->target->lane->loop, &l4->wake);
	}
}

static void on_wake(struct loop_msg *m)
{
	struct nfs4_lane *l4 = container_of(m, struct nfs4_lane, wake);
	const struct nfs_server *s = l4->target->server;
	struct nfs_lane *l = l4->target->lane;
	struct nfs4_slots *t = &((struct nfs4_client *)s->vdata)->slots;
	uint32_t bit = 1u << l->index, tell = 0;

	pthread_mutex_lock(&t->mu);
	l4->posted = false;
	pthread_mutex_unlock(&t->mu);
	nfs_lane_pump(l);
	pthread_mutex_lock(&t->mu);
	if (t->woken & bit) {
		t->woken &= ~bit;
		t->promised--;
		tell = wake_some(s, t);
	}
	pthread_mutex_unlock(&t->mu);
	nfs4_slots_post(s, tell);
}

/* ---- calls ---- */

int nfs4_acquire(struct nfs_target *to, struct nfs_call *c)
{
	struct nfs4_slots *t = &nfs4_of(c)->slots;
	struct nfs4_call *v = nfs4_call(c);
	struct nfs4_place *p = &v->place;
	uint32_t id;
	int rc = 1;

	v->has_slot = false;
	if (c->open)
		rc = nfs4_open_ready(c);
	if (rc != 1 || !takes_slot(c))
		return rc;
	pthread_mutex_lock(&t->mu);
	id = nfs4_slots_take(t, to->lane->index);
	if (id != NONE) {
		*p = (struct nfs4_place){
			.epoch = t->epoch, .slot = id, .seqid = t->seqid[id],
			.highest = busy_end(t) - 1, .max_cached = t->max_cached,
			.changes = t->changes, .outcome = NFS4_UNKNOWN,
		};
		memcpy(p->session, t->sessionid, sizeof(p->session));
		t->untold = t->untold && p->highest >= t->limit;
		c->eng.most = t->max_read;
		if (c->op == NFS_OP_WRITE)
			c->eng.most = t->max_write;
		v->has_slot = true;
	} else {
		rc = any_left(t) ? 0 : -EAGAIN;
	}
	pthread_mutex_unlock(&t->mu);
	return rc;
}

void nfs4_release(struct nfs_target *to, struct nfs_call *c)
{
	struct nfs4_call *v = nfs4_call(c);
	struct nfs4_client *n = nfs4_of(c);
	struct nfs4_slots *t = &n->slots;
	bool ok = true;
	uint32_t tell;

	if (v->asks)
		nfs4_delegs_ask_ends(c);
	if (!v->has_slot)
		return;
	v->has_slot = false;
	pthread_mutex_lock(&t->mu);
	if (v->place.epoch == t->epoch)
		ok = nfs4_slots_give(t, &v->place, c->eng.rr.sends || v->place.used);
	else
		t->left--;
	tell = ok ? wake_some(to->server, t) : wake_all(to->server, t);
	pthread_mutex_unlock(&t->mu);
	if (!ok) {
		atomic_store(&n->need_session, true);
		nfs_control_recover(to->server->client);
	}
	nfs4_slots_post(to->server, tell);
}

bool nfs4_is_current(const struct nfs_call *c)
{
	struct nfs4_slots *t = &nfs4_of(c)->slots;
	bool current;

	pthread_mutex_lock(&t->mu);
	current = nfs4_call_const(c)->place.epoch == t->epoch;
	pthread_mutex_unlock(&t->mu);
	return current;
}

/* ---- what the server calls about ---- */

static bool nfs4_slots_are_of(const struct nfs4_slots *t, const char *session)
{
	return t->epoch && !memcmp(t->sessionid, session, NFS4_SESSIONID_SIZE);
}

bool nfs4_slots_in_flight(struct nfs4_slots *t, const char *session, uint32_t slot, uint32_t seqid)
{
	bool is;

	pthread_mutex_lock(&t->mu);
	is = nfs4_slots_are_of(t, session) && slot < t->nslots &&
	     (t->busy[WORD(slot)] & BIT(slot)) && t->seqid[slot] == seqid;
	pthread_mutex_unlock(&t->mu);
	return is;
}

/* As if a reply had said it. Replies to what was sent before say less. */
void nfs4_slots_recall(struct nfs_server *s, const char *session, uint32_t highest)
{
	struct nfs4_client *n = s->vdata;
	struct nfs4_slots *t = &n->slots;
	uint32_t tell = 0;
	bool ok = true;

	pthread_mutex_lock(&t->mu);
	t->untold = t->untold || nfs4_slots_are_of(t, session);
	if (nfs4_slots_are_of(t, session) && clamp_count(highest, t->top) < t->limit) {
		t->limit = clamp_count(highest, t->top);
		t->changes++;
		ok = any_left(t);
		if (!ok)
			tell = wake_all(s, t);
	}
	pthread_mutex_unlock(&t->mu);
	if (!ok) {
		atomic_store(&n->need_session, true);
		nfs_control_recover(s->client);
	}
	nfs4_slots_post(s, tell);
}

unsigned nfs4_slots_now(struct nfs_server *s)
{
	struct nfs4_slots *t = &((struct nfs4_client *)s->vdata)->slots;
	unsigned n;

	pthread_mutex_lock(&t->mu);
	n = t->limit;
	pthread_mutex_unlock(&t->mu);
	return n;
}

bool nfs4_slots_are_untold(struct nfs4_slots *t)
{
	bool are;

	pthread_mutex_lock(&t->mu);
	are = t->untold && busy_end(t) <= t->limit;
	pthread_mutex_unlock(&t->mu);
	return are;
}

/* ---- sessions ---- */

void nfs4_slots_install(struct nfs_server *s)
{
	struct nfs4_client *n = s->vdata;
	struct nfs4_slots *t = &n->slots;
	uint32_t tell;

	pthread_mutex_lock(&t->mu);
	t->left += count_busy(t);
	t->epoch = n->epoch;
	memcpy(t->sessionid, n->sessionid, sizeof(t->sessionid));
	t->max_cached = n->max_cached;
	t->max_read = n->max_read;
	t->max_write = n->max_write;
	t->nslots = n->nslots < NFS4_SLOTS_MAX ? n->nslots : NFS4_SLOTS_MAX;
	t->limit = t->top = t->nslots;
	t->changes = 0;
	t->untold = false;
	t->woken = 0;
	t->promised = 0;
	memset(t->busy, 0, sizeof(t->busy));
	for (unsigned w = 0; w < NFS4_SLOTS_MAX / 64; w++)
		t->free[w] = nfs4_slots_below(w, t->nslots);
	for (unsigned id = 0; id < t->nslots; id++)
		t->seqid[id] = 1;
	tell = wake_some(s, t);
	pthread_mutex_unlock(&t->mu);
	nfs4_slots_post(s, tell);
}

bool nfs4_slots_session(struct nfs4_slots *t, char id[NFS4_SESSIONID_SIZE])
{
	bool there;

	pthread_mutex_lock(&t->mu);
	there = t->epoch != 0;
	memcpy(id, t->sessionid, NFS4_SESSIONID_SIZE);
	pthread_mutex_unlock(&t->mu);
	return there;
}

unsigned nfs4_slots_left(struct nfs4_slots *t)
{
	unsigned left;

	pthread_mutex_lock(&t->mu);
	left = t->left;
	pthread_mutex_unlock(&t->mu);
	return left;
}

/* ---- targets ---- */

int nfs4_target_init(struct nfs_target *t)
{
	struct nfs4_lane *l4 = calloc(1, sizeof(*l4));

	if (!l4)
		return -ENOMEM;
	l4->target = t;
	l4->wake.fn = on_wake;
	t->vdata = l4;
	return 0;
}

void nfs4_target_fini(struct nfs_target *t)
{
	free(t->vdata);
	t->vdata = NULL;
}
