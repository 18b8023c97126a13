/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: WRITE and COMMIT are sent. See behind.h. What COMMIT's reply means:
 * behind_lost.c. */
#include <errno.h>
#include "vfs/behind_impl.h"

/* ---- WRITE ---- */

static void write_done(struct vfs_op *op);

/* Sends what has not been written yet. */
static void send_rest(struct vfs_op *op)
{
	struct nfs_io_args *io = &op->call.args.io;
	size_t at = op->data.filled, left = op->data.held.len - at;

	io->offset = op->data.held.offset + at;
	io->unstable = !op->data.held.stable;
	io->ndata = 0;
	for (size_t n; left; left -= n, at += n) {
		char *mem = held_at(op, at, &n);

		n = n < left ? n : left;
		io->data[io->ndata++] = (struct rr_iov){ mem, (uint32_t)n };
	}
	vfs_start(op, NFS_OP_WRITE, write_done);
}

/* Is an older WRITE of some of the same bytes LOOSE? If the server loses that, it is sent
 * again, and then op has to follow it once more. */
static bool covers_loose_locked(const struct extents *x, const struct vfs_op *op)
{
	held_each(w, x->tree, op->data.held.offset, held_end(op))
		if (w->data.held.seq < op->data.held.seq &&
		    (w->data.held.state == HELD_LOOSE || w->data.held.state == HELD_COMMITTING))
			return true;
	return false;
}

/* The server has all of it. true: on stable storage. */
static bool written_locked(struct extents *x, struct vfs_op *op)
{
	struct held *h = &op->data.held;

	if (h->again || (h->loose && h->sent_ns <= x->doubt_ns)) {
		h->again = false;
		h->stable = true;
		behind_set_locked(x, op, HELD_DUE);
	} else if (h->loose || covers_loose_locked(x, op)) {
		h->firm = !h->loose;
		behind_set_locked(x, op, HELD_LOOSE);
	} else {
		behind_leave_locked(x, op);
		return true;
	}
	return false;
}

/* Closes op's file, if op was the last that used it. Whoever is told that op has gone should not
 * find the file open: unlink() would give it a silly name. */
static void close_file(struct vfs_op *op)
{
	struct file *f = op->file;

	op->file = NULL;
	file_put(vfs_this_lane, f);
}

static void end_sending(struct vfs_op *op, int status)
{
	struct inode *ino = op->ino;
	struct extents *x = extents_of(ino);
	bool over = true, now;

	inode_ref(ino);
	pthread_mutex_lock(&x->mu);
	if (status == -ENOTCONN) {
		op->data.held.again = over = false;   /* behind_move_all(): it was not sent */
		behind_set_locked(x, op, HELD_DUE);
	} else if (status) {
		behind_failed_locked(x, ino, status);
		behind_drop_locked(x, op);
		if (op->data.held.stable && op->call.eng.sent)
			behind_doubt_locked(x, op);
	} else {
		over = written_locked(x, op);
	}
	if (over)
		op->data.held.state = HELD_GONE;
	now = !op->data.held.posted;          /* otherwise when that message is here */
	pthread_mutex_unlock(&x->mu);
	if (status && over)
		behind_say_dropped(op, op->data.held.offset, op->data.held.len, status);
	if (over)
		close_file(op);
	if (over && now)
		behind_end(op);
	behind_progress(ino);
	inode_put(&vfs_this_lane->vfs->inodes, ino, 1);
}

static void write_done(struct vfs_op *op)
{
	const struct nfs_io_results *res = &op->call.res.io;

	if (op->call.res.status) {
		end_sending(op, op->call.res.status);
		return;
	}
	if (!res->stable) {
		op->data.held.mixed |= op->data.held.loose && res->verf != op->data.held.verf;
		op->data.held.loose = true;
		op->data.held.verf = res->verf;
	}
	op->data.filled += res->len;
	if (op->data.filled < op->data.held.len)
		send_rest(op);
	else
		end_sending(op, 0);
}

/* Must an older one be written first? */
static bool is_blocked_locked(const struct extents *x, const struct vfs_op *op)
{
	held_each(w, x->tree, op->data.held.offset, held_end(op))
		if (w->data.held.seq < op->data.held.seq && held_unsent(w))
			return true;
	return false;
}

static void post_locked(struct vfs_op *op)
{
	if (!op->data.held.posted)
		loop_post(op->vl->lane->loop, &op->data.held.msg);
	op->data.held.posted = true;
}

/* op, which is this lane's, goes to that lane. Until it is there no lane has it in a list. If it
 * has a message under way, it goes when that is here. */
