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
#include "base/sock.h"
#include "ctl/ctl.h"
#include "ctl/turn.h"
#include "ctl/unmount.h"
#include "ctl/where.h"
#include "fuse/fs.h"
#include "priv.h"

/* What the daemon asks for, and what comes back: a descriptor with it, if rc is 0 and it was
 * to be one. A text with rc 0 is a warning. */
enum { MOUNT = 1, READ_AHEAD, SOCKET, SOCKET_END, WRITE_BACK, UNMOUNT, DETACH };
struct request {
	uint32_t what, arg;
};
struct reply {
	int32_t rc;
	struct errbuf eb;
	char name[CTL_NAME_MAX];        /* SOCKET */
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
static struct ctl_socket sockets[CTL_SOCKETS] = { { .fd = -1 }, { .fd = -1 } };

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

/* Which mount is it? */
static void unmounter_note(struct errbuf *eb)
{
	known = ctl_where_find(conf.mountpoint, &ours) == 0 && ours.ours;
	if (known)
		ctl_mount_note(&ours);
	if (!known && geteuid() == 0)
		err_set(eb, 0, "cannot find the mount on '%s': unmount it by hand",
			conf.mountpoint);
}

/* The file system of /dev/fuse, which stays while this descriptor of fsopen() is open, whoever unmounts it: then nobody
 * else gets its device number. Or -errno; -ENOTCONN: it has ended; others if this user may not (root only, and since
 * Linux 5.15). */
static int hold_file_system(int device)
{
	int fs = fsopen("fuse", FSOPEN_CLOEXEC), rc = fs < 0 ? -errno : 0;
	char number[16];

	snprintf(number, sizeof(number), "%d", device);
	if (!rc && (fsconfig(fs, FSCONFIG_SET_STRING, "fd", number, 0) < 0 ||
		    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)) {
		rc = -errno;
		close(fs);
	}
	return rc ? rc : fs;
}

/*
 * The root by another mount of the same file system, which is in no namespace and ends with the
 * descriptor. It can be opened when ours is covered, or was unmounted lazily, or its root is closed to
 * this user. fs: hold_file_system()'s. Or -1.
 */
static int root_of_another(int fs)
{
	int mnt = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	int fd = mnt < 0 ? -1 : openat(mnt, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (mnt >= 0)
		close(mnt);
	return fd;
}

static int open_root(int device)
{
	int fs = hold_file_system(device);
	int fd = fs < 0 ? -1 : root_of_another(fs);

	if (fs >= 0)
		close(fs);
	return fd < 0 ? known ? ctl_mount_open(&ours, O_RDONLY) : -ENOENT : fd;
}

/* syncfs() lets the kernel send the pages that mappings have dirtied, and does not wait for the
 * WRITEs. What close() sends comes behind them (fuse/writeback.c). device: /dev/fuse, which must
 * not be open here when the daemon closes it. 0 or -errno. */
static int write_pages(int device)
{
	int fd = open_root(device);

	close(device);
	return fd < 0 ? fd : syncfs(fd) < 0 || close(fd) < 0 ? -errno : 0;
}

static bool unmounter_tell(int to, int32_t what)
{
	return send(to, &what, sizeof(what), MSG_NOSIGNAL) == sizeof(what);
}

/* The daemon has to know this process before it opens anything (fs_config.write_back). */
static void __attribute__((noreturn)) write_pages_for(int daemon, int device)
{
	char go;

	_exit(!unmounter_tell(daemon, getpid()) || recv(daemon, &go, 1, 0) != 1 ||
	      !unmounter_tell(daemon, write_pages(device)));
}

/* A process of its own does it, because a server that is silent may hold it until the daemon has
 * closed /dev/fuse. *fd: a socket to it, which ends with the process. */
static int write_back(int from, int device, int *fd)
{
	int fds[2], rc = 0;
	pid_t child;

	while (waitpid(-1, NULL, WNOHANG) > 0)
		;                       /* those of earlier requests */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	child = fork();
	if (child == 0) {
		close(from);            /* it is not what the daemon waits for */
		close(fds[0]);
		write_pages_for(fds[1], device);
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

/* By its name alone another one might be meant, when ours is gone. */
static int unmounter_unmount(uint32_t how)
{
	if (!known && (how == FS_UNMOUNT_DEAD || geteuid() == 0))
		return -ENOENT;
	return ctl_unmount(known ? &ours : NULL, conf.mountpoint, how == FS_UNMOUNT_ABORT);
}

/* Its connection has ended. By its numbers, too, another one might be meant, where the kernel gives them to a later
 * mount and has no number of its own for each (ctl_mount_note()). */
static int unmounter_unmount_dead(int device)
{
	const bool doubtful = geteuid() == 0 && !ours.unique;
	int fs = doubtful ? hold_file_system(device) : -1;
	int rc = fs == -ENOTCONN ? -ENOENT : unmounter_unmount(FS_UNMOUNT_DEAD);

	if (fs >= 0)
		close(fs);
	return rc;
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

/* Now, and not before: the server has been heard. */
static bool remove_dead(struct errbuf *eb)
{
	struct ctl_mount dead;

	if (!ctl_dead_find(conf.mountpoint, &dead) || ctl_unmount(&dead, conf.mountpoint, false))
		return false;
	err_set(eb, 0, "the mount on '%s' had no daemon any more: it was unmounted, to be replaced", conf.mountpoint);
	return true;
}

/* Much may have happened since the first look, before the server was heard (bg): another mount was made
 * there, or the directory was removed. fusermount3 tells the user himself why it refuses. */
static int look_and_mount(uint32_t max_read, struct errbuf *eb)
{
	bool replaces = false;
	int rc;

	while (ctl_may_be_dead(rc = fs_check_mountpoint(conf.mountpoint, eb)) && remove_dead(eb))
		replaces = true;
	/* That is for who is asked at once: a mount that has waited for days does not fail because of a file. Nor does one
	 * that has taken a dead one away already. */
	if (rc == -ENOTEMPTY)
		rc = err_set(eb, 0, "the directory '%s' is not empty%s: its files are hidden by the mount", conf.mountpoint,
			     replaces ? " (below the mount that had no daemon any more, and is replaced)" : " any more");
	return rc ? rc : fs_kern_mount(conf.fuse_opts, max_read, conf.mountpoint, eb);
}

static int make_mount(uint32_t max_read, int *fd, struct errbuf *eb)
{
	struct ctl_turn turn;

	if (mounted || !max_read || max_read > READ_MOST)
		return err_set(eb, -EINVAL, "there is a mount already");
	ctl_turn_begin(&turn);
	*fd = look_and_mount(max_read, eb);
	to_null(STDERR_FILENO, STDERR_FILENO);
	mounted = *fd >= 0;
	if (mounted)
		unmounter_note(eb);
	/* Not before: what is found there is ours. */
	ctl_turn_end(&turn);
	return mounted ? 0 : *fd;
}

static int unmounter_make_socket(uint32_t kind, int *fd, struct reply *out)
{
	struct ctl_socket *s = kind < CTL_SOCKETS ? &sockets[kind] : NULL;
	int rc = s && mounted && !s->name[0] ?
		 ctl_socket_make(s, (enum ctl_socket_kind)kind, conf.mountpoint, &out->eb) : -EINVAL;

	if (!rc) {
		memcpy(out->name, s->name, sizeof(out->name));
		*fd = s->fd;
		s->fd = -1;
	}
	return rc;
}

static void unmounter_remove_sockets(void)
{
	for (unsigned i = 0; i < CTL_SOCKETS; i++)
		ctl_socket_remove(&sockets[i]);
}

/* Other files would be held open: the pipe of a shell that reads the command's output, or the
 * socket by which the command learns of the daemon's death. Standard error is for
 * fusermount3, until there is a mount, or the command has ended (bg). */
static void keep_only(int fd)
{
	to_null(STDIN_FILENO, STDOUT_FILENO);
	if (fd != STDERR_FILENO + 1) {
		dup2(fd, STDERR_FILENO + 1);
		fcntl(STDERR_FILENO + 1, F_SETFD, FD_CLOEXEC);
	}
	close_range(STDERR_FILENO + 2, ~0u, 0);
}

/* given: the descriptor that has come with it, or -1. false: the daemon is gone. */
static bool serve_one(int from, const struct request *q, int given)
{
	struct reply r = { .rc = -EINVAL };
	bool there;
	int fd = -1;

	switch (q->what) {
	case MOUNT:
		r.rc = make_mount(q->arg, &fd, &r.eb);
		/* Not before: whom an automount (autofs, systemd) does not hold up at its own mount point it knows
		 * by the process group. */
		setsid();
		break;
	case DETACH:
		to_null(STDERR_FILENO, STDERR_FILENO);
		r.rc = 0;
		break;
	case READ_AHEAD:
		r.rc = known && q->arg <= READ_MOST / 1024 ?
		       fs_bdi_set(major(ours.dev), minor(ours.dev), q->arg) : -EINVAL;
		break;
	case SOCKET:
		r.rc = unmounter_make_socket(q->arg, &fd, &r);
		break;
	case SOCKET_END:
		if (q->arg < CTL_SOCKETS)
			ctl_socket_remove(&sockets[q->arg]);
		r.rc = 0;
		break;
	case WRITE_BACK:
		r.rc = write_back(from, given, &fd);
		break;
	case UNMOUNT:
		r.rc = q->arg == FS_UNMOUNT_DEAD ? unmounter_unmount_dead(given) : unmounter_unmount(q->arg);
		break;
	}
	there = sock_send_with(from, &r, sizeof(r), fd, 0);
	if (fd >= 0)
		close(fd);
	/* It would keep the mount alive when the daemon has died. */
	if (given >= 0)
		close(given);
	/* The daemon has died while we mounted. */
	if (!there && q->what == MOUNT && !r.rc)
		unmounter_unmount(FS_UNMOUNT_LAZY);
	return there;
}

static void __attribute__((noreturn)) unmounter_serve(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE };
	const int fd = STDERR_FILENO + 1;
	struct request q;
	sigset_t none;
	int given;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir("/") < 0)
		_exit(1);
	/* Only root has these. The path may lead through directories that others may not
	 * search. */
	priv_drop(1ull << CAP_SYS_ADMIN | 1ull << CAP_DAC_READ_SEARCH);
	while (sock_receive_with(fd, &q, sizeof(q), &given, 0) == sizeof(q) && serve_one(fd, &q, given))
		;
	/* Of a daemon that was killed. */
	unmounter_remove_sockets();
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
		unmounter_serve();
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

/* -ENOTCONN: the process is gone. give: a descriptor for it, or -1. wants: the descriptor that
 * comes is returned. */
static int unmounter_ask_for(const struct request *q, int give, bool wants, struct reply *r, struct errbuf *eb)
{
	int fd;

	if (sock < 0 || !sock_send_with(sock, q, sizeof(*q), give, 0) ||
	    sock_receive_with(sock, r, sizeof(*r), &fd, 0) != sizeof(*r))
		return err_set(eb, -ENOTCONN, "the process nfsrdma-unmount is gone");
	if (eb)
		*eb = r->eb;
	return r->rc || !wants ? r->rc : fd >= 0 ? fd : -EPROTO;
}

static int unmounter_request(const struct request *q, int give, bool wants, struct errbuf *eb)
{
	struct reply r;

	return unmounter_ask_for(q, give, wants, &r, eb);
}

int unmounter_mount(uint32_t max_read, struct errbuf *eb)
{
	return unmounter_request(&(struct request){ MOUNT, max_read }, -1, true, eb);
}

void unmounter_detach(void)
{
	unmounter_request(&(struct request){ DETACH, 0 }, -1, false, NULL);
}

int unmounter_read_ahead(unsigned kib)
{
	return unmounter_request(&(struct request){ READ_AHEAD, kib }, -1, false, NULL);
}

int unmounter_control(struct errbuf *eb)
{
	return unmounter_request(&(struct request){ SOCKET, CTL_SOCKET_CONTROL }, -1, true, eb);
}

void unmounter_control_end(void)
{
	unmounter_request(&(struct request){ SOCKET_END, CTL_SOCKET_CONTROL }, -1, false, NULL);
}

int unmounter_rings(char name[UNMOUNTER_NAME_MAX], struct errbuf *eb)
{
	struct reply r;
	int fd = unmounter_ask_for(&(struct request){ SOCKET, CTL_SOCKET_RINGS }, -1, true, &r, eb);

	if (fd >= 0)
		memcpy(name, r.name, sizeof(r.name));
	return fd;
}

void unmounter_rings_end(void)
{
	unmounter_request(&(struct request){ SOCKET_END, CTL_SOCKET_RINGS }, -1, false, NULL);
}

int unmounter_write_back(int device)
{
	return unmounter_request(&(struct request){ WRITE_BACK, 0 }, device, true, NULL);
}

int unmounter_ask(enum fs_unmount how, int device)
{
	return unmounter_request(&(struct request){ UNMOUNT, how }, how == FS_UNMOUNT_DEAD ? device : -1, false, NULL);
}

void unmounter_end(void)
{
	if (sock < 0)
		return;
	close(sock);
	sock = -1;
	TEMP_FAILURE_RETRY(waitpid(pid, NULL, 0));
}
