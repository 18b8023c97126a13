/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests that are given up, because their process is killed.
 *
 * While a request changes an inode, the kernel holds that inode's lock. So the server
 * executes changes of one inode in the order in which programs made them. The answer to a
 * request that is given up (EINTR) ends the lock. But the request's call may be at the
 * server, or wait for a new connection to be sent again. If it was executed late, old data
 * would replace newer data that fsync() has promised, and a new file would be removed by
 * somebody who meant the one before it.
 *
 *   nothing sent yet    the call is taken back, or never started: the server does not
 *                       hear of the change
 *   sent                the request takes over the kernel's lock: it *holds* its inodes
 *                       until it is freed. Other requests that change one of them wait.
 *
 * Who waits, and for whom: a request waits before the first call that changes something
 * (fs_in_turn), and only for requests that hold. A request that holds has sent such a call,
 * so it never waits here. So there is no deadlock. What reads is never held up.
 *
 * Threads: `held` is counted before the answer leaves, and the kernel starts no request
 * under that lock before it has the answer. So any lane that gets one sees the count.
 */
#include <errno.h>
#include "fuse/fs_impl.h"

static bool is_held(const struct fs_req *r)
{
	return (r->ino && atomic_load(&r->ino->held)) || (r->ino2 && atomic_load(&r->ino2->held));
}

static void on_turn(struct loop_timer *t)
{
	struct fs_req *r = container_of(t, struct fs_req, call.eng.timer);

	fs_in_turn(r, r->go);
}

void fs_in_turn(struct fs_req *r, void (*go)(struct fs_req *r))
{
	if (r->given_up || r->changes || !is_held(r)) {
		go(r);
		return;
	}
	r->go = go;
	loop_timer_init(&r->call.eng.timer, on_turn);
	fs_wait_more(r);
}

/* Only the first call that changes something is taken back. A later one is part of a
 * change that has begun, or puts things in order. */
static bool take_back(struct fs_req *r)
{
	return r->calling && r->changes <= fs_is_change(&r->call) && nfs_take_back(&r->call, -EINTR);
}

static void count(struct fs_req *r, int n)
{
	if (r->ino)
		atomic_fetch_add(&r->ino->held, (unsigned)n);
	if (r->ino2)
		atomic_fetch_add(&r->ino2->held, (unsigned)n);
}

void fs_hold(struct fs_req *r)
{
	r->holds = true;
	r->changes += !r->changes;
	count(r, 1);
}

bool fs_give_up(struct fs_req *r)
{
	r->given_up = true;
	if (fs_behind_give_up(r) || take_back(r))
		return true;
	if (r->changes && !r->holds)
		fs_hold(r);
	fs_reply_err(r, EINTR);
	return false;
}

void fs_hold_ends(struct fs_req *r)
{
	if (r->holds)
		count(r, -1);
	r->holds = false;
}
