/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads and writes by rings (lib/nfsrdma.h), beside those by the kernel:
 *
 *     rings model SECONDS SIZE SEED FILE   random reads and writes of one file, by a ring, by the page cache and
 *                                    past it, with truncations, against a copy in memory
 *     rings turns N FILE             two processes write a counter in turn, one by a ring and one by the kernel,
 *                                    N times, and each reads what the other has written
 *     rings locks N FILE             the same two add one to it N times each, under a lock of fcntl()
 *     rings die N FILE               N processes have calls under way by rings, and are killed
 *     rings mapped N FILE            changes pages by a mapping and by a ring, N times
 *     rings append N FILE            a ring makes the file longer, and an open from before that appends, N times
 *     rings past FILE                says "yes" if FILE can be read by a ring, or why not
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ring_check.h"

/* ---- a ring of this process ---- */

enum { DEPTH = 64, PIECE_MAX = 1 << 20, MEMORY = 4 * PIECE_MAX };
/* The most pieces of one transfer. */
enum { PIECES = 16 };

static struct nfsrdma_session *session;
static struct nfsrdma_memory *memory;
static struct nfsrdma_queue *queue;
static uint32_t file;
static uint8_t *mem;

static void begin(int fd)
{
	check(nfsrdma_connect(fd, &session), "connect");
	check(nfsrdma_memory_new(session, MEMORY, &memory), "memory");
	check(nfsrdma_queue_new(session, DEPTH, &queue), "queue");
	check(nfsrdma_attach(queue, fd, &file), "attach");
	mem = nfsrdma_memory_at(memory);
}

/* len bytes at the beginning of the memory, in n pieces of any size that are under way together. Returns how
 * many until the first that is short. */
static size_t transfer(bool write, size_t len, uint64_t offset, unsigned n, unsigned *seed)
{
	struct nfsrdma_done done[DEPTH];
	uint64_t at[DEPTH + 1] = { 0 };
	int64_t result[DEPTH];
	size_t whole = 0;

	for (unsigned i = 0; i < n; i++) {
		size_t left = len - at[i], piece = i + 1 == n ? left : 1 + (size_t)rand_r(seed) % (left - (n - 1 - i));

		at[i + 1] = at[i] + piece;
		check((write ? nfsrdma_write : nfsrdma_read)(queue, file, memory, at[i], (uint32_t)piece, offset + at[i], i),
		      "submit");
	}
	for (unsigned got = 0; got < n; ) {
		int rc = nfsrdma_wait(queue, done, 1, DEPTH, -1);

		if (rc == -EINTR)
			continue;
		check(rc, "wait");
		for (int i = 0; i < rc; i++)
			result[done[i].user_data] = done[i].result;
		got += (unsigned)rc;
	}
	for (unsigned i = 0; i < n; i++) {
		if (result[i] < 0)
			die("%s of %" PRIu64 " bytes at %" PRIu64 " by a ring: %s", write ? "write" : "read", at[i + 1] - at[i],
			    offset + at[i], strerror((int)-result[i]));
		whole += (size_t)result[i];
		if ((uint64_t)result[i] < at[i + 1] - at[i])
			break;
	}
	return whole;
}

/* ---- model ---- */

static uint8_t *now;                    /* what the file has */
static size_t size, most;
static unsigned seed, ops, op;          /* op: for messages */

