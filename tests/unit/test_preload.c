/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The preload, in this very program: what is read and written here goes to it. fake_rings.c plays the
 * library. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_rings.h"
#include "lib/preload.h"

#define MIB ((size_t)1 << 20)
#define SIZE (9 * MIB + 4321)

/* A file system without a device, as FUSE. */
static char path[] = "/dev/shm/preload-XXXXXX";
static char *data, *got;
static int fd;

/* Past us. */
static void poke(const char *what, size_t n, off_t at)
{
	int other = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY);

	cr_assert_eq(syscall(SYS_pwrite64, other, what, n, at), (long)n);
	syscall(SYS_close, other);
}

/* The file is at rest, as far as its reader has seen. */
static void age(void)
{
	cr_assert_eq(pread(fd, got, MIB, 0), MIB);
	sleep(PRELOAD_REST_S + 1);
}

static void begin(void)
{
	preload_write_min = preload_min;
	fd = mkstemp(path);
	data = malloc(SIZE);
	got = malloc(SIZE + MIB);
	cr_assert(fd >= 0 && data && got);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (char)(i * 2654435761u >> 13);
	poke(data, SIZE, 0);
	close(fd);
	fd = open(path, O_RDWR);
}

static void end(void)
{
	close(fd);
	unlink(path);
	free(data);
	free(got);
}

TestSuite(preload, .init = begin, .fini = end);

static off_t at(void)
{
	return syscall(SYS_lseek, fd, 0, SEEK_CUR);
}

static void is_past(unsigned reads, unsigned writes)
{
	cr_expect_eq(atomic_load(&preload_counts.reads), reads, "%lu reads", preload_counts.reads);
	cr_expect_eq(atomic_load(&preload_counts.writes), writes, "%lu writes", preload_counts.writes);
}

static void reads(size_t n, off_t from)
{
	size_t there = (size_t)from > SIZE ? 0 : SIZE - (size_t)from;

	memset(got, 0x55, n);
	cr_assert_eq(read(fd, got, n), (ssize_t)(n < there ? n : there));
	cr_expect_eq(memcmp(got, data + from, n < there ? n : there), 0);
}

Test(preload, the_kernels_offset_moves)
{
	reads(MIB, 0);
	cr_expect_eq(at(), MIB);
	reads(3 * MIB + 5, MIB);
	cr_expect_eq(at(), 4 * MIB + 5);
	reads(100, 4 * MIB + 5);
	reads(300000, 4 * MIB + 105);
	cr_expect_eq(lseek(fd, -MIB, SEEK_END), SIZE - MIB);
	reads(2 * MIB, SIZE - MIB);
	reads(MIB, SIZE);
	cr_expect_eq(at(), SIZE);
	is_past(4, 0); /* the end is the kernel's */
	cr_expect_eq(write(fd, data, MIB), MIB);
	cr_expect_eq(at(), SIZE + MIB);
	is_past(4, 1);
	cr_expect_eq(syscall(SYS_pread64, fd, got, MIB, SIZE), MIB);
	cr_expect_eq(memcmp(got, data, MIB), 0);
}

Test(preload, small_and_first_ones_are_the_kernels)
{
	for (unsigned i = 0; i < 100; i++)
		reads(4096, i * 4096);
	is_past(0, 0);
	reads(65536, 409600);
	is_past(1, 0);
}

/* As long as it takes as much to attach them. */
Test(preload, short_files_are_the_kernels)
{
	cr_assert_eq(ftruncate(fd, MIB - 1), 0);
	for (unsigned i = 0; i < 3; i++)
		reads(65536, i * 65536);
	is_past(0, 0);
	reads(65536, 3 * 65536);
	is_past(1, 0);
	close(fd);
	fd = open(path, O_RDWR | O_TRUNC);
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(write(fd, data, 65536), 65536);
	is_past(1, 0);
	cr_expect_eq(write(fd, data, 65536), 65536);
	is_past(1, 1);
}

