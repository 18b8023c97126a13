/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vm-root COMMAND ARG... - runs a command as root, for whoever asks: it is setuid. vm-server is
 * the same: the server runs here. Input, output, folder, environment and exit status stay as
 * they are, and so does the process.
 *
 * The bench is no security boundary. It is static, and no script, because cases call it hundreds
 * of times, and each program with a dynamic linker that it started first would cost the emulator
 * 20 ms or more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: %s COMMAND ARG...\n", argv[0]);
		return 2;
	}
	if (setgroups(0, NULL) || setresgid(0, 0, 0) || setresuid(0, 0, 0)) {
		fprintf(stderr, "%s: cannot become root: %s\n", argv[0], strerror(errno));
		return 126;
	}
	execvp(argv[1], argv + 1);
	fprintf(stderr, "%s: cannot run '%s': %s\n", argv[0], argv[1], strerror(errno));
	return 127;
}
