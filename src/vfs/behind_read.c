/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * READs of a file of which something is held.
 *
 *   all bytes are held, or are known not to be on the server     answered from memory
 *   some are held        READ; the held bytes are laid over what it has brought
 *   otherwise            what is held is sent first, and READ follows (behind_settle)
 *
 * Bytes are known not to be on the server if they are behind what it can have
 * (vfs_front.end_known). Those that are not held are zeros, and the file's end is known, too.
 *
 * Why own bytes over the server's are right: a WRITE that is HELD will replace what is there.
 * One that is SENDING or LOOSE may have replaced it already, and another client may have
 * written since. What this mount has then seen of the server must not be followed by older
 * bytes. So such a WRITE is laid over only if it was sent after the newest attributes had come
 * (inode.noted_ns): OPEN and GETATTR bring some, so close-to-open is kept. If it is older, it
 * is committed, and READ follows. A LOOSE one that the server loses in a restart is still
 * here.
 *
 * Other clients' changes of bytes that are not held are seen as before. Between two questions to
 * the server nobody is told that such bytes are behind the file's end for longer than acregmin.
 *
 * Who else acts while READ is under way:
 *
 *   a WRITE leaves       READ may have been executed before it, and its bytes are not here any
 *                        more: READ is sent again, once everything is on the server. Nor is it
 *                        known any more what the server has not, if that was asked before
 *   a new write          The kernel has locked the pages that it reads. Of mapped and direct
 *                        ones either is right
 *   a WRITE fails        Its data is dropped, and either is right
 *   other lanes          They copy into WRITEs that are HELD under the same lock
 *
 * If all bytes are held, one look with the lock is all. Otherwise the front end is asked for the
 * file's end, without the lock, because it may take one that goes before; then there is a second
 * look. The lock is held for the copy of 128 KiB at most. Direct reads ask the server.
 */
#include <string.h>
#include "vfs/behind_impl.h"

/* More bytes are sent first. */
#define LAY_BYTES 131072u

/* The server has what was written, or may have, and attributes have come since: see above. */
static bool is_old(const struct vfs_op *w, const struct inode *ino)
{
	return w->data.held.state >= HELD_SENDING && w->data.held.sent_ns <= atomic_load(&ino->noted_ns);
}

/* Which of op's bytes w has. */
static uint64_t from_of(const struct vfs_op *op, const struct vfs_op *w)
{
	return w->data.held.offset > op->data.start ? w->data.held.offset : op->data.start;
}

static uint64_t to_of(const struct vfs_op *op, const struct vfs_op *w)
{
	uint64_t end = op->data.start + op->data.size;

	return held_end(w) < end ? held_end(w) : end;
}

/* May what is held be laid over op's bytes? */
static bool may_lay_locked(const struct extents *x, const struct vfs_op *op)
{
	uint64_t over = 0;

	held_each(w, x->tree, op->data.start, op->data.start + op->data.size) {
		over += to_of(op, w) - from_of(op, w);
		if (over > LAY_BYTES || is_old(w, op->ino))
			return false;
	}
	return true;
}

/* The first byte at or after `at` that is not held; or one behind `stop`. */
static uint64_t held_from_locked(const struct extents *x, uint64_t at, uint64_t stop)
{
	struct vfs_op *w = NULL;

	/* By their offsets. */
	while (at < stop && (w = held_next(x->tree, at, stop, w)) && w->data.held.offset <= at)
		at = held_end(w) > at ? held_end(w) : at;
	return at;
}

/* Copies w's bytes [from, to) of the file. */
static void copy_out(char *out, const struct vfs_op *w, uint64_t from, uint64_t to)
{
	size_t at = (size_t)(from - w->data.held.offset), left = (size_t)(to - from);

	for (size_t n; left; left -= n, at += n, out += n) {
		const char *mem = held_at(w, at, &n);

		n = n < left ? n : left;
		memcpy(out, mem, n);
	}
}

