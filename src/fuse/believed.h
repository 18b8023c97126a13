/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel was told of an inode, and believes: FUSE's part of it.
 *
 *      told.h    attributes, and the pages that follow from them
 *      young.h   attributes for read(), although this mount has written since
 *      solo.h    consistency=solo
 *
 * The kernel's lookups hold references to the inode. They are also counted here, so that the kernel
 * cannot give back more than it has. [s]: guarded by the inode's shard (vfs/inode.h).
 */
#ifndef FUSE_BELIEVED_H
#define FUSE_BELIEVED_H

#include "vfs/inode.h"

struct believed {
	struct inode ino;
	_Atomic uint64_t lookups;       /* how many references the kernel has */

	/* told.h: */
	_Atomic uint64_t fresh_ns;      /* when the kernel was last told attributes, or wrote */
	_Atomic uint64_t news_ns;       /* time of the last event after which the kernel discards answers to
					 * earlier requests */
	_Atomic uint64_t told_size;     /* the size that the kernel believes, or NOBODY_KNOWS */
	_Atomic unsigned writing;       /* WRITEs under way */
	uint64_t set_change;            /* [s] the change attribute after the newest SETATTR */
	struct list ends;               /* [s] the open_ends of open files */
	struct timespec told_mtime;     /* [s] as the server had it */
	_Atomic uint32_t mtime_ahead;   /* ns added to that for the kernel; changed under [s] */
	bool doubt;                     /* [s] it may have ignored the newest answer */
	_Atomic unsigned differing;     /* opens that know of a difference, and have not told it yet */
	_Atomic bool paged;             /* the kernel may have pages of it */
	_Atomic bool outdated;          /* a direct write bypassed them after the last answer */
	bool cache_valid;               /* [s] the kernel has no pages that are older than... */
	uint64_t cache_change;          /* [s] ...this change attribute */

	/* young.h: */
	struct young *_Atomic young;    /* NULL: it was never opened */
	_Atomic uint64_t spoilt_ns;     /* attributes that were asked for before are not kept */
	_Atomic bool atime_old;         /* the kernel has read since it was told attributes; or,
					 * with solo, closed the file */

	struct solo *solo;              /* constant; NULL: not consistency=solo, or no regular file */
};

/* For who may look at it only, too. */
static inline struct believed *believed_of(const struct inode *ino)
{
	return container_of((uintptr_t)ino, struct believed, ino);
}

/* One of the caller's references becomes the kernel's. */
void believed_known(struct inode *ino);
/* The kernel gives n references back, or did not get one after all. false: it has fewer
 * than n; only those that it has are dropped. */
bool believed_forget(struct inode_table *t, struct inode *ino, uint64_t n);

/*
 * Counts another open file. attr are from its OPEN, which was sent at `asked`; 0: from CREATE, and
 * the kernel was told them. true: the kernel may keep its pages. Otherwise it drops them when the
 * process that opens goes on, and not when the answer is given. The first request through the open
 * file shows that it has: then believed_dropped() follows. Before that no other open may keep the
 * pages.
 *
 *   lane 0: OPEN, change 10: drop     lane 1: OPEN, change 10: must not keep, there are pages of 9
 *   process 0 drops, and reads: READ: believed_dropped(10)
 *                                     OPEN, change 10: may keep
 */
bool believed_open(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		   uint64_t asked);
/* The kernel has dropped its pages after an OPEN that brought that change attribute. */
void believed_dropped(struct inode_table *t, struct inode *ino, uint64_t change);

#endif
