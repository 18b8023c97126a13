/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: in which list a WRITE is, when it leaves them, and what the server has lost of it.
 * Nothing is sent here. See behind.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "vfs/behind_impl.h"

/* A LOOKUP that was sent before a WRITE left is answered within this time, nearly always. If
 * another client cuts the file, we stop believing the old size after twice as long. */
#define LATE_REPLY_NS 60000000000ull

#define SAY_DROPPED_NS 60000000000ull

/* ---- lists ---- */

static bool is_listed(enum held_state s)
{
	return s >= HELD && s <= HELD_COMMITTING;
}

/* Counts op's buffers as LOOSE, or no longer. */
static void count_loose_locked(struct extents *x, const struct vfs_op *op, int n)
{
	for (unsigned i = 0; i < RR_SEND_IOV && op->data.buf[i]; i++)
		x->loose[op->data.buf[i]->cls] += (unsigned)n;
}

/* Calls end nearly in the order of seq, so op's place is near the end. */
void behind_set_locked(struct extents *x, struct vfs_op *op, enum held_state state)
{
	struct list *l = &x->in[state == HELD_MOVES ? HELD_DUE : state], *n;

	if (is_listed(op->data.held.state))
		list_del(&op->data.held.node);
	if (op->data.held.state == HELD_LOOSE)
		count_loose_locked(x, op, -1);
	op->data.held.state = state;
	if (state == HELD_LOOSE)
		count_loose_locked(x, op, 1);
	if (!is_listed(state))
		return;
	for (n = l->prev; n != l && held_of(n)->data.held.seq > op->data.held.seq; )
		n = n->prev;
	list_add_head(n, &op->data.held.node);
}

void behind_drop_locked(struct extents *x, struct vfs_op *op)
{
	behind_set_locked(x, op, HELD_NOT);
	held_remove(&x->tree, op);
	atomic_fetch_sub(&x->count, 1);
	ahead_change_ends(op->ino);
}

void behind_leave_locked(struct extents *x, struct vfs_op *op)
{
	uint64_t now = mono_ns();

	if (now - x->left_from_ns > LATE_REPLY_NS) {
		x->left_end_before = x->left_end;
		x->left_end = 0;
		x->left_from_ns = now;
	}
	if (x->left_end < held_end(op))
		x->left_end = held_end(op);
	op->vl->vfs->front->written(op->ino, held_end(op));
	atomic_store(&x->left_ns, now); /* before there are none: behind_since() */
	behind_drop_locked(x, op);
}

void behind_failed_locked(struct extents *x, struct inode *ino, int status)
{
	x->error = status;
	atomic_fetch_add(&x->errors, 1);
	vfs_this_lane->vfs->front->data_lost(ino);
}

void behind_say_unsaid(struct vfs *vfs)
{
	unsigned n = atomic_exchange(&vfs->behind.unsaid, 0);

	if (n)
		log_err("WRITE: %s has not stored the data of %u more WRITEs, of this file or others", vfs->cl->cfg.server, n);
}

void behind_say_dropped(const struct vfs_op *op, uint64_t offset, size_t len, int status)
{
	struct vfs *vfs = op->vl->vfs;
	uint64_t now = mono_ns(), last = atomic_load(&vfs->behind.said_ns);
	char path[1200];

	if ((last && now < last + SAY_DROPPED_NS) || !atomic_compare_exchange_strong(&vfs->behind.said_ns, &last, now)) {
		atomic_fetch_add(&vfs->behind.unsaid, 1);
		return;
	}
	behind_say_unsaid(vfs);
	vfs_path(vfs, op->ino, path, sizeof(path));
	log_err("WRITE: %s has not stored %zu bytes of '%s', from byte %" PRIu64 " on, that programs have written: %s. "
		"They are dropped. close() or fsync() says so once to each that has the file open. "
		"(Of more within a minute only the number is said)", vfs->cl->cfg.server, len, path, offset, strerror(-status));
}

/* ---- what COMMIT says ---- */

/*
 * What the server has lost is sent again, and whatever is newer and overlaps it.
 *
 * A COMMIT that fails does not say what it failed for: knfsd reports an error of the disk once, to
 * whoever asks first, and may have dropped the data or kept it. The next COMMIT succeeds, also
 * without the data. So everything that it was for counts as lost, and goes again with FILE_SYNC:
 * what the server answers to that is about these very bytes. A full disk is ENOSPC then. WRITEs
 * that it was not for may have been executed before it, and share its fate. The same goes for a
 * COMMIT that was sent, and ended here without its reply (vfs_leave_lane()), or was executed once
 * more because the first reply did not come: that may have said that it failed. It is the same if the
 * call was another operation's: its COMMIT, or WRITE with FILE_SYNC (behind_doubt()).
 */
static bool may_have_failed(const struct vfs_op *q)
{
	return q->call.res.status || q->call.res.io.twice;
}

/* By itself. says: the COMMIT whose verifier counts; NULL: it may have failed. */
static bool is_lost(const struct vfs_op *op, const struct vfs_op *says)
{
	const struct held *h = &op->data.held;

	if (h->firm || h->state == HELD_SENDING)
		return false;
	return !says || (h->state == HELD_COMMITTING &&
			 (h->mixed || h->verf != says->call.res.io.verf));
}

static bool any_is_lost(const struct list *l, const struct vfs_op *says)
{
	list_for_each(n, l)
		if (is_lost(held_of(n), says))
			return true;
	return false;
}

