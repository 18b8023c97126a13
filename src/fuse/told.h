/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Attributes: what the kernel was told, and for how long it believes that.
 *
 * `told_size` follows the size that the kernel believes. These change it:
 *
 *   an answer with attributes      the kernel takes its size; but it ignores the answer if
 *                                  it got anything newer since it sent the request, or if a
 *                                  WRITE is under way
 *   the answer to a WRITE          extends it, if the kernel hears the answer
 *   a READ that ends early         cuts it
 *
 * The kernel does not say whether it has ignored an answer. If it had a reason to when the
 * answer was given, the size is NOBODY_KNOWS, which equals no size, until another answer
 * comes. A reason may also come between the answer and the moment when the kernel looks at
 * it. So told_size may be wrong, and decides only what is tried first.
 *
 * The other attributes in such an answer are in `doubt`, too: the kernel may go on believing
 * older ones for as long as it was told with those.
 *
 * OPEN brings attributes that its answer has no place for; told_differs() and
 * told_appends_elsewhere() say what to do about them. If the kernel still appends at an old
 * size, open_end.end tells.
 *
 * Pages: when an asynchronous direct write ends, the kernel keeps pages that readers filled
 * meanwhile, with the old bytes. It drops a file's pages when it sees another mtime, and it
 * asks for the mtime before each read() if it was told to forget the attributes. So it is
 * told to forget them after a direct write to a file that has pages. If the server's mtime
 * is then the same as in the last answer, the next answer says a nanosecond more
 * (mtime_ahead). The same goes for writes of an open that only writes (open.c), but that the
 * kernel forgets the mtime by itself.
 *
 * By the mtime in SETATTR's answer it drops no pages, and that may be another client's WRITE:
 *
 *      pages of mtime 1        another client writes: mtime 2
 *      chmod: SETATTR, answered with mtime 2     GETATTR: mtime 2, and the pages of 1 stay
 *
 * So if it has pages, and was told another mtime, that answer says a nanosecond less, and that it
 * holds for no time. The kernel asks before it uses it, and sees another one.
 *
 * Any thread. The inode's shard guards the attributes. What READ and WRITE use is atomic,
 * and needs no lock.
 */
#ifndef FUSE_TOLD_H
#define FUSE_TOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/list.h"

struct inode;
struct inode_table;
struct nfs_attr;

/*
 * What an open file may append behind. `end` is the size that OPEN brought, or less if the
 * kernel has heard of less since. If it appends below that, it has never got that size: it
 * takes an old end for the end, and would overwrite data.
 */
struct open_end {
	struct list node;               /* in believed.ends, under the inode's shard */
	_Atomic uint64_t end;           /* 0: not known */
	uint64_t since, change;         /* when OPEN's reply came, and its change attribute */
};

/* told_size: nobody knows what the kernel believes. */
#define NOBODY_KNOWS UINT64_MAX

/* attr go to the kernel, which has asked at `since` (mono_ns()). Returns for how many seconds
 * they may be believed. */
double told_update(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		    uint64_t since);
/* The same for an answer that may be kept (young.h): the server was asked at `asked`, when it
 * had everything that was written. For `known` seconds at most they are believed. */
double told_answer(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		    uint64_t since, uint64_t asked, double known);
/* The same for the answer to SETATTR, which the kernel takes in any case. If it would hide from it
 * that its pages are old, attr's mtime is changed, and the result is 0. */
double told_set(struct inode_table *t, struct inode *ino, struct nfs_attr *attr,
		 uint64_t since, uint64_t asked);
/* The last attributes, or a WRITE's answer, will not reach the kernel. */
void told_unheard(struct inode *ino);
/* The kernel has been told to forget the attributes. */
void told_forgotten(struct inode *ino);
/* The file's mtime was set. The kernel has to see exactly that time. */
void told_mtime_set(struct inode *ino);
/* The kernel reads or writes the file through its page cache. */
void told_paged(struct inode *ino);
/* A direct write has been executed. true: the kernel is to forget the attributes. */
bool told_written_past(struct inode *ino);
/* The file is written up to `end`. The kernel hears of that soon; if it does not after all,
 * told_unheard() follows. */
void told_wrote(struct inode *ino, uint64_t end);
/* The kernel is about to hear that a READ, which it asked for at `since`, found the file's
 * end at `end`. */
void told_read_short(struct inode_table *t, struct inode *ino, uint64_t end, uint64_t since);

/* OPEN brought attr. May they differ from what the kernel believes? */
bool told_differs(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* OPEN brought attr. The kernel appends at the size that it believes, and only LOOKUP and GETATTR
 * change that size. true: the server has another size, or nobody knows. */
bool told_appends_elsewhere(const struct inode *ino, const struct nfs_attr *attr);
/* OPEN brought attr. */
void told_end_begins(struct inode_table *t, struct inode *ino, struct open_end *e,
		      const struct nfs_attr *attr);
void told_end_ends(struct inode_table *t, struct inode *ino, struct open_end *e);

/* With the lock of the inode's shard: */

/* attr are about to go to the kernel, which has asked at `since`. */
void told_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since);
/* The same for attributes from a listing. */
void told_listed_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since);

/* The kernel is told attributes of young.h at a GETATTR of `since`, which were asked for at
 * `asked`. */
void told_young_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since,
		       uint64_t asked);

#endif
