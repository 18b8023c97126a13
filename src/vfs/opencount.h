/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many opens a file has, which calls remove a name of it meanwhile, and the silly name that
 * it gets then (silly.c).
 *
 * A file that is open must not lose its last name, and nobody here knows which name is the
 * last. The kernel allows open() of a name that is being removed, and a file can also be
 * opened by another hard link or through /proc/self/fd. So a call that removes a name
 * plainly pins the file until its reply, and opens of the file wait for that:
 *
 *   unlink(a), rename(b, a)                  open(a), on any lane
 *     opencount_pin: closed? yes, pinned           opencount_opening: pinned? wait, and look again
 *     REMOVE a ---> executed                     .
 *     reply: opencount_unpin                         OPEN: ESTALE, and the kernel looks a up
 *                                                again; or the file has another name
 *
 *     opencount_pin: closed? no  <-----------------  opencount_opening: not pinned: counted
 *     LINK, RENAME as in silly.c                 OPEN
 *
 * Any thread. Both decide under the lock of the inode's shard, so one of them is first.
 * Removals do not wait for opens, so there is no deadlock.
 *
 * A silly name has one owner at a time: the request that makes it, then the inode, then
 * the request that removes it.
 */
#pragma once

#include "base/loop.h"
#include "vfs/inode.h"

struct silly {                          /* a silly name: see silly.c */
	struct inode *dir;              /* a reference; counted in dir->nsilly */
	bool leaving;                   /* counted in dir->nleaving as well */
	struct inode *pinned;           /* a reference: the file, if it is pinned; or NULL */
	char name[32];
	struct rpc_cred cred;
	struct loop_msg msg;            /* on its way to another lane */
};

/* Counts another open file, whose OPEN has brought attr. Returns whether it is the only one. */
bool opencount_open_locked(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr);
/* Counts an open whose OPEN has no reply yet. false: not counted, because the file is
 * pinned and may be about to lose its last name. */
bool opencount_opening(struct inode_table *t, struct inode *ino);
/* Ends what one of these two has counted. If it was the last one, returns the file's silly
 * name, if it has one: the caller removes and frees that, and it pins the inode until then.
 * Otherwise NULL. */
struct silly *opencount_close(struct inode_table *t, struct inode *ino);
/*
 * The caller has counted an open, which is to be sent back to look the name up. If that is the only
 * one, and no change is under way, the inode is left (inode_leave_locked()). So two inodes of one
 * file are never open, and an old change of the one does not meet newer ones of the other. If it
 * is not left it stays for a while: who comes back with it must find it.
 */
void opencount_leave(struct inode_table *t, struct inode *ino);
/* The same question, with the lock. */
bool opencount_may_leave_locked(const struct inode *ino);
/* The caller is going to remove a name of the file plainly: no open of the file begins
 * until opencount_unpin(). false: the file is open, and may have no other name. */
bool opencount_pin(struct inode_table *t, struct inode *ino);
void opencount_unpin(struct inode_table *t, struct inode *ino);

/* The file has the name (parent, s->name) now, and has lost (parent, name) unless name is
 * NULL. s becomes the inode's. false: s stays the caller's. Then either the file is not
 * open any more, and s pins it, or the file has a silly name already. */
bool opencount_set_silly(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name,
		     struct silly *s);
/* Is this the inode's silly name? */
bool opencount_silly_is(struct inode_table *t, struct inode *ino, const char *name);
/* After the mount has ended: returns the silly names of files that are still open, one at a
 * time; NULL: no more. The caller removes and frees them. */
struct silly *opencount_take_silly(struct inode_table *t);
/* The file of s has been closed, and s is about to be removed. */
void opencount_silly_leaves(struct silly *s);
/* Frees s, and drops its references and counts. */
void opencount_silly_free(struct inode_table *t, struct silly *s);
