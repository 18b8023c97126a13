/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stalls [-i] [-t THREADS] [-b BYTES] [-o SERIES] DIR SECONDS
 *
 * How long programs have to wait, at the longest, and whether anything is wrong. Each
 * thread has a file and a directory of its own in DIR. In turn it writes a block of its
 * file (O_DIRECT), reads one, and does one thing with a name. What a block has to be depends
 * on the file, the block and how often that was written; a name's operation done twice
 * fails the second time. (-i: for a server that executes calls twice that are sent again over
 * another path, the second time perhaps late: doc/multipath.md. So names are only looked at. And
 * each block gets new data only once when something is cut, and then the same again: a write that
 * was under way then may come twice, but undoes nothing. What was written has to be there all the
 * same.) Prints
 *
 *     begins                          the files are there
 *     cut                             a signal has come
 *     operations N      errors N      bytes N
 *     longest_ms X WHAT at MS         one operation
 *     before_ms X WHAT at MS          one operation, of those before a cut
 *     cut_ms X WHAT at MS             one operation, of those around it
 *     gap_ms X at MS                  in which no thread's operation ended
 *     jitter_ms X                     the machine's own: a sleep of 10 ms, how much longer
 *
 * SIGUSR1 before something is cut, and again when it is, says which operations those are: those
 * around it end behind the first signal, and begin within a second of the last one.
 *
 * SERIES gets a line "MS BYTES OPERATIONS" for each 100 ms. Ends with status 1 if anything
 * was wrong, and after two minutes in which nothing has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64u
#define BLOCKS      64u
#define BLOCKS_MAX  512u        /* with -i: some get new data until the end */
#define SLOT_MS     100u
#define STUCK_S     120u
#define TICK_NS     10000000u
#define CUT_NS      1000000000u
#define SAID_MAX    20u
#define OLDER_MAX   4u

struct thread {
	pthread_t id;
	unsigned me;
	int fd;
	char *data;
	char dir[4096];
	uint32_t written[BLOCKS_MAX];   /* how often */
	bool last[BLOCKS_MAX];          /* nothing else is written there any more */
	unsigned step;
	uint64_t random;
};

/* One operation that took long, and when it began. */
struct longest {
	uint64_t ns, at;
	const char *what;
};

