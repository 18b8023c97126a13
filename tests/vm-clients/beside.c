/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A mapping beside an open that only writes, as in LMDB: what write() has returned for is in the
 * mapping, though somebody touches its page all the time, and brings it back if it is dropped.
 *
 *     beside FILE ROUNDS
 *
 * Prints how often the mapping had something else, and the exit status is 1 then.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH 4096

static const _Atomic uint32_t *word;    /* in the mapping */
static atomic_bool stop;

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static void *touch(void *arg)
{
	while (!atomic_load(&stop))
		(void)atomic_load(word);
	return arg;
}

/* How many of the rounds are not in the mapping. */
static unsigned write_rounds(int fd, unsigned rounds)
{
	unsigned old = 0;

	for (uint32_t i = 1; i <= rounds; i++) {
		if (pwrite(fd, &i, sizeof(i), 0) != sizeof(i))
			die("pwrite");
		old += atomic_load(word) != i;
	}
	return old;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 0) : 0, old;
	pthread_t thread;
	int fd, writer;
	void *at;

	if (!rounds) {
		fprintf(stderr, "usage: beside FILE ROUNDS\n");
		return 2;
	}
	fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (fd < 0 || ftruncate(fd, LENGTH))
		die(argv[1]);
	at = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("mmap");
	word = at;
	/* Each WRITE takes a round trip, or the disk: time for the other thread. */
	writer = open(argv[1], O_WRONLY | O_DSYNC);
	if (writer < 0)
		die(argv[1]);
	if (pthread_create(&thread, NULL, touch, NULL))
		die("pthread_create");
	old = write_rounds(writer, rounds);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	printf("%u of %u rounds are not in the mapping\n", old, rounds);
	return old > 0;
}