Test(preload, several_buffers_and_the_end_of_the_file)
{
	struct iovec v[4] = { { got, 700000 }, { NULL, 0 }, { got + 700000, 3 },
			      { got + 700003, 2 * MIB } };

	cr_expect_eq(preadv(fd, v, 4, 77), (ssize_t)(700003 + 2 * MIB));
	cr_expect_eq(memcmp(got, data + 77, 700003 + 2 * MIB), 0);
	cr_expect_eq(preadv(fd, v, 4, SIZE - 700001), 700001);
	cr_expect_eq(memcmp(got, data + SIZE - 700001, 700001), 0);
	cr_expect_eq(preadv2(fd, v, 4, -1, 0), (ssize_t)(700003 + 2 * MIB));
	cr_expect_eq(at(), 700003 + 2 * MIB);
	is_past(3, 0);
	cr_expect_eq(preadv(fd, v, 4, -1), -1);
	cr_expect_eq(errno, EINVAL);
	cr_expect_eq(pwritev(fd, v, 4, 5), (ssize_t)(700003 + 2 * MIB));
	is_past(3, 1);
	cr_expect_eq(syscall(SYS_pread64, fd, got + 4 * MIB, 2 * MIB, 5), 2 * MIB);
	cr_expect_eq(memcmp(got, got + 4 * MIB, 2 * MIB), 0);
}

Test(preload, left_to_the_kernel)
{
	int other = open(path, O_RDWR | O_APPEND);

	cr_expect_eq(write(other, data, MIB), MIB);
	close(other);
	other = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR); /* inherited, or a stream's */
	cr_expect_eq(pread(other, got, MIB, 0), MIB);
	cr_expect_eq(fcntl(fd, F_SETFL, O_APPEND), 0);
	cr_expect_eq(pwrite(fd, data, MIB, 0), MIB);
	is_past(0, 0);
	cr_expect_eq(preload_counts.left, 0); /* as far as anybody knows */
}

Test(preload, left_when_the_flags_change_later)
{
	reads(MIB, 0);
	cr_expect_eq(fcntl(fd, F_SETFL, O_APPEND), 0);
	cr_expect_eq(write(fd, data, MIB), MIB);
	is_past(1, 0);
	cr_expect_eq(at(), SIZE + MIB);
	cr_expect_eq(preload_counts.left, 1);
}

Test(preload, not_open_for_that)
{
	int other = open(path, O_RDONLY);

	cr_expect_eq(pread(other, got, MIB, 0), MIB);
	cr_expect_eq(pwrite(other, data, MIB, 0), -1);
	cr_expect_eq(errno, EBADF);
	is_past(1, 0);
	close(other);
	cr_expect_eq(pread(other, got, MIB, 0), -1);
	cr_expect_eq(errno, EBADF);
}

Test(preload, other_mounts)
{
	fake_rings.connect_error = -ENOTTY;
	reads(MIB, 0);
	fake_rings.connect_error = 0; /* it is not asked again */
	close(fd);
	fd = open(path, O_RDWR);
	reads(MIB, 0);
	is_past(0, 0);
	cr_expect_eq(preload_counts.left, 0);
}

/* The mount is one of ours, but its socket cannot be reached. */
Test(preload, a_mount_that_cannot_be_asked)
{
	fake_rings.connect_error = -ECONNREFUSED;
	reads(MIB, 0);
	reads(MIB, MIB);
	is_past(0, 0);
	cr_expect_eq(preload_counts.left, 1, "%lu left", preload_counts.left);
	fake_rings.connect_error = 0;
	close(fd);
	fd = open(path, O_RDWR);
	reads(MIB, 0);
	is_past(1, 0);
	cr_expect_eq(preload_counts.left, 1);
}

Test(preload, files_of_a_mount_that_has_gone)
{
	fake_rings.attach_error = -ENOTCONN;
	for (unsigned i = 1; i < 3; i++) {
		reads(MIB, 0);
		cr_expect_eq(preload_counts.left, i, "%lu left, not %u", preload_counts.left, i);
		close(fd);
		fd = open(path, O_RDWR);
	}
	is_past(0, 0);
}