static struct {
	pthread_mutex_t lock;           /* of all below */
	uint64_t last, gap, gap_at;
	struct longest longest, before, cut;
	uint64_t cut_first, cut_last;   /* the signals; 0: there was none */
	uint64_t operations, bytes, errors;
	uint64_t slot_operations, slot_bytes;
	unsigned ended;         /* threads */
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t began, until;
static uint32_t block_size = 4096, blocks = BLOCKS;
static bool idempotent;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void wrong(const char *fmt, ...)
{
	va_list ap;

	pthread_mutex_lock(&seen.lock);
	if (seen.errors++ < SAID_MAX) {
		printf("wrong: at %.0f ms: ", ms(now() - began));
		va_start(ap, fmt);
		vprintf(fmt, ap);
		va_end(ap);
		printf("\n");
	}
	pthread_mutex_unlock(&seen.lock);
}

/* Who calls has the lock. */
static void remember_longest(struct longest *l, const char *what, uint64_t start, uint64_t t)
{
	if (t - start > l->ns)
		*l = (struct longest){ t - start, start - began, what };
}

/* An operation has ended, with an error or without. */
static void ended(const char *what, uint64_t start, uint32_t bytes)
{
	uint64_t t;

	pthread_mutex_lock(&seen.lock);
	t = now();      /* with the lock: one after the other */
	remember_longest(&seen.longest, what, start, t);
	if (!seen.cut_first)
		remember_longest(&seen.before, what, start, t);
	else if (start <= seen.cut_last + CUT_NS)
		remember_longest(&seen.cut, what, start, t);
	if (t - seen.last > seen.gap) {
		seen.gap = t - seen.last;
		seen.gap_at = seen.last - began;
	}
	seen.last = t;
	seen.operations++;
	seen.slot_operations++;
	seen.bytes += bytes;
	seen.slot_bytes += bytes;
	pthread_mutex_unlock(&seen.lock);
}

/* ---- Blocks ---- */

static void fill(char *data, unsigned me, uint32_t block, uint32_t generation)
{
	uint64_t x = ((uint64_t)me << 56) | ((uint64_t)block << 32) | generation;

	for (uint32_t i = 0; i < block_size; i += 8, x = x * 6364136223846793005u + 1442695040888963407u)
		memcpy(data + i, &x, 8);
}

static uint32_t any_block(struct thread *t)
{
	t->random = t->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(t->random >> 33) % blocks;
}

/* A write that has ended just now: may it come to the server again? */
static bool may_come_again(void)
{
	bool cut;

	pthread_mutex_lock(&seen.lock);
	cut = seen.cut_first;
	pthread_mutex_unlock(&seen.lock);
	return idempotent && cut;
}

static void write_block(struct thread *t)
{
	uint32_t block = any_block(t), generation = t->written[block] + !t->last[block];
	uint64_t start;
	ssize_t n;

	fill(t->data, t->me, block, generation);
	start = now();
	n = pwrite(t->fd, t->data, block_size, (off_t)block * block_size);
	ended("write", start, block_size);
	if (n != (ssize_t)block_size)
		wrong("write of block %u of file %u: %zd: %s", block, t->me, n, strerror(errno));
	else
		t->written[block] = generation;
	t->last[block] = may_come_again();
}

/* What is there instead: what one of the last writes before the newest made of it, perhaps. */
static const char *what_is_there(const struct thread *t, uint32_t block, char *want)
{
	for (uint32_t older = 1; older <= OLDER_MAX && older <= t->written[block]; older++) {
		fill(want, t->me, block, t->written[block] - older);
		if (memcmp(t->data, want, block_size) == 0)
			return "an older write";
	}
	return "something else";
}

static void read_block(struct thread *t)
{
	uint32_t block = any_block(t);
	char *want = t->data + block_size;
	uint64_t start;
	ssize_t n;

	memset(t->data, 0xee, block_size);
	start = now();
	n = pread(t->fd, t->data, block_size, (off_t)block * block_size);
	ended("read", start, block_size);
	fill(want, t->me, block, t->written[block]);
	if (n != (ssize_t)block_size)
		wrong("read of block %u of file %u: %zd: %s", block, t->me, n, strerror(errno));
	else if (memcmp(t->data, want, block_size) != 0)
		wrong("read of block %u of file %u: not what was written, but %s", block, t->me,
		      what_is_there(t, block, want));
}

/* ---- Names ---- */

/* One of five, of which each needs the one before to be done once. */
static void name_step(struct thread *t)
{
	static const char *const whats[] = { "mkdir", "rename", "rmdir", "create", "unlink" };
	char a[4200], b[4200];
	unsigned what = t->step++ % 5;
	uint64_t start;
	int rc, fd = -1;

	snprintf(a, sizeof(a), "%s/a", t->dir);
	snprintf(b, sizeof(b), "%s/b", t->dir);
	start = now();
	switch (what) {
	case 0: rc = mkdir(a, 0755); break;
	case 1: rc = rename(a, b); break;
	case 2: rc = rmdir(b); break;
	case 3: rc = fd = open(a, O_CREAT | O_EXCL | O_WRONLY, 0644); break;
	default: rc = unlink(a); break;
	}
	if (rc < 0)
		wrong("%s in %s: %s", whats[what], t->dir, strerror(errno));
	if (fd >= 0 && close(fd))
		wrong("close in %s: %s", t->dir, strerror(errno));
	ended(whats[what], start, 0);
}

static void look(const struct thread *t)
{
	uint64_t start = now();
	struct stat st;

	if (fstat(t->fd, &st) || st.st_size != (off_t)blocks * block_size)
		wrong("fstat of file %u: %s", t->me, strerror(errno));
	ended("fstat", start, 0);
}

/* ---- All of it ---- */

static void *work(void *arg)
{
	struct thread *t = arg;

	while (now() < until) {
		write_block(t);
		read_block(t);
		if (idempotent)
			look(t);
		else
			name_step(t);
	}
	pthread_mutex_lock(&seen.lock);
	seen.ended++;
	pthread_mutex_unlock(&seen.lock);
	return NULL;
}

static void prepare(struct thread *t, unsigned me, const char *dir)
{
	char path[4300];

	t->me = me;
	t->random = me;
	snprintf(t->dir, sizeof(t->dir), "%s/%u", dir, t->me);
	snprintf(path, sizeof(path), "%s/file", t->dir);
	t->fd = mkdir(t->dir, 0755) ? -1 : open(path, O_CREAT | O_EXCL | O_RDWR | O_DIRECT, 0644);
	if (t->fd < 0 || posix_memalign((void **)&t->data, 4096, 2 * (size_t)block_size)) {
		perror(path);
		exit(2);
	}
	for (uint32_t i = 0; i < blocks; i++) {
		fill(t->data, t->me, i, 0);
		if (pwrite(t->fd, t->data, block_size, (off_t)i * block_size) != (ssize_t)block_size) {
			perror(path);
			exit(2);
		}
	}
}

/* The lines for the slots that have passed. Who calls has the lock. */
static void tell_slots(FILE *series, uint64_t *slot, uint64_t t)
{
	for (; *slot <= t && *slot <= until; *slot += SLOT_MS * 1000000u) {
		if (series)
			fprintf(series, "%.0f %llu %llu\n", ms(*slot - began),
				(unsigned long long)seen.slot_bytes, (unsigned long long)seen.slot_operations);
		seen.slot_bytes = seen.slot_operations = 0;
	}
}

/* A tick, unless a signal ends it. jitter: see below. */
static void tick(const sigset_t *signals, uint64_t *jitter)
{
	const struct timespec time = { 0, TICK_NS };
	uint64_t start = now(), t;
	bool told = sigtimedwait(signals, NULL, &time) == SIGUSR1;

	pthread_mutex_lock(&seen.lock);
	t = now();
	if (told) {
		seen.cut_last = t;
		if (!seen.cut_first)
			seen.cut_first = t;
	} else if (t > start + TICK_NS + *jitter) {
		*jitter = t - start - TICK_NS;
	}
	pthread_mutex_unlock(&seen.lock);
	if (told) {
		printf("cut\n");
		fflush(stdout);
	}
}

/* Until all threads have ended, or nothing ends any more. jitter: the longest that a sleep
 * took more than it should. */
static void attend(FILE *series, unsigned threads, const sigset_t *signals, uint64_t *jitter)
{
	uint64_t slot = began + SLOT_MS * 1000000u, t, last;
	bool all;

	do {
		tick(signals, jitter);
		pthread_mutex_lock(&seen.lock);
		t = now();
		tell_slots(series, &slot, t);
		last = seen.last;
		all = seen.ended == threads;
		pthread_mutex_unlock(&seen.lock);
		if (t - last > STUCK_S * 1000000000ull) {
			printf("wrong: nothing has ended for %u s\n", STUCK_S);
			exit(1);
		}
	} while (!all);
}

static void tell_longest(const char *name, const struct longest *l)
{
	printf("%s %.1f %s at %.0f\n", name, ms(l->ns), l->what ? l->what : "nothing", ms(l->at));
}

static int result(uint64_t jitter)
{
	printf("operations %llu\nerrors %llu\nbytes %llu\n", (unsigned long long)seen.operations,
	       (unsigned long long)seen.errors, (unsigned long long)seen.bytes);
	tell_longest("longest_ms", &seen.longest);
	if (seen.cut_first) {
		tell_longest("before_ms", &seen.before);
		tell_longest("cut_ms", &seen.cut);
	}
	printf("gap_ms %.1f at %.0f\njitter_ms %.1f\n", ms(seen.gap), ms(seen.gap_at), ms(jitter));
	return seen.errors != 0;
}

static unsigned number(const char *text, unsigned least, unsigned most)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || end == text || n < least || n > most) {
		fprintf(stderr, "stalls: '%s' is not a number from %u to %u\n", text, least, most);
		exit(2);
	}
	return (unsigned)n;
}

