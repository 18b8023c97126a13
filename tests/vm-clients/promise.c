/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What fsync(), close(), msync() and O_DSYNC have promised is there after the server has lost
 * its memory.
 *
 *     promise DIR SERVER_DIR CRASHES SEED KILL REVIVE
 *
 * Processes write files in DIR, a mount, block by block. Each block says how often it has been
 * written. What they have written, and what of that was promised, is in memory that they share
 * with the one who looks. That one runs KILL, after which nothing is promised any more, looks
 * at SERVER_DIR, which is DIR as the server's disk has it, and runs REVIVE; so many times. A
 * block there may be newer than what was promised, but not older; and not newer than what was
 * written. Prints what it has seen; exit status 1 if a promise was broken.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 3, BLOCKS = 512, BLOCK = 4096, RUN = 48, WORDS = BLOCK / 8 };

static struct shared {
	volatile uint64_t written[BLOCKS], promised[BLOCKS];
	volatile uint64_t promises, end;        /* end: blocks in the file */
	volatile int stop;
} *shared;
static const char *dir, *server;
static unsigned me, seed;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "writer %u: %s: %s\n", me, what, strerror(errno));
	_exit(1);
}

static unsigned roll(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

/* ---- a writer ---- */

static void fill(uint64_t *to, unsigned block, uint64_t version)
{
	for (unsigned i = 0; i < WORDS; i++)
		to[i] = version << 32 | (uint64_t)me << 24 | block;
}

/* Everything up to now. */
static void promise(struct shared *s)
{
	for (unsigned i = 0; i < s->end; i++)
		s->promised[i] = s->written[i];
	s->promises++;
}

/* Some blocks, by one write() or by many. */
static void write_run(struct shared *s, int fd, bool synced)
{
	static uint64_t data[RUN][WORDS];
	unsigned from = roll(3) ? roll((unsigned)s->end + 1) : (unsigned)s->end, n = 1 + roll(RUN);
	size_t step = roll(2) ? 1 : n;

	from = from < BLOCKS ? from : roll(BLOCKS);
	n = n < BLOCKS - from ? n : BLOCKS - from;
	step = step < n ? step : n;
	if (from + n > s->end)
		s->end = from + n;
	for (unsigned i = 0; i < n; i++)
		fill(data[i], from + i, ++s->written[from + i]);
	for (size_t i = 0; i < n; i += step) {
		size_t len = (step < n - i ? step : n - i) * BLOCK;

		if (pwrite(fd, data[i], len, (off_t)(from + i) * BLOCK) != (ssize_t)len)
			die("write");
	}
	for (unsigned i = 0; i < n && synced; i++)
		s->promised[from + i] = s->written[from + i];
	s->promises += synced;
}

static void write_map(struct shared *s, int fd)
{
	size_t len = (size_t)s->end * BLOCK;
	unsigned block;
	uint64_t *at;

	if (!len)
		return;
	at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("mmap");
	for (unsigned i = 0; i < 8; i++) {
		block = roll((unsigned)s->end);
		fill(at + (size_t)block * WORDS, block, ++s->written[block]);
	}
	if (msync(at, len, MS_SYNC))
		die("msync");
	munmap(at, len);
	promise(s);
}

static int open_file(bool synced)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/w%u", dir, me);
	fd = open(path, O_CREAT | O_RDWR | (synced ? O_DSYNC : 0), 0644);
	if (fd < 0)
		die("open");
	return fd;
}

static _Noreturn void write_on(unsigned number, unsigned from_seed)
{
	struct shared *s = &shared[number];
	bool synced = false;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	me = number;
	seed = from_seed * 31 + number;
	fd = open_file(synced);
	while (!s->stop) {
		for (unsigned n = roll(12); n; n--)
			write_run(s, fd, synced);
		switch (roll(4)) {
		case 0:
			if (fsync(fd))
				die("fsync");
			promise(s);
			break;
		case 1: case 2:
			if (close(fd))
				die("close");
			promise(s);
			synced = !roll(4);
			fd = open_file(synced);
			break;
		default:
			write_map(s, fd);
		}
	}
	if (close(fd))
		die("close");
	promise(s);
	_exit(0);
}

