/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the inode table share: inode.c, names.c, opencount.c, ownchange.c, symlinks.c.
 * The caller of a function whose name ends with "locked" holds the lock of the inode's
 * shard, unless the comment says otherwise.
 */
#pragma once

#include "vfs/inode.h"

/* ---- names.c ---- */

void names_init(struct inode_table *t);
/* When there are no inodes any more. */
void names_fini(struct inode_table *t);
/* The shard that the name is listed in. */
struct name_shard *names_shard_of(struct inode_table *t, uint64_t parent, const char *name);
/* (parent, text) becomes ino's newest name, and ino the newest inode with that name. It is seen
 * now: the caller may have looked at the clock already. */
void names_add_locked(struct inode_table *t, struct inode *ino, uint64_t parent,
		      const char *text, size_t len, uint64_t now);
/* Removes that name from ino, if it has it. */
void names_remove_locked(struct inode_table *t, struct inode *ino, uint64_t parent,
			 const char *text);
/* Removes all names of an inode. The caller holds its shard's lock, or the last reference. */
void names_drop(struct inode_table *t, struct inode *ino);

/* ---- ownchange.c ---- */

/* The name exists, or may. The caller holds the lock of the name's shard
 * (names_shard_of()). */
void ownchange_here_locked(struct name_shard *s, uint64_t parent, const char *name);
/* The server has sent attr, with owners. */
void ownchange_seen_locked(struct inode *ino, const struct nfs_attr *attr);
