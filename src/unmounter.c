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
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ctl/ctl.h"
#include "ctl/where.h"
#include "fs/fs.h"
#include "priv.h"

/* What the daemon asks for, and what comes back: a descriptor with it, if rc is 0 and it was
 * to be one. A text with rc 0 is a warning. */
enum { MOUNT = 1, READ_AHEAD, CONTROL, CONTROL_END, WRITE_BACK, UNMOUNT };
struct request {
	uint32_t what, arg;
};
struct reply {
	int32_t rc;
	struct errbuf eb;
};
/* The most that a READ of this program has, with some to spare. */
#define READ_MOST (64u << 20)

static int sock = -1;
static pid_t pid;

/* ---- the process ---- */

static struct unmounter_config conf;
/* Our mount, when it has been made. */
static struct ctl_mount ours;
static bool mounted, known;
static struct ctl_socket control = { .fd = -1 };

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
		return -errno;
	if (child == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-q", "-z", "--", mountpoint, (char *)NULL);
		_exit(127);
	}
	while (waitpid(child, &wstatus, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == 0 ? 0 : -EPERM;
}

/* Which mount is it? */
static void note(struct errbuf *eb)
{
	known = ctl_where_find(conf.mountpoint, &ours) == 0 && ours.ours;
	if (!known && geteuid() == 0)
		err_set(eb, 0, "the mount is not found on '%s': it will have to be unmounted by hand",
			conf.mountpoint);
}

/* The mount that a descriptor is in; -1: unknown. The daemon is not asked. */
static int mount_of(int fd)
{
	struct statx st = { 0 };

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) < 0 ||
	    !(st.stx_mask & STATX_MNT_ID))
		return -1;
	return (int)st.stx_mnt_id;
}

/*
 * Who owns a directory above the mount point may rename it at any time, and put a link to
 * anywhere in its place. So root's mount is looked for by what it is, and what a name leads to
 * is compared with it. Nobody can exchange what is open.
 */
static int open_ours(int flags)
{
	char *there = known ? ctl_where_now(&ours) : NULL;
	int fd = there ? open(there, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -ENOENT;
	free(there);
	if (fd < 0)
		return -ENOENT;
	if (mount_of(fd) == ours.id)
		return fd;
	close(fd);
	return -EBUSY;
}

static int by_identity(void)
{
	int fd = open_ours(O_PATH), rc;
	char path[64];

	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = umount2(path, MNT_DETACH) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

/* syncfs() lets the kernel send the pages that mappings have dirtied, and does not wait for the
 * WRITEs. What close() sends comes behind them (fs_behind_pages()). */
static void __attribute__((noreturn)) write_pages(int done)
{
	int fd = open_ours(O_RDONLY | FS_MARK_FLAGS);

	_exit(fd < 0 || syncfs(fd) < 0 || close(fd) < 0 || write(done, "", 1) != 1);
}

/* A process of its own does it, because a server that is silent may hold it until the daemon has
 * closed /dev/fuse. *fd: a pipe, which has a byte when it is done, and ends with the process. */
static int write_back(int from, int *fd)
{
	int fds[2], rc = 0;
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child == 0) {
		close(from);            /* it is not what the daemon waits for */
		close(fds[0]);
		write_pages(fds[1]);
	}
	if (child < 0)
		rc = -errno;
	close(fds[1]);
	if (rc)
		close(fds[0]);
	else
		*fd = fds[0];
	return rc;
}

static int unmount(void)
{
	/* fusermount3 unmounts what is this user's only. */
	return geteuid() == 0 ? by_identity() : by_fusermount(conf.mountpoint);
}

static void to_null(int from, int to)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = from; i <= to; i++)
		if (null < 0 || dup2(null, i) < 0)
			close(i);
	if (null > STDERR_FILENO)
		close(null);
}

/* fusermount3 tells the user himself why it refuses. */
static int make_mount(uint32_t max_read, int *fd, struct errbuf *eb)
{
	if (mounted || !max_read || max_read > READ_MOST)
		return err_set(eb, -EINVAL, "there is a mount already");
	*fd = fs_kern_mount(conf.fuse_opts, max_read, conf.mountpoint, eb);
	to_null(STDERR_FILENO, STDERR_FILENO);
	if (*fd < 0)
		return *fd;
	mounted = true;
	note(eb);
	return 0;
}

static int make_control(int *fd, struct errbuf *eb)
{
	int rc = mounted && !control.name[0] ? ctl_socket_make(&control, conf.mountpoint, eb) : -EINVAL;

	*fd = control.fd;
	control.fd = -1;
	return rc;
}

/* Other files would be held open: the pipe of a shell that reads the command's output, or the
 * socket by which the command learns of the daemon's death. Standard error is for
 * fusermount3, until there is a mount. */
