/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Silly names. A server frees a file when its last name is removed, but a file that is open
 * here must exist until the last close. So when an open file loses a name, it gets another
 * one, .nfsXXXX in the same directory. That is removed at the last close, as the kernel's
 * NFS client does.
 *
 *   silly_new         the operation has the name: nobody else knows of it, or removes it
 *        |
 *        |  the calls that give the file that name and remove the old one
 *        |
 *        +-- done    --> silly_keep: the inode has the name (opencount_set_silly) ...
 *        |                  ... last close: opencount_close, CLOSE, silly_remove
 *        |               the file is closed already: silly_remove at once
 *        +-- not done -> the file has the old name: silly_drop
 *        +-- unknown --> silly_put_back looks, and gives the file its old name back;
 *                        if it cannot, the file stays as .nfsXXXX and the log says so
 *
 * A name of a file that is not open is removed plainly. So is .nfsXXXX after the last
 * close, and another hard link of a file that has such a name. Nobody here knows which name
 * of a file is the last, and an open might come in between. So such a call pins the file
 * until its reply (silly_pin): see opencount.h.
 *
 * Users see these names, and may use them in calls of their own. What would take the name from
 * the file, or the file from the name, fails with EBUSY:
 *
 *   unlink(.nfs1)      the last close does it (the kernel's NFS client says EBUSY, too)
 *   rename(b, .nfs1)   the file would be gone, and the last close would remove b (the same)
 *   rename(.nfs1, b)   b could then be removed plainly, because the file seems to have another
 *                      name. The kernel's client allows it, and then loses sight of the file
 *   link(.nfs1, b)     is allowed: the file has one name more. So can a user have it back
 *
 * A name stays busy as a target for ever, because it may be about to be made or removed. As a
 * source it is busy as long as the inode has it: what was left as .nfs1, and the log says so,
 * can be renamed.
 *
 * A directory counts the silly names in it (nsilly), and those that are being removed
 * (nleaving: from the last close to REMOVE's reply). close() does not wait for the removal.
 * A call that needs the directory empty does: silly_note, silly_wait.
 *
 * If its lane has lost its connection for a while and another one has one, that removes the name:
 * opens of the file, and who removes the directory, would wait for ever. REMOVE may be executed
 * twice, and late, because no other file ever gets the name.
 *
 * If the daemon dies before the close, the .nfs file stays, as with any NFS client. The
 * same goes for a lane that ends in the middle of such a request.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "vfs/vfs_impl.h"

/* How long a silly name waits for CLOSE, if its lane has no connection and another one has. */
#define CLOSE_NS 5000000000ull
#define NAME_FORMAT ".nfs%016" PRIx64

/* ---- what an operation has of names that it removes ---- */

static void op_remove_release(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	const struct op_remove *rm = &op->rm;

	silly_unpin(op);
	if (rm->victim)
		inode_put(t, rm->victim, 1);
	if (rm->moved)
		inode_put(t, rm->moved, 1);
	if (rm->emptied)
		inode_put(t, rm->emptied, 1);
	opencount_silly_free(t, rm->silly);
}

void op_remove_begins(struct vfs_op *op)
{
	op->rm = (struct op_remove){ 0 };
	op->release = op_remove_release;
}

void op_remove_lost(struct vfs_op *op)
{
	if (op->release == op_remove_release)
		free(op->rm.silly);
}

/* ---- the life of a silly name ---- */

bool silly_is_ours(const struct vfs *vfs, const char *name)
{
	char start[32];
	int n = snprintf(start, sizeof(start), NAME_FORMAT, vfs->silly_seed);

	return strncmp(name, start, (size_t)n) == 0;
}

struct silly *silly_new(struct vfs_op *op, struct inode *dir)
{
	struct vfs *vfs = op->vl->vfs;
	struct silly *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	inode_ref(dir);
	s->dir = dir;
	atomic_fetch_add(&dir->nsilly, 1);
	s->cred = op->cred;
	snprintf(s->name, sizeof(s->name), NAME_FORMAT "%08x", vfs->silly_seed,
		 atomic_fetch_add(&vfs->silly_count, 1));
	return s;
}

static void silly_removed(struct vfs_op *op);

static void silly_send(struct vfs_lane *vl, struct silly *s)
{
	struct vfs_op *op = vfs_op_quiet(vl, NULL, &s->cred);

	if (!op) {
		log_warn("'%s' stays on the server: out of memory", s->name);
		opencount_silly_free(&vl->vfs->inodes, s);
		return;
	}
	op_remove_begins(op);
	op->rm.silly = s;
	op->call.args.fh = &s->dir->file.fh;
	op->call.args.name = s->name;
	vfs_start(op, NFS_OP_REMOVE, silly_removed);
}

static void on_silly_moved(struct loop_msg *m)
{
	silly_send(vfs_this_lane, container_of(m, struct silly, msg));
}

/* If vl has no connection, another lane removes it. Until its message is there nobody has it. */
void silly_remove(struct vfs_lane *vl, struct silly *s)
{
	struct vfs_lane *to = vfs_other_lane(vl);

	opencount_silly_leaves(s);
	s->msg.fn = on_silly_moved;
	if (to)
		loop_post(to->lane->loop, &s->msg);
	else
		silly_send(vl, s);
}

static void silly_removed(struct vfs_op *op)
{
	int status = op->call.res.status;

	if (status == -ENOTCONN) {      /* silly_move_all() */
		silly_remove(op->vl, op->rm.silly);
		op->rm.silly = NULL;
	} else if (status && status != -ENOENT) {
		log_warn("'%s' stays on the server: it could not be removed after its file was "
			 "closed: %s", op->rm.silly->name, strerror(-status));
	}
	vfs_op_free(op);
}

/* CLOSE stays: to end it is to forget its open. The name need not wait for it. */
static bool silly_leaves_lane(struct vfs_op *op, uint64_t now_ns)
{
	if (op->done == silly_removed)
		return vfs_leave_lane(&op->call, now_ns);
	if (op->call.op != NFS_OP_CLOSE || !op->rm.silly || now_ns - op->start_ns < CLOSE_NS)
		return false;
	silly_remove(op->vl, op->rm.silly);
	op->rm.silly = NULL;
	return true;
}

static bool silly_any_leaves(struct vfs_lane *vl, uint64_t now_ns)
{
	list_for_each_entry(struct vfs_op, op, &vl->active, node)
		if (op->calling && silly_leaves_lane(op, now_ns))
			return true;
	return false;
}

/* The list changes. */
void silly_move_all(struct vfs_lane *vl, uint64_t now_ns)
{
	while (vfs_other_lane(vl) && silly_any_leaves(vl, now_ns))
		;
}

void silly_keep(struct vfs_op *op, bool old_gone)
{
	/* The file was closed meanwhile, or another request has given it a silly name. Then no
	 * close will remove this one. */
	if (!opencount_set_silly(&op->vl->vfs->inodes, op->rm.victim, op->rm.home->id,
			     old_gone ? op->rm.home_name : NULL, op->rm.silly))
		silly_remove(op->vl, op->rm.silly);
	op->rm.silly = NULL;
}

void silly_drop(struct vfs_op *op)
{
	silly_remove(op->vl, op->rm.silly);
	op->rm.silly = NULL;
}

void silly_forget(struct vfs_op *op)
{
	opencount_silly_free(&op->vl->vfs->inodes, op->rm.silly);
	op->rm.silly = NULL;
}

/* ---- putting a file back ----
 *
 *   .nfs1 does not exist     the file was never moved
 *   a is the file            it has both names: REMOVE .nfs1
 *   a is what RENAME moves   it has replaced the file, whatever the server said
 *   a does not exist         LINK .nfs1 as a, REMOVE .nfs1
 *   a is another file        somebody has created it since: the file stays as .nfs1
 */

static void silly_put_back_ends(struct vfs_op *op)
{
	op->call.res.status = op->rm.saved;
	op->rm.after(op);
}

/* The file stays under its silly name. The log says where its data is. */
static void silly_stays(struct vfs_op *op, const char *are)
{
	log_err("cannot restore the name '%s': the file's data %s in the same directory as "
		"'%s'", op->rm.home_name, are, op->rm.silly->name);
	silly_forget(op);
	silly_put_back_ends(op);
}

static void silly_renamed_back(struct vfs_op *op)
{
	if (op->call.res.status) {
		silly_stays(op, "are");
		return;
	}
	/* RENAME between two names of one file does nothing, and another client may have made
	 * the second name. So the silly name may still exist. */
	silly_drop(op);
	silly_put_back_ends(op);
}

static void silly_start_link(struct vfs_op *op, const char *name, void (*done)(struct vfs_op *op))
{
	op->call.args.fh = &op->rm.victim->file.fh;
	op->call.args.fh2 = &op->rm.home->file.fh;
	op->call.args.name = name;
	vfs_start(op, NFS_OP_LINK, done);
}

/* LINK comes first, because RENAME would replace a file that somebody has created under that
 * name meanwhile. */
static void silly_linked_back(struct vfs_op *op)
{
	if (op->call.res.status == 0) {
		silly_drop(op);
		silly_put_back_ends(op);
	} else if (op->call.res.status == -EEXIST || vfs_maybe_done(op->call.res.status)) {
		silly_stays(op, "are");
	} else {                /* the server has no hard links */
		remove_start_rename(op, op->rm.home, op->rm.silly->name, op->rm.home, op->rm.home_name, op->rm.victim,
				silly_renamed_back);
	}
}

static bool silly_found(const struct vfs_op *op, const struct inode *ino)
{
	return ino && nfs_fh_same(&op->call.res.fh, &ino->file.fh);
}

static void silly_home_looked(struct vfs_op *op)
{
	if (op->call.res.status == -ENOENT) {
		silly_start_link(op, op->rm.home_name, silly_linked_back);
	} else if (op->call.res.status == 0 && silly_found(op, op->rm.victim)) {
		silly_drop(op);
		silly_put_back_ends(op);
	} else if (op->call.res.status == 0 && silly_found(op, op->rm.moved)) {
		op->rm.saved = 0;
		silly_put_back_ends(op);
	} else {
		silly_stays(op, "are");
	}
}

static void silly_start_lookup(struct vfs_op *op, const char *name, void (*done)(struct vfs_op *op))
{
	op->call.args.fh = &op->rm.home->file.fh;
	op->call.args.name = name;
	vfs_start(op, NFS_OP_LOOKUP, done);
}

static void silly_looked(struct vfs_op *op)
{
	if (op->call.res.status == 0) {
		silly_start_lookup(op, op->rm.home_name, silly_home_looked);
	} else if (op->call.res.status == -ENOENT) {
		silly_forget(op);
		silly_put_back_ends(op);
	} else {
		silly_stays(op, "may be");
	}
}

void silly_put_back(struct vfs_op *op, void (*after)(struct vfs_op *op))
{
	op->rm.saved = op->call.res.status;
	op->rm.after = after;
	silly_start_lookup(op, op->rm.silly->name, silly_looked);
}

void silly_link(struct vfs_op *op, void (*done)(struct vfs_op *op))
{
	silly_start_link(op, op->rm.silly->name, done);
}

/* ---- names that are removed plainly ---- */

void silly_pin(struct vfs_op *op, struct inode *ino)
{
	if (ino && opencount_pin(&op->vl->vfs->inodes, ino))
		op->rm.pinned = ino;
	else
		op->rm.victim = ino;
}

void silly_unpin(struct vfs_op *op)
{
	struct inode_table *t = &op->vl->vfs->inodes;

	if (!op->rm.pinned)
		return;
	opencount_unpin(t, op->rm.pinned);
	inode_put(t, op->rm.pinned, 1);
	op->rm.pinned = NULL;
}

/* ---- waiting until silly names are gone ---- */

/*
 * A front end may hear of a close() after that has returned. So a file that still seems to be open
 * may be closed already, and its silly name about to go. That is waited for so long.
 */
#define MAYBE_CLOSED_NS 1000000000ull

void silly_note(struct vfs_op *op, const struct inode *dir)
{
	if (!dir)
		return;
	/* In this order, because opencount_silly_free() changes them in the other order. */
	op->rm.wait.gone = atomic_load(&dir->silly_gone);
	op->rm.wait.left = atomic_load(&dir->nsilly);
	op->rm.wait.dir = dir;
}

static void on_silly_wait(struct loop_timer *t)
{
	struct vfs_op *op = container_of(t, struct vfs_op, call.eng.timer);
	const struct inode *dir = op->rm.wait.dir;

	if (!op->waited) {                  /* interrupted */
		vfs_end(op);
	} else if (atomic_load(&dir->silly_gone) != op->rm.wait.gone) {
		op->rm.wait.again(op);
	} else if (!atomic_load(&dir->nleaving) && mono_ns() > op->rm.wait.until_ns) {
		vfs_end(op);      /* all of these files are open */
	} else {
		vfs_wait_more(op);
	}
}

bool silly_wait(struct vfs_op *op, void (*again)(struct vfs_op *op))
{
	int rc = op->call.res.status;

	/* wait.left counts the names at the time when the call was sent. They may be gone now. */
	if ((rc != -ENOTEMPTY && rc != -EEXIST) || !op->rm.wait.dir || !op->rm.wait.left || !op->waited)
		return false;
	if (!op->rm.wait.until_ns)
		op->rm.wait.until_ns = mono_ns() + MAYBE_CLOSED_NS;
	op->rm.wait.again = again;
	op->wait_shift = 0;
	loop_timer_init(&op->call.eng.timer, on_silly_wait);
	on_silly_wait(&op->call.eng.timer);
	return true;
}
