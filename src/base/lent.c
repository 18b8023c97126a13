/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See lent.h. */
#include "base/lent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/arena_impl.h"

/* Of a device's memory: no seals are needed, because it never gets shorter. */
static bool lent_is_dmabuf(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == DMA_BUF_MAGIC;
}

int lent_init(struct lent *l, const struct lent_ops *ops, void *ctx)
{
	l->ops = ops;
	l->ctx = ctx;
	for (unsigned i = 0; i < LENT_PIECES; i++)
		l->dmabuf[i] = -1;
	/* A limit of the process (RLIMIT_AS), or valgrind, may not let it have all of them. */
	for (l->units = LENT_UNITS; l->units; l->units /= 2) {
		l->base = arena_reserve((size_t)l->units << LENT_UNIT_BITS);
		if (l->base)
			return lent_guard(l);
	}
	return -errno;
}

void lent_fini(struct lent *l)
{
	lent_unguard(l);
	if (l->base)
		munmap(l->base, (size_t)l->units << LENT_UNIT_BITS);
	l->base = NULL;
}

/* ---- what is mapped ---- */

/* Files of a hugetlbfs can be sealed, too, but a page that has been punched out of one may not come
 * back: SIGBUS. One of tmpfs comes back, all zero. */
int lent_check(int fd, size_t len, struct errbuf *eb)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return err_set(eb, -EINVAL, "it is no memfd of ordinary pages");
	if (!(seals & F_SEAL_SHRINK))
		return err_set(eb, -EPERM, "the memfd is not sealed against shrinking (F_SEAL_SHRINK)");
	if (fstat(fd, &st) < 0)
		return err_set(eb, -errno, "fstat: %s", strerror(errno));
	if (len % (size_t)getpagesize())
		return err_set(eb, -EINVAL, "%zu bytes are not whole pages", len);
	if (len == 0 || st.st_size < 0 || (uint64_t)st.st_size < len)
		return err_set(eb, -EINVAL, "the memfd has %lld bytes, not %zu", (long long)st.st_size, len);
	return 0;
}

static int lent_check_dmabuf(int fd, size_t len, struct errbuf *eb)
{
	off_t has = lseek(fd, 0, SEEK_END);

	if (has < 0)
		return err_set(eb, -errno, "the size of the dma-buf: %s", strerror(errno));
	if (len % (size_t)getpagesize())
		return err_set(eb, -EINVAL, "%zu bytes are not whole pages", len);
	if (len == 0 || (uint64_t)has < len)
		return err_set(eb, -EINVAL, "the dma-buf has %lld bytes, not %zu", (long long)has, len);
	return 0;
}