static void keep_only(int fd)
{
	to_null(STDIN_FILENO, STDOUT_FILENO);
	if (fd != STDERR_FILENO + 1) {
		dup2(fd, STDERR_FILENO + 1);
		fcntl(STDERR_FILENO + 1, F_SETFD, FD_CLOEXEC);
	}
	close_range(STDERR_FILENO + 2, ~0u, 0);
}

/* false: the daemon is gone. */
static bool answer(int to, const struct reply *r, int fd)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c = { .h.cmsg_len = 0 };
	struct iovec iov = { (void *)(uintptr_t)r, sizeof(*r) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		m.msg_control = &c;
		m.msg_controllen = sizeof(c.room);
		c.h = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
					.cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	}
	return sendmsg(to, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(*r);
}

static bool serve_one(int from, const struct request *q)
{
	struct reply r = { .rc = -EINVAL };
	bool there;
	int fd = -1;

	switch (q->what) {
	case MOUNT:
		r.rc = make_mount(q->arg, &fd, &r.eb);
		break;
	case READ_AHEAD:
		r.rc = known && q->arg <= READ_MOST / 1024 ?
		       fs_bdi_set(major(ours.dev), minor(ours.dev), q->arg) : -EINVAL;
		break;
	case CONTROL:
		r.rc = make_control(&fd, &r.eb);
		break;
	case CONTROL_END:
		ctl_socket_remove(&control);
		r.rc = 0;
		break;
	case WRITE_BACK:
		r.rc = write_back(from, &fd);
		break;
	case UNMOUNT:
		r.rc = unmount();
		break;
	}
	there = answer(from, &r, fd);
	if (fd >= 0)
		close(fd);
	/* The daemon has died while we mounted. */
	if (!there && q->what == MOUNT && !r.rc)
		unmount();
	return there;
}

static void __attribute__((noreturn)) serve(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE };
	const int fd = STDERR_FILENO + 1;
	struct request q;
	sigset_t none;
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
	do {
		n = recv(fd, &q, sizeof(q), 0);
	} while ((n < 0 && errno == EINTR) || (n == sizeof(q) && serve_one(fd, &q)));
	/* Of a daemon that was killed. */
	ctl_socket_remove(&control);
	_exit(0);
}

/* ---- the daemon's side ---- */

int unmounter_start(const struct unmounter_config *cfg, char **argv, struct errbuf *eb)
{
	int fds[2], rc;

	conf = (struct unmounter_config){ strdup(cfg->mountpoint), strdup(cfg->fuse_opts) };
	if (!conf.mountpoint || !conf.fuse_opts)
		return err_set(eb, -ENOMEM, "out of memory");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(eb, -errno, "cannot prepare the mount: socketpair: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		keep_only(fds[1]);
		set_title(argv, conf.mountpoint);
		serve();
	}
	rc = pid < 0 ? -errno : 0;
	free((void *)(uintptr_t)conf.mountpoint);
	free((void *)(uintptr_t)conf.fuse_opts);
	close(fds[1]);
	if (rc) {
		close(fds[0]);
		return err_set(eb, rc, "cannot prepare the mount: fork: %s", strerror(-rc));
	}
	sock = fds[0];
	return 0;
}

/* -ENOTCONN: the process is gone. A descriptor that comes goes to *fd. */
static int ask(uint32_t what, uint32_t arg, int *fd, struct errbuf *eb)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c;
	struct request q = { what, arg };
	struct reply r = { .rc = 0 };
	struct iovec iov = { &r, sizeof(r) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c,
			    .msg_controllen = sizeof(c.room) };
	const struct cmsghdr *h;
	ssize_t n;

	if (sock < 0 || send(sock, &q, sizeof(q), MSG_NOSIGNAL) != sizeof(q))
		return err_set(eb, -ENOTCONN, "the process nfsrdma-unmount is gone");
	do {
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n != sizeof(r))
		return err_set(eb, -ENOTCONN, "the process nfsrdma-unmount is gone");
	h = CMSG_FIRSTHDR(&m);
	if (fd && h && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(h), sizeof(*fd));
	if (eb)
		*eb = r.eb;
	return r.rc;
}

static int ask_fd(uint32_t what, uint32_t arg, struct errbuf *eb)
{
	int fd = -1, rc = ask(what, arg, &fd, eb);

	return rc ? rc : fd >= 0 ? fd : -EPROTO;
}

int unmounter_mount(uint32_t max_read, struct errbuf *eb)
{
	return ask_fd(MOUNT, max_read, eb);
}

int unmounter_read_ahead(unsigned kib)
{
	return ask(READ_AHEAD, kib, NULL, NULL);
}

int unmounter_control(struct errbuf *eb)
{
	return ask_fd(CONTROL, 0, eb);
}

void unmounter_control_end(void)
{
	ask(CONTROL_END, 0, NULL, NULL);
}

int unmounter_write_back(void)
{
	return ask_fd(WRITE_BACK, 0, NULL);
}

int unmounter_ask(void)
{
	return ask(UNMOUNT, 0, NULL, NULL);
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
