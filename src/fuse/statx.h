/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FUSE_STATX (protocol 7.39, Linux 6.6): attributes, and when the file was made. The kernel sends it
 * if a program asks for that time, and FUSE_GETATTR otherwise. Older headers of the kernel, and libfuse
 * before 3.18, do not have it.
 */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

#define FS_STATX 52u

struct fs_sx_time {
	int64_t sec;
	uint32_t nsec;
	int32_t reserved;
};

struct fs_statx_out {
	uint64_t valid;                 /* how long it may be believed: seconds, ... */
	uint32_t valid_nsec;
	uint32_t flags;
	uint64_t spare[2];
	uint32_t mask;                  /* STATX_* */
	uint32_t blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, spare0;
	uint64_t ino, size, blocks;
	uint64_t attributes_mask;
	struct fs_sx_time atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor;
	uint32_t dev_major, dev_minor;
	uint64_t spare2[14];
};

_Static_assert(sizeof(struct fs_statx_out) == 288, "it is the kernel's struct fuse_statx_out");

/* btime: NULL: it is not known. */
void fs_statx(struct fs_statx_out *out, const struct stat *st, double timeo,
	      const struct timespec *btime);
