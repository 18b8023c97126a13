/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See signals.h. */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "daemon.h"
#include "sandbox.h"

/* Mounting waits for this machine only. If it takes so long after a signal (fusermount3
 * hangs, for example in a directory that does not answer), the process ends anyway:
 * fusermount3 undoes a mount when nobody is there to take it. */
unsigned signals_mounting_s = 5;

/* nohup: it stays so. While a signal is blocked the kernel keeps it though it is ignored, and sigwait takes it. */
static bool signals_ignores(int sig)
{
	struct sigaction was;

	return sigaction(sig, NULL, &was) == 0 && was.sa_handler == SIG_IGN;
}

static void signals_ours(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	if (!signals_ignores(SIGHUP))
		sigaddset(set, SIGHUP);
	sigaddset(set, SIGUSR1);
	sigaddset(set, SIGUSR2);        /* from sandbox.c */
}

static void on_end_signal(struct signals *s, int sig)
{
	pthread_mutex_lock(&s->mu);
	switch (s->phase) {
	case CONNECTING:
		s->ops->given_up(s->ctx, sig);
		/* With the lock held, so that MOUNTING cannot begin. */
		_exit(EXIT_MOUNT);
	case MOUNTING:
		s->ended_by = sig;
		break;
	case RUNNING:
		s->ops->stop(s->ctx);
		break;
	case ENDING:
		_exit(s->status);
	}
	pthread_mutex_unlock(&s->mu);
}

/* So long after a signal that came while MOUNTING. */
static void on_no_patience(struct signals *s)
{
	pthread_mutex_lock(&s->mu);
	if (s->phase == MOUNTING) {
		s->ops->given_up(s->ctx, s->ended_by);
		_exit(EXIT_MOUNT);
	}
	pthread_mutex_unlock(&s->mu);
}

static void on_stats_signal(struct signals *s)
{
	pthread_mutex_lock(&s->mu);
	s->stats_asked = s->phase < RUNNING;
	/* With the lock held, because the counters are freed when the phase is ENDING. */
	if (s->phase == RUNNING)
		s->ops->stats(s->ctx);
	pthread_mutex_unlock(&s->mu);
}

static void *signals_main(void *arg)
{
	const struct timespec patience = { .tv_sec = signals_mounting_s };
	struct signals *s = arg;
	sigset_t set;
	int sig, state;

	s->ops->begin(s->ctx);
	sem_post(&s->ready);
	signals_ours(&set);
	for (;;) {
		sig = s->ended_by ? sigtimedwait(&set, NULL, &patience) : sigwaitinfo(&set, NULL);
		/* The thread must not be cancelled with the lock held, or with half a file
		 * written. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		if (sig < 0 && errno == EAGAIN)
			on_no_patience(s);
		else if (sig == SIGUSR1)
			on_stats_signal(s);
		else if (sig == SIGUSR2)
			sandbox_log();
		else if (sig > 0)
			on_end_signal(s, sig);
		pthread_setcancelstate(state, NULL);
	}
	return NULL;
}

void signals_enter_mounting(struct signals *s)
{
	pthread_mutex_lock(&s->mu);
	s->phase = MOUNTING;
	pthread_mutex_unlock(&s->mu);
}

int signals_enter_running(struct signals *s)
{
	int sig;

	pthread_mutex_lock(&s->mu);
	sig = s->ended_by;
	s->phase = RUNNING;
	if (s->stats_asked)
		pthread_kill(s->thread, SIGUSR1);
	pthread_mutex_unlock(&s->mu);
	return sig;
}

void signals_enter_ending(struct signals *s, int status)
{
	pthread_mutex_lock(&s->mu);
	s->phase = ENDING;
	s->status = status;
	pthread_mutex_unlock(&s->mu);
}

void signals_block(void)
{
	sigset_t set;

	signals_ours(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int signals_start(struct signals *s, const struct signals_ops *ops, void *ctx, struct errbuf *eb)
{
	int err;

	*s = (struct signals){ .ops = ops, .ctx = ctx, .mu = PTHREAD_MUTEX_INITIALIZER };
	sem_init(&s->ready, 0, 0);
	err = pthread_create(&s->thread, NULL, signals_main, s);
	if (err)
		return err_set(eb, -err, "cannot start a thread: %s", strerror(err));
	while (sem_wait(&s->ready))
		;
	return 0;
}

void signals_stop(struct signals *s)
{
	pthread_cancel(s->thread);
	pthread_join(s->thread, NULL);
}
