/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files by their handles: name_to_handle_at(2), open_by_handle_at(2).
 *
 *     handle of FILE...              prints the handle of each
 *     handle cat DIR HANDLE          what is in the file
 *     handle append DIR HANDLE       appends what is on standard input
 *     handle path DIR HANDLE         the path by which the kernel knows the file
 *
 * DIR is any directory of the file system. Handles are of this machine alone: type, colon, bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static union {
	struct file_handle h;
	char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
} u;

static int fail(const char *what)
{
	fprintf(stderr, "handle: %s: %s\n", what, strerror(errno));
	return 1;
}

static int print_handle(const char *file)
{
	int mount_id;

	u.h.handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(AT_FDCWD, file, &u.h, &mount_id, 0) < 0)
		return fail(file);
	printf("%d:", u.h.handle_type);
	for (unsigned i = 0; i < u.h.handle_bytes; i++)
		printf("%02x", u.h.f_handle[i]);
	printf("\n");
	return 0;
}

/* false: it is none. */
static bool parse(const char *text)
{
	char *at;
	unsigned n = 0, byte;

	u.h.handle_type = (int)strtol(text, &at, 10);
	if (at == text || *at++ != ':')
		return false;
	for (; n < MAX_HANDLE_SZ && sscanf(at, "%2x", &byte) == 1 && at[1]; at += 2)
		u.h.f_handle[n++] = (unsigned char)byte;
	u.h.handle_bytes = n;
	return n && !*at;
}

static int open_handle(const char *dir, int flags)
{
	int at = open(dir, O_RDONLY | O_DIRECTORY), fd;

	if (at < 0)
		return -1;
	fd = open_by_handle_at(at, &u.h, flags);
	close(at);
	return fd;
}

static int copy(int from, int to)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) > 0)
		if (write(to, buf, (size_t)n) != n)
			return fail("write");
	return n ? fail("read") : 0;
}

static int print_path(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path));
	if (n < 0)
		return fail(link);
	printf("%.*s\n", (int)n, path);
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	bool append = strcmp(verb, "append") == 0;
	int fd, rc = 0;

	if (argc > 2 && strcmp(verb, "of") == 0) {
		for (int i = 2; i < argc && !rc; i++)
			rc = print_handle(argv[i]);
		return rc;
	}
	if (argc != 4 || !parse(argv[3])) {
		fprintf(stderr, "usage: handle of FILE... | cat|append|path DIR HANDLE\n");
		return 2;
	}
	fd = open_handle(argv[2], append ? O_WRONLY | O_APPEND : O_RDONLY);
	if (fd < 0)
		return fail("open_by_handle_at");
	if (append)
		rc = copy(0, fd);
	else
		rc = strcmp(verb, "path") == 0 ? print_path(fd) : copy(fd, 1);
	if (close(fd) < 0 && !rc)
		rc = fail("close");
	return rc;
}
