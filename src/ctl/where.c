/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl/where.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"

#define LINKS_MAX 40

struct ctl_roots ctl_roots = { .run = "/run", .run_user = "/run/user", .tmp = "/tmp" };
const char *ctl_mountinfo = "/proc/self/mountinfo";

/* ---- mountinfo, see proc_pid_mountinfo(5) ---- */

/* Space, tab, newline, backslash and '#' are written as a backslash and three octal digits. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' &&
		    p[3] >= '0' && p[3] <= '7') {
			*to++ = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

/* The value of user_id=, or (uid_t)-1. */
static uid_t owner_of(char *options)
{
	char *save;

	for (char *o = strtok_r(options, ",", &save); o; o = strtok_r(NULL, ",", &save))
		if (strncmp(o, "user_id=", 8) == 0)
			return (uid_t)strtoul(o + 8, NULL, 10);
	return (uid_t)-1;
}

/* One line: ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS.
 * *mountpoint points into it. */
static bool parse_line(char *line, struct ctl_mount *m, char **mountpoint)
{
	char *save, *word = strtok_r(line, " \n", &save), *field[6] = { NULL };
	const char *type;
	int n = 0;

	for (; word && strcmp(word, "-") != 0; word = strtok_r(NULL, " \n", &save))
		if (n < 6)
			field[n++] = word;
	type = word ? strtok_r(NULL, " \n", &save) : NULL;
	/* The source, which may be empty, is followed by one space. */
	word = type ? strchr(save, ' ') : NULL;
	if (n < 6 || !word || sscanf(field[0], "%d", &m->id) != 1 ||
	    sscanf(field[2], "%u:%u", &m->major, &m->minor) != 2)
		return false;
	unescape(field[4]);
	*mountpoint = field[4];
	m->ours = strcmp(type, "fuse." PACKAGE_NAME) == 0;
	word[1 + strcspn(word + 1, " \n")] = '\0';
	m->owner = owner_of(word + 1);
	return true;
}

bool ctl_where_find(FILE *mountinfo, const char *mountpoint, struct ctl_mount *out)
{
	struct ctl_mount m;
	char *line = NULL, *there;
	size_t size = 0;
	bool found = false;

	while (getline(&line, &size, mountinfo) >= 0) {
		if (!parse_line(line, &m, &there) || strcmp(there, mountpoint) != 0)
			continue;
		*out = m;
		found = true;
	}
	free(line);
	return found;
}

bool ctl_where_mounted(FILE *mountinfo, const struct ctl_mount *m, const char *mountpoint)
{
	struct ctl_mount other;
	char *line = NULL, *there;
	size_t size = 0;
	bool found = false;

	while (!found && getline(&line, &size, mountinfo) >= 0)
		found = parse_line(line, &other, &there) && other.ours && other.major == m->major &&
			other.minor == m->minor && strcmp(there, mountpoint) == 0;
	free(line);
	return found;
}

char *ctl_where_now(FILE *mountinfo, const struct ctl_mount *m)
{
	struct ctl_mount other;
	char *line = NULL, *there, *out = NULL;
	size_t size = 0;

	while (!out && getline(&line, &size, mountinfo) >= 0)
		if (parse_line(line, &other, &there) && other.ours && other.id == m->id &&
		    other.major == m->major && other.minor == m->minor)
			out = strdup(there);
	free(line);
	return out;
}

/* ---- mount points ---- */

/* PARENT/LAST, or PARENT above if LAST is "..". */
static char *join(const char *parent, const char *last)
{
	size_t len = strlen(parent);
	char *out;

	if (strcmp(last, "..") == 0) {
		const char *slash = strrchr(parent, '/');

		len = slash && slash > parent ? (size_t)(slash - parent) : 1;
		return strndup(parent, len);
	}
	if (!*last || strcmp(last, ".") == 0)
		return strdup(parent);
	return asprintf(&out, "%s%s%s", parent, parent[len - 1] == '/' ? "" : "/", last) < 0 ?
	       NULL : out;
}

/* realpath() of "." looks at no file: the kernel knows the name of the directory. */
static char *resolve_parent(const char *path)
{
	size_t len = strlen(path);
	char *copy, *slash, *parent, *out = NULL;

	while (len > 1 && path[len - 1] == '/')
		len--;
	copy = strndup(path, len);
	if (!copy)
		return NULL;
	slash = strrchr(copy, '/');
	if (slash)
		*slash = '\0';
	parent = !slash ? getcwd(NULL, 0) : realpath(slash == copy ? "/" : copy, NULL);
	if (parent)
		out = join(parent, slash ? slash + 1 : copy);
	free(parent);
	free(copy);
	return out;
}

char *ctl_where_resolve(const char *path)
{
	char *out = resolve_parent(path);

	for (int i = 0; out && i < LINKS_MAX; i++) {
		char target[PATH_MAX], *from = NULL;
		/* Of a directory that is mounted over it says EINVAL, without asking the file
		 * system there. */
		ssize_t n = readlink(out, target, sizeof(target) - 1);

		if (n <= 0)
			return out;
		target[n] = '\0';
		*strrchr(out, '/') = '\0';
		if (asprintf(&from, "%s%s%s", *target == '/' ? "" : out, *target == '/' ? "" : "/",
			     target) < 0)
			from = NULL;
		free(out);
		out = from ? resolve_parent(from) : NULL;
		free(from);
	}
	if (out)
		errno = ELOOP;
	free(out);
	return NULL;
}

/* ---- directories ---- */

unsigned ctl_where_dirs(uid_t uid, char out[CTL_DIRS][CTL_DIR_MAX])
{
	char home[CTL_DIR_MAX];
	struct stat st;
	unsigned n = 0;

	if (uid == 0) {
		snprintf(out[0], CTL_DIR_MAX, "%s/" PACKAGE_NAME, ctl_roots.run);
		return 1;
	}
	snprintf(home, sizeof(home), "%s/%u", ctl_roots.run_user, uid);
	if (lstat(home, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid)
		snprintf(out[n++], CTL_DIR_MAX, "%s/%u/" PACKAGE_NAME, ctl_roots.run_user, uid);
	snprintf(out[n++], CTL_DIR_MAX, "%s/" PACKAGE_NAME "-%u", ctl_roots.tmp, uid);
	return n;
}

int ctl_where_check(const char *dir, uid_t uid, struct errbuf *eb)
{
	struct stat st;
	const char *why;

	if (lstat(dir, &st) < 0)
		return err_set(eb, -errno, "'%s': %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		why = "is not a directory";
	else if (st.st_uid != uid)
		why = "is another user's directory";
	else if (st.st_mode & 077)
		why = "is open to other users";
	else
		return 0;
	return err_set(eb, -EPERM, "'%s' %s, so it is not used: remove it, or make it a directory of "
		       "uid %u with mode 0700", dir, why, uid);
}

void ctl_where_name(const char *dir, const struct ctl_mount *m, char out[CTL_NAME_MAX])
{
	snprintf(out, CTL_NAME_MAX, "%.*s/%u:%u", (int)CTL_DIR_MAX - 1, dir, m->major, m->minor);
}

int ctl_where_make(char out[CTL_DIR_MAX], struct errbuf *eb)
{
	char dirs[CTL_DIRS][CTL_DIR_MAX];
	uid_t uid = geteuid();

	ctl_where_dirs(uid, dirs);
	memcpy(out, dirs[0], CTL_DIR_MAX);
	if (mkdir(out, 0700) < 0 && errno != EEXIST)
		return err_set(eb, -errno, "cannot make '%s': %s", out, strerror(errno));
	return ctl_where_check(out, uid, eb);
}
