/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Silly names. A server frees a file when its last name is removed, but a file that is open
 * here must exist until the last close. So when an open file loses a name, it gets another
 * one, .nfsXXXX in the same directory. That is removed at the last close, as the kernel's
 * NFS client does.
 *
 *   fs_silly_new      the request has the name: nobody else knows of it, or removes it
 *        |
 *        |  the calls that give the file that name and remove the old one
 *        |
 *        +-- done    --> fs_silly_keep: the inode has the name (inode_set_silly) ...
 *        |                  ... last close: inode_close, CLOSE, fs_remove_silly
 *        |               the file is closed already: fs_remove_silly at once
 *        +-- not done -> the file has the old name: fs_silly_drop
 *        +-- unknown --> fs_put_back looks, and gives the file its old name back;
 *                        if it cannot, the file stays as .nfsXXXX and the log says so
 *
 * A name of a file that is not open is removed plainly. So is .nfsXXXX after the last
 * close, and another hard link of a file that has such a name. Nobody here knows which name
 * of a file is the last, and an open might come in between. So such a call pins the file
 * until its reply (fs_pin): see opens.h.
 *
 * Users see these names, and may use them in calls of their own. What would take the name from
 * the file, or the file from the name, fails with EBUSY:
 *
 *   unlink(.nfs1)      the last close does it (the kernel's NFS client says EBUSY, too)
 *   rename(b, .nfs1)   the file would be gone, and the last close would remove b (the same)
 *   rename(.nfs1, b)   b could then be removed plainly, because the file seems to have another
 *                      name. The kernel's client allows it, and then loses sight of the file
 *   link(.nfs1, b)     is allowed: the file has one name more. So can a user have it back
 *
 * A name stays busy as a target for ever, because it may be about to be made or removed. As a
 * source it is busy as long as the inode has it: what was left as .nfs1, and the log says so,
 * can be renamed.
 *
 * A directory counts the silly names in it (nsilly), and those that are being removed
 * (nleaving: from the last close to REMOVE's reply). close() does not wait for the removal.
 * A call that needs the directory empty does: fs_silly_note, fs_silly_wait.
 *
 * If its lane has lost its connection for a while and another one has one, that removes the name:
 * opens of the file, and who removes the directory, would wait for ever. REMOVE may be executed
 * twice, and late, because no other file ever gets the name.
 *
 * If the daemon dies before the close, the .nfs file stays, as with any NFS client. The
 * same goes for a lane that ends in the middle of such a request.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fuse/fs_impl.h"

/* So long a silly name waits for CLOSE, if its lane has no connection and another one has. */
#define CLOSE_NS 5000000000ull
#define NAME_FORMAT ".nfs%016" PRIx64

bool fs_silly_is_ours(const struct fs *fs, const char *name)
{
	char start[32];
	int n = snprintf(start, sizeof(start), NAME_FORMAT, fs->silly_seed);

	return strncmp(name, start, (size_t)n) == 0;
}

struct silly *fs_silly_new(struct fs_req *r, struct inode *dir)
{
	struct fs *fs = r->fl->fs;
	struct silly *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	inode_ref(dir);
	s->dir = dir;
	atomic_fetch_add(&dir->nsilly, 1);
	s->cred = r->cred;
	snprintf(s->name, sizeof(s->name), NAME_FORMAT "%08x", fs->silly_seed,
		 atomic_fetch_add(&fs->silly_count, 1));
	return s;
}

static void silly_removed(struct fs_req *r);

static void remove_name(struct fs_lane *fl, struct silly *s)
{
	struct fs_req *r = fs_req_new_quiet(fl, NULL, &s->cred);

	if (!r) {
		log_warn("'%s' stays on the server: out of memory", s->name);
		silly_free(&fl->fs->inodes, s);
		return;
	}
	r->silly = s;
	r->call.args.fh = &s->dir->fh;
	r->call.args.name = s->name;
	fs_req_start(r, NFS_OP_REMOVE, silly_removed);
}

void fs_remove_silly(struct fs_lane *fl, struct silly *s)
{
	silly_leaves(s);
	remove_name(fl, s);
}

static void on_moved(struct loop_msg *m)
{
	remove_name(fs_this_lane, container_of(m, struct silly, msg));
}

/* Another lane removes it, if there is one by now. Until its message is there nobody has it. */
static void move(struct fs_lane *fl, struct silly *s)
{
	struct fs_lane *to = fs_other_lane(fl);

	silly_leaves(s);
	s->msg.fn = on_moved;
	if (to)
		loop_post(to->lane->loop, &s->msg);
	else
		remove_name(fl, s);
}

static void silly_removed(struct fs_req *r)
{
	int status = r->call.res.status;

	fs_dir_changed(r->silly->dir);
	if (status == -ENOTCONN) {      /* fs_silly_tick() */
		move(r->fl, r->silly);
		r->silly = NULL;
	} else if (status && status != -ENOENT) {
		log_warn("'%s' stays on the server: it could not be removed after its file was "
			 "closed: %s", r->silly->name, strerror(-status));
	}
	fs_req_free(r);
}

/* CLOSE stays: to end it is to forget its open. The name need not wait for it. */
static bool leaves(struct fs_req *r, uint64_t now_ns)
{
	if (r->done == silly_removed)
		return fs_leave_lane(&r->call, now_ns);
	if (r->call.op != NFS_OP_CLOSE || !r->silly || now_ns - r->start_ns < CLOSE_NS)
		return false;
	move(r->fl, r->silly);
	r->silly = NULL;
	return true;
}

static bool any_leaves(struct fs_lane *fl, uint64_t now_ns)
{
	list_for_each(n, &fl->active) {
		struct fs_req *r = container_of(n, struct fs_req, node);

		if (r->calling && leaves(r, now_ns))
			return true;
	}
	return false;
}

/* The list changes. */
void fs_silly_tick(struct fs_lane *fl, uint64_t now_ns)
{
	while (fs_other_lane(fl) && any_leaves(fl, now_ns))
		;
}

void fs_silly_keep(struct fs_req *r, bool old_gone)
{
	/* The file was closed meanwhile, or another request has given it a silly name. Then no
	 * close will remove this one. */
	if (!inode_set_silly(&r->fl->fs->inodes, r->victim, r->home->id,
			     old_gone ? r->home_name : NULL, r->silly))
		fs_remove_silly(r->fl, r->silly);
	r->silly = NULL;
}

void fs_silly_drop(struct fs_req *r)
{
	fs_remove_silly(r->fl, r->silly);
	r->silly = NULL;
}

void fs_silly_forget(struct fs_req *r)
{
	silly_free(&r->fl->fs->inodes, r->silly);
	r->silly = NULL;
}

bool fs_maybe_done(int status)
{
	switch (status) {
	case -EIO:
	case -ETIMEDOUT:
	case -ESHUTDOWN:
	case -ENOENT:           /* a call that was sent twice does not find what it has moved */
	case -ESTALE:
		return true;
	default:
		return false;
	}
}

/* ---- putting a file back ----
 *
 *   .nfs1 does not exist     the file was never moved
 *   a is the file            it has both names: REMOVE .nfs1
 *   a is what RENAME moves   it has replaced the file, whatever the server said
 *   a does not exist         LINK .nfs1 as a, REMOVE .nfs1
 *   a is another file        somebody has created it since: the file stays as .nfs1
 */

static void put_back_ends(struct fs_req *r)
{
	fs_dir_changed(r->home);
	r->call.res.status = r->saved;
	r->after(r);
}

/* The file stays under its silly name. The log says where its data is. */
static void kept(struct fs_req *r, const char *are)
{
	log_err("'%s' could not be given its name back: its data %s in the same directory as "
		"'%s'", r->home_name, are, r->silly->name);
	fs_silly_forget(r);
	put_back_ends(r);
}

static void renamed_back(struct fs_req *r)
{
	if (r->call.res.status) {
		kept(r, "are");
		return;
	}
	/* RENAME between two names of one file does nothing, and another client may have made
	 * the second name. So the silly name may still exist. */
	fs_silly_drop(r);
	put_back_ends(r);
}

static void start_link(struct fs_req *r, const char *name, void (*done)(struct fs_req *r))
{
	r->call.args.fh = &r->victim->fh;
	r->call.args.fh2 = &r->home->fh;
	r->call.args.name = name;
	fs_req_start(r, NFS_OP_LINK, done);
}

/* LINK comes first, because RENAME would replace a file that somebody has created under that
 * name meanwhile. */
static void linked_back(struct fs_req *r)
{
	if (r->call.res.status == 0) {
		fs_silly_drop(r);
		put_back_ends(r);
	} else if (r->call.res.status == -EEXIST || fs_maybe_done(r->call.res.status)) {
		kept(r, "are");
	} else {                /* the server has no hard links */
		fs_start_rename(r, r->home, r->silly->name, r->home, r->home_name, r->victim,
				renamed_back);
	}
}

static bool is(const struct fs_req *r, const struct inode *ino)
{
	return ino && r->call.res.fh.len == ino->fh.len &&
	       !memcmp(r->call.res.fh.data, ino->fh.data, ino->fh.len);
}

static void home_looked(struct fs_req *r)
{
	if (r->call.res.status == -ENOENT) {
		start_link(r, r->home_name, linked_back);
	} else if (r->call.res.status == 0 && is(r, r->victim)) {
		fs_silly_drop(r);
		put_back_ends(r);
	} else if (r->call.res.status == 0 && is(r, r->moved)) {
		r->saved = 0;
		put_back_ends(r);
	} else {
		kept(r, "are");
	}
}

static void start_lookup(struct fs_req *r, const char *name, void (*done)(struct fs_req *r))
{
	r->call.args.fh = &r->home->fh;
	r->call.args.name = name;
	fs_req_start(r, NFS_OP_LOOKUP, done);
}

static void silly_looked(struct fs_req *r)
{
	if (r->call.res.status == 0) {
		start_lookup(r, r->home_name, home_looked);
	} else if (r->call.res.status == -ENOENT) {
		fs_silly_forget(r);
		put_back_ends(r);
	} else {
		kept(r, "may be");
	}
}

void fs_put_back(struct fs_req *r, void (*after)(struct fs_req *r))
{
	r->saved = r->call.res.status;
	r->after = after;
	start_lookup(r, r->silly->name, silly_looked);
}

void fs_silly_link(struct fs_req *r, void (*done)(struct fs_req *r))
{
	start_link(r, r->silly->name, done);
}

/* ---- names that are removed plainly ---- */

void fs_pin(struct fs_req *r, struct inode *ino)
{
	if (ino && inode_pin(&r->fl->fs->inodes, ino))
		r->pinned = ino;
	else
		r->victim = ino;
}

void fs_unpin(struct fs_req *r)
{
	struct inode_table *t = &r->fl->fs->inodes;

	if (!r->pinned)
		return;
	inode_unpin(t, r->pinned);
	inode_put(t, r->pinned, 1);
	r->pinned = NULL;
}

/* ---- waiting until silly names are gone ---- */

/*
 * FUSE's release may come after close() has returned. So a file that still seems to be open
 * may be closed already, and its silly name about to go. That is waited for so long.
 */
#define MAYBE_CLOSED_NS 1000000000ull

void fs_silly_note(struct fs_req *r, const struct inode *dir)
{
	if (!dir)
		return;
	/* In this order, because silly_free() changes them in the other order. */
	r->wait.gone = atomic_load(&dir->silly_gone);
	r->wait.left = atomic_load(&dir->nsilly);
	r->wait.dir = dir;
}

static void on_wait(struct loop_timer *t)
{
	struct fs_req *r = container_of(t, struct fs_req, call.eng.timer);
	const struct inode *dir = r->wait.dir;

	if (!r->req) {                  /* interrupted */
		fs_done_status(r);
	} else if (atomic_load(&dir->silly_gone) != r->wait.gone) {
		r->wait.again(r);
	} else if (!atomic_load(&dir->nleaving) && mono_ns() > r->wait.until_ns) {
		fs_done_status(r);      /* all of these files are open */
	} else {
		fs_wait_more(r);
	}
}

bool fs_silly_wait(struct fs_req *r, void (*again)(struct fs_req *r))
{
	int rc = r->call.res.status;

	/* wait.left counts the names at the time when the call was sent. They may be gone now. */
	if ((rc != -ENOTEMPTY && rc != -EEXIST) || !r->wait.dir || !r->wait.left || !r->req)
		return false;
	if (!r->wait.until_ns)
		r->wait.until_ns = mono_ns() + MAYBE_CLOSED_NS;
	r->wait.again = again;
	r->wait_shift = 0;
	loop_timer_init(&r->call.eng.timer, on_wait);
	on_wait(&r->call.eng.timer);
	return true;
}