/* Newer bytes are laid over older ones. */
static void put_by_seq(struct list *l, struct vfs_op *w)
{
	struct list *n = l->prev;

	while (n != l && container_of(n, struct vfs_op, data.held.pick_node)->data.held.seq > w->data.held.seq)
		n = n->prev;
	list_add_head(n, &w->data.held.pick_node);
}

/* Lays what is held over op's buffer, of which `have` bytes are there. What is not held of the next
 * ones is zeros. The result has `len` bytes, or more if what is held makes the file longer. */
static size_t lay_locked(const struct extents *x, const struct vfs_op *op, size_t have, size_t len)
{
	char *out = op->data.buf[0]->mem;
	uint64_t end = op->data.start + op->data.size, longest = op->data.start + len;
	struct list over;

	list_init(&over);
	if (held_highest(x->tree) > longest)
		longest = held_highest(x->tree);
	if (longest > end)
		longest = end;
	len = (size_t)(longest - op->data.start);
	memset(out + have, 0, len - have);
	held_each(w, x->tree, op->data.start, end)
		put_by_seq(&over, w);
	for (struct list *n; (n = list_pop(&over)); ) {
		const struct vfs_op *w = container_of(n, struct vfs_op, data.held.pick_node);

		copy_out(out + (from_of(op, w) - op->data.start), w, from_of(op, w), to_of(op, w));
	}
	return len;
}

/* The file ends at `end`, and the server has nothing behind `there`. *len: of the result. */
static enum behind_got look_locked(const struct extents *x, const struct vfs_op *op, uint64_t end,
				   uint64_t there, size_t *len)
{
	uint64_t start = op->data.start, stop = start + op->data.size, known;
	bool held = held_next(x->tree, start, stop, NULL);

	if (!held && start < there)
		return BEHIND_NONE;
	if (held && (!op->data.cached || !may_lay_locked(x, op)))
		return BEHIND_FIRST;
	if (stop > end)
		stop = end;
	known = held_from_locked(x, start, stop);
	/* What has left since we asked for `there` may be behind it. */
	if ((known < stop && known < there) || atomic_load(&x->left_ns) >= op->data.laid_ns)
		return BEHIND_SOME;
	*len = stop > start ? lay_locked(x, op, 0, (size_t)(stop - start)) : 0;
	return BEHIND_ALL;
}

static enum behind_got behind_look(struct vfs_op *op, uint64_t end, uint64_t there)
{
	struct extents *x = extents_of(op->ino);
	struct op_data *d = &op->data;
	enum behind_got got;
	size_t len = 0;

	pthread_mutex_lock(&x->mu);
	got = look_locked(x, op, end, there, &len);
	pthread_mutex_unlock(&x->mu);
	d->lays = got == BEHIND_SOME;
	d->iov[0] = (struct iovec){ d->buf[0]->mem, len };
	d->niov = 1;
	return got;
}

/* Most need not know where the file ends, and the front end may need a lock to say so. */
enum behind_got behind_read(struct vfs_op *op)
{
	enum behind_got got;
	uint64_t end, there;

	op->data.laid_ns = mono_ns();
	got = behind_look(op, UINT64_MAX, UINT64_MAX);
	if (op->data.cached && (got == BEHIND_NONE || got == BEHIND_SOME) &&
	    op->vl->vfs->front->end_known(&op->vl->vfs->inodes, op->ino, &end, &there))
		got = behind_look(op, end, there);
	if (got == BEHIND_ALL)
		stat_add(&op->vl->lane->stats, STAT_BEHIND_READS, 1);
	return got;
}

bool behind_lay(struct vfs_op *op, size_t *len)
{
	struct extents *x = extents_of(op->ino);
	bool here;

	pthread_mutex_lock(&x->mu);
	here = atomic_load(&x->left_ns) < op->data.laid_ns;
	if (here)
		*len = lay_locked(x, op, *len, *len);
	pthread_mutex_unlock(&x->mu);
	return here;
}
