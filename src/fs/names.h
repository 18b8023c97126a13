/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names that inodes were seen under, by (directory, name). Silly rename needs them, and
 * so does rename for the file that it moves. A file may have several names (hard links).
 *
 *      (directory, name) --> shard, bucket --> name, name, ...      newest first
 *                                               |
 *      inode.names ---------------------------> name, name, ...     newest first
 *
 * The newest entry says to which file a name belongs. The kernel's own cache has the same:
 * the kernel never removes or moves a name without having looked it up.
 *
 * Any thread. Each shard has a mutex for its lists. An inode's own list is guarded by the
 * inode's shard (inode.h), which is locked first.
 */
#ifndef FS_NAMES_H
#define FS_NAMES_H

#include <pthread.h>
#include <stdint.h>
#include "base/list.h"

#define NAME_SHARDS  64u
#define NAME_BUCKETS 512u               /* in each shard */

struct inode;
struct inode_table;

struct name {
	struct list by_name;            /* in the shard, newest first */
	struct name *next;              /* ino's next name, newest first */
	struct inode *ino;
	uint64_t parent_id;             /* this and the next members never change */
	uint32_t hash;
	char text[];
};

struct name_shard {
	pthread_mutex_t mu;
	struct list bucket[NAME_BUCKETS];
	struct gone *gone;              /* for known.c; or NULL */
};

/* The inode that was last seen as (parent, name), with one more reference; or NULL. */
struct inode *inode_find(struct inode_table *t, uint64_t parent, const char *name);
/* ino has this name, too. */
void inode_named(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name);
/* The name has been removed. */
void inode_unnamed(struct inode_table *t, uint64_t parent, const char *name);
/* (from, name) has been renamed to (to, newname), and has replaced what had that name. */
void inode_renamed(struct inode_table *t, uint64_t from, const char *name, uint64_t to,
		   const char *newname);

#endif
