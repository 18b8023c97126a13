/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asynchronous direct writes beside buffered readers: what they brought into the
 * page cache while a write was under way does not stay there.
 *
 *     stale FILE ROUNDS
 *
 * Each round overwrites all blocks by O_DIRECT, many at once, and then reads them
 * through the page cache, while two threads do nothing but that. A block may be old
 * for a moment, as long as another thread is at throwing the pages away; it counts
 * if it still is when it has been read for two seconds. The first round
 * with such blocks is the last. Exit status 0 if there is none.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK   4096u
#define BLOCKS  64u
#define READERS 2u

static const char *path;
static _Atomic bool stop;

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static void *read_all(void *arg)
{
	unsigned at = (unsigned)(uintptr_t)arg;
	int fd = open(path, O_RDONLY);
	char buf[BLOCK];

	if (fd < 0)
		die(path);
	/* One block at a time, so that there is always one that is not cached. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (; !atomic_load(&stop); at = (at + 7) % BLOCKS)
		if (pread(fd, buf, BLOCK, at * BLOCK) != BLOCK)
			die("pread");
	close(fd);
	return NULL;
}

/* All blocks, at once: every word of them is `round`. */
static void overwrite(aio_context_t ctx, int fd, uint32_t *mem, uint32_t round)
{
	struct iocb cb[BLOCKS], *cbs[BLOCKS];
	struct io_event ev[BLOCKS];
	long n = 0, got;

	for (unsigned i = 0; i < BLOCKS * BLOCK / 4; i++)
		mem[i] = round;
	for (unsigned i = 0; i < BLOCKS; i++) {
		cb[i] = (struct iocb){
			.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = (uint32_t)fd,
			.aio_buf = (uintptr_t)mem + i * BLOCK, .aio_nbytes = BLOCK,
			.aio_offset = i * BLOCK,
		};
		cbs[i] = &cb[i];
	}
	if (syscall(SYS_io_submit, ctx, (long)BLOCKS, cbs) != BLOCKS)
		die("io_submit");
	for (; n < BLOCKS; n += got) {
		got = syscall(SYS_io_getevents, ctx, 1L, BLOCKS - n, ev, NULL);
		if (got < 0)
			die("io_getevents");
		for (long i = 0; i < got; i++)
			if (ev[i].res != BLOCK) {
				errno = ev[i].res < 0 ? (int)-ev[i].res : EIO;
				die("a write");
			}
	}
}

static bool is_old(int fd, unsigned block, uint32_t round)
{
	uint32_t buf[BLOCK / 4];

	if (pread(fd, buf, BLOCK, block * BLOCK) != BLOCK)
		die("pread");
	return buf[0] != round || buf[BLOCK / 4 - 1] != round;
}

static bool stays_old(int fd, unsigned block, uint32_t round)
{
	for (unsigned i = 0; is_old(fd, block, round); i++) {
		if (i == 200)
			return true;
		usleep(10000);
	}
	return false;
}

static unsigned old_blocks(int fd, uint32_t round)
{
	unsigned old = 0;

	for (unsigned i = 0; i < BLOCKS; i++)
		old += stays_old(fd, i, round);
	return old;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc == 3 ? (unsigned)atoi(argv[2]) : 0, old = 0;
	pthread_t reader[READERS];
	aio_context_t ctx = 0;
	uint32_t *mem;
	int direct, buffered;

	if (!rounds) {
		fprintf(stderr, "usage: stale FILE ROUNDS\n");
		return 2;
	}
	path = argv[1];
	direct = open(path, O_RDWR | O_CREAT | O_DIRECT, 0644);
	buffered = open(path, O_RDONLY);
	if (direct < 0 || buffered < 0 || ftruncate(direct, BLOCKS * BLOCK))
		die(path);
	if (syscall(SYS_io_setup, BLOCKS, &ctx) || posix_memalign((void **)&mem, BLOCK, BLOCKS * BLOCK))
		die("io_setup");
	for (unsigned i = 0; i < READERS; i++)
		if (pthread_create(&reader[i], NULL, read_all, (void *)(uintptr_t)(i * 31)))
			die("pthread_create");
	for (uint32_t round = 1; round <= rounds && !old; round++) {
		overwrite(ctx, direct, mem, round);
		old = old_blocks(buffered, round);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(reader[i], NULL);
	syscall(SYS_io_destroy, ctx);
	free(mem);
	close(direct);
	close(buffered);
	printf("%u of %u blocks stayed old\n", old, BLOCKS);
	return old != 0;
}
