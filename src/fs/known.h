/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this mount knows without asking, because it was its own doing.
 *
 * The kernel forgets a directory's attributes when a name in it changes, and a file's
 * when it is written, and asks for them: the server's answer to the change had them
 * (version 3: wcc_data), and there is no place for them in ours to the kernel. So they
 * are kept for the one question that follows:
 *
 *      REMOVE sent ... reply, attributes ... kernel: GETATTR -> answered from here
 *
 * They are kept only if they are the newest that there can be as far as this mount goes:
 * no other call that changes the inode was under way at any moment between sending and
 * reply, and the kernel was told nothing meanwhile. They are as old as the call's
 * sending, and believed as long as the kernel would believe any (acregmin..., acdirmin...).
 * An OPEN that brings others throws them away.
 *
 * The kernel looks a name up before it makes, or renames to, what it was told a moment
 * ago is not there. A name that this mount has removed, or not found, with nothing that
 * changes the directory under way, is remembered as long as the kernel is told to
 * believe that (a second at most). Whatever may make it is a change of the directory
 * first, and then, before it is sent, forgets the name. Who remembers one looks once more,
 * with the lock that changes are counted under, whether there has been any.
 *
 * Any thread. What is kept of an inode is guarded by its shard (inode.h), a name by the
 * shard that it is listed in (names.h), which is locked last.
 */
#ifndef FS_KNOWN_H
#define FS_KNOWN_H

#include "fs/inode.h"

/* A call that changes ino is going to be sent: its number, 0 if there are others. That
 * is for known_gone(), too. */
uint64_t known_change_begins(struct inode_table *t, struct inode *ino);
/* It has ended; attr (or NULL) is what ino was afterwards, since_ns when it was sent. */
void known_change_ends(struct inode_table *t, struct inode *ino, uint64_t nr,
		       const struct nfs_attr *attr, uint64_t since_ns);
/* Something has changed the inode that has this name, if there is one. */
void known_changed(struct inode_table *t, uint64_t parent, const char *name);
/* A number for known_gone(): which change of ino was the last; 0: some are under way. */
uint64_t known_changes(struct inode_table *t, struct inode *ino);
/* What ino is after the last change, and for how many seconds that may be believed. False:
 * the server has to be asked. */
bool known_attr(struct inode_table *t, struct inode *ino, struct nfs_attr *attr, double *timeo);

/* The name is not in dir; that is kept if no change of dir has begun since nr. */
void known_gone(struct inode_table *t, struct inode *dir, uint64_t nr, const char *name,
		uint64_t until_ns);
/* It is there, or may be. */
void known_here(struct inode_table *t, uint64_t parent, const char *name);
/* For how many seconds the name is known not to be there; 0: it is not known. */
double known_is_gone(struct inode_table *t, uint64_t parent, const char *name);

#endif
