/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names that inodes were seen under, by (directory, name): for silly rename, and for
 * what rename moves. A file may have several (hard links).
 *
 *      (directory, name) --> shard, bucket --> name, name, ...      newest first
 *                                               |
 *      inode.names ---------------------------> name, name, ...     newest first
 *
 * Whose a name is, the newest entry says, as the kernel's own cache does: it never
 * removes or moves a name without having been told whose it is.
 *
 * Any thread. Each shard has a mutex, for its lists; an inode's own list is its shard's
 * in the inode table, which is locked first.
 */
#ifndef FS_NAMES_H
#define FS_NAMES_H

#include <pthread.h>
#include <stdint.h>
#include "base/list.h"

#define NAME_SHARDS  64u
#define NAME_BUCKETS 512u               /* of one shard */

struct inode;
struct inode_table;

struct name {
	struct list by_name;            /* in the shard, newest first */
	struct name *next;              /* of ino's, newest first */
	struct inode *ino;
	uint64_t parent_id;             /* this and what follows: constant */
	uint32_t hash;
	char text[];
};

struct name_shard {
	pthread_mutex_t mu;
	struct list bucket[NAME_BUCKETS];
	struct gone *gone;              /* known.c's, or NULL */
};

/* The inode that was last seen as (parent, name), referenced; or NULL. */
struct inode *inode_find(struct inode_table *t, uint64_t parent, const char *name);
/* It has this name, too. */
void inode_named(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name);
/* (parent, name) is gone. */
void inode_unnamed(struct inode_table *t, uint64_t parent, const char *name);
/* (from, name) is (to, newname) now, whatever that was before. */
void inode_renamed(struct inode_table *t, uint64_t from, const char *name, uint64_t to,
		   const char *newname);

#endif
