/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who has a file open, who removes a name of it meanwhile, and the silly name that it gets
 * then (silly.c).
 *
 * A file that is open must not lose its last name, and nobody here knows which name is the
 * last. The kernel allows open() of a name that is being removed, and a file can also be
 * opened by another hard link or through /proc/self/fd. So a call that removes a name
 * plainly pins the file until its reply, and opens of the file wait for that:
 *
 *   unlink(a), rename(b, a)                  open(a), on any lane
 *     inode_pin: closed? yes, pinned           inode_opening: pinned? wait, and look again
 *     REMOVE a ---> executed                     .
 *     reply: inode_unpin                         OPEN: ESTALE, and the kernel looks a up
 *                                                again; or the file has another name
 *
 *     inode_pin: closed? no  <-----------------  inode_opening: not pinned: counted
 *     LINK, RENAME as in silly.c                 OPEN
 *
 * Any thread. Both decide under the lock of the inode's shard, so one of them is first.
 * Removals do not wait for opens, so there is no deadlock.
 *
 * An open or a truncation by name, or what comes before it, may be sent back: the answer is ESTALE, and the kernel looks the
 * name up and tries again, once. The second time it is let through: either the name was looked up
 * just now, or the file is opened without one (/proc/self/fd/1), and the kernel has nothing to look
 * up. So there is a note for each thread: the inode for which it was sent back, or what it has looked
 * up since; no note if that was not there. Its next open or truncation takes the note.
 *
 *   open(a), a is another file here     OPEN (dir, a): not r->ino      sent back: ESTALE
 *   the kernel: LOOKUP a, open          OPEN (dir, a): it is r->ino now
 *
 *   open(/proc/self/fd/1), renamed      OPEN (dir, a): not r->ino      sent back: ESTALE
 *   by another client: open             OPEN (dir, a): not r->ino      OPEN by handle
 *   with O_TRUNC: SETATTR               SETATTR (dir, a): not r->ino   SETATTR by handle
 *
 * Threads in other pid name spaces have one number, 0, and what one of them does must not take
 * another one's note: its second attempt would fail for good. So for them it is counted for
 * each inode how many were sent back there. What they look up is not known to be theirs: who finds
 * another file by the name is sent back once more, and fails, if that has changed within this
 * moment as well. And who does not come at once may have been killed.
 *
 * A silly name has one owner at a time: the request that makes it, then the inode, then
 * the request that removes it.
 */
#ifndef VFS_OPENS_H
#define VFS_OPENS_H

#include "base/loop.h"
#include "vfs/inode.h"

struct silly {                          /* a silly name: see silly.c */
	struct inode *dir;              /* a reference; counted in dir->nsilly; or NULL */
	bool leaving;                   /* counted in dir->nleaving as well */
	struct inode *pinned;           /* a reference: the file, if it is pinned; or NULL */
	char name[32];
	struct rpc_cred cred;
	struct loop_msg msg;            /* on its way to another lane */
};

/* How far a request is let through: not at all, if its newest name is right, in any case. */
enum came_back { NOT_BACK, BY_NEWEST, BY_HANDLE };
/* pid's request for ino is answered with ESTALE; or ino was opened by its handle, or by its
 * newest name alone, because another name is another file's, and may be truncated so. */
void inode_sends_back(struct inode_table *t, const struct inode *ino, pid_t pid);
void inode_opened_unnamed(struct inode_table *t, const struct inode *ino, pid_t pid, bool newest);
/* pid has looked a name up, and it is ino; NULL: there is none. */
void inode_looked_up(struct inode_table *t, const struct inode *ino, pid_t pid);
/* pid opens or truncates ino. Is it to be let through? */
enum came_back inode_came_back(struct inode_table *t, const struct inode *ino, pid_t pid,
			       bool truncates);

/*
 * Counts another open file. attr are from its OPEN, which was sent at `asked`; 0: from CREATE,
 * and the kernel was told them. true: the kernel may keep its pages. Otherwise it drops them when
 * the process that opens goes on, and not when the answer is given. The first request through the
 * open file shows that it has: then inode_dropped() follows. Before that no other open may keep the
 * pages.
 *
 *   lane 0: OPEN, change 10: drop     lane 1: OPEN, change 10: must not keep, there are pages of 9
 *   process 0 drops, and reads: READ: inode_dropped(10)
 *                                     OPEN, change 10: may keep
 */
bool inode_open(struct inode_table *t, struct inode *ino, const struct nfs_attr *attr,
		uint64_t asked);
/* The kernel has dropped its pages after an OPEN that brought that change attribute. */
void inode_dropped(struct inode_table *t, struct inode *ino, uint64_t change);
/* Counts an open whose OPEN has no reply yet. false: not counted, because the file is
 * pinned and may be about to lose its last name. */
bool inode_opening(struct inode_table *t, struct inode *ino);
/* Ends what one of these two has counted. If it was the last one, returns the file's silly
 * name, if it has one: the caller removes and frees that, and it pins the inode until then.
 * Otherwise NULL. */
struct silly *inode_close(struct inode_table *t, struct inode *ino);
/* The caller is going to remove a name of the file plainly: no open of the file begins
 * until inode_unpin(). false: the file is open, and may have no other name. */
bool inode_pin(struct inode_table *t, struct inode *ino);
void inode_unpin(struct inode_table *t, struct inode *ino);

/* The file has the name (parent, s->name) now, and has lost (parent, name) unless name is
 * NULL. s becomes the inode's. false: s stays the caller's. Then either the file is not
 * open any more, and s pins it, or the file has a silly name already. */
bool inode_set_silly(struct inode_table *t, struct inode *ino, uint64_t parent, const char *name,
		     struct silly *s);
/* Is this the inode's silly name? */
bool inode_silly_is(struct inode_table *t, struct inode *ino, const char *name);
/* After the mount has ended: returns the silly names of files that are still open, one at a
 * time; NULL: no more. The caller removes and frees them. */
struct silly *inode_take_silly(struct inode_table *t);
/* The file of s has been closed, and s is about to be removed. */
void silly_leaves(struct silly *s);
/* Frees s, and drops its references and counts. */
void silly_free(struct inode_table *t, struct silly *s);

#endif
