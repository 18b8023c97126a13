/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/where.h"

#include <errno.h>
#include <fcntl.h>
#include <libmount.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "config.h"

struct ctl_roots ctl_roots = { .run = "/run", .run_user = "/run/user", .tmp = "/tmp" };
const char *ctl_mountinfo = "/proc/self/mountinfo";

/* ---- mountinfo ---- */

static bool where_fits(struct libmnt_fs *fs, dev_t dev)
{
	return mnt_fs_get_devno(fs) == dev && mnt_fs_match_fstype(fs, "fuse." PACKAGE_NAME);
}

static unsigned long where_flags(struct libmnt_fs *fs)
{
	unsigned long flags = 0;

	mnt_optstr_get_flags(mnt_fs_get_vfs_options(fs), &flags, mnt_get_builtin_optmap(MNT_LINUX_MAP));
	return flags | (mnt_fs_match_options(fs, "ro") ? MS_RDONLY : 0) | (mnt_fs_match_options(fs, "sync") ? MS_SYNCHRONOUS : 0);
}

/* The value of user_id=, or (uid_t)-1. */
static uid_t owner_of(struct libmnt_fs *fs)
{
	const char *options = mnt_fs_get_fs_options(fs);
	char *value;

	if (!options || mnt_optstr_get_option(options, "user_id", &value, NULL) || !value)
		return (uid_t)-1;
	return (uid_t)strtoul(value, NULL, 10);
}

int ctl_where_find(const char *mountpoint, struct ctl_mount *out)
{
	struct libmnt_table *table = mnt_new_table_from_file(ctl_mountinfo);
	struct libmnt_fs *fs;

	if (!table)
		return errno ? -errno : -EIO;
	fs = mnt_table_find_target(table, mountpoint, MNT_ITER_BACKWARD);
	if (fs)
		*out = (struct ctl_mount){
			.id = mnt_fs_get_id(fs), .dev = mnt_fs_get_devno(fs), .owner = owner_of(fs),
			.read_only = mnt_fs_match_options(fs, "ro"), .flags = where_flags(fs),
			.ours = where_fits(fs, mnt_fs_get_devno(fs)),
		};
	mnt_unref_table(table);
	return fs ? 0 : -ENODEV;
}

/* Where the device is mounted: by the mount `id` if that is not 0, on `mountpoint` if that is not
 * NULL. */
static char *where_search(dev_t dev, int id, const char *mountpoint)
{
	struct libmnt_table *table = mnt_new_table_from_file(ctl_mountinfo);
	struct libmnt_iter *i = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;
	char *out = NULL;

	while (!out && table && i && mnt_table_next_fs(table, i, &fs) == 0)
		if (where_fits(fs, dev) && (!id || mnt_fs_get_id(fs) == id) &&
		    (!mountpoint || strcmp(mnt_fs_get_target(fs), mountpoint) == 0))
			out = strdup(mnt_fs_get_target(fs));
	mnt_free_iter(i);
	mnt_unref_table(table);
	return out;
}

bool ctl_where_mounted(const struct ctl_mount *m, const char *mountpoint)
{
	char *there = where_search(m->dev, 0, mountpoint);

	free(there);
	return there;
}

char *ctl_where_now(const struct ctl_mount *m)
{
	return where_search(m->dev, m->id, NULL);
}

/* ---- mount points ---- */

/* O_PATH asks no file system for what the last name leads to, and the kernel knows the name of
 * what is open. What is behind that last name ("/.") would be looked for in the mount. */
char *ctl_where_resolve(const char *path)
{
	char name[PATH_MAX], link[32];
	size_t len = strlen(path);
	ssize_t n;
	int fd;

	while (len > 1 && (path[len - 1] == '/' || (path[len - 1] == '.' && path[len - 2] == '/')))
		len--;
	if (len == 1 && *path == '.')
		return getcwd(NULL, 0);
	snprintf(name, sizeof(name), "%.*s", (int)len, path);
	fd = open(name, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name));
	close(fd);
	return n < 0 ? NULL : strndup(name, (size_t)n);
}

/* ---- directories ---- */

unsigned ctl_where_dirs(uid_t uid, char out[CTL_DIRS][CTL_DIR_MAX])
{
	char home[CTL_DIR_MAX];
	struct stat st;
	unsigned n = 0;

	snprintf(home, sizeof(home), "%s/%u", ctl_roots.run_user, uid);
	if (uid == 0)
		snprintf(out[n++], CTL_DIR_MAX, "%s/" PACKAGE_NAME, ctl_roots.run);
	else if (lstat(home, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid)
		snprintf(out[n++], CTL_DIR_MAX, "%s/%u/" PACKAGE_NAME, ctl_roots.run_user, uid);
	snprintf(out[n++], CTL_DIR_MAX, "%s/" PACKAGE_NAME "-%u", ctl_roots.tmp, uid);
	return n;
}

/* closed_to: what others may not have. */
static int where_check(const char *dir, uid_t uid, mode_t closed_to, struct errbuf *eb)
{
	struct stat st;
	const char *why;

	if (lstat(dir, &st) < 0)
		return err_set(eb, -errno, "'%s': %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		why = "is not a directory";
	else if (st.st_uid != uid)
		why = "is another user's directory";
	else if (st.st_mode & closed_to)
		why = "is open to other users";
	else
		return 0;
	return err_set(eb, -EPERM, "'%s' %s, so it is not used: remove it, or make it a directory of "
		       "uid %u with mode %04o", dir, why, uid, 0777u & ~closed_to);
}

int ctl_where_check(const char *dir, uid_t uid, struct errbuf *eb)
{
	return where_check(dir, uid, 077, eb);
}

void ctl_where_name(const char *dir, const struct ctl_mount *m, char out[CTL_NAME_MAX])
{
	snprintf(out, CTL_NAME_MAX, "%.*s/%u:%u", (int)CTL_DIR_MAX - 1, dir,
		 major(m->dev), minor(m->dev));
}

int ctl_where_make(char out[CTL_DIR_MAX], struct errbuf *eb)
{
	char dirs[CTL_DIRS][CTL_DIR_MAX];
	uid_t uid = geteuid();
	unsigned n = ctl_where_dirs(uid, dirs);
	int rc = -ENOENT;

	for (unsigned i = 0; i < n; i++) {
		memcpy(out, dirs[i], CTL_DIR_MAX);
		if (mkdir(out, 0700) == 0 || errno == EEXIST)
			return ctl_where_check(out, uid, eb);
		rc = err_set(eb, -errno, "cannot make '%s': %s", out, strerror(errno));
	}
	return rc;
}

int ctl_where_make_rings(char out[CTL_DIR_MAX], struct errbuf *eb)
{
	if (geteuid())
		return ctl_where_make(out, eb);
	snprintf(out, CTL_DIR_MAX, "%s/" PACKAGE_NAME "-rings", ctl_roots.run);
	if (mkdir(out, 0755) == 0)
		(void)!chmod(out, 0755);        /* the umask */
	else if (errno != EEXIST)       /* root of a user namespace only */
		return ctl_where_make(out, eb);
	return where_check(out, 0, 022, eb);
}
