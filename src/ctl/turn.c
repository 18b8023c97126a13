/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TURN_MS 10              /* between two tries to lock the directory */
#define TURNS 100
#define TURNS_OF_MOUNT 1000
#define TRIES 10                /* to have a directory that another daemon removes */

static int turn_wait(const char *dir, int turns)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; fd >= 0 && i < turns; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			break;
		usleep(TURN_MS * 1000);
	}
	return fd;
}

int ctl_turn_lock(const char *dir)
{
	return turn_wait(dir, TURNS);
}

/* The lock of a directory that was removed meanwhile keeps nobody out. */
static bool turn_counts(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

void ctl_turn_begin(struct ctl_turn *t)
{
	struct errbuf eb;

	t->fd = -1;
	for (int i = 0; i < TRIES && ctl_where_make(t->dir, &eb) == 0; i++) {
		t->fd = turn_wait(t->dir, TURNS_OF_MOUNT);
		if (t->fd >= 0 && turn_counts(t->fd))
			return;
		if (t->fd >= 0)
			close(t->fd);
		t->fd = -1;
	}
}

void ctl_turn_end(struct ctl_turn *t)
{
	if (t->fd < 0)
		return;
	/* If there is no mount now, nobody else would remove it. Fails as long as there are sockets. */
	unlinkat(AT_FDCWD, t->dir, AT_REMOVEDIR);
	close(t->fd);
	t->fd = -1;
}
