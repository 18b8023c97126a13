/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which pending signals mean that a process is about to end. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "fs/fs_impl.h"

static void caught(int sig)
{
	(void)sig;
}

/* A stopped process keeps its signals pending, like a process that waits for us. */
Test(fs_cred, which_signals_end_a_process, .timeout = 300)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGALRM, caught);
		signal(SIGHUP, SIG_IGN);
		raise(SIGSTOP);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	cr_assert_not(fs_dies(pid, true));
	kill(pid, SIGALRM);
	kill(pid, SIGHUP);
	kill(pid, SIGWINCH);
	kill(pid, SIGTSTP);
	cr_assert_not(fs_dies(pid, true));
	kill(pid, SIGTERM);
	cr_assert(fs_dies(pid, false));
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(fs_dies(pid, true) && !fs_dies(pid, false), "it is gone");
	cr_assert(fs_dies(0, true) && !fs_dies(0, false), "not of our name space");
}
