/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The calls of operations: what has to be on the server before one (nfs/ops.h, behind.h), whose
 * turn it is, and what it changes (ownchange.h).
 *
 *   vfs_start --> what was written is on the server --> in its turn --> op_changes_begin, nfs_start
 *                                                                            |
 *   op->done <-------------------------------------------- op_changes_end <--+
 *
 * Operations are given up when their process is killed.
 *
 * While an operation changes an inode, the kernel holds that inode's lock. So the server
 * executes changes of one inode in the order in which programs made them. The answer to one
 * that is given up (EINTR) ends the lock. But its call may be at the
 * server, or wait for a new connection to be sent again. If it was executed late, old data
 * would replace newer data that fsync() has promised, and a late REMOVE would remove a new file
 * that has got the name since.
 *
 *   nothing sent yet    the call is taken back, or never started: the server does not
 *                       hear of the change
 *   sent                the operation takes over the kernel's lock: it *holds* its inodes
 *                       until it is freed, or says that its change is over. Others that
 *                       change one of them wait.
 *
 * Who waits, and for whom: an operation waits before the first call that changes something
 * (vfs_in_turn), and only for those that hold. One that holds has sent such a call,
 * so it never waits here. So there is no deadlock. What reads is never held up.
 *
 * Threads: `held` is counted before the answer leaves, and the kernel starts nothing
 * under that lock before it has the answer. So any lane that gets one sees the count.
 */
#include <errno.h>
#include <fcntl.h>
#include "vfs/promised.h"
#include "vfs/vfs_impl.h"

/* Does this call change a file or a directory? */
static bool op_is_change(const struct nfs_call *c)
{
	return nfs_effects(c->op) & NFS_CHANGES;
}

/* ---- whose turn it is ---- */

static bool turn_is_held(const struct vfs_op *op)
{
	return (op->ino && atomic_load(&op->ino->held)) || (op->ino2 && atomic_load(&op->ino2->held));
}

static void on_turn(struct loop_timer *t)
{
	struct vfs_op *op = container_of(t, struct vfs_op, call.eng.timer);

	vfs_in_turn(op, op->go);
}

void vfs_in_turn(struct vfs_op *op, void (*go)(struct vfs_op *op))
{
	if (op->given_up || op->changes || !turn_is_held(op)) {
		go(op);
		return;
	}
	op->go = go;
	loop_timer_init(&op->call.eng.timer, on_turn);
	vfs_wait_more(op);
}

/* ---- delegations ---- */

/* Is nothing of that decided by who may open the file, or by its names? */
static bool op_changes_data_only(const struct nfs_call *c)
{
	switch (c->op) {
	case NFS_OP_SETATTR:
		return !(c->args.sattr.valid & ~(unsigned)NFS_SET_DATA);
	case NFS_OP_OPEN:
	case NFS_OP_WRITE:
	case NFS_OP_ALLOCATE:
	case NFS_OP_DEALLOCATE:
	case NFS_OP_CLONE:      /* COPY may go on when its call has ended */
		return true;
	default:
		return false;
	}
}

/* op's call is going to change the file, or opens it for that: many servers let such a call wait until they
 * have the file's delegation back, even if it comes from who has that. One to write is for what changes data. */
static void op_undelegates(struct vfs_op *op, const struct inode *ino)
{
	if (nfs_delegation_writes(atomic_load(&ino->file.delegation)) && op_changes_data_only(&op->call))
		return;
	if (nfs_undelegate(&op->vl->vfs->cl->server, &ino->file))
		delegations_return(op->vl);
}

static void op_undelegates_name(struct vfs_op *op, const struct inode *dir, const char *name)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	struct inode *ino = inode_find(t, dir->id, name);

	if (!ino)
		return;
	op_undelegates(op, ino);
	inode_put(t, ino, 1);
}

/* ---- what a call changes ---- */

/* The handles in a change's call are those of inodes. */
static struct inode *op_inode_of(const struct nfs_fh *fh)
{
	return container_of((struct nfs_fh *)(uintptr_t)fh, struct inode, file.fh);
}

