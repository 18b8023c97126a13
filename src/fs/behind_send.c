/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: WRITE and COMMIT. See behind.h. */
#include <errno.h>
#include <inttypes.h>
#include "fs/behind_impl.h"

/* A LOOKUP that was sent before a WRITE left is answered within this time, nearly always. If
 * another client cuts the file, we stop believing the old size after twice as long. */
#define LATE_REPLY_NS 60000000000ull

void behind_want_locked(struct fs_req *r)
{
	r->held.wanted = true;
}

/* ---- WRITE ---- */

static void write_done(struct fs_req *r);

/* Sends what has not been written yet. */
static void send_rest(struct fs_req *r)
{
	struct nfs_io_args *io = &r->call.args.io;
	size_t at = r->filled, left = r->held.len - at;

	io->offset = r->held.offset + at;
	io->unstable = !r->held.stable;
	io->ndata = 0;
	for (size_t n; left; left -= n, at += n) {
		char *mem = held_at(r, at, &n);

		n = n < left ? n : left;
		io->data[io->ndata++] = (struct rr_iov){ mem, (uint32_t)n };
	}
	fs_req_start(r, NFS_OP_WRITE, write_done);
}

/* Off the file's list. */
static void drop_locked(struct behind *b, struct fs_req *r)
{
	list_del(&r->held.node);
	atomic_fetch_sub(&b->count, 1);
	ahead_change_ends(r->ino);
}

/* The same, because the data is on stable storage. */
static void leave_locked(struct behind *b, struct fs_req *r)
{
	uint64_t now = mono_ns();

	if (now - b->left_from_ns > LATE_REPLY_NS) {
		b->left_end_before = b->left_end;
		b->left_end = 0;
		b->left_from_ns = now;
	}
	if (b->left_end < held_end(r))
		b->left_end = held_end(r);
	young_there(r->ino, held_end(r));
	atomic_store(&b->left_ns, now); /* before there are none: behind_since() */
	drop_locked(b, r);
}

/* Is an older WRITE of some of the same bytes LOOSE? If the server loses that, it is sent
 * again, and then r has to follow it once more. */
static bool covers_loose_locked(const struct behind *b, const struct fs_req *r)
{
	list_for_each(n, &b->writes) {
		const struct fs_req *w = held_of(n);

		if (w == r)
			break;
		if (w->held.state == HELD_LOOSE && held_overlaps(w, r->held.offset, held_end(r)))
			return true;
	}
	return false;
}

/* The server has all of it. true: on stable storage. */
static bool written_locked(struct behind *b, struct fs_req *r)
{
	struct held *h = &r->held;

	b->nsending--;
	if (h->again) {
		h->again = false;
		h->state = HELD;
	} else if (h->loose || covers_loose_locked(b, r)) {
		h->firm = !h->loose;
		h->state = HELD_LOOSE;
		b->nloose++;
		b->loose_bytes += h->len;
	} else {
		leave_locked(b, r);
		return true;
	}
	return false;
}

/* Closes r's file, if r was the last that used it. Whoever is told that r has gone should not
 * find the file open: unlink() would give it a silly name. */
static void close_file(struct fs_req *r)
{
	struct file *f = r->file;

	r->file = NULL;
	fs_file_put(fs_this_lane, f);
}

static void end_sending(struct fs_req *r, int status)
{
	struct inode *ino = r->ino;
	struct behind *b = behind_of(ino);
	bool over = true, now;

	inode_ref(ino);
	pthread_mutex_lock(&b->mu);
	if (status) {
		b->nsending--;
		behind_failed_locked(b, ino, status);
		drop_locked(b, r);
	} else {
		over = written_locked(b, r);
	}
	if (over)
		r->held.state = HELD_GONE;
	now = !r->held.posted;          /* otherwise when that message is here */
	pthread_mutex_unlock(&b->mu);
	if (over)
		close_file(r);
	if (over && now)
		behind_end(r);
	behind_progress(ino);
	inode_put(&fs_this_lane->fs->inodes, ino, 1);
}

static void write_done(struct fs_req *r)
{
	const struct nfs_io_results *res = &r->call.res.io;

	if (r->call.res.status) {
		end_sending(r, r->call.res.status);
		return;
	}
	if (!res->stable) {
		r->held.mixed |= r->held.loose && res->verf != r->held.verf;
		r->held.loose = true;
		r->held.verf = res->verf;
	}
	r->filled += res->len;
	if (r->filled < r->held.len)
		send_rest(r);
	else
		end_sending(r, 0);
}

