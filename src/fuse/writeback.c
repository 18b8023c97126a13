/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of a mount by a signal: what mappings have dirtied is in the kernel. Another process
 * calls syncfs() (fs_config.write_back), and this waits until all that comes of it is held, or is
 * on the server; as long as the server is there.
 *
 * The kernel does not wait for these WRITEs, and has 128 (BACKGROUND) at most under way. The others
 * stand in a queue, and overtake nothing. A request that somebody waits for, as STATFS, goes before
 * that queue. RELEASEDIR stands in it, because nobody waits for it: when that of the process that
 * calls syncfs() is read, all WRITEs before it were. Other programs close directories meanwhile. So
 * OPENDIR's pid says which one it is: RELEASEDIR has none.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fuse/fs_impl.h"
#include "vfs/drain.h"

/* write_back_all(): how often nothing comes, and for how long each time. */
#define QUIET_TIMES 5u
#define QUIET_US 20000u

/* WRITEs without an answer. */
struct unanswered {
	struct fs *fs;
	uint64_t before_ns;             /* those that have come before */
	bool any;                       /* under no lock: one lane after the other looks */
};

static bool is_unanswered(const struct fs_req *r, uint64_t before_ns)
{
	enum nfs_op op = r->op.call.op;
	bool through = r->op.calling && (op == NFS_OP_WRITE || op == NFS_OP_COMMIT);

	return r->req && r->op.start_ns < before_ns && (through || r->spare || r->op.waits_room);
}

static void look_unanswered(struct nfs_lane *l, void *arg)
{
	struct unanswered *u = arg;

	list_for_each(n, &u->fs->lanes[l->index].vl.active)
		u->any |= is_unanswered(container_of(n, struct fs_req, op.node), u->before_ns);
}

static bool some_unanswered(struct fs *fs, uint64_t before_ns)
{
	struct unanswered u = { fs, before_ns, false };

	nfs_each_lane(fs->vfs.cl, look_unanswered, &u);
	return u.any;
}

/* The process of fs_config.write_back speaks. 0; 1: it is done; or -errno: it could not do it. */
static int writeback_hear(struct fs *fs, int fd)
{
	int32_t said;
	ssize_t n = recv(fd, &said, sizeof(said), MSG_DONTWAIT);

	if (n != sizeof(said))
		return n < 0 && errno == EAGAIN ? 0 : -ESRCH;
	if (atomic_load(&fs->write_back.syncs))
		return said < 0 ? said : 1;
	atomic_store(&fs->write_back.syncs, said);
	return send(fd, "", 1, MSG_NOSIGNAL) == 1 ? 0 : -ESRCH;
}

/* Waits for a moment. Has everything been read that this process was to have sent? 0: not yet; 1;
 * or -errno: that could not be done. *fd becomes -1 when it has said that it is done. */
static int all_read(struct fs *fs, int *fd)
{
	struct pollfd p = { .fd = *fd, .events = POLLIN };
	int rc = 0;

	/* With -1 this is a sleep. */
	if (poll(&p, 1, DRAIN_STEP_MS) > 0)
		rc = writeback_hear(fs, *fd);
	if (rc > 0)
		*fd = -1;
	if (*fd < 0 && atomic_load(&fs->write_back.synced))
		return 1;
	return fs_is_gone(fs) || fs_is_aborted(fs) ? -ECONNABORTED : rc < 0 ? rc : 0;
}

int fs_write_back_wait(struct fs *fs, int fd)
{
	struct drain d = drain_begins(&fs->vfs);
	uint64_t read_ns = 0;           /* when all had been read */
	int rc = 0;

	while (!drain_is_silent(&d, &fs->vfs)) {
		if (read_ns)
			usleep(DRAIN_STEP_MS * 1000);
		else if ((rc = all_read(fs, &fd)))
			read_ns = mono_ns();
		if (read_ns && !some_unanswered(fs, read_ns))
			return rc < 0 ? rc : 0;
		drain_look(&d, &fs->vfs);
	}
	return -ETIMEDOUT;
}

static int write_back_once(struct fs *fs)
{
	int fd, rc;

	atomic_store(&fs->write_back.synced, false);
	atomic_store(&fs->write_back.syncs, 0);
	fd = fs->cfg.write_back(fuse_session_fd(fs->se));
	if (fd < 0)
		return fd;
	rc = fs_write_back_wait(fs, fd);
	close(fd);
	return rc;
}

/* ---- which files ---- */

/* Open files whose pages may be dirty in the kernel. */
struct dirtied {
	unsigned n;
	struct inode *one;              /* a reference to one of them */
};

static void look_dirtied(const void *obj, void *arg)
{
	const struct fs_file *f = obj;
	struct dirtied *d = arg;

	if (f->dirties && !d->n++)
		inode_ref(d->one = f->f.ino);
}

static struct dirtied find_dirtied(struct fs *fs)
{
	struct dirtied d = { 0, NULL };

	handles_each(&fs->files, look_dirtied, &d);
	return d;
}

static void say_not_sent(struct fs *fs, int rc)
{
	struct dirtied d = find_dirtied(fs);
	char path[1200];

	if (!d.n)
		return;
	vfs_path(&fs->vfs, d.one, path, sizeof(path));
	inode_put(&fs->vfs.inodes, d.one, 1);
	log_err("data written through mappings%s may be lost: the kernel did not send it (%s: %s). %u open "
		"files may have such data; one is '%s'",
		fs->cfg.vfs.solo ? " or into the write-back cache" : "",
		rc == -ETIMEDOUT ? fs->vfs.cl->cfg.server : fs->cfg.vfs.place,
		rc == -ETIMEDOUT ? "no answer" : fs_why(rc), d.n, path);
}

/* ---- all of it ---- */

/*
 * In newer kernels (7.1, later 6.18) syncfs() of FUSE only wakes the thread that writes back. That
 * may come later, and leaves out each file that it finds while congestion_threshold requests are
 * under way. So it is repeated until it has brought nothing for a while. A program may dirty its
 * pages for ever; but one file at least is done each time.
 */
static int write_back_all(struct fs *fs)
{
	struct dirtied d = find_dirtied(fs);
	unsigned most = d.n ? 2 * (d.n + QUIET_TIMES) : 1, quiet = 0;
	int rc = 0;

	if (d.n)
		inode_put(&fs->vfs.inodes, d.one, 1);
	while (!rc && quiet < QUIET_TIMES && most--) {
		uint64_t before = atomic_load(&fs->write_back.writes);

		rc = write_back_once(fs);
		if (most)
			usleep(QUIET_US);
		quiet = atomic_load(&fs->write_back.writes) == before ? quiet + 1 : 0;
	}
	return rc;
}

void fs_write_back(struct fs *fs)
{
	int rc = 0;

	atomic_store(&fs->write_back.ends, true);
	if (fs->cfg.write_back && !fs_is_gone(fs) && !fs_is_aborted(fs))
		rc = write_back_all(fs);
	if (fs_is_aborted(fs))
		rc = -ECONNABORTED;
	if (rc)
		say_not_sent(fs, rc);
}