static unsigned roll(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

static void compare(const uint8_t *got, size_t n, size_t len, uint64_t offset, const char *how)
{
	size_t wanted = offset >= size ? 0 : size - offset < len ? size - offset : len;

	if (n != wanted)
		die("operation %u: %zu bytes at %" PRIu64 " %s, not %zu of %zu", ops, n, offset, how, wanted, size);
	for (size_t i = 0; i < n; i++)
		if (got[i] != now[offset + i])
			die("operation %u: byte %" PRIu64 " %s is %02x, not %02x (a read of %zu at %" PRIu64 ")", ops,
			    offset + i, how, got[i], now[offset + i], len, offset);
}

static void model_write(const uint8_t *data, size_t len, uint64_t offset)
{
	if (offset > size)
		memset(now + size, 0, offset - size);
	memcpy(now + offset, data, len);
	if (offset + len > size)
		size = offset + len;
}

static void by_ring(int fd, bool write, size_t len, uint64_t offset)
{
	unsigned pieces = 1 + roll(len < PIECES ? (unsigned)len : PIECES);
	size_t n;

	for (size_t i = 0; write && i < len; i++)
		mem[i] = (uint8_t)(ops + i * 13);
	n = transfer(write, len, offset, pieces, &seed);
	if (!write) {
		/* Of several pieces the end of the file may lie in any. */
		compare(mem, n, len, offset, "by a ring");
		return;
	}
	if (n != len)
		die("operation %u: %zu of %zu bytes were written by a ring", ops, n, len);
	model_write(mem, len, offset);
}

static void by_kernel(int fd, bool write, size_t len, uint64_t offset, const char *how)
{
	static uint8_t data[PIECE_MAX];
	ssize_t n;

	for (size_t i = 0; write && i < len; i++)
		data[i] = (uint8_t)(ops * 3 + i * 7);
	n = write ? pwrite(fd, data, len, (off_t)offset) : pread(fd, data, len, (off_t)offset);
	check_errno((int)n, how);
	if (write && (size_t)n != len)
		die("%zd of %zu bytes were written %s", n, len, how);
	if (write)
		model_write(data, len, offset);
	else
		compare(data, (size_t)n, len, offset, how);
}

static void one_operation(int fd, int direct, const char *name)
{
	size_t len = roll(8) ? 1 + roll(70000) : 1 + roll(PIECE_MAX);
	uint64_t offset = roll((unsigned)most);
	struct stat st;
	int other;

	if (offset + len > most)
		len = most - offset;
	switch (op = roll(12)) {
	case 0: case 1: case 2:
		by_ring(fd, true, len, offset);
		break;
	case 3: case 4: case 5:
		by_ring(fd, false, len, offset);
		break;
	case 6:
		by_kernel(fd, true, len, offset, "by the page cache");
		break;
	case 7:
		by_kernel(fd, false, len, offset, "by the page cache");
		break;
	case 8:
		by_kernel(direct, roll(2), len, offset, "with O_DIRECT");
		break;
	case 9:
		other = check_errno(open(name, O_RDONLY), "open");
		by_kernel(other, false, len, offset, "by another open");
		close(other);
		break;
	case 10:
		check_errno(fstat(fd, &st), "fstat");
		if ((size_t)st.st_size != size)
			die("operation %u: fstat() says %lld, not %zu", ops, (long long)st.st_size, size);
		break;
	case 11:
		if (roll(4))
			break;
		check_errno(ftruncate(fd, (off_t)offset), "ftruncate");
		if (offset > size)
			memset(now + size, 0, offset - size);
		size = offset;
	}
}

static int do_model(char **arg)
{
	time_t until = time(NULL) + atoi(arg[0]);
	int fd = check_errno(open(arg[3], O_RDWR | O_CREAT | O_TRUNC, 0666), arg[3]);
	int direct = check_errno(open(arg[3], O_RDWR | O_DIRECT), arg[3]);

	most = (size_t)atol(arg[1]);
	seed = (unsigned)atoi(arg[2]);
	now = calloc(1, most);
	begin(fd);
	while (time(NULL) < until) {
		one_operation(fd, direct, arg[3]);
		ops++;
	}
	printf("%u operations, --seed %s\n", ops, arg[2]);
	return 0;
}

/* ---- two processes ---- */

static uint64_t number_by_ring(bool write, uint64_t n)
{
	unsigned none = 0;

	memcpy(mem, &n, sizeof(n));
	if (transfer(write, sizeof(n), 0, 1, &none) != sizeof(n))
		die("by a ring: a short counter");
	memcpy(&n, mem, sizeof(n));
	return n;
}

static uint64_t number_by_kernel(const char *name, bool write, uint64_t n)
{
	int fd = check_errno(open(name, write ? O_WRONLY : O_RDONLY), name);

	if ((write ? pwrite(fd, &n, sizeof(n), 0) : pread(fd, &n, sizeof(n), 0)) != sizeof(n))
		die("by the kernel: a short counter");
	check_errno(close(fd), "close");
	return n;
}

/* Reads what the other has written, and writes one more. */
static void turn(bool ring, const char *name, uint64_t n)
{
	uint64_t has = ring ? number_by_ring(false, 0) : number_by_kernel(name, false, 0);

	if (has != n)
		die("turn %" PRIu64 " %s: the counter is %" PRIu64, n, ring ? "by a ring" : "by the kernel", has);
	if (ring)
		number_by_ring(true, n + 1);
	else
		number_by_kernel(name, true, n + 1);
}

static void take_turns(bool ring, const char *name, uint64_t turns, int from, int to)
{
	char byte = 0;

	for (uint64_t n = !ring; n < turns; n += 2) {
		if (read(from, &byte, 1) != 1)
			die("the other one has ended");
		turn(ring, name, n);
		check_errno((int)write(to, &byte, 1), "pipe");
	}
}

static void zero(const char *name)
{
	int fd = check_errno(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666), name);
	uint64_t n = 0;

	check_errno((int)write(fd, &n, sizeof(n)), name);
	check_errno(close(fd), name);
}