Test(preload, files_without_rings)
{
	fake_rings.attach_error = -EOPNOTSUPP;
	reads(MIB, 0);
	fake_rings.attach_error = 0;
	reads(MIB, MIB);
	is_past(0, 0);
	close(fd);
	fd = open(path, O_RDWR);
	fake_rings.attach_error = -EDQUOT; /* for now */
	reads(MIB, 0);
	fake_rings.attach_error = 0;
	reads(MIB, MIB);
	is_past(1, 0);
}

Test(preload, what_the_page_cache_has)
{
	fake_rings.cached = true;
	reads(MIB, 0);
	is_past(0, 0);
	fake_rings.cached = false;
	reads(MIB, MIB);
	is_past(1, 0);
}

Test(preload, two_numbers)
{
	int copy = dup(fd);

	reads(MIB, 0);
	is_past(0, 0);
	cr_expect_eq(pread(copy, got, MIB, 0), MIB);
	is_past(1, 0);
	close(fd);
	fd = copy;
	reads(MIB, MIB);
	is_past(2, 0);
	/* As dd does it. */
	cr_expect_eq(dup2(fd, 200), 200);
	close(fd);
	fd = 200;
	reads(MIB, 2 * MIB);
	is_past(3, 0);
	cr_expect_eq(dup2(fd, fd), fd);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	reads(MIB, 3 * MIB);
	is_past(3, 0);
	close_range((unsigned)copy, (unsigned)copy, 0);
	reads(MIB, 4 * MIB);
	is_past(4, 0);
}

/* What does not come by here. */
Test(preload, a_number_that_is_another_file)
{
	char other[sizeof(path) + 6];
	int made;

	reads(MIB, 0);
	snprintf(other, sizeof(other), "%s.other", path);
	syscall(SYS_close, fd);
	made = (int)syscall(SYS_openat, AT_FDCWD, other, O_RDWR | O_CREAT | O_EXCL, 0600);
	cr_assert_eq(made, fd);
	unlink(other);
	cr_expect_eq(write(fd, data + 7, MIB), MIB);
	cr_expect_eq(pread(fd, got, MIB, 0), MIB);
	cr_expect_eq(memcmp(got, data + 7, MIB), 0);
	cr_expect_eq(lseek(fd, 0, SEEK_END), MIB);
	is_past(1, 0);
}

Test(preload, a_number_that_is_the_same_file)
{
	reads(MIB, 0);
	syscall(SYS_close, fd);
	cr_assert_eq(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY), fd);
	cr_expect_eq(write(fd, data + 7, MIB), -1);
	cr_expect_eq(errno, EBADF);
	is_past(1, 0);
}

Test(preload, mapped)
{
	char *m = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0);
	int other = open(path, O_RDONLY);

	cr_assert_neq(m, MAP_FAILED);
	reads(MIB, 0);
	cr_expect_eq(pread(other, got, MIB, 0), MIB);
	is_past(0, 0);
	cr_expect_eq(preload_counts.left, 2);
}

