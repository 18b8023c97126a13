/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *   cto [OPTION...] DIR [DIR [DIR]]    each DIR: a directory, as one mount has it; or @DIR: below
 *                                      --source, by a front end instead of a mount. See cto.h.
 *
 *   --seed N      what happens is decided by that, but for how fast it goes (the time)
 *   --seconds N   so long (20)
 *   --steps N     operations of one episode, which has a directory and files of its own (400)
 *   --size N      of the largest file (1 MiB)
 *   --files N     of each mount, at most (3)
 *   --server DIR  the same directory without a mount: what was promised has to be there
 *   --lies        a fault, to be found: fsync() is said to be done, and is not
 *   --event CMD   done now and then, meanwhile; may be given several times
 *   --every N     that often: seconds (15)
 *   --silence CMD done when an operation has no answer, while it still waits
 *   --locks       fcntl(), open file descriptions, flock(): locks.c
 *   --ends        none of a range without an end: nfs-ganesha 4.3 does not merge these
 *   --old-reads   opens that only read may reach what had the name before: version 3
 *   --old-names N all opens of mount N (0 to 2) may: the kernel's own client
 *   --old-bytes N mount N may have old bytes of files that it writes to: the kernel's own
 *                 client (model.h)
 *   --beside A    the server gives a delegation to write beside another mount's open that only reads:
 *                 for opens that read and write (A: rw), or for all that write (w). Linux's (allow.c)
 *   --source S, --options O   of front ends (by_front.c), as nfsrdma-fuse has them
 *   --tries N     of each candidate, when operations are left out (3); 0: they are not
 *
 * Exit status 0: no difference. 1: one, and the operations that show it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cto.h"

struct config cfg = {
	.options = "vers=4.1", .every = 15, .size = 1 << 20, .steps = 400, .files = NAMES, .seconds = 20, .tries = 3,
};
static unsigned nepisodes, first;       /* the first one's number, for its directory */
static unsigned long ndone, nevents;
static pid_t event_pid;

double now_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- what is printed ---- */

static const char *const verbs[NWHATS] = {
	"open", "make", "close", "read", "write", "ftruncate", "truncate", "mmap", "munmap", "peek", "poke",
	"msync", "fsync", "fstat", "stat", "unlink", "rename", "link", "server", "again", "event",
	"pause", "mkdir", "rmdir", "lock", "unlock", "test",
};

static void print_flags(int f)
{
	static const struct { int bit; const char *name; } bits[] = {
		{ O_CREAT, "CREAT" }, { O_EXCL, "EXCL" }, { O_TRUNC, "TRUNC" }, { O_APPEND, "APPEND" },
		{ O_DIRECT, "DIRECT" }, { O_SYNC, "SYNC" }, { O_DSYNC, "DSYNC" },
	};
	static const char *const access[] = { "RDONLY", "WRONLY", "RDWR" };

	printf(" %s", access[(f & O_ACCMODE) % 3]);
	for (unsigned i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		if ((f & bits[i].bit) != bits[i].bit)
			continue;
		printf("|%s", bits[i].name);
		f &= ~bits[i].bit;
	}
}

static void print_lock(const struct op *o)
{
	static const char *const kinds[KINDS] = { "posix", "ofd", "flock" };

	printf(" %u %s cells %d to %d", o->slot, kinds[o->kind % KINDS], __builtin_ctz(o->cells),
	       31 - __builtin_clz(o->cells));
	if (o->what != UNLOCK)
		printf("%s%s", o->excl ? " exclusive" : " shared", o->waits ? ", waits" : "");
}

void print_op(const struct op *o)
{
	printf("    #%-6u %s %c%u %-9s", o->id, o->along ? "+" : " ", "ABC"[mount_of(o)], o->worker, verbs[o->what]);
	switch (o->what) {
	case OPEN: printf(" %c%u as %u", "abc"[o->name / NAMES], o->name % NAMES, o->slot); print_flags(o->flags); break;
	case READ: case WRITE: case PEEK: case POKE: case MSYNC:
		printf(" %u [%u, +%u)", o->slot, o->off, o->len);
		break;
	case FTRUNCATE: printf(" %u to %u", o->slot, o->off); break;
	case LOCK: case UNLOCK: case TEST: print_lock(o); break;
	case CLOSE: case MAP: case UNMAP: case FSYNC: case FSTAT: printf(" %u", o->slot); break;
	case RENAME: case LINK:
		printf(" %c%u %c%u", "abc"[o->name / NAMES], o->name % NAMES, "abc"[o->name2 / NAMES], o->name2 % NAMES);
		break;
	case MAKE: case STAT: case UNLINK: case SERVER: printf(" %c%u", "abc"[o->name / NAMES], o->name % NAMES); break;
	case TRUNCATE: printf(" %c%u to %u", "abc"[o->name / NAMES], o->name % NAMES, o->off); break;
	case EVENT: printf(" %s", cfg.events[o->off]); break;
	case PAUSE: printf(" %u ms", o->off); break;
	default: break;
	}
	printf("\n");
}

