/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See dropper.h. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/thread.h"
#include "fuse/dropper.h"
#include "fuse/fs_impl.h"

/* ---- the threads ---- */

static int dropper_compare(const void *a, const void *b)
{
	const unsigned *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Its own table of descriptors: standard error, the session's device, and what wakes lanes. Some
 * containers refuse that; then all stays as it is. */
static void dropper_unshare(const struct fs *fs)
{
	unsigned keep[NFS_LANES_MAX + 1], n = 0, from = STDERR_FILENO + 1;

	/* Linux has that since 5.9. With a table that keeps all it would be worse than without. */
	if (close_range(~0u, ~0u, 0) || unshare(CLONE_FILES))
		return;
	keep[n++] = (unsigned)fuse_session_fd(fs->se);
	for (unsigned i = 0; i < fs->vfs.nlanes; i++)
		keep[n++] = (unsigned)loop_wake_fd(fs->vfs.lanes[i]->lane->loop);
	qsort(keep, n, sizeof(keep[0]), dropper_compare);
	for (unsigned i = 0; i < n; from = keep[i++] + 1)
		if (keep[i] > from)
			close_range(from, keep[i] - 1, 0);
	close_range(from, ~0u, 0);
}

static void on_dropped(struct loop_msg *m)
{
	struct fs_req *r = container_of(m, struct fs_req, drop.msg);

	r->drop.dropped(r);
}

/* Without the lock. The kernel waits here, if it waits. */
static void dropper_tell(struct fs *fs, struct fs_req *r)
{
	struct inode_table *t = &fs->vfs.inodes;
	bool waits = mono_ns() < r->forget_until_ns;

	r->drop.how = believed_lock_begins(t, r->op.ino, waits, true);
	if (r->drop.how == FORGET_TELL)
		fuse_lowlevel_notify_inval_inode(fs->se, fs_node(fs, r->op.ino), 0, 0);
}

/* With the lock. */
static struct fs_req *dropper_next(struct dropper *d)
{
	struct list *n;

	while (!(n = list_pop(&d->reqs))) {
		if (d->ends)
			return NULL;
		d->idle++;
		pthread_cond_wait(&d->work, &d->mu);
		d->idle--;
	}
	d->queued--;
	return container_of(n, struct fs_req, drop.node);
}

static void *dropper_main(void *arg)
{
	struct fs *fs = arg;
	struct dropper *d = &fs->dropper;
	struct fs_req *r;

	dropper_unshare(fs);
	pthread_mutex_lock(&d->mu);
	while ((r = dropper_next(d))) {
		pthread_mutex_unlock(&d->mu);
		dropper_tell(fs, r);
		pthread_mutex_lock(&d->mu);
		if (d->abandoned)       /* r is gone */
			break;
		if (r->drop.how == FORGET_TELL)
			believed_lock_ends(&fs->vfs.inodes, r->op.ino);
		loop_post(r->op.vl->lane->loop, &r->drop.msg);
	}
	d->alive--;
	pthread_cond_signal(&d->ended);
	pthread_mutex_unlock(&d->mu);
	return NULL;
}

/* With the lock. One more thread, if that is needed and possible. */
static void dropper_start(struct fs *fs)
{
	struct dropper *d = &fs->dropper;
	int rc;

	if (d->queued <= d->idle || d->threads == DROPPERS)
		return;
	rc = thread_start(&d->tid[d->threads], dropper_main, fs);
	if (!rc) {
		d->threads++;
		d->alive++;
	} else if (!d->threads) {
		log_err("cannot start the thread that has the kernel drop pages: %s", strerror(-rc));
	}
}

/* ---- for lanes ---- */

bool dropper_drop(struct fs_req *r)
{
	struct fs *fs = fs_of_req(r);
	struct dropper *d = &fs->dropper;
	bool taken;

	r->drop.msg.fn = on_dropped;
	pthread_mutex_lock(&d->mu);
	list_add_tail(&d->reqs, &r->drop.node);
	d->queued++;
	if (!d->ends)
		dropper_start(fs);
	taken = d->alive && !d->ends;
	if (taken) {
		pthread_cond_signal(&d->work);
	} else {
		list_del(&r->drop.node);
		d->queued--;
	}
	pthread_mutex_unlock(&d->mu);
	return taken;
}

/* ---- life ---- */

void dropper_init(struct dropper *d)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&d->mu, NULL);
	pthread_cond_init(&d->work, NULL);
	pthread_cond_init(&d->ended, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&d->reqs);
}

bool dropper_stop(struct dropper *d, unsigned timeout_s)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_s;
	pthread_mutex_lock(&d->mu);
	d->ends = true;
	pthread_cond_broadcast(&d->work);
	while (d->alive && !rc)
		rc = pthread_cond_timedwait(&d->ended, &d->mu, &until);
	d->abandoned = d->alive;
	pthread_mutex_unlock(&d->mu);
	for (unsigned i = 0; i < d->threads && !d->abandoned; i++)
		pthread_join(d->tid[i], NULL);
	return !d->abandoned;
}

void dropper_fini(struct dropper *d)
{
	pthread_mutex_destroy(&d->mu);
	pthread_cond_destroy(&d->work);
	pthread_cond_destroy(&d->ended);
}