int main(int argc, char **argv)
{
	static struct thread all[THREADS_MAX];
	unsigned threads = 4;
	FILE *series = NULL;
	uint64_t jitter = 0;
	sigset_t signals;
	int c;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);     /* tick() takes it */
	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt(argc, argv, "it:b:o:")) != -1) {
		if (c == 'i') {
			idempotent = true;
			blocks = BLOCKS_MAX;
		} else if (c == 't') {
			threads = number(optarg, 1, THREADS_MAX);
		} else if (c == 'b') {
			block_size = number(optarg, 4096, 1u << 20) & ~4095u;
		} else if (c != 'o' || !(series = fopen(optarg, "w"))) {
			argc = 0;
			break;
		}
	}
	if (argc != optind + 2) {
		fprintf(stderr, "usage: stalls [-i] [-t THREADS] [-b BYTES] [-o SERIES] DIR SECONDS\n");
		return 2;
	}
	for (unsigned i = 0; i < threads; i++)
		prepare(&all[i], i, argv[optind]);
	printf("begins\n");
	seen.last = began = now();
	until = began + number(argv[optind + 1], 1, 1000000) * 1000000000ull;
	for (unsigned i = 0; i < threads; i++) {
		if (pthread_create(&all[i].id, NULL, work, &all[i])) {
			perror("pthread_create");
			return 2;
		}
	}
	attend(series, threads, &signals, &jitter);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(all[i].id, NULL);
	if (series && fclose(series)) {
		perror("series");
		return 2;
	}
	return result(jitter);
}
