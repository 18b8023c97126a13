/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of the sockets. Other daemons of the same user may be at work in its
 * directory: the next mount of the same device number puts its socket in the place of ours,
 * and the last daemon to end removes the directory. They take turns (turn.h), so that nobody removes
 * what another one has just made. If a turn does not come, the file is made anyway.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/impl.h"
#include "ctl/turn.h"

#define TRIES 10                /* to have a directory that another daemon removes */

/* The device number of our own mount. */
static int find_mount(const char *mountpoint, struct ctl_mount *m, struct errbuf *eb)
{
	int rc = ctl_where_find(mountpoint, m);

	if (rc && rc != -ENODEV)
		return err_set(eb, rc, "cannot read %s: %s", ctl_mountinfo, strerror(-rc));
	if (!rc && m->ours && m->owner == geteuid())
		return 0;
	return err_set(eb, -ENOENT, "'%s' is not in %s, or something else is mounted over it",
		       mountpoint, ctl_mountinfo);
}

static int bind_to(struct ctl_socket *s, int fd, mode_t mode)
{
	_Static_assert(sizeof(((struct sockaddr_un *)NULL)->sun_path) == CTL_NAME_MAX, "unix(7)");
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct stat st;
	int rc;

	memcpy(un.sun_path, s->name, sizeof(un.sun_path));
	/* Before bind() this is the most that the file's mode will allow. */
	if (fchmod(fd, mode) < 0 || (unlink(s->name) < 0 && errno != ENOENT) ||
	    bind(fd, (struct sockaddr *)&un, sizeof(un)) < 0)
		return -errno;
	/* The umask has had its say. */
	if (chmod(s->name, mode) == 0 && lstat(s->name, &st) == 0 && listen(fd, SOMAXCONN) == 0) {
		s->dev = st.st_dev;
		s->ino = st.st_ino;
		return 0;
	}
	rc = -errno;
	unlink(s->name);
	return rc;
}

static int make_socket(struct ctl_socket *s, enum ctl_socket_kind kind, const char *dir, struct errbuf *eb)
{
	int type = kind == CTL_SOCKET_RINGS ? SOCK_SEQPACKET : SOCK_STREAM, lock, rc;
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_set(eb, -errno, "cannot make a socket: %s", strerror(errno));
	lock = ctl_turn_lock(dir);
	rc = bind_to(s, fd, kind == CTL_SOCKET_RINGS ? 0666 : 0600);
	if (lock >= 0)
		close(lock);
	if (rc) {
		close(fd);
		err_set(eb, rc, "cannot make the socket '%s': %s", s->name, strerror(-rc));
		s->name[0] = '\0';
		return rc;
	}
	s->fd = fd;
	return 0;
}

int ctl_socket_make(struct ctl_socket *s, enum ctl_socket_kind kind, const char *mountpoint, struct errbuf *eb)
{
	char dir[CTL_DIR_MAX];
	struct ctl_mount m;
	int rc = find_mount(mountpoint, &m, eb);

	if (rc)
		return rc;
	for (int i = 0; i < TRIES; i++) {
		rc = kind == CTL_SOCKET_RINGS ? ctl_where_make_rings(dir, eb) : ctl_where_make(dir, eb);
		if (!rc) {
			ctl_where_name(dir, &m, s->name);
			if (kind == CTL_SOCKET_RINGS)
				strncat(s->name, ".rings", sizeof(s->name) - strlen(s->name) - 1);
			rc = make_socket(s, kind, dir, eb);
		}
		/* The directory has just been removed. */
		if (rc != -ENOENT)
			break;
	}
	return rc;
}

/* Removes the file if it is still ours: the device number may be another mount's by now. */
void ctl_socket_remove(struct ctl_socket *s)
{
	char dir[sizeof(s->name)];
	struct stat st;
	int lock;

	if (!s->name[0])
		return;
	memcpy(dir, s->name, sizeof(dir));
	*strrchr(dir, '/') = '\0';
	lock = ctl_turn_lock(dir);
	if (lstat(s->name, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino &&
	    unlink(s->name) < 0)
		log_warn("cannot remove '%s': %s", s->name, strerror(errno));
	/* Fails as long as there are others. Not rmdir(), which is on no list (sandbox.c). */
	unlinkat(AT_FDCWD, dir, AT_REMOVEDIR);
	if (lock >= 0)
		close(lock);
	s->name[0] = '\0';
}

void ctl_socket_close(struct ctl_socket *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}
