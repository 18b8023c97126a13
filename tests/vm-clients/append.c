/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Appends a text to a file that was opened without O_APPEND, and without looking at
 * it in between, as other programs' run-time systems do:
 *
 *     append FILE TEXT
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int fd = argc == 3 ? open(argv[1], O_WRONLY) : -1;

	if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) ||
	    write(fd, argv[2], strlen(argv[2])) != (ssize_t)strlen(argv[2]) || close(fd)) {
		perror("append FILE TEXT");
		return 1;
	}
	return 0;
}
