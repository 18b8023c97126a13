/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Copies that go on behind COPY's reply: see offload.h. */
#include <string.h>
#include "vfs/vfs_impl.h"

/* Pauses between two OFFLOAD_STATUS: if CB_OFFLOAD is to come, and if not. */
#define TOLD_MS        1000u
#define TOLD_MOST_MS   8000u
#define UNTOLD_MS      10u
#define UNTOLD_MOST_MS 640u
/* How long it may take to see that nobody waits any more. */
#define TICK_MS        640u

static struct vfs_offloads *offloads_of(const struct vfs_op *op)
{
	return &op->vl->vfs->offloads;
}

void offloads_init(struct vfs_offloads *o)
{
	pthread_mutex_init(&o->mu, NULL);
	list_init(&o->waiting);
}

void offloads_fini(struct vfs_offloads *o)
{
	pthread_mutex_destroy(&o->mu);
}

/* ---- the table ---- */

static bool offload_same_id(const struct nfs_copy_id *a, const struct nfs_copy_id *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static struct vfs_op *offload_find_locked(struct vfs_offloads *o, const struct nfs_fh *fh,
					  const struct nfs_copy_id *id)
{
	list_for_each_entry(struct vfs_op, op, &o->waiting, copy.wait.node)
		if (offload_same_id(&op->call.args.copy.id, id) && nfs_fh_same(&op->ino->file.fh, fh))
			return op;
	return NULL;
}

static struct offload_early *offload_early_locked(struct vfs_offloads *o, const struct nfs_fh *fh,
						  const struct nfs_copy_id *id)
{
	for (struct offload_early *e = o->early; e < o->early + OFFLOAD_EARLY; e++)
		if (e->used && offload_same_id(&e->id, id) && nfs_fh_same(&e->fh, fh))
			return e;
	return NULL;
}

/* false: no COPY is without a reply, so it is of none. */
static bool offload_keep_locked(struct vfs_offloads *o, const struct nfs_fh *fh,
				const struct nfs_copy_id *id, const struct nfs_copy_end *end)
{
	struct offload_early *e;

	if (!o->expected)
		return false;
	if (offload_early_locked(o, fh, id))
		return true;
	e = &o->early[o->nearly++ % OFFLOAD_EARLY];
	e->used = true;
	e->fh = *fh;
	e->id = *id;
	e->end = *end;
	return true;
}

static void offload_answered_locked(struct vfs_offloads *o)
{
	if (--o->expected)
		return;
	for (unsigned i = 0; i < OFFLOAD_EARLY; i++)
		o->early[i].used = false;
	o->nearly = 0;
}

static void offload_told_locked(struct vfs_op *op, const struct nfs_copy_end *end)
{
	if (op->copy.wait.state != OFFLOAD_WAITS)
		return;
	op->copy.wait.state = OFFLOAD_TOLD;
	op->copy.wait.end = *end;
}

static bool offload_is_told(struct vfs_op *op)
{
	struct vfs_offloads *o = offloads_of(op);
	bool told;

	pthread_mutex_lock(&o->mu);
	told = op->copy.wait.state == OFFLOAD_TOLD;
	pthread_mutex_unlock(&o->mu);
	return told;
}

void offload_expect(struct vfs_op *op)
{
	struct vfs_offloads *o = offloads_of(op);

	pthread_mutex_lock(&o->mu);
	op->copy.wait.state = OFFLOAD_EXPECTED;
	o->expected++;
	pthread_mutex_unlock(&o->mu);
}

bool offload_leave(struct vfs_op *op)
{
	struct vfs_offloads *o = offloads_of(op);
	struct op_offload *w = &op->copy.wait;
	bool told;

	pthread_mutex_lock(&o->mu);
	told = w->state == OFFLOAD_TOLD;
	if (w->state == OFFLOAD_EXPECTED)
		offload_answered_locked(o);
	else if (w->state != OFFLOAD_NOT)
		list_del(&w->node);
	w->state = OFFLOAD_NOT;
	pthread_mutex_unlock(&o->mu);
	return told;
}

/* The server may say that a copy goes on without having been asked for that. */
static void offload_enter(struct vfs_op *op)
{
	struct vfs_offloads *o = offloads_of(op);
	struct op_offload *w = &op->copy.wait;
	struct offload_early *e;

	pthread_mutex_lock(&o->mu);
	e = offload_early_locked(o, &op->ino->file.fh, &op->call.args.copy.id);
	if (w->state == OFFLOAD_NOT)
		o->expected++;
	w->state = OFFLOAD_WAITS;
	list_add_tail(&o->waiting, &w->node);
	if (e) {
		e->used = false;
		offload_told_locked(op, &e->end);
	}
	offload_answered_locked(o);
	pthread_mutex_unlock(&o->mu);
}

/* ---- CB_OFFLOAD ---- */

bool offload_on_ended(struct vfs_lane *vl, const struct nfs_fh *fh, const struct nfs_copy_id *id,
		      const struct nfs_copy_end *end)
{
	struct vfs_offloads *o = &vl->vfs->offloads;
	struct vfs_op *op;
	bool known;

	pthread_mutex_lock(&o->mu);
	op = offload_find_locked(o, fh, id);
	known = op || offload_keep_locked(o, fh, id, end);
	if (op) {
		offload_told_locked(op, end);
		if (!atomic_exchange(&op->vl->offload_told, true))
			loop_post(op->vl->lane->loop, &op->vl->offload_msg);
	}
	pthread_mutex_unlock(&o->mu);
	stat_add(&vl->lane->stats, STAT_COPIES_ENDED, known);
	return known;
}

static void offload_end(struct vfs_op *op, enum offload_fate fate)
{
	struct op_offload *w = &op->copy.wait;

	if (w->pauses)
		loop_timer_clear(&op->call.eng.timer);
	w->pauses = false;
	offload_leave(op);
	w->ended(op, fate);
}

/* One of this lane that pauses, and whose copy has ended. */
static struct vfs_op *offload_woken(struct vfs_lane *vl)
{
	struct vfs_offloads *o = &vl->vfs->offloads;
	struct vfs_op *found = NULL;

	pthread_mutex_lock(&o->mu);
	list_for_each_entry(struct vfs_op, op, &o->waiting, copy.wait.node)
		if (op->vl == vl && op->copy.wait.state == OFFLOAD_TOLD && op->copy.wait.pauses) {
			found = op;
			break;
		}
	pthread_mutex_unlock(&o->mu);
	return found;
}

void offload_on_wake(struct loop_msg *m)
{
	struct vfs_lane *vl = container_of(m, struct vfs_lane, offload_msg);
	struct vfs_op *op;

	atomic_store(&vl->offload_told, false);
	while (vl->lane->front && (op = offload_woken(vl)))
		offload_end(op, OFFLOAD_ENDED);
}

/* ---- OFFLOAD_STATUS, OFFLOAD_CANCEL ---- */

static void offload_cancelled(struct vfs_op *op)
{
	if (offload_leave(op))
		offload_end(op, OFFLOAD_ENDED);
	else
		offload_end(op, op->call.res.status ? OFFLOAD_RUNS : OFFLOAD_LOST);
}

/* The stateid is not that of an open: nothing is to be recovered. */
static void offload_call(struct vfs_op *op, enum nfs_op number, void (*done)(struct vfs_op *op))
{
	op->call.open = NULL;
	vfs_start(op, number, done);
}

static void offload_stop(struct vfs_op *op)
{
	op->copy.touched = true;
	offload_call(op, NFS_OP_OFFLOAD_CANCEL, offload_cancelled);
}

static void on_offload_tick(struct loop_timer *t);

static void offload_pause(struct vfs_op *op)
{
	struct op_offload *w = &op->copy.wait;
	uint64_t now = mono_ns(), ms = w->ask_ns > now ? (w->ask_ns - now) / 1000000u + 1 : 0;

	w->pauses = true;
	loop_timer_init(&op->call.eng.timer, on_offload_tick);
	loop_timer_set(op->vl->lane->loop, &op->call.eng.timer, ms < TICK_MS ? (unsigned)ms : TICK_MS);
}

static void offload_ask_later(struct vfs_op *op)
{
	struct op_offload *w = &op->copy.wait;

	w->ask_ns = mono_ns() + w->ask_ms * UINT64_C(1000000);
	w->ask_ms = 2 * w->ask_ms < w->most_ms ? 2 * w->ask_ms : w->most_ms;
	offload_pause(op);
}

/* It has ended, as OFFLOAD_STATUS says, which has no verifier: COPY's reply has. */
static void offload_found(struct vfs_op *op)
{
	const struct nfs_results *r = &op->call.res;
	struct op_offload *w = &op->copy.wait;

	if (!offload_leave(op)) {
		w->end.status = r->status;
		w->end.count = r->copy.count;
	}
	offload_end(op, OFFLOAD_ENDED);
}

static void offload_asked(struct vfs_op *op)
{
	if (!op->call.res.copy.running || offload_is_told(op))
		offload_found(op);
	else if (op->call.res.status || vfs_unwanted(op))
		offload_stop(op);
	else
		offload_ask_later(op);
}

static void on_offload_tick(struct loop_timer *t)
{
	struct vfs_op *op = container_of(t, struct vfs_op, call.eng.timer);
	struct op_offload *w = &op->copy.wait;

	w->pauses = false;
	if (offload_is_told(op)) {
		offload_end(op, OFFLOAD_ENDED);
	} else if (vfs_unwanted(op)) {
		offload_stop(op);
	} else if (mono_ns() < w->ask_ns) {
		offload_pause(op);
	} else {
		/* Until the server says that it has ended. */
		op->call.res.copy.running = true;
		offload_call(op, NFS_OP_OFFLOAD_STATUS, offload_asked);
	}
}

void offload_wait(struct vfs_op *op, void (*ended)(struct vfs_op *op, enum offload_fate fate))
{
	const struct nfs_results *r = &op->call.res;
	struct op_offload *w = &op->copy.wait;

	op->call.args.copy.id = r->copy.id;
	w->end = (struct nfs_copy_end){ .verf = r->copy.verf };
	w->ended = ended;
	w->ask_ms = r->copy.told ? TOLD_MS : UNTOLD_MS;
	w->most_ms = r->copy.told ? TOLD_MOST_MS : UNTOLD_MOST_MS;
	offload_enter(op);
	if (offload_is_told(op))
		offload_end(op, OFFLOAD_ENDED);
	else
		offload_ask_later(op);
}
