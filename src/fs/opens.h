/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who has a file open, who takes a name of it away meanwhile, and the silly name that
 * it has got then (silly.c).
 *
 * A file that is open must not lose its last name, and nobody here can say which that is.
 * The kernel does not keep open() away from a name that is being removed, and
 * /proc/self/fd and other hard links need no name. So a call that takes a name away
 * plainly pins the file until its reply, and opens wait for that:
 *
 *   unlink(a), rename(b, a)                  open(a), on any lane
 *     inode_pin: closed? yes, pinned           inode_opening: pinned? wait, and look again
 *     REMOVE a ---> executed                     .
 *     reply: inode_unpin                         OPEN: ESTALE, and the kernel looks a up
 *                                                again; or there is another name
 *
 *     inode_pin: closed? no  <-----------------  inode_opening: not pinned: counted
 *     LINK, RENAME as in silly.c                 OPEN
 *
 * Any thread. Both decide under the lock of the inode's shard, so one of them is first.
 * Removals do not wait for opens: no circle.
 *
 * A silly name has one owner at a time: a request, then the inode, then who removes it.
 */
#ifndef FS_OPENS_H
#define FS_OPENS_H

#include "fs/inode.h"

struct silly {                          /* what is left of a name: see silly.c */
	struct inode *dir;              /* a reference, counted in its nsilly; or NULL */
	bool leaving;                   /* and in its nleaving */
	struct inode *pinned;           /* a reference: whose last name it may be; or NULL */
	char name[32];
	struct rpc_cred cred;
};

/* An open file more. attr are those that the open brought: true if the kernel
 * may keep the pages that it has. */
bool inode_open(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* The same while nobody knows yet whether it will be one. false: it is pinned, and
 * may be about to lose its last name; not counted. */
bool inode_opening(struct inode_table *t, struct inode *ino);
/* One less. At the last, what silly rename left is the caller's to remove and
 * free, and pins the inode until then; otherwise NULL. */
struct silly *inode_close(struct inode_table *t, struct inode *ino);
/* One of its names is to go, plainly: until inode_unpin() no open of it begins. false:
 * it is open, and that name is all that it has for sure. */
bool inode_pin(struct inode_table *t, struct inode *ino);
void inode_unpin(struct inode_table *t, struct inode *ino);

/* It has the name (parent, s->name), and (parent, name) no longer if name is not NULL;
 * s is the inode's from now on. false: it is not open any more (and s pins it), or has
 * a silly name already, and s stays the caller's. */
bool inode_set_silly(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name,
		     struct silly *s);
/* Is this its silly name? */
bool inode_silly_is(struct inode_table *t, struct inode *ino, const char *name);
/* The mount has ended: what silly rename left of any file that is still open, one
 * at a time; NULL: no more. The caller's to remove and free. */
struct silly *inode_take_silly(struct inode_table *t);
/* Its file has been closed: it is on its way out. */
void silly_leaves(struct silly *s);
/* Frees s, and gives back what it has of its directory. */
void silly_free(struct inode_table *t, struct silly *s);

#endif