Test(preload, mapped_later)
{
	reads(MIB, 0);
	cr_assert_neq(mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
	reads(MIB, MIB);
	is_past(1, 0);
}

/* ---- read ahead ---- */

Test(preload, ahead)
{
	age();
	for (size_t i = 0; i * 131072 < SIZE; i++)
		reads(131072, (off_t)(i * 131072));
	reads(131072, SIZE);
	cr_expect_lt(fake_rings.reads, 40, "%u", fake_rings.reads);
	cr_expect_eq(at(), SIZE);
}

Test(preload, not_ahead_of_a_file_that_changes)
{
	for (size_t i = 0; i < 20; i++)
		reads(131072, (off_t)(i * 131072));
	cr_expect_eq(fake_rings.reads, 20);
}

/* Its times look as if it had been at rest for long; both changes are of one second, and look the same. */
Test(preload, ahead_is_not_what_was_when_the_servers_clock_is_behind)
{
	time_t now = time(NULL);

	fake_rings.behind_s = 10;
	while (time(NULL) == now)
		;
	poke(data, 1, 0);
	reads(MIB, 0);
	reads(MIB, MIB);
	poke("poked", 5, 2 * MIB);
	memcpy(data + 2 * MIB, "poked", 5);
	reads(MIB, 2 * MIB);
}

Test(preload, ahead_when_the_servers_clock_is_behind)
{
	fake_rings.behind_s = 10;
	age();
	fake_rings.reads = 0;
	for (size_t i = 0; i < 20; i++)
		reads(131072, (off_t)(i * 131072));
	cr_expect_lt(fake_rings.reads, 20, "%u", fake_rings.reads);
}

Test(preload, ahead_begins_anew_after_a_change)
{
	age();
	poke("poked", 5, 8 * MIB);
	memcpy(data + 8 * MIB, "poked", 5);
	fake_rings.reads = 0;
	for (size_t i = 0; i < 20; i++)
		reads(131072, (off_t)(i * 131072));
	cr_expect_eq(fake_rings.reads, 20, "%u", fake_rings.reads);
}

Test(preload, ahead_is_not_what_was)
{
	age();
	reads(MIB, 0);
	reads(MIB, MIB);
	poke("poked", 5, 2 * MIB); /* it lies here by now */
	memcpy(data + 2 * MIB, "poked", 5);
	reads(MIB, 2 * MIB);
}

Test(preload, ahead_is_not_what_was_for_the_server)
{
	age();
	fake_rings.old_known = true;
	reads(MIB, 0);
	reads(MIB, MIB);
	poke("poked", 5, 2 * MIB);
	memcpy(data + 2 * MIB, "poked", 5);
	reads(MIB, 2 * MIB);
}

Test(preload, own_writes)
{
	age();
	reads(MIB, 0);
	reads(MIB, MIB);
	cr_expect_eq(pwrite(fd, "small", 5, 2 * MIB), 5);
	memcpy(data + 2 * MIB, "small", 5);
	reads(MIB, 2 * MIB);
	memset(data + 3 * MIB, 'L', MIB);
	cr_expect_eq(pwrite(fd, data + 3 * MIB, MIB, 3 * MIB), MIB);
	reads(MIB, 3 * MIB);
	cr_expect_eq(ftruncate(fd, 5 * MIB), 0);
	cr_expect_eq(read(fd, got, 2 * MIB), MIB);
}

Test(preload, own_writes_that_the_times_do_not_show)
{
	fake_rings.old_times = true;
	reads(MIB, 0);
	reads(MIB, MIB);
	cr_expect_eq(pwrite(fd, "small", 5, 2 * MIB), 5);
	memcpy(data + 2 * MIB, "small", 5);
	reads(MIB, 2 * MIB);
	memset(data + 3 * MIB, 'L', MIB);
	cr_expect_eq(pwrite(fd, data + 3 * MIB, MIB, 3 * MIB), MIB);
	reads(MIB, 3 * MIB);
}

Test(preload, another_length_that_the_times_do_not_show)
{
	fake_rings.old_times = true;
	reads(MIB, 0);
	reads(MIB, MIB);
	cr_expect_eq(syscall(SYS_ftruncate, fd, 2 * MIB + 10), 0);
	cr_expect_eq(read(fd, got, MIB), 10);
}

Test(preload, elsewhere_with_something_ahead)
{
	age();
	reads(MIB, 0);
	reads(MIB, MIB);
	lseek(fd, 7 * MIB + 1, SEEK_SET);
	reads(MIB, 7 * MIB + 1);
	cr_expect_eq(pread(fd, got, 2 * MIB, 3), 2 * MIB);
	cr_expect_eq(memcmp(got, data + 3, 2 * MIB), 0);
	reads(2 * MIB, 8 * MIB + 1);
}

/* ---- what fails ---- */

Test(preload, the_daemon_ends_in_a_read)
{
	fake_rings.gone_after = 3;
	reads(6 * MIB, 0);
	cr_expect_eq(at(), 6 * MIB);
	reads(MIB, 6 * MIB);
	cr_expect_leq(fake_rings.reads, 3);
}

Test(preload, the_daemon_ends_in_a_write)
{
	struct iovec v[3] = { { data + 1, MIB - 7 }, { data + MIB - 6, 3 * MIB },
			      { data + 4 * MIB - 6, MIB } };

	fake_rings.gone_after = 4;
	cr_expect_eq(writev(fd, v, 3), 5 * MIB - 7);
	cr_expect_eq(at(), 5 * MIB - 7);
	cr_expect_eq(syscall(SYS_pread64, fd, got, 5 * MIB - 7, 0), 5 * MIB - 7);
	cr_expect_eq(memcmp(got, data + 1, 5 * MIB - 7), 0);
}

/* Unless they are very long, or the program waits for the disk anyway. */
Test(preload, writes_that_the_mount_may_hold_are_the_kernels)
{
	preload_write_min = 4 * MIB;
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(pwrite(fd, data, 3 * MIB, 0), 3 * MIB);
	is_past(0, 0);
	cr_expect_eq(pwrite(fd, data, 4 * MIB, 0), 4 * MIB);
	is_past(0, 1);
	cr_expect_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT), 0);
	cr_expect_eq(pwrite(fd, data, MIB, 0), MIB);
	is_past(0, 2);
	close(fd);
	fd = open(path, O_RDWR | O_DSYNC);
	cr_expect_eq(pwrite(fd, data, MIB, 0), MIB);
	is_past(0, 3);
}

