/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks as programs use them:
 *
 *     locks try KIND TYPE START LENGTH FILE     prints "yes", or "no" if another one has it
 *     locks hold KIND TYPE START LENGTH FILE    waits for it, prints "held", keeps it until stdin ends
 *     locks count KIND N FILE                   N times: locks, adds one to the number in FILE, unlocks
 *     locks append KIND SECONDS NAME FILE       so long: locks, appends a line "NAME n" of some length, unlocks;
 *                                               now and then opens the file again. Prints the last n
 *     locks signal KIND FILE                    waits for it, until a signal comes: prints "EINTR"
 *     locks split END FILE                      random locks against a map of bytes, which another
 *                                               process compares by F_GETLK and by trying. END: what
 *                                               is locked with its last byte: "byte", or "all" behind
 *                                               it as well
 *     locks readers N MIB ROUNDS FILE OTHER     N processes lock FILE at the same time, and read what was
 *                                               written to its end by OTHER, another mount's name for it,
 *                                               although their mount has pages of it, many of them
 *     locks closes FILE                         POSIX locks go with any close() of the process
 *
 * KIND: posix, ofd, flock. TYPE: r, w. LENGTH 0: to the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES 32

static void __attribute__((format(printf, 1, 2), noreturn)) die(const char *text, ...)
{
	va_list args;

	va_start(args, text);
	vfprintf(stderr, text, args);
	va_end(args);
	fprintf(stderr, " (%s)\n", strerror(errno));
	exit(2);
}

static int open_it(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0644);

	if (fd < 0)
		die("%s", name);
	return fd;
}

/* type: F_RDLCK, F_WRLCK, F_UNLCK. As fcntl(). */
static int set_lock(int fd, const char *kind, short type, off_t start, off_t len, int wait)
{
	struct flock lk = { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };
	int op = type == F_WRLCK ? LOCK_EX : type == F_RDLCK ? LOCK_SH : LOCK_UN;

	if (!strcmp(kind, "flock"))
		return flock(fd, op | (wait ? 0 : LOCK_NB));
	if (!strcmp(kind, "ofd"))
		return fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lk);
	return fcntl(fd, wait ? F_SETLKW : F_SETLK, &lk);
}

static short type_of(const char *word)
{
	return *word == 'w' ? F_WRLCK : F_RDLCK;
}

static int try_it(char **argv)
{
	int fd = open_it(argv[4]);

	if (!set_lock(fd, argv[0], type_of(argv[1]), atol(argv[2]), atol(argv[3]), 0))
		puts("yes");
	else if (errno == EAGAIN || errno == EACCES)
		puts("no");
	else
		die("lock");
	return 0;
}

static int hold(char **argv)
{
	int fd = open_it(argv[4]);

	if (set_lock(fd, argv[0], type_of(argv[1]), atol(argv[2]), atol(argv[3]), 1))
		die("lock");
	puts("held");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}

static int count(char **argv)
{
	int fd = open_it(argv[2]), n = atoi(argv[1]);
	char text[32];

	while (n--) {
		ssize_t len;
		long is;

		if (set_lock(fd, argv[0], F_WRLCK, 0, 0, 1))
			die("lock");
		len = pread(fd, text, sizeof(text) - 1, 0);
		if (len < 0)
			die("read");
		text[len] = '\0';
		is = atol(text);
		snprintf(text, sizeof(text), "%010ld\n", is + 1);
		if (pwrite(fd, text, strlen(text), 0) != (ssize_t)strlen(text))
			die("write");
		if (set_lock(fd, argv[0], F_UNLCK, 0, 0, 0))
			die("unlock");
	}
	return close(fd);
}