static void op_change_begins(struct vfs_op *op, unsigned i, const struct nfs_fh *fh)
{
	struct inode *ino = op_inode_of(fh);

	op->change[i].ino = ino;
	if (nfs_effects(op->call.op) & NFS_CHANGES_DATA)
		ahead_change_begins(ino);
	op->change[i].nr = ownchange_change_begins(&op->vl->vfs->inodes, ino);
	if (!S_ISDIR(ino->type) || nfs_effects(op->call.op) & NFS_CHANGES_DATA)
		op_undelegates(op, ino);
}

/* The files with the names that the call takes away. */
static void op_names_begin(struct vfs_op *op, unsigned effects)
{
	const struct nfs_call *c = &op->call;

	if (!op->vl->vfs->cl->cfg.delegations)
		return;
	op_undelegates_name(op, op_inode_of(c->args.fh), c->args.name);
	if (effects & NFS_ADDS_NAME2)
		op_undelegates_name(op, op_inode_of(c->args.fh2), c->args.name2);
}

static void op_changes_begin(struct vfs_op *op)
{
	const struct nfs_call *c = &op->call;
	unsigned effects = nfs_effects(c->op);
	bool two = effects & NFS_CHANGES_FH2;

	if (!two || c->args.fh != c->args.fh2)
		op_change_begins(op, 0, c->args.fh);
	if (two)
		op_change_begins(op, 1, c->args.fh2);
	if (effects & (NFS_ADDS_NAME | NFS_ADDS_NAME2))
		ownchange_here(&op->vl->vfs->inodes, op_inode_of(two ? c->args.fh2 : c->args.fh)->id,
			   effects & NFS_ADDS_NAME ? c->args.name : c->args.name2);
	if (effects & NFS_DROPS_NAME)
		op_names_begin(op, effects);
}

/* May the server have executed it, or do so yet? An operation that leaves its lane sends it again. */
static bool op_has_no_answer(const struct nfs_call *c)
{
	return vfs_maybe_done(c->res.status) || c->res.status == -ENOTCONN;
}

/* Ends op->change[i]. */
static void op_change_ends(struct vfs_op *op, unsigned i)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	const struct nfs_call *c = &op->call;
	struct inode *ino = op->change[i].ino;
	bool data = nfs_effects(c->op) & NFS_CHANGES_DATA;
	struct ownchange_after a = { .since_ns = c->eng.start_ns, .unanswered = op_has_no_answer(c) };

	op->change[i].ino = NULL;
	if (data)
		ahead_change_ends(ino);
	else if (S_ISDIR(ino->type))
		atomic_store(&ino->entries_ns, mono_ns());      /* dirstream.h */
	if (c->res.status == 0 && data) {
		a.attr = c->res.has_attr ? &c->res.attr : NULL;
		a.change = &c->res.dir_change[0];
		a.end = c->op == NFS_OP_WRITE ? c->args.io.offset + c->res.io.len : 0;
	} else if (c->res.status == 0) {
		/* RENAME within one directory is its one change, the second. */
		a.attr = c->res.has_dir_attr[i] ? &c->res.dir_attr[i] : NULL;
		a.no_owner = c->res.dir_no_owner;
		a.change = &c->res.dir_change[i];
	}
	inode_lock(t, ino);
	if (op->vl->vfs->cl->cfg.delegations)
		promised_changed_locked(ino, op->change[i].nr, &a);
	ownchange_change_ends_locked(t, ino, op->change[i].nr, &a);
	inode_unlock(t, ino);
}

/* For a call that removes or moves a name. nr: the change of the name's directory. */
static void op_name_ends(struct vfs_op *op, uint64_t nr)
{
	struct inode_table *t = &op->vl->vfs->inodes;
	const struct nfs_call *c = &op->call;

	ownchange_changed(t, op_inode_of(c->args.fh)->id, c->args.name, op_has_no_answer(c));
	if (nfs_effects(c->op) & NFS_ADDS_NAME2)
		ownchange_changed(t, op_inode_of(c->args.fh2)->id, c->args.name2, op_has_no_answer(c));
	if (c->res.status == 0)
		vfs_name_gone(op, op_inode_of(c->args.fh), nr, c->args.name);
}