static int ends_well(pid_t child)
{
	int status;

	check_errno(waitpid(child, &status, 0), "waitpid");
	return status != 0;
}

static int do_turns(char **arg)
{
	uint64_t turns = strtoull(arg[0], NULL, 10);
	int there[2], back[2], fd;
	pid_t child;

	zero(arg[1]);
	if (pipe(there) || pipe(back) || write(back[1], "", 1) != 1)
		die("pipe");
	child = check_errno(fork(), "fork");
	if (!child) {
		take_turns(false, arg[1], turns, there[0], back[1]);
		_exit(0);
	}
	fd = check_errno(open(arg[1], O_RDWR), arg[1]);
	begin(fd);
	take_turns(true, arg[1], turns, back[0], there[1]);
	return ends_well(child);
}

/* Each of both writes 100 bytes of its own at the end. Now and then the file is cut in between. */
static int do_append(char **arg)
{
	unsigned long times = strtoul(arg[0], NULL, 10);
	int fd = check_errno(open(arg[1], O_RDWR | O_CREAT | O_TRUNC, 0644), arg[1]);
	int end = check_errno(open(arg[1], O_WRONLY | O_APPEND), arg[1]);
	uint64_t at = 0;
	char line[100];
	size_t n;

	begin(fd);
	for (unsigned long i = 0; i < times; i++) {
		memset(mem, 'r', sizeof(line));
		if (transfer(true, sizeof(line), at, 1, &seed) != sizeof(line))
			die("a short write by a ring");
		at += sizeof(line);
		if (i % 10 == 9)
			check_errno(ftruncate(fd, (off_t)(at -= 150)), "ftruncate");
		memset(line, 'k', sizeof(line));
		if (write(end, line, sizeof(line)) != sizeof(line))
			die("an append: %s", strerror(errno));
		n = transfer(false, sizeof(line) + 50, at - 50, 1, &seed);
		if (n != sizeof(line) + 50 || memcmp(mem + 50, line, sizeof(line)) || (i % 10 != 9 && mem[49] != 'r'))
			die("turn %lu: the append is not behind the %" PRIu64 " bytes that were there: %zu bytes, %.*s",
			    i, at, n, (int)n, (char *)mem);
		at += sizeof(line);
	}
	return 0;
}

static void add_under_lock(bool ring, const char *name, uint64_t times)
{
	int fd = check_errno(open(name, O_RDWR), name);
	struct flock l = { .l_whence = SEEK_SET };

	if (ring)
		begin(fd);
	for (uint64_t i = 0; i < times; i++) {
		uint64_t n;

		l.l_type = F_WRLCK;
		check_errno(fcntl(fd, F_SETLKW, &l), "lock");
		n = ring ? number_by_ring(false, 0) : 0;
		if (!ring && pread(fd, &n, sizeof(n), 0) != sizeof(n))
			die("a short counter under the lock");
		n++;
		if (ring)
			number_by_ring(true, n);
		else if (pwrite(fd, &n, sizeof(n), 0) != sizeof(n))
			die("a short write under the lock");
		l.l_type = F_UNLCK;
		check_errno(fcntl(fd, F_SETLK, &l), "unlock");
	}
}

