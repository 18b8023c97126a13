/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the program calls instead of the C library's: reads and writes, by all their names. A call of a
 * number that is not known costs a look into the table.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include "lib/preload.h"
#include "lib/preload_real.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

/* Fortified programs have these; the C library's headers do not declare them without that. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off_t offset, size_t room);

static ssize_t one(int fd, const void *buf, size_t n, off_t offset, bool own, bool write)
{
	struct iovec v = { .iov_len = n };

	/* Where it is written from is not written to. */
	*(const void **)&v.iov_base = buf;
	return preload_call(&(struct preload_call){
		.fd = fd, .write = write, .own_offset = own, .iov = &v, .n = 1, .offset = offset });
}

static ssize_t many(int fd, const struct iovec *v, int n, off_t offset, int flags, bool own, bool write)
{
	return preload_call(&(struct preload_call){
		.fd = fd, .write = write, .own_offset = own, .flags = flags, .iov = v, .n = n,
		.offset = offset });
}

/* ---- reads ---- */

PRELOAD_EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	return preload_fd_known(fd) ? one(fd, buf, n, 0, true, false) : PRELOAD_REAL(read, fd, buf, n);
}

PRELOAD_EXPORT ssize_t pread(int fd, void *buf, size_t n, off_t offset)
{
	return preload_fd_known(fd) ? one(fd, buf, n, offset, false, false)
				    : PRELOAD_REAL(pread, fd, buf, n, offset);
}

PRELOAD_EXPORT ssize_t pread64(int fd, void *buf, size_t n, off_t offset)
{
	return pread(fd, buf, n, offset);
}

/* As the C library's: it ends the program. */
static void check(size_t n, size_t room)
{
	if (n <= room)
		return;
	fputs("*** buffer overflow detected ***: terminated\n", stderr);
	abort();
}

PRELOAD_EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
	check(n, room);
	return read(fd, buf, n);
}

PRELOAD_EXPORT ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t room)
{
	check(n, room);
	return pread(fd, buf, n, offset);
}

PRELOAD_EXPORT ssize_t __pread64_chk(int fd, void *buf, size_t n, off_t offset, size_t room)
{
	check(n, room);
	return pread(fd, buf, n, offset);
}

PRELOAD_EXPORT ssize_t readv(int fd, const struct iovec *v, int n)
{
	return preload_fd_known(fd) ? many(fd, v, n, 0, 0, true, false) : PRELOAD_REAL(readv, fd, v, n);
}

/* -1 as an offset is an error but for the ones with flags. */
PRELOAD_EXPORT ssize_t preadv(int fd, const struct iovec *v, int n, off_t offset)
{
	return many(fd, v, n, offset, 0, false, false);
}

PRELOAD_EXPORT ssize_t preadv64(int fd, const struct iovec *v, int n, off_t offset)
{
	return many(fd, v, n, offset, 0, false, false);
}

PRELOAD_EXPORT ssize_t preadv2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
	return many(fd, v, n, offset, flags, offset == -1, false);
}

PRELOAD_EXPORT ssize_t preadv64v2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
	return many(fd, v, n, offset, flags, offset == -1, false);
}

/* ---- writes ---- */

PRELOAD_EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	return preload_fd_known(fd) ? one(fd, buf, n, 0, true, true) : PRELOAD_REAL(write, fd, buf, n);
}

PRELOAD_EXPORT ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
	return preload_fd_known(fd) ? one(fd, buf, n, offset, false, true)
				    : PRELOAD_REAL(pwrite, fd, buf, n, offset);
}

PRELOAD_EXPORT ssize_t pwrite64(int fd, const void *buf, size_t n, off_t offset)
{
	return pwrite(fd, buf, n, offset);
}

PRELOAD_EXPORT ssize_t writev(int fd, const struct iovec *v, int n)
{
	return preload_fd_known(fd) ? many(fd, v, n, 0, 0, true, true) : PRELOAD_REAL(writev, fd, v, n);
}

PRELOAD_EXPORT ssize_t pwritev(int fd, const struct iovec *v, int n, off_t offset)
{
	return many(fd, v, n, offset, 0, false, true);
}

PRELOAD_EXPORT ssize_t pwritev64(int fd, const struct iovec *v, int n, off_t offset)
{
	return many(fd, v, n, offset, 0, false, true);
}

PRELOAD_EXPORT ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
	return many(fd, v, n, offset, flags, offset == -1, true);
}

PRELOAD_EXPORT ssize_t pwritev64v2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
	return many(fd, v, n, offset, flags, offset == -1, true);
}

/* ---- what has to do with the offset, or with what lies here ---- */

static struct preload_file *decided(int fd)
{
	struct preload_file *f = preload_fd_known(fd) ? preload_fd_get(fd, 0) : NULL;

	if (f && !atomic_load(&f->mount)) {
		preload_fd_put(f);
		f = NULL;
	}
	return f;
}

static void changed(int fd)
{
	struct preload_file *f = decided(fd);

	if (!f)
		return;
	preload_changed(f);
	preload_fd_put(f);
}

PRELOAD_EXPORT off_t lseek(int fd, off_t offset, int whence)
{
	struct preload_file *f = decided(fd);
	off_t at;

	if (!f)
		return PRELOAD_REAL(lseek, fd, offset, whence);
	if (offset || whence != SEEK_CUR)
		preload_changed(f);
	/* A handler that comes meanwhile is served by the kernel. */
	preload_inside = true;
	pthread_mutex_lock(&f->offset);
	at = PRELOAD_REAL(lseek, fd, offset, whence);
	pthread_mutex_unlock(&f->offset);
	preload_inside = false;
	preload_fd_put(f);
	return at;
}

PRELOAD_EXPORT off_t lseek64(int fd, off_t offset, int whence)
{
	return lseek(fd, offset, whence);
}

PRELOAD_EXPORT int ftruncate(int fd, off_t len)
{
	int rc = PRELOAD_REAL(ftruncate, fd, len);

	changed(fd);
	return rc;
}

PRELOAD_EXPORT int ftruncate64(int fd, off_t len)
{
	return ftruncate(fd, len);
}

PRELOAD_EXPORT int fsync(int fd)
{
	changed(fd);
	return PRELOAD_REAL(fsync, fd);
}

PRELOAD_EXPORT int fdatasync(int fd)
{
	changed(fd);
	return PRELOAD_REAL(fdatasync, fd);
}

PRELOAD_EXPORT int flock(int fd, int what)
{
	int rc = PRELOAD_REAL(flock, fd, what);

	changed(fd);
	return rc;
}
