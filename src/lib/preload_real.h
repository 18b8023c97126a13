/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions behind ours. The constructor finds them; who is called before that (by another library's
 * constructor) makes the system call itself. Never before: dlsym() may allocate memory.
 */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct preload_real {
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*pread)(int, void *, size_t, off_t);
	ssize_t (*pwrite)(int, const void *, size_t, off_t);
	ssize_t (*readv)(int, const struct iovec *, int);
	ssize_t (*writev)(int, const struct iovec *, int);
	ssize_t (*preadv2)(int, const struct iovec *, int, off_t, int);
	ssize_t (*pwritev2)(int, const struct iovec *, int, off_t, int);
	int (*openat)(int, const char *, int, ...);
	int (*close)(int);
	int (*dup)(int);
	int (*dup3)(int, int, int);
	int (*fcntl)(int, int, ...);
	int (*close_range)(unsigned, unsigned, int);
	off_t (*lseek)(int, off_t, int);
	int (*ftruncate)(int, off_t);
	int (*fsync)(int);
	int (*fdatasync)(int);
	int (*flock)(int, int);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*socket)(int, int, int);
	int (*socketpair)(int, int, int, int[2]);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	int (*memfd_create)(const char *, unsigned);
	int (*fclose)(FILE *);
};

extern struct preload_real preload_real;
void preload_real_find(void);

/* PRELOAD_REAL(read, fd, buf, n), with the same number for the system call. */
#define SYS_pread  SYS_pread64
#define SYS_pwrite SYS_pwrite64
#define PRELOAD_REAL(name, ...) \
	(preload_real.name ? preload_real.name(__VA_ARGS__) \
			   : (__typeof__(preload_real.name(__VA_ARGS__)))syscall(SYS_##name, __VA_ARGS__))
