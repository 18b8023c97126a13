/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the program calls instead of the C library's: what makes descriptors, copies them, and ends
 * them; and what maps a file, or gives descriptors to another process.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include "lib/preload.h"
#include "lib/preload_real.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What fortified programs call; see preload_calls.c. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

/* ---- open ---- */

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	int fd = PRELOAD_REAL(openat, dir, path, flags, mode);

	if (fd >= 0 && preload_here())
		preload_fd_opened(fd, flags);
	return fd;
}

static mode_t mode_of(int flags, va_list ap)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

/* A function with open()'s parameters, of that name. */
#define OPEN(name)                                                      \
	PRELOAD_EXPORT int name(const char *path, int flags, ...)       \
	{                                                               \
		va_list ap;                                             \
		mode_t mode;                                            \
									\
		va_start(ap, flags);                                    \
		mode = mode_of(flags, ap);                              \
		va_end(ap);                                             \
		return open_at(AT_FDCWD, path, flags, mode);            \
	}

#define OPENAT(name)                                                    \
	PRELOAD_EXPORT int name(int dir, const char *path, int flags, ...) \
	{                                                               \
		va_list ap;                                             \
		mode_t mode;                                            \
									\
		va_start(ap, flags);                                    \
		mode = mode_of(flags, ap);                              \
		va_end(ap);                                             \
		return open_at(dir, path, flags, mode);                 \
	}

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

PRELOAD_EXPORT int __open_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}

PRELOAD_EXPORT int __open64_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}

PRELOAD_EXPORT int __openat_2(int dir, const char *path, int flags)
{
	return open_at(dir, path, flags, 0);
}

PRELOAD_EXPORT int __openat64_2(int dir, const char *path, int flags)
{
	return open_at(dir, path, flags, 0);
}

PRELOAD_EXPORT int creat(const char *path, mode_t mode)
{
	return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

PRELOAD_EXPORT int creat64(const char *path, mode_t mode)
{
	return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* ---- close ---- */

static bool not_theirs(int fd)
{
	return preload_fd_kept(fd) && !preload_inside && preload_here();
}

PRELOAD_EXPORT int close(int fd)
{
	if (not_theirs(fd)) {
		errno = EBADF;
		return -1;
	}
	if (preload_fd_kept(fd) && preload_inside)
		preload_fd_unkeep(fd);
	preload_fd_closed(fd);
	return PRELOAD_REAL(close, fd);
}

/* All but ours. */
PRELOAD_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	int kept = preload_here() ? preload_fd_next_kept(first, last) : -1;

	if (first > last || (flags & ~(int)(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE)))
		return PRELOAD_REAL(close_range, first, last, flags);
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		preload_fd_closed_range(first, last);
	for (; kept >= 0; kept = preload_fd_next_kept(first, last)) {
		if ((unsigned)kept > first && PRELOAD_REAL(close_range, first, (unsigned)kept - 1, flags))
			return -1;
		first = (unsigned)kept + 1;
	}
	return first <= last ? PRELOAD_REAL(close_range, first, last, flags) : 0;
}

PRELOAD_EXPORT void closefrom(int first)
{
	close_range(first > 0 ? (unsigned)first : 0, ~0u, 0);
}

/* ---- copies ---- */

PRELOAD_EXPORT int dup(int fd)
{
	int copy = PRELOAD_REAL(dup, fd);

	if (copy >= 0)
		preload_fd_duplicated(fd, copy);
	return copy;
}

static int dup_onto(int fd, int onto, int flags)
{
	int copy;

	if (not_theirs(onto)) {
		errno = EBUSY;
		return -1;
	}
	if (onto != fd)
		preload_fd_closed(onto);
	copy = PRELOAD_REAL(dup3, fd, onto, flags);
	if (copy >= 0)
		preload_fd_duplicated(fd, copy);
	return copy;
}

/* dup3() is EINVAL for the same number twice, and dup2() is not. */
PRELOAD_EXPORT int dup2(int fd, int onto)
{
	if (fd == onto)
		return PRELOAD_REAL(fcntl, fd, F_GETFD) < 0 ? -1 : fd;
	return dup_onto(fd, onto, 0);
}

PRELOAD_EXPORT int dup3(int fd, int onto, int flags)
{
	return dup_onto(fd, onto, flags);
}

/* Locks: what was read before is not what it is about. */
static void after_fcntl(int fd, int what, int rc)
{
	struct preload_file *f;

	switch (what) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		preload_fd_duplicated(fd, rc);
		break;
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		f = preload_fd_known(fd) ? preload_fd_get(fd, 0) : NULL;
		if (!f)
			break;
		preload_changed(f);
		preload_fd_put(f);
	}
}

