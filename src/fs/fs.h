/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The FUSE front end: turns what the kernel asks into operations of the NFS
 * client. All functions here belong to the main thread, but for fs_stop() and
 * fs_inode_count().
 *
 *   fs_new --> fs_mount --> lanes serve requests --> fs_wait returns
 *      |          |                                       |
 *      +----------+-----> failed ------------------> (client freed) --> fs_free
 */
#ifndef FS_FS_H
#define FS_FS_H

#include "base/log.h"
#include "nfs/nfs.h"

enum fs_lookupcache { FS_LOOKUPCACHE_ALL, FS_LOOKUPCACHE_POS, FS_LOOKUPCACHE_NONE };

struct fs_config {
	const char *mountpoint;
	const char *fuse_opts;          /* for libfuse: fsname, subtype, ro, allow_other, ... */
	unsigned acregmin, acregmax, acdirmin, acdirmax;        /* seconds */
	enum fs_lookupcache lookupcache;
	bool rdirplus;
	bool debug;                     /* libfuse prints each request */
	/* Takes the mount away for a process that may not do so any more; 0 or -errno.
	 * NULL: it may. */
	int (*unmount)(void);
};

struct fs;

/* Is there an empty directory to mount on? 0 or -errno with eb set. */
int fs_check_mountpoint(const char *path, struct errbuf *eb);

/*
 * What can be had before there is a mount: asks the server for the root, however
 * long that takes. cfg's strings and cl must outlive it. 0, or -errno with eb set;
 * *out needs fs_free() in either case, unless it is NULL.
 */
int fs_new(const struct fs_config *cfg, struct nfs_client *cl, struct fs **out,
	   struct errbuf *eb);

/*
 * Mounts, and has the client's lanes serve the mount. Waits for this machine
 * only, not for the server. Returns when the kernel has taken the mount into
 * use; 0, or -errno with eb set and no mount left.
 */
int fs_mount(struct fs *fs, struct errbuf *eb);

/* Blocks until the file system was unmounted, or fs_stop(); then the mount is
 * gone and no request of the kernel is waited for any more. */
void fs_wait(struct fs *fs);

/* Any thread: fs_wait() unmounts and returns. */
void fs_stop(struct fs *fs);

/* Any thread: how many files and directories are known, by lookups of the kernel that
 * it has not given back, by open files, or by requests under way. */
uint64_t fs_inode_count(const struct fs *fs);

/* After the client is gone, as its lanes may complete operations until then. */
void fs_free(struct fs *fs);

#endif
