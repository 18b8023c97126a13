/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

/* The daemon's end of the socket; -1: in the foreground, or when the result is reported. It
 * is a socket, because send() can be told to raise no SIGPIPE. */
static int report_fd = -1;

/* In the foreground process: the daemon, and the signals that are passed on to it. */
static pid_t daemon_pid;
static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP };

static void pass_on(int sig)
{
	kill(daemon_pid, sig);
}

/*
 * A signal that ends the command also ends the mount. The daemon logs it and cleans up, and
 * its status becomes the command's. A signal that is ignored (nohup) stays ignored.
 */
static void pass_signals_on(void)
{
	struct sigaction sa = { .sa_handler = pass_on }, was;

	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		if (sigaction(passed_on[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(passed_on[i], &sa, NULL);
}

/* The daemon has ended: the foreground process's exit status. */
static int exit_status(int reported, int wstatus)
{
	if (WIFSIGNALED(wstatus)) {
		log_err("the daemon was killed by signal %d (%s) before the mount was ready%s",
			WTERMSIG(wstatus), strsignal(WTERMSIG(wstatus)),
			WCOREDUMP(wstatus) ? "; it left a core dump" : "");
		return EXIT_MOUNT;
	}
	if (reported > 0)
		return reported;
	if (WEXITSTATUS(wstatus) != 0)
		return WEXITSTATUS(wstatus);
	log_err("the daemon ended before the mount was ready and gave no reason; "
		"-f -d shows what it does");
	return EXIT_MOUNT;
}

/* The foreground process waits for the result and exits with it. */
static void __attribute__((noreturn)) wait_for_daemon(int fd, pid_t pid)
{
	uint8_t status = 0;
	ssize_t n;
	int wstatus;

	daemon_pid = pid;
	pass_signals_on();
	n = TEMP_FAILURE_RETRY(recv(fd, &status, sizeof(status), 0));
	if (n == sizeof(status) && status == 0)
		_exit(EXIT_SUCCESS);
	if (TEMP_FAILURE_RETRY(waitpid(pid, &wstatus, 0)) < 0)
		_exit(EXIT_SYSTEM);
	_exit(exit_status(status, wstatus));
}

int daemon_start(bool foreground, struct errbuf *eb)
{
	int fds[2];
	pid_t parent = getpid(), pid;

	if (foreground)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(eb, -errno, "cannot go into the background: socketpair: %s",
			       strerror(errno));
	pid = fork();
	if (pid < 0) {
		int err = -errno;

		close(fds[0]);
		close(fds[1]);
		return err_set(eb, err, "cannot go into the background: fork: %s", strerror(-err));
	}
	if (pid > 0) {
		close(fds[1]);
		wait_for_daemon(fds[0], pid);
	}
	close(fds[0]);
	report_fd = fds[1];
	/* If the command dies, nobody learns of the mount. So the daemon is to end, too. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_MOUNT);
	return 0;
}

static void to_syslog(enum log_level level, const char *text)
{
	static const int priority[] = {
		[LOG_LVL_ERR] = LOG_ERR, [LOG_LVL_WARN] = LOG_WARNING, [LOG_LVL_INFO] = LOG_INFO,
		[LOG_LVL_DEBUG] = LOG_DEBUG,
	};

	syslog(priority[level], "%s", text);
}

static void daemon_detach(void)
{
	int null = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, 0);
	setsid();
	if (chdir("/") < 0)
		log_warn("cannot change to the directory \"/\": %s", strerror(errno));
	openlog("nfsrdma-fuse", LOG_PID, LOG_DAEMON);
	log_to(to_syslog);
	if (null < 0)
		return;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
}

int daemon_report(int status)
{
	uint8_t byte = (uint8_t)status;
	int fd = report_fd;
	ssize_t n;

	if (fd < 0)
		return 0;
	report_fd = -1;
	if (status == 0)
		daemon_detach();
	n = TEMP_FAILURE_RETRY(send(fd, &byte, sizeof(byte), MSG_NOSIGNAL));
	close(fd);
	return n == sizeof(byte) ? 0 : -EPIPE;
}