static void move_locked(struct extents *x, struct vfs_op *op, struct vfs_lane *to)
{
	if (op->data.held.posted)
		return;
	list_del(&op->node);
	behind_set_locked(x, op, HELD_MOVES);
	op->vl = to;
	post_locked(op);
}

/* Tells other lanes to send theirs. Returns one of this lane, which is SENDING now; NULL:
 * there is none. */
static struct vfs_op *next_locked(struct extents *x)
{
	struct vfs_lane *to = vfs_other_lane(vfs_this_lane);

	list_for_each_safe(n, tmp, &x->in[HELD_DUE]) {
		struct vfs_op *op = held_of(n);

		if (op->data.held.state != HELD_DUE || is_blocked_locked(x, op))
			continue;
		if (op->vl != vfs_this_lane) {
			post_locked(op);
		} else if (to) {
			move_locked(x, op, to);
		} else {
			behind_set_locked(x, op, HELD_SENDING);
			op->data.held.sent_ns = mono_ns();
			return op;
		}
	}
	return NULL;
}

/* ---- COMMIT ---- */

/* WRITEs that have gone may be freed by their lanes. */
static void let_go(struct extents *x, struct list *gone)
{
	list_for_each(n, gone)
		close_file(held_of(n));
	pthread_mutex_lock(&x->mu);
	for (struct list *n; (n = list_pop(gone)); ) {
		struct vfs_op *op = held_of(n);

		op->data.held.state = HELD_GONE;
		post_locked(op);
	}
	pthread_mutex_unlock(&x->mu);
}

/* COMMIT was not sent, and goes by another lane, see behind_move_all(). */
static void uncommit_locked(struct extents *x)
{
	while (!list_empty(&x->in[HELD_COMMITTING]))
		behind_set_locked(x, held_first(&x->in[HELD_COMMITTING]), HELD_LOOSE);
	x->commit_wanted = true;
}

/* A moving average, in which the newest one counts for a quarter. It is about the server's disk, so
 * what COMMIT has waited for before it was sent does not count. */
static void behind_send_measure(struct behind_pool *p, const struct vfs_op *q)
{
	uint64_t old = atomic_load_explicit(&p->commit_ns, memory_order_relaxed);
	uint64_t took = mono_ns() - q->call.eng.rr.posted_ns;

	atomic_store_explicit(&p->commit_ns, old ? old - old / 4 + took / 4 : took,
			      memory_order_relaxed);
}

static void commit_done(struct vfs_op *q)
{
	struct inode *ino = q->ino;
	struct extents *x = extents_of(ino);
	struct list gone;

	list_init(&gone);
	if (q->call.eng.sent && q->call.res.status != -ENOTCONN)
		behind_send_measure(&q->vl->vfs->behind, q);
	pthread_mutex_lock(&x->mu);
	x->committing = false;
	if (q->call.res.status == -ENOTCONN && !q->call.eng.sent)
		uncommit_locked(x);
	else
		behind_sort_out_locked(x, q, &gone);
	pthread_mutex_unlock(&x->mu);
	let_go(x, &gone);
	behind_progress(ino);
	vfs_op_free(q);
}

/*
 * Is so much LOOSE that a COMMIT should begin, if writers are not to wait for its end? That is
 * when 5/8 of the room are taken: what is left is for what they write meanwhile. Several files
 * share the room: each one begins that has a fair part of it, most of it LOOSE. Where COMMITs take
 * their time there is no need as long as the room grows: each one is a flush of the disk.
 */
static bool is_much_locked(const struct extents *x, const struct behind_pool *p)
{
	/* Each WRITE has a MID buffer at least. */
	if (x->loose[ARENA_MID] * 2 <= x->taken[ARENA_MID] || !behind_rather_commits(p))
		return false;
	for (int cls = ARENA_MID; cls <= ARENA_BIG; cls++) {
		unsigned most = p->most[cls], taken = p->taken[cls];

		if (x->loose[cls] && taken >= most - most * 3 / 8 &&
		    (taken >= most || x->loose[cls] * 4 >= most - taken))
			return true;
	}
	return false;
}

/* Is a COMMIT to be sent now? */
static bool commit_is_due_locked(const struct extents *x, const struct behind_pool *p, bool waits)
{
	if (x->committing || list_empty(&x->in[HELD_LOOSE]))
		return false;
	if (waits || is_much_locked(x, p))
		return true;
	/* One COMMIT for all that is on its way. */
	return list_empty(&x->in[HELD_SENDING]) &&
	       (x->commit_wanted || (atomic_load(&p->nwaiting) && behind_rather_commits(p)));
}