/* ---- an episode ---- */

static struct op under_way[WORKERS];
static bool busy[WORKERS];
static double began[WORKERS];

static struct reply { struct answer a; const uint8_t *data; } replies[WORKERS];

static bool receive(unsigned i, char *why, size_t size)
{
	if (worker_answer(i, &replies[i].a, &replies[i].data))
		return true;
	snprintf(why, size, "no answer, or the process is dead (at #%u)", under_way[i].id);
	if (cfg.silence && system(cfg.silence))
		fprintf(stderr, "--silence: the command has failed\n");
	history_wrong(&under_way[i]);
	return false;
}

static bool settle(unsigned i, char *why, size_t size)
{
	const struct reply *r = &replies[i];

	busy[i] = false;
	ndone++;
	history_note(&under_way[i], &r->a, began[i]);
	if (model_check(&under_way[i], &r->a, r->data, why, size))
		return true;
	snprintf(why + strlen(why), size - strlen(why), " (at #%u)", under_way[i].id);
	if (under_way[i].what == READ || under_way[i].what == PEEK)
		blame(&under_way[i], why, size);
	history_wrong(&under_way[i]);
	return false;
}

/* What others have released is known: who still has to wait, and who has not? One after the other,
 * because the first may have what the second wants. */
static bool drain_waiting(char *why, size_t size)
{
	bool due[WORKERS], all[WORKERS];
	int i;

	do {
		bool any = false;

		for (unsigned k = 0; k < WORKERS; k++) {
			all[k] = busy[k];
			due[k] = busy[k] && !model_must_wait(k);
			any |= due[k];
		}
		i = worker_any(any ? due : all, any);
		if (i < 0 && any) {
			for (i = 0; !due[i]; i++)
				;
			snprintf(why, size, "it waits, although the lock is free (at #%u)", under_way[i].id);
			history_wrong(&under_way[i]);
			return false;
		}
		if (i >= 0 && !(receive((unsigned)i, why, size) && settle((unsigned)i, why, size)))
			return false;
	} while (i >= 0);
	for (unsigned k = 0; k < WORKERS; k++)
		if (busy[k])
			model_waits(k);
	return true;
}

/* Of answers that have come together: unlocks make locks possible, and these are in the way of others. */
static unsigned turn_of(const struct op *o)
{
	return o->what == LOCK ? 2 : o->what == TEST ? 1 : 0;
}

/* All answers, but for those who wait for a lock that another one has. */
static bool drain(char *why, size_t size)
{
	for (unsigned i = 0; i < WORKERS; i++)
		if (busy[i] && !under_way[i].waits && !receive(i, why, size))
			return false;
	for (unsigned turn = 0; turn < 3; turn++)
		for (unsigned i = 0; i < WORKERS; i++)
			if (busy[i] && !under_way[i].waits && turn_of(&under_way[i]) == turn &&
			    !settle(i, why, size))
				return false;
	return drain_waiting(why, size);
}

static void event(const struct op *o)
{
	if (event_pid && !waitpid(event_pid, NULL, WNOHANG))
		return;                 /* the last one is not over */
	event_pid = fork();
	if (event_pid)
		nevents++;
	else
		execl("/bin/sh", "sh", "-c", cfg.events[o->off], (char *)NULL);
}

static bool step(struct op *o, char *why, size_t size)
{
	if (o->what == EVENT) {
		event(o);
		return true;
	}
	if (model_busy() && !(o->along && model_allows(o)) && !drain(why, size))
		return false;
	if (!model_allows(o))
		return true;
	model_begins(o);
	under_way[o->worker] = *o;
	busy[o->worker] = true;
	began[o->worker] = now_seconds();
	worker_begin(o);
	return true;
}