Test(preload, errors_of_a_write)
{
	fake_rings.write_error = -ENOSPC;
	cr_expect_eq(write(fd, data, MIB), -1);
	cr_expect_eq(errno, ENOSPC);
	cr_expect_eq(at(), 0);
	fake_rings.write_error_at = 2 * MIB;
	cr_expect_eq(write(fd, data, 5 * MIB), 2 * MIB);
	cr_expect_eq(at(), 2 * MIB);
	fake_rings.write_error = -EFAULT; /* the kernel knows better */
	cr_expect_eq(write(fd, data + 2 * MIB, 5 * MIB), 5 * MIB);
	lseek(fd, 0, SEEK_SET);
	reads(7 * MIB, 0);
}

Test(preload, longer_than_a_file_may_be)
{
	struct rlimit limit = { .rlim_cur = 2 * MIB, .rlim_max = RLIM_INFINITY };

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	cr_expect_eq(pwrite(fd, data, 2 * MIB, MIB), MIB);
	cr_expect_eq(pwrite(fd, data, MIB, 2 * MIB), -1);
	cr_expect_eq(errno, EFBIG);
	is_past(0, 0);
}

/* ---- processes and threads ---- */

static int child_of_fork(void)
{
	int other;

	if (read(fd, got, MIB) != MIB || memcmp(got, data + MIB, MIB) || preload_counts.reads)
		return 1;
	other = open(path, O_RDONLY);
	if (pread(other, got, MIB, 5) != MIB || memcmp(got, data + 5, MIB) || preload_counts.reads != 1)
		return 2;
	return 0;
}

Test(preload, a_fork)
{
	int status;
	pid_t pid;

	reads(MIB, 0);
	pid = fork();
	if (!pid)
		_exit(child_of_fork());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	reads(MIB, 2 * MIB);
	is_past(1, 0);
	cr_expect_eq(pread(fd, got, MIB, 0), MIB);
	is_past(2, 0);
}

