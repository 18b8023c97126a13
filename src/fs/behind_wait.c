/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: who waits for it, what fails, and the end. See behind.h. */
#include <errno.h>
#include <unistd.h>
#include "fs/behind_impl.h"

/* A WRITE that is held is sent at this age, a LOOSE one is committed at that age. */
#define SEND_NS   1000000000ull
#define COMMIT_NS 4000000000ull
/* The end of the mount. Without a connection the server is waited for that long. With one, a call
 * may take its time (a COMMIT on a slow disk): if the server is gone, timeo ends the connection.
 * The rest is for one that connects and says nothing. */
#define DRAIN_DOWN_NS 3000000000ull
#define DRAIN_UP_NS   60000000000ull
#define DRAIN_STEP_MS 20u
/* After so long the log says that somebody waits. */
#define DRAIN_SAY_NS  5000000000ull

/* ---- waiting ---- */

/* What does a wait for everything up to `upto` still wait for? */
static void look_locked(const struct behind *b, uint64_t upto, bool *unsent, bool *loose)
{
	*unsent = *loose = false;
	list_for_each(n, &b->writes) {
		const struct fs_req *r = held_of(n);

		if (r->held.seq > upto)
			return;
		*(r->held.state == HELD_LOOSE ? loose : unsent) = true;
	}
}

bool behind_wake_locked(struct behind *b)
{
	bool commit = false;

	list_for_each_safe(n, tmp, &b->waits) {
		struct fs_req *r = container_of(n, struct fs_req, settle.node);
		bool unsent, loose;

		look_locked(b, r->settle.upto, &unsent, &loose);
		if (!unsent && !(loose && r->settle.stable)) {
			list_del(n);
			loop_post(r->fl->lane->loop, &r->settle.msg);
		}
		commit |= !unsent && loose && r->settle.stable;
	}
	return commit;
}

static void on_settled(struct loop_msg *m)
{
	struct fs_req *r = container_of(m, struct fs_req, settle.msg);
	struct settle *s = &r->settle;
	struct behind *b = behind_of(s->ino);

	if (!s->help) {
		s->go(r);
		return;
	}
	pthread_mutex_lock(&b->mu);
	s->help = false;
	list_add_tail(&b->waits, &s->node);
	pthread_mutex_unlock(&b->mu);
	behind_progress(s->ino);
}

bool behind_ask_for_help_locked(struct behind *b)
{
	list_for_each(n, &b->waits) {
		struct fs_req *r = container_of(n, struct fs_req, settle.node);

		if (r->fl == fs_this_lane || !nfs_lane_up(r->fl->lane))
			continue;
		list_del(n);
		r->settle.help = true;
		loop_post(r->fl->lane->loop, &r->settle.msg);
		return true;
	}
	return false;
}

/* Everything is to be sent. If it is a single WRITE, COMMIT can be saved. */
static void want_all_locked(struct behind *b)
{
	bool single = atomic_load(&b->count) == 1;

	list_for_each(n, &b->writes) {
		struct fs_req *r = held_of(n);

		if (r->held.state != HELD)
			continue;
		r->held.stable |= single;
		behind_want_locked(r);
	}
}

void fs_settle(struct fs_req *r, struct inode *ino, bool stable, void (*go)(struct fs_req *r))
{
	struct behind *b = ino ? behind_of(ino) : NULL;
	bool unsent, loose;

	if (!b || !atomic_load(&b->count)) {
		go(r);
		return;
	}
	pthread_mutex_lock(&b->mu);
	look_locked(b, b->seq, &unsent, &loose);
	if (!unsent && !(loose && stable)) {
		pthread_mutex_unlock(&b->mu);
		go(r);
		return;
	}
	r->settle = (struct settle){ .ino = ino, .upto = b->seq, .stable = stable, .go = go,
				     .msg.fn = on_settled };
	list_add_tail(&b->waits, &r->settle.node);
	want_all_locked(b);
	pthread_mutex_unlock(&b->mu);
	behind_progress(ino);
}

struct inode *fs_settles(const struct fs_req *r, bool *stable)
{
	/* A WRITE that is held itself; a call in the middle of a change that has begun. */
	if (r->held.state != HELD_NOT || r->changes)
		return NULL;
	/* After a restart of the server a WRITE that is sent again must not follow this. */
	*stable = r->call.op == NFS_OP_SETATTR;
	switch (r->call.op) {
	case NFS_OP_GETATTR:
	case NFS_OP_OPEN:
	case NFS_OP_SETATTR:
	case NFS_OP_LINK:
		return r->ino;
	case NFS_OP_REMOVE:
		return r->pinned;
	default:
		return NULL;
	}
}

/* ---- what others see ---- */

bool behind_holds_bytes(struct inode *ino, uint64_t offset, uint64_t len)
{
	struct behind *b = behind_of(ino);
	bool holds = false;

	if (!b || !atomic_load(&b->count))
		return false;
	pthread_mutex_lock(&b->mu);
	list_for_each(n, &b->writes)
		holds |= held_overlaps(held_of(n), offset, offset + len);
	pthread_mutex_unlock(&b->mu);
	return holds;
}

bool behind_since(const struct inode *ino, uint64_t since)
{
	const struct behind *b = behind_of(ino);

	return b && (atomic_load(&b->count) || atomic_load(&b->left_ns) >= since);
}

void behind_size(const struct inode *ino, struct nfs_attr *attr, uint64_t since)
{
	struct behind *b = behind_of(ino);
	uint64_t end = 0;

	if (!behind_since(ino, since))
		return;
	pthread_mutex_lock(&b->mu);
	if (atomic_load(&b->left_ns) >= since)
		end = b->left_end > b->left_end_before ? b->left_end : b->left_end_before;
	list_for_each(n, &b->writes)
		if (held_end(held_of(n)) > end)
			end = held_end(held_of(n));
	pthread_mutex_unlock(&b->mu);
	if (attr->size < end)
		attr->size = end;
}

