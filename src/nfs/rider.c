/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See rider.h. */
#include <stdlib.h>
#include <string.h>
#include "nfs/internal.h"
#include "nfs/rider.h"

/* A carrier looks at so many: what other users have closed may come first. */
#define LOOKS 16u
/* So many are kept for later. */
#define IDLE_MAX 64u
#define NS_PER_MS 1000000ull

struct rider {
	struct list node;               /* in one of the lists of nfs_riders */
	uint64_t since_ns;
	struct rpc_cred cred;
	struct nfs_call call;           /* target: where CLOSE was started */
};

static const struct nfs_opdef *def_of(const struct nfs_target *t, const struct nfs_call *c)
{
	return t->server->version->ops[c->op];
}

/* ---- the lists ---- */

void riders_init(struct nfs_riders *rs)
{
	pthread_mutex_init(&rs->mu, NULL);
	list_init(&rs->waiting);
	list_init(&rs->away);
	list_init(&rs->idle);
	atomic_init(&rs->nwaiting, 0);
	rs->nidle = 0;
}

static void free_all(struct list *l)
{
	for (struct list *n; (n = list_pop(l)); )
		free(container_of(n, struct rider, node));
}

void riders_fini(struct nfs_riders *rs)
{
	free_all(&rs->waiting);
	free_all(&rs->away);
	free_all(&rs->idle);
	pthread_mutex_destroy(&rs->mu);
}

static struct rider *rider_new(struct nfs_riders *rs)
{
	struct list *n;

	pthread_mutex_lock(&rs->mu);
	n = list_pop(&rs->idle);
	rs->nidle -= n != NULL;
	pthread_mutex_unlock(&rs->mu);
	return n ? container_of(n, struct rider, node) : malloc(sizeof(struct rider));
}

static void rider_free(struct nfs_riders *rs, struct rider *r)
{
	bool keep;

	pthread_mutex_lock(&rs->mu);
	list_del(&r->node);
	keep = rs->nidle < IDLE_MAX;
	if (keep)
		list_add_head(&rs->idle, &r->node);
	rs->nidle += keep;
	pthread_mutex_unlock(&rs->mu);
	if (!keep)
		free(r);
}

/* The server sees the carrier's user behind both. */
static bool same_user(const struct rpc_cred *a, const struct rpc_cred *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->ngids == b->ngids &&
	       memcmp(a->gids, b->gids, a->ngids * sizeof(a->gids[0])) == 0;
}

/* ---- off the list ---- */

/* With the lock held: r belongs to the caller's thread from here on. */
static void leaves(struct nfs_riders *rs, struct rider *r)
{
	list_del(&r->node);
	list_add_tail(&rs->away, &r->node);
	atomic_fetch_sub_explicit(&rs->nwaiting, 1, memory_order_relaxed);
}

static bool nobody(const struct nfs_riders *rs)
{
	return !atomic_load_explicit(&rs->nwaiting, memory_order_relaxed);
}

/* The one of that user that has waited longest, or NULL. */
static struct rider *take_one(struct nfs_riders *rs, const struct rpc_cred *user)
{
	struct rider *found = NULL;
	unsigned looks = LOOKS;

	pthread_mutex_lock(&rs->mu);
	list_for_each(n, &rs->waiting) {
		struct rider *r = container_of(n, struct rider, node);

		if (same_user(&r->cred, user))
			found = r;
		if (found || !--looks)
			break;
	}
	if (found)
		leaves(rs, found);
	pthread_mutex_unlock(&rs->mu);
	return found;
}

/* Those that were started on `from` (NULL: anywhere) until then, to `out`, by call.eng.node.
 * Returns when the oldest one of those that stay was started; UINT64_MAX: none stays. */
static uint64_t take_all(struct nfs_riders *rs, const struct nfs_target *from, uint64_t until_ns,
			 struct list *out)
{
	uint64_t next = UINT64_MAX;

	list_init(out);
	pthread_mutex_lock(&rs->mu);
	list_for_each_safe(n, tmp, &rs->waiting) {
		struct rider *r = container_of(n, struct rider, node);

		if (from && r->call.target != from)
			continue;
		if (r->since_ns > until_ns) {
			next = r->since_ns < next ? r->since_ns : next;
			continue;
		}
		leaves(rs, r);
		list_add_tail(out, &r->call.eng.node);
	}
	pthread_mutex_unlock(&rs->mu);
	return next;
}