static int do_locks(char **arg)
{
	uint64_t times = strtoull(arg[0], NULL, 10), has;
	pid_t child;

	zero(arg[1]);
	child = check_errno(fork(), "fork");
	add_under_lock(!child, arg[1], times);
	if (!child)
		_exit(0);
	if (ends_well(child))
		return 1;
	has = number_by_kernel(arg[1], false, 0);
	if (has != 2 * times)
		die("%" PRIu64 " were counted under locks, not %" PRIu64, has, 2 * times);
	return 0;
}

/* ---- the end of programs ---- */

static void __attribute__((noreturn)) load(const char *name)
{
	int fd = check_errno(open(name, O_RDWR), name);
	struct nfsrdma_done done[DEPTH];

	begin(fd);
	for (uint64_t n = 0; ; n++) {
		while (!(n & 1 ? nfsrdma_write : nfsrdma_read)(queue, file, memory, n % 4 * 65536, 65536, n % 16 * 65536, n))
			n++;
		check(nfsrdma_wait(queue, done, 1, DEPTH, -1), "wait");
	}
}

static int do_die(char **arg)
{
	int times = atoi(arg[0]);

	for (int i = 0; i < times; i++) {
		pid_t child = check_errno(fork(), "fork");
		int status;

		if (!child)
			load(arg[1]);
		usleep((useconds_t)(i * 7919 % 20000));
		kill(child, SIGKILL);
		check_errno(waitpid(child, &status, 0), "waitpid");
		if (!WIFSIGNALED(status))
			die("a program ended by itself");
	}
	return 0;
}

/* Pages of which a mapping has changed one byte each, and writes of a ring that are under way together others: all
 * stay, and the mapping sees them. */
static int do_mapped(char **arg)
{
	enum { PAGES = 8, LEN = 100, AT = 200 };
	int fd = check_errno(open(arg[1], O_RDWR | O_CREAT | O_TRUNC, 0600), arg[1]);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct nfsrdma_done done[PAGES];
	uint8_t *at, got[2];

	check_errno(ftruncate(fd, (off_t)(PAGES * page)), "ftruncate");
	at = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	begin(fd);
	for (unsigned i = 1, times = (unsigned)atoi(arg[0]); i <= times; i++) {
		memset(mem, (uint8_t)~i, LEN);
		for (unsigned p = 0; p < PAGES; p++)
			at[p * page + i % LEN] = (uint8_t)i;
		for (unsigned p = 0; p < PAGES; p++)
			check(nfsrdma_write(queue, file, memory, 0, LEN, p * page + AT, p), "submit");
		for (unsigned n = 0; n < PAGES; ) {
			int rc = nfsrdma_wait(queue, done, 1, PAGES, -1);

			for (int k = 0; k < rc; k++)
				if (done[k].result != LEN)
					die("a ring's write beside a mapping: %jd", (intmax_t)done[k].result);
			n += rc > 0 ? (unsigned)rc : 0;
		}
		for (unsigned p = 0; p < PAGES; p++) {
			off_t own = (off_t)(p * page + i % LEN), rings = (off_t)(p * page + AT + i % LEN);

			if (check_errno((int)pread(fd, got, 1, own), "pread") != 1 || got[0] != (uint8_t)i || at[own] != (uint8_t)i)
				die("what a mapping has changed is gone, page %u after %u times", p, i);
			if (check_errno((int)pread(fd, got + 1, 1, rings), "pread") != 1 || got[1] != (uint8_t)~i ||
			    at[rings] != (uint8_t)~i)
				die("what a ring has written beside a mapping is gone, page %u after %u times", p, i);
		}
	}
	return 0;
}

static int do_past(char **arg)
{
	int fd = check_errno(open(arg[0], O_RDONLY), arg[0]), rc = nfsrdma_connect(fd, &session);

	puts(rc ? strerror(-rc) : "yes");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; int args; int (*fn)(char **arg); } all[] = {
		{ "model", 4, do_model }, { "turns", 2, do_turns }, { "locks", 2, do_locks }, { "die", 2, do_die },
		{ "mapped", 2, do_mapped }, { "append", 2, do_append }, { "past", 1, do_past },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]) && argc > 1; i++)
		if (!strcmp(argv[1], all[i].name) && argc == all[i].args + 2)
			return all[i].fn(argv + 2);
	die("usage: rings model SECONDS SIZE SEED FILE | turns N FILE | locks N FILE | die N FILE | mapped N FILE | append N FILE | past FILE");
}
