/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Signals in each phase of a mount. */
#include "signals.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "daemon.h"

static struct signals sigs;
static _Atomic int begun, given_up, stopped;

static void on_begin(void *ctx)
{
	(void)ctx;
	begun++;
}

static void on_given_up(void *ctx, int sig)
{
	(void)ctx;
	given_up = sig;
}

static void on_stop(void *ctx)
{
	(void)ctx;
	stopped++;
}

static void on_stats(void *ctx)
{
	(void)ctx;
}

static const struct signals_ops ops = { on_begin, on_given_up, on_stop, on_stats };

static void nap(unsigned ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

/* In a process of its own, because signals may end it. Its status; that of what takes no signal is 0. */
static int status_of(int (*child)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct errbuf eb;

		signals_mounting_s = 1;
		signals_block();
		if (signals_start(&sigs, &ops, NULL, &eb) || begun != 1)
			_exit(99);
		_exit(child());
	}
	cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int connects(void)
{
	kill(getpid(), SIGTERM);
	nap(5000);
	return 0;
}

static int mounts_for_ever(void)
{
	signals_enter_mounting(&sigs);
	kill(getpid(), SIGTERM);
	nap(200);
	if (given_up)
		return 1;
	nap(5000);
	return 0;
}

/* The mount was there before anybody here knew of it, and has data that the server is to have first. */
static int mounts(void)
{
	signals_enter_mounting(&sigs);
	kill(getpid(), SIGTERM);
	nap(200);
	if (given_up || stopped || signals_enter_running(&sigs) != SIGTERM)
		return 1;
	nap(1500);
	if (given_up || stopped)
		return 2;
	kill(getpid(), SIGTERM);
	nap(200);
	return stopped == 1 ? 0 : 3;
}

static int runs(void)
{
	signals_enter_mounting(&sigs);
	if (signals_enter_running(&sigs))
		return 1;
	kill(getpid(), SIGTERM);
	nap(200);
	return stopped == 1 && !given_up ? 0 : 2;
}

static int ends(void)
{
	signals_enter_ending(&sigs, 7);
	kill(getpid(), SIGTERM);
	nap(5000);
	return 0;
}

static int runs_by_nohup(void)
{
	signals_enter_mounting(&sigs);
	if (signals_enter_running(&sigs))
		return 1;
	kill(getpid(), SIGHUP);
	nap(200);
	if (stopped)
		return 2;
	kill(getpid(), SIGTERM);
	nap(200);
	return stopped == 1 ? 0 : 3;
}

/* Linux keeps a signal that is blocked, though it is ignored. */
Test(signals, what_nohup_ignores, .timeout = 60)
{
	signal(SIGHUP, SIG_IGN);
	cr_assert_eq(status_of(runs_by_nohup), 0);
	signal(SIGHUP, SIG_DFL);
	cr_assert_eq(status_of(runs_by_nohup), 2);
}

Test(signals, phases, .timeout = 60)
{
	cr_assert_eq(status_of(connects), EXIT_MOUNT);
	cr_assert_eq(status_of(mounts_for_ever), EXIT_MOUNT);
	cr_assert_eq(status_of(mounts), 0);
	cr_assert_eq(status_of(runs), 0);
	cr_assert_eq(status_of(ends), 7);
}
