/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *   tree work DIR SECONDS SEED OUT   two processes in DIR; OUT.a, OUT.b: what has
 *                                    to be in DIR/a, DIR/b
 *   tree list DIR                    what is there, in the same words
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tree.h"

#define WRONGS_MAX 5u

static char who = '-';
static unsigned wrongs;

void wrong(const char *fmt, ...)
{
	va_list ap;

	printf("wrong: %c: ", who);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	if (++wrongs >= WRONGS_MAX)
		_exit(1);
}

bool expect(int rc, int want, const char *what, const char *path)
{
	int got = rc < 0 ? errno : 0;

	if (got == want)
		return true;
	wrong("%s %s: '%s', not '%s'", what, path, got ? strerror(got) : "done",
	      want ? strerror(want) : "done");
	return false;
}

/* ---- The work ---- */

static int process(unsigned me, const char *dir, long seconds, uint64_t seed, const char *out)
{
	struct timespec now, end;
	unsigned long steps = 0;
	unsigned holds, records;
	char path[4096];

	who = (char)('a' + me);
	chance_seed(seed * 2 + me);
	snprintf(path, sizeof(path), "%s/%c", dir, who);
	model_start(path);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	do {
		if (chance(4))
			model_step();
		else
			locks_step(me);
		steps++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
	locks_end(me, &holds, &records);
	snprintf(path, sizeof(path), "%s.%c", out, who);
	model_end(path);
	printf("%c: %lu operations, %u locks held, %u records\n", who, steps, holds, records);
	return wrongs != 0;
}

static int work(const char *dir, long seconds, uint64_t seed, const char *out)
{
	int status, bad = 0;

	locks_make(dir);
	fflush(stdout);
	for (unsigned me = 0; me < 2; me++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			return 1;
		}
		if (!pid)
			exit(process(me, dir, seconds, seed, out));
	}
	while (wait(&status) > 0)
		bad |= status != 0;
	return bad;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 6 && !strcmp(argv[1], "work"))
		return work(argv[2], atol(argv[3]), strtoull(argv[4], NULL, 10), argv[5]);
	if (argc == 3 && !strcmp(argv[1], "list"))
		return list(argv[2]);
	fprintf(stderr, "usage: tree work DIR SECONDS SEED OUT | tree list DIR\n");
	return 2;
}
