/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens and truncations that are sent back.
 *
 * An open or a truncation by name, or what comes before it, may be sent back: the answer is
 * ESTALE, and the kernel looks the name up and tries again, once. The second time it is let
 * through: either the name was looked up just now, or the file is opened without one
 * (/proc/self/fd/1), and the kernel has nothing to look up. So there is a note for each thread:
 * the inode for which it was sent back, or what it has looked up since; no note if that was not
 * there. Its next open or truncation takes the note. The note says whose it is: programs come and
 * go, and another thread for which there is the same place neither takes nor changes it. Only if
 * that is sent back as well, in this moment, the note is lost, and the open fails.
 *
 *   open(a), a is another file here     OPEN (dir, a): not r->ino      sent back: ESTALE
 *   the kernel: LOOKUP a, open          OPEN (dir, a): it is r->ino now
 *
 *   open(/proc/self/fd/1), renamed      OPEN (dir, a): not r->ino      sent back: ESTALE
 *   by another client: open             OPEN (dir, a): not r->ino      OPEN by handle
 *   with O_TRUNC: SETATTR               SETATTR (dir, a): not r->ino   SETATTR by handle
 *
 * Threads in other pid namespaces have one number, 0, and what one of them does must not take
 * another one's note: its second attempt would fail for good. So for them it is counted for
 * each inode how many were sent back there. What they look up is not known to be theirs: who finds
 * another file by the name is sent back once more, and fails, if that has changed within this
 * moment as well. And who does not come at once may have been killed.
 *
 * Any thread.
 */
#pragma once

#include "vfs/inode.h"

#define SENT_BACK     1024u             /* notes: one for pid, pid + 1024 and so on */
#define UNSEEN        64u               /* inodes to which others were sent back */

/* Threads without a number that were sent back. */
struct unseen {
	pthread_mutex_t mu;
	_Atomic uint64_t until_ns;      /* after that there are none; 0: there never were */
	struct unseen_note {
		uint64_t id, until_ns;
		unsigned count;
	} note[UNSEEN];
};

struct sent_back {
	pthread_mutex_t mu;             /* for changes of note[] */
	struct sent_note {
		_Atomic pid_t pid;      /* 0: nobody's */
		uint64_t id;            /* under mu */
	} note[SENT_BACK];
	struct unseen unseen;
};

/* s is all zero otherwise. */
void sentback_init(struct sent_back *s);
void sentback_fini(struct sent_back *s);
/* How far a request is let through: not at all, if its newest name is right, in any case. */
enum came_back { NOT_BACK, BY_NEWEST, BY_HANDLE };
/* pid's request for ino is answered with ESTALE; or ino was opened by its handle, or by its
 * newest name alone, because another name is another file's, and may be truncated so. */
void sentback_note(struct sent_back *s, const struct inode *ino, pid_t pid);
void sentback_note_unnamed(struct sent_back *s, const struct inode *ino, pid_t pid, bool newest);
/* pid has looked a name up, and it is ino; NULL: there is none. */
void sentback_looked_up(struct sent_back *s, const struct inode *ino, pid_t pid);
/* pid opens or truncates ino. Is it to be let through? truncates: to nothing, as open() with O_TRUNC
 * does after OPEN. */
enum came_back sentback_came(struct sent_back *s, const struct inode *ino, pid_t pid,
			       bool truncates);
