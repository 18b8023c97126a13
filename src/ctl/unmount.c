/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/unmount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

static int by_fusermount(const char *mountpoint)
{
	pid_t child = fork();
	int wstatus;

	if (child < 0)
		return -errno;
	if (child == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-q", "-z", "--", mountpoint, (char *)NULL);
		_exit(127);
	}
	if (TEMP_FAILURE_RETRY(waitpid(child, &wstatus, 0)) < 0)
		return -errno;
	return WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == 0 ? 0 : -EPERM;
}

/* Linux 6.8. */
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000u
#endif

/* Which mount a descriptor is in, by either of its numbers. false: unknown. The daemon is not asked. */
static bool mount_of(int fd, unsigned which, uint64_t *id)
{
	struct statx st = { 0 };

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, which, &st) < 0 || !(st.stx_mask & which))
		return false;
	*id = st.stx_mnt_id;
	return true;
}

static bool is_that_mount(int fd, const struct ctl_mount *m)
{
	uint64_t id;

	return mount_of(fd, STATX_MNT_ID, &id) && id == (uint64_t)m->id;
}

/* It has the numbers of one that is gone. */
static bool is_a_later_mount(int fd, const struct ctl_mount *m)
{
	uint64_t id;

	return m->unique && mount_of(fd, STATX_MNT_ID_UNIQUE, &id) && id != m->unique;
}

/*
 * The owner of a directory above the mount point may rename it at any time, and replace it by a
 * symbolic link. So a mount is found by its identity, and what a name leads to is compared
 * with that. Nobody can replace what is open.
 */
int ctl_mount_open(const struct ctl_mount *m, int flags)
{
	char *there = ctl_where_now(m);
	bool same;
	int fd, rc;

	if (!there)
		return -ENOENT;
	fd = open(there, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	rc = fd < 0 ? -errno : 0;
	free(there);
	if (rc)
		return rc;
	same = is_that_mount(fd, m);
	if (same && !is_a_later_mount(fd, m))
		return fd;
	close(fd);
	return same ? -ENOENT : -EBUSY;
}

void ctl_mount_note(struct ctl_mount *m)
{
	int fd = ctl_mount_open(m, O_PATH);

	if (fd < 0)
		return;
	if (!mount_of(fd, STATX_MNT_ID_UNIQUE, &m->unique))
		m->unique = 0;
	close(fd);
}

bool ctl_dead_find(const char *mountpoint, struct ctl_mount *out)
{
	struct statfs st;

	if (ctl_where_find(mountpoint, out) || !out->ours || (geteuid() && out->owner != geteuid()))
		return false;
	ctl_mount_note(out);
	return statfs(mountpoint, &st) < 0 && errno == ENOTCONN;
}

static int by_identity(const struct ctl_mount *m, bool aborts)
{
	int fd = ctl_mount_open(m, O_PATH), rc;
	char path[64];

	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* MNT_FORCE aborts the connection, and unmounts only what nobody uses. */
	if (aborts && umount2(path, MNT_FORCE) == 0)
		rc = 0;
	else
		rc = umount2(path, MNT_DETACH) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

/* The user who has mounted may, where the kernel's files on connections are mounted. */
static void abort_connection(const struct ctl_mount *m)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%u/abort", minor(m->dev));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!write(fd, "1", 1);       /* if it refuses, the unmount waits */
	close(fd);
}

/* fusermount3 looks whether a mount of this user's is there, and then takes away the topmost one,
 * whose ever it is. */
int ctl_unmount(const struct ctl_mount *m, const char *mountpoint, bool aborts)
{
	int fd;

	if (geteuid() == 0)
		return m ? by_identity(m, aborts) : -ENOENT;
	fd = m ? ctl_mount_open(m, O_PATH) : -EACCES;
	if (aborts && m)
		abort_connection(m);
	if (fd == -ENOENT || fd == -EBUSY)
		return fd;
	if (fd >= 0)
		close(fd);
	return by_fusermount(mountpoint);
}
