/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See close_ride.h. */
#include <stdlib.h>
#include "nfs/internal.h"
#include "nfs/close_ride.h"

/* How many a carrier looks at: what other users have closed may come first. */
#define LOOKS 16u
/* The most that are kept for later. */
#define IDLE_MAX 64u
#define NS_PER_MS 1000000ull

struct close_ride {
	struct list node;               /* in one of the lists of nfs_close_rides */
	uint64_t since_ns;
	struct rpc_cred cred;
	struct nfs_call call;           /* target: where CLOSE was started */
};

static const struct nfs_opdef *def_of(const struct nfs_target *t, const struct nfs_call *c)
{
	return t->server->version->ops[c->op];
}

/* ---- the lists ---- */

void close_rides_init(struct nfs_close_rides *rs)
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
		free(container_of(n, struct close_ride, node));
}

void close_rides_fini(struct nfs_close_rides *rs)
{
	free_all(&rs->waiting);
	free_all(&rs->away);
	free_all(&rs->idle);
	pthread_mutex_destroy(&rs->mu);
}

static struct close_ride *close_ride_new(struct nfs_close_rides *rs)
{
	struct list *n;

	pthread_mutex_lock(&rs->mu);
	n = list_pop(&rs->idle);
	rs->nidle -= n != NULL;
	pthread_mutex_unlock(&rs->mu);
	return n ? container_of(n, struct close_ride, node) : malloc(sizeof(struct close_ride));
}

static void close_ride_free(struct nfs_close_rides *rs, struct close_ride *r)
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

/* ---- off the list ---- */

/* With the lock held: r belongs to the caller's thread from here on. */
static void close_ride_unlink(struct nfs_close_rides *rs, struct close_ride *r)
{
	list_del(&r->node);
	list_add_tail(&rs->away, &r->node);
	atomic_fetch_sub_explicit(&rs->nwaiting, 1, memory_order_relaxed);
}

static bool close_ride_nobody(const struct nfs_close_rides *rs)
{
	return !atomic_load_explicit(&rs->nwaiting, memory_order_relaxed);
}

/* The one of that user that has waited longest, or NULL. (The server sees the carrier's user behind both.) */
static struct close_ride *take_one(struct nfs_close_rides *rs, const struct rpc_cred *user)
{
	struct close_ride *found = NULL;
	unsigned looks = LOOKS;

	pthread_mutex_lock(&rs->mu);
	list_for_each_entry(struct close_ride, r, &rs->waiting, node) {
		if (rpc_cred_same(&r->cred, user))
			found = r;
		if (found || !--looks)
			break;
	}
	if (found)
		close_ride_unlink(rs, found);
	pthread_mutex_unlock(&rs->mu);
	return found;
}

/* Those that were started on `from` (NULL: anywhere) until then, to `out`, by call.eng.node.
 * Returns when the oldest one of those that stay was started; UINT64_MAX: none stays. */
static uint64_t take_all(struct nfs_close_rides *rs, const struct nfs_target *from, uint64_t until_ns,
			 struct list *out)
{
	uint64_t next = UINT64_MAX;

	list_init(out);
	pthread_mutex_lock(&rs->mu);
	list_for_each_entry_safe(struct close_ride, r, tmp, &rs->waiting, node) {
		if (from && r->call.target != from)
			continue;
		if (r->since_ns > until_ns) {
			next = r->since_ns < next ? r->since_ns : next;
			continue;
		}
		close_ride_unlink(rs, r);
		list_add_tail(out, &r->call.eng.node);
	}
	pthread_mutex_unlock(&rs->mu);
	return next;
}

/* ---- by itself ---- */

static void on_done(struct nfs_call *c)
{
	close_ride_free(&c->target->server->close_rides, container_of(c, struct close_ride, call));
}

static void close_ride_begin(struct nfs_target *t, struct close_ride *r)
{
	r->call.done = on_done;
	r->call.flags = 0;
	nfs_begin(t, &r->call);
}

static void begin_all(struct nfs_target *t, struct list *riders)
{
	for (struct list *n; (n = list_pop(riders)); )
		close_ride_begin(t, container_of(n, struct close_ride, call.eng.node));
}

/* Not in line, or it makes each call dearer; the same goes for close_ride_waits(). */
void __attribute__((noinline)) close_rides_go(struct nfs_target *t)
{
	struct nfs_close_rides *rs = &t->server->close_rides;
	struct list all;

	if (close_ride_nobody(rs))
		return;
	take_all(rs, atomic_load(&t->up) ? NULL : t, UINT64_MAX, &all);
	begin_all(t, &all);
}

static void on_timer(struct loop_timer *timer)
{
	struct nfs_lane *l = container_of(timer, struct nfs_lane, close_rides_timer);
	uint64_t until = loop_now(l->loop) - nfs_times_of(&l->client->cfg)->close_ride_ms * NS_PER_MS, next = UINT64_MAX;

	list_for_each_entry(struct nfs_target, t, &l->targets, node) {
		struct list due;
		uint64_t oldest = take_all(&t->server->close_rides, t, until, &due);

		begin_all(t, &due);
		next = oldest < next ? oldest : next;
	}
	if (next != UINT64_MAX)
		loop_timer_set(l->loop, timer, (unsigned)((next - until) / NS_PER_MS) + 1);
	nfs_lane_pump(l);
}

void close_rides_lane_init(struct nfs_lane *l)
{
	loop_timer_init(&l->close_rides_timer, on_timer);
}

/* ---- aboard ---- */

bool __attribute__((noinline)) close_ride_waits(struct nfs_target *t, struct nfs_call *c)
{
	const struct nfs_opdef *def = def_of(t, c);
	struct nfs_close_rides *rs = &t->server->close_rides;
	struct close_ride *r;

	if ((c->flags & NFS_CALL_NOW) || !def || !def->rides || !c->cred || !def->rides(c))
		return false;
	r = close_ride_new(rs);
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
	if (list_empty(&t->lane->close_rides_timer.node))
		loop_timer_set(t->lane->loop, &t->lane->close_rides_timer,
			       nfs_times_of(&t->lane->client->cfg)->close_ride_ms);
	return true;
}

void close_ride_take(struct nfs_call *c)
{
	const struct nfs_opdef *def = def_of(c->target, c);
	struct nfs_close_rides *rs = &c->target->server->close_rides;
	struct close_ride *r;

	/* What has no connection would keep it from lanes that have one. */
	if (close_ride_nobody(rs) || !atomic_load(&c->target->up))
		return;
	if (c->eng.step || c->eng.alone || !c->cred || !def->carries || !def->carries(c))
		return;
	r = take_one(rs, c->cred);
	if (!r)
		return;
	c->eng.riding_close = &r->call;
	c->eng.close_ride_closed = false;
}

void close_ride_leave(struct nfs_call *c)
{
	struct close_ride *r;

	if (!c->eng.riding_close)
		return;
	r = container_of(c->eng.riding_close, struct close_ride, call);
	c->eng.riding_close = NULL;
	if (!c->eng.close_ride_closed) {
		close_ride_begin(c->target, r);
		return;
	}
	nfs_open_drop(&r->call);
	on_done(&r->call);
}
