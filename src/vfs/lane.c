/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A lane's operations as a whole: its clock, its buffers, its connections, and its end.
 *
 * nfs says when a lane has a connection again, and when it has lost its last one (nfs/front.h). The
 * lane looks then, and so do all that have none, by message: whether another lane can do their work
 * has changed.
 *
 *   what was not sent       WRITE, COMMIT, REMOVE of a silly name and DELEGRETURN go to a lane that has
 *                           a connection (behind_move_all(), silly_move_all(), delegations_move_all())
 *   READs of other lanes    that wait for what this one reads ahead are sent by themselves
 *                           (ahead_leave())
 *   the front end           may leave new work to other lanes (lanes_changed())
 *
 * Nothing is missed: a lane's `up` changes before it looks and before it reads the `up` of others.
 * So of two that change at the same time, the one whose change is the later sees both, and tells
 * the other if that has no connection.
 */
#include <errno.h>
#include <stdlib.h>
#include "vfs/promised.h"
#include "vfs/vfs_impl.h"

#define TICK_MS 250u
/* The next one, if the front end expects something. */
#define SOON_MS 10u

static void on_lanes(struct loop_msg *m);
static void on_tick(struct loop_timer *t);

void vfs_lane_init(struct vfs_lane *vl, struct vfs *vfs, unsigned index)
{
	vl->vfs = vfs;
	vl->lane = &vfs->cl->lanes[index];
	list_init(&vl->idle);
	list_init(&vl->active);
	list_init(&vl->want_buf);
	list_init(&vl->held);
	list_init(&vl->lock_waits);
	loop_timer_init(&vl->tick, on_tick);
	vl->room_msg.fn = behind_on_room;
	vl->lanes_msg.fn = on_lanes;
	vl->locks_msg.fn = locks_on_wake;
	vl->delegations_msg.fn = delegations_on_due;
	vl->offload_msg.fn = offload_on_wake;
}

/* ---- connections ---- */

static void lane_look(struct vfs_lane *vl)
{
	uint64_t now = mono_ns();

	behind_move_all(vl, now);
	silly_move_all(vl, now);
	delegations_move_all(vl, now);
	vl->vfs->front->lanes_changed(vl);
}

/* By then the lane may be detached. */
static void on_lanes(struct loop_msg *m)
{
	struct vfs_lane *vl = container_of(m, struct vfs_lane, lanes_msg);

	atomic_store(&vl->lanes_told, false);
	if (vl->lane->front)
		lane_look(vl);
}

static void lane_tell_others(struct vfs_lane *vl)
{
	for (unsigned i = 0; i < vl->vfs->nlanes; i++) {
		struct vfs_lane *other = vl->vfs->lanes[i];

		if (other != vl && !nfs_lane_up(other->lane) && !atomic_exchange(&other->lanes_told, true))
			loop_post(other->lane->loop, &other->lanes_msg);
	}
}

static void lane_changed(struct vfs_lane *vl)
{
	lane_tell_others(vl);
	lane_look(vl);
	ahead_leave(vl);
}

static void on_lane_changed(struct nfs_lane *l)
{
	if (l->front)
		lane_changed(l->front);
}

/* ---- buffers ---- */

static void on_buffers_freed(struct nfs_lane *l)
{
	struct vfs_lane *vl = l->front;

	if (vl && read_retry(vl))
		vl->vfs->front->buffers_freed(vl);
}

static void on_lock_freed(struct nfs_lane *l, const struct nfs_fh *fh, uint64_t owner)
{
	if (l->front)
		locks_on_freed(l->front, fh, owner);
}

static void on_delegations_due(struct nfs_lane *l)
{
	if (l->front)
		delegations_tell(l->front);
}

static bool on_copy_ended(struct nfs_lane *l, const struct nfs_fh *fh, const struct nfs_copy_id *id,
			  const struct nfs_copy_end *end)
{
	return l->front && offload_on_ended(l->front, fh, id, end);
}

/* magazine.shortage */
static void on_shortage(void *lane, enum arena_class first, enum arena_class last)
{
	struct vfs_lane *vl = ((struct nfs_lane *)lane)->front;

	if (last < ARENA_SMALL)
		return;
	ahead_give_way(vl, (int)first, (int)last);
	if (last >= ARENA_MID)
		behind_want_room(vl->vfs);
}

const struct nfs_front vfs_nfs_front = {
	.lane_changed = on_lane_changed,
	.buffers_freed = on_buffers_freed,
	.lock_freed = on_lock_freed,
	.delegations_due = on_delegations_due,
	.copy_ended = on_copy_ended,
	.delegation_attr = promised_asked,
};

/* ---- life ---- */

void vfs_lane_attach(struct vfs_lane *vl)
{
	vfs_this_lane = vl;
	vl->lane->front = vl;
	vl->lane->mag.shortage = on_shortage;
	loop_timer_set(vl->lane->loop, &vl->tick, TICK_MS);
	/* What nfs has said until now nobody has heard. */
	lane_changed(vl);
}

void vfs_lane_detach(struct vfs_lane *vl)
{
	vl->lane->front = NULL;
	vl->lane->mag.shortage = NULL;
	loop_timer_clear(&vl->tick);
	locks_lane_ends(vl);
	list_for_each_entry_safe(struct vfs_op, op, tmp, &vl->want_buf, wait_node) {
		list_del(&op->wait_node);
		vfs_end_with(op, -ENOTCONN);
	}
}

static void vfs_lane_free_ops(struct list *l)
{
	for (struct list *n; (n = list_pop(l)); )
		free(container_of(n, struct vfs_op, node));
}

void vfs_lane_fini(struct vfs_lane *vl)
{
	if (!vl->vfs)
		return;
	vfs_lane_free_ops(&vl->idle);
	list_for_each_entry(struct vfs_op, op, &vl->active, node) {
		op_remove_lost(op);
		free(op->memory);
		vl->vfs->front->op_ends(op);
	}
	vfs_lane_free_ops(&vl->active);
}

static void on_tick(struct loop_timer *t)
{
	struct vfs_lane *vl = container_of(t, struct vfs_lane, tick);
	uint64_t now = mono_ns();

	loop_timer_set(vl->lane->loop, t, TICK_MS);
	behind_tick(vl, now);
	silly_move_all(vl, now);
	delegations_move_all(vl, now);
	delegations_return(vl);
	ahead_sweep(vl);
	if (vl->vfs->front->tick(vl, now))
		loop_timer_set(vl->lane->loop, t, SOON_MS);
}
