/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ring_random - random reads or writes of one file by a ring, as fio does them by the kernel: for the rows
 * ring and ring_iwarp of contrib/bench, for tests/bench/lanes --rings and tests/bench/instructions.
 *
 *   ring_random read|write FILE BLOCK DEPTH SECONDS|CALLSx PROGRAMS
 *
 * Each of the processes has a ring of its own, and DEPTH calls of BLOCK bytes under way at any time. What has
 * ended is begun anew, all of it together, until SECONDS are over; or each process makes so many calls, to be
 * counted by others: "1000x" is a thousand. Prints "CALLS SECONDS-TAKEN", of all
 * processes. A call that fails, or moves fewer bytes, ends it with a message.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/nfsrdma.h"
#include "load.h"

#define DEPTH_MAX    256u
#define PROGRAMS_MAX 16u

struct run {
	struct nfsrdma_queue *queue;
	struct nfsrdma_memory *memory;
	uint32_t file, block, depth;
	uint64_t blocks;        /* in the file */
	uint64_t state;         /* of the random numbers */
	uint64_t seconds, calls;        /* until so many: what comes first */
	bool write;
};

static void die(const char *what, int error)
{
	fprintf(stderr, "ring_random: %s: %s\n", what, strerror(error));
	exit(1);
}

static void check(int rc, const char *what)
{
	if (rc < 0)
		die(what, -rc);
}

/* slot: whose memory. */
static void begin_one(struct run *r, uint64_t slot)
{
	check((r->write ? nfsrdma_write : nfsrdma_read)(r->queue, r->file, r->memory, slot * r->block, r->block,
							load_block(&r->state, r->blocks) * r->block, slot), "submit");
}

static void open_ring(struct run *r, const char *path)
{
	int fd = open(path, r->write ? O_RDWR : O_RDONLY);
	struct nfsrdma_session *session;
	unsigned entries = 2;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		die(path, errno);
	r->blocks = (uint64_t)st.st_size / r->block;
	if (!r->blocks)
		die("the file is shorter than a block", EINVAL);
	check(nfsrdma_connect(fd, &session), path);
	check(nfsrdma_memory_new(session, (size_t)r->block * r->depth, &r->memory), "memory");
	while (entries < r->depth)
		entries *= 2;
	check(nfsrdma_queue_new(session, entries, &r->queue), "queue");
	check(nfsrdma_attach(r->queue, fd, &r->file), "attach");
}

/* Calls that have ended. */
static uint64_t work(struct run *r)
{
	double until = load_now() + (double)r->seconds;
	struct nfsrdma_done done[DEPTH_MAX];
	uint64_t begun = 0, ended = 0;

	while (begun < r->depth && begun < r->calls)
		begin_one(r, begun++);
	while (ended < begun) {
		int n = nfsrdma_wait(r->queue, done, 1, r->depth, -1);
		bool on = load_now() < until;

		check(n, "wait");
		for (int i = 0; i < n; i++) {
			if (done[i].result != (int64_t)r->block)
				die("a call", done[i].result < 0 ? (int)-done[i].result : EIO);
			if (on && begun < r->calls) {
				begin_one(r, done[i].user_data);
				begun++;
			}
		}
		ended += (uint64_t)n;
	}
	return ended;
}

static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n == 0 || n > max) {
		fprintf(stderr, "ring_random: '%s' is not a number from 1 to %lu\n", text, max);
		exit(2);
	}
	return n;
}

#define SECONDS_MAX 86400u

/* SECONDS or CALLSx. */
static void how_long(struct run *r, char *text)
{
	size_t len = strlen(text);

	r->seconds = SECONDS_MAX;
	r->calls = UINT64_MAX;
	if (len && text[len - 1] == 'x') {
		text[len - 1] = '\0';
		r->calls = number(text, ULONG_MAX);
	} else {
		r->seconds = number(text, SECONDS_MAX);
	}
}

/* One of several: its calls go to the pipe. */
static void child(struct run *r, unsigned i, const char *path, int out)
{
	uint64_t calls;

	r->state = LOAD_STATE + i;
	open_ring(r, path);
	calls = work(r);
	_exit(write(out, &calls, sizeof(calls)) == sizeof(calls) ? 0 : 1);
}

int main(int argc, char **argv)
{
	unsigned long programs;
	struct run r = { 0 };
	uint64_t calls, all = 0;
	int out[2], status;
	double begun;

	if (argc != 7 || (strcmp(argv[1], "read") && strcmp(argv[1], "write"))) {
		fprintf(stderr, "usage: ring_random read|write FILE BLOCK DEPTH SECONDS|CALLSx PROGRAMS\n");
		return 2;
	}
	r.write = !strcmp(argv[1], "write");
	r.block = (uint32_t)number(argv[3], 4u << 20);
	r.depth = (uint32_t)number(argv[4], DEPTH_MAX);
	how_long(&r, argv[5]);
	programs = number(argv[6], PROGRAMS_MAX);
	if (pipe(out) < 0)
		die("pipe", errno);
	begun = load_now();
	for (unsigned i = 0; i < programs; i++)
		if (fork() == 0)
			child(&r, i, argv[2], out[1]);
	for (unsigned i = 0; i < programs; i++)
		if (wait(&status) < 0)
			die("a process that was to be started", errno);
		else if (status)
			return 1;       /* it has said why */
	begun = load_now() - begun;
	for (unsigned i = 0; i < programs && read(out[0], &calls, sizeof(calls)) == sizeof(calls); i++)
		all += calls;
	printf("%" PRIu64 " %.3f\n", all, begun);
	return 0;
}
