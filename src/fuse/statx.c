/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The answer to FUSE_STATX. */

#include <string.h>
#include <sys/sysmacros.h>
#include "fuse/statx.h"

/* More seconds than that are as good as for ever. */
#define STATX_VALID_MAX 4e9

static struct fs_sx_time statx_time(const struct timespec *t)
{
	return (struct fs_sx_time){ .sec = t->tv_sec, .nsec = (uint32_t)t->tv_nsec };
}

void fs_statx(struct fs_statx_out *out, const struct stat *st, double timeo,
	      const struct timespec *btime)
{
	double valid = timeo < 0 ? 0 : timeo < STATX_VALID_MAX ? timeo : STATX_VALID_MAX;

	memset(out, 0, sizeof(*out));
	out->valid = (uint64_t)valid;
	out->valid_nsec = (uint32_t)((valid - (double)out->valid) * 1e9);
	out->mask = STATX_BASIC_STATS;
	out->blksize = (uint32_t)st->st_blksize;
	out->nlink = (uint32_t)st->st_nlink;
	out->uid = st->st_uid;
	out->gid = st->st_gid;
	out->mode = (uint16_t)st->st_mode;
	out->ino = st->st_ino;
	out->size = (uint64_t)st->st_size;
	out->blocks = (uint64_t)st->st_blocks;
	out->atime = statx_time(&st->st_atim);
	out->ctime = statx_time(&st->st_ctim);
	out->mtime = statx_time(&st->st_mtim);
	out->rdev_major = major(st->st_rdev);
	out->rdev_minor = minor(st->st_rdev);
	if (!btime)
		return;
	out->mask |= STATX_BTIME;
	out->btime = statx_time(btime);
}
