/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The FUSE front end: turns the kernel's requests into operations of the NFS client.
 * fs_new() is called on the thread that talks to the server (main.c), fs_stop() and
 * fs_inode_count() and fs_held_bytes() on any thread, the others on the main thread.
 *
 *   fs_new --> fs_mount --> lanes serve requests --> fs_wait returns
 *      |          |                                       |
 *      +----------+-----> failed ------------------> (client freed) --> fs_free
 */
#pragma once

#include "base/log.h"
#include "base/oprec.h"
#include "fuse/ugid.h"
#include "ring/rings.h"
#include "vfs/vfs.h"

enum fs_unmount {
	FS_UNMOUNT_LAZY,
	FS_UNMOUNT_ABORT,       /* ends what waits for this daemon before that, if this user may */
	FS_UNMOUNT_DEAD,        /* the kernel has ended the connection: the mount may be gone, and another one there */
};
enum fs_lookupcache { FS_LOOKUPCACHE_ALL, FS_LOOKUPCACHE_POS, FS_LOOKUPCACHE_NONE };

struct fs_config {
	struct vfs_config vfs;          /* place: the mount point; solo: see fuse/solo.h */
	struct rings_config rings;      /* if the client's memory may be lent, and not with solo */
	const char *fuse_opts;          /* libfuse's -o: fsname, subtype, ro, allow_other... */
	enum fs_lookupcache lookupcache;
	bool debug;                     /* libfuse logs each request */
	bool posix_locks, flock_locks;  /* the server has fcntl()'s locks; flock()'s */
	const struct ugid *ugid;        /* who is who on the server; NULL: as here. Outlives *out */
	bool late_data;                 /* what was written may be sent after close(), under a delegation to write */
	/* Of a process that keeps the privileges for it. NULL: for tests.
	 *   mount       mounts with these options and this max_read. A descriptor of /dev/fuse,
	 *               or -errno with eb set; eb set besides a descriptor: a warning
	 *   read_ahead  how many KiB the kernel reads ahead. 0 or -errno
	 *   write_back  another process has the kernel send what mappings have dirtied: it opens the
	 *               root, calls syncfs(), and closes. device: /dev/fuse. A descriptor of a
	 *               SOCK_SEQPACKET socket to it, or -errno. Two int32_t come: its pid, before it
	 *               goes on when it is sent a byte; and when all is done 0, or -errno
	 *   unmount     unmounts that, and nothing else. device: /dev/fuse. 0, or -errno; -ENOENT: it is no
	 *               longer mounted */
	int (*mount)(uint32_t max_read, struct errbuf *eb);
	int (*read_ahead)(unsigned kib);
	int (*write_back)(int device);
	int (*unmount)(enum fs_unmount how, int device);
};

struct fs;


/* Checks that path is an empty directory that can be mounted on. 0 or -errno with eb set. */
int fs_check_mountpoint(const char *path, struct errbuf *eb);

/*
 * Prepares the mount. Asks the server for the root directory, however long that takes.
 * cfg's strings and cl must outlive *out. 0, or -errno with eb set; *out needs fs_free() in
 * either case, unless it is NULL.
 */
int fs_new(const struct fs_config *cfg, struct nfs_client *cl, struct fs **out,
	   struct errbuf *eb);

/* For a process that mounts for another one. A descriptor of /dev/fuse, or -errno with eb set. */
int fs_kern_mount(const char *fuse_opts, uint32_t max_read, const char *mountpoint,
		  struct errbuf *eb);
/* How far the kernel reads ahead on the mount with that device number (bdi.c). 0, or -errno:
 * -EACCES if this user may not. */
int fs_bdi_set(unsigned major, unsigned minor, unsigned kib);

/*
 * Mounts, and lets the client's lanes serve the mount. Waits for this machine only, not for
 * the server. Returns when the kernel has sent FUSE_INIT. 0, or -errno with eb set and no
 * mount left.
 */
int fs_mount(struct fs *fs, struct errbuf *eb);

/* Any thread, when it is mounted: programs reach its rings by this listening socket, of that name, which
 * becomes fs's. */
bool fs_has_rings(const struct fs *fs);
void fs_listen(struct fs *fs, int fd, const char *name);
/* Any thread, until fs_free(): rings_each(), if there are any. */
void fs_each_program(struct fs *fs, void (*look)(const struct rings_now *now, void *arg), void *arg);

/* Any thread: look(op, to) for each kind of request that the kernel has sent (opstat.h). */
void fs_each_op(const struct fs *fs, void (*look)(const struct times_op *op, void *to), void *to);

/* One thread: single requests are collected from now on, and no more. 0 or -ENOMEM. */
int fs_log_begin(struct fs *fs);
void fs_log_end(struct fs *fs);
/* The same thread: the next one, in the order of their ends as far as they are known. false: there is none. */
bool fs_log_next(struct fs *fs, struct oprec *out);
/* How many have found no room so far. */
uint64_t fs_log_lost(const struct fs *fs);

/* Blocks until the file system is unmounted, or until fs_stop(). When it returns the mount
 * is gone, and FUSE waits for no request any more. */
void fs_wait(struct fs *fs);

/* Any thread, while it is mounted: vfs_change(). */
void fs_change(struct fs *fs, const struct vfs_config *cfg);

/* Any thread. Makes fs_wait() unmount and return. */
void fs_stop(struct fs *fs);
/* Any thread. The same at once: who waits for the mount gets an error, and what is held is lost if the
 * server does not take it within two seconds. */
void fs_abort(struct fs *fs);

/* Any thread. How many files and directories have an inode: the kernel has looked them up
 * and not forgotten them, or they are open, or a request uses them. */
uint64_t fs_inode_count(const struct fs *fs);
/* Any thread. Bytes that write() has taken, and that are not on the server's disk. */
uint64_t fs_held_bytes(const struct fs *fs);

/* Call it when the client has been freed: until then its lanes may complete operations. */
void fs_free(struct fs *fs);
