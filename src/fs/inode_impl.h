/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the inode table share: inode.c, names.c, told.c, opens.c, known.c.
 * The caller of a function whose name ends with "locked" holds the lock of the inode's
 * shard, unless the comment says otherwise.
 */
#ifndef FS_INODE_IMPL_H
#define FS_INODE_IMPL_H

#include "fs/inode.h"

/* ---- inode.c ---- */

static inline struct inode_shard *inode_shard_of(struct inode_table *t, const struct inode *ino)
{
	return &t->shard[ino->by_fh.hash % INODE_SHARDS];
}

/* Takes a reference to an inode that the caller has found in a list whose lock it holds.
 * false: the inode has no references any more and is about to be freed. */
bool inode_ref_live(void *ino);

/* From now on the inode is not found by its handle, nor by a name: whoever looks the file up
 * gets a new one. Whoever has it keeps it. */
void inode_leave_locked(struct inode_table *t, struct inode *ino);

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

/* ---- told.c ---- */

/* The server has sent attr. Returns for how many seconds they may be believed. */
double told_note_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* attr are about to go to the kernel, which has asked at `since`. */
void told_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since);
/* The same for attributes from a listing. */
void told_listed_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since);

/* The kernel is told attributes of young.h at a GETATTR of `since`, which were asked for at
 * `asked`. */
void told_young_locked(struct inode *ino, const struct nfs_attr *attr, uint64_t since,
		       uint64_t asked);

/* ---- young.c ---- */

/* ino is opened. Without memory nothing is kept. */
void young_begin_locked(struct inode *ino);
/* The kernel is told something else. */
void young_drop_locked(struct inode *ino);
/* Attributes were asked for at `asked`. May they be kept? To be called before the kernel is
 * told them, which drops what was kept; then they are kept by the second function, and
 * believed until `until` at most. */
bool young_takes_locked(const struct inode *ino, uint64_t asked);
void young_keep_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		       uint64_t asked, uint64_t until);

/* ---- known.c ---- */

/* The name exists, or may. The caller holds the lock of the name's shard
 * (names_shard_of()). */
void known_here_locked(struct name_shard *s, uint64_t parent, const char *name);
/* The server has sent attr, with owners. */
void known_seen_locked(struct inode *ino, const struct nfs_attr *attr);
/* The server has sent attr. Are they the same as those that are kept? If not, the kept ones
 * are dropped. */
bool known_check_locked(struct inode *ino, const struct nfs_attr *attr);
/* The server has sent attributes of ino that a change under way may be older than. */
void known_newer_locked(struct inode *ino);
/* Attributes of ino are about to go to the kernel. */
void known_told_locked(struct inode *ino);

#endif
