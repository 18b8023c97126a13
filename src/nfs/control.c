/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control thread: recovers state that the server has lost, and keeps the lease. It may
 * block: it runs calls on lanes and waits for them.
 *
 * Recovery: the version's recover() runs until it succeeds. For what concerns all calls it lets
 * the lanes hold, which means that they finish what is in flight and start only control calls.
 * In the end the lanes go on, parked calls first. A lane that finds its state lost meanwhile
 * sets ctl->recover again, and recovery is repeated. If the server wants something to be asked
 * for later, the lanes go on without it, and recovery is repeated after a while.
 *
 * Some servers make sessions and then reject them, or fail to make them. Then the attempts
 * become rare. The log has one message when this begins and one when it is over, and
 * nothing in between.
 *
 * If a connection is lost during recovery, control calls continue on another lane, or wait for
 * the connector when no lane has a connection. If the mount ends during recovery,
 * nfs_call_sync() returns -ESHUTDOWN, and this thread ends before the version
 * unmounts (internal.h says who may use the version's state, and when).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "nfs/internal.h"

#define TICK_MS 2000u
#define NS_PER_MS 1000000ull
/* How many recoveries in a row begin at once, because each call may find something else
 * lost. Then come pauses, doubling to 6.4 s, until a recovery has lasted for LASTS_NS. */
#define AT_ONCE         3u
#define PAUSE_FIRST_MS  100u
#define PAUSE_SHIFT_MAX 6u
#define LASTS_NS        5000000000ull

/* ---- calls from threads that may block ---- */

struct sync_call {
	struct loop_msg m;
	struct list node;       /* in ctl->calls, under ctl->mu */
	bool started;           /* lane thread: the lane has got it */
	struct nfs_target *target;
	struct nfs_call *c;
	bool done;              /* under ctl->mu */
	bool stopped;           /* under ctl->mu: it was waited for when the control thread ended */
	bool abandoned;         /* under ctl->mu: the lane frees this and the call */
};

static void sync_done(struct nfs_call *c)
{
	struct sync_call *s = c->owner;
	struct nfs_control *ctl = s->target->lane->client->control;
	bool abandoned;

	pthread_mutex_lock(&ctl->mu);
	s->done = true;
	abandoned = s->abandoned;
	if (abandoned)
		list_del(&s->node);
	pthread_cond_broadcast(&ctl->cond);
	pthread_mutex_unlock(&ctl->mu);
	if (abandoned) {
		free(c);
		free(s);
	}
}

static void sync_start(struct loop_msg *m)
{
	struct sync_call *s = container_of(m, struct sync_call, m);

	s->started = true;
	nfs_start_at(s->target, s->c);
}

void nfs_calls_forget(struct nfs_lane *l)
{
	list_for_each_entry_safe(struct sync_call, s, tmp, &l->client->control->calls, node) {
		if (s->target->lane != l)
			continue;
		if (s->started) {
			list_del(&s->c->eng.run_node);
			list_del(&s->c->eng.node);
			loop_timer_clear(&s->c->eng.timer);
			if (nfs_owner_any(&s->c->eng.owners))
				nfs_owner_drop(s->c);
		}
		sync_done(s->c);
	}
}

int nfs_call_sync(struct nfs_target *t, struct nfs_call *c, unsigned timeout_ms, bool *abandoned)
{
	struct nfs_control *ctl = t->lane->client->control;
	struct sync_call *s = calloc(1, sizeof(*s));
	struct timespec ts;
	int rc = 0;

	*abandoned = false;
	if (!s)
		return -ENOMEM;
	s->target = t;
	s->c = c;
	s->m.fn = sync_start;
	c->owner = s;
	c->done = sync_done;
	pthread_mutex_lock(&ctl->mu);
	list_add_tail(&ctl->calls, &s->node);
	pthread_mutex_unlock(&ctl->mu);
	loop_post(t->lane->loop, &s->m);

	nfs_deadline(&ts, timeout_ms);
	pthread_mutex_lock(&ctl->mu);
	while (!s->done && rc == 0) {
		if (ctl->stopping || s->stopped)
			rc = -ESHUTDOWN;
		else if (timeout_ms)
			rc = -pthread_cond_timedwait(&ctl->cond, &ctl->mu, &ts);
		else
			pthread_cond_wait(&ctl->cond, &ctl->mu);
	}
	if (s->done) {
		rc = 0;
		list_del(&s->node);
	} else {
		s->abandoned = true;
		*abandoned = true;
	}
	pthread_mutex_unlock(&ctl->mu);
	if (rc)
		return rc;
	free(s);
	return c->res.status;
}

/* If no lane has a connection, any lane will do: it gives the call back when another
 * lane gets a connection first. */
static struct nfs_target *any_target(const struct nfs_server *s)
{
	for (unsigned i = 0; i < s->client->nlanes; i++)
		if (atomic_load(&s->targets[i]->up))
			return s->targets[i];
	return s->targets[0];
}

int nfs_call_any(struct nfs_server *s, struct nfs_call *c, unsigned timeout_ms, bool *abandoned)
{
	uint64_t now, end = mono_ns() + timeout_ms * NS_PER_MS;
	unsigned left = timeout_ms;
	int rc;

	c->flags |= NFS_CALL_ANY_LANE;
	for (;;) {
		rc = nfs_call_sync(any_target(s), c, left, abandoned);
		if (rc != -ENOTCONN)
			return rc;
		now = mono_ns();
		if (timeout_ms && now >= end)
			return -ETIMEDOUT;
		if (timeout_ms)
			left = (unsigned)((end - now) / NS_PER_MS) + 1;
	}
}

struct each_lane {
	struct loop_msg m;
	struct nfs_lane *lane;
	void (*fn)(struct nfs_lane *l, void *arg);
	void *arg;
	unsigned *left;         /* under ctl->mu */
};

static void each_run(struct loop_msg *m)
{
	struct each_lane *e = container_of(m, struct each_lane, m);
	struct nfs_control *ctl = e->lane->client->control;

	e->fn(e->lane, e->arg);
	pthread_mutex_lock(&ctl->mu);
	--*e->left;
	pthread_cond_broadcast(&ctl->cond);
	pthread_mutex_unlock(&ctl->mu);
}

void nfs_each_lane(struct nfs_client *cl, void (*fn)(struct nfs_lane *l, void *arg), void *arg)
{
	struct nfs_control *ctl = cl->control;
	struct each_lane e[cl->nlanes];         /* at most NFS_LANES_MAX */
	unsigned left = cl->nlanes;

	for (unsigned i = 0; i < cl->nlanes; i++) {
		e[i] = (struct each_lane){
			.m.fn = each_run, .lane = &cl->lanes[i],
			.fn = fn, .arg = arg, .left = &left,
		};
		loop_post(cl->lanes[i].loop, &e[i].m);
	}
	/* A lane never blocks, so this ends. It must end, because e is on our stack. */
	pthread_mutex_lock(&ctl->mu);
	while (left)
		pthread_cond_wait(&ctl->cond, &ctl->mu);
	pthread_mutex_unlock(&ctl->mu);
}

/* ---- recovery ---- */

static void lane_count(struct nfs_lane *l, void *arg)
{
	if (l->index == 0)
		stat_add(&l->stats, STAT_RECOVERIES, 1);
}

static void lane_hold(struct nfs_lane *l, void *arg)
{
	l->hold = true;
}

static void lane_go_on(struct nfs_lane *l, void *arg)
{
	struct list rest;

	l->hold = false;
	/* Calls that had been sent before go before calls that were only waiting. */
	list_init(&rest);
	list_splice_tail(&rest, &l->parked);
	list_splice_tail(&rest, &l->waiting);
	list_splice_tail(&l->waiting, &rest);
	nfs_lane_pump(l);
}

void nfs_lanes_hold(struct nfs_client *cl)
{
	nfs_each_lane(cl, lane_hold, NULL);
}

void nfs_lanes_go_on(struct nfs_client *cl)
{
	nfs_each_lane(cl, lane_go_on, NULL);
}

void nfs_control_nap(struct nfs_client *cl, unsigned ms)
{
	struct nfs_control *ctl = cl->control;
	struct timespec ts;

	nfs_deadline(&ts, ms);
	pthread_mutex_lock(&ctl->mu);
	while (!ctl->stopping && pthread_cond_timedwait(&ctl->cond, &ctl->mu, &ts) == 0)
		;
	pthread_mutex_unlock(&ctl->mu);
}

/* The pause before another recovery. */
static void control_pace(struct nfs_client *cl)
{
	struct nfs_control *ctl = cl->control;
	unsigned n = ctl->in_a_row, shift = n - AT_ONCE;

	if (n < AT_ONCE)
		return;
	if (!ctl->quiet)
		log_warn("%s keeps losing the state of this mount: recovery is repeated, with pauses of "
			 "up to %u s", cl->cfg.server, (PAUSE_FIRST_MS << PAUSE_SHIFT_MAX) / 1000);
	ctl->quiet = true;
	nfs_control_nap(cl, PAUSE_FIRST_MS << (shift < PAUSE_SHIFT_MAX ? shift : PAUSE_SHIFT_MAX));
}

/* Has the last recovery lasted? */
static void note_time(struct nfs_client *cl)
{
	struct nfs_control *ctl = cl->control;

	if (!ctl->in_a_row || mono_ns() - ctl->recovered_ns < LASTS_NS)
		return;
	if (ctl->quiet)
		log_info("%s: state is stable again", cl->cfg.server);
	ctl->in_a_row = 0;
	ctl->quiet = false;
}

/* The pause before the server is asked again for what it wanted to be asked for later; 0: it has
 * given everything. */
static void note_later(const struct nfs_client *cl, bool later)
{
	struct nfs_control *ctl = cl->control;
	unsigned shift = ctl->delays < NFS_LATER_SHIFT_MAX ? ctl->delays : NFS_LATER_SHIFT_MAX;

	ctl->delays = later ? ctl->delays + 1 : 0;
	ctl->later_ns = later ? mono_ns() + (nfs_times_of(&cl->cfg)->later_ms << shift) * NS_PER_MS : 0;
}

static void control_recover(struct nfs_client *cl)
{
	struct nfs_control *ctl = cl->control;
	int rc, before = 0;

	note_time(cl);
	for (;;) {
		control_pace(cl);
		pthread_mutex_lock(&ctl->mu);
		ctl->recover = false;
		pthread_mutex_unlock(&ctl->mu);
		ctl->counts = true;
		rc = cl->server.version->recover(&cl->server);
		/* A recovery that fails is repeated, so it counts, too. */
		if (rc < 0 || ctl->counts) {
			ctl->in_a_row++;
			ctl->recovered_ns = mono_ns();
		}
		if (rc >= 0 || rc == -ESHUTDOWN)
			break;
		if (rc != before && !ctl->quiet)
			log_warn("recovery of the state on %s failed: %s; trying again",
				 cl->cfg.server, strerror(-rc));
		before = rc;
	}
	note_later(cl, rc == NFS_LATER);
	nfs_lanes_go_on(cl);
}

static void control_tick(struct nfs_client *cl)
{
	note_time(cl);
	if (cl->server.version->tick)
		cl->server.version->tick(&cl->server);
}

/* What is due now, without the lock. */
static void control_work(struct nfs_client *cl, bool lost, uint64_t *tick_ns)
{
	struct nfs_control *ctl = cl->control;
	bool later = ctl->later_ns && mono_ns() >= ctl->later_ns;

	if (lost)
		nfs_each_lane(cl, lane_count, NULL);
	if (lost || later) {
		control_recover(cl);
		return;
	}
	if (mono_ns() < *tick_ns)
		return;
	control_tick(cl);
	*tick_ns = mono_ns() + TICK_MS * NS_PER_MS;
}

static void control_main(struct nfs_client *cl)
{
	struct nfs_control *ctl = cl->control;
	uint64_t tick_ns = mono_ns() + TICK_MS * NS_PER_MS;

	pthread_mutex_lock(&ctl->mu);
	while (!ctl->stopping) {
		uint64_t now = mono_ns(), next = tick_ns;
		bool lost = ctl->recover;
		struct timespec ts;

		if (ctl->later_ns && ctl->later_ns < next)
			next = ctl->later_ns;
		nfs_deadline(&ts, next > now ? (unsigned)((next - now) / NS_PER_MS) + 1 : 0);
		/* The tick comes even if others signal the condition. */
		if (!lost && next > now &&
		    pthread_cond_timedwait(&ctl->cond, &ctl->mu, &ts) != ETIMEDOUT)
			continue;
		pthread_mutex_unlock(&ctl->mu);
		control_work(cl, lost, &tick_ns);
		pthread_mutex_lock(&ctl->mu);
	}
	pthread_mutex_unlock(&ctl->mu);
}

/* ---- life ---- */

static void *run_control(void *client)
{
	struct nfs_client *cl = client;

	control_main(cl);
	nfs_thread_ended(cl->control, &cl->control->control);
	return NULL;
}

int nfs_control_start(struct nfs_client *cl)
{
	return nfs_thread_start(&cl->control->control, run_control, cl);
}

bool nfs_control_stop(struct nfs_client *cl, unsigned timeout_ms)
{
	struct nfs_control *ctl = cl->control;

	if (!nfs_thread_stop(ctl, &ctl->control, &ctl->stopping, timeout_ms))
		return false;
	/* The unmounting thread makes calls of its own. Whoever waits for a call may not have looked
	 * yet. */
	pthread_mutex_lock(&ctl->mu);
	list_for_each(n, &ctl->calls)
		container_of(n, struct sync_call, node)->stopped = true;
	ctl->stopping = false;
	pthread_mutex_unlock(&ctl->mu);
	return true;
}
