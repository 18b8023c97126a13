/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client's threads that may block: their life, and what they hear through nfs_control.cond. */
#include "base/thread.h"
#include "nfs/internal.h"

void nfs_deadline(struct timespec *ts, unsigned ms)
{
	clock_gettime(CLOCK_MONOTONIC, ts);
	ts->tv_sec += ms / 1000;
	ts->tv_nsec += (long)(ms % 1000) * 1000000;
	if (ts->tv_nsec >= 1000000000) {
		ts->tv_sec++;
		ts->tv_nsec -= 1000000000;
	}
}

int nfs_thread_start(struct nfs_thread *t, void *(*fn)(void *), void *arg)
{
	int rc = thread_start(&t->tid, fn, arg);

	t->started = rc == 0;
	return rc;
}

void nfs_thread_ended(struct nfs_control *ctl, struct nfs_thread *t)
{
	pthread_mutex_lock(&ctl->mu);
	t->ended = true;
	pthread_cond_broadcast(&ctl->cond);
	pthread_mutex_unlock(&ctl->mu);
}

bool nfs_thread_stop(struct nfs_control *ctl, struct nfs_thread *t, bool *stop,
		     unsigned timeout_ms)
{
	struct timespec ts;
	bool ok;

	if (!t->started)
		return true;
	nfs_deadline(&ts, timeout_ms);
	pthread_mutex_lock(&ctl->mu);
	*stop = true;
	pthread_cond_broadcast(&ctl->cond);
	while (!t->ended && pthread_cond_timedwait(&ctl->cond, &ctl->mu, &ts) == 0)
		;
	ok = t->ended;
	pthread_mutex_unlock(&ctl->mu);
	if (ok)
		pthread_join(t->tid, NULL);
	t->started = !ok;
	return ok;
}

void nfs_control_recover(struct nfs_client *cl)
{
	struct nfs_control *ctl = cl->control;

	pthread_mutex_lock(&ctl->mu);
	ctl->recover = true;
	pthread_cond_broadcast(&ctl->cond);
	pthread_mutex_unlock(&ctl->mu);
}
