/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unmounter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ctl/where.h"
#include "priv.h"

/* What the daemon asks for. The answer is 0 or an errno. */
enum { MOUNTED = 1, UNMOUNT };

static int sock = -1;
static pid_t pid;

/* ---- the process ---- */

/* Our mount, when the daemon has made it. */
static struct ctl_mount ours;
static bool known;

/* A search for the daemon by its command line must not find this process, too. */
static void set_title(char **argv, const char *mountpoint)
{
	char *end = argv[0];
	size_t room;

	for (char **a = argv; *a; a++)
		if (*a == end)
			end += strlen(*a) + 1;
	room = (size_t)(end - argv[0]);
	memset(argv[0], 0, room);
	snprintf(argv[0], room, "unmounts %s", mountpoint);
	prctl(PR_SET_NAME, "nfsrdma-unmount");
}

static int by_fusermount(const char *mountpoint)
{
	pid_t child = fork();
	int wstatus;

	if (child < 0)
		return errno;
	if (child == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-q", "-z", "--", mountpoint, (char *)NULL);
		_exit(127);
	}
	while (waitpid(child, &wstatus, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == 0 ? 0 : EPERM;
}

/* The daemon has just mounted there. */
static int note(const char *mountpoint)
{
	FILE *f = known ? NULL : fopen(ctl_mountinfo, "re");

	if (!f)
		return known ? EALREADY : errno;
	known = ctl_where_find(f, mountpoint, &ours) && ours.ours;
	fclose(f);
	return known ? 0 : ENOENT;
}

/* The mount that a descriptor is in; -1: unknown. */
static int mount_of(int fd)
{
	char path[64], *line = NULL;
	size_t size = 0;
	int id = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && id < 0 && getline(&line, &size, f) >= 0)
		if (sscanf(line, "mnt_id: %d", &id) != 1)
			id = -1;
	free(line);
	if (f)
		fclose(f);
	return id;
}

/*
 * Who owns a directory above the mount point may rename it at any time, and put a link to
 * anywhere in its place. So root's mount is looked for by what it is, and what a name leads to
 * is compared with it. Nobody can exchange what is open.
 */
static int by_identity(void)
{
	FILE *f = known ? fopen(ctl_mountinfo, "re") : NULL;
	char *there = f ? ctl_where_now(f, &ours) : NULL, path[64];
	int fd, err = ENOENT;

	if (f)
		fclose(f);
	fd = there ? open(there, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (fd >= 0 && mount_of(fd) == ours.id) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		err = umount2(path, MNT_DETACH) < 0 ? errno : 0;
	}
	if (fd >= 0)
		close(fd);
	free(there);
	return err;
}

static int unmount(const char *mountpoint)
{
	/* fusermount3 unmounts what is this user's only. */
	return geteuid() == 0 ? by_identity() : by_fusermount(mountpoint);
}

/* Other files would be held open: the pipe of a shell that reads the command's output, or the
 * socket by which the command learns of the daemon's death. */
static void keep_only(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
		if (null < 0 || dup2(null, i) < 0)
			close(i);
	if (fd != STDERR_FILENO + 1) {
		dup2(fd, STDERR_FILENO + 1);
		fcntl(STDERR_FILENO + 1, F_SETFD, FD_CLOEXEC);
	}
	close_range(STDERR_FILENO + 2, ~0u, 0);
}

static void __attribute__((noreturn)) serve(const char *mountpoint)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE };
	const int fd = STDERR_FILENO + 1;
	sigset_t none;
	uint8_t byte;
	ssize_t n;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (chdir("/") < 0)
		_exit(1);
	/* Only root has these. The path may lead through directories that others may not
	 * search. */
	priv_drop(1ull << CAP_SYS_ADMIN | 1ull << CAP_DAC_READ_SEARCH);
	for (;;) {
		n = recv(fd, &byte, 1, 0);
		if (n == 0 || (n < 0 && errno != EINTR))
			_exit(0);
		if (n < 0)
			continue;
		byte = (uint8_t)(byte == MOUNTED ? note(mountpoint) : unmount(mountpoint));
		send(fd, &byte, 1, MSG_NOSIGNAL);
	}
}

/* ---- the daemon's side ---- */

int unmounter_start(const char *mountpoint, char **argv, struct errbuf *eb)
{
	char *copy = strdup(mountpoint);
	int fds[2], rc;

	if (!copy)
		return err_set(eb, -ENOMEM, "out of memory");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
		rc = -errno;
		free(copy);
		return err_set(eb, rc, "cannot prepare the unmount: socketpair: %s", strerror(-rc));
	}
	pid = fork();
	if (pid == 0) {
		keep_only(fds[1]);
		set_title(argv, copy);
		serve(copy);
	}
	rc = pid < 0 ? -errno : 0;
	free(copy);
	close(fds[1]);
	if (rc) {
		close(fds[0]);
		return err_set(eb, rc, "cannot prepare the unmount: fork: %s", strerror(-rc));
	}
	sock = fds[0];
	return 0;
}

static int ask(uint8_t byte)
{
	ssize_t n;

	if (sock < 0 || send(sock, &byte, 1, MSG_NOSIGNAL) != 1)
		return -ENOTCONN;
	do {
		n = recv(sock, &byte, 1, 0);
	} while (n < 0 && errno == EINTR);
	return n == 1 ? -(int)byte : -ENOTCONN;
}

int unmounter_mounted(void)
{
	return ask(MOUNTED);
}

int unmounter_ask(void)
{
	return ask(UNMOUNT);
}

void unmounter_end(void)
{
	if (sock < 0)
		return;
	close(sock);
	sock = -1;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
