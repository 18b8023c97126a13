/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes by way of a mapping, and says who is told that there was no room:
 *
 *     mapped FILE BYTES close|reader|msync|hold|scatter
 *
 * close: munmap(), close(). reader: the same, but another open of the file, for
 * reading, is closed before. msync: that before the rest. Prints a line for each
 * call that can tell: "close: Success". hold: says "written", and waits to be killed
 * with the file open and mapped. scatter: the same, but only the first byte of every second page is
 * written. Exit status 1 if the test itself fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void say(const char *what, int rc)
{
	printf("%s: %s\n", what, rc ? strerror(errno) : "Success");
}

int main(int argc, char **argv)
{
	size_t len = argc == 4 ? strtoul(argv[2], NULL, 0) : 0;
	const char *how = argc == 4 ? argv[3] : "";
	int fd, reader;
	bool scatter;
	char *at;

	if (!len) {
		fprintf(stderr, "usage: mapped FILE BYTES close|reader|msync|hold|scatter\n");
		return 1;
	}
	fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (fd < 0 || ftruncate(fd, (off_t)len))
		die(argv[1]);
	reader = open(argv[1], O_RDONLY);
	if (reader < 0)
		die(argv[1]);
	at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("mmap");
	scatter = !strcmp(how, "scatter");
	for (size_t i = 0; scatter && i < len; i += 2 * (size_t)sysconf(_SC_PAGESIZE))
		at[i] = 'm';
	if (!scatter)
		memset(at, 'm', len);
	while (scatter || !strcmp(how, "hold")) {
		if (puts("written") < 0 || fflush(stdout))
			die("written");
		pause();
	}
	if (!strcmp(how, "msync"))
		say("msync", msync(at, len, MS_SYNC));
	munmap(at, len);
	if (!strcmp(how, "reader"))
		say("reader", close(reader));
	say("close", close(fd));
	return 0;
}