static struct vfs_op *lost_of(struct list *n)
{
	return container_of(n, struct vfs_op, data.held.pick_node);
}

/* The server has got it, or may have. at: how far each of these states' lists has been looked at. Returns
 * the oldest of the rest; NULL: there is none. */
static struct vfs_op *next_sent_locked(const struct extents *x, struct list *at[3])
{
	struct vfs_op *op = NULL;
	unsigned of = 0;

	for (unsigned i = 0; i < 3; i++) {
		if (at[i] == &x->in[HELD_SENDING + i] ||
		    (op && held_of(at[i])->data.held.seq > op->data.held.seq))
			continue;
		op = held_of(at[i]);
		of = i;
	}
	if (op)
		at[of] = at[of]->next;
	return op;
}

/* There may be thousands that overlap. So they are looked at by age, and what is lost is in a tree of its own
 * meanwhile: one that is newer and overlaps something there is lost, too. */
static void lose_locked(struct extents *x, const struct vfs_op *says, struct list *lost)
{
	struct list *at[] = { x->in[HELD_SENDING].next, x->in[HELD_LOOSE].next,
			      x->in[HELD_COMMITTING].next };
	struct vfs_op *op, *tree = NULL;

	while ((op = next_sent_locked(x, at))) {
		if (!is_lost(op, says) && !held_next(tree, op->data.held.offset, held_end(op), NULL))
			continue;
		held_remove(&x->tree, op);
		held_insert(&tree, op);
		op->data.held.lost = true;
		list_add_tail(lost, &op->data.held.pick_node);
	}
	list_for_each(n, lost)
		held_insert(&x->tree, lost_of(n));
}

/* By age. */
static void find_lost_locked(struct extents *x, const struct vfs_op *says, struct list *lost)
{
	if (!says)
		x->doubt_ns = mono_ns();        /* SENDING ones see it when they have their replies */
	if (any_is_lost(&x->in[HELD_COMMITTING], says) ||
	    (!says && any_is_lost(&x->in[HELD_LOOSE], says)))
		lose_locked(x, says, lost);
}

/* op goes to `gone`, until its lane may free it. */
static void take_out_locked(struct extents *x, struct vfs_op *op, bool failed, struct list *gone)
{
	if (failed)
		behind_drop_locked(x, op);
	else
		behind_leave_locked(x, op);
	list_add_tail(gone, &op->data.held.node);
}

static bool tried_enough_locked(struct extents *x, const struct vfs_op *q, const struct vfs_op *op)
{
	int status = q->call.res.status;

	if (op->data.held.state != HELD_COMMITTING || op->data.held.tries < BEHIND_TRIES_MAX)
		return false;
	log_err("WRITE: %s %s each COMMIT: EIO after %u tries", q->vl->vfs->cl->cfg.server,
		status ? "returns an error for" : "sends another write verifier, as if it had "
		"restarted, with", op->data.held.tries);
	behind_failed_locked(x, q->ino, status ? status : -EIO);
	return true;
}

/* The server has lost op. true: it is sent again by progress. */
static bool send_again_locked(struct extents *x, struct vfs_op *op)
{
	struct held *h = &op->data.held;

	if (h->state == HELD_SENDING)
		h->again = true;
	if (h->state != HELD_LOOSE && h->state != HELD_COMMITTING)
		return false;
	h->stable = true;
	behind_set_locked(x, op, HELD_DUE);
	return true;
}

static struct vfs_op *pop_lost(struct list *lost)
{
	struct list *n = list_pop(lost);

	if (!n)
		return NULL;
	lost_of(n)->data.held.lost = false;
	return lost_of(n);
}

static const char *what_happened(const struct vfs_op *q)
{
	if (q->call.res.status == -ENOTCONN)
		return "has not answered a COMMIT, and the connection stays lost";
	if (!q->call.res.status && q->call.res.io.twice)
		return "did not answer the first sending of a COMMIT, which may have failed";
	return "has restarted, or could not write to its disk";
}

void behind_sort_out_locked(struct extents *x, const struct vfs_op *q, struct list *gone)
{
	unsigned again = 0;
	struct vfs_op *op;
	struct list lost;

	list_init(&lost);
	find_lost_locked(x, may_have_failed(q) ? NULL : q, &lost);
	list_for_each_safe(n, tmp, &x->in[HELD_COMMITTING])
		if (!held_of(n)->data.held.lost)
			take_out_locked(x, held_of(n), false, gone);
	while ((op = pop_lost(&lost))) {
		if (tried_enough_locked(x, q, op)) {
			take_out_locked(x, op, true, gone);
		} else if (send_again_locked(x, op)) {
			op->data.held.tries++;
			again++;
		}
	}
	/* knfsd takes another verifier after a write that has failed, too. */
	if (again)
		log_info("server %s %s: %u WRITEs of a file are sent again",
			 q->vl->vfs->cl->cfg.server, what_happened(q), again);
}

void behind_doubt_locked(struct extents *x, const struct vfs_op *failed)
{
	unsigned again = 0;
	struct vfs_op *op;
	struct list lost;

	list_init(&lost);
	find_lost_locked(x, NULL, &lost);
	while ((op = pop_lost(&lost)))
		again += send_again_locked(x, op);
	if (again)
		log_info("server %s has told another call of an error: %u WRITEs of the file are sent again",
			 failed->vl->vfs->cl->cfg.server, again);
}
