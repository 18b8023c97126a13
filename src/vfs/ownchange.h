/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this mount knows without asking the server, because it made the change itself.
 *
 * The kernel forgets a directory's attributes when a name in it changes, and a file's when
 * the file is written. Then it asks for them. The server's reply to the change had them
 * (version 3: wcc_data; version 4: GETATTR behind the change), but a front end's answer has no
 * place for them. So they are
 * kept for the one question that follows:
 *
 *      REMOVE sent ... reply, attributes ... kernel: GETATTR -> answered from here
 *
 * They are kept only if this mount can have no newer ones: between sending and reply no
 * other call that changes the inode was under way at any moment, and the kernel was told no
 * attributes. They count as old as the sending of the call, and are believed for acregmin
 * or acdirmin seconds from then. An OPEN that brings other attributes drops them.
 *
 * Version 4's replies have the attributes without owner and group (nfs4_impl.h), and
 * change_info4. Owner and group are those of an earlier reply if nobody else has changed the
 * directory since, which the change attributes say: each of this mount's changes begins
 * where the one before has ended.
 *
 * The kernel looks a name up before it creates it, or renames something to it, even if it
 * was told a moment ago that the name does not exist. So a name is remembered if this mount
 * has removed it or not found it, and no change of the directory was under way. It is
 * remembered for as long as the kernel is told to believe that (a second at most). A call
 * that may create the name first counts as a change of the directory, then forgets the
 * name, and only then is sent. A name is remembered under the lock that changes are counted
 * under, and only if none has begun since.
 *
 * Any thread. The inode's shard (inode.h) guards what is kept of an inode. A name is
 * guarded by the shard that it is listed in (names.h), which is locked last.
 */
#pragma once

#include "vfs/inode.h"

/* A call that changes ino is going to be sent. Returns the change's number, for
 * ownchange_change_ends() and ownchange_gone(); 0: other changes of ino are under way. */
uint64_t ownchange_change_begins(struct inode_table *t, struct inode *ino);
/* What a reply says of ino after the change. All members may be 0. */
struct ownchange_after {
	const struct nfs_attr *attr;
	bool no_owner;                  /* attr is without uid and gid */
	const struct nfs_dir_change *change;    /* if its `known` is set */
	uint64_t since_ns;              /* when the call was sent */
	uint64_t end;                   /* WRITE: the file is that long, at least; or 0 */
	bool unanswered;                /* the server may execute it, or do so later */
};
/* The call has ended. */
void ownchange_change_ends(struct inode_table *t, struct inode *ino, uint64_t nr,
		       const struct ownchange_after *after);
/* The same with the inode locked. */
void ownchange_change_ends_locked(struct inode_table *t, struct inode *ino, uint64_t nr,
				  const struct ownchange_after *after);
/* The inode with this name, if we know one, has been changed. unanswered: or will be. */
void ownchange_changed(struct inode_table *t, uint64_t parent, const char *name, bool unanswered);
/* The number of ino's last change, for ownchange_gone(); 0: changes are under way. */
uint64_t ownchange_changes(struct inode_table *t, struct inode *ino);
/* ino's attributes after its last change, and for how many seconds they may be believed.
 * They are returned once. false: the server has to be asked. */
bool ownchange_attr(struct inode_table *t, struct inode *ino, struct nfs_attr *attr, double *timeo);

/* The server has sent attr. Are they the same as those that are kept? If not, the kept ones
 * are dropped. */
bool ownchange_check_locked(struct inode *ino, const struct nfs_attr *attr);
/* The server has sent attributes of ino that a change under way may be older than. */
void ownchange_newer_locked(struct inode *ino);
/* Attributes of ino are about to go to the front end. */
void ownchange_told_locked(struct inode *ino);

/* The name does not exist in dir. Remembers that, if no change of dir has begun since nr. */
void ownchange_gone(struct inode_table *t, struct inode *dir, uint64_t nr, const char *name,
		uint64_t until_ns);
/* The name exists, or may. */
void ownchange_here(struct inode_table *t, uint64_t parent, const char *name);
/* For how many seconds more the name is known not to exist; 0: that is not known. */
double ownchange_is_gone(struct inode_table *t, uint64_t parent, const char *name);
