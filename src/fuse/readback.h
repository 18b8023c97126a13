/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Attributes that are young enough to answer the kernel, although it has forgotten them because
 * of this mount's own reads and writes.
 *
 * With each write() the kernel forgets a file's size and mtime, and asks for them before the
 * next read(). It drops the file's pages if the mtime is another one, and after a write it
 * always is. So a program that writes and reads in turns would send each of its writes at
 * once, and read everything back from the server. But the kernel has the program's own bytes
 * in its pages, and all others are as good as before: it would have believed the attributes
 * for some seconds more, if it had not written itself.
 *
 *   OPEN, CREATE, LOOKUP, GETATTR, SETATTR: attributes
 *      |
 *      +--kept--> GETATTR for a read(): these, with the end of this mount's writes as size;
 *      |          nobody waits, and nothing is sent
 *      +--kept--> GETATTR for a stat(), if the kernel has read, and nothing was written: these
 *                 Otherwise the server is asked
 *
 * FUSE sends the file handle in a GETATTR for read() and lseek(), and none for stat(). The
 * mtime is that from before the writes, and stat() must not see it. So the kernel is told to
 * believe such an answer for no time at all. Then it asks with each further read(); after some
 * of these the server is asked, and the kernel believes that for as long as usual.
 *
 * With each READ the kernel forgets the atime, and so asks with the next stat(). It asks, too, if an
 * open has it forget all attributes (open.c). If it has no such reason to ask, a program may have told it to (AT_STATX_FORCE_SYNC), and the server is
 * asked.
 *
 * The attributes are believed for acregmin seconds from when they were asked for, whatever is
 * written meanwhile. So another client's changes are noticed no later than by a kernel that
 * neither reads nor writes. With noac nothing is kept. They are not kept, or no longer, if
 *
 *   - the kernel was told other attributes (a listing), or has a reason to ignore these:
 *     answers overtake each other. They are taken only if the kernel heard of nothing else
 *     since they were asked for
 *   - a write ended, failed, or was given up between the question and the reply: then nobody
 *     knows whether they have it
 *   - a direct write went past the kernel's pages
 *   - a READ found the file's end before the size
 *   - the file got or lost a name
 *   - a SETATTR ended without an answer to the kernel
 *   - a file is opened: then OPEN's count, and no older ones
 *   - one thread writes, and another one reads, opens the file or asks
 *
 * One thread. While a write() is under way, its pages have the new bytes already, and are not
 * locked. If another thread has the kernel drop them just then, because it was told another
 * mtime or opens the file, and reads them, they get the old bytes, or those of what is held. As
 * soon as the write has ended these pages are too old. The kernel drops them before the next
 * read(), because of the mtime, but not if that is the old one. A thread cannot do this to
 * itself.
 *
 * Close-to-open: each open() sends OPEN, and the kernel drops its pages if the file has
 * changed (opencount.h).
 *
 * The attributes also tell what the server does not have: no byte behind the size then, and
 * behind what it has got since (`there`). Write-behind answers READs with that.
 *
 * All files that were opened have this, until the kernel forgets them. Any thread. The inode's
 * shard guards all but the atomic members. Writes change those without the lock: they store
 * spoilt_ns first, then the end; code that stores attributes rechecks spoilt_ns afterwards.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct believed_taken;
struct inode;
struct inode_table;
struct nfs_attr;

/* What is kept is useless, and so are attributes that were asked for before now. */
void readback_spoil(struct inode *ino);
/* This thread is the one that has asked for what was kept last. */
void readback_asked(struct inode *ino, pid_t tid);
/* The thread's write up to `end` is about to be answered. */
void readback_wrote(struct inode *ino, uint64_t end, pid_t tid);
/* The server has got bytes up to `end` that write-behind does not hold any more. */
void readback_there(struct inode *ino, uint64_t end);
/* The thread reads ino through the page cache. */
void readback_read(struct inode *ino, pid_t tid);
/*
 * For a GETATTR that the kernel has sent at `since`; stat: not for a read(). Attributes, which
 * count as told, and for how many seconds the kernel may believe them. false: the server has to
 * be asked.
 */
bool readback_attr(struct inode_table *t, struct inode *ino, struct nfs_attr *attr, double *timeo,
		uint64_t since, bool stat);
/* The file's end, and the end of what the server may have of it. false: nobody knows. */
bool readback_end(struct inode_table *t, struct inode *ino, uint64_t *end, uint64_t *there);

/* Of so many read()s it is known whether they have taken their answers in (believed.h). */
#define READBACK_READS 4u
/* They are believed.c's. NULL: the file was never opened, or there was no memory. */
struct believed_taken *readback_reads(const struct inode *ino);

/* With the lock of the inode's shard: */

/* ino is opened. Without memory nothing is kept. */
void readback_begin_locked(struct inode *ino);
/* The kernel is told something else. */
void readback_drop_locked(struct inode *ino);
/* Attributes were asked for at `asked`. May they be kept? To be called before the kernel is
 * told them, which drops what was kept; then they are kept by the second function, and
 * believed until `until` at most. */
bool readback_takes_locked(const struct inode *ino, uint64_t asked);
void readback_keep_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		       uint64_t asked, uint64_t until);