/* It gets those that exec() does not close. */
Test(preload, a_spawned_program)
{
	char *argv[] = { (char []){ "true" }, NULL };
	int other = open(path, O_RDONLY | O_CLOEXEC), status;
	pid_t pid;

	cr_assert_eq(posix_spawnp(&pid, "true", NULL, NULL, argv, environ), 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	reads(MIB, 0);
	is_past(0, 0);
	cr_expect_eq(read(other, got, MIB), MIB);
	is_past(1, 0);
}

#define READERS 4

static void *reader(void *sum)
{
	char *buf = malloc(200001);
	ssize_t n;

	while ((n = read(fd, buf, 200001)) > 0)
		for (ssize_t i = 0; i < n; i++)
			*(uint64_t *)sum += (unsigned char)buf[i];
	free(buf);
	return NULL;
}

/* Each byte is one thread's. */
Test(preload, threads_share_an_offset)
{
	uint64_t sums[READERS] = { 0 }, sum = 0;
	pthread_t t[READERS];

	for (size_t i = 0; i < SIZE; i++)
		sum += (unsigned char)data[i];
	for (unsigned i = 0; i < READERS; i++)
		pthread_create(&t[i], NULL, reader, &sums[i]);
	for (unsigned i = 0; i < READERS; i++) {
		pthread_join(t[i], NULL);
		sum -= sums[i];
	}
	cr_expect_eq(sum, 0);
	cr_expect_gt(preload_counts.reads, 20);
}

/* Each has numbers of its own, which are the others' a moment later. */
static void *opener(void *bad)
{
	unsigned seed = (unsigned)(uintptr_t)bad;
	char *buf = malloc(300000);

	for (unsigned i = 0; i < 60; i++) {
		int one = open(path, O_RDONLY), two = rand_r(&seed) % 2 ? dup(one) : -1;
		off_t from = (off_t)((size_t)rand_r(&seed) % (SIZE - 300001));

		*(unsigned *)bad += pread(one, buf, 300000, from) != 300000;
		*(unsigned *)bad += memcmp(buf, data + from, 300000) != 0;
		if (two >= 0)
			close(one);
		else
			two = one;
		*(unsigned *)bad += lseek(two, from + 1, SEEK_SET) != from + 1;
		*(unsigned *)bad += read(two, buf, 262144) != 262144;
		*(unsigned *)bad += memcmp(buf, data + from + 1, 262144) != 0;
		*(unsigned *)bad += lseek(two, 0, SEEK_CUR) != from + 1 + 262144;
		close(two);
	}
	free(buf);
	return NULL;
}

Test(preload, threads_open_and_close)
{
	unsigned bad[READERS] = { 0 };
	pthread_t t[READERS];

	for (unsigned i = 0; i < READERS; i++)
		pthread_create(&t[i], NULL, opener, &bad[i]);
	for (unsigned i = 0; i < READERS; i++) {
		pthread_join(t[i], NULL);
		cr_expect_eq(bad[i], 0);
	}
	cr_expect_eq(preload_counts.reads, READERS * 120, "%lu", preload_counts.reads);
}

static void *one_read(void *unused)
{
	cr_expect_eq(pread(fd, got, MIB, 0), MIB);
	return NULL;
}

/* One after the other has the same lane. */
Test(preload, threads_that_end)
{
	pthread_t t;

	for (unsigned i = 0; i < 100; i++) {
		cr_assert_eq(pthread_create(&t, NULL, one_read, NULL), 0);
		pthread_join(t, NULL);
	}
	is_past(100, 0);
	cr_expect_eq(fake_rings.queues, 1);
}

/* ---- who else acts while a call is under way ---- */

static const char line[100] = "what a child writes, or a handler of a signal";
static int second;

static void child_writes(void)
{
	cr_assert_eq(syscall(SYS_write, fd, line, sizeof(line)), (long)sizeof(line));
}

/* It has the same offset, and writes behind what is being written. */
Test(preload, a_child_writes_meanwhile)
{
	fake_rings.meanwhile = child_writes;
	cr_assert_eq(write(fd, data + 7, MIB), MIB);
	cr_expect_eq(at(), MIB + (off_t)sizeof(line));
	cr_expect_eq(pread(fd, got, MIB + sizeof(line), 0), (ssize_t)(MIB + sizeof(line)));
	cr_expect_eq(memcmp(got, data + 7, MIB), 0);
	cr_expect_eq(memcmp(got + MIB, line, sizeof(line)), 0);
	is_past(1, 1);
}

/* It has moved the offset since that was asked for. */
Test(preload, a_handler_writes_while_the_file_is_attached)
{
	fake_rings.attaching = child_writes;
	cr_assert_eq(write(fd, data + 7, MIB), MIB);
	cr_expect_eq(at(), MIB + (off_t)sizeof(line));
	cr_expect_eq(pread(fd, got, MIB + sizeof(line), 0), (ssize_t)(MIB + sizeof(line)));
	cr_expect_eq(memcmp(got, line, sizeof(line)), 0);
	cr_expect_eq(memcmp(got + sizeof(line), data + 7, MIB), 0);
}

static int open_other(char with)
{
	char other[sizeof(path) + 6];
	int made;

	snprintf(other, sizeof(other), "%s.other", path);
	made = open(other, O_RDWR | O_CREAT | O_EXCL, 0600);
	unlink(other);
	memset(got, with, MIB);
	cr_assert_eq(syscall(SYS_pwrite64, made, got, MIB, 0), (long)MIB);
	return made;
}

/* The daemon gives a closed file's number to the next one. A file that stays is not mixed up with those that
 * come and go. */
Test(preload, numbers_that_are_used_again)
{
	int stays;

	cr_assert_eq(pread(fd, got, MIB, 0), MIB);
	close(fd);
	fake_rings_closed(0);
	stays = open_other('s');
	cr_assert_eq(pread(stays, got, MIB, 0), MIB);
	for (unsigned i = 0; i < 2 * PRELOAD_ATTACHED; i++) {
		int other = open_other('o');

		cr_assert_eq(pread(other, got, MIB, 0), MIB);
		cr_assert(got[0] == 'o' && got[MIB - 1] == 'o');
		cr_assert_eq(pread(stays, got, MIB, 0), MIB);
		cr_assert(got[0] == 's' && got[MIB - 1] == 's', "another file's bytes, after %u", i);
		close(other);
		fake_rings_closed(1);
	}
	close(stays);
	fd = open(path, O_RDWR);
}

/* It ends nothing for others. */
Test(preload, offsets_that_no_file_has)
{
	cr_expect_eq(pwrite(fd, data, MIB, INT64_MAX - 1000), -1);
	cr_expect_eq(pread(fd, got, MIB, 0), MIB);
	is_past(1, 0);
}

static void file_is_cut(void)
{
	cr_assert_eq(syscall(SYS_truncate, path, (off_t)(MIB / 2)), 0);
}

Test(preload, a_read_that_is_shorter_than_the_file_was)
{
	ssize_t n;

	file_is_cut();
	cr_assert_eq(syscall(SYS_truncate, path, (off_t)(2 * MIB)), 0);
	fake_rings.gone_after = 2;      /* pieces; then the kernel reads, what there is by then */
	fake_rings.meanwhile = file_is_cut;
	n = read(fd, got, MIB);
	cr_expect_eq(n, MIB / 2);
	cr_expect_eq(at(), n);
}

static void log_is_rotated(void)
{
	cr_assert_eq(dup2(second, fd), fd);
}

/* What is left of a write goes to nobody else's file, and that file's offset stays. */
static void writes_while_the_number_changes(int flags, void (*meanwhile)(void))
{
	char other[sizeof(path) + 6];
	struct stat st;

	snprintf(other, sizeof(other), "%s.other", path);
	second = open(other, O_RDWR | O_CREAT | O_EXCL | flags, 0600);
	cr_assert(second >= 0 && !unlink(other));
	fake_rings.meanwhile = meanwhile;
	fake_rings.write_error = -EBADF;
	fake_rings.write_error_at = 2 * MIB;
	cr_expect_eq(write(fd, data, 4 * MIB), 2 * MIB);
	cr_assert_eq(fstat(second, &st), 0);
	cr_expect_eq(st.st_size, 0);
	cr_expect_eq(at(), 0);
	close(second);
}

Test(preload, a_number_that_becomes_another_file_meanwhile)
{
	writes_while_the_number_changes(0, log_is_rotated);
}

static void *leaves_the_file(void *arg)
{
	cr_assert_eq(fcntl(fd, F_SETFL, O_APPEND), 0);
	cr_assert_eq(pread(fd, got, MIB, 0), MIB);
	return arg;
}

static void file_is_left_and_log_is_rotated(void)
{
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, leaves_the_file, NULL), 0);
	pthread_join(t, NULL);
	cr_assert_eq(preload_counts.left, 1);
	log_is_rotated();
}