static int append(char **argv)
{
	int fd = -1, n = 0;
	time_t end = time(NULL) + atoi(argv[1]);
	char line[300];

	while (time(NULL) < end) {
		int len;

		n++;
		len = snprintf(line, sizeof(line), "%s %d %.*s\n", argv[2], n, n * 7 % 200,
			       "........................................................................"
			       "........................................................................"
			       "........................................................................");

		if (fd >= 0 && n % 8 == 0)
			close(fd);
		if (fd < 0 || n % 8 == 0)
			fd = open(argv[3], O_RDWR | O_CREAT | O_APPEND, 0644);
		if (fd < 0 || set_lock(fd, argv[0], F_WRLCK, 0, 0, 1))
			die("lock");
		if (write(fd, line, (size_t)len) != len)
			die("write");
		if (set_lock(fd, argv[0], F_UNLCK, 0, 0, 0))
			die("unlock");
	}
	printf("%d\n", n);
	return close(fd);
}

static void on_signal(int sig)
{
	(void)sig;
}

static int wait_for_signal(char **argv)
{
	struct sigaction act = { .sa_handler = on_signal };
	int fd = open_it(argv[1]);

	sigaction(SIGALRM, &act, NULL);
	alarm(1);
	if (!set_lock(fd, argv[0], F_WRLCK, 0, 0, 1))
		die("it got the lock");
	if (errno != EINTR)
		die("lock");
	puts("EINTR");
	return 0;
}

/* ---- split ---- */

static bool to_the_end;

static off_t length_of(int from, int last)
{
	return to_the_end && last == BYTES - 1 ? 0 : last - from + 1;
}

static void compare(int fd, const char *map, pid_t owner, unsigned step)
{
	for (int i = 0; i < BYTES; i++) {
		struct flock lk = { .l_type = F_WRLCK, .l_start = i, .l_len = length_of(i, i) };
		short want = map[i] == 'w' ? F_WRLCK : map[i] == 'r' ? F_RDLCK : F_UNLCK;

		if (fcntl(fd, F_GETLK, &lk))
			die("F_GETLK");
		if (lk.l_type != want || (want != F_UNLCK && lk.l_pid != owner))
			die("step %u, byte %d: type %d of %d, not %d of %d", step, i, lk.l_type, lk.l_pid, want,
			    owner);
		if (!set_lock(fd, "posix", F_RDLCK, i, length_of(i, i), 0) != (map[i] != 'w'))
			die("step %u, byte %d is '%c'", step, i, map[i]);
	}
	if (set_lock(fd, "posix", F_UNLCK, 0, 0, 0))
		die("unlock");
}

static void look(const char *name, const char *map, unsigned step)
{
	pid_t owner = getpid(), pid = fork();
	int status;

	if (!pid) {
		int fd = open_it(name);

		compare(fd, map, owner, step);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		exit(2);
}

static int split(char **argv)
{
	int fd[2] = { open_it(argv[1]), open_it(argv[1]) };
	char map[BYTES];
	unsigned seed = 7;

	to_the_end = !strcmp(argv[0], "all");
	memset(map, '.', BYTES);
	for (unsigned step = 0; step < 60; step++) {
		int a = rand_r(&seed) % BYTES, b = rand_r(&seed) % BYTES, from = a < b ? a : b, last = a < b ? b : a;
		unsigned what = (unsigned)rand_r(&seed) % 3;
		static const short types[] = { F_UNLCK, F_RDLCK, F_WRLCK };

		if (set_lock(fd[rand_r(&seed) % 2], "posix", types[what], from,
			     length_of(from, last), 0))
			die("step %u", step);
		memset(map + from, ".rw"[what], (size_t)(last - from + 1));
		if (step % 4 == 3)
			look(argv[1], map, step);
	}
	close(fd[1]);
	memset(map, '.', BYTES);
	look(argv[1], map, 99);
	return 0;
}

/* What another process sees of byte 0. */
static short seen(const char *name)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct flock lk = { .l_type = F_WRLCK, .l_len = 1 };
		int fd = open_it(name);

		if (fcntl(fd, F_GETLK, &lk))
			die("F_GETLK");
		_exit(lk.l_type);
	}
	waitpid(pid, &status, 0);
	return (short)WEXITSTATUS(status);
}