/* Not in line, or it makes the end of each READ dearer. */
static void __attribute__((noinline)) op_changes_end(struct vfs_op *op)
{
	bool first = op->change[0].ino;

	for (unsigned i = 0; i < 2; i++)
		if (op->change[i].ino)
			op_change_ends(op, i);
	if (nfs_effects(op->call.op) & NFS_DROPS_NAME)
		op_name_ends(op, op->change[first ? 0 : 1].nr);
}

void vfs_name_gone(struct vfs_op *op, struct inode *dir, uint64_t nr, const char *name)
{
	struct inode_table *t = &op->vl->vfs->inodes;

	ownchange_gone(t, dir, nr, name, op->call.eng.start_ns + (uint64_t)(t->negative_timeo * 1e9));
}

/* ---- calls ---- */

static void on_call_done(struct nfs_call *c)
{
	struct vfs_op *op = container_of(c, struct vfs_op, call);
	struct vfs_lane *vl = op->vl;

	op->calling = false;
	if (op->change[0].ino || op->change[1].ino)
		op_changes_end(op);
	else if (c->op == NFS_OP_READ && atomic_load(&op->ino->file.delegation))
		promised_read(op->ino);
	vl->answered_ns = nfs_call_sent_ns(c);
	op->done(op);
	vl->answered_ns = 0;
}

/* nfs_args.file.get */
static struct nfs_file *op_file(struct nfs_call *c, const struct nfs_fh *fh)
{
	struct vfs_op *op = container_of(c, struct vfs_op, call);

	return c->op == NFS_OP_OPEN ? nfs_file_ref(&op->ino->file) :
				      inode_file(&op->vl->vfs->inodes, fh);
}

/* true: the file is open already. Not in line, or it makes each call dearer. */
static bool __attribute__((noinline)) op_opens_here(struct vfs_op *op)
{
	op->call.res.open = (struct nfs_open_results){ 0 };
	op->quiet = ownchange_changes(&op->vl->vfs->inodes, op->ino);
	if (!promised_opens(op))
		return false;
	op->done(op);
	return true;
}

/* How often a timer looks whether a delegation has gone back; all together 80 ms. */
#define RETURN_LOOKS 8u

static void op_send(struct vfs_op *op);

static void op_open_goes_on(struct vfs_op *op)
{
	loop_timer_clear(&op->call.eng.timer);
	op->awaits_return = false;
	op_send(op);
}

static void on_return_look(struct loop_timer *t)
{
	op_open_goes_on(container_of(t, struct vfs_op, call.eng.timer));
}

/* An OPEN that writes, of a file with a delegation to read. That goes back first: then OPEN can ask for one to
 * write. Many programs look at a file, and then open it to write. */
static bool op_awaits_return(struct vfs_op *op)
{
	if ((op->call.args.file.flags & O_ACCMODE) == O_RDONLY || op->return_looks >= RETURN_LOOKS)
		return false;
	op_undelegates(op, op->ino);
	if (!nfs_delegation_leaves(&op->vl->vfs->cl->server, &op->ino->file))
		return false;
	op->return_looks++;
	op->awaits_return = true;
	loop_timer_init(&op->call.eng.timer, on_return_look);
	vfs_wait_more(op);
	return true;
}

static struct vfs_op *open_that_awaits(const struct vfs_lane *vl, const struct nfs_fh *fh)
{
	list_for_each_entry(struct vfs_op, op, &vl->active, node)
		if (op->awaits_return && &op->ino->file.fh == fh)
			return op;
	return NULL;
}

void vfs_delegation_gone(struct vfs_lane *vl, const struct nfs_fh *fh)
{
	struct vfs_op *op;

	while ((op = open_that_awaits(vl, fh)))
		op_open_goes_on(op);
}

static void on_lock_later(struct loop_timer *t)
{
	op_send(container_of(t, struct vfs_op, call.eng.timer));
}

