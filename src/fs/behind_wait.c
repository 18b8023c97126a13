/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write-behind: who waits for it, what fails, and the end. See behind.h. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fs/behind_impl.h"

/* A WRITE that is held is sent at this age, a LOOSE one is committed at that age: the kernel's
 * client leaves it that long as well. What the server loses until then is still here. */
#define SEND_NS   1000000000ull
#define COMMIT_NS 30000000000ull
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
	for (enum held_state s = HELD; s <= HELD_COMMITTING; s++) {
		const struct fs_req *r = held_first(&b->in[s]);

		if (r && r->held.seq <= upto)
			*(held_unsent(r) ? unsent : loose) = true;
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

	r->settle.go(r);
}

/* Everything is to be sent. If it is a single WRITE, COMMIT can be saved. */
static void want_all_locked(struct behind *b)
{
	struct fs_req *r;

	if (atomic_load(&b->count) == 1 && b->tree->held.state <= HELD_DUE)
		b->tree->held.stable = true;
	while ((r = held_first(&b->in[HELD])))
		behind_want_locked(b, r);
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
	bool holds;

	if (!b || !atomic_load(&b->count))
		return false;
	pthread_mutex_lock(&b->mu);
	holds = held_next(b->tree, offset, offset + len, NULL);
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
	if (held_highest(b->tree) > end)
		end = held_highest(b->tree);
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

/* Everything of that file that is as old is to be sent, or committed. true: nothing is held, and
 * the lane need not look at it any more. */
static bool want_old_locked(struct behind *b, uint64_t now, uint64_t send_ns, uint64_t commit_ns)
{
	struct fs_req *r;

	while ((r = held_first(&b->in[HELD])) && now - r->held.since_ns >= send_ns)
		behind_want_locked(b, r);
	r = held_first(&b->in[HELD_LOOSE]);
	b->commit_wanted |= r && now - r->held.since_ns >= commit_ns;
	b->on_lane = atomic_load(&b->count) != 0;
	return !b->on_lane;
}

static void want_old(struct fs_lane *fl, uint64_t now, uint64_t send_ns, uint64_t commit_ns)
{
	list_for_each_safe(n, tmp, &fl->held) {
		struct behind *b = container_of(n, struct behind, lane_node);
		struct inode *ino = b->ino;
		bool over;

		pthread_mutex_lock(&b->mu);
		over = want_old_locked(b, now, send_ns, commit_ns);
		if (over)
			list_del(&b->lane_node);
		pthread_mutex_unlock(&b->mu);
		if (over)
			inode_put(&fl->fs->inodes, ino, 1);
		else
			behind_progress(ino);
	}
}

void fs_behind_tick(struct fs_lane *fl, uint64_t now_ns)
{
	struct behind_pool *p = &fl->fs->behind;
	/* The room was to grow, and does not. */
	bool now = atomic_load(&p->nwaiting) && behind_rather_commits(p);

	behind_move_all(fl, now_ns);
	want_old(fl, now_ns, now ? 0 : SEND_NS, now ? 0 : COMMIT_NS);
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

static struct drain begin_drain(const struct fs *fs)
{
	uint64_t now = mono_ns();

	return (struct drain){
		.left = atomic_load(&fs->behind.bytes), .begin_ns = now, .heard_ns = now, .up_ns = now,
	};
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
}

static void say_waits(struct drain *d, const struct fs *fs)
{
	if (d->said || !d->left || mono_ns() - d->begin_ns < DRAIN_SAY_NS)
		return;
	d->said = true;
	log_info("the mount has ended; waiting for %s to take %zu bytes that programs have written",
		 fs->cl->cfg.server, d->left);
}

/* WRITEs without an answer. */
struct unanswered {
	struct fs *fs;
	uint64_t before_ns;             /* those that have come before */
	bool any;                       /* under no lock: one lane after the other looks */
};

static bool is_unanswered(const struct fs_req *r, uint64_t before_ns)
{
	bool through = r->calling && (r->call.op == NFS_OP_WRITE || r->call.op == NFS_OP_COMMIT);

	return r->req && r->start_ns < before_ns &&
	       (through || r->spare || r->held.state == HELD_WAITS);
}

static void look_unanswered(struct nfs_lane *l, void *arg)
{
	struct unanswered *u = arg;

	list_for_each(n, &u->fs->lanes[l->index].active)
		u->any |= is_unanswered(container_of(n, struct fs_req, node), u->before_ns);
}

static bool some_unanswered(struct fs *fs, uint64_t before_ns)
{
	struct unanswered u = { fs, before_ns, false };

	nfs_each_lane(fs->cl, look_unanswered, &u);
	return u.any;
}

/* The process of fs_config.write_back speaks. 0; 1: it is done; or -errno: it could not do it. */
static int hear(struct fs *fs, int fd)
{
	int32_t said;
	ssize_t n = recv(fd, &said, sizeof(said), MSG_DONTWAIT);

	if (n != sizeof(said))
		return n < 0 && errno == EAGAIN ? 0 : -ESRCH;
	if (atomic_load(&fs->syncs))
		return said < 0 ? said : 1;
	atomic_store(&fs->syncs, said);
	return send(fd, "", 1, MSG_NOSIGNAL) == 1 ? 0 : -ESRCH;
}

/* Waits for a moment. Has everything been read that this process was to have sent? 0: not yet; 1; or
 * -errno: that could not be done. *fd becomes -1 when it has said that it is done. */
static int all_read(struct fs *fs, int *fd)
{
	struct pollfd p = { .fd = *fd, .events = POLLIN };
	int rc = 0;

	/* With -1 this is a sleep. */
	if (poll(&p, 1, DRAIN_STEP_MS) > 0)
		rc = hear(fs, *fd);
	if (rc > 0)
		*fd = -1;
	if (*fd < 0 && atomic_load(&fs->synced))
		return 1;
	return fs_is_gone(fs) ? -ECONNABORTED : rc < 0 ? rc : 0;
}

int fs_behind_pages(struct fs *fs, int fd)
{
	struct drain d = begin_drain(fs);
	uint64_t read_ns = 0;           /* when all had been read */
	int rc = 0;

	while (!is_silent(&d, fs->cl->cfg.timeo_ms)) {
		if (read_ns)
			usleep(DRAIN_STEP_MS * 1000);
		else if ((rc = all_read(fs, &fd)))
			read_ns = mono_ns();
		if (read_ns && !some_unanswered(fs, read_ns))
			return rc < 0 ? rc : 0;
		look(&d, fs);
	}
	return -ETIMEDOUT;
}

void fs_behind_drain(struct fs *fs)
{
	struct drain d;

	/* Programs may still be writing: a mount can be taken away from them. A lane that has not
	 * seen this yet has held what it is about to hold when each lane has been asked once. */
	atomic_store(&fs->behind.closed, true);
	nfs_each_lane(fs->cl, want_everything, fs);
	d = begin_drain(fs);
	while (d.left && !is_silent(&d, fs->cl->cfg.timeo_ms)) {
		usleep(DRAIN_STEP_MS * 1000);
		nfs_each_lane(fs->cl, want_everything, fs);
		look(&d, fs);
		say_waits(&d, fs);
	}
}

void fs_behind_say_lost(struct fs *fs)
{
	size_t left = atomic_load(&fs->behind.bytes);

	if (left)
		log_err("%zu bytes that programs have written were given up: %s does not take them",
			left, fs->cl->cfg.server);
}