static int closes(char **argv)
{
	int fd = open_it(argv[0]), other = open(argv[0], O_RDONLY), copy;

	if (set_lock(fd, "posix", F_WRLCK, 0, 1, 0) || seen(argv[0]) != F_WRLCK)
		die("lock");
	close(other);
	if (seen(argv[0]) != F_UNLCK)
		die("close() of another open, which only reads, has not released it");
	copy = dup(fd);
	if (set_lock(fd, "posix", F_WRLCK, 0, 1, 0) || set_lock(fd, "ofd", F_WRLCK, 5, 1, 0))
		die("lock again");
	close(copy);
	if (seen(argv[0]) != F_UNLCK)
		die("close() of a copy has not released it");
	other = open_it(argv[0]);
	if (!set_lock(other, "ofd", F_RDLCK, 5, 1, 0))
		die("it has released what is the open file's");
	close(fd);
	/* The kernel tells of it later. */
	for (int i = 0; set_lock(other, "ofd", F_RDLCK, 5, 1, 0); i++) {
		if (i == 100)
			die("the last close has not released it");
		usleep(20000);
	}
	return 0;
}

/* ---- readers ---- */

#define MIB (1 << 20)

struct turn { _Atomic int round, done; };

static void read_last(const char *name, off_t size, int rounds, struct turn *t)
{
	int fd = open(name, O_RDONLY), got;

	for (int r = 1; r <= rounds; r++) {
		while (atomic_load(&t->round) < r)
			usleep(100);
		if (set_lock(fd, "posix", F_RDLCK, 0, 0, 1))
			die("lock");
		if (pread(fd, &got, sizeof(got), size - (off_t)sizeof(got)) != sizeof(got))
			die("read");
		if (set_lock(fd, "posix", F_UNLCK, 0, 0, 0))
			die("unlock");
		if (got != r)
			die("round %d: it has read %d", r, got);
		atomic_fetch_add(&t->done, 1);
	}
}

static void write_last(int fd, off_t size, int what)
{
	if (set_lock(fd, "posix", F_WRLCK, 0, 0, 1))
		die("lock to write");
	if (pwrite(fd, &what, sizeof(what), size - (off_t)sizeof(what)) != sizeof(what))
		die("write");
	if (set_lock(fd, "posix", F_UNLCK, 0, 0, 0))
		die("unlock");
}

static void read_all(int fd, off_t size)
{
	static char data[MIB];

	for (off_t at = 0; at < size; at += MIB)
		if (pread(fd, data, MIB, at) != MIB)
			die("read");
}

/* One who fails ends all. */
static int readers(char **argv)
{
	int n = atoi(argv[0]), rounds = atoi(argv[2]), other = open_it(argv[4]), fd, status;
	off_t size = atol(argv[1]) * MIB;
	struct turn *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (t == MAP_FAILED || ftruncate(other, size) || fsync(other))
		die("set-up");
	for (int i = 0; i < n; i++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			read_last(argv[3], size, rounds, t);
			_exit(0);
		}
	fd = open(argv[3], O_RDONLY);
	for (int r = 1; r <= rounds; r++) {
		read_all(fd, size);
		write_last(other, size, r);
		atomic_store(&t->done, 0);
		atomic_store(&t->round, r);
		while (atomic_load(&t->done) < n) {
			if (waitpid(-1, &status, WNOHANG) > 0 && status)
				return 2;
			usleep(100);
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct { const char *word; int args, (*run)(char **argv); } all[] = {
		{ "try", 5, try_it }, { "hold", 5, hold }, { "count", 3, count }, { "append", 4, append },
		{ "signal", 2, wait_for_signal }, { "split", 2, split }, { "closes", 1, closes },
		{ "readers", 5, readers },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (argc == all[i].args + 2 && !strcmp(argv[1], all[i].word))
			return all[i].run(argv + 2);
	fprintf(stderr, "see the head of locks.c\n");
	return 2;
}
