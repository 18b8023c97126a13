/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads a file of an nfsrdma-fuse mount by a ring, DEPTH pieces at a time, and prints its length, the sum of
 * its bytes, and how fast that was.
 *
 *     gcc -O2 -o ring-read ring-read.c $(pkg-config --cflags --libs libnfsrdma)
 *     ./ring-read FILE [DEPTH]
 */
#include <errno.h>
#include <fcntl.h>
#include <nfsrdma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define PIECE (1u << 20)

/* What fails returns -errno, and nfsrdma_why() says more. */
static int must(int result, const char *what)
{
	if (result >= 0)
		return result;
	fprintf(stderr, "ring-read: %s: %s (%s)\n", what, strerror(-result), nfsrdma_why());
	exit(1);
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1, depth = argc > 2 ? atoi(argv[2]) : 8, under_way = 0;
	unsigned entries = 2;
	uint64_t len, offset = 0, sum = 0;
	struct nfsrdma_session *session;
	struct nfsrdma_memory *memory;
	struct nfsrdma_queue *queue;
	struct nfsrdma_done done;
	struct timespec begin, end;
	struct stat st;
	uint32_t file;
	double s;

	if (fd < 0 || depth < 1 || depth > 4096 || fstat(fd, &st) < 0) {
		fprintf(stderr, "usage: ring-read FILE [DEPTH, 1 to 4096]: %s\n", strerror(errno));
		return 1;
	}
	while (entries < (unsigned)depth)
		entries *= 2;
	len = (uint64_t)st.st_size;
	must(nfsrdma_connect(fd, &session), "connect");
	must(nfsrdma_memory_new(session, (size_t)depth * PIECE, &memory), "memory");
	must(nfsrdma_queue_new(session, entries, &queue), "queue");
	must(nfsrdma_attach(queue, fd, &file), "attach");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	/* At first each piece of memory is free, and then the one that is done. */
	for (int i = 0; i < depth || under_way; i++) {
		uint64_t piece = (uint64_t)i;

		if (i >= depth) {
			const unsigned char *at = nfsrdma_memory_at(memory);

			while (must(nfsrdma_wait(queue, &done, 1, 1, -1), "wait") == 0)
				;
			must((int)done.result, "reading");
			piece = done.user_data;
			under_way--;
			for (int64_t k = 0; k < done.result; k++)
				sum += at[piece * PIECE + (uint64_t)k];
		}
		if (offset < len) {
			must(nfsrdma_read(queue, file, memory, piece * PIECE, PIECE, offset, piece), "read");
			offset += PIECE;
			under_way++;
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	s = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	printf("%llu bytes, sum %llu, %.0f MB/s\n", (unsigned long long)len, (unsigned long long)sum,
	       (double)len / 1e6 / s);
	nfsrdma_disconnect(session);
	return 0;
}
