/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of a mount. On the main thread, in fs_wait(); lanes serve requests until the last step.
 *
 *   who ends it                what the kernel has is written back   what is held is sent
 *   umount, or -l              the kernel has done that              as long as the server is there
 *   a signal: fs_stop()        yes: fs_write_back()                  as long as the server is there
 *   umount -f, while it is     no: the connection is aborted         for ABORT_S
 *   used; fs_abort()
 *
 * An abort may come at any time, also while one of the others waits. Nobody waits for longer than
 * ABORT_S then: "nothing promised is lost" holds, because close() and fsync() have answered nobody
 * whose data is not on the server; the log says how much is lost.
 *
 * `umount -f` of a mount that is used aborts its connection, and leaves the mount where it is, good
 * for nothing. So it is taken away here, which lets programs see that it is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include "fuse/fs_impl.h"
#include "ring/rings.h"

/* For so long the end waits for a thread of dropper.h: a READ may take its time. */
#define DROPPERS_END_S 5
/* For so long an aborted mount waits for the server. */
#define ABORT_S 2

bool fs_is_gone(const struct fs *fs)
{
	struct pollfd p = { .fd = fuse_session_fd(fs->se) };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

/* The session's own device would keep the mount alive without anybody who reads it. libfuse
 * closes it with the session. */
static void close_device(struct fs *fs)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0) {
		dup3(null, fuse_session_fd(fs->se), O_CLOEXEC);
		close(null);
	}
}

const char *fs_why(int rc)
{
	return rc == -ENOTCONN || rc == -ESRCH ? "the process nfsrdma-unmount has ended" :
	       rc == -ECONNABORTED ? "its connection was aborted" :
	       rc == -ENOENT ? "it is no longer mounted" :
	       rc == -EBUSY ? "something else is mounted over it" : strerror(-rc);
}

void fs_take_away(struct fs *fs, enum fs_unmount how)
{
	int rc = fs->cfg.unmount && !fs_is_gone(fs) ? fs->cfg.unmount(how, fuse_session_fd(fs->se)) : 0;

	if (rc)
		log_warn("'%s' could not be unmounted: %s; unmount it by hand", fs->cfg.vfs.place,
			 fs_why(rc));
	if (fs->cfg.mount)
		close_device(fs);
	else
		fuse_session_unmount(fs->se);
}

/* ---- who ends it ---- */

bool fs_is_aborted(const struct fs *fs)
{
	return atomic_load(&fs->vfs.end_by_ns);
}

static void end_within(struct fs *fs)
{
	atomic_store(&fs->vfs.end_by_ns, mono_ns() + ABORT_S * 1000000000ull);
	nfs_client_hurry(fs->vfs.cl);
}

void fs_stop(struct fs *fs)
{
	sem_post(&fs->ended);
}

void fs_abort(struct fs *fs)
{
	end_within(fs);
	fs_stop(fs);
}

/* The kernel has ended the connection. If the mount is there all the same, it was aborted. */
static void end_of_connection(struct fs *fs)
{
	int rc = fs->cfg.unmount ? fs->cfg.unmount(FS_UNMOUNT_DEAD, fuse_session_fd(fs->se)) : -ENOENT;

	if (rc)
		return;
	log_warn("the connection of the mount on '%s' was aborted (umount -f, or its file abort): the mount ends",
		 fs->cfg.vfs.place);
	end_within(fs);
}

/* ---- the steps ---- */

void fs_wait(struct fs *fs)
{
	bool aborts;

	while (sem_wait(&fs->ended) < 0)
		;
	if (fs_is_gone(fs))
		end_of_connection(fs);
	fs_write_back(fs);
	aborts = fs_is_aborted(fs) || !dropper_stop(&fs->dropper, DROPPERS_END_S);
	fs_take_away(fs, aborts ? FS_UNMOUNT_ABORT : FS_UNMOUNT_LAZY);
	if (aborts && !dropper_stop(&fs->dropper, DROPPERS_END_S))
		log_err("the kernel still waits for data of a file on '%s', so this process cannot end: "
			"`umount -f`, or 1 in /sys/fs/fuse/connections/*/abort, ends that", fs->cfg.vfs.place);
	if (fs->rings)
		rings_end(fs->rings);
	vfs_drain(&fs->vfs);
	nfs_each_lane(fs->vfs.cl, fs_lane_detach, fs);
	vfs_stop(&fs->vfs);
	fs_solo_say_rest(fs, UINT64_MAX);
}
