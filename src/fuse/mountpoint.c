/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is looked at before the mount: may this directory be a mount point? */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "fuse/fs.h"

static bool mountpoint_is_taken(const char *path, const struct stat *st)
{
	struct stat parent;
	char up[4096 + 4];

	snprintf(up, sizeof(up), "%s/..", path);
	return stat(up, &parent) == 0 &&
	       (parent.st_dev != st->st_dev || parent.st_ino == st->st_ino);
}

static bool mountpoint_is_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	bool empty = true;

	if (!d)
		return true;    /* a user who may not look may still be allowed to mount */
	while (empty && (e = readdir(d)))
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
	closedir(d);
	return empty;
}

/* An automount is there to be mounted over. Whoever looks into it, and is not of its own process group, asks
 * for the very mount that is about to be made, and waits for it; O_PATH does not. */
static bool mountpoint_is_automount(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statfs st;
	bool is = fd >= 0 && fstatfs(fd, &st) == 0 && st.f_type == AUTOFS_SUPER_MAGIC;

	if (fd >= 0)
		close(fd);
	return is;
}

int fs_check_mountpoint(const char *path, struct errbuf *eb)
{
	struct stat st;

	if (mountpoint_is_automount(path))
		return 0;
	if (stat(path, &st) < 0)
		return err_set(eb, -errno, "cannot mount on '%s': %s%s", path, strerror(errno),
			       errno == ENOENT ? "; make the directory first" :
			       errno == ENOTCONN ? "; a FUSE mount whose daemon is gone is there: "
			       "'fusermount3 -u' (or umount) removes it" : "");
	if (!S_ISDIR(st.st_mode))
		return err_set(eb, -ENOTDIR, "cannot mount on '%s': it is not a directory", path);
	if (mountpoint_is_taken(path, &st))
		return err_set(eb, -EBUSY, "cannot mount on '%s': it is busy, a file system is mounted "
			       "there already; unmount it first, or use another directory", path);
	if (!mountpoint_is_empty(path))
		return err_set(eb, -ENOTEMPTY, "cannot mount on '%s': the directory is not empty, "
			       "and its files would be hidden; use an empty one", path);
	if (geteuid() != 0 && access(path, W_OK) < 0)
		return err_set(eb, -errno, "cannot mount on '%s': %s; an ordinary user needs write "
			       "permission there", path, strerror(errno));
	return 0;
}
