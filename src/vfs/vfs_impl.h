/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of src/vfs share. Front ends have vfs.h. */
#pragma once

#include "vfs/vfs.h"

/* ---- op.c ---- */

/* vfs_op.release of an operation with op->data. */
void op_data_release(struct vfs_op *op);

/* ---- start.c ---- */

/* DELEGRETURN of that file has ended: OPENs that have waited for it are sent. */
void vfs_delegation_gone(struct vfs_lane *vl, const struct nfs_fh *fh);

/* op->call has shown that the name does not exist. nr: see ownchange_gone(). */
void vfs_name_gone(struct vfs_op *op, struct inode *dir, uint64_t nr, const char *name);
/* Nobody waits for op: what it has begun is put in order, and it ends. */
static inline bool vfs_unwanted(const struct vfs_op *op)
{
	return op->given_up || !op->waited;
}

/* ---- ask.c ---- */

/* op ends, and has attributes of op->ino unless it has failed. */
void ask_told(struct vfs_op *op);

/* ---- read.c ---- */

/* Sends a READ for op, or lets it wait for a buffer. */
void read_start(struct vfs_op *op);
/* Starts READs that wait for a buffer. false: some still wait. */
bool read_retry(struct vfs_lane *vl);

/* ---- write.c ---- */

/* Writes it with FILE_SYNC, and ends then. */
void write_through(struct vfs_op *op);

/* ---- delegations.c ---- */

/* Returns delegations that are due, if the lane has a connection. */
void delegations_return(struct vfs_lane *vl);
/* The same by a message to the lane. */
static inline void delegations_tell(struct vfs_lane *vl)
{
	if (vl->delegations_told)
		return;
	vl->delegations_told = true;
	loop_post(vl->lane->loop, &vl->delegations_msg);
}
void delegations_on_due(struct loop_msg *m);
/* If vl has no connection and another lane has one, that returns what was not sent, and what waits for
 * long. */
void delegations_move_all(struct vfs_lane *vl, uint64_t now_ns);

/* ---- copy.c ---- */

/* COMMIT goes with COPY up to so many bytes; from so many on the copy may go on behind the reply.
 * Variables for the tests. */
extern uint64_t copy_commits_max, copy_goes_on_min;

/* ---- silly.c ---- */

/* Before the members of op->rm are used; ino and ino2 may be set already. */
void op_remove_begins(struct vfs_op *op);
/* op will not end, because its lane has: frees what is malloc'ed. */
void op_remove_lost(struct vfs_op *op);
/* Is it a silly name of this mount, whatever became of it? */
bool silly_is_ours(const struct vfs *vfs, const char *name);
/* Makes a silly name in dir. No file has the name yet. NULL: no memory. */
struct silly *silly_new(struct vfs_op *op, struct inode *dir);
/* op->rm.victim has the name op->rm.silly now. The name is removed at the last close, or at once if
 * the file is closed already. old_gone: the file has lost its old name (rm.home_name). */
void silly_keep(struct vfs_op *op, bool old_gone);
/* rm.victim has, or may have, the name rm.silly and does not need it: REMOVE. */
void silly_drop(struct vfs_op *op);
/* Frees rm.silly. The server has no such name, or the name is to stay there. */
void silly_forget(struct vfs_op *op);
/*
 * op is going to remove a name of `ino` (a reference, which becomes op's; or NULL). If the
 * file is closed, or has a silly name already, op pins it: the name is removed plainly, and
 * no open of the file begins until silly_unpin(). Otherwise the file becomes rm.victim and
 * must get another name first.
 */
void silly_pin(struct vfs_op *op, struct inode *ino);
/* Call it before the end, so that the next open need not wait. */
void silly_unpin(struct vfs_op *op);
/* LINKs rm.victim as rm.silly. */
void silly_link(struct vfs_op *op, void (*done)(struct vfs_op *op));
/* Removes the silly name of a file that nobody has open any more, and frees s. */
void silly_remove(struct vfs_lane *vl, struct silly *s);
/* If vl has no connection and another lane has one, that removes the names: of those whose REMOVE
 * was not sent, and of those that wait for long. */
void silly_move_all(struct vfs_lane *vl, uint64_t now_ns);
/*
 * RENAME rm.home_name -> rm.silly may have happened, and that call or the next one has
 * failed with call.res.status. Gives rm.victim its name back. `after` runs with that
 * status and without rm.silly; or with status 0 and rm.silly, if rm.moved has the name.
 */
void silly_put_back(struct vfs_op *op, void (*after)(struct vfs_op *op));
/* Call it before sending a call that needs `dir` empty. NULL: the directory is not known. */
void silly_note(struct vfs_op *op, const struct inode *dir);
/* Call it when that call has ended. true: it has failed, and the directory had silly names
 * that may be gone soon. `again` is called when one is; otherwise op ends with the
 * status that it has. */
bool silly_wait(struct vfs_op *op, void (*again)(struct vfs_op *op));

/* ---- remove.c ---- */

/*
 * Whose name is (dir, name)? false: *ino's (a reference), or nobody's here (NULL). true: that
 * is not known, and LOOKUP of it is op's next call. If that has succeeded, done() gets the
 * same answer from remove_name_found().
 */
bool remove_name_asked(struct vfs_op *op, struct inode *dir, const char *name, struct inode **ino,
		       void (*done)(struct vfs_op *op));
struct inode *remove_name_found(struct vfs_op *op, struct inode *dir, const char *name);
/* Starts RENAME as op's next call. moved: the file that is called `name`, or NULL. */
void remove_start_rename(struct vfs_op *op, struct inode *from, const char *name, struct inode *to,
			 const char *newname, const struct inode *moved,
			 void (*done)(struct vfs_op *op));