/* COMMIT of the whole file covers what is LOOSE now. Its credentials are those of a WRITE. */
static void begin_commit_locked(struct extents *x, struct rpc_cred *cred)
{
	x->committing = true;
	x->commit_wanted = false;
	*cred = held_of(x->in[HELD_LOOSE].next)->cred;
	while (!list_empty(&x->in[HELD_LOOSE]))
		behind_set_locked(x, held_first(&x->in[HELD_LOOSE]), HELD_COMMITTING);
}

static void send_commit(struct inode *ino, const struct rpc_cred *cred)
{
	struct extents *x = extents_of(ino);
	struct vfs_op *q = vfs_op_quiet(vfs_this_lane, ino, cred);

	if (!q) {               /* no memory; the clock tries again */
		pthread_mutex_lock(&x->mu);
		x->committing = false;
		uncommit_locked(x);
		pthread_mutex_unlock(&x->mu);
		return;
	}
	q->call.args.io.offset = 0;
	q->call.args.io.count = 0;
	stat_add(&q->vl->lane->stats, STAT_BEHIND_COMMITS, 1);
	vfs_start(q, NFS_OP_COMMIT, commit_done);
}

static void on_passed_on(struct loop_msg *m)
{
	struct extents *x = container_of(m, struct extents, msg);
	struct inode *ino = x->ino;

	pthread_mutex_lock(&x->mu);
	x->posted = false;
	pthread_mutex_unlock(&x->mu);
	behind_progress(ino);
	inode_put(&vfs_this_lane->vfs->inodes, ino, 1);
}

/* This lane has no connection: another one sends COMMIT, if there is one that can. */
static bool passed_on_locked(struct extents *x)
{
	struct vfs_lane *to = vfs_other_lane(vfs_this_lane);

	if (!to)
		return false;
	if (!x->posted) {
		inode_ref(x->ino);
		x->msg.fn = on_passed_on;
		loop_post(to->lane->loop, &x->msg);
	}
	x->posted = true;
	return true;
}

/* ---- lanes without a connection ---- */

static bool take_back(struct vfs_op *op, uint64_t now_ns)
{
	return op->done == commit_done ? vfs_leave_lane(&op->call, now_ns) :
	       op->done == write_done && nfs_take_back(&op->call, -ENOTCONN);
}

static bool move_one(struct vfs_lane *vl, uint64_t now_ns)
{
	list_for_each(n, &vl->active) {
		struct vfs_op *op = container_of(n, struct vfs_op, node);

		if (op->calling && take_back(op, now_ns))
			return true;
	}
	return false;
}

void behind_move_all(struct vfs_lane *vl, uint64_t now_ns)
{
	/* `active` changes. If the other lane loses its connection meanwhile, what is taken back is
	 * in this lane's queue again. */
	while (vfs_other_lane(vfs_this_lane) && move_one(vl, now_ns))
		;
}

/* ---- progress ---- */

void behind_progress(struct inode *ino)
{
	struct vfs *vfs = vfs_this_lane->vfs;
	struct extents *x = extents_of(ino);
	struct rpc_cred cred;
	struct vfs_op *op;
	bool commit;

	inode_ref(ino);
	do {
		pthread_mutex_lock(&x->mu);
		op = next_locked(x);
		commit = !op && commit_is_due_locked(x, &vfs->behind, behind_wake_locked(x)) &&
			 !passed_on_locked(x);
		if (commit)
			begin_commit_locked(x, &cred);
		pthread_mutex_unlock(&x->mu);
		if (op) {
			op->data.filled = 0;
			op->data.held.loose = op->data.held.mixed = false;
			send_rest(op);
		}
	} while (op);
	if (commit)
		send_commit(ino, &cred);
	inode_put(&vfs->inodes, ino, 1);
}

void behind_doubt(const struct vfs_op *failed)
{
	struct extents *x = extents_of(failed->ino);

	if (!failed->call.eng.sent || !x || !atomic_load(&x->count))
		return;
	pthread_mutex_lock(&x->mu);
	behind_doubt_locked(x, failed);
	pthread_mutex_unlock(&x->mu);
	behind_progress(failed->ino);
}

void behind_on_msg(struct loop_msg *m)
{
	struct vfs_op *op = container_of(m, struct vfs_op, data.held.msg);
	struct inode *ino = op->ino;
	struct extents *x = extents_of(ino);
	bool gone;

	pthread_mutex_lock(&x->mu);
	op->data.held.posted = false;
	gone = op->data.held.state == HELD_GONE;
	if (op->data.held.state == HELD_MOVES) {
		list_add_tail(&op->vl->active, &op->node);
		behind_set_locked(x, op, HELD_DUE);
	}
	pthread_mutex_unlock(&x->mu);
	if (gone)
		behind_end(op);
	else
		behind_progress(ino);
}
