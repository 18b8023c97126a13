/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Attributes: what the kernel was told, and for how long it believes that.
 *
 * It takes the attributes of every answer that has some, and extends the size by what it
 * writes. `told_size` follows it there. OPEN brings attributes that cannot be handed on;
 * inode_differs() and inode_send_back() say what has to be done about that.
 *
 * Its pages: a direct write that was asynchronous leaves those alone that readers
 * brought in meanwhile, with the old bytes. The kernel throws a file's pages away when
 * it hears of another mtime, and asks for that before each read() if it has been told
 * to forget the attributes. So that is done after a direct write of a file that has
 * pages, and if the server's clock has not moved since the last answer, the mtime in
 * the next one is a nanosecond later (mtime_ahead).
 *
 * Any thread. The attributes are guarded by the inode's shard; what a READ or WRITE looks
 * at is atomic, and takes no lock.
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

/* Of a thread's newest open that was sent back: it has one at a time. */
struct sent_back {
	_Atomic uint64_t id, fresh_ns;  /* which inode, and its fresh_ns then */
};

/* New attributes, on their way to the kernel: returns for how many seconds they may be believed. */
double inode_update(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* The same without new attributes. */
double inode_timeo(struct inode_table *t, struct inode *ino);
/* A file's mtime was set: that is what the kernel has to see. */
void inode_mtime_set(struct inode *ino);
/* The kernel reads or writes it through its page cache. */
void inode_paged(struct inode *ino);
/* A direct write has been executed: true if the kernel is to forget the attributes. */
bool inode_written_past(struct inode *ino);
/* The kernel is about to hear that it has written up to `end`. */
void inode_wrote(struct inode *ino, uint64_t end);

/* OPEN brought attr: are they other than what the kernel was told? */
bool inode_differs(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/*
 * An open for writing, answered by the server after `since`: the kernel appends
 * at the size that it knows, and only a LOOKUP or GETATTR changes that. True: the
 * size is another one, and not by our own doing; pid's open is to be sent back
 * (ESTALE) to look the name up again. Once it has, it is let through: somebody
 * else is writing right now. What is opened without a name (/proc/self/fd/1) is not
 * looked up: unless it is to append, which would overwrite, it is let through then.
 */
bool inode_send_back(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		     bool append, pid_t pid, uint64_t since);

#endif