/* true: it has no call, or not now. It waits for as long as locks of the file go to the server: whoever gives
 * it up has what becomes of it undone (locks.h). */
static bool __attribute__((noinline)) op_locks(struct vfs_op *op)
{
	op->call.res.lock.under = 0;
	switch (nfs_lock_here(&op->vl->vfs->cl->server, &op->call)) {
	case NFS_LOCK_SENT:
		return false;
	case NFS_LOCK_HERE:
		op->call.res.has_attr = false;
		stat_add(&op->vl->lane->stats, STAT_LOCKS_GRANTED, op->call.res.lock.under && !op->call.res.status);
		op->done(op);
		break;
	case NFS_LOCK_LATER:
		loop_timer_init(&op->call.eng.timer, on_lock_later);
		vfs_wait_more(op);
		delegations_return(op->vl);
		break;
	}
	return true;
}

/* true: op has no call, or not now. */
static bool op_waits_or_ends(struct vfs_op *op)
{
	switch (op->call.op) {
	case NFS_OP_OPEN:
		if (op_awaits_return(op))
			return true;
		op->call.args.file.get = op_file;
		op->asked_ns = mono_ns();
		return op_opens_here(op);
	case NFS_OP_CREATE:
		op->call.args.file.get = op_file;
		return false;
	case NFS_OP_SETATTR:
		op->asked_ns = mono_ns();
		return false;
	case NFS_OP_LOCK:
	case NFS_OP_LOCKT:
	case NFS_OP_LOCKU:
		return op_locks(op);
	default:
		return false;
	}
}

static void op_send(struct vfs_op *op)
{
	if (op_waits_or_ends(op))
		return;
	op->calling = true;
	nfs_start(op->vl->lane, &op->call);
}

/* An operation that was given up before it has changed anything changes nothing any more. */
static void op_send_change(struct vfs_op *op)
{
	if (op->given_up && !op->changes) {
		op->call.res.status = -EINTR;
		op->done(op);
		return;
	}
	op->changes++;
	op_changes_begin(op);
	op_send(op);
}

static void op_send_in_turn(struct vfs_op *op)
{
	if (op_is_change(&op->call))
		vfs_in_turn(op, op_send_change);
	else
		op_send(op);
}

/* What op's call must not overtake: NULL, or an inode for behind_settle(). */
static struct inode *op_settles(const struct vfs_op *op, unsigned effects)
{
	/* A call in the middle of a change that has begun. */
	if (op->changes)
		return NULL;
	if (effects & NFS_AFTER_HELD)
		return op->ino;
	return effects & NFS_AFTER_HELD_OF_NAME ? op->rm.pinned : NULL;
}

static void op_settle2(struct vfs_op *op)
{
	behind_settle(op, op->changes ? NULL : op->ino2, true, op_send_in_turn);
}

void vfs_start(struct vfs_op *op, enum nfs_op number, void (*done)(struct vfs_op *op))
{
	unsigned effects = nfs_effects(number);

	op->done = done;
	op->call.op = number;
	op->call.done = on_call_done;
	op->call.cred = &op->cred;
	if (!op->call.args.fh)
		op->call.args.fh = &op->ino->file.fh;
	behind_settle(op, op_settles(op, effects), effects & NFS_AFTER_STABLE,
		      effects & NFS_AFTER_HELD2 ? op_settle2 : op_send_in_turn);
}

/* ---- given up ---- */

/* Only the first call that changes something is taken back. A later one is part of a
 * change that has begun, or puts things in order. */
static bool turn_take_back(struct vfs_op *op)
{
	return op->calling && op->changes <= op_is_change(&op->call) && nfs_take_back(&op->call, -EINTR);
}

bool vfs_give_up(struct vfs_op *op)
{
	op->given_up = true;
	if (op->pause_ends && !op->goes_on) {
		op->pause_ends(op);
		return true;
	}
	if (behind_give_up(op) || (!op->goes_on && turn_take_back(op)))
		return true;
	if (op->changes && !op->holds)
		vfs_hold(op);
	op->waited = false;
	return false;
}
