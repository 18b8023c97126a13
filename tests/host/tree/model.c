/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tree of one process, which nobody else touches: a few names in a few
 * directories, so that operations meet each other often.
 *
 *     slots[dir][name] -> nothing | directory | symlink | object (a file's bytes,
 *                         shared by its hard links)
 *
 * Each operation is predicted, made, and compared. One file at a time may be held
 * open, beyond its last name as well.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "tree.h"

#define DIRS  3u
#define NAMES 6u
#define SIZE_MAX_ 65536u
#define WRITE_MAX 20000u

enum kind { NONE, DIRECTORY, SYMLINK, FILE_ };

struct object {
	unsigned links, opens;
	unsigned silly;         /* names taken away while it was open: each may be there by another name */
	uint32_t size;
	char data[SIZE_MAX_];
};

struct slot {
	enum kind kind;
	uint64_t ino;           /* stays, whatever it is called */
	struct object *file;
	char target[32];
};

static char where[4096];
static struct slot slots[DIRS][NAMES], tops[DIRS];
static unsigned serial;
static struct { int fd; struct object *file; } held = { -1, NULL };

static void path_of(char *path, size_t size, const struct slot *s)
{
	size_t i = (size_t)(s - &slots[0][0]);

	snprintf(path, size, "%s/d%zu/n%zu", where, i / NAMES, i % NAMES);
}

#define PATH(var, slot) char var[4200]; path_of(var, sizeof(var), slot)

static void put(struct object *o)
{
	if (!o->links && !o->opens)
		free(o);
}

static void clear(struct slot *s)
{
	if (s->kind == FILE_) {
		s->file->links--;
		s->file->silly += s->file->opens;
		put(s->file);
	}
	s->kind = NONE;
	s->file = NULL;
}

/* ---- Names ---- */

/* Something was made there: which one it is. */
static void made(struct slot *s, enum kind kind, const char *path)
{
	struct stat st;

	s->kind = kind;
	s->ino = expect(lstat(path, &st), 0, "lstat", path) ? st.st_ino : 0;
}

static void create(struct slot *s)
{
	PATH(path, s);
	int fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0644);

	if (!expect(fd, s->kind == NONE ? 0 : EEXIST, "create", path) || fd < 0)
		return;
	expect(close(fd), 0, "close", path);
	made(s, FILE_, path);
	s->file = calloc(1, sizeof(*s->file));
	if (!s->file)
		exit(2);
	s->file->links = 1;
}

static void make_dir(struct slot *s)
{
	PATH(path, s);

	if (expect(mkdir(path, 0755), s->kind == NONE ? 0 : EEXIST, "mkdir", path) && s->kind == NONE)
		made(s, DIRECTORY, path);
}

static void make_symlink(struct slot *s)
{
	char target[32];
	PATH(path, s);

	snprintf(target, sizeof(target), "to.%u", serial++);
	if (!expect(symlink(target, path), s->kind == NONE ? 0 : EEXIST, "symlink", path) || s->kind != NONE)
		return;
	made(s, SYMLINK, path);
	memcpy(s->target, target, sizeof(target));
}

static void make_link(struct slot *from, struct slot *to)
{
	int want = from->kind == NONE ? ENOENT : to->kind != NONE ? EEXIST :
		   from->kind == DIRECTORY ? EPERM : 0;
	PATH(old, from);
	PATH(new, to);

	if (from->kind == SYMLINK)
		return;
	if (!expect(link(old, new), want, "link to", new) || want)
		return;
	to->kind = FILE_;
	to->ino = from->ino;
	to->file = from->file;
	to->file->links++;
}

static void unlink_(struct slot *s)
{
	int want = s->kind == NONE ? ENOENT : s->kind == DIRECTORY ? EISDIR : 0;
	PATH(path, s);

	if (expect(unlink(path), want, "unlink", path) && !want)
		clear(s);
}

static void rmdir_(struct slot *s)
{
	int want = s->kind == NONE ? ENOENT : s->kind == DIRECTORY ? 0 : ENOTDIR;
	PATH(path, s);

	if (expect(rmdir(path), want, "rmdir", path) && !want)
		clear(s);
}

