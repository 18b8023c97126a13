/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A lane's operations as a whole: its clock, its buffers, and its end. */
#include <errno.h>
#include <stdlib.h>
#include "vfs/vfs_impl.h"

void vfs_lane_init(struct vfs_lane *vl, struct vfs *vfs, unsigned index)
{
	vl->vfs = vfs;
	vl->lane = &vfs->cl->lanes[index];
	list_init(&vl->idle);
	list_init(&vl->active);
	list_init(&vl->want_buf);
	list_init(&vl->held);
	vl->room_msg.fn = behind_on_room;
	list_init(&vl->woken);
}

void vfs_lane_attach(struct vfs_lane *vl)
{
	vfs_this_lane = vl;
}

void vfs_lane_detach(struct vfs_lane *vl)
{
	list_for_each_safe(n, tmp, &vl->want_buf) {
		struct vfs_op *op = container_of(n, struct vfs_op, wait_node);

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
	list_for_each(n, &vl->active) {
		struct vfs_op *op = container_of(n, struct vfs_op, node);

		op_remove_lost(op);
		vl->vfs->front->op_ends(op);
	}
	vfs_lane_free_ops(&vl->active);
}

void vfs_lane_tick(struct vfs_lane *vl, uint64_t now_ns)
{
	behind_tick(vl, now_ns);
	silly_tick(vl, now_ns);
	ahead_sweep(vl);
}

bool vfs_lane_buffers_freed(struct vfs_lane *vl)
{
	return read_retry(vl);
}

void vfs_lane_shortage(struct vfs_lane *vl, enum arena_class first, enum arena_class last)
{
	if (last < ARENA_SMALL)
		return;
	ahead_give_way(vl, (int)first, (int)last);
	if (last >= ARENA_MID)
		behind_want_room(vl->vfs);
}
