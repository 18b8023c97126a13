/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: WRITE and COMMIT. See behind.h. */
#include <errno.h>
#include <inttypes.h>
#include "vfs/behind_impl.h"

/* A LOOKUP that was sent before a WRITE left is answered within this time, nearly always. If
 * another client cuts the file, we stop believing the old size after twice as long. */
#define LATE_REPLY_NS 60000000000ull

/* ---- lists ---- */

static bool is_listed(enum held_state s)
{
	return s >= HELD && s <= HELD_COMMITTING;
}

/* Counts op's buffers as LOOSE, or no longer. */
static void count_loose_locked(struct behind *b, const struct vfs_op *op, int n)
{
	for (unsigned i = 0; i < RR_SEND_IOV && op->data.buf[i]; i++)
		b->loose[op->data.buf[i]->cls] += (unsigned)n;
}

/* Calls end nearly in the order of seq, so op's place is near the end. */
void behind_set_locked(struct behind *b, struct vfs_op *op, enum held_state state)
{
	struct list *l = &b->in[state == HELD_MOVES ? HELD_DUE : state], *n;

	if (is_listed(op->data.held.state))
		list_del(&op->data.held.node);
	if (op->data.held.state == HELD_LOOSE)
		count_loose_locked(b, op, -1);
	op->data.held.state = state;
	if (state == HELD_LOOSE)
		count_loose_locked(b, op, 1);
	if (!is_listed(state))
		return;
	for (n = l->prev; n != l && held_of(n)->data.held.seq > op->data.held.seq; )
		n = n->prev;
	list_add_head(n, &op->data.held.node);
}

void behind_want_locked(struct behind *b, struct vfs_op *op)
{
	behind_set_locked(b, op, HELD_DUE);
}

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

/* Off the file's lists. It gets that state when its lane may free it. */
static void drop_locked(struct behind *b, struct vfs_op *op)
{
	behind_set_locked(b, op, HELD_NOT);
	held_remove(&b->tree, op);
	atomic_fetch_sub(&b->count, 1);
	ahead_change_ends(op->ino);
}

/* The same, because the data is on stable storage. */
static void leave_locked(struct behind *b, struct vfs_op *op)
{
	uint64_t now = mono_ns();

	if (now - b->left_from_ns > LATE_REPLY_NS) {
		b->left_end_before = b->left_end;
		b->left_end = 0;
		b->left_from_ns = now;
	}
	if (b->left_end < held_end(op))
		b->left_end = held_end(op);
	op->vl->vfs->front->written(op->ino, held_end(op));
	atomic_store(&b->left_ns, now); /* before there are none: behind_since() */
	drop_locked(b, op);
}

/* Is an older WRITE of some of the same bytes LOOSE? If the server loses that, it is sent
 * again, and then op has to follow it once more. */
static bool covers_loose_locked(const struct behind *b, const struct vfs_op *op)
{
	held_each(w, b->tree, op->data.held.offset, held_end(op))
		if (w->data.held.seq < op->data.held.seq &&
		    (w->data.held.state == HELD_LOOSE || w->data.held.state == HELD_COMMITTING))
			return true;
	return false;
}

