/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/meminfo.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX 8192

static int open_in(const char *folder, const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* All of a short file, from its beginning. false: it cannot be read. */
static bool read_text(int fd, char text[TEXT_MAX])
{
	ssize_t n = fd < 0 ? -1 : pread(fd, text, TEXT_MAX - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The number behind a word at the beginning of a line; 0: it is not there. */
static uint64_t number_of(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, word, len) == 0)
			return strtoull(at + len, NULL, 10);
	}
	return 0;
}

/* A limit of a group: a number, or "max". */
static uint64_t limit_in(const char *folder, const char *name)
{
	char text[TEXT_MAX];
	int fd = open_in(folder, name);
	bool there = read_text(fd, text);

	if (fd >= 0)
		close(fd);
	return there && text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/* If this group has the lowest limit so far, it is the one that counts. */
static void look_at(struct meminfo *m, const char *folder)
{
	uint64_t max = limit_in(folder, "memory.max"), high = limit_in(folder, "memory.high");
	uint64_t limit = high < max ? high : max;

	if (limit >= m->limit)
		return;
	if (m->current >= 0)
		close(m->current);
	if (m->stat >= 0)
		close(m->stat);
	m->limit = limit;
	m->current = open_in(folder, "memory.current");
	m->stat = open_in(folder, "memory.stat");
}

/* /proc/self/cgroup has a line "0::/its/group". The groups above it count as well. */
static void find_group(struct meminfo *m, const char *root)
{
	char text[TEXT_MAX], folder[PATH_MAX], proc[PATH_MAX];
	const char *name;
	size_t top;
	int fd;

	snprintf(proc, sizeof(proc), "%s/proc/self", root);
	fd = open_in(proc, "cgroup");
	if (!read_text(fd, text))
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	name = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
	if (!name)
		return;
	name += strcspn(name, "/");
	top = (size_t)snprintf(folder, sizeof(folder), "%s/sys/fs/cgroup", root);
	if (top + strcspn(name, "\n") >= sizeof(folder))
		return;
	memcpy(folder + top, name, strcspn(name, "\n"));
	folder[top + strcspn(name, "\n")] = '\0';
	for (char *end; (end = strrchr(folder, '/')) >= folder + top; *end = '\0')
		look_at(m, folder);
	look_at(m, folder);
}

void meminfo_open(struct meminfo *m, const char *root)
{
	char text[TEXT_MAX], proc[PATH_MAX];

	*m = (struct meminfo){ .current = -1, .stat = -1, .limit = UINT64_MAX };
	snprintf(proc, sizeof(proc), "%s/proc", root);
	m->machine = open_in(proc, "meminfo");
	if (read_text(m->machine, text))
		m->total = number_of(text, "MemTotal:") * 1024;
	find_group(m, root);
}

void meminfo_close(struct meminfo *m)
{
	if (m->machine >= 0)
		close(m->machine);
	if (m->current >= 0)
		close(m->current);
	if (m->stat >= 0)
		close(m->stat);
	m->machine = m->current = m->stat = -1;
}

uint64_t meminfo_total(const struct meminfo *m)
{
	return m->limit < m->total ? m->limit : m->total;
}

/* What files of the group have in the page cache, and nobody has used lately, is given up before
 * anything else happens. */
static uint64_t left_in_group(const struct meminfo *m)
{
	char text[TEXT_MAX];
	uint64_t used, idle;

	if (!read_text(m->current, text))
		return UINT64_MAX;
	used = strtoull(text, NULL, 10);
	idle = read_text(m->stat, text) ? number_of(text, "inactive_file ") : 0;
	used -= idle < used ? idle : used;
	return used < m->limit ? m->limit - used : 0;
}

uint64_t meminfo_available(const struct meminfo *m)
{
	char text[TEXT_MAX];
	uint64_t machine = read_text(m->machine, text) ? number_of(text, "MemAvailable:") * 1024 : 0;
	uint64_t group = left_in_group(m);

	return group < machine ? group : machine;
}