static bool step_alone(struct op o, char *why, size_t size)
{
	return step(&o, why, size) && drain(why, size);
}

static bool begin_all(char *why, size_t size)
{
	nepisodes++;
	why[0] = 0;
	memset(busy, 0, sizeof(busy));
	workers_start();
	model_start();
	for (unsigned i = 0; i < cfg.workers; i++)
		if (!step_alone((struct op){ .what = MKDIR, .worker = (uint8_t)i, .id = first + nepisodes }, why, size))
			return false;
	return true;
}

/* Who waits for a lock is let go by that, and has his turn the next time. */
static bool close_all(char *why, size_t size)
{
	for (unsigned k = 0; k < cfg.workers; k++)
		for (unsigned i = 0; i < cfg.workers * SLOTS; i++)
			if (!step_alone((struct op){ .what = CLOSE, .worker = (uint8_t)(i / SLOTS), .slot = (uint8_t)(i % SLOTS) }, why, size))
				return false;
	return true;
}

/* Closes everything, and all mounts find the same. */
static bool look_at_all(char *why, size_t size)
{
	if (!drain(why, size) || !close_all(why, size))
		return false;
	for (unsigned i = 0; i < cfg.workers * cfg.families * NAMES; i++) {
		struct op o = { .worker = (uint8_t)(i / (cfg.families * NAMES)),
			.name = (uint8_t)(i % (cfg.families * NAMES)), .len = cfg.size };

		if (!model_has(o.name))
			continue;
		for (unsigned k = 0; k < 4; k++) {
			static const enum what what[] = { OPEN, READ, FSTAT, CLOSE };

			o.what = what[k];
			if (!step_alone(o, why, size))
				return false;
		}
		o.what = SERVER;
		if (cfg.server && !step_alone(o, why, size))
			return false;
	}
	return true;
}

/* The directory is empty then; a front end looks. */
static bool clean_up(char *why, size_t size)
{
	for (unsigned i = 0; i < cfg.families * NAMES; i++)
		if (model_has(i) && !step_alone((struct op){ .what = UNLINK, .name = (uint8_t)i,
				.worker = (uint8_t)(i / NAMES * EACH) }, why, size))
			return false;
	return step_alone((struct op){ .what = RMDIR, .id = first + nepisodes }, why, size);
}

/* ops: in the order in which they are done; NULL: by chance, and they are recorded. */
static bool play(const struct op *ops, struct op *record, unsigned *n, char *why, size_t size)
{
	double end = now_seconds() + (double)cfg.seconds;
	unsigned i = 0, most = ops ? *n : cfg.steps;
	bool good = begin_all(why, size);

	if (!ops)
		generate_start();
	for (; good && i < most && (ops || now_seconds() < end); i++) {
		struct op o;

		if (!ops && chance(3) && !drain(why, size)) {
			good = false;
			break;
		}
		o = ops ? ops[i] : generate();
		good = step(&o, why, size);
		if (record)
			record[i] = o;
	}
	*n = i;
	good = good && look_at_all(why, size);
	good = good && clean_up(why, size);
	model_ended();
	workers_end();
	return good;
}

bool episode(const struct op *ops, unsigned *n, char *why, size_t size)
{
	return play(ops, NULL, n, why, size);
}

/* ---- all of it ---- */

static int differs(struct op *record, unsigned n, char *why, size_t size)
{
	printf("a difference, with --seed %llu, in episode %u, after %u operations: %s\n",
	       (unsigned long long)cfg.seed, nepisodes, n, why);
	history_print();
	if (cfg.tries)
		shrink(record, &n, why, size);
	printf("%s\n", why);
	for (unsigned i = 0; i < n; i++)
		print_op(&record[i]);
	return 1;
}

static void say_locks(void)
{
	unsigned long granted, waited, news;

	model_counts(&granted, &waited, &news);
	printf("%lu locks were granted, %lu after others had them; %lu brought what others had written\n", granted,
	       waited, news);
}

