/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is in a directory, one line for each name:
 *
 *     PATH INODE dir
 *     PATH INODE link TARGET
 *     PATH INODE file SIZE SUM LINKS
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tree.h"

uint64_t list_sum(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t sum = 0xcbf29ce484222325u;     /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		sum = (sum ^ p[i]) * 0x100000001b3u;
	return sum;
}

static int list_file(const char *path, const char *name, const struct stat *st)
{
	char *data = malloc((size_t)st->st_size + 1);
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 || !data ? -1 : read(fd, data, (size_t)st->st_size + 1);

	if (n == st->st_size)
		printf("%s %llu file %zd %016llx %lu\n", name, (unsigned long long)st->st_ino, n,
		       (unsigned long long)list_sum(data, (size_t)n), (unsigned long)st->st_nlink);
	else
		fprintf(stderr, "cannot read %s: %s\n", path, n < 0 ? strerror(errno) : "its size changes");
	if (fd >= 0)
		close(fd);
	free(data);
	return n != st->st_size;
}

static int list_in(const char *dir, const char *prefix)
{
	struct dirent **names;
	int n = scandir(dir, &names, NULL, alphasort), bad = n < 0;

	for (int i = 0; i < n; i++) {
		char path[4096], name[4096], target[1024];
		struct stat st;
		ssize_t len;

		if (!strcmp(names[i]->d_name, ".") || !strcmp(names[i]->d_name, "..")) {
			free(names[i]);
			continue;
		}
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		snprintf(name, sizeof(name), "%s%s", prefix, names[i]->d_name);
		free(names[i]);
		if (lstat(path, &st)) {
			perror(path);
			bad = 1;
		} else if (S_ISDIR(st.st_mode)) {
			printf("%s %llu dir\n", name, (unsigned long long)st.st_ino);
			strncat(name, "/", sizeof(name) - strlen(name) - 1);
			bad |= list_in(path, name);
		} else if (S_ISLNK(st.st_mode)) {
			len = readlink(path, target, sizeof(target));
			printf("%s %llu link %.*s\n", name, (unsigned long long)st.st_ino,
			       (int)(len < 0 ? 0 : len), target);
		} else {
			bad |= list_file(path, name, &st);
		}
	}
	if (n >= 0)
		free(names);
	else
		perror(dir);
	return bad;
}

int list(const char *dir)
{
	return list_in(dir, "");
}
