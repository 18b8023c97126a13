/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names that inodes were seen under, by (directory, name). Silly rename needs them, and
 * so does rename for the file that it moves. A file may have several names (hard links).
 *
 *      (directory, name) --> shard, bucket --> name, name, ...      newest first
 *                                               |
 *      inode.names ---------------------------> name, name, ...     newest first
 *
 * The kernel opens a file by its node, and does not say by which name it has found it: the newest,
 * most likely, or another one that it was told within acdirmax. So an open and a truncation by name
 * are sent with these names, and reach the file only if it still has them (file.c).
 *
 * The newest entry says to which file a name belongs. The kernel's own cache has the same:
 * the kernel never removes or moves a name without having looked it up.
 *
 * The kernel does not say when it forgets a name, and nobody says when another client removes
 * one. So an inode keeps its newest names only, or an open file that others rename again and
 * again would take memory without end. A name that is not here may then belong to a file that
 * is open. As long as there is such an inode, inode_names_missing() says so, and whoever
 * removes or replaces a name that is not here asks the server first whose it is
 * (remove_name_asked()).
 *
 * Any thread. Each shard has a mutex for its lists. An inode's own list is guarded by the
 * inode's shard (inode.h), which is locked first.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/hash.h"
#include "nfs/nfs.h"

#define NAME_SHARDS  64u
#define NAME_BUCKETS 512u               /* in each shard */

struct inode;
struct inode_table;

struct name {
	struct hash_node by_name;       /* in the shard, newest first */
	struct name *next;              /* ino's next name, newest first */
	struct inode *ino;
	uint64_t seen_ns;               /* when it became the inode's newest, under the inode's shard */
	uint64_t delegation;            /* under the same: the file has it as long as that is held */
	uint64_t parent_id;             /* this and the next members never change */
	char text[];
};

struct name_shard {
	pthread_mutex_t mu;
	struct hash_node *by_name[NAME_BUCKETS];
	struct gone *gone;              /* for ownchange.c; or NULL */
};

/* The inode that was last seen as (parent, name), with one more reference; or NULL. */
struct inode *inode_find(struct inode_table *t, uint64_t parent, const char *name);
/* The names by which the kernel may have found ino, newest first. */
struct names_of {
	unsigned n;
	struct inode *dir[NFS_WHERE_MAX];       /* references, which the caller drops */
	char name[NFS_WHERE_MAX][NFS_NAME_MAX + 1];
};
void inode_names(struct inode_table *t, struct inode *ino, struct names_of *out);
/* Some names of some inode have not been kept: what inode_find() does not find may be one. */
bool inode_names_missing(struct inode_table *t);
/* With the lock of the inode's shard: the delegation with that number lets nobody take this name from the
 * file without a recall; does it? */
void names_hold_locked(struct inode *ino, uint64_t parent, const char *text, uint64_t delegation);
bool names_are_held_locked(struct inode *ino, uint64_t parent, const char *text, uint64_t delegation);
/* ino has this name, too. */
void inode_named(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name);
/* The name has been removed. */
void inode_unnamed(struct inode_table *t, uint64_t parent, const char *name);
/* (from, name) has been renamed to (to, newname), and has replaced what had that name. */
void inode_renamed(struct inode_table *t, uint64_t from, const char *name, uint64_t to,
		   const char *newname);