/* Everything older is on stable storage, so nothing makes the file longer again. */
void behind_cut(struct inode *ino, uint64_t size)
{
	struct behind *b = behind_of(ino);

	if (!b)
		return;
	pthread_mutex_lock(&b->mu);
	if (b->left_end > size)
		b->left_end = size;
	if (b->left_end_before > size)
		b->left_end_before = size;
	pthread_mutex_unlock(&b->mu);
}

/* ---- errors ---- */

void behind_failed_locked(struct behind *b, struct inode *ino, int status)
{
	b->error = status;
	atomic_fetch_add(&b->errors, 1);
	/* The kernel has pages that the server does not have. */
	inode_untold(ino);
	inode_written_past(ino);
}

int fs_behind_error(struct file *f, bool seen)
{
	struct behind *b = behind_of(f->ino);
	uint64_t errors = b ? atomic_load(&b->errors) : 0;
	int error;

	if (atomic_load(&f->errors_seen) == errors)
		return 0;
	if (seen)
		atomic_store(&f->errors_seen, errors);
	pthread_mutex_lock(&b->mu);
	error = b->error;
	pthread_mutex_unlock(&b->mu);
	return error;
}

void fs_behind_opened(struct file *f)
{
	const struct behind *b = behind_of(f->ino);

	atomic_store(&f->errors_seen, b ? atomic_load(&b->errors) : 0);
}

/* ---- time ---- */

/* Of what this lane holds: everything as old as that is to be sent, or committed. */
static void want_old(struct fs_lane *fl, uint64_t now, uint64_t send_ns, uint64_t commit_ns)
{
	list_for_each(n, &fl->held) {
		struct fs_req *r = container_of(n, struct fs_req, held.lane_node);
		struct behind *b = behind_of(r->ino);
		uint64_t age = now - r->held.since_ns;

		if (age < send_ns)
			continue;
		pthread_mutex_lock(&b->mu);
		if (r->held.state == HELD)
			behind_want_locked(r);
		b->commit_wanted |= r->held.state == HELD_LOOSE && age >= commit_ns;
		if (!r->held.posted)
			loop_post(fl->lane->loop, &r->held.msg);
		r->held.posted = true;
		pthread_mutex_unlock(&b->mu);
	}
}

void fs_behind_tick(struct fs_lane *fl, uint64_t now_ns)
{
	want_old(fl, now_ns, SEND_NS, COMMIT_NS);
}

void fs_behind_on_room(struct loop_msg *m)
{
	struct fs_lane *fl = container_of(m, struct fs_lane, room_msg);

	atomic_store(&fl->room_wanted, false);
	want_old(fl, mono_ns(), 0, 0);
}

/* ---- the end ---- */

static void want_everything(struct nfs_lane *l, void *arg)
{
	struct fs *fs = arg;

	want_old(&fs->lanes[l->index], mono_ns(), 0, 0);
}

static bool any_up(const struct fs *fs)
{
	for (unsigned i = 0; i < fs->nlanes; i++)
		if (nfs_lane_up(fs->lanes[i].lane))
			return true;
	return false;
}

static uint64_t newest_reply(const struct fs *fs)
{
	uint64_t newest = 0;

	for (unsigned i = 0; i < fs->nlanes; i++) {
		uint64_t t = atomic_load_explicit(&fs->lanes[i].lane->last_reply_ns,
						  memory_order_relaxed);

		newest = t > newest ? t : newest;
	}
	return newest;
}

/* What the end of a mount knows of the server. */
struct drain {
	size_t left;                    /* bytes */
	uint64_t begin_ns;
	uint64_t heard_ns;              /* its newest reply, or when `left` last became less */
	uint64_t up_ns;                 /* there was a connection */
	bool said;
};

static bool is_silent(const struct drain *d, uint64_t timeo_ms)
{
	uint64_t now = mono_ns();

	return now - d->up_ns >= DRAIN_DOWN_NS ||
	       now - d->heard_ns >= timeo_ms * 1000000 + DRAIN_UP_NS;
}

static void look(struct drain *d, const struct fs *fs)
{
	size_t left = atomic_load(&fs->behind.bytes);
	uint64_t now = mono_ns(), reply = newest_reply(fs);

	if (any_up(fs))
		d->up_ns = now;
	if (left < d->left)
		d->heard_ns = now;
	else if (reply > d->heard_ns)
		d->heard_ns = reply;
	d->left = left;
	if (d->said || !left || now - d->begin_ns < DRAIN_SAY_NS)
		return;
	d->said = true;
	log_info("the mount has ended; waiting for %s to take %zu bytes that programs have written",
		 fs->cl->cfg.server, left);
}

void fs_behind_drain(struct fs *fs)
{
	uint64_t now = mono_ns();
	struct drain d = { .left = atomic_load(&fs->behind.bytes), .begin_ns = now,
			   .heard_ns = now, .up_ns = now };

	/* Programs may still be writing: a mount can be taken away from them. */
	atomic_store(&fs->behind.closed, true);
	while (d.left && !is_silent(&d, fs->cl->cfg.timeo_ms)) {
		nfs_each_lane(fs->cl, want_everything, fs);
		usleep(DRAIN_STEP_MS * 1000);
		look(&d, fs);
	}
}

void fs_behind_say_lost(struct fs *fs)
{
	size_t left = atomic_load(&fs->behind.bytes);

	if (left)
		log_err("%zu bytes that programs have written were given up: %s does not take them",
			left, fs->cl->cfg.server);
}
