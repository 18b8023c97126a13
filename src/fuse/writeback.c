/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of a mount by a signal: what mappings have dirtied is in the kernel. See fs_write_back(). */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fuse/fs_impl.h"
#include "vfs/drain.h"

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

/* Waits for a moment. Has everything been read that this process was to have sent? *fd becomes -1
 * when it has said that it is done. */
static bool all_read(struct fs *fs, int *fd)
{
	struct pollfd p = { .fd = *fd, .events = POLLIN };
	int rc = 0;

	/* With -1 this is a sleep. */
	if (poll(&p, 1, DRAIN_STEP_MS) > 0)
		rc = hear(fs, *fd);
	if (rc < 0)
		return true;    /* nothing comes */
	if (rc > 0)
		*fd = -1;
	return *fd < 0 && atomic_load(&fs->synced);
}

void fs_write_back(struct fs *fs, int fd)
{
	struct drain d = drain_begins(&fs->vfs);
	uint64_t read_ns = 0;           /* when all had been read */

	while (!drain_is_silent(&d, &fs->vfs)) {
		if (!read_ns && all_read(fs, &fd))
			read_ns = mono_ns();
		else if (read_ns)
			usleep(DRAIN_STEP_MS * 1000);
		if (read_ns && !some_unanswered(fs, read_ns))
			break;
		drain_look(&d, &fs->vfs);
	}
}