/* The server has all of it. true: on stable storage. */
static bool written_locked(struct behind *b, struct vfs_op *op)
{
	struct held *h = &op->data.held;

	if (h->again) {
		h->again = false;
		behind_want_locked(b, op);
	} else if (h->loose || covers_loose_locked(b, op)) {
		h->firm = !h->loose;
		behind_set_locked(b, op, HELD_LOOSE);
	} else {
		leave_locked(b, op);
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
	struct behind *b = behind_of(ino);
	bool over = true, now;

	inode_ref(ino);
	pthread_mutex_lock(&b->mu);
	if (status == -ENOTCONN) {
		op->data.held.again = over = false;   /* behind_move_all(): it was not sent */
		behind_want_locked(b, op);
	} else if (status) {
		behind_failed_locked(b, ino, status);
		drop_locked(b, op);
	} else {
		over = written_locked(b, op);
	}
	if (over)
		op->data.held.state = HELD_GONE;
	now = !op->data.held.posted;          /* otherwise when that message is here */
	pthread_mutex_unlock(&b->mu);
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
static bool is_blocked_locked(const struct behind *b, const struct vfs_op *op)
{
	held_each(w, b->tree, op->data.held.offset, held_end(op))
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
static void move_locked(struct behind *b, struct vfs_op *op, struct vfs_lane *to)
{
	if (op->data.held.posted)
		return;
	list_del(&op->node);
	behind_set_locked(b, op, HELD_MOVES);
	op->vl = to;
	post_locked(op);
}

/* Tells other lanes to send theirs. Returns one of this lane, which is SENDING now; NULL:
 * there is none. */
static struct vfs_op *next_locked(struct behind *b)
{
	struct vfs_lane *to = vfs_other_lane(vfs_this_lane);

	list_for_each_safe(n, tmp, &b->in[HELD_DUE]) {
		struct vfs_op *op = held_of(n);

		if (op->data.held.state != HELD_DUE || is_blocked_locked(b, op))
			continue;
		if (op->vl != vfs_this_lane) {
			post_locked(op);
		} else if (to) {
			move_locked(b, op, to);
		} else {
			behind_set_locked(b, op, HELD_SENDING);
			op->data.held.sent_ns = mono_ns();
			return op;
		}
	}
	return NULL;
}

/* ---- COMMIT ---- */

/*
 * What the server has lost is sent again, and whatever is newer and overlaps it.
 *
 * A COMMIT that fails does not say what it failed for: knfsd reports an error of the disk once, to
 * whoever asks first, and may have dropped the data or kept it. The next COMMIT succeeds, also
 * without the data. So everything that it was for counts as lost, and goes again with FILE_SYNC:
 * what the server answers to that is about these very bytes. A full disk is ENOSPC then. WRITEs
 * that it was not for may have been executed before it, and share its fate. The same goes for a
 * COMMIT that was sent, and ended here without its reply (vfs_leave_lane()), or was executed once
 * more because the first reply did not come: that may have said that it failed.
 */
static bool may_have_failed(const struct vfs_op *q)
{
	return q->call.res.status || q->call.res.io.twice;
}

static bool is_lost(const struct held *h, const struct vfs_op *q)
{
	return !h->firm && (may_have_failed(q) || h->mixed || h->verf != q->call.res.io.verf);
}

static void lose_locked(struct vfs_op *op, struct list *lost)
{
	if (op->data.held.lost)
		return;
	op->data.held.lost = true;
	list_add_tail(lost, &op->data.held.pick_node);
}

static struct vfs_op *lost_of(struct list *n)
{
	return container_of(n, struct vfs_op, data.held.pick_node);
}

static void find_lost_locked(struct behind *b, const struct vfs_op *q, struct list *lost)
{
	list_for_each(n, &b->in[HELD_COMMITTING])
		if (is_lost(&held_of(n)->data.held, q))
			lose_locked(held_of(n), lost);
	if (may_have_failed(q)) {
		list_for_each(n, &b->in[HELD_LOOSE])
			if (is_lost(&held_of(n)->data.held, q))
				lose_locked(held_of(n), lost);
		list_for_each(n, &b->in[HELD_SENDING])
			lose_locked(held_of(n), lost);
	}
	/* The list grows meanwhile. */
	list_for_each(n, lost) {
		const struct vfs_op *op = lost_of(n);

		held_each(w, b->tree, op->data.held.offset, held_end(op))
			if (w->data.held.seq > op->data.held.seq)
				lose_locked(w, lost);
	}
}

/* op goes to `gone`, until its lane may free it. */
static void take_out_locked(struct behind *b, struct vfs_op *op, bool failed, struct list *gone)
{
	if (failed)
		drop_locked(b, op);
	else
		leave_locked(b, op);
	list_add_tail(gone, &op->data.held.node);
}

static bool tried_enough_locked(struct behind *b, const struct vfs_op *q, const struct vfs_op *op)
{
	int status = q->call.res.status;

	if (op->data.held.state != HELD_COMMITTING || op->data.held.tries < BEHIND_TRIES_MAX)
		return false;
	log_err("WRITE: %s %s each COMMIT: EIO after %u tries", q->vl->vfs->cl->cfg.server,
		status ? "returns an error for" : "sends another write verifier, as if it had "
		"restarted, with", op->data.held.tries);
	behind_failed_locked(b, q->ino, status ? status : -EIO);
	return true;
}

/* The server has lost op. true: it is sent again by progress. */
static bool send_again_locked(struct behind *b, const struct vfs_op *q, struct vfs_op *op,
			      struct list *gone)
{
	struct held *h = &op->data.held;

	h->lost = false;
	if (h->state == HELD_SENDING)
		h->again = true;
	if (h->state != HELD_LOOSE && h->state != HELD_COMMITTING)
		return false;
	if (tried_enough_locked(b, q, op)) {
		take_out_locked(b, op, true, gone);
		return false;
	}
	h->stable = true;
	h->tries++;
	behind_want_locked(b, op);
	return true;
}

static const char *what_happened(const struct vfs_op *q)
{
	if (q->call.res.status == -ENOTCONN)
		return "has not answered a COMMIT, and the connection stays lost";
	if (!q->call.res.status && q->call.res.io.twice)
		return "did not answer the first sending of a COMMIT, which may have failed";
	return "has restarted, or could not write to its disk";
}

static void sort_out_locked(struct behind *b, const struct vfs_op *q, struct list *gone)
{
	unsigned again = 0;
	struct list lost;

	list_init(&lost);
	find_lost_locked(b, q, &lost);
	list_for_each_safe(n, tmp, &b->in[HELD_COMMITTING])
		if (!held_of(n)->data.held.lost)
			take_out_locked(b, held_of(n), false, gone);
	for (struct list *n; (n = list_pop(&lost)); )
		again += send_again_locked(b, q, lost_of(n), gone);
	/* knfsd takes another verifier after a write that has failed, too. */
	if (again)
		log_info("server %s %s: %u WRITEs of a file are sent again",
			 q->vl->vfs->cl->cfg.server, what_happened(q), again);
}

/* WRITEs that have gone may be freed by their lanes. */
static void let_go(struct behind *b, struct list *gone)
{
	list_for_each(n, gone)
		close_file(held_of(n));
	pthread_mutex_lock(&b->mu);
	for (struct list *n; (n = list_pop(gone)); ) {
		struct vfs_op *op = held_of(n);

		op->data.held.state = HELD_GONE;
		post_locked(op);
	}
	pthread_mutex_unlock(&b->mu);
}

/* COMMIT was not sent, and goes by another lane, see behind_move_all(). */
static void uncommit_locked(struct behind *b)
{
	while (!list_empty(&b->in[HELD_COMMITTING]))
		behind_set_locked(b, held_first(&b->in[HELD_COMMITTING]), HELD_LOOSE);
	b->commit_wanted = true;
}

/* A moving average, in which the newest one counts for a quarter. It is about the server's disk, so
 * what COMMIT has waited for before it was sent does not count. */
static void measure(struct behind_pool *p, const struct vfs_op *q)
{
	uint64_t old = atomic_load_explicit(&p->commit_ns, memory_order_relaxed);
	uint64_t took = mono_ns() - q->call.eng.rr.posted_ns;

	atomic_store_explicit(&p->commit_ns, old ? old - old / 4 + took / 4 : took,
			      memory_order_relaxed);
}

static void commit_done(struct vfs_op *q)
{
	struct inode *ino = q->ino;
	struct behind *b = behind_of(ino);
	struct list gone;

	list_init(&gone);
	if (q->call.eng.sent && q->call.res.status != -ENOTCONN)
		measure(&q->vl->vfs->behind, q);
	pthread_mutex_lock(&b->mu);
	b->committing = false;
	if (q->call.res.status == -ENOTCONN && !q->call.eng.sent)
		uncommit_locked(b);
	else
		sort_out_locked(b, q, &gone);
	pthread_mutex_unlock(&b->mu);
	let_go(b, &gone);
	behind_progress(ino);
	vfs_op_free(q);
}

/*
 * Is so much LOOSE that a COMMIT should begin, if writers are not to wait for its end? That is
 * when 5/8 of the room are taken: what is left is for what they write meanwhile. Several files
 * share the room: each one begins that has a fair part of it, most of it LOOSE. Where COMMITs take
 * their time there is no need as long as the room grows: each one is a flush of the disk.
 */
static bool is_much_locked(const struct behind *b, const struct behind_pool *p)
{
	/* Each WRITE has a MID buffer at least. */
	if (b->loose[ARENA_MID] * 2 <= b->taken[ARENA_MID] || !behind_rather_commits(p))
		return false;
	for (int cls = ARENA_MID; cls <= ARENA_BIG; cls++) {
		unsigned most = p->most[cls], taken = p->taken[cls];

		if (b->loose[cls] && taken >= most - most * 3 / 8 &&
		    (taken >= most || b->loose[cls] * 4 >= most - taken))
			return true;
	}
	return false;
}

/* Is a COMMIT to be sent now? */
static bool commit_is_due_locked(const struct behind *b, const struct behind_pool *p, bool waits)
{
	if (b->committing || list_empty(&b->in[HELD_LOOSE]))
		return false;
	if (waits || is_much_locked(b, p))
		return true;
	/* One COMMIT for all that is on its way. */
	return list_empty(&b->in[HELD_SENDING]) &&
	       (b->commit_wanted || (atomic_load(&p->nwaiting) && behind_rather_commits(p)));
}

/* COMMIT of the whole file covers what is LOOSE now. Its credentials are those of a WRITE. */
static void begin_commit_locked(struct behind *b, struct rpc_cred *cred)
{
	b->committing = true;
	b->commit_wanted = false;
	*cred = held_of(b->in[HELD_LOOSE].next)->cred;
	while (!list_empty(&b->in[HELD_LOOSE]))
		behind_set_locked(b, held_first(&b->in[HELD_LOOSE]), HELD_COMMITTING);
}

static void send_commit(struct inode *ino, const struct rpc_cred *cred)
{
	struct behind *b = behind_of(ino);
	struct vfs_op *q = vfs_op_quiet(vfs_this_lane, ino, cred);

	if (!q) {               /* no memory; the clock tries again */
		pthread_mutex_lock(&b->mu);
		b->committing = false;
		uncommit_locked(b);
		pthread_mutex_unlock(&b->mu);
		return;
	}
	q->call.args.io.offset = 0;
	q->call.args.io.count = 0;
	stat_add(&q->vl->lane->stats, STAT_BEHIND_COMMITS, 1);
	vfs_start(q, NFS_OP_COMMIT, commit_done);
}

static void on_passed_on(struct loop_msg *m)
{
	struct behind *b = container_of(m, struct behind, msg);
	struct inode *ino = b->ino;

	pthread_mutex_lock(&b->mu);
	b->posted = false;
	pthread_mutex_unlock(&b->mu);
	behind_progress(ino);
	inode_put(&vfs_this_lane->vfs->inodes, ino, 1);
}

/* This lane has no connection: another one sends COMMIT, if there is one that can. */
static bool passed_on_locked(struct behind *b)
{
	struct vfs_lane *to = vfs_other_lane(vfs_this_lane);

	if (!to)
		return false;
	if (!b->posted) {
		inode_ref(b->ino);
		b->msg.fn = on_passed_on;
		loop_post(to->lane->loop, &b->msg);
	}
	b->posted = true;
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
	struct behind *b = behind_of(ino);
	struct rpc_cred cred;
	struct vfs_op *op;
	bool commit;

	inode_ref(ino);
	do {
		pthread_mutex_lock(&b->mu);
		op = next_locked(b);
		commit = !op && commit_is_due_locked(b, &vfs->behind, behind_wake_locked(b)) &&
			 !passed_on_locked(b);
		if (commit)
			begin_commit_locked(b, &cred);
		pthread_mutex_unlock(&b->mu);
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

void behind_on_msg(struct loop_msg *m)
{
	struct vfs_op *op = container_of(m, struct vfs_op, data.held.msg);
	struct inode *ino = op->ino;
	struct behind *b = behind_of(ino);
	bool gone;

	pthread_mutex_lock(&b->mu);
	op->data.held.posted = false;
	gone = op->data.held.state == HELD_GONE;
	if (op->data.held.state == HELD_MOVES) {
		list_add_tail(&op->vl->active, &op->node);
		behind_set_locked(b, op, HELD_DUE);
	}
	pthread_mutex_unlock(&b->mu);
	if (gone)
		behind_end(op);
	else
		behind_progress(ino);
}
