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
 *                        more: READ is sent again, once everything is on the server
 *   a new write          The kernel has locked the pages that it reads. Of mapped and direct
 *                        ones either is right
 *   a WRITE fails        Its data is dropped, and either is right
 *   other lanes          They copy into WRITEs that are HELD under the same mutex
 *
 * The mutex is held for the copy of 128 KiB at most. Direct reads ask the server.
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

/* May what is held be laid over op's bytes? *over: how much of it there is. */
static bool may_lay_locked(const struct behind *b, const struct vfs_op *op, uint64_t *over)
{
	uint64_t end = op->data.start + op->data.size;

	*over = 0;
	held_each(w, b->tree, op->data.start, end) {
		uint64_t from = w->data.held.offset > op->data.start ? w->data.held.offset : op->data.start;
		uint64_t to = held_end(w) < end ? held_end(w) : end;

		*over += to - from;
		if (*over > LAY_BYTES || is_old(w, op->ino))
			return false;
	}
	return true;
}

/* The first byte at or after `at` that is not held; or one behind `stop`. */
static uint64_t held_from_locked(const struct behind *b, uint64_t at, uint64_t stop)
{
	struct vfs_op *w = NULL;

	/* By their offsets. */
	while (at < stop && (w = held_next(b->tree, at, stop, w)) && w->data.held.offset <= at)
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

/* Lays what is held over op's first *len bytes. If it makes the file longer, so does it them. */
static void lay_locked(const struct behind *b, const struct vfs_op *op, size_t *len)
{
	char *out = op->data.buf[0]->mem;
	uint64_t end = op->data.start + op->data.size, longest = op->data.start + *len;
	struct list over;

	list_init(&over);
	if (held_highest(b->tree) > longest)
		longest = held_highest(b->tree);
	if (longest > end)
		longest = end;
	memset(out + *len, 0, (size_t)(longest - op->data.start) - *len);
	*len = (size_t)(longest - op->data.start);
	held_each(w, b->tree, op->data.start, end)
		put_by_seq(&over, w);
	for (struct list *n; (n = list_pop(&over)); ) {
		const struct vfs_op *w = container_of(n, struct vfs_op, data.held.pick_node);
		uint64_t from = w->data.held.offset > op->data.start ? w->data.held.offset : op->data.start;
		uint64_t to = held_end(w) < end ? held_end(w) : end;

		copy_out(out + (from - op->data.start), w, from, to);
	}
}

static bool end_known(const struct vfs_op *op, uint64_t *end, uint64_t *there)
{
	return op->vl->vfs->front->end_known(&op->vl->vfs->inodes, op->ino, end, there);
}

bool behind_reads(struct vfs_op *op)
{
	struct behind *b = behind_of(op->ino);
	uint64_t end, there, over;
	bool may;

	if (!b || !atomic_load(&b->count))
		return false;
	pthread_mutex_lock(&b->mu);
	may = may_lay_locked(b, op, &over);
	pthread_mutex_unlock(&b->mu);
	return may && (over || (end_known(op, &end, &there) && op->data.start >= there));
}

bool behind_serve(struct vfs_op *op)
{
	struct behind *b = behind_of(op->ino);
	uint64_t end = UINT64_MAX, there = UINT64_MAX, stop = op->data.start + op->data.size, known;
	size_t len = 0;
	bool all;

	op->data.laid_ns = mono_ns();
	if (!end_known(op, &end, &there))
		end = there = UINT64_MAX;
	if (stop > end)
		stop = end;
	pthread_mutex_lock(&b->mu);
	known = held_from_locked(b, op->data.start, stop);
	all = (known >= stop || known >= there) && atomic_load(&b->left_ns) < op->data.laid_ns;
	if (all && stop > op->data.start) {
		len = (size_t)(stop - op->data.start);
		memset(op->data.buf[0]->mem, 0, len);
		lay_locked(b, op, &len);
	}
	pthread_mutex_unlock(&b->mu);
	if (!all)
		return false;
	stat_add(&op->vl->lane->stats, STAT_BEHIND_READS, 1);
	op->data.iov[0] = (struct iovec){ op->data.buf[0]->mem, len };
	op->data.niov = 1;
	vfs_end_with(op, 0);
	return true;
}

bool behind_lay(struct vfs_op *op, size_t *len)
{
	struct behind *b = behind_of(op->ino);
	bool here;

	pthread_mutex_lock(&b->mu);
	here = atomic_load(&b->left_ns) < op->data.laid_ns;
	if (here)
		lay_locked(b, op, len);
	pthread_mutex_unlock(&b->mu);
	return here;
}
