/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is known of a file as long as it has a delegation: its attributes, and its name. GETATTR and OPEN are
 * answered by that, until this mount changes the file itself (and gives a delegation to read back):
 *
 *      GETATTR is sent: delegation 7, so many own changes     reply: 7 still, and no other change
 *      GETATTR: 7 still, and no other change: the same attributes, as if the server had been asked now
 *
 * The attributes of OPEN's reply are kept, too, if it has brought the delegation, or was sent under it; they
 * may be older than a delegation that another OPEN has brought. Then a further open (under one to read: to
 * read) needs no call:
 *
 *      open(a): OPEN, with its name: delegation 7      the name is still the file's: held by 7
 *      close: the OPEN stays at the server (nfs4_kept.c)
 *      open(a): 7 still, and no own change: that OPEN, those attributes
 *
 * The kernel opens what it has found by a name, some time ago, and OPEN asks whether that is still the
 * file's (file.c). Servers recall a delegation before anybody else takes a name from the file, or gives it to
 * another one (RFC 8881, section 10.4). So a name of which the server has said, when the delegation was
 * there, that it is the file's, is that until the delegation goes; and a file with one name (nlink) has no
 * other. This mount's own REMOVE or RENAME drops the delegation first. A directory above may be moved: then
 * the file is still what that name in that directory means, as without a delegation.
 *
 * A delegation to write stays while this mount changes the file's data. A change's reply that has attributes
 * (SETATTR, ALLOCATE, CLONE) has the newest ones, if no other change was under way. WRITE's has none: what is known
 * then is not believed until the server was asked once more; but how long the file is, is known all the same,
 * because nobody else makes it longer or shorter.
 *
 *      CB_GETATTR: promised_asked()     how long the file is, when all that is held is written; and the change
 *                                       attribute, as last known, and one more if the server lacks some data
 *
 * That is RFC 8881, section 10.4.3: the server takes another change for "it is being changed there", tells
 * others that size, and makes the times itself; the same change says that its own attributes are right. So an old
 * one is as good, if the server has everything. The answer is given where the question comes, from under two
 * locks that nobody waits with. What is held is looked at first: a WRITE that leaves it has counted here before.
 * If the file's length is not known for sure (a change has failed, or has no answer; the file has two names; its
 * inode was forgotten) that is what is answered, and the server recalls the delegation. In between:
 *
 *   a recall       The answers go on until the server has the delegation, by the number of that.
 *   the connection dies        The question comes again, and the answer is a new one.
 *   programs write meanwhile   It is answered as before that, or after.
 *
 * (What the kernel's pages have, and the daemon was not told yet - mappings, and all with consistency=solo -
 * nobody is told.)
 *
 * What that does not hold for is asked for:
 *
 *   the time of access      after each READ of this mount, unless that is this mount's to say (RFC 9754,
 *                           NFS_DELEGATION_TIMES); others' reads are seen when something else has
 *                           the server asked. Nobody hears of it by OPEN, so that is answered all the same,
 *                           and its attributes count as being as old as they are (asked_ns)
 *   a file with several names    This mount may remove one of which nobody here knows that it is the file's.
 *   a change without an answer   The server may execute it at any time, and recalls nothing from who has sent
 *                           it: nothing is believed of that file any more.
 *   another change attribute     in any reply since, whatever the server has promised
 *   blocks                  while there are fewer than the size needs, and the change is young; of GETATTR
 *
 * On the operation's lane; struct promised is under the inode's shard.
 */
#pragma once

#include "nfs/nfs.h"
#include "vfs/ownchange.h"
#include "vfs/vfs.h"

static inline uint64_t promised_delegation(const struct vfs_op *op)
{
	return nfs_delegated(op->vl->lane->target.server, &op->ino->file);
}

/* GETATTR, or BIRTH. true: op has its results, without a call. Otherwise the second one follows when the
 * call has brought them. op->attr.delegation is set, and not 0. */
bool promised_attr(struct vfs_op *op, bool birth);
void promised_keep(struct vfs_op *op);
/* LOOKUP has found that file. true: op has its attributes, without a call. */
bool promised_attr_of(struct vfs_op *op, struct inode *ino);
/* A READ of a file with a delegation has ended. */
void promised_read(struct inode *ino);
/* The same of OPEN. */
bool promised_opens(struct vfs_op *op);
void promised_opened(struct vfs_op *op);
/* Before ownchange_change_ends_locked(), for the change with that number, and under the same lock. */
void promised_changed_locked(struct inode *ino, uint64_t nr, const struct ownchange_after *after);

/* A member of struct nfs_front. */
bool promised_asked(struct nfs_lane *l, const struct nfs_delegation *d, uint64_t *size, uint64_t *change);

/* So long after a change the server has given the file its blocks; a variable for the tests. */
extern uint64_t promised_settles_ns;
