/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * READs of a file of which something is held.
 *
 *   all bytes are held, or are known not to be on the server     answered from memory
 *   some are held        READ; the held bytes are laid over what it has brought
 *   otherwise            what is held is sent first, and READ follows (fs_settle)
 *
 * Bytes are known not to be on the server if they are behind what it can have (young_end()).
 * Those that are not held are zeros, and the file's end is known, too.
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
static bool is_old(const struct fs_req *w, const struct inode *ino)
{
	return w->held.state >= HELD_SENDING && w->held.sent_ns <= atomic_load(&ino->noted_ns);
}

/* May what is held be laid over r's bytes? *over: how much of it there is. */
static bool may_lay_locked(const struct behind *b, const struct fs_req *r, uint64_t *over)
{
	uint64_t end = r->start + r->size;

	*over = 0;
	held_each(w, b->tree, r->start, end) {
		uint64_t from = w->held.offset > r->start ? w->held.offset : r->start;
		uint64_t to = held_end(w) < end ? held_end(w) : end;

		*over += to - from;
		if (*over > LAY_BYTES || is_old(w, r->ino))
			return false;
	}
	return true;
}

/* The first byte at or after `at` that is not held; or one behind `stop`. */
static uint64_t held_from_locked(const struct behind *b, uint64_t at, uint64_t stop)
{
	struct fs_req *w = NULL;

	/* By their offsets. */
	while (at < stop && (w = held_next(b->tree, at, stop, w)) && w->held.offset <= at)
		at = held_end(w) > at ? held_end(w) : at;
	return at;
}

/* Copies w's bytes [from, to) of the file. */
static void copy_out(char *out, const struct fs_req *w, uint64_t from, uint64_t to)
{
	size_t at = (size_t)(from - w->held.offset), left = (size_t)(to - from);

	for (size_t n; left; left -= n, at += n, out += n) {
		const char *mem = held_at(w, at, &n);

		n = n < left ? n : left;
		memcpy(out, mem, n);
	}
}

/* Newer bytes are laid over older ones. */
static void put_by_seq(struct list *l, struct fs_req *w)
{
	struct list *n = l->prev;

	while (n != l && container_of(n, struct fs_req, held.pick_node)->held.seq > w->held.seq)
		n = n->prev;
	list_add_head(n, &w->held.pick_node);
}

/* Lays what is held over r's first *len bytes. If it makes the file longer, so does it them. */
static void lay_locked(const struct behind *b, const struct fs_req *r, size_t *len)
{
	char *out = r->buf[0]->mem;
	uint64_t end = r->start + r->size, longest = r->start + *len;
	struct list over;

	list_init(&over);
	if (held_highest(b->tree) > longest)
		longest = held_highest(b->tree);
	if (longest > end)
		longest = end;
	memset(out + *len, 0, (size_t)(longest - r->start) - *len);
	*len = (size_t)(longest - r->start);
	held_each(w, b->tree, r->start, end)
		put_by_seq(&over, w);
	for (struct list *n; (n = list_pop(&over)); ) {
		const struct fs_req *w = container_of(n, struct fs_req, held.pick_node);
		uint64_t from = w->held.offset > r->start ? w->held.offset : r->start;
		uint64_t to = held_end(w) < end ? held_end(w) : end;

		copy_out(out + (from - r->start), w, from, to);
	}
}

bool fs_behind_reads(struct fs_req *r)
{
	struct behind *b = behind_of(r->ino);
	uint64_t end, there, over;
	bool may;

	if (!b || !atomic_load(&b->count))
		return false;
	pthread_mutex_lock(&b->mu);
	may = may_lay_locked(b, r, &over);
	pthread_mutex_unlock(&b->mu);
	return may && (over || (young_end(&r->fl->fs->inodes, r->ino, &end, &there) &&
				r->start >= there));
}

static void answer(struct fs_req *r, size_t len)
{
	struct iovec iov = { r->buf[0]->mem, len };

	stat_add(&r->fl->lane->stats, STAT_BEHIND_READS, 1);
	if (r->req)
		fuse_reply_iov(r->req, &iov, len ? 1 : 0);
	r->req = NULL;
	fs_req_free(r);
}

bool fs_behind_serve(struct fs_req *r)
{
	struct behind *b = behind_of(r->ino);
	uint64_t end = UINT64_MAX, there = UINT64_MAX, stop = r->start + r->size, known;
	size_t len = 0;
	bool all;

	r->laid_ns = mono_ns();
	if (!young_end(&r->fl->fs->inodes, r->ino, &end, &there))
		end = there = UINT64_MAX;
	if (stop > end)
		stop = end;
	pthread_mutex_lock(&b->mu);
	known = held_from_locked(b, r->start, stop);
	all = (known >= stop || known >= there) && atomic_load(&b->left_ns) < r->laid_ns;
	if (all && stop > r->start) {
		len = (size_t)(stop - r->start);
		memset(r->buf[0]->mem, 0, len);
		lay_locked(b, r, &len);
	}
	pthread_mutex_unlock(&b->mu);
	if (all)
		answer(r, len);
	return all;
}

bool fs_behind_lay(struct fs_req *r, size_t *len)
{
	struct behind *b = behind_of(r->ino);
	bool here;

	pthread_mutex_lock(&b->mu);
	here = atomic_load(&b->left_ns) < r->laid_ns;
	if (here)
		lay_locked(b, r, len);
	pthread_mutex_unlock(&b->mu);
	return here;
}