/* ---- the one who looks ---- */

static struct { unsigned long blocks, newer, older_lost; } seen;

static void look_at_block(unsigned writer, unsigned block, const uint64_t *words, bool there,
			  unsigned *broken)
{
	const struct shared *s = &shared[writer];
	uint64_t least = s->promised[block], most = s->written[block], low = UINT64_MAX;
	bool other = false;

	for (unsigned i = 0; i < WORDS && there; i++) {
		uint64_t version = words[i] >> 32;

		other |= words[i] && (words[i] & 0xffffffff) != ((uint64_t)writer << 24 | block);
		other |= version > most;
		low = version < low ? version : low;
	}
	low = there ? low : 0;
	seen.blocks++;
	seen.newer += low > least;
	seen.older_lost += low < most;
	if (low >= least && !other)
		return;
	if (++*broken <= 10)
		printf("file w%u, block %u: version %llu%s; %llu was promised, %llu was written\n", writer, block,
		       (unsigned long long)low, other ? ", and bytes that nobody has written" : "",
		       (unsigned long long)least, (unsigned long long)most);
}

static unsigned look(const char *where)
{
	static uint64_t data[BLOCKS][WORDS];
	unsigned broken = 0;

	for (unsigned w = 0; w < WRITERS; w++) {
		char path[4096];
		ssize_t n, all = 0;
		int fd;

		snprintf(path, sizeof(path), "%s/w%u", where, w);
		fd = open(path, O_RDONLY);
		if (fd < 0 && (errno != ENOENT || shared[w].promises))
			die(path);
		while (fd >= 0 && (n = read(fd, (char *)data + all, sizeof(data) - (size_t)all)) > 0)
			all += n;
		for (unsigned b = 0; b < shared[w].end; b++)
			look_at_block(w, b, data[b], (b + 1) * BLOCK <= all, &broken);
		if (fd >= 0)
			close(fd);
	}
	return broken;
}

static void run(const char *what)
{
	if (system(what)) {
		fprintf(stderr, "'%s' fails\n", what);
		exit(2);
	}
}

static uint64_t promises(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < WRITERS; i++)
		n += shared[i].promises;
	return n;
}

/* Until it has begun to be promised again: how long the server takes is its own affair. */
static void wait_for_work(const pid_t *pids)
{
	uint64_t before = promises();
	int status;

	for (unsigned i = 0; i < 1200 && promises() < before + 4; i++) {
		usleep(100000);
		for (unsigned w = 0; w < WRITERS; w++)
			if (waitpid(pids[w], &status, WNOHANG) > 0) {
				printf("writer %u has ended\n", w);
				exit(1);
			}
	}
	usleep(roll(700) * 1000);
}

int main(int argc, char **argv)
{
	unsigned crashes = argc == 7 ? (unsigned)atoi(argv[3]) : 0, broken = 0;
	pid_t pids[WRITERS];
	int status, bad = 0;

	if (!crashes) {
		fprintf(stderr, "usage: promise DIR SERVER_DIR CRASHES SEED KILL REVIVE\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	dir = argv[1];
	server = argv[2];
	shared = mmap(NULL, WRITERS * sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("mmap");
	for (unsigned i = 0; i < WRITERS; i++) {
		pids[i] = fork();
		if (!pids[i])
			write_on(i, (unsigned)atoi(argv[4]));
	}
	seed = (unsigned)atoi(argv[4]);
	for (unsigned i = 0; i < crashes && !broken; i++) {
		wait_for_work(pids);
		run(argv[5]);
		broken += look(server);
		if (broken)
			printf("crash %u\n", i + 1);
		run(argv[6]);
	}
	wait_for_work(pids);
	for (unsigned i = 0; i < WRITERS; i++)
		shared[i].stop = 1;
	for (unsigned i = 0; i < WRITERS; i++)
		bad |= waitpid(pids[i], &status, 0) < 0 || status;
	broken += look(dir);
	printf("%u crashes, %llu promises; of %lu blocks looked at %lu were newer than promised, and %lu older than written\n",
	       crashes, (unsigned long long)promises(), seen.blocks, seen.newer, seen.older_lost);
	return broken || bad;
}
