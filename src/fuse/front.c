/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the file system tells this front end, and asks it (struct vfs_front): see believed.h, readback.h,
 * solo.h. */
#include <math.h>
#include <stdlib.h>
#include "fuse/fs_impl.h"

static void front_op_ends(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);

	if (r->text)
		free(r->text);
	if (r->spare)
		fs_spare_free(r);
	r->text = NULL;
	r->req = NULL;
	r->late = NULL;
}

static bool front_inode_begins_locked(struct inode_table *t, struct inode *ino,
				      const struct nfs_attr *attr)
{
	const struct fs *fs = fs_of_vfs(container_of(t, struct vfs, inodes));

	list_init(&believed_of(ino)->ends);
	return !fs->cfg.vfs.solo || !S_ISREG(ino->type) || solo_begin(ino, attr);
}

static void front_inode_ends(struct inode *ino)
{
	struct believed *b = believed_of(ino);

	free(atomic_load(&b->readback));
	free(b->solo);
}

static void front_inode_found_locked(struct inode_table *t, struct inode *ino,
				     const struct nfs_attr *attr, uint64_t since, bool created)
{
	if (created && S_ISREG(ino->type))
		readback_begin_locked(ino);
	believed_answer_locked(t, ino, attr, since, behind_since(ino, since) ? 0 : since, UINT64_MAX);
}

/* The server was asked before the kernel was to forget what it has. */
static bool front_is_late(struct vfs_op *op)
{
	struct fs_req *r = fs_req_of(op);

	return op->call.op == NFS_OP_GETATTR && r->late_attrs < FS_LATE_MOST &&
	       believed_is_late(op->ino, &op->call.res.attr, op->start_ns, op->asked_ns) && ++r->late_attrs;
}

static bool front_attr_locked(struct vfs_op *op, double timeo)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	struct nfs_attr *attr = &op->call.res.attr;
	struct fs_req *r = fs_req_of(op);
	double known = op->call.op == NFS_OP_GETATTR ? op->attr.known : HUGE_VAL;

	if (front_is_late(op))
		return false;
	r->timeo = known < timeo ? known : timeo;
	if (op->call.op == NFS_OP_LINK)
		believed_told_locked(op->ino, attr, op->start_ns);
	else if (op->call.op == NFS_OP_GETATTR)
		believed_answer_locked(t, op->ino, attr, op->start_ns, op->asked_ns, known < 1e6 ?
				       mono_ns() + (uint64_t)(known * 1e9) : UINT64_MAX);
	else if (!believed_set_locked(t, op->ino, attr, op->start_ns, op->asked_ns,
				      op->call.args.sattr.valid & NFS_SET_MTIME))
		r->timeo = 0;
	return true;
}

static bool front_may_list_locked(const struct inode *ino, uint64_t since)
{
	return atomic_load(&believed_of(ino)->fresh_ns) < since;
}

static void front_changed_locked(struct inode *ino, const struct nfs_attr *attr)
{
	if (believed_of(ino)->solo)
		solo_after_locked(ino, attr);
}

static void front_data_lost(struct inode *ino)
{
	/* The kernel has pages that the server does not have. */
	believed_unheard(ino);
	believed_written_past(ino);
}

static void front_file_ends(struct vfs_lane *vl, struct file *file, bool silly)
{
	struct fs *fs = fs_of_vfs(vl->vfs);
	struct fs_file *f = fs_file_of(file);

	handle_del(&fs->files, f->handle);      /* if the kernel has not got it */
	believed_end_ends(&vl->vfs->inodes, file->ino, &f->end);
	atomic_fetch_sub(&believed_of(file->ino)->dirtiers, f->dirties);
	if (!silly)
		fs_solo_release(vl, file);
}

const struct vfs_front fs_front = {
	.op_size = sizeof(struct fs_req),
	.inode_size = sizeof(struct believed),
	.op_ends = front_op_ends,
	.inode_begins_locked = front_inode_begins_locked,
	.inode_ends = front_inode_ends,
	.inode_found_locked = front_inode_found_locked,
	.may_list_locked = front_may_list_locked,
	.inode_listed_locked = believed_listed_locked,
	.attr_spoilt = readback_spoil,
	.attr_locked = front_attr_locked,
	.changed_locked = front_changed_locked,
	.marked_locked = believed_marked_locked,
	.written = readback_there,
	.writes_past = fs_writes_past,
	.written_past = fs_written_past,
	.data_lost = front_data_lost,
	.end_known = readback_end,
	.file_begins_locked = fs_file_begins_locked,
	.file_ends = front_file_ends,
	.lanes_changed = fs_lane_step_aside,
	.buffers_freed = fs_lane_buffers_freed,
	.tick = fs_lane_tick,
};
