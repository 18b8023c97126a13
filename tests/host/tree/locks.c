/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks that are made by making a name. Who is told that it has made one holds it,
 * says so in `owner`, and finds nobody else there. Who is told EEXIST though nobody
 * held it, nor tried to, nor was about to release it, was told wrong.
 *
 *     try      tries++, busy = 1   make the name   owner = me, busy = 0
 *     release  tries++, busy = 1, owner = 0   remove the name   busy = 0
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tree.h"

enum { BY_MKDIR, BY_SYMLINK, BY_EXCL, BY_LINK, LOCKS };

static const char *const kinds[LOCKS] = { "mkdir", "symlink", "open O_EXCL", "link" };

static struct shared {
	atomic_uint owner[LOCKS];       /* 0, or 1 + me */
	atomic_uint tries[2][LOCKS];
	atomic_uint busy[2][LOCKS];
} *shared;

static char where[4096];
static bool have[LOCKS];
static unsigned holds, records;

static void name_of(char *path, size_t size, const char *what, unsigned n)
{
	snprintf(path, size, "%s/shared/%s.%u", where, what, n);
}

void locks_make(const char *dir)
{
	char path[4200];

	snprintf(where, sizeof(where), "%s", dir);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	snprintf(path, sizeof(path), "%s/shared", dir);
	expect(mkdir(path, 0755), 0, "mkdir", path);
	for (unsigned me = 0; me < 2; me++) {
		int fd;

		name_of(path, sizeof(path), "mine", me);
		fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
		if (expect(fd, 0, "create", path))
			close(fd);
	}
}

static int make(unsigned k, unsigned me, const char *path)
{
	char mine[4200];
	int fd;

	switch (k) {
	case BY_MKDIR:
		return mkdir(path, 0755);
	case BY_SYMLINK:
		return symlink("whoever", path);
	case BY_LINK:
		name_of(mine, sizeof(mine), "mine", me);
		return link(mine, path);
	default:
		fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
		if (fd >= 0)
			close(fd);
		return fd < 0 ? -1 : 0;
	}
}

static void try_lock(unsigned k, unsigned me)
{
	unsigned other = !me, tries, before;
	bool idle;
	char path[4200];
	int rc;

	name_of(path, sizeof(path), "lock", k);
	shared->busy[me][k] = 1;
	shared->tries[me][k]++;
	tries = shared->tries[other][k];
	idle = !shared->busy[other][k] && !shared->owner[k];
	rc = make(k, me, path);
	if (rc == 0) {
		before = atomic_exchange(&shared->owner[k], 1 + me);
		if (before)
			wrong("%s %s is done, and %c holds it", kinds[k], path, (int)('a' + before - 1));
		have[k] = true;
		holds++;
	} else if (errno != EEXIST) {
		expect(rc, EEXIST, kinds[k], path);
	} else if (idle && shared->tries[other][k] == tries) {
		wrong("%s %s: '%s', and nobody held it", kinds[k], path, strerror(EEXIST));
	}
	shared->busy[me][k] = 0;
}

static void release(unsigned k, unsigned me)
{
	char path[4200];

	name_of(path, sizeof(path), "lock", k);
	shared->busy[me][k] = 1;
	shared->tries[me][k]++;
	shared->owner[k] = 0;
	expect(k == BY_MKDIR ? rmdir(path) : unlink(path), 0, "remove", path);
	have[k] = false;
	shared->busy[me][k] = 0;
}

/* Records of 16 bytes, each once. */
static void append(unsigned me)
{
	char path[4200], record[17];
	int fd;

	snprintf(path, sizeof(path), "%s/shared/log", where);
	snprintf(record, sizeof(record), "%c %013u\n", (int)('a' + me), records);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
	if (!expect(fd, 0, "open", path))
		return;
	if (write(fd, record, 16) != 16)
		wrong("append to %s: %s", path, strerror(errno));
	expect(close(fd), 0, "close", path);
	records++;
}

void locks_step(unsigned me)
{
	unsigned k = chance(LOCKS + 1);

	if (k == LOCKS)
		append(me);
	else if (have[k])
		release(k, me);
	else
		try_lock(k, me);
}

void locks_end(unsigned me, unsigned *had, unsigned *written)
{
	for (unsigned k = 0; k < LOCKS; k++)
		if (have[k])
			release(k, me);
	*had = holds;
	*written = records;
}
