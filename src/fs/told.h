/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Attributes: what the kernel was told, and for how long it believes that.
 *
 * The kernel takes the attributes from every answer that has some, and extends the size
 * when it writes. `told_size` follows the kernel's size. OPEN brings attributes that its
 * answer has no place for; inode_differs() and inode_send_back() say what to do about them.
 *
 * Pages: when an asynchronous direct write ends, the kernel keeps pages that readers filled
 * meanwhile, with the old bytes. It drops a file's pages when it sees another mtime, and it
 * asks for the mtime before each read() if it was told to forget the attributes. So it is
 * told to forget them after a direct write to a file that has pages. If the server's mtime
 * is then the same as in the last answer, the next answer says a nanosecond more
 * (mtime_ahead).
 *
 * Any thread. The inode's shard guards the attributes. What READ and WRITE use is atomic,
 * and needs no lock.
 */
#ifndef FS_TOLD_H
#define FS_TOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SENT_BACK 1024u                 /* threads, by their ids */

struct inode;
struct inode_table;
struct nfs_attr;

/* A thread's newest open that was sent back (inode_send_back()). */
struct sent_back {
	_Atomic uint64_t id, fresh_ns;  /* the inode, and its fresh_ns at that time */
};

/* attr go to the kernel. Returns for how many seconds they may be believed. */
double inode_update(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* For how many seconds the newest attributes may be believed. */
double inode_timeo(struct inode_table *t, struct inode *ino);
/* The file's mtime was set. The kernel has to see exactly that time. */
void inode_mtime_set(struct inode *ino);
/* The kernel reads or writes the file through its page cache. */
void inode_paged(struct inode *ino);
/* A direct write has been executed. true: the kernel is to forget the attributes. */
bool inode_written_past(struct inode *ino);
/* The kernel is about to hear that the file is written up to `end`. */
void inode_wrote(struct inode *ino, uint64_t end);

/* OPEN brought attr. Do they differ from what the kernel was told? */
bool inode_differs(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/*
 * For an open for writing, whose OPEN was sent at `since` and brought attr. The kernel
 * appends at the size that it believes, and only LOOKUP and GETATTR change that size. true:
 * the server has another size, and not by our own writes. Then pid's open is to be answered
 * with ESTALE, and the kernel looks the name up again. When it has done that the open is
 * let through, because somebody else is writing right now. A file that is opened without a
 * name (/proc/self/fd/1) is not looked up. Its open is let through the second time, unless
 * it appends: that would overwrite data.
 */
bool inode_send_back(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		     bool append, pid_t pid, uint64_t since);

#endif
