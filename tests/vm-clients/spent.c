/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes more than there is room for, and says who is told, and what is left of what was
 * promised:
 *
 *     spent FILE BLOCKS PROMISED fsync|close|look
 *
 * Writes BLOCKS blocks of 4 KiB, one at a time, with an fsync() behind the first PROMISED.
 * After an error, or the last block: fsync() twice and close(); close() alone. "look" writes
 * nothing. Prints a line for each call that has failed: "write: No space left on device", then
 * how many blocks write() has taken. At last opens the file again and reads it: "promised:
 * there" if all that fsync() was for is, and "others: SOUND" if each block behind is what was
 * written, or zero, or not there. Exit status 1 if the test itself fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096 };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void say(const char *what, int rc)
{
	if (rc < 0)
		printf("%s: %s\n", what, strerror(errno));
}

static void fill(unsigned char *to, unsigned block)
{
	for (unsigned i = 0; i < BLOCK; i++)
		to[i] = (unsigned char)(block * 31 + i * 7 + 1) | 1;
}

static unsigned write_all(int fd, unsigned blocks, unsigned promised)
{
	unsigned char data[BLOCK];

	for (unsigned i = 0; i < blocks; i++) {
		if (i && i == promised && fsync(fd))
			die("the first fsync");
		fill(data, i);
		errno = 0;
		if (write(fd, data, BLOCK) == BLOCK)
			continue;
		if (i < promised)
			die("a write that there is room for");
		say("write", -1);
		return i;
	}
	return blocks;
}

static void look(const char *path, unsigned blocks, unsigned promised)
{
	static const unsigned char zero[BLOCK];
	unsigned char data[BLOCK], want[BLOCK];
	int fd = open(path, O_RDONLY);
	bool there = true, sound = true;

	if (fd < 0)
		die(path);
	for (unsigned i = 0; i < blocks; i++) {
		ssize_t n = pread(fd, data, BLOCK, (off_t)i * BLOCK);

		if (n < 0)
			die("read");
		fill(want, i);
		if (n == BLOCK && !memcmp(data, want, BLOCK))
			continue;
		there &= i >= promised;
		sound &= !memcmp(data, zero, (size_t)n) || !memcmp(data, want, (size_t)n);
	}
	close(fd);
	printf("promised: %s\nothers: %s\n", there ? "there" : "lost", sound ? "sound" : "corrupt");
}

int main(int argc, char **argv)
{
	unsigned blocks = argc == 5 ? (unsigned)atoi(argv[2]) : 0, promised = argc == 5 ? (unsigned)atoi(argv[3]) : 0;
	const char *how = argc == 5 ? argv[4] : "";
	unsigned taken;
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!blocks) {
		fprintf(stderr, "usage: spent FILE BLOCKS PROMISED fsync|close|look\n");
		return 1;
	}
	if (!strcmp(how, "look")) {
		look(argv[1], blocks, promised);
		return 0;
	}
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0)
		die(argv[1]);
	taken = write_all(fd, blocks, promised);
	if (!strcmp(how, "fsync")) {
		say("fsync", fsync(fd));
		say("fsync again", fsync(fd));
	}
	say("close", close(fd));
	printf("taken: %u\n", taken);
	look(argv[1], blocks, promised);
	return 0;
}