static void rename_(struct slot *from, struct slot *to)
{
	bool both = from->kind != NONE && to->kind != NONE && from != to;
	int want = from->kind == NONE ? ENOENT :
		   both && from->kind == DIRECTORY && to->kind != DIRECTORY ? ENOTDIR :
		   both && from->kind != DIRECTORY && to->kind == DIRECTORY ? EISDIR : 0;
	PATH(old, from);
	PATH(new, to);

	if (!expect(rename(old, new), want, "rename to", new) || want || from == to)
		return;
	if (from->kind == FILE_ && to->kind == FILE_ && from->file == to->file)
		return;         /* two names of one file: POSIX leaves both */
	clear(to);
	*to = *from;
	from->kind = NONE;
	from->file = NULL;
}

/* ---- Bytes ---- */

static void fill(char *data, uint32_t len)
{
	uint32_t x = chance(UINT32_MAX);

	for (uint32_t i = 0; i < len; i++, x = x * 1664525u + 1013904223u)
		data[i] = (char)(x >> 24);
}

/* At `at`, or with O_APPEND at the end. */
static void write_fd(struct object *o, int fd, bool append, const char *path)
{
	static char data[WRITE_MAX];
	uint32_t len = 1 + chance(chance(3) ? 300 : WRITE_MAX);
	uint32_t at = append ? o->size : chance(o->size + 4096);
	ssize_t n;

	if (at + len > SIZE_MAX_)
		return;
	fill(data, len);
	n = append ? write(fd, data, len) : pwrite(fd, data, len, at);
	if (n != (ssize_t)len) {
		wrong("write to %s: %zd of %u bytes: %s", path, n, len, strerror(errno));
		return;
	}
	if (at > o->size)
		memset(o->data + o->size, 0, at - o->size);
	memcpy(o->data + at, data, len);
	if (at + len > o->size)
		o->size = at + len;
	if (!chance(4))
		expect(fsync(fd), 0, "fsync", path);
}

static void read_fd(const struct object *o, int fd, const char *path)
{
	static char data[SIZE_MAX_ + 1];
	struct stat st;
	ssize_t n = pread(fd, data, sizeof(data), 0);

	if (n != (ssize_t)o->size)
		wrong("read of %s: %zd bytes, not %u", path, n, o->size);
	else
		for (uint32_t i = 0; i < o->size; i++)
			if (data[i] != o->data[i]) {
				wrong("read of %s: another byte at %u of %u", path, i, o->size);
				break;
			}
	if (expect(fstat(fd, &st), 0, "fstat", path) && st.st_size != (off_t)o->size)
		wrong("size of %s: %lld, not %u", path, (long long)st.st_size, o->size);
}

static void resize(struct object *o, uint32_t size)
{
	if (size > o->size)
		memset(o->data + o->size, 0, size - o->size);
	o->size = size;
}

static void use_file(struct slot *s)
{
	unsigned what = chance(5);
	bool append = what == 1;
	uint32_t size = chance(SIZE_MAX_ / 2);
	PATH(path, s);
	int fd;

	if (s->kind != FILE_) {
		if (s->kind == NONE)
			expect(open(path, O_RDONLY), ENOENT, "open", path);
		return;
	}
	if (what == 2) {
		if (expect(truncate(path, size), 0, "truncate", path))
			resize(s->file, size);
		return;
	}
	fd = open(path, O_RDWR | (append ? O_APPEND : 0));
	if (!expect(fd, 0, "open", path))
		return;
	if (what < 2)
		write_fd(s->file, fd, append, path);
	else
		read_fd(s->file, fd, path);
	expect(close(fd), 0, "close", path);
}

/* The one that stays open, its names gone or not. */
static void use_held(struct slot *s)
{
	PATH(path, s);

	if (held.fd < 0) {
		if (s->kind != FILE_)
			return;
		held.fd = open(path, O_RDWR);
		if (expect(held.fd, 0, "open", path)) {
			held.file = s->file;
			held.file->opens++;
		}
	} else if (chance(6)) {
		if (chance(2))
			write_fd(held.file, held.fd, false, "(open)");
		else
			read_fd(held.file, held.fd, "(open)");
	} else {
		expect(close(held.fd), 0, "close", "(open)");
		held.fd = -1;
		held.file->opens--;
		put(held.file);
	}
}

/* ---- Looking ---- */

/* The kernel tells of a close() later. A name that is taken away before that is there by another
 * one until then, while a path fails for some seconds. That ends: the server is asked until it has. */
#define TRIES 200u

static bool has_too_many_links(const struct object *f, const char *path, uint64_t nlink)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	struct statx stx;

	for (unsigned i = 0; nlink > f->links + f->silly && i < TRIES; i++) {
		nanosleep(&pause, NULL);
		if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC, STATX_NLINK, &stx))
			return true;
		nlink = stx.stx_nlink;
	}
	return nlink > f->links + f->silly;
}