static int run(void)
{
	double end = now_seconds() + (double)cfg.seconds;
	struct op *record = calloc(cfg.steps, sizeof(*record));
	char why[512];
	unsigned n;

	if (!record)
		return 2;
	chance_seed(cfg.seed);
	while (now_seconds() < end) {
		n = 0;
		if (play(NULL, record, &n, why, sizeof(why)))
			continue;
		n = (unsigned)differs(record, n, why, sizeof(why));
		free(record);
		return (int)n;
	}
	if (event_pid)
		waitpid(event_pid, NULL, 0);
	printf("no difference: %lu operations in %u episodes, %lu events, --seed %llu\n", ndone, nepisodes,
	       nevents, (unsigned long long)cfg.seed);
	if (cfg.locks)
		say_locks();
	free(record);
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: cto [--seed N] [--seconds N] [--steps N] [--size N] [--files N] [--server DIR]\n"
		"           [--lies] [--locks [--ends]] [--event CMD]... [--every N] [--silence CMD] [--old-reads]\n"
		"           [--old-names N] [--old-bytes N] [--beside rw|w] [--tries N]\n"
		"           [--source SERVER:/EXPORT] [--options OPTIONS] DIR [DIR [DIR]]\n");
	return 2;
}

static bool parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", 1, NULL, 's' }, { "seconds", 1, NULL, 't' }, { "steps", 1, NULL, 'n' },
		{ "size", 1, NULL, 'z' }, { "files", 1, NULL, 'f' }, { "server", 1, NULL, 'd' },
		{ "event", 1, NULL, 'e' }, { "every", 1, NULL, 'v' }, { "tries", 1, NULL, 'r' },
		{ "silence", 1, NULL, 'q' },
		{ "old-reads", 0, NULL, 'o' }, { "old-names", 1, NULL, 'k' }, { "lies", 0, NULL, 'l' },
		{ "locks", 0, NULL, 'L' }, { "ends", 0, NULL, 'E' },
		{ "old-bytes", 1, NULL, 'b' }, { "beside", 1, NULL, 'B' }, { "source", 1, NULL, 'S' }, { "options", 1, NULL, 'O' }, { 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': cfg.seed = strtoull(optarg, NULL, 10); break;
		case 't': cfg.seconds = atol(optarg); break;
		case 'n': cfg.steps = (unsigned)atoi(optarg); break;
		case 'z': cfg.size = (uint32_t)atoi(optarg); break;
		case 'f': cfg.files = (unsigned)atoi(optarg); break;
		case 'd': cfg.server = optarg; break;
		case 'e': cfg.events[cfg.nevents++ % 8] = optarg; break;
		case 'q': cfg.silence = optarg; break;
		case 'v': cfg.every = (unsigned)atoi(optarg); break;
		case 'r': cfg.tries = (unsigned)atoi(optarg); break;
		case 'o':
			for (unsigned i = 0; i < MOUNTS; i++)
				cfg.old[i] = READS;
			break;
		case 'k': cfg.old[(unsigned)atoi(optarg) % MOUNTS] = ALWAYS; break;
		case 'b': cfg.old_bytes[(unsigned)atoi(optarg) % MOUNTS] = true; break;
		case 'B': cfg.beside = optarg[0] == 'w' ? BESIDE_WRITES : BESIDE_RDWR; break;
		case 'E': cfg.ends = true; break;
		case 'L': cfg.locks = true; break;
		case 'l': cfg.lies = true; break;
		case 'S': cfg.source = optarg; break;
		case 'O': cfg.options = optarg; break;
		default: return false;
		}
	}
	if (argc - optind < 1 || argc - optind > MOUNTS || !cfg.files || cfg.files > NAMES || !cfg.steps ||
	    cfg.size < 65536 || cfg.nevents > 8)
		return false;
	cfg.mounts = (unsigned)(argc - optind);
	cfg.families = cfg.mounts == 1 ? 2 : cfg.mounts;
	cfg.workers = cfg.families * EACH;
	for (unsigned i = 0; i < cfg.mounts; i++) {
		cfg.dirs[i] = argv[optind + (int)i];
		cfg.fronts[i] = cfg.dirs[i][0] == '@';
		cfg.dirs[i] += cfg.fronts[i];
		if (cfg.fronts[i] && !cfg.source)
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	int rc;

	first = (unsigned)getpid() * 10000;
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	cfg.seed = (uint64_t)time(NULL);
	if (!parse(argc, argv))
		return usage();
	printf("--seed %llu\n", (unsigned long long)cfg.seed);
	fronts_start();
	rc = run();
	return fronts_end() ? rc : 2;
}