/* Of a dma-buf, too: small data is copied by the processor. */
static int lent_map(void *at, int fd, size_t len, bool dmabuf, struct errbuf *eb)
{
	if (mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return err_set(eb, -errno, dmabuf ? "the processor cannot read and write this dma-buf (mmap: %s); its "
			       "device may have other memory for that, or use a memfd" : "it cannot be mapped: %s",
			       strerror(errno));
	/* As with the arena's. */
	if (madvise(at, len, MADV_DONTFORK) < 0 || madvise(at, len, MADV_DONTDUMP) < 0)
		return err_set(eb, -errno, "madvise: %s", strerror(errno));
	return 0;
}

static void lent_unmap(void *at, size_t len)
{
	/* If there is no memory for that, the next piece there replaces it. */
	(void)mmap(at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

/* ---- addresses ---- */

static unsigned lent_units(size_t len)
{
	return (unsigned)((len + LENT_UNIT - 1) >> LENT_UNIT_BITS);
}

static void lent_own(struct lent *l, unsigned first, unsigned n, uint16_t whose)
{
	for (unsigned i = first; i < first + n; i++)
		atomic_store_explicit(&l->unit_of[i], whose, memory_order_release);
}

/* n units in a row that nobody has. -1: there are none. */
static int lent_free_units(const struct lent *l, unsigned n)
{
	for (unsigned i = 0, run = 0; i < l->units; i++) {
		run = atomic_load(&l->unit_of[i]) ? 0 : run + 1;
		if (run == n)
			return (int)(i + 1 - n);
	}
	return -1;
}

static int lent_free_piece(const struct lent *l)
{
	for (unsigned i = 0; i < LENT_PIECES; i++)
		if (!l->len[i])
			return (int)i;
	return -1;
}

int lent_find(const struct lent *l, const void *mem, size_t len)
{
	size_t at = (uintptr_t)mem - (uintptr_t)l->base, end = at + len - 1;
	unsigned whose;

	if (!l->base || !len || at >> LENT_UNIT_BITS >= l->units || end < at || end >> LENT_UNIT_BITS >= l->units)
		return -1;
	whose = atomic_load_explicit(&l->unit_of[at >> LENT_UNIT_BITS], memory_order_acquire);
	/* The last unit of a piece may be mapped in part. */
	if (!whose || (const char *)mem - lent_at(l, whose - 1) + len > l->len[whose - 1])
		return -1;
	return (int)whose - 1;
}

/* ---- pieces ---- */

/* Of a dma-buf the descriptor is kept, in *own, for devices that come later. 0, or -errno with eb set. */
static int lent_make(struct lent *l, unsigned piece, char *at, int fd, size_t len, int *own, struct errbuf *eb)
{
	bool dmabuf = lent_is_dmabuf(fd);
	int rc;

	*own = dmabuf ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (dmabuf && *own < 0)
		return err_set(eb, -errno, "the dma-buf cannot be kept: %s", strerror(errno));
	rc = lent_map(at, fd, len, dmabuf, eb);
	if (!rc)
		rc = l->ops->add(l->ctx, piece, at, len, *own, eb);
	if (!rc)
		return 0;
	lent_unmap(at, len);
	if (*own >= 0)
		close(*own);
	return rc;
}

/* A memfd may be long and have no pages: registering finds all of them, and they cannot be swapped out. */
static int lent_has_memory(const struct lent *l, int fd, size_t len, struct errbuf *eb)
{
	int64_t spare = l->ops->spare(l->ctx);
	struct stat st;
	uint64_t there = fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;

	if (there >= len || (int64_t)(len - there) <= spare)
		return 0;
	return err_set(eb, -ENOMEM, "%llu KiB would have to be found for it, and the machine, or the daemon's control "
		       "group, has %lld to spare", (unsigned long long)(len - there) / 1024,
		       spare > 0 ? (long long)spare / 1024 : 0);
}

int lent_add(struct lent *l, int fd, size_t len, struct errbuf *eb)
{
	int piece = lent_free_piece(l), unit, own;
	bool dmabuf = lent_is_dmabuf(fd);
	int rc = dmabuf ? lent_check_dmabuf(fd, len, eb) : lent_check(fd, len, eb);
	char *at;

	if (!rc && !dmabuf)
		rc = lent_has_memory(l, fd, len, eb);
	if (rc)
		return rc;
	unit = len <= (size_t)l->units << LENT_UNIT_BITS ? lent_free_units(l, lent_units(len)) : -1;
	if (piece < 0 || unit < 0)
		return err_set(eb, -ENOSPC, "no room is left for memory of programs: %u pieces, %zu GiB in all",
			       LENT_PIECES, (size_t)l->units << LENT_UNIT_BITS >> 30);
	at = l->base + ((size_t)unit << LENT_UNIT_BITS);
	rc = lent_make(l, (unsigned)piece, at, fd, len, &own, eb);
	if (rc)
		return rc;
	l->first[piece] = (uint16_t)unit;
	l->len[piece] = len;
	l->dmabuf[piece] = own;
	atomic_store(&l->lost[piece], false);
	lent_own(l, (unsigned)unit, lent_units(len), (uint16_t)(piece + 1));
	return piece;
}

bool lent_remove(struct lent *l, unsigned piece)
{
	if (!l->ops->remove(l->ctx, piece))
		return false;
	lent_own(l, l->first[piece], lent_units(l->len[piece]), 0);
	lent_unmap(lent_at(l, piece), l->len[piece]);
	l->len[piece] = 0;
	if (l->dmabuf[piece] >= 0)
		close(l->dmabuf[piece]);
	l->dmabuf[piece] = -1;
	return true;
}
