/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of a directory, fetched together, for LOOKUPs that follow one another.
 *
 * A program that goes through a tree by names (git status, a compile, tar) makes the kernel
 * send a LOOKUP for each file. After a few of them in one directory the next one makes a
 * listing of it:
 *
 *      LOOKUP a, b, c  -> LOOKUP        found, found, found
 *      LOOKUP d        -> READDIRPLUS   names, handles, attributes
 *      LOOKUP e, f     .  answered from here
 *
 * An entry answers LOOKUP as it answers READDIRPLUS in dir.c, and is believed no longer than
 * that: its age counts. It does so for a second, if these allow it:
 *
 *   this mount      has not begun to change the name since the listing was asked for. Changes
 *                   are counted under the lock under which a listing is taken into use
 *                   (known.h), and a listing during which one was under way is dropped.
 *   the file        is not being changed by this mount, nor was since then, nor was the
 *                   kernel told anything newer (inode_get_sibling()).
 *   the kernel      was not told ESTALE since then: it looks the name up again to hear the
 *                   truth.
 *   another client  may have changed the file, or the name. As with any entry of a listing,
 *                   open() gets the file's newest attributes, or ESTALE, and stat() sees the
 *                   change when the time is up.
 *   another user    makes a listing of his own.
 *
 * That a name is not in the listing says nothing. Another client may have made it since, and
 * said so, and a name that nobody has asked for is expected to be found then. So LOOKUP of it
 * goes to the server.
 *
 * A listing that is not used makes the next one come later, up to a minute.
 *
 * Any thread. A directory has one place, found by its id, which it may lose to another
 * directory at any time. Each place has a mutex, which may be taken while the shard of the
 * directory's inode (inode.h) is locked.
 */
#ifndef FS_SIBLINGS_H
#define FS_SIBLINGS_H

#include "fs/inode.h"

/* A listing that is being fetched. */
struct brood;

/* LOOKUP of that name: handle and attributes, and when they were asked for. false: not
 * known. */
bool siblings_here(struct inode_table *t, struct inode *dir, const struct rpc_cred *cred,
		   const char *name, struct nfs_fh *fh, struct nfs_attr *attr, uint64_t *since);
/* The server has found a name in dir. */
void siblings_found(struct inode_table *t, struct inode *dir, const struct rpc_cred *cred);
/* Is the next LOOKUP in dir to make a listing? If so, returns where to put the entries. NULL:
 * no, or no memory. */
struct brood *siblings_wanted(struct inode_table *t, struct inode *dir,
			      const struct rpc_cred *cred);
/* An entry of the listing. */
void brood_add(struct brood *b, const struct nfs_dirent *e);
void brood_free(struct brood *b);
/* The listing is there. Frees b. */
void siblings_take(struct inode_table *t, struct inode *dir, struct brood *b);
/* It has failed. Frees b. */
void siblings_failed(struct inode_table *t, struct inode *dir, struct brood *b);
/* This mount is going to make, remove or replace that name. */
void siblings_touch(struct inode_table *t, uint64_t dir_id, const char *name);

void siblings_init(struct inode_table *t);
void siblings_fini(struct inode_table *t);

#endif
