/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads that have the kernel drop the pages of a file, before a LOCK is answered (forget.c).
 *
 * FUSE_NOTIFY_INVAL_INODE waits for pages that are being read or written, and a lane has to bring those:
 * so no lane sends it. Nor may one file hold up another one: a file has one thread at most, and there are
 * as many as are needed, up to DROPPERS.
 *
 *   lane: dropper_drop(r) --> thread: believed_lock_begins(), the notification --> lane: r->dropped(r)
 *
 * The thread tells the kernel at once after it has looked at what the kernel has, because answers that are
 * given in between are lost (believed.h).
 *
 * A thread that waits in the kernel cannot be killed, nor can the process as long as it waits; and no
 * unmount gets on, because the notification holds the connection's `killsb`. When does the wait end?
 *
 *   the server answers the READ, or the WRITE of a dirty page    Mostly within the time of a call.
 *   SIGTERM, and the server is silent    After some seconds the unmounter aborts the connection (session.c),
 *        which ends all READs.
 *   SIGKILL    Each thread has its own table of descriptors, with nothing but the session's device, by which
 *        nobody reads, and what wakes lanes. So the lanes' devices are closed, which ends the READs that
 *        they have taken. A READ that no lane had taken stays, with a silent server: then `umount -f` helps.
 *   SIGSEGV and other signals that dump core    The kernel waits for all threads before it closes anything;
 *        `umount -f`, as long as the READ is not answered.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include "base/list.h"

struct fs_req;

#define DROPPERS 32u

/* Everything under mu. */
struct dropper {
	pthread_mutex_t mu;
	pthread_cond_t work;            /* there is some, or the threads are to end */
	pthread_cond_t ended;           /* one has */
	struct list reqs;               /* fs_req.drop.node: who waits for a thread... */
	unsigned queued;                /* ...and how many */
	unsigned threads, idle, alive;
	bool ends, abandoned;
	pthread_t tid[DROPPERS];
};

/* d is all zero otherwise. */
void dropper_init(struct dropper *d);
/* The lane's thread. r has its inode, forget_until_ns and drop.dropped, which that thread calls when
 * drop.how says what has come of it. false: there is no thread. */
bool dropper_drop(struct fs_req *r);
/* While lanes still bring pages: nobody asks any more, and who waits is answered. false: a thread does not
 * end, and touches no request any more; what else it uses (fs->se, fs) must not be freed, unless another
 * dropper_stop() has succeeded. */
bool dropper_stop(struct dropper *d, unsigned timeout_s);
void dropper_fini(struct dropper *d);
