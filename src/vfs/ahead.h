/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Read-ahead: READs that nobody has asked for yet.
 *
 *   kernel: READ 128 KiB --> ahead_read()
 *                              all of it in pieces that have come ---> answered from them
 *                              a piece of it is on its way ----------> waits for that piece
 *                              otherwise ----------------------------> a READ of its own
 *                            then, if the reads of this open follow a pattern
 *                            (ahead_track.h): READs of rsize for what comes next
 *
 * A *piece* is one such READ, and then what it has brought: a range of a file, in buffers of
 * the arena, one for each MiB. The kernel is answered from them, without a copy, in as many
 * requests as it likes. Direct reads do not use it.
 *
 * Who owns what. The pieces of a file are in its extents (extents.h), and every open of the file is
 * answered from all of them. A piece owns its buffers. It lives as long as it is in the list, or its
 * READ is under way, or a lane is answering from it: each of these has a reference.
 * The READ is a quiet request of the lane that has sent it. It has a reference to the open
 * file whose reader it was sent for, so CLOSE is sent behind it. What was fetched for a file that is
 * closed is freed then. The pattern and the window are the open file's own (struct ahead).
 *
 * Threads. The kernel's READs of one file come to any lane. A lane sends the piece's READ on
 * its own connection, and any lane answers from the piece. The file's lock (extents.mu) is held for
 * a table access, never while answering, and nothing is allocated under it. A READ that hits takes
 * it once: it finds its pieces, and what is to be fetched next. Then it is answered, and drops its
 * references without a lock. What is fetched goes into the list under the lock again, unless
 * another lane was faster.
 *
 * The mount's lock (vfs_ahead.mu) is for those who look at all files, and so at files that they
 * have no reference to: memory is short, or a lane has lost its connection. It guards the list of
 * files that have pieces. Who holds it may take those of the files in it, one at a time; the depot's
 * lock comes last. Each close() drops the pieces of its open, and looks whether any are left. So
 * the last one finds none, and takes the file off that list before the inode is freed.
 *
 * A request that waits for a piece is in extents.waits. When the READ has ended, or the piece is
 * dropped, whoever does that takes it out, and gives it back to its lane by message. There it looks
 * again from the start. So what was outdated meanwhile is noticed, and the request sends a READ of
 * its own then.
 *
 * What may be given out. The answer to a READ may be as old as the READ's sending. An answer
 * from a piece is older: as old as the sending of the piece's READ. In that time
 *
 *   - this mount may have begun to change the data (WRITE, SETATTR): then everything that was
 *     sent before, or while a change was under way, is outdated
 *   - the server may have sent attributes that differ from the newest ones before: OPEN,
 *     GETATTR, LOOKUP, whatever inode_note_locked() sees. Then so is everything sent before.
 *     If they do not differ, then the file has not changed between the attributes that were
 *     known when the READ was sent, and these. So no piece is older than the newest attributes
 *     that this mount, and so the kernel, has. That is close-to-open, and more
 *   - time has passed: a piece older than acregmin is outdated. With noac nothing is read
 *     ahead
 *
 * None of this depends on who has fetched a piece, so it does not matter that another open gets it.
 * Nor is it a question of permission: the kernel gives all opens of a file the same pages, whoever
 * they were read for. Who may open it was asked before.
 *
 * inode.data_nr counts the first two, before a change is sent and before attributes are handed
 * on. A piece is good if the count is what it was when its READ was sent, and if no change was
 * under way at that time (data_busy). Both are looked at when the piece is given out. Who
 * answers a write() before the WRITE is sent has to call ahead_change_begins() before that
 * answer, and ahead_change_ends() when the server has the data for good.
 *
 * What else may happen:
 *
 *   the connection dies     The READ is sent again on the next one, like any other. Requests
 *                           of lanes that have a connection do not wait for it (ahead_leave())
 *   READ fails              The piece is dropped, and nobody is told. A request that waits for
 *                           it sends a READ of its own, and gets the result of that
 *   fewer bytes come        The piece is shorter. A request for more sends a READ of its own
 *   the end of the file     Nothing is read beyond the size that is known. If a READ finds the
 *                           end, the answer from its piece ends there, too
 *   the process is killed   Its request is answered, and leaves when the piece comes
 *                           (start.c)
 *   the file is closed      What is under way holds the open file until it has come
 *   memory is short         Read-ahead has a quarter of the large buffers at most, or one; or
 *                           half of them, with rsize above a MiB. If
 *                           a lane finds no buffer, what nobody waits for or answers from is
 *                           freed at once, and for a second nothing is read ahead
 *
 * Nothing is read ahead either while requests wait in the lane, or fill half its window.
 */
#pragma once

#include "vfs/ahead_track.h"
#include "vfs/extents.h"

struct vfs;
struct vfs_lane;
struct vfs_op;
struct file;

/* One result is made of so many parts of pieces at most. */
#define AHEAD_PARTS 4u

/* Of an open file: its readers. All zero at the beginning. */
struct ahead {
	struct ahead_track track;
	/* Under extents.mu: */
	struct ahead_window window;
	uint64_t run_start, run_end;    /* the newest run that was read ahead of */
};

/* Of the mount. */
struct vfs_ahead {
	pthread_mutex_t mu;
	struct list files;              /* extents that have pieces, or had some lately */
	_Atomic size_t used;            /* bytes of all pieces' buffers */
	size_t most;                    /* ...and the most there may be */
	_Atomic uint64_t window;        /* the most of one open file; 0: read-ahead is off */
	_Atomic uint64_t pause_ns;      /* buffers are short: nothing before that time */
	uint64_t piece;                 /* the most bytes of a piece */
	uint64_t part;                  /* of these, so many are in one buffer */
};

/* The longest READ or WRITE that is made if all lanes together have so many large buffers. */
uint32_t vfs_longest_io(unsigned nbig);

/* Before the lanes serve the mount. window: the most bytes ahead of one reader; 0: off. */
void ahead_init(struct vfs *vfs, uint64_t window);
/* Any thread: another window. */
void ahead_change(struct vfs *vfs, uint64_t window);
/* When no lane runs any more. */
void ahead_fini(struct vfs *vfs);
/* The last reference to f is gone. */
void ahead_close(struct vfs_lane *vl, struct file *f);

/* Answers op, a READ through the page cache, from what was read ahead; or starts a READ for it.
 * Then reads ahead. Only if vfs_ahead.window is not 0. */
void ahead_read(struct vfs_op *op);

/* A lane has found no data buffer of these classes. */
void ahead_give_way(struct vfs_lane *vl, int first, int last);
/* Four times a second: frees what is too old. */
void ahead_sweep(struct vfs_lane *vl);
/* vl has a connection again, or has lost its last one. A request that waits for a piece of a lane
 * that has none, and is on a lane that has one, looks again, and gets a READ of its own. */
void ahead_leave(struct vfs_lane *vl);

/* Any thread: ino's data is about to be changed by this mount; the change has ended. */
static inline void ahead_change_begins(struct inode *ino)
{
	atomic_fetch_add(&ino->data_busy, 1);
	atomic_fetch_add(&ino->data_nr, 1);
}
static inline void ahead_change_ends(struct inode *ino)
{
	atomic_fetch_sub(&ino->data_busy, 1);
}
/* The server says that ino has changed. */
static inline void ahead_outdated(struct inode *ino)
{
	atomic_fetch_add(&ino->data_nr, 1);
}