/* The old one and the new one are the kernel's, each by itself. */
Test(preload, a_number_that_is_left_and_becomes_another_file)
{
	writes_while_the_number_changes(O_APPEND, file_is_left_and_log_is_rotated);
}

/* What is left of a write goes to its own file as long as the number is that. */
static void file_is_left(void)
{
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, leaves_the_file, NULL), 0);
	pthread_join(t, NULL);
	cr_assert_eq(fcntl(fd, F_SETFL, 0), 0);
}

Test(preload, a_file_that_is_left_meanwhile)
{
	fake_rings.meanwhile = file_is_left;
	fake_rings.write_error = -EINVAL;
	fake_rings.write_error_at = 2 * MIB;
	cr_expect_eq(write(fd, data + 7, 4 * MIB), 4 * MIB);
	cr_expect_eq(at(), 4 * MIB);
	cr_expect_eq(pread(fd, got, 4 * MIB, 0), 4 * MIB);
	cr_expect_eq(memcmp(got, data + 7, 4 * MIB), 0);
	is_past(0, 1);
}

/* The C library closes it by itself. */
Test(preload, a_stream_that_is_closed)
{
	FILE *f;

	reads(MIB, 0);
	f = fdopen(fd, "r");
	cr_assert_not_null(f);
	cr_assert_eq(fclose(f), 0);
	cr_expect_not(preload_fd_known(fd));
	fd = open(path, O_RDWR);
}


