/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the inode table share: inode.c, names.c, told.c, opens.c, known.c.
 * Whoever calls what is "locked" holds the lock of the inode's shard, if nothing else is
 * said.
 */
#ifndef FS_INODE_IMPL_H
#define FS_INODE_IMPL_H

#include "fs/inode.h"

/* ---- inode.c ---- */

static inline struct inode_shard *inode_shard_of(struct inode_table *t, const struct inode *ino)
{
	return &t->shard[ino->hash % INODE_SHARDS];
}

/* FNV-1a, from `h` on; the high half counts, too. */
static inline uint32_t inode_hash(const void *p, size_t len, uint32_t h)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		h = (h ^ b[i]) * 16777619u;
	return h ^ h >> 15;
}

/* One more reference for who has found it in a list, and holds that list's lock: it may
 * be on its way out. false: it is. */
bool inode_ref_live(void *ino);

/* ---- names.c ---- */

void names_init(struct inode_table *t);
/* When there are no inodes any more. */
void names_fini(struct inode_table *t);
/* Where the name is listed. */
struct name_shard *names_shard_of(struct inode_table *t, uint64_t parent, const char *name);
/* (parent, text) is the inode's newest name, and the name's newest inode. */
void names_add_locked(struct inode_table *t, struct inode *ino, uint64_t parent,
		      const char *text, size_t len);
/* It has that name no longer, if it had. */
void names_remove_locked(struct inode_table *t, struct inode *ino, uint64_t parent,
			 const char *text);
/* All of them; of an inode that has no references any more. */
void names_drop(struct inode_table *t, struct inode *ino);

/* ---- told.c ---- */

/* The server has said attr; for how many seconds they may be believed. */
double told_note_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* The kernel is going to be told. */
void told_locked(struct inode *ino, const struct nfs_attr *attr);
/* The same by a listing, which is no newer than what it has been told. */
void told_listed_locked(struct inode *ino, const struct nfs_attr *attr);

/* ---- known.c ---- */

/* The name is there: with its shard's lock (names_shard_of). */
void known_here_locked(struct name_shard *s, uint64_t parent, const char *name);
/* The server has said attr: is it what is kept? What is not is thrown away. */
bool known_check_locked(struct inode *ino, const struct nfs_attr *attr);
/* The kernel is told something now. */
void known_told_locked(struct inode *ino);

#endif