/* Must an older one be written first? */
static bool is_blocked_locked(const struct behind *b, const struct fs_req *r)
{
	list_for_each(n, &b->writes) {
		const struct fs_req *w = held_of(n);

		if (w == r)
			return false;
		if (w->held.state != HELD_LOOSE && held_overlaps(w, r->held.offset, held_end(r)))
			return true;
	}
	return false;
}

/* Tells other lanes to send theirs. Returns one of this lane, which is SENDING now; NULL:
 * there is none. */
static struct fs_req *next_locked(struct behind *b)
{
	list_for_each(n, &b->writes) {
		struct fs_req *r = held_of(n);

		if (r->held.state != HELD || !r->held.wanted || is_blocked_locked(b, r))
			continue;
		if (r->fl == fs_this_lane) {
			r->held.state = HELD_SENDING;
			r->held.sent_ns = mono_ns();
			b->nsending++;
			return r;
		}
		if (!r->held.posted)
			loop_post(r->fl->lane->loop, &r->held.msg);
		r->held.posted = true;
	}
	return NULL;
}

/* ---- COMMIT ---- */

/*
 * What the server has lost is sent again, and whatever is newer and overlaps it.
 *
 * A COMMIT that fails does not say what it failed for: knfsd reports an error of the disk once,
 * to whoever asks first, and may have dropped the data or kept it. The next COMMIT succeeds, also
 * without the data. So everything that it was for counts as lost, and goes again with FILE_SYNC:
 * what the server answers to that is about these very bytes. A full disk is ENOSPC then. WRITEs
 * that it was not for may have been executed before it, and share its fate.
 */
static bool is_lost(const struct held *h, const struct fs_req *q)
{
	if (q->call.res.status)
		return h->state == HELD_SENDING || (h->state == HELD_LOOSE && !h->firm);
	return h->in_commit && !h->firm && (h->mixed || h->verf != q->call.res.io.verf);
}

static void find_lost_locked(struct behind *b, const struct fs_req *q)
{
	list_for_each(n, &b->writes) {
		struct fs_req *r = held_of(n);
		struct held *h = &r->held;

		h->lost = is_lost(h, q);
		list_for_each(o, &b->writes) {
			const struct fs_req *older = held_of(o);

			if (older == r || h->lost)
				break;
			h->lost = older->held.lost &&
				  held_overlaps(older, h->offset, held_end(r));
		}
	}
}

/* true: r is to be sent by progress. */
static bool send_again_locked(struct behind *b, struct fs_req *r)
{
	struct held *h = &r->held;

	if (h->state == HELD_SENDING)
		h->again = true;
	if (h->state != HELD_LOOSE)
		return false;
	b->nloose--;
	b->loose_bytes -= h->len;
	h->state = HELD;
	h->in_commit = false;
	h->wanted = h->stable = true;
	h->tries++;
	return true;
}

/* r goes to `gone`. It stays LOOSE until its lane may free it. */
static void take_out_locked(struct behind *b, struct fs_req *r, bool failed, struct list *gone)
{
	b->nloose--;
	b->loose_bytes -= r->held.len;
	r->held.in_commit = false;
	if (failed)
		drop_locked(b, r);
	else
		leave_locked(b, r);
	list_add_tail(gone, &r->held.node);
}

/* COMMIT has ended: is r, which it was for, done with? */
static bool is_over_locked(struct behind *b, const struct fs_req *q, const struct fs_req *r)
{
	int status = q->call.res.status;

	if (!r->held.in_commit)
		return false;
	if (!r->held.lost)
		return true;
	if (r->held.tries < BEHIND_TRIES_MAX)
		return false;
	log_err("WRITE: %s %s each COMMIT: EIO after %u tries", q->fl->fs->cl->cfg.server,
		status ? "answers an error to" : "sends another write verifier, as if it had "
		"restarted, with", r->held.tries);
	behind_failed_locked(b, q->ino, status ? status : -EIO);
	return true;
}

static void sort_out_locked(struct behind *b, const struct fs_req *q, struct list *gone)
{
	unsigned again = 0;

	find_lost_locked(b, q);
	list_for_each_safe(n, tmp, &b->writes) {
		struct fs_req *r = held_of(n);

		if (is_over_locked(b, q, r))
			take_out_locked(b, r, r->held.lost, gone);
		else if (r->held.lost)
			again += send_again_locked(b, r);
	}
	/* knfsd takes another verifier after a write that has failed, too. */
	if (again)
		log_info("server %s has restarted, or could not write to its disk: %u WRITEs of a "
			 "file are sent again", q->fl->fs->cl->cfg.server, again);
}