static void look(struct slot *s)
{
	mode_t want = s->kind == DIRECTORY ? S_IFDIR : s->kind == SYMLINK ? S_IFLNK : S_IFREG;
	struct stat st;
	char target[64];
	ssize_t n;
	PATH(path, s);

	if (!expect(lstat(path, &st), s->kind == NONE ? ENOENT : 0, "lstat", path) || s->kind == NONE)
		return;
	if ((st.st_mode & S_IFMT) != want)
		wrong("lstat %s: mode %o", path, st.st_mode);
	if (st.st_ino != s->ino)
		wrong("lstat %s: inode %llu, not %llu", path, (unsigned long long)st.st_ino,
		      (unsigned long long)s->ino);
	if (s->kind == FILE_ && (st.st_nlink < s->file->links || has_too_many_links(s->file, path, st.st_nlink)))
		wrong("lstat %s: %lu links, not %u", path, (unsigned long)st.st_nlink, s->file->links);
	if (s->kind != SYMLINK)
		return;
	n = readlink(path, target, sizeof(target));
	if (n != (ssize_t)strlen(s->target) || memcmp(target, s->target, (size_t)n) != 0)
		wrong("readlink %s: %.*s, not %s", path, (int)(n < 0 ? 0 : n), target, s->target);
}

static void list_dir(unsigned d)
{
	unsigned seen[NAMES] = { 0 }, n;
	struct dirent *e;
	char path[4200];
	DIR *dir;

	snprintf(path, sizeof(path), "%s/d%u", where, d);
	dir = opendir(path);
	if (!dir) {
		wrong("opendir %s: %s", path, strerror(errno));
		return;
	}
	for (errno = 0; (e = readdir(dir)); errno = 0)
		if (sscanf(e->d_name, "n%u", &n) == 1 && n < NAMES)
			seen[n]++;
	expect(errno ? -1 : 0, 0, "readdir", path);
	closedir(dir);
	for (n = 0; n < NAMES; n++)
		if (seen[n] != (slots[d][n].kind != NONE))
			wrong("readdir %s: n%u %u times", path, n, seen[n]);
}

/* ---- The steps ---- */

void model_start(const char *dir)
{
	char path[4200];

	snprintf(where, sizeof(where), "%s", dir);
	expect(mkdir(where, 0755), 0, "mkdir", where);
	for (unsigned d = 0; d < DIRS; d++) {
		snprintf(path, sizeof(path), "%s/d%u", where, d);
		expect(mkdir(path, 0755), 0, "mkdir", path);
		made(&tops[d], DIRECTORY, path);
	}
}

void model_step(void)
{
	struct slot *s = &slots[chance(DIRS)][chance(NAMES)], *t = &slots[chance(DIRS)][chance(NAMES)];

	switch (chance(16)) {
	case 0: case 1: create(s); break;
	case 2: make_dir(s); break;
	case 3: make_symlink(s); break;
	case 4: make_link(s, t); break;
	case 5: unlink_(s); break;
	case 6: rmdir_(s); break;
	case 7: case 8: rename_(s, t); break;
	case 9: use_held(s); break;
	case 10: look(s); break;
	case 11: list_dir(chance(DIRS)); break;
	default: use_file(s); break;
	}
}

static void describe(FILE *f, const struct slot *s, unsigned d, unsigned n)
{
	if (s->kind == NONE)
		return;
	fprintf(f, "d%u/n%u %llu ", d, n, (unsigned long long)s->ino);
	if (s->kind == DIRECTORY)
		fprintf(f, "dir\n");
	else if (s->kind == SYMLINK)
		fprintf(f, "link %s\n", s->target);
	else
		fprintf(f, "file %u %016llx %u\n", s->file->size,
			(unsigned long long)list_sum(s->file->data, s->file->size), s->file->links);
}

void model_end(const char *out)
{
	FILE *f = fopen(out, "w");

	if (!f) {
		perror(out);
		exit(2);
	}
	if (held.fd >= 0)
		expect(close(held.fd), 0, "close", "(open)");
	for (unsigned d = 0; d < DIRS; d++) {
		fprintf(f, "d%u %llu dir\n", d, (unsigned long long)tops[d].ino);
		for (unsigned n = 0; n < NAMES; n++)
			describe(f, &slots[d][n], d, n);
	}
	if (fclose(f)) {
		perror(out);
		exit(2);
	}
}