/* ---- by itself ---- */

static void on_done(struct nfs_call *c)
{
	rider_free(&c->target->server->riders, container_of(c, struct rider, call));
}

static void begin(struct nfs_target *t, struct rider *r)
{
	r->call.done = on_done;
	r->call.flags = 0;
	nfs_begin(t, &r->call);
}

static void begin_all(struct nfs_target *t, struct list *riders)
{
	for (struct list *n; (n = list_pop(riders)); )
		begin(t, container_of(n, struct rider, call.eng.node));
}

void riders_go(struct nfs_target *t)
{
	struct nfs_riders *rs = &t->server->riders;
	struct list all;

	if (nobody(rs))
		return;
	take_all(rs, atomic_load(&t->up) ? NULL : t, UINT64_MAX, &all);
	begin_all(t, &all);
}

static void on_timer(struct loop_timer *timer)
{
	struct nfs_lane *l = container_of(timer, struct nfs_lane, riders_timer);
	uint64_t until = loop_now(l->loop) - nfs_times_of(&l->client->cfg)->rider_ms * NS_PER_MS, next = UINT64_MAX;

	list_for_each(n, &l->targets) {
		struct nfs_target *t = container_of(n, struct nfs_target, node);
		struct list due;
		uint64_t oldest = take_all(&t->server->riders, t, until, &due);

		begin_all(t, &due);
		next = oldest < next ? oldest : next;
	}
	if (next != UINT64_MAX)
		loop_timer_set(l->loop, timer, (unsigned)((next - until) / NS_PER_MS) + 1);
	nfs_lane_pump(l);
}

void riders_lane_init(struct nfs_lane *l)
{
	loop_timer_init(&l->riders_timer, on_timer);
}

/* ---- aboard ---- */

bool rider_waits(struct nfs_target *t, struct nfs_call *c)
{
	const struct nfs_opdef *def = def_of(t, c);
	struct nfs_riders *rs = &t->server->riders;
	struct rider *r;

	if ((c->flags & NFS_CALL_NOW) || !def || !def->rides || !c->cred || !def->rides(c))
		return false;
	r = rider_new(rs);
	if (!r)
		return false;
	r->cred = *c->cred;
	r->call.op = NFS_OP_CLOSE;
	r->call.cred = &r->cred;
	r->call.args = (struct nfs_args){ 0 };
	r->call.open = c->open;
	r->call.target = t;
	c->open = NULL;
	r->since_ns = loop_now(t->lane->loop);
	pthread_mutex_lock(&rs->mu);
	list_add_tail(&rs->waiting, &r->node);
	atomic_fetch_add_explicit(&rs->nwaiting, 1, memory_order_relaxed);
	pthread_mutex_unlock(&rs->mu);
	if (list_empty(&t->lane->riders_timer.node))
		loop_timer_set(t->lane->loop, &t->lane->riders_timer,
			       nfs_times_of(&t->lane->client->cfg)->rider_ms);
	return true;
}

void rider_take(struct nfs_call *c)
{
	const struct nfs_opdef *def = def_of(c->target, c);
	struct nfs_riders *rs = &c->target->server->riders;
	struct rider *r;

	/* What has no connection would keep it from lanes that have one. */
	if (nobody(rs) || !atomic_load(&c->target->up))
		return;
	if (c->eng.step || c->eng.alone || !c->cred || !def->carries || !def->carries(c))
		return;
	r = take_one(rs, c->cred);
	if (!r)
		return;
	c->eng.rider = &r->call;
	c->eng.rider_closed = false;
}

void rider_leave(struct nfs_call *c)
{
	struct rider *r;

	if (!c->eng.rider)
		return;
	r = container_of(c->eng.rider, struct rider, call);
	c->eng.rider = NULL;
	if (!c->eng.rider_closed) {
		begin(c->target, r);
		return;
	}
	nfs_open_drop(&r->call);
	on_done(&r->call);
}
