/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether the kernel has a file's data already: then it is faster than any server. */
#undef _FILE_OFFSET_BITS
#include "lib/preload.h"
#include "lib/preload_real.h"

#include <errno.h>

/* linux/mman.h of 6.5 has these. */
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

struct cache_range {
	uint64_t offset, len;
};

struct cache_stat {
	uint64_t cached, dirty, writeback, evicted, recently;
};

/* How much of a request is looked at, and every how many of them if that takes mmap(). */
#define LOOK      (128u << 10)
#define LOOK_EACH 16u

/* mincore() says that all is in the cache of who may not write the file: then it is not
 * believed, and cachestat() fails with EPERM for the same. */
static bool by_mincore(int fd, const struct preload_file *f, uint64_t offset, size_t len, size_t page)
{
	unsigned char in[LOOK / 4096 + 2];
	uint64_t start = offset / page * page;
	size_t all = (offset - start + len + page - 1) / page, n = 0;
	void *at;

	if (f->access == O_RDONLY && geteuid() != 0)
		return false;
	if (all > sizeof(in))
		return false;
	at = PRELOAD_REAL(mmap, NULL, all * page, PROT_READ, MAP_SHARED, fd, (off_t)start);
	if (at == MAP_FAILED)
		return false;
	if (mincore(at, all * page, in) == 0)
		for (size_t i = 0; i < all; i++)
			n += in[i] & 1;
	munmap(at, all * page);
	return n == all;
}

/* FUSE has no RWF_NOWAIT. */
bool preload_cached(int fd, struct preload_file *f, uint64_t offset, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct cache_range range = { offset, len < LOOK ? len : LOOK };
	struct cache_stat got = { 0 };
	int error = errno;

	if (f->access == O_WRONLY)
		return false;
	if (syscall(SYS_cachestat, fd, &range, &got, 0) == 0)
		return got.cached * page >= range.len;
	if (errno == ENOSYS && atomic_fetch_add(&f->looks, 1) % LOOK_EACH == 0)
		atomic_store(&f->was_cached, by_mincore(fd, f, offset, range.len, page));
	errno = error;
	return atomic_load(&f->was_cached);
}
