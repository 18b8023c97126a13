/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring's memory that is a dma-buf: udmabuf makes one of a memfd's pages, as a device does of its own.
 *
 *     dmabuf FILE     writes FILE from it, reads it back into it, in pieces of many lengths, and compares. Says
 *                     "works", or "refused: " and why the mount takes none
 *
 * Exit status 77: this machine has no udmabuf.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ring_check.h"

enum { LEN = 8 << 20, FILE_LEN = 3 << 20 };

static struct nfsrdma_session *session;
static struct nfsrdma_memory *memory;
static struct nfsrdma_queue *queue;
static uint32_t file;
static int buffer;
static uint8_t *mem;                    /* the dma-buf */

static void make_dmabuf(void)
{
	struct udmabuf_create make = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = LEN };
	int udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int fd = memfd_create("dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (udmabuf < 0) {
		fprintf(stderr, "/dev/udmabuf: %s\n", strerror(errno));
		exit(77);
	}
	check_errno(fd, "memfd_create");
	check_errno(ftruncate(fd, LEN), "ftruncate");
	check_errno(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), "F_SEAL_SHRINK");
	make.memfd = (uint32_t)fd;
	buffer = check_errno(ioctl(udmabuf, UDMABUF_CREATE, &make), "UDMABUF_CREATE");
	close(fd);
	close(udmabuf);
	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
	if (mem == MAP_FAILED)
		die("mmap of the dma-buf: %s", strerror(errno));
}

/* The daemon's processor may read and write it between the two, as this one's may. */
static void sync_buffer(uint64_t when)
{
	struct dma_buf_sync s = { .flags = when | DMA_BUF_SYNC_RW };

	check_errno(ioctl(buffer, DMA_BUF_IOCTL_SYNC, &s), "DMA_BUF_IOCTL_SYNC");
}

/* One piece, at the same offset in the memory. */
static void transfer(bool write, uint64_t at, uint32_t len)
{
	struct nfsrdma_done done;

	check((write ? nfsrdma_write : nfsrdma_read)(queue, file, memory, at, len, at, at), "submit");
	check(nfsrdma_wait(queue, &done, 1, 1, -1), "wait");
	if (done.result != len)
		die("%s of %u bytes at %llu: %lld %s", write ? "write" : "read", len, (unsigned long long)at,
		    (long long)done.result, done.result < 0 ? strerror((int)-done.result) : "");
}

/* Some come inside a message, most as a chunk. */
static void transfer_all(bool write)
{
	static const uint32_t lens[] = { 1, 100, 700, 4096, 5000, 65536, 300001, 1 << 20 };
	unsigned n = write ? 0 : 3;

	for (uint32_t at = 0; at < FILE_LEN; n++) {
		uint32_t len = lens[n % (sizeof(lens) / sizeof(lens[0]))];

		len = len < FILE_LEN - at ? len : FILE_LEN - at;
		transfer(write, at, len);
		at += len;
	}
}

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 131 + i / 4096 + 7);
}

static void compare(const uint8_t *got, const char *how)
{
	for (size_t i = 0; i < FILE_LEN; i++)
		if (got[i] != byte_at(i))
			die("byte %zu %s is %02x, not %02x", i, how, got[i], byte_at(i));
}

static void write_and_read(int fd)
{
	uint8_t *by_kernel = malloc(FILE_LEN);

	sync_buffer(DMA_BUF_SYNC_START);
	for (size_t i = 0; i < LEN; i++)
		mem[i] = byte_at(i);
	transfer_all(true);
	if (pread(fd, by_kernel, FILE_LEN, 0) != FILE_LEN)
		die("pread: too few bytes");
	compare(by_kernel, "by the kernel");
	memset(mem, 0, FILE_LEN);
	transfer_all(false);
	compare(mem, "by the ring");
	for (size_t i = FILE_LEN; i < LEN; i++)
		if (mem[i] != byte_at(i))
			die("byte %zu behind the file has changed", i);
	sync_buffer(DMA_BUF_SYNC_END);
	free(by_kernel);
}

int main(int argc, char **argv)
{
	int fd, rc;

	if (argc != 2)
		die("usage: dmabuf FILE");
	make_dmabuf();
	fd = check_errno(open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0666), argv[1]);
	check(nfsrdma_connect(fd, &session), "connect");
	check(nfsrdma_queue_new(session, 16, &queue), "queue");
	check(nfsrdma_attach(queue, fd, &file), "attach");
	if (nfsrdma_memory_add(session, buffer, LEN + (size_t)getpagesize(), &memory) != -EINVAL)
		die("more is taken than the dma-buf has");
	rc = nfsrdma_memory_add(session, buffer, LEN, &memory);
	if (rc < 0) {
		printf("refused: %s\n", nfsrdma_why());
		return 0;
	}
	write_and_read(fd);
	check(nfsrdma_memory_free(memory), "free");
	puts("works");
	return 0;
}
