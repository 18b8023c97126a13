/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "statfile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* Why the file may not be replaced; NULL: it may. */
static const char *not_ours(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? NULL : strerror(errno);
	if (S_ISDIR(st.st_mode))
		return "it is a directory";
	if (!S_ISREG(st.st_mode))
		return "it is not a regular file";
	if (st.st_uid != geteuid())
		return "it is another user's file";
	return NULL;
}

/* Creates FILE.new, after removing an old one. A descriptor or -errno. */
static int open_new(const char *tmp)
{
	int fd;

	if (unlink(tmp) < 0 && errno != ENOENT)
		return -errno;
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	return fd < 0 ? -errno : fd;
}

static int statfile_refuse(const char *path, int err, const char *why, struct errbuf *eb)
{
	return err_set(eb, err, "cannot write statistics to '%s': %s; stats= must name a file of "
		       "yours in a directory that you can write to", path, why);
}

int statfile_check(const char *path, struct errbuf *eb)
{
	const char *why = not_ours(path);
	char *tmp;
	int fd, rc = 0;

	if (why)
		return statfile_refuse(path, -EINVAL, why, eb);
	if (access(path, W_OK) < 0 && errno != ENOENT)
		return statfile_refuse(path, -errno, strerror(errno), eb);
	if (asprintf(&tmp, "%s.new", path) < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	fd = open_new(tmp);
	if (fd < 0) {
		rc = statfile_refuse(tmp, fd, strerror(-fd), eb);
	} else {
		close(fd);
		unlink(tmp);
	}
	free(tmp);
	return rc;
}

static int write_new(const char *tmp, void (*print)(FILE *f, const void *arg), const void *arg)
{
	int fd = open_new(tmp), rc = 0;
	FILE *f;

	if (fd < 0)
		return fd;
	f = fdopen(fd, "w");
	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	print(f, arg);
	if (ferror(f))
		rc = -EIO;
	if (fclose(f))
		rc = -errno;
	return rc;
}

void statfile_write(const char *path, void (*print)(FILE *f, const void *arg), const void *arg)
{
	const char *why;
	char *tmp;
	int rc;

	if (asprintf(&tmp, "%s.new", path) < 0)
		return;
	pthread_mutex_lock(&turn);
	why = not_ours(path);
	rc = why ? 0 : write_new(tmp, print, arg);
	if (!why && rc == 0 && rename(tmp, path) < 0)
		rc = -errno;
	if (rc)
		unlink(tmp);
	pthread_mutex_unlock(&turn);
	if (why || rc)
		log_err("cannot write statistics to '%s': %s", path, why ? why : strerror(-rc));
	free(tmp);
}