/* WRITEs that have gone may be freed by their lanes. */
static void let_go(struct behind *b, struct list *gone)
{
	list_for_each(n, gone)
		close_file(held_of(n));
	pthread_mutex_lock(&b->mu);
	for (struct list *n; (n = list_pop(gone)); ) {
		struct fs_req *r = held_of(n);

		r->held.state = HELD_GONE;
		if (!r->held.posted)
			loop_post(r->fl->lane->loop, &r->held.msg);
		r->held.posted = true;
	}
	pthread_mutex_unlock(&b->mu);
}

static void commit_done(struct fs_req *q)
{
	struct inode *ino = q->ino;
	struct behind *b = behind_of(ino);
	struct list gone;

	list_init(&gone);
	pthread_mutex_lock(&b->mu);
	b->committing = false;
	sort_out_locked(b, q, &gone);
	pthread_mutex_unlock(&b->mu);
	let_go(b, &gone);
	behind_progress(ino);
	fs_req_free(q);
}

/* Is a COMMIT to be sent now? */
static bool commit_is_due_locked(const struct behind *b, const struct behind_pool *p, bool waits)
{
	size_t most = p->most[ARENA_BIG] * ARENA_BIG_SIZE + p->most[ARENA_MID] * ARENA_MID_SIZE;

	if (b->committing || !b->nloose)
		return false;
	/* One COMMIT for all that is on its way. */
	return waits || b->loose_bytes >= most / 3 ||
	       ((b->commit_wanted || atomic_load(&p->nwaiting)) && !b->nsending);
}

/* COMMIT of the whole file covers what is LOOSE now. Its credentials are those of a WRITE. */
static void begin_commit_locked(struct behind *b, struct rpc_cred *cred)
{
	b->committing = true;
	b->commit_wanted = false;
	list_for_each(n, &b->writes) {
		struct fs_req *r = held_of(n);

		r->held.in_commit = r->held.state == HELD_LOOSE;
		if (r->held.in_commit)
			*cred = r->cred;
	}
}

static void send_commit(struct inode *ino, const struct rpc_cred *cred)
{
	struct behind *b = behind_of(ino);
	struct fs_req *q = fs_req_new_quiet(fs_this_lane, ino, cred);

	if (!q) {               /* no memory; the clock tries again */
		pthread_mutex_lock(&b->mu);
		b->committing = false;
		b->commit_wanted = true;
		pthread_mutex_unlock(&b->mu);
		return;
	}
	q->call.args.io.offset = 0;
	q->call.args.io.count = 0;
	stat_add(&q->fl->lane->stats, STAT_BEHIND_COMMITS, 1);
	fs_req_start(q, NFS_OP_COMMIT, commit_done);
}

/* This lane has no connection: another one sends COMMIT, if there is one that can. */
static bool passed_on_locked(struct behind *b)
{
	if (nfs_lane_up(fs_this_lane->lane))
		return false;
	list_for_each(n, &b->writes) {
		struct fs_req *r = held_of(n);

		if (r->fl == fs_this_lane || !nfs_lane_up(r->fl->lane))
			continue;
		if (!r->held.posted)
			loop_post(r->fl->lane->loop, &r->held.msg);
		r->held.posted = true;
		return true;
	}
	return behind_ask_for_help_locked(b);
}

/* ---- progress ---- */

void behind_progress(struct inode *ino)
{
	struct fs *fs = fs_this_lane->fs;
	struct behind *b = behind_of(ino);
	struct rpc_cred cred;
	struct fs_req *r;
	bool commit;

	inode_ref(ino);
	do {
		pthread_mutex_lock(&b->mu);
		r = next_locked(b);
		commit = !r && commit_is_due_locked(b, &fs->behind, behind_wake_locked(b)) &&
			 !passed_on_locked(b);
		if (commit)
			begin_commit_locked(b, &cred);
		pthread_mutex_unlock(&b->mu);
		if (r) {
			r->filled = 0;
			r->held.loose = r->held.mixed = false;
			send_rest(r);
		}
	} while (r);
	if (commit)
		send_commit(ino, &cred);
	inode_put(&fs->inodes, ino, 1);
}

void behind_on_msg(struct loop_msg *m)
{
	struct fs_req *r = container_of(m, struct fs_req, held.msg);
	struct behind *b = behind_of(r->ino);
	bool gone;

	pthread_mutex_lock(&b->mu);
	r->held.posted = false;
	gone = r->held.state == HELD_GONE;
	pthread_mutex_unlock(&b->mu);
	if (gone)
		behind_end(r);
	else
		behind_progress(r->ino);
}
