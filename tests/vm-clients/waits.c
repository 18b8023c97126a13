/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waits for a server that is silent, in one system call:
 *
 *     waits DIR SITUATION         waits --list
 *
 * Prepares in DIR, says "ready", and does it when a line has come from standard input. Then
 * it says "done: " and what the call has returned, and ends with 0; what does not wait for the
 * server says so too. The files of DIR are made by the case (wedge): big, small, link, prog, and
 * d/ with some names. Exit status 1: the preparation has failed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define BLOCK 65536u
#define MAPPED (1u << 20)

static int fd = -1, fd2 = -1;
static char *at, *block;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void open_file(const char *name, int flags)
{
	fd = open(name, flags, 0666);
	if (fd < 0)
		die(name);
}

static void ready_nothing(void) { }
static void ready_small(void) { open_file("small", O_RDWR); }
static void ready_big(void) { open_file("big", O_RDWR); }
static void ready_direct(void) { open_file("big", O_RDWR | O_DIRECT); }

static void ready_map(void)
{
	ready_big();
	at = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("mmap");
}

/* Its pages are here, so that writing them asks nobody. */
static void ready_dirty(void)
{
	ready_map();
	for (size_t i = 0; i < MAPPED; i += 4096)
		*(volatile char *)(at + i) = (char)(at[i] + 1);
}

static void ready_written(void)
{
	ready_small();
	if (pwrite(fd, block, BLOCK, 0) != BLOCK)
		die("write");
}

static int locks(int cmd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, cmd, &l);
}

/* Another process has the lock. It ends with this one: it reads a pipe that has no other end then. */
static void ready_locked(void)
{
	int said[2], stays[2];
	char c;

	if (pipe(said) < 0 || pipe(stays) < 0)
		die("pipe");
	if (fork() == 0) {
		close(stays[1]);
		ready_small();
		if (locks(F_SETLK) < 0)
			die("lock");
		(void)!write(said[1], "", 1);
		(void)!read(stays[0], &c, 1);
		_exit(0);
	}
	ready_small();
	if (read(said[0], &c, 1) != 1)
		die("the other one's lock");
}

static void ready_copy(void)
{
	ready_big();
	fd2 = open("copied", O_RDWR | O_CREAT, 0666);
	if (fd2 < 0)
		die("copied");
}

/* Another process waits in fsync(2) with the file locked; this one comes behind it. */
static int do_behind(void)
{
	if (fork() == 0) {
		fsync(fd);
		_exit(0);
	}
	usleep(300000);
	return fsync(fd);
}

static int do_list(void)
{
	DIR *d = opendir("d");
	int n = 0;

	while (d && readdir(d))
		n++;
	return n ? 0 : -1;
}

static int do_exec(void)
{
	execl("./prog", "prog", (char *)NULL);
	return -1;
}

static int do_create(void)
{
	fd = open("new", O_RDWR | O_CREAT | O_EXCL, 0666);
	return fd;
}

/* As a write without close() does: exit() closes. */
static int do_exit(void) { _exit(0); }

static int do_open(void) { return open("small", O_RDONLY); }
static int do_read(void) { return pread(fd, block, BLOCK, 0) < 0 ? -1 : 0; }
static int do_write(void) { return pwrite(fd, block, BLOCK, 0) < 0 ? -1 : 0; }
static int do_close(void) { return close(fd); }
static int do_fsync(void) { return fsync(fd); }
static int do_fault(void) { return *(volatile char *)(at + 4096) & 0; }
static int do_msync(void) { return msync(at, MAPPED, MS_SYNC); }
static int do_munmap(void) { return munmap(at, MAPPED); }
static int do_syncfs(void) { return syncfs(fd); }
static int do_lock(void) { return locks(F_SETLK); }
static int do_lockw(void) { return locks(F_SETLKW); }
static int do_rename(void) { return rename("d/from", "d/to"); }
static int do_unlink(void) { return unlink("d/gone"); }
static int do_mkdir(void) { return mkdir("newdir", 0777); }
static int do_symlink(void) { return symlink("there", "newlink"); }
static int do_readlink(void) { return readlink("link", block, BLOCK) < 0 ? -1 : 0; }
static int do_stat(void) { struct stat st; return stat("small", &st); }
static int do_statfs(void) { struct statfs st; return statfs("small", &st); }
static int do_chmod(void) { return fchmod(fd, 0666); }
static int do_truncate(void) { return ftruncate(fd, 10); }
static int do_chdir(void) { return chdir("d"); }
static int do_copy(void) { return copy_file_range(fd, NULL, fd2, NULL, BLOCK, 0) < 0 ? -1 : 0; }
static int do_allocate(void) { return fallocate(fd, 0, 0, BLOCK); }
static int do_seek(void) { return lseek(fd, 0, SEEK_HOLE) < 0 ? -1 : 0; }
static int do_xattr(void) { return listxattr("small", block, BLOCK) < 0 ? -1 : 0; }

static const struct situation {
	const char *name;
	void (*ready)(void);
	int (*act)(void);
} situations[] = {
	{ "open", ready_nothing, do_open },
	{ "create", ready_nothing, do_create },
	{ "read", ready_big, do_read },
	{ "read-direct", ready_direct, do_read },
	{ "fault", ready_map, do_fault },
	{ "write-direct", ready_direct, do_write },
	{ "close", ready_written, do_close },
	{ "fsync", ready_written, do_fsync },
	{ "fsync-behind", ready_written, do_behind },
	{ "exit-written", ready_written, do_exit },
	{ "msync", ready_dirty, do_msync },
	{ "munmap", ready_dirty, do_munmap },
	{ "exit-mapped", ready_dirty, do_exit },
	{ "syncfs", ready_dirty, do_syncfs },
	{ "lock", ready_small, do_lock },
	{ "lock-wait", ready_locked, do_lockw },
	{ "readdir", ready_nothing, do_list },
	{ "rename", ready_nothing, do_rename },
	{ "unlink", ready_nothing, do_unlink },
	{ "mkdir", ready_nothing, do_mkdir },
	{ "symlink", ready_nothing, do_symlink },
	{ "readlink", ready_nothing, do_readlink },
	{ "stat", ready_nothing, do_stat },
	{ "statfs", ready_nothing, do_statfs },
	{ "chmod", ready_small, do_chmod },
	{ "truncate", ready_small, do_truncate },
	{ "chdir", ready_nothing, do_chdir },
	{ "exec", ready_nothing, do_exec },
	{ "copy", ready_copy, do_copy },
	{ "fallocate", ready_small, do_allocate },
	{ "seek", ready_big, do_seek },
	{ "listxattr", ready_nothing, do_xattr },
};
#define SITUATIONS (sizeof(situations) / sizeof(situations[0]))

static const struct situation *situation_named(const char *name)
{
	for (size_t i = 0; i < SITUATIONS; i++)
		if (strcmp(situations[i].name, name) == 0)
			return &situations[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct situation *s = argc == 3 ? situation_named(argv[2]) : NULL;
	int rc;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < SITUATIONS; i++)
			puts(situations[i].name);
		return 0;
	}
	if (!s) {
		fprintf(stderr, "usage: waits DIR SITUATION, or waits --list\n");
		return 1;
	}
	block = aligned_alloc(4096, BLOCK);
	if (!block || chdir(argv[1]) < 0)
		die(argv[1]);
	memset(block, 'w', BLOCK);
	s->ready();
	if (puts("ready") < 0 || fflush(stdout) || getchar() == EOF)
		die("standard input or output");
	rc = s->act();
	printf("done: %s\n", rc < 0 ? strerror(errno) : "Success");
	return 0;
}
