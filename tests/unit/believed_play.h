/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vfs and front.c do when attributes and opens come, for tests that have no operations. */
#pragma once

#include "fuse/believed.h"
#include "vfs/opencount.h"
#include "vfs/ownchange.h"

static inline double believed_play_note(struct inode_table *table, struct inode *ino, const struct nfs_attr *attr)
{
	double timeo = inode_note_locked(table, ino, attr);

	ownchange_told_locked(ino);
	return timeo;
}

/* As an answer that may be kept for `known` seconds. Returns for how many it may be believed. */
static inline double believed_answer(struct inode_table *table, struct inode *ino,
				     const struct nfs_attr *attr, uint64_t since, uint64_t asked, double known)
{
	uint64_t until = known < 1e6 ? mono_ns() + (uint64_t)(known * 1e9) : UINT64_MAX;
	double timeo;

	inode_lock(table, ino);
	timeo = believed_play_note(table, ino, attr);
	believed_answer_locked(table, ino, attr, since, asked, until);
	inode_unlock(table, ino);
	return known < timeo ? known : timeo;
}

/* The same, and it is not kept. */
static inline double believed_update(struct inode_table *table, struct inode *ino,
				     const struct nfs_attr *attr, uint64_t since)
{
	return believed_answer(table, ino, attr, since, 0, 1e9);
}

/* The same for SETATTR. */
static inline double believed_set(struct inode_table *table, struct inode *ino, struct nfs_attr *attr,
				  uint64_t since, uint64_t asked)
{
	double timeo;

	inode_lock(table, ino);
	timeo = believed_play_note(table, ino, attr);
	if (!believed_set_locked(table, ino, attr, since, asked, false))
		timeo = 0;
	inode_unlock(table, ino);
	return timeo;
}

/* e: NULL: the end of one that nobody looks at. */
static inline bool believed_open(struct inode_table *table, struct inode *ino, struct open_end *e,
				 const struct nfs_attr *attr, uint64_t asked)
{
	struct open_end none;
	bool keep;

	inode_lock(table, ino);
	keep = believed_open_locked(table, ino, e ? e : &none, attr, asked,
				    opencount_open_locked(table, ino, attr));
	if (!e)
		list_del(&none.node);
	inode_unlock(table, ino);
	return keep;
}
