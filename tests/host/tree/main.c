/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *   tree work DIR SECONDS SEED OUT   two processes in DIR; OUT.a, OUT.b: what has
 *                                    to be in DIR/a, DIR/b
 *   tree storm DIR FILE SEED OUT N   N processes in DIR, which share nothing, until there is
 *                                    FILE; OUT.a, OUT.b ...: what has to be in DIR/a ...
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

#define WRONGS_MAX    5u
#define PROCESSES_MAX 16

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

struct job {
	const char *dir, *out;
	const char *until;      /* NULL: for `seconds`, with locks */
	long seconds;
	uint64_t seed;
};

static bool over(const struct job *j, const struct timespec *end)
{
	struct timespec now;

	if (j->until)
		return access(j->until, F_OK) == 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec >= end->tv_sec;
}

static int process(unsigned me, const struct job *j)
{
	unsigned holds = 0, records = 0;
	unsigned long steps = 0;
	struct timespec end;
	char path[4096];

	who = (char)('a' + me);
	chance_seed(j->seed * 16 + me);
	snprintf(path, sizeof(path), "%s/%c", j->dir, who);
	model_start(path);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += j->seconds;
	do {
		if (j->until || chance(4))
			model_step();
		else
			locks_step(me);
		steps++;
	} while (!over(j, &end));
	if (!j->until)
		locks_end(me, &holds, &records);
	snprintf(path, sizeof(path), "%s.%c", j->out, who);
	model_end(path);
	printf("%c: %lu operations, %u locks held, %u records\n", who, steps, holds, records);
	return wrongs != 0;
}

static int work(const struct job *j, unsigned processes)
{
	int status, bad = 0;

	if (!j->until)
		locks_make(j->dir);
	fflush(stdout);
	for (unsigned me = 0; me < processes; me++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			return 1;
		}
		if (!pid)
			exit(process(me, j));
	}
	while (wait(&status) > 0)
		bad |= status != 0;
	return bad;
}

int main(int argc, char **argv)
{
	struct job j = { 0 };
	int n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc >= 6) {
		j = (struct job){ .dir = argv[2], .seed = strtoull(argv[4], NULL, 10), .out = argv[5] };
		if (argc == 6 && !strcmp(argv[1], "work")) {
			j.seconds = atol(argv[3]);
			return work(&j, 2);
		}
		n = argc == 7 ? atoi(argv[6]) : 0;
		if (!strcmp(argv[1], "storm") && n > 0 && n <= PROCESSES_MAX) {
			j.until = argv[3];
			return work(&j, (unsigned)n);
		}
	}
	if (argc == 3 && !strcmp(argv[1], "list"))
		return list(argv[2]);
	fprintf(stderr, "usage: tree work DIR SECONDS SEED OUT | tree storm DIR FILE SEED OUT N | tree list DIR\n");
	return 2;
}
