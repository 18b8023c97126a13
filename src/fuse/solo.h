/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * consistency=solo: nobody but this mount writes the files. The kernel's write-back cache is on.
 *
 *   write() --> the kernel's page, size, mtime
 *                   |  fsync, close, time, memory
 *                   v
 *               WRITE (fuse_file_info.writepage) --> write-behind (behind.h), as ever
 *               SETATTR of the mtime ------------> kept here --release--> SETATTR
 *
 * The kernel keeps size, mtime and ctime of regular files itself, and ignores what answers say
 * of them, for as long as it has the inode. Its pages stay as well: no attribute makes it drop
 * them. From that follows what is here.
 *
 * Reading. A write to a part of a page reads the rest by the same open file. So an open for
 * writing alone is opened for reading too, at the server. If the server refuses that, the file
 * is one that this user may write and not read: its writes go past the pages
 * (FOPEN_DIRECT_IO), and nothing has to be read. If the right to read is taken away while the file is
 * open, and it has to be opened again (nfs4_recover.c), it is opened for writing alone. Then what was
 * written reaches the server, and only a write to a part of a page fails (EACCES).
 *
 * Times. The kernel sends the mtime with each fsync() and close() of a file that was written.
 * fsync() and close() promise the data, and the server has a mtime of its own from the WRITEs.
 * So nobody waits for this: the mtime is kept, and sent when the open file is released, unless a
 * program has set another one by then (tar). Until that reply a later change of the file waits
 * (vfs/start.c: the operation holds it), or an old mtime would replace a newer one. A user who may
 * not set the mtime, because the file is not his own, leaves the server's. The kernel also sends
 * the mtime after each rename, link and unlink, which change the ctime: if it is the one
 * that the server has, there is nothing to send. If the daemon dies before the release, or the
 * file is read anew (below), it has the server's own mtime.
 *
 * Somebody else's change. OPEN brings the server's size and mtime. If they differ from those after
 * this mount's last change, and no own change has begun since or was under way, somebody else has
 * written. If that is not certain (a WRITE whose reply had no attributes, a rename), the newer
 * mtime is taken as our own. The size is certain as soon as the file is not open: then the kernel
 * has written everything, and its size is `size`. Nothing can tell the kernel another size for the
 * inode that it has. So the open is answered with ESTALE, and the inode is *left*: it is not found
 * by its handle any more. The kernel looks the name up again, and gets a new node with the
 * server's size and no pages. An inode that is open is not left: two of the kernel's inodes for
 * one file would not see each other's pages. Its pages are dropped, as far as nothing is to be
 * written, and it is left at the first open after the last close. Nor is one that a call may still
 * change, a truncation by name without an answer, say: it would meet what is written by the next
 * inode. Opens of an inode that was left are ESTALE, too: the kernel knows it by another hard link.
 *
 * The same happens after a WRITE that has failed, because the kernel has pages and a size that
 * the server does not have.
 *
 * solo.c keeps what the server has, fs_solo.c is for the requests.
 *
 * Any thread; the inode's shard guards all members that are not atomic. Each regular file has a
 * struct solo from its insertion to its end.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include "nfs/nfs.h"

struct file;
struct fs;
struct vfs_lane;
struct fs_req;
struct fuse_file_info;
struct inode;
struct inode_table;

struct solo {
	_Atomic uint64_t size;          /* the kernel's, but for what it has not written yet */
	_Atomic bool lost;              /* a WRITE has failed */
	bool foreign;                   /* somebody else has changed it */
	uint64_t nr;                    /* attr: ownchange_changes() when they were the server's */
	struct nfs_attr attr;
	bool owes;                      /* the server has not got this mtime yet: */
	struct timespec mtime;
};

/* For a new inode, which the kernel gets with these attributes. false: no memory. */
bool solo_begin(struct inode *ino, const struct nfs_attr *attr);
/* attr are the server's after this mount's last change, and no other one has begun. */
void solo_after_locked(struct inode *ino, const struct nfs_attr *attr);
/* A WRITE up to `end` is about to be answered; a SETATTR has set the size. Without the lock. */
void solo_wrote(struct inode *ino, uint64_t end);
void solo_cut(struct inode *ino, uint64_t size);
/* A WRITE has failed: the kernel has pages, and a size, that the server does not have. */
void solo_lost(struct inode *ino);
/* ino is opened: may the kernel keep its pages? */
bool solo_keeps_locked(const struct inode *ino);

/* Sets what OPEN or CREATE opens the file for, by the flags of the kernel. */
void fs_solo_widen(struct fs_req *r, int flags);
/* OPEN or CREATE has failed because the file may not be read too: r is to be started again,
 * with the flags that it has now. */
bool fs_solo_writes_only(struct fs_req *r);
/* r has opened its file. true: r has been answered with ESTALE and freed, and the open is
 * undone. */
bool fs_solo_sent_back(struct fs_req *r);
/* SETATTR. true: r has been answered. Otherwise r->call.args.sattr may have been changed. */
bool fs_solo_setattr(struct fs_req *r, const struct stat *st, int to_set,
		     const struct fuse_file_info *fi);
/* The log says how many files were changed by others that it has not named, once a second. now:
 * mono_ns(), or UINT64_MAX: at once. */
void fs_solo_say_rest(struct fs *fs, uint64_t now);
/* An open file is released: sends the mtime if the server has not got it. */
void fs_solo_release(struct vfs_lane *vl, struct file *f);