static void *read_fifo(void *arg)
{
	ssize_t n = read(fd, got, MIB);

	(void)n;
	return arg;
}

/* A thread that waits in the kernel can be cancelled. */
Test(preload, cancelled_in_the_kernel, .timeout = 20)
{
	char other[sizeof(path) + 6];
	void *result;
	pthread_t t;

#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("AddressSanitizer loses track of the stack of a thread that is cancelled");
#endif
	snprintf(other, sizeof(other), "%s.fifo", path);
	cr_assert_eq(mkfifo(other, 0600), 0);
	close(fd);
	fd = open(other, O_RDWR);
	unlink(other);
	cr_assert_eq(pthread_create(&t, NULL, read_fifo, NULL), 0);
	usleep(100000);
	cr_assert_eq(pthread_cancel(t), 0);
	cr_assert_eq(pthread_join(t, &result), 0);
	cr_expect_eq(result, PTHREAD_CANCELED);
}

static void on_alarm(int signal)
{
	int error = errno, copy = dup(fd);

	(void)signal;
	close(copy);
	errno = error;
}

/* close() and dup() may be called by a handler, wherever it comes. */
Test(preload, handlers_of_signals, .timeout = 60)
{
	const struct itimerval soon = { { 0, 50 }, { 0, 50 } }, never = { 0 };
	time_t until = time(NULL) + 2;

	reads(MIB, 0);
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &soon, NULL);
	while (time(NULL) < until)
		for (unsigned i = 0; i < 1000; i++)
			close(dup(fd));
	setitimer(ITIMER_REAL, &never, NULL);
	cr_expect_eq(pread(fd, got, MIB, 0), MIB);
	cr_expect_eq(memcmp(got, data, MIB), 0);
}

Test(preload, ranges_that_are_none)
{
	cr_expect_eq(close_range((unsigned)fd + 2, (unsigned)fd, 0), -1);
	cr_expect_eq(errno, EINVAL);
	cr_expect_eq(close_range((unsigned)fd, (unsigned)fd, 1 << 20), -1);
	reads(MIB, 0);
	is_past(1, 0);
}

/* What the library has open stays. */
Test(preload, all_are_closed)
{
	int kept = preload_fd_keep(open("/dev/null", O_RDONLY));

	cr_expect_gt(kept, 500);
	reads(MIB, 0);
	cr_expect_eq(close(kept), -1);
	cr_expect_eq(errno, EBADF);
	cr_expect_eq(dup2(0, kept), -1);
	closefrom(kept - 10);
	cr_expect_neq(syscall(SYS_fcntl, kept, F_GETFD), -1);
	reads(MIB, MIB);
}