static int control(int fd, int what, va_list ap)
{
	/* A number or a pointer: the C library takes either as this. */
	void *arg = va_arg(ap, void *);
	int rc = PRELOAD_REAL(fcntl, fd, what, arg);

	if (rc >= 0)
		after_fcntl(fd, what, rc);
	return rc;
}

#define FCNTL(name)                                                     \
	PRELOAD_EXPORT int name(int fd, int what, ...)                  \
	{                                                               \
		va_list ap;                                             \
		int rc;                                                 \
									\
		va_start(ap, what);                                     \
		rc = control(fd, what, ap);                             \
		va_end(ap);                                             \
		return rc;                                              \
	}

FCNTL(fcntl)
FCNTL(fcntl64)

/* ---- mmap ---- */

PRELOAD_EXPORT void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (fd >= 0 && !(flags & MAP_ANONYMOUS) && !preload_inside && preload_here())
		preload_mapped(fd);
	return PRELOAD_REAL(mmap, at, len, prot, flags, fd, offset);
}

PRELOAD_EXPORT void *mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	return mmap(at, len, prot, flags, fd, offset);
}

/* ---- what the library opens ---- */

PRELOAD_EXPORT int socket(int domain, int type, int protocol)
{
	int fd = PRELOAD_REAL(socket, domain, type, protocol);

	return preload_keeping ? preload_fd_keep(fd) : fd;
}

PRELOAD_EXPORT int socketpair(int domain, int type, int protocol, int fds[2])
{
	int rc = PRELOAD_REAL(socketpair, domain, type, protocol, fds);

	for (int i = 0; i < 2 && !rc && preload_keeping; i++)
		fds[i] = preload_fd_keep(fds[i]);
	return rc;
}

static void keep_all(struct cmsghdr *c)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int *fds = (int *)(void *)CMSG_DATA(c);

	for (size_t i = 0; i < n; i++)
		fds[i] = preload_fd_keep(fds[i]);
}

PRELOAD_EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t n = PRELOAD_REAL(recvmsg, fd, m, flags);

	if (n < 0 || !preload_keeping)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			keep_all(c);
	return n;
}

PRELOAD_EXPORT int memfd_create(const char *name, unsigned flags)
{
	int fd = PRELOAD_REAL(memfd_create, name, flags);

	return preload_keeping ? preload_fd_keep(fd) : fd;
}

/* ---- other processes that get our descriptors; fork() is pthread_atfork()'s ---- */

/* Into a pointer to a function. */
static void next(const char *name, void *function)
{
	void *at = dlsym(RTLD_NEXT, name);

	memcpy(function, &at, sizeof(at));
}

/* The C library closes a stream's number by itself. */
PRELOAD_EXPORT int fclose(FILE *stream)
{
	int fd = fileno(stream);

	if (fd >= 0)
		preload_fd_closed(fd);
	if (!preload_real.fclose)
		next("fclose", &preload_real.fclose);
	return preload_real.fclose(stream);
}

static void given_away(void)
{
	if (preload_here())
		preload_fd_inherited(true);
}

PRELOAD_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *acts,
			       const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	__typeof__(&posix_spawn) real;

	next("posix_spawn", &real);
	given_away();
	return real(pid, path, acts, attr, argv, envp);
}

PRELOAD_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *acts,
				const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	__typeof__(&posix_spawnp) real;

	next("posix_spawnp", &real);
	given_away();
	return real(pid, file, acts, attr, argv, envp);
}

PRELOAD_EXPORT int system(const char *command)
{
	__typeof__(&system) real;

	next("system", &real);
	given_away();
	return real(command);
}

PRELOAD_EXPORT FILE *popen(const char *command, const char *mode)
{
	__typeof__(&popen) real;

	next("popen", &real);
	given_away();
	return real(command, mode);
}
