/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(daemon, .timeout = 300);

/*
 * Runs daemon_start() in a process of its own, as a command would, and `body`
 * in the daemon. Returns the command's wait status; what both of them wrote to
 * standard error is in `said`. tell: a pipe that outlives the command.
 */
static char said[1024];
static int tell[2];

static int command(void (*body)(void))
{
	int err[2], wstatus;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	cr_assert_eq(pipe(err), 0);
	cr_assert_eq(pipe(tell), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		struct errbuf eb;
		struct rlimit no_core = { 0, 0 };

		setrlimit(RLIMIT_CORE, &no_core);
		dup2(err[1], STDERR_FILENO);
		close(err[0]);
		close(err[1]);
		close(tell[0]);
		if (daemon_start(false, &eb))
			_exit(99);
		body();
		_exit(98);
	}
	close(err[1]);
	close(tell[1]);
	cr_assert_eq(waitpid(pid, &wstatus, 0), pid);
	while (n < sizeof(said) - 1 && (got = read(err[0], said + n, sizeof(said) - 1 - n)) > 0)
		n += (size_t)got;
	said[n] = '\0';
	close(err[0]);
	return wstatus;
}

static void expect_exit(int wstatus, int status)
{
	cr_assert(WIFEXITED(wstatus), "the command was killed");
	cr_assert_eq(WEXITSTATUS(wstatus), status, "status %d: %s", WEXITSTATUS(wstatus), said);
}

/* What the detached daemon finds around itself, as one line. */
static void report_success(void)
{
	char line[256], cwd[64] = "", in[64] = "";
	ssize_t n;

	if (daemon_report(0))
		_exit(97);
	n = readlink("/proc/self/fd/0", in, sizeof(in) - 1);
	in[n > 0 ? n : 0] = '\0';
	if (!getcwd(cwd, sizeof(cwd)))
		cwd[0] = '\0';
	fprintf(stderr, "not to be seen\n");
	/* A second report is no report. */
	snprintf(line, sizeof(line), "%d %s %s %d\n", getsid(0) == getpid(), cwd, in,
		 daemon_report(5));
	if (write(tell[1], line, strlen(line)) < 0)
		_exit(96);
	_exit(0);
}

Test(daemon, success_lets_the_command_go_and_detaches)
{
	char line[256] = "";

	expect_exit(command(report_success), 0);
	cr_assert_str_eq(said, "");
	cr_assert_gt(read(tell[0], line, sizeof(line) - 1), 0);
	cr_assert_str_eq(line, "1 / /dev/null 0\n");
}

static void stay(void)
{
	daemon_report(0);
	sleep(10);
}

Test(daemon, command_does_not_wait_for_the_daemon_to_end)
{
	struct pollfd p;

	expect_exit(command(stay), 0);
	/* Its end of the pipe is open still. */
	p = (struct pollfd){ .fd = tell[0], .events = POLLIN };
	cr_assert_eq(poll(&p, 1, 50), 0);
}

static void report_failure(void)
{
	fprintf(stderr, "nothing there\n");
	daemon_report(EXIT_MOUNT);
	usleep(100000);
	if (write(tell[1], "x", 1) < 0)
		_exit(96);
	_exit(0);
}

Test(daemon, failure_is_passed_on_when_the_daemon_has_cleaned_up)
{
	struct pollfd p;

	expect_exit(command(report_failure), EXIT_MOUNT);
	cr_assert_str_eq(said, "nothing there\n");
	p = (struct pollfd){ .fd = tell[0], .events = POLLIN };
	cr_assert_eq(poll(&p, 1, 0), 1, "the command ended before the daemon");
}

static void just_exit(void)
{
	fprintf(stderr, "no such export\n");
	_exit(EXIT_MOUNT);
}

Test(daemon, exit_without_report_is_passed_on)
{
	expect_exit(command(just_exit), EXIT_MOUNT);
	cr_assert_str_eq(said, "no such export\n");
}

static void exit_well(void)
{
	_exit(0);
}

Test(daemon, exit_zero_without_report_is_no_success)
{
	expect_exit(command(exit_well), EXIT_MOUNT);
	cr_assert(strstr(said, "gave no reason"), "%s", said);
}

static void crash(void)
{
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

Test(daemon, crash_is_told)
{
	expect_exit(command(crash), EXIT_MOUNT);
	cr_assert(strstr(said, "signal 11"), "%s", said);
	cr_assert_eq(strchr(said, '\n'), said + strlen(said) - 1, "one line: %s", said);
}

/*
 * The command is killed while the daemon is still mounting. SIGTERM comes with the
 * end of the command's first thread. The socket is closed with the last one, and
 * with ThreadSanitizer there is a second one: wait until all of it is gone, which
 * is when command() has reaped it.
 */
static void outlive(void)
{
	pid_t command_pid = getppid();
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(command_pid, SIGKILL);
	sigwait(&set, &sig);
	while (kill(command_pid, 0) == 0)
		usleep(1000);
	if (daemon_report(0) == -EPIPE && write(tell[1], "told", 4) == 4)
		_exit(0);
	_exit(95);
}

Test(daemon, killed_command_takes_the_daemon_along)
{
	char line[8] = "";
	int wstatus = command(outlive);

	cr_assert(WIFSIGNALED(wstatus));
	cr_assert_eq(read(tell[0], line, sizeof(line) - 1), 4);
	cr_assert_str_eq(line, "told");
}

/* Has the parent got to its handlers? */
static bool parent_catches(int sig)
{
	char path[64], line[256];
	unsigned long long caught = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", getppid());
	f = fopen(path, "r");
	cr_assert(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "SigCgt: %llx", &caught);
	fclose(f);
	return caught >> (sig - 1) & 1;
}

/* The command gets a signal while the daemon is still mounting. */
static void given_up(int sig)
{
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_BLOCK, &set, NULL);
	while (!parent_catches(sig))
		usleep(1000);
	kill(getppid(), sig);
	alarm(10);
	sigwait(&set, &got);
	fprintf(stderr, "given up\n");
	_exit(EXIT_MOUNT);
}

static void given_up_int(void) { given_up(SIGINT); }
static void given_up_term(void) { given_up(SIGTERM); }
static void given_up_hup(void) { given_up(SIGHUP); }

Test(daemon, signals_to_the_command_end_the_daemon_and_its_status_counts)
{
	void (*const bodies[])(void) = { given_up_int, given_up_term, given_up_hup };

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		expect_exit(command(bodies[i]), EXIT_MOUNT);
		cr_assert_str_eq(said, "given up\n");
	}
}

Test(daemon, foreground_does_nothing)
{
	struct errbuf eb;
	pid_t pid = getpid(), sid = getsid(0);

	cr_assert_eq(daemon_start(true, &eb), 0);
	cr_assert_eq(daemon_report(0), 0);
	cr_assert_eq(getpid(), pid);
	cr_assert_eq(getsid(0), sid);
}
